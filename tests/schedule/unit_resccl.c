/* ResCCLang: the paper's example, the language, and what is refused. */
#include "suite.h"

static ccl_schedule_t *read_ok(const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *s = NULL;
    check_ok(ccl_schedule_read_resccl("in", text, strlen(text), &s, &err), &err);
    return s;
}

/** Contributions that each rank holds of each chunk; a transfer reads what was there before its
 * step. */
static void check_allreduce(const ccl_schedule_t *s) {
    enum { N = 32 };
    static uint32_t held[N][N], next[N][N];
    ck_assert_uint_eq(s->coll->nranks, N);
    ck_assert_uint_eq(s->coll->nchunks, N);
    for (unsigned r = 0; r < N; r++) {
        for (unsigned k = 0; k < N; k++)
            held[r][k] = next[r][k] = 1u << r;
    }
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        uint32_t sent = held[t->src][t->chunk];
        if (i && t->step != s->transfers[i - 1].step) {
            memcpy(held, next, sizeof held);
            sent = held[t->src][t->chunk];
        }
        if (t->reduce)
            ck_assert_msg(!(next[t->dst][t->chunk] & sent), "transfer %u adds twice", i);
        next[t->dst][t->chunk] = t->reduce ? next[t->dst][t->chunk] | sent : sent;
    }
    for (unsigned r = 0; r < N; r++) {
        for (unsigned k = 0; k < N; k++)
            ck_assert_uint_eq(next[r][k], UINT32_MAX);
    }
}

/** Figure 16 with its two lost lines: a correct hierarchical-mesh AllReduce of 32 GPUs. */
START_TEST(figure_16) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_schedule_t *s;
    check_ok(ccl_schedule_read(CCLLAB_SOURCE_DIR "/tests/schedule/data/hm_allreduce_32.resccl", &s,
                               &err),
             &err);
    ck_assert_str_eq(s->name, "HM");
    ck_assert_int_eq(s->coll->kind, CCL_ALLREDUCE);
    /* 32 ranks: 4 x 7 local sends, 3 to the next server; then the same way back. */
    ck_assert_uint_eq(s->ntransfers, 32 * (4 * 7 + 3) * 2);
    ck_assert_uint_eq(s->nsteps, 4 * 7 + 3 + 3 + 4);
    uint32_t reduces = 0;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        reduces += s->transfers[i].reduce;
        ck_assert_uint_eq(s->transfers[i].phase, !s->transfers[i].reduce);
    }
    ck_assert_uint_eq(reduces, s->ntransfers / 2);
    /* Rank 9 (server 1, GPU 1) at base step 2, offset 3: step 2 * 7 + 3, to GPU 5, its chunk of
       server 3. */
    bool found = false;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        found =
            found || (t->src == 9 && t->dst == 13 && t->step == 17 && t->chunk == 29 && t->reduce);
    }
    ck_assert(found);
    check_allreduce(s);
    ccl_verdict_t verdict;
    check_ok(ccl_schedule_verify(NULL, s, &verdict, &err), &err);
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    ccl_schedule_destroy(s);
}
END_TEST

#define ALGO "def ResCCLAlgo(nRanks=8, OpType=\"Allgather\"):\n"
/* The value of an expression is told by the chunk of a transfer. */
#define VALUE(e_) ALGO "  transfer(0, 1, 0, " e_ ", recv)\n"

START_TEST(expressions) {
    static const struct {
        const char *text;
        uint32_t value;
    } rows[] = {
        {VALUE("1 + 2 * 3"), 7},
        {VALUE("(1 + 1) * 3"), 6},
        {VALUE("7 - 2 - 1"), 4},
        {VALUE("7 / 2"), 3},
        {VALUE("7 // 2"), 3},
        {VALUE("-7 / 2 + 5"), 1},
        {VALUE("-7 % 4"), 1},
        {VALUE("7 % -4 + 5"), 4},
        {VALUE("8 / 4 * 2"), 4},
        {VALUE("--3"), 3},
        {VALUE("+3 - -1"), 4},
        {VALUE("nRanks - 1"), 7},
        {VALUE("2 * (3 -\n (1 + 1)\n)"), 2},
        {VALUE("0 * (9223372036854775807 - 1) + 5"), 5},
        {VALUE("(0-9223372036854775807-1) % -1 + 2"), 2},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_schedule_t *s = read_ok(rows[i].text);
        ck_assert_msg(s->transfers[0].chunk == rows[i].value, "%s gives %u", rows[i].text,
                      s->transfers[0].chunk);
        ccl_schedule_destroy(s);
    }
}
END_TEST

START_TEST(loops_and_layout) {
    static const struct {
        const char *why, *text, *chunks;
    } rows[] = {
        {"range(stop)", ALGO " for i in range(3): transfer(0, 1, i, i, recv)", "012"},
        {"range(start, stop)", ALGO " for i in range(2, 5): transfer(0, 1, i, i, recv)\n", "234"},
        {"a step", ALGO " for i in range(1, 8, 3):\n  transfer(0, 1, i, i, recv)\n", "147"},
        {"downwards", ALGO " for i in range(3, 0, -1):\n  transfer(0, 1, 3 - i, i, recv)\n", "321"},
        {"an empty range", ALGO " for i in range(2, 2): transfer(0, 1, i, i, recv)\n", ""},
        {"the range is fixed at the start",
         ALGO " n = 2\n for i in range(n):\n  n = 5\n  transfer(0, 1, i, i, recv)\n  i = 7\n",
         "01"},
        {"a loop variable outlives its loop",
         ALGO " for i in range(3):\n  x = i\n transfer(0, 1, 0, i + x, recv)\n", "4"},
        {"nested blocks end together; comments and blank lines do not count",
         ALGO
         "\t# tab\n\tfor i in range(2):\n\n\t\tfor j in range(2):\n# left\n"
         "\t\t\ttransfer(0, 1, 2*i+j, 2*i+j, recv)   # right\n\r\n\ttransfer(1, 2, 9, 5, recv)",
         "01235"},
        {"named arguments in any order",
         "def ResCCLAlgo(OpType='Allgather', AlgoName='x', nRanks=4):\n"
         " Transfer(chunkId=2, dstRank=1, srcRank=0, commType=recv, step=0)\n"
         " transfer(0, 1, 1, 3, opType=\"recv\")\n",
         "23"},
        {"arguments in order, as figure 14 lists them",
         "ResCCLAlgo(4, 2, 16, \"HM\", \"Reducescatter\", 8, 8):\n transfer(0, 1, 0, GPUPerNode - "
         "6, "
         "\"rrc\")\n",
         "2"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_schedule_t *s = read_ok(rows[i].text);
        ck_assert_msg(s->ntransfers == strlen(rows[i].chunks), "%s: %u transfers", rows[i].why,
                      s->ntransfers);
        for (uint32_t k = 0; k < s->ntransfers; k++)
            ck_assert_msg(s->transfers[k].chunk == (uint32_t)(rows[i].chunks[k] - '0'), "%s",
                          rows[i].why);
        ccl_schedule_destroy(s);
    }
}
END_TEST

static const bad_row_t rows[] = {
    {"nothing", "", 1, 1, "the end of the file instead of 'def ResCCLAlgo(...)'"},
    {"another function", "def Algo(nRanks=4):", 1, 5, "'Algo' instead of"},
    {"no ranks", "def ResCCLAlgo(OpType=Allgather):\n x = 1", 1, 32, "lacks nRanks"},
    {"no operation", "def ResCCLAlgo(nRanks=4):\n x = 1", 1, 24, "lacks OpType"},
    {"an operation that is not in the language", "def ResCCLAlgo(nRanks=4, OpType=Alltoall):", 1,
     33, "Allgather, Allreduce or Reducescatter"},
    {"a parameter twice", "def ResCCLAlgo(nRanks=4, nRanks=4):", 1, 26, "nRanks is given twice"},
    {"an unknown parameter", "def ResCCLAlgo(ranks=4):", 1, 16, "unknown argument 'ranks'"},
    {"order after names", "def ResCCLAlgo(nRanks=4, 3):", 1, 26, "without a name after"},
    {"0 ranks", "def ResCCLAlgo(nRanks=0):", 1, 23, "nRanks must be an integer from 1"},
    {"nothing indented", ALGO "transfer(0, 1, 0, 0, recv)\n", 2, 1, "instead of an indented block"},
    {"a block that ends in between", ALGO "    for i in range(2):\n        x = 1\n      y = 2\n", 4,
     7, "the indentation matches no enclosing block"},
    {"a block too deep", ALGO " x = 1\n   y = 2\n", 3, 4, "a deeper block instead of"},
    {"text after the algorithm", ALGO " x = 1\ny = 2\n", 3, 1, "'y' after the end"},
    {"send", ALGO " transfer(0, 1, 0, 0, send)\n", 2, 23, "recv or rrc, not by send"},
    {"an unknown type", ALGO " transfer(0, 1, 0, 0, copy)\n", 2, 23, "'copy' instead of recv"},
    {"four arguments", ALGO " transfer(0, 1, 0, 0)\n", 2, 21, "lacks its argument commType"},
    {"six arguments", ALGO " transfer(0, 1, 0, 0, recv, 7)\n", 2, 29, "more than 5 arguments"},
    {"an argument twice", ALGO " transfer(0, 1, 0, 0, srcRank=1)\n", 2, 23,
     "srcRank is given twice"},
    {"a word of the language as a name", ALGO " range = 1\n", 2, 2, "'range' instead of an assign"},
    {"a fraction", ALGO " x = 1.5\n", 2, 6, "only integers"},
    {"a number of 64 bits and more", ALGO " x = 9223372036854775808\n", 2, 6, "64 bits"},
    {"a string that does not end", "def ResCCLAlgo(nRanks=2, OpType=\"All\n", 1, 33,
     "does not end"},
    {"a parenthesis that does not close", ALGO " x = (1 + 2\n y = 3\n", 3, 2, "'y' instead of ')'"},
    {"an operand is missing", ALGO " x = 1 +\n", 2, 9, "the end of the line instead of a number"},
    {"two statements", ALGO " x = 1 y = 2\n", 2, 8, "'y' after the end of the statement"},
    {"an unknown sign", ALGO " x = 1 ^ 2\n", 2, 8, "unexpected character '^'"},
    {"a byte that is no text", ALGO " x = \xff\n", 2, 6, "unexpected byte 0xff"},
    {"range of four", ALGO " for i in range(1, 2, 3, 4): x = 1\n", 2, 24, "at most 3"},
    {"no value yet", ALGO " x = y\n", 2, 6, "variable 'y' has no value yet"},
    {"division by zero", ALGO " x = 4 / (nRanks - 8)\n", 2, 8, "division by zero"},
    {"remainder of zero", ALGO " x = 4 % 0\n", 2, 8, "division by zero"},
    {"a sum too large", ALGO " x = 9223372036854775807 + 1\n", 2, 26, "64 bits"},
    {"a product too large", ALGO " x = 4294967296 * 4294967296\n", 2, 17, "64 bits"},
    {"a quotient too large", ALGO " x = (0 - 9223372036854775807 - 1) / -1\n", 2, 36, "64 bits"},
    {"a negation too large", ALGO " x = -(0 - 9223372036854775807 - 1)\n", 2, 6, "64 bits"},
    {"a range that runs backwards", ALGO " for i in range(3, 1): x = 1\n", 2, 2,
     "the range from 3 to 1 in steps of 1 is negative"},
    {"a range that never ends", ALGO " for i in range(1, 3, 0): x = 1\n", 2, 2,
     "step of the range is 0"},
    {"a range wider than 64 bits",
     ALGO " for i in range(0-9223372036854775807, 9223372036854775807): x = 1\n", 2, 2, "negative"},
    {"loops without an end in sight",
     ALGO " for i in range(1000000000):\n  for j in range(1000000000): x = j\n", 3, 3,
     "runs too long"},
    {"a source that is no rank", ALGO " transfer(8, 1, 0, 0, recv)\n", 2, 2,
     "source rank is 8: from 0 to 7"},
    {"a negative chunk", ALGO " transfer(0, 1, 0, 0 - 1, recv)\n", 2, 2, "chunk is -1"},
    {"a negative step", ALGO " transfer(0, 1, 3 - 4, 0, recv)\n", 2, 2, "step is -1"},
    {"a step beyond any bound", ALGO " transfer(0, 1, 16777216, 0, recv)\n", 2, 2,
     "step is 16777216"},
    {"a rank to itself", ALGO " transfer(1, 1, 0, 3, recv)\n", 2, 2,
     "rank 1 sends chunk 3 to itself"},
};

START_TEST(refused) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *s;
        ccl_status_t status =
            ccl_schedule_read_resccl("in", rows[i].input, strlen(rows[i].input), &s, &err);
        check_bad(&rows[i], status, &err);
    }
}
END_TEST

/** Depth and length that would overflow a stack, were they followed by recursion. */
START_TEST(deep_and_long) {
    static const struct {
        const char *open, *close;
        bool ok;
    } rows_of[] = {
        {"(", ")", false}, {"-", "", false}, {"1 + ", "", true}, {"1 + (1) * ", "", true}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows_of); i++) {
        ccl_text_t text = {0};
        ccl_schedule_t *s = NULL;
        ccl_text_printf(&text, ALGO " x = ");
        for (int k = 0; k < 200000; k++)
            ccl_text_add(&text, rows_of[i].open, strlen(rows_of[i].open));
        ccl_text_printf(&text, "1");
        for (int k = 0; k < 200000; k++)
            ccl_text_add(&text, rows_of[i].close, strlen(rows_of[i].close));
        ccl_text_printf(&text, "\n");
        ck_assert_int_eq(ccl_schedule_read_resccl("in", text.data, text.len, &s, NULL),
                         rows_of[i].ok ? CCL_OK : CCL_ERR_INPUT);
        ccl_schedule_destroy(s);
        ccl_text_fini(&text);
    }
    ccl_text_t text = {0};
    ccl_schedule_t *s;
    ccl_text_printf(&text, ALGO);
    for (int k = 1; k < 3000; k++)
        ccl_text_printf(&text, "%*sfor i in range(1):\n", k, "");
    ck_assert_int_eq(ccl_schedule_read_resccl("in", text.data, text.len, &s, NULL), CCL_ERR_INPUT);
    ccl_text_fini(&text);
}
END_TEST

SUITE_MAIN("resccl", figure_16, expressions, loops_and_layout, refused, deep_and_long)
