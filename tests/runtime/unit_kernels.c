/* The host's loops: conversions against arithmetic, reductions against single items. */
#include "common.h"

#include "runtime/host/kernels.h"

#include <math.h>

/** What the bits mean, by the definition of the format. */
static double half_value(uint32_t h, int exponent_bits, int fraction_bits) {
    uint32_t e = h >> fraction_bits & ((1u << exponent_bits) - 1);
    uint32_t f = h & ((1u << fraction_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = h & 0x8000 ? -1 : 1, one = ldexp(1, fraction_bits);
    if (e == (1u << exponent_bits) - 1)
        return f ? NAN : sign * INFINITY;
    return e ? sign * ldexp(1 + f / one, (int)e - bias) : sign * ldexp(f / one, 1 - bias);
}

START_TEST(test_to_float) {
    for (uint32_t h = 0; h < 65536; h++) {
        double half = half_value(h, 5, 10), bfloat = half_value(h, 8, 7);
        float x = ccl_i_half_to_float((uint16_t)h), y = ccl_i_bfloat_to_float((uint16_t)h);
        if (isnan(half))
            ck_assert(isnan(x));
        else
            ck_assert_msg((double)x == half && !signbit(x) == !(h & 0x8000), "%x: %g", h, x);
        if (isnan(bfloat))
            ck_assert(isnan(y));
        else
            ck_assert_msg((double)y == bfloat && !signbit(y) == !(h & 0x8000), "%x: %g", h, y);
    }
}
END_TEST

/** The nearest by search over all; ties to the even one. */
static uint16_t nearest(float f, int exponent_bits, int fraction_bits) {
    uint32_t sign = signbit(f) ? 0x8000 : 0, lo = 0;
    uint32_t hi = ((1u << exponent_bits) - 1) << fraction_bits; /* infinity */
    double x = fabs((double)f);
    while (hi - lo > 1) { /* value(lo) <= x */
        uint32_t mid = (lo + hi) / 2;
        if (half_value(mid, exponent_bits, fraction_bits) <= x)
            lo = mid;
        else
            hi = mid;
    }
    double below = half_value(lo, exponent_bits, fraction_bits);
    double above = half_value(hi, exponent_bits, fraction_bits);
    if (isinf(above)) /* rounded as if there were one more */
        above = below + (below - half_value(lo - 1, exponent_bits, fraction_bits));
    bool up = x - below > above - x || (x - below == above - x && lo % 2 == 1);
    return (uint16_t)(sign | (up ? hi : lo));
}

START_TEST(test_from_float) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 11);
    for (uint32_t i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)ccl_rng_next(&rng);
        if (i % 3 == 0) /* where fp16 lives, and its ties */
            bits = (bits & 0x8fffffffu) + 0x30000000u;
        if (i % 5 == 0)
            bits &= 0xfffff000u;
        float f;
        memcpy(&f, &bits, sizeof f);
        if (isnan(f)) {
            ck_assert(isnan(ccl_i_half_to_float(ccl_i_half_from_float(f))));
            ck_assert(isnan(ccl_i_bfloat_to_float(ccl_i_bfloat_from_float(f))));
            continue;
        }
        if (isinf(f))
            continue;
        ck_assert_msg(ccl_i_half_from_float(f) == nearest(f, 5, 10), "%.9g: %x, not %x", f,
                      ccl_i_half_from_float(f), nearest(f, 5, 10));
        ck_assert_msg(ccl_i_bfloat_from_float(f) == nearest(f, 8, 7), "%.9g: %x, not %x", f,
                      ccl_i_bfloat_from_float(f), nearest(f, 8, 7));
    }
    ck_assert_uint_eq(ccl_i_half_from_float(INFINITY), 0x7c00);
    ck_assert_uint_eq(ccl_i_half_from_float(65520), 0x7c00);
    ck_assert_uint_eq(ccl_i_half_from_float(65519), 0x7bff);
    ck_assert_uint_eq(ccl_i_bfloat_from_float(-INFINITY), 0xff80);
}
END_TEST

static double reduced(ccl_reduction_t op, double a, double b) {
    return op == CCL_OP_SUM ? a + b : op == CCL_OP_MIN ? fmin(a, b) : fmax(a, b);
}

/* All lengths, apart and in place of either operand. */
START_TEST(test_reductions) {
    ccl_type_t type = (ccl_type_t)(_i / CCL_REDUCTIONS);
    ccl_reduction_t op = (ccl_reduction_t)(_i % CCL_REDUCTIONS);
    ccl_i_reduce_fn reduce = ccl_i_reduce_get(type, op);
    uint32_t bytes = ccl_type_bytes(type);
    for (size_t n = 0; n < 70; n++) {
        int32_t x[70], y[70];
        char a[280], b[280], out[280];
        for (size_t i = 0; i < n; i++) {
            x[i] = (int32_t)(i * 37 % 113) - 56;
            y[i] = (int32_t)(i * 53 % 127) - 63;
        }
        for (int place = 0; place < 3; place++) {
            ccl_i_from_int(type, x, a, n);
            ccl_i_from_int(type, y, b, n);
            char *to = place == 0 ? out : place == 1 ? a : b;
            reduce(to, a, b, n);
            for (size_t i = 0; i < n; i++)
                ck_assert_double_eq(ccl_i_item_value(type, to + i * bytes),
                                    reduced(op, x[i], y[i]));
        }
    }
}
END_TEST

START_TEST(test_wrap) {
    int32_t a = INT32_MAX, b = 5, out = 0;
    ccl_i_reduce_get(CCL_TYPE_INT32, CCL_OP_SUM)(&out, &a, &b, 1);
    ck_assert_int_eq(out, INT32_MIN + 4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.kernels");
    TCase *tcase = tcase_create("kernels");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_to_float);
    tcase_add_test(tcase, test_from_float);
    tcase_add_loop_test(tcase, test_reductions, 0, CCL_TYPES * CCL_REDUCTIONS);
    tcase_add_test(tcase, test_wrap);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
