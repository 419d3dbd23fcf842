/* Constants of a fit as the members of a profile that change times; errors and interpolation of
 * what was measured. */
#include "validate/fit/bench.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ccl_i_fit_json(ccl_text_t *out, const char *text) {
    json_t *value = json_string_nocheck(text ? text : "");
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (dumped)
        ccl_text_add(out, dumped, strlen(dumped));
    else
        out->nomem = true;
    free(dumped);
    json_decref(value);
}

/* A member of an object, behind a comma unless it is the first. */
static void add_key(ccl_text_t *out, bool *first, const char *key) {
    ccl_text_printf(out, "%s\"%s\": ", *first ? "" : ", ", key);
    *first = false;
}

static void add_rate(ccl_text_t *out, bool *first, const char *key, double value) {
    char text[64];
    if (isnan(value))
        return;
    add_key(out, first, key);
    ccl_text_printf(out, "\"%s\"", ccl_format_rate(value, text, sizeof text));
}

static void add_time(ccl_text_t *out, bool *first, const char *key, double value) {
    char text[64];
    if (isnan(value))
        return;
    add_key(out, first, key);
    ccl_text_printf(out, "\"%s\"", ccl_format_time(value, text, sizeof text));
}

static void add_bytes(ccl_text_t *out, bool *first, const char *key, double value) {
    char text[64];
    if (isnan(value))
        return;
    add_key(out, first, key);
    ccl_text_printf(out, "\"%s\"", ccl_format_bytes(value, text, sizeof text));
}

static void add_protocols(const ccl_i_constants_set_t *c, uint32_t k, ccl_text_t *out) {
    bool first = true;
    ccl_text_printf(out, "\"protocols\": {");
    for (uint32_t p = 0; p < CCL_I_FIT_PROTOS; p++) {
        bool of_proto = true;
        if (isnan(c->overhead_s[k][p]) && isnan(c->latency_s[k][p]) && isnan(c->tb_rate_Bps[k][p]))
            continue;
        ccl_text_printf(out, "%s\n        \"%s\": {", first ? "" : ",",
                        ccl_nccl_proto_name((ccl_nccl_proto_t)p));
        add_time(out, &of_proto, "overhead", c->overhead_s[k][p]);
        add_time(out, &of_proto, "latency", c->latency_s[k][p]);
        add_rate(out, &of_proto, "tb_rate", c->tb_rate_Bps[k][p]);
        add_time(out, &of_proto, "message", c->message_s[k][p]);
        add_bytes(out, &of_proto, "message_size", c->message_bytes[k][p]);
        ccl_text_printf(out, "}");
        first = false;
    }
    ccl_text_printf(out, "\n      }");
}

static void add_transports(const ccl_i_bench_t *b, const ccl_i_constants_set_t *c,
                           ccl_text_t *out) {
    ccl_text_printf(out, "  \"transports\": {\n");
    for (uint32_t k = 0; k < b->nkinds; k++) {
        const ccl_i_fit_kind_t *kind = &b->kinds[k];
        ccl_text_printf(out, "    \"%s\": {\n      ", kind->name);
        if (kind->base) {
            bool first = false;
            char slice[64];
            const ccl_transport_t *own = &kind->own[CCL_NCCL_SIMPLE];
            ccl_text_printf(out, "\"slice\": \"%s\", \"slots\": %u, \"direct\": false",
                            ccl_format_bytes(own->slice_bytes, slice, sizeof slice), own->slots);
            if (!isnan(c->wire[k]))
                ccl_text_printf(out, ", \"wire\": %.6g", c->wire[k]);
            add_time(out, &first, "overhead", own->overhead_s);
            add_time(out, &first, "latency", own->latency_s);
            add_rate(out, &first, "tb_rate", own->tb_rate_Bps);
            ccl_text_printf(out, ", ");
        } else if (b->of_nccl) { /* NCCL receives into its own buffer and copies out */
            ccl_text_printf(out, "\"direct\": false,\n      ");
        }
        add_protocols(c, k, out);
        ccl_text_printf(out, "\n    }%s\n", k + 1 < b->nkinds ? "," : "");
    }
    ccl_text_printf(out, "  },\n");
}

static void add_model(const ccl_i_constants_set_t *c, const char *name, ccl_text_t *out) {
    bool first = true, of_model = true;
    ccl_i_fit_json(out, name);
    ccl_text_printf(out, ": {");
    add_rate(out, &of_model, "reduce_rate", c->reduce_Bps);
    add_key(out, &of_model, "protocols");
    ccl_text_printf(out, "{");
    for (uint32_t p = 0; p < CCL_I_FIT_PROTOS; p++) {
        if (isnan(c->launch_s[p]))
            continue;
        bool of_proto = true;
        add_key(out, &first, ccl_nccl_proto_name((ccl_nccl_proto_t)p));
        ccl_text_printf(out, "{");
        add_time(out, &of_proto, "launch", c->launch_s[p]);
        ccl_text_printf(out, "}");
    }
    ccl_text_printf(out, "}}");
}

/* Of a cluster, whether an earlier source's has this model. */
static bool seen_model(const ccl_i_bench_t *b, uint32_t source, uint32_t model) {
    const char *name = b->sources[source].topo->gpu_models[model].name;
    for (uint32_t s = 0; s <= source; s++) {
        const ccl_topology_t *topo = b->sources[s].topo;
        for (uint32_t m = 0; m < (s == source ? model : topo->ngpu_models); m++)
            if (strcmp(topo->gpu_models[m].name, name) == 0)
                return true;
    }
    return false;
}

void ccl_i_fit_text(const ccl_i_bench_t *b, const ccl_i_constants_set_t *c, ccl_text_t *out) {
    bool first = true;
    ccl_text_printf(out, "  \"links\": {");
    for (uint32_t k = 0; k < b->nkinds; k++) {
        if (isnan(c->efficiency[k]))
            continue;
        ccl_text_printf(out, "%s\"%s\": {\"efficiency\": %.6g}", first ? "" : ", ",
                        b->kinds[k].name, c->efficiency[k]);
        first = false;
    }
    ccl_text_printf(out, "},\n");
    add_transports(b, c, out);
    ccl_text_printf(out, "  \"gpu_models\": {");
    first = true;
    for (uint32_t s = 0; s < b->nsources; s++) {
        const ccl_topology_t *topo = b->sources[s].topo;
        for (uint32_t m = 0; m < topo->ngpu_models; m++) {
            if (seen_model(b, s, m))
                continue;
            ccl_text_printf(out, "%s\n    ", first ? "" : ",");
            add_model(c, topo->gpu_models[m].name, out);
            first = false;
        }
    }
    ccl_text_printf(out, "\n  }");
}

/* ---------------------------------------------------------------- errors */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

ccl_error_stats_t ccl_i_error_stats(double *errors, uint32_t n) {
    ccl_error_stats_t out = {n, NAN, NAN, NAN};
    if (n == 0)
        return out;
    qsort(errors, n, sizeof *errors, by_value);
    out.median = n % 2 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
    out.worst = errors[n - 1];
    out.mean = 0;
    for (uint32_t i = 0; i < n; i++)
        out.mean += errors[i] / n;
    return out;
}

static double between(const ccl_i_point_t *a, const ccl_i_point_t *b, double size) {
    double x = log(size / a->size_bytes) / log(b->size_bytes / a->size_bytes);
    return exp(log(a->measured_s) + x * log(b->measured_s / a->measured_s));
}

void ccl_i_interpolate(const ccl_i_bench_t *b, const bool *training, double *out) {
    for (uint32_t i = 0; i < b->npoints; i++) {
        const ccl_i_point_t *p = &b->points[i];
        /* The nearest two on each side: below[0] <= size, above[0] > size. */
        const ccl_i_point_t *below[2] = {NULL, NULL}, *above[2] = {NULL, NULL};
        for (uint32_t k = 0; k < b->npoints; k++) {
            const ccl_i_point_t *q = &b->points[k];
            if (!training[k] || q->source != p->source)
                continue;
            bool low = q->size_bytes <= p->size_bytes;
            const ccl_i_point_t **side = low ? below : above;
            bool nearer = !side[0] || (low ? q->size_bytes > side[0]->size_bytes
                                           : q->size_bytes < side[0]->size_bytes);
            if (nearer) {
                side[1] = side[0];
                side[0] = q;
            } else if (q->size_bytes != side[0]->size_bytes &&
                       (!side[1] || (low ? q->size_bytes > side[1]->size_bytes
                                         : q->size_bytes < side[1]->size_bytes))) {
                side[1] = q;
            }
        }
        out[i] = NAN;
        if (below[0] && below[0]->size_bytes == p->size_bytes)
            out[i] = below[0]->measured_s;
        else if (below[0] && above[0])
            out[i] = between(below[0], above[0], p->size_bytes);
        else if (below[0] && below[1])
            out[i] = between(below[0], below[1], p->size_bytes);
        else if (above[0] && above[1])
            out[i] = between(above[0], above[1], p->size_bytes);
    }
}

bool ccl_i_second_size(const ccl_i_bench_t *b, uint32_t point) {
    const ccl_i_point_t *p = &b->points[point];
    uint32_t smaller = 0;
    for (uint32_t k = 0; k < b->npoints; k++)
        smaller += b->points[k].source == p->source && b->points[k].size_bytes < p->size_bytes;
    return smaller % 2 == 1;
}
