// timeout: 600
/*
 * Who made a schedule: every synthesizer says so on every cluster, by itself and lowered; and the
 * switches that take parts away take away what the origin names.
 */
#include "common.h"
#include "lower/lower.h"
#include "tests/base/nightly.h"

/* Clusters that are looked at for every change; at night all of up to 64 GPUs. */
static const char *const sample[] = {"dgx1-v100", "heteccl-h20-4+8"};
static const double SIZE = 1 << 20;
enum { MOST_RANKS = 64, SEARCHED_RANKS = 32 };

static ccl_schedule_t *made(const char *name, const ccl_topology_t *topo,
                            ccl_collective_kind_t kind, ccl_synth_options_t options,
                            ccl_synth_stats_t *stats) {
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = SIZE;
    options.stats = stats;
    options.sketch.cache = solved_once();
    ccl_status_t status = ccl_synthesize(NULL, name, topo, NULL, want, &options, &s, &err);
    ck_assert_msg(status == CCL_OK || status == CCL_UNSUPPORTED || status == CCL_INFEASIBLE,
                  "%s on %s: %s", name, topo->name, err.text);
    ccl_collective_destroy(want);
    return s;
}

/* The lowered program's origin begins with the schedule's. */
static void check_lowered(const ccl_schedule_t *s, const ccl_topology_t *topo,
                          const ccl_synth_ops_t *ops) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_program_t *p = NULL;
    lower.topo = topo;
    lower.size_bytes = SIZE;
    if (ops->way) {
        lower.order = ops->way->order;
        lower.allocation = ops->way->allocation;
        lower.granularity = ops->way->granularity;
    }
    ccl_status_t status = ccl_lower(NULL, s, &lower, &p, NULL);
    if (status == CCL_UNSUPPORTED)
        return;
    ck_assert_int_eq(status, CCL_OK);
    ck_assert_msg(strncmp(p->origin, s->origin, strlen(s->origin)) == 0 ||
                      strlen(s->origin) > CCL_ORIGIN_LEN - 60, /* cut */
                  "%s, lowered: %s", s->origin, p->origin);
    ck_assert_msg(!strstr(p->origin, "hpds: ") == (lower.order != CCL_ORDER_HPDS) ||
                      strlen(s->origin) > CCL_ORIGIN_LEN - 60,
                  "%s", p->origin);
    ccl_program_destroy(p);
}

static uint32_t check_cluster(const char *name) {
    ccl_topology_t *topo = topology(name);
    uint32_t tried = 0;
    for (int reduce = 0; reduce <= 1; reduce++) {
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all();
             *ops && topo->nranks <= MOST_RANKS; ops++) {
            if ((*ops)->by_name || ((*ops)->by_size && topo->nranks > SEARCHED_RANKS))
                continue;
            ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
            ccl_schedule_t *s =
                made((*ops)->name, topo, reduce ? CCL_ALLREDUCE : CCL_ALLGATHER, options, NULL);
            if (!s)
                continue;
            ck_assert_msg(s->origin[0], "%s on %s does not say", (*ops)->name, name);
            /* More than the name, which a synthesizer that says nothing gets. */
            ck_assert_msg(strchr(s->origin, ':'), "%s on %s: %s", (*ops)->name, name, s->origin);
            check_lowered(s, topo, *ops);
            ccl_schedule_destroy(s);
            tried++;
        }
    }
    ccl_topology_destroy(topo);
    return tried;
}

START_TEST(all_say) {
    uint32_t tried = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(sample) - SANITIZED && !nightly(); i++)
        tried += check_cluster(sample[i]);
    for (const ccl_library_entry_t *entry = ccl_topology_library(); entry->name && nightly();
         entry++)
        tried += check_cluster(entry->name);
    ck_assert_uint_gt(tried, nightly() ? 200 : SANITIZED ? 12 : 26);
}
END_TEST

/* Of the A100 cluster's AllGathers of 1 MiB the fastest sketch is a borrowed tree. */
START_TEST(borrowed) {
    if (SANITIZED) /* names alone */
        return;
    static const struct {
        const char *list, *begins;
        bool lent;
    } rows[] = {{NULL, "sketch by ", true},
                {"all", "sketch by ", true},
                {"none", "sketch: ", false},
                {"hm", "sketch by hm: ", true},
                {"packing", "sketch by packing: ", true}};
    ccl_topology_t *topo = topology("syccl-a100-16");
    uint64_t solved[CCL_ARRAY_LEN(rows)];
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats = {0};
        options.sketch.borrow = rows[i].list;
        ccl_schedule_t *s = made("sketch", topo, CCL_ALLGATHER, options, &stats);
        ck_assert_msg(strncmp(s->origin, rows[i].begins, strlen(rows[i].begins)) == 0, "%s: %s",
                      rows[i].list ? rows[i].list : "NULL", s->origin);
        ck_assert_msg(!strstr(s->origin, "by ") == !rows[i].lent, "%s", s->origin);
        solved[i] = stats.sketch.solved;
        ccl_schedule_destroy(s);
    }
    ck_assert_uint_eq(solved[0], solved[1]);
    ck_assert_uint_eq(solved[2], 0); /* GLPK is not asked there */
    ck_assert_uint_lt(solved[3], solved[0]);
    ck_assert_uint_gt(solved[3], 0);
    ccl_topology_destroy(topo);
}
END_TEST

/* AllToAll on a cube mesh has relays, of which the solver makes fewer; without effort nobody asks.
 */
START_TEST(asked) {
    static const struct {
        ccl_collective_kind_t kind;
        uint32_t effort;
        bool plain;
        const char *begins;
    } rows[] = {{CCL_ALLTOALL, 0, false, "cegis: greedy start, Z3 not asked"},
                {CCL_ALLTOALL, 1, false, "cegis: greedy start, Z3 took "},
                {CCL_ALLTOALL, 0, true, "cegis: plain start, Z3 not asked"},
                {CCL_ALLTOALL, 1, true, "cegis: plain start, Z3 took "},
                {CCL_REDUCESCATTER, 8, true, "cegis: plain start, Z3 spread the load"}};
    ccl_topology_t *topo = topology("dgx1-v100");
    uint32_t steps = 0;
    for (size_t i = 0; i < (SANITIZED ? 2 : CCL_ARRAY_LEN(rows)); i++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats = {0};
        options.effort = rows[i].effort;
        options.plain_start = rows[i].plain;
        options.chunks = 1;
        ccl_schedule_t *s = made("cegis", topo, rows[i].kind, options, &stats);
        ck_assert_msg(strncmp(s->origin, rows[i].begins, strlen(rows[i].begins)) == 0, "%s: %s",
                      rows[i].begins, s->origin);
        ck_assert(!stats.solver_calls == !rows[i].effort);
        ck_assert(!stats.solver_steps == !strstr(s->origin, "took"));
        ck_assert(!stats.solver_spreads == !strstr(s->origin, "spread"));
        if (stats.solver_steps)
            ck_assert_uint_lt(stats.steps, steps); /* of the row before, without the solver */
        steps = stats.steps;
        ccl_schedule_destroy(s);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* Algorithm 1 alone: one of the variants that `hpds` compares, so never faster than what it finds
   but for its allowance for the order given. */
START_TEST(printed) {
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *s = made("hm", topo, CCL_ALLREDUCE, options, NULL);
    double time_s[2];
    for (int printed = 0; printed <= 1; printed++) {
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        ccl_timed_program_t timed = {NULL, NULL};
        lower.topo = topo;
        lower.size_bytes = SIZE;
        lower.order = printed ? CCL_ORDER_HPDS_PRINTED : CCL_ORDER_HPDS;
        lower.granularity = CCL_GRANULARITY_TASK;
        lower.allocation = CCL_ALLOCATE_STATE;
        ck_assert_int_eq(ccl_lower(NULL, s, &lower, &timed.program, NULL), CCL_OK);
        ck_assert_ptr_nonnull(strstr(timed.program->origin, "; hpds: "));
        ck_assert(!strstr(timed.program->origin, "; hpds: algorithm 1 as printed alone") ==
                  !printed);
        lower.routes = ccl_routes_create(topo);
        ck_assert_int_eq(ccl_lower_run(NULL, &lower, &timed, 0, NULL), CCL_OK);
        time_s[printed] = timed.run->time_s;
        ccl_routes_destroy(lower.routes);
        ccl_timed_program_fini(&timed);
    }
    ck_assert_double_lt(time_s[0], time_s[1]);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(composed) {
    ccl_topology_t *topo =
        topology("servers:3 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.compose = CCL_COMPOSE_ON;
    ccl_schedule_t *s = made("greedy", topo, CCL_ALLGATHER, options, NULL);
    ck_assert_msg(strncmp(s->origin, "compose: 3 pods of 4 by ", 24) == 0, "%s", s->origin);
    ck_assert_ptr_nonnull(strstr(s->origin, ", rails by "));
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.origins");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, all_say);
    tcase_add_test(tcase, borrowed);
    tcase_add_test(tcase, asked);
    tcase_add_test(tcase, printed);
    tcase_add_test(tcase, composed);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
