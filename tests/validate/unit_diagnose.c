/* Verdicts on runs with one known fault each. */
#include "tests/validate/common.h"

/* Measured times: the model's own, changed by `slow` (factor) and `extra_us` on every call. */
static ccl_measured_log_t *made(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                const ccl_nccl_choice_t *forced, double slow, double extra_us) {
    ccl_predictor_t *predictor = NULL;
    ccl_text_t text = {0};
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &predictor, &err));
    ccl_text_printf(&text, "size_bytes,op,ranks,oop_us\n");
    for (double size = 1024; size <= 1073741824; size *= 4) {
        ccl_prediction_t p;
        OK(ccl_predictor_run(predictor, kind, 0, size, forced, &p, &err));
        ccl_text_printf(&text, "%.0f,%s,%u,%.6f\n", size, ccl_collective_kind_name(kind),
                        topo->nranks, p.time_s * 1e6 * slow + extra_us);
    }
    ccl_measured_log_t *log = log_of(text.data);
    ccl_text_fini(&text);
    ccl_predictor_destroy(predictor);
    return log;
}

typedef struct expected {
    const char *why, *spec;
    ccl_collective_kind_t kind;
    double slow, extra_us;
    const char *small, *large; /* part of the verdict at 1 KiB and at 1 GiB */
    ccl_limit_t limit;         /* at 1 GiB */
} expected_t;

#define RAILS "servers:2 gpus:8 nvswitch=300GB/s,0.35us nics:2x25GB/s,1.3us fabric=rail"
#define FOUR "servers:2 gpus:8 nvswitch=300GB/s,0.35us nics:4x25GB/s,1.3us fabric=rail"

static const expected_t verdicts[] = {
    {"as the model says", "dgx-h100", CCL_ALLREDUCE, 1, 0, "normal", "normal", CCL_LIMIT_LINK},
    {"one of two rails", RAILS, CCL_ALLGATHER, 2, 0, "", "half of what the NICs allow: one of two",
     CCL_LIMIT_LINK},
    {"every second NIC", FOUR, CCL_ALLGATHER, 2, 0, "",
     "half of what the NICs allow: every second rail idle (4 NICs", CCL_LIMIT_LINK},
    {"three of four", FOUR, CCL_REDUCESCATTER, 4. / 3, 0, "",
     "3/4 of what the NICs allow: 1 of 4 rails idle", CCL_LIMIT_LINK},
    {"a third of the NICs' rate", RAILS, CCL_ALLGATHER, 3.2, 0, "", "31 % of what the NICs allow",
     CCL_LIMIT_LINK},
    {"over PCIe", "dgx-h100", CCL_ALLGATHER, 20, 0, "", "no more than PCIe or shared memory",
     CCL_LIMIT_LINK},
    {"one NIC for all GPUs would be fast enough",
     "servers:2 gpus:1 nvswitch=300GB/s,0.35us "
     "nics:4x25GB/s,1.3us fabric=rail",
     CCL_ALLGATHER, 2, 0, "", "50 % of what the NICs allow: GPUDirect", CCL_LIMIT_LINK},
    {"near no share of eight NICs", "dgx-a100*2", CCL_ALLGATHER, 1 / 0.69, 0, "",
     "69 % of what the NICs allow: as much as Slingshot", CCL_LIMIT_LINK},
    {"six of eight", "dgx-a100*2", CCL_ALLGATHER, 8. / 6, 0, "", "2 of 8 rails idle",
     CCL_LIMIT_LINK},
    {"one path a message", "dgx-h100*2", CCL_SENDRECV, 2, 0, "", "normal for one path",
     CCL_LIMIT_LINK},
    {"less than a path gives", "dgx-h100*2", CCL_SENDRECV, 4, 0, "",
     "25 % of what the NICs allow: GPUDirect", CCL_LIMIT_LINK},
    {"NVLink at 60 %", "dgx-h100", CCL_ALLGATHER, 1 / 0.6, 0, "", "60 % of what nvlink allows",
     CCL_LIMIT_LINK},
    {"in the switch", "dgx-a100", CCL_ALLREDUCE, 0.7, 0, "faster than expected",
     "faster than a ring can be", CCL_LIMIT_LINK},
    {"NVLS", "dgx-h100", CCL_ALLREDUCE, 0.7, 0, "faster than expected", "faster than expected",
     CCL_LIMIT_LINK},
    {"SHARP", "dgx-h100*2", CCL_ALLREDUCE, 0.7, 0, "faster than expected",
     "faster than NVLSTree can be", CCL_LIMIT_LINK},
    {"slow launch", "dgx-h100", CCL_ALLREDUCE, 1, 20, "20 us more than launch and hops take",
     "normal", CCL_LIMIT_LINK},
};

START_TEST(test_verdicts) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(verdicts); i++) {
        const expected_t *row = &verdicts[i];
        ccl_topology_t *topo = topology(row->spec);
        ccl_measured_log_t *log = made(topo, row->kind, NULL, row->slow, row->extra_us);
        ccl_diagnosis_run_t *d = NULL;
        OK(ccl_diagnose(NULL, topo, NULL, &log->runs[0], 0, false, false, &d, &err));
        ck_assert_uint_eq(d->npoints, log->runs[0].npoints);
        const ccl_diagnosis_t *first = &d->points[0], *last = &d->points[d->npoints - 1];
        ck_assert_msg(strstr(first->verdict, row->small) != NULL, "%s, 1 KiB: %s", row->why,
                      first->verdict);
        ck_assert_msg(strstr(last->verdict, row->large) != NULL, "%s, 1 GiB: %s", row->why,
                      last->verdict);
        ck_assert_msg(last->limit == row->limit, "%s: limit %s", row->why,
                      ccl_limit_name(last->limit));
        ck_assert_int_eq(first->limit, CCL_LIMIT_LATENCY);
        if (row->extra_us == 0)
            ck_assert_double_eq_tol(last->ratio, 1 / row->slow, 1e-6);
        ck_assert(last->best.time_s <= last->expected.time_s);
        ccl_diagnosis_destroy(d);
        ccl_measured_log_destroy(log);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* A protocol forced where NCCL would not take it is named. */
START_TEST(test_forced) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_nccl_choice_t ll = {CCL_NCCL_RING, CCL_NCCL_LL, 24, 0, 0};
    ccl_measured_log_t *log = made(topo, CCL_ALLREDUCE, &ll, 1, 0);
    ccl_diagnosis_run_t *d = NULL;
    OK(ccl_diagnose(NULL, topo, NULL, &log->runs[0], 0, false, false, &d, &err));
    const ccl_diagnosis_t *last = &d->points[d->npoints - 1];
    ck_assert_msg(strstr(last->verdict, "as slow as ring with LL on 24 channels") != NULL, "%s",
                  last->verdict);
    ccl_diagnosis_destroy(d);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
}
END_TEST

/* A ring where NVLS should have been: what it took says so, or the log; not where NVLS cannot be.
 */
START_TEST(test_no_nvls) {
    static const struct {
        const char *type, *said; /* said: in the log */
        bool ring;
        double slow;
        const char *verdict;
    } rows[] = {
        {"half", "", true, 1, "as slow as ring with Simple on 24 channels; nvls takes"},
        {"half", "", false, 1, "normal"},
        {"half", "", false, 1.17, "normal"},
        {"half", "x NCCL INFO NCCL_NVLS_ENABLE set by environment to 0\n", false, 1.17,
         "was not used: NCCL had no NVLS"},
        {"half", "x NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p\n",
         false, 1.17, "was not used: NCCL had no NVLS"},
        {"half", "x NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p\n",
         false, 1.17, "normal"},
        {"int8", "", true, 1, "normal"},
    };
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_predictor_t *p = NULL;
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &p, &err));
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_nccl_choice_t ring = ccl_nccl_channels(ccl_predictor_setup(p), CCL_ALLREDUCE,
                                                   CCL_NCCL_RING, CCL_NCCL_SIMPLE, 1 << 30);
        ccl_prediction_t run;
        ccl_diagnosis_run_t *d = NULL;
        char text[600];
        OK(ccl_predictor_run(p, CCL_ALLREDUCE, 0, 1 << 30, rows[i].ring ? &ring : NULL, &run,
                             &err));
        double us = run.time_s * 1e6 * rows[i].slow;
        snprintf(text, sizeof text,
                 "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8\n%s"
                 "1073741824 1 %s sum -1 %.2f %.2f %.2f 0\n",
                 rows[i].said, rows[i].type, us, 1073.741824 / us * 1e3, 1073.741824 / us * 1750);
        ccl_measured_log_t *log = log_of(text);
        OK(ccl_diagnose(NULL, topo, NULL, &log->runs[0], 0, false, false, &d, &err));
        ck_assert_msg(strstr(d->points[0].verdict, rows[i].verdict) != NULL, "%zu: %s", i,
                      d->points[0].verdict);
        ck_assert(d->points[0].normal == (strcmp(rows[i].verdict, "normal") == 0));
        ccl_diagnosis_destroy(d);
        ccl_measured_log_destroy(log);
    }
    ccl_predictor_destroy(p);
    ccl_topology_destroy(topo);
}
END_TEST

#define TWO_(nvswitch, nics)                                                                       \
    "servers:2 gpus:8 nvswitch=" nvswitch ",0.35us nics:" nics " fabric=rail"

static const ccl_nccl_choice_t forced_ll = {CCL_NCCL_RING, CCL_NCCL_LL, 24, 0, 0};

static const struct {
    const char *why, *measured_on, *spec;
    ccl_collective_kind_t kind;
    const ccl_nccl_choice_t *forced;
    double extra_us;
    ccl_cause_kind_t cause;
    const char *verdict; /* part of the sentence */
} causes[] = {
    {"nothing", FOUR, FOUR, CCL_ALLGATHER, NULL, 0, CCL_CAUSE_HEALTHY,
     "11 of 11 sizes as expected"},
    {"two NICs of four", TWO_("300GB/s", "2x25GB/s,1.3us"), FOUR, CCL_ALLGATHER, NULL, 0,
     CCL_CAUSE_RAILS, "half of the rails idle (2 of 4 NICs a server) (probability 0."},
    {"a slow network", TWO_("300GB/s", "4x10GB/s,1.3us"), FOUR, CCL_ALLGATHER, NULL, 0,
     CCL_CAUSE_NETWORK, "the network gives 0.4"},
    {"a fast network", TWO_("300GB/s", "4x50GB/s,1.3us"), FOUR, CCL_ALLGATHER, NULL, 0,
     CCL_CAUSE_FASTER, "the cluster is faster than described"},
    {"slow NVLinks", "servers:1 gpus:8 nvswitch=100GB/s,0.35us",
     "servers:1 gpus:8 nvswitch=250GB/s,0.35us", CCL_ALLGATHER, NULL, 0, CCL_CAUSE_LINK,
     "nvlink gives 0.4"},
    {"slow NVLinks, and quick calls", "servers:1 gpus:8 nvswitch=150GB/s,0.35us",
     "servers:1 gpus:8 nvswitch=250GB/s,0.35us", CCL_ALLGATHER, NULL, -2, CCL_CAUSE_UNKNOWN,
     "allgather runs at 0.6"},
    {"a slow launch", "dgx-h100", "dgx-h100", CCL_ALLREDUCE, NULL, 25, CCL_CAUSE_LAUNCH,
     "every call costs 2"},
    {"LL", "dgx-h100", "dgx-h100", CCL_ALLREDUCE, &forced_ll, 0, CCL_CAUSE_SETTING,
     "NCCL takes ring with LL, which it would not choose"},
};
#undef TWO_

/* Runs simulated on a cluster with a fault, and diagnosed on the one without. */
START_TEST(test_causes) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(causes); i++) {
        ccl_topology_t *faulty = topology(causes[i].measured_on), *topo = topology(causes[i].spec);
        ccl_measured_log_t *log =
            made(faulty, causes[i].kind, causes[i].forced, 1, causes[i].extra_us);
        ccl_diagnosis_run_t *d = NULL;
        ccl_text_t all = {0};
        double sum = 0;
        OK(ccl_diagnose(NULL, topo, NULL, &log->runs[0], 0, false, false, &d, &err));
        ck_assert_uint_ge(d->ncauses, 1);
        const ccl_cause_t *first = &d->causes[0];
        ck_assert_msg(first->kind == causes[i].cause, "%s: %s", causes[i].why, d->verdict);
        ck_assert_msg(first->probability >= 0.5, "%s: %g", causes[i].why, first->probability);
        ck_assert_msg(strstr(d->verdict, causes[i].verdict) != NULL, "%s: %s", causes[i].why,
                      d->verdict);
        for (uint32_t c = 0; c < d->ncauses; c++) {
            sum += d->causes[c].probability;
            ck_assert_double_le(d->causes[c].probability, first->probability);
            ck_assert(d->causes[c].evidence[0] && d->causes[c].next[0]);
        }
        ck_assert(sum > 0.8 && sum < 1.000001); /* those below 0.01 are not listed */
        OK(ccl_diagnoses_verdict((const ccl_diagnosis_run_t *const *)&d, 1, &all, &err));
        ck_assert_str_eq(all.data, d->verdict);
        ccl_text_fini(&all);
        ccl_diagnosis_destroy(d);
        ccl_measured_log_destroy(log);
        ccl_topology_destroy(topo);
        ccl_topology_destroy(faulty);
    }
}
END_TEST

/* A setting that the log names makes it likelier; several runs make one sentence. */
START_TEST(test_named_setting) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_nccl_choice_t ring = {CCL_NCCL_RING, CCL_NCCL_SIMPLE, 24, 0, 0};
    ccl_measured_log_t *log = made(topo, CCL_ALLREDUCE, &ring, 1.03, 0);
    ccl_measured_setting_t said[] = {{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "simple"}};
    ccl_measured_run_t run = log->runs[0];
    double p[2] = {0};
    ccl_diagnosis_run_t *d[2];
    ccl_text_t all = {0};
    for (uint32_t k = 0; k < 2; k++) {
        run.settings = said;
        run.nsettings = k ? 2 : 0;
        OK(ccl_diagnose(NULL, topo, NULL, &run, 0, false, false, &d[k], &err));
        for (uint32_t c = 0; c < d[k]->ncauses; c++)
            if (d[k]->causes[c].kind == CCL_CAUSE_SETTING &&
                strstr(d[k]->causes[c].claim, "ring with Simple")) {
                p[k] += d[k]->causes[c].probability;
                ck_assert((strstr(d[k]->causes[c].evidence, "the log says NCCL_ALGO=Ring") !=
                           NULL) == (k == 1));
            }
    }
    ck_assert_msg(p[1] > p[0] && p[1] > 0.5, "%g without, %g with", p[0], p[1]);
    OK(ccl_diagnoses_verdict((const ccl_diagnosis_run_t *const *)d, 2, &all, &err));
    ck_assert_msg(
        strstr(all.data, "2 of 2 runs are not healthy; surest is allreduce on 8 ranks: ") ==
            all.data,
        "%s", all.data);
    ccl_text_fini(&all);
    ccl_diagnosis_destroy(d[0]);
    ccl_diagnosis_destroy(d[1]);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
}
END_TEST

/* The fastest of all algorithms and protocols, run in full. */
static ccl_prediction_t fastest(const ccl_topology_t *topo, double size_bytes) {
    ccl_predictor_t *predictor = NULL;
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &predictor, &err));
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(predictor);
    ccl_prediction_t best = {.time_s = INFINITY};
    for (int k = 0; k < CCL_NCCL_P2P * 3; k++) {
        ccl_prediction_t p;
        ccl_nccl_choice_t c = ccl_nccl_channels(setup, CCL_ALLREDUCE, (ccl_nccl_algo_t)(k / 3),
                                                (ccl_nccl_proto_t)(k % 3), size_bytes);
        if (!ccl_nccl_may(setup, CCL_ALLREDUCE, c.algo, c.proto))
            continue;
        OK(ccl_predictor_run(predictor, CCL_ALLREDUCE, 0, size_bytes, &c, &p, &err));
        best = p.time_s < best.time_s ? p : best;
    }
    ccl_predictor_destroy(predictor);
    return best;
}

/* What others would take is stopped early, or carried on from shorter messages: the best, and what
   is said, are those of runs in full, on any number of threads. */
static void check_others(const char *spec) {
    static const double sizes[] = {65536, 16777216, 67108864, 805306368};
    static const uint32_t threads[] = {1, 3};
    ccl_topology_t *topo = topology(spec);
    ccl_measured_log_t *log = log_of("size_bytes,op,ranks,oop_us\n65536,all_reduce,16,100\n"
                                     "16777216,all_reduce,16,500\n67108864,all_reduce,16,1000\n"
                                     "805306368,all_reduce,16,15000\n");
    ccl_measured_run_t run = log->runs[0];
    ccl_diagnosis_run_t *d[2];
    run.nranks = topo->nranks;
    for (int t = 0; t < 2; t++) {
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ctx.threads = threads[t];
        OK(ccl_diagnose(&ctx, topo, NULL, &run, 0, false, false, &d[t], &err));
        ck_assert_uint_eq(d[t]->npoints, 4);
    }
    for (uint32_t i = 0; i < 4; i++) {
        const ccl_diagnosis_t *a = &d[0]->points[i], *b = &d[1]->points[i];
        ccl_prediction_t best = fastest(topo, sizes[i]);
        ck_assert_msg(fabs(a->best.time_s / best.time_s - 1) < 0.02, "%s, %.0f: %g, in full %g s",
                      spec, sizes[i], a->best.time_s, best.time_s);
        ck_assert_int_eq(a->best.choice.algo, best.choice.algo);
        ck_assert_int_eq(a->best.choice.proto, best.choice.proto);
        ck_assert_double_eq(a->best.time_s, b->best.time_s);
        ck_assert_str_eq(a->verdict, b->verdict);
    }
    ccl_diagnosis_destroy(d[0]);
    ccl_diagnosis_destroy(d[1]);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
}

START_TEST(test_others) {
    check_others("a100-x4-4nic*2");
    check_others("dgx-h100");
}
END_TEST

START_TEST(test_refused) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_measured_log_t *log = log_of("op,ranks,size_bytes,oop_us\nallreduce,4,1024,3\n");
    ccl_diagnosis_run_t *d = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_diagnose(NULL, topo, NULL, &log->runs[0], 0, false, false, &d, &err),
                     CCL_ERR_INPUT);
    ck_assert_ptr_null(d);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_verdicts, test_forced, test_no_nvls, test_causes, test_named_setting, test_others,
          test_refused)
