/* What several commands read: topologies, programs and schedules, collectives, lists of sizes. */
#include "cli/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SIZES = 4096 };

/* ---------------------------------------------------------------- topologies */

/* The topology with one edit; takes it over. */
static ccl_status_t edited(ccl_topology_t **topo, const char *edit, ccl_error_t *err) {
    ccl_topology_t *now = NULL;
    ccl_status_t status = ccl_topology_edit(*topo, edit, &now, err);

    ccl_topology_destroy(*topo);
    *topo = now;
    /* "fail:gpu:9" is how the option is passed on; show it as it was given. */
    if (status != CCL_OK && err && strcmp(err->where, edit) == 0)
        snprintf(err->where, sizeof(err->where), "--%.*s %s", (int)strcspn(edit, ":"), edit,
                 edit + strcspn(edit, ":") + 1);
    return status;
}

enum { OF_PARTS = 1, OF_CONSTANTS = 2 };

static int edit_is(const char *edit) {
    return strncmp(edit, "set:", 4) == 0 || strncmp(edit, "scale:", 6) == 0 ? OF_CONSTANTS
                                                                            : OF_PARTS;
}

/* The edits of these kinds, in their order. */
static ccl_status_t edit_all(const ccl_i_cli_t *cli, int kinds, const char *more,
                             ccl_topology_t **topo, ccl_error_t *err) {
    for (size_t i = 0; i < cli->args.edits.n; i++)
        if (edit_is(cli->args.edits.items[i]) & kinds)
            CCL_TRY(edited(topo, cli->args.edits.items[i], err));
    return more && edit_is(more) & kinds ? edited(topo, more, err) : CCL_OK;
}

static ccl_status_t read_cluster(ccl_i_cli_t *cli, const char *spec, ccl_topology_t **out,
                                 ccl_error_t *err) {
    if (!spec)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "no cluster given: --topology SPEC (ccllab topology list shows some)");
    return ccl_topology_read(&cli->ctx, spec, out, err);
}

ccl_status_t ccl_i_topology_open(ccl_i_cli_t *cli, const char *spec, ccl_topology_t **out,
                                 ccl_error_t *err) {
    ccl_topology_t *topo = NULL;

    CCL_TRY(read_cluster(cli, spec, &topo, err));
    CCL_TRY(edit_all(cli, OF_PARTS | OF_CONSTANTS, NULL, &topo, err));
    *out = topo;
    return CCL_OK;
}

ccl_status_t ccl_i_cluster_profile(const ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                   ccl_profile_t **out, ccl_error_t *err) {
    *out = NULL;
    if (!cli->args.profile && cli->args.tune.save_profile)
        return CCL_OK; /* what is fitted then lies over a description */
    if (!cli->args.profile)
        return ccl_profile_for(topo, out, err);
    return strcmp(cli->args.profile, "none") == 0 ? CCL_OK
                                                  : ccl_profile_read(cli->args.profile, out, err);
}

ccl_status_t ccl_i_cluster_open(ccl_i_cli_t *cli, const char *spec, const char *edit,
                                ccl_topology_t **machine_out, ccl_topology_t **out,
                                ccl_error_t *err) {
    ccl_topology_t *topo = NULL, *laid = NULL;
    ccl_profile_t *profile = NULL;
    ccl_status_t status;

    CCL_TRY(read_cluster(cli, spec, &topo, err));
    CCL_TRY(edit_all(cli, OF_PARTS, edit, &topo, err));
    status = ccl_i_cluster_profile(cli, topo, &profile, err);
    if (status == CCL_OK && profile)
        status = ccl_profile_apply(&cli->ctx, profile, topo, &laid, err);
    ccl_profile_destroy(profile);
    if (status == CCL_OK)
        status = edit_all(cli, OF_CONSTANTS, edit, &topo, err);
    if (status == CCL_OK && laid)
        status = edit_all(cli, OF_CONSTANTS, edit, &laid, err);
    if (status != CCL_OK) {
        ccl_topology_destroy(topo);
        ccl_topology_destroy(laid);
        return status;
    }
    *out = laid ? laid : topo;
    if (machine_out)
        *machine_out = laid ? topo : NULL;
    else if (laid)
        ccl_topology_destroy(topo);
    return CCL_OK;
}

/* ---------------------------------------------------------------- programs and schedules */

ccl_status_t ccl_i_document_read(const char *path, ccl_i_document_t *out, const char **form_out,
                                 ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0;
    size_t at = 0;
    ccl_status_t status;

    out->program = NULL;
    out->schedule = NULL;
    *form_out = "program";
    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < len && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    if (strcmp(path, "-") == 0)
        path = "<stdin>";
    if (at == len) {
        status = ccl_error_set(err, CCL_ERR_INPUT, path, 1, 1,
                               "nothing in it; a program (XML) or a schedule (JSON, ResCCLang) is "
                               "wanted");
    } else if (text[at] == '<') {
        status = ccl_program_read_xml(path, text, len, &out->program, err);
    } else if (text[at] == '{' && ccl_program_is_mscclpp(text, len)) {
        status = ccl_program_read_mscclpp(path, text, len, &out->program, err);
    } else if (text[at] == '{' || text[at] == '[') {
        *form_out = "schedule";
        status = ccl_schedule_read_json(path, text, len, &out->schedule, err);
    } else {
        *form_out = "schedule";
        status = ccl_schedule_read_resccl(path, text, len, &out->schedule, err);
    }
    if (out->program && !out->program->origin[0])
        ccl_origin_file(out->program->origin, path);
    if (out->schedule && !out->schedule->origin[0])
        ccl_origin_file(out->schedule->origin, path);
    free(text);
    return status;
}

void ccl_i_document_fini(ccl_i_document_t *document) {
    ccl_program_destroy(document->program);
    ccl_schedule_destroy(document->schedule);
    document->program = NULL;
    document->schedule = NULL;
}

char *ccl_i_title(const char *path) {
    char title[121];

    ccl_file_title(path, title, sizeof(title));
    return strdup(title);
}

/* ---------------------------------------------------------------- collectives */

/* Is one of these words, in a list with commas, a rooted collective? */
static bool any_is_rooted(const char *list) {
    while (list) {
        const char *comma = strchr(list, ',');
        char word[32];
        ccl_collective_kind_t kind;
        snprintf(word, sizeof word, "%.*s", comma ? (int)(comma - list) : (int)strlen(list), list);
        if (ccl_collective_kind_parse(word, &kind, NULL) == CCL_OK &&
            ccl_collective_kind_is_rooted(kind))
            return true;
        list = comma ? comma + 1 : NULL;
    }
    return false;
}

ccl_status_t ccl_i_collective_open(const ccl_i_args_t *args, const char *word, uint32_t nranks,
                                   ccl_collective_t **out, ccl_error_t *err) {
    ccl_collective_kind_t kind;
    ccl_collective_t *coll = NULL;

    if (args->demand) {
        if (ccl_i_given(args, "root"))
            return ccl_fail(err, CCL_ERR_USAGE,
                            "--root is of broadcast, reduce, gather and scatter; a demand file "
                            "says itself where its chunks are");
        CCL_TRY(ccl_demand_read(args->demand, &coll, err));
        if (coll->nranks != nranks) {
            ccl_status_t status = ccl_error_set(
                err, CCL_ERR_INPUT, args->demand, 0, 0,
                "a demand for %u ranks, but the cluster has %u GPUs", coll->nranks, nranks);

            ccl_collective_destroy(coll);
            return status;
        }
        *out = coll;
        return CCL_OK;
    }
    if (!word)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "no collective given: --collective NAME, or --demand FILE");
    CCL_TRY(ccl_collective_kind_parse(word, &kind, err));
    if (kind == CCL_CUSTOM)
        return ccl_fail(err, CCL_ERR_USAGE, "a custom collective is given by --demand FILE");
    if (args->root >= nranks)
        return ccl_fail(err, CCL_ERR_USAGE, "root %u, but the cluster has the ranks 0 to %u",
                        args->root, nranks - 1);
    if (ccl_i_given(args, "root") && args->collective && !any_is_rooted(args->collective))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--root is of broadcast, reduce, gather and scatter; %s has no root",
                        ccl_collective_kind_name(kind));
    return ccl_collective_create(kind, nranks, 1, args->root, out, err);
}

/* ---------------------------------------------------------------- lists */

ccl_status_t ccl_i_words(const char *option, const char *text, char **copy_out,
                         const char ***words_out, uint32_t *n_out, ccl_error_t *err) {
    char *copy = strdup(text);
    ccl_i_list_t list = {0};
    char *p = copy;

    if (!copy)
        return ccl_fail_nomem(err);
    while (p) {
        char *comma = strchr(p, ',');

        if (comma)
            *comma = '\0';
        if (!*p) {
            free(copy);
            free(list.items);
            return ccl_fail(err, CCL_ERR_USAGE, "option --%s: empty word in \"%s\"", option, text);
        }
        if (!ccl_i_list_add(&list, p)) {
            free(copy);
            free(list.items);
            return ccl_fail_nomem(err);
        }
        p = comma ? comma + 1 : NULL;
    }
    *copy_out = copy;
    *words_out = list.items;
    *n_out = (uint32_t)list.n;
    return CCL_OK;
}

static ccl_status_t size_of(const char *text, double *out, ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;

    if (ccl_parse_bytes(text, out, &inner) != CCL_OK)
        return ccl_fail(err, CCL_ERR_USAGE, "option --sizes: %s", inner.text);
    if (!(*out > 0))
        return ccl_fail(err, CCL_ERR_USAGE, "option --sizes: a size must be more than 0");
    return CCL_OK;
}

typedef struct sizes {
    double *items;
    size_t n, cap;
} sizes_t;

static ccl_status_t size_add(sizes_t *sizes, double value, ccl_error_t *err) {
    if (sizes->n == MAX_SIZES)
        return ccl_fail(err, CCL_ERR_USAGE, "option --sizes: more than %d sizes", MAX_SIZES);
    if (!ccl_grow(&sizes->items, &sizes->cap, sizes->n + 1, sizeof(*sizes->items)))
        return ccl_fail_nomem(err);
    sizes->items[sizes->n++] = value;
    return CCL_OK;
}

/** One word: a size, FIRST:LAST or FIRST:LAST:FACTOR. Writes into the word. */
static ccl_status_t size_range(char *word, sizes_t *sizes, ccl_error_t *err) {
    char *last_text = strchr(word, ':');
    char *factor_text = last_text ? strchr(last_text + 1, ':') : NULL;
    double first = 0;
    double last = 0;
    double factor = 2;

    if (last_text)
        *last_text++ = '\0';
    if (factor_text)
        *factor_text++ = '\0';
    CCL_TRY(size_of(word, &first, err));
    if (!last_text)
        return size_add(sizes, first, err);
    CCL_TRY(size_of(last_text, &last, err));
    if (last < first)
        return ccl_fail(err, CCL_ERR_USAGE, "option --sizes: \"%s\" is less than \"%s\"", last_text,
                        word);
    if (factor_text) {
        char *end = NULL;

        factor = strtod(factor_text, &end);
        if (end == factor_text || *end || !isfinite(factor) || !(factor > 1))
            return ccl_fail(err, CCL_ERR_USAGE,
                            "option --sizes: factor \"%s\" is not a number greater than 1",
                            factor_text);
    }
    /* A factor such as 1.1 must still end at LAST. */
    for (uint32_t k = 0;; k++) {
        double value = first * pow(factor, k);

        if (value > last * (1 + 1e-9))
            return CCL_OK;
        CCL_TRY(size_add(sizes, value, err));
    }
}

ccl_status_t ccl_i_percent_option(const char *option, const char *text, double *out,
                                  ccl_error_t *err) {
    char *end = NULL;
    double value = strtod(text, &end);

    if (end == text || strcmp(end, "%") != 0 || !isfinite(value) || value < 0)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%s wants a percentage such as 1%%, not \"%.60s\"", option, text);
    *out = value / 100;
    return CCL_OK;
}

ccl_status_t ccl_i_sizes(const char *text, double **out, uint32_t *n_out, ccl_error_t *err) {
    sizes_t sizes = {0};
    char *copy = NULL;
    const char **words = NULL;
    uint32_t n = 0;
    ccl_status_t status;

    CCL_TRY(ccl_i_words("sizes", text, &copy, &words, &n, err));
    status = CCL_OK;
    for (uint32_t i = 0; status == CCL_OK && i < n; i++)
        status = size_range((char *)words[i], &sizes, err);
    free(words);
    free(copy);
    if (status != CCL_OK) {
        free(sizes.items);
        return status;
    }
    *out = sizes.items;
    *n_out = (uint32_t)sizes.n;
    return CCL_OK;
}

ccl_status_t ccl_i_sizes_of(const ccl_i_args_t *args, const ccl_collective_t *want,
                            const char *otherwise, double **out, uint32_t *n_out,
                            ccl_error_t *err) {
    if (args->sizes || !(want->natural_bytes > 0))
        return ccl_i_sizes(args->sizes ? args->sizes : otherwise, out, n_out, err);
    *out = malloc(sizeof(**out));
    if (!*out)
        return ccl_fail_nomem(err);
    **out = want->natural_bytes;
    *n_out = 1;
    return CCL_OK;
}

ccl_sim_options_t ccl_i_sim_options(const ccl_i_args_t *args) {
    ccl_sim_options_t options = args->sim;

    options.size_bytes = args->size_bytes;
    options.cause = true;
    return options;
}

void ccl_i_page_made(const ccl_i_cli_t *cli, char date[16], ccl_text_t *line,
                     ccl_report_page_t *page) {
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    time_t now = epoch && *epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
    struct tm day;

    if (gmtime_r(&now, &day) && strftime(date, 16, "%Y-%m-%d", &day) > 0)
        page->date = date;
    ccl_text_printf(line, "ccllab");
    for (int i = 1; i < cli->argc; i++) {
        const char *plain =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_./,:=@";
        bool quote = cli->argv[i][0] == '\0' || cli->argv[i][strspn(cli->argv[i], plain)] != '\0';

        ccl_text_printf(line, quote ? " '%s'" : " %s", cli->argv[i]);
    }
    page->command = line->data;
}

/** What `report` makes of one JSON result, with the cluster of the line. */
static ccl_status_t write_page(ccl_i_cli_t *cli, const ccl_text_t *text, ccl_text_t *out,
                               ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_json_doc_t doc = {0};
    ccl_report_page_t page = {.ndocs = 1, .docs = &doc};
    ccl_text_t line = {0};
    char date[16];
    ccl_status_t status = ccl_json_parse(cli->args.output, text->data, text->len, &doc, err);

    if (status == CCL_OK && cli->args.topology)
        status = ccl_i_topology_open(cli, cli->args.topology, &topo, err);
    page.topo = topo;
    ccl_i_page_made(cli, date, &line, &page);
    if (status == CCL_OK)
        status = ccl_report_page(&page, out, err);
    ccl_text_fini(&line);
    ccl_topology_destroy(topo);
    ccl_json_fini(&doc);
    return status;
}

ccl_status_t ccl_i_emit(ccl_i_cli_t *cli, const ccl_text_t *text, ccl_error_t *err) {
    const char *to = cli->args.output ? cli->args.output : "-";
    ccl_status_t status;

    if (text->nomem)
        return ccl_fail_nomem(err);
    if (cli->page && text->data) {
        ccl_text_t html = {0};

        status = write_page(cli, text, &html, err);

        cli->page = false;
        if (status == CCL_OK)
            status = ccl_i_emit(cli, &html, err);
        ccl_text_fini(&html);
        return status;
    }
    ccl_i_terminal_clear();
    if (text->columns && text->data) { /* lines that no table has laid out */
        ccl_text_t lines = {.columns = text->columns};
        ccl_text_add_wrapped(&lines, text->data);
        status = lines.nomem ? ccl_fail_nomem(err) : ccl_file_write(to, lines.data, lines.len, err);
        ccl_text_fini(&lines);
        return status;
    }
    return ccl_file_write(to, text->data ? text->data : "", text->len, err);
}

void ccl_i_warn_sizes(const ccl_i_cli_t *cli, const char *path, const ccl_program_t *program,
                      const double *sizes_bytes, uint32_t nsizes) {
    char outside[40] = "";
    uint32_t n = 0;

    for (uint32_t i = 0; i < nsizes; i++)
        n += sizes_bytes[i] < program->min_bytes ||
             (program->max_bytes > 0 && sizes_bytes[i] > program->max_bytes);
    if (nsizes > 1)
        snprintf(outside, sizeof(outside), "; %u of %u sizes are outside", n, nsizes);
    if (n > 0)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "sizes",
                "%s: made for sizes from %.0f to %.0f bytes (minBytes, maxBytes; 0: no limit)%s",
                path, program->min_bytes, program->max_bytes, outside);
}
