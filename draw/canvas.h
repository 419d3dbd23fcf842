/**
 * @file canvas.h
 * Private to draw/: shapes of a picture, colours, text and its width, axes.
 */
#ifndef CCL_DRAW_CANVAS_H
#define CCL_DRAW_CANVAS_H

#include "draw/draw.h"

/* Colours are 0xRRGGBB. */
#define CCL_I_NO_COLOUR UINT32_MAX
#define CCL_I_INK 0x222222u
#define CCL_I_DIM 0x666666u
#define CCL_I_GRID 0xdddddau
/* Okabe and Ito's palette, which people with any kind of colour vision tell apart. */
#define CCL_I_ORANGE 0xe69f00u
#define CCL_I_SKY 0x56b4e9u
#define CCL_I_GREEN 0x009e73u
#define CCL_I_YELLOW 0xf0e442u
#define CCL_I_BLUE 0x0072b2u
#define CCL_I_RED 0xd55e00u
#define CCL_I_PINK 0xcc79a7u
#define CCL_I_GREY 0x999999u

typedef enum ccl_i_anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } ccl_i_anchor_t;
typedef enum ccl_i_item_kind {
    ITEM_OPEN, /* a group: class, title */
    ITEM_CLOSE,
    ITEM_RECT,
    ITEM_CIRCLE,
    ITEM_PATH,
    ITEM_CELLS, /* rectangles of one colour */
    ITEM_TEXT
} ccl_i_item_kind_t;

/** How a shape is filled and stroked. */
typedef struct ccl_i_pen {
    uint32_t fill, stroke;
    double width;
    double dash; /**< 0: solid */
} ccl_i_pen_t;

typedef struct ccl_i_canvas_item {
    uint8_t kind, anchor;
    bool bold, closed, upright; /* upright: text that runs from bottom to top */
    ccl_i_pen_t pen;
    double x, y, w, h; /* text: h is the size of its letters; rectangle: r below */
    double r;
    uint32_t first, n; /* into points: 2 numbers a corner, 4 a cell */
    const char *text;  /* text; class of a group */
    const char *title; /* of a group: what a pointer over it shows; NULL: nothing */
} ccl_i_canvas_item_t;

struct ccl_picture {
    double width, height;
    ccl_i_canvas_item_t *items;
    size_t nitems, items_cap;
    double *points;
    size_t npoints, points_cap;
    ccl_arena_t arena;
    bool nomem;
};

ccl_picture_t *ccl_i_picture_create(void); /**< NULL when out of memory */
/** `*out` is the picture; where it ran out of memory it is destroyed: CCL_ERR_NOMEM. */
ccl_status_t ccl_i_picture_finish(ccl_picture_t *p, double width, double height,
                                  ccl_picture_t **out, ccl_error_t *err);

/* Shapes; missing memory is reported by finish. */
void ccl_i_open(ccl_picture_t *p, const char *name, const char *title);
void ccl_i_close(ccl_picture_t *p);
void ccl_i_rect(ccl_picture_t *p, double x, double y, double w, double h, double r,
                ccl_i_pen_t pen);
void ccl_i_circle(ccl_picture_t *p, double x, double y, double r, ccl_i_pen_t pen);
void ccl_i_line(ccl_picture_t *p, double x0, double y0, double x1, double y1, ccl_i_pen_t pen);
/** A path from corner to corner: begin, then corners. */
void ccl_i_path(ccl_picture_t *p, bool closed, ccl_i_pen_t pen);
void ccl_i_to(ccl_picture_t *p, double x, double y);
/** Many rectangles of one colour: begin, then cells. */
void ccl_i_cells(ccl_picture_t *p, uint32_t fill);
void ccl_i_cell(ccl_picture_t *p, double x, double y, double w, double h);
void ccl_i_text(ccl_picture_t *p, double x, double y, double size, ccl_i_anchor_t anchor,
                uint32_t colour, const char *fmt, ...) CCL_PRINTF(7, 8);
void ccl_i_text_bold(ccl_picture_t *p, double x, double y, double size, ccl_i_anchor_t anchor,
                     uint32_t colour, const char *fmt, ...) CCL_PRINTF(7, 8);
void ccl_i_text_up(ccl_picture_t *p, double x, double y, double size, ccl_i_anchor_t anchor,
                   uint32_t colour, const char *fmt, ...) CCL_PRINTF(7, 8);
/** Width in units of text in letters of a size. */
double ccl_i_text_width(const char *text, double size, bool bold);
/** Copy as much of a text as is at most so wide, with "..." for what is missing. Returns out. */
const char *ccl_i_fit(const char *text, double size, double most, char *out, size_t out_len);

static inline ccl_i_pen_t ccl_i_fill(uint32_t colour) {
    return (ccl_i_pen_t){colour, CCL_I_NO_COLOUR, 0, 0};
}
static inline ccl_i_pen_t ccl_i_stroke(uint32_t colour, double width) {
    return (ccl_i_pen_t){CCL_I_NO_COLOUR, colour, width, 0};
}

/** The i-th colour of things that have no order; repeats after 8. */
uint32_t ccl_i_colour(uint32_t i);
/** Viridis, dark to light, for 0..1. */
uint32_t ccl_i_heat(double share);
/** The ink for letters on a colour: what has the more contrast of black and white, at least 4.5. */
uint32_t ccl_i_on(uint32_t colour);
/** A bar of the colours of ccl_i_heat() with its ends named. */
void ccl_i_heat_bar(ccl_picture_t *p, double x, double y, double w, const char *low,
                    const char *high, const char *what);
/** Title in bold and a line below it; returns the y that is free below them. */
double ccl_i_headline(ccl_picture_t *p, double width, const char *title, const char *below);

/** Steps of an axis at round numbers: the step for about `n` of them from 0 to `most`. */
double ccl_i_round_step(double most, uint32_t n);
/** A time axis from 0 to time_s below a field, with grid lines over `height`. */
void ccl_i_time_axis(ccl_picture_t *p, double x, double y, double w, double height, double time_s,
                     const char *what);
/** A linear axis on the left of a field; returns the value at its top. */
double ccl_i_left_axis(ccl_picture_t *p, double x, double y, double w, double h, double most,
                       const char *what);

/** The picture as SVG; `wide`: in an HTML page, as wide as what it stands in. */
ccl_status_t ccl_i_svg(const ccl_picture_t *p, double scale, bool is_file, bool wide,
                       ccl_text_t *out, ccl_error_t *err);
/** The picture by cairo. */
ccl_status_t ccl_i_cairo(const ccl_picture_t *p, ccl_draw_format_t format, double scale,
                         ccl_text_t *out, ccl_error_t *err);

#endif
