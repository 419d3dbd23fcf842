/* Collectives against their definition, chunk by chunk. */
#include "suite.h"

#include <math.h>

enum { ALL = -1, ROOT = -2, BLOCK = -3, NEXT = -4, ROW = -5, COLUMN = -6 };

typedef struct kind_row {
    const char *why;
    ccl_collective_kind_t kind;
    int blocks;         /* 1, n: 2, n n: 3 */
    int sources, dests; /* of a chunk of block b */
    int reduced;
} kind_row_t;

static const kind_row_t kinds[] = {
    {"every rank adds to every chunk", CCL_ALLREDUCE, 1, ALL, ALL, 1},
    {"block r comes from rank r", CCL_ALLGATHER, 2, BLOCK, ALL, 0},
    {"block r goes to rank r", CCL_REDUCESCATTER, 2, ALL, BLOCK, 1},
    {"block s n + d goes from s to d", CCL_ALLTOALL, 3, ROW, COLUMN, 0},
    {"the root has it, all get it", CCL_BROADCAST, 1, ROOT, ALL, 0},
    {"all add, the root gets it", CCL_REDUCE, 1, ALL, ROOT, 1},
    {"block r goes from rank r to the root", CCL_GATHER, 2, BLOCK, ROOT, 0},
    {"block r goes from the root to rank r", CCL_SCATTER, 2, ROOT, BLOCK, 0},
    {"block r goes to the next rank", CCL_SENDRECV, 2, BLOCK, NEXT, 0},
};

static bool is_member(int rule, uint32_t rank, uint32_t block, uint32_t n, uint32_t root) {
    switch (rule) {
    case ALL:
        return true;
    case ROOT:
        return rank == root;
    case BLOCK:
        return rank == block;
    case NEXT:
        return rank == (block + 1) % n;
    case ROW:
        return rank == block / n;
    default:
        return rank == block % n;
    }
}

static bool contains(const uint32_t *list, uint32_t len, uint32_t rank) {
    uint32_t hits = 0;
    for (uint32_t i = 0; i < len; i++) {
        hits += list[i] == rank;
        ck_assert(i == 0 || list[i - 1] < list[i]);
    }
    return hits == 1;
}

static void check_kind(const kind_row_t *row, uint32_t n, uint32_t c, uint32_t root) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *coll, *split, *clone;
    check_ok(ccl_collective_create(row->kind, n, c, root, &coll, &err), &err);
    uint32_t blocks = row->blocks == 1 ? 1 : row->blocks == 2 ? n : n * n;
    ck_assert_uint_eq(coll->nchunks, blocks * c);
    double widest = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t in = 0, out = 0;
        double in_share = 0, out_share = 0;
        for (uint32_t k = 0; k < coll->nchunks; k++) {
            const ccl_chunk_t *chunk = &coll->chunks[k];
            bool has = is_member(row->sources, r, k / c, n, root);
            bool gets = is_member(row->dests, r, k / c, n, root);
            ck_assert_msg(contains(chunk->sources, chunk->nsources, r) == has, "%s", row->why);
            ck_assert_msg(contains(chunk->dests, chunk->ndests, r) == gets, "%s", row->why);
            ck_assert_int_eq(chunk->reduced, row->reduced);
            /* Elements of every buffer follow the order of its chunks. */
            ck_assert_uint_eq(ccl_collective_input(coll, r, k), has ? in++ : CCL_NONE);
            ck_assert_uint_eq(ccl_collective_output(coll, r, k), gets ? out++ : CCL_NONE);
            in_share += has ? chunk->share : 0;
            out_share += gets ? chunk->share : 0;
        }
        ck_assert_uint_eq(ccl_collective_input_len(coll, r), in);
        ck_assert_uint_eq(ccl_collective_output_len(coll, r), out);
        widest = fmax(widest, fmax(in_share, out_share));
    }
    ck_assert_msg(fabs(widest - 1) < 1e-12, "%s: size is the largest buffer, not %g", row->why,
                  widest);
    check_ok(ccl_collective_split(coll, 3, &split, &err), &err);
    ck_assert_uint_eq(split->nchunks, 3 * coll->nchunks);
    for (uint32_t k = 0; k < split->nchunks; k++) {
        ck_assert_uint_eq(split->chunks[k].nsources, coll->chunks[k / 3].nsources);
        ck_assert_uint_eq(split->chunks[k].sources[0], coll->chunks[k / 3].sources[0]);
        ck_assert_uint_eq(split->chunks[k].dests[0], coll->chunks[k / 3].dests[0]);
    }
    check_ok(ccl_collective_clone(coll, &clone, &err), &err);
    ck_assert(ccl_collective_equal(coll, clone));
    ck_assert(!ccl_collective_equal(coll, split));
    ccl_collective_destroy(coll);
    ccl_collective_destroy(split);
    ccl_collective_destroy(clone);
}

START_TEST(definitions) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(kinds); i++) {
        for (uint32_t n = 1; n <= 5; n++) {
            for (uint32_t c = 1; c <= 3; c++)
                check_kind(&kinds[i], n, c, n - 1);
        }
    }
}
END_TEST

START_TEST(names) {
    static const struct {
        const char *text;
        ccl_collective_kind_t kind;
    } rows[] = {{"all_reduce", CCL_ALLREDUCE},
                {"AllReduce", CCL_ALLREDUCE},
                {"reduce-scatter", CCL_REDUCESCATTER},
                {"SENDRECV", CCL_SENDRECV},
                {"AllToAll", CCL_ALLTOALL},
                {"custom", CCL_CUSTOM}};
    ccl_collective_kind_t kind;
    ccl_error_t err = CCL_ERROR_INIT;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        check_ok(ccl_collective_kind_parse(rows[i].text, &kind, &err), &err);
        ck_assert_int_eq(kind, rows[i].kind);
    }
    for (int k = 0; k < CCL_COLLECTIVE_KINDS; k++) {
        check_ok(ccl_collective_kind_parse(ccl_collective_kind_name(k), &kind, &err), &err);
        ck_assert_int_eq(kind, k);
    }
    ck_assert_int_eq(ccl_collective_kind_parse("allreduces", &kind, &err), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_collective_kind_parse("", &kind, NULL), CCL_ERR_INPUT);
}
END_TEST

START_TEST(factors) {
    static const struct {
        ccl_collective_kind_t kind;
        uint32_t nranks;
        double factor;
    } rows[] = {{CCL_ALLREDUCE, 8, 1.75}, {CCL_ALLGATHER, 8, 0.875}, {CCL_REDUCESCATTER, 4, 0.75},
                {CCL_ALLTOALL, 2, 0.5},   {CCL_GATHER, 4, 0.75},     {CCL_SCATTER, 4, 0.75},
                {CCL_BROADCAST, 8, 1},    {CCL_REDUCE, 8, 1},        {CCL_SENDRECV, 8, 1},
                {CCL_CUSTOM, 8, 1}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++)
        ck_assert_double_eq(ccl_collective_busbw_factor(rows[i].kind, rows[i].nranks),
                            rows[i].factor);
}
END_TEST

START_TEST(refused) {
    static const struct {
        const char *why;
        ccl_collective_kind_t kind;
        uint32_t nranks, chunks, root;
        const char *text;
    } rows[] = {
        {"no rank", CCL_ALLREDUCE, 0, 1, 0, "0 ranks"},
        {"too many ranks", CCL_ALLREDUCE, 1u << 20, 1, 0, "ranks"},
        {"no chunk", CCL_ALLREDUCE, 4, 0, 0, "0 chunks"},
        {"root is no rank", CCL_BROADCAST, 4, 1, 4, "root 4"},
        {"n n c chunks are bounded", CCL_ALLTOALL, 4097, 1, 0, "too many chunks"},
        {"a product that wraps around", CCL_ALLTOALL, 65536, UINT32_MAX, 0, "too many chunks"},
        {"a demand is needed", CCL_CUSTOM, 4, 1, 0, "demand"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_collective_t *coll;
        ck_assert_msg(ccl_collective_create(rows[i].kind, rows[i].nranks, rows[i].chunks,
                                            rows[i].root, &coll, &err) == CCL_ERR_INPUT,
                      "%s", rows[i].why);
        ck_assert_msg(strstr(err.text, rows[i].text), "%s: %s", rows[i].why, err.text);
    }
}
END_TEST

SUITE_MAIN("collectives", definitions, names, factors, refused)
