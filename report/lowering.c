/* One schedule, lowered several ways: what each costs, and where its thread blocks' time goes. */
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ccl_report_lowering_tables[] = {"ways", "blocks", NULL};

/* Connections of one block that a line of text names. */
enum { TEXT_CONNECTIONS = 6 };

/** One thread block, or at stage level one stage of it. */
typedef struct block {
    const ccl_tb_t *tb;
    uint32_t stage; /* CCL_NONE: all of the block */
    const ccl_tb_use_t *use;
    uint32_t nsteps;
    ccl_peers_t *connections; /* distinct, in the order of first use: peer, direction, channel */
    uint32_t nconnections;
} block_t;

/* ---------------------------------------------------------------- blocks */

static void block_fini(block_t *block) {
    free(block->connections);
    block->connections = NULL;
}

static bool add_connection(block_t *block, size_t *cap, ccl_peers_t c) {
    for (uint32_t i = 0; i < block->nconnections; i++) {
        const ccl_peers_t *have = &block->connections[i];

        if (have->send_peer == c.send_peer && have->recv_peer == c.recv_peer &&
            have->channel == c.channel)
            return true;
    }
    if (!ccl_grow(&block->connections, cap, block->nconnections + (size_t)1,
                  sizeof(*block->connections)))
        return false;
    block->connections[block->nconnections++] = c;
    return true;
}

/** Block i of a kept result: its steps, and the connections that they use. */
static ccl_status_t block_at(const ccl_lowered_t *way, uint32_t i, block_t *out, ccl_error_t *err) {
    const ccl_program_t *p = way->program;
    const ccl_stage_use_t *stage = way->result->stages ? &way->result->stages[i] : NULL;
    const ccl_tb_t *tb = &p->tbs[stage ? stage->tb : i];
    block_t block = {
        tb, stage ? stage->stage : CCL_NONE, stage ? &stage->use : &way->result->tbs[i], 0, NULL,
        0};
    size_t cap = 0;

    for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
        ccl_primitive_t type = (ccl_primitive_t)p->steps[s].type;
        ccl_peers_t peers = ccl_program_peers(p, tb, s);
        ccl_peers_t to = {peers.send_peer, CCL_NONE, peers.channel};
        ccl_peers_t from = {CCL_NONE, peers.recv_peer, peers.channel};

        if (stage && p->steps[s].stage != stage->stage)
            continue;
        block.nsteps++;
        if ((ccl_primitive_receives(type) && !add_connection(&block, &cap, from)) ||
            (ccl_primitive_sends(type) && !add_connection(&block, &cap, to))) {
            block_fini(&block);
            return ccl_fail_nomem(err);
        }
    }
    *out = block;
    return CCL_OK;
}

static uint32_t count_blocks(const ccl_lowered_t *way) {
    if (!way->program || !way->result)
        return 0;
    return way->result->stages ? way->result->nstages : way->result->ntbs;
}

static uint32_t rank_of_block(const ccl_lowered_t *way, uint32_t i) {
    return way->program->tbs[way->result->stages ? way->result->stages[i].tb : i].rank;
}

/** The rank whose blocks moved data longest, added up; the lowest of equals. */
static uint32_t busiest_rank(const ccl_lowered_t *way) {
    uint32_t best = 0;
    uint32_t rank = CCL_NONE;
    double most_s = -1;
    double sum_s = 0;
    uint32_t n = count_blocks(way);

    for (uint32_t i = 0; i <= n; i++) {
        uint32_t next = i < n ? rank_of_block(way, i) : CCL_NONE;

        if (next != rank) {
            if (rank != CCL_NONE && sum_s > most_s * (1 + 1e-9)) {
                most_s = sum_s;
                best = rank;
            }
            rank = next;
            sum_s = 0;
        }
        if (i < n)
            sum_s += way->result->stages ? way->result->stages[i].use.busy_s
                                         : way->result->tbs[i].busy_s;
    }
    return best;
}

/** The rank whose blocks are shown; CCL_NONE: all. */
static uint32_t shown_rank(const ccl_report_lowering_t *r, const ccl_lowered_t *way) {
    if (r->all_ranks)
        return CCL_NONE;
    return r->rank != CCL_NONE ? r->rank : busiest_rank(way);
}

typedef void (*block_fn)(const ccl_lowered_t *way, const block_t *block, void *user);

static ccl_status_t each_block(const ccl_report_lowering_t *r, const ccl_lowered_t *way,
                               block_fn fn, void *user, ccl_error_t *err) {
    uint32_t n = count_blocks(way);
    uint32_t rank = n ? shown_rank(r, way) : CCL_NONE;

    for (uint32_t i = 0; i < n; i++) {
        block_t block;

        if (rank != CCL_NONE && rank_of_block(way, i) != rank)
            continue;
        CCL_TRY(block_at(way, i, &block, err));
        fn(way, &block, user);
        block_fini(&block);
    }
    return CCL_OK;
}

/** "from 3, to 5, to 6 (channel 1)". */
static void connections_text(const block_t *block, uint32_t most, ccl_text_t *out) {
    if (block->nconnections == 0)
        ccl_text_printf(out, "-");
    for (uint32_t i = 0; i < block->nconnections; i++) {
        const ccl_peers_t *c = &block->connections[i];

        if (i >= most) {
            ccl_text_printf(out, ", %u more", block->nconnections - i);
            return;
        }
        ccl_text_printf(out, "%s%s %u", i ? ", " : "", c->send_peer != CCL_NONE ? "to" : "from",
                        c->send_peer != CCL_NONE ? c->send_peer : c->recv_peer);
        if (c->channel)
            ccl_text_printf(out, " (channel %u)", c->channel);
    }
}

/* ---------------------------------------------------------------- text */

static double speedup(const ccl_report_lowering_t *r, const ccl_lowered_t *way) {
    const ccl_lowered_t *first = &r->ways[0];

    return first->status == CCL_OK && way->status == CCL_OK ? first->time_s / way->time_s : NAN;
}

static void text_way(const ccl_report_lowering_t *r, const ccl_lowered_t *way, ccl_table_t *table) {
    const double shares[] = {way->usage.comm_share, way->usage.mean_idle_share,
                             way->usage.max_idle_share, way->usage.link_utilization};
    double ratio = speedup(r, way);
    bool ok = way->status == CCL_OK;
    char text[64];

    ccl_table_row(table);
    ccl_table_cell(table, "%s", ccl_i_order_name(way->way.order));
    ccl_table_cell(table, "%s", ccl_i_allocation_name(way->way.allocation));
    ccl_table_cell(table, "%s", ccl_i_granularity_name(way->way.granularity));
    if (way->ntbs)
        ccl_table_cell(table, "%u", way->usage.thread_blocks);
    else
        ccl_table_cell(table, "-");
    if (ok) {
        ccl_table_cell(table, "%s", ccl_i_us(way->time_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_gap_text(way->time_s, r->bound_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_GBps(way->algbw_GBps * 1e9, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_GBps(way->busbw_GBps * 1e9, text, sizeof(text)));
    } else {
        ccl_table_cell(table, "%s", ccl_i_status_word(way->status));
        ccl_table_cell(table, "-");
        ccl_table_cell(table, "-");
        ccl_table_cell(table, "-");
    }
    if (isfinite(ratio))
        ccl_table_cell(table, "%.3f", ratio);
    else
        ccl_table_cell(table, "-");
    for (size_t i = 0; i < CCL_ARRAY_LEN(shares); i++) {
        if (ok)
            ccl_table_cell(table, "%.1f", 100 * shares[i]);
        else
            ccl_table_cell(table, "-");
    }
}

static ccl_status_t text_ways(const ccl_report_lowering_t *r, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {
        "order",       "allocation", "level",     "blocks",  "time(us)",  "gap",     "algbw(GB/s)",
        "busbw(GB/s)", "speed-up",   "moving(%)", "idle(%)", "idlest(%)", "links(%)"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 3);
    for (uint32_t i = 0; i < r->nways; i++)
        text_way(r, &r->ways[i], table);
    status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    return status;
}

/** Milliseconds of the phases of ResCCL's figure 10a. */
static ccl_status_t text_phases(const ccl_report_lowering_t *r, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"order",         "allocation", "level",
                                          "sub-pipelines", "parse(ms)",  "analyse(ms)",
                                          "order(ms)",     "lower(ms)",  "all(ms)"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 3);
    for (uint32_t i = 0; i < r->nways; i++) {
        const ccl_lowered_t *way = &r->ways[i];
        const ccl_lower_stats_t *s = &way->stats;
        const double phases_s[] = {r->parse_s, s->analyse_s, s->order_s, s->lower_s,
                                   r->parse_s + s->analyse_s + s->order_s + s->lower_s};

        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_i_order_name(way->way.order));
        ccl_table_cell(table, "%s", ccl_i_allocation_name(way->way.allocation));
        ccl_table_cell(table, "%s", ccl_i_granularity_name(way->way.granularity));
        if (s->pipelines)
            ccl_table_cell(table, "%u", s->pipelines);
        else
            ccl_table_cell(table, "-");
        for (size_t k = 0; k < CCL_ARRAY_LEN(phases_s); k++)
            ccl_table_cell(table, "%.3f", 1e3 * phases_s[k]);
    }
    ccl_text_printf(out, "\nHow long each phase took (wall time; undisturbed with --threads 1)\n");
    status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    return status;
}

static void text_block(const ccl_lowered_t *way, const block_t *block, void *user) {
    const ccl_tb_use_t *u = block->use;
    const double times_s[] = {u->busy_s, u->wait_data_s, u->wait_peer_s, u->wait_slot_s};
    ccl_table_t *table = user;
    ccl_text_t connections = {0};
    char text[64];

    (void)way;
    ccl_table_row(table);
    ccl_table_cell(table, "%u", block->tb->rank);
    ccl_table_cell(table, "%u", block->tb->id);
    ccl_table_cell(table, "%s",
                   block->stage == CCL_NONE ? "-" : ccl_i_index(block->stage, text, sizeof(text)));
    ccl_table_cell(table, "%u", block->nsteps);
    for (size_t i = 0; i < CCL_ARRAY_LEN(times_s); i++)
        ccl_table_cell(table, "%s", ccl_i_us(times_s[i], text, sizeof(text)));
    ccl_table_cell(table, "%.1f", 100 * ccl_sim_idle_share(u));
    ccl_table_cell(table, "%s", ccl_i_us(u->done_s, text, sizeof(text)));
    connections_text(block, TEXT_CONNECTIONS, &connections);
    ccl_table_cell(table, "%s", connections.data ? connections.data : "");
    ccl_text_fini(&connections);
}

static ccl_status_t text_blocks(const ccl_report_lowering_t *r, const ccl_lowered_t *way,
                                ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"rank",     "block",           "stage",    "steps",
                                          "busy(us)", "waits: data(us)", "peer(us)", "slot(us)",
                                          "idle(%)",  "released(us)"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
    ccl_table_column(table, "connections", CCL_ALIGN_LEFT);
    status = each_block(r, way, text_block, table, err);
    if (status == CCL_OK) {
        ccl_text_printf(out, "\nThread blocks of %s%s: %s order, %s allocation, %s level\n",
                        r->all_ranks ? "all ranks" : "rank ",
                        r->all_ranks ? "" : ccl_i_index(shown_rank(r, way), text, sizeof(text)),
                        ccl_i_order_name(way->way.order),
                        ccl_i_allocation_name(way->way.allocation),
                        ccl_i_granularity_name(way->way.granularity));
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    }
    ccl_table_destroy(table);
    return status;
}

static void text_notes(const ccl_report_lowering_t *r, ccl_text_t *out) {
    ccl_text_printf(
        out,
        "\n  blocks    thread blocks on the fullest GPU; at stage level a block per stage\n"
        "  gap       time / lower bound (ccllab bound)\n"
        "  speed-up  time of the first row / time\n"
        "  moving    mean over all blocks of: time it moves data / its life, which ends with\n"
        "            its last primitive; idle is the rest, waiting for data, another block or\n"
        "            a slot; idlest: of the block with most of it (ResCCL's table 3)\n"
        "  links     mean over the links that carry data of bytes / (bandwidth x time)\n");
    for (uint32_t i = 0; i < r->nways; i++) {
        const ccl_lowered_t *way = &r->ways[i];

        if (way->status != CCL_OK)
            ccl_text_printf(out, "  %s %s %s: %s\n", ccl_i_order_name(way->way.order),
                            ccl_i_allocation_name(way->way.allocation),
                            ccl_i_granularity_name(way->way.granularity), way->why);
    }
}

static ccl_status_t lowering_text(const ccl_report_lowering_t *r, ccl_text_t *out,
                                  ccl_error_t *err) {
    const ccl_schedule_t *s = r->schedule;
    char text[64];

    ccl_text_printf(out,
                    "%s: %s of %s on %s (%u GPUs), %u transfers in %u steps (simulated; %s "
                    "sharing, %s)\n\n",
                    r->input, s->coll->name,
                    ccl_format_bytes(r->options->size_bytes, text, sizeof(text)), r->topo->name,
                    r->topo->nranks, s->ntransfers, s->nsteps,
                    ccl_i_sharing_name(r->options->sharing), r->lower->proto);
    CCL_TRY(text_ways(r, out, err));
    CCL_TRY(text_phases(r, out, err));
    for (uint32_t i = 0; r->blocks && i < r->nways; i++) {
        if (count_blocks(&r->ways[i]))
            CCL_TRY(text_blocks(r, &r->ways[i], out, err));
    }
    text_notes(r, out);
    if (r->output)
        ccl_text_printf(out, "\n%s: proven at %s level, %u thread blocks, %u primitives\n",
                        r->output, ccl_i_granularity_name(r->ways[0].way.granularity),
                        r->ways[0].ntbs, r->ways[0].nsteps);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- JSON */

static void json_block(const ccl_lowered_t *way, const block_t *block, void *user) {
    const ccl_tb_use_t *u = block->use;
    ccl_i_json_t *json = user;

    (void)way;
    ccl_i_json_object(json, NULL, true);
    ccl_i_json_u64(json, "rank", block->tb->rank);
    ccl_i_json_u64(json, "id", block->tb->id);
    ccl_i_json_index(json, "stage", block->stage);
    ccl_i_json_u64(json, "steps", block->nsteps);
    ccl_i_json_number(json, "start_s", u->start_s);
    ccl_i_json_number(json, "done_s", u->done_s);
    ccl_i_json_number(json, "busy_s", u->busy_s);
    ccl_i_json_number(json, "wait_data_s", u->wait_data_s);
    ccl_i_json_number(json, "wait_peer_s", u->wait_peer_s);
    ccl_i_json_number(json, "wait_slot_s", u->wait_slot_s);
    ccl_i_json_number(json, "idle_share", ccl_sim_idle_share(u));
    ccl_i_json_array(json, "connections", true);
    for (uint32_t i = 0; i < block->nconnections; i++) {
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_index(json, "send", block->connections[i].send_peer);
        ccl_i_json_index(json, "recv", block->connections[i].recv_peer);
        ccl_i_json_u64(json, "channel", block->connections[i].channel);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_close_object(json);
}

static ccl_status_t json_way(ccl_i_json_t *json, const ccl_report_lowering_t *r,
                             const ccl_lowered_t *way, ccl_error_t *err) {
    bool ok = way->status == CCL_OK;
    ccl_status_t status = CCL_OK;

    ccl_i_json_object(json, NULL, false);
    ccl_i_json_way(json, &way->way, true);
    ccl_i_json_string(json, "status", ccl_i_status_word(way->status));
    ccl_i_json_string(json, "why", ok ? NULL : way->why);
    ccl_i_json_number(json, "time_s", ok ? way->time_s : NAN);
    ccl_i_json_number(json, "bound_s", r->bound_s > 0 ? r->bound_s : NAN);
    ccl_i_json_number(json, "gap", ok ? ccl_i_gap(way->time_s, r->bound_s) : NAN);
    ccl_i_json_number(json, "algbw_GBps", ok ? way->algbw_GBps : NAN);
    ccl_i_json_number(json, "busbw_GBps", ok ? way->busbw_GBps : NAN);
    ccl_i_json_number(json, "speedup", speedup(r, way));
    ccl_i_json_number(json, "batches", ok ? way->batches : NAN);
    ccl_i_json_usage(json, &way->usage, ok);
    ccl_i_json_number(json, "thread_blocks", way->ntbs ? way->ntbs : NAN);
    ccl_i_json_number(json, "primitives", way->ntbs ? way->nsteps : NAN);
    ccl_i_json_u64(json, "pipelines", way->stats.pipelines);
    ccl_i_json_number(json, "analyse_s", way->stats.analyse_s);
    ccl_i_json_number(json, "order_s", way->stats.order_s);
    ccl_i_json_number(json, "lower_s", way->stats.lower_s);
    if (r->blocks) {
        ccl_i_json_array(json, "blocks", false);
        status = each_block(r, way, json_block, json, err);
        ccl_i_json_close_array(json);
    }
    ccl_i_json_close_object(json);
    return status;
}

static const char *executor_name(ccl_executor_t executor) {
    static const char *const names[] = {"any", "msccl", "rccl", "msccl-old"};

    return (size_t)executor < CCL_ARRAY_LEN(names) ? names[executor] : "?";
}

static ccl_status_t lowering_json(const ccl_report_lowering_t *r, ccl_text_t *out,
                                  ccl_error_t *err) {
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/lower/1");
    ccl_i_json_string(&json, "input", r->input);
    ccl_i_json_string(&json, "output", r->output);
    ccl_i_json_string(&json, "topology", r->topo->name);
    ccl_i_json_string(&json, "collective", r->schedule->coll->name);
    ccl_i_json_u64(&json, "nranks", r->topo->nranks);
    ccl_i_json_u64(&json, "transfers", r->schedule->ntransfers);
    ccl_i_json_u64(&json, "steps", r->schedule->nsteps);
    ccl_i_json_number(&json, "size_bytes", r->options->size_bytes);
    ccl_i_json_string(&json, "sharing", ccl_i_sharing_name(r->options->sharing));
    ccl_i_json_string(&json, "proto", r->lower->proto);
    ccl_i_json_string(&json, "executor", executor_name(r->lower->executor));
    ccl_i_json_string(&json, "stages", r->lower->stages == CCL_STAGES_PHASE ? "phase" : "auto");
    ccl_i_json_number(&json, "parse_s", r->parse_s);
    ccl_i_json_array(&json, "ways", false);
    for (uint32_t i = 0; i < r->nways; i++)
        CCL_TRY(json_way(&json, r, &r->ways[i], err));
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- CSV */

static void csv_names(const ccl_lowered_t *way, ccl_table_t *table) {
    ccl_table_row(table);
    ccl_table_cell(table, "%s", ccl_i_order_name(way->way.order));
    ccl_table_cell(table, "%s", ccl_i_allocation_name(way->way.allocation));
    ccl_table_cell(table, "%s", ccl_i_granularity_name(way->way.granularity));
}

static void csv_ways(const ccl_report_lowering_t *r, ccl_table_t *table) {
    static const char *const headers[] = {
        "order",      "allocation",      "granularity",    "topology",
        "collective", "size_bytes",      "status",         "thread_blocks_per_gpu",
        "time_s",     "algbw_GBps",      "busbw_GBps",     "speedup",
        "comm_share", "mean_idle_share", "max_idle_share", "link_utilization",
        "batches",    "pipelines",       "parse_s",        "analyse_s",
        "order_s",    "lower_s",         "bound_s",        "gap"};
    char text[40];

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < r->nways; i++) {
        const ccl_lowered_t *w = &r->ways[i];
        const double run[] = {w->usage.thread_blocks,
                              w->time_s,
                              w->algbw_GBps,
                              w->busbw_GBps,
                              speedup(r, w),
                              w->usage.comm_share,
                              w->usage.mean_idle_share,
                              w->usage.max_idle_share,
                              w->usage.link_utilization,
                              w->batches};
        const double rest[] = {w->stats.pipelines, r->parse_s, w->stats.analyse_s, w->stats.order_s,
                               w->stats.lower_s};

        csv_names(w, table);
        ccl_table_cell(table, "%s", r->topo->name);
        ccl_table_cell(table, "%s", r->schedule->coll->name);
        ccl_table_cell(table, "%s", ccl_i_number(r->options->size_bytes, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_status_word(w->status));
        for (size_t k = 0; k < CCL_ARRAY_LEN(run); k++)
            ccl_table_cell(table, "%s",
                           w->status == CCL_OK ? ccl_i_number(run[k], text, sizeof(text)) : "");
        for (size_t k = 0; k < CCL_ARRAY_LEN(rest); k++)
            ccl_table_cell(table, "%s", ccl_i_number(rest[k], text, sizeof(text)));
        ccl_table_cell(table, "%s",
                       r->bound_s > 0 ? ccl_i_number(r->bound_s, text, sizeof(text)) : "");
        ccl_table_cell(table, "%s",
                       w->status == CCL_OK
                           ? ccl_i_number(ccl_i_gap(w->time_s, r->bound_s), text, sizeof(text))
                           : "");
    }
}

static void csv_block(const ccl_lowered_t *way, const block_t *block, void *user) {
    const ccl_tb_use_t *u = block->use;
    const double numbers[] = {u->start_s,           u->done_s,      u->busy_s,
                              u->wait_data_s,       u->wait_peer_s, u->wait_slot_s,
                              ccl_sim_idle_share(u)};
    ccl_table_t *table = user;
    ccl_text_t connections = {0};
    char text[40];

    csv_names(way, table);
    ccl_table_cell(table, "%u", block->tb->rank);
    ccl_table_cell(table, "%u", block->tb->id);
    ccl_table_cell(table, "%s", ccl_i_index(block->stage, text, sizeof(text)));
    connections_text(block, CCL_NONE, &connections);
    ccl_table_cell(table, "%s", connections.data ? connections.data : "");
    ccl_text_fini(&connections);
    ccl_table_cell(table, "%u", block->nsteps);
    for (size_t k = 0; k < CCL_ARRAY_LEN(numbers); k++)
        ccl_table_cell(table, "%s", ccl_i_number(numbers[k], text, sizeof(text)));
}

static ccl_status_t csv_blocks(const ccl_report_lowering_t *r, ccl_table_t *table,
                               ccl_error_t *err) {
    static const char *const headers[] = {
        "order",  "allocation",  "granularity", "rank",        "id",
        "stage",  "connections", "steps",       "start_s",     "done_s",
        "busy_s", "wait_data_s", "wait_peer_s", "wait_slot_s", "idle_share"};

    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < r->nways; i++)
        CCL_TRY(each_block(r, &r->ways[i], csv_block, table, err));
    return CCL_OK;
}

ccl_status_t ccl_report_lowering(const ccl_report_lowering_t *lowering,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    ccl_table_t *table;
    ccl_status_t status = CCL_OK;
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_lowering_tables, style->table, &which, err));
    if (!style->table && lowering->blocks)
        which = 1;
    if (style->format == CCL_REPORT_JSON)
        return lowering_json(lowering, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return lowering_text(lowering, out, err);
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    if (which == 0)
        csv_ways(lowering, table);
    else
        status = csv_blocks(lowering, table, err);
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}
