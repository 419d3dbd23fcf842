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
    X_(sketch)                                                                                     \
    X_(c2c)                                                                                        \
    X_(sccl)                                                                                       \
    X_(milp)                                                                                       \
    X_(cegis)                                                                                      \
    X_(c2c_sequential)                                                                             \
    X_(straggler)

#define CCL_I_SYNTH_DECLARE(name_) extern const ccl_synth_ops_t ccl_i_synth_##name_;
CCL_I_SYNTH_MAP(CCL_I_SYNTH_DECLARE)
#undef CCL_I_SYNTH_DECLARE

#endif
