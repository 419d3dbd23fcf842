// timeout: 300
/*
 * Of every library cluster of one server type, what is exported for MSCCL++ keeps its executor's
 * rules, comes to what the collective wants, and reads back to a program that is right and takes as
 * long.
 */
#include <check.h>
#include <math.h>

#include "search/export/export.h"
#include "tests/base/nightly.h"
#include "tests/search/mscclpp_exec.h"
#include "tests/search/mscclpp_rules.h"
#include "tests/topologies/topologies.h"

enum { RESULTS = 128 }; /* ranks that the executor here has room for */
enum { NIGHTLY_RANKS = 128 };
static const size_t MOST_READ = (size_t)256 << 20; /* JSON that the library takes */

static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                              CCL_ALLTOALL};

/* Are all its servers alike, by number and model of their GPUs? */
static bool one_type(const ccl_topology_t *topo) {
    uint32_t *on = calloc(topo->nservers + 1u, sizeof *on);
    bool alike = true;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t server = topo->devices[topo->rank_device[r]].server;
        on[server == CCL_NONE ? topo->nservers : server]++;
        alike &= strcmp(ccl_model_gpu(topo, r).name, ccl_model_gpu(topo, 0).name) == 0;
    }
    for (uint32_t s = 1; s < topo->nservers; s++)
        alike &= on[s] == on[0];
    free(on);
    return alike;
}

/* Time of a program, at its protocol. */
static double time_of(const ccl_topology_t *topo, const ccl_program_t *program, double size_bytes) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    sim.size_bytes = size_bytes;
    sim.batches = 1; /* as a plan runs */
    MUST(ccl_sim_program(NULL, topo, NULL, program, &sim, &result, e));
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    return time_s;
}

static uint32_t nplans, nread, nlarge;

static void check_plan(const char *name, const ccl_topology_t *topo, const ccl_export_t *x,
                       double size_bytes) {
    ccl_text_t text = {0};
    ccl_program_t *back = NULL;
    ccl_verdict_t verdict;
    ccl_error_t err = CCL_ERROR_INIT;
    json_error_t where;
    char why[300];
    MUST(ccl_program_write_mscclpp(x->program, topo, &text, e));
    json_t *plan = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
    ck_assert_msg(plan != NULL, "%s: %d: %s", name, where.line, where.text);
    ck_assert_msg(keeps_rules(plan, ccl_model_gpu(topo, 0).sms, size_bytes, why), "%s %s: %s", name,
                  x->program->origin, why);
    if (topo->nranks <= RESULTS)
        ck_assert_msg(comes_right(plan, x->program->coll, false), "%s %s: wrong", name,
                      x->program->origin);
    nplans++;
    json_decref(plan);
    if (text.len > MOST_READ) {
        ccl_text_fini(&text);
        nlarge++;
        return;
    }
    ck_assert_msg(ccl_program_read_mscclpp("plan", text.data, text.len, &back, &err) == CCL_OK,
                  "%s %s: %s", name, x->program->origin, err.text);
    MUST(ccl_program_verify(NULL, back, NULL, &verdict, e));
    ck_assert_msg(verdict.valid, "%s %s: %s", name, x->program->origin, verdict.fault.text);
    double was_s = time_of(topo, x->program, size_bytes), is_s = time_of(topo, back, size_bytes);
    ck_assert_msg(fabs(is_s - was_s) <= 0.1 * was_s, "%s %s: %g us, read back %g us", name,
                  x->program->origin, was_s * 1e6, is_s * 1e6);
    nread++;
    ccl_program_destroy(back);
    ccl_text_fini(&text);
}

static void check_kind(const char *name, const ccl_topology_t *topo, ccl_collective_kind_t kind,
                       const double *sizes, uint32_t nsizes, const char *with) {
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_space_t *space = NULL;
    ccl_tuning_t *tuning = NULL;
    uint32_t some = 0;
    char text[200];
    snprintf(text, sizeof text, "with=%s", with);
    MUST(ccl_collective_create(kind, topo->nranks, 1, 0, &want, e));
    MUST(ccl_space_create(&space, e));
    MUST(ccl_space_set(space, text, e));
    options.space = space;
    options.sizes_bytes = sizes;
    options.nsizes = nsizes;
    options.budget_runs = 8 * nsizes;
    MUST(ccl_tune(NULL, topo, want, &options, &tuning, e));
    for (int in_place = 0; in_place < 2; in_place++) {
        ccl_export_t *list = NULL;
        uint32_t n = 0;
        if (in_place && (kind == CCL_REDUCESCATTER || kind == CCL_ALLTOALL))
            continue;
        MUST(ccl_export_plans(NULL, topo, want, tuning, in_place, &list, &n, e));
        ck_assert_msg(n > 0, "%s: no plan of %s", name, want->name);
        for (uint32_t i = 0; i < n; i++)
            check_plan(name, topo, &list[i], tuning->sizes_bytes[tuning->runs[list[i].run].size]);
        some += n;
        ccl_exports_destroy(list, n);
    }
    ck_assert(some > 0);
    ccl_tuning_destroy(tuning);
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
}

START_TEST(library) {
    static const char *const sample[] = {"dgx-h100", "resccl-topo1", NULL};
    const char *only = getenv("CCL_PLANS_OF"); /* one cluster, by hand */
    uint32_t clusters = 0;
    for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++) {
        bool in = nightly() && !only;
        for (size_t i = 0; sample[i] && !nightly() && !only; i++)
            in |= strcmp(sample[i], e->name) == 0;
        if (!in && !(only && strcmp(only, e->name) == 0))
            continue;
        ccl_topology_t *topo = topology(e->name);
        if (one_type(topo) && (only || topo->nranks <= NIGHTLY_RANKS)) {
            clusters++;
            bool large = topo->nranks > 32;
            /* of sizes that ranks share in powers of two: by others MSCCL++ cannot divide */
            double sizes[] = {8192.0 * topo->nranks, 2097152.0 * topo->nranks};
            for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++)
                check_kind(e->name, topo, kinds[k], large || !nightly() ? sizes + 1 : sizes,
                           large || !nightly() ? 1 : 2,
                           large ? "ring,hm,nvls,direct" : "ring,hm,direct,recursive,nvls,hpds");
            printf("%s: %u GPUs, %u plans so far\n", e->name, topo->nranks, nplans);
            fflush(stdout);
        }
        ccl_topology_destroy(topo);
    }
    printf("%u clusters, %u plans keep the rules, %u read back, %u too large to be read\n", clusters,
           nplans, nread, nlarge);
    ck_assert(clusters >= 1 && nplans >= 4 && nread + nlarge == nplans && nlarge * 2 <= nplans);
}
END_TEST

int main(void) {
    Suite *s = suite_create("plans");
    TCase *t = tcase_create("plans");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, library);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    clear();
    return failed ? 1 : 0;
}
