/* Rows of a timeline that look alike, and what chunks are in words. */
#include "draw/timeline.h"

#include <math.h>
#include <string.h>

enum { MOST_GROUPS = 200 };
#define SAME_SUM 2e-3   /* share of the run by which sums of states may differ */
#define SAME_PARTS 1e-2 /* and all parts of time together */

/** Seconds of each state over the whole run. */
static void sums_of(const ccl_i_timeline_t *t, uint32_t row, double *sums) {
    const float *share = t->share + (size_t)row * t->nbins * t->nstates;

    for (uint32_t s = 0; s < t->nstates; s++)
        sums[s] = 0;
    for (uint32_t bin = 0; bin < t->nbins; bin++)
        for (uint32_t s = 0; s < t->nstates; s++)
            sums[s] += share[(size_t)bin * t->nstates + s];
}

static bool alike(const ccl_i_timeline_t *t, uint32_t x, uint32_t y, const double *sums_x,
                  const double *sums_y) {
    double most_s = t->time_s * t->rows[x].lanes, off = 0;
    size_t n = (size_t)t->nbins * t->nstates;
    const float *a = t->share + x * n, *b = t->share + y * n;

    if (t->rows[x].lanes != t->rows[y].lanes)
        return false;
    for (uint32_t s = 0; s < t->nstates; s++)
        if (fabs(sums_x[s] - sums_y[s]) > SAME_SUM * most_s)
            return false;
    for (size_t i = 0; i < n && off <= SAME_PARTS * most_s; i++)
        off += fabs((double)a[i] - b[i]);
    return off <= SAME_PARTS * most_s;
}

/** Thread blocks keep their row where it is drawn. */
static void move_lanes(ccl_i_timeline_t *t, const uint32_t *to) {
    uint32_t nlanes = t->first_lane[t->program->ntbs];

    for (uint32_t lane = 0; lane < nlanes; lane++)
        if (t->lane_row[lane] != CCL_NONE)
            t->lane_row[lane] = to[t->lane_row[lane]];
    for (uint32_t i = 0; t->by == CCL_DRAW_ROWS_LINK && i < t->topo->nlinks; i++)
        if (t->link_row[i] != CCL_NONE)
            t->link_row[i] = to[t->link_row[i]];
}

ccl_status_t ccl_i_timeline_fold(ccl_i_timeline_t *t, ccl_error_t *err) {
    size_t n = (size_t)t->nbins * t->nstates;
    double *sums = ccl_arena_alloc(&t->arena, (size_t)t->nrows * t->nstates + 1, sizeof(*sums));
    uint32_t *to = ccl_arena_alloc(&t->arena, t->nrows + (size_t)1, sizeof(*to)), kept = 0;

    if (!sums || !to)
        return ccl_fail_nomem(err);
    for (uint32_t row = 0; row < t->nrows; row++) {
        double *own = sums + (size_t)kept * t->nstates;
        uint32_t like = 0, most = kept < MOST_GROUPS ? kept : MOST_GROUPS;

        if (kept != row) { /* in front of what is not looked at yet */
            t->rows[kept] = t->rows[row];
            memmove(t->share + kept * n, t->share + row * n, n * sizeof(*t->share));
        }
        sums_of(t, kept, own);
        while (like < most && !alike(t, like, kept, sums + (size_t)like * t->nstates, own))
            like++;
        to[row] = CCL_NONE;
        if (like < most)
            t->rows[like].alike++;
        else
            to[row] = kept++;
    }
    t->folded = t->nrows - kept;
    t->nrows = kept;
    move_lanes(t, to);
    return CCL_OK;
}

void ccl_i_timeline_chunk(const ccl_i_timeline_t *t, uint32_t k, char *out, size_t out_len) {
    uint32_t parts = t->nchunks < CHUNK_COLOURS ? t->nchunks : CHUNK_COLOURS;
    uint32_t from = (uint32_t)(((uint64_t)k * t->nchunks + parts - 1) / parts);
    uint32_t to = (uint32_t)(((uint64_t)(k + 1) * t->nchunks + parts - 1) / parts) - 1;
    ccl_collective_kind_t kind = t->program->coll->kind;
    uint32_t each = t->nchunks / t->program->nranks;
    const char *whose = kind == CCL_ALLGATHER || kind == CCL_GATHER        ? "of"
                        : kind == CCL_REDUCESCATTER || kind == CCL_SCATTER ? "for"
                                                                           : NULL;

    if (!whose || each * t->program->nranks != t->nchunks) {
        if (from == to)
            snprintf(out, out_len, "chunk %u", from);
        else
            snprintf(out, out_len, "chunks %u-%u", from, to);
        return;
    }
    if (from / each == to / each)
        snprintf(out, out_len, "data %s GPU %u", whose, from / each);
    else
        snprintf(out, out_len, "data %s GPUs %u-%u", whose, from / each, to / each);
}
