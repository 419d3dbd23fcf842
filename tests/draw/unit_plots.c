/* Plots: curves, legends, axes, bars. */
#include <math.h>

#include "tests/draw/svg.h"

START_TEST(busbw) {
    static const double sizes[] = {65536, 1 << 20, 1 << 24, 1 << 30};
    double values[12][4];
    double bound[] = {10, 50, 90, 100};
    ccl_draw_curve_t curves[12];
    char names[12][16];
    ccl_draw_busbw_t plots[2];
    ccl_picture_t *picture = NULL;
    svg_t *svg;

    for (int c = 0; c < 12; c++) {
        snprintf(names[c], sizeof(names[c]), "schedule %d", c);
        for (int i = 0; i < 4; i++)
            values[c][i] = bound[i] / (c + 2);
        curves[c] = (ccl_draw_curve_t){names[c], values[c]};
    }
    values[3][1] = NAN; /* could not run: the line has a gap */
    plots[0] = (ccl_draw_busbw_t){"one", 4, 12, sizes, curves, bound, 0};
    plots[1] = (ccl_draw_busbw_t){"two, one size", 1, 2, sizes, curves, NULL, 1.5};
    ck_assert_int_eq(ccl_draw_busbw(plots, 2, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    /* The second has a twin with times. */
    ck_assert_uint_eq(svg_count(svg, "plot"), 3);
    ck_assert_uint_eq(svg_count(svg, "curve"), 12 + 2 + 2);
    ck_assert_uint_eq(svg_count(svg, "bound"), 1);
    ck_assert_uint_eq(svg_count(svg, "legend curve"), 13 + 2 + 2);
    ck_assert(svg_has(svg, "time (us)"));
    /* A logarithmic axis has no 0. */
    ck_assert_ptr_null(strstr(svg->source, ">0</text>"));
    ck_assert(svg_has(svg, "64K") && svg_has(svg, "1G") && svg_has(svg, "busbw (GB/s)"));
    ck_assert(svg_has(svg, "K, M, G are 2^10, 2^20, 2^30"));
    ck_assert(svg_has(svg, "schedule 11") && svg_has(svg, "none can be above"));
    svg_free(svg);
}
END_TEST

START_TEST(spreads) {
    static const double one[] = {100e-6, 150e-6, 150e-6, 180e-6, 200e-6};
    static const double lost[] = {120e-6, 130e-6, 140e-6, INFINITY, INFINITY};
    static const ccl_draw_spread_t two[] = {{"steady", one}, {"lossy", lost}},
                                   none = {"nobody", lost + 3};
    ccl_draw_spreads_t plots[] = {{"64M", 5, 2, two}, {"all lost", 2, 1, &none}};
    ccl_picture_t *picture = NULL;
    svg_t *svg;

    ck_assert_int_eq(ccl_draw_spreads(plots, 2, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "plot"), 2);
    ck_assert_uint_eq(svg_count(svg, "curve"), 3);
    ck_assert(svg_has(svg, "share of the samples (%)") && svg_has(svg, "time (us)"));
    ck_assert(svg_has(svg, "steady") && svg_has(svg, "all lost"));
    /* 100 to 200 us over 640 from 66: a share of 25 % is reached at 150, 386, and not before; 240
     * high from 42. */
    ck_assert_ptr_nonnull(strstr(
        svg->source, "M66 282L386 282L386 222L386 222L386 162L578 162L578 102L706 102L706 42"));
    /* Half of the samples have no time: the curve ends there. */
    ck_assert_ptr_nonnull(strstr(svg->source, "M194 282L258 282L258 222L322 222L322 162\""));
    ck_assert_ptr_nonnull(
        strstr(svg->source, "steady: 50 % by 150 us, 95 % by 200 us, 99 % by 200 us"));
    ck_assert_ptr_nonnull(strstr(svg->source, "lossy: 50 % by 140 us<"));
    svg_free(svg);
}
END_TEST

START_TEST(over_a_setting) {
    static const double x[] = {3, 10, 3000}, y[] = {1, NAN, 2.5};
    static const ccl_draw_curve_t two[] = {{"first", y}, {"second", x}};
    ccl_draw_curves_t plots[] = {{"slower", "tau (us)", "%", 3, 2, x, two},
                                 {"time", "tau (us)", "s", 1, 1, x, two}};
    ccl_picture_t *picture = NULL;
    svg_t *svg;

    ck_assert_int_eq(ccl_draw_curves(plots, 2, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "plot"), 2);
    ck_assert_uint_eq(svg_count(svg, "curve"), 2 + 1);
    ck_assert_uint_eq(svg_count(svg, "legend curve"), 2 + 1);
    ck_assert_uint_eq(svg_count(svg, "bound"), 0);
    ck_assert(svg_has(svg, "5") && svg_has(svg, "2000") && !svg_has(svg, "5000"));
    ck_assert(svg_has(svg, "tau (us)") && svg_has(svg, "%") && svg_has(svg, "slower"));
    /* 10 of [3, 3000] is log(10 / 3) / log(1000) of the field's 640 from 66; 3000 its end. */
    ck_assert_ptr_nonnull(strstr(svg->source, "177.55"));
    ck_assert_ptr_nonnull(strstr(svg->source, "706"));
    svg_free(svg);
}
END_TEST

/* The n-th circle's centre; kind 0 has circles, kind 1 squares of 6 by 6. */
static void centre(const svg_t *svg, bool circle, uint32_t n, double *x, double *y) {
    const char *at = strstr(svg->source, "class=\"point\"");

    for (uint32_t i = 0; at; i++) {
        at = strstr(at, circle ? "<circle" : "<rect");
        ck_assert_ptr_nonnull(at);
        if (i == n)
            break;
        at++;
    }
    ck_assert_int_eq(
        sscanf(strstr(at, circle ? "cx=" : "x="), circle ? "cx=\"%lf\"" : "x=\"%lf\"", x), 1);
    ck_assert_int_eq(
        sscanf(strstr(at, circle ? "cy=" : "y="), circle ? "cy=\"%lf\"" : "y=\"%lf\"", y), 1);
    *x += circle ? 0 : 3;
    *y += circle ? 0 : 3;
}

/*
 * Kinds of one size stand side by side around it, values on a logarithmic axis, all markers inside
 * of the field (x from 66 to 706, y from 42 to 362) with room for their edges; what a pixel would
 * not tell apart is left out.
 */
START_TEST(points) {
    static const char *const names[] = {"first", "second"};
    static const ccl_draw_point_t list[] = {{65536, 1, 0, "best"},   {65536, 1.0001, 0, "hidden"},
                                            {65536, 4, 0, "worst"},  {1 << 20, 2, 0, "other"},
                                            {65536, 1, 1, "beside"}, {1 << 20, 1.0001, 1, "seen"}};
    ccl_draw_points_t plot = {"tried", "time over the bound", CCL_ARRAY_LEN(list), 2, names, list};
    ccl_picture_t *picture = NULL;
    double x[3], y[3], beside_x[2], beside_y[2];
    svg_t *svg;

    ck_assert_int_eq(ccl_draw_points(&plot, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "point"), CCL_ARRAY_LEN(list) - 1);
    ck_assert_uint_eq(svg_count(svg, "bound"), 1);
    ck_assert_uint_eq(svg_count(svg, "legend kind"), 2);
    ck_assert_ptr_null(strstr(svg->source, "hidden"));
    ck_assert_ptr_nonnull(strstr(svg->source, "seen"));
    ck_assert(svg_has(svg, "64K") && svg_has(svg, "1M") && svg_has(svg, "time over the bound"));
    for (uint32_t i = 0; i < 3; i++) {
        centre(svg, true, i, &x[i], &y[i]);
        ck_assert(x[i] - 3.4 >= 66 && x[i] + 3.4 <= 706 && y[i] - 3.4 >= 42 && y[i] + 3.4 <= 362);
    }
    for (uint32_t i = 0; i < 2; i++)
        centre(svg, false, i, &beside_x[i], &beside_y[i]);
    /* Four doublings between the sizes, half of one at each side: 66 + 640 / 10. */
    ck_assert_double_eq_tol((x[0] + beside_x[0]) / 2, 130, 0.02);
    ck_assert_double_eq_tol((x[2] + beside_x[1]) / 2, 130 + 4 * 128, 0.02);
    ck_assert_double_eq_tol(beside_x[0] - x[0], 7, 0.02);
    ck_assert_double_eq_tol(x[0], x[1], 0.02);
    ck_assert_double_eq_tol(y[0], beside_y[0], 0.02);
    ck_assert_double_eq_tol(y[0] - y[2], y[2] - y[1], 0.02); /* 1, 2, 4 */
    svg_free(svg);

    /* One point at its bound: the axes still have a length. */
    plot.n = plot.nkinds = 1;
    ck_assert_int_eq(ccl_draw_points(&plot, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    centre(svg, true, 0, &x[0], &y[0]);
    ck_assert_double_eq_tol(x[0], 66 + 320, 0.02);
    ck_assert(y[0] - 3.4 >= 42 && y[0] + 3.4 <= 362);
    svg_free(svg);
}
END_TEST

START_TEST(idle) {
    static const ccl_draw_block_t blocks[] = {{0, 0, 0, 10e-6, 4e-6, 6e-6, 0, 0},
                                              {1, 0, 0, 8e-6, 8e-6, 0, 0, 0},
                                              {1, 1, 1e-6, 9e-6, 2e-6, 1e-6, 2e-6, 3e-6}};
    ccl_draw_blocks_t runs[] = {{"first", 10e-6, 3, blocks}, {"second", 5e-6, 1, blocks}};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_picture_t *picture = NULL;
    svg_t *svg;

    ck_assert_int_eq(ccl_draw_idle(runs, 2, CCL_NONE, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "run"), 2);
    ck_assert_uint_eq(svg_count(svg, "block"), 2 + 1);
    ck_assert_uint_eq(svg_count(svg, "legend state"), 4);
    /* Of GPU 1, which has the most blocks: 0 and 6/8. */
    ck_assert(svg_has(svg, "GPU 1: 2 thread blocks, idle 37.5 % of their life on average, the "
                           "idlest 75 %"));
    ck_assert(svg_has(svg, "GPU 0: 1 thread blocks, idle 60 %"));
    ck_assert_ptr_nonnull(strstr(svg->source, "block 1: busy 2 us, waits for data 1 us, for a "
                                              "block 2 us, for a slot 3 us"));
    svg_free(svg);
    ck_assert_int_eq(ccl_draw_idle(runs, 2, 1, &picture, &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "second: no thread blocks of that rank");
}
END_TEST

START_TEST(explanation) {
    static const ccl_draw_piece_t causes[] = {{"bytes on a link, net", CCL_PATH_LINK, 60e-6},
                                              {"latency of links, net", CCL_PATH_LATENCY, 30e-6},
                                              {"launch", CCL_PATH_LAUNCH, 10e-6}};
    static const ccl_draw_piece_t waits[] = {{"the thread block was busy", CCL_PATH_BLOCK, 100e-6}};
    static const double busy[] = {0.5, 1, 0, 0.25};
    static const uint32_t on[] = {CCL_PATH_LAUNCH, CCL_PATH_LINK, CCL_PATH_LATENCY, CCL_PATH_LINK};
    ccl_draw_change_t changes[30];
    ccl_draw_explanation_t about = {"ring on two", 100e-6, 40e-6,  3,    1,  4,      30,
                                    causes,        waits,  "2 of", busy, on, 0.4375, changes};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_picture_t *picture = NULL;
    svg_t *svg;

    for (int i = 0; i < 30; i++)
        changes[i] = (ccl_draw_change_t){i % 2 ? "faster <NICs>" : "more batches",
                                         i % 2 ? CCL_DRAW_CHANGE_HARDWARE : CCL_DRAW_CHANGE_PROGRAM,
                                         (50 + 5 * i) * 1e-6};
    ck_assert_int_eq(ccl_draw_explanation(&about, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "bar"), 2);
    ck_assert_uint_eq(svg_count(svg, "piece"), 3 + 1);
    ck_assert_uint_eq(svg_count(svg, "legend piece"), 3 + 1);
    ck_assert_uint_eq(svg_count(svg, "part"), 4);
    ck_assert_uint_eq(svg_count(svg, "change"), 24);
    ck_assert_uint_eq(svg_count(svg, "mark"), 2);
    ck_assert(svg_has(svg, "bytes on a link, net: 60 us, 60 %") &&
              svg_has(svg, "the best 24 of 30"));
    ck_assert(svg_has(svg, "50 us, -50.0 %") && svg_has(svg, "110 us, +10.0 %"));
    ck_assert(svg_has(svg, "the bound 40 us") && svg_has(svg, "the run 100 us"));
    /* The first piece is six tenths of the field, and of the colour of the second part. */
    ck_assert_ptr_nonnull(strstr(svg->source, "width=\"518.4\" height=\"26\" fill=\"#0072b2\""));
    ck_assert_ptr_nonnull(strstr(svg->source, "height=\"120\" fill=\"#0072b2\""));
    svg_free(svg);
    about.nparts = about.nchanges = 0; /* no links of the bound, nothing tried */
    about.bound_s = NAN;
    ck_assert_int_eq(ccl_draw_explanation(&about, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "piece"), 4);
    ck_assert_uint_eq(svg_count(svg, "cut") + svg_count(svg, "change") + svg_count(svg, "mark"), 0);
    svg_free(svg);
    about.time_s = 0;
    ck_assert_int_eq(ccl_draw_explanation(&about, &picture, &err), CCL_ERR_INPUT);
}
END_TEST

START_TEST(progress) {
    static const ccl_draw_moment_t moments[] = {{0, 9, 4, 0, false, true},
                                                {0.5, 9, 4, 12, true, false},
                                                {0.5, 8, 4, 0, false, true},
                                                {2, 8, 8, 3, true, false}};
    ccl_draw_search_t searches[] = {{"with a solver", 4, moments}, {"without", 1, moments}};
    ccl_picture_t *picture = NULL;
    svg_t *svg;

    ck_assert_int_eq(ccl_draw_progress(searches, 2, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_eq(svg_count(svg, "search"), 2);
    ck_assert_uint_eq(svg_count(svg, "best"), 2);
    ck_assert_uint_eq(svg_count(svg, "bound"), 2);
    ck_assert_uint_eq(svg_count(svg, "moment"), 2);
    ck_assert_uint_eq(svg_count(svg, "legend line"), 5);
    ck_assert_uint_eq(svg_count(svg, "next search"), 1);
    ck_assert(svg_has(svg, "the next of 2 searches"));
    ck_assert(svg_has(svg, "time of the solver (s)"));
    ck_assert(svg_has(svg, "the solver was not needed"));
    svg_free(svg);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("draw.plots");
    TCase *tcase = tcase_create("plots");

    tcase_add_test(tcase, busbw);
    tcase_add_test(tcase, spreads);
    tcase_add_test(tcase, over_a_setting);
    tcase_add_test(tcase, points);
    tcase_add_test(tcase, idle);
    tcase_add_test(tcase, explanation);
    tcase_add_test(tcase, progress);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
