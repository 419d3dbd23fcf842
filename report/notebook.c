/* Rows of the lab notebook. */
#include "report/writer.h"

#include <stdlib.h>
#include <string.h>

static void json_rows(const ccl_notebook_rows_t *rows, ccl_text_t *out) {
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/notebook/1");
    ccl_i_json_array(&json, "columns", true);
    for (uint32_t c = 0; c < rows->ncolumns; c++)
        ccl_i_json_string(&json, NULL, rows->columns[c]);
    ccl_i_json_close_array(&json);
    ccl_i_json_array(&json, "rows", false);
    for (uint32_t r = 0; r < rows->nrows; r++) {
        ccl_i_json_array(&json, NULL, true);
        for (uint32_t c = 0; c < rows->ncolumns; c++) {
            size_t at = (size_t)r * rows->ncolumns + c;

            if (rows->cells[at] && rows->number[at])
                ccl_i_json_number(&json, NULL, strtod(rows->cells[at], NULL));
            else
                ccl_i_json_string(&json, NULL, rows->cells[at]);
        }
        ccl_i_json_close_array(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
}

static const char *cell(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column) {
    const char *text = rows->cells[(size_t)row * rows->ncolumns + column];

    return text ? text : "";
}

static ccl_status_t upright_rows(const ccl_notebook_rows_t *rows, ccl_text_t *out,
                                 ccl_error_t *err) {
    size_t width = 0;

    for (uint32_t c = 0; c < rows->ncolumns; c++) {
        size_t len = strlen(rows->columns[c]);

        width = len > width ? len : width;
    }
    for (uint32_t r = 0; r < rows->nrows; r++) {
        if (r > 0)
            ccl_text_printf(out, "\n");
        for (uint32_t c = 0; c < rows->ncolumns; c++)
            if (*cell(rows, r, c))
                ccl_text_printf(out, "%-*s  %s\n", (int)width, rows->columns[c], cell(rows, r, c));
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_notebook(const ccl_notebook_rows_t *rows, bool upright,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    ccl_table_t *table;
    ccl_status_t status;

    if (style->format == CCL_REPORT_JSON) {
        json_rows(rows, out);
        return ccl_i_text_status(out, err);
    }
    if (style->format == CCL_REPORT_TEXT && upright)
        return upright_rows(rows, out, err);
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < rows->ncolumns; c++)
        ccl_table_column(table, rows->columns[c],
                         rows->nrows > 0 && rows->number[c] ? CCL_ALIGN_RIGHT : CCL_ALIGN_LEFT);
    for (uint32_t r = 0; r < rows->nrows; r++) {
        ccl_table_row(table);
        for (uint32_t c = 0; c < rows->ncolumns; c++)
            ccl_table_cell(table, "%s", cell(rows, r, c));
    }
    status = ccl_i_table_emit(table, style->format, out, err);
    ccl_table_destroy(table);
    return status;
}

ccl_status_t ccl_report_notebook_document(const ccl_ctx_t *ctx, ccl_notebook_t *notebook,
                                          const char *name, ccl_json_doc_t *out, ccl_error_t *err) {
    ccl_notebook_rows_t *rows = NULL;
    ccl_text_t text = {0};
    ccl_status_t status = CCL_OK;

    CCL_TRY(
        ccl_notebook_query(ctx, notebook, "SELECT * FROM run ORDER BY id", NULL, 0, &rows, err));
    if (rows->nrows == 0)
        CCL_TRY_GOTO(
            ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0,
                          "a lab notebook without points that ran (ccllab tune writes them)"),
            status, end);
    json_rows(rows, &text);
    CCL_TRY_GOTO(ccl_i_text_status(&text, err), status, end);
    status = ccl_json_parse(name, text.data, text.len, out, err);
end:
    ccl_text_fini(&text);
    ccl_notebook_rows_destroy(rows);
    return status;
}
