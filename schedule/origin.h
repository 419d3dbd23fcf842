/**
 * @file origin.h
 * How a schedule came about: one line of text that goes with it through lowering and all formats.
 */
#ifndef CCL_SCHEDULE_ORIGIN_H
#define CCL_SCHEDULE_ORIGIN_H

#include "base/base.h"

CCL_BEGIN_DECLS

/** Bytes of an origin with the 0 at its end; less than what NCCL's XML parser takes of an
    attribute (255). */
enum { CCL_ORIGIN_LEN = 200 };

/**
 * Who made a schedule, and how: "sketch by hm", "cegis: greedy start, Z3 not asked"; "": nobody
 * said. The synthesizer says which start and whose trees it took and whether a solver changed
 * something, lowering adds what it chose. It describes and changes nothing: schedules and programs
 * that differ in their origin alone are equal.
 */
typedef char ccl_origin_t[CCL_ORIGIN_LEN];

/** Sets an origin. Control characters become blanks; what is too long is cut and ends with "...".
 */
void ccl_origin_set(ccl_origin_t origin, const char *fmt, ...) CCL_PRINTF(2, 3);
/** Adds to an origin, with "; " between. */
void ccl_origin_add(ccl_origin_t origin, const char *fmt, ...) CCL_PRINTF(2, 3);
/** Where a file does not say it: "file NAME", without its folders. @param path  "-": stdin. */
void ccl_origin_file(ccl_origin_t origin, const char *path);

CCL_END_DECLS
#endif
