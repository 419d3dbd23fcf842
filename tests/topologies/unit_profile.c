/* Profiles: every key lands where it belongs, the rest stays; what is wrong is refused with its
 * place. */
#include "tests/topologies/topologies.h"
#include "topologies/topologies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char cluster[] =
    "{\"format\": \"ccllab-topology-1\", \"name\": \"two\", \"devices\": ["
    "{\"id\": \"a\", \"kind\": \"gpu\", \"rank\": 0, \"model\": \"X\", \"server\": \"s\"},"
    "{\"id\": \"b\", \"kind\": \"gpu\", \"rank\": 1, \"model\": \"X\", \"server\": \"s\"}],"
    "\"links\": [{\"from\": \"a\", \"to\": \"b\", \"kind\": \"nvlink\", \"bandwidth\": \"100GB/s\","
    " \"latency\": \"1us\"}],"
    "\"transports\": {\"nvlink\": {\"overhead\": \"1us\", \"latency\": \"2us\", \"slots\": 4,"
    " \"protocols\": {\"LL\": {\"tb_rate\": \"3GB/s\", \"slice\": \"8K\"}}}},"
    "\"gpu_models\": {\"X\": {\"vendor\": \"V\", \"sms\": 80, \"launch\": \"6us\","
    " \"copy_rate\": \"20GB/s\"}}}";

static const char text[] =
    "{\"format\": \"ccllab-profile-1\", \"name\": \"p\", \"source\": \"here\","
    "\"links\": {\"nvlink\": {\"efficiency\": 0.8}, \"net\": {}},"
    "\"transports\": {\"nvlink\": {\"latency\": \"3us\", \"direct\": false,"
    " \"protocols\": {\"LL\": {\"tb_rate\": \"5GB/s\"}, \"LL128\": {\"overhead\": \"0.5us\"}}},"
    " \"xgmi\": {\"slots\": 2}},"
    "\"gpu_models\": {\"X\": {\"copy_rate\": \"30GB/s\", \"protocols\": {\"LL\": {\"launch\":"
    " \"4us\"}}}, \"Y\": {\"launch\": \"1us\"}}}";

static ccl_profile_t *profile_of(const char *json) {
    ccl_profile_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_profile_read_text("p", json, strlen(json), &p, &err) == CCL_OK, "%s",
                  err.text);
    return p;
}

static ccl_topology_t *laid(const ccl_profile_t *p, const ccl_topology_t *topo) {
    ccl_topology_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_profile_apply(NULL, p, topo, &out, &err) == CCL_OK, "%s", err.text);
    return out;
}

static const ccl_transport_spec_t *spec(const ccl_topology_t *topo, const char *kind,
                                        const char *proto) {
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *s = &topo->transports[i];
        if (strcmp(s->kind, kind) == 0 && !s->protocol == !proto &&
            (!proto || strcmp(s->protocol, proto) == 0))
            return s;
    }
    ck_abort_msg("no transport %s %s", kind, proto ? proto : "");
    return NULL;
}

#define CURVES_(points_)                                                                           \
    "{\"format\": \"ccllab-profile-1\", \"name\": \"c\", \"curves\": [{\"collective\": "           \
    "\"allgather\", "                                                                              \
    "\"type\": \"half\", \"nranks\": 8, \"nhosts\": 1, \"points\": [" points_ "]}]}"

/* Between points of the same way the factor goes with the logarithm of the size. */
START_TEST(test_curves) {
    ccl_profile_t *p = profile_of(CURVES_("[1000, 2, \"ring LL\"], [4000, 1, \"ring LL128\"], "
                                          "[100000, 0.5, \"ring LL\"]"));
    const ccl_curve_t *curves = NULL, *found;
    ccl_curve_t like = {"allgather", "half", "", 8, 1, 0, NULL};
    ck_assert_uint_eq(ccl_profile_curves(p, &curves), 1);
    ck_assert_ptr_nonnull(found = ccl_curve_find(curves, 1, &like));
    ck_assert_double_eq_tol(ccl_curve_time(found, 10000, "ring LL", 1), 1, 1e-12);
    ck_assert_double_eq_tol(ccl_curve_time(found, 1e6, "ring LL", 1), 0.5, 1e-12);
    ck_assert_double_eq_tol(ccl_curve_time(found, 10, "ring LL", 1), 2, 1e-12);
    ck_assert_double_eq_tol(ccl_curve_time(found, 10, "ring LL128", 1), 1, 1e-12);
    ck_assert_double_eq_tol(ccl_curve_time(found, 2000, "tree LL", 1), sqrt(2), 1e-12);
    ck_assert_double_eq(ccl_curve_time(NULL, 2000, "tree LL", 1), 1);
    ccl_curve_t of_program = *found; /* under another protocol it is another run */
    of_program.program = "a.xml";
    ck_assert_double_eq(ccl_curve_time(&of_program, 2000, "tree LL", 1), 1);
    like.nhosts = 2;
    ck_assert_ptr_null(ccl_curve_find(curves, 1, &like));
    ccl_profile_destroy(p);
}
END_TEST

/* Where the way changes between two measured points, their times count as much as the factors. */
START_TEST(test_seam) {
    ccl_profile_t *p =
        profile_of(CURVES_("[1000, 2, \"ring LL\", 2e-6], [4000, 2, \"ring LL\", 8e-6], "
                           "[16000, 1, \"ring LL128\", 32e-6], [64000, 1, \"tree LL\"]"));
    const ccl_curve_t *curve = NULL;
    ck_assert_uint_eq(ccl_profile_curves(p, &curve), 1);
    ck_assert_double_eq_tol(ccl_curve_time(curve, 2000, "ring LL", 1e-6), 2e-6, 1e-15);
    ck_assert_double_eq_tol(ccl_curve_time(curve, 8000, "ring LL", 2e-6), 8e-6, 1e-15);
    ck_assert_double_eq_tol(ccl_curve_time(curve, 8000, "ring LL128", 1e-6), 4e-6, 1e-15);
    /* A measured size is what was measured; without a time on one side there is nothing to mix. */
    ck_assert_double_eq_tol(ccl_curve_time(curve, 4000, "ring LL", 4e-6), 8e-6, 1e-15);
    ck_assert_double_eq_tol(ccl_curve_time(curve, 32000, "tree LL", 1e-6), 1e-6, 1e-15);
    ccl_curve_t of_program = *curve;
    of_program.program = "a.xml";
    ck_assert_double_eq_tol(ccl_curve_time(&of_program, 8000, "ring LL", 2e-6), 4e-6, 1e-15);
    ccl_profile_destroy(p);
}
END_TEST

START_TEST(test_bad_curves) {
    static const char *const bad[][2] = {
        {CURVES_("[1000, 2]"), "a point is"},
        {CURVES_("[1000, 0, \"ring LL\"]"), "above 0"},
        {CURVES_("[1000, 1, \"ring LL\"], [10, 1, \"ring LL\"]"), "by size"},
        {CURVES_("[1000, 1, 7]"), "string"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_profile_t *p = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_profile_read_text("p", bad[i][0], strlen(bad[i][0]), &p, &err),
                         CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, bad[i][1]) != NULL, "%s", err.text);
        ck_assert_int_eq(err.line, 1);
    }
}
END_TEST

START_TEST(test_laid) {
    ccl_profile_t *p = profile_of(text);
    ccl_topology_t *topo = topology_of(cluster), *now = laid(p, topo);
    ck_assert_str_eq(ccl_profile_name(p), "p");
    ck_assert_str_eq(ccl_profile_source(p), "here");
    ck_assert_double_eq_tol(now->links[0].bandwidth_Bps, 80e9, 1);
    ck_assert_double_eq_tol(now->links[1].bandwidth_Bps, 80e9, 1);
    ck_assert_double_eq_tol(now->links[0].latency_s, 1e-6, 1e-18);
    const ccl_transport_spec_t *all = spec(now, "nvlink", NULL), *ll = spec(now, "nvlink", "LL");
    ck_assert_double_eq_tol(all->value.overhead_s, 1e-6, 1e-18); /* kept */
    ck_assert_double_eq_tol(all->value.latency_s, 3e-6, 1e-18);  /* replaced */
    ck_assert_uint_eq(all->value.slots, 4);
    ck_assert((all->given & CCL_TRANSPORT_DIRECT) && !all->value.direct); /* added */
    ck_assert_double_eq_tol(ll->value.tb_rate_Bps, 5e9, 1);
    ck_assert_double_eq(ll->value.slice_bytes, 8192);
    ck_assert_double_eq_tol(spec(now, "nvlink", "LL128")->value.overhead_s, 0.5e-6, 1e-18);
    ck_assert_uint_eq(spec(now, "xgmi", NULL)->value.slots, 2);
    ck_assert_uint_eq(now->ngpu_models, 1); /* the other model is nobody's here */
    const ccl_gpu_model_t *x = &now->gpu_models[0];
    ck_assert_double_eq_tol(x->copy_rate_Bps, 30e9, 1);
    ck_assert_double_eq_tol(x->launch_s, 6e-6, 1e-18); /* kept */
    ck_assert_uint_eq(x->launches, 1u << CCL_PROTOCOL_LL);
    ck_assert_double_eq_tol(x->protocol_launch_s[CCL_PROTOCOL_LL], 4e-6, 1e-18);
    ck_assert_uint_eq(x->sms, 80);
    ck_assert_str_eq(x->vendor, "V");
    ccl_topology_destroy(now);
    ccl_topology_destroy(topo);
    ccl_profile_destroy(p);
}
END_TEST

/* An empty profile changes nothing, in any bit. */
START_TEST(test_nothing) {
    ccl_profile_t *p = profile_of("{\"format\": \"ccllab-profile-1\", \"name\": \"empty\"}");
    ccl_topology_t *topo = topology_of(cluster), *now = laid(p, topo);
    ccl_text_t before = {0}, after = {0};
    ck_assert_int_eq(ccl_topology_write_json(topo, &before, NULL), CCL_OK);
    ck_assert_int_eq(ccl_topology_write_json(now, &after, NULL), CCL_OK);
    ck_assert_str_eq(before.data, after.data);
    ccl_text_fini(&before);
    ccl_text_fini(&after);
    ccl_topology_destroy(now);
    ccl_topology_destroy(topo);
    ccl_profile_destroy(p);
}
END_TEST

#define HEAD "{\"format\": \"ccllab-profile-1\", \"name\": \"p\""

START_TEST(test_refused) {
    static const struct {
        const char *why, *json, *text;
    } rows[] = {
        {"no profile", "{\"format\": \"ccllab-topology-1\"}", "ccllab-profile-1"},
        {"no name", "{\"format\": \"ccllab-profile-1\"}", "name"},
        {"an unknown key", HEAD ", \"transport\": {}}", "transports"},
        {"an efficiency of 0", HEAD ", \"links\": {\"nvlink\": {\"efficiency\": 0}}}", "above 0"},
        {"an efficiency of 3", HEAD ", \"links\": {\"nvlink\": {\"efficiency\": 3}}}", "at most 2"},
        {"a rate without a unit", HEAD ", \"transports\": {\"nvlink\": {\"tb_rate\": 5}}}",
         "/transports/nvlink/tb_rate"},
        {"an unknown protocol",
         HEAD ", \"transports\": {\"nvlink\": {\"protocols\": {\"LL64\": "
              "{}}}}}",
         "LL64"},
        {"a key of no GPU model", HEAD ", \"gpu_models\": {\"X\": {\"lunch\": \"1us\"}}}",
         "launch"},
        {"a negative launch",
         HEAD ", \"gpu_models\": {\"X\": {\"protocols\": {\"LL\": {\"launch\": "
              "\"-1us\"}}}}}",
         "/gpu_models/X/protocols/LL/launch"},
        {"more than launch by protocol",
         HEAD ", \"gpu_models\": {\"X\": {\"protocols\": {\"LL\": {\"sms\": 3}}}}}", "sms"},
        {"models that are no object", HEAD ", \"gpu_models\": []}", "/gpu_models"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_profile_t *p = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_profile_read_text("p", rows[i].json, strlen(rows[i].json), &p, &err) ==
                          CCL_ERR_INPUT,
                      "%s was read", rows[i].why);
        ck_assert_ptr_null(p);
        ck_assert_msg(strstr(err.text, rows[i].text) != NULL, "%s: %s", rows[i].why, err.text);
    }
    ccl_profile_t *p = profile_of(HEAD ", \"gpu_models\": {\"Z\": {\"launch\": \"1us\"}}}");
    ccl_topology_t *topo = topology_of(cluster), *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_profile_apply(NULL, p, topo, &out, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "GPU model \"Z\"") != NULL, "%s", err.text);
    ck_assert_ptr_null(out);
    ccl_topology_destroy(topo);
    ccl_profile_destroy(p);
}
END_TEST

/* Each built-in profile reads, says where it is from, and fits a server of the library. */
START_TEST(test_library) {
    uint32_t n = 0;
    for (const ccl_profile_entry_t *e = ccl_profile_library(); e->name; e++, n++) {
        ccl_profile_t *p = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        uint32_t fits = 0;
        ck_assert_msg(ccl_profile_read(e->name, &p, &err) == CCL_OK, "%s", err.text);
        ck_assert_str_eq(ccl_profile_name(p), e->name);
        ck_assert_uint_gt(strlen(ccl_profile_source(p)), 20);
        ck_assert_uint_gt(strlen(e->summary), 10);
        /* By a command; the network of nccl-polaris was by hand, and servers name it. */
        ck_assert_int_eq(ccl_profile_is_fitted(p),
                         strncmp(e->name, "net-", 4) != 0 && strcmp(e->name, "nccl-polaris") != 0);
        for (const ccl_library_entry_t *s = ccl_topology_library(); s->name; s++) {
            ccl_topology_t *topo = NULL, *out = NULL;
            ccl_error_t why = CCL_ERROR_INIT;
            if (!s->is_server)
                continue;
            ck_assert_int_eq(ccl_topology_read(NULL, s->name, &topo, &why), CCL_OK);
            fits += ccl_profile_apply(NULL, p, topo, &out, &why) == CCL_OK;
            ccl_topology_destroy(out);
            ccl_topology_destroy(topo);
        }
        ck_assert_msg(fits > 0, "%s fits no server", e->name);
        ccl_profile_destroy(p);
    }
    ck_assert_uint_eq(n, 11);
    ccl_profile_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_profile_read("nccl-h10", &p, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "nccl-h100") != NULL, "%s", err.text);
}
END_TEST

/* The library's profile of a cluster: fitted, of all its GPU models, with constants of its links.
 */
START_TEST(test_default) {
    static const struct {
        const char *cluster, *profile; /* NULL: none */
    } rows[] = {{"dgx-h100", "nccl-h100"},
                {"syccl-a100-32", "nccl-a100"},
                {"forestcoll-mi250-2x16", "rccl-mi250"},
                {"mi300x-x8", "msccl-mi300x"},  /* it has no constants of links */
                {"polaris-x4", "nccl-polaris"}, /* its server names it */
                {"polaris-x4*2", "nccl-polaris"},
                {"polaris-x4*1+perlmutter-x4*1", "nccl-polaris"}, /* both name it */
                {"polaris-x4*1+a100-x4-4nic*1", "nccl-a100"},     /* they do not agree */
                {"h20-x8", NULL},
                {"hetccl-pku-a800+hw1", NULL}, /* net-nccl was not fitted by a command */
                {"servers:1 gpus:4 nvswitch=300GB/s,1us model=A100", "nccl-a100"},
                {"servers:1 gpus:4 pcie=25GB/s,1us model=A100", NULL}, /* none of its links */
                {"servers:1 gpus:4 nvswitch=300GB/s,1us", NULL}};      /* no model */
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = NULL, *now = NULL;
        ccl_profile_t *p = NULL, *again = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_topology_read(NULL, rows[i].cluster, &topo, &err) == CCL_OK, "%s: %s",
                      rows[i].cluster, err.text);
        ck_assert_int_eq(ccl_profile_for(topo, &p, &err), CCL_OK);
        ck_assert_msg(!p == !rows[i].profile, "%s: %s", rows[i].cluster,
                      p ? ccl_profile_name(p) : "none");
        ck_assert_str_eq(topo->profile, "");
        if (p) {
            ck_assert_str_eq(ccl_profile_name(p), rows[i].profile);
            now = laid(p, topo);
            ck_assert_str_eq(now->profile, rows[i].profile);
            ck_assert_str_eq(now->profile_about, ccl_profile_summary(p));
            ck_assert_int_eq(ccl_profile_for(now, &again, &err), CCL_OK);
            ck_assert_ptr_null(again); /* it has one */
            ccl_topology_destroy(now);
        }
        ccl_profile_destroy(p);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* The profile that servers name stays with parts of the cluster, and with its explicit form. */
START_TEST(test_own) {
    ccl_topology_t *topo = NULL, *part = NULL, *edited = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_topology_read(NULL, "polaris-x4*2", &topo, &err), CCL_OK);
    ck_assert_int_eq(ccl_topology_take(topo, 4, 2, &part, &err), CCL_OK);
    ck_assert_int_eq(ccl_topology_edit(topo, "fail:gpu:7", &edited, &err), CCL_OK);
    ck_assert_str_eq(part->own_profile, "nccl-polaris");
    ck_assert_str_eq(edited->own_profile, "nccl-polaris");
    ccl_topology_destroy(edited);
    ccl_topology_destroy(part);
    ccl_topology_destroy(topo);
}
END_TEST

/* A name that the library does not have is refused where a profile is asked for; "-" is no file. */
START_TEST(test_own_unknown) {
    static const char text[] =
        "{\"format\": \"ccllab-server-1\", \"profile\": \"-\", \"devices\": ["
        "{\"id\": \"a\", \"kind\": \"gpu\"}, {\"id\": \"b\", \"kind\": \"gpu\"}], \"links\": "
        "[{\"from\": \"a\", \"to\": \"b\", \"kind\": \"nvlink\", \"bandwidth\": \"1GB/s\"}]}";
    ccl_topology_t *topo = NULL;
    ccl_profile_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read_text(NULL, "x", text, strlen(text), &topo, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_int_eq(ccl_profile_for(topo, &p, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "no file and no library profile \"-\"") != NULL, "%s", err.text);
    ccl_topology_destroy(topo);
}
END_TEST

/* One GPU of another model, and there is none for the whole. */
START_TEST(test_mixed) {
    ccl_topology_t *mixed = NULL;
    ccl_profile_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read(NULL, "dgx-a100*1+h20-x8*1", &mixed, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_int_eq(ccl_profile_for(mixed, &p, &err), CCL_OK);
    ck_assert_ptr_null(p);
    ccl_topology_destroy(mixed);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {test_curves,  test_seam,        test_bad_curves, test_laid,
                                  test_nothing, test_refused,     test_library,    test_default,
                                  test_own,     test_own_unknown, test_mixed};
    TCase *cases = tcase_create("all");
    Suite *suite = suite_create("profile");
    for (size_t i = 0; i < CCL_ARRAY_LEN(tests); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
