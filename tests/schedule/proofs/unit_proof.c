/*
 * Proofs of lowered programs: what comes before what is what a search over all steps says, and is
 * found by looking at few.
 */
#include "schedule/verify/verify.h"
#include "tests/base/nightly.h"
#include "tests/base/scarce.h"
#include "tests/synth/common.h"

static ccl_schedule_t *made(const char *spec, const char *name, ccl_collective_kind_t kind) {
    ccl_topology_t *topo = topology(spec);
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ck_assert_msg(ccl_synthesize(NULL, name, topo, NULL, want, &synth, &schedule, &err) == CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return schedule;
}

static ccl_program_t *lowered(const char *spec, const char *name, ccl_collective_kind_t kind) {
    ccl_schedule_t *schedule = made(spec, name, kind);
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ck_assert_msg(ccl_lower(NULL, schedule, &lower, &program, &err) == CCL_OK, "%s", err.text);
    ccl_schedule_destroy(schedule);
    return program;
}

/* 128 GPUs, 2^18 steps and more; whoever changes it puts it back. */
static ccl_program_t *large;

static void make_large(void) {
    large = lowered("dgx-h100*16", "recursive", CCL_ALLREDUCE);
}

static void free_large(void) {
    ccl_program_destroy(large);
}

/* ---------------------------------------------------------------- right */

/* What is over before each step is over: a bit for every pair, steps by their place in the order.
 */
typedef struct closure {
    const ccl_i_order_t *o;
    size_t words;
    uint64_t *bits;
} closure_t;

static uint32_t before_in_block(const ccl_i_order_t *o, uint32_t step) {
    uint32_t at = ccl_i_run_place(o->links, step);
    bool first = at == o->program->tbs[o->nodes[step].tb].first_step;
    return first ? CCL_NONE : ccl_i_run_step(o->links, at - 1);
}

static void join(closure_t *c, uint32_t i, uint32_t before) {
    if (before == CCL_NONE)
        return;
    uint32_t j = c->o->nodes[before].pos;
    c->bits[i * c->words + j / 64] |= UINT64_C(1) << (j % 64);
    for (size_t w = 0; w < c->words; w++)
        c->bits[i * c->words + w] |= c->bits[j * c->words + w];
}

static closure_t closure(const ccl_i_order_t *o) {
    uint32_t n = o->program->nsteps;
    closure_t c = {o, n / 64 + 1, NULL};
    c.bits = calloc(n * c.words, sizeof *c.bits);
    ck_assert_ptr_nonnull(c.bits);
    for (uint32_t i = 0; i < n; i++) {
        join(&c, i, before_in_block(o, o->nodes[i].order));
        join(&c, i, o->nodes[o->nodes[i].order].dep);
        join(&c, i, o->nodes[o->nodes[i].order].sender);
    }
    return c;
}

static bool is_over(const closure_t *c, uint32_t a, uint32_t by) {
    if (by == CCL_NONE)
        return false;
    size_t j = c->o->nodes[a].pos;
    return a == by || c->bits[c->o->nodes[by].pos * c->words + j / 64] >> (j % 64) & 1;
}

/* b starts when what its messages wait for is over; of a message itself, element by element. */
static bool is_before(const closure_t *c, uint32_t a, uint32_t a_elem, uint32_t b,
                      uint32_t b_elem) {
    for (uint32_t at = b; at != CCL_NONE; at = c->o->nodes[at].sender)
        if ((at == a && at != b && a_elem <= b_elem) || is_over(c, a, before_in_block(c->o, at)) ||
            is_over(c, a, c->o->nodes[at].dep))
            return true;
    return false;
}

static const struct {
    const char *spec, *name;
    ccl_collective_kind_t kind;
} CASES[] = {
    {"dgx-a100", "recursive", CCL_ALLREDUCE},
    {"dgx-a100*2", "tree", CCL_ALLREDUCE},
    {"servers:4 gpus:4 nvswitch=100GB/s nics:4x25GB/s", "hm", CCL_ALLREDUCE},
    {"servers:4 gpus:4 nvswitch=100GB/s nics:4x25GB/s", "recursive", CCL_ALLREDUCE},
    {"servers:4 gpus:4 nvswitch=100GB/s nics:4x25GB/s", "direct", CCL_ALLREDUCE},
};

/* Every third pair of each rank, both elements; an eighth of the dependencies cut. */
START_TEST(test_right) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict = {.valid = true};
    ccl_program_t *p = lowered(CASES[_i].spec, CASES[_i].name, CASES[_i].kind);
    ccl_i_links_t links;
    ccl_i_order_t order;
    uint32_t yes = 0, no = 0;
    ck_assert_int_eq(ccl_i_links_init(p, CCL_GRANULARITY_ALGORITHM, &links, &verdict, &err),
                     CCL_OK);
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    for (uint32_t s = 0; s < p->nsteps; s++)
        if (ccl_mix64(s) % 8 == 0)
            links.nodes[s].dep = CCL_NONE;
    ck_assert_int_eq(ccl_i_order_init(p, &links, &order, &err), CCL_OK);
    closure_t c = closure(&order);
    for (uint32_t j = 0; j < p->nsteps; j++) {
        for (uint32_t i = j % 3; i < j; i += 3) {
            uint32_t a = order.nodes[i].order, b = order.nodes[j].order;
            bool found = false;
            if (links.nodes[a].tb == links.nodes[b].tb ||
                p->tbs[links.nodes[a].tb].rank != p->tbs[links.nodes[b].tb].rank)
                continue;
            for (uint32_t e = 0; e < 2; e++) {
                ck_assert(ccl_i_order_before(&order, (ccl_i_access_t){a, e}, (ccl_i_access_t){b, 0},
                                             &found));
                ck_assert_msg(found == is_before(&c, a, e, b, 0), "%u, %u: %d", a, b, found);
                yes += found;
                no += !found;
            }
        }
    }
    ck_assert_uint_gt(yes, 100);
    ck_assert_uint_gt(no, 100);
    free(c.bits);
    ccl_i_order_fini(&order);
    ccl_i_links_fini(&links);
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- by few */

/*
 * Most steps wait for what they come after, themselves or by a step before them in their block; of
 * doubling and halving most others are sends whose data comes back.
 */
START_TEST(test_few) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_program_t *p = large;
    ctx.work = &work;
    ck_assert_int_eq(ccl_program_verify(&ctx, p, NULL, &verdict, &err), CCL_OK);
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    /* 7 a step where data that comes back is searched for, a quarter where steps before in the
       block are not looked at, 53 by searches backwards alone */
    ck_assert_msg(work.visited <= p->nsteps / 1000, "%llu of %u steps",
                  (unsigned long long)work.visited, p->nsteps);
}
END_TEST

/* Of a send and the receive over what it read: the ways of the data meet half-way. */
START_TEST(test_meet) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict = {.valid = true};
    ccl_program_t *p = large;
    ccl_i_links_t links;
    ccl_i_order_t order;
    uint64_t questions = 0;
    ck_assert_int_eq(ccl_i_links_init(p, CCL_GRANULARITY_ALGORITHM, &links, &verdict, &err),
                     CCL_OK);
    ck_assert_int_eq(ccl_i_order_init(p, &links, &order, &err), CCL_OK);
    uint32_t width = p->buffer_len[CCL_BUF_INPUT];
    uint32_t *sent = malloc(p->nranks * (size_t)width * sizeof *sent);
    ck_assert_ptr_nonnull(sent);
    memset(sent, 0xff, p->nranks * (size_t)width * sizeof *sent);
    for (uint32_t i = 0; i < p->nsteps; i++) {
        uint32_t s = order.nodes[i].order, rank = p->tbs[links.nodes[s].tb].rank;
        bool found = false;
        if (p->steps[s].type == CCL_PRIM_S)
            sent[rank * (size_t)width + p->steps[s].src_off] = s;
        uint32_t a = sent[rank * (size_t)width + p->steps[s].dst_off];
        if (p->steps[s].type != CCL_PRIM_R || a == CCL_NONE)
            continue;
        ck_assert(
            ccl_i_order_before(&order, (ccl_i_access_t){a, 0}, (ccl_i_access_t){s, 0}, &found));
        ck_assert(found);
        questions++;
    }
    ck_assert_uint_gt(questions, 1000);
    ck_assert_msg(order.search.nvisited <= 40 * questions, "%llu for %llu",
                  (unsigned long long)order.search.nvisited, (unsigned long long)questions);
    free(sent);
    ccl_i_order_fini(&order);
    ccl_i_links_fini(&links);
}
END_TEST

/* ---------------------------------------------------------------- what comes back */

/* One primitive of one element, which waits for nobody. */
static void step(ccl_program_builder_t *b, uint32_t tb, ccl_primitive_t type, ccl_buffer_t buffer) {
    const ccl_step_t s = {.type = type,
                          .count = 1,
                          .src_buf = buffer,
                          .dst_buf = buffer,
                          .dep_tb = CCL_NONE,
                          .dep_step = CCL_NONE};
    ccl_program_builder_step(b, tb, s);
}

static uint32_t block(ccl_program_builder_t *b, uint32_t rank, uint32_t to, uint32_t from) {
    return ccl_program_builder_tb(b, rank, to, from, 0);
}

/*
 * Reduce in place of a chunk: rank 0 sends it to rank 1, which adds its own and passes the sum on,
 * and so does rank 2, back to rank 0. Nothing but that says that the send is over.
 *
 * @param twice    rank 0 sends it to rank 2, too, which does not need it
 * @param without  rank 1 does not add what it receives
 */
static ccl_program_t *around(bool twice, bool without) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = NULL;
    ccl_program_t *p = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_REDUCE, 3, 1, 0, &want, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("t", want, 1, "Simple");
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t rank = 1; rank < 3; rank++)
        ccl_program_builder_buffer(b, rank, CCL_BUF_SCRATCH, 1);
    step(b, block(b, 0, 1, CCL_NONE), CCL_PRIM_S, CCL_BUF_INPUT);
    if (twice)
        step(b, block(b, 0, 2, CCL_NONE), CCL_PRIM_S, CCL_BUF_INPUT);
    step(b, block(b, 0, CCL_NONE, 2), CCL_PRIM_R, CCL_BUF_OUTPUT);
    if (without) {
        step(b, block(b, 1, CCL_NONE, 0), CCL_PRIM_R, CCL_BUF_SCRATCH);
        step(b, block(b, 1, 2, CCL_NONE), CCL_PRIM_S, CCL_BUF_INPUT);
    } else {
        step(b, block(b, 1, 2, 0), CCL_PRIM_RRS, CCL_BUF_INPUT);
    }
    if (twice)
        step(b, block(b, 2, CCL_NONE, 0), CCL_PRIM_R, CCL_BUF_SCRATCH);
    step(b, block(b, 2, 0, 1), CCL_PRIM_RRS, CCL_BUF_INPUT);
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

START_TEST(test_around) {
    for (uint32_t k = 0; k < 3; k++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_verdict_t verdict;
        ccl_program_t *p = around(k == 1, k == 2);
        ck_assert_int_eq(ccl_program_verify(NULL, p, NULL, &verdict, &err), CCL_OK);
        ck_assert_msg(verdict.valid == (k == 0), "%u: %s", k, verdict.fault.text);
        if (k > 0)
            ck_assert_str_eq(verdict.fault.kind, "race");
        ccl_program_destroy(p);
    }
}
END_TEST

/* ---------------------------------------------------------------- by several threads */

static ccl_verdict_t proof_of(const ccl_program_t *p, uint32_t threads, uint64_t *visited_out) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.work = &work;
    ctx.threads = threads;
    ck_assert_msg(ccl_program_verify(&ctx, p, NULL, &verdict, &err) == CCL_OK, "%s", err.text);
    *visited_out = work.visited;
    return verdict;
}

/* What is found, and where nothing is at what cost, is the same. @return the fault, NULL: none */
static const char *check_alike(const ccl_program_t *p) {
    uint64_t alone_n, more_n;
    ccl_verdict_t alone = proof_of(p, 1, &alone_n);
    bool stuck = !alone.valid && strcmp(alone.fault.kind, "deadlock") == 0;
    ck_assert(!stuck || alone_n == 0); /* then nothing is asked of the order */
    for (uint32_t threads = SANITIZED ? 5 : 2; threads <= 5; threads += 3) {
        ccl_verdict_t more = proof_of(p, threads, &more_n);
        ck_assert(alone.valid == more.valid);
        ck_assert_uint_eq(alone.nwarnings, more.nwarnings);
        for (uint32_t i = 0; i < alone.nwarnings; i++)
            ck_assert_str_eq(alone.warnings[i], more.warnings[i]);
        if (alone.valid) {
            ck_assert_uint_eq(alone_n, more_n);
            continue;
        }
        ck_assert_str_eq(alone.fault.kind, more.fault.kind);
        ck_assert_str_eq(alone.fault.text, more.fault.text);
    }
    return alone.valid ? NULL : alone.fault.kind;
}

START_TEST(test_apart) {
    ccl_program_t *p = large;
    ck_assert_uint_ge(p->nsteps, UINT32_C(1) << 18); /* else there is one thread */
    ck_assert_ptr_null(check_alike(p));
    uint32_t races = 0, tried = 0;
    for (uint32_t s = p->nsteps / 3; s < p->nsteps && tried < (nightly()   ? 4
                                                               : SANITIZED ? 1
                                                                           : 2);
         s++) {
        ccl_step_t *step = &p->steps[s], whole = *step;
        if (step->dep_tb == CCL_NONE || ccl_mix64(s) % 1000)
            continue;
        step->dep_tb = step->dep_step = CCL_NONE; /* a race, or something else implies it */
        const char *kind = check_alike(p);
        races += kind && !strcmp(kind, "race");
        tried++;
        *step = whole;
    }
    ck_assert_uint_gt(races, 0);
    for (uint32_t s = p->nsteps / 2; s < p->nsteps; s++) {
        if (p->steps[s].type != CCL_PRIM_R)
            continue;
        p->steps[s].type = CCL_PRIM_RRC; /* what is there is added once more */
        const char *kind = check_alike(p);
        p->steps[s].type = CCL_PRIM_R;
        ck_assert(kind && strcmp(kind, "race") != 0);
        break;
    }
}
END_TEST

/* Blocks that wait for each other are found beside the order of the steps, which they lack. */
START_TEST(test_stuck_apart) {
    ccl_program_t *p = large;
    ck_assert_uint_ge(p->nsteps, UINT32_C(1) << 18); /* else one comes after the other */
    uint32_t waits = 0, t = 0, other = 0;
    while (p->steps[waits].dep_tb == CCL_NONE)
        waits++;
    while (p->tbs[t].first_step + p->tbs[t].nsteps <= waits)
        t++;
    while (p->tbs[other].rank != p->tbs[t].rank)
        other++; /* a rank's blocks are side by side */
    other += p->steps[waits].dep_tb;
    ccl_step_t *first = &p->steps[p->tbs[other].first_step], whole = *first;
    ccl_step_t *last = &p->steps[p->tbs[t].first_step + p->tbs[t].nsteps - 1], kept = *last;
    first->dep_tb = p->tbs[t].id;
    first->dep_step = p->tbs[t].nsteps - 1;
    last->has_dep = 1;
    const char *kind = check_alike(p);
    *first = whole;
    *last = kept;
    ck_assert(kind && strcmp(kind, "deadlock") == 0);
}
END_TEST

/* Two ranks that send all before they receive: there is an order, but no FIFO is as deep. */
START_TEST(test_full_apart) {
    enum { CHUNKS = 1 << 16 };
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = NULL;
    ccl_program_t *p = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 2, CHUNKS, 0, &want, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("t", want, CHUNKS, "Simple");
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint32_t tb = ccl_program_builder_tb(b, rank, 1 - rank, 1 - rank, 0);
        for (uint32_t i = 0; i < 2 * CHUNKS; i++) {
            bool sends = i < CHUNKS;
            uint32_t chunk = (sends ? rank : 1 - rank) * CHUNKS + i % CHUNKS;
            ccl_program_builder_step(b, tb,
                                     (ccl_step_t){.type = sends ? CCL_PRIM_S : CCL_PRIM_R,
                                                  .count = 1,
                                                  .src_buf = CCL_BUF_OUTPUT,
                                                  .src_off = chunk,
                                                  .dst_buf = CCL_BUF_OUTPUT,
                                                  .dst_off = chunk,
                                                  .dep_tb = CCL_NONE,
                                                  .dep_step = CCL_NONE});
        }
    }
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_ge(p->nsteps, UINT32_C(1) << 18);
    const char *kind = check_alike(p);
    ck_assert(kind && strcmp(kind, "deadlock") == 0);
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- in little memory */

/* Programs have millions of steps: what each of them costs is what the proof costs. */
START_TEST(test_memory) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict;
    ccl_program_t *p = large;
    struct rlimit before = scarce_begin(48 * (size_t)p->nsteps); /* 58 was too little once */
    ccl_status_t status = ccl_program_verify(NULL, p, NULL, &verdict, &err);
    scarce_end(before);
    ck_assert_msg(status == CCL_OK && verdict.valid, "%s", err.text);
}
END_TEST

/* Where ranks hold all chunks, a table of both is smaller than a hash of the transfers. */
START_TEST(test_memory_of_transfers) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t verdict;
    ccl_schedule_t *s = made("dgx-h100*16", "recursive", CCL_ALLREDUCE);
    struct rlimit before = scarce_begin(32 * (size_t)s->ntransfers); /* the hash: 72 */
    ccl_status_t status = ccl_schedule_verify(NULL, s, &verdict, &err);
    scarce_end(before);
    ck_assert_msg(status == CCL_OK && verdict.valid, "%s", err.text);
    ccl_schedule_destroy(s);
}
END_TEST

int main(void) {
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* what is freed is no room for what comes */
    mallopt(M_ARENA_MAX, 1);             /* nor what threads have put aside */
    Suite *suite = suite_create("schedule.proof");
    TCase *tcase = tcase_create("proof");
    tcase_set_timeout(tcase, 0);
    tcase_add_unchecked_fixture(tcase, make_large, free_large);
    tcase_add_loop_test(tcase, test_right, 0, CCL_ARRAY_LEN(CASES));
    tcase_add_test(tcase, test_few);
    tcase_add_test(tcase, test_meet);
    tcase_add_test(tcase, test_around);
    tcase_add_test(tcase, test_apart);
    tcase_add_test(tcase, test_stuck_apart);
    tcase_add_test(tcase, test_full_apart);
    if (SCARCE_MEMORY) {
        tcase_add_test(tcase, test_memory);
        tcase_add_test(tcase, test_memory_of_transfers);
    }
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
