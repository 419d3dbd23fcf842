/**
 * @file alike.h
 * Private to report/: servers and links of a cluster that look alike.
 */
#ifndef CCL_REPORT_ALIKE_H
#define CCL_REPORT_ALIKE_H

#include "report/describe.h"

enum { CCL_I_DEVICE_KINDS = 4 };
extern const char *const ccl_i_device_kinds[CCL_I_DEVICE_KINDS];

/** Things that look alike: a description, how many, the first and the last. */
typedef struct ccl_i_alike {
    char *key;
    uint32_t count, first, last;
} ccl_i_alike_t;
typedef struct ccl_i_alikes {
    ccl_strmap_t *map;
    ccl_i_alike_t *rows;
    size_t n, cap;
} ccl_i_alikes_t;

/** "4 x H20, 1 x A100" and so on: what a server is made of. */
void ccl_i_server_content(const ccl_topology_t *topo, uint32_t server, ccl_text_t *out);
/** Servers of one content in a line. @param most  lines. */
ccl_status_t ccl_i_servers_text(const ccl_topology_t *topo, uint32_t most, ccl_text_t *out,
                                ccl_error_t *err);
/** Directed links with the same kind and constants. @param out  zero before; finish with
    ccl_i_alikes_fini(), also after a failure. */
ccl_status_t ccl_i_links_alike(const ccl_topology_t *topo, ccl_i_alikes_t *out, ccl_error_t *err);
void ccl_i_alikes_fini(ccl_i_alikes_t *a);

/** Classes of switches that can do the same with data that pass them, and class i as a row.
    @param row  a struct whose first member is the topology's pointer. */
uint64_t ccl_i_switch_classes(const void *row);
const void *ccl_i_switch_class(const void *row, uint64_t i, void *scratch);
extern const ccl_i_described_t ccl_i_switch_record;
extern const ccl_i_column_t ccl_i_switch_columns[];

#endif
