/* Private to search: an open notebook. */
#ifndef CCL_SEARCH_NOTEBOOK_I_H
#define CCL_SEARCH_NOTEBOOK_I_H

#include "search/notebook/notebook.h"

#include <sqlite3.h>

struct ccl_notebook {
    sqlite3 *db;
    sqlite3_stmt *add, *find; /* one thread at a time: the connection's mutex */
    char path[1024];
    bool told; /* that other builds' points are not used */
};

/** What SQLite said of the last thing that it could not do. */
ccl_status_t ccl_i_notebook_failed(const ccl_notebook_t *n, ccl_error_t *err);

#endif
