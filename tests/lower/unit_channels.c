/* Lowering options: stages, channels by capacity, executors' limits, limits of a GPU. */
#include "tests/synth/common.h"

typedef struct made {
    ccl_topology_t *topo;
    ccl_schedule_t *schedule;
    ccl_program_t *program;
} made_t;

static made_t make(const char *spec, const char *name, ccl_collective_kind_t kind,
                   uint32_t channels) {
    made_t m = {.topo = topology(spec)};
    ccl_collective_t *want = collective(kind, m.topo->nranks, 0);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    synth.channels = channels;
    ck_assert_msg(ccl_synthesize(NULL, name, m.topo, NULL, want, &synth, &m.schedule, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    return m;
}

static void lower(made_t *m, ccl_lower_options_t *options) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_destroy(m->program);
    m->program = NULL;
    options->topo = m->topo;
    ck_assert_msg(ccl_lower(NULL, m->schedule, options, &m->program, &err) == CCL_OK, "%s",
                  err.text);
}

static void done(made_t *m) {
    ccl_program_destroy(m->program);
    ccl_schedule_destroy(m->schedule);
    ccl_topology_destroy(m->topo);
}

static uint32_t stages_of(const ccl_program_t *p) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->nsteps; i++)
        most = p->steps[i].stage > most ? p->steps[i].stage : most;
    return most + 1;
}

static uint32_t most_steps(const ccl_program_t *p) {
    uint32_t most = 0;
    for (uint32_t t = 0; t < p->ntbs; t++)
        most = p->tbs[t].nsteps > most ? p->tbs[t].nsteps : most;
    return most;
}

static double time_of(const made_t *m, ccl_granularity_t granularity, double size_bytes) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = size_bytes;
    options.granularity = granularity;
    ck_assert_msg(ccl_sim_program(NULL, m->topo, NULL, m->program, &options, &result, &err) ==
                      CCL_OK,
                  "%s", err.text);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    return time_s;
}

/* ResCCL (SIGCOMM 2025), table 3: thread blocks per GPU of MSCCL's hierarchical mesh. */
static const struct {
    const char *spec;
    uint32_t blocks;
} table3[] = {
    {"resccl-topo1", 14}, {"resccl-topo2", 30}, {"resccl-topo3", 14}, {"resccl-topo4", 30}};

START_TEST(test_stages_of_hm) {
    static const struct {
        ccl_collective_kind_t kind;
        uint32_t stages;
        const char *why;
    } rows[] = {{CCL_ALLREDUCE, 3, "reduce inside; the network both ways; gather inside"},
                {CCL_ALLGATHER, 2, "own chunks inside and out; what comes in"},
                {CCL_REDUCESCATTER, 2, "reduce inside, then to the network and own chunks"}};
    for (size_t k = 0; k < CCL_ARRAY_LEN(rows); k++) {
        made_t m = make(table3[_i].spec, "hm", rows[k].kind, 1);
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        options.granularity = CCL_GRANULARITY_STAGE;
        lower(&m, &options);
        ck_assert_msg(stages_of(m.program) == rows[k].stages, "%s: %u", rows[k].why,
                      stages_of(m.program));
        for (uint32_t t = 0; t < m.program->ntbs; t++) {
            const ccl_tb_t *tb = &m.program->tbs[t];
            for (uint32_t i = 1; i < tb->nsteps; i++)
                ck_assert_uint_ge(m.program->steps[tb->first_step + i].stage,
                                  m.program->steps[tb->first_step + i - 1].stage);
        }
        for (uint32_t r = 0; rows[k].kind != CCL_REDUCESCATTER && r < m.topo->nranks; r++)
            ck_assert_uint_eq(ccl_program_rank_blocks(m.program, r, CCL_GRANULARITY_STAGE),
                              table3[_i].blocks);
        /* For an executor the same blocks, on channels of their own, and no stages. */
        double time_s = time_of(&m, CCL_GRANULARITY_STAGE, 64 << 20);
        options.executor = CCL_EXECUTOR_MSCCL;
        lower(&m, &options);
        ck_assert_uint_eq(stages_of(m.program), 1);
        for (uint32_t r = 0; rows[k].kind != CCL_REDUCESCATTER && r < m.topo->nranks; r++)
            ck_assert_uint_eq(m.program->rank_first_tb[r + 1] - m.program->rank_first_tb[r],
                              table3[_i].blocks);
        double blocks_s = time_of(&m, CCL_GRANULARITY_ALGORITHM, 64 << 20);
        ck_assert_msg(blocks_s < time_s * 1.02, "%g s, %g s at stage level", blocks_s, time_s);
        done(&m);
    }
}
END_TEST

START_TEST(test_stages_by_phase) {
    /* A ring over servers goes in and out many times: two phases instead. */
    made_t m =
        make("servers:6 gpus:2 nvswitch=300GB/s,1us nics:1x25GB/s,2us", "ring", CCL_ALLREDUCE, 1);
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    options.granularity = CCL_GRANULARITY_STAGE;
    lower(&m, &options);
    ck_assert_uint_eq(stages_of(m.program), 2);
    options.stages = CCL_STAGES_PHASE;
    ccl_program_t *automatic = m.program;
    m.program = NULL;
    lower(&m, &options);
    ck_assert(ccl_program_equal(automatic, m.program));
    ccl_program_destroy(automatic);
    /* Nothing is passed on across two stages in one primitive: the sum is kept, then sent. */
    for (uint32_t i = 0; i < m.program->nsteps; i++)
        ck_assert_int_ne(m.program->steps[i].type, CCL_PRIM_RRCS);
    done(&m);
}
END_TEST

START_TEST(test_rank_blocks) {
    /* Stages in any order count once; an empty block counts. */
    static const uint16_t stages[] = {2, 0, 2, 1, 0, 1};
    ccl_collective_t *coll = collective(CCL_ALLGATHER, 2, 0);
    ccl_program_builder_t *b = ccl_program_builder_create("p", coll, 2, "Simple");
    ccl_program_t *p = NULL;
    uint32_t tb = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    for (size_t i = 0; i < CCL_ARRAY_LEN(stages); i++)
        ccl_program_builder_step(b, tb,
                                 (ccl_step_t){.type = CCL_PRIM_NOP,
                                              .stage = stages[i],
                                              .dep_tb = CCL_NONE,
                                              .dep_step = CCL_NONE});
    ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
    ck_assert_int_eq(ccl_program_builder_finish(b, &p, NULL), CCL_OK);
    ck_assert_uint_eq(ccl_program_rank_blocks(p, 0, CCL_GRANULARITY_STAGE), 4);
    ck_assert_uint_eq(ccl_program_rank_blocks(p, 0, CCL_GRANULARITY_ALGORITHM), 2);
    ck_assert_uint_eq(ccl_program_rank_blocks(p, 1, CCL_GRANULARITY_STAGE), 0);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_executor_ring) {
    /* 126 transfers a connection: two blocks of MSCCL and RCCL, one of the old MSCCL. */
    made_t m =
        make("servers:8 gpus:8 nvswitch=300GB/s,1us nics:8x25GB/s,2us", "ring", CCL_ALLREDUCE, 4);
    for (uint32_t e = CCL_EXECUTOR_ANY; e <= CCL_EXECUTOR_MSCCL_OLD; e++) {
        bool cut = e == CCL_EXECUTOR_MSCCL || e == CCL_EXECUTOR_RCCL;
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
        ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
        options.executor = (ccl_executor_t)e;
        lower(&m, &options);
        verify.executor = (ccl_executor_t)e;
        ck_assert_int_eq(ccl_program_verify(NULL, m.program, &verify, verdict, NULL), CCL_OK);
        ck_assert_msg(verdict->valid, "%s", verdict->fault.text);
        ck_assert_uint_eq(m.program->nchannels, cut ? 8 : 4);
        ck_assert_uint_eq(m.program->ntbs, (cut ? 8 : 4) * 64);
        ck_assert_uint_le(most_steps(m.program), cut ? 64 : 127);
        uint32_t fused = 0; /* blocks go on forwarding: 2 (n - 1) - 1 of a chunk's transfers */
        for (uint32_t i = 0; i < m.program->nsteps; i++)
            fused += ccl_primitive_sends(m.program->steps[i].type) &&
                     ccl_primitive_receives(m.program->steps[i].type);
        ck_assert_uint_ge(fused, 4 * 64 * (cut ? 124 : 125));
        free(verdict);
    }
    done(&m);
}
END_TEST

static const struct {
    const char *spec, *name;
    ccl_collective_kind_t kind;
    uint32_t channels;
    ccl_executor_t executor;
    ccl_allocation_t allocation;
    const char *text;
} refusals[] = {
    {"servers:1 gpus:64 nvswitch=300GB/s,1us", "direct", CCL_ALLGATHER, 1, CCL_EXECUTOR_RCCL,
     CCL_ALLOCATE_CONNECTION, "direct: rank 0 has 126 blocks: rccl takes at most 64"},
    {"servers:8 gpus:8 nvswitch=300GB/s,1us nics:8x25GB/s,2us", "ring", CCL_ALLREDUCE, 32,
     CCL_EXECUTOR_MSCCL, CCL_ALLOCATE_CONNECTION,
     "ring: rank 0 has more to send to rank 1 than 32 channels of msccl, with blocks of 64 steps, "
     "can hold"},
    {"resccl-topo1", "hm", CCL_ALLREDUCE, 16, CCL_EXECUTOR_ANY, CCL_ALLOCATE_CONNECTION,
     "hm: rank 0 needs 128 thread blocks; its A100 has room for 108"},
    {"resccl-topo1", "hm", CCL_ALLREDUCE, 1, CCL_EXECUTOR_MSCCL, CCL_ALLOCATE_STATE,
     "lowering: state allocation makes blocks that connections share; msccl runs none: take "
     "another allocation"},
};

START_TEST(test_refusals) {
    made_t m = make(refusals[_i].spec, refusals[_i].name, refusals[_i].kind, refusals[_i].channels);
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    options.topo = m.topo;
    options.executor = refusals[_i].executor;
    options.allocation = refusals[_i].allocation;
    ck_assert_int_eq(ccl_lower(NULL, m.schedule, &options, &m.program, &err), CCL_UNSUPPORTED);
    ck_assert_str_eq(err.text, refusals[_i].text);
    done(&m);
}
END_TEST

START_TEST(test_bad_options) {
    made_t m = make("resccl-topo1", "hm", CCL_ALLGATHER, 1);
    ccl_topology_t *other = topology("resccl-topo2");
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    options.allocation = CCL_ALLOCATE_CAPACITY;
    ck_assert_int_eq(ccl_lower(NULL, m.schedule, &options, &m.program, &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "lowering: this allocation needs a topology");
    err = (ccl_error_t)CCL_ERROR_INIT;
    options.allocation = CCL_ALLOCATE_CONNECTION;
    options.granularity = CCL_GRANULARITY_STAGE;
    ck_assert_int_eq(ccl_lower(NULL, m.schedule, &options, &m.program, &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "lowering: cutting into stages needs a topology");
    err = (ccl_error_t)CCL_ERROR_INIT;
    options.stages = CCL_STAGES_PHASE; /* needs none */
    ck_assert_int_eq(ccl_lower(NULL, m.schedule, &options, &m.program, &err), CCL_OK);
    ccl_program_destroy(m.program);
    m.program = NULL;
    options.topo = other;
    ck_assert_int_eq(ccl_lower(NULL, m.schedule, &options, &m.program, &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "the schedule has 8 ranks, the topology 16");
    options.topo = m.topo;
    options.size_bytes = -1;
    ck_assert_int_eq(ccl_lower(NULL, m.schedule, &options, &m.program, &err), CCL_ERR_INPUT);
    ccl_topology_destroy(other);
    done(&m);
}
END_TEST

/* Channels of the connections of rank 0 to `dst` and back, as a program has them. */
static uint32_t channels_to(const ccl_program_t *p, uint32_t dst) {
    uint32_t n = 0;
    for (uint32_t t = p->rank_first_tb[0]; t < p->rank_first_tb[1]; t++)
        n += p->tbs[t].send_peer == dst;
    return n;
}

START_TEST(test_capacity) {
    /* NVLink beside the network: many times faster, but a block moves 24 GB/s. */
    made_t m = make("resccl-topo1", "hm", CCL_ALLREDUCE, 1);
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    lower(&m, &options);
    double plain_s = time_of(&m, CCL_GRANULARITY_ALGORITHM, 256 << 20);
    ck_assert_uint_eq(channels_to(m.program, 1), 1);
    options.allocation = CCL_ALLOCATE_CAPACITY;
    lower(&m, &options);
    /* As many as the connection has transfers; the network, the slowest, keeps one. */
    ck_assert_uint_eq(channels_to(m.program, 1), 4);
    ck_assert_uint_eq(channels_to(m.program, 4), 1);
    double spread_s = time_of(&m, CCL_GRANULARITY_ALGORITHM, 256 << 20);
    ck_assert_msg(spread_s < 0.65 * plain_s, "%g s, %g s on one channel", spread_s, plain_s);
    done(&m);
}
END_TEST

/* Eight chunks of rank 1 over rank 0 to rank 2. */
static ccl_schedule_t *to_and_fro(void) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *out = NULL;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 3, 8, 0, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("s", coll);
    for (uint32_t j = 0; j < 8; j++) { /* b -> a -> c */
        ccl_schedule_builder_add(b, (ccl_transfer_t){1, 0, 8 + j, 0, 0, 0, 0});
        ccl_schedule_builder_add(b, (ccl_transfer_t){0, 2, 8 + j, 1, 0, 0, 0});
    }
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &out, NULL), CCL_OK);
    return out;
}

/* Of two routes that are alike the schedule chose one by its channel: so do all that it becomes. */
START_TEST(test_capacity_routes) {
    ccl_topology_builder_t *b = with_gpus("t", 3);
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    made_t m = {0};
    uint32_t blocks = 0;
    add_duplex(b, 0, 1, "nvlink", 100, 0);
    add_duplex(b, 0, 1, "nvlink", 100, 0);
    add_duplex(b, 0, 2, "net", 10, 0);
    m.topo = finish(b);
    m.schedule = to_and_fro();
    options.allocation = CCL_ALLOCATE_CAPACITY;
    options.no_fuse = true;
    options.size_bytes = 1 << 20;
    lower(&m, &options);
    ccl_routes_t *routes = ccl_routes_create(m.topo);
    ck_assert_uint_eq(ccl_routes_width(routes, 1, 0), 2);
    const ccl_route_t *first = NULL, *route = NULL;
    ck_assert_int_eq(ccl_routes_get(routes, 1, 0, 0, &first, NULL), CCL_OK);
    for (uint32_t t = m.program->rank_first_tb[1]; t < m.program->rank_first_tb[2]; t++) {
        blocks += m.program->tbs[t].send_peer == 0;
        ck_assert_int_eq(ccl_routes_get(routes, 1, 0, m.program->tbs[t].channel, &route, NULL),
                         CCL_OK);
        ck_assert_uint_eq(route->links[0], first->links[0]);
    }
    ck_assert_uint_eq(blocks, 8);
    ccl_routes_destroy(routes);
    done(&m);
}
END_TEST

/* Lanes are those of a route's narrowest link. One of 24 GB/s is two times as fast as the network;
   four of 6 GB/s are slower each, and ask for a channel each. */
START_TEST(test_capacity_lanes) {
    for (uint32_t lanes = 1; lanes <= 4; lanes += 3) {
        ccl_topology_builder_t *b = with_gpus("t", 3);
        uint32_t sw = add_device(b, "s", CCL_DEVICE_SWITCH, NULL, CCL_NONE), blocks = 0;
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        made_t m = {0};
        MUST(ccl_topology_builder_duplex(b, 1, sw, "nvlink", 100e9, 0, 1, 0, e));
        MUST(ccl_topology_builder_duplex(b, sw, 0, "nvlink", 24e9, 0, lanes, 0, e));
        add_duplex(b, 0, 2, "net", 10, 0);
        m.topo = finish(b);
        m.schedule = to_and_fro();
        options.allocation = CCL_ALLOCATE_CAPACITY;
        options.no_fuse = true;
        options.size_bytes = 1 << 30; /* latencies do not count */
        lower(&m, &options);
        for (uint32_t t = m.program->rank_first_tb[1]; t < m.program->rank_first_tb[2]; t++)
            blocks += m.program->tbs[t].send_peer == 0;
        ck_assert_uint_eq(blocks, lanes == 1 ? 2 : 4);
        done(&m);
    }
}
END_TEST

START_TEST(test_capacity_limits) {
    static const struct {
        const char *nvlink; /* of the transport of that name */
        uint32_t sms, channels;
        const char *why;
    } rows[] = {
        /* 8 chunks each way, 100 / 10 GB/s, no latencies: C = 10, 8 transfers. */
        {"{}", 0, 8, "as many as there are transfers"},
        {"{\"tb_rate\": \"30GB/s\"}", 0, 4, "four blocks fill the link"},
        {"{\"latency\": \"1ms\"}", 0, 1, "its latency makes it the slowest kind"},
        {"{}", 7, 6, "five blocks beyond one an end are to be shared out"},
        {"{}", 3, 2, "one is"},
        {"{}", 2, 1, "none is"},
    };
    for (size_t k = 0; k < CCL_ARRAY_LEN(rows); k++) {
        char json[2000], sms[40] = "";
        made_t m = {0};
        ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
        if (rows[k].sms)
            snprintf(sms, sizeof sms, "{\"sms\": %u}", rows[k].sms);
        snprintf(json, sizeof json,
                 "{\"format\": \"ccllab-topology-1\", \"devices\": ["
                 "{\"id\": \"a\", \"kind\": \"gpu\", \"rank\": 0, \"model\": \"G\"},"
                 "{\"id\": \"b\", \"kind\": \"gpu\", \"rank\": 1, \"model\": \"G\"},"
                 "{\"id\": \"c\", \"kind\": \"gpu\", \"rank\": 2, \"model\": \"G\"}], \"links\": ["
                 "{\"from\": \"a\", \"to\": \"b\", \"kind\": \"nvlink\","
                 " \"bandwidth\": \"100GB/s\"},"
                 "{\"from\": \"a\", \"to\": \"c\", \"kind\": \"net\", \"bandwidth\": \"10GB/s\"}],"
                 "\"transports\": {\"nvlink\": %s}, \"gpu_models\": {\"G\": %s}}",
                 rows[k].nvlink, *sms ? sms : "{}");
        m.topo = topology_of(json);
        m.schedule = to_and_fro();
        options.allocation = CCL_ALLOCATE_CAPACITY;
        options.no_fuse = true;
        options.size_bytes = 1 << 20;
        lower(&m, &options);
        const ccl_program_t *p = m.program;
        uint32_t blocks = 0;
        for (uint32_t t = p->rank_first_tb[1]; t < p->rank_first_tb[2]; t++)
            blocks += p->tbs[t].send_peer == 0;
        ck_assert_msg(blocks == rows[k].channels, "%s: %u channels", rows[k].why, blocks);
        done(&m);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.channels");
    TCase *tcase = tcase_create("channels");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_stages_of_hm, 0, (int)CCL_ARRAY_LEN(table3));
    tcase_add_test(tcase, test_stages_by_phase);
    tcase_add_test(tcase, test_rank_blocks);
    tcase_add_test(tcase, test_executor_ring);
    tcase_add_loop_test(tcase, test_refusals, 0, (int)CCL_ARRAY_LEN(refusals));
    tcase_add_test(tcase, test_bad_options);
    tcase_add_test(tcase, test_capacity);
    tcase_add_test(tcase, test_capacity_routes);
    tcase_add_test(tcase, test_capacity_lanes);
    tcase_add_test(tcase, test_capacity_limits);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
