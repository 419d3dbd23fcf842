/* The forms that race: shares along digits of grids, and what they are varied to. */
#include "synth/latency/family.h"

#include <math.h>
#include <string.h>

/** Ways to write a number as a product. */
enum { MOST_LISTS = 4 };
/** Of a share, where peers take them one after the other. */
#define ROW_PARTS 8u
/** Bytes of a chunk that are not worth being cut. */
#define LEAST_CHUNK_BYTES 256.0
/** Transfers of a candidate, and of one of the first round, where that cuts no more than channels.
 */
#define MOST_TRANSFERS 60000.0
#define FIRST_TRANSFERS 6000.0

/* ---------------------------------------------------------------- digits */

typedef struct factors {
    uint32_t factor[CCL_I_GRID_DIGITS], n;
} factors_t;

static factors_t primes_of(uint32_t n) {
    factors_t f = {{0}, 0};
    for (uint32_t p = 2; n > 1 && f.n < CCL_I_GRID_DIGITS; p++) {
        for (; n % p == 0 && f.n < CCL_I_GRID_DIGITS; n /= p)
            f.factor[f.n++] = p;
    }
    return f;
}

/* Ways to write n as a product: as one factor, as two about equal ones, as primes. */
static uint32_t ways_to_factor(uint32_t n, factors_t *out) {
    uint32_t count = 0;
    factors_t primes = primes_of(n);
    if (n <= 1) {
        out[0] = (factors_t){{0}, 0};
        return 1;
    }
    out[count++] = (factors_t){{n}, 1};
    if (primes.n >= 3) {
        uint32_t low = 1;
        for (uint32_t k = 2; (uint64_t)k * k <= n; k++)
            low = n % k == 0 ? k : low;
        out[count++] = (factors_t){{n / low, low}, 2};
    }
    if (primes.n >= 2)
        out[count++] = primes;
    return count;
}

static void add_factors(ccl_i_form_t *form, const factors_t *f, uint32_t stride) {
    for (uint32_t i = 0; i < f->n && form->ndigits < CCL_I_GRID_DIGITS; i++) {
        form->factor[form->ndigits] = f->factor[i];
        form->stride[form->ndigits++] = stride;
        stride *= f->factor[i];
    }
}

/* ---------------------------------------------------------------- candidates */

static uint32_t most_channels(const ccl_i_family_t *f, ccl_i_form_t form,
                              double bytes_per_channel) {
    form.channels = form.parts = 1;
    double most = CCL_I_MAX_AUTO_CHANNELS;
    if (f->sms)
        most = fmin(most, floor((double)f->sms / ccl_i_form_blocks(&form, f->want->kind)));
    most = fmin(most, floor((isinf(bytes_per_channel) ? MOST_TRANSFERS : FIRST_TRANSFERS) /
                            ccl_i_form_transfers(&form, f->want)));
    most = fmin(most, floor(bytes_per_channel / LEAST_CHUNK_BYTES));
    return most < 1 ? 1 : (uint32_t)most;
}

static bool is_whole(const ccl_i_family_t *f) {
    return ccl_i_form_is_whole(f->want->kind);
}

/* Bytes of a share. */
double ccl_i_family_share_bytes(const ccl_i_family_t *f, const ccl_i_form_t *form) {
    return f->size_bytes / (is_whole(f) ? ccl_i_form_shares(form) : f->want->nranks);
}

/* Peers that send to one GPU at once, whose parts come in turn. */
static uint32_t peers_in_turn(const ccl_i_family_t *f, const ccl_i_form_t *form) {
    bool reduces = f->want->kind == CCL_ALLREDUCE || f->want->kind == CCL_REDUCE;
    uint32_t most = 1, end = reduces ? form->shared : form->ndigits;
    if (!reduces && f->want->kind != CCL_REDUCESCATTER)
        return 1;
    for (uint32_t d = 0; d < end; d++)
        most = form->factor[d] - 1 > most ? form->factor[d] - 1 : most;
    return most;
}

static uint32_t nprotocols(const ccl_i_family_t *f) {
    return (uint32_t)__builtin_popcount(f->protocols);
}

void ccl_i_family_add(ccl_i_family_t *f, ccl_i_form_t form) {
    const ccl_synth_options_t *o = f->options;
    form.channels = o->channels ? o->channels : form.channels;
    form.parts = o->chunks ? o->chunks : form.parts;
    form.across = form.grid && form.across < form.channels ? form.across : form.channels;
    form.joined = form.joined && form.grid;
    double work = ccl_i_form_transfers(&form, f->want);
    for (uint32_t i = 0; i < f->ntried; i++) {
        if (memcmp(&f->tried[i], &form, sizeof form) == 0)
            return;
    }
    if (f->n == MOST_FORMS || f->ntried == MOST_TRIED || form.channels < 1 || form.across < 1 ||
        (f->n > 0 && (work > MOST_TRANSFERS || work * nprotocols(f) > f->work)))
        return;
    f->work -= work * nprotocols(f);
    f->forms[f->n++] = f->tried[f->ntried++] = form;
}

/* Every number of shared digits, with as many channels as there is room for. */
static void add_shared(ccl_i_family_t *f, ccl_i_form_t form) {
    uint32_t first = is_whole(f) && form.owners > 0, n = is_whole(f) ? form.ndigits + 1 : 1;
    for (uint32_t i = first; i < n; i++) {
        form.shared = i;
        double bytes = ccl_i_family_share_bytes(f, &form);
        form.channels = most_channels(f, form, bytes);
        form.across = f->cluster->nservers > 1 && form.channels > 1 ? 2 : form.channels;
        form.parts = peers_in_turn(f, &form);
        if (bytes / form.channels / form.parts < LEAST_CHUNK_BYTES ||
            ccl_i_form_transfers(&form, f->want) > FIRST_TRANSFERS)
            form.parts = 1;
        if (bytes >= ROW_PARTS * LEAST_CHUNK_BYTES) {
            ccl_i_form_t row = form;
            row.row = true;
            row.joined = false;
            row.channels = row.across = 1;
            row.parts = ROW_PARTS;
            ccl_i_family_add(f, row);
        }
        form.joined = true;
        ccl_i_family_add(f, form);
    }
}

static void add_grid(ccl_i_family_t *f, const ccl_i_grid_t *grid, const factors_t *inner,
                     uint32_t ninner, uint32_t owners) {
    factors_t outer[MOST_LISTS];
    uint32_t nouter = ways_to_factor(grid->ngroups, outer);
    for (uint32_t i = 0; i < ninner; i++) {
        for (uint32_t k = 0; k < (i == 0 ? nouter : 1); k++) {
            ccl_i_form_t form;
            memset(&form, 0, sizeof form); /* padding too: forms are compared as bytes */
            form.grid = grid;
            form.owners = owners;
            add_factors(&form, &inner[i], 1);
            add_factors(&form, &outer[k], grid->inner);
            add_shared(f, form);
        }
    }
}

/* Do all GPUs of every group reach each other in one hop? */
static bool groups_are_full(const ccl_i_cluster_t *c, const ccl_i_grid_t *g) {
    for (uint32_t a = 0; a < c->nranks; a++)
        for (uint32_t b = 0; b < c->nranks; b++)
            if (a != b && g->place[a] / g->inner == g->place[b] / g->inner &&
                !ccl_i_cluster_reaches(c, a, b))
                return false;
    return true;
}

/* Wires inside servers: grids that they form. */
static ccl_status_t add_wired(ccl_i_family_t *f, const ccl_i_grid_t *servers, ccl_error_t *err) {
    factors_t ways[MOST_LISTS];
    uint32_t nways = servers->even ? ways_to_factor(servers->inner, ways) : 0;
    for (uint32_t i = 1; i < nways; i++) {
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_status_t status = ccl_i_grid_wired(f->cluster, &f->arena, servers, ways[i].factor,
                                               ways[i].n, &f->grids[f->ngrids], &why);
        if (status == CCL_OK)
            add_grid(f, &f->grids[f->ngrids++], &ways[i], 1, 0);
        else if (status != CCL_UNSUPPORTED) {
            if (err)
                *err = why;
            return status;
        }
    }
    return CCL_OK;
}

/* Time-reversed, what relays is slower than what greedy matches. */
static void add_shortest(ccl_i_family_t *f) {
    ccl_i_form_t form;
    memset(&form, 0, sizeof form);
    form.parts = 1;
    for (form.channels = 1; form.channels <= 16 && f->want->kind != CCL_REDUCESCATTER;
         form.channels *= 4)
        ccl_i_family_add(f, form);
}

/* Where some lanes have no way to each other: all goes by the others. */
static ccl_status_t add_alive(ccl_i_family_t *f, const ccl_i_grid_t *groups, const factors_t *inner,
                              ccl_error_t *err) {
    ccl_i_grid_t *grid = &f->grids[f->ngrids];
    ccl_error_t why = CCL_ERROR_INIT;
    uint32_t alive;
    ccl_status_t status = ccl_i_grid_alive(f->cluster, &f->arena, groups, grid, &alive, &why);
    if (status == CCL_OK) {
        f->ngrids++;
        add_grid(f, grid, inner, 1, alive);
    } else if (status != CCL_UNSUPPORTED && err)
        *err = why;
    return status == CCL_UNSUPPORTED ? CCL_OK : status;
}

/* Groups of GPUs; where not all of a group reach each other, grids of wires. */
static ccl_status_t add_groups(ccl_i_family_t *f, const ccl_i_grid_t *groups, ccl_error_t *err) {
    factors_t ways[MOST_LISTS];
    if (!groups_are_full(f->cluster, groups))
        return add_wired(f, groups, err);
    uint32_t nways = ways_to_factor(groups->inner, ways);
    add_grid(f, groups, ways, groups->even ? nways : 1, 0);
    return f->cluster->full ? CCL_OK : add_alive(f, groups, ways, err);
}

/* Where no servers are named: sets, where there are such. */
static ccl_status_t add_sets(ccl_i_family_t *f, ccl_routes_t *routes, bool *added,
                             ccl_error_t *err) {
    ccl_i_grid_t *sets = &f->grids[f->ngrids];
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = ccl_i_grid_sets(f->cluster, routes, &f->arena, sets, &why);
    *added = status == CCL_OK;
    if (status == CCL_OK) {
        f->ngrids++;
        return add_groups(f, sets, err);
    }
    if (status != CCL_UNSUPPORTED && err)
        *err = why;
    return status == CCL_UNSUPPORTED ? CCL_OK : status;
}

/* Servers or sets; all GPUs as one. */
ccl_status_t ccl_i_family_start(ccl_i_family_t *f, ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_i_cluster_t *c = f->cluster;
    factors_t ways[MOST_LISTS];
    ccl_i_grid_t *servers = &f->grids[f->ngrids++];
    bool sets = false;
    CCL_TRY(ccl_i_grid_servers(c, &f->arena, servers, err));
    if (!c->full)
        add_shortest(f);
    if (c->nservers == 1)
        CCL_TRY(add_sets(f, routes, &sets, err));
    if (c->full || !sets)
        CCL_TRY(add_groups(f, servers, err));
    if (c->nservers > 1 && c->full) {
        ccl_i_grid_t *whole = &f->grids[f->ngrids++];
        CCL_TRY(ccl_i_grid_whole(c, &f->arena, whole, err));
        uint32_t nways = ways_to_factor(c->nranks, ways);
        add_grid(f, whole, ways, servers->even ? 1 : nways, 0);
    }
    return CCL_OK;
}

/* More and fewer channels, in all and between groups. */
static void add_channels(ccl_i_family_t *f, const ccl_i_form_t *best) {
    uint32_t most = most_channels(f, *best, INFINITY);
    for (uint32_t k = 0; k < 3; k++) {
        ccl_i_form_t form = *best;
        uint32_t wanted = k == 0 ? best->channels / 2 : k == 1 ? 2 * best->channels : most;
        form.channels = wanted > most ? most : wanted;
        form.across = best->across == best->channels ? form.channels : best->across;
        ccl_i_family_add(f, form);
        form = *best;
        form.across = k == 0 ? best->across / 2 : k == 1 ? 2 * best->across : best->channels;
        if (f->cluster->nservers > 1 || (form.grid && form.grid->ngroups > 1))
            ccl_i_family_add(f, form);
    }
}

/* With other parts: in turn, joined or not; in a row. Of forms behind the best the likeliest. */
static void add_parts(ccl_i_family_t *f, const ccl_i_form_t *best, bool first) {
    uint32_t turns[] = {peers_in_turn(f, best), 4, 2, 1};
    uint32_t rows[] = {2 * best->parts, best->parts / 2};
    ccl_i_form_t form = *best;
    for (uint32_t i = 0; best->row && i < CCL_ARRAY_LEN(rows); i++) {
        form.parts = rows[i];
        if (form.parts > 1)
            ccl_i_family_add(f, form);
    }
    for (uint32_t i = 0; !best->row && i < 2 * CCL_ARRAY_LEN(turns); i++) {
        if (!first && i != 0 && i != 3) /* parts in turn, joined; four not joined */
            continue;
        form.parts = turns[i / 2];
        form.joined = i % 2 == 0;
        ccl_i_family_add(f, form);
    }
}

/* A form's neighbours: with other channels and parts, others' shares apart or not. */
void ccl_i_family_neighbours(ccl_i_family_t *f, const ccl_i_form_t *best, bool first) {
    ccl_i_form_t form = *best;
    add_channels(f, best);
    add_parts(f, best, first);
    form.apart = !best->apart;
    bool shares = f->want->kind == CCL_ALLGATHER || f->want->kind == CCL_REDUCESCATTER;
    if (shares && best->ndigits > 1) {
        uint32_t most = most_channels(f, form, INFINITY);
        form.channels = best->channels < most ? best->channels : most;
        form.across = best->across == best->channels ? form.channels : best->across;
        ccl_i_family_add(f, form);
    }
}
