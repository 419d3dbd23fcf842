/* `verify` and `run` judge alike: the same exit code and the same fault, before anything starts. */
#include "program.h"
#include "base/json.h"
#include "tests/base/main.h"

#include <stdbool.h>

#define HEAD(place_)                                                                               \
    "<algo name='t' proto='Simple' nchannels='1' nchunksperloop='1' ngpus='2' "                    \
    "coll='allreduce' " place_ " minBytes='0' maxBytes='0'>"
#define IN_PLACE "inplace='1' outofplace='0'"
#define OUT_OF_PLACE "inplace='0' outofplace='1'"
#define GPU(id_, o_) "<gpu id='" id_ "' i_chunks='1' o_chunks='" o_ "' s_chunks='1'>"
#define TB(peer_) "<tb id='0' send='" peer_ "' recv='" peer_ "' chan='0'>"
#define STEP(s_, type_, at_, cnt_)                                                                 \
    "<step s='" s_ "' type='" type_ "' srcbuf='i' srcoff='" at_ "' dstbuf='i' dstoff='" at_        \
    "' cnt='" cnt_ "' depid='-1' deps='-1' hasdep='0'/>"
#define ADD_SEND STEP("0", "rrcs", "0", "1")
#define SEND_GET STEP("0", "s", "0", "1") STEP("1", "r", "0", "1")
#define END "</tb></gpu>"

static const struct {
    const char *why, *xml, *kind; /* NULL: it is right */
    bool can_run;                 /* with --no-verify, and then its data are wrong */
} rows[] = {
    {"one buffer for both",
     HEAD(IN_PLACE) GPU("0", "0") TB("1") ADD_SEND END GPU("1", "0") TB("0") SEND_GET END "</algo>",
     NULL, true},
    {"no output out of place",
     HEAD(OUT_OF_PLACE) GPU("0", "0") TB("1") ADD_SEND END GPU("1", "0") TB("0") SEND_GET END
     "</algo>",
     "missing", false},
    {"nothing arrives in the output",
     HEAD(OUT_OF_PLACE) GPU("0", "1") TB("1") ADD_SEND END GPU("1", "1") TB("0") SEND_GET END
     "</algo>",
     "missing", true},
    {"what nobody receives",
     HEAD(IN_PLACE) GPU("0", "1") TB("1") ADD_SEND END GPU("1", "1") TB("0")
         STEP("0", "s", "0", "1") END "</algo>",
     "mismatch", false},
    {"beyond the buffer",
     HEAD(IN_PLACE) GPU("0", "1") TB("1") STEP("0", "rrcs", "1", "1") END GPU("1", "1") TB("0")
         SEND_GET END "</algo>",
     "range", false},
    {"a sum that is not sent back",
     HEAD(IN_PLACE) GPU("0", "1") TB("1") STEP("0", "rrc", "0", "1") END GPU("1", "1") TB("0")
         STEP("0", "s", "0", "1") END "</algo>",
     "missing", true},
};

/** The fault that a command tells of the program in JSON; NULL: none. */
static json_t *fault_of(const char *command, const char *path, const char *more, int *rc_out,
                        json_t **doc_out) {
    char line[512];

    snprintf(line, sizeof(line), "%s --json %s%s", command, path, more);
    said_t said = run(line);
    json_t *doc = json_of(&said), *fault = json_object_get(doc, "fault");

    *rc_out = said.rc;
    *doc_out = doc;
    said_free(&said);
    return json_is_null(fault) ? NULL : fault;
}

START_TEST(same_fault) {
    char path[] = "/tmp/ccllab_refusal_XXXXXX";
    int fd = mkstemp(path), rc;
    size_t len = strlen(rows[_i].xml);
    json_t *doc[3], *verified, *ran, *unproven;

    ck_assert(fd >= 0 && write(fd, rows[_i].xml, len) == (ssize_t)len);
    close(fd);
    verified = fault_of("verify", path, "", &rc, &doc[0]);
    ck_assert_msg(rc == (rows[_i].kind ? 1 : 0), "%s: verify ends with %d", rows[_i].why, rc);
    ran = fault_of("run", path, " --size 4K --repeats 1", &rc, &doc[1]);
    ck_assert_msg(rc == (rows[_i].kind ? 1 : 0), "%s: run ends with %d", rows[_i].why, rc);
    if (rows[_i].kind) {
        const char *kind = json_string_value(json_object_get(verified, "kind"));

        ck_assert_msg(verified && strcmp(kind, rows[_i].kind) == 0, "%s: %s", rows[_i].why, kind);
        ck_assert_msg(json_equal(verified, ran), "%s: verify and run differ", rows[_i].why);
        ck_assert_uint_eq(json_array_size(json_object_get(doc[1], "sizes")), 0);
    } else {
        ck_assert(!verified && !ran);
    }
    unproven = fault_of("run", path, " --size 4K --repeats 1 --no-verify", &rc, &doc[2]);
    ck_assert_int_eq(rc, rows[_i].kind ? 1 : 0);
    ck_assert_uint_eq(json_array_size(json_object_get(doc[2], "sizes")), rows[_i].can_run);
    if (rows[_i].can_run)
        ck_assert_ptr_null(unproven); /* it ran, and was found by its data */
    else
        ck_assert_msg(json_equal(verified, unproven), "%s: another fault without proof",
                      rows[_i].why);
    for (size_t i = 0; i < 3; i++)
        json_decref(doc[i]);
    unlink(path);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("refusals");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 0);
    tcase_add_loop_test(cases, same_fault, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
