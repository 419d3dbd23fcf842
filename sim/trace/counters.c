/* Counters of a trace: how fast links are used, how many blocks of a GPU are busy. */
#include "sim/trace/trace.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_LINKS = 256, MOST_VALUES = 40000, MOST_PARTS = 512, LEAST_PARTS = 32 };

typedef struct counters {
    uint32_t n, parts;
    double part_s;
    float *sums; /* [n][parts] */
} counters_t;

static ccl_status_t counters_init(const ccl_i_trace_writer_t *w, uint32_t n, counters_t *out,
                                  ccl_error_t *err) {
    uint32_t parts = n ? MOST_VALUES / n : 1;

    parts = parts > MOST_PARTS ? MOST_PARTS : parts < LEAST_PARTS ? LEAST_PARTS : parts;
    *out = (counters_t){n, parts, w->time_s / parts, NULL};
    out->sums = calloc((size_t)n * parts + 1, sizeof(*out->sums));
    return out->sums ? CCL_OK : ccl_fail_nomem(err);
}

/** `rate` from one time to another. */
static void give(counters_t *c, uint32_t row, double from_s, double to_s, double rate) {
    double from = from_s / c->part_s, to = to_s / c->part_s;

    for (uint32_t i = (uint32_t)fmax(from, 0); i < c->parts && i < to; i++)
        c->sums[(size_t)row * c->parts + i] +=
            (float)(rate * (fmin(to, i + 1.0) - fmax(from, (double)i)));
}

/** Values where they change. */
static void write_row(ccl_i_trace_writer_t *w, const counters_t *c, uint32_t row, uint32_t pid,
                      const char *name, const char *unit) {
    double last = -1;

    for (uint32_t i = 0; i <= c->parts; i++) {
        double value = i < c->parts ? c->sums[(size_t)row * c->parts + i] : 0;

        value = round(value * 100) / 100;
        if (value == last)
            continue;
        last = value;
        ccl_text_printf(w->out, ",\n{\"ph\":\"C\",\"pid\":%u,\"name\":\"", pid);
        ccl_i_trace_string(w->out, name);
        ccl_text_printf(w->out, "\",\"ts\":%.8g,\"args\":{\"%s\":%g}}", i * c->part_s * 1e6, unit,
                        value);
    }
}

typedef struct used {
    uint32_t link;
    double bytes;
} used_t;

static int by_bytes(const void *a, const void *b) {
    const used_t *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->link < y->link ? -1 : x->link > y->link;
}

/** The busiest links by use; place of each in `row_of`. */
static ccl_status_t busiest(ccl_i_trace_writer_t *w, uint32_t *row_of, used_t **out,
                            uint32_t *n_out, uint32_t *used_out, ccl_error_t *err) {
    const ccl_topology_t *topo = w->about->topo;
    used_t *list = ccl_arena_alloc(&w->arena, topo->nlinks + (size_t)1, sizeof(*list));
    uint32_t n = 0;

    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        row_of[i] = CCL_NONE;
        if (w->about->result->links[i].bytes > 0)
            list[n++] = (used_t){i, w->about->result->links[i].utilization};
    }
    qsort(list, n, sizeof(*list), by_bytes);
    *used_out = n;
    *n_out = n < MOST_LINKS ? n : MOST_LINKS;
    for (uint32_t i = 0; i < *n_out; i++)
        row_of[list[i].link] = i;
    *out = list;
    return CCL_OK;
}

static ccl_status_t sum_links(ccl_i_trace_writer_t *w, const uint32_t *row_of, counters_t *c,
                              ccl_error_t *err) {
    ccl_routes_t *routes = ccl_routes_create(w->about->topo);
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);

    for (size_t i = w->npasses; status == CCL_OK && i < w->n; i++) {
        const ccl_trace_span_t *s = &w->rows[i];
        const ccl_route_t *route = NULL;

        if (!(s->end_s > s->start_s))
            continue;
        status = ccl_sim_flow_route(w->about->program, routes, s->rank, s->other, s->channel,
                                    &route, err);
        for (uint32_t k = 0; status == CCL_OK && route && k < route->nlinks; k++)
            if (row_of[route->links[k]] != CCL_NONE)
                give(c, row_of[route->links[k]], s->start_s, s->end_s,
                     s->bytes / (s->end_s - s->start_s) / 1e9);
    }
    ccl_routes_destroy(routes);
    return status;
}

ccl_status_t ccl_i_trace_link_counters(ccl_i_trace_writer_t *w, ccl_error_t *err) {
    const ccl_topology_t *topo = w->about->topo;
    uint32_t *row_of, n = 0, nused = 0;
    counters_t c = {0};
    used_t *list;
    ccl_status_t status;

    if (!topo || !w->about->program || !w->about->result || w->npasses == w->n)
        return CCL_OK;
    row_of = ccl_arena_alloc(&w->arena, topo->nlinks + (size_t)1, sizeof(*row_of));
    if (!row_of)
        return ccl_fail_nomem(err);
    CCL_TRY(busiest(w, row_of, &list, &n, &nused, err));
    CCL_TRY(counters_init(w, n, &c, err));
    status = sum_links(w, row_of, &c, err);
    if (status == CCL_OK && n > 0) {
        ccl_text_printf(w->out,
                        ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":"
                        "\"links, GB/s (%s%u of %u used)\"}}",
                        TRACE_LINKS, n < nused ? "the busiest " : "", n, nused);
        for (uint32_t i = 0; i < n; i++) {
            const ccl_link_t *link = &topo->links[list[i].link];
            char name[300];

            snprintf(name, sizeof(name), "%.140s to %.140s", topo->devices[link->from].id,
                     topo->devices[link->to].id);
            write_row(w, &c, i, TRACE_LINKS, name, "GB/s");
        }
    }
    free(c.sums);
    return status;
}

ccl_status_t ccl_i_trace_busy_counters(ccl_i_trace_writer_t *w, ccl_error_t *err) {
    counters_t c = {0};

    if (w->nshown == w->nranks)
        return CCL_OK;
    CCL_TRY(counters_init(w, w->nranks, &c, err));
    for (size_t i = 0; i < w->npasses; i++)
        if (!w->shown[w->rows[i].rank])
            give(&c, w->rows[i].rank, w->rows[i].start_s, w->rows[i].end_s, 1);
    ccl_text_printf(w->out,
                    ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":"
                    "\"busy blocks of the %u GPUs that are not shown in full\"}}",
                    TRACE_OTHERS, w->nranks - w->nshown);
    for (uint32_t r = 0; r < w->nranks; r++) {
        char name[32];

        if (w->shown[r])
            continue;
        snprintf(name, sizeof(name), "GPU %u", r);
        write_row(w, &c, r, TRACE_OTHERS, name, "busy");
    }
    free(c.sums);
    return CCL_OK;
}
