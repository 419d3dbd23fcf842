/*
 * The queue in a notebook. A task has a lease while somebody does it, renewed by that one's thread;
 * when it runs out the task is free again. Nothing is said between processes but through these
 * rows.
 */
#include "search/notebook/lab_i.h"
#include "search/notebook/store.h"
#include "synth/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ccl_lab {
    const ccl_ctx_t *ctx;
    ccl_notebook_t *notebook;
    uint32_t asked, done; /* tasks */
    ccl_lab_options_t options;
    char name[128], launch[128]; /* name: HOST/NAMESPACE/PROCESS/START */
    size_t host_len;             /* of the name: what all processes here share */
    char tool[160];              /* whose tasks it can do */
    double told_s;               /* when its leases were last renewed */
    ccl_ticker_t *ticker;
    ccl_lock_t *lock;
    int64_t *held;
    size_t held_cap;
    uint32_t nheld;
};

static ccl_status_t tell(ccl_lab_t *lab, const char *sql, const ccl_i_sql_value_t *args,
                         uint32_t nargs, ccl_notebook_rows_t *rows, int64_t *changes_out,
                         ccl_error_t *err) {
    return ccl_i_ask(lab->notebook,
                     &(ccl_i_question_t){.sql = sql, .args = args, .nargs = nargs, .lazy = true},
                     rows, changes_out, err);
}

/* ---------------------------------------------------------------- processes of this machine */

/* When a process began, in ticks since the machine did; 0: it has ended. */
static unsigned long long start_of(long pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    unsigned long long start = 0;
    text[len] = '\0';
    if (file)
        fclose(file);
    char *p = strrchr(text, ')'), state = 'Z';
    if (!p || sscanf(p + 1, " %c", &state) != 1 || state == 'Z' || state == 'X')
        return 0;
    for (int field = 2; p && field < 22; field++) /* starttime is the 22nd; ')' ends the second */
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : start;
}

static void name_self(ccl_lab_t *lab) {
    char host[64] = "", space[40] = "";
    gethostname(host, sizeof host - 1);
    ssize_t len = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[len > 0 ? len : 0] = '\0';
    lab->host_len =
        (size_t)snprintf(lab->name, sizeof lab->name, "%s/%s/", host, space + strcspn(space, "["));
    snprintf(lab->name + lab->host_len, sizeof lab->name - lab->host_len, "%ld/%llu-%llx",
             (long)getpid(), start_of(getpid()), (unsigned long long)(uintptr_t)lab);
}

/* Of this machine, and it has ended without leaving. */
static bool is_dead(const ccl_lab_t *lab, const char *name) {
    char *end = NULL;
    if (strncmp(name, lab->name, lab->host_len) != 0 || !start_of(getpid()))
        return false;
    long pid = strtol(name + lab->host_len, &end, 10);
    return *end == '/' && start_of(pid) != strtoull(end + 1, NULL, 10);
}

/* What such a one held is free at once. */
static ccl_status_t bury(ccl_lab_t *lab, ccl_error_t *err) {
    ccl_notebook_rows_t rows = {0};
    ccl_status_t status =
        tell(lab, "SELECT name FROM member WHERE ended = 0", NULL, 0, &rows, NULL, err);
    for (uint32_t i = 0; i < rows.nrows && status == CCL_OK; i++) {
        const ccl_i_sql_value_t name = ccl_i_sql_text(ccl_i_row_text(&rows, i, 0));
        if (!is_dead(lab, name.text))
            continue;
        status = tell(lab, "UPDATE member SET ended = 2, until = {now} WHERE name = ?1", &name, 1,
                      NULL, NULL, err);
        if (status == CCL_OK)
            status = tell(lab,
                          "UPDATE task SET owner = NULL, until = NULL WHERE owner = ?1 AND status"
                          " IS NULL",
                          &name, 1, NULL, NULL, err);
    }
    ccl_i_rows_fini(&rows);
    return status;
}

/* ---------------------------------------------------------------- coming and leaving */

/* What this process can do: points of its build, by its synthesizers. */
static void name_tool(ccl_lab_t *lab) {
    uint64_t h = 1;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops; ops++) {
        const char *version = ccl_synth_version(*ops);
        h = ccl_hash64((*ops)->name, strlen((*ops)->name) + 1, h);
        h = ccl_hash64(version, strlen(version) + 1, h);
    }
    snprintf(lab->tool, sizeof lab->tool, "%s/%016llx", ccl_notebook_tool(), (unsigned long long)h);
}

static ccl_status_t appear(ccl_lab_t *lab, ccl_error_t *err) {
    const ccl_i_sql_value_t args[] = {
        ccl_i_sql_text(lab->name), ccl_i_sql_real(lab->options.lease_s),
        ccl_i_sql_text(lab->options.works ? "works" : "asks"), ccl_i_sql_text(lab->options.launch)};
    return tell(lab,
                "INSERT INTO member (name, until, role, launch, ended) VALUES (?1, {now} + ?2, ?3,"
                " ?4, 0) ON CONFLICT (name) DO UPDATE SET until = excluded.until, ended = 0",
                args, 4, NULL, NULL, err);
}

/* Errors are left to whoever asks next. */
static void beat(void *user) {
    ccl_lab_t *lab = user;
    ccl_i_sql_value_t args[] = {ccl_i_sql_text(lab->name), ccl_i_sql_real(lab->options.lease_s),
                                ccl_i_sql_int(0)};
    (void)bury(lab, NULL);
    if (ccl_now_s() - lab->told_s < lab->options.lease_s / 4)
        return;
    lab->told_s = ccl_now_s();
    (void)appear(lab, NULL);
    ccl_lock_take(lab->lock);
    uint32_t n = lab->nheld;
    int64_t *held = n ? malloc(n * sizeof *held) : NULL;
    if (held)
        memcpy(held, lab->held, n * sizeof *held);
    ccl_lock_release(lab->lock);
    for (uint32_t i = 0; held && i < n; i++) {
        args[2] = ccl_i_sql_int(held[i]);
        (void)tell(lab,
                   "UPDATE task SET until = {now} + ?2 WHERE id = ?3 AND owner = ?1 AND status IS"
                   " NULL",
                   args, 3, NULL, NULL, NULL);
    }
    free(held);
}

/* With no other asker alive nobody waits for what was asked before; what is being done stays. */
static ccl_status_t tidy(ccl_notebook_t *n, void *user, ccl_error_t *err) {
    const ccl_lab_t *lab = user;
    const ccl_i_sql_value_t name = ccl_i_sql_text(lab->name);
    static const char *const sql[] = {
        "DELETE FROM member WHERE until < {now} - 3600 AND name <> ?1",
        "DELETE FROM task WHERE (until IS NULL OR until < {now} OR status IS NOT NULL) AND NOT"
        " EXISTS (SELECT 1 FROM member WHERE role = 'asks' AND ended = 0 AND until > {now} AND name"
        " <> ?1)",
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(sql); i++)
        CCL_TRY(n->ops->ask(n, &(ccl_i_question_t){.sql = sql[i], .args = &name, .nargs = 1}, NULL,
                            NULL, err));
    return n->ops->ask(n,
                       &(ccl_i_question_t){.sql = "DELETE FROM item WHERE NOT EXISTS (SELECT 1 FROM"
                                                  " task WHERE task.id = item.task)"},
                       NULL, NULL, err);
}

ccl_status_t ccl_lab_join(const ccl_ctx_t *ctx, ccl_notebook_t *notebook,
                          const ccl_lab_options_t *options, ccl_lab_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_lab_options_t, options, err);
    if (!(options->lease_s > 0) || !isfinite(options->lease_s))
        return ccl_fail(err, CCL_ERR_INPUT, "a lease is longer than 0 s");
    ccl_lab_t *lab = calloc(1, sizeof *lab);
    if (!lab)
        return ccl_fail_nomem(err);
    lab->ctx = ctx;
    lab->notebook = notebook;
    lab->options = *options;
    if (options->launch) {
        snprintf(lab->launch, sizeof lab->launch, "%s", options->launch);
        lab->options.launch = lab->launch;
    }
    notebook->cancel = ctx ? ctx->cancel : NULL;
    lab->told_s = ccl_now_s();
    name_self(lab);
    name_tool(lab);
    lab->lock = ccl_lock_create();
    ccl_status_t status = lab->lock ? appear(lab, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = bury(lab, err);
    if (status == CCL_OK && !options->works)
        status = ccl_i_transact(notebook, true, tidy, lab, err);
    lab->ticker =
        status == CCL_OK ? ccl_ticker_start(fmin(options->lease_s / 8, 1), beat, lab) : NULL;
    if (status == CCL_OK && !lab->ticker)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        *out = lab;
    else
        ccl_lab_leave(lab);
    return status;
}

static ccl_status_t disappear(ccl_notebook_t *n, void *user, ccl_error_t *err) {
    ccl_lab_t *lab = user;
    const ccl_i_sql_value_t name = ccl_i_sql_text(lab->name);
    static const char *const sql[] = {
        "UPDATE task SET owner = NULL, until = NULL WHERE owner = ?1 AND status IS NULL",
        "DELETE FROM task WHERE asker = ?1 AND status IS NULL AND (until IS NULL OR until < {now})",
        "UPDATE member SET ended = 1, until = {now} WHERE name = ?1",
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(sql); i++)
        CCL_TRY(n->ops->ask(n, &(ccl_i_question_t){.sql = sql[i], .args = &name, .nargs = 1}, NULL,
                            NULL, err));
    return lab->options.works ? CCL_OK : tidy(n, user, err);
}

void ccl_lab_leave(ccl_lab_t *lab) {
    if (!lab)
        return;
    ccl_ticker_stop(lab->ticker);
    if (lab->ticker)
        (void)ccl_i_transact(lab->notebook, true, disappear, lab, NULL);
    if (lab->asked + lab->done)
        ccl_log(lab->ctx, CCL_LOG_INFO, "lab", "process %ld: asked for %u tasks, did %u",
                (long)getpid(), lab->asked, lab->done);
    lab->notebook->cancel = NULL;
    ccl_lock_destroy(lab->lock);
    free(lab->held);
    free(lab);
}

const char *ccl_i_lab_name(const ccl_lab_t *lab) {
    return lab->name;
}

const char *ccl_i_lab_tool(const ccl_lab_t *lab) {
    return lab->tool;
}

ccl_notebook_t *ccl_i_lab_notebook(const ccl_lab_t *lab) {
    return lab->notebook;
}

ccl_status_t ccl_i_lab_shared(ccl_lab_t *lab, bool *out, ccl_error_t *err) {
    const ccl_i_sql_value_t name = ccl_i_sql_text(lab->name);
    ccl_notebook_rows_t rows = {0};
    *out = true;
    if (lab->options.launch || lab->notebook->ops == &ccl_i_backend_postgres)
        return CCL_OK;
    ccl_status_t status = tell(lab,
                               "SELECT count(*) FROM member WHERE ended = 0 AND until > {now} AND"
                               " name <> ?1",
                               &name, 1, &rows, NULL, err);
    *out = status == CCL_OK && ccl_i_row_int(&rows, 0, 0) > 0;
    ccl_i_rows_fini(&rows);
    return status;
}

/* ---------------------------------------------------------------- asking */

typedef struct order {
    ccl_lab_t *lab;
    ccl_i_task_t *tasks;
    uint32_t n;
} order_t;

/* Where an item is done: in this task, unless it is in another one, not stale, that somebody will
 * see to. */
static ccl_status_t put_item(ccl_notebook_t *n, ccl_i_task_item_t *item, int64_t task,
                             ccl_error_t *err) {
    static const char take[] =
        "INSERT INTO item (name, task, settings, size_bytes, fidelity) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (name) DO UPDATE SET task = excluded.task WHERE item.task = ?6 OR NOT EXISTS"
        " (SELECT 1 FROM"
        " task t WHERE t.id = item.task AND (t.status IS NOT NULL OR t.until > {now} OR EXISTS"
        " (SELECT 1 FROM member m WHERE m.name = t.asker AND m.ended = 0 AND m.until > {now})))";
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(item->name),
                                      ccl_i_sql_int(task),
                                      ccl_i_sql_text(item->settings),
                                      ccl_i_sql_real(item->size_bytes),
                                      ccl_i_sql_text(item->estimate ? "estimate" : "full"),
                                      ccl_i_sql_int(item->stale)};
    ccl_notebook_rows_t rows = {0};
    CCL_TRY(n->ops->ask(n, &(ccl_i_question_t){.sql = take, .args = args, .nargs = 6}, NULL, NULL,
                        err));
    ccl_status_t status =
        n->ops->ask(n,
                    &(ccl_i_question_t){
                        .sql = "SELECT task FROM item WHERE name = ?1", .args = args, .nargs = 1},
                    &rows, NULL, err);
    if (status == CCL_OK)
        item->task = rows.nrows ? ccl_i_row_int(&rows, 0, 0) : 0;
    ccl_i_rows_fini(&rows);
    return status;
}

static ccl_status_t put_task(ccl_notebook_t *n, const ccl_lab_t *lab, ccl_i_task_t *t,
                             ccl_error_t *err) {
    static const char insert[] =
        "INSERT INTO task (kind, tool, topology, demand, seed, sizes, profile, asker, prefer,"
        " free_at, tries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, {now} + ?10, 0) RETURNING id";
    const ccl_i_sql_value_t args[] = {
        ccl_i_sql_text(t->kind),      ccl_i_sql_text(lab->tool),       ccl_i_sql_text(t->topology),
        ccl_i_sql_text(t->demand),    ccl_i_sql_int((int64_t)t->seed), ccl_i_sql_text(t->sizes),
        ccl_i_sql_text(t->profile),   ccl_i_sql_text(lab->name),       ccl_i_sql_text(t->prefer),
        ccl_i_sql_real(t->reserved_s)};
    ccl_notebook_rows_t rows = {0};
    uint32_t own = 0;
    ccl_status_t status = n->ops->ask(
        n, &(ccl_i_question_t){.sql = insert, .args = args, .nargs = 10}, &rows, NULL, err);
    t->id = status == CCL_OK ? ccl_i_row_int(&rows, 0, 0) : 0;
    ccl_i_rows_fini(&rows);
    for (uint32_t i = 0; i < t->nitems && status == CCL_OK; i++) {
        status = put_item(n, &t->items[i], t->id, err);
        own += t->items[i].task == t->id;
    }
    const ccl_i_sql_value_t id = ccl_i_sql_int(t->id);
    if (status == CCL_OK && own == 0)
        status = n->ops->ask(
            n,
            &(ccl_i_question_t){.sql = "DELETE FROM task WHERE id = ?1", .args = &id, .nargs = 1},
            NULL, NULL, err);
    return status;
}

static ccl_status_t put_all(ccl_notebook_t *n, void *user, ccl_error_t *err) {
    order_t *o = user;
    for (uint32_t i = 0; i < o->n; i++)
        CCL_TRY(put_task(n, o->lab, &o->tasks[i], err));
    return CCL_OK;
}

ccl_status_t ccl_i_lab_ask(ccl_lab_t *lab, ccl_i_task_t *tasks, uint32_t n, ccl_error_t *err) {
    order_t order = {lab, tasks, n};
    CCL_TRY(n ? ccl_i_transact(lab->notebook, true, put_all, &order, err) : CCL_OK);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0, own = 0; k < tasks[i].nitems && !own; k++)
            lab->asked += own = tasks[i].items[k].task == tasks[i].id;
    return CCL_OK;
}

#define FREE_ "status IS NULL AND (until IS NULL OR until < {now})"
#define FOR_ME_ "(prefer IS NULL OR prefer = ?1 OR free_at <= {now})"

ccl_status_t ccl_i_lab_look(ccl_lab_t *lab, const int64_t *ids, uint32_t n,
                            ccl_i_task_state_t *states, ccl_i_task_answer_t *answers,
                            ccl_error_t *err) {
    const ccl_i_sql_value_t name = ccl_i_sql_text(lab->name);
    ccl_notebook_rows_t rows = {0};
    ccl_text_t sql = {0};
    ccl_text_printf(&sql, "SELECT id, status, why, synth_s, content, scarce, owner, CASE WHEN"
                          " NOT (" FREE_ " AND " FOR_ME_ ") THEN 2 WHEN asker = ?1 OR EXISTS"
                          " (SELECT 1 FROM member m WHERE m.name = asker AND m.ended = 0 AND"
                          " m.until > {now}) THEN 3 ELSE 4 END FROM task WHERE id IN (0");
    for (uint32_t i = 0; i < n; i++) {
        states[i] = CCL_I_TASK_GONE;
        ccl_text_printf(&sql, ", %lld", (long long)ids[i]);
    }
    ccl_text_printf(&sql, ")");
    ccl_status_t status =
        sql.nomem
            ? ccl_fail_nomem(err)
            : ccl_i_ask(lab->notebook,
                        &(ccl_i_question_t){
                            .sql = sql.data, .args = &name, .nargs = 1, .once = true, .lazy = true},
                        &rows, NULL, err);
    ccl_text_fini(&sql);
    for (uint32_t r = 0; r < rows.nrows && status == CCL_OK; r++)
        for (uint32_t i = 0; i < n; i++) {
            ccl_i_task_answer_t *a = &answers[i];
            if (ccl_i_row_int(&rows, r, 0) != ids[i])
                continue;
            states[i] = (ccl_i_task_state_t)ccl_i_row_int(&rows, r, 7);
            if (!*ccl_i_row_text(&rows, r, 1))
                continue;
            states[i] = CCL_I_TASK_ANSWERED;
            if (!ccl_i_status_of(ccl_i_row_text(&rows, r, 1), &a->status))
                a->status = CCL_ERR_INTERNAL;
            snprintf(a->why, sizeof a->why, "%s", ccl_i_row_text(&rows, r, 2));
            a->synth_s = *ccl_i_row_text(&rows, r, 3) ? ccl_i_row_real(&rows, r, 3) : 0;
            snprintf(a->content, sizeof a->content, "%s", ccl_i_row_text(&rows, r, 4));
            a->scarce = ccl_i_row_int(&rows, r, 5) != 0;
            snprintf(a->by, sizeof a->by, "%s", ccl_i_row_text(&rows, r, 6));
        }
    ccl_i_rows_fini(&rows);
    return status;
}

/* ---------------------------------------------------------------- doing */

static ccl_status_t hold(ccl_lab_t *lab, int64_t id, ccl_error_t *err) {
    ccl_lock_take(lab->lock);
    bool room = ccl_grow(&lab->held, &lab->held_cap, lab->nheld + 1u, sizeof *lab->held);
    if (room)
        lab->held[lab->nheld++] = id;
    ccl_lock_release(lab->lock);
    return room ? CCL_OK : ccl_fail_nomem(err);
}

static void let_go(ccl_lab_t *lab, int64_t id) {
    ccl_lock_take(lab->lock);
    for (uint32_t i = 0; i < lab->nheld; i++)
        if (lab->held[i] == id)
            lab->held[i--] = lab->held[--lab->nheld];
    ccl_lock_release(lab->lock);
}

ccl_status_t ccl_i_lab_claim(ccl_lab_t *lab, int64_t id, bool *mine_out, ccl_error_t *err) {
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(lab->name),
                                      ccl_i_sql_real(lab->options.lease_s), ccl_i_sql_int(id)};
    int64_t changes = 0;
    CCL_TRY(tell(lab,
                 "UPDATE task SET owner = ?1, until = {now} + ?2, tries = tries + 1 WHERE id = ?3"
                 " AND " FREE_ " AND " FOR_ME_,
                 args, 3, NULL, &changes, err));
    *mine_out = changes > 0;
    return changes ? hold(lab, id, err) : CCL_OK;
}

static ccl_status_t read_items(ccl_lab_t *lab, ccl_i_task_t *t, ccl_error_t *err) {
    const ccl_i_sql_value_t id = ccl_i_sql_int(t->id);
    ccl_notebook_rows_t rows = {0};
    ccl_status_t status = tell(lab,
                               "SELECT settings, size_bytes, fidelity FROM item WHERE task = ?1"
                               " ORDER BY size_bytes, settings, fidelity",
                               &id, 1, &rows, NULL, err);
    if (status == CCL_OK) {
        t->nitems = rows.nrows;
        t->items = ccl_arena_alloc(&t->arena, rows.nrows + 1u, sizeof *t->items);
    }
    for (uint32_t i = 0; t->items && i < t->nitems; i++) {
        t->items[i].settings = ccl_arena_strdup(&t->arena, ccl_i_row_text(&rows, i, 0));
        t->items[i].size_bytes = ccl_i_row_real(&rows, i, 1);
        t->items[i].estimate = strcmp(ccl_i_row_text(&rows, i, 2), "estimate") == 0;
        if (!t->items[i].settings)
            status = ccl_fail_nomem(err);
    }
    ccl_i_rows_fini(&rows);
    return status == CCL_OK && !t->items ? ccl_fail_nomem(err) : status;
}

ccl_status_t ccl_i_lab_next(ccl_lab_t *lab, ccl_i_task_t *out, bool *found_out, ccl_error_t *err) {
    static const char peek[] =
        "SELECT 1 FROM task WHERE " FREE_ " AND " FOR_ME_ " AND tool = ?2 LIMIT 1";
    static const char take[] =
        "UPDATE task SET owner = ?1, until = {now} + ?3, tries = tries + 1 WHERE id = (SELECT id"
        " FROM task WHERE " FREE_ " AND " FOR_ME_ " AND tool = ?2 ORDER BY CASE WHEN prefer = ?1"
        " THEN 0 ELSE 1 END, id LIMIT 1{skip}) RETURNING id, kind, topology, demand, seed, sizes,"
        " profile";
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(lab->name), ccl_i_sql_text(lab->tool),
                                      ccl_i_sql_real(lab->options.lease_s)};
    ccl_notebook_rows_t rows = {0}, any = {0};
    *found_out = false;
    ccl_status_t status = tell(lab, peek, args, 2, &any, NULL, err); /* which nobody waits for */
    bool some = status == CCL_OK && any.nrows > 0;
    ccl_i_rows_fini(&any);
    if (!some)
        return status;
    status = tell(lab, take, args, 3, &rows, NULL, err);
    if (status == CCL_OK && rows.nrows > 0) {
        const char *texts[7] = {0};
        *out = (ccl_i_task_t){.id = ccl_i_row_int(&rows, 0, 0)};
        ccl_arena_init(&out->arena);
        for (uint32_t c = 1; c < 7; c++)
            texts[c] = ccl_arena_strdup(&out->arena, ccl_i_row_text(&rows, 0, c));
        out->kind = texts[1];
        out->topology = texts[2];
        out->demand = texts[3];
        out->seed = (uint64_t)ccl_i_row_int(&rows, 0, 4);
        out->sizes = texts[5];
        out->profile = texts[6] && *texts[6] ? texts[6] : NULL;
        status = hold(lab, out->id, err);
        if (status == CCL_OK && (!out->kind || !out->sizes || !texts[6]))
            status = ccl_fail_nomem(err);
        if (status == CCL_OK)
            status = read_items(lab, out, err);
        *found_out = status == CCL_OK;
        if (status != CCL_OK)
            ccl_i_task_fini(out);
    }
    ccl_i_rows_fini(&rows);
    return status;
}

void ccl_i_task_fini(ccl_i_task_t *task) {
    ccl_arena_fini(&task->arena);
    *task = (ccl_i_task_t){0};
}

ccl_status_t ccl_i_lab_answer(ccl_lab_t *lab, int64_t id, const ccl_i_task_answer_t *a,
                              ccl_error_t *err) {
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(lab->name),
                                      ccl_i_sql_int(id),
                                      ccl_i_sql_text(ccl_status_name(a->status)),
                                      ccl_i_sql_text(a->why),
                                      ccl_i_sql_real(a->synth_s),
                                      ccl_i_sql_text(a->content),
                                      ccl_i_sql_int(a->scarce)};
    int64_t changes = 0;
    let_go(lab, id);
    ccl_status_t status =
        ccl_i_ask(lab->notebook,
                  &(ccl_i_question_t){.sql = "UPDATE task SET owner = ?1, status = ?3, why = ?4,"
                                             " synth_s = ?5, content = ?6, scarce = ?7, until ="
                                             " NULL WHERE id = ?2 AND status IS NULL",
                                      .args = args,
                                      .nargs = 7},
                  NULL, &changes, err);
    ccl_lock_take(lab->lock);
    lab->done += changes > 0;
    ccl_lock_release(lab->lock);
    return status;
}

void ccl_i_lab_release(ccl_lab_t *lab, int64_t id) {
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(lab->name), ccl_i_sql_int(id)};
    let_go(lab, id);
    (void)tell(lab,
               "UPDATE task SET owner = NULL, until = NULL WHERE id = ?2 AND owner = ?1 AND status"
               " IS NULL",
               args, 2, NULL, NULL, NULL);
}

ccl_status_t ccl_i_lab_asker(ccl_lab_t *lab, bool *there_out, bool *ended_out, ccl_error_t *err) {
    const ccl_i_sql_value_t launch = ccl_i_sql_text(lab->options.launch);
    ccl_notebook_rows_t rows = {0};
    ccl_status_t status =
        tell(lab,
             "SELECT max(CASE WHEN ended = 0 AND until > {now} THEN 1 ELSE 0 END),"
             " max(CASE WHEN ended = 1 THEN 1 ELSE 0 END), count(*) FROM member"
             " WHERE role = 'asks' AND launch = ?1",
             &launch, 1, &rows, NULL, err);
    *there_out = status == CCL_OK && ccl_i_row_int(&rows, 0, 2) > 0;
    *ended_out = *there_out && !ccl_i_row_int(&rows, 0, 0);
    if (*ended_out && !ccl_i_row_int(&rows, 0, 1))
        status = ccl_fail(err, CCL_ERR_IO,
                          "process 0 ended before the work was over; what is "
                          "finished is in the lab notebook");
    ccl_i_rows_fini(&rows);
    return status;
}

ccl_status_t ccl_i_lab_input(ccl_lab_t *lab, const char *hash, char **text_out, ccl_error_t *err) {
    const ccl_i_sql_value_t arg = ccl_i_sql_text(hash);
    ccl_notebook_rows_t rows = {0};
    ccl_status_t status =
        tell(lab, "SELECT text FROM input WHERE hash = ?1", &arg, 1, &rows, NULL, err);
    if (status == CCL_OK && !rows.nrows)
        status = ccl_fail(err, CCL_ERR_INPUT, "the lab notebook has no input %s", hash);
    if (status == CCL_OK && !(*text_out = strdup(ccl_i_row_text(&rows, 0, 0))))
        status = ccl_fail_nomem(err);
    ccl_i_rows_fini(&rows);
    return status;
}

void ccl_i_lab_wait(double *wait_s, double most_s) {
    *wait_s = fmin(fmax(*wait_s * 1.5, 0.002), most_s);
    nanosleep(&(struct timespec){0, (long)(1e9 * *wait_s)}, NULL);
}
