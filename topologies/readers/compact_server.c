/*
 * One server type of the compact form ("ccllab-server-1"): devices, links, groups, ports; and the
 * constants of transports and GPU models that it brings along.
 */
#include "topologies/readers/compact.h"

#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"
#include "topologies/readers/constants.h"

typedef ccl_i_compact_constant_t constant_t;
typedef ccl_i_compact_constants_t constants_t;
typedef ccl_i_compact_reader_t reader_t;

/* ------------------------------------------------------------------ constants */

static ccl_status_t constants_add(reader_t *r, constants_t *set, const ccl_json_at_t *at,
                                  const char *what, const char *name, const char *owner,
                                  const ccl_json_at_t *blame) {
    uint32_t found = ccl_strmap_get(set->index, name);
    if (found != CCL_NONE) {
        const constant_t *other = &set->items[found];
        if (!other->owner || json_equal(other->at.value, at->value))
            return CCL_OK;
        return ccl_json_fail(
            blame, r->err,
            "server types \"%.60s\" and \"%.60s\" differ in %s \"%.60s\"; give the "
            "cluster's own under \"%s\"",
            other->owner, owner, what, name, set == &r->transports ? "transports" : "gpu_models");
    }
    if (!ccl_grow(&set->items, &set->cap, set->n + 1, sizeof *set->items) ||
        !ccl_strmap_put(set->index, name, (uint32_t)set->n))
        return ccl_fail_nomem(r->err);
    set->items[set->n++] = (constant_t){name, owner, *at};
    return CCL_OK;
}

/* Remember every member of "transports" or "gpu_models"; `blame` is where a clash is reported. */
ccl_status_t ccl_i_compact_constants(reader_t *r, const ccl_json_at_t *at, const char *owner,
                                     const ccl_json_at_t *blame) {
    static const char *const keys[] = {"transports", "gpu_models"};
    static const char *const what[] = {"transport", "gpu model"};
    constants_t *sets[] = {&r->transports, &r->models};
    for (size_t i = 0; i < 2; i++) {
        ccl_json_at_t all = ccl_json_member(at, keys[i]);
        CCL_TRY(ccl_json_object(&all, false, r->err));
        if (!all.value)
            continue;
        const char *name;
        json_t *value;
        json_object_foreach((json_t *)all.value, name, value) {
            ccl_json_at_t one = ccl_json_member(&all, name);
            CCL_TRY(constants_add(r, sets[i], &one, what[i], name, owner, blame));
        }
    }
    return CCL_OK;
}

/* ------------------------------------------------------------------ one server type */

/* What is known while one server type is read. */
typedef struct type_reader {
    reader_t *r;
    ccl_i_server_type_t *type;
    ccl_topology_builder_t *scratch; /* says what is wrong with ids and links, part by part */
    ccl_strmap_t *pairs;             /* "from>to" -> first directed link of that pair */
    uint32_t *next;                  /* [ndirected] next directed link of the same pair */
    uint32_t *last;                  /* [ndirected] of a first link: the last of its pair */
} type_reader_t;

static ccl_status_t device_named(const type_reader_t *t, const ccl_json_at_t *at,
                                 uint32_t *index_out) {
    const char *id = NULL;
    CCL_TRY(ccl_json_name(at, true, &id, t->r->err));
    uint32_t index = ccl_topology_builder_find(t->scratch, id);
    if (index == CCL_NONE) {
        const char **ids = ccl_arena_alloc(&t->r->arena, t->type->ndevices + 1, sizeof *ids);
        if (!ids)
            return ccl_fail_nomem(t->r->err);
        for (uint32_t d = 0; d < t->type->ndevices; d++)
            ids[d] = t->type->devices[d].id;
        const char *nearest = ccl_nearest(id, ids);
        return ccl_json_fail(at, t->r->err, "no device \"%.60s\" in this server%s%.60s%s", id,
                             nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                             nearest ? "\"?" : "");
    }
    *index_out = index;
    return CCL_OK;
}

/* What a switch can do, of the object's keys; NULL: nothing is said. */
ccl_status_t ccl_i_compact_able(reader_t *r, const ccl_json_at_t *at, const ccl_device_t **out) {
    ccl_i_abilities_t abilities;
    *out = NULL;
    CCL_TRY(ccl_i_constants_abilities(at, &abilities, r->err));
    if (!abilities.given)
        return CCL_OK;
    ccl_device_t *able = ccl_arena_alloc(&r->arena, 1, sizeof *able);
    if (!able)
        return ccl_fail_nomem(r->err);
    *able = abilities.like;
    if (able->types && !(able->types = ccl_arena_strdup(&r->arena, abilities.types)))
        return ccl_fail_nomem(r->err);
    *out = able;
    return CCL_OK;
}

/* The same of the device that was added last. */
static ccl_status_t read_able(type_reader_t *t, const ccl_json_at_t *at, const ccl_device_t **out) {
    ccl_error_t inner = CCL_ERROR_INIT;
    CCL_TRY(ccl_i_compact_able(t->r, at, out));
    if (!*out)
        return CCL_OK;
    ccl_status_t status =
        ccl_topology_builder_abilities(t->scratch, t->type->ndevices, *out, &inner);
    return status == CCL_OK ? CCL_OK : ccl_i_compact_wrap(t->r, at, status, &inner);
}

static ccl_status_t read_devices(type_reader_t *t, const ccl_json_at_t *at) {
    static const char *const keys[] = {"id", "kind", "model", CCL_I_ABILITY_KEYS, NULL};
    reader_t *r = t->r;
    ccl_json_at_t list = ccl_json_member(at, "devices");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, r->err));
    if (n > CCL_I_CLUSTER_MAX_DEVICES)
        return ccl_json_fail(&list, r->err, "%zu devices, more than %llu", n,
                             (unsigned long long)CCL_I_CLUSTER_MAX_DEVICES);
    t->type->devices = ccl_arena_alloc(&r->arena, n + 1, sizeof *t->type->devices);
    if (!t->type->devices)
        return ccl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        ccl_i_part_device_t device = {0};
        const char *kind = NULL;
        CCL_TRY(ccl_json_only(&item, keys, r->err));
        ccl_json_at_t id_at = ccl_json_member(&item, "id");
        ccl_json_at_t kind_at = ccl_json_member(&item, "kind");
        ccl_json_at_t model_at = ccl_json_member(&item, "model");
        CCL_TRY(ccl_json_name(&id_at, true, &device.id, r->err));
        CCL_TRY(ccl_json_string(&kind_at, true, &kind, r->err));
        CCL_TRY(ccl_json_name(&model_at, false, &device.model, r->err));
        if (!ccl_i_device_kind_parse(kind, &device.kind))
            return ccl_json_fail(&kind_at, r->err,
                                 "unknown device kind \"%.40s\"; gpu, switch, nic or host", kind);
        bool is_gpu = device.kind == CCL_DEVICE_GPU;
        if (device.model && !is_gpu)
            return ccl_json_fail(&model_at, r->err, "only gpus have a model");
        if (strlen(device.id) > CCL_I_MAX_ID_BYTES - 16) /* room for the server's name */
            return ccl_json_fail(&id_at, r->err, "id longer than %d bytes",
                                 CCL_I_MAX_ID_BYTES - 16);
        ccl_error_t inner = CCL_ERROR_INIT;
        ccl_status_t status = ccl_topology_builder_device(t->scratch, device.id, device.kind, NULL,
                                                          is_gpu ? t->type->ngpus : CCL_NONE,
                                                          device.model, NULL, &inner);
        if (status != CCL_OK)
            return ccl_i_compact_wrap(r, &id_at, status, &inner);
        CCL_TRY(read_able(t, &item, &device.able));
        t->type->ngpus += is_gpu;
        t->type->devices[t->type->ndevices++] = device;
    }
    if (t->type->ngpus == 0)
        return ccl_json_fail(&list, r->err, "no gpu among the devices");
    return CCL_OK;
}

/* Count a directed link as one more of its pair. */
static ccl_status_t note_pair(type_reader_t *t, uint32_t from, uint32_t to) {
    char key[32];
    uint32_t link = t->type->ndirected++;
    t->next[link] = CCL_NONE;
    t->last[link] = link;
    snprintf(key, sizeof key, "%u>%u", from, to);
    uint32_t first = ccl_strmap_get(t->pairs, key);
    if (first == CCL_NONE)
        return ccl_strmap_put(t->pairs, key, link) ? CCL_OK : ccl_fail_nomem(t->r->err);
    t->next[t->last[first]] = link;
    t->last[first] = link;
    return CCL_OK;
}

static ccl_status_t read_links(type_reader_t *t, const ccl_json_at_t *at) {
    static const char *const keys[] = {"from",  "to",     "kind",       "bandwidth", "latency",
                                       "lanes", "duplex", "contention", NULL};
    reader_t *r = t->r;
    ccl_json_at_t list = ccl_json_member(at, "links");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, false, &n, r->err));
    if (n > CCL_I_CLUSTER_MAX_LINKS / 2)
        return ccl_json_fail(&list, r->err, "%zu links, more than %llu", n,
                             (unsigned long long)CCL_I_CLUSTER_MAX_LINKS / 2);
    t->type->links = ccl_arena_alloc(&r->arena, n + 1, sizeof *t->type->links);
    t->next = ccl_arena_alloc(&r->arena, 2 * n + 1, sizeof *t->next);
    t->last = ccl_arena_alloc(&r->arena, 2 * n + 1, sizeof *t->last);
    if (!t->type->links || !t->next || !t->last)
        return ccl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        ccl_i_part_link_t link = {.lanes = 1, .duplex = true};
        CCL_TRY(ccl_json_only(&item, keys, r->err));
        ccl_json_at_t from = ccl_json_member(&item, "from");
        ccl_json_at_t to = ccl_json_member(&item, "to");
        ccl_json_at_t kind = ccl_json_member(&item, "kind");
        ccl_json_at_t bandwidth = ccl_json_member(&item, "bandwidth");
        ccl_json_at_t latency = ccl_json_member(&item, "latency");
        ccl_json_at_t lanes = ccl_json_member(&item, "lanes");
        ccl_json_at_t duplex = ccl_json_member(&item, "duplex");
        ccl_json_at_t contention = ccl_json_member(&item, "contention");
        CCL_TRY(device_named(t, &from, &link.from));
        CCL_TRY(device_named(t, &to, &link.to));
        CCL_TRY(ccl_json_name(&kind, true, &link.kind, r->err));
        CCL_TRY(ccl_json_rate_Bps(&bandwidth, true, &link.bandwidth_Bps, r->err));
        CCL_TRY(ccl_json_time_s(&latency, false, &link.latency_s, r->err));
        CCL_TRY(ccl_json_u32(&lanes, false, 65536, &link.lanes, r->err));
        CCL_TRY(ccl_json_bool(&duplex, false, &link.duplex, r->err));
        CCL_TRY(ccl_json_number(&contention, false, &link.contention, r->err));
        ccl_error_t inner = CCL_ERROR_INIT;
        ccl_status_t status =
            (link.duplex ? ccl_topology_builder_duplex : ccl_topology_builder_link)(
                t->scratch, link.from, link.to, link.kind, link.bandwidth_Bps, link.latency_s,
                link.lanes, link.contention, &inner);
        if (status != CCL_OK)
            return ccl_i_compact_wrap(r, &item, status, &inner);
        CCL_TRY(note_pair(t, link.from, link.to));
        if (link.duplex)
            CCL_TRY(note_pair(t, link.to, link.from));
        t->type->links[t->type->nlinks++] = link;
    }
    return CCL_OK;
}

/* Append the links of one pair ["a", "b"] to the growing list of a group. */
static ccl_status_t read_pair(type_reader_t *t, const ccl_json_at_t *at, uint32_t **links,
                              size_t *nlinks, size_t *cap) {
    reader_t *r = t->r;
    size_t n = 0;
    uint32_t ends[2];
    CCL_TRY(ccl_json_array(at, true, &n, r->err));
    if (n != 2)
        return ccl_json_fail(at, r->err, "a pair is [\"from\", \"to\"]");
    for (size_t i = 0; i < 2; i++) {
        ccl_json_at_t end = ccl_json_element(at, i);
        CCL_TRY(device_named(t, &end, &ends[i]));
    }
    char key[32];
    snprintf(key, sizeof key, "%u>%u", ends[0], ends[1]);
    uint32_t link = ccl_strmap_get(t->pairs, key);
    if (link == CCL_NONE)
        return ccl_json_fail(at, r->err, "no link from \"%.60s\" to \"%.60s\"",
                             t->type->devices[ends[0]].id, t->type->devices[ends[1]].id);
    for (; link != CCL_NONE; link = t->next[link]) {
        if (*nlinks >= CCL_I_CLUSTER_MAX_LINKS)
            return ccl_json_fail(at, r->err, "groups hold more than %llu links",
                                 (unsigned long long)CCL_I_CLUSTER_MAX_LINKS);
        if (!ccl_grow(links, cap, *nlinks + 1, sizeof **links))
            return ccl_fail_nomem(r->err);
        (*links)[(*nlinks)++] = link;
    }
    return CCL_OK;
}

static ccl_status_t read_group(type_reader_t *t, const ccl_json_at_t *at) {
    static const char *const keys[] = {"name", "links", "bandwidth", NULL};
    reader_t *r = t->r;
    ccl_i_part_group_t group = {0};
    CCL_TRY(ccl_json_only(at, keys, r->err));
    ccl_json_at_t name = ccl_json_member(at, "name");
    ccl_json_at_t bandwidth = ccl_json_member(at, "bandwidth");
    ccl_json_at_t pairs = ccl_json_member(at, "links");
    CCL_TRY(ccl_json_name(&name, true, &group.name, r->err));
    CCL_TRY(ccl_json_rate_Bps(&bandwidth, true, &group.bandwidth_Bps, r->err));
    size_t n = 0;
    CCL_TRY(ccl_json_array(&pairs, true, &n, r->err));
    if (strlen(group.name) > CCL_I_MAX_ID_BYTES - 16)
        return ccl_json_fail(&name, r->err, "name longer than %d bytes", CCL_I_MAX_ID_BYTES - 16);
    uint32_t *links = NULL;
    size_t nlinks = 0, cap = 0;
    ccl_status_t status = CCL_OK;
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t pair = ccl_json_element(&pairs, i);
        CCL_TRY_GOTO(read_pair(t, &pair, &links, &nlinks, &cap), status, done);
    }
    ccl_error_t inner = CCL_ERROR_INIT;
    status = ccl_topology_builder_group(t->scratch, group.name, group.bandwidth_Bps, links,
                                        (uint32_t)nlinks, &inner);
    if (status != CCL_OK) {
        status = ccl_i_compact_wrap(r, at, status, &inner);
        goto done;
    }
    group.links = ccl_arena_alloc(&r->arena, nlinks, sizeof *links);
    if (!group.links) {
        status = ccl_fail_nomem(r->err);
        goto done;
    }
    memcpy(group.links, links, nlinks * sizeof *links);
    group.nlinks = (uint32_t)nlinks;
    t->type->ngrouplinks += nlinks;
    t->type->groups[t->type->ngroups++] = group;
done:
    free(links);
    return status;
}

static ccl_status_t read_groups(type_reader_t *t, const ccl_json_at_t *at) {
    ccl_json_at_t list = ccl_json_member(at, "groups");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, false, &n, t->r->err));
    t->type->groups = ccl_arena_alloc(&t->r->arena, n + 1, sizeof *t->type->groups);
    if (!t->type->groups)
        return ccl_fail_nomem(t->r->err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        CCL_TRY(read_group(t, &item));
    }
    return CCL_OK;
}

static ccl_status_t read_ports(type_reader_t *t, const ccl_json_at_t *at) {
    static const char *const keys[] = {"device", "bandwidth", "latency", "direction", NULL};
    reader_t *r = t->r;
    ccl_json_at_t list = ccl_json_member(at, "ports");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, false, &n, r->err));
    if (n > CCL_I_CLUSTER_MAX_DEVICES)
        return ccl_json_fail(&list, r->err, "%zu ports, more than %llu", n,
                             (unsigned long long)CCL_I_CLUSTER_MAX_DEVICES);
    t->type->ports = ccl_arena_alloc(&r->arena, n + 1, sizeof *t->type->ports);
    if (!t->type->ports)
        return ccl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        ccl_i_port_t port = {0};
        const char *direction = "both";
        CCL_TRY(ccl_json_only(&item, keys, r->err));
        ccl_json_at_t device = ccl_json_member(&item, "device");
        ccl_json_at_t bandwidth = ccl_json_member(&item, "bandwidth");
        ccl_json_at_t latency = ccl_json_member(&item, "latency");
        ccl_json_at_t way = ccl_json_member(&item, "direction");
        CCL_TRY(device_named(t, &device, &port.device));
        CCL_TRY(ccl_json_rate_Bps(&bandwidth, true, &port.bandwidth_Bps, r->err));
        CCL_TRY(ccl_json_time_s(&latency, false, &port.latency_s, r->err));
        CCL_TRY(ccl_json_string(&way, false, &direction, r->err));
        port.out = strcmp(direction, "in") != 0;
        port.in = strcmp(direction, "out") != 0;
        if (port.in && port.out && strcmp(direction, "both") != 0)
            return ccl_json_fail(&way, r->err, "direction \"%.40s\"; both, out or in", direction);
        t->type->ports[t->type->nports++] = port;
    }
    return CCL_OK;
}

/* Remarks are free text, but they have to be text. */
ccl_status_t ccl_i_compact_about(reader_t *r, const ccl_json_at_t *at, const char **name,
                                 const char **source, const char **note) {
    const char *summary = NULL;
    ccl_json_at_t name_at = ccl_json_member(at, "name");
    ccl_json_at_t source_at = ccl_json_member(at, "source");
    ccl_json_at_t note_at = ccl_json_member(at, "note");
    ccl_json_at_t summary_at = ccl_json_member(at, "summary");
    ccl_json_at_t chosen = ccl_json_member(at, "chosen");
    CCL_TRY(ccl_json_name(&name_at, false, name, r->err));
    CCL_TRY(ccl_json_string(&source_at, false, source, r->err));
    CCL_TRY(ccl_json_string(&note_at, false, note, r->err));
    CCL_TRY(ccl_json_string(&summary_at, false, &summary, r->err));
    size_t n = 0;
    CCL_TRY(ccl_json_array(&chosen, false, &n, r->err));
    for (size_t i = 0; i < n; i++) {
        const char *line = NULL;
        ccl_json_at_t item = ccl_json_element(&chosen, i);
        CCL_TRY(ccl_json_string(&item, true, &line, r->err));
    }
    return CCL_OK;
}

/* Read a server object and append it to r->types; its constants are blamed on `blame`. */
ccl_status_t ccl_i_compact_server(reader_t *r, const ccl_json_at_t *at, const char *fallback_name,
                                  const ccl_json_at_t *blame, const char **source,
                                  const char **note) {
    static const char *const keys[] = {"format",     "name",       "summary", "source", "note",
                                       "chosen",     "devices",    "links",   "groups", "ports",
                                       "transports", "gpu_models", "profile", NULL};
    CCL_TRY(ccl_json_only(at, keys, r->err));
    ccl_i_server_type_t type = {.name = fallback_name};
    ccl_json_at_t profile = ccl_json_member(at, "profile");
    CCL_TRY(ccl_i_compact_about(r, at, &type.name, source, note));
    CCL_TRY(ccl_json_string(&profile, false, &type.profile, r->err));
    ccl_status_t status = CCL_OK;
    type_reader_t t = {.r = r, .type = &type};
    t.scratch = ccl_topology_builder_create(type.name);
    t.pairs = ccl_strmap_create();
    if (!t.scratch || !t.pairs) {
        status = ccl_fail_nomem(r->err);
        goto done;
    }
    CCL_TRY_GOTO(read_devices(&t, at), status, done);
    CCL_TRY_GOTO(read_links(&t, at), status, done);
    CCL_TRY_GOTO(read_groups(&t, at), status, done);
    CCL_TRY_GOTO(read_ports(&t, at), status, done);
    CCL_TRY_GOTO(ccl_i_compact_constants(r, at, type.name, blame), status, done);
    if (!ccl_grow(&r->types, &r->ctypes, r->ntypes + 1, sizeof *r->types)) {
        status = ccl_fail_nomem(r->err);
        goto done;
    }
    r->types[r->ntypes++] = type;
done:
    ccl_strmap_destroy(t.pairs);
    ccl_topology_builder_destroy(t.scratch);
    return status;
}
