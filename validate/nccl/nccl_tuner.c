/*
 * What NCCL would choose: its tuning model (version 2.30), latency + bytes / bandwidth of every
 * algorithm and protocol. Its numbers stand here because they are what it decides by; the
 * simulator does not use them.
 */
#include "validate/nccl/nccl.h"
#include "validate/nccl/nvls_program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HW_NVLINK, HW_PCI, HW_NET };
#define NPROTOS 3
#define NARCHS 4

/* us, [ring, tree][LL, LL128, Simple] */
static const double base_us[2][NPROTOS] = {{6.6, 14, 8.4}, {6.8, 14, 8.4}};
/* us a hop, [NVLink, PCI, NET][ring, tree][LL, LL128, Simple] */
static const double hop_us[3][2][NPROTOS] = {
    {{.6, 1.9, 3.4}, {.6, 1.25, 4.0}},
    {{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}},
    {{2.7, 4.0, 14}, {5.0, 8.5, 14}},
};
/* GB/s, [Volta, Ampere, Hopper, Blackwell][1, 2, 4 and more servers] */
static const double ll_max[NARCHS][3] = {
    {39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
/* GB/s a channel, the same order */
static const double ring_ll128[NARCHS] = {20, 20, 36.7, 34.5};
static const double tree_simple[NARCHS][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
/* Share of its bandwidth that a tree reaches by size, 64 B << i; [LL, LL128, Simple]. */
static const double tree_share[NPROTOS][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};
/* What a block of each protocol must have to do, bytes a thread; and its threads. */
static const double thread_bytes[NPROTOS] = {8, 8, 64};
static const double threads[NPROTOS] = {512, 640, 512};

#define NVLINK_SHARE 0.8          /* NCCL counts 20 GB/s of an NVLink of 25 GB/s */
#define PCI_GBPS 12.0             /* its PCI path */
#define P2P_LL_BYTES 16384.0      /* a channel's part up to this takes LL */
#define P2P_PART_BYTES 65536.0    /* least part of a message on a channel */
#define P2P_MOST_BYTES 16777216.0 /* of a channel, before it takes more of them */
#define P2P_NET_CHANNELS 2        /* of a peer on another server, while they are few enough */
#define P2P_NET_SHARE 4           /* messages that a channel has at most, or each peer has one */
#define FAST_NIC_GBPS 45.0        /* from it on a channel does not fill a NIC, since Hopper */
#define FEW_CHANNELS 16
#define NET_POST_US                                                                                \
    1.0 /* of a ring's step over several servers at least: its "network post overhead";            \
           on AMD's processors it counts 2, which a cluster does not name */
#define TREE_INSIDE 2.0 /* most of a tree's bandwidth inside servers, of that between them */
#define NVLS_GPUS 3     /* of a server; with fewer it takes rings */
#define NVLS_BASE_US 25.0
#define NVLS_STEPS_VERSION 23000 /* from it on it counts a ring's steps, before it 5/6 */
#define NVLS_TREE_HOP_US 20.9
#define NVLS_CHUNK_BYTES 131072.0 /* most of a head's part of a channel at a time */
#define NVLS_LEAST_BYTES 16384.0
#define P2P_LL_VERSION 22900 /* before it, LL up to P2P_LL_BYTES times all channels of a peer */
#define CHAIN_PIECE_BYTES 2097152.0 /* of a channel that go through all blocks at a time */
#define P2P_MAX_BLOCKS 262144u      /* bound on the blocks of a program */

/* Share of a head's bandwidth that NVLS reaches, by generation. */
static const double nvls_share[NARCHS] = {0, 0, .85, .74};
/* GB/s of a channel that its graph search tries, from the fastest; Hopper, Blackwell. */
static const double nvls_speeds[2][12] = {{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3},
                                          {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18}};
/* GB/s that NVLSTree reaches a head, the same order; two servers, more. */
static const double nvls_tree_most[NARCHS][2] = {{0}, {0}, {57.7, 45.5}, {96, 43.8}};
/* GB/s that it counts for an NVLink, by the 25 GB/s or 50 GB/s of the datasheet. */
#define NVLS_LINK_SHARE (20.6 / 25)
static const uint32_t nvls_channels[2] = {16, 24};

const char *ccl_nccl_algo_name(ccl_nccl_algo_t algo) {
    static const char *const names[] = {"ring", "tree", "nvls", "nvlstree", "p2p"};
    return names[algo];
}

bool ccl_nccl_nvls_type(const char *type) {
    static const char *const not_added[] = {"int8", "uint8", "char", "f8e4m3", "f8e5m2"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(not_added); i++)
        if (strcmp(type, not_added[i]) == 0)
            return false;
    return true;
}

const char *ccl_nccl_proto_name(ccl_nccl_proto_t proto) {
    return proto == CCL_NCCL_LL ? "LL" : proto == CCL_NCCL_LL128 ? "LL128" : "Simple";
}

void ccl_nccl_choice_text(const ccl_nccl_choice_t *choice, char *out, size_t out_len) {
    snprintf(out, out_len, "%s %s x%u", ccl_nccl_algo_name(choice->algo),
             ccl_nccl_proto_name(choice->proto), choice->channels);
}

const char *ccl_nccl_note(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind) {
    bool spread = kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER;
    if (spread && setup->nranks == setup->nservers)
        return "may take PAT here (one GPU a server), which is not modelled";
    return NULL;
}

/* ---------------------------------------------------------------- the cluster as NCCL sees it */

static uint32_t arch_of(const char *model) {
    static const struct {
        const char *part;
        uint32_t arch;
    } known[] = {{"V100", 0}, {"P100", 0}, {"T4", 0},   {"H100", 2}, {"H200", 2}, {"H800", 2},
                 {"H20", 2},  {"B200", 3}, {"B100", 3}, {"B300", 3}, {"GB", 3},   {"GH", 2}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(known); i++)
        if (strstr(model, known[i].part))
            return known[i].arch;
    return 1;
}

static bool fast_kind(const char *kind) {
    return strcmp(kind, "nvlink") == 0 || strcmp(kind, "xgmi") == 0;
}

/* Everything that NVLink or xGMI alone, over switches and GPUs, join to a device. */
static void spread(const ccl_topology_t *topo, uint32_t device, bool *seen, uint32_t *queue) {
    uint32_t head = 0, tail = 0;
    seen[device] = true;
    queue[tail++] = device;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t i = topo->out_first[at]; i < topo->out_first[at + 1]; i++) {
            const ccl_link_t *link = &topo->links[topo->out_links[i]];
            if (!fast_kind(topo->kinds[link->kind]) || seen[link->to])
                continue;
            seen[link->to] = true;
            queue[tail++] = link->to;
        }
    }
}

/* Do they join the GPUs of every server? */
static ccl_status_t joined(const ccl_topology_t *topo, bool *out, ccl_error_t *err) {
    bool *seen = calloc(topo->ndevices, sizeof *seen);
    bool *begun = calloc(topo->nservers + (size_t)1, sizeof *begun);
    uint32_t *queue = malloc((size_t)topo->ndevices * sizeof *queue);
    ccl_status_t status = seen && begun && queue ? CCL_OK : ccl_fail_nomem(err);
    *out = true;
    for (uint32_t r = 0; status == CCL_OK && r < topo->nranks; r++) {
        uint32_t device = topo->rank_device[r], server = topo->devices[device].server;
        server = server < topo->nservers ? server : topo->nservers;
        *out = *out && (seen[device] || !begun[server]);
        begun[server] = true;
        if (!seen[device])
            spread(topo, device, seen, queue);
    }
    free(seen);
    free(begun);
    free(queue);
    return status;
}

ccl_status_t ccl_nccl_library(const ccl_topology_t *topo, const char **out, ccl_error_t *err) {
    const char *first = "", *other = NULL;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        const char *vendor = ccl_model_gpu(topo, r).vendor;
        if (!vendor || !*vendor || strcmp(vendor, first) == 0)
            continue;
        if (!*first)
            first = vendor;
        else
            other = vendor;
    }
    if (other)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "neither NCCL nor RCCL runs on GPUs of %.40s and %.40s together", first,
                        other);
    if (*first && strcmp(first, "NVIDIA") != 0 && strcmp(first, "AMD") != 0)
        return ccl_fail(err, CCL_UNSUPPORTED, "neither NCCL nor RCCL runs on GPUs of %.40s", first);
    *out = strcmp(first, "AMD") == 0 ? "rccl" : "nccl";
    return CCL_OK;
}

bool ccl_nccl_stock(const char *name) {
    return name && (strcmp(name, "nccl") == 0 || strcmp(name, "rccl") == 0);
}

/* Of the server that has least of them: links to the network, and what they carry. */
typedef struct network {
    double GBps, nic_GBps; /* all NICs of a server; one */
    uint32_t nics;
} network_t;

/* Links to the network that some rank has nearest, by number of links: others stay idle. */
typedef struct nearest {
    const ccl_topology_t *topo;
    uint32_t *queue, *seen; /* [ndevices]; by which rank + 1 */
    bool *used;             /* [nlinks] */
} nearest_t;

/* Of a device and those after it as far from the rank; true if there are any. */
static bool use_links(nearest_t *n, uint32_t rank, uint32_t first, uint32_t *end) {
    const ccl_topology_t *topo = n->topo;
    uint32_t last = *end;
    bool found = false;
    for (uint32_t k = first; k < last; k++) {
        uint32_t device = n->queue[k];
        for (uint32_t i = topo->out_first[device]; i < topo->out_first[device + 1]; i++) {
            uint32_t l = topo->out_links[i], to = topo->links[l].to;
            if (strcmp(topo->kinds[topo->links[l].kind], "net") == 0) {
                n->used[l] = found = true;
            } else if (n->seen[to] != rank + 1 && topo->devices[to].kind != CCL_DEVICE_GPU) {
                n->seen[to] = rank + 1;
                n->queue[(*end)++] = to;
            }
        }
    }
    return found;
}

static void use_nearest(nearest_t *n, uint32_t rank) {
    uint32_t first = 0, end = 1;
    n->queue[0] = n->topo->rank_device[rank];
    n->seen[n->queue[0]] = rank + 1;
    while (first < end) {
        uint32_t last = end;
        if (use_links(n, rank, first, &end))
            return;
        first = last;
    }
}

static void least_network(const nearest_t *n, network_t *of, network_t *out) {
    const ccl_topology_t *topo = n->topo;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        uint32_t server = topo->devices[link->from].server;
        if (!n->used[l] || server >= topo->nservers)
            continue;
        of[server].GBps += link->bandwidth_Bps / 1e9;
        of[server].nic_GBps = fmax(of[server].nic_GBps, link->bandwidth_Bps / 1e9);
        of[server].nics++;
    }
    for (uint32_t s = 0; s < topo->nservers; s++) {
        if (of[s].nics == 0) /* no GPUs, or none that NCCL could reach */
            continue;
        bool first = out->nics == 0;
        out->GBps = first ? of[s].GBps : fmin(out->GBps, of[s].GBps);
        out->nic_GBps = first ? of[s].nic_GBps : fmin(out->nic_GBps, of[s].nic_GBps);
        out->nics = first || of[s].nics < out->nics ? of[s].nics : out->nics;
    }
}

static ccl_status_t network_of(const ccl_topology_t *topo, network_t *out, ccl_error_t *err) {
    network_t *of = calloc(topo->nservers + (size_t)1, sizeof *of);
    nearest_t n = {.topo = topo,
                   .queue = malloc((topo->ndevices + (size_t)1) * sizeof *n.queue),
                   .seen = calloc(topo->ndevices + (size_t)1, sizeof *n.seen),
                   .used = calloc(topo->nlinks + (size_t)1, sizeof *n.used)};
    bool got = of && n.queue && n.seen && n.used;
    *out = (network_t){0};
    if (got) {
        for (uint32_t r = 0; r < topo->nranks; r++)
            use_nearest(&n, r);
        least_network(&n, of, out);
    }
    free(of);
    free(n.queue);
    free(n.seen);
    free(n.used);
    return got ? CCL_OK : ccl_fail_nomem(err);
}

/* Are ranks first to first + n - 1 a whole server, on a switch that multicasts and reduces? */
static bool server_in_switch(const ccl_topology_t *topo, uint32_t first, uint32_t n,
                             uint32_t *ranks) {
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = first + i;
        if (topo->devices[topo->rank_device[first + i]].server !=
            topo->devices[topo->rank_device[first]].server)
            return false;
    }
    return ccl_topology_in_switch(topo, true, ranks, n) &&
           ccl_topology_in_switch(topo, false, ranks, n);
}

/* The fastest that its search tries of what a head may have of the links. */
static double nvls_speed(uint32_t arch, double most_GBps) {
    const double *speeds = nvls_speeds[arch - 2];
    for (size_t i = 0; i < CCL_ARRAY_LEN(nvls_speeds[0]); i++)
        if (speeds[i] > 0 && speeds[i] <= most_GBps)
            return speeds[i];
    return 0;
}

/*
 * NVLS: GPUs of Hopper or later on one switch that multicasts and reduces. Every GPU, up to 32 of
 * them, is the head of a part of the data. A head's rate counts twice on its own link and once on
 * each other's, so heads + 1 times on each; between servers once on its part of the NICs.
 */
static ccl_status_t find_nvls(const ccl_topology_t *topo, double link_GBps, double net_GBps,
                              ccl_nccl_setup_t *s, ccl_error_t *err) {
    uint32_t n = s->nranks / s->nservers;
    if (s->arch < 2 || !s->nvlink || n < NVLS_GPUS || s->nranks % s->nservers)
        return CCL_OK;
    uint32_t *ranks = malloc(n * sizeof *ranks);
    if (!ranks)
        return ccl_fail_nomem(err);
    s->nvls = true;
    for (uint32_t first = 0; first < s->nranks && s->nvls; first += n)
        s->nvls = server_in_switch(topo, first, n, ranks);
    free(ranks);
    uint32_t heads = n < CCL_I_NVLS_MOST_HEADS ? n : CCL_I_NVLS_MOST_HEADS;
    s->nvls_heads = heads;
    s->nvls_GBps = nvls_speed(s->arch, NVLS_LINK_SHARE * link_GBps / (heads + 1));
    s->nvls_net_GBps = s->nservers > 1 ? nvls_speed(s->arch, fmin(s->nvls_GBps, net_GBps / n)) : 0;
    s->nvls = s->nvls && s->nvls_GBps > 0 && (s->nservers == 1 || s->nvls_net_GBps > 0);
    s->nvls_channels = nvls_channels[s->arch - 2];
    return CCL_OK;
}

/*
 * Of one server as many as fill NVLink. Between servers its search finds one a NIC, which it
 * doubles, and since Hopper once more for few fast NICs. RCCL has as many as inside, the same on
 * every NIC.
 */
static uint32_t usual_channels(const ccl_nccl_setup_t *s, const network_t *net, bool amd) {
    static const uint32_t usual[NARCHS] = {12, 24, 24, 32};
    uint32_t inside = s->nvlink ? usual[s->arch] : 2;
    if (s->nservers == 1 || net->nics == 0 || net->nics > inside)
        return inside;
    if (amd || !s->nvlink)
        return (inside + net->nics - 1) / net->nics * net->nics;
    uint32_t n = 2 * net->nics;
    if (s->arch >= 2 && net->nic_GBps > FAST_NIC_GBPS && n < FEW_CHANNELS)
        n *= 2;
    return n;
}

/*
 * @param asked  channels that the caller wants; 0: NCCL's.
 * @param most  that a GPU has room for; 0: not known.
 */
static void set_channels(const network_t *net, uint32_t asked, uint32_t most, bool amd,
                         ccl_nccl_setup_t *s) {
    s->channels = asked ? asked : usual_channels(s, net, amd);
    if (most && s->channels > most)
        s->channels = most;
    s->p2p_channels = !s->nvlink ? 2 : s->arch == 0 ? 16 : 32;
    while (s->nvlink && s->nservers > 1 && s->p2p_channels >= 2 * s->channels)
        s->p2p_channels /= 2;
    if (asked && asked < s->p2p_channels)
        s->p2p_channels = asked;
    s->net_channels = P2P_NET_CHANNELS < s->p2p_channels ? P2P_NET_CHANNELS : s->p2p_channels;
    while (s->net_channels > 1 && s->net_channels * s->nranks > P2P_NET_SHARE * s->p2p_channels)
        s->net_channels /= 2;
    s->searched = amd || s->nservers == 1 || s->channels < 2 ? s->channels : s->channels / 2;
    double pairs = (double)s->nranks * (s->nranks - 1);
    while (s->p2p_channels > 1 && pairs * s->p2p_channels > P2P_MAX_BLOCKS)
        s->p2p_channels /= 2;
}

ccl_status_t ccl_nccl_setup(const ccl_topology_t *topo, uint32_t channels, ccl_nccl_setup_t *out,
                            ccl_error_t *err) {
    ccl_nccl_setup_t s = {.nranks = topo->nranks,
                          .version = 23000,
                          .arch = NARCHS - 1,
                          .nvlink = true,
                          .ll128 = true};
    double intra = INFINITY;
    uint32_t most = 0;
    network_t net = {0};
    bool servers = topo->nservers > 0, amd = false;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t device = topo->rank_device[r];
        ccl_gpu_model_t model = ccl_model_gpu(topo, r);
        uint32_t arch = arch_of(model.name ? model.name : "");
        s.arch = arch < s.arch ? arch : s.arch;
        amd = amd || strcmp(model.vendor, "AMD") == 0;
        most = model.sms && (!most || model.sms < most) ? model.sms : most;
        double egress = 0;
        for (uint32_t i = topo->out_first[device]; i < topo->out_first[device + 1]; i++) {
            const ccl_link_t *link = &topo->links[topo->out_links[i]];
            if (fast_kind(topo->kinds[link->kind]))
                egress += link->bandwidth_Bps;
        }
        intra = egress < intra ? egress : intra;
    }
    s.nvlink = intra > 0;
    if (s.nvlink)
        CCL_TRY(joined(topo, &s.nvlink, err));
    s.nservers = servers ? 1 : topo->nranks;
    for (uint32_t r = 1; servers && r < topo->nranks; r++)
        s.nservers += topo->devices[topo->rank_device[r]].server !=
                      topo->devices[topo->rank_device[r - 1]].server;
    CCL_TRY(network_of(topo, &net, err));
    s.bus_GBps = s.nvlink ? NVLINK_SHARE * intra / 1e9 : PCI_GBPS;
    s.tree_GBps = s.bus_GBps;
    if (s.nservers > 1 && net.GBps > 0) {
        s.bus_GBps = fmin(s.bus_GBps, net.GBps);
        s.tree_GBps = s.nservers == 2 ? fmin(s.tree_GBps, TREE_INSIDE * net.GBps) : s.bus_GBps;
    }
    s.ll128 = s.nvlink && !amd;
    s.nic_gpus =
        net.nics > 0 && s.nranks / s.nservers > net.nics ? s.nranks / s.nservers / net.nics : 1;
    set_channels(&net, channels, most, amd, &s);
    CCL_TRY(find_nvls(topo, intra / 1e9, net.GBps, &s, err));
    if (channels && s.nvls_channels > channels)
        s.nvls_channels = channels;
    *out = s;
    return CCL_OK;
}

/* ---------------------------------------------------------------- the choice */

static double log2_floor(double x) {
    return x >= 1 ? floor(log2(x) + 1e-12) : 0;
}

bool ccl_nccl_may(const ccl_nccl_setup_t *s, ccl_collective_kind_t kind, ccl_nccl_algo_t algo,
                  ccl_nccl_proto_t proto) {
    if (algo == CCL_NCCL_NVLS || algo == CCL_NCCL_NVLS_TREE)
        return s->nvls && (s->nservers > 1) == (algo == CCL_NCCL_NVLS_TREE) &&
               kind == CCL_ALLREDUCE && proto == CCL_NCCL_SIMPLE;
    return (algo != CCL_NCCL_TREE || kind == CCL_ALLREDUCE) &&
           (proto != CCL_NCCL_LL128 || s->ll128);
}

static double estimate_nvls_s(const ccl_nccl_setup_t *s, double bytes) {
    double n = s->nranks, servers = s->nservers, heads = s->nvls_heads, latency = NVLS_BASE_US;
    double each = s->nvls_GBps;
    if (s->version >= NVLS_STEPS_VERSION) /* all heads but one, twice as both halves run at once */
        each *= 2 * nvls_share[s->arch] * (heads - 1) / heads;
    if (servers > 1) {
        each = fmin(each, s->nvls_net_GBps * (servers <= 2 ? 2 : 1));
        each = fmin(each, nvls_tree_most[s->arch][servers > 2]);
        latency += 2 * log2_floor(servers) * NVLS_TREE_HOP_US;
    }
    double part = s->version < NVLS_STEPS_VERSION ? 5. / 6 : n / (2 * (n - 1));
    double all = heads * each * part;
    return (latency + bytes / (1000 * all)) * 1e-6;
}

/* Seconds that NCCL expects; negative: not possible. */
static double estimate_s(const ccl_nccl_setup_t *s, ccl_collective_kind_t kind,
                         ccl_nccl_algo_t algo, int proto, double bytes) {
    double n = s->nranks, nodes = s->nservers, steps = n;
    int column = nodes <= 2 ? (int)nodes - 1 : 2;
    bool tree = algo == CCL_NCCL_TREE;
    int intra = s->nvlink ? HW_NVLINK : HW_PCI;
    double bus = tree ? s->tree_GBps : s->bus_GBps;
    double ll = ll_max[nodes == 1 ? s->arch : 0][column];
    if (!ccl_nccl_may(s, kind, algo, (ccl_nccl_proto_t)proto))
        return -1;
    if (algo == CCL_NCCL_NVLS || algo == CCL_NCCL_NVLS_TREE)
        return estimate_nvls_s(s, bytes);
    if (kind == CCL_ALLREDUCE)
        steps = 2 * (n - 1);
    else if (kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER)
        steps = n - 1;
    if (tree) {
        bus = fmin(.92 * bus, s->searched * tree_simple[s->arch][column]);
        if (proto == CCL_NCCL_LL)
            bus = fmin(bus / 3.8, ll);
        else if (proto == CCL_NCCL_LL128)
            bus = fmin(bus * (nodes == 1 ? 7. / 9 : 120. / 128), s->searched * ring_ll128[s->arch]);
    } else if (proto == CCL_NCCL_LL) {
        bus = fmin(ll, .5 * bus);
    } else if (proto == CCL_NCCL_LL128) {
        bus = fmin(.92 * bus, s->searched * ring_ll128[s->arch]);
    }
    double bandwidth = tree ? .5 * bus : bus * n / steps; /* GB/s of the algorithm */
    double latency = base_us[tree][proto];
    double hop = hop_us[intra][tree][proto], far = hop_us[HW_NET][tree][proto];
    if (tree) {
        latency += 2 * ((n / nodes - 1) * hop + log2_floor(nodes) * far);
    } else if (kind == CCL_BROADCAST || kind == CCL_REDUCE) {
        latency += nodes > 1 ? far : hop;
    } else {
        double crossings = nodes == 1 ? 0 : kind == CCL_ALLREDUCE ? 2 * (nodes - 1) : nodes - 1;
        if (n == nodes) /* nothing hides the network */
            far = hop_us[HW_NET][1][proto];
        if (nodes > 1)
            hop = fmax(hop, (proto == CCL_NCCL_SIMPLE ? 3 : 1) * NET_POST_US);
        latency += (steps - crossings) * hop + crossings * far;
        if (proto == CCL_NCCL_SIMPLE && nodes > 1 && kind == CCL_ALLREDUCE &&
            bytes / (s->channels * n) >= 64)
            latency *= s->arch < 1 ? 1.9 : 1.4; /* its "plateau effect" */
    }
    if (tree) {
        double place = log2_floor(bytes / 64);
        if (place < 24)
            bandwidth *= tree_share[proto][(int)place];
    }
    return (latency + bytes / (1000 * bandwidth)) * 1e-6;
}

static uint32_t channels_for(const ccl_nccl_setup_t *s, ccl_nccl_algo_t algo, int proto,
                             double bytes) {
    if (algo == CCL_NCCL_NVLS || algo == CCL_NCCL_NVLS_TREE)
        return s->nvls_channels;
    double each = threads[proto] * thread_bytes[proto];
    if (algo == CCL_NCCL_RING && proto == CCL_NCCL_LL)
        each *= s->nranks;
    double most = floor(bytes / each);
    return most < 1 ? 1 : most < s->channels ? (uint32_t)most : s->channels;
}

/* A chain hands its share on in pieces, so that all its ranks work at once. */
static uint32_t chain_batches(ccl_collective_kind_t kind, const ccl_nccl_choice_t *c,
                              double bytes) {
    if ((kind != CCL_BROADCAST && kind != CCL_REDUCE) || c->algo != CCL_NCCL_RING ||
        c->proto == CCL_NCCL_LL)
        return 0;
    double pieces = ceil(bytes / c->channels / CHAIN_PIECE_BYTES);
    return pieces < 1 ? 1 : pieces < 1e6 ? (uint32_t)pieces : 1000000;
}

/* NVLS moves a chunk of every head and channel at a time, less of small messages. */
static uint32_t nvls_batches(const ccl_nccl_setup_t *s, const ccl_nccl_choice_t *c, double bytes) {
    double at_once = (double)c->channels * s->nvls_heads;
    double chunk = NVLS_CHUNK_BYTES, rounds = 64;
    for (; chunk > NVLS_LEAST_BYTES; chunk /= 2, rounds = rounds > 8 ? 8 : 2)
        if (bytes >= rounds * at_once * chunk)
            break;
    double batches = ccl_model_ceil(bytes / at_once / chunk);
    return batches < 1 ? 1 : batches < 1e6 ? (uint32_t)batches : 1000000;
}

static uint32_t batches_for(const ccl_nccl_setup_t *s, ccl_collective_kind_t kind,
                            const ccl_nccl_choice_t *c, double bytes) {
    bool in_switch = c->algo == CCL_NCCL_NVLS || c->algo == CCL_NCCL_NVLS_TREE;
    return in_switch ? nvls_batches(s, c, bytes) : chain_batches(kind, c, bytes);
}

/* Inside a server each message has the channels that all peers together leave it, one per 64 KiB;
 * doubled for very large ones, which changes nothing where the same blocks serve several peers. */
static ccl_nccl_choice_t choose_p2p(const ccl_nccl_setup_t *s, ccl_collective_kind_t kind,
                                    double size_bytes) {
    double message = kind == CCL_SENDRECV ? size_bytes : size_bytes / s->nranks;
    ccl_nccl_choice_t c = {.algo = CCL_NCCL_P2P, .proto = CCL_NCCL_SIMPLE};
    uint32_t least = s->p2p_channels;
    while (least > 1 && least * s->nranks > s->p2p_channels)
        least /= 2;
    uint32_t most = s->nservers > 1 ? s->net_channels : least;
    while (s->nservers == 1 && kind == CCL_SENDRECV && message / most > P2P_MOST_BYTES &&
           2 * most <= s->p2p_channels)
        most *= 2;
    double parts = ceil(message / P2P_PART_BYTES);
    c.channels = parts < 1 ? 1 : parts < most ? (uint32_t)parts : most;
    double all = s->version < P2P_LL_VERSION ? s->p2p_channels : c.channels;
    if (message <= P2P_LL_BYTES * all) {
        c.proto = CCL_NCCL_LL;
        c.batches = 1; /* a request each */
        if (s->version < P2P_LL_VERSION)
            c.channels = least;
    }
    return c;
}

ccl_nccl_choice_t ccl_nccl_choose(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind,
                                  double size_bytes) {
    ccl_nccl_choice_t best = {CCL_NCCL_RING, CCL_NCCL_SIMPLE, 1, -1, 0};
    if (kind == CCL_ALLTOALL || kind == CCL_GATHER || kind == CCL_SCATTER || kind == CCL_SENDRECV)
        return choose_p2p(setup, kind, size_bytes);
    for (int algo = CCL_NCCL_RING; algo < CCL_NCCL_P2P; algo++) {
        for (int proto = 0; proto < NPROTOS; proto++) {
            double time_s = estimate_s(setup, kind, (ccl_nccl_algo_t)algo, proto, size_bytes);
            if (time_s < 0 || (best.estimate_s >= 0 && time_s >= best.estimate_s))
                continue;
            best.algo = (ccl_nccl_algo_t)algo;
            best.proto = (ccl_nccl_proto_t)proto;
            best.estimate_s = time_s;
        }
    }
    best.channels = channels_for(setup, best.algo, (int)best.proto, size_bytes);
    best.batches = batches_for(setup, kind, &best, size_bytes);
    return best;
}

ccl_nccl_choice_t ccl_nccl_channels(const ccl_nccl_setup_t *setup, ccl_collective_kind_t kind,
                                    ccl_nccl_algo_t algo, ccl_nccl_proto_t proto,
                                    double size_bytes) {
    double time_s = estimate_s(setup, kind, algo, (int)proto, size_bytes);
    ccl_nccl_choice_t c = {algo, proto, channels_for(setup, algo, (int)proto, size_bytes),
                           time_s > 0 ? time_s : 0, 0};
    c.batches = batches_for(setup, kind, &c, size_bytes);
    return c;
}
