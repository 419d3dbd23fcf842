"""What the Python package costs: simulate() over the C call, and importing.

    CCLLAB_LIBRARY=build/release/lib/libccllab.so PYTHONPATH=python python3 bench/cases/python.py

The C call is made by compiled C on the same objects, in turns with simulate(), in one process; CPU time of the calling
thread, the least of several turns. Programs have 64 ranks. Importing is measured in processes of their own.
"""

import compileall
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import ccllab

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C = """
#include "sim/sim.h"
#include <time.h>
double turn(const ccl_topology_t *topo, const ccl_program_t *program, double size_bytes, int level, int n) {
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < n; i++) {
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_sim_result_t *result = NULL;
        options.size_bytes = size_bytes;
        options.granularity = level;
        options.cause = true;
        if (ccl_sim_program(&ctx, topo, NULL, program, &options, &result, &err) != CCL_OK)
            return -1;
        ccl_sim_result_destroy(result);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec);
}
"""


def c_turn(folder):
    """The function above; its calls go to the library that the package has loaded."""
    source, library = os.path.join(folder, "turn.c"), os.path.join(folder, "turn.so")
    with open(source, "w") as file:
        file.write(C)
    cc = [os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-shared", "-fPIC", "-I", SOURCE]
    subprocess.run([*cc, source, "-o", library], check=True)
    ctypes.CDLL(os.environ["CCLLAB_LIBRARY"], ctypes.RTLD_GLOBAL)
    turn = ctypes.CDLL(library).turn
    turn.restype = ctypes.c_double
    turn.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double, ctypes.c_int, ctypes.c_int]
    return turn


def python_turn(topo, program, size, n):
    begun = time.thread_time()
    for _ in range(n):
        ccllab.simulate(topo, program, size)
    return time.thread_time() - begun


def calls(turn):
    cluster = ccllab.topology("dgx-h100*8")
    for with_, size, more in (
        ("ring", 1 << 20, {"channels": 1}),
        ("hm", 1 << 20, {}),
        ("ring", 64 << 20, {"channels": 16}),
    ):
        program = ccllab.synthesize(cluster, "allgather", with_, size, **more).lower(cluster, size)
        level = ["algorithm", "stage", "task"].index(program.granularity)
        about = cluster._address, program._handle.address, float(size), level
        ccllab.simulate(cluster, program, size)  # it is proven once
        n = max(1, int(0.1 / turn(*about, 1)))
        pairs = [(turn(*about, n) / n, python_turn(cluster, program, size, n) / n) for _ in range(25)]
        in_c, in_python = min(p[0] for p in pairs), min(p[1] for p in pairs)
        ratio = statistics.median(p[1] / p[0] for p in pairs)
        print(
            f"simulate {with_} of {program.nsteps} steps, 64 ranks: C {in_c * 1e3:.3f} ms, Python {in_python * 1e3:.3f} ms, "
            f"ratio {in_python / in_c:.4f} (median of turns {ratio:.4f})"
        )


def fixed(turn):
    """What a call costs whatever it simulates, by a program of two ranks."""
    pair = ccllab.topology("servers:1 gpus:2 nvswitch=100GB/s,1us")
    program = ccllab.synthesize(pair, "allgather", "direct", channels=1).lower(pair, 1 << 20)
    about = pair._address, program._handle.address, float(1 << 20), 0
    pairs = [(turn(*about, 300) / 300, python_turn(pair, program, 1 << 20, 300) / 300) for _ in range(15)]
    print(f"a call more than C: {(min(p[1] for p in pairs) - min(p[0] for p in pairs)) * 1e6:.0f} us")


def imports(cache):
    shutil.copytree(os.path.dirname(ccllab.__file__), cache + "/ccllab", ignore=shutil.ignore_patterns("__pycache__"))
    for compiled in (True, False):
        for what, code in (
            ("import ccllab", "import ccllab"),
            ("import ccllab and load the library", "import ccllab; ccllab.library()"),
        ):
            times = []
            environment = {**os.environ, "PYTHONPATH": cache, "PYTHONDONTWRITEBYTECODE": "1"}
            if compiled:
                compileall.compile_dir(cache + "/ccllab", quiet=1)
            else:
                shutil.rmtree(cache + "/ccllab/__pycache__", ignore_errors=True)
            for _ in range(15):
                timed = (
                    "import time; a, c = time.perf_counter(), time.process_time(); " + code + "; "
                    "print(time.perf_counter() - a, time.process_time() - c)"
                )
                done = subprocess.run(
                    [sys.executable, "-c", timed], check=True, capture_output=True, text=True, env=environment
                )
                times.append([1e3 * float(word) for word in done.stdout.split()])
            wall, cpu = (statistics.median(column) for column in zip(*times))
            how = "compiled" if compiled else "not compiled"
            print(f"{what}, {how}: {cpu:.1f} ms of CPU, {wall:.1f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        turn = c_turn(folder)
        calls(turn)
        fixed(turn)
        imports(folder)
