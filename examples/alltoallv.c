/* Plans for traffic that changes from step to step. Usage: alltoallv CLUSTER */
#include <synth/synth.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_alltoallv_t *planner = NULL;
    const ccl_schedule_t *schedule;
    ccl_alltoallv_report_t report;
    double *bytes = NULL;
    ccl_status_t status = ccl_topology_read(NULL, argc > 1 ? argv[1] : "dgx-h100*2", &topo, &err);
    if (status == CCL_OK)
        status = ccl_alltoallv_create(NULL, topo, NULL, &planner, &err);
    if (status == CCL_OK && !(bytes = calloc((size_t)topo->nranks * topo->nranks, sizeof *bytes)))
        status = CCL_ERR_NOMEM;
    for (unsigned step = 0; step < 3 && status == CCL_OK; step++) {
        /* One GPU's expert is hot, a little more so each step. */
        for (uint32_t i = 0; i < topo->nranks * topo->nranks; i++)
            bytes[i] = i % topo->nranks == 5 ? 4e6 + 1e4 * step : 1e6;
        status = ccl_alltoallv_plan(planner, bytes, 500e-6, &schedule, &report, &err);
        if (status == CCL_OK)
            printf("step %u: %u transfers, busiest link %.3f of the cut around %s, %u of %u pairs "
                   "of servers "
                   "planned again\n",
                   step, schedule->ntransfers, report.load_s / report.bound_s, report.cut,
                   report.replanned, report.pairs);
    }
    if (status != CCL_OK)
        fprintf(stderr, "%s\n", err.text);
    free(bytes);
    ccl_alltoallv_destroy(planner);
    ccl_topology_destroy(topo);
    return ccl_status_exit_code(status);
}
