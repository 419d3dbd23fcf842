/* A step: which collectives each parallelism has, closed forms of the pipeline, memory, groups that
   share links and groups that do not; and each kind of mistake in a plan, with its place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"
#include "training/training.h"
#include "validate/nccl/nccl.h"

/* A plan "members", its estimate; *topo_out is the caller's. */
static ccl_training_result_t *estimate(const char *spec, const char *members,
                                       ccl_training_options_t options, ccl_topology_t **topo_out) {
    ccl_topology_t *topo = topology(spec);
    ccl_training_t *training = NULL;
    ccl_training_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    char text[2000];
    int len = snprintf(text, sizeof text,
                       "{\"format\": \"ccllab-training-1\", \"name\": \"t\", %s}", members);
    ck_assert_msg(ccl_training_read_text("plan", text, (size_t)len, topo, &training, &err) ==
                      CCL_OK,
                  "line %d column %d: %s", err.line, err.column, err.text);
    ck_assert_msg(ccl_training_estimate(NULL, topo, training, &options, &result, &err) == CCL_OK,
                  "%s", err.text);
    ccl_training_destroy(training);
    *topo_out = topo;
    return result;
}

#define TWO "servers:2 gpus:2 nvswitch=100GB/s nics:1x10GB/s"
static const char *const ring[] = {"ring"};

/* Table 3 of HetCCL (Seoul National University, Samsung), and what a step makes of it. */
START_TEST(test_zero) {
    static const struct {
        uint32_t zero;
        const char *names[2];
        double times[2];
    } rows[] = {{0, {"allreduce", NULL}, {1, 0}},
                {1, {"allreduce", "allgather"}, {1, 1}},
                {2, {"reducescatter", "allgather"}, {3, 1}},
                {3, {"reducescatter", "allgather"}, {3, 6}}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
        ccl_topology_t *topo;
        char plan[300];
        double data_s = 0;
        options.with = ring;
        options.nwith = 1;
        snprintf(plan, sizeof plan,
                 "\"total\": 12, \"speeds\": {\"all\": 4}, \"model\": {\"parameters\": 1e8}, "
                 "\"parallel\": {\"zero\": %u, \"passes\": 3}",
                 rows[i].zero);
        ccl_training_result_t *r = estimate(TWO, plan, options, &topo);
        for (uint32_t c = 0; c < 2 && rows[i].names[c]; c++) {
            ck_assert_uint_lt(c, r->ncollectives);
            ck_assert_str_eq(r->collectives[c].name, rows[i].names[c]);
            ck_assert_str_eq(r->collectives[c].by, "ring");
            ck_assert_double_eq(r->collectives[c].times, rows[i].times[c]);
            ck_assert_double_eq(r->collectives[c].size_bytes, 2e8);
            data_s += r->collectives[c].times * r->collectives[c].time_s;
        }
        ck_assert_uint_eq(r->ncollectives, rows[i].names[1] ? 2 : 1);
        ck_assert_double_eq_tol(r->steps[0].compute_s, 0.75, 1e-12);
        ck_assert_double_eq_tol(r->steps[0].data_s, data_s, 1e-12);
        ck_assert_double_eq_tol(r->steps[0].time_s, 0.75 + data_s, 1e-12);
        ck_assert_double_eq_tol(r->speedup, 1, 1e-12);
        ck_assert(isnan(r->efficiency));
        ccl_training_result_destroy(r);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* One group of all GPUs is the collective that `compare` times; hidden behind all of compute it
   costs what is left over. */
START_TEST(test_same_as_compare) {
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_topology_t *topo;
    ccl_training_result_t *r =
        estimate(TWO,
                 "\"total\": 4, \"speeds\": {\"all\": 50}, \"model\": {\"parameters\": 1e8}, "
                 "\"parallel\": {\"overlap\": 0.5}",
                 options, &topo);
    static const ccl_contender_t contenders[] = {
        {.name = "ring"}, {.name = "tree"}, {.name = "hm"}, {.name = "direct"}, {.name = "c2c"}};
    const double size_bytes = 2e8;
    ccl_compare_options_t compare = {.size = sizeof compare,
                                     .contenders = contenders,
                                     .ncontenders = CCL_ARRAY_LEN(contenders),
                                     .sizes_bytes = &size_bytes,
                                     .nsizes = 1,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ccl_collective_t *coll = NULL;
    ccl_comparison_t *found = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 4, 1, 0, &coll, NULL), CCL_OK);
    ck_assert_msg(ccl_compare(NULL, topo, coll, &compare, &found, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(r->ncollectives, 1);
    ck_assert_double_eq_tol(r->collectives[0].time_s, found->cells[found->winner[0]].time_s, 1e-12);
    ck_assert_str_eq(r->collectives[0].by, found->names[found->winner[0]]);
    ck_assert_double_eq_tol(r->steps[0].data_s, r->collectives[0].time_s - 0.01, 1e-12);
    ccl_comparison_destroy(found);
    ccl_collective_destroy(coll);
    ccl_training_result_destroy(r);
    ccl_topology_destroy(topo);
}
END_TEST

/* Tensor parallelism inside servers: both groups at once are as fast as one alone. Data parallelism
   across: two groups share the NIC, each gets half. */
START_TEST(test_groups) {
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_topology_t *topo, *one;
    options.with = ring;
    options.nwith = 1;
    ccl_training_result_t *r = estimate(
        TWO,
        "\"total\": 8, \"speeds\": {\"all\": 1}, \"model\": {\"parameters\": 1e9, \"layers\": 10, "
        "\"hidden\": 1000, \"sequence\": 1000}, \"parallel\": {\"tensor\": 2, \"passes\": 4}",
        options, &topo);
    /* Messages of one micro-batch: 4 a worker in 4 passes. Ring AllReduce of 2: 2 x half at 100
     * GB/s. */
    ck_assert_uint_eq(r->ncollectives, 2);
    ck_assert_str_eq(r->collectives[0].part, "tensor");
    ck_assert_uint_eq(r->collectives[0].ngroups, 2);
    ck_assert_double_eq(r->collectives[0].size_bytes, 2e6);
    ck_assert_double_eq(r->collectives[0].times, 4 * 10 * 4);
    ck_assert_double_eq_tol(r->steps[0].compute_s, 2, 1e-12);
    ck_assert_double_eq_tol(r->steps[0].tensor_s, 160 * r->collectives[0].time_s, 1e-9);
    ccl_training_result_t *alone = estimate(
        "servers:1 gpus:2 nvswitch=100GB/s",
        "\"total\": 4, \"speeds\": {\"all\": 1}, \"model\": {\"parameters\": 1e9, \"layers\": 10, "
        "\"hidden\": 1000, \"sequence\": 1000}, \"parallel\": {\"tensor\": 2, \"passes\": 4}",
        options, &one);
    ck_assert_double_eq_tol(alone->collectives[0].time_s, r->collectives[0].time_s, 1e-12);
    /* Each group moves half the parameters, 1e9 bytes, over half of 10 GB/s, both ways at once. */
    ck_assert_str_eq(r->collectives[1].part, "data");
    ck_assert_uint_eq(r->collectives[1].ngroups, 2);
    ck_assert_double_eq(r->collectives[1].size_bytes, 1e9);
    ck_assert_double_eq_tol(r->collectives[1].time_s, 0.2, 0.01);
    ccl_training_result_destroy(alone);
    ccl_training_result_destroy(r);
    ccl_topology_destroy(one);
    ccl_topology_destroy(topo);
}
END_TEST

/* What NCCL takes for a server's group is what it takes on that server alone; a synthesizer's
   program runs under the protocol that suits it, as in `compare`. */
START_TEST(test_stock_and_protocols) {
    static const char *const names[] = {"nccl", "ring"};
    for (uint32_t w = 0; w < 2; w++) {
        ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
        const double size_bytes = 1024.0 * 2048 * 2;
        ccl_topology_t *topo, *one = topology("dgx-a100");
        ccl_nccl_baseline_t nccl;
        ccl_collective_t *want = NULL;
        options.with = &names[w];
        options.nwith = 1;
        ccl_training_result_t *r =
            estimate("dgx-a100*2",
                     "\"total\": 2, \"speeds\": {\"all\": 1}, \"model\": {\"parameters\": 1e9, "
                     "\"hidden\": 1024, \"sequence\": 2048}, \"parallel\": {\"tensor\": 8}",
                     options, &topo);
        ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 8, 1, 0, &want, NULL), CCL_OK);
        ck_assert_int_eq(ccl_nccl_baselines(NULL, one, one, want, &size_bytes, 1, &nccl, NULL),
                         CCL_OK);
        ck_assert_ptr_nonnull(strstr(nccl.choice, "LL"));
        ck_assert_str_eq(r->collectives[0].by, names[w]);
        ck_assert_uint_eq(r->collectives[0].ngroups, 2);
        ck_assert_double_eq(r->collectives[0].size_bytes, size_bytes);
        ck_assert_double_eq_tol(r->collectives[0].time_s, nccl.time_s,
                                w ? 0.1 * nccl.time_s : 1e-12);
        ck_assert_str_eq(r->collectives[1].part, "data");
        ck_assert_str_eq(r->collectives[1].by, names[w]);
        ccl_collective_destroy(want);
        ccl_training_result_destroy(r);
        ccl_topology_destroy(one);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Two stages: the slower one without a pause, the other's micro-batch and both ways of a message
   beside it. */
START_TEST(test_pipeline) {
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_topology_t *topo;
    ccl_training_result_t *r =
        estimate("servers:2 gpus:1 nvswitch=100GB/s nics:1x10GB/s",
                 "\"total\": 8, \"speeds\": {\"all\": 2}, \"model\": {\"parameters\": 1e6, "
                 "\"layers\": 4, \"hidden\": 1000, \"sequence\": 5000}, \"parallel\": "
                 "{\"stages\": [{\"on\": [\"s0\"], \"layers\": 3}, {\"on\": [\"s1/gpu0\"], "
                 "\"layers\": 1}]}",
                 options, &topo);
    /* 3/4 of 8 / 2 s, and 1/4 of 1/2 s; 1e7 bytes at 10 GB/s each way. */
    ck_assert_double_eq_tol(r->steps[0].compute_s, 3.125, 1e-12);
    ck_assert_double_eq_tol(r->steps[0].pipeline_s, 0.002, 1e-4);
    ck_assert_double_eq(r->steps[0].data_s, 0);
    ck_assert_uint_eq(r->ncollectives, 2);
    ck_assert_str_eq(r->collectives[1].what, "gradients");
    ck_assert_uint_eq(r->workers[0].batches, 8);
    ck_assert_uint_eq(r->workers[1].batches, 8);
    ccl_training_result_destroy(r);
    ccl_topology_destroy(topo);
}
END_TEST

/* Two vendors: efficiency, and an equal split that is as slow as the slow ones. */
START_TEST(test_vendors) {
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_topology_t *topo;
    ccl_training_result_t *r =
        estimate("hetccl-snu", "\"total\": 96, \"speeds\": {\"NVIDIA\": 8, \"amd\": 4, \"s3\": 2}",
                 options, &topo);
    ck_assert_uint_eq(r->nsteps, 4);
    ck_assert_uint_eq(r->workers[0].batches, 9);  /* 96 * 8 / 88 = 8.7 */
    ck_assert_uint_eq(r->workers[15].batches, 2); /* 2.2 */
    ck_assert_double_eq_tol(r->steps[1].compute_s, 3, 1e-12);
    ck_assert_str_eq(r->steps[2].name, "NVIDIA");
    ck_assert_uint_eq(r->steps[2].total + r->steps[3].total, 96);
    ck_assert_double_eq_tol(r->efficiency,
                            r->steps[0].per_s / (r->steps[2].per_s + r->steps[3].per_s), 1e-12);
    ccl_training_result_destroy(r);
    ccl_topology_destroy(topo);
}
END_TEST

/* 16 bytes a parameter on one GPU; ZeRO-3 shares them; what is left holds micro-batches. */
START_TEST(test_memory) {
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_topology_t *topo;
    options.no_others = true;
    ccl_training_result_t *r = estimate(
        TWO,
        "\"total\": 10, \"speeds\": {\"all\": 1, \"s0\": 9}, \"memory\": {\"all\": \"10GB\"}, "
        "\"model\": {\"parameters\": 1e9, \"activation_bytes\": \"2GB\"}, \"parallel\": "
        "{\"zero\": 3}",
        options, &topo);
    ck_assert_uint_eq(r->workers[0].most, 3); /* 10 - 16/4 over 2 */
    ck_assert_uint_eq(r->workers[0].batches, 3);
    ck_assert_uint_eq(r->workers[3].batches, 2);
    ck_assert_uint_eq(r->nsteps, 1);
    ccl_training_result_destroy(r);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_refused) {
    static const struct {
        const char *members, *text;
    } rows[] = {
        {"\"speeds\": {\"all\": 1}", "how many micro-batches"},
        {"\"total\": 4, \"speeds\": {\"s0\": 1}", "GPU s1/gpu0 has no speed"},
        {"\"total\": 4, \"speeds\": {\"all\": 1}, \"most\": {\"all\": 0}", "room for 0"},
        {"\"total\": 4, \"speeds\": {\"all\": 1}, \"memory\": {\"all\": \"1GB\"}, \"model\": "
         "{\"parameters\": 1e9}",
         "has 1 GB of memory, but the model's states take 16 GB"},
        {"\"total\": 4, \"speeds\": {\"all\": 1}, \"model\": {\"parameters\": 1e9}, \"parallel\": "
         "{\"tensor\": 2}",
         "need the model's \"hidden\""},
        {"\"total\": 4, \"speeds\": {\"all\": 1}, \"model\": {\"parameters\": 1e9, \"hidden\": 1, "
         "\"sequence\": 1}, \"parallel\": {\"tensor\": 3}",
         "groups of 3"},
    };
    ccl_topology_t *topo = topology(TWO);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
        ccl_training_t *training = NULL;
        ccl_training_result_t *result = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        char text[600];
        int len =
            snprintf(text, sizeof text, "{\"format\": \"ccllab-training-1\", \"name\": \"t\", %s}",
                     rows[i].members);
        ck_assert_msg(ccl_training_read_text("plan", text, (size_t)len, topo, &training, &err) ==
                          CCL_OK,
                      "%s", err.text);
        ck_assert(ccl_training_estimate(NULL, topo, training, &options, &result, &err) != CCL_OK);
        ck_assert_msg(strstr(err.text, rows[i].text), "\"%s\", not \"%s\"", err.text, rows[i].text);
        ck_assert_ptr_null(result);
        ccl_training_destroy(training);
    }
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_bad_plans) {
    static const struct {
        int line;
        const char *members, *text;
    } rows[] = {
        {2, "\"sped\": {}", "did you mean"},
        {2, "\"speeds\": {\"nobody\": 1}", "\"nobody\" is nobody in"},
        {2, "\"speeds\": {\"all\": 0}", "greater than 0"},
        {3, "\"speeds\": {\n\"all\": \"4\"}", "a number"},
        {2, "\"most\": {\"all\": 1.5}", "whole"},
        {2, "\"memory\": {\"all\": \"4 cows\"}", "4 cows"},
        {2, "\"model\": {\"layers\": 4}", "/model"},
        {2, "\"model\": {\"parameters\": 0}", "greater than 0"},
        {2, "\"parallel\": {\"zero\": 4}", "3"},
        {2, "\"parallel\": {\"tensor\": 0}", "at least 1"},
        {2, "\"parallel\": {\"overlap\": 2}", "from 0 to 1"},
        {3,
         "\"model\": {\"parameters\": 1, \"layers\": 2},\n\"parallel\": {\"stages\": [{\"on\": "
         "[\"all\"], \"layers\": 3}]}",
         "the stages have 3 layers, the model 2"},
        {3,
         "\"model\": {\"parameters\": 1, \"layers\": 2},\n\"parallel\": {\"stages\": [{\"on\": "
         "[\"s0\"], \"layers\": 1}, {\"on\": [\"all\"], \"layers\": 1}]}",
         "is in an earlier stage too"},
        {3,
         "\"model\": {\"parameters\": 1, \"layers\": 2},\n\"parallel\": {\"zero\": 2, "
         "\"stages\": [{\"on\": [\"s0\"], \"layers\": 1}, {\"on\": [\"s1\"], \"layers\": 1}]}",
         "0 or 1 is wanted"},
        {2, "\"parallel\": {\"stages\": []}", "1 to 4 stages"},
    };
    ccl_topology_t *topo = topology(TWO);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_training_t *training = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        char text[600];
        int len =
            snprintf(text, sizeof text, "{\"format\": \"ccllab-training-1\", \"name\": \"t\",\n%s}",
                     rows[i].members);
        ck_assert_int_eq(ccl_training_read_text("plan", text, (size_t)len, topo, &training, &err),
                         CCL_ERR_INPUT);
        ck_assert_msg(err.line == rows[i].line && strstr(err.text, rows[i].text),
                      "line %d: \"%s\", not \"%s\"", err.line, err.text, rows[i].text);
        ck_assert_ptr_null(training);
    }
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_zero, test_same_as_compare, test_groups, test_stock_and_protocols, test_pipeline,
          test_vendors, test_memory, test_refused, test_bad_plans)
