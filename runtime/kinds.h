/**
 * @file kinds.h
 * Which kind of device runs a rank: "host", "cuda", "hip" for all, "auto", or a list by rank, as
 * "cuda*4,host*2,hip" (HetCCL, Seoul/Samsung, section 4.2: platforms by rank, found automatically).
 */
#ifndef CCL_RUNTIME_KINDS_H
#define CCL_RUNTIME_KINDS_H

#include "base/base.h"

#define CCL_I_KIND_LEN 16

/** @retval CCL_ERR_USAGE  no such kind, or a list that is not of all ranks. */
ccl_status_t ccl_i_kinds_check(const char *devices, uint32_t nranks, ccl_error_t *err);
/** All ranks have that kind, by name and not by what a process finds. */
bool ccl_i_kinds_all(const char *devices, const char *kind);
/** More than one kind stands there. */
bool ccl_i_kinds_several(const char *devices);
/**
 * The kind of ranks first to end - 1; `auto` is cuda or hip where such a device is, else host.
 * @retval CCL_ERR_USAGE  they have several.
 */
ccl_status_t ccl_i_kinds_of(const char *devices, uint32_t first, uint32_t end,
                            char out[CCL_I_KIND_LEN], ccl_error_t *err);

#endif
