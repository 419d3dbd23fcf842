#ifndef CCL_REPORT_REPORT_H
#define CCL_REPORT_REPORT_H
/** @file report.h Tables and machine-readable output. */
#include "search/search.h"
#endif
