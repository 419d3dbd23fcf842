/*
 * Predicted beside measured on the host. Repeats are interleaved over all runs, so that a busy
 * minute of the machine touches each a little; a finished repeat is kept in a file.
 */
#include "validate/fit/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 9u
#define APART 0.1 /* pairs that differ by more are ranked */

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_host_model_t *model;
    const ccl_validate_case_t *cases;
    const ccl_validate_options_t *o;
    ccl_validation_t *v;
    uint32_t repeats;
    uint64_t *key;   /* [npoints] */
    uint32_t *known; /* [npoints] repeats that are measured */
    double *time_s;  /* [npoints * repeats] */
    ccl_text_t kept; /* what the file of finished measurements holds */
} job_t;

static ccl_run_options_t options_of(const job_t *j, uint32_t point) {
    const ccl_validate_point_t *p = &j->v->points[point];
    ccl_run_options_t o = j->o->run;
    o.size_bytes = p->size_bytes;
    o.repeats = 1;
    o.warmups = ccl_i_host_warmups(&o);
    if (!(o.slice_bytes > 0))
        o.slice_bytes = CCL_I_HOST_SLICE_BYTES; /* predicted and run with the same */
    o.granularity = j->cases[p->at].granularity;
    o.protocol = CCL_RUN_SIMPLE; /* which the predictions are of */
    return o;
}

/* ---------------------------------------------------------------- finished measurements */

/* The program, the size and how it was run: another machine's file is not told apart. */
static ccl_status_t key_of(const job_t *j, uint32_t point, uint64_t *out, ccl_error_t *err) {
    ccl_run_options_t o = options_of(j, point);
    ccl_text_t text = {0};
    ccl_status_t status =
        ccl_program_write_xml(j->cases[j->v->points[point].at].program, &text, err);
    ccl_text_printf(&text, "%.17g %d %d %d %d %u %u %u %d", o.size_bytes, (int)o.type, (int)o.op,
                    (int)o.granularity, (int)o.ranks, o.processes, o.threads, o.batches,
                    (int)o.transport);
    if (j->o->setting)
        ccl_text_printf(&text, " %s", j->o->setting);
    if (status == CCL_OK && text.nomem)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        *out = ccl_hash64(text.data, text.len, 0);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t read_kept(job_t *j, ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0;
    FILE *there = fopen(j->o->keep, "r");
    if (!there)
        return CCL_OK; /* the first time */
    fclose(there);
    CCL_TRY(ccl_file_read(j->o->keep, (size_t)64 << 20, &text, &len, err));
    int line = 1;
    for (const char *at = text; *at; line++) {
        unsigned long long key;
        double time_s;
        if (sscanf(at, "%llx %lf", &key, &time_s) != 2 || !(time_s > 0) || !isfinite(time_s)) {
            free(text);
            return ccl_error_set(err, CCL_ERR_INPUT, j->o->keep, line, 0,
                                 "no finished measurement: a key and seconds are needed");
        }
        for (uint32_t i = 0; i < j->v->npoints; i++)
            if (j->key[i] == key && j->known[i] < j->repeats)
                j->time_s[(size_t)i * j->repeats + j->known[i]++] = time_s;
        size_t n = strcspn(at, "\n");
        at += at[n] ? n + 1 : n;
    }
    ccl_text_add(&j->kept, text, len);
    if (len && text[len - 1] != '\n')
        ccl_text_add(&j->kept, "\n", 1);
    free(text);
    return CCL_OK;
}

static ccl_status_t write_kept(job_t *j, ccl_error_t *err) {
    if (!j->o->keep || !j->kept.len)
        return CCL_OK;
    if (j->kept.nomem)
        return ccl_fail_nomem(err);
    return ccl_file_write(j->o->keep, j->kept.data, j->kept.len, err);
}

/* ---------------------------------------------------------------- measuring */

static ccl_status_t measure(job_t *j, ccl_error_t *err) {
    uint32_t n = j->v->npoints;
    for (uint32_t round = 0; round < j->repeats; round++) {
        for (uint32_t i = 0; i < n; i++) {
            ccl_progress_t progress = {"validate", (uint64_t)round * n + i,
                                       (uint64_t)j->repeats * n, 0, 0};
            ccl_run_options_t o = options_of(j, i);
            double time_s = 0;
            if (j->known[i] > round)
                continue;
            o.no_check = round > 0; /* looked at once */
            CCL_TRY(ccl_ctx_poll(j->ctx, &progress));
            CCL_TRY(ccl_i_host_measure(j->ctx, j->cases[j->v->points[i].at].program, &o,
                                       j->o->measure, j->o->measure_user, &time_s, err));
            j->time_s[(size_t)i * j->repeats + j->known[i]++] = time_s;
            ccl_text_printf(&j->kept, "%016llx %.9g\n", (unsigned long long)j->key[i], time_s);
        }
        CCL_TRY(write_kept(j, err)); /* a round at a time */
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- what came out */

static bool rivals(const job_t *j, const ccl_validate_point_t *a, const ccl_validate_point_t *b) {
    const ccl_validate_case_t *x = &j->cases[a->at], *y = &j->cases[b->at];
    return a->at != b->at && a->size_bytes == b->size_bytes &&
           x->program->nranks == y->program->nranks && strcmp(x->collective, y->collective) == 0;
}

static void rank_pairs(job_t *j) {
    ccl_validation_t *v = j->v;
    double agree = 0;
    for (uint32_t a = 0; a < v->npoints; a++) {
        for (uint32_t b = a + 1; b < v->npoints; b++) {
            const ccl_validate_point_t *x = &v->points[a], *y = &v->points[b];
            if (!rivals(j, x, y))
                continue;
            double measured = x->min_s - y->min_s, predicted = x->predicted_s - y->predicted_s;
            double sign = measured * predicted > 0 ? 1 : measured * predicted < 0 ? -1 : 0;
            agree += sign;
            v->nrivals++;
            if (fmax(x->min_s, y->min_s) > (1 + APART) * fmin(x->min_s, y->min_s)) {
                v->npairs++;
                v->nranked += sign > 0;
            }
        }
    }
    v->tau = v->nrivals ? agree / v->nrivals : NAN;
}

static ccl_status_t judge(job_t *j, ccl_error_t *err) {
    ccl_validation_t *v = j->v;
    double *errors = malloc((v->npoints + (size_t)1) * sizeof *errors);
    double *medians = malloc((v->npoints + (size_t)1) * sizeof *medians);
    if (!errors || !medians) {
        free(errors);
        free(medians);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < v->npoints; i++) {
        ccl_validate_point_t *p = &v->points[i];
        p->median_s = ccl_i_host_median(j->time_s + (size_t)i * j->repeats, j->repeats);
        p->min_s = j->time_s[(size_t)i * j->repeats]; /* sorted now */
        p->spread = (p->median_s - p->min_s) / p->min_s;
        p->error = p->predicted_s / p->min_s - 1;
        p->error_median = p->predicted_s / p->median_s - 1;
        errors[i] = fabs(p->error);
        medians[i] = fabs(p->error_median);
    }
    v->median_error = ccl_i_host_median(errors, v->npoints);
    v->median_error_median = ccl_i_host_median(medians, v->npoints);
    v->p90_error = errors[(size_t)ceil(0.9 * v->npoints) - 1];
    v->worst_error = errors[v->npoints - 1];
    free(errors);
    free(medians);
    rank_pairs(j);
    return CCL_OK;
}

static ccl_status_t run(job_t *j, uint32_t ncases, const double *sizes, uint32_t nsizes,
                        ccl_error_t *err) {
    ccl_validation_t *v = j->v;
    uint32_t n = ncases * nsizes;
    v->points = ccl_arena_alloc(&v->arena, n, sizeof *v->points);
    j->key = ccl_arena_alloc(&v->arena, n, sizeof *j->key);
    j->known = ccl_arena_alloc(&v->arena, n, sizeof *j->known);
    j->time_s = ccl_arena_alloc(&v->arena, (size_t)n * j->repeats, sizeof *j->time_s);
    if (!v->points || !j->key || !j->known || !j->time_s)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < ncases; c++) {
        bool fitted = false;
        CCL_TRY(ccl_host_is_calibration(j->cases[c].program, &fitted, err));
        if (fitted)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "%s %s on %u ranks is a program that profiles are fitted to: nothing "
                            "would be predicted",
                            j->cases[c].collective, j->cases[c].schedule,
                            j->cases[c].program->nranks);
        for (uint32_t s = 0; s < nsizes; s++) {
            ccl_validate_point_t *p = &v->points[v->npoints];
            p->at = c;
            p->size_bytes = sizes[s];
            ccl_run_options_t o = options_of(j, v->npoints);
            if (j->o->predict)
                CCL_TRY(j->o->predict(j->cases[c].program, &o, &p->predicted_s, j->o->predict_user,
                                      err));
            else
                CCL_TRY(ccl_host_predict(j->ctx, j->cases[c].program, &o, j->model, &p->predicted_s,
                                         err));
            CCL_TRY(key_of(j, v->npoints, &j->key[v->npoints], err));
            v->npoints++;
        }
    }
    if (j->o->keep)
        CCL_TRY(read_kept(j, err));
    CCL_TRY(measure(j, err));
    return judge(j, err);
}

ccl_status_t ccl_validate_host(const ccl_ctx_t *ctx, const ccl_host_model_t *model,
                               const ccl_validate_case_t *cases, uint32_t ncases,
                               const double *sizes_bytes, uint32_t nsizes,
                               const ccl_validate_options_t *options, ccl_validation_t **out,
                               ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_validate_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_run_options_t, &options->run, err);
    if (ncases == 0 || nsizes == 0 || (uint64_t)ncases * nsizes > 10000)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "%u schedules at %u sizes: 1 to 10000 runs are possible", ncases, nsizes);
    ccl_validation_t *v = calloc(1, sizeof *v);
    if (!v)
        return ccl_fail_nomem(err);
    ccl_arena_init(&v->arena);
    v->repeats = options->repeats ? options->repeats : REPEATS;
    job_t j = {
        .ctx = ctx, .model = model, .cases = cases, .o = options, .v = v, .repeats = v->repeats};
    ccl_status_t status = run(&j, ncases, sizes_bytes, nsizes, err);
    ccl_text_fini(&j.kept);
    if (status != CCL_OK) {
        ccl_validation_destroy(v);
        return status;
    }
    *out = v;
    return CCL_OK;
}

void ccl_validation_destroy(ccl_validation_t *validation) {
    if (!validation)
        return;
    ccl_arena_fini(&validation->arena);
    free(validation);
}
