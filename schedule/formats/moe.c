/*
 * Traffic of experts: popularity, placement with copies, a draw for every token, and chunks for the
 * tokens that take the same way.
 */
#include "schedule/formats/demand_i.h"
#include "schedule/formats/moe_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPERTS = 65536 };

static void moe_fini(ccl_i_moe_t *m) {
    free(m->part);
    free(m->bit);
    free(m->server);
    free(m->part_gpus);
    free(m->weight);
    free(m->below);
    free(m->circle);
    free(m->place);
    free(m->first);
    free(m->gpu);
    free(m->ways);
    free(m->tokens);
    free(m->border);
}

/* ---------------------------------------------------------------- popularity */

static ccl_status_t read_weights(ccl_i_moe_t *m, const char *path, ccl_error_t *err) {
    static const char blanks[] = ", \t\r\n";
    char *data = NULL;
    size_t len = 0;
    uint32_t n = 0;
    CCL_TRY(ccl_file_read(path, (size_t)16 << 20, &data, &len, err));
    ccl_status_t status = CCL_OK;
    for (char *at = data, *end; status == CCL_OK; at = end) {
        at += strspn(at, blanks);
        if (!*at)
            break;
        double x = strtod(at, &end);
        if (end == at || (*end && !strchr(blanks, *end)) || !(x >= 0) || !isfinite(x))
            status = ccl_fail(err, CCL_ERR_INPUT, "%.80s: '%.40s' is no popularity: 0 or more",
                              path, at);
        else if (n < m->o->experts)
            m->weight[n] = x;
        n++;
    }
    free(data);
    if (status == CCL_OK && n != m->o->experts)
        status =
            ccl_fail(err, CCL_ERR_INPUT, "%.80s has %u numbers, not one for each of %u experts",
                     path, n, m->o->experts);
    return status;
}

/* Circles of experts that tokens choose together: any ones. */
static void draw_circles(ccl_i_moe_t *m) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, m->o->seed ^ 0x636972);
    for (uint32_t i = 0; i < m->o->experts; i++)
        m->circle[i] = i;
    for (uint32_t i = m->o->experts; i > 1; i--) {
        uint32_t k = ccl_rng_below(&rng, i), e = m->circle[i - 1];
        m->circle[i - 1] = m->circle[k];
        m->circle[k] = e;
    }
    for (uint32_t i = 0; i < m->o->experts; i++)
        m->place[m->circle[i]] = i;
}

/* Hot experts stand anywhere: shuffled by the seed, but for a file's. */
static void shuffle(ccl_i_moe_t *m) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, m->o->seed ^ 0x6d6f65);
    for (uint32_t i = m->o->experts; i > 1; i--) {
        uint32_t k = ccl_rng_below(&rng, i);
        double w = m->weight[i - 1];
        m->weight[i - 1] = m->weight[k];
        m->weight[k] = w;
    }
}

static ccl_status_t find_weights(ccl_i_moe_t *m, ccl_error_t *err) {
    const char *skew = m->o->skew ? m->o->skew : "even";
    uint32_t n = m->o->experts, some = 0;
    const char *colon = strchr(skew, ':');
    char *end = NULL;
    double x = colon ? strtod(colon + 1, &end) : 0;
    bool zipf = strncmp(skew, "zipf:", 5) == 0, gini = strncmp(skew, "gini:", 5) == 0;
    if (zipf || gini) {
        if (end == colon + 1 || *end || !(x >= 0) || x > 10 || (gini && x >= 1))
            return ccl_fail(err, CCL_ERR_INPUT,
                            "skew '%.40s': zipf:T has T from 0 to 10, gini:G a G "
                            "from 0 to below 1",
                            skew);
        for (uint32_t i = 0; i < n; i++)
            /* x^a on [0, 1] has Gini coefficient a / (a + 2). */
            m->weight[i] = zipf ? pow(i + 1.0, -x) : pow((i + 1.0) / n, 2 * x / (1 - x));
        shuffle(m);
    } else if (strcmp(skew, "even") == 0) {
        for (uint32_t i = 0; i < n; i++)
            m->weight[i] = 1;
    } else {
        CCL_TRY(read_weights(m, skew, err));
    }
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->below[i] = sum += m->weight[i];
        some += m->weight[i] > 0;
    }
    if (some < m->o->top_k || !isfinite(sum))
        return ccl_fail(err, CCL_ERR_INPUT, "only %u experts are popular at all: a token needs %u",
                        some, m->o->top_k);
    return CCL_OK;
}

/* ---------------------------------------------------------------- tokens */

void ccl_i_moe_begin(const ccl_i_moe_t *m, uint32_t src, ccl_rng_t *rng) {
    ccl_rng_init(rng, m->o->seed * 0x9e3779b97f4a7c15u + src);
}

/* Another expert of the first one's circle; CCL_NONE: all of them are there. */
static uint32_t draw_near(const ccl_i_moe_t *m, ccl_rng_t *rng, const uint32_t *out, uint32_t n) {
    uint32_t size = m->o->top_k, begin = m->place[out[0]] / size * size, left = 0;
    uint32_t end = begin + size < m->o->experts ? begin + size : m->o->experts;
    uint32_t those[CCL_I_MOE_TOP];
    for (uint32_t i = begin; i < end; i++) {
        bool has = !(m->weight[m->circle[i]] > 0);
        for (uint32_t k = 0; k < n; k++)
            has |= out[k] == m->circle[i];
        if (!has)
            those[left++] = m->circle[i];
    }
    return left ? those[ccl_rng_below(rng, left)] : CCL_NONE;
}

/* Each by popularity among those that are left, or near the first one. */
void ccl_i_moe_draw(const ccl_i_moe_t *m, ccl_rng_t *rng, uint32_t *out) {
    double sum = m->below[m->o->experts - 1];
    for (uint32_t k = 0; k < m->o->top_k;) {
        if (k > 0 && m->o->affinity > 0 && ccl_rng_unit(rng) < m->o->affinity &&
            (out[k] = draw_near(m, rng, out, k)) != CCL_NONE) {
            k++;
            continue;
        }
        double x = ccl_rng_unit(rng) * sum;
        uint32_t lo = 0, hi = m->o->experts - 1;
        bool again = false;
        while (lo < hi) {
            uint32_t mid = (lo + hi) / 2;
            if (m->below[mid] > x)
                hi = mid;
            else
                lo = mid + 1;
        }
        for (uint32_t i = 0; i < k; i++)
            again |= out[i] == lo;
        if (!again && m->weight[lo] > 0)
            out[k++] = lo;
    }
}

/* The sets of GPUs, by parts of servers, that a token goes to. */
static size_t add_token(ccl_i_moe_t *m, const uint32_t *experts, uint32_t src, uint32_t token,
                        size_t at) {
    size_t first = at;
    for (uint32_t k = 0; k < m->o->top_k; k++) {
        uint32_t g = ccl_i_moe_copy(m, m->gpu, experts[k], src, token);
        size_t i = first;
        m->tokens[g]++;
        if (g == src)
            continue;
        uint64_t bit = (uint64_t)1 << m->bit[g];
        while (i < at && (m->ways[i].part != m->part[g] || m->o->each_expert) &&
               !(m->ways[i].part == m->part[g] && m->ways[i].set == bit))
            i++;
        if (i == at)
            m->ways[at++] = (ccl_i_moe_way_t){m->part[g], 0};
        m->ways[i].set |= bit;
    }
    return at;
}

static int by_way(const void *a, const void *b) {
    const ccl_i_moe_way_t *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return x->set < y->set ? -1 : x->set > y->set;
}

static ccl_status_t add_chunk(ccl_i_moe_t *m, ccl_i_demand_t *demand, uint32_t src,
                              const ccl_i_moe_way_t *way, size_t tokens, ccl_moe_report_t *r,
                              ccl_error_t *err) {
    uint32_t gpus[CCL_I_MOE_SET], n = 0;
    double bytes = (double)tokens * m->o->hidden * m->o->element_bytes;
    for (uint32_t b = 0; b < CCL_I_MOE_SET; b++)
        if (way->set >> b & 1)
            gpus[n++] = m->part_gpus[(size_t)way->part * CCL_I_MOE_SET + b];
    if (m->server[gpus[0]] == m->server[src]) {
        r->local_bytes += bytes * n;
    } else {
        r->network_bytes += bytes;
        r->unshared_bytes += bytes * n;
        m->border[m->server[gpus[0]]] += bytes;
    }
    bool back = m->o->combine;
    ccl_chunk_t what = {.sources = back ? gpus : &src,
                        .dests = back ? &src : gpus,
                        .nsources = back ? n : 1,
                        .ndests = back ? 1 : n,
                        .share = bytes,
                        .reduced = back};
    return ccl_i_demand_add(demand, &what, err);
}

static ccl_status_t add_gpu(ccl_i_moe_t *m, ccl_i_demand_t *demand, uint32_t src,
                            ccl_moe_report_t *r, ccl_error_t *err) {
    uint32_t experts[CCL_I_MOE_TOP];
    size_t nways = 0;
    ccl_rng_t rng;
    ccl_i_moe_begin(m, src, &rng);
    for (uint32_t t = 0; t < m->o->tokens; t++) {
        ccl_i_moe_draw(m, &rng, experts);
        nways = add_token(m, experts, src, t, nways);
    }
    qsort(m->ways, nways, sizeof *m->ways, by_way);
    for (size_t i = 0, k; i < nways; i = k) {
        for (k = i + 1; k < nways && by_way(&m->ways[i], &m->ways[k]) == 0; k++)
            ;
        CCL_TRY(add_chunk(m, demand, src, &m->ways[i], k - i, r, err));
    }
    return CCL_OK;
}

static void write_placement(const ccl_i_moe_t *m, ccl_text_t *out) {
    ccl_text_printf(
        out, "{\n  \"format\": \"ccllab-placement-1\",\n  \"nranks\": %u,\n  \"experts\": [", m->n);
    for (uint32_t e = 0; e < m->o->experts; e++) {
        ccl_text_printf(out, "%s[", e ? ", " : "");
        for (uint32_t k = m->first[e]; k < m->first[e + 1]; k++)
            ccl_text_printf(out, "%s%u", k > m->first[e] ? ", " : "", m->gpu[k]);
        ccl_text_printf(out, "]");
    }
    ccl_text_printf(out, "]\n}\n");
}

/* ---------------------------------------------------------------- the demand */

static ccl_status_t check(const ccl_moe_options_t *o, ccl_error_t *err) {
    if (o->experts < 1 || o->experts > MOST_EXPERTS || o->copies > MOST_EXPERTS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%u experts and %u copies: 1 to %d, and at most as many", o->experts,
                        o->copies, MOST_EXPERTS);
    if (o->top_k < 1 || o->top_k > CCL_I_MOE_TOP || o->top_k > o->experts)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a token goes to %u of %u experts: 1 to %d, and not more "
                        "than there are",
                        o->top_k, o->experts, CCL_I_MOE_TOP);
    if (o->hidden < 1 || o->tokens < 1 || o->tokens > 1u << 20)
        return ccl_fail(err, CCL_ERR_INPUT, "%u tokens of %u elements: 1 to 2^20, of 1 or more",
                        o->tokens, o->hidden);
    if (!(o->element_bytes > 0) || o->element_bytes > 64)
        return ccl_fail(err, CCL_ERR_INPUT, "%g bytes an element: more than 0, at most 64",
                        o->element_bytes);
    if (!(o->affinity >= 0) || o->affinity > 1)
        return ccl_fail(err, CCL_ERR_INPUT, "an affinity of %g: 0 to 1", o->affinity);
    return CCL_OK;
}

static ccl_status_t moe_init(ccl_i_moe_t *m, ccl_error_t *err) {
    const ccl_topology_t *topo = m->topo;
    uint32_t *count = calloc(topo->nservers + (size_t)topo->nranks + 1, sizeof *count);
    uint32_t *part = calloc(topo->nservers + (size_t)topo->nranks + 1, sizeof *part);
    size_t n = m->n = topo->nranks;
    m->nreplicas = m->o->experts + m->o->copies;
    m->part = calloc(n, sizeof *m->part);
    m->bit = calloc(n, sizeof *m->bit);
    m->server = calloc(n, sizeof *m->server);
    m->part_gpus = calloc(n * CCL_I_MOE_SET, sizeof *m->part_gpus);
    m->weight = calloc(m->o->experts, sizeof *m->weight);
    m->below = calloc(m->o->experts, sizeof *m->below);
    m->circle = calloc(m->o->experts, sizeof *m->circle);
    m->place = calloc(m->o->experts, sizeof *m->place);
    m->first = calloc(m->o->experts + (size_t)1, sizeof *m->first);
    m->gpu = calloc(m->nreplicas, sizeof *m->gpu);
    m->ways = calloc((size_t)m->o->tokens * m->o->top_k, sizeof *m->ways);
    m->tokens = calloc(n, sizeof *m->tokens);
    m->border = calloc(topo->nservers + n, sizeof *m->border);
    bool ok = count && part && m->part && m->bit && m->server && m->part_gpus && m->weight &&
              m->below && m->circle && m->place && m->first && m->gpu && m->ways && m->tokens &&
              m->border;
    for (uint32_t r = 0; ok && r < n; r++) {
        uint32_t s = topo->devices[topo->rank_device[r]].server;
        s = s == CCL_NONE ? topo->nservers + r : s;
        m->nservers += count[s] == 0;
        if (count[s] % CCL_I_MOE_SET == 0)
            part[s] = m->nparts++;
        m->server[r] = s;
        m->part[r] = part[s];
        m->bit[r] = count[s]++ % CCL_I_MOE_SET;
        m->part_gpus[(size_t)part[s] * CCL_I_MOE_SET + m->bit[r]] = r;
    }
    free(count);
    free(part);
    if (ok)
        draw_circles(m);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static void tell(const ccl_i_moe_t *m, ccl_moe_report_t *r) {
    uint64_t most = 0, sum = 0;
    for (uint32_t g = 0; g < m->n; g++) {
        most = m->tokens[g] > most ? m->tokens[g] : most;
        sum += m->tokens[g];
    }
    r->most_tokens = (double)most * m->n / (double)sum;
    for (uint32_t s = 0; s < m->topo->nservers + m->n; s++)
        r->most_server = fmax(r->most_server, m->border[s]);
    r->most_server = r->network_bytes > 0 ? r->most_server * m->nservers / r->network_bytes : 1;
}

ccl_status_t ccl_moe_demand(const ccl_topology_t *topo, const ccl_moe_options_t *options,
                            ccl_collective_t **out, ccl_moe_report_t *report, ccl_error_t *err) {
    const ccl_moe_options_t defaults = CCL_MOE_OPTIONS_INIT;
    CCL_OPTIONS_TRY(ccl_moe_options_t, options, err);
    ccl_i_moe_t m = {.topo = topo, .o = options ? options : &defaults};
    ccl_i_demand_t demand = {.nranks = topo->nranks};
    ccl_moe_report_t r = {0};
    CCL_TRY(check(m.o, err));
    ccl_status_t status;
    CCL_TRY_GOTO(moe_init(&m, err), status, end);
    CCL_TRY_GOTO(find_weights(&m, err), status, end);
    CCL_TRY_GOTO(ccl_i_moe_copies(&m, err), status, end);
    if (m.o->placement == CCL_MOE_OPTIMISED)
        CCL_TRY_GOTO(ccl_i_moe_optimise(&m, &r, err), status, end);
    else
        CCL_TRY_GOTO(ccl_i_moe_place(&m, m.o->placement, m.gpu, err), status, end);
    for (uint32_t src = 0; src < m.n; src++)
        CCL_TRY_GOTO(add_gpu(&m, &demand, src, &r, err), status, end);
    if (demand.len == 0) {
        status = ccl_fail(err, CCL_ERR_INPUT, "every token stays where it is: nothing to do");
        goto end;
    }
    status = ccl_i_demand_finish(&demand, m.o->combine ? "combine" : "dispatch", out, err);
    tell(&m, &r);
    if (status == CCL_OK && m.o->write)
        write_placement(&m, m.o->write);
    if (status == CCL_OK && report)
        *report = r;
end:
    ccl_i_demand_fini(&demand);
    moe_fini(&m);
    return status;
}

ccl_status_t ccl_demand_write(const ccl_collective_t *coll, ccl_text_t *out, ccl_error_t *err) {
    if (coll->kind != CCL_CUSTOM)
        return ccl_fail(err, CCL_ERR_INPUT, "%s is no demand", coll->name);
    ccl_i_demand_write(coll, 0, out);
    ccl_text_printf(out, "\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
