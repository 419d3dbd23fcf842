/*
 * Happens-before: program order (at stage level by stage), dependencies, and messages (a send
 * before the receive that takes it). Questions are answered by the path that the data took, then by
 * a search backwards from the later step. It looks at steps of the rank itself first. What is left
 * is mostly a send whose data comes back, reduced or copied, to the place that it was read from:
 * there the way of the data forwards from the send meets the way backwards from the later step. At
 * last all else is searched. What was found is kept for the next question about the same two
 * blocks.
 */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

/** Steps up to place `from` of block a happen before steps from place `to` on of block b. */
struct ccl_i_known_order {
    uint32_t a, b, from, to;
};
#define KNOWN_SLOTS ((size_t)1 << 16)

/** Of a block: its steps up to `place` are over, or those from it on wait, as query `query` found.
 */
struct ccl_i_met {
    uint32_t query, place;
};

void ccl_i_order_fini(ccl_i_order_t *order) {
    free(order->order);
    free(order->pos);
    free(order->seen);
    free(order->stack);
    free(order->far);
    free(order->after);
    free(order->over);
    free(order->known);
    free(order->child);
    free(order->above);
    free(order->head);
    memset(order, 0, sizeof *order);
}

/** Round robin: every block does one step a turn, so that the order is near to that of a real run.
 */
static ccl_status_t sort_steps(ccl_i_order_t *o, ccl_error_t *err) {
    const ccl_program_t *p = o->program;
    size_t ntbs = p->ntbs ? p->ntbs : 1;
    uint32_t *cur = calloc(ntbs, sizeof *cur), *queue = malloc((ntbs + 1) * sizeof *queue);
    uint32_t *next = malloc(ntbs * sizeof *next);
    uint32_t *waiting = malloc((p->nsteps + (size_t)1) * sizeof *waiting);
    ccl_status_t status = CCL_OK;
    if (!cur || !queue || !next || !waiting) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(waiting, 0xff, (p->nsteps + (size_t)1) * sizeof *waiting);
    memset(o->pos, 0xff, (p->nsteps ? p->nsteps : 1) * sizeof *o->pos);
    size_t head = 0, tail = 0, len = ntbs + 1; /* a ring; each block is in it once at most */
    for (uint32_t t = 0; t < p->ntbs; t++)
        queue[tail++] = t;
    uint32_t done = 0;
    while (head != tail) {
        uint32_t t = queue[head];
        head = (head + 1) % len;
        if (cur[t] == p->tbs[t].nsteps)
            continue;
        uint32_t step = ccl_i_run_step(o->links, p->tbs[t].first_step + cur[t]), need = CCL_NONE;
        if (o->links->dep[step] != CCL_NONE && o->pos[o->links->dep[step]] == CCL_NONE)
            need = o->links->dep[step];
        else if (o->links->sender[step] != CCL_NONE && o->pos[o->links->sender[step]] == CCL_NONE)
            need = o->links->sender[step];
        for (uint32_t i = 0; need == CCL_NONE && i < ccl_i_noffers(o->links, step); i++)
            if (o->pos[ccl_i_offers(o->links, step)[i]] == CCL_NONE)
                need = ccl_i_offers(o->links, step)[i];
        if (need != CCL_NONE) {
            next[t] = waiting[need];
            waiting[need] = t;
            continue;
        }
        o->pos[step] = done;
        o->order[done++] = step;
        cur[t]++;
        queue[tail] = t;
        tail = (tail + 1) % len;
        for (uint32_t w = waiting[step]; w != CCL_NONE; w = next[w]) {
            queue[tail] = w;
            tail = (tail + 1) % len;
        }
        waiting[step] = CCL_NONE;
    }
    if (done != p->nsteps)
        status = ccl_fail(err, CCL_ERR_INTERNAL, "steps wait for each other");
end:
    free(cur);
    free(queue);
    free(next);
    free(waiting);
    return status;
}

ccl_status_t ccl_i_order_init(const ccl_program_t *program, const ccl_i_links_t *links,
                              ccl_i_order_t *out, ccl_error_t *err) {
    size_t n = program->nsteps ? program->nsteps : 1;
    memset(out, 0, sizeof *out);
    out->program = program;
    out->links = links;
    out->order = malloc(n * sizeof *out->order);
    out->pos = malloc(n * sizeof *out->pos);
    out->seen = calloc(n, sizeof *out->seen);
    out->known = malloc(KNOWN_SLOTS * sizeof *out->known);
    ccl_status_t status = CCL_OK;
    if (!out->order || !out->pos || !out->seen || !out->known)
        status = ccl_fail_nomem(err);
    else
        status = sort_steps(out, err);
    if (status != CCL_OK) {
        ccl_i_order_fini(out);
        return status;
    }
    memset(out->known, 0xff, KNOWN_SLOTS * sizeof *out->known);
    return CCL_OK;
}

static struct ccl_i_known_order *known_slot(ccl_i_order_t *o, uint32_t a, uint32_t b) {
    return &o->known[ccl_mix64((uint64_t)a << 32 | b) >> 48];
}

/** Puts a step on a stack unless it was seen or is too early. @return 1 target, 0 no, -1 nomem. */
static int visit(ccl_i_order_t *o, uint32_t step, uint32_t a) {
    const ccl_i_links_t *links = o->links;
    if (step == CCL_NONE || o->pos[step] < o->pos[a] || o->seen[step] == o->query)
        return 0;
    uint32_t tb = links->step_tb[step], ta = links->step_tb[a];
    if (tb == ta && ccl_i_run_place(links, step) >= ccl_i_run_place(links, a)) {
        o->hit = ccl_i_run_place(links, step);
        return 1;
    }
    o->seen[step] = o->query;
    o->nvisited++;
    bool near = o->program->tbs[tb].rank == o->program->tbs[ta].rank;
    uint32_t **stack = near ? &o->stack : &o->far;
    size_t *depth = near ? &o->depth : &o->far_depth;
    if (!ccl_grow(stack, near ? &o->stack_cap : &o->far_cap, *depth + 1, sizeof **stack))
        return -1;
    (*stack)[(*depth)++] = step;
    return 0;
}

static uint32_t step_before(const ccl_i_order_t *o, uint32_t step) {
    uint32_t at = ccl_i_run_place(o->links, step);
    return at > o->program->tbs[o->links->step_tb[step]].first_step
               ? ccl_i_run_step(o->links, at - 1)
               : CCL_NONE;
}

/** The step before in the data's path: the sender, else what was waited for, else program order. */
static uint32_t data_parent(const ccl_i_order_t *o, uint32_t step) {
    const ccl_i_links_t *links = o->links;
    return links->sender[step] != CCL_NONE ? links->sender[step]
           : links->dep[step] != CCL_NONE  ? links->dep[step]
                                           : step_before(o, step);
}

/** The step after on the data's way: who gets it, else who waits for it, else program order.
    waits: the first step that waits for it, or CCL_NONE. */
static uint32_t data_child(const ccl_i_order_t *o, uint32_t step, uint32_t waits) {
    const ccl_i_links_t *links = o->links;
    if (links->receiver[step] != CCL_NONE)
        return links->receiver[step];
    if (waits != CCL_NONE)
        return waits;
    const ccl_tb_t *tb = &o->program->tbs[links->step_tb[step]];
    uint32_t at = ccl_i_run_place(links, step) + 1;
    return at < tb->first_step + tb->nsteps ? ccl_i_run_step(links, at) : CCL_NONE;
}

static void map_children(ccl_i_order_t *o) {
    const ccl_i_links_t *links = o->links;
    uint32_t n = o->program->nsteps;
    memset(o->child, 0xff, n * sizeof *o->child);
    for (uint32_t i = n; i-- > 0;) {
        uint32_t dep = links->dep[o->order[i]];
        if (dep != CCL_NONE)
            o->child[dep] = o->order[i];
    }
    for (uint32_t s = 0; s < n; s++)
        o->child[s] = data_child(o, s, o->child[s]);
}

/* Down from a root of the forest and up again. last: the latest step on the way down, by rank. */
static void map_above(ccl_i_order_t *o, uint32_t tree, uint32_t *child, const uint32_t *sibling,
                      uint32_t *last) {
    uint32_t at = tree;
    for (bool down = true; at != CCL_NONE;) {
        uint32_t *mine = &last[o->program->tbs[o->links->step_tb[at]].rank];
        if (down) {
            o->above[at] = *mine;
            *mine = at;
        }
        uint32_t next = child[at];
        down = next != CCL_NONE;
        if (down) {
            child[at] = sibling[next];
            at = next;
        } else {
            *mine = o->above[at];
            at = at == tree ? CCL_NONE : data_parent(o, at);
        }
    }
}

/**
 * Data paths form a forest. For every step: the nearest step of its own rank above it, found in one
 * walk over all trees, and the head of the chain of messages that it ends.
 */
static bool map_paths(ccl_i_order_t *o) {
    const ccl_program_t *p = o->program;
    size_t n = p->nsteps + (size_t)1;
    uint32_t *sibling = o->seen; /* of no query yet: zeroed again at the end */
    uint32_t *last = malloc((p->nranks + (size_t)1) * sizeof *last);
    o->child = malloc(n * sizeof *o->child);
    o->above = malloc(n * sizeof *o->above);
    o->head = malloc(n * sizeof *o->head); /* until the end: of a step its first child */
    o->after = calloc(p->ntbs + (size_t)1, sizeof *o->after);
    o->over = calloc(p->ntbs + (size_t)1, sizeof *o->over);
    bool ok = last && o->child && o->above && o->head && o->after && o->over;
    if (ok) {
        map_children(o);
        memset(o->head, 0xff, n * sizeof *o->head);
        memset(last, 0xff, (p->nranks + (size_t)1) * sizeof *last);
        for (uint32_t s = p->nsteps; s-- > 0;) {
            uint32_t parent = data_parent(o, s);
            if (parent != CCL_NONE) {
                sibling[s] = o->head[parent];
                o->head[parent] = s;
            }
        }
    }
    for (uint32_t tree = 0; ok && tree < p->nsteps; tree++)
        if (data_parent(o, tree) == CCL_NONE)
            map_above(o, tree, o->head, sibling, last);
    for (uint32_t i = 0; ok && i < p->nsteps; i++) {
        uint32_t s = o->order[i], sender = o->links->sender[s];
        o->head[s] = sender != CCL_NONE ? o->head[sender] : s;
    }
    memset(o->seen, 0, p->nsteps * sizeof *o->seen);
    free(last);
    return ok;
}

/** Whether the path that b's data took shows that it comes after a. */
static bool on_data_path(const ccl_i_order_t *o, uint32_t a, uint32_t a_elem, uint32_t b,
                         uint32_t b_elem, bool *keep_out) {
    const uint32_t *tb = o->links->step_tb, *pos = o->pos;
    uint32_t at = o->above[b];
    while (at != CCL_NONE && pos[at] > pos[a] && tb[at] != tb[a])
        at = o->above[at];
    if (at == CCL_NONE || tb[at] != tb[a] ||
        ccl_i_run_place(o->links, at) < ccl_i_run_place(o->links, a))
        return false;
    *keep_out = at != a || o->head[a] != o->head[b]; /* else messages all the way, by slices */
    return *keep_out || a_elem <= b_elem;
}

/**
 * What a pull's offers say. Slice by slice too (b_elem given): then of an offer only the elements
 * up to b's own are over, and what comes before it. @return as visit(); 2: this element only.
 */
static int visit_offers(ccl_i_order_t *o, uint32_t pull, uint32_t a, uint32_t a_elem,
                        uint32_t b_elem) {
    const ccl_i_links_t *links = o->links;
    int hit = 0;
    for (uint32_t i = 0; !hit && i < ccl_i_noffers(links, pull); i++) {
        uint32_t offer = ccl_i_offers(links, pull)[i];
        if (b_elem == CCL_NONE) {
            hit = visit(o, offer, a);
            continue;
        }
        if (offer == a)
            return a_elem <= b_elem ? 2 : 0;
        hit = visit(o, step_before(o, offer), a);
        if (!hit)
            hit = visit(o, links->dep[offer], a);
        if (!hit && links->sender[offer] != CCL_NONE)
            hit = visit(o, step_before(o, links->sender[offer]), a);
    }
    return hit;
}

/** A walk back along the ways of the data to b, from one start after the other. */
typedef struct walk {
    uint32_t message, start; /* b, then the senders that its data came from; two starts each */
    uint32_t at;             /* where it is; CCL_NONE: on to the next start */
} walk_t;

/** The next step that is over before b, from a's position on; CCL_NONE: there is none. */
static uint32_t walk_back(ccl_i_order_t *o, walk_t *w, uint32_t a_pos) {
    const ccl_i_links_t *links = o->links;
    for (;;) {
        uint32_t at = w->at;
        if (at != CCL_NONE && o->pos[at] >= a_pos) {
            struct ccl_i_met *over = &o->over[links->step_tb[at]];
            uint32_t place = ccl_i_run_place(links, at);
            bool known = over->query == o->query && over->place == place; /* and all before it */
            if (over->query != o->query || over->place < place)
                *over = (struct ccl_i_met){o->query, place};
            w->at = known ? CCL_NONE : data_parent(o, at);
            if (!known)
                return at;
            continue;
        }
        if (w->start == 2) {
            w->message = links->sender[w->message];
            w->start = 0;
        }
        if (w->message == CCL_NONE || o->pos[w->message] < a_pos)
            return CCL_NONE;
        w->at = w->start++ == 0 ? step_before(o, w->message) : links->dep[w->message];
    }
}

/**
 * Whether the ways of the data from a on and back from b meet. A step is over when those before it
 * on its way are; b and its messages wait for what comes before them (see search()). Both go on
 * step by step in turn, so that neither goes far beyond the block where they meet.
 */
static bool ways_meet(ccl_i_order_t *o, uint32_t a, uint32_t b) {
    const ccl_i_links_t *links = o->links;
    uint32_t a_pos = o->pos[a], b_pos = o->pos[b], ahead = a;
    walk_t w = {b, 0, CCL_NONE};
    for (bool back = true; ahead != CCL_NONE || back;) {
        if (ahead != CCL_NONE && o->pos[ahead] >= b_pos)
            ahead = CCL_NONE;
        if (ahead != CCL_NONE) {
            uint32_t tb = links->step_tb[ahead], place = ccl_i_run_place(links, ahead);
            if (o->over[tb].query == o->query && o->over[tb].place >= place)
                return true;
            if (o->after[tb].query != o->query || o->after[tb].place > place)
                o->after[tb] = (struct ccl_i_met){o->query, place};
            ahead = o->child[ahead];
            o->nvisited++;
        }
        uint32_t at = back ? walk_back(o, &w, a_pos) : CCL_NONE;
        back = at != CCL_NONE;
        if (back) {
            const struct ccl_i_met *after = &o->after[links->step_tb[at]];
            if (after->query == o->query && after->place <= ccl_i_run_place(links, at))
                return true;
            o->nvisited++;
        }
    }
    return false;
}

/** Visits what comes before the steps of one stack. @return as visit() */
static int search_stack(ccl_i_order_t *o, uint32_t a, uint32_t a_elem, bool all) {
    const ccl_i_links_t *links = o->links;
    int hit = 0;
    while (!hit && (o->depth || (all && o->far_depth))) {
        uint32_t at = o->depth ? o->stack[--o->depth] : o->far[--o->far_depth];
        hit = visit(o, step_before(o, at), a);
        if (!hit)
            hit = visit(o, links->dep[at], a);
        if (!hit)
            hit = visit(o, links->sender[at], a);
        if (!hit)
            hit = visit_offers(o, at, a, a_elem, CCL_NONE);
    }
    return hit;
}

/**
 * b and the fused steps that its data came through work slice by slice, so of these only what
 * comes before them is over when b starts; of step a itself, at the head of such a chain, only
 * the elements up to b's own. @return as visit(); 2: this element only.
 */
static int search(ccl_i_order_t *o, uint32_t a, uint32_t a_elem, uint32_t b, uint32_t b_elem) {
    const ccl_i_links_t *links = o->links;
    int hit = 0;
    o->depth = o->far_depth = 0;
    for (uint32_t at = b; at != CCL_NONE && !hit && o->pos[at] >= o->pos[a];
         at = links->sender[at]) {
        if (at == a) {
            if (a_elem <= b_elem)
                return 2;
            break;
        }
        hit = visit(o, step_before(o, at), a);
        if (!hit)
            hit = visit(o, links->dep[at], a);
        if (!hit)
            hit = visit_offers(o, at, a, a_elem, b_elem);
    }
    /* What a sends comes back; else they meet on their own GPU. */
    bool sends = links->receiver[a] != CCL_NONE;
    if (!hit && !sends)
        hit = search_stack(o, a, a_elem, false);
    if (!hit && ways_meet(o, a, b)) {
        o->hit = ccl_i_run_place(links, a);
        hit = 1;
    }
    return hit ? hit : search_stack(o, a, a_elem, true);
}

bool ccl_i_order_before(ccl_i_order_t *o, uint32_t a, uint32_t a_elem, uint32_t b, uint32_t b_elem,
                        bool *out) {
    const ccl_i_links_t *links = o->links;
    uint32_t ta = links->step_tb[a], tb = links->step_tb[b];
    uint32_t from = ccl_i_run_place(links, a), to = ccl_i_run_place(links, b);
    *out = true;
    if (ta == tb) {
        *out = from < to;
        return true;
    }
    struct ccl_i_known_order *known = known_slot(o, ta, tb);
    if (known->a == ta && known->b == tb && known->from >= from && known->to <= to)
        return true;
    if (!o->child && !map_paths(o))
        return false;
    bool keep = false;
    if (on_data_path(o, a, a_elem, b, b_elem, &keep)) {
        if (keep)
            *known = (struct ccl_i_known_order){ta, tb, from, to};
        return true;
    }
    if (++o->query == 0) {
        memset(o->seen, 0, o->program->nsteps * sizeof *o->seen);
        o->query = 1;
    }
    int hit = search(o, a, a_elem, b, b_elem);
    if (hit < 0)
        return false;
    if (hit == 1) /* else for this element only */
        *known = (struct ccl_i_known_order){ta, tb, o->hit, to};
    *out = hit > 0;
    return true;
}
