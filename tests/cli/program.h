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

/** The result as JSON; duplicate keys are refused. */
static inline json_t *json_of(const said_t *said) {
    json_error_t error;
    json_t *root = json_loads(said->out, JSON_REJECT_DUPLICATES, &error);

    ck_assert_msg(root != NULL, "not JSON: line %d: %s\n%s", error.line, error.text, said->out);
    return root;
}

#endif
