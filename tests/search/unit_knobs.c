/* Every knob changes what is evaluated, to what a comparison with that option on that cluster
 * gives.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/compare/compare.h"
#include "search/tune/tune.h"
#include "tests/topologies/topologies.h"

#define MIXED "heteccl-h20-4+8"
#define VENDORS "hetccl-snu"
#define SMALL "servers:1 gpus:4 nvswitch=100GB/s,1us"
static const double size_bytes = 4194304;

/* What a comparison has to do for a knob. */
typedef struct row {
    const char *cluster, *with, *knob;
    const char *edit;  /* of the cluster; NULL */
    const char *proto; /* NULL: Simple */
    const char *profile;
    bool same; /* on this cluster it comes to what auto does */
} row_t;

static const row_t rows[] = {
    {MIXED, "ring", "blocks=4", "set:blocks=4", NULL, NULL, false},
    {MIXED, "ring", "blocks=100", "set:blocks=100", NULL, NULL, true},
    {MIXED, "hm", "slice=64K", "set:slice=64K", NULL, NULL, false},
    {MIXED, "hm", "slices=4", "set:slices=4", NULL, NULL, false},
    {MIXED, "hm", "piece=64K", "set:piece=64K", NULL, NULL, false},
    {MIXED, "ring", "fifo=2", "set:slots=2", NULL, NULL, false},
    {MIXED, "hm", "latency=0.5", "scale:latency=0.5", NULL, NULL, false},
    {MIXED, "hm", "overhead=2", "scale:overhead=2", NULL, NULL, false},
    {MIXED, "hm", "tb_rate=2", "scale:tb_rate=2", NULL, NULL, false},
    {MIXED, "hm", "proto=LL", NULL, "LL", NULL, false},
    {MIXED, "hm", "proto=Simple", NULL, NULL, NULL, true},
    /* The profile's launch time is another for LL. */
    {"syccl-a100-16", "ring", "proto=LL", NULL, "LL", "nccl-a100", false},
    {"syccl-a100-16", "ring", "proto=LL128", NULL, "LL128", "nccl-a100", false},
    {VENDORS, "c2c", "inner=hm", NULL, NULL, NULL, false},
    {VENDORS, "c2c", "clusters=4", NULL, NULL, NULL, false},
    {"servers:2 gpus:4 nvswitch=100GB/s,1us nics:4x25GB/s,2us fabric=rail", "greedy", "compose=on",
     NULL, NULL, NULL, false},
    {SMALL, "milp", "epoch=200us", NULL, NULL, NULL, false},
};

static uint32_t synthesizer(const char *name) {
    for (uint32_t i = 0; ccl_synth_all()[i]; i++)
        if (strcmp(ccl_synth_all()[i]->name, name) == 0)
            return i;
    ck_abort_msg("no %s", name);
    return 0;
}

static ccl_topology_t *lay(const row_t *row) {
    return row->profile ? with_profile(row->cluster, row->profile) : topology(row->cluster);
}

static ccl_tuning_t *tune(const row_t *row, const ccl_topology_t *topo) {
    static const char *const none[] = {"channels=auto", "chunks=auto",      "order=auto",
                                       "allocate=auto", "granularity=auto", "proto=auto"};
    ccl_tune_options_t o = CCL_TUNE_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_tuning_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    char text[80];
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&space, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(none); i++)
        ck_assert_int_eq(ccl_space_set(space, none[i], NULL), CCL_OK);
    snprintf(text, sizeof text, "with=%s", row->with);
    ck_assert_int_eq(ccl_space_set(space, text, NULL), CCL_OK);
    ck_assert_msg(ccl_space_set(space, row->knob, &err) == CCL_OK, "%s", err.text);
    o.space = space;
    o.strategy = CCL_STRATEGY_GRID;
    o.sizes_bytes = &size_bytes;
    o.nsizes = 1;
    o.gap = 0;
    ck_assert_msg(ccl_tune(NULL, topo, want, &o, &out, &err) == CCL_OK, "%s", err.text);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    return out;
}

static double compared(const row_t *row, const ccl_topology_t *topo) {
    ccl_contender_t contender = {.name = row->with};
    ccl_compare_options_t o = {.size = sizeof o,
                               .contenders = &contender,
                               .ncontenders = 1,
                               .sizes_bytes = &size_bytes,
                               .nsizes = 1,
                               .synth = CCL_SYNTH_OPTIONS_INIT,
                               .lower = CCL_LOWER_OPTIONS_INIT,
                               .sim = CCL_SIM_OPTIONS_INIT};
    ccl_collective_t *want = NULL;
    ccl_comparison_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    if (row->proto)
        o.lower.proto = row->proto;
    if (strcmp(row->knob, "inner=hm") == 0)
        o.synth.c2c.inner = "hm";
    else if (strcmp(row->knob, "clusters=4") == 0)
        o.synth.c2c.clusters = 4;
    else if (strcmp(row->knob, "compose=on") == 0)
        o.synth.compose = CCL_COMPOSE_ON;
    else if (strcmp(row->knob, "epoch=200us") == 0)
        o.synth.epoch_s = 200e-6;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_msg(ccl_compare(NULL, topo, want, &o, &out, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(out->cells[0].status == CCL_OK, "%s", out->why_not[0]);
    double time_s = out->cells[0].time_s;
    ccl_comparison_destroy(out);
    ccl_collective_destroy(want);
    return time_s;
}

/* The cluster as a comparison is to see it. */
static double expected(const row_t *row) {
    ccl_topology_t *topo = lay(row), *edited = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    if (row->edit)
        ck_assert_msg(ccl_topology_edit(topo, row->edit, &edited, &err) == CCL_OK, "%s", err.text);
    double time_s = compared(row, edited ? edited : topo);
    ccl_topology_destroy(edited);
    ccl_topology_destroy(topo);
    return time_s;
}

/* The knob is one of the values whose worth is told. */
static void check_worth(const ccl_tuning_t *t, const row_t *row) {
    ccl_knob_worth_t *worth = NULL;
    uint32_t n = 0, named = 0;
    ck_assert_int_eq(ccl_tuning_sensitivity(t, &worth, &n, NULL), CCL_OK);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = ccl_knob_name(worth[i].knob);
        char value[64], text[128];
        ccl_knob_text(worth[i].knob, worth[i].value, value, sizeof value);
        snprintf(text, sizeof text, "%s=%s", name, value);
        named += strcmp(text, row->knob) == 0;
    }
    ck_assert_uint_eq(named, 1);
    free(worth);
}

static void check_knob(const row_t *row) {
    ccl_topology_t *topo = lay(row);
    ccl_tuning_t *t = tune(row, topo);
    ck_assert_uint_eq(t->npoints, 2); /* auto, and the value */
    ck_assert_uint_eq(t->nruns, 2);
    const ccl_point_result_t *automatic = &t->runs[0].result, *set = &t->runs[1].result;
    ck_assert_msg(automatic->status == CCL_OK && set->status == CCL_OK, "%s: %s%s", row->knob,
                  automatic->why, set->why);
    ck_assert_msg(set->time_s == expected(row), "%s: %.17g, compared %.17g", row->knob, set->time_s,
                  expected(row));
    ck_assert_msg((automatic->time_s == set->time_s) == row->same, "%s: %.17g and %.17g", row->knob,
                  automatic->time_s, set->time_s);
    ck_assert(set->time_s >= set->bound_s * (1 - 1e-9));
    ck_assert(t->bound_s[0] <= fmin(set->bound_s, automatic->bound_s));
    check_worth(t, row);
    ccl_tuning_destroy(t);
    ccl_topology_destroy(topo);
}

START_TEST(test_knob) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++)
        check_knob(&rows[i]);
}
END_TEST

/* A size is done when it is near the least bound of all clusters of the space, not its own. */
START_TEST(test_bound) {
    static const row_t row = {MIXED, "hm", "latency=0.001,1000", NULL, NULL, NULL, false};
    ccl_topology_t *topo = topology(MIXED);
    ccl_tuning_t *t = tune(&row, topo);
    ck_assert_uint_eq(t->nruns, 3);
    const ccl_point_result_t *automatic = &t->runs[0].result, *quick = &t->runs[1].result,
                             *slow = &t->runs[2].result;
    ck_assert(t->bound_s[0] == quick->bound_s && quick->bound_s <= automatic->bound_s);
    ck_assert(slow->bound_s > automatic->bound_s);
    ccl_tuning_destroy(t);
    ccl_topology_destroy(topo);
}
END_TEST

/* What a cluster cannot have is a point without a time, and says why. */
START_TEST(test_impossible) {
    static const row_t row = {MIXED, "ring", "blocks=1", NULL, NULL, NULL, false};
    ccl_topology_t *topo = NULL, *own = NULL;
    double values[CCL_KNOBS];
    ccl_error_t err = CCL_ERROR_INIT;
    topo = topology(MIXED);
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        values[k] = NAN;
    values[CCL_KNOB_WITH] = synthesizer("hm");
    ck_assert_int_eq(ccl_tune_cluster(topo, values, &own, &err), CCL_OK);
    ck_assert_ptr_null(own); /* nothing is set: the cluster itself */
    ck_assert(ccl_tune_can_be_had(values));
    values[CCL_KNOB_SLICE] = 65536;
    values[CCL_KNOB_FIFO] = 4;
    ck_assert(ccl_tune_can_be_had(values));
    ck_assert_int_eq(ccl_tune_cluster(topo, values, &own, &err), CCL_OK);
    ck_assert_ptr_nonnull(own);
    ccl_topology_destroy(own);
    values[CCL_KNOB_LATENCY] = 0.5;
    ck_assert(!ccl_tune_can_be_had(values));
    row_t crowded = row;
    crowded.with = "direct";
    ccl_tuning_t *t = tune(&crowded, topo);
    ck_assert_int_eq(t->runs[1].result.status, CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(t->runs[1].result.why, "thread blocks"));
    ck_assert_int_eq(t->runs[t->best[0]].result.status, CCL_OK);
    ccl_tuning_destroy(t);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_knob, test_bound, test_impossible)
