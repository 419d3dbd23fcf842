/* taccl: its stages where the answer is known by hand, all collectives, the limit, what is refused.
 */
#include "common.h"
#include "synth/exact/taccl.h"

#include <math.h>

#define MIXED                                                                                      \
    "servers:1 gpus:4 nvswitch=100GB/s,1us nics:4x1GB/s,2us + "                                    \
    "servers:1 gpus:2 nvswitch=100GB/s,1us nics:2x1GB/s,2us"
#define PAIR "servers:2 gpus:2 nvswitch=100GB/s,0us nics:2x1GB/s,50us fabric=rail"

static ccl_schedule_t *make(const ccl_topology_t *topo, ccl_collective_kind_t kind, double size,
                            uint32_t chunks) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = size;
    options.chunks = chunks;
    options.time_limit_s = 60;
    return synthesized("taccl", topo, kind, &options);
}

static double time_of(const ccl_topology_t *topo, const ccl_schedule_t *s, double size) {
    return timed_s(topo, s, size, (ccl_way_t){0});
}

/** Ring of n GPUs, both ways, 1 GB/s and no latency. */
static ccl_topology_t *ring(uint32_t n) {
    ccl_topology_builder_t *b = with_gpus("ring", n);
    for (uint32_t i = 0; i < n; i++)
        add_duplex(b, i, (i + 1) % n, "nvlink", 1, 0);
    return finish(b);
}

/* ---------------------------------------------------------------- routes */

typedef struct row {
    uint32_t ring; /* GPUs */
    ccl_collective_kind_t kind;
    uint32_t chunks;
    double most_s; /* a chunk is 1 MB: 1 ms */
} row_t;

static const row_t ROWS[] = {
    {4, CCL_ALLGATHER, 1, 2e-3},     /* 3 chunks over two links into each */
    {5, CCL_ALLGATHER, 1, 2e-3},     /* 4 over two */
    {4, CCL_REDUCESCATTER, 1, 2e-3}, /* as the allgather, time-reversed */
    {4, CCL_ALLREDUCE, 1, 4e-3},     /* both */
    {6, CCL_ALLTOALL, 2, 9e-3},      /* 18 hops of each GPU's chunks over 2 links out of it */
};

START_TEST(least_load) {
    const row_t *row = &ROWS[_i];
    ccl_topology_t *topo = ring(row->ring);
    double size = 1e6 * topo->nranks * row->chunks;
    ccl_schedule_t *s = make(topo, row->kind, size, row->chunks);
    double time_s = time_of(topo, s, size);
    ck_assert_msg(time_s <= row->most_s * (1 + 1e-9), "row %d: %g s", _i, time_s);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/** On shortest paths a root sends to each of the three others, which takes three times as long as
 * one send; over another GPU two steps suffice. */
START_TEST(other_ways) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=1GB/s,0us");
    for (int k = 0; k < 2; k++) {
        ccl_schedule_t *s = make(topo, k ? CCL_REDUCE : CCL_BROADCAST, 1e6, 1);
        uint32_t sent[4] = {0};
        for (uint32_t i = 0; i < s->ntransfers; i++)
            sent[k ? s->transfers[i].dst : s->transfers[i].src]++;
        ck_assert_uint_eq(s->ntransfers, 3);
        for (uint32_t r = 0; r < 4; r++)
            ck_assert_uint_le(sent[r], 2);
        ck_assert(!s->limited);
        ccl_schedule_destroy(s);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/** Between servers only GPUs of the same place meet, where all pairs could. */
START_TEST(rails) {
    ccl_topology_t *topo = topology(MIXED);
    ccl_schedule_t *s = make(topo, CCL_ALLGATHER, 6e6, 1);
    uint32_t crossing = 0;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        uint32_t src = s->transfers[i].src, dst = s->transfers[i].dst;
        if ((src < 4) == (dst < 4))
            continue;
        ck_assert_uint_eq(src % 2, dst % 2); /* places 0 to 3 beside 0 and 1 */
        crossing++;
    }
    ck_assert_uint_ge(crossing, 6); /* four chunks one way, two the other, */
    ck_assert_uint_le(crossing, 8); /* which may come to both of their places */
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- order and messages */

typedef struct fixture {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_exchange_t x;
    ccl_i_rotation_t rotation;
    ccl_collective_t *coll;
    double cost_s[64];
    uint32_t server[4];
    ccl_i_taccl_t t;
} fixture_t;

/* Chunks of 50 KB: 50 us of bytes and as much latency between servers. */
static void open_fixture(fixture_t *f, uint32_t chunks) {
    memset(f, 0, sizeof *f);
    f->topo = topology(PAIR);
    f->routes = ccl_routes_create(f->topo);
    ck_assert_int_eq(ccl_i_exchange_init(&f->x, f->topo, f->routes, NULL, NULL), CCL_OK);
    ck_assert_uint_le(f->x.nhops, 64);
    ccl_collective_t *whole = collective(CCL_ALLGATHER, 4, 0);
    ck_assert_int_eq(ccl_collective_split(whole, chunks, &f->coll, NULL), CCL_OK);
    ccl_collective_destroy(whole);
    ck_assert_int_eq(ccl_i_rotation_find(&f->x, &f->rotation, NULL), CCL_OK);
    for (uint32_t h = 0; h < f->x.nhops; h++)
        f->cost_s[h] = f->x.hops[h].alpha_s + 5e4 / f->x.hops[h].link_Bps;
    for (uint32_t r = 0; r < 4; r++)
        f->server[r] = r / 2;
    f->t = (ccl_i_taccl_t){&f->x, f->coll, &f->rotation, f->server, f->cost_s, 5e4};
}

static void close_fixture(fixture_t *f) {
    ccl_i_rotation_fini(&f->rotation);
    ccl_collective_destroy(f->coll);
    ccl_i_exchange_fini(&f->x);
    ccl_routes_destroy(f->routes);
    ccl_topology_destroy(f->topo);
}

static uint32_t hop_of(const fixture_t *f, uint32_t src, uint32_t dst) {
    for (uint32_t h = 0; h < f->x.nhops; h++)
        if (f->x.hops[h].src == src && f->x.hops[h].dst == dst)
            return h;
    ck_abort_msg("no hop");
    return 0;
}

/** Of two chunks that could go first the one that has farther to go. */
START_TEST(farthest_first) {
    fixture_t f;
    open_fixture(&f, 2);
    uint32_t hop = hop_of(&f, 0, 2), on = hop_of(&f, 2, 3);
    ccl_i_taccl_send_t sends[] = {
        {0, hop, CCL_NONE, 0, 0}, {1, hop, CCL_NONE, 0, 0}, {1, on, 1, 0, 0}};
    ccl_i_taccl_sends_t s = {sends, 3, 3};
    ck_assert_int_eq(ccl_i_taccl_order(&f.t, &s, NULL), CCL_OK);
    ck_assert_uint_eq(sends[0].chunk, 1);
    ck_assert_double_eq(sends[0].start_s, 0);
    for (size_t i = 0; i < 3; i++)
        if (sends[i].hop == on)
            ck_assert_uint_eq(sends[i].parent, 0); /* as it stands now */
    close_fixture(&f);
}
END_TEST

/** Two chunks of GPU 0 for GPU 2: in one message they pay the latency once, and come together. */
START_TEST(together) {
    fixture_t f;
    open_fixture(&f, 2);
    uint32_t hop = hop_of(&f, 0, 2);
    double alpha_s = f.x.hops[hop].alpha_s, bytes_s = f.cost_s[hop] - alpha_s;
    ccl_i_taccl_send_t sends[] = {{0, hop, CCL_NONE, 0, 0}, {1, hop, CCL_NONE, 0, 0}};
    ccl_i_taccl_sends_t s = {sends, 2, 2};
    ccl_i_glpk_answer_t answer;
    bool best = false;
    ck_assert_int_eq(ccl_i_taccl_order(&f.t, &s, NULL), CCL_OK);
    ck_assert_double_eq_tol(sends[1].arrive_s, 2 * (alpha_s + bytes_s), 1e-12);
    ck_assert_int_eq(ccl_i_taccl_times(&f.t, 1000, &s, &answer, &best, NULL), CCL_OK);
    ck_assert_int_eq(answer, CCL_I_GLPK_FOUND);
    ck_assert(best);
    ck_assert_double_eq_tol(sends[0].start_s, sends[1].start_s, 1e-12);
    ck_assert_double_eq_tol(sends[0].arrive_s, alpha_s + 2 * bytes_s, 1e-9);
    ck_assert_double_eq_tol(sends[1].arrive_s, alpha_s + 2 * bytes_s, 1e-9);
    close_fixture(&f);
}
END_TEST

/** A chunk that is not there yet is not waited for, where waiting costs more than a latency. */
START_TEST(apart) {
    fixture_t f;
    open_fixture(&f, 1);
    uint32_t inside = hop_of(&f, 1, 0), hop = hop_of(&f, 0, 2), on = hop_of(&f, 2, 3);
    f.cost_s[inside] = 1e-3; /* GPU 1's chunk comes late */
    f.cost_s[on] = 2e-3;     /* GPU 0's has far to go */
    ccl_i_taccl_send_t sends[] = {
        {0, hop, CCL_NONE, 0, 0}, {0, on, 0, 0, 0}, {1, inside, CCL_NONE, 0, 0}, {1, hop, 2, 0, 0}};
    ccl_i_taccl_sends_t s = {sends, 4, 4};
    ccl_i_glpk_answer_t answer;
    bool best = false;
    ck_assert_int_eq(ccl_i_taccl_order(&f.t, &s, NULL), CCL_OK);
    ck_assert_int_eq(ccl_i_taccl_times(&f.t, 1000, &s, &answer, &best, NULL), CCL_OK);
    ck_assert_int_eq(answer, CCL_I_GLPK_FOUND);
    for (size_t i = 0; i < 4; i++) {
        double from_s = sends[i].parent == CCL_NONE ? 0 : sends[sends[i].parent].arrive_s;
        ck_assert_double_ge(sends[i].start_s, from_s - 1e-9);
        if (sends[i].hop == hop && sends[i].chunk == 0)
            ck_assert_double_lt(sends[i].arrive_s, 1e-3);
    }
    close_fixture(&f);
}
END_TEST

/* ---------------------------------------------------------------- all of it */

static const struct {
    const char *spec;
    uint32_t slow; /* kinds that take all of the search's nodes */
} quick[] = {
    {"mi300x-x8", 0},
    {PAIR, 0},
    {"dgx1-v100", 1u << CCL_ALLGATHER | 1u << CCL_REDUCESCATTER | 1u << CCL_ALLREDUCE},
    {MIXED, 0},
};

START_TEST(verifies) {
    const char *spec = quick[_i].spec;
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.time_limit_s = 60;
    options.size_bytes = 1e6;
    uint32_t tried = 0;
    for (uint32_t kind = 0; kind < CCL_CUSTOM; kind += 1 + SANITIZED) {
        if (quick[_i].slow >> kind & 1)
            continue;
        ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks, 1);
        options.chunks = 1 + kind % 2;
        tried += check_all("taccl", topo, routes, want, &options, 1, spec);
        ccl_collective_destroy(want);
    }
    ck_assert_uint_ge(tried, SANITIZED ? 2 : 4);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(limited_and_refused) {
    ccl_topology_t *topo =
        topology("servers:4 gpus:8 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=single");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.time_limit_s = 1e-3;
    ck_assert_int_eq(ccl_synthesize(NULL, "taccl", topo, NULL, want, &options, &s, &err),
                     CCL_TIMEOUT);
    ck_assert_msg(strstr(err.text, "taccl found nothing within its time limit"), "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    topo = topology("servers:9 gpus:8 nvswitch=300GB/s,1us nics:4x25GB/s,2us");
    want = collective(CCL_REDUCESCATTER, topo->nranks, 0);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_synthesize(NULL, "taccl", topo, NULL, want, &options, &s, &err),
                     CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "2 to 64 GPUs"), "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.taccl");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, least_load, 0, (int)CCL_ARRAY_LEN(ROWS));
    tcase_add_test(all, other_ways);
    tcase_add_test(all, rails);
    tcase_add_test(all, farthest_first);
    tcase_add_test(all, together);
    tcase_add_test(all, apart);
    tcase_add_loop_test(all, verifies, 0, (int)CCL_ARRAY_LEN(quick));
    tcase_add_test(all, limited_and_refused);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
