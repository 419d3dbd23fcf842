// timeout: 300
/*
 * Programs on a real GPU; skipped (77) where there is none. CCL_GPU_KIND: cuda (default) or hip.
 * Random programs in all types, reductions and granularities; more blocks than fit; a hung program.
 */
#include "random_programs.h"
#include "tests/schedule/switches/switches.h"

#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = 400, OTHERS = 16 };

static const char *kind_of(void) {
    const char *kind = getenv("CCL_GPU_KIND");
    return kind ? kind : "cuda";
}

static bool listed(void) {
    ccl_device_info_t *list = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t n = 0;
    bool found = false;
    if (ccl_devices_list(&list, &n, &err) != CCL_OK)
        return false;
    for (uint32_t i = 0; i < n; i++)
        found = found || (list[i].available && strcmp(list[i].kind, kind_of()) == 0);
    free(list);
    return found;
}

/** In a child: this process must not have used a device before it has children with one. */
static bool available(void) {
    int state = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(listed() ? 0 : 1);
    return pid > 0 && waitpid(pid, &state, 0) == pid && state == 0;
}

START_TEST(test_random) {
    ccl_rng_t rng;
    random_world_t world;
    ccl_rng_init(&rng, 41);
    random_world_init(&world);
    for (uint32_t done = 0, tried = 0; done < PROGRAMS; tried++) {
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        if (!random_case(&rng, &world, &c))
            continue;
        c.options.device = kind_of();
        c.options.ranks = CCL_RANKS_THREADS;
        c.options.type = (ccl_type_t)(tried % CCL_TYPES);
        c.options.op = (ccl_reduction_t)(tried / CCL_TYPES % CCL_REDUCTIONS);
        c.options.block_times = tried % 5 == 0;
        ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
        ck_assert_msg(status == CCL_OK || status == CCL_DEADLOCK, "%s: %s", c.what, err.text);
        done += status == CCL_OK;
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
}
END_TEST

/** Some with kernels of their own, some in two processes (IPC where it works). */
START_TEST(test_others) {
    ccl_rng_t rng;
    random_world_t world;
    ccl_rng_init(&rng, 43 + (uint64_t)_i);
    random_world_init(&world);
    for (uint32_t done = 0, tried = 0; done < OTHERS; tried++) {
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        if (!random_case(&rng, &world, &c))
            continue;
        if (c.program->nsteps <= 200) {
            c.options.device = kind_of();
            c.options.kernel = _i == 0 ? CCL_KERNEL_GENERATED : CCL_KERNEL_INTERPRETER;
            c.options.ranks = _i == 0 ? CCL_RANKS_THREADS : CCL_RANKS_PROCESSES;
            c.options.processes = 2;
            c.options.transport = _i == 2 ? CCL_RUN_TCP : CCL_RUN_SHM;
            c.options.type = (ccl_type_t)(tried % CCL_TYPES);
            ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
            ck_assert_msg(status == CCL_OK || (status == CCL_DEADLOCK && r), "%s: %s", c.what,
                          err.text);
            done += status == CCL_OK;
        }
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
}
END_TEST

/* Large buffers in every type: vectors, many micro-batches, all slots in use. */
START_TEST(test_large) {
    static const ccl_granularity_t levels[] = {CCL_GRANULARITY_ALGORITHM, CCL_GRANULARITY_STAGE,
                                               CCL_GRANULARITY_TASK};
    ccl_program_t *p = program_of("direct", CCL_ALLREDUCE, random_specs[0], NULL);
    for (uint32_t type = 0; type < CCL_TYPES; type++) {
        for (uint32_t i = 0; i < CCL_ARRAY_LEN(levels); i++) {
            ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
            o.device = kind_of();
            o.size_bytes = 32 << 20;
            o.type = (ccl_type_t)type;
            o.granularity = levels[i];
            o.protocol = (ccl_run_protocol_t)(CCL_RUN_SIMPLE + (type + i) % 3);
            o.repeats = 3;
            ccl_run_result_t *r = run_right(p, &o, ccl_type_name(o.type));
            ck_assert(r->min_s > 0 && r->min_s < 1);
            ccl_run_result_destroy(r);
        }
    }
    ccl_program_destroy(p);
}
END_TEST

/* Programs of switch connections; by multimem where ranks have GPUs behind one NVSwitch. */
START_TEST(test_switches) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 53);
    for (uint32_t done = 0, tried = 0; done < PROGRAMS / 4; tried++) {
        ccl_run_options_t o;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        ccl_program_t *p = switch_program(&rng);
        random_options(&rng, (ccl_granularity_t)ccl_rng_below(&rng, 3), &o);
        o.device = kind_of();
        o.type = (ccl_type_t)(tried % CCL_TYPES);
        o.op = (ccl_reduction_t)(tried / CCL_TYPES % CCL_REDUCTIONS);
        ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
        ck_assert_msg(status == CCL_OK || foreseen(status, &err), "%s: %s", p->name, err.text);
        done += status == CCL_OK;
        ccl_run_result_destroy(r);
        ccl_program_destroy(p);
    }
}
END_TEST

int main(void) {
    if (!available()) {
        printf("no %s device is here\n", kind_of());
        return 77;
    }
    Suite *suite = suite_create("prop.runtime.gpu");
    TCase *tcase = tcase_create("gpu");
    tcase_set_timeout(tcase, 0);
    /* Children before this process uses the device itself: it could have none afterwards. */
    tcase_add_loop_test(tcase, test_others, 1, 3);
    tcase_add_loop_test(tcase, test_others, 0, 1);
    tcase_add_test(tcase, test_random);
    tcase_add_test(tcase, test_large);
    tcase_add_test(tcase, test_switches);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
