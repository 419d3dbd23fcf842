/* Options of synthesizers: what stands in args->synth, with the files that some of them name. */
#include "cli/command.h"

#include <string.h>

/** A program has no ways of blocks to start from. */
static ccl_status_t read_schedule(const char *option, const char *path, ccl_schedule_t **out,
                                  ccl_error_t *err) {
    ccl_i_document_t document = {NULL, NULL};
    const char *form;

    CCL_TRY(ccl_i_document_read(path, &document, &form, err));
    if (!document.schedule) {
        ccl_i_document_fini(&document);
        return ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0,
                             "--%s wants a schedule (JSON), this is a %s", option, form);
    }
    *out = document.schedule;
    return CCL_OK;
}

/** All kinds of files of one table. */
static ccl_status_t open_files(const ccl_i_args_t *args, const ccl_option_t *table,
                               ccl_i_synth_files_t *files, ccl_synth_options_t *out,
                               ccl_error_t *err) {
    for (; table->name; table++) {
        const char *path = ccl_i_given_text(args, table->name);
        void *at = (char *)out + table->offset;

        if (path && table->type == CCL_OPTION_INPUT) { /* there is one: they exclude each other */
            CCL_TRY(ccl_json_read(path, &files->input, err));
            *(const ccl_json_doc_t **)at = &files->input;
        } else if (path && table->type == CCL_OPTION_OUTPUT) {
            if (files->noutputs == CCL_ARRAY_LEN(files->outputs))
                return ccl_fail(err, CCL_ERR_INTERNAL, "more than %u files to write",
                                files->noutputs);
            files->outputs[files->noutputs].path = path;
            *(ccl_text_t **)at = &files->outputs[files->noutputs++].text;
        } else if (path && table->type == CCL_OPTION_SCHEDULE) {
            if (files->schedule)
                return ccl_fail(err, CCL_ERR_INTERNAL, "more than one schedule to read");
            CCL_TRY(read_schedule(table->name, path, &files->schedule, err));
            *(const ccl_schedule_t **)at = files->schedule;
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_synth_options(const ccl_i_args_t *args, ccl_i_synth_files_t *files,
                                 ccl_synth_options_t *out, ccl_error_t *err) {
    *out = args->synth;
    out->size_bytes = args->size_bytes;
    out->plain = args->lower.executor != CCL_EXECUTOR_ANY;
    out->no_switches = !ccl_protocol_switches(args->lower.proto);
    if (!out->sketch.cache) /* the library keeps nothing unless it is asked to */
        out->sketch.cache = "auto";
    for (uint32_t t = 0; ccl_synth_option_table(t); t++)
        CCL_TRY(open_files(args, ccl_synth_option_table(t), files, out, err));
    return CCL_OK;
}

ccl_status_t ccl_i_synth_files_write(const ccl_i_synth_files_t *files, ccl_error_t *err) {
    for (uint32_t i = 0; i < files->noutputs; i++) {
        const ccl_text_t *text = &files->outputs[i].text;

        if (text->nomem)
            return ccl_fail_nomem(err);
        CCL_TRY(
            ccl_file_write(files->outputs[i].path, text->data ? text->data : "", text->len, err));
    }
    return CCL_OK;
}

void ccl_i_synth_files_fini(ccl_i_synth_files_t *files) {
    ccl_json_fini(&files->input);
    ccl_schedule_destroy(files->schedule);
    for (uint32_t i = 0; i < files->noutputs; i++)
        ccl_text_fini(&files->outputs[i].text);
}

ccl_status_t ccl_i_synth_files_check(const ccl_i_args_t *args, const char *with, ccl_error_t *err) {
    const ccl_synth_ops_t *ops = ccl_synth_find(with);
    const ccl_option_t *table;
    char owners[80];

    for (uint32_t t = 0; (table = ccl_synth_option_table(t)); t++) {
        if (ops && ccl_synth_has_options(ops, table))
            continue;
        for (const ccl_option_t *o = table; o->name; o++)
            if (o->type >= CCL_OPTION_INPUT && ccl_i_given(args, o->name))
                return ccl_fail(err, CCL_ERR_USAGE, "--%s is for --with %s", o->name,
                                ccl_synth_option_owners(table, owners, sizeof(owners)));
    }
    return CCL_OK;
}
