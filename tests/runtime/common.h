/* Shared by the tests of runtime: programs by specification, a run that must be right. */
#ifndef CCL_TESTS_RUNTIME_COMMON_H
#define CCL_TESTS_RUNTIME_COMMON_H

#include "runtime/runtime.h"
#include "synth/synth.h"
#include "tests/topologies/topologies.h"

#include <arpa/inet.h>
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static inline ccl_collective_t *collective(ccl_collective_kind_t kind, uint32_t n, uint32_t root) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(kind, n, 1, root, &coll, NULL), CCL_OK);
    return coll;
}

/** A synthesizer's program of a built-in collective. */
static inline ccl_program_t *program_of(const char *with, ccl_collective_kind_t kind,
                                        const char *spec, const ccl_lower_options_t *how) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_status_t status = ccl_synthesize(NULL, with, topo, routes, want, &options, &schedule, &err);
    ck_assert_msg(status == CCL_OK, "%s on %s: %s", with, spec, err.text);
    status = ccl_lower(NULL, schedule, how ? how : &lower, &program, &err);
    ck_assert_msg(status == CCL_OK, "%s on %s: %s", with, spec, err.text);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return program;
}

/** Must be right; returns the result. */
static inline ccl_run_result_t *run_right(const ccl_program_t *program,
                                          const ccl_run_options_t *options, const char *what) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *result = NULL;
    ccl_status_t status = ccl_run_program(NULL, program, options, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s: %s", what, ccl_status_name(status), err.text);
    return result;
}

/** A port that nobody has now. */
static inline void free_root(char *out, size_t len) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    close(fd);
    snprintf(out, len, "127.0.0.1:%u", ntohs(at.sin_port));
}

/** A block on each of two ranks that receives before it sends. */
static inline ccl_program_t *stuck(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p = NULL;
    ccl_program_builder_t *b =
        ccl_program_builder_create("stuck", collective(CCL_SENDRECV, 2, 0), 1, "Simple");
    ccl_program_builder_place(b, false, true, 0, 0);
    for (uint32_t r = 0; r < 2; r++) {
        ccl_step_t step = {.type = CCL_PRIM_R,
                           .dst_buf = CCL_BUF_OUTPUT,
                           .count = 1,
                           .dep_tb = CCL_NONE,
                           .dep_step = CCL_NONE};
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, 1);
        ccl_program_builder_buffer(b, r, CCL_BUF_OUTPUT, 1);
        uint32_t tb = ccl_program_builder_tb(b, r, 1 - r, 1 - r, 0);
        ccl_program_builder_step(b, tb, step);
        step.type = CCL_PRIM_S;
        ccl_program_builder_step(b, tb, step);
    }
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

/** Runs process `rank` of a job in a child; its exit code is the status. `dies`: in the midst of
 * its runs, after a second, without a word. */
static inline pid_t start(const ccl_program_t *p, const ccl_run_options_t *base, uint32_t rank,
                          bool dies) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    ccl_run_options_t o = *base;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.rank = rank;
    if (dies) {
        signal(SIGALRM, SIG_DFL);
        alarm(1);
    }
    ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
    ccl_run_result_destroy(r);
    _exit((int)status);
}

/** Of a child that has ended: its exit code, -1 where a signal ended it. */
static inline int status_of(pid_t pid) {
    int state = 0;
    ck_assert_int_eq(waitpid(pid, &state, 0), pid);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

#endif
