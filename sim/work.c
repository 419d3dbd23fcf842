/**
 * @file work.c
 * What each step does in a run. There are millions of steps, which do few different things: each
 * thing is kept once, and of each step which it is. Only steps that are simulated have it at hand.
 */
#include "sim/program.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *slot_of(const ccl_i_run_t *run, uint32_t *slots, uint32_t nslots,
                         const ccl_i_work_t *w) {
    uint64_t bits[3];
    memcpy(&bits[0], &w->bytes, sizeof(bits[0]));
    memcpy(&bits[1], &w->rate_Bps, sizeof(bits[1]));
    memcpy(&bits[2], &w->overhead_s, sizeof(bits[2]));
    uint64_t hash = ccl_mix64(bits[0] ^ ccl_mix64(bits[1] ^ ccl_mix64(bits[2] ^ w->slices)));
    for (size_t at = (size_t)hash;; at++) {
        uint32_t *slot = &slots[at & (nslots - 1)];
        if (*slot == CCL_NONE)
            return slot;
        const ccl_i_work_t *x = &run->works[*slot];
        if (x->bytes == w->bytes && x->rate_Bps == w->rate_Bps && x->overhead_s == w->overhead_s &&
            x->slices == w->slices && x->sends == w->sends && x->receives == w->receives &&
            x->pulls == w->pulls)
            return slot;
    }
}

/** A step of the rank in hand by all that its work depends on, and that work. */
typedef struct recent {
    double bytes; /* of a micro-batch */
    uint32_t work;
    uint8_t type, to, from; /* primitive; transports that its unit sends and receives on */
} recent_t;
#define NO_KIND UINT8_MAX

/** While works are made. */
typedef struct maker {
    const ccl_i_kinds_t *kinds;
    double size_bytes;
    uint32_t *slots, nslots; /* works by what they are */
    uint64_t *conn_slices;   /* [nconns] sent so far, where steps have their own connections */
    uint32_t unit, rank;     /* in hand */
    ccl_gpu_model_t gpu;     /* of the rank */
    recent_t recent[4];      /* the last that differed; many blocks of a rank do the same */
    uint32_t nrecent;        /* so far; the oldest are overwritten */
    uint64_t slices;         /* that the unit has sent */
} maker_t;

static bool grow_slots(const ccl_i_run_t *run, maker_t *m) {
    uint32_t nslots = m->nslots ? 2 * m->nslots : 64;
    uint32_t *slots = malloc(nslots * sizeof(*slots));
    if (!slots)
        return false;
    memset(slots, 0xff, nslots * sizeof(*slots));
    for (uint32_t i = 0; i < run->nworks; i++)
        *slot_of(run, slots, nslots, &run->works[i]) = i;
    free(m->slots);
    m->slots = slots;
    m->nslots = nslots;
    return true;
}

/* The number of a work; CCL_NONE: no memory. */
static uint32_t number(ccl_i_run_t *run, maker_t *m, const ccl_i_work_t *w) {
    if (2 * run->nworks >= m->nslots && !grow_slots(run, m))
        return CCL_NONE;
    uint32_t *slot = slot_of(run, m->slots, m->nslots, w);
    if (*slot == CCL_NONE) {
        if (!ccl_i_grow(&run->works, &run->works_cap, run->nworks + 1u, sizeof(*run->works)))
            return CCL_NONE;
        run->works[run->nworks] = *w;
        *slot = run->nworks++;
    }
    return *slot;
}

/* A pull moves every byte through its block, whether it comes through a buffer or not. */
static double pull_Bps(const ccl_transport_t *from) {
    return from->mechanism == CCL_MECHANISM_DEVICE ? from->tb_rate_Bps : from->copy_out_Bps;
}

/* What the flows of n steps on a connection come to, added up step by step; `bytes` of one
   micro-batch. */
static void count_flows(const ccl_i_run_t *run, const ccl_i_conn_t *conn, const ccl_i_work_t *w,
                        double bytes, uint32_t n, ccl_sim_result_t *r) {
    double flows = (double)run->batches * w->slices;
    double sum = flows * ccl_i_flow_bytes(run, conn, bytes / w->slices, w->slices);
    r->flows += (uint64_t)run->batches * w->slices * n;
    for (uint32_t l = 0; l < conn->route->nlinks; l++)
        for (uint32_t i = 0; i < n; i++)
            r->links[conn->route->links[l]].bytes += sum;
}

/* Whose FIFOs never fill is known when all of a unit's work is: a pull frees the slots of all its
   members at once, and a multicast counts those of its own. */
static void make_roomy(ccl_i_run_t *run) {
    for (uint32_t i = 0; i < run->ntrunks; i++) {
        const ccl_i_trunk_t *t = &run->trunks[i];
        bool all = t->reduces;
        for (uint32_t k = 0; k < t->n; k++)
            all = all && run->conns[run->members[t->first + k]].roomy;
        run->conns[t->conn].roomy = all;
    }
}

/* What a step does; bytes of a micro-batch. */
static ccl_status_t step_work(const ccl_i_run_t *run, const maker_t *m, uint32_t index,
                              double bytes, ccl_i_work_t *out, ccl_error_t *err) {
    const ccl_i_kinds_t *kinds = m->kinds;
    const ccl_i_unit_t *u = &run->units[m->unit];
    const ccl_tb_t *tb = &run->program->tbs[u->tb];
    const ccl_step_t *s = &run->program->steps[index];
    const uint32_t *own = run->step_conns ? &run->step_conns[2 * (size_t)index] : NULL;
    uint32_t send_conn = own ? own[0] : u->send, recv_conn = own ? own[1] : u->recv;
    const ccl_transport_t *to = NULL, *from = NULL;
    ccl_i_work_t *w = out;
    *w = (ccl_i_work_t){.rate_Bps = INFINITY, .slices = 1, .dep = CCL_NONE};
    w->sends = ccl_primitive_sends(s->type);
    w->receives = ccl_primitive_receives(s->type);
    if (w->sends || w->receives) {
        double n = fmax(ccl_model_ceil(bytes / kinds->fifos.slice_bytes), kinds->fifos.slices);
        if (n > 1e9)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "rank %u block %u step %u: %.3g slices of one primitive", tb->rank,
                            tb->id, index - tb->first_step, n);
        w->slices = (uint32_t)n;
    }
    w->bytes = s->type == CCL_PRIM_NOP ? 0 : bytes / w->slices;
    if (w->sends)
        to = &kinds->fifos.kind[own ? run->conns[send_conn].kind : kinds->ends[m->unit].send]
                  .transport;
    if (w->receives)
        from = &kinds->fifos.kind[own ? run->conns[recv_conn].kind : kinds->ends[m->unit].recv]
                    .transport;
    w->pulls = w->receives && ccl_i_conn_is_trunk(run, recv_conn);
    if (from)
        w->rate_Bps = fmin(w->rate_Bps, w->pulls ? pull_Bps(from) : ccl_model_receive_Bps(from));
    if (to && !(ccl_i_conn_offers(run, send_conn) && to->direct))
        w->rate_Bps = fmin(w->rate_Bps, to->tb_rate_Bps);
    if (ccl_primitive_reduces(s->type))
        w->rate_Bps = fmin(w->rate_Bps, m->gpu.reduce_rate_Bps);
    if (s->type == CCL_PRIM_CPY)
        w->rate_Bps = fmin(w->rate_Bps, m->gpu.copy_rate_Bps);
    w->rate_Bps *= ccl_i_block_rate(run, m->rank);
    w->overhead_s = to                        ? to->overhead_s
                    : from                    ? from->overhead_s
                    : s->type != CCL_PRIM_NOP ? m->gpu.overhead_s
                                              : 0;
    return CCL_OK;
}

/* What n alike steps of a unit bring to its connections; more than one where none pulls or has
   connections of its own. */
static void count_steps(ccl_i_run_t *run, maker_t *m, uint32_t index, double bytes, uint32_t n,
                        ccl_sim_result_t *r) {
    const ccl_i_unit_t *u = &run->units[m->unit];
    const ccl_i_work_t *w = &run->works[run->work_of[index]];
    const uint32_t *own = run->step_conns ? &run->step_conns[2 * (size_t)index] : NULL;
    uint32_t conn = own ? own[0] : u->send;
    if (w->sends) {
        r->transfers += (uint64_t)run->batches * n;
        m->slices += (uint64_t)run->batches * w->slices * n;
        if (own) {
            uint64_t *sum = &m->conn_slices[conn];
            *sum += (uint64_t)run->batches * w->slices;
            run->conns[conn].roomy = *sum <= run->conns[conn].slots;
        }
        if (!ccl_i_conn_offers(run, conn))
            count_flows(run, &run->conns[conn], w, bytes, n, r);
    }
    if (w->pulls)
        count_flows(run, &run->conns[own ? own[1] : u->recv], w, bytes, n, r);
}

/* The work of a step; that of one before it where they are alike. */
static ccl_status_t work_of(ccl_i_run_t *run, maker_t *m, uint32_t step, double bytes,
                            uint32_t *out, ccl_error_t *err) {
    const ccl_i_unit_t *u = &run->units[m->unit];
    const ccl_i_ends_t *ends = &m->kinds->ends[m->unit];
    const recent_t now = {.bytes = bytes,
                          .type = run->program->steps[step].type,
                          .to = u->send == CCL_NONE ? NO_KIND : ends->send,
                          .from = u->recv == CCL_NONE ? NO_KIND : ends->recv};
    const uint32_t most = CCL_ARRAY_LEN(m->recent), n = m->nrecent < most ? m->nrecent : most;
    for (uint32_t i = 0; !run->step_conns && i < n; i++) {
        const recent_t *r = &m->recent[i];
        if (r->bytes == now.bytes && r->type == now.type && r->to == now.to &&
            r->from == now.from) {
            *out = r->work;
            return CCL_OK;
        }
    }
    ccl_i_work_t w;
    CCL_TRY(step_work(run, m, step, bytes, &w, err));
    *out = number(run, m, &w);
    if (*out == CCL_NONE)
        return ccl_fail_nomem(err);
    recent_t *at = &m->recent[m->nrecent++ % most];
    *at = now;
    at->work = *out;
    return CCL_OK;
}

/* The steps of a unit. */
static ccl_status_t unit_work(ccl_i_run_t *run, maker_t *m, ccl_sim_result_t *r, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    const ccl_i_unit_t *u = &run->units[m->unit];
    m->slices = 0;
    m->nrecent = run->ntrunks == 0 ? m->nrecent : 0; /* at a trunk or not is the unit's own */
    bool alike = !p->shares && !run->step_conns && run->ntrunks == 0;
    for (uint32_t k = 0, end; k < u->nsteps; k = end) {
        uint32_t step = ccl_i_step_at(run, u->first + k);
        const ccl_step_t *s = &p->steps[step];
        double bytes = ccl_program_step_share(p, &p->tbs[u->tb], s) * m->size_bytes / run->batches;
        uint32_t work;
        CCL_TRY(work_of(run, m, step, bytes, &work, err));
        run->work_of[step] = work;
        for (end = k + 1; alike && end < u->nsteps; end++) {
            uint32_t next = ccl_i_step_at(run, u->first + end);
            if (p->steps[next].type != s->type || p->steps[next].count != s->count)
                break;
            run->work_of[next] = work;
        }
        count_steps(run, m, step, bytes, end - k, r);
    }
    if (u->send != CCL_NONE && !run->step_conns)
        run->conns[u->send].roomy = m->slices <= run->conns[u->send].slots;
    return CCL_OK;
}

ccl_status_t ccl_i_work_make(ccl_i_run_t *run, const ccl_i_kinds_t *kinds, double size_bytes,
                             ccl_sim_result_t *r, ccl_error_t *err) {
    maker_t m = {.kinds = kinds, .size_bytes = size_bytes, .rank = CCL_NONE};
    ccl_status_t status = CCL_OK;
    run->work_of = ccl_array_alloc(run->program->nsteps + (size_t)1, sizeof *run->work_of);
    if (run->step_conns)
        m.conn_slices = calloc(run->nconns + 1u, sizeof(*m.conn_slices));
    if (!run->work_of || (run->step_conns && !m.conn_slices))
        status = ccl_fail_nomem(err);
    for (uint32_t i = 0; i < run->nunits && status == CCL_OK; i++) {
        uint32_t rank = run->program->tbs[run->units[i].tb].rank;
        if (rank != m.rank) { /* units are by rank */
            m.rank = rank;
            m.nrecent = 0;
            m.gpu = ccl_model_gpu(run->topo, rank);
            run->flag_s[rank] = m.gpu.flag_s;
        }
        m.unit = i;
        status = unit_work(run, &m, r, err);
    }
    free(m.slots);
    free(m.conn_slices);
    if (status == CCL_OK)
        make_roomy(run);
    return status;
}

uint32_t ccl_i_work_dep(const ccl_i_run_t *run, uint32_t unit, uint32_t step) {
    const ccl_program_t *p = run->program;
    const ccl_tb_t *tb = &p->tbs[run->units[unit].tb];
    const ccl_step_t *s = &p->steps[step];
    if (s->dep_tb == CCL_NONE || s->dep_step == CCL_NONE)
        return CCL_NONE;
    const ccl_tb_t *other = &p->tbs[p->rank_first_tb[tb->rank] + s->dep_tb];
    uint32_t dep = other->first_step + s->dep_step;
    return other == tb && dep < step ? CCL_NONE : dep; /* met by order */
}

void ccl_i_work_mark(ccl_i_work_t *work, uint32_t nsteps, const ccl_i_unit_t *units,
                     uint32_t nunits) {
    for (uint32_t i = 0; i < nsteps; i++)
        if (work[i].dep != CCL_NONE)
            work[work[i].dep].awaited = true;
    for (uint32_t i = 0; i < nunits; i++)
        if (units[i].stage_dep != CCL_NONE)
            work[units[i].stage_dep].awaited = true;
}

bool ccl_i_work_table(ccl_i_run_t *run) {
    uint32_t n = run->program->nsteps;
    bool awaited = false;
    run->work = malloc((n + 1u) * sizeof(*run->work));
    if (!run->work)
        return false;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        for (uint32_t k = 0; k < u->nsteps; k++) {
            uint32_t step = ccl_i_step_at(run, u->first + k);
            run->work[step] = run->works[run->work_of[step]];
            run->work[step].dep = ccl_i_work_dep(run, i, step);
            awaited |= run->work[step].dep != CCL_NONE;
        }
        awaited |= u->stage_dep != CCL_NONE;
    }
    if (awaited)
        ccl_i_work_mark(run->work, n, run->units, run->nunits);
    return true;
}
