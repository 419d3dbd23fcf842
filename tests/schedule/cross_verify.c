/*
 * Verdicts on real MSCCL XML programs: every file of valid/ verifies, every one of invalid/ is
 * refused for the reason that the folder's INDEX.md gives.
 */
#include "schedule/schedule.h"
#include "tests/base/main.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define XML_DIR CCLLAB_DATA_DIR "/msccl_xml/"
#define MAX_FILES 512

typedef struct file_list {
    char *names[MAX_FILES];
    size_t n;
} file_list_t;

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static file_list_t list_files(const char *folder) {
    file_list_t list = {.n = 0};
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir)) && list.n < MAX_FILES;) {
        if (strstr(e->d_name, ".xml"))
            list.names[list.n++] = strdup(e->d_name);
    }
    closedir(dir);
    qsort(list.names, list.n, sizeof list.names[0], by_name);
    return list;
}

static void free_files(file_list_t *list) {
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
}

START_TEST(valid_files_verify) {
    file_list_t list = list_files(XML_DIR "valid");
    ck_assert_uint_gt(list.n, 100);
    for (size_t i = 0; i < list.n; i++) {
        char path[1024];
        snprintf(path, sizeof path, XML_DIR "valid/%s", list.names[i]);
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_program_t *program = NULL;
        ck_assert_msg(ccl_program_read(path, &program, &err) == CCL_OK, "%s: %s", path, err.text);
        ccl_verdict_t verdict;
        ck_assert_msg(ccl_program_verify(NULL, program, NULL, &verdict, &err) == CCL_OK, "%s: %s",
                      path, err.text);
        ck_assert_msg(verdict.valid, "%s: %s: %s", list.names[i], verdict.fault.kind,
                      verdict.fault.text);
        ccl_program_destroy(program);
    }
    free_files(&list);
}
END_TEST

/* What INDEX.md's reasons are called here; "read" is the reader's refusal. */
static const struct reason {
    const char *index, *kind;
} reasons[] = {
    {"a contribution is added twice", "twice"},
    {"the result lacks contributions or chunks at the end", "missing"},
    {"a reduction adds different chunks", "mixed"},
    {"deadlock with FIFO depth 2", "deadlock"},
    {"not well formed: text after the root element", "read"},
};

/** The row of `name` in INDEX.md, cut into file, reason and detail; false when there is none. */
static bool index_row(const char *index, const char *name, char reason[256], char detail[512]) {
    char key[512];
    snprintf(key, sizeof key, "| %s | ", name);
    const char *row = strstr(index, key);
    if (!row)
        return false;
    row += strlen(key);
    const char *bar = strstr(row, " |"), *next = bar ? strstr(bar + 2, " |") : NULL;
    if (!next)
        return false;
    snprintf(reason, 256, "%.*s", (int)(bar - row), row);
    snprintf(detail, 512, "%.*s", (int)(next - bar - 3), bar + 3);
    return true;
}

START_TEST(invalid_files_are_refused_for_their_reason) {
    char *index = NULL;
    size_t len = 0;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_file_read(XML_DIR "INDEX.md", 1 << 20, &index, &len, &err), CCL_OK);
    file_list_t list = list_files(XML_DIR "invalid");
    ck_assert_uint_gt(list.n, 20);
    for (size_t i = 0; i < list.n; i++) {
        char path[1024], reason[256], detail[512];
        snprintf(path, sizeof path, XML_DIR "invalid/%s", list.names[i]);
        ck_assert_msg(index_row(index, list.names[i], reason, detail), "%s", list.names[i]);
        const char *want = NULL;
        for (size_t r = 0; r < CCL_ARRAY_LEN(reasons); r++)
            want = !strcmp(reason, reasons[r].index) ? reasons[r].kind : want;
        ck_assert_msg(want, "%s: unknown reason %s", list.names[i], reason);
        ccl_program_t *program = NULL;
        ccl_error_clear(&err);
        if (ccl_program_read(path, &program, &err) != CCL_OK) {
            ck_assert_msg(!strcmp(want, "read") && err.line > 0, "%s: %s", list.names[i], err.text);
            continue;
        }
        ccl_verdict_t verdict;
        ck_assert_int_eq(ccl_program_verify(NULL, program, NULL, &verdict, &err), CCL_OK);
        ck_assert_msg(!verdict.valid, "%s verifies, but: %s", list.names[i], reason);
        ck_assert_msg(!strcmp(verdict.fault.kind, want), "%s: want %s (%s), got %s: %s",
                      list.names[i], want, detail, verdict.fault.kind, verdict.fault.text);
        ccl_program_destroy(program);
    }
    free_files(&list);
    free(index);
}
END_TEST

int main(void) {
    DIR *dir = opendir(XML_DIR "valid");
    if (!dir) {
        printf("skipped: no real programs in " XML_DIR "\n");
        return 77;
    }
    closedir(dir);
    Suite *suite = suite_create("schedule.verify.files");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, valid_files_verify);
    tcase_add_test(tc, invalid_files_are_refused_for_their_reason);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
