/* NCCL's collectives on one cluster, simulated; programs are kept for further sizes and constants.
 */
#include "validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TREE_STEP_BYTES 131072.0  /* of a tree with Simple: NCCL halves its chunk down to this */
#define CHAIN_SLICE_BYTES 16384.0 /* the least that NCCL cuts a step of 512 KiB into */

typedef struct kept {
    ccl_collective_kind_t kind;
    uint32_t root;
    ccl_nccl_choice_t choice;
    ccl_program_t *program;
} kept_t;

/** A topology whose transports differ from another's, which it borrows the rest from. */
typedef struct view {
    ccl_topology_t topo;
    ccl_transport_spec_t *transports; /* NULL: not made yet */
    ccl_routes_t *routes;
} view_t;
enum { VIEW_RING, VIEW_P2P, VIEW_CHAIN, VIEW_TREE, NVIEWS };

struct ccl_predictor {
    ccl_ctx_t ctx;
    const ccl_topology_t *topo; /* borrowed: NCCL looks at the machine, not at a profile */
    ccl_routes_t *routes;
    ccl_nccl_setup_t setup;
    ccl_topology_t *fitted; /* with the profile; NULL: none */
    ccl_routes_t *fitted_routes;
    view_t views[NVIEWS];
    kept_t *kept;
    size_t nkept, cap;
};

static void drop_profile(ccl_predictor_t *p) {
    for (int v = 0; v < NVIEWS; v++) {
        ccl_routes_destroy(p->views[v].routes);
        free(p->views[v].transports);
        memset(&p->views[v], 0, sizeof p->views[v]);
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
    p->routes = ccl_routes_create(topo);
    ccl_status_t status = p->routes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_nccl_setup(topo, channels, &p->setup, err);
    if (status == CCL_OK)
        status = ccl_predictor_profile(p, profile, err);
    if (status != CCL_OK) {
        ccl_predictor_destroy(p);
        return status;
    }
    *out = p;
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

const ccl_nccl_setup_t *ccl_predictor_setup(const ccl_predictor_t *p) {
    return &p->setup;
}

static ccl_status_t program_for(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                                const ccl_nccl_choice_t *choice, const ccl_program_t **out,
                                ccl_error_t *err) {
    for (size_t i = 0; i < p->nkept; i++) {
        const kept_t *k = &p->kept[i];
        if (k->kind == kind && k->root == root && k->choice.algo == choice->algo &&
            k->choice.proto == choice->proto && k->choice.channels == choice->channels) {
            *out = k->program;
            return CCL_OK;
        }
    }
    if (!ccl_grow(&p->kept, &p->cap, p->nkept + 1, sizeof *p->kept))
        return ccl_fail_nomem(err);
    kept_t *k = &p->kept[p->nkept];
    CCL_TRY(ccl_nccl_program(&p->ctx, p->topo, p->routes, kind, root, choice, &k->program, err));
    k->kind = kind;
    k->root = root;
    k->choice = *choice;
    p->nkept++;
    *out = k->program;
    return CCL_OK;
}

/** What NCCL's kernel does other than in a ring, in terms of the model. */
static void change(int view, ccl_transport_spec_t *spec) {
    ccl_transport_t *t = &spec->value;
    if (view == VIEW_P2P) { /* half of a block's threads send, half receive and copy out */
        t->tb_rate_Bps /= 2;
        t->slice_bytes /= 2;
        t->slices = 2;
        spec->given |= spec->protocol ? 0 : CCL_TRANSPORT_SLICES;
    } else { /* all ranks of a chain or tree work at once */
        bool lines = spec->protocol && strcmp(spec->protocol, "Simple") != 0;
        bool steps = view == VIEW_TREE && !lines;
        t->slice_bytes = fmin(t->slice_bytes, steps ? TREE_STEP_BYTES : CHAIN_SLICE_BYTES);
    }
}

static int view_of(ccl_collective_kind_t kind, const ccl_nccl_choice_t *choice) {
    if (choice->algo != CCL_NCCL_RING)
        return choice->algo == CCL_NCCL_P2P ? VIEW_P2P : VIEW_TREE;
    return kind == CCL_BROADCAST || kind == CCL_REDUCE ? VIEW_CHAIN : VIEW_RING;
}

static ccl_status_t make_view(const ccl_topology_t *topo, int view, view_t *out, ccl_error_t *err) {
    if (out->transports)
        return CCL_OK;
    out->transports = malloc((topo->ntransports + 1) * sizeof *out->transports);
    if (!out->transports)
        return ccl_fail_nomem(err);
    out->topo = *topo;
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        out->transports[i] = topo->transports[i];
        change(view, &out->transports[i]);
    }
    out->topo.transports = out->transports;
    out->routes = ccl_routes_create(&out->topo);
    if (out->routes)
        return CCL_OK;
    free(out->transports);
    out->transports = NULL;
    return ccl_fail_nomem(err);
}

ccl_status_t ccl_predictor_run(ccl_predictor_t *p, ccl_collective_kind_t kind, uint32_t root,
                               double size_bytes, const ccl_nccl_choice_t *choice,
                               ccl_prediction_t *out, ccl_error_t *err) {
    ccl_prediction_t result = {0};
    const ccl_program_t *program = NULL;
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *run = NULL;
    result.choice = choice ? *choice : ccl_nccl_choose(&p->setup, kind, size_bytes);
    CCL_TRY(program_for(p, kind, root, &result.choice, &program, err));
    const ccl_topology_t *topo = p->fitted ? p->fitted : p->topo;
    ccl_routes_t *routes = p->fitted ? p->fitted_routes : p->routes;
    int kind_of_view = view_of(kind, &result.choice);
    if (kind_of_view != VIEW_RING) {
        view_t *view = &p->views[kind_of_view];
        CCL_TRY(make_view(topo, kind_of_view, view, err));
        topo = &view->topo;
        routes = view->routes;
    }
    options.size_bytes = size_bytes;
    options.batches = result.choice.batches;
    ccl_ctx_t quiet = p->ctx;
    quiet.log = NULL; /* the same for every size */
    ccl_status_t status = ccl_sim_program(&quiet, topo, routes, program, &options, &run, err);
    if (status != CCL_OK) {
        ccl_sim_result_destroy(run);
        return status;
    }
    result.time_s = run->time_s;
    result.busbw_GBps = run->busbw_GBps;
    result.link_kind = "";
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
