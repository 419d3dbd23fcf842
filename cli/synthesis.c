/* Options of synthesizers. */
#include "cli/command.h"

#include <stdlib.h>

/** An option's number within limits; nothing where it is not given. */
static ccl_status_t number(const char *text, const char *name, double least, double most,
                           double *out, ccl_error_t *err) {
    char *end = NULL;
    double value;

    if (!text)
        return CCL_OK;
    value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most))
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s wants a number from %g to %g, not %.40s",
                        name, least, most, text);
    *out = value;
    return CCL_OK;
}

/** Limits of the search for sketches. */
static ccl_status_t sketch_options(const ccl_i_args_t *args, ccl_sketch_options_t *out,
                                   ccl_error_t *err) {
    out->keep_isomorphic = args->sketch.keep_isomorphic;
    out->keep_inconsistent = args->sketch.keep_inconsistent;
    out->keep_relayed = args->sketch.keep_relayed;
    out->max_stages = args->sketch.max_stages;
    out->max_sketches = args->sketch.max_sketches;
    out->most_simulated = args->sketch.simulated;
    out->no_shapes = args->sketch.no_shapes;
    out->cache = args->sketch.cache ? args->sketch.cache : "auto";
    CCL_TRY(number(args->sketch.within, "within", 0.1, 1000, &out->within, err));
    out->within /= 100;
    CCL_TRY(number(args->sketch.coarse, "coarse-epochs", 0.05, 100, &out->coarse, err));
    CCL_TRY(number(args->sketch.fine, "fine-epochs", 0.05, 100, &out->fine, err));
    if (ccl_i_given(args, "simulated") && (out->most_simulated < 1 || out->most_simulated > 1000))
        return ccl_fail(err, CCL_ERR_USAGE, "option --simulated wants 1 to 1000, not %u",
                        out->most_simulated);
    if (ccl_i_given(args, "cache") && !*out->cache)
        return ccl_fail(err, CCL_ERR_USAGE, "option --cache wants a directory or none");
    if (ccl_i_given(args, "max-relays"))
        out->max_relays = args->sketch.max_relays;
    if (ccl_i_given(args, "max-stages") && (out->max_stages < 1 || out->max_stages > 10))
        return ccl_fail(err, CCL_ERR_USAGE, "option --max-stages wants 1 to 10, not %u",
                        out->max_stages);
    if (ccl_i_given(args, "max-sketches") && (out->max_sketches < 1 || out->max_sketches > 100000))
        return ccl_fail(err, CCL_ERR_USAGE, "option --max-sketches wants 1 to 100000, not %u",
                        out->max_sketches);
    if (args->sketch.keep_relayed && ccl_i_given(args, "max-relays"))
        return ccl_fail(err, CCL_ERR_USAGE, "--max-relays and --keep-relayed exclude each other");
    return CCL_OK;
}

/** --sketches or --add-sketches. */
static ccl_status_t open_sketches(const ccl_i_args_t *args, ccl_json_doc_t *doc,
                                  ccl_sketch_options_t *out, ccl_error_t *err) {
    const char *path = args->sketch.add ? args->sketch.add : args->sketch.file;

    if (!path)
        return CCL_OK;
    if (args->sketch.add && args->sketch.file)
        return ccl_fail(err, CCL_ERR_USAGE, "--sketches and --add-sketches exclude each other");
    CCL_TRY(ccl_json_read(path, doc, err));
    out->file = doc;
    out->with_found = args->sketch.add != NULL;
    return CCL_OK;
}

ccl_status_t ccl_i_synth_options(const ccl_i_args_t *args, ccl_json_doc_t *sketches,
                                 ccl_synth_options_t *out, ccl_error_t *err) {
    *out = (ccl_synth_options_t)CCL_SYNTH_OPTIONS_INIT;
    out->size_bytes = args->size_bytes;
    out->channels = args->channels;
    out->chunks = args->chunks;
    out->restarts = args->restarts;
    out->uniform_roots = args->roots == 1;
    out->compose = (ccl_compose_t)args->compose;
    out->time_limit_s = args->time_limit_s;
    out->steps = args->steps;
    out->rounds = args->rounds;
    out->epoch_s = args->epoch_s;
    out->effort = args->effort;
    out->c2c.clusters = args->clusters;
    out->c2c.inner = args->inner;
    if (ccl_i_given(args, "clusters") && args->clusters < 2)
        return ccl_fail(err, CCL_ERR_USAGE, "option --clusters wants 2 or more, not %u",
                        args->clusters);
    if (args->inner && !ccl_synth_find(args->inner))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --inner: unknown synthesizer \"%.40s\" (ccllab algos lists them)",
                        args->inner);
    if (ccl_i_given(args, "effort") && args->effort == 0)
        out->effort = -1;
    out->tau_ref_s = args->tau_ref_s;
    out->ceiling = args->capacity == 1;
    out->plain_start = args->start == 1;
    CCL_TRY(sketch_options(args, &out->sketch, err));
    return open_sketches(args, sketches, &out->sketch, err);
}
