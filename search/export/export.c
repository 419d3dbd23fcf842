/*
 * What a tuning has found, for libraries that run it: programs per range of sizes, and ring orders
 * for NCCL_GRAPH_FILE.
 */
#include "search/export/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- programs */

typedef struct timed {
    double time_s;
    uint32_t run;
} timed_t;

static int by_time(const void *a, const void *b) {
    const timed_t *x = a, *y = b;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

uint32_t ccl_export_plan_multiple(const ccl_program_t *program) {
    uint32_t most = 1;
    for (uint32_t r = 0; r < program->nranks; r++) {
        for (uint32_t b = 0; b < CCL_BUF_SCRATCH; b++) {
            uint32_t len = program->buffer_len[3 * (size_t)r + b];
            most = len > most ? len : most;
        }
    }
    return 16 * most;
}

/* Its executor ends a program that calls it with a message that does not divide. */
static ccl_status_t fits(const ccl_topology_t *topo, const ccl_program_t *program,
                         double size_bytes, ccl_error_t *err) {
    uint32_t multiple = ccl_export_plan_multiple(program);
    ccl_text_t text = {0};
    if (fmod(size_bytes, multiple) != 0)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "MSCCL++ runs it with messages that are multiples of %u bytes, which %.0f "
                        "is not",
                        multiple, size_bytes);
    ccl_status_t status = ccl_program_write_mscclpp(program, topo, &text, err);
    bool as_simple = status == CCL_OK && strcmp(program->proto, "Simple") != 0 &&
                     !strstr(text.data, "\"protocol\": \"LL\"");
    ccl_text_fini(&text);
    return as_simple ? ccl_fail(err, CCL_UNSUPPORTED, "as a plan it is no faster than with Simple")
                     : status;
}

/* What is looked for: a program for a size and those around it. */
typedef struct search {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_tuning_t *tuning;
    const ccl_tune_target_t *target;
    uint32_t size;
    double min_bytes, max_bytes;
} search_t;

/* What is tried of a point: it as it is, or otherwise. */
typedef struct attempt {
    uint32_t run;
    const char *proto; /* NULL: the point's */
    uint32_t channels; /* 0: the point's */
} attempt_t;

/* A point's program, kept where it is the fastest so far. @param fits_out  it is one that fits. */
static ccl_status_t try_point(const search_t *s, attempt_t at, ccl_export_t *out, bool *fits_out,
                              ccl_error_t *err) {
    double values[CCL_KNOBS];
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_tune_target_t target = *s->target;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_topology_t *own = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    memcpy(values, s->tuning->points[s->tuning->runs[at.run].point].values, sizeof values);
    if (at.channels)
        values[CCL_KNOB_CHANNELS] = at.channels;
    ccl_status_t status = ccl_tune_cluster(s->topo, values, &own, &why);
    const ccl_topology_t *topo = own ? own : s->topo;
    sim.size_bytes = s->tuning->sizes_bytes[s->size];
    target.proto = at.proto;
    if (status == CCL_OK)
        status = ccl_tune_program(s->ctx, topo, s->want, values, sim.size_bytes, &target, &program,
                                  NULL, &why);
    if (status == CCL_OK) {
        program->min_bytes = s->min_bytes;
        program->max_bytes = s->max_bytes;
        if (s->target->plan)
            status = fits(s->topo, program, sim.size_bytes, &why);
    }
    *fits_out = status == CCL_OK;
    if (status == CCL_OK)
        status = ccl_sim_program(s->ctx, topo, NULL, program, &sim, &result, &why);
    if (status == CCL_OK && result->time_s < out->time_s) {
        ccl_program_destroy(out->program);
        *out = (ccl_export_t){program, at.run, result->time_s};
        program = NULL;
    }
    ccl_program_destroy(program);
    ccl_sim_result_destroy(result);
    ccl_topology_destroy(own);
    if (status == CCL_UNSUPPORTED || status == CCL_DEADLOCK)
        return CCL_OK; /* beyond its limits */
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

/*
 * For MSCCL++, which has the protocols Simple and LL. Where a message does not divide, as by 14
 * rings, a power of two of channels may.
 */
static ccl_status_t try_plans(const search_t *s, uint32_t run, bool ll, ccl_export_t *out,
                              ccl_error_t *err) {
    static const uint32_t channels[] = {0, 16, 8, 4, 2, 1};
    bool ok = false;
    for (size_t c = 0; c < CCL_ARRAY_LEN(channels) && !ok; c++) {
        CCL_TRY(try_point(s, (attempt_t){run, "Simple", channels[c]}, out, &ok, err));
        if (ok && ll)
            CCL_TRY(try_point(s, (attempt_t){run, "LL", channels[c]}, out, &ok, err));
    }
    return CCL_OK;
}

/* The fastest at a size that fits; NULL: none. */
static ccl_status_t best_program(const search_t *s, ccl_export_t *out, ccl_error_t *err) {
    enum { MOST = 12 };
    const ccl_tuning_t *tuning = s->tuning;
    timed_t *list = malloc((tuning->nruns + (size_t)1) * sizeof *list);
    bool ll = s->target->plan && ccl_model_has_protocol(s->topo, "LL");
    uint32_t n = 0;
    ccl_status_t status = list ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; list && i < tuning->nruns; i++)
        if (tuning->runs[i].size == s->size && !tuning->runs[i].estimate &&
            tuning->runs[i].result.status == CCL_OK)
            list[n++] = (timed_t){tuning->runs[i].result.time_s, i};
    if (list)
        qsort(list, n, sizeof *list, by_time);
    out->time_s = INFINITY;
    for (uint32_t i = 0, tried = 0; i < n && tried < MOST && status == CCL_OK; i++) {
        const double *values = tuning->points[tuning->runs[list[i].run].point].values;
        /* None is faster than as it was tuned, but for chance: done when that is slower. */
        if (list[i].time_s > out->time_s || !ccl_tune_can_be_had(values) ||
            (i > 0 && list[i].time_s == list[i - 1].time_s))
            continue;
        tried++;
        bool ok;
        if (s->target->plan)
            status = try_plans(s, list[i].run, ll, out, err);
        else
            status = try_point(s, (attempt_t){.run = list[i].run}, out, &ok, err);
    }
    free(list);
    return status;
}

void ccl_exports_destroy(ccl_export_t *exports, uint32_t n) {
    for (uint32_t i = 0; exports && i < n; i++)
        ccl_program_destroy(exports[i].program);
    free(exports);
}

/* From half way (in the logarithm) to the size before, to just under that to the next. */
static double boundary(const ccl_tuning_t *t, uint32_t size) {
    return ceil(sqrt(t->sizes_bytes[size - 1]) * sqrt(t->sizes_bytes[size]));
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* @param search  but for the size */
static ccl_status_t export(search_t search, ccl_export_t **out, uint32_t *n_out, ccl_error_t *err) {
    const ccl_tuning_t *tuning = search.tuning;
    ccl_export_t *list = calloc(tuning->nsizes + (size_t)1, sizeof *list);
    uint32_t n = 0;
    ccl_status_t status = list ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t s = 1; s < tuning->nsizes && status == CCL_OK; s++)
        if (ascending(&tuning->sizes_bytes[s - 1], &tuning->sizes_bytes[s]) >= 0)
            status = ccl_fail(err, CCL_ERR_INPUT, "ranges of sizes need sizes in ascending order");
    for (uint32_t s = 0; s < tuning->nsizes && status == CCL_OK; s++) {
        ccl_export_t next = {0};
        double first = s > 0 ? boundary(tuning, s) : tuning->sizes_bytes[0];
        double last = s + 1 < tuning->nsizes ? boundary(tuning, s + 1) - 1 : tuning->sizes_bytes[s];
        search.size = s;
        search.min_bytes = first;
        search.max_bytes = last;
        status = best_program(&search, &next, err);
        if (!next.program || status != CCL_OK) {
            ccl_program_destroy(next.program);
            continue;
        }
        if (n > 0 && list[n - 1].program->max_bytes + 1 == first) { /* the same goes on? */
            double min_bytes = list[n - 1].program->min_bytes;
            next.program->min_bytes = min_bytes;
            next.program->max_bytes = list[n - 1].program->max_bytes;
            bool same = ccl_program_equal(list[n - 1].program, next.program);
            next.program->min_bytes = same ? min_bytes : first;
            next.program->max_bytes = last;
            if (same) {
                ccl_program_destroy(list[--n].program);
                list[n].program = NULL;
            }
        }
        list[n++] = next;
    }
    if (status != CCL_OK) {
        ccl_exports_destroy(list, n);
        return status;
    }
    *out = list;
    *n_out = n;
    return CCL_OK;
}

ccl_status_t ccl_export_programs(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *want, const ccl_tuning_t *tuning,
                                 ccl_executor_t executor, ccl_export_t **out, uint32_t *n_out,
                                 ccl_error_t *err) {
    ccl_tune_target_t target = {.executor = executor};
    return export((search_t){ctx, topo, want, tuning, &target, 0, 0, 0}, out, n_out, err);
}

ccl_status_t ccl_export_plans(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_collective_t *want, const ccl_tuning_t *tuning,
                              bool in_place, ccl_export_t **out, uint32_t *n_out,
                              ccl_error_t *err) {
    ccl_tune_target_t target = {.plan = true, .out_of_place = !in_place};
    return export((search_t){ctx, topo, want, tuning, &target, 0, 0, 0}, out, n_out, err);
}

/* ---------------------------------------------------------------- ring orders */

/* Order of the GPUs of a server as ring `channel` passes them, and the NICs at both ends. */
typedef struct walk {
    uint32_t *ranks, n, in_nic, out_nic; /* CCL_NONE: no network */
    double slowest_Bps[2];               /* inside, between servers */
} walk_t;

static uint32_t server_of(const ccl_topology_t *topo, uint32_t rank) {
    return topo->devices[topo->rank_device[rank]].server;
}

/* NIC of a server on a route: its number among those of the server. */
static uint32_t nic_on(const ccl_topology_t *topo, const ccl_route_t *route, uint32_t server) {
    for (uint32_t i = 0; i <= route->nlinks; i++) {
        uint32_t device = i < route->nlinks ? topo->links[route->links[i]].from
                                            : topo->links[route->links[i - 1]].to;
        uint32_t number = 0;
        if (topo->devices[device].kind != CCL_DEVICE_NIC || topo->devices[device].server != server)
            continue;
        for (uint32_t d = 0; d < device; d++)
            number += topo->devices[d].kind == CCL_DEVICE_NIC && topo->devices[d].server == server;
        return number;
    }
    return CCL_NONE;
}

typedef struct rings {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    uint32_t nchannels;
    uint32_t *next; /* [nchannels][nranks] */
    double *load;   /* [nlinks] rings on it */
} rings_t;

static ccl_status_t find_rings(const ccl_schedule_t *ring, rings_t *r, ccl_error_t *err) {
    uint32_t n = r->topo->nranks;
    r->nchannels = ring->nchannels;
    r->next = malloc(((size_t)n * r->nchannels + 1) * sizeof *r->next);
    r->load = calloc(r->topo->nlinks + (size_t)1, sizeof *r->load);
    if (!r->next || !r->load)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < (size_t)n * r->nchannels; i++)
        r->next[i] = CCL_NONE;
    for (uint32_t i = 0; i < ring->ntransfers; i++) {
        const ccl_transfer_t *t = &ring->transfers[i];
        uint32_t *next = &r->next[(size_t)t->channel * n + t->src];
        const ccl_route_t *route = NULL;
        if (*next != CCL_NONE && *next != t->dst)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "rank %u sends to two ranks on ring %u: its walk is no ring of NCCL",
                            t->src, t->channel);
        if (*next != CCL_NONE)
            continue;
        *next = t->dst;
        CCL_TRY(ccl_routes_get(r->routes, t->src, t->dst, t->channel, &route, err));
        for (uint32_t l = 0; l < route->nlinks; l++)
            r->load[route->links[l]]++;
    }
    return CCL_OK;
}

/* @param out  of one server; false in *whole_out: the ring comes through the server twice. */
static ccl_status_t walk_of(const rings_t *r, uint32_t channel, uint32_t server, walk_t *out,
                            bool *whole_out, ccl_error_t *err) {
    const ccl_topology_t *topo = r->topo;
    const uint32_t *next = r->next + (size_t)channel * topo->nranks;
    uint32_t first = CCL_NONE, entries = 0, local = 0;
    out->n = 0;
    out->in_nic = out->out_nic = CCL_NONE;
    out->slowest_Bps[0] = out->slowest_Bps[1] = INFINITY;
    for (uint32_t a = 0; a < topo->nranks; a++) {
        uint32_t b = next[a];
        bool from = server_of(topo, a) == server,
             to = b != CCL_NONE && server_of(topo, b) == server;
        const ccl_route_t *route = NULL;
        local += from;
        if (b == CCL_NONE || (!from && !to))
            continue;
        CCL_TRY(ccl_routes_get(r->routes, a, b, channel, &route, err));
        double *slowest = &out->slowest_Bps[from != to];
        for (uint32_t l = 0; l < route->nlinks; l++)
            *slowest = fmin(*slowest,
                            topo->links[route->links[l]].bandwidth_Bps / r->load[route->links[l]]);
        if (from && to) {
            first = first == CCL_NONE ? a : first;
        } else if (to) {
            entries++;
            first = b;
            out->in_nic = nic_on(topo, route, server);
        } else {
            out->out_nic = nic_on(topo, route, server);
        }
    }
    if (entries == 1)
        for (uint32_t a = 0; a < topo->nranks; a++) /* it begins where the ring comes in */
            if (next[a] != CCL_NONE && server_of(topo, a) != server &&
                server_of(topo, next[a]) == server)
                first = next[a];
    for (uint32_t at = first; at != CCL_NONE && out->n < local && server_of(topo, at) == server;
         at = next[at])
        out->ranks[out->n++] = at;
    *whole_out = entries <= 1 && out->n == local && local > 0;
    return CCL_OK;
}

static ccl_status_t write_graph(const rings_t *r, uint32_t server, ccl_text_t *out,
                                ccl_error_t *err) {
    const ccl_topology_t *topo = r->topo;
    ccl_text_t channels = {0};
    walk_t walk = {.ranks = malloc((topo->nranks + (size_t)1) * sizeof *walk.ranks)};
    double slowest_Bps[2] = {INFINITY, INFINITY};
    uint32_t written = 0;
    ccl_status_t status = walk.ranks ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t c = 0; c < r->nchannels && status == CCL_OK; c++) {
        bool whole = true; /* a channel is one of all servers, or of none */
        for (uint32_t s = 0; s < topo->nservers && whole && status == CCL_OK; s++)
            if (s != server)
                status = walk_of(r, c, s, &walk, &whole, err);
        if (status == CCL_OK && whole)
            status = walk_of(r, c, server, &walk, &whole, err);
        if (status != CCL_OK || !whole)
            continue;
        written++;
        for (int i = 0; i < 2; i++)
            slowest_Bps[i] = fmin(slowest_Bps[i], walk.slowest_Bps[i]);
        ccl_text_printf(&channels, "    <channel>\n");
        if (walk.in_nic != CCL_NONE)
            ccl_text_printf(&channels, "      <net dev=\"%u\"/>\n", walk.in_nic);
        for (uint32_t i = 0; i < walk.n; i++)
            ccl_text_printf(&channels, "      <gpu dev=\"%u\"/>\n",
                            topo->rank_local_index[walk.ranks[i]]);
        if (walk.out_nic != CCL_NONE)
            ccl_text_printf(&channels, "      <net dev=\"%u\"/>\n", walk.out_nic);
        ccl_text_printf(&channels, "    </channel>\n");
    }
    if (status == CCL_OK && written == 0)
        status = ccl_fail(err, CCL_UNSUPPORTED, "no ring passes server %.60s in one go",
                          server == CCL_NONE ? "?" : topo->servers[server]);
    if (status == CCL_OK)
        ccl_text_printf(out,
                        "<graphs version=\"1\">\n"
                        "  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"%u\" "
                        "speedintra=\"%.3g\" speedinter=\"%.3g\" latencyinter=\"0\" "
                        "typeintra=\"NVL\" typeinter=\"PXB\" samechannels=\"0\">\n%s"
                        "  </graph>\n</graphs>\n",
                        written, (isfinite(slowest_Bps[0]) ? slowest_Bps[0] : slowest_Bps[1]) / 1e9,
                        (isfinite(slowest_Bps[1]) ? slowest_Bps[1] : slowest_Bps[0]) / 1e9,
                        channels.data ? channels.data : "");
    if (status == CCL_OK && (out->nomem || channels.nomem))
        status = ccl_fail_nomem(err);
    ccl_text_fini(&channels);
    free(walk.ranks);
    return status;
}

ccl_status_t ccl_export_nccl_graph(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   uint32_t server, uint32_t channels, ccl_text_t *out,
                                   ccl_error_t *err) {
    ccl_ctx_t inner = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *ring = NULL;
    rings_t r = {.topo = topo, .routes = ccl_routes_create(topo)};
    ccl_status_t status = r.routes ? CCL_OK : ccl_fail_nomem(err);
    options.channels = channels;
    if (status == CCL_OK)
        status = ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, err);
    if (status == CCL_OK)
        status = ccl_synthesize(&inner, "ring", topo, r.routes, want, &options, &ring, err);
    if (status == CCL_OK)
        status = find_rings(ring, &r, err);
    if (status == CCL_OK)
        status = write_graph(&r, server, out, err);
    free(r.next);
    free(r.load);
    ccl_schedule_destroy(ring);
    ccl_collective_destroy(want);
    ccl_routes_destroy(r.routes);
    return status;
}
