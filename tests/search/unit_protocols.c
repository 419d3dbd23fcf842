/* Comparisons that choose protocols: each cell is that of the fastest protocol alone. */
#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"

#include <string.h>

static const double sizes[] = {4096, 262144, 4194304, 268435456};
enum { SIZES = CCL_ARRAY_LEN(sizes), CONTENDERS = 3 };
static const ccl_contender_t contenders[CONTENDERS] = {
    {.name = "ring"}, {.name = "direct"}, {.name = "hpds"}};

static ccl_comparison_t *compare(const ccl_topology_t *topo, const char *proto, uint32_t threads) {
    ccl_compare_options_t o = {.size = sizeof o,
                               .contenders = contenders,
                               .ncontenders = CONTENDERS,
                               .sizes_bytes = sizes,
                               .nsizes = SIZES,
                               .synth = CCL_SYNTH_OPTIONS_INIT,
                               .lower = CCL_LOWER_OPTIONS_INIT,
                               .sim = CCL_SIM_OPTIONS_INIT,
                               .protocols = !proto};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want = NULL;
    ccl_comparison_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.threads = threads;
    if (proto)
        o.lower.proto = proto;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_msg(ccl_compare(&ctx, topo, want, &o, &out, &err) == CCL_OK, "%s", err.text);
    ccl_collective_destroy(want);
    return out;
}

/* A schedule whose lowering knows no protocol is exactly the fastest; one that is lowered by run is
   no slower than under the options' own protocol, and what was chosen was run so. */
START_TEST(chooses_fastest) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_comparison_t *chosen = compare(topo, NULL, 1), *alone[CCL_PROTOCOLS];
    uint32_t taken[CCL_PROTOCOLS] = {0};
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        alone[p] = compare(topo, ccl_protocol_name((ccl_protocol_t)p), 1);
    for (uint32_t i = 0; i < SIZES * CONTENDERS; i++) {
        const ccl_compare_cell_t *cell = &chosen->cells[i];
        ccl_protocol_t best = CCL_PROTOCOL_SIMPLE, is;
        ck_assert_int_eq(cell->status, CCL_OK);
        is = ccl_protocol_find(cell->proto);
        ck_assert_int_lt(is, CCL_PROTOCOLS);
        taken[is]++;
        for (uint32_t p = 0; p < CCL_PROTOCOLS; p++) {
            ck_assert_str_eq(alone[p]->cells[i].proto, ccl_protocol_name((ccl_protocol_t)p));
            if (alone[p]->cells[i].time_s < alone[best]->cells[i].time_s)
                best = (ccl_protocol_t)p;
        }
        ck_assert(cell->time_s <= alone[CCL_PROTOCOL_SIMPLE]->cells[i].time_s);
        if (strcmp(contenders[i % CONTENDERS].name, "hpds") == 0)
            continue;
        ck_assert_int_eq(is, best);
        ck_assert_msg(cell->time_s == alone[best]->cells[i].time_s, "%u: %.17g, alone %.17g", i,
                      cell->time_s, alone[best]->cells[i].time_s);
        ck_assert_uint_eq(cell->batches, alone[best]->cells[i].batches);
    }
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        ck_assert_uint_gt(taken[p], 0); /* each where it is good */
    for (uint32_t s = 0; s < SIZES; s++) {
        ck_assert(chosen->best[s]->time_s ==
                  chosen->cells[s * CONTENDERS + chosen->winner[s]].time_s);
        ck_assert(chosen->bound_s[s] <= chosen->best[s]->time_s);
    }
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        ccl_comparison_destroy(alone[p]);
    ccl_comparison_destroy(chosen);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(same_on_threads) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_comparison_t *a = compare(topo, NULL, 1), *b = compare(topo, NULL, 4);
    for (uint32_t i = 0; i < SIZES * CONTENDERS; i++) {
        ck_assert_str_eq(a->cells[i].proto, b->cells[i].proto);
        ck_assert(a->cells[i].time_s == b->cells[i].time_s);
        ck_assert(a->cells[i].low_s == b->cells[i].low_s &&
                  a->cells[i].high_s == b->cells[i].high_s);
    }
    ccl_comparison_destroy(a);
    ccl_comparison_destroy(b);
    ccl_topology_destroy(topo);
}
END_TEST

/* A cluster without constants of protocols is as before: there is nothing to choose from. */
START_TEST(nothing_to_choose) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_comparison_t *a = compare(topo, NULL, 1), *b = compare(topo, "Simple", 1);
    for (uint32_t i = 0; i < SIZES * CONTENDERS; i++) {
        ck_assert_str_eq(a->cells[i].proto, "Simple");
        ck_assert(a->cells[i].time_s == b->cells[i].time_s);
    }
    ccl_comparison_destroy(a);
    ccl_comparison_destroy(b);
    ccl_topology_destroy(topo);
}
END_TEST

/* Switches add data, not lines with flags: Simple at any size, where rings take LL. */
START_TEST(simple_through_switches) {
    static const ccl_contender_t with[] = {{.name = "nvls"}, {.name = "nvls-pull"}};
    static const double small[] = {1024};
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_collective_t *want = NULL;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *c = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    options.contenders = with;
    options.ncontenders = 2;
    options.sizes_bytes = small;
    options.nsizes = 1;
    options.protocols = true;
    ck_assert_msg(ccl_compare(NULL, topo, want, &options, &c, &err) == CCL_OK, "%s", err.text);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_str_eq(c->cells[i].proto, "Simple");
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

static uint32_t times_asked;

static ccl_status_t asked(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                          const ccl_collective_t *want, const ccl_synth_options_t *options,
                          ccl_schedule_t **out, ccl_error_t *err) {
    times_asked++;
    return ccl_synth_find("direct")->synthesize(ctx, topo, routes, want, options, out, err);
}

static bool for_all(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo, (void)want, (void)why;
    return true;
}

/* Who is asked for each size is asked once for it, whichever protocol is fastest then. */
START_TEST(asked_once) {
    static const ccl_synth_ops_t ops = {.size = sizeof ops,
                                        .name = "asked",
                                        .summary = "counts",
                                        .source = "this test",
                                        .supports = for_all,
                                        .synthesize = asked,
                                        .by_size = true};
    const ccl_contender_t with = {.name = "asked"};
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_collective_t *want = NULL;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *c = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.threads = 1;
    times_asked = 0;
    ck_assert_msg(ccl_synth_register(&ops, "1", &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    options.contenders = &with;
    options.ncontenders = 1;
    options.sizes_bytes = sizes;
    options.nsizes = SIZES;
    options.protocols = true;
    ck_assert_msg(ccl_compare(&ctx, topo, want, &options, &c, &err) == CCL_OK, "%s", err.text);
    ck_assert_str_eq(c->cells[1].proto, "LL128");
    ck_assert_uint_eq(times_asked, SIZES);
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* LL, with most micro-batches, gives up where another protocol is faster: on long chains. */
START_TEST(few_batches_first) {
    static const double large[] = {1073741824};
    const ccl_contender_t with = {.name = "tree"};
    ccl_topology_t *topo = topology("gb200-nvl72");
    ccl_collective_t *want = NULL;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *c = NULL;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.threads = 1;
    ctx.work = &work;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    options.contenders = &with;
    options.ncontenders = 1;
    options.sizes_bytes = large;
    options.nsizes = 1;
    options.protocols = true;
    ck_assert_msg(ccl_compare(&ctx, topo, want, &options, &c, &err) == CCL_OK, "%s", err.text);
    ck_assert_str_eq(c->cells[0].proto, "LL128");
    ck_assert_msg(work.events < 6100000, "%llu events", (unsigned long long)work.events);
    ccl_comparison_destroy(c);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(asked_once, few_batches_first, chooses_fastest, same_on_threads, nothing_to_choose,
          simple_through_switches)
