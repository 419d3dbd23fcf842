/* MSCCL XML that must be refused, with the place and the reason. */
#include "suite.h"

#define ALGO(n_, coll_, chunks_)                                                                   \
    "<algo name='n' proto='Simple' nchannels='2' nchunksperloop='" chunks_ "' ngpus='" n_          \
    "' coll='" coll_ "' inplace='0'>\n"
#define GPU(id_) "<gpu id='" id_ "' i_chunks='2' o_chunks='2' s_chunks='0'>\n"
#define REST "</tb></gpu>" GPU("1") "</gpu></algo>"
#define HEAD ALGO("2", "allreduce", "2") GPU("0") "<tb id='0' send='1' recv='-1' chan='0'>\n"
#define STEP(s_, type_, buf_, off_, cnt_, depid_, deps_)                                           \
    "<step s='" s_ "' type='" type_ "' srcbuf='" buf_ "' srcoff='" off_                            \
    "' dstbuf='o' dstoff='0' cnt='" cnt_ "' depid='" depid_ "' deps='" deps_ "' hasdep='0'/>\n"
#define NO_PEER ALGO("2", "allreduce", "2") GPU("0") "<tb id='0' send='-1' recv='-1' chan='0'>\n"
#define SHARED(peers_)                                                                             \
    "<step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0' cnt='1' depid='-1' "         \
    "deps='-1' hasdep='0' " peers_ "/>\n"
#define ONE(step_) HEAD step_ REST
#define DEMAND(chunk_)                                                                             \
    ALGO("2", "custom", "2")                                                                       \
    "<demand name='d'>\n" chunk_ "\n</demand>" GPU("0") "</gpu>" GPU("1") "</gpu></algo>"

#define GROUPS(groups_) ALGO("2", "allreduce", "2") groups_ GPU("0")
#define GROUP "<group id='0' ranks='0-1'/>\n"
#define SWITCHED(tb_) GROUPS(GROUP) "<tb id='0' chan='0' " tb_ "/></gpu>" GPU("1") "</gpu></algo>"

static const bad_row_t rows[] = {
    {"empty", "", 1, 1, "not well-formed XML: no element found"},
    {"not XML", "{}", 1, 1, "not well-formed"},
    {"a second root", ALGO("1", "allreduce", "1") GPU("0") "</gpu></algo>\n<algo/>", 4, 1,
     "junk after document element"},
    {"an attribute twice", "<algo name='a' name='b'/>", 1, 16, "duplicate attribute"},
    {"another format", "<graphs/>", 1, 1, "an MSCCL program starts with algo"},
    {"document types, and so entities, are refused", "<!DOCTYPE a [<!ENTITY x 'y'>]>\n<algo/>", 1,
     13, "document type"},
    {"an undefined entity", "<algo name='&x;'/>", 1, 1, "undefined entity"},
    {"text between elements", ALGO("1", "allreduce", "1") "hello", 2, 1, "text between"},
    {"an attribute is missing", "<algo name='a' proto='LL'/>", 1, 1, "lacks the attribute 'nchan"},
    {"unknown protocol",
     "<algo name='a' proto='ll' nchannels='1' nchunksperloop='1' ngpus='1' coll='allreduce' "
     "inplace='0'/>",
     1, 1, "proto 'll': Simple, LL or LL128"},
    {"no GPU", ALGO("0", "allreduce", "1"), 1, 1, "ngpus '0': an integer from 1 to 4096"},
    {"a number that is none", ALGO("2x", "allreduce", "1"), 1, 1, "ngpus '2x'"},
    {"a number beyond 64 bits", ALGO("99999999999999999999", "allreduce", "1"), 1, 1, "ngpus"},
    {"no chunk", ALGO("2", "allreduce", "0"), 1, 1, "nchunksperloop '0'"},
    {"unknown collective", ALGO("2", "allswap", "2"), 1, 1, "coll 'allswap' is not supported"},
    {"chunks do not divide", ALGO("2", "allgather", "3"), 1, 1, "3 is not a multiple of ngpus 2"},
    {"inplace is a flag",
     "<algo name='a' proto='LL' nchannels='1' nchunksperloop='1' ngpus='1' coll='allreduce' "
     "inplace='2'/>",
     1, 1, "inplace '2'"},
    {"bytes beyond 2^63",
     "<algo name='a' proto='LL' nchannels='1' nchunksperloop='1' ngpus='1' coll='allreduce' "
     "inplace='1' maxBytes='99999999999999999999'/>",
     1, 1, "maxBytes"},
    {"root is no rank",
     "<algo name='a' proto='LL' nchannels='1' nchunksperloop='1' ngpus='1' coll='reduce' "
     "inplace='1' root='1'/>",
     1, 1, "root '1'"},
    {"fewer GPUs than ngpus", ALGO("2", "allreduce", "2") GPU("0") "</gpu></algo>", 1, 1,
     "ngpus is 2, but 1 gpu elements follow"},
    {"a GPU that is no rank", ALGO("2", "allreduce", "2") GPU("2"), 2, 1, "gpu id '2'"},
    {"a GPU twice", ALGO("2", "allreduce", "2") GPU("0") "</gpu>\n" GPU("0"), 4, 1,
     "gpu 0 is described twice"},
    {"a block out of order",
     ALGO("2", "allreduce", "2") GPU("0") "<tb id='1' send='1' recv='-1' "
                                          "chan='0'>",
     3, 1, "tb id 1 of gpu 0: ids count from 0 in the order of the file, 0 is next"},
    {"a peer that is no rank",
     ALGO("2", "allreduce", "2") GPU("0") "<tb id='0' send='2' recv='-1' "
                                          "chan='0'>",
     3, 1, "tb send '2'"},
    {"a block that sends to its own GPU",
     ALGO("2", "allreduce", "2") GPU("0") "<tb id='0' send='-1' recv='0' chan='0'>", 3, 1,
     "tb recv is its own gpu 0"},
    {"a channel beyond nchannels",
     ALGO("2", "allreduce", "2") GPU("0") "<tb id='0' send='-1' recv='1' chan='2'>", 3, 1,
     "chan '2': an integer from 0 to 1"},
    {"an element out of place", ALGO("2", "allreduce", "2") "<step/>", 2, 1, "algo holds gpu"},
    {"a step in a step",
     HEAD "<step s='0' type='nop' srcbuf='i' srcoff='-1' dstbuf='o' "
          "dstoff='-1' cnt='0' depid='-1' deps='-1' hasdep='0'>\n<step/>",
     5, 1, "step holds nothing"},
    {"unknown type", ONE(STEP("0", "send", "i", "0", "1", "-1", "-1")), 4, 1, "step type 'send'"},
    {"unknown buffer", ONE(STEP("0", "s", "x", "0", "1", "-1", "-1")), 4, 1, "srcbuf 'x'"},
    {"a step's own peer in a block that has one", HEAD SHARED("send='1' recv='-1' chan='0'") REST,
     4, 1, "step send, recv and chan are for a tb with send -1 and recv -1"},
    {"a step with half of its connections", NO_PEER SHARED("send='1' recv='-1'") REST, 4, 1,
     "step lacks chan: send, recv and chan come together"},
    {"a step that sends to its own gpu", NO_PEER SHARED("send='0' recv='-1' chan='0'") REST, 4, 1,
     "step send is its own gpu 0"},
    {"a step that sends to no gpu", NO_PEER SHARED("send='2' recv='-1' chan='0'") REST, 4, 1,
     "step send '2'"},
    {"a step on a channel beyond nchannels", NO_PEER SHARED("send='1' recv='-1' chan='2'") REST, 4,
     1, "step chan '2'"},
    {"a step that sends to nobody", NO_PEER SHARED("send='-1' recv='1' chan='0'") REST, 4, 1,
     "sends, but its tb has send -1"},
    {"an offset below 0", ONE(STEP("0", "s", "i", "-1", "1", "-1", "-1")), 4, 1, "srcoff '-1'"},
    {"an offset of 2^31", ONE(STEP("0", "s", "i", "2147483648", "1", "-1", "-1")), 4, 1,
     "srcoff '2147483648'"},
    {"a range that ends beyond 2^31", ONE(STEP("0", "s", "i", "2147483647", "1", "-1", "-1")), 4, 1,
     "beyond 2^31"},
    {"a send of nothing", ONE(STEP("0", "s", "i", "0", "0", "-1", "-1")), 4, 1, "cnt 0"},
    {"half a dependency", ONE(STEP("0", "s", "i", "0", "1", "0", "-1")), 4, 1, "both or neither"},
    {"a receive in a block that only sends", ONE(STEP("0", "r", "i", "0", "1", "-1", "-1")), 4, 1,
     "receives, but its tb has recv -1"},
    {"a dependency on no block", ONE(STEP("0", "s", "i", "0", "1", "4", "0")), 4, 0,
     "step depid 4: gpu 0 has 1 tbs"},
    {"a dependency on no step", ONE(STEP("0", "s", "i", "0", "1", "0", "3")), 4, 0,
     "step deps 3: tb 0 of gpu 0 has no step with that s"},
    {"no step with that s, where s has gaps", ONE(STEP("4", "s", "i", "0", "1", "0", "0")), 4, 0,
     "step deps 0: tb 0"},
    {"two steps with one s",
     ONE(STEP("3", "s", "i", "0", "1", "-1", "-1") STEP("3", "s", "i", "0", "1", "-1", "-1")), 5, 0,
     "two steps with s 3"},
    {"custom without a demand", ALGO("1", "custom", "2") GPU("0") "</gpu></algo>", 1, 1,
     "without a demand element"},
    {"a demand of a known collective", ALGO("2", "allreduce", "2") "<demand name='d'>", 2, 1,
     "a demand needs coll custom"},
    {"a demand's rank", DEMAND("<chunk sources='0' destinations='2' reduced='0' bytes='1'/>"), 3, 1,
     "chunk destinations: 'all', or different ranks from 0 to 1"},
    {"a rank twice", DEMAND("<chunk sources='0 0' destinations='1' reduced='1' bytes='1'/>"), 3, 1,
     "named twice"},
    {"two sources without a reduction",
     DEMAND("<chunk sources='0 1' destinations='1' reduced='0' bytes='1'/>"), 3, 1,
     "must be reduced"},
    {"a chunk for nobody", DEMAND("<chunk sources='0' destinations='' reduced='0' bytes='1'/>"), 3,
     1, "without a destination"},
    {"negative bytes", DEMAND("<chunk sources='0' destinations='1' reduced='0' bytes='-1'/>"), 3, 1,
     "chunk bytes"},
    {"a demand of nothing", DEMAND("<chunk sources='0' destinations='1' reduced='0' bytes='0'/>"),
     2, 1, "nothing to do"},
    {"buffers unlike the demand",
     DEMAND("<chunk sources='0' destinations='1' reduced='0' bytes='1'/>"), 1, 1,
     "gpu 0 i_chunks 2 without i_shares: the demand gives it 1"},
    {"too few shares",
     ALGO("1", "allreduce",
          "2") "<gpu id='0' i_chunks='2' o_chunks='0' s_chunks='0' i_shares='1'/></algo>",
     2, 1, "gpu i_shares: 2 numbers"},
    {"shares of some buffers",
     ALGO("1", "allreduce",
          "2") "<gpu id='0' i_chunks='2' o_chunks='2' s_chunks='0' i_shares='.5 .5'/></algo>",
     1, 1, "gpu 0 lacks o_shares"},
    {"a group out of order", GROUPS("<group id='1' ranks='0'/>"), 2, 1,
     "group id 1: ids count from 0 in the order of the file, 0 is next"},
    {"a group without ranks", GROUPS("<group id='0' ranks=''/>"), 2, 1,
     "group ranks '': ascending ranks from 0 to 1 and ranges of them, as in 0-3,5, are needed"},
    {"a group's rank that is none", GROUPS("<group id='0' ranks='0,2'/>"), 2, 1, "ranks '0,2'"},
    {"a range beyond the ranks", GROUPS("<group id='0' ranks='0-2'/>"), 2, 1, "ranks '0-2'"},
    {"ranks not ascending", GROUPS("<group id='0' ranks='1,0'/>"), 2, 1, "ranks '1,0'"},
    {"a rank of a group twice", GROUPS("<group id='0' ranks='0-1,1'/>"), 2, 1, "ranks '0-1,1'"},
    {"a range backwards", GROUPS("<group id='0' ranks='1-0'/>"), 2, 1, "ranks '1-0'"},
    {"a comma too many", GROUPS("<group id='0' ranks='0,'/>"), 2, 1, "ranks '0,'"},
    {"blanks in a group's ranks", GROUPS("<group id='0' ranks='0, 1'/>"), 2, 1, "ranks '0, 1'"},
    {"a negative rank", GROUPS("<group id='0' ranks='-1'/>"), 2, 1, "ranks '-1'"},
    {"two equal groups", GROUPS(GROUP "<group id='1' ranks='0,1'/>"), 3, 1,
     "group 1 has the ranks of group 0"},
    {"a group behind a gpu",
     ALGO("2", "allreduce", "2") GPU("0") "</gpu>\n<group id='0' ranks='0'/>", 4, 1,
     "group 0 stands after a gpu"},
    {"a group in a gpu", ALGO("2", "allreduce", "2") GPU("0") "<group id='0' ranks='0'/>", 3, 1,
     "gpu holds tb"},
    {"two peers of one side", SWITCHED("send='1' recv='-1' multicast='0'"), 4, 1,
     "tb multicast 0 beside another peer: only one of send (else -1), multicast, offer"},
    {"two switch connections of one side", SWITCHED("send='-1' recv='-1' pull='0' take='1'"), 4, 1,
     "tb take 1 beside another peer: only one of recv (else -1), pull, take"},
    {"a switch connection without send", SWITCHED("multicast='0' recv='-1'"), 4, 1,
     "tb lacks the attribute 'send'"},
    {"a group that is none", SWITCHED("send='-1' recv='-1' multicast='1'"), 4, 1,
     "tb multicast '1': an integer from 0 to 0 is needed"},
    {"a multicast without groups",
     ALGO("2", "allreduce", "2") GPU("0") "<tb id='0' send='-1' recv='-1' chan='0' multicast='0'/>",
     3, 1, "tb multicast '0': algo has no group"},
    {"an offer to no rank", SWITCHED("send='-1' recv='-1' offer='2'"), 4, 1, "tb offer '2'"},
    {"a step's switch connection without send", NO_PEER SHARED("offer='0'") REST, 4, 1,
     "step lacks send: send, recv and chan come together"},
    {"two peers of a step's side", NO_PEER SHARED("send='1' recv='-1' chan='0' offer='0'") REST, 4,
     1, "step offer 0 beside another peer"},
    {"a step's peer in a block with a switch connection",
     ALGO("2", "allreduce", "2")
         GROUP GPU("0") "<tb id='0' send='-1' recv='-1' chan='0' "
                        "multicast='0'>\n" SHARED("send='1' recv='-1' chan='0'") REST,
     5, 1, "step send, recv and chan are for a tb with send -1 and recv -1"},
    {"a huge buffer of a small file",
     ALGO(
         "1", "allreduce",
         "2") "<gpu id='0' i_chunks='2147483647' o_chunks='0' s_chunks='0' i_shares='1 1'/></algo>",
     2, 1, "2147483647 numbers"},
};

START_TEST(refused) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_program_t *p;
        ccl_status_t status =
            ccl_program_read_xml("in", rows[i].input, strlen(rows[i].input), &p, &err);
        check_bad(&rows[i], status, &err);
    }
}
END_TEST

/** Every prefix of a good file is refused, none is read as something else. */
START_TEST(cut_off) {
    static const char text[] = ONE(STEP("0", "s", "i", "0", "1", "-1", "-1"));
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p;
    check_ok(ccl_program_read_xml("in", text, sizeof text - 1, &p, &err), &err);
    ccl_program_destroy(p);
    for (size_t len = 0; len < sizeof text - 1; len++)
        ck_assert_int_eq(ccl_program_read_xml("in", text, len, &p, NULL), CCL_ERR_INPUT);
}
END_TEST

START_TEST(no_file) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p;
    ck_assert_int_eq(ccl_program_read("/nonexistent/x.xml", &p, &err), CCL_ERR_IO);
}
END_TEST

SUITE_MAIN("msccl_xml", refused, cut_off, no_file)
