#include "base/base.h"

#include <locale.h>
#include <math.h>
#include <string.h>

#include "tests/base/main.h"

typedef ccl_status_t (*parse_fn)(const char *text, double *out, ccl_error_t *err);
typedef struct row {
    const char *text;
    double want;     /**< NAN: refused */
    const char *why; /**< for a refusal: what the message says */
} row_t;

static void check_rows(parse_fn parse, const row_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        double got = -7;
        ccl_status_t status = parse(rows[i].text, &got, &err);
        if (isnan(rows[i].want)) {
            ck_assert_msg(status == CCL_ERR_INPUT, "\"%s\" accepted as %g", rows[i].text, got);
            ck_assert_msg(got == -7, "\"%s\": output written on failure", rows[i].text);
            ck_assert_msg(strstr(err.text, rows[i].why) && strstr(err.text, "write"),
                          "\"%s\": message \"%s\" does not say \"%s\"", rows[i].text, err.text,
                          rows[i].why);
        } else {
            ck_assert_msg(status == CCL_OK, "\"%s\": %s", rows[i].text, err.text);
            ck_assert_msg(got == rows[i].want, "\"%s\": %.17g, not %.17g (%s)", rows[i].text, got,
                          rows[i].want, rows[i].why);
        }
    }
}

START_TEST(bytes) {
    static const row_t rows[] = {
        {"64M", 64.0 * 1048576, "nccl-tests"},
        {"64MiB", 64.0 * 1048576, "binary"},
        {"64MB", 64e6, "decimal"},
        {"100", 100, "bare is bytes"},
        {"0", 0, "zero is a size"},
        {"-0", 0, "zero whatever its sign"},
        {"1.5G", 1.5 * 1073741824, "fractions"},
        {"64m", 64.0 * 1048576, "nccl-tests takes small letters"},
        {"1 GiB", 1073741824, "a blank before the unit"},
        {"1e3", 1000, "exponents"},
        {"1E3KB", 1e6, "exponent and prefix add up"},
        {"4T", 4 * 1099511627776.0, "tera"},
        {"7B", 7, "bytes named"},
        {".5K", 512, "no leading zero"},
        {"0.1MB", 1e5, "decimal prefixes are exact, not 0.1 * 1e6 rounded"},
        {"-1", NAN, "negative"},
        {"1e400", NAN, "too large"},
        {"1e308T", NAN, "too large"},
        {"inf", NAN, "does not start with a number"},
        {"nan", NAN, "does not start with a number"},
        {"", NAN, "does not start with a number"},
        {"M", NAN, "does not start with a number"},
        {".", NAN, "does not start with a number"},
        {"0x10", NAN, "unknown size unit"},
        {"64Q", NAN, "unknown size unit"},
        {"64Mb", NAN, "unknown size unit"},
        {"64M ", NAN, "unknown size unit"},
        {"1,5K", NAN, "unknown size unit"},
        {"64 M B", NAN, "unknown size unit"},
    };
    check_rows(ccl_parse_bytes, rows, CCL_ARRAY_LEN(rows));
}
END_TEST

START_TEST(rates) {
    static const row_t rows[] = {
        {"25GB/s", 25e9, "the vendor's giga is decimal"},
        {"200Gbit/s", 25e9, "eight bits a byte"},
        {"200Gbps", 25e9, "short for bit/s"},
        {"200Gb/s", 25e9, "b is bits"},
        {"18Gbit/s", 2.25e9, "HeteCCL appendix E"},
        {"50GiB/s", 50.0 * 1073741824, "binary"},
        {"300MB/s", 3e8, "mega"},
        {"1TB/s", 1e12, "tera"},
        {"5kB/s", 5000, "kilo, small"},
        {"5KB/s", 5000, "kilo, large"},
        {"7B/s", 7, "no prefix"},
        {"8bit/s", 1, "no prefix"},
        {"4.8 GB/s", 4.8e9, "exact for decimals"},
        {"0.35GB/s", 3.5e8, "exact for decimals"},
        {"25", NAN, "has no unit"},
        {"25GB", NAN, "unknown rate unit"},
        {"25G", NAN, "unknown rate unit"},
        {"25gB/s", NAN, "unknown rate unit"},
        {"25Gibit/s", NAN, "unknown rate unit"},
        {"25GHz", NAN, "unknown rate unit"},
        {"0GB/s", NAN, "is zero"},
        {"1e-400GB/s", NAN, "is zero"},
        {"-25GB/s", NAN, "negative"},
        {"1e308GB/s", NAN, "too large"},
        {"infGB/s", NAN, "does not start with a number"},
        {"1e99999999999999999999B/s", NAN, "too large"},
    };
    check_rows(ccl_parse_rate_Bps, rows, CCL_ARRAY_LEN(rows));
}
END_TEST

START_TEST(times) {
    static const row_t rows[] = {
        {"2us", 2e-6, "micro"},
        {"0.35us", 3.5e-7, "the double of 3.5e-7, not 0.35 * 1e-6"},
        {"350ns", 3.5e-7, "nano"},
        {"1e-6s", 1e-6, "exponents"},
        {"1.5ms", 1.5e-3, "milli"},
        {"3 s", 3, "a blank before the unit"},
        {"0", 0, "zero is zero"},
        {"0us", 0, "in any unit"},
        {"0.000", 0, "however long"},
        {"2", NAN, "has no unit"},
        {"2u", NAN, "unknown time unit"},
        {"2min", 120, "minutes"},
        {"1.5h", 5400, "hours"},
        {"2days", NAN, "unknown time unit"},
        {"-2us", NAN, "negative"},
        {"1e400s", NAN, "too large"},
        {"us", NAN, "does not start with a number"},
    };
    check_rows(ccl_parse_time_s, rows, CCL_ARRAY_LEN(rows));
}
END_TEST

START_TEST(too_many_digits) {
    char text[400];
    memset(text, '1', sizeof text);
    memcpy(text + 300, "us", 3);
    double out;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_parse_time_s(text, &out, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "too many digits") && strlen(err.text) < 200, "%s", err.text);
}
END_TEST

START_TEST(formats) {
    static const struct {
        const char *(*format)(double, char *, size_t);
        double value;
        const char *want, *why;
    } rows[] = {
        {ccl_format_bytes, 67108864, "64M", "nccl-tests' shape"},
        {ccl_format_bytes, 1536, "1.5K", "a fraction no longer than the digits"},
        {ccl_format_bytes, 1025, "1025", "shorter than 1.0009765625K"},
        {ccl_format_bytes, 100, "100", "no prefix"},
        {ccl_format_bytes, 1e9, "1000000000", "not a power of two"},
        {ccl_format_bytes, 4294967296.0, "4G", "giga"},
        {ccl_format_bytes, 1e18, "1e18", "beyond fifteen digits"},
        {ccl_format_bytes, 0, "0", "zero"},
        {ccl_format_bytes, 0.5, "0.5", "a share of a byte"},
        {ccl_format_rate, 25e9, "25GB/s", "giga"},
        {ccl_format_rate, 2.25e9, "2.25GB/s", "fraction"},
        {ccl_format_rate, 1e12, "1TB/s", "tera"},
        {ccl_format_rate, 999e6, "999MB/s", "below a giga"},
        {ccl_format_rate, 0.5, "0.5B/s", "below one"},
        {ccl_format_time, 2e-6, "2us", "micro"},
        {ccl_format_time, 3.5e-7, "350ns", "nano"},
        {ccl_format_time, 0.0123, "12.3ms", "milli"},
        {ccl_format_time, 0, "0s", "zero"},
        {ccl_format_time, 1e-15, "0.000001ns", "below a nano"},
        {ccl_format_time, 1e-20, "1e-11ns", "far below"},
        {ccl_format_time, 1.0 / 3, "333.3333333333333ms", "shortest digits that read back"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char out[64];
        ck_assert_ptr_eq(rows[i].format(rows[i].value, out, sizeof out), out);
        ck_assert_msg(strcmp(out, rows[i].want) == 0, "%.17g: \"%s\", not \"%s\" (%s)",
                      rows[i].value, out, rows[i].want, rows[i].why);
    }
    char small[3];
    ck_assert_str_eq(ccl_format_bytes(1025, small, sizeof small), "10");
}
END_TEST

/* Every positive double must survive text and back, whatever its size. */
START_TEST(round_trip) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 11);
    for (int i = 0; i < 30000; i++) {
        double value;
        if (i % 3 == 0) { /* any bit pattern */
            uint64_t bits = ccl_rng_next(&rng) >> 1;
            memcpy(&value, &bits, sizeof value);
            if (!isfinite(value) || value == 0)
                continue;
        } else if (i % 3 == 1) { /* everyday magnitudes, all digits */
            value = ccl_rng_unit(&rng) * pow(10, ccl_rng_below(&rng, 24) - 12.0);
        } else { /* few digits */
            value = (1 + ccl_rng_below(&rng, 9999)) * pow(10, ccl_rng_below(&rng, 20) - 10.0);
        }
        char text[64];
        double back = 0;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_parse_rate_Bps(ccl_format_rate(value, text, sizeof text), &back, &err) ==
                              CCL_OK &&
                          back == value,
                      "rate %.17g became \"%s\": %.17g %s", value, text, back, err.text);
        ck_assert_msg(ccl_parse_time_s(ccl_format_time(value, text, sizeof text), &back, &err) ==
                              CCL_OK &&
                          back == value,
                      "time %.17g became \"%s\": %.17g %s", value, text, back, err.text);
        ck_assert_msg(ccl_parse_bytes(ccl_format_bytes(value, text, sizeof text), &back, &err) ==
                              CCL_OK &&
                          back == value,
                      "bytes %.17g became \"%s\": %.17g %s", value, text, back, err.text);
        ck_assert_msg(strlen(text) < 32, "\"%s\" is long", text);
    }
}
END_TEST

RUN_TESTS(bytes, rates, times, too_many_digits, formats, round_trip)
