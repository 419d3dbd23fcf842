/* Bounds against all vertex sets of small random clusters, with switches and groups. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "tests/topologies/topologies.h"

enum { MOST = 9 };

typedef struct random_topology {
    ccl_topology_t *topo;
    bool left; /* has a group that no vertex stands for */
} random_topology_t;

static random_topology_t make(ccl_rng_t *rng, bool duplex, bool groups) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("random");
    random_topology_t out = {NULL, false};
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t gpus = 2 + ccl_rng_below(rng, 4), n = gpus + ccl_rng_below(rng, 4), links = 0;
    uint32_t from[80], to[80];
    for (uint32_t i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof id, "d%u", i);
        ck_assert_int_eq(
            ccl_topology_builder_device(b, id, i < gpus ? CCL_DEVICE_GPU : CCL_DEVICE_SWITCH, NULL,
                                        i < gpus ? i : CCL_NONE, NULL, NULL, &err),
            CCL_OK);
    }
    uint32_t extra = ccl_rng_below(rng, 2 * n);
    for (uint32_t i = 0; i < n + extra; i++) { /* a ring through all, then whatever */
        uint32_t u = i < n ? i : ccl_rng_below(rng, n);
        uint32_t v = i < n ? (i + 1) % n : ccl_rng_below(rng, n);
        double Bps = (1 + ccl_rng_below(rng, 12)) * 2.5e9;
        if (u == v)
            continue;
        if (duplex)
            ck_assert_int_eq(ccl_topology_builder_duplex(b, u, v, "nvlink", Bps, 1e-6, 1, 0, &err),
                             CCL_OK);
        else
            ck_assert_int_eq(ccl_topology_builder_link(b, u, v, "nvlink", Bps, 1e-6, 1, 0, &err),
                             CCL_OK);
        from[links] = u;
        to[links++] = v;
        if (duplex) {
            from[links] = v;
            to[links++] = u;
        }
    }
    for (uint32_t g = 0; groups && g < 2; g++) {
        uint32_t device = ccl_rng_below(rng, n), list[80], len = 0;
        bool out_of = g == 0;
        for (uint32_t l = 0; l < links; l++) {
            if ((out_of ? from[l] : to[l]) == device)
                list[len++] = l;
        }
        char name[16];
        snprintf(name, sizeof name, "g%u", g);
        if (len > 0)
            ck_assert_int_eq(ccl_topology_builder_group(
                                 b, name, (1 + ccl_rng_below(rng, 12)) * 2.5e9, list, len, &err),
                             CCL_OK);
    }
    ccl_status_t status = ccl_topology_builder_finish(b, &out.topo, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ccl_topology_builder_destroy(b);
    return out;
}

/* Capacity out of a set in units of 2.5e9 B/s: a link counts its own rate, a group no more than its
 * own. Groups here are one out-group and one in-group; a link in both is cut once, at the cheapest.
 */
static double cut_of(const ccl_topology_t *t, uint32_t set) {
    double best = INFINITY;
    for (uint32_t use = 0; use < 1u << t->ngroups; use++) { /* which groups are cut as a whole */
        double sum = 0;
        bool covered[80] = {false};
        for (uint32_t g = 0; g < t->ngroups; g++) {
            if (!(use >> g & 1))
                continue;
            sum += t->groups[g].bandwidth_Bps;
            for (uint32_t i = 0; i < t->groups[g].nlinks; i++)
                covered[t->groups[g].links[i]] = true;
        }
        for (uint32_t l = 0; l < t->nlinks; l++) {
            if (!covered[l] && (set >> t->links[l].from & 1) && !(set >> t->links[l].to & 1))
                sum += t->links[l].bandwidth_Bps;
        }
        best = fmin(best, sum);
    }
    return best;
}

/* Parts of the message that must leave the set, whatever the schedule. */
static double must_leave(const ccl_topology_t *t, ccl_collective_kind_t kind, uint32_t root,
                         uint32_t set) {
    uint32_t n = t->nranks, in = 0;
    for (uint32_t r = 0; r < n; r++)
        in += set >> t->rank_device[r] & 1;
    bool has_root = set >> t->rank_device[root] & 1;
    if (in == 0 || in == n)
        return 0;
    switch (kind) {
    case CCL_ALLGATHER:
        return (double)in / n;
    case CCL_REDUCESCATTER:
        return (double)(n - in) / n;
    case CCL_BROADCAST:
        return has_root;
    case CCL_REDUCE:
        return !has_root;
    case CCL_GATHER:
        return has_root ? 0 : (double)in / n;
    case CCL_SCATTER:
        return has_root ? (double)(n - in) / n : 0;
    case CCL_ALLTOALL:
        return (double)in * (n - in) / n;
    default:
        return 1; /* AllReduce */
    }
}

static const ccl_collective_kind_t by_cuts[] = {CCL_ALLGATHER, CCL_REDUCESCATTER, CCL_BROADCAST,
                                                CCL_REDUCE,    CCL_GATHER,        CCL_SCATTER};

static double brute(const ccl_topology_t *t, ccl_collective_kind_t kind, uint32_t root) {
    double least = INFINITY;
    for (uint32_t set = 1; set + 1 < 1u << t->ndevices; set++) {
        double parts = must_leave(t, kind, root, set);
        if (parts > 0)
            least = fmin(least, cut_of(t, set) / parts);
    }
    return least;
}

static ccl_bound_t bound_of(const ccl_topology_t *t, ccl_collective_kind_t kind, uint32_t root) {
    ccl_collective_t *coll = NULL;
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(kind, t->nranks, 1, root, &coll, &err), CCL_OK);
    ccl_status_t status = ccl_bound(NULL, t, coll, NULL, &bound, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", coll->name, err.text);
    ccl_collective_destroy(coll);
    return bound;
}

/* The witness is what it claims to be. */
static void check_witness(const ccl_topology_t *t, ccl_collective_kind_t kind, uint32_t root,
                          const ccl_bandwidth_bound_t *b) {
    uint32_t set = 0;
    for (uint32_t v = 0; v < t->ndevices; v++)
        set |= (b->part[v] == 1) << v;
    double parts = must_leave(t, kind, root, set);
    ck_assert(parts > 0);
    ck_assert_double_eq_tol(cut_of(t, set) / parts / b->Bps, 1, 1e-12);
    ck_assert_uint_gt(b->nlinks, 0);
}

/* The links of a partition are what its parts can send over (or receive), each counted once. */
static void check_partition(const ccl_topology_t *t, const ccl_bandwidth_bound_t *b) {
    double sum = 0;
    for (uint32_t i = 0; i < b->nlinks; i++) {
        const ccl_link_t *link = &t->links[b->links[i]];
        sum += link->bandwidth_Bps;
        ck_assert(b->part[link->from] == CCL_NONE || b->part[link->to] == CCL_NONE ||
                  b->part[link->from] != b->part[link->to]);
    }
    ck_assert_double_eq_tol(sum / (2.0 * (b->nparts - 1)) / b->Bps, 1, 1e-9);
}

START_TEST(partitions_have_links) {
    static const char *const specs[] = {"heteccl-h20-4x8+8x4", "dgx-a100",
                                        "servers:3 gpus:2 nvswitch=100GB/s nics:2x10GB/s"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(specs); i++) {
        ccl_topology_t *t = topology(specs[i]);
        ccl_bound_t b = bound_of(t, CCL_ALLREDUCE, 0);
        ck_assert_int_eq(b.bandwidth.proof, CCL_BOUND_PARTITION);
        check_partition(t, &b.bandwidth);
        ccl_bound_fini(&b);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* Two GPUs share a PCIe switch whose way up is as narrow as theirs, and a NIC: pairs send less than
   two GPUs, and less than their server. */
START_TEST(pairs_behind_a_switch) {
    ccl_text_t text = {0};
    ccl_topology_t *t = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_printf(&text, "{\"format\":\"ccllab-topology-1\",\"name\":\"pairs\",\"devices\":["
                           "{\"id\":\"f\",\"kind\":\"switch\"}");
    for (int g = 0; g < 12; g++)
        ccl_text_printf(&text, ",{\"id\":\"g%d\",\"kind\":\"gpu\",\"server\":\"s%d\",\"rank\":%d}",
                        g, g / 4, g);
    for (int p = 0; p < 6; p++)
        ccl_text_printf(&text,
                        ",{\"id\":\"p%d\",\"kind\":\"switch\",\"server\":\"s%d\"}"
                        ",{\"id\":\"n%d\",\"kind\":\"nic\",\"server\":\"s%d\"}",
                        p, p / 2, p, p / 2);
    ccl_text_printf(&text, "],\"links\":[");
    for (int p = 0; p < 6; p++)
        ccl_text_printf(
            &text, "%s{\"from\":\"n%d\",\"to\":\"f\",\"kind\":\"net\",\"bandwidth\":\"12GB/s\"}",
            p ? "," : "", p);
    for (int g = 0; g < 12; g++)
        ccl_text_printf(
            &text,
            ",{\"from\":\"g%d\",\"to\":\"p%d\",\"kind\":\"pcie\",\"bandwidth\":\"24GB/s\"}"
            ",{\"from\":\"g%d\",\"to\":\"n%d\",\"kind\":\"pcie\",\"bandwidth\":\"32GB/s\"}",
            g, g / 2, g, g / 2);
    for (int s = 0; s < 3; s++)
        ccl_text_printf(
            &text, ",{\"from\":\"p%d\",\"to\":\"p%d\",\"kind\":\"pcie\",\"bandwidth\":\"12GB/s\"}",
            2 * s, 2 * s + 1);
    ccl_text_printf(&text, "]}");
    ck_assert_msg(ccl_topology_read_text(NULL, "pairs", text.data, text.len, &t, &err) == CCL_OK,
                  "%s", err.text);
    ccl_text_fini(&text);
    ccl_bound_t b = bound_of(t, CCL_ALLREDUCE, 0);
    ck_assert_int_eq(b.bandwidth.proof, CCL_BOUND_PARTITION);
    ck_assert_uint_eq(b.bandwidth.nparts, 6);
    ck_assert_double_eq_tol(b.bandwidth.Bps, 6 * 24e9 / 10, 1);
    check_partition(t, &b.bandwidth);
    ccl_bound_fini(&b);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(cuts_are_the_tightest) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 11);
    for (int round = 0; round < 250; round++) {
        random_topology_t r = make(&rng, round % 2, round % 3 == 0);
        const ccl_topology_t *t = r.topo;
        uint32_t root = ccl_rng_below(&rng, t->nranks);
        for (size_t k = 0; k < CCL_ARRAY_LEN(by_cuts); k++) {
            ccl_bound_t b = bound_of(t, by_cuts[k], root);
            double want = brute(t, by_cuts[k], root);
            ck_assert_msg(fabs(b.bandwidth.Bps / want - 1) < 1e-12, "%s: %.17g, all sets say %.17g",
                          ccl_collective_kind_name(by_cuts[k]), b.bandwidth.Bps, want);
            ck_assert_uint_gt(b.bandwidth.exact_Bps.den, 0);
            ck_assert_int_eq(b.bandwidth.proof, CCL_BOUND_CUT);
            check_witness(t, by_cuts[k], root, &b.bandwidth);
            ccl_bound_fini(&b);
        }
        /* AllReduce is at least as tight as every cut; trees cannot pass it. */
        ccl_bound_t b = bound_of(t, CCL_ALLREDUCE, 0);
        ck_assert_double_le(b.bandwidth.Bps, brute(t, CCL_ALLREDUCE, 0) * (1 + 1e-12));
        ck_assert_double_le(b.bandwidth.trees_Bps, b.bandwidth.Bps * (1 + 1e-6));
        ccl_bound_fini(&b);
        /* So is AllToAll, and it is met where it says so. */
        b = bound_of(t, CCL_ALLTOALL, 0);
        ck_assert_double_le(b.bandwidth.Bps, brute(t, CCL_ALLTOALL, 0) * (1 + 1e-9));
        ck_assert_msg(b.bandwidth.tight, "round %d: the flow program did not settle", round);
        ccl_bound_fini(&b);
        ccl_topology_destroy(r.topo);
    }
}
END_TEST

/* Parts of some GPUs each on one switch, of 10 GB/s each, but one link into part `into` and one out
 * of another share a group that no vertex stands for. Parts of several GPUs have a switch; part 0
 * is joined by a wider link, and servers have half of the parts each. */
static ccl_topology_t *alike_but_for_a_group(uint32_t parts, uint32_t gpus, uint32_t into,
                                             double Bps) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("alike");
    uint32_t core = add_device(b, "core", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    uint32_t links = 0, shared[2] = {0, 0}, rank = 0;
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t part = CCL_NONE;
        const char *server = 2 * p < parts ? "a" : "b";
        char id[24];
        snprintf(id, sizeof id, "s%u", p);
        if (gpus > 1)
            part = add_device(b, id, CCL_DEVICE_SWITCH, server, CCL_NONE);
        for (uint32_t g = 0; g < gpus; g++) {
            snprintf(id, sizeof id, "g%u.%u", p, g);
            uint32_t gpu = add_device(b, id, CCL_DEVICE_GPU, server, rank++);
            if (gpus == 1) {
                part = gpu;
                continue;
            }
            add_duplex(b, gpu, part, "nvlink", 20, 1);
            links += 2;
        }
        add_duplex(b, part, core, "nvlink", gpus > 1 && p == 0 ? 40 : 10, 1);
        if (p == into)
            shared[0] = links + 1;
        if (p == into + 1)
            shared[1] = links;
        links += 2;
    }
    MUST(ccl_topology_builder_group(b, "group", Bps, shared, 2, e));
    return finish(b);
}

/* Cuts around the parts at such a group are not those around the others. */
START_TEST(groups_break_symmetry) {
    enum { N = 26 };
    static const struct {
        ccl_collective_kind_t kind;
        uint32_t parts, gpus;
        double group_Bps, Bps;
        const char *why;
    } rows[] = {
        {CCL_ALLGATHER, N, 1, 4e9, 4e9 * N / (N - 1), "all but its own into one GPU"},
        {CCL_REDUCESCATTER, N, 1, 4e9, 4e9 * N / (N - 1), "all but its own out of one GPU"},
        {CCL_ALLTOALL, N, 1, 4e9, 4e9 * N / (N - 1), "all but its own into one GPU"},
        {CCL_BROADCAST, N, 1, 4e9, 4e9, "all into one GPU"},
        {CCL_REDUCE, N, 1, 4e9, 4e9, "all out of one GPU"},
        {CCL_ALLREDUCE, N, 1, 4e9, 4e9, "a sum into one GPU"},
        {CCL_ALLREDUCE, N, 1, 8e9, (10e9 * (N - 1) + 8e9) / (2 * (N - 1)),
         "the partition into GPUs, of which one takes less"},
        {CCL_ALLREDUCE, 8, 2, 3e9, 3e9, "a sum into two GPUs on a switch"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *t =
            alike_but_for_a_group(rows[i].parts, rows[i].gpus, 5, rows[i].group_Bps);
        ccl_bound_t bound = bound_of(t, rows[i].kind, 0);
        ck_assert_msg(fabs(bound.bandwidth.Bps / rows[i].Bps - 1) < 1e-12,
                      "%s, %s: %.12g, not %.12g", ccl_collective_kind_name(rows[i].kind),
                      rows[i].why, bound.bandwidth.Bps, rows[i].Bps);
        ccl_bound_fini(&bound);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* The latency bound begins with the launch of the GPU that the data come from. */
START_TEST(launch_counts) {
    static const char text[] =
        "{\"format\":\"ccllab-topology-1\",\"name\":\"pair\",\"devices\":["
        "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0,\"model\":\"A\"},"
        "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1,\"model\":\"B\"}],\"links\":["
        "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"10GB/s\","
        "\"latency\":\"2us\"}],"
        "\"transports\":{\"nvlink\":{\"overhead\":\"1us\"}},"
        "\"gpu_models\":{\"A\":{\"launch\":\"5us\"},\"B\":{\"launch\":\"70us\"}}}";
    ccl_topology_t *t = topology_of(text);
    for (uint32_t root = 0; root < 2; root++) {
        ccl_bound_t bound = bound_of(t, CCL_BROADCAST, root);
        ck_assert_uint_eq(bound.latency.from, root);
        ck_assert_double_eq_tol(bound.latency.latency_s, root ? 74e-6 : 9e-6, 1e-15);
        ccl_bound_fini(&bound);
    }
    ccl_topology_destroy(t);
}
END_TEST

/* A hop has the constants of its route's kind: net before pcie before that of the first link. */
START_TEST(kinds_of_hops) {
    static const struct {
        const char *first, *second;
        double us; /* 1 and 2 of the links, and the transport's */
    } rows[] = {{"nvlink", "nvlink", 3 + 7},
                {"nvlink", "pcie", 3 + 40},
                {"pcie", "nvlink", 3 + 40},
                {"pcie", "net", 3 + 500}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        static const char *const kinds[] = {"nvlink", "pcie", "net"};
        static const double latency_us[] = {7, 40, 500};
        ccl_topology_builder_t *b = with_gpus("hops", 2);
        uint32_t sw = add_device(b, "s", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
        add_duplex(b, 0, sw, rows[i].first, 10, 1);
        add_duplex(b, sw, 1, rows[i].second, 10, 2);
        for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
            ccl_transport_spec_t spec = {.kind = kinds[k], .given = CCL_TRANSPORT_LATENCY};
            spec.given |= CCL_TRANSPORT_OVERHEAD;
            spec.value.latency_s = latency_us[k] * 1e-6;
            MUST(ccl_topology_builder_transport(b, &spec, e));
        }
        ccl_topology_t *t = finish(b);
        ccl_bound_t bound = bound_of(t, CCL_BROADCAST, 0);
        ck_assert_double_eq_tol(bound.latency.latency_s * 1e6, rows[i].us, 1e-9);
        ccl_bound_fini(&bound);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* Groups of any links, which share some: what a bound says of them is never below what all sets
 * say. */
START_TEST(any_groups) {
    ccl_rng_t rng;
    uint32_t tight = 0, cases = 0;
    ccl_rng_init(&rng, 29);
    for (int round = 0; round < 150; round++) {
        uint32_t gpus = 3 + ccl_rng_below(&rng, 3);
        ccl_topology_builder_t *b = with_gpus("random", gpus);
        uint32_t sw = add_device(b, "s", CCL_DEVICE_SWITCH, NULL, CCL_NONE), links = 0;
        for (uint32_t r = 0; r < gpus; r++) {
            add_duplex(b, r, sw, "nvlink", (1 + ccl_rng_below(&rng, 12)) * 2.5, 1);
            add_duplex(b, r, (r + 1) % gpus, "nvlink", (1 + ccl_rng_below(&rng, 12)) * 2.5, 1);
            links += 4;
        }
        for (uint32_t g = 0; g < 3; g++) {
            uint32_t list[80], len = 0;
            char name[16];
            for (uint32_t l = 0; l < links; l++)
                if (ccl_rng_below(&rng, 3) == 0)
                    list[len++] = l;
            snprintf(name, sizeof name, "g%u", g);
            if (len > 0)
                MUST(ccl_topology_builder_group(b, name, (1 + ccl_rng_below(&rng, 12)) * 2.5e9,
                                                list, len, e));
        }
        ccl_topology_t *t = finish(b);
        for (size_t k = 0; k < CCL_ARRAY_LEN(by_cuts); k++) {
            ccl_bound_t bound = bound_of(t, by_cuts[k], 0);
            double want = brute(t, by_cuts[k], 0);
            ck_assert_msg(bound.bandwidth.Bps >= want * (1 - 1e-12),
                          "%s: %.17g, all sets say %.17g", ccl_collective_kind_name(by_cuts[k]),
                          bound.bandwidth.Bps, want);
            tight += bound.bandwidth.Bps <= want * (1 + 1e-12);
            cases++;
            ccl_bound_fini(&bound);
        }
        ccl_topology_destroy(t);
    }
    ck_assert_uint_gt(tight, cases / 10);
}
END_TEST

/* With one demand each, the bound of a demand is that of the collective. */
START_TEST(demands) {
    static const char *const texts[] = {
        "{\"format\":\"ccllab-demand-1\",\"nranks\":3,\"chunks\":["
        "{\"source\":0,\"destinations\":[1],\"bytes\":3000000},"
        "{\"source\":2,\"destinations\":[1],\"bytes\":1000000}]}",
    };
    ccl_topology_t *t = topology("servers:1 gpus:3 nvswitch=10GB/s,1us");
    ccl_collective_t *coll = NULL;
    ccl_bound_t b;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_demand_read_text("d", texts[0], strlen(texts[0]), &coll, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    options.size_bytes = coll->natural_bytes;
    ck_assert_int_eq(ccl_bound(NULL, t, coll, &options, &b, &err), CCL_OK);
    ck_assert_double_eq_tol(b.bandwidth_s, 4e6 / 10e9, 1e-9); /* rank 1 receives 4 MB at 10 GB/s */
    ck_assert_double_eq_tol(b.latency.latency_s, 1e-6, 1e-12);
    ck_assert_double_eq_tol(b.time_s, 4.01e-4, 1e-9); /* and the last byte a microsecond later */
    ccl_bound_fini(&b);
    ccl_collective_destroy(coll);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(refusals) {
    ccl_topology_t *t = topology("dgx-a100");
    ccl_collective_t *coll = NULL;
    ccl_bound_t b;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &coll, &err), CCL_OK);
    ck_assert_int_eq(ccl_bound(NULL, t, coll, NULL, &b, &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "the collective has 4 ranks, topology dgx-a100 has 8");
    ccl_collective_destroy(coll);
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bounds");
    TCase *tc = tcase_create("bounds");
    tcase_set_timeout(tc, 110);
    tcase_add_test(tc, cuts_are_the_tightest);
    tcase_add_test(tc, partitions_have_links);
    tcase_add_test(tc, pairs_behind_a_switch);
    tcase_add_test(tc, any_groups);
    tcase_add_test(tc, groups_break_symmetry);
    tcase_add_test(tc, launch_counts);
    tcase_add_test(tc, kinds_of_hops);
    tcase_add_test(tc, demands);
    tcase_add_test(tc, refusals);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
