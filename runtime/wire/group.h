/**
 * @file group.h
 * The processes of a job: agreement, progress, death. Sockets in a star around process 0.
 */
#ifndef CCL_RUNTIME_GROUP_H
#define CCL_RUNTIME_GROUP_H

#include "runtime/runtime.h"

typedef struct ccl_i_peer {
    int fd;
    char *in; /* bytes received and not yet taken */
    size_t len, cap;
    bool answered; /* its part of the exchange is here */
} ccl_i_peer_t;

typedef struct ccl_i_group {
    uint32_t rank, world;
    ccl_i_peer_t *peers; /* [world] root: of the others; else only [0] is used */
    uint32_t seq;        /* of the exchange */
    double moved_s;      /* when anybody was last seen to move */
    uint64_t seen;       /* own progress when it was last looked at */
    double told_s;       /* when the root was last informed */
    bool hung;           /* STOP was sent or received */
    double patience_s;   /* longer than its own work others may take: 10 times that and this */
    double together_s;   /* end of the last exchange */
} ccl_i_group_t;

/** What to look after while a run goes on. */
typedef struct ccl_i_watch {
    uint32_t *stop;
    uint64_t *progress;
    double limit_s; /* without any progress anywhere */
} ccl_i_watch_t;

/** A group of this process alone. */
ccl_status_t ccl_i_group_alone(ccl_i_group_t *out, ccl_error_t *err);
/** Takes the sockets: root [world] with [0] unused, others one at [0]. */
ccl_status_t ccl_i_group_join(uint32_t rank, uint32_t world, const int *fds, ccl_i_group_t *out,
                              ccl_error_t *err);
void ccl_i_group_fini(ccl_i_group_t *group);

/** Begin to watch a run. */
void ccl_i_group_watch_begin(ccl_i_group_t *group);
/**
 * Look at messages for at most wait_s. Sets *watch->stop when nothing moves anywhere any more
 * (group->hung), or when a process is gone.
 */
ccl_status_t ccl_i_group_tick(ccl_i_group_t *group, const ccl_i_watch_t *watch, double wait_s,
                              ccl_error_t *err);
/**
 * Every process gives `len` bytes and gets all of them, [world * len], in order. `len` must be the
 * same everywhere. While it waits it watches (NULL: not). @retval CCL_ERR_IO  a process is gone.
 */
ccl_status_t ccl_i_group_exchange(ccl_i_group_t *group, const void *mine, size_t len, void *all,
                                  const ccl_i_watch_t *watch, ccl_error_t *err);
/**
 * All processes succeed, or all return the error of the lowest process that did not.
 * @param status, err  this process's own.
 */
ccl_status_t ccl_i_group_agree(ccl_i_group_t *group, ccl_status_t status, ccl_error_t *err);

#endif
