/*
 * A picture by cairo: PDF and PNG. In a child process: fontconfig, which finds the font, crashes or
 * never ends when short of memory.
 */
#include "draw/canvas.h"

#include <cairo-pdf.h>
#include <cairo.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_PIXELS = 32767 };
#define LONGEST_S 600.0 /* the largest PNG takes a tenth of that */
#define FONT "DejaVu Sans"
#define POINTS_PER_UNIT 0.75

static cairo_status_t add_bytes(void *user, const unsigned char *data, unsigned len) {
    ccl_text_t *out = user;

    ccl_text_add(out, (const char *)data, len);
    return out->nomem ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static void set_colour(cairo_t *cr, uint32_t colour) {
    cairo_set_source_rgb(cr, (colour >> 16) / 255.0, (colour >> 8 & 255) / 255.0,
                         (colour & 255) / 255.0);
}

static void paint(cairo_t *cr, const ccl_i_pen_t *pen) {
    if (pen->fill != CCL_I_NO_COLOUR) {
        set_colour(cr, pen->fill);
        cairo_fill_preserve(cr);
    }
    if (pen->stroke != CCL_I_NO_COLOUR) {
        set_colour(cr, pen->stroke);
        cairo_set_line_width(cr, pen->width);
        cairo_set_dash(cr, &pen->dash, pen->dash > 0 ? 1 : 0, 0);
        cairo_stroke_preserve(cr);
    }
    cairo_new_path(cr);
}

static void font(cairo_t *cr, double size, bool bold) {
    cairo_select_font_face(cr, FONT, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

static void show_text(cairo_t *cr, const ccl_i_canvas_item_t *item) {
    double shift = item->anchor == ANCHOR_START ? 0 : item->anchor == ANCHOR_END ? 1 : 0.5;

    if (!item->text)
        return;
    cairo_save(cr);
    font(cr, item->h, item->bold);
    set_colour(cr, item->pen.fill);
    cairo_translate(cr, item->x, item->y);
    if (item->upright)
        cairo_rotate(cr, -acos(-1) / 2);
    cairo_move_to(cr, -shift * item->w, 0);
    cairo_show_text(cr, item->text);
    cairo_restore(cr);
    cairo_new_path(cr);
}

static void rounded(cairo_t *cr, const ccl_i_canvas_item_t *i) {
    double quarter = acos(-1) / 2;

    if (!(i->r > 0)) {
        cairo_rectangle(cr, i->x, i->y, i->w, i->h);
        return;
    }
    cairo_arc(cr, i->x + i->w - i->r, i->y + i->r, i->r, -quarter, 0);
    cairo_arc(cr, i->x + i->w - i->r, i->y + i->h - i->r, i->r, 0, quarter);
    cairo_arc(cr, i->x + i->r, i->y + i->h - i->r, i->r, quarter, 2 * quarter);
    cairo_arc(cr, i->x + i->r, i->y + i->r, i->r, 2 * quarter, 3 * quarter);
    cairo_close_path(cr);
}

static void shape(cairo_t *cr, const ccl_picture_t *p, const ccl_i_canvas_item_t *item) {
    const double *at = p->points + item->first;

    switch ((ccl_i_item_kind_t)item->kind) {
    case ITEM_OPEN:
    case ITEM_CLOSE:
        return;
    case ITEM_TEXT:
        show_text(cr, item);
        return;
    case ITEM_RECT:
        rounded(cr, item);
        break;
    case ITEM_CIRCLE:
        cairo_arc(cr, item->x, item->y, item->r, 0, 2 * acos(-1));
        cairo_close_path(cr);
        break;
    case ITEM_PATH:
        for (uint32_t i = 0; i < item->n; i += 2)
            cairo_line_to(cr, at[i], at[i + 1]);
        if (item->closed)
            cairo_close_path(cr);
        break;
    case ITEM_CELLS:
        for (uint32_t i = 0; i < item->n; i += 4)
            cairo_rectangle(cr, at[i], at[i + 1], at[i + 2], at[i + 3]);
        break;
    }
    paint(cr, &item->pen);
}

/** Another font in its place would be too wide or too narrow everywhere. */
static bool has_font(cairo_t *cr) {
    static const char sample[] = "ccllab 0123456789 GB/s iWm";
    cairo_text_extents_t extents;
    double want = ccl_i_text_width(sample, 100, false);

    font(cr, 100, false);
    cairo_text_extents(cr, sample, &extents);
    return fabs(extents.x_advance - want) < 0.005 * want;
}

static void draw(cairo_t *cr, const ccl_picture_t *p) {
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    set_colour(cr, 0xffffff);
    cairo_paint(cr);
    for (size_t i = 0; i < p->nitems; i++)
        shape(cr, p, &p->items[i]);
}

static cairo_surface_t *surface_of(const ccl_picture_t *p, ccl_draw_format_t format, double scale,
                                   ccl_text_t *out) {
    cairo_surface_t *surface;

    if (format == CCL_DRAW_PNG)
        return cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)lround(p->width * scale),
                                          (int)lround(p->height * scale));
    surface = cairo_pdf_surface_create_for_stream(
        add_bytes, out, p->width * scale * POINTS_PER_UNIT, p->height * scale * POINTS_PER_UNIT);
    /* The only things in it that are not the picture's. */
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, "ccllab " CCL_VERSION);
    return surface;
}

typedef struct job {
    const ccl_picture_t *picture;
    ccl_draw_format_t format;
    double scale;
} job_t;

/* Neither the screen nor the user's settings have a say. */
static void set_options(cairo_t *cr) {
    cairo_font_options_t *options = cairo_font_options_create();

    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, options);
    cairo_font_options_destroy(options);
}

/* @param found_out  the font is there; else nothing is drawn. */
static cairo_status_t render(const job_t *j, ccl_text_t *out, bool *found_out) {
    cairo_surface_t *surface = surface_of(j->picture, j->format, j->scale, out);
    cairo_t *cr = cairo_create(surface);
    cairo_status_t status;

    set_options(cr);
    *found_out = has_font(cr);
    if (*found_out) {
        double unit = j->scale * (j->format == CCL_DRAW_PDF ? POINTS_PER_UNIT : 1);

        cairo_scale(cr, unit, unit);
        draw(cr, j->picture);
        if (j->format == CCL_DRAW_PDF)
            cairo_show_page(cr);
    }
    status = cairo_status(cr);
    cairo_destroy(cr);
    if (j->format == CCL_DRAW_PNG && *found_out && status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, add_bytes, out);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
}

static ccl_status_t child(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    ccl_text_t out = {0};
    bool found = false;
    cairo_status_t status = render(user, &out, &found);
    ccl_status_t done = CCL_OK;

    /* libpng writes to memory here: that is all it can lack. */
    if (out.nomem || status == CAIRO_STATUS_NO_MEMORY || status == CAIRO_STATUS_PNG_ERROR)
        done = ccl_fail_nomem(err);
    else if (status != CAIRO_STATUS_SUCCESS)
        done = ccl_fail(err, CCL_ERR_INTERNAL, "cairo: %s", cairo_status_to_string(status));
    else if (!found)
        done = ccl_fail(err, CCL_ERR_MISSING,
                        "the font " FONT " is not installed (Debian: fonts-dejavu-core); SVG needs "
                        "no font");
    else
        ccl_child_put(pipe, out.data, out.len);
    ccl_text_fini(&out);
    return done;
}

ccl_status_t ccl_i_cairo(const ccl_picture_t *p, ccl_draw_format_t format, double scale,
                         ccl_text_t *out, ccl_error_t *err) {
    const ccl_child_limits_t limits = {LONGEST_S, 0, "cairo"};
    job_t job = {p, format, scale};
    ccl_child_answer_t answer = {0};
    ccl_status_t status;

    if (format == CCL_DRAW_PNG &&
        (p->width * scale > MOST_PIXELS || p->height * scale > MOST_PIXELS))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a PNG of %.0f x %.0f pixels is too large, %d a side are the most",
                        p->width * scale, p->height * scale, MOST_PIXELS);
    status = ccl_child_run(NULL, &limits, child, &job, &answer, err);
    if (status == CCL_OK && answer.limited)
        status = ccl_fail(err, CCL_UNSUPPORTED, "cairo: no picture after %g s", LONGEST_S);
    else if (status == CCL_OK && answer.len)
        ccl_text_add(out, answer.data, answer.len);
    if (status == CCL_OK && (out->nomem || !answer.len))
        status = ccl_fail_nomem(err);
    free(answer.data);
    return status;
}
