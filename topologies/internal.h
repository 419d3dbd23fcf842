/**
 * @file internal.h
 * What the files of this module share; not for other modules.
 */
#ifndef CCL_TOPOLOGIES_INTERNAL_H
#define CCL_TOPOLOGIES_INTERNAL_H

#include "topologies/topologies.h"

#include "base/json.h"

/** Bounds on what any input may ask for, so that a short hostile file cannot eat the machine. */
#define CCL_I_MAX_DEVICES ((uint32_t)1 << 21)
#define CCL_I_MAX_LINKS ((uint32_t)1 << 25)
#define CCL_I_MAX_GROUP_LINKS ((size_t)1 << 24) /**< sum over all groups */
#define CCL_I_MAX_TRANSPORTS 1024u
#define CCL_I_MAX_ID_BYTES 200
#define CCL_I_MAX_TYPES_BYTES 200 /**< all types that a switch can sum, with blanks */
#define CCL_I_MAX_FILE_BYTES ((size_t)256 << 20)

/** As ccl_topology_builder_finish; *device_out is the device at fault, CCL_NONE when no one is. */
ccl_status_t ccl_i_topology_builder_finish(ccl_topology_builder_t *b, ccl_topology_t **out,
                                           uint32_t *device_out, ccl_error_t *err);

/** Explicit form, "format": "ccllab-topology-1". */
ccl_status_t ccl_i_topology_read_explicit(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc,
                                          ccl_topology_t **out, ccl_error_t *err);
/** Compact form: "ccllab-cluster-1", or one "ccllab-server-1" as a cluster of itself. */
ccl_status_t ccl_i_topology_read_compact(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc,
                                         ccl_topology_t **out, ccl_error_t *err);

/** The same, but one server's ports meet in a switch, for others to be joined to it. */
ccl_status_t ccl_i_topology_read_server(const ccl_ctx_t *ctx, const ccl_json_doc_t *doc,
                                        ccl_topology_t **out, ccl_error_t *err);
/** What ccl_topology_read() reads, a server (library, file) with its ports on a switch. */
ccl_status_t ccl_i_topology_read_node(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out,
                                      ccl_error_t *err);

/** Whether a text has the output of nvidia-smi topo -m or rocm-smi --showtopo somewhere. */
bool ccl_i_topology_is_smi(const char *text, size_t len);
/** Whether a word has the form "FILE,gpu=NAME,nic=RATE". */
bool ccl_i_topology_has_hints(const char *spec);
/** Such a word. */
ccl_status_t ccl_i_topology_read_hinted(const ccl_ctx_t *ctx, const char *spec,
                                        ccl_topology_t **out, ccl_error_t *err);

/** What one word gives a switch ("nvls", "sharp"): multicast and reduce, without limits. */
extern const ccl_device_t ccl_i_able_both;
/** The word of a file for a device kind ("gpu"); static. */
const char *ccl_i_device_kind_name(ccl_device_kind_t kind);
/** false when the word is no device kind. */
bool ccl_i_device_kind_parse(const char *word, ccl_device_kind_t *out);

/** The two devices whose links "A-B" or "A->B" names. */
typedef struct ccl_i_link_ends {
    uint32_t a, b;
    bool both_ways;
} ccl_i_link_ends_t;
/** @param edit  for messages. */
ccl_status_t ccl_i_edit_ends(const ccl_topology_t *topo, const char *edit, const char *text,
                             size_t len, ccl_i_link_ends_t *out, ccl_error_t *err);
/**
 * "scale:QUANTITY[:WHERE]=FACTOR".
 * @param out  the topology with its own constants; borrows the rest. Only its arena is its own.
 */
ccl_status_t ccl_i_topology_scale(const ccl_topology_t *topo, const char *edit, ccl_topology_t *out,
                                  ccl_error_t *err);
/** "set:KEY[:KIND]=VALUE"; else as ccl_i_topology_scale(). */
ccl_status_t ccl_i_topology_set(const ccl_topology_t *topo, const char *edit, ccl_topology_t *out,
                                ccl_error_t *err);

/**
 * Member "curves" of a profile.
 * @param out  of the arena; texts are borrowed from the document.
 */
ccl_status_t ccl_i_curves_read(const ccl_json_at_t *root, ccl_arena_t *arena,
                               const ccl_curve_t **out, uint32_t *ncurves, ccl_error_t *err);

/** "host:8". */
ccl_status_t ccl_i_topology_read_host(const char *text, ccl_topology_t **out, ccl_error_t *err);

/** The library's profile that the servers name as theirs; "" or NULL: none. The name is copied. */
void ccl_i_topology_builder_own_profile(ccl_topology_builder_t *b, const char *name);

#endif
