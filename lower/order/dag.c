/*
 * Data dependencies of a schedule. Transfers of a step read what their source holds after all
 * earlier steps; so at one rank, for one chunk: reads, then the writes of their step, then the
 * reads of later steps. Reads between two writes are free among each other, so are the writes of
 * one step. Two transfers of one step and chunk may each have to read before the other writes:
 * those in one strongly connected part of the step's transfers stay together, as one unit.
 *
 * Source: ResCCL (SIGCOMM 2025) section 3 (data dependency), section 4.1 (DAG per chunk).
 */
#include "lower/order/order.h"

#include <stdlib.h>
#include <string.h>

/** Buffers of the construction; [nranks] entries are valid where their stamp is the current one. */
typedef struct builder {
    ccl_i_dag_t *dag;
    const ccl_transfer_t *transfers;
    uint32_t *sorted;     /* [n] transfers by chunk, then step */
    uint32_t *stamp;      /* [nranks] last run (step of a chunk) in which it sent */
    uint32_t *first, *at; /* [nranks] first and next transfer that it sends in the run */
    uint32_t *next;       /* [n] next transfer of the same source in the run, by sorted index */
    uint32_t *index, *low, *part; /* [nranks] of Tarjan's algorithm; part: CCL_NONE while open */
    uint32_t *path, *open;        /* [nranks] stacks */
    uint32_t *part_unit;          /* [nranks] unit of a part's transfers */
    uint32_t *by_part, *part_end; /* members of parts, chained: [n], [nranks] */
    uint8_t *exchange;            /* [n] by member: its unit has several */
    uint32_t *seen;               /* [nranks] chunk + 1 in which the rank has a history */
    uint32_t *local;              /* [nranks] that history's number in the chunk */
    uint32_t *count;              /* [2 nranks] accesses of local histories */
    uint32_t *row;                /* [2 n] accesses of the chunk by step and class */
    uint8_t *row_class;           /* [2 n] by access */
    bool commute;
} builder_t;

enum { CLASS_READ, CLASS_EXCHANGE, CLASS_WRITE };

static ccl_status_t builder_init(builder_t *b, uint32_t n, uint32_t nranks, ccl_error_t *err) {
    size_t nn = n + (size_t)1, nr = nranks + (size_t)1;
    uint32_t **per_n[] = {&b->sorted, &b->next, &b->by_part};
    uint32_t **per_rank[] = {&b->stamp,    &b->first, &b->at,   &b->index,
                             &b->low,      &b->part,  &b->path, &b->part_unit,
                             &b->part_end, &b->open,  &b->seen, &b->local};
    bool ok = true;
    for (size_t i = 0; i < CCL_ARRAY_LEN(per_n); i++)
        ok = (*per_n[i] = malloc(nn * sizeof(uint32_t))) && ok;
    for (size_t i = 0; i < CCL_ARRAY_LEN(per_rank); i++)
        ok = (*per_rank[i] = calloc(nr, sizeof(uint32_t))) && ok;
    b->exchange = calloc(nn, 1);
    b->count = calloc(2 * nr, sizeof *b->count);
    b->row = malloc(2 * nn * sizeof *b->row);
    b->row_class = malloc(2 * nn);
    ok = ok && b->exchange && b->count && b->row && b->row_class;
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static void builder_fini(builder_t *b) {
    uint32_t *all[] = {b->sorted, b->next, b->by_part,   b->stamp,    b->first, b->at,
                       b->index,  b->low,  b->part,      b->path,     b->open,  b->seen,
                       b->local,  b->row,  b->part_unit, b->part_end, b->count};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++)
        free(all[i]);
    free(b->exchange);
    free(b->row_class);
}

static ccl_status_t dag_alloc(ccl_i_dag_t *d, uint32_t n, uint32_t nchunks, ccl_error_t *err) {
    size_t nn = n + (size_t)1;
    d->transfer = malloc(nn * sizeof *d->transfer);
    d->unit_of = malloc(nn * sizeof *d->unit_of);
    d->unit_first = malloc(nn * sizeof *d->unit_first);
    d->unit_chunk = malloc(nn * sizeof *d->unit_chunk);
    d->unit_step = malloc(nn * sizeof *d->unit_step);
    d->unit_wait = calloc(nn, sizeof *d->unit_wait);
    d->chunk_first = calloc(nchunks + (size_t)2, sizeof *d->chunk_first);
    d->group_of = malloc(2 * nn * sizeof *d->group_of);
    d->group_first = malloc(2 * nn * sizeof *d->group_first);
    d->group_left = calloc(2 * nn, sizeof *d->group_left);
    d->group_starts = calloc(2 * nn, 1);
    d->group_units = malloc(2 * nn * sizeof *d->group_units);
    return d->transfer && d->unit_of && d->unit_first && d->unit_chunk && d->unit_step &&
                   d->unit_wait && d->chunk_first && d->group_of && d->group_first &&
                   d->group_left && d->group_starts && d->group_units
               ? CCL_OK
               : ccl_fail_nomem(err);
}

void ccl_i_dag_fini(ccl_i_dag_t *d) {
    free(d->transfer);
    free(d->unit_of);
    free(d->unit_first);
    free(d->unit_chunk);
    free(d->unit_step);
    free(d->unit_wait);
    free(d->chunk_first);
    free(d->group_of);
    free(d->group_first);
    free(d->group_left);
    free(d->group_starts);
    free(d->group_units);
}

/* Counting sort by chunk; the schedule is sorted by step. */
static void sort_by_chunk(builder_t *b, uint32_t n, uint32_t nchunks) {
    uint32_t *first = b->dag->chunk_first; /* used as counters here, set again with units */
    for (uint32_t t = 0; t < n; t++)
        first[b->transfers[t].chunk + 1]++;
    for (uint32_t c = 0; c < nchunks; c++)
        first[c + 1] += first[c];
    for (uint32_t t = 0; t < n; t++)
        b->sorted[first[b->transfers[t].chunk]++] = t;
}

/*
 * Tarjan's algorithm over the ranks that send in this run: part[] of every rank met is set to the
 * index at which its strongly connected part was entered. A rank that only receives is a part of
 * its own and is not met.
 */
static void find_parts(builder_t *b, uint32_t begin, uint32_t end, uint32_t stamp) {
    uint32_t counter = 0, npath = 0, nopen = 0;
    for (uint32_t i = begin; i < end; i++)
        b->index[b->transfers[b->sorted[i]].src] = CCL_NONE;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t root = b->transfers[b->sorted[i]].src;
        if (b->index[root] != CCL_NONE)
            continue;
        b->index[root] = b->low[root] = counter++;
        b->part[root] = CCL_NONE;
        b->at[root] = b->first[root];
        b->path[npath++] = root;
        b->open[nopen++] = root;
        while (npath) {
            uint32_t r = b->path[npath - 1], arc = b->at[r];
            if (arc != CCL_NONE) {
                uint32_t to = b->transfers[b->sorted[arc]].dst;
                b->at[r] = b->next[arc];
                if (b->stamp[to] != stamp)
                    continue; /* sends nothing: in no cycle */
                if (b->index[to] == CCL_NONE) {
                    b->index[to] = b->low[to] = counter++;
                    b->part[to] = CCL_NONE;
                    b->at[to] = b->first[to];
                    b->path[npath++] = to;
                    b->open[nopen++] = to;
                } else if (b->part[to] == CCL_NONE && b->index[to] < b->low[r]) {
                    b->low[r] = b->index[to];
                }
                continue;
            }
            npath--;
            if (npath && b->low[r] < b->low[b->path[npath - 1]])
                b->low[b->path[npath - 1]] = b->low[r];
            if (b->low[r] == b->index[r]) {
                uint32_t top;
                do {
                    top = b->open[--nopen];
                    b->part[top] = b->index[r];
                } while (top != r);
            }
        }
    }
}

static void add_member(builder_t *b, uint32_t transfer, bool exchange) {
    ccl_i_dag_t *d = b->dag;
    b->exchange[d->nmembers] = exchange;
    d->transfer[d->nmembers] = transfer;
    d->unit_of[d->nmembers++] = d->nunits;
}

static void end_unit(builder_t *b, const ccl_transfer_t *t) {
    ccl_i_dag_t *d = b->dag;
    d->unit_step[d->nunits] = t->step;
    d->unit_chunk[d->nunits++] = t->chunk;
    d->unit_first[d->nunits] = d->nmembers;
}

/* Units of the transfers sorted[begin .. end) of one chunk and step. */
static void add_run(builder_t *b, uint32_t begin, uint32_t end, uint32_t stamp) {
    bool both = false; /* does some rank send and receive? */
    for (uint32_t i = begin; i < end; i++) {
        uint32_t src = b->transfers[b->sorted[i]].src;
        b->next[i] = b->stamp[src] == stamp ? b->first[src] : CCL_NONE;
        b->stamp[src] = stamp;
        b->first[src] = i;
    }
    for (uint32_t i = begin; i < end && !both; i++)
        both = b->stamp[b->transfers[b->sorted[i]].dst] == stamp;
    if (both)
        find_parts(b, begin, end, stamp);
    /* Members of a part are chained in order, from part_unit (first) to part_end (last). */
    for (uint32_t i = begin; both && i < end; i++)
        b->part_unit[b->part[b->transfers[b->sorted[i]].src]] = CCL_NONE;
    for (uint32_t i = begin; both && i < end; i++) {
        const ccl_transfer_t *t = &b->transfers[b->sorted[i]];
        uint32_t part = b->part[t->src];
        b->by_part[i] = CCL_NONE;
        if (b->stamp[t->dst] != stamp || b->part[t->dst] != part)
            continue;
        if (b->part_unit[part] == CCL_NONE)
            b->part_unit[part] = i;
        else
            b->by_part[b->part_end[part]] = i;
        b->part_end[part] = i;
    }
    for (uint32_t i = begin; i < end; i++) {
        const ccl_transfer_t *t = &b->transfers[b->sorted[i]];
        if (both && b->stamp[t->dst] == stamp && b->part[t->dst] == b->part[t->src]) {
            if (b->part_unit[b->part[t->src]] != i)
                continue; /* was added with the first of its part */
            for (uint32_t m = i; m != CCL_NONE; m = b->by_part[m])
                add_member(b, b->sorted[m], true);
        } else {
            add_member(b, b->sorted[i], false);
        }
        end_unit(b, t);
    }
}

static void add_units(builder_t *b, uint32_t n, uint32_t nchunks) {
    ccl_i_dag_t *d = b->dag;
    uint32_t stamp = 0;
    d->unit_first[0] = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        const ccl_transfer_t *t = &b->transfers[b->sorted[i]];
        for (end = i + 1; end < n && b->transfers[b->sorted[end]].chunk == t->chunk &&
                          b->transfers[b->sorted[end]].step == t->step;)
            end++;
        add_run(b, i, end, ++stamp);
    }
    memset(d->chunk_first, 0, (nchunks + (size_t)1) * sizeof *d->chunk_first);
    for (uint32_t u = 0; u < d->nunits; u++)
        d->chunk_first[d->unit_chunk[u] + 1]++;
    for (uint32_t c = 0; c < nchunks; c++)
        d->chunk_first[c + 1] += d->chunk_first[c];
}

/*
 * Accesses of one chunk, in the order in which its histories go: by step; in a step reads, then
 * exchanges (read and write at once), then writes.
 */
static uint32_t fill_row(builder_t *b, uint32_t begin, uint32_t end) {
    const ccl_i_dag_t *d = b->dag;
    uint32_t n = 0;
    for (uint32_t m = begin, stop; m < end; m = stop) {
        uint32_t step = b->transfers[d->transfer[m]].step;
        for (stop = m; stop < end && b->transfers[d->transfer[stop]].step == step; stop++) {
            if (!b->exchange[stop])
                b->row[n++] = 2 * stop;
        }
        for (uint32_t i = m; i < stop; i++) {
            if (b->exchange[i]) {
                b->row[n++] = 2 * i;
                b->row[n++] = 2 * i + 1;
            }
        }
        for (uint32_t i = m; i < stop; i++) {
            if (!b->exchange[i])
                b->row[n++] = 2 * i + 1;
        }
    }
    return n;
}

static uint32_t access_rank(const builder_t *b, uint32_t access) {
    const ccl_transfer_t *t = &b->transfers[b->dag->transfer[access / 2]];
    return access % 2 ? t->dst : t->src;
}

static unsigned access_class(const builder_t *b, uint32_t access) {
    return b->exchange[access / 2] ? CLASS_EXCHANGE : access % 2 ? CLASS_WRITE : CLASS_READ;
}

/* The histories of one chunk, members begin .. end - 1, cut into groups. */
static void add_groups(builder_t *b, uint32_t chunk, uint32_t begin, uint32_t end) {
    ccl_i_dag_t *d = b->dag;
    uint32_t n = fill_row(b, begin, end), nlocal = 0, base = 2 * begin;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = access_rank(b, b->row[i]);
        if (b->seen[rank] != chunk + 1) {
            b->seen[rank] = chunk + 1;
            b->local[rank] = nlocal;
            b->count[nlocal++] = 0;
        }
        b->count[b->local[rank]]++;
    }
    for (uint32_t h = 0, at = base; h < nlocal; h++) {
        uint32_t count = b->count[h];
        b->count[h] = at;
        at += count;
    }
    for (uint32_t i = 0; i < n; i++)
        d->group_units[b->count[b->local[access_rank(b, b->row[i])]]++] = b->row[i];
    /* Now count[h] is the end of history h. */
    for (uint32_t h = 0, at = base; h < nlocal; h++) {
        unsigned before = CLASS_WRITE;
        uint32_t before_step = 0;
        bool summed = false;
        for (bool starts = true; at < b->count[h]; at++, starts = false) {
            uint32_t access = d->group_units[at];
            const ccl_transfer_t *t = &b->transfers[d->transfer[access / 2]];
            unsigned class = access_class(b, access);
            uint32_t step = t->step;
            bool sum = b->commute && class == CLASS_WRITE && t->reduce;
            if (starts || class != before ||
                (class != CLASS_READ && step != before_step && !(sum && summed))) {
                d->group_first[d->ngroups] = at;
                d->group_starts[d->ngroups++] = starts;
            }
            d->group_of[access] = d->ngroups - 1;
            d->group_units[at] = d->unit_of[access / 2];
            before = class;
            before_step = step;
            summed = sum;
        }
    }
}

ccl_status_t ccl_i_dag_init(ccl_i_dag_t *d, const ccl_schedule_t *schedule, bool commute,
                            ccl_error_t *err) {
    builder_t b = {.dag = d, .transfers = schedule->transfers, .commute = commute};
    uint32_t n = schedule->ntransfers, nchunks = schedule->coll->nchunks;
    memset(d, 0, sizeof *d);
    d->nchunks = nchunks;
    ccl_status_t status = dag_alloc(d, n, nchunks, err);
    if (status == CCL_OK)
        status = builder_init(&b, n, schedule->coll->nranks, err);
    if (status == CCL_OK) {
        sort_by_chunk(&b, n, nchunks);
        add_units(&b, n, nchunks);
        for (uint32_t c = 0; c < nchunks; c++)
            add_groups(&b, c, d->unit_first[d->chunk_first[c]],
                       d->unit_first[d->chunk_first[c + 1]]);
        d->group_first[d->ngroups] = 2 * n;
        d->group_starts[d->ngroups] = 1;
        ccl_i_dag_rewind(d);
    }
    builder_fini(&b);
    return status;
}

void ccl_i_dag_rewind(ccl_i_dag_t *d) {
    for (uint32_t u = 0; u < d->nunits; u++) {
        d->unit_wait[u] = 0;
        for (uint32_t a = 2 * d->unit_first[u]; a < 2 * d->unit_first[u + 1]; a++)
            d->unit_wait[u] += !d->group_starts[d->group_of[a]];
    }
    for (uint32_t g = 0; g < d->ngroups; g++)
        d->group_left[g] = d->group_first[g + 1] - d->group_first[g];
}

void ccl_i_dag_take(ccl_i_dag_t *d, uint32_t unit, ccl_i_ready_fn ready, void *user) {
    for (uint32_t a = 2 * d->unit_first[unit]; a < 2 * d->unit_first[unit + 1]; a++) {
        uint32_t g = d->group_of[a];
        if (--d->group_left[g] || d->group_starts[g + 1])
            continue;
        for (uint32_t i = d->group_first[g + 1]; i < d->group_first[g + 2]; i++) {
            uint32_t other = d->group_units[i];
            if (--d->unit_wait[other] == 0)
                ready(other, user);
        }
    }
}

static void swap_u32(uint32_t *row, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        uint32_t item = row[i];
        row[i] = row[n - 1 - i];
        row[n - 1 - i] = item;
    }
}

/* Histories backwards are the histories of what runs backwards: all arrays of groups reversed. */
void ccl_i_dag_reverse(ccl_i_dag_t *d) {
    uint32_t accesses = 2 * d->nmembers, last = 0;
    swap_u32(d->group_units, accesses);
    for (uint32_t g = 0; g <= d->ngroups; g++)
        d->group_first[g] = accesses - d->group_first[g];
    swap_u32(d->group_first, d->ngroups + (size_t)1);
    for (uint32_t g = 0; g <= d->ngroups / 2; g++) { /* a history's last group becomes its first */
        uint8_t starts = d->group_starts[g];
        d->group_starts[g] = d->group_starts[d->ngroups - g];
        d->group_starts[d->ngroups - g] = starts;
    }
    for (uint32_t a = 0; a < accesses; a++)
        d->group_of[a] = d->ngroups - 1 - d->group_of[a];
    for (uint32_t u = 0; u < d->nunits; u++)
        last = d->unit_step[u] > last ? d->unit_step[u] : last;
    for (uint32_t u = 0; u < d->nunits; u++)
        d->unit_step[u] = last - d->unit_step[u];
    ccl_i_dag_rewind(d);
}

typedef struct row {
    uint32_t *units, len;
} row_t;

static void add_to_row(uint32_t unit, void *user) {
    row_t *row = user;
    row->units[row->len++] = unit;
}

ccl_status_t ccl_i_dag_walk(const ccl_i_dag_t *d, uint32_t *row_out, uint32_t *nrow_out,
                            ccl_error_t *err) {
    ccl_i_dag_t copy = *d;
    row_t row = {row_out, 0};
    copy.group_left = malloc((d->ngroups + (size_t)1) * sizeof(uint32_t));
    copy.unit_wait = malloc((d->nunits + (size_t)1) * sizeof(uint32_t));
    ccl_status_t status = copy.group_left && copy.unit_wait ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        memcpy(copy.group_left, d->group_left, d->ngroups * sizeof(uint32_t));
        memcpy(copy.unit_wait, d->unit_wait, d->nunits * sizeof(uint32_t));
        for (uint32_t u = 0; u < d->nunits; u++) {
            if (copy.unit_wait[u] == 0 && !(d->past && d->past[u]))
                add_to_row(u, &row);
        }
        for (uint32_t n = 0; n < row.len; n++)
            ccl_i_dag_take(&copy, row.units[n], add_to_row, &row);
        *nrow_out = row.len;
    }
    free(copy.group_left);
    free(copy.unit_wait);
    return status;
}
