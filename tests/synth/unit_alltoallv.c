/*
 * Parts of alltoallv alone: cuts by hand of chunks that several servers want, lanes over all
 * routes of a pair, and matrices that change from plan to plan.
 */
#include "common.h"
#include "synth/alltoallv/work.h"

#include <math.h>

/* Leaves of two servers with 4 ports of 25 GB/s each, uplinks of half of that. */
#define LEAVES                                                                                     \
    "{\"format\": \"ccllab-cluster-1\", \"name\": \"leaves\",\n"                                   \
    " \"servers\": [{\"type\": \"h20-x4\", \"count\": 4}],\n"                                      \
    " \"fabric\": {\"kind\": \"clos\", \"servers_per_leaf\": 2, \"spines\": 2, "                   \
    "\"oversubscription\": 8}}"

/* Border of the part that GPU 0, 4, .. is in, at a level. */
static double border_Bps(const ccl_i_av_net_t *net, const char *what, uint32_t gpu, bool out) {
    for (uint32_t v = 0; v < net->levels.nlevels; v++) {
        const ccl_cut_level_t *level = &net->levels.levels[v];
        uint32_t part = level->part_of[gpu];
        if (strcmp(level->what, what) == 0)
            return out ? level->out_Bps[part] : level->in_Bps[part];
    }
    ck_abort_msg("no level of %s", what);
    return 0;
}

static ccl_collective_t *demand(const char *chunks) {
    char text[512];
    ccl_collective_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    snprintf(text, sizeof text,
             "{\"format\": \"ccllab-demand-1\", \"nranks\": 16, \"chunks\": [%s]}", chunks);
    ck_assert_msg(ccl_demand_read_text("d", text, strlen(text), &out, &err) == CCL_OK, "%s",
                  err.text);
    return out;
}

/* GPUs 0 to 3 are a server, 0 to 7 share a leaf. */
START_TEST(what_several_servers_want_crosses_a_border_once) {
    static const struct {
        const char *chunks, *cut;
        uint32_t gpu; /* whose border is the tightest */
        bool out;
        double bytes; /* that cross it */
    } rows[] = {
        /* to both servers of the other leaf: out of this one and into that one once */
        {"{\"source\": 0, \"destinations\": [8, 12], \"bytes\": 1000000}",
         "servers behind the same switches", 0, true, 1e6},
        {"{\"source\": 0, \"destinations\": [8, 12], \"bytes\": 1000000},"
         "{\"source\": 4, \"destinations\": [9, 13], \"bytes\": 500000}",
         "servers behind the same switches", 8, false, 1.5e6},
        /* to GPUs of one server it is one item, to three servers three */
        {"{\"source\": 0, \"destinations\": [4, 5, 8, 12, 13], \"bytes\": 1000000}",
         "servers behind the same switches", 0, true, 1e6},
        /* within a leaf its GPU is the tightest, and several servers' copies leave it once */
        {"{\"source\": 0, \"destinations\": [4], \"bytes\": 1000000}", NULL, 0, true, 1e6},
    };
    ccl_topology_t *topo = topology_of(LEAVES);
    for (uint32_t i = 0; i < 2 * CCL_ARRAY_LEN(rows); i++) {
        ccl_i_av_net_t net;
        ccl_i_av_work_t w;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_collective_t *coll = demand(rows[i / 2].chunks);
        ck_assert_msg(ccl_i_av_net_init(&net, topo, false, &err) == CCL_OK, "%s", err.text);
        net.contiguous &= i % 2 == 0; /* what is counted item by item elsewhere */
        ck_assert_int_eq(ccl_i_av_work_init(&w, &net, &err), CCL_OK);
        ck_assert_int_eq(ccl_i_av_items_collective(&w, coll, coll->natural_bytes, false, &err),
                         CCL_OK);
        ck_assert_int_eq(ccl_i_av_cuts(&w, &err), CCL_OK);
        const char *cut = rows[i / 2].cut ? rows[i / 2].cut : w.cut;
        double Bps = border_Bps(&net, cut, rows[i / 2].gpu, rows[i / 2].out);
        ck_assert_msg(strcmp(w.cut, cut) == 0, "row %u: %s", i / 2, w.cut);
        ck_assert_msg(fabs(w.bound_s * Bps / rows[i / 2].bytes - 1) < 1e-9,
                      "row %u: %.0f bytes cross %s", i / 2, w.bound_s * Bps, w.cut);
        ccl_i_av_work_fini(&w);
        ccl_i_av_net_fini(&net);
        ccl_collective_destroy(coll);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* Without a search, which knows the other routes too. */
START_TEST(lanes_take_all_routes_of_a_pair) {
    static const char *const specs[] = {
        "servers:2 gpus:2 nvswitch=400GB/s nics:4x25GB/s",
        "servers:3 gpus:2 nvswitch=400GB/s nics:8x25GB/s",
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(specs); i++) {
        ccl_topology_t *topo = topology(specs[i]);
        uint32_t n = topo->nranks;
        ccl_alltoallv_options_t options = CCL_ALLTOALLV_OPTIONS_INIT;
        ccl_alltoallv_t *planner = NULL;
        ccl_alltoallv_report_t r;
        const ccl_schedule_t *s;
        double m[64];
        ck_assert_uint_le(n * n, CCL_ARRAY_LEN(m));
        for (uint32_t k = 0; k < n * n; k++)
            m[k] = k / n == k % n ? 0 : 3e7 + 1e6 * (k % 5);
        options.search_gpus = CCL_NONE;
        ck_assert_int_eq(ccl_alltoallv_create(NULL, topo, &options, &planner, NULL), CCL_OK);
        ck_assert_int_eq(ccl_alltoallv_plan(planner, m, 0, &s, &r, NULL), CCL_OK);
        ck_assert_msg(r.load_s < 1.02 * r.bound_s, "%s: %.3f of %s", specs[i], r.load_s / r.bound_s,
                      r.cut);
        ccl_alltoallv_destroy(planner);
        ccl_topology_destroy(topo);
    }
}
END_TEST

static void check_plan(const ccl_schedule_t *s, const double *m, uint32_t n, const char *spec) {
    ccl_verdict_t verdict;
    double *sum = calloc((size_t)n * n, sizeof *sum);
    ck_assert_int_eq(ccl_schedule_verify(NULL, s, &verdict, NULL), CCL_OK);
    ck_assert_msg(verdict.valid, "%s: %s", spec, verdict.fault.text);
    for (uint32_t k = 0; k < s->coll->nchunks; k++) {
        const ccl_chunk_t *c = &s->coll->chunks[k];
        sum[(size_t)c->sources[0] * n + c->dests[0]] += c->share * s->coll->natural_bytes;
    }
    for (size_t i = 0; i < (size_t)n * n; i++)
        ck_assert_msg(fabs(sum[i] - m[i]) <= 1e-6 * (m[i] + 1), "%s: %g of %g bytes", spec, sum[i],
                      m[i]);
    free(sum);
}

/* A tenth of the blocks changes each time: links stay even, and nearly all transfers are the last
   plan's. Evenly at first, nothing has a second way: new parts are needed. */
START_TEST(changed_matrices_are_evened_out) {
    static const struct {
        const char *spec;
        bool even, grows;
        uint32_t anew; /* of 12 changes that are planned from the start, at most */
    } rows[] = {
        {"dgx-h100*8", true, true, 2},
        {"dgx-h100*8", false, false, 2},
        {"servers:3 gpus:8 nvswitch=200GB/s nics:4x25GB/s", true, false, 3},
        {"dgx-h100*3", true, true, 4},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        uint32_t n = topo->nranks, anew = 0, grown = 0, last = 0;
        double *m = calloc((size_t)n * n, sizeof *m), reached = 1;
        ccl_alltoallv_t *planner = NULL;
        ccl_rng_t rng;
        ccl_rng_init(&rng, 17 + i);
        for (uint32_t k = 0; k < n * n; k++)
            m[k] = k / n == k % n ? 0 : rows[i].even ? 4e6 : 1e6 / (ccl_rng_unit(&rng) + 0.02);
        ck_assert_int_eq(ccl_alltoallv_create(NULL, topo, NULL, &planner, NULL), CCL_OK);
        for (uint32_t turn = 0; turn <= 12; turn++) {
            const ccl_schedule_t *s;
            ccl_alltoallv_report_t r;
            ck_assert_int_eq(ccl_alltoallv_plan(planner, m, 0, &s, &r, NULL), CCL_OK);
            bool again = r.replanned == r.pairs;
            if (again)
                reached = fmax(1, r.load_s / r.bound_s);
            ck_assert_msg(r.load_s <= 1.0051 * reached * r.bound_s, "%s: %.4f of the cut",
                          rows[i].spec, r.load_s / r.bound_s);
            check_plan(s, m, n, rows[i].spec);
            anew += turn > 0 && again;
            grown += turn > 0 && !again && s->ntransfers > last;
            last = s->ntransfers;
            for (uint32_t k = 0; k < n * n; k++)
                if (m[k] > 0 && ccl_rng_below(&rng, 10) == 0)
                    m[k] *= 0.5 + ccl_rng_unit(&rng);
        }
        ck_assert_msg(anew <= rows[i].anew, "%s: %u from the start", rows[i].spec, anew);
        ck_assert_msg(!rows[i].grows || grown > 0, "%s: no new parts", rows[i].spec);
        ccl_alltoallv_destroy(planner);
        free(m);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Where ways of four hops leave a link at 1.66 of the cut, found from the start with longer ones.
 */
START_TEST(longer_ways_are_found) {
    ccl_topology_t *topo = topology("mi250-x16*2");
    uint32_t n = topo->nranks;
    double *m = calloc((size_t)n * n, sizeof *m);
    ccl_alltoallv_t *planner = NULL;
    ccl_alltoallv_report_t r;
    const ccl_schedule_t *s;
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7);
    for (uint32_t i = 0; i < n * n; i++)
        m[i] = 1e9 * pow(i + 1.0, -1.2);
    for (uint32_t i = n * n; i > 1; i--) {
        uint32_t j = ccl_rng_below(&rng, i);
        double x = m[i - 1];
        m[i - 1] = m[j];
        m[j] = x;
    }
    ck_assert_int_eq(ccl_alltoallv_create(NULL, topo, NULL, &planner, NULL), CCL_OK);
    ck_assert_int_eq(ccl_alltoallv_plan(planner, m, 0, &s, &r, NULL), CCL_OK);
    ck_assert_msg(r.load_s < 1.05 * r.bound_s, "%.3f of the cut", r.load_s / r.bound_s);
    ccl_alltoallv_destroy(planner);
    free(m);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(longer_ways_are_found, changed_matrices_are_evened_out,
          what_several_servers_want_crosses_a_border_once, lanes_take_all_routes_of_a_pair)
