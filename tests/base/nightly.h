/** @file nightly.h How much a test does: enough for every change, or all of it once a night. */
#ifndef CCL_TESTS_BASE_NIGHTLY_H
#define CCL_TESTS_BASE_NIGHTLY_H

#include <stdbool.h>
#include <stdlib.h>

/**
 * A test that includes this is registered twice: KIND.MODULE.CASE for every change, and
 * KIND.MODULE.CASE.nightly with the label nightly and CCL_NIGHTLY set (tools/check --nightly).
 */
static inline bool nightly(void) {
    return getenv("CCL_NIGHTLY") != NULL;
}

#endif
