// timeout: 300
/*
 * Whole stand-alone sources, host part and test main included, compiled as C++ against stand-ins
 * for CUDA's and HIP's runtime and for NCCL's device API (fakegpu/) and run on the host: ranks that
 * share a device, that have one each, that are processes, that reach each other by GIN. And by nvcc
 * for what it is written for, where nvcc is.
 */
#include "common.h"
#include "tests/base/nightly.h"

static const char random_spec[] = "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us";
static char folder[] = "/tmp/ccl-source-XXXXXX";

static bool no_compiler(const char *path) {
    return !strlen(path) || strstr(path, "NOTFOUND");
}

/** Exit code of a command; 124: it took too long. Its output is in `out` of the folder. */
static int run_command(const char *command) {
    char line[3000];
    snprintf(line, sizeof line, "cd %s && { %s; } >out 2>&1", folder, command);
    int code = system(line);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static void ck_run(const char *command, int want, const char *text) {
    char path[64], *out = NULL;
    size_t len = 0;
    int code = run_command(command);
    snprintf(path, sizeof path, "%s/out", folder);
    ck_assert_int_eq(ccl_file_read(path, 1 << 20, &out, &len, NULL), CCL_OK);
    ck_assert_msg(code == want && strstr(out, text), "%s: exit code %d: %.1500s", command, code,
                  out);
    free(out);
}

typedef struct source {
    const char *with;
    ccl_collective_kind_t kind;
    ccl_standalone_for_t what;
    ccl_run_protocol_t protocol;
    bool daily;
} source_t;

static const source_t sources[] = {
    {"ring", CCL_ALLREDUCE, CCL_STANDALONE_CUDA, CCL_RUN_LL128, true},
    {"ring", CCL_ALLREDUCE, CCL_STANDALONE_NCCL, CCL_RUN_SIMPLE, true},
    {"direct", CCL_ALLTOALL, CCL_STANDALONE_HIP, CCL_RUN_LL, false},
    {"ring", CCL_REDUCESCATTER, CCL_STANDALONE_CUDA, CCL_RUN_SIMPLE, false},
    {"direct", CCL_REDUCE, CCL_STANDALONE_CUDA, CCL_RUN_LL, false},
    {"direct", CCL_GATHER, CCL_STANDALONE_HIP, CCL_RUN_SIMPLE, false},
    {"recursive", CCL_ALLGATHER, CCL_STANDALONE_NCCL, CCL_RUN_LL128, false},
    {"direct", CCL_SCATTER, CCL_STANDALONE_NCCL, CCL_RUN_LL, false},
};

/** kernel.cpp and kernel.cu in the folder, the first with the stand-in's end. */
static void write_source(const source_t *s, ccl_program_t *program) {
    ccl_standalone_options_t o = CCL_STANDALONE_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};
    char path[64];
    o.what = s->what;
    o.protocol = s->protocol;
    o.slots = 4;
    o.slice_bytes = 256; /* a thousand items take several micro-batches */
    ck_assert_msg(ccl_standalone_write(program, &o, &text, &err) == CCL_OK, "%s", err.text);
    snprintf(path, sizeof path, "%s/kernel.cu", folder);
    ck_assert_int_eq(ccl_file_write(path, text.data, text.len, NULL), CCL_OK);
    ccl_text_printf(&text, "\n%s#include \"end.h\"\n",
                    s->what == CCL_STANDALONE_CUDA ? "#define CCL_FAKE_OWN\n" : "");
    snprintf(path, sizeof path, "%s/kernel.cpp", folder);
    ck_assert_int_eq(ccl_file_write(path, text.data, text.len, NULL), CCL_OK);
    ccl_text_fini(&text);
}

/** @param more  options. */
static void compile_here(const char *more, int want, const char *text) {
    char command[2000];
    snprintf(
        command, sizeof command,
        "%s -std=c++17 -O0 -Wall -Wextra -Werror %s -I%s -I%s -include %s kernel.cpp -o kernel %s "
        "-pthread",
        CCL_HOST_CXX, more, FAKE_FOLDER, FAKE_HIP, HOST_MACHINE, HOST_LIBRARY);
    ck_run(command, want, text);
}

/** All ranks are processes of a job. */
static void run_job(uint32_t nranks) {
    char command[1000] = "export FAKE_DEVICES=4; p=; ", one[120];
    for (uint32_t r = 0; r < nranks; r++) {
        snprintf(one, sizeof one, "./kernel --max 10 --rank %u --job job-$$ & p=\"$p $!\"; ", r);
        strcat(command, one);
    }
    strcat(command, "for i in $p; do wait $i || exit 9; done");
    ck_run(command, 0, "of 1 ranks, all data right");
}

static void run_source(const source_t *s) {
    static const char right[] = "of 4 ranks, all data right";
    if (s->what == CCL_STANDALONE_NCCL) {
        ck_run("FAKE_DEVICES=4 timeout 200 ./kernel --max 10", 0, right);
        ck_run("FAKE_DEVICES=4 FAKE_LSA=2 timeout 200 ./kernel --max 1000", 0, right);
        ck_run("FAKE_DEVICES=3 ./kernel", 77, "4 ranks, but 3 devices are here");
        return;
    }
    ck_run("timeout 200 ./kernel --max 1000 --time", 0, right);
    ck_run("FAKE_DEVICES=4 FAKE_NVLINK=0 timeout 200 ./kernel --max 10", 0, right);
    ck_run("FAKE_DEVICES=0 ./kernel", 77, "no device is here");
    ck_run("FAKE_DEVICES=4 FAKE_PEERS=0 ./kernel", 1, "peer access");
    ck_run("FAKE_UNITS=0 ./kernel", 1, "fewer thread blocks");
    ck_run("./kernel --what", 2, "usage");
    run_job(4);
    if (s->what == CCL_STANDALONE_CUDA && s->kind == CCL_ALLREDUCE)
        ck_run("FAKE_CALLS=1 timeout 200 ./kernel", 0, "");
}

START_TEST(test_stand_ins) {
    const source_t *s = &sources[_i];
    if (no_compiler(CCL_HOST_CXX) || !(s->daily || nightly()))
        return;
    ccl_program_t *p = program_of(s->with, s->kind, random_spec, NULL);
    write_source(s, p);
    compile_here(s->what == CCL_STANDALONE_HIP ? "-D__HIP__" : "", 0, "");
    run_source(s);
    if (s->what == CCL_STANDALONE_NCCL && nightly()) {
        compile_here("-DNCCL_VERSION_CODE=22800", 0, "");
        ck_run("FAKE_DEVICES=4 timeout 200 ./kernel --max 1000", 0, "all data right");
        ck_run("FAKE_DEVICES=4 FAKE_LSA=2 timeout 200 ./kernel", 1, "NCCL 2.28.7 or newer");
        compile_here("-DNCCL_VERSION_CODE=22807", 0, "");
        ck_run("FAKE_DEVICES=4 FAKE_LSA=2 timeout 200 ./kernel --max 1000", 0, "all data right");
        compile_here("-DNCCL_VERSION_CODE=22700", 1, "NCCL 2.28 or newer is needed");
    }
    ccl_program_destroy(p);
}
END_TEST

/* Of each architecture; every day one source to PTX, nightly all to machine code. */
START_TEST(test_nvcc) {
    const source_t *s = &sources[_i];
    char command[2000];
    if (no_compiler(CCL_HOST_NVCC) || s->what == CCL_STANDALONE_HIP || !(_i == 0 || nightly()))
        return;
    ccl_program_t *p = program_of(s->with, s->kind, random_spec, NULL);
    write_source(s, p);
    snprintf(command, sizeof command, "%s -std=c++17 %s -I%s kernel.cu -o kernel.o", CCL_HOST_NVCC,
             nightly() ? "-O3 -c -gencode arch=compute_80,code=sm_80 -gencode "
                         "arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100"
                       : "-ptx -arch=sm_80",
             s->what == CCL_STANDALONE_NCCL ? FAKE_NCCL : ".");
    ck_run(command, 0, "");
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.standalone");
    TCase *tcase = tcase_create("standalone");
    if (no_compiler(CCL_HOST_CXX) && no_compiler(CCL_HOST_NVCC)) {
        printf("neither a C++ compiler nor nvcc is here\n");
        return 77;
    }
    if (!mkdtemp(folder))
        return 4;
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_stand_ins, 0, (int)CCL_ARRAY_LEN(sources));
    tcase_add_loop_test(tcase, test_nvcc, 0, (int)CCL_ARRAY_LEN(sources));
    suite_add_tcase(suite, tcase);
    int code = run_suite(suite);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? code : 4;
}
