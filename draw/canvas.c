/* Shapes of a picture, and how wide text is. */
#include "draw/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Advance widths of DejaVu Sans 2.37, book and bold, in 1/1000 of the size, from ' ' to '~'. */
static const uint16_t widths[2][95] = {
    {318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
     636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
     1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
     603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
     500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
     635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838},
    {348,  456, 521, 838, 696, 1002, 872, 306,  457, 457, 523, 838, 380, 415,  380, 365,
     696,  696, 696, 696, 696, 696,  696, 696,  696, 696, 400, 400, 838, 838,  838, 580,
     1000, 774, 762, 734, 830, 683,  683, 821,  837, 372, 372, 775, 637, 995,  837, 850,
     733,  850, 770, 720, 682, 812,  774, 1103, 771, 724, 725, 457, 365, 457,  838, 500,
     500,  675, 716, 593, 716, 678,  435, 716,  712, 343, 343, 665, 343, 1042, 712, 687,
     716,  716, 493, 595, 478, 712,  652, 924,  645, 652, 582, 712, 365, 712,  838}};

ccl_status_t ccl_draw_format_of(const char *path, ccl_draw_format_t *out, ccl_error_t *err) {
    static const char *const ends[] = {".svg", ".pdf", ".png"};
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < CCL_ARRAY_LEN(ends); i++) {
        if (strcasecmp(dot, ends[i]) == 0) {
            *out = (ccl_draw_format_t)i;
            return CCL_OK;
        }
    }
    return ccl_fail(err, CCL_ERR_USAGE,
                    "-o %s: its name must end in .svg, .pdf or .png, which chooses the format",
                    path);
}

ccl_picture_t *ccl_i_picture_create(void) {
    return calloc(1, sizeof(ccl_picture_t));
}

void ccl_picture_destroy(ccl_picture_t *picture) {
    if (!picture)
        return;
    free(picture->items);
    free(picture->points);
    ccl_arena_fini(&picture->arena);
    free(picture);
}

double ccl_picture_width(const ccl_picture_t *picture) {
    return picture->width;
}

double ccl_picture_height(const ccl_picture_t *picture) {
    return picture->height;
}

ccl_status_t ccl_i_picture_finish(ccl_picture_t *p, double width, double height,
                                  ccl_picture_t **out, ccl_error_t *err) {
    if (!p || p->nomem) {
        ccl_picture_destroy(p);
        return ccl_fail_nomem(err);
    }
    p->width = ceil(width);
    p->height = ceil(height);
    *out = p;
    return CCL_OK;
}

ccl_status_t ccl_picture_write(const ccl_picture_t *picture, ccl_draw_format_t format,
                               uint32_t width_px, ccl_text_t *out, ccl_error_t *err) {
    double scale = width_px ? width_px / picture->width : 1;

    if (format == CCL_DRAW_SVG)
        return ccl_i_svg(picture, scale, true, false, out, err);
    return ccl_i_cairo(picture, format, scale, out, err);
}

ccl_status_t ccl_picture_write_inline(const ccl_picture_t *picture, bool wide, ccl_text_t *out,
                                      ccl_error_t *err) {
    return ccl_i_svg(picture, 1, false, wide, out, err);
}

/* ---------------------------------------------------------------- shapes */

static ccl_i_canvas_item_t *add(ccl_picture_t *p, ccl_i_item_kind_t kind) {
    if (p->nomem || !ccl_grow(&p->items, &p->items_cap, p->nitems + 1, sizeof(*p->items))) {
        p->nomem = true;
        return NULL;
    }
    p->items[p->nitems] = (ccl_i_canvas_item_t){.kind = kind, .first = (uint32_t)p->npoints};
    return &p->items[p->nitems++];
}

/** Bytes of one well-formed UTF-8 character that is no control character; 0: it is none. */
static size_t character(const unsigned char *s) {
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (s[0] < 0x20 || s[0] == 0x7f || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xef && s[1] == 0xbf && s[2] > 0xbd) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/** A copy in which every byte that an SVG cannot hold is a question mark. */
static const char *keep(ccl_picture_t *p, const char *text) {
    char *copy = ccl_arena_strdup(&p->arena, text);
    size_t n;

    if (!copy)
        p->nomem = true;
    for (char *s = copy; s && *s; s += n ? n : 1) {
        n = character((const unsigned char *)s);
        if (!n)
            *s = '?';
    }
    return copy;
}

void ccl_i_open(ccl_picture_t *p, const char *name, const char *title) {
    ccl_i_canvas_item_t *item = add(p, ITEM_OPEN);

    if (!item)
        return;
    item->text = name;
    item->title = title ? keep(p, title) : NULL;
}

void ccl_i_close(ccl_picture_t *p) {
    add(p, ITEM_CLOSE);
}

void ccl_i_rect(ccl_picture_t *p, double x, double y, double w, double h, double r,
                ccl_i_pen_t pen) {
    ccl_i_canvas_item_t *item = add(p, ITEM_RECT);

    if (!item)
        return;
    item->x = x;
    item->y = y;
    item->w = w;
    item->h = h;
    item->r = r;
    item->pen = pen;
}

void ccl_i_circle(ccl_picture_t *p, double x, double y, double r, ccl_i_pen_t pen) {
    ccl_i_canvas_item_t *item = add(p, ITEM_CIRCLE);

    if (!item)
        return;
    item->x = x;
    item->y = y;
    item->r = r;
    item->pen = pen;
}

static void point(ccl_picture_t *p, const double *values, uint32_t n) {
    if (p->nomem || p->npoints + n > UINT32_MAX ||
        !ccl_grow(&p->points, &p->points_cap, p->npoints + n, sizeof(*p->points))) {
        p->nomem = true;
        return;
    }
    memcpy(p->points + p->npoints, values, n * sizeof(*values));
    p->npoints += n;
    p->items[p->nitems - 1].n += n;
}

void ccl_i_path(ccl_picture_t *p, bool closed, ccl_i_pen_t pen) {
    ccl_i_canvas_item_t *item = add(p, ITEM_PATH);

    if (!item)
        return;
    item->closed = closed;
    item->pen = pen;
}

void ccl_i_to(ccl_picture_t *p, double x, double y) {
    point(p, (double[]){x, y}, 2);
}

void ccl_i_line(ccl_picture_t *p, double x0, double y0, double x1, double y1, ccl_i_pen_t pen) {
    ccl_i_path(p, false, pen);
    ccl_i_to(p, x0, y0);
    ccl_i_to(p, x1, y1);
}

void ccl_i_cells(ccl_picture_t *p, uint32_t fill) {
    ccl_i_canvas_item_t *item = add(p, ITEM_CELLS);

    if (item)
        item->pen = ccl_i_fill(fill);
}

void ccl_i_cell(ccl_picture_t *p, double x, double y, double w, double h) {
    point(p, (double[]){x, y, w, h}, 4);
}

/* ---------------------------------------------------------------- text */

double ccl_i_text_width(const char *text, double size, bool bold) {
    double sum = 0;

    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s >= ' ' && *s <= '~')
            sum += widths[bold][*s - ' '];
        else if ((*s & 0xc0) != 0x80)
            sum += 640;
    }
    return sum * size / 1000;
}

const char *ccl_i_fit(const char *text, double size, double most, char *out, size_t out_len) {
    size_t len = strlen(text);

    snprintf(out, out_len, "%s", text);
    while (len > 1 && ccl_i_text_width(out, size, false) > most) {
        do
            len--;
        while (len > 1 && ((unsigned char)text[len] & 0xc0) == 0x80);
        snprintf(out, out_len, "%.*s...", (int)len, text);
    }
    return out;
}

static void text_of(ccl_picture_t *p, ccl_i_canvas_item_t shape, const char *fmt, va_list args) {
    char text[512];
    ccl_i_canvas_item_t *item;

    vsnprintf(text, sizeof(text), fmt, args);
    item = add(p, ITEM_TEXT);
    if (!item)
        return;
    shape.kind = ITEM_TEXT;
    shape.first = item->first;
    shape.text = keep(p, text);
    if (shape.text)
        shape.w = ccl_i_text_width(shape.text, shape.h, shape.bold);
    *item = shape;
}

void ccl_i_text(ccl_picture_t *p, double x, double y, double size, ccl_i_anchor_t anchor,
                uint32_t colour, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    text_of(p,
            (ccl_i_canvas_item_t){
                .x = x, .y = y, .h = size, .anchor = anchor, .pen = ccl_i_fill(colour)},
            fmt, args);
    va_end(args);
}

void ccl_i_text_bold(ccl_picture_t *p, double x, double y, double size, ccl_i_anchor_t anchor,
                     uint32_t colour, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    text_of(
        p,
        (ccl_i_canvas_item_t){
            .x = x, .y = y, .h = size, .anchor = anchor, .bold = true, .pen = ccl_i_fill(colour)},
        fmt, args);
    va_end(args);
}

void ccl_i_text_up(ccl_picture_t *p, double x, double y, double size, ccl_i_anchor_t anchor,
                   uint32_t colour, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    text_of(p,
            (ccl_i_canvas_item_t){.x = x,
                                  .y = y,
                                  .h = size,
                                  .anchor = anchor,
                                  .upright = true,
                                  .pen = ccl_i_fill(colour)},
            fmt, args);
    va_end(args);
}

/* ---------------------------------------------------------------- colours and axes */

uint32_t ccl_i_colour(uint32_t i) {
    static const uint32_t colours[] = {CCL_I_BLUE, CCL_I_RED,    CCL_I_GREEN,  CCL_I_PINK,
                                       CCL_I_SKY,  CCL_I_ORANGE, CCL_I_YELLOW, CCL_I_GREY};

    return colours[i % CCL_ARRAY_LEN(colours)];
}

uint32_t ccl_i_heat(double share) {
    /* Nine points of matplotlib's viridis, reversed: little is light, much is dark. */
    static const uint8_t points[9][3] = {{253, 231, 37}, {170, 220, 50}, {93, 201, 99},
                                         {39, 173, 129}, {33, 145, 140}, {44, 114, 142},
                                         {59, 82, 139},  {71, 45, 123},  {68, 1, 84}};
    double at = (share > 0 ? share < 1 ? share : 1 : 0) * 8;
    uint32_t i = at >= 8 ? 7 : (uint32_t)at;
    uint32_t colour = 0;

    for (int c = 0; c < 3; c++)
        colour = colour << 8 |
                 (uint32_t)lround(points[i][c] + (at - i) * (points[i + 1][c] - points[i][c]));
    return colour;
}

uint32_t ccl_i_on(uint32_t colour) {
    double luminance = 0;

    for (int c = 0; c < 3; c++) { /* WCAG 2, relative luminance */
        static const double parts[3] = {0.0722, 0.7152, 0.2126};
        double v = (colour >> 8 * c & 255) / 255.0;

        luminance += parts[c] * (v <= 0.03928 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return luminance > 0.179 ? 0x111111 : 0xffffff;
}

void ccl_i_heat_bar(ccl_picture_t *p, double x, double y, double w, const char *low,
                    const char *high, const char *what) {
    ccl_i_open(p, "legend heat", NULL);
    for (int i = 0; i < 32; i++)
        ccl_i_rect(p, x + w * i / 32, y, w / 32 + 0.5, 10, 0, ccl_i_fill(ccl_i_heat(i / 31.0)));
    ccl_i_text(p, x - 4, y + 9, 10, ANCHOR_END, CCL_I_INK, "%s", low);
    ccl_i_text(p, x + w + 6, y + 9, 10, ANCHOR_START, CCL_I_INK, "%s", high);
    ccl_i_text(p, x + w / 2, y - 4, 10, ANCHOR_MIDDLE, CCL_I_INK, "%s", what);
    ccl_i_close(p);
}

double ccl_i_headline(ccl_picture_t *p, double width, const char *title, const char *below) {
    char line[400];

    ccl_i_open(p, "title", NULL);
    ccl_i_text_bold(p, 16, 26, 15, ANCHOR_START, CCL_I_INK, "%s",
                    ccl_i_fit(title, 16.5, width - 32, line, sizeof(line)));
    if (below && below[0])
        ccl_i_text(p, 16, 44, 11, ANCHOR_START, CCL_I_DIM, "%s",
                   ccl_i_fit(below, 11, width - 32, line, sizeof(line)));
    ccl_i_close(p);
    return below && below[0] ? 56 : 38;
}

double ccl_i_round_step(double most, uint32_t n) {
    double raw = most / n;
    double ten = pow(10, floor(log10(raw)));
    double lead = raw / ten;

    return ten * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

void ccl_i_time_axis(ccl_picture_t *p, double x, double y, double w, double height, double time_s,
                     const char *what) {
    static const struct {
        double s;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    uint32_t u = 0;
    double step;

    while (u + 1 < CCL_ARRAY_LEN(units) && time_s < 2 * units[u].s)
        u++;
    step = ccl_i_round_step(time_s / units[u].s, w > 500 ? 10 : 5);
    ccl_i_open(p, "axis time", NULL);
    for (uint32_t i = 0; i * step <= time_s / units[u].s * (1 + 1e-9); i++) {
        double at = x + w * (i * step * units[u].s / time_s);

        ccl_i_line(p, at, y - height, at, y, ccl_i_stroke(CCL_I_GRID, 0.6));
        ccl_i_line(p, at, y, at, y + 4, ccl_i_stroke(CCL_I_INK, 1));
        ccl_i_text(p, at, y + 16, 10, ANCHOR_MIDDLE, CCL_I_INK, "%g", i * step);
    }
    ccl_i_line(p, x, y, x + w, y, ccl_i_stroke(CCL_I_INK, 1));
    ccl_i_text(p, x + w / 2, y + 32, 11, ANCHOR_MIDDLE, CCL_I_INK, "%s (%s)", what, units[u].name);
    ccl_i_close(p);
}

double ccl_i_left_axis(ccl_picture_t *p, double x, double y, double w, double h, double most,
                       const char *what) {
    double step = ccl_i_round_step(most > 0 ? most : 1, 6);
    double top = ceil((most > 0 ? most : 1) / step * (1 - 1e-9)) * step;

    ccl_i_open(p, "axis value", NULL);
    for (uint32_t i = 0; i * step <= top * (1 + 1e-9); i++) {
        double at = y + h - h * i * step / top;

        ccl_i_line(p, x, at, x + w, at, ccl_i_stroke(CCL_I_GRID, 0.6));
        ccl_i_line(p, x - 4, at, x, at, ccl_i_stroke(CCL_I_INK, 1));
        ccl_i_text(p, x - 7, at + 3.5, 10, ANCHOR_END, CCL_I_INK, "%g", i * step);
    }
    ccl_i_line(p, x, y, x, y + h, ccl_i_stroke(CCL_I_INK, 1));
    ccl_i_text_up(p, x - 44, y + h / 2, 11, ANCHOR_MIDDLE, CCL_I_INK, "%s", what);
    ccl_i_close(p);
    return top;
}
