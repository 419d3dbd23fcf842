/*
 * Where GPUs relay for each other and every chunk has one destination: the flows of a linear
 * program, which load links as evenly as can be (TE-CCL, section 4.1), taken apart into paths.
 * Into how many is decided by simulation.
 */
#include "synth/exact/milp.h"
#include "synth/common/options.h"
#include "synth/common/race.h"
#include "synth/common/turn.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VARIABLES 20000.0
#define MOST_SENDS 50000.0

/** Into how many parts a chunk is cut, each on a path of its own. */
static const uint32_t cuts[] = {8, 4, 16, 2, 1, 32};
/** Most thread blocks on a link. */
#define MOST_LANES 64.0
/* Cuts whose schedules are lowered with care, which changes who is fastest. */
#define FINALISTS 3u
/* Up to which other protocols than Simple are faster. */
#define SMALL_BYTES 8388608.0

typedef struct job {
    const ccl_i_asked_t *asked;
    ccl_i_exchange_t x;
    double *flow; /* [n][nhops] */
    double size_bytes;
    double time_s[CCL_ARRAY_LEN(cuts)]; /* a block for each connection */
    ccl_protocol_t proto[CCL_ARRAY_LEN(cuts)];
    uint32_t finalists[FINALISTS], nfinalists;
    bool final;
} job_t;

/* ---------------------------------------------------------------- the flows */

static ccl_status_t solve(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    const job_t *j = user;
    ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
    size_t n = (size_t)j->x.nranks * j->x.nhops;
    CCL_TRY(ccl_i_milp_flows(&j->x, j->asked->want, j->flow, &answer, err));
    if (answer != CCL_I_GLPK_FOUND)
        return ccl_fail(err, CCL_UNSUPPORTED, "GLPK finds no flows");
    return ccl_child_put(pipe, j->flow, n * sizeof *j->flow) ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t find_flows(job_t *j, ccl_error_t *err) {
    ccl_child_limits_t limits = {j->asked->options->time_limit_s, 0, "flows"};
    ccl_child_answer_t answer = {0};
    size_t n = (size_t)j->x.nranks * j->x.nhops;
    if ((double)n > MOST_VARIABLES)
        return ccl_fail(err, CCL_UNSUPPORTED, "%zu variables of flows: it takes up to %.0f", n,
                        MOST_VARIABLES);
    j->flow = calloc(n + 1, sizeof *j->flow);
    if (!j->flow)
        return ccl_fail_nomem(err);
    bool dropped = false;
    ccl_status_t status =
        ccl_i_copies_search(j->asked->ctx, &limits, solve, j, &answer, &dropped, err);
    if (status == CCL_OK)
        memcpy(j->flow, answer.data, n * sizeof *j->flow);
    free(answer.data);
    return status;
}

/* ---------------------------------------------------------------- their schedules */

/* Parts that cross a hop take its thread blocks in turn. */
static ccl_status_t moves_of(const job_t *j, const ccl_i_milp_send_t *sends, size_t nsends,
                             ccl_i_move_t *moves, ccl_error_t *err) {
    uint32_t *used = calloc(j->x.nhops + (size_t)1, sizeof *used);
    ccl_status_t status = used ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; i < nsends && status == CCL_OK; i++) {
        const ccl_i_hop_t *hop = &j->x.hops[sends[i].hop];
        double fill = isfinite(hop->tb_Bps) ? ccl_model_ceil(hop->link_Bps / hop->tb_Bps) : 1;
        uint32_t lanes = (uint32_t)fmax(1, fmin(fill, MOST_LANES));
        moves[i] = (ccl_i_move_t){.src = hop->src,
                                  .dst = hop->dst,
                                  .chunk = sends[i].chunk,
                                  .start_s = sends[i].epoch,
                                  .arrive_s = sends[i].epoch + 1.0};
        status = ccl_i_exchange_channel(hop, j->asked->routes, false, used[sends[i].hop]++ % lanes,
                                        &moves[i].channel, err);
    }
    free(used);
    return status;
}

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const job_t *j = user;
    const ccl_collective_t *want = j->asked->want;
    uint32_t parts = cuts[j->final ? j->finalists[index] : index];
    size_t n = (size_t)j->x.nranks * j->x.nhops, nsends = 0;
    ccl_i_milp_send_t *sends = NULL;
    ccl_i_move_t *moves = NULL;
    ccl_collective_t *coll = NULL;
    (void)with;
    if (j->asked->options->chunks)
        parts = j->asked->options->chunks;
    if (want->nchunks * (double)parts > MOST_SENDS)
        return ccl_fail(err, CCL_UNSUPPORTED, "too many parts");
    double *flow = malloc((n + 1) * sizeof *flow);
    if (!flow)
        return ccl_fail_nomem(err);
    memcpy(flow, j->flow, n * sizeof *flow);
    ccl_status_t status = ccl_i_milp_paths(&j->x, want, flow, parts, &sends, &nsends, err);
    free(flow);
    if (status == CCL_OK && !(moves = malloc((nsends + 1) * sizeof *moves)))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = moves_of(j, sends, nsends, moves, err);
    if (status == CCL_OK)
        status = ccl_collective_split(want, parts, &coll, err);
    if (status == CCL_OK) {
        const ccl_i_turn_t turn = {.name = "flows", .down = moves, .ndown = nsends};
        status = ccl_i_turn_schedule(&turn, coll, out, err);
    }
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "flows: GLPK's, %u path%s a chunk", parts,
                       parts == 1 ? "" : "s");
    free(sends);
    free(moves);
    return status;
}

static ccl_status_t time_cut(void *user, uint32_t index, const ccl_i_racer_t *with,
                             const ccl_schedule_t *schedule, ccl_i_raced_t *out, ccl_error_t *err) {
    job_t *j = user;
    double times[CCL_PROTOCOLS];
    ccl_i_timing_t timing = {.size_bytes = j->size_bytes,
                             .way.granularity = CCL_GRANULARITY_TASK,
                             .protocols = j->size_bytes > SMALL_BYTES ? 1u << CCL_PROTOCOL_SIMPLE
                                                                      : UINT32_MAX};
    if (j->final) {
        ccl_protocol_t proto = j->proto[j->finalists[index]];
        timing.way = ccl_way_hpds;
        CCL_TRY(ccl_i_time_proto(with->ctx, j->asked->topo, with->routes, schedule,
                                 ccl_protocol_name(proto), &timing, err));
        out->time_s = timing.time_s;
        return CCL_OK;
    }
    CCL_TRY(
        ccl_i_time_each(with->ctx, j->asked->topo, with->routes, schedule, &timing, times, err));
    for (uint32_t k = 0; k < CCL_PROTOCOLS; k++)
        if (times[k] < j->time_s[index]) {
            j->time_s[index] = times[k];
            j->proto[index] = (ccl_protocol_t)k;
        }
    out->time_s = j->time_s[index];
    return CCL_OK;
}

static void choose_finalists(job_t *j, uint32_t ncuts) {
    while (j->nfinalists < FINALISTS) {
        uint32_t best = CCL_NONE;
        for (uint32_t i = 0; i < ncuts; i++) {
            bool taken = false;
            for (uint32_t k = 0; k < j->nfinalists; k++)
                taken |= j->finalists[k] == i;
            if (!taken && j->time_s[i] < INFINITY &&
                (best == CCL_NONE || j->time_s[i] < j->time_s[best]))
                best = i;
        }
        if (best == CCL_NONE)
            return;
        j->finalists[j->nfinalists++] = best;
    }
}

static ccl_i_race_t race_of(job_t *j) {
    double limit_s = j->asked->options->time_limit_s;
    return (ccl_i_race_t){.ctx = j->asked->ctx,
                          .topo = j->asked->topo,
                          .routes = j->asked->routes,
                          .phase = "simulate",
                          .make = make,
                          .time = time_cut,
                          .user = j,
                          .in_turn = true,
                          .make_until_s = limit_s > 0 ? ccl_now_s() + limit_s : 0};
}

static ccl_status_t race(job_t *j, ccl_schedule_t **out, ccl_error_t *err) {
    const uint32_t ncuts = j->asked->options->chunks ? 1 : CCL_ARRAY_LEN(cuts);
    ccl_i_race_t trials = race_of(j);
    for (uint32_t i = 0; i < ncuts; i++)
        j->time_s[i] = INFINITY;
    trials.times_only = true;
    ccl_status_t status = ccl_i_race_run(&trials, ncuts, err);
    bool late = trials.late;
    choose_finalists(j, ncuts);
    if (status == CCL_OK && !j->nfinalists)
        status = ccl_fail(err, CCL_UNSUPPORTED, "%s",
                          trials.why.text[0] ? trials.why.text
                                             : "its paths need more thread blocks than GPUs have");
    ccl_i_race_fini(&trials);
    if (status != CCL_OK)
        return status;
    ccl_i_race_t finals = race_of(j);
    j->final = finals.skip_lone = true;
    status = ccl_i_race_run(&finals, j->nfinalists, err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&finals, out, err);
    if (status == CCL_OK)
        (*out)->limited |= late || finals.late;
    ccl_i_race_fini(&finals);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    const ccl_i_asked_t asked = {ctx, topo, routes, want, options};
    job_t j = {.asked = &asked,
               .size_bytes = options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES};
    ccl_status_t status = ccl_i_exchange_init(&j.x, topo, routes, NULL, err);
    if (status == CCL_OK)
        status = find_flows(&j, err);
    if (status == CCL_OK)
        status = race(&j, out, err);
    free(j.flow);
    ccl_i_exchange_fini(&j.x);
    return status;
}

/* Whether some link joins two GPUs. */
static bool joined(const ccl_topology_t *topo) {
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (topo->devices[topo->links[l].from].kind == CCL_DEVICE_GPU &&
            topo->devices[topo->links[l].to].kind == CCL_DEVICE_GPU)
            return true;
    return false;
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    bool copies = !ccl_i_turn_copied(want);
    for (uint32_t c = 0; c < want->nchunks && copies; c++)
        copies = want->chunks[c].nsources == 1 && want->chunks[c].ndests <= 1;
    if (!copies)
        *why =
            "it is for chunks with one destination: AllToAll, Scatter, Gather, SendRecv, demands";
    else if (!joined(topo))
        *why = "no link joins two GPUs: what is sent straight takes the shortest way";
    else
        return ccl_i_turn_supported(want, false, why);
    return false;
}

const ccl_synth_ops_t ccl_i_synth_flows = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "flows",
    .summary = "where GPUs relay: flows of a linear program that load links evenly, in paths",
    .source = "TE-CCL (SIGCOMM 2024), section 4.1",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .way = &ccl_way_hpds,
};
