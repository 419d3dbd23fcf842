/*
 * straggler: AllReduce when one GPU is late. The others reduce what they have, each a share of its
 * own; when the straggler comes, every share still needs its contribution and then goes to all.
 * Two ways to join: StragglAR's rounds, in which each GPU sends and receives one share at a time,
 * and straight, in which the straggler deals its contributions out and owners pass results on at
 * once.
 */
#include "synth/common/options.h"
#include "synth/common/race.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CHANNELS = 16,
    MOST_CUTS = 64,
    MOST_TRANSFERS = 200000,
    MOST_WAYS = 64,
    MOST_RANKS = 256
};
#define DEFAULT_SIZE_BYTES 67108864.0
#define LEAST_CUT_BYTES 4096.0

/* One way to do it. */
typedef struct way {
    bool rounds;  /* else straight */
    bool in_turn; /* a round begins when the one before is done; else as soon as data are there,
                     which is faster where a connection's thread blocks do not fill a link */
    uint32_t channels, cuts;
} way_t;

typedef struct job {
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    uint32_t late_rank, n; /* n: the others, at least 2 */
    double late_s, size_bytes;
    way_t ways[MOST_WAYS];
    uint32_t nways;
} job_t;

/* ---------------------------------------------------------------- transfers */

/* A schedule while it is made. Share g is owned by the g-th of the others. */
typedef struct maker {
    ccl_schedule_builder_t *b;
    const job_t *j;
    way_t way;
    uint32_t step; /* of what is added next */
} maker_t;

/* Rank of the g-th of the others; of n, the straggler. */
static uint32_t rank_of(const job_t *j, uint32_t g) {
    return g == j->n ? j->late_rank : g + (g >= j->late_rank);
}

/* A share, in all its channels and cuts. @param apart  steps between cuts. */
static void move(const maker_t *m, uint32_t share, uint32_t src, uint32_t dst, bool reduce,
                 uint32_t apart) {
    for (uint32_t ch = 0; ch < m->way.channels; ch++) {
        for (uint32_t k = 0; k < m->way.cuts; k++) {
            ccl_transfer_t t = {.src = rank_of(m->j, src),
                                .dst = rank_of(m->j, dst),
                                .chunk = (share * m->way.channels + ch) * m->way.cuts + k,
                                .step = m->step + k * apart,
                                .channel = (uint16_t)ch,
                                .reduce = reduce};
            ccl_schedule_builder_add(m->b, t);
        }
    }
}

/* Contributions of all to each share's owner; in each step each GPU sends one share and gets one.
 */
static void reduce_scatter(maker_t *m) {
    uint32_t n = m->j->n;
    for (uint32_t d = 1; d < n; d++, m->step++)
        for (uint32_t g = 0; g < n; g++)
            move(m, (g + d) % n, g, (g + d) % n, true, 0);
}

static void join_straight(maker_t *m) {
    uint32_t n = m->j->n;
    for (uint32_t g = 0; g < n; g++)
        move(m, g, n, g, true, 1);
    m->step++;
    for (uint32_t d = 1; d <= n; d++) /* the straggler too */
        for (uint32_t g = 0; g < n; g++)
            move(m, g, g, (g + d) % (n + 1), false, 1);
}

/*
 * StragglAR's rounds, for 2^l GPUs. In round t the straggler and GPU t exchange what they have of
 * share t, which is the sum then. Each other GPU holds one youngest share; share t - l is held by
 * half of all GPUs, share t - l + 1 by a quarter, and so on: all in the first half, GPU t
 * apart, exchanges with somebody outside of it. So the oldest share reaches all, the younger ones
 * are held by twice as many, and after n + l - 2 rounds all is done. Shares before 0 are none: they
 * only say who gets what first.
 */
typedef struct rounds {
    uint32_t n, l;         /* the others; log2 of all */
    int *active;           /* [n] youngest share */
    uint32_t *old, *young; /* [n + 1] who holds the oldest, who does not, in a round */
    uint32_t nold, nyoung;
} rounds_t;

/* GPU g must hold the oldest share again in its own round; before, it may hold none that lasts
   beyond it. So those with the least time get the oldest of the younger shares. */
static void place_first(rounds_t *r) {
    uint32_t g = r->n;
    for (uint32_t age = 1; age <= r->l; age++)
        for (uint32_t k = 0; k < 1u << (age - 1); k++)
            r->active[--g] = -(int)age;
}

static uint32_t slack(uint32_t g, uint32_t round) {
    return g > round ? g - round : CCL_NONE;
}

/* The oldest share's holders that are free, those with most time first; all others, by share, the
   youngest first. */
static void line_up(rounds_t *r, uint32_t round, bool alone) {
    r->nold = r->nyoung = 0;
    for (uint32_t g = 0; g < r->n; g++) {
        if (r->active[g] != (int)round - (int)r->l || (!alone && g == round))
            continue;
        uint32_t at = r->nold++;
        for (; at > 0 && slack(r->old[at - 1], round) < slack(g, round); at--)
            r->old[at] = r->old[at - 1];
        r->old[at] = g;
    }
    if (alone) /* the straggler has all, the youngest as well */
        r->young[r->nyoung++] = r->n;
    for (int share = (int)round - 1; share > (int)round - (int)r->l; share--)
        for (uint32_t g = 0; g < r->n; g++)
            if (r->active[g] == share)
                r->young[r->nyoung++] = g;
}

static void run_round(maker_t *m, rounds_t *r, uint32_t round) {
    bool alone = round >= r->n; /* nobody is left to exchange with the straggler */
    int oldest = (int)round - (int)r->l;
    line_up(r, round, alone);
    for (uint32_t i = 0; i < r->nold && i < r->nyoung; i++) {
        uint32_t o = r->old[i], p = r->young[i];
        int share = p == r->n ? (int)r->n - 1 : r->active[p];
        if (oldest >= 0 && p != r->n)
            move(m, (uint32_t)oldest, o, p, false, 0);
        if (share >= 0)
            move(m, (uint32_t)share, p, o, false, 0);
        r->active[o] = share;
    }
    if (!alone) {
        move(m, round, r->n, round, true, 0);
        move(m, round, round, r->n, true, 0);
        r->active[round] = (int)round;
    }
    m->step++;
}

static ccl_status_t join_in_rounds(maker_t *m, ccl_error_t *err) {
    rounds_t r = {.n = m->j->n};
    while (1u << r.l < r.n + 1)
        r.l++;
    r.active = malloc(r.n * sizeof *r.active);
    r.old = malloc((r.n + 1) * sizeof *r.old);
    r.young = malloc((r.n + 1) * sizeof *r.young);
    ccl_status_t status = r.active && r.old && r.young ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        place_first(&r);
    for (uint32_t t = 0; status == CCL_OK && t < r.n + r.l - 1; t++)
        run_round(m, &r, t);
    free(r.active);
    free(r.old);
    free(r.young);
    return status;
}

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const job_t *j = user;
    maker_t m = {.j = j, .way = j->ways[index]};
    ccl_collective_t *coll = NULL;
    (void)with;
    CCL_TRY(ccl_collective_split(j->want, j->n * m.way.channels * m.way.cuts, &coll, err));
    m.b = ccl_schedule_builder_create("straggler", coll);
    if (!m.b)
        return ccl_fail_nomem(err);
    reduce_scatter(&m);
    ccl_status_t status = CCL_OK;
    if (m.way.rounds)
        status = join_in_rounds(&m, err);
    else
        join_straight(&m);
    if (status != CCL_OK) {
        ccl_schedule_builder_destroy(m.b);
        return status;
    }
    CCL_TRY(ccl_schedule_builder_finish(m.b, out, err));
    (*out)->rounds = m.way.in_turn;
    ccl_origin_set((*out)->origin, "straggler: rank %u joins %s%s, %u channel%s, %u part%s",
                   j->late_rank, m.way.rounds ? "in rounds" : "straight",
                   m.way.in_turn ? " one by one" : "", m.way.channels,
                   m.way.channels == 1 ? "" : "s", m.way.cuts, m.way.cuts == 1 ? "" : "s");
    return CCL_OK;
}

/* ---------------------------------------------------------------- the fastest */

/* A run in which the straggler is late. @param late_s  0: all are there. */
static ccl_status_t run(const job_t *j, const ccl_i_racer_t *with, const ccl_topology_t *topo,
                        const ccl_schedule_t *schedule, double late_s, double *time_s,
                        ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    double *late = calloc(topo->nranks, sizeof *late);
    ccl_sim_variation_t variation = {.late_s = late};
    if (!late)
        return ccl_fail_nomem(err);
    late[j->late_rank] = late_s;
    lower.topo = topo;
    lower.routes = with->routes;
    lower.size_bytes = sim.size_bytes = j->size_bytes;
    sim.variation = &variation;
    ccl_status_t status = ccl_lower(with->ctx, schedule, &lower, &program, err);
    if (status == CCL_OK)
        status = ccl_sim_program(with->ctx, topo, with->routes, program, &sim, &result, err);
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    free(late);
    return status;
}

/* Of which nothing is said, it comes when the others would be done with everything. */
static ccl_status_t time_way(void *user, uint32_t index, const ccl_i_racer_t *with,
                             const ccl_schedule_t *schedule, ccl_i_raced_t *out, ccl_error_t *err) {
    const job_t *j = user;
    double late_s = j->late_s;
    ccl_status_t status = CCL_OK;
    (void)index;
    if (!(late_s > 0))
        status = run(j, with, with->cluster->topo, schedule, 0, &late_s, err);
    if (status == CCL_OK)
        status = run(j, with, with->cluster->topo, schedule, late_s, &out->time_s, err);
    if (status == CCL_OK && !(j->late_s > 0))
        out->time_s -= late_s;
    if (status == CCL_DEADLOCK)
        status = CCL_UNSUPPORTED;
    return status;
}

static bool is_power_of_two(uint32_t n) {
    return (n & (n - 1)) == 0;
}

static void add_way(job_t *j, way_t way) {
    ccl_straggler_join_t asked = j->options->straggler.join;
    bool can = !way.rounds || is_power_of_two(j->n + 1);
    if (can && j->nways < MOST_WAYS &&
        (asked == CCL_STRAGGLER_AUTO || way.rounds == (asked == CCL_STRAGGLER_ROUNDS)))
        j->ways[j->nways++] = way;
}

/* What is tried: both ways to join, with channels that a GPU has thread blocks for. Large shares
   are cut so that they are one micro-batch: of several the second begins when all is done with the
   first, and the straggler is waited for. */
static void add_ways(job_t *j, ccl_i_cluster_t *c) {
    const ccl_synth_options_t *o = j->options;
    uint32_t most = ccl_i_cluster_channels(c, 1, 2 * j->n, 4.0 * j->n * j->n);
    most = most > MOST_CHANNELS ? MOST_CHANNELS : most;
    for (uint32_t ch = o->channels ? o->channels : most; ch > 0; ch = o->channels ? 0 : ch / 2) {
        for (uint32_t cuts = 1; cuts <= (o->chunks ? 1 : MOST_CUTS); cuts *= 4) {
            uint32_t parts = o->chunks ? o->chunks : cuts;
            double pieces = (double)j->n * ch * parts;
            if (cuts > 1 &&
                (j->size_bytes / pieces < LEAST_CUT_BYTES || 2 * j->n * pieces > MOST_TRANSFERS))
                continue;
            add_way(j, (way_t){false, false, ch, parts});
            add_way(j, (way_t){true, true, ch, parts});
            add_way(j, (way_t){true, false, ch, parts});
        }
    }
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (want->kind != CCL_ALLREDUCE) {
        *why = "without a late GPU's contribution only AllReduce can be begun";
        return false;
    }
    if (topo->nranks < 3 || topo->nranks > MOST_RANKS) {
        *why = topo->nranks < 3 ? "fewer than three GPUs: nobody can begin without the late one"
                                : "more than 256 GPUs";
        return false;
    }
    if (topo->nservers > 1) {
        *why = "several servers: its shares go straight between any two GPUs of one";
        return false;
    }
    return true;
}

static ccl_status_t check(const job_t *j, const ccl_i_cluster_t *c, ccl_error_t *err) {
    if (j->late_rank >= c->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "no rank %u is there to be late; ranks are 0 to %u",
                        j->late_rank, c->nranks - 1);
    if (!c->full)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "straggler sends straight between any two GPUs, and some have no route");
    if (j->options->straggler.join == CCL_STRAGGLER_ROUNDS && !is_power_of_two(c->nranks))
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "rounds are for 4, 8, 16 ... GPUs, not %u; --join straight is for any "
                        "number",
                        c->nranks);
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    job_t j = {.want = want, .options = options, .n = want->nranks - 1};
    j.late_rank = options->straggler.rank == CCL_NONE ? want->nranks - 1 : options->straggler.rank;
    j.late_s = options->straggler.late_s;
    j.size_bytes = options->size_bytes > 0 ? options->size_bytes : DEFAULT_SIZE_BYTES;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = check(&j, &cluster, err);
    if (status == CCL_OK)
        add_ways(&j, &cluster);
    ccl_i_cluster_fini(&cluster);
    CCL_TRY(status);
    ccl_i_race_t race = {.ctx = ctx,
                         .topo = topo,
                         .routes = routes,
                         .clusters = true,
                         .phase = "simulate",
                         .make = make,
                         .time = time_way,
                         .user = &j,
                         .size_bytes = j.size_bytes};
    status = ccl_i_race_run(&race, j.nways, err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&race, out, err);
    ccl_i_race_fini(&race);
    return status;
}

#define AT CCL_I_SYNTH_AT
static const ccl_option_t straggler_options[] = {
    {.name = "late-rank",
     .type = CCL_OPTION_COUNT,
     .offset = AT(straggler.rank),
     .value = "RANK",
     .automatic = CCL_NONE,
     .doc = "the GPU that is late",
     .otherwise = "the last"},
    {.name = "late",
     .type = CCL_OPTION_TIME,
     .offset = AT(straggler.late_s),
     .value = "TIME",
     .doc = "how late it is (200us, 2ms): ways to join are tried with that",
     .otherwise = "as late that the others are done"},
    {.name = "join",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(straggler.join),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("auto", "rounds", "straight"),
     .doc = "how it joins: in StragglAR's rounds, which want 4, 8, 16 ... GPUs, or straight",
     .otherwise = "auto: the faster by simulation"},
    {.name = NULL},
};
static const ccl_option_t *const tables[] = {straggler_options, NULL};

const ccl_synth_ops_t ccl_i_synth_straggler = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "straggler",
    .summary = "AllReduce in one server when one GPU is late: the others begin without it",
    .source = "StragglAR (arXiv 2505.23523); joining straight is ours",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .by_name = true,
    .options = tables,
};
