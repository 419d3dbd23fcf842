/* A bounded XML element tree on top of expat. */
#include "topologies/readers/xml_tree.h"

#include <errno.h>
#include <expat.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct parse_state {
    ccl_i_xml_tree_t tree;
    XML_Parser parser;
    uint32_t open[CCL_I_XML_MAX_DEPTH]; /* elements not yet closed */
    uint32_t last_child[CCL_I_XML_MAX_DEPTH];
    uint32_t depth;
    ccl_status_t status;
    ccl_error_t *err;
} parse_state_t;

static int line_of(const parse_state_t *s) {
    return (int)XML_GetCurrentLineNumber(s->parser);
}

static int column_of(const parse_state_t *s) {
    return (int)XML_GetCurrentColumnNumber(s->parser) + 1;
}

static void stop(parse_state_t *s, ccl_status_t status) {
    s->status = status;
    XML_StopParser(s->parser, XML_FALSE);
}

static void stop_input(parse_state_t *s, const char *text) {
    stop(s,
         ccl_error_set(s->err, CCL_ERR_INPUT, s->tree.file, line_of(s), column_of(s), "%s", text));
}

static bool copy_attributes(parse_state_t *s, ccl_i_xml_elem_t *elem, const XML_Char **attrs) {
    uint32_t n = 0;
    while (attrs[2 * n]) {
        if (n == CCL_I_XML_MAX_ATTRIBUTES) {
            stop_input(s, "more than 64 attributes on one element");
            return false;
        }
        if (strlen(attrs[2 * n]) > CCL_I_XML_MAX_VALUE_BYTES ||
            strlen(attrs[2 * n + 1]) > CCL_I_XML_MAX_VALUE_BYTES) {
            stop_input(s, "an attribute of more than 4096 bytes");
            return false;
        }
        n++;
    }
    ccl_i_xml_attr_t *copy = n ? ccl_arena_alloc(&s->tree.arena, n, sizeof(*copy)) : NULL;
    if (n && !copy) {
        stop(s, ccl_fail_nomem(s->err));
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        copy[i].name = ccl_arena_strdup(&s->tree.arena, attrs[2 * i]);
        copy[i].value = ccl_arena_strdup(&s->tree.arena, attrs[2 * i + 1]);
        if (!copy[i].name || !copy[i].value) {
            stop(s, ccl_fail_nomem(s->err));
            return false;
        }
    }
    elem->attrs = copy;
    elem->nattrs = n;
    return true;
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attrs) {
    parse_state_t *s = user;
    if (s->status != CCL_OK)
        return;
    if (s->depth == CCL_I_XML_MAX_DEPTH) {
        stop_input(s, "elements nested deeper than 64");
        return;
    }
    if (s->tree.nelems == CCL_I_XML_MAX_ELEMENTS) {
        stop_input(s, "more than 262144 elements");
        return;
    }
    if (strlen(name) > CCL_I_XML_MAX_VALUE_BYTES) {
        stop_input(s, "an element name of more than 4096 bytes");
        return;
    }
    ccl_i_xml_elem_t elem = {.parent = s->depth ? s->open[s->depth - 1] : CCL_NONE,
                             .child = CCL_NONE,
                             .next = CCL_NONE,
                             .line = line_of(s),
                             .column = column_of(s)};
    elem.name = ccl_arena_strdup(&s->tree.arena, name);
    if (!elem.name ||
        !ccl_grow(&s->tree.elems, &s->tree.cap, (size_t)s->tree.nelems + 1, sizeof(elem))) {
        stop(s, ccl_fail_nomem(s->err));
        return;
    }
    if (!copy_attributes(s, &elem, attrs))
        return;
    uint32_t index = s->tree.nelems++;
    s->tree.elems[index] = elem;
    if (s->depth) {
        uint32_t *last = &s->last_child[s->depth - 1];
        if (*last == CCL_NONE)
            s->tree.elems[elem.parent].child = index;
        else
            s->tree.elems[*last].next = index;
        *last = index;
    }
    s->open[s->depth] = index;
    s->last_child[s->depth] = CCL_NONE;
    s->depth++;
}

static void XMLCALL on_end(void *user, const XML_Char *name) {
    parse_state_t *s = user;
    (void)name;
    if (s->depth)
        s->depth--;
}

static void XMLCALL on_entity(void *user, const XML_Char *name, int is_parameter,
                              const XML_Char *value, int value_len, const XML_Char *base,
                              const XML_Char *system_id, const XML_Char *public_id,
                              const XML_Char *notation) {
    (void)name, (void)is_parameter, (void)value, (void)value_len;
    (void)base, (void)system_id, (void)public_id, (void)notation;
    parse_state_t *s = user;
    if (s->status == CCL_OK)
        stop_input(s, "entity declarations are not allowed here");
}

ccl_status_t ccl_i_xml_parse(const char *file, const char *text, size_t len, ccl_i_xml_tree_t *out,
                             ccl_error_t *err) {
    parse_state_t s = {.status = CCL_OK, .err = err};
    s.tree.file = file;
    ccl_arena_init(&s.tree.arena);
    s.parser = XML_ParserCreate(NULL);
    if (!s.parser)
        return ccl_fail_nomem(err);
    XML_SetUserData(s.parser, &s);
    XML_SetElementHandler(s.parser, on_start, on_end);
    XML_SetEntityDeclHandler(s.parser, on_entity);
    size_t done = 0;
    bool last = false;
    while (!last && s.status == CCL_OK) {
        size_t part = len - done;
        if (part > (size_t)1 << 20)
            part = (size_t)1 << 20;
        last = done + part == len;
        if (XML_Parse(s.parser, text + done, (int)part, last) == XML_STATUS_ERROR) {
            enum XML_Error code = XML_GetErrorCode(s.parser);
            if (s.status == CCL_OK && code == XML_ERROR_NO_MEMORY)
                s.status = ccl_fail_nomem(err);
            else if (s.status == CCL_OK)
                s.status = ccl_error_set(err, CCL_ERR_INPUT, file, line_of(&s), column_of(&s),
                                         "not well-formed XML: %s", XML_ErrorString(code));
            break;
        }
        done += part;
    }
    XML_ParserFree(s.parser);
    if (s.status == CCL_OK && s.tree.nelems == 0)
        s.status = ccl_error_set(err, CCL_ERR_INPUT, file, 1, 1, "no element in this document");
    if (s.status != CCL_OK) {
        ccl_i_xml_fini(&s.tree);
        return s.status;
    }
    *out = s.tree;
    return CCL_OK;
}

void ccl_i_xml_fini(ccl_i_xml_tree_t *tree) {
    free(tree->elems);
    tree->elems = NULL;
    tree->nelems = 0;
    ccl_arena_fini(&tree->arena);
}

bool ccl_i_xml_is(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name) {
    return strcmp(tree->elems[elem].name, name) == 0;
}

const char *ccl_i_xml_attr(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name) {
    const ccl_i_xml_elem_t *e = &tree->elems[elem];
    for (uint32_t i = 0; i < e->nattrs; i++)
        if (strcmp(e->attrs[i].name, name) == 0)
            return e->attrs[i].value;
    return NULL;
}

uint32_t ccl_i_xml_child(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name) {
    uint32_t child = tree->elems[elem].child;
    while (child != CCL_NONE && !ccl_i_xml_is(tree, child, name))
        child = tree->elems[child].next;
    return child;
}

ccl_status_t ccl_i_xml_fail(const ccl_i_xml_tree_t *tree, uint32_t elem, ccl_error_t *err,
                            const char *fmt, ...) {
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    const ccl_i_xml_elem_t *e = &tree->elems[elem];
    return ccl_error_set(err, CCL_ERR_INPUT, tree->file, e->line, e->column, "<%.60s>: %s", e->name,
                         text);
}

ccl_status_t ccl_i_xml_int(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name,
                           int64_t min, int64_t max, int64_t *out, ccl_error_t *err) {
    const char *text = ccl_i_xml_attr(tree, elem, name);
    if (!text)
        return CCL_OK;
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno == ERANGE)
        return ccl_i_xml_fail(tree, elem, err, "%s \"%.40s\" is not a whole number", name, text);
    if (value < min || value > max)
        return ccl_i_xml_fail(tree, elem, err, "%s %lld is not in %lld to %lld", name, value,
                              (long long)min, (long long)max);
    *out = value;
    return CCL_OK;
}

ccl_status_t ccl_i_xml_number(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name,
                              double max, double *out, ccl_error_t *err) {
    const char *text = ccl_i_xml_attr(tree, elem, name);
    if (!text)
        return CCL_OK;
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return ccl_i_xml_fail(tree, elem, err, "%s \"%.40s\" is not a number", name, text);
    if (value < 0 || value > max)
        return ccl_i_xml_fail(tree, elem, err, "%s %g is not in 0 to %g", name, value, max);
    *out = value;
    return CCL_OK;
}
