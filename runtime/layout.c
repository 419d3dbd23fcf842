/**
 * @file layout.c
 * Items of every element, and where each lies in its rank's memory. In place, input and output are
 * one memory as nccl-tests has them: one of the two begins at the rank's own block of the other.
 */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 256 };
#define MAX_RANK_BYTES 0x1p46

/** Places of a rank's elements; in place an input and an output element may have one. */
static void place_elements(const ccl_program_t *program, const ccl_i_layout_t *l, uint32_t rank,
                           uint32_t in_first, uint32_t out_first, uint32_t scratch_first,
                           uint32_t *place_of) {
    const uint32_t *len = program->buffer_len + 3 * (size_t)rank;
    uint32_t in_len = len[CCL_BUF_INPUT], out_len = len[CCL_BUF_OUTPUT];
    for (uint32_t i = 0; i < in_len; i++) {
        ccl_buffer_t buffer = CCL_BUF_INPUT;
        uint32_t element = i;
        ccl_program_element(program, rank, l->in_place, &buffer, &element);
        place_of[i] = (buffer == CCL_BUF_INPUT ? in_first : out_first) + element;
    }
    for (uint32_t i = 0; i < out_len; i++)
        place_of[in_len + i] = out_first + i;
    for (uint32_t i = 0; i < len[CCL_BUF_SCRATCH]; i++)
        place_of[in_len + out_len + i] = scratch_first + i;
}

static ccl_status_t lay_out_rank(const ccl_program_t *program, ccl_i_layout_t *l, uint32_t rank,
                                 ccl_error_t *err) {
    const uint32_t *len = program->buffer_len + 3 * (size_t)rank;
    uint32_t in_len = len[CCL_BUF_INPUT], out_len = len[CCL_BUF_OUTPUT];
    uint32_t scratch_len = len[CCL_BUF_SCRATCH], in_shift = 0, out_shift = 0;
    bool alias = l->in_place && ccl_collective_in_place(program->coll, rank, &in_shift, &out_shift);
    uint64_t in_end = (uint64_t)in_shift + in_len, out_end = (uint64_t)out_shift + out_len;
    uint64_t both = in_end > out_end ? in_end : out_end;
    uint64_t n = (alias ? both : (uint64_t)in_len + out_len) + scratch_len;
    uint32_t out_base = alias ? out_shift : in_len, all = in_len + out_len + scratch_len;
    uint32_t *place_of = malloc((all + (size_t)1) * sizeof *place_of);
    uint64_t *at = malloc((size_t)(n + 1) * sizeof *at);
    uint64_t *items = calloc((size_t)(n + 1), sizeof *items); /* of the elements there */
    ccl_status_t status = CCL_OK;
    if (!place_of || !at || !items) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    place_elements(program, l, rank, alias ? in_shift : 0, out_base, (uint32_t)(n - scratch_len),
                   place_of);
    uint32_t first = l->first[3 * (size_t)rank];
    for (uint32_t i = 0; i < all; i++)
        items[place_of[i]] = l->items[first + i];
    /* Buffers begin at round addresses, elements follow each other. */
    uint64_t round = ALIGN_BYTES / l->item_bytes, sum = 0;
    for (uint32_t p = 0; p < n; p++) {
        if ((!alias && p == in_len) || p == n - scratch_len)
            sum = (sum + round - 1) / round * round;
        at[p] = sum;
        sum += items[p];
    }
    at[n] = sum;
    for (uint32_t i = 0; i < all; i++)
        l->at[first + i] = at[place_of[i]];
    l->output_at[rank] = at[out_base < n ? out_base : n];
    l->rank_items[rank] = sum;
end:
    free(place_of);
    free(at);
    free(items);
    return status;
}

/* ---------------------------------------------------------------- sizes */

/** Shares of one size, as the verifier has it, ascending: the least of each size. */
typedef struct sizes {
    double *least;
    size_t n;
} sizes_t;

static int share_cmp(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static ccl_status_t find_sizes(const ccl_program_t *program, sizes_t *sizes, ccl_error_t *err) {
    size_t cap = 0, n = 0;
    for (size_t i = 0; program->shares && i < 3 * (size_t)program->nranks; i++) {
        for (uint32_t k = 0; k < program->buffer_len[i]; k++) {
            double share = program->shares[i][k];
            if (n && sizes->least[n - 1] == share)
                continue;
            if (!ccl_grow(&sizes->least, &cap, n + 1, sizeof *sizes->least))
                return ccl_fail_nomem(err);
            sizes->least[n++] = share;
        }
    }
    if (n > 1)
        qsort(sizes->least, n, sizeof *sizes->least, share_cmp);
    double last = -1;
    for (size_t i = 0; i < n; i++) {
        double share = sizes->least[i];
        if (last < 0 || share - last > CCL_SHARE_TOLERANCE * share)
            sizes->least[sizes->n++] = share;
        last = share;
    }
    return CCL_OK;
}

static double size_of(const sizes_t *sizes, double share) {
    size_t lo = 0;
    for (size_t hi = sizes->n; lo + 1 < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        if (sizes->least[mid] <= share)
            lo = mid;
        else
            hi = mid;
    }
    return sizes->least[lo];
}

static ccl_status_t size_elements(const ccl_program_t *program, const sizes_t *sizes,
                                  double size_bytes, ccl_i_layout_t *l, ccl_error_t *err) {
    double plain = size_bytes / program->nchunks / l->item_bytes;
    for (uint32_t i = 0; i < 3 * program->nranks; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < program->buffer_len[i]; k++) {
            double q = program->shares
                           ? size_of(sizes, program->shares[i][k]) * size_bytes / l->item_bytes
                           : plain;
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
    sizes_t sizes = {NULL, 0};
    uint64_t total = 0;
    l.in_place = program->in_place && !(options->out_of_place && program->out_of_place);
    l.first = malloc((3 * (size_t)nranks + 1) * sizeof *l.first);
    l.rank_items = calloc(nranks + (size_t)1, sizeof *l.rank_items);
    l.output_at = calloc(nranks + (size_t)1, sizeof *l.output_at);
    if (!l.first || !l.rank_items || !l.output_at) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (size_t i = 0; i < 3 * (size_t)nranks; i++) {
        l.first[i] = (uint32_t)total;
        total += program->buffer_len[i];
    }
    l.first[3 * (size_t)nranks] = (uint32_t)total;
    l.items = malloc((size_t)(total + 1) * sizeof *l.items);
    l.at = malloc((size_t)(total + 1) * sizeof *l.at);
    if (!l.items || !l.at) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(find_sizes(program, &sizes, err), status, end);
    CCL_TRY_GOTO(size_elements(program, &sizes, options->size_bytes, &l, err), status, end);
    for (uint32_t r = 0; r < nranks; r++)
        CCL_TRY_GOTO(lay_out_rank(program, &l, r, err), status, end);
end:
    free(sizes.least);
    if (status == CCL_OK)
        *out = l;
    else
        ccl_i_layout_fini(&l);
    return status;
}

void ccl_i_layout_fini(ccl_i_layout_t *layout) {
    free(layout->first);
    free(layout->items);
    free(layout->at);
    free(layout->rank_items);
    free(layout->output_at);
    memset(layout, 0, sizeof *layout);
}
