/* Private to synth: the in-tree synthesizers, one X(ops) each, in the order they are compared;
   those that are `by_name` behind the others. */
#ifndef CCL_SYNTH_REGISTRY_H
#define CCL_SYNTH_REGISTRY_H

#include "synth/synth.h"

#define CCL_I_SYNTH_MAP(X_)                                                                        \
    X_(ring)                                                                                       \
    X_(tree)                                                                                       \
    X_(recursive)                                                                                  \
    X_(direct)                                                                                     \
    X_(pairwise)                                                                                   \
    X_(pxn)                                                                                        \
    X_(alltoallv)                                                                                  \
    X_(hm)                                                                                         \
    X_(nvls)                                                                                       \
    X_(nvls_pull)                                                                                  \
    X_(nvlstree)                                                                                   \
    X_(collnet)                                                                                    \
    X_(latency)                                                                                    \
    X_(hpds)                                                                                       \
    X_(greedy)                                                                                     \
    X_(packing)                                                                                    \
    X_(flows)                                                                                      \
    X_(sketch)                                                                                     \
    X_(c2c)                                                                                        \
    X_(sccl)                                                                                       \
    X_(milp)                                                                                       \
    X_(taccl)                                                                                      \
    X_(cegis)                                                                                      \
    X_(c2c_sequential)                                                                             \
    X_(straggler)

#define CCL_I_SYNTH_DECLARE(name_) extern const ccl_synth_ops_t ccl_i_synth_##name_;
CCL_I_SYNTH_MAP(CCL_I_SYNTH_DECLARE)
#undef CCL_I_SYNTH_DECLARE

/** Options of an added synthesizer: their bytes in ccl_synth_options_t.own, and how many. */
typedef struct ccl_i_own {
    size_t from, bytes;
    uint32_t tables, options;
} ccl_i_own_t;
/**
 * @param used  by those added before: `from` and `bytes` of the last, `options` of all.
 * @retval CCL_ERR_INPUT  a row cannot be, or there is no room.
 */
ccl_status_t ccl_i_own_check(const ccl_synth_ops_t *ops, ccl_i_own_t used, ccl_i_own_t *own,
                             ccl_error_t *err);
/** Its tables by their places in ccl_synth_options_t, for the rest of the process; NULL: no memory.
 */
const ccl_option_t *const *ccl_i_own_place(const ccl_synth_ops_t *ops, const ccl_i_own_t *own);

#endif
