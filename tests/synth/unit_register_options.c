/* Options of added synthesizers: where their values stand, what is refused. */
#include "tests/synth/common.h"

typedef struct own {
    uint32_t count;
    bool flag, either;
    double time_s;
    const char *word;
} own_t;
#define AT(member_) offsetof(own_t, member_)

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo, (void)want, (void)why;
    return true;
}

/* What the last call saw. */
static own_t seen;

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    (void)ctx, (void)topo, (void)routes, (void)want, (void)out;
    seen = *(const own_t *)ccl_synth_own(options, "second");
    return ccl_fail(err, CCL_UNSUPPORTED, "for this test only");
}

#define OPS(name_, tables_)                                                                        \
    {                                                                                              \
        .size = sizeof(ccl_synth_ops_t), .name = name_, .summary = "a test",                       \
        .source = "this file", .supports = supports, .synthesize = synthesize, .options = tables_  \
    }

static const ccl_option_t first_table[] = {
    {.name = "first-n", .type = CCL_OPTION_COUNT, .value = "N", .doc = "a count"}, {.name = NULL}};
static const ccl_option_t second_table[] = {
    {.name = "second-n",
     .type = CCL_OPTION_COUNT,
     .offset = AT(count),
     .value = "N",
     .doc = "a count",
     .knob = "second_n"},
    {.name = "second-flag", .type = CCL_OPTION_FLAG, .offset = AT(flag), .doc = "a flag"},
    {.name = "second-time",
     .type = CCL_OPTION_TIME,
     .offset = AT(time_s),
     .value = "TIME",
     .doc = "a time"},
    {.name = NULL}};
static const ccl_option_t more_table[] = {{.name = "second-how",
                                           .type = CCL_OPTION_EITHER,
                                           .offset = AT(either),
                                           .value = "HOW",
                                           .words = CCL_OPTION_WORDS("so", "other"),
                                           .doc = "one of two"},
                                          {.name = "second-word",
                                           .type = CCL_OPTION_WORD,
                                           .offset = AT(word),
                                           .value = "WORD",
                                           .words = CCL_OPTION_WORDS("none", "some"),
                                           .doc = "a word",
                                           .knob = "second_word"},
                                          {.name = NULL}};
static const ccl_option_t *const first_tables[] = {first_table, NULL};
static const ccl_option_t *const second_tables[] = {second_table, more_table, NULL};
static const ccl_synth_ops_t first = OPS("first", first_tables);
static const ccl_synth_ops_t second = OPS("second", second_tables);

static void add_both(void) {
    ck_assert_int_eq(ccl_synth_register(&first, "1", NULL), CCL_OK);
    ck_assert_int_eq(ccl_synth_register(&second, "2", NULL), CCL_OK);
}

static void give(ccl_synth_options_t *options, const char *name, const char *value) {
    const ccl_option_t *found = NULL;
    for (uint32_t t = 0; !found && ccl_synth_option_table(t); t++)
        found = ccl_option_find(ccl_synth_option_table(t), name, strlen(name));
    ck_assert_msg(found != NULL, "no --%s", name);
    ck_assert_int_eq(ccl_option_parse(found, value, options, NULL), CCL_OK);
}

START_TEST(test_values) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_collective_t *want = collective(CCL_ALLGATHER, 4, 0);
    ccl_schedule_t *schedule = NULL;
    char owners[40];
    uint32_t n = 0;
    add_both();
    ck_assert_int_eq(ccl_synth_register(&second, "3", NULL), CCL_OK); /* is there: left alone */
    const ccl_synth_ops_t *ops = ccl_synth_find("second");
    ck_assert_str_eq(ccl_synth_version(ops), "2");
    ck_assert_str_eq(ccl_synth_version(&second), "2");
    ck_assert(ops->synthesize == synthesize && ops->options[1] && !ops->options[2]);
    ck_assert_str_eq(ccl_synth_option_owners(ops->options[1], owners, sizeof owners), "second");
    ck_assert(!ccl_synth_has_options(ccl_synth_find("first"), ops->options[0]));
    for (const ccl_option_t *o = ops->options[0]; o->name; o++, n++)
        ck_assert(!ccl_option_is_set(o, &options));
    ck_assert_uint_eq(n, 3);
    ck_assert_ptr_null(ccl_synth_own(&options, "ring"));
    ck_assert_ptr_null(ccl_synth_own(&options, "nobody"));

    give(&options, "second-n", "7");
    give(&options, "second-flag", NULL);
    give(&options, "second-time", "3us");
    give(&options, "second-how", "other");
    give(&options, "second-word", "some");
    give(&options, "first-n", "5"); /* has a place of its own */
    ck_assert_int_eq(ccl_synthesize(NULL, "second", topo, NULL, want, &options, &schedule, NULL),
                     CCL_UNSUPPORTED);
    ck_assert_uint_eq(seen.count, 7);
    ck_assert(seen.flag && seen.either && seen.time_s == 3e-6);
    ck_assert_str_eq(seen.word, "some");
    ck_assert_uint_eq(*(const uint32_t *)ccl_synth_own(&options, "first"), 5);
    ccl_synth_options_t untouched = CCL_SYNTH_OPTIONS_INIT;
    memset(options.own, 0, sizeof options.own);
    ck_assert_mem_eq(&options.channels, &untouched.channels,
                     sizeof options - offsetof(ccl_synth_options_t, channels));
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- what is refused */

#define GOOD .type = CCL_OPTION_COUNT, .value = "N", .doc = "d"
#define WORDS CCL_OPTION_WORDS("a", "b")
static const struct {
    ccl_option_t row;
    const char *says; /* behind "synthesizer own: " */
} bad_rows[] = {
    {{.name = "n", GOOD}, "the name of option --n is not own-"},
    {{.name = "own-", GOOD}, "the name of option --own- is not own-"},
    {{.name = "ownn", GOOD}, "the name of option --ownn is not own-"},
    {{.name = "own-N", GOOD}, "the name of option --own-N is not own-"},
    {{.name = "own-345678901234567890123456789012345678901", GOOD}, "at most 40 characters"},
    {{.name = "own-n", .type = CCL_OPTION_INPUT, .value = "FILE", .doc = "d"},
     "option --own-n is of a type that only built-in ones can have"},
    {{.name = "own-n", .type = CCL_OPTION_OUTPUT, .value = "FILE", .doc = "d"}, "is of a type"},
    {{.name = "own-n", .type = CCL_OPTION_SCHEDULE, .value = "FILE", .doc = "d"}, "is of a type"},
    {{.name = "own-n", .type = (ccl_option_type_t)99, .value = "N", .doc = "d"}, "is of a type"},
    {{.name = "own-n", GOOD, .offset = 2}, "option --own-n has no such offset"},
    {{.name = "own-n", GOOD, .offset = 512}, "has no such offset"},
    {{.name = "own-n", GOOD, .offset = SIZE_MAX - 3}, "has no such offset"},
    {{.name = "own-n", GOOD, .offset = 508}, "no room for its options"},
    {{.name = "own-n", .type = CCL_OPTION_COUNT, .value = "N"}, "does not say what it does (doc)"},
    {{.name = "own-n", .type = CCL_OPTION_COUNT, .doc = "d"}, "wants a name of its value"},
    {{.name = "own-n", .type = CCL_OPTION_FLAG, .value = "N", .doc = "d"}, "wants a name of its"},
    {{.name = "own-n", GOOD, .words = WORDS}, "none if it is not (words)"},
    {{.name = "own-n", .type = CCL_OPTION_CHOICE, .value = "N", .doc = "d"}, "wants two words or"},
    {{.name = "own-n",
      .type = CCL_OPTION_WORD,
      .value = "N",
      .doc = "d",
      .words = CCL_OPTION_WORDS("a")},
     "wants two words or"},
    {{.name = "own-n",
      .type = CCL_OPTION_EITHER,
      .value = "N",
      .doc = "d",
      .words = CCL_OPTION_WORDS("a", "b", "c")},
     "wants two words or"},
    {{.name = "own-n", GOOD, .letter = 'n'}, "has a letter, an alias or an automatic value"},
    {{.name = "own-n", GOOD, .alias = "n"}, "has a letter"},
    {{.name = "own-n", GOOD, .automatic = 1}, "has a letter"},
    {{.name = "own-n", GOOD, .min = 2, .max = 1}, "has no such range"},
    {{.name = "own-n", GOOD, .min = -1}, "has no such range"},
    {{.name = "own-n", GOOD, .knob = "n"}, "wants its own name with _ for - (knob)"},
    {{.name = "own-n", GOOD, .knob = "own-n"}, "wants its own name with _ for - (knob)"},
    {{.name = "own-n", .type = CCL_OPTION_FLAG, .doc = "d", .knob = "own_n"}, "(knob_words)"},
    {{.name = "own-n", .type = CCL_OPTION_TEXT, .value = "T", .doc = "d", .knob = "own_n"},
     "(knob_words)"},
};

static const ccl_option_t same_rows[] = {{.name = "sec-ond-n", GOOD}, {.name = NULL}};
static const ccl_option_t *const same_tables[] = {same_rows, NULL};
static const ccl_synth_ops_t longer = OPS("sec-ond", same_tables);

static void refuses(const ccl_option_t *rows, const char *says) {
    const ccl_option_t *tables[] = {rows, NULL};
    const ccl_synth_ops_t own = OPS("own", tables);
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_synth_register(&own, "1", &err) == CCL_ERR_INPUT, "taken: %s", says);
    ck_assert_msg(strncmp(err.text, "synthesizer own: ", 17) == 0, "%s", err.text);
    ck_assert_msg(strstr(err.text, says) != NULL, "%s, not %s", err.text, says);
    ck_assert_ptr_null(ccl_synth_find("own"));
}

START_TEST(test_refused) {
    add_both();
    const ccl_option_t rows[] = {bad_rows[_i].row, {.name = NULL}};
    refuses(rows, bad_rows[_i].says);
}
END_TEST

START_TEST(test_twice) {
    const ccl_option_t rows[] = {{.name = "own-n", GOOD}, {.name = "own-n", GOOD}, {.name = NULL}};
    refuses(rows, "there is an option --own-n already");
    /* That of another synthesizer, whose name begins like this one's. */
    static const ccl_synth_ops_t shorter = OPS("sec", same_tables);
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_synth_register(&longer, "1", NULL), CCL_OK);
    ck_assert_int_eq(ccl_synth_register(&shorter, "1", &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "synthesizer sec: there is an option --sec-ond-n already");
}
END_TEST

/* Of all added ones together. */
START_TEST(test_room) {
    static ccl_option_t rows[CCL_SYNTH_OWN_OPTIONS + 1];
    static char names[CCL_SYNTH_OWN_OPTIONS][12];
    enum { THERE = 7 }; /* of those above */
    add_both();
    (void)ccl_synth_register(&longer, "1", NULL);
    for (uint32_t i = 0; i < CCL_SYNTH_OWN_OPTIONS; i++) {
        snprintf(names[i], sizeof names[i], "own-%u", i);
        rows[i] = (ccl_option_t){.name = names[i], GOOD};
    }
    rows[CCL_SYNTH_OWN_OPTIONS - THERE + 1].name = NULL;
    refuses(rows, "those of all added ones are at most 32, of 512 bytes");
    rows[CCL_SYNTH_OWN_OPTIONS - THERE].name = NULL;
    rows[0].offset = 480;
    refuses(rows, "no room for its options");
    rows[0].offset = 0;
    static const ccl_option_t *const tables[] = {rows, NULL};
    static const ccl_synth_ops_t own = OPS("own", tables);
    ck_assert_int_eq(ccl_synth_register(&own, "1", NULL), CCL_OK);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.register_options");
    TCase *tcase = tcase_create("register_options");
    tcase_add_test(tcase, test_values);
    tcase_add_loop_test(tcase, test_refused, 0, (int)CCL_ARRAY_LEN(bad_rows));
    tcase_add_test(tcase, test_twice);
    tcase_add_test(tcase, test_room);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
