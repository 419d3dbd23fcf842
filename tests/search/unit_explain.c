/*
 * Explanations: every counterfactual is the time of a separate run on the edited cluster, or with
 * the options named; shares add up; threads change nothing.
 */
#include "search/explain/explain.h"
#include "tests/synth/common.h"
#include "tests/topologies/topologies.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct made {
    ccl_topology_t *topo;
    ccl_collective_t *want;
    ccl_schedule_t *schedule;
    ccl_program_t *program;
    ccl_explain_options_t options;
} made_t;

static ccl_program_t *lower(const made_t *m, ccl_way_t way, uint32_t batches, bool no_fuse) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = way.granularity;
    lower.topo = m->topo;
    lower.size_bytes = m->options.sim.size_bytes;
    lower.batches = batches;
    lower.no_fuse = no_fuse;
    ck_assert_msg(ccl_lower(NULL, m->schedule, &lower, &program, &err) == CCL_OK, "%s", err.text);
    return program;
}

/*
 * Small ones, since all synthesizers run twice in each: as many GPUs as servers stay unlike and of
 * several GPUs with.
 */
static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    const char *with;
    double size_bytes;
    uint32_t nfail;
    uint32_t fail[8]; /* ranks that are taken away, highest first */
} cases[] = {
    {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:1x25GB/s,2us",
     CCL_ALLGATHER,
     "ring",
     16 << 20,
     0,
     {0}},
    {"heteccl-h20-4+8", CCL_ALLREDUCE, "ring", 64 << 20, 6, {11, 10, 9, 8, 3, 2}},
    {"heteccl-h20-4+8", CCL_ALLGATHER, "hm", 1 << 20, 6, {11, 10, 9, 8, 3, 2}},
    {"resccl-topo1", CCL_ALLREDUCE, "hm", 32 << 20, 0, {0}},
    {"hetccl-snu", CCL_ALLTOALL, "pairwise", 8 << 20, 8, {15, 14, 11, 10, 7, 6, 3, 2}},
};

static void make(made_t *m, int which) {
    const char *spec = cases[which].spec, *with = cases[which].with;
    ccl_collective_kind_t kind = cases[which].kind;
    double size_bytes = cases[which].size_bytes;
    ccl_error_t err = CCL_ERROR_INIT;
    *m = (made_t){.options = {.size = sizeof(ccl_explain_options_t),
                              .with = with,
                              .synth = CCL_SYNTH_OPTIONS_INIT,
                              .lower = CCL_LOWER_OPTIONS_INIT,
                              .sim = CCL_SIM_OPTIONS_INIT}};
    m->topo = topology(spec);
    for (uint32_t i = 0; i < cases[which].nfail; i++) {
        ccl_topology_t *less = NULL;
        char edit[20];
        snprintf(edit, sizeof edit, "fail:gpu:%u", cases[which].fail[i]);
        ck_assert_msg(ccl_topology_edit(m->topo, edit, &less, &err) == CCL_OK, "%s", err.text);
        ccl_topology_destroy(m->topo);
        m->topo = less;
    }
    ck_assert_int_eq(ccl_collective_create(kind, m->topo->nranks, 1, 0, &m->want, NULL), CCL_OK);
    m->options.synth.sketch.cache = solved_once();
    m->options.sim.size_bytes = m->options.synth.size_bytes = size_bytes;
    ck_assert_msg(ccl_synthesize(NULL, with, m->topo, NULL, m->want, &m->options.synth,
                                 &m->schedule, &err) == CCL_OK,
                  "%s", err.text);
    m->program = lower(m, m->options.way, 0, false);
    m->options.want = m->want;
    m->options.schedule = m->schedule;
    m->options.program = m->program;
}

static void clean(made_t *m) {
    ccl_program_destroy(m->program);
    ccl_schedule_destroy(m->schedule);
    ccl_collective_destroy(m->want);
    ccl_topology_destroy(m->topo);
}

static ccl_explanation_t *explain(const made_t *m, uint32_t threads) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_explanation_t *e = NULL;
    ctx.threads = threads;
    ck_assert_msg(ccl_explain(&ctx, m->topo, &m->options, &e, &err) == CCL_OK, "%s", err.text);
    return e;
}

/** The cluster of a change as a file of its own, read again. */
static ccl_topology_t *edited_file(const ccl_topology_t *topo, const ccl_counterfactual_t *c) {
    ccl_topology_t *now = NULL, *next = NULL;
    ccl_text_t json = {0};
    ck_assert_int_eq(ccl_topology_write_json(topo, &json, NULL), CCL_OK);
    ck_assert_int_eq(ccl_topology_read_text(NULL, "t", json.data, json.len, &now, NULL), CCL_OK);
    for (uint32_t i = 0; i < c->nedits; i++) {
        ck_assert_int_eq(ccl_topology_edit(now, c->edits[i], &next, NULL), CCL_OK);
        ccl_topology_destroy(now);
        ccl_text_fini(&json);
        ck_assert_int_eq(ccl_topology_write_json(next, &json, NULL), CCL_OK);
        ck_assert_int_eq(ccl_topology_read_text(NULL, "t", json.data, json.len, &now, NULL),
                         CCL_OK);
        ccl_topology_destroy(next);
    }
    ccl_text_fini(&json);
    return now;
}

static double time_of(const ccl_topology_t *topo, const ccl_program_t *program,
                      ccl_sim_options_t sim) {
    ccl_sim_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, program, &sim, &r, &err) == CCL_OK, "%s",
                  err.text);
    double time_s = r->time_s;
    ccl_sim_result_destroy(r);
    return time_s;
}

/** Again from its options alone; NAN: not one of those. */
static double from_options(const made_t *m, const char *options) {
    ccl_sim_options_t sim = m->options.sim;
    ccl_way_t way = m->options.way;
    ccl_program_t *program;
    double time_s;
    char word[16];
    unsigned n;
    way.granularity = sim.granularity;
    if (sscanf(options, "--batches %u", &n) == 1) {
        sim.batches = n;
        return time_of(m->topo, m->program, sim);
    }
    if (strcmp(options, "--no-fuse") == 0) {
        program = lower(m, way, 0, true);
    } else if (strcmp(options, "--allocate state") == 0) {
        way.allocation = CCL_ALLOCATE_STATE;
        program = lower(m, way, 0, false);
    } else if (strcmp(options, "--order rr") == 0) {
        way.order = CCL_ORDER_RR;
        program = lower(m, way, 0, false);
    } else if (strcmp(options, "--granularity task") == 0) {
        way.granularity = sim.granularity = CCL_GRANULARITY_TASK;
        program = lower(m, way, 0, false);
    } else if (sscanf(options, "--with %15s", word) == 1 || sscanf(options, "--channels %u", &n)) {
        made_t other = *m;
        ccl_synth_options_t synth = m->options.synth;
        bool channels = strncmp(options, "--channels", 10) == 0;
        const ccl_synth_ops_t *ops = ccl_synth_find(channels ? m->options.with : word);
        if (channels)
            synth.channels = n;
        else if (only_plain(ops, CCL_BROADCAST))
            return NAN; /* the other synthesizers take the same way */
        other.schedule = NULL;
        if (ccl_synthesize(NULL, ops->name, m->topo, NULL, m->want, &synth, &other.schedule,
                           NULL) != CCL_OK)
            return NAN;
        way = ccl_way_choose(ops->way, way, 0);
        sim.granularity = way.granularity;
        program = lower(&other, way, 0, false);
        ccl_schedule_destroy(other.schedule);
    } else {
        return NAN;
    }
    time_s = time_of(m->topo, program, sim);
    ccl_program_destroy(program);
    return time_s;
}

/** A ring over two servers of which some parts are slow. */
static void make_slow(made_t *m, const char *spec, const char *const *edits) {
    ccl_error_t err = CCL_ERROR_INIT;
    *m = (made_t){.options = CCL_EXPLAIN_OPTIONS_INIT};
    m->topo = topology(spec);
    for (; *edits; edits++) {
        ccl_topology_t *slower = NULL;
        ck_assert_msg(ccl_topology_edit(m->topo, *edits, &slower, &err) == CCL_OK, "%s", err.text);
        ccl_topology_destroy(m->topo);
        m->topo = slower;
    }
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, m->topo->nranks, 1, 0, &m->want, NULL),
                     CCL_OK);
    m->options.sim.size_bytes = m->options.synth.size_bytes = 16 << 20;
    ck_assert_int_eq(
        ccl_synthesize(NULL, "ring", m->topo, NULL, m->want, &m->options.synth, &m->schedule, &err),
        CCL_OK);
    m->program = lower(m, m->options.way, 0, false);
    m->options.program = m->program; /* a program's own: few changes */
}

#define TWO "servers:2 gpus:2 nvswitch=100GB/s,1us nics:2x10GB/s,2us"

/** What is found, and what it becomes: the cluster as it was before. */
static const struct {
    const char *spec;
    const char *edits[4];
    uint32_t n; /* 1 and the parts where they are several: all together */
    struct {
        const char *what, *bandwidth;
        uint32_t count;
        double share;
        bool decides;
    } parts[4]; /* in their order */
} slow_cases[] = {
    {TWO, {NULL}, 0, {{0}}},
    {"dgx1-v100", {NULL}, 0, {{0}}}, /* links of one and of two lanes */
    {TWO,
     {"degrade:server:1=50%"},
     1,
     {{"server s1", "nvlink 50 of 100 GB/s, pcie 5 of 10 GB/s, net 5 of 10 GB/s", 1, .5, true}}},
    {TWO,
     {"degrade:nic:1=40%"},
     1,
     {{"nic s0/nic1", "pcie 4 of 10 GB/s, net 4 of 10 GB/s", 1, .4, true}}},
    {TWO,
     {"degrade:nic:0=99.7%"},
     1,
     {{"nic s0/nic0", "pcie 9.97 of 10 GB/s, net 9.97 of 10 GB/s", 1, .997, false}}},
    /* alike */
    {TWO,
     {"degrade:nic:1=40%", "degrade:nic:2=40%"},
     1,
     {{"nic s0/nic1", "pcie 4 of 10 GB/s, net 4 of 10 GB/s", 2, .4, true}}},
    /* one behind the other */
    {TWO,
     {"degrade:nic:1=40%", "degrade:nic:2=90%", "degrade:s0/gpu0-s0/nvswitch0=95%"},
     4,
     {{"nic s0/nic1", "pcie 4 of 10 GB/s, net 4 of 10 GB/s", 1, .4, true},
      {NULL, NULL, 1, .9, false},
      {NULL, NULL, 1, .95, false},
      {"all of these together", "", 3, .4, false}}},
    /* two that hide each other: together they decide */
    {TWO,
     {"degrade:nic:1=40%", "degrade:nic:3=40.1%"},
     3,
     {{NULL, NULL, 1, 0, false},
      {NULL, NULL, 1, 0, false},
      {"all of these together", "", 2, .4, true}}},
    /* one link of a mesh */
    {"gpus:3 nvlink=mesh,10GB/s,1us",
     {"degrade:s0/gpu0-s0/gpu2=50%"},
     1,
     {{"link s0/gpu0 - s0/gpu2", "nvlink 5 of 10 GB/s", 1, .5, true}}},
};

START_TEST(test_slow_parts) {
    made_t m, before;
    const char *const none[] = {NULL};
    make_slow(&m, slow_cases[_i].spec, slow_cases[_i].edits);
    make_slow(&before, slow_cases[_i].spec, none);
    ccl_explanation_t *e = explain(&m, 0), *same = explain(&m, 3);
    ccl_bound_options_t how = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    how.size_bytes = m.options.sim.size_bytes;
    how.proto = m.program->proto;
    ck_assert_uint_eq(e->nslow, slow_cases[_i].n);
    for (uint32_t i = 0; i < e->nslow; i++) {
        const ccl_slow_part_t *part = &e->slow[i];
        ck_assert_int_eq(part->status, CCL_OK);
        if (slow_cases[_i].parts[i].what) {
            ck_assert_str_eq(part->what, slow_cases[_i].parts[i].what);
            ck_assert_str_eq(part->bandwidth, slow_cases[_i].parts[i].bandwidth);
            ck_assert_double_eq_tol(part->share, slow_cases[_i].parts[i].share, 1e-12);
        }
        ck_assert_uint_eq(part->count, slow_cases[_i].parts[i].count);
        ck_assert_msg(part->decides == slow_cases[_i].parts[i].decides, "%s: %g of %g", part->what,
                      part->time_s, e->result->time_s);
        ck_assert_str_eq(part->what, same->slow[i].what);
        ck_assert_double_eq(part->time_s, same->slow[i].time_s);
        ck_assert_double_eq(part->bound_s, same->slow[i].bound_s);
    }
    if (e->nslow) { /* the last one is all of it */
        const ccl_slow_part_t *all = &e->slow[e->nslow - 1];
        ck_assert_double_eq_tol(all->time_s, time_of(before.topo, m.program, m.options.sim),
                                1e-9 * all->time_s);
        ck_assert_int_eq(ccl_bound(NULL, before.topo, before.want, &how, &bound, NULL), CCL_OK);
        ck_assert_double_eq_tol(all->bound_s, bound.time_s, 1e-9 * all->bound_s);
        ccl_bound_fini(&bound);
    }
    ccl_explanation_destroy(e);
    ccl_explanation_destroy(same);
    clean(&m);
    clean(&before);
}
END_TEST

START_TEST(test_separate_runs) {
    made_t m;
    if (SANITIZED && (_i == 1 || _i == 3)) /* larger, no other code */
        return;
    make(&m, _i);
    ccl_explanation_t *e = explain(&m, 0);
    uint32_t edits = 0, options = 0;
    double last_s = 0;
    ck_assert_uint_ge(e->ntried, 8);
    for (uint32_t i = 0; i < e->ntried; i++) {
        const ccl_counterfactual_t *c = &e->tried[i];
        double time_s = NAN;
        if (c->status != CCL_OK) {
            ck_assert_msg(c->why[0] != 0, "%s: no reason", c->what);
            continue;
        }
        ck_assert_msg(c->time_s >= last_s, "%s: not in order", c->what);
        last_s = c->time_s;
        ck_assert((c->nedits > 0) != (c->options != NULL));
        ck_assert((c->nedits > 0) == (c->remedy != CCL_REMEDY_PROGRAM));
        if (c->nedits > 0) {
            ccl_topology_t *topo = edited_file(m.topo, c);
            time_s = time_of(topo, m.program, m.options.sim);
            ccl_topology_destroy(topo);
            edits++;
        } else {
            time_s = from_options(&m, c->options);
            options += !isnan(time_s);
        }
        ck_assert_msg(isnan(time_s) || time_s == c->time_s, "%s: %.17g, by itself %.17g", c->what,
                      c->time_s, time_s);
    }
    ck_assert_uint_ge(edits, 3);
    ck_assert_uint_ge(options, 5);
    ccl_explanation_destroy(e);
    clean(&m);
}
END_TEST

static uint32_t on_path; /* cases whose path goes over the links of the bound */

START_TEST(test_shares) {
    made_t m;
    make(&m, _i);
    m.options.no_what_if = true;
    m.options.intervals = 13;
    ccl_explanation_t *e = explain(&m, 1);
    const ccl_cut_use_t *cut = &e->cut;
    double whole = 0, cause_s = 0, over_s = 0;
    for (int c = 0; c < CCL_PATH_CAUSES; c++)
        cause_s += e->sum.cause_s[c];
    ck_assert_double_eq_tol(cause_s, e->result->time_s, 1e-9 * cause_s);
    ck_assert_uint_eq(e->ntried, 0);
    ck_assert_uint_gt(cut->nlinks, 0);
    ck_assert_double_le(cut->busy, 1 + 1e-9);
    for (uint32_t i = 0; i < 13; i++) {
        ck_assert_double_ge(cut->interval_busy[i], 0);
        whole += cut->interval_busy[i] / 13;
    }
    ck_assert_double_eq_tol(whole, cut->busy, 1e-9);
    whole = cut->before + cut->working + cut->waits_data + cut->waits_peer + cut->waits_slot +
            cut->after;
    ck_assert_double_eq_tol(whole, 1, 1e-9);
    /* The limiting link of a segment lies on the way of its bytes. */
    for (uint32_t i = 0; i < e->result->npath; i++) {
        const ccl_path_segment_t *s = &e->result->path[i];
        bool limits = s->cause == CCL_PATH_LINK || s->cause == CCL_PATH_SHARING;
        for (uint32_t k = 0; limits && k < cut->nlinks; k++)
            over_s += s->resource == e->bound.bandwidth.links[k] ? s->end_s - s->start_s : 0;
    }
    ck_assert_double_ge(cut->path_s, over_s * (1 - 1e-9));
    ck_assert_double_le(cut->path_s, e->result->time_s - e->sum.cause_s[CCL_PATH_LAUNCH]);
    on_path += cut->path_s > 0;
    if (cut->least_bytes > 0) { /* time / bound = more than needed / busy */
        ck_assert_double_ge(cut->carried_bytes, cut->least_bytes * (1 - 1e-9));
        ck_assert_double_eq_tol(e->result->time_s / e->bound.bandwidth_s,
                                cut->carried_bytes / cut->least_bytes / cut->busy, 1e-9);
    }
    ccl_explanation_destroy(e);
    clean(&m);
}
END_TEST

/** Two GPUs on one link: 100 us of bytes, 1 us of latency, nothing else. */
#define OVER_ONE(link_, rest_)                                                                     \
    "{\"format\":\"ccllab-topology-1\",\"name\":\"two\",\"devices\":["                             \
    "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1}],"      \
    "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"" link_           \
    "\",\"latency\":\"1us\"}]" rest_ "}"

/* 100 us over a link or, where that has more, over its group. */
static const struct {
    const char *text;
    struct {
        const char *what;
        double us;
    } want[4];
} two_gpus[] = {
    {OVER_ONE("10GB/s", ""),
     {{"all nvlink links twice as fast", 51},
      {"link a -> b twice as fast", 51},
      {"latency of nvlink halved", 100.5},
      {"2 micro-batches instead of 1", 101}}},
    {OVER_ONE(
         "40GB/s",
         ",\"groups\":[{\"name\":\"port\",\"links\":[[\"a\",\"b\"]],\"bandwidth\":\"10GB/s\"}]"),
     {{"group port of links twice as fast", 51},
      {"latency of nvlink halved", 100.5},
      {"2 micro-batches instead of 1", 101}}},
};

START_TEST(test_two_gpus) {
    made_t m = {.options = CCL_EXPLAIN_OPTIONS_INIT};
    ccl_program_builder_t *b;
    uint32_t found = 0, nwant = 0;
    m.topo = topology_of(two_gpus[_i].text);
    ck_assert_int_eq(ccl_collective_create(CCL_BROADCAST, 2, 1, 0, &m.want, NULL), CCL_OK);
    b = ccl_program_builder_create("two", m.want, 1, "Simple");
    ccl_step_t s = {.count = 1, .dep_tb = CCL_NONE, .dep_step = CCL_NONE};
    s.type = CCL_PRIM_S;
    ccl_program_builder_step(b, ccl_program_builder_tb(b, 0, 1, CCL_NONE, 0), s);
    s.type = CCL_PRIM_R;
    ccl_program_builder_step(b, ccl_program_builder_tb(b, 1, CCL_NONE, 0, 0), s);
    ck_assert_int_eq(ccl_program_builder_finish(b, &m.program, NULL), CCL_OK);
    m.options.program = m.program;
    m.options.sim.size_bytes = 1e6;
    ccl_explanation_t *e = explain(&m, 2);
    ck_assert_double_eq_tol(e->result->time_s, 101e-6, 1e-15);
    ck_assert_double_eq_tol(e->cut.path_s, 100e-6, 1e-15); /* all but the latency */
    ck_assert_uint_ge(on_path, 2);
    for (; nwant < CCL_ARRAY_LEN(two_gpus[_i].want) && two_gpus[_i].want[nwant].what; nwant++)
        for (uint32_t i = 0; i < e->ntried; i++)
            if (strcmp(e->tried[i].what, two_gpus[_i].want[nwant].what) == 0) {
                ck_assert_double_eq_tol(e->tried[i].time_s * 1e6, two_gpus[_i].want[nwant].us,
                                        1e-9);
                found++;
            }
    ck_assert_uint_eq(found, nwant);
    ccl_explanation_destroy(e);
    ccl_program_destroy(m.program);
    ccl_topology_destroy(m.topo);
}
END_TEST

START_TEST(test_threads) {
    made_t m;
    make(&m, 2);
    ccl_explanation_t *a = explain(&m, 1), *b = explain(&m, 4);
    ck_assert_uint_eq(a->ntried, b->ntried);
    for (uint32_t i = 0; i < a->ntried; i++) {
        ck_assert_str_eq(a->tried[i].what, b->tried[i].what);
        ck_assert_int_eq(a->tried[i].status, b->tried[i].status);
        ck_assert_double_eq(a->tried[i].time_s, b->tried[i].time_s);
    }
    ccl_explanation_destroy(a);
    ccl_explanation_destroy(b);
    clean(&m);
}
END_TEST

/* Beside a program of LL, what goes through switches is tried with Simple; such a program is tried
   with no other protocol. */
START_TEST(test_switches) {
    made_t m = {.options = {.size = sizeof(ccl_explain_options_t),
                            .synth = CCL_SYNTH_OPTIONS_INIT,
                            .lower = CCL_LOWER_OPTIONS_INIT,
                            .sim = CCL_SIM_OPTIONS_INIT}};
    double nvls_s = INFINITY;
    m.topo = topology("servers:1 gpus:4 nvswitch=450GB/s,0.7us,nvls model=H100");
    m.options.sim.size_bytes = m.options.synth.size_bytes = 1 << 20;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 4, 1, 0, &m.want, NULL), CCL_OK);
    m.options.want = m.want;
    for (int turn = 0; turn < 2; turn++) {
        ccl_lower_options_t *lower = &m.options.lower;
        ccl_made_t made = {0};
        m.options.with = turn == 0 ? "nvls" : "direct";
        lower->proto = turn == 0 ? "Simple" : "LL";
        lower->topo = m.topo;
        ck_assert_int_eq(ccl_make(NULL, m.options.with, m.topo, NULL, m.want, &m.options.synth,
                                  lower, true, &made, NULL),
                         CCL_OK);
        m.options.schedule = made.schedule;
        m.options.program = made.program;
        ccl_explanation_t *e = explain(&m, 1);
        uint32_t protocols = 0, nvls = 0;
        for (uint32_t i = 0; i < e->ntried; i++) {
            const ccl_counterfactual_t *c = &e->tried[i];
            protocols += strncmp(c->what, "protocol ", 9) == 0;
            if (strcmp(c->what, "synthesized by nvls") != 0)
                continue;
            nvls++;
            ck_assert_msg(c->time_s == nvls_s, "%s: %g s, not %g", c->why, c->time_s, nvls_s);
        }
        ck_assert_uint_eq(protocols, turn == 0 ? 0 : 2);
        ck_assert_uint_eq(nvls, (uint32_t)turn);
        nvls_s = made.run->time_s;
        ccl_explanation_destroy(e);
        ccl_made_fini(&made);
    }
    ccl_collective_destroy(m.want);
    ccl_topology_destroy(m.topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("explain");
    TCase *tc = tcase_create("explain");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, test_slow_parts, 0, (int)CCL_ARRAY_LEN(slow_cases));
    tcase_add_loop_test(tc, test_separate_runs, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tc, test_shares, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tc, test_two_gpus, 0, (int)CCL_ARRAY_LEN(two_gpus));
    tcase_add_test(tc, test_threads);
    tcase_add_test(tc, test_switches);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
