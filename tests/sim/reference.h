/* The engine against the second simulator: one program, all that both report. */
#ifndef CCL_TESTS_SIM_REFERENCE_H
#define CCL_TESTS_SIM_REFERENCE_H

#include "tests/sim/naive.h"
#include "tests/sim/random_cases.h"

typedef struct tally {
    uint32_t cases, deadlocks, chaotic, skipped;
    uint64_t slices;
} tally_t;

static inline double apart(double a, double b) {
    return fabs(a - b) / fmax(fmax(fabs(a), fabs(b)), 1e-300);
}

static inline void naive(const setting_t *s, double scale, naive_result_t *out) {
    ccl_sim_options_t options = options_of(s);
    options.size_bytes *= scale;
    naive_program(s->topo, s->routes, s->program, &options, out);
}

/** How far the naive simulator's own time moves when sizes move by 1e-12. */
static inline double unrest(const setting_t *s, double time_s) {
    double most = 0;
    for (int sign = -1; sign <= 1; sign += 2) {
        naive_result_t moved;
        naive(s, 1 + sign * 1e-12, &moved);
        most = fmax(most, apart(moved.time_s, time_s));
        naive_result_fini(&moved);
    }
    return most;
}

static inline void dump(const setting_t *s) {
    const char *path = getenv("CCL_TEST_DUMP");
    ccl_text_t text = {0};
    if (!path)
        return;
    char name[300];
    ccl_topology_write_json(s->topo, &text, NULL);
    snprintf(name, sizeof name, "%s.json", path);
    ccl_file_write(name, text.data, text.len, NULL);
    ccl_text_fini(&text);
    ccl_program_write_xml(s->program, &text, NULL);
    snprintf(name, sizeof name, "%s.xml", path);
    ccl_file_write(name, text.data, text.len, NULL);
    ccl_text_fini(&text);
}

static inline void dump_blocks(const setting_t *s, const ccl_sim_result_t *got,
                               const naive_result_t *want) {
    for (uint32_t t = 0; t < s->program->ntbs; t++) {
        const ccl_tb_use_t *a = &got->tbs[t], *b = &want->tbs[t];
        fprintf(stderr,
                "rank %u block %u: done %.9g (%.9g) us, busy %.9g (%.9g), data %.9g "
                "(%.9g), peer %.9g (%.9g), slot %.9g (%.9g)\n",
                s->program->tbs[t].rank, s->program->tbs[t].id, a->done_s * 1e6, b->done_s * 1e6,
                a->busy_s * 1e6, b->busy_s * 1e6, a->wait_data_s * 1e6, b->wait_data_s * 1e6,
                a->wait_peer_s * 1e6, b->wait_peer_s * 1e6, a->wait_slot_s * 1e6,
                b->wait_slot_s * 1e6);
    }
}

/** How far a run is off. Blocks may differ where the run does not: everything is measured on the
    run's scale. */
static inline double worst(const setting_t *s, const ccl_sim_result_t *got,
                           const naive_result_t *want) {
    double off = apart(got->time_s, want->time_s);
    for (uint32_t t = 0; t < s->program->ntbs; t++) {
        const ccl_tb_use_t *a = &got->tbs[t], *b = &want->tbs[t];
        off = fmax(off, fabs(a->done_s - b->done_s) / want->time_s);
        off = fmax(off, fabs(a->busy_s - b->busy_s) / want->time_s);
        off = fmax(off, fabs(a->wait_data_s - b->wait_data_s) / want->time_s);
        off = fmax(off, fabs(a->wait_peer_s - b->wait_peer_s) / want->time_s);
        off = fmax(off, fabs(a->wait_slot_s - b->wait_slot_s) / want->time_s);
    }
    return off;
}

static inline void compare(const setting_t *s, const char *what, tally_t *tally) {
    const ccl_sim_options_t options = options_of(s);
    ccl_sim_result_t *got = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    naive_result_t want;
    naive(s, 1, &want);
    ccl_status_t status =
        ccl_sim_program(NULL, s->topo, s->routes, s->program, &options, &got, &err);
    tally->cases++;
    tally->slices += want.flows;
    tally->skipped += status == CCL_OK && got->skipped_batches > 0;
    if (status != (want.deadlock ? CCL_DEADLOCK : CCL_OK))
        dump(s);
    ck_assert_msg(status == (want.deadlock ? CCL_DEADLOCK : CCL_OK),
                  "%s: status %s (%s), the reference %s", what, ccl_status_name(status), err.text,
                  want.deadlock ? "blocks" : "finishes");
    if (want.deadlock) {
        tally->deadlocks++;
        ck_assert_msg(got->deadlock && got->deadlock->nwaits > 0, "%s", what);
    } else {
        double off = worst(s, got, &want), tolerance = 1e-9, restless = 0;
        if (off > tolerance) {
            restless = unrest(s, want.time_s);
            if (restless > 1e-11)
                tally->chaotic++;
            tolerance = restless > 1e-8 ? INFINITY : restless > 1e-11 ? 1e-6 : 1e-9;
            /* Exclusive: what lies within 1 ps is one instant; its time is anywhere in it. */
            if (s->sharing == CCL_SHARING_EXCLUSIVE)
                tolerance += 50e-12 / want.time_s;
        }
        if (off > tolerance) {
            dump(s);
            dump_blocks(s, got, &want);
        }
        ck_assert_msg(off <= tolerance,
                      "%s: %.12g us, the reference %.12g us (off by %g; sizes x (1 +- 1e-12) move "
                      "it by %g)",
                      what, got->time_s * 1e6, want.time_s * 1e6, off, restless);
        for (uint32_t l = 0; l < s->topo->nlinks; l++)
            ck_assert_msg(fabs(got->links[l].bytes - want.link_bytes[l]) <=
                              1e-9 * want.link_bytes[l],
                          "%s: link %u carries %g, the reference %g", what, l, got->links[l].bytes,
                          want.link_bytes[l]);
        ck_assert_msg(got->transfers == want.transfers, "%s: %llu transfers, the reference %llu",
                      what, (unsigned long long)got->transfers, (unsigned long long)want.transfers);
    }
    ccl_sim_result_destroy(got);
    naive_result_fini(&want);
}

static inline void add(tally_t *to, const tally_t *tally) {
    to->cases += tally->cases;
    to->deadlocks += tally->deadlocks;
    to->chaotic += tally->chaotic;
    to->skipped += tally->skipped;
    to->slices += tally->slices;
}

static inline uint32_t cases_per_shard(uint32_t plain) {
    const char *factor = getenv("CCL_TEST_FACTOR");
    return factor ? plain * (uint32_t)atoi(factor) : plain;
}

#endif
