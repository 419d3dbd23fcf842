/* The plan of one machine, and the graph made of it. */
#include "topologies/readers/nccl/nccl_xml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GB 1e9
#define MAX_ASSUMED 64u /* lines about one file */

ccl_status_t ccl_i_plan_init(ccl_i_nccl_plan_t *plan, const ccl_ctx_t *ctx, const char *file,
                             ccl_error_t *err) {
    memset(plan, 0, sizeof(*plan));
    plan->ctx = ctx;
    plan->file = file;
    plan->area = "nccl-xml";
    ccl_arena_init(&plan->arena);
    plan->ids = ccl_strmap_create();
    char title[121];
    ccl_file_title(file, title, sizeof title);
    plan->name = ccl_arena_strdup(&plan->arena, *title ? title : "nccl");
    if (!plan->ids || !plan->name) {
        ccl_i_plan_fini(plan);
        return ccl_fail_nomem(err);
    }
    if (!ccl_strmap_put(plan->ids, "fabric", 1)) { /* taken by the switch between the NICs */
        ccl_i_plan_fini(plan);
        return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

void ccl_i_plan_fini(ccl_i_nccl_plan_t *plan) {
    free(plan->devs);
    free(plan->links);
    free(plan->servers);
    ccl_text_fini(&plan->note);
    ccl_strmap_destroy(plan->ids);
    ccl_arena_fini(&plan->arena);
    memset(plan, 0, sizeof(*plan));
}

void ccl_i_plan_assume(ccl_i_nccl_plan_t *plan, const char *fmt, ...) {
    char text[700];
    if (plan->nassumed++ > MAX_ASSUMED)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (plan->nassumed > MAX_ASSUMED)
        snprintf(text, sizeof(text), "further assumptions not listed");
    ccl_log(plan->ctx, CCL_LOG_WARN, plan->area, "%s: %s", plan->file, text);
    ccl_text_printf(&plan->note, "%s%s", plan->note.len ? "; " : "", text);
}

ccl_status_t ccl_i_plan_server(ccl_i_nccl_plan_t *plan, const char *name, uint32_t *out,
                               ccl_error_t *err) {
    for (uint32_t i = 0; i < plan->nservers; i++) {
        if (strcmp(plan->servers[i], name) == 0) {
            *out = i;
            return CCL_OK;
        }
    }
    const char *copy = ccl_arena_strdup(&plan->arena, name);
    if (!copy || !ccl_grow(&plan->servers, &plan->servers_cap, (size_t)plan->nservers + 1,
                           sizeof(*plan->servers)))
        return ccl_fail_nomem(err);
    plan->servers[plan->nservers] = copy;
    *out = plan->nservers++;
    return CCL_OK;
}

static ccl_status_t unique_id(ccl_i_nccl_plan_t *plan, const char *want, const char **out,
                              ccl_error_t *err) {
    char text[200];
    snprintf(text, sizeof(text), "%.120s", want);
    bool cut = strlen(want) > 120; /* perhaps inside a character */
    for (char *c = text; *c; c++)  /* names come from files */
        if ((unsigned char)*c <= ' ' || *c == 0x7f || (cut && (unsigned char)*c >= 0x80))
            *c = '_';
    uint32_t seen = ccl_strmap_get(plan->ids, text);
    if (seen != CCL_NONE) {
        char base[130];
        snprintf(base, sizeof(base), "%.120s", text);
        uint32_t number = seen;
        do
            snprintf(text, sizeof(text), "%s.%u", base, ++number);
        while (ccl_strmap_get(plan->ids, text) != CCL_NONE);
        if (!ccl_strmap_put(plan->ids, base, number))
            return ccl_fail_nomem(err);
    }
    *out = ccl_arena_strdup(&plan->arena, text);
    if (!*out || !ccl_strmap_put(plan->ids, text, 1))
        return ccl_fail_nomem(err);
    return CCL_OK;
}

ccl_status_t ccl_i_plan_add(ccl_i_nccl_plan_t *plan, ccl_device_kind_t kind, const char *id,
                            uint32_t parent, double up_GBps, uint32_t *out, ccl_error_t *err) {
    if (plan->ndevs == CCL_I_PLAN_MAX_DEVICES)
        return ccl_error_set(err, CCL_ERR_INPUT, plan->file, 0, 0,
                             "more than 65536 devices in one machine");
    if (kind == CCL_DEVICE_GPU && plan->ngpus == CCL_I_PLAN_MAX_GPUS)
        return ccl_error_set(err, CCL_ERR_INPUT, plan->file, 0, 0,
                             "more than 1024 gpus in one machine");
    if (kind == CCL_DEVICE_HOST && plan->nhosts == CCL_I_PLAN_MAX_HOSTS)
        return ccl_error_set(err, CCL_ERR_INPUT, plan->file, 0, 0,
                             "more than 256 cpus in one machine");
    ccl_i_plan_dev_t dev = {.kind = kind,
                            .parent = parent,
                            .up_GBps = up_GBps,
                            .function = CCL_NONE,
                            .bus = CCL_I_BUS_NONE,
                            .elem = CCL_NONE,
                            .first_link = CCL_NONE,
                            .dev = -1,
                            .rank = -1,
                            .vendor = ""};
    if (parent != CCL_NONE)
        dev.server = plan->devs[parent].server;
    if (id)
        CCL_TRY(unique_id(plan, id, &dev.id, err));
    if (!ccl_grow(&plan->devs, &plan->devs_cap, (size_t)plan->ndevs + 1, sizeof(dev)))
        return ccl_fail_nomem(err);
    plan->ngpus += kind == CCL_DEVICE_GPU;
    plan->nhosts += kind == CCL_DEVICE_HOST;
    plan->devs[plan->ndevs] = dev;
    if (out)
        *out = plan->ndevs;
    plan->ndevs++;
    return CCL_OK;
}

ccl_status_t ccl_i_plan_link(ccl_i_nccl_plan_t *plan, uint32_t from, uint32_t to, const char *kind,
                             uint32_t lanes, double GBps, ccl_error_t *err) {
    uint32_t last = CCL_NONE;
    for (uint32_t i = plan->devs[from].first_link; i != CCL_NONE; i = plan->links[i].next) {
        ccl_i_plan_link_t *link = &plan->links[i];
        if (link->to == to && strcmp(link->kind, kind) == 0) {
            link->lanes += lanes;
            link->GBps += GBps;
            return CCL_OK;
        }
        last = i;
    }
    if (!ccl_grow(&plan->links, &plan->links_cap, (size_t)plan->nlinks + 1, sizeof(*plan->links)))
        return ccl_fail_nomem(err);
    if (last == CCL_NONE)
        plan->devs[from].first_link = plan->nlinks;
    else
        plan->links[last].next = plan->nlinks;
    plan->links[plan->nlinks++] = (ccl_i_plan_link_t){from, to, kind, lanes, GBps, CCL_NONE};
    return CCL_OK;
}

/* Device of each rank; in the arena. */
static uint32_t *gpus_by_rank(ccl_i_nccl_plan_t *plan) {
    uint32_t *gpus = ccl_arena_alloc(&plan->arena, (size_t)plan->ngpus + 1, sizeof(*gpus));
    for (uint32_t d = 0; gpus && d < plan->ndevs; d++)
        if (plan->devs[d].kind == CCL_DEVICE_GPU)
            gpus[plan->devs[d].rank] = d;
    return gpus;
}

static ccl_status_t join_nvswitch(ccl_i_nccl_plan_t *plan, const uint32_t *gpus, const char *kind,
                                  uint32_t lanes, double lane_GBps, ccl_error_t *err) {
    uint32_t nvswitch;
    CCL_TRY(ccl_i_plan_add(plan, CCL_DEVICE_SWITCH, "nvswitch", CCL_NONE, 0, &nvswitch, err));
    for (uint32_t r = 0; r < plan->ngpus; r++) {
        uint32_t gpu = gpus[r];
        CCL_TRY(ccl_i_plan_link(plan, gpu, nvswitch, kind, lanes, lanes * lane_GBps, err));
        CCL_TRY(ccl_i_plan_link(plan, nvswitch, gpu, kind, lanes, lanes * lane_GBps, err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_plan_wire(ccl_i_nccl_plan_t *plan, ccl_i_wiring_t fabric, const char *kind,
                             uint32_t lanes, double lane_GBps, const char **what_out,
                             ccl_error_t *err) {
    *what_out = "no direct links";
    uint32_t n = plan->ngpus;
    if (fabric == CCL_I_WIRING_SXM) {
        bool volta = lanes == 6;
        fabric = n < 2    ? CCL_I_WIRING_NONE
                 : n <= 4 ? CCL_I_WIRING_MESH
                 : volta  ? (n == 8 ? CCL_I_WIRING_CUBE_MESH : CCL_I_WIRING_NVSWITCH)
                          : CCL_I_WIRING_NVSWITCH;
    }
    if (fabric == CCL_I_WIRING_NONE || lanes == 0 || n < 2)
        return CCL_OK;
    const uint32_t *gpus = gpus_by_rank(plan);
    if (!gpus)
        return ccl_fail_nomem(err);
    if (fabric == CCL_I_WIRING_NVSWITCH) {
        *what_out = "all to one NVSwitch";
        return join_nvswitch(plan, gpus, kind, lanes, lane_GBps, err);
    }
    *what_out = fabric == CCL_I_WIRING_MESH ? "a full mesh" : "a hybrid cube mesh";
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            uint32_t count = fabric == CCL_I_WIRING_MESH ? (a == b ? 0 : lanes / (n - 1))
                                                         : ccl_i_cube_mesh_links(a, b);
            if (count)
                CCL_TRY(
                    ccl_i_plan_link(plan, gpus[a], gpus[b], kind, count, count * lane_GBps, err));
        }
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- numbers */

typedef enum number_by { BY_RANK, BY_DEV, BY_BUS, BY_ORDER } number_by_t;

static bool dense(const ccl_i_nccl_plan_t *plan, number_by_t by, uint8_t *seen) {
    memset(seen, 0, plan->ngpus);
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        if (plan->devs[d].kind != CCL_DEVICE_GPU)
            continue;
        int64_t number = by == BY_RANK ? plan->devs[d].rank : plan->devs[d].dev;
        if (number < 0 || number >= (int64_t)plan->ngpus || seen[number])
            return false;
        seen[number] = 1;
    }
    return true;
}

/* CUDA numbers equal GPUs by PCI address; a file may list them otherwise. */
static bool by_bus(const ccl_i_nccl_plan_t *plan) {
    for (uint32_t d = 0; d < plan->ndevs; d++)
        if (plan->devs[d].kind == CCL_DEVICE_GPU &&
            (!plan->devs[d].implied || plan->devs[d].bus == CCL_I_BUS_NONE))
            return false;
    return true;
}

ccl_status_t ccl_i_plan_number(ccl_i_nccl_plan_t *plan, ccl_error_t *err) {
    if (plan->ngpus == 0)
        return ccl_error_set(err, CCL_ERR_INPUT, plan->file, 0, 0,
                             "no gpu in this file: neither <gpu> elements nor pci elements of a "
                             "gpu's class (0x03...)");
    uint8_t *seen = ccl_arena_alloc(&plan->arena, plan->ngpus, 1);
    if (!seen)
        return ccl_fail_nomem(err);
    number_by_t by = dense(plan, BY_RANK, seen)  ? BY_RANK
                     : dense(plan, BY_DEV, seen) ? BY_DEV
                     : by_bus(plan)              ? BY_BUS
                                                 : BY_ORDER;
    bool ranked = false; /* without any rank, dev is what numbers GPUs */
    for (uint32_t d = 0; d < plan->ndevs; d++)
        ranked = ranked || (plan->devs[d].kind == CCL_DEVICE_GPU && plan->devs[d].rank >= 0);
    if (by == BY_DEV && ranked)
        ccl_i_plan_assume(plan, "gpu ranks are not 0 to %u once each: numbered by dev",
                          plan->ngpus - 1);
    if (by == BY_ORDER)
        ccl_i_plan_assume(plan,
                          "neither gpu ranks nor devs are 0 to %u once each: numbered in "
                          "document order",
                          plan->ngpus - 1);
    int64_t order = 0;
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        ccl_i_plan_dev_t *gpu = &plan->devs[d];
        if (gpu->kind != CCL_DEVICE_GPU)
            continue;
        if (by == BY_DEV)
            gpu->rank = gpu->dev;
        if (by == BY_ORDER)
            gpu->rank = order++;
        if (by == BY_BUS) {
            int64_t before = 0;
            for (uint32_t o = 0; o < plan->ndevs; o++)
                before +=
                    plan->devs[o].kind == CCL_DEVICE_GPU &&
                    (plan->devs[o].bus < gpu->bus || (plan->devs[o].bus == gpu->bus && o < d));
            gpu->rank = before;
        }
    }
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        ccl_i_plan_dev_t *gpu = &plan->devs[d];
        if (gpu->kind != CCL_DEVICE_GPU)
            continue;
        char id[32];
        snprintf(id, sizeof(id), "gpu%lld", (long long)gpu->rank);
        CCL_TRY(unique_id(plan, id, &gpu->id, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- graph */

typedef struct build {
    const ccl_i_nccl_plan_t *plan;
    ccl_topology_builder_t *b;
    uint32_t *index; /* plan device to builder device */
    uint32_t *up;    /* plan device to its directed link upwards (+1: downwards) */
    uint32_t nlinks; /* directed, so far */
    ccl_i_nccl_library_t library;
} build_t;

static ccl_status_t add_device(build_t *s, uint32_t d, ccl_error_t *err) {
    const ccl_i_plan_dev_t *dev = &s->plan->devs[d];
    return ccl_topology_builder_device(s->b, dev->id, dev->kind, s->plan->servers[dev->server],
                                       dev->kind == CCL_DEVICE_GPU ? (uint32_t)dev->rank : CCL_NONE,
                                       dev->kind == CCL_DEVICE_GPU ? dev->model : NULL,
                                       &s->index[d], err);
}

/* Multicast and sums of multimem instructions (PTX ISA, "multimem.ld_reduce") came with the
   NVSwitches of Hopper. */
static ccl_status_t add_abilities(build_t *s, ccl_error_t *err) {
    static const ccl_device_t nvls = {.multicast = true,
                                      .reduce = true,
                                      .reduce_rate_Bps = INFINITY,
                                      .types = "int32 fp16 bf16 fp32 fp64"};
    const ccl_i_nccl_plan_t *plan = s->plan;
    bool *older = calloc((size_t)plan->ndevs + 1, sizeof *older);
    bool *joins = calloc((size_t)plan->ndevs + 1, sizeof *joins);
    ccl_status_t status = older && joins ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t l = 0; status == CCL_OK && l < plan->nlinks; l++) {
        const ccl_i_plan_link_t *link = &plan->links[l];
        const ccl_i_plan_dev_t *gpu = &plan->devs[link->from];
        if (gpu->kind != CCL_DEVICE_GPU || strcmp(link->kind, "nvlink") != 0 ||
            plan->devs[link->to].kind != CCL_DEVICE_SWITCH)
            continue;
        joins[link->to] = true;
        older[link->to] |= gpu->sm < 90;
    }
    for (uint32_t d = 0; status == CCL_OK && d < plan->ndevs; d++)
        if (joins[d] && !older[d])
            status = ccl_topology_builder_abilities(s->b, s->index[d], &nvls, err);
    free(older);
    free(joins);
    return status;
}

static ccl_status_t add_models(build_t *s, ccl_error_t *err) {
    const ccl_i_nccl_plan_t *plan = s->plan;
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        const ccl_i_plan_dev_t *gpu = &plan->devs[d];
        if (gpu->kind != CCL_DEVICE_GPU || !gpu->model)
            continue;
        bool known = false;
        for (uint32_t o = 0; o < d && !known; o++)
            known = plan->devs[o].model && strcmp(plan->devs[o].model, gpu->model) == 0;
        if (known)
            continue;
        ccl_gpu_model_t model = ccl_i_nccl_library_model(&s->library, gpu);
        CCL_TRY(ccl_topology_builder_gpu_model(s->b, &model, err));
    }
    return CCL_OK;
}

/* What a link is, wherever it leads. */
typedef struct wire {
    const char *kind;
    double GBps, latency_s;
    uint32_t lanes;
} wire_t;

static ccl_status_t add_link(build_t *s, uint32_t from, uint32_t to, wire_t wire,
                             ccl_error_t *err) {
    s->nlinks++;
    return ccl_topology_builder_link(s->b, from, to, wire.kind, wire.GBps * GB, wire.latency_s,
                                     wire.lanes, 0, err);
}

static ccl_status_t add_inside_links(build_t *s, ccl_error_t *err) {
    const ccl_i_nccl_plan_t *plan = s->plan;
    for (uint32_t i = 0; i < plan->nlinks; i++) {
        const ccl_i_plan_link_t *l = &plan->links[i];
        double latency_s = ccl_i_nccl_library_latency_s(&s->library, &plan->devs[l->from],
                                                        &plan->devs[l->to], l->kind);
        CCL_TRY(add_link(s, s->index[l->from], s->index[l->to],
                         (wire_t){l->kind, l->GBps, latency_s, l->lanes}, err));
    }
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        const ccl_i_plan_dev_t *dev = &plan->devs[d];
        if (dev->parent == CCL_NONE)
            continue;
        s->up[d] = s->nlinks;
        uint32_t parent = s->index[dev->parent];
        double latency_s =
            ccl_i_nccl_library_latency_s(&s->library, dev, &plan->devs[dev->parent], "pcie");
        wire_t wire = {"pcie", dev->up_GBps, latency_s, 1};
        CCL_TRY(add_link(s, s->index[d], parent, wire, err));
        CCL_TRY(add_link(s, parent, s->index[d], wire, err));
    }
    for (uint32_t a = 0; a < plan->ndevs; a++) {
        if (plan->devs[a].kind != CCL_DEVICE_HOST)
            continue;
        for (uint32_t b = 0; b < plan->ndevs; b++) {
            if (b == a || plan->devs[b].kind != CCL_DEVICE_HOST ||
                plan->devs[a].server != plan->devs[b].server)
                continue;
            double latency_s =
                ccl_i_nccl_library_latency_s(&s->library, &plan->devs[a], &plan->devs[b], "upi");
            CCL_TRY(add_link(s, s->index[a], s->index[b],
                             (wire_t){"upi", plan->devs[a].cpu_GBps, latency_s, 1}, err));
        }
    }
    return CCL_OK;
}

/* Endpoints of one PCI function share its link to the switch above, in each direction. */
static ccl_status_t add_groups(build_t *s, uint32_t *members, ccl_error_t *err) {
    const ccl_i_nccl_plan_t *plan = s->plan;
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        const ccl_i_plan_dev_t *first = &plan->devs[d];
        if (first->function == CCL_NONE || (d > 0 && plan->devs[d - 1].function == first->function))
            continue;
        for (uint32_t down = 0; down < 2; down++) {
            uint32_t n = 0;
            for (uint32_t o = d; o < plan->ndevs && plan->devs[o].function == first->function; o++)
                members[n++] = s->up[o] + down;
            if (n < 2)
                break;
            char name[200];
            snprintf(name, sizeof(name), "%.120s and %u more, %s", first->id, n - 1,
                     down ? "down" : "up");
            CCL_TRY(ccl_topology_builder_group(s->b, name, first->up_GBps * GB, members, n, err));
        }
    }
    return CCL_OK;
}

/*
 * Number of net links from a NIC to the fabric: 1, unless GPUs of one server would then reach each
 * other in fewer links over two NICs and the fabric than over their CPUs. The routing rule counts
 * links, so the cable gets joints: equal links in a row, which cost nothing.
 *
 * A GPU at depth h below its CPU whose nearest NIC is m links away goes h + h' + 1 links over the
 * CPUs at most, and m + m' + 2k over the fabric.
 */
static ccl_status_t cable_links(build_t *s, uint32_t *out, ccl_error_t *err) {
    const ccl_i_nccl_plan_t *plan = s->plan;
    uint32_t *down = malloc(((size_t)plan->ndevs + 1) * sizeof(*down)); /* nearest NIC below */
    if (!down)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < plan->ndevs; d++)
        down[d] = plan->devs[d].kind == CCL_DEVICE_NIC ? 0 : CCL_NONE;
    for (uint32_t d = plan->ndevs; d-- > 0;) { /* parents stand before their children */
        uint32_t parent = plan->devs[d].parent;
        if (parent != CCL_NONE && down[d] != CCL_NONE && down[d] + 1 < down[parent])
            down[parent] = down[d] + 1;
    }
    int64_t best[2] = {INT32_MIN, INT32_MIN};
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        if (plan->devs[d].kind != CCL_DEVICE_GPU || plan->devs[d].parent == CCL_NONE)
            continue;
        int64_t depth = 0, nearest = INT32_MAX;
        for (uint32_t at = d; at != CCL_NONE; at = plan->devs[at].parent) {
            if (down[at] != CCL_NONE && depth + down[at] < nearest)
                nearest = depth + down[at];
            depth++;
        }
        int64_t saved = depth - 1 - nearest;
        if (saved > best[0]) {
            best[1] = best[0];
            best[0] = saved;
        } else if (saved > best[1]) {
            best[1] = saved;
        }
    }
    free(down);
    int64_t k = 1;
    while (best[0] + best[1] + 1 >= 2 * k)
        k++;
    *out = (uint32_t)k;
    return CCL_OK;
}

static ccl_status_t add_net(build_t *s, ccl_error_t *err) {
    const ccl_i_nccl_plan_t *plan = s->plan;
    uint32_t joints = 1, fabric = CCL_NONE;
    CCL_TRY(cable_links(s, &joints, err));
    for (uint32_t d = 0; d < plan->ndevs; d++) {
        const ccl_i_plan_dev_t *nic = &plan->devs[d];
        if (nic->kind != CCL_DEVICE_NIC)
            continue;
        if (fabric == CCL_NONE)
            CCL_TRY(ccl_topology_builder_device(s->b, "fabric", CCL_DEVICE_SWITCH, NULL, CCL_NONE,
                                                NULL, &fabric, err));
        uint32_t from = s->index[d];
        for (uint32_t j = 0; j < joints; j++) {
            uint32_t to = fabric;
            if (j + 1 < joints) {
                char id[220];
                snprintf(id, sizeof(id), "%.120s/cable%u", nic->id, j + 1);
                CCL_TRY(ccl_topology_builder_device(s->b, id, CCL_DEVICE_SWITCH,
                                                    plan->servers[nic->server], CCL_NONE, NULL, &to,
                                                    err));
            }
            /* NCCL's latency is from NIC to NIC: half of it on each side of the fabric. */
            double latency_s = j > 0 ? 0
                               : nic->latency_s > 0
                                   ? nic->latency_s / 2
                                   : ccl_i_nccl_library_latency_s(&s->library, nic, NULL, "net");
            wire_t wire = {"net", nic->net_GBps, latency_s, 1};
            CCL_TRY(add_link(s, from, to, wire, err));
            CCL_TRY(add_link(s, to, from, wire, err));
            from = to;
        }
    }
    return CCL_OK;
}

static ccl_status_t build_all(build_t *s, const char *source, const uint32_t *gpus,
                              uint32_t *members, ccl_topology_t **out, ccl_error_t *err) {
    const ccl_i_nccl_plan_t *plan = s->plan;
    ccl_topology_builder_about(s->b, source, plan->note.data ? plan->note.data : "");
    CCL_TRY(add_models(s, err));
    for (uint32_t r = 0; r < plan->ngpus; r++)
        CCL_TRY(add_device(s, gpus[r], err));
    for (uint32_t d = 0; d < plan->ndevs; d++)
        if (plan->devs[d].kind != CCL_DEVICE_GPU)
            CCL_TRY(add_device(s, d, err));
    CCL_TRY(add_abilities(s, err));
    CCL_TRY(add_inside_links(s, err));
    CCL_TRY(add_groups(s, members, err));
    CCL_TRY(add_net(s, err));
    CCL_TRY(ccl_i_nccl_library_transports(&s->library, s->b, err));
    return ccl_topology_builder_finish(s->b, out, err);
}

ccl_status_t ccl_i_plan_build(ccl_i_nccl_plan_t *plan, const char *source, ccl_topology_t **out,
                              ccl_error_t *err) {
    if (plan->note.nomem)
        return ccl_fail_nomem(err);
    build_t s = {.plan = plan, .b = ccl_topology_builder_create(plan->name)};
    size_t n = (size_t)plan->ndevs + 1;
    s.index = ccl_arena_alloc(&plan->arena, n, sizeof(uint32_t));
    s.up = ccl_arena_alloc(&plan->arena, n, sizeof(uint32_t));
    uint32_t *members = ccl_arena_alloc(&plan->arena, n, sizeof(uint32_t));
    const uint32_t *gpus = gpus_by_rank(plan);
    ccl_status_t status = s.b && s.index && s.up && members && gpus ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_nccl_library(plan, &s.library, err);
    if (status == CCL_OK && plan->note.nomem)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = build_all(&s, source, gpus, members, out, err);
    ccl_i_nccl_library_fini(&s.library);
    ccl_topology_builder_destroy(s.b);
    return status;
}
