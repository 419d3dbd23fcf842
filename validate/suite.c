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

/* Of a cluster; what a synthesizer does not do there is left out. */
static const char *const default_on[] = {
    "allgather ring",     "allgather direct",     "allgather recursive",     "allgather hm",
    "reducescatter ring", "reducescatter direct", "reducescatter recursive", "reducescatter hm",
    "allreduce ring",     "allreduce direct",     "allreduce recursive",     "allreduce tree",
    "allreduce hm",       "alltoall direct",      "alltoall pairwise",
};

typedef struct reader {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo; /* cluster of all cases; NULL: ranks that are all alike */
    const char *name;           /* for messages */
    ccl_suite_t *suite;
    size_t cap;
} reader_t;

/* Ranks of the host are all alike: as GPUs behind one switch. */
static ccl_status_t synthesize(const reader_t *rd, ccl_collective_kind_t kind, const char *with,
                               uint32_t ranks, uint32_t channels, ccl_validate_case_t *out,
                               ccl_error_t *err) {
    char spec[96];
    ccl_topology_t *alike = NULL;
    ccl_collective_t *coll = NULL;
    ccl_made_t made = {0};
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(with);
    if (!ops)
        return ccl_fail(err, CCL_ERR_INPUT, "no synthesizer \"%.60s\" (ccllab algos)", with);
    snprintf(spec, sizeof spec, "servers:1 gpus:%u nvswitch=100GB/s,1us", ranks);
    ccl_routes_t *routes = NULL;
    ccl_status_t status = rd->topo ? CCL_OK : ccl_topology_read(rd->ctx, spec, &alike, err);
    const ccl_topology_t *topo = rd->topo ? rd->topo : alike;
    if (status == CCL_OK && !(routes = ccl_routes_create(topo)))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_collective_create(kind, ranks, 1, 0, &coll, err);
    options.channels = channels;
    if (status == CCL_OK)
        status = ccl_make(rd->ctx, with, topo, routes, coll, &options, NULL, false, &made, err);
    out->program = made.program;
    out->granularity = made.way.granularity;
    made.program = NULL;
    ccl_made_fini(&made);
    ccl_collective_destroy(coll);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(alike);
    return status;
}

static ccl_status_t add_case(reader_t *rd, int line, char *text, ccl_error_t *err) {
    ccl_suite_t *suite = rd->suite;
    const char *name = rd->name;
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
        ranks = program->nranks;
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
        if (status == CCL_OK && rd->topo && ranks != rd->topo->nranks)
            status = ccl_fail(&inner, CCL_ERR_INPUT, "%u ranks, but the cluster has %u", ranks,
                              rd->topo->nranks);
        if (status == CCL_OK)
            status = synthesize(rd, kind, with, ranks, channels, &c, &inner);
        if (status != CCL_OK)
            return ccl_error_set(err, status, name, line, 0, "%s", inner.text);
        snprintf(label, sizeof label, n == 4 ? "%s/%u" : "%s", with, channels);
    }
    if (rd->topo && ranks != rd->topo->nranks) {
        ccl_program_destroy((ccl_program_t *)c.program);
        return ccl_error_set(err, CCL_ERR_INPUT, name, line, 0,
                             "a program for %u ranks, but the cluster has %u", ranks,
                             rd->topo->nranks);
    }
    c.collective = ccl_arena_strdup(&suite->arena, collective);
    c.schedule = ccl_arena_strdup(&suite->arena, label);
    if (!c.collective || !c.schedule ||
        !ccl_grow(&suite->cases, &rd->cap, suite->ncases + (size_t)1, sizeof *suite->cases)) {
        ccl_program_destroy((ccl_program_t *)c.program);
        return ccl_fail_nomem(err);
    }
    suite->cases[suite->ncases++] = c;
    return CCL_OK;
}

static ccl_status_t read_lines(reader_t *rd, const char *text, ccl_error_t *err) {
    char one[MAX_LINE];
    for (int line = 1; *text; line++) {
        size_t len = strcspn(text, "\n"), used = strcspn(text, "#\n");
        if (used >= sizeof one)
            return ccl_error_set(err, CCL_ERR_INPUT, rd->name, line, 0, "a line of %zu characters",
                                 used);
        memcpy(one, text, used);
        one[used] = '\0';
        if (one[strspn(one, " \t\r")])
            CCL_TRY(add_case(rd, line, one, err));
        text += text[len] ? len + 1 : len;
    }
    return rd->suite->ncases
               ? CCL_OK
               : ccl_error_set(err, CCL_ERR_INPUT, rd->name, 0, 0, "no case in the suite");
}

/* Some synthesizers want servers of several GPUs, or numbers of ranks that are powers of two. */
static ccl_status_t read_default_on(reader_t *rd, ccl_error_t *err) {
    char line[80];
    for (size_t i = 0; i < CCL_ARRAY_LEN(default_on); i++) {
        ccl_error_t inner = CCL_ERROR_INIT;
        snprintf(line, sizeof line, "%s %u", default_on[i], rd->topo->nranks);
        ccl_status_t status = add_case(rd, 0, line, &inner);
        if (status == CCL_ERR_NOMEM || status == CCL_INTERRUPTED)
            return ccl_fail(err, status, "%s", inner.text);
    }
    return rd->suite->ncases ? CCL_OK : ccl_fail(err, CCL_ERR_INPUT, "no case for this cluster");
}

ccl_status_t ccl_suite_read_on(const ccl_ctx_t *ctx, const char *spec, const ccl_topology_t *topo,
                               ccl_suite_t **out, ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0;
    ccl_suite_t *suite = calloc(1, sizeof *suite);
    if (!suite)
        return ccl_fail_nomem(err);
    ccl_arena_init(&suite->arena);
    ccl_status_t status = CCL_OK;
    bool builtin = strcmp(spec, "default") == 0;
    reader_t rd = {.ctx = ctx, .topo = topo, .name = spec, .suite = suite};
    if (!builtin)
        status = ccl_file_read(spec, (size_t)1 << 20, &text, &len, err);
    if (status == CCL_OK)
        status = builtin && topo ? read_default_on(&rd, err)
                                 : read_lines(&rd, builtin ? default_suite : text, err);
    free(text);
    if (status != CCL_OK) {
        ccl_suite_destroy(suite);
        return status;
    }
    *out = suite;
    return CCL_OK;
}

ccl_status_t ccl_suite_read(const ccl_ctx_t *ctx, const char *spec, ccl_suite_t **out,
                            ccl_error_t *err) {
    return ccl_suite_read_on(ctx, spec, NULL, out, err);
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
