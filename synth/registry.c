/* The synthesizers behind one interface. */
#include "synth/registry.h"
#include "synth/compose/compose.h"

#include <string.h>

static const ccl_synth_ops_t *const all[] = {
#define CCL_I_SYNTH_ENTRY(name_) &ccl_i_synth_##name_,
    CCL_I_SYNTH_MAP(CCL_I_SYNTH_ENTRY)
#undef CCL_I_SYNTH_ENTRY
        NULL};

const ccl_synth_ops_t *const *ccl_synth_all(void) {
    return all;
}

const ccl_synth_ops_t *ccl_synth_find(const char *name) {
    for (uint32_t i = 0; name && all[i]; i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    return NULL;
}

static ccl_status_t unknown(const char *name, ccl_error_t *err) {
    const char *names[CCL_ARRAY_LEN(all)];
    char list[256] = "";
    size_t len = 0;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(all); i++) {
        names[i] = all[i] ? all[i]->name : NULL;
        if (names[i] && len + strlen(names[i]) + 3 < sizeof list) {
            memcpy(list + len, i ? ", " : "", i ? 2 : 0);
            len += i ? 2 : 0;
            memcpy(list + len, names[i], strlen(names[i]) + 1);
            len += strlen(names[i]);
        }
    }
    const char *near = ccl_nearest(name, names);
    if (near)
        return ccl_fail(err, CCL_ERR_INPUT, "unknown synthesizer '%.40s', did you mean '%s'", name,
                        near);
    return ccl_fail(err, CCL_ERR_INPUT, "unknown synthesizer '%.40s': one of %s", name, list);
}

/* Clusters from this size on are composed of pods where nobody says otherwise. */
#define COMPOSE_RANKS 96u

static ccl_status_t inner(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                          const ccl_collective_t *want, const ccl_synth_options_t *options,
                          ccl_schedule_t **out, ccl_error_t *err, void *user) {
    const ccl_synth_ops_t *ops = *(const ccl_synth_ops_t **)user;
    const char *why = NULL;
    if (!ops->supports(topo, want, &why))
        return ccl_fail(err, CCL_UNSUPPORTED, "%s cannot do %s on a part: %s", ops->name,
                        want->name, why);
    return ops->synthesize(ctx, topo, routes, want, options, out, err);
}

/* As a whole, or composed. */
static ccl_status_t make(const ccl_ctx_t *ctx, const ccl_synth_ops_t *ops,
                         const ccl_topology_t *topo, ccl_routes_t *routes,
                         const ccl_collective_t *want, const ccl_synth_options_t *options,
                         ccl_schedule_t **out, ccl_error_t *err) {
    ccl_compose_t how = options->compose;
    if (how == CCL_COMPOSE_ON && !ops->composable)
        return ccl_fail(err, CCL_UNSUPPORTED, "%s is not composed of pods' schedules", ops->name);
    if (ops->composable &&
        (how == CCL_COMPOSE_ON || (how == CCL_COMPOSE_AUTO && topo->nranks >= COMPOSE_RANKS))) {
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_status_t status =
            ccl_i_compose(ctx, ops->name, topo, routes, want, options, inner, &ops, out, &why);
        if (status != CCL_UNSUPPORTED || how == CCL_COMPOSE_ON) {
            if (err && status != CCL_OK)
                *err = why;
            return status;
        }
    }
    return ops->synthesize(ctx, topo, routes, want, options, out, err);
}

ccl_status_t ccl_synthesize(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                            ccl_routes_t *routes, const ccl_collective_t *want,
                            const ccl_synth_options_t *options, ccl_schedule_t **out,
                            ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_synth_options_t, options, err);
    const ccl_synth_options_t defaults = CCL_SYNTH_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(name);
    const char *why = NULL;
    ccl_routes_t *own_routes = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_verdict_t *verdict = NULL;
    if (!ops)
        return unknown(name, err);
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    if (want->kind != CCL_CUSTOM && want->chunks_per_block != 1)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%s starts from a collective with 1 chunk per block, not %u", name,
                        want->chunks_per_block);
    if (!options)
        options = &defaults;
    if (ops->supports_with ? !ops->supports_with(topo, want, options, &why)
                           : !ops->supports(topo, want, &why))
        return ccl_fail(err, CCL_UNSUPPORTED, "%s cannot do %s here: %s", name, want->name, why);
    if (!routes) {
        routes = own_routes = ccl_routes_create(topo);
        if (!routes)
            return ccl_fail_nomem(err);
    }
    ccl_status_t status = make(ctx, ops, topo, routes, want, options, &schedule, err);
    if (status != CCL_OK)
        goto end;
    schedule->rounds = ops->ordered;
    verdict = ccl_arena_alloc(&schedule->arena, 1, sizeof *verdict);
    if (!verdict) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ccl_schedule_verify(ctx, schedule, verdict, err), status, end);
    if (!verdict->valid) {
        status = ccl_fail(err, CCL_ERR_INTERNAL, "%s made a wrong schedule: %s", name,
                          verdict->fault.text);
        goto end;
    }
    *out = schedule;
    schedule = NULL;
end:
    ccl_schedule_destroy(schedule);
    ccl_routes_destroy(own_routes);
    return status;
}
