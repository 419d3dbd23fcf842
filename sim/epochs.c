/**
 * @file epochs.c
 * Epoch flows replayed in continuous time, link by link: the plan's order is kept, its clock is
 * not.
 *
 * A transmission is one chunk on one link. A link sends its transmissions one by one, in the order
 * of their epochs; a switch forwards while it receives. Everything that a transmission waits for is
 * known in advance, so this is a longest path, found by going on wherever something became free.
 */
#include "sim/internal.h"

#include <math.h>
#include <string.h>

#define MAX_CELLS ((uint64_t)1 << 26) /* chunks times GPUs */

typedef struct send {      /* one transmission */
    uint32_t link, flow;   /* flow: the first of those it serves */
    uint32_t prev;         /* transmission before it on the way; CCL_NONE: from a GPU */
    uint32_t next_of_prev; /* list of those that have one prev; they are on `first_next` */
    uint32_t first_next;
    uint32_t same; /* group of flows: next flow that ends with it */
    double start_s, end_s;
    bool done;
} send_t;

typedef struct replay {
    const ccl_topology_t *topo;
    const ccl_epoch_flows_t *flows;
    ccl_sim_result_t *result;
    double chunk_bytes;
    uint32_t *switch_device; /* [nswitches] */
    send_t *sends;
    size_t nsends, csends;
    uint32_t *last_send;   /* [nflows] */
    uint32_t *needs;       /* [nflows] */
    uint32_t *flow_next;   /* [nflows] next flow that ends with the same transmission */
    uint32_t *queue_first; /* [nlinks + 1] into queue */
    uint32_t *queue;       /* [nsends] by link, in its order */
    uint32_t *queue_at;    /* [nlinks] done so far */
    double *free_s;        /* [nlinks] */
    /* A cell is a chunk at a GPU. */
    uint32_t *cell_first;           /* [cells] first flow into it that did not arrive yet */
    uint32_t *cell_next;            /* [nflows] next flow into the same cell */
    uint32_t *out_first, *out_next; /* flows out of a cell, [cells] and [nflows] */
    uint32_t *ready;                /* [cells] arrivals without a gap before them */
    double *ready_s;                /* [cells] the last of these */
    bool *arrived;                  /* [nflows] */
    double *go_s;                   /* [nflows] when its chunk is at its source; -1: not known */
    uint32_t *cell_sends;  /* [cells] last transmission out of the cell; next_of_prev goes on */
    uint32_t *work, nwork; /* links to look at */
    bool *in_work;
} replay_t;

static size_t cell_of(const replay_t *r, uint32_t chunk, uint32_t rank) {
    return (size_t)chunk * r->flows->nranks + rank;
}

/* ---------------------------------------------------------------- from flows to transmissions */

static uint32_t find_link(const ccl_topology_t *topo, uint32_t from, uint32_t to) {
    for (uint32_t i = topo->out_first[from]; i < topo->out_first[from + 1]; i++)
        if (topo->links[topo->out_links[i]].to == to)
            return topo->out_links[i];
    return CCL_NONE;
}

static ccl_status_t find_switches(replay_t *r, ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t d = 0; d < r->topo->ndevices; d++) {
        if (r->topo->devices[d].kind == CCL_DEVICE_SWITCH && n++ < r->flows->nswitches)
            r->switch_device[n - 1] = d;
    }
    if (r->flows->nswitches && n != r->flows->nswitches)
        return ccl_fail(err, CCL_ERR_INPUT, "%s uses %u switches, but %s has %u", r->flows->name,
                        r->flows->nswitches, r->topo->name, n);
    return CCL_OK;
}

/** The same chunk on the same way in the same epoch is sent once. */
static uint32_t find_twin(const replay_t *r, uint32_t flow, uint32_t head, uint32_t link) {
    uint32_t epoch = r->flows->flows[flow].epoch;
    for (uint32_t i = head; i != CCL_NONE; i = r->sends[i].next_of_prev) {
        if (r->flows->flows[r->sends[i].flow].epoch != epoch)
            return CCL_NONE; /* of an earlier one, as are all behind it */
        if (r->sends[i].link == link)
            return i;
    }
    return CCL_NONE;
}

static ccl_status_t add_flow(replay_t *r, uint32_t flow, bool copies, ccl_error_t *err) {
    const ccl_epoch_flow_t *f = &r->flows->flows[flow];
    uint32_t at = r->topo->rank_device[f->src], prev = CCL_NONE;
    for (uint32_t hop = 0; hop <= f->nvias; hop++) {
        uint32_t to = hop < f->nvias ? r->switch_device[r->flows->vias[f->first_via + hop]]
                                     : r->topo->rank_device[f->dst];
        uint32_t link = find_link(r->topo, at, to);
        if (link == CCL_NONE)
            return ccl_fail(err, CCL_ERR_INPUT, "%s: there is no link from %s to %s on %s",
                            r->flows->name, r->topo->devices[at].id, r->topo->devices[to].id,
                            r->topo->name);
        size_t cell = cell_of(r, f->chunk, f->src);
        uint32_t head = prev == CCL_NONE ? r->cell_sends[cell] : r->sends[prev].first_next;
        uint32_t twin = copies ? find_twin(r, flow, head, link) : CCL_NONE;
        if (twin == CCL_NONE) {
            if (!ccl_grow(&r->sends, &r->csends, r->nsends + 1, sizeof *r->sends))
                return ccl_fail_nomem(err);
            twin = (uint32_t)r->nsends++;
            r->sends[twin] = (send_t){.link = link,
                                      .flow = flow,
                                      .prev = prev,
                                      .next_of_prev = head,
                                      .first_next = CCL_NONE,
                                      .same = CCL_NONE};
            if (prev == CCL_NONE)
                r->cell_sends[cell] = twin;
            else
                r->sends[prev].first_next = twin;
            r->result->links[link].bytes += f->part * r->chunk_bytes;
        }
        prev = twin;
        at = to;
    }
    r->last_send[flow] = prev;
    r->flow_next[flow] = r->sends[prev].same;
    r->sends[prev].same = flow;
    return CCL_OK;
}

/** How many arrivals a flow's chunk needs: copies the first, what moves as much as leaves. */
static void count_needs(replay_t *r, bool copies) {
    const ccl_epoch_flows_t *fl = r->flows;
    for (uint32_t i = fl->nflows; i-- > 0;) {
        const ccl_epoch_flow_t *f = &fl->flows[i];
        r->cell_next[i] = r->cell_first[cell_of(r, f->chunk, f->dst)];
        r->cell_first[cell_of(r, f->chunk, f->dst)] = i;
        r->out_next[i] = r->out_first[cell_of(r, f->chunk, f->src)];
        r->out_first[cell_of(r, f->chunk, f->src)] = i;
    }
    for (size_t c = 0; c < (size_t)fl->coll->nchunks * fl->nranks; c++) {
        uint32_t chunk = (uint32_t)(c / fl->nranks), rank = (uint32_t)(c % fl->nranks);
        bool source = fl->coll->chunks[chunk].sources[0] == rank;
        uint32_t next = r->cell_first[c], count = 0;
        double came = source ? 1 : 0, went = 0;
        for (uint32_t i = r->out_first[c]; i != CCL_NONE; i = r->out_next[i]) {
            went = copies ? fmax(went, fl->flows[i].part) : went + fl->flows[i].part;
            while (came < went * (1 - 1e-3) && next != CCL_NONE) {
                came += fl->flows[next].part;
                next = r->cell_next[next];
                count++;
            }
            r->needs[i] = came < went * (1 - 1e-3) ? CCL_NONE : count;
            r->go_s[i] = r->needs[i] ? -1 : 0;
        }
    }
}

static ccl_status_t make_queues(replay_t *r, ccl_error_t *err) {
    uint32_t nlinks = r->topo->nlinks;
    r->queue = malloc((r->nsends + 1) * sizeof *r->queue);
    if (!r->queue)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < r->nsends; i++)
        r->queue_first[r->sends[i].link + 1]++;
    for (uint32_t l = 0; l < nlinks; l++)
        r->queue_first[l + 1] += r->queue_first[l];
    for (uint32_t l = 0; l < nlinks; l++)
        r->queue_at[l] = r->queue_first[l];
    for (size_t i = 0; i < r->nsends; i++) /* flows come by epoch, so sends do */
        r->queue[r->queue_at[r->sends[i].link]++] = (uint32_t)i;
    for (uint32_t l = 0; l < nlinks; l++)
        r->queue_at[l] = r->queue_first[l];
    return CCL_OK;
}

/* ---------------------------------------------------------------- the run */

static void look_at(replay_t *r, uint32_t link) {
    if (!r->in_work[link]) {
        r->in_work[link] = true;
        r->work[r->nwork++] = link;
    }
}

static void arrive(replay_t *r, uint32_t flow, double time_s) {
    const ccl_epoch_flow_t *f = &r->flows->flows[flow];
    size_t c = cell_of(r, f->chunk, f->dst);
    r->result->flow_done_s[flow] = time_s;
    r->result->time_s = fmax(r->result->time_s, time_s);
    r->arrived[flow] = true;
    while (r->cell_first[c] != CCL_NONE && r->arrived[r->cell_first[c]]) {
        r->ready_s[c] = fmax(r->ready_s[c], r->result->flow_done_s[r->cell_first[c]]);
        r->cell_first[c] = r->cell_next[r->cell_first[c]];
        r->ready[c]++;
        /* What needs no more than that may go; needs never fall along the list. */
        while (r->out_first[c] != CCL_NONE && r->needs[r->out_first[c]] <= r->ready[c]) {
            uint32_t first = r->last_send[r->out_first[c]];
            while (r->sends[first].prev != CCL_NONE)
                first = r->sends[first].prev;
            r->go_s[r->out_first[c]] = r->ready_s[c];
            look_at(r, r->sends[first].link);
            r->out_first[c] = r->out_next[r->out_first[c]];
        }
    }
}

/** When what the transmission waits for is there; false: not known yet. */
static bool may_start(const replay_t *r, const send_t *s, double *at_s) {
    if (s->prev != CCL_NONE) {
        const send_t *p = &r->sends[s->prev];
        *at_s = p->start_s + r->topo->links[p->link].latency_s;
        return p->done;
    }
    *at_s = r->go_s[s->flow];
    return *at_s >= 0;
}

/** Goes on with a link as far as can be; returns how many were sent. */
static size_t run_link(replay_t *r, uint32_t link) {
    const ccl_link_t *l = &r->topo->links[link];
    size_t sent = 0;
    while (r->queue_at[link] < r->queue_first[link + 1]) {
        send_t *s = &r->sends[r->queue[r->queue_at[link]]];
        double at_s;
        if (!may_start(r, s, &at_s))
            break;
        s->start_s = fmax(at_s, r->free_s[link]);
        s->end_s = s->start_s + r->flows->flows[s->flow].part * r->chunk_bytes / l->bandwidth_Bps;
        if (s->prev != CCL_NONE) { /* cut-through: not before its last byte is here */
            const send_t *p = &r->sends[s->prev];
            s->end_s = fmax(s->end_s, p->end_s + r->topo->links[p->link].latency_s);
        }
        s->done = true;
        r->free_s[link] = s->end_s;
        r->queue_at[link]++;
        sent++;
        for (uint32_t n = s->first_next; n != CCL_NONE; n = r->sends[n].next_of_prev)
            look_at(r, r->sends[n].link);
        for (uint32_t i = s->same; i != CCL_NONE; i = r->flow_next[i])
            arrive(r, i, s->end_s + l->latency_s);
    }
    return sent;
}

static ccl_status_t run_all(const ccl_ctx_t *ctx, replay_t *r, ccl_error_t *err) {
    size_t left = r->nsends;
    uint64_t turns = 0;
    for (uint32_t l = 0; l < r->topo->nlinks; l++)
        look_at(r, l);
    while (r->nwork) {
        uint32_t link = r->work[--r->nwork];
        r->in_work[link] = false;
        left -= run_link(r, link);
        if (++turns % 4096 == 0)
            CCL_TRY(ccl_ctx_poll(ctx, NULL));
    }
    if (!left)
        return CCL_OK;
    for (uint32_t l = 0; l < r->topo->nlinks; l++) {
        if (r->queue_at[l] == r->queue_first[l + 1])
            continue;
        const ccl_epoch_flow_t *f = &r->flows->flows[r->sends[r->queue[r->queue_at[l]]].flow];
        return ccl_fail(err, CCL_CHECK,
                        "%s cannot happen in this order: chunk %u never comes to GPU %u, which "
                        "sends it in epoch %u (%zu transmissions are left)",
                        r->flows->name, f->chunk, f->src, f->epoch, left);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of it */

static bool allocate(replay_t *r, size_t cells) {
    uint32_t nflows = r->flows->nflows + 1, nlinks = r->topo->nlinks + 1;
    struct {
        void *at;
        size_t n, size;
    } all[] = {{&r->switch_device, r->flows->nswitches + (size_t)1, sizeof(uint32_t)},
               {&r->last_send, nflows, sizeof(uint32_t)},
               {&r->needs, nflows, sizeof(uint32_t)},
               {&r->flow_next, nflows, sizeof(uint32_t)},
               {&r->cell_next, nflows, sizeof(uint32_t)},
               {&r->out_next, nflows, sizeof(uint32_t)},
               {&r->arrived, nflows, sizeof(bool)},
               {&r->go_s, nflows, sizeof(double)},
               {&r->cell_sends, cells, sizeof(uint32_t)},
               {&r->queue_first, nlinks, sizeof(uint32_t)},
               {&r->queue_at, nlinks, sizeof(uint32_t)},
               {&r->free_s, nlinks, sizeof(double)},
               {&r->work, nlinks, sizeof(uint32_t)},
               {&r->in_work, nlinks, sizeof(bool)},
               {&r->cell_first, cells, sizeof(uint32_t)},
               {&r->out_first, cells, sizeof(uint32_t)},
               {&r->ready, cells, sizeof(uint32_t)},
               {&r->ready_s, cells, sizeof(double)}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++) {
        void *memory = calloc(all[i].n, all[i].size);
        memcpy(all[i].at, &memory, sizeof memory);
        if (!memory)
            return false;
    }
    memset(r->cell_first, 0xff, cells * sizeof *r->cell_first);
    memset(r->cell_sends, 0xff, cells * sizeof *r->cell_sends);
    memset(r->out_first, 0xff, cells * sizeof *r->out_first);
    return true;
}

static void release(replay_t *r) {
    void *const all[] = {r->switch_device, r->go_s,        r->cell_sends, r->last_send,
                         r->needs,         r->flow_next,   r->cell_next,  r->out_next,
                         r->arrived,       r->queue_first, r->queue_at,   r->free_s,
                         r->work,          r->in_work,     r->cell_first, r->out_first,
                         r->ready,         r->ready_s,     r->queue,      r->sends};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++)
        free(all[i]);
}

static ccl_status_t replay(const ccl_ctx_t *ctx, replay_t *r, bool multicast, ccl_error_t *err) {
    const ccl_epoch_flows_t *fl = r->flows;
    bool copies = fl->coll->kind == CCL_ALLGATHER;
    CCL_TRY(find_switches(r, err));
    for (uint32_t i = 0; i < fl->nflows; i++)
        CCL_TRY(add_flow(r, i, multicast && copies, err));
    count_needs(r, copies);
    CCL_TRY(make_queues(r, err));
    CCL_TRY(run_all(ctx, r, err));
    ccl_sim_result_t *result = r->result;
    result->algbw_GBps = result->time_s > 0 ? result->size_bytes / result->time_s / 1e9 : 0;
    result->busbw_GBps =
        result->algbw_GBps * ccl_collective_busbw_factor(fl->coll->kind, fl->nranks);
    result->transfers = fl->nflows;
    result->flows = r->nsends;
    result->batches = 1;
    ccl_i_result_links(result, r->topo);
    return CCL_OK;
}

ccl_status_t ccl_sim_epoch_flows(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_epoch_flows_t *flows, double size_bytes, bool multicast,
                                 ccl_sim_result_t **out, ccl_error_t *err) {
    replay_t r = {.topo = topo, .flows = flows};
    uint64_t cells = (uint64_t)flows->coll->nchunks * flows->nranks;
    if (flows->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "%s has %u GPUs, but %s has %u", flows->name,
                        flows->nranks, topo->name, topo->nranks);
    if (!(size_bytes > 0) || cells > MAX_CELLS)
        return ccl_fail(err, CCL_ERR_INPUT, "%s",
                        size_bytes > 0 ? "too many chunks on too many GPUs"
                                       : "a size above 0 is needed");
    r.chunk_bytes = size_bytes * flows->coll->chunks[0].share;
    r.result = ccl_i_result_create(topo->nlinks, 0, flows->nflows + 1u);
    ccl_status_t status = CCL_OK;
    if (!r.result || !allocate(&r, cells))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK) {
        r.result->size_bytes = size_bytes;
        r.result->chunk_bytes = r.chunk_bytes;
        status = replay(ctx, &r, multicast, err);
    }
    release(&r);
    if (status == CCL_OK)
        *out = r.result;
    else
        ccl_sim_result_destroy(r.result);
    return status;
}
