/* A synthesizer of your own, as a plugin: AllGather around a ring in both directions.
 * Build: cc -std=c11 -shared -fPIC -o biring.so biring.c $(pkg-config --cflags ccllab)
 * Usage: ccllab compare --plugin biring.so --with ring,biring ... */
#include <synth/synth.h>

#define MOST_CHANNELS 8

/* Options of its own; what nobody gives is 0. */
typedef struct own {
    uint32_t right;
} own_t;

static const ccl_option_t table[] = {
    {.name = "biring-right",
     .type = CCL_OPTION_COUNT,
     .offset = offsetof(own_t, right),
     .value = "N",
     .min = 1,
     .doc = "GPUs that a shard reaches to the right, the others to the left",
     .otherwise = "half of them",
     .knob = "biring_right",
     .knob_max = 1024},
    {.name = NULL},
};
static const ccl_option_t *const tables[] = {table, NULL};

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (want->kind != CCL_ALLGATHER) {
        *why = "both ways around carry the same data to all ranks: AllGather only";
        return false;
    }
    if (topo->nranks < 2) {
        *why = "one GPU has none to gather from";
        return false;
    }
    return true;
}

/* Not every two GPUs have a route: one may pass no third GPU. */
static ccl_status_t check_routes(ccl_routes_t *routes, uint32_t n, ccl_error_t *err) {
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t next = (rank + 1) % n;
        if (ccl_routes_width(routes, rank, next) == 0 || ccl_routes_width(routes, next, rank) == 0)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "biring has no route between ranks %u and %u: they are neighbours",
                            rank, next);
    }
    return CCL_OK;
}

/* Every shard goes some way around to the right and the rest to the left, a part of it per channel.
 */
static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    uint32_t n = topo->nranks, channels = options->channels ? options->channels : MOST_CHANNELS;
    const own_t *own = ccl_synth_own(options, "biring");
    uint32_t to_right = own->right == 0 ? n / 2 : own->right < n ? own->right : n - 1;
    ccl_collective_t *coll = NULL;
    (void)ctx;
    CCL_TRY(check_routes(routes, n, err));
    CCL_TRY(ccl_collective_split(want, channels, &coll, err));
    /* takes coll, also on failure */
    ccl_schedule_builder_t *builder = ccl_schedule_builder_create("biring", coll);
    if (!builder)
        return ccl_fail_nomem(err);
    for (uint32_t root = 0; root < n; root++) {
        for (uint32_t hop = 0; hop < n - 1; hop++) {
            bool right = hop < to_right;
            uint32_t step = right ? hop : hop - to_right;
            uint32_t src = right ? root + step : root + n - step;
            uint32_t dst = right ? src + 1 : src + n - 1;
            for (uint32_t c = 0; c < channels; c++) {
                ccl_transfer_t t = {.src = src % n,
                                    .dst = dst % n,
                                    .chunk = root * channels + c,
                                    .step = step,
                                    .channel = (uint16_t)c};
                ccl_schedule_builder_add(builder, t);
            }
        }
    }
    return ccl_schedule_builder_finish(builder, out, err);
}

static const ccl_synth_ops_t biring = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "biring",
    .summary = "a ring in both directions: half the steps",
    .source = "docs/howto/add-a-synthesizer.md",
    .supports = supports,
    .synthesize = synthesize,
    .options = tables,
};

CCL_PLUGIN(biring);
