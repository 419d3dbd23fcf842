/*
 * One-liners: "servers:4 gpus:8 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail". The grammar
 * is in docs/clusters.md. A latency is what one transfer takes from GPU to GPU: half of it lies on
 * each of the two links through a switch.
 */
#include "topologies/readers/synthetic.h"
#include "topologies/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS_PER_SERVER 1024
#define MAX_NICS_PER_SERVER 1024
#define MAX_GROUPS 256
#define MAX_TEXT_BYTES 65536

typedef ccl_i_mesh_shape_t mesh_shape_t;
typedef ccl_i_synthetic_part_t part_t;
typedef ccl_i_synthetic_parser_t parser_t;

/* A value's fields, separated by commas, in a buffer of their own. */
typedef struct fields {
    char buffer[128];
    const char *item[5];
    size_t at[5]; /* position in the text */
    uint32_t n;
} fields_t;

ccl_status_t ccl_i_synthetic_refuse(const parser_t *p, size_t at, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    return ccl_error_set(p->err, CCL_ERR_INPUT, "one-liner", line, column, "%s", text);
}

/* ------------------------------------------------------------------ values */

static ccl_status_t split(const parser_t *p, size_t at, size_t len, fields_t *out) {
    if (len >= sizeof out->buffer)
        return ccl_i_synthetic_refuse(p, at, "value longer than %zu bytes", sizeof out->buffer - 1);
    memcpy(out->buffer, p->text + at, len);
    out->buffer[len] = 0;
    out->n = 0;
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && out->buffer[i] != ',')
            continue;
        if (out->n == CCL_ARRAY_LEN(out->item))
            return ccl_i_synthetic_refuse(p, at + i, "more than %zu values",
                                          CCL_ARRAY_LEN(out->item));
        if (i == start)
            return ccl_i_synthetic_refuse(p, at + i, "empty value");
        out->buffer[i] = 0;
        out->item[out->n] = out->buffer + start;
        out->at[out->n++] = at + start;
        start = i + 1;
    }
    return CCL_OK;
}

static ccl_status_t at_most(const parser_t *p, const fields_t *f, uint32_t n, const char *want) {
    return f->n <= n ? CCL_OK : ccl_i_synthetic_refuse(p, f->at[n], "too many values; %s", want);
}

/* Digits from *text on, at most 9 of them; moves behind them. */
static bool number(const char **text, uint32_t *out) {
    const char *start = *text;
    uint32_t value = 0;
    for (; **text >= '0' && **text <= '9' && *text - start < 9; ++*text)
        value = value * 10 + (uint32_t)(**text - '0');
    *out = value;
    return *text > start;
}

/* "2", "0.05": all of the text, at most 15 digits, so that the division below is exact to the last
   bit in every locale. */
static bool decimal(const char *text, double *out) {
    static const double power[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t value = 0;
    uint32_t digits = 0, after = 0;
    bool point = false;
    for (; *text; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (*text < '0' || *text > '9' || digits == 15)
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        digits++;
        after += point;
    }
    *out = (double)value / power[after];
    return digits > 0;
}

static ccl_status_t count(const parser_t *p, const fields_t *f, const char *what, uint32_t max,
                          uint32_t *out) {
    const char *text = f->item[0];
    CCL_TRY(at_most(p, f, 1, "one count"));
    if (!number(&text, out) || *text || *out < 1 || *out > max)
        return ccl_i_synthetic_refuse(p, f->at[0], "\"%s\" is no number of %s from 1 to %u",
                                      f->item[0], what, max);
    return CCL_OK;
}

typedef ccl_status_t (*parse_fn)(const char *text, double *out, ccl_error_t *err);

static ccl_status_t quantity(const parser_t *p, const fields_t *f, uint32_t i, parse_fn parse,
                             double *out) {
    ccl_error_t inner = CCL_ERROR_INIT;
    if (parse(f->item[i], out, &inner) != CCL_OK)
        return ccl_i_synthetic_refuse(p, f->at[i], "%s", inner.text);
    return CCL_OK;
}

static ccl_status_t rate_and_latency(const parser_t *p, const fields_t *f, uint32_t first,
                                     double *Bps, double *latency_s) {
    CCL_TRY(at_most(p, f, first + 2, "a rate and perhaps a latency"));
    if (f->n <= first)
        return ccl_i_synthetic_refuse(p, f->at[0], "no rate; e.g. 50GB/s,0.7us");
    CCL_TRY(quantity(p, f, first, ccl_parse_rate_Bps, Bps));
    if (f->n > first + 1)
        CCL_TRY(quantity(p, f, first + 1, ccl_parse_time_s, latency_s));
    return CCL_OK;
}

/* ------------------------------------------------------------------ words */

enum {
    KEY_SERVERS,
    KEY_GPUS,
    KEY_NVSWITCH,
    KEY_NVLINK,
    KEY_XGMI,
    KEY_PCIE,
    KEY_NICS,
    KEY_MODEL,
    KEY_COPY_RATE,
    KEY_REDUCE_RATE,
    KEY_LAUNCH,
    KEY_SMS,
    KEY_FABRIC, /* from here on: of the whole cluster */
    KEY_CONTENTION,
    KEY_TB_RATE,
    KEY_OVERHEAD,
    KEY_SLICE,
    KEY_SLOTS
};
static const char *const keys[] = {"servers",  "gpus",  "nvswitch", "nvlink",     "xgmi",
                                   "pcie",     "nics",  "model",    "copy_rate",  "reduce_rate",
                                   "launch",   "sms",   "fabric",   "contention", "tb_rate",
                                   "overhead", "slice", "slots",    NULL};

/* Whether the last value is `word`; then it is taken away. */
static bool ends_in(fields_t *f, const char *word) {
    bool found = f->n > 1 && strcmp(f->item[f->n - 1], word) == 0;
    f->n -= found;
    return found;
}

static ccl_status_t word_mesh(parser_t *p, part_t *part, fields_t *f, uint32_t key) {
    if (part->shape != SHAPE_NONE)
        return ccl_i_synthetic_refuse(p, f->at[0], "the GPUs of these servers are joined already");
    part->kind = key == KEY_XGMI ? "xgmi" : "nvlink";
    if (key == KEY_NVSWITCH) {
        part->shape = SHAPE_SWITCH;
        part->nvls = ends_in(f, "nvls");
        return rate_and_latency(p, f, 0, &part->mesh_Bps, &part->mesh_s);
    }
    if (strcmp(f->item[0], "mesh") == 0)
        part->shape = SHAPE_MESH;
    else if (strcmp(f->item[0], "ring") == 0)
        part->shape = SHAPE_RING;
    else
        return ccl_i_synthetic_refuse(p, f->at[0],
                                      "\"%s\" is no shape; mesh or ring, e.g. %s=mesh,50GB/s,0.7us",
                                      f->item[0], keys[key]);
    return rate_and_latency(p, f, 1, &part->mesh_Bps, &part->mesh_s);
}

/* "4x25GB/s,2us" */
static ccl_status_t word_nics(parser_t *p, part_t *part, fields_t *f) {
    const char *text = f->item[0];
    if (!number(&text, &part->nics) || *text != 'x')
        return ccl_i_synthetic_refuse(p, f->at[0], "\"%s\" names no NICs; e.g. nics:4x25GB/s,2us",
                                      f->item[0]);
    if (part->nics < 1 || part->nics > MAX_NICS_PER_SERVER)
        return ccl_i_synthetic_refuse(p, f->at[0], "%u NICs; 1 to %d", part->nics,
                                      MAX_NICS_PER_SERVER);
    f->at[0] += (size_t)(text + 1 - f->item[0]);
    f->item[0] = text + 1;
    return rate_and_latency(p, f, 0, &part->nic_Bps, &part->nic_s);
}

/* single, rail, rail:4, rail,spine, clos:2, clos:2,4 (oversubscription, servers per leaf); each
   also with sharp at its end. */
static ccl_status_t word_fabric(parser_t *p, fields_t *f) {
    char name[128];
    ccl_i_fabric_t *fabric = &p->fabric;
    if (ends_in(f, "sharp"))
        fabric->able = &ccl_i_able_both;
    snprintf(name, sizeof name, "%s", f->item[0]);
    char *colon = strchr(name, ':');
    if (colon)
        *colon = 0;
    const char *value = colon ? colon + 1 : NULL;
    size_t value_at = f->at[0] + (colon ? (size_t)(colon - name) + 1 : 0);
    if (strcmp(name, "single") == 0) {
        fabric->kind = CCL_I_FABRIC_SINGLE;
        if (value)
            return ccl_i_synthetic_refuse(p, value_at, "single takes no value");
        return at_most(p, f, 1, "fabric=single");
    }
    if (strcmp(name, "rail") == 0) {
        fabric->kind = CCL_I_FABRIC_RAIL;
        if (value && (!number(&value, &fabric->rails) || *value || fabric->rails < 1 ||
                      fabric->rails > CCL_I_CLUSTER_MAX_SWITCHES))
            return ccl_i_synthetic_refuse(p, value_at, "\"%s\" is no number of rails", colon + 1);
        if (f->n > 1 && strcmp(f->item[1], "spine") != 0)
            return ccl_i_synthetic_refuse(p, f->at[1], "\"%s\"; fabric=rail,spine joins the rails",
                                          f->item[1]);
        fabric->spines = f->n > 1;
        return at_most(p, f, 2, "fabric=rail,spine");
    }
    if (strcmp(name, "clos") == 0) {
        fabric->kind = CCL_I_FABRIC_CLOS;
        fabric->servers_per_leaf = 2;
        if (value) {
            if (!decimal(value, &fabric->oversubscription) || !(fabric->oversubscription >= 1e-3) ||
                !(fabric->oversubscription <= 1e6))
                return ccl_i_synthetic_refuse(
                    p, value_at,
                    "\"%s\" is no oversubscription; 1 is non-blocking, 2 halves the "
                    "uplinks",
                    value);
        }
        if (f->n > 1) {
            const char *per_leaf = f->item[1];
            if (!number(&per_leaf, &fabric->servers_per_leaf) || *per_leaf ||
                fabric->servers_per_leaf < 1 ||
                fabric->servers_per_leaf > CCL_I_CLUSTER_MAX_SERVERS)
                return ccl_i_synthetic_refuse(
                    p, f->at[1], "\"%s\" is no number of servers per leaf", f->item[1]);
        }
        return at_most(p, f, 2, "fabric=clos:OVERSUBSCRIPTION,SERVERS_PER_LEAF");
    }
    return ccl_i_synthetic_refuse(p, f->at[0], "unknown fabric \"%s\"; single, rail or clos", name);
}

static ccl_status_t word_model(parser_t *p, part_t *part, const fields_t *f) {
    CCL_TRY(at_most(p, f, 1, "one name"));
    part->model = ccl_arena_strdup(&p->arena, f->item[0]);
    return part->model ? CCL_OK : ccl_fail_nomem(p->err);
}

static ccl_status_t word_contention(parser_t *p, const fields_t *f) {
    double value;
    if (!decimal(f->item[0], &value))
        return ccl_i_synthetic_refuse(p, f->at[0], "\"%s\" is no contention; 0 or more",
                                      f->item[0]);
    p->fabric.contention = value;
    return at_most(p, f, 1, "one number");
}

static ccl_status_t one_quantity(const parser_t *p, const fields_t *f, parse_fn parse,
                                 double *out) {
    CCL_TRY(at_most(p, f, 1, "one value"));
    return quantity(p, f, 0, parse, out);
}

static ccl_status_t word_value(parser_t *p, part_t *part, uint32_t key, fields_t *f) {
    switch (key) {
    case KEY_SERVERS:
        return count(p, f, "servers", CCL_I_CLUSTER_MAX_SERVERS, &part->servers);
    case KEY_GPUS:
        return count(p, f, "gpus per server", MAX_GPUS_PER_SERVER, &part->gpus);
    case KEY_NVSWITCH:
    case KEY_NVLINK:
    case KEY_XGMI:
        return word_mesh(p, part, f, key);
    case KEY_PCIE:
        return rate_and_latency(p, f, 0, &part->pcie_Bps, &part->pcie_s);
    case KEY_NICS:
        return word_nics(p, part, f);
    case KEY_MODEL:
        return word_model(p, part, f);
    case KEY_COPY_RATE:
        return one_quantity(p, f, ccl_parse_rate_Bps, &part->copy_Bps);
    case KEY_REDUCE_RATE:
        return one_quantity(p, f, ccl_parse_rate_Bps, &part->reduce_Bps);
    case KEY_LAUNCH:
        return one_quantity(p, f, ccl_parse_time_s, &part->launch_s);
    case KEY_SMS:
        return count(p, f, "sms", 1u << 20, &part->sms);
    case KEY_FABRIC:
        p->fabric_at = f->at[0];
        return word_fabric(p, f);
    case KEY_CONTENTION:
        return word_contention(p, f);
    case KEY_TB_RATE:
        p->given |= CCL_TRANSPORT_TB_RATE;
        return one_quantity(p, f, ccl_parse_rate_Bps, &p->transport.tb_rate_Bps);
    case KEY_OVERHEAD:
        p->given |= CCL_TRANSPORT_OVERHEAD;
        return one_quantity(p, f, ccl_parse_time_s, &p->transport.overhead_s);
    case KEY_SLICE:
        p->given |= CCL_TRANSPORT_SLICE;
        CCL_TRY(one_quantity(p, f, ccl_parse_bytes, &p->transport.slice_bytes));
        return p->transport.slice_bytes > 0
                   ? CCL_OK
                   : ccl_i_synthetic_refuse(p, f->at[0], "slice of 0 bytes");
    default: /* KEY_SLOTS */
        p->given |= CCL_TRANSPORT_SLOTS;
        return count(p, f, "slots", 1u << 20, &p->transport.slots);
    }
}

/* A word is KEY:VALUE or KEY=VALUE, at [at, end). */
static ccl_status_t word(parser_t *p, size_t at, size_t end) {
    char key[32];
    size_t len = 0;
    while (at + len < end && p->text[at + len] != ':' && p->text[at + len] != '=')
        len++;
    if (at + len == end || len == 0 || len >= sizeof key || at + len + 1 == end)
        return ccl_i_synthetic_refuse(p, at, "\"%.*s\" is not KEY:VALUE or KEY=VALUE",
                                      (int)(end - at < 40 ? end - at : 40), p->text + at);
    memcpy(key, p->text + at, len);
    key[len] = 0;
    uint32_t k = 0;
    while (keys[k] && strcmp(keys[k], key) != 0)
        k++;
    if (!keys[k]) {
        const char *nearest = ccl_nearest(key, keys);
        return ccl_i_synthetic_refuse(p, at, "unknown word \"%s\"%s%s%s", key,
                                      nearest ? ", did you mean \"" : "", nearest ? nearest : "",
                                      nearest ? "\"?" : "; docs/clusters.md lists them");
    }
    part_t *part = &p->parts[p->nparts - 1];
    uint32_t *seen = k >= KEY_FABRIC ? &p->seen : &part->seen;
    if (*seen & (1u << k))
        return ccl_i_synthetic_refuse(p, at, "\"%s\" is given twice", key);
    *seen |= 1u << k;
    fields_t f;
    CCL_TRY(split(p, at + len + 1, end - at - len - 1, &f));
    return word_value(p, part, k, &f);
}

static ccl_status_t new_part(parser_t *p, size_t at) {
    if (p->nparts == MAX_GROUPS)
        return ccl_i_synthetic_refuse(p, at, "more than %d kinds of servers", MAX_GROUPS);
    if (!ccl_grow(&p->parts, &p->cparts, p->nparts + 1, sizeof *p->parts))
        return ccl_fail_nomem(p->err);
    p->parts[p->nparts++] =
        (part_t){.at = at, .servers = 1, .copy_Bps = INFINITY, .reduce_Bps = INFINITY};
    return CCL_OK;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static ccl_status_t parse(parser_t *p) {
    const char *text = p->text;
    CCL_TRY(new_part(p, 0));
    size_t at = 0;
    while (text[at]) {
        size_t end = at;
        if (is_blank(text[at])) {
            at++;
            continue;
        }
        if (text[at] == ';' || (text[at] == '+' && (is_blank(text[at + 1]) || !text[at + 1]))) {
            CCL_TRY(new_part(p, ++at));
            continue;
        }
        while (text[end] && !is_blank(text[end]) && text[end] != ';')
            end++;
        CCL_TRY(word(p, at, end));
        at = end;
    }
    for (size_t i = 0; i < p->nparts; i++)
        if (p->parts[i].gpus == 0)
            return ccl_i_synthetic_refuse(p, p->parts[i].at, "no gpus; e.g. gpus:8");
    return CCL_OK;
}

/* The words with single blanks between them are the cluster's name. */
static ccl_status_t make_name(const char *text, ccl_text_t *name) {
    for (size_t i = 0; text[i]; i++)
        if (!is_blank(text[i]) || (i > 0 && !is_blank(text[i - 1]) && text[i + 1]))
            ccl_text_add(name, is_blank(text[i]) ? " " : &text[i], 1);
    return name->nomem ? CCL_ERR_NOMEM : CCL_OK;
}

ccl_status_t ccl_topology_read_synthetic(const ccl_ctx_t *ctx, const char *text,
                                         ccl_topology_t **out, ccl_error_t *err) {
    if (strncmp(text, "host:", strlen("host:")) == 0)
        return ccl_i_topology_read_host(text, out, err);
    if (strlen(text) > MAX_TEXT_BYTES)
        return ccl_error_set(err, CCL_ERR_INPUT, "one-liner", 0, 0, "longer than %d bytes",
                             MAX_TEXT_BYTES);
    parser_t p = {.ctx = ctx,
                  .err = err,
                  .text = text,
                  .fabric = CCL_I_FABRIC_INIT,
                  .transport = ccl_transport_default("nvlink")};
    ccl_arena_init(&p.arena);
    ccl_text_t name = {0};
    ccl_topology_builder_t *b = NULL;
    ccl_status_t status = parse(&p);
    if (status != CCL_OK)
        goto done;
    if (make_name(text, &name) == CCL_OK)
        b = ccl_topology_builder_create(name.data);
    status = b ? ccl_i_synthetic_build(&p, b, out) : ccl_fail_nomem(err);
done:
    ccl_topology_builder_destroy(b);
    ccl_text_fini(&name);
    free(p.parts);
    ccl_arena_fini(&p.arena);
    return status;
}
