/*
 * What-if edits that multiply one constant: "scale:QUANTITY[:WHERE]=FACTOR".
 *
 * Links and groups: bandwidth, latency, contention; transports: latency, overhead, tb_rate, slots;
 * GPU models: overhead, reduce_rate, copy_rate, flag, launch.
 */
#include "topologies/topologies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

typedef enum quantity {
    BANDWIDTH,
    LATENCY,
    CONTENTION,
    OVERHEAD,
    TB_RATE,
    SLOTS,
    REDUCE_RATE,
    COPY_RATE,
    FLAG,
    LAUNCH
} quantity_t;

static const char *const names[] = {"bandwidth", "latency", "contention",  "overhead",
                                    "tb_rate",   "slots",   "reduce_rate", "copy_rate",
                                    "flag",      "launch",  NULL};

/* What an edit names; CCL_NONE: not given. */
typedef struct where {
    quantity_t quantity;
    double factor;
    uint32_t kind, server, group, a, b;
    bool both_ways;
} where_t;

static uint32_t find_name(const char *const *list, uint32_t n, const char *text, size_t len) {
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(list[i], text, len) == 0 && list[i][len] == 0)
            return i;
    return CCL_NONE;
}

static ccl_status_t parse_factor(const char *edit, const char *text, where_t *at,
                                 ccl_error_t *err) {
    char *end = NULL;
    at->factor = strtod(text, &end);
    bool rate = at->quantity == TB_RATE || at->quantity == REDUCE_RATE || at->quantity == COPY_RATE;
    bool positive = rate || at->quantity == BANDWIDTH || at->quantity == SLOTS;
    if (end == text || *end || isnan(at->factor) || at->factor < 0 ||
        (positive && at->factor == 0) || (!rate && isinf(at->factor)) ||
        (isfinite(at->factor) && at->factor > 1e12))
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "factor \"%.40s\"; a number %s, such as 2%s", text,
                             positive ? "above 0" : "from 0 on", rate ? ", or inf" : "");
    return CCL_OK;
}

/* "net", "net@s0", "group:NAME", "A-B", "A->B". */
static ccl_status_t parse_where(const ccl_topology_t *topo, const char *edit, const char *text,
                                size_t len, where_t *at, ccl_error_t *err) {
    bool links = at->quantity <= CONTENTION;
    const char *sign = memchr(text, '@', len);
    size_t kind_len = sign ? (size_t)(sign - text) : len;
    if (at->quantity >= REDUCE_RATE)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "%s is of all GPU models: scale %s=FACTOR", names[at->quantity],
                             names[at->quantity]);
    at->kind = find_name(topo->kinds, topo->nkinds, text, kind_len);
    if (at->kind != CCL_NONE && !sign)
        return CCL_OK;
    if (at->kind != CCL_NONE && links) {
        at->server = find_name(topo->servers, topo->nservers, sign + 1, len - kind_len - 1);
        if (at->server == CCL_NONE)
            return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no server \"%.*s\"",
                                 (int)(len - kind_len - 1), sign + 1);
        return CCL_OK;
    }
    if (!links)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "no kind of link \"%.*s\" (of transports only the kind counts)",
                             (int)len, text);
    at->kind = CCL_NONE;
    for (uint32_t g = 0; len > 6 && strncmp(text, "group:", 6) == 0 && g < topo->ngroups; g++)
        if (strncmp(topo->groups[g].name, text + 6, len - 6) == 0 &&
            topo->groups[g].name[len - 6] == 0 && at->quantity == BANDWIDTH) {
            at->group = g;
            return CCL_OK;
        }
    ccl_i_link_ends_t ends;
    CCL_TRY(ccl_i_edit_ends(topo, edit, text, len, &ends, err));
    at->a = ends.a;
    at->b = ends.b;
    at->both_ways = ends.both_ways;
    return CCL_OK;
}

static ccl_status_t parse(const ccl_topology_t *topo, const char *edit, where_t *at,
                          ccl_error_t *err) {
    const char *text = edit + strlen("scale:"), *equals = strrchr(text, '=');
    *at = (where_t){
        .kind = CCL_NONE, .server = CCL_NONE, .group = CCL_NONE, .a = CCL_NONE, .b = CCL_NONE};
    if (!equals)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "no factor; QUANTITY[:WHERE]=FACTOR, such as bandwidth:net=2");
    size_t len = strcspn(text, ":=");
    uint32_t q = find_name(names, CCL_ARRAY_LEN(names) - 1, text, len);
    if (q == CCL_NONE) {
        char word[40];
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), text);
        const char *near = ccl_nearest(word, names);
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "nothing called \"%s\" to scale; %s%s%sbandwidth, latency, "
                             "contention, overhead, tb_rate, slots, reduce_rate, copy_rate, flag, "
                             "launch",
                             word, near ? "nearest is " : "", near ? near : "",
                             near ? "; there are " : "");
    }
    at->quantity = (quantity_t)q;
    CCL_TRY(parse_factor(edit, equals + 1, at, err));
    if (text[len] == '=')
        return CCL_OK;
    return parse_where(topo, edit, text + len + 1, (size_t)(equals - text) - len - 1, at, err);
}

/* ---------------------------------------------------------------- what it multiplies */

static bool touches(const ccl_topology_t *topo, const where_t *at, uint32_t l) {
    const ccl_link_t *link = &topo->links[l];
    if (at->group != CCL_NONE)
        return false;
    if (at->a != CCL_NONE)
        return (link->from == at->a && link->to == at->b) ||
               (at->both_ways && link->from == at->b && link->to == at->a);
    if (at->kind != CCL_NONE && link->kind != at->kind)
        return false;
    return at->server == CCL_NONE || topo->devices[link->from].server == at->server ||
           topo->devices[link->to].server == at->server;
}

static void scale_links(const ccl_topology_t *topo, const where_t *at, ccl_link_t *links) {
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        if (!touches(topo, at, l))
            continue;
        if (at->quantity == BANDWIDTH)
            links[l].bandwidth_Bps *= at->factor;
        else if (at->quantity == LATENCY)
            links[l].latency_s *= at->factor;
        else if (at->quantity == CONTENTION)
            links[l].contention *= at->factor;
    }
}

/* A group goes with its links when all of them are meant. */
static void scale_groups(const ccl_topology_t *topo, const where_t *at, ccl_group_t *groups) {
    for (uint32_t g = 0; at->quantity == BANDWIDTH && g < topo->ngroups; g++) {
        bool all = topo->groups[g].nlinks > 0;
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            all = all && touches(topo, at, topo->groups[g].links[i]);
        if (all || g == at->group)
            groups[g].bandwidth_Bps *= at->factor;
    }
}

static uint32_t scaled_slots(uint32_t slots, double factor) {
    double x = floor(slots * factor + 0.5);
    return x < 1 ? 1 : x > 1e9 ? 1000000000u : (uint32_t)x;
}

static void scale_spec(const where_t *at, const char *edit, ccl_transport_spec_t *spec) {
    ccl_transport_t *v = &spec->value;
    if (at->quantity == LATENCY && (spec->given & CCL_TRANSPORT_LATENCY))
        v->latency_s *= at->factor;
    if (at->quantity == OVERHEAD && (spec->given & CCL_TRANSPORT_OVERHEAD))
        v->overhead_s *= at->factor;
    if (at->quantity == SLOTS && (spec->given & CCL_TRANSPORT_SLOTS)) {
        v->slots = scaled_slots(v->slots, at->factor);
        spec->slots_from = edit;
    }
    if (at->quantity == TB_RATE && (spec->given & CCL_TRANSPORT_TB_RATE)) {
        v->tb_rate_Bps *= at->factor;
        if (isinf(v->tb_rate_Bps)) /* no limit is what a key that is not given means */
            spec->given &= ~(uint32_t)CCL_TRANSPORT_TB_RATE;
    }
}

/* Slots have a default that can be multiplied: it is written down where it was not. */
static uint32_t write_slots(const ccl_topology_t *topo, const where_t *at,
                            ccl_transport_spec_t *specs, uint32_t n) {
    for (uint32_t k = 0; at->quantity == SLOTS && k < topo->nkinds; k++) {
        uint32_t i = 0;
        if (at->kind != CCL_NONE && at->kind != k)
            continue;
        while (i < n && (specs[i].protocol || strcmp(specs[i].kind, topo->kinds[k]) != 0))
            i++;
        if (i == n)
            specs[n++] = (ccl_transport_spec_t){.kind = topo->kinds[k],
                                                .value = ccl_transport_default(topo->kinds[k])};
        if (!(specs[i].given & CCL_TRANSPORT_SLOTS))
            specs[i].value.slots = ccl_transport_default(topo->kinds[k]).slots;
        specs[i].given |= CCL_TRANSPORT_SLOTS;
    }
    return n;
}

static void scale_model(const where_t *at, ccl_gpu_model_t *model) {
    if (at->quantity == OVERHEAD && at->kind == CCL_NONE) {
        model->overhead_s *= at->factor;
    } else if (at->quantity == REDUCE_RATE) {
        model->reduce_rate_Bps *= at->factor;
    } else if (at->quantity == COPY_RATE) {
        model->copy_rate_Bps *= at->factor;
    } else if (at->quantity == FLAG) {
        model->flag_s *= at->factor;
    } else if (at->quantity == LAUNCH) {
        model->launch_s *= at->factor;
        for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
            model->protocol_launch_s[p] *= at->factor;
    }
}

ccl_status_t ccl_i_topology_scale(const ccl_topology_t *topo, const char *edit, ccl_topology_t *out,
                                  ccl_error_t *err) {
    where_t at;
    ccl_arena_t arena = {0};
    CCL_TRY(parse(topo, edit, &at, err));
    ccl_link_t *links = ccl_arena_alloc(&arena, topo->nlinks + 1u, sizeof *links);
    ccl_group_t *groups = ccl_arena_alloc(&arena, topo->ngroups + 1u, sizeof *groups);
    ccl_transport_spec_t *specs =
        ccl_arena_alloc(&arena, (size_t)topo->ntransports + topo->nkinds + 1, sizeof *specs);
    ccl_gpu_model_t *models = ccl_arena_alloc(&arena, topo->ngpu_models + 1u, sizeof *models);
    if (!links || !groups || !specs || !models) {
        ccl_arena_fini(&arena);
        return ccl_fail_nomem(err);
    }
    memcpy(links, topo->links, topo->nlinks * sizeof *links);
    memcpy(groups, topo->groups, topo->ngroups * sizeof *groups);
    memcpy(specs, topo->transports, topo->ntransports * sizeof *specs);
    memcpy(models, topo->gpu_models, topo->ngpu_models * sizeof *models);
    uint32_t nspecs = write_slots(topo, &at, specs, topo->ntransports);
    scale_links(topo, &at, links);
    scale_groups(topo, &at, groups);
    for (uint32_t i = 0; i < nspecs; i++)
        if (at.a == CCL_NONE && at.server == CCL_NONE && at.group == CCL_NONE &&
            (at.kind == CCL_NONE || strcmp(specs[i].kind, topo->kinds[at.kind]) == 0))
            scale_spec(&at, edit, &specs[i]);
    for (uint32_t i = 0; i < topo->ngpu_models; i++)
        scale_model(&at, &models[i]);
    *out = *topo;
    out->links = links;
    out->groups = groups;
    out->transports = specs;
    out->ntransports = nspecs;
    out->gpu_models = models;
    out->arena = arena;
    return CCL_OK;
}
