/* Plans between clusters: read from FlagCX's XML. Fields are elements with a number inside. */
#include "schedule/schedule_i.h"

#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8, MOST_STEPS = 1 << 16, MOST_ITEMS = 1 << 22, MOST_CHUNKS = 1 << 28 };

/** What elements stand inside which; fields hold a number. */
typedef struct element {
    const char *name, *inside;
} element_t;
static const element_t elements[] = {
    {"FlagcxC2cPlanner", ""},
    {"RefreshFunc", "FlagcxC2cPlanner"},
    {"PreHomoFuncSteps", "FlagcxC2cPlanner"},
    {"HeteroFuncSteps", "FlagcxC2cPlanner"},
    {"HomoInterFuncSteps", "FlagcxC2cPlanner"},
    {"PostHomoFuncSteps", "FlagcxC2cPlanner"},
    {"Step", "PreHomoFuncSteps"},
    {"Step", "HeteroFuncSteps"},
    {"Step", "HomoInterFuncSteps"},
    {"Step", "PostHomoFuncSteps"},
    {"HomoFunc", "Step"},
    {"HeteroFunc", "Step"},
    {"P2pOp", "HeteroFunc"},
};
enum { LISTS = 4 };
static const char *const lists[LISTS] = {"PreHomoFuncSteps", "HeteroFuncSteps",
                                         "HomoInterFuncSteps", "PostHomoFuncSteps"};
/** Fields of an element, in the order of `values`. */
typedef struct fields {
    const char *inside;
    const char *names[9];
} fields_t;
static const fields_t all_fields[] = {
    {"FlagcxC2cPlanner",
     {"nChunks", "nSeqPreSteps", "nPipePreSteps", "nSeqInterSteps", "nPipePostSteps",
      "nSeqPostSteps", NULL}},
    {"RefreshFunc", {"buffType", "start", "offset", "count", "totalCount", "redOp", NULL}},
    {"HomoFunc",
     {"rootRank", "sendType", "recvType", "sendOffset", "recvOffset", "count", "homoType", "commOp",
      NULL}},
    {"P2pOp", {"rank", "peerRank", "offset", "count", "isRecv", NULL}},
};

typedef struct reader {
    XML_Parser parser;
    const char *file;
    ccl_error_t *err;
    ccl_status_t status;
    ccl_c2c_plan_t *plan;
    const char *open[MOST_DEPTH]; /* names, of the tables */
    uint32_t depth;
    const fields_t *fields; /* of the element that is open, if it has any */
    int64_t values[8], head[8];
    uint32_t seen, head_seen; /* bits */
    int field;                /* that is open; -1: none */
    char text[32];
    size_t text_len;
    int list;              /* that is open */
    uint32_t steps[LISTS]; /* so far; the open one counts */
    bool listed[LISTS];
    size_t caps[LISTS];
} reader_t;

static void stop(reader_t *r, ccl_status_t status) {
    r->status = status;
    XML_StopParser(r->parser, XML_FALSE);
}

#define FAIL(r_, ...)                                                                              \
    stop((r_), ccl_error_set((r_)->err, CCL_ERR_INPUT, (r_)->file,                                 \
                             (int)XML_GetCurrentLineNumber((r_)->parser),                          \
                             (int)XML_GetCurrentColumnNumber((r_)->parser) + 1, __VA_ARGS__))

static const char *inside(const reader_t *r) {
    return r->depth ? r->open[r->depth - 1] : "";
}

static const element_t *find(const reader_t *r, const char *name) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(elements); i++) {
        if (strcmp(elements[i].name, name) == 0 && strcmp(elements[i].inside, inside(r)) == 0)
            return &elements[i];
    }
    return NULL;
}

static const fields_t *fields_of(const char *name) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(all_fields); i++) {
        if (strcmp(all_fields[i].inside, name) == 0)
            return &all_fields[i];
    }
    return NULL;
}

static bool open_field(reader_t *r, const char *name) {
    for (int f = 0; r->fields && r->fields->names[f]; f++) {
        if (strcmp(r->fields->names[f], name) != 0)
            continue;
        r->field = f;
        r->text_len = 0;
        if (r->seen & 1U << f)
            FAIL(r, "<%s> twice in <%s>", name, inside(r));
        return true;
    }
    return false;
}

static void XMLCALL open_element(void *user, const XML_Char *name, const XML_Char **atts) {
    reader_t *r = user;
    const element_t *e;
    (void)atts;
    if (r->status != CCL_OK)
        return;
    if (r->field >= 0) {
        FAIL(r, "<%.40s> inside a number", name);
        return;
    }
    if (open_field(r, name))
        return;
    e = find(r, name);
    if (!e) {
        if (r->depth == 0)
            FAIL(r, "<FlagcxC2cPlanner> is wanted, not <%.40s>", name);
        else
            FAIL(r, "<%.40s> has no place in <%s>", name, inside(r));
        return;
    }
    for (int l = 0; l < LISTS; l++) {
        if (strcmp(lists[l], name) != 0)
            continue;
        if (r->listed[l])
            FAIL(r, "<%s> twice", name);
        r->listed[l] = true;
        r->list = l;
    }
    if (strcmp(name, "Step") == 0 && r->steps[r->list]++ == MOST_STEPS)
        FAIL(r, "more than %u steps", (unsigned)MOST_STEPS);
    if ((strcmp(name, "HeteroFunc") == 0) != (r->list == 1) &&
        (strcmp(name, "HeteroFunc") == 0 || strcmp(name, "HomoFunc") == 0))
        FAIL(r, "<%s> has no place in <%s>", name, lists[r->list]);
    if (r->depth == 1 && r->fields) {
        memcpy(r->head, r->values, sizeof r->head);
        r->head_seen = r->seen;
    }
    r->open[r->depth++] = e->name;
    r->fields = fields_of(e->name);
    r->seen = 0;
}

static void XMLCALL text_inside(void *user, const XML_Char *text, int len) {
    reader_t *r = user;
    if (r->status != CCL_OK)
        return;
    if (r->field < 0) {
        for (int i = 0; i < len; i++) {
            if (!strchr(" \t\r\n", text[i])) {
                FAIL(r, "text between elements");
                return;
            }
        }
        return;
    }
    if (r->text_len + (size_t)len >= sizeof r->text) {
        FAIL(r, "too long a number");
        return;
    }
    memcpy(r->text + r->text_len, text, (size_t)len);
    r->text_len += (size_t)len;
}

static void close_field(reader_t *r) {
    const char *name = r->fields->names[r->field];
    bool may_be_less = strcmp(name, "rootRank") == 0 || strcmp(name, "buffType") == 0;
    char *end;
    long long value;
    r->text[r->text_len] = '\0';
    value = strtoll(r->text, &end, 10);
    end += strspn(end, " \t\r\n");
    if (end == r->text || *end || value < (may_be_less ? -1 : 0) || value > MOST_CHUNKS) {
        FAIL(r, "<%s>%s</%s>: a whole number is wanted", name, r->text, name);
        return;
    }
    r->values[r->field] = value;
    r->seen |= 1U << r->field;
    r->field = -1;
}

static bool complete(reader_t *r, const char *name, uint32_t seen) {
    const fields_t *f = fields_of(name);
    for (int i = 0; f->names[i]; i++) {
        if (seen & 1U << i)
            continue;
        FAIL(r, "<%s> lacks <%s>", name, f->names[i]);
        return false;
    }
    return true;
}

static bool grow(reader_t *r, void *array, uint32_t n, size_t size) {
    if (n >= MOST_ITEMS) {
        FAIL(r, "too many operations");
        return false;
    }
    if (!ccl_grow(array, &r->caps[r->list], n + 1, size)) {
        stop(r, ccl_fail_nomem(r->err));
        return false;
    }
    return true;
}

static void close_call(reader_t *r) {
    ccl_c2c_plan_t *p = r->plan;
    ccl_c2c_call_t **calls = r->list == 0 ? &p->pre : r->list == 2 ? &p->inter : &p->post;
    uint32_t *n = r->list == 0 ? &p->npre : r->list == 2 ? &p->ninter : &p->npost;
    const int64_t *v = r->values;
    if (v[1] > 2 || v[2] > 2 || v[6] > 2 || v[7] >= CCL_C2C_OPS) {
        FAIL(r, "sendType, recvType and homoType are 0 to 2, commOp is 0 to %d", CCL_C2C_OPS - 1);
        return;
    }
    if (grow(r, calls, *n, sizeof **calls))
        (*calls)[(*n)++] = (ccl_c2c_call_t){r->steps[r->list] - 1, (int32_t)v[0],  (uint32_t)v[1],
                                            (uint32_t)v[2],        (uint32_t)v[3], (uint32_t)v[4],
                                            (uint32_t)v[5],        (uint32_t)v[6], (uint32_t)v[7]};
}

static void close_message(reader_t *r) {
    ccl_c2c_plan_t *p = r->plan;
    const int64_t *v = r->values;
    if (v[0] != p->rank) {
        FAIL(r, "<rank>%lld</rank> in the plan of rank %u", (long long)v[0], p->rank);
        return;
    }
    if (v[4] > 1) {
        FAIL(r, "<isRecv> is 0 or 1");
        return;
    }
    if (grow(r, &p->messages, p->nmessages, sizeof *p->messages))
        p->messages[p->nmessages++] = (ccl_c2c_message_t){
            r->steps[1] - 1, (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3], v[4] == 1};
}

static void close_refresh(reader_t *r) {
    const int64_t *v = r->values;
    r->plan->refresh = (ccl_c2c_refresh_t){(int32_t)v[0],  (uint32_t)v[1], (uint32_t)v[2],
                                           (uint32_t)v[3], (uint32_t)v[4], (uint32_t)v[5]};
}

static void XMLCALL close_element(void *user, const XML_Char *name) {
    reader_t *r = user;
    if (r->status != CCL_OK)
        return;
    if (r->field >= 0) {
        close_field(r);
        return;
    }
    if (r->fields && r->depth > 1 && !complete(r, name, r->seen))
        return;
    if (strcmp(name, "HomoFunc") == 0)
        close_call(r);
    else if (strcmp(name, "P2pOp") == 0)
        close_message(r);
    else if (strcmp(name, "RefreshFunc") == 0)
        close_refresh(r);
    if (r->depth == 1) {
        memcpy(r->head, r->values, sizeof r->head);
        r->head_seen = r->seen;
    }
    r->depth--;
    r->fields = NULL;
    if (r->depth == 1) { /* numbers of the plan stand before its lists */
        r->fields = fields_of("FlagcxC2cPlanner");
        memcpy(r->values, r->head, sizeof r->head);
        r->seen = r->head_seen;
    }
    if (r->depth == 0)
        complete(r, "FlagcxC2cPlanner", r->head_seen);
}

static void XMLCALL doctype(void *user, const XML_Char *name, const XML_Char *sysid,
                            const XML_Char *pubid, int internal) {
    reader_t *r = user;
    (void)name, (void)sysid, (void)pubid, (void)internal;
    FAIL(r, "a plan has no document type");
}

/* As many steps as the counts say. */
static ccl_status_t check_steps(reader_t *r) {
    ccl_c2c_plan_t *p = r->plan;
    int64_t messages = r->head[2] + r->head[3] + r->head[4];
    const int64_t want[LISTS] = {r->head[1] + r->head[2], messages, messages,
                                 r->head[4] + r->head[5]};
    for (int l = 0; l < LISTS; l++) {
        if (!r->listed[l] || (int64_t)r->steps[l] != want[l])
            return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, 1, 1,
                                 "<%s> has %u steps, the numbers of steps make it %lld", lists[l],
                                 r->steps[l], (long long)want[l]);
    }
    if (r->head[0] < 1)
        return ccl_error_set(r->err, CCL_ERR_INPUT, r->file, 1, 1, "<nChunks> is at least 1");
    p->nchunks = (uint32_t)r->head[0];
    p->seq_pre = (uint32_t)r->head[1];
    p->pipe_pre = (uint32_t)r->head[2];
    p->seq_inter = (uint32_t)r->head[3];
    p->pipe_post = (uint32_t)r->head[4];
    p->seq_post = (uint32_t)r->head[5];
    return CCL_OK;
}

static ccl_status_t keep(ccl_arena_t *arena, void *array, uint32_t n, size_t size,
                         ccl_error_t *err) {
    void **at = array, *copy = ccl_arena_alloc(arena, n + (size_t)1, size);
    if (copy && n)
        memcpy(copy, *at, n * size);
    free(*at);
    *at = copy;
    return copy ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t keep_all(ccl_c2c_plan_t *p, ccl_error_t *err) {
    ccl_status_t a = keep(&p->arena, &p->pre, p->npre, sizeof *p->pre, err);
    ccl_status_t b = keep(&p->arena, &p->inter, p->ninter, sizeof *p->inter, err);
    ccl_status_t c = keep(&p->arena, &p->post, p->npost, sizeof *p->post, err);
    ccl_status_t d = keep(&p->arena, &p->messages, p->nmessages, sizeof *p->messages, err);
    return a != CCL_OK ? a : b != CCL_OK ? b : c != CCL_OK ? c : d;
}

ccl_status_t ccl_c2c_plan_read_xml(const char *name, const char *text, size_t len, uint32_t rank,
                                   ccl_c2c_plan_t **out, ccl_error_t *err) {
    reader_t r = {.file = name, .err = err, .field = -1};
    ccl_status_t kept;
    if (len > INT_MAX)
        return ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0, "more than 2 GiB");
    r.plan = calloc(1, sizeof *r.plan);
    r.parser = XML_ParserCreate(NULL);
    if (!r.plan || !r.parser) {
        free(r.plan);
        XML_ParserFree(r.parser);
        return ccl_fail_nomem(err);
    }
    ccl_arena_init(&r.plan->arena);
    r.plan->rank = rank;
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, open_element, close_element);
    XML_SetCharacterDataHandler(r.parser, text_inside);
    XML_SetStartDoctypeDeclHandler(r.parser, doctype);
    if (XML_Parse(r.parser, text, (int)len, 1) != XML_STATUS_OK && r.status == CCL_OK)
        FAIL(&r, "not well-formed XML: %s", XML_ErrorString(XML_GetErrorCode(r.parser)));
    XML_ParserFree(r.parser);
    if (r.status == CCL_OK)
        r.status = check_steps(&r);
    kept = keep_all(r.plan, err);
    if (r.status == CCL_OK)
        r.status = kept;
    if (r.status != CCL_OK) {
        ccl_c2c_plan_destroy(r.plan);
        return r.status;
    }
    *out = r.plan;
    return CCL_OK;
}
