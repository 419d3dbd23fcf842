/*
 * Out of memory at every allocation in turn, while pictures are made and written: CCL_ERR_NOMEM and
 * nothing leaked, or a whole picture all the same. malloc and friends are wrapped by the linker.
 */
#include <stdlib.h>

#include "draw/draw.h"
#include "tests/base/failing_malloc.h"
#include "tests/base/main.h"

static ccl_topology_t *topo;

static void build(void) {
    ck_assert_int_eq(
        ccl_topology_read(NULL, "servers:40 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail",
                          &topo, NULL),
        CCL_OK);
}

static void destroy(void) {
    ccl_topology_destroy(topo);
}

static ccl_status_t draw_topology(ccl_picture_t **out, ccl_error_t *err) {
    return ccl_draw_topology(topo, NULL, out, err);
}

static ccl_status_t draw_plots(ccl_picture_t **out, ccl_error_t *err) {
    static const double sizes[] = {1024, 65536};
    static const double values[] = {1, 2};
    static const ccl_draw_curve_t curve = {"a curve", values};
    static const ccl_draw_busbw_t plot = {"a plot", 2, 1, sizes, &curve, values, 1.5};

    return ccl_draw_busbw(&plot, 1, out, err);
}

static ccl_status_t draw_idle(ccl_picture_t **out, ccl_error_t *err) {
    static const ccl_draw_block_t block = {0, 0, 0, 2e-6, 1e-6, 1e-6, 0, 0};
    static const ccl_draw_blocks_t run = {"a run", 2e-6, 1, &block};

    return ccl_draw_idle(&run, 1, CCL_NONE, out, err);
}

static ccl_status_t (*const works[])(ccl_picture_t **, ccl_error_t *) = {draw_topology, draw_plots,
                                                                         draw_idle};

static ccl_status_t written(int work, ccl_text_t *out, ccl_error_t *err) {
    ccl_picture_t *picture = NULL;
    ccl_status_t status = works[work](&picture, err);

    for (int f = CCL_DRAW_SVG; status == CCL_OK && f <= CCL_DRAW_PNG; f++)
        status = ccl_picture_write(picture, (ccl_draw_format_t)f, 0, out, err);
    ccl_picture_destroy(picture);
    return status;
}

START_TEST(every_allocation) {
    size_t whole = 0;
    long step = 1;

    for (long n = -1;; n += step) { /* the first time nothing fails */
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_text_t text = {0};
        ccl_status_t status;
        bool struck;

        fail_in = n;
        armed = n >= 0;
        status = written(_i, &text, &err);
        /* The child process that cairo runs in counts for itself. */
        struck = n >= 0 && (fail_in < 0 || status == CCL_ERR_NOMEM);
        armed = false;
        if (n < 0)
            whole = text.len;
        ck_assert_msg(status == CCL_OK || (struck && status == CCL_ERR_NOMEM),
                      "allocation %ld: %s %s", n, ccl_status_name(status), err.text);
        if (status == CCL_OK)
            ck_assert_uint_eq(text.len, whole);
        ccl_text_fini(&text);
        if (n >= 0 && !struck) {
            ck_assert_int_gt(n, 10);
            break;
        }
        step = n < 200 ? 1 : 1 + n / 40;
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 0);
    tcase_add_unchecked_fixture(cases, build, destroy);
    tcase_add_loop_test(cases, every_allocation, 0, (int)CCL_ARRAY_LEN(works));
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
