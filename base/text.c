/** @file text.c Growing text, C-locale number text, nearest word. */
#include "base/base.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/clocale.h"

enum { HANGING_MAX = 24 /* deeper than this later lines have no room */ };

/* glibc hands out one static object for the whole "C" locale: no allocation, nothing to lose. */
int ccl_i_vsnprintf(char *out, size_t out_len, const char *fmt, va_list args) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = c ? uselocale(c) : (locale_t)0;
    int len = vsnprintf(out, out_len, fmt, args);
    if (c) {
        uselocale(old);
        freelocale(c);
    }
    return len;
}

double ccl_i_strtod(const char *text, char **end) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = c ? uselocale(c) : (locale_t)0;
    double value = strtod(text, end);
    if (c) {
        uselocale(old);
        freelocale(c);
    }
    return value;
}

static bool reserve(ccl_text_t *text, size_t more) {
    if (text->nomem)
        return false;
    if (more > SIZE_MAX - text->len - 1 ||
        !ccl_grow(&text->data, &text->cap, text->len + more + 1, 1)) {
        text->nomem = true;
        return false;
    }
    return true;
}

void ccl_text_add(ccl_text_t *text, const char *data, size_t len) {
    if (!reserve(text, len))
        return;
    if (len)
        memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = 0;
}

void ccl_text_printf(ccl_text_t *text, const char *fmt, ...) {
    if (!reserve(text, 128))
        return;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t room = text->cap - text->len;
    int len = ccl_i_vsnprintf(text->data + text->len, room, fmt, args);
    if (len >= 0 && (size_t)len >= room && reserve(text, (size_t)len))
        len = ccl_i_vsnprintf(text->data + text->len, text->cap - text->len, fmt, again);
    va_end(again);
    va_end(args);
    if (text->nomem || len < 0) {
        text->nomem = true;
        text->data[text->len] = 0;
    } else {
        text->len += (size_t)len;
    }
}

void ccl_text_add_xml(ccl_text_t *text, const char *data) {
    for (const char *s = data; *s; s++) {
        if (*s == '&')
            ccl_text_add(text, "&amp;", 5);
        else if (*s == '<')
            ccl_text_add(text, "&lt;", 4);
        else if (*s == '>')
            ccl_text_add(text, "&gt;", 4);
        else if (*s == '"')
            ccl_text_add(text, "&quot;", 6);
        else
            ccl_text_add(text, s, 1);
    }
}

/* Where the later lines of one begin: below what stands behind its name, "  name  what it is". */
static size_t hanging(const char *line, size_t len) {
    size_t first = strspn(line, " "), gap = first;
    if (first > len)
        first = len;
    while (gap + 1 < len && !(line[gap] == ' ' && line[gap + 1] == ' '))
        gap++;
    size_t behind = gap + strspn(line + gap, " ");
    if (first > 0 && gap + 1 < len && behind < len && behind <= HANGING_MAX)
        return behind;
    return first + 2;
}

/* Bytes of the first word; '...' is part of one, and an option has its value in it. */
static size_t word_len(const char *text, size_t len) {
    bool quoted = false;
    size_t i = 0;
    bool option = strncmp(text + (text[0] == '('), "--", 2) == 0;
    for (; i < len; i++) {
        if (text[i] == ' ' && !quoted && (!option || i + 1 == len || text[i + 1] == '-'))
            break;
        option = option && text[i] != ' ';
        bool begins = i == 0 || text[i - 1] == ' ' || text[i - 1] == '=' || text[i - 1] == '(';
        if (text[i] == '\'')
            quoted = !quoted && begins && memchr(text + i + 1, '\'', len - i - 1) != NULL;
    }
    return i;
}

static size_t columns_of(const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80; /* UTF-8 continuation bytes take no room */
    return n;
}

static void add_broken(ccl_text_t *out, const char *line, size_t len) {
    size_t indent = hanging(line, len), at = 0, i = 0;
    while (i < len) {
        size_t blanks = strspn(line + i, " ");
        if (i + blanks >= len)
            break;
        size_t word = word_len(line + i + blanks, len - i - blanks);
        size_t wide = columns_of(line + i + blanks, word);
        if (at > indent && at + blanks + wide > out->columns) {
            ccl_text_printf(out, "\n%*s", (int)indent, "");
            at = indent;
            blanks = 0;
            i += strspn(line + i, " ");
        }
        ccl_text_add(out, line + i, blanks + word);
        at += blanks + wide;
        i += blanks + word;
    }
}

void ccl_text_add_wrapped(ccl_text_t *out, const char *text) {
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (!out->columns || columns_of(text, len) <= out->columns)
            ccl_text_add(out, text, len);
        else
            add_broken(out, text, len);
        ccl_text_add(out, "\n", text[len] == '\n');
        text += len + (text[len] == '\n');
    }
}

void ccl_text_fini(ccl_text_t *text) {
    if (!text)
        return;
    free(text->data);
    *text = (ccl_text_t){0};
}

enum { NEAREST_MAX = 63 };

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t min_of(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Optimal string alignment: insert, delete, replace, swap neighbours; case costs nothing. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
    size_t rows[3][NEAREST_MAX + 1];
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = rows[i % 3], *up = rows[(i - 1) % 3], *up2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t same = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
            size_t best = min_of(up[j - 1] + same, min_of(up[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                best = min_of(best, up2[j - 2] + 1);
            now[j] = best;
        }
    }
    return rows[na % 3][nb];
}

const char *ccl_nearest(const char *word, const char *const *candidates) {
    size_t len = strlen(word);
    if (!len || len > NEAREST_MAX)
        return NULL;
    /* A third of the letters may differ: beyond that a hint misleads more than it helps. */
    size_t limit = len < 3 ? 1 : (len + 2) / 3, best = SIZE_MAX;
    const char *nearest = NULL;
    for (; *candidates; candidates++) {
        size_t other = strlen(*candidates);
        if (!other || other > NEAREST_MAX)
            continue;
        size_t distance = edit_distance(word, len, *candidates, other);
        if (distance <= limit && distance < best && distance < (len > other ? len : other)) {
            best = distance;
            nearest = *candidates;
        }
    }
    return nearest;
}
