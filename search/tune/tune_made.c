/*
 * The tuner's schedules: synthesized once per settings of synthesis (and size, where they depend on
 * it), those that come out equal kept once, all kept for later rounds while they are not too many.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Transfers of all schedules that are kept (some 1 GB). */
static const double KEPT_TRANSFERS = 2e7;

const ccl_synth_ops_t *ccl_i_point_ops(const double values[CCL_KNOBS]) {
    return ccl_synth_all()[(uint32_t)values[CCL_KNOB_WITH]];
}

uint32_t ccl_i_whole(double value, uint32_t otherwise) {
    return isnan(value) ? otherwise : (uint32_t)value;
}

ccl_synth_options_t ccl_i_point_synth(const double v[CCL_KNOBS], double size_bytes) {
    ccl_synth_options_t o = CCL_SYNTH_OPTIONS_INIT;
    if (ccl_i_point_ops(v)->by_size)
        o.size_bytes = size_bytes;
    for (uint32_t k = CCL_KNOB_CHANNELS; k < CCL_KNOB_ORDER; k++)
        if (!isnan(v[k]))
            ccl_option_put(ccl_knob_option((ccl_knob_t)k), v[k], &o);
    o.no_switches = !ccl_protocol_switches(ccl_i_point_lower(v).proto);
    return o;
}

/* ---------------------------------------------------------------- schedules */

/* What a schedule depends on; malloc'ed. */
static char *key_of(const ccl_i_tuner_t *t, const ccl_tune_point_t *point, double size_bytes) {
    const bool may = ccl_i_point_ops(point->values)->through_switches && ccl_topology_able(t->topo);
    const bool no_switches = may && !ccl_protocol_switches(ccl_i_point_lower(point->values).proto);
    double values[CCL_KNOBS];
    ccl_text_t text = {0};
    memcpy(values, point->values, sizeof values);
    for (uint32_t k = CCL_KNOB_ORDER; k < CCL_KNOBS; k++)
        if (k < CCL_KNOB_BLOCKS || k > CCL_KNOB_TB_RATE)
            values[k] = NAN;
    char *settings = ccl_space_settings(values);
    if (settings)
        ccl_text_printf(&text, "%s %.17g%s", settings,
                        ccl_i_point_ops(point->values)->by_size ? size_bytes : 0.0,
                        no_switches ? " no switches" : "");
    free(settings);
    if (!settings || text.nomem) {
        ccl_text_fini(&text);
        return NULL;
    }
    return text.data;
}

ccl_status_t ccl_i_made_want(ccl_i_tuner_t *t, const ccl_tune_run_t *run, ccl_error_t *err) {
    const ccl_tune_point_t *point = &t->out->points[run->point];
    double size_bytes = t->out->sizes_bytes[run->size];
    char *key = key_of(t, point, size_bytes);
    if (!key)
        return ccl_fail_nomem(err);
    if (ccl_strmap_get(t->by_key, key) != CCL_NONE) {
        free(key);
        return CCL_OK;
    }
    ccl_i_made_t *m = calloc(1, sizeof *m);
    if (!m || !ccl_grow(&t->made, &t->made_cap, t->nmade + 1u, sizeof *t->made) ||
        !ccl_strmap_put(t->by_key, key, t->nmade)) {
        free(m);
        free(key);
        return ccl_fail_nomem(err);
    }
    m->key = key;
    m->point = point;
    m->size_bytes = size_bytes;
    m->run_point = run->point;
    m->run_size = run->size;
    t->made[t->nmade++] = m;
    return CCL_OK;
}

/* What lowering and simulation look at. */
static void content_of(const ccl_schedule_t *s, ccl_content_t out) {
    const uint32_t shape[] = {(uint32_t)s->coll->kind,
                              s->coll->nchunks,
                              s->coll->chunks_per_block,
                              s->nchannels,
                              s->nsteps,
                              s->rounds,
                              s->joined,
                              s->listed,
                              s->stagger};
    uint64_t hash[2] = {1, 2};
    for (int i = 0; i < 2; i++) {
        hash[i] = ccl_hash64(shape, sizeof shape, hash[i]);
        hash[i] = ccl_hash64(&s->piece_bytes, sizeof s->piece_bytes, hash[i]);
        hash[i] = ccl_hash64(s->transfers, s->ntransfers * sizeof *s->transfers, hash[i]);
    }
    snprintf(out, sizeof(ccl_content_t), "%016llx%016llx", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
}
_Static_assert(sizeof(ccl_transfer_t) == 20, "no padding: transfers are hashed as bytes");

/* Only routes and time are the worker's own. A point whose cluster cannot be has no schedule. */
static ccl_status_t make(ccl_i_tuner_t *t, ccl_i_made_t *m, uint32_t worker, ccl_schedule_t **out,
                         ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_synth_options_t options = ccl_i_point_synth(m->point->values, m->size_bytes);
    ccl_routes_t *routes = NULL;
    ccl_i_tune_cluster_t *cluster = NULL;
    CCL_TRY(ccl_i_tune_poll(t, "synthesize", m->point->values, worker));
    CCL_TRY(ccl_i_cluster_of(t, m->point->values, &cluster, err));
    if (!cluster->topo) {
        m->tried = true;
        m->err = cluster->err;
        m->status = cluster->status;
        return CCL_OK;
    }
    CCL_TRY(ccl_i_cluster_routes(cluster, worker, &routes, err));
    ccl_synth_stats_t stats = {0};
    options.stats = &stats;
    double start_s = ccl_now_s();
    m->status = ccl_synthesize(&ctx, ccl_i_point_ops(m->point->values)->name, cluster->topo, routes,
                               t->want, &options, out, &m->err);
    m->synth_s = ccl_now_s() - start_s;
    m->tried = true;
    m->scarce = m->status == CCL_ERR_NOMEM || stats.dropped > 0;
    if (!ccl_i_stops_all(m->status))
        return CCL_OK;
    if (err)
        *err = m->err;
    return m->status;
}

static ccl_i_shared_t *share_of(ccl_schedule_t *schedule) {
    ccl_i_shared_t *shared = calloc(1, sizeof *shared);
    ccl_lower_memo_t *memo = ccl_lower_memo_create();
    if (!shared || !memo) {
        free(shared);
        ccl_lower_memo_destroy(memo);
        return NULL;
    }
    *shared = (ccl_i_shared_t){.schedule = schedule, .memo = memo, .users = 1};
    content_of(schedule, shared->content);
    return shared;
}

ccl_status_t ccl_i_made_one(ccl_i_tuner_t *t, uint32_t index, uint32_t worker, ccl_error_t *err) {
    ccl_i_made_t *m = t->made[index];
    ccl_schedule_t *schedule = NULL;
    m->status = CCL_OK;
    ccl_error_clear(&m->err);
    ccl_status_t status = make(t, m, worker, &schedule, err);
    if (status == CCL_ERR_NOMEM) /* of its routes */
        m->status = ccl_fail_nomem(&m->err);
    else
        CCL_TRY(status);
    if (m->status != CCL_OK)
        return CCL_OK;
    m->shared = share_of(schedule);
    if (m->shared)
        return CCL_OK;
    ccl_schedule_destroy(schedule);
    m->status = ccl_fail_nomem(&m->err);
    return CCL_OK;
}

static ccl_status_t synthesize(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_tuner_t *t = user;
    bool tried = t->made[t->first_new + index]->tried;
    return tried ? CCL_OK : ccl_i_made_one(t, t->first_new + index, worker, err);
}

void ccl_i_made_answer(const ccl_i_made_t *m, ccl_i_task_answer_t *out) {
    out->status = m->status;
    snprintf(out->why, sizeof out->why, "%.255s", m->status == CCL_OK ? "" : m->err.text);
    out->synth_s = m->synth_s;
    out->scarce = m->scarce;
    if (m->shared)
        memcpy(out->content, m->shared->content, sizeof out->content);
}

/* Those that there was no memory for beside others. */
static ccl_status_t synthesize_alone(ccl_i_tuner_t *t, ccl_error_t *err) {
    for (uint32_t i = 0; i < t->nmade - t->first_new; i++) {
        ccl_i_made_t *m = t->made[t->first_new + i];
        if (m->status == CCL_ERR_NOMEM && !m->by[0])
            CCL_TRY(ccl_i_made_one(t, t->first_new + i, 0, err));
    }
    return CCL_OK;
}

void ccl_i_made_destroy(ccl_i_made_t *m) {
    if (!m)
        return;
    if (m->shared && --m->shared->users == 0) {
        ccl_schedule_destroy(m->shared->schedule);
        ccl_lower_memo_destroy(m->shared->memo);
        free(m->shared);
    }
    free(m->key);
    free(m);
}

/* Knobs that a synthesizer does not look at, or that say what it does anyway, give equal schedules:
   one is kept. */
static void share(ccl_i_tuner_t *t) {
    for (uint32_t i = t->first_new; i < t->nmade; i++) {
        ccl_i_made_t *m = t->made[i];
        for (uint32_t k = 0; m->shared && k < i; k++) {
            ccl_i_shared_t *other = t->made[k]->shared;
            if (!other || strcmp(other->content, m->shared->content) != 0)
                continue;
            if (!other->schedule) { /* it may be another process's only */
                ccl_i_shared_t swap = *other;
                other->schedule = m->shared->schedule;
                other->memo = m->shared->memo;
                m->shared->schedule = swap.schedule;
                m->shared->memo = swap.memo;
            }
            ccl_schedule_destroy(m->shared->schedule);
            ccl_lower_memo_destroy(m->shared->memo);
            free(m->shared);
            m->shared = other;
            other->users++;
            break;
        }
    }
}

ccl_status_t ccl_i_made_all(ccl_i_tuner_t *t, ccl_error_t *err) {
    ccl_status_t status = t->queued ? ccl_i_queue_make(t, err) : CCL_OK;
    if (status == CCL_OK)
        status = ccl_parallel_for(t->nmade - t->first_new, t->threads, synthesize, t, err);
    if (status == CCL_OK && t->threads > 1)
        status = synthesize_alone(t, err);
    for (uint32_t i = t->first_new; i < t->nmade; i++)
        t->out->synth_s += t->made[i]->synth_s;
    t->out->schedules += t->nmade - t->first_new;
    if (status == CCL_OK)
        share(t);
    return status;
}

ccl_status_t ccl_i_made_of(const ccl_i_tuner_t *t, const ccl_tune_run_t *run,
                           const ccl_i_made_t **out, ccl_error_t *err) {
    char *key = key_of(t, &t->out->points[run->point], t->out->sizes_bytes[run->size]);
    if (!key)
        return ccl_fail_nomem(err);
    *out = t->made[ccl_strmap_get(t->by_key, key)];
    free(key);
    return CCL_OK;
}

ccl_status_t ccl_i_made_here(ccl_i_tuner_t *t, const ccl_tune_run_t *run, uint32_t worker,
                             ccl_error_t *err) {
    const ccl_i_made_t *found = NULL;
    CCL_TRY(ccl_i_made_of(t, run, &found, err));
    if (!found->shared || found->shared->schedule)
        return CCL_OK;
    ccl_i_made_t again = *found;
    again.point = &t->out->points[run->point];
    if (!again.shared->memo)
        again.shared->memo = ccl_lower_memo_create();
    if (!again.shared->memo)
        return ccl_fail_nomem(err);
    CCL_TRY(make(t, &again, worker, &again.shared->schedule, err));
    if (again.status == CCL_ERR_NOMEM)
        return ccl_fail_nomem(err);
    return again.status == CCL_OK ? CCL_OK : ccl_fail(err, CCL_ERR_INTERNAL, "%s", again.err.text);
}

/* Too many: all but those of the last round go. */
ccl_status_t ccl_i_made_forget(ccl_i_tuner_t *t, ccl_error_t *err) {
    double transfers = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->nmade; i++)
        if (t->made[i]->shared && t->made[i]->shared->schedule)
            transfers +=
                (double)t->made[i]->shared->schedule->ntransfers / t->made[i]->shared->users;
    if (transfers <= KEPT_TRANSFERS)
        return CCL_OK;
    for (uint32_t i = 0; i < t->first_new; i++)
        ccl_i_made_destroy(t->made[i]);
    for (uint32_t i = t->first_new; i < t->nmade; i++)
        t->made[kept++] = t->made[i];
    t->nmade = kept;
    ccl_strmap_destroy(t->by_key);
    t->by_key = ccl_strmap_create();
    for (uint32_t i = 0; t->by_key && i < kept; i++)
        if (!ccl_strmap_put(t->by_key, t->made[i]->key, i))
            return ccl_fail_nomem(err);
    return t->by_key ? CCL_OK : ccl_fail_nomem(err);
}
