/**
 * @file wire_i.h
 * What passes slices on: wire.c looks at connections and has the thread, a carrier (wire_tcp.c,
 * wire_verbs.c) moves bytes.
 */
#ifndef CCL_RUNTIME_WIRE_I_H
#define CCL_RUNTIME_WIRE_I_H

#include "runtime/wire/wire.h"

#include <pthread.h>

struct pollfd;

/** Another process. */
typedef struct ccl_i_wire_peer {
    int fd; /* socket; -1: none, or broken */
    /* connections that have something to pass on, in turn */
    uint32_t *queue;
    uint32_t head, len, cap;
} ccl_i_wire_peer_t;

typedef struct ccl_i_wire_carrier {
    const char *name;
    /** Of this process alone; peers and connections are there, the thread is not. */
    ccl_status_t (*open)(ccl_i_wire_t *wire, ccl_error_t *err);
    /** All processes come here together, when all have opened; NULL: nothing to do. */
    ccl_status_t (*connect)(ccl_i_wire_t *wire, ccl_error_t *err);
    /** Passes on what the peer's queue has, as far as it goes. @return it waits for the socket. */
    bool (*flush)(ccl_i_wire_t *wire, uint32_t process);
    /** The peer's socket can be read. */
    void (*take_in)(ccl_i_wire_t *wire, uint32_t process);
    /** Every round, before flush; NULL: nothing to do. */
    void (*attend)(ccl_i_wire_t *wire);
    void (*close)(ccl_i_wire_t *wire);
} ccl_i_wire_carrier_t;

extern const ccl_i_wire_carrier_t ccl_i_wire_tcp;
#ifdef CCL_VERBS
extern const ccl_i_wire_carrier_t ccl_i_wire_verbs;
#endif

struct ccl_i_wire {
    ccl_i_run_plan_t *plan;
    const ccl_i_host_t *host;
    ccl_i_wire_how_t how;
    const ccl_i_wire_carrier_t *carrier;
    void *state;              /* the carrier's */
    int extra_fd;             /* the carrier's, woken by; -1: none */
    ccl_device_conn_t *conns; /* as the host sees them */
    bool looks;               /* nobody rings: look at all connections again and again */
    uint32_t idle;
    uint32_t nprocesses;
    ccl_i_wire_peer_t *peers;
    uint32_t *conn_peer;   /* [nconns] process at the other end; CCL_NONE: not ours to carry */
    uint64_t *conn_passed; /* [nconns] slices sent, or credits given */
    uint8_t *conn_queued;
    uint64_t *lengths;
    uint64_t *dirty; /* bits: something happened at a connection */
    uint32_t nwords;
    uint32_t sleeping, quit, broken; /* atomic */
    char why[192];                   /* set before broken */
    char device_memory[24], device_why[176];
    struct pollfd *fds; /* [nprocesses + 2] of the thread */
    int wake;
    bool started;
    pthread_t thread;
};

/** This process writes the connection's slices; else it reads them. */
bool ccl_i_wire_outbound(const ccl_i_wire_t *wire, uint32_t conn);
/** Slices, or credits, that a connection has to pass on. */
uint64_t ccl_i_wire_waiting(const ccl_i_wire_t *wire, uint32_t conn);
/** The next connection of a peer that has something; CCL_NONE. It must be enqueued again. */
uint32_t ccl_i_wire_next(ccl_i_wire_t *wire, ccl_i_wire_peer_t *peer);
void ccl_i_wire_enqueue(ccl_i_wire_t *wire, uint32_t conn);
/** n slices (n = 1), or credits, of a connection have come: whoever waits for them is woken. */
void ccl_i_wire_arrived(ccl_i_wire_t *wire, uint32_t conn, uint64_t n);
/** May a peer send that much for a connection? */
bool ccl_i_wire_acceptable(const ccl_i_wire_t *wire, uint32_t process, uint32_t conn, bool data,
                           uint64_t n);
/** Ends the run. @param why  one line; NULL: the connection broke. */
void ccl_i_wire_fail(ccl_i_wire_t *wire, uint32_t process, const char *why);

#endif
