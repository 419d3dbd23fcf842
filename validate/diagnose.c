/*
 * A log beside the model: expected bandwidth, limiting resource, verdict. The rules, in the order
 * they are tried, are those of docs/commands.md.
 */
#include "validate/causes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOW CCL_NORMAL_LOW
#define HIGH CCL_NORMAL_HIGH
#define MISSED 1.1               /* measured over expected from which NVLS was not used */
#define BUSY 0.7                 /* share of the time from which a resource limits */
#define NEAR 0.15                /* of one NIC's share: how near a share is to that of some NICs */
#define PATH_SHARE 0.3           /* of a NIC, that one path through a healthy network has given */
#define LINE_SHARE 0.6           /* of the NICs' line rate; some healthy fabrics give 0.7 */
#define SAME 0.06                /* relative distance at which two times are the same */
#define EXTRA_S 5e-6             /* of every call, from which on it is reported */
#define LARGE_BYTES 1073741824.0 /* whose bandwidth is all that the algorithm reaches */
#define SMALL_BYTES 16384.0      /* messages that show what a call costs at least */
#define PCIE_BUSBW 30.0          /* GB/s: what PCIe and shared memory give at most */
#define LONG_BYTES 268435456.0   /* from twice this on, time grows in proportion to size */
#define LONG_TREE_BYTES 67108864.0 /* the same of trees of MANY ranks, which are slow to run */
#define MANY 32
#define CARRIED 1.2      /* how far beyond the limit such times are known */
#define CARRIED_TREE 2.0 /* latency is a larger part of their shorter messages */

enum { ALGOS = CCL_NCCL_P2P, PROTOS = CCL_NCCL_SIMPLE + 1 };

/** Another algorithm's or protocol's run that takes about what was measured. */
typedef struct other {
    bool found;
    ccl_prediction_t is;
} other_t;

typedef struct desk {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_profile_t *profile;
    const ccl_measured_run_t *run;
    uint32_t channels;
    bool registered;
    ccl_predictor_t *predictor;   /* the first worker's */
    ccl_predictor_t **predictors; /* [threads] */
    uint32_t threads;
    ccl_diagnosis_t *points;
    uint32_t npoints;
    other_t *others;                          /* [npoints] */
    double *others_s, *no_nvls_s, *limits_s;  /* as ccl_i_cause_rows_t has them */
    ccl_prediction_t longs[ALGOS][PROTOS][2]; /* of once and twice long_bytes(); INFINITY: too slow,
                                                 or no row is longer */
    ccl_arena_t *arena;
    uint32_t nics;    /* of the first server */
    double extra_s;   /* least of measured - expected over small sizes */
    double most_GBps; /* expected of large messages */
} desk_t;

const char *ccl_limit_name(ccl_limit_t limit) {
    return limit == CCL_LIMIT_LINK    ? "link"
           : limit == CCL_LIMIT_BLOCK ? "thread-blocks"
                                      : "latency";
}

static uint32_t count_nics(const ccl_topology_t *topo) {
    uint32_t nics = 0, links = 0, server = topo->devices[topo->rank_device[0]].server;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        nics += topo->devices[d].kind == CCL_DEVICE_NIC && topo->devices[d].server == server;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        links += strcmp(topo->kinds[link->kind], "net") == 0 &&
                 topo->devices[link->from].server == server;
    }
    return nics ? nics : links;
}

static ccl_limit_t limit_of(const ccl_prediction_t *p) {
    if (p->link_use >= BUSY)
        return CCL_LIMIT_LINK;
    return p->block_use >= BUSY ? CCL_LIMIT_BLOCK : CCL_LIMIT_LATENCY;
}

static bool alike(double a, double b, double distance) {
    return fabs(a - b) <= distance * b;
}

/* NULL: out of memory. */
static const char *say(desk_t *k, const char *text) {
    return ccl_arena_strdup(k->arena, text);
}

static bool in_switch(ccl_nccl_algo_t algo) {
    return algo == CCL_NCCL_NVLS || algo == CCL_NCCL_NVLS_TREE;
}

static const char *too_fast(desk_t *k, const ccl_diagnosis_t *d) {
    ccl_nccl_algo_t algo = d->expected.choice.algo;
    if (k->run->kind == CCL_ALLREDUCE && d->measured_busbw_GBps > k->most_GBps &&
        d->measured_s * HIGH < d->best.time_s && algo != CCL_NCCL_NVLS)
        return say(k, in_switch(algo)
                          ? "faster than NVLSTree can be: summed in the network's switches (SHARP)?"
                          : "faster than a ring can be: summed in switches (NVLS, SHARP) that "
                            "the cluster is described without?");
    return say(k, "faster than expected: is the cluster described too slow, or its profile older?");
}

/* "3 of 4": the number of NICs that would give this share; 0: none does. */
static uint32_t working_nics(const desk_t *k, double ratio) {
    uint32_t n = (uint32_t)(ratio * k->nics + 0.5);
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(k->predictor);
    /* A GPU's sends take its own NIC, and so do rings over fewer GPUs than NICs. */
    if (k->run->kind == CCL_SENDRECV || setup->nranks / setup->nservers < k->nics)
        return 0;
    return n > 0 && n < k->nics && fabs(ratio * k->nics - n) <= NEAR ? n : 0;
}

/* Less than the NICs allow. */
static const char *nics_slow(desk_t *k, const ccl_diagnosis_t *d) {
    char text[300];
    uint32_t works = working_nics(k, d->ratio);
    if (works * 2 == k->nics)
        snprintf(text, sizeof text, "half of what the NICs allow: %s idle (%u NICs a server)?",
                 k->nics == 2 ? "one of two rails" : "every second rail", k->nics);
    else if (works)
        snprintf(text, sizeof text, "%u/%u of what the NICs allow: %u of %u rails idle?", works,
                 k->nics, k->nics - works, k->nics);
    else
        snprintf(text, sizeof text, "%.0f %% of what the NICs allow: %s", 100 * d->ratio,
                 d->ratio >= LINE_SHARE
                     ? "as much as Slingshot and some cloud fabrics give; else congestion, "
                       "slow PCIe?"
                     : "GPUDirect RDMA off, congestion, slow PCIe?");
    return say(k, text);
}

static const char *too_slow(desk_t *k, const ccl_diagnosis_t *d, const ccl_prediction_t *other) {
    char text[300];
    const ccl_prediction_t *e = &d->expected;
    double without_s = d->measured_s - k->extra_s;
    if (k->extra_s > EXTRA_S && without_s <= e->time_s / LOW) {
        snprintf(text, sizeof text,
                 "%.0f us more than launch and hops take, on every call: launch bound by the CPU "
                 "(several GPUs a process, no graphs), slow clocks?",
                 k->extra_s * 1e6);
        return say(k, text);
    }
    if (d->limit == CCL_LIMIT_LINK && strcmp(e->link_kind, "net") == 0)
        return nics_slow(k, d);
    if (other && d->limit != CCL_LIMIT_LATENCY) {
        snprintf(
            text, sizeof text,
            "as slow as %s with %s on %u channels, where %s with %s would be taken: NCCL_ALGO, "
            "NCCL_PROTO or a tuner set?",
            ccl_nccl_algo_name(other->choice.algo), ccl_nccl_proto_name(other->choice.proto),
            other->choice.channels, ccl_nccl_algo_name(e->choice.algo),
            ccl_nccl_proto_name(e->choice.proto));
        return say(k, text);
    }
    if (d->limit == CCL_LIMIT_LINK && d->measured_busbw_GBps <= PCIE_BUSBW &&
        e->busbw_GBps > 2 * PCIE_BUSBW)
        snprintf(text, sizeof text,
                 "no more than PCIe or shared memory give: is %s, or peer-to-peer, off?",
                 e->link_kind);
    else if (d->limit == CCL_LIMIT_LINK && strcmp(e->link_kind, "pcie") == 0 &&
             ccl_predictor_setup(k->predictor)->nservers > 1)
        snprintf(text, sizeof text,
                 "%.0f %% of what PCIe to the NICs allows: GPUDirect RDMA off, slow PCIe?",
                 100 * d->ratio);
    else if (d->limit == CCL_LIMIT_LINK)
        snprintf(text, sizeof text,
                 "%.0f %% of what %s allows: links down, too few channels, slow clocks?",
                 100 * d->ratio, e->link_kind);
    else if (d->limit == CCL_LIMIT_BLOCK)
        snprintf(text, sizeof text,
                 "%.0f %% of what %u channels carry: fewer channels (NCCL_MAX_NCHANNELS), slow "
                 "clocks, another kernel on the GPU?",
                 100 * d->ratio, e->choice.channels);
    else
        snprintf(text, sizeof text,
                 "latency-bound: %.0f us more than launch and hops take; clocks, CPU, or the "
                 "network's latency?",
                 (d->measured_s - e->time_s) * 1e6);
    return say(k, text);
}

/*
 * It should have gone through the switches and did not: the log says so, or it took what another
 * algorithm takes. NULL: not so, or out of memory (*nomem).
 */
static const char *not_in_switch(desk_t *k, const ccl_diagnosis_t *d, const ccl_prediction_t *other,
                                 bool *nomem) {
    char text[300], as[100] = "";
    const ccl_prediction_t *e = &d->expected;
    bool like = other && !in_switch(other->choice.algo);
    if (!in_switch(e->choice.algo) || d->measured_s < MISSED * e->time_s ||
        (!k->run->no_nvls && !like))
        return NULL;
    if (like)
        snprintf(as, sizeof as, "as slow as %s with %s on %u channels; ",
                 ccl_nccl_algo_name(other->choice.algo), ccl_nccl_proto_name(other->choice.proto),
                 other->choice.channels);
    snprintf(text, sizeof text, "%s%s takes %.0f us and was not used%s", as,
             ccl_nccl_algo_name(e->choice.algo), e->time_s * 1e6,
             k->run->no_nvls ? ": NCCL had no NVLS, says the log"
                             : ": NCCL_NVLS_ENABLE=0, no multicast (fabric manager, container)?");
    const char *said = say(k, text);
    *nomem = !said;
    return said;
}

/* ---------------------------------------------------------------- other algorithms */

static ccl_status_t open_predictor(const desk_t *k, ccl_predictor_t **out, ccl_error_t *err) {
    CCL_TRY(ccl_predictor_create(k->ctx, k->topo, k->profile,
                                 k->channels ? k->channels : k->run->channels, out, err));
    ccl_predictor_version(*out, k->run->version);
    ccl_predictor_nvls(*out, ccl_nccl_nvls_type(k->run->type), k->registered);
    return CCL_OK;
}

static ccl_status_t predictor_of(desk_t *k, uint32_t worker, ccl_predictor_t **out,
                                 ccl_error_t *err) {
    if (!k->predictors[worker])
        CCL_TRY(open_predictor(k, &k->predictors[worker], err));
    *out = k->predictors[worker];
    return CCL_OK;
}

static ccl_status_t estimate(const desk_t *k, ccl_predictor_t *p, const ccl_nccl_choice_t *c,
                             double size_bytes, double limit_s, ccl_prediction_t *out,
                             ccl_error_t *err) {
    return ccl_predictor_estimate(p, k->run->kind, k->run->root, size_bytes, c, limit_s, out, err);
}

/* What of other algorithms is worth knowing: the fastest, and what takes about what was measured.
 */
static double limit_s(const ccl_diagnosis_t *d) {
    return fmax(d->best.time_s, (1 + SAME) * d->measured_s);
}

static bool large_tree(const desk_t *k, uint32_t algo) {
    return algo == CCL_NCCL_TREE && k->topo->nranks > MANY;
}

static double long_bytes(const desk_t *k, uint32_t algo) {
    return large_tree(k, algo) ? LONG_TREE_BYTES : LONG_BYTES;
}

/* How long such a run may take to be worth knowing; 0: no row is more than twice as long. */
static double long_limit_s(const desk_t *k, uint32_t algo) {
    double bytes = long_bytes(k, algo), most_s = 0;
    for (uint32_t i = 0; i < k->npoints; i++)
        if (k->points[i].size_bytes > 2 * bytes)
            most_s = fmax(most_s, limit_s(&k->points[i]) * bytes / k->points[i].size_bytes);
    return most_s * (large_tree(k, algo) ? CARRIED_TREE : CARRIED);
}

/* Long messages take time in proportion, so that two runs give all. */
static ccl_status_t time_long(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    desk_t *k = user;
    uint32_t algo = index / PROTOS, proto = index % PROTOS;
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(k->predictor);
    ccl_predictor_t *p;
    double most_s = long_limit_s(k, algo);
    k->longs[algo][proto][0].time_s = k->longs[algo][proto][1].time_s = INFINITY;
    if (most_s == 0 ||
        !ccl_nccl_may(setup, k->run->kind, (ccl_nccl_algo_t)algo, (ccl_nccl_proto_t)proto))
        return CCL_OK;
    CCL_TRY(predictor_of(k, worker, &p, err));
    for (uint32_t i = 1; i <= 2; i++) {
        double size_bytes = i * long_bytes(k, algo);
        ccl_nccl_choice_t c = ccl_nccl_channels(setup, k->run->kind, (ccl_nccl_algo_t)algo,
                                                (ccl_nccl_proto_t)proto, size_bytes);
        ccl_prediction_t *out = &k->longs[algo][proto][i - 1];
        CCL_TRY(estimate(k, p, &c, size_bytes, i * most_s, out, err));
        if (!(out->time_s < INFINITY))
            return CCL_OK;
    }
    return CCL_OK;
}

static ccl_status_t time_other(const desk_t *k, ccl_predictor_t *p, const ccl_nccl_choice_t *c,
                               const ccl_diagnosis_t *d, ccl_prediction_t *out, ccl_error_t *err) {
    const ccl_prediction_t *longs = k->longs[c->algo][c->proto];
    double bytes = long_bytes(k, c->algo);
    bool known = longs[0].time_s < INFINITY && longs[1].time_s < INFINITY;
    if (known && d->size_bytes == bytes && longs[0].time_s <= limit_s(d)) {
        *out = longs[0];
        return CCL_OK;
    }
    if (known && d->size_bytes == 2 * bytes && longs[1].time_s <= limit_s(d)) {
        *out = longs[1];
        return CCL_OK;
    }
    if (d->size_bytes == bytes && !(longs[0].time_s < INFINITY) &&
        long_limit_s(k, c->algo) >= limit_s(d)) { /* it was too slow for a higher limit */
        *out = longs[0];
        out->choice = *c;
        return CCL_OK;
    }
    if (d->size_bytes <= 2 * bytes)
        return estimate(k, p, c, d->size_bytes, limit_s(d), out, err);
    *out = longs[1];
    out->choice = *c;
    out->time_s = INFINITY;
    if (known) {
        double more_s = (longs[1].time_s - longs[0].time_s) * (d->size_bytes / bytes - 2);
        out->time_s = longs[1].time_s + more_s;
        out->busbw_GBps = d->size_bytes / out->time_s / 1e9 *
                          ccl_collective_busbw_factor(k->run->kind, k->run->nranks);
    }
    return CCL_OK;
}

/* All algorithms with every protocol: the fastest, and one that takes about what was measured. */
static ccl_status_t try_others(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    desk_t *k = user;
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(k->predictor);
    ccl_diagnosis_t *d = &k->points[index];
    other_t *other = &k->others[index];
    ccl_predictor_t *predictor;
    double *times_s = &k->others_s[(size_t)index * CCL_I_WAYS];
    d->best = d->expected;
    k->limits_s[index] = limit_s(d);
    k->no_nvls_s[index] = NAN;
    for (uint32_t w = 0; w < CCL_I_WAYS; w++)
        times_s[w] = NAN;
    if (d->expected.choice.algo == CCL_NCCL_P2P)
        return CCL_OK;
    times_s[d->expected.choice.algo * PROTOS + d->expected.choice.proto] = d->expected.time_s;
    CCL_TRY(predictor_of(k, worker, &predictor, err));
    for (int algo = CCL_NCCL_RING; algo < ALGOS; algo++) {
        for (int proto = CCL_NCCL_LL; proto < PROTOS; proto++) {
            ccl_nccl_choice_t c = ccl_nccl_channels(setup, k->run->kind, (ccl_nccl_algo_t)algo,
                                                    (ccl_nccl_proto_t)proto, d->size_bytes);
            ccl_prediction_t p;
            if (!ccl_nccl_may(setup, k->run->kind, c.algo, c.proto) ||
                (c.algo == d->expected.choice.algo && c.proto == d->expected.choice.proto))
                continue;
            CCL_TRY(time_other(k, predictor, &c, d, &p, err));
            times_s[algo * PROTOS + proto] = p.time_s;
            if (p.time_s < d->best.time_s)
                d->best = p;
            double least = in_switch(d->expected.choice.algo) ? MISSED : HIGH;
            if (p.time_s > d->expected.time_s * least && alike(p.time_s, d->measured_s, SAME) &&
                (!other->found ||
                 fabs(p.time_s - d->measured_s) < fabs(other->is.time_s - d->measured_s)))
                *other = (other_t){true, p};
        }
    }
    if (in_switch(d->expected.choice.algo)) {
        ccl_nccl_setup_t without = *setup;
        without.nvls = false;
        ccl_nccl_choice_t c = ccl_nccl_choose(&without, k->run->kind, d->size_bytes);
        k->no_nvls_s[index] = times_s[c.algo * PROTOS + c.proto];
    }
    return CCL_OK;
}

static ccl_status_t try_all_others(desk_t *k, ccl_error_t *err) {
    bool any = false;
    for (uint32_t i = 0; i < k->npoints; i++) {
        k->points[i].best = k->points[i].expected;
        any = any || k->points[i].expected.choice.algo != CCL_NCCL_P2P;
    }
    if (any)
        CCL_TRY(ccl_parallel_for(ALGOS * PROTOS, k->threads, time_long, k, err));
    return ccl_parallel_for(k->npoints, k->threads, try_others, k, err);
}

/* ---------------------------------------------------------------- verdicts */

static ccl_status_t judge(desk_t *k, uint32_t index, ccl_error_t *err) {
    ccl_diagnosis_t *d = &k->points[index];
    const ccl_prediction_t *other = k->others[index].found ? &k->others[index].is : NULL;
    bool nomem = false;
    d->limit = limit_of(&d->expected);
    const char *missed = not_in_switch(k, d, other, &nomem);
    bool one_path = k->run->kind == CCL_SENDRECV && d->limit == CCL_LIMIT_LINK &&
                    strcmp(d->expected.link_kind, "net") == 0 && d->ratio >= PATH_SHARE;
    d->normal = (d->ratio >= LOW || one_path) && d->ratio <= HIGH && !missed;
    if (nomem)
        return ccl_fail_nomem(err);
    if (missed)
        d->verdict = missed;
    else if (d->normal)
        d->verdict = d->ratio >= LOW
                         ? "normal"
                         : "normal for one path a message; AllToAll shows what the NICs give";
    else if (d->ratio > HIGH)
        d->verdict = too_fast(k, d);
    else
        d->verdict = too_slow(k, d, other);
    return d->verdict ? CCL_OK : ccl_fail_nomem(err);
}

/* What NCCL chooses at one size, in full; the last, the largest as a rule, begins first. */
static ccl_status_t expect(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    desk_t *k = user;
    ccl_diagnosis_t *d = &k->points[k->npoints - 1 - index];
    ccl_predictor_t *predictor;
    CCL_TRY(predictor_of(k, worker, &predictor, err));
    CCL_TRY(ccl_predictor_run(predictor, k->run->kind, k->run->root, d->size_bytes, NULL,
                              &d->expected, err));
    d->ratio = d->expected.time_s / d->measured_s;
    return CCL_OK;
}

static ccl_status_t find_causes(const desk_t *k, ccl_diagnosis_run_t *out, ccl_error_t *err) {
    const ccl_nccl_setup_t *setup = &out->setup;
    const ccl_i_cause_rows_t rows = {.run = k->run,
                                     .points = k->points,
                                     .n = k->npoints,
                                     .others_s = k->others_s,
                                     .no_nvls_s = k->no_nvls_s,
                                     .limit_s = k->limits_s,
                                     .nics = k->nics,
                                     .nservers = setup->nservers,
                                     .rails = k->run->kind != CCL_SENDRECV &&
                                              setup->nranks / setup->nservers >= k->nics,
                                     .fitted = k->profile != NULL};
    return ccl_i_causes(&rows, &out->arena, out, err);
}

static ccl_status_t diagnose(desk_t *k, ccl_diagnosis_run_t *out, ccl_error_t *err) {
    const ccl_measured_run_t *run = k->run;
    ccl_diagnosis_t *points = ccl_arena_alloc(&out->arena, run->npoints + 1, sizeof *points);
    k->others = ccl_arena_alloc(&out->arena, run->npoints + 1, sizeof *k->others);
    k->predictors = ccl_arena_alloc(&out->arena, k->threads, sizeof *k->predictors);
    k->others_s =
        ccl_arena_alloc(&out->arena, (run->npoints + (size_t)1) * CCL_I_WAYS, sizeof *k->others_s);
    k->no_nvls_s = ccl_arena_alloc(&out->arena, run->npoints + 1, sizeof *k->no_nvls_s);
    k->limits_s = ccl_arena_alloc(&out->arena, run->npoints + 1, sizeof *k->limits_s);
    if (!points || !k->others || !k->predictors || !k->others_s || !k->no_nvls_s || !k->limits_s)
        return ccl_fail_nomem(err);
    CCL_TRY(predictor_of(k, 0, &k->predictor, err));
    out->setup = *ccl_predictor_setup(k->predictor);
    double factor = ccl_collective_busbw_factor(run->kind, run->nranks);
    double largest = 0;
    k->extra_s = INFINITY;
    for (uint32_t i = 0; i < run->npoints; i++) {
        const ccl_measurement_t *m = &run->points[i];
        ccl_diagnosis_t *d = &points[out->npoints];
        d->size_bytes = m->size_bytes;
        d->measured_s = out->in_place ? m->in_place_time_s : m->time_s;
        if (!(d->measured_s > 0))
            continue;
        out->npoints++;
        d->measured_busbw_GBps = d->size_bytes / d->measured_s * factor / 1e9;
        largest = fmax(largest, d->size_bytes);
    }
    k->points = points;
    k->npoints = out->npoints;
    CCL_TRY(ccl_parallel_for(k->npoints, k->threads, expect, k, err));
    for (uint32_t i = 0; i < k->npoints; i++)
        if (points[i].size_bytes <= SMALL_BYTES)
            k->extra_s = fmin(k->extra_s, points[i].measured_s - points[i].expected.time_s);
    /* What the algorithm reaches at all: logs of small messages do not show it. */
    ccl_prediction_t most;
    CCL_TRY(ccl_predictor_run(k->predictor, run->kind, run->root, fmax(largest, LARGE_BYTES), NULL,
                              &most, err));
    k->most_GBps = most.busbw_GBps;
    if (!isfinite(k->extra_s))
        k->extra_s = 0;
    CCL_TRY(try_all_others(k, err));
    for (uint32_t i = 0; i < out->npoints; i++)
        CCL_TRY(judge(k, i, err));
    out->points = points;
    return find_causes(k, out, err);
}

ccl_status_t ccl_diagnose(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                          const ccl_profile_t *profile, const ccl_measured_run_t *run,
                          uint32_t channels, bool in_place, bool registered,
                          ccl_diagnosis_run_t **out, ccl_error_t *err) {
    if (!run->known)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the log does not say which collective it measured: --collective NAME");
    if (run->nranks != topo->nranks || run->nranks < 2)
        return ccl_fail(err, CCL_ERR_INPUT, "a run of %u ranks on a cluster of %u GPUs",
                        run->nranks, topo->nranks);
    ccl_diagnosis_run_t *d = calloc(1, sizeof *d);
    if (!d)
        return ccl_fail_nomem(err);
    ccl_arena_init(&d->arena);
    d->run = run;
    d->in_place = in_place;
    desk_t desk = {.ctx = ctx,
                   .topo = topo,
                   .profile = profile,
                   .run = run,
                   .channels = channels,
                   .registered = registered,
                   .threads = ctx && ctx->threads ? ctx->threads : ccl_core_count(),
                   .arena = &d->arena,
                   .nics = count_nics(topo)};
    ccl_status_t status = diagnose(&desk, d, err);
    /* Names of link kinds are the topology's, which outlives the result. */
    for (uint32_t i = 0; desk.predictors && i < desk.threads; i++)
        ccl_predictor_destroy(desk.predictors[i]);
    if (status != CCL_OK) {
        ccl_diagnosis_destroy(d);
        return status;
    }
    *out = d;
    return CCL_OK;
}

void ccl_diagnosis_destroy(ccl_diagnosis_run_t *diagnosis) {
    if (!diagnosis)
        return;
    ccl_arena_fini(&diagnosis->arena);
    free(diagnosis);
}
