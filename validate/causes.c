/*
 * How likely each cause is, given the rows of a run: every cause says what the times would be, and
 * how well the rows agree, against how far off the model is on healthy clusters, makes its weight.
 * docs/commands.md, "How sure", has the model and its numbers.
 */
#include "validate/causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GRID 64
#define LEAST_SLOWER 1.15 /* a slower part is one from here on */
#define MOST_SLOWER 20.0
#define ONE_PATH (1 / 0.3) /* what one path of a healthy network may lack */
#define LEAST_EXTRA_S 3e-6
#define MOST_EXTRA_S 300e-6
#define LEAST_PATH_GBps 3.0
#define MOST_PATH_GBps 30.0
#define UNKNOWN_RANGE 10.0 /* of a time that is only known to be beyond a limit */
#define NAMED 20.0         /* times as likely: a setting that the log names */
#define LEAST_LISTED 0.01

/* Scales of a t distribution with 4 degrees of freedom for ln(measured / expected), of healthy
 * clusters (docs/commands.md). */
#define SCALE_LINK 0.07
#define SCALE_LATENCY 0.14
#define SCALE_NET_LINK 0.14
#define SCALE_NET_LATENCY 0.30
#define SCALE_UNFITTED 1.5 /* times as wide without a profile */

/** A cause with what it may be like: a number of settings of one parameter. */
typedef struct hypothesis {
    ccl_cause_kind_t kind;
    double prior;
    double from, to; /* of the parameter; equal: there is one */
    uint32_t algo, proto;
    double weight, best; /* of all; the parameter that fits best */
} hypothesis_t;

typedef struct bench {
    const ccl_i_cause_rows_t *in;
    double *scale, *weight; /* [n] */
    hypothesis_t *list;
    uint32_t nlist;
    char slow_kind[24]; /* of links inside servers that limit */
} bench_t;

static const struct {
    const char *name;
    double prior;
} about[] = {
    [CCL_CAUSE_HEALTHY] = {"healthy", 0.60}, [CCL_CAUSE_RAILS] = {"rails", 0.06},
    [CCL_CAUSE_NETWORK] = {"network", 0.06}, [CCL_CAUSE_LINK] = {"link", 0.05},
    [CCL_CAUSE_DETOUR] = {"detour", 0.04},   [CCL_CAUSE_BLOCKS] = {"blocks", 0.03},
    [CCL_CAUSE_LAUNCH] = {"launch", 0.05},   [CCL_CAUSE_LATENCY] = {"latency", 0.03},
    [CCL_CAUSE_NO_NVLS] = {"no-nvls", 0.03}, [CCL_CAUSE_SETTING] = {"setting", 0.03},
    [CCL_CAUSE_FASTER] = {"faster", 0.03},   [CCL_CAUSE_UNKNOWN] = {"unknown", 0.02},
};

const char *ccl_cause_name(ccl_cause_kind_t kind) {
    return about[kind].name;
}

/* ---------------------------------------------------------------- what a cause predicts */

static bool over_net(const ccl_diagnosis_t *d) {
    return strcmp(d->expected.link_kind, "net") == 0;
}

/* What one row would take. INFINITY: more than *least_out, and it is not known how much. */
static double predict(const bench_t *b, const hypothesis_t *h, double x, uint32_t i,
                      double *least_out) {
    const ccl_diagnosis_t *d = &b->in->points[i];
    const ccl_prediction_t *e = &d->expected;
    double use = 0, other_s = NAN;
    switch (h->kind) {
    case CCL_CAUSE_HEALTHY: /* one path a message may lack what x says */
    case CCL_CAUSE_RAILS:
    case CCL_CAUSE_NETWORK:
        use = over_net(d) ? e->link_use : 0;
        break;
    case CCL_CAUSE_LINK:
        use = over_net(d) ? 0 : e->link_use;
        break;
    case CCL_CAUSE_BLOCKS:
        use = e->block_use;
        break;
    case CCL_CAUSE_LATENCY:
        use = 1 - fmax(e->link_use, e->block_use);
        break;
    case CCL_CAUSE_FASTER:
        use = 1;
        break;
    case CCL_CAUSE_LAUNCH:
        return e->time_s + x;
    case CCL_CAUSE_DETOUR:
        return fmax(e->time_s, e->time_s * e->busbw_GBps / x);
    case CCL_CAUSE_NO_NVLS:
        other_s = b->in->no_nvls_s[i];
        break;
    default:
        other_s = b->in->others_s[(size_t)i * CCL_I_WAYS + h->algo * CCL_I_PROTOS + h->proto];
    }
    if (h->kind != CCL_CAUSE_NO_NVLS && h->kind != CCL_CAUSE_SETTING)
        return e->time_s * (1 + (x - 1) * use);
    *least_out = b->in->limit_s[i];
    return isnan(other_s) ? e->time_s : other_s;
}

/* ---------------------------------------------------------------- how well it agrees */

/* Student's t with 4 degrees of freedom. */
static double density(double z, double scale) {
    double u = 1 + z * z / scale / scale / 4;
    return 0.375 / scale / (u * u * sqrt(u));
}
static double tail(double z, double scale) { /* of what is beyond z */
    double t = z / scale, u = t / sqrt(4 + t * t);
    return 0.5 - u * (3 - u * u) / 4;
}

static double log_likelihood(const bench_t *b, const hypothesis_t *h, double x) {
    double sum = 0;
    for (uint32_t i = 0; i < b->in->n; i++) {
        double measured_s = b->in->points[i].measured_s, least_s = 0, p;
        double time_s = predict(b, h, x, i, &least_s);
        if (h->kind == CCL_CAUSE_UNKNOWN)
            p = 1 / log(MOST_SLOWER * MOST_SLOWER); /* anything */
        else if (time_s < INFINITY)
            p = density(log(measured_s / time_s), b->scale[i]);
        else
            p = tail(log(least_s / measured_s), b->scale[i]) / log(UNKNOWN_RANGE);
        sum += b->weight[i] * log(fmax(p, 1e-12));
    }
    return sum;
}

/* The mean likelihood over what the parameter may be, which is as likely at any scale. */
static void weigh(const bench_t *b, hypothesis_t *h) {
    double logs[GRID], most = -INFINITY, sum = 0;
    uint32_t n = h->to > h->from ? GRID : 1;
    for (uint32_t k = 0; k < n; k++) {
        double x = h->from * pow(h->to / h->from, n > 1 ? (double)k / (n - 1) : 0);
        logs[k] = log_likelihood(b, h, x);
        if (logs[k] > most) {
            most = logs[k];
            h->best = x;
        }
    }
    for (uint32_t k = 0; k < n; k++)
        sum += exp(logs[k] - most);
    h->weight = most + log(sum / n) + log(h->prior);
}

/* ---------------------------------------------------------------- the causes */

static void add(bench_t *b, ccl_cause_kind_t kind, double share, double from, double to) {
    b->list[b->nlist++] =
        (hypothesis_t){.kind = kind, .prior = share * about[kind].prior, .from = from, .to = to};
}

/* Does the log name this algorithm or protocol, and no other? */
static bool says(const ccl_measured_run_t *run, const char *setting, const char *name) {
    const char *value = ccl_measured_setting(run, setting);
    return value && strcasecmp(value, name) == 0;
}

static void add_settings(bench_t *b) {
    const ccl_measured_run_t *run = b->in->run;
    uint32_t before = b->nlist;
    for (uint32_t a = 0; a < CCL_I_ALGOS; a++)
        for (uint32_t p = 0; p < CCL_I_PROTOS; p++) {
            bool there = false, same = true;
            for (uint32_t i = 0; i < b->in->n; i++) {
                const ccl_nccl_choice_t *c = &b->in->points[i].expected.choice;
                there =
                    there || !isnan(b->in->others_s[(size_t)i * CCL_I_WAYS + a * CCL_I_PROTOS + p]);
                same = same && c->algo == (ccl_nccl_algo_t)a && c->proto == (ccl_nccl_proto_t)p;
            }
            if (!there || same)
                continue;
            const char *algo = ccl_nccl_algo_name((ccl_nccl_algo_t)a),
                       *proto = ccl_nccl_proto_name((ccl_nccl_proto_t)p);
            double named = (says(run, "NCCL_ALGO", algo) ? NAMED : 1) *
                           (says(run, "NCCL_PROTO", proto) ? NAMED : 1);
            add(b, CCL_CAUSE_SETTING, named, 1, 1);
            b->list[b->nlist - 1].algo = a;
            b->list[b->nlist - 1].proto = p;
        }
    for (uint32_t k = before; k < b->nlist; k++)
        b->list[k].prior /= b->nlist - before;
}

static void list_causes(bench_t *b) {
    bool net = false, inside = false, blocks = false, nvls = false, latency = false;
    const ccl_i_cause_rows_t *in = b->in;
    for (uint32_t i = 0; i < in->n; i++) {
        const ccl_diagnosis_t *d = &in->points[i];
        net = net || (d->limit == CCL_LIMIT_LINK && over_net(d));
        if (d->limit == CCL_LIMIT_LINK && !over_net(d)) {
            inside = true;
            snprintf(b->slow_kind, sizeof b->slow_kind, "%s", d->expected.link_kind);
        }
        blocks = blocks || d->limit == CCL_LIMIT_BLOCK;
        latency = latency || d->limit == CCL_LIMIT_LATENCY;
        nvls = nvls || !isnan(in->no_nvls_s[i]);
    }
    bool one_path = in->run->kind == CCL_SENDRECV && net;
    add(b, CCL_CAUSE_HEALTHY, 1, 1, one_path ? ONE_PATH : 1);
    for (uint32_t k = 1; net && in->rails && k < in->nics; k++) /* k of them work */
        add(b, CCL_CAUSE_RAILS,
            in->nics == 2       ? 1
            : 2 * k == in->nics ? 0.5
                                : 0.5 / (in->nics - 2),
            (double)in->nics / k, (double)in->nics / k);
    if (net)
        add(b, CCL_CAUSE_NETWORK, 1, one_path ? ONE_PATH : LEAST_SLOWER, MOST_SLOWER);
    if (inside) {
        add(b, CCL_CAUSE_LINK, 1, LEAST_SLOWER, MOST_SLOWER);
        add(b, CCL_CAUSE_DETOUR, 1, LEAST_PATH_GBps, MOST_PATH_GBps);
    }
    if (blocks)
        add(b, CCL_CAUSE_BLOCKS, 1, LEAST_SLOWER, MOST_SLOWER);
    add(b, CCL_CAUSE_LAUNCH, 1, LEAST_EXTRA_S, MOST_EXTRA_S);
    if (latency)
        add(b, CCL_CAUSE_LATENCY, 1, LEAST_SLOWER, MOST_SLOWER);
    if (nvls)
        add(b, CCL_CAUSE_NO_NVLS, in->run->no_nvls ? NAMED : 1, 1, 1);
    add(b, CCL_CAUSE_FASTER, 1, 1 / MOST_SLOWER, 1 / LEAST_SLOWER);
    add(b, CCL_CAUSE_UNKNOWN, 1, 1, 1);
    add_settings(b);
}

/* ---------------------------------------------------------------- in words */

static const char *test_of(ccl_collective_kind_t kind) {
    static const char *const names[] = {[CCL_ALLREDUCE] = "all_reduce",
                                        [CCL_ALLGATHER] = "all_gather",
                                        [CCL_REDUCESCATTER] = "reduce_scatter",
                                        [CCL_ALLTOALL] = "alltoall",
                                        [CCL_BROADCAST] = "broadcast",
                                        [CCL_REDUCE] = "reduce",
                                        [CCL_GATHER] = "gather",
                                        [CCL_SCATTER] = "scatter",
                                        [CCL_SENDRECV] = "sendrecv"};
    return (size_t)kind < CCL_ARRAY_LEN(names) ? names[kind] : "all_reduce";
}

static void claim(const bench_t *b, const hypothesis_t *h, char *out, size_t len) {
    uint32_t nics = b->in->nics, works = (uint32_t)(nics / h->best + 0.5);
    switch (h->kind) {
    case CCL_CAUSE_HEALTHY:
        snprintf(out, len, "nothing is wrong");
        return;
    case CCL_CAUSE_RAILS:
        if (2 * works == nics)
            snprintf(out, len, "half of the rails idle (%u of %u NICs a server)", nics - works,
                     nics);
        else
            snprintf(out, len, "%u of %u rails idle", nics - works, nics);
        return;
    case CCL_CAUSE_NETWORK:
        snprintf(out, len, "the network gives %.2f of its bandwidth", 1 / h->best);
        return;
    case CCL_CAUSE_LINK:
        snprintf(out, len, "%s gives %.2f of its bandwidth", b->slow_kind, 1 / h->best);
        return;
    case CCL_CAUSE_DETOUR:
        snprintf(out, len, "data do not take %s but PCIe or shared memory (%.1f GB/s)",
                 b->slow_kind, h->best);
        return;
    case CCL_CAUSE_BLOCKS:
        snprintf(out, len, "thread blocks move %.2f of what they should", 1 / h->best);
        return;
    case CCL_CAUSE_LAUNCH:
        snprintf(out, len, "every call costs %.0f us more", h->best * 1e6);
        return;
    case CCL_CAUSE_LATENCY:
        snprintf(out, len, "launch and hops take %.1f times as long", h->best);
        return;
    case CCL_CAUSE_NO_NVLS:
        snprintf(out, len, "NVLS was not used");
        return;
    case CCL_CAUSE_SETTING:
        snprintf(out, len, "NCCL takes %s with %s, which it would not choose",
                 ccl_nccl_algo_name((ccl_nccl_algo_t)h->algo),
                 ccl_nccl_proto_name((ccl_nccl_proto_t)h->proto));
        return;
    case CCL_CAUSE_FASTER:
        snprintf(out, len, "the cluster is faster than described (%.2f times)", 1 / h->best);
        return;
    case CCL_CAUSE_UNKNOWN:
        break;
    }
    snprintf(out, len, "no known cause fits");
}

/* The next measurement, and what it would show: around the name of the collective's test. */
static const char *const next_of[][2] = {
    [CCL_CAUSE_RAILS] = {"NCCL_IB_HCA=NIC with one NIC at a time, ",
                         " -b 1G -e 1G: an idle rail moves nothing, a slow network slows all; "
                         "NCCL_DEBUG=INFO lists the NICs behind \"NET/IB\""},
    [CCL_CAUSE_NETWORK] =
        {"sendrecv_perf -b 1G -e 1G between two servers, with NCCL_NET_GDR_LEVEL=SYS "
         "and without: alike and fast means congestion, faster with it GPUDirect "
         "RDMA"},
    [CCL_CAUSE_LINK] = {"nvidia-smi nvlink --status and nvidia-smi -q -d CLOCK during ",
                        " -b 1G -e 1G; with NCCL_MIN_NCHANNELS=32: faster means too few channels"},
    [CCL_CAUSE_DETOUR] =
        {"NCCL_DEBUG=INFO shows \"via SHM\" or \"via P2P\" behind each channel; is "
         "NCCL_P2P_DISABLE set? With NCCL_P2P_LEVEL=SYS: faster means that "
         "peer-to-peer was off"},
    [CCL_CAUSE_BLOCKS] =
        {"NCCL_MIN_NCHANNELS=32 ",
         ": faster means too few channels, else clocks (nvidia-smi -q -d CLOCK) or "
         "another kernel on the GPU"},
    [CCL_CAUSE_LAUNCH] = {"",
                          " -b 8 -e 64K -G 1 (CUDA graphs), and with a process per GPU (-g 1): the "
                          "extra time goes if the CPU is the cause, and stays if it is a latency"},
    [CCL_CAUSE_LATENCY] = {"",
                           " -b 8 -e 64K on one server, then on all: slow on all alone means the "
                           "network's latency, on one too the clocks"},
    [CCL_CAUSE_NO_NVLS] = {"NCCL_NVLS_ENABLE=1 NCCL_DEBUG=INFO ",
                           " -b 1G -e 1G: the log has \"nvls channels\" above 0, or says why not"},
    [CCL_CAUSE_SETTING] =
        {"", " with NCCL_ALGO, NCCL_PROTO and NCCL_TUNER_PLUGIN unset; NCCL_DEBUG=INFO "
             "NCCL_DEBUG_SUBSYS=TUNING names what is taken"},
    [CCL_CAUSE_FASTER] = {"ccllab calibrate on this log; and NCCL_ALGO=Ring ",
                          " -b 1G -e 1G: slower means that switches add (NVLS, SHARP)"},
    [CCL_CAUSE_HEALTHY] = {"none is needed"},
    [CCL_CAUSE_UNKNOWN] = {"",
                           " -b 8 -e 8G -f 2 on one server, then on two: where it becomes slow"},
};

static void next(const bench_t *b, const hypothesis_t *h, char *out, size_t len) {
    const char *const *text = next_of[h->kind];
    snprintf(out, len, "%s%s%s%s", text[0], text[1] ? test_of(b->in->run->kind) : "",
             text[1] ? "_perf" : "", text[1] ? text[1] : "");
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t n) {
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double median_off(const bench_t *b, const hypothesis_t *h, double *work) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->in->n; i++) {
        double least_s = 0, time_s = predict(b, h, h->best, i, &least_s);
        work[n++] = time_s < INFINITY ? fabs(b->in->points[i].measured_s / time_s - 1) : INFINITY;
    }
    return median(work, n);
}

static void evidence(const bench_t *b, const hypothesis_t *h, double *work, char *out, size_t len) {
    const ccl_measured_run_t *run = b->in->run;
    double healthy = median_off(b, &b->list[0], work), own = median_off(b, h, work);
    size_t at = 0;
    if (h->kind == CCL_CAUSE_UNKNOWN)
        at = (size_t)snprintf(out, len, "the rows are off in a way that none explains");
    else if (own < INFINITY)
        at = (size_t)snprintf(out, len, "rows are %.0f %% off its times (median)", 100 * own);
    else
        at = (size_t)snprintf(out, len, "most rows are faster than it would be");
    if (h->kind != CCL_CAUSE_HEALTHY && at < len)
        at += (size_t)snprintf(out + at, len - at, ", %.0f %% off the healthy ones", 100 * healthy);
    if (h->kind == CCL_CAUSE_NO_NVLS && run->no_nvls && at < len)
        snprintf(out + at, len - at, "; the log says that NCCL had no NVLS");
    for (uint32_t s = 0; h->kind == CCL_CAUSE_SETTING && s < run->nsettings; s++)
        if (at < len && (strcmp(run->settings[s].name, "NCCL_ALGO") == 0 ||
                         strcmp(run->settings[s].name, "NCCL_PROTO") == 0))
            at += (size_t)snprintf(out + at, len - at, "; the log says %s=%s",
                                   run->settings[s].name, run->settings[s].value);
}

/* ---------------------------------------------------------------- the verdict */

static int by_weight(const void *a, const void *b) {
    const hypothesis_t *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* "allgather runs at 0.48 of the expected busbw from 8M on"; of fast sizes if none is slow. */
static void where(const bench_t *b, double *work, char *out, size_t len) {
    uint32_t n = 0, first = CCL_NONE, last = 0;
    const ccl_i_cause_rows_t *in = b->in;
    char size[32];
    bool slow = false;
    for (uint32_t i = 0; i < in->n; i++)
        slow |= !in->points[i].normal && in->points[i].ratio < 1;
    for (uint32_t i = 0; i < in->n; i++)
        if (!in->points[i].normal && (in->points[i].ratio < 1) == slow) {
            first = first == CCL_NONE ? i : first;
            last = i;
            work[n++] = in->points[i].ratio;
        }
    bool joined = n > 0 && last - first + 1 == n, all = n == 0 || n == in->n;
    for (uint32_t i = 0; n == 0 && i < in->n; i++)
        work[i] = in->points[i].ratio;
    double ratio = median(work, n ? n : in->n);
    size_t at = (size_t)snprintf(out, len, "%s runs at %.2f of the expected busbw",
                                 ccl_collective_kind_name(in->run->kind), ratio);
    if (all)
        snprintf(out + at, len - at, " at all sizes");
    else if (joined && last + 1 == in->n)
        snprintf(out + at, len - at, " from %s on",
                 ccl_format_bytes(in->points[first].size_bytes, size, sizeof size));
    else if (joined && first == 0)
        snprintf(out + at, len - at, " up to %s",
                 ccl_format_bytes(in->points[last].size_bytes, size, sizeof size));
    else
        snprintf(out + at, len - at, " at %u of %u sizes", n, in->n);
}

static const char *verdict(const bench_t *b, const ccl_cause_t *top, double *work,
                           ccl_arena_t *arena) {
    char text[700], at[200];
    uint32_t normal = 0, n = b->in->n;
    for (uint32_t i = 0; i < n; i++)
        normal += b->in->points[i].normal;
    where(b, work, at, sizeof at);
    if (top->kind == CCL_CAUSE_HEALTHY && normal == n)
        snprintf(text, sizeof text, "Healthy (probability %.2f): %u of %u sizes as expected",
                 top->probability, normal, n);
    else if (top->kind == CCL_CAUSE_HEALTHY)
        snprintf(
            text, sizeof text,
            "Healthy (probability %.2f): %u of %u sizes as expected, and the others off by what "
            "the model misses on healthy clusters",
            top->probability, normal, n);
    else if (top->kind == CCL_CAUSE_UNKNOWN)
        snprintf(text, sizeof text, "Not healthy, and no known cause fits (probability %.2f): %s",
                 top->probability, at);
    else
        snprintf(text, sizeof text, "%s: %s (probability %.2f): %s",
                 top->probability >= 0.5 ? "One cause is likely"
                                         : "Several causes are possible, first",
                 top->claim, top->probability, at);
    return ccl_arena_strdup(arena, text);
}

static ccl_status_t say_all(bench_t *b, double total, double *work, ccl_arena_t *arena,
                            ccl_diagnosis_run_t *out, ccl_error_t *err) {
    ccl_cause_t *causes = ccl_arena_alloc(arena, b->nlist, sizeof *causes);
    hypothesis_t *sorted = malloc(b->nlist * sizeof *sorted);
    bool ok = causes && sorted;
    if (ok) {
        memcpy(sorted, b->list, b->nlist * sizeof *sorted);
        qsort(sorted, b->nlist, sizeof *sorted, by_weight);
    }
    for (uint32_t k = 0; ok && k < b->nlist; k++) {
        char said[200], why[400], then[400];
        double p = exp(sorted[k].weight - total);
        if (k > 0 && p < LEAST_LISTED)
            break;
        claim(b, &sorted[k], said, sizeof said);
        evidence(b, &sorted[k], work, why, sizeof why);
        next(b, &sorted[k], then, sizeof then);
        ccl_cause_t *c = &causes[out->ncauses++];
        *c = (ccl_cause_t){sorted[k].kind, p, ccl_arena_strdup(arena, said),
                           ccl_arena_strdup(arena, why), ccl_arena_strdup(arena, then)};
        ok = c->claim && c->evidence && c->next;
    }
    if (ok) {
        out->causes = causes;
        out->verdict = verdict(b, &causes[0], work, arena);
        ok = out->verdict != NULL;
    }
    free(sorted);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- weights of rows */

/* The model is off at neighbouring sizes alike: those within a factor of two share one say. */
static void prepare(bench_t *b) {
    const ccl_i_cause_rows_t *in = b->in;
    for (uint32_t i = 0; i < in->n; i++) {
        const ccl_diagnosis_t *d = &in->points[i];
        uint32_t near = 0;
        bool latency = d->limit == CCL_LIMIT_LATENCY;
        for (uint32_t k = 0; k < in->n; k++)
            near += fabs(log2(in->points[k].size_bytes / d->size_bytes)) < 1.01;
        b->weight[i] = 1.0 / near;
        b->scale[i] = in->nservers > 1 ? (latency ? SCALE_NET_LATENCY : SCALE_NET_LINK)
                                       : (latency ? SCALE_LATENCY : SCALE_LINK);
        if (!in->fitted)
            b->scale[i] *= SCALE_UNFITTED;
    }
}

ccl_status_t ccl_i_causes(const ccl_i_cause_rows_t *rows, ccl_arena_t *arena,
                          ccl_diagnosis_run_t *out, ccl_error_t *err) {
    bench_t b = {.in = rows};
    double *work = malloc((rows->n + (size_t)1) * sizeof *work);
    double most = -INFINITY, sum = 0;
    ccl_status_t status = CCL_OK;
    b.scale = calloc(rows->n + (size_t)1, sizeof *b.scale);
    b.weight = calloc(rows->n + (size_t)1, sizeof *b.weight);
    /* RAILS once per number of NICs, SETTING once per algorithm and protocol */
    b.list = calloc((size_t)CCL_CAUSE_UNKNOWN + 1 + CCL_I_WAYS + rows->nics, sizeof *b.list);
    out->verdict = "";
    if (!work || !b.scale || !b.weight || !b.list) {
        status = ccl_fail_nomem(err);
    } else if (rows->n > 0) {
        prepare(&b);
        list_causes(&b);
        for (uint32_t k = 0; k < b.nlist; k++) {
            weigh(&b, &b.list[k]);
            most = fmax(most, b.list[k].weight);
        }
        for (uint32_t k = 0; k < b.nlist; k++)
            sum += exp(b.list[k].weight - most);
        status = say_all(&b, most + log(sum), work, arena, out, err);
    }
    free(b.list);
    free(b.weight);
    free(b.scale);
    free(work);
    return status;
}

ccl_status_t ccl_diagnoses_verdict(const ccl_diagnosis_run_t *const *runs, uint32_t n,
                                   ccl_text_t *out, ccl_error_t *err) {
    const ccl_diagnosis_run_t *worst = NULL, *least_sure = NULL;
    uint32_t healthy = 0, sizes = 0, normal = 0;
    for (uint32_t r = 0; r < n; r++) {
        const ccl_diagnosis_run_t *d = runs[r];
        bool good = d->ncauses == 0 || d->causes[0].kind == CCL_CAUSE_HEALTHY;
        healthy += good;
        sizes += d->npoints;
        for (uint32_t i = 0; i < d->npoints; i++)
            normal += d->points[i].normal;
        const ccl_diagnosis_run_t **of = good ? &least_sure : &worst;
        if (d->ncauses &&
            (!*of || (good ? d->causes[0].probability < (*of)->causes[0].probability
                           : d->causes[0].probability > (*of)->causes[0].probability)))
            *of = d;
    }
    if (n == 1)
        ccl_text_printf(out, "%s", runs[0]->verdict);
    else if (healthy == n && least_sure)
        ccl_text_printf(out,
                        "Healthy: %u runs, %u of %u sizes as expected; least sure is %s on %u "
                        "ranks (probability %.2f)",
                        n, normal, sizes, ccl_collective_kind_name(least_sure->run->kind),
                        least_sure->run->nranks, least_sure->causes[0].probability);
    else if (worst)
        ccl_text_printf(out, "%u of %u runs are not healthy; surest is %s on %u ranks: %s",
                        n - healthy, n, ccl_collective_kind_name(worst->run->kind),
                        worst->run->nranks, worst->verdict);
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
