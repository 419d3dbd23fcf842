/* Stock NCCL as a contender: its times are diagnose's, gains are told against it. */
#include "search/search.h"
#include "tests/topologies/topologies.h"
#include "validate/validate.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OK(expr_)                                                                                  \
    do {                                                                                           \
        ccl_error_t err = CCL_ERROR_INIT;                                                          \
        ccl_status_t status_ = (expr_);                                                            \
        ck_assert_msg(status_ == CCL_OK, "%s: %s", #expr_, err.text);                              \
    } while (0)

static const double sizes[] = {65536, 1 << 20, 1 << 24, 1 << 28};
static const ccl_contender_t both[] = {{.name = "nccl", .library = true}, {.name = "ring"}};

static ccl_comparison_t *compare(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                 uint32_t threads, const ccl_contender_t *contenders,
                                 uint32_t ncontenders) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want = NULL;
    ccl_comparison_t *out = NULL;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    options.contenders = contenders;
    options.ncontenders = ncontenders;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    ctx.threads = threads;
    OK(ccl_collective_create(kind, topo->nranks, 1, 0, &want, &err));
    OK(ccl_compare(&ctx, topo, want, &options, &out, &err));
    ccl_collective_destroy(want);
    return out;
}

/* diagnose's expectation of the same sizes. */
static ccl_diagnosis_run_t *diagnose(const ccl_topology_t *topo, const char *test,
                                     ccl_measured_log_t **log_out) {
    ccl_text_t text = {0};
    ccl_diagnosis_run_t *out = NULL;
    ccl_text_printf(&text, "# Collective test starting: %s\n# nThread 1 nGpus %u\n", test,
                    topo->nranks);
    for (size_t i = 0; i < CCL_ARRAY_LEN(sizes); i++)
        ccl_text_printf(&text, "%.0f 1 half none -1 100 1 1 0\n", sizes[i]);
    OK(ccl_measured_read_text("log", text.data, text.len, log_out, &err));
    OK(ccl_diagnose(NULL, topo, NULL, &(*log_out)->runs[0], 0, false, false, &out, &err));
    ccl_text_fini(&text);
    return out;
}

START_TEST(test_as_diagnose) {
    static const struct {
        const char *cluster, *test;
        ccl_collective_kind_t kind;
    } rows[] = {
        {"dgx-h100", "all_reduce_perf", CCL_ALLREDUCE},
        {"dgx-a100", "alltoall_perf", CCL_ALLTOALL},
        {"mi300x-x8", "all_gather_perf", CCL_ALLGATHER},
        {"resccl-topo2", "all_reduce_perf", CCL_ALLREDUCE},
        {"heteccl-h20-4x2+8", "reduce_scatter_perf", CCL_REDUCESCATTER},
        {"syccl-a100-32", "broadcast_perf", CCL_BROADCAST},
        {"v100-pcie-x4", "all_gather_perf", CCL_ALLGATHER},
    };
    for (size_t i = 0; i < (SANITIZED ? 4 : CCL_ARRAY_LEN(rows)); i++) {
        ccl_topology_t *topo = topology(rows[i].cluster);
        ccl_measured_log_t *log = NULL;
        ccl_diagnosis_run_t *d = diagnose(topo, rows[i].test, &log);
        ccl_comparison_t *c = compare(topo, rows[i].kind, 1, both, 1);
        for (uint32_t s = 0; s < c->nsizes; s++) {
            char choice[64];
            ccl_nccl_choice_text(&d->points[s].expected.choice, choice, sizeof choice);
            ck_assert_int_eq(c->cells[s].status, CCL_OK);
            ck_assert_str_eq(c->cells[s].choice, choice);
            ck_assert_double_gt(c->cells[s].step_bytes, 0);
            ck_assert_ptr_nonnull(strstr(c->cells[s].origin, choice));
            ck_assert_double_ge(c->cells[s].buffer_bytes, 4 * c->cells[s].step_bytes);
            ck_assert_msg(fabs(c->cells[s].time_s / d->points[s].expected.time_s - 1) < 0.03,
                          "%s at %g: %g us, %g us", rows[i].cluster, sizes[s],
                          c->cells[s].time_s * 1e6, d->points[s].expected.time_s * 1e6);
        }
        ccl_comparison_destroy(c);
        ccl_diagnosis_destroy(d);
        ccl_measured_log_destroy(log);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(test_gain) {
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_comparison_t *c = compare(topo, CCL_ALLGATHER, 1, both, 2);
    ccl_comparison_t *threads = compare(topo, CCL_ALLGATHER, 4, both, 2);
    ccl_comparison_t *without = compare(topo, CCL_ALLGATHER, 1, both + 1, 1);
    ck_assert_uint_eq(c->nccl, 0);
    ck_assert(!c->lowered[0]);
    for (uint32_t s = 0; s < c->nsizes; s++) {
        const ccl_compare_cell_t *row = c->cells + (size_t)2 * s;
        ck_assert_double_eq(ccl_comparison_speedup(c, s, 0), 1);
        ck_assert_double_eq(ccl_comparison_speedup(c, s, 1), row[0].time_s / row[1].time_s);
        ck_assert_double_eq(row[0].time_s, threads->cells[(size_t)2 * s].time_s);
        ck_assert_ptr_null(row[1].choice);
        ck_assert_double_eq(row[1].time_s, without->cells[s].time_s);
        ck_assert(isnan(ccl_comparison_speedup(without, s, 0)));
        ck_assert_double_le(c->bound_s[s], row[0].time_s);
    }
    /* LL moves small messages, so the same ring is much faster there. */
    ck_assert_double_lt(ccl_comparison_speedup(c, 0, 1), 0.8);
    ck_assert(isnan(ccl_comparison_speedup(c, 0, CCL_NONE)));
    ck_assert_uint_eq(without->nccl, CCL_NONE);
    ccl_comparison_destroy(c);
    ccl_comparison_destroy(threads);
    ccl_comparison_destroy(without);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_not_there) {
    ccl_topology_t *topo = topology("hetccl-snu");
    ccl_comparison_t *c = compare(topo, CCL_ALLREDUCE, 1, both, 2);
    ck_assert_ptr_nonnull(c->why_not[0]);
    ck_assert_ptr_nonnull(strstr(c->why_not[0], "NVIDIA and AMD together"));
    ck_assert_uint_eq(c->winner[0], 1);
    ck_assert(isnan(ccl_comparison_speedup(c, 0, 1)));
    ccl_comparison_destroy(c);
    ccl_topology_destroy(topo);
}
END_TEST

/* What it may do and is not modelled is said. */
START_TEST(test_note) {
    static const struct {
        const char *cluster;
        ccl_collective_kind_t kind;
        const char *note; /* NULL: none */
    } rows[] = {{"dgx-h100", CCL_ALLREDUCE, NULL},
                {"dgx-h100*2", CCL_ALLREDUCE, NULL},
                {"dgx-h100", CCL_ALLGATHER, NULL},
                {"dgx-a100", CCL_ALLREDUCE, NULL},
                {"servers:4 gpus:1 nics:1x25GB/s", CCL_ALLGATHER, "PAT"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].cluster);
        ccl_comparison_t *c = compare(topo, rows[i].kind, 1, both, 1);
        if (rows[i].note)
            ck_assert_msg(c->nccl_note && strstr(c->nccl_note, rows[i].note), "%s",
                          rows[i].cluster);
        else
            ck_assert_ptr_null(c->nccl_note);
        ccl_comparison_destroy(c);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* explain and tune tell the same time. */
START_TEST(test_others) {
    ccl_topology_t *topo = topology("resccl-topo1");
    ccl_comparison_t *c = compare(topo, CCL_ALLREDUCE, 1, both, 1);
    ccl_collective_t *want = NULL;
    ccl_made_t made = {0};
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_explain_options_t how = CCL_EXPLAIN_OPTIONS_INIT;
    ccl_explanation_t *e = NULL;
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_tuning_t *tuning = NULL;
    OK(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, &err));
    synth.size_bytes = how.sim.size_bytes = sizes[1];
    OK(ccl_make(NULL, "ring", topo, NULL, want, &synth, NULL, false, &made, &err));
    how.program = made.program;
    how.no_what_if = true;
    OK(ccl_explain(NULL, topo, &how, &e, &err));
    ck_assert_str_eq(e->nccl.name, "nccl");
    ck_assert_str_eq(e->nccl.choice, c->cells[1].choice);
    ck_assert_double_eq(e->nccl.time_s, c->cells[1].time_s);
    ccl_space_t *space = NULL;
    OK(ccl_space_create(&space, &err));
    OK(ccl_space_set(space, "with=ring", &err));
    options.space = space;
    options.sizes_bytes = sizes;
    options.nsizes = 2;
    options.budget_runs = 4;
    OK(ccl_tune(NULL, topo, want, &options, &tuning, &err));
    ck_assert_double_eq(tuning->nccl[1].time_s, c->cells[1].time_s);
    ccl_tuning_destroy(tuning);
    ccl_space_destroy(space);
    ccl_explanation_destroy(e);
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    ccl_comparison_destroy(c);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_as_diagnose, test_gain, test_not_there, test_note, test_others)
