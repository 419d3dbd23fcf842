/* Curves over a logarithmic axis: busbw over size, anything over a setting; points over size. */
#include "draw/canvas.h"

#include <math.h>
#include <stdlib.h>

#define LEFT 66.0
#define FIELD_W 640.0
#define LEGEND_W 200.0
#define SIZE_NAME "size (bytes of a GPU's largest buffer; K, M, G are 2^10, 2^20, 2^30)"
#define WIDTH (LEFT + FIELD_W + 24 + LEGEND_W)

/** A plot of either kind. */
typedef struct plot {
    const char *title, *x_name, *y_name;
    bool sizes; /* x are bytes */
    double height;
    uint32_t n, ncurves;
    const double *x; /* [n] > 0 */
    const ccl_draw_curve_t *curves;
    const double *bound; /* [n] or NULL */
    double low, high;    /* log2 of the ends of the axis */
    bool log;            /* values stand on a logarithmic axis, too */
    const char *bound_name;
} plot_t;

/** The axis of values. */
typedef struct scale {
    bool log;
    double top;     /* linear: from 0 */
    double ends[2]; /* logarithmic: log2 */
} scale_t;

static void marker(ccl_picture_t *p, uint32_t shape, double x, double y, uint32_t colour) {
    ccl_i_pen_t pen = {colour, 0xffffff, 0.6, 0};

    if (shape == 0) {
        ccl_i_circle(p, x, y, 3.4, pen);
    } else if (shape == 1) {
        ccl_i_rect(p, x - 3, y - 3, 6, 6, 0, pen);
    } else {
        double up = shape == 2 ? -4 : 4;

        ccl_i_path(p, true, pen);
        ccl_i_to(p, x - 4, y - up * 0.75);
        ccl_i_to(p, x + 4, y - up * 0.75);
        ccl_i_to(p, x, y + up);
    }
}

/** Where colours repeat, markers differ. */
static uint32_t shape_of(uint32_t c) {
    return (c + c / 8) % 4;
}

static double log_x(const plot_t *plot, double x) {
    return LEFT + FIELD_W * (log2(x) - plot->low) / (plot->high - plot->low);
}

static void tick(ccl_picture_t *p, const plot_t *plot, double y, double x, const char *text) {
    double at = log_x(plot, x);

    ccl_i_line(p, at, y - plot->height, at, y, ccl_i_stroke(CCL_I_GRID, 0.6));
    ccl_i_line(p, at, y, at, y + 4, ccl_i_stroke(CCL_I_INK, 1));
    ccl_i_text(p, at, y + 16, 10, ANCHOR_MIDDLE, CCL_I_INK, "%s", text);
}

static void size_ticks(ccl_picture_t *p, const plot_t *plot, double y) {
    int step = 1;
    char text[32];

    while ((floor(plot->high) - ceil(plot->low)) / step > 13)
        step++;
    for (int e = (int)ceil(plot->low - 1e-9); e <= plot->high + 1e-9; e += step)
        tick(p, plot, y, exp2(e), ccl_format_bytes(exp2(e), text, sizeof(text)));
}

/** 1, 2, 5, 10, 20 ...; of more than four decades only 1, 10, 100 ... */
static void number_ticks(ccl_picture_t *p, const plot_t *plot, double y) {
    static const double parts[] = {1, 2, 5};
    double decades = (plot->high - plot->low) / log2(10);
    int every = decades > 13 ? (int)ceil(decades / 13) : 1;

    for (int e = (int)floor(plot->low / log2(10)) - 1; e <= plot->high / log2(10); e += every) {
        for (int k = 0; k < (decades > 4 ? 1 : 3); k++) {
            double x = parts[k] * pow(10, e);
            char text[32];

            snprintf(text, sizeof(text), "%g", x);
            if (log2(x) >= plot->low - 1e-9 && log2(x) <= plot->high + 1e-9)
                tick(p, plot, y, x, text);
        }
    }
}

static void x_axis(ccl_picture_t *p, const plot_t *plot, double y) {
    ccl_i_open(p, plot->sizes ? "axis size" : "axis setting", NULL);
    if (plot->sizes)
        size_ticks(p, plot, y);
    else
        number_ticks(p, plot, y);
    ccl_i_line(p, LEFT, y, LEFT + FIELD_W, y, ccl_i_stroke(CCL_I_INK, 1));
    ccl_i_text(p, LEFT + FIELD_W / 2, y + 32, 11, ANCHOR_MIDDLE, CCL_I_INK, "%s", plot->x_name);
    ccl_i_close(p);
}

static double log_y(const plot_t *plot, double y, double value, const double ends[2]) {
    return y + plot->height * (1 - (log2(value) - ends[0]) / (ends[1] - ends[0]));
}

/** A value's place; y is the field's upper end. */
static double place(const plot_t *plot, double y, double value, const scale_t *scale) {
    return scale->log ? log_y(plot, y, value, scale->ends)
                      : y + plot->height * (1 - value / scale->top);
}

/** A line through the values that are there, with a marker at each. */
static void curve(ccl_picture_t *p, const plot_t *plot, const double *values, double y,
                  const scale_t *scale, ccl_i_pen_t pen, uint32_t shape) {
    bool on = false;

    for (uint32_t i = 0; i < plot->n; i++) {
        bool there = isfinite(values[i]) && (!scale->log || values[i] > 0);

        if (there && !on)
            ccl_i_path(p, false, pen);
        if (there)
            ccl_i_to(p, log_x(plot, plot->x[i]), place(plot, y, values[i], scale));
        on = there;
    }
    for (uint32_t i = 0; shape != CCL_NONE && i < plot->n; i++)
        if (isfinite(values[i]) && (!scale->log || values[i] > 0))
            marker(p, shape, log_x(plot, plot->x[i]), place(plot, y, values[i], scale), pen.stroke);
}

static void widen(double value, double *least, double *most) {
    if (isfinite(value)) {
        *most = fmax(*most, value);
        *least = value > 0 ? fmin(*least, value) : *least;
    }
}

/** The ends of the axes. */
static scale_t measure(plot_t *plot) {
    double most = 0, least = INFINITY;
    scale_t scale = {.log = plot->log};

    plot->low = INFINITY;
    plot->high = -INFINITY;
    for (uint32_t i = 0; i < plot->n; i++) {
        plot->low = fmin(plot->low, log2(plot->x[i]));
        plot->high = fmax(plot->high, log2(plot->x[i]));
        for (uint32_t c = 0; c < plot->ncurves; c++)
            widen(plot->curves[c].values[i], &least, &most);
        if (plot->bound)
            widen(plot->bound[i], &least, &most);
    }
    if (plot->high - plot->low < 1e-9) {
        plot->low -= 1;
        plot->high += 1;
    }
    if (most <= 0) {
        least = 1;
        most = 2;
    }
    scale.top = most;
    scale.ends[0] = log2(least) - 0.1;
    scale.ends[1] = fmax(log2(most), scale.ends[0] + 0.9) + 0.15;
    return scale;
}

/** @return where the legend goes on. */
static double draw_bound(ccl_picture_t *p, const plot_t *plot, double y, const scale_t *scale,
                         double legend_y) {
    ccl_i_pen_t bound = ccl_i_stroke(0x000000, 1.6);

    bound.dash = 6;
    ccl_i_open(p, "bound", "proven lower bound of the time");
    curve(p, plot, plot->bound, y, scale, bound, CCL_NONE);
    ccl_i_close(p);
    ccl_i_open(p, "legend curve", NULL);
    ccl_i_line(p, LEFT + FIELD_W + 20, legend_y, LEFT + FIELD_W + 46, legend_y, bound);
    ccl_i_text(p, LEFT + FIELD_W + 52, legend_y + 3.5, 10, ANCHOR_START, CCL_I_INK, "%s",
               plot->bound_name);
    ccl_i_close(p);
    return legend_y + 17;
}

/** @param line  NULL: the marker alone. */
static void legend(ccl_picture_t *p, uint32_t c, const ccl_i_pen_t *line, const char *text,
                   double y) {
    char name[120];

    ccl_i_open(p, line ? "legend curve" : "legend kind", NULL);
    if (line)
        ccl_i_line(p, LEFT + FIELD_W + 20, y, LEFT + FIELD_W + 46, y, *line);
    marker(p, shape_of(c), LEFT + FIELD_W + 33, y, ccl_i_colour(c));
    ccl_i_text(p, LEFT + FIELD_W + 52, y + 3.5, 10, ANCHOR_START, CCL_I_INK, "%s",
               ccl_i_fit(text, 10, LEGEND_W - 44, name, sizeof(name)));
    ccl_i_close(p);
}

/** Ticks as near to each other as the values: 1, 1.1, 1.2 ...; 1, 1.5, 2, 3 ...; 1, 2, 5; 1, 10. */
static void log_left_axis(ccl_picture_t *p, const plot_t *plot, double y, const double ends[2]) {
    static const double parts[][10] = {
        {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9}, {1, 1.5, 2, 3, 4, 5, 7}, {1, 2, 5}, {1}};
    double octaves = ends[1] - ends[0];
    const double *part = parts[octaves <= 1 ? 0 : octaves <= 4.5 ? 1 : octaves <= 14 ? 2 : 3];

    ccl_i_open(p, "axis value", NULL);
    for (int e = (int)floor(ends[0] / log2(10)); e <= ends[1] / log2(10); e++) {
        for (int k = 0; k < 10 && part[k] > 0; k++) {
            double value = part[k] * pow(10, e);
            double at = log_y(plot, y, value, ends);

            if (log2(value) < ends[0] - 1e-9 || log2(value) > ends[1] + 1e-9)
                continue;
            ccl_i_line(p, LEFT, at, LEFT + FIELD_W, at, ccl_i_stroke(CCL_I_GRID, 0.6));
            ccl_i_line(p, LEFT - 4, at, LEFT, at, ccl_i_stroke(CCL_I_INK, 1));
            ccl_i_text(p, LEFT - 7, at + 3.5, 10, ANCHOR_END, CCL_I_INK, "%g", value);
        }
    }
    ccl_i_line(p, LEFT, y, LEFT, y + plot->height, ccl_i_stroke(CCL_I_INK, 1));
    ccl_i_text_up(p, 18, y + plot->height / 2, 11, ANCHOR_MIDDLE, CCL_I_INK, "%s", plot->y_name);
    ccl_i_close(p);
}

static void draw_plot(ccl_picture_t *p, plot_t *plot, double y) {
    scale_t scale = measure(plot);
    double bottom = y + plot->height;
    double legend_y = y + 14;

    ccl_i_open(p, "plot", plot->title);
    if (plot->log)
        log_left_axis(p, plot, y, scale.ends);
    else
        scale.top = ccl_i_left_axis(p, LEFT, y, FIELD_W, plot->height, scale.top, plot->y_name);
    x_axis(p, plot, bottom);
    if (plot->bound)
        legend_y = draw_bound(p, plot, y, &scale, legend_y);
    for (uint32_t c = 0; c < plot->ncurves; c++) {
        /* Where colours repeat, dashes and markers differ. */
        ccl_i_pen_t pen = ccl_i_stroke(ccl_i_colour(c), 1.8);

        pen.dash = c / 8 == 0 ? 0 : c / 8 == 1 ? 3 : 9;
        ccl_i_open(p, "curve", plot->curves[c].name);
        curve(p, plot, plot->curves[c].values, y, &scale, pen, shape_of(c));
        ccl_i_close(p);
        if (legend_y > bottom)
            continue;
        legend(p, c, &pen, plot->curves[c].name, legend_y);
        legend_y += 17;
    }
    ccl_i_close(p);
}

/** With its title, at y; @return where the next one begins. */
static double add_plot(ccl_picture_t *p, plot_t *plot, double y) {
    char title[300];

    ccl_i_text_bold(p, 16, y + 14, 13, ANCHOR_START, CCL_I_INK, "%s",
                    ccl_i_fit(plot->title, 14.5, WIDTH - 32, title, sizeof(title)));
    draw_plot(p, plot, y + 30);
    return y + 30 + plot->height + 54;
}

/** Time in us of busbw in GB/s; NaN where there is none. */
static double time_us(double size_bytes, double factor, double busbw_GBps) {
    return busbw_GBps > 0 ? size_bytes * factor / busbw_GBps / 1e3 : NAN;
}

/** The same plot with times. */
static ccl_status_t time_twin(const ccl_draw_busbw_t *of, ccl_arena_t *arena, plot_t *plot,
                              ccl_error_t *err) {
    ccl_draw_curve_t *curves = ccl_arena_alloc(arena, of->ncurves + (size_t)1, sizeof(*curves));
    double *bound = ccl_arena_alloc(arena, of->nsizes + (size_t)1, sizeof(*bound));

    if (!curves || !bound)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < of->ncurves; c++) {
        double *values = ccl_arena_alloc(arena, of->nsizes + (size_t)1, sizeof(*values));

        if (!values)
            return ccl_fail_nomem(err);
        for (uint32_t i = 0; i < of->nsizes; i++)
            values[i] = time_us(of->sizes_bytes[i], of->factor, of->curves[c].values[i]);
        curves[c] = (ccl_draw_curve_t){of->curves[c].name, values};
    }
    for (uint32_t i = 0; of->bound_GBps && i < of->nsizes; i++)
        bound[i] = time_us(of->sizes_bytes[i], of->factor, of->bound_GBps[i]);
    plot->curves = curves;
    plot->bound = of->bound_GBps ? bound : NULL;
    plot->bound_name = "bound: none can be below";
    plot->y_name = "time (us)";
    return CCL_OK;
}

ccl_status_t ccl_draw_busbw(const ccl_draw_busbw_t *plots, uint32_t nplots, ccl_picture_t **out,
                            ccl_error_t *err) {
    ccl_picture_t *p = ccl_i_picture_create();
    ccl_status_t status = CCL_OK;
    double y = 12;

    if (!p)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < nplots; i++) {
        const ccl_draw_busbw_t *of = &plots[i];
        plot_t plot = {.title = of->title,
                       .x_name = SIZE_NAME,
                       .y_name = "busbw (GB/s)",
                       .sizes = true,
                       .height = 320,
                       .n = of->nsizes,
                       .ncurves = of->ncurves,
                       .x = of->sizes_bytes,
                       .curves = of->curves,
                       .bound = of->bound_GBps,
                       .bound_name = "bound: none can be above",
                       .log = true};

        y = add_plot(p, &plot, y);
        if (!(of->factor > 0))
            continue;
        status = time_twin(of, &p->arena, &plot, err);
        draw_plot(p, &plot, y);
        y += plot.height + 54;
    }
    if (status != CCL_OK) {
        ccl_picture_destroy(p);
        return status;
    }
    return ccl_i_picture_finish(p, WIDTH, y, out, err);
}

ccl_status_t ccl_draw_curves(const ccl_draw_curves_t *plots, uint32_t nplots, ccl_picture_t **out,
                             ccl_error_t *err) {
    ccl_picture_t *p = ccl_i_picture_create();
    double y = 12;

    if (!p)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < nplots; i++) {
        const ccl_draw_curves_t *of = &plots[i];
        plot_t plot = {.title = of->title,
                       .x_name = of->x_name,
                       .y_name = of->y_name,
                       .height = 200,
                       .n = of->n,
                       .ncurves = of->ncurves,
                       .x = of->x,
                       .curves = of->curves};

        y = add_plot(p, &plot, y);
    }
    return ccl_i_picture_finish(p, WIDTH, y, out, err);
}

/* ---------------------------------------------------------------- points */

/** Pixels between two kinds of one size: all of them fit beside those of the next size. */
static double kinds_apart(const ccl_draw_points_t *of, const plot_t *plot) {
    double nearest = FIELD_W / 8;

    for (uint32_t i = 1; i < of->n; i++) {
        double d =
            fabs(log_x(plot, of->points[i].size_bytes) - log_x(plot, of->points[i - 1].size_bytes));

        if (d > 1e-6)
            nearest = fmin(nearest, d);
    }
    return fmin(0.7 * nearest / of->nkinds, 7);
}

static void draw_points(ccl_picture_t *p, const ccl_draw_points_t *of, const plot_t *plot, double y,
                        const double ends[2]) {
    double apart = kinds_apart(of, plot);
    double last_at = INFINITY;

    for (uint32_t i = 0; i < of->n; i++) {
        const ccl_draw_point_t *point = &of->points[i];
        double at = log_y(plot, y, point->value, ends);
        double x = log_x(plot, point->size_bytes) + (point->kind - (of->nkinds - 1) / 2.0) * apart;

        if (i > 0 && point->kind == point[-1].kind && point->size_bytes == point[-1].size_bytes &&
            last_at - at < 1)
            continue;
        last_at = at;
        ccl_i_open(p, "point", point->about);
        marker(p, shape_of(point->kind), x, at, ccl_i_colour(point->kind));
        ccl_i_close(p);
    }
}

ccl_status_t ccl_draw_points(const ccl_draw_points_t *of, ccl_picture_t **out, ccl_error_t *err) {
    ccl_picture_t *p = ccl_i_picture_create();
    plot_t plot = {.title = of->title,
                   .x_name = SIZE_NAME,
                   .y_name = of->y_name,
                   .sizes = true,
                   .height = 320};
    double ends[2] = {0, 0};
    double y = 42, legend_y = y + 14;
    char title[300];

    if (!p)
        return ccl_fail_nomem(err);
    plot.height = fmax(plot.height, 17.0 * of->nkinds + 14);
    plot.low = INFINITY;
    plot.high = -INFINITY;
    for (uint32_t i = 0; i < of->n; i++) {
        plot.low = fmin(plot.low, log2(of->points[i].size_bytes));
        plot.high = fmax(plot.high, log2(of->points[i].size_bytes));
        ends[0] = fmin(ends[0], log2(of->points[i].value));
        ends[1] = fmax(ends[1], log2(of->points[i].value));
    }
    /* Room for the kinds of the first and of the last size. */
    plot.low -= 0.5;
    plot.high += 0.5;
    ends[1] += fmax(0.05 * (ends[1] - ends[0]), 0.02);
    ends[0] -= 0.03 * (ends[1] - ends[0]);
    ccl_i_text_bold(p, 16, 26, 13, ANCHOR_START, CCL_I_INK, "%s",
                    ccl_i_fit(of->title, 14.5, WIDTH - 32, title, sizeof(title)));
    ccl_i_open(p, "plot", of->title);
    log_left_axis(p, &plot, y, ends);
    x_axis(p, &plot, y + plot.height);
    ccl_i_open(p, "bound", "lower bound of the time");
    ccl_i_line(p, LEFT, log_y(&plot, y, 1, ends), LEFT + FIELD_W, log_y(&plot, y, 1, ends),
               (ccl_i_pen_t){CCL_I_NO_COLOUR, 0x000000, 1.6, 6});
    ccl_i_close(p);
    draw_points(p, of, &plot, y, ends);
    for (uint32_t c = 0; c < of->nkinds; c++)
        legend(p, c, NULL, of->names[c], legend_y + 17 * c);
    ccl_i_close(p);
    return ccl_i_picture_finish(p, WIDTH, y + plot.height + 54, out, err);
}
