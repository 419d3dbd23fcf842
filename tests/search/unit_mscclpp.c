/* Plans for MSCCL++: an executor of their operations, written from MSCCL++'s own, comes to what the
 * collective wants; and it finds a plan wrong that lacks a signal. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/search/mscclpp_exec.h"
#include "tests/search/mscclpp_rules.h"
#include "tests/topologies/topologies.h"

/* Read back, a plan is a program that is right, and the plan of that program reads to the same. */
static void check_round_trip(const ccl_text_t *text, const ccl_program_t *from,
                             const ccl_topology_t *topo, bool widened) {
    ccl_program_t *program = NULL, *again = NULL;
    ccl_text_t more = {0};
    ccl_verdict_t result;
    ck_assert(ccl_program_is_mscclpp(text->data, text->len));
    MUST(ccl_program_read_mscclpp("plan", text->data, text->len, &program, e));
    MUST(ccl_program_verify(NULL, program, NULL, &result, e));
    ck_assert_msg(result.valid, "%s", result.fault.text);
    ck_assert(ccl_collective_equal(program->coll, from->coll));
    if (!widened) {
        ck_assert_uint_eq(program->ntbs, from->ntbs);
        ck_assert_uint_eq(program->nsteps, from->nsteps);
    }
    ck_assert_uint_eq(program->ngroups > 0, from->ngroups > 0);
    MUST(ccl_program_write_mscclpp(program, topo, &more, e));
    MUST(ccl_program_read_mscclpp("plan", more.data, more.len, &again, e));
    ck_assert(ccl_program_equal(program, again));
    ccl_program_destroy(program);
    ccl_program_destroy(again);
    ccl_text_fini(&more);
}

#define PLAIN "servers:2 gpus:2 nvswitch=300GB/s nics:2x25GB/s"
#define NVLS "servers:1 gpus:4 nvswitch=100GB/s,nvls"
static const struct {
    const char *cluster;
    ccl_collective_kind_t kind;
    const char *with;
    uint32_t channels;
    bool out_of_place;
    const char *proto; /* NULL: Simple */
} ROWS[] = {
    {PLAIN, CCL_ALLGATHER, "ring", 2, false, NULL},
    {PLAIN, CCL_ALLREDUCE, "ring", 1, false, NULL},
    {PLAIN, CCL_ALLREDUCE, "ring", 2, true, NULL},
    {PLAIN, CCL_REDUCESCATTER, "hm", 1, false, NULL},
    {PLAIN, CCL_ALLTOALL, "direct", 1, false, NULL},
    {PLAIN, CCL_BROADCAST, "tree", 1, false, NULL},
    {PLAIN, CCL_ALLREDUCE, "recursive", 1, false, NULL},
    {PLAIN, CCL_ALLREDUCE, "hm", 1, false, NULL},
    {NVLS, CCL_ALLREDUCE, "nvls", 1, false, NULL},
    {NVLS, CCL_ALLREDUCE, "nvls", 2, true, NULL},
    {NVLS, CCL_ALLGATHER, "nvls", 2, false, NULL},
    {NVLS, CCL_ALLGATHER, "nvls", 1, true, NULL},
    {NVLS, CCL_BROADCAST, "nvls", 1, true, NULL},
    {NVLS, CCL_ALLREDUCE, "nvls-pull", 2, false, NULL},
    {NVLS, CCL_ALLGATHER, "nvls-pull", 1, false, NULL},
    {"servers:1 gpus:9 nvswitch=100GB/s", CCL_ALLREDUCE, "ring", 1, false,
     NULL}, /* > 64 operations */
    {"servers:1 gpus:9 nvswitch=100GB/s,nvls", CCL_ALLREDUCE, "nvls", 1, false, NULL},
    {"servers:1 gpus:10 nvswitch=100GB/s,nvls", CCL_ALLREDUCE, "nvls", 1, false,
     NULL}, /* > 16 channels */
    {PLAIN, CCL_ALLREDUCE, "ring", 2, true, "LL"},
    {PLAIN, CCL_ALLREDUCE, "recursive", 1, false, "LL"},
    {PLAIN, CCL_ALLGATHER, "hm", 1, false, "LL"},
    {PLAIN, CCL_REDUCESCATTER, "ring", 1, true, "LL"},
    {PLAIN, CCL_ALLTOALL, "direct", 1, true, "LL"},
    {PLAIN, CCL_BROADCAST, "tree", 1, false, "LL"}, /* becomes Simple */
    {"servers:1 gpus:9 nvswitch=100GB/s", CCL_ALLREDUCE, "ring", 1, false, "LL"},
    /* packets made where a block of 64 operations would end */
    {"servers:2 gpus:16 nvswitch=100GB/s nics:1x25GB/s", CCL_ALLGATHER, "ring", 1, false, "LL"}};

/* The last signal, or packets, of the first block. */
static void drop_signal(json_t *plan, bool packets) {
    json_t *ops = json_object_get(
        json_array_get(
            json_object_get(json_array_get(json_object_get(plan, "gpus"), 0), "threadblocks"), 0),
        "ops");
    for (size_t i = json_array_size(ops); i-- > 0;)
        if (strstr(word(json_array_get(ops, i), "name"), packets ? "pkt" : "signal")) {
            json_array_remove(ops, i);
            break;
        }
}

START_TEST(test_runs) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    synth.channels = ROWS[_i].channels;
    synth.size_bytes = 64e6;
    lower.out_of_place = ROWS[_i].out_of_place;
    if (ROWS[_i].proto)
        lower.proto = ROWS[_i].proto;
    topo = topology(ROWS[_i].cluster);
    bool switches = strstr(ROWS[_i].with, "nvls") != NULL;
    bool widens = strcmp(ROWS[_i].with, "nvls-pull") == 0 || /* own parts join the groups */
                  strstr(ROWS[_i].cluster, "gpus:10");       /* helpers */
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_int_eq(ccl_collective_create(ROWS[_i].kind, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ck_assert_msg(
        ccl_synthesize(NULL, ROWS[_i].with, topo, routes, want, &synth, &schedule, &err) == CCL_OK,
        "%s", err.text);
    ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, &err), CCL_OK);
    for (int servers = 0; servers < 2; servers++) {
        json_error_t where;
        ccl_text_fini(&text);

        ck_assert_msg(ccl_program_write_mscclpp(program, servers ? topo : NULL, &text, &err) ==
                          CCL_OK,
                      "%s", err.text);
        json_t *plan = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
        ck_assert_msg(plan != NULL, "%d: %s", where.line, where.text);
        char why[300];
        ck_assert_msg(keeps_rules(plan, 0, 0, why), "%s", why);
        ck_assert(comes_right(plan, program->coll, false));
        ck_assert(comes_right(plan, program->coll, true));
        ck_assert_int_eq(strstr(text.data, "\"port\"") != NULL, servers && topo->nservers > 1);
        ck_assert_int_eq(strstr(text.data, "\"switch\"") != NULL, switches);
        check_round_trip(&text, program, servers ? topo : NULL, widens);
        /* A signal that is missing is missed, or packets. */
        drop_signal(plan, strstr(text.data, "\"LL\"") != NULL);
        ck_assert(!comes_right(plan, program->coll, false));
        json_decref(plan);
    }
    ccl_text_fini(&text);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* What MSCCL++'s executor cannot do is refused, and it says what. */
/* Blocks of more than 64 operations go on in others, on the same channels, which must not go ahead:
 * here relays would wait for ever. */
START_TEST(test_rests) {
    ccl_topology_t *topo = topology("teccl-ndv2-4x8");
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL, *read = NULL;
    ccl_verdict_t result;
    ccl_text_t text = {0};
    MUST(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, e));
    MUST(ccl_synthesize(NULL, "direct", topo, routes, want, &synth, &schedule, e));
    MUST(ccl_lower(NULL, schedule, &lower, &program, e));
    MUST(ccl_program_write_mscclpp(program, topo, &text, e));
    MUST(ccl_program_read_mscclpp("plan", text.data, text.len, &read, e));
    MUST(ccl_program_verify(NULL, read, NULL, &result, e));
    ck_assert_msg(result.valid, "%s", result.fault.text);
    ccl_text_fini(&text);
    ccl_program_destroy(read);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

static const struct {
    const char *cluster, *with;
    ccl_collective_kind_t kind;
    const char *why;
} REFUSED[] = {
    {NVLS, "nvls", CCL_REDUCESCATTER, "has no pull alone"},
    {"dgx-h100-sharp-4", "collnet", CCL_ALLGATHER, "switches between servers"},
};

START_TEST(test_refused) {
    ccl_topology_t *topo = topology(REFUSED[_i].cluster);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    synth.channels = 1;
    synth.size_bytes = 1e6;
    MUST(ccl_collective_create(REFUSED[_i].kind, topo->nranks, 1, 0, &want, e));
    MUST(ccl_synthesize(NULL, REFUSED[_i].with, topo, routes, want, &synth, &schedule, e));
    MUST(ccl_lower(NULL, schedule, NULL, &program, e));
    ck_assert_int_eq(ccl_program_write_mscclpp(program, topo, &text, &err), CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, REFUSED[_i].why) != NULL, "%s", err.text);
    ccl_text_fini(&text);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Plans that are read, and faults of them: a piece of the plan, what stands there instead, the
 * line. */
#define CHANNELS "\"channels\": [{\"channel_type\": \"memory\", \"channel_ids\": [0]}, "
static const char PLAN[] = "{\"name\": \"p\", \"collective\": \"allreduce\", \"protocol\": "
                           "\"Simple\", \"inplace\": true,\n"
                           "\"max_message_size\": 18446744073709551615, \"gpus\": [\n"
#define GPU(id_, peer_)                                                                            \
    "{\"id\": " id_ ", \"input_chunks\": 2, \"output_chunks\": 2, \"scratch_chunks\": 0,\n"        \
    "\"threadblocks\": [{\"id\": 0, \"ops\": [\n"                                                  \
    "{\"name\": \"rlxsignal\", \"channel_ids\": [0], \"channel_type\": \"memory\"},\n"             \
    "{\"name\": \"rlxwait\", \"channel_ids\": [0], \"channel_type\": \"memory\"}, {\"name\": "     \
    "\"nop\"},\n"                                                                                  \
    "{\"name\": \"glres\", \"src_buff\": [{\"switch_channel_id\": 0, \"index\": " id_              \
    ", \"size\": 1}],\n"                                                                           \
    "\"dst_buff\": [{\"switch_channel_id\": 0, \"index\": " id_ ", \"size\": 1}],\n"               \
    "\"channel_type\": \"switch\", \"reduce_op\": \"sum\"},\n"                                     \
    "{\"name\": \"rlxsignal\", \"channel_ids\": [0], \"channel_type\": \"memory\"},\n"             \
    "{\"name\": \"rlxwait\", \"channel_ids\": [0], \"channel_type\": \"memory\"}],\n" CHANNELS     \
    "{\"channel_type\": \"switch\", \"channel_ids\": [0]}], \"remote_buffer_refs\": []}],\n"       \
    "\"channels\": [{\"channel_type\": \"memory\", \"connected_to\": [" peer_ "]},\n"              \
    "{\"channel_type\": \"switch\", \"buffer_type\": \"i\", \"rank_groups\": [{\"size\": 2, "      \
    "\"ranks\": [0, 1]}]}],\n\"remote_buffers\": [], \"semaphores\": []}"
    GPU("0", "1") ",\n" GPU("1", "0") "]}";
static const struct {
    const char *from, *to;
    int line;
    const char *why;
} BAD[] = {
    {"rlxwait", "rlxwate", 6, "no operation"},
    {"{\"name\": \"nop\"}", "{\"name\": \"get\"}", 6, "get is not read"},
    {"{\"name\": \"nop\"}", "{\"name\": \"upkt\"}", 6, "packets are for the protocol LL"},
    {"\"reduce_op\": \"sum\"", "\"reduce_op\": \"max\"", 9, "add only"},
    {"\"channel_ids\": [0]", "\"channel_ids\": [1]", 5, "channels of this type"},
    {"\"index\": 0, \"size\": 1", "\"index\": 0, \"size\": 9", 7, "GPU 0 has 2 there"},
    {"\"inplace\": true", "\"inplace\": 1", 1, "true"},
    {"\"Simple\"", "\"LL128\"", 1, "Simple or LL"},
    {"allreduce", "allreduced", 1, "no collective"},
    {"\"ranks\": [0, 1]", "\"ranks\": [1]", 14, "not in the group"},
    {"\"connected_to\": [1]", "\"connected_to\": [0]", 13, "to itself"},
    {"rlxsignal", "rlxwait", 6, "waits for ever"},
};

START_TEST(test_read) {
    ccl_program_t *program = NULL;
    ccl_verdict_t verdict;
    MUST(ccl_program_read_mscclpp("plan", PLAN, strlen(PLAN), &program, e));
    MUST(ccl_program_verify(NULL, program, NULL, &verdict, e));
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    ck_assert_uint_eq(program->ngroups, 1);
    ck_assert(program->max_bytes == 0);
    ccl_program_destroy(program);
    for (size_t i = 0; i < CCL_ARRAY_LEN(BAD); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        char text[4000];
        const char *at = strstr(PLAN, BAD[i].from);
        ck_assert_ptr_nonnull(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - PLAN), PLAN, BAD[i].to,
                 at + strlen(BAD[i].from));
        ck_assert_int_eq(ccl_program_read_mscclpp("plan", text, strlen(text), &program, &err),
                         CCL_ERR_INPUT);
        ck_assert_ptr_null(program);
        ck_assert_msg(strstr(err.text, BAD[i].why) && err.line == BAD[i].line && err.column > 0,
                      "%s: %d:%d: %s", BAD[i].why, err.line, err.column, err.text);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("mscclpp");
    TCase *t = tcase_create("mscclpp");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_rests);
    tcase_add_loop_test(t, test_runs, 0, CCL_ARRAY_LEN(ROWS));
    tcase_add_test(t, test_read);
    tcase_add_loop_test(t, test_refused, 0, CCL_ARRAY_LEN(REFUSED));
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
