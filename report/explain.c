/* Why a run takes its time: the critical path, the links of the bound, idle blocks, what helps. */
#include "report/explain.h"

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
static ccl_status_t idle_table(const about_t *a, uint32_t most, ccl_table_t *table,
                               ccl_error_t *err) {
    static const char *const headers[] = {"rank",    "block",     "alike",   "channel",
                                          "send to", "recv from", "busy(%)", "waits: data(%)",
                                          "peer(%)", "slot(%)",   "over(%)", "on the path(%)"};
    const ccl_sim_result_t *r = a->explanation->result;
    ccl_i_keyed_t *order = malloc((r->ntbs + 1u) * sizeof(*order));
    char cells[2][160] = {"", ""}, head[160] = "";
    uint32_t n = 0, first = 0;

    if (!order)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
    for (uint32_t i = 0; i < r->ntbs; i++)
        order[n++] = (ccl_i_keyed_t){waited_s(&r->tbs[i]) + r->time_s - r->tbs[i].done_s, i};
    qsort(order, n, sizeof(*order), ccl_i_by_key);
    for (uint32_t i = 0; i <= n && most > 0; i++) {
        cells[1][0] = '\0';
        if (i < n) {
            const ccl_tb_use_t *u = &r->tbs[order[i].index];

            snprintf(cells[1], sizeof(cells[1]), "%.1f %.1f %.1f %.1f %.1f",
                     100 * ccl_i_explain_share(a, u->busy_s),
                     100 * ccl_i_explain_share(a, u->wait_data_s),
                     100 * ccl_i_explain_share(a, u->wait_peer_s),
                     100 * ccl_i_explain_share(a, u->wait_slot_s),
                     100 * ccl_i_explain_share(a, r->time_s - u->done_s));
        }
        if (i > 0 && strcmp(cells[0], cells[1]) != 0) {
            const ccl_tb_t *tb = &a->program->tbs[order[first].index];
            double path_s = 0;
            char peer[40];

            for (uint32_t k = first; k < i; k++)
                path_s += a->explanation->sum.tb_s[order[k].index];
            ccl_table_row(table);
            ccl_table_cell(table, "%u", tb->rank);
            ccl_table_cell(table, "%u", tb->id);
            ccl_table_cell(table, "%u", i - first);
            ccl_table_cell(table, "%u", tb->channel);
            ccl_table_cell(table, "%s", ccl_i_index(tb->send_peer, peer, sizeof(peer)));
            ccl_table_cell(table, "%s", ccl_i_index(tb->recv_peer, peer, sizeof(peer)));
            snprintf(head, sizeof(head), "%s", cells[0]);
            for (char *save = NULL, *word = strtok_r(head, " ", &save); word;
                 word = strtok_r(NULL, " ", &save))
                ccl_table_cell(table, "%s", word);
            ccl_table_cell(table, "%.1f", 100 * ccl_i_explain_share(a, path_s));
            first = i;
            most--;
        }
        memcpy(cells[0], cells[1], sizeof(cells[0]));
    }
    free(order);
    return CCL_OK;
}

/** One table under a title. */
static ccl_status_t emit(ccl_i_explain_t *root, const char *title, size_t which, ccl_text_t *out,
                         ccl_error_t *err) {
    ccl_text_printf(out, "\n%s\n", title);
    return ccl_i_explain_table(root, which, CCL_REPORT_TEXT, out, err);
}

static ccl_status_t emit_idle(const about_t *a, uint32_t rows, ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_text_printf(out, "\nIdlest thread blocks (over: of the run, after their end)\n");
    status = idle_table(a, rows, table, err);
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
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
    ccl_text_printf(out, "  carried %.4g MB", cut->carried_bytes / 1e6);
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
    char t[2][64];

    ccl_text_printf(out, "%s: %s of %s on %s (%u GPUs), %u micro-batch%s, %s level\n", root->input,
                    a->program->coll->name, ccl_format_bytes(r->size_bytes, t[0], sizeof(t[0])),
                    a->topo->name, a->topo->nranks, r->batches, r->batches == 1 ? "" : "es",
                    ccl_i_granularity_name(a->options->granularity));
    ccl_text_printf(out, "  time   %s us\n", ccl_i_us(r->time_s, t[0], sizeof(t[0])));
    ccl_text_printf(out, "  bound  %s us (%s); the time is %s of it\n",
                    ccl_i_us(e->bound.time_s, t[0], sizeof(t[0])),
                    e->bound.bandwidth_s > e->bound.latency.latency_s ? "bandwidth" : "latency",
                    ccl_i_gap_text(r->time_s, e->bound.time_s, t[1], sizeof(t[1])));
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
