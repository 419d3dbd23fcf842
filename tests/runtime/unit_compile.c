// timeout: 600
/*
 * Generated kernels through the compilers of GPUs, which need no GPU: NVRTC for sm_80 and sm_90,
 * hiprtc for gfx90a. Skipped where neither module with its compiler is here.
 */
#include "random_programs.h"

#include "runtime/device.h"

#include <dlfcn.h>

enum { ALL_PRIMITIVES = (1 << 9) - 1, MOST_STEPS = 16 };

static const struct {
    const char *kind, *architecture;
} targets[] = {{"cuda", "sm_80"}, {"cuda", "sm_90"}, {"hip", "gfx90a"}};

/** NULL: the module or its compiler is not here. */
static const ccl_device_ops_t *module_of(const char *kind) {
    char path[512], log[256];
    snprintf(path, sizeof path, "%s/libccl_device_%s.so", REAL_MODULES, kind);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = module ? dlsym(module, CCL_DEVICE_ENTRY) : NULL;
    ccl_device_entry_fn entry = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    const ccl_device_ops_t *ops = entry ? entry() : NULL;
    if (!ops || !ops->kernel_compile)
        return NULL;
    int code = ops->kernel_compile("extern \"C\" __global__ void ccl_kernel() {}\n",
                                   kind[0] == 'c' ? "sm_80" : "gfx90a", log, sizeof log);
    if (code)
        printf("%s: %s %s\n", kind, ops->error_text(code), log);
    return code ? NULL : ops;
}

static void compile(const ccl_device_ops_t *ops, const char *architecture, ccl_program_t *p,
                    const ccl_run_options_t *o, const char *what) {
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    char log[2000];
    ck_assert_msg(ccl_run_kernel_text(p, o, &text, &err) == CCL_OK, "%s: %s", what, err.text);
    double before_s = ccl_now_s();
    int code = ops->kernel_compile(text.data, architecture, log, sizeof log);
    ck_assert_msg(code == 0, "%s for %s: %s\n%s", what, architecture, ops->error_text(code), log);
    if (getenv("CCL_TEST_TALK"))
        printf("%s for %s: %u blocks, %u steps, %zu bytes of text, %.2f s\n", what, architecture,
               p->ntbs, p->nsteps, text.len, ccl_now_s() - before_s);
    ccl_text_fini(&text);
}

START_TEST(test_compile) {
    static const struct {
        const char *with;
        ccl_collective_kind_t kind;
    } plain[] = {{"ring", CCL_ALLREDUCE}, {"direct", CCL_ALLTOALL}, {"hm", CCL_ALLGATHER}};
    const ccl_device_ops_t *ops = module_of(targets[_i].kind);
    if (!ops)
        return;
    uint32_t types = _i ? CCL_TYPES : 1; /* sm_80: sums, the rest is the same */
    for (uint32_t i = 0; i < types; i++) {
        ccl_program_t *p = program_of(plain[i % 3].with, plain[i % 3].kind,
                                      random_specs[i % 3 == 2 ? 2 : 0], NULL);
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        o.size_bytes = 1 << 20;
        o.type = (ccl_type_t)i;
        o.op = (ccl_reduction_t)(i % CCL_REDUCTIONS);
        o.granularity = (ccl_granularity_t)(i % 3);
        o.protocol = (ccl_run_protocol_t)(CCL_RUN_SIMPLE + i % 3);
        compile(ops, targets[_i].architecture, p, &o, plain[i % 3].with);
        ccl_program_destroy(p);
    }
    char log[2000];
    ck_assert_int_ne(
        ops->kernel_compile("this is no kernel\n", targets[_i].architecture, log, sizeof log), 0);
    ck_assert_msg(strstr(log, "error"), "%s", log);
}
END_TEST

/* Small random programs until they have every primitive: ragged micro-batches, many pieces. */
START_TEST(test_random) {
    const ccl_device_ops_t *ops = module_of("cuda");
    ccl_rng_t rng;
    random_world_t world;
    if (!ops)
        return;
    ccl_rng_init(&rng, 99);
    random_world_init(&world);
    for (uint32_t seen = 0, done = 0; seen != ALL_PRIMITIVES || done < 2;) {
        random_case_t c = {0};
        uint32_t has = 0;
        if (!random_case(&rng, &world, &c))
            continue;
        for (uint32_t i = 0; i < c.program->nsteps; i++)
            has |= 1u << c.program->steps[i].type;
        if (c.program->nsteps <= MOST_STEPS && (has & ~seen || done < 2)) {
            compile(ops, "sm_90", c.program, &c.options, c.what);
            seen |= has;
            done++;
        }
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
}
END_TEST

int main(void) {
    if (!module_of("cuda") && !module_of("hip")) {
        printf("no module with a compiler of kernels is here\n");
        return 77;
    }
    Suite *suite = suite_create("unit.runtime.compile");
    TCase *tcase = tcase_create("compile");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_compile, 0, (int)CCL_ARRAY_LEN(targets));
    tcase_add_test(tcase, test_random);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
