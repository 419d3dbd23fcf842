/* What would slower NICs cost an AllReduce of 64 MiB? Usage: sweep CLUSTER */
#include <make/make.h>

#include <stdio.h>

int main(int argc, char **argv) {
    static const char *const edits[] = {NULL, "scale:bandwidth:net=0.5",
                                        "scale:bandwidth:net=0.25"};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    double whole_s = 0;
    synth.size_bytes = 1 << 26;
    ccl_status_t status =
        ccl_topology_read(NULL, argc > 1 ? argv[1] : "heteccl-h20-4+8", &topo, &err);
    if (status == CCL_OK)
        status = ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, &err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(edits) && status == CCL_OK; i++) {
        ccl_topology_t *edited = NULL;
        ccl_made_t made = {0};
        if (edits[i])
            status = ccl_topology_edit(topo, edits[i], &edited, &err);
        if (status == CCL_OK)
            status = ccl_make(NULL, "ring", edited ? edited : topo, NULL, want, &synth, NULL, true,
                              &made, &err);
        if (status == CCL_OK) {
            whole_s = i == 0 ? made.run->time_s : whole_s;
            printf("%-26s %9.2f us  %.2f\n", edits[i] ? edits[i] : "as it is",
                   made.run->time_s * 1e6, made.run->time_s / whole_s);
        }
        ccl_made_fini(&made);
        ccl_topology_destroy(edited);
    }
    if (status != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return ccl_status_exit_code(status);
}
