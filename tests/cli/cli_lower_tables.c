/* `lower`: its tables say what the written program does; the other commands lower the same way. */
#include <math.h>

#include "program.h"
#include "base/json.h"
#include "tests/base/main.h"

#define CLUSTER "-t 'servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail'"

static char dir[] = "/tmp/ccllab_lower_XXXXXX";
static char schedule[64], program[64];

static void make(void) {
    char line[512];
    said_t said;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(schedule, sizeof(schedule), "%s/hm.json", dir);
    snprintf(program, sizeof(program), "%s/hm.xml", dir);
    snprintf(line, sizeof(line), "synth " CLUSTER " -c allreduce --with hm -q -o %s", schedule);
    said = run(line);
    ck_assert_msg(said.rc == 0, "%s", said.err);
    said_free(&said);
}

static void clean(void) {
    unlink(schedule);
    unlink(program);
    rmdir(dir);
}

/** The result of a line that must succeed; %s in it is `file`. */
static json_t *result(const char *line, const char *file) {
    char full[1024];
    said_t said;
    json_t *root;

    snprintf(full, sizeof(full), line, file);
    said = run(full);
    ck_assert_msg(said.rc == 0, "%s: %s", full, said.err);
    root = json_of(&said);
    said_free(&said);
    return root;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_number(value), "\"%s\" is no number", key);
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_string(value), "\"%s\" is no string", key);
    return json_string_value(value);
}

static const json_t *way_of(const json_t *root, size_t i) {
    return json_array_get(json_object_get(root, "ways"), i);
}

static const struct {
    const char *options, *level;
} written[] = {
    {"", "algorithm"},
    {"--order rr", "algorithm"},
    {"--order hpds", "algorithm"},
    {"--allocate capacity", "algorithm"},
    {"--allocate state", "algorithm"},
    {"--granularity stage", "stage"},
    {"--granularity stage --stages phase", "stage"},
    {"--granularity task", "task"},
    {"--order hpds --allocate state --granularity task", "task"},
    {"--executor msccl", "algorithm"},
};

/* A lowered file reads back, verifies, and simulates to the time that the table said. */
START_TEST(file) {
    char line[512];
    json_t *table, *verdict, *run_of;
    const json_t *way;

    if (SANITIZED && _i % 3)
        return;
    snprintf(line, sizeof(line), "lower " CLUSTER " %s %s --size 16M -q --json -o %s", "%s",
             written[_i].options, program);
    table = result(line, schedule);
    way = way_of(table, 0);
    ck_assert_str_eq(text(table, "schema"), "ccllab/lower/1");
    ck_assert_str_eq(text(table, "output"), program);
    ck_assert_str_eq(text(table, "collective"), "allreduce");
    ck_assert_double_eq(number(table, "size_bytes"), 16777216);
    ck_assert_str_eq(text(way, "status"), "ok");
    ck_assert_str_eq(text(way, "granularity"), written[_i].level);

    snprintf(line, sizeof(line), "verify --json -q -g %s %s %s", written[_i].level,
             strstr(written[_i].options, "--executor") ? written[_i].options : "", "%s");
    verdict = result(line, program);
    ck_assert(json_is_true(json_object_get(verdict, "valid")));

    snprintf(line, sizeof(line), "simulate " CLUSTER " --size 16M --json -q -g %s %s",
             written[_i].level, "%s");
    run_of = result(line, program);
    ck_assert_double_eq(number(run_of, "time_s"), number(way, "time_s"));
    ck_assert_double_eq(number(run_of, "busbw_GBps"), number(way, "busbw_GBps"));
    ck_assert_double_eq(number(run_of, "thread_blocks_per_gpu"),
                        number(way, "thread_blocks_per_gpu"));
    ck_assert_double_eq(number(run_of, "mean_idle_share"), number(way, "mean_idle_share"));
    ck_assert_double_eq(number(run_of, "max_idle_share"), number(way, "max_idle_share"));
    ck_assert_double_eq(number(run_of, "link_utilization"), number(way, "link_utilization"));
    ck_assert(json_is_null(json_object_get(run_of, "order"))); /* a program does not say */
    ck_assert_double_eq_tol(number(way, "comm_share") + number(way, "mean_idle_share"), 1, 1e-9);
    ck_assert_double_ge(number(way, "max_idle_share"), number(way, "mean_idle_share"));
    json_decref(run_of);
    json_decref(verdict);

    /* simulate and synth lower like lower */
    snprintf(line, sizeof(line), "simulate " CLUSTER " --size 16M --json -q %s %s",
             written[_i].options, "%s");
    run_of = result(line, schedule);
    ck_assert_double_eq(number(run_of, "time_s"), number(way, "time_s"));
    ck_assert_str_eq(text(run_of, "order"), text(way, "order"));
    ck_assert_str_eq(text(run_of, "allocation"), text(way, "allocation"));
    json_decref(run_of);
    json_decref(table);
}
END_TEST

/* Lists and --all: a row per way, the first one is what the others are set beside. */
START_TEST(rows) {
    json_t *root = result("lower " CLUSTER " %s --size 4M --json -q --order step,hpds,step "
                          "--allocate connection,state",
                          schedule);
    const json_t *ways = json_object_get(root, "ways");
    size_t i;
    const json_t *way;

    ck_assert_uint_eq(json_array_size(ways), 4);
    ck_assert_str_eq(text(way_of(root, 1), "order"), "hpds");
    ck_assert_str_eq(text(way_of(root, 1), "allocation"), "connection");
    ck_assert_str_eq(text(way_of(root, 2), "order"), "step");
    ck_assert_str_eq(text(way_of(root, 2), "allocation"), "state");
    ck_assert_double_eq(number(way_of(root, 0), "speedup"), 1);
    ck_assert_double_eq(number(way_of(root, 0), "pipelines"), 0);
    ck_assert_double_ge(number(way_of(root, 1), "pipelines"), 1);
    ck_assert_ptr_null(json_object_get(way_of(root, 0), "blocks"));
    ck_assert(json_is_null(json_object_get(root, "output")));
    ck_assert_double_ge(number(root, "parse_s"), 0);
    json_array_foreach((json_t *)ways, i, way) {
        ck_assert_double_eq(number(way, "speedup"),
                            number(way_of(root, 0), "time_s") / number(way, "time_s"));
        ck_assert_double_ge(number(way, "lower_s"), 0);
    }
    json_decref(root);

    root = result("lower " CLUSTER " %s --size 4M --json -q --all --order hpds", schedule);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "ways")), 9);
    json_array_foreach(json_object_get(root, "ways"), i, way) {
        ck_assert_str_eq(text(way, "order"), "hpds");
        ck_assert_str_eq(text(way, "status"), "ok");
    }
    json_decref(root);
}
END_TEST

/* Thread blocks: of one rank by default, their states add up, connections are named. */
START_TEST(blocks) {
    static const char *const lines_of[] = {
        "lower " CLUSTER " %s --size 4M --json -q --blocks",
        "lower " CLUSTER " %s --size 4M --json -q --rank 5",
        "lower " CLUSTER " %s --size 4M --json -q --rank all",
        "lower " CLUSTER " %s --size 4M --json -q --blocks -g stage --rank all",
        "lower " CLUSTER " %s --size 4M --json -q --rank all -g task --order hpds --allocate state",
    };

    for (size_t k = 0; k < sizeof(lines_of) / sizeof(lines_of[0]); k++) {
        json_t *root = result(lines_of[k], schedule);
        const json_t *way = way_of(root, 0);
        double idle = 0, most = 0, steps = 0;
        unsigned count[8] = {0}, fullest = 0, ranks = 0;
        size_t i, n = json_array_size(json_object_get(way, "blocks"));
        const json_t *block;

        ck_assert_uint_gt(n, 0);
        json_array_foreach(json_object_get(way, "blocks"), i, block) {
            double life_s = number(block, "done_s") - number(block, "start_s");
            double waits_s = number(block, "wait_data_s") + number(block, "wait_peer_s") +
                             number(block, "wait_slot_s");

            ck_assert_double_eq_tol(number(block, "busy_s") + waits_s, life_s, 1e-9 * life_s);
            ck_assert_double_eq_tol(number(block, "idle_share"), waits_s / life_s, 1e-9);
            ck_assert_uint_gt(json_array_size(json_object_get(block, "connections")), 0);
            ck_assert(json_is_null(json_object_get(block, "stage")) == (k != 3));
            idle += number(block, "idle_share");
            most = fmax(most, number(block, "idle_share"));
            steps += number(block, "steps");
            count[(int)number(block, "rank")]++;
        }
        for (int r = 0; r < 8; r++) {
            ranks += count[r] > 0;
            fullest = count[r] > fullest ? count[r] : fullest;
        }
        ck_assert_uint_eq(ranks, k < 2 ? 1 : 8);
        if (k == 1)
            ck_assert_uint_eq(count[5], n);
        if (k >= 2) { /* all blocks: the table's row follows from them */
            ck_assert_double_eq(number(way, "thread_blocks_per_gpu"), fullest);
            ck_assert_double_eq_tol(number(way, "mean_idle_share"), idle / (double)n, 1e-9);
            ck_assert_double_eq(number(way, "max_idle_share"), most);
            ck_assert_double_eq(number(way, "primitives"), steps);
        }
        json_decref(root);
    }
}
END_TEST

/* Blocks by state serve several connections, and the table names them all. */
START_TEST(merged_blocks) {
    char file_name[64], line[512];
    double blocks_of[2] = {0, 0}, connections_of[2] = {0, 0}, most = 0;
    said_t said;
    json_t *root;

    snprintf(file_name, sizeof(file_name), "%s/topo2.json", dir);
    snprintf(line, sizeof(line),
             "synth --profile none -t resccl-topo2 -c allreduce --with hm -q -o %s", file_name);
    said = run(line);
    ck_assert_msg(said.rc == 0, "%s", said.err);
    said_free(&said);
    root = result("lower --profile none -t resccl-topo2 %s --size 32M -g task --json -q --rank all "
                  "--order hpds "
                  "--allocate connection,state",
                  file_name);
    for (size_t k = 0; k < 2; k++) {
        size_t i;
        const json_t *block;

        json_array_foreach(json_object_get(way_of(root, k), "blocks"), i, block) {
            double n = (double)json_array_size(json_object_get(block, "connections"));

            connections_of[k] += n;
            most = fmax(most, n);
            blocks_of[k]++;
        }
    }
    ck_assert_double_lt(blocks_of[1], blocks_of[0]);
    ck_assert_double_eq(connections_of[1], connections_of[0]);
    ck_assert_double_gt(most, 1);
    json_decref(root);
    unlink(file_name);
}
END_TEST

/* Standard input and output: no file is needed between the commands. */
START_TEST(pipes) {
    said_t said = run("synth " CLUSTER " -c allgather --with hm | '" CCLLAB_BIN "' lower - " CLUSTER
                      " -g task -o - | '" CCLLAB_BIN "' verify -g task -");

    ck_assert_msg(said.rc == 0, "%s", said.err);
    ck_assert_ptr_nonnull(strstr(said.out, "valid"));
    said_free(&said);
}
END_TEST

START_TEST(tables) {
    static const char *const lines_of[] = {
        "lower " CLUSTER " %s --size 4M --csv -q --order step,hpds",
        "lower " CLUSTER " %s --size 4M --csv -q --rank 0",
        "lower " CLUSTER " %s --size 4M --csv -q --rank 0 --table ways",
        "lower " CLUSTER " %s --size 4M -q --rank 0 --order hpds --allocate state",
    };
    static const char *const wanted[] = {"order,allocation,granularity,topology,",
                                         "order,allocation,granularity,rank,id,stage,",
                                         "order,allocation,granularity,topology,",
                                         "Thread blocks of rank 0: hpds order, state allocation"};
    static const size_t nlines[] = {3, 0, 2, 0};

    for (size_t k = 0; k < 4; k++) {
        char line[512];
        said_t said;

        snprintf(line, sizeof(line), lines_of[k], schedule);
        said = run(line);
        ck_assert_msg(said.rc == 0, "%s", said.err);
        ck_assert_msg(strstr(said.out, wanted[k]) != NULL, "%s", said.out);
        if (nlines[k])
            ck_assert_uint_eq(lines(said.out), nlines[k]);
        said_free(&said);
    }
}
END_TEST

static const json_t *named(const json_t *list, const char *name) {
    size_t i;
    const json_t *item;

    json_array_foreach((json_t *)list, i, item) {
        if (strcmp(text(item, "name"), name) == 0)
            return item;
    }
    ck_abort_msg("nobody is named %s", name);
    return NULL;
}

/* In a comparison each is lowered its own way, and a user's schedule any way. */
START_TEST(contenders) {
    json_t *table = result("lower " CLUSTER " %s --size 16M --json -q", schedule);
    json_t *hpds = result("lower " CLUSTER " %s --size 16M --json -q --order hpds --allocate state "
                          "--granularity task",
                          schedule);
    char line[512];
    json_t *root;
    const json_t *one, *results, *way;

    snprintf(line, sizeof(line),
             "compare " CLUSTER " -c allreduce --sizes 16M --json -q --with hm,hpds --schedule %s "
             "--schedule %s+hpds",
             "%s", schedule);
    root = result(line, schedule);
    one = json_array_get(json_object_get(root, "comparisons"), 0);
    results = json_object_get(json_array_get(json_object_get(one, "sizes"), 0), "results");
    ck_assert_uint_eq(json_array_size(results), 4);
    way = named(json_object_get(one, "contenders"), "hpds");
    ck_assert_str_eq(text(way, "order"), "hpds");
    ck_assert_str_eq(text(way, "allocation"), "state");
    ck_assert_str_eq(text(way, "granularity"), "task");
    way = named(json_object_get(one, "contenders"), "hm");
    ck_assert_str_eq(text(way, "order"), "step");
    ck_assert_str_eq(text(way, "granularity"), "algorithm");
    way = way_of(table, 0);
    ck_assert_double_eq(number(named(results, "hm"), "time_s"), number(way, "time_s"));
    ck_assert_double_eq(number(named(results, "hm"), "max_idle_share"),
                        number(way, "max_idle_share"));
    way = way_of(hpds, 0);
    ck_assert_double_eq(number(named(results, "hpds"), "time_s"), number(way, "time_s"));
    ck_assert_double_eq(number(named(results, "hpds"), "thread_blocks_per_gpu"),
                        number(way, "thread_blocks_per_gpu"));
    json_decref(root);

    /* What the user says holds for all. */
    snprintf(line, sizeof(line),
             "compare " CLUSTER " -c allreduce --sizes 16M --json -q --with hm,hpds --schedule "
             "%s+hpds --order step --allocate connection --granularity algorithm",
             "%s");
    root = result(line, schedule);
    one = json_array_get(json_object_get(root, "comparisons"), 0);
    results = json_object_get(json_array_get(json_object_get(one, "sizes"), 0), "results");
    ck_assert_uint_eq(json_array_size(results), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_double_eq(number(json_array_get(results, i), "time_s"),
                            number(way_of(table, 0), "time_s"));
    ck_assert(
        json_is_true(json_object_get(json_array_get(json_object_get(one, "sizes"), 0), "tie")));
    json_decref(root);
    json_decref(table);
    json_decref(hpds);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lower");
    TCase *cases = tcase_create("all");

    tcase_add_unchecked_fixture(cases, make, clean);
    tcase_add_loop_test(cases, file, 0, (int)(sizeof(written) / sizeof(written[0])));
    tcase_add_test(cases, rows);
    tcase_add_test(cases, blocks);
    tcase_add_test(cases, merged_blocks);
    tcase_add_test(cases, pipes);
    tcase_add_test(cases, tables);
    tcase_add_test(cases, contenders);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
