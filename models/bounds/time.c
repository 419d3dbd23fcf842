/* Bounds over time: which sets of sources and destinations to look at for each collective. */
#include "models/bounds/time.h"
#include "models/bounds/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sets by distance for one GPU; others of which all sets are looked at; GPUs looked at where none
 * is like another. */
enum { MOST_SETS = 8, MOST_OTHERS = 5, MOST_SINKS = 64 };

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_i_time_net_t *net;
    ccl_i_time_cuts_t *cuts;
    ccl_i_time_flow_t *flow;
    const ccl_bound_demand_t *demand;
    const uint32_t *pairs;    /* of the demand */
    uint8_t *sources, *dests; /* [nranks] */
    uint8_t *skip, *one;      /* [nranks] */
    uint32_t *weights;        /* [nranks] */
    double *far, *distances;  /* of ccl_i_time_reach(), [nranks] */
    uint32_t *others;         /* [nranks] GPUs that the one in hand has to do with */
    uint32_t nothers;
    uint8_t *chosen; /* [nranks] of them */
    uint32_t *group; /* [nranks] of an AllReduce's messages */
    bool to_one;     /* of the messages in hand; ccl_i_time_need_t */
    double crossing; /* share of the message, where the demand has it */
} job_t;

/* Parts from one rank to another. */
static double pair(const job_t *job, uint32_t s, uint32_t d) {
    const ccl_bound_demand_t *demand = job->demand;
    uint32_t n = job->net->c->topo->nranks;
    if (s == d)
        return 0;
    if (demand->shape == CCL_BOUND_PAIRS || demand->shape == CCL_BOUND_ENDS)
        return job->pairs ? job->pairs[(size_t)s * n + d] : 1;
    return demand->weights[demand->reversed ? d : s];
}

static double pairs_share(const void *user, const uint8_t *sources, const uint8_t *dests) {
    const job_t *job = user;
    uint32_t n = job->net->c->topo->nranks;
    double parts = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t d = 0; d < n && sources[s]; d++)
            parts += dests[d] ? pair(job, s, d) : 0;
    return parts / (double)job->demand->parts;
}

/* Groups that send a message at least where all goes to one set, else groups that are sent one. */
static double groups_share(const void *user, const uint8_t *sources, const uint8_t *dests) {
    const job_t *job = user;
    const uint8_t *set = job->to_one ? sources : dests;
    double groups = 0;
    for (uint32_t r = 0; r < job->net->c->topo->nranks; r++) {
        bool seen = !set[r];
        for (uint32_t q = 0; q < r && !seen; q++)
            seen = set[q] && job->group[q] == job->group[r];
        groups += !seen;
    }
    return groups;
}

static double crossing_share(const void *user, const uint8_t *sources, const uint8_t *dests) {
    (void)sources;
    (void)dests;
    return ((const job_t *)user)->crossing;
}

/* Of the sources and destinations in hand. `sink`: all goes to one set. */
static ccl_i_time_need_t need_of(job_t *job, bool sink, bool joins) {
    job->to_one = sink;
    return (ccl_i_time_need_t){.sources = job->sources,
                               .dests = job->dests,
                               .group_of = joins ? job->group : NULL,
                               .joins = joins,
                               .to_one = sink,
                               .share = joins ? groups_share : pairs_share,
                               .user = job};
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* What goes between one GPU and a set of others, which job->chosen marks. */
static ccl_status_t chosen(job_t *job, uint32_t rank, bool sink, bool joins, ccl_error_t *err) {
    ccl_i_time_need_t need = need_of(job, sink, joins);
    uint32_t n = job->net->c->topo->nranks;
    uint8_t *one = sink ? job->dests : job->sources;
    memset(one, 0, n);
    one[rank] = 1;
    memcpy(sink ? job->sources : job->dests, job->chosen, n);
    return ccl_i_time_flow(job->ctx, job->flow, &need, err);
}

/* All others, then only ever farther ones. */
static ccl_status_t by_distance(job_t *job, uint32_t rank, bool sink, bool joins,
                                ccl_error_t *err) {
    uint32_t n = job->net->c->topo->nranks, kept = 0;
    double *sorted = malloc(n * sizeof *sorted);
    ccl_status_t status = sorted ? CCL_OK : ccl_fail_nomem(err);
    if (status != CCL_OK)
        return status;
    for (uint32_t i = 0; i < job->nothers; i++)
        sorted[i] = job->distances[job->others[i]];
    qsort(sorted, job->nothers, sizeof *sorted, descending);
    for (uint32_t i = 0; i < job->nothers; i++)
        if (kept == 0 || sorted[i] < sorted[kept - 1] * (1 - 1e-9))
            sorted[kept++] = sorted[i];
    for (uint32_t i = 0; i < MOST_SETS && i < kept && status == CCL_OK; i++) {
        uint32_t at = kept <= MOST_SETS ? i : i * (kept - 1) / (MOST_SETS - 1);
        memset(job->chosen, 0, n);
        for (uint32_t k = 0; k < job->nothers; k++)
            job->chosen[job->others[k]] = job->distances[job->others[k]] >= sorted[at];
        status = chosen(job, rank, sink, joins, err);
    }
    free(sorted);
    return status;
}

/* One GPU and sets of the others. `sink`: data come to it; else they leave it. */
static ccl_status_t around(job_t *job, uint32_t rank, bool sink, bool joins, ccl_error_t *err) {
    const ccl_i_time_net_t *net = job->net;
    const ccl_topology_t *topo = net->c->topo;
    uint32_t n = topo->nranks;
    memset(job->one, 0, n);
    job->one[rank] = 1;
    CCL_TRY(ccl_i_time_reach(net, sink, job->one, NULL, job->far, NULL, err));
    job->nothers = 0;
    for (uint32_t r = 0; r < n; r++) {
        double s = job->far[topo->rank_device[r]] + (sink ? net->launch_s[r] : 0);
        job->distances[r] = s;
        if (r != rank && isfinite(s) && (joins || pair(job, sink ? r : rank, sink ? rank : r) > 0))
            job->others[job->nothers++] = r;
    }
    if (job->nothers > MOST_OTHERS)
        CCL_TRY(by_distance(job, rank, sink, joins, err));
    for (uint32_t set = 1; job->nothers <= MOST_OTHERS && set < 1u << job->nothers; set++) {
        memset(job->chosen, 0, n);
        for (uint32_t k = 0; k < job->nothers; k++)
            job->chosen[job->others[k]] = set >> k & 1;
        CCL_TRY(chosen(job, rank, sink, joins, err));
    }
    return CCL_OK;
}

/* A root and each other GPU alone. */
static ccl_status_t around_root(job_t *job, ccl_error_t *err) {
    const ccl_bound_demand_t *demand = job->demand;
    uint32_t n = job->net->c->topo->nranks, seen = 0;
    CCL_TRY(around(job, demand->root, !demand->reversed, false, err));
    if (job->nothers <= MOST_OTHERS)
        return CCL_OK;
    for (uint32_t r = 0; r < n; r++)
        job->weights[r] = r == demand->root; /* which is like no other */
    CCL_TRY(ccl_i_bound_sinks(job->net->c, job->weights, job->skip, err));
    for (uint32_t k = 0; k < job->nothers && seen < MOST_SINKS; k++) {
        uint32_t r = job->others[k];
        if (job->skip[r])
            continue;
        memset(job->chosen, 0, n);
        job->chosen[r] = 1;
        CCL_TRY(chosen(job, demand->root, !demand->reversed, false, err));
        seen++;
    }
    return CCL_OK;
}

/* Every GPU that no other is like, as a destination and as a source where asked for. */
static ccl_status_t all_around(job_t *job, bool sinks, bool sources, bool joins, ccl_error_t *err) {
    uint32_t n = job->net->c->topo->nranks, nleft = 0, seen = 0;
    CCL_TRY(ccl_i_bound_sinks(job->net->c, job->weights, job->skip, err));
    for (uint32_t r = 0; r < n; r++)
        nleft += !job->skip[r];
    for (uint32_t r = 0; r < n; r++) {
        if (job->skip[r])
            continue;
        bool chosen =
            nleft <= MOST_SINKS || seen * MOST_SINKS / nleft != (seen + 1) * MOST_SINKS / nleft;
        seen++;
        if (chosen && sinks)
            CCL_TRY(around(job, r, true, joins, err));
        if (chosen && sources)
            CCL_TRY(around(job, r, false, joins, err));
    }
    return CCL_OK;
}

/* The border of a part, into it or out of it. */
static ccl_status_t border(job_t *job, const ccl_cut_level_t *level, uint32_t part, bool sink,
                           bool joins, bool *late, ccl_error_t *err) {
    const ccl_capacity_t *c = job->net->c;
    const ccl_topology_t *topo = c->topo;
    ccl_i_time_need_t need = need_of(job, sink, joins);
    if (job->demand->shape == CCL_BOUND_ENDS)
        need.share = crossing_share;
    ccl_i_time_part(c, level->device_part, part, sink, late);
    for (uint32_t r = 0; r < topo->nranks; r++) {
        bool inside = level->part_of[r] == part;
        job->sources[r] = inside != sink;
        job->dests[r] = inside == sink;
    }
    return ccl_i_time_border(job->ctx, job->flow, &need, late, err);
}

/* Both ways over the borders of a level's parts. @param at  of the level's first part among all. */
static ccl_status_t borders(job_t *job, const ccl_cut_level_t *level, size_t at, bool joins,
                            bool *late, ccl_error_t *err) {
    const ccl_bound_demand_t *demand = job->demand;
    for (uint32_t p = 0; p < level->nparts; p++) {
        for (int sink = 1; sink >= 0; sink--) {
            if (demand->shape == CCL_BOUND_ENDS)
                job->crossing = (sink ? demand->entering : demand->leaving)[at + p];
            if (demand->shape != CCL_BOUND_ENDS || job->crossing > 0)
                CCL_TRY(border(job, level, p, sink, joins, late, err));
        }
    }
    return CCL_OK;
}

/* The borders of the levels' parts. */
static ccl_status_t levels(job_t *job, bool joins, ccl_error_t *err) {
    const ccl_capacity_t *c = job->net->c;
    ccl_cut_levels_t all;
    bool *late = calloc(c->nvertices + (size_t)1, sizeof *late);
    if (!late)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_cut_levels_init(&all, c->topo, err);
    if (status != CCL_OK) {
        free(late);
        return status;
    }
    size_t at = 0;
    for (uint32_t l = 0; l < all.nlevels && status == CCL_OK; l++) {
        if (l > 0)
            status = borders(job, &all.levels[l], at, joins, late, err);
        at += all.levels[l].nparts;
    }
    ccl_cut_levels_fini(&all);
    free(late);
    return status;
}

/* What the parts of the tightest partition send each other, where no switch multicasts or
 * reduces. */
static ccl_status_t tightest(job_t *job, ccl_i_partition_t of, ccl_error_t *err) {
    const ccl_topology_t *topo = job->net->c->topo;
    const ccl_bandwidth_bound_t *flows = job->demand->flows;
    ccl_bandwidth_bound_t own = {.Bps = INFINITY};
    const bool all = of.root == CCL_NONE;
    if (job->net->able || (all && !flows) || (!all && topo->nservers > 1))
        return CCL_OK;
    ccl_arena_init(&own.arena);
    uint32_t *part_of = malloc(topo->nranks * sizeof *part_of);
    ccl_status_t status = part_of ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK && !all)
        status = ccl_i_bound_allreduce(job->ctx, job->net->c, false, &own, err);
    flows = all ? flows : &own;
    if (status == CCL_OK && flows->proof == CCL_BOUND_PARTITION) {
        for (uint32_t r = 0; r < topo->nranks; r++)
            part_of[r] = flows->part[topo->rank_device[r]];
        of.nparts = flows->nparts;
        of.part_of = part_of;
        status = ccl_i_time_partition(job->ctx, job->cuts, &of, err);
    }
    free(part_of);
    ccl_bandwidth_bound_fini(&own);
    return status;
}

/* What parts of an AllReduce, or of a root's Broadcast or Reduce, send each other: GPUs, servers,
 * servers behind the same switches, those of the tightest partition. */
static ccl_status_t partitions(job_t *job, uint32_t root, ccl_error_t *err) {
    const ccl_topology_t *topo = job->net->c->topo;
    ccl_i_partition_t of = {.root = root, .reversed = job->demand->reversed};
    ccl_cut_levels_t all;
    ccl_status_t status = ccl_cut_levels_init(&all, topo, err);
    if (status != CCL_OK)
        return status;
    for (uint32_t l = 0; l < all.nlevels && status == CCL_OK; l++) {
        const ccl_cut_level_t *level = &all.levels[l];
        bool whole = level->nparts > 1, inside = true;
        for (uint32_t r = 0; r < topo->nranks; r++)
            whole = whole && level->part_of[r] != CCL_NONE;
        for (uint32_t v = 0; v < topo->ndevices; v++)
            inside = inside && (level->device_part[v] != CCL_NONE ||
                                !(topo->devices[v].multicast || topo->devices[v].reduce));
        of.nparts = level->nparts;
        of.part_of = level->part_of;
        of.device_part = level->device_part;
        if (whole && inside)
            status = ccl_i_time_partition(job->ctx, job->cuts, &of, err);
    }
    ccl_cut_levels_fini(&all);
    of.device_part = NULL;
    return status == CCL_OK ? tightest(job, of, err) : status;
}

/* A flow program's lengths: bytes times distance over what links can carry times their length, each
 * in its window. */
static ccl_status_t lengths(job_t *job, ccl_error_t *err) {
    const ccl_i_time_net_t *net = job->net;
    const ccl_capacity_t *c = net->c;
    const ccl_bandwidth_bound_t *flows = job->demand->flows;
    uint32_t n = c->topo->nranks;
    double most = 0;
    bool all = job->demand->shape == CCL_BOUND_ALLREDUCE;
    if (!flows || !flows->lengths || job->demand->reversed)
        return CCL_OK;
    double *weights = malloc((c->narcs + (size_t)1) * sizeof *weights);
    double *latest = malloc((c->nvertices + c->narcs + (size_t)1) * sizeof *latest);
    ccl_status_t status = weights && latest ? CCL_OK : ccl_fail_nomem(err);
    memset(job->sources, all, n);
    memset(job->dests, all, n);
    for (uint32_t i = 0; i < n * n && !all; i++) {
        bool some = pair(job, i / n, i % n) > 0;
        job->sources[i / n] |= some;
        job->dests[i % n] |= some;
    }
    for (uint32_t i = 0; i < c->topo->nlinks + c->topo->ngroups; i++)
        most = fmax(most, flows->lengths[i]);
    for (uint32_t a = 0; a < c->narcs && status == CCL_OK; a++)
        weights[a] =
            flows->lengths[c->arcs[a].link != CCL_NONE ? c->arcs[a].link
                                                       : c->topo->nlinks + c->arcs[a].group] /
            most;
    if (status == CCL_OK)
        status = ccl_i_time_reach(net, false, job->sources, NULL, job->far, NULL, err);
    if (status == CCL_OK)
        status = ccl_i_time_reach(net, true, job->dests, NULL, latest, NULL, err);
    if (status == CCL_OK) {
        const ccl_i_time_side_t side = {.earliest = job->far, .latest = latest, .weights = weights};
        const double share = flows->distance / most / (all ? 1 : (double)job->demand->parts);
        const ccl_i_time_needed_t needed = {.share = share,
                                            .least = share,
                                            .partials = 1,
                                            .lengths = true,
                                            .sources = job->sources,
                                            .dests = job->dests};
        status = ccl_i_time_leave(job->cuts, &side, err);
        if (status == CCL_OK)
            status = ccl_i_time_cut(job->cuts, &needed, err);
    }
    free(weights);
    free(latest);
    return status;
}

/* The one GPU whose message is the whole (Broadcast, Reduce); CCL_NONE: there are more. */
static uint32_t rooted(const ccl_bound_demand_t *demand, uint32_t n) {
    uint32_t root = CCL_NONE;
    for (uint32_t r = 0; r < n; r++) {
        if (demand->weights[r] && root != CCL_NONE)
            return CCL_NONE;
        root = demand->weights[r] ? r : root;
    }
    return root;
}

static ccl_status_t shape(job_t *job, ccl_error_t *err) {
    const ccl_bound_demand_t *demand = job->demand;
    const ccl_topology_t *topo = job->net->c->topo;
    uint32_t n = topo->nranks;
    bool all = demand->shape == CCL_BOUND_ALLREDUCE ||
               (demand->shape == CCL_BOUND_PAIRS && !demand->pairs);
    for (uint32_t r = 0; r < n; r++)
        job->weights[r] = all || !demand->weights ? 1 : demand->weights[r];
    if (demand->shape == CCL_BOUND_GATHER)
        return around_root(job, err);
    for (uint32_t r = 0; r < n; r++)
        job->group[r] = r;
    if (demand->shape == CCL_BOUND_SPREAD && rooted(demand, n) != CCL_NONE) {
        CCL_TRY(around(job, rooted(demand, n), demand->reversed, true, err));
        CCL_TRY(partitions(job, rooted(demand, n), err));
    }
    if (demand->shape == CCL_BOUND_SPREAD)
        return all_around(job, !demand->reversed, demand->reversed, false, err);
    if (demand->shape == CCL_BOUND_PAIRS || demand->shape == CCL_BOUND_ENDS) {
        for (uint32_t r = 0; r < n && demand->pairs; r++)
            job->weights[r] = r; /* none is like another */
        job->pairs = demand->pairs;
        CCL_TRY(all_around(job, true, demand->shape == CCL_BOUND_PAIRS, false, err));
        if (demand->shape == CCL_BOUND_PAIRS) {
            CCL_TRY(levels(job, false, err));
            CCL_TRY(lengths(job, err));
        }
        if (demand->shape == CCL_BOUND_PAIRS)
            return CCL_OK;
        job->pairs = demand->sent;
        CCL_TRY(all_around(job, false, true, false, err));
        return demand->entering && demand->leaving ? levels(job, false, err) : CCL_OK;
    }
    for (int servers = 0; servers <= (topo->nservers > 1); servers++) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t server = topo->devices[topo->rank_device[r]].server;
            job->group[r] = servers && server != CCL_NONE ? n + server : r;
        }
        CCL_TRY(all_around(job, true, true, true, err));
    }
    CCL_TRY(levels(job, true, err));
    CCL_TRY(partitions(job, CCL_NONE, err));
    return lengths(job, err);
}

static bool job_init(job_t *job) {
    size_t n = job->net->c->topo->nranks + (size_t)1;
    job->flow = ccl_i_time_flow_create(job->cuts);
    job->sources = calloc(n, 1);
    job->dests = calloc(n, 1);
    job->skip = calloc(n, 1);
    job->one = calloc(n, 1);
    job->weights = calloc(n, sizeof *job->weights);
    job->group = calloc(n, sizeof *job->group);
    job->far = malloc((job->net->c->nvertices + job->net->c->narcs + (size_t)1) * sizeof *job->far);
    job->distances = malloc(n * sizeof *job->distances);
    job->others = malloc(n * sizeof *job->others);
    job->chosen = calloc(n, 1);
    return job->flow && job->sources && job->dests && job->skip && job->one && job->weights &&
           job->group && job->far && job->distances && job->others && job->chosen;
}

static void job_fini(job_t *job) {
    ccl_i_time_flow_destroy(job->flow);
    free(job->sources);
    free(job->dests);
    free(job->skip);
    free(job->one);
    free(job->weights);
    free(job->group);
    free(job->far);
    free(job->distances);
    free(job->others);
    free(job->chosen);
}

ccl_status_t ccl_model_time_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_bound_demand_t *demand,
                                  const char *proto, ccl_time_bound_t *out, ccl_error_t *err) {
    ccl_capacity_t *c = NULL;
    ccl_i_time_net_t net = {0};
    ccl_i_time_cuts_t cuts = {0};
    ccl_status_t status;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    if (topo->nranks < 2 || demand->parts == 0)
        return CCL_OK;
    CCL_TRY(ccl_capacity_create(topo, &c, err));
    status = ccl_i_time_net_init(&net, c, routes, proto, err);
    if (status == CCL_OK) {
        job_t job = {.ctx = ctx, .net = &net, .cuts = &cuts, .demand = demand};
        status = ccl_i_time_cuts_init(&cuts, &net, out, err);
        if (status == CCL_OK && !job_init(&job))
            status = ccl_fail_nomem(err);
        if (status == CCL_OK)
            status = shape(&job, err);
        job_fini(&job);
        ccl_i_time_cuts_fini(&cuts);
        ccl_i_time_net_fini(&net);
    }
    ccl_capacity_destroy(c);
    if (status != CCL_OK)
        ccl_time_bound_fini(out);
    return status;
}
