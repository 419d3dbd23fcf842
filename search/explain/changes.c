/* Which changes are worth a run: those of what the critical path spends time on. */
#include "search/explain/changes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Less of the run than this is not worth a change of hardware. */
#define WORTH 0.005
/* Servers, and links, that are tried one by one: those with most of the path. */
#define ONE_BY_ONE 2
/* On larger clusters some synthesizers take long: `compare` is for those. */
#define MOST_RANKS_TO_SYNTHESIZE 64
/* Primitives of a program that is lowered again and proven, once for each change: a second or so.
 */
#define MOST_STEPS_TO_LOWER 200000

typedef struct list {
    const ccl_topology_t *topo;
    const ccl_explain_options_t *options;
    ccl_explanation_t *e;
    ccl_i_change_t *changes;
    size_t cap;
    uint32_t n;
    bool nomem;
} list_t;

static const char *text_of(list_t *list, const char *fmt, va_list args) {
    char text[700];
    vsnprintf(text, sizeof text, fmt, args);
    const char *copy = ccl_arena_strdup(&list->e->arena, text);
    list->nomem = list->nomem || !copy;
    return copy;
}

CCL_PRINTF(2, 3) static const char *text(list_t *list, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *copy = text_of(list, fmt, args);
    va_end(args);
    return copy;
}

/* A new change that leaves all as it is; a place to write to even when out of memory. */
CCL_PRINTF(3, 4)
static ccl_i_change_t *add(list_t *list, ccl_remedy_t remedy, const char *fmt, ...) {
    va_list args;
    if (!ccl_grow(&list->changes, &list->cap, list->n + 1u, sizeof *list->changes)) {
        list->nomem = true;
        return NULL;
    }
    ccl_i_change_t *c = &list->changes[list->n];
    *c = (ccl_i_change_t){.index = list->n++, .way = list->options->way};
    c->way.granularity = list->options->sim.granularity;
    c->out.remedy = remedy;
    va_start(args, fmt);
    c->out.what = text_of(list, fmt, args);
    va_end(args);
    return c;
}

CCL_PRINTF(3, 4) static void edit(list_t *list, ccl_i_change_t *c, const char *fmt, ...) {
    va_list args;
    if (!c || c->out.nedits == CCL_ARRAY_LEN(c->out.edits))
        return;
    va_start(args, fmt);
    c->out.edits[c->out.nedits++] = text_of(list, fmt, args);
    va_end(args);
}

static double of_kind(const list_t *list, uint32_t kind, ccl_path_cause_t cause) {
    return list->e->sum.kind_s[(size_t)kind * CCL_PATH_CAUSES + cause];
}

static double moving_s(const list_t *list, uint32_t kind) {
    return of_kind(list, kind, CCL_PATH_LINK) + of_kind(list, kind, CCL_PATH_SHARING);
}

static double on_resource(const list_t *list, uint32_t res) {
    const double *row = &list->e->sum.resource_s[(size_t)res * CCL_PATH_CAUSES];
    return row[CCL_PATH_LINK] + row[CCL_PATH_SHARING];
}

static bool worth(const list_t *list, double time_s) {
    return time_s > WORTH * list->e->sum.time_s;
}

/* ---------------------------------------------------------------- hardware */

static bool at_server(const ccl_topology_t *topo, uint32_t l, uint32_t server) {
    return topo->devices[topo->links[l].from].server == server ||
           topo->devices[topo->links[l].to].server == server;
}

/* Net links are no faster than what leads to their NICs: those links go with them. CCL_NONE: no
   other kind, or far wider. */
static uint32_t feeding_kind(const ccl_topology_t *topo, uint32_t net, uint32_t server) {
    double net_Bps = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (topo->links[l].kind == net && (server == CCL_NONE || at_server(topo, l, server)))
            net_Bps = fmax(net_Bps, topo->links[l].bandwidth_Bps);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        bool nic = topo->devices[link->from].kind == CCL_DEVICE_NIC ||
                   topo->devices[link->to].kind == CCL_DEVICE_NIC;
        if (nic && link->kind != net && link->bandwidth_Bps < 2 * net_Bps &&
            (server == CCL_NONE || at_server(topo, l, server)))
            return link->kind;
    }
    return CCL_NONE;
}

/* Links of one kind, of all the cluster or at one server, twice as fast. */
static void faster_links(list_t *list, uint32_t kind, uint32_t server) {
    const ccl_topology_t *topo = list->topo;
    const char *name = topo->kinds[kind];
    bool net = strcmp(name, "net") == 0;
    uint32_t feeding = net ? feeding_kind(topo, kind, server) : CCL_NONE;
    const char *with =
        feeding == CCL_NONE ? "" : text(list, " (and the %s links to them)", topo->kinds[feeding]);
    const char *what = net ? "NICs" : text(list, "%s links", name);
    const char *at = server == CCL_NONE ? "" : text(list, "@%s", topo->servers[server]);
    ccl_i_change_t *c;
    if (list->nomem)
        return;
    if (server == CCL_NONE)
        c = add(list, CCL_REMEDY_HARDWARE, "all %s%s twice as fast", what, with);
    else
        c = add(list, CCL_REMEDY_HARDWARE, "%s of server %s%s twice as fast", what,
                topo->servers[server], with);
    edit(list, c, "scale:bandwidth:%s%s=2", name, at);
    if (feeding != CCL_NONE)
        edit(list, c, "scale:bandwidth:%s%s=2", topo->kinds[feeding], at);
}

/* The servers whose links of this kind have most of the path, one by one. */
static void servers(list_t *list, uint32_t kind, uint32_t feeding) {
    const ccl_topology_t *topo = list->topo;
    double *time_s = calloc(topo->nservers + 1u, sizeof *time_s);
    if (!time_s) {
        list->nomem = true;
        return;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        if ((topo->links[l].kind != kind && topo->links[l].kind != feeding) ||
            !(on_resource(list, l) > 0))
            continue;
        uint32_t a = topo->devices[topo->links[l].from].server;
        uint32_t b = topo->devices[topo->links[l].to].server;
        if (a != CCL_NONE)
            time_s[a] += on_resource(list, l);
        if (b != CCL_NONE && b != a)
            time_s[b] += on_resource(list, l);
    }
    for (uint32_t k = 0; topo->nservers > 1 && k < ONE_BY_ONE; k++) {
        uint32_t most = 0;
        for (uint32_t s = 1; s < topo->nservers; s++)
            most = time_s[s] > time_s[most] ? s : most;
        if (!worth(list, time_s[most]))
            break;
        faster_links(list, kind, most);
        time_s[most] = 0;
    }
    free(time_s);
}

/* The links, or groups, with most of the path, one by one. */
static void resources(list_t *list, uint32_t first, uint32_t end) {
    const ccl_topology_t *topo = list->topo;
    uint32_t done[ONE_BY_ONE];
    for (uint32_t k = 0; k < ONE_BY_ONE; k++) {
        uint32_t most = CCL_NONE;
        for (uint32_t r = first; r < end; r++) {
            bool had = false;
            for (uint32_t d = 0; d < k; d++)
                had = had || done[d] == r;
            if (!had && (most == CCL_NONE || on_resource(list, r) > on_resource(list, most)))
                most = r;
        }
        if (most == CCL_NONE || !worth(list, on_resource(list, most)))
            return;
        done[k] = most;
        if (most >= topo->nlinks) {
            const char *name = topo->groups[most - topo->nlinks].name;
            ccl_i_change_t *c =
                add(list, CCL_REMEDY_HARDWARE, "group %s of links twice as fast", name);
            edit(list, c, "scale:bandwidth:group:%s=2", name);
            continue;
        }
        const char *from = topo->devices[topo->links[most].from].id;
        const char *to = topo->devices[topo->links[most].to].id;
        ccl_i_change_t *c = add(list, CCL_REMEDY_HARDWARE, "link %s -> %s twice as fast", from, to);
        edit(list, c, "scale:bandwidth:%s->%s=2", from, to);
    }
}

static void of_kinds(list_t *list) {
    const ccl_topology_t *topo = list->topo;
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        const char *name = topo->kinds[k];
        ccl_i_change_t *c;
        uint32_t feeding = strcmp(name, "net") == 0 ? feeding_kind(topo, k, CCL_NONE) : CCL_NONE;
        if (worth(list, moving_s(list, k) + (feeding == CCL_NONE ? 0 : moving_s(list, feeding)))) {
            faster_links(list, k, CCL_NONE);
            servers(list, k, feeding);
        }
        if (worth(list,
                  of_kind(list, k, CCL_PATH_LATENCY) + of_kind(list, k, CCL_PATH_TRANSPORT))) {
            c = add(list, CCL_REMEDY_HARDWARE, "latency of %s halved", name);
            edit(list, c, "scale:latency:%s=0.5", name);
        }
        if (worth(list, of_kind(list, k, CCL_PATH_OVERHEAD))) {
            c = add(list, CCL_REMEDY_HARDWARE, "overhead of primitives over %s halved", name);
            edit(list, c, "scale:overhead:%s=0.5", name);
        }
        if (worth(list, of_kind(list, k, CCL_PATH_BLOCK_RATE))) {
            c = add(list, CCL_REMEDY_HARDWARE, "thread blocks that move twice as much over %s",
                    name);
            edit(list, c, "scale:tb_rate:%s=2", name);
        }
    }
}

static void hardware(list_t *list) {
    static const struct {
        ccl_path_cause_t cause;
        const char *what, *edit;
    } whole[] = {
        {CCL_PATH_REDUCE, "reductions twice as fast", "scale:reduce_rate=2"},
        {CCL_PATH_COPY, "copies twice as fast", "scale:copy_rate=2"},
        {CCL_PATH_FLAG, "flags between thread blocks in half the time", "scale:flag=0.5"},
        {CCL_PATH_LAUNCH, "launch in half the time", "scale:launch=0.5"},
    };
    const ccl_topology_t *topo = list->topo;
    const double *cause_s = list->e->sum.cause_s;
    bool contention = false;
    of_kinds(list);
    resources(list, 0, topo->nlinks);
    resources(list, topo->nlinks, topo->nlinks + topo->ngroups);
    for (size_t i = 0; i < CCL_ARRAY_LEN(whole); i++)
        if (worth(list, cause_s[whole[i].cause]))
            edit(list, add(list, CCL_REMEDY_HARDWARE, "%s", whole[i].what), "%s", whole[i].edit);
    for (uint32_t l = 0; l < topo->nlinks; l++)
        contention = contention || topo->links[l].contention > 0;
    if (contention && worth(list, cause_s[CCL_PATH_SHARING]))
        edit(list, add(list, CCL_REMEDY_HARDWARE, "links without contention"),
             "scale:contention=0");
    if (worth(list, cause_s[CCL_PATH_BLOCK_RATE] + cause_s[CCL_PATH_REDUCE] +
                        cause_s[CCL_PATH_COPY] + cause_s[CCL_PATH_OVERHEAD])) {
        ccl_i_change_t *c =
            add(list, CCL_REMEDY_HARDWARE, "pure links: thread blocks that cost no time");
        edit(list, c, "scale:tb_rate=inf");
        edit(list, c, "scale:overhead=0");
        edit(list, c, "scale:reduce_rate=inf");
        edit(list, c, "scale:copy_rate=inf");
    }
    if (list->e->sum.wait_s[CCL_PATH_SLOT] > 0 || list->e->result->batches > 1)
        edit(list, add(list, CCL_REMEDY_SETTING, "twice as many slots in every FIFO"),
             "scale:slots=2");
}

/* ---------------------------------------------------------------- options */

static void micro_batches(list_t *list) {
    uint32_t have = list->e->result->batches;
    const double some[] = {1, have / 4.0, have / 2.0, have * 2.0, have * 4.0, have * 8.0};
    uint32_t last = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(some); i++) {
        if (some[i] < 1 || some[i] > 1e6 || some[i] != floor(some[i]) || some[i] == have ||
            some[i] <= last || list->e->result->chunk_bytes * have / some[i] < 1)
            continue;
        last = (uint32_t)some[i];
        ccl_i_change_t *c = add(list, CCL_REMEDY_PROGRAM, "%u micro-batch%s instead of %u", last,
                                last == 1 ? "" : "es", have);
        if (!c)
            return;
        c->batches = last;
        c->out.family = "micro-batches";
        c->out.options = text(list, "--batches %u", last);
    }
}

static const char *level_name(ccl_granularity_t level) {
    static const char *const names[] = {"algorithm", "stage", "task"};
    return names[level];
}
static const char *order_name(ccl_order_t order) {
    static const char *const names[] = {"step", "rr", "hpds"};
    return names[order];
}
static const char *allocation_name(ccl_allocation_t allocation) {
    static const char *const names[] = {"connection", "state", "capacity"};
    return names[allocation];
}

static void levels(list_t *list) {
    for (ccl_granularity_t g = CCL_GRANULARITY_ALGORITHM; g <= CCL_GRANULARITY_TASK; g++) {
        if (g == list->options->sim.granularity || list->e->result->batches == 1)
            continue; /* with one micro-batch levels are the same, but for how they are lowered */
        ccl_i_change_t *c = add(list, CCL_REMEDY_PROGRAM, "%s level", level_name(g));
        if (!c)
            return;
        c->way.granularity = g;
        c->out.family = "level";
        c->lower = list->options->schedule != NULL;
        c->out.options = text(list, "--granularity %s", level_name(g));
    }
}

static void one_way(list_t *list, ccl_way_t way, const char *what, bool all) {
    ccl_i_change_t *c = add(list, CCL_REMEDY_PROGRAM, "%s", what);
    if (!c)
        return;
    c->lower = true;
    c->way = way;
    c->out.family = "lowering";
    if (all)
        c->out.options =
            text(list, "--order %s --allocate %s --granularity %s", order_name(way.order),
                 allocation_name(way.allocation), level_name(way.granularity));
    else if (way.order != list->options->way.order)
        c->out.options = text(list, "--order %s", order_name(way.order));
    else
        c->out.options = text(list, "--allocate %s", allocation_name(way.allocation));
}

static void ways(list_t *list) {
    static const char *const orders[] = {"steps in the schedule's order", "steps round robin",
                                         "steps in HPDS order"};
    static const char *const allocations[] = {
        "a thread block per connection", "thread blocks by state", "thread blocks by capacity"};
    ccl_way_t have = list->options->way;
    have.granularity = list->options->sim.granularity;
    for (ccl_order_t o = CCL_ORDER_STEP; o <= CCL_ORDER_HPDS; o++)
        if (o != have.order)
            one_way(list, (ccl_way_t){o, have.allocation, have.granularity}, orders[o], false);
    for (ccl_allocation_t a = CCL_ALLOCATE_CONNECTION; a <= CCL_ALLOCATE_CAPACITY; a++)
        if (a != have.allocation)
            one_way(list, (ccl_way_t){have.order, a, have.granularity}, allocations[a], false);
    if (memcmp(&have, &ccl_way_hpds, sizeof have) != 0)
        one_way(list, ccl_way_hpds, "ResCCL's way: HPDS order, blocks by state, task level", true);
}

static void apart(list_t *list) {
    if (list->options->lower.no_fuse || list->options->sim.granularity == CCL_GRANULARITY_TASK)
        return;
    ccl_i_change_t *c =
        add(list, CCL_REMEDY_PROGRAM, "receiving and forwarding in blocks of their own");
    if (!c)
        return;
    c->lower = c->no_fuse = true;
    c->out.options = "--no-fuse";
    c->out.family = "lowering";
}

static void protocols(list_t *list) {
    bool differ = false;
    for (uint32_t i = 0; i < list->topo->ntransports; i++)
        differ = differ || list->topo->transports[i].protocol;
    for (uint32_t i = 0; differ && i < CCL_PROTOCOLS; i++) {
        const char *proto = ccl_protocol_name((ccl_protocol_t)i);
        if (strcmp(proto, list->options->program->proto) == 0)
            continue;
        ccl_i_change_t *c = add(list, CCL_REMEDY_PROGRAM, "protocol %s", proto);
        if (!c)
            return;
        c->proto = proto;
        c->out.family = "protocol";
        c->lower = list->options->schedule != NULL;
        c->out.options = text(list, "--proto %s", proto);
    }
}

static void synthesis(list_t *list) {
    uint32_t have = list->options->schedule->nchannels;
    const double channels[] = {have / 2.0, have * 2.0};
    for (size_t i = 0; i < CCL_ARRAY_LEN(channels); i++) {
        if (channels[i] < 1 || channels[i] != floor(channels[i]) || channels[i] > 64)
            continue;
        ccl_i_change_t *c = add(list, CCL_REMEDY_PROGRAM, "%.0f channel%s instead of %u",
                                channels[i], channels[i] == 1 ? "" : "s", have);
        if (!c)
            return;
        c->lower = c->resynthesize = true;
        c->channels = (uint32_t)channels[i];
        c->out.family = "channels";
        c->out.options = text(list, "--channels %u", c->channels);
    }
    for (uint32_t chunks = 2; chunks <= 4; chunks *= 2) {
        if (chunks == list->options->synth.chunks)
            continue;
        ccl_i_change_t *c =
            add(list, CCL_REMEDY_PROGRAM, "blocks cut into %u chunks a channel", chunks);
        if (!c)
            return;
        c->lower = c->resynthesize = true;
        c->chunks = chunks;
        c->out.family = "chunks";
        c->out.options = text(list, "--chunks %u", chunks);
    }
}

static void synthesizers(list_t *list) {
    const ccl_explain_options_t *o = list->options;
    const char *why;
    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++) {
        const ccl_synth_ops_t *ops = *all;
        if (ops->by_name || strcmp(ops->name, o->with) == 0 ||
            !ops->supports(list->topo, o->want, &why))
            continue;
        ccl_i_change_t *c = add(list, CCL_REMEDY_PROGRAM, "synthesized by %s", ops->name);
        if (!c)
            return;
        c->lower = c->resynthesize = true;
        c->with = ops->name;
        c->out.family = "synthesizer";
        c->way = ccl_way_choose(ops->way, (ccl_way_t){0}, 0);
        c->out.options = text(list, "--with %s", ops->name);
    }
}

ccl_status_t ccl_i_changes(const ccl_topology_t *topo, const ccl_explain_options_t *options,
                           ccl_explanation_t *e, ccl_i_change_t **out, uint32_t *n_out,
                           ccl_error_t *err) {
    list_t list = {.topo = topo, .options = options, .e = e};
    hardware(&list);
    micro_batches(&list);
    if (options->program->ngroups == 0) { /* else there is only this one (ccl_lower_options_t) */
        levels(&list);
        if (options->schedule)
            ways(&list);
        protocols(&list);
    }
    if (options->schedule)
        apart(&list);
    if (options->schedule && options->with)
        synthesis(&list);
    if (options->with && topo->nranks <= MOST_RANKS_TO_SYNTHESIZE)
        synthesizers(&list);
    for (uint32_t i = 0; options->program->nsteps > MOST_STEPS_TO_LOWER && i < list.n;) {
        if (list.changes[i].lower) {
            list.changes[i] = list.changes[--list.n];
            e->untried++;
        } else {
            i++;
        }
    }
    *out = list.changes;
    *n_out = list.n;
    return list.nomem ? ccl_fail_nomem(err) : CCL_OK;
}
