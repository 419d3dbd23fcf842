/* Shares of samples over time: empirical distributions. */
#include "draw/canvas.h"

#include <math.h>

#define LEFT 66.0
#define FIELD_W 640.0
#define FIELD_H 240.0
#define LEGEND_W 200.0
#define WIDTH (LEFT + FIELD_W + 24 + LEGEND_W)

/** The axis of time: us. */
typedef struct axis {
    double from, to, step;
} axis_t;

static double x_of(const axis_t *axis, double time_s) {
    return LEFT + FIELD_W * (1e6 * time_s - axis->from) / (axis->to - axis->from);
}

/** From the least to the greatest time, at round numbers: differences are what one looks for. */
static axis_t measure(const ccl_draw_spreads_t *plot) {
    double least = INFINITY, most = -INFINITY;
    axis_t axis;

    for (uint32_t c = 0; c < plot->ncurves; c++) {
        for (uint32_t i = 0; i < plot->n; i++) {
            double us = 1e6 * plot->curves[c].quantile_s[i];

            least = isfinite(us) ? fmin(least, us) : least;
            most = isfinite(us) ? fmax(most, us) : most;
        }
    }
    if (!(least <= most)) {
        least = 0;
        most = 1;
    }
    if (most - least < 1e-3 * most) { /* all alike */
        least *= 0.95;
        most *= 1.05;
    }
    axis.step = ccl_i_round_step(most - least, 9);
    axis.from = floor(least / axis.step + 1e-9) * axis.step;
    axis.to = ceil(most / axis.step - 1e-9) * axis.step;
    return axis;
}

static void time_axis(ccl_picture_t *p, const axis_t *axis, double y) {
    ccl_i_open(p, "axis time", NULL);
    for (uint32_t i = 0; axis->from + i * axis->step <= axis->to * (1 + 1e-9); i++) {
        double us = axis->from + i * axis->step, at = x_of(axis, us / 1e6);

        ccl_i_line(p, at, y - FIELD_H, at, y, ccl_i_stroke(CCL_I_GRID, 0.6));
        ccl_i_line(p, at, y, at, y + 4, ccl_i_stroke(CCL_I_INK, 1));
        ccl_i_text(p, at, y + 16, 10, ANCHOR_MIDDLE, CCL_I_INK, "%.6g", us);
    }
    ccl_i_line(p, LEFT, y, LEFT + FIELD_W, y, ccl_i_stroke(CCL_I_INK, 1));
    ccl_i_text(p, LEFT + FIELD_W / 2, y + 32, 11, ANCHOR_MIDDLE, CCL_I_INK, "time (us)");
    ccl_i_close(p);
}

/** "ring: half by 98.2 us, 95 % by 103 us, 99 % by 110 us". */
static const char *about(const ccl_draw_spreads_t *plot, const ccl_draw_spread_t *curve, char *out,
                         size_t out_len) {
    static const double shares[] = {0.5, 0.95, 0.99};
    size_t len = (size_t)snprintf(out, out_len, "%.100s", curve->name);

    for (size_t k = 0; k < CCL_ARRAY_LEN(shares) && len < out_len; k++) {
        double at_s = curve->quantile_s[(uint32_t)round(shares[k] * (plot->n - 1))];

        if (isfinite(at_s))
            len += (size_t)snprintf(out + len, out_len - len, "%s %g %% by %.4g us", k ? "," : ":",
                                    100 * shares[k], 1e6 * at_s);
    }
    return out;
}

/** Steps: a share is reached at its quantile, not before. */
static void curve(ccl_picture_t *p, const ccl_draw_spreads_t *plot, uint32_t c, const axis_t *axis,
                  double bottom, ccl_i_pen_t pen) {
    const ccl_draw_spread_t *of = &plot->curves[c];
    char text[300];

    ccl_i_open(p, "curve", about(plot, of, text, sizeof(text)));
    ccl_i_path(p, false, pen);
    for (uint32_t i = 0; i < plot->n && isfinite(of->quantile_s[i]); i++) {
        double x = x_of(axis, of->quantile_s[i]);

        if (i > 0)
            ccl_i_to(p, x, bottom - FIELD_H * (i - 1) / (plot->n - 1));
        ccl_i_to(p, x, bottom - FIELD_H * i / (plot->n - 1));
    }
    ccl_i_close(p);
}

static void draw_plot(ccl_picture_t *p, const ccl_draw_spreads_t *plot, double y) {
    const axis_t axis = measure(plot);
    double bottom = y + FIELD_H, legend_y = y + 14;

    ccl_i_open(p, "plot", plot->title);
    ccl_i_left_axis(p, LEFT, y, FIELD_W, FIELD_H, 100, "share of the samples (%)");
    time_axis(p, &axis, bottom);
    for (uint32_t c = 0; c < plot->ncurves; c++) {
        /* Where colours repeat, dashes differ. */
        ccl_i_pen_t pen = ccl_i_stroke(ccl_i_colour(c), 1.8);
        char name[120];

        pen.dash = c / 8 == 0 ? 0 : c / 8 == 1 ? 3 : 9;
        curve(p, plot, c, &axis, bottom, pen);
        if (legend_y > bottom)
            continue;
        ccl_i_open(p, "legend curve", NULL);
        ccl_i_line(p, LEFT + FIELD_W + 20, legend_y, LEFT + FIELD_W + 46, legend_y, pen);
        ccl_i_text(p, LEFT + FIELD_W + 52, legend_y + 3.5, 10, ANCHOR_START, CCL_I_INK, "%s",
                   ccl_i_fit(plot->curves[c].name, 10, LEGEND_W - 44, name, sizeof(name)));
        ccl_i_close(p);
        legend_y += 17;
    }
    ccl_i_close(p);
}

ccl_status_t ccl_draw_spreads(const ccl_draw_spreads_t *plots, uint32_t nplots, ccl_picture_t **out,
                              ccl_error_t *err) {
    ccl_picture_t *p = ccl_i_picture_create();
    double y = 12;
    char title[300];

    if (!p)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < nplots; i++) {
        ccl_i_text_bold(p, 16, y + 14, 13, ANCHOR_START, CCL_I_INK, "%s",
                        ccl_i_fit(plots[i].title, 14.5, WIDTH - 32, title, sizeof(title)));
        draw_plot(p, &plots[i], y + 30);
        y += 30 + FIELD_H + 54;
    }
    return ccl_i_picture_finish(p, WIDTH, y, out, err);
}
