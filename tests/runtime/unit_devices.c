/*
 * Devices: the host's table of functions, modules that are found, refused or missing, and programs
 * on a module's device, whose memory the host cannot reach (fakedevice.c).
 */
#include "random_programs.h"

#include "runtime/host/host.h"

#include <math.h>

static void add_one(void *user) {
    ++*(int *)user;
}

START_TEST(test_host_table) {
    const ccl_device_ops_t *ops = ccl_i_host_ops();
    ccl_device_handle_t *device = NULL;
    ccl_device_stream_t *one = NULL, *two = NULL;
    ccl_device_event_t *begin = NULL, *end = NULL;
    ccl_device_properties_t p;
    uint32_t n = 0;
    void *a = NULL, *b = NULL;
    int calls = 0;
    double elapsed_s = -1;
    bool done = false;
    ck_assert_int_eq(ops->count(&n), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_ne(ops->properties(1, &p), 0);
    ck_assert_int_eq(ops->properties(0, &p), 0);
    ck_assert(p.host_access && p.units > 0 && p.memory_bytes > 0);
    ck_assert_int_ne(ops->open(1, &device), 0);
    ck_assert_int_eq(ops->open(0, &device), 0);
    ck_assert_int_eq(ops->stream_create(device, &one), 0);
    ck_assert_int_eq(ops->stream_create(device, &two), 0);
    ck_assert_int_eq(ops->event_create(device, &begin), 0);
    ck_assert_int_eq(ops->event_create(device, &end), 0);
    ck_assert_int_eq(ops->memory_alloc(device, 1 << 20, &a), 0);
    ck_assert_int_eq(ops->memory_alloc(device, 1 << 20, &b), 0);
    ck_assert_uint_eq((uintptr_t)a % 256, 0);
    ck_assert_int_ne(ops->event_elapsed(begin, end, &elapsed_s), 0); /* not recorded */

    /* In order within a stream; the second one follows the first. */
    ck_assert_int_eq(ops->event_record(begin, one), 0);
    ck_assert_int_eq(ops->memory_set(one, a, 7, 1 << 20), 0);
    ck_assert_int_eq(ops->copy_d2d(one, b, a, 1 << 20), 0);
    ck_assert_int_eq(ops->stream_call(one, add_one, &calls), 0);
    ck_assert_int_eq(ops->event_record(end, one), 0);
    ck_assert_int_eq(ops->stream_follow(two, end), 0);
    ck_assert_int_eq(ops->stream_call(two, add_one, &calls), 0);
    ck_assert_int_eq(ops->stream_wait(two), 0);
    ck_assert_int_eq(calls, 2);
    ck_assert_int_eq(ops->event_wait(end), 0);
    ck_assert_int_eq(ops->event_done(end, &done), 0);
    ck_assert(done);
    ck_assert_int_eq(ops->stream_wait(one), 0);
    ck_assert_int_eq(ops->stream_done(one, &done), 0);
    ck_assert(done);
    for (size_t i = 0; i < 1 << 20; i += 4093)
        ck_assert_int_eq(((char *)b)[i], 7);
    ck_assert_int_eq(ops->event_elapsed(begin, end, &elapsed_s), 0);
    ck_assert_double_ge(elapsed_s, 0);

    ck_assert_int_eq(ops->memory_free(device, a), 0);
    ck_assert_int_eq(ops->memory_free(device, b), 0);
    ops->event_destroy(begin);
    ops->event_destroy(end);
    ops->stream_destroy(one);
    ops->stream_destroy(two);
    ops->close(device);
}
END_TEST

static const ccl_device_info_t *find(const ccl_device_info_t *list, uint32_t n, const char *kind) {
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].kind, kind) == 0)
            return &list[i];
    return NULL;
}

static const struct {
    const char *folder, *kind;
    bool available;
    const char *text;
} lists[] = {
    {"", "host", true, "cores"},
    {"", "cuda", false, "libccl_device_cuda.so is not here"},
    {"/nowhere::/nothing", "hip", false, "libccl_device_hip.so is not here"},
    {FAKE_GOOD, "cuda", true, "fake"},
    {"/nowhere:" FAKE_GOOD, "cuda", true, "fake"},
    {FAKE_OLD, "cuda", false, "version 99"},
    {FAKE_NONE, "cuda", false, "no driver (fake)"},
};

START_TEST(test_list) {
    ccl_device_info_t *list = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t n = 0;
    setenv("CCL_DEVICE_PATH", lists[_i].folder, 1);
    ck_assert_int_eq(ccl_devices_list(&list, &n, &err), CCL_OK);
    const ccl_device_info_t *d = find(list, n, lists[_i].kind);
    ck_assert_ptr_nonnull(d);
    ck_assert_msg(d->available == lists[_i].available, "%s: %s", d->kind, d->name);
    ck_assert_msg(strstr(d->name, lists[_i].text), "%s: %s", d->kind, d->name);
    free(list);
    if (lists[_i].available)
        return;
    /* Running there says the same in one line. */
    ccl_program_t *p = program_of("ring", CCL_ALLGATHER, random_specs[0], NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    o.size_bytes = 1024;
    o.device = lists[_i].kind;
    ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
    ck_assert_msg(status == CCL_ERR_MISSING || status == CCL_ERR_IO, "%s", err.text);
    ck_assert_msg(strstr(err.text, lists[_i].text), "%s", err.text);
    ccl_program_destroy(p);
}
END_TEST

/* Random programs on a device written from device.h alone, with memory of its own. */
START_TEST(test_module) {
    ccl_rng_t rng;
    random_world_t world;
    setenv("CCL_DEVICE_PATH", FAKE_GOOD, 1);
    ccl_rng_init(&rng, 5);
    random_world_init(&world);
    for (uint32_t done = 0; done < 150;) {
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        if (!random_case(&rng, &world, &c))
            continue;
        c.options.device = "cuda";
        c.options.type = CCL_TYPE_INT32;
        ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
        ck_assert_msg(status == CCL_OK || status == CCL_DEADLOCK, "%s: %s", c.what, err.text);
        if (status == CCL_OK) {
            ck_assert_double_eq(r->min_s, 0.5);
            done++;
        }
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
}
END_TEST

START_TEST(test_module_limits) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, random_specs[1], NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    setenv("CCL_DEVICE_PATH", FAKE_GOOD, 1);
    o.device = "cuda";
    o.size_bytes = 1024;
    o.type = CCL_TYPE_BF16; /* its program_load refuses */
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_IO);
    ck_assert_msg(strstr(err.text, "loading the program: out of memory (fake)"), "%s", err.text);
    ccl_error_clear(&err);
    o.type = CCL_TYPE_INT32;
    o.size_bytes = 4e9; /* five ranks, 1 GiB of memory */
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_NOMEM);
    ccl_error_clear(&err);
    o.size_bytes = 1024;
    o.ranks = CCL_RANKS_PROCESSES;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_MISSING);
    ck_assert_ptr_null(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.devices");
    TCase *tcase = tcase_create("devices");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_host_table);
    tcase_add_loop_test(tcase, test_list, 0, (int)CCL_ARRAY_LEN(lists));
    tcase_add_test(tcase, test_module);
    tcase_add_test(tcase, test_module_limits);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
