/*
 * A program as an execution plan of MSCCL++ (github.com/microsoft/mscclpp, executor): puts into the
 * receiver's scratch, a slot for every message, each with a signal; the receiver waits and copies
 * or adds from the slot. So nobody needs to know when a slot is free again but at the start, where
 * every receiver signals to its sender that it has begun. Blocks of a GPU that wait for each other
 * get a semaphore each time.
 */
#include "schedule/schedule_i.h"

#include <stdlib.h>

/** A connection: whose messages go where. */
typedef struct connection {
    uint32_t src, dst, channel;
    uint32_t src_at, dst_at;  /* its number among the channels of this type of both GPUs */
    uint32_t sends, receives; /* messages written so far */
    uint32_t nslots;
    uint32_t *slots; /* [nslots] first element of each message in the receiver's scratch */
    bool port;       /* over the network */
} connection_t;

typedef struct plan {
    const ccl_program_t *p;
    const ccl_topology_t *topo;
    connection_t *conns;
    uint32_t nconns;
    uint32_t *send_conn, *recv_conn; /* [ntbs] CCL_NONE: none */
    uint32_t *scratch;               /* [nranks] elements of scratch, slots included */
    uint32_t *awaited_first;         /* [nsteps + 1] into awaited */
    uint32_t *awaited;               /* semaphores that a step releases */
    uint32_t *awaits;                /* [nsteps] semaphore that it acquires; CCL_NONE */
    uint32_t *nsemaphores;           /* [nranks] */
    ccl_text_t *out;
} plan_t;

static int by_ranks(const void *a, const void *b) {
    const connection_t *x = a, *y = b;
    const uint32_t u[] = {x->src < x->dst ? x->src : x->dst, x->src < x->dst ? x->dst : x->src,
                          x->src, x->channel};
    const uint32_t v[] = {y->src < y->dst ? y->src : y->dst, y->src < y->dst ? y->dst : y->src,
                          y->src, y->channel};
    for (int i = 0; i < 4; i++)
        if (u[i] != v[i])
            return u[i] < v[i] ? -1 : 1;
    return 0;
}

static uint32_t find(const plan_t *l, uint32_t src, uint32_t dst, uint32_t channel) {
    connection_t key = {.src = src, .dst = dst, .channel = channel};
    const connection_t *c = src == CCL_NONE || dst == CCL_NONE
                                ? NULL
                                : bsearch(&key, l->conns, l->nconns, sizeof *l->conns, by_ranks);
    return c ? (uint32_t)(c - l->conns) : CCL_NONE;
}

static bool crosses(const ccl_topology_t *topo, uint32_t a, uint32_t b) {
    return topo &&
           topo->devices[topo->rank_device[a]].server != topo->devices[topo->rank_device[b]].server;
}

/* ---------------------------------------------------------------- what is needed */

static ccl_status_t find_connections(plan_t *l, ccl_error_t *err) {
    const ccl_program_t *p = l->p;
    uint32_t *counts = calloc(2 * (size_t)p->nranks, sizeof *counts); /* by GPU and type */
    l->conns = calloc(p->ntbs + (size_t)1, sizeof *l->conns);
    if (!counts || !l->conns) {
        free(counts);
        return ccl_fail_nomem(err);
    }
    for (uint32_t t = 0; t < p->ntbs; t++)
        if (p->tbs[t].send_peer != CCL_NONE)
            l->conns[l->nconns++] =
                (connection_t){.src = p->tbs[t].rank,
                               .dst = p->tbs[t].send_peer,
                               .channel = p->tbs[t].channel,
                               .port = crosses(l->topo, p->tbs[t].rank, p->tbs[t].send_peer)};
    qsort(l->conns, l->nconns, sizeof *l->conns, by_ranks);
    for (uint32_t c = 0; c < l->nconns; c++) {
        connection_t *conn = &l->conns[c];
        conn->src_at = counts[2 * conn->src + conn->port]++;
        conn->dst_at = counts[2 * conn->dst + conn->port]++;
    }
    free(counts);
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        l->send_conn[t] = find(l, tb->rank, tb->send_peer, tb->channel);
        l->recv_conn[t] = find(l, tb->recv_peer, tb->rank, tb->channel);
    }
    return CCL_OK;
}

/* A slot in the receiver's scratch for every message. */
static ccl_status_t find_slots(plan_t *l, ccl_error_t *err) {
    const ccl_program_t *p = l->p;
    for (uint32_t r = 0; r < p->nranks; r++)
        l->scratch[r] = p->buffer_len[3 * r + CCL_BUF_SCRATCH];
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        connection_t *c = l->recv_conn[t] == CCL_NONE ? NULL : &l->conns[l->recv_conn[t]];
        if (!c)
            continue;
        c->slots = calloc(tb->nsteps + (size_t)1, sizeof *c->slots);
        if (!c->slots)
            return ccl_fail_nomem(err);
        for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
            if (!ccl_primitive_receives((ccl_primitive_t)p->steps[s].type))
                continue;
            c->slots[c->nslots++] = l->scratch[tb->rank];
            l->scratch[tb->rank] += p->steps[s].count;
        }
    }
    return CCL_OK;
}

static uint32_t step_awaited(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t step) {
    const ccl_step_t *s = &p->steps[step];
    if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE || s->dep_tb == tb->id)
        return CCL_NONE;
    return p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb].first_step + s->dep_step;
}

/* A semaphore for every wait on another block. */
static void find_semaphores(plan_t *l) {
    const ccl_program_t *p = l->p;
    for (uint32_t t = 0; t < p->ntbs; t++)
        for (uint32_t s = p->tbs[t].first_step; s < p->tbs[t].first_step + p->tbs[t].nsteps; s++) {
            uint32_t on = step_awaited(p, &p->tbs[t], s);
            if (on != CCL_NONE)
                l->awaited_first[on + 1]++;
        }
    for (uint32_t s = 0; s < p->nsteps; s++)
        l->awaited_first[s + 1] += l->awaited_first[s];
    for (uint32_t s = 0; s < p->nsteps; s++) /* filled from the front, then shifted back */
        l->awaits[s] = CCL_NONE;
    for (uint32_t t = 0; t < p->ntbs; t++)
        for (uint32_t s = p->tbs[t].first_step; s < p->tbs[t].first_step + p->tbs[t].nsteps; s++) {
            uint32_t on = step_awaited(p, &p->tbs[t], s);
            if (on == CCL_NONE)
                continue;
            l->awaits[s] = l->nsemaphores[p->tbs[t].rank]++;
            l->awaited[l->awaited_first[on]++] = l->awaits[s];
        }
    for (uint32_t s = p->nsteps; s > 0; s--)
        l->awaited_first[s] = l->awaited_first[s - 1];
    l->awaited_first[0] = 0;
}

/* ---------------------------------------------------------------- operations */

static void begin_op(plan_t *l, bool *first, const char *name) {
    ccl_text_printf(l->out, "%s\n          {\"name\": \"%s\"", *first ? "" : ",", name);
    *first = false;
}

static void plain_op(plan_t *l, bool *first, const char *name) {
    begin_op(l, first, name);
    ccl_text_printf(l->out, "}");
}

static void local(plan_t *l, const char *key, const uint32_t (*parts)[2], uint32_t n,
                  uint32_t count) {
    static const char *const types[] = {"i", "o", "s"};
    ccl_text_printf(l->out, ", \"%s\": [", key);
    for (uint32_t i = 0; i < n; i++)
        ccl_text_printf(l->out, "%s{\"type\": \"%s\", \"index\": %u, \"size\": %u}", i ? ", " : "",
                        types[parts[i][0]], parts[i][1], count);
    ccl_text_printf(l->out, "]");
}

/* On the block's connection out, or in. */
static void channel_op(plan_t *l, bool *first, const char *name, uint32_t tb, bool receiving) {
    const connection_t *send = l->send_conn[tb] == CCL_NONE ? NULL : &l->conns[l->send_conn[tb]];
    const connection_t *recv = l->recv_conn[tb] == CCL_NONE ? NULL : &l->conns[l->recv_conn[tb]];
    const connection_t *c = receiving ? recv : send;
    bool second = receiving && send && send->port == c->port; /* in the block's own list */
    begin_op(l, first, name);
    ccl_text_printf(l->out, ", \"channel_ids\": [%d], \"channel_type\": \"%s\"}", second,
                    c->port ? "port" : "memory");
}

static void semaphore_op(plan_t *l, bool *first, const char *name, uint32_t semaphore) {
    begin_op(l, first, name);
    ccl_text_printf(l->out, ", \"semaphore_ids\": [%u]}", semaphore);
}

static void copy_op(plan_t *l, bool *first, const uint32_t from[2], const uint32_t to[2],
                    uint32_t count) {
    begin_op(l, first, "copy");
    local(l, "src_buff", (const uint32_t(*)[2])from, 1, count);
    local(l, "dst_buff", (const uint32_t(*)[2])to, 1, count);
    ccl_text_printf(l->out, "}");
    plain_op(l, first, "nop");
}

static void reduce_op(plan_t *l, bool *first, const uint32_t a[2], const uint32_t b[2],
                      const uint32_t to[2], uint32_t count) {
    const uint32_t from[2][2] = {{a[0], a[1]}, {b[0], b[1]}};
    begin_op(l, first, "re");
    local(l, "src_buff", from, 2, count);
    local(l, "dst_buff", (const uint32_t(*)[2])to, 1, count);
    ccl_text_printf(l->out, ", \"reduce_op\": \"sum\"}");
    plain_op(l, first, "nop");
}

static void send_ops(plan_t *l, bool *first, uint32_t tb, const uint32_t from[2], uint32_t count) {
    connection_t *c = &l->conns[l->send_conn[tb]];
    begin_op(l, first, "put");
    local(l, "src_buff", (const uint32_t(*)[2])from, 1, count);
    ccl_text_printf(l->out,
                    ", \"dst_buff\": [{\"buffer_id\": 0, \"index\": %u, \"size\": %u}], "
                    "\"channel_ids\": [0], \"channel_type\": \"%s\"}",
                    c->slots[c->sends++], count, c->port ? "port" : "memory");
    plain_op(l, first, "nop");
    channel_op(l, first, "signal", tb, false);
    if (c->port)
        channel_op(l, first, "flush", tb, false);
}

static void step_ops(plan_t *l, bool *first, uint32_t tb, uint32_t step) {
    const ccl_step_t *s = &l->p->steps[step];
    ccl_primitive_t type = (ccl_primitive_t)s->type;
    const uint32_t src[] = {s->src_buf, s->src_off}, dst[] = {s->dst_buf, s->dst_off};
    uint32_t slot[] = {CCL_BUF_SCRATCH, 0};
    if (l->awaits[step] != CCL_NONE)
        semaphore_op(l, first, "sem_acquire", l->awaits[step]);
    if (ccl_primitive_receives(type)) {
        connection_t *c = &l->conns[l->recv_conn[tb]];
        slot[1] = c->slots[c->receives++];
        channel_op(l, first, "wait", tb, true);
    }
    plain_op(l, first, "nop");
    if (type == CCL_PRIM_CPY)
        copy_op(l, first, src, dst, s->count);
    else if (type == CCL_PRIM_RE)
        reduce_op(l, first, dst, src, dst, s->count);
    else if (type == CCL_PRIM_R || type == CCL_PRIM_RCS)
        copy_op(l, first, slot, dst, s->count);
    else if (type == CCL_PRIM_RRC || type == CCL_PRIM_RRCS)
        reduce_op(l, first, src, slot, dst, s->count);
    else if (type == CCL_PRIM_RRS)
        reduce_op(l, first, src, slot, slot, s->count);
    if (ccl_primitive_sends(type))
        send_ops(l, first, tb,
                 type == CCL_PRIM_S     ? src
                 : type == CCL_PRIM_RRS ? slot
                                        : dst,
                 s->count);
    for (uint32_t i = l->awaited_first[step]; i < l->awaited_first[step + 1]; i++)
        semaphore_op(l, first, "sem_release", l->awaited[i]);
}

/* ---------------------------------------------------------------- blocks, GPUs */

/* The block's channels of one type, and of what it sends into. */
static void block_lists(plan_t *l, uint32_t tb) {
    const connection_t *ends[2] = {
        l->send_conn[tb] == CCL_NONE ? NULL : &l->conns[l->send_conn[tb]],
        l->recv_conn[tb] == CCL_NONE ? NULL : &l->conns[l->recv_conn[tb]]};
    bool some = false;
    ccl_text_printf(l->out, "],\n         \"channels\": [");
    for (int port = 0; port < 2; port++) {
        bool open = false;
        for (int e = 0; e < 2; e++) {
            if (!ends[e] || ends[e]->port != (port == 1))
                continue;
            uint32_t at = e == 0 ? ends[e]->src_at : ends[e]->dst_at;
            if (open)
                ccl_text_printf(l->out, ", %u", at);
            else
                ccl_text_printf(l->out, "%s{\"channel_type\": \"%s\", \"channel_ids\": [%u",
                                some ? ", " : "", port ? "port" : "memory", at);
            open = some = true;
        }
        if (open)
            ccl_text_printf(l->out, "]}");
    }
    ccl_text_printf(l->out, "],\n         \"remote_buffer_refs\": [");
    if (ends[0]) { /* remote buffers of a GPU stand in the order of its peers */
        uint32_t at = 0;
        for (uint32_t c = 0; c < l->nconns; c++) {
            bool earlier = l->conns[c].src == ends[0]->src && l->conns[c].dst < ends[0]->dst;
            for (uint32_t k = 0; k < c && earlier; k++)
                earlier = l->conns[k].src != l->conns[c].src || l->conns[k].dst != l->conns[c].dst;
            at += earlier;
        }
        ccl_text_printf(l->out, "{\"access_channel_type\": \"%s\", \"remote_buffer_ids\": [%u]}",
                        ends[0]->port ? "port" : "memory", at);
    }
    ccl_text_printf(l->out, "]}");
}

static void block(plan_t *l, uint32_t tb) {
    const ccl_tb_t *b = &l->p->tbs[tb];
    bool first = true;
    ccl_text_printf(l->out, "        {\"id\": %u, \"ops\": [", b->id);
    if (l->recv_conn[tb] != CCL_NONE)
        channel_op(l, &first, "signal", tb, true);
    if (l->send_conn[tb] != CCL_NONE)
        channel_op(l, &first, "wait", tb, false);
    for (uint32_t s = b->first_step; s < b->first_step + b->nsteps; s++)
        step_ops(l, &first, tb, s);
    block_lists(l, tb);
}

static void gpu_lists(plan_t *l, uint32_t rank) {
    bool some = false;
    ccl_text_printf(l->out, "],\n      \"channels\": [");
    for (int port = 0; port < 2; port++) {
        bool open = false;
        for (uint32_t c = 0; c < l->nconns; c++) {
            const connection_t *conn = &l->conns[c];
            if (conn->port != (port == 1) || (conn->src != rank && conn->dst != rank))
                continue;
            uint32_t peer = conn->src == rank ? conn->dst : conn->src;
            if (open)
                ccl_text_printf(l->out, ", %u", peer);
            else
                ccl_text_printf(l->out, "%s{\"channel_type\": \"%s\", \"connected_to\": [%u",
                                some ? ", " : "", port ? "port" : "memory", peer);
            open = some = true;
        }
        if (open)
            ccl_text_printf(l->out, "]}");
    }
    ccl_text_printf(l->out, "],\n      \"remote_buffers\": [");
    some = false;
    for (uint32_t peer = 0; peer < l->p->nranks; peer++) {
        bool used = false;
        for (uint32_t c = 0; c < l->nconns && !used; c++)
            used = l->conns[c].src == rank && l->conns[c].dst == peer;
        if (used)
            ccl_text_printf(
                l->out, "%s{\"rank\": %u, \"type\": \"s\", \"access_channel_types\": [\"%s\"]}",
                some ? ", " : "", peer, crosses(l->topo, rank, peer) ? "port" : "memory");
        some |= used;
    }
    ccl_text_printf(l->out, "],\n      \"semaphores\": [");
    for (uint32_t i = 0; i < l->nsemaphores[rank]; i++)
        ccl_text_printf(l->out, "%s{\"init_value\": 0}", i ? ", " : "");
    ccl_text_printf(l->out, "]}");
}

static void write_plan(plan_t *l) {
    const ccl_program_t *p = l->p;
    ccl_text_printf(l->out,
                    "{\"name\": \"%s\", \"collective\": \"%s\", \"protocol\": \"Simple\",\n"
                    " \"inplace\": %s, \"reuse_resources\": false, "
                    "\"use_double_scratch_buffer\": false,\n"
                    " \"num_threads_per_block\": 1024, \"buffer_alignment\": 16,\n"
                    " \"min_message_size\": %.0f,",
                    p->name, p->coll->name, p->in_place ? "true" : "false", p->min_bytes);
    if (p->origin[0]) {
        ccl_text_printf(l->out, " \"origin\": ");
        ccl_i_json_text(p->origin, l->out);
        ccl_text_printf(l->out, ",");
    }
    if (p->max_bytes > 0)
        ccl_text_printf(l->out, " \"max_message_size\": %.0f,", p->max_bytes);
    ccl_text_printf(l->out, "\n \"gpus\": [");
    for (uint32_t r = 0; r < p->nranks; r++) {
        ccl_text_printf(l->out,
                        "%s\n     {\"id\": %u, \"input_chunks\": %u, \"output_chunks\": %u, "
                        "\"scratch_chunks\": %u, \"threadblocks\": [",
                        r ? "," : "", r, p->buffer_len[3 * r + CCL_BUF_INPUT],
                        p->buffer_len[3 * r + CCL_BUF_OUTPUT], l->scratch[r]);
        for (uint32_t t = p->rank_first_tb[r]; t < p->rank_first_tb[r + 1]; t++) {
            ccl_text_printf(l->out, "%s\n", t > p->rank_first_tb[r] ? "," : "");
            block(l, t);
        }
        gpu_lists(l, r);
    }
    ccl_text_printf(l->out, "]}\n");
}

/* Every message is received: of a proven program this holds. */
static ccl_status_t check_matched(const plan_t *l, ccl_error_t *err) {
    for (uint32_t t = 0; t < l->p->ntbs; t++) {
        const ccl_tb_t *tb = &l->p->tbs[t];
        uint32_t sends = 0;
        for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++)
            sends += ccl_primitive_sends((ccl_primitive_t)l->p->steps[s].type);
        if (l->send_conn[t] != CCL_NONE && sends != l->conns[l->send_conn[t]].nslots)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "rank %u sends %u times to rank %u, which receives %u", tb->rank, sends,
                            tb->send_peer, l->conns[l->send_conn[t]].nslots);
    }
    return CCL_OK;
}

ccl_status_t ccl_program_write_mscclpp(const ccl_program_t *program, const ccl_topology_t *topo,
                                       ccl_text_t *out, ccl_error_t *err) {
    plan_t l = {.p = program, .topo = topo, .out = out};
    size_t ns = program->nsteps, nt = program->ntbs, nr = program->nranks;
    ccl_status_t status = CCL_OK;
    if (program->ngroups > 0)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a plan of MSCCL++ is not written for programs that multicast or reduce in "
                        "switches");
    if (program->peers || program->shares)
        return ccl_fail(
            err, CCL_UNSUPPORTED, "a plan of MSCCL++ has no %s: lower with another allocation",
            program->peers ? "blocks that connections share" : "chunks of unequal size");
    if (topo && topo->nranks != program->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the program has %u ranks, topology %.80s has %u",
                        program->nranks, topo->name, topo->nranks);
    l.send_conn = calloc(nt + 1, sizeof *l.send_conn);
    l.recv_conn = calloc(nt + 1, sizeof *l.recv_conn);
    l.scratch = calloc(nr + 1, sizeof *l.scratch);
    l.nsemaphores = calloc(nr + 1, sizeof *l.nsemaphores);
    l.awaited_first = calloc(ns + 2, sizeof *l.awaited_first);
    l.awaited = calloc(ns + 1, sizeof *l.awaited);
    l.awaits = calloc(ns + 1, sizeof *l.awaits);
    if (!l.send_conn || !l.recv_conn || !l.scratch || !l.nsemaphores || !l.awaited_first ||
        !l.awaited || !l.awaits)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = find_connections(&l, err);
    if (status == CCL_OK)
        status = find_slots(&l, err);
    if (status == CCL_OK)
        status = check_matched(&l, err);
    if (status == CCL_OK) {
        find_semaphores(&l);
        write_plan(&l);
        status = out->nomem ? ccl_fail_nomem(err) : CCL_OK;
    }
    for (uint32_t c = 0; c < l.nconns; c++)
        free(l.conns[c].slots);
    free(l.conns);
    free(l.send_conn);
    free(l.recv_conn);
    free(l.scratch);
    free(l.nsemaphores);
    free(l.awaited_first);
    free(l.awaited);
    free(l.awaits);
    return status;
}
