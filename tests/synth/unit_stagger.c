/* Broadcast and Reduce of `packing` along stars and chains in staggered pieces. */
#include "tests/base/main.h"
#include "tests/synth/common.h"

static const struct {
    const char *spec, *edit; /* NULL: as it is */
    ccl_collective_kind_t kind;
    double size_bytes;
    uint32_t stagger;
    const char *origin;
    double less; /* than this part of what `ring` takes, both with Simple */
} cases[] = {
    {"dgx-a100", NULL, CCL_BROADCAST, 0x1p26, 4, "packing: stars, 4 of each", 0.75},
    {"dgx-a100", NULL, CCL_BROADCAST, 0x1p24, 4, "packing: stars, 4 of each", 0.75},
    {"dgx-a100", "set:blocks=30", CCL_BROADCAST, 0x1p26, 2, "packing: stars, 2 of each", 0.75},
    {"dgx1-v100", NULL, CCL_BROADCAST, 0x1p26, 4, "packing: chains, 4 of each", 0.9},
    {"mi300x-x8", NULL, CCL_REDUCE, 0x1p26, 4, "packing: chains, 4 of each", 0.9},
    {"dgx-a100*2", NULL, CCL_BROADCAST, 0x1p26, 4, "packing: stars along rails, 4 of each", 0.8},
    {"dgx-a100", NULL, CCL_BROADCAST, 0x1p22, 4, "packing: stars, 4 of each, 8 pieces", 0.75},
    {"dgx-a100", NULL, CCL_BROADCAST, 0x1p14, 0, "packing: ", 2}, /* a piece or two */
    {"dgx-a100", NULL, CCL_ALLGATHER, 0x1p26, 0, "packing: ", 2},
};

START_TEST(where_faster) {
    if (SANITIZED && _i % 3) /* choices and times alone */
        return;
    ccl_topology_t *whole = topology(cases[_i].spec);
    ccl_topology_t *topo = cases[_i].edit ? edited(whole, cases[_i].edit) : whole;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = cases[_i].size_bytes;
    ccl_schedule_t *s = synthesized("packing", topo, cases[_i].kind, &options);
    ccl_schedule_t *ring = synthesized("ring", topo, cases[_i].kind, &options);
    ck_assert_msg(s->stagger == cases[_i].stagger, "%s: %u", s->origin, s->stagger);
    ck_assert_msg(strncmp(s->origin, cases[_i].origin, strlen(cases[_i].origin)) == 0, "%s",
                  s->origin);
    ccl_way_t way = {.granularity = CCL_GRANULARITY_ALGORITHM};
    double took_s = timed_s(topo, s, options.size_bytes, way);
    double ring_s = timed_s(topo, ring, options.size_bytes, way);
    ck_assert_msg(took_s < cases[_i].less * ring_s, "%g us, ring %g us", 1e6 * took_s,
                  1e6 * ring_s);
    ccl_schedule_destroy(ring);
    ccl_schedule_destroy(s);
    if (topo != whole)
        ccl_topology_destroy(topo);
    ccl_topology_destroy(whole);
}
END_TEST

/* Where somebody says channels, chunks, or wants a schedule for other executors. */
START_TEST(asked_otherwise) {
    ccl_topology_t *topo = topology("dgx-a100");
    for (int i = 0; i < 4; i++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.size_bytes = i == 0 ? 0 : 0x1p26;
        options.channels = i == 1 ? 12 : 0;
        options.chunks = i == 2 ? 8 : 0;
        options.plain = i == 3;
        ccl_schedule_t *s = synthesized("packing", topo, CCL_BROADCAST, &options);
        ck_assert_msg(s->stagger == 0, "%d: %s", i, s->origin);
        ccl_schedule_destroy(s);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* GPUs that do not all reach each other: no stars, but trees as ever. */
START_TEST(where_no_star_can_be) {
    ccl_topology_t *topo = topology("teccl-ndv2-2x8");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 0x1p20;
    ccl_schedule_t *s = synthesized("packing", topo, _i ? CCL_REDUCE : CCL_BROADCAST, &options);
    ck_assert_msg(strstr(s->origin, "stars") == NULL, "%s", s->origin);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.stagger");
    TCase *tcase = tcase_create("stagger");
    tcase_add_loop_test(tcase, where_faster, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_test(tcase, asked_otherwise);
    tcase_add_loop_test(tcase, where_no_star_can_be, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
