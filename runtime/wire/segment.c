/**
 * @file segment.c
 * Shared memory of processes that were started apart on one machine: a POSIX segment that process 0
 * makes and takes the name of as soon as all have it.
 */
#define _GNU_SOURCE
#include "runtime/wire/segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 48 };

/** All processes have their parts, or none gets a yes. */
static ccl_status_t all_have(ccl_i_group_t *group, bool mine, bool *out, ccl_error_t *err) {
    uint32_t here = mine, *all = malloc(group->world * sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_group_exchange(group, &here, sizeof here, all, NULL, err);
    *out = true;
    for (uint32_t i = 0; i < group->world && status == CCL_OK; i++)
        *out = *out && all[i];
    free(all);
    return status;
}

static void *map(int fd, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/** Room is taken at once: a full /dev/shm is no memory now, later it would end the process. */
static void *make(const char *name, size_t bytes) {
    void *memory = NULL;
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0)
        return NULL;
    if (posix_fallocate(fd, 0, (off_t)bytes) == 0)
        memory = map(fd, bytes);
    close(fd);
    if (!memory)
        shm_unlink(name);
    return memory;
}

/** Another machine with the same boot id, or another container, has no such segment. */
static void *find(const char *name, size_t bytes) {
    struct stat info;
    void *memory = NULL;
    int fd = *name ? shm_open(name, O_RDWR, 0600) : -1;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && (uint64_t)info.st_size == bytes)
        memory = map(fd, bytes);
    close(fd);
    return memory;
}

ccl_status_t ccl_i_segment_map(ccl_i_group_t *group, size_t bytes, void **out, ccl_error_t *err) {
    char mine[NAME_BYTES] = "", *names = calloc(group->world, NAME_BYTES);
    void *memory = NULL;
    uint64_t token;
    bool all = false;
    if (!names)
        return ccl_fail_nomem(err);
    if (group->rank == 0 && getrandom(&token, sizeof token, 0) == sizeof token) {
        snprintf(mine, sizeof mine, "/ccllab-%ld-%016llx", (long)getpid(),
                 (unsigned long long)token);
        memory = make(mine, bytes);
        if (!memory)
            mine[0] = '\0';
    }
    ccl_status_t status = ccl_i_group_exchange(group, mine, sizeof mine, names, NULL, err);
    names[NAME_BYTES - 1] = '\0';
    if (status == CCL_OK && group->rank > 0)
        memory = find(names, bytes);
    if (status == CCL_OK)
        status = all_have(group, memory != NULL, &all, err);
    if (mine[0])
        shm_unlink(mine);
    if (memory && (status != CCL_OK || !all)) {
        munmap(memory, bytes);
        memory = NULL;
    }
    free(names);
    *out = memory;
    return status;
}
