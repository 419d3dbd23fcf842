/* What-if edits: a new topology without a device or a link, with a slower link, or with some of its
   constants multiplied (scale.c) or set (set.c). */
#include "topologies/topologies.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

/* A device, or all devices of a server. */
typedef struct part {
    uint32_t device, server; /* CCL_NONE: not that */
} part_t;

/* What an edit asks for, resolved against one topology. */
typedef struct change {
    part_t fail;    /* goes with its links */
    part_t degrade; /* whose links it touches */
    uint32_t a, b;  /* ends of the links it touches; CCL_NONE: none */
    bool both_ways;
    double bandwidth_Bps; /* of those links; 0: they fail, or `share` counts */
    double share;         /* of the bandwidth they had; 0: bandwidth_Bps counts */
} change_t;

static const change_t no_change = {
    .fail = {CCL_NONE, CCL_NONE}, .degrade = {CCL_NONE, CCL_NONE}, .a = CCL_NONE, .b = CCL_NONE};

static bool is_part(part_t part) {
    return part.device != CCL_NONE || part.server != CCL_NONE;
}

static bool part_has(const ccl_topology_t *topo, part_t part, uint32_t device) {
    return device == part.device ||
           (part.server != CCL_NONE && topo->devices[device].server == part.server);
}

/* ---------------------------------------------------------------- names */

static uint32_t device_by_id(const ccl_topology_t *topo, const char *id, size_t len) {
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (strncmp(topo->devices[d].id, id, len) == 0 && topo->devices[d].id[len] == 0)
            return d;
    return CCL_NONE;
}

/* "3" of "gpu:3"; false when the text is no number. */
static bool parse_index(const char *text, size_t len, uint64_t *out) {
    if (len == 0 || len > 10)
        return false;
    uint64_t index = 0;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        index = index * 10 + (uint64_t)(text[i] - '0');
    }
    *out = index;
    return true;
}

static bool starts_with(const char *text, size_t len, const char *prefix) {
    return len > strlen(prefix) && strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *const kind_prefixes[] = {"gpu:", "switch:", "nic:", "host:"};

/* Number `index` of its kind, in the topology's order; a GPU's index is its rank. */
static uint32_t device_by_index(const ccl_topology_t *topo, ccl_device_kind_t kind,
                                uint64_t index) {
    if (kind == CCL_DEVICE_GPU)
        return index < topo->nranks ? topo->rank_device[index] : CCL_NONE;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (topo->devices[d].kind == kind && index-- == 0)
            return d;
    return CCL_NONE;
}

/* "gpu:RANK", "rank:RANK", "KIND:ID", "KIND:INDEX" or an id; CCL_NONE when it names no device. */
static uint32_t device_by_name(const ccl_topology_t *topo, const char *name, size_t len) {
    uint64_t index;
    if (starts_with(name, len, "gpu:") && parse_index(name + 4, len - 4, &index))
        return device_by_index(topo, CCL_DEVICE_GPU, index);
    uint32_t device = device_by_id(topo, name, len);
    if (device == CCL_NONE && starts_with(name, len, "rank:") &&
        parse_index(name + 5, len - 5, &index))
        return device_by_index(topo, CCL_DEVICE_GPU, index);
    for (size_t k = 0; k < CCL_ARRAY_LEN(kind_prefixes) && device == CCL_NONE; k++) {
        size_t n = strlen(kind_prefixes[k]);
        if (!starts_with(name, len, kind_prefixes[k]))
            continue;
        device = device_by_id(topo, name + n, len - n);
        if (device != CCL_NONE && topo->devices[device].kind != (ccl_device_kind_t)k)
            return CCL_NONE;
        if (device == CCL_NONE && parse_index(name + n, len - n, &index))
            device = device_by_index(topo, (ccl_device_kind_t)k, index);
    }
    return device;
}

/* "server:NAME", "server:INDEX", or what names a device. */
static part_t part_by_name(const ccl_topology_t *topo, const char *name, size_t len) {
    uint64_t index;
    part_t part = {device_by_name(topo, name, len), CCL_NONE};
    if (part.device != CCL_NONE || !starts_with(name, len, "server:"))
        return part;
    name += 7;
    len -= 7;
    for (uint32_t s = 0; s < topo->nservers && part.server == CCL_NONE; s++)
        if (strlen(topo->servers[s]) == len && strncmp(topo->servers[s], name, len) == 0)
            part.server = s;
    if (part.server == CCL_NONE && parse_index(name, len, &index) && index < topo->nservers)
        part.server = (uint32_t)index;
    return part;
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

/* "nic:9" where there are eight. */
static ccl_status_t refuse_index(const ccl_topology_t *topo, const char *edit, const char *name,
                                 ccl_error_t *err) {
    const char *colon = strchr(name, ':');
    uint64_t index;
    uint32_t n = 0;
    if (!colon || !parse_index(colon + 1, strlen(colon + 1), &index))
        return CCL_OK;
    int word = (int)(colon - name);
    if (starts_with(name, strlen(name), "gpu:") || starts_with(name, strlen(name), "rank:"))
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no rank %.10s; ranks are 0 to %u",
                             colon + 1, topo->nranks - 1);
    if (starts_with(name, strlen(name), "server:")) {
        n = topo->nservers;
    } else {
        size_t k = 0;
        while (k < CCL_ARRAY_LEN(kind_prefixes) &&
               !starts_with(name, strlen(name), kind_prefixes[k]))
            k++;
        if (k == CCL_ARRAY_LEN(kind_prefixes))
            return CCL_OK;
        for (uint32_t d = 0; d < topo->ndevices; d++)
            n += topo->devices[d].kind == (ccl_device_kind_t)k;
    }
    if (n == 0)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "the cluster names no %.*s", word,
                             name);
    return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no %.*s %.10s; they are 0 to %u", word,
                         name, colon + 1, n - 1);
}

/* The nearest to what was typed, with or without its "KIND:"; NULL: none, or the very same. */
static const char *nearest(const char *name, const char *const *ids) {
    const char *colon = strchr(name, ':');
    const char *near = ccl_nearest(name, ids);
    if (!near && colon)
        near = ccl_nearest(colon + 1, ids);
    return near && (strcmp(near, name) == 0 || (colon && strcmp(near, colon + 1) == 0)) ? NULL
                                                                                        : near;
}

static ccl_status_t refuse_name(const ccl_topology_t *topo, const char *edit, const char *name,
                                ccl_error_t *err) {
    const char *colon = strchr(name, ':');
    bool server = starts_with(name, strlen(name), "server:");
    const char *kind = server ? "server" : "device";
    CCL_TRY(refuse_index(topo, edit, name, err));
    const char **ids = calloc((size_t)topo->ndevices + topo->nservers + 1, sizeof *ids);
    if (!ids)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < (server ? topo->nservers : topo->ndevices); i++)
        ids[i] = server ? topo->servers[i] : topo->devices[i].id;
    const char *near = nearest(name, ids);
    uint32_t other = colon && !server ? device_by_id(topo, colon + 1, strlen(colon + 1)) : CCL_NONE;
    ccl_status_t status;
    if (other != CCL_NONE)
        status = ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "\"%.200s\" is a %s", colon + 1,
                               ccl_i_device_kind_name(topo->devices[other].kind));
    else if (near)
        status = ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                               "no device or link \"%.200s\"; the nearest %s is \"%s\"", name, kind,
                               near);
    else
        status = ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                               "no device or link \"%.200s\"; gpu:RANK, nic:INDEX, server:INDEX, a "
                               "device id, or A-B for a link",
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
                             size_t len, ccl_i_link_ends_t *out, ccl_error_t *err) {
    change_t change = no_change;
    CCL_TRY(parse_ends(topo, edit, text, len, &change, err));
    *out = (ccl_i_link_ends_t){change.a, change.b, change.both_ways};
    return CCL_OK;
}

/* "18Gbit/s", or "50%" of what they have. */
static ccl_status_t parse_degree(const char *edit, const char *text, change_t *change,
                                 ccl_error_t *err) {
    char *end = NULL;
    double percent = strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0) {
        if (!(percent > 0) || percent > 100)
            return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                                 "\"%.40s\" is no share of a bandwidth, such as 50%%", text);
        change->share = percent / 100;
        return CCL_OK;
    }
    ccl_error_t local = CCL_ERROR_INIT;
    if (ccl_parse_rate_Bps(text, &change->bandwidth_Bps, &local) != CCL_OK)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "%s", local.text);
    return CCL_OK;
}

static ccl_status_t parse_edit(const ccl_topology_t *topo, const char *edit, change_t *change,
                               ccl_error_t *err) {
    *change = no_change;
    if (strncmp(edit, "scale:", 6) == 0 || strncmp(edit, "set:", 4) == 0)
        return CCL_OK; /* the topology has other constants already */
    if (strncmp(edit, "fail:", 5) == 0) {
        const char *name = edit + 5;
        change->fail = part_by_name(topo, name, strlen(name));
        return is_part(change->fail) ? CCL_OK
                                     : parse_ends(topo, edit, name, strlen(name), change, err);
    }
    if (strncmp(edit, "degrade:", 8) != 0)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "unknown edit; fail:gpu:RANK, fail:ID, fail:A-B, "
                             "degrade:A-B=18Gbit/s, scale:bandwidth:net=2 or set:slice=512K");
    const char *name = edit + 8, *equals = strrchr(name, '=');
    if (!equals)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "no bandwidth; degrade:A-B=18Gbit/s or degrade:nic:0=50%%");
    change->degrade = part_by_name(topo, name, (size_t)(equals - name));
    if (!is_part(change->degrade))
        CCL_TRY(parse_ends(topo, edit, name, (size_t)(equals - name), change, err));
    return parse_degree(edit, equals + 1, change, err);
}

/* ---------------------------------------------------------------- the new topology */

static ccl_status_t copy_devices(const ccl_topology_t *topo, const change_t *change,
                                 ccl_topology_builder_t *b, uint32_t *new_device,
                                 ccl_error_t *err) {
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        const ccl_device_t *device = &topo->devices[d];
        new_device[d] = CCL_NONE;
        if (part_has(topo, change->fail, d))
            continue;
        uint32_t rank = device->rank;
        for (uint32_t r = 0; device->rank != CCL_NONE && r < device->rank; r++)
            rank -= part_has(topo, change->fail, topo->rank_device[r]);
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
        bool of_part = part_has(topo, change->degrade, link->from) ||
                       part_has(topo, change->degrade, link->to);
        bool touched = of_part || (link->from == change->a && link->to == change->b) ||
                       (change->both_ways && link->from == change->b && link->to == change->a);
        double rate_Bps =
            change->share > 0 ? link->bandwidth_Bps * change->share : change->bandwidth_Bps;
        /* A device's links differ: none gets faster. */
        if (!touched || (of_part && rate_Bps > link->bandwidth_Bps))
            rate_Bps = link->bandwidth_Bps;
        new_link[l] = CCL_NONE;
        if (from == CCL_NONE || to == CCL_NONE || rate_Bps == 0)
            continue;
        CCL_TRY(ccl_topology_builder_link(b, from, to, topo->kinds[link->kind], rate_Bps,
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
    ccl_i_topology_builder_own_profile(b, topo->own_profile);
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

/* ---------------------------------------------------------------- names without an edit */

static bool touches(const ccl_topology_t *topo, const change_t *of, const ccl_link_t *link) {
    return part_has(topo, of->degrade, link->from) || part_has(topo, of->degrade, link->to) ||
           (link->from == of->a && link->to == of->b) ||
           (of->both_ways && link->from == of->b && link->to == of->a);
}

static bool select_kind(const ccl_topology_t *topo, const char *name, bool *links) {
    bool found = false;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (strcmp(topo->kinds[topo->links[l].kind], name) == 0)
            found = links[l] = true;
    return found;
}

ccl_status_t ccl_topology_select(const ccl_topology_t *topo, const char *name, bool *links,
                                 bool *ranks, ccl_error_t *err) {
    change_t of = no_change;
    if (links && select_kind(topo, name, links))
        return CCL_OK;
    of.degrade = part_by_name(topo, name, strlen(name));
    if (!is_part(of.degrade)) {
        if (!links)
            return refuse_name(topo, name, name, err);
        CCL_TRY(parse_ends(topo, name, name, strlen(name), &of, err));
    }
    bool found = false;
    for (uint32_t r = 0; ranks && r < topo->nranks; r++)
        if (part_has(topo, of.degrade, topo->rank_device[r]))
            found = ranks[r] = true;
    for (uint32_t l = 0; links && l < topo->nlinks; l++)
        if (touches(topo, &of, &topo->links[l]))
            found = links[l] = true;
    return found
               ? CCL_OK
               : ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0, "has no %s", ranks ? "GPU" : "link");
}
