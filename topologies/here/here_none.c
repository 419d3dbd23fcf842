/* In place of here_tree.c where ccllab is built without hwloc. */
#include "topologies/here/here.h"

bool ccl_i_here_tree_built(void) {
    return false;
}

ccl_i_here_tree_t *ccl_i_here_tree_create(void) {
    return NULL;
}

void ccl_i_here_tree_destroy(ccl_i_here_tree_t *tree) {
    (void)tree;
}

ccl_status_t ccl_i_here_tree_gpus(ccl_i_here_tree_t *tree, ccl_i_here_t *here, ccl_error_t *err) {
    (void)tree, (void)here, (void)err;
    return CCL_OK;
}

ccl_status_t ccl_i_here_tree_nics(ccl_i_here_tree_t *tree, ccl_i_here_t *here, ccl_error_t *err) {
    (void)tree, (void)here, (void)err;
    return CCL_OK;
}

ccl_i_near_t ccl_i_here_tree_near(ccl_i_here_tree_t *tree, uint64_t a, uint64_t b) {
    (void)tree, (void)a, (void)b;
    return CCL_I_NEAR_UNKNOWN;
}

int ccl_i_here_tree_numa(ccl_i_here_tree_t *tree, uint64_t bus) {
    (void)tree, (void)bus;
    return -1;
}
