/**
 * @file fold.c
 * Blocks that are alike are simulated once.
 *
 * Two blocks do the same at the same times when they have the same primitives and what they depend
 * on is alike in turn: the blocks at the other ends of their connections, those they wait for, and
 * the rates of their flows, which follow from how many connections of each kind share each link.
 * So the blocks, connections and links are coloured, and colours are split by what they see of each
 * other until nothing splits any more (colour refinement; an equitable partition). One block,
 * connection and link of each colour is simulated; a flow counts on its link for as many as there
 * are of its colour. A switch connection's trunk sees its members and they see it; of members of
 * one colour one is kept. Hashes only guide the search: the partition found is compared member by
 * member before it is used.
 *
 * Source: Weisfeiler and Leman, 1968 (colour refinement); Golubitsky and Stewart, Bull. AMS 43,
 * 2006: an equitable partition of a network of systems is one of synchrony.
 */
#include "sim/fold.h"

#include <stdlib.h>
#include <string.h>

typedef ccl_i_fold_entry_t entry_t;
typedef ccl_i_folding_t folding_t;

static inline uint64_t mix(uint64_t h, uint64_t x) {
    return ccl_mix64(h ^ ccl_mix64(x));
}

static inline uint64_t mix_double(uint64_t h, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return mix(h, bits);
}

static void folding_fini(folding_t *f) {
    free(f->step_unit);
    free(f->step_index);
    free(f->tb_unit);
    free(f->launch_s);
    free(f->first_dep);
    free(f->deps);
    free(f->first_end);
    free(f->ends);
    free(f->ports);
    free(f->first_entry);
    free(f->entries);
    free(f->unit);
    free(f->next);
    free(f->conn);
    free(f->res);
    free(f->seen);
    free(f->trunk);
    free(f->members);
    free(f->rate_Bps);
    free(f->set);
    free(f->set_first);
    free(f->unit_rep);
    free(f->conn_rep);
    free(f->res_rep);
}

static bool folding_init(folding_t *f, const ccl_i_run_t *run) {
    uint32_t most = run->nunits > run->nconns ? run->nunits : run->nconns;
    f->run = run;
    f->nsteps = run->nsteps;
    f->nres = ccl_i_resources(run->topo);
    most = most > f->nres ? most : f->nres;
    for (f->set_len = 64; f->set_len < 2ull * most && f->set_len < 1u << 31; f->set_len *= 2)
        ;
    if (run->granularity == CCL_GRANULARITY_STAGE) {
        f->step_unit = malloc((f->nsteps + 1u) * sizeof(*f->step_unit));
        f->step_index = malloc((f->nsteps + 1u) * sizeof(*f->step_index));
    } else {
        f->tb_unit = malloc((run->program->ntbs + 1u) * sizeof(*f->tb_unit));
    }
    f->launch_s = malloc((run->program->nranks + 1u) * sizeof(*f->launch_s));
    f->first_dep = malloc((run->nunits + 1u) * sizeof(*f->first_dep));
    f->first_end = malloc((run->nunits + 1u) * sizeof(*f->first_end));
    f->ports = malloc((2ull * run->nconns + 1) * sizeof(*f->ports));
    f->unit = malloc((run->nunits + 1u) * sizeof(*f->unit));
    f->set = malloc(f->set_len * sizeof(*f->set));
    f->set_first = malloc(f->set_len * sizeof(*f->set_first));
    return (f->tb_unit || (f->step_unit && f->step_index)) && f->launch_s && f->first_dep &&
           f->first_end && f->ports && f->unit && f->set && f->set_first;
}

/* ---------------------------------------------------------------- colours */

/* Number of colours; rep: the first member of each member's colour, or NULL. */
static uint32_t count(folding_t *f, const uint64_t *colour, uint32_t n, uint32_t *rep) {
    uint32_t colours = 0, mask = f->set_len - 1;
    memset(f->set_first, 0xff, f->set_len * sizeof(*f->set_first));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)colour[i] & mask;
        while (f->set_first[at] != CCL_NONE && f->set[at] != colour[i])
            at = (at + 1) & mask;
        if (f->set_first[at] == CCL_NONE) {
            f->set[at] = colour[i];
            f->set_first[at] = i;
            colours++;
        }
        if (rep)
            rep[i] = f->set_first[at];
    }
    return colours;
}

/* The place of `item` in a list from `first` on, added when it is not among the last few. */
static bool note(uint32_t **list, size_t *capacity, uint32_t first, uint32_t *n, uint32_t item,
                 uint32_t *out) {
    for (uint32_t i = *n; i > first && i + 16 > *n; i--)
        if ((*list)[i - 1] == item) {
            *out = i - 1 - first;
            return true;
        }
    if (!ccl_i_grow(list, capacity, *n + 1u, sizeof(**list)))
        return false;
    *out = *n - first;
    (*list)[(*n)++] = item;
    return true;
}

static bool note_dep(folding_t *f, uint32_t unit, uint32_t *ndeps, ccl_i_fold_at_t dep,
                     uint64_t *hash) {
    uint32_t at = 0;
    if (dep.unit == CCL_NONE)
        return true;
    if (!note(&f->deps, &f->cdeps, f->first_dep[unit], ndeps, dep.unit, &at))
        return false;
    *hash = mix(*hash, (uint64_t)at << 32 | dep.index);
    return true;
}

static bool note_end(folding_t *f, uint32_t unit, uint32_t *nends, uint32_t conn, bool sends,
                     uint64_t *hash) {
    uint32_t at = 0;
    if (!note(&f->ends, &f->cends, f->first_end[unit], nends, conn, &at))
        return false;
    if (conn != CCL_NONE && f->ports[2 * (size_t)conn + !sends] == CCL_NONE)
        f->ports[2 * (size_t)conn + !sends] = at;
    *hash = mix(*hash, at);
    return true;
}

static void list_units(folding_t *f) {
    const ccl_i_run_t *run = f->run;
    uint32_t rank = CCL_NONE;
    for (uint32_t i = 0; i < run->nunits; i++) {
        uint32_t of = run->program->tbs[run->units[i].tb].rank;
        if (of != rank) { /* units are by rank */
            rank = of;
            f->launch_s[rank] = ccl_i_launch_s(run, rank);
        }
        if (f->tb_unit)
            f->tb_unit[run->units[i].tb] = i;
        for (uint32_t k = 0; f->step_unit && k < run->units[i].nsteps; k++) {
            uint32_t step = ccl_i_step_at(run, run->units[i].first + k);
            f->step_unit[step] = i;
            f->step_index[step] = k;
        }
    }
}

/* Colours of units by what they do, whomever they do it with. */
static bool colour_units(folding_t *f) {
    const ccl_i_run_t *run = f->run;
    uint32_t ndeps = 0, nends = 0;
    bool ok = true;
    list_units(f);
    memset(f->ports, 0xff, 2 * (size_t)run->nconns * sizeof(*f->ports));
    for (uint32_t i = 0; i < run->nunits && ok; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        uint32_t rank = run->program->tbs[u->tb].rank;
        f->first_dep[i] = ndeps;
        f->first_end[i] = nends;
        uint64_t h =
            mix_double(mix_double(mix(1, u->nsteps), f->launch_s[rank]), run->flag_s[rank]);
        if (u->stage_dep != CCL_NONE)
            ok = note_dep(f, i, &ndeps, ccl_i_fold_find(f, u->stage_dep), &h);
        if (!run->step_conns)
            ok = ok && note_end(f, i, &nends, u->send, true, &h) &&
                 note_end(f, i, &nends, u->recv, false, &h);
        for (uint32_t k = 0; k < u->nsteps && ok; k++) {
            uint32_t step = ccl_i_step_at(run, u->first + k);
            h = mix(h, ~(uint64_t)run->work_of[step]); /* none of a dependency's numbers */
            ok = note_dep(f, i, &ndeps, ccl_i_fold_dep(f, i, step), &h);
            if (run->step_conns)
                ok = ok && note_end(f, i, &nends, run->step_conns[2 * (size_t)step], true, &h) &&
                     note_end(f, i, &nends, run->step_conns[2 * (size_t)step + 1], false, &h);
        }
        f->unit[i] = h;
    }
    f->first_dep[run->nunits] = ndeps;
    f->first_end[run->nunits] = nends;
    return ok;
}

static bool add_entry(folding_t *f, uint32_t *n, uint32_t first, uint32_t res) {
    for (uint32_t at = first; at < *n; at++)
        if (f->entries[at].res == res) {
            f->entries[at].weight++;
            return true;
        }
    if (!ccl_i_grow(&f->entries, &f->centries, *n + 1u, sizeof(*f->entries)))
        return false;
    f->entries[(*n)++] = (entry_t){res, 1};
    return true;
}

/* The switches where a trunk's flows are reduced, where that has a limit. */
static bool add_reducers(folding_t *f, uint32_t conn, uint32_t *n) {
    const ccl_i_run_t *run = f->run;
    if (!ccl_i_conn_is_trunk(run, conn))
        return true;
    const ccl_tree_t *tree = run->trunks[run->conns[conn].trunk].tree;
    for (uint32_t i = 0; i < tree->nreducers; i++) {
        uint32_t res = ccl_i_reducer_res(run->topo, tree->reducers[i]);
        if (res != CCL_NONE && !add_entry(f, n, f->first_entry[conn], res))
            return false;
    }
    return true;
}

/* Nothing flows to or from a switch connection's member alone. */
static bool has_flows(const ccl_i_run_t *run, uint32_t conn) {
    return run->conns[conn].trunk == CCL_NONE || ccl_i_conn_is_trunk(run, conn);
}

/* What flows of every connection load, as the network counts it. */
static bool find_entries(folding_t *f) {
    const ccl_i_run_t *run = f->run;
    const ccl_topology_t *topo = run->topo;
    uint32_t *first = calloc(topo->nlinks + 2u, sizeof(*first)), *groups = NULL, n = 0;
    f->first_entry = malloc((run->nconns + 1u) * sizeof(*f->first_entry));
    for (uint32_t g = 0; first && g < topo->ngroups; g++)
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            first[topo->groups[g].links[i] + 2]++;
    for (uint32_t l = 0; first && l < topo->nlinks; l++)
        first[l + 2] += first[l + 1];
    groups = first ? malloc((first[topo->nlinks + 1u] + 1u) * sizeof(*groups)) : NULL;
    bool ok = first && groups && f->first_entry;
    for (uint32_t g = 0; ok && g < topo->ngroups; g++)
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            groups[first[topo->groups[g].links[i] + 1]++] = g;
    for (uint32_t c = 0; ok && c < run->nconns; c++) {
        const ccl_route_t *route = run->conns[c].route;
        f->first_entry[c] = n;
        for (uint32_t i = 0; ok && has_flows(run, c) && i < route->nlinks; i++) {
            uint32_t l = route->links[i];
            ok = ccl_i_grow(&f->entries, &f->centries, n + 1u, sizeof(*f->entries));
            if (ok)
                f->entries[n++] = (entry_t){l, 1};
            for (uint32_t k = first[l]; ok && k < first[l + 1]; k++)
                ok = add_entry(f, &n, f->first_entry[c], topo->nlinks + groups[k]);
        }
        ok = ok && add_reducers(f, c, &n);
    }
    if (ok)
        f->first_entry[run->nconns] = n;
    free(first);
    free(groups);
    return ok;
}

static bool find_reducers(folding_t *f) {
    const ccl_topology_t *topo = f->run->topo;
    f->rate_Bps = malloc((f->nres + 1u) * sizeof(*f->rate_Bps));
    for (uint32_t d = 0; f->rate_Bps && d < topo->ndevices; d++) {
        uint32_t res = ccl_i_reducer_res(topo, d);
        if (res != CCL_NONE)
            f->rate_Bps[res] = topo->devices[d].reduce_rate_Bps;
    }
    return f->rate_Bps;
}

/* What a connection is, whatever its blocks. */
static uint64_t conn_form(const ccl_i_run_t *run, uint32_t c) {
    uint32_t trunk = run->conns[c].trunk;
    if (trunk == CCL_NONE)
        return 0;
    return 1 + 2 * run->trunks[trunk].reduces + ccl_i_conn_is_trunk(run, c);
}

static bool colour_rest(folding_t *f) {
    const ccl_i_run_t *run = f->run;
    f->next = malloc((run->nunits + 1u) * sizeof(*f->next));
    f->conn = malloc((run->nconns + 1u) * sizeof(*f->conn));
    f->res = malloc((f->nres + 1u) * sizeof(*f->res));
    f->seen = malloc((f->nres + 1u) * sizeof(*f->seen));
    f->trunk = malloc((run->ntrunks + 1u) * sizeof(*f->trunk));
    f->members = malloc((run->ntrunks + 1u) * sizeof(*f->members));
    if (!f->next || !f->conn || !f->res || !f->seen || !f->trunk || !f->members ||
        !find_entries(f) || !find_reducers(f))
        return false;
    for (uint32_t c = 0; c < run->nconns; c++) {
        const ccl_i_conn_t *conn = &run->conns[c];
        const ccl_transport_t *t = ccl_i_conn_transport(run, conn);
        uint64_t h = mix(mix_double(mix_double(mix_double(mix_double(2, conn->delay_s), t->wire),
                                               ccl_i_message_bytes(run, conn)),
                                    t->message_bytes),
                         (uint64_t)conn->slots << 2 | conn->holds << 1 | conn->roomy);
        h = mix(h, conn_form(run, c));
        f->conn[c] = mix(h, (uint64_t)f->ports[2 * (size_t)c] << 32 | f->ports[2 * (size_t)c + 1]);
    }
    for (uint32_t r = 0; r < f->nres; r++) {
        const ccl_topology_t *topo = run->topo;
        f->res[r] = r < topo->nlinks ? mix_double(mix_double(3, topo->links[r].bandwidth_Bps),
                                                  topo->links[r].contention)
                    : r < topo->nlinks + topo->ngroups
                        ? mix_double(4, topo->groups[r - topo->nlinks].bandwidth_Bps)
                        : mix_double(8, f->rate_Bps[r]);
    }
    return true;
}

/* Trunks' colours, and what each sees of its members. */
static void look_at_trunks(folding_t *f) {
    const ccl_i_run_t *run = f->run;
    for (uint32_t i = 0; i < run->ntrunks; i++) {
        const ccl_i_trunk_t *t = &run->trunks[i];
        f->trunk[i] = f->conn[t->conn];
        f->members[i] = 0;
        for (uint32_t k = 0; k < t->n; k++)
            f->members[i] += mix(9, f->conn[run->members[t->first + k]]);
    }
}

/* Split colours by what is next to them. */
static void refine(folding_t *f) {
    const ccl_i_run_t *run = f->run;
    memset(f->seen, 0, f->nres * sizeof(*f->seen));
    for (uint32_t c = 0; c < run->nconns; c++)
        for (uint32_t e = f->first_entry[c]; e < f->first_entry[c + 1]; e++)
            f->seen[f->entries[e].res] += mix(f->conn[c], f->entries[e].weight);
    for (uint32_t r = 0; r < f->nres; r++)
        f->res[r] = mix(f->res[r], f->seen[r]);
    look_at_trunks(f);
    for (uint32_t c = 0; c < run->nconns; c++) {
        const ccl_i_conn_t *conn = &run->conns[c];
        uint64_t h = mix(f->conn[c], conn->sender == CCL_NONE ? 5 : f->unit[conn->sender]);
        h = mix(h, conn->receiver == CCL_NONE ? 6 : f->unit[conn->receiver]);
        for (uint32_t e = f->first_entry[c]; e < f->first_entry[c + 1]; e++)
            h = mix(mix(h, f->res[f->entries[e].res]), f->entries[e].weight);
        if (conn->trunk != CCL_NONE)
            h = mix(mix(h, f->trunk[conn->trunk]), f->members[conn->trunk]);
        f->conn[c] = h;
    }
    for (uint32_t i = 0; i < run->nunits; i++) {
        uint64_t h = f->unit[i];
        for (uint32_t e = f->first_end[i]; e < f->first_end[i + 1]; e++)
            h = mix(h, f->ends[e] == CCL_NONE ? 7 : f->conn[f->ends[e]]);
        for (uint32_t d = f->first_dep[i]; d < f->first_dep[i + 1]; d++)
            h = mix(h, f->unit[f->deps[d]]);
        f->next[i] = h;
    }
    uint64_t *old = f->unit; /* all at once: which of two units comes first must not show */
    f->unit = f->next;
    f->next = old;
}

/* ---------------------------------------------------------------- is it true */

static bool same_dep(const folding_t *f, ccl_i_fold_at_t a, ccl_i_fold_at_t b) {
    if (a.unit == CCL_NONE || b.unit == CCL_NONE)
        return a.unit == b.unit;
    return a.index == b.index && f->unit_rep[a.unit] == f->unit_rep[b.unit];
}

static bool same_stage_dep(const folding_t *f, uint32_t a, uint32_t b) {
    return !f->step_unit || same_dep(f, ccl_i_fold_find(f, a), ccl_i_fold_find(f, b));
}

static bool same_conn_colour(const folding_t *f, uint32_t a, uint32_t b) {
    return a == CCL_NONE || b == CCL_NONE ? a == b : f->conn_rep[a] == f->conn_rep[b];
}

static bool same_unit_colour(const folding_t *f, uint32_t a, uint32_t b) {
    return a == CCL_NONE || b == CCL_NONE ? a == b : f->unit_rep[a] == f->unit_rep[b];
}

static bool same_unit(const folding_t *f, uint32_t i, uint32_t j) {
    const ccl_i_run_t *run = f->run;
    const ccl_i_unit_t *a = &run->units[i], *b = &run->units[j];
    uint32_t r = run->program->tbs[a->tb].rank, s = run->program->tbs[b->tb].rank;
    if (a->nsteps != b->nsteps || !same_stage_dep(f, a->stage_dep, b->stage_dep) ||
        f->launch_s[r] != f->launch_s[s] || run->flag_s[r] != run->flag_s[s] ||
        (!run->step_conns &&
         (!same_conn_colour(f, a->send, b->send) || !same_conn_colour(f, a->recv, b->recv))))
        return false;
    for (uint32_t k = 0; k < a->nsteps; k++) {
        uint32_t m = ccl_i_step_at(run, a->first + k), n = ccl_i_step_at(run, b->first + k);
        for (size_t end = 0; run->step_conns && end < 2; end++)
            if (!same_conn_colour(f, run->step_conns[2 * (size_t)m + end],
                                  run->step_conns[2 * (size_t)n + end]))
                return false;
        if (run->work_of[m] != run->work_of[n] ||
            !same_dep(f, ccl_i_fold_dep(f, i, m), ccl_i_fold_dep(f, j, n)))
            return false;
    }
    return true;
}

/* They belong to trunks of one colour, or to none. */
static bool same_trunk(const folding_t *f, uint32_t i, uint32_t j) {
    const ccl_i_run_t *run = f->run;
    if (conn_form(run, i) != conn_form(run, j))
        return false;
    return run->conns[i].trunk == CCL_NONE ||
           f->conn_rep[run->trunks[run->conns[i].trunk].conn] ==
               f->conn_rep[run->trunks[run->conns[j].trunk].conn];
}

/* Trunks of one colour have as many members of each colour. `sum`: [nconns], zero. */
static bool same_members(const folding_t *f, int64_t *sum) {
    const ccl_i_run_t *run = f->run;
    bool same = true;
    for (uint32_t i = 0; same && i < run->ntrunks; i++) {
        const ccl_i_trunk_t *t = &run->trunks[i];
        uint32_t rep = f->conn_rep[t->conn];
        if (rep == t->conn)
            continue;
        const ccl_i_trunk_t *of = &run->trunks[run->conns[rep].trunk];
        same = t->n == of->n && t->even == of->even;
        for (uint32_t k = 0; k < t->n && same; k++) {
            sum[f->conn_rep[run->members[t->first + k]]]++;
            sum[f->conn_rep[run->members[of->first + k]]]--;
        }
        for (uint32_t k = 0; k < t->n && same; k++)
            same = sum[f->conn_rep[run->members[t->first + k]]] == 0;
    }
    return same;
}

static bool same_conn(const folding_t *f, uint32_t i, uint32_t j) {
    const ccl_i_conn_t *a = &f->run->conns[i], *b = &f->run->conns[j];
    const entry_t *x = &f->entries[f->first_entry[i]], *y = &f->entries[f->first_entry[j]];
    const ccl_transport_t *t = ccl_i_conn_transport(f->run, a);
    const ccl_transport_t *u = ccl_i_conn_transport(f->run, b);
    uint32_t n = f->first_entry[i + 1] - f->first_entry[i];
    if (a->delay_s != b->delay_s || t->wire != u->wire ||
        ccl_i_message_bytes(f->run, a) != ccl_i_message_bytes(f->run, b) ||
        t->message_bytes != u->message_bytes || a->slots != b->slots || a->holds != b->holds ||
        a->roomy != b->roomy || f->ports[2 * (size_t)i] != f->ports[2 * (size_t)j] ||
        f->ports[2 * (size_t)i + 1] != f->ports[2 * (size_t)j + 1] ||
        !same_unit_colour(f, a->sender, b->sender) ||
        !same_unit_colour(f, a->receiver, b->receiver) || !same_trunk(f, i, j) ||
        n != f->first_entry[j + 1] - f->first_entry[j])
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (f->res_rep[x[k].res] != f->res_rep[y[k].res])
            return false;
    return true;
}

static bool same_resource(const folding_t *f, uint32_t a, uint32_t b) {
    const ccl_topology_t *topo = f->run->topo;
    uint32_t nlinks = topo->nlinks, behind = nlinks + topo->ngroups;
    if ((a < nlinks) != (b < nlinks) || (a < behind) != (b < behind))
        return false;
    if (a < nlinks)
        return topo->links[a].bandwidth_Bps == topo->links[b].bandwidth_Bps &&
               topo->links[a].contention == topo->links[b].contention;
    if (a < behind)
        return topo->groups[a - nlinks].bandwidth_Bps == topo->groups[b - nlinks].bandwidth_Bps;
    return f->rate_Bps[a] == f->rate_Bps[b];
}

/* What each colour of connections adds up to on each resource is the same within a colour of
   resources. `members`: connections by resource (CSR). `sum`: [nconns], zero. */
static bool same_loads(const folding_t *f, const uint32_t *first, const entry_t *members,
                       int64_t *sum) {
    bool same = true;
    for (uint32_t r = 0; same && r < f->nres; r++) {
        uint32_t rep = f->res_rep[r];
        if (rep == r)
            continue;
        same = same_resource(f, r, rep);
        for (uint32_t k = first[r]; k < first[r + 1]; k++)
            sum[members[k].res] += members[k].weight;
        for (uint32_t k = first[rep]; k < first[rep + 1]; k++)
            sum[members[k].res] -= members[k].weight;
        for (uint32_t k = first[r]; k < first[r + 1]; k++)
            same = same && sum[members[k].res] == 0;
        for (uint32_t k = first[rep]; k < first[rep + 1]; k++)
            same = same && sum[members[k].res] == 0;
    }
    return same;
}

/* Whether all that has one colour is alike. False: out of memory. */
static bool equitable(const folding_t *f, bool *out) {
    const ccl_i_run_t *run = f->run;
    uint32_t nentries = f->first_entry[run->nconns];
    for (uint32_t i = 0; i < run->nunits; i++)
        if (f->unit_rep[i] != i && !same_unit(f, i, f->unit_rep[i]))
            return true;
    for (uint32_t c = 0; c < run->nconns; c++)
        if (f->conn_rep[c] != c && !same_conn(f, c, f->conn_rep[c]))
            return true;
    uint32_t *first = calloc(f->nres + 2u, sizeof(*first));
    entry_t *members = malloc((nentries + 1u) * sizeof(*members));
    int64_t *sum = calloc(run->nconns + 1u, sizeof(*sum));
    bool ok = first && members && sum;
    if (ok) {
        for (uint32_t e = 0; e < nentries; e++)
            first[f->entries[e].res + 2]++;
        for (uint32_t r = 0; r < f->nres; r++)
            first[r + 2] += first[r + 1];
        for (uint32_t c = 0; c < run->nconns; c++)
            for (uint32_t e = f->first_entry[c]; e < f->first_entry[c + 1]; e++)
                members[first[f->entries[e].res + 1]++] =
                    (entry_t){f->conn_rep[c], f->entries[e].weight};
        *out = same_loads(f, first, members, sum) && same_members(f, sum);
    }
    free(first);
    free(members);
    free(sum);
    return ok;
}

/* ---------------------------------------------------------------- the folded run */

static bool fold_run(folding_t *f, ccl_i_run_t *run, uint32_t nunits) {
    f->unit_rep = malloc((run->nunits + 1u) * sizeof(*f->unit_rep));
    f->conn_rep = malloc((run->nconns + 1u) * sizeof(*f->conn_rep));
    f->res_rep = malloc((f->nres + 1u) * sizeof(*f->res_rep));
    if (!f->unit_rep || !f->conn_rep || !f->res_rep)
        return false;
    uint32_t nconns = count(f, f->conn, run->nconns, f->conn_rep);
    count(f, f->unit, run->nunits, f->unit_rep);
    count(f, f->res, f->nres, f->res_rep);
    bool same = false;
    if (!equitable(f, &same))
        return false;
    if (!same)
        return true;
    ccl_i_fold_t *fold = calloc(1, sizeof(*fold));
    if (!fold || !ccl_i_fold_shares(f, fold) || !ccl_i_fold_tables(f, run, fold, nunits, nconns)) {
        ccl_i_fold_destroy(fold);
        return false;
    }
    run->fold = fold;
    return true;
}

bool ccl_i_fold(ccl_i_run_t *run, uint64_t slices) {
    folding_t f = {0};
    bool ok = folding_init(&f, run) && colour_units(&f);
    uint32_t units = ok ? count(&f, f.unit, run->nunits, NULL) : 0;
    /* Worth it only when it halves the blocks; colours only ever split. */
    if (ok && 2 * units <= run->nunits) {
        ok = colour_rest(&f);
        uint64_t round = (uint64_t)run->nunits + run->nconns + f.nres;
        round +=
            ok ? f.first_entry[run->nconns] + f.first_dep[run->nunits] + f.first_end[run->nunits]
               : 0;
        uint64_t rounds = 8 + 4 * slices / (round + 1);
        uint32_t conns = 0, res = 0;
        while (ok && rounds-- > 0) {
            refine(&f);
            uint32_t u = count(&f, f.unit, run->nunits, NULL);
            uint32_t c = count(&f, f.conn, run->nconns, NULL);
            uint32_t r = count(&f, f.res, f.nres, NULL);
            if (2 * u > run->nunits)
                break;
            if (u == units && c == conns && r == res) {
                ok = fold_run(&f, run, units);
                break;
            }
            units = u;
            conns = c;
            res = r;
        }
    }
    folding_fini(&f);
    return ok;
}
