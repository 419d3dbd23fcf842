/*
 * The compact cluster form: "ccllab-cluster-1", servers by type with counts, joined by a fabric;
 * and "ccllab-server-1", one server type, which is also a cluster of one. docs/clusters.md has the
 * keys.
 */
#include "topologies/readers/compact.h"
#include "topologies/readers/constants.h"
#include "topologies/internal.h"
#include "topologies/readers/constants.h"

#include <stdlib.h>
#include <string.h>

typedef ccl_i_compact_constant_t constant_t;
typedef ccl_i_compact_constants_t constants_t;
typedef ccl_i_compact_reader_t reader_t;

ccl_status_t ccl_i_compact_wrap(reader_t *r, const ccl_json_at_t *at, ccl_status_t status,
                                const ccl_error_t *inner) {
    if (status == CCL_ERR_INPUT)
        return ccl_json_fail(at, r->err, "%s", inner->text);
    return ccl_error_set(r->err, status, inner->where, inner->line, inner->column, "%s",
                         inner->text);
}

/* ------------------------------------------------------------------ the fabric */

/* "s2:0": server 2, its port 0. */
static ccl_status_t read_port_name(reader_t *r, const ccl_json_at_t *at, bool out, bool in,
                                   uint32_t *server_out, uint32_t *port_out) {
    const char *text = NULL;
    CCL_TRY(ccl_json_string(at, true, &text, r->err));
    uint32_t value[2] = {0, 0};
    const char *p = text;
    bool good = *p++ == 's';
    for (int i = 0; i < 2 && good; i++) {
        const char *start = p;
        for (; *p >= '0' && *p <= '9' && p - start < 9; p++)
            value[i] = value[i] * 10 + (uint32_t)(*p - '0');
        good = p > start && *p++ == (i == 0 ? ':' : 0);
    }
    if (!good)
        return ccl_json_fail(
            at, r->err, "\"%.40s\" names no port; write \"s0:1\" for port 1 of server 0", text);
    if (value[0] >= r->nservers)
        return ccl_json_fail(at, r->err, "no server s%u; servers are s0 to s%zu", value[0],
                             r->nservers - 1);
    const ccl_i_server_type_t *type = &r->types[r->servers[value[0]]];
    if (value[1] >= type->nports)
        return ccl_json_fail(at, r->err, "no port %u; server s%u (%.60s) has %u", value[1],
                             value[0], type->name, type->nports);
    const ccl_i_port_t *port = &type->ports[value[1]];
    if ((out && !port->out) || (in && !port->in))
        return ccl_json_fail(at, r->err, "port %.40s does not carry data %s", text,
                             out && !port->out ? "out of its server" : "into its server");
    *server_out = value[0];
    *port_out = value[1];
    return CCL_OK;
}

static ccl_status_t read_wires(reader_t *r, const ccl_json_at_t *at) {
    static const char *const keys[] = {"from", "to", "bandwidth", "latency", "duplex", NULL};
    ccl_json_at_t list = ccl_json_member(at, "links");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, r->err));
    if (n > CCL_I_CLUSTER_MAX_LINKS / 2)
        return ccl_json_fail(&list, r->err, "%zu links, more than %llu", n,
                             (unsigned long long)CCL_I_CLUSTER_MAX_LINKS / 2);
    ccl_i_cable_t *wires = ccl_arena_alloc(&r->arena, n + 1, sizeof *wires);
    if (!wires)
        return ccl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        ccl_i_cable_t wire = {.latency_s = -1, .duplex = true};
        CCL_TRY(ccl_json_only(&item, keys, r->err));
        ccl_json_at_t from = ccl_json_member(&item, "from");
        ccl_json_at_t to = ccl_json_member(&item, "to");
        ccl_json_at_t bandwidth = ccl_json_member(&item, "bandwidth");
        ccl_json_at_t latency = ccl_json_member(&item, "latency");
        ccl_json_at_t duplex = ccl_json_member(&item, "duplex");
        CCL_TRY(ccl_json_bool(&duplex, false, &wire.duplex, r->err));
        CCL_TRY(read_port_name(r, &from, true, wire.duplex, &wire.from_server, &wire.from_port));
        CCL_TRY(read_port_name(r, &to, wire.duplex, true, &wire.to_server, &wire.to_port));
        CCL_TRY(ccl_json_rate_Bps(&bandwidth, false, &wire.bandwidth_Bps, r->err));
        CCL_TRY(ccl_json_time_s(&latency, false, &wire.latency_s, r->err));
        if (wire.from_server == wire.to_server)
            return ccl_json_fail(&item, r->err, "a link of the fabric joins two servers");
        wires[i] = wire;
    }
    r->cluster.fabric.wires = wires;
    r->cluster.fabric.nwires = (uint32_t)n;
    return CCL_OK;
}

/* A count that must be at least 1 when it is given. */
static ccl_status_t read_count(reader_t *r, const ccl_json_at_t *at, const char *key, uint32_t max,
                               uint32_t *out) {
    ccl_json_at_t member = ccl_json_member(at, key);
    CCL_TRY(ccl_json_u32(&member, false, max, out, r->err));
    if (member.value && *out == 0)
        return ccl_json_fail(&member, r->err, "0; 1 or more");
    return CCL_OK;
}

static ccl_status_t read_factor(reader_t *r, const ccl_json_at_t *at, const char *key,
                                double *out) {
    ccl_json_at_t member = ccl_json_member(at, key);
    CCL_TRY(ccl_json_number(&member, false, out, r->err));
    if (member.value && !(*out >= 1e-3 && *out <= 1e6))
        return ccl_json_fail(&member, r->err, "%.10g; 1 is non-blocking, 2 halves the uplinks",
                             *out);
    return CCL_OK;
}

static ccl_status_t read_spine(reader_t *r, const ccl_json_at_t *at) {
    static const char *const keys[] = {"count", "bandwidth", "latency", "oversubscription", NULL};
    ccl_i_fabric_t *fabric = &r->cluster.fabric;
    ccl_json_at_t spine = ccl_json_member(at, "spine");
    if (!spine.value)
        return CCL_OK;
    CCL_TRY(ccl_json_only(&spine, keys, r->err));
    fabric->spines = 1;
    CCL_TRY(read_count(r, &spine, "count", CCL_I_CLUSTER_MAX_SWITCHES, &fabric->spines));
    ccl_json_at_t bandwidth = ccl_json_member(&spine, "bandwidth");
    ccl_json_at_t latency = ccl_json_member(&spine, "latency");
    CCL_TRY(ccl_json_rate_Bps(&bandwidth, false, &fabric->uplink_Bps, r->err));
    CCL_TRY(ccl_json_time_s(&latency, false, &fabric->uplink_latency_s, r->err));
    return read_factor(r, &spine, "oversubscription", &fabric->oversubscription);
}

static ccl_status_t read_clos(reader_t *r, const ccl_json_at_t *at) {
    ccl_i_fabric_t *fabric = &r->cluster.fabric;
    const uint32_t max = CCL_I_CLUSTER_MAX_SWITCHES;
    CCL_TRY(read_count(r, at, "servers_per_leaf", max, &fabric->servers_per_leaf));
    CCL_TRY(read_count(r, at, "ports_per_leaf", (uint32_t)CCL_I_CLUSTER_MAX_LINKS,
                       &fabric->ports_per_leaf));
    CCL_TRY(read_count(r, at, "rails", max, &fabric->rails));
    CCL_TRY(read_count(r, at, "spines", max, &fabric->spines));
    CCL_TRY(read_count(r, at, "leaves_per_pod", max, &fabric->leaves_per_pod));
    CCL_TRY(read_count(r, at, "cores", max, &fabric->cores));
    CCL_TRY(read_factor(r, at, "oversubscription", &fabric->oversubscription));
    CCL_TRY(read_factor(r, at, "core_oversubscription", &fabric->core_oversubscription));
    if (!fabric->servers_per_leaf == !fabric->ports_per_leaf)
        return ccl_json_fail(at, r->err, "a clos needs one of servers_per_leaf, ports_per_leaf");
    if (fabric->rails && !fabric->servers_per_leaf)
        return ccl_json_fail(at, r->err, "rails of a clos need servers_per_leaf");
    ccl_json_at_t uplink = ccl_json_member(at, "uplink_bandwidth");
    ccl_json_at_t uplink_latency = ccl_json_member(at, "uplink_latency");
    ccl_json_at_t core = ccl_json_member(at, "core_bandwidth");
    ccl_json_at_t core_latency = ccl_json_member(at, "core_latency");
    CCL_TRY(ccl_json_rate_Bps(&uplink, false, &fabric->uplink_Bps, r->err));
    CCL_TRY(ccl_json_time_s(&uplink_latency, false, &fabric->uplink_latency_s, r->err));
    CCL_TRY(ccl_json_rate_Bps(&core, false, &fabric->core_Bps, r->err));
    CCL_TRY(ccl_json_time_s(&core_latency, false, &fabric->core_latency_s, r->err));
    if (uplink.value && fabric->oversubscription > 0)
        return ccl_json_fail(&uplink, r->err,
                             "uplink_bandwidth and oversubscription say the same; give one");
    if (core.value && fabric->core_oversubscription > 0)
        return ccl_json_fail(&core, r->err,
                             "core_bandwidth and core_oversubscription say the same; give one");
    return CCL_OK;
}

/* The fabric's kind, and that it has no keys but those of this kind. */
static ccl_status_t read_kind(reader_t *r, const ccl_json_at_t *at, ccl_i_fabric_kind_t *out) {
    static const char *const kinds[] = {"single", "rail", "clos", "direct", NULL};
    static const char *const single_keys[] = {"kind",       "bandwidth",        "latency",
                                              "contention", CCL_I_ABILITY_KEYS, NULL};
    static const char *const rail_keys[] = {"kind",  "bandwidth", "latency",          "contention",
                                            "rails", "spine",     CCL_I_ABILITY_KEYS, NULL};
    static const char *const clos_keys[] = {"kind",
                                            "bandwidth",
                                            "latency",
                                            "contention",
                                            "servers_per_leaf",
                                            "ports_per_leaf",
                                            "rails",
                                            "spines",
                                            "oversubscription",
                                            "uplink_bandwidth",
                                            "uplink_latency",
                                            "leaves_per_pod",
                                            "cores",
                                            "core_oversubscription",
                                            "core_bandwidth",
                                            "core_latency",
                                            CCL_I_ABILITY_KEYS,
                                            NULL};
    static const char *const direct_keys[] = {"kind",       "bandwidth", "latency",
                                              "contention", "links",     NULL};
    static const char *const *const allowed[] = {single_keys, rail_keys, clos_keys, direct_keys};
    const char *kind = NULL;
    ccl_json_at_t kind_at = ccl_json_member(at, "kind");
    CCL_TRY(ccl_json_string(&kind_at, true, &kind, r->err));
    size_t k = 0;
    while (kinds[k] && strcmp(kinds[k], kind) != 0)
        k++;
    if (!kinds[k]) {
        const char *nearest = ccl_nearest(kind, kinds);
        return ccl_json_fail(
            &kind_at, r->err, "unknown fabric \"%.40s\"%s%s%s; single, rail, clos or direct", kind,
            nearest ? ", did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    }
    *out = (ccl_i_fabric_kind_t)(CCL_I_FABRIC_SINGLE + k);
    return ccl_json_only(at, allowed[k], r->err);
}

/* What the fabric's switches can do, tried on one of them. */
static ccl_status_t read_fabric_able(reader_t *r, const ccl_json_at_t *at,
                                     const ccl_device_t **out) {
    uint32_t device;
    ccl_error_t inner = CCL_ERROR_INIT;
    CCL_TRY(ccl_i_compact_able(r, at, out));
    if (!*out)
        return CCL_OK;
    ccl_topology_builder_t *b = ccl_topology_builder_create("");
    if (!b)
        return ccl_fail_nomem(r->err);
    ccl_status_t status = ccl_topology_builder_device(b, "fabric", CCL_DEVICE_SWITCH, NULL,
                                                      CCL_NONE, NULL, &device, &inner);
    if (status == CCL_OK)
        status = ccl_topology_builder_abilities(b, device, *out, &inner);
    ccl_topology_builder_destroy(b);
    return status == CCL_OK ? CCL_OK : ccl_i_compact_wrap(r, at, status, &inner);
}

static ccl_status_t read_fabric(reader_t *r, const ccl_json_at_t *cluster_at) {
    ccl_i_fabric_t *fabric = &r->cluster.fabric;
    *fabric = (ccl_i_fabric_t)CCL_I_FABRIC_INIT;
    ccl_json_at_t at = ccl_json_member(cluster_at, "fabric");
    if (!at.value) {
        if (r->nservers > 1)
            return ccl_json_fail(&at, r->err, "missing: %zu servers, but nothing joins them",
                                 r->nservers);
        return CCL_OK;
    }
    CCL_TRY(ccl_json_object(&at, true, r->err));
    CCL_TRY(read_kind(r, &at, &fabric->kind));
    ccl_json_at_t bandwidth = ccl_json_member(&at, "bandwidth");
    ccl_json_at_t latency = ccl_json_member(&at, "latency");
    ccl_json_at_t contention = ccl_json_member(&at, "contention");
    CCL_TRY(ccl_json_rate_Bps(&bandwidth, false, &fabric->bandwidth_Bps, r->err));
    CCL_TRY(ccl_json_time_s(&latency, false, &fabric->latency_s, r->err));
    CCL_TRY(ccl_json_number(&contention, false, &fabric->contention, r->err));
    if (contention.value && !(fabric->contention >= 0))
        return ccl_json_fail(&contention, r->err, "%.10g is negative", fabric->contention);
    if (fabric->kind == CCL_I_FABRIC_DIRECT)
        return read_wires(r, &at);
    CCL_TRY(read_fabric_able(r, &at, &fabric->able));
    for (size_t s = 0; s < r->nservers; s++) {
        const ccl_i_server_type_t *type = &r->types[r->servers[s]];
        if (type->nports == 0)
            return ccl_json_fail(&at, r->err, "server s%zu (%.60s) has no ports to attach", s,
                                 type->name);
    }
    if (fabric->kind == CCL_I_FABRIC_RAIL) {
        CCL_TRY(read_count(r, &at, "rails", CCL_I_CLUSTER_MAX_SWITCHES, &fabric->rails));
        CCL_TRY(read_spine(r, &at));
    } else if (fabric->kind == CCL_I_FABRIC_CLOS) {
        CCL_TRY(read_clos(r, &at));
    }
    return CCL_OK;
}

/* ------------------------------------------------------------------ the cluster */

/* Read a server of the library, once, and give its place in r->types. */
static ccl_status_t library_type(reader_t *r, const ccl_json_at_t *at, const char *name,
                                 uint32_t *type_out) {
    uint32_t known = ccl_strmap_get(r->type_index, name);
    if (known != CCL_NONE) {
        *type_out = known;
        return CCL_OK;
    }
    const ccl_library_entry_t *entry = ccl_topology_library_find(name);
    if (!entry || !entry->is_server) {
        size_t n = 0;
        for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++)
            n++;
        const char **names = ccl_arena_alloc(&r->arena, n + 1, sizeof *names);
        if (!names)
            return ccl_fail_nomem(r->err);
        size_t i = 0;
        for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++)
            if (e->is_server)
                names[i++] = e->name;
        const char *nearest = ccl_nearest(name, names);
        return ccl_json_fail(at, r->err, "%s \"%.60s\"%s%s%s",
                             entry ? "no server but a cluster:" : "unknown server type", name,
                             nearest ? ", did you mean \"" : "", nearest ? nearest : "",
                             nearest ? "\"?" : "; `ccllab topology list` names them");
    }
    ccl_json_doc_t *doc = ccl_arena_alloc(&r->arena, 1, sizeof *doc);
    if (!doc || !ccl_grow(&r->docs, &r->cdocs, r->ndocs + 1, sizeof *r->docs))
        return ccl_fail_nomem(r->err);
    CCL_TRY(ccl_json_parse(entry->name, entry->text, entry->len, doc, r->err));
    r->docs[r->ndocs++] = doc;
    ccl_json_at_t root = ccl_json_root(doc);
    const char *source = NULL, *note = NULL;
    CCL_TRY(ccl_i_compact_server(r, &root, entry->name, at, &source, &note));
    if (!ccl_strmap_put(r->type_index, name, (uint32_t)(r->ntypes - 1)))
        return ccl_fail_nomem(r->err);
    *type_out = (uint32_t)(r->ntypes - 1);
    return CCL_OK;
}

static ccl_status_t read_servers(reader_t *r, const ccl_json_at_t *cluster_at) {
    static const char *const keys[] = {"type", "server", "count", NULL};
    ccl_json_at_t list = ccl_json_member(cluster_at, "servers");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, r->err));
    if (n == 0)
        return ccl_json_fail(&list, r->err, "no servers");
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&list, i);
        CCL_TRY(ccl_json_only(&item, keys, r->err));
        ccl_json_at_t type_at = ccl_json_member(&item, "type");
        ccl_json_at_t inline_at = ccl_json_member(&item, "server");
        uint32_t count = 1, type = 0;
        CCL_TRY(read_count(r, &item, "count", CCL_I_CLUSTER_MAX_SERVERS, &count));
        if (!type_at.value == !inline_at.value)
            return ccl_json_fail(&item, r->err,
                                 "give either \"type\" (a name of the library) or \"server\"");
        if (type_at.value) {
            const char *name = NULL;
            CCL_TRY(ccl_json_string(&type_at, true, &name, r->err));
            CCL_TRY(library_type(r, &type_at, name, &type));
        } else {
            const char *source = NULL, *note = NULL;
            CCL_TRY(ccl_i_compact_server(r, &inline_at, "inline", &inline_at, &source, &note));
            type = (uint32_t)(r->ntypes - 1);
        }
        if (count > CCL_I_CLUSTER_MAX_SERVERS - r->nservers)
            return ccl_json_fail(&item, r->err, "more than %u servers", CCL_I_CLUSTER_MAX_SERVERS);
        if (!ccl_grow(&r->servers, &r->cservers, r->nservers + count, sizeof *r->servers))
            return ccl_fail_nomem(r->err);
        while (count-- > 0)
            r->servers[r->nservers++] = type;
    }
    return CCL_OK;
}

static ccl_status_t add_constants(reader_t *r, ccl_topology_builder_t *b) {
    for (size_t i = 0; i < r->transports.n; i++)
        CCL_TRY(ccl_i_constants_transport(&r->transports.items[i].at, r->transports.items[i].name,
                                          b, r->err));
    for (size_t i = 0; i < r->models.n; i++)
        CCL_TRY(
            ccl_i_constants_gpu_model(&r->models.items[i].at, r->models.items[i].name, b, r->err));
    return CCL_OK;
}

/* What all types name; NULL: they do not agree, or there is none. */
static const char *own_profile(const reader_t *r) {
    const char *name = r->ntypes ? r->types[0].profile : NULL;
    for (size_t t = 1; name && t < r->ntypes; t++)
        if (!r->types[t].profile || strcmp(r->types[t].profile, name) != 0)
            return NULL;
    return name;
}

static ccl_status_t expand(reader_t *r, const ccl_json_at_t *root, const char *name,
                           const char *source, const char *note, ccl_topology_t **out) {
    r->cluster.types = r->types;
    r->cluster.ntypes = (uint32_t)r->ntypes;
    r->cluster.servers = r->servers;
    r->cluster.nservers = (uint32_t)r->nservers;
    ccl_topology_builder_t *b = ccl_topology_builder_create(name);
    if (!b)
        return ccl_fail_nomem(r->err);
    ccl_topology_builder_about(b, source, note);
    ccl_i_topology_builder_own_profile(b, own_profile(r));
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_json_at_t blame = ccl_json_member(root, "fabric");
    ccl_status_t status = add_constants(r, b);
    if (status != CCL_OK)
        goto done;
    status = ccl_i_cluster_expand(r->ctx, &r->cluster, b, &inner);
    if (status == CCL_OK)
        status = ccl_topology_builder_finish(b, out, &inner);
    if (status != CCL_OK)
        status = ccl_i_compact_wrap(r, blame.value ? &blame : root, status, &inner);
done:
    ccl_topology_builder_destroy(b);
    return status;
}

static ccl_status_t read_cluster(reader_t *r, const ccl_json_at_t *root, ccl_topology_t **out) {
    static const char *const keys[] = {"format",     "name",       "summary", "source",
                                       "note",       "chosen",     "servers", "fabric",
                                       "transports", "gpu_models", NULL};
    CCL_TRY(ccl_json_only(root, keys, r->err));
    char title[121];
    ccl_file_title(root->doc->name, title, sizeof title);
    const char *name = title, *source = "", *note = "";
    CCL_TRY(ccl_i_compact_about(r, root, &name, &source, &note));
    CCL_TRY(
        ccl_i_compact_constants(r, root, NULL, root)); /* first, so that the cluster's own win */
    CCL_TRY(read_servers(r, root));
    CCL_TRY(read_fabric(r, root));
    return expand(r, root, name, source, note, out);
}

/* @param joined  its ports meet in a switch, if it has any. */
static ccl_status_t read_lone_server(reader_t *r, const ccl_json_at_t *root, bool joined,
                                     ccl_topology_t **out) {
    const char *source = "", *note = "";
    CCL_TRY(ccl_i_compact_server(r, root, root->doc->name, root, &source, &note));
    if (!ccl_grow(&r->servers, &r->cservers, 1, sizeof *r->servers))
        return ccl_fail_nomem(r->err);
    r->servers[r->nservers++] = 0;
    r->cluster.fabric = (ccl_i_fabric_t)CCL_I_FABRIC_INIT;
    if (joined && r->types[0].nports)
        r->cluster.fabric.kind = CCL_I_FABRIC_SINGLE;
    return expand(r, root, r->types[0].name, source, note, out);
}

static ccl_status_t read_compact(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc, bool joined,
                                 ccl_topology_t **out, ccl_error_t *err) {
    reader_t r = {.ctx = ctx, .err = err};
    ccl_arena_init(&r.arena);
    r.type_index = ccl_strmap_create();
    r.transports.index = ccl_strmap_create();
    r.models.index = ccl_strmap_create();
    ccl_status_t status = CCL_OK;
    if (!r.type_index || !r.transports.index || !r.models.index) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    ccl_json_at_t root = ccl_json_root(doc);
    CCL_TRY_GOTO(ccl_json_object(&root, true, err), status, done);
    ccl_json_at_t format_at = ccl_json_member(&root, "format");
    const char *format = NULL;
    CCL_TRY_GOTO(ccl_json_string(&format_at, true, &format, err), status, done);
    if (strcmp(format, "ccllab-cluster-1") == 0)
        status = read_cluster(&r, &root, out);
    else if (strcmp(format, "ccllab-server-1") == 0)
        status = read_lone_server(&r, &root, joined, out);
    else
        status =
            ccl_json_fail(&format_at, err,
                          "unknown format \"%.60s\"; ccllab-cluster-1 or ccllab-server-1", format);
done:
    for (size_t i = 0; i < r.ndocs; i++)
        ccl_json_fini(r.docs[i]);
    free(r.docs);
    free(r.types);
    free(r.servers);
    free(r.transports.items);
    free(r.models.items);
    ccl_strmap_destroy(r.type_index);
    ccl_strmap_destroy(r.transports.index);
    ccl_strmap_destroy(r.models.index);
    ccl_arena_fini(&r.arena);
    return status;
}

ccl_status_t ccl_i_topology_read_compact(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc,
                                         ccl_topology_t **out, ccl_error_t *err) {
    return read_compact(ctx, doc, false, out, err);
}

ccl_status_t ccl_i_topology_read_server(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc,
                                        ccl_topology_t **out, ccl_error_t *err) {
    return read_compact(ctx, doc, true, out, err);
}
