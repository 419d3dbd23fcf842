/* Curves of a page: a picture that stands without scripts, and the data for the one that shows values. */
#include "report/html/page_curves.h"
#include "base/json.h"

#include <math.h>

static void values(ccl_text_t *out, const char *name, const double *list, uint32_t n) {
    ccl_text_printf(out, "\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++) {
        if (isfinite(list[i]))
            ccl_text_printf(out, "%s%.12g", i ? "," : "", list[i]);
        else
            ccl_text_printf(out, "%snull", i ? "," : "");
    }
    ccl_text_printf(out, "]");
}

ccl_status_t ccl_i_page_curves(ccl_i_page_t *page, const ccl_draw_busbw_t *plot, ccl_error_t *err) {
    ccl_text_t *out = &page->body;
    ccl_picture_t *picture = NULL;
    uint32_t id = page->ids++;

    CCL_TRY(ccl_draw_busbw(plot, 1, &picture, err));
    page->scripted = true;
    ccl_text_printf(out, "<figure class=\"curves\" data-source=\"curves%u\">\n", id);
    CCL_TRY(ccl_i_page_picture(picture, out, err));
    ccl_text_printf(out,
                    "</figure>\n<script type=\"application/json\" id=\"curves%u\">{\"title\":", id);
    ccl_i_script_string(out, plot->title);
    ccl_text_printf(out, ",\"factor\":%.9g,", plot->factor);
    values(out, "sizes", plot->sizes_bytes, plot->nsizes);
    if (plot->bound_GBps) {
        ccl_text_printf(out, ",");
        values(out, "bound", plot->bound_GBps, plot->nsizes);
    }
    ccl_text_printf(out, ",\"curves\":[");
    for (uint32_t c = 0; c < plot->ncurves; c++) {
        ccl_text_printf(out, "%s{\"name\":", c ? ",\n" : "\n");
        ccl_i_script_string(out, plot->curves[c].name);
        ccl_text_printf(out, ",");
        values(out, "busbw", plot->curves[c].values, plot->nsizes);
        ccl_text_printf(out, "}");
    }
    ccl_text_printf(out, "]}</script>\n");
    return CCL_OK;
}
