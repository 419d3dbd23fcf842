/**
 * @file mpi_module.h
 * What the module libccl_bootstrap_mpi.so offers: a place among processes, and an exchange.
 *
 * A module of its own, so that the program starts fast and runs where there is no MPI.
 */
#ifndef CCL_RUNTIME_MPI_MODULE_H
#define CCL_RUNTIME_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CCL_BOOTSTRAP_ABI 1
#define CCL_BOOTSTRAP_ENTRY "ccl_bootstrap_module_v1"
#define CCL_BOOTSTRAP_TEXT 256
#define CCL_BOOTSTRAP_LATE (-1) /**< code of an exchange that did not end in time */

/** Functions return 0 or a code that error_text explains. Used by one thread. */
typedef struct ccl_bootstrap_ops {
    uint32_t abi; /**< CCL_BOOTSTRAP_ABI */
    size_t size;  /**< of this table */
    const char *name;
    /** Join; once in a process's life. @param state_out  freed by close. */
    int (*open)(void **state_out, uint32_t *rank_out, uint32_t *world_out);
    /** Every process gives `len` bytes and gets all of them in order, [world * len], within
     * limit_s.
     */
    int (*exchange)(void *state, const void *mine, size_t len, void *all, double limit_s);
    /** One line into text[CCL_BOOTSTRAP_TEXT]. */
    void (*error_text)(int code, char *text);
    /**
     * @param together  every process comes here, so all part in order. Otherwise none is waited
     *                  for: this process is about to end with an error, and the launcher ends the
     *                  others.
     */
    void (*close)(void *state, bool together);
} ccl_bootstrap_ops_t;

typedef const ccl_bootstrap_ops_t *(*ccl_bootstrap_entry_fn)(void);

#endif
