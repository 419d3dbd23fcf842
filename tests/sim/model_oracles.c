/*
 * What docs/model.md demands of every engine, exactly: ring AllGather, two flows on a link, blocks
 * on a link with contention, chains; the three flow lists of 64 ranks; and what a result reports:
 * micro-batches, bandwidths, use of links and blocks, unequal shares.
 */
#include "bench/common.h"
#include "small.h"

#define B 10e9
#define L 1e-6
#define T (C / B)
static const double C = 1e6;

static void check_close(double got, double want, const char *what) {
    printf("%-72s %14.8g, simulated %14.8g\n", what, want, got);
    ck_assert_msg(fabs(got - want) <= 1e-9 * fabs(want), "%s: %.12g, expected %.12g", what, got,
                  want);
}

typedef struct run {
    small_system_t on;
    const char *program;
    double size_bytes;
    uint32_t batches;
    ccl_granularity_t granularity;
} run_t;

static ccl_sim_result_t *simulate(const run_t *run, ccl_collective_t *coll) {
    ccl_topology_t *topo = small_topology(&run->on);
    ccl_program_t *program = small_program(run->program, topo->nranks, "Simple", coll);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = run->size_bytes;
    options.batches = run->batches;
    options.granularity = run->granularity;
    ccl_status_t status = ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", run->program, err.text);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
    return result;
}

/** Ring of n, one direct link each: (n - 1)(L + M/(nB)). A block per rank, or two. */
START_TEST(test_ring) {
    uint32_t n = (uint32_t)_i;
    ccl_text_t links = {0}, text = {0};
    char what[96];
    for (uint32_t r = 0; r < n; r++)
        ccl_text_printf(&links, "%u-%u:nvlink,10,1 ", r, (r + 1) % n);
    if (n == 2) {
        ccl_text_fini(&links);
        ccl_text_printf(&links, "0-1:nvlink,10,1");
    }
    for (uint32_t split = 0; split < 2; split++) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t next = (r + 1) % n, prev = (r + n - 1) % n;
            ccl_text_printf(&text, "%s%u>%u", r ? " | " : "", r, next);
            if (!split) {
                ccl_text_printf(&text, "<%u: s1", prev);
                for (uint32_t k = 2; k < n; k++)
                    ccl_text_printf(&text, " rcs1");
                ccl_text_printf(&text, " r1");
                continue;
            }
            ccl_text_printf(&text, ": s1");
            for (uint32_t k = 2; k < n; k++)
                ccl_text_printf(&text, " s1@1.%u", k - 2);
            ccl_text_printf(&text, " | %u<%u:", r, prev);
            for (uint32_t k = 1; k < n; k++)
                ccl_text_printf(&text, " r1");
        }
        /* 4 chunks make the size; each step moves one, M/n of it. */
        run_t run = {{.links = links.data}, text.data, 4 * C, 1, 0};
        ccl_sim_result_t *result = simulate(&run, NULL);
        snprintf(what, sizeof what, "ring of %u, %s: (n - 1)(L + M/(nB))", n,
                 split ? "two blocks a rank" : "one block a rank");
        check_close(result->time_s, (n - 1) * (L + C / B), what);
        ck_assert_uint_eq(result->transfers, n * (n - 1));
        ccl_sim_result_destroy(result);
        ccl_text_fini(&text);
    }
    ccl_text_fini(&links);
}
END_TEST

/** k blocks of rate R on one link together move min(kR, B eta), eta at z = k min(R, B)/B. */
START_TEST(test_blocks_on_a_link) {
    static const double rates_GBps[] = {1, 2.5, 3, 4, 7, 10, 25}, kappas[] = {0, 0.1, 0.5, 2};
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(rates_GBps); i++) {
        for (uint32_t j = 0; j < CCL_ARRAY_LEN(kappas); j++) {
            for (uint32_t k = 1; k <= 6; k++) {
                char links[64], transports[64], what[96];
                ccl_text_t text = {0};
                double rate = rates_GBps[i] * 1e9, z = k * fmin(rate, B) / B;
                double eta = z <= 1 ? 1 : 1 / (1 + kappas[j] * (z - 1));
                snprintf(links, sizeof links, "0-1:nvlink,10,1,%g", kappas[j]);
                snprintf(transports, sizeof transports, "\"nvlink\":{\"tb_rate\":\"%gGB/s\"}",
                         rates_GBps[i]);
                for (uint32_t b = 0; b < k; b++)
                    ccl_text_printf(&text, "%s0>1#%u: s1 | 1<0#%u: r1", b ? " | " : "", b, b);
                run_t run = {{.links = links, .transports = transports}, text.data, 4 * C, 1, 0};
                ccl_sim_result_t *result = simulate(&run, NULL);
                snprintf(what, sizeof what,
                         "%u blocks of %g GB/s, kappa %g: k C/min(kR, B eta) + L", k, rates_GBps[i],
                         kappas[j]);
                check_close(result->time_s, k * C / fmin(k * rate, B * eta) + L, what);
                ccl_sim_result_destroy(result);
                ccl_text_fini(&text);
            }
        }
    }
}
END_TEST

/** Chain of h hops, m micro-batches of c, deep FIFO: h (L + c/B) + (m - 1) c/B. */
START_TEST(test_chain) {
    for (uint32_t h = 1; h <= 5; h++) {
        for (uint32_t m = 1; m <= 33; m += m < 4 ? 1 : 29) {
            for (uint32_t split = 0; split < 2; split++) {
                ccl_text_t links = {0}, text = {0};
                char what[96];
                for (uint32_t r = 0; r < h; r++)
                    ccl_text_printf(&links, "%u-%u:nvlink,10,1 ", r, r + 1);
                ccl_text_printf(&text, "0>1: s1");
                for (uint32_t r = 1; r < h; r++)
                    ccl_text_printf(&text,
                                    split ? " | %u<%u: r1 | %u>%u: s1@0.0" : " | %u<%u>%u: rcs1", r,
                                    r - 1, split ? r : r + 1, r + 1);
                ccl_text_printf(&text, " | %u<%u: r1", h, h - 1);
                run_t run = {{.links = links.data, .transports = "\"nvlink\":{\"slots\":64}"},
                             text.data,
                             4 * C * m,
                             m,
                             CCL_GRANULARITY_TASK};
                ccl_sim_result_t *result = simulate(&run, NULL);
                snprintf(what, sizeof what, "chain of %u hops, %u micro-batches%s", h, m,
                         split ? ", relays in two blocks" : "");
                check_close(result->time_s, h * (L + C / B) + (m - 1) * C / B, what);
                ck_assert_uint_eq(result->flows, h * m);
                ccl_sim_result_destroy(result);
                ccl_text_fini(&links);
                ccl_text_fini(&text);
            }
        }
    }
}
END_TEST

/* ---------------------------------------------------------------- flow lists */

typedef struct flow_row {
    const char *why;
    small_system_t on;
    const char *list;
    uint32_t flow; /* whose arrival is meant */
    double want_s;
} flow_row_t;

static const flow_row_t flow_rows[] = {
    {"c and 2c together: the short one at 2c/B",
     {0},
     "4 2 4\n0 0 1 1e6 -1\n1 0 1 2e6 -1\n",
     0,
     2e6 / B + L},
    {"c and 2c together: the long one at 3c/B",
     {0},
     "4 2 4\n0 0 1 1e6 -1\n1 0 1 2e6 -1\n",
     1,
     3e6 / B + L},
    {"a flow starts when its dependency has arrived: 3 (c/B + L)",
     {0},
     "4 3 4\n0 0 1 1e6 -1\n1 1 2 1e6 0\n2 2 3 1e6 1\n",
     2,
     3 * (1e6 / B + L)},
    {"... listed in any order",
     {0},
     "4 3 4\n0 2 3 1e6 1\n1 1 2 1e6 2\n2 0 1 1e6 -1\n",
     0,
     3 * (1e6 / B + L)},
    {"transports are ignored",
     {.transports = "\"nvlink\":{\"overhead\":\"9us\",\"latency\":\"9us\","
                    "\"tb_rate\":\"1GB/s\",\"slots\":1}",
      .gpu = "\"launch\":\"9us\",\"flag\":\"9us\""},
     "4 2 4\n0 0 1 1e6 -1\n1 1 0 1e6 0\n",
     1,
     2 * (1e6 / B + L)},
    {"contention counts: kappa 1, z = 2: half",
     {.links = "0-1:nvlink,10,1,1"},
     "2 2 2\n0 0 1 1e6 -1\n1 0 1 1e6 -1\n",
     1,
     4e6 / B + L},
    {"groups count",
     {.groups = "{\"name\":\"g\",\"bandwidth\":\"5GB/s\",\"links\":[[\"0\",\"1\"]]}"},
     "4 1 4\n0 0 1 1e6 -1\n",
     0,
     1e6 / 5e9 + L},
    {"cut-through over a switch",
     {.links = "0-s:nvlink,10,1 1-s:nvlink,5,2"},
     "2 1 2\n0 0 1 1e6 -1\n",
     0,
     1e6 / 5e9 + 3e-6},
    {"a late flow slows an early one: 1 MB alone for 100 us of 2 MB, then half",
     {0},
     "4 3 4\n0 2 3 0.99e6 -1\n1 0 1 2e6 -1\n2 0 1 1e6 0\n",
     1,
     100e-6 + 200e-6 + L},
    {"nothing to send arrives after L", {0}, "4 1 4\n0 0 1 0 -1\n", 0, L},
};

START_TEST(test_flow_row) {
    const flow_row_t *row = &flow_rows[_i];
    ccl_topology_t *topo = small_topology(&row->on);
    ccl_flow_list_t *list = NULL;
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status =
        ccl_flow_list_read_text("list", row->list, strlen(row->list), &list, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", row->why, err.text);
    status = ccl_sim_flows(NULL, topo, NULL, list, &options, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", row->why, err.text);
    check_close(result->flow_done_s[row->flow], row->want_s, row->why);
    double last = 0;
    for (uint32_t f = 0; f < list->nflows; f++)
        last = fmax(last, result->flow_done_s[f]);
    ck_assert(result->time_s == last);
    ccl_sim_result_destroy(result);
    ccl_flow_list_destroy(list);
    ccl_topology_destroy(topo);
}
END_TEST

static const struct {
    const char *kind;
    double want_s, published_us;
    const char *why;
} lists[] = {
    {"ring", 63 * 1048576 / 50e9 + 2.5e-6, 1323.7,
     "63 steps behind the NIC of each server's last GPU"},
    {"mesh", 56 * 1048576 / 50e9 + 2.5e-6, 1176.9, "a NIC carries 56 chunks"},
    {"hier", 7 * 1048576 / 50e9 + 2.5e-6 + 49 * 1048576 / 450e9 + 1e-6, 264.5,
     "a NIC carries 7 chunks that arrive together, then an NVLink 7 x 7"},
};

START_TEST(test_lists_of_64) {
    ccl_topology_t *topo = bench_cluster(64, false, NULL);
    ccl_flow_list_t *list = bench_flows(lists[_i].kind, 64, 1048576, 0);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_uint_eq(list->nflows, 4032);
    ck_assert_msg(ccl_sim_flows(NULL, topo, NULL, list, &options, &result, &err) == CCL_OK, "%s",
                  err.text);
    printf("%-72s %14.8g us, simulated %.8g us\n", lists[_i].why, lists[_i].published_us,
           result->time_s * 1e6);
    ck_assert_double_eq_tol(result->time_s * 1e6, lists[_i].published_us, 0.05);
    check_close(result->time_s, lists[_i].want_s, lists[_i].why);
    ccl_sim_result_destroy(result);
    free(list->src);
    free(list->dst);
    free(list->dep);
    free(list->bytes);
    free(list);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- what a result reports */

static const struct {
    const char *why, *program, *transports;
    double size_bytes;
    uint32_t want;
} batch_rows[] = {
    {"nothing limits: 1", "0>1: s1 | 1<0: r1", "", 4e9, 1},
    {"4 slots, slice 100000: chunks of at most 200000: 1e6 in 5", "0>1: s1 | 1<0: r1",
     "\"nvlink\":{\"slots\":4,\"slice\":100000}", 4e6, 5},
    {"one byte less fits, too", "0>1: s1 | 1<0: r1", "\"nvlink\":{\"slots\":4,\"slice\":100000}",
     4e6 - 4, 5},
    {"a little more does not", "0>1: s1 | 1<0: r1", "\"nvlink\":{\"slots\":4,\"slice\":100000}",
     4e6 + 400, 6},
    {"piece bounds the chunk as it is: ceil(1e6/3e5)", "0>1: s1 | 1<0: r1",
     "\"nvlink\":{\"piece\":300000}", 4e6, 4},
    {"the smaller of both", "0>1: s1 | 1<0: r1",
     "\"nvlink\":{\"slots\":4,\"slice\":100000,\"piece\":50000}", 4e6, 20},
    {"counts do not enter", "0>1: s3 | 1<0: r3", "\"nvlink\":{\"piece\":300000}", 4e6, 4},
    {"fewest slots and smallest slice are taken over all transports that are used",
     "0>1: s1 | 1<0: r1 | 1>2: s1 | 2<1: r1",
     "\"nvlink\":{\"slots\":2,\"slice\":100000},\"pcie\":{\"slots\":4,\"slice\":50000}", 4e6, 20},
    {"... and not over others", "0>1: s1 | 1<0: r1",
     "\"nvlink\":{\"slots\":2,\"slice\":100000},\"pcie\":{\"slots\":4,\"slice\":50000}", 4e6, 10},
    {"8 slots by default", "0>1: s1 | 1<0: r1", "\"nvlink\":{\"slice\":62500}", 4e6, 4},
    {"a small size is one micro-batch", "0>1: s1 | 1<0: r1", "\"nvlink\":{\"slice\":62500}", 4, 1},
};

START_TEST(test_default_batches) {
    small_system_t on = {.links = "0-1:nvlink,10,1 1-2:pcie,10,1",
                         .transports = batch_rows[_i].transports};
    ccl_topology_t *topo = small_topology(&on);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_program_t *program = small_program(batch_rows[_i].program, 3, "Simple", NULL);
    uint32_t batches = 0;
    ck_assert_int_eq(
        ccl_sim_default_batches(topo, routes, program, batch_rows[_i].size_bytes, &batches, NULL),
        CCL_OK);
    ck_assert_msg(batches == batch_rows[_i].want, "%s: %u, expected %u", batch_rows[_i].why,
                  batches, batch_rows[_i].want);
    run_t run = {on, batch_rows[_i].program, batch_rows[_i].size_bytes, 0, 0};
    ccl_sim_result_t *result = simulate(&run, NULL);
    ck_assert_uint_eq(result->batches, batches);
    check_close(result->chunk_bytes, run.size_bytes / 4 / batches, batch_rows[_i].why);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/** busbw / algbw of n = 4 ranks, and algbw = size / time. */
START_TEST(test_bandwidths) {
    static const double factors[] = {
        [CCL_ALLREDUCE] = 1.5, [CCL_ALLGATHER] = 0.75, [CCL_REDUCESCATTER] = 0.75,
        [CCL_ALLTOALL] = 0.75, [CCL_BROADCAST] = 1,    [CCL_REDUCE] = 1,
        [CCL_GATHER] = 0.75,   [CCL_SCATTER] = 0.75,   [CCL_SENDRECV] = 1};
    for (uint32_t kind = 0; kind < CCL_CUSTOM; kind++) {
        ccl_collective_t *coll = NULL;
        ck_assert_int_eq(ccl_collective_create((ccl_collective_kind_t)kind, 4, 1, 0, &coll, NULL),
                         CCL_OK);
        run_t run = {{0}, "0>1: s1 | 1<0: r1", 4 * C, 1, 0};
        ccl_sim_result_t *result = simulate(&run, coll);
        const char *name = ccl_collective_kind_name((ccl_collective_kind_t)kind);
        check_close(result->algbw_GBps, 4 * C / (T + L) / 1e9, "algbw = size / time");
        check_close(result->busbw_GBps, factors[kind] * result->algbw_GBps, name);
        ccl_sim_result_destroy(result);
    }
}
END_TEST

/** 0 sends to 2 by a switch, 1 copies meanwhile: bytes and utilization of each link. */
START_TEST(test_links) {
    run_t run = {{.links = "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,5,1"},
                 "0>2: s1 | 1: cpy1 | 2<0: r1",
                 4 * C * 3,
                 3,
                 0};
    ccl_sim_result_t *result = simulate(&run, NULL);
    double time_s = 3 * C / 5e9 + 2 * L;
    check_close(result->time_s, time_s, "three micro-batches over the narrow link");
    const double bytes[] = {3 * C, 0, 0, 0, 0, 3 * C}; /* 0-s, s-0, 1-s, s-1, 2-s, s-2 */
    ck_assert_uint_eq(result->nlinks, 6);
    for (uint32_t l = 0; l < 6; l++) {
        double bandwidth = l < 4 ? 10e9 : 5e9;
        check_close(result->links[l].bytes, bytes[l], "bytes of a link");
        check_close(result->links[l].utilization, bytes[l] / (bandwidth * time_s), "utilization");
    }
    ck_assert_uint_eq(result->transfers, 3);
    ck_assert_uint_eq(result->flows, 3);
    ccl_sim_result_destroy(result);
}
END_TEST

/** Where the time of a block goes: every kind of waiting once. */
START_TEST(test_uses) {
    run_t run = {{.transports = "\"nvlink\":{\"slots\":1,\"overhead\":\"3us\"}",
                  .gpu = "\"copy_rate\":\"10GB/s\",\"flag\":\"4us\",\"launch\":\"2us\""},
                 "0>1: s1 s1 | 0: cpy1 cpy1@0.1 | 1<0: r1 r1",
                 4 * C,
                 1,
                 0};
    const double O = 3e-6, F = 4e-6, start = 2e-6;
    /* Sender: O + T; the receiver takes it at + L + O; credit + L; O + T again. */
    double second = start + O + T + L + O + L, sent = second + O + T;
    ccl_sim_result_t *result = simulate(&run, NULL);
    const ccl_tb_use_t *s = &result->tbs[0], *c = &result->tbs[1], *r = &result->tbs[2];
    check_close(s->start_s, start, "launch");
    check_close(s->done_s, sent, "sender: done");
    check_close(s->busy_s, 2 * (O + T), "sender: overhead and draining are busy");
    check_close(s->wait_slot_s, L + O + L, "sender: waits for the credit");
    check_close(s->wait_data_s + s->wait_peer_s, 0, "sender: nothing else");
    check_close(c->busy_s, 2 * T, "copier: two copies");
    check_close(c->wait_peer_s, sent + F - (start + T),
                "copier: waits for the sender's second step");
    check_close(c->wait_slot_s + c->wait_data_s, 0, "copier: nothing else");
    check_close(r->busy_s, 2 * O, "receiver: overheads only, its transport is direct");
    check_close(r->wait_data_s, sent + L - start - O, "receiver: waits for data");
    check_close(r->done_s, sent + L + O, "receiver: done");
    check_close(result->time_s, sent + F + T, "the copier is last");
    ccl_sim_result_destroy(result);
}
END_TEST

/** A demand file's shares: 1 MB, nothing, 3 MB; a chunk of nothing takes L and no bandwidth. */
START_TEST(test_shares) {
    static const char *const demand = "{\"format\":\"ccllab-demand-1\",\"nranks\":2,\"chunks\":["
                                      "{\"bytes\":1000000,\"source\":0,\"destinations\":[1]},"
                                      "{\"bytes\":0,\"source\":0,\"destinations\":[1]},"
                                      "{\"bytes\":3000000,\"source\":0,\"destinations\":[1]}]}";
    ccl_collective_t *coll = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_demand_read_text("d", demand, strlen(demand), &coll, &err) == CCL_OK, "%s",
                  err.text);
    double size = coll->natural_bytes;
    ccl_program_builder_t *b = ccl_program_builder_create("shares", coll, 3, "Simple");
    ccl_program_t *program = NULL;
    uint32_t send = ccl_program_builder_tb(b, 0, 1, CCL_NONE, 0);
    uint32_t recv = ccl_program_builder_tb(b, 1, CCL_NONE, 0, 0);
    for (uint32_t k = 0; k < 3; k++) {
        ccl_step_t step = {.src_off = k,
                           .dst_off = k,
                           .count = 1,
                           .dep_tb = CCL_NONE,
                           .dep_step = CCL_NONE,
                           .type = CCL_PRIM_S,
                           .src_buf = CCL_BUF_INPUT,
                           .dst_buf = CCL_BUF_OUTPUT};
        ccl_program_builder_step(b, send, step);
        step.type = CCL_PRIM_R;
        ccl_program_builder_step(b, recv, step);
    }
    ck_assert_msg(ccl_program_builder_finish(b, &program, &err) == CCL_OK, "%s", err.text);
    small_system_t on = {.links = "0-1:nvlink,10,1",
                         .transports = "\"nvlink\":{\"piece\":1000000}"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    options.size_bytes = size;
    options.batches = 1;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err), CCL_OK);
    check_close(result->time_s, 4e6 / B + L, "1 MB, nothing and 3 MB one after another");
    check_close(result->links[0].bytes, 4e6, "4 MB in all");
    ccl_sim_result_destroy(result);
    options.size_bytes = 2 * size;
    options.batches = 0;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err), CCL_OK);
    ck_assert_uint_eq(result->batches, 6); /* the largest element, 6 MB, in pieces of 1 MB */
    check_close(result->time_s, 8e6 / B + L, "twice the size");
    ccl_sim_result_destroy(result);
    ccl_topology_destroy(topo);
    ccl_program_destroy(program);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model.sim.oracles");
    TCase *tcase = tcase_create("oracles");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_ring, 2, 10);
    tcase_add_test(tcase, test_blocks_on_a_link);
    tcase_add_test(tcase, test_chain);
    tcase_add_loop_test(tcase, test_flow_row, 0, (int)CCL_ARRAY_LEN(flow_rows));
    tcase_add_loop_test(tcase, test_lists_of_64, 0, (int)CCL_ARRAY_LEN(lists));
    tcase_add_loop_test(tcase, test_default_batches, 0, (int)CCL_ARRAY_LEN(batch_rows));
    tcase_add_test(tcase, test_bandwidths);
    tcase_add_test(tcase, test_links);
    tcase_add_test(tcase, test_uses);
    tcase_add_test(tcase, test_shares);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
