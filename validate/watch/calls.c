/*
 * Calls by communicator, collective and size. Memory is bounded: of a size the latest calls are
 * kept, found by their numbers, as the ranks of a call may be read in any order; means of ranks and
 * channels forget.
 */
#include "validate/watch/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GROUPS 65536u
#define FEW 4u /* calls, from which on they have quartiles */

ccl_status_t ccl_watch_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_watch_options_t *options, ccl_watch_t **out,
                              ccl_error_t *err) {
    static const ccl_watch_options_t defaults = CCL_WATCH_OPTIONS_INIT;
    CCL_OPTIONS_TRY(ccl_watch_options_t, options, err);
    ccl_watch_t *w = calloc(1, sizeof *w);
    if (!w)
        return ccl_fail_nomem(err);
    w->ctx = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    w->topo = topo;
    w->options = options ? *options : defaults;
    if (w->options.window == 0)
        w->options.window = CCL_WATCH_WINDOW;
    ccl_arena_init(&w->arena);
    w->follow = ccl_i_follow_create(w->options.follow);
    w->group_keys = ccl_strmap_create();
    w->part_keys = ccl_strmap_create();
    w->expected_keys = ccl_strmap_create();
    w->cause_keys = ccl_strmap_create();
    if (!w->follow || !w->group_keys || !w->part_keys || !w->expected_keys || !w->cause_keys) {
        ccl_watch_destroy(w);
        return ccl_fail_nomem(err);
    }
    *out = w;
    return CCL_OK;
}

void ccl_watch_destroy(ccl_watch_t *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->ngroups; i++) {
        free(w->groups[i].slots);
        free(w->groups[i].ranks);
        free(w->groups[i].channels);
    }
    for (size_t i = 0; i < w->nparts; i++) {
        ccl_predictor_destroy(w->parts[i].predictor);
        ccl_topology_destroy(w->parts[i].laid);
        ccl_topology_destroy(w->parts[i].topo);
    }
    for (size_t i = 0; i < w->ncauses; i++)
        free(w->causes[i].claim);
    free(w->groups);
    free(w->parts);
    free(w->expected);
    free(w->causes);
    ccl_strmap_destroy(w->group_keys);
    ccl_strmap_destroy(w->part_keys);
    ccl_strmap_destroy(w->expected_keys);
    ccl_strmap_destroy(w->cause_keys);
    ccl_i_follow_destroy(w->follow);
    ccl_arena_fini(&w->arena);
    free(w);
}

/* NULL: out of memory, or more groups than are kept (*full). */
static ccl_i_watch_group_t *group_of(ccl_watch_t *w, const ccl_i_inspector_record_t *r,
                                     bool *full) {
    char key[360];
    const char *clock = r->clock && strcmp(r->clock, "kernel_gpu") != 0 ? r->clock : "";
    snprintf(key, sizeof key, "%d|%.100s|%u|%u|%.60s|%.17g", (int)r->kind, r->id, r->nranks,
             r->nnodes, clock, r->size_bytes);
    uint32_t at = ccl_strmap_get(w->group_keys, key);
    if (at != CCL_NONE)
        return &w->groups[at];
    *full = w->ngroups == MAX_GROUPS;
    if (*full || !ccl_grow(&w->groups, &w->groups_cap, w->ngroups + 1, sizeof *w->groups))
        return NULL;
    char *id = ccl_arena_strdup(&w->arena, r->id), *kept = ccl_arena_strdup(&w->arena, clock);
    ccl_i_slot_t *slots = calloc(w->options.window, sizeof *slots);
    if (!id || !kept || !slots || !ccl_strmap_put(w->group_keys, key, (uint32_t)w->ngroups)) {
        free(slots);
        return NULL;
    }
    ccl_i_watch_group_t *g = &w->groups[w->ngroups++];
    *g = (ccl_i_watch_group_t){.id = id,
                               .clock = kept,
                               .kind = r->kind,
                               .nranks = r->nranks,
                               .nnodes = r->nnodes <= r->nranks ? r->nnodes : 0,
                               .size_bytes = r->size_bytes,
                               .slots = slots,
                               .nslots = w->options.window};
    return g;
}

static void mean_add(ccl_i_mean_t *m, double value, double window) {
    if (m->n >= window) {
        m->sum /= 2;
        m->n /= 2;
    }
    m->sum += value;
    m->n++;
}

static void remember(char *out, size_t out_len, const char *text) {
    snprintf(out, out_len, "%.*s", (int)out_len - 1, text ? text : "");
}

/* Of a call the least time counts; the calls with the greatest numbers are kept. */
static void add_time(ccl_i_watch_group_t *g, double number, double time_us) {
    ccl_i_slot_t *oldest = &g->slots[0];
    for (uint32_t i = 0; i < g->nslots; i++) {
        ccl_i_slot_t *slot = &g->slots[i];
        if (slot->time_us > 0 && slot->number == number) {
            slot->time_us = fmin(slot->time_us, time_us);
            return;
        }
        if (oldest->time_us > 0 && (slot->time_us == 0 || slot->number < oldest->number))
            oldest = slot;
    }
    if (oldest->time_us == 0 || oldest->number < number)
        *oldest = (ccl_i_slot_t){number, time_us};
}

static ccl_status_t add_record(ccl_watch_t *w, const ccl_i_inspector_record_t *r,
                               ccl_error_t *err) {
    bool full = false;
    ccl_i_watch_group_t *g = group_of(w, r, &full);
    double sum_us = 0;
    if (full) {
        ccl_log(&w->ctx, CCL_LOG_WARN, "watch",
                "more than %u sizes of communicators: further ones are left out", MAX_GROUPS);
        return CCL_OK;
    }
    if (!g)
        return ccl_fail_nomem(err);
    w->nlines++;
    g->calls++;
    add_time(g, isnan(r->number) ? (double)w->nlines : r->number, r->time_us);
    remember(g->algo, sizeof g->algo, r->algo);
    remember(g->proto, sizeof g->proto, r->proto);
    if (r->rank != CCL_NONE && !g->ranks && !(g->ranks = calloc(g->nranks, sizeof *g->ranks)))
        return ccl_fail_nomem(err);
    if (r->rank != CCL_NONE)
        mean_add(&g->ranks[r->rank], r->time_us, w->options.window);
    if (r->nchannels && !g->channels &&
        !(g->channels = calloc(CCL_I_MAX_CHANNELS, sizeof *g->channels)))
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < r->nchannels; c++)
        sum_us += r->channels_us[c];
    for (uint32_t c = 0; c < r->nchannels; c++)
        mean_add(&g->channels[r->channels[c]], r->channels_us[c] * r->nchannels / sum_us,
                 w->options.window);
    return CCL_OK;
}

static ccl_status_t read_line(ccl_watch_t *w, const char *file, const char *text, size_t len,
                              ccl_error_t *err) {
    ccl_json_doc_t doc;
    CCL_TRY(ccl_json_parse(file, text, len, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc), perf = ccl_json_member(&root, "coll_perf");
    ccl_i_inspector_record_t record;
    ccl_status_t status = CCL_OK;
    if (perf.value) /* else a send or receive alone, or a summary */
        status = ccl_i_inspector_parse(&root, &record, err);
    if (perf.value && status == CCL_OK && record.size_bytes > 0 && record.time_us > 0)
        status = add_record(w, &record, err);
    ccl_json_fini(&doc);
    return status;
}

static ccl_status_t on_line(void *user, const char *file, uint32_t line, const char *text,
                            size_t len, ccl_error_t *err) {
    ccl_watch_t *w = user;
    ccl_error_t why = CCL_ERROR_INIT;
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        len--;
    if (len == 0)
        return CCL_OK;
    ccl_status_t status = read_line(w, file, text, len, &why);
    if (status == CCL_OK)
        return CCL_OK;
    why.line = (int)line; /* the text is one line of the file */
    if (status != CCL_ERR_INPUT || !w->options.follow) {
        if (err)
            *err = why;
        return status;
    }
    char said[900];
    ccl_error_format(&why, said, sizeof said);
    if (w->bad++ == 0)
        ccl_log(&w->ctx, CCL_LOG_WARN, "watch", "%s: skipped, as other such lines", said);
    return CCL_OK;
}

ccl_status_t ccl_watch_read(ccl_watch_t *watch, const char *path, uint64_t *new_out,
                            ccl_error_t *err) {
    uint64_t before = watch->nlines;
    ccl_status_t status = ccl_i_follow_read(watch->follow, &watch->ctx, path, on_line, watch, err);
    *new_out = watch->nlines - before;
    return status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double ccl_i_group_median_us(const ccl_i_watch_group_t *group, double *spread_out,
                             ccl_error_t *err) {
    double *times_us = malloc(group->nslots * sizeof *times_us), median;
    size_t n = 0;
    *spread_out = 0;
    if (!times_us) {
        ccl_fail_nomem(err);
        return 0;
    }
    for (uint32_t i = 0; i < group->nslots; i++)
        if (group->slots[i].time_us > 0)
            times_us[n++] = group->slots[i].time_us;
    qsort(times_us, n, sizeof *times_us, by_value);
    median = n % 2 ? times_us[n / 2] : (times_us[n / 2 - 1] + times_us[n / 2]) / 2;
    /* Of a normal distribution two quartiles are 1.349 standard deviations apart. */
    if (n >= FEW)
        *spread_out = (times_us[n * 3 / 4] - times_us[n / 4]) / 1.349 / median;
    free(times_us);
    return median;
}
