/*
 * Topology XML of NCCL and RCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), their graph XML
 * (NCCL_GRAPH_DUMP_FILE) and mapping files built on it: which kind it is, then the reader for it.
 */
#include "topologies/readers/nccl/nccl_xml.h"

static ccl_status_t read_tree(ccl_i_nccl_plan_t *plan, const ccl_i_xml_tree_t *tree,
                              ccl_topology_t **out, ccl_error_t *err) {
    const char *source;
    if (ccl_i_xml_is(tree, 0, "graphs")) {
        CCL_TRY(ccl_i_nccl_read_graphs(plan, tree, err));
        source = "NCCL graph XML";
    } else if (!ccl_i_xml_is(tree, 0, "system")) {
        return ccl_i_xml_fail(tree, 0, err,
                              "not a topology: the first element must be <system> or <graphs>");
    } else if (ccl_i_xml_child(tree, 0, "group") != CCL_NONE) {
        CCL_TRY(ccl_i_nccl_read_mapping(plan, tree, err));
        source = "NCCL topology mapping XML";
    } else {
        CCL_TRY(ccl_i_nccl_read_system(plan, tree, err));
        source = "NCCL topology XML; constants of NCCL 2.30 and RCCL topo.h";
    }
    return ccl_i_plan_build(plan, source, out, err);
}

ccl_status_t ccl_topology_read_nccl_xml(const ccl_ctx_t *ctx, const char *name, const char *text,
                                        size_t len, ccl_topology_t **out, ccl_error_t *err) {
    ccl_i_xml_tree_t tree;
    ccl_i_nccl_plan_t plan;
    CCL_TRY(ccl_i_xml_parse(name, text, len, &tree, err));
    ccl_status_t status = ccl_i_plan_init(&plan, ctx, name, err);
    if (status == CCL_OK) {
        status = read_tree(&plan, &tree, out, err);
        ccl_i_plan_fini(&plan);
    }
    ccl_i_xml_fini(&tree);
    return status;
}
