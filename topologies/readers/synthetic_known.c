/* Constants that a one-liner's GPU model brings with it: those of the library's first server of it.
 */
#include "topologies/readers/synthetic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef ccl_i_synthetic_part_t part_t;
typedef ccl_i_synthetic_parser_t parser_t;

static const ccl_library_entry_t *server_of(const char *model) {
    char member[100];
    if (!model || snprintf(member, sizeof member, "\"model\": \"%s\"", model) >= (int)sizeof member)
        return NULL;
    for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++)
        if (e->is_server && strstr(e->text, member))
            return e;
    return NULL;
}

ccl_status_t ccl_i_synthetic_known(parser_t *p, size_t part, ccl_topology_t **out) {
    const ccl_library_entry_t *e = server_of(p->parts[part].model);
    *out = NULL;
    if (!e)
        return CCL_OK;
    return ccl_topology_read_text(NULL, e->name, e->text, e->len, out, p->err);
}

void ccl_i_synthetic_gpu(const ccl_topology_t *known, const part_t *part, ccl_gpu_model_t *out) {
    const ccl_gpu_model_t *like = NULL;
    for (uint32_t m = 0; known && m < known->ngpu_models; m++)
        if (strcmp(known->gpu_models[m].name, out->name) == 0)
            like = &known->gpu_models[m];
    const char *name = out->name;
    if (like)
        *out = *like;
    out->name = name;
    if (!like || isfinite(part->copy_Bps))
        out->copy_rate_Bps = part->copy_Bps;
    if (!like || isfinite(part->reduce_Bps))
        out->reduce_rate_Bps = part->reduce_Bps;
    if (part->launch_s > 0) {
        out->launch_s = part->launch_s;
        out->launches = 0;
    }
    if (!like || part->sms)
        out->sms = part->sms;
}

ccl_status_t ccl_i_synthetic_transports(parser_t *p, ccl_topology_builder_t *b,
                                        const char *const *kinds, size_t nkinds) {
    const ccl_library_entry_t *from = NULL;
    ccl_topology_t *known = NULL;
    char about[200];
    for (size_t i = 0; i < p->nparts; i++) {
        const ccl_library_entry_t *e = server_of(p->parts[i].model);
        if (!e || (from && e != from))
            return CCL_OK; /* no constants hold for all */
        from = e;
    }
    for (size_t i = 0; !known && i < p->nparts; i++)
        CCL_TRY(ccl_i_synthetic_known(p, i, &known));
    ccl_status_t status = CCL_OK;
    for (uint32_t t = 0; known && t < known->ntransports && status == CCL_OK; t++) {
        const ccl_transport_spec_t *spec = &known->transports[t];
        for (size_t k = 0; k < nkinds && status == CCL_OK; k++)
            if (strcmp(spec->kind, kinds[k]) == 0)
                status = ccl_topology_builder_transport(b, spec, p->err);
    }
    if (known) {
        snprintf(about, sizeof about,
                 "transports and GPU constants assumed, of the library's %.60s", from->name);
        ccl_topology_builder_about(b, about, "");
    }
    ccl_topology_destroy(known);
    return status;
}
