// timeout: 120
/*
 * From no memory at all to enough: a synthesizer comes back with CCL_ERR_NOMEM, or with the best of
 * those candidates that there was memory for, marked; in the end with what it always makes.
 */
#include "common.h"
#include "tests/base/scarce.h"

static const struct {
    const char *name, *spec;
    ccl_collective_kind_t kind;
    double size_bytes;
    bool plain_start; /* of cegis: else it rarely asks Z3 */
    bool drops;       /* there is a plan to fall back on */
    uint32_t threads;
} rows[] = {
    {"sketch", "heteccl-h20-4+8", CCL_ALLGATHER, 16e6, false, true, 1},
    {"sketch", "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail", CCL_ALLREDUCE,
     1e6, false, false, 3},
    {"cegis", "dgx1-v100", CCL_ALLGATHER, 1e6, true, true, 1},
    {"milp", "v100-x8", CCL_ALLGATHER, 1e8, false, true, 1},
    {"milp", "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail", CCL_ALLTOALL,
     1e8, false, false, 1},
    {"sccl", "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us fabric=rail", CCL_ALLGATHER,
     1e6, false, false, 1},
};

typedef struct work {
    int row;
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_collective_t *want;
} work_t;

typedef struct made {
    uint64_t dropped, hash; /* hash: of the transfers */
    bool limited;
} made_t;

/** In a process of its own, whose heap nothing was freed in yet. */
static ccl_status_t make(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    const work_t *w = user;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_synth_stats_t stats = {0};
    ccl_schedule_t *s = NULL;
    made_t made;

    memset(&made, 0, sizeof made);
    ctx.threads = rows[w->row].threads;
    options.size_bytes = rows[w->row].size_bytes;
    options.plain_start = rows[w->row].plain_start;
    options.stats = &stats;
    CCL_TRY(
        ccl_synthesize(&ctx, rows[w->row].name, w->topo, w->routes, w->want, &options, &s, err));
    made.dropped = stats.dropped;
    made.limited = s->limited;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        const uint32_t numbers[] = {t->src, t->dst, t->chunk, t->step, t->channel};
        made.hash = ccl_hash64(numbers, sizeof numbers, made.hash + t->reduce);
    }
    ccl_child_put(pipe, &made, sizeof made);
    return CCL_OK;
}

/** @param bytes  0: as many as it likes */
static ccl_status_t make_with(work_t *w, size_t bytes, made_t *out) {
    const ccl_child_limits_t limits = {0, (double)bytes, "test"};
    ccl_child_answer_t answer;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_child_run(NULL, &limits, make, w, &answer, &err);

    ck_assert_msg(status == CCL_OK || status == CCL_ERR_NOMEM, "%s with %zu bytes: %s %s",
                  rows[w->row].name, bytes, ccl_status_name(status), err.text);
    ck_assert_msg(!strstr(err.text, "test:"), "%s", err.text); /* it ended this process */
    if (status == CCL_OK)
        memcpy(out, answer.data, sizeof *out);
    free(answer.data);
    return status;
}

START_TEST(test_scarce) {
    work_t w = {.row = _i, .topo = topology(rows[_i].spec)};
    uint32_t none = 0, dropped = 0;
    made_t whole, some;

    w.routes = ccl_routes_create(w.topo);
    w.want = collective(rows[_i].kind, w.topo->nranks, 0);
    ck_assert_int_eq(make_with(&w, 0, &whole), CCL_OK);
    ck_assert_uint_eq(whole.dropped, 0);
    const size_t part = strcmp(rows[_i].name, "sketch") == 0 ? 2 : 4; /* that takes longest */
    for (size_t kilobytes = 64; SCARCE_MEMORY; kilobytes += kilobytes / part) {
        ck_assert_uint_lt(kilobytes, 1 << 21);
        if (make_with(&w, kilobytes << 10, &some) != CCL_OK) {
            none++;
            continue;
        }
        if (some.dropped == 0) { /* there was enough */
            ck_assert_uint_eq(some.hash, whole.hash);
            ck_assert_uint_eq(some.limited, whole.limited);
            break;
        }
        ck_assert(some.limited);
        dropped++;
    }
    ck_assert_msg(!SCARCE_MEMORY || none > 0, "%s always had memory", rows[_i].name);
    ck_assert_msg(!SCARCE_MEMORY || !rows[_i].drops || dropped > 0, "%s dropped nothing",
                  rows[_i].name);
    ccl_collective_destroy(w.want);
    ccl_routes_destroy(w.routes);
    ccl_topology_destroy(w.topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.scarce");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_scarce, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
