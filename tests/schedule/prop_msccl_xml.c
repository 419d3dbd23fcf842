/* Real MSCCL programs: read, written and read again they stay the same. */
#include "suite.h"
#include "tests/schedule/share.h"

#include <dirent.h>

typedef struct counts {
    unsigned files, refused;
} counts_t;

/** Shared blocks are written at their steps, and read back. */
static void round_trip_shared(ccl_program_t *p, const char *path) {
    ccl_rng_t rng;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *back;
    ccl_text_t text = {0};
    ccl_rng_init(&rng, p->nsteps);
    p = share_blocks(p, &rng);
    check_ok(ccl_program_write_xml(p, &text, &err), &err);
    check_ok(ccl_program_read_xml("shared", text.data, text.len, &back, &err), &err);
    ck_assert_msg(ccl_program_equal(p, back), "%s changes when blocks are shared", path);
    ccl_text_fini(&text);
    ccl_program_destroy(p);
    ccl_program_destroy(back);
}

static void round_trip(const char *path, counts_t *counts) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *first, *second;
    ccl_text_t once = {0}, twice = {0};
    counts->files++;
    ccl_status_t status = ccl_program_read(path, &first, &err);
    if (status != CCL_OK) {
        ck_assert_msg(status == CCL_ERR_INPUT && strstr(path, "generated__simple_custom.xml"),
                      "%s:%d: %s", path, err.line, err.text);
        ck_assert_int_eq(err.line, 21);
        ck_assert_msg(strstr(err.text, "not well-formed"), "%s", err.text);
        counts->refused++;
        return;
    }
    check_ok(ccl_program_write_xml(first, &once, &err), &err);
    check_ok(ccl_program_read_xml("once", once.data, once.len, &second, &err), &err);
    ck_assert_msg(ccl_program_equal(first, second), "%s changes", path);
    check_ok(ccl_program_write_xml(second, &twice, &err), &err);
    ck_assert_msg(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0, "%s",
                  path);
    ccl_text_fini(&once);
    ccl_text_fini(&twice);
    ccl_program_destroy(first);
    round_trip_shared(second, path);
}

static bool each_file(const char *folder, counts_t *counts) {
    DIR *dir = opendir(folder);
    char path[1024];
    if (!dir)
        return false;
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name);
        if (len > 4 && strcmp(entry->d_name + len - 4, ".xml") == 0) {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            round_trip(path, counts);
        }
    }
    closedir(dir);
    return true;
}

START_TEST(valid_files) {
    counts_t counts = {0};
    ck_assert(each_file(CCLLAB_DATA_DIR "/msccl_xml/valid", &counts));
    ck_assert_uint_ge(counts.files, 125);
    ck_assert_uint_eq(counts.refused, 0);
}
END_TEST

/** Only one invalid file is not even XML; the others are the verifier's to refuse. */
START_TEST(invalid_files) {
    counts_t counts = {0};
    ck_assert(each_file(CCLLAB_DATA_DIR "/msccl_xml/invalid", &counts));
    ck_assert_uint_ge(counts.files, 22);
    ck_assert_uint_eq(counts.refused, 1);
}
END_TEST

int main(void) {
    static const TTest *tests[2];
    DIR *dir = opendir(CCLLAB_DATA_DIR "/msccl_xml");
    if (!dir)
        return 77;
    closedir(dir);
    tests[0] = valid_files;
    tests[1] = invalid_files;
    return suite_run("msccl_xml", tests, 2);
}
