/* The fastest of three synthesizers for one message size, as an MSCCL program on standard output.
 * Usage: synthesize CLUSTER SIZE-IN-BYTES */
#include <make/make.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static const char *const names[] = {"ring", "direct", "greedy"};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_made_t best = {0};
    ccl_text_t xml = {0};
    synth.size_bytes = argc > 2 ? atof(argv[2]) : 1 << 20;
    ccl_status_t status = ccl_topology_read(NULL, argc > 1 ? argv[1] : "dgx-h100", &topo, &err);
    if (status == CCL_OK)
        status = ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, &err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(names) && status == CCL_OK; i++) {
        ccl_made_t made = {0};
        status = ccl_make(NULL, names[i], topo, NULL, want, &synth, NULL, true, &made, &err);
        if (status != CCL_OK)
            break;
        fprintf(stderr, "%-8s %8.2f us\n", names[i], made.run->time_s * 1e6);
        if (!best.run || made.run->time_s < best.run->time_s) {
            ccl_made_fini(&best);
            best = made;
        } else {
            ccl_made_fini(&made);
        }
    }
    if (status == CCL_OK)
        status = ccl_program_write_xml(best.program, &xml, &err);
    if (status == CCL_OK)
        fwrite(xml.data, 1, xml.len, stdout);
    else
        fprintf(stderr, "%s\n", err.text);
    ccl_text_fini(&xml);
    ccl_made_fini(&best);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return ccl_status_exit_code(status);
}
