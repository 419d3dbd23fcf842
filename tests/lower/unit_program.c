/* Lowering: shapes of blocks, fused primitives, places of data, rounds, refusals. */
#include "lower/lower_i.h"
#include "tests/base/scarce.h"
#include "tests/synth/common.h"

#define SWITCH4 "servers:1 gpus:4 nvswitch=100GB/s,1us"

static ccl_program_t *lower(const char *spec, const char *name, ccl_collective_kind_t kind,
                            const ccl_lower_options_t *options) {
    ccl_topology_t *topo = topology(spec);
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    synth.channels = 1;
    ck_assert_msg(ccl_synthesize(NULL, name, topo, NULL, want, &synth, &schedule, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_msg(ccl_lower(NULL, schedule, options, &program, &err) == CCL_OK, "%s", err.text);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return program;
}

/* Types of block 0's steps of a rank, "s rcs r". */
static void shape(const ccl_program_t *p, uint32_t rank, char *out, size_t len) {
    const ccl_tb_t *tb = &p->tbs[p->rank_first_tb[rank]];
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < tb->nsteps; i++)
        at += (size_t)snprintf(out + at, len - at, "%s%s", i ? " " : "",
                               ccl_primitive_name(p->steps[tb->first_step + i].type));
}

static const struct {
    const char *name;
    ccl_collective_kind_t kind;
    uint32_t rank, blocks;
    const char *steps;
    const char *why;
} shapes[] = {
    {"ring", CCL_ALLGATHER, 0, 1, "s rcs rcs r", "NCCL's ring AllGather, one block"},
    {"ring", CCL_REDUCESCATTER, 2, 1, "s rrs rrs rrc", "sums are passed on without a write"},
    {"ring", CCL_ALLREDUCE, 1, 1, "s rrs rrs rrcs rcs rcs r",
     "the whole sum is kept and passed on"},
    {"ring", CCL_BROADCAST, 0, 1, "s", "the root of a chain"},
    {"ring", CCL_BROADCAST, 1, 1, "rcs", "the middle of a chain"},
    {"ring", CCL_REDUCE, 2, 1, "rrs", "the middle of a reducing chain writes nothing"},
    {"direct", CCL_ALLGATHER, 0, 6, "s", "three peers, a block each way"},
    {"direct", CCL_BROADCAST, 0, 3, "s", "the root sends to three"},
    {"direct", CCL_BROADCAST, 3, 1, "r", "a leaf receives"},
};

START_TEST(test_shapes) {
    char text[200];
    ccl_program_t *p = lower(SWITCH4, shapes[_i].name, shapes[_i].kind, NULL);
    uint32_t rank = shapes[_i].rank;
    ck_assert_msg(p->rank_first_tb[rank + 1] - p->rank_first_tb[rank] == shapes[_i].blocks,
                  "%s: %u blocks", shapes[_i].why,
                  p->rank_first_tb[rank + 1] - p->rank_first_tb[rank]);
    shape(p, rank, text, sizeof text);
    ck_assert_msg(strcmp(text, shapes[_i].steps) == 0, "%s: %s", shapes[_i].why, text);
    check_program(p, 2, shapes[_i].why);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_no_fuse) {
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    options.no_fuse = true;
    ccl_program_t *p = lower(SWITCH4, "ring", CCL_ALLREDUCE, &options);
    ck_assert_uint_eq(p->ntbs, 8);
    for (uint32_t i = 0; i < p->nsteps; i++)
        ck_assert(
            !(ccl_primitive_sends(p->steps[i].type) && ccl_primitive_receives(p->steps[i].type)));
    check_program(p, 1, "no_fuse");
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_one_slot) {
    /* All blocks of a ring forward: with one slot each they wait for each other. */
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    ccl_program_t *p = lower(SWITCH4, "ring", CCL_ALLGATHER, &options);
    verify.slots = 1;
    ck_assert_int_eq(ccl_program_verify(NULL, p, &verify, verdict, NULL), CCL_OK);
    ck_assert(!verdict->valid);
    ck_assert_str_eq(verdict->fault.kind, "deadlock");
    ccl_program_destroy(p);
    options.slots = 1;
    p = lower(SWITCH4, "ring", CCL_ALLGATHER, &options);
    check_program(p, 1, "one slot");
    uint32_t fused = 0;
    for (uint32_t i = 0; i < p->nsteps; i++)
        fused += p->steps[i].type == CCL_PRIM_RCS;
    ck_assert_uint_ge(fused, 4); /* of 8; only what is needed is taken apart */
    ck_assert_uint_lt(fused, 8);
    ccl_program_destroy(p);
    free(verdict);
}
END_TEST

static const struct {
    const char *transports, *proto;
    uint32_t slots;
    bool no_fuse;
    const char *why;
} fits[] = {
    {"{}", NULL, 2, false, "8 slots by default, but executors have 2"},
    {"{\"nvlink\": {\"slots\": 3}}", NULL, 2, false, "still more than executors have"},
    {"{\"nvlink\": {\"slots\": 1}}", NULL, 1, false, "one slot"},
    {"{\"net\": {\"slots\": 1}}", NULL, 2, false, "no such link here"},
    {"{\"nvlink\": {\"slots\": 4, \"slices\": 4}}", NULL, 1, false, "one primitive fills it"},
    {"{\"nvlink\": {\"slots\": 4, \"slices\": 5}}", NULL, 1, true, "a primitive does not fit"},
    {"{\"nvlink\": {\"protocols\": {\"LL\": {\"slots\": 1}}}}", NULL, 2, false, "only of LL"},
    {"{\"nvlink\": {\"protocols\": {\"LL\": {\"slots\": 1}}}}", "LL", 1, false, "LL it is"},
};

START_TEST(test_fit) {
    char json[1000];
    ccl_topology_t *topo = NULL;
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    options.proto = fits[_i].proto;
    snprintf(json, sizeof json,
             "{\"format\": \"ccllab-topology-1\", \"devices\": ["
             "{\"id\": \"a\", \"kind\": \"gpu\", \"rank\": 0},"
             "{\"id\": \"b\", \"kind\": \"gpu\", \"rank\": 1}], \"links\": [{\"from\": \"a\","
             "\"to\": \"b\", \"kind\": \"nvlink\", \"bandwidth\": \"1GB/s\"}], \"transports\": %s}",
             fits[_i].transports);
    topo = topology_of(json);
    ccl_i_lower_fit(&options, topo);
    ck_assert_msg(options.slots == fits[_i].slots, "%s: %u", fits[_i].why, options.slots);
    ck_assert_msg(options.no_fuse == fits[_i].no_fuse, "%s", fits[_i].why);
    options.slots = 7; /* as the caller says */
    ccl_i_lower_fit(&options, topo);
    ck_assert_uint_eq(options.slots, 7);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_out_of_place) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                                  CCL_ALLTOALL,  CCL_BROADCAST, CCL_REDUCE,
                                                  CCL_GATHER,    CCL_SCATTER,   CCL_SENDRECV};
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    options.out_of_place = true;
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        ccl_program_t *p = lower(SWITCH4, "direct", kinds[k], &options);
        ck_assert(p->out_of_place && !p->in_place);
        for (uint32_t i = 0; i < p->nsteps; i++) {
            const ccl_step_t *s = &p->steps[i];
            bool writes =
                ccl_primitive_receives(s->type) ? s->type != CCL_PRIM_RRS : s->type == CCL_PRIM_CPY;
            ck_assert_msg(!writes || s->dst_buf != CCL_BUF_INPUT, "%s writes its input",
                          p->coll->name);
        }
        check_program(p, 1, p->coll->name);
        ccl_program_destroy(p);
    }
    /* In place: nothing to copy, no scratch. */
    ccl_program_t *p = lower(SWITCH4, "ring", CCL_ALLGATHER, NULL);
    ck_assert(p->in_place && !p->out_of_place);
    for (uint32_t i = 0; i < p->nsteps; i++)
        ck_assert_int_ne(p->steps[i].type, CCL_PRIM_CPY);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert_uint_eq(p->buffer_len[3 * r + CCL_BUF_SCRATCH], 0);
    ccl_program_destroy(p);
}
END_TEST

/* What a GPU copies for itself: in AllToAll its own part of each channel. */
static const struct {
    uint32_t channels, sms, blocks;
    const char *why;
} copies[] = {
    {1, 0, 1, "as much as another block sends"},
    {4, 0, 4, "as much as four others send"},
    {4, 27, 3, "three blocks are left"},
    {4, 25, 1, "one block is left"},
};

START_TEST(test_copies) {
    char spec[100], sms[30] = "";
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    ccl_collective_t *want = collective(CCL_ALLTOALL, 4, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    if (copies[_i].sms)
        snprintf(sms, sizeof sms, " sms=%u", copies[_i].sms);
    snprintf(spec, sizeof spec, SWITCH4 "%s", sms);
    ccl_topology_t *topo = topology(spec);
    options.topo = topo;
    synth.channels = copies[_i].channels;
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", topo, NULL, want, &synth, &schedule, NULL),
                     CCL_OK);
    ccl_program_t *program = NULL;
    ck_assert_msg(ccl_lower(NULL, schedule, &options, &program, &err) == CCL_OK, "%s", err.text);
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t blocks = 0, steps = 0;
        for (uint32_t t = program->rank_first_tb[r]; t < program->rank_first_tb[r + 1]; t++)
            if (program->steps[program->tbs[t].first_step].type == CCL_PRIM_CPY) {
                blocks++;
                steps += program->tbs[t].nsteps;
            }
        ck_assert_msg(blocks == copies[_i].blocks && steps == copies[_i].channels,
                      "%s: rank %u copies %u parts in %u blocks", copies[_i].why, r, steps, blocks);
    }
    check_program(program, 2, copies[_i].why);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_rounds) {
    /* pairwise: from the second round on, a send waits for the round before, both ways. */
    ccl_program_t *p = lower(SWITCH4, "pairwise", CCL_ALLTOALL, NULL);
    uint32_t sends_waiting = 0, nops = 0;
    for (uint32_t i = 0; i < p->nsteps; i++) {
        sends_waiting += p->steps[i].type == CCL_PRIM_S && p->steps[i].dep_tb != CCL_NONE;
        nops += p->steps[i].type == CCL_PRIM_NOP;
    }
    ck_assert_uint_eq(sends_waiting, 4 * 2);
    ck_assert_uint_eq(nops, 4 * 2);
    check_program(p, 1, "pairwise");
    ccl_program_destroy(p);
    p = lower(SWITCH4, "direct", CCL_ALLTOALL, NULL);
    for (uint32_t i = 0; i < p->nsteps; i++)
        ck_assert_uint_eq(p->steps[i].dep_tb, CCL_NONE);
    ccl_program_destroy(p);
}
END_TEST

/* Schedules by hand: AllGather of 3, transfers as src, dst, chunk, step, reduce. */
static ccl_status_t by_hand(const ccl_transfer_t *transfers, uint32_t n, char *text) {
    ccl_schedule_builder_t *b =
        ccl_schedule_builder_create("hand", collective(CCL_ALLGATHER, 3, 0));
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t i = 0; i < n; i++)
        ccl_schedule_builder_add(b, transfers[i]);
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &schedule, &err), CCL_OK);
    ccl_status_t status = ccl_lower(NULL, schedule, NULL, &program, &err);
    strcpy(text, err.text);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    return status;
}

/* Three chunks from 0 to 1, joined: `chunk` and `step` say which lie side by side in one step. */
static const struct {
    uint32_t chunks[3], steps[3];
    uint32_t sends, longest;
    const char *why;
} joins[] = {
    {{0, 1, 2}, {0, 0, 0}, 1, 3, "side by side"},
    {{0, 1, 2}, {0, 0, 1}, 2, 2, "the third in another step"},
    {{0, 1, 3}, {0, 0, 0}, 2, 2, "not side by side"},
    {{1, 0, 2}, {0, 1, 2}, 3, 1, "each in a step of its own"},
};

START_TEST(test_joined) {
    for (int joined = 0; joined < 2; joined++) {
        ccl_collective_t *coll = NULL;
        ccl_schedule_t *schedule = NULL;
        ccl_program_t *p = NULL;
        uint32_t sends = 0, longest = 0;
        MUST(ccl_collective_create(CCL_BROADCAST, 2, 4, 0, &coll, e));
        ccl_schedule_builder_t *b = ccl_schedule_builder_create("joined", coll);
        uint32_t left = 6; /* the fourth chunk comes behind */
        for (uint32_t i = 0; i < 3; i++) {
            left -= joins[_i].chunks[i];
            ccl_schedule_builder_add(b, (ccl_transfer_t){.src = 0,
                                                         .dst = 1,
                                                         .chunk = joins[_i].chunks[i],
                                                         .step = joins[_i].steps[i]});
        }
        ccl_schedule_builder_add(b, (ccl_transfer_t){.src = 0, .dst = 1, .chunk = left, .step = 9});
        MUST(ccl_schedule_builder_finish(b, &schedule, e));
        schedule->joined = joined;
        MUST(ccl_lower(NULL, schedule, NULL, &p, e));
        for (uint32_t i = 0; i < p->nsteps; i++) {
            sends += p->steps[i].type == CCL_PRIM_S;
            longest = p->steps[i].count > longest ? p->steps[i].count : longest;
        }
        ck_assert_msg(sends == (joined ? joins[_i].sends + 1 : 4), "%s: %u", joins[_i].why, sends);
        ck_assert_msg(longest == (joined ? joins[_i].longest : 1), "%s", joins[_i].why);
        check_program(p, 1, joins[_i].why);
        ccl_program_destroy(p);
        ccl_schedule_destroy(schedule);
    }
}
END_TEST

START_TEST(test_refuses) {
    char text[800];
    static const ccl_transfer_t unheld[] = {{.src = 1, .dst = 2, .chunk = 0, .step = 4}};
    static const ccl_transfer_t nothing[] = {{.src = 0, .dst = 1, .chunk = 0, .reduce = 1}};
    ck_assert_int_eq(by_hand(unheld, 1, text), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(text, "rank 1 sends chunk 0"));
    ck_assert_ptr_nonnull(strstr(text, "step 4"));
    ck_assert_int_eq(by_hand(nothing, 1, text), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(text, "rank 1 reduces chunk 0"));
}
END_TEST

START_TEST(test_exchange) {
    /* Recursive doubling of an AllReduce by hand: both of a pair send and receive every chunk in
       one step, so receives must wait for the sends of the old values. Two chunks cross over. */
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 4, 3, 0, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("exchange", coll);
    for (uint32_t step = 0; step < 2; step++) {
        for (uint32_t r = 0; r < 4; r++) {
            for (uint32_t k = 0; k < 3; k++) {
                uint32_t chunk = r % 2 ? k : 2 - k; /* the file's order differs per rank */
                ccl_schedule_builder_add(b, (ccl_transfer_t){.src = r,
                                                             .dst = r ^ (1u << step),
                                                             .chunk = chunk,
                                                             .step = step,
                                                             .reduce = 1});
            }
        }
    }
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &schedule, NULL), CCL_OK);
    for (uint32_t slots = 1; slots <= 2; slots++) {
        ck_assert_int_eq(ccl_lower(NULL, schedule, NULL, &program, NULL), CCL_OK);
        check_program(program, slots, "exchange");
        ccl_program_destroy(program);
    }
    ccl_schedule_destroy(schedule);
}
END_TEST

START_TEST(test_stages_of_spread_channels) {
    /* Sums over relays, connections spread over channels: memory that is used again makes
       operations wait that did not before, and their stages with them. Without that blocks wait in
       a ring. */
    static const char text[] =
        "{\"format\": \"ccllab-demand-1\", \"name\": \"sums\", \"nranks\": 6, \"chunks\": ["
        "{\"source\": [0,1,2,3,5], "
        "\"destinations\": [0,1,2,5], \"bytes\": 161645, \"reduced\": true},"
        "{\"source\": [0,1,4], "
        "\"destinations\": [1,3,4], \"bytes\": 148449, \"reduced\": true},"
        "{\"source\": [0,5], "
        "\"destinations\": [0,1,2,3], \"bytes\": 223059, \"reduced\": true},"
        "{\"source\": [0,1,2,4,5], "
        "\"destinations\": [1,2,3], \"bytes\": 28325, \"reduced\": true},"
        "{\"source\": [1,3,4,5], "
        "\"destinations\": [0], \"bytes\": 297412, \"reduced\": true},"
        "{\"source\": [0,1,2,3,5], "
        "\"destinations\": [0,1,2,3,4], \"bytes\": 0, \"reduced\": true},"
        "{\"source\": [0,1,3,4], "
        "\"destinations\": [0,1,3,4], \"bytes\": 140466, \"reduced\": true},"
        "{\"source\": [1,2], "
        "\"destinations\": [3,4,5], \"bytes\": 223703, \"reduced\": true}]}";
    ccl_topology_t *topo =
        topology("servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us fabric=rail");
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t how = CCL_LOWER_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_demand_read_text("sums", text, strlen(text), &want, &err) == CCL_OK, "%s",
                  err.text);
    synth.chunks = 3;
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", topo, NULL, want, &synth, &schedule, &err),
                     CCL_OK);
    how.granularity = CCL_GRANULARITY_STAGE;
    how.allocation = CCL_ALLOCATE_CAPACITY;
    how.topo = topo;
    how.size_bytes = 1 << 20;
    ck_assert_msg(ccl_lower(NULL, schedule, &how, &program, &err) == CCL_OK, "%s", err.text);
    check_program(program, 2, "sums");
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Schedules of large clusters have millions of transfers: what each of them costs until it is
   two primitives, these of 36 bytes included. */
START_TEST(test_memory) {
    ccl_topology_t *topo = topology("dgx-h100*16");
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t how = CCL_LOWER_OPTIONS_INIT;
    struct rlimit before;
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* what is freed is no room for what comes */
    ck_assert_int_eq(ccl_synthesize(NULL, "recursive", topo, NULL, want, &synth, &schedule, &err),
                     CCL_OK);
    before = scarce_begin(160 * (size_t)schedule->ntransfers); /* 240 was too little once */
    ccl_status_t status = ccl_lower(NULL, schedule, &how, &program, &err);
    scarce_end(before);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.lower");
    TCase *tcase = tcase_create("lower");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_shapes, 0, (int)CCL_ARRAY_LEN(shapes));
    tcase_add_test(tcase, test_no_fuse);
    tcase_add_test(tcase, test_one_slot);
    tcase_add_loop_test(tcase, test_fit, 0, (int)CCL_ARRAY_LEN(fits));
    tcase_add_test(tcase, test_out_of_place);
    tcase_add_loop_test(tcase, test_copies, 0, (int)CCL_ARRAY_LEN(copies));
    tcase_add_test(tcase, test_rounds);
    tcase_add_loop_test(tcase, test_joined, 0, (int)CCL_ARRAY_LEN(joins));
    tcase_add_test(tcase, test_refuses);
    tcase_add_test(tcase, test_stages_of_spread_channels);
    tcase_add_test(tcase, test_exchange);
    if (SCARCE_MEMORY)
        tcase_add_test(tcase, test_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
