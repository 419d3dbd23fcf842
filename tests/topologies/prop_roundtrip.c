/* Written and read back, every topology is the same: random ones, the library, the peers' files. */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>

#include "topology_helpers.h"

static bool skipped;

static void check_roundtrip(const char *what, const ccl_topology_t *topo) {
    ccl_text_t once = {0}, twice = {0};
    ccl_topology_t *back = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_write_json(topo, &once, &err) == CCL_OK, "%s: %s", what, err.text);
    ck_assert_msg(ccl_topology_read_json(NULL, what, once.data, once.len, &back, &err) == CCL_OK,
                  "%s:%d:%d: %s", what, err.line, err.column, err.text);
    const char *difference = topology_difference(topo, back);
    ck_assert_msg(!difference, "%s: %s", what, difference);
    MUST(ccl_topology_write_json(back, &twice, e));
    ck_assert_msg(strcmp(once.data, twice.data) == 0, "%s: second writing differs", what);
    ccl_text_fini(&once);
    ccl_text_fini(&twice);
    ccl_topology_destroy(back);
}

START_TEST(random_ones) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7);
    for (int round = 0; round < 300; round++) {
        ccl_topology_t *topo =
            random_topology(&rng, 1 + ccl_rng_below(&rng, 9), 1 + ccl_rng_below(&rng, 9),
                            ccl_rng_below(&rng, 20), true);
        check_roundtrip("random", topo);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(library) {
    int n = 0;
    for (const ccl_library_entry_t *entry = ccl_topology_library(); entry->name; entry++, n++) {
        ccl_topology_t *topo = topology(entry->name);
        check_roundtrip(entry->name, topo);
        ccl_topology_destroy(topo);
    }
    ck_assert_int_gt(n, 0);
}
END_TEST

START_TEST(peers) {
    const char *folder = CCLLAB_DATA_DIR "/peers/topologies";
    DIR *dir = opendir(folder);
    if (!dir) {
        skipped = true;
        return;
    }
    int n = 0;
    for (struct dirent *file; (file = readdir(dir));) {
        size_t len = strlen(file->d_name);
        if (len < 5 || strcmp(file->d_name + len - 5, ".json") != 0)
            continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        ccl_topology_t *topo = topology(path);
        check_roundtrip(file->d_name, topo);
        ccl_topology_destroy(topo);
        n++;
    }
    closedir(dir);
    ck_assert_int_ge(n, 30);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.topologies.roundtrip");
    TCase *tc = tcase_create("roundtrip");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, random_ones);
    tcase_add_test(tc, library);
    tcase_add_test(tc, peers);
    suite_add_tcase(suite, tc);
    int rc = run_suite(suite);
    return rc == 0 && skipped ? 77 : rc;
}
