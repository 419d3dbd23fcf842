/*
 * Private to the schedule module: what is known of a program while it becomes a plan of MSCCL++.
 */
#ifndef CCL_SCHEDULE_MSCCLPP_BUILD_I_H
#define CCL_SCHEDULE_MSCCLPP_BUILD_I_H

#include "schedule/formats/mscclpp/plan_i.h"
#include "schedule/wiring.h"

/** When a step releases: when it is done, or already when it is ready to be stored to. */
enum { CCL_I_EDGE_DONE, CCL_I_EDGE_READY };

typedef struct ccl_i_mpp_edge {
    uint32_t from, to; /* steps of two blocks of a GPU */
    uint32_t semaphore;
    uint8_t when;
} ccl_i_mpp_edge_t;

typedef struct ccl_i_mpp_maker {
    const ccl_program_t *p;
    const ccl_topology_t *topo; /* NULL: one server */
    ccl_wiring_t wiring;
    ccl_i_mpp_t *plan;
    uint8_t *type;               /* [conns] memory or port */
    uint32_t *end;               /* [2 conns] channels of source and destination */
    uint32_t *receiver, *sender; /* [nsteps] */
    uint32_t *slot;              /* [nsteps] in scratch, of what a step receives */
    uint32_t *room, *pack; /* [nsteps] packets: where a step keeps a result that it only sends; where
                              those lie that go over a port */
    uint32_t *tb_of;       /* [nsteps] */
    uint32_t *own_from;    /* [nsteps] step of the same GPU that a member of its own group meets */
    uint32_t *scratch;     /* [conns + nranks] ids or ranks of one operation */
    /* Steps by connection (its members' side), then by switch connection. */
    uint32_t *list, *list_first, *list_start;
    uint32_t *number; /* [2 nsteps] of a step among those of its connection: sending, receiving */
    ccl_i_mpp_edge_t *edges;
    size_t nedges, edges_cap;
    bool *rewritten; /* [nsteps] what a step sends may be written by another one afterwards */
    uint32_t *acquires, *acquire_first; /* edges by the step that acquires */
    uint32_t *release_first;            /* edges are by the step that releases */
} ccl_i_mpp_maker_t;

/** What a step sends or receives on, as ccl_wiring_send() says; CCL_NONE: it does not. */
uint32_t ccl_i_mpp_conn(const ccl_i_mpp_maker_t *m, uint32_t step, bool receiving);
/** The step of a member that meets step number k of the single GPU, and the other way round. */
uint32_t ccl_i_mpp_member_step(const ccl_i_mpp_maker_t *m, uint32_t conn, uint32_t k);
uint32_t ccl_i_mpp_hub_step(const ccl_i_mpp_maker_t *m, uint32_t conn, uint32_t k);
/** The memory behind a place where input and output may be one. */
ccl_i_mpp_place_t ccl_i_mpp_memory(const ccl_i_mpp_maker_t *m, uint32_t rank,
                                   ccl_i_mpp_place_t place);
bool ccl_i_mpp_same(ccl_i_mpp_place_t a, ccl_i_mpp_place_t b);
/** Operations of one block. */
ccl_status_t ccl_i_mpp_make_block(ccl_i_mpp_maker_t *m, uint32_t tb, ccl_error_t *err);
/** A program as a plan, checked to end; CCL_UNSUPPORTED where MSCCL++ cannot do what it does. */
ccl_status_t ccl_i_mpp_build(const ccl_program_t *program, const ccl_topology_t *topo,
                             ccl_i_mpp_t *plan, ccl_error_t *err);

#endif
