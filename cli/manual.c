/* Manual pages in roff, from the tables that --help is made from. */
#include "cli/command.h"

#include <ctype.h>
#include <string.h>

#define ROW_(name_, code_, written_, meaning_) {written_, meaning_},
const ccl_i_exit_code_t ccl_i_exit_codes[] = {CCL_EXIT_MAP(ROW_){NULL, NULL}};

/** Text that roff leaves as it is: every hyphen one that can be copied, no line a request. */
static void plain(ccl_text_t *out, const char *text) {
    bool start = true;

    for (const char *p = text; *p; p++) {
        if (start && (*p == '.' || *p == '\''))
            ccl_text_add(out, "\\&", 2);
        if (*p == '-')
            ccl_text_add(out, "\\-", 2);
        else if (*p == '\\')
            ccl_text_add(out, "\\e", 2);
        else
            ccl_text_add(out, p, 1);
        start = *p == '\n';
    }
}

/** A line of text, ended. */
static void line(ccl_text_t *out, const char *text) {
    plain(out, text);
    if (!*text || text[strlen(text) - 1] != '\n')
        ccl_text_add(out, "\n", 1);
}

/** "topology show" is the page ccllab-topology-show. */
static void page_name(const ccl_i_command_t *command, char *out, size_t out_len) {
    size_t n = (size_t)snprintf(out, out_len, "ccllab-%s", command->name);

    for (size_t i = 0; i < n && i < out_len; i++)
        if (out[i] == ' ')
            out[i] = '-';
}

static void title(ccl_text_t *out, const char *name, const char *summary) {
    ccl_text_printf(out, ".\\\" made by \"ccllab help --man\"\n.TH ");
    for (const char *p = name; *p; p++) {
        char upper = (char)toupper((unsigned char)*p);

        if (upper == '-')
            ccl_text_add(out, "\\-", 2);
        else
            ccl_text_add(out, &upper, 1);
    }
    ccl_text_printf(out, " 1 \"\" \"ccllab %s\" \"ccllab manual\"\n.nh\n.SH NAME\n", CCL_VERSION);
    plain(out, name);
    ccl_text_printf(out, " \\- ");
    line(out, summary);
}

static void option(ccl_text_t *out, const ccl_i_option_info_t *o) {
    ccl_text_t text = {0};

    ccl_text_printf(out, ".TP\n");
    if (o->letter)
        ccl_text_printf(out, "\\fB\\-%c\\fR, ", o->letter);
    ccl_text_printf(out, "\\fB\\-\\-");
    plain(out, o->name);
    ccl_text_printf(out, "\\fR");
    if (o->value) {
        ccl_text_printf(out, "%s\\fI", o->value_optional ? "[=" : " ");
        plain(out, o->value);
        ccl_text_printf(out, "\\fR%s", o->value_optional ? "]" : "");
    }
    ccl_text_add(out, "\n", 1);
    ccl_i_option_doc(o, &text);
    line(out, text.data ? text.data : "");
    out->nomem |= text.nomem;
    ccl_text_fini(&text);
}

static void options(ccl_text_t *out, const ccl_i_command_t *command, bool general) {
    ccl_i_option_info_t o, before = {0};

    for (size_t i = 0; ccl_i_option_info(command, i, &o); i++) {
        if (o.general != general)
            continue;
        if (strcmp(o.group, before.group) != 0)
            ccl_text_printf(out, ".SH OPTIONS OF %s\n", o.group);
        before = o;
        option(out, &o);
        if (strcmp(o.name, "table") == 0)
            for (size_t t = 0; command->tables && command->tables[t]; t++)
                ccl_text_printf(out, "%s%s%s", t ? ", " : "Tables: ", command->tables[t],
                                command->tables[t + 1] ? "" : ".\n");
    }
}

/** @param no  what 1 means here; NULL: as of all. @param every  also codes that cannot happen. */
static void exit_codes(ccl_text_t *out, const char *no, bool every) {
    ccl_text_printf(out, ".SH EXIT STATUS\n");
    for (const ccl_i_exit_code_t *e = ccl_i_exit_codes; e->code; e++) {
        bool is_no = strcmp(e->code, "1") == 0;

        if (is_no && !no && !every)
            continue;
        ccl_text_printf(out, ".TP\n.B %s\n", e->code);
        line(out, is_no && no ? no : e->meaning);
    }
}

static void see_also(ccl_text_t *out, const ccl_i_command_t *but) {
    char name[80];
    const char *between = "";

    ccl_text_printf(out, ".SH SEE ALSO\n");
    if (but) {
        ccl_text_printf(out, ".BR ccllab (1)");
        between = ",\n";
    }
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        if (ccl_i_commands[i] == but)
            continue;
        page_name(ccl_i_commands[i], name, sizeof(name));
        ccl_text_printf(out, "%s.BR ", between);
        plain(out, name);
        ccl_text_printf(out, " (1)");
        between = ",\n";
    }
    ccl_text_printf(out, "\n.PP\nThe documentation, in Markdown, has an index, docs/README.md; "
                         "docs/commands.md says more of each command.\n");
}

void ccl_i_man_program(ccl_text_t *out) {
    char name[80];

    title(out, "ccllab", "laboratory for collective communication on heterogeneous GPU clusters");
    ccl_text_printf(out, ".SH SYNOPSIS\n.B ccllab\n[\\fB\\-\\-version\\fR | "
                         "\\fB\\-\\-help\\fR] \\fICOMMAND\\fR [\\fIoptions\\fR] "
                         "\\fIINPUT\\fR...\n.SH DESCRIPTION\n");
    line(out, "Builds schedules of collectives for a cluster that is described in a file, proves\n"
              "them right, simulates them thread block by thread block, compares them at every\n"
              "message size, and runs them on a device. The result goes to standard output, all\n"
              "else to standard error: errors as one line \"ccllab: file:line:column: text\".\n"
              "Options may stand before and after inputs; --opt value and --opt=value are the\n"
              "same; -- ends the options; - as a file is standard input.");
    ccl_text_printf(out, ".SH COMMANDS\n");
    for (size_t i = 0; ccl_i_commands[i]; i++) {
        page_name(ccl_i_commands[i], name, sizeof(name));
        ccl_text_printf(out, ".TP\n.BR ");
        plain(out, name);
        ccl_text_printf(out, " (1)\n");
        line(out, ccl_i_commands[i]->summary);
    }
    ccl_text_printf(out, ".SH OPTIONS OF EVERY COMMAND\n");
    options(out, ccl_i_commands[0], true);
    exit_codes(out, NULL, true);
    see_also(out, NULL);
}

void ccl_i_man_command(const ccl_i_command_t *command, ccl_text_t *out) {
    char name[80];

    page_name(command, name, sizeof(name));
    title(out, name, command->summary);
    ccl_text_printf(out, ".SH SYNOPSIS\n.B ccllab ");
    plain(out, command->name);
    ccl_text_add(out, "\n", 1);
    line(out, command->usage);
    ccl_text_printf(out, ".SH DESCRIPTION\n");
    line(out, command->details ? command->details : command->summary);
    if (command->accepts[0]) {
        ccl_text_printf(out, ".SH OPTIONS\n");
        options(out, command, false);
    }
    ccl_text_printf(out, ".SH OPTIONS OF EVERY COMMAND\n");
    options(out, command, true);
    exit_codes(out, command->no, false);
    ccl_text_printf(out, ".SH EXAMPLES\n.nf\n");
    plain(out, command->examples);
    ccl_text_printf(out, ".fi\n");
    see_also(out, command);
}
