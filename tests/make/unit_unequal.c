/* AllReduce where servers are unequal: near its bound, by what `packing` does for it. */
#include "make/make.h"
#include "models/models.h"
#include "tests/synth/common.h"
#include "tests/topologies/topologies.h"

#define OTHERS " + servers:3 gpus:2 nvswitch=90GB/s nics:2x50GB/s"
#define H100 " model=H100"

static ccl_made_t made_for(const ccl_topology_t *topo, double size_bytes, bool plain) {
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_made_t made = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    synth.size_bytes = size_bytes;
    synth.plain = plain;
    ck_assert_msg(ccl_make(NULL, "packing", topo, NULL, want, &synth, NULL, true, &made, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    return made;
}

static double bound_s(const ccl_topology_t *topo, double size_bytes) {
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_bound(NULL, topo, want, NULL, &bound, &err) == CCL_OK, "%s", err.text);
    double s = ccl_bound_time_s(&bound, size_bytes);
    ccl_bound_fini(&bound);
    ccl_collective_destroy(want);
    return s;
}

/* Trees with one chunk each. */
static ccl_schedule_t *whole_trees(const ccl_topology_t *topo) {
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *out = NULL;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, NULL, want, &synth, &out, NULL), CCL_OK);
    ccl_collective_destroy(want);
    return out;
}

START_TEST(near_the_bound) {
    static const struct {
        const char *spec;
        const char *edit;
        double gap;
    } rows[] = {
        {"servers:1 gpus:2 nvswitch=90GB/s nics:2x50GB/s" OTHERS, NULL, 1.02},
        {"servers:1 gpus:2 nvswitch=90GB/s nics:2x43.75GB/s" OTHERS, NULL, 1.02},
        {"servers:1 gpus:2 nvswitch=90GB/s nics:2x25GB/s" OTHERS, NULL, 1.02},
        {"servers:1 gpus:2 nvswitch=90GB/s nics:2x12.5GB/s" OTHERS, NULL, 1.02},
        {"servers:1 gpus:2 nvswitch=90GB/s nics:2x50GB/s" OTHERS, "fail:nic:0", 1.03},
        {"servers:1 gpus:2 nvswitch=90GB/s nics:2x25GB/s" H100 OTHERS H100, NULL, 1.06},
    };
    const double size_bytes = 256 << 20;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        if (rows[i].edit) {
            ccl_topology_t *whole = topo;
            ck_assert_int_eq(ccl_topology_edit(whole, rows[i].edit, &topo, NULL), CCL_OK);
            ccl_topology_destroy(whole);
        }
        ccl_made_t made = made_for(topo, size_bytes, false);
        double least_s = bound_s(topo, size_bytes);
        ck_assert_msg(made.run->time_s <= rows[i].gap * least_s, "%s: %.4f of the bound: %s",
                      rows[i].spec, made.run->time_s / least_s, made.schedule->origin);
        ccl_made_fini(&made);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* What runs elsewhere has a rule of its own for micro-batches: then trees are cut into chunks. */
START_TEST(pieces_or_chunks) {
    ccl_topology_t *topo = topology("servers:1 gpus:2 nvswitch=90GB/s nics:2x25GB/s" OTHERS);
    ccl_made_t pieces = made_for(topo, 64 << 20, false), chunks = made_for(topo, 64 << 20, true);
    ck_assert(pieces.schedule->piece_bytes > 0 && chunks.schedule->piece_bytes == 0);
    ck_assert(pieces.program->piece_bytes == pieces.schedule->piece_bytes);
    ck_assert(pieces.run->batches > 16 && chunks.run->batches == 1);
    ck_assert(chunks.schedule->ntransfers > 4 * pieces.schedule->ntransfers);
    ck_assert(strstr(pieces.schedule->origin, "along rails"));
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    lower.executor = CCL_EXECUTOR_MSCCL;
    ck_assert_int_eq(ccl_lower(NULL, pieces.schedule, &lower, &program, NULL), CCL_OK);
    ck_assert(program->piece_bytes == 0);
    ccl_program_destroy(program);
    ccl_made_fini(&pieces);
    ccl_made_fini(&chunks);
    ccl_topology_destroy(topo);
}
END_TEST

/* Where trees share connections, chunks take turns there and pieces do not: both are tried. */
START_TEST(chunks_beside_pieces) {
    const double size_bytes = 4 << 20;
    ccl_topology_t *topo = topology("resccl-topo2");
    ccl_made_t made = made_for(topo, size_bytes, false);
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ck_assert_msg(strstr(made.schedule->origin, "chunks each"), "%s", made.schedule->origin);
    ck_assert(made.schedule->piece_bytes == 0);
    /* The same trees whole, in as many pieces. */
    ccl_program_t *program = NULL;
    ccl_sim_result_t *run = NULL;
    ccl_schedule_t *whole = whole_trees(topo);
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    lower.topo = topo;
    sim.size_bytes = size_bytes;
    for (double pieces = 2; pieces <= 32; pieces *= 2) {
        whole->piece_bytes = size_bytes / whole->coll->nchunks / pieces;
        ck_assert_int_eq(ccl_lower(NULL, whole, &lower, &program, NULL), CCL_OK);
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, NULL), CCL_OK);
        ck_assert_msg(made.run->time_s < 0.95 * run->time_s, "%g pieces: %g, %g", pieces,
                      made.run->time_s, run->time_s);
        ccl_sim_result_destroy(run);
        ccl_program_destroy(program);
    }
    ccl_schedule_destroy(whole);
    ccl_made_fini(&made);
    ccl_topology_destroy(topo);
}
END_TEST

/* Files keep it. */
START_TEST(files) {
    ccl_topology_t *topo = topology("servers:1 gpus:2 nvswitch=90GB/s nics:2x25GB/s" OTHERS);
    ccl_made_t made = made_for(topo, 64 << 20, false);
    ccl_text_t json = {0}, xml = {0};
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ck_assert_int_eq(ccl_schedule_write_json(made.schedule, &json, NULL), CCL_OK);
    ck_assert_int_eq(ccl_schedule_read_json("s", json.data, json.len, &schedule, NULL), CCL_OK);
    ck_assert(ccl_schedule_equal(schedule, made.schedule));
    ck_assert(schedule->piece_bytes == made.schedule->piece_bytes);
    ck_assert_int_eq(ccl_program_write_xml(made.program, &xml, NULL), CCL_OK);
    ck_assert_int_eq(ccl_program_read_xml("p", xml.data, xml.len, &program, NULL), CCL_OK);
    ck_assert(program->piece_bytes == made.program->piece_bytes);
    ccl_text_fini(&json);
    ccl_text_fini(&xml);
    ccl_schedule_destroy(schedule);
    ccl_program_destroy(program);
    ccl_made_fini(&made);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unequal");
    TCase *tc = tcase_create("unequal");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, near_the_bound);
    tcase_add_test(tc, pieces_or_chunks);
    tcase_add_test(tc, chunks_beside_pieces);
    tcase_add_test(tc, files);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
