// timeout: 300
/*
 * Programs of switch connections run on the host: those of the synthesizers that use switches, of
 * all collectives that they support, and random ones. The data are right every time, in all types,
 * reductions, granularities and protocols, by threads, by processes and over TCP.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"
#include "tests/schedule/switches/switches.h"

/* Fewer where a run costs more: under sanitizers, in processes; many at night. */
#define PROGRAMS (nightly() ? 600u : SANITIZED ? 40u : 150u)
#define TIMES (nightly() || !SANITIZED ? 2u : 1u)
#define IN_PROCESSES (nightly() ? 20u : SANITIZED ? 4u : 8u)
#define ON_GPUS (nightly() ? 20u : 8u)

enum { MOST_BLOCKS = 24 }; /* two threads each, on fake GPUs */

/** Whether it has steps that pull, multicast, do both, or pull and send on. */
typedef struct seen {
    uint32_t pulls, multicasts, both, forwards, blocked, runs;
    uint32_t connections, in_switch; /* of runs on devices */
} seen_t;

static void look_at(const ccl_program_t *p, seen_t *seen) {
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            ccl_primitive_t type = (ccl_primitive_t)p->steps[i].type;
            ccl_peers_t peers = ccl_program_peers(p, tb, i);
            bool pull = ccl_primitive_receives(type) && ccl_peer_is_group(peers.recv_peer);
            bool cast = ccl_primitive_sends(type) && ccl_peer_is_group(peers.send_peer);
            seen->pulls += pull;
            seen->multicasts += cast;
            seen->both += pull && cast;
            seen->forwards += pull && !cast && ccl_primitive_sends(type);
        }
    }
}

/** Right, or unable to finish with so few slots, which was found before; then right with more. */
static void replay(const ccl_program_t *p, ccl_run_options_t *o, const char *what, seen_t *seen) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *r = NULL;
    ccl_status_t status = ccl_run_program(NULL, p, o, &r, &err);
    if (foreseen(status, &err)) {
        ccl_run_result_destroy(r);
        r = NULL;
        seen->blocked++;
        o->slots = 4096;
        o->slice_bytes = 1024;
        ccl_error_clear(&err);
        status = ccl_run_program(NULL, p, o, &r, &err);
    }
    ck_assert_msg(status == CCL_OK, "%s (%s), level %d, %s %s, protocol %d, size %.0f: %s", what,
                  p->name, (int)o->granularity, ccl_type_name(o->type), ccl_reduction_name(o->op),
                  (int)o->protocol, o->size_bytes, err.text);
    ck_assert_uint_gt(r->checked_items, 0);
    look_at(p, seen);
    seen->runs++;
    seen->connections += r->switch_connections;
    seen->in_switch += r->in_switch;
    ccl_run_result_destroy(r);
}

static void random_way(ccl_rng_t *rng, uint32_t ranks, uint32_t transport, ccl_run_options_t *o) {
    random_options(rng, (ccl_granularity_t)ccl_rng_below(rng, 3), o);
    if (ranks == CCL_RANKS_PROCESSES) {
        o->ranks = CCL_RANKS_PROCESSES;
        o->processes = 2 + ccl_rng_below(rng, 3);
        o->transport = (ccl_run_transport_t)transport;
        o->threads = 1 + ccl_rng_below(rng, 2);
    }
}

/* ---------------------------------------------------------------- programs of synthesizers */

static const struct {
    const char *name, *spec;
} plans[] = {
    {"nvls", "servers:1 gpus:3 nvswitch=100GB/s,nvls"},
    {"nvls", "servers:1 gpus:8 nvswitch=100GB/s,nvls"},
    {"nvls-pull", "servers:1 gpus:4 nvswitch=100GB/s,nvls"},
    {"nvls-pull", "servers:2 gpus:4 nvswitch=400GB/s,nvls nics:4x10GB/s fabric=rail"},
    {"nvlstree", "servers:3 gpus:4 nvswitch=400GB/s,nvls nics:4x10GB/s fabric=rail"},
    {"collnet", "servers:2 gpus:4 nvswitch=400GB/s,nvls nics:4x10GB/s fabric=rail"},
    {"collnet", "servers:3 gpus:4 nvswitch=400GB/s,nvls nics:4x10GB/s fabric=rail,sharp"},
};

static const ccl_synth_ops_t *synth_named(const char *name) {
    const ccl_synth_ops_t *const *ops = ccl_synth_all();
    while (*ops && strcmp((*ops)->name, name) != 0)
        ops++;
    ck_assert_msg(*ops != NULL, "%s", name);
    return *ops;
}

START_TEST(test_plans) {
    const ccl_synth_ops_t *ops = synth_named(plans[_i].name);
    ccl_topology_t *topo = topology(plans[_i].spec);
    uint32_t kinds = 0;
    seen_t seen = {0};
    ccl_rng_t rng;
    ccl_rng_init(&rng, 40 + (uint64_t)_i);
    for (uint32_t kind = 0; kind < CCL_CUSTOM; kind++) {
        const char *why = NULL;
        ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks, 0);
        bool able = ops->supports(topo, want, &why);
        for (uint32_t i = 0; able && i < TIMES; i++) {
            ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
            ccl_run_options_t o;
            random_way(&rng, CCL_RANKS_THREADS, 0, &o);
            /* The network's switches need a chunk at one place of all buffers. */
            lower.out_of_place = (i & 1) && !strstr(plans[_i].spec, "sharp");
            lower.topo = topo;
            ccl_program_t *p =
                program_of(plans[_i].name, (ccl_collective_kind_t)kind, plans[_i].spec, &lower);
            replay(p, &o, plans[_i].spec, &seen);
            ccl_program_destroy(p);
        }
        kinds += able;
        ccl_collective_destroy(want);
    }
    ck_assert_uint_ge(kinds, 1);
    ck_assert_uint_gt(seen.pulls, 0);
    ck_assert_uint_gt(seen.multicasts, 0);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- random programs */

static void run_random(uint64_t seed, uint32_t n, uint32_t ranks, uint32_t transport,
                       seen_t *seen) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    while (seen->runs < n) {
        ccl_run_options_t o;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_program_t *p = switch_program(&rng);
        random_way(&rng, ranks, transport, &o);
        if (ccl_rng_below(&rng, 2))
            p = share_blocks(p, &rng);
        ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
        ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
        verify.granularity = o.granularity;
        verify.slots = 4096;
        ck_assert_msg(ccl_program_verify(NULL, p, &verify, verdict, &err) == CCL_OK, "%s",
                      err.text);
        if (verdict->valid)
            replay(p, &o, "random", seen);
        else /* sharing blocks may have made it block */
            ck_assert_msg(!strcmp(verdict->fault.kind, "deadlock"), "%s", verdict->fault.text);
        free(verdict);
        ccl_program_destroy(p);
    }
}

START_TEST(test_random) {
    seen_t seen = {0};
    run_random(50, PROGRAMS, CCL_RANKS_THREADS, 0, &seen);
    ck_assert_uint_gt(seen.pulls, PROGRAMS);
    ck_assert_uint_gt(seen.multicasts, PROGRAMS);
    ck_assert_uint_gt(seen.both, PROGRAMS / 10);
    ck_assert_uint_lt(seen.blocked, PROGRAMS / 4);
}
END_TEST

START_TEST(test_processes) {
    seen_t seen = {0};
    run_random(60 + (uint64_t)_i, IN_PROCESSES, CCL_RANKS_PROCESSES, (uint32_t)_i, &seen);
    ck_assert_uint_gt(seen.pulls, IN_PROCESSES / 2);
}
END_TEST

/* ---------------------------------------------------------------- GPUs */

/*
 * The thread blocks of GPUs (gpublocks.c): all ranks on one, where blocks go through the members
 * of a connection one by one; each on one of its own, which have multicast memory, or have no room
 * left there; several on one of two, which has one part of such memory; in two processes.
 */
static const struct {
    const char *devices, *multicast;
    ccl_run_ranks_t ranks;
    bool in_switch; /* often; else hardly or never */
} gpus[] = {{"1", NULL, CCL_RANKS_THREADS, false},
            {"16", "yes", CCL_RANKS_THREADS, true},
            {"16", "full", CCL_RANKS_THREADS, false},
            {"2", "yes", CCL_RANKS_THREADS, false},
            {"16", "yes", CCL_RANKS_PROCESSES, false}};

static void set(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

START_TEST(test_gpus) {
    seen_t seen = {0};
    ccl_rng_t rng;
    set("CCL_DEVICE_PATH", FAKE_GPU);
    set("CCL_TEST_DEVICES", gpus[_i].devices);
    set("CCL_TEST_MULTICAST", gpus[_i].multicast);
    ccl_rng_init(&rng, 70 + (uint64_t)_i);
    while (seen.runs < ON_GPUS) {
        ccl_run_options_t o;
        ccl_program_t *p = switch_program(&rng);
        random_way(&rng, gpus[_i].ranks, CCL_RUN_SHM, &o);
        o.device = "cuda";
        o.processes = 2;
        if (p->ntbs <= MOST_BLOCKS && (gpus[_i].ranks == CCL_RANKS_THREADS || p->nranks > 2))
            replay(p, &o, "on GPUs", &seen);
        ccl_program_destroy(p);
    }
    ck_assert_uint_gt(seen.connections, ON_GPUS);
    if (gpus[_i].in_switch)
        ck_assert_uint_gt(seen.in_switch, ON_GPUS / 4);
    else
        ck_assert_uint_lt(seen.in_switch, seen.connections / 4);
}
END_TEST

/* What a switch can sum, and with which protocol, is in it; all else is not. */
START_TEST(test_in_switch) {
    ccl_program_t *p = program_of("nvls", CCL_ALLREDUCE, plans[0].spec, NULL);
    set("CCL_DEVICE_PATH", FAKE_GPU);
    set("CCL_TEST_DEVICES", "3");
    set("CCL_TEST_MULTICAST", "yes");
    for (uint32_t type = 0; type < CCL_TYPES; type++) {
        for (uint32_t op = 0; op < (_i ? CCL_OP_SUM + 1 : CCL_REDUCTIONS); op++) {
            ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
            bool sums = type != CCL_TYPE_FP32 || op == CCL_OP_SUM;
            o.device = "cuda";
            o.size_bytes = 20002; /* odd ends */
            o.repeats = 1;
            o.warmups = 0;
            o.type = (ccl_type_t)type;
            o.op = (ccl_reduction_t)op;
            o.protocol = _i ? CCL_RUN_LL : CCL_RUN_SIMPLE;
            ccl_run_result_t *r = run_right(p, &o, ccl_type_name(o.type));
            ck_assert_uint_eq(r->devices, 3);
            ck_assert_uint_gt(r->switch_connections, 0);
            if (_i)
                ck_assert_uint_eq(r->in_switch, 0);
            else if (sums)
                ck_assert_uint_eq(r->in_switch, r->switch_connections);
            else /* its multicasts alone */
                ck_assert(r->in_switch > 0 && r->in_switch < r->switch_connections);
            ccl_run_result_destroy(r);
        }
    }
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- what waits, and what cannot */

static uint32_t add_block(ccl_program_builder_t *b, uint32_t rank, uint32_t send, uint32_t recv,
                          uint32_t dep) {
    uint32_t tb = ccl_program_builder_tb(b, rank, send, recv, 0);
    ccl_step_t s = {.type = send == CCL_NONE ? CCL_PRIM_R : CCL_PRIM_S,
                    .dst_buf = CCL_BUF_OUTPUT,
                    .count = 1,
                    .dep_tb = dep,
                    .dep_step = dep == CCL_NONE ? CCL_NONE : 0};
    ccl_program_builder_step(b, tb, s);
    return tb;
}

/** Rank 0 pulls from 1 and 2, but 2 offers only when rank 0 has sent to it, after the pull. */
static ccl_program_t *stuck_pull(void) {
    static const uint32_t members[] = {1, 2};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p = NULL;
    ccl_program_builder_t *b =
        ccl_program_builder_create("stuck", collective(CCL_SENDRECV, 3, 0), 1, "Simple");
    ccl_program_builder_place(b, false, true, 0, 0);
    for (uint32_t r = 0; r < 3; r++) {
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, 1);
        ccl_program_builder_buffer(b, r, CCL_BUF_OUTPUT, 1);
    }
    add_block(b, 0, CCL_NONE, ccl_program_builder_group(b, members, 2), CCL_NONE);
    add_block(b, 0, 2, CCL_NONE, 0);
    add_block(b, 1, CCL_PEER_MEMBER | 0, CCL_NONE, CCL_NONE);
    add_block(b, 2, CCL_NONE, 0, CCL_NONE);
    add_block(b, 2, CCL_PEER_MEMBER | 0, CCL_NONE, 0);
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

/* The watchdog blames the member that has not offered, not the one that has. */
START_TEST(test_hang) {
    ccl_program_t *p = stuck_pull();
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 4096;
    o.watchdog_s = 0.3;
    o.protocol = (ccl_run_protocol_t)(CCL_RUN_SIMPLE + _i);
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_DEADLOCK);
    ck_assert_msg(foreseen(CCL_DEADLOCK, &err), "%s", err.text);
    ccl_run_result_destroy(r);
    r = NULL;
    ccl_error_clear(&err);
    o.no_static_check = true;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_DEADLOCK);
    ck_assert_uint_eq(r->deadlock->stuck, 4);
    ck_assert_uint_eq(r->deadlock->nwaits, 4);
    for (uint32_t i = 0; i < 4; i++)
        if (r->deadlock->waits[i].rank == 0 && r->deadlock->waits[i].tb == 0) {
            ck_assert_int_eq(r->deadlock->waits[i].wait, CCL_WAIT_DATA);
            ck_assert_uint_eq(r->deadlock->waits[i].on_rank, 2);
        }
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.switches");
    TCase *tcase = tcase_create("switches");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_plans, 0, (int)CCL_ARRAY_LEN(plans));
    tcase_add_test(tcase, test_random);
#ifndef __SANITIZE_THREAD__ /* which does not see what passes through another process */
    tcase_add_loop_test(tcase, test_processes, CCL_RUN_SHM, CCL_RUN_TCP + 1);
#else
    (void)test_processes;
#endif
    tcase_add_loop_test(tcase, test_gpus, 0, (int)CCL_ARRAY_LEN(gpus));
    tcase_add_loop_test(tcase, test_in_switch, 0, 2);
    tcase_add_loop_test(tcase, test_hang, 0, 3);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
