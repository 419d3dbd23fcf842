// timeout: 600
/*
 * Kernels generated for programs (runtime/generate.c), compiled by the host's C++ compiler and run
 * on its threads over the same FIFOs (gpublocks.c): the data of random programs and of the plain
 * schedules in all types, reductions and granularities. A fault put into the text must be found.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"

#include <dlfcn.h>

enum { PROGRAMS = SANITIZED ? 4 : 8, NIGHTLY_PROGRAMS = 1000, MOST_BLOCKS = 32 };

static ccl_run_options_t generated(void) {
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    o.device = "cuda";
    o.kernel = CCL_KERNEL_GENERATED;
    o.repeats = 2;
    o.warmups = 0;
    return o;
}

START_TEST(test_random) {
    ccl_rng_t rng;
    random_world_t world;
    uint32_t types[CCL_TYPES] = {0}, ops[CCL_REDUCTIONS] = {0}, levels[3] = {0}, many = 0;
    ccl_rng_init(&rng, 4711);
    random_world_init(&world);
    for (uint32_t done = 0, tried = 0; done < (nightly() ? NIGHTLY_PROGRAMS : PROGRAMS); tried++) {
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        if (!random_case(&rng, &world, &c))
            continue;
        c.options.device = generated().device;
        c.options.kernel = CCL_KERNEL_GENERATED;
        c.options.type = (ccl_type_t)(tried % CCL_TYPES);
        c.options.op = (ccl_reduction_t)(tried % CCL_REDUCTIONS);
        c.options.block_times = tried % 3 == 0;
        if (c.program->ntbs <= MOST_BLOCKS) {
            ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
            ck_assert_msg(status == CCL_OK || foreseen(status, &err), "%s: %s", c.what, err.text);
            if (status == CCL_OK) {
                ck_assert_uint_gt(r->checked_items, 0);
                ck_assert_int_eq(r->kernel, CCL_KERNEL_GENERATED);
                ck_assert(r->compile_s > 0);
                types[c.options.type]++;
                ops[c.options.op]++;
                levels[c.options.granularity]++;
                many += r->batches > 1;
                done++;
            }
        }
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
    for (uint32_t i = 0; i < CCL_TYPES; i++)
        ck_assert_uint_ge(types[i], PROGRAMS / 8);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_ge(ops[i], PROGRAMS / 8);
        ck_assert_uint_ge(levels[i], PROGRAMS / 8);
    }
    ck_assert_uint_ge(many, PROGRAMS / 4);
}
END_TEST

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
} plain[] = {{"ring", CCL_ALLREDUCE},   {"ring", CCL_ALLGATHER}, {"ring", CCL_REDUCESCATTER},
             {"tree", CCL_ALLREDUCE},   {"tree", CCL_BROADCAST}, {"recursive", CCL_ALLREDUCE},
             {"direct", CCL_ALLTOALL},  {"direct", CCL_REDUCE},  {"hm", CCL_ALLGATHER},
             {"hm", CCL_REDUCESCATTER}, {"direct", CCL_GATHER},  {"direct", CCL_ALLREDUCE}};

/* Each in one of the granularities, which go round as type and reduction do; at night in all. */
START_TEST(test_plain) {
    if (SANITIZED && !nightly() && _i % 2) /* what is compiled is not sanitized */
        return;
    ccl_program_t *p = program_of(plain[_i].with, plain[_i].kind,
                                  "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us", NULL);
    for (uint32_t level = 0; level < 3; level++) {
        if (!nightly() && level != (uint32_t)_i / 2 % 3) /* compiling takes long */
            continue;
        ccl_run_options_t o = generated();
        o.granularity = (ccl_granularity_t)level;
        o.type = (ccl_type_t)((_i + level) % CCL_TYPES);
        o.op = (ccl_reduction_t)((_i + level) % CCL_REDUCTIONS);
        o.size_bytes = 100000;
        o.slice_bytes = 4096;
        o.batches = 1 + level * 2;
        ccl_run_result_t *r = run_right(p, &o, plain[_i].with);
        ck_assert_uint_gt(r->checked_items, 0);
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

static const struct {
    const char *how;
    ccl_status_t want;
} faults[] = {
    {"CCL_DEVICE_RRCS, b=>CCL_DEVICE_RCS, b", CCL_CHECK},
    {"#define CCL_KERNEL_OP 0=>#define CCL_KERNEL_OP 2", CCL_CHECK},
    {"u + j * =>u + 1 + j * ", CCL_CHECK},
    {"for (uint64_t j = 0; j < 3; j++)=>for (uint64_t j = 0; j < 2; j++)", CCL_DEADLOCK},
    {"ccl_kernel_unit_0(run=>ccl_kernel_unit_1(run", CCL_DEADLOCK},
    {"nothing like this=>", CCL_ERR_IO},
    {"switch (index)=>switch (no_index)", CCL_ERR_IO},
};

/* Faults that somebody could make in the generator. */
START_TEST(test_faults) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, random_specs[0], NULL);
    ccl_run_options_t o = generated();
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 3 * 4096;
    o.batches = 3;
    o.watchdog_s = 0.5;
    ccl_run_result_t *right = run_right(p, &o, "without a fault");
    ccl_run_result_destroy(right);
    o.size_bytes += 16 * (_i + 1); /* another text, or it would be found compiled */
    setenv("CCL_TEST_MUTATE", faults[_i].how, 1);
    ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
    unsetenv("CCL_TEST_MUTATE");
    ck_assert_msg(status == faults[_i].want ||
                      (faults[_i].want == CCL_DEADLOCK && status == CCL_CHECK),
                  "%s: %d %s", faults[_i].how, (int)status, err.text);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* The same content is compiled once in a process; another size is another text. */
START_TEST(test_cache) {
    ccl_program_t *p = program_of("ring", CCL_ALLGATHER, random_specs[0], NULL);
    ccl_run_options_t o = generated();
    o.size_bytes = 54321;
    ccl_run_result_destroy(run_right(p, &o, "first"));
    void *module = dlopen(FAKE_GPU "/libccl_device_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(module);
    uint32_t *compiles = dlsym(module, "fake_compiles");
    ck_assert_ptr_nonnull(compiles);
    uint32_t before = *compiles;
    o.repeats = 3;
    ccl_run_result_destroy(run_right(p, &o, "again"));
    ck_assert_uint_eq(*compiles, before);
    o.size_bytes = 65432;
    ccl_run_result_destroy(run_right(p, &o, "another size"));
    ck_assert_uint_eq(*compiles, before + 1);
    dlclose(module);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_refused) {
    ccl_program_t *p = program_of("ring", CCL_ALLGATHER, random_specs[0], NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 4096;
    o.kernel = CCL_KERNEL_GENERATED;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "device host runs no generated kernels"), "%s", err.text);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    if (!strlen(CCL_HOST_CXX) || strstr(CCL_HOST_CXX, "NOTFOUND")) {
        printf("no C++ compiler is here\n");
        return 77;
    }
    Suite *suite = suite_create("prop.runtime.generated");
    TCase *tcase = tcase_create("generated");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_random);
    tcase_add_loop_test(tcase, test_plain, 0, (int)CCL_ARRAY_LEN(plain));
    tcase_add_loop_test(tcase, test_faults, 0, (int)CCL_ARRAY_LEN(faults));
    tcase_add_test(tcase, test_cache);
    tcase_add_test(tcase, test_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
