/* Curves of a profile: what measured runs were off by after the fit, and its interpolation. */
#include "topologies/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- reading */

/* [size_bytes, factor, "ring LL128"] and perhaps the measured time */
static ccl_status_t read_point(const ccl_json_at_t *at, ccl_curve_point_t *out, ccl_error_t *err) {
    size_t len = 0;
    CCL_TRY(ccl_json_array(at, true, &len, err));
    if (len != 3 && len != 4)
        return ccl_json_fail(at, err, "a point is [bytes, factor, \"way\", seconds]");
    out->measured_s = NAN;
    ccl_json_at_t size = ccl_json_element(at, 0), factor = ccl_json_element(at, 1);
    ccl_json_at_t way = ccl_json_element(at, 2);
    CCL_TRY(ccl_json_number(&size, true, &out->size_bytes, err));
    CCL_TRY(ccl_json_number(&factor, true, &out->factor, err));
    CCL_TRY(ccl_json_string(&way, true, &out->way, err));
    if (len == 4) {
        ccl_json_at_t measured = ccl_json_element(at, 3);
        CCL_TRY(ccl_json_number(&measured, true, &out->measured_s, err));
    }
    if (!(out->size_bytes > 0) || !(out->factor > 0) || out->measured_s <= 0)
        return ccl_json_fail(at, err, "bytes, factor and seconds are above 0");
    return CCL_OK;
}

static ccl_status_t read_curve(const ccl_json_at_t *at, ccl_arena_t *arena, ccl_curve_t *out,
                               ccl_error_t *err) {
    static const char *const keys[] = {"collective", "type",   "program", "nranks",
                                       "nhosts",     "points", NULL};
    ccl_json_at_t v = ccl_json_member(at, "collective"), points = ccl_json_member(at, "points");
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    *out = (ccl_curve_t){.type = "", .program = ""};
    CCL_TRY(ccl_json_string(&v, true, &out->collective, err));
    v = ccl_json_member(at, "type");
    CCL_TRY(ccl_json_string(&v, false, &out->type, err));
    v = ccl_json_member(at, "program");
    CCL_TRY(ccl_json_string(&v, false, &out->program, err));
    v = ccl_json_member(at, "nranks");
    CCL_TRY(ccl_json_u32(&v, true, UINT32_MAX, &out->nranks, err));
    v = ccl_json_member(at, "nhosts");
    CCL_TRY(ccl_json_u32(&v, false, UINT32_MAX, &out->nhosts, err));
    size_t n = 0;
    CCL_TRY(ccl_json_array(&points, true, &n, err));
    ccl_curve_point_t *all = ccl_arena_alloc(arena, n + 1, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t point = ccl_json_element(&points, i);
        CCL_TRY(read_point(&point, &all[i], err));
        if (i > 0 && all[i].size_bytes < all[i - 1].size_bytes)
            return ccl_json_fail(&point, err, "points stand by size");
    }
    out->points = all;
    out->npoints = (uint32_t)n;
    return CCL_OK;
}

ccl_status_t ccl_i_curves_read(const ccl_json_at_t *root, ccl_arena_t *arena,
                               const ccl_curve_t **out, uint32_t *ncurves, ccl_error_t *err) {
    ccl_json_at_t all = ccl_json_member(root, "curves");
    *ncurves = 0;
    if (!all.value)
        return CCL_OK;
    size_t n = 0;
    CCL_TRY(ccl_json_array(&all, true, &n, err));
    ccl_curve_t *curves = ccl_arena_alloc(arena, n + 1, sizeof *curves);
    if (!curves)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&all, i);
        CCL_TRY(read_curve(&at, arena, &curves[i], err));
    }
    *out = curves;
    *ncurves = (uint32_t)n;
    return CCL_OK;
}

/* ---------------------------------------------------------------- use */

const ccl_curve_t *ccl_curve_find(const ccl_curve_t *curves, uint32_t ncurves,
                                  const ccl_curve_t *like) {
    for (uint32_t i = 0; i < ncurves; i++) {
        const ccl_curve_t *c = &curves[i];
        if (c->nranks == like->nranks && c->nhosts == like->nhosts &&
            strcmp(c->collective, like->collective) == 0 && strcmp(c->type, like->type) == 0 &&
            strcmp(c->program, like->program) == 0)
            return c;
    }
    return NULL;
}

/* The nearest point on one side. @param way  NULL: of any. */
static const ccl_curve_point_t *nearest(const ccl_curve_t *c, double size_bytes, bool below,
                                        const char *way) {
    const ccl_curve_point_t *best = NULL;
    for (uint32_t i = 0; i < c->npoints; i++) {
        const ccl_curve_point_t *p = &c->points[i];
        if ((p->size_bytes <= size_bytes) != below || (way && strcmp(p->way, way) != 0))
            continue;
        if (!best || (p->size_bytes > best->size_bytes) == below)
            best = p;
    }
    return best;
}

/* Between two values over the logarithm of the size. */
static double between(const ccl_curve_point_t *low, const ccl_curve_point_t *high, double a,
                      double b, double size_bytes) {
    double x = log(size_bytes / low->size_bytes) / log(high->size_bytes / low->size_bytes);
    return a * pow(b / a, x);
}

static double factor_of(const ccl_curve_t *curve, double size_bytes, const char *way) {
    const ccl_curve_point_t *low = NULL, *high = NULL;
    /* A program under another protocol is another run; NCCL changes its choice within one. */
    for (int alike = 1; alike >= (curve->program[0] != 0) && !low && !high; alike--) {
        low = nearest(curve, size_bytes, true, alike ? way : NULL);
        high = nearest(curve, size_bytes, false, alike ? way : NULL);
    }
    if (!low || !high)
        return low ? low->factor : high ? high->factor : 1;
    return between(low, high, low->factor, high->factor, size_bytes);
}

double ccl_curve_time(const ccl_curve_t *curve, double size_bytes, const char *way,
                      double predicted_s) {
    if (!curve)
        return predicted_s;
    const ccl_curve_point_t *low = nearest(curve, size_bytes, true, NULL);
    const ccl_curve_point_t *high = nearest(curve, size_bytes, false, NULL);
    double time_s = predicted_s * factor_of(curve, size_bytes, way);
    if (curve->program[0] || !low || !high || isnan(low->measured_s + high->measured_s) ||
        (strcmp(low->way, way) == 0 && strcmp(high->way, way) == 0))
        return time_s;
    return sqrt(time_s * between(low, high, low->measured_s, high->measured_s, size_bytes));
}
