/* Pictures of a sweep: busbw over size, or time over the value that was swept. */
#include "report/search/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** busbw over size, a curve per cluster. */
static ccl_status_t over_size(const ccl_report_sweep_t *about, ccl_picture_t **out,
                              ccl_error_t *err) {
    uint32_t nsizes = about->cases[0].tuning->nsizes, n = about->ncases;
    ccl_draw_curve_t *curves = calloc(n, sizeof(*curves));
    double *values = calloc((size_t)n * nsizes, sizeof(*values));
    double factor = 0;
    char title[200];
    ccl_status_t status = curves && values ? CCL_OK : ccl_fail_nomem(err);

    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        for (uint32_t s = 0; s < nsizes; s++) {
            const ccl_tune_run_t *run = ccl_i_sweep_best(&about->cases[i], s);

            values[(size_t)i * nsizes + s] = run ? run->result.busbw_GBps : NAN;
            if (run && run->result.time_s > 0)
                factor = run->result.busbw_GBps * 1e9 * run->result.time_s /
                         about->cases[i].tuning->sizes_bytes[s];
        }
        curves[i] = (ccl_draw_curve_t){about->cases[i].name, values + (size_t)i * nsizes};
    }
    snprintf(title, sizeof(title), "%.60s, tuned: %.80s and others", about->collective,
             about->cases[0].name);
    if (status == CCL_OK) {
        ccl_draw_busbw_t plot = {.title = title,
                                 .nsizes = nsizes,
                                 .ncurves = n,
                                 .sizes_bytes = about->cases[0].tuning->sizes_bytes,
                                 .curves = curves,
                                 .factor = factor};
        status = ccl_draw_busbw(&plot, 1, out, err);
    }
    free(curves);
    free(values);
    return status;
}

/* ---------------------------------------------------------------- over values */

/** The knobs and their values: cases by value. */
typedef struct axis {
    ccl_arena_t arena;
    const ccl_report_sweep_t *about;
    const char *unit;
    const char **knobs; /* [nknobs] */
    double *values;     /* [n] ascending */
    uint32_t nknobs, n;
} axis_t;

/** Where the first cluster stands: all of what was; NaN: nowhere. */
static double whole(const axis_t *axis) {
    for (uint32_t k = 0; k < axis->nknobs; k++)
        if (strncmp(axis->knobs[k], "scale:", 6) != 0 && strcmp(axis->unit, "%") != 0)
            return NAN;
    return strcmp(axis->unit, "%") == 0 ? 100 : 1;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static ccl_status_t find_knobs(axis_t *axis, ccl_error_t *err) {
    const ccl_report_sweep_t *about = axis->about;

    axis->knobs = ccl_arena_alloc(&axis->arena, about->ncases + 1u, sizeof(*axis->knobs));
    axis->values = ccl_arena_alloc(&axis->arena, about->ncases + 1u, sizeof(*axis->values));
    if (!axis->knobs || !axis->values)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < about->ncases; i++) {
        const ccl_report_sweep_case_t *c = &about->cases[i];
        uint32_t at = 0;

        if (!c->knob)
            continue;
        if (axis->unit && strcmp(axis->unit, c->unit) != 0)
            return ccl_fail(err, CCL_ERR_USAGE,
                            "the values of %s and %s have different units: draw one at a time, or "
                            "--over size",
                            axis->knobs[0], c->knob);
        axis->unit = c->unit;
        while (at < axis->nknobs && strcmp(axis->knobs[at], c->knob) != 0)
            at++;
        if (at == axis->nknobs)
            axis->knobs[axis->nknobs++] = c->knob;
        axis->values[axis->n++] = c->value;
    }
    if (axis->n > 0 && isfinite(whole(axis)))
        axis->values[axis->n++] = whole(axis);
    qsort(axis->values, axis->n, sizeof(*axis->values), by_value);
    uint32_t n = 0;
    for (uint32_t i = 0; i < axis->n; i++)
        if (i == 0 || axis->values[i] > axis->values[n - 1])
            axis->values[n++] = axis->values[i];
    axis->n = n;
    return CCL_OK;
}

/** A knob's case of that value, or the first cluster where it stands there; NULL: none. */
static const ccl_report_sweep_case_t *case_of(const axis_t *axis, const char *knob, double value) {
    const ccl_report_sweep_t *about = axis->about;

    for (uint32_t i = 0; i < about->ncases; i++)
        if (about->cases[i].knob && strcmp(about->cases[i].knob, knob) == 0 &&
            about->cases[i].value == value)
            return &about->cases[i];
    return value == whole(axis) ? &about->cases[0] : NULL;
}

/** A knob's times at a size, and the bounds below them. */
static ccl_status_t knob_curves(axis_t *axis, const char *knob, uint32_t size,
                                ccl_draw_curve_t *out, ccl_error_t *err) {
    static const char *const names[2] = {"%s", "%s, bound"};

    for (int bound = 0; bound < 2; bound++) {
        double *values = ccl_arena_alloc(&axis->arena, axis->n, sizeof(*values));
        char name[300];

        snprintf(name, sizeof(name), names[bound], knob);
        out[bound] = (ccl_draw_curve_t){ccl_arena_strdup(&axis->arena, name), values};
        if (!values || !out[bound].name)
            return ccl_fail_nomem(err);
        for (uint32_t i = 0; i < axis->n; i++) {
            const ccl_report_sweep_case_t *c = case_of(axis, knob, axis->values[i]);
            const ccl_tune_run_t *run = c ? ccl_i_sweep_best(c, size) : NULL;

            values[i] = !c      ? NAN
                        : bound ? 1e6 * c->tuning->bound_s[size]
                        : run   ? 1e6 * run->result.time_s
                                : NAN;
        }
    }
    return CCL_OK;
}

static ccl_status_t over_value(axis_t *axis, ccl_picture_t **out, ccl_error_t *err) {
    const ccl_report_sweep_t *about = axis->about;
    uint32_t nsizes = about->cases[0].tuning->nsizes;
    ccl_draw_curves_t *plots = ccl_arena_alloc(&axis->arena, nsizes, sizeof(*plots));
    bool share = strcmp(axis->unit, "%") == 0;
    const char *x_name = share         ? "bandwidth (% of what it was)"
                         : *axis->unit ? "bandwidth (GB/s)"
                                       : "value";

    if (!plots)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < nsizes; s++) {
        ccl_draw_curve_t *curves =
            ccl_arena_alloc(&axis->arena, 2u * axis->nknobs, sizeof(*curves));
        char size[40], title[300];

        snprintf(title, sizeof(title), "%.60s of %s on %.100s", about->collective,
                 ccl_format_bytes(about->cases[0].tuning->sizes_bytes[s], size, sizeof(size)),
                 about->cases[0].name);
        plots[s] = (ccl_draw_curves_t){ccl_arena_strdup(&axis->arena, title),
                                       x_name,
                                       "time (us)",
                                       axis->n,
                                       2 * axis->nknobs,
                                       axis->values,
                                       curves};
        if (!curves || !plots[s].title)
            return ccl_fail_nomem(err);
        for (uint32_t k = 0; k < axis->nknobs; k++)
            CCL_TRY(knob_curves(axis, axis->knobs[k], s, curves + 2 * (size_t)k, err));
    }
    return ccl_draw_curves(plots, nsizes, out, err);
}

/** Whether one knob with several values is all there is beside the first cluster. */
static bool one_knob(const ccl_report_sweep_t *about) {
    for (uint32_t i = 1; i < about->ncases; i++)
        if (!about->cases[i].knob || strcmp(about->cases[i].knob, about->cases[1].knob) != 0)
            return false;
    return about->ncases > 2;
}

ccl_status_t ccl_report_draw_sweep(const ccl_report_sweep_t *about, ccl_report_sweep_over_t over,
                                   ccl_picture_t **out, ccl_error_t *err) {
    axis_t axis = {.about = about};
    ccl_status_t status;

    if (over == CCL_REPORT_OVER_SIZE || (over == CCL_REPORT_OVER_AUTO && !one_knob(about)))
        return over_size(about, out, err);
    ccl_arena_init(&axis.arena);
    status = find_knobs(&axis, err);
    if (status == CCL_OK && axis.n < 2)
        status = ccl_fail(err, CCL_ERR_USAGE,
                          "--over value needs a --vary with several numbers, such as "
                          "degrade:nic:0=25%%,50%%");
    if (status == CCL_OK)
        status = over_value(&axis, out, err);
    ccl_arena_fini(&axis.arena);
    return status;
}
