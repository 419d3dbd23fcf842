/*
 * Slices as lines with flags in the data (LL, LL128): every size, flags of other slices, flags that
 * begin again, and programs in threads, processes and over TCP with all protocols.
 */
#include "common.h"
#include "tests/base/nightly.h"

#include "runtime/host/lines.h"
#include "runtime/plan.h"

enum { SLOTS = 4, MOST = 700, SLOT_BYTES = 2048 };

static const uint32_t protocols[] = {CCL_DEVICE_LL, CCL_DEVICE_LL128};
static const uint64_t wrap = UINT64_C(1) << 32, half = UINT64_C(1) << 31;

static _Alignas(128) char slot[SLOT_BYTES];
static const char nothing[SLOT_BYTES];

static ccl_i_lines_t lines_of(uint32_t protocol, uint64_t slice) {
    return (ccl_i_lines_t){slot, slice, protocol};
}

static void fill(char *data, uint64_t n, uint32_t seed) {
    for (uint64_t i = 0; i < n; i++)
        data[i] = (char)(i * 7 + seed);
}

/** Whether all lines of a slice of n bytes are there. */
static bool there(uint32_t protocol, uint64_t slice, uint64_t n, char *data) {
    ccl_i_lines_t l = lines_of(protocol, slice);
    return ccl_i_lines_begun(&l) && ccl_i_lines_read(&l, 0, data, n);
}

START_TEST(test_sizes) {
    static const uint64_t slices[] = {0,
                                      1,
                                      12345,
                                      (UINT64_C(1) << 31) - 1,
                                      UINT32_MAX - 1,
                                      UINT64_C(1) << 32,
                                      (UINT64_C(1) << 32) + 77};
    uint32_t protocol = protocols[_i];
    char data[MOST], got[MOST + 1];
    for (size_t k = 0; k < CCL_ARRAY_LEN(slices); k++) {
        for (uint64_t n = 0; n <= MOST; n++) {
            ccl_i_lines_t l = lines_of(protocol, slices[k]);
            memset(slot, 0, sizeof slot);
            fill(data, n, (uint32_t)(n + k));
            ck_assert(!there(protocol, slices[k], n, got));
            ccl_i_lines_write(&l, 0, data, n);
            got[n] = 42;
            ck_assert_msg(there(protocol, slices[k], n, got), "%lu bytes", (unsigned long)n);
            ck_assert_int_eq(memcmp(got, data, n), 0);
            ck_assert_int_eq(got[n], 42);
            ck_assert(!there(protocol, slices[k] + SLOTS, n, got));
            /* beyond what a slot of its size has, nothing was written */
            uint64_t used = ccl_i_slot_bytes(protocol, n);
            ck_assert_int_eq(memcmp(slot + used, nothing, sizeof slot - used), 0);
        }
    }
}
END_TEST

/* Each line is waited for: one that a longer slice left there before does not do. */
START_TEST(test_stale) {
    uint32_t protocol = protocols[_i];
    char data[MOST], got[MOST];
    for (uint64_t n = 1; n < MOST; n++) {
        ccl_i_lines_t old = lines_of(protocol, 3), young = lines_of(protocol, 3 + SLOTS);
        memset(slot, 0, sizeof slot);
        fill(data, MOST, 1);
        ccl_i_lines_write(&old, 0, data, MOST);
        ccl_i_lines_write(&young, 0, data, n);
        bool same = ccl_i_slot_bytes(protocol, n) == ccl_i_slot_bytes(protocol, MOST);
        ck_assert(there(protocol, 3 + SLOTS, n, got));
        ck_assert_int_eq(there(protocol, 3 + SLOTS, MOST, got), same);
    }
}
END_TEST

/* After 2^32 slices the flags of LL are the same again: no line may have kept its own so long. */
START_TEST(test_clean) {
    char data[MOST], got[MOST];
    uint32_t cleans = 0;
    memset(slot, 0, sizeof slot);
    fill(data, MOST, 2);
    ccl_i_lines_t old = lines_of(CCL_DEVICE_LL, 1);
    ccl_i_lines_write(&old, 0, data, MOST);
    for (uint64_t k = half - 8 * SLOTS + 1; k < half + SLOTS; k += SLOTS) {
        ccl_i_lines_t l = lines_of(CCL_DEVICE_LL, k);
        ccl_i_lines_write(&l, 0, data, 1);
        ccl_i_lines_clean(&l, 1, SLOT_BYTES, SLOTS);
        cleans += there(CCL_DEVICE_LL, k, MOST, got);
        ck_assert(there(CCL_DEVICE_LL, k, 1, got) && got[0] == data[0]);
    }
    ck_assert_uint_eq(cleans, 1);
    ccl_i_lines_t again = lines_of(CCL_DEVICE_LL, wrap + 1);
    ccl_i_lines_write(&again, 0, data, 1);
    ck_assert(there(CCL_DEVICE_LL, wrap + 1, 8, got));
    ck_assert(!there(CCL_DEVICE_LL, wrap + 1, 9, got));
}
END_TEST

/* ---------------------------------------------------------------- programs */

static const char *const spec = "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us";

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
} cases[] = {{"ring", CCL_ALLREDUCE},  {"ring", CCL_ALLGATHER},     {"hm", CCL_REDUCESCATTER},
             {"direct", CCL_ALLTOALL}, {"tree", CCL_BROADCAST},     {"tree", CCL_REDUCE},
             {"direct", CCL_GATHER},   {"direct", CCL_SCATTER},     {"direct", CCL_SENDRECV},
             {"tree", CCL_ALLREDUCE},  {"recursive", CCL_ALLREDUCE}};

/** Odd sizes, all types, FIFOs from one slice on, and numbers of slices that pass 2^31 and 2^32. */
static void run_all(const ccl_program_t *p, ccl_run_protocol_t protocol, const char *what,
                    uint32_t first, uint32_t step) {
    static const double sizes[] = {1, 130, 4003, 90001};
    static const uint64_t firsts[] = {0, (UINT64_C(1) << 31) - 20, (UINT64_C(1) << 32) - 20};
    for (uint32_t i = first; i < 3 * CCL_ARRAY_LEN(sizes); i += step) {
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        o.protocol = protocol;
        o.size_bytes = sizes[i / 3];
        o.type = (ccl_type_t)(i % CCL_TYPES);
        o.op = (ccl_reduction_t)(i % CCL_REDUCTIONS);
        o.batches = 1 + i % 4;
        bool deep = i % 2; /* all at once, which task level may want */
        o.granularity = deep ? CCL_GRANULARITY_TASK : CCL_GRANULARITY_ALGORITHM;
        o.slices = i % 4 ? 0 : 2;
        o.first_slice = deep ? 0 : firsts[i % 3]; /* lines are cleaned two turns before 2^32 */
        o.slots = deep ? 64 : o.first_slice ? 8 : 4 + i % 3;
        o.threads = 1 + i % 3;
        o.repeats = 7;
        o.warmups = 0;
        ccl_run_result_t *r = run_right(p, &o, what);
        ck_assert_int_eq(r->protocol, protocol);
        ck_assert_uint_gt(r->checked_items, 0);
        ccl_run_result_destroy(r);
    }
}

/* For every change one in some of the options, others for each program and protocol. */
START_TEST(test_programs) {
    uint32_t step = nightly() ? 1 : SANITIZED ? 5 : 3;
    ccl_program_t *p = program_of(cases[_i].with, cases[_i].kind, spec, NULL);
    for (ccl_run_protocol_t k = CCL_RUN_SIMPLE; k <= CCL_RUN_LL128; k++)
        run_all(p, k, cases[_i].with, ((uint32_t)_i + k) % step, step);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_processes) {
    ccl_program_t *p = program_of(_i % 2 ? "tree" : "ring", CCL_ALLREDUCE, spec, NULL);
    for (ccl_run_protocol_t k = CCL_RUN_LL; k <= CCL_RUN_LL128; k++) {
        for (uint32_t processes = 2; processes <= 4; processes += 2) {
            ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
            o.protocol = k;
            o.ranks = CCL_RANKS_PROCESSES;
            o.processes = processes;
            o.transport = _i / 2 ? CCL_RUN_TCP : CCL_RUN_SHM;
            o.first_slice = _i / 2 ? 0 : wrap - 20;
            o.size_bytes = 100001;
            o.batches = 3;
            o.type = CCL_TYPE_FP16;
            o.repeats = 4;
            o.warmups = 0;
            ccl_run_result_t *r = run_right(p, &o, _i / 2 ? "tcp" : "shm");
            ck_assert_uint_eq(r->processes, processes);
            ck_assert_int_eq(r->protocol, k);
            ccl_run_result_destroy(r);
        }
    }
    ccl_program_destroy(p);
}
END_TEST

static uint32_t shared_steps(const char *with, ccl_run_protocol_t protocol) {
    ccl_program_t *p = program_of(with, CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_run_plan_t plan = {0};
    uint32_t n = 0;
    o.size_bytes = 4096;
    o.protocol = protocol;
    ck_assert_int_eq(ccl_i_run_plan_init(p, &o, &plan, &err), CCL_OK);
    for (uint32_t i = 0; i < plan.dev.nsteps; i++)
        n += plan.steps[i].shared;
    ccl_i_run_plan_fini(&plan);
    ccl_program_destroy(p);
    return n;
}

/* A block of a ring has its chunks for itself; direct sends what another block received. */
START_TEST(test_shared) {
    ck_assert_uint_eq(shared_steps("ring", CCL_RUN_LL), 0);
    ck_assert_uint_gt(shared_steps("direct", CCL_RUN_LL), 0);
    ck_assert_uint_eq(shared_steps("direct", CCL_RUN_LL), shared_steps("direct", CCL_RUN_LL128));
    ck_assert_uint_eq(shared_steps("direct", CCL_RUN_SIMPLE), 0);
}
END_TEST

/* The program says it, the options may say otherwise. */
START_TEST(test_choice) {
    static const char *const names[] = {"Simple", "LL", "LL128"};
    for (uint32_t i = 0; i < 3; i++) {
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        lower.proto = names[i];
        ccl_program_t *p = program_of("ring", CCL_ALLGATHER, spec, &lower);
        o.size_bytes = 5000;
        ccl_run_result_t *r = run_right(p, &o, names[i]);
        ck_assert_str_eq(ccl_run_protocol_name(r->protocol), names[i]);
        ccl_run_result_destroy(r);
        o.protocol = CCL_RUN_LL;
        r = run_right(p, &o, names[i]);
        ck_assert_int_eq(r->protocol, CCL_RUN_LL);
        ccl_run_result_destroy(r);
        ccl_program_destroy(p);
    }
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *none = NULL;
    ccl_run_options_t bad = CCL_RUN_OPTIONS_INIT;
    ccl_program_t *p = program_of("ring", CCL_ALLGATHER, spec, NULL);
    bad.size_bytes = 64;
    bad.protocol = (ccl_run_protocol_t)(CCL_RUN_LL128 + 1);
    ck_assert_int_eq(ccl_run_program(NULL, p, &bad, &none, &err), CCL_ERR_USAGE);
    ck_assert_str_eq(err.text, "no such protocol");
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_hang) {
    ccl_program_t *p = stuck();
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 4096;
    o.no_static_check = true;
    o.watchdog_s = 0.3;
    o.protocol = (ccl_run_protocol_t)(CCL_RUN_LL + _i);
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_DEADLOCK);
    ck_assert_uint_eq(r->deadlock->stuck, 2);
    ck_assert_int_eq(r->deadlock->waits[0].wait, CCL_WAIT_DATA);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.lines");
    TCase *tcase = tcase_create("lines");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_sizes, 0, 2);
    tcase_add_loop_test(tcase, test_stale, 0, 2);
    tcase_add_test(tcase, test_clean);
    tcase_add_loop_test(tcase, test_programs, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tcase, test_processes, 0, 4);
    tcase_add_test(tcase, test_choice);
    tcase_add_test(tcase, test_shared);
    tcase_add_loop_test(tcase, test_hang, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
