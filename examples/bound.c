/* How far is a synthesizer from what is possible? Usage: bound CLUSTER SYNTHESIZER */
#include <make/make.h>

#include <stdio.h>

int main(int argc, char **argv) {
    const char *with = argc > 2 ? argv[2] : "ring";
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    ccl_made_t made = {0};
    bool bounded = false;
    options.size_bytes = synth.size_bytes = 1 << 28;
    ccl_status_t status = ccl_topology_read(NULL, argc > 1 ? argv[1] : "dgx-h100", &topo, &err);
    if (status == CCL_OK)
        status = ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, &err);
    if (status == CCL_OK) {
        status = ccl_bound(NULL, topo, want, &options, &bound, &err);
        bounded = status == CCL_OK;
    }
    if (status == CCL_OK)
        status = ccl_make(NULL, with, topo, NULL, want, &synth, NULL, true, &made, &err);
    if (status == CCL_OK)
        printf("%s: %.2f us, bound %.2f us, gap %.3f\n", with, made.run->time_s * 1e6,
               bound.time_s * 1e6, made.run->time_s / bound.time_s);
    else
        fprintf(stderr, "%s\n", err.text);
    if (bounded)
        ccl_bound_fini(&bound);
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return ccl_status_exit_code(status);
}
