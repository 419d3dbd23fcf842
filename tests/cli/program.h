/* Runs the built program and keeps what it said. */
#ifndef TESTS_CLI_PROGRAM_H
#define TESTS_CLI_PROGRAM_H

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/report.h"
#include "tests/report/schema.h"

#define DATA CCLLAB_SOURCE_DIR "/tests/cli/data"
#define RAILS "-t 'servers:2 gpus:2 nvswitch=300GB/s,0.35us nics:2x25GB/s,1.3us fabric=rail'"
#define PAIR "-t 'servers:1 gpus:2 nvswitch=300GB/s,1us'"

typedef struct said {
    int rc;
    char *out, *err;
} said_t;

static inline char *slurp(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t len = 0, cap = 0;

    ck_assert_ptr_nonnull(file);
    for (;;) {
        size_t got;

        if (len + 65536 > cap) {
            cap = cap ? 2 * cap : 131072;
            text = realloc(text, cap);
            ck_assert_ptr_nonnull(text);
        }
        got = fread(text + len, 1, 65535, file);
        len += got;
        if (got == 0)
            break;
    }
    fclose(file);
    text[len] = '\0';
    return text;
}

/** `line` is what follows "ccllab" on a shell's line. */
static inline said_t run(const char *line) {
    char dir[] = "/tmp/ccllab_cli_XXXXXX";
    char out[64], err[64], command[4096];
    said_t said;
    int status;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(out, sizeof(out), "%s/out", dir);
    snprintf(err, sizeof(err), "%s/err", dir);
    snprintf(command, sizeof(command), "( '%s' %s ) >%s 2>%s </dev/null", CCLLAB_BIN, line, out,
             err);
    status = system(command);
    said.rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    said.out = slurp(out);
    said.err = slurp(err);
    unlink(out);
    unlink(err);
    rmdir(dir);
    return said;
}

static inline void said_free(said_t *said) {
    free(said->out);
    free(said->err);
}

static inline size_t lines(const char *text) {
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/** The schema of results "ccllab/NAME/1", as `ccllab schema` has it; NULL: there is none of that
    name. */
static inline json_t *schema_of(const char *id) {
    static const ccl_report_style_t style = {CCL_REPORT_JSON, NULL, 0, 0};
    char name[100];
    json_t *schema = NULL;
    ccl_text_t of = {0};

    ck_assert_msg(sscanf(id, "ccllab/%99[^/]/1", name) == 1, "no name of a schema: %s", id);
    if (ccl_report_schema(name, &style, &of, NULL) == CCL_OK)
        schema = json_loadb(of.data, of.len, JSON_REJECT_DUPLICATES, NULL);
    ccl_text_fini(&of);
    return schema;
}

/** The result as JSON; duplicate keys are refused, and one that names a schema must pass it. */
static inline json_t *json_of(const said_t *said) {
    json_error_t error;
    json_t *root = json_loads(said->out, JSON_REJECT_DUPLICATES, &error);
    const char *id;

    ck_assert_msg(root != NULL, "not JSON: line %d: %s\n%s", error.line, error.text, said->out);
    id = json_string_value(json_object_get(root, "schema"));
    if (id) {
        schema_fault_t fault = {""};
        json_t *schema = schema_of(id);

        ck_assert_msg(schema != NULL, "there is no schema %s", id);
        schema_check(root, schema, "", &fault);
        ck_assert_msg(!fault.text[0], "not as %s has it: %s", id, fault.text);
        json_decref(schema);
    }
    return root;
}

#endif
