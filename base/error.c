/** @file error.c Status names and the caller-owned error. */
#include "base/base.h"

#include <string.h>

#include "base/clocale.h"

static const struct {
    const char *name, *meaning;
    int exit_code;
} status_table[] = {
#define CCL_STATUS_ROW_(code_, exit_, text_) [code_] = {#code_, text_, exit_},
    CCL_STATUS_MAP(CCL_STATUS_ROW_)
#undef CCL_STATUS_ROW_
};

static bool status_known(ccl_status_t status) {
    return (unsigned)status < CCL_ARRAY_LEN(status_table);
}

const char *ccl_status_name(ccl_status_t status) {
    return status_known(status) ? status_table[status].name : "CCL_STATUS_UNKNOWN";
}

const char *ccl_status_meaning(ccl_status_t status) {
    return status_known(status) ? status_table[status].meaning : "unknown status";
}

int ccl_status_exit_code(ccl_status_t status) {
    return status_known(status) ? status_table[status].exit_code : 70;
}

/* Errors quote input; a line break or an escape sequence in it must not reach a terminal. */
static void make_one_line(char *text) {
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

static void copy_text(char *out, size_t out_len, const char *text) {
    size_t len = strlen(text);
    if (len >= out_len)
        len = out_len - 1;
    memcpy(out, text, len);
    out[len] = 0;
}

static ccl_status_t fill(ccl_error_t *err, ccl_status_t status, const char *where, int line,
                         int column, const char *fmt, va_list args) {
    if (!err || err->status != CCL_OK)
        return status;
    /* A message may quote an error's own text: build it aside first. */
    char text[sizeof err->text];
    ccl_i_vsnprintf(text, sizeof text, fmt, args);
    make_one_line(text);
    copy_text(err->text, sizeof err->text, text);
    copy_text(err->where, sizeof err->where, where ? where : "");
    make_one_line(err->where);
    err->line = line > 0 ? line : 0;
    err->column = column > 0 ? column : 0;
    err->status = status;
    return status;
}

ccl_status_t ccl_error_set(ccl_error_t *err, ccl_status_t status, const char *where, int line,
                           int column, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, status, where, line, column, fmt, args);
    va_end(args);
    return status;
}

ccl_status_t ccl_fail(ccl_error_t *err, ccl_status_t status, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, status, NULL, 0, 0, fmt, args);
    va_end(args);
    return status;
}

ccl_status_t ccl_fail_nomem(ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_NOMEM, "out of memory");
}

void ccl_error_clear(ccl_error_t *err) {
    if (err)
        *err = (ccl_error_t)CCL_ERROR_INIT;
}

void ccl_error_format(const ccl_error_t *err, char *out, size_t out_len) {
    if (!out_len)
        return;
    const char *text = err->text[0] ? err->text : ccl_status_meaning(err->status);
    char line[16] = "", column[16] = "";
    if (err->line > 0)
        snprintf(line, sizeof line, ":%d", err->line);
    if (err->line > 0 && err->column > 0)
        snprintf(column, sizeof column, ":%d", err->column);
    if (err->where[0])
        snprintf(out, out_len, "%s%s%s: %s", err->where, line, column, text);
    else if (err->line > 0)
        snprintf(out, out_len, "%s%s: %s", line + 1, column, text);
    else
        snprintf(out, out_len, "%s", text);
}
