/* Our explicit JSON form, "ccllab-topology-1". */
#include "topologies/topologies.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "topologies/readers/constants.h"
#include "topologies/internal.h"

#define MAX_RANK ((uint32_t)1 << 30)
#define MAX_COUNT ((uint32_t)1 << 20) /* lanes */

/* Next member of an object in file order; key_out borrowed. */
static bool member_at(const ccl_json_at_t *object, void **iter, const char **key_out,
                      ccl_json_at_t *out) {
    json_t *value = (json_t *)object->value; /* jansson's iterators take no const */
    *iter = *iter ? json_object_iter_next(value, *iter) : json_object_iter(value);
    if (!*iter)
        return false;
    *key_out = json_object_iter_key(*iter);
    *out = ccl_json_member(object, *key_out);
    return true;
}

/* ---------------------------------------------------------------- models and transports */

typedef ccl_status_t entry_fn(const ccl_json_at_t *at, const char *name, ccl_topology_builder_t *b,
                              ccl_error_t *err);

/* Every member of "gpu_models" or "transports". */
static ccl_status_t read_entries(const ccl_json_at_t *root, const char *key, entry_fn *read,
                                 ccl_topology_builder_t *b, ccl_error_t *err) {
    ccl_json_at_t all = ccl_json_member(root, key), at;
    if (!all.value)
        return CCL_OK;
    CCL_TRY(ccl_json_object(&all, true, err));
    void *iter = NULL;
    const char *name;
    while (member_at(&all, &iter, &name, &at))
        CCL_TRY(read(&at, name, b, err));
    return CCL_OK;
}

/* ---------------------------------------------------------------- devices and links */

static ccl_status_t read_devices(const ccl_ctx_t *ctx, const ccl_json_at_t *root,
                                 ccl_topology_builder_t *b, ccl_error_t *err) {
    static const char *const keys[] = {"id", "kind", "server", "rank", "model", CCL_I_ABILITY_KEYS,
                                       NULL};
    ccl_json_at_t models = ccl_json_member(root, "gpu_models");
    ccl_json_at_t devices = ccl_json_member(root, "devices");
    ccl_i_abilities_t abilities;
    uint32_t index = CCL_NONE;
    size_t n = 0;
    CCL_TRY(ccl_json_array(&devices, true, &n, err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&devices, i);
        CCL_TRY(ccl_json_object(&at, true, err));
        CCL_TRY(ccl_json_only(&at, keys, err));
        const char *id = NULL, *word = NULL, *server = NULL, *model = NULL;
        ccl_json_at_t v = ccl_json_member(&at, "id");
        CCL_TRY(ccl_json_name(&v, true, &id, err));
        v = ccl_json_member(&at, "kind");
        CCL_TRY(ccl_json_string(&v, true, &word, err));
        ccl_device_kind_t kind;
        if (!ccl_i_device_kind_parse(word, &kind))
            return ccl_json_fail(&v, err, "unknown device kind \"%.40s\"; gpu, switch, nic or host",
                                 word);
        v = ccl_json_member(&at, "server");
        CCL_TRY(ccl_json_name(&v, false, &server, err));
        v = ccl_json_member(&at, "model");
        CCL_TRY(ccl_json_name(&v, false, &model, err));
        if (model && models.value && !json_object_get(models.value, model))
            ccl_log(ctx, CCL_LOG_WARN, "topologies",
                    "%s: model \"%s\" of device \"%s\" is not in gpu_models: no limits, no costs",
                    root->doc->name, model, id);
        uint32_t rank = CCL_NONE;
        v = ccl_json_member(&at, "rank");
        CCL_TRY(ccl_json_u32(&v, kind == CCL_DEVICE_GPU, MAX_RANK, &rank, err));
        ccl_error_t local = CCL_ERROR_INIT;
        ccl_status_t status =
            ccl_topology_builder_device(b, id, kind, server, rank, model, &index, &local);
        CCL_TRY(ccl_i_constants_at(&at, status, &local, err));
        CCL_TRY(ccl_i_constants_abilities(&at, &abilities, err));
        status = ccl_topology_builder_abilities(b, index, &abilities.like, &local);
        CCL_TRY(ccl_i_constants_at(&at, status, &local, err));
    }
    return CCL_OK;
}

/* The device that a member or element of a link names. */
static ccl_status_t read_end(const ccl_json_at_t *at, const ccl_topology_builder_t *b,
                             uint32_t *out, ccl_error_t *err) {
    const char *id = NULL;
    CCL_TRY(ccl_json_name(at, true, &id, err));
    *out = ccl_topology_builder_find(b, id);
    if (*out == CCL_NONE)
        return ccl_json_fail(at, err, "no device \"%.200s\"", id);
    return CCL_OK;
}

/* Directed links as (from, to, index), sorted, to look up what a group's pair names. */
typedef struct edge {
    uint32_t from, to, link;
} edge_t;

typedef struct edges {
    edge_t *list;
    size_t len, cap;
} edges_t;

static int edge_compare(const void *a, const void *b) {
    const edge_t *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->link > y->link) - (x->link < y->link);
}

static bool edges_add(edges_t *edges, uint32_t from, uint32_t to) {
    if (!ccl_grow(&edges->list, &edges->cap, edges->len + 1, sizeof *edges->list))
        return false;
    edges->list[edges->len] = (edge_t){from, to, (uint32_t)edges->len};
    edges->len++;
    return true;
}

static ccl_status_t read_links(const ccl_json_at_t *root, ccl_topology_builder_t *b, edges_t *edges,
                               ccl_error_t *err) {
    static const char *const keys[] = {"from",  "to",     "kind",       "bandwidth", "latency",
                                       "lanes", "duplex", "contention", NULL};
    ccl_json_at_t links = ccl_json_member(root, "links");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&links, false, &n, err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&links, i);
        CCL_TRY(ccl_json_object(&at, true, err));
        CCL_TRY(ccl_json_only(&at, keys, err));
        uint32_t from, to, lanes = 1;
        const char *kind = NULL;
        double bandwidth_Bps = 0, latency_s = 0, contention = 0;
        bool duplex = true;
        ccl_json_at_t v = ccl_json_member(&at, "from");
        CCL_TRY(read_end(&v, b, &from, err));
        v = ccl_json_member(&at, "to");
        CCL_TRY(read_end(&v, b, &to, err));
        v = ccl_json_member(&at, "kind");
        CCL_TRY(ccl_json_name(&v, true, &kind, err));
        v = ccl_json_member(&at, "bandwidth");
        CCL_TRY(ccl_json_rate_Bps(&v, true, &bandwidth_Bps, err));
        v = ccl_json_member(&at, "latency");
        CCL_TRY(ccl_json_time_s(&v, false, &latency_s, err));
        v = ccl_json_member(&at, "lanes");
        CCL_TRY(ccl_json_u32(&v, false, MAX_COUNT, &lanes, err));
        if (lanes < 1)
            return ccl_json_fail(&v, err, "0 lanes; 1 or more");
        v = ccl_json_member(&at, "duplex");
        CCL_TRY(ccl_json_bool(&v, false, &duplex, err));
        v = ccl_json_member(&at, "contention");
        CCL_TRY(ccl_json_number(&v, false, &contention, err));
        if (contention < 0)
            return ccl_json_fail(&v, err, "contention %g; 0 or more", contention);
        ccl_error_t local = CCL_ERROR_INIT;
        ccl_status_t status = (duplex ? ccl_topology_builder_duplex : ccl_topology_builder_link)(
            b, from, to, kind, bandwidth_Bps, latency_s, lanes, contention, &local);
        CCL_TRY(ccl_i_constants_at(&at, status, &local, err));
        if (!edges_add(edges, from, to) || (duplex && !edges_add(edges, to, from)))
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- groups */

static size_t first_edge(const edges_t *edges, uint32_t from, uint32_t to) {
    size_t low = 0, high = edges->len;
    edge_t key = {from, to, 0};
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (edge_compare(&edges->list[mid], &key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

typedef struct indices {
    uint32_t *list;
    size_t len, cap;
} indices_t;

static ccl_status_t read_group(const ccl_json_at_t *at, ccl_topology_builder_t *b,
                               const edges_t *edges, indices_t *links, size_t *total,
                               ccl_error_t *err) {
    static const char *const keys[] = {"name", "links", "bandwidth", NULL};
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    const char *name = NULL;
    double bandwidth_Bps = 0;
    size_t npairs = 0;
    ccl_json_at_t v = ccl_json_member(at, "name");
    CCL_TRY(ccl_json_name(&v, true, &name, err));
    v = ccl_json_member(at, "bandwidth");
    CCL_TRY(ccl_json_rate_Bps(&v, true, &bandwidth_Bps, err));
    ccl_json_at_t pairs = ccl_json_member(at, "links");
    CCL_TRY(ccl_json_array(&pairs, true, &npairs, err));
    links->len = 0;
    for (size_t p = 0; p < npairs; p++) {
        ccl_json_at_t pair = ccl_json_element(&pairs, p);
        size_t nends = 0;
        uint32_t from, to;
        CCL_TRY(ccl_json_array(&pair, true, &nends, err));
        if (nends != 2)
            return ccl_json_fail(&pair, err, "%zu device ids; two: [from, to]", nends);
        v = ccl_json_element(&pair, 0);
        CCL_TRY(read_end(&v, b, &from, err));
        v = ccl_json_element(&pair, 1);
        CCL_TRY(read_end(&v, b, &to, err));
        size_t e = first_edge(edges, from, to), n = 0;
        while (e + n < edges->len && edges->list[e + n].from == from && edges->list[e + n].to == to)
            n++;
        if (n == 0) {
            size_t back = first_edge(edges, to, from);
            bool other_way =
                back < edges->len && edges->list[back].from == to && edges->list[back].to == from;
            return ccl_json_fail(&pair, err, "no link from the first device to the second%s",
                                 other_way ? "; there is one the other way" : "");
        }
        if ((*total += n) > CCL_I_MAX_GROUP_LINKS)
            return ccl_json_fail(&pair, err, "groups hold more than %zu links together",
                                 CCL_I_MAX_GROUP_LINKS);
        if (!ccl_grow(&links->list, &links->cap, links->len + n, sizeof *links->list))
            return ccl_fail_nomem(err);
        for (size_t i = 0; i < n; i++)
            links->list[links->len++] = edges->list[e + i].link;
    }
    ccl_error_t local = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_builder_group(b, name, bandwidth_Bps, links->list,
                                                     (uint32_t)links->len, &local);
    return ccl_i_constants_at(at, status, &local, err);
}

static ccl_status_t read_groups(const ccl_json_at_t *root, ccl_topology_builder_t *b,
                                edges_t *edges, ccl_error_t *err) {
    ccl_json_at_t groups = ccl_json_member(root, "groups");
    size_t n = 0, total = 0;
    CCL_TRY(ccl_json_array(&groups, false, &n, err));
    if (n > 0 && edges->len > 0)
        qsort(edges->list, edges->len, sizeof *edges->list, edge_compare);
    indices_t links = {0};
    ccl_status_t status = CCL_OK;
    for (size_t i = 0; i < n && status == CCL_OK; i++) {
        ccl_json_at_t at = ccl_json_element(&groups, i);
        status = read_group(&at, b, edges, &links, &total, err);
    }
    free(links.list);
    return status;
}

/* ---------------------------------------------------------------- the whole */

static ccl_status_t build(const ccl_ctx_t *ctx, const ccl_json_at_t *root,
                          ccl_topology_builder_t *b, edges_t *edges, ccl_topology_t **out,
                          ccl_error_t *err) {
    CCL_TRY(read_entries(root, "gpu_models", ccl_i_constants_gpu_model, b, err));
    CCL_TRY(read_devices(ctx, root, b, err));
    CCL_TRY(read_links(root, b, edges, err));
    CCL_TRY(read_groups(root, b, edges, err));
    CCL_TRY(read_entries(root, "transports", ccl_i_constants_transport, b, err));
    uint32_t device;
    ccl_error_t local = CCL_ERROR_INIT;
    ccl_status_t status = ccl_i_topology_builder_finish(b, out, &device, &local);
    ccl_json_at_t at = ccl_json_member(root, "devices");
    if (device != CCL_NONE)
        at = ccl_json_element(&at, device);
    return ccl_i_constants_at(&at, status, &local, err);
}

ccl_status_t ccl_i_topology_read_explicit(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc,
                                          ccl_topology_t **out, ccl_error_t *err) {
    static const char *const keys[] = {"format",     "name",       "source", "note",
                                       "profile",    "devices",    "links",  "groups",
                                       "transports", "gpu_models", NULL};
    ccl_json_at_t root = ccl_json_root(doc);
    CCL_TRY(ccl_json_object(&root, true, err));
    char title[121];
    ccl_file_title(doc->name, title, sizeof title);
    const char *format = NULL, *name = title, *source = "", *note = "";
    const char *own_profile = "";
    ccl_json_at_t v = ccl_json_member(&root, "format");
    CCL_TRY(ccl_json_string(&v, true, &format, err));
    if (strcmp(format, "ccllab-topology-1") != 0)
        return ccl_json_fail(&v, err, "format \"%.60s\"; \"ccllab-topology-1\"", format);
    CCL_TRY(ccl_json_only(&root, keys, err));
    v = ccl_json_member(&root, "name");
    CCL_TRY(ccl_json_name(&v, false, &name, err));
    v = ccl_json_member(&root, "source");
    CCL_TRY(ccl_json_string(&v, false, &source, err));
    v = ccl_json_member(&root, "note");
    CCL_TRY(ccl_json_string(&v, false, &note, err));
    v = ccl_json_member(&root, "profile");
    CCL_TRY(ccl_json_string(&v, false, &own_profile, err));
    ccl_topology_builder_t *b = ccl_topology_builder_create(name);
    if (!b)
        return ccl_fail_nomem(err);
    ccl_topology_builder_about(b, source, note);
    ccl_i_topology_builder_own_profile(b, own_profile);
    edges_t edges = {0};
    ccl_status_t status = build(ctx, &root, b, &edges, out, err);
    free(edges.list);
    ccl_topology_builder_destroy(b);
    return status;
}

ccl_status_t ccl_topology_read_json(const ccl_ctx_t *ctx, const char *name, const char *text,
                                    size_t len, ccl_topology_t **out, ccl_error_t *err) {
    ccl_json_doc_t doc;
    CCL_TRY(ccl_json_parse(name, text, len, &doc, err));
    ccl_status_t status = ccl_i_topology_read_explicit(ctx, &doc, out, err);
    ccl_json_fini(&doc);
    return status;
}
