/** @file table.c Tables as aligned text and as CSV. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#include "base/clocale.h"

typedef struct column {
    const char *header;
    ccl_align_t align;
} column_t;

struct ccl_table {
    column_t *columns;
    size_t ncolumns, columns_cap;
    const char **cells; /* [nrows][ncolumns], NULL: empty */
    size_t ncells, cells_cap;
    size_t nrows, filled; /* cells of the last row so far */
    bool nomem, misused;
    ccl_arena_t arena;
};

ccl_table_t *ccl_table_create(void) {
    return calloc(1, sizeof(ccl_table_t));
}

void ccl_table_destroy(ccl_table_t *table) {
    if (!table)
        return;
    free(table->columns);
    free(table->cells);
    ccl_arena_fini(&table->arena);
    free(table);
}

void ccl_table_column(ccl_table_t *table, const char *header, ccl_align_t align) {
    if (table->nrows) {
        table->misused = true;
        return;
    }
    const char *copy = ccl_arena_strdup(&table->arena, header);
    if (!copy || !ccl_grow(&table->columns, &table->columns_cap, table->ncolumns + 1,
                           sizeof *table->columns)) {
        table->nomem = true;
        return;
    }
    table->columns[table->ncolumns++] = (column_t){copy, align};
}

void ccl_table_row(ccl_table_t *table) {
    size_t need = table->ncells + table->ncolumns;
    if (table->nomem || !ccl_grow(&table->cells, &table->cells_cap, need, sizeof *table->cells)) {
        table->nomem = true;
        return;
    }
    for (size_t i = table->ncells; i < need; i++)
        table->cells[i] = NULL;
    table->ncells = need;
    table->nrows++;
    table->filled = 0;
}

void ccl_table_cell(ccl_table_t *table, const char *fmt, ...) {
    if (table->nomem)
        return;
    if (!table->nrows || table->filled == table->ncolumns) {
        table->misused = true;
        return;
    }
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = ccl_i_vsnprintf(NULL, 0, fmt, args);
    char *text = len >= 0 ? ccl_arena_alloc(&table->arena, (size_t)len + 1, 1) : NULL;
    if (text)
        ccl_i_vsnprintf(text, (size_t)len + 1, fmt, again);
    else
        table->nomem = true;
    va_end(again);
    va_end(args);
    table->cells[table->ncells - table->ncolumns + table->filled++] = text;
}

static size_t width_of(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80; /* UTF-8 continuation bytes take no room */
    return width;
}

static const char *cell_at(const ccl_table_t *table, size_t row, size_t column) {
    const char *text =
        row ? table->cells[(row - 1) * table->ncolumns + column] : table->columns[column].header;
    return text ? text : "";
}

static void pad(ccl_text_t *out, size_t n) {
    while (n--)
        ccl_text_add(out, " ", 1);
}

static ccl_status_t table_status(const ccl_table_t *table) {
    if (table->nomem)
        return CCL_ERR_NOMEM;
    return table->misused ? CCL_ERR_INTERNAL : CCL_OK;
}

ccl_status_t ccl_table_text(const ccl_table_t *table, ccl_text_t *out) {
    CCL_TRY(table_status(table));
    size_t *widths = calloc(table->ncolumns + 1, sizeof *widths);
    if (!widths)
        return CCL_ERR_NOMEM;
    for (size_t row = 0; row <= table->nrows; row++)
        for (size_t c = 0; c < table->ncolumns; c++) {
            size_t width = width_of(cell_at(table, row, c));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    for (size_t row = 0; row <= table->nrows; row++) {
        size_t owed = 0; /* blanks not yet written: none at the end of a line */
        for (size_t c = 0; c < table->ncolumns; c++) {
            const char *text = cell_at(table, row, c);
            size_t blanks = widths[c] - width_of(text);
            bool right = table->columns[c].align == CCL_ALIGN_RIGHT;
            if (right)
                owed += blanks;
            if (*text) {
                pad(out, owed);
                owed = 0;
                ccl_text_add(out, text, strlen(text));
            }
            if (!right)
                owed += blanks;
            owed += 2;
        }
        ccl_text_add(out, "\n", 1);
    }
    free(widths);
    return out->nomem ? CCL_ERR_NOMEM : CCL_OK;
}

static void csv_field(ccl_text_t *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        ccl_text_add(out, text, strlen(text));
        return;
    }
    ccl_text_add(out, "\"", 1);
    for (; *text; text++) {
        if (*text == '"')
            ccl_text_add(out, "\"", 1);
        ccl_text_add(out, text, 1);
    }
    ccl_text_add(out, "\"", 1);
}

/* Quoting is RFC 4180's; lines end in a plain line feed, which shell tools want and CSV readers
 * take. */
ccl_status_t ccl_table_csv(const ccl_table_t *table, ccl_text_t *out) {
    CCL_TRY(table_status(table));
    for (size_t row = 0; row <= table->nrows; row++) {
        for (size_t c = 0; c < table->ncolumns; c++) {
            if (c)
                ccl_text_add(out, ",", 1);
            csv_field(out, cell_at(table, row, c));
        }
        ccl_text_add(out, "\n", 1);
    }
    return out->nomem ? CCL_ERR_NOMEM : CCL_OK;
}

uint32_t ccl_csv_fields(const char *line, size_t len, ccl_csv_field_t *fields, uint32_t most) {
    uint32_t n = 0;
    size_t i = 0;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    for (;;) {
        ccl_csv_field_t *f = &fields[n];
        f->len = 0;
        bool quoted = i < len && line[i] == '"';
        i += quoted;
        while (i < len) {
            if (quoted && line[i] == '"') {
                if (i + 1 < len && line[i + 1] == '"') {
                    i++;
                } else {
                    quoted = false;
                    i++;
                    continue;
                }
            } else if (!quoted && line[i] == ',') {
                break;
            }
            if (f->len + 1 < sizeof f->text)
                f->text[f->len++] = line[i];
            i++;
        }
        f->text[f->len] = '\0';
        n++;
        if (i >= len || n == most)
            return n;
        i++; /* the comma */
    }
}
