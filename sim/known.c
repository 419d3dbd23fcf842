/**
 * @file known.c
 * Times of runs that were simulated before. A search makes the same program again and again: races
 * try its order, lowering tries it once more for the winner, cuts and channels that differ in name
 * only come to one program. What a run depends on is hashed; equal keys are taken as equal runs.
 */
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ccl_i_run_key run_key_t;

typedef struct known {
    run_key_t key;
    bool longer;   /* it takes more than time_s */
    double time_s; /* 0: the entry is free */
    double chunk_bytes;
    uint32_t batches;
    bool estimated;
    uint64_t events, rate_changes;
} known_t;

/* Of the sizes asked about last the fastest run, whole: who orders and allocates the winner of a
   race wants its times of steps, and would make it again. */
enum { KEPT_SIZES = 4, KEPT_STEPS = 200000 };

typedef struct kept {
    run_key_t key;
    double size_bytes;
    ccl_sim_result_t *run; /* NULL: none */
} kept_t;

struct ccl_runs {
    const ccl_topology_t *topo;
    ccl_lock_t *lock;
    kept_t kept[KEPT_SIZES];
    uint32_t oldest; /* of them */
    known_t *known;  /* [cap] by hash; cap is a power of two */
    size_t len, cap;
    uint64_t hits;
};

ccl_runs_t *ccl_runs_create(const ccl_topology_t *topo) {
    ccl_runs_t *runs = calloc(1, sizeof *runs);
    if (!runs)
        return NULL;
    runs->topo = topo;
    runs->lock = ccl_lock_create();
    if (runs->lock)
        return runs;
    free(runs);
    return NULL;
}

void ccl_runs_destroy(ccl_runs_t *runs) {
    if (!runs)
        return;
    ccl_lock_destroy(runs->lock);
    for (int i = 0; i < KEPT_SIZES; i++)
        ccl_sim_result_destroy(runs->kept[i].run);
    free(runs->known);
    free(runs);
}

uint64_t ccl_i_runs_hits(const ccl_runs_t *runs) {
    return runs->hits;
}

/* ---------------------------------------------------------------- keys */

static void mix(run_key_t *key, uint64_t word) {
    key->a = ccl_mix64(key->a ^ word);
    key->b = (key->b ^ word) * UINT64_C(0x9fb21c651e98df25);
    key->b ^= key->b >> 29;
}

static void mix_pair(run_key_t *key, uint32_t high, uint32_t low) {
    mix(key, (uint64_t)high << 32 | low);
}

static void mix_double(run_key_t *key, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    mix(key, bits);
}

/* Not where anything lies: only how much is moved, from whom to whom, after what. */
static void mix_block(run_key_t *key, const ccl_program_t *p, const ccl_tb_t *tb) {
    mix_pair(key, tb->rank, tb->nsteps);
    mix_pair(key, tb->send_peer, tb->recv_peer);
    mix(key, tb->channel);
    for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
        const ccl_step_t *s = &p->steps[i];
        mix_pair(key, s->dep_tb, s->dep_step);
        mix_pair(key, (uint32_t)s->type << 16 | s->stage, p->shares ? 0 : s->count);
        if (p->shares)
            mix_double(key, ccl_program_step_share(p, tb, s));
        if (p->peers) {
            mix_pair(key, p->peers[i].send_peer, p->peers[i].recv_peer);
            mix(key, p->peers[i].channel);
        }
    }
}

bool ccl_i_run_key(const ccl_ctx_t *ctx, const ccl_topology_t *topo, const ccl_program_t *program,
                   const ccl_sim_options_t *o, run_key_t *out) {
    if (!ctx || !ctx->runs || ctx->runs->topo != topo || !o->estimate || o->trace || o->path ||
        o->no_skip || o->no_fold || o->cause || o->variation)
        return false;
    *out = (run_key_t){1, 2, ccl_program_level(program, o->granularity)};
    mix_pair(out, ccl_protocol_find(program->proto), program->algorithm_only);
    mix_pair(out, program->nranks, program->nchunks);
    mix_pair(out, out->level == CCL_GRANULARITY_STAGE, (uint32_t)o->sharing);
    mix_double(out, o->size_bytes);
    mix(out, o->batches);
    mix_double(out, o->batches ? 0 : program->piece_bytes);
    for (uint32_t g = 0; g < program->ngroups; g++) {
        mix(out, program->groups[g].n);
        for (uint32_t i = 0; i < program->groups[g].n; i++)
            mix(out, program->groups[g].ranks[i]);
    }
    for (uint32_t t = 0; t < program->ntbs; t++)
        mix_block(out, program, &program->tbs[t]);
    return true;
}

/* ---------------------------------------------------------------- the table */

/* Whether a run of this number of micro-batches with the first key is one with the second. */
static bool same_run(const run_key_t *a, uint32_t batches, const run_key_t *b) {
    return a->a == b->a && a->b == b->b && (a->level == b->level || batches == 1);
}

/* Its place, or the free one where it belongs. */
static known_t *place(known_t *known, size_t cap, const run_key_t *key) {
    size_t at = key->a & (cap - 1);
    while (known[at].time_s != 0 && !same_run(&known[at].key, known[at].batches, key))
        at = (at + 1) & (cap - 1);
    return &known[at];
}

static bool reserve(ccl_runs_t *runs) {
    size_t cap = runs->cap ? 2 * runs->cap : 256;
    if (4 * (runs->len + 1) <= 3 * runs->cap)
        return true;
    known_t *known = calloc(cap, sizeof *known);
    if (!known)
        return false;
    for (size_t i = 0; i < runs->cap; i++)
        if (runs->known[i].time_s != 0)
            *place(known, cap, &runs->known[i].key) = runs->known[i];
    free(runs->known);
    runs->known = known;
    runs->cap = cap;
    return true;
}

static bool find(const ccl_ctx_t *ctx, const run_key_t *key, known_t *out) {
    ccl_runs_t *runs = ctx->runs;
    ccl_lock_take(runs->lock);
    const known_t *at = runs->cap ? place(runs->known, runs->cap, key) : NULL;
    bool is_known = at && at->time_s != 0;
    if (is_known)
        *out = *at;
    ccl_lock_release(runs->lock);
    return is_known;
}

bool ccl_i_runs_keeps(const ccl_program_t *program) {
    return program->nsteps <= KEPT_STEPS;
}

/* Under the lock: the place of a size's fastest run, an older size's where there is none. */
static kept_t *kept_of(ccl_runs_t *runs, double size_bytes) {
    for (int i = 0; i < KEPT_SIZES; i++)
        if (runs->kept[i].run && runs->kept[i].size_bytes == size_bytes)
            return &runs->kept[i];
    return &runs->kept[runs->oldest++ % KEPT_SIZES];
}

/* A whole run, if it is the fastest of its size so far. */
static void keep(ccl_runs_t *runs, const run_key_t *key, const ccl_program_t *program,
                 const ccl_sim_result_t *r) {
    ccl_sim_result_t *copy = NULL;
    bool faster = r->time_s < INFINITY && r->step_end_s && !r->nstages;
    ccl_lock_take(runs->lock);
    for (int i = 0; i < KEPT_SIZES && faster; i++)
        faster = !runs->kept[i].run || runs->kept[i].size_bytes != r->size_bytes ||
                 r->time_s < runs->kept[i].run->time_s;
    ccl_lock_release(runs->lock);
    if (faster)
        copy = ccl_i_result_copy(r, program->nsteps);
    if (!copy) /* what is not kept costs only time */
        return;
    ccl_lock_take(runs->lock);
    kept_t *at = kept_of(runs, r->size_bytes);
    ccl_sim_result_destroy(at->run);
    *at = (kept_t){*key, r->size_bytes, copy};
    ccl_lock_release(runs->lock);
}

/* A copy of the run that was kept whole; NULL: another was. */
static ccl_sim_result_t *kept_run(const ccl_ctx_t *ctx, const run_key_t *key,
                                  const ccl_program_t *program) {
    ccl_sim_result_t *copy = NULL;
    ccl_lock_take(ctx->runs->lock);
    for (int i = 0; i < KEPT_SIZES && !copy; i++) {
        const kept_t *at = &ctx->runs->kept[i];
        if (at->run && same_run(&at->key, at->run->batches, key))
            copy = ccl_i_result_copy(at->run, program->nsteps);
    }
    ccl_lock_release(ctx->runs->lock);
    return copy;
}

void ccl_i_runs_put(const ccl_ctx_t *ctx, const run_key_t *key, const ccl_program_t *program,
                    const ccl_sim_result_t *r, double give_up_s) {
    ccl_runs_t *runs = ctx->runs;
    bool longer = !(r->time_s < INFINITY);
    known_t now = {.key = *key,
                   .longer = longer,
                   .time_s = longer ? give_up_s : r->time_s,
                   .chunk_bytes = r->chunk_bytes,
                   .batches = r->batches,
                   .estimated = r->estimated,
                   .events = r->events,
                   .rate_changes = r->rate_changes};
    if (!(now.time_s > 0))
        return;
    keep(runs, key, program, r);
    ccl_lock_take(runs->lock);
    if (reserve(runs)) { /* what is not remembered costs only time */
        known_t *at = place(runs->known, runs->cap, key);
        if (at->time_s == 0 || (at->longer && (!longer || now.time_s > at->time_s))) {
            runs->len += at->time_s == 0;
            *at = now;
        }
    }
    ccl_lock_release(runs->lock);
}

ccl_status_t ccl_i_runs_get(const ccl_ctx_t *ctx, const run_key_t *key, const ccl_topology_t *topo,
                            const ccl_program_t *program, const ccl_sim_options_t *options,
                            ccl_sim_result_t **out, ccl_error_t *err) {
    const double give_up_s = options->give_up_s > 0 ? options->give_up_s : INFINITY;
    known_t known;
    if (!find(ctx, key, &known) || (known.longer && known.time_s < give_up_s))
        return CCL_OK;
    bool longer = known.longer || known.time_s > give_up_s;
    if (!longer && options->step_times) {
        *out = kept_run(ctx, key, program);
        if (*out)
            __atomic_fetch_add(&ctx->runs->hits, 1, __ATOMIC_RELAXED);
        return CCL_OK;
    }
    ccl_sim_result_t *r = ccl_i_result_create(topo->nlinks, program->ntbs, 0);
    if (!r)
        return ccl_fail_nomem(err);
    r->time_s = longer ? INFINITY : known.time_s;
    r->size_bytes = options->size_bytes;
    r->batches = known.batches;
    r->chunk_bytes = known.chunk_bytes;
    r->events = known.events;
    r->rate_changes = known.rate_changes;
    r->estimated = known.estimated;
    r->known = true;
    __atomic_fetch_add(&ctx->runs->hits, 1, __ATOMIC_RELAXED);
    *out = r;
    return CCL_OK;
}

bool ccl_sim_known(const ccl_ctx_t *ctx, const ccl_topology_t *topo, const ccl_program_t *program,
                   const ccl_sim_options_t *options, double *time_out) {
    run_key_t key;
    known_t known;
    if (!ccl_i_run_key(ctx, topo, program, options, &key) || !find(ctx, &key, &known) ||
        known.longer)
        return false;
    *time_out = known.time_s;
    return true;
}
