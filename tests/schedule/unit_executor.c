/* Limits of the executors, each just kept and just passed. */
#include "schedule/schedule.h"
#include "tests/base/main.h"

#include <string.h>

/** What a program of two ranks needs to be at, or beyond, a limit. */
typedef struct shape {
    uint32_t nops;                  /* in one block */
    uint32_t blocks;                /* of rank 0, each of one nop */
    uint32_t channel, count, peers; /* of the copying blocks; blocks on one channel that send */
    bool chain, own; /* a chain of waits that its instruction does not close; wait without flag */
} shape_t;

static const struct row {
    const char *why;
    shape_t shape;
    ccl_executor_t executor;
    const char *text; /* NULL: within the limits */
} rows[] = {
    {"64 steps", {.nops = 64}, CCL_EXECUTOR_MSCCL, NULL},
    {"65 steps",
     {.nops = 65},
     CCL_EXECUTOR_MSCCL,
     "is number 65 of its block: msccl takes at most 64"},
    {"65 steps", {.nops = 65}, CCL_EXECUTOR_RCCL, "rccl takes at most 64"},
    {"256 steps, old", {.nops = 256}, CCL_EXECUTOR_MSCCL_OLD, NULL},
    {"257 steps, old", {.nops = 257}, CCL_EXECUTOR_MSCCL_OLD, "msccl-old takes at most 256"},
    {"257 steps, any", {.nops = 257}, CCL_EXECUTOR_ANY, NULL},
    {"64 blocks", {.blocks = 64}, CCL_EXECUTOR_RCCL, NULL},
    {"65 blocks", {.blocks = 65}, CCL_EXECUTOR_RCCL, "rank 0 has 65 blocks: rccl takes at most 64"},
    {"1024 blocks", {.blocks = 1024}, CCL_EXECUTOR_MSCCL, NULL},
    {"1025 blocks", {.blocks = 1025}, CCL_EXECUTOR_MSCCL, "rank 0 has 1025 blocks"},
    {"1025 blocks, old", {.blocks = 1025}, CCL_EXECUTOR_MSCCL_OLD, "rank 0 has 1025 blocks"},
    {"channel 31", {.channel = 31}, CCL_EXECUTOR_MSCCL, NULL},
    {"channel 32", {.channel = 32}, CCL_EXECUTOR_MSCCL, "33 channels: msccl takes at most 32"},
    {"count 71", {.count = 71}, CCL_EXECUTOR_RCCL, NULL},
    {"count 72", {.count = 72}, CCL_EXECUTOR_RCCL, "has count 72: rccl takes at most 71"},
    {"32 blocks send on a channel", {.peers = 32}, CCL_EXECUTOR_MSCCL, NULL},
    {"33 blocks send on a channel",
     {.peers = 33},
     CCL_EXECUTOR_MSCCL,
     "block 33 is one of more than 32 that send on channel 0"},
    {"33 blocks send on a channel", {.peers = 33}, CCL_EXECUTOR_ANY, NULL},
    {"waits of nops end in a waiting step",
     {.chain = true},
     CCL_EXECUTOR_MSCCL,
     "follows nops that wait and must wait itself"},
    {"waits of nops end anywhere", {.chain = true}, CCL_EXECUTOR_ANY, NULL},
    {"waits for its own block without a flag",
     {.own = true},
     CCL_EXECUTOR_MSCCL,
     "waits for step 0 of its own block, which has hasdep=0"},
    {"order is enough", {.own = true}, CCL_EXECUTOR_ANY, NULL},
};

static ccl_step_t step(ccl_primitive_t type, uint32_t dep_tb, uint32_t dep_step) {
    return (ccl_step_t){.type = (uint8_t)type, .dep_tb = dep_tb, .dep_step = dep_step};
}

/** A Scatter of 80 elements each, in two steps per rank, and what the shape adds to rank 0. */
static ccl_program_t *make(const shape_t *shape) {
    uint32_t nranks = shape->peers ? shape->peers + 1 : 2, many = 80, id = 0, t = 0;
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_SCATTER, nranks, many, 0, &coll, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("t", coll, nranks * many, "Simple");
    for (uint32_t r = 0; r < nranks; r++) {
        uint32_t to = ccl_program_builder_tb(b, 0, r ? r : CCL_NONE, CCL_NONE, shape->channel);
        uint32_t from = r ? ccl_program_builder_tb(b, r, CCL_NONE, 0, shape->channel) : CCL_NONE;
        uint32_t first = shape->count ? shape->count : many / 2;
        id++;
        for (uint32_t part = 0; part < 2; part++) {
            ccl_step_t s = step(r ? CCL_PRIM_S : CCL_PRIM_CPY, CCL_NONE, CCL_NONE);
            s.src_off = r * many + (part ? first : 0);
            s.dst_buf = CCL_BUF_OUTPUT;
            s.dst_off = part ? first : 0;
            s.count = part ? many - first : first;
            ccl_program_builder_step(b, to, s);
            s.type = CCL_PRIM_R;
            s.src_off = 0;
            if (r)
                ccl_program_builder_step(b, from, s);
        }
    }
    if (shape->nops || shape->chain || shape->own) {
        t = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
        id++;
    }
    for (uint32_t i = 0; i < shape->nops; i++)
        ccl_program_builder_step(b, t, step(CCL_PRIM_NOP, CCL_NONE, CCL_NONE));
    if (shape->chain) {
        ccl_program_builder_step(b, t, step(CCL_PRIM_NOP, 0, 0));
        ccl_step_t s = step(CCL_PRIM_CPY, CCL_NONE, CCL_NONE);
        ccl_program_builder_step(b, t, s);
    }
    if (shape->own) {
        ccl_program_builder_step(b, t, step(CCL_PRIM_CPY, CCL_NONE, CCL_NONE));
        ccl_program_builder_step(b, t, step(CCL_PRIM_CPY, id - 1, 0));
    }
    for (; id < shape->blocks; id++)
        ccl_program_builder_step(b, ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0),
                                 step(CCL_PRIM_NOP, CCL_NONE, CCL_NONE));
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    if (shape->own) {
        for (uint32_t s = 0; s < p->nsteps; s++)
            p->steps[s].has_dep = 0;
    }
    return p;
}

START_TEST(limits) {
    const struct row *row = &rows[_i];
    ccl_program_t *p = make(&row->shape);
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    options.executor = row->executor;
    ccl_verdict_t v;
    ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
    if (row->text)
        ck_assert_msg(!v.valid && !strcmp(v.fault.kind, "limit") && strstr(v.fault.text, row->text),
                      "%s: %s: %s", row->why, v.valid ? "valid" : v.fault.kind, v.fault.text);
    else
        ck_assert_msg(v.valid, "%s: %s: %s", row->why, v.fault.kind, v.fault.text);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(limits_only) {
    /* A program that computes nothing, in one block of 64 nops, then 65. */
    for (uint32_t n = 64; n <= 65; n++) {
        ccl_collective_t *coll = NULL;
        ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 2, 1, 0, &coll, NULL), CCL_OK);
        ccl_program_builder_t *b = ccl_program_builder_create("t", coll, 2, "Simple");
        uint32_t t = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
        for (uint32_t i = 0; i < n; i++)
            ccl_program_builder_step(b, t, step(CCL_PRIM_NOP, CCL_NONE, CCL_NONE));
        ccl_program_t *p = NULL;
        ccl_verdict_t v;
        ck_assert_int_eq(ccl_program_builder_finish(b, &p, NULL), CCL_OK);
        ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
        ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
        ck_assert(!v.valid);
        options.limits_only = true;
        ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
        ck_assert(v.valid);
        options.executor = CCL_EXECUTOR_RCCL;
        ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
        ck_assert(v.valid == (n == 64));
        ck_assert(v.valid || !strcmp(v.fault.kind, "limit"));
        ccl_program_destroy(p);
    }
    /* What others may read of it. */
    const ccl_executor_limits_t *rccl = ccl_executor_limits(CCL_EXECUTOR_RCCL);
    ck_assert_str_eq(rccl->name, "rccl");
    ck_assert(rccl->steps == 64 && rccl->tbs == 64 && rccl->channels == 32 && rccl->count == 71);
    ck_assert_uint_eq(ccl_executor_limits(CCL_EXECUTOR_MSCCL_OLD)->steps, 256);
    ck_assert_uint_eq(ccl_executor_limits(CCL_EXECUTOR_ANY)->steps, UINT32_MAX);
}
END_TEST

static const struct {
    const char *attributes;
    ccl_executor_t executor;
    const char *text; /* NULL: valid */
} dialects[] = {
    {"outofplace='1' minBytes='0' maxBytes='0'", CCL_EXECUTOR_MSCCL, NULL},
    {"outofplace='1' minBytes='0' maxBytes='0'", CCL_EXECUTOR_RCCL, NULL},
    {"", CCL_EXECUTOR_ANY, NULL},
    {"", CCL_EXECUTOR_MSCCL_OLD, NULL},
    {"", CCL_EXECUTOR_MSCCL, "lacks outofplace, minBytes, maxBytes of algo: msccl skips"},
    {"minBytes='0' maxBytes='0'", CCL_EXECUTOR_RCCL, "lacks outofplace of algo: rccl skips"},
    {"outofplace='1' maxBytes='0'", CCL_EXECUTOR_RCCL, "lacks minBytes of algo"},
    {"outofplace='1' minBytes='0'", CCL_EXECUTOR_MSCCL, "lacks maxBytes of algo"},
};

START_TEST(old_dialect) {
    char xml[700];
    ccl_program_t *p = NULL, *again = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_text_t text = {0};
    ccl_verdict_t v;
    snprintf(xml, sizeof xml,
             "<algo name='x' proto='Simple' nchannels='1' nchunksperloop='1' ngpus='1' "
             "coll='allgather' inplace='0' %s><gpu id='0' i_chunks='1' o_chunks='1' s_chunks='0'>"
             "<tb id='0' send='-1' recv='-1' chan='0'><step s='0' type='cpy' srcbuf='i' srcoff='0' "
             "dstbuf='o' dstoff='0' cnt='1' depid='-1' deps='-1' hasdep='0'/></tb></gpu></algo>",
             dialects[_i].attributes);
    ck_assert_msg(ccl_program_read_xml("x", xml, strlen(xml), &p, &err) == CCL_OK, "%s", err.text);
    options.executor = dialects[_i].executor;
    ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
    if (dialects[_i].text)
        ck_assert_msg(!v.valid && !strcmp(v.fault.kind, "limit") &&
                          strstr(v.fault.text, dialects[_i].text),
                      "row %d: %s", _i, v.valid ? "valid" : v.fault.text);
    else
        ck_assert_msg(v.valid, "row %d: %s: %s", _i, v.fault.kind, v.fault.text);
    /* What is written says everything, and is the same program. */
    ck_assert_int_eq(ccl_program_write_xml(p, &text, NULL), CCL_OK);
    ck_assert_int_eq(ccl_program_read_xml("y", text.data, text.len, &again, NULL), CCL_OK);
    ck_assert_uint_eq(again->missing_attributes, 0);
    ck_assert(ccl_program_equal(p, again));
    ck_assert_int_eq(ccl_program_verify(NULL, again, &options, &v, NULL), CCL_OK);
    ck_assert(v.valid);
    ccl_text_fini(&text);
    ccl_program_destroy(again);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.executor");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, limits, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_loop_test(tc, old_dialect, 0, (int)CCL_ARRAY_LEN(dialects));
    tcase_add_test(tc, limits_only);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
