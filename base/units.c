/**
 * @file units.c Quantities with units, read and written in the C locale.
 *
 * Decimal prefixes are folded into the decimal exponent before the text becomes a double, and
 * binary ones are powers of two, so every quantity is the double nearest to what was written:
 * "0.35us" is 3.5e-7, and the shortest text of a double reads back to it whatever prefix it
 * carries.
 */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clocale.h"

typedef struct unit {
    const char *text;
    int exp10;    /* decimal exponent */
    double scale; /* power of two, but for min and h */
} unit_t;

static const unit_t byte_units[] = {
    {"", 0, 1},         {"B", 0, 1},        {"K", 0, 0x1p10},   {"k", 0, 0x1p10},
    {"M", 0, 0x1p20},   {"m", 0, 0x1p20},   {"G", 0, 0x1p30},   {"g", 0, 0x1p30},
    {"T", 0, 0x1p40},   {"t", 0, 0x1p40},   {"KiB", 0, 0x1p10}, {"MiB", 0, 0x1p20},
    {"GiB", 0, 0x1p30}, {"TiB", 0, 0x1p40}, {"KB", 3, 1},       {"kB", 3, 1},
    {"MB", 6, 1},       {"GB", 9, 1},       {"TB", 12, 1},
};
static const unit_t time_units[] = {{"s", 0, 1},   {"ms", -3, 1},  {"us", -6, 1},
                                    {"ns", -9, 1}, {"min", 0, 60}, {"h", 0, 3600}};
enum { TIMES_WRITTEN = 4 /* the first ones; no result is written in minutes */ };
static const unit_t rate_prefixes[] = {
    {"", 0, 1},   {"K", 3, 1},       {"k", 3, 1},       {"M", 6, 1},       {"G", 9, 1},
    {"T", 12, 1}, {"Ki", 0, 0x1p10}, {"Mi", 0, 0x1p20}, {"Gi", 0, 0x1p30}, {"Ti", 0, 0x1p40}};
static const unit_t rate_units[] = {
    {"B/s", 0, 1}, {"Bps", 0, 1}, {"bit/s", 0, 0.125}, {"bps", 0, 0.125}, {"b/s", 0, 0.125}};

static const char byte_help[] = "write e.g. \"64M\" (64 MiB), \"64MB\" (64*10^6) or plain bytes";
static const char rate_help[] = "write e.g. \"25GB/s\", \"200Gbit/s\" or \"50GiB/s\"";
static const char time_help[] = "write e.g. \"2us\", \"350ns\", \"1.5ms\" or \"1e-6s\"";

enum { NUMBER_MAX = 100, EXPONENT_MAX = 9999 };

/* A decimal number split from what follows it. */
typedef struct number {
    char mantissa[NUMBER_MAX + 1];
    int exp10;
    const char *rest; /* after blanks */
    bool negative;
} number_t;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* NULL, or what is wrong. */
static const char *scan_number(const char *text, number_t *out) {
    const char *p = text;
    out->negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    const char *start = p;
    size_t digits = 0;
    while (is_digit(*p))
        p++, digits++;
    if (*p == '.') {
        p++;
        while (is_digit(*p))
            p++, digits++;
    }
    if (!digits)
        return "does not start with a number";
    size_t len = (size_t)(p - start);
    if (len > NUMBER_MAX)
        return "has too many digits";
    memcpy(out->mantissa, start, len);
    out->mantissa[len] = 0;
    out->exp10 = 0;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        bool minus = *q == '-';
        if (*q == '-' || *q == '+')
            q++;
        if (is_digit(*q)) {
            int exponent = 0;
            for (; is_digit(*q); q++)
                if (exponent < EXPONENT_MAX)
                    exponent = exponent * 10 + (*q - '0');
            out->exp10 = minus ? -exponent : exponent;
            p = q;
        }
    }
    while (*p == ' ')
        p++;
    out->rest = p;
    return NULL;
}

static double number_value(const number_t *number, int exp10, double scale) {
    char text[NUMBER_MAX + 24];
    snprintf(text, sizeof text, "%se%d", number->mantissa, number->exp10 + exp10);
    double value = ccl_i_strtod(text, NULL) * scale;
    return number->negative ? -value : value;
}

static const unit_t *find_unit(const char *text, const unit_t *units, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(text, units[i].text) == 0)
            return &units[i];
    return NULL;
}

/* Prefix and unit of a rate: "GB/s" = "G" + "B/s". Bits take decimal prefixes only. */
static bool find_rate_unit(const char *text, unit_t *out) {
    size_t len = strlen(text);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rate_units); i++) {
        size_t tail = strlen(rate_units[i].text);
        if (len < tail || len - tail > 2 || strcmp(text + len - tail, rate_units[i].text) != 0)
            continue;
        char prefix[3] = "";
        memcpy(prefix, text, len - tail);
        const unit_t *found = find_unit(prefix, rate_prefixes, CCL_ARRAY_LEN(rate_prefixes));
        if (!found || (found->scale > 1 && rate_units[i].scale < 1))
            continue;
        *out = (unit_t){text, found->exp10, found->scale * rate_units[i].scale};
        return true;
    }
    return false;
}

static ccl_status_t refuse(ccl_error_t *err, const char *text, const char *why, const char *help) {
    return ccl_fail(err, CCL_ERR_INPUT, "\"%.60s\" %s; %s", text, why, help);
}

ccl_status_t ccl_parse_bytes(const char *text, double *bytes_out, ccl_error_t *err) {
    number_t number;
    const char *wrong = scan_number(text, &number);
    if (wrong)
        return refuse(err, text, wrong, byte_help);
    const unit_t *unit = find_unit(number.rest, byte_units, CCL_ARRAY_LEN(byte_units));
    if (!unit)
        return refuse(err, text, "has an unknown size unit", byte_help);
    double bytes = number_value(&number, unit->exp10, unit->scale);
    if (bytes < 0)
        return refuse(err, text, "is negative", byte_help);
    if (!isfinite(bytes))
        return refuse(err, text, "is too large", byte_help);
    *bytes_out = fabs(bytes); /* "-0" */
    return CCL_OK;
}

ccl_status_t ccl_parse_rate_Bps(const char *text, double *Bps_out, ccl_error_t *err) {
    number_t number;
    unit_t unit;
    const char *wrong = scan_number(text, &number);
    if (wrong)
        return refuse(err, text, wrong, rate_help);
    if (!*number.rest)
        return refuse(err, text, "has no unit", rate_help);
    if (!find_rate_unit(number.rest, &unit))
        return refuse(err, text, "has an unknown rate unit", rate_help);
    double Bps = number_value(&number, unit.exp10, unit.scale);
    if (Bps < 0)
        return refuse(err, text, "is negative", rate_help);
    if (Bps == 0)
        return refuse(err, text, "is zero", rate_help);
    if (!isfinite(Bps))
        return refuse(err, text, "is too large", rate_help);
    *Bps_out = Bps;
    return CCL_OK;
}

ccl_status_t ccl_parse_time_s(const char *text, double *s_out, ccl_error_t *err) {
    number_t number;
    const char *wrong = scan_number(text, &number);
    if (wrong)
        return refuse(err, text, wrong, time_help);
    static const unit_t none = {"", 0, 1};
    const unit_t *unit = &none;
    double s = number_value(&number, 0, 1);
    if (!*number.rest && s != 0)
        return refuse(err, text, "has no unit", time_help);
    if (*number.rest) {
        unit = find_unit(number.rest, time_units, CCL_ARRAY_LEN(time_units));
        if (!unit)
            return refuse(err, text, "has an unknown time unit", time_help);
        s = number_value(&number, unit->exp10, unit->scale);
    }
    if (s < 0)
        return refuse(err, text, "is negative", time_help);
    if (!isfinite(s))
        return refuse(err, text, "is too large", time_help);
    *s_out = fabs(s);
    return CCL_OK;
}

/* Shortest decimal digits of a positive finite value: 0.d1d2d3... * 10^point. */
typedef struct digits {
    char text[20];
    int n, point;
} digits_t;

static int format_c(char *out, size_t len, const char *fmt, ...) CCL_PRINTF(3, 4);
static int format_c(char *out, size_t len, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = ccl_i_vsnprintf(out, len, fmt, args);
    va_end(args);
    return n;
}

static digits_t shortest(double value) {
    char text[40];
    for (int precision = 0; precision <= 16; precision++) {
        format_c(text, sizeof text, "%.*e", precision, value);
        if (ccl_i_strtod(text, NULL) == value)
            break;
    }
    digits_t out = {"", 0, 0};
    char *p = text;
    for (; *p && *p != 'e'; p++)
        if (is_digit(*p))
            out.text[out.n++] = *p;
    while (out.n > 1 && out.text[out.n - 1] == '0')
        out.n--;
    out.text[out.n] = 0;
    out.point = atoi(p + 1) + 1;
    return out;
}

/* The digits with their point, shifted by -exp10; with an exponent beyond `most` whole digits. */
static void put_digits(char *out, size_t len, const digits_t *digits, int exp10, int most) {
    int point = digits->point - exp10, n = digits->n;
    const char *text = digits->text;
    if (point > most || point < -5) {
        if (n > 1)
            snprintf(out, len, "%c.%se%d", text[0], text + 1, point - 1);
        else
            snprintf(out, len, "%ce%d", text[0], point - 1);
    } else if (point <= 0) {
        snprintf(out, len, "0.%.*s%s", -point, "00000", text);
    } else if (point >= n) {
        snprintf(out, len, "%s%.*s", text, point - n, "000000000000000");
    } else {
        snprintf(out, len, "%.*s.%s", point, text, text + point);
    }
}

/* Units by falling exponent; the first that leaves at least 1 is taken, else the last. */
static const char *format_decimal(double value, const unit_t *units, size_t n, int most,
                                  const char *zero, char *out, size_t out_len) {
    if (value == 0 || !isfinite(value)) {
        snprintf(out, out_len, "%s", value == 0 ? zero : isnan(value) ? "nan" : "inf");
        return out;
    }
    digits_t digits = shortest(fabs(value));
    size_t i = 0;
    while (i + 1 < n && digits.point - units[i].exp10 < 1)
        i++;
    char number[64];
    put_digits(number, sizeof number, &digits, units[i].exp10, most);
    snprintf(out, out_len, "%s%s%s", value < 0 ? "-" : "", number, units[i].text);
    return out;
}

const char *ccl_format_rate(double Bps, char *out, size_t out_len) {
    static const unit_t units[] = {
        {"TB/s", 12, 1}, {"GB/s", 9, 1}, {"MB/s", 6, 1}, {"KB/s", 3, 1}, {"B/s", 0, 1}};
    return format_decimal(Bps, units, CCL_ARRAY_LEN(units), 9, "0B/s", out, out_len);
}

const char *ccl_format_time(double s, char *out, size_t out_len) {
    return format_decimal(s, time_units, TIMES_WRITTEN, 9, "0s", out, out_len);
}

const char *ccl_format_bytes(double bytes, char *out, size_t out_len) {
    static const unit_t units[] = {
        {"T", 0, 0x1p40}, {"G", 0, 0x1p30}, {"M", 0, 0x1p20}, {"K", 0, 0x1p10}, {"", 0, 1}};
    static const unit_t plain[] = {{"", 0, 1}};
    char bare[80], prefixed[80];
    format_decimal(bytes, plain, 1, 15, "0", bare, sizeof bare);
    size_t i = 0;
    while (fabs(bytes) < units[i].scale && i + 1 < CCL_ARRAY_LEN(units))
        i++;
    format_decimal(bytes / units[i].scale, plain, 1, 15, "0", prefixed, sizeof prefixed - 1);
    strcat(prefixed, units[i].text);
    /* The prefix unless it makes the text longer: "1.5K", but "1025". */
    bool take = isfinite(bytes) && strlen(prefixed) <= strlen(bare);
    snprintf(out, out_len, "%s", take ? prefixed : bare);
    return out;
}
