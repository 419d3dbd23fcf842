/* Rows of the lab notebook. */
#include "report/describe.h"

#include <stdlib.h>
#include <string.h>

/** A cell: a number, a string or null. */
typedef struct cell_row {
    bool is_number, is_text;
    double number;
    const char *text;
} cell_row_t;

typedef struct line_row {
    const ccl_notebook_rows_t *rows;
    uint32_t line;
} line_row_t;

static uint64_t count_columns(const void *root) {
    const ccl_notebook_rows_t *rows = root;

    return rows->ncolumns;
}

static const void *column_at(const void *root, uint64_t i, void *scratch) {
    const ccl_notebook_rows_t *rows = root;
    const char **name = scratch;

    *name = rows->columns[i];
    return name;
}

static uint64_t count_cells(const void *row) {
    const line_row_t *line = row;

    return line->rows->ncolumns;
}

static const void *cell_at(const void *row, uint64_t i, void *scratch) {
    const line_row_t *line = row;
    size_t at = (size_t)line->line * line->rows->ncolumns + i;
    cell_row_t *cell = scratch;

    cell->text = line->rows->cells[at];
    cell->is_number = cell->text && line->rows->number[at];
    cell->is_text = !cell->is_number;
    cell->number = cell->is_number ? strtod(cell->text, NULL) : 0;
    return cell;
}

static uint64_t count_lines(const void *root) {
    const ccl_notebook_rows_t *rows = root;

    return rows->nrows;
}

static const void *line_at(const void *root, uint64_t i, void *scratch) {
    line_row_t *line = scratch;

    *line = (line_row_t){root, (uint32_t)i};
    return line;
}

static const ccl_i_described_t cell_record = {
    .size = sizeof(cell_row_t),
    .fields = (const ccl_i_field_t[]){{"number", CCL_I_AT(cell_row_t, number), .null = "empty",
                                       .when = CCL_I_WHEN(cell_row_t, is_number)},
                                      {"text", CCL_I_AT(cell_row_t, text),
                                       .when = CCL_I_WHEN(cell_row_t, is_text)},
                                      {0}},
    .bare = true};
static const ccl_i_described_t line_record = {
    .size = sizeof(line_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"cells", CCL_I_LIST_OF(cell_record, count_cells, cell_at), .line = true}, {0}},
    .bare = true};
const ccl_i_result_t ccl_i_result_notebook = {
    "notebook", "ccllab notebook list, show, query, diff, export", "rows of the lab notebook",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"columns", CCL_I_LIST_OF(ccl_i_bare_string, count_columns, column_at), "their names",
             .line = true},
            {"rows", CCL_I_LIST_OF(line_record, count_lines, line_at),
             "arrays, in the order of the columns"},
            {0}}}};

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

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_notebook, rows, out, err);
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
        for (uint32_t c = 0; c < rows->ncolumns; c++) {
            const char *text = cell(rows, r, c);
            char number[40];

            if (style->format == CCL_REPORT_TEXT && rows->number[c] && strpbrk(text, ".e"))
                text = ccl_i_digits(strtod(text, NULL), 6, number, sizeof(number));
            ccl_table_cell(table, "%s", text);
        }
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
    CCL_TRY_GOTO(ccl_i_result_json(&ccl_i_result_notebook, rows, &text, err), status, end);
    status = ccl_json_parse(name, text.data, text.len, out, err);
end:
    ccl_text_fini(&text);
    ccl_notebook_rows_destroy(rows);
    return status;
}

/* ---------------------------------------------------------------- what gc dropped */

typedef struct dropped {
    uint64_t points, inputs;
} dropped_t;

static const ccl_i_described_t dropped_record = {
    .fields = (const ccl_i_field_t[]){
        {"points", CCL_I_AT(dropped_t, points), "of other builds, dropped"},
        {"inputs", CCL_I_AT(dropped_t, inputs), "that no point has, dropped"},
        {0}}};
const ccl_i_result_t ccl_i_result_notebook_gc = {
    "notebook-gc", "ccllab notebook gc", "what was dropped from the lab notebook", &dropped_record};

ccl_status_t ccl_report_notebook_gc(uint64_t points, uint64_t inputs,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    const dropped_t dropped = {points, inputs};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_notebook_gc, &dropped, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_row_emit(&dropped_record, &dropped, NULL, style->format, out, err);
    ccl_text_printf(out, "dropped: %llu points, %llu inputs\n", (unsigned long long)points,
                    (unsigned long long)inputs);
    return ccl_i_text_status(out, err);
}
