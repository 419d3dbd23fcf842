/**
 * @file direct.h
 * Memory of a device that RDMA devices read and write (GPUDirect): by a dmabuf where driver and
 * RDMA device can, else by the device's pointer (peer memory), else not at all. The steps are here,
 * libibverbs is behind a table, so that they are tested without either device.
 */
#ifndef CCL_RUNTIME_DIRECT_H
#define CCL_RUNTIME_DIRECT_H

#include "base/base.h"
#include "runtime/device.h"

/** How slices get from a device's memory to the RDMA device. */
typedef enum ccl_i_direct_path {
    CCL_I_DIRECT_HOST, /* through memory of the host */
    CCL_I_DIRECT_PEER,
    CCL_I_DIRECT_DMABUF
} ccl_i_direct_path_t;
/** "host", "peer", "dmabuf". */
const char *ccl_i_direct_path_name(ccl_i_direct_path_t path);

/** A registered stretch of memory. */
typedef struct ccl_i_direct_key {
    void *region; /* of libibverbs */
    uint32_t lkey, rkey;
} ccl_i_direct_key_t;

/** What registers memory; false with errno. `user` is its own. */
typedef struct ccl_i_direct_calls {
    void *user;
    bool (*of_dmabuf)(void *user, int fd, uint64_t offset, void *memory, size_t bytes,
                      ccl_i_direct_key_t *out);
    bool (*of_pointer)(void *user, void *memory, size_t bytes, ccl_i_direct_key_t *out);
    void (*drop)(void *user, const ccl_i_direct_key_t *key);
} ccl_i_direct_calls_t;

typedef struct ccl_i_direct {
    const ccl_device_ops_t *ops;
    ccl_device_handle_t *device;
    ccl_i_direct_calls_t calls;
    ccl_i_direct_path_t path;
    void *memory; /* NULL: none */
    size_t bytes;
    ccl_i_direct_key_t key;
    char why[120]; /* one line: why not by a better path; "" */
} ccl_i_direct_t;

/**
 * Memory of the device, registered. Nothing that is missing is an error: `path` is then
 * CCL_I_DIRECT_HOST, nothing is held, and `why` says what was tried.
 * @param device, ops, calls->user  borrowed until it is closed.
 */
void ccl_i_direct_open(const ccl_device_ops_t *ops, ccl_device_handle_t *device,
                       const ccl_i_direct_calls_t *calls, size_t bytes, ccl_i_direct_t *out);
/** Drops the registration, then the memory; nobody may use either any more. Twice is fine. */
void ccl_i_direct_close(ccl_i_direct_t *direct);

#endif
