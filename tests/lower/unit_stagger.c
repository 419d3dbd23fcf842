/* Broadcast and Reduce whose chunks begin with pieces of different sizes; AllReduce that ends so.
 */
#include "tests/base/main.h"
#include "tests/synth/common.h"

#include <math.h>

enum { GPUS = 4, COPIES = 3, CHUNKS = (GPUS - 1) * COPIES, PIECES = 5 };
static const double SIZE = 16.0 * 1024 * 1024;

/* Stars: the root sends each GPU a part, which that one passes on; of a Reduce the other way. */
static ccl_schedule_t *stars(ccl_collective_kind_t kind) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *out = NULL;
    bool reduce = kind == CCL_REDUCE;
    MUST(ccl_collective_create(kind, GPUS, CHUNKS, 0, &coll, e));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("stars", coll);
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        uint32_t hub = 1 + chunk % (GPUS - 1);
        for (uint32_t leaf = 0; leaf < GPUS; leaf++) {
            bool up = (leaf == 0) != reduce; /* towards the hub */
            if (leaf != hub)
                ccl_schedule_builder_add(b,
                                         (ccl_transfer_t){.src = up ? leaf : hub,
                                                          .dst = up ? hub : leaf,
                                                          .chunk = chunk,
                                                          .step = !up,
                                                          .channel = (uint16_t)(chunk / (GPUS - 1)),
                                                          .reduce = reduce});
        }
    }
    MUST(ccl_schedule_builder_finish(b, &out, e));
    out->piece_bytes = ceil(SIZE / CHUNKS / PIECES);
    out->stagger = COPIES;
    return out;
}

static ccl_program_t *lowered(const ccl_schedule_t *s, const ccl_topology_t *topo,
                              const ccl_lower_options_t *with) {
    ccl_lower_options_t options = *with;
    ccl_program_t *out = NULL;
    options.topo = topo;
    options.size_bytes = options.size_bytes > 0 ? options.size_bytes : SIZE;
    MUST(ccl_lower(NULL, s, &options, &out, e));
    check_program(out, 2, s->name);
    return out;
}

static double time_of(const ccl_program_t *p, const ccl_topology_t *topo) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *r = NULL;
    options.size_bytes = SIZE;
    MUST(ccl_sim_program(NULL, topo, NULL, p, &options, &r, e));
    double time_s = r->time_s;
    ccl_sim_result_destroy(r);
    return time_s;
}

/* The root's steps of a chunk: a part by its group, whole pieces, the rest of one. */
START_TEST(begins_by_group) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_schedule_t *s = stars(CCL_BROADCAST);
    ccl_program_t *p = lowered(s, topo, &(ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT);
    ck_assert_uint_eq(p->nchunks, CHUNKS * PIECES * COPIES);
    ck_assert_double_eq_tol(p->piece_bytes, s->piece_bytes / COPIES, 1e-9);
    uint32_t seen = 0;
    for (uint32_t t = p->rank_first_tb[0]; t < p->rank_first_tb[1]; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        const ccl_step_t *steps = &p->steps[tb->first_step];
        uint32_t group = tb->channel, at = steps[0].src_off;
        ck_assert_uint_eq(tb->nsteps, PIECES + 1);
        for (uint32_t i = 0; i <= PIECES; i++) {
            uint32_t want = i == 0 ? group + 1 : i < PIECES ? COPIES : COPIES - group - 1;
            ck_assert_int_eq(steps[i].type, want ? CCL_PRIM_S : CCL_PRIM_NOP);
            if (want == 0)
                continue;
            ck_assert_uint_eq(steps[i].count, want);
            ck_assert_uint_eq(steps[i].src_off, at);
            at += want;
        }
        seen++;
    }
    ck_assert_uint_eq(seen, CHUNKS);
    ccl_program_destroy(p);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Where overheads stand between pieces, links are busy with others' meanwhile. */
START_TEST(hides_overhead) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=150GB/s,1us model=A100");
    static const ccl_collective_kind_t kinds[] = {CCL_BROADCAST, CCL_REDUCE};
    for (size_t i = 0; i < CCL_ARRAY_LEN(kinds); i++) {
        ccl_schedule_t *s = stars(kinds[i]);
        s->piece_bytes = ceil(SIZE / CHUNKS / 48);
        ccl_program_t *with = lowered(s, topo, &(ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT);
        s->stagger = 0;
        ccl_program_t *without = lowered(s, topo, &(ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT);
        double with_s = time_of(with, topo), without_s = time_of(without, topo);
        ck_assert_msg(with_s < 0.95 * without_s, "%s: %g us, %g us without",
                      ccl_collective_kind_name(kinds[i]), 1e6 * with_s, 1e6 * without_s);
        ccl_program_destroy(with);
        ccl_program_destroy(without);
        ccl_schedule_destroy(s);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* Ways of lowering in which pieces follow each other otherwise, and messages of a single piece. */
START_TEST(others_stay) {
    static const ccl_lower_options_t INIT = CCL_LOWER_OPTIONS_INIT;
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_lower_options_t ways[6] = {INIT, INIT, INIT, INIT, INIT, INIT};
    ways[0].granularity = CCL_GRANULARITY_TASK;
    ways[1].out_of_place = true;
    ways[2].executor = CCL_EXECUTOR_MSCCL;
    ways[3].order = CCL_ORDER_HPDS_PRINTED;
    ways[4].allocation = CCL_ALLOCATE_STATE;
    ways[5].size_bytes = SIZE / PIECES;
    ccl_schedule_t *s = stars(CCL_BROADCAST);
    for (size_t i = 0; i < CCL_ARRAY_LEN(ways); i++) {
        ccl_program_t *p = lowered(s, topo, &ways[i]);
        ck_assert_msg(p->nchunks == CHUNKS, "way %zu: %u chunks", i, p->nchunks);
        ccl_program_destroy(p);
    }
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Larger messages have more pieces, up to a limit, and from there on micro-batches. */
START_TEST(large_in_batches) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *s = stars(CCL_BROADCAST);
    options.size_bytes = 64 * SIZE;
    ccl_program_t *p = lowered(s, topo, &options);
    ccl_sim_options_t run = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *r = NULL;
    ck_assert_uint_eq(p->nchunks, CHUNKS * 128 * COPIES);
    run.size_bytes = options.size_bytes;
    MUST(ccl_sim_program(NULL, topo, NULL, p, &run, &r, e));
    ck_assert_uint_eq(r->batches, 3); /* 320 pieces */
    ccl_sim_result_destroy(r);
    ccl_program_destroy(p);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Each GPU sums up a chunk and copies it to all, `joined` with the next: chunks 2 r and 2 r + 1. */
static ccl_schedule_t *allreduce(void) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *out = NULL;
    MUST(ccl_collective_create(CCL_ALLREDUCE, GPUS, 2 * GPUS, 0, &coll, e));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("sums", coll);
    for (uint32_t i = 0; i < 4 * GPUS * GPUS; i++) {
        uint32_t chunk = i % (2 * GPUS), at = chunk / 2, other = i / (2 * GPUS) % GPUS;
        bool up = i < 2 * GPUS * GPUS;
        if (other != at)
            ccl_schedule_builder_add(b, (ccl_transfer_t){.src = up ? other : at,
                                                         .dst = up ? at : other,
                                                         .chunk = chunk,
                                                         .step = !up,
                                                         .channel = !up,
                                                         .reduce = up});
    }
    MUST(ccl_schedule_builder_finish(b, &out, e));
    out->joined = true;
    out->piece_bytes = ceil(SIZE / (2 * GPUS) / PIECES);
    out->stagger = 2;
    return out;
}

/* Whole pieces, and four halves: of each piece, elements of all chunks lie side by side. */
START_TEST(ends_small) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us model=A100");
    ccl_schedule_t *s = allreduce();
    ccl_program_t *p = lowered(s, topo, &(ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT);
    static const uint32_t first[] = {0, 2, 4, 6, 7, 8, 9}, n[] = {2, 2, 2, 1, 1, 1, 1};
    ck_assert_uint_eq(p->nchunks, 2 * GPUS * PIECES * 2);
    uint32_t seen = 0;
    for (uint32_t t = p->rank_first_tb[0]; t < p->rank_first_tb[1]; t++) {
        const ccl_step_t *steps = &p->steps[p->tbs[t].first_step];
        if (p->tbs[t].send_peer == CCL_NONE || p->tbs[t].channel != 1)
            continue; /* not rank 0's copies of chunks 0 and 1 */
        uint32_t at = 0;
        for (uint32_t i = 0; i < p->tbs[t].nsteps; i++) {
            if (steps[i].type == CCL_PRIM_NOP)
                continue;
            ck_assert_uint_eq(steps[i].src_off, first[at] * 2 * GPUS);
            ck_assert_uint_eq(steps[i].count, 2 * n[at++]);
        }
        ck_assert_uint_eq(at, 7);
        seen++;
    }
    ck_assert_uint_eq(seen, GPUS - 1);
    double with_s = time_of(p, topo);
    ccl_program_destroy(p);
    s->stagger = 0;
    p = lowered(s, topo, &(ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT);
    ck_assert_double_lt(with_s, time_of(p, topo));
    ccl_program_destroy(p);
    s->stagger = 2;
    s->piece_bytes = SIZE / (2 * GPUS) / 2; /* two pieces stay */
    p = lowered(s, topo, &(ccl_lower_options_t)CCL_LOWER_OPTIONS_INIT);
    ck_assert_uint_eq(p->nchunks, 2 * GPUS);
    ccl_program_destroy(p);
    ccl_schedule_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

/* Files keep it, and say where it cannot be. */
START_TEST(in_files) {
    static const struct {
        const char *kind, *more, *why;
    } bad[] = {
        {"allgather", "\"piece_bytes\": 9, \"stagger\": 2", "broadcast, reduce and allreduce only"},
        {"broadcast", "\"piece_bytes\": 9, \"stagger\": 4", "4 does not divide the 6 chunks"},
        {"broadcast", "\"piece_bytes\": 9, \"stagger\": 1", "2 or more"},
        {"allreduce", "\"piece_bytes\": 9, \"stagger\": 1", "2 or more"},
        {"reduce", "\"stagger\": 2", "piece_bytes"}};
    ccl_schedule_t *s = stars(CCL_REDUCE), *again = NULL;
    ccl_text_t text = {0};
    MUST(ccl_schedule_write_json(s, &text, e));
    MUST(ccl_schedule_read_json("test", text.data, text.len, &again, e));
    ck_assert_uint_eq(again->stagger, COPIES);
    ck_assert(ccl_schedule_equal(s, again));
    again->stagger = 0;
    ck_assert(!ccl_schedule_equal(s, again));
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_schedule_t *none = NULL;
        char json[512];
        int n = snprintf(json, sizeof json,
                         "{\"format\": \"ccllab-schedule-1\", \"collective\": {\"kind\": \"%s\", "
                         "\"nranks\": 3, \"chunks_per_block\": 6}, %s, \"transfers\": []}",
                         bad[i].kind, bad[i].more);
        ck_assert_int_eq(ccl_schedule_read_json("test", json, (size_t)n, &none, &err),
                         CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, bad[i].why), "%s", err.text);
    }
    ccl_text_fini(&text);
    ccl_schedule_destroy(again);
    ccl_schedule_destroy(s);
}
END_TEST

RUN_TESTS(begins_by_group, hides_overhead, others_stay, large_in_batches, ends_small, in_files)
