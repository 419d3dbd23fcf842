/*
 * A synthesizer that declares an option has it everywhere: this one is in the registry of this
 * program alone (the linker wraps ccl_synth_all), and no other file knows it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "tests/base/main.h"

static const ccl_option_t table[] = {
    {.name = "dummies",
     .type = CCL_OPTION_COUNT,
     .offset = offsetof(ccl_synth_options_t, rounds),
     .value = "N",
     .min = 1,
     .max = 16,
     .doc = "number of dummies",
     .otherwise = "as many as fit",
     .knob = "dummies"},
    {.name = NULL},
};
static const ccl_option_t *const tables[] = {table, NULL};
static const ccl_synth_ops_t dummy = {.size = sizeof dummy, .name = "dummy", .options = tables};
static const ccl_synth_ops_t *all[64];
static uint32_t nothers;

const ccl_synth_ops_t *const *__real_ccl_synth_all(void);
const ccl_synth_ops_t *const *__wrap_ccl_synth_all(void);
const ccl_synth_ops_t *const *__wrap_ccl_synth_all(void) {
    const ccl_synth_ops_t *const *others = __real_ccl_synth_all();
    for (nothers = 0; others[nothers]; nothers++)
        all[nothers] = others[nothers];
    all[nothers] = &dummy;
    return all;
}

static void has(ccl_text_t *text, const char *what) {
    ck_assert_msg(strstr(text->data, what) != NULL, "no \"%s\" in\n%s", what, text->data);
}

START_TEST(test_shown) {
    ccl_text_t help = {0}, man = {0}, completion = {0}, options = {0}, knobs = {0};
    ccl_i_help_command(&ccl_i_cmd_synth, &help);
    has(&help, "\noptions of dummy:\n"
               "      --dummies N         number of dummies (as many as fit)\n");
    ccl_i_man_command(&ccl_i_cmd_compare, &man);
    has(&man, "\\fB\\-\\-dummies\\fR \\fIN\\fR\nnumber of dummies (as many as fit)\n");
    ccl_i_completion_bash(&completion);
    has(&completion, " --dummies");
    ck_assert(ccl_i_markdown("synthesizers", &options));
    has(&options, "| `--dummies N` | `dummy` | number of dummies (as many as fit) |\n");
    ck_assert(ccl_i_markdown("knobs", &knobs));
    has(&knobs, "| `dummies` | 1 to 16 | `dummy` | number of dummies |\n");
    ccl_text_fini(&help);
    ccl_text_fini(&man);
    ccl_text_fini(&completion);
    ccl_text_fini(&options);
    ccl_text_fini(&knobs);
}
END_TEST

START_TEST(test_parsed) {
    char good[] = "--dummies=7", bad[] = "--dummies=17", near[] = "--dumies=1";
    char *argv[] = {good, bad, near};
    ccl_i_args_t args;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_args_init(&args);
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_synth, 1, argv, &args, &err), CCL_OK);
    ck_assert_uint_eq(args.synth.rounds, 7);
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_synth, 1, argv + 1, &args, &err),
                     CCL_ERR_USAGE);
    ck_assert_str_eq(err.text, "option --dummies wants a whole number from 1 to 16, not \"17\"");
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_i_options_parse(&ccl_i_cmd_compare, 1, argv + 2, &args, &err),
                     CCL_ERR_USAGE);
    ck_assert_str_eq(err.text, "unknown option --dumies, did you mean --dummies?");
    ccl_i_args_fini(&args);
}
END_TEST

START_TEST(test_tuned) {
    ccl_space_t *space = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_knob_t knob;
    double values[CCL_KNOBS];
    ck_assert_int_eq(ccl_space_create(&space, &err), CCL_OK);
    ck_assert_msg(ccl_space_set(space, "dummies=2:8", &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(ccl_knob_find("dummies", 7, &knob, &err), CCL_OK);
    ck_assert_uint_eq(space->nvalues[knob], 3);
    ck_assert_int_eq(ccl_space_set(space, "dummies=17", &err), CCL_ERR_INPUT);
    for (int own = 0; own < 2; own++) {
        for (uint32_t k = 0; k < CCL_KNOBS; k++)
            values[k] = NAN;
        values[CCL_KNOB_WITH] = own ? nothers : 0;
        values[knob] = 4;
        ccl_space_point(space, values);
        char *settings = ccl_space_settings(values);
        ck_assert_str_eq(settings,
                         own ? "{\"dummies\":4,\"with\":\"dummy\"}" : "{\"with\":\"ring\"}");
        free(settings);
    }
    ccl_space_destroy(space);
}
END_TEST

RUN_TESTS(test_shown, test_parsed, test_tuned)
