/* Laws of what varies: their text, and draws. */
#include "search/scenario/scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/scenario/scenario_i.h"

enum { REDRAWS = 10000, VALUES_MAX = 10000000, FILE_MAX = 1 << 30 };

static const struct {
    const char *name, *arguments;
    uint32_t n;
} laws[] = {
    [CCL_LAW_CONSTANT] = {"constant", "VALUE", 1},
    [CCL_LAW_UNIFORM] = {"uniform", "LEAST,MOST", 2},
    [CCL_LAW_NORMAL] = {"normal", "MEAN,DEVIATION", 2},
    [CCL_LAW_LOGNORMAL] = {"lognormal", "MEDIAN,SIGMA", 2},
    [CCL_LAW_GAMMA] = {"gamma", "MEAN,SHAPE", 2},
    [CCL_LAW_EMPIRICAL] = {"empirical", "FILE or FILE:COLUMN", 1},
};

static bool is_factor(ccl_vary_t what) {
    return what == CCL_VARY_RATE || what == CCL_VARY_BLOCKS;
}

ccl_status_t ccl_i_scenario_number(const char *text, double *out, ccl_error_t *err) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value) || (*end && strcmp(end, "%") != 0))
        return ccl_fail(err, CCL_ERR_INPUT, "\"%.60s\" is no number, such as 0.9 or 90%%", text);
    *out = *end ? value / 100 : value;
    return CCL_OK;
}

/* A value of what varies: a factor, or a time with its unit. */
static ccl_status_t parse_value(ccl_vary_t what, const char *text, double *out, ccl_error_t *err) {
    if (is_factor(what))
        return ccl_i_scenario_number(text, out, err);
    return strcmp(text, "0") == 0 ? (*out = 0, CCL_OK) : ccl_parse_time_s(text, out, err);
}

/* Is every value of the law one that may be? */
static ccl_status_t check(ccl_vary_t what, const ccl_law_t *law, ccl_error_t *err) {
    double least = law->a;
    for (uint32_t i = 0; i < law->nvalues; i++)
        least = i == 0 || law->values[i] < least ? law->values[i] : least;
    bool positive = is_factor(what) || law->kind == CCL_LAW_LOGNORMAL || law->kind == CCL_LAW_GAMMA;
    if (least < 0 || (positive && !(least > 0)))
        return ccl_fail(err, CCL_ERR_INPUT, "%g is too small: %s", least,
                        is_factor(what) ? "factors are above 0"
                        : positive      ? "its first value is above 0"
                                        : "times are from 0 on");
    if (law->kind == CCL_LAW_UNIFORM && law->b < law->a)
        return ccl_fail(err, CCL_ERR_INPUT, "the most, %g, is less than the least, %g", law->b,
                        law->a);
    if (law->b < 0 || (law->kind == CCL_LAW_GAMMA && !(law->b > 0)))
        return ccl_fail(err, CCL_ERR_INPUT, "its second value is %g: more than 0 is needed",
                        law->b);
    return CCL_OK;
}

/* ---------------------------------------------------------------- values of a file */

/* Index of the column of that name in a first line; 0 without a name, CCL_NONE: none has it. */
static uint32_t column_of(const ccl_csv_field_t *fields, uint32_t n, const char *name) {
    for (uint32_t i = 0; name && i < n; i++)
        if (strcmp(fields[i].text, name) == 0)
            return i;
    return name ? CCL_NONE : 0;
}

static ccl_status_t read_lines(ccl_vary_t what, const char *path, const char *column,
                               const char *data, size_t len, ccl_law_t *law, ccl_error_t *err) {
    ccl_csv_field_t fields[32];
    uint32_t line = 0, at = CCL_NONE;
    for (size_t i = 0; i < len;) {
        const char *end = memchr(data + i, '\n', len - i);
        size_t n = end ? (size_t)(end - data) - i : len - i;
        uint32_t got = ccl_csv_fields(data + i, n, fields, CCL_ARRAY_LEN(fields));
        ccl_error_t own = CCL_ERROR_INIT;
        double value;
        i += n + 1;
        line++;
        got = got < CCL_ARRAY_LEN(fields) ? got : CCL_ARRAY_LEN(fields);
        if (got == 0 || (got == 1 && fields[0].len == 0) || fields[0].text[0] == '#')
            continue;
        if (at == CCL_NONE) {
            at = column_of(fields, got, column);
            if (at == CCL_NONE)
                return ccl_error_set(err, CCL_ERR_INPUT, path, line, 1, "no column \"%.60s\"",
                                     column);
            /* A first line of names. */
            if (column || parse_value(what, fields[at].text, &value, &own) != CCL_OK)
                continue;
        }
        if (at >= got || parse_value(what, fields[at].text, &value, &own) != CCL_OK)
            return ccl_error_set(err, CCL_ERR_INPUT, path, line, 1, "%s",
                                 at >= got ? "the column is missing here" : own.text);
        if (law->nvalues == VALUES_MAX)
            return ccl_error_set(err, CCL_ERR_INPUT, path, line, 1, "more than %d values",
                                 VALUES_MAX);
        if (law->nvalues % 1024 == 0) {
            double *more = realloc(law->values, (law->nvalues + 1024u) * sizeof *more);
            if (!more)
                return ccl_fail_nomem(err);
            law->values = more;
        }
        law->values[law->nvalues++] = value;
    }
    return law->nvalues ? CCL_OK : ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0, "holds no value");
}

/* "FILE" or "FILE:COLUMN"; a relative one is beside the scenario's own file. */
static ccl_status_t read_values(ccl_vary_t what, const char *folder, const char *argument,
                                ccl_law_t *law, ccl_error_t *err) {
    char path[1200], *data = NULL;
    size_t len;
    int n = snprintf(path, sizeof path, "%s%s%s", folder && argument[0] != '/' ? folder : "",
                     folder && argument[0] != '/' ? "/" : "", argument);
    if (n < 0 || (size_t)n >= sizeof path)
        return ccl_fail(err, CCL_ERR_INPUT, "the name of the file is too long");
    char *colon = strrchr(path, ':');
    if (colon)
        *colon++ = '\0';
    CCL_TRY(ccl_file_read(path, FILE_MAX, &data, &len, err));
    ccl_status_t status = read_lines(what, path, colon, data, len, law, err);
    free(data);
    return status;
}

/* ---------------------------------------------------------------- text */

/* The arguments between the parentheses, cut at commas, blanks around them dropped. */
static uint32_t cut_arguments(char *text, char **arguments, uint32_t most) {
    uint32_t n = 0;
    for (char *at = text; at && n < most; n++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        while (*at == ' ')
            at++;
        arguments[n] = at;
        for (char *end = at + strlen(at); end > at && end[-1] == ' ';)
            *--end = '\0';
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

static ccl_status_t parse_arguments(ccl_vary_t what, char *const *arguments, ccl_law_t *law,
                                    ccl_error_t *err) {
    bool pure = law->kind == CCL_LAW_LOGNORMAL || law->kind == CCL_LAW_GAMMA;
    CCL_TRY(parse_value(what, arguments[0], &law->a, err));
    if (laws[law->kind].n == 1)
        return CCL_OK;
    return pure ? ccl_i_scenario_number(arguments[1], &law->b, err)
                : parse_value(what, arguments[1], &law->b, err);
}

static ccl_status_t refuse(const char *text, ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_INPUT,
                    "\"%.60s\" is no law: constant(VALUE), uniform(LEAST,MOST), "
                    "normal(MEAN,DEVIATION), lognormal(MEDIAN,SIGMA), gamma(MEAN,SHAPE), "
                    "empirical(FILE:COLUMN)",
                    text);
}

ccl_status_t ccl_i_law_parse(const char *text, ccl_vary_t what, const char *folder, ccl_law_t *law,
                             ccl_error_t *err) {
    char copy[1100], *arguments[3];
    size_t len = strlen(text);
    const char *open = strchr(text, '(');
    *law = (ccl_law_t){0};
    if (!open || len == 0 || text[len - 1] != ')' || len >= sizeof copy)
        return refuse(text, err);
    size_t kind = 0;
    while (kind < CCL_ARRAY_LEN(laws) &&
           (strlen(laws[kind].name) != (size_t)(open - text) ||
            strncmp(laws[kind].name, text, (size_t)(open - text)) != 0))
        kind++;
    if (kind == CCL_ARRAY_LEN(laws))
        return refuse(text, err);
    law->kind = (ccl_law_kind_t)kind;
    size_t inside = len - (size_t)(open - text) - 2;
    memcpy(copy, open + 1, inside);
    copy[inside] = '\0';
    if (law->kind == CCL_LAW_EMPIRICAL)
        CCL_TRY(read_values(what, folder, copy, law, err));
    else if (cut_arguments(copy, arguments, 3) != laws[kind].n)
        return ccl_fail(err, CCL_ERR_INPUT, "\"%.60s\": %s(%s)", text, laws[kind].name,
                        laws[kind].arguments);
    else
        CCL_TRY(parse_arguments(what, arguments, law, err));
    return check(what, law, err);
}

/* ---------------------------------------------------------------- draws */

/* Marsaglia's polar method; the second of each pair is dropped, so that a draw has no memory. */
static double standard_normal(ccl_rng_t *rng) {
    for (;;) {
        double u = 2 * ccl_rng_unit(rng) - 1, v = 2 * ccl_rng_unit(rng) - 1, s = u * u + v * v;
        if (s > 0 && s < 1)
            return u * sqrt(-2 * log(s) / s);
    }
}

/* Marsaglia and Tsang, ACM TOMS 26(3), 2000: shape k, scale 1. */
static double standard_gamma(double k, ccl_rng_t *rng) {
    if (k < 1) { /* their section 6 */
        double u = 1 - ccl_rng_unit(rng);
        return standard_gamma(k + 1, rng) * pow(u, 1 / k);
    }
    double d = k - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = standard_normal(rng), v = 1 + c * x, u = 1 - ccl_rng_unit(rng);
        v = v * v * v;
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

double ccl_law_draw(const ccl_law_t *law, ccl_rng_t *rng) {
    switch (law->kind) {
    case CCL_LAW_CONSTANT:
        return law->a;
    case CCL_LAW_UNIFORM:
        return law->a + (law->b - law->a) * ccl_rng_unit(rng);
    case CCL_LAW_NORMAL:
        for (int i = 0; i < REDRAWS; i++) {
            double value = law->a + law->b * standard_normal(rng);
            if (value > 0)
                return value;
        }
        return law->a;
    case CCL_LAW_LOGNORMAL:
        return law->a * exp(law->b * standard_normal(rng));
    case CCL_LAW_GAMMA:
        return law->a / law->b * standard_gamma(law->b, rng);
    case CCL_LAW_EMPIRICAL:
        return law->values[ccl_rng_below(rng, law->nvalues)];
    }
    return law->a;
}
