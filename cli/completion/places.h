/* Private to completion: what can stand in a place of a command line. */
#ifndef CCL_CLI_COMPLETION_PLACES_H
#define CCL_CLI_COMPLETION_PLACES_H

#include "cli/command.h"

/** Any of these, and words. */
enum {
    CCL_I_COMPLETED_FILES = 1,
    CCL_I_COMPLETED_CLUSTERS = 2,
    CCL_I_COMPLETED_SYNTHESIZERS = 4,
    CCL_I_COMPLETED_COLLECTIVES = 8,
    CCL_I_COMPLETED_PROFILES = 16
};
typedef struct ccl_i_completed {
    unsigned kinds;
    ccl_text_t words; /**< blank before each; the caller's to free */
} ccl_i_completed_t;
/** The value of an option. @param out  zeroed. */
void ccl_i_completed_value(const ccl_i_command_t *command, const ccl_i_option_info_t *o,
                           ccl_i_completed_t *out);
/** A command's inputs. @param out  zeroed. */
void ccl_i_completed_input(const ccl_i_command_t *command, ccl_i_completed_t *out);
/** Is this the first command of its family? @param len  of the family's name. */
bool ccl_i_first_of_family(size_t index, size_t len);
/** Every name of the kinds that are lists: clusters, synthesizers, collectives, profiles. NULL
    behind the last. @param kind  one CCL_I_COMPLETED_*. */
const char *ccl_i_completed_name(unsigned kind, size_t index);

#endif
