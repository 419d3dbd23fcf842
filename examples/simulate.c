/* Time of an MSCCL program over message sizes. Usage: simulate CLUSTER PROGRAM.xml */
#include <sim/sim.h>

#include <stdio.h>

int main(int argc, char **argv) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_program_t *program = NULL;
    ccl_status_t status = ccl_topology_read(NULL, argc > 1 ? argv[1] : "dgx-h100", &topo, &err);
    if (status == CCL_OK)
        status = ccl_program_read(argc > 2 ? argv[2] : "-", &program, &err);
    printf("%12s %12s %12s\n", "bytes", "time(us)", "busbw(GB/s)");
    for (double bytes = 65536; bytes <= 1 << 28 && status == CCL_OK; bytes *= 16) {
        ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *run = NULL;
        sim.size_bytes = bytes;
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &run, &err);
        if (status == CCL_OK)
            printf("%12.0f %12.2f %12.2f\n", bytes, run->time_s * 1e6, run->busbw_GBps);
        ccl_sim_result_destroy(run);
    }
    if (status != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
    return ccl_status_exit_code(status);
}
