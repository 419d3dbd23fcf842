/**
 * @file plan.h
 * Private to training: values by vendor, model, server, GPU.
 */
#ifndef CCL_TRAINING_PLAN_H
#define CCL_TRAINING_PLAN_H

#include "training/training.h"

/** How narrow a word is: 0 "all", 1 a vendor, 2 a model, 3 a server, 4 a GPU; CCL_NONE: nobody. */
uint32_t ccl_i_word_level(const ccl_topology_t *topo, const char *word);
bool ccl_i_word_means(const ccl_topology_t *topo, const char *word, uint32_t level, uint32_t rank);
/** "word of the cluster" for messages: what could have been said. */
void ccl_i_word_choices(const ccl_topology_t *topo, char *out, size_t out_len);

/** A number per GPU while words are read; the narrower word counts. */
typedef struct ccl_i_training_values {
    double *values;  /* [nranks] */
    uint32_t *level; /* [nranks] of the word + 1; 0: none yet */
} ccl_i_training_values_t;
ccl_status_t ccl_i_values_init(ccl_i_training_values_t *v, uint32_t nranks, ccl_error_t *err);
void ccl_i_values_fini(ccl_i_training_values_t *v);
/** @retval CCL_ERR_INPUT  the word means no GPU; the text says which could be meant. */
ccl_status_t ccl_i_values_set(ccl_i_training_values_t *v, const ccl_topology_t *topo,
                              const char *word, double value, ccl_error_t *err);

#endif
