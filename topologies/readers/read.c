/* Tells the formats of a cluster description apart and hands it to the right reader. */
#include "topologies/topologies.h"
#include "base/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "topologies/internal.h"

/* ---------------------------------------------------------------- content */

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

/* Where the content begins: after a byte order mark, blanks and comments of the DSL's style. */
static size_t content_start(const char *text, size_t len) {
    size_t i = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < len) {
        if (blank(text[i])) {
            i++;
        } else if (text[i] == '#' || (i + 1 < len && text[i] == '/' && text[i + 1] == '/')) {
            while (i < len && text[i] != '\n')
                i++;
        } else if (i + 1 < len && text[i] == '/' && text[i + 1] == '*') {
            i += 2;
            while (i + 1 < len && !(text[i] == '*' && text[i + 1] == '/'))
                i++;
            i = i + 2 < len ? i + 2 : len;
        } else {
            break;
        }
    }
    return i;
}

static bool word_at(const char *text, size_t len, size_t at, const char *word) {
    size_t n = strlen(word);
    return len - at >= n && memcmp(text + at, word, n) == 0;
}

/* HeteCCL's DSL has a "define nodenum" line somewhere. */
static bool has_define_nodenum(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char *hit = memchr(text + i, 'd', len - i);
        if (!hit)
            return false;
        i = (size_t)(hit - text);
        if (!word_at(text, len, i, "define"))
            continue;
        size_t k = i + strlen("define");
        while (k < len && (text[k] == ' ' || text[k] == '\t'))
            k++;
        if (k > i + strlen("define") && word_at(text, len, k, "nodenum"))
            return true;
    }
    return false;
}

static ccl_status_t read_json_any(const ccl_ctx_t *ctx, const char *name, const char *text,
                                  size_t len, ccl_topology_t **out, ccl_error_t *err) {
    ccl_json_doc_t doc;
    CCL_TRY(ccl_json_parse(name, text, len, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc), v = ccl_json_member(&root, "format");
    const char *format = NULL;
    ccl_status_t status = ccl_json_object(&root, true, err);
    if (status == CCL_OK)
        status = ccl_json_string(&v, true, &format, err);
    if (status == CCL_OK) {
        if (strcmp(format, "ccllab-topology-1") == 0)
            status = ccl_i_topology_read_explicit(ctx, &doc, out, err);
        else if (strcmp(format, "ccllab-cluster-1") == 0 || strcmp(format, "ccllab-server-1") == 0)
            status = ccl_i_topology_read_compact(ctx, &doc, out, err);
        else
            status = ccl_json_fail(&v, err,
                                   "format \"%.60s\" is no cluster; \"ccllab-topology-1\", "
                                   "\"ccllab-cluster-1\" or \"ccllab-server-1\"",
                                   format);
    }
    ccl_json_fini(&doc);
    return status;
}

/* "servers:4 ...", "gpus:8 ..." or "host:8". */
static bool starts_one_liner(const char *text, size_t len) {
    return word_at(text, len, 0, "servers:") || word_at(text, len, 0, "gpus:") ||
           word_at(text, len, 0, "host:");
}

ccl_status_t ccl_topology_read_text(const ccl_ctx_t *ctx, const char *name, const char *text,
                                    size_t len, ccl_topology_t **out, ccl_error_t *err) {
    size_t start = content_start(text, len);
    if (start == len)
        return ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0,
                             "empty; a cluster as JSON, HeteCCL DSL or NCCL topology XML");
    if (ccl_i_topology_is_smi(text, len))
        return ccl_topology_read_smi(ctx, name, text, len, out, err);
    if (text[start] == '<')
        return ccl_topology_read_nccl_xml(ctx, name, text, len, out, err);
    if (text[start] == '{' || text[start] == '[') {
        /* jansson takes no byte order mark; blanks stay so that lines count the same. */
        size_t bom = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        return read_json_any(ctx, name, text + bom, len - bom, out, err);
    }
    if (has_define_nodenum(text, len))
        return ccl_topology_read_heteccl(ctx, name, text, len, out, err);
    if (starts_one_liner(text + start, len - start)) {
        ccl_text_t line = {0};
        while (len > start && blank(text[len - 1]))
            len--;
        ccl_text_add(&line, text + start, len - start);
        ccl_status_t status = line.nomem ? ccl_fail_nomem(err)
                                         : ccl_topology_read_synthetic(ctx, line.data, out, err);
        ccl_text_fini(&line);
        return status;
    }
    int row = 1, column = 1;
    for (size_t i = 0; i < start; i++) {
        row += text[i] == '\n';
        column = text[i] == '\n' ? 1 : column + 1;
    }
    return ccl_error_set(err, CCL_ERR_INPUT, name, row, column,
                         "no cluster description; JSON begins with {, NCCL topology XML with <, "
                         "HeteCCL DSL has \"define nodenum\", a one-liner begins with servers:, "
                         "gpus: or host:, nvidia-smi topo -m has a head GPU0 GPU1 ... and rows");
}

/* ---------------------------------------------------------------- what a user names */

/* A one-liner has words of the form key:value or key=value; no library name does. */
static bool looks_synthetic(const char *spec) {
    if (starts_one_liner(spec, strlen(spec)))
        return true;
    const char *s = spec;
    while (blank(*s))
        s++;
    const char *key = s;
    while (isalpha((unsigned char)*s) || *s == '_')
        s++;
    if (s == key || (*s != ':' && *s != '='))
        return false;
    /* "C:x.json" or "a=b.xml" are misspelt paths rather than clusters. */
    return strpbrk(spec, " \t") != NULL || isdigit((unsigned char)s[1]);
}

/* The text of a library entry or of a file that describes one server as JSON; NULL: it is neither.
 */
static ccl_status_t server_text(const char *spec, const char **name, char **text, size_t *len,
                                ccl_error_t *err) {
    const ccl_library_entry_t *entry = ccl_topology_library_find(spec);
    struct stat info;
    *text = NULL;
    *name = entry ? entry->name : spec;
    if (stat(spec, &info) == 0 && !S_ISDIR(info.st_mode))
        return ccl_file_read(spec, CCL_I_MAX_FILE_BYTES, text, len, err);
    if (!entry)
        return CCL_OK;
    *text = malloc(entry->len + 1);
    if (!*text)
        return ccl_fail_nomem(err);
    memcpy(*text, entry->text, entry->len);
    *len = entry->len;
    return CCL_OK;
}

static bool is_server(const ccl_json_doc_t *doc) {
    ccl_json_at_t root = ccl_json_root(doc), v = ccl_json_member(&root, "format");
    const char *format = NULL;
    return ccl_json_string(&v, true, &format, NULL) == CCL_OK &&
           strcmp(format, "ccllab-server-1") == 0;
}

ccl_status_t ccl_i_topology_read_node(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out,
                                      ccl_error_t *err) {
    const char *name;
    char *text;
    size_t len = 0;
    ccl_json_doc_t doc;
    CCL_TRY(server_text(spec, &name, &text, &len, err));
    size_t start = text ? content_start(text, len) : 0;
    if (!text || start == len || text[start] != '{' ||
        ccl_json_parse(name, text, len, &doc, NULL) != CCL_OK) {
        free(text);
        return ccl_topology_read(ctx, spec, out, err);
    }
    ccl_status_t status = is_server(&doc) ? ccl_i_topology_read_server(ctx, &doc, out, err)
                                          : ccl_topology_read(ctx, spec, out, err);
    ccl_json_fini(&doc);
    free(text);
    return status;
}

static ccl_status_t no_such(const char *spec, ccl_error_t *err) {
    const ccl_library_entry_t *library = ccl_topology_library();
    size_t n = 0;
    while (library[n].name)
        n++;
    const char **names = calloc(n + 1, sizeof *names);
    if (!names)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        names[i] = library[i].name;
    /* "topologies/dgx-a10.json" may mean "dgx-a100". */
    char word[128];
    ccl_file_title(spec, word, sizeof word);
    const char *near = ccl_nearest(word, names);
    ccl_status_t status =
        near ? ccl_fail(err, CCL_ERR_INPUT,
                        "no file and no library cluster \"%.200s\"; the nearest in the library is "
                        "\"%s\"",
                        spec, near)
        : strpbrk(spec, "+,") && strpbrk(spec, " ,")
            ? ccl_fail(err, CCL_ERR_INPUT,
                       "no file and no library cluster \"%.200s\"; nodes stand side by side as "
                       "A*2+B, without blanks and commas",
                       spec)
            : ccl_fail(err, CCL_ERR_INPUT,
                       "no file and no library cluster \"%.200s\"; `ccllab topology list` shows "
                       "the library",
                       spec);
    free(names);
    return status;
}

ccl_status_t ccl_topology_read(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out,
                               ccl_error_t *err) {
    struct stat info;
    if (!spec || !*spec)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "empty topology; a file, a library cluster or a one-liner");
    bool is_stdin = strcmp(spec, "-") == 0;
    bool exists = is_stdin || stat(spec, &info) == 0;
    if (exists && !is_stdin && S_ISDIR(info.st_mode) && !ccl_topology_library_find(spec))
        return ccl_error_set(err, CCL_ERR_IO, spec, 0, 0, "is a folder; a file is needed");
    if (exists && (is_stdin || !S_ISDIR(info.st_mode))) {
        char *data = NULL;
        size_t len = 0;
        CCL_TRY(ccl_file_read(spec, CCL_I_MAX_FILE_BYTES, &data, &len, err));
        ccl_status_t status =
            ccl_topology_read_text(ctx, is_stdin ? "<stdin>" : spec, data, len, out, err);
        free(data);
        return status;
    }
    const ccl_library_entry_t *entry = ccl_topology_library_find(spec);
    if (entry)
        return ccl_topology_read_text(ctx, entry->name, entry->text, entry->len, out, err);
    if (strcmp(spec, "here") == 0)
        return ccl_topology_here(ctx, out, err);
    if (ccl_topology_is_nodes(spec))
        return ccl_topology_read_nodes(ctx, spec, out, err);
    if (ccl_i_topology_has_hints(spec))
        return ccl_i_topology_read_hinted(ctx, spec, out, err);
    if (looks_synthetic(spec))
        return ccl_topology_read_synthetic(ctx, spec, out, err);
    return no_such(spec, err);
}
