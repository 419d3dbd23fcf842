/**
 * @file page.h
 * Private to report/: what the files of the HTML page share.
 */
#ifndef CCL_REPORT_PAGE_H
#define CCL_REPORT_PAGE_H

#include "report/pictures.h"
#include "base/json.h"
#include "report/writer.h"

/* Files beside this one, which the binary carries. */
extern const char ccl_i_page_css[], ccl_i_timeline_js[], ccl_i_curves_js[];

/** A page while it is written. */
typedef struct ccl_i_page {
    const ccl_report_page_t *of;
    ccl_text_t body, contents, answers;
    uint32_t nsections, nanswers, ids;
    bool scripted;      /* something in it needs the scripts */
    bool told_states;   /* the legend of states stands above */
    ccl_strmap_t *idle; /* runs whose thread blocks are drawn */
} ccl_i_page_t;

/** One kind of result. To add one: a row in the table of page.c. */
typedef struct ccl_i_page_kind {
    const char *schema; /**< "ccllab/compare/1" */
    /** Sections with their answers. */
    ccl_status_t (*write)(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
    /** Command lines that repeat it; NULL: none. */
    ccl_status_t (*repeat)(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err);
} ccl_i_page_kind_t;

/** A section with its heading, listed in the contents. */
void ccl_i_page_begin(ccl_i_page_t *page, const char *fmt, ...) CCL_PRINTF(2, 3);
void ccl_i_page_end(ccl_i_page_t *page);
/** A sentence at the head of the page; the first one is the page's answer. */
void ccl_i_page_answer(ccl_i_page_t *page, const char *fmt, ...) CCL_PRINTF(2, 3);

const char *ccl_i_page_string(const json_t *object, const char *key); /**< "" where it is none */
double ccl_i_page_number(const json_t *object, const char *key);      /**< NaN where it is none */
/** Four digits, no exponent; "-" for NaN. Returns out. */
const char *ccl_i_page_digits(double value, char *out, size_t out_len);
/** A time with its unit, four digits: "98.29 us". Returns out. */
const char *ccl_i_page_time(double time_s, char *out, size_t out_len);
/** Settings of a point, JSON in a string, as options of a command line; anything else as it is. */
void ccl_i_page_settings(ccl_text_t *out, const char *settings);

/** How a cell shows a member. */
typedef enum ccl_i_page_as {
    PAGE_TEXT,
    PAGE_WORDS, /* a wide column */
    PAGE_NUMBER,
    PAGE_SIZE,    /* bytes */
    PAGE_US,      /* seconds as us */
    PAGE_TIME,    /* seconds with their unit */
    PAGE_PERCENT, /* share */
    PAGE_TIMES,   /* "1.42x" */
    PAGE_SETTINGS
} ccl_i_page_as_t;
typedef struct ccl_i_page_column {
    const char *key, *head;
    ccl_i_page_as_t as;
} ccl_i_page_column_t;
/** Rows of an array of objects; columns that no row has are left out. */
void ccl_i_page_table(ccl_text_t *out, const char *caption, const json_t *rows,
                      const ccl_i_page_column_t *columns, size_t n);
/** A table of two columns; no row for what `root` does not have. */
void ccl_i_page_facts(ccl_text_t *out, const json_t *root, const ccl_i_page_column_t *facts,
                      size_t n);
/** Any value as tables with names and units in words. */
void ccl_i_page_anything(ccl_text_t *out, const json_t *value);
/** What a table may scroll in. */
void ccl_i_page_scroll(ccl_text_t *out, const char *label);

/** A string of JSON that may stand inside an element `script`. */
void ccl_i_script_string(ccl_text_t *out, const char *text);
/** The picture inside the page; it is destroyed. */
ccl_status_t ccl_i_page_picture(ccl_picture_t *picture, ccl_text_t *out, ccl_error_t *err);
/** The colours of states, once in a page. */
void ccl_i_page_states(ccl_i_page_t *page);
/** Thread blocks of a result of simulate or explain, of every GPU; once for each run. */
ccl_status_t ccl_i_page_idle(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);

/* Kinds of results: sections, and how to repeat them. */
ccl_status_t ccl_i_page_comparison(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_simulation(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_explanation(ccl_i_page_t *page, const ccl_json_doc_t *doc,
                                    ccl_error_t *err);
ccl_status_t ccl_i_page_diagnosis(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_sweep(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_failover(ccl_i_page_t *page, const ccl_json_doc_t *doc,
                                 ccl_error_t *err);
ccl_status_t ccl_i_page_balance(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_bounds(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_trace(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_other(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
ccl_status_t ccl_i_page_search(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err);
/** Is it a result of `tune`, or all points of a lab notebook (`notebook export --json`)? */
bool ccl_i_page_is_search(const ccl_json_doc_t *doc);

/** " --NAME VALUE" as a shell reads it; nothing where the value is "". */
void ccl_i_page_option(ccl_text_t *out, const char *name, const char *value);
/** A word of a shell's line. */
void ccl_i_page_word(ccl_text_t *out, const char *text);
ccl_status_t ccl_i_page_repeat_compare(const ccl_json_doc_t *doc, ccl_text_t *out,
                                       ccl_error_t *err);
ccl_status_t ccl_i_page_repeat_simulate(const ccl_json_doc_t *doc, ccl_text_t *out,
                                        ccl_error_t *err);
ccl_status_t ccl_i_page_repeat_explain(const ccl_json_doc_t *doc, ccl_text_t *out,
                                       ccl_error_t *err);
/** The command that repeats the best of each size. */
ccl_status_t ccl_i_page_search_repeat(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err);

#endif
