/* The synthesizers behind one interface. */
#include "synth/registry.h"
#include "synth/compose/compose.h"
#include "synth/packing/stagger.h"
#include "synth/switch/through.h"

#include <string.h>

#define COUNT_ONE(name_) +1
enum { BUILT_IN = 0 CCL_I_SYNTH_MAP(COUNT_ONE), MOST_ADDED = 16 };
#undef COUNT_ONE

/* Decision 77: the only mutable data of the library. */
static struct {
    const ccl_synth_ops_t *all[BUILT_IN + MOST_ADDED + 1];
    struct {
        const ccl_synth_ops_t *given, *ops; /* ops: in `all` */
        ccl_synth_ops_t copy;               /* with options: their places are others */
        ccl_i_own_t own;
        char version[24];
    } added[MOST_ADDED];
    uint32_t nadded;
} registry = {.all = {
#define ENTRY(name_) &ccl_i_synth_##name_,
                  CCL_I_SYNTH_MAP(ENTRY)
#undef ENTRY
              }};

const ccl_synth_ops_t *const *ccl_synth_all(void) {
    return registry.all;
}

const ccl_synth_ops_t *ccl_synth_find(const char *name) {
    for (uint32_t i = 0; name && registry.all[i]; i++) {
        if (strcmp(registry.all[i]->name, name) == 0)
            return registry.all[i];
    }
    return NULL;
}

const char *ccl_synth_version(const ccl_synth_ops_t *ops) {
    for (uint32_t i = 0; i < registry.nadded; i++)
        if (registry.added[i].ops == ops || registry.added[i].given == ops)
            return registry.added[i].version;
    return "";
}

const void *ccl_synth_own(const ccl_synth_options_t *options, const char *name) {
    for (uint32_t i = 0; i < registry.nadded; i++)
        if (registry.added[i].own.options && strcmp(registry.added[i].ops->name, name) == 0)
            return (const char *)options->own + registry.added[i].own.from;
    return NULL;
}

bool ccl_synth_takes_part(const ccl_synth_ops_t *ops, const ccl_topology_t *topo) {
    return (!ops->in_switch || ccl_topology_able(topo)) && !ops->by_name;
}

/* Lower case, digits, hyphens; begins with a letter: it stands in lists, files and settings. */
static bool is_name(const char *name) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return name[0] >= 'a' && name[0] <= 'z' && len <= 31 && name[len] == '\0';
}

static ccl_status_t check_ops(const ccl_synth_ops_t *ops, ccl_error_t *err) {
    if (!ops)
        return ccl_fail(err, CCL_ERR_INPUT, "no synthesizer is given");
    CCL_OPTIONS_TRY(ccl_synth_ops_t, ops, err);
    if (!ops->name || !is_name(ops->name))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a synthesizer's name has 1 to 31 characters a to z, 0 to 9 and -, and "
                        "begins with a letter");
    if (!ops->summary || !ops->source || !ops->supports || !ops->synthesize)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "synthesizer %s lacks summary, source, supports() or synthesize()",
                        ops->name);
    if (ccl_synth_find(ops->name))
        return ccl_fail(err, CCL_ERR_INPUT, "there is a synthesizer %s already", ops->name);
    if (registry.nadded == MOST_ADDED)
        return ccl_fail(err, CCL_ERR_INPUT, "more than %d synthesizers are added", MOST_ADDED);
    return CCL_OK;
}

/* With options of its own a copy, whose tables say where they are. */
static ccl_status_t place(const ccl_synth_ops_t **ops, ccl_error_t *err) {
    uint32_t n = registry.nadded;
    ccl_i_own_t used = n ? registry.added[n - 1].own : (ccl_i_own_t){0}, own;
    for (uint32_t i = 0; i + 1 < n; i++)
        used.options += registry.added[i].own.options;
    CCL_TRY(ccl_i_own_check(*ops, used, &own, err));
    registry.added[n].own = own;
    if (own.options == 0)
        return CCL_OK;
    const ccl_option_t *const *tables = ccl_i_own_place(*ops, &own);
    if (!tables)
        return ccl_fail_nomem(err);
    registry.added[n].copy = **ops;
    registry.added[n].copy.options = tables;
    *ops = &registry.added[n].copy;
    return CCL_OK;
}

ccl_status_t ccl_synth_register(const ccl_synth_ops_t *ops, const char *version, ccl_error_t *err) {
    const ccl_synth_ops_t *given = ops;
    for (uint32_t i = 0; i < registry.nadded; i++)
        if (registry.added[i].given == ops)
            return CCL_OK;
    CCL_TRY(check_ops(ops, err));
    if (!version || !*version || strlen(version) >= sizeof registry.added->version)
        return ccl_fail(err, CCL_ERR_INPUT, "a version has 1 to %zu characters",
                        sizeof registry.added->version - 1);
    CCL_TRY(place(&ops, err));
    registry.added[registry.nadded].given = given;
    registry.added[registry.nadded].ops = ops;
    snprintf(registry.added[registry.nadded++].version, sizeof registry.added->version, "%s",
             version);
    uint32_t n = 0, at = 0;
    while (registry.all[n])
        n++;
    while (!ops->by_name && at < n && !registry.all[at]->by_name)
        at++;
    at = ops->by_name ? n : at;
    memmove(&registry.all[at + 1], &registry.all[at], (n - at) * sizeof(registry.all[0]));
    registry.all[at] = ops;
    return CCL_OK;
}

static ccl_status_t unknown(const char *name, ccl_error_t *err) {
    const ccl_synth_ops_t *const *all = registry.all;
    const char *names[CCL_ARRAY_LEN(registry.all)];
    char list[256] = "";
    size_t len = 0;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(registry.all); i++) {
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

/* As a whole, or composed. */
static ccl_status_t make(const ccl_synth_ops_t *ops, const ccl_i_asked_t *asked,
                         ccl_schedule_t **out, ccl_error_t *err) {
    ccl_compose_t how = asked->options->compose;
    if (how == CCL_COMPOSE_ON && !ops->composable)
        return ccl_fail(err, CCL_UNSUPPORTED, "%s is not composed of pods' schedules", ops->name);
    if (ops->composable && (how == CCL_COMPOSE_ON ||
                            (how == CCL_COMPOSE_AUTO && asked->topo->nranks >= COMPOSE_RANKS))) {
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_status_t status = ccl_i_compose(asked, ops, out, &why);
        if (status != CCL_UNSUPPORTED || how == CCL_COMPOSE_ON) {
            if (err && status != CCL_OK)
                *err = why;
            return status;
        }
    }
    return ops->synthesize(asked->ctx, asked->topo, asked->routes, asked->want, asked->options, out,
                           err);
}

static ccl_status_t check_want(const char *name, const ccl_topology_t *topo,
                               const ccl_collective_t *want, ccl_error_t *err) {
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    if (want->kind != CCL_CUSTOM && want->chunks_per_block != 1)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%s starts from a collective with 1 chunk per block, not %u", name,
                        want->chunks_per_block);
    return CCL_OK;
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
    CCL_TRY(check_want(name, topo, want, err));
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
    const ccl_i_asked_t asked = {ctx, topo, routes, want, options};
    const bool through = ops->through_switches && !options->plain && !options->no_switches &&
                         ccl_topology_able(topo);
    ccl_status_t status = CCL_OK;
    if (through)
        CCL_TRY_GOTO(ccl_i_through_alone(ops, &asked, &schedule, err), status, end);
    const bool alone = schedule != NULL;
    if (!alone)
        CCL_TRY_GOTO(make(ops, &asked, &schedule, err), status, end);
    schedule->rounds = schedule->rounds || ops->ordered;
    if (!schedule->origin[0])
        ccl_origin_set(schedule->origin, "%s", name);
    if (through && !alone)
        CCL_TRY_GOTO(ccl_i_through_if_faster(ctx, ops, topo, routes, options, &schedule, err),
                     status, end);
    if (ops->staggers)
        CCL_TRY_GOTO(ccl_i_stagger_if_faster(&asked, &schedule, err), status, end);
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
