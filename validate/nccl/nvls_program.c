/*
 * The programs of NCCL's kernels NVLS and NVLSTree. A CTA's groups of warps are blocks here: one
 * offers to every head, one moves sums up, one moves results down, one takes from every head.
 */
#include "validate/nccl/nvls_program.h"

#include <stdlib.h>

/* Blocks of a channel over several servers, in this order; one server has no DOWN. */
enum { OFFERS, UP, DOWN, TAKES, BLOCKS };

typedef struct nvls {
    ccl_program_builder_t *b;
    uint32_t servers, gpus, heads, channels; /* gpus of a server; the first ones are heads */
    uint32_t *all;                           /* [servers] the group of a server's GPUs */
} nvls_t;

/* A node of a binary tree over the servers. */
typedef struct node {
    uint32_t parent, children[2], nchildren; /* CCL_NONE: the root */
} node_t;

/*
 * NCCL's binary tree: a server whose lowest set bit is b has children b / 2 below and above, and a
 * parent that is b away; server 0 is the root, above the largest power of two.
 */
static node_t binary_node(uint32_t n, uint32_t server) {
    node_t node = {CCL_NONE, {0}, 0};
    uint32_t bit = 1;
    while (bit < n && !(bit & server))
        bit <<= 1;
    if (server > 0) {
        node.parent = (server ^ bit) | (bit << 1);
        if (node.parent >= n)
            node.parent = server ^ bit;
        if (bit > 1)
            node.children[node.nchildren++] = server - bit / 2;
        uint32_t low = bit / 2;
        while (low > 0 && server + low >= n)
            low /= 2;
        if (low > 0)
            node.children[node.nchildren++] = server + low;
    } else if (n > 1) {
        node.children[node.nchildren++] = bit / 2;
    }
    return node;
}

/* The second tree is the first with the servers mirrored (an even number of them) or shifted, so
 * that inner nodes of one are leaves of the other. */
static node_t tree_node(uint32_t n, uint32_t server, bool second) {
    if (!second)
        return binary_node(n, server);
    bool even = n % 2 == 0;
    node_t node = binary_node(n, even ? n - 1 - server : (server + n - 1) % n);
    if (node.parent != CCL_NONE)
        node.parent = even ? n - 1 - node.parent : (node.parent + 1) % n;
    for (uint32_t k = 0; k < node.nchildren; k++)
        node.children[k] = even ? n - 1 - node.children[k] : (node.children[k] + 1) % n;
    return node;
}

static uint32_t add_step(const nvls_t *v, uint32_t tb, ccl_primitive_t type, ccl_buffer_t buffer,
                         uint32_t element, ccl_peers_t peers) {
    ccl_step_t step = {.src_off = element,
                       .dst_off = element,
                       .count = 1,
                       .dep_tb = CCL_NONE,
                       .dep_step = CCL_NONE,
                       .type = (uint8_t)type,
                       .src_buf = (uint8_t)buffer,
                       .dst_buf = (uint8_t)buffer};
    return ccl_program_builder_step_peers(v->b, tb, step, peers);
}

/* The head's two blocks: the server's sum goes up the tree, the result comes down. The sums of the
 * servers below are added one by one. */
static void head_blocks(const nvls_t *v, uint32_t server, uint32_t head, uint32_t channel) {
    uint32_t rank = server * v->gpus + head, group = v->all[server];
    node_t node = tree_node(v->servers, server, channel % 2 != 0);
    bool root = node.parent == CCL_NONE;
    uint32_t parent = root ? CCL_NONE : node.parent * v->gpus + head;
    uint32_t up = ccl_program_builder_tb(v->b, rank, CCL_NONE, CCL_NONE, channel);
    if (root && node.nchildren == 0) { /* one server */
        add_step(v, up, CCL_PRIM_RCS, CCL_BUF_SCRATCH, channel,
                 (ccl_peers_t){group, group, channel});
        return;
    }
    if (node.nchildren == 0)
        add_step(v, up, CCL_PRIM_RCS, CCL_BUF_SCRATCH, channel,
                 (ccl_peers_t){parent, group, channel});
    else
        add_step(v, up, CCL_PRIM_R, CCL_BUF_SCRATCH, channel,
                 (ccl_peers_t){CCL_NONE, group, channel});
    uint32_t last = 0;
    for (uint32_t k = 0; k < node.nchildren; k++) {
        bool sends = k + 1 == node.nchildren && !root;
        last = add_step(
            v, up, sends ? CCL_PRIM_RRCS : CCL_PRIM_RRC, CCL_BUF_SCRATCH, channel,
            (ccl_peers_t){sends ? parent : CCL_NONE, node.children[k] * v->gpus + head, channel});
    }
    uint32_t down = ccl_program_builder_tb(v->b, rank, CCL_NONE, CCL_NONE, channel);
    uint32_t place = root ? channel : v->channels + channel;
    if (root) {
        ccl_step_t step = {.src_off = place,
                           .dst_off = place,
                           .count = 1,
                           .dep_tb = BLOCKS * channel + UP,
                           .dep_step = last,
                           .type = CCL_PRIM_S,
                           .src_buf = CCL_BUF_SCRATCH,
                           .dst_buf = CCL_BUF_SCRATCH};
        ccl_program_builder_step_peers(v->b, down, step, (ccl_peers_t){group, CCL_NONE, channel});
    } else {
        add_step(v, down, CCL_PRIM_RCS, CCL_BUF_SCRATCH, place,
                 (ccl_peers_t){group, parent, channel});
    }
    for (uint32_t k = 0; k < node.nchildren; k++)
        add_step(v, down, CCL_PRIM_S, CCL_BUF_SCRATCH, place,
                 (ccl_peers_t){node.children[k] * v->gpus + head, CCL_NONE, channel});
}

static void rank_blocks(const nvls_t *v, uint32_t server, uint32_t gpu, uint32_t channel) {
    uint32_t first = server * v->gpus, rank = first + gpu;
    uint32_t offers = ccl_program_builder_tb(v->b, rank, CCL_NONE, CCL_NONE, channel);
    for (uint32_t k = 0; k < v->heads; k++) {
        uint32_t head = (gpu + k) % v->heads;
        add_step(v, offers, CCL_PRIM_S, CCL_BUF_INPUT, head * v->channels + channel,
                 (ccl_peers_t){CCL_PEER_MEMBER | (first + head), CCL_NONE, channel});
    }
    if (gpu < v->heads)
        head_blocks(v, server, gpu, channel);
    uint32_t takes = ccl_program_builder_tb(v->b, rank, CCL_NONE, CCL_NONE, channel);
    for (uint32_t k = 0; k < v->heads; k++) {
        uint32_t head = (gpu + k) % v->heads;
        add_step(v, takes, CCL_PRIM_R, CCL_BUF_OUTPUT, head * v->channels + channel,
                 (ccl_peers_t){CCL_NONE, CCL_PEER_MEMBER | (first + head), channel});
    }
}

ccl_status_t ccl_i_nccl_nvls_program(const ccl_topology_t *topo, const ccl_nccl_choice_t *choice,
                                     ccl_program_t **out, ccl_error_t *err) {
    uint32_t n = topo->nranks, servers = choice->algo == CCL_NCCL_NVLS ? 1 : topo->nservers;
    nvls_t v = {.servers = servers, .gpus = n / servers, .channels = choice->channels};
    v.heads = v.gpus < CCL_I_NVLS_MOST_HEADS ? v.gpus : CCL_I_NVLS_MOST_HEADS;
    uint32_t elements = v.heads * v.channels;
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_create(CCL_ALLREDUCE, n, elements, 0, &coll, err));
    uint32_t *ranks = malloc((size_t)n * sizeof *ranks);
    v.all = malloc((size_t)servers * sizeof *v.all);
    v.b = ccl_program_builder_create(servers > 1 ? "nccl-nvlstree" : "nccl-nvls", coll, elements,
                                     "Simple");
    if (!ranks || !v.all || !v.b) {
        free(ranks);
        free(v.all);
        ccl_program_builder_destroy(v.b);
        return ccl_fail_nomem(err);
    }
    ccl_program_builder_place(v.b, true, true, 0, 0);
    for (uint32_t rank = 0; rank < n; rank++) {
        ranks[rank] = rank;
        ccl_program_builder_buffer(v.b, rank, CCL_BUF_INPUT, elements);
        ccl_program_builder_buffer(v.b, rank, CCL_BUF_OUTPUT, elements);
        ccl_program_builder_buffer(v.b, rank, CCL_BUF_SCRATCH, v.channels * (servers > 1 ? 2 : 1));
    }
    for (uint32_t s = 0; s < servers; s++)
        v.all[s] = ccl_program_builder_group(v.b, ranks + s * v.gpus, v.gpus);
    for (uint32_t s = 0; s < servers; s++)
        for (uint32_t g = 0; g < v.gpus; g++)
            for (uint32_t c = 0; c < v.channels; c++)
                rank_blocks(&v, s, g, c);
    free(ranks);
    free(v.all);
    CCL_TRY(ccl_program_builder_finish(v.b, out, err));
    ccl_origin_set((*out)->origin, "nccl: %s over %u channels", servers > 1 ? "NVLSTree" : "NVLS",
                   v.channels);
    return CCL_OK;
}
