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
#define HOST_COPIES "\"mechanism\":\"host\",\"copy_in\":\"4GB/s\",\"copy_out\":\"5GB/s\""
#define LIMITED "\"multicast\":true,\"reduce\":true,\"reduce_rate\":\"4GB/s\""
#define FAR "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,10,1 3-s:nvlink,10,5"
#define SLOW3 "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,10,1 3-s:nvlink,5,1"
#define TWO "0-s:nvlink,10,1 1-s:nvlink,10,1 2-t:nvlink,10,1 3-t:nvlink,10,1 s-t:nvlink,10,1"
#define NET "0-s:net,10,1 1-s:net,10,1 2-s:net,10,1 3-s:net,10,1"
#define PULLS "0<{123}: r1 r1 | 1>!0: s1 s1 | 2>!0: s1 s1 | 3>!0: s1 s1"
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
    {"a pull from itself alone", "0<{0}: r1 | 0>!0: s1", W + T + W, .batches = 1},
    {"nothing to multicast drains at once and takes a way",
     "0>{123}: s0 | 1<!0: r0 | 2<!0: r0 | 3<!0: r0", W, .batches = 1},
    {"nothing to pull and multicast: three ways",
     "0<{12}>{12}: rcs0 | 1>!0<!0: s0 r0 | 2>!0<!0: s0 r0", 3 * W, .batches = 1},
    /* -- ways */
    {"a multicast arrives at each by its own way: the near one", CAST, T + W, .on.links = FAR,
     .watch = "1.0"},
    {"... and the far one", CAST, T + 6e-6, .on.links = FAR},
    {"a pull waits for the farthest offer, and is in behind the farthest way", PULL, 12e-6 + T,
     .on.links = FAR},
    {"two levels: the switch that is near", CAST, T + W, .on.links = TWO, .watch = "1.0"},
    {"... and behind it", CAST, T + 3e-6, .on.links = TWO},
    {"two levels: offers join at both", PULL, 3e-6 + T + 3e-6, .on.links = TWO},
    {"the narrowest link of the tree caps the flow", CAST, 2 * T + W, .on.links = SLOW3},
    {"a link group counts a tree once per link in it", CAST, 2 * T + W,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"10GB/s\",\"links\":[[\"s\",\"1\"],[\"s\",\"2\"]]}"},
    {"... also a pull's", PULL, W + 2 * T + W,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"10GB/s\",\"links\":[[\"1\",\"s\"],[\"2\",\"s\"]]}"},
    /* -- reduce_rate */
    {"a pull is limited to the switch's reduce_rate", PULL, W + C / 4e9 + W,
     .on.switches = LIMITED},
    {"a multicast is not", CAST, T + W, .on.switches = LIMITED},
    {"nor a pull that joins nowhere", "0<{1}: r1 | 1>!0: s1", W + T + W, .on.switches = LIMITED},
    {"two pulls share it", PULL " | 0<{123}#1: r1 | 1>!0#1: s1 | 2>!0#1: s1 | 3>!0#1: s1",
     W + 2 * C / 4e9 + W, .on.switches = LIMITED},
    {"at every switch where branches join", PULL, 3e-6 + C / 4e9 + 3e-6, .on.links = TWO,
     .on.top = LIMITED},
    {"... and only there", "0<{12}: r1 | 1>!0: s1 | 2>!0: s1", 3e-6 + T + 3e-6, .on.links = TWO,
     .on.top = LIMITED},
    {"the GPU's reduce_rate does not count where the switch adds", PULL, W + T + W,
     .on.gpu = "\"reduce_rate\":\"1GB/s\""},
    {"... but where the GPU adds its own", "0<{12}: rrc1 | 1>!0: s1 | 2>!0: s1", W + C / 1e9 + W,
     .on.gpu = "\"reduce_rate\":\"1GB/s\""},
    /* -- transports */
    {"a multicast's latency adds", CAST, T + W + 3e-6, NV("\"latency\":\"3us\"")},
    {"a pull's adds to the offer and to the sum", PULL, 2 * (W + 3e-6) + T,
     NV("\"latency\":\"3us\"")},
    {"nvlink-switch has constants of its own, and nothing of nvlink's", CAST, T + W + 3e-6,
     .on.transports = "\"nvlink\":{\"latency\":\"9us\",\"overhead\":\"8us\"},"
                      "\"nvlink-switch\":{\"latency\":\"3us\"}"},
    {"plain connections do not have them", "0>1: s1 | 1<0: r1", T + W + 9e-6,
     .on.transports = "\"nvlink\":{\"latency\":\"9us\"},\"nvlink-switch\":{\"latency\":\"3us\"}"},
    {"overhead of a multicast, and of those that receive", CAST, 5e-6 + T + W + 5e-6,
     NV("\"overhead\":\"5us\"")},
    {"overhead of an offer, and of the pull", PULL, 5e-6 + W + 5e-6 + T + W,
     NV("\"overhead\":\"5us\"")},
    {"direct offers take no time; a pull moves its bytes through the block", PULL, W + C / 2e9 + W,
     NV("\"tb_rate\":\"2GB/s\"")},
    {"staged offers are copied into the buffer", PULL, C / 2e9 + W + C / 2e9 + W,
     NV("\"tb_rate\":\"2GB/s\",\"direct\":false")},
    {"a block's rate caps a multicast", CAST, C / 2e9 + W, NV("\"tb_rate\":\"2GB/s\"")},
    {"staged multicasts are copied out", CAST, C / 2e9 + W + C / 2e9,
     NV("\"tb_rate\":\"2GB/s\",\"direct\":false")},
    {"copies by engines: in before an offer, a pull at the rate out", PULL,
     C / 4e9 + W + C / 5e9 + W, NV(HOST_COPIES)},
    {"copies by engines: a multicast in, on the wire, out", CAST, C / 4e9 + T + W + C / 5e9,
     NV(HOST_COPIES)},
    {"wire: two bytes on every link per byte of data", CAST, 2 * T + W, NV("\"wire\":2")},
    {"... of a pull too", PULL, W + 2 * T + W, NV("\"wire\":2")},
    {"... under wire times the block's rate", PULL, W + C / 4e9 + W,
     NV("\"wire\":2,\"tb_rate\":\"4GB/s\"")},
    {"message: a multicast takes the narrowest link that long besides", CAST, 2 * T + W,
     NV("\"message\":\"100us\"")},
    {"... and by a pull", PULL, W + 2 * T + W, NV("\"message\":\"100us\"")},
    {"four slices: each is pulled and in before the next", PULL, W + T + 4 * W, NV("\"slices\":4")},
    {"a multicast that does not hold its block", "0>{1}: s1 s1 | 1<!0: r1 r1", 2 * T + W,
     .on.links = NET},
    {"... which goes on at once", "0>{1}: s1 s1 | 1<!0: r1 r1", 0, .on.links = NET, .watch = "0.0"},
    {"a pull holds its block whatever the transport", PULLS, W + 2 * (T + W), .on.links = NET},
    /* -- slots */
    {"an offer waits for its slot, which a pull frees when the slice is in", PULLS,
     2 * (2 * W + T) + W, NV("\"slots\":1")},
    {"two slots: both offers stand", PULLS, W + 2 * (T + W), NV("\"slots\":2")},
    {"a multicast waits for the slot of the slowest member",
     "0>{12}: s1 s1 | 1<!0: r1 r1 | 2<!0: cpy1 r1 r1", 2 * T + W + T + W,
     .on.transports = "\"nvlink\":{\"slots\":1}", .on.gpu = "\"copy_rate\":\"5GB/s\""},
    /* -- pulls that send */
    {"both flows at once, on the same links: half the rate", SUM(0), W + 2 * T + 2 * W,
     .batches = 1},
    {"both flows at once, on others", ADD(0, 1, 2, 3), 3 * W + T, .batches = 1},
    {"the slice is in last: the pull decides",
     "0<{13}>{12}: rcs1 | 1>!0<!0: s1 r1 | 2<!0: r1 | "
     "3>!0: s1",
     W + 2 * T + 2 * W, .on.links = SLOW3},
    {"the other flow drains last: it decides",
     "0<{12}>{123}: rcs1 | 1>!0<!0: s1 r1 | 2>!0<!0: s1 r1 | 3<!0: r1", W + 2 * T + W,
     .on.links = SLOW3},
    {"a pull that sends on a plain connection", "0<{23}>1: rcs1 | 1<0: r1 | 2>!0: s1 | 3>!0: s1",
     3 * W + T, .batches = 1},
    {"a send that does not hold starts when the slice is in",
     "0<{12}>{12}: rcs1 | 1>!0<!0: s1 r1 | 2>!0<!0: s1 r1", 3 * W + 2 * T,
     NV("\"holds_tb\":false")},
    {"... while the block pulls the next",
     "0<{12}>{12}: rcs1 rcs1 | 1>!0<!0: s1 s1 r1 r1 | 2>!0<!0: s1 s1 r1 r1", 4 * W + 3 * T,
     NV("\"holds_tb\":false")},
    {"a pull that offers: when the slice is in",
     "1<{23}>!0: rcs1 | 0<{1}: r1 | 2>!1: s1 | 3>!1: s1", 4 * W + 2 * T, .batches = 1},
    {"a receive that offers", "2>1: s1 | 1<2>!0: rcs1 | 0<{1}: r1", 3 * W + 2 * T, .batches = 1},
    {"... staged: one pass copies out and in", "2>1: s1 | 1<2>!0: rcs1 | 0<{1}: r1",
     3 * W + 3 * C / 2e9, NV("\"tb_rate\":\"2GB/s\",\"direct\":false")},
    {"a receive that multicasts", "1>0: s1 | 0<1>{123}: rcs1 | 1<!0: r1 | 2<!0: r1 | 3<!0: r1",
     2 * (T + W), .batches = 1},
    {"a pull pays the overhead of what it sends on",
     "0<{12}>3: rcs1 | 3<0: r1 | 1>!0: s1 | 2>!0: s1", W + 7e-6 + T + 2 * W + 7e-6,
     .on.transports = "\"nvlink\":{\"overhead\":\"7us\"},\"nvlink-switch\":{\"overhead\":\"0us\"}"},
    /* -- exclusive */
    {"exclusive: the pull asks first", SUM(0), W + 2 * T + W, .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: with links of their own both have them", ADD(0, 1, 2, 3), 3 * W + T,
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: a tree asks for all its links: 2->3 waits for 0's multicast to both",
     "0>{23}: s1 | 2<!0: r1 | 3<!0: r1 | 2>3: cpy1 s1 | 3<2: r1", 2 * T + W,
     .on.gpu = "\"copy_rate\":\"1000GB/s\"", .sharing = CCL_SHARING_EXCLUSIVE},
    /* -- time */
    {"blocks start at their GPU's launch", PULL, 50e-6 + W + T + W,
     .on.gpu1 = "\"launch\":\"50us\""},
    {"two micro-batches", PULL, W + 2 * (T + W), .batches = 2},
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

/** What a switch, or a topology, cannot do is refused in one line. */
START_TEST(test_refused) {
    static const struct {
        const char *program, *switches, *links, *text; /* NULL: not refused */
    } cases[] = {
        {SUM(0) " | " SUM(1), "\"multicast\":true,\"reduce\":true,\"groups\":1", NULL, NULL},
        {ADD(0, 1, 2, 3) " | " ADD(1, 0, 2, 3), "\"multicast\":true,\"reduce\":true,\"groups\":1",
         NULL, NULL},
        {"0>{12}: s1 | 1<!0: r1 | 2<!0: r1 | 0>{13}#1: s1 | 1<!0#1: r1 | 3<!0#1: r1",
         "\"multicast\":true,\"groups\":1", NULL,
         "switch \"s\" holds 1 group, the program's switch connections need 2"},
        {"0>{12}: s1 | 1<!0: r1 | 2<!0: r1 | 0>{13}#1: s1 | 1<!0#1: r1 | 3<!0#1: r1",
         "\"multicast\":true,\"groups\":2", NULL, NULL},
        {"0>{12}: s1 | 1<!0: r1 | 2<!0: r1 | 0>{3}#1: s1 | 3<!0#1: r1",
         "\"multicast\":true,\"groups\":1", NULL, NULL}, /* the second branches nowhere */
        {"0>{1}: s1 | 1<!0: r1 | 2>{3}: s1 | 3<!2: r1 | 0>{23}#1: s1 | 2<!0#1: r1 | 3<!0#1: r1 | "
         "1>{23}#1: s1 | 2<!1#1: r1 | 3<!1#1: r1",
         "\"multicast\":true,\"groups\":1", TWO, "switch \"t\" holds 1 group, the program's"},
        {PULL, "\"multicast\":true", NULL, "has no \"reduce\""},
        {CAST, "\"reduce\":true", NULL, "has no \"multicast\""},
        {CAST, ABLE, SMALL_MESH, "no switch"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(cases); i++) {
        small_system_t on = {.links = cases[i].links ? cases[i].links : STAR,
                             .switches = cases[i].switches};
        ccl_topology_t *topo = small_topology(&on);
        ccl_program_t *program = small_program(cases[i].program, topo->nranks, "Simple", NULL);
        ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *result = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        options.size_bytes = 4 * C;
        ccl_status_t status = ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err);
        ck_assert_msg(status == (cases[i].text ? CCL_UNSUPPORTED : CCL_OK), "%s: %s",
                      cases[i].program, err.text);
        ck_assert_msg(!cases[i].text || strstr(err.text, cases[i].text), "%s: %s", cases[i].program,
                      err.text);
        ccl_sim_result_destroy(result);
        ccl_program_destroy(program);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/** Transports of switch connections count for micro-batches and for slices. */
START_TEST(test_batches) {
    small_system_t on = {.links = STAR,
                         .switches = ABLE,
                         .transports = "\"nvlink-switch\":{\"slice\":\"100KB\",\"slots\":4}"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_routes_t *routes = ccl_routes_create(topo);
    static const char *const programs[] = {CAST, PULL, "0>1: s1 | 1<0: r1"};
    static const uint32_t want[] = {5, 5, 1}; /* chunks of at most 1/2 * 4 * 100 KB */
    for (size_t i = 0; i < CCL_ARRAY_LEN(programs); i++) {
        ccl_program_t *program = small_program(programs[i], topo->nranks, "Simple", NULL);
        uint32_t batches = 0;
        ck_assert_int_eq(ccl_sim_default_batches(topo, routes, program, 4 * C, &batches, NULL),
                         CCL_OK);
        ck_assert_uint_eq(batches, want[i]);
        ccl_program_destroy(program);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model.sim.switch");
    TCase *tcase = tcase_create("switch");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_row, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, test_refused);
    tcase_add_test(tcase, test_batches);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
