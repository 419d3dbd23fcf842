/* The explicit JSON form: every key read, every default, and what it is written back as. */
#include <check.h>
#include <math.h>

#include "topology_helpers.h"

static const char full[] =
    "{\"format\":\"ccllab-topology-1\",\"name\":\"n\",\"source\":\"s\",\"note\":\"t\",\n"
    "\"devices\":[{\"id\":\"a\",\"kind\":\"gpu\",\"server\":\"x\",\"rank\":1,\"model\":\"M\"},\n"
    "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":0,\"server\":\"x\"},\n"
    "{\"id\":\"h\",\"kind\":\"host\"},{\"id\":\"n0\",\"kind\":\"nic\"},\n"
    "{\"id\":\"w\",\"kind\":\"switch\",\"server\":\"x\"}],\n"
    "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"25GB/s\",\n"
    "  \"latency\":\"2us\",\"lanes\":2,\"contention\":0.25},\n"
    " {\"from\":\"b\",\"to\":\"w\",\"kind\":\"pcie\",\"bandwidth\":\"200Gbit/"
    "s\",\"duplex\":false},\n"
    " {\"from\":\"w\",\"to\":\"b\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\",\"duplex\":false},\n"
    " {\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"25GB/s\"}],\n"
    "\"groups\":[{\"name\":\"g\",\"links\":[[\"a\",\"b\"],[\"w\",\"b\"]],\"bandwidth\":\"30GB/"
    "s\"}],\n"
    "\"transports\":{\"nvlink\":{\"overhead\":\"1us\",\"latency\":\"3us\",\"tb_rate\":\"20GB/s\",\n"
    "  \"slice\":\"512K\",\"slices\":2,\"piece\":\"2M\",\"slots\":4,\"direct\":false,\n"
    "  \"holds_tb\":false,\"protocols\":{\"LL\":{\"tb_rate\":\"5GB/s\"},\"LL128\":{}}},\n"
    "  \"net\":{}},\n"
    "\"gpu_models\":{\"M\":{\"vendor\":\"v\",\"sms\":108,\"copy_rate\":\"100GB/s\",\n"
    "  \"reduce_rate\":\"50GB/s\",\"overhead\":\"1us\",\"flag\":\"0.5us\",\"launch\":\"5us\"}}}";

START_TEST(every_key) {
    ccl_topology_t *t = topology_of(full);
    ck_assert_str_eq(t->name, "n");
    ck_assert_str_eq(t->source, "s");
    ck_assert_str_eq(t->note, "t");
    ck_assert_uint_eq(t->ndevices, 5);
    ck_assert_uint_eq(t->rank_device[0], 1);
    ck_assert_uint_eq(t->rank_local_index[1], 1);
    ck_assert_uint_eq(t->devices[2].kind, CCL_DEVICE_HOST);
    ck_assert_uint_eq(t->devices[3].kind, CCL_DEVICE_NIC);
    ck_assert_uint_eq(t->devices[3].server, CCL_NONE);
    ck_assert_uint_eq(t->devices[4].server, 0);
    ck_assert_uint_eq(t->devices[1].model, CCL_NONE);
    /* Duplex: two directed links, the given direction first, adjacent. */
    ck_assert_uint_eq(t->nlinks, 6);
    ck_assert(t->links[0].from == 0 && t->links[0].to == 1 && t->links[1].from == 1 &&
              t->links[1].to == 0);
    ck_assert(t->links[1].bandwidth_Bps == 25e9 && t->links[1].latency_s == 2e-6 &&
              t->links[1].lanes == 2 && t->links[1].contention == 0.25);
    ck_assert(t->links[2].bandwidth_Bps == 25e9 && t->links[2].latency_s == 0 &&
              t->links[2].lanes == 1 && t->links[2].contention == 0);
    /* A pair names all links from a to b in that direction: 0 and 4, not 1 and 5. */
    ck_assert_uint_eq(t->groups[0].nlinks, 3);
    ck_assert(t->groups[0].links[0] == 0 && t->groups[0].links[1] == 3 &&
              t->groups[0].links[2] == 4);
    ck_assert(t->groups[0].bandwidth_Bps == 30e9);
    ck_assert_uint_eq(t->ntransports, 4);
    const ccl_transport_t *v = &t->transports[0].value;
    ck_assert_uint_eq(t->transports[0].given, 511);
    ck_assert(v->overhead_s == 1e-6 && v->latency_s == 3e-6 && v->tb_rate_Bps == 20e9 &&
              v->slice_bytes == 524288 && v->slices == 2 && v->piece_bytes == 2097152 &&
              v->slots == 4 && !v->direct && !v->holds_tb);
    ck_assert_str_eq(t->transports[1].protocol, "LL");
    ck_assert_uint_eq(t->transports[1].given, CCL_TRANSPORT_TB_RATE);
    ck_assert_uint_eq(t->transports[2].given, 0);
    ck_assert_str_eq(t->transports[3].kind, "net");
    const ccl_gpu_model_t *m = &t->gpu_models[0];
    ck_assert_str_eq(m->vendor, "v");
    ck_assert(m->sms == 108 && m->copy_rate_Bps == 100e9 && m->reduce_rate_Bps == 50e9 &&
              m->overhead_s == 1e-6 && m->flag_s == 0.5e-6 && m->launch_s == 5e-6);
    ccl_topology_destroy(t);
}
END_TEST

/* Where a name stands, a whole number is the name that its digits spell; written, it is a string.
 */
START_TEST(numbers_as_names) {
    static const char numbers[] =
        "{\"format\":\"ccllab-topology-1\",\"name\":7,\"devices\":["
        "{\"id\":1,\"kind\":\"gpu\",\"server\":3,\"rank\":1,\"model\":4090},"
        "{\"id\":0,\"kind\":\"gpu\",\"server\":\"3\",\"rank\":0,\"model\":\"4090\"},"
        "{\"id\":18446744073709,\"kind\":\"switch\",\"server\":4}],"
        "\"links\":[{\"from\":0,\"to\":\"1\",\"kind\":5,\"bandwidth\":\"25GB/s\"},"
        "{\"from\":1,\"to\":18446744073709,\"kind\":\"5\",\"bandwidth\":\"1GB/s\"}],"
        "\"groups\":[{\"name\":9,\"links\":[[0,1],[\"1\",\"0\"]],\"bandwidth\":\"30GB/s\"}],"
        "\"transports\":{\"5\":{\"slots\":2}},"
        "\"gpu_models\":{\"4090\":{\"vendor\":10,\"sms\":128}}}";
    ccl_topology_t *t = topology_of(numbers);
    ck_assert_str_eq(t->name, "7");
    ck_assert_str_eq(t->devices[0].id, "1"); /* a name, not a place in the list */
    ck_assert_str_eq(t->devices[1].id, "0");
    ck_assert_str_eq(t->devices[2].id, "18446744073709");
    ck_assert_uint_eq(t->nservers, 2);
    ck_assert_str_eq(t->servers[0], "3");
    ck_assert(t->devices[0].server == 0 && t->devices[1].server == 0 && t->devices[2].server == 1);
    ck_assert(t->links[0].from == 1 && t->links[0].to == 0);
    ck_assert_uint_eq(t->nkinds, 1);
    ck_assert_str_eq(t->kinds[0], "5");
    ck_assert_str_eq(t->groups[0].name, "9");
    ck_assert(t->groups[0].nlinks == 2 && t->groups[0].links[0] == 0 && t->groups[0].links[1] == 1);
    ck_assert_uint_eq(t->ngpu_models, 1);
    ck_assert_str_eq(t->gpu_models[0].name, "4090");
    ck_assert_str_eq(t->gpu_models[0].vendor, "10");
    ck_assert(t->devices[0].model == 0 && t->devices[1].model == 0);
    ccl_text_t once = {0}, twice = {0};
    MUST(ccl_topology_write_json(t, &once, e));
    ck_assert_ptr_nonnull(strstr(once.data, "\"id\": \"1\""));
    ck_assert_ptr_nonnull(strstr(once.data, "\"server\": \"3\""));
    ccl_topology_t *back = topology_of(once.data);
    MUST(ccl_topology_write_json(back, &twice, e));
    ck_assert_str_eq(once.data, twice.data);
    ccl_text_fini(&once);
    ccl_text_fini(&twice);
    ccl_topology_destroy(back);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(least_file) {
    ccl_topology_t *t = topology_of("{\"format\":\"ccllab-topology-1\",\"devices\":"
                                    "[{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0}]}");
    ck_assert_str_eq(t->name, "test");
    ck_assert_uint_eq(t->nranks, 1);
    ck_assert_uint_eq(t->nlinks, 0);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(written_form) {
    ccl_topology_t *t = topology_of(full);
    ccl_text_t out = {0};
    MUST(ccl_topology_write_json(t, &out, e));
    /* One entry for a duplex pair, two where the directions differ. */
    ck_assert_ptr_nonnull(strstr(out.data, "    {\"from\": \"a\", \"to\": \"b\", \"kind\": "
                                           "\"nvlink\", \"bandwidth\": \"25GB/s\", \"latency\": "
                                           "\"2us\", \"lanes\": 2, \"contention\": 0.25},\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\"bandwidth\": \"25GB/s\", \"duplex\": false}"));
    ck_assert_ptr_nonnull(
        strstr(out.data, "\"links\": [[\"a\", \"b\"], [\"w\", \"b\"]]")); /* each pair once */
    ck_assert_ptr_nonnull(strstr(out.data, "\"slice\": \"512K\""));
    ccl_topology_t *back = topology_of(out.data);
    const char *difference = topology_difference(t, back);
    ck_assert_msg(!difference, "%s", difference);
    ccl_topology_destroy(back);
    ccl_text_fini(&out);
    ccl_topology_destroy(t);
}
END_TEST

/* A pair names all parallel links; a group over some of them cannot be written. */
START_TEST(partial_group_is_refused) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    add_device(b, "a", CCL_DEVICE_GPU, NULL, 0);
    add_device(b, "b", CCL_DEVICE_GPU, NULL, 1);
    add_duplex(b, 0, 1, "net", 1, 0);
    add_duplex(b, 0, 1, "net", 1, 0);
    uint32_t some = 2;
    MUST(ccl_topology_builder_group(b, "g", 1, &some, 1, e));
    ccl_topology_t *t = finish(b);
    ccl_text_t out = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_topology_write_json(t, &out, &err), CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "only some"));
    ccl_text_fini(&out);
    ccl_topology_destroy(t);
}
END_TEST

static void count_warnings(ccl_log_level_t level, const char *subsystem, const char *text,
                           void *user) {
    (void)subsystem;
    if (level == CCL_LOG_WARN && strstr(text, "\"Q\""))
        ++*(int *)user;
}

START_TEST(unlisted_model_warns) {
    static const char text[] =
        "{\"format\":\"ccllab-topology-1\",\"gpu_models\":{\"M\":{}},\"devices\":[{\"id\":\"a\","
        "\"kind\":\"gpu\",\"rank\":0,\"model\":\"Q\"}]}";
    int warnings = 0;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.log = count_warnings;
    ctx.log_user = &warnings;
    ccl_topology_t *t = NULL;
    MUST(ccl_topology_read_json(&ctx, "f", text, strlen(text), &t, e));
    ck_assert_int_eq(warnings, 1);
    ck_assert(isinf(t->gpu_models[t->devices[0].model].reduce_rate_Bps));
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.topologies.json");
    TCase *tc = tcase_create("json");
    tcase_add_test(tc, every_key);
    tcase_add_test(tc, numbers_as_names);
    tcase_add_test(tc, least_file);
    tcase_add_test(tc, written_form);
    tcase_add_test(tc, partial_group_is_refused);
    tcase_add_test(tc, unlisted_model_warns);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
