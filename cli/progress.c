/* One line about how far long work is. */
#include "cli/command.h"

#include <math.h>
#include <string.h>

/** "45 s", "3 min", "2.5 h". */
static void duration(double s, char *out, size_t len) {
    if (s < 90)
        snprintf(out, len, "%.0f s", fmax(1, ceil(s)));
    else if (s < 90 * 60)
        snprintf(out, len, "%.0f min", s / 60);
    else
        snprintf(out, len, "%.1f h", s / 3600);
}

double ccl_i_progress_left_s(const ccl_progress_t *p, double elapsed_s) {
    if (p->total == 0 || p->done == 0 || p->done > p->total || elapsed_s < 1)
        return NAN;
    return elapsed_s * (double)(p->total - p->done) / (double)p->done;
}

void ccl_i_progress_line(const ccl_progress_t *p, double elapsed_s, size_t columns,
                         ccl_text_t *out) {
    double left_s = ccl_i_progress_left_s(p, elapsed_s);
    double rate = elapsed_s >= 1 ? (double)p->done / elapsed_s : 0;
    char time[32];
    size_t before = out->len;

    if (p->total) {
        ccl_text_printf(out, "%3.0f%% ", floor(100 * (double)p->done / (double)p->total));
        ccl_text_printf(out, "%llu of %llu", (unsigned long long)p->done,
                        (unsigned long long)p->total);
    } else {
        ccl_text_printf(out, "%llu", (unsigned long long)p->done);
    }
    if (rate > 0)
        ccl_text_printf(out,
                        rate >= 9.95  ? ", %.0f/s"
                        : rate >= 0.1 ? ", %.1f/s"
                                      : ", %.1f/min",
                        rate >= 0.1 ? rate : 60 * rate);
    duration(isfinite(left_s) ? left_s : elapsed_s, time, sizeof(time));
    if (isfinite(left_s))
        ccl_text_printf(out, ", about %s left", time);
    else if (elapsed_s >= 1)
        ccl_text_printf(out, ", %s so far", time);
    if (p->phase && p->phase[0])
        ccl_text_printf(out, ": %s", p->phase);
    if (p->best_s > 0)
        ccl_text_printf(out, "; best %.6g us", p->best_s * 1e6);
    if (p->bound_s > 0)
        ccl_text_printf(out, "; bound %.6g us", p->bound_s * 1e6);
    if (!out->nomem && columns > 4 && out->len - before > columns - 1) {
        out->len = before + columns - 4;
        ccl_text_printf(out, "...");
    }
}
