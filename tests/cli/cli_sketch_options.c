/* What sketch's options change, as its statistics show. */
#include "program.h"
#include "base/json.h"

#define SYNTH                                                                                      \
    "synth -t 'servers:2 gpus:4 nvswitch=180GB/s,1us nics:4x50GB/s,5us' -c alltoall "              \
    "--with sketch -s 1M -o /dev/null --format json "

static json_t *ask(const char *options) {
    char line[512];
    snprintf(line, sizeof line, SYNTH "--json %s", options);
    said_t said = run(line);
    ck_assert_msg(said.rc == 0, "%s: %s", options, said.err);
    json_t *root = json_of(&said);
    said_free(&said);
    return root;
}

static double in(const json_t *root, const char *key) {
    const json_t *found = json_object_get(json_object_get(root, "sketch"), key);
    ck_assert_msg(json_is_number(found) || json_is_boolean(found), "no %s", key);
    return json_is_boolean(found) ? json_is_true(found) : json_number_value(found);
}

static double of(const char *options, const char *key) {
    json_t *root = ask(options);
    double value = in(root, key);
    json_decref(root);
    return value;
}

START_TEST(prunings) {
    json_t *all = ask(""), *inconsistent = ask("--keep-inconsistent --max-sketches 5000");
    double found = in(all, "found"), isomorphic = in(all, "isomorphic"),
           relayed = in(all, "relayed");

    ck_assert_double_eq(in(all, "dimensions"), 2);
    ck_assert_double_gt(isomorphic, 0);
    ck_assert_double_gt(relayed, 0);
    ck_assert_double_gt(in(all, "inconsistent"), 0);
    ck_assert_double_eq(in(all, "capped"), 0);
    ck_assert_double_gt(in(all, "simulated"), 1);
    ck_assert_double_ge(in(all, "mixes_tried"), in(all, "mixes"));
    /* Each rule off: what it took away comes back. */
    ck_assert_double_eq(of("--keep-isomorphic --max-sketches 5000", "found"), found + isomorphic);
    ck_assert_double_eq(of("--keep-isomorphic --keep-relayed --max-sketches 5000", "found"),
                        found + isomorphic + relayed);
    ck_assert_double_eq(in(inconsistent, "inconsistent"), 0);
    ck_assert_double_gt(in(inconsistent, "visited"), in(all, "visited"));
    ck_assert_double_gt(of("--keep-relayed --max-sketches 5000", "found"), found);
    ck_assert_double_eq(of("--keep-relayed", "relayed"), 0);
    json_decref(all);
    json_decref(inconsistent);
}
END_TEST

START_TEST(caps) {
    json_t *all = ask(""), *seven = ask("--max-sketches 7");
    double found = in(all, "found");

    ck_assert_double_eq(of("--max-relays 1", "found"), found); /* dimensions - 1 */
    ck_assert_double_lt(of("--max-relays 0", "found"), found);
    ck_assert_double_eq(of("--max-stages 3", "found"), found); /* dimensions + 1 */
    ck_assert_double_lt(of("--max-stages 2", "found"), found);
    ck_assert_double_gt(of("--max-stages 10 --max-sketches 5000", "visited"), in(all, "visited"));
    ck_assert_double_eq(in(seven, "found"), 7);
    ck_assert_double_eq(in(seven, "capped"), 1);
    json_decref(all);
    json_decref(seven);
}
END_TEST

START_TEST(deterministic) {
    /* Two runs give the same bytes; times come with -v only. */
    said_t one = run(SYNTH "--json"), two = run(SYNTH "--json -j 1"),
           talks = run(SYNTH "--json -v");

    ck_assert_int_eq(one.rc, 0);
    ck_assert_str_eq(one.out, two.out);
    ck_assert_ptr_null(strstr(one.out, "_s\""));
    ck_assert_ptr_nonnull(strstr(talks.out, "\"combine_s\""));
    said_free(&one);
    said_free(&two);
    said_free(&talks);
}
END_TEST

START_TEST(in_comparisons) {
    said_t all = run("compare -t syccl-a100-16 -c alltoall --sizes 64M --with sketch --csv");
    said_t some = run("compare -t syccl-a100-16 -c alltoall --sizes 64M --with sketch --csv "
                      "--max-sketches 1");

    ck_assert_int_eq(all.rc, 0);
    ck_assert_int_eq(some.rc, 0);
    ck_assert_str_ne(all.out, some.out);
    said_free(&all);
    said_free(&some);
}
END_TEST

START_TEST(files) {
    char dir[] = "/tmp/ccllab_sketches_XXXXXX", line[2048];
    said_t said;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(
        line, sizeof line,
        "synth -t syccl-a100-16 --profile none -c allgather --with sketch -s 256M -o %s/a.json -q "
        "--write-sketches %s/s.json && '%s' synth -t syccl-a100-16 --profile none -c allgather "
        "--with sketch "
        "-s 256M -q -o %s/b.json --sketches %s/s.json && "
        "grep -q 'origin.*sketch by packing' %s/a.json && "
        "grep -q 'origin.*, of the user' %s/b.json && for f in a b; do "
        "grep -v '\"origin\"' %s/$f.json >%s/$f; done && cmp %s/a %s/b && "
        "'%s' compare -t syccl-a100-16 --profile none -c allgather --sizes 256M --with sketch "
        "--add-sketches "
        "%s/s.json --csv",
        dir, dir, CCLLAB_BIN, dir, dir, dir, dir, dir, dir, dir, dir, CCLLAB_BIN, dir);
    said = run(line);
    ck_assert_msg(said.rc == 0, "%s%s", said.out, said.err);
    said_free(&said);
    /* A mistake is told with its place. */
    snprintf(line, sizeof line,
             "synth -t syccl-a100-32 -c alltoall --with sketch -o %s/b.json --sketches %s/a.json",
             dir, dir);
    said = run(line);
    ck_assert_int_eq(said.rc, 2);
    ck_assert_msg(strstr(said.err, "a.json:1:") != NULL, "%s", said.err);
    said_free(&said);
    snprintf(line, sizeof line, "--version && rm -r %s", dir);
    said = run(line);
    ck_assert_int_eq(said.rc, 0);
    said_free(&said);
}
END_TEST

START_TEST(wrong) {
    static const char *const lines[][2] = {
        {"--max-stages 11", "--max-stages wants a whole number from 1 to 10, not \"11\""},
        {"--max-stages 0", "--max-stages wants a whole number from 1 to 10, not \"0\""},
        {"--max-sketches 0", "--max-sketches wants a whole number from 1 to 100000, not \"0\""},
        {"--max-relays x", "wants a whole number"},
        {"--sketches /nowhere/x.json", "/nowhere/x.json"},
        {"--sketches a --add-sketches b", "exclude each other"},
        {"--within 0", "--within wants a number from 0.1 to 1000, not \"0\""},
        {"--fine-epochs x", "--fine-epochs wants a number from 0.05 to 100, not \"x\""},
        {"--coarse-epochs 3x", "--coarse-epochs wants a number from 0.05 to 100, not \"3x\""},
        {"--simulated 0", "--simulated wants a whole number from 1 to 1000, not \"0\""},
        {"--cache \"\"", "--cache wants DIR|none, not \"\""},
        {"--max-relays 1 --keep-relayed", "exclude each other"},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[512];
        said_t said;

        snprintf(line, sizeof line, SYNTH "%s", lines[i][0]);
        said = run(line);
        ck_assert_int_eq(said.rc, strstr(lines[i][0], "nowhere") ? 4 : 2);
        ck_assert_msg(strstr(said.err, lines[i][1]) != NULL, "%s: %s", lines[i][0], said.err);
        said_free(&said);
    }
    said_t other = run("synth -t syccl-a100-16 -c alltoall --with direct --sketches a -o -");

    ck_assert_int_eq(other.rc, 2);
    ck_assert_ptr_nonnull(strstr(other.err, "--sketches is for --with sketch"));
    said_free(&other);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cli.sketch.options");
    TCase *tcase = tcase_create("options");

    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, prunings);
    tcase_add_test(tcase, caps);
    tcase_add_test(tcase, deterministic);
    tcase_add_test(tcase, in_comparisons);
    tcase_add_test(tcase, files);
    tcase_add_test(tcase, wrong);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);

    srunner_free(runner);
    return failed != 0;
}
