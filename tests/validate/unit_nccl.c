/* NCCL's choice by size, the programs it runs, the time of a ring in closed form. */
#include "tests/validate/common.h"

static ccl_nccl_setup_t setup_of(const ccl_topology_t *topo, uint32_t channels) {
    ccl_nccl_setup_t setup;
    OK(ccl_nccl_setup(topo, channels, &setup, &err));
    return setup;
}

START_TEST(test_setup) {
    static const struct {
        const char *spec;
        uint32_t nranks, nservers, arch, channels;
        double bus_GBps;
        bool nvlink, ll128;
    } rows[] = {
        {"dgx-b200", 8, 1, 3, 32, 720, true, true},
        {"dgx-h100", 8, 1, 2, 24, 360, true, true},
        {"dgx-a100", 4, 1, 1, 24, 240, true, true},
        {"dgx1-v100", 8, 1, 0, 12, 120, true, true},
        {"mi300x-x8", 8, 1, 1, 24, 0.8 * 7 * 64, true, false},
        {"v100-pcie-x4", 4, 1, 0, 2, 12, false, false},
        {"servers:2 gpus:8 nvswitch=300GB/s nics:4x25GB/s fabric=rail", 16, 2, 1, 8, 100, true,
         true},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = part(rows[i].spec, rows[i].nranks);
        ccl_nccl_setup_t s = setup_of(topo, 0);
        ck_assert_msg(s.nranks == rows[i].nranks && s.nservers == rows[i].nservers &&
                          s.arch == rows[i].arch && s.channels == rows[i].channels,
                      "%s: %u ranks, %u servers, arch %u, %u channels", rows[i].spec, s.nranks,
                      s.nservers, s.arch, s.channels);
        if (strcmp(rows[i].spec, "mi300x-x8") != 0)
            ck_assert_msg(fabs(s.bus_GBps - rows[i].bus_GBps) < 1e-6 * rows[i].bus_GBps, "%s: %g",
                          rows[i].spec, s.bus_GBps);
        ck_assert_msg(s.nvlink == rows[i].nvlink && s.ll128 == rows[i].ll128, "%s", rows[i].spec);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Where one choice ends and the next begins, worked out by hand from latency + bytes / bandwidth.
 */
START_TEST(test_choice) {
    ccl_topology_t *h8 = part("dgx-h100", 8), *h4 = part("dgx-h100", 4), *a4 = part("dgx-a100", 4);
    const struct {
        const char *why;
        const ccl_topology_t *topo;
        ccl_collective_kind_t kind;
        double switch_bytes;
        ccl_nccl_proto_t below, above;
    } rows[] = {
        /* 10.8 us + s / 161.1 GB/s = 27.3 us + s / 378.5 GB/s */
        {"H100 x8 AllGather, LL to LL128", h8, CCL_ALLGATHER, 4.628e6, CCL_NCCL_LL, CCL_NCCL_LL128},
        /* 27.3 us + s / 378.5 GB/s = 32.2 us + s / 411.4 GB/s */
        {"H100 x8 AllGather, LL128 to Simple", h8, CCL_ALLGATHER, 23.18e6, CCL_NCCL_LL128,
         CCL_NCCL_SIMPLE},
        /* 8.4 us + s / 188 GB/s = 18.6 us + s / 480 GB/s */
        {"H100 x4 ReduceScatter, LL to Simple", h4, CCL_REDUCESCATTER, 3.152e6, CCL_NCCL_LL,
         CCL_NCCL_SIMPLE},
        /* 8.4 us + s / 116.9 GB/s = 18.6 us + s / 320 GB/s */
        {"A100 x4 AllGather, LL to Simple", a4, CCL_ALLGATHER, 1.880e6, CCL_NCCL_LL,
         CCL_NCCL_SIMPLE},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_nccl_setup_t s = setup_of(rows[i].topo, 0);
        ccl_nccl_choice_t below = ccl_nccl_choose(&s, rows[i].kind, rows[i].switch_bytes * 0.995);
        ccl_nccl_choice_t above = ccl_nccl_choose(&s, rows[i].kind, rows[i].switch_bytes * 1.005);
        ck_assert_msg(below.proto == rows[i].below && above.proto == rows[i].above,
                      "%s: %s then %s", rows[i].why, ccl_nccl_proto_name(below.proto),
                      ccl_nccl_proto_name(above.proto));
        ck_assert_int_eq(below.algo, CCL_NCCL_RING);
        ck_assert_uint_eq(above.channels, 24);
        /* its own estimates meet there */
        ck_assert_double_eq_tol(below.estimate_s, above.estimate_s, 0.02 * above.estimate_s);
    }
    ccl_topology_destroy(h8);
    ccl_topology_destroy(h4);
    ccl_topology_destroy(a4);
}
END_TEST

/* How many channels a choice takes, and where messages to one peer change. */
START_TEST(test_channels) {
    ccl_topology_t *h8 = part("dgx-h100", 8);
    ccl_nccl_setup_t s = setup_of(h8, 0);
    /* LL: 8 bytes x 8 ranks x 512 threads a channel = 32 KiB */
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_ALLGATHER, 32767).channels, 1);
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_ALLGATHER, 4 * 32768).channels, 4);
    /* 32 channels for 8 peers: 4 each, one per 64 KiB; LL up to 16 KiB on each */
    static const struct {
        double message;
        uint32_t version, channels;
        ccl_nccl_proto_t proto;
    } sends[] = {{16384, 23000, 1, CCL_NCCL_LL},         {16385, 23000, 1, CCL_NCCL_SIMPLE},
                 {131072, 23000, 2, CCL_NCCL_SIMPLE},    {64 << 20, 23000, 4, CCL_NCCL_SIMPLE},
                 {16385, 22800, 4, CCL_NCCL_LL},         {32 * 16384, 22800, 4, CCL_NCCL_LL},
                 {32 * 16385, 22800, 4, CCL_NCCL_SIMPLE}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(sends); i++) {
        s.version = sends[i].version;
        ccl_nccl_choice_t c = ccl_nccl_choose(&s, CCL_ALLTOALL, 8 * sends[i].message);
        ck_assert_msg(c.algo == CCL_NCCL_P2P && c.channels == sends[i].channels &&
                          c.proto == sends[i].proto,
                      "%g bytes, version %u: %u channels of %s", sends[i].message, s.version,
                      c.channels, ccl_nccl_proto_name(c.proto));
    }
    /* A chain's share of a channel in pieces of 2 MiB. */
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_BROADCAST, 24 * 6e6).batches, 3);
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_ALLGATHER, 24 * 6e6).batches, 0);
    ccl_topology_destroy(h8);
}
END_TEST

/* Across many servers a tree beats a ring for small messages, and a ring a tree for large ones. */
START_TEST(test_tree) {
    ccl_topology_t *topo =
        topology("servers:16 gpus:8 nvswitch=450GB/s nics:8x50GB/s,2us fabric=single");
    ccl_nccl_setup_t s = setup_of(topo, 16);
    ck_assert_uint_eq(s.nservers, 16);
    ck_assert_int_eq(ccl_nccl_choose(&s, CCL_ALLREDUCE, 65536).algo, CCL_NCCL_TREE);
    ck_assert_int_eq(ccl_nccl_choose(&s, CCL_ALLREDUCE, 8e9).algo, CCL_NCCL_RING);
    ck_assert_int_eq(ccl_nccl_choose(&s, CCL_ALLGATHER, 65536).algo, CCL_NCCL_RING);
    ccl_topology_destroy(topo);
}
END_TEST

/* Every program does what its collective demands. */
START_TEST(test_programs) {
    static const struct {
        const char *spec;
        uint32_t nranks;
    } clusters[] = {{"dgx-a100", 2},
                    {"dgx-a100", 3},
                    {"dgx-a100", 8},
                    {"dgx1-v100", 8},
                    {"servers:2 gpus:3 nvswitch=300GB/s nics:1x25GB/s fabric=single", 6}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(clusters); i++) {
        ccl_topology_t *topo = part(clusters[i].spec, clusters[i].nranks);
        ccl_routes_t *routes = ccl_routes_create(topo);
        for (int kind = 0; kind < CCL_CUSTOM; kind++) {
            for (int algo = CCL_NCCL_RING; algo <= CCL_NCCL_P2P; algo++) {
                ccl_collective_kind_t k = (ccl_collective_kind_t)kind;
                bool p2p =
                    k == CCL_ALLTOALL || k == CCL_GATHER || k == CCL_SCATTER || k == CCL_SENDRECV;
                if ((algo == CCL_NCCL_P2P) != p2p || (algo == CCL_NCCL_TREE && k != CCL_ALLREDUCE))
                    continue;
                if (k == CCL_ALLTOALL && strcmp(clusters[i].spec, "dgx1-v100") == 0)
                    continue; /* its pairs are not all joined; NCCL relays over the host */
                ccl_nccl_choice_t choice = {(ccl_nccl_algo_t)algo, CCL_NCCL_SIMPLE, 3, 0, 0};
                ccl_program_t *program = NULL;
                ccl_verdict_t verdict = {0};
                ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
                uint32_t root = k == CCL_BROADCAST || k == CCL_REDUCE ? 1 : 0;
                OK(ccl_nccl_program(NULL, topo, routes, k, root, &choice, &program, &err));
                OK(ccl_program_verify(NULL, program, &options, &verdict, &err));
                ck_assert_msg(verdict.valid, "%s of %u ranks: %s", ccl_collective_kind_name(k),
                              clusters[i].nranks, verdict.fault.text);
                ccl_program_destroy(program);
            }
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* One slice, no overheads: launch + (n - 1) (L + s / (n c B)) and the last copy out of the FIFO. */
START_TEST(test_ring_time) {
    static const char text[] =
        "{\"format\": \"ccllab-profile-1\", \"name\": \"exact\", \"links\": {\"nvlink\": "
        "{\"efficiency\": 0.5}}, \"transports\": {\"nvlink\": {\"overhead\": \"0\", \"latency\": "
        "\"1us\", \"tb_rate\": \"50GB/s\", \"direct\": false, \"slice\": \"1G\", \"protocols\": "
        "{\"Simple\": {\"overhead\": \"0\", \"latency\": \"1us\", \"tb_rate\": \"50GB/s\", "
        "\"slice\": \"1G\"}}}}, \"gpu_models\": {\"H100\": {\"launch\": \"5us\", \"protocols\": "
        "{\"Simple\": {\"launch\": \"7us\"}}}}}";
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *predictor = NULL;
    ccl_prediction_t p;
    OK(ccl_profile_read_text("p", text, strlen(text), &profile, &err));
    for (uint32_t n = 2; n <= 8; n *= 2) {
        ccl_topology_t *topo = part("dgx-h100", n);
        ccl_nccl_choice_t choice = {CCL_NCCL_RING, CCL_NCCL_SIMPLE, 10, 0, 0};
        double size = 80e6, block = size / n / 10, link = 0.5 * 450e9 / 10;
        OK(ccl_predictor_create(NULL, topo, profile, 10, &predictor, &err));
        OK(ccl_predictor_run(predictor, CCL_ALLGATHER, 0, size, &choice, &p, &err));
        double want = 7e-6 + (n - 1) * (1e-6 + 0.7e-6 + block / link) + block / 50e9;
        ck_assert_double_eq_tol(p.time_s, want, 1e-9 * want);
        ck_assert_str_eq(p.link_kind, "nvlink");
        ck_assert_double_eq_tol(p.busbw_GBps, size / want * (n - 1) / n / 1e9, 1e-6);
        OK(ccl_predictor_profile(predictor, NULL, &err)); /* other constants, the same programs */
        OK(ccl_predictor_run(predictor, CCL_ALLGATHER, 0, size, &choice, &p, &err));
        ck_assert(p.time_s < want);
        ccl_predictor_destroy(predictor);
        ccl_topology_destroy(topo);
    }
    ccl_profile_destroy(profile);
}
END_TEST

static double run_time(ccl_predictor_t *predictor, ccl_collective_kind_t kind, double size,
                       const ccl_nccl_choice_t *choice) {
    ccl_prediction_t p;
    OK(ccl_predictor_run(predictor, kind, 0, size, choice, &p, &err));
    return p.time_s;
}

/*
 * Grouped sends: half a block's rate each way, two slices. A chain: slices of 16 KiB, so that the
 * last rank has its last slice n - 2 slices after the first rank sent its own.
 */
/* On a full mesh of four GPUs the channels fill all links, though no three rings are disjoint. */
START_TEST(test_ring_mesh) {
    ccl_topology_t *topo = part("gpus:4 nvlink=mesh,150GB/s,0.7us", 4);
    ccl_predictor_t *predictor = NULL;
    ccl_prediction_t p;
    ccl_nccl_choice_t choice = {CCL_NCCL_RING, CCL_NCCL_SIMPLE, 24, 0, 0};
    OK(ccl_predictor_create(NULL, topo, NULL, 24, &predictor, &err));
    OK(ccl_predictor_run(predictor, CCL_ALLREDUCE, 0, 1e9, &choice, &p, &err));
    ck_assert_msg(p.busbw_GBps > 0.99 * 450 && p.busbw_GBps <= 450, "%g GB/s", p.busbw_GBps);
    ccl_predictor_destroy(predictor);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_sends_and_chains) {
    static const char text[] =
        "{\"format\": \"ccllab-profile-1\", \"name\": \"exact\", \"transports\": {\"nvlink\": "
        "{\"overhead\": \"0\", \"latency\": \"0\", \"tb_rate\": \"40GB/s\", \"direct\": false, "
        "\"slice\": \"1G\", \"slots\": 1000, \"protocols\": {\"Simple\": {\"overhead\": \"0\", "
        "\"latency\": \"0\", \"tb_rate\": \"40GB/s\", \"slice\": \"1G\"}}}}, \"gpu_models\": "
        "{\"H100\": {\"launch\": \"5us\", \"protocols\": {\"Simple\": {\"launch\": \"5us\"}}}}}";
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *predictor = NULL;
    ccl_topology_t *topo = part("dgx-h100", 4);
    OK(ccl_profile_read_text("p", text, strlen(text), &profile, &err));
    OK(ccl_predictor_create(NULL, topo, profile, 4, &predictor, &err));
    ccl_nccl_choice_t choice = {CCL_NCCL_P2P, CCL_NCCL_SIMPLE, 2, 0, 0};
    double each = 1e6, hop = 0.7e-6; /* a message's share of a channel */
    double want = 5e-6 + hop + each / 20e9 + each / 2 / 20e9;
    double got = run_time(predictor, CCL_ALLTOALL, 4 * 2 * each, &choice);
    ck_assert_msg(fabs(got - want) < 1e-6 * want, "AllToAll %g us, not %g us", got * 1e6,
                  want * 1e6);
    choice = (ccl_nccl_choice_t){CCL_NCCL_RING, CCL_NCCL_SIMPLE, 2, 0, 1};
    each = 64 * 16384;
    want = 5e-6 + 3 * hop + (each + 3 * 16384) / 40e9;
    got = run_time(predictor, CCL_BROADCAST, 2 * each, &choice);
    ck_assert_msg(fabs(got - want) < 1e-6 * want, "Broadcast %g us, not %g us", got * 1e6,
                  want * 1e6);
    ccl_predictor_destroy(predictor);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_take) {
    ccl_topology_t *two = topology("servers:2 gpus:4 nvswitch=300GB/s nics:2x25GB/s fabric=rail");
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    OK(ccl_topology_take(two, 3, 1, &topo, &err));
    ck_assert_uint_eq(topo->nranks, 3);
    ccl_topology_destroy(topo);
    OK(ccl_topology_take(two, 4, 2, &topo, &err));
    ck_assert_uint_eq(topo->nranks, 4);
    ck_assert_uint_ne(topo->devices[topo->rank_device[1]].server,
                      topo->devices[topo->rank_device[2]].server);
    ccl_topology_destroy(topo);
    OK(ccl_topology_take(two, 8, 0, &topo, &err));
    ck_assert_uint_eq(topo->nranks, 8);
    ccl_topology_destroy(topo);
    ck_assert_int_eq(ccl_topology_take(two, 9, 0, &topo, &err), CCL_ERR_INPUT);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_topology_take(two, 8, 1, &topo, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "8 ranks on 1 hosts") != NULL, "%s", err.text);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_topology_take(two, 5, 2, &topo, &err), CCL_ERR_INPUT);
    ccl_topology_destroy(two);
}
END_TEST

RUN_TESTS(test_setup, test_choice, test_channels, test_tree, test_programs, test_ring_time,
          test_ring_mesh, test_sends_and_chains, test_take)
