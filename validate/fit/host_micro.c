/*
 * Programs to calibrate the host with: each is made of few kinds of passes, over buffers as large
 * as those of real ones. They compute nothing that is wanted, so their data are not checked.
 */
#include "validate/validate.h"

#include <stdlib.h>
#include <string.h>

#define ELEMENTS 6u
#define HALF (ELEMENTS / 2)
#define TURNS 32u
#define SENDS 64u

static const char *const names[CCL_HOST_MICROS] = {
    "pairs",        "fanout", "forward", "reduce", "reduce-pairs", "reduce-copy", "copy",
    "local-reduce", "one",    "across",  "ping",   "stream",       "empty"};

const char *ccl_host_micro_name(ccl_host_micro_t micro) {
    return names[micro];
}

static void add(ccl_program_builder_t *b, uint32_t tb, ccl_primitive_t type, uint32_t from,
                uint32_t to) {
    ccl_program_builder_step(b, tb,
                             (ccl_step_t){.src_off = from,
                                          .dst_off = to,
                                          .count = 1,
                                          .dep_tb = CCL_NONE,
                                          .dep_step = CCL_NONE,
                                          .type = (uint8_t)type});
}

/* Some elements of the buffer, in turn, to the others of a rank further on, an element a
   connection: nothing is read while it is written, and much is on its way at a time, as where
   all ranks send to all. */
static void pairs(ccl_program_builder_t *b, uint32_t n, uint32_t far, uint32_t sources,
                  ccl_primitive_t take) {
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t e = sources; e < ELEMENTS; e++) {
            uint32_t to = ccl_program_builder_tb(b, r, (r + far) % n, CCL_NONE, e);
            add(b, to, CCL_PRIM_S, e % sources, e % sources);
        }
        for (uint32_t e = sources; e < ELEMENTS; e++) {
            uint32_t from = ccl_program_builder_tb(b, r, CCL_NONE, (r + n - far) % n, e);
            add(b, from, take, e, e);
        }
    }
}

/* The data of all ranks go five ranks on, over those between. */
static void relay(ccl_program_builder_t *b, uint32_t n, ccl_primitive_t middle,
                  ccl_primitive_t last) {
    for (uint32_t r = 0; r < n; r++) {
        uint32_t tb = ccl_program_builder_tb(b, r, (r + 1) % n, (r + n - 1) % n, 0);
        add(b, tb, CCL_PRIM_S, 0, 0);
        for (uint32_t e = 1; e < ELEMENTS - 1; e++)
            add(b, tb, middle, e, e);
        add(b, tb, last, ELEMENTS - 1, ELEMENTS - 1);
    }
}

static void local(ccl_program_builder_t *b, uint32_t ranks, ccl_primitive_t type) {
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t tb = ccl_program_builder_tb(b, r, CCL_NONE, CCL_NONE, 0);
        for (uint32_t e = 0; e < HALF; e++)
            add(b, tb, type, e, e + HALF);
    }
}

static void ping(ccl_program_builder_t *b, uint32_t last) {
    uint32_t a = ccl_program_builder_tb(b, 0, last, last, 0);
    uint32_t z = ccl_program_builder_tb(b, last, 0, 0, 0);
    for (uint32_t i = 0; i < TURNS; i++) {
        add(b, a, CCL_PRIM_S, 0, 0);
        add(b, a, CCL_PRIM_R, 1, 1);
        add(b, z, CCL_PRIM_R, 0, 0);
        add(b, z, CCL_PRIM_S, 1, 1);
    }
}

static void stream(ccl_program_builder_t *b, uint32_t last) {
    uint32_t a = ccl_program_builder_tb(b, 0, last, CCL_NONE, 0);
    uint32_t z = ccl_program_builder_tb(b, last, CCL_NONE, 0, 0);
    for (uint32_t i = 0; i < SENDS; i++) {
        add(b, a, CCL_PRIM_S, i % ELEMENTS, i % ELEMENTS);
        add(b, z, CCL_PRIM_R, i % ELEMENTS, i % ELEMENTS);
    }
}

ccl_status_t ccl_host_micro(ccl_host_micro_t micro, uint32_t nranks, ccl_program_t **out,
                            ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_create(CCL_ALLREDUCE, nranks, ELEMENTS, 0, &coll, err));
    ccl_program_builder_t *b = ccl_program_builder_create(names[micro], coll, ELEMENTS, "Simple");
    if (!b)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t r = 0; r < nranks; r++)
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, ELEMENTS);
    switch (micro) {
    case CCL_HOST_MICRO_PAIRS:
        pairs(b, nranks, 1, HALF, CCL_PRIM_R);
        break;
    case CCL_HOST_MICRO_FANOUT:
        pairs(b, nranks, 1, 1, CCL_PRIM_R);
        break;
    case CCL_HOST_MICRO_FORWARD:
        relay(b, nranks, CCL_PRIM_RCS, CCL_PRIM_R);
        break;
    case CCL_HOST_MICRO_REDUCE:
        relay(b, nranks, CCL_PRIM_RRS, CCL_PRIM_RRC);
        break;
    case CCL_HOST_MICRO_REDUCE_PAIRS:
        pairs(b, nranks, 1, HALF, CCL_PRIM_RRC);
        break;
    case CCL_HOST_MICRO_REDUCE_COPY:
        relay(b, nranks, CCL_PRIM_RRCS, CCL_PRIM_R);
        break;
    case CCL_HOST_MICRO_COPY:
        local(b, nranks, CCL_PRIM_CPY);
        break;
    case CCL_HOST_MICRO_LOCAL_REDUCE:
        local(b, nranks, CCL_PRIM_RE);
        break;
    case CCL_HOST_MICRO_ONE:
        local(b, 1, CCL_PRIM_CPY);
        break;
    case CCL_HOST_MICRO_ACROSS:
        pairs(b, nranks, nranks / 2, HALF, CCL_PRIM_R);
        break;
    case CCL_HOST_MICRO_PING:
        ping(b, nranks - 1);
        break;
    case CCL_HOST_MICRO_STREAM:
        stream(b, nranks - 1);
        break;
    case CCL_HOST_MICRO_EMPTY: {
        uint32_t tb = ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0);
        add(b, tb, CCL_PRIM_NOP, 0, 0);
        break;
    }
    }
    return ccl_program_builder_finish(b, out, err);
}

/* The same blocks, connections and steps; names and collectives aside. */
static bool same_work(const ccl_program_t *a, const ccl_program_t *b) {
    if (a->nranks != b->nranks || a->ntbs != b->ntbs || a->nsteps != b->nsteps)
        return false;
    for (uint32_t t = 0; t < a->ntbs; t++) {
        const ccl_tb_t *x = &a->tbs[t], *y = &b->tbs[t];
        if (x->rank != y->rank || x->nsteps != y->nsteps)
            return false;
        for (uint32_t i = 0; i < x->nsteps; i++) {
            uint32_t at = x->first_step + i, bt = y->first_step + i;
            ccl_peers_t p = ccl_program_peers(a, x, at), q = ccl_program_peers(b, y, bt);
            if (a->steps[at].type != b->steps[bt].type || p.send_peer != q.send_peer ||
                p.recv_peer != q.recv_peer)
                return false;
        }
    }
    return true;
}

ccl_status_t ccl_host_is_calibration(const ccl_program_t *program, bool *out, ccl_error_t *err) {
    *out = false;
    for (int m = 0; m < CCL_HOST_MICROS && program->nranks >= 2 && !*out; m++) {
        ccl_program_t *micro = NULL;
        CCL_TRY(ccl_host_micro((ccl_host_micro_t)m, program->nranks, &micro, err));
        *out = same_work(program, micro);
        ccl_program_destroy(micro);
    }
    for (uint32_t n = 1; n <= 64 && program->nranks == 2 && !*out; n *= 2) {
        ccl_program_t *blocks = NULL;
        CCL_TRY(ccl_host_blocks_program(n, &blocks, err));
        *out = same_work(program, blocks);
        ccl_program_destroy(blocks);
    }
    return CCL_OK;
}
