/**
 * @file kernels.c
 * Reductions of the host: plain loops that the compiler vectorises. fp16 and bf16 are computed in
 * fp32 and rounded to nearest, ties to even, after every reduction.
 */
#include "runtime/host/kernels.h"

#include <string.h>

const char *ccl_type_name(ccl_type_t type) {
    static const char *const names[CCL_TYPES] = {"int32", "fp32", "fp16", "bf16"};
    return (unsigned)type < CCL_TYPES ? names[type] : "?";
}

uint32_t ccl_type_bytes(ccl_type_t type) {
    return type == CCL_TYPE_INT32 || type == CCL_TYPE_FP32 ? 4 : 2;
}

const char *ccl_reduction_name(ccl_reduction_t op) {
    static const char *const names[CCL_REDUCTIONS] = {"sum", "min", "max"};
    return (unsigned)op < CCL_REDUCTIONS ? names[op] : "?";
}

/* ---------------------------------------------------------------- conversions without branches */

static inline uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float half_to_float(uint16_t h) {
    uint32_t rest = (uint32_t)(h & 0x7fffu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
    /* Moving the exponent by a product makes subnormals right too. */
    uint32_t finite = bits_of(float_of(rest) * 0x1p112f);
    uint32_t special = rest | 0x7f800000u;
    return float_of(sign | (rest >= 0x0f800000u ? special : finite));
}

static inline uint16_t half_from_float(float f) {
    uint32_t w = bits_of(f), sign = w & 0x80000000u, twice = w + w;
    /* Too large becomes infinity in the first product; the second and the sum below round once. */
    float base = float_of(w & 0x7fffffffu) * 0x1p112f * 0x1p-110f;
    uint32_t bias = twice & 0xff000000u;
    bias = bias < 0x71000000u ? 0x71000000u : bias;
    uint32_t bits = bits_of(float_of((bias >> 1) + 0x07800000u) + base);
    uint32_t finite = ((bits >> 13) & 0x7c00u) + (bits & 0x0fffu);
    return (uint16_t)(sign >> 16 | (twice > 0xff000000u ? 0x7e00u : finite));
}

static inline float bfloat_to_float(uint16_t b) {
    return float_of((uint32_t)b << 16);
}

static inline uint16_t bfloat_from_float(float f) {
    uint32_t w = bits_of(f), rounded = (w + 0x7fffu + (w >> 16 & 1u)) >> 16;
    return (uint16_t)((w & 0x7fffffffu) > 0x7f800000u ? (w >> 16 | 0x40u) : rounded);
}

uint16_t ccl_i_half_from_float(float value) {
    return half_from_float(value);
}

float ccl_i_half_to_float(uint16_t half) {
    return half_to_float(half);
}

uint16_t ccl_i_bfloat_from_float(float value) {
    return bfloat_from_float(value);
}

float ccl_i_bfloat_to_float(uint16_t bfloat) {
    return bfloat_to_float(bfloat);
}

/* ---------------------------------------------------------------- reductions */

#define SUM_I(a_, b_) (int32_t)((uint32_t)(a_) + (uint32_t)(b_)) /* wraps around */
#define SUM(a_, b_) ((a_) + (b_))
#define MIN(a_, b_) ((b_) < (a_) ? (b_) : (a_))
#define MAX(a_, b_) ((b_) > (a_) ? (b_) : (a_))
#define SAME(x_) (x_)

/* A result in place of an operand gets a loop of its own, so that all the rest may be assumed
 * apart. */
#define LOOP(name_, type_, wide_, load_, store_, op_)                                              \
    static void name_##_into(type_ *restrict o, const type_ *restrict y, size_t items) {           \
        for (size_t i = 0; i < items; i++) {                                                       \
            wide_ p = load_(o[i]), q = load_(y[i]);                                                \
            o[i] = store_(op_(p, q));                                                              \
        }                                                                                          \
    }                                                                                              \
    static void name_##_apart(type_ *restrict o, const type_ *restrict x, const type_ *restrict y, \
                              size_t items) {                                                      \
        for (size_t i = 0; i < items; i++) {                                                       \
            wide_ p = load_(x[i]), q = load_(y[i]);                                                \
            o[i] = store_(op_(p, q));                                                              \
        }                                                                                          \
    }                                                                                              \
    static void name_(void *out, const void *a, const void *b, size_t items) {                     \
        if (out == a || out == b)                                                                  \
            name_##_into(out, out == a ? b : a, items);                                            \
        else                                                                                       \
            name_##_apart(out, a, b, items);                                                       \
    }

LOOP(int_sum, int32_t, int32_t, SAME, SAME, SUM_I)
LOOP(int_min, int32_t, int32_t, SAME, SAME, MIN)
LOOP(int_max, int32_t, int32_t, SAME, SAME, MAX)
LOOP(float_sum, float, float, SAME, SAME, SUM)
LOOP(float_min, float, float, SAME, SAME, MIN)
LOOP(float_max, float, float, SAME, SAME, MAX)
LOOP(half_sum, uint16_t, float, half_to_float, half_from_float, SUM)
LOOP(half_min, uint16_t, float, half_to_float, half_from_float, MIN)
LOOP(half_max, uint16_t, float, half_to_float, half_from_float, MAX)
LOOP(bfloat_sum, uint16_t, float, bfloat_to_float, bfloat_from_float, SUM)
LOOP(bfloat_min, uint16_t, float, bfloat_to_float, bfloat_from_float, MIN)
LOOP(bfloat_max, uint16_t, float, bfloat_to_float, bfloat_from_float, MAX)

ccl_i_reduce_fn ccl_i_reduce_get(ccl_type_t type, ccl_reduction_t op) {
    static const ccl_i_reduce_fn table[CCL_TYPES][CCL_REDUCTIONS] = {
        [CCL_TYPE_INT32] = {int_sum, int_min, int_max},
        [CCL_TYPE_FP32] = {float_sum, float_min, float_max},
        [CCL_TYPE_FP16] = {half_sum, half_min, half_max},
        [CCL_TYPE_BF16] = {bfloat_sum, bfloat_min, bfloat_max},
    };
    return table[type][op];
}

/* ---------------------------------------------------------------- whole numbers */

void ccl_i_from_int(ccl_type_t type, const int32_t *values, void *out, size_t items) {
    float *f = out;
    uint16_t *h = out;
    switch (type) {
    case CCL_TYPE_INT32:
        memcpy(out, values, items * sizeof *values);
        break;
    case CCL_TYPE_FP32:
        for (size_t i = 0; i < items; i++)
            f[i] = (float)values[i];
        break;
    case CCL_TYPE_FP16:
        for (size_t i = 0; i < items; i++)
            h[i] = half_from_float((float)values[i]);
        break;
    case CCL_TYPE_BF16:
        for (size_t i = 0; i < items; i++)
            h[i] = bfloat_from_float((float)values[i]);
        break;
    }
}

double ccl_i_item_value(ccl_type_t type, const void *item) {
    int32_t i;
    float f;
    uint16_t h;
    switch (type) {
    case CCL_TYPE_INT32:
        memcpy(&i, item, sizeof i);
        return i;
    case CCL_TYPE_FP32:
        memcpy(&f, item, sizeof f);
        return (double)f;
    case CCL_TYPE_FP16:
        memcpy(&h, item, sizeof h);
        return (double)half_to_float(h);
    default:
        memcpy(&h, item, sizeof h);
        return (double)bfloat_to_float(h);
    }
}
