/* A cluster at a glance: devices, servers, links by kind, groups, transports, routes. */
#include "report/clusters/alike.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_topology_tables[] = {"devices", "links", "groups", "routes", NULL};

enum { MAX_ROWS = 40, ROUTE_SOURCES = 64 };

/* ---------------------------------------------------------------- rows */

typedef struct root {
    const ccl_topology_t *topo; /* first */
    ccl_i_alikes_t links_alike;
    const ccl_route_class_t *classes;
    uint32_t nclasses;
    ccl_text_t *content; /* of the server at hand */
    const char *name, *source, *note;
    uint32_t nranks, nlinks, route_sources;
    uint32_t kinds[CCL_I_DEVICE_KINDS];
} root_t;

typedef struct server_row {
    const char *name, *content;
} server_row_t;

typedef struct device_row {
    const char *id, *kind, *server, *model;
    uint32_t rank;
} device_row_t;

/** A link, or links that are alike. */
typedef struct link_row {
    const char *from, *to, *kind;
    double bandwidth_Bps, latency_s, contention;
    uint32_t links, lanes;
    char example[300];
} link_row_t;

typedef struct group_row {
    const char *name;
    uint32_t links;
    double bandwidth_Bps;
    char first[300];
} group_row_t;

typedef struct member_row {
    const char *group, *from, *to;
    double bandwidth_Bps;
} member_row_t;

typedef struct transport_row {
    const char *kind, *protocol, *mechanism;
    ccl_transport_t t; /* its values, and those of the kind that it leaves alone */
} transport_row_t;

typedef struct model_row {
    ccl_gpu_model_t m; /* launches of protocols: NAN where m.launch_s holds */
    const char *some_vendor;
    uint32_t some_sms;
    char launches[80]; /* all of them, "6.60, LL 3.38" */
} model_row_t;

typedef struct route_row {
    ccl_route_class_t of;
    bool direct; /* there is a route without a relaying GPU */
    char links[40], rates_GBps[140], latencies_us[140]; /* "25.00" or "12.50..25.00" */
} route_row_t;

static uint64_t count_servers(const void *row) {
    return ((const root_t *)row)->topo->nservers;
}

static const void *server_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    server_row_t *out = scratch;

    root->content->len = 0;
    ccl_text_add(root->content, "", 0);
    ccl_i_server_content(root->topo, (uint32_t)i, root->content);
    *out = (server_row_t){root->topo->servers[i], root->content->data ? root->content->data : ""};
    return out;
}

static uint64_t count_devices(const void *row) {
    return ((const root_t *)row)->topo->ndevices;
}

static const void *device_at(const void *row, uint64_t i, void *scratch) {
    const ccl_topology_t *topo = ((const root_t *)row)->topo;
    const ccl_device_t *d = &topo->devices[i];
    device_row_t *out = scratch;

    *out = (device_row_t){d->id, ccl_i_device_kinds[d->kind],
                          d->server == CCL_NONE ? NULL : topo->servers[d->server],
                          d->model == CCL_NONE ? NULL : topo->gpu_models[d->model].name, d->rank};
    return out;
}

static const void *link_of(const ccl_topology_t *topo, uint32_t link, uint32_t alike,
                           link_row_t *out) {
    const ccl_link_t *l = &topo->links[link];

    *out = (link_row_t){topo->devices[l->from].id,
                        topo->devices[l->to].id,
                        topo->kinds[l->kind],
                        l->bandwidth_Bps,
                        l->latency_s,
                        l->contention,
                        alike,
                        l->lanes,
                        ""};
    ccl_i_link_name(topo, link, out->example, sizeof(out->example));
    return out;
}

static uint64_t count_links(const void *row) {
    return ((const root_t *)row)->topo->nlinks;
}

static const void *link_at(const void *row, uint64_t i, void *scratch) {
    return link_of(((const root_t *)row)->topo, (uint32_t)i, 1, scratch);
}

static uint64_t count_alike(const void *row) {
    return ((const root_t *)row)->links_alike.n;
}

/** For people the first few do. */
static uint64_t count_first_alike(const void *row) {
    uint64_t n = count_alike(row);

    return n < MAX_ROWS ? n : MAX_ROWS;
}

static const void *alike_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    const ccl_i_alike_t *alike = &root->links_alike.rows[i];

    return link_of(root->topo, alike->first, alike->count, scratch);
}

static uint64_t count_groups(const void *row) {
    return ((const root_t *)row)->topo->ngroups;
}

static uint64_t count_first_groups(const void *row) {
    uint64_t n = count_groups(row);

    return n < MAX_ROWS ? n : MAX_ROWS;
}

static const void *group_at(const void *row, uint64_t i, void *scratch) {
    const ccl_topology_t *topo = ((const root_t *)row)->topo;
    const ccl_group_t *g = &topo->groups[i];
    group_row_t *out = scratch;

    *out = (group_row_t){g->name, g->nlinks, g->bandwidth_Bps, ""};
    if (g->nlinks)
        ccl_i_link_name(topo, g->links[0], out->first, sizeof(out->first));
    return out;
}

/** One row per link of a group. */
static uint64_t count_members(const void *row) {
    const ccl_topology_t *topo = ((const root_t *)row)->topo;
    uint64_t n = 0;

    for (uint32_t g = 0; g < topo->ngroups; g++)
        n += topo->groups[g].nlinks;
    return n;
}

static const void *member_at(const void *row, uint64_t i, void *scratch) {
    const ccl_topology_t *topo = ((const root_t *)row)->topo;
    const ccl_group_t *g = topo->groups;
    member_row_t *out = scratch;
    const ccl_link_t *l;

    for (; i >= g->nlinks; g++)
        i -= g->nlinks;
    l = &topo->links[g->links[i]];
    *out = (member_row_t){g->name, topo->devices[l->from].id, topo->devices[l->to].id,
                          g->bandwidth_Bps};
    return out;
}

static uint64_t count_transports(const void *row) {
    return ((const root_t *)row)->topo->ntransports;
}

static const void *transport_at(const void *row, uint64_t i, void *scratch) {
    const ccl_topology_t *topo = ((const root_t *)row)->topo;
    const ccl_transport_spec_t *spec = &topo->transports[i];
    ccl_transport_t t = ccl_model_transport(topo, spec->kind, spec->protocol);
    transport_row_t *out = scratch;

    *out = (transport_row_t){spec->kind, spec->protocol, ccl_mechanism_name(t.mechanism), t};
    return out;
}

static uint64_t count_models(const void *row) {
    return ((const root_t *)row)->topo->ngpu_models;
}

static const void *model_at(const void *row, uint64_t i, void *scratch) {
    const ccl_gpu_model_t *m = &((const root_t *)row)->topo->gpu_models[i];
    model_row_t *out = scratch;
    *out = (model_row_t){*m, m->vendor[0] ? m->vendor : NULL, m->sms ? m->sms : CCL_NONE, ""};
    int n = snprintf(out->launches, sizeof(out->launches), "%.2f", m->launch_s * 1e6);
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++) {
        double own_s = m->launches & 1u << p ? m->protocol_launch_s[p] : NAN;
        out->m.protocol_launch_s[p] = own_s;
        if (!isnan(own_s))
            n += snprintf(out->launches + n, sizeof(out->launches) - (size_t)n, ", %s %.2f",
                          ccl_protocol_name((ccl_protocol_t)p), own_s * 1e6);
    }
    return out;
}

static void range(const char *low, const char *high, char *out, size_t out_len) {
    snprintf(out, out_len, strcmp(low, high) ? "%s..%s" : "%s", low, high);
}

static uint64_t count_routes(const void *row) {
    return ((const root_t *)row)->nclasses;
}

static const void *route_at(const void *row, uint64_t i, void *scratch) {
    const ccl_route_class_t *c = &((const root_t *)row)->classes[i];
    route_row_t *out = scratch;
    char a[64], b[64];

    *out = (route_row_t){*c, c->transport != NULL, "", "", ""};
    range(ccl_i_index(c->min_links, a, sizeof(a)), ccl_i_index(c->max_links, b, sizeof(b)),
          out->links, sizeof(out->links));
    range(ccl_i_GBps(c->min_Bps, a, sizeof(a)), ccl_i_GBps(c->max_Bps, b, sizeof(b)),
          out->rates_GBps, sizeof(out->rates_GBps));
    range(ccl_i_us(c->min_latency_s, a, sizeof(a)), ccl_i_us(c->max_latency_s, b, sizeof(b)),
          out->latencies_us, sizeof(out->latencies_us));
    return out;
}

static const void *direct_route_at(const void *row, uint64_t i, void *scratch) {
    return ((const root_t *)row)->classes[i].transport ? route_at(row, i, scratch) : NULL;
}

/* ---------------------------------------------------------------- what they hold */

static const ccl_i_described_t kinds_record = {
    .fields = (const ccl_i_field_t[]){{"gpu", CCL_I_AT(root_t, kinds[CCL_DEVICE_GPU])},
                                      {"switch", CCL_I_AT(root_t, kinds[CCL_DEVICE_SWITCH])},
                                      {"nic", CCL_I_AT(root_t, kinds[CCL_DEVICE_NIC])},
                                      {"host", CCL_I_AT(root_t, kinds[CCL_DEVICE_HOST])},
                                      {0}}};
static const ccl_i_described_t server_record = {
    .size = sizeof(server_row_t),
    .fields =
        (const ccl_i_field_t[]){{"name", CCL_I_AT(server_row_t, name)},
                                {"content", CCL_I_AT(server_row_t, content), "\"8 x H20, 4 nics\""},
                                {0}}};
#define AT(member) CCL_I_AT(device_row_t, member)
static const ccl_i_described_t device_record = {
    .size = sizeof(device_row_t),
    .fields = (const ccl_i_field_t[]){{"id", AT(id)},
                                      {"kind", AT(kind)},
                                      {"server", AT(server), .null = "of none"},
                                      {"rank", AT(rank), .null = "no GPU"},
                                      {"model", AT(model), .null = "not named"},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(link_row_t, member)
static const ccl_i_described_t alike_record = {
    .size = sizeof(link_row_t),
    .fields = (const ccl_i_field_t[]){{"kind", AT(kind)},
                                      {"links", AT(links), "directed, that are alike"},
                                      {"bandwidth_Bps", AT(bandwidth_Bps)},
                                      {"latency_s", AT(latency_s)},
                                      {"lanes", AT(lanes)},
                                      {"contention", AT(contention)},
                                      {"example", AT(example), "the first: \"from->to\""},
                                      {0}}};
static const ccl_i_described_t link_record = {
    .size = sizeof(link_row_t),
    .fields = (const ccl_i_field_t[]){{"from", AT(from)},
                                      {"to", AT(to)},
                                      {"kind", AT(kind)},
                                      {"bandwidth_Bps", AT(bandwidth_Bps)},
                                      {"latency_s", AT(latency_s)},
                                      {"lanes", AT(lanes)},
                                      {"contention", AT(contention)},
                                      {0}}};
#undef AT
static const ccl_i_described_t group_record = {
    .size = sizeof(group_row_t),
    .fields = (const ccl_i_field_t[]){
        {"name", CCL_I_AT(group_row_t, name)},
        {"links", CCL_I_AT(group_row_t, links), "that share its capacity"},
        {"bandwidth_Bps", CCL_I_AT(group_row_t, bandwidth_Bps), "of them together"},
        {"first", CCL_I_AT(group_row_t, first), .hidden = true},
        {0}}};
#define AT(member) CCL_I_AT(member_row_t, member)
static const ccl_i_described_t member_record = {
    .size = sizeof(member_row_t),
    .fields = (const ccl_i_field_t[]){{"group", AT(group)},
                                      {"bandwidth_Bps", AT(bandwidth_Bps)},
                                      {"from", AT(from)},
                                      {"to", AT(to)},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(transport_row_t, member)
#define NO_LIMIT "no limit"
#define NO_OWN "as launch_s"
static const ccl_i_described_t transport_record = {
    .size = sizeof(transport_row_t),
    .fields = (const ccl_i_field_t[]){
        {"kind", AT(kind), "of links"},
        {"protocol", AT(protocol), .null = "all"},
        {"overhead_s", AT(t.overhead_s), "of a primitive"},
        {"latency_s", AT(t.latency_s), "of a slice"},
        {"tb_rate_Bps", AT(t.tb_rate_Bps), "of a thread block", .null = NO_LIMIT},
        {"slice_bytes", AT(t.slice_bytes), .null = NO_LIMIT},
        {"slices", AT(t.slices), "of a slot"},
        {"piece_bytes", AT(t.piece_bytes), .null = NO_LIMIT},
        {"slots", AT(t.slots), "of a FIFO"},
        {"direct", AT(t.direct), "writes where the data belongs"},
        {"holds_tb", AT(t.holds_tb), "the thread block stays until data has arrived"},
        {"mechanism", AT(mechanism), "that moves the data"},
        {"copy_in_Bps", AT(t.copy_in_Bps), .null = NO_LIMIT},
        {"copy_out_Bps", AT(t.copy_out_Bps), .null = NO_LIMIT},
        {"wire", AT(t.wire), "bytes on links per byte of data"},
        {"message_s", AT(t.message_s), "of its narrowest link, besides a message's bytes"},
        {"message_bytes", AT(t.message_bytes), "most data of a message", .null = NO_LIMIT},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(model_row_t, member)
static const ccl_i_described_t model_record = {
    .size = sizeof(model_row_t),
    .fields = (const ccl_i_field_t[]){
        {"name", AT(m.name)},
        {"vendor", AT(m.vendor), "empty: not given"},
        {"sms", AT(m.sms), "the most thread blocks; 0: not given"},
        {"copy_rate_Bps", AT(m.copy_rate_Bps), .null = NO_LIMIT},
        {"reduce_rate_Bps", AT(m.reduce_rate_Bps), .null = NO_LIMIT},
        {"overhead_s", AT(m.overhead_s), "of a copy or reduction"},
        {"flag_s", AT(m.flag_s), "from a primitive's end to blocks that depend on it"},
        {"launch_s", AT(m.launch_s), "of a protocol without one of its own"},
        {"launch_simple_s", AT(m.protocol_launch_s[CCL_PROTOCOL_SIMPLE]), .null = NO_OWN},
        {"launch_ll_s", AT(m.protocol_launch_s[CCL_PROTOCOL_LL]), .null = NO_OWN},
        {"launch_ll128_s", AT(m.protocol_launch_s[CCL_PROTOCOL_LL128]), .null = NO_OWN},
        {"launches", AT(launches), .hidden = true},
        {"some_vendor", AT(some_vendor), .hidden = true},
        {"some_sms", AT(some_sms), .null = "not given", .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(route_row_t, member)
#define ROUTE_FIELDS(...)                                                                          \
    {"transport", AT(of.transport), .null = "no route without a relaying GPU"},                    \
        {"pairs", AT(of.pairs), "ordered, of GPUs"}, {"min_links", AT(of.min_links), __VA_ARGS__}, \
        {"max_links", AT(of.max_links), __VA_ARGS__},                                              \
        {"min_Bps", AT(of.min_Bps), "bottleneck", __VA_ARGS__},                                    \
        {"max_Bps", AT(of.max_Bps), __VA_ARGS__},                                                  \
        {"min_latency_s", AT(of.min_latency_s), __VA_ARGS__},                                      \
        {"max_latency_s", AT(of.max_latency_s), __VA_ARGS__}, {                                    \
        "max_width", AT(of.max_width), "routes of equal cost", __VA_ARGS__                         \
    }
static const ccl_i_described_t route_record = {
    .size = sizeof(route_row_t),
    .fields = (const ccl_i_field_t[]){ROUTE_FIELDS(.when = CCL_I_WHEN(route_row_t, direct)),
                                      {"links", AT(links), .hidden = true},
                                      {"rates_GBps", AT(rates_GBps), .hidden = true},
                                      {"latencies_us", AT(latencies_us), .hidden = true},
                                      {0}}};
/** In CSV a class without routes has its columns, too. */
static const ccl_i_described_t class_record = {
    .size = sizeof(route_row_t), .fields = (const ccl_i_field_t[]){ROUTE_FIELDS(.when = 0), {0}}};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_topology_summary = {
    "topology-summary", "ccllab topology show", "a cluster at a glance",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"name", AT(name)},
            {"source", AT(source), "where the numbers come from; empty: not given"},
            {"note", AT(note), .null = "none"},
            {"nranks", AT(nranks)},
            {"devices", CCL_I_PART_OF(kinds_record), "how many of each kind"},
            {"servers", CCL_I_LIST_OF(server_record, count_servers, server_at)},
            {"links", AT(nlinks), "directed"},
            {"link_classes", CCL_I_LIST_OF(alike_record, count_alike, alike_at),
             "links with the same kind and constants"},
            {"in_switch",
             CCL_I_LIST_OF(ccl_i_switch_record, ccl_i_switch_classes, ccl_i_switch_class)},
            {"groups", CCL_I_LIST_OF(group_record, count_groups, group_at)},
            {"transports", CCL_I_LIST_OF(transport_record, count_transports, transport_at)},
            {"gpu_models", CCL_I_LIST_OF(model_record, count_models, model_at)},
            {"route_sources", AT(route_sources), "GPUs whose routes to all others were counted"},
            {"routes", CCL_I_LIST_OF(route_record, count_routes, route_at), "by transport"},
            {"all_devices", CCL_I_LIST_OF(device_record, count_devices, device_at), .hidden = true},
            {"all_links", CCL_I_LIST_OF(link_record, count_links, link_at), .hidden = true},
            {"all_members", CCL_I_LIST_OF(member_record, count_members, member_at), .hidden = true},
            {"all_routes", CCL_I_LIST_OF(class_record, count_routes, route_at), .hidden = true},
            {"first_classes", CCL_I_LIST_OF(alike_record, count_first_alike, alike_at),
             .hidden = true},
            {"first_groups", CCL_I_LIST_OF(group_record, count_first_groups, group_at),
             .hidden = true},
            {"direct_routes", CCL_I_LIST_OF(route_record, count_routes, direct_route_at),
             .hidden = true},
            {0}}}};
#undef AT

/* ---------------------------------------------------------------- text */

/** A list, indented under a title. */
static ccl_status_t indented(const root_t *root, const char *list, const ccl_i_column_t *columns,
                             const char *title, ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_text_t body = {.columns = out->columns > 2 ? out->columns - 2 : 0};
    ccl_status_t status = CCL_OK;

    if (!table)
        return ccl_fail_nomem(err);
    CCL_TRY_GOTO(
        ccl_i_rows_table(ccl_i_result_topology_summary.root, list, root, columns, table, err),
        status, end);
    status = ccl_table_text(table, &body);
    if (status != CCL_OK) {
        status = status == CCL_ERR_NOMEM ? ccl_fail_nomem(err) : status;
        goto end;
    }
    ccl_text_printf(out, "\n%s\n", title);
    for (const char *p = body.data; p && *p;) {
        size_t len = strcspn(p, "\n");

        ccl_text_printf(out, "  %.*s\n", (int)len, p);
        p += len + (p[len] == '\n');
    }
    status = ccl_i_text_status(out, err);
end:
    ccl_text_fini(&body);
    ccl_table_destroy(table);
    return status;
}

static const ccl_i_column_t link_columns[] = {
    CCL_I_COLUMN("kind"),
    CCL_I_COLUMN("links"),
    CCL_I_COLUMN("bandwidth_Bps", "each(GB/s)", ccl_i_GBps),
    CCL_I_COLUMN("latency_s", "latency(us)", ccl_i_us),
    CCL_I_COLUMN("lanes"),
    CCL_I_COLUMN("contention", NULL, ccl_i_show_3),
    CCL_I_COLUMN("example", "for example"),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t group_columns[] = {
    CCL_I_COLUMN("name", "group"), CCL_I_COLUMN("links"),
    CCL_I_COLUMN("bandwidth_Bps", "together(GB/s)", ccl_i_GBps),
    CCL_I_COLUMN("first", "first link"), CCL_I_COLUMNS_END};
static const ccl_i_column_t transport_columns[] = {
    CCL_I_COLUMN("kind", "transport"),
    CCL_I_COLUMN("protocol", NULL, NULL, "all"),
    CCL_I_COLUMN("tb_rate_Bps", "tb_rate(GB/s)", ccl_i_GBps, "-"),
    CCL_I_COLUMN("overhead_s", "overhead(us)", ccl_i_us),
    CCL_I_COLUMN("latency_s", "latency(us)", ccl_i_us),
    CCL_I_COLUMN("slice_bytes", "slice", ccl_format_bytes, "-"),
    CCL_I_COLUMN("slices"),
    CCL_I_COLUMN("piece_bytes", "piece", ccl_format_bytes, "-"),
    CCL_I_COLUMN("slots"),
    CCL_I_COLUMN("direct", NULL, ccl_i_show_yes),
    CCL_I_COLUMN("holds_tb", NULL, ccl_i_show_yes),
    CCL_I_COLUMN("wire", NULL, ccl_i_show_2),
    CCL_I_COLUMN("message_s", "message(us)", ccl_i_us),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t model_columns[] = {
    CCL_I_COLUMN("name", "GPU model"),
    CCL_I_COLUMN("some_vendor", "vendor", NULL, "-"),
    CCL_I_COLUMN("some_sms", "sms", NULL, "-"),
    CCL_I_COLUMN("copy_rate_Bps", "copy(GB/s)", ccl_i_GBps, "-"),
    CCL_I_COLUMN("reduce_rate_Bps", "reduce(GB/s)", ccl_i_GBps, "-"),
    CCL_I_COLUMN("overhead_s", "overhead(us)", ccl_i_us),
    CCL_I_COLUMN("flag_s", "flag(us)", ccl_i_us),
    CCL_I_COLUMN("launches", "launch(us)", .right = true),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t route_columns[] = {
    CCL_I_COLUMN("transport", "over"),
    CCL_I_COLUMN("pairs", "GPU pairs"),
    CCL_I_COLUMN("links", "links on route", .right = true),
    CCL_I_COLUMN("rates_GBps", "narrowest(GB/s)", .right = true),
    CCL_I_COLUMN("latencies_us", "latency(us)", .right = true),
    CCL_I_COLUMN("max_width", "equal routes"),
    CCL_I_COLUMNS_END};

static ccl_status_t text_routes(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    uint64_t relayed = 0;
    char title[120];

    for (uint32_t i = 0; i < root->nclasses; i++)
        relayed += root->classes[i].transport ? 0 : root->classes[i].pairs;
    if (root->route_sources < root->nranks)
        snprintf(title, sizeof(title), "routes (from %u of the %u GPUs to all others)",
                 root->route_sources, root->nranks);
    else
        snprintf(title, sizeof(title), "routes (all ordered pairs of GPUs)");
    CCL_TRY(indented(root, "direct_routes", route_columns, title, out, err));
    if (relayed)
        ccl_text_printf(out, "  %llu pairs have no direct route: a schedule must relay over GPUs\n",
                        (unsigned long long)relayed);
    return CCL_OK;
}

static ccl_status_t text_tables(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = root->topo;

    CCL_TRY(indented(root, "first_classes", link_columns, "links (directed; a duplex link is two)",
                     out, err));
    if (root->links_alike.n > MAX_ROWS)
        ccl_text_printf(out, "  and %zu more kinds of link\n", root->links_alike.n - MAX_ROWS);
    if (ccl_i_switch_classes(root))
        CCL_TRY(indented(root, "in_switch", ccl_i_switch_columns, "in-switch", out, err));
    if (topo->ngroups)
        CCL_TRY(indented(root, "first_groups", group_columns,
                         "groups (links that share one capacity)", out, err));
    if (topo->ngroups > MAX_ROWS)
        ccl_text_printf(out, "  and %u more groups\n", topo->ngroups - MAX_ROWS);
    if (topo->ntransports)
        CCL_TRY(indented(root, "transports", transport_columns, "transports (- is no limit)", out,
                         err));
    if (topo->ngpu_models)
        CCL_TRY(
            indented(root, "gpu_models", model_columns, "GPU models (- is no limit)", out, err));
    return text_routes(root, out, err);
}

static ccl_status_t topology_text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = root->topo;
    const uint32_t *kinds = root->kinds;

    ccl_text_printf(out, "%s\n", topo->name);
    if (topo->note && topo->note[0])
        ccl_text_printf(out, "  note: %s\n", topo->note);
    if (topo->source && topo->source[0])
        ccl_text_printf(out, "  source: %s\n", topo->source);
    ccl_text_printf(out, "\ndevices\n  %u GPU%s, %u switch%s, %u NIC%s, %u host%s on %u server%s\n",
                    kinds[0], kinds[0] == 1 ? "" : "s", kinds[1], kinds[1] == 1 ? "" : "es",
                    kinds[2], kinds[2] == 1 ? "" : "s", kinds[3], kinds[3] == 1 ? "" : "s",
                    topo->nservers, topo->nservers == 1 ? "" : "s");
    CCL_TRY(ccl_i_servers_text(topo, MAX_ROWS, out, err));
    CCL_TRY(text_tables(root, out, err));
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t emit(const root_t *root, size_t table, const ccl_report_style_t *style,
                         ccl_text_t *out, ccl_error_t *err) {
    static const char *const lists[] = {"all_devices", "all_links", "all_members", "all_routes"};

    if (style->format == CCL_REPORT_TEXT)
        return topology_text(root, out, err);
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_topology_summary, root, out, err);
    return ccl_i_rows_emit(ccl_i_result_topology_summary.root, lists[table], root, NULL,
                           CCL_REPORT_CSV, out, err);
}

ccl_status_t ccl_report_topology(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    ccl_route_class_t *classes = NULL;
    ccl_text_t content = {0};
    root_t root = {.topo = topo,
                   .content = &content,
                   .name = topo->name,
                   .source = topo->source,
                   .note = topo->note,
                   .nranks = topo->nranks,
                   .nlinks = topo->nlinks};
    size_t which = 0;
    ccl_status_t status;

    CCL_TRY(ccl_i_table_choice(ccl_report_topology_tables, style->table, &which, err));
    CCL_TRY(ccl_report_route_classes(topo, routes,
                                     topo->nranks > 2 * ROUTE_SOURCES ? ROUTE_SOURCES : 0, &classes,
                                     &root.nclasses, &root.route_sources, err));
    root.classes = classes;
    for (uint32_t i = 0; i < topo->ndevices; i++)
        root.kinds[topo->devices[i].kind]++;
    status = ccl_i_links_alike(topo, &root.links_alike, err);
    if (status == CCL_OK)
        status = emit(&root, which, style, out, err);
    if (status == CCL_OK && content.nomem)
        status = ccl_fail_nomem(err);
    ccl_i_alikes_fini(&root.links_alike);
    ccl_text_fini(&content);
    free(classes);
    return status;
}
