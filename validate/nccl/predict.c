/* NCCL's collectives on one cluster, simulated; programs are kept for further sizes and constants.
 */
#include "validate/nccl/nccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TREE_STEP_BYTES 131072.0 /* of a tree with Simple: NCCL halves its chunk down to this */
/* Warps pass lines on alone, 256 B of LL or 2 KiB of LL128 each: what eight and four of them have.
 */
#define TREE_LL_BYTES 2048.0
#define TREE_LL128_BYTES 8192.0
#define CHAIN_SLICE_BYTES 16384.0 /* the least that NCCL cuts a step of 512 KiB into */
#define P2P_REQUEST 22.8          /* messages' time that one with LL takes: 5.7 us of 0.25 */
#define P2P_NET_BYTES 131072.0    /* a message of sends and receives (NCCL_P2P_NET_CHUNKSIZE) */

typedef struct kept {
    ccl_collective_kind_t kind;
    uint32_t root, asked; /* channels that were asked for */
    ccl_nccl_choice_t choice;
    ccl_program_t *program; /* of any protocol */
} kept_t;

/** A topology whose transports differ from another's, which it borrows the rest from. */
typedef struct view {
    ccl_topology_t topo;
    ccl_transport_spec_t *transports; /* NULL: not made yet */
} view_t;
enum { VIEW_RING, VIEW_P2P, VIEW_CHAIN, VIEW_TREE, VIEW_REGISTERED, NVIEWS };
enum { NPROTOS = CCL_NCCL_SIMPLE + 1 };

struct ccl_predictor {
    ccl_ctx_t ctx;
    const ccl_topology_t *topo; /* borrowed: NCCL looks at the machine, not at a profile */
    ccl_routes_t *routes;       /* NULL: made when needed */
    ccl_nccl_setup_t setup;
    ccl_topology_t *fitted; /* with the profile; NULL: none */
    ccl_routes_t *fitted_routes;
    const ccl_topology_t *laid; /* borrowed: with constants of the caller's; NULL: none */
    view_t views[NVIEWS][NPROTOS];
    kept_t *kept;
    size_t nkept, cap;
};

static void drop_profile(ccl_predictor_t *p) {
    for (int v = 0; v < NVIEWS; v++) {
        for (int k = 0; k < NPROTOS; k++)
            free(p->views[v][k].transports);
        memset(p->views[v], 0, sizeof p->views[v]);
    }
    ccl_routes_destroy(p->fitted_routes);
    ccl_topology_destroy(p->fitted);
    p->fitted_routes = NULL;
    p->fitted = NULL;
}

ccl_status_t ccl_predictor_profile(ccl_predictor_t *p, const ccl_profile_t *profile,
                                   ccl_error_t *err) {
    drop_profile(p);
    if (!profile)
        return CCL_OK;
    CCL_TRY(ccl_profile_apply(&p->ctx, profile, p->topo, &p->fitted, err));
    p->fitted_routes = ccl_routes_create(p->fitted);
    return p->fitted_routes ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_predictor_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  const ccl_profile_t *profile, uint32_t channels,
                                  ccl_predictor_t **out, ccl_error_t *err) {
    ccl_predictor_t *p = calloc(1, sizeof *p);
    if (!p)
        return ccl_fail_nomem(err);
    if (ctx)
        p->ctx = *ctx;
    p->topo = topo;
    ccl_status_t status = ccl_nccl_setup(topo, channels, &p->setup, err);
    if (status == CCL_OK)
        status = ccl_predictor_profile(p, profile, err);
    if (status != CCL_OK) {
        ccl_predictor_destroy(p);
        return status;
    }
    *out = p;
    return CCL_OK;
}

ccl_status_t ccl_nccl_open(const ccl_ctx_t *ctx, const ccl_topology_t *machine,
                           const ccl_topology_t *topo, const ccl_collective_t *want,
                           ccl_predictor_t **out, ccl_error_t *err) {
    const char *library = "";
    CCL_TRY(ccl_nccl_library(topo, &library, err));
    if (want->kind == CCL_CUSTOM)
        return ccl_fail(err, CCL_UNSUPPORTED, "%s has no call for a demand such as %.60s", library,
                        want->name);
    CCL_TRY(ccl_predictor_create(ctx, machine ? machine : topo, NULL, 0, out, err));
    ccl_predictor_lay(*out, topo);
    return CCL_OK;
}

void ccl_predictor_destroy(ccl_predictor_t *p) {
    if (!p)
        return;
    for (size_t i = 0; i < p->nkept; i++)
        ccl_program_destroy(p->kept[i].program);
    free(p->kept);
    drop_profile(p);
    ccl_routes_destroy(p->routes);
    free(p);
}

void ccl_predictor_version(ccl_predictor_t *p, uint32_t version) {
    if (version)
        p->setup.version = version;
}

void ccl_predictor_nvls(ccl_predictor_t *p, bool allowed, bool registered) {
    p->setup.nvls = p->setup.nvls && allowed;
    p->setup.registered = registered;
}

void ccl_predictor_lay(ccl_predictor_t *p, const ccl_topology_t *laid) {
    drop_profile(p);
    p->laid = laid == p->topo ? NULL : laid;
}

const ccl_nccl_setup_t *ccl_predictor_setup(const ccl_predictor_t *p) {
    return &p->setup;
}

void ccl_predictor_rest(ccl_predictor_t *p) {
    ccl_routes_destroy(p->routes);
    p->routes = NULL;
}

static ccl_status_t need_routes(ccl_predictor_t *p, ccl_error_t *err) {
    p->routes = p->routes ? p->routes : ccl_routes_create(p->topo);
    return p->routes ? CCL_OK : ccl_fail_nomem(err);
}

/* The program, and the choice with the channels that it has. */
static ccl_status_t program_for(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                                ccl_nccl_choice_t *choice, const ccl_program_t **out,
                                ccl_error_t *err) {
    for (size_t i = 0; i < p->nkept; i++) {
        const kept_t *k = &p->kept[i];
        if (k->kind == kind && k->root == root && k->choice.algo == choice->algo &&
            k->asked == choice->channels) {
            *out = k->program;
            choice->channels = k->choice.channels;
            return CCL_OK;
        }
    }
    if (!ccl_grow(&p->kept, &p->cap, p->nkept + 1, sizeof *p->kept))
        return ccl_fail_nomem(err);
    kept_t *k = &p->kept[p->nkept];
    k->asked = choice->channels;
    CCL_TRY(need_routes(p, err));
    CCL_TRY(ccl_nccl_program(&p->ctx, p->topo, p->routes, kind, root, choice, &k->program, err));
    ccl_status_t status = ccl_make_proven(&p->ctx, k->program, CCL_GRANULARITY_ALGORITHM,
                                          CCL_EXECUTOR_ANY, CCL_OK, err);
    if (status != CCL_OK) {
        ccl_program_destroy(k->program);
        return status;
    }
    k->kind = kind;
    k->root = root;
    k->choice = *choice;
    p->nkept++;
    *out = k->program;
    return CCL_OK;
}

/* Of what a rank of a chain or tree passes on at a time. */
static double most_bytes(int view, ccl_nccl_proto_t proto) {
    static const double tree[NPROTOS] = {TREE_LL_BYTES, TREE_LL128_BYTES, TREE_STEP_BYTES};
    return view == VIEW_TREE ? tree[proto] : CHAIN_SLICE_BYTES;
}

/** What NCCL's kernel does other than in a ring, in terms of the model. */
static void change(int view, ccl_nccl_proto_t proto, ccl_transport_t *t) {
    if (view == VIEW_P2P) { /* half of a block's threads send, half receive and copy out */
        t->tb_rate_Bps /= 2;
        t->slice_bytes /= 2;
        t->slices = 2;
    } else if (view == VIEW_REGISTERED) { /* nothing is copied into buffers and out of them */
        t->direct = true;
    } else { /* all ranks of a chain or tree work at once */
        t->slice_bytes = fmin(t->slice_bytes, most_bytes(view, proto));
    }
}

/* A proxy sends messages of a size of its own; with LL a single one, behind a request for it. GPUs
 * that share a NIC have a proxy each, so that it handles as many requests at once. */
static void change_p2p_net(bool lines, uint32_t proxies, ccl_transport_t *t) {
    t->slice_bytes = fmin(t->slice_bytes, P2P_NET_BYTES);
    t->slices = 1;
    t->message_bytes = lines ? INFINITY : fmin(t->message_bytes, P2P_NET_BYTES);
    if (lines)
        t->message_s *= P2P_REQUEST / proxies;
}

static int view_of(const ccl_predictor_t *p, ccl_collective_kind_t kind,
                   const ccl_nccl_choice_t *choice) {
    if (choice->algo == CCL_NCCL_NVLS || choice->algo == CCL_NCCL_NVLS_TREE)
        return p->setup.registered ? VIEW_REGISTERED : VIEW_RING;
    if (choice->algo != CCL_NCCL_RING)
        return choice->algo == CCL_NCCL_P2P ? VIEW_P2P : VIEW_TREE;
    return kind == CCL_BROADCAST || kind == CCL_REDUCE ? VIEW_CHAIN : VIEW_RING;
}

/* The kind of link that GPUs of a server have to each other. */
static const char *inside_kind(const ccl_predictor_t *p) {
    const ccl_topology_t *topo = p->topo;
    for (uint32_t l = 0; p->setup.nvlink && l < topo->nlinks; l++) {
        const char *kind = topo->kinds[topo->links[l].kind];
        if (strcmp(kind, "nvlink") == 0 || strcmp(kind, "xgmi") == 0)
            return kind;
    }
    return p->setup.nservers == topo->nranks ? "net" : "pcie";
}

/* Every kind of link, and every transport of its own, as it is for that protocol, changed. */
static ccl_status_t make_view(const ccl_topology_t *topo, int view, ccl_nccl_proto_t proto,
                              uint32_t proxies, view_t *out, ccl_error_t *err) {
    const char *name = ccl_nccl_proto_name(proto);
    const uint32_t all = CCL_TRANSPORT_ALL;
    uint32_t n = 0;
    if (out->transports)
        return CCL_OK;
    out->transports = calloc(topo->nkinds + (size_t)topo->ntransports + 1, sizeof *out->transports);
    if (!out->transports)
        return ccl_fail_nomem(err);
    out->topo = *topo;
    for (uint32_t i = 0; i < topo->nkinds + topo->ntransports; i++) {
        const char *kind =
            i < topo->nkinds ? topo->kinds[i] : topo->transports[i - topo->nkinds].kind;
        bool known = false;
        for (uint32_t k = 0; k < n && !known; k++)
            known = strcmp(out->transports[k].kind, kind) == 0;
        if (known)
            continue;
        const ccl_transport_spec_t *slots = ccl_model_slots_spec(topo, kind, name);
        ccl_transport_spec_t *spec = &out->transports[n++];
        spec->kind = kind;
        spec->given = all;
        spec->value = ccl_model_transport(topo, kind, name);
        spec->slots_from = slots ? slots->slots_from : NULL;
        if (spec->value.mechanism == CCL_MECHANISM_DEVICE)
            change(view, proto, &spec->value);
        if (view == VIEW_P2P && strcmp(kind, "net") == 0)
            change_p2p_net(proto != CCL_NCCL_SIMPLE, proxies, &spec->value);
    }
    out->topo.transports = out->transports;
    out->topo.ntransports = n;
    return CCL_OK;
}

ccl_status_t ccl_predictor_kernel(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                                  double size_bytes, const ccl_nccl_choice_t *choice,
                                  ccl_nccl_kernel_t *out, ccl_error_t *err) {
    ccl_nccl_kernel_t kernel = {0};
    const ccl_program_t *program = NULL;
    kernel.choice = choice ? *choice : ccl_nccl_choose(&p->setup, kind, size_bytes);
    CCL_TRY(program_for(p, kind, root, &kernel.choice, &program, err));
    const char *proto = ccl_nccl_proto_name(kernel.choice.proto);
    int k = (int)kernel.choice.proto, view = view_of(p, kind, &kernel.choice);
    kernel.program = *program;
    kernel.program.proto = proto;
    char choice_text[64];
    ccl_nccl_choice_text(&kernel.choice, choice_text, sizeof choice_text);
    const char *library = "nccl";
    (void)ccl_nccl_library(p->topo, &library, NULL); /* also of what diagnose asks about */
    ccl_origin_set(kernel.program.origin, "%s: %s", library, choice_text);
    kernel.topo = p->fitted ? p->fitted : p->laid ? p->laid : p->topo;
    if (view != VIEW_RING) {
        CCL_TRY(make_view(kernel.topo, view, kernel.choice.proto, p->setup.nic_gpus,
                          &p->views[view][k], err));
        kernel.topo = &p->views[view][k].topo;
    }
    ccl_transport_t t = ccl_model_transport(kernel.topo, inside_kind(p), proto);
    kernel.step_bytes = t.slice_bytes;
    kernel.buffer_bytes = t.slice_bytes * t.slots;
    *out = kernel;
    return CCL_OK;
}

ccl_sim_options_t ccl_nccl_kernel_sim(const ccl_nccl_kernel_t *kernel, double size_bytes) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    options.size_bytes = size_bytes;
    options.batches = kernel->choice.batches;
    return options;
}

ccl_status_t ccl_predictor_estimate(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                                    double size_bytes, const ccl_nccl_choice_t *choice,
                                    double limit_s, ccl_prediction_t *out, ccl_error_t *err) {
    ccl_prediction_t result = {0};
    ccl_nccl_kernel_t kernel;
    ccl_sim_result_t *run = NULL;
    CCL_TRY(ccl_predictor_kernel(p, kind, root, size_bytes, choice, &kernel, err));
    CCL_TRY(need_routes(p, err));
    ccl_sim_options_t options = ccl_nccl_kernel_sim(&kernel, size_bytes);
    options.give_up_s = limit_s;
    options.estimate = limit_s > 0;
    result.choice = kernel.choice;
    ccl_routes_t *routes = p->fitted ? p->fitted_routes : p->laid ? NULL : p->routes;
    ccl_ctx_t quiet = p->ctx;
    quiet.log = NULL; /* the same for every size */
    ccl_status_t status =
        ccl_sim_program(&quiet, kernel.topo, routes, &kernel.program, &options, &run, err);
    if (status != CCL_OK) {
        ccl_sim_result_destroy(run);
        return status;
    }
    result.time_s = run->time_s;
    result.busbw_GBps = run->busbw_GBps;
    result.link_kind = "";
    if (!(run->time_s < INFINITY)) {
        ccl_sim_result_destroy(run);
        *out = result;
        return CCL_OK;
    }
    for (uint32_t l = 0; l < run->nlinks; l++) {
        const char *name = p->topo->kinds[p->topo->links[l].kind];
        double use = run->links[l].utilization;
        /* A NIC and the PCIe link to it are equally busy: it is the NIC that limits. */
        bool nic = strcmp(name, "net") == 0 && use > 0.99 * result.link_use;
        if (use > result.link_use * (strcmp(result.link_kind, "net") == 0 ? 1 / 0.99 : 1) || nic) {
            result.link_use = use > result.link_use ? use : result.link_use;
            result.link_kind = name;
        }
    }
    for (uint32_t t = 0; t < run->ntbs; t++) {
        double use = run->time_s > 0 ? run->tbs[t].busy_s / run->time_s : 0;
        if (use > result.block_use)
            result.block_use = use;
    }
    ccl_sim_result_destroy(run);
    *out = result;
    return CCL_OK;
}

ccl_status_t ccl_predictor_run(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                               double size_bytes, const ccl_nccl_choice_t *choice,
                               ccl_prediction_t *out, ccl_error_t *err) {
    return ccl_predictor_estimate(p, kind, root, size_bytes, choice, 0, out, err);
}

ccl_status_t ccl_nccl_baselines(const ccl_ctx_t *ctx, const ccl_topology_t *machine,
                                const ccl_topology_t *topo, const ccl_collective_t *want,
                                const double *sizes_bytes, uint32_t nsizes,
                                ccl_nccl_baseline_t *out, ccl_error_t *err) {
    ccl_predictor_t *p = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    const char *name = NULL;
    for (uint32_t s = 0; s < nsizes; s++)
        out[s] = (ccl_nccl_baseline_t){.time_s = NAN};
    ccl_status_t status = ccl_nccl_library(topo, &name, &why);
    if (status == CCL_OK)
        status = ccl_nccl_open(ctx, machine, topo, want, &p, &why);
    for (uint32_t s = 0; status == CCL_OK && s < nsizes; s++) {
        ccl_prediction_t run;
        status = ccl_predictor_run(p, want->kind, want->root, sizes_bytes[s], NULL, &run, &why);
        if (status != CCL_OK)
            break;
        out[s].name = name;
        out[s].time_s = run.time_s;
        ccl_nccl_choice_text(&run.choice, out[s].choice, sizeof out[s].choice);
    }
    ccl_predictor_destroy(p);
    if (status != CCL_INTERRUPTED && status != CCL_ERR_INTERNAL && status != CCL_ERR_NOMEM)
        return CCL_OK; /* it has no time here, which hinders nobody */
    if (err)
        *err = why;
    return status;
}
