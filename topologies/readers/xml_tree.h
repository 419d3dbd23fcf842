/**
 * @file xml_tree.h
 * A small, bounded tree of XML elements that knows where each began; private to this module.
 */
#ifndef CCL_TOPOLOGIES_XML_TREE_H
#define CCL_TOPOLOGIES_XML_TREE_H

#include "base/base.h"

/** NCCL itself stops at 8192 elements; mixed clusters may hold many of its files. */
#define CCL_I_XML_MAX_ELEMENTS ((uint32_t)1 << 18)
#define CCL_I_XML_MAX_DEPTH 64u
#define CCL_I_XML_MAX_ATTRIBUTES 64u
#define CCL_I_XML_MAX_VALUE_BYTES ((size_t)4096)

typedef struct ccl_i_xml_attr {
    const char *name, *value;
} ccl_i_xml_attr_t;

/** Elements in document order; element 0 is the root. */
typedef struct ccl_i_xml_elem {
    const char *name;
    const ccl_i_xml_attr_t *attrs;
    uint32_t nattrs;
    uint32_t parent, child, next; /**< element indices; CCL_NONE: none */
    int line, column;             /**< of its "<", 1-based */
} ccl_i_xml_elem_t;

typedef struct ccl_i_xml_tree {
    const char *file; /**< borrowed; for messages */
    ccl_i_xml_elem_t *elems;
    uint32_t nelems;
    size_t cap;
    ccl_arena_t arena;
} ccl_i_xml_tree_t;

/**
 * Parse a whole document. Entity declarations are refused, so nothing can expand; depth, elements,
 * attributes and value lengths are bounded.
 *
 * @param out  on success free with ccl_i_xml_fini(); untouched on failure.
 */
ccl_status_t ccl_i_xml_parse(const char *file, const char *text, size_t len, ccl_i_xml_tree_t *out,
                             ccl_error_t *err);
void ccl_i_xml_fini(ccl_i_xml_tree_t *tree);

bool ccl_i_xml_is(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name);
/** Value of an attribute, NULL when absent. */
const char *ccl_i_xml_attr(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name);
/** First child of that name, CCL_NONE when none. */
uint32_t ccl_i_xml_child(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name);
/** Always CCL_ERR_INPUT "file:line:column: <elem>: text". */
ccl_status_t ccl_i_xml_fail(const ccl_i_xml_tree_t *tree, uint32_t elem, ccl_error_t *err,
                            const char *fmt, ...) CCL_PRINTF(4, 5);
/**
 * Whole-number attribute in [min, max]; absent leaves *out as it is.
 * @retval CCL_ERR_INPUT  not a number, or out of range.
 */
ccl_status_t ccl_i_xml_int(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name,
                           int64_t min, int64_t max, int64_t *out, ccl_error_t *err);
/** Finite decimal attribute >= 0; absent leaves *out as it is. */
ccl_status_t ccl_i_xml_number(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name,
                              double max, double *out, ccl_error_t *err);

#endif
