/* Collects the parts of a topology and checks them on the way. */
#include "topologies/builder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

static const char *const device_kind_names[] = {"gpu", "switch", "nic", "host"};

const char *ccl_i_device_kind_name(ccl_device_kind_t kind) {
    return (size_t)kind < CCL_ARRAY_LEN(device_kind_names) ? device_kind_names[kind] : "?";
}

bool ccl_i_device_kind_parse(const char *word, ccl_device_kind_t *out) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(device_kind_names); i++) {
        if (strcmp(word, device_kind_names[i]) == 0) {
            *out = (ccl_device_kind_t)i;
            return true;
        }
    }
    return false;
}

/* Length of the well-formed UTF-8 sequence at s that shows something, 0 when there is none. */
static size_t printable_len(const unsigned char *s) {
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    size_t n = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
               : s[0] >= 0xe0 && s[0] <= 0xef ? 3
               : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                              : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* Names go into JSON and into one-line messages, so they must be printable text. */
static ccl_status_t name_check(const char *what, const char *name, ccl_error_t *err) {
    if (!name || !*name)
        return ccl_fail(err, CCL_ERR_INPUT, "empty %s", what);
    if (strlen(name) > CCL_I_MAX_ID_BYTES)
        return ccl_fail(err, CCL_ERR_INPUT, "%s \"%.32s...\" is longer than %d bytes", what, name,
                        CCL_I_MAX_ID_BYTES);
    const unsigned char *s = (const unsigned char *)name;
    while (*s) {
        size_t n = printable_len(s);
        if (n == 0)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "%s has a control character or broken UTF-8 at byte %zu", what,
                            (size_t)(s - (const unsigned char *)name) + 1);
        s += n;
    }
    return CCL_OK;
}

/* Free text keeps line breaks and tabs; bytes that are no text become '?'. */
static const char *free_text(ccl_topology_builder_t *b, const char *text) {
    char *copy = ccl_arena_strdup(&b->arena, text ? text : "");
    if (!copy) {
        b->nomem = true;
        return "";
    }
    unsigned char *s = (unsigned char *)copy;
    while (*s) {
        size_t n = printable_len(s);
        if (n == 0) {
            if (*s != '\n' && *s != '\t')
                *s = '?';
            n = 1;
        }
        s += n;
    }
    return copy;
}

ccl_topology_builder_t *ccl_topology_builder_create(const char *name) {
    ccl_topology_builder_t *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    ccl_arena_init(&b->arena);
    b->device_ids = ccl_strmap_create();
    b->server_ids = ccl_strmap_create();
    b->kind_ids = ccl_strmap_create();
    b->model_ids = ccl_strmap_create();
    b->group_names = ccl_strmap_create();
    b->name = free_text(b, name);
    b->source = b->note = b->profile = b->profile_about = b->own_profile = "";
    if (!b->device_ids || !b->server_ids || !b->kind_ids || !b->model_ids || !b->group_names ||
        b->nomem) {
        ccl_topology_builder_destroy(b);
        return NULL;
    }
    return b;
}

void ccl_topology_builder_destroy(ccl_topology_builder_t *b) {
    if (!b)
        return;
    ccl_strmap_destroy(b->device_ids);
    ccl_strmap_destroy(b->server_ids);
    ccl_strmap_destroy(b->kind_ids);
    ccl_strmap_destroy(b->model_ids);
    ccl_strmap_destroy(b->group_names);
    free(b->devices);
    free(b->links);
    free(b->groups);
    free(b->servers);
    free(b->kinds);
    free(b->transports);
    free(b->models);
    free(b->model_defined);
    free(b->link_stamp);
    ccl_arena_fini(&b->arena);
    free(b);
}

void ccl_topology_builder_about(ccl_topology_builder_t *b, const char *source, const char *note) {
    b->source = free_text(b, source);
    b->note = free_text(b, note);
}

void ccl_topology_builder_profile(ccl_topology_builder_t *b, const char *name, const char *about) {
    b->profile = free_text(b, name);
    b->profile_about = free_text(b, about);
}

void ccl_i_topology_builder_own_profile(ccl_topology_builder_t *b, const char *name) {
    b->own_profile = free_text(b, name);
}

uint32_t ccl_topology_builder_find(const ccl_topology_builder_t *b, const char *id) {
    return ccl_strmap_get(b->device_ids, id);
}

/* A list of names of the builder. */
typedef struct names {
    const char *what;
    ccl_strmap_t *map;
    const char ***list;
    size_t *len, *cap;
} names_t;

/* Index of a name in a list of names, added when new. */
static ccl_status_t intern(ccl_topology_builder_t *b, names_t in, const char *name,
                           uint32_t *index_out, ccl_error_t *err) {
    uint32_t index = ccl_strmap_get(in.map, name);
    if (index == CCL_NONE) {
        CCL_TRY(name_check(in.what, name, err));
        const char *copy = ccl_arena_strdup(&b->arena, name);
        if (!copy || !ccl_grow(in.list, in.cap, *in.len + 1, sizeof **in.list) ||
            !ccl_strmap_put(in.map, name, (uint32_t)*in.len))
            return ccl_fail_nomem(err);
        index = (uint32_t)*in.len;
        (*in.list)[(*in.len)++] = copy;
    }
    *index_out = index;
    return CCL_OK;
}

ccl_gpu_model_t ccl_gpu_model_default(const char *name) {
    return (ccl_gpu_model_t){
        .name = name, .vendor = "", .copy_rate_Bps = INFINITY, .reduce_rate_Bps = INFINITY};
}

static ccl_status_t model_add(ccl_topology_builder_t *b, const ccl_gpu_model_t *model, bool defined,
                              uint32_t *index_out, ccl_error_t *err) {
    ccl_gpu_model_t copy = *model;
    copy.name = ccl_arena_strdup(&b->arena, model->name);
    copy.vendor = ccl_arena_strdup(&b->arena, model->vendor ? model->vendor : "");
    if (!copy.name || !copy.vendor ||
        !ccl_grow(&b->models, &b->cmodels, b->nmodels + 1, sizeof *b->models) ||
        !ccl_grow(&b->model_defined, &b->cdefined, b->nmodels + 1, sizeof *b->model_defined) ||
        !ccl_strmap_put(b->model_ids, model->name, (uint32_t)b->nmodels))
        return ccl_fail_nomem(err);
    b->models[b->nmodels] = copy;
    b->model_defined[b->nmodels] = defined;
    *index_out = (uint32_t)b->nmodels++;
    return CCL_OK;
}

ccl_status_t ccl_topology_builder_device(ccl_topology_builder_t *b, const char *id,
                                         ccl_device_kind_t kind, const char *server, uint32_t rank,
                                         const char *model, uint32_t *index_out, ccl_error_t *err) {
    CCL_TRY(name_check("device id", id, err));
    if (ccl_strmap_get(b->device_ids, id) != CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "duplicate device id \"%s\"", id);
    if ((size_t)kind >= CCL_ARRAY_LEN(device_kind_names))
        return ccl_fail(err, CCL_ERR_INPUT, "device \"%s\" has no known kind", id);
    if (kind == CCL_DEVICE_GPU && rank == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "gpu \"%s\" has no rank", id);
    if (kind != CCL_DEVICE_GPU && rank != CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "%s \"%s\" has a rank, but only gpus have ranks",
                        ccl_i_device_kind_name(kind), id);
    if (b->ndevices >= CCL_I_MAX_DEVICES)
        return ccl_fail(err, CCL_ERR_INPUT, "more than %u devices", CCL_I_MAX_DEVICES);
    ccl_device_t device = {.kind = kind,
                           .server = CCL_NONE,
                           .rank = rank,
                           .model = CCL_NONE,
                           .reduce_rate_Bps = INFINITY};
    if (server)
        CCL_TRY(intern(
            b, (names_t){"server name", b->server_ids, &b->servers, &b->nservers, &b->cservers},
            server, &device.server, err));
    if (model) {
        CCL_TRY(name_check("model name", model, err));
        device.model = ccl_strmap_get(b->model_ids, model);
        if (device.model == CCL_NONE) {
            ccl_gpu_model_t fallback = ccl_gpu_model_default(model);
            CCL_TRY(model_add(b, &fallback, false, &device.model, err));
        }
    }
    device.id = ccl_arena_strdup(&b->arena, id);
    if (!device.id || !ccl_grow(&b->devices, &b->cdevices, b->ndevices + 1, sizeof device) ||
        !ccl_strmap_put(b->device_ids, id, (uint32_t)b->ndevices))
        return ccl_fail_nomem(err);
    b->devices[b->ndevices] = device;
    b->ngpus += kind == CCL_DEVICE_GPU;
    if (index_out)
        *index_out = (uint32_t)b->ndevices;
    b->ndevices++;
    return CCL_OK;
}

static ccl_status_t rate_check(const char *what, double Bps, ccl_error_t *err) {
    if (!(Bps > 0) || !isfinite(Bps))
        return ccl_fail(err, CCL_ERR_INPUT, "%s %g B/s is not a positive, finite rate", what, Bps);
    return CCL_OK;
}

static ccl_status_t time_check(const char *what, double s, ccl_error_t *err) {
    if (!(s >= 0) || !isfinite(s))
        return ccl_fail(err, CCL_ERR_INPUT, "%s %g s is negative or not finite", what, s);
    return CCL_OK;
}

ccl_status_t ccl_topology_builder_link(ccl_topology_builder_t *b, uint32_t from, uint32_t to,
                                       const char *kind, double bandwidth_Bps, double latency_s,
                                       uint32_t lanes, double contention, ccl_error_t *err) {
    if (from >= b->ndevices || to >= b->ndevices)
        return ccl_fail(err, CCL_ERR_INPUT, "link end %u, but there are %zu devices",
                        from >= b->ndevices ? from : to, b->ndevices);
    if (from == to)
        return ccl_fail(err, CCL_ERR_INPUT, "link from \"%s\" to itself", b->devices[from].id);
    CCL_TRY(rate_check("link bandwidth", bandwidth_Bps, err));
    CCL_TRY(time_check("link latency", latency_s, err));
    if (lanes < 1)
        return ccl_fail(err, CCL_ERR_INPUT, "link with 0 lanes; 1 or more");
    if (!(contention >= 0) || !isfinite(contention))
        return ccl_fail(err, CCL_ERR_INPUT, "contention %g is negative or not finite", contention);
    if (b->nlinks >= CCL_I_MAX_LINKS)
        return ccl_fail(err, CCL_ERR_INPUT, "more than %u links", CCL_I_MAX_LINKS);
    uint32_t kind_index;
    CCL_TRY(intern(b, (names_t){"link kind", b->kind_ids, &b->kinds, &b->nkinds, &b->ckinds}, kind,
                   &kind_index, err));
    if (!ccl_grow(&b->links, &b->clinks, b->nlinks + 1, sizeof *b->links))
        return ccl_fail_nomem(err);
    b->links[b->nlinks++] = (ccl_link_t){.from = from,
                                         .to = to,
                                         .kind = kind_index,
                                         .lanes = lanes,
                                         .bandwidth_Bps = bandwidth_Bps,
                                         .latency_s = latency_s,
                                         .contention = contention};
    return CCL_OK;
}

ccl_status_t ccl_topology_builder_duplex(ccl_topology_builder_t *b, uint32_t from, uint32_t to,
                                         const char *kind, double bandwidth_Bps, double latency_s,
                                         uint32_t lanes, double contention, ccl_error_t *err) {
    CCL_TRY(ccl_topology_builder_link(b, from, to, kind, bandwidth_Bps, latency_s, lanes,
                                      contention, err));
    return ccl_topology_builder_link(b, to, from, kind, bandwidth_Bps, latency_s, lanes, contention,
                                     err);
}

static int u32_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

ccl_status_t ccl_topology_builder_group(ccl_topology_builder_t *b, const char *name,
                                        double bandwidth_Bps, const uint32_t *links,
                                        uint32_t nlinks, ccl_error_t *err) {
    CCL_TRY(name_check("group name", name, err));
    if (ccl_strmap_get(b->group_names, name) != CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "duplicate group \"%s\"", name);
    CCL_TRY(rate_check("group bandwidth", bandwidth_Bps, err));
    if (nlinks == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "group \"%s\" has no links", name);
    if (b->group_links + nlinks > CCL_I_MAX_GROUP_LINKS)
        return ccl_fail(err, CCL_ERR_INPUT, "groups hold more than %zu links together",
                        CCL_I_MAX_GROUP_LINKS);
    if (!ccl_grow(&b->link_stamp, &b->cstamp, b->nlinks, sizeof *b->link_stamp))
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < nlinks; i++)
        if (links[i] >= b->nlinks)
            return ccl_fail(err, CCL_ERR_INPUT, "group \"%s\" names link %u, but there are %zu",
                            name, links[i], b->nlinks);
    uint32_t stamp = (uint32_t)b->ngroups + 1;
    for (uint32_t i = 0; i < nlinks; i++) {
        const ccl_link_t *link = &b->links[links[i]];
        if (b->link_stamp[links[i]] == stamp) {
            for (uint32_t k = 0; k < i; k++) /* a failed group leaves no stamps behind */
                b->link_stamp[links[k]] = 0;
            return ccl_fail(err, CCL_ERR_INPUT, "group \"%s\" names link \"%s\" -> \"%s\" twice",
                            name, b->devices[link->from].id, b->devices[link->to].id);
        }
        b->link_stamp[links[i]] = stamp;
    }
    char *copy = ccl_arena_strdup(&b->arena, name);
    uint32_t *list = ccl_arena_alloc(&b->arena, nlinks, sizeof *list);
    if (!copy || !list || !ccl_grow(&b->groups, &b->cgroups, b->ngroups + 1, sizeof *b->groups) ||
        !ccl_strmap_put(b->group_names, name, (uint32_t)b->ngroups))
        return ccl_fail_nomem(err);
    memcpy(list, links, nlinks * sizeof *list);
    qsort(list, nlinks, sizeof *list, u32_compare); /* a set has one order */
    b->groups[b->ngroups++] = (ccl_group_t){copy, bandwidth_Bps, nlinks, list};
    b->group_links += nlinks;
    return CCL_OK;
}

ccl_transport_t ccl_transport_default(const char *kind) {
    return (ccl_transport_t){
        .tb_rate_Bps = INFINITY,
        .slice_bytes = INFINITY,
        .piece_bytes = INFINITY,
        .slices = 1,
        .slots = 8,
        .direct = true,
        .holds_tb = !kind || (strcmp(kind, "net") != 0 && strcmp(kind, "net-switch") != 0),
        .mechanism = CCL_MECHANISM_DEVICE,
        .copy_in_Bps = INFINITY,
        .copy_out_Bps = INFINITY,
        .wire = 1,
        .message_bytes = INFINITY};
}

const char *ccl_mechanism_name(ccl_mechanism_t mechanism) {
    static const char *const names[] = {"device", "host", "proxy"};
    return names[mechanism];
}

static ccl_status_t positive_check(const char *what, double bytes, ccl_error_t *err) {
    if (!(bytes > 0) || !isfinite(bytes))
        return ccl_fail(err, CCL_ERR_INPUT, "transport %s of %g bytes is not positive and finite",
                        what, bytes);
    return CCL_OK;
}

/* Infinite: a protocol has no limit, whatever the kind's own are, as NCCL's kernels have it. */
static bool is_limit(uint32_t given, double value) {
    return given && value != INFINITY;
}

/* Its name and protocol, and that there is room for one that is not there yet. */
static ccl_status_t transport_key_check(const ccl_topology_builder_t *b,
                                        const ccl_transport_spec_t *spec, ccl_error_t *err) {
    CCL_TRY(name_check("transport kind", spec->kind, err));
    if (spec->protocol && strcmp(spec->protocol, "Simple") != 0 &&
        strcmp(spec->protocol, "LL") != 0 && strcmp(spec->protocol, "LL128") != 0)
        return ccl_fail(err, CCL_ERR_INPUT, "unknown protocol \"%.40s\"; Simple, LL or LL128",
                        spec->protocol);
    if (b->ntransports >= CCL_I_MAX_TRANSPORTS)
        return ccl_fail(err, CCL_ERR_INPUT, "more than %u transports", CCL_I_MAX_TRANSPORTS);
    for (size_t i = 0; i < b->ntransports; i++) {
        const ccl_transport_spec_t *other = &b->transports[i];
        if (strcmp(other->kind, spec->kind) == 0 && !other->protocol == !spec->protocol &&
            (!spec->protocol || strcmp(other->protocol, spec->protocol) == 0))
            return ccl_fail(err, CCL_ERR_INPUT, "duplicate transport \"%s\"%s%s", spec->kind,
                            spec->protocol ? " protocol " : "",
                            spec->protocol ? spec->protocol : "");
    }
    return CCL_OK;
}

static ccl_status_t transport_value_check(const ccl_transport_spec_t *spec, ccl_error_t *err) {
    const ccl_transport_t *value = &spec->value;
    uint32_t given = spec->given;
    if (given & CCL_TRANSPORT_OVERHEAD)
        CCL_TRY(time_check("transport overhead", value->overhead_s, err));
    if (given & CCL_TRANSPORT_LATENCY)
        CCL_TRY(time_check("transport latency", value->latency_s, err));
    if (given & CCL_TRANSPORT_TB_RATE)
        CCL_TRY(rate_check("transport tb_rate", value->tb_rate_Bps, err));
    if (is_limit(given & CCL_TRANSPORT_COPY_IN, value->copy_in_Bps))
        CCL_TRY(rate_check("transport copy_in", value->copy_in_Bps, err));
    if (is_limit(given & CCL_TRANSPORT_COPY_OUT, value->copy_out_Bps))
        CCL_TRY(rate_check("transport copy_out", value->copy_out_Bps, err));
    if (given & CCL_TRANSPORT_MESSAGE)
        CCL_TRY(time_check("transport message", value->message_s, err));
    if (is_limit(given & CCL_TRANSPORT_MESSAGE_SIZE, value->message_bytes))
        CCL_TRY(positive_check("message_size", value->message_bytes, err));
    if ((given & CCL_TRANSPORT_WIRE) && (!(value->wire >= 1) || !isfinite(value->wire)))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "transport wire %g; at least 1 (bytes on links per byte of data)",
                        value->wire);
    if (given & CCL_TRANSPORT_SLICE)
        CCL_TRY(positive_check("slice", value->slice_bytes, err));
    if (is_limit(given & CCL_TRANSPORT_PIECE, value->piece_bytes))
        CCL_TRY(positive_check("piece", value->piece_bytes, err));
    if ((given & CCL_TRANSPORT_SLICES) && value->slices < 1)
        return ccl_fail(err, CCL_ERR_INPUT, "transport with 0 slices; 1 or more");
    if ((given & CCL_TRANSPORT_SLOTS) && value->slots < 1)
        return ccl_fail(err, CCL_ERR_INPUT, "transport with 0 slots; 1 or more");
    return CCL_OK;
}

/* Keys that were not given hold the default, so that equal inputs are equal in memory. */
static ccl_transport_t given_or_default(const ccl_transport_spec_t *spec) {
    ccl_transport_t out = ccl_transport_default(spec->kind);
#define TAKE_(bit_, field_)                                                                        \
    if (spec->given & (bit_))                                                                      \
    out.field_ = spec->value.field_
    TAKE_(CCL_TRANSPORT_OVERHEAD, overhead_s);
    TAKE_(CCL_TRANSPORT_LATENCY, latency_s);
    TAKE_(CCL_TRANSPORT_TB_RATE, tb_rate_Bps);
    TAKE_(CCL_TRANSPORT_SLICE, slice_bytes);
    TAKE_(CCL_TRANSPORT_PIECE, piece_bytes);
    TAKE_(CCL_TRANSPORT_SLICES, slices);
    TAKE_(CCL_TRANSPORT_SLOTS, slots);
    TAKE_(CCL_TRANSPORT_DIRECT, direct);
    TAKE_(CCL_TRANSPORT_HOLDS_TB, holds_tb);
    TAKE_(CCL_TRANSPORT_MECHANISM, mechanism);
    TAKE_(CCL_TRANSPORT_COPY_IN, copy_in_Bps);
    TAKE_(CCL_TRANSPORT_COPY_OUT, copy_out_Bps);
    TAKE_(CCL_TRANSPORT_WIRE, wire);
    TAKE_(CCL_TRANSPORT_MESSAGE, message_s);
    TAKE_(CCL_TRANSPORT_MESSAGE_SIZE, message_bytes);
#undef TAKE_
    return out;
}

ccl_status_t ccl_topology_builder_transport(ccl_topology_builder_t *b,
                                            const ccl_transport_spec_t *spec, ccl_error_t *err) {
    CCL_TRY(transport_key_check(b, spec, err));
    CCL_TRY(transport_value_check(spec, err));
    ccl_transport_spec_t copy = {.kind = ccl_arena_strdup(&b->arena, spec->kind),
                                 .given = spec->given,
                                 .value = given_or_default(spec)};
    if (spec->protocol)
        copy.protocol = ccl_arena_strdup(&b->arena, spec->protocol);
    bool from = spec->slots_from && (spec->given & CCL_TRANSPORT_SLOTS);
    if (from)
        copy.slots_from = ccl_arena_strdup(&b->arena, spec->slots_from);
    if (!copy.kind || (spec->protocol && !copy.protocol) || (from && !copy.slots_from) ||
        !ccl_grow(&b->transports, &b->ctransports, b->ntransports + 1, sizeof copy))
        return ccl_fail_nomem(err);
    b->transports[b->ntransports++] = copy;
    return CCL_OK;
}

/* A GPU model's rate may be absent (INFINITY). */
static ccl_status_t limit_check(const char *what, double Bps, ccl_error_t *err) {
    return Bps == INFINITY ? CCL_OK : rate_check(what, Bps, err);
}

ccl_status_t ccl_topology_builder_gpu_model(ccl_topology_builder_t *b, const ccl_gpu_model_t *model,
                                            ccl_error_t *err) {
    CCL_TRY(name_check("model name", model->name, err));
    if (model->vendor && *model->vendor)
        CCL_TRY(name_check("vendor name", model->vendor, err));
    CCL_TRY(limit_check("model copy_rate", model->copy_rate_Bps, err));
    CCL_TRY(limit_check("model reduce_rate", model->reduce_rate_Bps, err));
    CCL_TRY(time_check("model overhead", model->overhead_s, err));
    CCL_TRY(time_check("model flag", model->flag_s, err));
    CCL_TRY(time_check("model launch", model->launch_s, err));
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        if (model->launches & 1u << p)
            CCL_TRY(time_check("model launch of a protocol", model->protocol_launch_s[p], err));
    uint32_t index = ccl_strmap_get(b->model_ids, model->name);
    if (index == CCL_NONE)
        return model_add(b, model, true, &index, err);
    if (b->model_defined[index])
        return ccl_fail(err, CCL_ERR_INPUT, "duplicate gpu model \"%s\"", model->name);
    /* A device named it before it was described. */
    const char *name = b->models[index].name;
    const char *vendor = ccl_arena_strdup(&b->arena, model->vendor ? model->vendor : "");
    if (!vendor)
        return ccl_fail_nomem(err);
    b->models[index] = *model;
    b->models[index].name = name;
    b->models[index].vendor = vendor;
    b->model_defined[index] = true;
    return CCL_OK;
}
