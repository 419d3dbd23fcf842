/*
 * Runs the thread blocks of stand-alone sources on threads of the host: included behind their text,
 * in the place of what starts them on a GPU. Every rank has a region, buffers with guards around
 * them, and calls one after the other with what the last one left in the FIFOs' counters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct host_entry {
    const ccl_sa_program_t *program;
    void (*block)(const ccl_sa_run_t *run, const ccl_gpu_block_t *b, uint32_t index);
    uint32_t protocol, slots, slice_bytes;
} host_entry_t;

typedef struct host_call {
    uint64_t count;
    uint32_t type, op;
    uint32_t in_place; /* as nccl-tests: one of the two buffers lies in the other */
    uint32_t odd;      /* items that buffers are shifted by */
    uint32_t lanes;    /* threads of a block */
    uint32_t counted;
} host_call_t;

enum { HOST_GUARD = 64, HOST_PATIENCE = 30000 /* ms without progress */ };

typedef struct host_rank {
    ccl_sa_run_t run;
    char *region, *in, *out, *work, *scratch, *in_raw, *out_raw, *expected;
    uint64_t *done, base;
    uint64_t in_bytes, out_bytes;
} host_rank_t;

typedef struct host_lane {
    const host_entry_t *entry;
    host_rank_t *rank;
    ccl_gpu_shared_t *shared;
    fake_barrier_t *barrier;
    char *tiles;
    uint32_t index, lane, lanes, *ended;
    pthread_t thread;
} host_lane_t;

static void *host_lane_main(void *user) {
    host_lane_t *l = (host_lane_t *)user;
    ccl_gpu_block_t b = {l->shared, l->lane, l->lanes, l->barrier, l->tiles};
    l->entry->block(&l->rank->run, &b, l->index);
    __atomic_fetch_add(l->ended, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static char *host_guarded(uint64_t bytes, uint64_t shift, char **raw) {
    *raw = (char *)aligned_alloc(16, (bytes + 2 * HOST_GUARD + shift + 15) / 16 * 16);
    if (!*raw)
        abort();
    memset(*raw, 0xa5, bytes + 2 * HOST_GUARD + shift);
    return *raw + HOST_GUARD + shift;
}

static int host_guards_kept(const char *at, uint64_t bytes) {
    for (int i = 1; i <= HOST_GUARD; i++)
        if ((unsigned char)at[-i] != 0xa5 || (unsigned char)at[bytes + (uint64_t)i - 1] != 0xa5)
            return 0;
    return 1;
}

/** Copies of shards that the host does around a kernel. */
static void host_copy(char *to, uint64_t to_shard, const char *from, uint64_t from_shard,
                      uint64_t bytes, uint32_t shards) {
    for (uint32_t s = 0; s < shards; s++)
        memcpy(to + s * to_shard, from + s * from_shard, bytes);
}

static void host_rank_begin(const host_entry_t *e, host_rank_t *r, uint32_t rank,
                            const host_call_t *c, char *const *bases) {
    const ccl_sa_program_t *p = e->program;
    ccl_sa_shards_t s = ccl_sa_shards(p, rank);
    uint64_t size = ccl_sa_type_bytes(c->type), shard = c->count * size, shift = c->odd * size;
    memset(&r->run, 0, sizeof r->run);
    r->run.bases = bases;
    r->run.done = r->done;
    r->run.base = r->base;
    r->run.counted = c->counted;
    ccl_sa_shape(p, rank, c->count, c->type, c->op, &r->run);
    r->in_bytes = s.in * shard;
    r->out_bytes = s.out * shard;
    if (c->in_place && s.in && s.out) {
        r->in = host_guarded(s.both * shard, shift, &r->in_raw);
        r->out_raw = NULL;
        r->out = r->in + s.out_first * shard;
        r->in += s.in_first * shard;
    } else {
        r->in = host_guarded(r->in_bytes, shift, &r->in_raw);
        r->out = host_guarded(r->out_bytes, shift, &r->out_raw);
    }
    ccl_sa_fill(p, c->type, rank, c->count, r->in);
    r->expected = (char *)malloc(r->in_bytes + 1);
    memcpy(r->expected, r->in, r->in_bytes);
    ccl_sa_place_t at = ccl_sa_place(p, &r->run, r->in, r->out, NULL);
    r->work = (char *)aligned_alloc(256, (at.work_bytes + 512) / 256 * 256);
    at = ccl_sa_place(p, &r->run, r->in, r->out, r->work);
    r->scratch = (char *)aligned_alloc(256, (ccl_sa_scratch_bytes(p, &r->run) + 512) / 256 * 256);
    ccl_sa_buffers(&at, r->scratch, &r->run);
    if (at.copies_in)
        host_copy(ccl_sa_in_at(p, &r->run, &at), r->run.stride * size, r->in, shard, shard, s.in);
}

/** 0: the data are right. */
static int host_rank_end(const host_entry_t *e, host_rank_t *r, uint32_t rank, const host_call_t *c,
                         char *why, size_t len) {
    const ccl_sa_program_t *p = e->program;
    ccl_sa_shards_t s = ccl_sa_shards(p, rank);
    uint64_t size = ccl_sa_type_bytes(c->type), shard = c->count * size;
    ccl_sa_place_t at = ccl_sa_place(p, &r->run, r->in, r->out, r->work);
    int kept, apart = r->out_raw != NULL;
    if (at.copies_out)
        host_copy(r->out, shard, ccl_sa_out_at(p, &r->run, &at), r->run.stride * size, shard,
                  s.out);
    uint64_t wrong = ccl_sa_wrong(p, c->type, c->op, rank, c->count, r->out);
    kept = apart ? host_guards_kept(r->in, r->in_bytes) && host_guards_kept(r->out, r->out_bytes) &&
                       memcmp(r->in, r->expected, r->in_bytes) == 0
                 : host_guards_kept(r->in - s.in_first * shard, s.both * shard);
    r->base += r->run.batches;
    if (wrong || !kept)
        snprintf(why, len, "rank %u: %llu items are wrong%s", rank, (unsigned long long)wrong,
                 kept ? "" : ", and memory beside the output was written");
    free(r->in_raw);
    free(r->out_raw);
    free(r->work);
    free(r->scratch);
    free(r->expected);
    return wrong || !kept;
}

/** Starts all blocks of all ranks and waits for them; 0, or 1: they stand still. */
static int host_blocks(const host_entry_t *e, host_rank_t *ranks, uint32_t lanes) {
    const ccl_sa_program_t *p = e->program;
    uint32_t units = p->first_unit[p->nranks], n = units * lanes, ended = 0, stop = 0, quiet = 0;
    uint64_t progress = 0, seen = 0;
    size_t tile = (size_t)CCL_GPU_TILES * CCL_GPU_TILE_BYTES;
    host_lane_t *all = (host_lane_t *)calloc(n + 1, sizeof *all);
    ccl_gpu_shared_t *shared = (ccl_gpu_shared_t *)calloc(units + 1, sizeof *shared);
    fake_barrier_t *barriers = (fake_barrier_t *)calloc(units + 1, sizeof *barriers);
    char *tiles = (char *)aligned_alloc(16, (units + 1) * tile);
    for (uint32_t r = 0, i = 0; r < p->nranks; r++) {
        ranks[r].run.gpu.host_stop = &stop;
        ranks[r].run.gpu.host_progress = &progress;
        for (uint32_t u = 0; u < ranks[r].run.nunits; u++) {
            uint32_t unit = p->first_unit[r] + u;
            pthread_barrier_init(&barriers[unit].barrier, NULL, lanes);
            for (uint32_t k = 0; k < lanes; k++, i++) {
                host_lane_t l = {e, &ranks[r], &shared[unit], &barriers[unit], tiles + unit * tile,
                                 u, k,         lanes,         &ended,          0};
                all[i] = l;
                if (pthread_create(&all[i].thread, NULL, host_lane_main, &all[i]))
                    abort();
            }
        }
    }
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < n) {
        uint64_t now = __atomic_load_n(&progress, __ATOMIC_ACQUIRE);
        quiet = now == seen ? quiet + 1 : 0;
        seen = now;
        if (quiet > HOST_PATIENCE / (host_hurry ? 60 : 1))
            __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
        usleep(quiet < 20 ? 100 : 1000);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(all[i].thread, NULL);
    for (uint32_t u = 0; u < units; u++)
        pthread_barrier_destroy(&barriers[u].barrier);
    free(all);
    free(shared);
    free(barriers);
    free(tiles);
    return stop != 0;
}

/** Program `index` of this text, calls one after the other. @return 0: all data are right. */
__attribute__((visibility("default"))) int host_run(uint32_t index, const host_call_t *calls,
                                                    uint32_t ncalls, char *why, size_t len) {
    const host_entry_t *e = &host_entries[index];
    const ccl_sa_program_t *p = e->program;
    host_rank_t *ranks = (host_rank_t *)calloc(p->nranks, sizeof *ranks);
    char **bases = (char **)calloc(p->nranks, sizeof *bases);
    int failed = 0;
    host_protocol = e->protocol;
    host_slots = e->slots;
    host_slice_bytes = e->slice_bytes;
    for (uint32_t r = 0; r < p->nranks; r++) {
        bases[r] = (char *)aligned_alloc(256, (p->region[r] + 511) / 256 * 256);
        memset(bases[r], 0, p->region[r] + 256);
        ranks[r].done = (uint64_t *)calloc(p->marks[r] + 1, 8);
    }
    for (uint32_t k = 0; k < ncalls && !failed; k++) {
        for (uint32_t r = 0; r < p->nranks; r++)
            host_rank_begin(e, &ranks[r], r, &calls[k], bases);
        failed = host_blocks(e, ranks, calls[k].lanes);
        if (failed)
            snprintf(why, len, "call %u: its blocks stand still", k);
        for (uint32_t r = 0; r < p->nranks; r++)
            failed += host_rank_end(e, &ranks[r], r, &calls[k], why, failed ? 0 : len);
    }
    for (uint32_t r = 0; r < p->nranks; r++) {
        free(bases[r]);
        free(ranks[r].done);
    }
    free(bases);
    free(ranks);
    return failed;
}
