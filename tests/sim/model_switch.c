/*
 * Closed forms of switch connections (docs/model.md), a row each. Chunks of C = 1 MB per
 * micro-batch on links of B = 10 GB/s and L = 1 us unless said otherwise, so T = C/B = 100 us; a
 * way over one switch has W = 2 L. Every row also checks that each block's busy and waiting times
 * add up.
 */
#include "small.h"

#define L 1e-6
#define W (2 * L)
#define C 1e6
#define T (C / 10e9)

typedef struct row {
    const char *why, *program;
    double want_s;
    small_system_t on;
    const char *watch; /* the block "rank.id" whose end is meant; NULL: the run */
    const char *proto;
    uint32_t batches; /* 0: 1 */
    ccl_granularity_t granularity;
    ccl_sharing_t sharing;
} row_t;

#define STAR "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,10,1 3-s:nvlink,10,1"
#define ABLE "\"multicast\":true,\"reduce\":true"
#define KEYS(...) .on.transports = __VA_ARGS__
#define NV(keys_) .on.transports = "\"nvlink\":{" keys_ "}"
#define CAST "0>{123}: s1 | 1<!0: r1 | 2<!0: r1 | 3<!0: r1"
#define PULL "0<{123}: r1 | 1>!0: s1 | 2>!0: s1 | 3>!0: s1"
/* One of four GPUs takes the sum of a chunk from all and sends it to all. */
#define SUM(g_)                                                                                    \
#g_ "<{0123}>{0123}: rcs1 | 0>!" #g_ "<!" #g_ ": s1 r1 | 1>!" #g_ "<!" #g_ ": s1 r1 | 2>!" #g_ \
        "<!" #g_ ": s1 r1 | 3>!" #g_ "<!" #g_ ": s1 r1"
/* The same from the three others, to which it adds its own. */
#define ADD(g_, a_, b_, c_)                                                                        \
#g_ "<{" #a_ #b_ #c_ "}>{" #a_ #b_ #c_ "}: rrcs1 | " #a_ ">!" #g_ "<!" #g_ ": s1 r1 | " #b_    \
        ">!" #g_ "<!" #g_ ": s1 r1 | " #c_ ">!" #g_ "<!" #g_ ": s1 r1"

static const row_t rows[] = {
    /* -- one multicast, one pull */
    {"a multicast drains in C/B and arrives a way later", CAST, T + W, .batches = 1},
    {"of four GPUs to themselves, each link once", "0>{0123}: s1 | 0<!0: r1 | 1<!0: r1", T + W,
     .batches = 1},
    {"to itself alone: up and down", "0>{0}: s1 | 0<!0: r1", T + W, .batches = 1},
    {"a pull: offers arrive, flow, in", PULL, W + T + W, .batches = 1},
    /* -- AllReduce of S = 4 C on four GPUs */
    {"each pulls S/n of all and multicasts it to all: 3W + S(1 + 1/n)/B",
     SUM(0) " | " SUM(1) " | " SUM(2) " | " SUM(3), 3 * W + 5 * T, .batches = 1},
    {"each pulls S/n of the others, adds its own, multicasts to them: 3W + S/B",
     ADD(0, 1, 2, 3) " | " ADD(1, 0, 2, 3) " | " ADD(2, 0, 1, 3) " | " ADD(3, 0, 1, 2),
     3 * W + 4 * T, .batches = 1},
};

static ccl_sim_result_t *simulate(const ccl_topology_t *topo, const ccl_program_t *program,
                                  const row_t *row) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.batches = row->batches ? row->batches : 1;
    options.size_bytes = 4 * C * options.batches; /* the programs have 4 chunks */
    options.granularity = row->granularity;
    options.sharing = row->sharing;
    ccl_status_t status = ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", row->why, err.text);
    return result;
}

START_TEST(test_row) {
    const row_t *row = &rows[_i];
    small_system_t on = row->on;
    on.links = on.links ? on.links : STAR;
    on.switches = on.switches ? on.switches : ABLE;
    ccl_topology_t *topo = small_topology(&on);
    ccl_program_t *program =
        small_program(row->program, topo->nranks, row->proto ? row->proto : "Simple", NULL);
    ccl_sim_result_t *result = simulate(topo, program, row);
    double got = row->watch ? result->tbs[small_tb(program, row->watch)].done_s : result->time_s;
    printf("%-90s %12.6f us, simulated %12.6f us\n", row->why, row->want_s * 1e6, got * 1e6);
    ck_assert_msg(fabs(got - row->want_s) <= 1e-9 * row->want_s, "%s: %.12g us, expected %.12g us",
                  row->why, got * 1e6, row->want_s * 1e6);
    for (uint32_t t = 0; t < program->ntbs && row->granularity != CCL_GRANULARITY_STAGE; t++) {
        const ccl_tb_use_t *use = &result->tbs[t];
        double sum = use->busy_s + use->wait_data_s + use->wait_peer_s + use->wait_slot_s;
        ck_assert_msg(fabs(sum - (use->done_s - use->start_s)) <= 1e-9 * result->time_s,
                      "%s: block %u: %g us of use in %g us", row->why, t, sum * 1e6,
                      (use->done_s - use->start_s) * 1e6);
    }
    ck_assert_double_eq_tol(result->algbw_GBps * result->time_s * 1e9, result->size_bytes,
                            result->time_s > 0 ? 1e-9 * result->size_bytes : INFINITY);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model.sim.switch");
    TCase *tcase = tcase_create("switch");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_row, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
