/* Pieces that flow: the order of list scheduling, queues and lanes, by hand. */
#include "tests/synth/common.h"
#include "lower/order/order.h"

/* A ring of four with links of 50 GB/s and 0.7 us; two servers of two GPUs that share a NIC each.
 */
#define RING "servers:1 gpus:4 xgmi=ring,50GB/s,0.7us"
#define SHARED "servers:2 gpus:2 nvswitch=100GB/s,1us nics:1x10GB/s,2us"

typedef struct row {
    uint32_t src, dst, chunk, step, channel;
} row_t;

/* Of chunks of equal size, `size` bytes in all; the flow of it. */
static ccl_schedule_t *flow_of(const char *spec, uint32_t nchunks, const row_t *rows, size_t n,
                               double size) {
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *given = NULL, *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, nchunks, 0, &coll, NULL),
                     CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("by hand", coll);
    for (size_t i = 0; i < n; i++)
        ccl_schedule_builder_add(b, (ccl_transfer_t){.src = rows[i].src,
                                                     .dst = rows[i].dst,
                                                     .chunk = rows[i].chunk,
                                                     .step = rows[i].step,
                                                     .channel = (uint16_t)rows[i].channel});
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &given, NULL), CCL_OK);
    ck_assert_msg(ccl_schedule_order_list(NULL, given, topo, routes, size, &out, &err) == CCL_OK,
                  "%s", err.text);
    ccl_schedule_destroy(given);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return out;
}

static void text_of(const ccl_schedule_t *s, char *out, size_t len) {
    size_t at = 0;

    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];

        ck_assert_uint_eq(t->step, i);
        at += (size_t)snprintf(out + at, len - at, "%s%u>%u.%u/%u", i ? ", " : "", t->src, t->dst,
                               t->chunk, t->channel);
        ck_assert_uint_lt(at, len);
    }
}

static const struct {
    const char *why, *spec;
    uint32_t nchunks;
    double chunk_bytes;
    row_t rows[8];
    const char *want; /* source > destination . chunk / channel, as they start */
} cases[] = {
    {"what has two hops to go leaves before what has one",
     RING,
     2,
     1e5,
     {{0, 1, 0, 0, 0}, {0, 1, 1, 0, 0}, {1, 2, 1, 1, 0}},
     "0>1.1/0, 0>1.0/0, 1>2.1/0"},
    {"alike ones go by step, then by chunk",
     RING,
     3,
     1e5,
     {{0, 1, 0, 4, 0}, {0, 1, 2, 0, 0}, {0, 1, 1, 0, 0}},
     "0>1.1/0, 0>1.2/0, 0>1.0/0"},
    {"what came last goes on at once, if its way is the longest: the link was not kept for it",
     RING,
     3,
     1e5,
     {{1, 2, 0, 0, 0}, {1, 2, 1, 0, 0}, {0, 1, 2, 0, 0}, {1, 2, 2, 1, 0}, {2, 3, 2, 2, 0}},
     /* Chunk 0 takes 2 us, chunk 2 is there after 2.7, in the midst of chunk 1, and goes next. */
     "0>1.2/0, 1>2.0/0, 1>2.1/0, 1>2.2/0, 2>3.2/0"},
    {"a pair's link is one queue, whatever the channels were",
     RING,
     3,
     1e5,
     {{0, 1, 0, 0, 0}, {0, 1, 1, 0, 1}, {0, 1, 2, 0, 2}},
     "0>1.0/0, 0>1.1/0, 0>1.2/0"},
    {"1.4 us there and back are 14 pieces of 5 kB, and one under way: two FIFOs of 8, in turn",
     RING,
     5,
     5e3,
     {{0, 1, 0, 0, 0}, {0, 1, 1, 0, 0}, {0, 1, 2, 0, 0}, {0, 1, 3, 0, 0}, {0, 1, 4, 0, 0}},
     "0>1.0/0, 0>1.1/1, 0>1.2/0, 0>1.3/1, 0>1.4/0"},
    {"where pairs share a NIC who carries twice as much has two connections",
     SHARED,
     3,
     1e5,
     {{0, 2, 0, 0, 0}, {0, 2, 1, 0, 0}, {0, 3, 2, 0, 0}},
     "0>3.2/0, 0>2.0/0, 0>2.1/1" /* a third of the NIC: the longest way */},
    {"and channels stay apart",
     SHARED,
     3,
     1e5,
     {{0, 2, 0, 0, 0}, {0, 2, 1, 0, 1}, {0, 3, 2, 0, 1}},
     "0>2.0/0, 0>2.1/1, 0>3.2/1"},
};

START_TEST(test_by_hand) {
    size_t n = 0;
    char text[400];

    while (n < CCL_ARRAY_LEN(cases[_i].rows) && cases[_i].rows[n].src != cases[_i].rows[n].dst)
        n++;
    ccl_schedule_t *s = flow_of(cases[_i].spec, cases[_i].nchunks, cases[_i].rows, n,
                                cases[_i].chunk_bytes * cases[_i].nchunks);
    text_of(s, text, sizeof text);
    ck_assert_msg(strcmp(text, cases[_i].want) == 0, "%s:\n got  %s\n want %s", cases[_i].why, text,
                  cases[_i].want);
    ccl_schedule_destroy(s);
}
END_TEST

START_TEST(test_nothing_to_do) {
    ccl_schedule_t *s = flow_of(RING, 1, NULL, 0, 1e6);

    ck_assert_uint_eq(s->ntransfers, 0);
    ccl_schedule_destroy(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.flow");
    TCase *tcase = tcase_create("flow");
    tcase_add_loop_test(tcase, test_by_hand, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_test(tcase, test_nothing_to_do);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
