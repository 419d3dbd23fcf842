/* A cluster at a glance: devices, servers, links by kind, groups, transports, routes. */
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_topology_tables[] = {"devices", "links", "groups", "routes", NULL};

enum { DEVICE_KINDS = 4, MAX_ROWS = 40, ROUTE_SOURCES = 64 };
static const char *const device_kinds[DEVICE_KINDS] = {"gpu", "switch", "nic", "host"};

/* ---------------------------------------------------------------- routes */

static void class_add(ccl_route_class_t *c, const ccl_route_t *route, uint32_t width) {
    if (c->pairs++ == 0) {
        c->min_links = c->max_links = route->nlinks;
        c->min_Bps = c->max_Bps = route->bottleneck_Bps;
        c->min_latency_s = c->max_latency_s = route->latency_s;
        c->max_width = width;
        return;
    }
    if (route->nlinks < c->min_links)
        c->min_links = route->nlinks;
    if (route->nlinks > c->max_links)
        c->max_links = route->nlinks;
    c->min_Bps = fmin(c->min_Bps, route->bottleneck_Bps);
    c->max_Bps = fmax(c->max_Bps, route->bottleneck_Bps);
    c->min_latency_s = fmin(c->min_latency_s, route->latency_s);
    c->max_latency_s = fmax(c->max_latency_s, route->latency_s);
    if (width > c->max_width)
        c->max_width = width;
}

/** Class of a transport (compared by text; NULL: no route), made when it is new. */
static ccl_route_class_t *class_find(ccl_route_class_t *classes, uint32_t *n, uint32_t room,
                                     const char *transport) {
    for (uint32_t i = 0; i < *n; i++) {
        const char *have = classes[i].transport;

        if (have == transport || (have && transport && strcmp(have, transport) == 0))
            return &classes[i];
    }
    if (*n == room)
        return NULL;
    classes[*n].transport = transport;
    return &classes[(*n)++];
}

ccl_status_t ccl_report_route_classes(const ccl_topology_t *topo, ccl_routes_t *routes,
                                      uint32_t max_sources, ccl_route_class_t **out,
                                      uint32_t *n_out, uint32_t *sources_out, ccl_error_t *err) {
    uint32_t sources = max_sources && max_sources < topo->nranks ? max_sources : topo->nranks;
    uint32_t room = topo->nkinds + 4; /* net, pcie, each kind, no route */
    uint32_t n = 0;
    ccl_route_class_t *classes = calloc(room, sizeof(*classes));

    if (!classes)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < sources; i++) {
        uint32_t src = (uint32_t)((uint64_t)i * topo->nranks / sources);

        for (uint32_t dst = 0; dst < topo->nranks; dst++) {
            const ccl_route_t *route = NULL;
            ccl_route_class_t *c;
            ccl_status_t status;
            ccl_error_t why = CCL_ERROR_INIT;

            if (dst == src)
                continue;
            status = ccl_routes_get(routes, src, dst, 0, &route, &why);
            if (status == CCL_ERR_INPUT) {
                c = class_find(classes, &n, room, NULL);
                if (c)
                    c->pairs++;
                continue;
            }
            if (status != CCL_OK) {
                free(classes);
                if (err)
                    *err = why;
                return status;
            }
            c = class_find(classes, &n, room, ccl_model_route_kind(topo, route));
            if (c)
                class_add(c, route, ccl_routes_width(routes, src, dst));
        }
    }
    *out = classes;
    *n_out = n;
    *sources_out = sources;
    return CCL_OK;
}

/* ---------------------------------------------------------------- counting */

/** "4 x H20, 1 x A100" and so on: what a server is made of. */
static void server_content(const ccl_topology_t *topo, uint32_t server, ccl_text_t *out) {
    uint32_t kinds[DEVICE_KINDS] = {0};
    bool some = false;

    for (uint32_t m = 0; m <= topo->ngpu_models; m++) {
        uint32_t n = 0;

        for (uint32_t r = 0; r < topo->nranks; r++) {
            const ccl_device_t *d = &topo->devices[topo->rank_device[r]];

            if (d->server == server && d->model == (m < topo->ngpu_models ? m : CCL_NONE))
                n++;
        }
        if (n == 0)
            continue;
        ccl_text_printf(out, "%s%u x %s", some ? ", " : "", n,
                        m < topo->ngpu_models ? topo->gpu_models[m].name : "gpu");
        some = true;
    }
    for (uint32_t i = 0; i < topo->ndevices; i++) {
        if (topo->devices[i].server == server)
            kinds[topo->devices[i].kind]++;
    }
    for (uint32_t k = CCL_DEVICE_SWITCH; k < DEVICE_KINDS; k++) {
        if (kinds[k] == 0)
            continue;
        ccl_text_printf(out, "%s%u %s%s", some ? ", " : "", kinds[k], device_kinds[k],
                        kinds[k] == 1 ? "" : (k == CCL_DEVICE_SWITCH ? "es" : "s"));
        some = true;
    }
}

/** Things that look alike: a description, how many, the first and the last. */
typedef struct alike {
    char *key;
    uint32_t count, first, last;
} alike_t;
typedef struct alikes {
    ccl_strmap_t *map;
    alike_t *rows;
    size_t n, cap;
} alikes_t;

static void alikes_fini(alikes_t *a) {
    for (size_t i = 0; i < a->n; i++)
        free(a->rows[i].key);
    free(a->rows);
    ccl_strmap_destroy(a->map);
}

static ccl_status_t alikes_add(alikes_t *a, const ccl_text_t *key, uint32_t index,
                               ccl_error_t *err) {
    const char *text = key->data ? key->data : "";
    uint32_t at;

    if (key->nomem || (!a->map && !(a->map = ccl_strmap_create())))
        return ccl_fail_nomem(err);
    at = ccl_strmap_get(a->map, text);
    if (at == CCL_NONE) {
        if (!ccl_grow(&a->rows, &a->cap, a->n + 1, sizeof(*a->rows)) ||
            !(a->rows[a->n].key = strdup(text)))
            return ccl_fail_nomem(err);
        at = (uint32_t)a->n++;
        a->rows[at].first = index;
        a->rows[at].count = 0;
        if (!ccl_strmap_put(a->map, text, at))
            return ccl_fail_nomem(err);
    }
    a->rows[at].count++;
    a->rows[at].last = index;
    return CCL_OK;
}

static ccl_status_t servers_alike(const ccl_topology_t *topo, alikes_t *out, ccl_error_t *err) {
    for (uint32_t s = 0; s < topo->nservers; s++) {
        ccl_text_t key = {0};
        ccl_status_t status;

        server_content(topo, s, &key);
        status = alikes_add(out, &key, s, err);
        ccl_text_fini(&key);
        CCL_TRY(status);
    }
    return CCL_OK;
}

/** Directed links with the same kind and constants. */
static ccl_status_t links_alike(const ccl_topology_t *topo, alikes_t *out, ccl_error_t *err) {
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        ccl_text_t key = {0};
        ccl_status_t status;
        char a[40];
        char b[40];
        char c[40];

        ccl_text_printf(&key, "%u %s %s %u %s", link->kind,
                        ccl_i_number(link->bandwidth_Bps, a, sizeof(a)),
                        ccl_i_number(link->latency_s, b, sizeof(b)), link->lanes,
                        ccl_i_number(link->contention, c, sizeof(c)));
        status = alikes_add(out, &key, l, err);
        ccl_text_fini(&key);
        CCL_TRY(status);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- text */

static ccl_status_t text_servers(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err) {
    alikes_t alike = {0};
    ccl_status_t status = servers_alike(topo, &alike, err);

    if (status == CCL_OK && topo->nservers > 0) {
        ccl_text_printf(out, "\nservers\n");
        for (size_t i = 0; i < alike.n && i < MAX_ROWS; i++) {
            const alike_t *row = &alike.rows[i];

            ccl_text_printf(out, "  %u x [%s]  %s", row->count, row->key,
                            topo->servers[row->first]);
            if (row->count > 1)
                ccl_text_printf(out, "%s%s", row->count > 2 ? " .. " : ", ",
                                topo->servers[row->last]);
            ccl_text_printf(out, "\n");
        }
        if (alike.n > MAX_ROWS)
            ccl_text_printf(out, "  and %zu more kinds of server\n", alike.n - MAX_ROWS);
    }
    alikes_fini(&alike);
    return status;
}

static ccl_status_t emit_indented(const ccl_table_t *table, const char *title, ccl_text_t *out,
                                  ccl_error_t *err) {
    ccl_text_t body = {0};
    ccl_status_t status = ccl_table_text(table, &body);

    if (status != CCL_OK) {
        ccl_text_fini(&body);
        return status == CCL_ERR_NOMEM ? ccl_fail_nomem(err) : status;
    }
    ccl_text_printf(out, "\n%s\n", title);
    for (const char *p = body.data; p && *p;) {
        const char *end = strchr(p, '\n');
        size_t len = end ? (size_t)(end - p) : strlen(p);

        ccl_text_add(out, "  ", 2);
        ccl_text_add(out, p, len);
        ccl_text_add(out, "\n", 1);
        p += len + (end ? 1 : 0);
    }
    ccl_text_fini(&body);
    return ccl_i_text_status(out, err);
}

static ccl_status_t text_links(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err) {
    alikes_t alike = {0};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = links_alike(topo, &alike, err);
    char text[200];

    if (!table) {
        alikes_fini(&alike);
        return ccl_fail_nomem(err);
    }
    ccl_table_column(table, "kind", CCL_ALIGN_LEFT);
    ccl_table_column(table, "links", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "each(GB/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "latency(us)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "lanes", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "contention", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "for example", CCL_ALIGN_LEFT);
    for (size_t i = 0; status == CCL_OK && i < alike.n && i < MAX_ROWS; i++) {
        const ccl_link_t *link = &topo->links[alike.rows[i].first];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", topo->kinds[link->kind]);
        ccl_table_cell(table, "%u", alike.rows[i].count);
        ccl_table_cell(table, "%s", ccl_i_GBps(link->bandwidth_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(link->latency_s, text, sizeof(text)));
        ccl_table_cell(table, "%u", link->lanes);
        ccl_table_cell(table, "%.3g", link->contention);
        ccl_table_cell(table, "%s", ccl_i_link_name(topo, alike.rows[i].first, text, sizeof(text)));
    }
    if (status == CCL_OK)
        status = emit_indented(table, "links (directed; a duplex link is two)", out, err);
    if (status == CCL_OK && alike.n > MAX_ROWS)
        ccl_text_printf(out, "  and %zu more kinds of link\n", alike.n - MAX_ROWS);
    ccl_table_destroy(table);
    alikes_fini(&alike);
    return status;
}

static ccl_status_t text_groups(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table;
    ccl_status_t status;
    char text[200];

    if (topo->ngroups == 0)
        return CCL_OK;
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "group", CCL_ALIGN_LEFT);
    ccl_table_column(table, "links", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "together(GB/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "first link", CCL_ALIGN_LEFT);
    for (uint32_t g = 0; g < topo->ngroups && g < MAX_ROWS; g++) {
        ccl_table_row(table);
        ccl_table_cell(table, "%s", topo->groups[g].name);
        ccl_table_cell(table, "%u", topo->groups[g].nlinks);
        ccl_table_cell(table, "%s", ccl_i_GBps(topo->groups[g].bandwidth_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s",
                       topo->groups[g].nlinks
                           ? ccl_i_link_name(topo, topo->groups[g].links[0], text, sizeof(text))
                           : "");
    }
    status = emit_indented(table, "groups (links that share one capacity)", out, err);
    if (status == CCL_OK && topo->ngroups > MAX_ROWS)
        ccl_text_printf(out, "  and %u more groups\n", topo->ngroups - MAX_ROWS);
    ccl_table_destroy(table);
    return status;
}

static const char *rate_or_none(double Bps, char *out, size_t out_len) {
    if (!isfinite(Bps))
        snprintf(out, out_len, "-");
    else
        ccl_i_GBps(Bps, out, out_len);
    return out;
}

static const char *bytes_or_none(double bytes, char *out, size_t out_len) {
    if (!isfinite(bytes))
        snprintf(out, out_len, "-");
    else
        ccl_format_bytes(bytes, out, out_len);
    return out;
}

static ccl_status_t text_transports(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {
        "transport", "protocol", "tb_rate(GB/s)", "overhead(us)", "latency(us)", "slice",
        "slices",    "piece",    "slots",         "direct",       "holds_tb"};
    ccl_table_t *table;
    ccl_status_t status;
    char text[64];

    if (topo->ntransports == 0)
        return CCL_OK;
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 2);
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *spec = &topo->transports[i];
        ccl_transport_t t = ccl_model_transport(topo, spec->kind, spec->protocol);

        ccl_table_row(table);
        ccl_table_cell(table, "%s", spec->kind);
        ccl_table_cell(table, "%s", spec->protocol ? spec->protocol : "all");
        ccl_table_cell(table, "%s", rate_or_none(t.tb_rate_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(t.overhead_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(t.latency_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", bytes_or_none(t.slice_bytes, text, sizeof(text)));
        ccl_table_cell(table, "%u", t.slices);
        ccl_table_cell(table, "%s", bytes_or_none(t.piece_bytes, text, sizeof(text)));
        ccl_table_cell(table, "%u", t.slots);
        ccl_table_cell(table, "%s", t.direct ? "yes" : "no");
        ccl_table_cell(table, "%s", t.holds_tb ? "yes" : "no");
    }
    status = emit_indented(table, "transports (- is no limit)", out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t text_models(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"GPU model",    "vendor",       "sms",      "copy(GB/s)",
                                          "reduce(GB/s)", "overhead(us)", "flag(us)", "launch(us)"};
    ccl_table_t *table;
    ccl_status_t status;
    char text[64];

    if (topo->ngpu_models == 0)
        return CCL_OK;
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 2);
    for (uint32_t i = 0; i < topo->ngpu_models; i++) {
        const ccl_gpu_model_t *m = &topo->gpu_models[i];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", m->name);
        ccl_table_cell(table, "%s", m->vendor[0] ? m->vendor : "-");
        ccl_table_cell(table, "%s", m->sms ? ccl_i_index(m->sms, text, sizeof(text)) : "-");
        ccl_table_cell(table, "%s", rate_or_none(m->copy_rate_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", rate_or_none(m->reduce_rate_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(m->overhead_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(m->flag_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(m->launch_s, text, sizeof(text)));
    }
    status = emit_indented(table, "GPU models (- is no limit)", out, err);
    ccl_table_destroy(table);
    return status;
}

/** "25.00" or "12.50..25.00" when both ends differ as printed. */
static void range_cell(ccl_table_t *table, const char *low, const char *high) {
    if (strcmp(low, high) == 0)
        ccl_table_cell(table, "%s", low);
    else
        ccl_table_cell(table, "%s..%s", low, high);
}

static ccl_status_t text_routes(const ccl_topology_t *topo, const ccl_route_class_t *classes,
                                uint32_t n, uint32_t sources, ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    uint64_t relayed = 0;
    char title[120];
    char a[64];
    char b[64];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "over", CCL_ALIGN_LEFT);
    ccl_table_column(table, "GPU pairs", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "links on route", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "narrowest(GB/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "latency(us)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "equal routes", CCL_ALIGN_RIGHT);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_route_class_t *c = &classes[i];

        if (!c->transport) {
            relayed += c->pairs;
            continue;
        }
        ccl_table_row(table);
        ccl_table_cell(table, "%s", c->transport);
        ccl_table_cell(table, "%llu", (unsigned long long)c->pairs);
        range_cell(table, ccl_i_index(c->min_links, a, sizeof(a)),
                   ccl_i_index(c->max_links, b, sizeof(b)));
        range_cell(table, ccl_i_GBps(c->min_Bps, a, sizeof(a)),
                   ccl_i_GBps(c->max_Bps, b, sizeof(b)));
        range_cell(table, ccl_i_us(c->min_latency_s, a, sizeof(a)),
                   ccl_i_us(c->max_latency_s, b, sizeof(b)));
        ccl_table_cell(table, "%u", c->max_width);
    }
    if (sources < topo->nranks)
        snprintf(title, sizeof(title), "routes (from %u of the %u GPUs to all others)", sources,
                 topo->nranks);
    else
        snprintf(title, sizeof(title), "routes (all ordered pairs of GPUs)");
    status = emit_indented(table, title, out, err);
    if (status == CCL_OK && relayed)
        ccl_text_printf(out, "  %llu pairs have no direct route: a schedule must relay over GPUs\n",
                        (unsigned long long)relayed);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t topology_text(const ccl_topology_t *topo, const ccl_route_class_t *classes,
                                  uint32_t n, uint32_t sources, ccl_text_t *out, ccl_error_t *err) {
    uint32_t kinds[DEVICE_KINDS] = {0};

    for (uint32_t i = 0; i < topo->ndevices; i++)
        kinds[topo->devices[i].kind]++;
    ccl_text_printf(out, "%s\n", topo->name);
    if (topo->note && topo->note[0])
        ccl_text_printf(out, "  note: %s\n", topo->note);
    if (topo->source && topo->source[0])
        ccl_text_printf(out, "  source: %s\n", topo->source);
    ccl_text_printf(out, "\ndevices\n  %u GPU%s, %u switch%s, %u NIC%s, %u host%s on %u server%s\n",
                    kinds[0], kinds[0] == 1 ? "" : "s", kinds[1], kinds[1] == 1 ? "" : "es",
                    kinds[2], kinds[2] == 1 ? "" : "s", kinds[3], kinds[3] == 1 ? "" : "s",
                    topo->nservers, topo->nservers == 1 ? "" : "s");
    CCL_TRY(text_servers(topo, out, err));
    CCL_TRY(text_links(topo, out, err));
    CCL_TRY(text_groups(topo, out, err));
    CCL_TRY(text_transports(topo, out, err));
    CCL_TRY(text_models(topo, out, err));
    CCL_TRY(text_routes(topo, classes, n, sources, out, err));
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- CSV and JSON */

static void csv_devices(const ccl_topology_t *topo, ccl_table_t *table) {
    char text[24];

    for (size_t i = 0; i < 5; i++)
        ccl_table_column(table, (const char *[]){"id", "kind", "server", "rank", "model"}[i],
                         CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < topo->ndevices; i++) {
        const ccl_device_t *d = &topo->devices[i];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", d->id);
        ccl_table_cell(table, "%s", device_kinds[d->kind]);
        ccl_table_cell(table, "%s", d->server == CCL_NONE ? "" : topo->servers[d->server]);
        ccl_table_cell(table, "%s", ccl_i_index(d->rank, text, sizeof(text)));
        ccl_table_cell(table, "%s", d->model == CCL_NONE ? "" : topo->gpu_models[d->model].name);
    }
}

static void csv_links(const ccl_topology_t *topo, ccl_table_t *table) {
    static const char *const headers[] = {"from",      "to",    "kind",      "bandwidth_Bps",
                                          "latency_s", "lanes", "contention"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        const ccl_link_t *l = &topo->links[i];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", topo->devices[l->from].id);
        ccl_table_cell(table, "%s", topo->devices[l->to].id);
        ccl_table_cell(table, "%s", topo->kinds[l->kind]);
        ccl_table_cell(table, "%s", ccl_i_number(l->bandwidth_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_number(l->latency_s, text, sizeof(text)));
        ccl_table_cell(table, "%u", l->lanes);
        ccl_table_cell(table, "%s", ccl_i_number(l->contention, text, sizeof(text)));
    }
}

/** One row per link of a group. */
static void csv_groups(const ccl_topology_t *topo, ccl_table_t *table) {
    static const char *const headers[] = {"group", "bandwidth_Bps", "from", "to"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++) {
            const ccl_link_t *l = &topo->links[topo->groups[g].links[i]];

            ccl_table_row(table);
            ccl_table_cell(table, "%s", topo->groups[g].name);
            ccl_table_cell(table, "%s",
                           ccl_i_number(topo->groups[g].bandwidth_Bps, text, sizeof(text)));
            ccl_table_cell(table, "%s", topo->devices[l->from].id);
            ccl_table_cell(table, "%s", topo->devices[l->to].id);
        }
    }
}

static void csv_routes(const ccl_route_class_t *classes, uint32_t n, ccl_table_t *table) {
    static const char *const headers[] = {"transport",     "pairs",         "min_links",
                                          "max_links",     "min_Bps",       "max_Bps",
                                          "min_latency_s", "max_latency_s", "max_width"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < n; i++) {
        const ccl_route_class_t *c = &classes[i];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", c->transport ? c->transport : "");
        ccl_table_cell(table, "%llu", (unsigned long long)c->pairs);
        ccl_table_cell(table, "%u", c->min_links);
        ccl_table_cell(table, "%u", c->max_links);
        ccl_table_cell(table, "%s", ccl_i_number(c->min_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_number(c->max_Bps, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_number(c->min_latency_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_number(c->max_latency_s, text, sizeof(text)));
        ccl_table_cell(table, "%u", c->max_width);
    }
}

static void json_links(ccl_i_json_t *json, const ccl_topology_t *topo, const alikes_t *alike) {
    ccl_i_json_array(json, "link_classes", false);
    for (size_t i = 0; i < alike->n; i++) {
        const ccl_link_t *l = &topo->links[alike->rows[i].first];
        char name[200];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "kind", topo->kinds[l->kind]);
        ccl_i_json_u64(json, "links", alike->rows[i].count);
        ccl_i_json_number(json, "bandwidth_Bps", l->bandwidth_Bps);
        ccl_i_json_number(json, "latency_s", l->latency_s);
        ccl_i_json_u64(json, "lanes", l->lanes);
        ccl_i_json_number(json, "contention", l->contention);
        ccl_i_json_string(json, "example",
                          ccl_i_link_name(topo, alike->rows[i].first, name, sizeof(name)));
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_constants(ccl_i_json_t *json, const ccl_topology_t *topo) {
    ccl_i_json_array(json, "groups", false);
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "name", topo->groups[g].name);
        ccl_i_json_u64(json, "links", topo->groups[g].nlinks);
        ccl_i_json_number(json, "bandwidth_Bps", topo->groups[g].bandwidth_Bps);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "transports", false);
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *spec = &topo->transports[i];
        ccl_transport_t t = ccl_model_transport(topo, spec->kind, spec->protocol);

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "kind", spec->kind);
        ccl_i_json_string(json, "protocol", spec->protocol);
        ccl_i_json_number(json, "overhead_s", t.overhead_s);
        ccl_i_json_number(json, "latency_s", t.latency_s);
        ccl_i_json_number(json, "tb_rate_Bps", t.tb_rate_Bps);
        ccl_i_json_number(json, "slice_bytes", t.slice_bytes);
        ccl_i_json_u64(json, "slices", t.slices);
        ccl_i_json_number(json, "piece_bytes", t.piece_bytes);
        ccl_i_json_u64(json, "slots", t.slots);
        ccl_i_json_bool(json, "direct", t.direct);
        ccl_i_json_bool(json, "holds_tb", t.holds_tb);
        ccl_i_json_string(json, "mechanism", ccl_mechanism_name(t.mechanism));
        ccl_i_json_number(json, "copy_in_Bps", t.copy_in_Bps);
        ccl_i_json_number(json, "copy_out_Bps", t.copy_out_Bps);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "gpu_models", false);
    for (uint32_t i = 0; i < topo->ngpu_models; i++) {
        const ccl_gpu_model_t *m = &topo->gpu_models[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "name", m->name);
        ccl_i_json_string(json, "vendor", m->vendor);
        ccl_i_json_u64(json, "sms", m->sms);
        ccl_i_json_number(json, "copy_rate_Bps", m->copy_rate_Bps);
        ccl_i_json_number(json, "reduce_rate_Bps", m->reduce_rate_Bps);
        ccl_i_json_number(json, "overhead_s", m->overhead_s);
        ccl_i_json_number(json, "flag_s", m->flag_s);
        ccl_i_json_number(json, "launch_s", m->launch_s);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_routes(ccl_i_json_t *json, const ccl_route_class_t *classes, uint32_t n) {
    ccl_i_json_array(json, "routes", false);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_route_class_t *c = &classes[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "transport", c->transport);
        ccl_i_json_u64(json, "pairs", c->pairs);
        if (c->transport) {
            ccl_i_json_u64(json, "min_links", c->min_links);
            ccl_i_json_u64(json, "max_links", c->max_links);
            ccl_i_json_number(json, "min_Bps", c->min_Bps);
            ccl_i_json_number(json, "max_Bps", c->max_Bps);
            ccl_i_json_number(json, "min_latency_s", c->min_latency_s);
            ccl_i_json_number(json, "max_latency_s", c->max_latency_s);
            ccl_i_json_u64(json, "max_width", c->max_width);
        }
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static ccl_status_t topology_json(const ccl_topology_t *topo, const ccl_route_class_t *classes,
                                  uint32_t n, uint32_t sources, ccl_text_t *out, ccl_error_t *err) {
    alikes_t links = {0};
    ccl_i_json_t json;
    uint32_t kinds[DEVICE_KINDS] = {0};
    ccl_status_t status = links_alike(topo, &links, err);

    if (status != CCL_OK) {
        alikes_fini(&links);
        return status;
    }
    for (uint32_t i = 0; i < topo->ndevices; i++)
        kinds[topo->devices[i].kind]++;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/topology-summary/1");
    ccl_i_json_string(&json, "name", topo->name);
    ccl_i_json_string(&json, "source", topo->source);
    ccl_i_json_string(&json, "note", topo->note);
    ccl_i_json_u64(&json, "nranks", topo->nranks);
    ccl_i_json_object(&json, "devices", true);
    for (uint32_t k = 0; k < DEVICE_KINDS; k++)
        ccl_i_json_u64(&json, device_kinds[k], kinds[k]);
    ccl_i_json_close_object(&json);
    ccl_i_json_array(&json, "servers", false);
    for (uint32_t s = 0; s < topo->nservers; s++) {
        ccl_text_t content = {0};

        server_content(topo, s, &content);
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "name", topo->servers[s]);
        ccl_i_json_string(&json, "content", content.data ? content.data : "");
        ccl_i_json_close_object(&json);
        ccl_text_fini(&content);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_u64(&json, "links", topo->nlinks);
    json_links(&json, topo, &links);
    json_constants(&json, topo);
    ccl_i_json_u64(&json, "route_sources", sources);
    json_routes(&json, classes, n);
    ccl_i_json_end(&json);
    alikes_fini(&links);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_topology(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    ccl_route_class_t *classes = NULL;
    uint32_t n = 0;
    uint32_t sources = 0;
    size_t which = 0;
    ccl_status_t status;

    CCL_TRY(ccl_i_table_choice(ccl_report_topology_tables, style->table, &which, err));
    CCL_TRY(ccl_report_route_classes(topo, routes,
                                     topo->nranks > 2 * ROUTE_SOURCES ? ROUTE_SOURCES : 0, &classes,
                                     &n, &sources, err));
    if (style->format == CCL_REPORT_TEXT) {
        status = topology_text(topo, classes, n, sources, out, err);
    } else if (style->format == CCL_REPORT_JSON) {
        status = topology_json(topo, classes, n, sources, out, err);
    } else {
        ccl_table_t *table = ccl_table_create();

        if (!table) {
            free(classes);
            return ccl_fail_nomem(err);
        }
        if (which == 0)
            csv_devices(topo, table);
        else if (which == 1)
            csv_links(topo, table);
        else if (which == 2)
            csv_groups(topo, table);
        else
            csv_routes(classes, n, table);
        status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
        ccl_table_destroy(table);
    }
    free(classes);
    return status;
}

ccl_status_t ccl_report_topology_check(const char *spec, const ccl_topology_t *topo,
                                       const ccl_error_t *why, const ccl_report_style_t *style,
                                       ccl_text_t *out, ccl_error_t *err) {
    char text[1200] = "";
    ccl_i_json_t json;

    if (!topo)
        ccl_error_format(why, text, sizeof(text));
    if (style->format == CCL_REPORT_JSON) {
        ccl_i_json_begin(&json, out);
        ccl_i_json_schema(&json, "ccllab/topology-check/1");
        ccl_i_json_string(&json, "input", spec);
        ccl_i_json_bool(&json, "valid", topo != NULL);
        if (topo) {
            ccl_i_json_string(&json, "name", topo->name);
            ccl_i_json_u64(&json, "nranks", topo->nranks);
            ccl_i_json_u64(&json, "devices", topo->ndevices);
            ccl_i_json_u64(&json, "links", topo->nlinks);
            ccl_i_json_null(&json, "error");
        } else {
            ccl_i_json_null(&json, "name");
            ccl_i_json_null(&json, "nranks");
            ccl_i_json_null(&json, "devices");
            ccl_i_json_null(&json, "links");
            ccl_i_json_string(&json, "error", text);
        }
        ccl_i_json_end(&json);
    } else if (style->format == CCL_REPORT_CSV) {
        ccl_table_t *table = ccl_table_create();
        ccl_status_t status;

        if (!table)
            return ccl_fail_nomem(err);
        for (size_t i = 0; i < 4; i++)
            ccl_table_column(table, (const char *[]){"input", "valid", "nranks", "error"}[i],
                             CCL_ALIGN_LEFT);
        ccl_table_row(table);
        ccl_table_cell(table, "%s", spec);
        ccl_table_cell(table, "%s", topo ? "true" : "false");
        if (topo)
            ccl_table_cell(table, "%u", topo->nranks);
        else
            ccl_table_cell(table, "%s", "");
        ccl_table_cell(table, "%s", text);
        status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
        ccl_table_destroy(table);
        return status;
    } else if (topo) {
        ccl_text_printf(out, "%s: good: %u GPUs, %u devices, %u directed links, %u server%s\n",
                        topo->name, topo->nranks, topo->ndevices, topo->nlinks, topo->nservers,
                        topo->nservers == 1 ? "" : "s");
    }
    return ccl_i_text_status(out, err);
}
