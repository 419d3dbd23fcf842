/* Pictures of tables in CSV: columns over the first one. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 64 };

/** A table: columns one after the other. */
typedef struct curves {
    const char *name; /* of the file */
    ccl_arena_t arena;
    uint32_t ncolumns, n;
    char *heads[MOST_COLUMNS];    /* without their units */
    char *units[MOST_COLUMNS];    /* as headings end: "(us)"; or the heading */
    double *values[MOST_COLUMNS]; /* [n] NaN: an empty field */
    size_t caps[MOST_COLUMNS];
} curves_t;

static void curves_fini(curves_t *t) {
    for (uint32_t c = 0; c < t->ncolumns; c++)
        free(t->values[c]);
    ccl_arena_fini(&t->arena);
}

/** "hm, 64M (us)": a curve "hm, 64M" of an axis "us". */
static ccl_status_t heading(curves_t *t, uint32_t column, const ccl_csv_field_t *field,
                            ccl_error_t *err) {
    char *head = ccl_arena_strdup(&t->arena, field->text);
    char *unit = head ? strrchr(head, '(') : NULL;

    if (!head)
        return ccl_fail_nomem(err);
    t->heads[column] = t->units[column] = head;
    if (column > 0 && unit && unit > head && head[field->len - 1] == ')') {
        head[field->len - 1] = '\0';
        *unit = '\0';
        t->units[column] = unit + 1;
        for (char *end = unit; end > head && end[-1] == ' '; end--)
            end[-1] = '\0';
    }
    return CCL_OK;
}

static ccl_status_t read_heads(curves_t *t, const ccl_csv_field_t *fields, uint32_t n,
                               ccl_error_t *err) {
    if (n < 2 || n > MOST_COLUMNS)
        return ccl_error_set(err, CCL_ERR_INPUT, t->name, 1, 1,
                             "%u columns; a table of 2 to %d is wanted, the first one the axis", n,
                             MOST_COLUMNS);
    t->ncolumns = n;
    for (uint32_t c = 0; c < n; c++)
        CCL_TRY(heading(t, c, &fields[c], err));
    return CCL_OK;
}

static ccl_status_t read_row(curves_t *t, const ccl_csv_field_t *fields, uint32_t n, int line,
                             ccl_error_t *err) {
    if (n != t->ncolumns)
        return ccl_error_set(err, CCL_ERR_INPUT, t->name, line, 1,
                             "%u fields, but the headings are %u", n, t->ncolumns);
    for (uint32_t c = 0; c < n; c++) {
        char *end = NULL;
        double value = fields[c].len ? strtod(fields[c].text, &end) : NAN;

        if (fields[c].len && (*end || !isfinite(value) || value < 0))
            return ccl_error_set(err, CCL_ERR_INPUT, t->name, line, 0,
                                 "field %u is \"%.40s\"; a number from 0 on, or nothing, is wanted",
                                 c + 1, fields[c].text);
        if (c == 0 && (!(value > 0) || (t->n && value <= t->values[0][t->n - 1])))
            return ccl_error_set(err, CCL_ERR_INPUT, t->name, line, 1,
                                 "the axis has \"%.40s\"; numbers above 0 that ascend are wanted",
                                 fields[c].text);
        if (!ccl_grow(&t->values[c], &t->caps[c], t->n + 1u, sizeof(**t->values)))
            return ccl_fail_nomem(err);
        t->values[c][t->n] = value;
    }
    t->n++;
    return CCL_OK;
}

static ccl_status_t read_table(curves_t *t, const char *text, size_t len, ccl_error_t *err) {
    ccl_csv_field_t *fields = calloc(MOST_COLUMNS + 1, sizeof(*fields));
    ccl_status_t status = fields ? CCL_OK : ccl_fail_nomem(err);
    int line = 1;

    for (size_t at = 0; status == CCL_OK && at < len; line++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t width = end ? (size_t)(end - text) - at : len - at;
        uint32_t n = ccl_csv_fields(text + at, width, fields, MOST_COLUMNS + 1);

        at += width + 1;
        if (line == 1)
            status = read_heads(t, fields, n, err);
        else if (n > 1 || fields[0].len > 0)
            status = read_row(t, fields, n, line, err);
    }
    free(fields);
    if (status == CCL_OK && t->n == 0)
        return ccl_error_set(err, CCL_ERR_INPUT, t->name, line, 1,
                             "no rows; a line of headings and lines of numbers are wanted");
    return status;
}

/** A plot for each unit, in the order of the columns. */
static ccl_status_t plot_units(curves_t *t, ccl_draw_curves_t *plots, uint32_t *nplots,
                               ccl_error_t *err) {
    for (uint32_t c = 1; c < t->ncolumns; c++) {
        ccl_draw_curve_t *curves;
        char *title;
        size_t len;
        bool seen = false;

        for (uint32_t k = 1; k < c; k++)
            seen |= strcmp(t->units[k], t->units[c]) == 0;
        if (seen)
            continue;
        len = strlen(t->units[c]) + strlen(t->heads[0]) + sizeof(" over ");
        curves = ccl_arena_alloc(&t->arena, t->ncolumns, sizeof(*curves));
        title = ccl_arena_alloc(&t->arena, len, 1);
        if (!curves || !title)
            return ccl_fail_nomem(err);
        snprintf(title, len, "%s over %s", t->units[c], t->heads[0]);
        plots[*nplots] =
            (ccl_draw_curves_t){title, t->heads[0], t->units[c], t->n, 0, t->values[0], curves};
        for (uint32_t k = c; k < t->ncolumns; k++)
            if (strcmp(t->units[k], t->units[c]) == 0)
                curves[plots[*nplots].ncurves++] = (ccl_draw_curve_t){t->heads[k], t->values[k]};
        ++*nplots;
    }
    return CCL_OK;
}

ccl_status_t ccl_report_draw_curves(const char *name, const char *text, size_t len,
                                    ccl_picture_t **out, ccl_error_t *err) {
    ccl_draw_curves_t plots[MOST_COLUMNS];
    curves_t t = {.name = name};
    uint32_t nplots = 0;
    ccl_status_t status;

    ccl_arena_init(&t.arena);
    status = read_table(&t, text, len, err);
    if (status == CCL_OK)
        status = plot_units(&t, plots, &nplots, err);
    if (status == CCL_OK)
        status = ccl_draw_curves(plots, nplots, out, err);
    curves_fini(&t);
    return status;
}
