/*
 * What several processes ask of one notebook: an item stays in the task that has it, also when that
 * is answered; but not when its result is missing all the same.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/notebook/lab_i.h"
#include "tests/base/main.h"
#include "tests/topologies/topologies.h"

static ccl_i_task_item_t item_of(const char *name) {
    ccl_i_task_item_t item = {.settings = "{\"with\":\"ring\"}", .size_bytes = 1 << 20};
    snprintf(item.name, sizeof item.name, "%s", name);
    return item;
}

/** Asks for it alone; the task that has it then. */
static int64_t ask(ccl_lab_t *lab, ccl_i_task_item_t *item) {
    ccl_i_task_t task = {.kind = "run",
                         .topology = "t",
                         .demand = "d",
                         .sizes = "1048576",
                         .items = item,
                         .nitems = 1};
    MUST(ccl_i_lab_ask(lab, &task, 1, e));
    return item->task;
}

START_TEST(test_answer_without_result) {
    char dir[] = "/tmp/ccllab_lab_XXXXXX", path[64], command[80];
    ccl_lab_options_t options = CCL_LAB_OPTIONS_INIT;
    ccl_notebook_t *notebook = NULL;
    ccl_lab_t *lab = NULL;
    ccl_i_task_item_t item = item_of("0123456789abcdef0123456789abcdef");
    const ccl_i_task_answer_t answer = {.status = CCL_OK};
    bool mine = false;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/lab.db", dir);
    MUST(ccl_notebook_open(path, true, &notebook, e));
    MUST(ccl_lab_join(NULL, notebook, &options, &lab, e));
    int64_t first = ask(lab, &item);
    ck_assert_int_gt(first, 0);
    ck_assert_int_eq(ask(lab, &item), first); /* somebody sees to it */
    MUST(ccl_i_lab_claim(lab, first, &mine, e));
    ck_assert(mine);
    MUST(ccl_i_lab_answer(lab, first, &answer, e));
    ck_assert_int_eq(ask(lab, &item), first); /* it is done */
    item.stale = first;                       /* but what came of it is not there */
    int64_t second = ask(lab, &item);
    ck_assert_int_gt(second, first);
    ck_assert_int_eq(ask(lab, &item), second); /* once is enough */
    ccl_i_task_item_t other = item_of(item.name);
    ck_assert_int_eq(ask(lab, &other), second); /* others find it there, too */
    ccl_lab_leave(lab);
    ccl_notebook_close(notebook);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

RUN_TESTS(test_answer_without_result)
