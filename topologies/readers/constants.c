/* Entries of "transports" and "gpu_models", for the explicit and the compact form. */
#include "topologies/readers/constants.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "topologies/internal.h"

#define MAX_COUNT ((uint32_t)1 << 20) /* slots, slices, sms */
#define TRANSPORT_KEYS                                                                             \
    "overhead", "latency", "tb_rate", "slice", "slices", "piece", "slots", "direct", "holds_tb",   \
        "mechanism", "copy_in", "copy_out", "wire", "message", "message_size"

/* In the order of ccl_protocol_t. */
static const char *const protocol_names[] = {"Simple", "LL", "LL128", NULL};

const char *ccl_protocol_name(ccl_protocol_t protocol) {
    return protocol < CCL_PROTOCOLS ? protocol_names[protocol] : "";
}

bool ccl_protocol_switches(const char *name) {
    return !name || ccl_protocol_find(name) == CCL_PROTOCOL_SIMPLE;
}

ccl_protocol_t ccl_protocol_turn(uint32_t i) {
    static const ccl_protocol_t turns[] = {CCL_PROTOCOL_SIMPLE, CCL_PROTOCOL_LL128,
                                           CCL_PROTOCOL_LL};
    _Static_assert(CCL_ARRAY_LEN(turns) == CCL_PROTOCOLS, "a turn for each protocol");
    return turns[i];
}

ccl_protocol_t ccl_protocol_find(const char *name) {
    ccl_protocol_t p = CCL_PROTOCOL_SIMPLE;
    while (p < CCL_PROTOCOLS && (!name || strcmp(name, protocol_names[p]) != 0))
        p++;
    return p;
}

ccl_status_t ccl_i_constants_at(const ccl_json_at_t *at, ccl_status_t status,
                                const ccl_error_t *inner, ccl_error_t *err) {
    if (status == CCL_ERR_INPUT)
        return ccl_json_fail(at, err, "%s", inner->text);
    if (status != CCL_OK)
        return ccl_error_set(err, status, inner->where, inner->line, inner->column, "%s",
                             inner->text);
    return CCL_OK;
}

static ccl_status_t read_mechanism(const ccl_json_at_t *v, ccl_mechanism_t *out, ccl_error_t *err) {
    const char *name = NULL;
    CCL_TRY(ccl_json_string(v, false, &name, err));
    if (!name)
        return CCL_OK;
    for (ccl_mechanism_t m = CCL_MECHANISM_DEVICE; m <= CCL_MECHANISM_PROXY; m++) {
        if (strcmp(name, ccl_mechanism_name(m)) == 0) {
            *out = m;
            return CCL_OK;
        }
    }
    return ccl_json_fail(v, err, "mechanism \"%.40s\"; device, host or proxy", name);
}

static ccl_status_t read_keys(const ccl_json_at_t *at, ccl_transport_spec_t *spec,
                              ccl_error_t *err) {
    ccl_transport_t *t = &spec->value;
    *t = ccl_transport_default(spec->kind);
    spec->given = 0;
#define KEY_(bit_, key_, read_)                                                                    \
    do {                                                                                           \
        ccl_json_at_t v = ccl_json_member(at, key_);                                               \
        CCL_TRY(read_);                                                                            \
        if (v.value)                                                                               \
            spec->given |= (bit_);                                                                 \
    } while (0)
    KEY_(CCL_TRANSPORT_OVERHEAD, "overhead", ccl_json_time_s(&v, false, &t->overhead_s, err));
    KEY_(CCL_TRANSPORT_LATENCY, "latency", ccl_json_time_s(&v, false, &t->latency_s, err));
    KEY_(CCL_TRANSPORT_TB_RATE, "tb_rate", ccl_json_rate_Bps(&v, false, &t->tb_rate_Bps, err));
    KEY_(CCL_TRANSPORT_SLICE, "slice", ccl_json_bytes(&v, false, &t->slice_bytes, err));
    KEY_(CCL_TRANSPORT_PIECE, "piece", ccl_json_bytes(&v, false, &t->piece_bytes, err));
    KEY_(CCL_TRANSPORT_SLICES, "slices", ccl_json_u32(&v, false, MAX_COUNT, &t->slices, err));
    KEY_(CCL_TRANSPORT_SLOTS, "slots", ccl_json_u32(&v, false, MAX_COUNT, &t->slots, err));
    KEY_(CCL_TRANSPORT_DIRECT, "direct", ccl_json_bool(&v, false, &t->direct, err));
    KEY_(CCL_TRANSPORT_HOLDS_TB, "holds_tb", ccl_json_bool(&v, false, &t->holds_tb, err));
    KEY_(CCL_TRANSPORT_MECHANISM, "mechanism", read_mechanism(&v, &t->mechanism, err));
    KEY_(CCL_TRANSPORT_COPY_IN, "copy_in", ccl_json_rate_Bps(&v, false, &t->copy_in_Bps, err));
    KEY_(CCL_TRANSPORT_COPY_OUT, "copy_out", ccl_json_rate_Bps(&v, false, &t->copy_out_Bps, err));
    KEY_(CCL_TRANSPORT_WIRE, "wire", ccl_json_number(&v, false, &t->wire, err));
    KEY_(CCL_TRANSPORT_MESSAGE, "message", ccl_json_time_s(&v, false, &t->message_s, err));
    KEY_(CCL_TRANSPORT_MESSAGE_SIZE, "message_size",
         ccl_json_bytes(&v, false, &t->message_bytes, err));
#undef KEY_
    spec->slots_from = at->doc->name;
    return CCL_OK;
}

ccl_status_t ccl_i_constants_transport(const ccl_json_at_t *at, const char *kind,
                                       ccl_topology_builder_t *b, ccl_error_t *err) {
    static const char *const keys[] = {TRANSPORT_KEYS, "protocols", NULL};
    static const char *const protocol_keys[] = {TRANSPORT_KEYS, NULL};
    ccl_transport_spec_t spec = {.kind = kind};
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    CCL_TRY(read_keys(at, &spec, err));
    ccl_error_t inner = CCL_ERROR_INIT;
    CCL_TRY(ccl_i_constants_at(at, ccl_topology_builder_transport(b, &spec, &inner), &inner, err));
    ccl_json_at_t protocols = ccl_json_member(at, "protocols");
    if (!protocols.value)
        return CCL_OK;
    CCL_TRY(ccl_json_object(&protocols, true, err));
    CCL_TRY(ccl_json_only(&protocols, protocol_names, err));
    json_t *value;
    json_object_foreach((json_t *)protocols.value, spec.protocol, value) {
        ccl_json_at_t one = ccl_json_member(&protocols, spec.protocol);
        CCL_TRY(ccl_json_object(&one, true, err));
        CCL_TRY(ccl_json_only(&one, protocol_keys, err));
        CCL_TRY(read_keys(&one, &spec, err));
        CCL_TRY(ccl_i_constants_at(&one, ccl_topology_builder_transport(b, &spec, &inner), &inner,
                                   err));
    }
    return CCL_OK;
}

static ccl_status_t read_launches(const ccl_json_at_t *at, ccl_gpu_model_t *model,
                                  ccl_error_t *err) {
    static const char *const keys[] = {"launch", NULL};
    ccl_json_at_t protocols = ccl_json_member(at, "protocols");
    if (!protocols.value)
        return CCL_OK;
    CCL_TRY(ccl_json_object(&protocols, true, err));
    CCL_TRY(ccl_json_only(&protocols, protocol_names, err));
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++) {
        ccl_json_at_t one = ccl_json_member(&protocols, protocol_names[p]);
        if (!one.value)
            continue;
        CCL_TRY(ccl_json_object(&one, true, err));
        CCL_TRY(ccl_json_only(&one, keys, err));
        ccl_json_at_t launch = ccl_json_member(&one, "launch");
        CCL_TRY(ccl_json_time_s(&launch, false, &model->protocol_launch_s[p], err));
        if (launch.value)
            model->launches |= 1u << p;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_constants_gpu_model(const ccl_json_at_t *at, const char *name,
                                       ccl_topology_builder_t *b, ccl_error_t *err) {
    static const char *const keys[] = {"vendor", "sms",    "copy_rate", "reduce_rate", "overhead",
                                       "flag",   "launch", "protocols", NULL};
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    ccl_gpu_model_t model = ccl_gpu_model_default(name);
    ccl_json_at_t vendor = ccl_json_member(at, "vendor");
    ccl_json_at_t sms = ccl_json_member(at, "sms");
    ccl_json_at_t copy_rate = ccl_json_member(at, "copy_rate");
    ccl_json_at_t reduce_rate = ccl_json_member(at, "reduce_rate");
    ccl_json_at_t overhead = ccl_json_member(at, "overhead");
    ccl_json_at_t flag = ccl_json_member(at, "flag");
    ccl_json_at_t launch = ccl_json_member(at, "launch");
    CCL_TRY(ccl_json_name(&vendor, false, &model.vendor, err));
    CCL_TRY(ccl_json_u32(&sms, false, MAX_COUNT, &model.sms, err));
    if (sms.value && model.sms == 0)
        return ccl_json_fail(&sms, err, "0 sms; 1 or more, or leave it out");
    CCL_TRY(ccl_json_rate_Bps(&copy_rate, false, &model.copy_rate_Bps, err));
    CCL_TRY(ccl_json_rate_Bps(&reduce_rate, false, &model.reduce_rate_Bps, err));
    CCL_TRY(ccl_json_time_s(&overhead, false, &model.overhead_s, err));
    CCL_TRY(ccl_json_time_s(&flag, false, &model.flag_s, err));
    CCL_TRY(ccl_json_time_s(&launch, false, &model.launch_s, err));
    CCL_TRY(read_launches(at, &model, err));
    ccl_error_t inner = CCL_ERROR_INIT;
    return ccl_i_constants_at(at, ccl_topology_builder_gpu_model(b, &model, &inner), &inner, err);
}

static ccl_status_t read_types(const ccl_json_at_t *at, ccl_i_abilities_t *out, ccl_error_t *err) {
    size_t n = 0, len = 0;
    CCL_TRY(ccl_json_array(at, true, &n, err));
    if (n == 0)
        return ccl_json_fail(at, err, "no type; a switch that sums none has no \"reduce\"");
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(at, i);
        const char *type = NULL;
        CCL_TRY(ccl_json_name(&item, true, &type, err));
        if (strchr(type, ' '))
            return ccl_json_fail(&item, err, "type \"%.40s\" holds a blank", type);
        if (len + strlen(type) + 1 > sizeof out->types - 1)
            return ccl_json_fail(at, err, "more than %d bytes of types", CCL_I_MAX_TYPES_BYTES);
        len +=
            (size_t)snprintf(out->types + len, sizeof out->types - len, "%s%s", i ? " " : "", type);
    }
    out->like.types = out->types;
    return CCL_OK;
}

ccl_status_t ccl_i_constants_abilities(const ccl_json_at_t *at, ccl_i_abilities_t *out,
                                       ccl_error_t *err) {
    ccl_device_t *like = &out->like;
    *out = (ccl_i_abilities_t){.like = {.reduce_rate_Bps = INFINITY}};
    ccl_json_at_t multicast = ccl_json_member(at, "multicast");
    ccl_json_at_t reduce = ccl_json_member(at, "reduce");
    ccl_json_at_t groups = ccl_json_member(at, "groups");
    ccl_json_at_t rate = ccl_json_member(at, "reduce_rate");
    ccl_json_at_t types = ccl_json_member(at, "types");
    CCL_TRY(ccl_json_bool(&multicast, false, &like->multicast, err));
    CCL_TRY(ccl_json_bool(&reduce, false, &like->reduce, err));
    CCL_TRY(ccl_json_u32(&groups, false, MAX_COUNT, &like->groups, err));
    if (groups.value && like->groups == 0)
        return ccl_json_fail(&groups, err, "0 groups; 1 or more, or leave it out for no limit");
    CCL_TRY(ccl_json_rate_Bps(&rate, false, &like->reduce_rate_Bps, err));
    if (types.value)
        CCL_TRY(read_types(&types, out, err));
    out->given = multicast.value || reduce.value || groups.value || rate.value || types.value;
    return CCL_OK;
}
