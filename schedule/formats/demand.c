/*
 * Demands: a collective as a list of chunks with sources, destinations and sizes of their own.
 *
 * Format ccllab-demand-1, docs/formats.md. The compact forms alltoallv (a matrix of bytes, row =
 * source) and allgatherv (bytes of each rank) become chunks in row order.
 */
#include "schedule/formats/demand_i.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- collecting */

void ccl_i_demand_fini(ccl_i_demand_t *demand) {
    ccl_arena_fini(&demand->lists);
    free(demand->chunks);
    memset(demand, 0, sizeof *demand);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static ccl_status_t all_ranks(ccl_i_demand_t *demand, ccl_error_t *err) {
    if (demand->all)
        return CCL_OK;
    demand->all = ccl_arena_alloc(&demand->lists, demand->nranks, sizeof *demand->all);
    if (!demand->all)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < demand->nranks; r++)
        demand->all[r] = r;
    return CCL_OK;
}

/** A sorted copy of a list of ranks, each at most once. */
static ccl_status_t take_list(ccl_i_demand_t *demand, const char *what, const uint32_t *list,
                              uint32_t len, const uint32_t **list_out, uint32_t *len_out,
                              ccl_error_t *err) {
    if (len == CCL_I_DEMAND_ALL || len == 1) {
        CCL_TRY(all_ranks(demand, err));
        if (len == 1 && list[0] >= demand->nranks)
            return ccl_fail(err, CCL_ERR_INPUT, "%s %u is not one of the %u ranks", what, list[0],
                            demand->nranks);
        *list_out = len == 1 ? &demand->all[list[0]] : demand->all;
        *len_out = len == 1 ? 1 : demand->nranks;
        return CCL_OK;
    }
    uint32_t *copy = ccl_arena_alloc(&demand->lists, len ? len : 1, sizeof *copy);
    if (!copy)
        return ccl_fail_nomem(err);
    if (len)
        memcpy(copy, list, len * sizeof *copy);
    qsort(copy, len, sizeof *copy, by_value);
    for (uint32_t i = 0; i < len; i++) {
        if (copy[i] >= demand->nranks)
            return ccl_fail(err, CCL_ERR_INPUT, "%s %u is not one of the %u ranks", what, copy[i],
                            demand->nranks);
        if (i && copy[i] == copy[i - 1])
            return ccl_fail(err, CCL_ERR_INPUT, "%s %u is named twice", what, copy[i]);
    }
    *list_out = copy;
    *len_out = len;
    return CCL_OK;
}

ccl_status_t ccl_i_demand_add(ccl_i_demand_t *demand, const ccl_chunk_t *what, ccl_error_t *err) {
    ccl_chunk_t chunk = {.share = what->share, .reduced = what->reduced};
    double bytes = what->share;
    if (!(bytes >= 0) || !isfinite(bytes))
        return ccl_fail(err, CCL_ERR_INPUT, "a chunk of %g bytes: 0 or more is needed", bytes);
    CCL_TRY(take_list(demand, "source", what->sources, what->nsources, &chunk.sources,
                      &chunk.nsources, err));
    CCL_TRY(take_list(demand, "destination", what->dests, what->ndests, &chunk.dests, &chunk.ndests,
                      err));
    if (chunk.nsources == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "a chunk without a source");
    if (chunk.nsources > 1 && !chunk.reduced)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a chunk with %u sources must be reduced (\"reduced\": true)",
                        chunk.nsources);
    if (chunk.ndests == 0 && bytes > 0)
        return ccl_fail(err, CCL_ERR_INPUT, "a chunk of %g bytes without a destination", bytes);
    demand->members += (uint64_t)chunk.nsources + chunk.ndests;
    if (demand->len >= CCL_I_MAX_CHUNKS || demand->members > CCL_I_MAX_MEMBERS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "too many chunks, sources or destinations: at most %u chunks and %u of "
                        "the others over all chunks",
                        CCL_I_MAX_CHUNKS, CCL_I_MAX_MEMBERS);
    if (!ccl_grow(&demand->chunks, &demand->cap, demand->len + 1, sizeof chunk))
        return ccl_fail_nomem(err);
    demand->chunks[demand->len++] = chunk;
    return CCL_OK;
}

ccl_status_t ccl_i_demand_finish(ccl_i_demand_t *demand, const char *name, ccl_collective_t **out,
                                 ccl_error_t *err) {
    return ccl_i_collective_from_bytes(name, demand->nranks, demand->chunks, (uint32_t)demand->len,
                                       out, err);
}

/* ---------------------------------------------------------------- reading JSON */

/** A rank, a list of ranks or "all". @param list_out malloc'ed; caller frees. */
static ccl_status_t read_ranks(const ccl_json_at_t *at, uint32_t nranks, uint32_t **list_out,
                               uint32_t *len_out, ccl_error_t *err) {
    uint32_t rank = 0;
    size_t len = 1;
    if (!at->value)
        return ccl_json_fail(at, err, "missing: a rank, a list of ranks or \"all\" is needed");
    if (json_is_string(at->value)) {
        if (strcmp(json_string_value(at->value), "all") != 0)
            return ccl_json_fail(at, err, "a rank, a list of ranks or \"all\" is needed");
        *len_out = CCL_I_DEMAND_ALL;
        return CCL_OK;
    }
    bool single = !json_is_array(at->value);
    if (single)
        CCL_TRY(ccl_json_u32(at, true, nranks - 1, &rank, err));
    else
        CCL_TRY(ccl_json_array(at, true, &len, err));
    if (len > nranks)
        return ccl_json_fail(at, err, "%zu ranks are listed, but there are %u", len, nranks);
    uint32_t *list = calloc(len ? len : 1, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    list[0] = rank;
    for (size_t i = 0; i < len && !single; i++) {
        ccl_json_at_t element = ccl_json_element(at, i);
        ccl_status_t status = ccl_json_u32(&element, true, nranks - 1, &list[i], err);
        if (status != CCL_OK) {
            free(list);
            return status;
        }
    }
    *list_out = list;
    *len_out = (uint32_t)len;
    return CCL_OK;
}

/** ccl_i_demand_add, with the position of `at` in its error. */
static ccl_status_t add_at(const ccl_json_at_t *at, ccl_i_demand_t *demand, ccl_chunk_t what,
                           ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_status_t status = ccl_i_demand_add(demand, &what, &inner);
    if (status == CCL_ERR_INPUT)
        return ccl_json_fail(at, err, "%s", inner.text);
    return status == CCL_OK ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t read_chunk(const ccl_json_at_t *at, ccl_i_demand_t *demand, ccl_error_t *err) {
    static const char *const keys[] = {"source", "destinations", "reduced", "bytes", NULL};
    uint32_t *sources = NULL, *dests = NULL, nsources = 0, ndests = 0;
    bool reduced = false;
    double bytes = 0;
    ccl_status_t status;
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    ccl_json_at_t source = ccl_json_member(at, "source");
    ccl_json_at_t dest = ccl_json_member(at, "destinations");
    ccl_json_at_t reduced_at = ccl_json_member(at, "reduced");
    ccl_json_at_t bytes_at = ccl_json_member(at, "bytes");
    CCL_TRY_GOTO(read_ranks(&source, demand->nranks, &sources, &nsources, err), status, end);
    CCL_TRY_GOTO(read_ranks(&dest, demand->nranks, &dests, &ndests, err), status, end);
    CCL_TRY_GOTO(ccl_json_bool(&reduced_at, false, &reduced, err), status, end);
    CCL_TRY_GOTO(ccl_json_bytes(&bytes_at, true, &bytes, err), status, end);
    ccl_chunk_t what = {.sources = sources,
                        .dests = dests,
                        .nsources = nsources,
                        .ndests = ndests,
                        .share = bytes,
                        .reduced = reduced};
    status = add_at(at, demand, what, err);
end:
    free(sources);
    free(dests);
    return status;
}

static ccl_status_t read_alltoallv(const ccl_json_at_t *at, ccl_i_demand_t *demand,
                                   ccl_error_t *err) {
    for (uint32_t s = 0; s < demand->nranks; s++) {
        ccl_json_at_t row = ccl_json_element(at, s);
        size_t len;
        CCL_TRY(ccl_json_array(&row, true, &len, err));
        if (len != demand->nranks)
            return ccl_json_fail(&row, err, "%zu sizes: one for each of the %u ranks is needed",
                                 len, demand->nranks);
        for (uint32_t d = 0; d < demand->nranks; d++) {
            ccl_json_at_t cell = ccl_json_element(&row, d);
            double bytes;
            CCL_TRY(ccl_json_bytes(&cell, true, &bytes, err));
            ccl_chunk_t what = {
                .sources = &s, .dests = &d, .nsources = 1, .ndests = 1, .share = bytes};
            CCL_TRY(add_at(&cell, demand, what, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t read_allgatherv(const ccl_json_at_t *at, ccl_i_demand_t *demand,
                                    ccl_error_t *err) {
    for (uint32_t s = 0; s < demand->nranks; s++) {
        ccl_json_at_t cell = ccl_json_element(at, s);
        double bytes;
        CCL_TRY(ccl_json_bytes(&cell, true, &bytes, err));
        ccl_chunk_t what = {
            .sources = &s, .nsources = 1, .ndests = CCL_I_DEMAND_ALL, .share = bytes};
        CCL_TRY(add_at(&cell, demand, what, err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_demand_from_json(const ccl_json_at_t *at, bool whole_file,
                                    ccl_collective_t **out, ccl_error_t *err) {
    static const char *const keys[] = {"format",    "name",       "nranks", "chunks",
                                       "alltoallv", "allgatherv", NULL};
    static const char *const forms[] = {"chunks", "alltoallv", "allgatherv"};
    const char *format = NULL, *name = NULL;
    unsigned form = 0, nforms = 0;
    size_t len;
    CCL_TRY(ccl_json_object(at, true, err));
    CCL_TRY(ccl_json_only(at, keys, err));
    ccl_json_at_t format_at = ccl_json_member(at, "format");
    ccl_json_at_t name_at = ccl_json_member(at, "name");
    ccl_json_at_t nranks_at = ccl_json_member(at, "nranks");
    CCL_TRY(ccl_json_string(&format_at, whole_file, &format, err));
    if (format && strcmp(format, "ccllab-demand-1") != 0)
        return ccl_json_fail(&format_at, err, "unknown format '%.40s': ccllab-demand-1 is read",
                             format);
    CCL_TRY(ccl_json_string(&name_at, false, &name, err));
    for (unsigned i = 0; i < CCL_ARRAY_LEN(forms); i++) {
        if (ccl_json_member(at, forms[i]).value) {
            form = i;
            nforms++;
        }
    }
    if (nforms != 1)
        return ccl_json_fail(at, err, "exactly one of chunks, alltoallv, allgatherv is needed");
    ccl_json_at_t list = ccl_json_member(at, forms[form]);
    CCL_TRY(ccl_json_array(&list, true, &len, err));
    if (form != 0 && (len < 1 || len > CCL_I_MAX_RANKS))
        return ccl_json_fail(&list, err, "%zu ranks: from 1 to %u are possible", len,
                             CCL_I_MAX_RANKS);
    ccl_i_demand_t demand = {.nranks = form != 0 ? (uint32_t)len : 0};
    CCL_TRY(ccl_json_u32(&nranks_at, form == 0, CCL_I_MAX_RANKS, &demand.nranks, err));
    if (demand.nranks < 1 || (form != 0 && demand.nranks != len))
        return ccl_json_fail(&nranks_at, err, "%u ranks%s", demand.nranks,
                             form != 0 ? ", but the list is of another length" : ": at least 1");

    ccl_status_t status = CCL_OK;
    if (form == 1)
        status = read_alltoallv(&list, &demand, err);
    else if (form == 2)
        status = read_allgatherv(&list, &demand, err);
    for (size_t i = 0; form == 0 && i < len && status == CCL_OK; i++) {
        ccl_json_at_t chunk = ccl_json_element(&list, i);
        status = read_chunk(&chunk, &demand, err);
    }
    if (status == CCL_OK) {
        ccl_error_t inner = CCL_ERROR_INIT;
        status = ccl_i_demand_finish(&demand, name ? name : "custom", out, &inner);
        if (status == CCL_ERR_INPUT)
            status = ccl_json_fail(&list, err, "%s", inner.text);
        else if (status != CCL_OK)
            status = ccl_fail_nomem(err);
    }
    ccl_i_demand_fini(&demand);
    return status;
}

ccl_status_t ccl_demand_read_text(const char *name, const char *text, size_t len,
                                  ccl_collective_t **out, ccl_error_t *err) {
    ccl_json_doc_t doc;
    CCL_TRY(ccl_json_parse(name, text, len, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc);
    ccl_status_t status = ccl_i_demand_from_json(&root, true, out, err);
    ccl_json_fini(&doc);
    return status;
}

ccl_status_t ccl_demand_read(const char *path, ccl_collective_t **out, ccl_error_t *err) {
    ccl_json_doc_t doc;
    CCL_TRY(ccl_json_read(path, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc);
    ccl_status_t status = ccl_i_demand_from_json(&root, true, out, err);
    ccl_json_fini(&doc);
    return status;
}

/* ---------------------------------------------------------------- writing */

void ccl_i_demand_write_bytes(const ccl_collective_t *coll, const ccl_chunk_t *chunk,
                              ccl_text_t *out) {
    /* 15 digits: shares are quotients, and what a product of one adds beyond them is rounding. */
    ccl_text_printf(out, "%.15g", chunk->share * coll->natural_bytes);
}

static void write_ranks(const uint32_t *list, uint32_t len, uint32_t nranks, ccl_text_t *out) {
    if (len == nranks && nranks > 1) {
        ccl_text_printf(out, "\"all\"");
        return;
    }
    for (uint32_t i = 0; i < len; i++)
        ccl_text_printf(out, "%s%u", i ? ", " : "[", list[i]);
    ccl_text_printf(out, len ? "]" : "[]");
}

void ccl_i_demand_write(const ccl_collective_t *coll, unsigned indent, ccl_text_t *out) {
    int pad = (int)indent;
    ccl_text_printf(out, "{\n%*s\"format\": \"ccllab-demand-1\",\n%*s\"name\": ", pad + 2, "",
                    pad + 2, "");
    ccl_i_json_text(coll->name, out);
    ccl_text_printf(out, ",\n%*s\"nranks\": %u,\n%*s\"chunks\": [", pad + 2, "", coll->nranks,
                    pad + 2, "");
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        ccl_text_printf(out, "%s\n%*s{\"source\": ", k ? "," : "", pad + 4, "");
        if (c->nsources == 1)
            ccl_text_printf(out, "%u", c->sources[0]);
        else
            write_ranks(c->sources, c->nsources, coll->nranks, out);
        ccl_text_printf(out, ", \"destinations\": ");
        write_ranks(c->dests, c->ndests, coll->nranks, out);
        ccl_text_printf(out, ", \"reduced\": %s, \"bytes\": ", c->reduced ? "true" : "false");
        ccl_i_demand_write_bytes(coll, c, out);
        ccl_text_printf(out, "}");
    }
    ccl_text_printf(out, "\n%*s]\n%*s}", pad + 2, "", pad, "");
}
