/* Private to search: what the files of scenarios share. */
#ifndef CCL_SEARCH_SCENARIO_I_H
#define CCL_SEARCH_SCENARIO_I_H

#include "search/scenario/scenario.h"

/** "0.9" or "90%". */
ccl_status_t ccl_i_scenario_number(const char *text, double *out, ccl_error_t *err);
/**
 * "normal(1,0.05)". The law's values are the caller's to free, also after a failure.
 * @param folder  of files it names; NULL: the working folder.
 */
ccl_status_t ccl_i_law_parse(const char *text, ccl_vary_t what, const char *folder, ccl_law_t *law,
                             ccl_error_t *err);

#endif
