/* Orders of small schedules, derived by hand from algorithm 1 and from round robin. */
#include "tests/synth/common.h"
#include "lower/order/order.h"

typedef struct row {
    uint32_t src, dst, chunk, step, channel;
} row_t;

/* Beside a row's channel: it reduces. */
enum { SUM = 256 };

static ccl_schedule_t *schedule(uint32_t nranks, uint32_t nchunks, const row_t *rows, size_t n) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *out = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, nranks, nchunks, 0, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("by hand", coll);
    for (size_t i = 0; i < n; i++)
        ccl_schedule_builder_add(b, (ccl_transfer_t){.src = rows[i].src,
                                                     .dst = rows[i].dst,
                                                     .chunk = rows[i].chunk,
                                                     .step = rows[i].step,
                                                     .channel = (uint16_t)(rows[i].channel % SUM),
                                                     .reduce = rows[i].channel >= SUM,
                                                     .phase = 1});
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &out, NULL), CCL_OK);
    return out;
}

/** "0>1.0" is rank 0 to 1, chunk 0; "," between steps, " " in a step, "|" between sub-pipelines. */
static void text_of(const ccl_schedule_t *s, const uint32_t *pipeline, char *out, size_t len) {
    size_t at = 0;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        const char *sep = "";
        if (i)
            sep = pipeline[i] != pipeline[i - 1]        ? " | "
                  : t->step != s->transfers[i - 1].step ? ", "
                                                        : " ";
        at += (size_t)snprintf(out + at, len - at, "%s%u>%u.%u", sep, t->src, t->dst, t->chunk);
        ck_assert_uint_lt(at, len);
        ck_assert_uint_eq(t->phase, 1);
    }
}

static const char plain[] = "servers:1 gpus:4 nvswitch=300GB/s,1us";

static const struct {
    const char *why, *spec;
    uint32_t nranks, nchunks;
    ccl_order_t order;
    ccl_order_flow_t flow; /* CCL_ORDER_FLOW_YES: algorithm 1 as printed */
    row_t rows[8];
    const char *want;
} cases[] = {
    {"a ring: every chunk in turn, one transfer a visit",
     plain,
     4,
     3,
     CCL_ORDER_RR,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 0, 0, 0}, {1, 2, 1, 0, 0}, {2, 0, 2, 0, 0}, {1, 2, 0, 1, 0}, {2, 0, 1, 1, 0}},
     "0>1.0, 1>2.1, 2>0.2, 1>2.0, 2>0.1"},
    {"a chunk with more to do than the others goes on alone, its steps in order",
     plain,
     4,
     2,
     CCL_ORDER_RR,
     CCL_ORDER_FLOW_YES,
     {{0, 2, 0, 1, 0}, {0, 1, 0, 0, 0}, {0, 3, 1, 5, 0}, {0, 3, 0, 2, 0}},
     "0>1.0, 0>3.1, 0>2.0, 0>3.0"},
    {"recursive doubling: who exchanges stays together",
     plain,
     4,
     1,
     CCL_ORDER_RR,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 0, 0, 0},
      {2, 3, 0, 0, 0},
      {1, 0, 0, 0, 0},
      {3, 2, 0, 0, 0},
      {0, 2, 0, 1, 0},
      {1, 3, 0, 1, 0},
      {2, 0, 0, 1, 0},
      {3, 1, 0, 1, 0}},
     "0>1.0 1>0.0, 2>3.0 3>2.0, 0>2.0 2>0.0, 1>3.0 3>1.0"},
    {"a cycle of three; what reads beside it goes before, what writes beside it after",
     plain,
     4,
     1,
     CCL_ORDER_RR,
     CCL_ORDER_FLOW_YES,
     {{3, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {1, 2, 0, 0, 0}, {2, 0, 0, 0, 0}},
     "0>1.0 1>2.0 2>0.0, 3>0.0"},
    {"the same with a reader",
     plain,
     4,
     1,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 0, 0, 0}, {1, 2, 0, 0, 0}, {2, 0, 0, 0, 0}, {2, 3, 0, 0, 0}},
     "2>3.0, 0>1.0 1>2.0 2>0.0"},
    {"a chain in one step moves old values: its end first",
     plain,
     4,
     1,
     CCL_ORDER_RR,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 0, 0, 0}, {1, 2, 0, 0, 0}, {2, 3, 0, 0, 0}},
     "2>3.0, 1>2.0, 0>1.0"},
    {"a ring with many micro-batches: followers join while their connection is free",
     plain,
     4,
     3,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 0, 0, 0}, {1, 2, 1, 0, 0}, {2, 0, 2, 0, 0}, {1, 2, 0, 1, 0}, {2, 3, 1, 1, 0}},
     "0>1.0, 1>2.1, 2>0.2, 2>3.1 | 1>2.0"},
    {"with few they wait for the next sub-pipeline",
     plain,
     4,
     3,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{0, 1, 0, 0, 0}, {1, 2, 1, 0, 0}, {2, 0, 2, 0, 0}, {1, 2, 0, 1, 0}, {2, 3, 1, 1, 0}},
     "0>1.0, 1>2.1, 2>0.2 | 1>2.0, 2>3.1"},
    {"with few micro-batches the longest way first: two more local transfers before one more",
     "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail",
     8,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{0, 1, 0, 0, 0}, {1, 2, 0, 1, 0}, {2, 3, 0, 2, 0}, {0, 1, 1, 0, 0}, {1, 2, 1, 1, 0}},
     "0>1.0 | 0>1.1, 1>2.0 | 1>2.1, 2>3.0"},
    {"... one more over the network, which counts 2.5, before two more local ones",
     "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail",
     8,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{0, 1, 0, 0, 0}, {1, 2, 0, 1, 0}, {2, 3, 0, 2, 0}, {0, 1, 1, 0, 0}, {1, 5, 1, 1, 0}},
     "0>1.1 | 0>1.0, 1>5.1 | 1>2.0 | 2>3.0"},
    {"... and behind three more local ones",
     "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail",
     8,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{0, 1, 0, 0, 0},
      {1, 2, 0, 1, 0},
      {2, 3, 0, 2, 0},
      {3, 2, 0, 3, 0},
      {0, 1, 1, 0, 0},
      {1, 5, 1, 1, 0}},
     "0>1.0 | 0>1.1, 1>2.0 | 1>5.1, 2>3.0 | 3>2.0"},
    {"a chunk that was served gives way to one that was not",
     plain,
     4,
     3,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{2, 3, 0, 0, 0}, {3, 2, 2, 0, 0}, {0, 1, 0, 1, 0}, {0, 1, 1, 1, 0}},
     "2>3.0, 3>2.2, 0>1.1 | 0>1.0"},
    {"a visit takes all that a chunk may do in a step",
     plain,
     4,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 1, 0, 0}, {0, 2, 0, 0, 0}, {0, 3, 0, 0, 0}, {0, 2, 1, 0, 0}},
     "0>2.0, 0>3.0, 0>1.1 | 0>2.1"},
    {"what was turned away once comes before what opened later",
     plain,
     4,
     3,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{0, 1, 0, 0, 0},
      {0, 1, 1, 5, 0},
      {0, 2, 1, 0, 0},
      {0, 3, 1, 1, 0},
      {2, 0, 2, 0, 0},
      {0, 1, 2, 2, 0}},
     "2>0.2, 0>1.0, 0>2.1, 0>3.1 | 0>1.1 | 0>1.2"},
    {"few micro-batches: the longer way first",
     plain,
     4,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{0, 1, 0, 0, 0}, {0, 1, 1, 0, 0}, {1, 2, 1, 1, 0}},
     "0>1.1 | 0>1.0, 1>2.1"},
    {"many: by step and chunk",
     plain,
     4,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{0, 1, 0, 0, 0}, {0, 1, 1, 0, 0}, {1, 2, 1, 1, 0}},
     "0>1.0 | 0>1.1, 1>2.1"},
    {"ResCCL figure 4: four blocks of 6.25 GB/s fill a NIC, two go later",
     "resccl-topo1",
     8,
     6,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{0, 4, 0, 0, 0},
      {0, 4, 1, 0, 1},
      {0, 4, 2, 0, 2},
      {0, 4, 3, 0, 3},
      {0, 4, 4, 0, 4},
      {0, 4, 5, 0, 5}},
     "0>4.0, 0>4.1, 0>4.2, 0>4.3 | 0>4.4, 0>4.5"},
    {"two GPUs share the NIC",
     "resccl-topo1",
     8,
     6,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_YES,
     {{0, 4, 0, 0, 0},
      {1, 5, 1, 0, 0},
      {0, 4, 2, 0, 1},
      {1, 5, 3, 0, 1},
      {0, 4, 4, 0, 2},
      {1, 5, 5, 0, 2}},
     "0>4.0, 1>5.1, 0>4.2, 1>5.3 | 0>4.4, 1>5.5"},
    {"sums in their own order: what can start at once takes the connection of the longest way",
     plain,
     4,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{3, 2, 0, 0, SUM}, {1, 0, 1, 0, SUM}, {2, 1, 0, 1, SUM}, {1, 0, 0, 2, SUM}},
     "3>2.0, 1>0.1 | 2>1.0 | 1>0.0"},
    {"mirrored: backwards the longest way begins, so it ends last; what that kept open is next",
     plain,
     4,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_REVERSED_APART,
     {{3, 2, 0, 0, SUM}, {1, 0, 1, 0, SUM}, {2, 1, 0, 1, SUM}, {1, 0, 0, 2, SUM}},
     "3>2.0 | 2>1.0, 1>0.1 | 1>0.0"},
    {"sums of one chunk wait for each other where they have steps",
     plain,
     4,
     1,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_NO,
     {{1, 0, 0, 0, SUM}, {2, 0, 0, 1, SUM}, {3, 0, 0, 2, SUM}},
     "1>0.0 | 2>0.0 | 3>0.0"},
    {"mirrored they are copies to three at once",
     plain,
     4,
     1,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_REVERSED_APART,
     {{1, 0, 0, 0, SUM}, {2, 0, 0, 1, SUM}, {3, 0, 0, 2, SUM}},
     "1>0.0, 2>0.0, 3>0.0"},
    {"a copy before sums comes before them, mirrored or not",
     plain,
     4,
     1,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_REVERSED_APART,
     {{2, 3, 0, 0, 0}, {1, 3, 0, 1, SUM}, {3, 0, 0, 2, SUM}},
     "2>3.0 | 1>3.0 | 3>0.0"},
    {"copies of sums keep their own order, behind the sums",
     plain,
     4,
     2,
     CCL_ORDER_HPDS,
     CCL_ORDER_FLOW_REVERSED,
     {{3, 2, 0, 0, SUM},
      {2, 0, 0, 1, SUM},
      {1, 0, 1, 0, SUM},
      {0, 3, 0, 2, 0},
      {0, 1, 1, 1, 0},
      {1, 2, 1, 2, 0}},
     "3>2.0, 1>0.1, 2>0.0 | 0>1.1, 0>3.0, 1>2.1"},
};

START_TEST(test_by_hand) {
    ccl_topology_t *topo = topology(cases[_i].spec);
    size_t n = 0;
    while (n < CCL_ARRAY_LEN(cases[_i].rows) && cases[_i].rows[n].src != cases[_i].rows[n].dst)
        n++;
    ccl_schedule_t *s = schedule(cases[_i].nranks, cases[_i].nchunks, cases[_i].rows, n);
    ccl_schedule_t *out = NULL;
    ccl_lower_stats_t stats = {0, 0, -1, 77};
    uint32_t *pipeline = NULL;
    char text[300];
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
    wish.topo = topo;
    wish.order = cases[_i].order;
    wish.flow = cases[_i].flow;
    wish.batches = 1;
    ck_assert_int_eq(ccl_schedule_order(NULL, s, &wish, &out, &pipeline, &stats, NULL), CCL_OK);
    text_of(out, pipeline, text, sizeof text);
    ck_assert_msg(strcmp(text, cases[_i].want) == 0, "%s:\n got  %s\n want %s", cases[_i].why, text,
                  cases[_i].want);
    ck_assert_uint_eq(stats.pipelines, cases[_i].order == CCL_ORDER_HPDS ? pipeline[n - 1] + 1 : 0);
    ck_assert(stats.analyse_s >= 0 && stats.order_s >= 0);
    ck_assert(stats.lower_s == -1); /* not ours */
    ck_assert_str_eq(out->name, "by hand");
    free(pipeline);
    ccl_schedule_destroy(out);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

static ccl_schedule_t *hm_allreduce(const ccl_topology_t *topo) {
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *out = NULL;
    options.channels = 1;
    ck_assert_int_eq(ccl_synthesize(NULL, "hm", topo, NULL, want, &options, &out, NULL), CCL_OK);
    ccl_collective_destroy(want);
    return out;
}

static ccl_schedule_t *in_order(const ccl_schedule_t *s, const ccl_topology_t *topo,
                                ccl_order_flow_t flow, uint32_t batches) {
    ccl_schedule_t *out = NULL;
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
    wish.topo = topo;
    wish.order = CCL_ORDER_HPDS;
    wish.flow = flow;
    wish.batches = batches;
    ck_assert_int_eq(ccl_schedule_order(NULL, s, &wish, &out, NULL, NULL, NULL), CCL_OK);
    return out;
}

/* Without sums there is nothing to mirror. */
START_TEST(test_copies_alone) {
    ccl_topology_t *topo = topology("resccl-topo2");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_schedule_t *s = NULL;
    ck_assert_int_eq(ccl_synthesize(NULL, "hm", topo, NULL, want, NULL, &s, NULL), CCL_OK);
    ccl_schedule_t *plain_way = in_order(s, topo, CCL_ORDER_FLOW_NO, 1);
    ccl_schedule_t *mirrored = in_order(s, topo, CCL_ORDER_FLOW_REVERSED_APART, 1);
    ck_assert(!ccl_schedule_reduces(s) && ccl_schedule_equal(plain_way, mirrored));
    ccl_schedule_destroy(plain_way);
    ccl_schedule_destroy(mirrored);
    ccl_schedule_destroy(s);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* The estimate where simulating takes too long; simulation agrees with these. */
START_TEST(test_pace) {
    static const struct {
        const char *cluster;
        uint32_t batches;
        ccl_order_flow_t flow;
    } rows[] = {{"heteccl-h20-4x4+8x4", 2, CCL_ORDER_FLOW_NO},
                {"resccl-topo4", 16, CCL_ORDER_FLOW_YES},
                {"resccl-topo4", 0, CCL_ORDER_FLOW_YES}};
    ccl_topology_t *topo = topology(rows[_i].cluster);
    ccl_schedule_t *s = hm_allreduce(topo), *want = in_order(s, topo, rows[_i].flow, 1);
    ccl_schedule_t *out = in_order(s, topo, CCL_ORDER_FLOW_BY_PACE, rows[_i].batches);
    ck_assert(ccl_schedule_equal(out, want));
    ccl_schedule_destroy(out);
    ccl_schedule_destroy(want);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

static double time_of(const ccl_schedule_t *s, const ccl_topology_t *topo, ccl_order_t order,
                      double size_bytes, ccl_lower_stats_t *stats) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t run = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    lower.order = order;
    lower.granularity = CCL_GRANULARITY_TASK;
    lower.topo = topo;
    lower.size_bytes = run.size_bytes = size_bytes;
    lower.stats = stats;
    run.granularity = CCL_GRANULARITY_TASK;
    ck_assert_msg(ccl_lower(NULL, s, &lower, &program, &err) == CCL_OK, "%s", err.text);
    check_program(program, 2, "lowered");
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &run, &result, NULL), CCL_OK);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

/* Lowering takes the better way for the size; both beat round robin here by at least 3 %. */
START_TEST(test_lower) {
    ccl_topology_t *topo = topology("resccl-topo4");
    ccl_schedule_t *s = hm_allreduce(topo);
    double size_bytes = _i ? 1 << 30 : 1 << 28, best_s = 1e9;
    ccl_lower_stats_t stats = {0}, rr_stats = {0};
    for (ccl_order_flow_t flow = CCL_ORDER_FLOW_YES; flow <= CCL_ORDER_FLOW_REVERSED_APART;
         flow++) {
        ccl_schedule_t *o = in_order(s, topo, flow, 1);
        double time_s = time_of(o, topo, CCL_ORDER_STEP, size_bytes, NULL);
        best_s = time_s < best_s ? time_s : best_s;
        ccl_schedule_destroy(o);
    }
    ck_assert_double_eq_tol(time_of(s, topo, CCL_ORDER_HPDS, size_bytes, &stats), best_s,
                            1e-8 * best_s); /* a billionth is no reason for another order */
    double rr_s = time_of(s, topo, CCL_ORDER_RR, size_bytes, &rr_stats);
    ck_assert_msg(rr_s > 1.03 * best_s, "rr %.4g ms, hpds %.4g ms", rr_s * 1e3, best_s * 1e3);
    ck_assert_uint_eq(stats.pipelines, 8);
    ck_assert_uint_eq(rr_stats.pipelines, 0);
    ck_assert(stats.analyse_s > 0 && stats.order_s > 0 && stats.lower_s > 0);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_step_copies) {
    static const row_t rows[] = {{0, 1, 0, 4, 3}, {1, 2, 0, 7, 0}, {2, 0, 1, 4, 0}};
    ccl_schedule_t *s = schedule(3, 2, rows, 3), *out = NULL;
    uint32_t *pipeline = NULL;
    s->limited = true;
    ck_assert_int_eq(ccl_schedule_order(NULL, s, NULL, &out, &pipeline, NULL, NULL), CCL_OK);
    ck_assert(ccl_schedule_equal(s, out));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(pipeline[i], 0);
    free(pipeline);
    ccl_schedule_destroy(out);
    ccl_schedule_destroy(s);
}
END_TEST

START_TEST(test_nothing_to_do) {
    ccl_topology_t *topo = topology(plain);
    ccl_schedule_t *s = schedule(4, 2, NULL, 0);
    for (int order = CCL_ORDER_STEP; order <= CCL_ORDER_HPDS; order++) {
        ccl_schedule_t *out = NULL;
        uint32_t *pipeline = NULL;
        ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
        wish.topo = topo;
        wish.order = (ccl_order_t)order;
        ck_assert_int_eq(ccl_schedule_order(NULL, s, &wish, &out, &pipeline, NULL, NULL), CCL_OK);
        ck_assert_uint_eq(out->ntransfers, 0);
        free(pipeline);
        ccl_schedule_destroy(out);
    }
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Two micro-batches on 48 GPUs leave little to schedule: the order given is faster and stays. */
START_TEST(test_given) {
    ccl_topology_t *topo = topology("heteccl-h20-4x4+8x4");
    ccl_schedule_t *s = hm_allreduce(topo);
    ccl_lower_stats_t stats = {.pipelines = 1};
    double step_s = time_of(s, topo, CCL_ORDER_STEP, 32 << 20, NULL);
    double hpds_s = time_of(s, topo, CCL_ORDER_HPDS, 32 << 20, &stats);
    for (ccl_order_flow_t flow = CCL_ORDER_FLOW_YES; flow <= CCL_ORDER_FLOW_REVERSED_APART;
         flow++) {
        ccl_schedule_t *o = in_order(s, topo, flow, 1);
        ck_assert_double_gt(time_of(o, topo, CCL_ORDER_STEP, 32 << 20, NULL), 1.005 * step_s);
        ccl_schedule_destroy(o);
    }
    ck_assert_double_eq(hpds_s, step_s);
    ck_assert_uint_eq(stats.pipelines, 0);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Sums over trees of hops: mirrored they are a tenth faster than in any order of their own. */
START_TEST(test_mirrored) {
    ccl_topology_t *topo = topology("dgx1-v100");
    ccl_collective_t *want = collective(CCL_REDUCESCATTER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_stats_t stats = {0};
    ccl_schedule_t *s = NULL;
    options.size_bytes = 1 << 20;
    ck_assert_int_eq(ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &s, NULL), CCL_OK);
    double hpds_s = time_of(s, topo, CCL_ORDER_HPDS, 1 << 20, &stats);
    ck_assert_double_gt(time_of(s, topo, CCL_ORDER_STEP, 1 << 20, NULL), 1.1 * hpds_s);
    for (ccl_order_flow_t flow = CCL_ORDER_FLOW_YES; flow <= CCL_ORDER_FLOW_NO; flow++) {
        ccl_schedule_t *o = in_order(s, topo, flow, 1);
        ck_assert_double_gt(time_of(o, topo, CCL_ORDER_STEP, 1 << 20, NULL), 1.1 * hpds_s);
        ccl_schedule_destroy(o);
    }
    ccl_schedule_destroy(s);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.order");
    TCase *tcase = tcase_create("order");
    tcase_add_loop_test(tcase, test_by_hand, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_test(tcase, test_copies_alone);
    tcase_add_loop_test(tcase, test_pace, 0, 3);
    tcase_add_loop_test(tcase, test_lower, 0, 2);
    tcase_add_test(tcase, test_given);
    tcase_add_test(tcase, test_mirrored);
    tcase_add_test(tcase, test_step_copies);
    tcase_add_test(tcase, test_nothing_to_do);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
