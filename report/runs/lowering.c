/* One schedule, lowered several ways: what each costs, and where its thread blocks' time goes. */
#include "report/rows.h"

#include <math.h>
#include <stdlib.h>

const char *const ccl_report_lowering_tables[] = {"ways", "blocks", NULL};

/* Connections of one block that a line of text names. */
enum { TEXT_CONNECTIONS = 6 };

/* ---------------------------------------------------------------- which blocks */

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

/* ---------------------------------------------------------------- rows */

/** Room that the blocks of a result share, one after the other. */
typedef struct room {
    ccl_peers_t *connections; /* distinct, in the order of first use: peer, direction, channel */
    uint32_t nconnections;
    size_t cap;
    ccl_text_t text;
    uint32_t way, rank; /* the rank of this way whose blocks are shown */
    bool nomem;
} room_t;

typedef struct root {
    const ccl_report_lowering_t *of;
    room_t *room;
    uint32_t most; /* connections that a text names */
    const char *input, *output, *topology, *profile, *collective, *sharing, *proto, *executor,
        *stages;
    uint32_t nranks, transfers, steps;
    double size_bytes, parse_s;
} root_t;

typedef struct way_row {
    const root_t *root;
    const ccl_lowered_t *of;
    uint32_t index;
    ccl_i_way_row_t way;
    ccl_i_usage_row_t usage;
    const char *topology, *collective, *status, *why, *origin;
    bool blocks;
    double time_s, bound_s, gap, algbw_GBps, busbw_GBps, speedup, batches, thread_blocks,
        primitives, most_blocks, size_bytes, parse_s, analyse_s, order_s, lower_s, all_s;
    uint32_t pipelines, some_pipelines;
    char time_text[40];
} way_row_t;

/** One thread block, or at stage level one stage of it. */
typedef struct block_row {
    const root_t *root;
    ccl_i_way_row_t way;
    ccl_i_block_row_t block;
    uint32_t stage, steps;
    double idle_share;
    const char *connections;
} block_row_t;

static void add_connection(room_t *room, ccl_peers_t c) {
    for (uint32_t i = 0; i < room->nconnections; i++) {
        const ccl_peers_t *have = &room->connections[i];

        if (have->send_peer == c.send_peer && have->recv_peer == c.recv_peer &&
            have->channel == c.channel)
            return;
    }
    if (ccl_grow(&room->connections, &room->cap, room->nconnections + (size_t)1,
                 sizeof(*room->connections)))
        room->connections[room->nconnections++] = c;
    else
        room->nomem = true;
}

/** Steps of a block of a kept result, and the connections that they use. */
static uint32_t steps_of(const ccl_program_t *p, const ccl_tb_t *tb, uint32_t stage, room_t *room) {
    uint32_t n = 0;

    room->nconnections = 0;
    for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
        ccl_primitive_t type = (ccl_primitive_t)p->steps[s].type;
        ccl_peers_t peers = ccl_program_peers(p, tb, s);

        if (stage != CCL_NONE && p->steps[s].stage != stage)
            continue;
        n++;
        if (ccl_primitive_receives(type))
            add_connection(room, (ccl_peers_t){CCL_NONE, peers.recv_peer, peers.channel});
        if (ccl_primitive_sends(type))
            add_connection(room, (ccl_peers_t){peers.send_peer, CCL_NONE, peers.channel});
    }
    return n;
}

static const char *connection_words(uint32_t peer, bool sends) {
    if (ccl_peer_is_group(peer))
        return sends ? "multicast to" : "pulls from";
    if (ccl_peer_is_member(peer))
        return sends ? "offers to" : "multicast of";
    return sends ? "to" : "from";
}

/** "from 3, to 5, to 6 (channel 1), multicast to 0-7". */
static const char *connections_text(const ccl_program_t *p, room_t *room, uint32_t most) {
    ccl_text_t *out = &room->text;

    out->len = 0;
    ccl_text_printf(out, room->nconnections ? "" : "-");
    for (uint32_t i = 0; i < room->nconnections; i++) {
        const ccl_peers_t *c = &room->connections[i];

        if (i >= most) {
            ccl_text_printf(out, ", %u more", room->nconnections - i);
            break;
        }
        bool sends = c->send_peer != CCL_NONE;
        uint32_t peer = sends ? c->send_peer : c->recv_peer;
        char ranks[64];
        ccl_peer_text(p, peer, ranks, sizeof(ranks));
        ccl_text_printf(out, "%s%s %s", i ? ", " : "", connection_words(peer, sends), ranks);
        if (c->channel)
            ccl_text_printf(out, " (channel %u)", c->channel);
    }
    room->nomem = room->nomem || out->nomem;
    return out->data;
}

/** Block i of a way; NULL: its rank is not shown. */
static const void *block_of(const root_t *root, uint32_t way, uint32_t i, block_row_t *out) {
    const ccl_lowered_t *w = &root->of->ways[way];
    const ccl_stage_use_t *stage = w->result->stages ? &w->result->stages[i] : NULL;
    const ccl_tb_t *tb = &w->program->tbs[stage ? stage->tb : i];
    const ccl_tb_use_t *use = stage ? &stage->use : &w->result->tbs[i];
    room_t *room = root->room;

    if (room->way != way) {
        room->way = way;
        room->rank = shown_rank(root->of, w);
    }
    if (room->nomem || (room->rank != CCL_NONE && tb->rank != room->rank))
        return NULL;
    *out = (block_row_t){.root = root,
                         .way = ccl_i_way_row(&w->way, true),
                         .block = ccl_i_block_row(tb, use),
                         .stage = stage ? stage->stage : CCL_NONE,
                         .idle_share = ccl_sim_idle_share(use)};
    out->steps = steps_of(w->program, tb, out->stage, room);
    if (root->most)
        out->connections = connections_text(w->program, room, root->most);
    return room->nomem ? NULL : out;
}

static uint64_t count_connections(const void *row) {
    return ((const block_row_t *)row)->root->room->nconnections;
}

static const void *connection_at(const void *row, uint64_t i, void *scratch) {
    ccl_peers_t *out = scratch;

    *out = ((const block_row_t *)row)->root->room->connections[i];
    out->send_peer = ccl_i_peer_rank(out->send_peer);
    out->recv_peer = ccl_i_peer_rank(out->recv_peer);
    return out;
}

static uint64_t count_way_blocks(const void *row) {
    return count_blocks(((const way_row_t *)row)->of);
}

static const void *way_block_at(const void *row, uint64_t i, void *scratch) {
    const way_row_t *way = row;

    return block_of(way->root, way->index, (uint32_t)i, scratch);
}

/** The blocks of all ways. */
static uint64_t count_all_blocks(const void *row) {
    const ccl_report_lowering_t *r = ((const root_t *)row)->of;
    uint64_t n = 0;

    for (uint32_t w = 0; w < r->nways; w++)
        n += count_blocks(&r->ways[w]);
    return n;
}

static const void *any_block_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    uint32_t w = 0;

    for (; i >= count_blocks(&root->of->ways[w]); w++)
        i -= count_blocks(&root->of->ways[w]);
    return block_of(root, w, (uint32_t)i, scratch);
}

/* ---------------------------------------------------------------- ways */

static double speedup(const ccl_report_lowering_t *r, const ccl_lowered_t *way) {
    const ccl_lowered_t *first = &r->ways[0];

    return first->status == CCL_OK && way->status == CCL_OK ? first->time_s / way->time_s : NAN;
}

static uint64_t count_ways(const void *root) {
    return ((const root_t *)root)->of->nways;
}

static const void *way_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    const ccl_report_lowering_t *r = root->of;
    const ccl_lowered_t *way = &r->ways[i];
    const ccl_lower_stats_t *s = &way->stats;
    bool ok = way->status == CCL_OK;
    way_row_t *out = scratch;

    *out = (way_row_t){.root = root,
                       .of = way,
                       .index = (uint32_t)i,
                       .way = ccl_i_way_row(&way->way, true),
                       .usage = ccl_i_usage_row(&way->usage, ok),
                       .topology = root->topology,
                       .collective = root->collective,
                       .status = ccl_i_status_word(way->status),
                       .why = ok ? NULL : way->why,
                       .origin = way->origin[0] ? way->origin : NULL,
                       .blocks = r->blocks,
                       .time_s = ok ? way->time_s : NAN,
                       .bound_s = r->bound_s > 0 ? r->bound_s : NAN,
                       .gap = ok ? ccl_i_gap(way->time_s, r->bound_s) : NAN,
                       .algbw_GBps = ok ? way->algbw_GBps : NAN,
                       .busbw_GBps = ok ? way->busbw_GBps : NAN,
                       .speedup = speedup(r, way),
                       .batches = ok ? way->batches : NAN,
                       .thread_blocks = way->ntbs ? way->ntbs : NAN,
                       .primitives = way->ntbs ? way->nsteps : NAN,
                       .most_blocks = way->ntbs ? way->usage.thread_blocks : NAN,
                       .size_bytes = root->size_bytes,
                       .parse_s = r->parse_s,
                       .analyse_s = s->analyse_s,
                       .order_s = s->order_s,
                       .lower_s = s->lower_s,
                       .all_s = r->parse_s + s->analyse_s + s->order_s + s->lower_s,
                       .pipelines = s->pipelines,
                       .some_pipelines = s->pipelines ? s->pipelines : CCL_NONE};
    if (ok)
        ccl_i_us(way->time_s, out->time_text, sizeof(out->time_text));
    else
        snprintf(out->time_text, sizeof(out->time_text), "%s", out->status);
    return out;
}

/* ---------------------------------------------------------------- what they hold */

#define OWN "a program's own"
static const ccl_i_described_t connection_record = {
    .size = sizeof(ccl_peers_t),
    .fields = (const ccl_i_field_t[]){
        {"send", CCL_I_AT(ccl_peers_t, send_peer), "rank", .null = "it receives"},
        {"recv", CCL_I_AT(ccl_peers_t, recv_peer), "rank", .null = "it sends"},
        {"channel", CCL_I_AT(ccl_peers_t, channel)},
        {0}}};
#define AT(member) CCL_I_AT(block_row_t, member)
static const ccl_i_described_t block_record = {
    .size = sizeof(block_row_t),
    .fields = (const ccl_i_field_t[]){
        {"rank", AT(block.rank)},
        {"id", AT(block.id), "on its rank"},
        {"stage", AT(stage), "of the block", .null = "all of it"},
        {"steps", AT(steps)},
        CCL_I_BLOCK_TIMES(block_row_t, block.),
        {"idle_share", AT(idle_share), "of its life"},
        {"connections", CCL_I_LIST_OF(connection_record, count_connections, connection_at),
         .line = true},
        {"order", AT(way.order), .hidden = true},
        {"allocation", AT(way.allocation), .hidden = true},
        {"granularity", AT(way.granularity), .hidden = true},
        {"peers", AT(connections), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(way_row_t, member)
#define NO_TIME "it has no time"
static const ccl_i_described_t way_record = {
    .size = sizeof(way_row_t),
    .fields =
        (const ccl_i_field_t[]){
            CCL_I_WAY_FIELDS(way_row_t, way, OWN),
            {"status", AT(status), .words = ccl_i_status_words},
            {"why", AT(why), "it has no time", .null = "it has one"},
            {"origin", AT(origin), "who made the schedule, how, and what lowering chose",
             .null = "not lowered, or nobody said"},
            {"time_s", AT(time_s), .null = NO_TIME},
            {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none"},
            {"gap", AT(gap), "time_s / bound_s", .null = NO_TIME},
            {"algbw_GBps", AT(algbw_GBps), "size / time", .null = NO_TIME},
            {"busbw_GBps", AT(busbw_GBps), "as nccl-tests has it", .null = NO_TIME},
            {"speedup", AT(speedup), "time of the first way / time", .null = NO_TIME},
            {"batches", AT(batches), "micro-batches", .null = NO_TIME, .whole = true},
            CCL_I_USAGE_FIELDS(way_row_t, usage),
            {"thread_blocks", AT(thread_blocks), "of all GPUs", .null = "not lowered",
             .whole = true},
            {"primitives", AT(primitives), .null = "not lowered", .whole = true},
            {"pipelines", AT(pipelines), "sub-pipelines of hpds"},
            {"analyse_s", AT(analyse_s), "wall time"},
            {"order_s", AT(order_s), "wall time"},
            {"lower_s", AT(lower_s), "wall time"},
            {"blocks", CCL_I_LIST_OF(block_record, count_way_blocks, way_block_at), "with --blocks",
             .when = CCL_I_WHEN(way_row_t, blocks)},
            {"topology", AT(topology), .hidden = true},
            {"collective", AT(collective), .hidden = true},
            {"size_bytes", AT(size_bytes), .hidden = true},
            {"parse_s", AT(parse_s), .hidden = true},
            {"all_s", AT(all_s), .hidden = true},
            {"most_blocks", AT(most_blocks), .hidden = true},
            {"some_pipelines", AT(some_pipelines), .null = "none", .hidden = true},
            {"time_text", AT(time_text), .hidden = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_lower = {
    "lower", "ccllab lower", "one schedule, lowered and run in one or several ways",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file of the schedule"},
            {"output", AT(output), "file of the program", .null = "none was written"},
            {"topology", AT(topology)},
            CCL_I_PROFILE(AT(profile)),
            {"collective", AT(collective)},
            {"nranks", AT(nranks)},
            {"transfers", AT(transfers), "of the schedule"},
            {"steps", AT(steps), "of the schedule"},
            {"size_bytes", AT(size_bytes), "of the largest buffer of a GPU"},
            {"sharing", AT(sharing), "of links",
             .words = (const char *const[]){"fair", "exclusive", NULL}},
            {"proto", AT(proto), "protocol"},
            {"executor", AT(executor), "whose limits the programs keep",
             .words = (const char *const[]){"any", "msccl", "rccl", "msccl-old", NULL}},
            {"stages", AT(stages), .words = (const char *const[]){"phase", "auto", NULL}},
            {"parse_s", AT(parse_s), "wall time of reading the schedule"},
            {"ways", CCL_I_LIST_OF(way_record, count_ways, way_at)},
            {"blocks", CCL_I_LIST_OF(block_record, count_all_blocks, any_block_at), .hidden = true},
            {0}}}};
#undef AT

/* ---------------------------------------------------------------- text */

static const char *show_ms3(double seconds, char *out, size_t out_len) {
    return ccl_i_show_3(1e3 * seconds, out, out_len);
}

static const ccl_i_column_t way_columns[] = {
    CCL_I_COLUMN("order"),
    CCL_I_COLUMN("allocation"),
    CCL_I_COLUMN("granularity", "level"),
    CCL_I_COLUMN("most_blocks", "blocks", NULL, "-"),
    CCL_I_COLUMN("time_text", "time(us)", .right = true),
    CCL_I_COLUMN("gap", NULL, ccl_i_show_gap, "-"),
    CCL_I_COLUMN("algbw_GBps", "algbw(GB/s)", ccl_i_show_GBps, "-"),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps, "-"),
    CCL_I_COLUMN("speedup", "speed-up", ccl_i_show_3, "-"),
    CCL_I_COLUMN("comm_share", "moving(%)", ccl_i_show_percent, "-"),
    CCL_I_COLUMN("mean_idle_share", "idle(%)", ccl_i_show_percent, "-"),
    CCL_I_COLUMN("max_idle_share", "idlest(%)", ccl_i_show_percent, "-"),
    CCL_I_COLUMN("link_utilization", "links(%)", ccl_i_show_percent, "-"),
    CCL_I_COLUMNS_END};
/** Milliseconds of the phases of ResCCL's figure 10a. */
static const ccl_i_column_t phase_columns[] = {
    CCL_I_COLUMN("order"),
    CCL_I_COLUMN("allocation"),
    CCL_I_COLUMN("granularity", "level"),
    CCL_I_COLUMN("some_pipelines", "sub-pipelines", NULL, "-"),
    CCL_I_COLUMN("parse_s", "parse(ms)", show_ms3),
    CCL_I_COLUMN("analyse_s", "analyse(ms)", show_ms3),
    CCL_I_COLUMN("order_s", "order(ms)", show_ms3),
    CCL_I_COLUMN("lower_s", "lower(ms)", show_ms3),
    CCL_I_COLUMN("all_s", "all(ms)", show_ms3),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t block_columns[] = {
    CCL_I_COLUMN("rank"),
    CCL_I_COLUMN("id", "block"),
    CCL_I_COLUMN("stage", NULL, NULL, "-"),
    CCL_I_COLUMN("steps"),
    CCL_I_COLUMN("busy_s", "busy(us)", ccl_i_us),
    CCL_I_COLUMN("wait_data_s", "waits: data(us)", ccl_i_us),
    CCL_I_COLUMN("wait_peer_s", "peer(us)", ccl_i_us),
    CCL_I_COLUMN("wait_slot_s", "slot(us)", ccl_i_us),
    CCL_I_COLUMN("idle_share", "idle(%)", ccl_i_show_percent),
    CCL_I_COLUMN("done_s", "released(us)", ccl_i_us),
    CCL_I_COLUMN("peers", "connections"),
    CCL_I_COLUMNS_END};

static ccl_status_t text_blocks(const root_t *root, uint32_t i, ccl_text_t *out, ccl_error_t *err) {
    const ccl_report_lowering_t *r = root->of;
    const ccl_lowered_t *way = &r->ways[i];
    const way_row_t row = {.root = root, .of = way, .index = i};
    char text[40];

    ccl_text_printf(out, "\nThread blocks of %s%s: %s order, %s allocation, %s level\n",
                    r->all_ranks ? "all ranks" : "rank ",
                    r->all_ranks ? "" : ccl_i_index(shown_rank(r, way), text, sizeof(text)),
                    ccl_i_order_name(way->way.order), ccl_i_allocation_name(way->way.allocation),
                    ccl_i_granularity_name(way->way.granularity));
    return ccl_i_rows_emit(&way_record, "blocks", &row, block_columns, CCL_REPORT_TEXT, out, err);
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

        const char *what = way->status != CCL_OK ? way->why : way->origin;

        if (what[0])
            ccl_text_printf(out, "  %s %s %s: %s\n", ccl_i_order_name(way->way.order),
                            ccl_i_allocation_name(way->way.allocation),
                            ccl_i_granularity_name(way->way.granularity), what);
    }
}

static ccl_status_t lowering_text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_i_described_t *record = ccl_i_result_lower.root;
    const ccl_report_lowering_t *r = root->of;
    const ccl_schedule_t *s = r->schedule;
    char text[64], with[300];

    ccl_text_printf(out,
                    "%s: %s of %s on %s (%u GPUs), %u transfers in %u steps (simulated; %s "
                    "sharing, %s)\nwith %s\n\n",
                    r->input, s->coll->name,
                    ccl_format_bytes(r->options->size_bytes, text, sizeof(text)), r->topo->name,
                    r->topo->nranks, s->ntransfers, s->nsteps,
                    ccl_i_sharing_name(r->options->sharing), r->lower->proto,
                    ccl_i_constants_text(r->topo, with, sizeof(with)));
    CCL_TRY(ccl_i_rows_emit(record, "ways", root, way_columns, CCL_REPORT_TEXT, out, err));
    ccl_text_printf(out, "\nHow long each phase took (wall time; undisturbed with --threads 1)\n");
    CCL_TRY(ccl_i_rows_emit(record, "ways", root, phase_columns, CCL_REPORT_TEXT, out, err));
    for (uint32_t i = 0; r->blocks && i < r->nways; i++) {
        if (count_blocks(&r->ways[i]))
            CCL_TRY(text_blocks(root, i, out, err));
    }
    text_notes(r, out);
    if (r->output)
        ccl_text_printf(out, "\n%s: proven at %s level, %u thread blocks, %u primitives\n",
                        r->output, ccl_i_granularity_name(r->ways[0].way.granularity),
                        r->ways[0].ntbs, r->ways[0].nsteps);
    return ccl_i_text_status(out, err);
}

static const char *executor_name(ccl_executor_t executor) {
    static const char *const names[] = {"any", "msccl", "rccl", "msccl-old"};

    return (size_t)executor < CCL_ARRAY_LEN(names) ? names[executor] : "?";
}

/* ---------------------------------------------------------------- CSV */

static const ccl_i_column_t csv_ways[] = {
    CCL_I_COLUMN("order"),          CCL_I_COLUMN("allocation"),
    CCL_I_COLUMN("granularity"),    CCL_I_COLUMN("topology"),
    CCL_I_COLUMN("collective"),     CCL_I_COLUMN("size_bytes"),
    CCL_I_COLUMN("status"),         CCL_I_COLUMN("thread_blocks_per_gpu"),
    CCL_I_COLUMN("time_s"),         CCL_I_COLUMN("algbw_GBps"),
    CCL_I_COLUMN("busbw_GBps"),     CCL_I_COLUMN("speedup"),
    CCL_I_COLUMN("comm_share"),     CCL_I_COLUMN("mean_idle_share"),
    CCL_I_COLUMN("max_idle_share"), CCL_I_COLUMN("link_utilization"),
    CCL_I_COLUMN("batches"),        CCL_I_COLUMN("pipelines"),
    CCL_I_COLUMN("parse_s"),        CCL_I_COLUMN("analyse_s"),
    CCL_I_COLUMN("order_s"),        CCL_I_COLUMN("lower_s"),
    CCL_I_COLUMN("bound_s"),        CCL_I_COLUMN("gap"),
    CCL_I_COLUMN("origin"),         CCL_I_COLUMNS_END};
static const ccl_i_column_t csv_blocks[] = {CCL_I_COLUMN("order"),
                                            CCL_I_COLUMN("allocation"),
                                            CCL_I_COLUMN("granularity"),
                                            CCL_I_COLUMN("rank"),
                                            CCL_I_COLUMN("id"),
                                            CCL_I_COLUMN("stage"),
                                            CCL_I_COLUMN("peers", "connections"),
                                            CCL_I_COLUMN("steps"),
                                            CCL_I_COLUMN("start_s"),
                                            CCL_I_COLUMN("done_s"),
                                            CCL_I_COLUMN("busy_s"),
                                            CCL_I_COLUMN("wait_data_s"),
                                            CCL_I_COLUMN("wait_peer_s"),
                                            CCL_I_COLUMN("wait_slot_s"),
                                            CCL_I_COLUMN("idle_share"),
                                            CCL_I_COLUMNS_END};

ccl_status_t ccl_report_lowering(const ccl_report_lowering_t *lowering,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_schedule_t *s = lowering->schedule;
    room_t room = {.way = CCL_NONE};
    root_t root = {.of = lowering,
                   .room = &room,
                   .input = lowering->input,
                   .output = lowering->output,
                   .topology = lowering->topo->name,
                   .profile = ccl_i_profile_name(lowering->topo),
                   .collective = s->coll->name,
                   .sharing = ccl_i_sharing_name(lowering->options->sharing),
                   .proto = lowering->lower->proto,
                   .executor = executor_name(lowering->lower->executor),
                   .stages = lowering->lower->stages == CCL_STAGES_PHASE ? "phase" : "auto",
                   .nranks = lowering->topo->nranks,
                   .transfers = s->ntransfers,
                   .steps = s->nsteps,
                   .size_bytes = lowering->options->size_bytes,
                   .parse_s = lowering->parse_s};
    ccl_status_t status;
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_lowering_tables, style->table, &which, err));
    if (!style->table && lowering->blocks)
        which = 1;
    if (style->format == CCL_REPORT_JSON) {
        status = ccl_i_result_json(&ccl_i_result_lower, &root, out, err);
    } else if (style->format == CCL_REPORT_TEXT) {
        root.most = TEXT_CONNECTIONS;
        status = lowering_text(&root, out, err);
    } else {
        root.most = CCL_NONE;
        status = ccl_i_rows_emit(ccl_i_result_lower.root, ccl_report_lowering_tables[which], &root,
                                 which == 0 ? csv_ways : csv_blocks, CCL_REPORT_CSV, out, err);
    }
    if (status == CCL_OK && room.nomem)
        status = ccl_fail_nomem(err);
    free(room.connections);
    ccl_text_fini(&room.text);
    return status;
}
