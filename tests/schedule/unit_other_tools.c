/* Schedules of other tools: TE-CCL's epoch flows, SCCL's algorithms; what they mean, what is
 * refused. */
#include "suite.h"
#include "tests/base/main.h"

#define TECCL_SEED CCLLAB_SOURCE_DIR "/fuzz/corpus/schedule_teccl/"
#define SCCL_SEED CCLLAB_SOURCE_DIR "/fuzz/corpus/schedule_sccl/"

/** Read by content, verified. */
static ccl_schedule_t *read_right(const char *path) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *s = NULL;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    check_ok(ccl_schedule_read(path, &s, &err), &err);
    check_ok(ccl_schedule_verify(NULL, s, verdict, &err), &err);
    ck_assert_msg(verdict->valid, "%s: %s", path, verdict->fault.text);
    free(verdict);
    return s;
}

static ccl_epoch_flows_t *flows_of(const char *path) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_epoch_flows_t *flows = NULL;
    char *text = NULL;
    size_t len = 0;
    check_ok(ccl_file_read(path, 1 << 20, &text, &len, &err), &err);
    check_ok(ccl_epoch_flows_read_text(path, text, len, &flows, &err), &err);
    free(text);
    return flows;
}

START_TEST(teccl_allgather) {
    ccl_epoch_flows_t *f = flows_of(TECCL_SEED "allgather.json");
    ck_assert_int_eq(f->coll->kind, CCL_ALLGATHER);
    ck_assert_uint_eq(f->nranks, 3);
    ck_assert_uint_eq(f->rank_node[2], 4);
    ck_assert_uint_eq(f->nswitches, 1);
    ck_assert_uint_eq(f->switch_node[0], 0);
    ck_assert_uint_eq(f->nflows, 6);
    ck_assert_double_eq_tol(f->finish_s, 3e-6, 1e-18);
    const ccl_epoch_flow_t *last = &f->flows[5]; /* chunk of node 1 from node 2 to node 4 */
    ck_assert(last->src == 1 && last->dst == 2 && last->chunk == 0 && last->epoch == 1);
    ck_assert_uint_eq(last->nvias, 1);
    ck_assert_uint_eq(f->vias[last->first_via], 0);
    ck_assert_uint_eq(f->flows[4].nvias, 0);
    ccl_epoch_flows_destroy(f);
    ccl_schedule_t *s = read_right(TECCL_SEED "allgather.json");
    ck_assert_uint_eq(s->ntransfers, 6);
    ck_assert_uint_eq(s->nsteps, 2);
    ccl_schedule_destroy(s);
}
END_TEST

/** Thirds: chunk 1 of node 0 goes in parts, so every chunk is three. */
START_TEST(teccl_parts) {
    ccl_schedule_t *s = read_right(TECCL_SEED "alltoall.json");
    ck_assert_int_eq(s->coll->kind, CCL_ALLTOALL);
    ck_assert_uint_eq(s->coll->chunks_per_block, 3);
    ck_assert_uint_eq(s->ntransfers, 6);
    ck_assert_uint_eq(s->transfers[0].chunk, 3); /* (0 * 2 + 1) * 3 */
    ccl_schedule_destroy(s);
}
END_TEST

START_TEST(sccl_algorithms) {
    ccl_schedule_t *s = read_right(SCCL_SEED "allgather.json");
    ck_assert_int_eq(s->coll->kind, CCL_ALLGATHER);
    ck_assert_str_eq(s->name, "Allgather(n=3)");
    ck_assert_uint_eq(s->nsteps, 2);
    ccl_schedule_destroy(s);
    s = read_right(SCCL_SEED "allreduce.json");
    ck_assert_int_eq(s->coll->kind, CCL_ALLREDUCE);
    ck_assert_uint_eq(s->coll->nchunks, 2);
    ck_assert(s->transfers[0].reduce && s->transfers[1].reduce); /* then the sums come back */
    ck_assert(!s->transfers[2].reduce && !s->transfers[3].reduce);
    ccl_schedule_destroy(s);
    s = read_right(SCCL_SEED "custom.json");
    ck_assert_int_eq(s->coll->kind, CCL_CUSTOM);
    ck_assert_uint_eq(s->coll->nchunks, 2);
    ccl_schedule_destroy(s);
}
END_TEST

typedef struct row {
    const char *text, *says;
} row_t;

#define HEAD "{\"1-Epoch_Duration\": 1e-6, "
#define PATHS                                                                                      \
    "\"8-Chunk paths\": {\"Demand at 1 for chunk 0 from 0 met by epoch 1\": [], "                  \
    "\"Demand at 0 for chunk 0 from 1 met by epoch 1\": []}}"
#define PAIR                                                                                       \
    "\"8-Chunk paths\": {\"Demand at 1 for chunk 1 from 0 met by epoch 1\": [], "                  \
    "\"Demand at 0 for chunk 0 from 1 met by epoch 1\": []}}"
#define SCCL                                                                                       \
    "{\"msccl_type\": \"algorithm\", \"name\": \"x\", \"collective\": "                            \
    "{\"msccl_type\": \"collective\", \"nodes\": 2, \"chunks\": ["
#define CHUNK "{\"msccl_type\": \"chunk\", \"pre\": [0], \"post\": [1], \"addr\": 0}"

static const row_t BAD_ROWS[] = {
    {"{\"1-Epoch_Duration\": 0}", "Flows must be an array"},
    {HEAD "\"7-Flows\": [], \"9-Best\": 1}", "unknown key '9-Best'"},
    {HEAD "\"7-Flows\": []}", "chunk paths must be an object"},
    {HEAD "\"7-Flows\": [], \"8-Chunk paths\": {\"all to all\": []}}", "'all to all' is not"},
    {HEAD "\"7-Flows\": [], " PATHS, "neither an allgather nor an alltoall"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 went\"], " PAIR, "is not 'Chunk C from S traveled"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->0 in epoch 0\"], " PAIR, "its ends"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->7 in epoch 0\"], " PAIR, "its ends"},
    {HEAD "\"7-Flows\": [\"Chunk 9 from 0 traveled over 0->1 in epoch 0\"], " PAIR, "nobody"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->1 with volume 1.5 in epoch 0\"], " PAIR,
     "is not 'Chunk C from S traveled"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->1 in epoch 0 via switches 1\"], " PAIR,
     "nodes without demands"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->1 in epoch 0 via switches x\"], " PAIR,
     "nodes without demands"},
    {HEAD "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->1 with volume 0.5 in epoch 0\","
          "\"Chunk 1 from 0 traveled over 0->1 with volume 0.5 in epoch 0\","
          "\"Chunk 1 from 0 traveled over 0->1 with volume 0.5 in epoch 1\"], " PAIR,
     "more of chunk 1 leaves GPU 0"},
    {HEAD
     "\"7-Flows\": [\"Chunk 1 from 0 traveled over 0->1 with volume 0.0123 in epoch 0\"], " PAIR,
     "no multiples"},
    {SCCL CHUNK "]}, \"steps\": [{\"msccl_type\": \"step\", \"sends\": [[0, 0]]}]}", "a send is"},
    {SCCL CHUNK "]}, \"steps\": [{\"msccl_type\": \"step\", \"sends\": [[0, 1, 1]]}]}",
     "to itself"},
    {SCCL CHUNK "]}, \"steps\": [{\"msccl_type\": \"step\", \"sends\": [[1, 0, 1]]}]}", "0 to 0"},
    {SCCL CHUNK "]}, \"steps\": [{\"msccl_type\": \"leap\", \"sends\": []}]}", "type 'step'"},
    {SCCL CHUNK ", " CHUNK "]}, \"steps\": []}", "contributes twice"},
    {SCCL
     "{\"msccl_type\": \"chunk\", \"pre\": [0, 1], \"post\": [1], \"addr\": 0}]}, \"steps\": []}",
     "2 GPUs have before"},
    {SCCL CHUNK ", {\"msccl_type\": \"chunk\", \"pre\": [1], \"post\": [0], \"addr\": 0}]}, "
                "\"steps\": []}",
     "different GPUs"},
    {SCCL "]}, \"steps\": []}", "a chunk at least"},
    {SCCL "{\"msccl_type\": \"chunk\", \"pre\": [0], \"post\": [], \"addr\": 0}]}, \"steps\": []}",
     "nobody must have it"},
};

START_TEST(refused) {
    const row_t *row = &BAD_ROWS[_i];
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *s = NULL;
    ccl_status_t status = ccl_schedule_read_json("in", row->text, strlen(row->text), &s, &err);
    ck_assert_msg(status == CCL_ERR_INPUT || status == CCL_UNSUPPORTED, "%s: %s", row->text,
                  ccl_status_name(status));
    ck_assert_msg(strstr(err.text, row->says) != NULL, "'%s' does not say '%s'", err.text,
                  row->says);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.other_tools");
    TCase *all = tcase_create("all");
    tcase_add_test(all, teccl_allgather);
    tcase_add_test(all, teccl_parts);
    tcase_add_test(all, sccl_algorithms);
    tcase_add_loop_test(all, refused, 0, (int)CCL_ARRAY_LEN(BAD_ROWS));
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
