/* MSCCL XML: both dialects, attribute order, numbering, additions of ours. */
#include "suite.h"

#include <math.h>

static ccl_program_t *read_ok(const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p = NULL;
    check_ok(ccl_program_read_xml("in", text, strlen(text), &p, &err), &err);
    return p;
}

static void check_round_trip(const ccl_program_t *p) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t once = {0}, twice = {0};
    ccl_program_t *again;
    check_ok(ccl_program_write_xml(p, &once, &err), &err);
    check_ok(ccl_program_read_xml("once", once.data, once.len, &again, &err), &err);
    ck_assert(ccl_program_equal(p, again));
    check_ok(ccl_program_write_xml(again, &twice, &err), &err);
    ck_assert_str_eq(once.data, twice.data);
    ccl_text_fini(&once);
    ccl_text_fini(&twice);
    ccl_program_destroy(again);
}

#define STEP(s_, type_, src_, dst_, dep_)                                                          \
    "<step s='" s_ "' type='" type_ "' srcbuf='o' srcoff='" src_ "' dstbuf='o' dstoff='" dst_      \
    "' cnt='1' " dep_ "/>"
#define NO_DEP "depid='-1' deps='-1' hasdep='0'"
#define PAIR(attributes_)                                                                          \
    "<algo name='n' proto='LL' nchannels='2' nchunksperloop='2' ngpus='2' coll='allgather' "       \
    "inplace='1' " attributes_ ">"                                                                 \
    "<gpu id='0' i_chunks='0' o_chunks='2' s_chunks='0'><tb id='0' send='1' recv='1' "             \
    "chan='1'>" STEP("0", "s", "0", "0", NO_DEP)                                                   \
        STEP("1", "r", "1", "1", NO_DEP) "</tb></gpu>"                                             \
                                         "<gpu id='1' i_chunks='0' o_chunks='2' s_chunks='0'><tb " \
                                         "id='0' send='0' recv='0' chan='1'>" STEP("0", "s", "1",  \
                                                                                   "1", NO_DEP)    \
                                             STEP("1", "r", "0", "0", NO_DEP) "</tb></gpu></algo>"

START_TEST(dialects) {
    static const struct {
        const char *why, *text;
        bool in_place, out_of_place;
        double min_bytes, max_bytes;
    } rows[] = {
        {"old: out of place is the opposite of in place", PAIR(""), true, false, 0, 0},
        {"new: both are said", PAIR("outofplace='1' minBytes='5' maxBytes='1152921504606846976'"),
         true, true, 5, 0x1p60},
        {"TACCL's redop is skipped", PAIR("redop='nop'"), true, false, 0, 0},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = read_ok(rows[i].text);
        ck_assert_msg(p->in_place == rows[i].in_place && p->out_of_place == rows[i].out_of_place &&
                          p->min_bytes == rows[i].min_bytes && p->max_bytes == rows[i].max_bytes,
                      "%s", rows[i].why);
        ck_assert_str_eq(p->proto, "LL");
        ck_assert_uint_eq(p->nchannels, 2);
        ck_assert_uint_eq(p->nchunks, 2);
        ck_assert_int_eq(p->coll->kind, CCL_ALLGATHER);
        ck_assert_uint_eq(p->coll->chunks_per_block, 1);
        check_round_trip(p);
        ccl_program_destroy(p);
    }
}
END_TEST

START_TEST(writer_is_complete) {
    static const char *const wanted[] = {
        "name=\"n\"",     "proto=\"LL\"",       "nchannels=\"2\"", "nchunksperloop=\"2\"",
        "ngpus=\"2\"",    "coll=\"allgather\"", "inplace=\"1\"",   "outofplace=\"0\"",
        "minBytes=\"0\"", "maxBytes=\"0\"",     "i_chunks=\"0\"",  "o_chunks=\"2\"",
        "s_chunks=\"0\"", "send=\"1\"",         "recv=\"1\"",      "chan=\"1\"",
        "s=\"1\"",        "type=\"r\"",         "srcbuf=\"o\"",    "srcoff=\"1\"",
        "dstbuf=\"o\"",   "dstoff=\"1\"",       "cnt=\"1\"",       "depid=\"-1\"",
        "deps=\"-1\"",    "hasdep=\"0\""};
    ccl_program_t *p = read_ok(PAIR(""));
    ccl_text_t out = {0};
    ck_assert_int_eq(ccl_program_write_xml(p, &out, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(wanted); i++)
        ck_assert_msg(strstr(out.data, wanted[i]), "%s is missing", wanted[i]);
    ck_assert_ptr_null(strstr(out.data, "stage"));
    ck_assert_ptr_null(strstr(out.data, "root"));
    ccl_text_fini(&out);
    ccl_program_destroy(p);
}
END_TEST

/** GPUs and attributes in any order; `deps` names an s, not an index; -1 offsets of a nop. */
START_TEST(numbering) {
    ccl_program_t *p = read_ok(
        "<?xml version='1.0'?><!-- a comment -->\n"
        "<algo coll='reduce_scatter' inplace='0' ngpus='2' nchunksperloop='4' nchannels='1' "
        "proto='Simple' name='a&amp;&quot;b&#10;c'>\n"
        " <gpu s_chunks='3' o_chunks='2' i_chunks='4' id='1'>\n"
        "  <copy i_off='0' o_off='0'/>\n"
        "  <tb chan='0' recv='-1' send='-1' id='0'>\n"
        "   <step hasdep='0' deps='20' depid='1' cnt='0' dstoff='-1' dstbuf='o' srcoff='-1' "
        "srcbuf='i' type='nop' s='0'/>\n"
        "   <step s='1' type='re' srcbuf='input' srcoff='2' dstbuf='scratch' dstoff='1' cnt='2' "
        "depid='1' deps='5' hasdep='0' stage='3' colour='red'/>\n"
        "  </tb>\n"
        "  <tb id='1' send='-1' recv='0' chan='0'>\n"
        "   <step s='5' type='r' srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='1' depid='-1' "
        "deps='-1' hasdep='1'/>\n"
        "   <step s='20' type='r' srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='1' depid='-1' "
        "deps='-1' hasdep='1'/>\n"
        "   <step s='7' type='r' srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='1' depid='1' "
        "deps='20' hasdep='0'/>\n"
        "  </tb>\n </gpu>\n"
        " <gpu id='0' i_chunks='4' o_chunks='2' s_chunks='0'/>\n</algo>\n");
    ck_assert_str_eq(p->name, "a&\"b\nc");
    ck_assert_int_eq(p->coll->kind, CCL_REDUCESCATTER);
    ck_assert_uint_eq(p->coll->chunks_per_block, 2);
    ck_assert_uint_eq(p->ntbs, 2);
    ck_assert_uint_eq(p->rank_first_tb[1], 0);
    ck_assert_uint_eq(p->tbs[0].rank, 1);
    ck_assert_uint_eq(p->tbs[0].send_peer, CCL_NONE);
    ck_assert_uint_eq(p->tbs[1].recv_peer, 0);
    ck_assert_uint_eq(p->buffer_len[3 + CCL_BUF_SCRATCH], 3);
    static const uint32_t dep_tb[] = {1, 1, CCL_NONE, CCL_NONE, 1};
    static const uint32_t dep_step[] = {1, 0, CCL_NONE, CCL_NONE, 1};
    static const uint32_t s[] = {0, 1, 5, 20, 7};
    static const uint32_t line[] = {6, 7, 10, 11, 12};
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(p->steps[i].dep_tb, dep_tb[i]);
        ck_assert_uint_eq(p->steps[i].dep_step, dep_step[i]);
        ck_assert_uint_eq(p->marks[i].s, s[i]);
        ck_assert_uint_eq(p->marks[i].line, line[i]);
    }
    ck_assert_uint_eq(p->steps[0].src_off, 0);
    ck_assert_uint_eq(p->steps[1].stage, 3);
    ck_assert_uint_eq(p->steps[1].src_buf, CCL_BUF_INPUT);
    ck_assert_uint_eq(p->steps[1].dst_buf, CCL_BUF_SCRATCH);
    ck_assert_uint_eq(p->steps[1].src_off, 2);
    ck_assert_uint_eq(p->steps[1].dst_off, 1);
    ck_assert_uint_eq(p->steps[1].count, 2);
    ck_assert_uint_eq(p->steps[3].has_dep, 1);
    ck_assert_uint_eq(p->steps[4].has_dep, 0);
    check_round_trip(p);
    ccl_program_destroy(p);
}
END_TEST

#define KIND(coll_, chunks_, more_)                                                                \
    "<algo name='' proto='LL128' nchannels='1' nchunksperloop='" chunks_                           \
    "' ngpus='2' coll='" coll_ "' inplace='0' " more_                                              \
    "><gpu id='0' i_chunks='0' o_chunks='0' s_chunks='0'/>"                                        \
    "<gpu id='1' i_chunks='0' o_chunks='0' s_chunks='0'/></algo>"

START_TEST(collectives) {
    static const struct {
        const char *text;
        ccl_collective_kind_t kind;
        uint32_t chunks_per_block, root;
    } rows[] = {
        {KIND("allreduce", "3", ""), CCL_ALLREDUCE, 3, 0},
        {KIND("broadcast", "3", "root='1'"), CCL_BROADCAST, 3, 1},
        {KIND("reduce", "3", ""), CCL_REDUCE, 3, 0},
        {KIND("gather", "6", "root='1'"), CCL_GATHER, 3, 1},
        {KIND("scatter", "6", "root='1'"), CCL_SCATTER, 3, 1},
        {KIND("alltoall", "4", ""), CCL_ALLTOALL, 2, 0},
        {KIND("reducescatter", "4", ""), CCL_REDUCESCATTER, 2, 0},
        {KIND("sendrecv", "5", ""), CCL_SENDRECV, 5, 0},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = read_ok(rows[i].text);
        ck_assert_int_eq(p->coll->kind, rows[i].kind);
        ck_assert_uint_eq(p->coll->chunks_per_block, rows[i].chunks_per_block);
        ck_assert_uint_eq(p->coll->root, rows[i].root);
        check_round_trip(p);
        ccl_program_destroy(p);
    }
}
END_TEST

/** An AllToAllv-like demand and a scratch buffer with sizes of its own. */
START_TEST(custom_sizes) {
    ccl_program_t *p = read_ok(
        "<algo name='v' proto='Simple' nchannels='1' nchunksperloop='2' ngpus='2' coll='custom' "
        "inplace='0'><demand name='two'>"
        "<chunk sources='0' destinations='1' reduced='0' bytes='3000'/>"
        "<chunk sources='1 0' destinations='all' reduced='1' bytes='1K'/>"
        "<chunk sources='1' destinations='' reduced='0' bytes='0'/></demand>"
        "<gpu id='0' i_chunks='2' o_chunks='1' s_chunks='2' s_shares='0.25 1e-3'>"
        "<tb id='0' send='1' recv='-1' chan='0'>"
        "<step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0' cnt='2' depid='-1' "
        "deps='-1' hasdep='0'/></tb></gpu>"
        "<gpu id='1' i_chunks='2' o_chunks='2' s_chunks='0'/></algo>");
    const ccl_collective_t *coll = p->coll;
    ck_assert_int_eq(coll->kind, CCL_CUSTOM);
    ck_assert_str_eq(coll->name, "two");
    ck_assert_double_eq(coll->natural_bytes, 4024); /* both out of 0 and into 1 */
    ck_assert_uint_eq(coll->chunks[1].nsources, 2);
    ck_assert_uint_eq(coll->chunks[1].sources[0], 0);
    ck_assert_uint_eq(coll->chunks[1].ndests, 2);
    ck_assert_uint_eq(coll->chunks[2].ndests, 0);
    ck_assert_double_eq_tol(ccl_program_step_share(p, &p->tbs[0], &p->steps[0]), 1, 1e-12);
    ck_assert_double_eq(p->shares[CCL_BUF_SCRATCH][1], 1e-3);
    check_round_trip(p);
    ccl_program_destroy(p);
}
END_TEST

static const char switched[] =
    "<algo name='w' proto='Simple' nchannels='2' nchunksperloop='1' ngpus='4' coll='allreduce' "
    "inplace='1'><group ranks='0-1,3' id='0'/><group id='1' ranks='2'/>"
    "<gpu id='0' i_chunks='1' o_chunks='1' s_chunks='0'>"
    "<tb id='0' send='-1' recv='-1' multicast='0' pull='1' chan='1'>"
    "<step s='0' type='rcs' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/></tb>"
    "<tb id='1' send='2' recv='-1' take='0' chan='0'>"
    "<step s='0' type='rcs' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/></tb>"
    "<tb id='2' send='-1' recv='-1' chan='0'>"
    "<step s='0' type='rcs' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
    "deps='-1' hasdep='0' send='-1' recv='-1' chan='1' offer='0' take='3'/></tb>"
    "</gpu><gpu id='1' i_chunks='1' o_chunks='1' s_chunks='0'/>"
    "<gpu id='2' i_chunks='1' o_chunks='1' s_chunks='0'/>"
    "<gpu id='3' i_chunks='1' o_chunks='1' s_chunks='0'/></algo>";

/** Groups, and switch connections of blocks and of steps. */
START_TEST(switch_connections) {
    ccl_program_t *p = read_ok(switched);
    ck_assert_uint_eq(p->ngroups, 2);
    ck_assert_uint_eq(p->groups[0].n, 3);
    ck_assert_uint_eq(p->groups[0].ranks[2], 3);
    ck_assert_uint_eq(p->groups[1].ranks[0], 2);
    ck_assert_uint_eq(p->tbs[0].send_peer, CCL_PEER_GROUP);
    ck_assert_uint_eq(p->tbs[0].recv_peer, CCL_PEER_GROUP | 1);
    ck_assert_uint_eq(p->tbs[1].send_peer, 2);
    ck_assert_uint_eq(p->tbs[1].recv_peer, CCL_PEER_MEMBER);
    ck_assert_uint_eq(p->peers[2].send_peer, CCL_PEER_MEMBER);
    ck_assert_uint_eq(p->peers[2].recv_peer, CCL_PEER_MEMBER | 3);
    ck_assert_uint_eq(p->peers[2].channel, 1);
    check_round_trip(p);
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_program_write_xml(p, &text, &err), &err);
    static const char *const lines[] = {
        "\n  <group id=\"0\" ranks=\"0-1,3\"/>\n  <group id=\"1\" ranks=\"2\"/>\n  <gpu",
        "<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"1\" multicast=\"0\" pull=\"1\">",
        "<tb id=\"1\" send=\"2\" recv=\"-1\" chan=\"0\" take=\"0\">",
        " send=\"-1\" recv=\"-1\" chan=\"1\" offer=\"0\" take=\"3\"/>"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(lines); i++)
        ck_assert_msg(strstr(text.data, lines[i]), "%s", text.data);
    ccl_text_fini(&text);
    ccl_program_destroy(p);
}
END_TEST

/** 130,816 blocks: written and read in a moment. */
START_TEST(large_file) {
    enum { N = 256 };
    ccl_collective_t *coll;
    ccl_program_t *p;
    ccl_error_t err = CCL_ERROR_INIT;
    check_ok(ccl_collective_create(CCL_ALLGATHER, N, 1, 0, &coll, &err), &err);
    ccl_program_builder_t *b = ccl_program_builder_create("direct", coll, N, "Simple");
    for (uint32_t r = 0; r < N; r++) {
        for (uint32_t q = 0; q < N; q++) {
            if (q == r)
                continue;
            ccl_step_t s = {.src_off = r,
                            .dst_off = r,
                            .count = 1,
                            .dep_tb = CCL_NONE,
                            .dep_step = CCL_NONE,
                            .type = CCL_PRIM_S,
                            .src_buf = CCL_BUF_OUTPUT,
                            .dst_buf = CCL_BUF_OUTPUT};
            ccl_program_builder_step(b, ccl_program_builder_tb(b, r, q, CCL_NONE, 0), s);
            s.type = CCL_PRIM_R;
            s.src_off = s.dst_off = q;
            ccl_program_builder_step(b, ccl_program_builder_tb(b, r, CCL_NONE, q, 0), s);
        }
    }
    check_ok(ccl_program_builder_finish(b, &p, &err), &err);
    check_round_trip(p);
    ccl_program_destroy(p);
}
END_TEST

SUITE_MAIN("msccl_xml", dialects, writer_is_complete, numbering, collectives, custom_sizes,
           switch_connections, large_file)
