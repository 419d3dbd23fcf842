/* What-if edits: a new topology without a device or a link, with a slower link, or with some of its
   constants multiplied (scale.c) or set (set.c). */
#include "topologies/topologies.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

/* What an edit asks for, resolved against one topology. */
typedef struct change {
    uint32_t fail_device; /* CCL_NONE: none */
    uint32_t a, b;        /* ends of the links it touches; CCL_NONE: none */
    bool both_ways;
    double bandwidth_Bps; /* 0: those links fail */
} change_t;

/* ---------------------------------------------------------------- names */

static uint32_t device_by_id(const ccl_topology_t *topo, const char *id, size_t len) {
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (strncmp(topo->devices[d].id, id, len) == 0 && topo->devices[d].id[len] == 0)
            return d;
    return CCL_NONE;
}

/* "3" of "gpu:3"; false when the text is no number. */
static bool parse_rank(const char *text, size_t len, uint64_t *out) {
    if (len == 0 || len > 10)
        return false;
    uint64_t rank = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        rank = rank * 10 + (uint64_t)(text[i] - '0');
    }
    *out = rank;
    return true;
}

/* "gpu:RANK", "KIND:ID" or an id; CCL_NONE when it names no device. */
static uint32_t device_by_name(const ccl_topology_t *topo, const char *name, size_t len) {
    static const char *const prefixes[] = {"gpu:", "switch:", "nic:", "host:"};
    uint64_t rank;
    if (len > 4 && strncmp(name, "gpu:", 4) == 0 && parse_rank(name + 4, len - 4, &rank))
        return rank < topo->nranks ? topo->rank_device[rank] : CCL_NONE;
    uint32_t device = device_by_id(topo, name, len);
    for (size_t k = 0; k < CCL_ARRAY_LEN(prefixes) && device == CCL_NONE; k++) {
        size_t n = strlen(prefixes[k]);
        if (len <= n || strncmp(name, prefixes[k], n) != 0)
            continue;
        device = device_by_id(topo, name + n, len - n);
        if (device != CCL_NONE && topo->devices[device].kind != (ccl_device_kind_t)k)
            device = CCL_NONE;
    }
    return device;
}

static bool linked(const ccl_topology_t *topo, uint32_t a, uint32_t b) {
    for (uint32_t i = topo->out_first[a]; i < topo->out_first[a + 1]; i++)
        if (topo->links[topo->out_links[i]].to == b)
            return true;
    return false;
}

typedef enum split { SPLIT_NONE, SPLIT_ONE, SPLIT_UNLINKED, SPLIT_SEVERAL } split_t;

/*
 * "A-B" or "A->B": ids may hold hyphens themselves, so every place that leaves two devices is
 * tried, and one with a link between them is preferred.
 */
static split_t split_ends(const ccl_topology_t *topo, const char *text, size_t len,
                          const char *arrow, change_t *change) {
    size_t width = strlen(arrow);
    split_t found = SPLIT_NONE;
    bool one_way = width == 2;
    for (size_t i = 1; i + width < len; i++) {
        if (strncmp(text + i, arrow, width) != 0 || (!one_way && text[i + 1] == '>'))
            continue;
        uint32_t a = device_by_name(topo, text, i);
        uint32_t b =
            a == CCL_NONE ? CCL_NONE : device_by_name(topo, text + i + width, len - i - width);
        if (b == CCL_NONE || a == b)
            continue;
        if (!linked(topo, a, b) && (one_way || !linked(topo, b, a))) {
            if (found == SPLIT_NONE) {
                found = SPLIT_UNLINKED;
                change->a = a;
                change->b = b;
            }
            continue;
        }
        found = found == SPLIT_ONE ? SPLIT_SEVERAL : SPLIT_ONE;
        change->a = a;
        change->b = b;
        change->both_ways = !one_way;
        if (found == SPLIT_SEVERAL)
            break;
    }
    return found;
}

/* ---------------------------------------------------------------- reading an edit */

static ccl_status_t refuse_name(const ccl_topology_t *topo, const char *edit, const char *name,
                                ccl_error_t *err) {
    uint64_t rank;
    const char *colon = strchr(name, ':');
    if (strncmp(name, "gpu:", 4) == 0 && parse_rank(name + 4, strlen(name + 4), &rank))
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no rank %.10s; ranks are 0 to %u",
                             name + 4, topo->nranks - 1);
    const char **ids = calloc((size_t)topo->ndevices + 1, sizeof *ids);
    if (!ids)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        ids[d] = topo->devices[d].id;
    const char *near = ccl_nearest(name, ids);
    if (!near && colon)
        near = ccl_nearest(colon + 1, ids);
    uint32_t other = colon ? device_by_id(topo, colon + 1, strlen(colon + 1)) : CCL_NONE;
    ccl_status_t status;
    if (other != CCL_NONE)
        status = ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "\"%.200s\" is a %s", colon + 1,
                               ccl_i_device_kind_name(topo->devices[other].kind));
    else if (near)
        status =
            ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                          "no device or link \"%.200s\"; the nearest device is \"%s\"", name, near);
    else
        status = ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                               "no device or link \"%.200s\"; gpu:RANK, a device id, or A-B for a "
                               "link",
                               name);
    free(ids);
    return status;
}

/* The links that "A-B" or "A->B" names. */
static ccl_status_t parse_ends(const ccl_topology_t *topo, const char *edit, const char *text,
                               size_t len, change_t *change, ccl_error_t *err) {
    split_t arrow = split_ends(topo, text, len, "->", change);
    split_t found = arrow == SPLIT_NONE ? split_ends(topo, text, len, "-", change) : arrow;
    if (found == SPLIT_ONE)
        return CCL_OK;
    if (found == SPLIT_SEVERAL)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "\"%.*s\" can be read as more than one pair of devices",
                             (int)(len < 200 ? len : 200), text);
    if (found == SPLIT_UNLINKED)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no link from \"%s\" to \"%s\"%s",
                             topo->devices[change->a].id, topo->devices[change->b].id,
                             arrow == SPLIT_NONE ? " or back" : "");
    char name[CCL_I_MAX_ID_BYTES * 2 + 8];
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), text);
    return refuse_name(topo, edit, name, err);
}

ccl_status_t ccl_i_edit_ends(const ccl_topology_t *topo, const char *edit, const char *text,
                             size_t len, uint32_t *a_out, uint32_t *b_out, bool *both_ways_out,
                             ccl_error_t *err) {
    change_t change = {.fail_device = CCL_NONE, .a = CCL_NONE, .b = CCL_NONE};
    CCL_TRY(parse_ends(topo, edit, text, len, &change, err));
    *a_out = change.a;
    *b_out = change.b;
    *both_ways_out = change.both_ways;
    return CCL_OK;
}

static ccl_status_t parse_edit(const ccl_topology_t *topo, const char *edit, change_t *change,
                               ccl_error_t *err) {
    *change = (change_t){.fail_device = CCL_NONE, .a = CCL_NONE, .b = CCL_NONE};
    if (strncmp(edit, "scale:", 6) == 0 || strncmp(edit, "set:", 4) == 0)
        return CCL_OK; /* the topology has other constants already */
    if (strncmp(edit, "fail:", 5) == 0) {
        const char *name = edit + 5;
        change->fail_device = device_by_name(topo, name, strlen(name));
        if (change->fail_device != CCL_NONE)
            return CCL_OK;
        return parse_ends(topo, edit, name, strlen(name), change, err);
    }
    if (strncmp(edit, "degrade:", 8) != 0)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "unknown edit; fail:gpu:RANK, fail:ID, fail:A-B, "
                             "degrade:A-B=18Gbit/s, scale:bandwidth:net=2 or set:slice=512K");
    const char *ends = edit + 8, *equals = strrchr(ends, '=');
    if (!equals)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no bandwidth; degrade:A-B=18Gbit/s");
    CCL_TRY(parse_ends(topo, edit, ends, (size_t)(equals - ends), change, err));
    ccl_error_t local = CCL_ERROR_INIT;
    if (ccl_parse_rate_Bps(equals + 1, &change->bandwidth_Bps, &local) != CCL_OK)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "%s", local.text);
    return CCL_OK;
}

/* ---------------------------------------------------------------- the new topology */

static ccl_status_t copy_devices(const ccl_topology_t *topo, const change_t *change,
                                 ccl_topology_builder_t *b, uint32_t *new_device,
                                 ccl_error_t *err) {
    uint32_t gone = CCL_NONE;
    if (change->fail_device != CCL_NONE)
        gone = topo->devices[change->fail_device].rank;
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        const ccl_device_t *device = &topo->devices[d];
        new_device[d] = CCL_NONE;
        if (d == change->fail_device)
            continue;
        uint32_t rank = device->rank;
        if (rank != CCL_NONE && gone != CCL_NONE && rank > gone)
            rank--;
        CCL_TRY(ccl_topology_builder_device(
            b, device->id, device->kind,
            device->server == CCL_NONE ? NULL : topo->servers[device->server], rank,
            device->model == CCL_NONE ? NULL : topo->gpu_models[device->model].name, &new_device[d],
            err));
        CCL_TRY(ccl_topology_builder_abilities(b, new_device[d], device, err));
    }
    return CCL_OK;
}

static ccl_status_t copy_links(const ccl_topology_t *topo, const change_t *change,
                               ccl_topology_builder_t *b, const uint32_t *new_device,
                               uint32_t *new_link, ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        uint32_t from = new_device[link->from], to = new_device[link->to];
        bool touched = (link->from == change->a && link->to == change->b) ||
                       (change->both_ways && link->from == change->b && link->to == change->a);
        new_link[l] = CCL_NONE;
        if (from == CCL_NONE || to == CCL_NONE || (touched && change->bandwidth_Bps == 0))
            continue;
        CCL_TRY(ccl_topology_builder_link(b, from, to, topo->kinds[link->kind],
                                          touched ? change->bandwidth_Bps : link->bandwidth_Bps,
                                          link->latency_s, link->lanes, link->contention, err));
        new_link[l] = n++;
    }
    return CCL_OK;
}

/* A group keeps what is left of it; without links it has nothing to limit and goes. */
static ccl_status_t copy_groups(const ccl_topology_t *topo, ccl_topology_builder_t *b,
                                const uint32_t *new_link, uint32_t *list, ccl_error_t *err) {
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        const ccl_group_t *group = &topo->groups[g];
        uint32_t n = 0;
        for (uint32_t i = 0; i < group->nlinks; i++)
            if (new_link[group->links[i]] != CCL_NONE)
                list[n++] = new_link[group->links[i]];
        if (n > 0)
            CCL_TRY(ccl_topology_builder_group(b, group->name, group->bandwidth_Bps, list, n, err));
    }
    return CCL_OK;
}

static ccl_status_t rebuild(const ccl_topology_t *topo, const change_t *change,
                            ccl_topology_builder_t *b, uint32_t *new_device, uint32_t *new_link,
                            uint32_t *list, ccl_error_t *err) {
    ccl_topology_builder_about(b, topo->source, topo->note);
    ccl_topology_builder_profile(b, topo->profile, topo->profile_about);
    for (uint32_t m = 0; m < topo->ngpu_models; m++)
        CCL_TRY(ccl_topology_builder_gpu_model(b, &topo->gpu_models[m], err));
    CCL_TRY(copy_devices(topo, change, b, new_device, err));
    CCL_TRY(copy_links(topo, change, b, new_device, new_link, err));
    CCL_TRY(copy_groups(topo, b, new_link, list, err));
    for (uint32_t t = 0; t < topo->ntransports; t++)
        CCL_TRY(ccl_topology_builder_transport(b, &topo->transports[t], err));
    return CCL_OK;
}

ccl_status_t ccl_topology_edit(const ccl_topology_t *topo, const char *edit, ccl_topology_t **out,
                               ccl_error_t *err) {
    change_t change;
    ccl_topology_t scaled = {0};
    CCL_TRY(parse_edit(topo, edit, &change, err));
    if (strncmp(edit, "scale:", 6) == 0) {
        CCL_TRY(ccl_i_topology_scale(topo, edit, &scaled, err));
        topo = &scaled;
    } else if (strncmp(edit, "set:", 4) == 0) {
        CCL_TRY(ccl_i_topology_set(topo, edit, &scaled, err));
        topo = &scaled;
    }
    ccl_status_t status = CCL_OK;
    ccl_topology_builder_t *b = ccl_topology_builder_create(topo->name);
    uint32_t *new_device = calloc(topo->ndevices, sizeof *new_device);
    uint32_t *new_link = calloc((size_t)topo->nlinks + 1, sizeof *new_link);
    uint32_t *list = calloc((size_t)topo->nlinks + 1, sizeof *list);
    if (!b || !new_device || !new_link || !list) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    CCL_TRY_GOTO(rebuild(topo, &change, b, new_device, new_link, list, err), status, done);
    ccl_error_t local = CCL_ERROR_INIT;
    status = ccl_topology_builder_finish(b, out, &local);
    if (status != CCL_OK)
        ccl_error_set(err, status, edit, 0, 0, "%s%s",
                      status == CCL_ERR_INPUT ? "leaves a broken cluster: " : "", local.text);
done:
    free(list);
    free(new_link);
    free(new_device);
    ccl_topology_builder_destroy(b);
    ccl_arena_fini(&scaled.arena);
    return status;
}
