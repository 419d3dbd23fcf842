// timeout: 300
/*
 * Hundreds of random verified programs run on the host: the data are right every time. Together
 * they have every primitive, type, reduction and granularity, three or more channels, dependencies
 * across blocks, scratch, blocks of several connections, both places and unequal chunks. Some more
 * run in processes.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"

/* Programs at least, until every primitive came often; all of them at night only, a part of them
   for every change. The address sanitizer is four times as slow, and children start slowly there.
 */
enum { PROGRAMS = 1400 };
#ifdef __SANITIZE_ADDRESS__
enum { DAILY_PROGRAMS = 100, DAILY_IN_PROCESSES = 4, OFTEN = 1 };
#else
enum { DAILY_PROGRAMS = 200, DAILY_IN_PROCESSES = 12, OFTEN = 15 };
#endif
#define IN_PROCESSES (nightly() ? 40u : (uint32_t)DAILY_IN_PROCESSES)

typedef struct seen {
    uint32_t prims[9], types[CCL_TYPES][CCL_REDUCTIONS], levels[3];
    uint32_t channels, deps, scratch, in_place, out_of_place, unequal, shared, ragged, blocked;
    uint64_t items;
} seen_t;

static void look_at(const ccl_program_t *p, const ccl_run_options_t *o, seen_t *seen) {
    bool deps = false, scratch = false, shared = false;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        shared = shared || ccl_program_tb_shared(p, tb);
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            seen->prims[p->steps[i].type]++;
            deps = deps || (p->steps[i].dep_tb != CCL_NONE && p->steps[i].dep_tb != tb->id);
        }
    }
    for (uint32_t r = 0; r < p->nranks; r++)
        scratch = scratch || p->buffer_len[3 * (size_t)r + CCL_BUF_SCRATCH] > 0;
    seen->types[o->type][o->op]++;
    seen->levels[o->granularity]++;
    seen->channels += p->nchannels >= 3;
    seen->deps += deps;
    seen->scratch += scratch;
    seen->shared += shared;
    if (p->in_place && !(o->out_of_place && p->out_of_place))
        seen->in_place++;
    else
        seen->out_of_place++;
    if (p->shares) {
        double first = 0;
        bool unequal = false;
        for (uint32_t i = 0; i < 3 * p->nranks; i++)
            for (uint32_t k = 0; k < p->buffer_len[i]; k++) {
                first = first > 0 ? first : p->shares[i][k];
                unequal = unequal || p->shares[i][k] != first;
            }
        seen->unequal += unequal;
    }
}

/** Right, or unable to finish with so few slots; then right with more. */
static void replay(random_case_t *c, seen_t *seen) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *r = NULL;
    ccl_status_t status = ccl_run_program(NULL, c->program, &c->options, &r, &err);
    if (status == CCL_DEADLOCK) {
        ck_assert_msg(strstr(err.text, "cannot finish"), "%s: %s", c->what, err.text);
        ccl_run_result_destroy(r);
        r = NULL;
        seen->blocked++;
        c->options.slots = 4096;
        c->options.slice_bytes = 1024;
        ccl_error_clear(&err);
        status = ccl_run_program(NULL, c->program, &c->options, &r, &err);
    }
    ck_assert_msg(status == CCL_OK, "%s, %s %s, size %.0f, %u batches: %s", c->what,
                  ccl_type_name(c->options.type), ccl_reduction_name(c->options.op),
                  c->options.size_bytes, c->options.batches, err.text);
    seen->items += r->checked_items;
    seen->ragged += r->batches > 1 && r->buffer_bytes < r->batches * 64.0;
    ccl_run_result_destroy(r);
}

static bool enough(const seen_t *seen, uint32_t done) {
    uint32_t rarest = seen->prims[0];
    for (uint32_t i = 1; i < CCL_ARRAY_LEN(seen->prims); i++)
        rarest = seen->prims[i] < rarest ? seen->prims[i] : rarest;
    return rarest > OFTEN && seen->ragged > done / 70;
}

START_TEST(test_replay) {
    ccl_rng_t rng;
    random_world_t world;
    seen_t seen = {0};
    uint32_t done = 0, programs = nightly() ? PROGRAMS : DAILY_PROGRAMS;
    ccl_rng_init(&rng, 20261120);
    random_world_init(&world);
    for (uint32_t tries = 0; done < programs || !enough(&seen, done); tries++) {
        random_case_t c = {0};
        ck_assert_uint_lt(tries, 4 * PROGRAMS);
        if (!random_case(&rng, &world, &c))
            continue;
        look_at(c.program, &c.options, &seen);
        replay(&c, &seen);
        ccl_program_destroy(c.program);
        done++;
    }
    random_world_fini(&world);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(seen.prims); i++)
        ck_assert_msg(seen.prims[i] > OFTEN, "%s: %u", ccl_primitive_name((ccl_primitive_t)i),
                      seen.prims[i]);
    for (uint32_t i = 0; i < CCL_TYPES; i++)
        for (uint32_t k = 0; k < CCL_REDUCTIONS; k++)
            ck_assert_uint_gt(seen.types[i][k], done / 35);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_gt(seen.levels[i], done / 14);
    ck_assert_uint_gt(seen.channels, done / 14);
    ck_assert_uint_gt(seen.deps, done / 14);
    ck_assert_uint_gt(seen.scratch, done / 14);
    ck_assert_uint_gt(seen.in_place, done / 14);
    ck_assert_uint_gt(seen.out_of_place, done / 14);
    ck_assert_uint_gt(seen.unequal, done / 14);
    ck_assert_uint_gt(seen.shared, done / 70);
    ck_assert_uint_gt(seen.ragged, done / 70);
    ck_assert_uint_lt(seen.blocked, done / 4);
    ck_assert_uint_gt(seen.items, 715 * done);
    if (getenv("CCL_TEST_TALK"))
        printf("deps %u scratch %u channels %u in place %u unequal %u shared %u blocked %u ragged "
               "%u items %llu\n",
               seen.deps, seen.scratch, seen.channels, seen.in_place, seen.unequal, seen.shared,
               seen.blocked, seen.ragged, (unsigned long long)seen.items);
}
END_TEST

/* The same over children and both transports. */
START_TEST(test_processes) {
    ccl_rng_t rng;
    random_world_t world;
    uint32_t done = 0;
    ccl_rng_init(&rng, 77 + (uint64_t)_i);
    random_world_init(&world);
    while (done < IN_PROCESSES) {
        random_case_t c = {0};
        seen_t seen = {0};
        if (!random_case(&rng, &world, &c))
            continue;
        c.options.ranks = CCL_RANKS_PROCESSES;
        c.options.processes = 2 + ccl_rng_below(&rng, 4);
        c.options.transport = (ccl_run_transport_t)_i;
        c.options.threads = 1 + ccl_rng_below(&rng, 2);
        replay(&c, &seen);
        ccl_program_destroy(c.program);
        done++;
    }
    random_world_fini(&world);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.replay");
    TCase *tcase = tcase_create("replay");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_replay);
#ifndef __SANITIZE_THREAD__ /* which does not see what passes through another process */
    tcase_add_loop_test(tcase, test_processes, 0, 2);
#else
    (void)test_processes;
#endif
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
