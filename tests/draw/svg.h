/* Reads a picture's SVG by expat: counts groups by class, keeps texts and sizes. */
#ifndef TESTS_DRAW_SVG_H
#define TESTS_DRAW_SVG_H

#include <check.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw.h"
#include "tests/base/main.h"

typedef struct svg {
    char classes[20000][32]; /* of every group */
    char texts[20000][100];  /* of every text, cut */
    uint32_t nclasses, ntexts, nshapes;
    double width, height;
    bool in_text;
    char *source;
    size_t len;
} svg_t;

static inline void XMLCALL svg_start(void *user, const char *name, const char **attributes) {
    svg_t *svg = user;

    if (strcmp(name, "rect") == 0 || strcmp(name, "path") == 0 || strcmp(name, "circle") == 0)
        svg->nshapes++;
    svg->in_text = strcmp(name, "text") == 0;
    if (svg->in_text)
        ck_assert_uint_lt(svg->ntexts, CCL_ARRAY_LEN(svg->texts));
    for (const char **a = attributes; *a; a += 2) {
        if (strcmp(a[0], "class") == 0) {
            ck_assert_uint_lt(svg->nclasses, CCL_ARRAY_LEN(svg->classes));
            snprintf(svg->classes[svg->nclasses++], sizeof(svg->classes[0]), "%s", a[1]);
        }
        if (strcmp(name, "svg") == 0 && strcmp(a[0], "width") == 0)
            svg->width = atof(a[1]);
        if (strcmp(name, "svg") == 0 && strcmp(a[0], "height") == 0)
            svg->height = atof(a[1]);
        ck_assert_msg(!strstr(a[1], "nan") && !strstr(a[1], "inf"), "%s=%s", a[0], a[1]);
    }
}

static inline void XMLCALL svg_end(void *user, const char *name) {
    svg_t *svg = user;

    if (strcmp(name, "text") == 0) {
        svg->ntexts++;
        svg->in_text = false;
    }
}

static inline void XMLCALL svg_text(void *user, const char *text, int len) {
    svg_t *svg = user;

    if (svg->in_text) {
        char *at = svg->texts[svg->ntexts];
        size_t have = strlen(at);

        snprintf(at + have, sizeof(svg->texts[0]) - have, "%.*s", len, text);
    }
}

/** The picture is destroyed; free with svg_free(). */
static inline svg_t *svg_read(ccl_picture_t *picture) {
    svg_t *svg = calloc(1, sizeof(*svg));
    ccl_text_t text = {0};
    ccl_text_t again = {0};
    XML_Parser parser = XML_ParserCreate(NULL);

    ck_assert_ptr_nonnull(svg);
    ck_assert_int_eq(ccl_picture_write(picture, CCL_DRAW_SVG, 0, &text, NULL), CCL_OK);
    ck_assert_int_eq(ccl_picture_write(picture, CCL_DRAW_SVG, 0, &again, NULL), CCL_OK);
    ck_assert_str_eq(text.data, again.data);
    ccl_text_fini(&again);
    XML_SetUserData(parser, svg);
    XML_SetElementHandler(parser, svg_start, svg_end);
    XML_SetCharacterDataHandler(parser, svg_text);
    ck_assert_msg(XML_Parse(parser, text.data, (int)text.len, 1) == XML_STATUS_OK, "line %lu: %s",
                  XML_GetCurrentLineNumber(parser), XML_ErrorString(XML_GetErrorCode(parser)));
    XML_ParserFree(parser);
    ck_assert_double_eq(svg->width, ccl_picture_width(picture));
    ck_assert_double_eq(svg->height, ccl_picture_height(picture));
    ccl_picture_destroy(picture);
    svg->source = text.data;
    svg->len = text.len;
    return svg;
}

static inline void svg_free(svg_t *svg) {
    free(svg->source);
    free(svg);
}

static inline uint32_t svg_count(const svg_t *svg, const char *name) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < svg->nclasses; i++)
        n += strcmp(svg->classes[i], name) == 0;
    return n;
}

static inline bool svg_has(const svg_t *svg, const char *text) {
    for (uint32_t i = 0; i < svg->ntexts; i++)
        if (strstr(svg->texts[i], text))
            return true;
    return false;
}

#endif
