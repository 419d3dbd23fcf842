/* What a tuning exports is read back: programs by our readers and the verifier, ring orders and the
 * tuner's table by readers of their formats written here. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/export/export.h"
#include "tests/topologies/topologies.h"

static ccl_topology_t *topo;
static ccl_collective_t *want;

static void open_cluster(const char *cluster, ccl_collective_kind_t kind) {
    topo = topology(cluster);
    ck_assert_int_eq(ccl_collective_create(kind, topo->nranks, 1, 0, &want, NULL), CCL_OK);
}

static void close_cluster(void) {
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}

static const double sizes[] = {65536, 1048576, 16777216, 268435456};

START_TEST(test_programs) {
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_space_t *space = NULL;
    ccl_tuning_t *tuning = NULL;
    ccl_export_t *list = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t n = 0;
    open_cluster("heteccl-h20-4+8", CCL_ALLGATHER);
    ck_assert_int_eq(ccl_space_create(&space, &err), CCL_OK);
    ck_assert_int_eq(ccl_space_set(space, "with=ring,hm,hpds,direct", &err), CCL_OK);
    options.space = space;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    options.budget_runs = 30;
    ck_assert_msg(ccl_tune(NULL, topo, want, &options, &tuning, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(
        ccl_export_programs(NULL, topo, want, tuning, CCL_EXECUTOR_RCCL, &list, &n, &err) == CCL_OK,
        "%s", err.text);
    ck_assert(n >= 2 && n <= options.nsizes); /* small messages want another program */
    ck_assert(list[0].program->min_bytes == sizes[0]);
    ck_assert(list[n - 1].program->max_bytes == sizes[3]);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_tune_run_t *run = &tuning->runs[list[i].run];
        ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
        ccl_verdict_t verdict;
        ccl_text_t text = {0};
        ccl_program_t *back = NULL;
        if (i > 0)
            ck_assert(list[i].program->min_bytes == list[i - 1].program->max_bytes + 1);
        ck_assert(list[i].program->min_bytes <= tuning->sizes_bytes[run->size] &&
                  list[i].program->max_bytes >= tuning->sizes_bytes[run->size]);
        ck_assert_int_eq(ccl_program_write_xml(list[i].program, &text, &err), CCL_OK);
        ck_assert_msg(ccl_program_read_xml("x", text.data, text.len, &back, &err) == CCL_OK, "%s",
                      err.text);
        ck_assert(ccl_program_equal(back, list[i].program));
        verify.executor = CCL_EXECUTOR_RCCL;
        ck_assert_int_eq(ccl_program_verify(NULL, back, &verify, &verdict, &err), CCL_OK);
        ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
        ck_assert(list[i].time_s >= tuning->bound_s[run->size]);
        ccl_program_destroy(back);
        ccl_text_fini(&text);
    }
    ccl_exports_destroy(list, n);
    ccl_tuning_destroy(tuning);
    ccl_space_destroy(space);
    close_cluster();
}
END_TEST

/* Channels of a graph file: every GPU of the server once, in a row, NICs at both ends. */
static uint32_t graph_channels(const char *text, uint32_t ngpus, uint32_t nnics,
                               uint32_t ends[][2]) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, "<channel>")) != NULL; n++) {
        const char *end = strstr(p, "</channel>");
        uint64_t seen = 0;
        uint32_t gpus = 0, nets = 0, dev;
        ck_assert_ptr_nonnull(end);
        for (p += 9; p < end; p++) {
            if (sscanf(p, "<gpu dev=\"%u\"/>", &dev) == 1) {
                ck_assert(dev < ngpus && !(seen >> dev & 1));
                seen |= 1ull << dev;
                gpus++;
            } else if (sscanf(p, "<net dev=\"%u\"/>", &dev) == 1) {
                ck_assert(dev < nnics && (gpus == 0 || gpus == ngpus) && nets < 2);
                ends[n][nets++] = dev;
            }
        }
        ck_assert_uint_eq(gpus, ngpus);
        ck_assert(nets == (nnics ? 2 : 0));
    }
    return n;
}

START_TEST(test_graph) {
    uint32_t ends[64][2], told, n[2];
    ccl_error_t err = CCL_ERROR_INIT;
    open_cluster("heteccl-h20-4+8", CCL_ALLGATHER);
    for (uint32_t s = 0; s < 2; s++) {
        ccl_text_t text = {0};
        bool used[4] = {false};
        ck_assert_msg(ccl_export_nccl_graph(NULL, topo, s, 0, &text, &err) == CCL_OK, "%s",
                      err.text);
        n[s] = graph_channels(text.data, s ? 8 : 4, 4, ends);
        ck_assert_int_eq(sscanf(strstr(text.data, "nchannels="), "nchannels=\"%u\"", &told), 1);
        ck_assert(told == n[s] && n[s] >= 4);
        for (uint32_t i = 0; i < n[s]; i++)
            used[ends[i][1]] = true;
        ck_assert(used[0] && used[1] && used[2] && used[3]); /* all NICs carry a ring */
        ccl_text_fini(&text);
    }
    ck_assert_uint_eq(n[0], n[1]);
    close_cluster();
    open_cluster("servers:1 gpus:4 nvswitch=300GB/s", CCL_ALLGATHER);
    ccl_text_t text = {0};
    ck_assert_int_eq(ccl_export_nccl_graph(NULL, topo, 0, 1, &text, &err), CCL_OK);
    ck_assert_uint_eq(graph_channels(text.data, 4, 0, ends), 1);
    ccl_text_fini(&text);
    close_cluster();
}
END_TEST

START_TEST(test_tuner) {
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    double next = sizes[0];
    uint32_t rows = 0;
    char kind[32], algo[16], proto[16], first[16] = "", last[16] = "";
    ccl_profile_t *profile = NULL;
    ck_assert_int_eq(ccl_profile_read("nccl-a100", &profile, &err), CCL_OK);
    open_cluster("heteccl-a100-4+8", CCL_ALLREDUCE);
    ck_assert_msg(
        ccl_export_nccl_tuner(NULL, topo, profile, CCL_ALLREDUCE, sizes, 4, &text, &err) == CCL_OK,
        "%s", err.text);
    ck_assert(text.data[0] == '#');
    for (char *line = strchr(text.data, '\n') + 1; *line; line = strchr(line, '\n') + 1, rows++) {
        double low, high;
        uint32_t channels, nodes, ranks;
        int end = 0;
        ck_assert_int_eq(sscanf(line, "%31[^,],%lf,%lf,%15[^,],%15[^,],%u,%u,%u,-1,-1%n", kind,
                                &low, &high, algo, proto, &channels, &nodes, &ranks, &end),
                         8);
        ck_assert(line[end] == '\n' && low == next && high >= low && nodes == 2 && ranks == 12);
        ck_assert_str_eq(kind, "allreduce");
        ck_assert(strcmp(algo, "ring") == 0 || strcmp(algo, "tree") == 0);
        ck_assert(strcmp(proto, "ll") == 0 || strcmp(proto, "ll128") == 0 ||
                  strcmp(proto, "simple") == 0);
        ck_assert(channels >= 1 && channels <= 64);
        if (rows == 0)
            strcpy(first, proto);
        strcpy(last, proto);
        next = high + 1;
    }
    ck_assert(next == sizes[3] + 1);
    ck_assert_msg(rows >= 2 && strcmp(first, "simple") != 0 && strcmp(last, "ll") != 0, "%s",
                  text.data);
    ccl_text_fini(&text);
    ck_assert_int_eq(ccl_export_nccl_tuner(NULL, topo, NULL, CCL_ALLTOALL, sizes, 4, &text, &err),
                     CCL_UNSUPPORTED);
    ccl_text_fini(&text);
    ccl_profile_destroy(profile);
    close_cluster();
}
END_TEST

/* A cluster that lacks what protocols cost is refused, and told what it lacks; a profile helps. */
START_TEST(test_harmful) {
    static const struct {
        const char *cluster, *edit, *profile, *lacks; /* NULL: nothing */
    } rows[] = {
        {"dgx-a100", NULL, NULL, NULL},
        {"dgx-a100", "set:tb_rate=inf", NULL, "thread block's rate (tb_rate) over nvlink"},
        {"dgx-a100", "set:tb_rate:nvlink=inf", "nccl-a100", NULL},
        {"servers:1 gpus:4 nvswitch=300GB/s,1us", NULL, NULL, "tb_rate"},
        {"servers:1 gpus:4 nvswitch=300GB/s,1us model=A100", NULL, "nccl-a100", NULL},
        {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,1us fabric=single model=A100", NULL,
         "nccl-a100", NULL},
        {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,1us slots=8 model=A100", NULL,
         "nccl-a100", "over net"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_profile_t *profile = NULL;
        ccl_topology_t *edited = NULL;
        ccl_text_t text = {0};
        open_cluster(rows[i].cluster, CCL_ALLREDUCE);
        if (rows[i].edit)
            ck_assert_int_eq(ccl_topology_edit(topo, rows[i].edit, &edited, &err), CCL_OK);
        if (rows[i].profile)
            ck_assert_int_eq(ccl_profile_read(rows[i].profile, &profile, &err), CCL_OK);
        ccl_status_t status = ccl_export_nccl_tuner(NULL, edited ? edited : topo, profile,
                                                    CCL_ALLREDUCE, sizes, 4, &text, &err);
        ck_assert_msg(status == (rows[i].lacks ? CCL_UNSUPPORTED : CCL_OK), "%s: %s",
                      rows[i].cluster, err.text);
        if (rows[i].lacks) {
            ck_assert_msg(strstr(err.text, rows[i].lacks) && strstr(err.text, "calibrate"),
                          "%s: %s", rows[i].cluster, err.text);
            ck_assert_uint_eq(text.len, 0);
        }
        ccl_text_fini(&text);
        ccl_topology_destroy(edited);
        ccl_profile_destroy(profile);
        close_cluster();
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("export");
    TCase *t = tcase_create("export");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_programs);
    tcase_add_test(t, test_graph);
    tcase_add_test(t, test_tuner);
    tcase_add_test(t, test_harmful);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
