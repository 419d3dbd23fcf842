/* Parts of a cluster that are slower than others of their kind, and which of them decides a run. */
#include "search/explain/changes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Slower than the fastest of the kind by less is the same. */
#define SAME 0.999
/* A part whose speed gains less of the time does not decide it. */
#define DECIDES 0.01
/* Kinds of parts that are looked at, those that lack most; each is a run or two. */
enum { MOST_PARTS = 12 };
enum { DEVICE_KINDS = CCL_DEVICE_HOST + 1 };

/* What owns a slow link; whoever comes first. */
typedef enum owner { OWNER_SERVER, OWNER_DEVICE, OWNER_LINK } owner_t;

/* A slow link and its owner, a number of its own kind. */
typedef struct slow_link {
    owner_t owner;
    uint64_t id;
    uint32_t link;
} slow_link_t;

/* Parts that lack the same. */
typedef struct slow_class {
    owner_t owner;
    uint32_t first, end; /* of the first part: into the finder's links */
    uint32_t index;      /* class_of its links */
    uint32_t count;      /* parts */
    char about[300];     /* bandwidth */
    double share;
} slow_class_t;

typedef struct finder {
    const ccl_topology_t *topo;
    ccl_explanation_t *e;
    double *best_Bps; /* [classes] a lane of the fastest link */
    bool *slow;       /* [nlinks] */
    slow_link_t *links;
    uint32_t nlinks;
    slow_class_t *of; /* [n] */
    uint32_t n;
    size_t cap;
    uint32_t *class_of; /* [nlinks] of the finder's links */
} finder_t;

static uint32_t server_of(const ccl_topology_t *topo, uint32_t device) {
    return topo->devices[device].server;
}

/* Links of one kind, between devices of the same kinds. */
static uint32_t class_of(const ccl_topology_t *topo, uint32_t l) {
    const ccl_link_t *link = &topo->links[l];
    uint32_t from = topo->devices[link->from].kind, to = topo->devices[link->to].kind;
    return (link->kind * DEVICE_KINDS + from) * DEVICE_KINDS + to;
}

static double lane_Bps(const ccl_topology_t *topo, uint32_t l) {
    return topo->links[l].bandwidth_Bps / topo->links[l].lanes;
}

static double share_of(const finder_t *f, uint32_t l) {
    return lane_Bps(f->topo, l) / f->best_Bps[class_of(f->topo, l)];
}

static bool touches_device(const ccl_topology_t *topo, uint32_t l, uint32_t device) {
    return topo->links[l].from == device || topo->links[l].to == device;
}

static bool touches_server(const ccl_topology_t *topo, uint32_t l, uint32_t server) {
    return server_of(topo, topo->links[l].from) == server ||
           server_of(topo, topo->links[l].to) == server;
}

/* All links like `l` there are slow. */
static bool all_slow(const finder_t *f, uint32_t l, uint32_t at,
                     bool (*touches)(const ccl_topology_t *, uint32_t, uint32_t)) {
    uint32_t class = class_of(f->topo, l);
    for (uint32_t k = 0; k < f->topo->nlinks; k++)
        if (!f->slow[k] && class_of(f->topo, k) == class && touches(f->topo, k, at))
            return false;
    return true;
}

/* What is to blame for a slow link: its server where all like it are slow there; else a NIC, GPU or
   switch of which the same holds; else the link, with the one back. */
static slow_link_t owned(const finder_t *f, uint32_t l) {
    static const ccl_device_kind_t order[] = {CCL_DEVICE_NIC, CCL_DEVICE_GPU, CCL_DEVICE_SWITCH,
                                              CCL_DEVICE_HOST};
    const ccl_topology_t *topo = f->topo;
    const uint32_t ends[2] = {topo->links[l].from, topo->links[l].to};
    uint32_t a = server_of(topo, ends[0]), b = server_of(topo, ends[1]);
    uint32_t server = a == CCL_NONE ? b : a;
    if (server != CCL_NONE && (b == CCL_NONE || b == server) &&
        all_slow(f, l, server, touches_server))
        return (slow_link_t){OWNER_SERVER, server, l};
    for (size_t k = 0; k < CCL_ARRAY_LEN(order); k++)
        for (int end = 0; end < 2; end++)
            if (topo->devices[ends[end]].kind == order[k] &&
                all_slow(f, l, ends[end], touches_device))
                return (slow_link_t){OWNER_DEVICE, ends[end], l};
    uint64_t least = ends[0] < ends[1] ? ends[0] : ends[1];
    uint64_t most = ends[0] < ends[1] ? ends[1] : ends[0];
    return (slow_link_t){OWNER_LINK, least << 32 | most, l};
}

static int by_owner(const void *a, const void *b) {
    const slow_link_t *x = a, *y = b;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->link < y->link ? -1 : x->link > y->link;
}

static ccl_status_t find_links(finder_t *f, ccl_error_t *err) {
    const ccl_topology_t *topo = f->topo;
    size_t nclasses = (size_t)topo->nkinds * DEVICE_KINDS * DEVICE_KINDS;
    f->best_Bps = calloc(nclasses + 1, sizeof *f->best_Bps);
    f->slow = calloc(topo->nlinks + 1u, sizeof *f->slow);
    f->links = calloc(topo->nlinks + 1u, sizeof *f->links);
    f->class_of = calloc(topo->nlinks + 1u, sizeof *f->class_of);
    if (!f->best_Bps || !f->slow || !f->links || !f->class_of)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        double *best_Bps = &f->best_Bps[class_of(topo, l)];
        *best_Bps = fmax(*best_Bps, lane_Bps(topo, l));
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        f->slow[l] = share_of(f, l) < SAME;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (f->slow[l])
            f->links[f->nlinks++] = owned(f, l);
    qsort(f->links, f->nlinks, sizeof *f->links, by_owner);
    return CCL_OK;
}

/* ---------------------------------------------------------------- parts that lack the same */

/* Of links first to end: by kind the slowest, and what it would be. */
static void describe(const finder_t *f, uint32_t first, uint32_t end, slow_class_t *out) {
    const ccl_topology_t *topo = f->topo;
    size_t len = 0;
    *out = (slow_class_t){.owner = f->links[first].owner, .first = first, .end = end, .share = 1};
    for (uint32_t kind = 0; kind < topo->nkinds; kind++) {
        uint32_t least = CCL_NONE;
        for (uint32_t i = first; i < end; i++) {
            uint32_t l = f->links[i].link;
            if (topo->links[l].kind == kind &&
                (least == CCL_NONE || share_of(f, l) < share_of(f, least)))
                least = l;
        }
        if (least == CCL_NONE || len >= sizeof out->about)
            continue;
        double rate_Bps = topo->links[least].bandwidth_Bps, share = share_of(f, least);
        len += (size_t)snprintf(out->about + len, sizeof out->about - len, "%s%s %.4g of %.4g GB/s",
                                len ? ", " : "", topo->kinds[kind], rate_Bps / 1e9,
                                rate_Bps / share / 1e9);
        out->share = fmin(out->share, share);
    }
}

static bool alike(const finder_t *f, const slow_class_t *a, const slow_class_t *b) {
    const slow_link_t *x = &f->links[a->first], *y = &f->links[b->first];
    return a->owner == b->owner && strcmp(a->about, b->about) == 0 &&
           (a->owner != OWNER_DEVICE ||
            f->topo->devices[x->id].kind == f->topo->devices[y->id].kind);
}

/* Behind the links of the owner whose first one this is. */
static uint32_t owner_end(const finder_t *f, uint32_t first) {
    uint32_t end = first + 1;
    while (end < f->nlinks && f->links[end].owner == f->links[first].owner &&
           f->links[end].id == f->links[first].id)
        end++;
    return end;
}

static int by_share(const void *a, const void *b) {
    const slow_class_t *x = a, *y = b;
    if (x->share != y->share)
        return x->share < y->share ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static ccl_status_t find_classes(finder_t *f, ccl_error_t *err) {
    for (uint32_t first = 0, end; first < f->nlinks; first = end) {
        slow_class_t found;
        uint32_t at = 0;
        end = owner_end(f, first);
        describe(f, first, end, &found);
        while (at < f->n && !alike(f, &f->of[at], &found))
            at++;
        if (at == f->n) {
            if (!ccl_grow(&f->of, &f->cap, f->n + 1u, sizeof *f->of))
                return ccl_fail_nomem(err);
            found.index = at;
            f->of[f->n++] = found;
        }
        f->of[at].count++;
        for (uint32_t i = first; i < end; i++)
            f->class_of[i] = at;
    }
    if (f->n)
        qsort(f->of, f->n, sizeof *f->of, by_share);
    return CCL_OK;
}

/* ---------------------------------------------------------------- what a part becomes */

/* Edits of a part, as they are found. */
typedef struct edits {
    ccl_arena_t *arena;
    const char **list;
    size_t cap;
    uint32_t n;
} edits_t;

CCL_PRINTF(2, 3) static ccl_status_t add_edit(edits_t *e, const char *fmt, ...) {
    char text[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!ccl_grow(&e->list, &e->cap, e->n + 1u, sizeof *e->list))
        return CCL_ERR_NOMEM;
    e->list[e->n] = ccl_arena_strdup(e->arena, text);
    return e->list[e->n++] ? CCL_OK : CCL_ERR_NOMEM;
}

/* Whether all links of a kind at a server lack the same share, so that one edit does for them. */
static bool whole_kind(const finder_t *f, uint32_t kind, uint32_t server, double share) {
    for (uint32_t l = 0; l < f->topo->nlinks; l++)
        if (f->topo->links[l].kind == kind && touches_server(f->topo, l, server) &&
            fabs(share_of(f, l) - share) > 1e-12)
            return false;
    return true;
}

/* Links first to end of one owner as fast as the fastest. Links side by side are scaled together.
 */
static ccl_status_t restore(const finder_t *f, uint32_t first, uint32_t end, edits_t *out) {
    const ccl_topology_t *topo = f->topo;
    bool server = f->links[first].owner == OWNER_SERVER;
    for (uint32_t i = first; i < end; i++) {
        uint32_t l = f->links[i].link;
        const ccl_link_t *link = &topo->links[l];
        bool whole = server && whole_kind(f, link->kind, (uint32_t)f->links[i].id, share_of(f, l));
        bool done = false;
        for (uint32_t k = first; k < i && !done; k++) {
            const ccl_link_t *other = &topo->links[f->links[k].link];
            done = whole ? other->kind == link->kind
                         : other->from == link->from && other->to == link->to;
        }
        if (done)
            continue;
        if (whole)
            CCL_TRY(add_edit(out, "scale:bandwidth:%s@%s=%.17g", topo->kinds[link->kind],
                             topo->servers[f->links[i].id], 1 / share_of(f, l)));
        else
            CCL_TRY(add_edit(out, "scale:bandwidth:%s->%s=%.17g", topo->devices[link->from].id,
                             topo->devices[link->to].id, 1 / share_of(f, l)));
    }
    return CCL_OK;
}

static const char *name_of(const finder_t *f, const slow_class_t *c, char *out, size_t out_len) {
    static const char *const kinds[DEVICE_KINDS] = {"gpu", "switch", "nic", "host"};
    const slow_link_t *at = &f->links[c->first];
    const ccl_device_t *devices = f->topo->devices;
    if (c->owner == OWNER_SERVER)
        snprintf(out, out_len, "server %s", f->topo->servers[at->id]);
    else if (c->owner == OWNER_DEVICE)
        snprintf(out, out_len, "%s %s", kinds[devices[at->id].kind], devices[at->id].id);
    else
        snprintf(out, out_len, "link %s - %s", devices[at->id >> 32].id,
                 devices[at->id & 0xffffffffu].id);
    return out;
}

/* One class; NULL: all of them together. */
static ccl_status_t make_part(const finder_t *f, const slow_class_t *class, ccl_slow_part_t *out) {
    ccl_arena_t *arena = &f->e->arena;
    edits_t edits = {.arena = arena};
    ccl_status_t status = CCL_OK;
    char name[600];
    *out = (ccl_slow_part_t){.status = CCL_INTERRUPTED, .share = f->of[0].share};
    for (uint32_t first = 0, end; first < f->nlinks && status == CCL_OK; first = end) {
        end = owner_end(f, first);
        if (!class || f->class_of[first] == class->index)
            status = restore(f, first, end, &edits);
    }
    for (uint32_t i = 0; !class && i < f->n; i++)
        out->count += f->of[i].count;
    if (class) {
        out->share = class->share;
        out->count = class->count;
    }
    out->what = class ? ccl_arena_strdup(arena, name_of(f, class, name, sizeof name))
                      : "all of these together";
    out->bandwidth = class ? ccl_arena_strdup(arena, class->about) : "";
    const char **list = ccl_arena_alloc(arena, edits.n + 1u, sizeof *list);
    if (!list || !out->what || !out->bandwidth)
        status = CCL_ERR_NOMEM;
    if (status == CCL_OK && edits.n)
        memcpy(list, edits.list, edits.n * sizeof *list);
    out->edits = list;
    out->nedits = edits.n;
    free(edits.list);
    return status;
}

static ccl_status_t make_parts(const finder_t *f, ccl_error_t *err) {
    ccl_explanation_t *e = f->e;
    uint32_t n = f->n < MOST_PARTS ? f->n : MOST_PARTS;
    e->slow = ccl_arena_alloc(&e->arena, n + 1u, sizeof *e->slow);
    if (!e->slow)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        if (make_part(f, &f->of[i], &e->slow[e->nslow++]) != CCL_OK)
            return ccl_fail_nomem(err);
    if (f->n > 1 && make_part(f, NULL, &e->slow[e->nslow++]) != CCL_OK)
        return ccl_fail_nomem(err);
    return CCL_OK;
}

ccl_status_t ccl_i_slow_parts(const ccl_topology_t *topo, ccl_explanation_t *e, ccl_error_t *err) {
    finder_t f = {.topo = topo, .e = e};
    ccl_status_t status = find_links(&f, err);
    if (status == CCL_OK)
        status = find_classes(&f, err);
    if (status == CCL_OK && f.n > 0)
        status = make_parts(&f, err);
    free(f.best_Bps);
    free(f.slow);
    free(f.links);
    free(f.class_of);
    free(f.of);
    return status;
}

/* ---------------------------------------------------------------- which decides */

static int by_time(const void *a, const void *b) {
    const ccl_slow_part_t *x = a, *y = b;
    bool x_ran = x->status == CCL_OK, y_ran = y->status == CCL_OK;
    if (x_ran != y_ran)
        return x_ran ? -1 : 1;
    if (x_ran && x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->share != y->share ? (x->share < y->share ? -1 : 1) : strcmp(x->what, y->what);
}

void ccl_i_slow_decide(ccl_explanation_t *e) {
    /* all together stay last: they gain most by nature */
    uint32_t n = e->nslow > 1 ? e->nslow - 1 : e->nslow;
    if (n > 0)
        qsort(e->slow, n, sizeof *e->slow, by_time);
    for (uint32_t i = 0; i < e->nslow; i += n ? n : 1) {
        ccl_slow_part_t *part = &e->slow[i];
        part->decides = part->status == CCL_OK && part->time_s <= (1 - DECIDES) * e->result->time_s;
        if (part->decides) /* together only where none does alone */
            break;
    }
}
