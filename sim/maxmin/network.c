/**
 * @file network.c
 * Max-min fair rates by local relaxation and progressive filling.
 *
 * Source of the optimality condition: Bertsekas and Gallager, Data Networks, section 6.5.2: an
 * allocation is max-min fair exactly when every flow has a saturated resource on which no other
 * flow is faster. Served-volume clocks are those of generalised processor sharing.
 *
 * Flows on one path have one rate, so the solver works on paths and a path keeps its flows in a
 * heap. What the inner loops read of resources lies in arrays of its own (level, other, own, cap,
 * limit): a few kilobytes that stay in the nearest cache.
 */
#include "sim/internal.h"
#include "sim/maxmin/rates.h"

/* ---------------------------------------------------------------- completion queue */

static void queue_place(ccl_i_net_t *net, uint32_t at, uint32_t r) {
    net->queue[at] = r;
    net->res[r].queue_pos = at;
}

#define SOONER(net_, a_, b_) ((net_)->res[a_].next_t < (net_)->res[b_].next_t)
#define QUEUE_PUT(net_, heap_, at_, item_) queue_place(net_, (uint32_t)(at_), item_)
CCL_HEAP(resources, uint32_t, ccl_i_net_t *, SOONER, QUEUE_PUT)

static void queue_fix(ccl_i_net_t *net, uint32_t at) {
    resources_fix(net, net->queue, net->nqueue, at);
}

static void requeue(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    double next = INFINITY, level = net->level[index];
    if (r->nown && level > 0) {
        double left = ccl_i_net_first_key(r) - r->vol;
        next = r->vol_t + (left > 0 ? left / level : 0);
    }
    if (next == INFINITY) {
        r->next_t = INFINITY;
        if (r->queue_pos != CCL_NONE) {
            uint32_t at = r->queue_pos;
            uint32_t last = net->queue[--net->nqueue];
            r->queue_pos = CCL_NONE;
            if (last != index) {
                queue_place(net, at, last);
                queue_fix(net, at);
            }
        }
        return;
    }
    if (r->queue_pos != CCL_NONE && r->next_t == next)
        return;
    r->next_t = next;
    if (r->queue_pos == CCL_NONE)
        queue_place(net, net->nqueue++, index);
    queue_fix(net, r->queue_pos);
}

/* ---------------------------------------------------------------- flows come and go */

void ccl_i_net_member_add(ccl_i_net_t *net, uint32_t path, uint32_t slot, uint32_t res) {
    resource_t *r = &net->res[res];
    if (r->fixed)
        return;
    if (r->nlist == r->clist) {
        uint32_t cap = r->clist ? 2 * r->clist : 4;
        member_t *list = realloc(r->list, cap * sizeof(*list));
        if (!list) {
            net->nomem = true;
            return;
        }
        r->list = list;
        r->clist = cap;
    }
    net->pos[(size_t)path * net->stride + slot] = r->nlist;
    if (r->listed && r->nlist < r->cbottles)
        r->bottles[r->nlist] = net->bottle[path];
    else
        r->listed = false;
    r->list[r->nlist++] = (member_t){path, slot};
}

static void member_remove(ccl_i_net_t *net, uint32_t path, uint32_t slot, uint32_t res) {
    resource_t *r = &net->res[res];
    if (r->fixed)
        return;
    uint32_t at = net->pos[(size_t)path * net->stride + slot];
    member_t last = r->list[--r->nlist];
    r->list[at] = last;
    if (r->listed)
        r->bottles[at] = r->bottles[r->nlist];
    net->pos[(size_t)last.path * net->stride + last.slot] = at;
}

bool ccl_i_net_start(ccl_i_net_t *net, uint32_t path, double bytes, uint32_t user) {
    if (!ccl_i_grow(&net->started, &net->cstarted, net->nstarted + 1u, sizeof(*net->started)))
        return false;
    net->started[net->nstarted++] = (started_t){bytes, path, user};
    net->active_flows++;
    return true;
}

double ccl_i_net_next_s(const ccl_i_net_t *net) {
    return net->nqueue ? net->res[net->queue[0]].next_t : INFINITY;
}

/* All flows of one of a resource's own paths that are due at volume `vol`. */
static void take_path(ccl_i_net_t *net, uint32_t path, double vol, size_t *n) {
    path_t *p = &net->paths[path];
    const resource_t *r = &net->res[net->bottle[path]];
    double level = net->level[net->bottle[path]];
    while (p->nflows && p->flow.key - p->offset <= vol) {
        if (!ccl_i_grow(&net->drained, &net->cdrained, *n + 1, sizeof(*net->drained)) ||
            !ccl_i_grow(&net->ended, &net->cended, net->nended + 1u, sizeof(*net->ended))) {
            net->nomem = true;
            return;
        }
        double left = p->flow.key - p->offset - r->vol;
        net->drained[(*n)++] =
            (ccl_i_drained_t){r->vol_t + (left > 0 ? left / level : 0), p->flow.user};
        net->ended[net->nended++] = path;
        ccl_i_path_pop(net, p);
    }
}

size_t ccl_i_net_take(ccl_i_net_t *net, double until_s, const ccl_i_drained_t **out) {
    size_t n = 0;
    while (net->nqueue && net->res[net->queue[0]].next_t <= until_s && !net->nomem) {
        uint32_t index = net->queue[0];
        resource_t *r = &net->res[index];
        /* The first is due by next_t itself: do not let rounding of the volume hide it. */
        double vol =
            fmax(r->vol + net->level[index] * (until_s - r->vol_t), ccl_i_net_first_key(r));
        if (r->fixed) {
            while (r->nown && r->own[0].key <= vol && !net->nomem) {
                uint32_t path = r->own[0].path;
                take_path(net, path, vol, &n);
                ccl_i_net_own_update(net, path);
            }
        } else {
            for (uint32_t i = 0; i < r->nown; i++) {
                if (i + AHEAD < r->nown)
                    __builtin_prefetch(&net->paths[r->own[i + AHEAD].path], 1);
                if (r->own[i].key > vol)
                    continue;
                take_path(net, r->own[i].path, vol, &n);
                ccl_i_net_own_update(net, r->own[i].path);
            }
        }
        requeue(net, index);
    }
    *out = net->drained;
    return n;
}

bool ccl_i_net_changed(const ccl_i_net_t *net) {
    return net->nstarted > 0 || net->nended > 0;
}

uint32_t ccl_i_net_active(const ccl_i_net_t *net) {
    return net->active_flows;
}

uint64_t ccl_i_net_rate_changes(const ccl_i_net_t *net) {
    return net->rate_changes;
}

/* ---------------------------------------------------------------- solving an instant */

static void seed(ccl_i_net_t *net, uint32_t res) {
    if (!ccl_i_grow(&net->seeds, &net->cseeds, net->nseeds + 1u, sizeof(*net->seeds))) {
        net->nomem = true;
        return;
    }
    net->seeds[net->nseeds++] = res;
}

/* A path has `more` flows (or fewer): loads, demand and lists of its resources. */
static void change_count(ccl_i_net_t *net, uint32_t path, int32_t more) {
    path_t *p = &net->paths[path];
    for (uint32_t k = 0; more > 0 && k < p->n; k++)
        if (net->lazy[net->entries[p->first + k].res])
            ccl_i_net_wake(net, net->entries[p->first + k].res);
    bool was = p->count > 0;
    p->count += (uint32_t)more;
    bool is = p->count > 0;
    uint32_t bottle = net->bottle[path];
    double rate = bottle == CCL_NONE ? 0 : net->level[bottle];
    for (uint32_t k = 0; k < p->n; k++) {
        entry_t e = net->entries[p->first + k];
        resource_t *r = &net->res[e.res];
        ccl_i_net_touch(net, e.res);
        net->all[e.res] += (double)e.weight * more;
        if (is && !was)
            ccl_i_net_member_add(net, path, k, e.res);
        else if (was && !is)
            member_remove(net, path, k, e.res);
        if (r->kappa > 0) {
            r->demand =
                r->nlist ? r->demand + (double)e.weight * more * net->caps[path].cap_Bps : 0;
            net->cap[e.res] = r->base * ccl_model_eta(r->kappa, r->demand / r->base);
            net->full[e.res] = net->cap[e.res] * (1 + EPS);
            ccl_i_net_watch(net, e.res);
        }
        if (bottle == e.res)
            net->own[e.res] += (double)e.weight * more;
        else
            net->other[e.res] =
                r->nlist || r->fixed ? net->other[e.res] + (double)e.weight * more * rate : 0;
        seed(net, e.res);
    }
    if (bottle == CCL_NONE)
        return;
    if (is) {
        ccl_i_net_own_update(net, path);
        return;
    }
    ccl_i_net_own_remove(net, path, &net->res[bottle]);
    ccl_i_net_leave(net, bottle, 0);
    net->bottle[path] = CCL_NONE;
    net->active_paths--;
}

/* First guess for a path that was inactive: limited where the level is lowest; where nothing is
   full yet, by the resource with the least room for it. Relaxing does the rest. */
static void guess(ccl_i_net_t *net, uint32_t path) {
    path_t *p = &net->paths[path];
    const entry_t *e = &net->entries[p->first];
    uint32_t best = 0;
    double rate = INFINITY;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t m = e[k].res;
        double room = net->cap[m] > net->other[m] ? net->cap[m] - net->other[m] : 0;
        double x = net->level[m] < INFINITY ? net->level[m] : room / (e[k].weight * p->count);
        if (x < rate) {
            rate = x;
            best = k;
        }
    }
    uint32_t b = e[best].res;
    if (!(net->level[b] < INFINITY)) {
        ccl_i_net_set_level(net, b, rate);
        net->res[b].check = true;
    }
    ccl_i_net_join(net, path, b, (double)e[best].weight * p->count, 0);
    for (uint32_t k = 0; k < p->n; k++) {
        if (k == best)
            continue;
        net->other[e[k].res] += (double)e[k].weight * p->count * rate;
        ccl_i_net_meet(net, e[k].res, rate);
    }
}

static void add_started(ccl_i_net_t *net) {
    net->nfresh = 0;
    for (uint32_t i = 0; i < net->nstarted; i++) {
        started_t s = net->started[i];
        path_t *p = &net->paths[s.path];
        double clock = 0;
        uint32_t bottle = net->bottle[s.path];
        if (bottle != CCL_NONE) {
            ccl_i_net_touch(net, bottle);
            clock = net->res[bottle].vol + p->offset;
        } else if (p->count == 0) {
            if (!ccl_i_grow(&net->fresh, &net->cfresh, net->nfresh + 1u, sizeof(*net->fresh))) {
                net->nomem = true;
                return;
            }
            net->fresh[net->nfresh++] = s.path;
            net->active_paths++;
        }
        if (!ccl_i_path_push(net, p, (flow_t){clock + s.bytes, s.user})) {
            net->nomem = true;
            return;
        }
        change_count(net, s.path, 1);
    }
}

static void finish(ccl_i_net_t *net) {
    net->nstarted = net->nended = 0;
    for (uint32_t i = 0; i < net->ntouched; i++)
        requeue(net, net->touched[i]);
}

bool ccl_i_net_solve(ccl_i_net_t *net, double now_s) {
    net->now = now_s;
    net->touch_epoch++;
    net->ntouched = net->nseeds = 0;
    if (net->wide) {
        net->active_flows -= net->nended;
        ccl_i_net_wide_solve(net);
        finish(net);
        return !net->nomem;
    }
    uint64_t changes = (uint64_t)net->nstarted + net->nended;
    bool filling = net->force >= 2 || (net->force == 0 && changes * 8 > net->active_paths);
    if (net->force == 3 ||
        (net->force == 0 && filling && changes >= net->npaths / 2 + net->nused)) {
        net->active_flows -= net->nended;
        ccl_i_net_rebuild(net);
        finish(net);
        return !net->nomem;
    }
    for (uint32_t i = 0; i < net->nended && !net->nomem; i++)
        change_count(net, net->ended[i], -1);
    net->active_flows -= net->nended;
    add_started(net);
    for (uint32_t i = 0; i < net->nfresh && !net->nomem; i++) {
        const path_t *p = &net->paths[net->fresh[i]];
        /* Filling starts from links and groups: it does not meet a path that only its cap limits.
         */
        if (!filling || (p->n == 1 && net->res[net->entries[p->first].res].fixed))
            guess(net, net->fresh[i]);
    }
    if (!filling && !net->nomem) {
        for (uint32_t i = 0; i < net->nseeds; i++)
            ccl_i_net_mark_dirty(net, net->seeds[i]);
        uint64_t limit = net->visits + 40ull * net->active_paths + 4096;
        while (net->nwork > 0 && !net->nomem) {
            if (net->visits > limit && net->force != 1) {
                /* Not settling quickly: start over from what is connected. */
                while (net->nwork > 0)
                    seed(net, ccl_i_net_pop_dirty(net));
                filling = true;
                break;
            }
            ccl_i_net_relax(net, ccl_i_net_pop_dirty(net));
        }
    }
    if (filling && !net->nomem)
        ccl_i_net_fill(net);
    for (uint32_t i = 0; net->nended > 0 && !filling && i < net->nseeds; i++)
        ccl_i_net_rest(net, net->seeds[i]);
    finish(net);
    return !net->nomem;
}

/* ---------------------------------------------------------------- looking in from outside */

void ccl_i_net_visit(const ccl_i_net_t *net, double now_s, ccl_i_net_visit_fn fn, void *ctx) {
    for (uint32_t i = 0; i < net->npaths; i++) {
        const path_t *p = &net->paths[i];
        uint32_t bottle = net->bottle[i];
        if (bottle == CCL_NONE)
            continue;
        const resource_t *r = &net->res[bottle];
        double clock = r->vol + net->level[bottle] * (now_s - r->vol_t) + p->offset;
        for (uint32_t k = 0; k < p->nflows; k++) {
            const flow_t *flow = k ? &net->rests[p->rest].heap[k - 1] : &p->flow;
            fn(flow->user, flow->key - clock, ctx);
        }
    }
}

void ccl_i_net_shift(ccl_i_net_t *net, double shift_s) {
    net->now += shift_s;
    for (uint32_t i = 0; i < net->nres; i++) {
        net->res[i].vol_t += shift_s;
        net->res[i].next_t += shift_s;
    }
}

uint32_t ccl_i_net_limit(const ccl_i_net_t *net, uint32_t path) {
    uint32_t bottle = net->bottle[path];
    return bottle < net->first_cap ? bottle : CCL_NONE;
}

double ccl_i_net_rate(const ccl_i_net_t *net, uint32_t user) {
    for (uint32_t i = 0; i < net->npaths; i++) {
        const path_t *p = &net->paths[i];
        for (uint32_t k = 0; k < p->nflows && net->bottle[i] != CCL_NONE; k++)
            if ((k ? net->rests[p->rest].heap[k - 1].user : p->flow.user) == user)
                return net->level[net->bottle[i]];
    }
    return 0;
}

void ccl_i_net_force(ccl_i_net_t *net, int solver) {
    net->force = solver;
}
