/* Why a run takes its time: the critical path, the links of the bound, idle blocks, what helps. */
#include "report/runs/explain.h"

#include <stdlib.h>
#include <string.h>

typedef ccl_report_explanation_t about_t;

enum { SHOWN_CHANGES = 3 };

/* Faster by less than this is not worth a word. */
#define HELPS 1e-3

static bool helps(const about_t *a, const ccl_counterfactual_t *c) {
    return c->status == CCL_OK && ccl_i_explain_change(a, c) < -HELPS;
}

/** Time of a block's life that it waited; before its launch and after its end it does not live. */
static double waited_s(const ccl_tb_use_t *use) {
    return use->wait_data_s + use->wait_peer_s + use->wait_slot_s;
}

/* ---------------------------------------------------------------- text */

/** Blocks that wait, idlest first; neighbours that look alike in one row. */
typedef struct idle {
    const about_t *about;
    ccl_i_keyed_t *order;
    ccl_i_row_group_t *groups;
    uint32_t ngroups;
} idle_t;

typedef struct idle_row {
    uint32_t rank, id, alike, channel, send, recv;
    double busy, data, peer, slot, over, path; /* shares of the run */
} idle_row_t;

static idle_row_t idle_row(const about_t *a, uint32_t tb) {
    const ccl_tb_t *block = &a->program->tbs[tb];
    const ccl_sim_result_t *r = a->explanation->result;
    const ccl_tb_use_t *u = &r->tbs[tb];

    return (idle_row_t){.rank = block->rank,
                        .id = block->id,
                        .channel = block->channel,
                        .send = ccl_i_peer_rank(block->send_peer),
                        .recv = ccl_i_peer_rank(block->recv_peer),
                        .busy = ccl_i_explain_share(a, u->busy_s),
                        .data = ccl_i_explain_share(a, u->wait_data_s),
                        .peer = ccl_i_explain_share(a, u->wait_peer_s),
                        .slot = ccl_i_explain_share(a, u->wait_slot_s),
                        .over = ccl_i_explain_share(a, r->time_s - u->done_s)};
}

static void idle_key(const void *about, uint32_t tb, char *out, size_t out_len) {
    idle_row_t row = idle_row(about, tb);

    snprintf(out, out_len, "%.1f %.1f %.1f %.1f %.1f", 100 * row.busy, 100 * row.data,
             100 * row.peer, 100 * row.slot, 100 * row.over);
}

static uint64_t count_idle(const void *idle) {
    return ((const idle_t *)idle)->ngroups;
}

static const void *idle_at(const void *idle, uint64_t i, void *scratch) {
    const idle_t *l = idle;
    const ccl_i_keyed_t *of = &l->order[l->groups[i].first];
    idle_row_t *out = scratch;
    double path_s = 0;

    *out = idle_row(l->about, of->index);
    out->alike = l->groups[i].n;
    for (uint32_t k = 0; k < out->alike; k++)
        path_s += l->about->explanation->sum.tb_s[of[k].index];
    out->path = ccl_i_explain_share(l->about, path_s);
    return out;
}

#define AT(member) CCL_I_AT(idle_row_t, member)
static const ccl_i_described_t idle_record = {
    .size = sizeof(idle_row_t),
    .fields = (const ccl_i_field_t[]){{"rank", AT(rank)},
                                      {"id", AT(id)},
                                      {"alike", AT(alike)},
                                      {"channel", AT(channel)},
                                      {"send", AT(send), .null = "none"},
                                      {"recv", AT(recv), .null = "none"},
                                      {"busy", AT(busy)},
                                      {"data", AT(data)},
                                      {"peer", AT(peer)},
                                      {"slot", AT(slot)},
                                      {"over", AT(over)},
                                      {"path", AT(path)},
                                      {0}}};
#undef AT
static const ccl_i_described_t idle_list = {
    .fields =
        (const ccl_i_field_t[]){{"idle", CCL_I_LIST_OF(idle_record, count_idle, idle_at)}, {0}}};
static const ccl_i_column_t idle_columns[] = {
    CCL_I_COLUMN("rank"),
    CCL_I_COLUMN("id", "block"),
    CCL_I_COLUMN("alike"),
    CCL_I_COLUMN("channel"),
    CCL_I_COLUMN("send", "send to"),
    CCL_I_COLUMN("recv", "recv from"),
    CCL_I_COLUMN("busy", "busy(%)", ccl_i_show_percent),
    CCL_I_COLUMN("data", "waits: data(%)", ccl_i_show_percent),
    CCL_I_COLUMN("peer", "peer(%)", ccl_i_show_percent),
    CCL_I_COLUMN("slot", "slot(%)", ccl_i_show_percent),
    CCL_I_COLUMN("over", "over(%)", ccl_i_show_percent),
    CCL_I_COLUMN("path", "on the path(%)", ccl_i_show_percent),
    CCL_I_COLUMNS_END};

/** One table under a title. */
static ccl_status_t emit(ccl_i_explain_t *root, const char *title, size_t which, ccl_text_t *out,
                         ccl_error_t *err) {
    ccl_text_printf(out, "\n%s\n", title);
    return ccl_i_explain_table(root, which, CCL_REPORT_TEXT, out, err);
}

static ccl_status_t emit_idle(const about_t *a, uint32_t rows, ccl_text_t *out, ccl_error_t *err) {
    const ccl_sim_result_t *r = a->explanation->result;
    uint32_t most = rows < r->ntbs ? rows : r->ntbs;
    idle_t idle = {.about = a};
    ccl_status_t status = CCL_ERR_NOMEM;

    idle.order = malloc((r->ntbs + (size_t)1) * sizeof(*idle.order));
    idle.groups = malloc((most + (size_t)1) * sizeof(*idle.groups));
    if (idle.order && idle.groups) {
        for (uint32_t i = 0; i < r->ntbs; i++)
            idle.order[i] = (ccl_i_keyed_t){waited_s(&r->tbs[i]) + r->time_s - r->tbs[i].done_s, i};
        qsort(idle.order, r->ntbs, sizeof(*idle.order), ccl_i_by_key);
        idle.ngroups = ccl_i_groups(idle.order, r->ntbs, idle_key, a, idle.groups, most);
        ccl_text_printf(out, "\nIdlest thread blocks (over: of the run, after their end)\n");
        status =
            ccl_i_rows_emit(&idle_list, "idle", &idle, idle_columns, CCL_REPORT_TEXT, out, err);
    } else {
        ccl_fail_nomem(err);
    }
    free(idle.order);
    free(idle.groups);
    return status;
}

/** One of its family, or of its time, stands above already. */
static bool repeats(const about_t *a, uint32_t index, bool here) {
    const ccl_counterfactual_t *tried = a->explanation->tried, *c = &tried[index];

    for (uint32_t i = 0; i < index; i++) {
        if (here && tried[i].remedy == CCL_REMEDY_HARDWARE)
            continue;
        if (tried[i].time_s == c->time_s ||
            (c->family && tried[i].family && strcmp(c->family, tried[i].family) == 0))
            return true;
    }
    return false;
}

static void one_change(const about_t *a, const ccl_counterfactual_t *c, uint32_t number,
                       ccl_text_t *out) {
    char time[40];

    ccl_text_printf(out, "  %u. %s: %+.1f%% (%s us; %s: ", number, c->what,
                    100 * ccl_i_explain_change(a, c), ccl_i_us(c->time_s, time, sizeof(time)),
                    ccl_remedy_name(c->remedy));
    ccl_i_explain_edits(c, out);
    ccl_text_printf(out, "%s)\n", c->nedits || c->options ? "" : "another file");
}

/** The best of all, then the best of those that need no hardware where they are others. */
static void text_changes(const about_t *a, ccl_text_t *out) {
    const ccl_explanation_t *e = a->explanation;
    uint32_t all = 0, here = 0, failed = 0;
    bool same = true;

    for (uint32_t i = 0; i < e->ntried; i++)
        failed += e->tried[i].status != CCL_OK;
    if (!e->ntried)
        return;
    ccl_text_printf(out, "\nWhat would help most, of %u changes tried\n", e->ntried);
    for (uint32_t i = 0; i < e->ntried && all < SHOWN_CHANGES; i++) {
        if (!helps(a, &e->tried[i]) || repeats(a, i, false))
            continue;
        same = same && e->tried[i].remedy != CCL_REMEDY_HARDWARE;
        one_change(a, &e->tried[i], ++all, out);
    }
    if (!all)
        ccl_text_printf(out, "  none of them\n");
    if (all && !same) {
        ccl_text_printf(out, "And without other hardware\n");
        for (uint32_t i = 0; i < e->ntried && here < SHOWN_CHANGES; i++)
            if (helps(a, &e->tried[i]) && e->tried[i].remedy != CCL_REMEDY_HARDWARE &&
                !repeats(a, i, true))
                one_change(a, &e->tried[i], ++here, out);
        if (!here)
            ccl_text_printf(out, "  none of them\n");
    }
    if (e->untried)
        ccl_text_printf(out,
                        "(%u that lower the schedule anew were left out: the program is large)\n",
                        e->untried);
    if (failed)
        ccl_text_printf(out, "(%u could not run: --csv --table changes says why)\n", failed);
}

static ccl_status_t cut_text(ccl_i_explain_t *root, ccl_text_t *out, ccl_error_t *err) {
    const about_t *a = root->of;
    const ccl_explanation_t *e = a->explanation;
    const ccl_cut_use_t *cut = &e->cut;
    const struct {
        const char *what;
        double share;
    } blocks[] = {{"working", cut->working},
                  {"waiting for data", cut->waits_data},
                  {"waiting for other blocks", cut->waits_peer},
                  {"waiting for slots", cut->waits_slot},
                  {"finished", cut->after},
                  {"not launched", cut->before}};
    char t[2][40];
    bool some = false;

    if (!cut->nlinks)
        return CCL_OK;
    ccl_text_printf(out, "\nThe links that the bound needs (%s): %u, %s GB/s together\n",
                    ccl_bound_proof_name(e->bound.bandwidth.proof), cut->nlinks,
                    ccl_i_GBps(cut->capacity_Bps, t[0], sizeof(t[0])));
    ccl_text_printf(out, "  carried %s MB",
                    ccl_i_digits(cut->carried_bytes / 1e6, 4, t[0], sizeof(t[0])));
    if (cut->least_bytes > 0)
        ccl_text_printf(out, ", %.4g of what is needed at least",
                        cut->carried_bytes / cut->least_bytes);
    ccl_text_printf(out, "; busy %s%% of the time\n", ccl_i_percent(cut->busy, t[0], sizeof(t[0])));
    ccl_text_printf(out,
                    "  for %s%% of the time the critical path passes bytes over them, or over "
                    "links of cuts alike\n",
                    ccl_i_percent(ccl_i_explain_share(a, cut->path_s), t[0], sizeof(t[0])));
    ccl_text_printf(out, "  the %u thread blocks that send over them:", cut->blocks);
    for (size_t i = 0; i < CCL_ARRAY_LEN(blocks); i++) {
        if (!(blocks[i].share > 5e-4))
            continue;
        ccl_text_printf(out, "%s %s %s%%", some ? "," : "", blocks[i].what,
                        ccl_i_percent(blocks[i].share, t[0], sizeof(t[0])));
        some = true;
    }
    return emit(root, "How busy they were", CCL_I_EXPLAIN_CUT, out, err);
}

static void text_blocks(const about_t *a, ccl_text_t *out) {
    const ccl_sim_result_t *r = a->explanation->result;
    uint32_t off = 0;
    double lost[4] = {0};
    char t[5][40];

    for (uint32_t i = 0; i < r->ntbs; i++) {
        const ccl_tb_use_t *u = &r->tbs[i];

        off += !(a->explanation->sum.tb_s[i] > 0);
        lost[0] += u->wait_data_s;
        lost[1] += u->wait_peer_s;
        lost[2] += u->wait_slot_s;
        lost[3] += r->time_s - u->done_s;
    }
    for (size_t k = 0; k < CCL_ARRAY_LEN(lost); k++)
        ccl_i_percent(r->ntbs ? ccl_i_explain_share(a, lost[k]) / r->ntbs : 0, t[k], sizeof(t[k]));
    ccl_text_printf(out,
                    "\n%u thread blocks; on average they wait for data %s%% of the run, for other "
                    "blocks %s%%,\nfor slots %s%%, and are over for the last %s%%. %u are never on "
                    "the critical path.\n",
                    r->ntbs, t[0], t[1], t[2], t[3], off);
}

static ccl_status_t explain_text(ccl_i_explain_t *root, uint32_t rows, ccl_text_t *out,
                                 ccl_error_t *err) {
    const about_t *a = root->of;
    const ccl_explanation_t *e = a->explanation;
    const ccl_sim_result_t *r = e->result;
    char t[2][64], with[300];

    ccl_text_printf(
        out, "%s: %s of %s on %s (%u GPUs), %u micro-batch%s, %s level, %s\n  with   %s\n",
        root->input, a->program->coll->name, ccl_format_bytes(r->size_bytes, t[0], sizeof(t[0])),
        a->topo->name, a->topo->nranks, r->batches, r->batches == 1 ? "" : "es",
        ccl_i_granularity_name(a->options->granularity), a->program->proto,
        ccl_i_constants_text(a->topo, with, sizeof(with)));
    if (root->origin)
        ccl_text_printf(out, "  origin %s\n", root->origin);
    ccl_text_printf(out, "  time   %s us\n", ccl_i_us(r->time_s, t[0], sizeof(t[0])));
    ccl_text_printf(out, "  bound  %s us (%s); the time is %s of it\n",
                    ccl_i_us(e->bound.time_s, t[0], sizeof(t[0])), ccl_bound_by_name(e->bound.by),
                    ccl_i_gap_text(r->time_s, e->bound.time_s, t[1], sizeof(t[1])));
    if (e->nccl.name)
        ccl_text_printf(out, "  %s   %s us (%s); this is %s of its speed\n", e->nccl.name,
                        ccl_i_us(e->nccl.time_s, t[0], sizeof(t[0])), e->nccl.choice,
                        ccl_i_speedup_text(root->nccl.speedup, t[1], sizeof(t[1])));
    ccl_i_explain_slow_verdict(a, out);
    if (e->nslow)
        CCL_TRY(emit(root,
                     "Parts slower than others of their kind, and the run if they were as fast",
                     CCL_I_EXPLAIN_SLOW, out, err));
    text_changes(a, out);
    CCL_TRY(emit(root, "Critical path: where the time goes", CCL_I_EXPLAIN_CAUSES, out, err));
    CCL_TRY(emit(root, "The same time by why the run could not go on without it",
                 CCL_I_EXPLAIN_WAITS, out, err));
    if (rows)
        CCL_TRY(emit(root, "Links on the critical path", CCL_I_EXPLAIN_LINKS, out, err));
    CCL_TRY(cut_text(root, out, err));
    text_blocks(a, out);
    CCL_TRY(emit_idle(a, rows, out, err));
    if (a->path)
        CCL_TRY(emit(root, "The critical path", CCL_I_EXPLAIN_PATH, out, err));
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_explanation(const ccl_report_explanation_t *a,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    uint32_t rows = style->rows ? style->rows : 8;
    ccl_status_t status;
    size_t which = 0;
    ccl_i_explain_t root;

    CCL_TRY(ccl_i_table_choice(ccl_report_explanation_tables, style->table, &which, err));
    CCL_TRY(ccl_i_explain_init(a, rows, &root, err));
    if (style->format == CCL_REPORT_JSON)
        status = ccl_i_result_json(&ccl_i_result_explain, &root, out, err);
    else if (style->format == CCL_REPORT_TEXT)
        status = explain_text(&root, rows, out, err);
    else
        status = ccl_i_explain_table(&root, which, CCL_REPORT_CSV, out, err);
    if (status == CCL_OK && root.room.nomem)
        status = ccl_fail_nomem(err);
    ccl_i_explain_fini(&root);
    return status;
}
