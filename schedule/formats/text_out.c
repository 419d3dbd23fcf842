/* Text in files: JSON strings, XML attribute values, fast decimals. */
#include "schedule/schedule_i.h"

#include <string.h>

void ccl_i_text_u64(ccl_text_t *out, uint64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    ccl_text_add(out, digits + at, sizeof digits - at);
}

/** Length of the valid UTF-8 sequence at p (terminated text), 0 when it is none XML can hold. */
static size_t sequence(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool surrogate = p[0] == 0xed && p[1] >= 0xa0;
    bool beyond = p[0] == 0xf4 && p[1] >= 0x90;
    bool noncharacter = p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe;
    return overlong || surrogate || beyond || noncharacter ? 0 : len;
}

void ccl_i_json_text(const char *text, ccl_text_t *out) {
    ccl_text_add(out, "\"", 1);
    for (const char *p = text; *p;) {
        size_t len = sequence(p);
        if (*p == '"' || *p == '\\')
            ccl_text_printf(out, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            ccl_text_printf(out, "\\u%04x", (unsigned)(unsigned char)*p);
        else if (len == 0)
            ccl_text_add(out, "?", 1);
        else
            ccl_text_add(out, p, len);
        p += len ? len : 1;
    }
    ccl_text_add(out, "\"", 1);
}

void ccl_i_xml_text(const char *text, ccl_text_t *out) {
    ccl_text_add(out, "\"", 1);
    for (const char *p = text; *p;) {
        size_t len = sequence(p);
        if (*p == '"' || *p == '&' || *p == '<' || *p == '>' || *p == '\n' || *p == '\t' ||
            *p == '\r')
            ccl_text_printf(out, "&#%u;", (unsigned)(unsigned char)*p);
        else if (len == 0 || (unsigned char)*p < 0x20)
            ccl_text_add(out, "?", 1);
        else
            ccl_text_add(out, p, len);
        p += len ? len : 1;
    }
    ccl_text_add(out, "\"", 1);
}
