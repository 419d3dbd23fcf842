/* Help, from the tables that the command line is parsed by. */
#include "cli/command.h"

#include <string.h>

enum { HELP_COLUMNS = 80, HELP_INDENT = 26 };

/** Words from column `at`, broken before column 80; later lines indented. */
static void wrapped(ccl_text_t *out, const char *text, size_t at, size_t indent) {
    while (*text) {
        size_t len = strcspn(text, " \n");

        if (at > indent && at + 1 + len > HELP_COLUMNS) {
            ccl_text_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            ccl_text_add(out, " ", 1);
            at++;
        }
        ccl_text_add(out, text, len);
        at += len;
        text += len;
        text += strspn(text, " \n");
    }
    ccl_text_add(out, "\n", 1);
}

static void help_option(const ccl_i_option_info_t *o, ccl_text_t *out) {
    ccl_text_t text = {0};
    char left[80];
    int n;

    n = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
                 !o->value           ? ""
                 : o->value_optional ? "[="
                                     : " ",
                 o->value ? o->value : "", o->value_optional ? "]" : "");
    ccl_text_printf(out, "%s", left);
    if (n + 2 > HELP_INDENT)
        ccl_text_printf(out, "\n%*s", HELP_INDENT, "");
    else
        ccl_text_printf(out, "%*s", HELP_INDENT - n, "");
    ccl_i_option_doc(o, &text);
    wrapped(out, text.data ? text.data : "", HELP_INDENT, HELP_INDENT);
    out->nomem |= text.nomem;
    ccl_text_fini(&text);
}

void ccl_i_option_doc(const ccl_i_option_info_t *option, ccl_text_t *out) {
    ccl_text_printf(out, "%s", option->help);
    if (option->otherwise)
        ccl_text_printf(out, " (%s)", option->otherwise);
}

void ccl_i_help_command(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_i_option_info_t o, before = {0};
    char usage[200];

    ccl_text_printf(out, "usage: ");
    snprintf(usage, sizeof(usage), "ccllab %s %s", command->name, command->usage);
    wrapped(out, usage, 7, 7);
    ccl_text_printf(out, "\n");
    wrapped(out, command->summary, 0, 0);
    if (command->details) {
        ccl_text_printf(out, "\n");
        wrapped(out, command->details, 0, 0);
    }
    ccl_text_printf(out, "\nexamples:\n");
    for (const char *line = command->examples; *line; line += strcspn(line, "\n") + 1)
        ccl_text_printf(out, "  %.*s\n", (int)strcspn(line, "\n"), line);
    ccl_text_printf(out, "\noptions:\n");
    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        if (o.general && !before.general)
            ccl_text_printf(out, "\noptions of every command:\n");
        else if (strcmp(o.group, before.group) != 0)
            ccl_text_printf(out, "\noptions of %s:\n", o.group);
        help_option(&o, out);
        before = o;
    }
}

static void help_commands(const char *prefix, ccl_text_t *out) {
    size_t len = strlen(prefix);

    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const ccl_i_command_t *c = ccl_i_commands[i];

        if (strncmp(c->name, prefix, len) != 0)
            continue;
        ccl_text_printf(out, "  %-18s ", c->name);
        wrapped(out, c->summary, 21, 21);
    }
}

void ccl_i_help_family(const char *prefix, ccl_text_t *out) {
    ccl_text_printf(out, "usage: ccllab %s COMMAND [options]\n\n", prefix);
    help_commands(prefix, out);
    ccl_text_printf(out, "\nccllab COMMAND --help lists the options of a command.\n");
}

void ccl_i_help_all(ccl_text_t *out) {
    ccl_text_printf(
        out, "usage: ccllab [--version | --help] COMMAND [options] INPUT...\n\n"
             "A laboratory for collective communication on heterogeneous GPU clusters: build a\n"
             "schedule, prove it right, simulate it, compare it with others.\n\n");
    help_commands("", out);
    ccl_text_printf(out, "\nccllab COMMAND --help lists the options of a command.\n\n");
    ccl_text_t codes = {0};
    ccl_text_printf(&codes, "exit codes:");
    for (const ccl_i_exit_code_t *e = ccl_i_exit_codes; e->code; e++)
        ccl_text_printf(&codes, " %s %s%s", e->code, e->meaning, e[1].code ? ";" : "");
    wrapped(out, codes.data ? codes.data : "", 0, 0);
    ccl_text_fini(&codes);
}
