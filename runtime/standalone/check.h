/**
 * @file check.h
 * Values for a collective's input and what its output must be, on the host: small whole numbers,
 * so that every result is exact in every type. Follows shape.h in the text of a kernel; valid C and C++.
 */
#ifndef CCL_RUNTIME_STANDALONE_CHECK_H
#define CCL_RUNTIME_STANDALONE_CHECK_H

/** Item i of a rank's input. */
CCL_SA_HOST uint32_t ccl_sa_value(const ccl_sa_program_t *p, uint32_t rank, uint64_t i) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + (rank + 1) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 31) * 0x94d049bb133111ebull;
    return (uint32_t)(x >> 40) % (p->nranks <= 64 && ccl_sa_reduces(p)    ? 4u
                                  : p->nranks <= 256 && ccl_sa_reduces(p) ? 2u
                                                                          : 251u);
}

/** The bits of a whole number below 257. */
CCL_SA_HOST uint32_t ccl_sa_bits(uint32_t type, uint32_t value) {
    uint32_t exponent = 0, mantissa;
    if (type == CCL_GPU_INT32 || value == 0)
        return value;
    while (value >> (exponent + 1))
        exponent++;
    mantissa = (value << (23 - exponent)) & 0x7fffffu; /* of fp32 */
    if (type == CCL_GPU_FP16)
        return (exponent + 15) << 10 | mantissa >> 13;
    return ((exponent + 127) << 23 | mantissa) >> (type == CCL_GPU_BF16 ? 16 : 0);
}

CCL_SA_HOST uint32_t ccl_sa_combined(const ccl_sa_program_t *p, uint32_t op, uint64_t i) {
    uint32_t all = ccl_sa_value(p, 0, i);
    for (uint32_t r = 1; r < p->nranks; r++) {
        uint32_t v = ccl_sa_value(p, r, i);
        all = op == CCL_GPU_SUM ? all + v : (op == CCL_GPU_MIN ? v < all : v > all) ? v : all;
    }
    return all;
}

/** Item i of shard s of a rank's output. */
CCL_SA_HOST uint32_t ccl_sa_wanted(const ccl_sa_program_t *p, uint32_t op, uint32_t rank,
                                   uint64_t count, uint32_t s, uint64_t i) {
    switch (p->kind) {
    case CCL_SA_ALLREDUCE:
    case CCL_SA_REDUCE:
        return ccl_sa_combined(p, op, i);
    case CCL_SA_REDUCESCATTER:
        return ccl_sa_combined(p, op, rank * count + i);
    case CCL_SA_ALLGATHER:
    case CCL_SA_GATHER:
        return ccl_sa_value(p, s, i);
    case CCL_SA_ALLTOALL:
        return ccl_sa_value(p, s, rank * count + i);
    case CCL_SA_BROADCAST:
        return ccl_sa_value(p, p->root, i);
    case CCL_SA_SCATTER:
        return ccl_sa_value(p, p->root, rank * count + i);
    default:
        return ccl_sa_value(p, (rank + p->nranks - 1) % p->nranks, i);
    }
}

CCL_SA_HOST void ccl_sa_write(uint32_t type, char *at, uint64_t i, uint32_t bits) {
    unsigned char *byte = (unsigned char *)at + i * ccl_sa_type_bytes(type);
    for (uint32_t k = 0; k < ccl_sa_type_bytes(type); k++)
        byte[k] = (unsigned char)(bits >> (8 * k));
}

CCL_SA_HOST uint32_t ccl_sa_read(uint32_t type, const char *at, uint64_t i) {
    const unsigned char *byte = (const unsigned char *)at + i * ccl_sa_type_bytes(type);
    uint32_t bits = 0;
    for (uint32_t k = 0; k < ccl_sa_type_bytes(type); k++)
        bits |= (uint32_t)byte[k] << (8 * k);
    return bits;
}

/** A rank's input, in memory of the host. */
CCL_SA_HOST void ccl_sa_fill(const ccl_sa_program_t *p, uint32_t type, uint32_t rank,
                             uint64_t count, char *in) {
    for (uint64_t i = 0; i < ccl_sa_shards(p, rank).in * count; i++)
        ccl_sa_write(type, in, i, ccl_sa_bits(type, ccl_sa_value(p, rank, i)));
}

/** Items of a rank's output, in memory of the host, that are wrong. */
CCL_SA_HOST uint64_t ccl_sa_wrong(const ccl_sa_program_t *p, uint32_t type, uint32_t op,
                                  uint32_t rank, uint64_t count, const char *out) {
    uint64_t wrong = 0;
    for (uint32_t s = 0; s < ccl_sa_shards(p, rank).out; s++)
        for (uint64_t i = 0; i < count; i++)
            wrong += ccl_sa_read(type, out, s * count + i) !=
                     ccl_sa_bits(type, ccl_sa_wanted(p, op, rank, count, s, i));
    return wrong;
}

#endif
