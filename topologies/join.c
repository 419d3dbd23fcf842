/* Node topologies side by side, joined by a fabric through their net links. */
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"
#include "topologies/topologies.h"

#define MAX_NODES 4096u
#define MAX_GPUS 65536u
#define MAX_SPEC_BYTES 4096u

typedef struct joiner {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *const *nodes;
    uint32_t n;
    bool rail, sharp;
    ccl_topology_builder_t *b;
    ccl_error_t *err;
    uint32_t *index;  /* device of the node at work to builder device; CCL_NONE: its old fabric */
    uint32_t *link;   /* link of the node at work to builder link */
    uint32_t *rails;  /* builder devices */
    double *rail_Bps; /* sum of what leaves the nodes into each rail */
    uint32_t nrails;
    uint32_t nlinks, first_rank;
    ccl_strmap_t *model_node; /* GPU model to the node that brought it */
    ccl_strmap_t *transports; /* kind and protocol to index in given */
    const ccl_transport_spec_t **given;
    size_t given_cap;
    uint32_t ntransports;
} joiner_t;

/* A switch of the node's own fabric: outside all servers, nothing but net links. */
static void find_fabric(const ccl_topology_t *node, bool *fabric) {
    for (uint32_t d = 0; d < node->ndevices; d++)
        fabric[d] =
            node->devices[d].kind == CCL_DEVICE_SWITCH && node->devices[d].server == CCL_NONE;
    for (uint32_t l = 0; l < node->nlinks; l++) {
        const ccl_link_t *link = &node->links[l];
        if (strcmp(node->kinds[link->kind], "net") != 0)
            fabric[link->from] = fabric[link->to] = false;
    }
}

/* The number of a net link's port among its node's: by device, in order of appearance. */
static uint32_t port_of(uint32_t device, uint32_t *ports, uint32_t *nports) {
    for (uint32_t i = 0; i < *nports; i++)
        if (ports[i] == device)
            return i;
    ports[*nports] = device;
    return (*nports)++;
}

static ccl_status_t make_able(joiner_t *j, uint32_t device) {
    return j->sharp ? ccl_topology_builder_abilities(j->b, device, &ccl_i_able_both, j->err)
                    : CCL_OK;
}

static ccl_status_t rail_switch(joiner_t *j, uint32_t port, uint32_t *out) {
    uint32_t rail = j->rail ? port : 0;
    while (j->nrails <= rail) {
        char id[40];
        snprintf(id, sizeof(id), j->rail ? "fabric/rail%u" : "fabric", j->nrails);
        CCL_TRY(ccl_topology_builder_device(j->b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE, NULL,
                                            &j->rails[j->nrails], j->err));
        CCL_TRY(make_able(j, j->rails[j->nrails]));
        j->nrails++;
    }
    *out = rail;
    return CCL_OK;
}

static bool same_launches(const ccl_gpu_model_t *a, const ccl_gpu_model_t *b) {
    bool same = a->launch_s == b->launch_s && a->launches == b->launches;
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        same &= !(a->launches & 1u << p) || a->protocol_launch_s[p] == b->protocol_launch_s[p];
    return same;
}

static bool same_model(const ccl_gpu_model_t *a, const ccl_gpu_model_t *b) {
    return strcmp(a->vendor, b->vendor) == 0 && a->sms == b->sms &&
           a->copy_rate_Bps == b->copy_rate_Bps && a->reduce_rate_Bps == b->reduce_rate_Bps &&
           a->overhead_s == b->overhead_s && a->flag_s == b->flag_s && same_launches(a, b);
}

static const ccl_gpu_model_t *model_named(const ccl_topology_t *topo, const char *name) {
    for (uint32_t m = 0; m < topo->ngpu_models; m++)
        if (strcmp(topo->gpu_models[m].name, name) == 0)
            return &topo->gpu_models[m];
    return NULL;
}

/* Models of one name must be the same model, or results would depend on the order of the nodes. */
static ccl_status_t add_models(joiner_t *j, uint32_t at) {
    const ccl_topology_t *node = j->nodes[at];
    for (uint32_t m = 0; m < node->ngpu_models; m++) {
        const ccl_gpu_model_t *model = &node->gpu_models[m];
        uint32_t first = ccl_strmap_get(j->model_node, model->name);
        if (first == CCL_NONE) {
            CCL_TRY(ccl_topology_builder_gpu_model(j->b, model, j->err));
            if (!ccl_strmap_put(j->model_node, model->name, at))
                return ccl_fail_nomem(j->err);
        } else if (!same_model(model, model_named(j->nodes[first], model->name))) {
            return ccl_fail(
                j->err, CCL_ERR_INPUT,
                "gpu model %.100s differs between nodes %u and %u; give it another name "
                "in one of them",
                model->name, first, at);
        }
    }
    return CCL_OK;
}

static bool same_transport(const ccl_transport_spec_t *a, const ccl_transport_spec_t *b) {
    const ccl_transport_t *x = &a->value, *y = &b->value;
    return a->given == b->given && x->overhead_s == y->overhead_s && x->latency_s == y->latency_s &&
           x->tb_rate_Bps == y->tb_rate_Bps && x->slice_bytes == y->slice_bytes &&
           x->piece_bytes == y->piece_bytes && x->slices == y->slices && x->slots == y->slots &&
           x->direct == y->direct && x->holds_tb == y->holds_tb && x->mechanism == y->mechanism &&
           x->copy_in_Bps == y->copy_in_Bps && x->copy_out_Bps == y->copy_out_Bps &&
           x->wire == y->wire && x->message_s == y->message_s &&
           x->message_bytes == y->message_bytes;
}

/* Its name: "net", "net LL". */
static bool transport_name(const ccl_transport_spec_t *spec, ccl_text_t *out) {
    ccl_text_printf(out, "%s%s%s", spec->kind, spec->protocol ? " " : "",
                    spec->protocol ? spec->protocol : "");
    return !out->nomem;
}

static ccl_status_t add_transport(joiner_t *j, const ccl_transport_spec_t *spec, const char *name) {
    if (!ccl_grow(&j->given, &j->given_cap, (size_t)j->ntransports + 1, sizeof(*j->given)) ||
        !ccl_strmap_put(j->transports, name, j->ntransports))
        return ccl_fail_nomem(j->err);
    j->given[j->ntransports++] = spec;
    return ccl_topology_builder_transport(j->b, spec, j->err);
}

/* Transports belong to a link kind, not to a node: the first node that has one gives it. */
static ccl_status_t add_transports(joiner_t *j, uint32_t at) {
    const ccl_topology_t *node = j->nodes[at];
    ccl_text_t unlike = {0};
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < node->ntransports && status == CCL_OK; i++) {
        const ccl_transport_spec_t *spec = &node->transports[i];
        ccl_text_t name = {0};
        if (!transport_name(spec, &name)) {
            status = ccl_fail_nomem(j->err);
        } else {
            uint32_t before = ccl_strmap_get(j->transports, name.data);
            if (before == CCL_NONE)
                status = add_transport(j, spec, name.data);
            else if (!same_transport(j->given[before], spec))
                ccl_text_printf(&unlike, "%s%s", unlike.len ? ", " : "", name.data);
        }
        ccl_text_fini(&name);
    }
    if (unlike.len && !unlike.nomem)
        ccl_log(j->ctx, CCL_LOG_WARN, "join",
                "node %u has other transports than an earlier node, whose count: %s", at,
                unlike.data);
    ccl_text_fini(&unlike);
    CCL_TRY(status);
    return CCL_OK;
}

static ccl_status_t add_devices(joiner_t *j, uint32_t at, const bool *fabric) {
    const ccl_topology_t *node = j->nodes[at];
    for (uint32_t d = 0; d < node->ndevices; d++) {
        const ccl_device_t *dev = &node->devices[d];
        char id[300], server[300];
        j->index[d] = CCL_NONE;
        if (fabric[d])
            continue;
        snprintf(id, sizeof(id), "n%u/%s", at, dev->id);
        snprintf(server, sizeof(server), "n%u%s%s", at, dev->server == CCL_NONE ? "" : "/",
                 dev->server == CCL_NONE ? "" : node->servers[dev->server]);
        CCL_TRY(ccl_topology_builder_device(
            j->b, id, dev->kind, server,
            dev->kind == CCL_DEVICE_GPU ? j->first_rank + dev->rank : CCL_NONE,
            dev->model == CCL_NONE ? NULL : node->gpu_models[dev->model].name, &j->index[d],
            j->err));
        CCL_TRY(ccl_topology_builder_abilities(j->b, j->index[d], dev, j->err));
    }
    j->first_rank += node->nranks;
    return CCL_OK;
}

static ccl_status_t add_links(joiner_t *j, uint32_t at, uint32_t *ports) {
    const ccl_topology_t *node = j->nodes[at];
    uint32_t nports = 0;
    for (uint32_t l = 0; l < node->nlinks; l++) {
        const ccl_link_t *link = &node->links[l];
        uint32_t from = j->index[link->from], to = j->index[link->to], rail;
        j->link[l] = CCL_NONE;
        if (from == CCL_NONE && to == CCL_NONE)
            continue; /* inside the old fabric */
        if (to == CCL_NONE) {
            CCL_TRY(rail_switch(j, port_of(link->from, ports, &nports), &rail));
            to = j->rails[rail];
            j->rail_Bps[rail] += link->bandwidth_Bps;
        } else if (from == CCL_NONE) {
            CCL_TRY(rail_switch(j, port_of(link->to, ports, &nports), &rail));
            from = j->rails[rail];
        }
        j->link[l] = j->nlinks++;
        CCL_TRY(ccl_topology_builder_link(j->b, from, to, node->kinds[link->kind],
                                          link->bandwidth_Bps, link->latency_s, link->lanes,
                                          link->contention, j->err));
    }
    if (nports == 0 && j->n > 1)
        return ccl_fail(j->err, CCL_ERR_INPUT,
                        "node %u (%.100s) has no net links to a fabric, so nothing can join it to "
                        "the others: a server wants \"ports\", a cluster NICs with net links to a "
                        "switch outside its servers",
                        at, node->name);
    return CCL_OK;
}

static ccl_status_t add_groups(joiner_t *j, uint32_t at) {
    const ccl_topology_t *node = j->nodes[at];
    for (uint32_t g = 0; g < node->ngroups; g++) {
        const ccl_group_t *group = &node->groups[g];
        uint32_t *links = malloc(((size_t)group->nlinks + 1) * sizeof(*links)), n = 0;
        if (!links)
            return ccl_fail_nomem(j->err);
        for (uint32_t i = 0; i < group->nlinks; i++)
            if (j->link[group->links[i]] != CCL_NONE)
                links[n++] = j->link[group->links[i]];
        char name[300];
        snprintf(name, sizeof(name), "n%u/%s", at, group->name);
        ccl_status_t status =
            n ? ccl_topology_builder_group(j->b, name, group->bandwidth_Bps, links, n, j->err)
              : CCL_OK;
        free(links);
        CCL_TRY(status);
    }
    return CCL_OK;
}

static ccl_status_t add_node(joiner_t *j, uint32_t at) {
    const ccl_topology_t *node = j->nodes[at];
    bool *fabric = calloc((size_t)node->ndevices + 1, sizeof(*fabric));
    uint32_t *ports = calloc((size_t)node->ndevices + 1, sizeof(*ports));
    j->index = calloc((size_t)node->ndevices + 1, sizeof(*j->index));
    j->link = calloc((size_t)node->nlinks + 1, sizeof(*j->link));
    ccl_status_t status = CCL_OK;
    if (fabric && ports && j->index && j->link) {
        find_fabric(node, fabric);
        status = add_devices(j, at, fabric);
        if (status == CCL_OK)
            status = add_links(j, at, ports);
        if (status == CCL_OK)
            status = add_groups(j, at);
    } else {
        status = ccl_fail_nomem(j->err);
    }
    free(fabric);
    free(ports);
    free(j->index);
    free(j->link);
    return status;
}

static ccl_status_t add_spine(joiner_t *j) {
    uint32_t spine;
    if (!j->rail || j->nrails < 2)
        return CCL_OK;
    CCL_TRY(ccl_topology_builder_device(j->b, "fabric/spine", CCL_DEVICE_SWITCH, NULL, CCL_NONE,
                                        NULL, &spine, j->err));
    CCL_TRY(make_able(j, spine));
    for (uint32_t r = 0; r < j->nrails; r++)
        if (j->rail_Bps[r] > 0)
            CCL_TRY(ccl_topology_builder_duplex(j->b, j->rails[r], spine, "net", j->rail_Bps[r], 0,
                                                1, 0, j->err));
    return CCL_OK;
}

/* What all nodes name as their own; NULL: they do not agree, or there is none. */
static const char *own_profile(const joiner_t *j) {
    for (uint32_t at = 1; at < j->n; at++)
        if (strcmp(j->nodes[at]->own_profile, j->nodes[0]->own_profile) != 0)
            return NULL;
    return j->nodes[0]->own_profile;
}

static ccl_status_t join_all(joiner_t *j, ccl_topology_t **out) {
    for (uint32_t at = 0; at < j->n; at++) {
        /* The same topology again brings no models and transports of its own. */
        if (at == 0 || j->nodes[at] != j->nodes[at - 1]) {
            CCL_TRY(add_models(j, at));
            CCL_TRY(add_transports(j, at));
        }
    }
    for (uint32_t at = 0; at < j->n; at++) {
        CCL_TRY(ccl_ctx_poll(j->ctx, NULL));
        CCL_TRY(add_node(j, at));
    }
    CCL_TRY(add_spine(j));
    ccl_i_topology_builder_own_profile(j->b, own_profile(j));
    return ccl_topology_builder_finish(j->b, out, j->err);
}

/* "dgx*4+hgx" of the nodes in order. */
static void default_name(const ccl_topology_t *const *nodes, uint32_t n, char *out, size_t size) {
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t i = 0, k; i < n && len + 1 < size; i += k) {
        for (k = 1; i + k < n && nodes[i + k] == nodes[i];)
            k++;
        int m = snprintf(out + len, size - len, "%s%.60s", i ? "+" : "", nodes[i]->name);
        len += m > 0 ? (size_t)m : 0;
        if (k > 1 && len < size) {
            m = snprintf(out + len, size - len, "*%u", k);
            len += m > 0 ? (size_t)m : 0;
        }
    }
}

ccl_status_t ccl_topology_join(const ccl_ctx_t *ctx, const ccl_topology_t *const *nodes, uint32_t n,
                               const ccl_topology_join_options_t *options, ccl_topology_t **out,
                               ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_topology_join_options_t, options, err);
    ccl_topology_join_options_t defaults = CCL_TOPOLOGY_JOIN_OPTIONS_INIT;
    uint64_t ndevices = 0, nlinks = 0, nranks = 0;
    char name[200];
    if (!options)
        options = &defaults;
    if (n == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "no node to join");
    if (n > MAX_NODES)
        return ccl_fail(err, CCL_ERR_INPUT, "%u nodes, more than %u", n, MAX_NODES);
    for (uint32_t i = 0; i < n; i++) {
        ndevices += nodes[i]->ndevices;
        nlinks += nodes[i]->nlinks;
        nranks += nodes[i]->nranks;
    }
    if (ndevices > CCL_I_MAX_DEVICES || nlinks > CCL_I_MAX_LINKS / 4 || nranks > MAX_GPUS)
        return ccl_fail(
            err, CCL_ERR_INPUT, "%llu gpus, %llu devices and %llu links, more than %u, %u and %u",
            (unsigned long long)nranks, (unsigned long long)ndevices, (unsigned long long)nlinks,
            MAX_GPUS, CCL_I_MAX_DEVICES, CCL_I_MAX_LINKS / 4);
    default_name(nodes, n, name, sizeof(name));
    joiner_t j = {.ctx = ctx,
                  .nodes = nodes,
                  .n = n,
                  .rail = options->fabric == CCL_JOIN_RAIL,
                  .sharp = options->sharp,
                  .err = err};
    j.b = ccl_topology_builder_create(options->name ? options->name : name);
    j.model_node = ccl_strmap_create();
    j.transports = ccl_strmap_create();
    j.rails = calloc((size_t)ndevices + 1, sizeof(*j.rails));
    j.rail_Bps = calloc((size_t)ndevices + 1, sizeof(*j.rail_Bps));
    ccl_status_t status = CCL_OK;
    if (j.b && j.model_node && j.transports && j.rails && j.rail_Bps) {
        ccl_topology_builder_about(j.b, nodes[0]->source, nodes[0]->note);
        status = join_all(&j, out);
    } else {
        status = ccl_fail_nomem(err);
    }
    ccl_topology_builder_destroy(j.b);
    ccl_strmap_destroy(j.model_node);
    ccl_strmap_destroy(j.transports);
    free(j.given);
    free(j.rails);
    free(j.rail_Bps);
    return status;
}

/* ---------------------------------------------------------------- "A.xml*4+B.xml,fabric=rail" */

static bool ends_in(const char *text, size_t len, const char *end) {
    size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

/* Length of "*digits" at the end of text[0..len); 0: none. */
static size_t count_len(const char *text, size_t len) {
    size_t digits = 0;
    while (digits < len && text[len - 1 - digits] >= '0' && text[len - 1 - digits] <= '9')
        digits++;
    return digits && digits < len && text[len - 1 - digits] == '*' ? digits + 1 : 0;
}

static bool is_library(const char *text, size_t len) {
    char name[128];
    if (len >= sizeof name)
        return false;
    memcpy(name, text, len);
    name[len] = '\0';
    return ccl_topology_library_find(name) != NULL;
}

/* Where the first node of the word ends: at a "+" that parts nodes (names may hold one: "4+8"). */
static size_t node_len(const char *text, size_t len) {
    if (is_library(text, len))
        return len;
    for (size_t i = 1; i < len; i++)
        if (text[i] == '+' && (ends_in(text, i, ".xml") || ends_in(text, i, ".json") ||
                               count_len(text, i) || is_library(text, i)))
            return i;
    return len;
}

/* "A.xml*4,fabric=rail,sharp"; one-liners put a blank there, so a blank will do. */
static size_t without_fabric(const char *spec, const char **fabric) {
    size_t len = strlen(spec), at = len;
    *fabric = NULL;
    if (ends_in(spec, len, ",sharp"))
        at -= strlen(",sharp");
    while (at > 0 && spec[at - 1] != ',' && spec[at - 1] != ' ')
        at--;
    if (at == 0 || strncmp(spec + at, "fabric=", 7) != 0)
        return len;
    *fabric = spec + at + 7;
    return at - 1;
}

bool ccl_topology_is_nodes(const char *spec) {
    const char *fabric;
    if (!spec)
        return false;
    size_t len = without_fabric(spec, &fabric);
    if (len == 0 || strcspn(spec, " \t\n") < len)
        return false;
    /* "gpus:8 fabric=rail" is a one-liner. */
    return (fabric && spec[len] == ',') || count_len(spec, len) || node_len(spec, len) < len;
}

typedef struct node_list {
    ccl_topology_t *own[64]; /* each node that was read */
    uint32_t nown;
    const ccl_topology_t **all; /* with counts */
    uint32_t nall;
    size_t cap;
} node_list_t;

static ccl_status_t read_part(const ccl_ctx_t *ctx, const char *part, size_t len, node_list_t *list,
                              ccl_error_t *err) {
    size_t count_bytes = count_len(part, len);
    unsigned long count = 1;
    char name[MAX_SPEC_BYTES];
    if (count_bytes)
        count = count_bytes <= 6 ? strtoul(part + len - count_bytes + 1, NULL, 10) : MAX_NODES + 1;
    if (count < 1 || count > MAX_NODES - list->nall)
        return ccl_fail(err, CCL_ERR_INPUT, "\"%.*s\": 1 to %u nodes in all",
                        (int)(len < 200 ? len : 200), part, MAX_NODES);
    len -= count_bytes;
    if (len == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "a node without a name, such as A.xml in A.xml*4");
    if (list->nown == CCL_ARRAY_LEN(list->own))
        return ccl_fail(err, CCL_ERR_INPUT, "more than %zu different nodes",
                        CCL_ARRAY_LEN(list->own));
    memcpy(name, part, len);
    name[len] = '\0';
    if (ccl_topology_is_nodes(name))
        return ccl_fail(err, CCL_ERR_INPUT, "\"%.200s\" is no node; one count a node", name);
    CCL_TRY(ccl_i_topology_read_node(ctx, name, &list->own[list->nown], err));
    list->nown++;
    if (!ccl_grow(&list->all, &list->cap, list->nall + count, sizeof(*list->all)))
        return ccl_fail_nomem(err);
    while (count-- > 0)
        list->all[list->nall++] = list->own[list->nown - 1];
    return CCL_OK;
}

static ccl_status_t read_parts(const ccl_ctx_t *ctx, const char *spec, node_list_t *list,
                               ccl_topology_t **out, ccl_error_t *err) {
    ccl_topology_join_options_t options = CCL_TOPOLOGY_JOIN_OPTIONS_INIT;
    const char *fabric;
    size_t len = without_fabric(spec, &fabric), at = 0;
    size_t word = fabric ? strcspn(fabric, ",") : 0; /* only ",sharp" may follow */
    options.sharp = fabric && fabric[word] == ',';
    if (fabric && word == 4 && strncmp(fabric, "rail", word) == 0)
        options.fabric = CCL_JOIN_RAIL;
    else if (fabric && (word != 6 || strncmp(fabric, "single", word) != 0))
        return ccl_fail(err, CCL_ERR_INPUT, "fabric \"%.40s\" is neither single nor rail", fabric);
    while (at < len) {
        size_t n = node_len(spec + at, len - at);
        CCL_TRY(read_part(ctx, spec + at, n, list, err));
        at += n;
        if (at < len && ++at == len)
            return ccl_fail(err, CCL_ERR_INPUT, "nothing behind the last \"+\" of \"%.200s\"",
                            spec);
    }
    return ccl_topology_join(ctx, list->all, list->nall, &options, out, err);
}

ccl_status_t ccl_topology_read_nodes(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out,
                                     ccl_error_t *err) {
    if (!ccl_topology_is_nodes(spec))
        return ccl_fail(err, CCL_ERR_INPUT, "\"%.200s\" is not of the form A.xml*4 or A.xml+B.xml",
                        spec ? spec : "");
    if (strlen(spec) >= MAX_SPEC_BYTES)
        return ccl_fail(err, CCL_ERR_INPUT, "a list of nodes of more than %u bytes",
                        MAX_SPEC_BYTES);
    node_list_t list = {.nown = 0};
    ccl_status_t status = read_parts(ctx, spec, &list, out, err);
    for (uint32_t i = 0; i < list.nown; i++)
        ccl_topology_destroy(list.own[i]);
    free(list.all);
    return status;
}
