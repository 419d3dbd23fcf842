/* What chunking made of a cluster, for people: rows of hops, links and groups that are alike. */
#include "synth/cegis/chunking.h"

#include <stdlib.h>
#include <string.h>

typedef struct explainer {
    ccl_chunk_capacities_t *out;
    size_t cap;
    ccl_chunk_capacity_t *rows;
    size_t nrows;
} explainer_t;

static bool near(double a, double b) {
    double diff = a > b ? a - b : b - a;
    return diff <= 1e-9 * (a > b ? a : b);
}

/** The row of the same class, or a new one without its example. */
static ccl_chunk_capacity_t *row_of(explainer_t *e, const ccl_chunk_capacity_t *want) {
    for (size_t i = 0; i < e->nrows; i++) {
        ccl_chunk_capacity_t *row = &e->rows[i];
        if (row->what == want->what && strcmp(row->kind, want->kind) == 0 &&
            row->lanes == want->lanes && row->chunks == want->chunks &&
            near(row->alpha_s, want->alpha_s) && near(row->rate_Bps, want->rate_Bps))
            return row;
    }
    if (!ccl_grow(&e->rows, &e->cap, e->nrows + 1, sizeof *e->rows))
        return NULL;
    e->rows[e->nrows] = *want;
    return &e->rows[e->nrows++];
}

/** Hops before links before groups, fast ones first, then as found. */
static bool before(const ccl_chunk_capacity_t *a, const ccl_chunk_capacity_t *b) {
    int rank_a = a->what[0] == 'h' ? 0 : a->what[0] == 'l' ? 1 : 2;
    int rank_b = b->what[0] == 'h' ? 0 : b->what[0] == 'l' ? 1 : 2;
    if (rank_a != rank_b)
        return rank_a < rank_b;
    return a->rate_Bps > b->rate_Bps * (1 + 1e-9);
}

static double exact(const ccl_i_chunking_t *c, double fixed_s, double Bps) {
    double wire_s = c->chunk_bytes / Bps;
    return c->ceiling ? c->tau_ref_s / (fixed_s + wire_s) : (c->tau_ref_s - fixed_s) / wire_s;
}

static const char *slowest_kind(const ccl_i_exchange_t *x, const ccl_i_hop_t *hop) {
    const ccl_topology_t *topo = x->topo;
    const char *kind = "";
    double slowest_Bps = 0;
    for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
        const ccl_i_resource_t *r = &x->resources[x->uses[u].resource];
        if (r->link != CCL_NONE && (slowest_Bps == 0 || r->Bps < slowest_Bps)) {
            slowest_Bps = r->Bps;
            kind = topo->kinds[topo->links[r->link].kind];
        }
    }
    return kind;
}

static bool add(explainer_t *e, ccl_chunk_capacity_t row, const char *from, const char *to) {
    ccl_chunk_capacity_t *at = row_of(e, &row);
    if (!at)
        return false;
    if (at->count++ == 0) {
        ccl_text_t text = {0};
        ccl_text_printf(&text, to ? "%s -> %s" : "%s", from, to);
        at->example = text.nomem ? NULL : ccl_arena_strdup(&e->out->arena, text.data);
        ccl_text_fini(&text);
        return at->example != NULL;
    }
    return true;
}

static bool add_all(explainer_t *e, const ccl_i_chunking_t *c, const ccl_i_exchange_t *x) {
    const ccl_topology_t *topo = x->topo;
    bool ok = true;
    for (uint32_t h = 0; ok && h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        ccl_chunk_capacity_t row = {.what = "hop",
                                    .kind = slowest_kind(x, hop),
                                    .lanes = hop->lanes,
                                    .alpha_s = hop->alpha_s,
                                    .rate_Bps = hop->link_Bps,
                                    .tau_s = c->hop_tau_s[h],
                                    .exact_chunks = exact(c, c->hop_fixed_s[h], hop->link_Bps),
                                    .chunks = c->hop_chunks[h]};
        ok = add(e, row, topo->devices[topo->rank_device[hop->src]].id,
                 topo->devices[topo->rank_device[hop->dst]].id);
    }
    for (uint32_t r = 0; ok && r < x->nresources; r++) {
        const ccl_i_resource_t *res = &x->resources[r];
        const ccl_link_t *link = res->link != CCL_NONE ? &topo->links[res->link] : NULL;
        ccl_chunk_capacity_t row = {.what = link ? "link" : "group",
                                    .kind = link ? topo->kinds[link->kind] : "",
                                    .lanes = link ? link->lanes : 1,
                                    .alpha_s = c->resource_fixed_s[r],
                                    .rate_Bps = res->Bps,
                                    .tau_s = c->resource_tau_s[r],
                                    .exact_chunks = exact(c, c->resource_fixed_s[r], res->Bps),
                                    .chunks = c->resource_chunks[r]};
        ok = add(e, row, link ? topo->devices[link->from].id : topo->groups[res->group].name,
                 link ? topo->devices[link->to].id : NULL);
    }
    return ok;
}

ccl_status_t ccl_i_chunking_explain(const ccl_i_chunking_t *chunking, const ccl_i_exchange_t *x,
                                    ccl_chunk_capacities_t **out, ccl_error_t *err) {
    explainer_t e = {.out = calloc(1, sizeof *e.out)};
    if (!e.out)
        return ccl_fail_nomem(err);
    bool ok = add_all(&e, chunking, x);
    e.out->rows = ok ? ccl_arena_alloc(&e.out->arena, e.nrows + 1, sizeof *e.rows) : NULL;
    if (!e.out->rows) {
        free(e.rows);
        ccl_chunk_capacities_destroy(e.out);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < e.nrows; i++) { /* few rows: put each where it belongs */
        size_t at = i;
        while (at > 0 && before(&e.rows[i], &e.out->rows[at - 1])) {
            e.out->rows[at] = e.out->rows[at - 1];
            at--;
        }
        e.out->rows[at] = e.rows[i];
    }
    free(e.rows);
    e.out->nrows = (uint32_t)e.nrows;
    e.out->chunk_bytes = chunking->chunk_bytes;
    e.out->tau_ref_s = chunking->tau_ref_s;
    e.out->stretch = chunking->stretch;
    e.out->ceiling = chunking->ceiling;
    e.out->reduce = chunking->reduce;
    *out = e.out;
    return CCL_OK;
}

void ccl_chunk_capacities_destroy(ccl_chunk_capacities_t *capacities) {
    if (capacities) {
        ccl_arena_fini(&capacities->arena);
        free(capacities);
    }
}
