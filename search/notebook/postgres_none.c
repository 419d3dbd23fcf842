/* Where ccllab is built without libpq. */
#include "search/notebook/store.h"

static ccl_status_t open_server(ccl_notebook_t *n, const char *url, bool write, ccl_error_t *err) {
    (void)n;
    (void)url;
    (void)write;
    return ccl_fail(err, CCL_ERR_MISSING,
                    "this ccllab was built without PostgreSQL (libpq-dev); a file can be a lab "
                    "notebook");
}

static void close_server(ccl_notebook_t *n) {
    (void)n;
}

static bool there(void) {
    return false;
}

const ccl_i_backend_t ccl_i_backend_postgres = {
    .there = there, .open = open_server, .close = close_server};
