/**
 * @file wiring.h
 * The units and connections of a program, and which send meets which receive.
 *
 * What runs a program or reasons about its messages uses this table. The verifier does not: it
 * checks the same facts with code of its own.
 */
#ifndef CCL_SCHEDULE_WIRING_H
#define CCL_SCHEDULE_WIRING_H

#include "schedule/program.h"

CCL_BEGIN_DECLS

/** What runs on its own: a thread block; at stage level one stage of one. */
typedef struct ccl_wiring_unit {
    uint32_t tb;            /**< index into program->tbs */
    uint32_t first, nsteps; /**< into ccl_wiring_t.order */
    uint32_t previous;      /**< last step of the block's stage before; CCL_NONE: it has none */
    uint32_t send, recv;    /**< connections, or CCL_WIRING_SWITCH plus switch connections;
                                 CCL_NONE: none, or each step has its own */
} ccl_wiring_unit_t;

/** What a FIFO is for. */
typedef enum ccl_wiring_kind {
    CCL_WIRING_PLAIN,
    CCL_WIRING_MULTICAST, /**< from the single GPU to a member */
    CCL_WIRING_REDUCING   /**< from a member to the single GPU: what it offers */
} ccl_wiring_kind_t;

/** A FIFO from one rank to another on a channel; at stage level each stage has its own. */
typedef struct ccl_wiring_conn {
    uint32_t src, dst, channel, stage; /**< stage 0 at other levels */
    uint32_t kind;                     /**< ccl_wiring_kind_t */
    uint32_t sender, receiver;         /**< units; CCL_NONE: nobody is there */
    uint32_t in_switch;                /**< switch connection of a member; CCL_NONE: plain */
} ccl_wiring_conn_t;

/**
 * A switch connection (docs/model.md): one FIFO per member, between the single GPU and that member,
 * in order of rank.
 */
typedef struct ccl_wiring_switch {
    bool reduces;    /**< members offer, the single GPU pulls their sum; else it multicasts */
    uint32_t single; /**< rank */
    uint32_t unit;   /**< of the single GPU: that sends to all members, or pulls */
    uint32_t group;  /**< index into program->groups */
    uint32_t channel, stage;
    uint32_t first; /**< the connections of its members are members[first ..], as many as the
                         group has ranks */
} ccl_wiring_switch_t;
#define CCL_WIRING_SWITCH 0x80000000u
/** Whether what a unit or step sends or receives on is a switch connection. */
static inline bool ccl_wiring_is_switch(uint32_t conn) {
    return conn != CCL_NONE && (conn & CCL_WIRING_SWITCH) != 0;
}

typedef struct ccl_wiring {
    uint32_t nunits, nconns;
    ccl_wiring_unit_t *units; /**< by thread block, then stage */
    ccl_wiring_conn_t *conns; /**< in the order in which units name them: first those that send */
    uint32_t nswitches, nmembers;
    ccl_wiring_switch_t *switches; /**< [nswitches] in the order in which units name them */
    uint32_t *members;             /**< [nmembers] connections, by switch connection */
    uint32_t *rank_units;          /**< [nranks + 1] units are by rank */
    uint32_t *order;               /**< [nsteps] steps by unit, as it runs them */
    uint32_t *step_conns; /**< [2 nsteps] what each step sends on and receives on, CCL_NONE: it
                               does not; NULL: as the unit's (program->peers is NULL) */
} ccl_wiring_t;

/**
 * Units and connections of a program at a level.
 * @param out  finish with ccl_wiring_fini(); zero after a failure.
 * @retval CCL_ERR_INPUT  a peer that is missing or no other rank, two units on one end, or a
 *                        member of no switch connection, or of two.
 */
ccl_status_t ccl_wiring_init(const ccl_program_t *program, ccl_granularity_t granularity,
                             ccl_wiring_t *out, ccl_error_t *err);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_wiring_fini(ccl_wiring_t *wiring);
/** Connection that a step of the unit sends on, or CCL_WIRING_SWITCH plus the switch connection
 * that it multicasts on; it does send. */
static inline uint32_t ccl_wiring_send(const ccl_wiring_t *w, uint32_t unit, uint32_t step) {
    return w->step_conns ? w->step_conns[2 * (size_t)step] : w->units[unit].send;
}
/** Connection that a step of the unit receives on, or CCL_WIRING_SWITCH plus the switch connection
 * that it pulls from; it does receive. */
static inline uint32_t ccl_wiring_recv(const ccl_wiring_t *w, uint32_t unit, uint32_t step) {
    return w->step_conns ? w->step_conns[2 * (size_t)step + 1] : w->units[unit].recv;
}
/**
 * Messages: the k-th send of a connection meets its k-th receive. Steps that multicast or pull,
 * which meet several, are left at CCL_NONE and count as met when every member's connection has as
 * many.
 * @param receiver  [nsteps] who takes what a step sends; CCL_NONE: it does not send, or nobody.
 * @param sender    [nsteps] whose message a step takes; CCL_NONE: it does not receive, or nobody's.
 * @param whole_out every send meets a receive, and every receive a send.
 */
ccl_status_t ccl_wiring_match(const ccl_wiring_t *wiring, const ccl_program_t *program,
                              uint32_t *receiver, uint32_t *sender, bool *whole_out,
                              ccl_error_t *err);

CCL_END_DECLS
#endif
