/* Private to search: tasks in the queue of a notebook. */
#ifndef CCL_SEARCH_LAB_I_H
#define CCL_SEARCH_LAB_I_H

#include "search/notebook/lab.h"

/** One thing asked for, by whomever: its name says what. */
typedef struct ccl_i_task_item {
    ccl_content_t name;
    const char *settings;
    double size_bytes;
    bool estimate;
    int64_t task; /**< where it is done, once it was asked for */
    int64_t
        stale; /**< a task whose answer is there and its result is not, which a crash of the server
                    can take away; 0: none. It is asked for as if that task were not there. */
} ccl_i_task_item_t;

/** What one process does at a time: a schedule, or runs with one program. */
typedef struct ccl_i_task {
    int64_t id;
    const char *kind; /**< "make", "run" */
    const char *topology, *demand, *profile, *sizes;
    uint64_t seed;
    const char *prefer; /**< who has the schedule; NULL: nobody */
    double reserved_s;  /**< for that one, this time */
    ccl_i_task_item_t *items;
    uint32_t nitems;
    ccl_arena_t arena; /**< of a task that was taken */
} ccl_i_task_t;

/** What came out of a task; of runs only status and scarce, the rest is in the notebook. */
typedef struct ccl_i_task_answer {
    ccl_status_t status;
    char why[256];
    double synth_s;
    ccl_content_t content;
    bool scarce; /**< not all that memory would allow elsewhere */
    char by[128];
} ccl_i_task_answer_t;

typedef enum ccl_i_task_state {
    CCL_I_TASK_GONE,     /**< its asker has left */
    CCL_I_TASK_ANSWERED, /**< with an answer */
    CCL_I_TASK_HELD,     /**< by somebody, or reserved for him */
    CCL_I_TASK_FREE,
    CCL_I_TASK_LEFT /**< free, and who asked for it has ended */
} ccl_i_task_state_t;

const char *ccl_i_lab_name(const ccl_lab_t *lab);
const char *
ccl_i_lab_tool(const ccl_lab_t *lab); /**< build and synthesizers: whose tasks it does */
ccl_notebook_t *ccl_i_lab_notebook(const ccl_lab_t *lab);
/** Whether others can help, so that work should be queued. */
ccl_status_t ccl_i_lab_shared(ccl_lab_t *lab, bool *out, ccl_error_t *err);
/** Queue tasks; items that others have asked for stay in their tasks. Sets items' tasks and ids. */
ccl_status_t ccl_i_lab_ask(ccl_lab_t *lab, ccl_i_task_t *tasks, uint32_t n, ccl_error_t *err);
/** @param states, answers  [n]; an answer where the state says so. */
ccl_status_t ccl_i_lab_look(ccl_lab_t *lab, const int64_t *ids, uint32_t n,
                            ccl_i_task_state_t *states, ccl_i_task_answer_t *answers,
                            ccl_error_t *err);
/** Take a task that is free. */
ccl_status_t ccl_i_lab_claim(ccl_lab_t *lab, int64_t id, bool *mine_out, ccl_error_t *err);
/** Take the next one that is. @param out  end with ccl_i_task_fini(). */
ccl_status_t ccl_i_lab_next(ccl_lab_t *lab, ccl_i_task_t *out, bool *found_out, ccl_error_t *err);
void ccl_i_task_fini(ccl_i_task_t *task);
/** The first answer counts. */
ccl_status_t ccl_i_lab_answer(ccl_lab_t *lab, int64_t id, const ccl_i_task_answer_t *answer,
                              ccl_error_t *err);
/** Another one may do it. */
void ccl_i_lab_release(ccl_lab_t *lab, int64_t id);
/** Of a launch: has the process that asks come, has it ended? Both false: not yet. */
ccl_status_t ccl_i_lab_asker(ccl_lab_t *lab, bool *there_out, bool *ended_out, ccl_error_t *err);
/** An input by its hash. @param text_out  malloc'ed. */
ccl_status_t ccl_i_lab_input(ccl_lab_t *lab, const char *hash, char **text_out, ccl_error_t *err);
/** Wait a little, longer every time: *wait_s. */
void ccl_i_lab_wait(double *wait_s, double most_s);

#endif
