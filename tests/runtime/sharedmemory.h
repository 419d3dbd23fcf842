/*
 * Memory of the fake GPU (gpublocks.c): a file without a name that another process opens by its
 * number, as an IPC handle of a GPU is opened. Whoever forgets to close one is ended.
 */
#ifndef CCL_TESTS_RUNTIME_SHAREDMEMORY_H
#define CCL_TESTS_RUNTIME_SHAREDMEMORY_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct block {
    struct block *next;
    void *base;
    size_t bytes;
    int fd;    /* -1: of another process */
    bool twin; /* its address as a device's is there too */
} block_t;

static block_t *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct name {
    int pid, fd;
    size_t bytes;
} name_t;

static int block_add(void *base, size_t bytes, int fd) {
    block_t *b = malloc(sizeof *b);
    if (!b || base == MAP_FAILED)
        abort();
    *b = (block_t){NULL, base, bytes, fd, false};
    pthread_mutex_lock(&blocks_lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&blocks_lock);
    return 0;
}

/** Take it off the list; it must be of the wanted kind. */
static block_t block_take(const void *base, bool own) {
    pthread_mutex_lock(&blocks_lock);
    block_t **at = &blocks, found;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    block_t *b = *at;
    if (!b || (b->fd >= 0) != own)
        abort();
    found = *b;
    *at = b->next;
    free(b);
    pthread_mutex_unlock(&blocks_lock);
    munmap(found.base, found.bytes);
    if (found.twin)
        munmap(away(found.base), found.bytes);
    return found;
}

static int memory_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    (void)device;
    int fd = memfd_create("fake", MFD_CLOEXEC);
    bytes = (bytes + 4096) / 4096 * 4096;
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return 1;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *out = away(p);
    return block_add(p, bytes, fd);
}

static int memory_free(ccl_device_handle_t *device, void *memory) {
    (void)device;
    if (memory)
        close(block_take(back(memory), true).fd);
    return 0;
}

static void close_device(ccl_device_handle_t *device) {
    pthread_mutex_lock(&blocks_lock);
    for (const block_t *b = blocks; b; b = b->next)
        if (b->fd < 0)
            abort(); /* a mapping that nobody closed */
    pthread_mutex_unlock(&blocks_lock);
    free(device);
}

static int ipc_get(ccl_device_handle_t *device, void *memory, ccl_device_ipc_t *out) {
    (void)device;
    name_t name = {(int)getpid(), -1, 0};
    pthread_mutex_lock(&blocks_lock);
    for (const block_t *b = blocks; b; b = b->next) {
        if (b->base == back(memory)) {
            name.fd = b->fd;
            name.bytes = b->bytes;
        }
    }
    pthread_mutex_unlock(&blocks_lock);
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &name, sizeof name);
    return name.fd < 0;
}

static int ipc_open(ccl_device_handle_t *device, const ccl_device_ipc_t *ipc, void **out) {
    (void)device;
    name_t name;
    char path[64];
    memcpy(&name, ipc->bytes, sizeof name);
    if (getenv("CCL_TEST_IPC_FAILS"))
        return 1;
    if (name.pid == (int)getpid())
        abort(); /* vendors refuse a process's own handles */
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name.pid, name.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return 1;
    void *p = mmap(NULL, name.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    *out = away(p);
    return block_add(p, name.bytes, -1);
}

static int ipc_close(ccl_device_handle_t *device, void *memory) {
    (void)device;
    block_take(back(memory), false);
    return 0;
}

static int peer_enable(ccl_device_handle_t *device, uint32_t peer_index) {
    return device->index == peer_index || getenv("CCL_TEST_NO_PEERS") ? 1 : 0;
}

static int host_register(ccl_device_handle_t *device, void *host, size_t bytes, void **out) {
    (void)device;
    (void)bytes;
    *out = away(host);
    return 0;
}

static int host_unregister(ccl_device_handle_t *device, void *host) {
    (void)device;
    (void)host;
    return 0;
}

/*
 * CCL_TEST_RDMA: memory for RDMA devices. "peer": its address as a device's is a place of the same
 * memory, as where a driver of peer memory is; "refused": it is not; "none": there is no such
 * memory. Its dmabuf is a plain file, which no RDMA device takes.
 */
static int rdma_alloc(ccl_device_handle_t *device, size_t bytes, void **out) {
    const char *how = getenv("CCL_TEST_RDMA");
    (void)device;
    if (!how || strcmp(how, "none") == 0)
        return 1;
    int fd = memfd_create("fake", MFD_CLOEXEC);
    bytes = (bytes + 4096) / 4096 * 4096;
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return 1;
    /* Where the other address is one of a process too. */
    void *p = mmap((void *)((uintptr_t)1 << 45), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    bool twin = strcmp(how, "peer") == 0;
    if (twin && mmap(away(p), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
                     0) != away(p))
        abort();
    block_add(p, bytes, fd);
    blocks->twin = twin;
    *out = away(p);
    return 0;
}

static int rdma_export(ccl_device_handle_t *device, void *memory, size_t bytes, int *fd_out,
                       uint64_t *offset_out) {
    (void)device;
    (void)memory;
    (void)bytes;
    *offset_out = 0;
    *fd_out = memfd_create("no dmabuf", MFD_CLOEXEC);
    return *fd_out < 0;
}

static int rdma_flush(ccl_device_handle_t *device) {
    (void)device;
    return 0;
}

#endif
