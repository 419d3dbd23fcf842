/* Runs over time: rows, states against the simulator's own sums, level of detail, limits. */
#include <math.h>

#include "synth/synth.h"
#include "tests/draw/svg.h"
#include "tests/topologies/topologies.h"

typedef struct ran {
    ccl_topology_t *topo;
    ccl_program_t *program;
    ccl_sim_result_t *result;
    ccl_trace_t *trace;
} ran_t;

static ran_t ran(const char *spec, ccl_collective_kind_t kind, const char *with, double size_bytes,
                 uint32_t batches, uint64_t max_events) {
    ran_t r = {NULL, NULL, NULL, ccl_trace_create(max_events)};
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;

    r.topo = topology(spec);
    ck_assert_int_eq(ccl_collective_create(kind, r.topo->nranks, 1, 0, &coll, NULL), CCL_OK);
    ck_assert_msg(ccl_synthesize(NULL, with, r.topo, NULL, coll, NULL, &schedule, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_msg(ccl_lower(NULL, schedule, &lower, &r.program, &err) == CCL_OK, "%s", err.text);
    sim.size_bytes = size_bytes;
    sim.batches = batches;
    sim.trace = r.trace;
    ck_assert_msg(ccl_sim_program(NULL, r.topo, NULL, r.program, &sim, &r.result, &err) == CCL_OK,
                  "%s", err.text);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(coll);
    return r;
}

static void ran_free(ran_t *r) {
    ccl_sim_result_destroy(r->result);
    ccl_program_destroy(r->program);
    ccl_trace_destroy(r->trace);
    ccl_topology_destroy(r->topo);
}

static svg_t *timeline(const ran_t *r, ccl_draw_rows_t rows, bool by_chunk, uint32_t rank) {
    ccl_draw_timeline_options_t options = CCL_DRAW_TIMELINE_OPTIONS_INIT;
    ccl_picture_t *picture = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    options.rows = rows;
    options.by_chunk = by_chunk;
    options.rank = rank;
    options.unfolded = true;
    ck_assert_msg(ccl_draw_timeline(r->topo, r->program, r->result, r->trace, &options, &picture,
                                    &err) == CCL_OK,
                  "%s", err.text);
    return svg_read(picture);
}

/** Width of everything of a colour in the row-th row. */
static double drawn(const svg_t *svg, uint32_t row, const char *colour) {
    const char *at = svg->source;
    const char *end;
    double sum = 0;

    for (uint32_t i = 0; i <= row; i++) {
        at = strstr(at, "<g class=\"row\">");
        ck_assert_ptr_nonnull(at);
        at++;
    }
    end = strstr(at, "</g>");
    while ((at = strstr(at, "<path d=\"")) && at < end) {
        const char *close = strstr(at, "/>");
        const char *fill = strstr(at, colour);

        for (const char *h = at; fill && fill < close && h < close; h++)
            if (h[0] == 'h' && h[1] != '-')
                sum += atof(h + 1);
        at = close;
    }
    return sum;
}

/** Area of the light cells of the row-th row over that of a row that is light all over. */
static double light(const svg_t *svg, uint32_t row, double height) {
    const char *at = svg->source;
    double sum = 0;

    for (uint32_t i = 0; i <= row; i++)
        at = strstr(at, "<g class=\"row\">") + 1;
    const char *end = strstr(at, "</g>");
    const char *fill = strstr(at, "fill=\"#fbe3b5\"");

    if (!fill || fill > end)
        return 0;
    while (strncmp(fill, "<path", 5) != 0)
        fill--;
    for (const char *h = fill; *h != '/'; h++)
        if (h[0] == 'h' && h[1] != '-')
            sum += atof(h + 1) * atof(strchr(h, 'v') + 1);
    return sum / (1200 * height);
}

/** Share of the run that the blocks of ranks [first, end) wait. */
static double waiting(const ran_t *r, uint32_t first, uint32_t end) {
    uint32_t from = r->program->rank_first_tb[first], to = r->program->rank_first_tb[end];
    double sum_s = 0;

    for (uint32_t b = from; b < to; b++)
        sum_s += r->result->tbs[b].wait_data_s + r->result->tbs[b].wait_peer_s +
                 r->result->tbs[b].wait_slot_s;
    return sum_s / (to - from) / r->result->time_s;
}

START_TEST(states) {
    /* Two servers, so that blocks wait for data, for each other and for slots. */
    ran_t r = ran("servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail",
                  CCL_ALLREDUCE, "hm", 32 << 20, 4, 0);
    svg_t *svg = timeline(&r, CCL_DRAW_ROWS_AUTO, false, CCL_NONE);
    double per_s = 1200 / r.result->time_s;
    double waited = 0;

    ck_assert_uint_eq(svg_count(svg, "row"), r.program->ntbs);
    ck_assert_uint_eq(svg_count(svg, "legend state"), 5);
    ck_assert(svg_has(svg, "waits for data"));
    ck_assert(svg_has(svg, "time (us)") || svg_has(svg, "time (ms)"));
    for (uint32_t b = 0; b < r.program->ntbs; b++) {
        const ccl_tb_use_t *use = &r.result->tbs[b];

        /* A part of time has one colour, so a change is at most half a part out of place. */
        ck_assert_double_eq_tol(drawn(svg, b, "#0072b2"), use->busy_s * per_s, 12);
        ck_assert_double_eq_tol(drawn(svg, b, "#e69f00"), use->wait_data_s * per_s, 12);
        ck_assert_double_eq_tol(drawn(svg, b, "#cc79a7"), use->wait_peer_s * per_s, 12);
        ck_assert_double_eq_tol(drawn(svg, b, "#009e73"), use->wait_slot_s * per_s, 12);
        waited += use->wait_peer_s;
    }
    ck_assert_double_gt(waited, 0);
    svg_free(svg);
    svg = timeline(&r, CCL_DRAW_ROWS_AUTO, true, 3);
    ck_assert_uint_eq(svg_count(svg, "row"),
                      r.program->rank_first_tb[4] - r.program->rank_first_tb[3]);
    svg_free(svg);
    svg = timeline(&r, CCL_DRAW_ROWS_SERVER, false, CCL_NONE);
    ck_assert_uint_eq(svg_count(svg, "row"), 2);
    ck_assert(svg_has(svg, "light, from the top: the share that waits"));
    for (uint32_t server = 0; server < 2; server++) { /* in quarters, each at most an eighth off */
        double share = waiting(&r, 4 * server, 4 * server + 4);

        ck_assert_double_gt(share, 0.13);
        ck_assert_double_eq_tol(light(svg, server, 13), share, 0.125);
    }
    svg_free(svg);
    ran_free(&r);
}
END_TEST

START_TEST(links) {
    ran_t r = ran("servers:1 gpus:2 nvswitch=100GB/s,1us", CCL_ALLGATHER, "direct", 1 << 20, 1, 0);
    svg_t *svg = timeline(&r, CCL_DRAW_ROWS_LINK, false, CCL_NONE);
    uint32_t used = 0;
    double width = 0;

    for (uint32_t i = 0; i < r.topo->nlinks; i++)
        used += r.result->links[i].bytes > 0;
    ck_assert_uint_eq(used, 4);
    ck_assert_uint_eq(svg_count(svg, "row"), used);
    ck_assert_uint_eq(svg_count(svg, "legend heat"), 1);
    /* Alone on its way, a flow fills its links: bytes / bandwidth, in the darkest colour. */
    width = drawn(svg, 0, "#450a5c"); /* viridis at 0.975 */
    ck_assert_double_eq_tol(width, 524288 / 100e9 / r.result->time_s * 1200, 1);
    svg_free(svg);
    ran_free(&r);
}
END_TEST

START_TEST(detail) {
    /* 64 GPUs, 64 micro-batches: 129,024 transfers; rows are GPUs, the picture stays small. */
    ran_t r = ran("servers:8 gpus:8 nvswitch=180GB/s,1us nics:8x50GB/s,2us fabric=rail",
                  CCL_ALLREDUCE, "hm", 1 << 30, 16, 0);
    svg_t *svg = timeline(&r, CCL_DRAW_ROWS_AUTO, false, CCL_NONE);

    ck_assert_uint_gt(r.result->transfers, 100000);
    ck_assert_uint_eq(svg_count(svg, "row"), 64);
    ck_assert_uint_eq(svg_count(svg, "legend heat"), 1);
    ck_assert_uint_lt(svg->len, 2000000);
    svg_free(svg);
    svg = timeline(&r, CCL_DRAW_ROWS_BLOCK, false, CCL_NONE);
    ck_assert_uint_eq(svg_count(svg, "row"), r.program->ntbs);
    ck_assert_uint_lt(svg->len, 2000000);
    svg_free(svg);
    ran_free(&r);
}
END_TEST

/** Rows that look alike are one: a picture of 64 GPUs has as many rows as one of 8. */
START_TEST(folded) {
    ran_t r = ran("servers:8 gpus:8 nvswitch=180GB/s,1us nics:8x50GB/s,2us fabric=rail",
                  CCL_ALLGATHER, "hm", 16 << 20, 1, 0);
    ccl_draw_timeline_options_t options = CCL_DRAW_TIMELINE_OPTIONS_INIT;
    ccl_picture_t *picture = NULL;
    char told[80];
    svg_t *svg;

    ck_assert_int_eq(
        ccl_draw_timeline(r.topo, r.program, r.result, r.trace, &options, &picture, NULL), CCL_OK);
    svg = svg_read(picture);
    ck_assert_uint_gt(r.program->ntbs, 500);
    ck_assert_uint_lt(svg_count(svg, "row"), 40);
    ck_assert_uint_eq(svg_count(svg, "legend heat"), 0); /* states of blocks, not shares */
    snprintf(told, sizeof(told), "%u rows that look like one of these",
             r.program->ntbs - svg_count(svg, "row"));
    ck_assert_msg(strstr(svg->source, told) != NULL, "no \"%s\"", told);
    ck_assert(svg_has(svg, "alike)"));
    svg_free(svg);
    ran_free(&r);
}
END_TEST

/** What is done inside of servers and between them stands in rows of its own. */
START_TEST(phases) {
    ran_t r = ran("servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail",
                  CCL_ALLREDUCE, "hm", 32 << 20, 2, 0);
    svg_t *svg = timeline(&r, CCL_DRAW_ROWS_PHASE, false, CCL_NONE);

    ck_assert_uint_eq(svg_count(svg, "row"), 4);
    ck_assert(svg_has(svg, "reduces over nvlink") && svg_has(svg, "moves over nvlink"));
    ck_assert(svg_has(svg, "reduces over net") && svg_has(svg, "moves over net"));
    svg_free(svg);
    svg = timeline(&r, CCL_DRAW_ROWS_BLOCK, true, CCL_NONE);
    ck_assert(svg_has(svg, "chunk 0") || svg_has(svg, "chunks 0-1"));
    svg_free(svg);
    ran_free(&r);
}
END_TEST

START_TEST(refusals) {
    ran_t r = ran("servers:1 gpus:2 nvswitch=100GB/s,1us", CCL_ALLGATHER, "direct", 1 << 20, 1, 2);
    ccl_draw_timeline_options_t options = CCL_DRAW_TIMELINE_OPTIONS_INIT;
    ccl_picture_t *picture = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_int_eq(ccl_draw_timeline(r.topo, r.program, r.result, r.trace, NULL, &picture, &err),
                     CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "did not fit into the trace"));
    ran_free(&r);
    ccl_error_clear(&err);
    r = ran("servers:1 gpus:2 nvswitch=100GB/s,1us", CCL_ALLGATHER, "direct", 1 << 20, 1, 0);
    options.rank = 2;
    ck_assert_int_eq(
        ccl_draw_timeline(r.topo, r.program, r.result, r.trace, &options, &picture, &err),
        CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "no rank 2, the program has the ranks 0 to 1");
    ck_assert_ptr_null(picture);
    ran_free(&r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("draw.timeline");
    TCase *tcase = tcase_create("timeline");

    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, states);
    tcase_add_test(tcase, links);
    tcase_add_test(tcase, detail);
    tcase_add_test(tcase, folded);
    tcase_add_test(tcase, phases);
    tcase_add_test(tcase, refusals);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
