/* Points of the lab notebook: inputs by their content, and the settings of a comparison. */
#include "search/compare/points.h"
#include "search/tune/space.h"

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

/* Knobs of synthesis from their options; what no knob sets is left out. */
static void synthesis_values(const ccl_synth_options_t *o, double v[CCL_KNOBS]) {
    for (uint32_t k = CCL_KNOB_CHANNELS; k < CCL_KNOB_ORDER; k++) {
        const ccl_option_t *option = ccl_knob_option((ccl_knob_t)k);
        if (option && !ccl_option_get(option, o, &v[k]))
            v[k] = NAN;
    }
}

static void run_values(const ccl_compare_options_t *o, double v[CCL_KNOBS]) {
    static const ccl_knob_t lowering[] = {CCL_KNOB_FUSE, CCL_KNOB_SLOTS, CCL_KNOB_PROTO};
    if (o->way_bits & CCL_WAY_ORDER)
        v[CCL_KNOB_ORDER] = o->lower.order;
    if (o->way_bits & CCL_WAY_ALLOCATION)
        v[CCL_KNOB_ALLOCATE] = o->lower.allocation;
    if (o->way_bits & CCL_WAY_GRANULARITY)
        v[CCL_KNOB_GRANULARITY] = o->sim.granularity;
    for (size_t i = 0; i < CCL_ARRAY_LEN(lowering); i++)
        (void)ccl_option_get(ccl_knob_option(lowering[i]), &o->lower, &v[lowering[i]]);
    (void)ccl_option_get(ccl_knob_option(CCL_KNOB_BATCHES), &o->sim, &v[CCL_KNOB_BATCHES]);
}

/* The first option of a table with a value that changes results and that no knob sets. */
static const char *untold_of(const ccl_option_t *table, const void *options) {
    for (; table->name; table++) {
        double value = NAN;
        if (table->flags & CCL_OPTION_NEUTRAL || ccl_option_get(table, options, &value))
            continue;
        return table->name;
    }
    return NULL;
}

const char *ccl_compare_untold(const ccl_compare_options_t *o) {
    const char *name = NULL;
    for (uint32_t t = 0; !name && o->synth.size && ccl_synth_option_table(t); t++)
        name = untold_of(ccl_synth_option_table(t), &o->synth);
    if (!name)
        name = untold_of(ccl_lower_option_table, &o->lower);
    if (!name && o->draws)
        name = "scenario";
    return name ? name : untold_of(ccl_sim_option_table, &o->sim);
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
