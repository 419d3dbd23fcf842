/**
 * @file direct.c
 * A device's memory for an RDMA device: dmabuf, else peer memory, else none.
 */
#include "runtime/wire/direct.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

const char *ccl_i_direct_path_name(ccl_i_direct_path_t path) {
    static const char *const names[] = {"host", "peer", "dmabuf"};
    return names[path];
}

/** Reasons follow each other. */
__attribute__((format(printf, 2, 3))) static void because(ccl_i_direct_t *d, const char *format,
                                                          ...) {
    size_t n = strlen(d->why);
    va_list args;
    va_start(args, format);
    if (n && n + 2 < sizeof d->why) {
        memcpy(d->why + n, "; ", 3);
        n += 2;
    }
    vsnprintf(d->why + n, sizeof d->why - n, format, args);
    va_end(args);
}

static bool by_dmabuf(ccl_i_direct_t *d) {
    int fd = -1;
    uint64_t offset = 0;
    int code = d->ops->rdma_export(d->device, d->memory, d->bytes, &fd, &offset);
    if (code) {
        because(d, "no dmabuf: %s", d->ops->error_text(code));
        return false;
    }
    bool ok = d->calls.of_dmabuf(d->calls.user, fd, offset, d->memory, d->bytes, &d->key);
    if (!ok)
        because(d, "its dmabuf: %s", strerror(errno));
    close(fd); /* what is registered holds on to it */
    return ok;
}

static bool by_pointer(ccl_i_direct_t *d) {
    bool ok = d->calls.of_pointer(d->calls.user, d->memory, d->bytes, &d->key);
    if (!ok)
        because(d, "peer memory: %s", strerror(errno));
    return ok;
}

void ccl_i_direct_open(const ccl_device_ops_t *ops, ccl_device_handle_t *device,
                       const ccl_i_direct_calls_t *calls, size_t bytes, ccl_i_direct_t *out) {
    *out = (ccl_i_direct_t){.ops = ops, .device = device, .calls = *calls, .bytes = bytes};
    if (!ops->rdma_alloc || !ops->rdma_export || !ops->rdma_flush) {
        because(out, "device %s has no memory for RDMA devices", ops->name);
        return;
    }
    int code = ops->rdma_alloc(device, bytes, &out->memory);
    if (code) {
        out->memory = NULL;
        because(out, "%s", ops->error_text(code));
        return;
    }
    if (by_dmabuf(out))
        out->path = CCL_I_DIRECT_DMABUF;
    else if (by_pointer(out))
        out->path = CCL_I_DIRECT_PEER;
    else
        ccl_i_direct_close(out);
}

void ccl_i_direct_close(ccl_i_direct_t *d) {
    if (d->path != CCL_I_DIRECT_HOST)
        d->calls.drop(d->calls.user, &d->key);
    if (d->memory)
        d->ops->memory_free(d->device, d->memory);
    d->path = CCL_I_DIRECT_HOST;
    d->memory = NULL;
}
