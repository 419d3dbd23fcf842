/* Places of chunks: that each has one wherever it must be, and is of one size everywhere. */
#include "schedule/verify/verify.h"

/* Bounds the memory of the verifier and of a run's layout. */
#define MAX_ELEMENTS (UINT64_C(1) << 25)

typedef struct places {
    const ccl_program_t *program;
    ccl_verdict_t *verdict;
    bool in_place;
    const char *when; /* of a program that is called in both ways */
} places_t;

static double share_of(const ccl_program_t *p, uint32_t rank, ccl_buffer_t buffer, uint32_t elem) {
    return p->shares[3 * (size_t)rank + buffer][elem];
}

/** Both elements of one memory are of one size. */
static void check_aliases(const places_t *x, uint32_t rank) {
    const ccl_program_t *p = x->program;
    for (uint32_t e = 0; e < p->buffer_len[3 * (size_t)rank + CCL_BUF_INPUT]; e++) {
        ccl_buffer_t buffer = CCL_BUF_INPUT;
        uint32_t elem = e;
        if (!ccl_program_element(p, rank, true, &buffer, &elem) || buffer == CCL_BUF_INPUT ||
            ccl_i_same_share(share_of(p, rank, CCL_BUF_INPUT, e), share_of(p, rank, buffer, elem)))
            continue;
        ccl_i_fault(x->verdict, "mismatch", rank, CCL_NONE, CCL_NONE, CCL_NONE,
                    "rank %u: input element %u and output element %u are one in place but differ "
                    "in size",
                    rank, e, elem);
        return;
    }
}

/** Size of a chunk at a rank that gives it, or must have it; false: it has no place there. */
static bool find_size(const places_t *x, uint32_t rank, ccl_buffer_t buffer, uint32_t elem,
                      double *out) {
    if (elem == CCL_NONE || !ccl_program_element(x->program, rank, x->in_place, &buffer, &elem))
        return false;
    *out = x->program->shares ? share_of(x->program, rank, buffer, elem) : 1;
    return true;
}

static void check_chunk(const places_t *x, uint32_t k) {
    const ccl_collective_t *coll = x->program->coll;
    const ccl_chunk_t *chunk = &coll->chunks[k];
    double want = 0, size;
    for (uint32_t i = 0; i < chunk->ndests; i++) {
        uint32_t r = chunk->dests[i];
        if (!find_size(x, r, CCL_BUF_OUTPUT, ccl_collective_output(coll, r, k), &size)) {
            ccl_i_fault(x->verdict, "missing", r, CCL_NONE, CCL_NONE, k,
                        "rank %u has no output element for chunk %u of the collective%s", r, k,
                        x->when);
            return;
        }
        want = i == 0 ? size : want;
        if (!ccl_i_same_share(size, want)) {
            ccl_i_fault(x->verdict, "mismatch", r, CCL_NONE, CCL_NONE, k,
                        "chunk %u has outputs of different sizes: share %.9g at rank %u, %.9g at "
                        "rank %u%s",
                        k, want, chunk->dests[0], size, r, x->when);
            return;
        }
    }
    for (uint32_t i = 0; i < chunk->nsources && x->program->shares; i++) {
        uint32_t r = chunk->sources[i];
        if (!find_size(x, r, CCL_BUF_INPUT, ccl_collective_input(coll, r, k), &size) ||
            ccl_i_same_share(size, want))
            continue;
        ccl_i_fault(x->verdict, "mismatch", r, CCL_NONE, CCL_NONE, k,
                    "chunk %u is of share %.9g at its source rank %u, but %.9g where it goes, at "
                    "rank %u%s",
                    k, size, r, want, chunk->dests[0], x->when);
        return;
    }
}

ccl_status_t ccl_i_check_places(const ccl_program_t *program, ccl_verdict_t *verdict,
                                ccl_error_t *err) {
    uint64_t elements = 0;
    bool both = program->in_place && program->out_of_place;
    CCL_TRY(ccl_i_check_members(program->coll, err));
    for (size_t i = 0; i < 3 * (size_t)program->nranks; i++)
        elements += program->buffer_len[i];
    if (elements > MAX_ELEMENTS)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "buffers have more than %llu elements: too many to verify and to run",
                        (unsigned long long)MAX_ELEMENTS);
    for (uint32_t in_place = 0; in_place < 2; in_place++) {
        places_t x = {program, verdict, in_place != 0, ""};
        if (in_place ? !program->in_place : program->in_place && !program->out_of_place)
            continue;
        if (both)
            x.when = in_place ? ", in place" : ", out of place";
        for (uint32_t r = 0; in_place && program->shares && r < program->nranks && verdict->valid;
             r++)
            check_aliases(&x, r);
        for (uint32_t k = 0; k < program->coll->nchunks && verdict->valid; k++)
            if (program->coll->chunks[k].share > 0)
                check_chunk(&x, k);
    }
    return CCL_OK;
}

ccl_status_t ccl_program_check(const ccl_program_t *program, ccl_granularity_t granularity,
                               ccl_verdict_t *out, ccl_error_t *err) {
    ccl_verdict_t verdict = {.valid = true,
                             .fault = {NULL, CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE, ""}};
    ccl_i_links_t links;
    ccl_status_t status = ccl_i_links_init(program, granularity, &links, &verdict, err);
    if (status == CCL_OK && verdict.valid)
        status = ccl_i_check_places(program, &verdict, err);
    if (status == CCL_OK && links.shared)
        ccl_i_fault_shared(program, &links, &verdict);
    ccl_i_links_fini(&links);
    if (status == CCL_OK)
        *out = verdict;
    return status;
}
