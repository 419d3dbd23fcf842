/*
 * One table of exit codes (CCL_EXIT_MAP) and one of statuses (CCL_STATUS_MAP): what the program,
 * its help, its manual pages and the documents say of them comes from there, and every status is
 * seen to end a command.
 */
#include "program.h"
#include "cli/command.h"
#include "tests/base/main.h"

#include <fcntl.h>
#include <signal.h>

typedef struct code {
    int code;
    const char *written, *meaning;
} code_t;

static const code_t codes[] = {
#define CODE_(name_, code_, written_, meaning_) {code_, written_, meaning_},
    CCL_EXIT_MAP(CODE_)};
static const ccl_status_t statuses[] = {
#define STATUS_(status_, exit_, meaning_) status_,
    CCL_STATUS_MAP(STATUS_)};

/** The row that a status ends with. */
static const code_t *row_of(ccl_status_t status) {
    int code = ccl_status_exit_code(status);

    for (size_t i = 0; i < CCL_ARRAY_LEN(codes); i++)
        if (codes[i].code == (code > CCL_EXIT_SIGNAL ? CCL_EXIT_SIGNAL : code))
            return &codes[i];
    ck_abort_msg("%s ends with %d, which is no row of CCL_EXIT_MAP", ccl_status_name(status), code);
    return NULL;
}

/* ---------------------------------------------------------------- one source */

/** Blanks of all kinds as one, and no markup of roff. */
static void squeeze(char *text) {
    char *to = text;

    for (const char *p = text; *p; p++) {
        if (*p == '\\')
            continue;
        if (*p != ' ' && *p != '\n')
            *to++ = *p;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    *to = '\0';
}

static void holds(const char *what, const char *text, const char *part) {
    ck_assert_msg(strstr(text, part) != NULL, "%s lacks \"%s\"", what, part);
}

START_TEST(table_of_docs) {
    char *page = slurp(CCLLAB_SOURCE_DIR "/docs/exit-codes.md");
    size_t nrows = 0;

    for (const char *p = page; (p = strstr(p, "\n| ")) != NULL; p++)
        nrows++;
    ck_assert_uint_eq(nrows, CCL_ARRAY_LEN(codes) + 2); /* its head, and the line below */
    for (size_t i = 0; i < CCL_ARRAY_LEN(codes); i++) {
        ccl_text_t row = {0};
        const char *between = "";

        ccl_text_printf(&row, "\n| %s | %s | ", codes[i].written, codes[i].meaning);
        for (size_t s = 0; s < CCL_ARRAY_LEN(statuses); s++) {
            if (row_of(statuses[s]) != &codes[i])
                continue;
            ccl_text_printf(&row, "%s`%s`", between, ccl_status_name(statuses[s]));
            between = ", ";
        }
        ck_assert_msg(*between, "no status ends with %s", codes[i].written);
        ccl_text_printf(&row, " |\n");
        holds("docs/exit-codes.md", page, row.data);
        ccl_text_fini(&row);
    }
    free(page);
}
END_TEST

START_TEST(help_and_manual) {
    said_t help = run("--help"), page = run("help --man");
    char *readme = slurp(CCLLAB_SOURCE_DIR "/README.md");
    ccl_text_t all = {0};

    squeeze(help.out);
    squeeze(page.out);
    squeeze(readme);
    for (size_t i = 0; i < CCL_ARRAY_LEN(codes); i++) {
        ccl_text_t row = {0};

        ccl_text_printf(&row, " %s %s%s", codes[i].written, codes[i].meaning,
                        i + 1 < CCL_ARRAY_LEN(codes) ? ";" : "");
        holds("--help", help.out, row.data);
        ccl_text_fini(&row);
        ccl_text_printf(&row, ".TP .B %s %s ", codes[i].written, codes[i].meaning);
        holds("ccllab(1)", page.out, row.data);
        ccl_text_fini(&row);
        ccl_text_printf(&all, "%s%s %s", i ? " · " : "", codes[i].written, codes[i].meaning);
    }
    holds("README.md", readme, all.data);
    ccl_text_fini(&all);
    free(readme);
    said_free(&help);
    said_free(&page);
}
END_TEST

/* What 1 means is the same in the table of commands and in each command's manual page. */
START_TEST(no_of_commands) {
    char *page = slurp(CCLLAB_SOURCE_DIR "/docs/commands.md");

    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const ccl_i_command_t *c = ccl_i_commands[i];
        ccl_text_t head = {0}, tail = {0};
        const char *row, *end;

        ccl_text_printf(&head, "\n| [`%s`]", c->name);
        ccl_text_printf(&tail, "| %s%s|", c->no ? c->no : "", c->no ? " " : "");
        row = strstr(page, head.data);
        ck_assert_msg(row != NULL, "docs/commands.md has no row of %s", c->name);
        end = strchr(row + 1, '\n');
        ck_assert_msg(
            (size_t)(end - row) > tail.len && strncmp(end - tail.len, tail.data, tail.len) == 0,
            "docs/commands.md: the row of %s does not end with \"%s\"", c->name, tail.data);
        ccl_text_fini(&head);
        ccl_text_fini(&tail);
    }
    free(page);
}
END_TEST

/* ---------------------------------------------------------------- a command for each status */

static const struct {
    ccl_status_t status;
    const char *line, *text; /* part of what it says */
} ends[] = {
    {CCL_OK, "verify " DATA "/allgather_2.xml", "valid: "},
    {CCL_CHECK, "verify " DATA "/missing_2.xml", "invalid: missing"},
    {CCL_INFEASIBLE, "synth -t dgx1-v100 -c allgather --with sccl --steps 1 --chunks 1 -o -",
     "no schedule has that few steps"},
    {CCL_DEADLOCK, "simulate --size 1M --no-verify " PAIR " " DATA "/deadlock_2.xml",
     "who waits for whom"},
    {CCL_UNSUPPORTED, "synth -t " DATA "/chain_6.json -c allgather --with sketch --cache none -o -",
     "no sketch reaches all 6 GPUs"},
    {CCL_ERR_USAGE, "simulat", "did you mean"},
    {CCL_ERR_INPUT, "topology check " DATA "/bad.json", "bad.json:3:"},
    {CCL_TIMEOUT,
     "synth -t heteccl-h20-4+8 -c allgather --with greedy --restarts 100000 --time-limit 100ms "
     "-o /dev/null --format json",
     "limit reached, the best schedule so far was written"},
    {CCL_TIMEOUT, "synth -t dgx1-v100 -c allgather --with sccl --time-limit 1us -o -",
     "found nothing within its time limit"},
    {CCL_ERR_IO, "verify /nonexistent/file.xml", "/nonexistent/file.xml"},
    {CCL_ERR_NOMEM, "run " DATA "/allgather_2.xml --size 8T --slice 1G",
     "GiB of memory, the device has"},
};

START_TEST(every_status) {
    said_t said = run(ends[_i].line);
    const char *name = ccl_status_name(ends[_i].status);

    ck_assert_msg(said.rc == ccl_status_exit_code(ends[_i].status), "%s: %s: exit code %d\n%s%s",
                  name, ends[_i].line, said.rc, said.out, said.err);
    ck_assert_msg(strstr(said.out, ends[_i].text) || strstr(said.err, ends[_i].text),
                  "%s: %s: no \"%s\" in\n%s%s", name, ends[_i].line, ends[_i].text, said.out,
                  said.err);
    said_free(&said);
}
END_TEST

/* The program alone, in a folder without its modules. */
START_TEST(missing) {
    char dir[] = "/tmp/ccllab_alone_XXXXXX", command[1024];
    said_t said = {0};

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(command, sizeof(command),
             "cp '%s' %s/ccllab && env -u CCL_DEVICE_PATH %s/ccllab run " DATA
             "/allgather_2.xml --size 64K --bootstrap mpi 2>%s/err",
             CCLLAB_BIN, dir, dir, dir);
    said.rc = WEXITSTATUS(system(command));
    snprintf(command, sizeof(command), "%s/err", dir);
    said.err = slurp(command);
    ck_assert_msg(said.rc == ccl_status_exit_code(CCL_ERR_MISSING), "%d: %s", said.rc, said.err);
    ck_assert_msg(strstr(said.err, "its module libccl_bootstrap_mpi.so is not here"), "%s",
                  said.err);
    said_free(&said);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* No command is known to have a bug: what ends one that meets one. */
START_TEST(bug) {
    ccl_error_t err = CCL_ERROR_INIT;
    char path[] = "/tmp/ccllab_bug_XXXXXX";
    int file = mkstemp(path), keep = dup(STDERR_FILENO), code;

    ck_assert(file >= 0 && keep >= 0);
    ccl_fail(&err, CCL_ERR_INTERNAL, "steps wait for each other");
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    code = ccl_i_finish(CCL_ERR_INTERNAL, &err);
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(keep);
    close(file);
    char *said = slurp(path);
    ck_assert_int_eq(code, CCL_EXIT_BUG);
    ck_assert_str_eq(said, "ccllab: bug, please report it: steps wait for each other\n");
    free(said);
    unlink(path);
}
END_TEST

static const int signals[] = {SIGINT, SIGTERM};

/* A signal once the command shows progress: 128 + its number, and no half result. */
START_TEST(interrupted) {
    int ends_of[2], status;
    char first;

    ck_assert_int_eq(pipe(ends_of), 0);
    pid_t pid = fork();
    ck_assert(pid >= 0);
    if (pid == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(ends_of[1], STDERR_FILENO);
        close(ends_of[0]);
        close(ends_of[1]);
        execl(CCLLAB_BIN, "ccllab", "compare", "--progress=json", "-t", "heteccl-h20-4x8+8x4", "-c",
              "allgather", "--sizes", "1K:4G:1.01", (char *)NULL);
        _exit(99);
    }
    close(ends_of[1]);
    ck_assert_int_eq(read(ends_of[0], &first, 1), 1);
    kill(pid, signals[_i]);
    char rest[4096];
    while (read(ends_of[0], rest, sizeof(rest)) > 0) {
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(ends_of[0]);
    ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), CCL_EXIT_SIGNAL + signals[_i]);
}
END_TEST

/* A status without a command that ends with it is a row without a test. */
START_TEST(all_are_here) {
    /* Those with a test of their own above. */
    static const ccl_status_t own[] = {CCL_ERR_MISSING, CCL_ERR_INTERNAL, CCL_INTERRUPTED};

    for (size_t s = 0; s < CCL_ARRAY_LEN(statuses); s++) {
        bool here = false;

        for (size_t i = 0; i < CCL_ARRAY_LEN(ends); i++)
            here |= ends[i].status == statuses[s];
        for (size_t i = 0; i < CCL_ARRAY_LEN(own); i++)
            here |= own[i] == statuses[s];
        ck_assert_msg(here, "no test ends with %s", ccl_status_name(statuses[s]));
    }
    ck_assert_int_eq(ccl_status_exit_code(CCL_INTERRUPTED), CCL_EXIT_SIGNAL + SIGINT);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("exit statuses");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 0);
    tcase_add_test(cases, table_of_docs);
    tcase_add_test(cases, help_and_manual);
    tcase_add_test(cases, no_of_commands);
    tcase_add_loop_test(cases, every_status, 0, (int)CCL_ARRAY_LEN(ends));
    tcase_add_test(cases, missing);
    tcase_add_test(cases, bug);
    tcase_add_loop_test(cases, interrupted, 0, (int)CCL_ARRAY_LEN(signals));
    tcase_add_test(cases, all_are_here);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
