/* What `nvidia-smi topo -m` and `rocm-smi --showtopo` say of fourteen machines, as graphs: their
   seeds are the files of fuzz/corpus/topology_smi. */
#include "tests/topologies/import_helpers.h"

#include "tests/base/main.h"

#include <unistd.h>

#define FOLDER CCLLAB_SOURCE_DIR "/fuzz/corpus/topology_smi/"

typedef struct machine_row {
    const char *file;
    uint32_t gpus, nics, hosts,
        bridges; /* bridges: switches, with the NVSwitch, without joints of cables */
    const char *model;
    const char *a, *b, *kind; /* a link, both ways; NULL: none is looked at */
    double GBps;
    uint32_t lanes;
    const char *says; /* in the warnings; NULL: nothing is looked for */
} machine_row_t;

static const machine_row_t rows[] = {
    {"dgx_h100.txt", 8, 8, 2, 9, "H100", "gpu0", "nvswitch", "nvlink", 450, 18, "mlx5_1, mlx5_2"},
    {"h_unnamed.txt", 8, 8, 2, 9, "H100", "NIC0", "fabric", "net", 50, 1,
     "assumed H100 by their links"},
    {"dgx1_v100.txt", 8, 4, 2, 4, "V100", "gpu0", "gpu1", "nvlink", 50, 2,
     "speed of 4 NICs not given: assumed 100 Gbit/s"},
    {"dgx2.txt", 16, 8, 2, 13, "V100", "gpu15", "nvswitch", "nvlink", 150, 6, "assumed V100"},
    {"a100_numa4.txt", 8, 8, 4, 5, "A100", "cpu3", "cpu7", "upi", 16, 1, "the 4 NUMA nodes"},
    {"a100_x4.txt", 4, 2, 4, 0, "A100", "gpu1", "gpu3", "nvlink", 100, 4, "assumed A100"},
    {"a100_x4_ibstat.txt", 4, 1, 4, 0, "A100", "mlx5_0", "fabric", "net", 25, 1,
     "1 NIC without a link left out"},
    {"nv8.txt", 8, 8, 2, 9, "H800", "gpu3", "nvswitch", "nvlink", 200, 8, "assumed H800"},
    {"pcie_x8.txt", 8, 1, 2, 4, "unknown", "gpu0", "pcie", "pcie", 12, 1, "no model assumed"},
    {"two.txt", 2, 0, 1, 0, "RTX-5090", "gpu0", "cpu0", "pcie", 48, 1, NULL},
    {"mi300x.txt", 8, 0, 2, 0, "MI300X", "gpu0", "gpu7", "xgmi", 48, 1, NULL},
    {"mi300x_amdsmi.txt", 8, 0, 1, 0, "MI300X", "gpu3", "gpu4", "xgmi", 48, 1,
     "assumed MI300 by their links"},
    {"mi250x.txt", 8, 0, 4, 0, "MI250", "gpu0", "gpu6", "xgmi", 36, 1,
     "assumed MI250 by their links"},
    {"pcie_amd.txt", 4, 0, 2, 0, "unknown", "gpu3", "cpu1", "pcie", 12, 1, "no direct links"},
};

static ccl_topology_t *read_spec(const char *spec, ccl_text_t *log) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ctx.log = keep_log;
    ctx.log_user = log;
    ck_assert_msg(ccl_topology_read(log ? &ctx : NULL, spec, &topo, &err) == CCL_OK, "%s: %s", spec,
                  err.text);
    return topo;
}

START_TEST(machines) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        const machine_row_t *r = &rows[i];
        char path[600];
        ccl_text_t log = {0};
        uint32_t joints = 0;
        snprintf(path, sizeof path, FOLDER "%s", r->file);
        ccl_topology_t *t = read_spec(path, &log);
        for (uint32_t d = 0; d < t->ndevices; d++)
            joints += strstr(t->devices[d].id, "/cable") != NULL;
        ck_assert_msg(t->nranks == r->gpus && count_kind(t, CCL_DEVICE_NIC) == r->nics &&
                          count_kind(t, CCL_DEVICE_HOST) == r->hosts &&
                          count_kind(t, CCL_DEVICE_SWITCH) - joints - (r->nics > 0) == r->bridges,
                      "%s: %u gpus, %u NICs, %u hosts, %u switches", r->file, t->nranks,
                      count_kind(t, CCL_DEVICE_NIC), count_kind(t, CCL_DEVICE_HOST),
                      count_kind(t, CCL_DEVICE_SWITCH));
        ck_assert_str_eq(t->gpu_models[0].name, r->model);
        check_duplex(t, r->a, r->b, r->kind, r->GBps, r->lanes);
        ck_assert_msg(!r->says || (log.data && strstr(log.data, r->says)), "%s says: %s", r->file,
                      log.data);
        ck_assert_msg(!r->says || strstr(t->note, r->says), "%s notes: %s", r->file, t->note);
        check_all_routes(t);
        ccl_text_fini(&log);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* Dies of MI250X that xGMI reaches over others have no link of their own. */
START_TEST(only_direct_pairs_are_linked) {
    ccl_topology_t *t = read_spec(FOLDER "mi250x.txt", NULL);
    ck_assert(rate_Bps(t, "gpu0", "gpu1", "xgmi", NULL) > 0);
    ck_assert(rate_Bps(t, "gpu0", "gpu7", "xgmi", NULL) == 0);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(users_say_what_the_output_does_not) {
    ccl_text_t log = {0};
    ccl_topology_t *t = read_spec(FOLDER "h_unnamed.txt,gpu=H20,nic=200Gbit/s", &log);
    ck_assert_str_eq(t->gpu_models[0].name, "H20");
    check_duplex(t, "NIC0", "fabric", "net", 25, 1);
    ck_assert_msg(!strstr(log.data, "gpus") || strstr(log.data, "left out"), "%s", log.data);
    ck_assert(!strstr(log.data, "assumed H"));
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
    t = read_spec(FOLDER "dgx_h100.txt,nic=25GB/s*2,fabric=rail", NULL);
    ck_assert_uint_eq(t->nranks, 16);
    check_duplex(t, "n1/mlx5_0", "fabric/rail0", "net", 25, 1);
    ccl_topology_destroy(t);

    static const struct {
        const char *spec, *says;
    } bad[] = {{FOLDER "two.txt,gpu=H1000", "gpu=H1000 is not known; known are: GB300"},
               {FOLDER "two.txt,nic=fast", "fast"},
               {FOLDER "two.txt,gpu=H100,cpu=2", "gpu=NAME and nic=RATE can stand there"},
               {FOLDER "none.txt,gpu=H100", "No such file"},
               {"dgx-h100,gpu=H200", "\"dgx-h100\" has its own"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        t = NULL;
        ck_assert(ccl_topology_read(NULL, bad[i].spec, &t, &err) != CCL_OK && !t);
        ck_assert_msg(strstr(err.text, bad[i].says), "%s: %s", bad[i].spec, err.text);
    }
}
END_TEST

/* Rows that contradict each other are taken as the nearer, and said; uneven NVLinks keep their own
 * number. */
START_TEST(odd_machines) {
    static const char text[] = "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\n"
                               "GPU0\tX\tNV18\tNV17\tPIX\tSYS\n"
                               "GPU1\tNV18\tX\tNV17\tPIX\tPIX\n"
                               "GPU2\tNV17\tNV17\tX\tSYS\tSYS\n";
    ccl_text_t log = {0};
    ccl_topology_t *t = import_logged(ccl_topology_read_smi, text, &log);
    check_duplex(t, "gpu2", "nvswitch", "nvlink", 17 * 25, 17);
    check_duplex(t, "gpu1", "nvswitch", "nvlink", 18 * 25, 18);
    ck_assert_msg(strstr(log.data, "further apart"), "%s", log.data);
    ck_assert_msg(strstr(log.data, "1 gpus have fewer than 18 NVLinks"), "%s", log.data);
    ccl_text_fini(&log);
    ccl_topology_destroy(t);
}
END_TEST

RUN_TESTS(machines, only_direct_pairs_are_linked, users_say_what_the_output_does_not, odd_machines)
