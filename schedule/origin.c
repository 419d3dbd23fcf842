/* How a schedule came about, as a line of text. */
#include "schedule/origin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* `cut`: there was more. Not within a character of several bytes. */
static void tidy(ccl_origin_t origin, bool cut) {
    static const char dots[] = "...";
    size_t len = strlen(origin);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)origin[i] < ' ' || origin[i] == 0x7f)
            origin[i] = ' ';
    if (!cut)
        return;
    len = len > CCL_ORIGIN_LEN - sizeof(dots) ? CCL_ORIGIN_LEN - sizeof(dots) : len;
    while (len > 0 && ((unsigned char)origin[len] & 0xc0) == 0x80)
        len--;
    memcpy(origin + len, dots, sizeof(dots));
}

static void put(ccl_origin_t origin, size_t at, const char *fmt, va_list args) {
    int more = vsnprintf(origin + at, CCL_ORIGIN_LEN - at, fmt, args);

    tidy(origin, more < 0 || (size_t)more >= CCL_ORIGIN_LEN - at);
}

void ccl_origin_set(ccl_origin_t origin, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    put(origin, 0, fmt, args);
    va_end(args);
}

void ccl_origin_add(ccl_origin_t origin, const char *fmt, ...) {
    size_t len = strlen(origin);
    va_list args;

    if (len > 0 && len + 2 < CCL_ORIGIN_LEN) {
        memcpy(origin + len, "; ", 3);
        len += 2;
    }
    va_start(args, fmt);
    put(origin, len, fmt, args);
    va_end(args);
}

void ccl_origin_file(ccl_origin_t origin, const char *path) {
    const char *slash = strrchr(path, '/');

    if (strcmp(path, "-") == 0 || strcmp(path, "<stdin>") == 0)
        ccl_origin_set(origin, "file on standard input");
    else
        ccl_origin_set(origin, "file %s", slash ? slash + 1 : path);
}
