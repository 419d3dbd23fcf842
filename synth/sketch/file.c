/*
 * Sketches as JSON, "ccllab/sketches/1" (docs/formats.md): written by hand, or found, edited and
 * read back (SyCCL, appendix C, has users correct the best combination by hand).
 */
#include "synth/sketch/sketch.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GIVEN = 10000, MAX_COUNT = 1024, MAX_CHANNELS = 256 };

static const char *const reach_names[] = {"none", "one each",  "one a server",
                                          "all",  "on and on", NULL};
static const char *const shape_names[] = {"direct", "chain", "chains", NULL};

/* ---------------------------------------------------------------- words */

static ccl_status_t word(const ccl_json_at_t *at, const char *const *words, uint8_t *out,
                         ccl_error_t *err) {
    const char *text = NULL;
    ccl_text_t list = {0};
    ccl_status_t status;

    CCL_TRY(ccl_json_string(at, true, &text, err));
    for (uint8_t i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return CCL_OK;
        }
    }
    for (uint8_t i = 0; words[i]; i++)
        ccl_text_printf(&list, "%s\"%s\"", i ? ", " : "", words[i]);
    status = list.nomem ? ccl_fail_nomem(err)
                        : ccl_json_fail(at, err, "\"%.60s\" is none of %s", text, list.data);
    ccl_text_fini(&list);
    return status;
}

/* Names of the dimensions that can be used, NULL-terminated. */
static void dimension_names(const ccl_i_space_t *space,
                            const char *names[CCL_I_SKETCH_DIMENSIONS + 1]) {
    for (uint32_t d = 0; d < space->ndimensions; d++)
        names[d] = space->symmetry->dimensions[space->dimension[d]].name;
    names[space->ndimensions] = NULL;
}

/* ---------------------------------------------------------------- reading sketches */

/* One {"reach", "groups" or "classes"} of a dimension. */
static ccl_status_t read_some(const ccl_json_at_t *at, const ccl_i_space_t *space, uint32_t d,
                              uint8_t *reach, ccl_error_t *err) {
    static const char *const keys[] = {"reach", "groups", "classes", NULL};
    const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];
    ccl_json_at_t how, groups, classes;
    const ccl_json_at_t *which;
    uint8_t value = 0;
    size_t n = 0;

    CCL_TRY(ccl_json_only(at, keys, err));
    how = ccl_json_member(at, "reach");
    groups = ccl_json_member(at, "groups");
    classes = ccl_json_member(at, "classes");
    CCL_TRY(word(&how, reach_names, &value, err));
    if (!groups.value == !classes.value)
        return ccl_json_fail(at, err, "either \"groups\" or \"classes\" says which groups");
    which = groups.value ? &groups : &classes;
    CCL_TRY(ccl_json_array(which, true, &n, err));
    if (n == 0)
        return ccl_json_fail(which, err, "no group is named");
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(which, i);
        uint32_t number = 0;

        CCL_TRY(ccl_json_u32(&item, true, (groups.value ? dim->ngroups : dim->nclasses) - 1,
                             &number, err));
        for (uint32_t g = 0; g < dim->ngroups; g++) {
            if (groups.value ? g != number : dim->class_of[g] != number)
                continue;
            if (reach[g] != CCL_I_REACH_NONE)
                return ccl_json_fail(&item, err, "group %u is named twice in this stage", g);
            reach[g] = value;
        }
    }
    return CCL_OK;
}

/* What a stage does in one dimension: a word for all groups, or a list for some. */
static ccl_status_t read_dimension(const ccl_json_at_t *at, const ccl_i_space_t *space, uint32_t d,
                                   uint8_t *reach, ccl_error_t *err) {
    uint32_t n = space->first_group[d + 1] - space->first_group[d];

    if (json_is_array(at->value)) {
        size_t nsome = json_array_size(at->value);

        if (nsome == 0)
            return ccl_json_fail(at, err, "no group is named");
        for (size_t i = 0; i < nsome; i++) {
            ccl_json_at_t some = ccl_json_element(at, i);

            CCL_TRY(read_some(&some, space, d, reach, err));
        }
    } else {
        uint8_t value = 0;

        CCL_TRY(word(at, reach_names, &value, err));
        memset(reach, value, n);
    }
    for (uint32_t g = 0; g < n && d == 0; g++) {
        if (reach[g] == CCL_I_REACH_EACH)
            return ccl_json_fail(at, err,
                                 "\"one a server\" reaches nobody in the nearest dimension, whose "
                                 "groups are the servers");
    }
    return CCL_OK;
}

static ccl_status_t read_stages(const ccl_json_at_t *at, const ccl_i_space_t *space,
                                uint32_t *nstages, uint8_t *reach, ccl_error_t *err) {
    const char *names[CCL_I_SKETCH_DIMENSIONS + 1];
    size_t n = 0;

    dimension_names(space, names);
    CCL_TRY(ccl_json_array(at, true, &n, err));
    if (n < 1 || n > CCL_I_SKETCH_STAGES)
        return ccl_json_fail(at, err, "%zu stages: a sketch has 1 to %u", n,
                             (unsigned)CCL_I_SKETCH_STAGES);
    for (size_t k = 0; k < n; k++) {
        ccl_json_at_t stage = ccl_json_element(at, k);

        CCL_TRY(ccl_json_only(&stage, names, err));
        if (json_object_size(stage.value) == 0)
            return ccl_json_fail(&stage, err, "a stage uses at least one dimension");
        for (uint32_t d = 0; d < space->ndimensions; d++) {
            ccl_json_at_t how = ccl_json_member(&stage, names[d]);

            if (how.value)
                CCL_TRY(read_dimension(&how, space, d,
                                       reach + k * space->ngroups + space->first_group[d], err));
        }
    }
    *nstages = (uint32_t)n;
    return CCL_OK;
}

/* Does the sketch reach every GPU from every root, whichever GPUs it picks? */
static ccl_status_t check_reach(const ccl_json_at_t *at, const ccl_i_space_t *space,
                                ccl_i_grower_t *g, ccl_i_sketch_t *sketch, ccl_error_t *err) {
    uint32_t turns = sketch->uses_one ? space->rotations : 1;

    for (uint32_t root = 0; root < space->topo->nranks; root++) {
        if (space->root != CCL_NONE && root != space->root)
            continue;
        for (uint32_t turn = 0; turn < turns; turn++) {
            uint32_t lost = 0;

            if (ccl_i_grow(g, sketch, NULL, root, turn))
                continue;
            while (g->got[lost])
                lost++;
            return ccl_json_fail(at, err,
                                 "\"%.80s\" reaches %u of %u GPUs from GPU %u, GPU %u not: "
                                 "a stage is missing",
                                 sketch->name, g->norder, space->topo->nranks, root, lost);
        }
    }
    ccl_i_grow(g, sketch, NULL, space->root == CCL_NONE ? 0 : space->root, 0);
    ccl_i_grower_measure(g, &sketch->relays, &sketch->depth_s);
    return CCL_OK;
}

static ccl_status_t read_sketch(const ccl_json_at_t *at, ccl_i_space_t *space, ccl_i_grower_t *g,
                                ccl_i_sketch_t *out, ccl_error_t *err) {
    static const char *const keys[] = {"name", "line", "tree", "solved", "stages", NULL};
    ccl_json_at_t stages, name, line, tree, solved;
    ccl_i_sketch_t sketch = {0};
    uint8_t *reach;
    const char *given = NULL;

    CCL_TRY(ccl_json_only(at, keys, err));
    stages = ccl_json_member(at, "stages");
    name = ccl_json_member(at, "name");
    line = ccl_json_member(at, "line");
    tree = ccl_json_member(at, "tree");
    solved = ccl_json_member(at, "solved");
    if (solved.value) {
        CCL_TRY(word(&solved, ccl_i_solver_names, &sketch.solved, err));
        sketch.solved++;
    }
    CCL_TRY(ccl_json_string(&name, false, &given, err));
    CCL_TRY(ccl_json_bool(&line, false, &sketch.line, err));
    if (sketch.line && (space->root == CCL_NONE || space->scatter))
        return ccl_json_fail(&line, err,
                             "only sketches of broadcast and reduce may be in a line: elsewhere "
                             "every GPU is root, or every destination has chunks of its own");
    CCL_TRY(ccl_json_bool(&tree, false, &sketch.tree, err));
    if (sketch.tree && !sketch.line)
        return ccl_json_fail(&tree, err, "a tree of servers is a kind of line: \"line\": true");
    reach = ccl_arena_alloc(&space->arena, (size_t)CCL_I_SKETCH_STAGES * (space->ngroups + 1), 1);
    if (!reach)
        return ccl_fail_nomem(err);
    CCL_TRY(read_stages(&stages, space, &sketch.nstages, reach, err));
    for (size_t i = 0; i < (size_t)sketch.nstages * space->ngroups; i++)
        sketch.uses_one |= reach[i] == CCL_I_REACH_ONE || reach[i] == CCL_I_REACH_EACH;
    sketch.reach = reach;
    sketch.name =
        given ? ccl_arena_strdup(&space->arena, given) : ccl_i_sketch_name(space, &sketch);
    if (!sketch.name)
        return ccl_fail_nomem(err);
    if (!sketch.solved) /* else when it is */
        CCL_TRY(check_reach(at, space, g, &sketch, err));
    *out = sketch;
    return CCL_OK;
}

static ccl_status_t read_sketches(const ccl_json_at_t *at, ccl_i_space_t *space,
                                  ccl_i_sketches_t *out, ccl_error_t *err) {
    ccl_i_grower_t grower;
    ccl_status_t status;
    size_t n = 0;

    CCL_TRY(ccl_json_array(at, true, &n, err));
    if (n < 1 || n > MAX_GIVEN)
        return ccl_json_fail(at, err, "%zu sketches: 1 to %d are taken", n, (int)MAX_GIVEN);
    if (!ccl_grow(&out->items, &out->cap, n, sizeof *out->items))
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_grower_init(&grower, space, err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(at, i);

        CCL_TRY_GOTO(read_sketch(&item, space, &grower, &out->items[i], err), status, end);
        out->n++;
    }
    status = CCL_OK;
end:
    ccl_i_grower_fini(&grower);
    return status;
}

/* ---------------------------------------------------------------- reading mixes */

/* A sketch by its place in the file, or by a name that no other has. */
static ccl_status_t read_which(const ccl_json_at_t *at, const ccl_i_sketches_t *sketches,
                               uint32_t *out, ccl_error_t *err) {
    const char *name;
    uint32_t n = 0;

    if (!at->value || !json_is_string(at->value))
        return ccl_json_u32(at, true, (uint32_t)sketches->n - 1, out, err);
    name = json_string_value(at->value);
    for (size_t i = 0; i < sketches->n; i++) {
        if (strcmp(sketches->items[i].name, name) != 0)
            continue;
        *out = (uint32_t)i;
        n++;
    }
    if (n == 1)
        return CCL_OK;
    return ccl_json_fail(at, err,
                         n ? "%u sketches have the name \"%.80s\": say which by its place, from 0"
                           : "%u sketches have the name \"%.80s\": names as in \"sketches\", or "
                             "places from 0",
                         n, name);
}

/* A number for all classes of GPUs, or one for each. */
static ccl_status_t read_counts(const ccl_json_at_t *at, const ccl_i_space_t *space,
                                ccl_i_mix_t *mix, uint32_t i, ccl_error_t *err) {
    uint32_t most = 0;

    if (at->value && json_is_array(at->value)) {
        if (json_array_size(at->value) != space->nclasses)
            return ccl_json_fail(at, err, "%zu counts: one, or one for each of %u classes of GPUs",
                                 json_array_size(at->value), space->nclasses);
        for (uint32_t c = 0; c < space->nclasses; c++) {
            ccl_json_at_t item = ccl_json_element(at, c);

            CCL_TRY(ccl_json_u32(&item, true, MAX_COUNT, &mix->count[c][i], err));
        }
    } else {
        CCL_TRY(ccl_json_u32(at, true, MAX_COUNT, &mix->count[0][i], err));
        for (uint32_t c = 1; c < space->nclasses; c++)
            mix->count[c][i] = mix->count[0][i];
    }
    for (uint32_t c = 0; c < space->nclasses; c++)
        most = mix->count[c][i] > most ? mix->count[c][i] : most;
    return most ? CCL_OK : ccl_json_fail(at, err, "a sketch of a mix has at least one part");
}

static ccl_status_t read_shapes(const ccl_json_at_t *at, const ccl_i_space_t *space,
                                uint8_t *shapes, ccl_error_t *err) {
    const char *names[CCL_I_SKETCH_DIMENSIONS + 1];

    if (!at->value)
        return CCL_OK;
    dimension_names(space, names);
    CCL_TRY(ccl_json_only(at, names, err));
    for (uint32_t d = 0; d < space->ndimensions; d++) {
        ccl_json_at_t shape = ccl_json_member(at, names[d]);

        if (shape.value)
            CCL_TRY(word(&shape, shape_names, &shapes[d], err));
    }
    return CCL_OK;
}

static ccl_status_t read_mix(const ccl_json_at_t *at, const ccl_i_space_t *space,
                             const ccl_i_sketches_t *sketches, ccl_i_mix_t *out, ccl_error_t *err) {
    static const char *const keys[] = {"channels", "cuts",  "flows", "apart",
                                       "shapes",   "parts", NULL};
    static const char *const part_keys[] = {"sketch", "count", NULL};
    ccl_json_at_t parts, channels, cuts, flows, apart, shapes;
    ccl_i_mix_t mix = {.given = true};
    size_t n = 0;

    CCL_TRY(ccl_json_only(at, keys, err));
    parts = ccl_json_member(at, "parts");
    channels = ccl_json_member(at, "channels");
    cuts = ccl_json_member(at, "cuts");
    flows = ccl_json_member(at, "flows");
    apart = ccl_json_member(at, "apart");
    shapes = ccl_json_member(at, "shapes");
    CCL_TRY(ccl_json_u32(&channels, false, MAX_CHANNELS, &mix.channels, err));
    if (channels.value && mix.channels == 0)
        return ccl_json_fail(&channels, err, "0 channels: 1 to %d, or leave the key out",
                             (int)MAX_CHANNELS);
    CCL_TRY(ccl_json_u32(&cuts, false, CCL_I_SKETCH_CUTS, &mix.cuts, err));
    if (cuts.value && mix.cuts == 0)
        return ccl_json_fail(&cuts, err, "0 cuts: 1 to %d, or leave the key out",
                             (int)CCL_I_SKETCH_CUTS);
    CCL_TRY(ccl_json_bool(&flows, false, &mix.flows, err));
    CCL_TRY(ccl_json_bool(&apart, false, &mix.apart, err));
    CCL_TRY(read_shapes(&shapes, space, mix.shapes, err));
    CCL_TRY(ccl_json_array(&parts, true, &n, err));
    if (n < 1 || n > CCL_I_SKETCH_MIX)
        return ccl_json_fail(&parts, err, "%zu sketches: a mix is of 1 to %u", n,
                             (unsigned)CCL_I_SKETCH_MIX);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t part = ccl_json_element(&parts, i), sketch, count;

        CCL_TRY(ccl_json_only(&part, part_keys, err));
        sketch = ccl_json_member(&part, "sketch");
        count = ccl_json_member(&part, "count");
        CCL_TRY(read_which(&sketch, sketches, &mix.sketch[i], err));
        for (size_t k = 0; k < i; k++) {
            if (mix.sketch[k] == mix.sketch[i])
                return ccl_json_fail(&sketch, err, "a sketch stands in a mix once");
        }
        CCL_TRY(read_counts(&count, space, &mix, (uint32_t)i, err));
    }
    mix.n = (uint32_t)n;
    for (uint32_t c = 0; c < space->nclasses; c++) {
        uint32_t sum = 0;

        for (uint32_t i = 0; i < mix.n; i++)
            sum += mix.count[c][i];
        mix.parts = c ? mix.parts : sum;
        if (sum != mix.parts)
            return ccl_json_fail(&parts, err,
                                 "%u parts for class %u of GPUs, %u for class 0: they must agree",
                                 sum, c, mix.parts);
        if (sum > MAX_COUNT)
            return ccl_json_fail(&parts, err, "%u parts: at most %d", sum, (int)MAX_COUNT);
    }
    *out = mix;
    return CCL_OK;
}

ccl_status_t ccl_i_sketch_file_read(const ccl_json_doc_t *doc, ccl_i_space_t *space,
                                    ccl_i_sketches_t *sketches, ccl_i_mixes_t *mixes,
                                    bool *with_found, ccl_error_t *err) {
    static const char *const keys[] = {"schema",     "topology", "collective", "size_bytes",
                                       "with_found", "sketches", "mixes",      NULL};
    ccl_json_at_t root = ccl_json_root(doc), at;
    const char *text = NULL;
    double size_bytes = 0;
    size_t n = 0;

    CCL_TRY(ccl_json_object(&root, true, err));
    at = ccl_json_member(&root, "schema");
    CCL_TRY(ccl_json_string(&at, true, &text, err));
    if (strcmp(text, "ccllab/sketches/1") != 0)
        return ccl_json_fail(&at, err, "\"%.60s\" is not \"ccllab/sketches/1\"", text);
    CCL_TRY(ccl_json_only(&root, keys, err));
    /* What it was made for: read, not held to. */
    at = ccl_json_member(&root, "topology");
    CCL_TRY(ccl_json_string(&at, false, &text, err));
    at = ccl_json_member(&root, "collective");
    CCL_TRY(ccl_json_string(&at, false, &text, err));
    at = ccl_json_member(&root, "size_bytes");
    CCL_TRY(ccl_json_bytes(&at, false, &size_bytes, err));
    at = ccl_json_member(&root, "with_found");
    CCL_TRY(ccl_json_bool(&at, false, with_found, err));
    at = ccl_json_member(&root, "sketches");
    CCL_TRY(read_sketches(&at, space, sketches, err));
    at = ccl_json_member(&root, "mixes");
    CCL_TRY(ccl_json_array(&at, false, &n, err));
    if (n > MAX_GIVEN)
        return ccl_json_fail(&at, err, "%zu mixes: at most %d", n, (int)MAX_GIVEN);
    if (n && !ccl_grow(&mixes->items, &mixes->cap, n, sizeof *mixes->items))
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t item = ccl_json_element(&at, i);

        CCL_TRY(read_mix(&item, space, sketches, &mixes->items[i], err));
        mixes->n++;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- writing */

static void quoted(ccl_text_t *out, const char *text) {
    json_t *string = json_string(text); /* NULL as well where the text is no UTF-8 */
    char *dump = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;

    if (dump)
        ccl_text_printf(out, "%s", dump);
    else
        out->nomem = true;
    free(dump);
    json_decref(string);
}

/* A dimension's part of a stage: one word where all groups do the same. */
static void write_reach(ccl_text_t *out, const uint8_t *reach, uint32_t n) {
    bool same = true, some = false;

    for (uint32_t g = 1; g < n; g++)
        same &= reach[g] == reach[0];
    if (same) {
        ccl_text_printf(out, "\"%s\"", reach_names[reach[0]]);
        return;
    }
    ccl_text_printf(out, "[");
    for (uint8_t how = CCL_I_REACH_ONE; how <= CCL_I_REACH_FLOOD; how++) {
        bool first = true;

        for (uint32_t g = 0; g < n; g++) {
            if (reach[g] != how)
                continue;
            if (first)
                ccl_text_printf(out, "%s{\"reach\": \"%s\", \"groups\": [", some ? ", " : "",
                                reach_names[how]);
            ccl_text_printf(out, "%s%u", first ? "" : ", ", g);
            first = false;
        }
        if (!first)
            ccl_text_printf(out, "]}");
        some |= !first;
    }
    ccl_text_printf(out, "]");
}

static void write_sketch(ccl_text_t *out, const ccl_i_space_t *space, const ccl_i_sketch_t *s) {
    ccl_text_printf(out, "{\"name\": ");
    quoted(out, s->name);
    if (s->line)
        ccl_text_printf(out, s->tree ? ", \"line\": true, \"tree\": true" : ", \"line\": true");
    if (s->solved) {
        ccl_text_printf(out, ", \"solved\": ");
        quoted(out, ccl_i_solver_names[s->solved - 1]);
    }
    ccl_text_printf(out, ",\n     \"stages\": [");
    for (uint32_t k = 0; k < s->nstages; k++) {
        bool some = false;

        ccl_text_printf(out, "%s{", k ? ", " : "");
        for (uint32_t d = 0; d < space->ndimensions; d++) {
            const uint8_t *reach = s->reach + (size_t)k * space->ngroups + space->first_group[d];
            uint32_t n = space->first_group[d + 1] - space->first_group[d], used = 0;

            for (uint32_t g = 0; g < n; g++)
                used += reach[g] != CCL_I_REACH_NONE;
            if (used == 0)
                continue;
            ccl_text_printf(out, "%s", some ? ", " : "");
            quoted(out, space->symmetry->dimensions[space->dimension[d]].name);
            ccl_text_printf(out, ": ");
            write_reach(out, reach, n);
            some = true;
        }
        ccl_text_printf(out, "}");
    }
    ccl_text_printf(out, "]}");
}

static void write_mix(ccl_text_t *out, const ccl_i_space_t *space, const ccl_i_sketches_t *sketches,
                      const ccl_i_chosen_t *chosen) {
    const ccl_i_mix_t *mix = chosen->mix;

    ccl_text_printf(out, "{\"channels\": %u, ", chosen->channels);
    if (chosen->cuts > 1)
        ccl_text_printf(out, "\"cuts\": %u, ", chosen->cuts);
    if (chosen->flows)
        ccl_text_printf(out, "\"flows\": true, ");
    if (chosen->apart)
        ccl_text_printf(out, "\"apart\": true, ");
    ccl_text_printf(out, "\"shapes\": {");
    for (uint32_t d = 0; d < space->ndimensions; d++) {
        ccl_text_printf(out, "%s", d ? ", " : "");
        quoted(out, space->symmetry->dimensions[space->dimension[d]].name);
        ccl_text_printf(out, ": \"%s\"", shape_names[chosen->shapes[d]]);
    }
    ccl_text_printf(out, "},\n     \"parts\": [");
    for (uint32_t i = 0; i < mix->n; i++) {
        const char *name = sketches->items[mix->sketch[i]].name;
        uint32_t alike = 0;
        bool same = true;

        for (size_t k = 0; k < sketches->n; k++)
            alike += strcmp(sketches->items[k].name, name) == 0;
        ccl_text_printf(out, "%s{\"sketch\": ", i ? ",\n               " : "");
        if (alike == 1)
            quoted(out, name);
        else
            ccl_text_printf(out, "%u", mix->sketch[i]);
        for (uint32_t c = 1; c < space->nclasses; c++)
            same &= mix->count[c][i] == mix->count[0][i];
        ccl_text_printf(out, ", \"count\": %s", same ? "" : "[");
        for (uint32_t c = 0; c < (same ? 1 : space->nclasses); c++)
            ccl_text_printf(out, "%s%u", c ? ", " : "", mix->count[c][i]);
        ccl_text_printf(out, "%s}", same ? "" : "]");
    }
    ccl_text_printf(out, "]}");
}

ccl_status_t ccl_i_sketch_file_write(const ccl_i_space_t *space, const ccl_collective_t *want,
                                     double size_bytes, const ccl_i_sketches_t *sketches,
                                     const ccl_i_chosen_t *chosen, ccl_text_t *out,
                                     ccl_error_t *err) {
    ccl_text_printf(out, "{\"schema\": \"ccllab/sketches/1\",\n \"topology\": ");
    quoted(out, space->topo->name);
    ccl_text_printf(out, ", \"collective\": ");
    quoted(out, want->name);
    ccl_text_printf(out, ", \"size_bytes\": %.17g,\n \"sketches\": [\n", size_bytes);
    for (size_t i = 0; i < sketches->n; i++) {
        ccl_text_printf(out, "    ");
        write_sketch(out, space, &sketches->items[i]);
        ccl_text_printf(out, "%s\n", i + 1 < sketches->n ? "," : "");
    }
    ccl_text_printf(out, " ],\n \"mixes\": [\n    ");
    write_mix(out, space, sketches, chosen);
    ccl_text_printf(out, "\n ]}\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
