/**
 * @file shape.h
 * How a stand-alone kernel lays out a call, on the host: items of elements, micro-batches, buffers.
 * Follows block.h in the text of a kernel; valid C and C++.
 */
#ifndef CCL_RUNTIME_STANDALONE_SHAPE_H
#define CCL_RUNTIME_STANDALONE_SHAPE_H

#if defined(__GNUC__)
#define CCL_SA_HOST __attribute__((unused)) static
#else
#define CCL_SA_HOST static
#endif

/** Numbers of ccl_collective_kind_t. */
enum {
    CCL_SA_ALLREDUCE,
    CCL_SA_ALLGATHER,
    CCL_SA_REDUCESCATTER,
    CCL_SA_ALLTOALL,
    CCL_SA_BROADCAST,
    CCL_SA_REDUCE,
    CCL_SA_GATHER,
    CCL_SA_SCATTER,
    CCL_SA_SENDRECV
};

/** What a kernel is of. */
typedef struct ccl_sa_program {
    uint32_t kind, nranks, root;
    uint32_t parts;             /* elements of a shard; a shard has the `count` items of a call */
    uint32_t in_place;          /* 1: input and output are one memory, as in nccl-tests */
    uint32_t whole;             /* 1: elements must be of one size, so that odd counts are padded */
    const uint32_t *first_unit; /* [nranks + 1] */
    const uint32_t *marks;      /* [nranks] steps that others wait for */
    const uint32_t *scratch;    /* [nranks] elements */
    const uint8_t *writes_input; /* [nranks] 1: in place it writes what its caller only reads */
    const uint64_t *region;      /* [nranks] bytes */
    const uint32_t *signals;     /* [nranks] ends of connections */
} ccl_sa_program_t;

/** Shards of a rank's input and output, and at which shard of the memory of both each begins. */
typedef struct ccl_sa_shards {
    uint32_t in, out, in_first, out_first, both;
} ccl_sa_shards_t;

CCL_SA_HOST ccl_sa_shards_t ccl_sa_shards(const ccl_sa_program_t *p, uint32_t rank) {
    ccl_sa_shards_t s = {1, 1, 0, 0, 1};
    uint32_t n = p->nranks, here = rank == p->root;
    if (p->kind == CCL_SA_ALLGATHER || p->kind == CCL_SA_GATHER || p->kind == CCL_SA_ALLTOALL)
        s.out = n;
    if (p->kind == CCL_SA_REDUCESCATTER || p->kind == CCL_SA_SCATTER || p->kind == CCL_SA_ALLTOALL)
        s.in = n;
    if ((p->kind == CCL_SA_GATHER || p->kind == CCL_SA_REDUCE) && !here)
        s.out = 0;
    if ((p->kind == CCL_SA_SCATTER || p->kind == CCL_SA_BROADCAST) && !here)
        s.in = 0;
    if (p->kind == CCL_SA_ALLGATHER || (p->kind == CCL_SA_GATHER && here))
        s.in_first = rank;
    if (p->kind == CCL_SA_REDUCESCATTER || (p->kind == CCL_SA_SCATTER && here))
        s.out_first = rank;
    s.both = s.in_first + s.in > s.out_first + s.out ? s.in_first + s.in : s.out_first + s.out;
    return s;
}

CCL_SA_HOST uint32_t ccl_sa_type_bytes(uint32_t type) {
    return type <= CCL_GPU_FP32 ? 4 : 2;
}

/** Reductions of the program's collective depend on the operation. */
CCL_SA_HOST int ccl_sa_reduces(const ccl_sa_program_t *p) {
    return p->kind == CCL_SA_ALLREDUCE || p->kind == CCL_SA_REDUCESCATTER ||
           p->kind == CCL_SA_REDUCE;
}

/** Items of an element: whole 16 bytes, so that elements begin where 16 bytes do. */
CCL_SA_HOST uint64_t ccl_sa_element_items(const ccl_sa_program_t *p, uint64_t count,
                                          uint32_t item_bytes) {
    uint64_t unit = 16 / item_bytes, n = (count + p->parts - 1) / p->parts;
    return (n + unit - 1) / unit * unit;
}

/**
 * A call of `count` items a shard: fills rank, count, stride, items, batches and what follows from
 * type and reduction. A program that must pad has its shards `parts` whole elements apart.
 */
CCL_SA_HOST void ccl_sa_shape(const ccl_sa_program_t *p, uint32_t rank, uint64_t count,
                              uint32_t type, uint32_t op, ccl_sa_run_t *run) {
    uint32_t size = ccl_sa_type_bytes(type);
    uint64_t half = (uint64_t)CCL_SA_SLOTS * CCL_SA_SLICE_BYTES / 2, unit = 16 / size;
    half = half ? half : 1;
    run->gpu.type = type;
    run->gpu.op = op;
    run->gpu.item_bytes = size;
    run->gpu.protocol = CCL_SA_PROTOCOL;
    run->parts = p->parts;
    run->rank = rank;
    run->first_unit = p->first_unit[rank];
    run->nunits = p->first_unit[rank + 1] - p->first_unit[rank];
    run->items = ccl_sa_element_items(p, count, size);
    run->given = count;
    run->count = p->whole ? run->items * p->parts : count;
    run->stride = run->count;
    /* As few micro-batches as leave a chunk in half of the FIFO. */
    run->batches = (uint32_t)((run->items * size + half - 1) / half);
    run->batches = run->batches ? run->batches : 1;
    run->batch_items = (run->items + run->batches - 1) / run->batches;
    run->batch_items = (run->batch_items + unit - 1) / unit * unit;
}

/** Where a call's data are when its kernel begins. */
typedef struct ccl_sa_place {
    char *in, *out;      /* where the kernel has them; in place that of both */
    int copies_in;       /* 1: the input must be copied to its shards of `in` first */
    int copies_out;      /* 1: the output must be copied from its shards of `out` behind it */
    uint64_t work_bytes; /* memory beside the caller's, which `in` or both are in; 0: none */
} ccl_sa_place_t;

/** The program reads and writes one memory, which is the caller's where that fits. */
CCL_SA_HOST ccl_sa_place_t ccl_sa_place_one(const ccl_sa_program_t *p, const ccl_sa_run_t *run,
                                            const void *in, void *out, char *work) {
    ccl_sa_shards_t s = ccl_sa_shards(p, run->rank);
    uint64_t shard = run->stride * run->gpu.item_bytes;
    ccl_sa_place_t at = {work, work, 0, 0, 0};
    uintptr_t a = (uintptr_t)in - s.in_first * shard, b = (uintptr_t)out - s.out_first * shard;
    if (run->stride == run->given && s.in == 0)
        at.in = (char *)b;
    else if (run->stride == run->given && s.out == 0 && !p->writes_input[run->rank])
        at.in = (char *)a;
    else if (run->stride == run->given && s.out && a == b)
        at.in = (char *)a;
    else if (run->stride == run->given && s.out && s.out == s.both)
        at.in = (char *)out;
    else
        at.work_bytes = s.both * shard + 256;
    at.copies_in = s.in && (at.work_bytes || at.in != (char *)a);
    at.copies_out = s.out && at.work_bytes != 0;
    at.out = at.in;
    return at;
}

CCL_SA_HOST int ccl_sa_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/**
 * A call on the caller's buffers. Where the program cannot work in them (in place on two buffers,
 * out of place on one, or odd counts where it must pad), it works in memory of its own.
 * @param work  that memory, of work_bytes; NULL: only work_bytes is wanted.
 */
CCL_SA_HOST ccl_sa_place_t ccl_sa_place(const ccl_sa_program_t *p, const ccl_sa_run_t *run,
                                        const void *in, void *out, char *work) {
    ccl_sa_shards_t s = ccl_sa_shards(p, run->rank);
    uint64_t shard = run->stride * run->gpu.item_bytes;
    ccl_sa_place_t at = {(char *)(uintptr_t)in, (char *)out, 0, 0, 0};
    if (p->in_place)
        return ccl_sa_place_one(p, run, in, out, work);
    if (run->stride == run->given && !ccl_sa_overlap(in, s.in * shard, out, s.out * shard))
        return at;
    at.in = work;
    at.copies_in = s.in != 0;
    at.work_bytes = s.in * shard + 256;
    if (run->stride != run->given) {
        at.work_bytes += s.out * shard + 256;
        at.out = work + (s.in * shard + 255) / 256 * 256;
        at.copies_out = s.out != 0;
    }
    return at;
}

/** Addresses for the kernel. @param scratch  of ccl_sa_scratch_bytes(). */
CCL_SA_HOST void ccl_sa_buffers(const ccl_sa_place_t *at, char *scratch, ccl_sa_run_t *run) {
    run->buffers[CCL_SA_INPUT] = at->in;
    run->buffers[CCL_SA_OUTPUT] = at->out;
    run->buffers[CCL_SA_SCRATCH] = scratch;
}

/** Where shards of the caller's input and output lie in what the kernel has. */
CCL_SA_HOST char *ccl_sa_in_at(const ccl_sa_program_t *p, const ccl_sa_run_t *run,
                               const ccl_sa_place_t *at) {
    uint64_t first = p->in_place ? ccl_sa_shards(p, run->rank).in_first : 0;
    return at->in + first * run->stride * run->gpu.item_bytes;
}
CCL_SA_HOST char *ccl_sa_out_at(const ccl_sa_program_t *p, const ccl_sa_run_t *run,
                                const ccl_sa_place_t *at) {
    uint64_t first = p->in_place ? ccl_sa_shards(p, run->rank).out_first : 0;
    return at->out + first * run->stride * run->gpu.item_bytes;
}

CCL_SA_HOST uint64_t ccl_sa_scratch_bytes(const ccl_sa_program_t *p, const ccl_sa_run_t *run) {
    return p->scratch[run->rank] * run->items * run->gpu.item_bytes;
}

#endif
