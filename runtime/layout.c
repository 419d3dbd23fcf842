/**
 * @file layout.c
 * Items of every element, and where each lies in its rank's memory. In place, input and output are
 * one memory as nccl-tests has them: one of the two begins at the rank's own block of the other.
 */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 256 };
#define MAX_ELEMENTS (UINT64_C(1) << 25)
#define MAX_RANK_BYTES 0x1p46

/** Whether both buffers of a rank are one, and how far into it each begins, in elements. */
static bool alias_of(const ccl_collective_t *coll, uint32_t rank, uint32_t *in_shift,
                     uint32_t *out_shift) {
    uint32_t own = rank * coll->chunks_per_block;
    *in_shift = *out_shift = 0;
    switch (coll->kind) {
    case CCL_ALLGATHER:
        *in_shift = own;
        return true;
    case CCL_REDUCESCATTER:
        *out_shift = own;
        return true;
    case CCL_GATHER:
        *in_shift = rank == coll->root ? own : 0;
        return rank == coll->root; /* the others have one buffer */
    case CCL_SCATTER:
        *out_shift = rank == coll->root ? own : 0;
        return rank == coll->root;
    case CCL_CUSTOM:
        return false;
    default:
        return true;
    }
}

/** Places of a rank: one or two elements each. */
typedef struct places {
    uint32_t n, cap;
    uint64_t *items; /* of the elements there */
} places_t;

static ccl_status_t put(const ccl_i_layout_t *l, places_t *places, uint32_t rank, uint32_t element,
                        uint32_t place, ccl_error_t *err) {
    uint64_t items = l->items[element];
    if (places->items[place] != UINT64_MAX && places->items[place] != items)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u: an input and an output element are one in place but differ in "
                        "size",
                        rank);
    places->items[place] = items;
    return CCL_OK;
}

/** Place of input element i: its own, or where a demand's chunk lies in the output. */
static void custom_inputs(const ccl_program_t *program, uint32_t rank, uint32_t in_len,
                          uint32_t out_len, uint32_t *place_of) {
    const ccl_collective_t *coll = program->coll;
    uint32_t at = 0;
    for (uint32_t k = 0; k < coll->nchunks && at < in_len; k++) {
        uint32_t in = ccl_collective_input(coll, rank, k);
        if (in == CCL_NONE)
            continue;
        uint32_t out = ccl_collective_output(coll, rank, k);
        if (in < in_len && out < out_len)
            place_of[in] = in_len + out;
        at++;
    }
}

static ccl_status_t lay_out_rank(const ccl_program_t *program, ccl_i_layout_t *l, uint32_t rank,
                                 ccl_error_t *err) {
    const uint32_t *len = program->buffer_len + 3 * (size_t)rank;
    uint32_t in_len = len[CCL_BUF_INPUT], out_len = len[CCL_BUF_OUTPUT];
    uint32_t scratch_len = len[CCL_BUF_SCRATCH], in_shift = 0, out_shift = 0;
    bool alias = l->in_place && alias_of(program->coll, rank, &in_shift, &out_shift);
    uint64_t in_end = (uint64_t)in_shift + in_len, out_end = (uint64_t)out_shift + out_len;
    uint64_t both = in_end > out_end ? in_end : out_end;
    uint64_t n = (alias ? both : (uint64_t)in_len + out_len) + scratch_len;
    ccl_status_t status = CCL_OK;
    uint32_t *place_of = malloc((in_len + (size_t)out_len + scratch_len + 1) * sizeof *place_of);
    uint64_t *at = malloc((size_t)(n + 1) * sizeof *at);
    places_t places = {.items = malloc((size_t)(n + 1) * sizeof *places.items)};
    if (!place_of || !at || !places.items) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(places.items, 0xff, (size_t)(n + 1) * sizeof *places.items);
    uint32_t out_base = alias ? out_shift : in_len;
    for (uint32_t i = 0; i < in_len; i++)
        place_of[i] = alias ? in_shift + i : i;
    for (uint32_t i = 0; i < out_len; i++)
        place_of[in_len + i] = out_base + i;
    for (uint32_t i = 0; i < scratch_len; i++)
        place_of[in_len + out_len + i] = (uint32_t)(n - scratch_len) + i;
    if (l->in_place && program->coll->kind == CCL_CUSTOM)
        custom_inputs(program, rank, in_len, out_len, place_of);
    uint32_t first = l->first[3 * (size_t)rank];
    for (uint32_t i = 0; i < in_len + out_len + scratch_len; i++)
        CCL_TRY_GOTO(put(l, &places, rank, first + i, place_of[i], err), status, end);
    /* Buffers begin at round addresses, elements follow each other. */
    uint64_t round = ALIGN_BYTES / l->item_bytes, sum = 0;
    for (uint32_t p = 0; p < n; p++) {
        if ((!alias && p == in_len) || p == n - scratch_len)
            sum = (sum + round - 1) / round * round;
        at[p] = sum;
        sum += places.items[p] == UINT64_MAX ? 0 : places.items[p];
    }
    for (uint32_t i = 0; i < in_len + out_len + scratch_len; i++)
        l->at[first + i] = at[place_of[i]];
    l->rank_items[rank] = sum;
end:
    free(place_of);
    free(at);
    free(places.items);
    return status;
}

static ccl_status_t size_elements(const ccl_program_t *program, double size_bytes,
                                  ccl_i_layout_t *l, ccl_error_t *err) {
    double plain = size_bytes / program->nchunks / l->item_bytes;
    for (uint32_t i = 0; i < 3 * program->nranks; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < program->buffer_len[i]; k++) {
            double q = program->shares ? program->shares[i][k] * size_bytes / l->item_bytes : plain;
            double n = ccl_model_ceil(q);
            sum += n;
            if (sum * l->item_bytes > MAX_RANK_BYTES)
                return ccl_fail(err, CCL_ERR_INPUT,
                                "rank %u would need more than %.0f TiB of memory", i / 3,
                                MAX_RANK_BYTES / 0x1p40);
            l->items[l->first[i] + k] = (uint64_t)n;
            if (l->items[l->first[i] + k] > l->largest_items)
                l->largest_items = l->items[l->first[i] + k];
        }
        if (i % 3 != CCL_BUF_SCRATCH && sum * l->item_bytes > l->buffer_bytes)
            l->buffer_bytes = sum * l->item_bytes;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_layout_init(const ccl_program_t *program, const ccl_run_options_t *options,
                               ccl_i_layout_t *out, ccl_error_t *err) {
    uint32_t nranks = program->nranks;
    ccl_i_layout_t l = {.nranks = nranks, .item_bytes = ccl_type_bytes(options->type)};
    ccl_status_t status = CCL_OK;
    uint64_t total = 0;
    l.in_place = program->in_place && !(options->out_of_place && program->out_of_place);
    l.first = malloc((3 * (size_t)nranks + 1) * sizeof *l.first);
    l.rank_items = calloc(nranks + (size_t)1, sizeof *l.rank_items);
    if (!l.first || !l.rank_items) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (size_t i = 0; i < 3 * (size_t)nranks; i++) {
        l.first[i] = (uint32_t)total;
        total += program->buffer_len[i];
        if (total > MAX_ELEMENTS) {
            status = ccl_fail(err, CCL_UNSUPPORTED,
                              "buffers have more than %llu elements: too many to run",
                              (unsigned long long)MAX_ELEMENTS);
            goto end;
        }
    }
    l.first[3 * (size_t)nranks] = (uint32_t)total;
    l.items = malloc((size_t)(total + 1) * sizeof *l.items);
    l.at = malloc((size_t)(total + 1) * sizeof *l.at);
    if (!l.items || !l.at) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(size_elements(program, options->size_bytes, &l, err), status, end);
    for (uint32_t r = 0; r < nranks; r++)
        CCL_TRY_GOTO(lay_out_rank(program, &l, r, err), status, end);
    *out = l;
    return CCL_OK;
end:
    ccl_i_layout_fini(&l);
    return status;
}

void ccl_i_layout_fini(ccl_i_layout_t *layout) {
    free(layout->first);
    free(layout->items);
    free(layout->at);
    free(layout->rank_items);
    memset(layout, 0, sizeof *layout);
}
