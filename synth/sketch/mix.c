/*
 * Mixes of sketches (SyCCL, section 4.2): how much of every chunk goes along which sketch so that
 * no link waits for another. Loads are taken link by link and group by group, not dimension by
 * dimension, so that dimensions that share links (a leaf and the spine behind it share NICs) are
 * right too. A linear program per combination of several, in a child process, where GLPK may fail;
 * a combination that leaves a sketch without a share is another, smaller one and is dropped.
 */
#include "synth/sketch/candidates.h"

#include "synth/solvers/solver_glpk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_OF = 96, TRIPLES_OF = 20 };

/* ---------------------------------------------------------------- rows */

/* Resources whose loads are the same under all sketches count once: in a symmetric cluster a few
   are left. */
typedef struct rows {
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    uint32_t *resource;
    uint32_t n;
} rows_t;

static double load_of(const rows_t *rows, uint32_t class, uint32_t sketch, uint32_t row) {
    return rows->sketches->items[sketch]
        .load[(size_t) class * rows->space->x.nresources + rows->resource[row]];
}

static ccl_status_t rows_init(rows_t *rows, const ccl_i_space_t *s,
                              const ccl_i_sketches_t *sketches, ccl_error_t *err) {
    ccl_strmap_t *seen = ccl_strmap_create();
    ccl_text_t key = {0};
    bool ok = seen != NULL;

    *rows = (rows_t){s, sketches, calloc(s->x.nresources + (size_t)1, sizeof *rows->resource), 0};
    ok = ok && rows->resource;
    for (uint32_t r = 0; ok && r < s->x.nresources; r++) {
        bool some = false;

        key.len = 0;
        rows->resource[rows->n] = r;
        for (size_t i = 0; i < sketches->n; i++) {
            for (uint32_t c = 0; c < s->nclasses; c++) {
                double load = load_of(rows, c, (uint32_t)i, rows->n);

                ccl_text_printf(&key, "%.9g ", load);
                some |= load > 0;
            }
        }
        ok = !key.nomem;
        if (!ok || !some || ccl_strmap_get(seen, key.data) != CCL_NONE)
            continue;
        ok = ccl_strmap_put(seen, key.data, r);
        rows->n++;
    }
    ccl_text_fini(&key);
    ccl_strmap_destroy(seen);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* Seconds per byte of the busiest resource. @param share  [nclasses][n]. */
static double busiest(const rows_t *rows, const uint32_t *which, const double *share, uint32_t n) {
    double worst = 0;

    for (uint32_t k = 0; k < rows->n; k++) {
        double sum = 0;

        for (uint32_t c = 0; c < rows->space->nclasses; c++) {
            for (uint32_t i = 0; i < n; i++)
                sum += share[c * n + i] * load_of(rows, c, which[i], k);
        }
        worst = fmax(worst, sum);
    }
    return worst;
}

/* ---------------------------------------------------------------- shares */

/* The program of balance(), loads in units of `scale`; the last column is z. */
static void build_lp(const rows_t *rows, const uint32_t *which, uint32_t n, double scale,
                     ccl_i_glpk_t *lp) {
    uint32_t nclasses = rows->space->nclasses, columns = nclasses * n;

    for (uint32_t v = 0; v <= columns; v++)
        ccl_i_glpk_column(lp, CCL_I_GLPK_POSITIVE, v == columns);
    for (uint32_t k = 0; k < rows->n; k++) {
        for (uint32_t v = 0; v < columns; v++)
            ccl_i_glpk_term(lp, (int)v + 1, load_of(rows, v / n, which[v % n], k) / scale);
        ccl_i_glpk_term(lp, (int)columns + 1, -1);
        ccl_i_glpk_row(lp, false, 0);
    }
    for (uint32_t c = 0; c < nclasses; c++) {
        for (uint32_t i = 0; i < n; i++)
            ccl_i_glpk_term(lp, (int)(c * n + i) + 1, 1);
        ccl_i_glpk_row(lp, true, 1);
    }
}

/*
 * Shares that make the busiest resource least busy: minimise z, sum of share load(r) <= z for every
 * resource r, shares >= 0 and those of a class with sum 1. A basic solution uses few sketches. Of a
 * single sketch nothing is to be asked; of several in a child process only.
 * @param share  [nclasses][n], filled.  @param z_out  0: there is no balance
 */
static ccl_status_t balance(const rows_t *rows, const uint32_t *which, uint32_t n, double *share,
                            double *z_out, ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {0};
    uint32_t columns = rows->space->nclasses * n;
    double scale = 0, *value;
    ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
    ccl_i_glpk_t lp = {0};
    ccl_status_t status;

    *z_out = 0;
    for (uint32_t k = 0; k < rows->n; k++) {
        for (uint32_t v = 0; v < columns; v++)
            scale = fmax(scale, load_of(rows, v / n, which[v % n], k));
    }
    if (!(scale > 0) || !isfinite(scale))
        return CCL_OK;
    if (n == 1) {
        for (uint32_t v = 0; v < columns; v++)
            share[v] = 1;
        *z_out = busiest(rows, which, share, n);
        return CCL_OK;
    }
    value = calloc(columns + (size_t)2, sizeof *value);
    if (!value)
        return ccl_fail_nomem(err);
    build_lp(rows, which, n, scale, &lp);
    status = ccl_i_glpk_solve(&lp, &options, value, NULL, &answer, err);
    if (status == CCL_OK && answer == CCL_I_GLPK_FOUND) {
        for (uint32_t v = 0; v < columns; v++)
            share[v] = fmax(0, value[v + 1]);
        *z_out = value[columns + 1] * scale;
    }
    ccl_i_glpk_fini(&lp);
    free(value);
    return status;
}

/* Largest remainders: counts that sum to `parts`. */
static void round_shares(const double *share, uint32_t n, uint32_t parts, uint32_t *count) {
    double rest[CCL_I_SKETCH_MIX];
    uint32_t left = parts;

    for (uint32_t i = 0; i < n; i++) {
        count[i] = (uint32_t)floor(share[i] * parts + 1e-9);
        rest[i] = share[i] * parts - count[i];
        left -= count[i] < left ? count[i] : left;
    }
    for (; left; left--) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < n; i++)
            best = rest[i] > rest[best] + 1e-12 ? i : best;
        count[best]++;
        rest[best] -= 1;
    }
}

/* Transfers of a mix with its counts; a class has its part of the roots. */
static double transfers_of(const rows_t *rows, const ccl_i_mix_t *mix) {
    const ccl_i_space_t *s = rows->space;
    uint32_t nroots = s->root == CCL_NONE ? s->topo->nranks : 1;
    double sum = 0;

    for (uint32_t r = 0; r < nroots; r++) {
        uint32_t c = s->root_class[s->root == CCL_NONE ? r : s->root];

        for (uint32_t i = 0; i < mix->n; i++)
            sum += rows->sketches->items[mix->sketch[i]].transfers / nroots * mix->count[c][i];
    }
    return sum;
}

/* The fewest parts that come within 1 % of the exact shares, else the best number that are not too
   many transfers; 0: some sketch is not worth one. */
static void choose_parts(const rows_t *rows, uint32_t max_parts, ccl_i_mix_t *mix) {
    uint32_t nclasses = rows->space->nclasses, n = mix->n;
    double best = INFINITY;

    for (uint32_t parts = 1; parts <= max_parts; parts++) {
        uint32_t count[CCL_I_SKETCH_CLASSES][CCL_I_SKETCH_MIX] = {{0}};
        uint32_t used[CCL_I_SKETCH_MIX] = {0};
        double share[CCL_I_SKETCH_CLASSES * CCL_I_SKETCH_MIX], z;
        bool some_none = false;

        for (uint32_t c = 0; c < nclasses; c++) {
            round_shares(mix->share[c], n, parts, count[c]);
            for (uint32_t i = 0; i < n; i++) {
                used[i] += count[c][i];
                share[c * n + i] = (double)count[c][i] / parts;
            }
        }
        for (uint32_t i = 0; i < n; i++)
            some_none |= used[i] == 0;
        if (some_none)
            continue; /* a smaller mix */
        ccl_i_mix_t counted = *mix;

        memcpy(counted.count, count, sizeof count);
        counted.transfers = transfers_of(rows, &counted);
        if (parts > 1 && counted.transfers > CCL_I_SKETCH_TRANSFERS)
            return;
        z = busiest(rows, mix->sketch, share, n);
        if (z < best * (1 - 1e-9)) {
            best = z;
            mix->parts = parts;
            mix->s_per_byte = z;
            mix->transfers = counted.transfers;
            memcpy(mix->count, count, sizeof mix->count);
        }
        if (best <= mix->ideal_s_per_byte * 1.01)
            return;
    }
}

static void fill_more(double *mix, const double *sketch) {
    for (int net = 0; net < CCL_I_SHAPES; net++)
        mix[net] = fmax(mix[net], sketch[net]);
}

static ccl_status_t try_mix(const rows_t *rows, const uint32_t *which, uint32_t n,
                            uint32_t max_parts, bool all, ccl_i_mixes_t *out, ccl_error_t *err) {
    uint32_t nclasses = rows->space->nclasses;
    ccl_i_mix_t mix = {0};
    double *share = calloc((size_t)nclasses * n, sizeof *share), z = 0;
    ccl_status_t status = share ? balance(rows, which, n, share, &z, err) : ccl_fail_nomem(err);
    bool ok = z > 0;

    if (status != CCL_OK) {
        free(share);
        return status;
    }
    out->tried++;
    for (uint32_t i = 0; ok && i < n; i++) {
        const ccl_i_sketch_t *sketch = &rows->sketches->items[which[i]];
        double most = 0;

        for (uint32_t c = 0; c < nclasses; c++)
            most = fmax(most, share[c * n + i]);
        if (most < 1e-6) {
            ok = all; /* of all together only some are meant to stay */
            continue;
        }
        if (mix.n == CCL_I_SKETCH_MIX) {
            ok = false;
            break;
        }
        mix.sketch[mix.n] = which[i];
        for (uint32_t c = 0; c < nclasses; c++)
            mix.share[c][mix.n] = share[c * n + i];
        mix.n++;
        mix.depth_s = fmax(mix.depth_s, sketch->depth_s);
        mix.busy_s += sketch->busy_s;
        mix.fifo_s += sketch->fifo_s;
        fill_more(mix.fill_s_per_byte, sketch->fill_s_per_byte);
    }
    free(share);
    if (!ok || mix.n == 0) {
        out->unbalanced++;
        return CCL_OK;
    }
    mix.ideal_s_per_byte = z;
    choose_parts(rows, max_parts, &mix);
    if (mix.parts == 0) { /* some share is too small for a part */
        out->unbalanced++;
        return CCL_OK;
    }
    for (size_t i = 0; i < out->n; i++) {
        const ccl_i_mix_t *other = &out->items[i];

        if (other->n == mix.n && other->parts == mix.parts &&
            memcmp(other->sketch, mix.sketch, mix.n * sizeof *mix.sketch) == 0 &&
            memcmp(other->count, mix.count, sizeof mix.count) == 0)
            return CCL_OK;
    }
    if (!ccl_grow(&out->items, &out->cap, out->n + 1, sizeof *out->items))
        return ccl_fail_nomem(err);
    out->items[out->n++] = mix;
    return CCL_OK;
}

/* Numbers of a mix whose counts are given. */
static ccl_status_t weigh(const rows_t *rows, ccl_i_mix_t *mix, ccl_error_t *err) {
    uint32_t nclasses = rows->space->nclasses;
    double *share = calloc((size_t)nclasses * mix->n, sizeof *share);

    if (!share)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < mix->n; i++) {
        const ccl_i_sketch_t *sketch = &rows->sketches->items[mix->sketch[i]];

        for (uint32_t c = 0; c < nclasses; c++) {
            mix->share[c][i] = (double)mix->count[c][i] / mix->parts;
            share[c * mix->n + i] = mix->share[c][i];
        }
        mix->depth_s = fmax(mix->depth_s, sketch->depth_s);
        mix->busy_s += sketch->busy_s;
        mix->fifo_s += sketch->fifo_s;
        fill_more(mix->fill_s_per_byte, sketch->fill_s_per_byte);
    }
    mix->transfers = transfers_of(rows, mix);
    mix->s_per_byte = mix->ideal_s_per_byte = busiest(rows, mix->sketch, share, mix->n);
    free(share);
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of them */

/* Mixes of several sketches, which a child process finds. */
typedef struct mixer {
    const rows_t *rows;
    ccl_i_mixes_t *out; /* the child has a copy */
    uint32_t most, max_parts;
    double best_s; /* of single sketches, by the estimate */
} mixer_t;

/* What the child says before its mixes. */
typedef struct found {
    uint64_t tried, unbalanced, dropped, n;
    ccl_error_t why; /* of the first that was dropped */
} found_t;

/* Whatever the shares are, it has the depth of its deepest sketch, and a resource carries what the
   sketch that loads it least does. */
static double least_s(const mixer_t *m, const uint32_t *which, uint32_t n) {
    const rows_t *rows = m->rows;
    double depth_s = 0, worst = 0;

    for (uint32_t i = 0; i < n; i++)
        depth_s = fmax(depth_s, rows->sketches->items[which[i]].depth_s);
    for (uint32_t k = 0; k < rows->n; k++) {
        double sum = 0;

        for (uint32_t c = 0; c < rows->space->nclasses; c++) {
            double least = INFINITY;

            for (uint32_t i = 0; i < n; i++)
                least = fmin(least, load_of(rows, c, which[i], k));
            sum += least;
        }
        worst = fmax(worst, sum);
    }
    return depth_s + worst * m->out->chunk_bytes;
}

/* One that GLPK fails at is dropped; one that cannot come near the best is not worth a program. */
static void try_several(const mixer_t *m, const uint32_t *which, uint32_t n, bool all,
                        found_t *found) {
    if (!all && m->out->chunk_bytes > 0 && least_s(m, which, n) > m->out->longest * m->best_s)
        return;
    if (try_mix(m->rows, which, n, m->max_parts, all, m->out, &found->why) != CCL_OK)
        found->dropped++;
}

/* @param found  NULL: count them only.  @return how many there are */
static uint64_t try_pairs(const mixer_t *m, found_t *found) {
    uint32_t n = (uint32_t)m->rows->sketches->n;
    uint64_t count = 0;

    for (uint32_t i = 0; m->most >= 2 && n <= PAIRS_OF && i < n; i++) {
        for (uint32_t j = i + 1; j < n; j++) {
            const uint32_t pair[] = {i, j};

            count++;
            if (found)
                try_several(m, pair, 2, false, found);
            for (uint32_t k = j + 1; m->most >= 3 && n <= TRIPLES_OF && k < n; k++) {
                const uint32_t triple[] = {i, j, k};

                count++;
                if (found)
                    try_several(m, triple, 3, false, found);
            }
        }
    }
    return count;
}

static ccl_status_t try_all(const mixer_t *m, found_t *found, ccl_error_t *err) {
    uint32_t n = (uint32_t)m->rows->sketches->n, *all = calloc(n, sizeof *all);

    if (!all)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        all[i] = i;
    try_several(m, all, n, true, found);
    free(all);
    return CCL_OK;
}

static ccl_status_t mix_several(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    mixer_t *m = user;
    size_t known = m->out->n;
    found_t found = {0};

    m->out->tried = m->out->unbalanced = 0;
    try_pairs(m, &found);
    CCL_TRY(try_all(m, &found, err));
    found.tried = m->out->tried;
    found.unbalanced = m->out->unbalanced;
    found.n = m->out->n - known;
    const struct iovec parts[] = {
        {&found, sizeof found},
        {found.n ? m->out->items + known : NULL, found.n * sizeof *m->out->items}};
    ccl_child_put_parts(pipe, parts, 2);
    return CCL_OK;
}

static ccl_status_t take_mixes(const ccl_child_answer_t *answer, ccl_i_mixes_t *out,
                               ccl_error_t *why, ccl_error_t *err) {
    found_t found;

    if (answer->len < sizeof found)
        return ccl_fail_nomem(err);
    memcpy(&found, answer->data, sizeof found);
    if (!ccl_grow(&out->items, &out->cap, out->n + found.n, sizeof *out->items))
        return ccl_fail_nomem(err);
    if (found.n)
        memcpy(out->items + out->n, (const char *)answer->data + sizeof found,
               found.n * sizeof *out->items);
    out->n += found.n;
    out->tried += found.tried;
    out->unbalanced += found.unbalanced;
    out->dropped += found.dropped;
    *why = found.why;
    return CCL_OK;
}

/* Where no child process can be had, or it dies, single sketches are left. */
static ccl_status_t combine(const ccl_ctx_t *ctx, mixer_t *m, ccl_error_t *err) {
    const ccl_child_limits_t none = {0, 0, "mixes"};
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_child_answer_t answer = {0};
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status;

    quiet.progress = NULL; /* there is none */
    status = ccl_child_run(&quiet, &none, mix_several, m, &answer, &why);
    if (status == CCL_OK)
        status = take_mixes(&answer, m->out, &why, &why);
    if (status == CCL_ERR_NOMEM) {
        m->out->dropped += try_pairs(m, NULL) + 1;
        status = CCL_OK;
    }
    free(answer.data);
    if (status != CCL_OK) {
        if (err)
            *err = why;
        return status;
    }
    if (m->out->dropped)
        ccl_log(ctx, CCL_LOG_INFO, "sketch", "%llu mixes were dropped: %s",
                (unsigned long long)m->out->dropped, why.text);
    return CCL_OK;
}

ccl_status_t ccl_i_sketch_mixes(const ccl_ctx_t *ctx, ccl_i_space_t *space,
                                ccl_i_sketches_t *sketches, uint32_t most, uint32_t max_parts,
                                ccl_i_mixes_t *out, ccl_error_t *err) {
    rows_t rows = {0};
    mixer_t mixer = {&rows, out, most, max_parts, INFINITY};
    ccl_status_t status = ccl_i_sketch_loads(ctx, space, sketches, &out->unreaching, err);

    if (status != CCL_OK || sketches->n == 0)
        return status;
    CCL_TRY_GOTO(rows_init(&rows, space, sketches, err), status, end);
    for (size_t i = 0; i < out->n; i++)
        CCL_TRY_GOTO(weigh(&rows, &out->items[i], err), status, end);
    if (out->complete)
        goto end;
    for (uint32_t i = 0; i < sketches->n; i++)
        CCL_TRY_GOTO(try_mix(&rows, &i, 1, max_parts, false, out, err), status, end);
    for (size_t i = 0; i < out->n; i++) {
        const ccl_i_mix_t *mix = &out->items[i];

        if (mix->n == 1 && !mix->given)
            mixer.best_s =
                fmin(mixer.best_s, ccl_i_mix_estimate(space, sketches, mix, out->chunk_bytes));
    }
    if (sketches->n > 1)
        status = combine(ctx, &mixer, err);
end:
    free(rows.resource);
    return status;
}
