/*
 * Epoch flows as TE-CCL (SIGCOMM 2024) writes them: docs/formats.md, "Schedule: TE-CCL".
 *
 * The demand follows from the keys of the chunks' paths ("Demand at 1 for chunk 0 from 10 met by
 * epoch 9"), what moves from the flows ("Chunk 0 from 3 traveled over 3->15 [with volume 0.5] in
 * epoch 0 [via switches 0]"). Keys carry a number that differs by solver ("7-Flows", "6-Flows").
 */
#include "schedule/schedule_i.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODE (CCL_I_MAX_RANKS - 1)
#define MAX_PARTS 60u
#define MAX_CELLS ((uint64_t)1 << 24) /* parts times ranks, when chunks are cut */
#define PART_TOLERANCE 1e-3

const char *ccl_i_teccl_key(const char *key) {
    const char *p = key;
    while (*p >= '0' && *p <= '9')
        p++;
    return p > key && *p == '-' ? p + 1 : key;
}

/* ---------------------------------------------------------------- sentences */

static bool word(const char **p, const char *wanted) {
    size_t len = strlen(wanted);
    if (strncmp(*p, wanted, len) != 0)
        return false;
    *p += len;
    return true;
}

static bool number(const char **p, uint32_t max, uint32_t *out) {
    uint64_t value = 0;
    const char *start = *p;
    while (**p >= '0' && **p <= '9' && *p - start < 10)
        value = value * 10 + (unsigned)(*(*p)++ - '0');
    *out = (uint32_t)value;
    return *p > start && value <= max;
}

/** A plain decimal of at most 40 characters, 0 < value <= 1 (a little more from rounding). */
static bool volume(const char **p, double *out) {
    char text[41];
    size_t n = 0;
    while (n < sizeof text - 1 && **p && strchr("0123456789.e-+", **p))
        text[n++] = *(*p)++;
    text[n] = 0;
    char *end;
    if (n == 0 || text[0] < '0' || text[0] > '9')
        return false;
    *out = strtod(text, &end);
    return *end == 0 && *out > 0 && *out <= 1 + PART_TOLERANCE;
}

typedef struct sentence { /* of the file's node and chunk numbers */
    uint32_t chunk, source, from, to, epoch;
    double part;
    const char *vias; /* behind "via switches", or NULL */
} sentence_t;

static bool read_flow(const char *p, sentence_t *s) {
    memset(s, 0, sizeof *s);
    s->part = 1;
    if (!word(&p, "Chunk ") || !number(&p, CCL_I_MAX_CHUNKS, &s->chunk) || !word(&p, " from ") ||
        !number(&p, MAX_NODE, &s->source) || !word(&p, " traveled over ") ||
        !number(&p, MAX_NODE, &s->from) || !word(&p, "->") || !number(&p, MAX_NODE, &s->to))
        return false;
    if (word(&p, " with volume ") && !volume(&p, &s->part))
        return false;
    if (!word(&p, " in epoch ") || !number(&p, CCL_I_MAX_STEP_NUMBER - 1, &s->epoch))
        return false;
    if (word(&p, " via switches ")) {
        s->vias = p;
        return true;
    }
    return *p == 0;
}

/** Next of "0", "0, 17" or "0->17"; false at the end or where it is wrong (*p then not at 0). */
static bool next_via(const char **p, bool first, uint32_t *out) {
    if (!first && !word(p, ", ") && !word(p, "->") && !word(p, " "))
        return false;
    return number(p, MAX_NODE, out);
}

static bool read_demand(const char *p, uint32_t *dst, uint32_t *chunk, uint32_t *src) {
    uint32_t epoch;
    return word(&p, "Demand at ") && number(&p, MAX_NODE, dst) && word(&p, " for chunk ") &&
           number(&p, CCL_I_MAX_CHUNKS, chunk) && word(&p, " from ") && number(&p, MAX_NODE, src) &&
           word(&p, " met by epoch ") && number(&p, CCL_I_MAX_STEP_NUMBER, &epoch) && *p == 0;
}

/* ---------------------------------------------------------------- the file */

typedef struct reader {
    ccl_json_doc_t doc;
    ccl_json_at_t flows, paths;
    double epoch_s, finish_s;
    uint32_t *rank_of;   /* [MAX_NODE + 1] node to rank, or CCL_NONE */
    uint32_t *switch_of; /* [MAX_NODE + 1] */
    ccl_epoch_flows_t *out;
    ccl_error_t *err;
} reader_t;

static ccl_status_t read_members(reader_t *r) {
    static const char *const known[] = {"Epoch_Duration",
                                        "Expected_Epoch_Duration",
                                        "Epochs_Required",
                                        "Collective_Finish_Time",
                                        "Algo_Bandwidth",
                                        "Demand_Met",
                                        "Flows",
                                        "Chunk paths",
                                        "chunk paths",
                                        "Solver_Time",
                                        NULL};
    ccl_json_at_t root = ccl_json_root(&r->doc);
    const char *key;
    json_t *value;
    CCL_TRY(ccl_json_object(&root, true, r->err));
    json_object_foreach((json_t *)root.value, key, value) {
        const char *plain = ccl_i_teccl_key(key);
        ccl_json_at_t at = ccl_json_member(&root, key);
        unsigned k = 0;
        while (known[k] && strcmp(plain, known[k]) != 0)
            k++;
        if (!known[k])
            return ccl_json_fail(&root, r->err, "unknown key '%.60s' in a schedule of TE-CCL", key);
        if (strcmp(plain, "Flows") == 0)
            r->flows = at;
        else if (strcmp(plain + 1, "hunk paths") == 0)
            r->paths = at;
        else if (strcmp(plain, "Epoch_Duration") == 0)
            CCL_TRY(ccl_json_number(&at, true, &r->epoch_s, r->err));
        else if (strcmp(plain, "Collective_Finish_Time") == 0)
            CCL_TRY(ccl_json_number(&at, true, &r->finish_s, r->err));
    }
    if (!r->flows.value || !json_is_array(r->flows.value))
        return ccl_json_fail(&root, r->err, "Flows must be an array");
    if (!r->paths.value || !json_is_object(r->paths.value) || json_object_size(r->paths.value) == 0)
        return ccl_json_fail(&root, r->err, "chunk paths must be an object with a demand or more");
    if (!(r->epoch_s > 0) || r->finish_s < 0)
        return ccl_json_fail(&root, r->err, "Epoch_Duration must be above 0");
    if (json_array_size(r->flows.value) > CCL_I_MAX_TRANSFERS)
        return ccl_json_fail(&r->flows, r->err, "too many flows: at most %u", CCL_I_MAX_TRANSFERS);
    return CCL_OK;
}

/** Numbers the marked nodes in ascending order. */
static const uint32_t *number_nodes(ccl_arena_t *arena, uint32_t *of, uint32_t *n_out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i <= MAX_NODE; i++)
        n += of[i] != CCL_NONE;
    uint32_t *nodes = ccl_arena_alloc(arena, n + (size_t)1, sizeof *nodes);
    *n_out = 0;
    for (uint32_t i = 0; nodes && i <= MAX_NODE; i++) {
        if (of[i] == CCL_NONE)
            continue;
        of[i] = *n_out;
        nodes[(*n_out)++] = i;
    }
    return nodes;
}

/** GPUs, and how many chunks a source has. */
static ccl_status_t read_demands(reader_t *r, uint32_t *max_chunk) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)r->paths.value, key, value) {
        uint32_t dst, chunk, src;
        if (!read_demand(key, &dst, &chunk, &src))
            return ccl_json_fail(&r->paths, r->err,
                                 "'%.80s' is not 'Demand at D for chunk C from S met by epoch E'",
                                 key);
        r->rank_of[dst] = r->rank_of[src] = 0;
        *max_chunk = chunk > *max_chunk ? chunk : *max_chunk;
    }
    r->out->rank_node = number_nodes(&r->out->arena, r->rank_of, &r->out->nranks);
    return r->out->rank_node ? CCL_OK : ccl_fail_nomem(r->err);
}

/**
 * Every chunk of a source wanted by all others is an allgather, every chunk by one other, chunk
 * d c + j by the d-th GPU, an alltoall.
 */
static ccl_status_t find_collective(reader_t *r, uint32_t max_chunk) {
    uint32_t n = r->out->nranks;
    uint64_t ndemands = json_object_size(r->paths.value);
    uint64_t pairs = (uint64_t)n * (n - 1);
    uint64_t per_source = (uint64_t)max_chunk + 1;
    if (n < 2 || ndemands % pairs)
        return ccl_json_fail(&r->paths, r->err,
                             "the %llu demands of %u GPUs are neither an allgather nor an alltoall",
                             (unsigned long long)ndemands, n);
    uint32_t c = (uint32_t)(ndemands / pairs);
    bool gather = per_source == c && n > 2;
    const char *key;
    json_t *value;
    if (per_source > CCL_I_MAX_CHUNKS || (!gather && per_source > (uint64_t)n * c))
        return ccl_json_fail(&r->paths, r->err, "chunk %u is one too many", max_chunk);
    json_object_foreach((json_t *)r->paths.value, key, value) {
        uint32_t dst = 0, chunk = 0, src = 0;
        read_demand(key, &dst, &chunk, &src);
        if (src == dst || (!gather && chunk / c != r->rank_of[dst]))
            return ccl_json_fail(&r->paths, r->err,
                                 "'%.80s': neither an allgather nor an alltoall wants that", key);
    }
    return ccl_collective_create(gather ? CCL_ALLGATHER : CCL_ALLTOALL, n, c, 0, &r->out->coll,
                                 r->err);
}

static ccl_status_t read_sentence(reader_t *r, size_t i, sentence_t *s) {
    ccl_json_at_t at = ccl_json_element(&r->flows, i);
    const char *text = NULL;
    CCL_TRY(ccl_json_string(&at, true, &text, r->err));
    if (!read_flow(text, s))
        return ccl_json_fail(&at, r->err,
                             "'%.120s' is not 'Chunk C from S traveled over A->B [with volume V] "
                             "in epoch E [via switches X]'",
                             text);
    if (s->from == s->to || r->rank_of[s->from] == CCL_NONE || r->rank_of[s->to] == CCL_NONE ||
        r->rank_of[s->source] == CCL_NONE)
        return ccl_json_fail(&at, r->err, "'%.120s': its ends are not two GPUs with demands", text);
    return CCL_OK;
}

/** Counts vias and marks the switches. */
static ccl_status_t find_switches(reader_t *r) {
    size_t n = json_array_size(r->flows.value);
    for (size_t i = 0; i < n; i++) {
        sentence_t s;
        uint32_t node;
        CCL_TRY(read_sentence(r, i, &s));
        if (!s.vias)
            continue;
        const char *p = s.vias;
        uint32_t count = 0;
        for (; *p && next_via(&p, count == 0, &node); count++) {
            if (r->rank_of[node] != CCL_NONE) {
                p = "GPU";
                break;
            }
            r->switch_of[node] = 0;
        }
        if (*p || !count) {
            ccl_json_at_t at = ccl_json_element(&r->flows, i);
            return ccl_json_fail(&at, r->err,
                                 "'via switches' must list switches, nodes without demands");
        }
        r->out->nvias += count;
    }
    r->out->switch_node = number_nodes(&r->out->arena, r->switch_of, &r->out->nswitches);
    return r->out->switch_node ? CCL_OK : ccl_fail_nomem(r->err);
}

static int by_epoch(const void *a, const void *b) {
    const ccl_epoch_flow_t *x = a, *y = b;
    if (x->epoch != y->epoch)
        return x->epoch < y->epoch ? -1 : 1;
    return x->first_via < y->first_via ? -1 : x->first_via > y->first_via;
}

static ccl_status_t read_flows(reader_t *r) {
    ccl_epoch_flows_t *out = r->out;
    uint32_t nflows = (uint32_t)json_array_size(r->flows.value), nvias = 0;
    uint32_t n = out->nranks;
    uint32_t per_source = out->coll->nchunks / n;
    ccl_epoch_flow_t *flows = ccl_arena_alloc(&out->arena, nflows + (size_t)1, sizeof *flows);
    ccl_epoch_flow_t *sorted = ccl_arena_alloc(&out->arena, nflows + (size_t)1, sizeof *flows);
    uint32_t *vias = ccl_arena_alloc(&out->arena, out->nvias + (size_t)1, sizeof *vias);
    if (!flows || !sorted || !vias)
        return ccl_fail_nomem(r->err);

    for (uint32_t i = 0; i < nflows; i++) {
        sentence_t s;
        CCL_TRY(read_sentence(r, i, &s));
        if (s.chunk >= per_source) {
            ccl_json_at_t at = ccl_json_element(&r->flows, i);
            return ccl_json_fail(&at, r->err, "chunk %u of node %u: nobody demands it", s.chunk,
                                 s.source);
        }
        sorted[i] = (ccl_epoch_flow_t){.src = r->rank_of[s.from],
                                       .dst = r->rank_of[s.to],
                                       .chunk = r->rank_of[s.source] * per_source + s.chunk,
                                       .epoch = s.epoch,
                                       .first_via = i, /* for a stable order; set below */
                                       .part = fmin(s.part, 1)};
    }
    if (nflows)
        qsort(sorted, nflows, sizeof *sorted, by_epoch);
    for (uint32_t i = 0; i < nflows; i++) {
        sentence_t s;
        uint32_t node;
        flows[i] = sorted[i];
        CCL_TRY(read_sentence(r, sorted[i].first_via, &s));
        flows[i].first_via = nvias;
        const char *p = s.vias ? s.vias : "";
        while (*p && next_via(&p, nvias == flows[i].first_via, &node))
            vias[nvias++] = r->switch_of[node];
        flows[i].nvias = nvias - flows[i].first_via;
    }
    out->flows = flows;
    out->nflows = nflows;
    out->vias = vias;
    return CCL_OK;
}

static ccl_status_t read_all(reader_t *r, const char *name) {
    ccl_epoch_flows_t *out = r->out;
    uint32_t max_chunk = 0;
    char title[121];
    CCL_TRY(read_members(r));
    CCL_TRY(read_demands(r, &max_chunk));
    CCL_TRY(find_collective(r, max_chunk));
    CCL_TRY(find_switches(r));
    CCL_TRY(read_flows(r));
    ccl_file_title(name, title, sizeof title);
    out->name = ccl_arena_strdup(&out->arena, title);
    out->epoch_s = r->epoch_s;
    out->finish_s = r->finish_s;
    return out->name ? CCL_OK : ccl_fail_nomem(r->err);
}

ccl_status_t ccl_epoch_flows_read_text(const char *name, const char *text, size_t len,
                                       ccl_epoch_flows_t **out, ccl_error_t *err) {
    reader_t r = {.err = err};
    size_t nodes = (size_t)MAX_NODE + 1;
    CCL_TRY(ccl_json_parse(name, text, len, &r.doc, err));
    r.rank_of = malloc(nodes * sizeof *r.rank_of);
    r.switch_of = malloc(nodes * sizeof *r.switch_of);
    r.out = calloc(1, sizeof *r.out);
    ccl_status_t status = CCL_OK;
    if (!r.rank_of || !r.switch_of || !r.out) {
        status = ccl_fail_nomem(err);
    } else {
        memset(r.rank_of, 0xff, nodes * sizeof *r.rank_of);
        memset(r.switch_of, 0xff, nodes * sizeof *r.switch_of);
        status = read_all(&r, name);
    }
    ccl_json_fini(&r.doc);
    free(r.rank_of);
    free(r.switch_of);
    if (status == CCL_OK)
        *out = r.out;
    else
        ccl_epoch_flows_destroy(r.out);
    return status;
}

void ccl_epoch_flows_destroy(ccl_epoch_flows_t *flows) {
    if (!flows)
        return;
    ccl_collective_destroy(flows->coll);
    ccl_arena_fini(&flows->arena);
    free(flows);
}

/* ---------------------------------------------------------------- as a schedule */

/** Least number of parts of which all volumes are multiples; 0: none up to MAX_PARTS. */
static uint32_t count_parts(const ccl_epoch_flows_t *flows) {
    for (uint32_t parts = 1; parts <= MAX_PARTS; parts++) {
        bool fits = true;
        for (uint32_t i = 0; i < flows->nflows && fits; i++) {
            double q = flows->flows[i].part * parts;
            fits = q > 0.5 && fabs(q - nearbyint(q)) <= PART_TOLERANCE;
        }
        if (fits)
            return parts;
    }
    return 0;
}

static void add(ccl_schedule_builder_t *b, const ccl_epoch_flow_t *f, uint32_t chunk) {
    ccl_schedule_builder_add(
        b, (ccl_transfer_t){.src = f->src, .dst = f->dst, .chunk = chunk, .step = f->epoch});
}

/** Parts of a chunk move: who leaves a GPU is who came first. */
static ccl_status_t add_parts(const ccl_epoch_flows_t *flows, uint32_t parts,
                              ccl_schedule_builder_t *b, ccl_error_t *err) {
    uint64_t cells = (uint64_t)flows->coll->nchunks * flows->nranks * parts;
    if (cells > MAX_CELLS)
        return ccl_fail(err, CCL_UNSUPPORTED, "%u chunks of %u parts on %u GPUs are too many",
                        flows->coll->nchunks, parts, flows->nranks);
    uint32_t *since = malloc(cells * sizeof *since); /* epoch of arrival + 1; CCL_NONE: not here */
    ccl_status_t status = CCL_OK;
    if (!since)
        return ccl_fail_nomem(err);
    memset(since, 0xff, cells * sizeof *since);
    for (uint32_t k = 0; k < flows->coll->nchunks; k++)
        memset(&since[((size_t)k * flows->nranks + flows->coll->chunks[k].sources[0]) * parts], 0,
               parts * sizeof *since);
    for (uint32_t i = 0; i < flows->nflows && status == CCL_OK; i++) {
        const ccl_epoch_flow_t *f = &flows->flows[i];
        uint32_t *here = &since[((size_t)f->chunk * flows->nranks + f->src) * parts];
        uint32_t *there = &since[((size_t)f->chunk * flows->nranks + f->dst) * parts];
        for (uint32_t left = (uint32_t)nearbyint(f->part * parts); left; left--) {
            uint32_t first = 0;
            for (uint32_t p = 1; p < parts; p++)
                first = here[p] < here[first] ? p : first;
            if (here[first] > f->epoch) {
                status = ccl_fail(err, CCL_ERR_INPUT,
                                  "more of chunk %u leaves GPU %u in epoch %u than came there",
                                  f->chunk, f->src, f->epoch);
                break;
            }
            here[first] = CCL_NONE;
            there[first] = f->epoch + 1;
            add(b, f, f->chunk * parts + first);
        }
    }
    free(since);
    return status;
}

ccl_status_t ccl_epoch_flows_schedule(const ccl_epoch_flows_t *flows, ccl_schedule_t **out,
                                      ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    uint32_t parts = count_parts(flows);
    if (!parts)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "volumes that are no multiples of a chunk's n-th part, n up to %u",
                        MAX_PARTS);
    CCL_TRY(ccl_collective_split(flows->coll, parts, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(flows->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; parts == 1 && i < flows->nflows; i++)
        add(b, &flows->flows[i], flows->flows[i].chunk);
    if (parts > 1)
        status = add_parts(flows, parts, b, err);
    if (status != CCL_OK) {
        ccl_schedule_builder_destroy(b);
        return status;
    }
    return ccl_schedule_builder_finish(b, out, err);
}
