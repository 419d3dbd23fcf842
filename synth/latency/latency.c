/*
 * latency: schedules of few steps for small messages. GPUs are places of a grid (lanes of servers,
 * wires of a mesh); along each digit all peers exchange at once. Which grid, which digits, how many
 * channels and parts is decided by simulation at the size asked for.
 */
#include "synth/common/race.h"
#include "synth/latency/meet.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    switch (want->kind) {
    case CCL_ALLREDUCE:
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_BROADCAST:
    case CCL_REDUCE:
    case CCL_ALLTOALL:
        return true;
    default:
        *why = "blocks of one GPU or of one pair have no exchange; use direct";
        return false;
    }
}

enum { MOST_GRIDS = 8, MOST_FORMS = 64, MOST_LISTS = 4, LEADERS = 5, MOST_TRIED = 256 };
/** Candidates of the first round that race at once, behind the first leaders. */
enum { TOGETHER = 8 };
/** The size where none is asked for. */
#define DEFAULT_SIZE_BYTES 65536.0
/** Of a share, where peers take them one after the other. */
#define ROW_PARTS 8u
/** Bytes of a chunk that are not worth being cut. */
#define LEAST_CHUNK_BYTES 256.0

/* All are about two tenths of a second's work on 16 GPUs. */
static const struct {
    double most_transfers; /* of a candidate */
    double first;          /* of one of the first round, where that cuts no more than channels */
    double work;           /* transfers of all candidates, times protocols */
    uint32_t rounds;       /* in which the best is varied, as long as that gains... */
    double gain;           /* ... this part */
} POLICY = {60000, 6000, 1200000, 4, 0.003};

typedef struct family {
    const ccl_i_cluster_t *cluster;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    double size_bytes, work; /* work: left */
    uint32_t sms;            /* of the GPU with the fewest */
    unsigned protocols;      /* bits */
    ccl_protocol_t proto;    /* that the fastest of the first round takes */
    ccl_i_grid_t grids[MOST_GRIDS];
    uint32_t ngrids;
    ccl_i_form_t forms[MOST_FORMS];
    double times[MOST_FORMS][CCL_PROTOCOLS];
    double time_s[MOST_FORMS];      /* the least of them */
    uint32_t turn[MOST_FORMS];      /* the form that races at each place */
    uint32_t n, from;               /* from: the first place that races now */
    double limit_s;                 /* what takes longer is of no use; 0: nobody knows yet */
    ccl_i_form_t tried[MOST_TRIED]; /* of all rounds */
    uint32_t ntried;
    ccl_i_meet_plans_t *plans; /* NULL: not asked for */
    ccl_arena_t arena;
} family_t;

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

static uint32_t most_channels(const family_t *f, ccl_i_form_t form, double bytes_per_channel) {
    form.channels = form.parts = 1;
    double most = CCL_I_MAX_AUTO_CHANNELS;
    if (f->sms)
        most = fmin(most, floor((double)f->sms / ccl_i_form_blocks(&form, f->want->kind)));
    most = fmin(most, floor((isinf(bytes_per_channel) ? POLICY.most_transfers : POLICY.first) /
                            ccl_i_form_transfers(&form, f->want)));
    most = fmin(most, floor(bytes_per_channel / LEAST_CHUNK_BYTES));
    return most < 1 ? 1 : (uint32_t)most;
}

static bool is_whole(const family_t *f) {
    return ccl_i_form_is_whole(f->want->kind);
}

/* Bytes of a share. */
static double share_bytes(const family_t *f, const ccl_i_form_t *form) {
    return f->size_bytes / (is_whole(f) ? ccl_i_form_shares(form) : f->want->nranks);
}

/* Peers that send to one GPU at once, whose parts come in turn. */
static uint32_t peers_in_turn(const family_t *f, const ccl_i_form_t *form) {
    bool reduces = f->want->kind == CCL_ALLREDUCE || f->want->kind == CCL_REDUCE;
    uint32_t most = 1, end = reduces ? form->shared : form->ndigits;
    if (!reduces && f->want->kind != CCL_REDUCESCATTER)
        return 1;
    for (uint32_t d = 0; d < end; d++)
        most = form->factor[d] - 1 > most ? form->factor[d] - 1 : most;
    return most;
}

static uint32_t nprotocols(const family_t *f) {
    return (uint32_t)__builtin_popcount(f->protocols);
}

static void add_form(family_t *f, ccl_i_form_t form) {
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
        (f->n > 0 && (work > POLICY.most_transfers || work * nprotocols(f) > f->work)))
        return;
    f->work -= work * nprotocols(f);
    f->forms[f->n++] = f->tried[f->ntried++] = form;
}

/* Every number of shared digits, with as many channels as there is room for. */
static void add_shared(family_t *f, ccl_i_form_t form) {
    uint32_t first = is_whole(f) && form.owners > 0, n = is_whole(f) ? form.ndigits + 1 : 1;
    for (uint32_t i = first; i < n; i++) {
        form.shared = i;
        double bytes = share_bytes(f, &form);
        form.channels = most_channels(f, form, bytes);
        form.across = f->cluster->nservers > 1 && form.channels > 1 ? 2 : form.channels;
        form.parts = peers_in_turn(f, &form);
        if (bytes / form.channels / form.parts < LEAST_CHUNK_BYTES ||
            ccl_i_form_transfers(&form, f->want) > POLICY.first)
            form.parts = 1;
        if (bytes >= ROW_PARTS * LEAST_CHUNK_BYTES) {
            ccl_i_form_t row = form;
            row.row = true;
            row.joined = false;
            row.channels = row.across = 1;
            row.parts = ROW_PARTS;
            add_form(f, row);
        }
        form.joined = true;
        add_form(f, form);
    }
}

static void add_grid(family_t *f, const ccl_i_grid_t *grid, const factors_t *inner, uint32_t ninner,
                     uint32_t owners) {
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
static ccl_status_t add_wired(family_t *f, const ccl_i_grid_t *servers, ccl_error_t *err) {
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
static void add_shortest(family_t *f) {
    ccl_i_form_t form;
    memset(&form, 0, sizeof form);
    form.parts = 1;
    for (form.channels = 1; form.channels <= 16 && f->want->kind != CCL_REDUCESCATTER;
         form.channels *= 4)
        add_form(f, form);
}

/* Where some lanes have no way to each other: all goes by the others. */
static ccl_status_t add_alive(family_t *f, const ccl_i_grid_t *groups, const factors_t *inner,
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
static ccl_status_t add_groups(family_t *f, const ccl_i_grid_t *groups, ccl_error_t *err) {
    factors_t ways[MOST_LISTS];
    if (!groups_are_full(f->cluster, groups))
        return add_wired(f, groups, err);
    uint32_t nways = ways_to_factor(groups->inner, ways);
    add_grid(f, groups, ways, groups->even ? nways : 1, 0);
    return f->cluster->full ? CCL_OK : add_alive(f, groups, ways, err);
}

/* Where no servers are named: sets, where there are such. */
static ccl_status_t add_sets(family_t *f, ccl_routes_t *routes, bool *added, ccl_error_t *err) {
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
static ccl_status_t add_grids(family_t *f, ccl_routes_t *routes, ccl_error_t *err) {
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
static void add_channels(family_t *f, const ccl_i_form_t *best) {
    uint32_t most = most_channels(f, *best, INFINITY);
    for (uint32_t k = 0; k < 3; k++) {
        ccl_i_form_t form = *best;
        uint32_t wanted = k == 0 ? best->channels / 2 : k == 1 ? 2 * best->channels : most;
        form.channels = wanted > most ? most : wanted;
        form.across = best->across == best->channels ? form.channels : best->across;
        add_form(f, form);
        form = *best;
        form.across = k == 0 ? best->across / 2 : k == 1 ? 2 * best->across : best->channels;
        if (f->cluster->nservers > 1 || (form.grid && form.grid->ngroups > 1))
            add_form(f, form);
    }
}

/* With other parts: in turn, joined or not; in a row. Of forms behind the best the likeliest. */
static void add_parts(family_t *f, const ccl_i_form_t *best, bool first) {
    uint32_t turns[] = {peers_in_turn(f, best), 4, 2, 1};
    uint32_t rows[] = {2 * best->parts, best->parts / 2};
    ccl_i_form_t form = *best;
    for (uint32_t i = 0; best->row && i < CCL_ARRAY_LEN(rows); i++) {
        form.parts = rows[i];
        if (form.parts > 1)
            add_form(f, form);
    }
    for (uint32_t i = 0; !best->row && i < 2 * CCL_ARRAY_LEN(turns); i++) {
        if (!first && i != 0 && i != 3) /* parts in turn, joined; four not joined */
            continue;
        form.parts = turns[i / 2];
        form.joined = i % 2 == 0;
        add_form(f, form);
    }
}

/* A form's neighbours: with other channels and parts, others' shares apart or not. */
static void add_neighbours(family_t *f, const ccl_i_form_t *best, bool first) {
    ccl_i_form_t form = *best;
    add_channels(f, best);
    add_parts(f, best, first);
    form.apart = !best->apart;
    bool shares = f->want->kind == CCL_ALLGATHER || f->want->kind == CCL_REDUCESCATTER;
    if (shares && best->ndigits > 1) {
        uint32_t most = most_channels(f, form, INFINITY);
        form.channels = best->channels < most ? best->channels : most;
        form.across = best->across == best->channels ? form.channels : best->across;
        add_form(f, form);
    }
}

/* ---------------------------------------------------------------- the race */

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const family_t *f = user;
    const ccl_i_form_t *form = &f->forms[f->turn[f->from + index]];
    ccl_text_t text = {0};
    if (form->planned) {
        uint32_t level = (uint32_t)__builtin_ctz(form->parts);
        CCL_TRY(ccl_i_meet_make(f->plans, level, f->want, out, err));
        ccl_origin_set((*out)->origin, "latency: planned in time, %u part%s", form->parts,
                       form->parts == 1 ? "" : "s");
        return CCL_OK;
    }
    if (form->grid) {
        CCL_TRY(ccl_i_form_make(with->cluster, f->want, form, out, err));
        ccl_i_form_print(form, f->want->kind, &text);
    } else {
        CCL_TRY(ccl_i_shortest_make(with->ctx, with->cluster, f->want, form, out, err));
        ccl_text_printf(&text, "shortest ways%s",
                        f->want->kind == CCL_ALLREDUCE ? " from the middle" : "");
    }
    ccl_origin_set((*out)->origin, "latency: %s, %u channel%s", text.data ? text.data : "",
                   form->channels, form->channels == 1 ? "" : "s");
    if (form->across < form->channels)
        ccl_origin_add((*out)->origin, "%u between %s", form->across,
                       form->grid->sets ? "sets" : "servers");
    if (form->joined)
        ccl_origin_add((*out)->origin, "neighbours joined");
    if (form->apart)
        ccl_origin_add((*out)->origin, "others' shares apart");
    if (form->parts > 1)
        ccl_origin_add((*out)->origin, "%u parts in %s", form->parts, form->row ? "a row" : "turn");
    ccl_text_fini(&text);
    return CCL_OK;
}

static ccl_status_t time_form(void *user, uint32_t index, const ccl_i_racer_t *with,
                              const ccl_schedule_t *schedule, ccl_i_raced_t *out,
                              ccl_error_t *err) {
    family_t *f = user;
    ccl_i_timing_t timing = {.size_bytes = f->size_bytes,
                             .way.granularity = CCL_GRANULARITY_ALGORITHM,
                             .give_up_s = f->limit_s,
                             .protocols = f->protocols};
    double *times = f->times[f->turn[f->from + index]];
    CCL_TRY(
        ccl_i_time_each(with->ctx, f->cluster->topo, with->routes, schedule, &timing, times, err));
    for (uint32_t k = 0; k < CCL_PROTOCOLS; k++)
        out->time_s = fmin(out->time_s, times[k]);
    return CCL_OK;
}

/* The fastest of those that were timed, fastest first; of equals the first. */
static uint32_t fastest(const family_t *f, uint32_t out[LEADERS]) {
    double after = 0;
    uint32_t n = 0;
    while (n < LEADERS) {
        uint32_t best = CCL_NONE;
        for (uint32_t i = 0; i < f->n; i++) {
            double t = f->time_s[i];
            if (t > after && t < INFINITY && (best == CCL_NONE || t < f->time_s[best]))
                best = i;
        }
        if (best == CCL_NONE)
            break;
        after = f->time_s[best];
        out[n++] = best;
    }
    return n;
}

/* Bytes that all GPUs send. */
static double form_bytes(const family_t *f, ccl_i_form_t form) {
    double bytes = share_bytes(f, &form);
    form.channels = form.parts = 1;
    return ccl_i_form_transfers(&form, f->want) * bytes;
}

/* What sends least comes first. */
static void set_turns(family_t *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        double bytes = form_bytes(f, f->forms[i]);
        uint32_t at = i;
        for (; at > 0 && bytes < form_bytes(f, f->forms[f->turn[at - 1]]); at--)
            f->turn[at] = f->turn[at - 1];
        f->turn[at] = i;
        f->time_s[i] = INFINITY;
    }
}

/* The first round, some after the others: what is slower than the leaders so far gives up. A form
   that sends many times another's bytes takes long to simulate: it is among the last. */
static ccl_status_t race_all(family_t *f, ccl_i_race_t *race, ccl_error_t *err) {
    uint32_t lead[LEADERS];
    set_turns(f);
    while (f->from < f->n) {
        uint32_t most = f->from == 0 ? LEADERS : TOGETHER;
        uint32_t n = f->n - f->from < most ? f->n - f->from : most;
        CCL_TRY(ccl_i_race_run(race, n, err));
        for (uint32_t i = 0; i < n; i++)
            f->time_s[f->turn[f->from + i]] = race->results[i].time_s;
        f->from += n;
        if (fastest(f, lead) == LEADERS)
            f->limit_s = f->time_s[lead[LEADERS - 1]];
    }
    f->from = 0;
    for (uint32_t i = 0; i < MOST_FORMS; i++)
        f->turn[i] = i;
    return CCL_OK;
}

/* From now on only the protocols that they are fastest with. */
static uint32_t leaders(family_t *f, ccl_i_form_t *out) {
    uint32_t lead[LEADERS], n = fastest(f, lead);
    f->protocols = n > 0 ? 0 : f->protocols;
    for (uint32_t i = n; i-- > 0;) {
        out[i] = f->forms[lead[i]];
        for (uint32_t k = 0; k < CCL_PROTOCOLS; k++) {
            bool takes = f->times[lead[i]][k] <= f->time_s[lead[i]];
            f->protocols |= (takes ? 1u : 0) << k;
            f->proto = takes ? (ccl_protocol_t)k : f->proto;
        }
    }
    return n;
}

/* Plans in time: with transports the order of what they promise is not that of what they take. */
static ccl_status_t race_plans(family_t *f, ccl_i_race_t *race, ccl_error_t *err) {
    const ccl_synth_options_t *o = f->options;
    const ccl_i_racer_t *own;
    if (!ccl_i_meet_serves(f->cluster, f->want) || o->channels > 1 || o->chunks)
        return CCL_OK;
    CCL_TRY(ccl_i_race_racer(race, &own, err));
    CCL_TRY(ccl_i_meet_plan(own->cluster, f->want, f->size_bytes, ccl_protocol_name(f->proto),
                            &f->plans, err));
    f->n = 0;
    for (uint32_t k = 0; k < f->plans->nlevels; k++) {
        ccl_i_form_t form;
        memset(&form, 0, sizeof form);
        form.planned = true;
        form.channels = 1;
        form.parts = 1u << k;
        if (!(o->hope_s > 0) || f->plans->levels[k].time_s < CCL_I_SYNTH_CARE * o->hope_s)
            add_form(f, form);
    }
    f->limit_s = race->best.schedule ? race->best.time_s : f->limit_s;
    return ccl_i_race_run(race, f->n, err);
}

static ccl_status_t race_forms(family_t *f, ccl_i_race_t *race, ccl_error_t *err) {
    ccl_i_form_t best[LEADERS];
    CCL_TRY(race_all(f, race, err));
    uint32_t n = leaders(f, best);
    for (uint32_t round = 0; n > 0 && round <= POLICY.rounds; round++) {
        double before = f->limit_s = race->best.time_s;
        f->n = 0;
        for (uint32_t i = 0; i < n; i++)
            add_neighbours(f, &best[i], i == 0);
        CCL_TRY(ccl_i_race_run(race, f->n, err));
        if (race->best.index == CCL_NONE)
            break;
        n = race->best.time_s < (1 - POLICY.gain) * before;
        best[0] = f->forms[race->best.index];
    }
    return race_plans(f, race, err);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    family_t *f = calloc(1, sizeof *f);
    ccl_status_t status = f ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        f->cluster = &cluster;
        f->want = want;
        f->options = options;
        f->work = POLICY.work;
        f->limit_s = CCL_I_SYNTH_CARE * options->hope_s;
        f->size_bytes = options->size_bytes > 0 ? options->size_bytes : DEFAULT_SIZE_BYTES;
        f->protocols = (1u << CCL_PROTOCOLS) - 1;
        if (f->size_bytes > CCL_LINES_BYTES) /* its many lines take longest to simulate */
            f->protocols &= ~(1u << CCL_PROTOCOL_LL);
        for (uint32_t r = 0; r < topo->nranks; r++) {
            uint32_t sms = ccl_model_gpu(topo, r).sms;
            f->sms = sms && (!f->sms || sms < f->sms) ? sms : f->sms;
        }
        status = add_grids(f, routes, err);
    }
    if (status == CCL_OK) {
        ccl_i_race_t race = {.ctx = ctx,
                             .topo = topo,
                             .routes = routes,
                             .clusters = true,
                             .make = make,
                             .time = time_form,
                             .user = f,
                             .size_bytes = f->size_bytes};
        status = race_forms(f, &race, err);
        if (status == CCL_OK && f->ntried == 0)
            status = ccl_fail(err, CCL_UNSUPPORTED,
                              "the GPUs of a server form no grid of wires; use greedy or sketch");
        if (status == CCL_OK)
            status = ccl_i_race_take(&race, out, err);
        ccl_i_race_fini(&race);
    }
    if (f) {
        ccl_i_meet_plans_destroy(f->plans);
        ccl_arena_fini(&f->arena);
    }
    free(f);
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_latency = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "latency",
    .summary = "few steps for small messages: all peers of a digit exchange at once",
    .source =
        "Thakur, Rabenseifner, Gropp, IJHPCA 2005; Bruck et al., TPDS 1997; van de Geijn 1994",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
};
