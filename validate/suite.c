/* The programs of a suite: built here by name, or read from files. */
#include "validate/validate.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LINE 4096u

static const char default_suite[] = "allgather ring 4\nallgather direct 4\nallgather recursive 4\n"
                                    "reducescatter ring 4\nreducescatter direct 4\n"
                                    "reducescatter recursive 4\n"
                                    "allreduce ring 4\nallreduce direct 4\nallreduce recursive 4\n"
                                    "alltoall direct 4\nalltoall pairwise 4\n"
                                    "allgather ring 8\nallgather direct 8\nallgather recursive 8\n"
                                    "reducescatter ring 8\nreducescatter direct 8\n"
                                    "reducescatter recursive 8\n"
                                    "allreduce ring 8\nallreduce direct 8\nallreduce recursive 8\n"
                                    "alltoall direct 8\nalltoall pairwise 8\n";

/* Ranks of the host are all alike: as GPUs behind one switch. */
static ccl_status_t synthesize(const ccl_ctx_t *ctx, ccl_collective_kind_t kind, const char *with,
                               uint32_t ranks, uint32_t channels, ccl_validate_case_t *out,
                               ccl_error_t *err) {
    char spec[96];
    ccl_topology_t *topo = NULL;
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(with);
    if (!ops)
        return ccl_fail(err, CCL_ERR_INPUT, "no synthesizer \"%.60s\" (ccllab algos)", with);
    snprintf(spec, sizeof spec, "servers:1 gpus:%u nvswitch=100GB/s,1us", ranks);
    ccl_routes_t *routes = NULL;
    ccl_status_t status = ccl_topology_read(ctx, spec, &topo, err);
    if (status == CCL_OK && !(routes = ccl_routes_create(topo)))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_collective_create(kind, ranks, 1, 0, &coll, err);
    options.channels = channels;
    if (status == CCL_OK)
        status = ccl_synthesize(ctx, with, topo, routes, coll, &options, &schedule, err);
    ccl_way_t way = ccl_way_choose(ops->way, ccl_way_hpds, 0);
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = way.granularity;
    lower.topo = topo;
    lower.routes = routes;
    if (status == CCL_OK)
        status = ccl_lower(ctx, schedule, &lower, &program, err);
    out->program = program;
    out->granularity = way.granularity;
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(coll);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return status;
}

static ccl_status_t add_case(const ccl_ctx_t *ctx, const char *name, int line, char *text,
                             ccl_suite_t *suite, size_t *cap, ccl_error_t *err) {
    char collective[64], with[64], rest[8], label[100];
    unsigned ranks = 0, channels = 1;
    ccl_collective_kind_t kind;
    ccl_validate_case_t c = {.granularity = CCL_GRANULARITY_ALGORITHM};
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_status_t status;
    int n = sscanf(text, "%63s %63s %u %u %7s", collective, with, &ranks, &channels, rest);
    if (n == 1) {
        char *path = text + strspn(text, " \t");
        path[strcspn(path, " \t\r")] = '\0';
        ccl_program_t *program = NULL;
        CCL_TRY(ccl_program_read(path, &program, err));
        c.program = program;
        ccl_file_title(path, label, sizeof label);
        snprintf(collective, sizeof collective, "%.63s",
                 ccl_collective_kind_name(program->coll->kind));
    } else {
        if (n < 3 || n > 4 || ranks < 2 || ranks > 64 || channels < 1 || channels > 64)
            return ccl_error_set(err, CCL_ERR_INPUT, name, line, 0,
                                 "\"%.60s\": collective, synthesizer, ranks (2 to 64) and perhaps "
                                 "channels (1 to 64), or the path of a program, are needed",
                                 text);
        status = ccl_collective_kind_parse(collective, &kind, &inner);
        if (status == CCL_OK)
            status = synthesize(ctx, kind, with, ranks, channels, &c, &inner);
        if (status != CCL_OK)
            return ccl_error_set(err, status, name, line, 0, "%s", inner.text);
        snprintf(label, sizeof label, n == 4 ? "%s/%u" : "%s", with, channels);
    }
    c.collective = ccl_arena_strdup(&suite->arena, collective);
    c.schedule = ccl_arena_strdup(&suite->arena, label);
    if (!c.collective || !c.schedule ||
        !ccl_grow(&suite->cases, cap, suite->ncases + (size_t)1, sizeof *suite->cases)) {
        ccl_program_destroy((ccl_program_t *)c.program);
        return ccl_fail_nomem(err);
    }
    suite->cases[suite->ncases++] = c;
    return CCL_OK;
}

static ccl_status_t read_lines(const ccl_ctx_t *ctx, const char *name, const char *text,
                               ccl_suite_t *suite, ccl_error_t *err) {
    char one[MAX_LINE];
    size_t cap = 0;
    for (int line = 1; *text; line++) {
        size_t len = strcspn(text, "\n"), used = strcspn(text, "#\n");
        if (used >= sizeof one)
            return ccl_error_set(err, CCL_ERR_INPUT, name, line, 0, "a line of %zu characters",
                                 used);
        memcpy(one, text, used);
        one[used] = '\0';
        if (one[strspn(one, " \t\r")])
            CCL_TRY(add_case(ctx, name, line, one, suite, &cap, err));
        text += text[len] ? len + 1 : len;
    }
    return suite->ncases ? CCL_OK
                         : ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0, "no case in the suite");
}

ccl_status_t ccl_suite_read(const ccl_ctx_t *ctx, const char *spec, ccl_suite_t **out,
                            ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0;
    ccl_suite_t *suite = calloc(1, sizeof *suite);
    if (!suite)
        return ccl_fail_nomem(err);
    ccl_arena_init(&suite->arena);
    ccl_status_t status = CCL_OK;
    if (strcmp(spec, "default") != 0)
        status = ccl_file_read(spec, (size_t)1 << 20, &text, &len, err);
    if (status == CCL_OK)
        status = read_lines(ctx, spec, text ? text : default_suite, suite, err);
    free(text);
    if (status != CCL_OK) {
        ccl_suite_destroy(suite);
        return status;
    }
    *out = suite;
    return CCL_OK;
}

void ccl_suite_destroy(ccl_suite_t *suite) {
    if (!suite)
        return;
    for (uint32_t i = 0; i < suite->ncases; i++)
        ccl_program_destroy((ccl_program_t *)suite->cases[i].program);
    free(suite->cases);
    ccl_arena_fini(&suite->arena);
    free(suite);
}
