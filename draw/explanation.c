/* Why a run took its time: critical path, links of the bound, what changes would do. */
#include "draw/canvas.h"

#include <math.h>

#define WIDTH 960.0
#define LEFT 66.0
#define FIELD_W (WIDTH - LEFT - 30)
#define BAR_H 26.0
#define CUT_H 120.0
#define NAME_W 400.0 /* of a change */
#define ROW_H 17.0

enum { MOST_CHANGES = 24 };

static const uint32_t colours[] = {CCL_I_BLUE, CCL_I_SKY,   CCL_I_ORANGE, CCL_I_RED,
                                   CCL_I_PINK, CCL_I_GREEN, CCL_I_YELLOW, 0x7f5f00u,
                                   0x5e3c99u,  0x8c1d40u,   CCL_I_GREY};

static uint32_t colour_of(uint32_t i) {
    return colours[i % CCL_ARRAY_LEN(colours)];
}

static void heading(ccl_picture_t *p, double y, const char *text) {
    ccl_i_text_bold(p, 16, y, 12, ANCHOR_START, CCL_I_INK, "%s", text);
}

/** Swatches in two columns with time and share. Returns how high they are. */
static double legend(ccl_picture_t *p, const ccl_draw_piece_t *pieces, uint32_t n, double time_s,
                     double y) {
    char name[160];

    for (uint32_t i = 0; i < n; i++) {
        double x = i % 2 ? LEFT + FIELD_W / 2 : LEFT;
        double at = y + (double)(i / 2) * ROW_H;

        ccl_i_open(p, "legend piece", NULL);
        ccl_i_rect(p, x, at, 12, 10, 0, ccl_i_fill(colour_of(pieces[i].colour)));
        ccl_i_text(p, x + 18, at + 9, 10, ANCHOR_START, CCL_I_INK, "%s: %.4g us, %.3g %%",
                   ccl_i_fit(pieces[i].name, 10, 280, name, sizeof(name)), pieces[i].time_s * 1e6,
                   100 * pieces[i].time_s / time_s);
        ccl_i_close(p);
    }
    return (n + 1) / 2 * ROW_H;
}

/** One bar from 0 to the run's end. Returns the y below its legend. */
static double bar(ccl_picture_t *p, const char *what, const ccl_draw_piece_t *pieces, uint32_t n,
                  double time_s, double y) {
    double x = LEFT;

    heading(p, y + 14, what);
    y += 24;
    ccl_i_open(p, "bar", what);
    for (uint32_t i = 0; i < n; i++) {
        double w = FIELD_W * pieces[i].time_s / time_s;

        ccl_i_open(p, "piece", pieces[i].name);
        ccl_i_rect(p, x, y, w, BAR_H, 0,
                   (ccl_i_pen_t){colour_of(pieces[i].colour), 0xffffff, w > 3 ? 0.6 : 0, 0});
        ccl_i_close(p);
        x += w;
    }
    ccl_i_close(p);
    ccl_i_time_axis(p, LEFT, y + BAR_H, FIELD_W, 0, time_s, "time on the critical path");
    return y + BAR_H + 44 + legend(p, pieces, n, time_s, y + BAR_H + 44) + 14;
}

static double cut(ccl_picture_t *p, const ccl_draw_explanation_t *about, double y) {
    double w = FIELD_W / about->nparts;
    double bottom;
    double top;
    double mean;
    char line[400];

    heading(p, y + 14, "The links of the bound");
    ccl_i_text(p, 16, y + 29, 10, ANCHOR_START, CCL_I_DIM, "%s",
               ccl_i_fit(about->cut, 10, WIDTH - 32, line, sizeof(line)));
    y += 42;
    bottom = y + CUT_H;
    ccl_i_open(p, "cut", "how busy these links were; coloured by what the critical path did");
    top = ccl_i_left_axis(p, LEFT, y, FIELD_W, CUT_H, 100, "busy (%)");
    for (uint32_t i = 0; i < about->nparts; i++) {
        double h = CUT_H * 100 * about->busy[i] / top;

        ccl_i_open(p, "part", NULL);
        ccl_i_rect(p, LEFT + i * w, bottom - h, w > 2 ? w - 1 : w, h, 0,
                   ccl_i_fill(colour_of(about->on[i])));
        ccl_i_close(p);
    }
    mean = bottom - CUT_H * 100 * about->cut_busy / top;
    ccl_i_line(p, LEFT, mean, LEFT + FIELD_W, mean,
               (ccl_i_pen_t){CCL_I_NO_COLOUR, CCL_I_INK, 1, 4});
    ccl_i_time_axis(p, LEFT, bottom, FIELD_W, 0, about->time_s,
                    "time; colour: what the critical path mostly did; dashed: mean");
    ccl_i_close(p);
    return bottom + 54;
}

static void mark(ccl_picture_t *p, double x, double y, double h, const char *name, double time_s) {
    ccl_i_open(p, "mark", name);
    ccl_i_line(p, x, y, x, y + h, (ccl_i_pen_t){CCL_I_NO_COLOUR, CCL_I_INK, 1, 4});
    ccl_i_text(p, x, y - 3, 9, ANCHOR_MIDDLE, CCL_I_INK, "%s %.4g us", name, time_s * 1e6);
    ccl_i_close(p);
}

/** Bars by time, on one scale with the run and the bound. */
static double changes(ccl_picture_t *p, const ccl_draw_explanation_t *about, double y) {
    static const struct {
        uint32_t colour;
        const char *name;
    } of[] = {{CCL_I_BLUE, "another program"},
              {CCL_I_ORANGE, "another setting"},
              {CCL_I_PINK, "other hardware"}};
    uint32_t n = about->nchanges < MOST_CHANGES ? about->nchanges : MOST_CHANGES;
    double scale_s = 1.1 * about->time_s;
    double w = WIDTH - 16 - NAME_W - 130;
    double x = 16;
    double bottom;
    char name[300];

    for (uint32_t i = 0; i < n; i++)
        scale_s = fmax(scale_s, about->changes[i].time_s);
    heading(p, y + 14, "What changes would do");
    for (size_t i = 0; i < CCL_ARRAY_LEN(of); i++) {
        ccl_i_rect(p, x, y + 22, 12, 10, 0, ccl_i_fill(of[i].colour));
        ccl_i_text(p, x + 18, y + 31, 10, ANCHOR_START, CCL_I_INK, "%s", of[i].name);
        x += 36 + ccl_i_text_width(of[i].name, 10, false);
    }
    if (n < about->nchanges)
        ccl_i_text(p, x, y + 31, 10, ANCHOR_START, CCL_I_DIM, "the best %u of %u", n,
                   about->nchanges);
    y += 56;
    bottom = y + n * ROW_H;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_draw_change_t *c = &about->changes[i];
        double at = y + i * ROW_H;
        double length = w * c->time_s / scale_s;

        ccl_i_open(p, "change", c->what);
        ccl_i_text(p, NAME_W + 8, at + 12, 10, ANCHOR_END, CCL_I_INK, "%s",
                   ccl_i_fit(c->what, 10, NAME_W - 8, name, sizeof(name)));
        ccl_i_rect(p, NAME_W + 16, at + 2, length, ROW_H - 4, 0, ccl_i_fill(of[c->of].colour));
        ccl_i_text(p, NAME_W + 22 + w, at + 12, 10, ANCHOR_START, CCL_I_INK, "%.4g us, %+.1f %%",
                   c->time_s * 1e6, 100 * (c->time_s / about->time_s - 1));
        ccl_i_close(p);
    }
    mark(p, NAME_W + 16 + w * about->time_s / scale_s, y, bottom - y, "the run", about->time_s);
    if (about->bound_s > 0)
        mark(p, NAME_W + 16 + w * about->bound_s / scale_s, y - 10, bottom - y + 10, "the bound",
             about->bound_s);
    return bottom + 16;
}

ccl_status_t ccl_draw_explanation(const ccl_draw_explanation_t *about, ccl_picture_t **out,
                                  ccl_error_t *err) {
    ccl_picture_t *p;
    double y;

    if (!(about->time_s > 0))
        return ccl_fail(err, CCL_ERR_INPUT, "nothing took any time, so there is nothing to draw");
    p = ccl_i_picture_create();
    if (!p)
        return ccl_fail_nomem(err);
    y = ccl_i_headline(p, WIDTH, about->title, NULL);
    y = bar(p, "Where the time goes", about->causes, about->ncauses, about->time_s, y);
    y = bar(p, "Why the run could not go on without it", about->waits, about->nwaits, about->time_s,
            y);
    if (about->nparts > 0)
        y = cut(p, about, y);
    if (about->nchanges > 0)
        y = changes(p, about, y);
    return ccl_i_picture_finish(p, WIDTH, y, out, err);
}
