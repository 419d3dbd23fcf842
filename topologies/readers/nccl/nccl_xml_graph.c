/*
 * <graphs>: the channels that NCCL found on a machine (NCCL_GRAPH_FILE), without the machine
 * itself.
 *
 * The ring graph (id 0, else the first whose pattern is a ring, else the first) shows which GPUs
 * there are, in which order each channel passes them, and how fast: speedintra GB/s per channel
 * between GPUs, speedinter GB/s per channel at a NIC. From it comes the least machine that can run
 * all channels at once at these speeds:
 * - typeintra NVL, NVB, LOC, C2C: a link for each pair of neighbours on a ring, speedintra for each
 *   channel that uses it; and a CPU that joins all GPUs at PCI speed, so that other pairs have a
 * way;
 * - other types (PIX, PXB, PHB, SYS ...): one CPU that joins all GPUs, channels x speedintra each.
 */
#include "topologies/readers/nccl/nccl_xml.h"

#include <stdlib.h>
#include <string.h>

#define RING_PATTERN 4 /* NCCL_TOPO_PATTERN_RING */

typedef struct graph_reader {
    ccl_i_nccl_plan_t *plan;
    const ccl_i_xml_tree_t *tree;
    uint32_t graph, host, nchannels;
    double intra_GBps, inter_GBps;
    bool direct;
    ccl_strmap_t *gpus, *nets; /* by dev */
} graph_reader_t;

static ccl_status_t pick_graph(const ccl_i_xml_tree_t *tree, uint32_t *out, ccl_error_t *err) {
    uint32_t first = CCL_NONE, ring = CCL_NONE;
    for (uint32_t e = tree->elems[0].child; e != CCL_NONE; e = tree->elems[e].next) {
        if (!ccl_i_xml_is(tree, e, "graph"))
            continue;
        int64_t id = -1, pattern = -1;
        CCL_TRY(ccl_i_xml_int(tree, e, "id", -1, INT32_MAX, &id, err));
        CCL_TRY(ccl_i_xml_int(tree, e, "pattern", -1, INT32_MAX, &pattern, err));
        if (ccl_i_xml_child(tree, e, "channel") == CCL_NONE)
            continue;
        if (first == CCL_NONE)
            first = e;
        if (ring == CCL_NONE && (id == 0 || pattern == RING_PATTERN))
            ring = e;
    }
    *out = ring != CCL_NONE ? ring : first;
    if (*out == CCL_NONE)
        return ccl_i_xml_fail(tree, 0, err, "no <graph> with a <channel> in it");
    return CCL_OK;
}

/* Device of the GPU or NIC that a channel names, made when new. */
static ccl_status_t device_of(graph_reader_t *g, uint32_t elem, bool gpu, uint32_t *out,
                              ccl_error_t *err) {
    const char *text = ccl_i_xml_attr(g->tree, elem, "dev");
    int64_t dev = -1;
    CCL_TRY(ccl_i_xml_int(g->tree, elem, "dev", 0, INT32_MAX, &dev, err));
    if (!text)
        return ccl_i_xml_fail(g->tree, elem, err, "no dev");
    char key[24];
    snprintf(key, sizeof(key), "%lld", (long long)dev);
    ccl_strmap_t *map = gpu ? g->gpus : g->nets;
    *out = ccl_strmap_get(map, key);
    if (*out != CCL_NONE)
        return CCL_OK;
    char id[40];
    snprintf(id, sizeof(id), "net%s", key);
    CCL_TRY(ccl_i_plan_add(g->plan, gpu ? CCL_DEVICE_GPU : CCL_DEVICE_NIC, gpu ? NULL : id, g->host,
                           0, out, err));
    ccl_i_plan_dev_t *added = &g->plan->devs[*out];
    added->dev = gpu ? dev : -1;
    added->vendor = "";
    if (gpu) /* bandwidth of the way over the CPU */
        added->up_GBps = g->direct ? ccl_i_nccl_pci_GBps(NULL, 0) : g->nchannels * g->intra_GBps;
    return ccl_strmap_put(map, key, *out) ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t add_channel(graph_reader_t *g, uint32_t channel, ccl_error_t *err) {
    uint32_t first = CCL_NONE, last = CCL_NONE, net = CCL_NONE;
    for (uint32_t e = g->tree->elems[channel].child; e != CCL_NONE; e = g->tree->elems[e].next) {
        bool gpu = ccl_i_xml_is(g->tree, e, "gpu");
        if (!gpu && !ccl_i_xml_is(g->tree, e, "net"))
            continue;
        uint32_t dev;
        CCL_TRY(device_of(g, e, gpu, &dev, err));
        if (!gpu) {
            /* A channel comes in at its first net and leaves at its last, one direction each. */
            if (dev != net)
                g->plan->devs[dev].net_GBps += g->inter_GBps;
            g->plan->devs[dev].up_GBps = g->plan->devs[dev].net_GBps;
            net = dev;
            continue;
        }
        if (last != CCL_NONE && last != dev && g->direct)
            CCL_TRY(ccl_i_plan_link(g->plan, last, dev, "nvlink", 1, g->intra_GBps, err));
        if (first == CCL_NONE)
            first = dev;
        last = dev;
    }
    if (first == CCL_NONE)
        return ccl_i_xml_fail(g->tree, channel, err, "no <gpu> in this channel");
    if (net == CCL_NONE && first != last && g->direct)
        CCL_TRY(ccl_i_plan_link(g->plan, last, first, "nvlink", 1, g->intra_GBps, err));
    return CCL_OK;
}

static bool is_direct(const char *type) {
    static const char *const direct[] = {"NVL", "NVB", "LOC", "C2C", "PORT"};
    for (size_t i = 0; type && i < CCL_ARRAY_LEN(direct); i++)
        if (strcmp(type, direct[i]) == 0)
            return true;
    return false;
}

static ccl_status_t read_graph(graph_reader_t *g, ccl_error_t *err) {
    const ccl_i_xml_tree_t *tree = g->tree;
    CCL_TRY(pick_graph(tree, &g->graph, err));
    const char *type = ccl_i_xml_attr(tree, g->graph, "typeintra");
    CCL_TRY(ccl_i_xml_number(tree, g->graph, "speedintra", 1e6, &g->intra_GBps, err));
    g->inter_GBps = g->intra_GBps;
    CCL_TRY(ccl_i_xml_number(tree, g->graph, "speedinter", 1e6, &g->inter_GBps, err));
    if (g->intra_GBps <= 0 || g->inter_GBps <= 0)
        return ccl_i_xml_fail(tree, g->graph, err,
                              "speedintra and speedinter must be above 0 (GB/s per channel)");
    g->direct = is_direct(type);
    for (uint32_t e = tree->elems[g->graph].child; e != CCL_NONE; e = tree->elems[e].next)
        g->nchannels += ccl_i_xml_is(tree, e, "channel");
    uint32_t server;
    CCL_TRY(ccl_i_plan_server(g->plan, g->plan->name, &server, err));
    CCL_TRY(ccl_i_plan_add(g->plan, CCL_DEVICE_HOST, "cpu", CCL_NONE, 0, &g->host, err));
    g->plan->devs[g->host].server = server;
    for (uint32_t e = tree->elems[g->graph].child; e != CCL_NONE; e = tree->elems[e].next)
        if (ccl_i_xml_is(tree, e, "channel"))
            CCL_TRY(add_channel(g, e, err));
    CCL_TRY(ccl_i_plan_number(g->plan, err));
    const char *id = ccl_i_xml_attr(tree, g->graph, "id");
    if (g->direct)
        ccl_i_plan_assume(g->plan,
                          "graph file: links from the %u channels of graph %.20s, %g GB/s "
                          "for each channel; other pairs over one CPU at %g GB/s",
                          g->nchannels, id ? id : "0", g->intra_GBps, ccl_i_nccl_pci_GBps(NULL, 0));
    else
        ccl_i_plan_assume(g->plan,
                          "graph file: assumed %u gpus on one CPU with %g GB/s each way, "
                          "what the %u channels of graph %.20s need (type %.20s)",
                          g->plan->ngpus, g->nchannels * g->intra_GBps, g->nchannels, id ? id : "0",
                          type ? type : "not given");
    return CCL_OK;
}

ccl_status_t ccl_i_nccl_read_graphs(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                                    ccl_error_t *err) {
    graph_reader_t g = {.plan = plan, .tree = tree};
    g.gpus = ccl_strmap_create();
    g.nets = ccl_strmap_create();
    ccl_status_t status = g.gpus && g.nets ? read_graph(&g, err) : ccl_fail_nomem(err);
    ccl_strmap_destroy(g.gpus);
    ccl_strmap_destroy(g.nets);
    return status;
}
