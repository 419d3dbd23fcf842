/* Which command, its options, its exit code. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

const ccl_i_command_t *const ccl_i_commands[] = {&ccl_i_cmd_compare,
                                                 &ccl_i_cmd_simulate,
                                                 &ccl_i_cmd_explain,
                                                 &ccl_i_cmd_bound,
                                                 &ccl_i_cmd_verify,
                                                 &ccl_i_cmd_synth,
                                                 &ccl_i_cmd_lower,
                                                 &ccl_i_cmd_calibrate,
                                                 &ccl_i_cmd_validate,
                                                 &ccl_i_cmd_diagnose,
                                                 &ccl_i_cmd_watch,
                                                 &ccl_i_cmd_thresholds,
                                                 &ccl_i_cmd_run,
                                                 &ccl_i_cmd_devices,
                                                 &ccl_i_cmd_testbed_up,
                                                 &ccl_i_cmd_testbed_run,
                                                 &ccl_i_cmd_testbed_down,
                                                 &ccl_i_cmd_testbed_list,
                                                 &ccl_i_cmd_testbed_topology,
                                                 &ccl_i_cmd_tune,
                                                 &ccl_i_cmd_sweep,
                                                 &ccl_i_cmd_failover,
                                                 &ccl_i_cmd_export,
                                                 &ccl_i_cmd_balance,
                                                 &ccl_i_cmd_demand_moe,
                                                 &ccl_i_cmd_work,
                                                 &ccl_i_cmd_notebook_list,
                                                 &ccl_i_cmd_notebook_show,
                                                 &ccl_i_cmd_notebook_query,
                                                 &ccl_i_cmd_notebook_diff,
                                                 &ccl_i_cmd_notebook_export,
                                                 &ccl_i_cmd_notebook_copy,
                                                 &ccl_i_cmd_notebook_gc,
                                                 &ccl_i_cmd_algos,
                                                 &ccl_i_cmd_topology_list,
                                                 &ccl_i_cmd_topology_show,
                                                 &ccl_i_cmd_topology_expand,
                                                 &ccl_i_cmd_topology_here,
                                                 &ccl_i_cmd_topology_check,
                                                 &ccl_i_cmd_topology_symmetry,
                                                 &ccl_i_cmd_draw_topology,
                                                 &ccl_i_cmd_draw_timeline,
                                                 &ccl_i_cmd_draw_busbw,
                                                 &ccl_i_cmd_draw_idle,
                                                 &ccl_i_cmd_draw_progress,
                                                 &ccl_i_cmd_draw_curves,
                                                 &ccl_i_cmd_report,
                                                 &ccl_i_cmd_schema,
                                                 &ccl_i_cmd_doctor,
                                                 NULL};

static int usage_error(const char *text) {
    ccl_i_say("", text);
    return ccl_status_exit_code(CCL_ERR_USAGE);
}

static int print(ccl_text_t *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status =
        text->nomem ? ccl_fail_nomem(&err) : ccl_file_write("-", text->data, text->len, &err);

    ccl_text_fini(text);
    if (status != CCL_OK)
        ccl_i_say("", err.text);
    return ccl_status_exit_code(status);
}

/**
 * The command of argv[1], or of argv[1] and argv[2] ("topology show").
 * @param words_out  how many words name it.
 */
static const ccl_i_command_t *find_command(int argc, char **argv, int *words_out) {
    char two[80];

    for (int words = 1; words <= 2 && words < argc; words++) {
        if (words == 1)
            snprintf(two, sizeof(two), "%s", argv[1]);
        else
            snprintf(two, sizeof(two), "%s %s", argv[1], argv[2]);
        for (size_t i = 0; ccl_i_commands[i]; i++) {
            if (strcmp(ccl_i_commands[i]->name, two) == 0) {
                *words_out = words;
                return ccl_i_commands[i];
            }
        }
    }
    return NULL;
}

/** Does some command's name begin with this word and a blank? */
static bool is_family(const char *word) {
    size_t len = strlen(word);

    for (size_t i = 0; ccl_i_commands[i]; i++) {
        if (strncmp(ccl_i_commands[i]->name, word, len) == 0 && ccl_i_commands[i]->name[len] == ' ')
            return true;
    }
    return false;
}

static bool is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/** No command of that name: a family's list, or the nearest name. */
static int no_command(int argc, char **argv) {
    const char *names[64];
    const char *word = argv[1];
    const char *near;
    size_t n = 0;
    bool family = is_family(word);
    char text[400];
    ccl_text_t help = {0};

    if (family && argc > 2 && is_help(argv[2])) {
        ccl_i_help_family(word, &help);
        return print(&help);
    }
    if (family && (argc <= 2 || argv[2][0] == '-')) {
        snprintf(text, sizeof(text), "\"%s\" wants %s", word,
                 strcmp(word, "topology") == 0 ? "list, show, expand, check or symmetry"
                 : strcmp(word, "draw") == 0 ? "topology, timeline, busbw, idle, progress or curves"
                 : strcmp(word, "testbed") == 0 ? "up, run, down, list or topology"
                                                : "list, show, query, diff, export, copy or gc");
        return usage_error(text);
    }
    for (size_t i = 0; ccl_i_commands[i] && n + 5 < CCL_ARRAY_LEN(names); i++) {
        const char *name = ccl_i_commands[i]->name;

        if (family && strncmp(name, word, strlen(word)) == 0)
            names[n++] = name + strlen(word) + 1;
        else if (!family)
            names[n++] = name;
    }
    if (!family) {
        names[n++] = "topology";
        names[n++] = "testbed";
        names[n++] = "draw";
        names[n++] = "notebook";
    }
    names[n] = NULL;
    if (family)
        word = argv[2];
    near = ccl_nearest(word, names);
    if (word[0] == '-')
        snprintf(text, sizeof(text), "unknown option %.100s before a command (see ccllab --help)",
                 word);
    else if (near)
        snprintf(text, sizeof(text), "unknown command \"%.100s\", did you mean \"%s\"?", word,
                 near);
    else
        snprintf(text, sizeof(text), "unknown command \"%.100s\" (see ccllab --help)", word);
    return usage_error(text);
}

/** --json and --csv, else what the name of -o ends in. */
static void set_style(ccl_i_cli_t *cli, const ccl_i_command_t *command) {
    const char *dot = cli->args.output ? strrchr(cli->args.output, '.') : NULL;
    /* For these, -o names a file in a format of its own. */
    bool own = command == &ccl_i_cmd_synth || command == &ccl_i_cmd_lower ||
               command == &ccl_i_cmd_topology_expand || command == &ccl_i_cmd_topology_here ||
               command == &ccl_i_cmd_testbed_topology || command == &ccl_i_cmd_calibrate ||
               command == &ccl_i_cmd_report || strncmp(command->name, "draw ", 5) == 0;

    cli->style = (ccl_report_style_t)CCL_REPORT_STYLE_INIT;
    if (cli->args.json || (!own && !cli->args.csv && dot && strcmp(dot, ".json") == 0))
        cli->style.format = CCL_REPORT_JSON;
    else if (cli->args.csv || (!own && dot && strcmp(dot, ".csv") == 0))
        cli->style.format = CCL_REPORT_CSV;
    else if (!own && dot && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0)) {
        cli->style.format = CCL_REPORT_JSON; /* ccl_i_emit() makes a page of it */
        cli->page = true;
    }
    if (cli->style.format == CCL_REPORT_TEXT &&
        (!cli->args.output || strcmp(cli->args.output, "-") == 0))
        cli->style.columns = ccl_i_terminal_columns();
    cli->style.table = cli->args.table;
    cli->style.rows = cli->args.rows;
}

int ccl_i_finish(ccl_status_t status, const ccl_error_t *err) {
    char text[1400];
    int code = ccl_status_exit_code(status);

    ccl_i_terminal_clear();
    if (status == CCL_INTERRUPTED) {
        int number = ccl_i_terminal_signal();

        ccl_i_say("interrupted", err->status == CCL_INTERRUPTED ? err->text : "");
        return number ? 128 + number : code;
    }
    if (status == CCL_OK || err->status == CCL_OK)
        return code;
    ccl_error_format(err, text, sizeof(text));
    ccl_i_say(status == CCL_ERR_INTERNAL ? "bug, please report it" : "", text);
    return code;
}

static bool completion(const char *shell, ccl_text_t *out) {
    if (strcmp(shell, "bash") == 0)
        ccl_i_completion_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        ccl_i_completion_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        ccl_i_completion_fish(out);
    else
        return false;
    return true;
}

/** "help", "help COMMAND", and what the build makes of the tables: manual pages, completion. */
static int help(int argc, char **argv) {
    const ccl_i_command_t *command = NULL;
    const char *what = argc > 2 ? argv[2] : "";
    ccl_text_t text = {0};
    int words = 1;
    bool man = strcmp(what, "--man") == 0;

    if (man && argc > 3) {
        command = find_command(argc - 2, argv + 2, &words);
        if (!command)
            return no_command(argc - 2, argv + 2);
    } else if (argc > 2) {
        command = find_command(argc - 1, argv + 1, &words);
    }
    if (man && command) {
        ccl_i_man_command(command, &text);
    } else if (man) {
        ccl_i_man_program(&text);
    } else if (strcmp(what, "--completion") == 0) {
        if (argc > 4 || !completion(argc == 4 ? argv[3] : "bash", &text))
            return usage_error("help --completion wants bash, zsh or fish");
    } else if (strcmp(what, "--commands") == 0) {
        for (size_t i = 0; ccl_i_commands[i]; i++)
            ccl_text_printf(&text, "%s\n", ccl_i_commands[i]->name);
    } else if (strcmp(what, "--markdown") == 0) {
        if (argc != 4 || !ccl_i_markdown(argv[3], &text))
            return usage_error("help --markdown wants synthesizers, lowering, runs or knobs");
    } else if (command) {
        ccl_i_help_command(command, &text); /* as with --help behind it */
    } else if (is_family(what)) {
        ccl_i_help_family(what, &text);
    } else if (argc > 2) {
        return no_command(argc - 1, argv + 1);
    } else {
        ccl_i_help_all(&text);
    }
    return print(&text);
}

int ccl_cli_main(int argc, char **argv) {
    const ccl_i_command_t *command;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};
    ccl_i_cli_t cli;
    ccl_status_t status;
    int words = 1;
    int code;

    if (argc < 2)
        return usage_error("no command given (see ccllab --help)");
    if (strcmp(argv[1], "--version") == 0) {
        ccl_text_printf(&text, "ccllab %s\n", ccl_notebook_tool());
        return print(&text);
    }
    command = find_command(argc, argv, &words);
    if (!command && is_help(argv[1]))
        return help(argc, argv);
    if (!command)
        return no_command(argc, argv);

    memset(&cli, 0, sizeof(cli));
    cli.argc = argc;
    cli.argv = argv;
    ccl_i_args_init(&cli.args);
    status = ccl_i_plugins_load(command, argc - 1 - words, argv + 1 + words, &err);
    if (status == CCL_OK)
        status = ccl_i_options_parse(command, argc - 1 - words, argv + 1 + words, &cli.args, &err);
    if (status == CCL_OK && cli.args.help) {
        ccl_i_args_fini(&cli.args);
        ccl_i_help_command(command, &text);
        return print(&text);
    }
    if (status == CCL_OK) {
        ccl_i_terminal_open(&cli);
        set_style(&cli, command);
        status = command->run(&cli, &err);
        ccl_i_terminal_close();
    }
    code = ccl_i_finish(status, &err);
    ccl_i_args_fini(&cli.args);
    return code;
}
