/* Points of the lab notebook: inputs by their content, and the settings of a comparison. */
#include "search/compare/points.h"
#include "base/json.h"
#include "search/tune/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a chunk, as the file had them: what its share was made of. */
static double bytes_of(const ccl_collective_t *c, double share) {
    double bytes = share * c->natural_bytes;
    return round(bytes) / c->natural_bytes == share ? round(bytes) : bytes;
}

/* Demands by what they ask, so that they can be read again: a name, or a demand file. */
static void demand_text(const ccl_collective_t *c, ccl_text_t *out) {
    if (c->kind != CCL_CUSTOM) {
        ccl_text_printf(out, "%s nranks %u root %u\n", c->name, c->nranks, c->root);
        return;
    }
    json_t *name = json_string(c->name);
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    out->nomem |= !quoted;
    ccl_text_printf(out,
                    "{\"format\": \"ccllab-demand-1\", \"name\": %s, \"nranks\": %u, \"chunks\": [",
                    quoted ? quoted : "", c->nranks);
    for (uint32_t k = 0; k < c->nchunks; k++) {
        const ccl_chunk_t *chunk = &c->chunks[k];
        ccl_text_printf(out, "%s{\"bytes\": %.17g, \"reduced\": %s, \"source\": [",
                        k ? ",\n" : "\n", bytes_of(c, chunk->share),
                        chunk->reduced ? "true" : "false");
        for (uint32_t i = 0; i < chunk->nsources; i++)
            ccl_text_printf(out, "%s%u", i ? ", " : "", chunk->sources[i]);
        ccl_text_printf(out, "], \"destinations\": [");
        for (uint32_t i = 0; i < chunk->ndests; i++)
            ccl_text_printf(out, "%s%u", i ? ", " : "", chunk->dests[i]);
        ccl_text_printf(out, "]}");
    }
    ccl_text_printf(out, "]}\n");
    free(quoted);
    json_decref(name);
}

ccl_status_t ccl_i_point_demand(const char *text, ccl_collective_t **out, ccl_error_t *err) {
    char kind[32] = "";
    uint32_t nranks = 0, root = 0;
    ccl_collective_kind_t known;
    if (text[0] == '{')
        return ccl_demand_read_text("a demand of the lab notebook", text, strlen(text), out, err);
    if (sscanf(text, "%31s nranks %u root %u", kind, &nranks, &root) != 3)
        return ccl_fail(err, CCL_ERR_INPUT, "a demand of the lab notebook is not whole");
    CCL_TRY(ccl_collective_kind_parse(kind, &known, err));
    return ccl_collective_create(known, nranks, 1, root, out, err);
}

ccl_status_t ccl_i_point_again(const ccl_topology_t *topo, const ccl_collective_t *want,
                               bool *same_out, ccl_error_t *err) {
    ccl_text_t text = {0}, again = {0}, demand = {0};
    ccl_topology_t *other = NULL;
    ccl_collective_t *wanted = NULL;
    *same_out = false;
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    demand_text(want, &demand);
    if (status == CCL_OK && (text.nomem || demand.nomem))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK &&
        ccl_topology_read_text(NULL, topo->name, text.data, text.len, &other, NULL) == CCL_OK &&
        ccl_i_point_demand(demand.data, &wanted, NULL) == CCL_OK)
        status = ccl_topology_write_json(other, &again, err);
    if (status == CCL_OK && wanted)
        *same_out = !again.nomem && again.len == text.len &&
                    memcmp(again.data, text.data, text.len) == 0 &&
                    ccl_collective_equal(want, wanted);
    ccl_text_fini(&text);
    ccl_text_fini(&again);
    ccl_text_fini(&demand);
    ccl_topology_destroy(other);
    ccl_collective_destroy(wanted);
    return status;
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
