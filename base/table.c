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

/* ---------------------------------------------------------------- aligned text */

enum {
    NARROW = 12, /* columns narrower than this are not made narrower */
    GAP = 2,
    KEYS_MAX = 3,
    ROWS_COMPARED = 300
};

/* An option and its value stay together, "--with ring": can be pasted. */
static bool in_option(const char *text, size_t blank) {
    size_t word = blank;
    while (word > 0 && text[word - 1] != ' ')
        word--;
    return strncmp(text + word, "--", 2) == 0 && text[blank + 1] != '-';
}

/* Bytes of the first line of a text in `width`, and in *next those to the next one; a header also
   breaks before a parenthesis, "time(us)". */
static size_t first_line(const char *text, size_t width, bool header, size_t *next) {
    size_t len = 0, best = 0, columns = 0;
    *next = 0;
    for (; text[len]; len++) {
        bool blank = text[len] == ' ' && !in_option(text, len),
             cut = header && len > 0 && text[len] == '(';
        if (best && columns > width)
            break;
        if (blank || cut) {
            if (!best || columns <= width) {
                best = len;
                *next = len + blank;
            }
            if (columns > width)
                break;
        }
        columns += ((unsigned char)text[len] & 0xc0) != 0x80;
    }
    if (!text[len] && (columns <= width || !best)) {
        *next = len;
        return len;
    }
    return best;
}

/* Width of the widest part that stays whole. */
static size_t least_width(const char *text, bool header) {
    size_t most = 0, next;
    while (*text) {
        size_t len = first_line(text, 1, header, &next), columns = 0;
        for (size_t i = 0; i < len; i++)
            columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        most = columns > most ? columns : most;
        text += next;
    }
    return most;
}

static size_t lines_of(const char *text, size_t width, bool header) {
    size_t n = 0, next;
    for (; *text; text += next, n++)
        (void)first_line(text, width, header, &next);
    return n ? n : 1;
}

static size_t total_width(const size_t *widths, size_t n) {
    size_t total = 0;
    for (size_t c = 0; c < n; c++)
        total += widths[c] + (c ? GAP : 0);
    return total;
}

/* What a column needs with its header, and where `broken` its text, in several lines. */
static size_t needed_width(const ccl_table_t *table, size_t column, bool broken) {
    size_t most = least_width(cell_at(table, 0, column), true);
    for (size_t row = 1; row <= table->nrows; row++) {
        const char *text = cell_at(table, row, column);
        size_t width = broken ? least_width(text, false) : width_of(text);
        most = width > most ? width : most;
    }
    return most;
}

/* As narrow as headers and texts allow, where `limit` asks for it: always the widest text. */
static void narrow(const ccl_table_t *table, size_t *widths, size_t *least, size_t limit) {
    size_t n = table->ncolumns;
    for (size_t c = 0; c < n; c++) {
        widths[c] = needed_width(table, c, false);
        least[c] = needed_width(table, c, table->columns[c].align == CCL_ALIGN_LEFT);
        least[c] = least[c] > NARROW ? least[c] : NARROW;
    }
    while (total_width(widths, n) > limit) {
        size_t widest = n;
        for (size_t c = 0; c < n; c++)
            if (widths[c] > least[c] && (widest == n || widths[c] > widths[widest]))
                widest = c;
        if (widest == n)
            return;
        widths[widest]--;
    }
}

/* Line `line` of a cell, "" beyond its end. */
static const char *cell_line(const char *text, size_t width, bool header, size_t line,
                             size_t *len) {
    size_t next;
    *len = 0;
    for (; *text; text += next) {
        *len = first_line(text, width, header, &next);
        if (line-- == 0)
            return text;
    }
    *len = 0;
    return text;
}

/* Columns of one part of the table: the first `keys`, and `from` to `to`. */
typedef struct part {
    const size_t *widths;
    size_t keys, from, to;
} part_t;

static size_t next_column(const part_t *part, size_t c) {
    return c + 1 == part->keys && part->from > part->keys ? part->from : c + 1;
}

static bool same_start(const ccl_table_t *table, size_t row, size_t other, size_t keys) {
    for (size_t c = 0; c < keys; c++)
        if (strcmp(cell_at(table, row, c), cell_at(table, other, c)) != 0)
            return false;
    return true;
}

/* The first columns by which rows differ, as far as there are few of them; each part has these. */
static size_t key_columns(const ccl_table_t *table) {
    for (size_t keys = 1; keys <= KEYS_MAX && keys < table->ncolumns; keys++) {
        bool differ = true;
        for (size_t row = 1; differ && row <= table->nrows && table->nrows <= ROWS_COMPARED; row++)
            for (size_t other = row + 1; differ && other <= table->nrows; other++)
                differ = !same_start(table, row, other, keys);
        if (differ)
            return keys;
    }
    return 1;
}

static void put_row(const ccl_table_t *table, const part_t *part, size_t row, ccl_text_t *out) {
    size_t most = 1;
    for (size_t c = 0; c < part->to; c = next_column(part, c)) {
        size_t lines = lines_of(cell_at(table, row, c), part->widths[c], row == 0);
        most = lines > most ? lines : most;
    }
    for (size_t line = 0; line < most; line++) {
        size_t owed = 0; /* blanks not yet written: none at the end of a line */
        for (size_t c = 0; c < part->to; c = next_column(part, c)) {
            const char *text = cell_at(table, row, c);
            size_t width = part->widths[c], len = 0, own = lines_of(text, width, row == 0);
            size_t at = row == 0 ? line + own - most : line; /* headers stand on the rows */
            const char *piece =
                row == 0 && line + own < most ? "" : cell_line(text, width, row == 0, at, &len);
            size_t columns = 0;
            for (size_t i = 0; i < len; i++)
                columns += ((unsigned char)piece[i] & 0xc0) != 0x80;
            size_t blanks = width > columns ? width - columns : 0;
            bool right = table->columns[c].align == CCL_ALIGN_RIGHT;
            if (right)
                owed += blanks;
            if (len) {
                pad(out, owed);
                owed = 0;
                ccl_text_add(out, piece, len);
            }
            if (!right)
                owed += blanks;
            owed += GAP;
        }
        ccl_text_add(out, "\n", 1);
    }
}

ccl_status_t ccl_table_text(const ccl_table_t *table, ccl_text_t *out) {
    CCL_TRY(table_status(table));
    size_t n = table->ncolumns, limit = out->columns ? out->columns : SIZE_MAX;
    size_t *widths = calloc(2 * n + 1, sizeof *widths);
    if (!widths)
        return CCL_ERR_NOMEM;
    for (size_t row = 0; row <= table->nrows; row++)
        for (size_t c = 0; c < n; c++) {
            size_t width = width_of(cell_at(table, row, c));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    if (total_width(widths, n) > limit)
        narrow(table, widths, widths + n, limit);
    size_t next = 0, keys = total_width(widths, n) > limit ? key_columns(table) : n;
    do {
        part_t part = {widths, keys, next, next};
        size_t total = next ? total_width(widths, keys) : 0;
        for (; part.to < n; part.to++) {
            size_t more = widths[part.to] + (total ? GAP : 0);
            if (part.to > part.from && part.to > keys && total + more > limit)
                break;
            total += more;
        }
        if (next)
            ccl_text_add(out, "\n", 1);
        next = part.to;
        for (size_t row = 0; row <= table->nrows; row++)
            put_row(table, &part, row, out);
    } while (next < n);
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
