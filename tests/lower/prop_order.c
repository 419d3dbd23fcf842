/*
 * Orders of what all synthesizers make, and of random gossip, on mixed clusters: nothing is lost,
 * the result verifies, every dependency goes forward, and sub-pipelines are as full as their
 * connections, contended links and groups allow, not fuller.
 */
#include "tests/synth/common.h"
#include "tests/base/nightly.h"
#include "lower/order/order.h"

#ifdef __SANITIZE_ADDRESS__
enum { GOSSIPS = 5 }; /* ten times as slow */
#else
enum { GOSSIPS = 10 };
#endif

static const char *const specs[] = {
    "resccl-topo1",
    "heteccl-h20-4+8",
    "mi300x-x8",
    "syccl-8x4-clos",
    "servers:3 gpus:3 nvswitch=300GB/s,1us nics:1x25GB/s,2us fabric=single",
};

/** One way to order; flow: followers may stand in the sub-pipeline of what they wait for. */
static const struct {
    ccl_order_t order;
    ccl_order_flow_t flow;
    const char *name;
} ways[] = {{CCL_ORDER_RR, CCL_ORDER_FLOW_NO, "rr"},
            {CCL_ORDER_HPDS, CCL_ORDER_FLOW_YES, "hpds"},
            {CCL_ORDER_HPDS, CCL_ORDER_FLOW_NO, "hpds, no flow"},
            {CCL_ORDER_HPDS, CCL_ORDER_FLOW_REVERSED, "hpds, mirrored"},
            {CCL_ORDER_HPDS, CCL_ORDER_FLOW_REVERSED_APART, "hpds, mirrored, no flow"}};

typedef struct run {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_schedule_t *given, *made;
    const uint32_t *pipeline;
    uint32_t *new_of; /* [ntransfers] index in made of each given transfer */
    const char *what;
    bool own_channels; /* made has others than given */
    bool turned;       /* sums of a rank come in any order */
} run_t;

static uint64_t key_of(const run_t *r, const ccl_transfer_t *t) {
    return (uint64_t)t->src << 48 | (uint64_t)t->dst << 32 | (uint64_t)t->chunk << 8 |
           (uint64_t)(r->own_channels ? 0 : t->channel) << 2 | (uint64_t)t->reduce;
}

typedef struct keyed {
    uint64_t key;
    uint32_t index;
} keyed_t;

static int by_key(const void *a, const void *b) {
    const keyed_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static keyed_t *sorted_keys(const run_t *r, const ccl_schedule_t *s) {
    keyed_t *keys = malloc((s->ntransfers + (size_t)1) * sizeof *keys);
    for (uint32_t i = 0; i < s->ntransfers; i++)
        keys[i] = (keyed_t){key_of(r, &s->transfers[i]), i};
    qsort(keys, s->ntransfers, sizeof *keys, by_key);
    return keys;
}

/* The same transfers; equal ones keep their order, as both write the same place. */
static void match(run_t *r) {
    keyed_t *given = sorted_keys(r, r->given), *made = sorted_keys(r, r->made);
    ck_assert_uint_eq(r->given->ntransfers, r->made->ntransfers);
    for (uint32_t i = 0; i < r->given->ntransfers; i++) {
        const ccl_transfer_t *a = &r->given->transfers[given[i].index];
        const ccl_transfer_t *b = &r->made->transfers[made[i].index];
        ck_assert_msg(given[i].key == made[i].key && a->phase == b->phase, "%s: transfers differ",
                      r->what);
        r->new_of[given[i].index] = made[i].index;
    }
    free(given);
    free(made);
}

static uint32_t new_step(const run_t *r, uint32_t given) {
    return r->made->transfers[r->new_of[given]].step;
}

static void check_pair(const run_t *r, uint32_t i, uint32_t j) {
    const ccl_transfer_t *a = &r->given->transfers[i], *b = &r->given->transfers[j];
    if (a->step > b->step)
        return;
    bool earlier = a->step < b->step;
    bool raw = earlier && a->dst == b->src, war = a->src == b->dst;
    bool waw = earlier && a->dst == b->dst && !(r->turned && a->reduce && b->reduce);
    uint32_t x = new_step(r, i), y = new_step(r, j);
    if (!raw && !war && !waw)
        return;
    ck_assert_msg(
        x < y || (!earlier && x == y),
        "%s: %u>%u at step %u must come before %u>%u at step %u (chunk %u), not %u and %u", r->what,
        a->src, a->dst, a->step, b->src, b->dst, b->step, a->chunk, x, y);
}

static void check_dependencies(const run_t *r) {
    uint32_t n = r->given->ntransfers;
    keyed_t *list = malloc((n + (size_t)1) * sizeof *list);
    for (uint32_t i = 0; i < n; i++)
        list[i] = (keyed_t){r->given->transfers[i].chunk, i};
    qsort(list, n, sizeof *list, by_key);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && list[end].key == list[i].key;)
            end++;
        for (uint32_t a = i; a < end; a++) {
            for (uint32_t b = i; b < end; b++) {
                if (a != b)
                    check_pair(r, list[a].index, list[b].index);
            }
        }
    }
    free(list);
}

/* Transfers that share a step are of one chunk and one given step, and each can reach the others
   through the ranks of the step: from its destination one comes back to its source. */
static void check_units(const run_t *r) {
    uint32_t n = r->made->ntransfers, *given_of = malloc((n + (size_t)1) * sizeof *given_of);
    bool *reached = calloc(r->topo->nranks, sizeof *reached);
    for (uint32_t i = 0; i < n; i++)
        given_of[r->new_of[i]] = i;
    ck_assert_uint_eq(n ? r->made->transfers[n - 1].step + 1 : 0, r->made->nsteps);
    for (uint32_t i = 0, end; i < n; i = end) {
        const ccl_transfer_t *t = &r->made->transfers[i];
        for (end = i; end < n && r->made->transfers[end].step == t->step; end++) {
            ck_assert_uint_eq(r->made->transfers[end].chunk, t->chunk);
            ck_assert_uint_eq(r->given->transfers[given_of[end]].step,
                              r->given->transfers[given_of[i]].step);
            ck_assert_uint_eq(r->pipeline[end], r->pipeline[i]);
        }
        ck_assert(i == 0 ? t->step == 0 : t->step == r->made->transfers[i - 1].step + 1);
        for (uint32_t m = i; end - i > 1 && m < end; m++) {
            memset(reached, 0, r->topo->nranks * sizeof *reached);
            reached[r->made->transfers[m].dst] = true;
            for (uint32_t round = i; round < end; round++) {
                for (uint32_t k = i; k < end; k++)
                    reached[r->made->transfers[k].dst] |= reached[r->made->transfers[k].src];
            }
            ck_assert_msg(reached[r->made->transfers[m].src], "%s: step %u is no exchange", r->what,
                          t->step);
        }
    }
    free(given_of);
    free(reached);
}

/** What the transfers of a sub-pipeline take, counted anew from routes. */
typedef struct taken {
    double *load_Bps; /* [nlinks + ngroups] */
    uint8_t *conn;    /* [nranks * nranks * channels] */
} taken_t;

static size_t conn_of(const run_t *r, const ccl_transfer_t *t) {
    return ((size_t)t->src * r->topo->nranks + t->dst) * r->made->nchannels + t->channel;
}

static double peak_of(const run_t *r, const ccl_route_t *route) {
    double tb =
        ccl_model_transport(r->topo, ccl_model_route_kind(r->topo, route), "Simple").tb_rate_Bps;
    return tb < route->bottleneck_Bps ? tb : route->bottleneck_Bps;
}

/* Adds a transfer's rate, or (add false) tells whether its connection or something on its route is
   taken. */
static bool use(const run_t *r, const taken_t *now, const ccl_transfer_t *t, bool add) {
    const ccl_topology_t *topo = r->topo;
    const ccl_route_t *route;
    ck_assert_int_eq(ccl_routes_get(r->routes, t->src, t->dst, t->channel, &route, NULL), CCL_OK);
    bool busy = now->conn[conn_of(r, t)];
    if (add)
        now->conn[conn_of(r, t)] = 1;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        const ccl_link_t *link = &topo->links[route->links[i]];
        double *load = &now->load_Bps[route->links[i]];
        busy |= link->contention > 0 && *load >= link->bandwidth_Bps * (1 - 1e-9);
        if (add)
            *load += peak_of(r, route);
        for (uint32_t g = 0; g < topo->ngroups; g++) {
            for (uint32_t k = 0; k < topo->groups[g].nlinks; k++) {
                if (topo->groups[g].links[k] != route->links[i])
                    continue;
                load = &now->load_Bps[topo->nlinks + g];
                busy |= *load >= topo->groups[g].bandwidth_Bps * (1 - 1e-9);
                if (add)
                    *load += peak_of(r, route);
            }
        }
    }
    return busy;
}

static void clear(const run_t *r, const taken_t *now) {
    memset(now->load_Bps, 0, (r->topo->nlinks + r->topo->ngroups + 1) * sizeof(double));
    memset(now->conn, 0, (size_t)r->topo->nranks * r->topo->nranks * r->made->nchannels);
}

/* Whether some transfer that it depends on stands in sub-pipeline `from` or later. */
static bool waits(const run_t *r, const uint32_t *given_of, uint32_t unit, uint32_t end,
                  uint32_t from) {
    for (uint32_t m = unit; m < end; m++) {
        const ccl_transfer_t *b = &r->given->transfers[given_of[m]];
        for (uint32_t k = 0; k < unit; k++) {
            const ccl_transfer_t *a = &r->given->transfers[given_of[k]];
            if (r->pipeline[k] < from || a->chunk != b->chunk)
                continue;
            bool earlier = a->step < b->step;
            if ((earlier && (a->dst == b->src || a->dst == b->dst)) || a->src == b->dst)
                return true;
        }
    }
    return false;
}

/* No sub-pipeline takes what is taken; nothing stands in one that had room in the one before. */
static void check_pipelines(const run_t *r, uint32_t npipelines, bool flowing) {
    uint32_t n = r->made->ntransfers, first = 0, *given_of = malloc((n + (size_t)1) * 4);
    taken_t now = {calloc(r->topo->nlinks + r->topo->ngroups + 1, sizeof(double)),
                   calloc((size_t)r->topo->nranks * r->topo->nranks * r->made->nchannels, 1)};
    for (uint32_t i = 0; i < n; i++)
        given_of[r->new_of[i]] = i;
    for (uint32_t p = 0; p < npipelines; p++) {
        uint32_t i = first, end;
        for (; i < n && r->pipeline[i] == p; i = end) {
            for (end = i; end < n && r->made->transfers[end].step == r->made->transfers[i].step;)
                end++;
            for (uint32_t m = i; m < end; m++)
                ck_assert_msg(!use(r, &now, &r->made->transfers[m], false),
                              "%s: step %u takes what is taken in sub-pipeline %u", r->what,
                              r->made->transfers[m].step, p);
            for (uint32_t m = i; m < end; m++)
                use(r, &now, &r->made->transfers[m], true);
        }
        ck_assert_msg(i > first, "%s: sub-pipeline %u is empty", r->what, p);
        first = i;
        for (; i < n && r->pipeline[i] == p + 1; i = end) {
            bool busy = false;
            for (end = i; end < n && r->made->transfers[end].step == r->made->transfers[i].step;)
                busy |= use(r, &now, &r->made->transfers[end++], false);
            ck_assert_msg(busy || waits(r, given_of, i, end, flowing ? p + 1 : p),
                          "%s: step %u fits in sub-pipeline %u", r->what,
                          r->made->transfers[i].step, p);
        }
        clear(r, &now);
    }
    ck_assert_uint_eq(first, n);
    free(now.load_Bps);
    free(now.conn);
    free(given_of);
}

static void check_lowered(const run_t *r, bool out_of_place) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *program = NULL;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    lower.granularity = CCL_GRANULARITY_TASK;
    lower.slots = 1;
    lower.out_of_place = out_of_place;
    ck_assert_msg(ccl_lower(NULL, r->made, &lower, &program, &err) == CCL_OK, "%s: %s", r->what,
                  err.text);
    options.granularity = CCL_GRANULARITY_TASK;
    options.slots = 1;
    ck_assert_msg(ccl_program_verify(NULL, program, &options, verdict, &err) == CCL_OK, "%s: %s",
                  r->what, err.text);
    ck_assert_msg(verdict->valid, "%s: %s: %s", r->what, verdict->fault.kind, verdict->fault.text);
    free(verdict);
    ccl_program_destroy(program);
}

/* Pieces that flow: on channels of their own, over the routes that they had. */
static void check_flow(const ccl_topology_t *topo, ccl_routes_t *routes,
                       const ccl_schedule_t *given, const char *name) {
    char what[300];
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *made = NULL, *again = NULL;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    uint32_t *pipeline = calloc(given->ntransfers + (size_t)1, sizeof *pipeline);
    run_t r = {topo, routes,   given,
               NULL, pipeline, calloc(given->ntransfers + (size_t)1, sizeof(uint32_t)),
               what, true,     false};

    snprintf(what, sizeof what, "%s, flow", name);
    ck_assert_msg(ccl_schedule_order_list(NULL, given, topo, routes, 1e7, &made, &err) == CCL_OK,
                  "%s: %s", what, err.text);
    ck_assert_int_eq(ccl_schedule_verify(NULL, made, verdict, &err), CCL_OK);
    ck_assert_msg(verdict->valid, "%s: %s", what, verdict->fault.text);
    r.made = made;
    match(&r);
    check_units(&r);
    check_dependencies(&r);
    for (uint32_t i = 0; i < given->ntransfers; i++) {
        const ccl_transfer_t *a = &given->transfers[i], *b = &made->transfers[r.new_of[i]];
        const ccl_route_t *was = NULL, *is = NULL;

        ck_assert_int_eq(ccl_routes_get(routes, a->src, a->dst, a->channel, &was, &err), CCL_OK);
        ck_assert_int_eq(ccl_routes_get(routes, b->src, b->dst, b->channel, &is, &err), CCL_OK);
        ck_assert_uint_eq(was->nlinks, is->nlinks);
        ck_assert_mem_eq(was->links, is->links, was->nlinks * sizeof *was->links);
    }
    check_lowered(&r, false);
    ck_assert_int_eq(ccl_schedule_order_list(NULL, given, topo, routes, 1e7, &again, &err), CCL_OK);
    ck_assert_msg(ccl_schedule_equal(made, again), "%s: not the same twice", what);
    free(r.new_of);
    free(pipeline);
    free(verdict);
    ccl_schedule_destroy(again);
    ccl_schedule_destroy(made);
}

static void check_orders(const ccl_topology_t *topo, ccl_routes_t *routes,
                         const ccl_schedule_t *given, const char *name) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    check_flow(topo, routes, given, name);
    for (uint32_t w = 0; w < CCL_ARRAY_LEN(ways); w++) {
        bool turned = ways[w].flow >= CCL_ORDER_FLOW_REVERSED;
        if (turned && !ccl_schedule_reduces(given))
            continue; /* unit_order.c: the same as otherwise */
        char what[300];
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *made = NULL, *again = NULL;
        uint32_t *pipeline = NULL;
        ccl_lower_stats_t stats = {0};
        snprintf(what, sizeof what, "%s, %s", name, ways[w].name);
        ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
        wish.topo = topo;
        wish.routes = routes;
        wish.order = ways[w].order;
        wish.flow = ways[w].flow;
        ck_assert_msg(ccl_schedule_order(NULL, given, &wish, &made, &pipeline, &stats, &err) ==
                          CCL_OK,
                      "%s: %s", what, err.text);
        ck_assert_int_eq(ccl_schedule_verify(NULL, made, verdict, &err), CCL_OK);
        ck_assert_msg(verdict->valid, "%s: %s", what, verdict->fault.text);
        run_t r = {topo, routes,   given,
                   made, pipeline, calloc(given->ntransfers + (size_t)1, sizeof(uint32_t)),
                   what, false,    turned};
        match(&r);
        check_units(&r);
        check_dependencies(&r);
        if (ways[w].order == CCL_ORDER_HPDS &&
            !turned) /* a mirrored one ends with what is left over */
            check_pipelines(&r, stats.pipelines, ways[w].flow == CCL_ORDER_FLOW_YES);
        check_lowered(&r, w == 1);
        wish.routes = NULL;
        ck_assert_int_eq(ccl_schedule_order(NULL, given, &wish, &again, NULL, NULL, &err), CCL_OK);
        ck_assert_msg(ccl_schedule_equal(made, again), "%s: not the same twice", what);
        free(r.new_of);
        free(pipeline);
        ccl_schedule_destroy(again);
        ccl_schedule_destroy(made);
    }
    free(verdict);
}

START_TEST(test_synthesizers) {
    ccl_topology_t *topo = topology(specs[_i]);
    if (topo->nranks > (nightly() ? 64 : 16)) { /* the same with more of everything */
        ccl_topology_destroy(topo);
        return;
    }
    ccl_routes_t *routes = ccl_routes_create(topo);
    uint32_t checked = 0;
    for (int kind = CCL_ALLREDUCE; kind <= CCL_SENDRECV; kind++) {
        ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks, 0);
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name; ops++) {
            ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
            ccl_schedule_t *s = NULL;
            char name[200];
            if (only_plain(*ops, want->kind))
                continue;
            options.chunks = 1; /* tries fewer ways where a synthesizer searches */
            options.sketch.cache = solved_once();
            options.channels = 1 + (uint32_t)kind % 2;
            snprintf(name, sizeof name, "%s %s on %s", (*ops)->name, want->name, specs[_i]);
            if (ccl_synthesize(NULL, (*ops)->name, topo, routes, want, &options, &s, NULL) ==
                CCL_OK) {
                check_orders(topo, routes, s, name);
                checked++;
            }
            ccl_schedule_destroy(s);
        }
        ccl_collective_destroy(want);
    }
    ck_assert_uint_ge(checked, 15);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* An AllGather by gossip: random holders tell random ranks, some of which hold it already and may
   tell others, or back, in the same step. */
static ccl_schedule_t *gossip(ccl_rng_t *rng, uint32_t n) {
    ccl_collective_t *coll = collective(CCL_ALLGATHER, n, 0);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("gossip", coll);
    ccl_schedule_t *out = NULL;
    uint8_t *has = calloc(n, n), *next = calloc(n, n);
    uint32_t steps = 2 + ccl_rng_below(rng, 5);
    for (uint32_t r = 0; r < n; r++)
        has[r * n + r] = 1;
    for (uint32_t step = 0; step <= steps; step++) {
        memcpy(next, has, (size_t)n * n);
        for (uint32_t chunk = 0; chunk < n; chunk++) {
            for (uint32_t src = 0; src < n; src++) {
                for (uint32_t dst = 0; dst < n; dst++) {
                    bool last = step == steps && src == chunk && !has[dst * n + chunk];
                    if (src == dst || !has[src * n + chunk] ||
                        (!last && (step == steps || ccl_rng_below(rng, n))))
                        continue;
                    next[dst * n + chunk] = 1;
                    ccl_transfer_t t = {.src = src, .dst = dst, .chunk = chunk, .step = 3 * step};
                    ccl_schedule_builder_add(b, t);
                }
            }
        }
        memcpy(has, next, (size_t)n * n);
    }
    free(has);
    free(next);
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &out, NULL), CCL_OK);
    return out;
}

START_TEST(test_gossip) {
    ccl_topology_t *topo = topology(specs[(uint32_t)_i % CCL_ARRAY_LEN(specs)]);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_rng_t rng;
    char name[40];
    ccl_rng_init(&rng, (uint64_t)_i + 1);
    snprintf(name, sizeof name, "gossip %d", _i);
    ccl_schedule_t *s = gossip(&rng, topo->nranks);
    check_orders(topo, routes, s, name);
    ccl_schedule_destroy(s);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.order");
    TCase *tcase = tcase_create("order");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_synthesizers, 0, (int)CCL_ARRAY_LEN(specs));
    tcase_add_loop_test(tcase, test_gossip, 0, nightly() ? 100 : GOSSIPS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
