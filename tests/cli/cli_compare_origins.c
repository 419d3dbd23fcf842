/* Origins in the results of compare: of every time, of the user's schedules, and kept by a
 * notebook. */
#include <unistd.h>

#include "program.h"
#include "tests/base/main.h"
#include "tests/base/nightly.h"
#include "topologies/topologies.h"

/* Clusters of more GPUs are compared by what does not search; large ones by what is short. */
enum { SEARCHED_RANKS = 32, LARGE_RANKS = 128 };

/** Every time has an origin. @return how many there are. */
static size_t check_origins(const json_t *root, const char *cluster) {
    const json_t *comparison, *size, *result;
    size_t c, s, r, n = 0;

    json_array_foreach(json_object_get(root, "comparisons"), c, comparison) {
        json_array_foreach(json_object_get(comparison, "sizes"), s, size) {
            json_array_foreach(json_object_get(size, "results"), r, result) {
                const char *origin = json_string_value(json_object_get(result, "origin"));

                if (!json_is_number(json_object_get(result, "time_s")))
                    continue;
                ck_assert_msg(origin && origin[0], "%s on %s has no origin",
                              json_string_value(json_object_get(result, "name")), cluster);
                n++;
            }
        }
    }
    return n;
}

static size_t compared(const char *cluster, const char *more) {
    char line[600];

    snprintf(line, sizeof(line),
             "compare -t '%s' -c allgather,allreduce --sizes 1M --json -q %s || true", cluster,
             more);
    said_t said = run(line);
    json_t *root = json_of(&said);
    size_t n = check_origins(root, cluster);

    json_decref(root);
    said_free(&said);
    return n;
}

START_TEST(library) {
    static const char *const sample[] = {"dgx1-v100", "mi300x-x8", "heteccl-v100-4+8"};
    size_t n = 0;

    for (size_t i = 0; i < CCL_ARRAY_LEN(sample) - 2 * SANITIZED && !nightly(); i++)
        n += compared(sample[i], "");
    for (const ccl_library_entry_t *entry = ccl_topology_library(); entry->name && nightly();
         entry++) {
        ccl_topology_t *topo = NULL;

        ck_assert_int_eq(ccl_topology_read(NULL, entry->name, &topo, NULL), CCL_OK);
        if (topo->nranks > 1)
            n += compared(entry->name, topo->nranks > LARGE_RANKS      ? "--with ring,recursive"
                                       : topo->nranks > SEARCHED_RANKS ? "--with ring,direct,hm"
                                                                       : "");
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(n, SANITIZED ? 20 : 40);
}
END_TEST

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/** What a comparison says of a schedule of the user's, beside its time. */
static double said_of(const char *path, const char *origin) {
    char line[600];

    snprintf(line, sizeof(line),
             "compare " PAIR " -c allgather --sizes 1M --with ring --schedule "
             "%s --json -q",
             path);
    said_t said = run(line);
    json_t *root = json_of(&said);
    const json_t *sizes =
        json_object_get(json_array_get(json_object_get(root, "comparisons"), 0), "sizes");
    const json_t *cell = json_array_get(json_object_get(json_array_get(sizes, 0), "results"), 1);

    ck_assert_msg(json_string_value(json_object_get(cell, "origin")) &&
                      strcmp(json_string_value(json_object_get(cell, "origin")), origin) == 0,
                  "wanted %s:\n%s", origin, said.out);
    double time_s = json_number_value(json_object_get(cell, "time_s"));
    json_decref(root);
    said_free(&said);
    return time_s;
}

/* The same schedule with another origin: the output shows it, and nothing else differs. */
START_TEST(mine) {
    char dir[] = "/tmp/ccllab_origins_XXXXXX", path[64], line[700];

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/mine.json", dir);
    snprintf(line, sizeof(line), "synth " PAIR " -c allgather --with direct -o %s", path);
    said_t said = run(line);
    ck_assert_int_eq(said.rc, 0);
    ck_assert_ptr_nonnull(strstr(said.out, "\norigin: direct: full mesh, "));
    said_free(&said);
    char *text = slurp(path), *origin = strstr(text, "\"origin\": \"direct: ");
    ck_assert_ptr_nonnull(origin);
    char *end = strstr(origin, "\",\n");
    *end = '\0';
    double as_made_s = said_of(path, origin + strlen("\"origin\": \""));
    *end = '"';

    memcpy(origin + strlen("\"origin\": \""), "DIRECT", 6);
    write_file(path, text);
    *end = '\0';
    ck_assert_double_eq(said_of(path, origin + strlen("\"origin\": \"")), as_made_s);
    *end = '"';

    memmove(origin, strchr(end, '\n') + 1, strlen(strchr(end, '\n') + 1) + 1);
    write_file(path, text); /* without one */
    ck_assert_double_eq(said_of(path, "file mine.json"), as_made_s);
    free(text);
    unlink(path);
    rmdir(dir);
}
END_TEST

/* A notebook's points keep theirs; what a checker sees where one lacks it. */
START_TEST(notebook) {
    char dir[] = "/tmp/ccllab_origins_XXXXXX", line[600];
    char *texts[2];

    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof(line),
                 "compare " PAIR " -c allgather --sizes 1M --with ring,cegis --notebook %s/n.db "
                 "--json -q",
                 dir);
        said_t said = run(line);
        json_t *root = json_of(&said);
        ck_assert_uint_eq(check_origins(root, "a pair"), 2);
        json_decref(root);
        texts[i] = strdup(said.out);
        said_free(&said);
    }
    ck_assert_str_eq(texts[0], texts[1]);
    snprintf(line, sizeof(line),
             "notebook query \"SELECT origin FROM run ORDER BY origin\" --notebook %s/n.db --csv",
             dir);
    said_t said = run(line);
    ck_assert_msg(strstr(said.out, "cegis: greedy start, Z3 not asked; hpds: ") &&
                      strstr(said.out, "ring: "),
                  "%s%s", said.out, said.err);
    said_free(&said);
    free(texts[0]);
    free(texts[1]);
    snprintf(line, sizeof(line), "rm -r %s", dir);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

/** The first value of a key, in whatever depth. */
static const char *first_of(const json_t *value, const char *key) {
    const char *name, *found = json_string_value(json_object_get(value, key));
    const json_t *element;
    size_t i;

    if (json_is_object(value))
        json_object_foreach((json_t *)value, name, element) found =
            found ? found : first_of(element, key);
    if (json_is_array(value))
        json_array_foreach(value, i, element) found = found ? found : first_of(element, key);
    return found;
}

/* Every command that has a schedule says the same of it: in JSON, in CSV, to people. */
START_TEST(commands) {
    char dir[] = "/tmp/ccllab_origins_XXXXXX";
    static const char *const lines[] = {
        "synth " PAIR " -c allgather --with direct -o %s/a.xml",
        "synth " PAIR " -c allgather --with direct -o %s/a.json",
        "verify %s/a.xml",
        "verify %s/a.json",
        "simulate " PAIR " --size 1M %s/a.xml",
        "lower " PAIR " --size 1M %s/a.json",
        "explain " PAIR " --size 1M %s/a.xml",
        "run %s/a.xml --size 4K --repeats 1",
        "tune " PAIR " -c allgather --sizes 1M -k with=direct --strategy random --budget 4runs "
        "--notebook %s/n.db",
        "sweep " PAIR " -c allgather --sizes 1M -k with=direct --strategy random --budget 4runs "
        "--notebook %s/n.db"};

    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (size_t i = 0; i < CCL_ARRAY_LEN(lines); i++) {
        for (int form = 0; form < 3; form++) {
            static const char *const forms[] = {"", " --json", " --csv"};
            if (SANITIZED && i > 1 && (int)(i % 3) != form) /* one each */
                continue;
            char format[300], line[400];

            /* as CSV these are tables of times, and of changes */
            if (form == 2 &&
                (strncmp(lines[i], "run ", 4) == 0 || strncmp(lines[i], "explain ", 8) == 0))
                continue;
            snprintf(format, sizeof(format), "%s%s", lines[i], forms[form]);
            snprintf(line, sizeof(line), format, dir);
            said_t said = run(line);
            ck_assert_msg(said.rc == 0, "%s: %s", line, said.err);
            if (form == 1) {
                json_t *root = json_of(&said);
                const char *origin = first_of(root, "origin");
                ck_assert_msg(origin && strncmp(origin, "direct: full mesh, ", 19) == 0, "%s: %s",
                              line, origin ? origin : "none");
                json_decref(root);
            } else {
                ck_assert_msg(strstr(said.out, "direct: full mesh, "), "%s:\n%s", line, said.out);
            }
            said_free(&said);
        }
    }
    char line[100];
    snprintf(line, sizeof(line), "rm -r %s", dir);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

/* The switches of ablations, in a comparison. */
START_TEST(switches) {
    static const struct {
        const char *options, *origin;
    } rows[] = {
        {"--with cegis --effort 0 --start plain", "cegis: plain start, Z3 not asked; hpds: "},
        {"--with hpds --order hpds-printed",
         "direct: full mesh, 1 channel; hpds: algorithm 1 as printed alone"},
        {"--with sketch --borrow none --notebook none", "sketch: nvlink (one each); hpds: "}};

    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char line[300];

        snprintf(line, sizeof(line), "compare " PAIR " -c allgather --sizes 1M --csv -q %s",
                 rows[i].options);
        said_t said = run(line);
        ck_assert_msg(said.rc == 0 && strstr(said.out, rows[i].origin), "%s:\n%s%s",
                      rows[i].options, said.out, said.err);
        said_free(&said);
    }
    remove("none"); /* no notebook, nor a file of that name */
    said_t none = run("compare " PAIR " -c allgather --sizes 1M --with ring --notebook none");
    ck_assert_int_eq(none.rc, 0);
    ck_assert_int_ne(access("none", F_OK), 0);
    said_free(&none);
    said_t said = run("compare " PAIR " -c allgather --sizes 1M --with sketch --borrow hm,ring,me");
    ck_assert_int_eq(said.rc, 2);
    ck_assert_ptr_nonnull(strstr(said.err, "sketches borrow no trees of \"me\": "));
    said_free(&said);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("origins of compare");
    TCase *tcase = tcase_create("all");

    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, library);
    tcase_add_test(tcase, mine);
    tcase_add_test(tcase, notebook);
    tcase_add_test(tcase, commands);
    tcase_add_test(tcase, switches);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
