/* JSON and CSV results: the keys that other programs rely on, and that numbers read back exactly.
 */
#include <math.h>

#include "program.h"
#include "base/json.h"
#include "tests/base/main.h"

static const json_t *need(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(value != NULL, "no key \"%s\"", key);
    return value;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = need(object, key);

    ck_assert_msg(json_is_number(value), "\"%s\" is no number", key);
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *key) {
    const json_t *value = need(object, key);

    ck_assert_msg(json_is_string(value), "\"%s\" is no string", key);
    return json_string_value(value);
}

START_TEST(verify_valid) {
    said_t said = run("verify --json " DATA "/allgather_2.xml");
    json_t *root = json_of(&said);

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/verify/1");
    ck_assert(json_is_true(need(root, "valid")));
    ck_assert_str_eq(text(root, "collective"), "allgather");
    ck_assert(json_is_null(need(root, "fault")));
    ck_assert(json_is_array(need(root, "warnings")));
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(verify_invalid) {
    said_t said = run("verify --json " DATA "/missing_2.xml");
    json_t *root = json_of(&said);
    const json_t *fault = need(root, "fault");

    ck_assert_int_eq(said.rc, 1);
    ck_assert(json_is_false(need(root, "valid")));
    ck_assert_str_eq(text(fault, "kind"), "missing");
    ck_assert_int_eq((int)number(fault, "rank"), 1);
    ck_assert_int_eq((int)number(fault, "chunk"), 1);
    ck_assert(json_is_null(need(fault, "thread_block")));
    ck_assert(json_is_null(need(fault, "step")));
    ck_assert_int_gt((int)strlen(text(fault, "text")), 10);
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(verify_malformed) {
    said_t said = run("verify --json " DATA "/malformed.xml");
    json_t *root = json_of(&said);
    const json_t *fault = need(root, "fault");

    ck_assert_int_eq(said.rc, 1);
    ck_assert_str_eq(said.err, "");
    ck_assert(json_is_false(need(root, "valid")));
    ck_assert(json_is_null(need(root, "collective")));
    ck_assert_str_eq(text(fault, "kind"), "malformed");
    ck_assert_int_eq((int)number(fault, "line"), 6);
    ck_assert_ptr_nonnull(strstr(text(fault, "text"), "malformed.xml:6:"));
    json_decref(root);
    said_free(&said);
}
END_TEST

/* One link of 300 GB/s and 1 us, 1 MiB a chunk: the time is known in closed form. */
START_TEST(simulate_run) {
    said_t said = run("simulate " PAIR " " DATA "/allgather_2.xml --size 2M --json -q");
    json_t *root = json_of(&said);
    const json_t *links = need(root, "links");
    const json_t *blocks = need(root, "thread_blocks");
    double size_bytes = 2097152;
    double expected_s = 1e-6 + size_bytes / 2 / 300e9;
    size_t i;
    const json_t *item;

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/simulate/1");
    ck_assert(json_is_true(need(root, "valid")));
    ck_assert(json_is_null(need(root, "deadlock")));
    ck_assert_double_eq_tol(number(root, "time_s"), expected_s, 1e-9 * expected_s);
    ck_assert_double_eq(number(root, "size_bytes"), size_bytes);
    /* printed so that they read back to the same double */
    ck_assert_double_eq(number(root, "algbw_GBps"), size_bytes / number(root, "time_s") / 1e9);
    ck_assert_double_eq_tol(number(root, "busbw_GBps"), number(root, "algbw_GBps") / 2, 1e-12);
    ck_assert_int_eq((int)number(root, "transfers"), 2);
    ck_assert_int_eq((int)number(root, "batches"), 1);
    ck_assert_str_eq(text(root, "granularity"), "algorithm");
    ck_assert_str_eq(text(root, "sharing"), "fair");
    ck_assert_str_eq(text(root, "collective"), "allgather");
    ck_assert_int_eq((int)number(root, "nranks"), 2);
    ck_assert_uint_eq(json_array_size(links), 4);
    json_array_foreach((json_t *)links, i, item) {
        text(item, "from");
        text(item, "to");
        ck_assert_double_eq(number(item, "bytes"), size_bytes / 2);
        ck_assert_double_eq_tol(number(item, "utilization"), size_bytes / 2 / (300e9 * expected_s),
                                1e-9);
    }
    ck_assert_uint_eq(json_array_size(blocks), 6);
    json_array_foreach((json_t *)blocks, i, item) {
        double sum = number(item, "busy_s") + number(item, "wait_data_s") +
                     number(item, "wait_peer_s") + number(item, "wait_slot_s");

        number(item, "rank");
        number(item, "id");
        number(item, "channel");
        need(item, "send");
        need(item, "recv");
        ck_assert_double_eq_tol(sum, number(item, "done_s") - number(item, "start_s"), 1e-15);
    }
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(run_right) {
    static const char *const lines_of[] = {
        "run " DATA "/allgather_2.xml --size 100K --json --blocks --repeats 3 -q",
        "run " DATA "/allgather_2.xml --sizes 100K --json --blocks --repeats 3 --ranks processes",
        "run " DATA "/allgather_2.xml --size 100K --json --blocks --repeats 3 --ranks processes "
        "--transport tcp",
    };

    for (size_t k = 0; k < 3; k++) {
        said_t said = run(lines_of[k]);
        json_t *root = json_of(&said);
        const json_t *size = json_array_get(need(root, "sizes"), 0);
        double median_s = number(size, "median_s");

        ck_assert_int_eq(said.rc, 0);
        ck_assert_str_eq(text(root, "schema"), "ccllab/run/1");
        ck_assert_str_eq(text(root, "collective"), "allgather");
        ck_assert_str_eq(text(root, "type"), "fp32");
        ck_assert(json_is_true(need(root, "valid")));
        ck_assert_int_eq((int)number(root, "processes"), k ? 2 : 1);
        ck_assert_str_eq(text(size, "status"), "ok");
        ck_assert_double_eq(number(size, "size_bytes"), 102400);
        ck_assert_double_eq(number(size, "buffer_bytes"), 102400);
        /* two ranks, 25600 items each, in 3 runs, a warm-up and the timed one */
        ck_assert_double_eq(number(size, "checked_items"), 2 * 25600 * 5);
        ck_assert_double_eq(number(size, "wrong_items"), 0);
        ck_assert(json_is_null(need(size, "data_fault")));
        ck_assert_uint_eq(json_array_size(need(size, "times_s")), 3);
        ck_assert_double_gt(number(size, "min_s"), 0);
        ck_assert_double_le(number(size, "min_s"), median_s);
        ck_assert_double_eq(number(size, "algbw_GBps"), 102400 / median_s / 1e9);
        ck_assert_uint_eq(json_array_size(need(size, "thread_blocks")), 6);
        json_decref(root);
        said_free(&said);
    }
}
END_TEST

START_TEST(run_wrong) {
    said_t said = run("run " DATA "/missing_2.xml --size 1K --json --no-verify -q");
    json_t *root = json_of(&said);
    const json_t *size = json_array_get(need(root, "sizes"), 0);

    ck_assert_int_eq(said.rc, 1);
    ck_assert_str_eq(text(size, "status"), "invalid");
    ck_assert_int_eq((int)number(need(size, "data_fault"), "rank"), 1);
    ck_assert_int_eq((int)number(need(size, "data_fault"), "chunk"), 1);
    ck_assert(json_is_null(need(need(size, "data_fault"), "got")));
    ck_assert(json_is_null(need(size, "median_s")));
    json_decref(root);
    said_free(&said);
    said = run("run " DATA "/missing_2.xml --size 1K --json");
    root = json_of(&said);
    ck_assert_int_eq(said.rc, 1);
    ck_assert(json_is_false(need(root, "valid")));
    ck_assert_str_eq(text(need(root, "fault"), "kind"), "missing");
    ck_assert_uint_eq(json_array_size(need(root, "sizes")), 0);
    json_decref(root);
    said_free(&said);
    said = run("run " DATA "/deadlock_2.xml --size 1K --json --no-verify");
    root = json_of(&said);
    size = json_array_get(need(root, "sizes"), 0);
    ck_assert_int_eq(said.rc, 1);
    ck_assert_str_eq(text(size, "status"), "deadlock");
    ck_assert_int_eq((int)number(need(size, "deadlock"), "stuck"), 2);
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(device_list) {
    said_t said = run("devices --json");
    json_t *root = json_of(&said);
    const json_t *first = json_array_get(need(root, "devices"), 0);

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(first, "device"), "host");
    ck_assert(json_is_true(need(first, "available")));
    ck_assert_double_ge(number(first, "units"), 1);
    ck_assert(json_is_null(need(first, "why_not")));
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(simulate_deadlock) {
    static const char *const lines_of[] = {
        "simulate " PAIR " " DATA "/deadlock_2.xml --size 2M --json",
        "simulate " PAIR " " DATA "/deadlock_2.xml --size 2M --json --no-verify",
    };

    for (size_t k = 0; k < 2; k++) {
        said_t said = run(lines_of[k]);
        json_t *root = json_of(&said);
        const json_t *deadlock = need(root, "deadlock");
        const json_t *cycle = need(deadlock, "cycle");
        const json_t *first = json_array_get(cycle, 0);

        ck_assert_int_eq(said.rc, 1);
        ck_assert(json_is_null(need(root, "time_s")));
        ck_assert_int_eq((int)number(deadlock, "stuck"), 2);
        ck_assert_uint_eq(json_array_size(cycle), 2);
        ck_assert_int_eq((int)number(first, "step"), 1);
        ck_assert_int_eq((int)number(first, "thread_block"), 0);
        ck_assert_int_eq((int)number(first, "batch"), 0);
        ck_assert_int_eq((int)number(first, "slice"), 0);
        ck_assert_str_eq(text(first, "waits_for"), "data");
        ck_assert_int_eq((int)number(first, "on_rank"), 1 - (int)number(first, "rank"));
        ck_assert_int_eq((int)number(first, "on_thread_block"), 0);
        ck_assert(json_is_true(need(deadlock, "any_depth")));
        ck_assert(json_is_null(need(deadlock, "depends_on")));
        ck_assert(json_is_null(need(deadlock, "finishes_with_batches")));
        json_decref(root);
        said_free(&said);
    }
}
END_TEST

/* A deadlock that deeper FIFOs would end: which, how deep, and who gave the depth. */
START_TEST(deadlock_depends) {
    static const struct {
        const char *line, *object; /* what holds "deadlock" */
        const char *transport, *source;
        int value, least;
    } lines_of[] = {
        {"simulate " PAIR " --set slots:nvlink=2 " DATA "/deadlock_depth.xml --size 6M --json",
         NULL, "nvlink", "set:slots:nvlink=2", 2, 3},
        {"simulate " PAIR " --scale slots=0.25 " DATA "/deadlock_depth.xml --size 6M --json", NULL,
         "nvlink", "scale:slots=0.25", 2, 3},
        {"run " DATA "/deadlock_depth.xml --slots 2 --size 6K --json", "sizes", NULL, "--slots", 2,
         3},
    };
    said_t said;
    json_t *root;

    for (size_t k = 0; k < sizeof(lines_of) / sizeof(*lines_of); k++) {
        const json_t *deadlock, *on;

        said = run(lines_of[k].line);
        root = json_of(&said);
        deadlock = lines_of[k].object ? json_array_get(need(root, lines_of[k].object), 0) : root;
        deadlock = need(deadlock, "deadlock");
        on = need(deadlock, "depends_on");
        ck_assert_int_eq(said.rc, 1);
        ck_assert(json_is_false(need(deadlock, "any_depth")));
        ck_assert_str_eq(text(on, "key"), "slots");
        if (lines_of[k].transport)
            ck_assert_str_eq(text(on, "transport"), lines_of[k].transport);
        else
            ck_assert(json_is_null(need(on, "transport")));
        ck_assert(json_is_null(need(on, "protocol")));
        ck_assert_int_eq((int)number(on, "value"), lines_of[k].value);
        ck_assert_int_eq((int)number(on, "least"), lines_of[k].least);
        ck_assert_str_eq(text(on, "source"), lines_of[k].source);
        need(on, "slice_bytes");
        ck_assert(json_is_null(need(deadlock, "finishes_with_batches")));
        json_decref(root);
        said_free(&said);
    }
    said = run("verify " DATA "/deadlock_depth.xml --json");
    root = json_of(&said);
    ck_assert_int_eq(said.rc, 1);
    ck_assert_int_eq((int)number(need(root, "fault"), "slots"), 2);
    ck_assert_int_eq((int)number(need(root, "fault"), "least_slots"), 3);
    json_decref(root);
    said_free(&said);
    said = run("verify " DATA "/deadlock_2.xml --json");
    root = json_of(&said);
    ck_assert(json_is_null(need(need(root, "fault"), "least_slots")));
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(simulate_refused) {
    said_t said = run("simulate " PAIR " " DATA "/missing_2.xml --size 2M --json");
    json_t *root = json_of(&said);

    ck_assert_int_eq(said.rc, 1);
    ck_assert(json_is_false(need(root, "valid")));
    ck_assert(json_is_null(need(root, "time_s")));
    ck_assert_str_eq(text(need(root, "fault"), "kind"), "missing");
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(simulate_flows) {
    said_t said = run("simulate " PAIR " --flows " DATA "/pair.flows --json");
    json_t *root = json_of(&said);
    double expected_s = 2 * (1e-6 + 1048576 / 300e9);

    ck_assert_int_eq(said.rc, 0);
    ck_assert_double_eq_tol(number(root, "time_s"), expected_s, 1e-9 * expected_s);
    ck_assert_int_eq((int)number(root, "flows"), 2);
    ck_assert_uint_eq(json_array_size(need(root, "links")), 4);
    json_decref(root);
    said_free(&said);
}
END_TEST

/** Sum of a member over an array of objects. */
static double sum_of(const json_t *rows, const char *key) {
    double sum = 0;

    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += number(json_array_get(rows, i), key);
    return sum;
}

START_TEST(explained) {
    said_t said = run("explain -t 'servers:2 gpus:3 nvswitch=300GB/s,1us nics:3x25GB/s,2us' -c "
                      "allgather --with ring --size 8M --path --json");
    json_t *root = json_of(&said);
    const json_t *changes = need(root, "changes");
    const json_t *path = need(root, "path");
    const json_t *first = json_array_get(changes, 0);
    double time_s = number(root, "time_s");

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/explain/1");
    ck_assert_str_eq(text(root, "input"), "ring");
    ck_assert_double_eq_tol(sum_of(need(root, "causes"), "share"), 1, 1e-9);
    ck_assert_double_eq_tol(sum_of(need(root, "waits"), "time_s"), time_s, 1e-9 * time_s);
    ck_assert_double_eq(number(json_array_get(path, json_array_size(path) - 1), "end_s"), time_s);
    ck_assert_double_eq(number(json_array_get(path, 0), "start_s"), 0);
    ck_assert_uint_gt(json_array_size(changes), 10);
    ck_assert_double_eq_tol(number(first, "change"), number(first, "time_s") / time_s - 1, 1e-12);
    ck_assert_int_eq((int)number(root, "untried"), 0);
    ck_assert_double_ge(number(need(root, "cut"), "busy"), 0.1);
    ck_assert_uint_eq(json_array_size(need(need(root, "cut"), "parts")), 20);
    ck_assert_uint_gt(json_array_size(need(root, "thread_blocks")), 12);
    json_decref(root);
    said_free(&said);

    static const struct {
        const char *line;
        int rc;
        const char *out; /* or what is said on stderr */
    } rows[] = {
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv", 0, "change,of,with,status"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv --table path", 0, "start_s,"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv --table cut", 0, "start_s,"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv --table links", 0, "link,"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv --table waits", 0, "wait,"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv --table causes", 0, "cause,"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --csv --table thread_blocks", 0,
         "rank,"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M", 0, "What would help most"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --path --no-what-if", 0, "bound"},
        {"explain " PAIR " " DATA "/allgather_2.xml", 2, "no size given"},
        {"explain " PAIR " --size 2M", 2, "wanted: one program or schedule file"},
        {"explain " PAIR " " DATA "/missing_2.xml --size 2M", 1, "invalid: missing"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --order rr", 2, "lowered already"},
        {"explain " PAIR " -c allgather --with ring --size 2M --csv --table x", 2, "changes"},
        {"explain " PAIR " -c allgather --with ring --size 2M --scale x=2", 2, "nothing called"},
        {"explain " PAIR " " DATA "/allgather_2.xml --size 2M --batches 99999999", 1,
         "the critical path of"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        said = run(rows[i].line);
        ck_assert_msg(said.rc == rows[i].rc, "%s: exit code %d: %s", rows[i].line, said.rc,
                      said.err);
        ck_assert_msg(strstr(rows[i].rc ? said.err : said.out, rows[i].out) != NULL, "%s: %s%s",
                      rows[i].line, said.out, said.err);
        said_free(&said);
    }
}
END_TEST

START_TEST(topologies) {
    said_t said = run("topology list --json");
    json_t *root = json_of(&said);
    size_t n = json_array_size(need(root, "entries"));

    ck_assert_uint_gt(n, 30);
    json_decref(root);
    said_free(&said);

    said = run("topology show heteccl-h20-4+8 --json");
    root = json_of(&said);
    ck_assert_int_eq((int)number(root, "nranks"), 12);
    ck_assert_int_eq((int)number(need(root, "devices"), "gpu"), 12);
    ck_assert_uint_eq(json_array_size(need(root, "servers")), 2);
    json_decref(root);
    said_free(&said);

    said = run("topology symmetry heteccl-h20-4+8 --json");
    root = json_of(&said);
    ck_assert_uint_eq(json_array_size(need(root, "gpu_class")), 12);
    ck_assert_uint_eq(json_array_size(need(root, "dimensions")), 2);
    for (size_t d = 0, gpus[] = {4, 12}; d < 2; d++) {
        const json_t *groups = need(json_array_get(need(root, "dimensions"), d), "groups");

        ck_assert_uint_eq(json_array_size(need(json_array_get(groups, 0), "ranks")), gpus[d]);
    }
    json_decref(root);
    said_free(&said);

    said = run("topology expand heteccl-h20-4+8 --fail gpu:3 | '" CCLLAB_BIN
               "' topology check --json -");
    root = json_of(&said);
    ck_assert(json_is_true(need(root, "valid")));
    ck_assert_int_eq((int)number(root, "nranks"), 11);
    json_decref(root);
    said_free(&said);
}
END_TEST

START_TEST(synthesize) {
    char dir[] = "/tmp/ccllab_synth_XXXXXX";
    char line[1024];
    said_t said;
    json_t *root;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int xml = 0; xml < 2; xml++) {
        const char *ending = xml ? "xml" : "json";

        snprintf(line, sizeof(line),
                 "synth --topology dgx-a100 --collective AllGather --with ring --size 64M -o "
                 "%s/a.%s --json",
                 dir, ending);
        said = run(line);
        ck_assert_msg(said.rc == 0, "%s", said.err);
        root = json_of(&said);
        ck_assert_str_eq(text(root, "collective"), "allgather");
        ck_assert_str_eq(text(root, "synthesizer"), "ring");
        ck_assert(json_is_null(need(root, "thread_blocks")) == !xml);
        json_decref(root);
        said_free(&said);

        snprintf(line, sizeof(line), "verify --json %s/a.%s", dir, ending);
        said = run(line);
        root = json_of(&said);
        ck_assert_int_eq(said.rc, 0);
        ck_assert_str_eq(text(root, "form"), xml ? "program" : "schedule");
        json_decref(root);
        said_free(&said);

        snprintf(line, sizeof(line), "simulate -t dgx-a100 %s/a.%s --size 64M --json", dir, ending);
        said = run(line);
        root = json_of(&said);
        ck_assert_int_eq(said.rc, 0);
        ck_assert_double_gt(number(root, "busbw_GBps"), 0);
        json_decref(root);
        said_free(&said);
        snprintf(line, sizeof(line), "%s/a.%s", dir, ending);
        unlink(line);
    }
    rmdir(dir);
}
END_TEST

/* Sanitized, without those that search, which have tests of their own. */
#define COMPARED                                                                                   \
    "compare -t 'servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us' --sizes 64K,1M --json "  \
    "-q%s -c ",                                                                                    \
        SANITIZED ? " --with ring,hm,direct,hpds,packing" : ""

START_TEST(comparison) {
    char line[300];

    snprintf(line, sizeof(line), COMPARED);
    strcat(line, "allgather,allreduce");
    said_t said = run(line);
    json_t *root = json_of(&said);
    const json_t *both = need(root, "comparisons");
    size_t i, s;
    const json_t *one, *size;

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/compare/1");
    ck_assert_uint_eq(json_array_size(both), 2);
    json_array_foreach((json_t *)both, i, one) {
        const json_t *sizes = need(one, "sizes");

        ck_assert_str_eq(text(one, "collective"), i ? "allreduce" : "allgather");
        ck_assert_uint_gt(json_array_size(need(one, "contenders")), 2);
        ck_assert_uint_eq(json_array_size(sizes), 2);
        json_array_foreach((json_t *)sizes, s, size) {
            const char *winner = text(size, "winner");
            double best_s = INFINITY, winner_s = 0;
            size_t k;
            const json_t *cell;

            ck_assert_double_eq(number(size, "size_bytes"), s ? 1048576 : 65536);
            json_array_foreach((json_t *)need(size, "results"), k, cell) {
                if (strcmp(text(cell, "status"), "ok") != 0)
                    continue;
                best_s = fmin(best_s, number(cell, "time_s"));
                if (strcmp(text(cell, "name"), winner) == 0)
                    winner_s = number(cell, "time_s");
            }
            ck_assert_double_eq(winner_s, best_s);
            ck_assert_uint_gt(json_array_size(need(size, "links")), 0);
            ck_assert_uint_gt(json_array_size(need(size, "link_classes")), 0);
        }
    }
    json_decref(root);
    said_free(&said);
}
END_TEST

/* A user's program stands beside the synthesizers under its file's name. */
START_TEST(comparison_with_program) {
    said_t said =
        run("compare " PAIR " -c allgather --sizes 1M --json -q --with direct --program " DATA
            "/allgather_2.xml");
    json_t *root = json_of(&said);
    const json_t *one = json_array_get(need(root, "comparisons"), 0);
    const json_t *contenders = need(one, "contenders");

    ck_assert_int_eq(said.rc, 0);
    ck_assert_uint_eq(json_array_size(contenders), 2);
    ck_assert_str_eq(text(json_array_get(contenders, 1), "name"), "allgather_2");
    ck_assert(json_is_true(need(json_array_get(contenders, 1), "takes_part")));
    json_decref(root);
    said_free(&said);
}
END_TEST

/* An uneven exchange has a size of its own: 3 MB one way, 1 MB the other, over links of 300 GB/s.
 */
START_TEST(demand) {
    said_t said =
        run("synth " PAIR " --demand " DATA "/alltoallv_2.json --with direct | '" CCLLAB_BIN
            "' simulate " PAIR " --json -");
    json_t *root = json_of(&said);
    double expected_s = 1e-6 + 3e6 / 300e9;

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "collective"), "experts");
    ck_assert_double_eq(number(root, "size_bytes"), 3e6);
    ck_assert_double_eq_tol(number(root, "time_s"), expected_s, 1e-9 * expected_s);
    json_decref(root);
    said_free(&said);

    said = run("compare " PAIR " --demand " DATA "/alltoallv_2.json --json -q");
    root = json_of(&said);
    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(json_array_get(need(root, "comparisons"), 0), "collective"), "experts");
    json_decref(root);
    said_free(&said);
}
END_TEST

/* CSV: every row has as many fields as the header (no quoted field of these has a comma). */
static void check_csv(const char *line, size_t rows_min) {
    said_t said = run(line);
    size_t commas = 0, count = 0, rows = 0;

    ck_assert_msg(said.rc == 0, "%s: %s", line, said.err);
    for (const char *p = said.out; *p; p++) {
        if (*p == '"') {
            for (p++; *p && *p != '"'; p++)
                ;
            continue;
        }
        count += *p == ',';
        if (*p == '\n') {
            if (rows++ == 0)
                commas = count;
            ck_assert_msg(count == commas, "%s: row %zu", line, rows);
            count = 0;
        }
    }
    ck_assert_msg(rows > rows_min, "%s: only %zu rows", line, rows);
    said_free(&said);
}

START_TEST(csv) {
    check_csv("topology list --csv", 30);
    check_csv("topology symmetry mi250-x16 --csv", 3);
    check_csv("topology show dgx-a100 --csv", 8);
    check_csv("topology show dgx-a100 --csv --table links", 16);
    check_csv("topology show v100-x8 --csv --table groups", 0);
    check_csv("topology show dgx-a100 --csv --table routes", 1);
    check_csv("topology check dgx-a100 --csv", 1);
    check_csv("algos --csv", 3);
    check_csv("verify --csv " DATA "/allgather_2.xml", 1);
    check_csv("simulate " PAIR " --csv " DATA "/allgather_2.xml --size 1M", 1);
    check_csv("simulate " PAIR " --csv --table links " DATA "/allgather_2.xml --size 1M", 4);
    check_csv("simulate " PAIR " --csv --table thread_blocks " DATA "/allgather_2.xml --size 1M",
              6);
    check_csv("simulate " PAIR " --csv --table flows --flows " DATA "/pair.flows", 2);
    check_csv("compare " PAIR " -c allgather --csv --sizes 1M:4M", 3);
    check_csv("compare " PAIR " -c allgather --csv --table links --sizes 1M:4M", 12);
}
END_TEST

START_TEST(output_files) {
    char dir[] = "/tmp/ccllab_out_XXXXXX";
    char line[512], path[128];
    said_t said;
    char *text_of;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/list.json", dir);
    for (int again = 0; again < 2; again++) { /* an existing file is replaced */
        snprintf(line, sizeof(line), "topology list -o %s", path);
        said = run(line);
        ck_assert_int_eq(said.rc, 0);
        ck_assert_str_eq(said.out, "");
        said_free(&said);
        text_of = slurp(path);
        ck_assert_msg(text_of[0] == '{', "a name that ends in .json gives JSON");
        free(text_of);
    }
    unlink(path);
    snprintf(path, sizeof(path), "%s/trace.json", dir);
    snprintf(line, sizeof(line), "simulate " PAIR " " DATA "/allgather_2.xml --size 1M --trace %s",
             path);
    said = run(line);
    ck_assert_int_eq(said.rc, 0);
    said_free(&said);
    text_of = slurp(path);
    ck_assert_ptr_nonnull(strstr(text_of, "traceEvents"));
    free(text_of);
    unlink(path);
    ck_assert_msg(rmdir(dir) == 0, "no temporary files are left");
}
END_TEST

/* The same line gives the same bytes, whatever the number of threads. */
START_TEST(determinism) {
    char one[300], four[300];
    said_t a, b;

    snprintf(one, sizeof(one), COMPARED);
    strcpy(four, one);
    strcat(one, "allreduce --threads 1");
    strcat(four, "allreduce --threads 4");
    a = run(one);
    b = run(four);
    ck_assert_int_eq(a.rc, 0);
    ck_assert_str_eq(a.out, b.out);
    said_free(&a);
    said_free(&b);
}
END_TEST

START_TEST(measured) {
    said_t said = run("diagnose --json " DATA "/half_rails.log " RAILS);
    json_t *root = json_of(&said);
    const json_t *one = json_array_get(need(root, "runs"), 0), *sizes = need(one, "sizes");
    const json_t *last = json_array_get(sizes, json_array_size(sizes) - 1);

    ck_assert_int_eq(said.rc, 1);
    ck_assert_str_eq(text(root, "schema"), "ccllab/diagnose/1");
    ck_assert(json_is_null(need(root, "profile")));
    ck_assert_str_eq(text(one, "collective"), "allgather");
    ck_assert_int_eq((int)number(one, "nranks"), 4);
    ck_assert_int_eq((int)json_array_size(sizes), 4);
    ck_assert_str_eq(text(root, "verdict"), text(one, "verdict"));
    ck_assert_str_eq(text(one, "cause"), "rails");
    const json_t *cause = json_array_get(need(one, "causes"), 0);
    ck_assert_str_eq(text(cause, "cause"), "rails");
    ck_assert_double_eq(number(cause, "probability"), number(one, "probability"));
    ck_assert(number(cause, "probability") > 0.5 && number(cause, "probability") <= 1);
    ck_assert_ptr_nonnull(strstr(text(cause, "evidence"), "off the healthy ones"));
    ck_assert_ptr_nonnull(strstr(text(cause, "next"), "NCCL_IB_HCA"));
    ck_assert_int_eq((int)number(one, "normal_sizes"), 0);
    ck_assert_int_eq((int)json_array_size(need(one, "settings")), 0);
    ck_assert_double_eq(number(last, "size_bytes"), 1073741824);
    ck_assert_double_eq_tol(number(last, "measured_s"), 33600e-6, 1e-12);
    ck_assert_double_eq_tol(number(last, "ratio"),
                            number(last, "expected_s") / number(last, "measured_s"), 1e-12);
    ck_assert_str_eq(text(last, "link_kind"), "net");
    ck_assert_str_eq(text(last, "limit"), "link");
    ck_assert_str_eq(text(last, "algo"), "ring");
    ck_assert(json_is_false(need(last, "normal")));
    ck_assert_ptr_nonnull(strstr(text(last, "verdict"), "half of what the NICs allow"));
    json_decref(root);
    said_free(&said);

    /* A profile of the same log: written, told, and good enough to make the log normal. */
    said = run("calibrate --json --from-nccl-tests " DATA "/half_rails.log " RAILS
               " --name rails -o measured.profile.json");
    root = json_of(&said);
    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/calibrate/1");
    ck_assert_int_eq((int)json_array_size(need(root, "points")), 4);
    ck_assert(number(root, "median_error") < number(root, "median_error_before"));
    ck_assert(json_array_size(need(root, "constants")) > 0);
    json_decref(root);
    said_free(&said);
    said = run("diagnose --csv --profile measured.profile.json " DATA "/half_rails.log " RAILS);
    ck_assert_ptr_nonnull(strstr(said.out, "1073741824,33600.00,"));
    ck_assert_ptr_null(strstr(said.out, "rails idle"));
    said_free(&said);
    said = run("simulate --profile nccl-a100 -t dgx-a100 " DATA "/allgather_2.xml --size 1M");
    ck_assert_int_eq(said.rc, 2); /* 2 ranks, 8 GPUs: the profile does not hide it */
    said_free(&said);
    unlink("measured.profile.json");
}
END_TEST

/** The host's profile: predicted beside measured, in three forms. */
START_TEST(validated) {
    said_t said = run("validate --json --profile " DATA "/host.profile.json --suite " DATA
                      "/two.suite --sizes 8K,64K --repeats 1");
    json_t *root = json_of(&said);
    const json_t *runs = need(root, "runs"), *first = json_array_get(runs, 0);

    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/validate/1");
    ck_assert_int_eq((int)json_array_size(runs), 4);
    ck_assert_str_eq(text(first, "collective"), "allgather");
    ck_assert_str_eq(text(first, "schedule"), "ring");
    ck_assert(number(first, "predicted_s") > 0 && number(first, "min_s") > 0);
    ck_assert(fabs(number(first, "predicted_s") / number(first, "min_s") - 1 -
                   number(first, "error")) < 1e-9);
    ck_assert(number(root, "median_error") <= number(root, "worst_error"));
    ck_assert(number(root, "ranked_right") <= number(root, "pairs"));
    json_decref(root);
    said_free(&said);
    said = run("validate --csv --profile " DATA "/host.profile.json --suite " DATA
               "/two.suite --sizes 8K --repeats 1");
    ck_assert_ptr_nonnull(strstr(said.out, "collective,schedule,nranks,size_bytes,predicted_s"));
    ck_assert_ptr_nonnull(strstr(said.out, "\nallgather,direct,4,8192,"));
    said_free(&said);
    said = run("calibrate --json --device host -j 1 --repeats 1 --footprints 64K -o host.json");
    root = json_of(&said);
    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(text(root, "schema"), "ccllab/calibrate-host/1");
    ck_assert_int_eq((int)number(root, "workers"), 1);
    ck_assert_int_eq((int)json_array_size(need(root, "constants")), 16);
    json_decref(root);
    said_free(&said);
    said = run("validate --profile host.json --suite " DATA "/two.suite --sizes 8K --repeats 1");
    ck_assert_int_eq(said.rc, 0);
    ck_assert_ptr_nonnull(strstr(said.out, "\nranking of schedules: "));
    said_free(&said);
    unlink("host.json");
}
END_TEST

/** A profile changes times, by protocol, in simulate and in compare. */
START_TEST(profiled) {
    double times[4];
    static const char *const lines[] = {
        "compare -t dgx-a100 -c allgather --sizes 64M --with ring --json --profile none",
        "compare -t dgx-a100 -c allgather --sizes 64M --with ring --json --profile nccl-a100",
        "compare -t dgx-a100 -c allgather --sizes 1K --with ring --json --profile nccl-a100 "
        "--proto Simple",
        "compare -t dgx-a100 -c allgather --sizes 1K --with ring --json --profile nccl-a100 "
        "--proto LL"};

    for (size_t i = 0; i < 4; i++) {
        said_t said = run(lines[i]);
        json_t *root = json_of(&said);
        const json_t *sizes = need(json_array_get(need(root, "comparisons"), 0), "sizes");

        ck_assert_int_eq(said.rc, 0);
        times[i] = number(json_array_get(need(json_array_get(sizes, 0), "results"), 0), "time_s");
        json_decref(root);
        said_free(&said);
    }
    ck_assert(times[1] > 1.2 * times[0]); /* 0.72 of the line rate */
    ck_assert(times[2] > 30e-6);          /* launch of Simple, as fitted */
    ck_assert(times[3] < 20e-6);          /* that of LL */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("shapes");
    TCase *cases = tcase_create("all");

    tcase_add_test(cases, verify_valid);
    tcase_add_test(cases, verify_invalid);
    tcase_add_test(cases, verify_malformed);
    tcase_add_test(cases, simulate_run);
    tcase_add_test(cases, simulate_deadlock);
    tcase_add_test(cases, deadlock_depends);
    tcase_add_test(cases, simulate_refused);
    tcase_add_test(cases, run_right);
    tcase_add_test(cases, run_wrong);
    tcase_add_test(cases, device_list);
    tcase_add_test(cases, simulate_flows);
    tcase_add_test(cases, explained);
    tcase_add_test(cases, topologies);
    tcase_add_test(cases, synthesize);
    tcase_add_test(cases, comparison);
    tcase_add_test(cases, comparison_with_program);
    tcase_add_test(cases, demand);
    tcase_add_test(cases, csv);
    tcase_add_test(cases, output_files);
    tcase_add_test(cases, determinism);
    tcase_add_test(cases, measured);
    tcase_add_test(cases, validated);
    tcase_add_test(cases, profiled);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
