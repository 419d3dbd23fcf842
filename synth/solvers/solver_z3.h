/*
 * Private to synth: propositional questions to Z3. What it fails at, for lack of memory above all,
 * sticks: from then on every term is NULL, nothing is added, and ccl_i_z3_status() says why, so a
 * question with something missing is never answered. It may end its process all the same: in child
 * processes (ccl_child_run()) only. solver_z3.c is the only file that knows Z3.
 */
#ifndef CCL_SYNTH_SOLVER_Z3_H
#define CCL_SYNTH_SOLVER_Z3_H

#include "base/base.h"

typedef struct ccl_i_z3 ccl_i_z3_t;
/** Lives as long as its solver. NULL: there is none, for want of memory or as a caller likes. */
typedef struct _Z3_ast *ccl_i_z3_term_t;

/** @param megabytes  that Z3 may allocate; 0: no limit. NULL: out of memory. */
ccl_i_z3_t *ccl_i_z3_create(uint32_t megabytes);
void ccl_i_z3_destroy(ccl_i_z3_t *z);
/**
 * Whether all went well so far.
 * @retval CCL_ERR_NOMEM        Z3 was short of memory.
 * @retval CCL_UNSUPPORTED  Z3 gave up; err says why.
 */
ccl_status_t ccl_i_z3_status(const ccl_i_z3_t *z, ccl_error_t *err);

ccl_i_z3_term_t ccl_i_z3_variable(ccl_i_z3_t *z);
ccl_i_z3_term_t ccl_i_z3_constant(ccl_i_z3_t *z, bool value);
ccl_i_z3_term_t ccl_i_z3_not(ccl_i_z3_t *z, ccl_i_z3_term_t term);
ccl_i_z3_term_t ccl_i_z3_implies(ccl_i_z3_t *z, ccl_i_z3_term_t a, ccl_i_z3_term_t b);
ccl_i_z3_term_t ccl_i_z3_or(ccl_i_z3_t *z, uint32_t n, const ccl_i_z3_term_t *terms);
/** The sum of the weights of those that are true is `most` or less. @param weights  NULL: 1 each */
ccl_i_z3_term_t ccl_i_z3_most(ccl_i_z3_t *z, uint32_t n, const ccl_i_z3_term_t *terms,
                              const int *weights, int most);

void ccl_i_z3_demand(ccl_i_z3_t *z, ccl_i_z3_term_t term);
void ccl_i_z3_push(ccl_i_z3_t *z);
void ccl_i_z3_pop(ccl_i_z3_t *z); /**< what was demanded since the push is forgotten */

typedef enum ccl_i_z3_answer { CCL_I_Z3_UNSAT, CCL_I_Z3_SAT, CCL_I_Z3_UNKNOWN } ccl_i_z3_answer_t;
/**
 * @param work      in Z3's unit, so that the answer does not depend on the machine; 0: no limit.
 * @param used_out  of it; may be NULL.
 */
ccl_i_z3_answer_t ccl_i_z3_check(ccl_i_z3_t *z, uint64_t work, uint64_t *used_out);
/** After SAT, until anything else is asked: whether the term is true. */
bool ccl_i_z3_is_true(ccl_i_z3_t *z, ccl_i_z3_term_t term);

#endif
