/* The exchange graph: hops, what they share, on topologies where all of it is known. */
#include "common.h"
#include "synth/common/exchange.h"

#include <math.h>

typedef struct made {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_exchange_t x;
} made_t;

static made_t make(const char *spec, const ccl_i_exchange_options_t *options) {
    made_t m = {.topo = topology(spec)};
    ccl_error_t err = CCL_ERROR_INIT;
    m.routes = ccl_routes_create(m.topo);
    ck_assert_ptr_nonnull(m.routes);
    ck_assert_msg(ccl_i_exchange_init(&m.x, m.topo, m.routes, options, &err) == CCL_OK, "%s",
                  err.text);
    return m;
}

static void done(made_t *m) {
    ccl_i_exchange_fini(&m->x);
    ccl_routes_destroy(m->routes);
    ccl_topology_destroy(m->topo);
}

static const ccl_i_hop_t *find(const ccl_i_exchange_t *x, uint32_t src, uint32_t dst,
                               uint32_t nth) {
    for (uint32_t h = x->out_first[src]; h < x->out_first[src + 1]; h++) {
        if (x->hops[h].dst == dst && nth-- == 0)
            return &x->hops[h];
    }
    return NULL;
}

static uint32_t shared(const ccl_i_exchange_t *x, const ccl_i_hop_t *a, const ccl_i_hop_t *b) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->nuses; i++)
        for (uint32_t j = 0; j < b->nuses; j++)
            n += x->uses[a->first_use + i].resource == x->uses[b->first_use + j].resource;
    return n;
}

START_TEST(test_switch) {
    /* Each GPU's way out and in: eight resources of four GPUs, two on every hop. */
    made_t m = make("servers:1 gpus:4 nvswitch=300GB/s,1us", NULL);
    const ccl_i_exchange_t *x = &m.x;
    ck_assert_uint_eq(x->nhops, 12);
    ck_assert_uint_eq(x->nresources, 8);
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        ck_assert_uint_eq(hop->nuses, 2);
        ck_assert_double_eq(hop->link_Bps, 300e9);
        ck_assert_double_ge(hop->alpha_s, 1e-6);
        for (uint32_t k = 0; k < x->nhops; k++) {
            const ccl_i_hop_t *other = &x->hops[k];
            ck_assert_uint_eq(shared(x, hop, other),
                              (hop->src == other->src) + (hop->dst == other->dst));
        }
    }
    done(&m);
}
END_TEST

START_TEST(test_equal_routes) {
    /* Two NICs a server, one switch: two routes a pair, by channel; a NIC's links are one. */
    made_t m = make("servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us", NULL);
    const ccl_i_exchange_t *x = &m.x;
    const ccl_route_t *route;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        ck_assert_int_eq(ccl_routes_get(m.routes, hop->src, hop->dst, hop->channel, &route, NULL),
                         CCL_OK);
        ck_assert_double_eq(hop->link_Bps, route->bottleneck_Bps);
        ck_assert_uint_gt(hop->lanes, 0);
        double tightest_Bps = INFINITY;
        for (uint32_t i = 0; i < hop->nuses; i++)
            tightest_Bps =
                fmin(tightest_Bps, x->resources[x->uses[hop->first_use + i].resource].Bps);
        ck_assert_double_eq(tightest_Bps, hop->link_Bps);
        bool outside = hop->src / 2 != hop->dst / 2;
        uint32_t width = ccl_routes_width(m.routes, hop->src, hop->dst);
        ck_assert_ptr_nonnull(find(x, hop->src, hop->dst, outside ? width - 1 : 0));
        ck_assert_ptr_null(find(x, hop->src, hop->dst, outside ? width : 1));
    }
    /* Arrivals are the same hops by destination. */
    ck_assert_uint_eq(x->in_first[x->nranks], x->nhops);
    for (uint32_t r = 0; r < x->nranks; r++) {
        for (uint32_t i = x->in_first[r]; i < x->in_first[r + 1]; i++) {
            ck_assert_uint_eq(x->hops[x->in_hops[i]].dst, r);
            ck_assert(i == x->in_first[r] || x->in_hops[i] > x->in_hops[i - 1]);
        }
    }
    done(&m);
}
END_TEST

/* Three GPUs in a line over direct links, 0 -> 1 with a group of both ways of 1 - 2. */
static const char line[] =
    "{\"format\":\"ccllab-topology-1\",\"name\":\"line\",\"devices\":["
    "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0,\"model\":\"m\"},"
    "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1,\"model\":\"m\"},"
    "{\"id\":\"c\",\"kind\":\"gpu\",\"rank\":2,\"model\":\"m\"}],\"links\":["
    "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"50GB/s\","
    "\"latency\":\"1us\",\"duplex\":false},"
    "{\"from\":\"b\",\"to\":\"a\",\"kind\":\"nvlink\",\"bandwidth\":\"10GB/s\","
    "\"latency\":\"3us\",\"duplex\":false},"
    "{\"from\":\"b\",\"to\":\"c\",\"kind\":\"nvlink\",\"bandwidth\":\"25GB/s\","
    "\"latency\":\"1us\",\"lanes\":2}],"
    "\"groups\":[{\"name\":\"both\",\"bandwidth\":\"30GB/"
    "s\",\"links\":[[\"b\",\"c\"],[\"c\",\"b\"]]}],"
    "\"transports\":{\"nvlink\":{\"tb_rate\":\"20GB/s\",\"latency\":\"0.5us\","
    "\"overhead\":\"0.25us\"}},"
    "\"gpu_models\":{\"m\":{\"reduce_rate\":\"15GB/s\"}}}";

START_TEST(test_line) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_exchange_t x;
    topo = topology_of(line);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_int_eq(ccl_i_exchange_init(&x, topo, routes, NULL, &err), CCL_OK);
    ck_assert_uint_eq(x.nhops, 4); /* never through GPU 1 */
    ck_assert_ptr_null(find(&x, 0, 2, 0));
    const ccl_i_hop_t *bc = find(&x, 1, 2, 0), *cb = find(&x, 2, 1, 0), *ab = find(&x, 0, 1, 0);
    ck_assert_uint_eq(shared(&x, bc, cb), 1); /* the group */
    ck_assert_uint_eq(bc->nuses, 2);
    ck_assert_uint_eq(bc->lanes, 2);
    ck_assert_uint_eq(ab->nuses, 1);
    ck_assert_double_eq(ab->link_Bps, 50e9);
    ck_assert_double_eq(ab->tb_Bps, 20e9);
    ck_assert(fabs(ab->alpha_s - 1.75e-6) < 1e-15);
    ccl_i_exchange_fini(&x);
    /* Turned: the hop 0 -> 1 goes over the link 1 -> 0, and rank 0 adds. */
    ccl_i_exchange_options_t options = {.reversed = true, .reduce = true};
    ck_assert_int_eq(ccl_i_exchange_init(&x, topo, routes, &options, &err), CCL_OK);
    ab = find(&x, 0, 1, 0);
    ck_assert_double_eq(ab->link_Bps, 10e9);
    ck_assert_double_eq(ab->tb_Bps, 15e9);
    ck_assert(fabs(ab->alpha_s - 3.75e-6) < 1e-15);
    ccl_i_exchange_fini(&x);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_large) {
    /* 512 GPUs: 8 NICs a server and GPU on one switch, so eight routes to every GPU outside. */
    made_t m = make("servers:64 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2us", NULL);
    ck_assert_uint_eq(m.x.nhops, 512 * 7 + 512 * 504 * ccl_routes_width(m.routes, 0, 8));
    ck_assert_uint_le(m.x.nresources, m.topo->nlinks);
    done(&m);
    /* On rails a GPU reaches its server and its rail. */
    m = make("servers:64 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2us fabric=rail", NULL);
    ck_assert_uint_eq(m.x.nhops, 512 * (7 + 63));
    done(&m);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("exchange");
    TCase *tc = tcase_create("graph");
    tcase_add_test(tc, test_switch);
    tcase_add_test(tc, test_equal_routes);
    tcase_add_test(tc, test_line);
    tcase_add_test(tc, test_large);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
