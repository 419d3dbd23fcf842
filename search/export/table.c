/* What NCCL's own kernels are fastest at, by size: the table that its tuners read. */
#include "search/export/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- choices */

static ccl_status_t fastest(ccl_predictor_t *p, ccl_collective_kind_t kind, double size_bytes,
                            ccl_prediction_t *out, ccl_error_t *err) {
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(p);
    *out = (ccl_prediction_t){.time_s = INFINITY};
    for (int algo = CCL_NCCL_RING; algo < CCL_NCCL_P2P; algo++) {
        for (int proto = CCL_NCCL_LL; proto <= CCL_NCCL_SIMPLE; proto++) {
            ccl_prediction_t run;
            if (!ccl_nccl_may(setup, kind, (ccl_nccl_algo_t)algo, (ccl_nccl_proto_t)proto))
                continue;
            ccl_nccl_choice_t choice = ccl_nccl_channels(setup, kind, (ccl_nccl_algo_t)algo,
                                                         (ccl_nccl_proto_t)proto, size_bytes);
            CCL_TRY(ccl_predictor_run(p, kind, 0, size_bytes, &choice, &run, err));
            if (run.time_s < out->time_s)
                *out = run;
        }
    }
    return CCL_OK;
}

static bool same(const ccl_nccl_choice_t *a, const ccl_nccl_choice_t *b) {
    return a->algo == b->algo && a->proto == b->proto && a->channels == b->channels;
}

/* Ranges of sizes change half way (in the logarithm) between two of them. */
static double half_way(const double *sizes_bytes, uint32_t size) {
    return ceil(sqrt(sizes_bytes[size - 1] * sizes_bytes[size]));
}

/* The choices of one kind, neighbours that are the same as one. */
static ccl_status_t add_kind(ccl_predictor_t *p, ccl_collective_kind_t kind,
                             const double *sizes_bytes, uint32_t nsizes, ccl_export_table_t *table,
                             ccl_error_t *err) {
    ccl_export_choice_t *last = NULL;
    for (uint32_t s = 0; s < nsizes; s++) {
        ccl_prediction_t run, stock;
        CCL_TRY(fastest(p, kind, sizes_bytes[s], &run, err));
        CCL_TRY(ccl_predictor_run(p, kind, 0, sizes_bytes[s], NULL, &stock, err));
        if (last && !same(&last->choice, &run.choice)) {
            last->max_bytes = half_way(sizes_bytes, s) - 1;
            last = NULL;
        }
        if (!last) {
            last = &table->rows[table->nrows++];
            *last =
                (ccl_export_choice_t){.kind = kind,
                                      .choice = run.choice,
                                      .min_bytes = s ? half_way(sizes_bytes, s) : sizes_bytes[0]};
        }
        last->max_bytes = last->at_bytes = sizes_bytes[s];
        last->time_s = run.time_s;
        last->stock = stock.choice;
        last->stock_s = stock.time_s;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the table */

static ccl_status_t check_sizes(const double *sizes_bytes, uint32_t nsizes, ccl_error_t *err) {
    for (uint32_t s = 1; s < nsizes; s++)
        if (!(sizes_bytes[s - 1] < sizes_bytes[s]))
            return ccl_fail(err, CCL_ERR_INPUT, "ranges of sizes need sizes in ascending order");
    return CCL_OK;
}

/* Ranks of the fullest and the emptiest server. */
static ccl_status_t count_servers(const ccl_topology_t *topo, ccl_export_table_t *table,
                                  ccl_error_t *err) {
    uint32_t *on = calloc(topo->nservers + (size_t)1, sizeof *on);
    if (!on)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t server = topo->devices[topo->rank_device[r]].server;
        on[server == CCL_NONE ? topo->nservers : server]++;
    }
    table->min_local = topo->nranks;
    for (uint32_t s = 0; s <= topo->nservers; s++) {
        if (on[s] == 0)
            continue;
        table->min_local = on[s] < table->min_local ? on[s] : table->min_local;
        table->max_local = on[s] > table->max_local ? on[s] : table->max_local;
    }
    free(on);
    return CCL_OK;
}

static ccl_status_t identify(const ccl_topology_t *topo, ccl_export_table_t *table,
                             ccl_error_t *err) {
    ccl_text_t text = {0};
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    if (status == CCL_OK && text.nomem)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status =
            ccl_notebook_input(NULL, "topology", topo->name, text.data, text.len, table->hash, err);
    ccl_text_fini(&text);
    table->topology = strdup(topo->name);
    if (status == CCL_OK && !table->topology)
        status = ccl_fail_nomem(err);
    table->nranks = topo->nranks;
    return status == CCL_OK ? count_servers(topo, table, err) : status;
}

ccl_status_t ccl_export_table_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                     const ccl_profile_t *profile, bool registered,
                                     const ccl_collective_kind_t *kinds, uint32_t nkinds,
                                     const double *sizes_bytes, uint32_t nsizes,
                                     ccl_export_table_t **out, ccl_error_t *err) {
    ccl_predictor_t *p = NULL;
    ccl_export_table_t *table = calloc(1, sizeof *table);
    ccl_status_t status = table ? check_sizes(sizes_bytes, nsizes, err) : ccl_fail_nomem(err);
    for (uint32_t k = 0; k < nkinds && status == CCL_OK; k++)
        if (!ccl_export_nccl_asks(kinds[k]))
            status =
                ccl_fail(err, CCL_UNSUPPORTED,
                         "NCCL asks its tuner for allreduce, allgather, reducescatter, broadcast "
                         "and reduce only, not for %s",
                         ccl_collective_kind_name(kinds[k]));
    if (status == CCL_OK)
        status = ccl_export_nccl_tuner_check(topo, profile, err);
    if (status == CCL_OK)
        status = identify(topo, table, err);
    if (status == CCL_OK)
        status = ccl_predictor_create(ctx, topo, profile, 0, &p, err);
    if (status == CCL_OK) {
        ccl_predictor_nvls(p, true, registered);
        table->registered = registered;
        table->nnodes = ccl_predictor_setup(p)->nservers;
        table->rows = calloc((size_t)nkinds * nsizes + 1, sizeof *table->rows);
        status = table->rows ? CCL_OK : ccl_fail_nomem(err);
    }
    for (uint32_t k = 0; k < nkinds && status == CCL_OK; k++)
        status = add_kind(p, kinds[k], sizes_bytes, nsizes, table, err);
    ccl_predictor_destroy(p);
    if (status != CCL_OK) {
        ccl_export_table_destroy(table);
        return status;
    }
    *out = table;
    return CCL_OK;
}

void ccl_export_table_destroy(ccl_export_table_t *table) {
    if (!table)
        return;
    free(table->rows);
    free(table->topology);
    free(table);
}

/* ---------------------------------------------------------------- its forms */

/* The example plugin's words; it takes unknown ones for a ring with Simple. */
static const char *const csv_algos[] = {"ring", "tree", "nvls", "nvls_tree"};
static const char *const csv_protos[] = {"ll", "ll128", "simple"};

ccl_status_t ccl_export_table_csv(const ccl_export_table_t *table, ccl_text_t *out,
                                  ccl_error_t *err) {
    ccl_text_printf(out, "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,"
                         "nNodes,nRanks,numPipeOps,regBuff\n");
    for (uint32_t i = 0; i < table->nrows; i++) {
        const ccl_export_choice_t *r = &table->rows[i];
        ccl_text_printf(out, "%s,%.0f,%.0f,%s,%s,%u,%u,%u,-1,-1\n",
                        ccl_collective_kind_name(r->kind), r->min_bytes, r->max_bytes,
                        csv_algos[r->choice.algo], csv_protos[r->choice.proto], r->choice.channels,
                        table->nnodes, table->nranks);
    }
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

ccl_status_t ccl_export_nccl_tuner(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   const ccl_profile_t *profile, ccl_collective_kind_t kind,
                                   const double *sizes_bytes, uint32_t nsizes, ccl_text_t *out,
                                   ccl_error_t *err) {
    ccl_export_table_t *table = NULL;
    CCL_TRY(ccl_export_table_create(ctx, topo, profile, false, &kind, 1, sizes_bytes, nsizes,
                                    &table, err));
    ccl_status_t status = ccl_export_table_csv(table, out, err);
    ccl_export_table_destroy(table);
    return status;
}

void ccl_export_selection(const ccl_nccl_choice_t *choice, char *out, size_t out_len) {
    static const char *const algos[] = {"RING", "TREE", "NVLS", "NVLSTREE"};
    static const char *const protos[] = {"LL", "LL128", "SIMPLE"};
    const char *algo = algos[choice->algo], *proto = protos[choice->proto];
    if (choice->proto == CCL_NCCL_LL) /* a name stands for all that begin so */
        snprintf(out, out_len, "%s_%s+^%s_LL128", algo, proto, algo);
    else
        snprintf(out, out_len, "%s_%s", algo, proto);
}

/* ---------------------------------------------------------------- the plugin */

extern const char ccl_i_tuner_plugin[];

/* Text inside of a C string or comment. */
static void quoted(const char *text, ccl_text_t *out) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\' || *p == '?')
            ccl_text_printf(out, "\\%03o", *p);
        else
            ccl_text_printf(out, "%c", *p);
    }
}

static void plugin_rows(const ccl_export_table_t *table, ccl_collective_kind_t kind,
                        const char *name, ccl_text_t *out) {
    static const char *const algos[] = {"RING", "TREE", "NVLS", "NVLS_TREE"};
    static const char *const protos[] = {"LL", "LL128", "SIMPLE"};
    bool some = false;
    for (uint32_t i = 0; i < table->nrows; i++) {
        const ccl_export_choice_t *r = &table->rows[i];
        char stock[64];
        if (r->kind != kind)
            continue;
        ccl_nccl_choice_text(&r->stock, stock, sizeof stock);
        if (!some)
            ccl_text_printf(out, "static const range_t %s_ranges[] = {\n", name);
        some = true;
        ccl_text_printf(out,
                        "    {UINT64_C(%.0f), UINT64_C(%.0f), %s, %s}, /* at %.0f B: %.2f us by "
                        "the model; NCCL's own choice, %s: %.2f us */\n",
                        r->min_bytes, r->max_bytes, algos[r->choice.algo], protos[r->choice.proto],
                        r->at_bytes, r->time_s * 1e6, stock, r->stock_s * 1e6);
    }
    if (some)
        ccl_text_printf(out, "};\n");
}

static bool has_kind(const ccl_export_table_t *table, ccl_collective_kind_t kind) {
    for (uint32_t i = 0; i < table->nrows; i++) {
        if (table->rows[i].kind == kind)
            return true;
    }
    return false;
}

ccl_status_t ccl_export_table_plugin(const ccl_export_table_t *table, ccl_text_t *out,
                                     ccl_error_t *err) {
    static const struct {
        ccl_collective_kind_t kind;
        const char *name;
    } funcs[] = {{CCL_BROADCAST, "BROADCAST"},
                 {CCL_REDUCE, "REDUCE"},
                 {CCL_ALLGATHER, "ALLGATHER"},
                 {CCL_REDUCESCATTER, "REDUCESCATTER"},
                 {CCL_ALLREDUCE, "ALLREDUCE"}};
    const char *mark = strstr(ccl_i_tuner_plugin, "@TABLE@");
    ccl_text_add(out, ccl_i_tuner_plugin, (size_t)(mark - ccl_i_tuner_plugin));
    for (size_t f = 0; f < CCL_ARRAY_LEN(funcs); f++)
        plugin_rows(table, funcs[f].kind, funcs[f].name, out);
    ccl_text_printf(out, "static const table_t table = {\n    .topology = \"");
    quoted(table->topology, out);
    ccl_text_printf(out,
                    "\",\n    .hash = \"%s\",\n    .ranks = %u,\n    .nodes = %u,\n"
                    "    .least = %u,\n    .most = %u,\n    .registered = %d,\n    .of = {",
                    table->hash, table->nranks, table->nnodes, table->min_local, table->max_local,
                    table->registered);
    for (size_t f = 0, n = 0; f < CCL_ARRAY_LEN(funcs); f++) {
        if (has_kind(table, funcs[f].kind))
            ccl_text_printf(out, "%s[%s] = {%s_ranges, sizeof %s_ranges / sizeof *%s_ranges}",
                            n++ ? ",\n           " : "", funcs[f].name, funcs[f].name,
                            funcs[f].name, funcs[f].name);
    }
    ccl_text_printf(out, "}};%s", mark + strlen("@TABLE@"));
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
