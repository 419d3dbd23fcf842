/* The built-in library; its entries are the JSON files of servers/ and clusters/, embedded. */
#include "topologies/topologies.h"

#include <string.h>

#include "topologies/library_data.h"

const ccl_library_entry_t *ccl_topology_library(void) {
    return ccl_i_library_entries;
}

const ccl_library_entry_t *ccl_topology_library_find(const char *name) {
    for (const ccl_library_entry_t *e = ccl_i_library_entries; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}
