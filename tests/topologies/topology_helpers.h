/* Random connected topologies and exact comparison, for tests only. */
#ifndef CCL_TESTS_TOPOLOGY_HELPERS_H
#define CCL_TESTS_TOPOLOGY_HELPERS_H

#include <math.h>

#include "tests/topologies/topologies.h"

static const char *const random_kinds[] = {"net", "pcie", "nvlink", "xgmi", "upi"};

/* What it says of itself, and GPU models. */
static inline void random_models(ccl_rng_t *rng, ccl_topology_builder_t *b) {
    char model[16];
    ccl_topology_builder_about(b, "a test", "line one\nline two");
    for (uint32_t m = 0; m < 3; m++) {
        snprintf(model, sizeof model, "M%u", m);
        ccl_gpu_model_t g = ccl_gpu_model_default(model);
        if (ccl_rng_below(rng, 2)) {
            g.vendor = "acme";
            g.sms = 1 + ccl_rng_below(rng, 200);
            g.copy_rate_Bps = 1e9 * (1 + ccl_rng_unit(rng));
            g.reduce_rate_Bps = 1e9 * (1 + ccl_rng_unit(rng));
            g.overhead_s = 1e-6 * ccl_rng_unit(rng);
            g.flag_s = 1e-7 * ccl_rng_unit(rng);
            g.launch_s = 5e-6;
            g.launches = m % 8;
            for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
                g.protocol_launch_s[p] = g.launches & 1u << p ? 1e-6 * p : 0;
        }
        MUST(ccl_topology_builder_gpu_model(b, &g, e));
    }
}

static inline void random_ability(ccl_rng_t *rng, ccl_topology_builder_t *b, uint32_t index) {
    ccl_device_t able = {.multicast = ccl_rng_below(rng, 2), .reduce_rate_Bps = INFINITY};
    able.reduce = ccl_rng_below(rng, 2);
    able.groups = able.multicast ? ccl_rng_below(rng, 3) : 0;
    if (able.reduce && ccl_rng_below(rng, 2))
        able.reduce_rate_Bps = 1e11 * (1 + ccl_rng_unit(rng));
    able.types = able.reduce && ccl_rng_below(rng, 2) ? "fp32 bf16" : NULL;
    MUST(ccl_topology_builder_abilities(b, index, &able, e));
}

static inline void random_transports(ccl_rng_t *rng, ccl_topology_builder_t *b) {
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(random_kinds); k++) {
        ccl_transport_spec_t spec = {.kind = random_kinds[k],
                                     .value = {.overhead_s = 1e-6 * ccl_rng_unit(rng),
                                               .latency_s = 2e-6,
                                               .tb_rate_Bps = 2e10 * (1 + ccl_rng_unit(rng)),
                                               .slice_bytes = 1e6 * (1 + ccl_rng_unit(rng)),
                                               .piece_bytes = 512 * 1024,
                                               .slices = 2,
                                               .slots = 4,
                                               .direct = false,
                                               .holds_tb = k % 2 == 0}};
        spec.given = ccl_rng_below(rng, 512);
        MUST(ccl_topology_builder_transport(b, &spec, e));
        spec.protocol = k % 2 ? "LL" : "LL128";
        spec.given = ccl_rng_below(rng, 512);
        MUST(ccl_topology_builder_transport(b, &spec, e));
    }
}

static inline void random_ranks(ccl_rng_t *rng, uint32_t gpus, uint32_t *rank) {
    for (uint32_t i = 0; i < gpus; i++)
        rank[i] = i;
    for (uint32_t i = gpus; i > 1; i--) {
        uint32_t k = ccl_rng_below(rng, i), t = rank[i - 1];
        rank[i - 1] = rank[k];
        rank[k] = t;
    }
}

/*
 * A connected topology of few distinct values, so that ties are common: `gpus` GPUs with shuffled
 * ranks, `others` other devices, a random spanning tree and `extra` more links, some parallel.
 */
static inline ccl_topology_t *random_topology(ccl_rng_t *rng, uint32_t gpus, uint32_t others,
                                              uint32_t extra, bool decorated) {
    static const double GBps[] = {12.5, 25, 25, 100.0 / 3, 25};
    static const double latency_s[] = {1e-6, 1e-6, 1e-6 + 1e-17, 1e-6 + 1e-14, 2e-6, 0};
    uint32_t n = gpus + others, rank[64], order[64];
    char id[32], server[16], model[16];
    ccl_topology_builder_t *b = ccl_topology_builder_create("random \"one\"\t\xc3\xa9");
    ck_assert_ptr_nonnull(b);
    random_ranks(rng, gpus, rank);
    if (decorated)
        random_models(rng, b);
    uint32_t gpu = 0, other = 0, index;
    for (uint32_t i = 0; i < n; i++) {
        bool is_gpu = other == others || (gpu < gpus && ccl_rng_below(rng, n) < gpus);
        snprintf(id, sizeof id, is_gpu ? "g-%u" : "x-%u", i);
        snprintf(server, sizeof server, "s%u", ccl_rng_below(rng, 3));
        snprintf(model, sizeof model, "M%u", ccl_rng_below(rng, 3));
        ccl_device_kind_t kind =
            is_gpu ? CCL_DEVICE_GPU
                   : (ccl_device_kind_t)(CCL_DEVICE_SWITCH + ccl_rng_below(rng, 3));
        MUST(ccl_topology_builder_device(b, id, kind, ccl_rng_below(rng, 4) ? server : NULL,
                                         is_gpu ? rank[gpu] : CCL_NONE,
                                         decorated && is_gpu ? model : NULL, &index, e));
        if (decorated && kind == CCL_DEVICE_SWITCH)
            random_ability(rng, b, index);
        gpu += is_gpu;
        other += !is_gpu;
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    /* Some topologies have one value only: all ties. */
    uint32_t values = 1 + ccl_rng_below(rng, 5);
    for (uint32_t i = 1; i < n + extra; i++) {
        uint32_t from, to;
        if (i < n) {
            uint32_t k = i + ccl_rng_below(rng, n - i), t = order[i];
            order[i] = order[k];
            order[k] = t;
            from = order[i];
            to = order[ccl_rng_below(rng, i)];
        } else {
            from = ccl_rng_below(rng, n);
            to = (from + 1 + ccl_rng_below(rng, n - 1)) % n;
        }
        bool duplex = i < n || ccl_rng_below(rng, 2);
        const char *kind = random_kinds[ccl_rng_below(rng, values)];
        double bandwidth_Bps = 1e9 * GBps[CCL_ARRAY_LEN(GBps) - 1 - ccl_rng_below(rng, values)];
        double lat_s = latency_s[ccl_rng_below(rng, values)];
        uint32_t lanes = 1 + ccl_rng_below(rng, 2);
        double contention = ccl_rng_below(rng, 3) ? 0 : 0.1 * ccl_rng_unit(rng);
        MUST((duplex ? ccl_topology_builder_duplex : ccl_topology_builder_link)(
            b, from, to, kind, bandwidth_Bps, lat_s, lanes, contention, e));
    }
    if (decorated)
        random_transports(rng, b);
    return finish(b);
}

static inline bool text_equal(const char *a, const char *b) {
    return !a == !b && (!a || strcmp(a, b) == 0);
}

/* Where two topologies differ, NULL when they are equal in everything. */
static inline const char *topology_difference(const ccl_topology_t *a, const ccl_topology_t *b) {
#define SAME_(cond_)                                                                               \
    if (!(cond_))                                                                                  \
    return #cond_
    SAME_(text_equal(a->name, b->name) && text_equal(a->source, b->source) &&
          text_equal(a->note, b->note));
    SAME_(a->ndevices == b->ndevices && a->nlinks == b->nlinks && a->ngroups == b->ngroups);
    SAME_(a->nservers == b->nservers && a->nranks == b->nranks && a->nkinds == b->nkinds);
    SAME_(a->ntransports == b->ntransports && a->ngpu_models == b->ngpu_models);
    for (uint32_t i = 0; i < a->ndevices; i++) {
        const ccl_device_t *x = &a->devices[i], *y = &b->devices[i];
        SAME_(text_equal(x->id, y->id) && x->kind == y->kind && x->server == y->server &&
              x->rank == y->rank && x->model == y->model);
        SAME_(x->multicast == y->multicast && x->reduce == y->reduce && x->groups == y->groups &&
              x->reduce_rate_Bps == y->reduce_rate_Bps && text_equal(x->types, y->types));
    }
    for (uint32_t i = 0; i < a->nlinks; i++) {
        const ccl_link_t *x = &a->links[i], *y = &b->links[i];
        SAME_(x->from == y->from && x->to == y->to && x->kind == y->kind && x->lanes == y->lanes);
        SAME_(x->bandwidth_Bps == y->bandwidth_Bps && x->latency_s == y->latency_s &&
              x->contention == y->contention);
        SAME_(a->out_links[i] == b->out_links[i]);
    }
    for (uint32_t i = 0; i < a->ngroups; i++) {
        const ccl_group_t *x = &a->groups[i], *y = &b->groups[i];
        SAME_(text_equal(x->name, y->name) && x->bandwidth_Bps == y->bandwidth_Bps &&
              x->nlinks == y->nlinks);
        SAME_(memcmp(x->links, y->links, x->nlinks * sizeof *x->links) == 0);
    }
    for (uint32_t i = 0; i < a->nservers; i++)
        SAME_(text_equal(a->servers[i], b->servers[i]));
    for (uint32_t i = 0; i < a->nkinds; i++)
        SAME_(text_equal(a->kinds[i], b->kinds[i]));
    for (uint32_t i = 0; i < a->ntransports; i++) {
        const ccl_transport_spec_t *x = &a->transports[i], *y = &b->transports[i];
        const ccl_transport_t *v = &x->value, *w = &y->value;
        SAME_(text_equal(x->kind, y->kind) && text_equal(x->protocol, y->protocol) &&
              x->given == y->given);
        SAME_(v->overhead_s == w->overhead_s && v->latency_s == w->latency_s &&
              v->tb_rate_Bps == w->tb_rate_Bps && v->slice_bytes == w->slice_bytes &&
              v->piece_bytes == w->piece_bytes && v->slices == w->slices && v->slots == w->slots &&
              v->direct == w->direct && v->holds_tb == w->holds_tb);
    }
    for (uint32_t i = 0; i < a->ngpu_models; i++) {
        const ccl_gpu_model_t *x = &a->gpu_models[i], *y = &b->gpu_models[i];
        SAME_(text_equal(x->name, y->name) && text_equal(x->vendor, y->vendor) &&
              x->sms == y->sms && x->copy_rate_Bps == y->copy_rate_Bps &&
              x->reduce_rate_Bps == y->reduce_rate_Bps && x->overhead_s == y->overhead_s &&
              x->flag_s == y->flag_s && x->launch_s == y->launch_s && x->launches == y->launches);
        for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
            SAME_(!(x->launches & 1u << p) || x->protocol_launch_s[p] == y->protocol_launch_s[p]);
    }
    for (uint32_t r = 0; r < a->nranks; r++)
        SAME_(a->rank_device[r] == b->rank_device[r] &&
              a->rank_local_index[r] == b->rank_local_index[r]);
    for (uint32_t d = 0; d <= a->ndevices; d++)
        SAME_(a->out_first[d] == b->out_first[d]);
    return NULL;
#undef SAME_
}

#endif
