/**
 * @file verbs.c
 * RDMA devices, ports and addresses.
 */
#include "runtime/wire/verbs_i.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** "DEVICE[:PORT[:GID]]"; -1: any. */
typedef struct wanted {
    char device[IBV_SYSFS_NAME_MAX];
    long port, gid;
} wanted_t;

static bool number(const char **at, long most, long *out) {
    char *end;
    errno = 0;
    *out = strtol(*at, &end, 10);
    bool ok = end != *at && errno == 0 && *out >= 0 && *out <= most;
    *at = end;
    return ok;
}

static ccl_status_t parse(const char *text, wanted_t *out, ccl_error_t *err) {
    *out = (wanted_t){.port = -1, .gid = -1};
    if (!text)
        return CCL_OK;
    size_t n = strcspn(text, ":");
    const char *at = text + n;
    bool ok = n < sizeof out->device;
    if (ok)
        memcpy(out->device, text, n);
    if (ok && *at == ':')
        ok = (at++, number(&at, 255, &out->port)) && out->port > 0;
    if (ok && *at == ':')
        ok = (at++, number(&at, 65535, &out->gid));
    if (!ok || *at)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "'%s' is no RDMA port: DEVICE[:PORT[:GID INDEX]] is wanted, as mlx5_0:1:3",
                        text);
    return CCL_OK;
}

/* ---------------------------------------------------------------- addresses */

/** The better an address the more: RoCE version 2 by IPv4, by IPv6, others. */
static int worth(const struct ibv_gid_entry *gid) {
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    bool second = gid->gid_type == IBV_GID_TYPE_ROCE_V2;
    bool mapped = memcmp(gid->gid.raw, ipv4, sizeof ipv4) == 0;
    bool local = gid->gid.raw[0] == 0xfe && (gid->gid.raw[1] & 0xc0) == 0x80;
    return 1 + (local ? 0 : 1) + (mapped ? 2 : 0) + (second ? 4 : 0);
}

static bool find_gid(ccl_i_verbs_t *v, long want) {
    int best = 0;
    for (int i = 0; i < v->port.gid_tbl_len; i++) {
        struct ibv_gid_entry gid;
        if ((want >= 0 && i != want) ||
            ibv_query_gid_ex(v->context, v->port_number, (uint32_t)i, &gid, 0) ||
            worth(&gid) <= best)
            continue;
        best = worth(&gid);
        v->gid_index = i;
        v->gid = gid.gid;
    }
    return best > 0;
}

/* ---------------------------------------------------------------- ports */

/** @param why  what is wrong with the last port that could not be used. */
static bool use_port(ccl_i_verbs_t *v, uint8_t port, const wanted_t *want, char *why, size_t len) {
    const char *device = ibv_get_device_name(v->context->device);
    v->port_number = port;
    snprintf(v->name, sizeof v->name, "%.48s port %u", device, port);
    if (ibv_query_port(v->context, port, &v->port)) {
        snprintf(why, len, "RDMA device %s cannot be queried: %s", v->name, strerror(errno));
        return false;
    }
    if (v->port.state != IBV_PORT_ACTIVE) {
        snprintf(why, len, "RDMA device %s is %s", v->name, ibv_port_state_str(v->port.state));
        return false;
    }
    v->ethernet = v->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (!find_gid(v, want->gid) && (v->ethernet || want->gid >= 0)) {
        snprintf(why, len, "RDMA device %s has no such address (GID)", v->name);
        return false;
    }
    return true;
}

static bool use_device(ccl_i_verbs_t *v, struct ibv_device *device, const wanted_t *want, char *why,
                       size_t len) {
    v->context = ibv_open_device(device);
    if (!v->context || ibv_query_device(v->context, &v->device)) {
        snprintf(why, len, "RDMA device %s cannot be opened: %s", ibv_get_device_name(device),
                 strerror(errno));
    } else {
        for (unsigned port = 1; port <= v->device.phys_port_cnt; port++)
            if ((want->port < 0 || port == (unsigned)want->port) &&
                use_port(v, (uint8_t)port, want, why, len))
                return true;
    }
    if (v->context)
        ibv_close_device(v->context);
    v->context = NULL;
    return false;
}

ccl_status_t ccl_i_verbs_open(const char *text, ccl_i_verbs_t **out, ccl_error_t *err) {
    char why[160] = "there is no RDMA device";
    wanted_t want;
    int n = 0;
    CCL_TRY(parse(text, &want, err));
    if (want.device[0])
        snprintf(why, sizeof why, "there is no RDMA device %s", text);
    ccl_i_verbs_t *v = calloc(1, sizeof *v);
    if (!v)
        return ccl_fail_nomem(err);
    struct ibv_device **list = ibv_get_device_list(&n); /* NULL: a kernel without any */
    for (int i = 0; list && i < n && !v->context; i++)
        if (!want.device[0] || strcmp(want.device, ibv_get_device_name(list[i])) == 0)
            use_device(v, list[i], &want, why, sizeof why);
    if (list)
        ibv_free_device_list(list);
    if (!v->context) {
        free(v);
        return ccl_fail(err, CCL_ERR_MISSING, "%s", why);
    }
    *out = v;
    return CCL_OK;
}

void ccl_i_verbs_close(ccl_i_verbs_t *v) {
    if (!v)
        return;
    ibv_close_device(v->context);
    free(v);
}
