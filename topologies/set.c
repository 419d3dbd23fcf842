/*
 * What-if edits that give one constant a value: "set:KEY[:KIND]=VALUE".
 *
 * Transports, of one kind of link or of all: the keys of docs/model.md "Connections", with every
 * protocol. Switches, with links of one kind or all: multicast, reduce, in_switch (both). GPU
 * models: blocks (thread blocks, never more than the SMs), reduce_rate, copy_rate, flag, launch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"
#include "topologies/topologies.h"

typedef enum unit {
    UNIT_TIME,
    UNIT_RATE,
    UNIT_BYTES,
    UNIT_COUNT,
    UNIT_BOOL,
    UNIT_RATIO,
    UNIT_MECHANISM
} unit_t;

enum { SWITCH_MULTICAST = 1 << 28, SWITCH_REDUCE = 1 << 29, SWITCH_BOTH = 3 << 28 };

typedef struct constant {
    const char *name;
    unit_t unit;
    uint32_t bit; /* CCL_TRANSPORT_* or of switches, SWITCH_*; 0: of GPU models */
    size_t offset;
} constant_t;

#define TRANSPORT_(bit_, unit_, name_, member_)                                                    \
    { name_, unit_, CCL_TRANSPORT_##bit_, offsetof(ccl_transport_t, member_) }
#define GPU_(unit_, name_, member_)                                                                \
    { name_, unit_, 0, offsetof(ccl_gpu_model_t, member_) }
static const constant_t keys[] = {
    TRANSPORT_(OVERHEAD, UNIT_TIME, "overhead", overhead_s),
    TRANSPORT_(LATENCY, UNIT_TIME, "latency", latency_s),
    TRANSPORT_(TB_RATE, UNIT_RATE, "tb_rate", tb_rate_Bps),
    TRANSPORT_(SLICE, UNIT_BYTES, "slice", slice_bytes),
    TRANSPORT_(SLICES, UNIT_COUNT, "slices", slices),
    TRANSPORT_(PIECE, UNIT_BYTES, "piece", piece_bytes),
    TRANSPORT_(SLOTS, UNIT_COUNT, "slots", slots),
    TRANSPORT_(DIRECT, UNIT_BOOL, "direct", direct),
    TRANSPORT_(HOLDS_TB, UNIT_BOOL, "holds_tb", holds_tb),
    TRANSPORT_(MECHANISM, UNIT_MECHANISM, "mechanism", mechanism),
    TRANSPORT_(COPY_IN, UNIT_RATE, "copy_in", copy_in_Bps),
    TRANSPORT_(COPY_OUT, UNIT_RATE, "copy_out", copy_out_Bps),
    TRANSPORT_(WIRE, UNIT_RATIO, "wire", wire),
    TRANSPORT_(MESSAGE, UNIT_TIME, "message", message_s),
    TRANSPORT_(MESSAGE_SIZE, UNIT_BYTES, "message_size", message_bytes),
    {"multicast", UNIT_BOOL, SWITCH_MULTICAST, 0},
    {"reduce", UNIT_BOOL, SWITCH_REDUCE, 0},
    {"in_switch", UNIT_BOOL, SWITCH_BOTH, 0},
    GPU_(UNIT_COUNT, "blocks", sms),
    GPU_(UNIT_RATE, "copy_rate", copy_rate_Bps),
    GPU_(UNIT_RATE, "reduce_rate", reduce_rate_Bps),
    GPU_(UNIT_TIME, "flag", flag_s),
    GPU_(UNIT_TIME, "launch", launch_s)};
enum { KEYS = CCL_ARRAY_LEN(keys), MOST = 1 << 20 };

typedef union value {
    double number;
    uint32_t count;
    bool yes;
    ccl_mechanism_t mechanism;
} value_t;

static ccl_status_t refuse(const char *edit, const constant_t *key, const char *text,
                           const char *want, ccl_error_t *err) {
    return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "%s \"%.40s\"; %s", key->name, text, want);
}

static ccl_status_t parse_value(const char *edit, const constant_t *key, const char *text,
                                value_t *out, ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_status_t status = CCL_OK;
    bool limit = key->unit == UNIT_RATE || key->unit == UNIT_BYTES;
    char *end = NULL;
    if (limit && strcmp(text, "inf") == 0) {
        out->number = INFINITY;
        return CCL_OK;
    }
    switch (key->unit) {
    case UNIT_TIME:
        status = ccl_parse_time_s(text, &out->number, &inner);
        break;
    case UNIT_RATE:
        status = ccl_parse_rate_Bps(text, &out->number, &inner);
        break;
    case UNIT_BYTES:
        status = ccl_parse_bytes(text, &out->number, &inner);
        break;
    case UNIT_COUNT: {
        unsigned long count = strspn(text, "0123456789") < 9 ? strtoul(text, &end, 10) : 0;
        if (!end || *end || count < 1 || count > MOST)
            return refuse(edit, key, text, "a whole number from 1 to 1048576", err);
        out->count = (uint32_t)count;
        return CCL_OK;
    }
    case UNIT_RATIO:
        out->number = strtod(text, &end);
        if (end == text || *end || !(out->number >= 1) || !isfinite(out->number))
            return refuse(edit, key, text, "a number, at least 1", err);
        return CCL_OK;
    case UNIT_BOOL:
        out->yes = strcmp(text, "true") == 0;
        if (!out->yes && strcmp(text, "false") != 0)
            return refuse(edit, key, text, "true or false", err);
        return CCL_OK;
    case UNIT_MECHANISM:
        for (out->mechanism = CCL_MECHANISM_DEVICE; out->mechanism <= CCL_MECHANISM_PROXY;
             out->mechanism++)
            if (strcmp(text, ccl_mechanism_name(out->mechanism)) == 0)
                return CCL_OK;
        return refuse(edit, key, text, "device, host or proxy", err);
    }
    if (status != CCL_OK)
        return ccl_error_set(err, status, edit, 0, 0, "%s: %.300s%s", key->name, inner.text,
                             limit ? "; inf: no limit" : "");
    if (limit && !(out->number > 0))
        return refuse(edit, key, text, "more than 0, or inf for no limit", err);
    return CCL_OK;
}

static ccl_status_t find_key(const char *edit, const char *text, size_t len, const constant_t **out,
                             ccl_error_t *err) {
    const char *names[KEYS + 1] = {NULL};
    char word[40];
    for (size_t i = 0; i < KEYS; i++) {
        names[i] = keys[i].name;
        if (strlen(names[i]) == len && strncmp(names[i], text, len) == 0) {
            *out = &keys[i];
            return CCL_OK;
        }
    }
    snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), text);
    const char *near = ccl_nearest(word, names);
    ccl_text_t all = {0};
    for (size_t i = 0; i < KEYS; i++)
        ccl_text_printf(&all, "%s%s", i ? ", " : "", names[i]);
    ccl_status_t status =
        ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "nothing called \"%s\" to set; %s%s%s%.300s",
                      word, near ? "nearest is " : "", near ? near : "", near ? "; there are " : "",
                      all.data ? all.data : "");
    ccl_text_fini(&all);
    return status;
}

static void put(const constant_t *key, const value_t *value, void *object) {
    char *at = (char *)object + key->offset;
    switch (key->unit) {
    case UNIT_TIME:
    case UNIT_RATE:
    case UNIT_BYTES:
    case UNIT_RATIO:
        memcpy(at, &value->number, sizeof value->number);
        break;
    case UNIT_COUNT:
        memcpy(at, &value->count, sizeof value->count);
        break;
    case UNIT_BOOL:
        memcpy(at, &value->yes, sizeof value->yes);
        break;
    case UNIT_MECHANISM:
        memcpy(at, &value->mechanism, sizeof value->mechanism);
        break;
    }
}

/* No limit is what a key that is not given means. */
static void give(const constant_t *key, const value_t *value, const char *edit,
                 ccl_transport_spec_t *spec) {
    put(key, value, &spec->value);
    if (key->bit == CCL_TRANSPORT_SLOTS)
        spec->slots_from = edit;
    if ((key->unit == UNIT_RATE || key->unit == UNIT_BYTES) && isinf(value->number))
        spec->given &= ~key->bit;
    else
        spec->given |= key->bit;
}

/* The kind's own key, and that of protocols which have one of their own. @return how many. */
static uint32_t set_transports(const ccl_topology_t *topo, const constant_t *key,
                               const value_t *value, uint32_t only, const char *edit,
                               ccl_transport_spec_t *specs, uint32_t n) {
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        bool own = false;
        if (only != CCL_NONE && only != k)
            continue;
        for (uint32_t i = 0; i < n; i++) {
            if (strcmp(specs[i].kind, topo->kinds[k]) != 0)
                continue;
            own |= !specs[i].protocol;
            if (!specs[i].protocol || (specs[i].given & key->bit))
                give(key, value, edit, &specs[i]);
        }
        if (own)
            continue;
        specs[n] = (ccl_transport_spec_t){.kind = topo->kinds[k],
                                          .value = ccl_transport_default(topo->kinds[k])};
        give(key, value, edit, &specs[n++]);
    }
    return n;
}

/* Every GPU has the constant, those without a model in one made for them. @return how many. */
static uint32_t set_models(const ccl_topology_t *topo, const constant_t *key, const value_t *value,
                           ccl_gpu_model_t *models, ccl_device_t *devices) {
    static const char *const names[] = {"gpu", "gpu without model"};
    uint32_t n = topo->ngpu_models, own = CCL_NONE, word = 0;
    for (uint32_t m = 0; m < n; m++)
        word |= strcmp(models[m].name, names[0]) == 0;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        ccl_device_t *device = &devices[topo->rank_device[r]];
        if (device->model != CCL_NONE)
            continue;
        if (own == CCL_NONE) {
            own = n++;
            models[own] = ccl_gpu_model_default(names[word]);
        }
        device->model = own;
    }
    for (uint32_t m = 0; m < n; m++) {
        bool fewer = key->unit == UNIT_COUNT && models[m].sms && models[m].sms < value->count;
        if (!fewer)
            put(key, value, &models[m]);
        if (key->offset == offsetof(ccl_gpu_model_t, launch_s)) /* of every protocol */
            models[m].launches = 0;
    }
    return n;
}

static void set_switch(const constant_t *key, bool yes, ccl_device_t *device) {
    if (device->kind != CCL_DEVICE_SWITCH)
        return;
    if (key->bit & SWITCH_MULTICAST)
        device->multicast = yes;
    if (key->bit & SWITCH_REDUCE)
        device->reduce = yes;
    if (!device->reduce) {
        device->reduce_rate_Bps = INFINITY;
        device->types = NULL;
    }
    if (!device->reduce && !device->multicast)
        device->groups = 0;
}

/* The switches that links of a kind touch; CCL_NONE: of any. */
static void set_switches(const ccl_topology_t *topo, const constant_t *key, bool yes, uint32_t only,
                         ccl_device_t *devices) {
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        if (only != CCL_NONE && link->kind != only)
            continue;
        set_switch(key, yes, &devices[link->from]);
        set_switch(key, yes, &devices[link->to]);
    }
}

static ccl_status_t parse(const ccl_topology_t *topo, const char *edit, const constant_t **key,
                          value_t *value, uint32_t *kind, ccl_error_t *err) {
    const char *text = edit + strlen("set:"), *equals = strchr(text, '=');
    size_t len = strcspn(text, ":=");
    *kind = CCL_NONE;
    if (!equals)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "no value; KEY[:KIND]=VALUE, such as slice:net=512K");
    CCL_TRY(find_key(edit, text, len, key, err));
    CCL_TRY(parse_value(edit, *key, equals + 1, value, err));
    if (text[len] == '=')
        return CCL_OK;
    const char *name = text + len + 1;
    size_t name_len = (size_t)(equals - name);
    if (!(*key)->bit)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0,
                             "%s is of all GPU models: set %s=VALUE", (*key)->name, (*key)->name);
    for (uint32_t k = 0; k < topo->nkinds; k++)
        if (strncmp(topo->kinds[k], name, name_len) == 0 && topo->kinds[k][name_len] == 0)
            *kind = k;
    if (*kind == CCL_NONE)
        return ccl_error_set(err, CCL_ERR_INPUT, edit, 0, 0, "no kind of link \"%.*s\"",
                             (int)(name_len < 80 ? name_len : 80), name);
    return CCL_OK;
}

ccl_status_t ccl_i_topology_set(const ccl_topology_t *topo, const char *edit, ccl_topology_t *out,
                                ccl_error_t *err) {
    const constant_t *key = NULL;
    value_t value;
    uint32_t kind;
    ccl_arena_t arena = {0};
    CCL_TRY(parse(topo, edit, &key, &value, &kind, err));
    ccl_transport_spec_t *specs =
        ccl_arena_alloc(&arena, (size_t)topo->ntransports + topo->nkinds + 1, sizeof *specs);
    ccl_gpu_model_t *models = ccl_arena_alloc(&arena, topo->ngpu_models + 1u, sizeof *models);
    ccl_device_t *devices = ccl_arena_alloc(&arena, topo->ndevices + 1u, sizeof *devices);
    if (!specs || !models || !devices) {
        ccl_arena_fini(&arena);
        return ccl_fail_nomem(err);
    }
    memcpy(specs, topo->transports, topo->ntransports * sizeof *specs);
    memcpy(models, topo->gpu_models, topo->ngpu_models * sizeof *models);
    memcpy(devices, topo->devices, topo->ndevices * sizeof *devices);
    *out = *topo;
    if (key->bit & SWITCH_BOTH)
        set_switches(topo, key, value.yes, kind, devices);
    else if (key->bit)
        out->ntransports = set_transports(topo, key, &value, kind, edit, specs, topo->ntransports);
    else
        out->ngpu_models = set_models(topo, key, &value, models, devices);
    out->transports = specs;
    out->gpu_models = models;
    out->devices = devices;
    out->arena = arena;
    return CCL_OK;
}
