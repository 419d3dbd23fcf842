/*
 * Happens-before: program order (at stage level by stage), dependencies, and messages (a send
 * before the receive that takes it). Questions are answered by what the later step's block has
 * waited for, then by the path that the data took, then by a search backwards from the later step.
 * It looks at steps of the rank itself first. What is left is mostly a send whose data comes back,
 * reduced or copied, to the place that it was read from: there the way of the data forwards from
 * the send meets the way backwards from the later step. At last all else is searched. What was
 * found is kept for the next question about the same two blocks.
 */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

/** Steps up to place `from` of block a happen before steps from place `to` on of block b. */
struct ccl_i_known_order {
    uint32_t a, b, from, to;
};
#define KNOWN_SLOTS ((size_t)1 << 16)
/** From as many steps on they are taken in longer turns. */
enum { MANY = 1 << 18, TURN = 64 };

/** Of a block: its steps up to `place` are over, or those from it on wait, as query `query` found.
 */
struct ccl_i_met {
    uint32_t query, place;
};

static void end_search(ccl_i_search_t *q) {
    free(q->seen);
    free(q->stack);
    free(q->far);
    free(q->after);
    free(q->over);
}

void ccl_i_order_fini(ccl_i_order_t *order) {
    free(order->known);
    end_search(&order->search);
    memset(order, 0, sizeof *order);
}

void ccl_i_order_restore(ccl_i_order_t *order) {
    for (uint32_t s = 0; order->used && s < order->program->nsteps; s++)
        order->nodes[order->nodes[s].pos].order = s;
    order->used = true;
}

/** A step that has no place yet and comes before `step`; CCL_NONE: its turn has come. */
static uint32_t needs(const ccl_i_order_t *o, uint32_t step) {
    const ccl_i_proof_step_t *nodes = o->nodes, *node = &nodes[step];
    if (node->dep != CCL_NONE && nodes[node->dep].pos == CCL_NONE)
        return node->dep;
    if (node->sender != CCL_NONE && nodes[node->sender].pos == CCL_NONE)
        return node->sender;
    for (uint32_t i = 0; i < ccl_i_noffers(o->links, step); i++)
        if (nodes[ccl_i_offers(o->links, step)[i]].pos == CCL_NONE)
            return ccl_i_offers(o->links, step)[i];
    return CCL_NONE;
}

/** What steps a little further on need comes into the cache. */
static void prefetch_needs(const ccl_i_order_t *o, uint32_t step) {
    enum { AHEAD = 12 };
    if (step + AHEAD >= o->program->nsteps)
        return;
    const ccl_i_proof_step_t *node = &o->nodes[step + AHEAD];
    if (node->dep != CCL_NONE)
        __builtin_prefetch(&o->nodes[node->dep]);
    if (node->sender != CCL_NONE)
        __builtin_prefetch(&o->nodes[node->sender]);
}

/** Round robin: every block does few steps a turn, so that the order is near to that of a real run.
    Of many blocks one at a time is in the cache, so that they do some more. */
static ccl_status_t sort_steps(ccl_i_order_t *o, ccl_error_t *err) {
    const ccl_program_t *p = o->program;
    ccl_i_proof_step_t *nodes =
        o->nodes; /* above: of a step, for now, a list of blocks that need it */
    size_t ntbs = p->ntbs ? p->ntbs : 1;
    uint32_t *cur = calloc(ntbs, sizeof *cur), *queue = malloc((ntbs + 1) * sizeof *queue);
    uint32_t *next = malloc(ntbs * sizeof *next);
    ccl_status_t status = CCL_OK;
    if (!cur || !queue || !next) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    const uint32_t turn = p->nsteps < MANY ? 1 : TURN;
    size_t head = 0, tail = 0, len = ntbs + 1; /* a ring; each block is in it once at most */
    for (uint32_t t = 0; t < p->ntbs; t++)
        queue[tail++] = t;
    uint32_t done = 0;
    while (head != tail) {
        uint32_t t = queue[head], end = cur[t] + turn, need = CCL_NONE;
        head = (head + 1) % len;
        end = end < p->tbs[t].nsteps ? end : p->tbs[t].nsteps;
        while (cur[t] < end) {
            uint32_t step = ccl_i_run_step(o->links, p->tbs[t].first_step + cur[t]);
            prefetch_needs(o, step);
            need = needs(o, step);
            if (need != CCL_NONE)
                break;
            nodes[step].pos = done;
            nodes[done++].order = step;
            cur[t]++;
            for (uint32_t w = nodes[step].above; w != CCL_NONE; w = next[w]) {
                queue[tail] = w;
                tail = (tail + 1) % len;
            }
            nodes[step].above = CCL_NONE;
        }
        if (need != CCL_NONE) {
            next[t] = nodes[need].above;
            nodes[need].above = t;
        } else if (cur[t] < p->tbs[t].nsteps) {
            queue[tail] = t;
            tail = (tail + 1) % len;
        }
    }
    if (done != p->nsteps)
        status = ccl_fail(err, CCL_ERR_INTERNAL, "steps wait for each other");
end:
    free(cur);
    free(queue);
    free(next);
    return status;
}

ccl_status_t ccl_i_order_init(const ccl_program_t *program, const ccl_i_links_t *links,
                              ccl_i_order_t *out, ccl_error_t *err) {
    memset(out, 0, sizeof *out);
    out->program = program;
    out->links = links;
    out->nodes = links->nodes;
    out->known = malloc(KNOWN_SLOTS * sizeof *out->known);
    ccl_status_t status = out->known ? sort_steps(out, err) : ccl_fail_nomem(err);
    if (status != CCL_OK) {
        ccl_i_order_fini(out);
        return status;
    }
    memset(out->known, 0xff, KNOWN_SLOTS * sizeof *out->known);
    return CCL_OK;
}

static struct ccl_i_known_order *known_slot(const ccl_i_order_t *o, uint32_t a, uint32_t b) {
    return &o->known[ccl_mix64((uint64_t)a << 32 | b) >> 48];
}

/* ---------------------------------------------------------------- what a query has seen */

enum { FIRST_SLOTS = 1 << 12 };

static size_t seen_slot(const ccl_i_search_t *q, uint64_t key) {
    size_t at = (size_t)ccl_mix64(key) & (q->nslots - 1);
    while (q->seen[at] >> 32 == q->query && q->seen[at] != key)
        at = (at + 1) & (q->nslots - 1);
    return at;
}

static bool grow_seen(ccl_i_search_t *q) {
    uint64_t *old = q->seen;
    size_t nold = q->nslots;
    q->seen = calloc(nold ? 2 * nold : FIRST_SLOTS, sizeof *q->seen);
    if (!q->seen) {
        q->seen = old;
        return false;
    }
    q->nslots = nold ? 2 * nold : FIRST_SLOTS;
    for (size_t i = 0; i < nold; i++)
        if (old[i] >> 32 == q->query)
            q->seen[seen_slot(q, old[i])] = old[i];
    free(old);
    return true;
}

/** Has the query seen a step? Now it has. @return 1 yes, 0 no, -1 nomem */
static int note_seen(ccl_i_search_t *q, uint32_t step) {
    if (2 * (q->nseen + 1) > q->nslots && !grow_seen(q))
        return -1;
    uint64_t key = (uint64_t)q->query << 32 | step;
    size_t at = seen_slot(q, key);
    if (q->seen[at] == key)
        return 1;
    q->seen[at] = key;
    q->nseen++;
    return 0;
}

static void begin_query(const ccl_i_order_t *o, ccl_i_search_t *q) {
    q->nseen = 0;
    if (++q->query)
        return;
    size_t ntbs = o->program->ntbs;
    if (q->seen)
        memset(q->seen, 0, q->nslots * sizeof *q->seen);
    memset(q->after, 0, ntbs * sizeof *q->after);
    memset(q->over, 0, ntbs * sizeof *q->over);
    q->query = 1;
}

/** Puts a step on a stack unless it was seen or is too early. @return 1 target, 0 no, -1 nomem. */
static int visit(const ccl_i_order_t *o, ccl_i_search_t *q, uint32_t step, uint32_t a) {
    const ccl_i_links_t *links = o->links;
    const ccl_i_proof_step_t *nodes = o->nodes;
    if (step == CCL_NONE || nodes[step].pos < nodes[a].pos)
        return 0;
    uint32_t tb = nodes[step].tb, ta = nodes[a].tb;
    if (tb == ta && ccl_i_run_place(links, step) >= ccl_i_run_place(links, a)) {
        q->hit = ccl_i_run_place(links, step);
        return 1;
    }
    int seen = note_seen(q, step);
    if (seen)
        return seen < 0 ? -1 : 0;
    q->nvisited++;
    bool near = o->program->tbs[tb].rank == o->program->tbs[ta].rank;
    uint32_t **stack = near ? &q->stack : &q->far;
    size_t *depth = near ? &q->depth : &q->far_depth;
    if (!ccl_grow(stack, near ? &q->stack_cap : &q->far_cap, *depth + 1, sizeof **stack))
        return -1;
    (*stack)[(*depth)++] = step;
    return 0;
}

/* ---------------------------------------------------------------- ways of the data */

static uint32_t step_before(const ccl_i_order_t *o, uint32_t step) {
    uint32_t at = ccl_i_run_place(o->links, step);
    return at > o->program->tbs[o->nodes[step].tb].first_step ? ccl_i_run_step(o->links, at - 1)
                                                              : CCL_NONE;
}

/** The step before in the data's path: the sender, else what was waited for, else program order. */
static uint32_t data_parent(const ccl_i_order_t *o, uint32_t step) {
    const ccl_i_proof_step_t *node = &o->nodes[step];
    return node->sender != CCL_NONE ? node->sender
           : node->dep != CCL_NONE  ? node->dep
                                    : step_before(o, step);
}

/** The step after on the data's way: who gets it, else who waits for it, else program order.
    waits: the first step that waits for it, or CCL_NONE. */
static uint32_t data_child(const ccl_i_order_t *o, uint32_t step, uint32_t waits) {
    if (o->nodes[step].next != CCL_NONE)
        return o->nodes[step].next;
    if (waits != CCL_NONE)
        return waits;
    const ccl_tb_t *tb = &o->program->tbs[o->nodes[step].tb];
    uint32_t at = ccl_i_run_place(o->links, step) + 1;
    return at < tb->first_step + tb->nsteps ? ccl_i_run_step(o->links, at) : CCL_NONE;
}

static void map_children(ccl_i_order_t *o) {
    ccl_i_proof_step_t *nodes = o->nodes;
    uint32_t n = o->program->nsteps;
    for (uint32_t s = 0; s < n; s++) /* above, until it is mapped: the first that waits */
        nodes[s].above = CCL_NONE;
    for (uint32_t s = 0; s < n; s++) {
        uint32_t dep = nodes[s].dep;
        if (dep == CCL_NONE)
            continue;
        uint32_t *first = &nodes[dep].above;
        if (*first == CCL_NONE || nodes[*first].pos > nodes[s].pos)
            *first = s;
    }
    for (uint32_t s = 0; s < n; s++)
        nodes[s].next = data_child(o, s, nodes[s].above);
}

/* Down from a root of the forest and up again. head: a step's first child; above: until the way
   leads there, the next child of its parent. last: the latest step on the way down, by rank. */
static void map_above(ccl_i_order_t *o, uint32_t tree, uint32_t *last) {
    ccl_i_proof_step_t *nodes = o->nodes;
    uint32_t at = tree;
    for (bool down = true; at != CCL_NONE;) {
        uint32_t *mine = &last[o->program->tbs[nodes[at].tb].rank];
        if (down) {
            nodes[at].above = *mine;
            *mine = at;
        }
        uint32_t next = nodes[at].head;
        down = next != CCL_NONE;
        if (down) {
            nodes[at].head = nodes[next].above;
            at = next;
        } else {
            *mine = nodes[at].above;
            at = at == tree ? CCL_NONE : data_parent(o, at);
        }
    }
}

/* First steps of chains of messages. */
static void map_heads(ccl_i_order_t *o) {
    ccl_i_proof_step_t *nodes = o->nodes;
    for (uint32_t s = 0; s < o->program->nsteps; s++) {
        uint32_t top = s, head;
        while (nodes[top].head == CCL_NONE && nodes[top].sender != CCL_NONE)
            top = nodes[top].sender;
        head = nodes[top].head != CCL_NONE ? nodes[top].head : top;
        for (uint32_t at = s; at != CCL_NONE && nodes[at].head == CCL_NONE; at = nodes[at].sender)
            nodes[at].head = head;
    }
}

static bool begin_search(ccl_i_order_t *o) {
    ccl_i_search_t *q = &o->search;
    size_t n = o->program->ntbs + (size_t)1;
    q->after = q->after ? q->after : calloc(n, sizeof *q->after);
    q->over = q->over ? q->over : calloc(n, sizeof *q->over);
    return q->after && q->over;
}

/**
 * Data paths form a forest. For every step: the nearest step of its own rank above it, found in one
 * walk over all trees, and the head of the chain of messages that it ends.
 */
static bool map(ccl_i_order_t *o) {
    const ccl_program_t *p = o->program;
    ccl_i_proof_step_t *nodes = o->nodes;
    uint32_t *last = malloc((p->nranks + (size_t)1) * sizeof *last);
    bool ok = last && begin_search(o);
    if (ok) {
        map_children(o);
        memset(last, 0xff, (p->nranks + (size_t)1) * sizeof *last);
        for (uint32_t s = p->nsteps; s-- > 0;) {
            uint32_t parent = data_parent(o, s);
            if (parent != CCL_NONE) {
                nodes[s].above = nodes[parent].head;
                nodes[parent].head = s;
            }
        }
    }
    for (uint32_t tree = 0; ok && tree < p->nsteps; tree++)
        if (data_parent(o, tree) == CCL_NONE)
            map_above(o, tree, last);
    if (ok)
        map_heads(o);
    o->mapped = ok;
    free(last);
    return ok;
}

/** Whether the path that b's data took shows that it comes after a. */
static bool on_data_path(const ccl_i_order_t *o, ccl_i_access_t from, ccl_i_access_t to,
                         bool *keep_out) {
    const ccl_i_proof_step_t *nodes = o->nodes;
    uint32_t a = from.step, b = to.step;
    uint32_t at = nodes[b].above;
    while (at != CCL_NONE && nodes[at].pos > nodes[a].pos && nodes[at].tb != nodes[a].tb)
        at = nodes[at].above;
    if (at == CCL_NONE || nodes[at].tb != nodes[a].tb ||
        ccl_i_run_place(o->links, at) < ccl_i_run_place(o->links, a))
        return false;
    *keep_out =
        at != a || nodes[a].head != nodes[b].head; /* else messages all the way, by slices */
    return *keep_out || from.elem <= to.elem;
}

/**
 * What a pull's offers say. Slice by slice too (b_elem given): then of an offer only the elements
 * up to b's own are over, and what comes before it. @return as visit(); 2: this element only.
 */
static int visit_offers(const ccl_i_order_t *o, ccl_i_search_t *q, uint32_t pull, uint32_t a,
                        uint32_t a_elem, uint32_t b_elem) {
    const ccl_i_links_t *links = o->links;
    int hit = 0;
    for (uint32_t i = 0; !hit && i < ccl_i_noffers(links, pull); i++) {
        uint32_t offer = ccl_i_offers(links, pull)[i];
        if (b_elem == CCL_NONE) {
            hit = visit(o, q, offer, a);
            continue;
        }
        if (offer == a)
            return a_elem <= b_elem ? 2 : 0;
        hit = visit(o, q, step_before(o, offer), a);
        if (!hit)
            hit = visit(o, q, o->nodes[offer].dep, a);
        if (!hit && o->nodes[offer].sender != CCL_NONE)
            hit = visit(o, q, step_before(o, o->nodes[offer].sender), a);
    }
    return hit;
}

/** A walk back along the ways of the data to b, from one start after the other. */
typedef struct walk {
    uint32_t message, start; /* b, then the senders that its data came from; two starts each */
    uint32_t at;             /* where it is; CCL_NONE: on to the next start */
} walk_t;

/** The next step that is over before b, from a's position on; CCL_NONE: there is none. */
static uint32_t walk_back(const ccl_i_order_t *o, ccl_i_search_t *q, walk_t *w, uint32_t a_pos) {
    const ccl_i_links_t *links = o->links;
    for (;;) {
        uint32_t at = w->at;
        if (at != CCL_NONE && o->nodes[at].pos >= a_pos) {
            struct ccl_i_met *over = &q->over[o->nodes[at].tb];
            uint32_t place = ccl_i_run_place(links, at);
            bool known = over->query == q->query && over->place == place; /* and all before it */
            if (over->query != q->query || over->place < place)
                *over = (struct ccl_i_met){q->query, place};
            w->at = known ? CCL_NONE : data_parent(o, at);
            if (!known)
                return at;
            continue;
        }
        if (w->start == 2) {
            w->message = o->nodes[w->message].sender;
            w->start = 0;
        }
        if (w->message == CCL_NONE || o->nodes[w->message].pos < a_pos)
            return CCL_NONE;
        w->at = w->start++ == 0 ? step_before(o, w->message) : o->nodes[w->message].dep;
    }
}

/**
 * Whether the ways of the data from a on and back from b meet. A step is over when those before it
 * on its way are; b and its messages wait for what comes before them (see search()). Both go on
 * step by step in turn, so that neither goes far beyond the block where they meet.
 */
static bool ways_meet(const ccl_i_order_t *o, ccl_i_search_t *q, uint32_t a, uint32_t b) {
    const ccl_i_links_t *links = o->links;
    uint32_t a_pos = o->nodes[a].pos, b_pos = o->nodes[b].pos, ahead = a;
    walk_t w = {b, 0, CCL_NONE};
    for (bool back = true; ahead != CCL_NONE || back;) {
        if (ahead != CCL_NONE && o->nodes[ahead].pos >= b_pos)
            ahead = CCL_NONE;
        if (ahead != CCL_NONE) {
            uint32_t tb = o->nodes[ahead].tb, place = ccl_i_run_place(links, ahead);
            if (q->over[tb].query == q->query && q->over[tb].place >= place)
                return true;
            if (q->after[tb].query != q->query || q->after[tb].place > place)
                q->after[tb] = (struct ccl_i_met){q->query, place};
            ahead = o->nodes[ahead].next;
            q->nvisited++;
        }
        uint32_t at = back ? walk_back(o, q, &w, a_pos) : CCL_NONE;
        back = at != CCL_NONE;
        if (back) {
            const struct ccl_i_met *after = &q->after[o->nodes[at].tb];
            if (after->query == q->query && after->place <= ccl_i_run_place(links, at))
                return true;
            q->nvisited++;
        }
    }
    return false;
}

/** Visits what comes before the steps of one stack. @return as visit() */
static int search_stack(const ccl_i_order_t *o, ccl_i_search_t *q, uint32_t a, uint32_t a_elem,
                        bool all) {
    int hit = 0;
    while (!hit && (q->depth || (all && q->far_depth))) {
        uint32_t at = q->depth ? q->stack[--q->depth] : q->far[--q->far_depth];
        hit = visit(o, q, step_before(o, at), a);
        if (!hit)
            hit = visit(o, q, o->nodes[at].dep, a);
        if (!hit)
            hit = visit(o, q, o->nodes[at].sender, a);
        if (!hit)
            hit = visit_offers(o, q, at, a, a_elem, CCL_NONE);
    }
    return hit;
}

/**
 * b and the fused steps that its data came through work slice by slice, so of these only what
 * comes before them is over when b starts; of step a itself, at the head of such a chain, only
 * the elements up to b's own. @return as visit(); 2: this element only.
 */
static int search(const ccl_i_order_t *o, ccl_i_search_t *q, ccl_i_access_t from,
                  ccl_i_access_t to) {
    const ccl_i_links_t *links = o->links;
    uint32_t a = from.step, a_elem = from.elem, b = to.step, b_elem = to.elem;
    int hit = 0;
    q->depth = q->far_depth = 0;
    for (uint32_t at = b; at != CCL_NONE && !hit && o->nodes[at].pos >= o->nodes[a].pos;
         at = o->nodes[at].sender) {
        if (at == a) {
            if (a_elem <= b_elem)
                return 2;
            break;
        }
        hit = visit(o, q, step_before(o, at), a);
        if (!hit)
            hit = visit(o, q, o->nodes[at].dep, a);
        if (!hit)
            hit = visit_offers(o, q, at, a, a_elem, b_elem);
    }
    /* What a sends comes back; else they meet on their own GPU. */
    bool sends = ccl_primitive_sends(o->program->steps[a].type);
    if (!hit && !sends)
        hit = search_stack(o, q, a, a_elem, false);
    if (!hit && ways_meet(o, q, a, b)) {
        q->hit = ccl_i_run_place(links, a);
        hit = 1;
    }
    return hit ? hit : search_stack(o, q, a, a_elem, true);
}

/** Whether b, or one of the steps before it in its block, waits for a or for what comes after a in
    a's block: so it is mostly, as lowering adds a dependency where one is needed. */
static bool has_waited(const ccl_i_order_t *o, uint32_t a, uint32_t b) {
    enum { BACK = 512 };
    const ccl_tb_t *ta = &o->program->tbs[o->nodes[a].tb], *tb = &o->program->tbs[o->nodes[b].tb];
    uint32_t from = ccl_i_run_place(o->links, a), at = ccl_i_run_place(o->links, b);
    uint32_t end = ta->first_step + ta->nsteps, first = tb->first_step;
    first = at - first > BACK ? at - BACK : first;
    for (;; at--) {
        uint32_t dep = o->nodes[ccl_i_run_step(o->links, at)].dep;
        if (dep != CCL_NONE) {
            uint32_t place = ccl_i_run_place(o->links, dep);
            if (place >= from && place < end)
                return true;
        }
        if (at == first)
            return false;
    }
}

bool ccl_i_order_before(ccl_i_order_t *o, ccl_i_access_t a, ccl_i_access_t b, bool *out) {
    uint32_t ta = o->nodes[a.step].tb, tb = o->nodes[b.step].tb;
    uint32_t from = ccl_i_run_place(o->links, a.step), to = ccl_i_run_place(o->links, b.step);
    *out = true;
    if (ta == tb) {
        *out = from < to;
        return true;
    }
    if (has_waited(o, a.step, b.step))
        return true;
    struct ccl_i_known_order *known = known_slot(o, ta, tb);
    if (known->a == ta && known->b == tb && known->from >= from && known->to <= to)
        return true;
    if (!o->mapped && !map(o))
        return false;
    bool keep = false;
    if (on_data_path(o, a, b, &keep)) {
        if (keep)
            *known = (struct ccl_i_known_order){ta, tb, from, to};
        return true;
    }
    ccl_i_search_t *q = &o->search;
    begin_query(o, q);
    int hit = search(o, q, a, b);
    if (hit < 0)
        return false;
    if (hit == 1) /* else for this element only */
        *known = (struct ccl_i_known_order){ta, tb, q->hit, to};
    *out = hit > 0;
    return true;
}
