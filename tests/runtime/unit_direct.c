/*
 * Memory of devices for RDMA (runtime/wire/direct.c), all played: a dmabuf, peer memory where there
 * is none or it is refused, nothing where that is refused too; what was taken is given back, the
 * registration before the memory, and files are not left open.
 */
#include "common.h"

#include "runtime/wire/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/** What is refused, and what happened: a letter a step. */
typedef struct played {
    bool no_alloc, no_export, no_dmabuf, no_pointer;
    char steps[32];
    int fd; /* -1: none is open */
} played_t;

static played_t played;
static char place[64];

static void note(char step) {
    size_t n = strlen(played.steps);
    ck_assert_uint_lt(n + 1, sizeof played.steps);
    played.steps[n] = step;
}

static const char *error_text(int code) {
    return code == 1 ? "no such memory" : "no such driver";
}

static int rdma_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    (void)device;
    ck_assert_uint_eq(bytes, 4096);
    note('a');
    *out = place; /* also when it fails: nobody may free it then */
    return played.no_alloc ? 1 : 0;
}

static int rdma_export(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                       uint64_t *offset_out) {
    (void)device;
    ck_assert_ptr_eq(memory, place);
    ck_assert_uint_eq(bytes, 4096);
    note('e');
    if (played.no_export)
        return 2;
    played.fd = *fd_out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *offset_out = 12;
    return 0;
}

static int rdma_flush(ccl_device_handle_t *device) {
    (void)device;
    return 0;
}

static int memory_free(ccl_device_handle_t *device, void *memory) {
    (void)device;
    ck_assert_ptr_eq(memory, place);
    note('f');
    return 0;
}

static bool of_dmabuf(void *user, int fd, uint64_t offset, void *memory, size_t bytes,
                      ccl_i_direct_key_t *out) {
    ck_assert_ptr_eq(user, &played);
    ck_assert_int_eq(fd, played.fd);
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
    ck_assert_uint_eq(offset, 12);
    ck_assert_ptr_eq(memory, place);
    ck_assert_uint_eq(bytes, 4096);
    note('d');
    *out = (ccl_i_direct_key_t){&place[1], 7, 8};
    errno = EOPNOTSUPP;
    return !played.no_dmabuf;
}

static bool of_pointer(void *user, void *memory, size_t bytes, ccl_i_direct_key_t *out) {
    ck_assert_ptr_eq(user, &played);
    ck_assert_ptr_eq(memory, place);
    ck_assert_uint_eq(bytes, 4096);
    note('p');
    *out = (ccl_i_direct_key_t){&place[2], 17, 18};
    errno = EFAULT;
    return !played.no_pointer;
}

static void drop(void *user, const ccl_i_direct_key_t *key) {
    ck_assert_ptr_eq(user, &played);
    ck_assert_ptr_eq(key->region, key->lkey == 7 ? &place[1] : &place[2]);
    note('u');
}

static const ccl_device_ops_t ops = {.size = sizeof ops,
                                     .name = "played",
                                     .error_text = error_text,
                                     .memory_free = memory_free,
                                     .rdma_alloc = rdma_alloc,
                                     .rdma_export = rdma_export,
                                     .rdma_flush = rdma_flush};

static const struct {
    played_t refused;
    ccl_i_direct_path_t path;
    uint32_t lkey;
    const char *opened, *closed, *why;
} cases[] = {
    {{0}, CCL_I_DIRECT_DMABUF, 7, "aed", "aeduf", ""},
    {{.no_export = true}, CCL_I_DIRECT_PEER, 17, "aep", "aepuf", "no dmabuf: no such driver"},
    {{.no_dmabuf = true},
     CCL_I_DIRECT_PEER,
     17,
     "aedp",
     "aedpuf",
     "its dmabuf: Operation not supported"},
    {{.no_dmabuf = true, .no_pointer = true},
     CCL_I_DIRECT_HOST,
     0,
     "aedpf",
     "aedpf",
     "its dmabuf: Operation not supported; peer memory: Bad address"},
    {{.no_export = true, .no_pointer = true},
     CCL_I_DIRECT_HOST,
     0,
     "aepf",
     "aepf",
     "no dmabuf: no such driver; peer memory: Bad address"},
    {{.no_alloc = true}, CCL_I_DIRECT_HOST, 0, "a", "a", "no such memory"},
};

START_TEST(test_paths) {
    ccl_i_direct_calls_t calls = {&played, of_dmabuf, of_pointer, drop};
    ccl_i_direct_t direct;
    played = cases[_i].refused;
    played.fd = -1;
    ccl_i_direct_open(&ops, NULL, &calls, 4096, &direct);
    ck_assert_int_eq(direct.path, cases[_i].path);
    ck_assert_str_eq(played.steps, cases[_i].opened);
    ck_assert_str_eq(direct.why, cases[_i].why);
    ck_assert_ptr_eq(direct.memory, cases[_i].path ? place : NULL);
    if (cases[_i].path)
        ck_assert_uint_eq(direct.key.lkey, cases[_i].lkey);
    if (played.fd >= 0) /* what is registered holds on to it */
        ck_assert(fcntl(played.fd, F_GETFD) == -1 && errno == EBADF);
    ccl_i_direct_close(&direct);
    ccl_i_direct_close(&direct);
    ck_assert_str_eq(played.steps, cases[_i].closed);
}
END_TEST

/* A module without one of the three functions is asked for none of them. */
START_TEST(test_without) {
    ccl_i_direct_calls_t calls = {&played, of_dmabuf, of_pointer, drop};
    for (int without = 0; without < 3; without++) {
        ccl_device_ops_t some = ops;
        ccl_i_direct_t direct;
        played = (played_t){.fd = -1};
        if (without == 0)
            some.rdma_alloc = NULL;
        else if (without == 1)
            some.rdma_export = NULL;
        else
            some.rdma_flush = NULL;
        ccl_i_direct_open(&some, NULL, &calls, 4096, &direct);
        ck_assert_int_eq(direct.path, CCL_I_DIRECT_HOST);
        ck_assert_str_eq(direct.why, "device played has no memory for RDMA devices");
        ccl_i_direct_close(&direct);
        ck_assert_str_eq(played.steps, "");
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.direct");
    TCase *tcase = tcase_create("direct");
    tcase_add_loop_test(tcase, test_paths, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_test(tcase, test_without);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
