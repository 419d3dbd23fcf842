/* Clusters of one vendor, their border ranks, and who of these carries what. */
#include "synth/c2c/c2c.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Forks of a rank's routes to other clusters that are looked at: NICs it may use. */
enum { MOST_EXITS = 16 };

/** Where a rank's routes leave its server. */
typedef struct exits {
    uint32_t n;
    uint32_t link[MOST_EXITS], distance[MOST_EXITS];
    double Bps[MOST_EXITS];
} exits_t;

static const char *vendor_of(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t model = topo->devices[topo->rank_device[rank]].model;
    if (model == CCL_NONE)
        return "";
    const ccl_gpu_model_t *m = &topo->gpu_models[model];
    return *m->vendor ? m->vendor : m->name;
}

/* Vendors numbered by lowest rank; their number. */
static uint32_t number_vendors(const ccl_topology_t *topo, uint32_t *number) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t q = 0;
        while (q < r && strcmp(vendor_of(topo, q), vendor_of(topo, r)) != 0)
            q++;
        number[r] = q < r ? number[q] : n++;
    }
    return n;
}

uint32_t ccl_i_c2c_vendors(const ccl_topology_t *topo) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t q = 0;
        while (q < r && strcmp(vendor_of(topo, q), vendor_of(topo, r)) != 0)
            q++;
        n += q == r;
    }
    return n;
}

/* ---------------------------------------------------------------- ways out */

static bool is_net(const ccl_topology_t *topo, uint32_t link) {
    return strcmp(topo->kinds[topo->links[link].kind], "net") == 0;
}

/* The link by which a route leaves: its first one of kind net, else the first that leaves the
   server, else the first. */
static uint32_t exit_of(const ccl_topology_t *topo, const ccl_route_t *route) {
    uint32_t server = topo->devices[topo->links[route->links[0]].from].server;
    for (uint32_t i = 0; i < route->nlinks; i++)
        if (is_net(topo, route->links[i]))
            return i;
    for (uint32_t i = 0; i < route->nlinks; i++)
        if (topo->devices[topo->links[route->links[i]].to].server != server)
            return i;
    return 0;
}

/* Of rank's routes to the first rank of another group it reaches. */
static void find_exits(ccl_i_cluster_t *c, const uint32_t *group, uint32_t rank, exits_t *out) {
    uint32_t to = 0;
    out->n = 0;
    while (to < c->nranks && (group[to] == group[rank] || !ccl_i_cluster_reaches(c, rank, to)))
        to++;
    if (to == c->nranks)
        return;
    for (uint32_t channel = 0; channel < MOST_EXITS; channel++) {
        const ccl_route_t *route = ccl_i_cluster_route(c, rank, to, channel);
        if (!route || route->nlinks == 0)
            return;
        uint32_t at = exit_of(c->topo, route), link = route->links[at], known = 0;
        while (known < out->n && out->link[known] != link)
            known++;
        if (known < out->n)
            continue;
        double Bps = INFINITY;
        for (uint32_t i = 0; i <= at; i++)
            Bps = fmin(Bps, c->topo->links[route->links[i]].bandwidth_Bps);
        out->link[out->n] = link;
        out->distance[out->n] = at;
        out->Bps[out->n++] = Bps;
    }
}

/* weight[r]: bandwidth of the NICs that r is next to; of one that several are next to, its part. */
static ccl_status_t weigh_ranks(ccl_i_cluster_t *c, const uint32_t *group, double *weight,
                                ccl_error_t *err) {
    uint32_t nlinks = c->topo->nlinks;
    uint32_t *nearest = malloc((nlinks + (size_t)1) * sizeof *nearest);
    uint32_t *users = calloc(nlinks + (size_t)1, sizeof *users);
    exits_t *exits = calloc(c->nranks, sizeof *exits);
    if (nearest && users && exits) {
        memset(nearest, 0xff, nlinks * sizeof *nearest);
        for (uint32_t r = 0; r < c->nranks; r++) {
            find_exits(c, group, r, &exits[r]);
            for (uint32_t i = 0; i < exits[r].n; i++)
                if (exits[r].distance[i] < nearest[exits[r].link[i]])
                    nearest[exits[r].link[i]] = exits[r].distance[i];
        }
        for (uint32_t r = 0; r < c->nranks; r++)
            for (uint32_t i = 0; i < exits[r].n; i++)
                users[exits[r].link[i]] += exits[r].distance[i] == nearest[exits[r].link[i]];
        for (uint32_t r = 0; r < c->nranks; r++) {
            weight[r] = 0;
            for (uint32_t i = 0; i < exits[r].n; i++)
                if (exits[r].distance[i] == nearest[exits[r].link[i]])
                    weight[r] += exits[r].Bps[i] / users[exits[r].link[i]];
        }
    }
    bool ok = nearest && users && exits && !c->nomem;
    free(nearest);
    free(users);
    free(exits);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- splitting */

/** What a vendor has: servers, in order of their lowest rank, are not taken apart. */
typedef struct vendor {
    uint32_t nservers, parts;
    double Bps;
} vendor_t;

/* As many parts of each vendor as give clusters about equal bandwidth (section 4.4). */
static ccl_status_t choose_parts(vendor_t *vendors, uint32_t n, uint32_t nclusters,
                                 ccl_error_t *err) {
    double least = INFINITY;
    uint32_t total = n, servers = 0;
    for (uint32_t v = 0; v < n; v++) {
        least = fmin(least, vendors[v].Bps);
        vendors[v].parts = 1;
        servers += vendors[v].nservers;
    }
    if (nclusters == CCL_I_C2C_BALANCED) {
        for (uint32_t v = 0; v < n; v++) {
            double parts = fmin(round(vendors[v].Bps / least), vendors[v].nservers);
            vendors[v].parts = parts > 1 ? (uint32_t)parts : 1;
        }
        return CCL_OK;
    }
    if (nclusters && nclusters < n)
        return ccl_fail(err, CCL_UNSUPPORTED, "%u clusters are too few: the GPUs are of %u vendors",
                        nclusters, n);
    for (; total < nclusters; total++) {
        uint32_t best = CCL_NONE;
        for (uint32_t v = 0; v < n; v++)
            if (vendors[v].parts < vendors[v].nservers &&
                (best == CCL_NONE || vendors[v].Bps / vendors[v].parts >
                                         vendors[best].Bps / vendors[best].parts * (1 + 1e-9)))
                best = v;
        if (best == CCL_NONE)
            return ccl_fail(err, CCL_UNSUPPORTED, "%u clusters are too many: there are %u servers",
                            nclusters, servers);
        vendors[best].parts++;
    }
    return CCL_OK;
}

/* What vendor v has on server s: bytes per second, and GPUs. */
static double share_of(const ccl_i_cluster_t *c, const uint32_t *group, uint32_t v, uint32_t s,
                       const double *weight, uint32_t *gpus_out) {
    double Bps = 0;
    uint32_t gpus = 0;
    for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++)
        if (group[c->ranks[i]] == v)
            gpus++, Bps += weight[c->ranks[i]];
    *gpus_out = gpus;
    return Bps;
}

/* part[r] of vendor v's ranks: servers in turn. */
static void fill_parts(const ccl_i_cluster_t *c, const uint32_t *group, uint32_t v,
                       const vendor_t *vendor, const double *weight, uint32_t *part) {
    uint32_t now = 0, left = vendor->nservers;
    double before = 0;
    for (uint32_t s = 0; s < c->nservers; s++) {
        uint32_t gpus;
        double Bps = share_of(c, group, v, s, weight, &gpus);
        if (!gpus)
            continue;
        /* The next part begins where the middle of this server lies beyond this one's end, and
           where as many servers are left as parts. */
        double end = vendor->Bps * (now + 1) / vendor->parts;
        if (before > 0 && now + 1 < vendor->parts &&
            (before + Bps / 2 > end || left <= vendor->parts - now - 1))
            now++;
        for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++)
            if (group[c->ranks[i]] == v)
                part[c->ranks[i]] = now;
        before += Bps;
        left--;
    }
}

/* group[r] = cluster, numbered by lowest rank. @return how many; 0: no memory */
static uint32_t number_clusters(uint32_t n, const uint32_t *part, uint32_t *group) {
    uint32_t total = 0, *vendor = malloc(n * sizeof *vendor);
    if (!vendor)
        return 0;
    memcpy(vendor, group, n * sizeof *vendor);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t q = 0;
        while (q < r && (vendor[q] != vendor[r] || part[q] != part[r]))
            q++;
        group[r] = q < r ? group[q] : total++;
    }
    free(vendor);
    return total;
}

/* group[r] = cluster of r: servers of a vendor in turn, until a part has its share. */
static ccl_status_t split(const ccl_i_cluster_t *c, const double *weight, uint32_t nclusters,
                          uint32_t *group, uint32_t *total_out, ccl_error_t *err) {
    uint32_t n = c->nranks, nvendors = number_vendors(c->topo, group), total = 0;
    vendor_t *vendors = calloc(nvendors, sizeof *vendors);
    uint32_t *part = malloc(n * sizeof *part); /* [nranks] by rank: part of its vendor */
    if (!vendors || !part) {
        free(vendors);
        free(part);
        return ccl_fail_nomem(err);
    }
    for (uint32_t v = 0; v < nvendors; v++)
        for (uint32_t s = 0; s < c->nservers; s++) {
            uint32_t gpus;
            double Bps = share_of(c, group, v, s, weight, &gpus);
            vendors[v].nservers += gpus > 0;
            vendors[v].Bps += Bps;
        }
    ccl_status_t status = choose_parts(vendors, nvendors, nclusters, err);
    for (uint32_t v = 0; status == CCL_OK && v < nvendors; v++)
        fill_parts(c, group, v, &vendors[v], weight, part);
    if (status == CCL_OK) {
        total = number_clusters(n, part, group);
        if (total == 0)
            status = ccl_fail_nomem(err);
    }
    free(vendors);
    free(part);
    *total_out = total;
    return status;
}

/* ---------------------------------------------------------------- one cluster */

/* The rank that keeps sums which what lands on border b is added to: the next border of its
   server, else a rank of its server, else of its cluster; with a route from b. */
static uint32_t beside(const ccl_i_cluster_t *c, const ccl_i_c2c_cluster_t *k, uint32_t b) {
    uint32_t rank = k->borders[b], best = CCL_NONE, best_class = 4;
    for (uint32_t i = 1; i < k->nborders; i++) {
        uint32_t other = k->borders[(b + i) % k->nborders];
        uint32_t class = c->server[other] == c->server[rank] ? 0 : 2;
        if (class < best_class && ccl_i_cluster_reaches(c, rank, other))
            best = other, best_class = class;
    }
    for (uint32_t i = 0; i < k->nranks; i++) {
        uint32_t other = k->ranks[i];
        uint32_t class = c->server[other] == c->server[rank] ? 1 : 3;
        if (other != rank && class < best_class && ccl_i_cluster_reaches(c, rank, other))
            best = other, best_class = class;
    }
    return best;
}

static ccl_status_t fill_cluster(ccl_i_cluster_t *c, ccl_i_c2c_map_t *map, uint32_t j,
                                 const double *weight, ccl_error_t *err) {
    ccl_i_c2c_cluster_t *k = &map->clusters[j];
    uint32_t *ranks = ccl_arena_alloc(&map->arena, c->nranks, sizeof *ranks);
    uint32_t *borders = ccl_arena_alloc(&map->arena, c->nranks, sizeof *borders);
    uint32_t *by = ccl_arena_alloc(&map->arena, c->nranks, sizeof *by);
    double *share = ccl_arena_alloc(&map->arena, c->nranks, sizeof *share);
    if (!ranks || !borders || !by || !share)
        return ccl_fail_nomem(err);
    *k = (ccl_i_c2c_cluster_t){.ranks = ranks, .borders = borders, .share = share, .beside = by};
    for (uint32_t r = 0; r < c->nranks; r++) {
        if (map->of[r] != j)
            continue;
        map->local[r] = k->nranks;
        ranks[k->nranks++] = r;
        if (weight[r] > 0) {
            k->Bps += weight[r];
            share[k->nborders] = weight[r];
            borders[k->nborders++] = r;
        }
    }
    k->vendor = vendor_of(c->topo, ranks[0]);
    if (k->nborders == 0)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "no GPU of the cluster of rank %u (%.60s) has a route to another cluster",
                        ranks[0], k->vendor);
    for (uint32_t b = 0; b < k->nborders; b++) {
        share[b] /= k->Bps;
        by[b] = beside(c, k, b);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_map_init(ccl_i_cluster_t *cluster, uint32_t nclusters, ccl_i_c2c_map_t *out,
                                ccl_error_t *err) {
    uint32_t n = cluster->nranks;
    ccl_status_t status = CCL_OK;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    out->of = ccl_arena_alloc(&out->arena, n, sizeof *out->of);
    out->local = ccl_arena_alloc(&out->arena, n, sizeof *out->local);
    double *weight = ccl_arena_alloc(&out->arena, n, sizeof *weight);
    if (!out->of || !out->local || !weight) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    /* Bandwidth to other vendors decides how to split; with one vendor, to other servers. */
    if (number_vendors(cluster->topo, out->of) < 2)
        memcpy(out->of, cluster->server, n * sizeof *out->of);
    CCL_TRY_GOTO(weigh_ranks(cluster, out->of, weight, err), status, end);
    CCL_TRY_GOTO(split(cluster, weight, nclusters, out->of, &out->nclusters, err), status, end);
    if (out->nclusters < 2) {
        status = ccl_fail(err, CCL_UNSUPPORTED, "all GPUs are of one vendor");
        goto end;
    }
    CCL_TRY_GOTO(weigh_ranks(cluster, out->of, weight, err), status, end);
    out->clusters = ccl_arena_alloc(&out->arena, out->nclusters, sizeof *out->clusters);
    if (!out->clusters) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t j = 0; status == CCL_OK && j < out->nclusters; j++)
        status = fill_cluster(cluster, out, j, weight, err);
end:
    if (status != CCL_OK)
        ccl_i_c2c_map_fini(out);
    return status;
}

void ccl_i_c2c_map_fini(ccl_i_c2c_map_t *map) {
    ccl_arena_fini(&map->arena);
    memset(map, 0, sizeof *map);
}

/* ---------------------------------------------------------------- who carries what */

/* Of n items each border's number, largest remainders first. */
static void quotas(const ccl_i_c2c_cluster_t *k, uint32_t n, uint32_t *quota, double *rest) {
    uint32_t given = 0;
    for (uint32_t b = 0; b < k->nborders; b++) {
        double exact = k->share[b] * n;
        quota[b] = (uint32_t)floor(exact + 1e-9);
        rest[b] = exact - quota[b];
        given += quota[b];
    }
    for (; given < n; given++) {
        uint32_t best = 0;
        for (uint32_t b = 1; b < k->nborders; b++)
            if (rest[b] > rest[best] + 1e-9)
                best = b;
        quota[best]++;
        rest[best] -= 1;
    }
}

static bool may(const ccl_i_cluster_t *c, const ccl_i_c2c_cluster_t *k, bool outward,
                const ccl_i_c2c_item_t *item, uint32_t b) {
    uint32_t rank = k->borders[b];
    return rank != item->avoid &&
           (item->peer == CCL_NONE ||
            ccl_i_cluster_reaches(c, outward ? rank : item->peer, outward ? item->peer : rank));
}

ccl_status_t ccl_i_c2c_assign(const ccl_i_cluster_t *cluster, const ccl_i_c2c_cluster_t *to,
                              bool outward, uint32_t n, const ccl_i_c2c_item_t *items,
                              uint32_t *border_out, ccl_error_t *err) {
    uint32_t nb = to->nborders, at = 0;
    uint32_t *quota = calloc(2 * (size_t)nb, sizeof *quota), *load = quota ? quota + nb : NULL;
    double *rest = calloc(nb, sizeof *rest);
    ccl_status_t status = quota && rest ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        quotas(to, n, quota, rest);
    for (uint32_t i = 0; status == CCL_OK && i < n; i++) {
        border_out[i] = CCL_NONE;
        for (uint32_t b = 0; items[i].prefer != CCL_NONE && b < nb; b++)
            if (to->borders[b] == items[i].prefer && load[b] < quota[b] &&
                may(cluster, to, outward, &items[i], b))
                border_out[i] = b;
        if (border_out[i] != CCL_NONE)
            load[border_out[i]]++;
    }
    for (uint32_t i = 0; status == CCL_OK && i < n; i++) {
        uint32_t best = CCL_NONE, home = CCL_NONE;
        if (border_out[i] != CCL_NONE)
            continue;
        if (items[i].prefer != CCL_NONE)
            home = cluster->server[items[i].prefer];
        for (uint32_t step = 0; step < nb; step++) {
            uint32_t b = (at + step) % nb;
            if (load[b] >= quota[b] || !may(cluster, to, outward, &items[i], b))
                continue;
            if (best == CCL_NONE)
                best = b;
            if (home == CCL_NONE || cluster->server[to->borders[b]] == home) {
                best = b;
                break;
            }
        }
        for (uint32_t b = 0; best == CCL_NONE && b < 2 * nb; b++)
            if (may(cluster, to, outward, &items[i], b % nb) &&
                (b >= nb || load[b % nb] <= quota[b % nb]))
                best = b % nb;
        if (best == CCL_NONE && items[i].avoid != CCL_NONE)
            continue;
        if (best == CCL_NONE) {
            status = ccl_fail(err, CCL_UNSUPPORTED,
                              "no border rank of the cluster of rank %u has a route %s rank %u",
                              to->ranks[0], outward ? "to" : "from", items[i].peer);
            break;
        }
        border_out[i] = best;
        load[best]++;
        at = best;
    }
    free(quota);
    free(rest);
    return status;
}

ccl_status_t ccl_c2c_clusters(const ccl_topology_t *topo, uint32_t clusters, uint32_t *of_out,
                              bool *border_out, uint32_t *nclusters_out, ccl_error_t *err) {
    ccl_i_cluster_t cluster = {0};
    ccl_i_c2c_map_t map = {0};
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        status = ccl_i_cluster_init(&cluster, topo, routes, err);
        if (status == CCL_OK)
            status = ccl_i_c2c_map_init(&cluster, clusters, &map, err);
        ccl_i_cluster_fini(&cluster);
    }
    if (status == CCL_OK) {
        memcpy(of_out, map.of, topo->nranks * sizeof *of_out);
        memset(border_out, 0, topo->nranks * sizeof *border_out);
        for (uint32_t q = 0; q < map.nclusters; q++) {
            for (uint32_t b = 0; b < map.clusters[q].nborders; b++)
                border_out[map.clusters[q].borders[b]] = true;
        }
        *nclusters_out = map.nclusters;
        ccl_i_c2c_map_fini(&map);
    }
    ccl_routes_destroy(routes);
    return status;
}
