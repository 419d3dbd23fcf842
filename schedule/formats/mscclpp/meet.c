/* Which operations of a plan of MSCCL++ meet, and what its blocks do in terms of programs. */
#include "schedule/formats/mscclpp/read_i.h"

#include <stdlib.h>
#include <string.h>

void ccl_i_mpp_reader_fini(ccl_i_mpp_reader_t *r) {
    for (size_t g = 0; r->uses && g < r->plan->ngpus; g++)
        free(r->uses[g]);
    free(r->uses);
    free(r->met);
    free(r->op_of);
    free(r->home);
    free(r->end);
    free(r->items);
    free(r->conns);
    free(r->group_ranks);
    free(r->group_n);
    free(r->groups);
    free(r->ids);
    free(r->next_id);
}

/* ---------------------------------------------------------------- signals and semaphores */

/** One signal, wait, release or acquire of one channel or semaphore. */
typedef struct event {
    uint32_t rank, type, channel; /* of who waits or acquires; type 2: a semaphore */
    uint32_t takes, id;
} event_t;
enum { SEMAPHORE = CCL_I_MPP_NTYPES };

static int by_channel(const void *a, const void *b) {
    const event_t *x = a, *y = b;
    const uint32_t u[] = {x->rank, x->type, x->channel, x->takes, x->id};
    const uint32_t v[] = {y->rank, y->type, y->channel, y->takes, y->id};
    for (int i = 0; i < 5; i++) {
        if (u[i] != v[i])
            return u[i] < v[i] ? -1 : 1;
    }
    return 0;
}

static ccl_status_t list_events(ccl_i_mpp_reader_t *r, event_t *events, size_t *n,
                                ccl_error_t *err) {
    const ccl_i_mpp_t *plan = r->plan;
    for (uint32_t o = 0; o < plan->nops; o++) {
        const ccl_i_mpp_op_t *op = &plan->ops[o];
        uint32_t rank = plan->blocks[op->block].rank;
        for (uint32_t i = op->first; i < op->first + op->n; i++) {
            event_t e = {rank, op->type, plan->ids[i], op->kind == CCL_I_MPP_WAIT, i};
            r->op_of[i] = o;
            if (op->kind == CCL_I_MPP_RELEASE || op->kind == CCL_I_MPP_ACQUIRE) {
                e.type = SEMAPHORE;
                e.takes = op->kind == CCL_I_MPP_ACQUIRE;
            } else if (op->kind == CCL_I_MPP_SIGNAL) {
                e.rank = plan->gpus[rank].peers[op->type][plan->ids[i]];
                e.channel = ccl_i_mpp_partner(plan, rank, op->type, plan->ids[i]);
                if (e.channel == CCL_NONE)
                    return ccl_i_mpp_fail(r->doc, plan, o, err,
                                          "GPU %u has no channel for what GPU %u signals", e.rank,
                                          rank);
            } else if (op->kind != CCL_I_MPP_WAIT) {
                continue;
            }
            events[(*n)++] = e;
        }
    }
    return CCL_OK;
}

/** The n-th signal ends the n-th wait; one block signals, one waits. */
static ccl_status_t match(ccl_i_mpp_reader_t *r, const event_t *events, size_t n,
                          ccl_error_t *err) {
    for (size_t first = 0, end; first < n; first = end) {
        size_t takes = first;
        for (end = first;
             end < n && events[end].rank == events[first].rank &&
             events[end].type == events[first].type && events[end].channel == events[first].channel;
             end++)
            takes += !events[end].takes;
        for (size_t i = first; i < end; i++) {
            uint32_t op = r->op_of[events[i].id];
            size_t begin = i < takes ? first : takes;
            if (r->home[op] != r->home[r->op_of[events[begin].id]])
                return ccl_i_mpp_fail(r->doc, r->plan, op, err, "two blocks use one end of a %s",
                                      events[i].type == SEMAPHORE ? "semaphore" : "channel");
            if (i < takes && takes + (i - first) < end) {
                uint32_t other = events[takes + (i - first)].id;
                r->met[events[i].id] = other;
                r->met[other] = events[i].id;
            }
        }
    }
    return CCL_OK;
}

/** A block that begins where the one before it ends is its rest, if they share a channel. */
static void find_homes(ccl_i_mpp_reader_t *r) {
    ccl_i_mpp_t *plan = r->plan;
    for (uint32_t b = 0, home = 0; b < plan->nblocks; b++) {
        ccl_i_mpp_block_t *block = &plan->blocks[b], *before = block - 1;
        bool rest = false;
        if (b > 0 && before->rank == block->rank && before->nops > 0 && block->nops > 0) {
            ccl_i_mpp_op_t *x = &plan->ops[block->first - 1], *y = &plan->ops[block->first];
            rest = x->kind == CCL_I_MPP_RELEASE && y->kind == CCL_I_MPP_ACQUIRE && x->n == 1 &&
                   y->n == 1 && plan->ids[x->first] == plan->ids[y->first];
            bool shared = true; /* also where it only says what was done before */
            for (uint32_t k = block->first; k < block->first + block->nops; k++)
                shared = shared && (plan->ops[k].kind == CCL_I_MPP_RELEASE ||
                                    plan->ops[k].kind == CCL_I_MPP_ACQUIRE);
            for (uint32_t i = before->first; rest && i + 1 < block->first; i++) {
                for (uint32_t k = block->first + 1; k < block->first + block->nops; k++)
                    shared =
                        shared || (plan->ops[i].n > 0 && plan->ops[k].n > 0 &&
                                   plan->ops[i].kind <= CCL_I_MPP_WAIT &&
                                   plan->ops[k].kind <= CCL_I_MPP_WAIT &&
                                   plan->ops[i].type == plan->ops[k].type &&
                                   plan->ids[plan->ops[i].first] == plan->ids[plan->ops[k].first]);
            }
            rest = rest && shared;
            if (rest)
                x->kind = y->kind = CCL_I_MPP_NOP;
        }
        home = rest ? home : b;
        for (uint32_t o = block->first; o < block->first + block->nops; o++)
            r->home[o] = home;
        r->end[home] = block->first + block->nops;
    }
}

/** Whether the next data that a block moves behind an operation are stored to a group. */
static bool stores_next(const ccl_i_mpp_reader_t *r, uint32_t op) {
    for (uint32_t o = op + 1; o < r->end[r->home[op]]; o++) {
        uint8_t kind = r->plan->ops[o].kind;
        if (kind >= CCL_I_MPP_PUT)
            return kind == CCL_I_MPP_STORE || kind == CCL_I_MPP_PULL_STORE;
    }
    return false;
}

uint32_t ccl_i_mpp_released_by(const ccl_i_mpp_reader_t *r, uint32_t id) {
    if (r->met[id] == CCL_NONE)
        return CCL_NONE;
    uint32_t op = r->op_of[r->met[id]], block = r->home[op], found = CCL_NONE;
    const ccl_i_mpp_op_t *next = &r->plan->ops[op + 1];
    if (op + 1 < r->end[block] && next->kind == CCL_I_MPP_ACQUIRE && next->n == 1 &&
        r->met[next->first] != CCL_NONE &&
        r->home[r->op_of[r->met[next->first]]] == r->home[r->op_of[id]] &&
        stores_next(r, r->op_of[id]))
        return CCL_NONE; /* it says only that it is ready to be stored to */
    size_t low = 0, high = r->nitems;
    while (low < high) { /* the first item behind */
        size_t mid = (low + high) / 2;
        const ccl_i_mpp_item_t *it = &r->items[mid];
        if (it->block < block || (it->block == block && it->op <= op))
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && r->items[low - 1].block == block)
        found = (uint32_t)low - 1;
    return found;
}

/* ---------------------------------------------------------------- items */

static void add_item(ccl_i_mpp_reader_t *r, uint32_t op, ccl_i_mpp_item_t it) {
    r->nomem |= !ccl_grow(&r->items, &r->items_cap, r->nitems + 1, sizeof *r->items);
    if (r->nomem)
        return;
    it.block = r->home[op];
    it.op = op;
    it.seq = (uint32_t)r->nitems;
    r->items[r->nitems++] = it;
}

static uint32_t conn_of(ccl_i_mpp_reader_t *r, uint32_t src, uint32_t dst, uint32_t kind,
                        uint32_t group) {
    for (uint32_t c = 0; c < r->nconns; c++) {
        const ccl_i_mpp_conn_t *k = &r->conns[c];
        if (k->src == src && k->dst == dst && k->kind == kind && k->group == group)
            return c;
    }
    r->nomem |= !ccl_grow(&r->conns, &r->conns_cap, r->nconns + 1, sizeof *r->conns);
    if (r->nomem)
        return 0;
    r->conns[r->nconns] = (ccl_i_mpp_conn_t){src, dst, kind, group, 0};
    return (uint32_t)r->nconns++;
}

static uint32_t group_of(ccl_i_mpp_reader_t *r, const ccl_i_mpp_switch_t *sw) {
    for (uint32_t g = 0; g < r->ngroups; g++) {
        if (r->group_n[g] == sw->n &&
            memcmp(r->group_ranks[g], sw->ranks, sw->n * sizeof *sw->ranks) == 0)
            return g;
    }
    r->group_ranks[r->ngroups] = sw->ranks;
    r->group_n[r->ngroups] = sw->n;
    return r->ngroups++;
}

/** The operation of another GPU that meets the last wait before, or the first signal after. */
static uint32_t met_at(const ccl_i_mpp_reader_t *r, uint32_t op, uint32_t peer, bool after,
                       uint32_t type, uint32_t channel) {
    const ccl_i_mpp_t *plan = r->plan;
    uint32_t home = r->home[op], rank = plan->blocks[home].rank;
    uint32_t kind = after ? CCL_I_MPP_SIGNAL : CCL_I_MPP_WAIT;
    uint32_t first = plan->blocks[home].first, end = r->end[home];
    for (uint32_t o = op; after ? ++o < end : o-- > first;) {
        const ccl_i_mpp_op_t *k = &plan->ops[o];
        for (uint32_t i = k->first; k->kind == kind && i < k->first + k->n; i++) {
            if (plan->gpus[rank].peers[k->type][plan->ids[i]] == peer && k->type == type &&
                (channel == CCL_NONE || channel == plan->ids[i]) && r->met[i] != CCL_NONE)
                return r->op_of[r->met[i]];
        }
    }
    return CCL_NONE;
}

/** The same inside a GPU: by the one semaphore that is acquired before or released after. */
static uint32_t met_inside(const ccl_i_mpp_reader_t *r, uint32_t op, bool after) {
    const ccl_i_mpp_t *plan = r->plan;
    uint32_t home = r->home[op], first = plan->blocks[home].first, end = r->end[home];
    uint32_t kind = after ? CCL_I_MPP_RELEASE : CCL_I_MPP_ACQUIRE;
    for (uint32_t o = op; after ? ++o < end : o-- > first;) {
        const ccl_i_mpp_op_t *k = &plan->ops[o];
        if (k->kind >= CCL_I_MPP_PUT)
            break;
        if (k->kind == kind)
            return k->n == 1 && r->met[k->first] != CCL_NONE ? r->op_of[r->met[k->first]]
                                                             : CCL_NONE;
    }
    return CCL_NONE;
}

static ccl_status_t put_items(ccl_i_mpp_reader_t *r, uint32_t o, ccl_error_t *err) {
    const ccl_i_mpp_op_t *op = &r->plan->ops[o];
    uint32_t channel = op->n > 0 ? r->plan->ids[op->first] : CCL_NONE;
    uint32_t wait = met_at(r, o, op->peer, true, op->type, channel);
    if (wait == CCL_NONE)
        return ccl_i_mpp_fail(r->doc, r->plan, o, err,
                              "no signal that GPU %u waits for follows what is put there",
                              op->peer);
    uint32_t conn = conn_of(r, r->home[o], r->home[wait], CCL_WIRING_PLAIN, CCL_NONE);
    add_item(
        r, o,
        (ccl_i_mpp_item_t){
            .prim = CCL_PRIM_S, .a = op->a, .count = op->count, .send = conn, .recv = CCL_NONE});
    add_item(r, wait,
             (ccl_i_mpp_item_t){.prim = CCL_PRIM_R,
                                .dst = op->dst,
                                .count = op->count,
                                .send = CCL_NONE,
                                .recv = conn});
    return CCL_OK;
}

/** One member of a store or pull, where it meets it; the GPU itself in the same block if need be.
 */
static void member_item(ccl_i_mpp_reader_t *r, uint32_t o, uint32_t at, bool takes, uint32_t group,
                        uint32_t *conn) {
    const ccl_i_mpp_op_t *op = &r->plan->ops[o];
    ccl_i_mpp_item_t it = {.prim = takes ? CCL_PRIM_R : CCL_PRIM_S,
                           .a = op->a,
                           .dst = op->dst,
                           .count = op->count,
                           .send = CCL_NONE,
                           .recv = CCL_NONE};
    *conn = takes ? conn_of(r, r->home[o], r->home[at], CCL_WIRING_MULTICAST, group)
                  : conn_of(r, r->home[at], r->home[o], CCL_WIRING_REDUCING, group);
    *(takes ? &it.recv : &it.send) = *conn;
    add_item(r, at, it);
}

/** All members but the GPU itself. */
static ccl_status_t member_items(ccl_i_mpp_reader_t *r, uint32_t o, bool takes, uint32_t *conn,
                                 ccl_error_t *err) {
    const ccl_i_mpp_op_t *op = &r->plan->ops[o];
    uint32_t rank = r->plan->blocks[r->home[o]].rank;
    const ccl_i_mpp_switch_t *sw = &r->plan->gpus[rank].switches[takes ? op->to : op->from];
    uint32_t group = group_of(r, sw);
    for (uint32_t i = 0; i < sw->n && !r->nomem; i++) {
        if (sw->ranks[i] == rank)
            continue;
        uint32_t at = met_at(r, o, sw->ranks[i], takes, CCL_I_MPP_MEMORY, CCL_NONE);
        if (at == CCL_NONE)
            return ccl_i_mpp_fail(r->doc, r->plan, o, err, "%s GPU %u, which %s",
                                  takes ? "is stored to" : "pulls from", sw->ranks[i],
                                  takes ? "waits for no signal behind it"
                                        : "signals nothing that is waited for before");
        member_item(r, o, at, takes, group, conn);
    }
    return CCL_OK;
}

static ccl_status_t switch_items(ccl_i_mpp_reader_t *r, uint32_t o, ccl_i_mpp_item_t it,
                                 ccl_error_t *err) {
    const ccl_i_mpp_op_t *op = &r->plan->ops[o];
    const ccl_i_mpp_gpu_t *gpu = &r->plan->gpus[r->plan->blocks[r->home[o]].rank];
    uint32_t at;
    it.prim = CCL_PRIM_S;
    if (op->kind == CCL_I_MPP_PULL_STORE) {
        it.prim = CCL_PRIM_RCS;
        CCL_TRY(member_items(r, o, false, &it.recv, err));
        at = met_inside(r, o, false);
        member_item(r, o, at == CCL_NONE ? o : at, false, group_of(r, &gpu->switches[op->from]),
                    &it.recv);
    }
    CCL_TRY(member_items(r, o, true, &it.send, err));
    at = met_inside(r, o, true);
    uint32_t group = group_of(r, &gpu->switches[op->to]);
    it.send = conn_of(r, r->home[o], r->home[at == CCL_NONE ? o : at], CCL_WIRING_MULTICAST, group);
    add_item(r, o, it);
    member_item(r, o, at == CCL_NONE ? o : at, true, group, &it.send);
    return CCL_OK;
}

static ccl_status_t op_items(ccl_i_mpp_reader_t *r, uint32_t o, ccl_error_t *err) {
    const ccl_i_mpp_op_t *op = &r->plan->ops[o];
    ccl_i_mpp_item_t it = {.prim = op->kind == CCL_I_MPP_REDUCE ? CCL_PRIM_RE : CCL_PRIM_CPY,
                           .a = op->a,
                           .b = op->b,
                           .dst = op->dst,
                           .count = op->count,
                           .send = CCL_NONE,
                           .recv = CCL_NONE};
    if (op->kind == CCL_I_MPP_PUT)
        return put_items(r, o, err);
    if (op->kind == CCL_I_MPP_PULL_STORE || op->kind == CCL_I_MPP_STORE)
        return switch_items(r, o, it, err);
    add_item(r, o, it);
    return CCL_OK;
}

static int by_place(const void *a, const void *b) {
    const ccl_i_mpp_item_t *x = a, *y = b;
    const uint32_t u[] = {x->block, x->op, x->seq}, v[] = {y->block, y->op, y->seq};
    for (int i = 0; i < 3; i++) {
        if (u[i] != v[i])
            return u[i] < v[i] ? -1 : 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- channels */

static uint32_t root_of(uint32_t *parent, uint32_t b) {
    while (parent[b] != b)
        b = parent[b] = parent[parent[b]];
    return b;
}

/** Whether two connections join the same GPUs in the same way. */
static bool alike(const ccl_i_mpp_reader_t *r, uint32_t a, uint32_t b) {
    const ccl_i_mpp_conn_t *x = &r->conns[a], *y = &r->conns[b];
    const ccl_i_mpp_block_t *blocks = r->plan->blocks;
    return x->kind == y->kind && blocks[x->src].rank == blocks[y->src].rank &&
           blocks[x->dst].rank == blocks[y->dst].rank;
}

/** Blocks that connections join get one channel, which no other such blocks have on their GPUs. */
static ccl_status_t number_channels(ccl_i_mpp_reader_t *r, ccl_error_t *err) {
    uint32_t n = (uint32_t)r->plan->nblocks, *parent = malloc((n + (size_t)1) * sizeof *parent);
    ccl_status_t status = parent ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t b = 0; parent && b < n; b++)
        parent[b] = b;
    for (uint32_t c = 0; parent && c < r->nconns; c++) {
        uint32_t x = root_of(parent, r->conns[c].src), y = root_of(parent, r->conns[c].dst);
        parent[x < y ? y : x] = x < y ? x : y;
    }
    for (uint32_t root = 0; status == CCL_OK && root < n; root++) {
        uint32_t channel = 0;
        for (uint32_t c = 0; c < r->nconns && status == CCL_OK; c++) {
            if (root_of(parent, r->conns[c].src) != root)
                continue;
            for (uint32_t d = 0; d < r->nconns && status == CCL_OK; d++) {
                uint32_t other = d == c ? root : root_of(parent, r->conns[d].src);
                if (d == c || !alike(r, c, d) || other > root)
                    continue;
                if (other == root)
                    status = ccl_error_set(
                        err, CCL_UNSUPPORTED, r->doc->name, 0, 0,
                        "blocks that are joined have two connections from GPU %u to GPU %u",
                        r->plan->blocks[r->conns[c].src].rank,
                        r->plan->blocks[r->conns[c].dst].rank);
                else if (r->conns[d].channel >= channel)
                    channel = r->conns[d].channel + 1;
            }
        }
        for (uint32_t c = 0; c < r->nconns; c++) {
            if (root_of(parent, r->conns[c].src) == root)
                r->conns[c].channel = channel;
        }
    }
    free(parent);
    return status;
}

/* ---------------------------------------------------------------- all of it */

static void use(ccl_i_mpp_reader_t *r, uint32_t rank, ccl_i_mpp_place_t p, uint32_t n, bool write) {
    for (uint32_t i = 0; p.buffer == CCL_BUF_SCRATCH && i < n; i++) {
        uint8_t *count = write ? &r->uses[rank][p.at + i].writes : &r->uses[rank][p.at + i].reads;
        *count += *count < 3;
    }
}

static void count_uses(ccl_i_mpp_reader_t *r) {
    for (size_t o = 0; o < r->plan->nops; o++) {
        const ccl_i_mpp_op_t *op = &r->plan->ops[o];
        uint32_t rank = r->plan->blocks[op->block].rank;
        const ccl_i_mpp_gpu_t *gpu = &r->plan->gpus[rank];
        bool pulls = op->kind == CCL_I_MPP_PULL_STORE,
             groups = pulls || op->kind == CCL_I_MPP_STORE;
        if (op->kind < CCL_I_MPP_PUT)
            continue;
        for (uint32_t i = 0; i < (pulls ? gpu->switches[op->from].n : 1); i++)
            use(r, pulls ? gpu->switches[op->from].ranks[i] : rank, op->a, op->count, false);
        if (op->kind == CCL_I_MPP_REDUCE)
            use(r, rank, op->b, op->count, false);
        for (uint32_t i = 0; i < (groups ? gpu->switches[op->to].n : 1); i++)
            use(r,
                groups                      ? gpu->switches[op->to].ranks[i]
                : op->kind == CCL_I_MPP_PUT ? op->peer
                                            : rank,
                op->dst, op->count, true);
    }
}

static ccl_status_t room(ccl_i_mpp_reader_t *r, ccl_error_t *err) {
    const ccl_i_mpp_t *p = r->plan;
    size_t groups = 1;
    for (size_t g = 0; g < p->ngpus; g++)
        groups += p->gpus[g].nswitches;
    r->met = malloc((p->nids + 1) * sizeof *r->met);
    r->op_of = calloc(p->nids + 1, sizeof *r->op_of);
    r->home = calloc(p->nops + 1, sizeof *r->home);
    r->end = calloc(p->nblocks + 1, sizeof *r->end);
    r->ids = calloc(p->nblocks + 1, sizeof *r->ids);
    r->next_id = calloc(p->ngpus + 1, sizeof *r->next_id);
    r->group_ranks = calloc(groups, sizeof *r->group_ranks);
    r->group_n = calloc(groups, sizeof *r->group_n);
    r->groups = calloc(groups, sizeof *r->groups);
    r->uses = calloc(p->ngpus + 1, sizeof *r->uses);
    bool ok = r->met && r->op_of && r->home && r->end && r->ids && r->next_id && r->group_ranks &&
              r->group_n && r->groups && r->uses;
    for (size_t g = 0; ok && g < p->ngpus; g++) {
        r->uses[g] = calloc(p->gpus[g].len[CCL_BUF_SCRATCH] + (size_t)1, sizeof **r->uses);
        ok = r->uses[g] != NULL;
    }
    if (r->met)
        memset(r->met, 0xff, (p->nids + 1) * sizeof *r->met); /* CCL_NONE */
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_mpp_meet(ccl_i_mpp_reader_t *r, ccl_error_t *err) {
    uint32_t stuck, *at = calloc(r->plan->nblocks + 1, sizeof *at);
    event_t *events = calloc(r->plan->nids + 1, sizeof *events);
    size_t n = 0;
    ccl_status_t status = at && events ? room(r, err) : ccl_fail_nomem(err);
    if (status == CCL_OK) /* as it is written: later a block's rest does not wait for it */
        status = ccl_i_mpp_ends(r->plan, &stuck, at, err);
    if (status == CCL_OK && stuck != CCL_NONE)
        status = ccl_i_mpp_fail(r->doc, r->plan, r->plan->blocks[stuck].first + at[stuck], err,
                                "waits for ever");
    if (status == CCL_OK)
        find_homes(r);
    if (status == CCL_OK)
        status = list_events(r, events, &n, err);
    if (status == CCL_OK && n > 0)
        qsort(events, n, sizeof *events, by_channel);
    if (status == CCL_OK)
        status = match(r, events, n, err);
    for (uint32_t o = 0; status == CCL_OK && o < r->plan->nops; o++) {
        if (r->plan->ops[o].kind >= CCL_I_MPP_PUT)
            status = op_items(r, o, err);
        if (status == CCL_OK && r->nomem)
            status = ccl_fail_nomem(err);
    }
    if (status == CCL_OK && r->nitems > 0)
        qsort(r->items, r->nitems, sizeof *r->items, by_place);
    if (status == CCL_OK)
        count_uses(r);
    if (status == CCL_OK)
        status = number_channels(r, err);
    free(at);
    free(events);
    return status;
}
