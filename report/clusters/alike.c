/* Servers and links of a cluster that look alike. */
#include "report/clusters/alike.h"

#include <stdlib.h>
#include <string.h>

const char *const ccl_i_device_kinds[CCL_I_DEVICE_KINDS] = {"gpu", "switch", "nic", "host"};

void ccl_i_server_content(const ccl_topology_t *topo, uint32_t server, ccl_text_t *out) {
    uint32_t kinds[CCL_I_DEVICE_KINDS] = {0};
    bool some = false;

    for (uint32_t m = 0; m <= topo->ngpu_models; m++) {
        uint32_t n = 0;

        for (uint32_t r = 0; r < topo->nranks; r++) {
            const ccl_device_t *d = &topo->devices[topo->rank_device[r]];

            if (d->server == server && d->model == (m < topo->ngpu_models ? m : CCL_NONE))
                n++;
        }
        if (n == 0)
            continue;
        ccl_text_printf(out, "%s%u x %s", some ? ", " : "", n,
                        m < topo->ngpu_models ? topo->gpu_models[m].name : "gpu");
        some = true;
    }
    for (uint32_t i = 0; i < topo->ndevices; i++) {
        if (topo->devices[i].server == server)
            kinds[topo->devices[i].kind]++;
    }
    for (uint32_t k = CCL_DEVICE_SWITCH; k < CCL_I_DEVICE_KINDS; k++) {
        if (kinds[k] == 0)
            continue;
        ccl_text_printf(out, "%s%u %s%s", some ? ", " : "", kinds[k], ccl_i_device_kinds[k],
                        kinds[k] == 1 ? "" : (k == CCL_DEVICE_SWITCH ? "es" : "s"));
        some = true;
    }
}

void ccl_i_alikes_fini(ccl_i_alikes_t *a) {
    for (size_t i = 0; i < a->n; i++)
        free(a->rows[i].key);
    free(a->rows);
    ccl_strmap_destroy(a->map);
}

static ccl_status_t alikes_add(ccl_i_alikes_t *a, const ccl_text_t *key, uint32_t index,
                               ccl_error_t *err) {
    const char *text = key->data ? key->data : "";
    uint32_t at;

    if (key->nomem || (!a->map && !(a->map = ccl_strmap_create())))
        return ccl_fail_nomem(err);
    at = ccl_strmap_get(a->map, text);
    if (at == CCL_NONE) {
        if (!ccl_grow(&a->rows, &a->cap, a->n + 1, sizeof(*a->rows)) ||
            !(a->rows[a->n].key = strdup(text)))
            return ccl_fail_nomem(err);
        at = (uint32_t)a->n++;
        a->rows[at].first = index;
        a->rows[at].count = 0;
        if (!ccl_strmap_put(a->map, text, at))
            return ccl_fail_nomem(err);
    }
    a->rows[at].count++;
    a->rows[at].last = index;
    return CCL_OK;
}

static ccl_status_t servers_alike(const ccl_topology_t *topo, ccl_i_alikes_t *out,
                                  ccl_error_t *err) {
    for (uint32_t s = 0; s < topo->nservers; s++) {
        ccl_text_t key = {0};
        ccl_status_t status;

        ccl_i_server_content(topo, s, &key);
        status = alikes_add(out, &key, s, err);
        ccl_text_fini(&key);
        CCL_TRY(status);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_links_alike(const ccl_topology_t *topo, ccl_i_alikes_t *out, ccl_error_t *err) {
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        ccl_text_t key = {0};
        ccl_status_t status;
        char a[40];
        char b[40];
        char c[40];

        ccl_text_printf(&key, "%u %s %s %u %s", link->kind,
                        ccl_i_number(link->bandwidth_Bps, a, sizeof(a)),
                        ccl_i_number(link->latency_s, b, sizeof(b)), link->lanes,
                        ccl_i_number(link->contention, c, sizeof(c)));
        status = alikes_add(out, &key, l, err);
        ccl_text_fini(&key);
        CCL_TRY(status);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_servers_text(const ccl_topology_t *topo, uint32_t most, ccl_text_t *out,
                                ccl_error_t *err) {
    ccl_i_alikes_t alike = {0};
    ccl_status_t status = servers_alike(topo, &alike, err);

    if (status == CCL_OK && topo->nservers > 0) {
        ccl_text_printf(out, "\nservers\n");
        for (size_t i = 0; i < alike.n && i < most; i++) {
            const ccl_i_alike_t *row = &alike.rows[i];

            ccl_text_printf(out, "  %u x [%s]  %s", row->count, row->key,
                            topo->servers[row->first]);
            if (row->count > 1)
                ccl_text_printf(out, "%s%s", row->count > 2 ? " .. " : ", ",
                                topo->servers[row->last]);
            ccl_text_printf(out, "\n");
        }
        if (alike.n > most)
            ccl_text_printf(out, "  and %zu more kinds of server\n", alike.n - most);
    }
    ccl_i_alikes_fini(&alike);
    return status;
}
