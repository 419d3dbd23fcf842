/*
 * Random programs that verify: random schedules of all synthesizers, lowered in random ways, then
 * rewritten so that primitives occur that lowering never writes.
 */
#ifndef CCL_TESTS_RUNTIME_RANDOM_PROGRAMS_H
#define CCL_TESTS_RUNTIME_RANDOM_PROGRAMS_H

#include "common.h"
#include "random_demand.h"

#define PICK(rng_, array_) (array_)[ccl_rng_below(rng_, (uint32_t)CCL_ARRAY_LEN(array_))]

static const char *const random_specs[] = {
    "servers:1 gpus:2 nvswitch=300GB/s,1us",
    "servers:1 gpus:5 nvswitch=300GB/s,1us",
    "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us",
    "servers:2 gpus:4 nvswitch=300GB/s,1us nics:2x25GB/s,2us",
    "servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us fabric=rail",
    "servers:4 gpus:2 nvswitch=300GB/s,1us nics:1x25GB/s,2us",
    "dgx1-v100",
};
#define RANDOM_SPECS 7

typedef struct random_world {
    ccl_topology_t *topos[RANDOM_SPECS];
    ccl_routes_t *routes[RANDOM_SPECS];
} random_world_t;

static inline void random_world_init(random_world_t *w) {
    for (uint32_t i = 0; i < RANDOM_SPECS; i++) {
        w->topos[i] = topology(random_specs[i]);
        w->routes[i] = ccl_routes_create(w->topos[i]);
        ck_assert_ptr_nonnull(w->routes[i]);
    }
}

static inline void random_world_fini(random_world_t *w) {
    for (uint32_t i = 0; i < RANDOM_SPECS; i++) {
        ccl_routes_destroy(w->routes[i]);
        ccl_topology_destroy(w->topos[i]);
    }
}

/* ---------------------------------------------------------------- rewriting */

typedef struct rewrite {
    const ccl_program_t *from;
    ccl_rng_t *rng;
    ccl_program_builder_t *b;
    uint32_t *place;   /* [nsteps] new index in its block; of what its dependents wait for */
    uint32_t *scratch; /* [nsteps] new scratch element of a split step; CCL_NONE: not split */
    uint8_t *nops;     /* [nsteps] a nop before it */
    uint32_t *scratch_len;
} rewrite_t;

static inline void rewrite_plan(rewrite_t *w) {
    const ccl_program_t *p = w->from;
    uint32_t nop_odds = ccl_rng_below(w->rng, 3) ? 0 : 4;
    uint32_t split_odds = ccl_rng_below(w->rng, 2) ? 0 : 2;
    for (uint32_t r = 0; r < p->nranks; r++)
        w->scratch_len[r] = p->buffer_len[3 * (size_t)r + CCL_BUF_SCRATCH];
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        uint32_t at = 0;
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            const ccl_step_t *s = &p->steps[i];
            bool same = s->src_buf == s->dst_buf && s->src_off == s->dst_off;
            w->nops[i] = nop_odds && ccl_rng_below(w->rng, nop_odds) == 0;
            w->scratch[i] = CCL_NONE;
            if (split_odds && s->type == CCL_PRIM_RRC && same &&
                ccl_rng_below(w->rng, split_odds) == 0) {
                w->scratch[i] = w->scratch_len[tb->rank];
                w->scratch_len[tb->rank] += s->count;
            }
            at += w->nops[i] + (w->scratch[i] != CCL_NONE);
            w->place[i] = at++;
        }
    }
}

static inline void rewrite_buffers(const rewrite_t *w) {
    const ccl_program_t *p = w->from;
    for (uint32_t r = 0; r < p->nranks; r++) {
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t old = p->buffer_len[3 * (size_t)r + k];
            uint32_t len = k == CCL_BUF_SCRATCH ? w->scratch_len[r] : old;
            ccl_program_builder_buffer(w->b, r, (ccl_buffer_t)k, len);
            if (!p->shares)
                continue;
            double *shares = calloc(len + (size_t)1, sizeof *shares);
            if (old)
                memcpy(shares, p->shares[3 * (size_t)r + k], old * sizeof *shares);
            for (uint32_t t = p->rank_first_tb[r];
                 k == CCL_BUF_SCRATCH && t < p->rank_first_tb[r + 1]; t++) {
                const ccl_tb_t *tb = &p->tbs[t];
                for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++)
                    for (uint32_t e = 0; w->scratch[i] != CCL_NONE && e < p->steps[i].count; e++)
                        shares[w->scratch[i] + e] =
                            p->shares[3 * (size_t)r + p->steps[i].dst_buf][p->steps[i].dst_off + e];
            }
            ccl_program_builder_shares(w->b, r, (ccl_buffer_t)k, shares);
            free(shares);
        }
    }
}

static inline void rewrite_add(const rewrite_t *w, uint32_t tb, const ccl_peers_t *peers,
                               ccl_step_t step) {
    if (peers)
        ccl_program_builder_step_peers(w->b, tb, step, *peers);
    else
        ccl_program_builder_step(w->b, tb, step);
}

static inline void rewrite_block(const rewrite_t *w, uint32_t t) {
    const ccl_program_t *p = w->from;
    const ccl_tb_t *tb = &p->tbs[t];
    uint32_t to = ccl_program_builder_tb(w->b, tb->rank, tb->send_peer, tb->recv_peer, tb->channel);
    bool shared = ccl_program_tb_shared(p, tb);
    for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
        ccl_step_t s = p->steps[i];
        const ccl_peers_t *peers = shared ? &p->peers[i] : NULL;
        if (s.dep_tb != CCL_NONE)
            s.dep_step =
                w->place[p->tbs[p->rank_first_tb[tb->rank] + s.dep_tb].first_step + s.dep_step];
        if (w->nops[i]) { /* the nop waits in its place */
            ccl_step_t nop = {
                .dep_tb = s.dep_tb, .dep_step = s.dep_step, .stage = s.stage, .type = CCL_PRIM_NOP};
            rewrite_add(w, to, peers, nop);
            s.dep_tb = s.dep_step = CCL_NONE;
        }
        if (w->scratch[i] != CCL_NONE) {
            ccl_step_t r = s, re = s;
            r.type = CCL_PRIM_R;
            r.dst_buf = r.src_buf = CCL_BUF_SCRATCH;
            r.dst_off = r.src_off = w->scratch[i];
            re.type = CCL_PRIM_RE;
            re.src_buf = CCL_BUF_SCRATCH;
            re.src_off = w->scratch[i];
            re.dep_tb = re.dep_step = CCL_NONE;
            rewrite_add(w, to, peers, r);
            rewrite_add(w, to, peers, re);
        } else {
            rewrite_add(w, to, peers, s);
        }
    }
}

/** Some nops that wait in place of the step behind them; some rrc as a receive and a re. */
static inline ccl_program_t *random_rewrite(ccl_rng_t *rng, const ccl_program_t *from) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *coll = NULL;
    ccl_program_t *out = NULL;
    size_t n = from->nsteps + (size_t)1;
    rewrite_t w = {.from = from,
                   .rng = rng,
                   .place = calloc(n, sizeof(uint32_t)),
                   .scratch = calloc(n, sizeof(uint32_t)),
                   .nops = calloc(n, 1),
                   .scratch_len = calloc(from->nranks, sizeof(uint32_t))};
    ck_assert_int_eq(ccl_collective_clone(from->coll, &coll, &err), CCL_OK);
    w.b = ccl_program_builder_create(from->name, coll, from->nchunks, from->proto);
    ccl_program_builder_place(w.b, from->in_place, from->out_of_place, 0, 0);
    rewrite_plan(&w);
    rewrite_buffers(&w);
    for (uint32_t t = 0; t < from->ntbs; t++)
        rewrite_block(&w, t);
    ccl_status_t status = ccl_program_builder_finish(w.b, &out, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    free(w.place);
    free(w.scratch);
    free(w.nops);
    free(w.scratch_len);
    return out;
}

/* ---------------------------------------------------------------- one program */

/** It cannot finish, which was found without a run; one that hangs is a fault of the runtime. */
static inline bool foreseen(ccl_status_t status, const ccl_error_t *err) {
    return status == CCL_DEADLOCK && strstr(err->text, "the program cannot finish");
}

typedef struct random_case {
    ccl_program_t *program;
    ccl_run_options_t options;
    char what[400];
} random_case_t;

static inline const ccl_synth_ops_t *random_synth(ccl_rng_t *rng, const ccl_topology_t *topo,
                                                  const ccl_collective_t *want) {
    const ccl_synth_ops_t *able[64];
    uint32_t n = 0;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name && n < 64;
         ops++) {
        const char *why = NULL;
        if ((*ops)->supports(topo, want, &why))
            able[n++] = *ops;
    }
    return n ? able[ccl_rng_below(rng, n)] : NULL;
}

/** NULL: this one did not come to anything (no synthesizer for it). */
static inline ccl_program_t *random_lowered(ccl_rng_t *rng, const random_world_t *world,
                                            ccl_lower_options_t *lower, char *what,
                                            size_t what_len) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    uint32_t spec = ccl_rng_below(rng, RANDOM_SPECS);
    const ccl_topology_t *topo = world->topos[spec];
    uint32_t kind = ccl_rng_below(rng, CCL_CUSTOM + 3), n = topo->nranks;
    ccl_collective_t *want = kind < CCL_CUSTOM
                                 ? collective((ccl_collective_kind_t)kind, n, ccl_rng_below(rng, n))
                                 : random_demand(rng, n);
    const ccl_synth_ops_t *ops = random_synth(rng, topo, want);
    options.channels = ccl_rng_below(rng, 5);
    options.chunks = ccl_rng_below(rng, 4);
    options.effort = 0; /* of the searching ones */
    options.restarts = 1;
    if (ops) {
        ccl_status_t status = ccl_synthesize(NULL, ops->name, topo, world->routes[spec], want,
                                             &options, &schedule, &err);
        ck_assert_msg(status == CCL_OK || status == CCL_TIMEOUT || status == CCL_UNSUPPORTED ||
                          status == CCL_INFEASIBLE,
                      "%s: %s", ops->name, err.text);
    }
    *lower = (ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT;
    lower->no_fuse = ccl_rng_below(rng, 4) == 0;
    lower->out_of_place = ccl_rng_below(rng, 2);
    lower->slots = 1 + ccl_rng_below(rng, 3);
    lower->granularity = (ccl_granularity_t)ccl_rng_below(rng, 3);
    lower->order = (ccl_order_t)(ccl_rng_below(rng, 2) ? ccl_rng_below(rng, 3) : 0);
    lower->allocation = (ccl_allocation_t)(ccl_rng_below(rng, 2) ? ccl_rng_below(rng, 3) : 0);
    lower->stages = (ccl_stages_t)ccl_rng_below(rng, 2);
    lower->topo = topo;
    lower->routes = world->routes[spec];
    lower->size_bytes = 1 << 20;
    snprintf(what, what_len, "%s %s on %s, order %d, allocation %d, granularity %d, slots %u",
             ops ? ops->name : "?", want->name, random_specs[spec], (int)lower->order,
             (int)lower->allocation, (int)lower->granularity, lower->slots);
    if (schedule) {
        ccl_status_t status = ccl_lower(NULL, schedule, lower, &program, &err);
        ck_assert_msg(status == CCL_OK || status == CCL_UNSUPPORTED, "%s: %s", what, err.text);
    }
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return program;
}

/** A run at random. */
static inline void random_options(ccl_rng_t *rng, ccl_granularity_t granularity,
                                  ccl_run_options_t *o) {
    static const double slices[] = {0, 16, 48, 256, 1024, 4096};
    *o = (ccl_run_options_t)CCL_RUN_OPTIONS_INIT;
    o->size_bytes = 1 + ccl_rng_below(rng, ccl_rng_below(rng, 4) ? 4000 : 60000);
    o->type = (ccl_type_t)ccl_rng_below(rng, CCL_TYPES);
    o->op = (ccl_reduction_t)ccl_rng_below(rng, CCL_REDUCTIONS);
    o->granularity = granularity;
    o->batches = ccl_rng_below(rng, 6);
    o->slice_bytes = PICK(rng, slices);
    o->slices = ccl_rng_below(rng, 4);
    o->slots = ccl_rng_below(rng, 2) ? 0 : 1 + ccl_rng_below(rng, 8);
    o->out_of_place = ccl_rng_below(rng, 2);
    o->threads = 1 + ccl_rng_below(rng, 3);
    o->warmups = 0;
    o->repeats = 1 + ccl_rng_below(rng, 2);
    o->watchdog_s = 30;
    o->protocol = (ccl_run_protocol_t)ccl_rng_below(rng, CCL_RUN_LL128 + 1);
}

static inline bool random_case(ccl_rng_t *rng, const random_world_t *world, random_case_t *out) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lower_options_t lower;
    ccl_program_t *lowered = random_lowered(rng, world, &lower, out->what, sizeof out->what);
    if (!lowered)
        return false;
    out->program = random_rewrite(rng, lowered);
    ccl_program_destroy(lowered);

    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    verify.granularity = lower.granularity;
    verify.skip_deadlock = true; /* the run knows its slots and slices */
    ck_assert_msg(ccl_program_verify(NULL, out->program, &verify, verdict, &err) == CCL_OK,
                  "%s: %s", out->what, err.text);
    ck_assert_msg(verdict->valid, "%s: %s: %s", out->what, verdict->fault.kind,
                  verdict->fault.text);
    free(verdict);

    random_options(rng, lower.granularity, &out->options);
    return true;
}

#endif
