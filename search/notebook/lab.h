/**
 * @file lab.h
 * Processes that share the work queued in a lab notebook.
 */
#ifndef CCL_SEARCH_LAB_H
#define CCL_SEARCH_LAB_H

#include "search/notebook/notebook.h"

CCL_BEGIN_DECLS

/**
 * This process among those that share a notebook: it asks for work, or does it. While it is there a
 * thread renews its leases; of one that ends without a word others take the work over when its
 * lease has run out, on the same machine within a second.
 */
typedef struct ccl_lab ccl_lab_t;
typedef struct ccl_lab_options {
    size_t size;
    bool works;         /**< it does what others ask for (ccl_tune_work()) */
    double lease_s;     /**< a process that gives no sign of life for this time has lost its work */
    const char *launch; /**< of processes that one launcher started, a name for all of them: one of
                           them asks, the others end with it; NULL: none */
} ccl_lab_options_t;
/** The defaults. */
#define CCL_LAB_OPTIONS_INIT                                                                       \
    { sizeof(ccl_lab_options_t), false, 30, NULL }

/**
 * Come to a notebook that is open for writing, until ccl_lab_leave(). One process may do so once
 * for each notebook that it has open.
 * @param ctx  its cancellation also ends waiting for a server.
 */
ccl_status_t ccl_lab_join(const ccl_ctx_t *ctx, ccl_notebook_t *notebook,
                          const ccl_lab_options_t *options, ccl_lab_t **out, ccl_error_t *err);
/** What it holds is for others at once; what it asked for and nobody does is dropped. NULL is
 * fine. */
void ccl_lab_leave(ccl_lab_t *lab);

CCL_END_DECLS
#endif
