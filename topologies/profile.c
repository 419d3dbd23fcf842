/* Profiles, "ccllab-profile-1": measured constants laid over those of a topology. */
#include "topologies/topologies.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "topologies/readers/constants.h"
#include "topologies/internal.h"
#include "topologies/library_data.h"

struct ccl_profile {
    ccl_json_doc_t doc;
    const char *name, *summary, *machine, *date, *command, *source;
    const ccl_curve_t *curves;
    uint32_t ncurves;
    ccl_arena_t arena; /* of the curves */
};

/* ---------------------------------------------------------------- reading */

/* "links": {"nvlink": {"efficiency": 0.8, "contention": 0.01}} */
static ccl_status_t check_links(const ccl_json_at_t *root, ccl_error_t *err) {
    static const char *const keys[] = {"efficiency", "contention", NULL};
    ccl_json_at_t links = ccl_json_member(root, "links");
    if (!links.value)
        return CCL_OK;
    CCL_TRY(ccl_json_object(&links, true, err));
    const char *kind;
    json_t *value;
    json_object_foreach((json_t *)links.value, kind, value) {
        ccl_json_at_t at = ccl_json_member(&links, kind);
        CCL_TRY(ccl_json_object(&at, true, err));
        CCL_TRY(ccl_json_only(&at, keys, err));
        ccl_json_at_t v = ccl_json_member(&at, "efficiency");
        double efficiency = 1;
        CCL_TRY(ccl_json_number(&v, false, &efficiency, err));
        if (!(efficiency > 0) || efficiency > 2)
            return ccl_json_fail(&v, err, "efficiency %g; above 0, at most 2 (1: as described)",
                                 efficiency);
        double contention = 0;
        v = ccl_json_member(&at, "contention");
        CCL_TRY(ccl_json_number(&v, false, &contention, err));
        if (!(contention >= 0))
            return ccl_json_fail(&v, err, "contention %g; at least 0 is needed", contention);
    }
    return CCL_OK;
}

/* The topology's own reader checks every entry, into a builder that is thrown away. */
static ccl_status_t check_transports(const ccl_json_at_t *root, ccl_topology_builder_t *b,
                                     ccl_error_t *err) {
    ccl_json_at_t all = ccl_json_member(root, "transports");
    if (!all.value)
        return CCL_OK;
    CCL_TRY(ccl_json_object(&all, true, err));
    const char *kind;
    json_t *value;
    json_object_foreach((json_t *)all.value, kind, value) {
        ccl_json_at_t at = ccl_json_member(&all, kind);
        CCL_TRY(ccl_i_constants_transport(&at, kind, b, err));
    }
    return CCL_OK;
}

static ccl_status_t check_gpu_models(const ccl_json_at_t *root, ccl_topology_builder_t *b,
                                     ccl_error_t *err) {
    ccl_json_at_t all = ccl_json_member(root, "gpu_models");
    if (!all.value)
        return CCL_OK;
    CCL_TRY(ccl_json_object(&all, true, err));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)all.value, name, value) {
        ccl_json_at_t at = ccl_json_member(&all, name);
        CCL_TRY(ccl_i_constants_gpu_model(&at, name, b, err));
    }
    return CCL_OK;
}

static ccl_status_t check(ccl_profile_t *p, ccl_error_t *err) {
    static const char *const keys[] = {
        "format",     "name", "summary",   "machine",    "date", "command", "source", "links",
        "transports", "fit",  "constants", "gpu_models", "host", "device",  "curves", NULL};
    ccl_json_at_t root = ccl_json_root(&p->doc);
    CCL_TRY(ccl_json_object(&root, true, err));
    const char *format = NULL;
    ccl_json_at_t v = ccl_json_member(&root, "format");
    CCL_TRY(ccl_json_string(&v, true, &format, err));
    if (strcmp(format, "ccllab-profile-1") != 0)
        return ccl_json_fail(&v, err, "format \"%.60s\"; a profile is \"ccllab-profile-1\"",
                             format);
    CCL_TRY(ccl_json_only(&root, keys, err));
#define TEXT_(field_, required_)                                                                   \
    p->field_ = "";                                                                                \
    v = ccl_json_member(&root, #field_);                                                           \
    CCL_TRY(ccl_json_string(&v, required_, &p->field_, err))
    TEXT_(name, true);
    TEXT_(summary, false);
    TEXT_(machine, false);
    TEXT_(date, false);
    TEXT_(command, false);
    TEXT_(source, false);
#undef TEXT_
    ccl_topology_builder_t *b = ccl_topology_builder_create("profile");
    if (!b)
        return ccl_fail_nomem(err);
    ccl_status_t status;
    CCL_TRY_GOTO(check_links(&root, err), status, done);
    CCL_TRY_GOTO(check_transports(&root, b, err), status, done);
    CCL_TRY_GOTO(check_gpu_models(&root, b, err), status, done);
    status = ccl_i_curves_read(&root, &p->arena, &p->curves, &p->ncurves, err);
done:
    ccl_topology_builder_destroy(b);
    return status;
}

ccl_status_t ccl_profile_read_text(const char *name, const char *text, size_t len,
                                   ccl_profile_t **out, ccl_error_t *err) {
    ccl_profile_t *p = calloc(1, sizeof *p);
    if (!p)
        return ccl_fail_nomem(err);
    ccl_arena_init(&p->arena);
    ccl_status_t status = ccl_json_parse(name, text, len, &p->doc, err);
    if (status != CCL_OK) {
        free(p);
        return status;
    }
    status = check(p, err);
    if (status != CCL_OK) {
        ccl_profile_destroy(p);
        return status;
    }
    *out = p;
    return CCL_OK;
}

static ccl_status_t no_such(const char *spec, ccl_error_t *err) {
    ccl_text_t names = {0};
    for (const ccl_profile_entry_t *e = ccl_profile_library(); e->name; e++)
        ccl_text_printf(&names, "%s%s", names.len ? ", " : "", e->name);
    ccl_status_t status =
        ccl_fail(err, CCL_ERR_INPUT, "no file and no library profile \"%.200s\"; there are %s",
                 spec, names.data ? names.data : "none");
    ccl_text_fini(&names);
    return status;
}

static ccl_status_t of_library(const char *name, ccl_profile_t **out, ccl_error_t *err) {
    for (const ccl_profile_entry_t *e = ccl_profile_library(); e->name; e++)
        if (strcmp(e->name, name) == 0)
            return ccl_profile_read_text(e->name, e->text, e->len, out, err);
    return no_such(name, err);
}

ccl_status_t ccl_profile_read(const char *spec, ccl_profile_t **out, ccl_error_t *err) {
    struct stat info;
    bool is_stdin = strcmp(spec, "-") == 0;
    bool is_file = is_stdin || (stat(spec, &info) == 0 && !S_ISDIR(info.st_mode));
    if (!is_file)
        return of_library(spec, out, err);
    char *data = NULL;
    size_t len = 0;
    CCL_TRY(ccl_file_read(spec, CCL_I_MAX_FILE_BYTES, &data, &len, err));
    ccl_status_t status = ccl_profile_read_text(is_stdin ? "<stdin>" : spec, data, len, out, err);
    free(data);
    return status;
}

void ccl_profile_destroy(ccl_profile_t *profile) {
    if (!profile)
        return;
    ccl_json_fini(&profile->doc);
    ccl_arena_fini(&profile->arena);
    free(profile);
}

ccl_status_t ccl_profile_write(const ccl_profile_t *profile, const char *kind,
                               const char *constants, ccl_text_t *out, ccl_error_t *err) {
    json_t *root = json_deep_copy(profile->doc.root);
    json_t *own = kind ? json_loads(constants, 0, NULL) : NULL;
    json_t *all = root ? json_object_get(root, "transports") : NULL;
    bool ok = root && (!kind || own);
    if (ok && kind && !all)
        ok = (all = json_object()) && json_object_set_new(root, "transports", all) == 0;
    if (ok && kind)
        ok = json_object_set(all, kind, own) == 0;
    char *text = ok ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (text)
        ccl_text_printf(out, "%s\n", text);
    free(text);
    json_decref(own);
    json_decref(root);
    return text && !out->nomem ? CCL_OK : ccl_fail_nomem(err);
}

const char *ccl_profile_name(const ccl_profile_t *profile) {
    return profile->name;
}

uint32_t ccl_profile_curves(const ccl_profile_t *profile, const ccl_curve_t **out) {
    *out = profile->curves;
    return profile->ncurves;
}

const char *ccl_profile_source(const ccl_profile_t *profile) {
    return profile->source;
}

bool ccl_profile_is_fitted(const ccl_profile_t *profile) {
    return profile->command[0] != 0;
}

const char *ccl_profile_summary(const ccl_profile_t *profile) {
    return profile->summary;
}

/* Has it all these GPU models, and constants of one of the kinds of links, if of any? */
static bool is_of(const ccl_profile_t *p, const ccl_topology_t *topo) {
    static const char *const of_links[] = {"links", "transports"};
    const json_t *models = json_object_get(p->doc.root, "gpu_models");
    bool some = false, mine = false;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t m = topo->devices[topo->rank_device[r]].model;
        if (m == CCL_NONE || !json_object_get(models, topo->gpu_models[m].name))
            return false;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(of_links); i++) {
        const json_t *kinds = json_object_get(p->doc.root, of_links[i]);
        some |= json_object_size(kinds) > 0;
        for (uint32_t k = 0; k < topo->nkinds; k++)
            mine |= json_object_get(kinds, topo->kinds[k]) != NULL;
    }
    return mine || !some;
}

ccl_status_t ccl_profile_for(const ccl_topology_t *topo, ccl_profile_t **out, ccl_error_t *err) {
    const ccl_profile_entry_t *e = ccl_profile_library();
    *out = NULL;
    if (!*topo->profile && *topo->own_profile)
        return of_library(topo->own_profile, out, err);
    for (; !*topo->profile && e->name; e++) {
        ccl_profile_t *p = NULL;
        CCL_TRY(ccl_profile_read_text(e->name, e->text, e->len, &p, err));
        if (ccl_profile_is_fitted(p) && is_of(p, topo)) {
            *out = p;
            return CCL_OK;
        }
        ccl_profile_destroy(p);
    }
    return CCL_OK;
}

const ccl_profile_entry_t *ccl_profile_library(void) {
    return ccl_i_library_profiles;
}

/* ---------------------------------------------------------------- applying */

/* Members of `from` over those of `into`, objects inside objects key by key. */
static bool merge(json_t *into, const json_t *from) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)from, key, value) {
        json_t *old = json_object_get(into, key);
        if (json_is_object(old) && json_is_object(value)) {
            if (!merge(old, value))
                return false;
        } else if (json_object_set_new(into, key, json_deep_copy(value)) != 0) {
            return false;
        }
    }
    return true;
}

static json_t *member_object(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (value)
        return value;
    value = json_object();
    if (!value || json_object_set_new(object, key, value) != 0)
        return NULL;
    return value;
}

static ccl_status_t apply_gpu_models(const ccl_profile_t *p, const ccl_topology_t *topo,
                                     json_t *cluster, ccl_error_t *err) {
    const json_t *models = json_object_get(p->doc.root, "gpu_models");
    if (!models || json_object_size(models) == 0)
        return CCL_OK;
    uint32_t hits = 0;
    json_t *all = member_object(cluster, "gpu_models");
    if (!all)
        return ccl_fail_nomem(err);
    for (uint32_t m = 0; m < topo->ngpu_models; m++) {
        const json_t *mine = json_object_get(models, topo->gpu_models[m].name);
        if (!mine)
            continue;
        hits++;
        json_t *entry = member_object(all, topo->gpu_models[m].name);
        if (!entry || !merge(entry, mine))
            return ccl_fail_nomem(err);
    }
    if (hits)
        return CCL_OK;
    const char *first = json_object_iter_key(json_object_iter((json_t *)models));
    return ccl_fail(err, CCL_ERR_INPUT,
                    "profile \"%.100s\" is of GPU model \"%.60s\", cluster \"%.100s\" has none of "
                    "its models (it has %.60s)",
                    p->name, first ? first : "", topo->name,
                    topo->ngpu_models ? topo->gpu_models[0].name : "no models at all");
}

static const json_t *link_member(const ccl_profile_t *p, const char *kind, const char *key) {
    return json_object_get(json_object_get(json_object_get(p->doc.root, "links"), kind), key);
}

static ccl_status_t apply_links(const ccl_profile_t *p, const ccl_topology_t *topo, json_t *cluster,
                                ccl_error_t *err) {
    json_t *links = json_object_get(cluster, "links"), *link;
    size_t i;
    if (!json_object_get(p->doc.root, "links"))
        return CCL_OK;
    (void)topo;
    json_array_foreach(links, i, link) {
        const char *kind = json_string_value(json_object_get(link, "kind"));
        const json_t *share = kind ? link_member(p, kind, "efficiency") : NULL;
        const json_t *contention = kind ? link_member(p, kind, "contention") : NULL;
        double efficiency = share ? json_number_value(share) : 1, Bps = 0;
        if (contention && json_object_set_new(link, "contention", json_deep_copy(contention)) != 0)
            return ccl_fail_nomem(err);
        if (efficiency == 1)
            continue;
        char text[64];
        CCL_TRY(
            ccl_parse_rate_Bps(json_string_value(json_object_get(link, "bandwidth")), &Bps, err));
        if (json_object_set_new(
                link, "bandwidth",
                json_string(ccl_format_rate(Bps * efficiency, text, sizeof text))) != 0)
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

/* Who gave `slots`: the profile where it has them, else who gave them before. */
static ccl_status_t name_givers(const ccl_profile_t *p, const ccl_topology_t *topo,
                                ccl_topology_t *out, ccl_error_t *err) {
    const json_t *mine = json_object_get(p->doc.root, "transports");
    ccl_transport_spec_t *specs = (ccl_transport_spec_t *)out->transports; /* it is ours yet */
    char name[140];
    snprintf(name, sizeof name, "profile %.120s", p->name);
    for (uint32_t i = 0; i < out->ntransports; i++) {
        ccl_transport_spec_t *spec = &specs[i];
        const json_t *entry = json_object_get(mine, spec->kind);
        const char *from = NULL;
        if (spec->protocol)
            entry = json_object_get(json_object_get(entry, "protocols"), spec->protocol);
        for (uint32_t t = 0; t < topo->ntransports; t++) {
            const ccl_transport_spec_t *old = &topo->transports[t];
            if (strcmp(old->kind, spec->kind) == 0 && !old->protocol == !spec->protocol &&
                (!spec->protocol || strcmp(old->protocol, spec->protocol) == 0))
                from = old->slots_from;
        }
        if (json_object_get(entry, "slots"))
            from = name;
        spec->slots_from = from ? ccl_arena_strdup(&out->arena, from) : NULL;
        if (from && !spec->slots_from)
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

ccl_status_t ccl_profile_apply(const ccl_ctx_t *ctx, const ccl_profile_t *profile,
                               const ccl_topology_t *topo, ccl_topology_t **out, ccl_error_t *err) {
    ccl_text_t text = {0};
    char *merged = NULL;
    ccl_json_doc_t doc = {0};
    ccl_topology_t *laid = NULL;
    ccl_status_t status;
    CCL_TRY_GOTO(ccl_topology_write_json(topo, &text, err), status, done);
    CCL_TRY_GOTO(ccl_json_parse(topo->name, text.data, text.len, &doc, err), status, done);
    CCL_TRY_GOTO(apply_gpu_models(profile, topo, doc.root, err), status, done);
    CCL_TRY_GOTO(apply_links(profile, topo, doc.root, err), status, done);
    const json_t *transports = json_object_get(profile->doc.root, "transports");
    if (transports) {
        json_t *all = member_object(doc.root, "transports");
        if (!all || !merge(all, transports)) {
            status = ccl_fail_nomem(err);
            goto done;
        }
    }
    merged = json_dumps(doc.root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!merged) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    char name[256];
    snprintf(name, sizeof name, "%.120s with profile %.100s", topo->name, profile->name);
    CCL_TRY_GOTO(ccl_topology_read_json(ctx, name, merged, strlen(merged), &laid, err), status,
                 done);
    CCL_TRY_GOTO(name_givers(profile, topo, laid, err), status, done);
    laid->profile = ccl_arena_strdup(&laid->arena, profile->name);
    laid->profile_about = ccl_arena_strdup(&laid->arena, profile->summary);
    if (!laid->profile || !laid->profile_about) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    *out = laid;
    laid = NULL;
done:
    ccl_topology_destroy(laid);
    free(merged);
    ccl_json_fini(&doc);
    ccl_text_fini(&text);
    return status;
}
