/* Verdicts on small programs and schedules: each kind of fault, its place and its words. */
#include "schedule/schedule.h"
#include "tests/base/main.h"

#include <stdlib.h>
#include <string.h>

#define NONE CCL_NONE

/* "n" in a template is the number of chunks, in a file ready for all executors. */
#define ALGO(coll_, n_, place_)                                                                    \
    "<algo name='t' proto='Simple' nchannels='1' nchunksperloop='" n_ "' ngpus='2' coll='" coll_   \
    "' " place_ " minBytes='0' maxBytes='0'>\n"
#define IN_PLACE "inplace='1' outofplace='0'"
#define OUT_OF_PLACE "inplace='0' outofplace='1'"
#define BOTH "inplace='1' outofplace='1'"
#define GPU(id_, i_, o_, s_)                                                                       \
    "<gpu id='" id_ "' i_chunks='" i_ "' o_chunks='" o_ "' s_chunks='" s_ "'>\n"
#define TB(id_, send_, recv_) "<tb id='" id_ "' send='" send_ "' recv='" recv_ "' chan='0'>\n"
#define STEP(s_, type_, sb_, so_, db_, do_, cnt_, depid_, deps_, has_)                             \
    "<step s='" s_ "' type='" type_ "' srcbuf='" sb_ "' srcoff='" so_ "' dstbuf='" db_             \
    "' dstoff='" do_ "' cnt='" cnt_ "' depid='" depid_ "' deps='" deps_ "' hasdep='" has_ "'/>\n"
#define PLAIN(s_, type_, sb_, so_, db_, do_)                                                       \
    STEP(s_, type_, sb_, so_, db_, do_, "1", "-1", "-1", "0")

/* AllReduce of one chunk between two ranks: rank 1 sends, rank 0 adds and sends back. */
#define PAIR_0(steps_) GPU("0", "1", "1", "1") TB("0", "1", "1") steps_ "</tb></gpu>\n"
#define PAIR_1(steps_) GPU("1", "1", "1", "1") TB("0", "0", "0") steps_ "</tb></gpu>\n"
#define ADD_SEND PLAIN("0", "rrcs", "i", "0", "i", "0")
#define SEND_GET PLAIN("0", "s", "i", "0", "i", "0") PLAIN("1", "r", "i", "0", "i", "0")

static const struct row {
    const char *why, *xml, *kind;
    uint32_t rank, tb, step, chunk;
    const char *text; /* part of the fault's or first warning's text */
} rows[] = {
    {"two ranks add up",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(ADD_SEND) PAIR_1(SEND_GET) "</algo>", NULL, NONE, NONE,
     NONE, NONE, NULL},
    {"the result of rank 0 lies in the input, so out of place it is missing",
     ALGO("allreduce", "1", OUT_OF_PLACE) PAIR_0(ADD_SEND) PAIR_1(SEND_GET) "</algo>", "missing", 0,
     NONE, NONE, 0, "chunk 0 is missing: nothing was written"},
    {"right out of place, wrong in place: the input is overwritten before it is sent",
     ALGO("alltoall", "2", BOTH) GPU("0", "2", "2", "0") TB("0", "1", "1")
         PLAIN("0", "cpy", "i", "0", "o", "0") PLAIN("1", "s", "i", "1", "o", "0")
             PLAIN("2", "r", "i", "0", "o", "1") "</tb></gpu>" GPU("1", "2", "2", "0")
                 TB("0", "0", "0") PLAIN("0", "cpy", "i", "1", "o", "1")
                     PLAIN("1", "cpy", "i", "0", "o", "0") PLAIN("2", "s", "i", "0", "o", "1")
                         PLAIN("3", "r", "i", "0", "o", "0") "</tb></gpu></algo>",
     NULL, NONE, NONE, NONE, NONE, NULL},
    {"an exchange through the output first: the own input is lost in place",
     ALGO("alltoall", "2", BOTH) GPU("0", "2", "2", "0") TB("0", "1", "1")
         PLAIN("0", "s", "i", "1", "o", "0") PLAIN("1", "r", "i", "0", "o", "1") PLAIN(
             "2", "cpy", "i", "0", "o", "0") "</tb></gpu>" GPU("1", "2", "2", "0") TB("0", "0", "0")
             PLAIN("0", "r", "i", "0", "o", "0") PLAIN("1", "s", "i", "0", "o", "1")
                 PLAIN("2", "cpy", "i", "1", "o", "1") "</tb></gpu></algo>",
     "alias", 0, 0, 1, 2,
     "in place: rank 0 block 0 step 1 (line 5): at the end chunk 2 is missing"},
    {"rank 1 keeps its own sum",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(PLAIN("0", "rrc", "i", "0", "i", "0"))
         PAIR_1(PLAIN("0", "s", "i", "0", "i", "0")) "</algo>",
     "missing", 1, NONE, NONE, 0, "chunk 0 lacks the contribution of rank 0"},
    {"added twice",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(PLAIN("0", "rrc", "i", "0", "i", "0")
                                                 PLAIN("1", "rrc", "i", "0", "i", "0"))
         PAIR_1(PLAIN("0", "s", "i", "0", "i", "0") PLAIN("1", "s", "i", "0", "i", "0")) "</algo>",
     "twice", 0, 0, 1, 0,
     "rank 0 block 0 step 1 (line 5): adds the contribution of rank 1 to chunk 0"},
    {"re of an element onto itself adds it twice",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(PLAIN("0", "re", "i", "0", "i", "0"))
         PAIR_1("") "</algo>",
     "twice", 0, 0, 0, 0, "adds the contribution of rank 0 to chunk 0 twice"},
    {"another chunk added",
     ALGO("allreduce", "2", IN_PLACE) GPU("0", "2", "0", "0") TB("0", "1", "1")
         PLAIN("0", "rrc", "i", "0", "i", "0") "</tb></gpu>" GPU("1", "2", "0", "0")
             TB("0", "0", "0") PLAIN("0", "s", "i", "1", "i", "1") "</tb></gpu></algo>",
     "mixed", 0, 0, 0, 0, "rank 0 block 0 step 0 (line 4): adds chunk 1 to chunk 0"},
    {"scratch that nobody wrote",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(PLAIN("0", "re", "s", "0", "i", "0"))
         PAIR_1("") "</algo>",
     "unread", 0, 0, 0, NONE, "reads scratch element 0, which nothing has written"},
    {"a send without a receive",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(ADD_SEND)
         PAIR_1(PLAIN("0", "s", "i", "0", "i", "0")) "</algo>",
     "mismatch", 0, 0, 0, NONE, "from rank 0 to rank 1 on channel 0 has 1 sends and 0 receives"},
    {"a receive without a send",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(PLAIN("0", "rrc", "i", "0", "i", "0"))
         PAIR_1(SEND_GET) "</algo>",
     "mismatch", 1, 0, 1, NONE, "receives what nobody sends"},
    {"sizes differ",
     ALGO("allreduce", "2", IN_PLACE) GPU("0", "2", "0", "0") TB("0", "1", "1")
         STEP("0", "rrcs", "i", "0", "i", "0", "2", "-1", "-1",
              "0") "</tb></gpu>" GPU("1", "2", "0", "0") TB("0", "0", "0")
             STEP("0", "s", "i", "0", "i", "0", "2", "-1", "-1", "0")
                 STEP("1", "r", "i", "0", "i", "0", "1", "-1", "-1", "0") "</tb></gpu></algo>",
     "mismatch", 1, 0, 1, NONE, "receives 1 elements, but message 0 of its connection"},
    {"beyond the buffer",
     ALGO("allreduce", "2", IN_PLACE) GPU("0", "2", "0", "0") TB("0", "1", "1")
         STEP("0", "rrcs", "i", "1", "i", "1", "2", "-1", "-1",
              "0") "</tb></gpu>" GPU("1", "2", "0", "0") "</gpu></algo>",
     "range", 0, 0, 0, NONE, "uses input elements 1 to 2 of 2"},
    {"both wait for data first",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(ADD_SEND)
         PAIR_1(PLAIN("0", "rrcs", "i", "0", "i", "0")) "</algo>",
     "deadlock", 0, 0, 0, NONE,
     "rank 0 block 0 step 0 (line 4) waits for a message of rank 1 block 0, rank 1"},
    {"both send three before they receive: two slots",
     ALGO("allgather", "6", IN_PLACE) GPU("0", "0", "6", "0") TB("0", "1", "1")
         PLAIN("0", "s", "o", "0", "o", "0") PLAIN("1", "s", "o", "1", "o", "1")
             PLAIN("2", "s", "o", "2", "o", "2") PLAIN("3", "r", "o", "3", "o",
                                                       "3") PLAIN("4", "r", "o", "4", "o", "4")
                 PLAIN("5", "r", "o", "5", "o", "5") "</tb></gpu>" GPU("1", "0", "6", "0")
                     TB("0", "0", "0") PLAIN("0", "s", "o", "3", "o", "3")
                         PLAIN("1", "s", "o", "4", "o", "4") PLAIN("2", "s", "o", "5", "o", "5")
                             PLAIN("3", "r", "o", "0", "o", "0") PLAIN("4", "r", "o", "1", "o", "1")
                                 PLAIN("5", "r", "o", "2", "o", "2") "</tb></gpu></algo>",
     "deadlock", 0, 0, 2, NONE,
     "deadlock with FIFO depth 2: rank 0 block 0 step 2 (line 6) waits for a slot of rank 1"},
    {"waits for a step that does not signal",
     ALGO("allreduce", "1", IN_PLACE) PAIR_0(ADD_SEND "</tb>" TB("1", "-1", "-1") STEP(
         "0", "nop", "i", "0", "i", "0", "0", "0", "0", "0")) PAIR_1(SEND_GET) "</algo>",
     "dependency", 0, 1, 0, NONE,
     "waits for block 0 step 0, which does not signal that it is done (hasdep=0)"},
    {"two blocks send on one connection: what that does to the data",
     ALGO("allreduce", "1", IN_PLACE)
         PAIR_0(ADD_SEND "</tb>" TB("1", "1", "-1") PLAIN("0", "s", "i", "0", "i", "0"))
             PAIR_1(SEND_GET PLAIN("2", "r", "i", "0", "s", "0")) "</algo>",
     "missing", 1, 0, 1, 0,
     "lacks the contribution of rank 1 (output element 0 of rank 1) (rank 0: blocks 0 and 1 both "
     "send"},
    {"two blocks send on one connection, in the order of the receives by luck",
     ALGO("broadcast", "2", IN_PLACE) GPU("0", "2", "0", "0") TB("0", "1", "-1")
         PLAIN("0", "s", "i", "0", "i", "0") "</tb>" TB("1", "1", "-1")
             PLAIN("0", "s", "i", "1", "i", "1") "</tb></gpu>" GPU("1", "2", "0", "0")
                 TB("0", "-1", "0") PLAIN("0", "r", "i", "0", "i", "0")
                     PLAIN("1", "r", "i", "1", "i", "1") "</tb></gpu></algo>",
     "connection", 0, 1, NONE, NONE, "blocks 0 and 1 both send to rank 1 on channel 0"},
    {"two blocks send on one connection, the second more than its receive takes",
     ALGO("broadcast", "3", IN_PLACE) GPU("0", "3", "0", "0") TB("0", "1", "-1")
         PLAIN("0", "s", "i", "0", "i", "0") "</tb>" TB("1", "1", "-1")
             STEP("0", "s", "i", "1", "i", "1", "2", "-1", "-1", "0") "</tb></gpu>" GPU(
                 "1", "3", "0", "0") TB("0", "-1", "0") PLAIN("0", "r", "i", "0", "i", "0")
                 PLAIN("1", "r", "i", "1", "i", "1") "</tb></gpu></algo>",
     "connection", 0, 1, NONE, NONE, "blocks 0 and 1 both send to rank 1 on channel 0"},
    {"in place, all in the input, as files have it",
     ALGO("allreduce", "1", IN_PLACE) GPU("0", "1", "0", "0") TB("0", "1", "1") ADD_SEND
     "</tb></gpu>" GPU("1", "1", "0", "0") TB("0", "0", "0") SEND_GET "</tb></gpu></algo>",
     NULL, NONE, NONE, NONE, NONE, NULL},
    {"the same out of place has no output",
     ALGO("allreduce", "1", OUT_OF_PLACE) GPU("0", "1", "0", "0") TB("0", "1", "1") ADD_SEND
     "</tb></gpu>" GPU("1", "1", "0", "0") TB("0", "0", "0") SEND_GET "</tb></gpu></algo>",
     "missing", 0, NONE, NONE, 0, "rank 0 has no output element for chunk 0 of the collective"},
    {"the same in both ways has none out of place",
     ALGO("allreduce", "1", BOTH) GPU("0", "1", "1", "0") TB("0", "1", "1") ADD_SEND
     "</tb></gpu>" GPU("1", "1", "0", "0") TB("0", "0", "0") SEND_GET "</tb></gpu></algo>",
     "missing", 1, NONE, NONE, 0,
     "rank 1 has no output element for chunk 0 of the collective, out of place"},
    {"too short a buffer for both",
     ALGO("allreduce", "2", IN_PLACE)
         GPU("0", "1", "1", "0") "</gpu>" GPU("1", "2", "0", "0") "</gpu></algo>",
     "missing", 0, NONE, NONE, 1, "rank 0 has no output element for chunk 1 of the collective"},
    {"a copy over part of itself, as input and output; right one by one",
     ALGO("allgather", "4", IN_PLACE) GPU("0", "2", "4", "0") TB("0", "1", "1")
         PLAIN("0", "s", "o", "0", "o", "0") PLAIN("1", "s", "o", "1", "o", "1")
             PLAIN("2", "r", "o", "2", "o", "2") PLAIN("3", "r", "o", "3", "o",
                                                       "3") "</tb></gpu>" GPU("1", "2", "4", "0")
                 TB("0", "0", "0") STEP("0", "cpy", "i", "0", "o", "1", "2", "-1", "-1", "0")
                     PLAIN("1", "s", "o", "1", "o", "1") PLAIN("2", "s", "o", "2", "o", "2")
                         PLAIN("3", "cpy", "o", "1", "i", "0") PLAIN("4", "r", "o", "0", "o", "0")
                             PLAIN("5", "r", "o", "1", "o", "1") "</tb></gpu></algo>",
     "alias", 1, 0, 0, 2, "source and destination overlap in place, at output element 2"},
    {"a copy over part of itself",
     ALGO("allreduce", "3", IN_PLACE) GPU("0", "3", "0", "0") TB("0", "-1", "-1")
         STEP("0", "cpy", "i", "0", "i", "1", "2", "-1", "-1",
              "0") "</tb></gpu>" GPU("1", "3", "0", "0") "</gpu></algo>",
     "alias", 0, 0, 0, NONE, "source and destination overlap, 1 elements apart"},
    {"a reader and a writer that nothing orders",
     ALGO("allgather", "2", IN_PLACE) GPU("0", "0", "2", "1") TB("0", "1", "1")
         PLAIN("0", "s", "o", "0", "o", "0")
             PLAIN("1", "r", "o", "1", "o", "1") "</tb>" TB("1", "-1", "-1")
                 PLAIN("0", "cpy", "o", "1", "s", "0") "</tb></gpu>" GPU("1", "0", "2", "0")
                     TB("0", "0", "0") PLAIN("0", "s", "o", "1", "o", "1")
                         PLAIN("1", "r", "o", "0", "o", "0") "</tb></gpu></algo>",
     "race", 0, 1, 0, NONE,
     "reads output element 1, which block 0 step 1 writes; nothing orders the two"},
    {"the same with a dependency",
     ALGO("allgather", "2", IN_PLACE) GPU("0", "0", "2", "1") TB("0", "1", "1")
         PLAIN("0", "s", "o", "0", "o", "0")
             STEP("1", "r", "o", "1", "o", "1", "1", "-1", "-1", "1") "</tb>" TB("1", "-1", "-1")
                 STEP("0", "cpy", "o", "1", "s", "0", "1", "0", "1", "0") "</tb></gpu>" GPU(
                     "1", "0", "2", "0") TB("0", "0", "0") PLAIN("0", "s", "o", "1", "o", "1")
                     PLAIN("1", "r", "o", "0", "o", "0") "</tb></gpu></algo>",
     NULL, NONE, NONE, NONE, NONE, NULL},
    {"a writer of one element behind its reader, that nothing orders",
     ALGO("alltoall", "2", OUT_OF_PLACE) GPU("0", "2", "2", "0") TB("0", "1", "1")
         PLAIN("0", "s", "i", "1", "o", "0") PLAIN("1", "r", "i", "0", "o", "1") "</tb>" TB(
             "1", "-1", "-1") PLAIN("0", "cpy", "i", "0", "o", "0")
             PLAIN("1", "cpy", "i", "0", "i", "1") "</tb></gpu>" GPU("1", "2", "2", "0")
                 TB("0", "0", "0") PLAIN("0", "cpy", "i", "1", "o", "1")
                     PLAIN("1", "s", "i", "0", "o", "1")
                         PLAIN("2", "r", "i", "0", "o", "0") "</tb></gpu></algo>",
     "race", 0, 1, 1, 1, "writes input element 1, which block 0 step 0 reads; nothing orders"},
    {"order through the other rank: rank 0 overwrites what was sent only when the answer is there",
     ALGO("allreduce", "1", IN_PLACE) GPU("0", "1", "0", "0") TB("0", "1", "-1")
         PLAIN("0", "s", "i", "0", "i", "0") "</tb>" TB("1", "-1", "1")
             PLAIN("0", "r", "i", "0", "i", "0") "</tb></gpu>" PAIR_1(PLAIN(
                 "0", "rrc", "i", "0", "i", "0") PLAIN("1", "s", "i", "0", "i", "0")) "</algo>",
     NULL, NONE, NONE, NONE, NONE, NULL},
    {"a fused answer comes slice by slice: here one element too low",
     ALGO("allgather", "6", IN_PLACE) GPU("0", "0", "6", "2") TB("0", "1", "-1")
         STEP("0", "s", "o", "0", "o", "0", "2", "-1", "-1", "0") "</tb>" TB("1", "-1", "1")
             STEP("0", "r", "o", "0", "o", "1", "2", "-1", "-1",
                  "0") "</tb></gpu>" GPU("1", "0", "6", "2") TB("0", "0", "0")
                 STEP("0", "rcs", "s", "0", "s", "0", "2", "-1", "-1", "0") "</tb></gpu></algo>",
     "race", 0, 1, 0, 1, "writes output element 1, which block 0 step 0 reads"},
    {"out of place the input is the caller's",
     ALGO("allreduce", "1", OUT_OF_PLACE) PAIR_0(ADD_SEND PLAIN("1", "cpy", "i", "0", "o", "0"))
         PAIR_1(PLAIN("0", "s", "i", "0", "i", "0") PLAIN("1", "r", "i", "0", "o", "0")) "</algo>",
     NULL, NONE, NONE, NONE, NONE, "overwrites the input though it may be run out of place"},
};

START_TEST(programs) {
    const struct row *row = &rows[_i];
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_program_t *p = NULL;
    ck_assert_msg(ccl_program_read_xml("t.xml", row->xml, strlen(row->xml), &p, &err) == CCL_OK,
                  "%s: %s", row->why, err.text);
    ccl_verdict_t v;
    ck_assert_int_eq(ccl_program_verify(NULL, p, NULL, &v, &err), CCL_OK);
    if (!row->kind) {
        ck_assert_msg(v.valid, "%s: %s: %s", row->why, v.fault.kind, v.fault.text);
        if (row->text)
            ck_assert_msg(v.nwarnings && strstr(v.warnings[0], row->text), "%s", row->why);
        else
            ck_assert_msg(!v.nwarnings, "%s: %s", row->why, v.warnings[0]);
    } else {
        ck_assert_msg(!v.valid, "%s: verifies", row->why);
        ck_assert_msg(!strcmp(v.fault.kind, row->kind) && strstr(v.fault.text, row->text) &&
                          v.fault.rank == row->rank && v.fault.tb == row->tb &&
                          v.fault.step == row->step && v.fault.chunk == row->chunk,
                      "%s: got %s at rank %d block %d step %d chunk %d: %s", row->why, v.fault.kind,
                      (int)v.fault.rank, (int)v.fault.tb, (int)v.fault.step, (int)v.fault.chunk,
                      v.fault.text);
    }
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- different orders */

/** Ranks send to each other and each adds its own sum: a + b and b + a are bitwise the same. */
/** A deadlock says with which depth of FIFOs there is none, or that there is no such depth. */
START_TEST(deadlock_depths) {
    static const struct {
        const char *why; /* of the row whose program it is */
        uint32_t given, slots, least;
        const char *text; /* NULL: it finishes */
    } depths[] = {
        {"both send three before they receive: two slots", 0, 2, 3,
         "; 2 blocks are stuck; with FIFO depth 3 it finishes (2 is the default of Simple)"},
        {"both send three before they receive: two slots", 1, 1, 3,
         "; with FIFO depth 3 it finishes (1 is given)"},
        {"both send three before they receive: two slots", 3, 0, 0, NULL},
        {"both wait for data first", 0, 2, 0, "deadlock with any FIFO depth: rank 0"},
        {"both wait for data first", 100, 100, 0, "deadlock with any FIFO depth: rank 0"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(depths); i++) {
        const struct row *row = NULL;
        ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
        ccl_program_t *p = NULL;
        ccl_verdict_t v;
        for (size_t k = 0; k < CCL_ARRAY_LEN(rows); k++)
            if (strcmp(rows[k].why, depths[i].why) == 0)
                row = &rows[k];
        ck_assert_ptr_nonnull(row);
        ck_assert_int_eq(ccl_program_read_xml("t.xml", row->xml, strlen(row->xml), &p, NULL),
                         CCL_OK);
        options.slots = depths[i].given;
        ck_assert_int_eq(ccl_program_verify(NULL, p, &options, &v, NULL), CCL_OK);
        ck_assert_int_eq(v.valid, depths[i].text == NULL);
        if (!v.valid)
            ck_assert_msg(strstr(v.fault.text, depths[i].text), "%s", v.fault.text);
        ck_assert_uint_eq(v.fault.slots, depths[i].slots);
        ck_assert_uint_eq(v.fault.least_slots, depths[i].least);
        ccl_program_destroy(p);
    }
}
END_TEST

START_TEST(order_of_two_does_not_matter_of_three_does) {
    for (uint32_t n = 2; n <= 3; n++) {
        ccl_collective_t *coll = NULL;
        ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, n, 1, 0, &coll, NULL), CCL_OK);
        ccl_schedule_builder_t *b = ccl_schedule_builder_create("t", coll);
        for (uint32_t r = 0; r < n; r++) {
            for (uint32_t k = 1; k < n; k++) /* rank r adds r + 1, then r + 2: sums differ */
                ccl_schedule_builder_add(
                    b, (ccl_transfer_t){.src = (r + k) % n, .dst = r, .reduce = 1});
        }
        ccl_schedule_t *s = NULL;
        ck_assert_int_eq(ccl_schedule_builder_finish(b, &s, NULL), CCL_OK);
        ccl_verdict_t v;
        ck_assert_int_eq(ccl_schedule_verify(NULL, s, &v, NULL), CCL_OK);
        ck_assert_msg(v.valid, "%s", v.fault.text);
        ck_assert_uint_eq(v.nwarnings, n == 3);
        if (n == 3)
            ck_assert_ptr_nonnull(
                strstr(v.warnings[0], "ranks 0 and 1 add up chunk 0 in different"));
        ccl_schedule_destroy(s);
    }
}
END_TEST

/* ---------------------------------------------------------------- schedules */

#define T(src_, dst_, chunk_, step_, reduce_)                                                      \
    { .src = src_, .dst = dst_, .chunk = chunk_, .step = step_, .reduce = reduce_ }

static const struct schedule_row {
    const char *why;
    ccl_collective_kind_t kind;
    uint32_t n;
    ccl_transfer_t transfers[8];
    uint32_t ntransfers;
    const char *kind_of_fault;
    uint32_t rank, step, chunk;
    const char *text;
} schedule_rows[] = {
    {"exchange", CCL_ALLGATHER, 2, {T(0, 1, 0, 0, 0), T(1, 0, 1, 0, 0)}, 2, NULL, 0, 0, 0, NULL},
    {"a chain relays, step by step",
     CCL_BROADCAST,
     3,
     {T(0, 1, 0, 0, 0), T(1, 2, 0, 1, 0)},
     2,
     NULL,
     0,
     0,
     0,
     NULL},
    {"a relay in the same step reads the state before it",
     CCL_BROADCAST,
     3,
     {T(0, 1, 0, 0, 0), T(1, 2, 0, 0, 0)},
     2,
     "unread",
     1,
     0,
     0,
     "rank 1 does not hold chunk 0"},
    {"nobody sends chunk 1",
     CCL_ALLGATHER,
     2,
     {T(0, 1, 0, 0, 0)},
     1,
     "missing",
     0,
     NONE,
     1,
     "rank 0: at the end chunk 1 (of rank 1) is missing"},
    {"both add the other's input of before the step",
     CCL_ALLREDUCE,
     2,
     {T(0, 1, 0, 0, 1), T(1, 0, 0, 0, 1)},
     2,
     NULL,
     0,
     0,
     0,
     NULL},
    {"rank 2 never contributes",
     CCL_ALLREDUCE,
     3,
     {T(0, 1, 0, 0, 1), T(1, 0, 0, 1, 0), T(1, 2, 0, 1, 0)},
     3,
     "missing",
     0,
     1,
     0,
     "rank 0: at the end chunk 0 lacks the contribution of rank 2"},
    {"added twice",
     CCL_REDUCE,
     2,
     {T(1, 0, 0, 0, 1), T(1, 0, 0, 1, 1)},
     2,
     "twice",
     0,
     1,
     0,
     "adds the contribution of rank 1 to chunk 0 twice"},
    {"sums of more ranks than a word has bits, which both have rank 66",
     CCL_REDUCE,
     70,
     {T(66, 1, 0, 0, 1), T(66, 0, 0, 0, 1), T(1, 0, 0, 1, 1)},
     3,
     "twice",
     0,
     1,
     0,
     "adds the contribution of rank 66 to chunk 0 twice"},
    {"copy and reduce at once",
     CCL_REDUCE,
     3,
     {T(1, 0, 0, 0, 1), T(2, 0, 0, 0, 0)},
     2,
     "race",
     0,
     0,
     0,
     "rank 1 writes chunk 0 there in the same step"},
    {"two different copies at once",
     CCL_REDUCE,
     3,
     {T(1, 0, 0, 0, 0), T(2, 0, 0, 0, 0)},
     2,
     "race",
     0,
     0,
     0,
     "rank 1 writes chunk 0 there in the same step"},
    {"a sum is overwritten",
     CCL_REDUCE,
     3,
     {T(1, 0, 0, 0, 1), T(2, 0, 0, 1, 0)},
     2,
     "missing",
     0,
     1,
     0,
     "lacks the contribution of rank 0 and 1 more"},
    {"reduced into a rank that holds nothing of it",
     CCL_SCATTER,
     3,
     {T(0, 1, 1, 0, 1), T(0, 2, 2, 0, 0)},
     2,
     "unread",
     1,
     0,
     1,
     "holds nothing of chunk 1 to add to"},
    {"alltoall through another rank",
     CCL_ALLTOALL,
     2,
     {T(0, 1, 1, 0, 0), T(1, 0, 2, 1, 0)},
     2,
     NULL,
     0,
     0,
     0,
     NULL},
};

static ccl_schedule_t *schedule_of(const struct schedule_row *row) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(row->kind, row->n, 1, 0, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("t", coll);
    for (uint32_t i = 0; i < row->ntransfers; i++)
        ccl_schedule_builder_add(b, row->transfers[i]);
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_schedule_builder_finish(b, &s, &err) == CCL_OK, "%s: %s", row->why, err.text);
    return s;
}

START_TEST(schedules) {
    const struct schedule_row *row = &schedule_rows[_i];
    ccl_schedule_t *s = schedule_of(row);
    ccl_verdict_t v;
    ck_assert_int_eq(ccl_schedule_verify(NULL, s, &v, NULL), CCL_OK);
    if (!row->kind_of_fault)
        ck_assert_msg(v.valid, "%s: %s", row->why, v.fault.text);
    else
        ck_assert_msg(!v.valid && !strcmp(v.fault.kind, row->kind_of_fault) &&
                          strstr(v.fault.text, row->text) && v.fault.rank == row->rank &&
                          v.fault.step == row->step && v.fault.chunk == row->chunk &&
                          v.fault.tb == NONE,
                      "%s: got %s at rank %d step %d chunk %d: %s", row->why,
                      v.valid ? "valid" : v.fault.kind, (int)v.fault.rank, (int)v.fault.step,
                      (int)v.fault.chunk, v.fault.text);
    ccl_schedule_destroy(s);
}
END_TEST

START_TEST(schedules_made_by_hand_are_not_trusted) {
    static const struct {
        const char *why;
        ccl_transfer_t t;
        const char *kind;
    } bad[] = {{"no such rank", T(7, 0, 0, 0, 0), "range"},
               {"no such chunk", T(1, 0, 7, 0, 0), "range"},
               {"to itself", T(1, 1, 0, 0, 0), "peer"},
               {"not sorted by step", T(1, 0, 1, 0, 0), "order"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_schedule_t *s = schedule_of(&schedule_rows[0]);
        s->transfers[0].step = 1;
        s->transfers[1] = bad[i].t;
        ccl_verdict_t v;
        ck_assert_int_eq(ccl_schedule_verify(NULL, s, &v, NULL), CCL_OK);
        ck_assert_msg(!v.valid && !strcmp(v.fault.kind, bad[i].kind), "%s", bad[i].why);
        ccl_schedule_destroy(s);
    }
}
END_TEST

/* ---------------------------------------------------------------- demands */

static const char demand_text[] =
    "{\"format\": \"ccllab-demand-1\", \"name\": \"d\", \"nranks\": 3, \"chunks\": ["
    "{\"source\": 0, \"destinations\": [1], \"bytes\": 1024},"
    "{\"source\": 0, \"destinations\": [1, 2], \"bytes\": 2048},"
    "{\"source\": \"all\", \"destinations\": [0], \"reduced\": true, \"bytes\": 512},"
    "{\"source\": 1, \"destinations\": [1, 2], \"bytes\": 256},"
    "{\"source\": 2, \"destinations\": [0], \"bytes\": 0}]}";

typedef struct place {
    uint8_t buffer;
    uint32_t offset;
} place_t;

static void add_step(ccl_program_builder_t *b, uint32_t tb, ccl_primitive_t type, place_t src,
                     place_t dst, uint32_t count) {
    ccl_step_t s = {.type = (uint8_t)type,
                    .src_buf = src.buffer,
                    .src_off = src.offset,
                    .dst_buf = dst.buffer,
                    .dst_off = dst.offset,
                    .count = count,
                    .dep_tb = NONE,
                    .dep_step = NONE};
    ccl_program_builder_step(b, tb, s);
}

/** Chunk 3 is rank 1's own too, chunk 4 has no bytes and is never sent. */
static ccl_program_t *demand_program(void) {
    enum { I = CCL_BUF_INPUT, O = CCL_BUF_OUTPUT };
    ccl_collective_t *coll = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_demand_read_text("d", demand_text, strlen(demand_text), &coll, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_program_builder_t *b = ccl_program_builder_create("d", coll, 3, "Simple");
    ccl_program_builder_place(b, true, true, 0, 0);
    uint32_t t = ccl_program_builder_tb(b, 0, 1, 1, 0);
    add_step(b, t, CCL_PRIM_S, (place_t){I, 0}, (place_t){O, 0}, 2);
    add_step(b, t, CCL_PRIM_RRC, (place_t){I, 2}, (place_t){O, 0}, 1);
    t = ccl_program_builder_tb(b, 0, 2, NONE, 0);
    add_step(b, t, CCL_PRIM_S, (place_t){I, 1}, (place_t){O, 0}, 1);
    t = ccl_program_builder_tb(b, 1, NONE, 0, 0);
    add_step(b, t, CCL_PRIM_R, (place_t){I, 0}, (place_t){O, 0}, 2);
    t = ccl_program_builder_tb(b, 1, 0, 2, 0);
    add_step(b, t, CCL_PRIM_RRS, (place_t){I, 0}, (place_t){O, 0}, 1);
    t = ccl_program_builder_tb(b, 1, 2, NONE, 0);
    add_step(b, t, CCL_PRIM_S, (place_t){I, 1}, (place_t){O, 0}, 1);
    add_step(b, t, CCL_PRIM_CPY, (place_t){I, 1}, (place_t){O, 2}, 1);
    t = ccl_program_builder_tb(b, 2, 1, NONE, 0);
    add_step(b, t, CCL_PRIM_S, (place_t){I, 0}, (place_t){O, 0}, 1);
    t = ccl_program_builder_tb(b, 2, NONE, 0, 0);
    add_step(b, t, CCL_PRIM_R, (place_t){I, 0}, (place_t){O, 0}, 1);
    t = ccl_program_builder_tb(b, 2, NONE, 1, 0);
    add_step(b, t, CCL_PRIM_R, (place_t){I, 0}, (place_t){O, 1}, 1);
    ccl_program_t *p = NULL;
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

START_TEST(demands) {
    static const struct {
        const char *why;
        uint32_t step;
        ccl_primitive_t type;
        uint32_t src_off, dst_off;
        bool in_place_only;
        const char *kind;
    } changes[] = {
        {"right", NONE, 0, 0, 0, false, NULL},
        {"received to where larger elements lie", 3, CCL_PRIM_R, 0, 1, false, "mismatch"},
        {"a copy between elements of different sizes", 6, CCL_PRIM_CPY, 0, 2, false, "mismatch"},
        {"out of place rank 1 must copy its own chunk", 6, CCL_PRIM_NOP, 1, 2, false, "missing"},
        {"in place rank 1 has its own chunk", 6, CCL_PRIM_NOP, 1, 2, true, NULL},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(changes); i++) {
        ccl_program_t *p = demand_program();
        if (changes[i].step != NONE) {
            ccl_step_t *s = &p->steps[changes[i].step];
            s->type = (uint8_t)changes[i].type;
            s->src_off = changes[i].src_off;
            s->dst_off = changes[i].dst_off;
        }
        p->out_of_place = !changes[i].in_place_only;
        ccl_verdict_t v;
        ck_assert_int_eq(ccl_program_verify(NULL, p, NULL, &v, NULL), CCL_OK);
        ck_assert_msg(v.valid == !changes[i].kind &&
                          (v.valid || !strcmp(v.fault.kind, changes[i].kind)),
                      "%s: %s: %s", changes[i].why, v.valid ? "valid" : v.fault.kind, v.fault.text);
        ccl_program_destroy(p);
    }
}
END_TEST

/* Sizes of a chunk where nothing moves it; what moves is compared step by step. */
START_TEST(sizes) {
    static const struct {
        const char *why;
        uint32_t rank, buffer, elem;
        double factor;
        bool in_place;
        const char *kind, *text;
    } changes[] = {
        {"as the demand has it", 1, CCL_BUF_OUTPUT, 2, 1, false, "missing", "chunk 3 is missing"},
        {"an output that nothing is copied to", 1, CCL_BUF_OUTPUT, 2, 2, false, "mismatch",
         "chunk 3 has outputs of different sizes: share "},
        {"an input that nobody takes", 1, CCL_BUF_INPUT, 1, 2, false, "mismatch",
         "chunk 3 is of share 0.142857143 at its source rank 1, but 0.0714285714 where it goes"},
        {"one place, two sizes", 1, CCL_BUF_OUTPUT, 2, 0.5, true, "mismatch",
         "rank 1: input element 1 and output element 2 are one in place but differ in size"},
        {"one place, one size to rounding", 1, CCL_BUF_OUTPUT, 2, 1 + 1e-12, true, NULL, ""},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(changes); i++) {
        ccl_program_t *p = demand_program();
        size_t at = 3 * (size_t)changes[i].rank + changes[i].buffer;
        ck_assert_int_eq(p->steps[6].type, CCL_PRIM_CPY); /* rank 1 copies its own chunk */
        p->steps[6].type = CCL_PRIM_NOP;
        if (changes[i].buffer == CCL_BUF_INPUT) /* and sends it to rank 2 */
            p->steps[5].type = p->steps[p->nsteps - 1].type = CCL_PRIM_NOP;
        ((double *)(uintptr_t)p->shares[at])[changes[i].elem] *= changes[i].factor;
        p->in_place = changes[i].in_place;
        p->out_of_place = !changes[i].in_place;
        ccl_verdict_t v, first;
        ck_assert_int_eq(ccl_program_verify(NULL, p, NULL, &v, NULL), CCL_OK);
        ck_assert_int_eq(ccl_program_check(p, CCL_GRANULARITY_ALGORITHM, &first, NULL), CCL_OK);
        ck_assert_msg(v.valid == !changes[i].kind &&
                          (v.valid || (!strcmp(v.fault.kind, changes[i].kind) &&
                                       strstr(v.fault.text, changes[i].text))),
                      "%s: %s: %s", changes[i].why, v.valid ? "valid" : v.fault.kind, v.fault.text);
        ck_assert_msg(first.valid || !strcmp(first.fault.text, v.fault.text), "%s: first %s",
                      changes[i].why, first.fault.text);
        ccl_program_destroy(p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule.verify");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, programs, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_test(tc, deadlock_depths);
    tcase_add_test(tc, order_of_two_does_not_matter_of_three_does);
    tcase_add_loop_test(tc, schedules, 0, (int)CCL_ARRAY_LEN(schedule_rows));
    tcase_add_test(tc, schedules_made_by_hand_are_not_trusted);
    tcase_add_test(tc, demands);
    tcase_add_test(tc, sizes);
    tcase_set_timeout(tc, 0);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
