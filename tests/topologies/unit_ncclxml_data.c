/* Every real NCCL and RCCL file of the data folder imports, with the GPUs and NICs of its index. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/base/main.h"
#include "topologies/topologies.h"

#define DIR CCLLAB_DATA_DIR "/nccl_topo/"

/* Files whose machine is not what the index counts in their elements, each with the reason. */
static const struct {
    const char *part; /* of the file name */
    uint32_t gpus, nics;
    const char *why;
} special[] = {
    {"ncv4-graph", 4, 0, "a graph names each gpu once per channel"},
    {"nc48v4-graph", 2, 0, "a graph names each gpu once per channel"},
    {"ndv2-topo", 8, 1, "partial: 8 V100 and one EDR port"},
    {"ndv4-topo", 8, 8, "partial: 8 A100 and 8 HDR ports"},
    {"ndv5-topo", 8, 8, "partial: 8 H100 and 8 NDR ports"},
    {"xml_topo_dump", 8, 3, "FlagCX calls gpus apu"},
    {"g5.48xl", 8, 1, "partial without classes: 8 A10G and one EFA"},
    {"p4d-24xl", 8, 4, "partial: 8 A100 and 4 EFA"},
    {"p4de-24xl", 8, 4, "partial: 8 A100 and 4 EFA"},
    {"dtk26.04", 8, 8, "a mapping file: the first of its groups"},
};

static uint32_t count_kind(const ccl_topology_t *topo, ccl_device_kind_t kind) {
    uint32_t n = 0;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        n += topo->devices[d].kind == kind;
    return n;
}

static void check_routes(const char *file, const ccl_topology_t *topo) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_ptr_nonnull(routes);
    for (uint32_t a = 0; a < topo->nranks; a++) {
        for (uint32_t b = 0; b < topo->nranks; b++) {
            const ccl_route_t *route = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            if (a == b)
                continue;
            ck_assert_msg(ccl_routes_get(routes, a, b, 0, &route, &err) == CCL_OK, "%s: %s", file,
                          err.text);
            ck_assert_msg(!route->crosses_net, "%s: %u to %u leaves its server", file, a, b);
            ck_assert_msg(route->bottleneck_Bps > 0, "%s: %u to %u", file, a, b);
        }
    }
    ccl_routes_destroy(routes);
}

static void check_file(const char *file, uint32_t gpus, uint32_t nics) {
    char path[700];
    snprintf(path, sizeof(path), DIR "%s", file);
    char *text = NULL;
    size_t len = 0;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ck_assert_msg(ccl_file_read(path, 1 << 20, &text, &len, &err) == CCL_OK, "%s", err.text);
    for (size_t i = 0; i < CCL_ARRAY_LEN(special); i++) {
        if (strstr(file, special[i].part)) {
            gpus = special[i].gpus;
            nics = special[i].nics;
        }
    }
    ccl_status_t status = ccl_topology_read_nccl_xml(NULL, file, text, len, &topo, &err);
    ck_assert_msg(status == CCL_OK, "%s:%d:%d: %s", file, err.line, err.column, err.text);
    ck_assert_msg(topo->nranks == gpus, "%s: %u gpus, not %u", file, topo->nranks, gpus);
    ck_assert_msg(count_kind(topo, CCL_DEVICE_GPU) == gpus, "%s", file);
    ck_assert_msg(count_kind(topo, CCL_DEVICE_NIC) == nics, "%s: %u nics, not %u", file,
                  count_kind(topo, CCL_DEVICE_NIC), nics);
    check_routes(file, topo);
    ccl_topology_destroy(topo);
    free(text);
}

START_TEST(test_all_files_import) {
    char *index = NULL;
    size_t len = 0;
    uint32_t files = 0;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert(ccl_file_read(DIR "INDEX.md", 1 << 20, &index, &len, &err) == CCL_OK);
    double start_s = ccl_now_s();
    char *save = NULL;
    for (char *line = strtok_r(index, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        /* | file | licence | kind | version | cpus | gpus | nets | ... */
        char file[400], kind[40];
        unsigned version, cpus, gpus, nets;
        if (sscanf(line, "| %399s | %*[^|] | %39s | %u | %u | %u | %u |", file, kind, &version,
                   &cpus, &gpus, &nets) != 6)
            continue;
        check_file(file, gpus, nets);
        files++;
    }
    ck_assert_msg(files >= 74, "only %u files in the index", files);
    ck_assert_msg(ccl_now_s() - start_s < 20.0, "%u files took %g s", files, ccl_now_s() - start_s);
    free(index);
}
END_TEST

int main(void) {
    struct stat info;
    if (stat(DIR "INDEX.md", &info) != 0)
        return 77;
    Suite *suite = suite_create("ncclxml_data");
    TCase *tc = tcase_create("files");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_all_files_import);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
