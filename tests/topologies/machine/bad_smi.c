/* Matrices that are cut, contradict themselves or are none: one clear line each, bounded time and
 * memory. */
#include "tests/topologies/import_helpers.h"

#include "tests/base/main.h"

#define HEAD "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n"
#define ROCM "= Link Type between two GPUs =\n       GPU0  GPU1\n"

static const bad_row_t rows[] = {
    {"", 0, 0, "neither the matrix", "empty"},
    {"GPU0 GPU1\nGPU1 X\n", 0, 0, "neither the matrix", "no row of the first gpu"},
    {HEAD "GPU0\tX\tPIX\tPIX\n", 1, 0, "no row for GPU1", "a row is missing"},
    {HEAD "GPU0\tX\tPIX\n", 2, 11, "2 cells in this row, not 3", "a row is cut"},
    {HEAD "GPU0\tX\tNEAR\tPIX\n", 2, 8, "\"NEAR\" is none of NV1", "a word"},
    {HEAD "GPU0\tX\tX\tPIX\n", 2, 8, "\"X\" between two devices", "two in one"},
    {HEAD "GPU0\tX\tPIX\tPIX\nGPU1\tPIX\tPIX\tPIX\n", 3, 10, "where a device meets itself", "no X"},
    {HEAD "GPU0\tX\tPIX\tPIX\nGPU0\tX\tPIX\tPIX\n", 3, 1, "a second row", "twice"},
    {HEAD "GPU0\tX\tNV4\tPIX\nGPU1\tNV2\tX\tPIX\n", 3, 0, "2 NVLinks from GPU1 to GPU0, but 4 back",
     "one way"},
    {HEAD "GPU0\tX\tNV0\tPIX\n", 2, 8, "\"NV0\" is none of", "no links"},
    {HEAD "GPU0\tX\tNV100\tPIX\n", 2, 8, "\"NV100\" is none of", "a hundred links"},
    {HEAD "GPU0\tX\tNV99999999\tPIX\n", 2, 8, "is none of", "many links"},
    {HEAD "GPU0\tX\tPIX\tNV4\n", 2, 12, "NVLinks join gpus", "to a NIC"},
    {"GPU0 GPU2\nGPU0 X PIX\n", 1, 6, "gpus are not in order", "a gap"},
    {ROCM, 3, 0, "a row per gpu", "no rows"},
    {ROCM "GPU0  0 XGMI\n", 4, 0, "a row per gpu", "a row is missing"},
    {ROCM "GPU0  0\nGPU1 XGMI 0\n", 3, 8, "fewer cells", "a row is cut"},
    {ROCM "GPU0  0 CXL\nGPU1 XGMI 0\n", 3, 9, "neither XGMI nor PCIE", "a link of another kind"},
    {"Link Type between two GPUs\n\n\n\n\nGPU0\n", 1, 0, "no table of gpus", "a title alone"},
    {ROCM "GPU0 0 XGMI\nGPU1 XGMI 0\nWeight between two GPUs\n GPU0\nGPU0 0\n", 5, 0,
     "another number of gpus", "tables of two machines"},
    {ROCM "GPU0 0 XGMI\nGPU1 XGMI 0\nWeight between two GPUs\n GPU0 GPU1\nGPU0 0 x\nGPU1 1 0\n", 7,
     8, "a whole number", "a weight in words"},
};

START_TEST(test_rows) {
    check_bad(ccl_topology_read_smi, rows, CCL_ARRAY_LEN(rows));
}
END_TEST

START_TEST(too_many_devices) {
    ccl_text_t text = {0};
    for (uint32_t g = 0; g < 300; g++)
        ccl_text_printf(&text, " GPU%u", g);
    ccl_text_printf(&text, "\nGPU0 X\n");
    bad_row_t row = {text.data, 1, 0, "more than 256", "300 gpus"};
    check_bad(ccl_topology_read_smi, &row, 1);
    ccl_text_fini(&text);
}
END_TEST

/* Cut anywhere, a good file is refused or read. */
START_TEST(test_truncation) {
    static const char good[] =
        HEAD "GPU0\t X \tNV4\tPIX\t0-1\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t2-3\t1\t\tN/A\n"
             "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n  NIC0: mlx5_0\nGPU 0: A100 (UUID: x)\n";
    uint32_t read = 0;
    for (size_t len = 0; len < sizeof good; len++) {
        ccl_topology_t *topo = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        if (ccl_topology_read_smi(NULL, "t.in", good, len, &topo, &err) == CCL_OK)
            read++;
        else
            ck_assert(err.text[0] && !topo);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(read, 10);
}
END_TEST

RUN_TESTS(test_rows, too_many_devices, test_truncation)
