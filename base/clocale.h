/** @file clocale.h Private to base: numbers in the C locale, whatever setlocale() the host called.
 */
#ifndef CCL_BASE_CLOCALE_H
#define CCL_BASE_CLOCALE_H

#include <stdarg.h>
#include <stddef.h>

/** vsnprintf with the C locale's decimal point. */
int ccl_i_vsnprintf(char *out, size_t out_len, const char *fmt, va_list args);
/** strtod with the C locale's decimal point. */
double ccl_i_strtod(const char *text, char **end);

#endif
