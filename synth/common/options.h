/* Private to synth: options, and tables of options that several synthesizers have. */
#ifndef CCL_SYNTH_OPTIONS_H
#define CCL_SYNTH_OPTIONS_H

#include "synth/synth.h"

#define CCL_I_SYNTH_AT(member_) offsetof(ccl_synth_options_t, member_)

extern const ccl_option_t ccl_i_common_options[];  /* every synthesizer's */
extern const ccl_option_t ccl_i_rooted_options[];  /* who chooses roots of AllReduce */
extern const ccl_option_t ccl_i_compose_options[]; /* ops.composable */

#endif
