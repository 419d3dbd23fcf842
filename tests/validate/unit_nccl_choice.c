/*
 * Algorithm and protocol of stock NCCL over library clusters, against its published tuning formula
 * (src/graph/tuning.cc of 2.30) worked out here from the clusters' data sheets.
 */
#include "tests/validate/common.h"

#include <stdio.h>

enum { VOLTA, AMPERE, HOPPER, BLACKWELL };
enum { RING, TREE, NVLS, NVLS_TREE };
enum { LL, LL128, SIMPLE };

typedef struct cluster {
    const char *name;
    int gpus, servers, arch;
    bool nvlink, amd;
    double inside_GBps, network_GBps; /* NVLink of a GPU; NICs of the poorest server */
    int channels;     /* its graph search finds half of them, and its limits are of those */
    double head_GBps; /* of NVLS, as its graph search finds it; 0: none */
} cluster_t;

/* Channels between servers: two a NIC, four where Hopper or later has fewer than 8 fast ones. */
static const cluster_t clusters[] = {
    {"dgx-b200", 8, 1, BLACKWELL, true, false, 900, 400, 32, 80},
    {"dgx-h100", 8, 1, HOPPER, true, false, 450, 400, 24, 40},
    {"dgx-h100*2", 16, 2, HOPPER, true, false, 450, 400, 16, 40},
    {"dgx-h100*4", 32, 4, HOPPER, true, false, 450, 400, 16, 40},
    {"dgx-b200*2", 16, 2, BLACKWELL, true, false, 900, 400, 16, 80},
    {"h800-x8", 8, 1, HOPPER, true, false, 180, 400, 24, 0},
    {"dgx-a100", 8, 1, AMPERE, true, false, 300, 200, 24, 0},
    {"a800-x8", 8, 1, AMPERE, true, false, 200, 100, 24, 0},
    {"dgx-2", 16, 1, VOLTA, true, false, 150, 100, 12, 0},
    {"dgx1-v100", 8, 1, VOLTA, true, false, 150, 50, 12, 0},
    {"mi300x-x8", 8, 1, AMPERE, true, true, 329, 400, 24, 0},
    {"v100-pcie-x4", 4, 1, VOLTA, false, false, 0, 12.5, 2, 0},
    {"syccl-a100-16", 16, 2, AMPERE, true, false, 180, 100, 8, 0},
    {"syccl-a100-32", 32, 4, AMPERE, true, false, 180, 100, 8, 0},
    {"syccl-h800-64", 64, 8, HOPPER, true, false, 180, 400, 16, 0},
    {"resccl-topo1", 8, 2, AMPERE, true, false, 300, 50, 4, 0},
    {"resccl-topo2", 16, 2, AMPERE, true, false, 300, 100, 8, 0},
    {"resccl-topo3", 16, 4, AMPERE, true, false, 300, 50, 4, 0},
    {"resccl-topo4", 32, 4, AMPERE, true, false, 300, 100, 8, 0},
    {"heteccl-h20-4+8", 12, 2, HOPPER, true, false, 450, 200, 16, 0},
    {"heteccl-h20-4x2+8", 16, 3, HOPPER, true, false, 450, 200, 16, 0},
    {"heteccl-a100-4+8", 12, 2, AMPERE, true, false, 300, 100, 8, 0},
    {"heteccl-v100-4x3", 12, 3, VOLTA, true, false, 150, 32, 8, 0},
    {"teccl-ndv2-2x8", 16, 2, VOLTA, true, false, 150, 12.5, 2, 0},
    {"teccl-ndv2-4x8", 32, 4, VOLTA, true, false, 150, 12.5, 2, 0},
};

/* By 1, 2, more servers. Between servers LL goes by the CPUs, of which these are Intel's row. */
static const double ll_most[4][3] = {
    {39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
static const double ll128_channel[4] = {20, 20, 36.7, 34.5};
static const double tree_channel[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const double base[2][3] = {{6.6, 14, 8.4}, {6.8, 14, 8.4}};
static const double nvlink_hop[2][3] = {{0.6, 1.9, 3.4}, {0.6, 1.25, 4}};
static const double pcie_hop[2][3] = {{1, 2.5, 5.7}, {1, 1.9, 4}};
static const double net_hop[2][3] = {{2.7, 4, 14}, {5, 8.5, 14}};
static const double tree_part[3][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

/* GB/s of all channels, before what a collective makes of it. */
static double bus(const cluster_t *c, int algo, int proto) {
    int by = c->servers > 2 ? 2 : c->servers - 1, found = c->channels;
    if (c->servers > 1 && !c->amd)
        found /= 2;
    double inside = c->nvlink ? 0.8 * c->inside_GBps : 12, bw = inside;
    if (c->servers > 1)
        bw = fmin(inside, c->network_GBps);
    if (algo == TREE && c->servers == 2) /* the inside's, up to twice the network's */
        bw = fmin(inside, 2 * c->network_GBps);
    double ll = ll_most[c->servers == 1 ? c->arch : 0][by];
    if (algo == TREE) {
        bw = fmin(0.92 * bw, found * tree_channel[c->arch][by]);
        if (proto == LL)
            return fmin(bw / 3.8, ll);
        if (proto == LL128)
            return fmin(bw * (c->servers == 1 ? 7. / 9 : 120. / 128),
                        found * ll128_channel[c->arch]);
        return bw;
    }
    if (proto == LL)
        return fmin(0.5 * bw, ll);
    return proto == LL128 ? fmin(0.92 * bw, found * ll128_channel[c->arch]) : bw;
}

/* Its 2.30, by 2 servers and more; a B200's NIC of 50 GB/s is one of the speeds that it tries. */
static double nvls_us(const cluster_t *c, double bytes) {
    static const double share[4] = {0, 0, .85, .74};
    static const double most[4][2] = {{0}, {0}, {57.7, 45.5}, {96, 43.8}};
    double n = c->gpus, heads = n / c->servers, nic = c->network_GBps / heads;
    double each = 2 * c->head_GBps * share[c->arch] * (1 - 1 / heads), latency = 25;
    if (c->servers > 1) {
        each = fmin(each, fmin(c->head_GBps, nic) * (c->servers == 2 ? 2 : 1));
        each = fmin(each, most[c->arch][c->servers > 2]);
        latency += 2 * floor(log2(c->servers)) * 20.9;
    }
    return latency + bytes / (1000 * heads * each * n / (2 * (n - 1)));
}

static double time_us(const cluster_t *c, ccl_collective_kind_t kind, int algo, int proto,
                      double bytes) {
    double n = c->gpus, servers = c->servers, bw = bus(c, algo, proto);
    const double(*hop)[3] = c->nvlink ? nvlink_hop : pcie_hop;
    double in = hop[algo][proto], out = net_hop[algo][proto], latency = base[algo][proto];
    bool chain = kind == CCL_BROADCAST || kind == CCL_REDUCE;
    if (algo == TREE) {
        double place = floor(log2(bytes / 64));
        latency += 2 * ((n / servers - 1) * in + floor(log2(servers)) * out);
        bw *= 0.5 * (place < 24 ? tree_part[proto][(int)place] : 1);
    } else if (chain) {
        latency += servers > 1 ? out : in;
    } else {
        double rounds = kind == CCL_ALLREDUCE ? 2 : 1;
        double crossings = servers > 1 ? rounds * (servers - 1) : 0;
        if (servers > 1) /* posts of the network: 1 us, three times with Simple */
            in = fmax(in, proto == SIMPLE ? 3 : 1);
        latency += (rounds * (n - 1) - crossings) * in + crossings * out;
        if (kind == CCL_ALLREDUCE && proto == SIMPLE && servers > 1 &&
            bytes / (c->channels * n) >= 64)
            latency *= c->arch == VOLTA ? 1.9 : 1.4;
        bw *= n / (rounds * (n - 1));
    }
    return latency + bytes / (1000 * bw);
}

START_TEST(test_formula) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                                  CCL_BROADCAST, CCL_REDUCE};
    uint32_t cells = 0, same = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(clusters); i++) {
        const cluster_t *c = &clusters[i];
        ccl_topology_t *topo = topology(c->name);
        ccl_nccl_setup_t setup;
        OK(ccl_nccl_setup(topo, 0, &setup, &err));
        for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
            for (double bytes = 1024; bytes <= 1 << 30; bytes *= 2) {
                int algo = RING, proto = SIMPLE;
                double least = INFINITY;
                if (c->head_GBps > 0 && kinds[k] == CCL_ALLREDUCE) {
                    algo = c->servers > 1 ? NVLS_TREE : NVLS;
                    least = nvls_us(c, bytes);
                }
                for (int a = RING; a <= (kinds[k] == CCL_ALLREDUCE ? TREE : RING); a++) {
                    for (int p = LL; p <= SIMPLE; p++) {
                        double t = time_us(c, kinds[k], a, p, bytes);
                        if ((p == LL128 && (!c->nvlink || c->amd)) || t >= least)
                            continue;
                        least = t;
                        algo = a;
                        proto = p;
                    }
                }
                ccl_nccl_choice_t choice = ccl_nccl_choose(&setup, kinds[k], bytes);
                cells++;
                if ((int)choice.algo == algo && (int)choice.proto == proto)
                    same++;
                else
                    printf("%s %s %g: %s %s, not %s %s\n", c->name,
                           ccl_collective_kind_name(kinds[k]), bytes,
                           ccl_nccl_algo_name(choice.algo), ccl_nccl_proto_name(choice.proto),
                           ccl_nccl_algo_name((ccl_nccl_algo_t)algo),
                           ccl_nccl_proto_name((ccl_nccl_proto_t)proto));
            }
        }
        ccl_topology_destroy(topo);
    }
    printf("%u of %u cells as the formula\n", same, cells);
    ck_assert_uint_gt(cells, 2000);
    ck_assert_msg(same == cells, "%u of %u", same, cells);
}
END_TEST

/*
 * Two servers: trees use the inside's bandwidth. They win on Hopper, as on GH200 over Slingshot
 * (158 GB/s measured, where NICs carry 100 each way); on Ampere the limit of half of the channels
 * lets rings win (176 and 36 GB/s measured of AllGather, 178 and 36 of AllReduce). With three
 * servers trees lose everywhere. Small messages go through trees, whose steps inside need no post.
 */
START_TEST(test_two_servers) {
    static const struct {
        const char *name;
        double bus_GBps, tree_GBps;
        ccl_nccl_algo_t large, small;
    } rows[] = {{"gh200-x4*2", 100, 200, CCL_NCCL_TREE, CCL_NCCL_TREE},
                {"dgx-a100*2", 200, 240, CCL_NCCL_RING, CCL_NCCL_TREE},
                {"a100-x4-2nic*2", 50, 100, CCL_NCCL_RING, CCL_NCCL_TREE},
                {"resccl-topo2", 100, 200, CCL_NCCL_RING, CCL_NCCL_TREE},
                {"resccl-topo4", 100, 100, CCL_NCCL_RING, CCL_NCCL_TREE}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].name);
        ccl_nccl_setup_t s;
        OK(ccl_nccl_setup(topo, 0, &s, &err));
        ck_assert_double_eq_tol(s.bus_GBps, rows[i].bus_GBps, 1e-9);
        ck_assert_double_eq_tol(s.tree_GBps, rows[i].tree_GBps, 1e-9);
        ck_assert_uint_eq(s.channels, 2 * s.searched);
        ck_assert_int_eq(ccl_nccl_choose(&s, CCL_ALLREDUCE, 1 << 30).algo, rows[i].large);
        ck_assert_int_eq(ccl_nccl_choose(&s, CCL_ALLREDUCE, 8).algo, rows[i].small);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* What a tree with lines takes of 4 KiB over what it takes of 8 B: lines are passed on as they come
   (measured on 16 A100 over HDR: 7 us more; in pieces of 16 KiB it would be 34). */
START_TEST(test_tree_lines) {
    static const struct {
        ccl_nccl_proto_t proto;
        double bytes, more_s;
    } rows[] = {{CCL_NCCL_LL, 4096, 26e-6}, {CCL_NCCL_LL128, 1 << 19, 40e-6}};
    ccl_topology_t *topo = topology("dgx-a100*2");
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *p = NULL;
    OK(ccl_profile_read("nccl-a100", &profile, &err));
    OK(ccl_predictor_create(NULL, topo, profile, 0, &p, &err));
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        double time_s[2];
        for (int k = 0; k < 2; k++) {
            ccl_prediction_t run;
            double bytes = k ? rows[i].bytes : 8;
            ccl_nccl_choice_t c = ccl_nccl_channels(ccl_predictor_setup(p), CCL_ALLREDUCE,
                                                    CCL_NCCL_TREE, rows[i].proto, bytes);
            OK(ccl_predictor_run(p, CCL_ALLREDUCE, 0, bytes, &c, &run, &err));
            time_s[k] = run.time_s;
        }
        printf("%s: %.1f us, of 8 B %.1f us\n", ccl_nccl_proto_name(rows[i].proto), time_s[1] * 1e6,
               time_s[0] * 1e6);
        ck_assert_double_lt(time_s[1] - time_s[0], rows[i].more_s);
    }
    ccl_predictor_destroy(p);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(topo);
}
END_TEST

/* GPUs that share a NIC have a proxy each: small AllToAll over 4 peers takes what 4 requests take,
   also where two GPUs send 8 through a NIC (measured on A100 with two NICs: 35.5 us). */
START_TEST(test_requests) {
    static const char *const names[] = {"a100-x4-4nic*2", "a100-x4-2nic*2"};
    double time_s[2];
    for (int k = 0; k < 2; k++) {
        ccl_topology_t *topo = topology(names[k]);
        ccl_profile_t *profile = NULL;
        ccl_predictor_t *p = NULL;
        ccl_prediction_t run;
        OK(ccl_profile_read("nccl-a100", &profile, &err));
        OK(ccl_predictor_create(NULL, topo, profile, 0, &p, &err));
        ck_assert_uint_eq(ccl_predictor_setup(p)->nic_gpus, k + 1);
        OK(ccl_predictor_run(p, CCL_ALLTOALL, 0, 4096, NULL, &run, &err));
        time_s[k] = run.time_s;
        ccl_predictor_destroy(p);
        ccl_profile_destroy(profile);
        ccl_topology_destroy(topo);
    }
    printf("AllToAll of 4 KiB: %.1f, %.1f us\n", time_s[0] * 1e6, time_s[1] * 1e6);
    ck_assert_double_eq_tol(time_s[1], time_s[0], 0.1 * time_s[0]);
    ck_assert_double_eq_tol(time_s[1], 35.5e-6, 4e-6);
}
END_TEST

/* Messages: two channels to a peer on another server, one if a channel has more than 4 peers;
   between two GPUs of a server channels double while a part exceeds 16 MiB. */
START_TEST(test_messages) {
    ccl_topology_t *far = topology("syccl-h800-64"), *near = topology("dgx-h100");
    ccl_nccl_setup_t s;
    OK(ccl_nccl_setup(far, 0, &s, &err));
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_ALLTOALL, 64.0 * (64 << 20)).channels, 1);
    OK(ccl_nccl_setup(near, 0, &s, &err));
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_SENDRECV, 64 << 20).channels, 4);
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_SENDRECV, 65 << 20).channels, 8);
    ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_SENDRECV, 4.0 * (1 << 30)).channels, 32);
    ccl_topology_destroy(far);
    ccl_topology_destroy(near);
}
END_TEST

/* Where few GPUs of a server take part, NICs that none of them has nearest stay idle. */
START_TEST(test_idle_nics) {
    static const struct {
        uint32_t nranks, nservers, channels, peer_channels;
        double GBps;
    } rows[] = {{2, 2, 4, 2, 50}, {10, 10, 4, 1, 50}, {20, 10, 8, 1, 100}, {80, 10, 16, 1, 360}};
    ccl_topology_t *all = topology("dgx-h100*10");
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *some = NULL;
        ccl_nccl_setup_t s;
        OK(ccl_topology_take(all, rows[i].nranks, rows[i].nservers, &some, &err));
        OK(ccl_nccl_setup(some, 0, &s, &err));
        ck_assert_double_eq_tol(s.bus_GBps, rows[i].GBps, 1e-9);
        ck_assert_uint_eq(s.channels, rows[i].channels);
        ck_assert_uint_eq(ccl_nccl_choose(&s, CCL_SENDRECV, 1 << 30).channels,
                          rows[i].peer_channels);
        ccl_topology_destroy(some);
    }
    ccl_topology_destroy(all);
}
END_TEST

/* The poorest server counts, and every server's NVLink must join its GPUs. */
START_TEST(test_mixed) {
    ccl_topology_t *nics = topology("servers:1 gpus:8 nvswitch=300GB/s nics:8x25GB/s + servers:1 "
                                    "gpus:8 nvswitch=300GB/s nics:2x25GB/s");
    ccl_topology_t *pairs = topology("heteccl-v100-4+8"), *quad = topology("heteccl-v100-4x3");
    ccl_nccl_setup_t s;
    OK(ccl_nccl_setup(nics, 0, &s, &err));
    ck_assert_double_eq_tol(s.bus_GBps, 50, 1e-9);
    OK(ccl_nccl_setup(pairs, 0, &s, &err)); /* not within the 8 of v100-x8 */
    ck_assert(!s.nvlink);
    OK(ccl_nccl_setup(quad, 0, &s, &err));
    ck_assert(s.nvlink);
    ccl_topology_destroy(nics);
    ccl_topology_destroy(pairs);
    ccl_topology_destroy(quad);
}
END_TEST

START_TEST(test_library) {
    static const struct {
        const char *cluster, *name; /* NULL: refused */
        const char *why;
    } rows[] = {{"dgx-a100", "nccl", NULL},
                {"servers:2 gpus:2 nvswitch=100GB/s nics:1x25GB/s", "nccl", NULL},
                {"mi300x-x8", "rccl", NULL},
                {"hetccl-snu", NULL, "NVIDIA and AMD together"},
                {"hetccl-hw2-x8", NULL, "of Vendor 2"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].cluster);
        ccl_error_t err = CCL_ERROR_INIT;
        const char *name = NULL;
        ccl_status_t status = ccl_nccl_library(topo, &name, &err);
        ck_assert_int_eq(status, rows[i].name ? CCL_OK : CCL_UNSUPPORTED);
        if (rows[i].name)
            ck_assert_str_eq(name, rows[i].name);
        else
            ck_assert_msg(strstr(err.text, rows[i].why) != NULL, "%s", err.text);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* 24 channels of a double tree need more thread blocks than the 78 of an H20. */
START_TEST(test_tree_fits) {
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_predictor_t *p = NULL;
    ccl_nccl_kernel_t kernel;
    ccl_verdict_t verdict = {0};
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &p, &err));
    OK(ccl_predictor_kernel(p, CCL_ALLREDUCE, 0, 1 << 28, NULL, &kernel, &err));
    ck_assert_int_eq(kernel.choice.algo, CCL_NCCL_TREE);
    ck_assert_uint_lt(kernel.choice.channels, 24);
    ck_assert_uint_ge(kernel.choice.channels, 12);
    for (uint32_t r = 0; r < topo->nranks; r++)
        ck_assert_uint_le(ccl_program_rank_blocks(&kernel.program, r, CCL_GRANULARITY_ALGORITHM),
                          78);
    OK(ccl_program_verify(NULL, &kernel.program, NULL, &verdict, &err));
    ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
    ccl_predictor_destroy(p);
    ccl_topology_destroy(topo);
}
END_TEST

/* Given back between two programs, routes are found again, and the same. */
START_TEST(test_rest) {
    ccl_topology_t *topo = topology("dgx-h100*2");
    ccl_predictor_t *p[2] = {NULL};
    ccl_nccl_kernel_t kernel[2];
    for (uint32_t i = 0; i < 2; i++) {
        OK(ccl_predictor_create(NULL, topo, NULL, 0, &p[i], &err));
        OK(ccl_predictor_kernel(p[i], CCL_ALLREDUCE, 0, 1 << 28, NULL, &kernel[i], &err));
        if (i == 1)
            ccl_predictor_rest(p[i]);
        OK(ccl_predictor_kernel(p[i], CCL_ALLTOALL, 0, 1 << 28, NULL, &kernel[i], &err));
    }
    ck_assert_uint_eq(kernel[0].program.nsteps, kernel[1].program.nsteps);
    ck_assert_mem_eq(kernel[0].program.steps, kernel[1].program.steps,
                     kernel[0].program.nsteps * sizeof *kernel[0].program.steps);
    for (uint32_t i = 0; i < 2; i++)
        ccl_predictor_destroy(p[i]);
    ccl_topology_destroy(topo);
}
END_TEST

/* NVLS needs switches that add and multicast, and servers alike of three GPUs or more; not for
   elements that switches do not add, and not where the user forbids it. */
START_TEST(test_nvls_where) {
    static const struct {
        const char *cluster;
        bool nvls;
        double head_GBps, net_GBps;
        uint32_t channels;
    } rows[] = {
        {"dgx-h100", true, 40, 0, 16},
        {"dgx-b200", true, 80, 0, 24},
        {"gb200-nvl72", true, 20, 0, 24}, /* 32 heads */
        {"dgx-h100*3", true, 40, 40, 16},
        {"servers:2 gpus:8 model=H100 nvswitch=450GB/s,nvls nics:4x25GB/s", true, 40, 12, 16},
        {"servers:1 gpus:2 model=H100 nvswitch=450GB/s,nvls", false, 0, 0, 0},
        {"servers:1 gpus:8 model=H100 nvswitch=450GB/s", false, 0, 0, 0},
        {"servers:1 gpus:8 model=A100 nvswitch=300GB/s,nvls", false, 0, 0, 0},
        {"servers:1 gpus:8 model=H100 nvswitch=450GB/s,nvls nics:1x25GB/s + servers:1 "
         "gpus:4 model=H100 nvswitch=450GB/s,nvls nics:1x25GB/s",
         false, 0, 0, 0}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].cluster);
        ccl_nccl_setup_t s;
        OK(ccl_nccl_setup(topo, 0, &s, &err));
        ck_assert_msg(s.nvls == rows[i].nvls, "%s", rows[i].cluster);
        if (s.nvls) {
            ck_assert_double_eq(s.nvls_GBps, rows[i].head_GBps);
            ck_assert_double_eq(s.nvls_net_GBps, rows[i].net_GBps);
            ck_assert_uint_eq(s.nvls_channels, rows[i].channels);
        }
        ck_assert(ccl_nccl_may(&s, CCL_ALLREDUCE, CCL_NCCL_NVLS, CCL_NCCL_SIMPLE) ==
                  (s.nvls && s.nservers == 1));
        ck_assert(ccl_nccl_may(&s, CCL_ALLREDUCE, CCL_NCCL_NVLS_TREE, CCL_NCCL_SIMPLE) ==
                  (s.nvls && s.nservers > 1));
        ck_assert(!ccl_nccl_may(&s, CCL_ALLGATHER, CCL_NCCL_NVLS, CCL_NCCL_SIMPLE));
        ck_assert(!ccl_nccl_may(&s, CCL_ALLREDUCE, CCL_NCCL_NVLS, CCL_NCCL_LL));
        ccl_topology_destroy(topo);
    }
    ck_assert(ccl_nccl_nvls_type("half") && ccl_nccl_nvls_type("") && ccl_nccl_nvls_type("float"));
    ck_assert(!ccl_nccl_nvls_type("int8") && !ccl_nccl_nvls_type("uint8"));
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_predictor_t *p = NULL;
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &p, &err));
    const ccl_nccl_setup_t *s = ccl_predictor_setup(p);
    ck_assert_int_eq(ccl_nccl_choose(s, CCL_ALLREDUCE, 1 << 30).algo, CCL_NCCL_NVLS);
    ccl_predictor_nvls(p, false, false);
    ck_assert_int_eq(ccl_nccl_choose(s, CCL_ALLREDUCE, 1 << 30).algo, CCL_NCCL_RING);
    ccl_predictor_destroy(p);
    ccl_topology_destroy(topo);
}
END_TEST

/*
 * NCCL's programs through switches are proven, and over several servers every inner node of one
 * tree is a leaf of the other. On links alone NVLS takes S (1 + 1/n) / B, staged data or not;
 * between two servers the network carries S / servers each way.
 */
START_TEST(test_nvls_programs) {
    static const struct {
        const char *cluster;
        double GBps; /* of the algorithm at a large size, at least, at most */
        double most_GBps;
    } rows[] = {{"servers:1 gpus:8 model=H100-links nvswitch=450GB/s,nvls", 390, 400},
                {"servers:1 gpus:5 model=H100-links nvswitch=450GB/s,nvls", 365, 375},
                {"servers:1 gpus:40 model=H100-links nvswitch=450GB/s,nvls", 425, 437},
                {"servers:2 gpus:4 model=H100-links nvswitch=450GB/s,nvls nics:4x50GB/s", 185, 200},
                {"servers:5 gpus:4 model=H100-links nvswitch=450GB/s,nvls nics:4x50GB/s", 95, 100},
                {"servers:6 gpus:4 model=H100-links nvswitch=450GB/s,nvls nics:4x50GB/s", 95, 100}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].cluster);
        ccl_predictor_t *p = NULL;
        ccl_nccl_kernel_t kernel;
        ccl_verdict_t verdict = {0};
        ccl_prediction_t run;
        OK(ccl_predictor_create(NULL, topo, NULL, 0, &p, &err));
        ccl_nccl_choice_t choice = ccl_nccl_channels(
            ccl_predictor_setup(p), CCL_ALLREDUCE,
            topo->nservers > 1 ? CCL_NCCL_NVLS_TREE : CCL_NCCL_NVLS, CCL_NCCL_SIMPLE, 4e9);
        OK(ccl_predictor_kernel(p, CCL_ALLREDUCE, 0, 4e9, &choice, &kernel, &err));
        OK(ccl_program_verify(NULL, &kernel.program, NULL, &verdict, &err));
        ck_assert_msg(verdict.valid, "%s", verdict.fault.text);
        OK(ccl_predictor_run(p, CCL_ALLREDUCE, 0, 4e9, &choice, &run, &err));
        double GBps = 4 / run.time_s;
        ck_assert_msg(GBps >= rows[i].GBps && GBps <= rows[i].most_GBps * (1 + 1e-9), "%s: %g GB/s",
                      rows[i].cluster, GBps);
        ccl_predictor_destroy(p);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* nccl#1455: algbw of NVLS on 4 to 8 H100, GB/s, with constants fitted to 8 of another machine. */
START_TEST(test_nvls_by_gpus) {
    static const double measured_GBps[] = {246.7, 258, 265, 270, 273};
    ccl_profile_t *profile = NULL;
    OK(ccl_profile_read("nccl-h100", &profile, &err));
    for (uint32_t i = 0; i < 5; i++) {
        ccl_topology_t *all = topology("dgx-h100"), *topo = NULL;
        ccl_predictor_t *p = NULL;
        ccl_prediction_t run;
        OK(ccl_topology_take(all, 4 + i, 1, &topo, &err));
        OK(ccl_predictor_create(NULL, topo, profile, 0, &p, &err));
        ccl_nccl_choice_t choice = ccl_nccl_channels(ccl_predictor_setup(p), CCL_ALLREDUCE,
                                                     CCL_NCCL_NVLS, CCL_NCCL_SIMPLE, 8e9);
        OK(ccl_predictor_run(p, CCL_ALLREDUCE, 0, 8e9, &choice, &run, &err));
        ck_assert_double_eq_tol(8 / run.time_s / measured_GBps[i], 1, 0.02);
        printf("%u GPUs: %.1f GB/s, measured %.1f\n", 4 + i, 8 / run.time_s, measured_GBps[i]);
        ccl_predictor_destroy(p);
        ccl_topology_destroy(topo);
        ccl_topology_destroy(all);
    }
    ccl_profile_destroy(profile);
}
END_TEST

/* Registered buffers need no copies: never slower, and faster where blocks limit. */
START_TEST(test_nvls_registered) {
    ccl_topology_t *topo = topology("dgx-h100");
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *p = NULL;
    ccl_prediction_t staged, registered;
    OK(ccl_profile_read("nccl-h100", &profile, &err));
    OK(ccl_predictor_create(NULL, topo, profile, 0, &p, &err));
    for (double bytes = 16 << 20; bytes <= 4e9; bytes *= 16) {
        ccl_predictor_nvls(p, true, false);
        OK(ccl_predictor_run(p, CCL_ALLREDUCE, 0, bytes, NULL, &staged, &err));
        ck_assert_int_eq(staged.choice.algo, CCL_NCCL_NVLS);
        ccl_predictor_nvls(p, true, true);
        OK(ccl_predictor_run(p, CCL_ALLREDUCE, 0, bytes, NULL, &registered, &err));
        ck_assert_double_le(registered.time_s, staged.time_s * (1 + 1e-9));
        if (bytes < 32 << 20)
            ck_assert_double_lt(registered.time_s, 0.97 * staged.time_s);
    }
    ccl_predictor_destroy(p);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(topo);
}
END_TEST

/* GPUs of different rails have no route to each other: messages are relayed inside servers. */
START_TEST(test_rails) {
    ccl_topology_t *topo = topology("servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s fabric=rail");
    ccl_predictor_t *p = NULL;
    ccl_prediction_t run;
    OK(ccl_predictor_create(NULL, topo, NULL, 0, &p, &err));
    OK(ccl_predictor_run(p, CCL_ALLTOALL, 0, 1 << 24, NULL, &run, &err));
    ck_assert_double_gt(run.time_s, 0);
    ccl_predictor_destroy(p);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_formula, test_two_servers, test_tree_lines, test_requests, test_messages,
          test_idle_nics, test_mixed, test_library, test_tree_fits, test_rest, test_nvls_where,
          test_nvls_programs, test_nvls_by_gpus, test_nvls_registered, test_rails)
