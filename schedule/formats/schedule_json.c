/*
 * Schedules as JSON: format ccllab-schedule-1, docs/formats.md.
 *
 * A schedule may have millions of transfers, which as JSON values would take half a kilobyte each.
 * So the array of transfers is cut out of the text and read by hand; jansson reads the rest, with
 * the array emptied but its lines kept, so that positions stay right.
 */
#include "schedule/formats/demand_i.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- cutting the array out */

static const char *skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

/** Behind the string that starts at p, or end. */
static const char *skip_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++) {
        if (*p == '\\' && p + 1 < end)
            p++;
    }
    return p < end ? p + 1 : end;
}

/** Behind the array that starts at p; NULL when it does not end. */
static const char *skip_array(const char *p, const char *end) {
    size_t depth = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = skip_string(p, end);
            continue;
        }
        p++;
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return p;
    }
    return NULL;
}

/** The array of member "transfers" of the outermost object. */
static bool find_transfers(const char *text, size_t len, const char **first, const char **behind) {
    static const char key[] = "\"transfers\"";
    const char *end = text + len;
    size_t depth = 0;
    for (const char *p = text; p < end;) {
        char c = *p;
        if (c != '"') {
            p++;
            if (c == '[' || c == '{')
                depth++;
            else if (c == ']' || c == '}')
                depth = depth ? depth - 1 : 0;
            continue;
        }
        const char *start = p;
        p = skip_string(p, end);
        if (depth != 1 || (size_t)(p - start) != sizeof key - 1 ||
            memcmp(start, key, sizeof key - 1) != 0)
            continue;
        const char *colon = skip_space(p, end);
        if (colon == end || *colon != ':')
            continue;
        *first = skip_space(colon + 1, end);
        *behind = *first < end && **first == '[' ? skip_array(*first, end) : NULL;
        return *behind != NULL;
    }
    return false;
}

/** The text without what stands in [first, behind), but with its line ends and last column. */
static ccl_status_t parse_without(const char *name, const char *text, size_t len, const char *first,
                                  const char *behind, ccl_json_doc_t *out, ccl_error_t *err) {
    ccl_text_t rest = {0};
    const char *line = first + 1; /* start of the last line inside the array */
    ccl_text_add(&rest, text, (size_t)(first + 1 - text));
    for (const char *p = first + 1; p < behind; p++) {
        p = memchr(p, '\n', (size_t)(behind - p));
        if (!p)
            break;
        ccl_text_add(&rest, "\n", 1);
        line = p + 1;
    }
    for (const char *p = line; p < behind - 1; p++)
        ccl_text_add(&rest, " ", 1);
    ccl_text_add(&rest, behind - 1, (size_t)(text + len - (behind - 1)));
    ccl_status_t status =
        rest.nomem ? ccl_fail_nomem(err) : ccl_json_parse(name, rest.data, rest.len, out, err);
    ccl_text_fini(&rest);
    return status;
}

/* ---------------------------------------------------------------- transfers */

enum { SRC, DST, CHUNK, STEP, CHANNEL, OP, PHASE, FIELDS };
static const char *const field_names[FIELDS] = {"src",     "dst", "chunk", "step",
                                                "channel", "op",  "phase"};

typedef struct cursor {
    const char *p, *end, *line_start;
    const char *file;
    int line;
    uint32_t index; /* of the transfer */
    uint32_t limit[FIELDS];
    const uint32_t *ends; /* [nends] of the file's groups */
    size_t nends;
    ccl_error_t *err;
} cursor_t;

#define BAD(c_, text_, ...)                                                                        \
    ccl_error_set((c_)->err, CCL_ERR_INPUT, (c_)->file, (c_)->line, column_of(c_),                 \
                  "/transfers/%u: " text_, (c_)->index, __VA_ARGS__)

static int column_of(const cursor_t *c) {
    return c->p - c->line_start < INT32_MAX - 1 ? (int)(c->p - c->line_start) + 1 : 0;
}

static void skip(cursor_t *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r')) {
        if (*c->p++ == '\n') {
            c->line++;
            c->line_start = c->p;
        }
    }
}

/** Skip blanks and one given character. */
static bool take(cursor_t *c, char wanted) {
    skip(c);
    if (c->p == c->end || *c->p != wanted)
        return false;
    c->p++;
    return true;
}

/** An end of a transfer through a switch: "g" and the index of a group. */
static ccl_status_t read_group_end(cursor_t *c, unsigned field, uint32_t *out) {
    const char *start = c->p, *p = start + 2;
    uint64_t value = 0;
    if (c->end - start >= 4 && start[1] == 'g') {
        while (p < c->end && (unsigned)(*p - '0') < 10 && p - start < 12)
            value = value * 10 + (unsigned)(*p++ - '0');
        if (p > start + 2 && p < c->end && *p == '"' && value < c->nends) {
            *out = c->ends[value];
            c->p = p + 1;
            return CCL_OK;
        }
    }
    if (c->nends == 0)
        return BAD(c, "%s must be a rank: there are no groups", field_names[field]);
    return BAD(c, "%s must be a rank or a group, \"g0\" to \"g%zu\"", field_names[field],
               c->nends - 1);
}

static ccl_status_t read_field(cursor_t *c, unsigned field, uint32_t *out) {
    skip(c);
    size_t left = (size_t)(c->end - c->p);
    if ((field == SRC || field == DST) && left > 0 && *c->p == '"')
        return read_group_end(c, field, out);
    if (field == OP) {
        bool copy = left >= 6 && memcmp(c->p, "\"copy\"", 6) == 0;
        bool reduce = left >= 8 && memcmp(c->p, "\"reduce\"", 8) == 0;
        if (!copy && !reduce)
            return BAD(c, "%s must be \"copy\" or \"reduce\"", field_names[field]);
        *out = reduce;
        c->p += reduce ? 8 : 6;
        return CCL_OK;
    }
    const char *start = c->p;
    uint64_t value = 0;
    while (c->p < c->end && (unsigned)(*c->p - '0') < 10 && c->p - start < 11)
        value = value * 10 + (unsigned)(*c->p++ - '0');
    bool leading_zero = c->p - start > 1 && *start == '0';
    bool ends = c->p < c->end && strchr(",]} \t\r\n", *c->p);
    if (c->p == start || leading_zero || !ends || value > c->limit[field]) {
        c->p = start;
        return BAD(c, "%s must be an integer from 0 to %u", field_names[field], c->limit[field]);
    }
    *out = (uint32_t)value;
    return CCL_OK;
}

static ccl_status_t read_list(cursor_t *c, uint32_t *values) {
    unsigned n = 0;
    do {
        if (n == FIELDS)
            return BAD(c, "more than %d fields", FIELDS);
        CCL_TRY(read_field(c, n, &values[n]));
        n++;
    } while (take(c, ','));
    if (n <= STEP)
        return BAD(c, "%s is missing", field_names[n]);
    if (!take(c, ']'))
        return BAD(c, "'%c' is missing", ']');
    return CCL_OK;
}

static ccl_status_t read_object(cursor_t *c, uint32_t *values) {
    unsigned seen = 0;
    do {
        skip(c);
        const char *key = c->p;
        unsigned f = 0;
        if (key == c->end || *key != '"')
            return BAD(c, "%s", "a key is needed");
        c->p = skip_string(key, c->end);
        size_t len = (size_t)(c->p - key);
        while (f < FIELDS &&
               (len != strlen(field_names[f]) + 2 || memcmp(key + 1, field_names[f], len - 2) != 0))
            f++;
        if (f == FIELDS || (seen >> f & 1)) {
            c->p = key;
            return BAD(c, "%s: src, dst, chunk, step, channel, op and phase are known",
                       f == FIELDS ? "unknown key" : "key given twice");
        }
        seen |= 1u << f;
        if (!take(c, ':'))
            return BAD(c, "'%c' is missing", ':');
        CCL_TRY(read_field(c, f, &values[f]));
    } while (take(c, ','));
    for (unsigned f = 0; f <= STEP; f++) {
        if (!(seen >> f & 1))
            return BAD(c, "%s is missing", field_names[f]);
    }
    if (!take(c, '}'))
        return BAD(c, "'%c' is missing", '}');
    return CCL_OK;
}

static ccl_status_t read_transfers(cursor_t *c, ccl_schedule_builder_t *b) {
    c->p++; /* [ */
    if (take(c, ']'))
        return CCL_OK;
    do {
        uint32_t v[FIELDS] = {0};
        if (c->index >= CCL_I_MAX_TRANSFERS)
            return BAD(c, "too many transfers: at most %u", CCL_I_MAX_TRANSFERS);
        if (take(c, '['))
            CCL_TRY(read_list(c, v));
        else if (take(c, '{'))
            CCL_TRY(read_object(c, v));
        else
            return BAD(c, "%s", "a transfer is [src, dst, chunk, step, channel, op, phase]");
        if (ccl_peer_is_group(v[SRC]) && ccl_peer_is_group(v[DST]))
            return BAD(c, "%s", "src and dst are groups: one of them must be a rank");
        if (v[SRC] == v[DST])
            return BAD(c, "rank %u sends to itself", v[SRC]);
        ccl_schedule_builder_add(b, (ccl_transfer_t){.src = v[SRC],
                                                     .dst = v[DST],
                                                     .chunk = v[CHUNK],
                                                     .step = v[STEP],
                                                     .channel = (uint16_t)v[CHANNEL],
                                                     .reduce = (uint8_t)v[OP],
                                                     .phase = (uint8_t)v[PHASE]});
        c->index++;
    } while (take(c, ','));
    if (!take(c, ']'))
        return BAD(c, "'%c' or ',' is missing", ']');
    return CCL_OK;
}

/* ---------------------------------------------------------------- the rest */

static ccl_status_t read_collective(const ccl_json_at_t *at, ccl_collective_t **out,
                                    ccl_error_t *err) {
    static const char *const keys[] = {"kind", "nranks", "chunks_per_block",
                                       "root", "demand", NULL};
    static const char *const demand_keys[] = {"demand", NULL};
    const char *kind_text = NULL;
    ccl_collective_kind_t kind;
    uint32_t nranks = 0, chunks_per_block = 1, root = 0;
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    ccl_json_at_t demand = ccl_json_member(at, "demand");
    if (demand.value) {
        CCL_TRY(ccl_json_only(at, demand_keys, err));
        return ccl_i_demand_from_json(&demand, false, out, err);
    }
    ccl_json_at_t kind_at = ccl_json_member(at, "kind");
    ccl_json_at_t nranks_at = ccl_json_member(at, "nranks");
    ccl_json_at_t chunks_at = ccl_json_member(at, "chunks_per_block");
    ccl_json_at_t root_at = ccl_json_member(at, "root");
    CCL_TRY(ccl_json_string(&kind_at, true, &kind_text, err));
    CCL_TRY(ccl_json_u32(&nranks_at, true, CCL_I_MAX_RANKS, &nranks, err));
    CCL_TRY(ccl_json_u32(&chunks_at, false, CCL_I_MAX_CHUNKS, &chunks_per_block, err));
    CCL_TRY(ccl_json_u32(&root_at, false, CCL_I_MAX_RANKS, &root, err));
    ccl_error_t inner = CCL_ERROR_INIT;
    if (ccl_collective_kind_parse(kind_text, &kind, &inner) != CCL_OK)
        return ccl_json_fail(&kind_at, err, "%s", inner.text);
    ccl_status_t status = ccl_collective_create(kind, nranks, chunks_per_block, root, out, &inner);
    if (status == CCL_ERR_INPUT)
        return ccl_json_fail(at, err, "%s", inner.text);
    return status == CCL_OK ? CCL_OK : ccl_fail_nomem(err);
}

/** What stands beside a schedule's transfers. */
typedef struct head {
    const char *name, *origin;
    bool limited, rounds, joined, listed;
    double piece_bytes;
    uint32_t stagger;
} head_t;

static ccl_status_t read_stagger(const ccl_json_at_t *root, head_t *head,
                                 const ccl_collective_t *coll, ccl_error_t *err) {
    ccl_json_at_t at = ccl_json_member(root, "stagger");
    CCL_TRY(ccl_json_u32(&at, false, CCL_MAX_STAGGER, &head->stagger, err));
    if (head->stagger == 0)
        return CCL_OK;
    if (coll->kind != CCL_BROADCAST && coll->kind != CCL_REDUCE && coll->kind != CCL_ALLREDUCE)
        return ccl_json_fail(
            &at, err, "stagger: for broadcast, reduce and allreduce only, not for %s", coll->name);
    if (head->stagger < 2)
        return ccl_json_fail(&at, err, "stagger: 2 or more are needed");
    if (coll->kind != CCL_ALLREDUCE && coll->nchunks % head->stagger != 0)
        return ccl_json_fail(&at, err, "stagger: %u does not divide the %u chunks", head->stagger,
                             coll->nchunks);
    if (!(head->piece_bytes > 0))
        return ccl_json_fail(&at, err, "stagger: piece_bytes is needed too");
    return CCL_OK;
}

static ccl_status_t read_head(const ccl_json_at_t *root, head_t *head, ccl_collective_t **out,
                              ccl_error_t *err) {
    static const char *const keys[] = {
        "format", "name",   "origin",    "collective",  "limited", "rounds", "joined",
        "listed", "groups", "transfers", "piece_bytes", "stagger", NULL};
    const char *format = NULL;
    CCL_TRY(ccl_json_object(root, true, err));
    ccl_json_at_t format_at = ccl_json_member(root, "format");
    CCL_TRY(ccl_json_string(&format_at, true, &format, err));
    if (strcmp(format, "ccllab-schedule-1") != 0)
        return ccl_json_fail(&format_at, err, "unknown format '%.40s': ccllab-schedule-1 is read",
                             format);
    CCL_TRY(ccl_json_only(root, keys, err));
    ccl_json_at_t name_at = ccl_json_member(root, "name");
    ccl_json_at_t origin_at = ccl_json_member(root, "origin");
    ccl_json_at_t limited_at = ccl_json_member(root, "limited");
    ccl_json_at_t rounds_at = ccl_json_member(root, "rounds");
    ccl_json_at_t piece_at = ccl_json_member(root, "piece_bytes");
    ccl_json_at_t coll_at = ccl_json_member(root, "collective");
    CCL_TRY(ccl_json_string(&name_at, false, &head->name, err));
    CCL_TRY(ccl_json_string(&origin_at, false, &head->origin, err));
    CCL_TRY(ccl_json_bool(&limited_at, false, &head->limited, err));
    ccl_json_at_t joined_at = ccl_json_member(root, "joined");
    CCL_TRY(ccl_json_bool(&rounds_at, false, &head->rounds, err));
    CCL_TRY(ccl_json_bool(&joined_at, false, &head->joined, err));
    ccl_json_at_t listed_at = ccl_json_member(root, "listed");
    CCL_TRY(ccl_json_bool(&listed_at, false, &head->listed, err));
    CCL_TRY(ccl_json_number(&piece_at, false, &head->piece_bytes, err));
    if (head->piece_bytes < 0 || head->piece_bytes > 0x1p63)
        return ccl_json_fail(&piece_at, err, "piece_bytes: a number of bytes up to 2^63 is needed");
    CCL_TRY(read_collective(&coll_at, out, err));
    ccl_status_t status = read_stagger(root, head, *out, err);
    if (status != CCL_OK) {
        ccl_collective_destroy(*out);
        *out = NULL;
    }
    return status;
}

/** The groups of ranks, into the builder; what stands for each. */
static ccl_status_t read_groups(const ccl_json_at_t *root, uint32_t nranks,
                                ccl_schedule_builder_t *b, uint32_t **ends_out, size_t *len_out,
                                ccl_error_t *err) {
    ccl_json_at_t at = ccl_json_member(root, "groups");
    size_t len = 0, nranks_of = 0;
    CCL_TRY(ccl_json_array(&at, false, &len, err));
    uint32_t *ends = calloc(len + 1, sizeof *ends), *ranks = calloc(nranks, sizeof *ranks);
    ccl_status_t status = ends && ranks ? CCL_OK : ccl_fail_nomem(err);
    for (size_t g = 0; g < len && status == CCL_OK; g++) {
        ccl_json_at_t group = ccl_json_element(&at, g);
        status = ccl_json_array(&group, true, &nranks_of, err);
        if (status == CCL_OK && (nranks_of == 0 || nranks_of > nranks))
            status = ccl_json_fail(&group, err, "a group is a list of 1 to %u ranks", nranks);
        for (size_t i = 0; i < nranks_of && status == CCL_OK; i++) {
            ccl_json_at_t rank = ccl_json_element(&group, i);
            status = ccl_json_u32(&rank, true, nranks - 1, &ranks[i], err);
            for (size_t k = 0; k < i && status == CCL_OK; k++)
                if (ranks[k] == ranks[i])
                    status = ccl_json_fail(&rank, err, "rank %u is there twice", ranks[i]);
        }
        if (status == CCL_OK)
            ends[g] = ccl_schedule_builder_group(b, ranks, (uint32_t)nranks_of);
    }
    free(ranks);
    if (status != CCL_OK)
        free(ends);
    *ends_out = status == CCL_OK ? ends : NULL;
    *len_out = len;
    return status;
}

/** 1-based line of p. */
static int line_at(const char *text, const char *p, const char **line_start) {
    int line = 1;
    *line_start = text;
    for (const char *q = text; (q = memchr(q, '\n', (size_t)(p - q))); q++) {
        line++;
        *line_start = q + 1;
    }
    return line;
}

const char *ccl_i_json_first_key(const char *text, size_t len, size_t *len_out) {
    const char *end = text + len;
    const char *p = skip_space(text, end);
    *len_out = 0;
    if (p == end || *p != '{')
        return p;
    p = skip_space(p + 1, end);
    if (p == end || *p != '"')
        return p;
    *len_out = (size_t)(skip_string(p, end) - p);
    *len_out = *len_out > 2 ? *len_out - 2 : 0;
    return p + 1;
}

/** Another tool's file, by its first key. */
static bool read_foreign(const char *name, const char *text, size_t len, ccl_schedule_t **out,
                         ccl_status_t *status, ccl_error_t *err) {
    size_t key_len;
    char key[40] = "";
    const char *at = ccl_i_json_first_key(text, len, &key_len);
    if (key_len >= sizeof key)
        return false;
    memcpy(key, at, key_len);
    if (strcmp(key, "msccl_type") == 0 || strcmp(key, "sccl_type") == 0) {
        *status = ccl_schedule_read_sccl(name, text, len, out, err);
        return true;
    }
    if (strcmp(ccl_i_teccl_key(key), "Epoch_Duration") == 0) {
        ccl_epoch_flows_t *flows = NULL;
        *status = ccl_epoch_flows_read_text(name, text, len, &flows, err);
        if (*status == CCL_OK)
            *status = ccl_epoch_flows_schedule(flows, out, err);
        ccl_epoch_flows_destroy(flows);
        return true;
    }
    return false;
}

ccl_status_t ccl_schedule_read_json(const char *name, const char *text, size_t len,
                                    ccl_schedule_t **out, ccl_error_t *err) {
    ccl_status_t foreign;
    if (read_foreign(name, text, len, out, &foreign, err))
        return foreign;
    const char *first = NULL, *behind = NULL;
    head_t head = {.name = "", .origin = ""};
    ccl_collective_t *coll = NULL;
    ccl_schedule_builder_t *b = NULL;
    ccl_json_doc_t doc;
    bool found = find_transfers(text, len, &first, &behind);
    CCL_TRY(found ? parse_without(name, text, len, first, behind, &doc, err)
                  : ccl_json_parse(name, text, len, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc);
    ccl_status_t status = read_head(&root, &head, &coll, err);
    if (status != CCL_OK)
        goto end;
    if (!found) {
        ccl_json_at_t at = ccl_json_member(&root, "transfers");
        ccl_collective_destroy(coll);
        status = ccl_json_fail(at.value ? &at : &root, err, "transfers must be an array");
        goto end;
    }
    cursor_t c = {.p = first,
                  .end = behind,
                  .file = doc.name,
                  .err = err,
                  .limit = {coll->nranks - 1, coll->nranks - 1, coll->nchunks - 1,
                            CCL_I_MAX_STEP_NUMBER - 1, CCL_I_MAX_CHANNELS - 1, 0, UINT8_MAX}};
    c.line = line_at(text, first, &c.line_start);
    b = ccl_schedule_builder_create(head.name, coll);
    if (!b) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    uint32_t *ends = NULL;
    status = read_groups(&root, coll->nranks, b, &ends, &c.nends, err);
    c.ends = ends;
    if (status == CCL_OK)
        status = read_transfers(&c, b);
    free(ends);
    if (status != CCL_OK) {
        ccl_schedule_builder_destroy(b);
        goto end;
    }
    status = ccl_schedule_builder_finish(b, out, err);
    if (status == CCL_OK) {
        ccl_origin_set((*out)->origin, "%s", head.origin);
        (*out)->limited = head.limited;
        (*out)->rounds = head.rounds;
        (*out)->joined = head.joined;
        (*out)->listed = head.listed;
        (*out)->piece_bytes = head.piece_bytes;
        (*out)->stagger = head.stagger;
    }
end:
    ccl_json_fini(&doc);
    return status;
}

/* ---------------------------------------------------------------- files */

ccl_status_t ccl_schedule_read(const char *path, ccl_schedule_t **out, ccl_error_t *err) {
    char *text;
    size_t len;
    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    const char *start = skip_space(text, text + len);
    ccl_status_t status;
    if (start < text + len && *start == '<')
        status = ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0,
                               "this is XML, a program perhaps: a schedule is JSON or ResCCLang");
    else if (start < text + len && *start == '{')
        status = ccl_schedule_read_json(name, text, len, out, err);
    else
        status = ccl_schedule_read_resccl(name, text, len, out, err);
    if (status == CCL_OK && !(*out)->origin[0])
        ccl_origin_file((*out)->origin, path);
    free(text);
    return status;
}

ccl_status_t ccl_schedule_write_json(const ccl_schedule_t *schedule, ccl_text_t *out,
                                     ccl_error_t *err) {
    const ccl_collective_t *coll = schedule->coll;
    ccl_text_printf(out, "{\n  \"format\": \"ccllab-schedule-1\",\n  \"name\": ");
    ccl_i_json_text(schedule->name, out);
    if (schedule->origin[0]) {
        ccl_text_printf(out, ",\n  \"origin\": ");
        ccl_i_json_text(schedule->origin, out);
    }
    ccl_text_printf(out, ",\n  \"collective\": ");
    if (coll->kind == CCL_CUSTOM) {
        ccl_text_printf(out, "{\"demand\": ");
        ccl_i_demand_write(coll, 2, out);
        ccl_text_printf(out, "}");
    } else {
        ccl_text_printf(out,
                        "{\"kind\": \"%s\", \"nranks\": %u, \"chunks_per_block\": %u, "
                        "\"root\": %u}",
                        ccl_collective_kind_name(coll->kind), coll->nranks, coll->chunks_per_block,
                        coll->root);
    }
    if (schedule->limited)
        ccl_text_printf(out, ",\n  \"limited\": true");
    if (schedule->rounds)
        ccl_text_printf(out, ",\n  \"rounds\": true");
    if (schedule->joined)
        ccl_text_printf(out, ",\n  \"joined\": true");
    if (schedule->listed)
        ccl_text_printf(out, ",\n  \"listed\": true");
    if (schedule->piece_bytes > 0)
        ccl_text_printf(out, ",\n  \"piece_bytes\": %.0f", schedule->piece_bytes);
    if (schedule->stagger > 0)
        ccl_text_printf(out, ",\n  \"stagger\": %u", schedule->stagger);
    for (uint32_t g = 0; g < schedule->ngroups; g++) {
        ccl_text_printf(out, g ? ",\n    [" : ",\n  \"groups\": [\n    [");
        for (uint32_t i = 0; i < schedule->groups[g].n; i++)
            ccl_text_printf(out, i ? ", %u" : "%u", schedule->groups[g].ranks[i]);
        ccl_text_printf(out, g + 1 == schedule->ngroups ? "]\n  ]" : "]");
    }
    ccl_text_printf(out, ",\n  \"transfers\": [");
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        const uint32_t fields[] = {t->src, t->dst, t->chunk, t->step, t->channel};
        for (unsigned f = 0; f < CCL_ARRAY_LEN(fields); f++) {
            const char *before = f ? ", " : i ? ",\n    [" : "\n    [";
            ccl_text_add(out, before, strlen(before));
            if (f < 2 && ccl_peer_is_group(fields[f]))
                ccl_text_printf(out, "\"g%u\"", fields[f] & ~CCL_PEER_GROUP);
            else
                ccl_i_text_u64(out, fields[f]);
        }
        const char *op = t->reduce ? ", \"reduce\", " : ", \"copy\", ";
        ccl_text_add(out, op, strlen(op));
        ccl_i_text_u64(out, t->phase);
        ccl_text_add(out, "]", 1);
    }
    ccl_text_printf(out, "\n  ]\n}\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
