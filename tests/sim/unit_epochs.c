/* Epoch flows replayed link by link: small ones by hand, TE-CCL's own against what was found apart.
 */
#include "sim/sim.h"
#include "tests/topologies/topologies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEERS CCLLAB_DATA_DIR "/peers/"

static ccl_epoch_flows_t *flows_from(const char *name, const char *text) {
    ccl_epoch_flows_t *flows = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_epoch_flows_read_text(name, text, strlen(text), &flows, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", name, err.text);
    return flows;
}

static double replay_s(const ccl_topology_t *topo, const ccl_epoch_flows_t *flows, double size,
                       bool multicast, uint64_t *sends) {
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_sim_epoch_flows(NULL, topo, flows, size, multicast, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    double time_s = result->time_s;
    if (sends)
        *sends = result->flows;
    ccl_sim_result_destroy(result);
    return time_s;
}

/* A switch between three GPUs, 1 GB/s in and 1 GB/s out, 1 us each. */
#define STAR                                                                                       \
    "{\"format\": \"ccllab-topology-1\", \"name\": \"star\", \"devices\": [{\"id\": \"s\", "       \
    "\"kind\": \"switch\"}, {\"id\": \"a\", \"kind\": \"gpu\", \"rank\": 0}, {\"id\": \"b\", "     \
    "\"kind\": \"gpu\", \"rank\": 1}, {\"id\": \"c\", \"kind\": \"gpu\", \"rank\": 2}], "          \
    "\"links\": [" LINK("a") ", " LINK("b") ", " LINK("c") "]}"
#define LINK(gpu_)                                                                                 \
    "{\"from\": \"" gpu_ "\", \"to\": \"s\", \"kind\": \"nvlink\", \"bandwidth\": \"1GB/s\", "     \
    "\"latency\": \"1us\"}"
#define DEMAND(d_, s_) "\"Demand at " #d_ " for chunk 0 from " #s_ " met by epoch 1\": []"
#define FLOW(s_, a_, b_, e_)                                                                       \
    "\"Chunk 0 from " #s_ " traveled over " #a_ "->" #b_ " in epoch " #e_ " via switches 0\""
#define PLAN(flows_)                                                                               \
    "{\"1-Epoch_Duration\": 1e-6, \"7-Flows\": [" flows_                                           \
    "], \"8-Chunk paths\": {" DEMAND(1, 2) ", " DEMAND(1, 3) ", " DEMAND(2, 1) ", " DEMAND(        \
        2, 3) ", " DEMAND(3, 1) ", " DEMAND(3, 2) "}}"

START_TEST(switch_copies_or_not) {
    ccl_topology_t *topo = topology_of(STAR);
    uint64_t sends;
    /* Chunks of 1000 bytes take 1 us on a link. All send to all in one epoch. */
    ccl_epoch_flows_t *all = flows_from(
        "all", PLAN(FLOW(1, 1, 2, 0) ", " FLOW(1, 1, 3, 0) ", " FLOW(2, 2, 1, 0) ", " FLOW(
                   2, 2, 3, 0) ", " FLOW(3, 3, 1, 0) ", " FLOW(3, 3, 2, 0)));
    /* Copied: in 0..1 us, out two one behind the other from 1 us on, so 1 + 2 + 1. */
    ck_assert_double_eq_tol(replay_s(topo, all, 3000, true, &sends), 4e-6, 1e-15);
    ck_assert_uint_eq(sends, 3 + 6);
    /*
     * Not copied, in the order of the file: 1 to 2, 1 to 3; 2 to 1, 2 to 3; 3 to 1, 3 to 2. Into
     * GPU 3: from 1 from 2 us (it was sent second) to 3, from 2 to 4. Into 2: from 1 by 2, from 3
     * by 3; into 1 from 2 by 2, from 3 by 3. Last arrival 4 + 1.
     */
    ck_assert_double_eq_tol(replay_s(topo, all, 3000, false, &sends), 5e-6, 1e-15);
    ck_assert_uint_eq(sends, 6 + 6);
    ccl_epoch_flows_destroy(all);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(relays_wait_and_orders_block) {
    ccl_topology_t *topo = topology_of(STAR);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_sim_result_t *result = NULL;
    /* GPU 3's chunk comes to 2 over 1; 1's link sends it before its own chunk, so both are late. */
    ccl_epoch_flows_t *relay = flows_from(
        "relay", PLAN(FLOW(3, 3, 1, 0) ", " FLOW(3, 1, 2, 1) ", " FLOW(1, 1, 2, 2) ", " FLOW(
                     1, 1, 3, 2) ", " FLOW(2, 2, 1, 3) ", " FLOW(2, 2, 3, 3)));
    /*
     * 3 to 1 arrives at 3, goes in at 3..4. 1's own goes in at 4..5, out to 2 and to 3 at 5..6. 2's
     * is at the switch from 1 us on, but its place on the link to 3 is behind: 6..7, arrives at 8.
     */
    ck_assert_double_eq_tol(replay_s(topo, relay, 3000, true, NULL), 8e-6, 1e-15);
    ccl_epoch_flows_destroy(relay);
    /* The chunk of 3 leaves 1 before its own, and comes only behind what waits for that. */
    relay = flows_from("knot", PLAN(FLOW(3, 1, 2, 0) ", " FLOW(1, 1, 3, 1) ", " FLOW(
                                   1, 3, 2, 2) ", " FLOW(3, 3, 1, 3)));
    ck_assert_int_eq(ccl_sim_epoch_flows(NULL, topo, relay, 3000, true, &result, &err), CCL_CHECK);
    ck_assert_msg(strstr(err.text, "cannot happen in this order"), "%s", err.text);
    ccl_epoch_flows_destroy(relay);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(refused) {
    ccl_topology_t *topo = topology_of(STAR),
                   *ring = topology("servers:1 gpus:4 nvswitch=1GB/s,1us");
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_epoch_flows_t *f = flows_from("f", PLAN(FLOW(1, 1, 2, 0)));
    ck_assert_int_eq(ccl_sim_epoch_flows(NULL, ring, f, 3000, true, &result, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "has 3 GPUs"), "%s", err.text);
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_sim_epoch_flows(NULL, topo, f, 0, true, &result, &err), CCL_ERR_INPUT);
    ccl_epoch_flows_destroy(f);
    ccl_error_clear(&err);
    f = flows_from("direct", PLAN("\"Chunk 0 from 1 traveled over 1->2 in epoch 0\""));
    ck_assert_int_eq(ccl_sim_epoch_flows(NULL, topo, f, 3000, true, &result, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "no link from a to b"), "%s", err.text);
    ccl_epoch_flows_destroy(f);
    ccl_topology_destroy(ring);
    ccl_topology_destroy(topo);
}
END_TEST

typedef struct plan {
    const char *file, *topology;
    double size, us, unicast_us;
} plan_t;

/* Retimed by an independent script. */
static const plan_t PLANS[] = {
    {"NDv2_output__2_chassis__AllGather__Slow__1MB", "teccl-ndv2-2x8-15", 937.5e3, 46.45, 46.45},
    {"NDv2_output__2_chassis__AllGather__Fast__1MB", "teccl-ndv2-2x8-15", 937.5e3, 47.0, 47.7},
    {"DGX2_output__2_chassis__AllGather__Slow__1GB", PEERS "topologies/dgx2_2x16.json", 1e9, 7753.3,
     13004.0},
    {"DGX2_output__2_chassis__AllGather__Fast__1GB", PEERS "topologies/dgx2_2x16.json", 1e9, 7757.3,
     14254.9},
    {"NDv2_output__4_chassis__AllGather__Slow__1GB", PEERS "topologies/ndv2_4x8.json", 1e9, 63754.0,
     116255.4},
};

START_TEST(shipped_plans) {
    const plan_t *plan = &PLANS[_i];
    char path[512];
    ccl_error_t err = CCL_ERROR_INIT;
    char *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, PEERS "schedules/teccl/%s.json", plan->file);
    ck_assert_msg(ccl_file_read(path, 1 << 24, &text, &len, &err) == CCL_OK, "%s", err.text);
    ccl_topology_t *topo = topology(plan->topology);
    ccl_epoch_flows_t *flows = flows_from(plan->file, text);
    ck_assert_double_eq_tol(replay_s(topo, flows, plan->size, true, NULL) * 1e6, plan->us, 1e-6);
    ck_assert_double_eq_tol(replay_s(topo, flows, plan->size, false, NULL) * 1e6, plan->unicast_us,
                            1e-6);
    ccl_epoch_flows_destroy(flows);
    ccl_topology_destroy(topo);
    free(text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim.epochs");
    TCase *all = tcase_create("all");
    tcase_add_test(all, switch_copies_or_not);
    tcase_add_test(all, relays_wait_and_orders_block);
    tcase_add_test(all, refused);
    if (access(PEERS "schedules/teccl", R_OK) == 0)
        tcase_add_loop_test(all, shipped_plans, 0, (int)CCL_ARRAY_LEN(PLANS));
    else
        printf("no shipped plans at %s: not replayed\n", PEERS);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
