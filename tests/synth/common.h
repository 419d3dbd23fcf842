/* Shared by the tests of synth: topologies by specification, one checked synthesis. */
#ifndef CCL_TESTS_SYNTH_COMMON_H
#define CCL_TESTS_SYNTH_COMMON_H

#include "synth/synth.h"
#include "tests/base/nightly.h"
#include "tests/topologies/topologies.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline ccl_collective_t *collective(ccl_collective_kind_t kind, uint32_t n, uint32_t root) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(kind, n, 1, root, &coll, NULL), CCL_OK);
    return coll;
}

static char solved_dir[] = "/tmp/ccllab-solved-XXXXXX";

static inline void solved_remove(void) {
    DIR *dir = opendir(solved_dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", solved_dir, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(solved_dir);
}

/** Of this process: sub-demands of sketches are solved once, though many collectives have them. */
static inline const char *solved_once(void) {
    static bool made;
    if (!made) {
        ck_assert_ptr_nonnull(mkdtemp(solved_dir));
        made = atexit(solved_remove) == 0;
    }
    return solved_dir;
}

/**
 * Not here: under the address sanitizer, ten times as slow, those that search go through one kind
 * of collective, at night two; the plain build has them in all.
 */
static inline bool only_plain(const ccl_synth_ops_t *ops, ccl_collective_kind_t kind) {
#ifdef __SANITIZE_ADDRESS__
    return ops->by_size && kind != CCL_ALLREDUCE && (kind != CCL_ALLGATHER || !nightly());
#else
    (void)ops;
    (void)kind;
    return false;
#endif
}

/** The program computes the collective; with FIFOs of `slots`. */
static inline void check_program(const ccl_program_t *program, uint32_t slots, const char *what) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    options.slots = slots;
    options.batches = 2;
    ccl_status_t status = ccl_program_verify(NULL, program, &options, verdict, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
    ck_assert_msg(verdict->valid, "%s: %s: %s", what, verdict->fault.kind, verdict->fault.text);
    free(verdict);
}

/** What it makes of a collective (root 0), with the options or, where NULL, the defaults. */
static inline ccl_schedule_t *synthesized(const char *name, const ccl_topology_t *topo,
                                          ccl_collective_kind_t kind,
                                          const ccl_synth_options_t *options) {
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_synthesize(NULL, name, topo, NULL, want, options, &schedule, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", name, err.text);
    ccl_collective_destroy(want);
    return schedule;
}

/** Simulated seconds of the schedule, lowered. */
static inline double lowered_s(const ccl_topology_t *topo, const ccl_schedule_t *schedule,
                               const ccl_lower_options_t *lower, const ccl_sim_options_t *sim) {
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_lower(NULL, schedule, lower, &program, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, program, sim, &result, &err) == CCL_OK, "%s",
                  err.text);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

/** lowered_s() of `size` bytes by `way`, for the topology. */
static inline double timed_s(const ccl_topology_t *topo, const ccl_schedule_t *schedule,
                             double size, ccl_way_t way) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = sim.granularity = way.granularity;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = size;
    return lowered_s(topo, schedule, &lower, &sim);
}

/** Synthesize (the schedule is verified inside), lower in all ways, verify. False: unsupported. */
static inline bool check_all(const char *name, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_collective_t *want, const ccl_synth_options_t *options,
                             unsigned ways, const char *spec) {
    char what[300];
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *schedule = NULL;
    snprintf(what, sizeof what, "%s %s root %u on %s", name, want->name, want->root, spec);
    ccl_status_t status = ccl_synthesize(NULL, name, topo, routes, want, options, &schedule, &err);
    if (status == CCL_UNSUPPORTED)
        return false;
    ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        const ccl_route_t *route;
        if (ccl_peer_is_group(t->src) || ccl_peer_is_group(t->dst))
            continue; /* trees are found when the program is simulated */
        ck_assert_msg(ccl_routes_get(routes, t->src, t->dst, t->channel, &route, &err) == CCL_OK,
                      "%s: %s", what, err.text);
    }
    for (unsigned way = 0; way < 4; way++) {
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        ccl_program_t *program = NULL;
        if (!(ways >> way & 1))
            continue;
        lower.out_of_place = way & 1;
        lower.no_fuse = way & 2;
        lower.slots = way == 0 ? 2 : 1;
        status = ccl_lower(NULL, schedule, &lower, &program, &err);
        ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
        check_program(program, way == 0 ? 2 : 1, what);
        ccl_program_destroy(program);
    }
    ccl_schedule_destroy(schedule);
    return true;
}

/**
 * Runs and events of a synthesizer, the same on three threads and one.
 * @param twice  on both; else on three
 */
static inline ccl_work_t work_alone(const char *name, const char *spec, ccl_collective_kind_t kind,
                                    double size, bool twice, bool *through) {
    ccl_topology_t *topo = topology(spec);
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_work_t work = {0};
    ccl_origin_t origin = "";
    options.size_bytes = size;
    for (uint32_t k = 0; k < 1u + twice; k++) {
        ccl_schedule_t *schedule = NULL;
        ccl_ctx_t ctx = CCL_CTX_INIT;
        work = (ccl_work_t){0};
        ctx.threads = k ? 1 : 3;
        ctx.work = &work;
        MUST(ccl_synthesize(&ctx, name, topo, NULL, want, &options, &schedule, e));
        ck_assert(!origin[0] || strcmp(origin, schedule->origin) == 0);
        ccl_origin_set(origin, "%s", schedule->origin);
        *through = schedule->ngroups > 0;
        ccl_schedule_destroy(schedule);
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return work;
}

#endif
