/*
 * c2c: clusters, border ranks, and the exact volumes that cross borders (HetCCL of Peking
 * University and BAAI, table 7); sums are left to the receiving cluster; pipelined beats
 * sequential.
 */
#include "common.h"
#include "synth/c2c/c2c.h"

#include <math.h>

static const char mixed3[] = "servers:2 gpus:4 nvswitch=200GB/s,1us nics:4x25GB/s,2us model=A + "
                             "gpus:6 nvswitch=100GB/s,1us nics:2x50GB/s,2us model=B + "
                             "gpus:1 nvswitch=100GB/s,1us nics:1x25GB/s,2us model=C";

static ccl_status_t try(const ccl_topology_t *topo, const char *name, ccl_collective_kind_t kind,
                        uint32_t root, ccl_c2c_options_t c2c, ccl_schedule_t **out,
                        ccl_error_t *err) {
    ccl_collective_t *want = collective(kind, topo->nranks, root);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 1e9;
    options.c2c = c2c;
    ccl_status_t status = ccl_synthesize(NULL, name, topo, NULL, want, &options, out, err);
    ccl_collective_destroy(want);
    return status;
}

static ccl_schedule_t *make(const ccl_topology_t *topo, const char *name,
                            ccl_collective_kind_t kind, uint32_t root, ccl_c2c_options_t c2c) {
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(try(topo, name, kind, root, c2c, &schedule, &err) == CCL_OK, "%s %s: %s", name,
                  ccl_collective_kind_name(kind), err.text);
    return schedule;
}

static double time_of(const ccl_topology_t *topo, const ccl_schedule_t *schedule, double size,
                      uint32_t batches) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    lower.topo = topo;
    sim.size_bytes = size;
    sim.batches = batches;
    return lowered_s(topo, schedule, &lower, &sim);
}

/* ---------------------------------------------------------------- volumes */

/** A cluster among `nc` round the ring. */
typedef struct among {
    double total, nc, n0, next; /* ranks of all, clusters, its ranks, those of the next */
    bool root, after_root, before_root;
} among_t;

/** What cluster j sends and receives across its border, in parts of nccl-tests' size. Its own
    derivation. */
static void expected(ccl_collective_kind_t kind, const among_t *j, double *send, double *recv) {
    double total = j->total, nc = j->nc, n0 = j->n0;
    switch (kind) {
    case CCL_ALLREDUCE: /* reduce-scatter, then all-gather round the ring of clusters */
        *send = *recv = 2 * (nc - 1) / nc;
        break;
    case CCL_ALLGATHER: /* everything but what the next cluster has; everything it has not */
        *send = (total - j->next) / total;
        *recv = (total - n0) / total;
        break;
    case CCL_REDUCESCATTER: /* a sum for each foreign rank; from each other cluster one per rank */
        *send = (total - n0) / total;
        *recv = (nc - 1) * n0 / total;
        break;
    case CCL_BROADCAST: /* once round, and not back to the root */
        *send = !j->before_root;
        *recv = !j->root;
        break;
    case CCL_REDUCE: /* the sum once round, ending at the root */
        *send = !j->root;
        *recv = !j->after_root;
        break;
    case CCL_GATHER:
        *send = j->root ? 0 : n0 / total;
        *recv = j->root ? (total - n0) / total : 0;
        break;
    case CCL_SCATTER:
        *send = j->root ? (total - n0) / total : 0;
        *recv = j->root ? 0 : n0 / total;
        break;
    default: /* alltoall: a block of size / G for each pair */
        *send = *recv = n0 * (total - n0) / total;
        break;
    }
}

static void check_volumes(const char *spec, ccl_collective_kind_t kind, uint32_t root,
                          ccl_c2c_options_t options, uint32_t nclusters) {
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_cluster_t cluster;
    ccl_i_c2c_map_t map;
    double send[64] = {0}, recv[64] = {0};
    ck_assert_int_eq(ccl_i_cluster_init(&cluster, topo, routes, NULL), CCL_OK);
    ck_assert_int_eq(ccl_i_c2c_map_init(&cluster, options.clusters, &map, NULL), CCL_OK);
    ck_assert_uint_eq(map.nclusters, nclusters);
    ccl_schedule_t *schedule = make(topo, "c2c", kind, root, options);
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        uint32_t from = map.of[t->src], to = map.of[t->dst];
        if (from == to)
            continue;
        send[from] += schedule->coll->chunks[t->chunk].share;
        recv[to] += schedule->coll->chunks[t->chunk].share;
        /* Sums are left to the receiving cluster; a single rank has nobody to leave them to. */
        ck_assert_msg(!t->reduce || map.clusters[to].nranks == 1,
                      "%s: rank %u adds what comes from "
                      "rank %u",
                      spec, t->dst, t->src);
    }
    for (uint32_t j = 0; j < nclusters; j++) {
        uint32_t r = map.of[root], next = (j + 1) % nclusters;
        double wants, gets;
        const among_t among = {topo->nranks,
                               nclusters,
                               map.clusters[j].nranks,
                               map.clusters[next].nranks,
                               j == r,
                               j == (r + 1) % nclusters,
                               next == r};
        expected(kind, &among, &wants, &gets);
        ck_assert_msg(fabs(send[j] - wants) < 1e-9, "%s %s: cluster %u sends %g, not %g", spec,
                      ccl_collective_kind_name(kind), j, send[j], wants);
        ck_assert_msg(fabs(recv[j] - gets) < 1e-9, "%s %s: cluster %u receives %g, not %g", spec,
                      ccl_collective_kind_name(kind), j, recv[j], gets);
    }
    ccl_schedule_destroy(schedule);
    ccl_i_c2c_map_fini(&map);
    ccl_i_cluster_fini(&cluster);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}

static const struct {
    const char *spec;
    uint32_t clusters, nclusters, root;
    const char *inner, *why;
} volumes[] = {
    {"hetccl-pku-a800+hw3", 2, 2, 3, "recursive", "two servers"},
    {"hetccl-pku-a800+hw1", 2, 2, 20, "direct", "a NIC for 16 devices"},
    {"hetccl-snu", 2, 2, 1, "ring", "two servers of each vendor, an inner synthesizer named"},
    {mixed3, 3, 3, 9, NULL, "three vendors, one with a single rank"},
    {mixed3, 3, 3, 14, "direct", "the single rank is the root"},
    {mixed3, 4, 4, 0, "ring", "a vendor split"},
    {"servers:4 gpus:2 nvswitch=200GB/s,1us nics:2x25GB/s,2us", 2, 2, 5, "hm", "one vendor, 2 + 2"},
};
static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                              CCL_ALLTOALL,  CCL_BROADCAST, CCL_REDUCE,
                                              CCL_GATHER,    CCL_SCATTER};

START_TEST(test_volumes) {
    for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k += SANITIZED ? 3 : 1)
        check_volumes(volumes[_i].spec, kinds[k], volumes[_i].root,
                      (ccl_c2c_options_t){volumes[_i].clusters, volumes[_i].inner},
                      volumes[_i].nclusters);
}
END_TEST

/* ---------------------------------------------------------------- clusters */

static void check_clusters(const ccl_topology_t *topo, uint32_t nclusters, const char *want) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_cluster_t cluster;
    ccl_i_c2c_map_t map;
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_i_cluster_init(&cluster, topo, routes, NULL), CCL_OK);
    if (ccl_i_c2c_map_init(&cluster, nclusters, &map, &err) == CCL_OK) {
        for (uint32_t j = 0; j < map.nclusters; j++) {
            const ccl_i_c2c_cluster_t *k = &map.clusters[j];
            ccl_text_printf(&text, "%s%s:%u-%u %gGB/s borders", j ? "; " : "", k->vendor,
                            k->ranks[0], k->ranks[k->nranks - 1], k->Bps / 1e9);
            for (uint32_t b = 0; b < k->nborders; b++)
                ccl_text_printf(&text, " %u=%.4g", k->borders[b], k->share[b]);
        }
        ccl_i_c2c_map_fini(&map);
    } else {
        ccl_text_printf(&text, "%s", err.text);
    }
    ck_assert_str_eq(text.data, want);
    ccl_text_fini(&text);
    ccl_i_cluster_fini(&cluster);
    ccl_routes_destroy(routes);
}

static const struct {
    const char *spec, *edit;
    uint32_t nclusters;
    const char *want, *why;
} maps[] = {
    {"hetccl-snu", NULL, 0,
     "NVIDIA:0-7 24GB/s borders 0=0.125 1=0.125 2=0.125 3=0.125 4=0.125 5=0.125 6=0.125 7=0.125; "
     "AMD:8-15 48GB/s borders 8=0.125 9=0.125 10=0.125 11=0.125 12=0.125 13=0.125 14=0.125 "
     "15=0.125",
     "four GPUs are as near to a NIC; PCIe is what is narrow"},
    {"hetccl-snu", NULL, CCL_I_C2C_BALANCED,
     "NVIDIA:0-7 24GB/s borders 0=0.125 1=0.125 2=0.125 3=0.125 4=0.125 5=0.125 6=0.125 7=0.125; "
     "AMD:8-11 24GB/s borders 8=0.25 9=0.25 10=0.25 11=0.25; "
     "AMD:12-15 24GB/s borders 12=0.25 13=0.25 14=0.25 15=0.25",
     "the faster vendor is split (section 4.4)"},
    {mixed3, NULL, 0,
     "A:0-7 200GB/s borders 0=0.125 1=0.125 2=0.125 3=0.125 4=0.125 5=0.125 6=0.125 7=0.125; "
     "B:8-13 100GB/s borders 8=0.1667 9=0.1667 10=0.1667 11=0.1667 12=0.1667 13=0.1667; "
     "C:14-14 25GB/s borders 14=1",
     "three vendors"},
    {mixed3, "degrade:s0/nic1-fabric/switch=5GB/s", 0,
     "A:0-7 180GB/s borders 0=0.1389 1=0.02778 2=0.1389 3=0.1389 4=0.1389 5=0.1389 6=0.1389 "
     "7=0.1389; "
     "B:8-13 100GB/s borders 8=0.1667 9=0.1667 10=0.1667 11=0.1667 12=0.1667 13=0.1667; "
     "C:14-14 25GB/s borders 14=1",
     "a slow NIC carries less"},
    {mixed3, NULL, 2, "2 clusters are too few: the GPUs are of 3 vendors", "vendors do not mix"},
    {mixed3, NULL, 5, "5 clusters are too many: there are 4 servers", "servers stay whole"},
    {"dgx-a100", NULL, 0, "all GPUs are of one vendor", "one server"},
};

START_TEST(test_clusters) {
    ccl_topology_t *topo = topology(maps[_i].spec), *edited = NULL;
    if (maps[_i].edit) {
        ck_assert_int_eq(ccl_topology_edit(topo, maps[_i].edit, &edited, NULL), CCL_OK);
        ccl_topology_destroy(topo);
        topo = edited;
    }
    check_clusters(topo, maps[_i].nclusters, maps[_i].want);
    ccl_topology_destroy(topo);
}
END_TEST

/* A slow NIC's border sends as much less: shares of 36 units, by largest remainder. */
START_TEST(test_shares) {
    ccl_topology_t *topo = topology("hetccl-pku-a800+hw3"), *edited = NULL;
    double sent[16] = {0}, most = 0;
    ck_assert_int_eq(
        ccl_topology_edit(topo, "degrade:s0/nic1-fabric/switch=12.5GB/s", &edited, NULL), CCL_OK);
    ccl_schedule_t *schedule =
        make(edited, "c2c", CCL_ALLREDUCE, 0, (ccl_c2c_options_t){0, "direct"});
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        if (t->src < 8 && t->dst >= 8)
            sent[t->src] += schedule->coll->chunks[t->chunk].share;
    }
    for (uint32_t r = 0; r < 8; r++)
        most = fmax(most, fabs(sent[r] - (r == 1 ? 1 : 2) / 15.0));
    /* Two phases, each divided into whole chunks. */
    ck_assert_msg(most <= 2.0 / schedule->coll->nchunks, "off by %g", most);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(edited);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- speed */

static const struct {
    const char *spec;
    double ratio, gap;
    double phase_us[3], together_us; /* by hand: chunks of 1/16 GB */
    const char *why;
} speeds[] = {
    /* 7 chunks over 200 GB/s, 1 over 25 GB/s, 7 over 200 GB/s; 14 over 200 GB/s */
    {"hetccl-pku-a800+hw3",
     1.3,
     1.1,
     {2187.5, 2500, 2187.5},
     4375,
     "every rank a border rank: figure 9"},
    /* one NIC of 12.5 GB/s for 8 chunks each way, 16 on the other side */
    {"hetccl-pku-a800+hw1",
     1.3,
     1.1,
     {12500, 160e3 / 3, 6250},
     160e3 / 3,
     "one NIC of 100 Gbit/s for 16"},
    {"hetccl-pku-hw2+hw3",
     1.3,
     1.2,
     {2187.5, 1250, 2187.5},
     4375,
     "more than a chunk over the border is against the rule"},
    /* 7 chunks each over 12 GB/s of PCIe; 15 of them in all, with the one over the border */
    {"hetccl-snu",
     1.1,
     1.1,
     {7 * 62.5e3 / 12, 62500.0 / 6, 7 * 62.5e3 / 12},
     15 * 62.5e3 / 12,
     "the PCIe links of the V100 carry all phases: less to overlap"},
};

/* What links have to do in each phase and in all, by hand; no time is below it. */
static void check_loads(size_t i, const ccl_topology_t *topo, const ccl_schedule_t *pipelined,
                        double fast, double slow) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_c2c_stats_t s;
    double phases_s = 0;
    ck_assert_int_eq(ccl_c2c_load(topo, routes, pipelined, 1e9, &s, NULL), CCL_OK);
    for (int p = 0; p < 3; p++) {
        ck_assert_msg(fabs(1e6 * s.phase_s[p] / speeds[i].phase_us[p] - 1) < 1e-6,
                      "%s, phase %d: %.9g us", speeds[i].spec, p, 1e6 * s.phase_s[p]);
        phases_s += s.phase_s[p];
    }
    ck_assert_msg(fabs(1e6 * s.together_s / speeds[i].together_us - 1) < 1e-6, "%s: %.9g us",
                  speeds[i].spec, 1e6 * s.together_s);
    ck_assert_double_eq_tol(s.overlap_gain, phases_s / s.together_s, 1e-9);
    /* The bound of the rule is reached within 3 %; so the condition decides. */
    ck_assert_msg(fast >= s.together_s && fast <= 1.03 * s.together_s, "%s: %g for %g",
                  speeds[i].spec, fast, s.together_s);
    ck_assert_msg(slow >= phases_s && slow >= s.overlap_gain / 1.03 * fast,
                  "%s: sequential %g, phases %g", speeds[i].spec, slow, phases_s);
    ccl_routes_destroy(routes);
}

START_TEST(test_speed) {
    ccl_topology_t *topo = topology(speeds[_i].spec);
    ccl_c2c_options_t options = {0};
    ccl_schedule_t *pipelined = make(topo, "c2c", CCL_ALLGATHER, 0, options);
    ccl_schedule_t *sequential = make(topo, "c2c-sequential", CCL_ALLGATHER, 0, options);
    ccl_bound_options_t how = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    how.size_bytes = 1e9;
    ck_assert_int_eq(ccl_bound(NULL, topo, pipelined->coll, &how, &bound, NULL), CCL_OK);
    double fast = time_of(topo, pipelined, 1e9, 0), slow = time_of(topo, sequential, 1e9, 1);
    ck_assert_msg(slow >= speeds[_i].ratio * fast, "%s: sequential %g, pipelined %g",
                  speeds[_i].spec, slow, fast);
    ck_assert_msg(fast <= speeds[_i].gap * bound.time_s, "%s: %g, bound %g", speeds[_i].spec, fast,
                  bound.time_s);
    ck_assert_msg(fast >= bound.time_s * (1 - 1e-9), "below the bound");
    check_loads((size_t)_i, topo, pipelined, fast, slow);
    ccl_bound_fini(&bound);
    ccl_schedule_destroy(sequential);
    ccl_schedule_destroy(pipelined);
    ccl_topology_destroy(topo);
}
END_TEST

static const struct {
    const char *spec, *name;
    ccl_collective_kind_t kind;
    ccl_c2c_options_t options;
    const char *want;
} refused[] = {
    {"dgx-a100",
     "c2c",
     CCL_ALLGATHER,
     {0, NULL},
     "c2c cannot do allgather here: all GPUs are of one vendor; --clusters N splits them"},
    {"hetccl-snu",
     "c2c",
     CCL_SENDRECV,
     {0, NULL},
     "c2c cannot do sendrecv here: it is not one of the eight collectives between clusters; use "
     "direct"},
    {"hetccl-snu",
     "c2c-sequential",
     CCL_ALLGATHER,
     {9, NULL},
     "9 clusters are too many: there are 4 servers"},
    {"hetccl-snu",
     "c2c",
     CCL_REDUCESCATTER,
     {0, "pxn"},
     "pxn cannot do reducescatter here: every rank needs all data, so a relay per destination "
     "would repeat it; use hm"},
};

START_TEST(test_refused) {
    ccl_topology_t *topo = topology(refused[_i].spec);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(
        try(topo, refused[_i].name, refused[_i].kind, 0, refused[_i].options, &schedule, &err),
        CCL_UNSUPPORTED);
    ck_assert_str_eq(err.text, refused[_i].want);
    ck_assert_ptr_null(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- inside */

static const struct {
    const char *cluster;
    ccl_collective_kind_t kind;
    double size, most_s; /* of what is chosen */
} choices[] = {
    /* The ring that is fastest inside by itself takes 741 us. */
    {"hetccl-snu", CCL_ALLGATHER, 4 * 1048576.0, 380e-6},
    {"hetccl-pku-a800+hw1", CCL_ALLREDUCE, 4 * 1048576.0, 450e-6},
    {"hetccl-pku-hw2+hw3", CCL_REDUCESCATTER, 65536, 43e-6},
};

/* Who makes what is inside clusters is chosen by simulating the whole: nobody named does better,
   and it is the same again. */
START_TEST(test_inner) {
    static const char *const names[] = {"hm", "direct", "ring", "recursive"};
    ccl_topology_t *topo = topology(choices[_i].cluster);
    ccl_collective_t *want = collective(choices[_i].kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *chosen = NULL, *again = NULL;
    options.size_bytes = choices[_i].size;
    ck_assert_int_eq(ccl_synthesize(NULL, "c2c", topo, NULL, want, &options, &chosen, NULL),
                     CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "c2c", topo, NULL, want, &options, &again, NULL), CCL_OK);
    ck_assert(ccl_schedule_equal(chosen, again));
    double best_s = time_of(topo, chosen, options.size_bytes, 0);
    ck_assert_msg(best_s <= choices[_i].most_s, "%g us", best_s * 1e6);
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++) {
        ccl_schedule_t *named = NULL;
        options.c2c.inner = names[i];
        if (ccl_synthesize(NULL, "c2c", topo, NULL, want, &options, &named, NULL) == CCL_OK)
            ck_assert_msg(best_s <= time_of(topo, named, options.size_bytes, 0) * (1 + 1e-9),
                          "%s is faster", names[i]);
        ccl_schedule_destroy(named);
    }
    ccl_schedule_destroy(again);
    ccl_schedule_destroy(chosen);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.c2c");
    TCase *tcase = tcase_create("c2c");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_clusters, 0, CCL_ARRAY_LEN(maps));
    tcase_add_loop_test(tcase, test_volumes, 0, SANITIZED ? 3 : (int)CCL_ARRAY_LEN(volumes));
    tcase_add_test(tcase, test_shares);
    tcase_add_loop_test(tcase, test_speed, 0, CCL_ARRAY_LEN(speeds));
    tcase_add_loop_test(tcase, test_inner, 0, SANITIZED ? 1 : (int)CCL_ARRAY_LEN(choices));
    tcase_add_loop_test(tcase, test_refused, 0, CCL_ARRAY_LEN(refused));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
