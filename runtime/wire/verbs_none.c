/**
 * @file verbs_none.c
 * Instead of verbs.c where libibverbs was not there when ccllab was built.
 */
#include "runtime/wire/verbs.h"

ccl_status_t ccl_i_verbs_open(const char *want, ccl_i_verbs_t **out, ccl_error_t *err) {
    (void)want;
    (void)out;
    return ccl_fail(err, CCL_ERR_MISSING, "this ccllab was built without libibverbs");
}

void ccl_i_verbs_close(ccl_i_verbs_t *verbs) {
    (void)verbs;
}
