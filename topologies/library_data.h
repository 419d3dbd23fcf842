/**
 * @file library_data.h
 * The table that embed.cmake makes of servers/ and clusters/ at build time; private.
 */
#ifndef CCL_TOPOLOGIES_LIBRARY_DATA_H
#define CCL_TOPOLOGIES_LIBRARY_DATA_H

#include "topologies/topologies.h"

extern const ccl_library_entry_t ccl_i_library_entries[];

#endif
