/*
 * A picture as SVG. Written here and not by cairo, whose SVG has outlines in place of letters, no
 * classes and no tooltips, and ids that collide where several pictures stand in one page.
 */
#include "draw/canvas.h"

#include <math.h>

/** At most two decimals, behind `before`; by hand, as there are hundreds of thousands. */
static void number(ccl_text_t *out, const char *before, double value) {
    char text[32];
    char *end = text + sizeof(text);
    char *s = end;
    long long cents = llround(value * 100);
    bool negative = cents < 0;
    unsigned long long left =
        negative ? 0ULL - (unsigned long long)cents : (unsigned long long)cents;
    unsigned part = (unsigned)(left % 100);

    left /= 100;
    if (part) {
        if (part % 10)
            *--s = (char)('0' + part % 10);
        *--s = (char)('0' + part / 10);
        *--s = '.';
    }
    do {
        *--s = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (negative)
        *--s = '-';
    for (; *before; before++)
        ccl_text_add(out, before, 1);
    ccl_text_add(out, s, (size_t)(end - s));
}

static void attribute(ccl_text_t *out, const char *before, double value) {
    number(out, before, value);
    ccl_text_add(out, "\"", 1);
}

static void colour(ccl_text_t *out, const char *name, uint32_t value) {
    if (value == CCL_I_NO_COLOUR)
        ccl_text_printf(out, " %s=\"none\"", name);
    else
        ccl_text_printf(out, " %s=\"#%06x\"", name, (unsigned)value);
}

static void pen(ccl_text_t *out, const ccl_i_pen_t *pen) {
    colour(out, "fill", pen->fill);
    if (pen->stroke == CCL_I_NO_COLOUR)
        return;
    colour(out, "stroke", pen->stroke);
    attribute(out, " stroke-width=\"", pen->width);
    if (pen->dash > 0)
        attribute(out, " stroke-dasharray=\"", pen->dash);
}

static void text_item(ccl_text_t *out, const ccl_i_canvas_item_t *item) {
    static const char *const anchors[] = {"start", "middle", "end"};

    attribute(out, "<text x=\"", item->x);
    attribute(out, " y=\"", item->y);
    attribute(out, " font-size=\"", item->h);
    if (item->anchor != ANCHOR_START)
        ccl_text_printf(out, " text-anchor=\"%s\"", anchors[item->anchor]);
    if (item->bold)
        ccl_text_printf(out, " font-weight=\"bold\"");
    colour(out, "fill", item->pen.fill);
    /* Where the font is missing, another one is squeezed into its place. */
    if (item->w > 0)
        attribute(out, " lengthAdjust=\"spacingAndGlyphs\" textLength=\"", item->w);
    if (item->upright) {
        number(out, " transform=\"rotate(-90 ", item->x);
        number(out, " ", item->y);
        ccl_text_add(out, ")\"", 2);
    }
    ccl_text_add(out, ">", 1);
    ccl_text_add_xml(out, item->text ? item->text : "");
    ccl_text_printf(out, "</text>\n");
}

static void shape(const ccl_picture_t *p, const ccl_i_canvas_item_t *item, ccl_text_t *out) {
    const double *at = p->points + item->first;

    switch ((ccl_i_item_kind_t)item->kind) {
    case ITEM_OPEN:
        ccl_text_printf(out, "<g class=\"%s\">", item->text);
        if (item->title) {
            ccl_text_printf(out, "<title>");
            ccl_text_add_xml(out, item->title);
            ccl_text_printf(out, "</title>");
        }
        ccl_text_add(out, "\n", 1);
        return;
    case ITEM_CLOSE:
        ccl_text_printf(out, "</g>\n");
        return;
    case ITEM_TEXT:
        text_item(out, item);
        return;
    case ITEM_RECT:
        attribute(out, "<rect x=\"", item->x);
        attribute(out, " y=\"", item->y);
        attribute(out, " width=\"", item->w);
        attribute(out, " height=\"", item->h);
        if (item->r > 0)
            attribute(out, " rx=\"", item->r);
        break;
    case ITEM_CIRCLE:
        attribute(out, "<circle cx=\"", item->x);
        attribute(out, " cy=\"", item->y);
        attribute(out, " r=\"", item->r);
        break;
    case ITEM_PATH:
        ccl_text_printf(out, "<path d=\"");
        for (uint32_t i = 0; i < item->n; i += 2) {
            number(out, i ? "L" : "M", at[i]);
            number(out, " ", at[i + 1]);
        }
        ccl_text_printf(out, item->closed ? "Z\"" : "\"");
        break;
    case ITEM_CELLS:
        ccl_text_printf(out, "<path d=\"");
        for (uint32_t i = 0; i < item->n; i += 4) {
            number(out, "M", at[i]);
            number(out, " ", at[i + 1]);
            number(out, "h", at[i + 2]);
            number(out, "v", at[i + 3]);
            number(out, "h", -at[i + 2]);
            ccl_text_add(out, "z", 1);
        }
        ccl_text_printf(out, "\"");
        break;
    }
    pen(out, &item->pen);
    ccl_text_printf(out, "/>\n");
}

ccl_status_t ccl_i_svg(const ccl_picture_t *p, double scale, bool is_file, bool wide,
                       ccl_text_t *out, ccl_error_t *err) {
    if (is_file)
        ccl_text_printf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    ccl_text_printf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    if (!wide) {
        attribute(out, " width=\"", p->width * scale);
        attribute(out, " height=\"", p->height * scale);
    }
    number(out, " viewBox=\"0 0 ", p->width);
    attribute(out, " ", p->height);
    ccl_text_printf(out, " font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n");
    attribute(out, "<rect width=\"", p->width);
    attribute(out, " height=\"", p->height);
    ccl_text_printf(out, " fill=\"#ffffff\"/>\n");
    for (size_t i = 0; i < p->nitems; i++)
        shape(p, &p->items[i], out);
    ccl_text_printf(out, "</svg>\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
