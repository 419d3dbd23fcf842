/*
 * Trees of a plan changed so that the busiest link or group has less to do. A rank gets a chunk
 * from another one; or another rank of its subtree gets it instead and hands it on to it. Whatever
 * lowers the busiest without raising another one as high is done, the best first. Where nothing
 * does, one is raised as high, at random, a few times. Then the trees are put into steps again.
 */
#include "synth/cegis/cegis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Hops looked at, at most: a tenth of a second or two. */
#define MOST_LOOKS 4000000u
/* Edges of a subtree that are reversed. */
#define MOST_TURNED 2u
#define MOST_ADDED (MOST_TURNED + 1)
/* Moves in a row that gain nothing, and how long what they took away may not come back. */
#define SIDEWAYS 60u
#define BANNED 30u

typedef struct move {
    uint32_t nadded, added[MOST_ADDED], nremoved, removed[MOST_ADDED]; /* hops */
    uint32_t chunk;
    double worst_s; /* of what is added to, afterwards */
} move_t;

/** Of moves that relieve a resource: the best, or any that makes another one as busy. */
typedef struct choice {
    double now_s; /* of the resource */
    move_t best, sideways;
    uint32_t nsideways;
} choice_t;

typedef struct trees {
    const ccl_i_cegis_problem_t *p;
    uint32_t n, looks;
    uint32_t *into;   /* [nchunks * n] hop over which it comes; CCL_NONE: it does not */
    uint8_t *there;   /* [nchunks * n] */
    double *load_s;   /* [nresources] */
    double *use_s;    /* [nresources] of one chunk, once */
    uint8_t *below;   /* [n] scratch: in the subtree */
    uint32_t *banned; /* [nchunks * n] number of the move until which it gets nothing new */
    uint32_t moves;
    ccl_rng_t rng;
} trees_t;

static bool trees_init(trees_t *t, const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan) {
    const ccl_i_exchange_t *x = p->x;
    size_t pairs = (size_t)p->nchunks * x->nranks + 1, nresources = x->nresources + (size_t)1;
    *t = (trees_t){.p = p, .n = x->nranks};
    ccl_rng_init(&t->rng, 1);
    t->into = malloc(pairs * sizeof *t->into);
    t->there = calloc(pairs, 1);
    t->load_s = calloc(nresources, sizeof *t->load_s);
    t->use_s = calloc(nresources, sizeof *t->use_s);
    t->banned = calloc(pairs, sizeof *t->banned);
    t->below = calloc(t->n, 1);
    if (!t->into || !t->there || !t->load_s || !t->use_s || !t->banned || !t->below)
        return false;
    memset(t->into, 0xff, pairs * sizeof *t->into);
    for (uint32_t r = 0; r < x->nresources; r++)
        t->use_s[r] = p->capacity->chunk_bytes / x->resources[r].Bps;
    for (uint32_t k = 0; k < p->nchunks; k++) {
        if (p->chunks[k].ntargets)
            t->there[(size_t)k * t->n + p->chunks[k].root] = 1;
    }
    for (size_t i = 0; i < plan->len; i++) {
        const ccl_i_cegis_send_t *send = &plan->sends[i];
        size_t to = (size_t)send->chunk * t->n + x->hops[send->hop].dst;
        t->into[to] = send->hop;
        t->there[to] = 1;
    }
    return true;
}

static void trees_fini(trees_t *t) {
    free(t->into);
    free(t->there);
    free(t->load_s);
    free(t->use_s);
    free(t->banned);
    free(t->below);
}

static void carry(trees_t *t, uint32_t h, double sign) {
    const ccl_i_exchange_t *x = t->p->x;
    const ccl_i_hop_t *hop = &x->hops[h];
    for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
        uint32_t r = x->uses[u].resource;
        t->load_s[r] += sign * x->uses[u].times * t->use_s[r];
    }
}

/** The busiest of what a hop uses, with another chunk over it. */
static double with(trees_t *t, uint32_t h) {
    const ccl_i_exchange_t *x = t->p->x;
    const ccl_i_hop_t *hop = &x->hops[h];
    double worst_s = 0;
    t->looks++;
    for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
        uint32_t r = x->uses[u].resource;
        double then_s = t->load_s[r] + x->uses[u].times * t->use_s[r];
        worst_s = then_s > worst_s ? then_s : worst_s;
    }
    return worst_s;
}

static uint32_t parent_of(const trees_t *t, uint32_t k, uint32_t v) {
    uint32_t h = t->into[(size_t)k * t->n + v];
    return h == CCL_NONE ? CCL_NONE : t->p->x->hops[h].src;
}

/** Ranks that have chunk k from v, and v. */
static void mark_below(trees_t *t, uint32_t k, uint32_t v) {
    for (uint32_t y = 0; y < t->n; y++) {
        uint32_t at = y;
        while (at != CCL_NONE && at != v)
            at = parent_of(t, k, at);
        t->below[y] = at == v;
    }
}

/** The best hop u -> v as links are now. */
static uint32_t hop_between(trees_t *t, uint32_t u, uint32_t v, double *worst_s) {
    const ccl_i_exchange_t *x = t->p->x;
    uint32_t best = CCL_NONE;
    *worst_s = INFINITY;
    for (uint32_t h = x->out_first[u]; h < x->out_first[u + 1]; h++) {
        double s = x->hops[h].dst == v ? with(t, h) : INFINITY;
        if (s < *worst_s) {
            *worst_s = s;
            best = h;
        }
    }
    return best;
}

static bool is_banned(const trees_t *t, uint32_t k, uint32_t v) {
    return t->banned[(size_t)k * t->n + v] > t->moves;
}

/** Chunk k enters the subtree of v at y instead, and the way from v to y is reversed. */
static void look_at(trees_t *t, uint32_t k, uint32_t v, uint32_t y, choice_t *c) {
    const ccl_i_exchange_t *x = t->p->x;
    double most_s = fmin(c->best.worst_s, c->now_s * (1 + 1e-9));
    move_t m = {.chunk = k};
    if (c->best.nadded == 0)
        most_s = c->now_s * (1 + 1e-9);
    for (uint32_t at = y; at != v; at = parent_of(t, k, at)) {
        if (m.nremoved == MOST_TURNED)
            return;
        m.removed[m.nremoved++] = t->into[(size_t)k * t->n + at];
    }
    m.removed[m.nremoved++] = t->into[(size_t)k * t->n + v];
    for (uint32_t i = 0; i < m.nremoved; i++)
        carry(t, m.removed[i], -1);
    for (uint32_t i = 0; i + 1 < m.nremoved; i++) {
        const ccl_i_hop_t *hop = &x->hops[m.removed[i]];
        double worst_s;
        uint32_t back = hop_between(t, hop->dst, hop->src, &worst_s);
        m.worst_s = fmax(m.worst_s, worst_s);
        if (back == CCL_NONE)
            break;
        m.added[m.nadded++] = back;
    }
    uint32_t enters = CCL_NONE;
    double enters_s = INFINITY;
    for (uint32_t i = x->in_first[y]; m.worst_s < most_s && i < x->in_first[y + 1]; i++) {
        uint32_t h = x->in_hops[i], u = x->hops[h].src;
        if (t->below[u] || !t->there[(size_t)k * t->n + u])
            continue;
        double s = with(t, h);
        if (s < enters_s) {
            enters_s = s;
            enters = h;
        }
    }
    for (uint32_t i = 0; i < m.nremoved; i++)
        carry(t, m.removed[i], 1);
    m.worst_s = fmax(m.worst_s, enters_s);
    if (enters == CCL_NONE || m.worst_s >= most_s)
        return;
    m.added[m.nadded++] = enters;
    if (m.worst_s < c->best.worst_s)
        c->best = m;
    else if (!is_banned(t, k, y) && ccl_rng_below(&t->rng, ++c->nsideways) == 0)
        c->sideways = m;
}

static void do_move(trees_t *t, const move_t *m) {
    for (uint32_t i = 0; i < m->nremoved; i++)
        carry(t, m->removed[i], -1);
    t->moves++;
    for (uint32_t i = 0; i < m->nremoved; i++)
        t->banned[(size_t)m->chunk * t->n + t->p->x->hops[m->removed[i]].dst] = t->moves + BANNED;
    for (uint32_t i = 0; i < m->nadded; i++) {
        carry(t, m->added[i], 1);
        t->into[(size_t)m->chunk * t->n + t->p->x->hops[m->added[i]].dst] = m->added[i];
    }
}

static bool uses(const ccl_i_exchange_t *x, uint32_t h, uint32_t r) {
    for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++) {
        if (x->uses[u].resource == r)
            return true;
    }
    return false;
}

/** One chunk less over resource r. @return 1 without making another as busy, 0 so, -1 not at all */
static int relieve(trees_t *t, uint32_t r) {
    choice_t c = {.now_s = t->load_s[r]};
    c.best.worst_s = c.now_s * (1 - 1e-9);
    for (uint32_t k = 0; k < t->p->nchunks; k++) {
        for (uint32_t v = 0; v < t->n; v++) {
            uint32_t h = t->into[(size_t)k * t->n + v];
            if (h == CCL_NONE || !uses(t->p->x, h, r))
                continue;
            mark_below(t, k, v);
            for (uint32_t y = 0; y < t->n; y++) {
                if (t->below[y])
                    look_at(t, k, v, y, &c);
            }
        }
    }
    if (c.best.nadded)
        do_move(t, &c.best);
    else if (c.nsideways)
        do_move(t, &c.sideways);
    return c.best.nadded ? 1 : c.nsideways ? 0 : -1;
}

static bool lower(trees_t *t) {
    const ccl_i_exchange_t *x = t->p->x;
    uint32_t sideways = 0;
    double first_s = 0;
    while (t->looks < MOST_LOOKS && sideways < SIDEWAYS) {
        uint32_t busiest = 0;
        for (uint32_t r = 1; r < x->nresources; r++)
            busiest = t->load_s[r] > t->load_s[busiest] * (1 + 1e-9) ? r : busiest;
        if (first_s == 0)
            first_s = t->load_s[busiest];
        if (t->load_s[busiest] <= t->p->load_s * (1 + 1e-6))
            break;
        int got = relieve(t, busiest);
        if (got < 0)
            break;
        sideways = got ? 0 : sideways + 1;
    }
    double now_s = 0;
    for (uint32_t r = 0; r < x->nresources; r++)
        now_s = fmax(now_s, t->load_s[r]);
    return now_s < first_s * (1 - 1e-9);
}

/* ---------------------------------------------------------------- steps */

typedef struct pending {
    uint32_t chunk, hop, height; /* height: of the tree below */
} pending_t;

static int highest_first(const void *a, const void *b) {
    const pending_t *x = a, *y = b;
    if (x->height != y->height)
        return x->height > y->height ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    return x->hop < y->hop ? -1 : x->hop > y->hop;
}

/** Step from which roots have their chunks, and how much is below each node of each tree. */
static void measure(const trees_t *t, uint32_t *since, uint32_t *height) {
    const ccl_i_cegis_problem_t *p = t->p;
    memset(since, 0xff, (size_t)p->nchunks * t->n * sizeof *since);
    for (uint32_t k = 0; k < p->nchunks; k++) {
        if (p->chunks[k].ntargets)
            since[(size_t)k * t->n + p->chunks[k].root] = 0;
        for (uint32_t v = 0; v < t->n; v++) {
            uint32_t far = 0;
            for (uint32_t u = v; u != CCL_NONE; u = parent_of(t, k, u), far++) {
                size_t at = (size_t)k * t->n + u;
                height[at] = far > height[at] ? far : height[at];
            }
        }
    }
}

/** A schedule in the making; hops and left are what this step has room for. */
typedef struct schedule_state {
    const trees_t *t;
    pending_t *todo;
    size_t len; /* of todo */
    uint32_t *since, *hops, *left;
} schedule_state_t;

static bool goes_now(const schedule_state_t *s, const pending_t *todo, uint32_t step) {
    const ccl_i_exchange_t *x = s->t->p->x;
    const ccl_i_hop_t *hop = &x->hops[todo->hop];
    bool goes = s->since[(size_t)todo->chunk * s->t->n + hop->src] <= step && s->hops[todo->hop];
    for (uint32_t u = hop->first_use; goes && u < hop->first_use + hop->nuses; u++)
        goes = s->left[x->uses[u].resource] >= x->uses[u].times;
    return goes;
}

/** What fits into one step leaves todo. @retval CCL_ERR_NOMEM */
static ccl_status_t fill_step(schedule_state_t *s, uint32_t step, ccl_i_cegis_plan_t *out,
                              ccl_error_t *err) {
    const ccl_i_exchange_t *x = s->t->p->x;
    size_t kept = 0;
    memcpy(s->hops, s->t->p->capacity->hop_chunks, x->nhops * sizeof *s->hops);
    memcpy(s->left, s->t->p->capacity->resource_chunks, x->nresources * sizeof *s->left);
    for (size_t i = 0; i < s->len; i++) {
        const pending_t todo = s->todo[i];
        const ccl_i_hop_t *hop = &x->hops[todo.hop];
        if (!goes_now(s, &todo, step)) {
            s->todo[kept++] = todo;
            continue;
        }
        s->hops[todo.hop]--;
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++)
            s->left[x->uses[u].resource] -= x->uses[u].times;
        s->since[(size_t)todo.chunk * s->t->n + hop->dst] = step + 1;
        if (!ccl_grow(&out->sends, &out->cap, out->len + 1, sizeof *out->sends))
            return ccl_fail_nomem(err);
        out->sends[out->len++] = (ccl_i_cegis_send_t){todo.chunk, todo.hop, step};
        out->nsteps = step + 1;
    }
    s->len = kept;
    return CCL_OK;
}

/** Trees in steps within capacities: what has most below it first. */
static ccl_status_t schedule(const trees_t *t, ccl_i_cegis_plan_t *out, ccl_error_t *err) {
    const ccl_i_cegis_problem_t *p = t->p;
    const ccl_i_exchange_t *x = p->x;
    size_t pairs = (size_t)p->nchunks * t->n, len = 0;
    pending_t *todo = malloc((pairs + 1) * sizeof *todo);
    uint32_t *since = malloc((pairs + 1) * sizeof *since); /* step from which it is there */
    uint32_t *height = calloc(pairs + 1, sizeof *height);
    uint32_t *hops = malloc((x->nhops + (size_t)1) * sizeof *hops);
    uint32_t *left = malloc((x->nresources + (size_t)1) * sizeof *left);
    ccl_status_t status = CCL_OK;
    if (!todo || !since || !height || !hops || !left) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    measure(t, since, height);
    for (size_t at = 0; at < pairs; at++) {
        if (t->into[at] != CCL_NONE)
            todo[len++] = (pending_t){(uint32_t)(at / t->n), t->into[at], height[at]};
    }
    qsort(todo, len, sizeof *todo, highest_first);
    schedule_state_t state = {t, todo, len, since, hops, left};
    out->len = 0;
    for (uint32_t step = 0; state.len; step++) {
        size_t before = state.len;
        CCL_TRY_GOTO(fill_step(&state, step, out, err), status, end);
        if (state.len == before) {
            status = ccl_fail(err, CCL_ERR_INTERNAL, "nothing can be sent in step %u", step);
            goto end;
        }
    }
end:
    free(todo);
    free(since);
    free(height);
    free(hops);
    free(left);
    return status;
}

ccl_status_t ccl_i_cegis_relieve(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan,
                                 ccl_i_cegis_plan_t *out, ccl_error_t *err) {
    trees_t t;
    ccl_status_t status = trees_init(&t, p, plan) ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < plan->len; i++)
        carry(&t, plan->sends[i].hop, 1);
    out->len = 0;
    out->nsteps = 0;
    if (status == CCL_OK && lower(&t))
        status = schedule(&t, out, err);
    trees_fini(&t);
    return status;
}
