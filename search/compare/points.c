/* Points of the lab notebook: inputs by their content, and the settings of a comparison. */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Demands by what they ask: name, chunks with sources, destinations and shares. */
static void demand_text(const ccl_collective_t *c, ccl_text_t *out) {
    ccl_text_printf(out, "%s nranks %u root %u\n", c->name, c->nranks, c->root);
    for (uint32_t k = 0; c->kind == CCL_CUSTOM && k < c->nchunks; k++) {
        const ccl_chunk_t *chunk = &c->chunks[k];
        ccl_text_printf(out, "%.17g%s from", chunk->share, chunk->reduced ? " reduced" : "");
        for (uint32_t i = 0; i < chunk->nsources; i++)
            ccl_text_printf(out, " %u", chunk->sources[i]);
        ccl_text_printf(out, " to");
        for (uint32_t i = 0; i < chunk->ndests; i++)
            ccl_text_printf(out, " %u", chunk->dests[i]);
        ccl_text_printf(out, "\n");
    }
}

ccl_status_t ccl_i_point_inputs(ccl_notebook_t *notebook, const ccl_topology_t *topo,
                                const ccl_collective_t *want, ccl_content_t topology_out,
                                ccl_content_t demand_out, ccl_error_t *err) {
    ccl_text_t text = {0}, demand = {0};
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    demand_text(want, &demand);
    if (status == CCL_OK && (text.nomem || demand.nomem))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_notebook_input(notebook, "topology", topo->name, text.data, text.len,
                                    topology_out, err);
    if (status == CCL_OK)
        status = ccl_notebook_input(notebook, "demand", want->name, demand.data, demand.len,
                                    demand_out, err);
    ccl_text_fini(&text);
    ccl_text_fini(&demand);
    return status;
}

/* ---------------------------------------------------------------- comparisons */

/* A value, or auto where it is what auto is. */
static double given(double value, double otherwise) {
    return value == otherwise ? NAN : value;
}

static void synthesis_values(const ccl_synth_options_t *o, double v[CCL_KNOBS]) {
    static const char *const inner[] = CCL_I_INNER;
    v[CCL_KNOB_CHANNELS] = given(o->channels, 0);
    v[CCL_KNOB_CHUNKS] = given(o->chunks, 0);
    v[CCL_KNOB_RESTARTS] = given(o->restarts, 0);
    v[CCL_KNOB_ROOTS] = given(o->uniform_roots, 0);
    v[CCL_KNOB_EFFORT] = given(o->effort, 0);
    v[CCL_KNOB_TAU_REF] = given(o->tau_ref_s, 0);
    v[CCL_KNOB_CAPACITY] = given(o->ceiling, 0);
    v[CCL_KNOB_START] = given(o->plain_start, 0);
    v[CCL_KNOB_MAX_RELAYS] = given(o->sketch.max_relays, CCL_NONE);
    v[CCL_KNOB_MAX_STAGES] = given(o->sketch.max_stages, 0);
    v[CCL_KNOB_MAX_SKETCHES] = given(o->sketch.max_sketches, 0);
    v[CCL_KNOB_WITHIN] = given(o->sketch.within, 0);
    v[CCL_KNOB_SIMULATED] = given(o->sketch.most_simulated, 0);
    v[CCL_KNOB_COARSE_EPOCHS] = given(o->sketch.coarse, 0);
    v[CCL_KNOB_FINE_EPOCHS] = given(o->sketch.fine, 0);
    v[CCL_KNOB_EPOCH] = given(o->epoch_s, 0);
    v[CCL_KNOB_COMPOSE] = o->compose == CCL_COMPOSE_AUTO ? NAN : o->compose == CCL_COMPOSE_ON;
    v[CCL_KNOB_CLUSTERS] = given(o->c2c.clusters, 0);
    for (uint32_t i = 0; o->c2c.inner && i < CCL_ARRAY_LEN(inner); i++)
        if (strcmp(o->c2c.inner, inner[i]) == 0)
            v[CCL_KNOB_INNER] = i;
}

static void run_values(const ccl_compare_options_t *o, double v[CCL_KNOBS]) {
    static const char *const protos[] = CCL_I_PROTOS;
    if (o->way_bits & CCL_WAY_ORDER)
        v[CCL_KNOB_ORDER] = o->lower.order;
    if (o->way_bits & CCL_WAY_ALLOCATION)
        v[CCL_KNOB_ALLOCATE] = o->lower.allocation;
    if (o->way_bits & CCL_WAY_GRANULARITY)
        v[CCL_KNOB_GRANULARITY] = o->sim.granularity;
    v[CCL_KNOB_FUSE] = given(o->lower.no_fuse, 0);
    v[CCL_KNOB_SLOTS] = given(o->lower.slots, 0);
    v[CCL_KNOB_BATCHES] = given(o->sim.batches, 0);
    for (uint32_t i = 1; i < CCL_ARRAY_LEN(protos); i++)
        if (o->lower.proto && strcmp(o->lower.proto, protos[i]) == 0)
            v[CCL_KNOB_PROTO] = i;
}

const char *ccl_compare_untold(const ccl_compare_options_t *o) {
    static const char *const inner[] = CCL_I_INNER;
    const ccl_synth_options_t *s = &o->synth;
    const struct {
        bool given;
        const char *option;
    } rows[] = {{s->time_limit_s > 0, "time-limit"},
                {s->steps > 0, "steps"},
                {s->rounds > 0, "rounds"},
                {s->effort < 0, "effort 0"},
                {s->sketch.file != NULL, "sketches"},
                {s->sketch.keep_isomorphic, "keep-isomorphic"},
                {s->sketch.keep_inconsistent, "keep-inconsistent"},
                {s->sketch.keep_relayed, "keep-relayed"},
                {s->sketch.no_shapes, "no-shapes"},
                {o->lower.out_of_place, "out-of-place"},
                {o->lower.stages != CCL_STAGES_AUTO, "stages"},
                {o->lower.executor != CCL_EXECUTOR_ANY, "executor"},
                {o->sim.sharing != CCL_SHARING_FAIR, "sharing"},
                {o->sim.no_skip, "no-skip"},
                {o->sim.no_fold, "no-fold"}};
    bool known = !s->c2c.inner;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++)
        if (rows[i].given)
            return rows[i].option;
    for (size_t i = 0; i < CCL_ARRAY_LEN(inner) && !known; i++)
        known = strcmp(s->c2c.inner, inner[i]) == 0;
    return known ? NULL : "inner";
}

char *ccl_i_compare_settings(const ccl_compare_options_t *o, const ccl_contender_t *contender) {
    static const ccl_space_t everything = {0};
    double v[CCL_KNOBS];
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        v[k] = NAN;
    v[CCL_KNOB_WITH] = 0;
    while (ccl_synth_all()[(uint32_t)v[CCL_KNOB_WITH]] != ccl_synth_find(contender->name))
        v[CCL_KNOB_WITH]++;
    if (o->synth.size)
        synthesis_values(&o->synth, v);
    run_values(o, v);
    ccl_space_point(&everything, v);
    return ccl_space_settings(v);
}
