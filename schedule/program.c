/*
 * Programs and their builder.
 *
 * The builder keeps one flat array of steps and the block of each run of them, so that hundreds of
 * thousands of blocks cost no allocation of their own; finish sorts blocks by rank and places the
 * steps by counting. Steps that came in the order of their blocks are handed over: of millions
 * there are not two copies.
 */
#include "schedule/groups_i.h"
#include "schedule/schedule_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Steps of one block, one after the other. */
typedef struct builder_run {
    uint32_t tb, nsteps; /* handle */
} builder_run_t;

struct ccl_program_builder {
    char *name, *proto;
    ccl_collective_t *coll;
    uint32_t nchunks, nchannels;
    bool in_place, out_of_place;
    double min_bytes, max_bytes;
    ccl_tb_t *tbs; /* by handle; nsteps counts */
    size_t ntbs, tbs_cap;
    ccl_step_t *steps;
    size_t nsteps, steps_cap;
    builder_run_t *runs;
    size_t nruns, runs_cap;
    ccl_peers_t *peers; /* [nsteps] by step, NULL until a shared block comes */
    size_t peers_cap;
    ccl_i_groups_t groups;
    uint32_t *rank_tbs;           /* [nranks] */
    uint32_t *buffer_len;         /* [3 nranks] */
    double **shares;              /* [3 nranks], NULL until given */
    const ccl_step_mark_t *marks; /* of a file's steps; NULL: there is no file */
    bool any_shares, nomem;
    bool bad_rank; /* a block or buffer of a rank that does not exist */
};

ccl_program_builder_t *ccl_program_builder_create(const char *name, ccl_collective_t *coll,
                                                  uint32_t nchunks, const char *proto) {
    ccl_program_builder_t *b = calloc(1, sizeof *b);
    if (!b) {
        ccl_collective_destroy(coll);
        return NULL;
    }
    uint32_t n = coll->nranks;
    b->coll = coll;
    b->name = strdup(name ? name : "");
    b->proto = strdup(proto ? proto : "Simple");
    b->nchunks = nchunks;
    b->out_of_place = true;
    b->rank_tbs = calloc(n, sizeof *b->rank_tbs);
    b->buffer_len = calloc(3 * (size_t)n, sizeof *b->buffer_len);
    b->shares = calloc(3 * (size_t)n, sizeof *b->shares);
    if (!b->name || !b->proto || !b->rank_tbs || !b->buffer_len || !b->shares) {
        ccl_program_builder_destroy(b);
        return NULL;
    }
    for (uint32_t r = 0; r < n; r++) {
        b->buffer_len[3 * r + CCL_BUF_INPUT] = ccl_collective_input_len(coll, r);
        b->buffer_len[3 * r + CCL_BUF_OUTPUT] = ccl_collective_output_len(coll, r);
    }
    return b;
}

void ccl_program_builder_destroy(ccl_program_builder_t *b) {
    if (!b)
        return;
    for (size_t i = 0; b->shares && i < 3 * (size_t)b->coll->nranks; i++)
        free(b->shares[i]);
    ccl_collective_destroy(b->coll);
    ccl_i_groups_fini(&b->groups);
    free(b->shares);
    free(b->buffer_len);
    free(b->rank_tbs);
    free(b->steps);
    free(b->runs);
    free(b->peers);
    free(b->tbs);
    free(b->proto);
    free(b->name);
    free(b);
}

void ccl_program_builder_place(ccl_program_builder_t *b, bool in_place, bool out_of_place,
                               double min_bytes, double max_bytes) {
    b->in_place = in_place;
    b->out_of_place = out_of_place;
    b->min_bytes = min_bytes;
    b->max_bytes = max_bytes;
}

void ccl_program_builder_buffer(ccl_program_builder_t *b, uint32_t rank, ccl_buffer_t buffer,
                                uint32_t len) {
    if (rank >= b->coll->nranks || (unsigned)buffer > CCL_BUF_SCRATCH) {
        b->bad_rank = true;
        return;
    }
    b->buffer_len[3 * rank + buffer] = len;
}

void ccl_program_builder_shares(ccl_program_builder_t *b, uint32_t rank, ccl_buffer_t buffer,
                                const double *shares) {
    if (rank >= b->coll->nranks || (unsigned)buffer > CCL_BUF_SCRATCH) {
        b->bad_rank = true;
        return;
    }
    size_t len = b->buffer_len[3 * rank + buffer];
    double *copy = malloc((len ? len : 1) * sizeof *copy);
    if (!copy) {
        b->nomem = true;
        return;
    }
    if (len)
        memcpy(copy, shares, len * sizeof *copy);
    free(b->shares[3 * rank + buffer]);
    b->shares[3 * rank + buffer] = copy;
    b->any_shares = true;
}

void ccl_i_program_builder_keep_file_steps(ccl_program_builder_t *b, const ccl_step_mark_t *marks) {
    b->marks = marks;
}

void ccl_i_program_builder_channels(ccl_program_builder_t *b, uint32_t nchannels) {
    b->nchannels = nchannels > b->nchannels ? nchannels : b->nchannels;
}

void ccl_program_builder_reserve(ccl_program_builder_t *b, size_t ntbs, size_t nsteps) {
    if (!ccl_grow(&b->tbs, &b->tbs_cap, ntbs, sizeof *b->tbs))
        b->nomem = true;
    if (b->nomem || nsteps <= b->steps_cap || nsteps > CCL_I_MAX_TRANSFERS)
        return;
    ccl_step_t *steps = realloc(b->steps, nsteps * sizeof *steps); /* no more than it takes */
    ccl_memory_large(steps, nsteps * sizeof *steps);
    b->nomem = !steps;
    b->steps = steps ? steps : b->steps;
    b->steps_cap = steps ? nsteps : b->steps_cap;
}

uint32_t ccl_program_builder_group(ccl_program_builder_t *b, const uint32_t *ranks, uint32_t n) {
    uint32_t peer = ccl_i_groups_add(&b->groups, ranks, n);
    b->nomem = b->nomem || peer == CCL_NONE;
    return peer;
}

uint32_t ccl_program_builder_tb(ccl_program_builder_t *b, uint32_t rank, uint32_t send_peer,
                                uint32_t recv_peer, uint32_t channel) {
    if (rank >= b->coll->nranks) {
        b->bad_rank = true;
        return CCL_NONE;
    }
    if (b->nomem || b->ntbs > CCL_I_MAX_TRANSFERS)
        return CCL_NONE;
    if (b->ntbs == b->tbs_cap && !ccl_grow(&b->tbs, &b->tbs_cap, b->ntbs + 1, sizeof *b->tbs)) {
        b->nomem = true;
        return CCL_NONE;
    }
    b->tbs[b->ntbs] = (ccl_tb_t){.rank = rank,
                                 .id = b->rank_tbs[rank]++,
                                 .send_peer = send_peer,
                                 .recv_peer = recv_peer,
                                 .channel = channel};
    return (uint32_t)b->ntbs++;
}

uint32_t ccl_program_builder_step(ccl_program_builder_t *b, uint32_t tb, ccl_step_t step) {
    if (b->nomem || tb >= b->ntbs || b->nsteps > CCL_I_MAX_TRANSFERS) {
        b->bad_rank = b->bad_rank || (!b->nomem && tb >= b->ntbs);
        return CCL_NONE;
    }
    if (b->nsteps == b->steps_cap &&
        !ccl_grow_raw(&b->steps, &b->steps_cap, b->nsteps + 1, sizeof *b->steps)) {
        b->nomem = true;
        return CCL_NONE;
    }
    bool same = b->nruns > 0 && b->runs[b->nruns - 1].tb == tb;
    if (!same && !ccl_grow(&b->runs, &b->runs_cap, b->nruns + 1, sizeof *b->runs)) {
        b->nomem = true;
        return CCL_NONE;
    }
    const ccl_tb_t *block = &b->tbs[tb];
    if (b->peers) {
        if (!ccl_grow(&b->peers, &b->peers_cap, b->nsteps + 1, sizeof *b->peers)) {
            b->nomem = true;
            return CCL_NONE;
        }
        b->peers[b->nsteps] = (ccl_peers_t){block->send_peer, block->recv_peer, block->channel};
    }
    if (!same)
        b->runs[b->nruns++] = (builder_run_t){tb, 0};
    b->runs[b->nruns - 1].nsteps++;
    b->steps[b->nsteps++] = step;
    return b->tbs[tb].nsteps++;
}

uint32_t ccl_program_builder_step_peers(ccl_program_builder_t *b, uint32_t tb, ccl_step_t step,
                                        ccl_peers_t peers) {
    if (!b->peers) { /* what came before has its block's */
        if (!ccl_grow(&b->peers, &b->peers_cap, b->nsteps + 1, sizeof *b->peers)) {
            b->nomem = true;
            return CCL_NONE;
        }
        for (size_t k = 0, i = 0; k < b->nruns; k++) {
            const ccl_tb_t *of = &b->tbs[b->runs[k].tb];
            for (size_t end = i + b->runs[k].nsteps; i < end; i++)
                b->peers[i] = (ccl_peers_t){of->send_peer, of->recv_peer, of->channel};
        }
    }
    uint32_t index = ccl_program_builder_step(b, tb, step);
    if (index != CCL_NONE)
        b->peers[b->nsteps - 1] = peers;
    return index;
}

/* ---------------------------------------------------------------- finish */

static bool known_peer(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t peer) {
    if (ccl_peer_is_group(peer))
        return (peer & ~CCL_PEER_GROUP) < p->ngroups;
    if (ccl_peer_is_member(peer))
        return ccl_peer_rank(peer) < p->nranks;
    return peer == CCL_NONE || (peer < p->nranks && peer != tb->rank);
}

static ccl_status_t check_peers(const ccl_program_t *p, const ccl_tb_t *tb, ccl_peers_t peers,
                                ccl_error_t *err) {
    const char *what = NULL;
    uint32_t peer = 0;
    if (!known_peer(p, tb, peers.send_peer))
        what = "sends to", peer = peers.send_peer;
    if (!known_peer(p, tb, peers.recv_peer))
        what = "receives from", peer = peers.recv_peer;
    if (what)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u block %u %s rank %u: another of the %u ranks, or -1, is needed",
                        tb->rank, tb->id, what, peer, p->nranks);
    if (peers.channel >= CCL_I_MAX_CHANNELS)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u has channel %u: at most %u", tb->rank,
                        tb->id, peers.channel, CCL_I_MAX_CHANNELS - 1);
    return CCL_OK;
}

static ccl_status_t check_step(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t index,
                               ccl_error_t *err) {
    const ccl_step_t *s = &p->steps[tb->first_step + index];
    ccl_step_mark_t mark = ccl_program_mark(p, tb, tb->first_step + index);
    int line = mark.line <= INT32_MAX ? (int)mark.line : 0;
    const char *where = line ? p->name : NULL;
    if (s->type > CCL_PRIM_NOP || s->src_buf > CCL_BUF_SCRATCH || s->dst_buf > CCL_BUF_SCRATCH)
        return ccl_error_set(err, CCL_ERR_INPUT, where, line, 0,
                             "rank %u block %u step %u has an unknown type or buffer", tb->rank,
                             tb->id, index);
    if ((uint64_t)s->src_off + s->count > INT32_MAX || (uint64_t)s->dst_off + s->count > INT32_MAX)
        return ccl_error_set(err, CCL_ERR_INPUT, where, line, 0,
                             "rank %u block %u step %u: offset or count is beyond 2^31", tb->rank,
                             tb->id, index);
    ccl_peers_t peers = ccl_program_peers(p, tb, tb->first_step + index);
    if (p->peers && tb->send_peer == CCL_NONE && tb->recv_peer == CCL_NONE)
        CCL_TRY(check_peers(p, tb, peers, err));
    if (ccl_primitive_sends(s->type) && peers.send_peer == CCL_NONE)
        return ccl_error_set(err, CCL_ERR_INPUT, where, line, 0,
                             "rank %u block %u step %u (%s) sends, but the block has no peer to "
                             "send to",
                             tb->rank, tb->id, index, ccl_primitive_name(s->type));
    if (ccl_primitive_receives(s->type) && peers.recv_peer == CCL_NONE)
        return ccl_error_set(err, CCL_ERR_INPUT, where, line, 0,
                             "rank %u block %u step %u (%s) receives, but the block has no peer "
                             "to receive from",
                             tb->rank, tb->id, index, ccl_primitive_name(s->type));
    if (s->dep_tb == CCL_NONE && s->dep_step == CCL_NONE)
        return CCL_OK;
    uint32_t ntbs = p->rank_first_tb[tb->rank + 1] - p->rank_first_tb[tb->rank];
    if (s->dep_tb >= ntbs)
        return ccl_error_set(err, CCL_ERR_INPUT, where, line, 0,
                             "rank %u block %u step %u waits for block %d of %u blocks", tb->rank,
                             tb->id, index, (int)s->dep_tb, ntbs);
    const ccl_tb_t *on = &p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb];
    if (s->dep_step >= on->nsteps)
        return ccl_error_set(err, CCL_ERR_INPUT, where, line, 0,
                             "rank %u block %u step %u waits for step %d of block %u, which has %u "
                             "steps",
                             tb->rank, tb->id, index, (int)s->dep_step, s->dep_tb, on->nsteps);
    return CCL_OK;
}

static ccl_status_t check_program(const ccl_program_t *p, ccl_error_t *err) {
    CCL_TRY(ccl_i_groups_check(p->groups, p->ngroups, p->nranks, err));
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        CCL_TRY(check_peers(p, tb, (ccl_peers_t){tb->send_peer, tb->recv_peer, tb->channel}, err));
        for (uint32_t i = 0; i < tb->nsteps; i++)
            CCL_TRY(check_step(p, tb, i, err));
    }
    return CCL_OK;
}

/** Did all steps come in the order of the program's blocks? `next`: as below. */
static bool in_order(const ccl_program_builder_t *b, const uint32_t *next) {
    size_t at = 0;
    for (size_t k = 0; k < b->nruns; k++) {
        if (next[b->runs[k].tb] != at || b->tbs[b->runs[k].tb].nsteps != b->runs[k].nsteps)
            return false;
        at += b->runs[k].nsteps;
    }
    return true;
}

/** Steps and their connections where their blocks have them. `next`: [ntbs] by handle, where its
    next step goes. */
static bool place_steps(ccl_program_builder_t *b, uint32_t *next, ccl_program_t *p) {
    size_t n = b->nsteps ? b->nsteps : 1, i = 0;
    bool ordered = b->nsteps > 0 && in_order(b, next);
    ccl_peers_t *peers = b->peers ? ccl_arena_alloc(&p->arena, n, sizeof *peers) : NULL;
    ccl_step_mark_t *marks = b->marks ? ccl_arena_alloc(&p->arena, n, sizeof *marks) : NULL;
    if (ordered) {
        p->steps = p->own_steps = realloc(b->steps, n * sizeof *b->steps);
        b->steps = p->steps ? NULL : b->steps;
    } else {
        p->steps = ccl_arena_alloc(&p->arena, n, sizeof *p->steps);
    }
    if (!p->steps || (b->peers && !peers) || (b->marks && !marks))
        return false;
    for (size_t k = 0; k < b->nruns; k++) {
        uint32_t *to = &next[b->runs[k].tb], len = b->runs[k].nsteps;
        if (!ordered)
            memcpy(p->steps + *to, b->steps + i, len * sizeof *p->steps);
        if (peers)
            memcpy(peers + *to, b->peers + i, len * sizeof *peers);
        if (marks)
            memcpy(marks + *to, b->marks + i, len * sizeof *marks);
        *to += len;
        i += len;
    }
    p->peers = peers;
    p->marks = marks;
    p->nsteps = (uint32_t)b->nsteps;
    return true;
}

/** Blocks by rank, then id, and their steps one after the other. */
static bool place_blocks(ccl_program_builder_t *b, ccl_program_t *p) {
    size_t ntbs = b->ntbs;
    p->tbs = ccl_arena_alloc(&p->arena, ntbs ? ntbs : 1, sizeof *p->tbs);
    p->rank_first_tb = ccl_arena_alloc(&p->arena, p->nranks + (size_t)1, sizeof(uint32_t));
    uint32_t *next = malloc((ntbs ? ntbs : 1) * sizeof *next); /* by handle */
    if (!p->tbs || !p->rank_first_tb || !next) {
        free(next);
        return false;
    }
    for (uint32_t r = 0; r < p->nranks; r++)
        p->rank_first_tb[r + 1] = p->rank_first_tb[r] + b->rank_tbs[r];
    for (size_t h = 0; h < ntbs; h++)
        p->tbs[p->rank_first_tb[b->tbs[h].rank] + b->tbs[h].id] = b->tbs[h];
    uint32_t first = 0;
    for (size_t t = 0; t < ntbs; t++) {
        p->tbs[t].first_step = first;
        first += p->tbs[t].nsteps;
    }
    for (size_t h = 0; h < ntbs; h++)
        next[h] = p->tbs[p->rank_first_tb[b->tbs[h].rank] + b->tbs[h].id].first_step;
    p->ntbs = (uint32_t)ntbs;
    bool placed = place_steps(b, next, p);
    free(next);
    return placed;
}

static void derive_step_fields(ccl_program_t *p) {
    for (uint32_t i = 0; i < p->nsteps; i++)
        p->steps[i].has_dep = 0;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        for (uint32_t i = 0; i < tb->nsteps; i++) {
            const ccl_step_t *s = &p->steps[tb->first_step + i];
            if (s->dep_tb != CCL_NONE) {
                const ccl_tb_t *on = &p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb];
                p->steps[on->first_step + s->dep_step].has_dep = 1;
            }
        }
    }
}

/** Length of a buffer that is laid out as a custom collective's demand; 0: there is none. */
static uint32_t demand_len(const ccl_collective_t *coll, uint32_t rank, ccl_buffer_t buffer) {
    if (coll->kind != CCL_CUSTOM || buffer == CCL_BUF_SCRATCH)
        return 0;
    return buffer == CCL_BUF_INPUT ? ccl_collective_input_len(coll, rank)
                                   : ccl_collective_output_len(coll, rank);
}

/** Given shares, or for a custom collective those of its demand where none are given. */
static ccl_status_t place_shares(const ccl_program_builder_t *b, ccl_program_t *p,
                                 ccl_error_t *err) {
    static const char *const buffer_names[] = {"input", "output", "scratch"};
    if (!b->any_shares && b->coll->kind != CCL_CUSTOM)
        return CCL_OK;
    size_t nbuffers = 3 * (size_t)p->nranks;
    const double **shares = ccl_arena_alloc(&p->arena, nbuffers, sizeof *shares);
    if (!shares)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < nbuffers; i++) {
        uint32_t len = p->buffer_len[i], rank = (uint32_t)(i / 3);
        ccl_buffer_t buffer = (ccl_buffer_t)(i % 3);
        bool given = b->shares[i] != NULL;
        if (!given && len && len != demand_len(b->coll, rank, buffer))
            return ccl_fail(err, CCL_ERR_INPUT,
                            "rank %u: the sizes of the %u elements of its %s "
                            "buffer are missing",
                            rank, len, buffer_names[buffer]);
        double *copy = ccl_arena_alloc(&p->arena, len ? len : 1, sizeof *copy);
        if (!copy)
            return ccl_fail_nomem(err);
        shares[i] = copy;
        if (given && len)
            memcpy(copy, b->shares[i], len * sizeof *copy);
        else if (len)
            ccl_i_collective_shares(b->coll, rank, buffer, copy, len);
        for (uint32_t k = 0; k < len; k++) {
            if (!(copy[k] >= 0) || !isfinite(copy[k]))
                return ccl_fail(err, CCL_ERR_INPUT,
                                "rank %u: element %u of its %s buffer has the share %g: 0 or more "
                                "is needed",
                                rank, k, buffer_names[buffer], copy[k]);
        }
    }
    p->shares = (const double *const *)shares;
    return CCL_OK;
}

/* What no program can be, whatever its steps are. */
static ccl_status_t check_built(const ccl_program_builder_t *b, ccl_error_t *err) {
    if (b->bad_rank)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the program has a block, buffer or step of a rank or block that does "
                        "not exist");
    if (b->nsteps > CCL_I_MAX_TRANSFERS || b->ntbs > CCL_I_MAX_TRANSFERS)
        return ccl_fail(err, CCL_ERR_INPUT, "too many steps or blocks: at most %u",
                        CCL_I_MAX_TRANSFERS);
    if (b->nchunks < 1)
        return ccl_fail(err, CCL_ERR_INPUT, "the program has 0 chunks: at least 1 is needed");
    if (strcmp(b->proto, "Simple") != 0 && strcmp(b->proto, "LL") != 0 &&
        strcmp(b->proto, "LL128") != 0)
        return ccl_fail(err, CCL_ERR_INPUT, "protocol '%.40s': Simple, LL or LL128 is needed",
                        b->proto);
    return CCL_OK;
}

/* As many as its blocks and steps use, or more where the builder was given a number. */
static void count_channels(ccl_program_t *p, uint32_t given) {
    p->nchannels = given ? given : 1;
    for (uint32_t t = 0; t < p->ntbs; t++)
        p->nchannels = p->tbs[t].channel >= p->nchannels ? p->tbs[t].channel + 1 : p->nchannels;
    for (uint32_t i = 0; p->peers && i < p->nsteps; i++)
        p->nchannels = p->peers[i].channel >= p->nchannels ? p->peers[i].channel + 1 : p->nchannels;
}

ccl_status_t ccl_program_builder_finish(ccl_program_builder_t *b, ccl_program_t **out,
                                        ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    ccl_program_t *p = NULL;
    uint32_t n = b->coll->nranks;
    if (b->nomem)
        goto nomem;
    CCL_TRY_GOTO(check_built(b, err), status, end);
    p = calloc(1, sizeof *p);
    if (!p)
        goto nomem;
    ccl_arena_init(&p->arena);
    p->name = ccl_arena_strdup(&p->arena, b->name);
    p->proto = ccl_arena_strdup(&p->arena, b->proto);
    p->nranks = n;
    p->nchunks = b->nchunks;
    p->in_place = b->in_place;
    p->out_of_place = b->out_of_place;
    p->min_bytes = b->min_bytes;
    p->max_bytes = b->max_bytes;
    p->buffer_len = ccl_arena_alloc(&p->arena, 3 * (size_t)n, sizeof *p->buffer_len);
    if (!p->name || !p->proto || !p->buffer_len || !place_blocks(b, p) ||
        !ccl_i_groups_place(&b->groups, &p->arena, &p->groups, &p->ngroups))
        goto nomem;
    memcpy(p->buffer_len, b->buffer_len, 3 * (size_t)n * sizeof *p->buffer_len);
    CCL_TRY_GOTO(place_shares(b, p, err), status, end);
    CCL_TRY_GOTO(check_program(p, err), status, end);
    count_channels(p, b->nchannels);
    if (!b->marks)
        derive_step_fields(p);
    p->coll = b->coll;
    b->coll = NULL;
    *out = p;
    p = NULL;
    goto end;
nomem:
    status = ccl_fail_nomem(err);
end:
    ccl_program_destroy(p);
    if (!b->coll) { /* moved: the builder's arrays are still sized by it */
        for (size_t i = 0; i < 3 * (size_t)n; i++)
            free(b->shares[i]);
        free(b->shares);
        b->shares = NULL;
    }
    ccl_program_builder_destroy(b);
    return status;
}

void ccl_program_destroy(ccl_program_t *program) {
    if (!program)
        return;
    ccl_collective_destroy(program->coll);
    ccl_arena_fini(&program->arena);
    free(program->own_steps);
    free(program);
}

/* ---------------------------------------------------------------- equality */

static bool shares_equal(const ccl_program_t *a, const ccl_program_t *b) {
    if (!a->shares || !b->shares)
        return !a->shares && !b->shares;
    for (size_t i = 0; i < 3 * (size_t)a->nranks; i++) {
        for (uint32_t k = 0; k < a->buffer_len[i]; k++) {
            double x = a->shares[i][k], y = b->shares[i][k];
            if (fabs(x - y) > 1e-12 * fmax(fabs(x), fabs(y)))
                return false;
        }
    }
    return true;
}

static bool steps_equal(const ccl_step_t *x, const ccl_step_t *y) {
    return x->src_off == y->src_off && x->dst_off == y->dst_off && x->count == y->count &&
           x->dep_tb == y->dep_tb && x->dep_step == y->dep_step && x->stage == y->stage &&
           x->type == y->type && x->src_buf == y->src_buf && x->dst_buf == y->dst_buf &&
           x->has_dep == y->has_dep;
}

/** Numbers of steps, and the peers of those that send or receive. */
static bool marks_equal(const ccl_program_t *a, const ccl_program_t *b) {
    if (!a->peers && !b->peers && !a->marks && !b->marks)
        return true;
    for (uint32_t t = 0; t < a->ntbs; t++) {
        const ccl_tb_t *x = &a->tbs[t], *y = &b->tbs[t];
        for (uint32_t i = 0; i < x->nsteps; i++) {
            if (ccl_program_mark(a, x, x->first_step + i).s !=
                ccl_program_mark(b, y, y->first_step + i).s)
                return false;
            ccl_peers_t p = ccl_program_peers(a, x, x->first_step + i);
            ccl_peers_t q = ccl_program_peers(b, y, y->first_step + i);
            uint8_t type = a->steps[x->first_step + i].type;
            bool sends = ccl_primitive_sends(type), receives = ccl_primitive_receives(type);
            if ((sends && p.send_peer != q.send_peer) || (receives && p.recv_peer != q.recv_peer) ||
                ((sends || receives) && p.channel != q.channel))
                return false;
        }
    }
    return true;
}

bool ccl_program_equal(const ccl_program_t *a, const ccl_program_t *b) {
    if (strcmp(a->name, b->name) != 0 || strcmp(a->proto, b->proto) != 0 ||
        a->nranks != b->nranks || a->nchunks != b->nchunks || a->nchannels != b->nchannels ||
        a->ntbs != b->ntbs || a->nsteps != b->nsteps || a->in_place != b->in_place ||
        a->out_of_place != b->out_of_place || a->min_bytes != b->min_bytes ||
        a->max_bytes != b->max_bytes || a->piece_bytes != b->piece_bytes ||
        !ccl_collective_equal(a->coll, b->coll) ||
        !ccl_i_groups_equal(a->groups, a->ngroups, b->groups, b->ngroups))
        return false;
    if (memcmp(a->buffer_len, b->buffer_len, 3 * (size_t)a->nranks * sizeof *a->buffer_len) != 0)
        return false;
    for (uint32_t t = 0; t < a->ntbs; t++) {
        const ccl_tb_t *x = &a->tbs[t], *y = &b->tbs[t];
        if (x->rank != y->rank || x->id != y->id || x->send_peer != y->send_peer ||
            x->recv_peer != y->recv_peer || x->channel != y->channel || x->nsteps != y->nsteps)
            return false;
    }
    for (uint32_t i = 0; i < a->nsteps; i++) {
        if (!steps_equal(&a->steps[i], &b->steps[i]))
            return false;
    }
    if (!marks_equal(a, b))
        return false;
    return shares_equal(a, b);
}
