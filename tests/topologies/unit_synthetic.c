/* One-liners: what each word builds, and what is refused. */
#include "tests/topologies/cluster_helpers.h"

START_TEST(switch_and_rails) {
    ccl_topology_t *t =
        topology("servers:4 gpus:8  nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail");
    ck_assert_str_eq(t->name,
                     "servers:4 gpus:8 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail");
    ck_assert_uint_eq(t->nranks, 32);
    ck_assert_uint_eq(t->nservers, 4);
    ck_assert_uint_eq(t->ngpu_models, 0);
    ck_assert_uint_eq(t->ntransports, 0);
    check_link(t, "s3/gpu7", "s3/nvswitch0", "nvlink", 300, 0.35, "half the latency each way");
    check_link(t, "s3/gpu6", "s3/nic3", "pcie", 25, 0, "GPU i has NIC i * 4 / 8");
    check_link(t, "s3/gpu5", "s3/nic2", "pcie", 25, 0, "GPU i has NIC i * 4 / 8");
    check_link(t, "s3/gpu5", "s3/nic3", "pcie", 0, 0, "and no other");
    check_link(t, "s0/nic3", "fabric/rail3", "net", 25, 1, "half the latency each way");
    ccl_routes_t *routes = ccl_routes_create(t);
    const ccl_route_t *route;
    ck_assert_msg(has_route(routes, 0, 9, &route), "GPUs 0 and 1 share a NIC and its rail");
    ck_assert_double_eq_tol(route->latency_s, 2e-6, 1e-15);
    ck_assert_msg(has_route(routes, 0, 7, &route), "inside the server");
    ck_assert_double_eq_tol(route->latency_s, 0.7e-6, 1e-15);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(shapes) {
    static const struct {
        const char *text;
        uint32_t ranks, links;
        const char *from, *to, *kind;
        double GBps, us;
        const char *why;
    } rows[] = {
        {"gpus:4 nvlink=mesh,50GB/s,0.7us", 4, 12, "s0/gpu3", "s0/gpu1", "nvlink", 50, 0.7, "mesh"},
        {"gpus:5 nvlink=ring,50GB/s", 5, 10, "s0/gpu4", "s0/gpu0", "nvlink", 50, 0, "ring"},
        {"gpus:5 nvlink=ring,50GB/s", 5, 10, "s0/gpu2", "s0/gpu4", "nvlink", 0, 0, "only a ring"},
        {"gpus:2 nvlink=ring,50GB/s", 2, 2, "s0/gpu1", "s0/gpu0", "nvlink", 50, 0,
         "a ring of two is one link"},
        {"gpus:1024 nvswitch=900GB/s nics:1024x50GB/s", 1024, 4096, "s0/gpu1023", "s0/nic1023",
         "pcie", 50, 0, "a rack and more"},
        {"gpus:8 xgmi=mesh,64GB/s", 8, 56, "s0/gpu7", "s0/gpu0", "xgmi", 64, 0, "xgmi"},
        {"gpus:4 pcie=12GB/s,1us", 4, 8, "s0/gpu2", "s0/host0", "pcie", 12, 0.5, "root complex"},
        {"gpus:4 pcie=12GB/s nics:1x25GB/s,2us servers:2", 8, 24, "s1/host0", "s1/nic0", "pcie", 25,
         0, "a NIC hangs off the root complex"},
        {"gpus:4 nvswitch=100GB/s pcie=12GB/s,1us nics:4x25GB/s", 4, 16, "s0/gpu1", "s0/nic1",
         "pcie", 12, 0.5, "with NVLink, pcie is what leads to the NIC"},
        {"gpus:2 nvswitch=100GB/s nics:4x200Gbit/s", 2, 12, "s0/gpu1", "s0/nic3", "pcie", 25, 0,
         "several NICs per GPU"},
        {"gpus:1", 1, 0, "s0/gpu0", "s0/gpu1", "pcie", 0, 0, "one GPU needs nothing"},
        {"servers:2 gpus:1 nics:1x10GB/s,4us", 2, 8, "s0/nic0", "fabric/switch", "net", 10, 2,
         "one switch is the default fabric"},
        {"servers:2 gpus:1 nics:1x10GB/s fabric=single", 2, 8, "fabric/switch", "s1/nic0", "net",
         10, 0, "named"},
        {"servers:3 gpus:1 nics:2x10GB/s fabric=rail,spine", 3, 28, "fabric/rail1", "fabric/spine0",
         "net", 30, 0, "rails joined, without oversubscription"},
        {"servers:2 gpus:1 nics:4x10GB/s fabric=rail:2", 2, 32, "s0/nic3", "fabric/rail1", "net",
         10, 0, "two rails only"},
        {"servers:4 gpus:1 nics:2x10GB/s fabric=clos:2", 4, 36, "fabric/leaf1", "fabric/spine0",
         "net", 20, 0, "two servers of 20 GB/s a leaf, halved"},
        {"servers:4 gpus:1 nics:1x10GB/s fabric=clos:1,1", 4, 24, "fabric/leaf3", "fabric/spine0",
         "net", 10, 0, "one server a leaf"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *t = topology(rows[i].text);
        ck_assert_msg(t->nranks == rows[i].ranks && t->nlinks == rows[i].links,
                      "%s: %u ranks, %u links: %s", rows[i].text, t->nranks, t->nlinks,
                      rows[i].why);
        check_link(t, rows[i].from, rows[i].to, rows[i].kind, rows[i].GBps, rows[i].us,
                   rows[i].why);
        ccl_topology_destroy(t);
    }
}
END_TEST

START_TEST(mixed_servers_and_constants) {
    static const char *const texts[] = {
        "servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s model=B reduce_rate=20GB/s + "
        "gpus:8 nvlink=mesh,25GB/s nics:4x12.5GB/s tb_rate=24GB/s overhead=1us launch=5us",
        "servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s model=B reduce_rate=20GB/s; gpus:8 "
        "nvlink=mesh,25GB/s nics:4x12.5GB/s tb_rate=24GB/s overhead=1us launch=5us",
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(texts); i++) {
        ccl_topology_t *t = topology(texts[i]);
        ck_assert_uint_eq(t->nranks, 16);
        ck_assert_uint_eq(t->nservers, 3);
        ck_assert_uint_eq(t->ngpu_models, 2);
        const ccl_gpu_model_t *first = &t->gpu_models[t->devices[t->rank_device[0]].model];
        const ccl_gpu_model_t *last = &t->gpu_models[t->devices[t->rank_device[15]].model];
        ck_assert_str_eq(first->name, "B");
        ck_assert_double_eq(first->reduce_rate_Bps, 20e9);
        ck_assert_double_eq(first->launch_s, 0);
        ck_assert_double_eq(last->launch_s, 5e-6);
        ck_assert_uint_eq(t->ntransports, 3); /* nvlink, pcie, net */
        for (uint32_t k = 0; k < t->ntransports; k++) {
            ck_assert_double_eq(t->transports[k].value.tb_rate_Bps, 24e9);
            ck_assert_double_eq(t->transports[k].value.overhead_s, 1e-6);
            bool net = strcmp(t->transports[k].kind, "net") == 0;
            ck_assert_msg(net == (t->transports[k].value.slice_bytes == 512 * 1024),
                          "%s: a NIC takes over slice by slice", t->transports[k].kind);
            ck_assert(t->transports[k].value.holds_tb == !net);
        }
        ccl_topology_destroy(t);
    }
    ccl_topology_t *t = topology("servers:2 gpus:2 nvlink=mesh,1GB/s nics:1x1GB/s contention=0.1 "
                                 "tb_rate=1GB/s slice=64K slots=4 model=A sms=10 + servers:1 "
                                 "gpus:1 nics:1x1GB/s model=A sms=10");
    ck_assert_uint_eq(t->ngpu_models, 1);
    ck_assert_uint_eq(t->gpu_models[0].sms, 10);
    ck_assert_double_eq(link_of(t, "s2/nic0", "fabric/switch")->contention, 0.1);
    ck_assert_double_eq(link_of(t, "s0/gpu0", "s0/gpu1")->contention, 0);
    ck_assert_double_eq(t->transports[0].value.slice_bytes, 65536);
    ck_assert_uint_eq(t->transports[0].value.slots, 4);
    ccl_topology_destroy(t);
}
END_TEST

/* A GPU model of the library brings what its first server has; words and other models do not mix.
 */
START_TEST(known_models) {
    ccl_topology_t *like = topology("dgx-h100");
    ccl_topology_t *t =
        topology("servers:2 gpus:4 nvswitch=450GB/s nics:4x50GB/s model=H100 sms=99");
    ck_assert_uint_eq(t->ngpu_models, 1);
    ck_assert_uint_eq(t->gpu_models[0].sms, 99);
    ck_assert_str_eq(t->gpu_models[0].vendor, "NVIDIA");
    ck_assert_double_eq(t->gpu_models[0].launch_s, like->gpu_models[0].launch_s);
    ck_assert_double_eq(t->gpu_models[0].copy_rate_Bps, like->gpu_models[0].copy_rate_Bps);
    ck_assert_ptr_nonnull(strstr(t->source, "assumed"));
    ck_assert_ptr_nonnull(strstr(t->source, "dgx-h100"));
    ck_assert_uint_eq(t->ntransports, like->ntransports);
    for (uint32_t i = 0; i < t->ntransports; i++) {
        ck_assert_str_eq(t->transports[i].kind, like->transports[i].kind);
        ck_assert_uint_eq(t->transports[i].given, like->transports[i].given);
        ck_assert_double_eq(t->transports[i].value.overhead_s,
                            like->transports[i].value.overhead_s);
        ck_assert_double_eq(t->transports[i].value.tb_rate_Bps,
                            like->transports[i].value.tb_rate_Bps);
    }
    ccl_topology_destroy(t);
    ccl_topology_destroy(like);
    t = topology("gpus:4 nvswitch=450GB/s model=H100 tb_rate=7GB/s launch=2us");
    ck_assert_double_eq(t->transports[0].value.tb_rate_Bps, 7e9);
    ck_assert_double_eq(t->transports[0].value.overhead_s, 0);
    ck_assert_double_eq(t->gpu_models[0].launch_s, 2e-6);
    ck_assert_uint_eq(t->gpu_models[0].launches, 0);
    ccl_topology_destroy(t);
    t = topology("gpus:4 nvswitch=450GB/s model=H100 nics:1x1GB/s + gpus:4 nvswitch=300GB/s "
                 "model=A100 nics:1x1GB/s");
    ck_assert_uint_eq(t->ntransports, 0); /* nvlink of which of the two? */
    ck_assert_double_eq(t->gpu_models[0].copy_rate_Bps, 38.7e9);
    ck_assert_double_eq(t->gpu_models[1].copy_rate_Bps, 24e9);
    ccl_topology_destroy(t);
    t = topology("gpus:4 nvlink=mesh,150GB/s model=GH200"); /* the same chip */
    ck_assert_str_eq(t->gpu_models[0].name, "GH200");
    ck_assert_double_eq(t->gpu_models[0].copy_rate_Bps, 38.7e9);
    ck_assert_uint_gt(t->ntransports, 0);
    ccl_topology_destroy(t);
    t = topology("gpus:4 nvswitch=450GB/s model=H1");
    ck_assert_uint_eq(t->ntransports, 0);
    ck_assert_str_eq(t->source, "");
    ck_assert(isinf(t->gpu_models[0].copy_rate_Bps));
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(in_a_file) {
    ccl_topology_t *t = topology_of("# a comment\nservers:2\n  gpus:2 nvlink=mesh,1GB/s\n"
                                    "nics:1x1GB/s\n");
    ck_assert_uint_eq(t->nranks, 4);
    ck_assert_str_eq(t->name, "servers:2 gpus:2 nvlink=mesh,1GB/s nics:1x1GB/s");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(largest) {
    ccl_topology_t *t = topology("servers:128 gpus:64 nvswitch=300GB/s nics:64x25GB/s fabric=rail");
    ck_assert_uint_eq(t->nranks, 8192);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(refused) {
    static const bad_row_t rows[] = {
        {"servers:4 gpu:8", 1, 11, "did you mean \"gpus\"", "misspelt"},
        {"servers:4 zzzzzzz:8", 1, 11, "docs/clusters.md", "unknown"},
        {"servers:4 gpus", 1, 11, "KEY:VALUE", "no value"},
        {"servers:4 gpus:", 1, 11, "KEY:VALUE", "empty value"},
        {"servers:4 =8", 1, 11, "KEY:VALUE", "no key"},
        {"servers:0 gpus:1", 1, 9, "1 to 4096", "none"},
        {"servers:4097 gpus:1", 1, 9, "1 to 4096", "too many"},
        {"servers:99999999999 gpus:1", 1, 9, "1 to 4096", "no number of ours"},
        {"servers:2 gpus:1025", 1, 16, "1 to 1024", "too many"},
        {"servers:2 gpus:8x", 1, 16, "1 to 1024", "no number"},
        {"servers:2 gpus:8 gpus:8", 1, 18, "twice", "twice"},
        {"servers:2 nvswitch=1GB/s", 1, 1, "no gpus", "no gpus"},
        {"servers:2 gpus:2 nics:1x1GB/s", 1, 1, "nothing joins", "GPUs apart"},
        {"servers:2 gpus:2 nvlink=star,1GB/s", 1, 25, "mesh or ring", "unknown shape"},
        {"servers:2 gpus:2 nvlink=mesh", 1, 25, "no rate", "no rate"},
        {"servers:2 gpus:2 nvlink=mesh,1GB", 1, 30, "unit", "no rate unit"},
        {"servers:2 gpus:2 nvlink=mesh,1GB/s,2", 1, 36, "unit", "no time unit"},
        {"servers:2 gpus:2 nvlink=mesh,1GB/s,2us,3", 1, 40, "too many", "one value too many"},
        {"servers:2 gpus:2 nvlink=mesh,,2us", 1, 30, "empty value", "empty value"},
        {"servers:2 gpus:2 nvswitch=0GB/s", 1, 27, "zero", "no bandwidth"},
        {"servers:2 gpus:2 nvswitch=1GB/s xgmi=mesh,1GB/s", 1, 38, "joined already", "two kinds"},
        {"servers:2 gpus:2 nvswitch=1GB/s nics:1GB/s", 1, 38, "nics:4x25GB/s", "no count"},
        {"servers:2 gpus:2 nvswitch=1GB/s nics:0x1GB/s", 1, 38, "1 to 1024", "no NICs"},
        {"servers:2 gpus:2 nvswitch=1GB/s nics:4x1GB", 1, 40, "unit", "the rate's place"},
        {"servers:2 gpus:2 nvswitch=1GB/s", 1, 1, "without NICs", "servers apart"},
        {"servers:2 gpus:2 nvswitch=1GB/s nics:1x1GB/s + gpus:1", 1, 47, "without NICs",
         "the second kind has none"},
        {"servers:1 gpus:2 nvswitch=1GB/s nics:1x1GB/s fabric=mesh", 1, 53, "single, rail or clos",
         "unknown fabric"},
        {"servers:2 gpus:1 nics:1x1GB/s fabric=clos:0", 1, 43, "oversubscription", "zero"},
        {"servers:2 gpus:1 nics:1x1GB/s fabric=clos:nan", 1, 43, "oversubscription", "nan"},
        {"servers:2 gpus:1 nics:1x1GB/s fabric=rail:0", 1, 43, "rails", "no rails"},
        {"servers:2 gpus:1 nics:1x1GB/s fabric=rail,spin", 1, 43, "spine", "misspelt"},
        {"servers:2 gpus:1 nics:1x1GB/s contention=-1", 1, 42, "0 or more", "negative"},
        {"gpus:2 nvswitch=1GB/s contention=1", 1, 1, "no network", "no network"},
        {"servers:4000 gpus:3 nvswitch=1GB/s nics:1x1GB/s", 1, 1, "too large", "12000 GPUs"},
        {"servers:4096 gpus:1 nics:1x1GB/s + gpus:1 nics:1x1GB/s", 1, 1, "more than 4096",
         "4097 servers"},
        {"gpus:2 nvswitch=1GB/s nics:1x1GB/s model=A sms=1 + gpus:1 nics:1x1GB/s model=A sms=2", 1,
         51, "two sets", "one model, two kinds"},
        {"servers:2 gpus:1 nics:1x1GB/s fabric=rail fabric=rail", 1, 43, "twice", "two fabrics"},
        {"servers:2\ngpus:1 nics:1x1GB/s\nslots=0", 3, 7, "1 to", "the line counts too"},
    };
    check_bad(rows, CCL_ARRAY_LEN(rows));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synthetic");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, switch_and_rails);
    tcase_add_test(tc, shapes);
    tcase_add_test(tc, mixed_servers_and_constants);
    tcase_add_test(tc, known_models);
    tcase_add_test(tc, in_a_file);
    tcase_add_test(tc, largest);
    tcase_add_test(tc, refused);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
