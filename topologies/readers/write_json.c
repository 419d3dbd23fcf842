/* Writes our explicit JSON form: deterministic, one device or link a line. */
#include "topologies/topologies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

/* Names were checked by the builder, so only quotes, backslashes and controls need escapes. */
static void quoted(ccl_text_t *out, const char *text) {
    ccl_text_add(out, "\"", 1);
    for (const char *s = text; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            ccl_text_printf(out, "\\%c", c);
        else if (c == '\n')
            ccl_text_add(out, "\\n", 2);
        else if (c == '\t')
            ccl_text_add(out, "\\t", 2);
        else if (c < 0x20)
            ccl_text_printf(out, "\\u%04x", c);
        else
            ccl_text_add(out, s, 1);
    }
    ccl_text_add(out, "\"", 1);
}

/* Fewest digits that read back to the same double. */
static void number(ccl_text_t *out, double value) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *comma = strchr(text, ','); /* the host's locale; JSON has a point */
    if (comma)
        *comma = '.';
    ccl_text_printf(out, "%s", text);
}

static void rate(ccl_text_t *out, double Bps) {
    char text[64];
    quoted(out, ccl_format_rate(Bps, text, sizeof text));
}

static void duration(ccl_text_t *out, double s) {
    char text[64];
    quoted(out, ccl_format_time(s, text, sizeof text));
}

/* "512K" where that is exact, else a bare number of bytes. */
static void bytes(ccl_text_t *out, double value) {
    char text[64];
    double back = 0;
    ccl_format_bytes(value, text, sizeof text);
    if (ccl_parse_bytes(text, &back, NULL) == CCL_OK && back == value)
        quoted(out, text);
    else
        number(out, value);
}

/* One member of an object; the first one has no comma before it. */
static void key(ccl_text_t *out, bool *first, const char *name) {
    ccl_text_printf(out, "%s\"%s\": ", *first ? "" : ", ", name);
    *first = false;
}

static void write_abilities(const ccl_device_t *device, bool *first, ccl_text_t *out) {
    if (device->multicast) {
        key(out, first, "multicast");
        ccl_text_printf(out, "true");
    }
    if (device->reduce) {
        key(out, first, "reduce");
        ccl_text_printf(out, "true");
    }
    if (device->groups) {
        key(out, first, "groups");
        ccl_text_printf(out, "%u", device->groups);
    }
    if (device->reduce && isfinite(device->reduce_rate_Bps)) {
        key(out, first, "reduce_rate");
        rate(out, device->reduce_rate_Bps);
    }
    if (!device->types)
        return;
    key(out, first, "types");
    ccl_text_printf(out, "[\"");
    for (const char *s = device->types; *s; s++)
        ccl_text_add(out, *s == ' ' ? "\", \"" : s, *s == ' ' ? 4 : 1);
    ccl_text_printf(out, "\"]");
}

static void write_device(const ccl_topology_t *topo, const ccl_device_t *device, ccl_text_t *out) {
    bool first = true;
    ccl_text_printf(out, "    {");
    key(out, &first, "id");
    quoted(out, device->id);
    key(out, &first, "kind");
    quoted(out, ccl_i_device_kind_name(device->kind));
    if (device->server != CCL_NONE) {
        key(out, &first, "server");
        quoted(out, topo->servers[device->server]);
    }
    if (device->rank != CCL_NONE) {
        key(out, &first, "rank");
        ccl_text_printf(out, "%u", device->rank);
    }
    if (device->model != CCL_NONE) {
        key(out, &first, "model");
        quoted(out, topo->gpu_models[device->model].name);
    }
    write_abilities(device, &first, out);
    ccl_text_printf(out, "}");
}

static bool is_duplex(const ccl_topology_t *topo, uint32_t l) {
    if (l + 1 >= topo->nlinks)
        return false;
    const ccl_link_t *a = &topo->links[l], *b = &topo->links[l + 1];
    return a->from == b->to && a->to == b->from && a->kind == b->kind && a->lanes == b->lanes &&
           a->bandwidth_Bps == b->bandwidth_Bps && a->latency_s == b->latency_s &&
           a->contention == b->contention;
}

static void write_link(const ccl_topology_t *topo, const ccl_link_t *link, bool duplex,
                       ccl_text_t *out) {
    bool first = true;
    ccl_text_printf(out, "    {");
    key(out, &first, "from");
    quoted(out, topo->devices[link->from].id);
    key(out, &first, "to");
    quoted(out, topo->devices[link->to].id);
    key(out, &first, "kind");
    quoted(out, topo->kinds[link->kind]);
    key(out, &first, "bandwidth");
    rate(out, link->bandwidth_Bps);
    if (link->latency_s > 0) {
        key(out, &first, "latency");
        duration(out, link->latency_s);
    }
    if (link->lanes != 1) {
        key(out, &first, "lanes");
        ccl_text_printf(out, "%u", link->lanes);
    }
    if (!duplex) {
        key(out, &first, "duplex");
        ccl_text_printf(out, "false");
    }
    if (link->contention > 0) {
        key(out, &first, "contention");
        number(out, link->contention);
    }
    ccl_text_printf(out, "}");
}

/*
 * A pair names all links between two devices in one direction, so a group that holds only some of
 * several parallel links has no form in the file.
 * @param in_group  [nlinks] stamps; @param stamp  of this group.
 */
static ccl_status_t write_group(const ccl_topology_t *topo, const ccl_group_t *group,
                                uint32_t *in_group, uint32_t stamp, ccl_text_t *out,
                                ccl_error_t *err) {
    for (uint32_t i = 0; i < group->nlinks; i++)
        in_group[group->links[i]] = stamp;
    ccl_text_printf(out, "    {\"name\": ");
    quoted(out, group->name);
    ccl_text_printf(out, ", \"bandwidth\": ");
    rate(out, group->bandwidth_Bps);
    ccl_text_printf(out, ", \"links\": [");
    const char *comma = "";
    for (uint32_t i = 0; i < group->nlinks; i++) {
        const ccl_link_t *link = &topo->links[group->links[i]];
        bool written = false;
        for (uint32_t k = topo->out_first[link->from]; k < topo->out_first[link->from + 1]; k++) {
            uint32_t other = topo->out_links[k];
            if (topo->links[other].to != link->to)
                continue;
            if (in_group[other] != stamp)
                return ccl_fail(err, CCL_UNSUPPORTED,
                                "group \"%s\" holds only some of the links from \"%s\" to \"%s\", "
                                "which the file format cannot say",
                                group->name, topo->devices[link->from].id,
                                topo->devices[link->to].id);
            written |= other < group->links[i];
        }
        if (written) /* the pair stands there with its first link */
            continue;
        ccl_text_printf(out, "%s[", comma);
        quoted(out, topo->devices[link->from].id);
        ccl_text_printf(out, ", ");
        quoted(out, topo->devices[link->to].id);
        ccl_text_printf(out, "]");
        comma = ", ";
    }
    ccl_text_printf(out, "]}");
    return CCL_OK;
}

static void write_transport_keys(const ccl_transport_spec_t *spec, bool *first, ccl_text_t *out) {
    const ccl_transport_t *t = &spec->value;
#define KEY_(bit_, name_, write_)                                                                  \
    if (spec->given & (bit_)) {                                                                    \
        key(out, first, name_);                                                                    \
        write_;                                                                                    \
    }
    KEY_(CCL_TRANSPORT_OVERHEAD, "overhead", duration(out, t->overhead_s))
    KEY_(CCL_TRANSPORT_LATENCY, "latency", duration(out, t->latency_s))
    KEY_(CCL_TRANSPORT_TB_RATE, "tb_rate", rate(out, t->tb_rate_Bps))
    KEY_(CCL_TRANSPORT_SLICE, "slice", bytes(out, t->slice_bytes))
    KEY_(CCL_TRANSPORT_PIECE, "piece", bytes(out, t->piece_bytes))
    KEY_(CCL_TRANSPORT_SLICES, "slices", ccl_text_printf(out, "%u", t->slices))
    KEY_(CCL_TRANSPORT_SLOTS, "slots", ccl_text_printf(out, "%u", t->slots))
    KEY_(CCL_TRANSPORT_DIRECT, "direct", ccl_text_printf(out, t->direct ? "true" : "false"))
    KEY_(CCL_TRANSPORT_HOLDS_TB, "holds_tb", ccl_text_printf(out, t->holds_tb ? "true" : "false"))
    KEY_(CCL_TRANSPORT_MECHANISM, "mechanism",
         ccl_text_printf(out, "\"%s\"", ccl_mechanism_name(t->mechanism)))
    KEY_(CCL_TRANSPORT_COPY_IN, "copy_in", rate(out, t->copy_in_Bps))
    KEY_(CCL_TRANSPORT_COPY_OUT, "copy_out", rate(out, t->copy_out_Bps))
    KEY_(CCL_TRANSPORT_WIRE, "wire", number(out, t->wire))
    KEY_(CCL_TRANSPORT_MESSAGE, "message", duration(out, t->message_s))
    KEY_(CCL_TRANSPORT_MESSAGE_SIZE, "message_size", bytes(out, t->message_bytes))
#undef KEY_
}

/* Kinds in order of first appearance; a kind's own keys, then its protocols. */
static void write_transports(const ccl_topology_t *topo, ccl_text_t *out) {
    const ccl_transport_spec_t *specs = topo->transports;
    const char *comma = "";
    ccl_text_printf(out, ",\n  \"transports\": {");
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < i; k++)
            seen |= strcmp(specs[k].kind, specs[i].kind) == 0;
        if (seen)
            continue;
        ccl_text_printf(out, "%s\n    ", comma);
        comma = ",";
        quoted(out, specs[i].kind);
        ccl_text_printf(out, ": {");
        bool first = true, first_protocol = true;
        for (uint32_t k = i; k < topo->ntransports; k++)
            if (!specs[k].protocol && strcmp(specs[k].kind, specs[i].kind) == 0)
                write_transport_keys(&specs[k], &first, out);
        for (uint32_t k = i; k < topo->ntransports; k++) {
            if (!specs[k].protocol || strcmp(specs[k].kind, specs[i].kind) != 0)
                continue;
            if (first_protocol) {
                key(out, &first, "protocols");
                ccl_text_printf(out, "{");
            }
            key(out, &first_protocol, specs[k].protocol);
            ccl_text_printf(out, "{");
            bool first_key = true;
            write_transport_keys(&specs[k], &first_key, out);
            ccl_text_printf(out, "}");
        }
        ccl_text_printf(out, first_protocol ? "}" : "}}");
    }
    ccl_text_printf(out, "\n  }");
}

static void write_launches(const ccl_gpu_model_t *model, bool *first, ccl_text_t *out) {
    bool first_protocol = true;
    if (!model->launches)
        return;
    key(out, first, "protocols");
    ccl_text_printf(out, "{");
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++) {
        if (!(model->launches & 1u << p))
            continue;
        key(out, &first_protocol, ccl_protocol_name((ccl_protocol_t)p));
        ccl_text_printf(out, "{\"launch\": ");
        duration(out, model->protocol_launch_s[p]);
        ccl_text_printf(out, "}");
    }
    ccl_text_printf(out, "}");
}

static void write_gpu_models(const ccl_topology_t *topo, ccl_text_t *out) {
    ccl_text_printf(out, ",\n  \"gpu_models\": {");
    for (uint32_t i = 0; i < topo->ngpu_models; i++) {
        const ccl_gpu_model_t *m = &topo->gpu_models[i];
        bool first = true;
        ccl_text_printf(out, "%s\n    ", i ? "," : "");
        quoted(out, m->name);
        ccl_text_printf(out, ": {");
        if (*m->vendor) {
            key(out, &first, "vendor");
            quoted(out, m->vendor);
        }
        if (m->sms) {
            key(out, &first, "sms");
            ccl_text_printf(out, "%u", m->sms);
        }
        if (isfinite(m->copy_rate_Bps)) {
            key(out, &first, "copy_rate");
            rate(out, m->copy_rate_Bps);
        }
        if (isfinite(m->reduce_rate_Bps)) {
            key(out, &first, "reduce_rate");
            rate(out, m->reduce_rate_Bps);
        }
        if (m->overhead_s > 0) {
            key(out, &first, "overhead");
            duration(out, m->overhead_s);
        }
        if (m->flag_s > 0) {
            key(out, &first, "flag");
            duration(out, m->flag_s);
        }
        if (m->launch_s > 0) {
            key(out, &first, "launch");
            duration(out, m->launch_s);
        }
        write_launches(m, &first, out);
        ccl_text_printf(out, "}");
    }
    ccl_text_printf(out, "\n  }");
}

ccl_status_t ccl_topology_write_json(const ccl_topology_t *topo, ccl_text_t *out,
                                     ccl_error_t *err) {
    ccl_text_printf(out, "{\n  \"format\": \"ccllab-topology-1\",\n  \"name\": ");
    quoted(out, topo->name);
    if (*topo->source) {
        ccl_text_printf(out, ",\n  \"source\": ");
        quoted(out, topo->source);
    }
    if (*topo->note) {
        ccl_text_printf(out, ",\n  \"note\": ");
        quoted(out, topo->note);
    }
    if (*topo->own_profile) {
        ccl_text_printf(out, ",\n  \"profile\": ");
        quoted(out, topo->own_profile);
    }
    ccl_text_printf(out, ",\n  \"devices\": [\n");
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        write_device(topo, &topo->devices[d], out);
        ccl_text_printf(out, d + 1 < topo->ndevices ? ",\n" : "\n");
    }
    ccl_text_printf(out, "  ],\n  \"links\": [");
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        bool duplex = is_duplex(topo, l);
        ccl_text_printf(out, l ? ",\n" : "\n");
        write_link(topo, &topo->links[l], duplex, out);
        l += duplex;
    }
    ccl_text_printf(out, "\n  ]");
    if (topo->ngroups > 0) {
        uint32_t *in_group = calloc((size_t)topo->nlinks + 1, sizeof *in_group);
        if (!in_group)
            return ccl_fail_nomem(err);
        ccl_status_t status = CCL_OK;
        ccl_text_printf(out, ",\n  \"groups\": [");
        for (uint32_t g = 0; g < topo->ngroups && status == CCL_OK; g++) {
            ccl_text_printf(out, g ? ",\n" : "\n");
            status = write_group(topo, &topo->groups[g], in_group, g + 1, out, err);
        }
        free(in_group);
        CCL_TRY(status);
        ccl_text_printf(out, "\n  ]");
    }
    if (topo->ntransports > 0)
        write_transports(topo, out);
    if (topo->ngpu_models > 0)
        write_gpu_models(topo, out);
    ccl_text_printf(out, "\n}\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
