/* What switches can do with data that pass them. */
#include "topologies/builder.h"

#include <math.h>
#include <string.h>

#include "topologies/internal.h"

const ccl_device_t ccl_i_able_both = {
    .multicast = true, .reduce = true, .reduce_rate_Bps = INFINITY};

bool ccl_device_sums(const ccl_device_t *device, const char *type) {
    size_t len = strlen(type);
    if (!device->reduce || !device->types)
        return device->reduce;
    for (const char *s = device->types; s; s = strchr(s, ' ')) {
        s += *s == ' ';
        if (strncmp(s, type, len) == 0 && (s[len] == ' ' || s[len] == 0))
            return true;
    }
    return false;
}

/* Words of letters, digits and underscores, one blank between, all different. */
static ccl_status_t types_check(const char *id, const char *types, ccl_error_t *err) {
    if (strlen(types) > CCL_I_MAX_TYPES_BYTES)
        return ccl_fail(err, CCL_ERR_INPUT, "types of switch \"%s\" are longer than %d bytes", id,
                        CCL_I_MAX_TYPES_BYTES);
    for (const char *s = types;; s++) {
        size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (len == 0 || (s[len] && s[len] != ' '))
            return ccl_fail(err, CCL_ERR_INPUT, "types of switch \"%s\" are no words such as bf16",
                            id);
        for (const char *t = types; t < s; t += strcspn(t, " ") + 1)
            if (strncmp(t, s, len) == 0 && t[len] == ' ')
                return ccl_fail(err, CCL_ERR_INPUT, "switch \"%s\" has type \"%.*s\" twice", id,
                                (int)len, s);
        s += len;
        if (!*s)
            return CCL_OK;
    }
}

ccl_status_t ccl_topology_builder_abilities(ccl_topology_builder_t *b, uint32_t device,
                                            const ccl_device_t *like, ccl_error_t *err) {
    if (device >= b->ndevices)
        return ccl_fail(err, CCL_ERR_INPUT, "abilities of device %u, but there are %zu", device,
                        b->ndevices);
    ccl_device_t *d = &b->devices[device];
    bool limited = like->reduce_rate_Bps != INFINITY;
    const char *first = like->multicast ? "multicast"
                        : like->reduce  ? "reduce"
                        : like->groups  ? "groups"
                        : limited       ? "reduce_rate"
                                        : "types";
    if (!like->multicast && !like->reduce && !like->groups && !limited && !like->types)
        return CCL_OK;
    if (d->kind != CCL_DEVICE_SWITCH)
        return ccl_fail(err, CCL_ERR_INPUT, "%s \"%s\" has \"%s\", but only switches have it",
                        ccl_i_device_kind_name(d->kind), d->id, first);
    if (like->groups && !like->multicast && !like->reduce)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "switch \"%s\" has \"groups\", but neither \"multicast\" nor \"reduce\"",
                        d->id);
    if ((limited || like->types) && !like->reduce)
        return ccl_fail(err, CCL_ERR_INPUT, "switch \"%s\" has \"%s\", but not \"reduce\"", d->id,
                        limited ? "reduce_rate" : "types");
    if (limited && (!(like->reduce_rate_Bps > 0) || !isfinite(like->reduce_rate_Bps)))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "reduce_rate %g B/s of switch \"%s\" is not a positive, finite rate",
                        like->reduce_rate_Bps, d->id);
    const char *types = NULL;
    if (like->types) {
        CCL_TRY(types_check(d->id, like->types, err));
        types = ccl_arena_strdup(&b->arena, like->types);
        if (!types)
            return ccl_fail_nomem(err);
    }
    d->multicast = like->multicast;
    d->reduce = like->reduce;
    d->groups = like->groups;
    d->reduce_rate_Bps = like->reduce_rate_Bps;
    d->types = types;
    return CCL_OK;
}
