/**
 * @file testbed.c
 * A cluster emulated by network namespaces: which servers, at which rates, by which commands, and
 * the topology that it then is. Pure computation.
 */
#include "runtime/testbed/testbed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A bucket holds what its rate carries in this time: less is lost while the cores are busy, more
   would let messages of 1 MiB through too fast. */
#define HEAD_START_S 1e-3
#define LEAST_BURST_BYTES 4000.0 /* two frames */
/* Queues lose nothing: FIFOs bound what is on its way. */
#define QUEUE_BYTES 33554432u
#define MOST_GSO_BYTES 65536.0
#define PAYLOAD (1448.0 / 1514.0)

/* ---------------------------------------------------------------- servers */

/** Ranks of every server, which must follow each other, in order of their first. */
static ccl_status_t find_servers(const ccl_topology_t *topo, uint32_t *server_of,
                                 ccl_testbed_plan_t *plan, ccl_testbed_server_t *servers,
                                 uint32_t *first, ccl_error_t *err) {
    for (uint32_t s = 0; s < topo->nservers; s++)
        server_of[s] = CCL_NONE;
    uint32_t last = CCL_NONE;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        const ccl_device_t *gpu = &topo->devices[topo->rank_device[r]];
        if (gpu->server == CCL_NONE)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "GPU %s is in no server: a testbed has one "
                            "namespace per server",
                            gpu->id);
        if (gpu->server == last) {
            servers[plan->nservers - 1].nranks++;
            continue;
        }
        last = gpu->server;
        if (server_of[last] != CCL_NONE)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "ranks of server %s do not follow each other: a testbed has one "
                            "process per server",
                            topo->servers[last]);
        if (plan->nservers == CCL_TESTBED_MAX_SERVERS)
            return ccl_fail(err, CCL_ERR_INPUT, "more than %d servers", CCL_TESTBED_MAX_SERVERS);
        server_of[last] = plan->nservers;
        first[plan->nservers] = r;
        servers[plan->nservers++] = (ccl_testbed_server_t){.first_rank = r, .nranks = 1};
        servers[plan->nservers - 1].name = ccl_arena_strdup(&plan->arena, topo->servers[last]);
        if (!servers[plan->nservers - 1].name)
            return ccl_fail_nomem(err);
    }
    first[plan->nservers] = topo->nranks;
    return plan->nservers >= 2 ? CCL_OK
                               : ccl_fail(err, CCL_ERR_INPUT,
                                          "%s has %u server with GPUs: a testbed is of at least 2",
                                          topo->name, plan->nservers);
}

/** Bandwidths of the net links that leave and enter every server. */
static void sum_nics(const ccl_topology_t *topo, const uint32_t *server_of,
                     ccl_testbed_server_t *servers) {
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        uint32_t from = topo->devices[link->from].server, to = topo->devices[link->to].server;
        if (from == to || strcmp(topo->kinds[link->kind], "net") != 0)
            continue;
        if (from != CCL_NONE && server_of[from] != CCL_NONE)
            servers[server_of[from]].out_Bps += link->bandwidth_Bps;
        if (to != CCL_NONE && server_of[to] != CCL_NONE)
            servers[server_of[to]].in_Bps += link->bandwidth_Bps;
    }
}

static ccl_status_t choose_rates(ccl_testbed_plan_t *plan, ccl_testbed_server_t *servers,
                                 ccl_error_t *err) {
    double most = 0, sum = 0, least = INFINITY;
    uint32_t slowest = 0;
    for (uint32_t s = 0; s < plan->nservers; s++) {
        double low = fmin(servers[s].out_Bps, servers[s].in_Bps);
        double high = fmax(servers[s].out_Bps, servers[s].in_Bps);
        if (!(low > 0))
            return ccl_fail(err, CCL_ERR_INPUT, "no net link leaves and enters server %s",
                            servers[s].name);
        most = fmax(most, high);
        sum += high;
        if (low < least) {
            least = low;
            slowest = s;
        }
    }
    double bits = fmin(plan->rate_max_bps / most, CCL_TESTBED_RATE_SUM_BPS / sum);
    plan->scale = bits / 8;
    if (least * bits < CCL_TESTBED_RATE_MIN_BPS * (1 - 1e-9))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "server %s would have %.3g Mbit/s: less than %g is not shaped faithfully "
                        "(the fastest has %.3g)",
                        servers[slowest].name, least * bits / 1e6, CCL_TESTBED_RATE_MIN_BPS / 1e6,
                        most * bits / 1e6);
    for (uint32_t s = 0; s < plan->nservers; s++) {
        servers[s].rate_out_bps = round(servers[s].out_Bps * bits);
        servers[s].rate_in_bps = round(servers[s].in_Bps * bits);
    }
    return CCL_OK;
}

static ccl_status_t make_plan(const ccl_topology_t *topo, ccl_testbed_plan_t *plan,
                              ccl_error_t *err) {
    ccl_testbed_server_t *servers =
        ccl_arena_alloc(&plan->arena, CCL_TESTBED_MAX_SERVERS, sizeof *servers);
    uint32_t *first = ccl_arena_alloc(&plan->arena, CCL_TESTBED_MAX_SERVERS + 1, sizeof *first);
    uint32_t *server_of = ccl_arena_alloc(&plan->arena, topo->nservers + (size_t)1, sizeof *first);
    plan->cluster = ccl_arena_strdup(&plan->arena, topo->name);
    if (!servers || !first || !server_of || !plan->cluster)
        return ccl_fail_nomem(err);
    CCL_TRY(find_servers(topo, server_of, plan, servers, first, err));
    sum_nics(topo, server_of, servers);
    CCL_TRY(choose_rates(plan, servers, err));
    plan->nranks = topo->nranks;
    plan->servers = servers;
    plan->first_rank = first;
    plan->head_start_s = HEAD_START_S;
    return CCL_OK;
}

ccl_status_t ccl_testbed_plan(const ccl_topology_t *topo, double rate_max_bps,
                              ccl_testbed_plan_t **out, ccl_error_t *err) {
    double rate = rate_max_bps > 0 ? rate_max_bps : CCL_TESTBED_RATE_MAX_BPS;
    if (!(rate >= CCL_TESTBED_RATE_MIN_BPS) || !(rate <= CCL_TESTBED_RATE_MAX_BPS))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "a fastest rate of %.4g Mbit/s: %g to %g are shaped faithfully", rate / 1e6,
                        CCL_TESTBED_RATE_MIN_BPS / 1e6, CCL_TESTBED_RATE_MAX_BPS / 1e6);
    ccl_testbed_plan_t *plan = calloc(1, sizeof *plan);
    if (!plan)
        return ccl_fail_nomem(err);
    ccl_arena_init(&plan->arena);
    plan->rate_max_bps = rate;
    ccl_status_t status = make_plan(topo, plan, err);
    if (status != CCL_OK) {
        ccl_testbed_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return CCL_OK;
}

void ccl_testbed_plan_destroy(ccl_testbed_plan_t *plan) {
    if (!plan)
        return;
    ccl_arena_fini(&plan->arena);
    free(plan);
}

/* ---------------------------------------------------------------- commands */

static double burst_bytes(double rate_bps) {
    return fmax(LEAST_BURST_BYTES, round(rate_bps / 8 * HEAD_START_S));
}

void ccl_testbed_commands(const ccl_testbed_plan_t *plan, uint32_t server, bool tc,
                          const char *const *namespaces, ccl_text_t *out) {
    static const char bucket[] = "qdisc add dev %s root tbf rate %.0fbit burst %.0fb limit %ub\n";
    char port[16];
    const ccl_testbed_server_t *s = server == CCL_NONE ? NULL : &plan->servers[server];
    if (s && tc) {
        ccl_text_printf(out, bucket, "eth0", s->rate_out_bps, burst_bytes(s->rate_out_bps),
                        QUEUE_BYTES);
    } else if (s) {
        /* Packets that the bucket lets through whole: cutting them costs more than carrying. */
        double gso = fmin(MOST_GSO_BYTES,
                          fmin(burst_bytes(s->rate_out_bps), burst_bytes(s->rate_in_bps)) / 2);
        ccl_text_printf(out, "link set lo up\naddr add " CCL_I_TESTBED_NET "%u/24 dev eth0\n",
                        server + 1);
        ccl_text_printf(out, "link set eth0 gso_max_size %.0f\nlink set eth0 up\n", gso);
    } else if (!tc) {
        ccl_text_printf(out, "link add br0 type bridge\nlink set br0 up\n");
    }
    for (uint32_t i = 0; !s && i < plan->nservers; i++) {
        snprintf(port, sizeof port, "s%u", i);
        if (tc)
            ccl_text_printf(out, bucket, port, plan->servers[i].rate_in_bps,
                            burst_bytes(plan->servers[i].rate_in_bps), QUEUE_BYTES);
        else
            ccl_text_printf(out,
                            "link add %s type veth peer name eth0 netns %s\n"
                            "link set %s master br0\nlink set %s up\n",
                            port, namespaces[i], port, port);
    }
}

/* ---------------------------------------------------------------- the emulated cluster */

static ccl_status_t add_parts(const ccl_testbed_plan_t *plan, const ccl_testbed_constants_t *c,
                              ccl_topology_builder_t *b, ccl_error_t *err) {
    uint32_t bridge, memory, gpu;
    char id[160];
    CCL_TRY(ccl_topology_builder_device(b, "bridge", CCL_DEVICE_SWITCH, NULL, CCL_NONE, NULL,
                                        &bridge, err));
    for (uint32_t s = 0; s < plan->nservers; s++) {
        const ccl_testbed_server_t *server = &plan->servers[s];
        double payload = PAYLOAD * c->efficiency / 8;
        snprintf(id, sizeof id, "%.120s/memory", server->name);
        CCL_TRY(ccl_topology_builder_device(b, id, CCL_DEVICE_HOST, server->name, CCL_NONE, NULL,
                                            &memory, err));
        CCL_TRY(ccl_topology_builder_link(b, memory, bridge, "net", payload * server->rate_out_bps,
                                          0, 1, 0, err));
        CCL_TRY(ccl_topology_builder_link(b, bridge, memory, "net", payload * server->rate_in_bps,
                                          0, 1, 0, err));
        for (uint32_t i = 0; i < server->nranks; i++) {
            snprintf(id, sizeof id, "%.120s/rank%u", server->name, i);
            CCL_TRY(ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, server->name,
                                                server->first_rank + i, "host", &gpu, err));
            CCL_TRY(ccl_topology_builder_duplex(b, gpu, memory, "shm", c->local_Bps, 0, 1, 0, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t add_constants(const ccl_testbed_constants_t *c, ccl_topology_builder_t *b,
                                  ccl_error_t *err) {
    ccl_gpu_model_t model = ccl_gpu_model_default("host");
    ccl_transport_spec_t net = {.kind = "net", .value = ccl_transport_default("net")};
    ccl_transport_spec_t local = {.kind = "shm", .value = ccl_transport_default("shm")};
    model.launch_s = c->launch_s;
    model.copy_rate_Bps = c->local_Bps;
    model.reduce_rate_Bps = c->reduce_rate_Bps;
    net.given = local.given = CCL_TRANSPORT_OVERHEAD | CCL_TRANSPORT_LATENCY |
                              CCL_TRANSPORT_TB_RATE | CCL_TRANSPORT_SLICE | CCL_TRANSPORT_SLOTS |
                              CCL_TRANSPORT_DIRECT;
    net.value.overhead_s = c->overhead_s;
    net.value.latency_s = c->latency_s;
    net.value.tb_rate_Bps = c->tb_rate_Bps;
    local.value.overhead_s = c->local_overhead_s;
    local.value.latency_s = c->local_latency_s;
    local.value.tb_rate_Bps = c->local_Bps;
    net.value.slice_bytes = local.value.slice_bytes = 32 << 10; /* the runtime's */
    net.value.slots = local.value.slots = 8;
    net.value.direct = local.value.direct = false;
    CCL_TRY(ccl_topology_builder_gpu_model(b, &model, err));
    CCL_TRY(ccl_topology_builder_transport(b, &net, err));
    return ccl_topology_builder_transport(b, &local, err);
}

ccl_status_t ccl_testbed_topology(const ccl_testbed_plan_t *plan,
                                  const ccl_testbed_constants_t *constants, ccl_topology_t **out,
                                  ccl_error_t *err) {
    static const ccl_testbed_constants_t defaults = CCL_TESTBED_CONSTANTS_INIT;
    const ccl_testbed_constants_t *c = constants ? constants : &defaults;
    char name[200], note[200];
    snprintf(name, sizeof name, "testbed of %.150s", plan->cluster);
    snprintf(note, sizeof note,
             "emulated at %.6g of the cluster's bandwidths; token buckets let %g ms pass free",
             plan->scale, 1e3 * plan->head_start_s);
    ccl_topology_builder_t *b = ccl_topology_builder_create(name);
    if (!b)
        return ccl_fail_nomem(err);
    ccl_topology_builder_about(b, constants ? "measured constants" : "default constants", note);
    ccl_status_t status = add_constants(c, b, err);
    if (status == CCL_OK)
        status = add_parts(plan, c, b, err);
    if (status == CCL_OK)
        status = ccl_topology_builder_finish(b, out, err);
    ccl_topology_builder_destroy(b);
    return status;
}
