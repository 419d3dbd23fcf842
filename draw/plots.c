/* What thread blocks did with their time, a search's progress. */
#include "draw/canvas.h"

#include <math.h>
#include <stdlib.h>

#define LEFT 66.0
#define WIDTH 930.0

/* ---------------------------------------------------------------- thread blocks */

#define BARS_H 150.0
#define BARS_W 860.0

static uint32_t fullest_rank(const ccl_draw_blocks_t *run) {
    uint32_t best = CCL_NONE;
    uint32_t most = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->nblocks; i++) {
        n = i && run->blocks[i].rank == run->blocks[i - 1].rank ? n + 1 : 1;
        if (n > most) {
            most = n;
            best = run->blocks[i].rank;
        }
    }
    return best;
}

static void idle_run(ccl_picture_t *p, const ccl_draw_blocks_t *run, uint32_t rank, double y,
                     double per_s, double bottom) {
    static const uint32_t colours[] = {CCL_I_BLUE, CCL_I_ORANGE, CCL_I_PINK, CCL_I_GREEN};
    char title[300];
    double mean = 0;
    double most = 0;
    uint32_t n = 0;
    uint32_t at = 0;
    double pitch;

    for (uint32_t i = 0; i < run->nblocks; i++) {
        const ccl_draw_block_t *b = &run->blocks[i];
        double life = b->done_s - b->start_s;
        double idle = life > 0 ? (b->data_s + b->peer_s + b->slot_s) / life : 0;

        if (b->rank != rank)
            continue;
        n++;
        mean += idle;
        most = fmax(most, idle);
    }
    pitch = fmin(26, BARS_W / (n ? n : 1));
    ccl_i_open(p, "run", run->title);
    ccl_i_text_bold(p, 16, y + 13, 12, ANCHOR_START, CCL_I_INK, "%s",
                    ccl_i_fit(run->title, 13.5, WIDTH - 32, title, sizeof(title)));
    ccl_i_text(p, 16, y + 28, 10, ANCHOR_START, CCL_I_DIM,
               "GPU %u: %u thread blocks, idle %.3g %% of their life on average, the idlest "
               "%.3g %%; the run took %.6g us",
               rank, n, n ? 100 * mean / n : 0, 100 * most, run->time_s * 1e6);
    ccl_i_line(p, LEFT, bottom - run->time_s * per_s, LEFT + BARS_W, bottom - run->time_s * per_s,
               (ccl_i_pen_t){CCL_I_NO_COLOUR, CCL_I_INK, 0.8, 4});
    for (uint32_t i = 0; i < run->nblocks; i++) {
        const ccl_draw_block_t *b = &run->blocks[i];
        double parts[] = {b->busy_s, b->data_s, b->peer_s, b->slot_s};
        double x = LEFT + 4 + at * pitch;
        double from = bottom - b->start_s * per_s;

        if (b->rank != rank)
            continue;
        snprintf(title, sizeof(title),
                 "block %u: busy %.4g us, waits for data %.4g us, for a block %.4g us, for a slot "
                 "%.4g us",
                 b->id, b->busy_s * 1e6, b->data_s * 1e6, b->peer_s * 1e6, b->slot_s * 1e6);
        ccl_i_open(p, "block", title);
        for (int k = 0; k < 4; k++) {
            double h = parts[k] * per_s;

            if (h > 0)
                ccl_i_rect(p, x, from - h, pitch > 4 ? pitch - 2 : pitch * 0.8, h, 0,
                           ccl_i_fill(colours[k]));
            from -= h > 0 ? h : 0;
        }
        ccl_i_close(p);
        if (pitch >= 14 || at % (uint32_t)ceil(14 / pitch) == 0)
            ccl_i_text(p, x + pitch / 2 - 1, bottom + 12, 8, ANCHOR_MIDDLE, CCL_I_INK, "%u", b->id);
        at++;
    }
    ccl_i_close(p);
}

ccl_status_t ccl_draw_idle(const ccl_draw_blocks_t *runs, uint32_t nruns, uint32_t rank,
                           ccl_picture_t **out, ccl_error_t *err) {
    static const struct {
        uint32_t colour;
        const char *name;
    } legend[] = {{CCL_I_BLUE, "busy"},
                  {CCL_I_ORANGE, "waits for data"},
                  {CCL_I_PINK, "waits for a block of its GPU"},
                  {CCL_I_GREEN, "waits for a slot"}};
    double most_s = 0;
    double x = 16;
    double y = 44;
    ccl_picture_t *p;

    for (uint32_t i = 0; i < nruns; i++) {
        uint32_t there = 0;

        most_s = fmax(most_s, runs[i].time_s);
        for (uint32_t b = 0; b < runs[i].nblocks; b++)
            there += rank == CCL_NONE || runs[i].blocks[b].rank == rank;
        if (!there)
            return ccl_fail(err, CCL_ERR_INPUT, "%s: no thread blocks%s", runs[i].title,
                            rank == CCL_NONE ? "" : " of that rank");
    }
    if (!(most_s > 0))
        return ccl_fail(err, CCL_ERR_INPUT, "nothing took any time, so there is nothing to draw");
    p = ccl_i_picture_create();
    if (!p)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(legend); i++) {
        ccl_i_open(p, "legend state", NULL);
        ccl_i_rect(p, x, 12, 14, 10, 0, ccl_i_fill(legend[i].colour));
        ccl_i_text(p, x + 19, 21, 10, ANCHOR_START, CCL_I_INK, "%s", legend[i].name);
        ccl_i_close(p);
        x += 36 + ccl_i_text_width(legend[i].name, 10, false);
    }
    ccl_i_text(p, x, 21, 10, ANCHOR_START, CCL_I_DIM,
               "blank above a bar: released; dashed: the end of the run");
    for (uint32_t i = 0; i < nruns; i++) {
        double top_us = ccl_i_left_axis(p, LEFT, y + 38, BARS_W, BARS_H, most_s * 1e6, "time (us)");

        idle_run(p, &runs[i], rank == CCL_NONE ? fullest_rank(&runs[i]) : rank, y,
                 BARS_H / (top_us / 1e6), y + 38 + BARS_H);
        ccl_i_line(p, LEFT, y + 38 + BARS_H, LEFT + BARS_W, y + 38 + BARS_H,
                   ccl_i_stroke(CCL_I_INK, 1));
        ccl_i_text(p, LEFT + BARS_W / 2, y + 38 + BARS_H + 26, 11, ANCHOR_MIDDLE, CCL_I_INK,
                   "thread block");
        y += 38 + BARS_H + 44;
    }
    return ccl_i_picture_finish(p, WIDTH + 40, y, out, err);
}

/* ---------------------------------------------------------------- progress */

#define BEST_H 200.0
#define COUNT_H 110.0

static double moment_x(const ccl_draw_search_t *s, uint32_t i, bool by_time) {
    double last = by_time ? s->moments[s->nmoments - 1].at_s : s->nmoments - 1;

    if (!(last > 0))
        return LEFT;
    return LEFT + BARS_W * (by_time ? s->moments[i].at_s : i) / last;
}

/** Best (0) or bound (1): a line that holds until the next moment. */
static void steps_line(ccl_picture_t *p, const ccl_draw_search_t *s, bool by_time, bool bound,
                       double bottom, double top, ccl_i_pen_t pen) {
    ccl_i_open(p, bound ? "bound" : "best", NULL);
    for (uint32_t i = 0; i < s->nmoments; i++) {
        const ccl_draw_moment_t *m = &s->moments[i];
        double y = bottom - BEST_H * (bound ? m->bound : m->best) / top;

        if (i == 0 || m->begins)
            ccl_i_path(p, false, pen);
        ccl_i_to(p, moment_x(s, i, by_time), y);
        ccl_i_to(p, i + 1 < s->nmoments ? moment_x(s, i + 1, by_time) : LEFT + BARS_W, y);
    }
    ccl_i_close(p);
}

/** A line where another search begins, and what it means. */
static void next_searches(ccl_picture_t *p, const ccl_draw_search_t *s, bool by_time, double y) {
    ccl_i_pen_t pen = {CCL_I_NO_COLOUR, CCL_I_DIM, 0.8, 3};
    uint32_t n = 1;

    for (uint32_t i = 1; i < s->nmoments; i++) {
        if (!s->moments[i].begins)
            continue;
        n++;
        ccl_i_open(p, "next search", NULL);
        ccl_i_line(p, moment_x(s, i, by_time), y, moment_x(s, i, by_time), y + BEST_H, pen);
        ccl_i_close(p);
    }
    if (n == 1)
        return;
    ccl_i_open(p, "legend line", NULL);
    ccl_i_line(p, LEFT + 270, y - 10, LEFT + 294, y - 10, pen);
    ccl_i_text(p, LEFT + 300, y - 6.5, 10, ANCHOR_START, CCL_I_INK,
               "the next of %u searches, blocks cut otherwise", n);
    ccl_i_close(p);
}

static void progress_plot(ccl_picture_t *p, const ccl_draw_search_t *s, double y) {
    double last_s = s->moments[s->nmoments - 1].at_s;
    bool by_time = last_s > 0;
    ccl_i_pen_t best = ccl_i_stroke(CCL_I_BLUE, 2.2);
    ccl_i_pen_t bound = {CCL_I_NO_COLOUR, CCL_I_RED, 2, 6};
    double most_steps = 0;
    double most_count = 0;
    double bottom = y + BEST_H;
    double lower = bottom + 30 + COUNT_H;
    double top;

    for (uint32_t i = 0; i < s->nmoments; i++) {
        most_steps = fmax(most_steps, fmax(s->moments[i].best, s->moments[i].bound));
        most_count = fmax(most_count, s->moments[i].counterexamples);
    }
    ccl_i_open(p, "search", s->title);
    top = ccl_i_left_axis(p, LEFT, y, BARS_W, BEST_H, fmax(most_steps, 1), "steps");
    ccl_i_line(p, LEFT, bottom, LEFT + BARS_W, bottom, ccl_i_stroke(CCL_I_INK, 1));
    next_searches(p, s, by_time, y);
    steps_line(p, s, by_time, true, bottom, top, bound);
    steps_line(p, s, by_time, false, bottom, top, best);
    ccl_i_open(p, "legend line", NULL);
    ccl_i_line(p, LEFT + 10, y - 10, LEFT + 34, y - 10, best);
    ccl_i_text(p, LEFT + 40, y - 6.5, 10, ANCHOR_START, CCL_I_INK, "best schedule");
    ccl_i_close(p);
    ccl_i_open(p, "legend line", NULL);
    ccl_i_line(p, LEFT + 140, y - 10, LEFT + 164, y - 10, bound);
    ccl_i_text(p, LEFT + 170, y - 6.5, 10, ANCHOR_START, CCL_I_INK, "proven least");
    ccl_i_close(p);
    top = ccl_i_left_axis(p, LEFT, bottom + 30, BARS_W, COUNT_H, fmax(most_count, 1),
                          "counterexamples");
    for (uint32_t i = 0; i < s->nmoments; i++) {
        const ccl_draw_moment_t *m = &s->moments[i];
        double at = lower - COUNT_H * m->counterexamples / top;

        if (!m->candidate)
            continue;
        ccl_i_open(p, "moment", NULL);
        ccl_i_line(p, moment_x(s, i, by_time), lower, moment_x(s, i, by_time), at,
                   ccl_i_stroke(CCL_I_GREY, 1.2));
        ccl_i_circle(p, moment_x(s, i, by_time), at, 2.6, ccl_i_fill(CCL_I_ORANGE));
        ccl_i_close(p);
    }
    if (by_time) {
        ccl_i_time_axis(p, LEFT, lower, BARS_W, 0, last_s, "time of the solver");
    } else {
        ccl_i_line(p, LEFT, lower, LEFT + BARS_W, lower, ccl_i_stroke(CCL_I_INK, 1));
        ccl_i_text(p, LEFT + BARS_W / 2, lower + 18, 11, ANCHOR_MIDDLE, CCL_I_INK,
                   "moments of the search, in order (the solver was not needed)");
    }
    ccl_i_close(p);
}

ccl_status_t ccl_draw_progress(const ccl_draw_search_t *searches, uint32_t nsearches,
                               ccl_picture_t **out, ccl_error_t *err) {
    ccl_picture_t *p = ccl_i_picture_create();
    double y = 12;

    if (!p)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < nsearches; i++) {
        char title[300];

        ccl_i_text_bold(p, 16, y + 14, 13, ANCHOR_START, CCL_I_INK, "%s",
                        ccl_i_fit(searches[i].title, 14.5, WIDTH - 32, title, sizeof(title)));
        progress_plot(p, &searches[i], y + 48);
        y += 48 + BEST_H + 30 + COUNT_H + 54;
    }
    return ccl_i_picture_finish(p, WIDTH + 40, y, out, err);
}
