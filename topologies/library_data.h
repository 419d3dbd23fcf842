/**
 * @file library_data.h
 * The tables that embed.cmake makes of servers/, clusters/ and profiles/ at build time; private.
 */
#ifndef CCL_TOPOLOGIES_LIBRARY_DATA_H
#define CCL_TOPOLOGIES_LIBRARY_DATA_H

#include "topologies/topologies.h"

extern const ccl_library_entry_t ccl_i_library_entries[];
extern const ccl_profile_entry_t ccl_i_library_profiles[];

#endif
