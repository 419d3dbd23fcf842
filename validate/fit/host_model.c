/*
 * The host's workers in the model's words. A pass is work; with W workers at most W passes go on at
 * a time. In the model that is a link which all flows share, of W bytes per nanosecond, with flows
 * of as many bytes as their passes take nanoseconds: max-min sharing is then processor sharing, and
 * all work is done exactly once. What a step costs stands in the size of its element.
 */
#include "validate/fit/host.h"

#include <math.h>
#include <stdlib.h>

#define SLOTS 8u
#define WORK_RATE_Bps 1e9 /* a byte is a nanosecond of a worker */

/* ---------------------------------------------------------------- what a run is like */

static double buffer_share(const ccl_program_t *p, uint32_t rank, uint32_t buffer) {
    size_t at = 3 * (size_t)rank + buffer;
    if (!p->shares)
        return (double)p->buffer_len[at] / p->nchunks;
    double share = 0;
    for (uint32_t i = 0; i < p->buffer_len[at]; i++)
        share += p->shares[at][i];
    return share;
}

double ccl_host_footprint(const ccl_program_t *p, const ccl_run_options_t *o) {
    bool in_place = p->in_place && !(o->out_of_place && p->out_of_place);
    double share = 0;
    for (uint32_t r = 0; r < p->nranks; r++) {
        double in = buffer_share(p, r, CCL_BUF_INPUT), out = buffer_share(p, r, CCL_BUF_OUTPUT);
        share += buffer_share(p, r, CCL_BUF_SCRATCH) + (in_place ? fmax(in, out) : in + out);
    }
    return share * o->size_bytes;
}

static double slice_limit(const ccl_run_options_t *o) {
    return o->slice_bytes > 0 ? o->slice_bytes : CCL_I_HOST_SLICE_BYTES;
}

uint32_t ccl_host_batches(const ccl_program_t *p, const ccl_run_options_t *o) {
    double share = p->shares ? 0 : 1.0 / p->nchunks;
    for (size_t i = 0; p->shares && i < 3 * (size_t)p->nranks; i++)
        for (uint32_t k = 0; k < p->buffer_len[i]; k++)
            share = fmax(share, p->shares[i][k]);
    if (o->batches)
        return o->batches;
    double fifo = 0.5 * (o->slots ? o->slots : SLOTS) * slice_limit(o);
    double batches = ccl_model_ceil(share * o->size_bytes / fifo);
    return batches < 1 ? 1 : batches > 1e6 ? 1000000 : (uint32_t)batches;
}

/* ---------------------------------------------------------------- constants at a footprint */

double ccl_i_host_at(const ccl_host_model_t *m, const double *values, double bytes) {
    uint32_t n = m->nknots, k = 0;
    if (bytes <= m->footprint_bytes[0] || n == 1)
        return values[0];
    if (bytes >= m->footprint_bytes[n - 1])
        return values[n - 1];
    while (bytes > m->footprint_bytes[k + 1])
        k++;
    double x =
        log(bytes / m->footprint_bytes[k]) / log(m->footprint_bytes[k + 1] / m->footprint_bytes[k]);
    return values[k] + x * (values[k + 1] - values[k]);
}

/* ---------------------------------------------------------------- the program of the work */

typedef struct rewrite {
    const ccl_program_t *p;
    const ccl_run_options_t *o;
    const ccl_host_model_t *model;
    uint32_t batches, slices;
    double footprint;
    double *work_ns; /* [nsteps] of a micro-batch; a lone receive's is its sender's */
    uint32_t *place; /* [nsteps] element of the rank's buffer */
    ccl_program_builder_t *b;
    uint32_t sink_len;
    double *sink_shares; /* [nsteps] */
} rewrite_t;

static double step_bytes(const rewrite_t *w, const ccl_tb_t *tb, const ccl_step_t *step) {
    return ccl_program_step_share(w->p, tb, step) * w->o->size_bytes / w->batches;
}

/* Processes have ascending ranks, as many as divide evenly. */
static uint32_t process_of(const rewrite_t *w, uint32_t rank) {
    uint32_t n = w->p->nranks, processes = ccl_i_host_processes(w->o, n), at = 0;
    while ((uint64_t)n * (at + 1) / processes <= rank)
        at++;
    return at;
}

static bool crosses(const ccl_step_t *s) {
    return ccl_primitive_sends(s->type) || ccl_primitive_receives(s->type);
}

static ccl_status_t cost_steps(rewrite_t *w, ccl_error_t *err) {
    const ccl_program_t *p = w->p;
    const ccl_host_model_t *m = w->model;
    double across = ccl_i_host_at(m, m->across_s_per_byte, w->footprint);
    /* Where all data cost the same their order does not matter. */
    bool flat = m->nknots == 1 || w->footprint <= m->footprint_bytes[0];
    if (!flat)
        CCL_TRY(ccl_i_host_data_work(p, w->o, m, w->work_ns, err));
    double least = w->o->slices ? w->o->slices : 1;
    w->slices = (uint32_t)least;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            const ccl_step_t *s = &p->steps[i];
            if (s->type >= CCL_HOST_PASSES)
                continue;
            double bytes = step_bytes(w, tb, s), k = 1;
            if (crosses(s))
                k = fmax(least, ccl_model_ceil(bytes / slice_limit(w->o)));
            w->slices = k > w->slices ? (uint32_t)k : w->slices;
            if (flat)
                w->work_ns[i] = 1e9 * bytes * m->s_per_byte[s->type][0];
            w->work_ns[i] += 1e9 * k * m->overhead_s;
            if (ccl_primitive_sends(s->type) &&
                process_of(w, tb->rank) != process_of(w, ccl_program_peers(p, tb, i).send_peer))
                w->work_ns[i] += 1e9 * (k * m->across_s + bytes * across);
        }
    }
    return CCL_OK;
}

/* The work of a receive that does not send goes to the send that it meets. */
static ccl_status_t move_receives(rewrite_t *w, ccl_error_t *err) {
    const ccl_program_t *p = w->p;
    bool whole = false;
    ccl_wiring_t wiring;
    CCL_TRY(ccl_wiring_init(p, w->o->granularity, &wiring, err));
    uint32_t *receiver = malloc((p->nsteps + (size_t)1) * sizeof *receiver);
    uint32_t *sender = malloc((p->nsteps + (size_t)1) * sizeof *sender);
    ccl_status_t status = receiver && sender
                              ? ccl_wiring_match(&wiring, p, receiver, sender, &whole, err)
                              : ccl_fail_nomem(err);
    if (status == CCL_OK && !whole)
        status = ccl_fail(err, CCL_ERR_INPUT, "program \"%.100s\": sends and receives do not match",
                          p->name);
    for (uint32_t i = 0; status == CCL_OK && i < p->nsteps; i++) {
        if (sender[i] == CCL_NONE || ccl_primitive_sends(p->steps[i].type))
            continue;
        w->work_ns[sender[i]] += w->work_ns[i];
        w->work_ns[i] = 0;
    }
    free(receiver);
    free(sender);
    ccl_wiring_fini(&wiring);
    return status;
}

static void add_block(rewrite_t *w, const ccl_tb_t *tb, uint32_t sink) {
    const ccl_program_t *p = w->p;
    uint32_t handle = ccl_program_builder_tb(w->b, tb->rank, CCL_NONE, CCL_NONE, tb->channel);
    uint32_t sink_channel = p->nchannels + tb->id, sink_tb = CCL_NONE;
    for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
        ccl_step_t s = p->steps[i];
        ccl_peers_t peers = ccl_program_peers(p, tb, i);
        s.src_buf = s.dst_buf = CCL_BUF_INPUT;
        s.src_off = s.dst_off = w->place[i];
        s.count = 1;
        if (!ccl_primitive_sends(s.type))
            peers.send_peer = CCL_NONE;
        if (!ccl_primitive_receives(s.type))
            peers.recv_peer = CCL_NONE;
        if (s.type == CCL_PRIM_CPY || s.type == CCL_PRIM_RE) {
            ccl_step_t r = {.src_off = w->sink_len,
                            .dst_off = w->sink_len,
                            .count = 1,
                            .dep_tb = CCL_NONE,
                            .dep_step = CCL_NONE,
                            .stage = s.stage,
                            .type = CCL_PRIM_R};
            if (sink_tb == CCL_NONE)
                sink_tb = ccl_program_builder_tb(w->b, sink, CCL_NONE, CCL_NONE, sink_channel);
            ccl_program_builder_step_peers(w->b, sink_tb, r,
                                           (ccl_peers_t){CCL_NONE, tb->rank, sink_channel});
            w->sink_shares[w->sink_len++] = w->work_ns[i];
            s.type = CCL_PRIM_S;
            peers = (ccl_peers_t){sink, CCL_NONE, sink_channel};
        }
        ccl_program_builder_step_peers(w->b, handle, s, peers);
    }
}

static ccl_status_t build(rewrite_t *w, ccl_program_t **out, ccl_error_t *err) {
    const ccl_program_t *p = w->p;
    uint32_t n = p->nranks;
    ccl_collective_t *coll = NULL;
    double *shares = malloc((p->nsteps + (size_t)1) * sizeof *shares);
    if (!shares)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_collective_create(CCL_ALLREDUCE, n + 1, 1, 0, &coll, err);
    if (status == CCL_OK && !(w->b = ccl_program_builder_create(p->name, coll, 1, "Simple")))
        status = ccl_fail_nomem(err);
    if (status != CCL_OK) {
        free(shares);
        return status;
    }
    for (uint32_t r = 0; r < n; r++) {
        uint32_t len = 0;
        for (uint32_t t = p->rank_first_tb[r]; t < p->rank_first_tb[r + 1]; t++) {
            const ccl_tb_t *tb = &p->tbs[t];
            for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
                shares[len] = w->work_ns[i];
                w->place[i] = len++;
            }
            add_block(w, tb, n);
        }
        ccl_program_builder_buffer(w->b, r, CCL_BUF_INPUT, len);
        ccl_program_builder_buffer(w->b, r, CCL_BUF_OUTPUT, 0);
        ccl_program_builder_shares(w->b, r, CCL_BUF_INPUT, shares);
    }
    ccl_program_builder_buffer(w->b, n, CCL_BUF_INPUT, w->sink_len);
    ccl_program_builder_buffer(w->b, n, CCL_BUF_OUTPUT, 0);
    ccl_program_builder_shares(w->b, n, CCL_BUF_INPUT, w->sink_shares);
    free(shares);
    return ccl_program_builder_finish(w->b, out, err);
}

ccl_status_t ccl_host_program(const ccl_program_t *program, const ccl_run_options_t *options,
                              const ccl_host_model_t *model, uint32_t batches, uint32_t *slices_out,
                              ccl_program_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    if (program->ngroups > 0)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "program \"%.100s\" has switch connections, which the model of a host does "
                        "not know",
                        program->name);
    rewrite_t w = {.p = program,
                   .o = options,
                   .model = model,
                   .batches = batches,
                   .footprint = ccl_host_footprint(program, options)};
    w.work_ns = calloc(program->nsteps + (size_t)1, sizeof *w.work_ns);
    w.place = calloc(program->nsteps + (size_t)1, sizeof *w.place);
    w.sink_shares = calloc(program->nsteps + (size_t)1, sizeof *w.sink_shares);
    ccl_status_t status = CCL_OK;
    if (!w.work_ns || !w.place || !w.sink_shares)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = cost_steps(&w, err);
    if (status == CCL_OK)
        status = move_receives(&w, err);
    if (status == CCL_OK)
        status = build(&w, out, err);
    *slices_out = w.slices;
    free(w.work_ns);
    free(w.place);
    free(w.sink_shares);
    return status;
}

ccl_status_t ccl_host_topology(uint32_t nranks, const ccl_host_model_t *model,
                               double footprint_bytes, uint32_t slots, uint32_t slices,
                               ccl_topology_t **out, ccl_error_t *err) {
    ccl_gpu_model_t core = ccl_gpu_model_default("host");
    ccl_transport_spec_t spec = {.kind = "host",
                                 .given = CCL_TRANSPORT_TB_RATE | CCL_TRANSPORT_SLOTS |
                                          CCL_TRANSPORT_SLICES,
                                 .value = ccl_transport_default("host")};
    core.launch_s = model->launch_s;
    spec.value.tb_rate_Bps = WORK_RATE_Bps;
    spec.value.slots = slots;
    spec.value.slices = slices;
    double pool = ccl_i_host_at(model, model->pool, footprint_bytes);
    return ccl_topology_host("host", nranks + 1, &core, WORK_RATE_Bps * pool, model->latency_s,
                             &spec, out, err);
}

ccl_status_t ccl_host_predict(const ccl_ctx_t *ctx, const ccl_program_t *program,
                              const ccl_run_options_t *options, const ccl_host_model_t *model,
                              double *time_s_out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    ccl_program_t *work = NULL;
    ccl_topology_t *topo = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    uint32_t slices = 1;
    sim.batches = ccl_host_batches(program, options);
    sim.granularity = options->granularity;
    sim.size_bytes = sim.batches; /* elements are the work of one micro-batch */
    ccl_status_t status =
        ccl_host_program(program, options, model, sim.batches, &slices, &work, err);
    if (status == CCL_OK)
        status = ccl_host_topology(program->nranks, model, ccl_host_footprint(program, options),
                                   options->slots ? options->slots : SLOTS, slices, &topo, err);
    if (status == CCL_OK)
        status = ccl_sim_program(ctx, topo, NULL, work, &sim, &result, err);
    if (status == CCL_OK)
        *time_s_out = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_topology_destroy(topo);
    ccl_program_destroy(work);
    return status;
}
