/* Schedules along the digits of a grid's places. */
#include "synth/latency/latency.h"

#include <stdlib.h>
#include <string.h>

/** A transfer before steps are known: `at` of a phase. */
typedef struct moved {
    uint32_t src, dst, chunk, phase, at;
    uint16_t channel;
    bool reduce;
} moved_t;

typedef struct maker {
    const ccl_i_cluster_t *cluster;
    const ccl_i_grid_t *grid;
    const ccl_i_form_t *form;
    moved_t *moves;
    size_t n, cap;
    uint32_t *seen; /* [nranks] chunk + 1 that has reached it */
    bool nomem, cut;
    bool copy;        /* what is passed is not time-reversed */
    bool apart;       /* a GPU's share and those that it passes on are on channels of their own */
    uint32_t nshared; /* digits in which each GPU has a share of its own */
    /* the chunk in hand */
    uint32_t chunk, part;
    uint32_t home, gate; /* places of its owner, and of the peer by which its group has it go out */
    uint16_t channel;
} maker_t;

static uint32_t nplaces(const ccl_i_grid_t *g) {
    return g->ngroups * g->inner;
}

static uint32_t rank_at(const ccl_i_grid_t *g, uint32_t place) {
    uint32_t group = place / g->inner, size = g->first[group + 1] - g->first[group];
    return g->ranks[g->first[group] + place % g->inner % size];
}

/* The least of its rank's places? */
static bool is_least(const ccl_i_grid_t *g, uint32_t place) {
    return g->place[rank_at(g, place)] == place;
}

static uint32_t digit(const ccl_i_form_t *f, uint32_t place, uint32_t d) {
    return place / f->stride[d] % f->factor[d];
}

static uint32_t with_digit(const ccl_i_form_t *f, uint32_t place, uint32_t d, uint32_t value) {
    return place - digit(f, place, d) * f->stride[d] + value * f->stride[d];
}

static bool is_lane(const ccl_i_form_t *f, uint32_t d) {
    return f->stride[d] < f->grid->inner;
}

/* Do two places agree in digits [first .. end)? */
static bool agree(const ccl_i_form_t *f, uint32_t a, uint32_t b, uint32_t first, uint32_t end) {
    bool same = true;
    for (uint32_t d = first; d < end && same; d++)
        same = digit(f, a, d) == digit(f, b, d);
    return same;
}

/** @param group  of channels, `channels` each. */
static void move(maker_t *m, uint32_t from, uint32_t to, uint32_t phase, uint32_t at, bool reduce,
                 uint32_t group) {
    uint32_t src = rank_at(m->grid, from), dst = rank_at(m->grid, to), channel = m->channel;
    if (m->cluster->server[src] != m->cluster->server[dst] ||
        from / m->grid->inner != to / m->grid->inner)
        channel = channel * m->form->across / m->form->channels;
    channel += group * m->form->channels;
    if (!ccl_i_cluster_reaches(m->cluster, src, dst))
        m->cut = true;
    if (!ccl_grow(&m->moves, &m->cap, m->n + 1, sizeof *m->moves)) {
        m->nomem = true;
        return;
    }
    m->moves[m->n++] = (moved_t){src, dst, m->chunk, phase, at, (uint16_t)channel, reduce};
}

/*
 * Place in time of peer `value` among those of `own`. Parts have their peers in turn: while one
 * peer's share of a part is added, others add to other parts.
 */
static uint32_t turn_of(const maker_t *m, uint32_t d, uint32_t own, uint32_t value, bool copy) {
    uint32_t f = m->form->factor[d], after = (value + f - own) % f;
    bool same = m->form->row || (m->form->joined && copy);
    return f < 2 ? 0 : (after - 1 + (same ? 0 : m->part)) % (f - 1);
}

/*
 * How far a place is from the owner in the digits behind d: a GPU spreads what is its own before
 * what comes to it, and gathers for others before it gathers for itself.
 */
static uint32_t distance(const maker_t *m, uint32_t place, uint32_t owner, uint32_t d,
                         uint32_t *most_out) {
    const ccl_i_form_t *f = m->form;
    uint32_t index = 0, count = 1;
    for (uint32_t e = m->nshared; e-- > d + 1; count *= f->factor[e])
        index = index * f->factor[e] +
                (digit(f, place, e) + f->factor[e] - digit(f, owner, e)) % f->factor[e];
    *most_out = count - 1;
    return index;
}

/** Between owners of a share and their peers in digit d. */
typedef enum way { TO_OWNER, FROM_OWNER, AMONG_ALL } way_t;

/*
 * Digit d of a chunk whose share is that of `owner`: of the digits before d, the first `fixed` are
 * the owner's.
 */
static void along(maker_t *m, uint32_t owner, uint32_t d, uint32_t fixed, uint32_t phase,
                  way_t way) {
    const ccl_i_form_t *f = m->form;
    for (uint32_t v = 0; v < nplaces(m->grid); v++) {
        if (!agree(f, v, owner, 0, fixed) || (way != AMONG_ALL && !agree(f, v, owner, d, d + 1)))
            continue;
        if (way == AMONG_ALL && fixed == 0 && !is_least(m->grid, v))
            continue;
        uint32_t most, far = distance(m, v, owner, d, &most);
        uint32_t u = d == 0 && v == m->gate ? m->home : v;
        for (uint32_t x = 0; x < f->factor[d]; x++) {
            uint32_t w = with_digit(f, v, d, x), at;
            if (w == v || rank_at(m->grid, w) == rank_at(m->grid, u) ||
                (is_lane(f, d) && !is_least(m->grid, w)))
                continue;
            uint32_t group = m->apart ? far : 0;
            at = way == AMONG_ALL ? 0 : turn_of(m, d, digit(f, u, d), x, way == FROM_OWNER);
            if (way == FROM_OWNER)
                move(m, u, w, phase, at + far * (f->factor[d] - 1), false, group);
            else if (way == TO_OWNER)
                move(m, w, u, phase, at + (most - far) * (f->factor[d] - 1), true, group);
            else
                move(m, w, u, phase, at, true, 0);
        }
    }
}

/* Sums of a share gather at its owners, are exchanged, and go back. */
static void sum(maker_t *m, uint32_t owner) {
    const ccl_i_form_t *f = m->form;
    uint32_t shared = f->shared;
    for (uint32_t d = 0; d < shared; d++)
        along(m, owner, d, d, d, TO_OWNER);
    for (uint32_t d = shared; d < f->ndigits; d++)
        along(m, owner, d, shared, d, AMONG_ALL);
    for (uint32_t d = shared; d-- > 0;)
        along(m, owner, d, d, f->ndigits + (shared - 1 - d), FROM_OWNER);
}

static bool owns(const ccl_i_form_t *f, uint32_t place) {
    return f->owners == 0 || digit(f, place, 0) < f->owners;
}

/* The place by which what is of `home` goes to other groups and comes from them: where its own lane
   has no way, pieces take the others in turn. */
static uint32_t gate_of(const maker_t *m, uint32_t home) {
    const ccl_i_form_t *f = m->form;
    uint32_t piece = m->channel * f->parts + m->part;
    return owns(f, home) ? home : with_digit(f, home, 0, (digit(f, home, 0) + piece) % f->owners);
}

static void set_home(maker_t *m, uint32_t home) {
    m->home = home;
    m->gate = gate_of(m, home);
}

/* A share goes from its owner to all. */
static void spread(maker_t *m, uint32_t owner) {
    uint32_t n = m->form->ndigits;
    set_home(m, owner);
    if (m->gate != owner)
        move(m, owner, m->gate, 0, 0, false, 0);
    for (uint32_t d = n; d-- > 0;)
        along(m, m->gate, d, d, n - d, FROM_OWNER);
}

/* Sums of all gather at a share's owner. */
static void gather(maker_t *m, uint32_t owner) {
    uint32_t n = m->form->ndigits;
    set_home(m, owner);
    for (uint32_t d = 0; d < n; d++)
        along(m, m->gate, d, d, d, TO_OWNER);
    if (m->gate != owner)
        move(m, m->gate, owner, n, 0, true, 0);
}

/* From a place that has the chunk; a rank gets it once. */
static void pass(maker_t *m, uint32_t from, uint32_t to, uint32_t phase, uint32_t at) {
    uint32_t dst = rank_at(m->grid, to);
    if (m->seen[dst] == m->chunk + 1)
        return;
    m->seen[dst] = m->chunk + 1;
    move(m, from, to, phase, at, false, 0);
}

static void pass_along(maker_t *m, uint32_t owner, uint32_t root, uint32_t d, uint32_t phase) {
    const ccl_i_form_t *f = m->form;
    bool back = d < f->shared;
    for (uint32_t v = 0; v < nplaces(m->grid); v++) {
        bool has = back ? agree(f, v, owner, 0, d + 1)
                        : agree(f, v, owner, 0, f->shared) && agree(f, v, root, d, f->ndigits);
        for (uint32_t x = 0; has && x < f->factor[d]; x++) {
            uint32_t w = with_digit(f, v, d, x);
            if (w != v)
                pass(m, v, w, phase, turn_of(m, d, digit(f, v, d), x, m->copy));
        }
    }
}

/* Broadcast: each share to its owner, from there to those that have the same one, then to all. */
static void from_root(maker_t *m, uint32_t owner, uint32_t root) {
    const ccl_i_form_t *f = m->form;
    uint32_t at = root, phase = 0;
    m->seen[rank_at(m->grid, root)] = m->chunk + 1;
    for (uint32_t d = 0; d < f->shared; d++, phase++) {
        uint32_t to = with_digit(f, at, d, digit(f, owner, d));
        if (to != at)
            pass(m, at, to, phase, 0);
        at = to;
    }
    for (uint32_t d = f->shared; d < f->ndigits; d++)
        pass_along(m, owner, root, d, phase++);
    for (uint32_t d = f->shared; d-- > 0;)
        pass_along(m, owner, root, d, phase++);
}

static void to_peer(maker_t *m, uint32_t from, uint32_t to) {
    const ccl_i_form_t *f = m->form;
    const uint32_t gate = owns(f, to) ? to : gate_of(m, from);
    for (uint32_t d = 0; d <= f->ndigits; d++) {
        uint32_t next = to;
        if (d < f->ndigits)
            next = with_digit(f, from, d, digit(f, d == 0 ? gate : to, d));
        if (rank_at(m->grid, next) != rank_at(m->grid, from))
            move(m, from, next, d, 0, false, 0);
        from = next;
    }
}

static uint32_t owners_of(const ccl_i_form_t *f, uint32_t d) {
    return d == 0 && f->owners > 0 ? f->owners : f->factor[d];
}

uint32_t ccl_i_form_shares(const ccl_i_form_t *f) {
    uint32_t n = 1;
    for (uint32_t d = 0; d < f->shared; d++)
        n *= owners_of(f, d);
    return n;
}

/* The first place of those that own a share. */
static uint32_t owner_place(const ccl_i_form_t *f, uint32_t index) {
    uint32_t place = 0;
    for (uint32_t d = 0; d < f->shared; d++) {
        place += index % owners_of(f, d) * f->stride[d];
        index /= owners_of(f, d);
    }
    return place;
}

static void add_chunk(maker_t *m, const ccl_collective_t *want, const ccl_chunk_t *c,
                      uint32_t share) {
    const ccl_i_grid_t *g = m->grid;
    uint32_t owner = owner_place(m->form, share);
    switch (want->kind) {
    case CCL_ALLREDUCE:
        sum(m, owner);
        break;
    case CCL_REDUCESCATTER:
        gather(m, g->place[c->dests[0]]);
        break;
    case CCL_ALLGATHER:
        spread(m, g->place[c->sources[0]]);
        break;
    case CCL_ALLTOALL:
        to_peer(m, g->place[c->sources[0]], g->place[c->dests[0]]);
        break;
    default:
        from_root(m, owner, g->place[want->root]);
    }
}

/* Steps: phases one after the other; Reduce is Broadcast time-reversed. */
static ccl_status_t finish(maker_t *m, ccl_collective_t *coll, bool reversed, ccl_schedule_t **out,
                           ccl_error_t *err) {
    uint32_t first[3 * CCL_I_GRID_DIGITS + 2] = {0}, nphases = 3 * CCL_I_GRID_DIGITS;
    for (size_t i = 0; i < m->n; i++) {
        uint32_t *end = &first[m->moves[i].phase + 1];
        *end = m->moves[i].at >= *end ? m->moves[i].at + 1 : *end;
    }
    for (uint32_t p = 0; p <= nphases; p++)
        first[p + 1] += first[p];
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("latency", coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < m->n; i++) {
        const moved_t *x = &m->moves[i];
        uint32_t step = first[x->phase] + x->at;
        ccl_transfer_t t = {x->src, x->dst, x->chunk, step, x->channel, x->reduce, 0};
        if (reversed)
            t = (ccl_transfer_t){x->dst,     x->src, x->chunk, first[nphases] - 1 - step,
                                 x->channel, true,   0};
        else
            t.phase = coll->chunks[x->chunk].reduced && !x->reduce;
        ccl_schedule_builder_add(b, t);
    }
    return ccl_schedule_builder_finish(b, out, err);
}

ccl_status_t ccl_i_form_make(const ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                             const ccl_i_form_t *form, ccl_schedule_t **out, ccl_error_t *err) {
    bool whole = ccl_i_form_is_whole(want->kind);
    uint32_t each = form->channels * form->parts, shares = whole ? ccl_i_form_shares(form) : 1;
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_split(want, shares * each, &coll, err));
    maker_t m = {.cluster = cluster,
                 .grid = form->grid,
                 .form = form,
                 .copy = want->kind != CCL_REDUCE,
                 .apart = form->apart && !whole,
                 .nshared = whole ? form->shared : form->ndigits,
                 .seen = calloc(cluster->nranks, sizeof *m.seen)};
    m.nomem = !m.seen;
    for (uint32_t k = 0; k < coll->nchunks && !m.nomem && !m.cut; k++) {
        uint32_t q = k % each;
        if (coll->chunks[k].nsources == 0 || coll->chunks[k].ndests == 0)
            continue;
        m.chunk = k;
        m.part = q % form->parts;
        m.channel = (uint16_t)(q / form->parts);
        m.home = m.gate = CCL_NONE;
        add_chunk(&m, want, &coll->chunks[k], k / each % shares);
    }
    ccl_status_t status;
    if (m.nomem)
        status = ccl_fail_nomem(err);
    else if (m.cut)
        status = ccl_fail(err, CCL_UNSUPPORTED, "two GPUs of one digit have no route");
    else {
        status = finish(&m, coll, want->kind == CCL_REDUCE, out, err);
        coll = NULL;
        if (status == CCL_OK)
            (*out)->joined = form->joined;
    }
    ccl_collective_destroy(coll);
    free(m.moves);
    free(m.seen);
    return status;
}

/* ---------------------------------------------------------------- what a form costs */

uint32_t ccl_i_form_blocks(const ccl_i_form_t *form, ccl_collective_kind_t kind) {
    if (!form->grid)
        return 2 * form->channels;
    bool shares = kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER;
    uint32_t peers = 0, passed = 1;
    for (uint32_t d = form->ndigits; d-- > 0;) {
        peers += (form->factor[d] - 1) * (form->apart && shares ? passed : 1);
        passed *= form->factor[d];
    }
    return 2 * peers * form->channels;
}

double ccl_i_form_transfers(const ccl_i_form_t *form, const ccl_collective_t *want) {
    double each = (double)form->channels * form->parts;
    if (!form->grid)
        return 2.0 * want->nranks * each;
    double places = nplaces(form->grid);
    double total = 0, share = 1, owners = ccl_i_form_shares(form);
    for (uint32_t d = 0; d < form->ndigits; d++) {
        double f = form->factor[d];
        share *= f;
        if (want->kind == CCL_ALLTOALL)
            total += places * places * (f - 1) / f;
        else if (want->kind == CCL_ALLGATHER || want->kind == CCL_REDUCESCATTER)
            total += places * (places / share) * (f - 1);
        else if (d < form->shared)
            total += 2 * owners * (places / share) * (f - 1);
        else
            total += places * (f - 1);
    }
    return total * each;
}

static void print_digits(const ccl_i_form_t *form, uint32_t first, uint32_t end, ccl_text_t *out) {
    for (uint32_t d = first; d < end; d++) {
        const bool across = !is_lane(form, d) && form->grid->ngroups > 1;
        ccl_text_printf(out, "%s", d > first ? " x " : "");
        if (d == 0 && form->owners > 0)
            ccl_text_printf(out, "%u of ", form->owners);
        ccl_text_printf(out, "%u%s", form->factor[d],
                        !across            ? ""
                        : form->grid->sets ? " sets"
                                           : " servers");
    }
}

void ccl_i_form_print(const ccl_i_form_t *form, ccl_collective_kind_t kind, ccl_text_t *out) {
    bool whole = ccl_i_form_is_whole(kind);
    uint32_t shared = whole ? form->shared : form->ndigits;
    if (shared > 0 && whole)
        ccl_text_printf(out, "shares of ");
    print_digits(form, 0, shared, out);
    if (shared > 0 && shared < form->ndigits)
        ccl_text_printf(out, ", ");
    if (shared < form->ndigits)
        ccl_text_printf(out, "all of ");
    print_digits(form, shared, form->ndigits, out);
}
