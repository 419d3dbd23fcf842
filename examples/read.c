/* What is in a cluster? Usage: read CLUSTER (a file, a library name, a one-liner) */
#include <topologies/topologies.h>

#include <stdio.h>

int main(int argc, char **argv) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_status_t status =
        ccl_topology_read(NULL, argc > 1 ? argv[1] : "heteccl-h20-4+8", &topo, &err);
    if (status != CCL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return ccl_status_exit_code(status);
    }
    printf("%s: %u GPUs on %u servers, %u links\n", topo->name, topo->nranks, topo->nservers,
           topo->nlinks);
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        double least_Bps = 0, most_Bps = 0;
        uint32_t n = 0;
        for (uint32_t l = 0; l < topo->nlinks; l++) {
            double Bps = topo->links[l].bandwidth_Bps;
            if (topo->links[l].kind != k)
                continue;
            least_Bps = n == 0 || Bps < least_Bps ? Bps : least_Bps;
            most_Bps = Bps > most_Bps ? Bps : most_Bps;
            n++;
        }
        printf("%4u %s links of %g to %g GB/s\n", n, topo->kinds[k], least_Bps / 1e9,
               most_Bps / 1e9);
    }
    ccl_topology_destroy(topo);
    return 0;
}
