/* Every JSON result names a schema that the program has, and passes it: cli.json.shapes and its
 * like hold what they read to it in json_of(); here every kind of result is written at least once.
 */
#include "program.h"
#include "base/json.h"
#include "tests/base/main.h"

#define NONE "--notebook none -j 1"

/* Inputs, then a command for every schema, and for each of its parts that are not always there. Two
 * schemas are of results that need what a test machine lacks, a GPU ("calibrate-device") and rights
 * to make network namespaces ("testbed"): unit.report.schemas holds those. */
static const char *const inputs[] = {
    "synth " PAIR " -c allgather -w ring -o schema.xml",
    "synth " PAIR " -c allgather -w ring -o schema.schedule.json",
    "tune " RAILS " -c allgather --sizes 1M -k with=ring,direct --budget 2runs -j 1 "
    "--notebook schema.db"};
static const char *const commands[] = {
    "schema",
    "algos",
    "algos -t dgx1-v100",
    "balance -t hetccl-snu --speeds nvidia=8,amd=4 --total 96",
    "bound " RAILS " -c allgather,allreduce,broadcast --size 1M",
    "bound " RAILS " -c allgather",
    "calibrate --from-nccl-tests " DATA "/half_rails.log " RAILS " -o schema.profile.json",
    "calibrate " DATA "/programs.csv " PAIR " --hold-out sizes -o schema.profile.json",
    "calibrate --device host -j 1 --repeats 1 --footprints 64K -o schema.host.json",
    "synth " RAILS " -c allgather -w cegis --explain-capacities",
    "compare " RAILS " -c allgather,alltoall --sizes 1K,1M -j 1",
    "devices",
    "diagnose " DATA "/half_rails.log " RAILS,
    "doctor",
    "export -t dgx-a100 -c allreduce --sizes 1M",
    "explain " RAILS " -c allgather --with ring --size 1M --path -j 1",
    "failover " RAILS " -c allgather --sizes 1M --with nccl,ring,hm --kinds nic,gpu -j 1",
    "topology list",
    "lower schema.schedule.json " PAIR " --order step,hpds --granularity stage,task --blocks -j 1",
    "notebook list --notebook schema.db",
    "notebook query 'SELECT id, NULL, settings FROM run' --notebook schema.db",
    "notebook gc --notebook schema.db",
    "run schema.xml --size 64K --repeats 1 --blocks",
    "run " DATA "/deadlock_2.xml --size 64K --repeats 1 --no-verify",
    "simulate schema.xml " PAIR " --size 1M",
    "simulate schema.xml " PAIR " --size 1M --no-verify",
    "sweep " RAILS " -c allgather --sizes 1M --vary fail:gpu:3 -k with=ring --budget 1runs " NONE,
    "topology symmetry dgx-h100 --fail gpu:3",
    "synth " RAILS " -c allgather -w sketch --size 1M -v -o schema.sketch.xml",
    "synth " RAILS " -c allgather -w cegis --size 1M -o schema.cegis.xml",
    "synth " RAILS " -c allreduce -w c2c --clusters 2 --size 1M -o schema.c2c.json",
    "testbed list",
    "topology check dgx1-v100",
    "topology check no-such-cluster",
    "topology show heteccl-h20-4+8",
    "thresholds " RAILS " -c allgather --sizes 512M,1G --export schema.accept",
    "thresholds --check schema.accept " DATA "/half_rails.log",
    "watch " DATA "/inspector.log -t dgx-h100",
    "tune " PAIR " -c allgather --sizes 64K -k with=ring,direct --budget 2runs " NONE
    " --replay host:1 --top 1 --repeats 1",
    "validate --profile " DATA "/host.profile.json --suite " DATA
    "/two.suite --sizes 8K --repeats 1",
    "validate --measured " DATA "/programs.csv " PAIR " --profile none",
    "verify schema.xml",
    "verify " DATA "/half_rails.log"};
enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

START_TEST(every_kind) {
    said_t said = run("schema --json");
    json_t *root = json_of(&said), *all = json_object_get(root, "schemas"), *one;
    char ids[COMMANDS][80];
    size_t k;

    said_free(&said);
    for (size_t i = 0; i < sizeof(inputs) / sizeof(*inputs); i++) {
        said = run(inputs[i]);
        ck_assert_msg(said.rc == 0, "%s: %s", inputs[i], said.err);
        said_free(&said);
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        char line[1000];
        json_t *result;

        snprintf(line, sizeof(line), "%s --json", commands[i]);
        said = run(line);
        ck_assert_msg(said.out[0] == '{', "%s: %s", line, said.err);
        result = json_of(&said);
        ck_assert_msg(json_object_get(result, "schema") != NULL, "no schema: %s", line);
        snprintf(ids[i], sizeof(ids[i]), "%s",
                 json_string_value(json_object_get(result, "schema")));
        json_decref(result);
        said_free(&said);
    }
    json_array_foreach(all, k, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        bool seen = strcmp(name, "calibrate-device") == 0 || strcmp(name, "testbed") == 0;
        char id[80];

        snprintf(id, sizeof(id), "ccllab/%s/1", name);
        for (size_t i = 0; i < COMMANDS; i++)
            seen = seen || strcmp(ids[i], id) == 0;
        ck_assert_msg(seen, "nothing was written as %s", id);
    }
    json_decref(root);
    ck_assert_int_eq(system("rm -f schema.xml schema.schedule.json schema.db* schema.profile.json "
                            "schema.host.json schema.sketch.xml schema.cegis.xml schema.c2c.json"),
                     0);
}
END_TEST

/** The validator itself: each keyword is shown a violation. */
START_TEST(violations) {
    static const struct {
        const char *json, *says;
    } rows[] = {
        {"{\"a\": 1, \"b\": \"x\", \"c\": [1.5, null]}", ""},
        {"{\"a\": 1, \"b\": \"x\", \"c\": [], \"d\": {\"e\": true}}", ""},
        {"[]", "of another type"},
        {"{\"a\": 1.5, \"b\": \"x\", \"c\": []}", "/a: of another type"},
        {"{\"a\": 1, \"b\": \"z\", \"c\": []}", "/b: not one of the schema's words: z"},
        {"{\"a\": 1, \"b\": \"x\"}", "it lacks c"},
        {"{\"a\": 1, \"b\": \"x\", \"c\": [], \"f\": 1}", "/f: the schema does not name it"},
        {"{\"a\": 1, \"b\": \"x\", \"c\": [1, \"2\"]}", "/c/1: of another type"},
        {"{\"a\": 1, \"b\": \"x\", \"c\": [], \"d\": {}}", "/d: it lacks e"}};
    json_t *schema = json_loads(
        "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, "
        "\"b\": {\"type\": \"string\", \"enum\": [\"x\", \"y\"]}, "
        "\"c\": {\"type\": \"array\", \"items\": {\"type\": [\"number\", \"null\"]}}, "
        "\"d\": {\"type\": \"object\", \"properties\": {\"e\": {\"type\": \"boolean\"}}, "
        "\"required\": [\"e\"]}}, \"required\": [\"a\", \"b\", \"c\"]}",
        0, NULL);

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        json_t *value = json_loads(rows[i].json, 0, NULL);
        schema_fault_t fault = {""};

        schema_check(value, schema, "", &fault);
        ck_assert_msg(rows[i].says[0] ? strstr(fault.text, rows[i].says) != NULL : !fault.text[0],
                      "%s: \"%s\", not \"%s\"", rows[i].json, fault.text, rows[i].says);
        json_decref(value);
    }
    json_object_set_new(schema, "oneOf", json_array());
    {
        json_t *value = json_loads(rows[0].json, 0, NULL);
        schema_fault_t fault = {""};

        schema_check(value, schema, "", &fault);
        ck_assert_ptr_nonnull(strstr(fault.text, "unknown keyword oneOf"));
        json_decref(value);
    }
    json_decref(schema);
}
END_TEST

START_TEST(keys_and_names) {
    said_t said = run("schema compare");

    ck_assert_int_eq(said.rc, 0);
    ck_assert_ptr_nonnull(strstr(said.out, "comparisons[].sizes[].results[].time_s "));
    said_free(&said);
    said = run("schema compare --csv");
    ck_assert_ptr_nonnull(strstr(said.out, "\ncomparisons[].sizes[].bound_s,number,s,"));
    said_free(&said);
    said = run("schema no-such-result");
    ck_assert_int_eq(said.rc, 2);
    ck_assert_ptr_nonnull(
        strstr(said.err, "no result is called \"no-such-result\"; there are algos,"));
    said_free(&said);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schemas");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 0);
    tcase_add_test(cases, every_kind);
    tcase_add_test(cases, violations);
    tcase_add_test(cases, keys_and_names);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
