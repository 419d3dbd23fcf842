/*
 * Traffic of experts: popularity, placement with copies, a draw for every token, and chunks for the
 * tokens that take the same way.
 */
#include "schedule/formats/moe.h"
#include "schedule/formats/demand_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* GPUs of a server in one set: bits of a word. Larger servers are taken in parts. */
enum { SET_GPUS = 64, MOST_EXPERTS = 65536, MOST_TOP = 64 };

typedef struct way {
    uint32_t part; /* of a server */
    uint64_t set;  /* of its GPUs */
} way_t;

typedef struct moe {
    const ccl_topology_t *topo;
    const ccl_moe_options_t *o;
    uint32_t n, nparts, nreplicas, nservers;
    uint32_t *part, *bit, *server; /* [n] of a GPU */
    uint32_t *part_gpus;           /* [nparts][SET_GPUS] */
    double *weight, *below;        /* [experts] popularity, and its sum up to here */
    uint32_t *first, *gpu;         /* [experts + 1] into gpu: where the expert's copies are */
    way_t *ways;                   /* of the tokens of a GPU */
    uint64_t *tokens;              /* [n] for experts of a GPU */
    double *border;                /* [nservers] bytes in */
} moe_t;

static void moe_fini(moe_t *m) {
    free(m->part);
    free(m->bit);
    free(m->server);
    free(m->part_gpus);
    free(m->weight);
    free(m->below);
    free(m->first);
    free(m->gpu);
    free(m->ways);
    free(m->tokens);
    free(m->border);
}

/* ---------------------------------------------------------------- popularity */

static ccl_status_t read_weights(moe_t *m, const char *path, ccl_error_t *err) {
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

/* Hot experts stand anywhere: shuffled by the seed, but for a file's. */
static void shuffle(moe_t *m) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, m->o->seed ^ 0x6d6f65);
    for (uint32_t i = m->o->experts; i > 1; i--) {
        uint32_t k = ccl_rng_below(&rng, i);
        double w = m->weight[i - 1];
        m->weight[i - 1] = m->weight[k];
        m->weight[k] = w;
    }
}

static ccl_status_t find_weights(moe_t *m, ccl_error_t *err) {
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

/* ---------------------------------------------------------------- placement */

typedef struct replica {
    double load;
    uint32_t expert;
} replica_t;

static int by_load(const void *a, const void *b) {
    const replica_t *x = a, *y = b;
    if (x->load != y->load)
        return x->load > y->load ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* The GPU with the least to do that has room, for the heaviest copy first; not twice the same one.
 */
static void balance(moe_t *m, replica_t *all, uint32_t *at, double *load, uint32_t *count) {
    uint32_t room = (m->nreplicas + m->n - 1) / m->n;
    qsort(all, m->nreplicas, sizeof *all, by_load);
    for (uint32_t i = 0; i < m->nreplicas; i++) {
        uint32_t best = CCL_NONE, e = all[i].expert;
        for (int turn = 0; turn < 2 && best == CCL_NONE; turn++) {
            for (uint32_t g = 0; g < m->n; g++) {
                bool has = false;
                for (uint32_t k = m->first[e]; k < at[e] && turn == 0; k++)
                    has |= m->gpu[k] == g;
                if (count[g] < room && !has && (best == CCL_NONE || load[g] < load[best]))
                    best = g;
            }
        }
        m->gpu[at[e]++] = best;
        load[best] += all[i].load;
        count[best]++;
    }
}

static void place(moe_t *m, replica_t *all, uint32_t *at, double *load, uint32_t *count) {
    const ccl_moe_options_t *o = m->o;
    uint32_t n = 0, *copies = at;
    for (uint32_t e = 0; e < o->experts; e++)
        copies[e] = 1;
    for (uint32_t c = 0; c < o->copies; c++) {
        uint32_t most = 0;
        for (uint32_t e = 1; e < o->experts; e++)
            if (m->weight[e] / copies[e] > m->weight[most] / copies[most])
                most = e;
        copies[most]++;
    }
    for (uint32_t e = 0; e < o->experts; e++) {
        m->first[e] = n;
        for (uint32_t k = 0; k < copies[e]; k++)
            all[n++] = (replica_t){m->weight[e] / copies[e], e};
        at[e] = m->first[e];
    }
    m->first[o->experts] = n;
    if (o->placement == CCL_MOE_BALANCED) {
        balance(m, all, at, load, count);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        m->gpu[i] = o->placement == CCL_MOE_SPREAD ? i % m->n : (uint32_t)((uint64_t)i * m->n / n);
}

static ccl_status_t place_experts(moe_t *m, ccl_error_t *err) {
    replica_t *all = calloc(m->nreplicas, sizeof *all);
    uint32_t *at = calloc(m->o->experts, sizeof *at), *count = calloc(m->n, sizeof *count);
    double *load = calloc(m->n, sizeof *load);
    ccl_status_t status = all && at && count && load ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        place(m, all, at, load, count);
    free(all);
    free(at);
    free(count);
    free(load);
    return status;
}

/* ---------------------------------------------------------------- tokens */

/* A copy in the sender's server, else copies in turn. */
static uint32_t copy_of(const moe_t *m, uint32_t expert, uint32_t src, uint32_t token) {
    uint32_t first = m->first[expert], n = m->first[expert + 1] - first;
    for (uint32_t k = 0; k < n; k++)
        if (m->server[m->gpu[first + k]] == m->server[src])
            return m->gpu[first + k];
    return m->gpu[first + (src + token) % n];
}

/* Different experts, each drawn by popularity among those that are left. */
static void draw(const moe_t *m, ccl_rng_t *rng, uint32_t *out) {
    double sum = m->below[m->o->experts - 1];
    for (uint32_t k = 0; k < m->o->top_k;) {
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
static size_t add_token(moe_t *m, const uint32_t *experts, uint32_t src, uint32_t token,
                        size_t at) {
    size_t first = at;
    for (uint32_t k = 0; k < m->o->top_k; k++) {
        uint32_t g = copy_of(m, experts[k], src, token);
        size_t i = first;
        m->tokens[g]++;
        if (g == src)
            continue;
        uint64_t bit = (uint64_t)1 << m->bit[g];
        while (i < at && (m->ways[i].part != m->part[g] || m->o->each_expert) &&
               !(m->ways[i].part == m->part[g] && m->ways[i].set == bit))
            i++;
        if (i == at)
            m->ways[at++] = (way_t){m->part[g], 0};
        m->ways[i].set |= bit;
    }
    return at;
}

static int by_way(const void *a, const void *b) {
    const way_t *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return x->set < y->set ? -1 : x->set > y->set;
}

static ccl_status_t add_chunk(moe_t *m, ccl_i_demand_t *demand, uint32_t src, const way_t *way,
                              size_t tokens, ccl_moe_report_t *r, ccl_error_t *err) {
    uint32_t gpus[SET_GPUS], n = 0;
    double bytes = (double)tokens * m->o->hidden * m->o->element_bytes;
    for (uint32_t b = 0; b < SET_GPUS; b++)
        if (way->set >> b & 1)
            gpus[n++] = m->part_gpus[(size_t)way->part * SET_GPUS + b];
    if (m->server[gpus[0]] == m->server[src]) {
        r->local_bytes += bytes * n;
    } else {
        r->network_bytes += bytes;
        r->unshared_bytes += bytes * n;
        m->border[m->server[gpus[0]]] += bytes;
    }
    return m->o->combine ? ccl_i_demand_add(demand, gpus, n, &src, 1, true, bytes, err)
                         : ccl_i_demand_add(demand, &src, 1, gpus, n, false, bytes, err);
}

static ccl_status_t add_gpu(moe_t *m, ccl_i_demand_t *demand, uint32_t src, ccl_moe_report_t *r,
                            ccl_error_t *err) {
    uint32_t experts[MOST_TOP];
    size_t nways = 0;
    ccl_rng_t rng;
    ccl_rng_init(&rng, m->o->seed * 0x9e3779b97f4a7c15u + src);
    for (uint32_t t = 0; t < m->o->tokens; t++) {
        draw(m, &rng, experts);
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

/* ---------------------------------------------------------------- the demand */

static ccl_status_t check(const ccl_moe_options_t *o, ccl_error_t *err) {
    if (o->experts < 1 || o->experts > MOST_EXPERTS || o->copies > MOST_EXPERTS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%u experts and %u copies: 1 to %d, and at most as many", o->experts,
                        o->copies, MOST_EXPERTS);
    if (o->top_k < 1 || o->top_k > MOST_TOP || o->top_k > o->experts)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a token goes to %u of %u experts: 1 to %d, and not more "
                        "than there are",
                        o->top_k, o->experts, MOST_TOP);
    if (o->hidden < 1 || o->tokens < 1 || o->tokens > 1u << 20)
        return ccl_fail(err, CCL_ERR_INPUT, "%u tokens of %u elements: 1 to 2^20, of 1 or more",
                        o->tokens, o->hidden);
    if (!(o->element_bytes > 0) || o->element_bytes > 64)
        return ccl_fail(err, CCL_ERR_INPUT, "%g bytes an element: more than 0, at most 64",
                        o->element_bytes);
    return CCL_OK;
}

static ccl_status_t moe_init(moe_t *m, ccl_error_t *err) {
    const ccl_topology_t *topo = m->topo;
    uint32_t *count = calloc(topo->nservers + (size_t)topo->nranks + 1, sizeof *count);
    uint32_t *part = calloc(topo->nservers + (size_t)topo->nranks + 1, sizeof *part);
    size_t n = m->n = topo->nranks;
    m->nreplicas = m->o->experts + m->o->copies;
    m->part = calloc(n, sizeof *m->part);
    m->bit = calloc(n, sizeof *m->bit);
    m->server = calloc(n, sizeof *m->server);
    m->part_gpus = calloc(n * SET_GPUS, sizeof *m->part_gpus);
    m->weight = calloc(m->o->experts, sizeof *m->weight);
    m->below = calloc(m->o->experts, sizeof *m->below);
    m->first = calloc(m->o->experts + (size_t)1, sizeof *m->first);
    m->gpu = calloc(m->nreplicas, sizeof *m->gpu);
    m->ways = calloc((size_t)m->o->tokens * m->o->top_k, sizeof *m->ways);
    m->tokens = calloc(n, sizeof *m->tokens);
    m->border = calloc(topo->nservers + n, sizeof *m->border);
    bool ok = count && part && m->part && m->bit && m->server && m->part_gpus && m->weight &&
              m->below && m->first && m->gpu && m->ways && m->tokens && m->border;
    for (uint32_t r = 0; ok && r < n; r++) {
        uint32_t s = topo->devices[topo->rank_device[r]].server;
        s = s == CCL_NONE ? topo->nservers + r : s;
        m->nservers += count[s] == 0;
        if (count[s] % SET_GPUS == 0)
            part[s] = m->nparts++;
        m->server[r] = s;
        m->part[r] = part[s];
        m->bit[r] = count[s]++ % SET_GPUS;
        m->part_gpus[(size_t)part[s] * SET_GPUS + m->bit[r]] = r;
    }
    free(count);
    free(part);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_moe_demand(const ccl_topology_t *topo, const ccl_moe_options_t *options,
                            ccl_collective_t **out, ccl_moe_report_t *report, ccl_error_t *err) {
    const ccl_moe_options_t defaults = CCL_MOE_OPTIONS_INIT;
    CCL_OPTIONS_TRY(ccl_moe_options_t, options, err);
    moe_t m = {.topo = topo, .o = options ? options : &defaults};
    ccl_i_demand_t demand = {.nranks = topo->nranks};
    ccl_moe_report_t r = {0};
    CCL_TRY(check(m.o, err));
    ccl_status_t status;
    CCL_TRY_GOTO(moe_init(&m, err), status, end);
    CCL_TRY_GOTO(find_weights(&m, err), status, end);
    CCL_TRY_GOTO(place_experts(&m, err), status, end);
    for (uint32_t src = 0; src < m.n; src++)
        CCL_TRY_GOTO(add_gpu(&m, &demand, src, &r, err), status, end);
    if (demand.len == 0) {
        status = ccl_fail(err, CCL_ERR_INPUT, "every token stays where it is: nothing to do");
        goto end;
    }
    status = ccl_i_demand_finish(&demand, m.o->combine ? "combine" : "dispatch", out, err);
    uint64_t most = 0, sum = 0;
    for (uint32_t g = 0; g < m.n; g++) {
        most = m.tokens[g] > most ? m.tokens[g] : most;
        sum += m.tokens[g];
    }
    r.most_tokens = (double)most * m.n / (double)sum;
    for (uint32_t s = 0; s < topo->nservers + m.n; s++)
        r.most_server = fmax(r.most_server, m.border[s]);
    r.most_server = r.network_bytes > 0 ? r.most_server * m.nservers / r.network_bytes : 1;
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
