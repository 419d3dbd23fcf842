/* Curves of what measured runs are off by, made of the points that were fitted. */
#include "validate/fit/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ccl_i_curve_way(const ccl_i_point_t *p, char *out, size_t out_len) {
    const char *proto = ccl_nccl_proto_name((ccl_nccl_proto_t)p->proto);
    if (p->algo < 0)
        snprintf(out, out_len, "%s", proto);
    else
        snprintf(out, out_len, "%s %s", ccl_nccl_algo_name((ccl_nccl_algo_t)p->algo), proto);
}

/* Whose points make one curve: runs of the same on any three machines are repeats. */
static ccl_curve_t like(const ccl_i_bench_t *b, uint32_t source) {
    const ccl_measured_source_t *s = &b->sources[source];
    return (ccl_curve_t){
        .collective = ccl_collective_kind_name(s->program ? s->program->coll->kind : s->run->kind),
        .type = s->run->type,
        .program = s->run->program,
        .nranks = s->topo->nranks,
        .nhosts = s->run->nhosts};
}

static int by_size(const void *a, const void *b) {
    const ccl_curve_point_t *x = a, *y = b;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    return strcmp(x->way, y->way);
}

/* Points of the same size and way become one, their geometric mean. */
static uint32_t merge(ccl_curve_point_t *points, uint32_t n) {
    uint32_t kept = 0;
    qsort(points, n, sizeof *points, by_size);
    for (uint32_t i = 0; i < n;) {
        double sum = 0, times = 0;
        uint32_t first = i;
        for (; i < n && by_size(&points[first], &points[i]) == 0; i++) {
            sum += log(points[i].factor);
            times += log(points[i].measured_s);
        }
        points[kept] = points[first];
        points[kept].measured_s = exp(times / (i - first));
        points[kept++].factor = exp(sum / (i - first));
    }
    return kept;
}

static ccl_status_t make_one(const ccl_i_bench_t *b, const bool *training,
                             const double *predicted_s, ccl_curve_t *curve, ccl_arena_t *arena,
                             ccl_error_t *err) {
    ccl_curve_point_t *points = ccl_arena_alloc(arena, b->npoints + (size_t)1, sizeof *points);
    uint32_t n = 0;
    if (!points)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < b->npoints; i++) {
        const ccl_i_point_t *p = &b->points[i];
        ccl_curve_t own = like(b, p->source);
        char way[40];
        if (!training[i] || !(predicted_s[i] > 0) || !ccl_curve_find(&own, 1, curve))
            continue;
        ccl_i_curve_way(p, way, sizeof way);
        points[n] = (ccl_curve_point_t){p->size_bytes, p->measured_s / predicted_s[i],
                                        ccl_arena_strdup(arena, way), p->measured_s};
        if (!points[n++].way)
            return ccl_fail_nomem(err);
    }
    curve->points = points;
    curve->npoints = merge(points, n);
    return CCL_OK;
}

ccl_status_t ccl_i_curves_make(const ccl_i_bench_t *b, const bool *training,
                               const double *predicted_s, ccl_arena_t *arena,
                               const ccl_curve_t **out, uint32_t *ncurves, ccl_error_t *err) {
    ccl_curve_t *curves = ccl_arena_alloc(arena, b->nsources + (size_t)1, sizeof *curves);
    uint32_t n = 0;
    if (!curves)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < b->nsources; s++) {
        ccl_curve_t one = like(b, s);
        if (ccl_curve_find(curves, n, &one))
            continue;
        CCL_TRY(make_one(b, training, predicted_s, &one, arena, err));
        if (one.npoints)
            curves[n++] = one;
    }
    *out = curves;
    *ncurves = n;
    return CCL_OK;
}

uint32_t ccl_i_correct(const ccl_i_bench_t *b, const ccl_curve_t *curves, uint32_t ncurves,
                       const double *predicted_s, double *out) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < b->npoints; i++) {
        const ccl_i_point_t *p = &b->points[i];
        ccl_curve_t own = like(b, p->source);
        const ccl_curve_t *curve = ccl_curve_find(curves, ncurves, &own);
        char way[40];
        ccl_i_curve_way(p, way, sizeof way);
        found += curve != NULL;
        out[i] = ccl_curve_time(curve, p->size_bytes, way, predicted_s[i]);
    }
    return found;
}

void ccl_i_curves_text(const ccl_curve_t *curves, uint32_t n, ccl_text_t *out) {
    ccl_text_printf(out, "  \"curves\": [");
    for (uint32_t c = 0; c < n; c++) {
        ccl_text_printf(out, "%s\n    {\"collective\": ", c ? "," : "");
        ccl_i_fit_json(out, curves[c].collective);
        ccl_text_printf(out, ", \"type\": ");
        ccl_i_fit_json(out, curves[c].type);
        ccl_text_printf(out, ", \"program\": ");
        ccl_i_fit_json(out, curves[c].program);
        ccl_text_printf(out, ", \"nranks\": %u, \"nhosts\": %u, \"points\": [", curves[c].nranks,
                        curves[c].nhosts);
        for (uint32_t i = 0; i < curves[c].npoints; i++) {
            const ccl_curve_point_t *p = &curves[c].points[i];
            ccl_text_printf(out, "%s\n      [%.17g, %.6g, \"%s\", %.6g]", i ? "," : "",
                            p->size_bytes, p->factor, p->way, p->measured_s);
        }
        ccl_text_printf(out, "]}");
    }
    ccl_text_printf(out, "\n  ]");
}
