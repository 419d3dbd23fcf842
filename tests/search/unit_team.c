/*
 * Tuning by several processes comes to the same as by one, also when others are killed, stop, or
 * tune something else, and when one tuning follows another; what is finished is in the notebook.
 */
#include <arpa/inet.h>
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "search/tune/tune.h"
#include "tests/topologies/topologies.h"

enum { MOST = 4, BUDGET = 80, OTHER_SIZES = -1 };
static const double sizes[] = {1048576, 16777216};
static ccl_topology_t *topo;
static ccl_collective_t *want;
static ccl_space_t *space;

static void set_up(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    topo = topology("heteccl-h20-4+8");
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, &err), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&space, &err), CCL_OK);
    ck_assert_int_eq(ccl_space_set(space, "with=ring,hm,direct", &err), CCL_OK);
    ck_assert_int_eq(ccl_space_set(space, "chunks=auto,1:4", &err), CCL_OK);
}

static void tear_down(void) {
    ccl_space_destroy(space);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}

static ccl_tune_options_t options_of(ccl_notebook_t *notebook, ccl_team_t *team) {
    ccl_tune_options_t o = CCL_TUNE_OPTIONS_INIT;
    o.space = space;
    o.sizes_bytes = sizes;
    o.nsizes = CCL_ARRAY_LEN(sizes);
    o.budget_runs = BUDGET;
    o.notebook = notebook;
    o.team = team;
    return o;
}

/** A port of the loopback that nobody listens at. */
static void free_port(char *root, size_t len) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    close(fd);
    snprintf(root, len, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
}

static ccl_team_t *join(uint32_t rank, uint32_t world, const char *root) {
    ccl_run_options_t place = CCL_RUN_OPTIONS_INIT;
    ccl_team_t *team = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    place.world = world;
    place.rank = rank;
    place.root = root;
    ck_assert_msg(ccl_team_open(&place, &team, &err) == CCL_OK, "%s", err.text);
    ck_assert(ccl_team_rank(team) == rank && ccl_team_world(team) == world);
    return team;
}

/** What befalls one of the others: at its so many-th look at the context. */
typedef struct fate {
    int signal;
    uint32_t at, looks;
} fate_t;

static int befall(const ccl_progress_t *progress, void *user) {
    fate_t *fate = user;
    (void)progress;
    if (++fate->looks == fate->at)
        raise(fate->signal);
    return 0;
}

/** All tunings of the team. Exit code: 0, sent home together; 10, apart; else 20 and the status. */
static void work(uint32_t rank, uint32_t world, const char *root, fate_t fate) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_team_parting_t parting = CCL_TEAM_APART;
    ccl_team_t *team = join(rank, world, root);
    ccl_tune_options_t o = options_of(NULL, team);
    if (fate.signal == OTHER_SIZES)
        o.nsizes = 1;
    if (fate.signal > 0) {
        ctx.progress = befall;
        ctx.progress_user = &fate;
    }
    ccl_status_t status = CCL_OK;
    do {
        status = ccl_tune_work(&ctx, topo, want, &o, &parting, &err);
        o.turn++;
    } while (status == CCL_OK && parting == CCL_TEAM_NEXT);
    ccl_team_close(team);
    _exit(status == CCL_OK ? parting == CCL_TEAM_TOGETHER ? 0 : 10 : 20 + (int)status);
}

static void assert_same(const ccl_tuning_t *a, const ccl_tuning_t *b, const char *why) {
    ck_assert_msg(a->npoints == b->npoints && a->nruns == b->nruns && a->nruns >= BUDGET &&
                      a->schedules == b->schedules,
                  "%s: %u points, %u runs, not %u, %u", why, b->npoints, b->nruns, a->npoints,
                  a->nruns);
    for (uint32_t i = 0; i < a->nruns; i++) {
        const ccl_tune_run_t *x = &a->runs[i], *y = &b->runs[i];
        ck_assert_str_eq(a->points[x->point].settings, b->points[y->point].settings);
        ck_assert(x->size == y->size && x->estimate == y->estimate);
        ck_assert_int_eq(x->result.status, y->result.status);
        ck_assert_str_eq(x->result.why, y->result.why);
        ck_assert(x->result.time_s == y->result.time_s && x->result.bound_s == y->result.bound_s &&
                  x->result.busbw_GBps == y->result.busbw_GBps);
        ck_assert(x->result.thread_blocks == y->result.thread_blocks &&
                  x->result.batches == y->result.batches);
    }
    ck_assert(memcmp(a->best, b->best, a->nsizes * sizeof *a->best) == 0);
}

static ccl_tuning_t *tune(ccl_notebook_t *notebook, ccl_team_t *team, uint32_t turn) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_tuning_t *out = NULL;
    ccl_tune_options_t o = options_of(notebook, team);
    o.turn = turn;
    ck_assert_msg(ccl_tune(&ctx, topo, want, &o, &out, &err) == CCL_OK, "%s", err.text);
    return out;
}

static const struct row {
    const char *why;
    uint32_t world;
    fate_t fate;  /* of process 1 */
    int exits[2]; /* of process 1 (negative: a signal), of the others */
    bool twice;   /* a tuning before, without a notebook; who stopped in it goes on after it */
} rows[] = {
    {"one works", 2, {0}, {0, 0}, false},
    {"three work", 4, {0}, {0, 0}, false},
    {"one of three is killed at work", 4, {SIGKILL, 20, 0}, {-SIGKILL, 10}, false},
    {"the only one is killed: process 0 goes on alone", 2, {SIGKILL, 20, 0}, {-SIGKILL, 10}, false},
    {"one of two stops and never answers", 3, {SIGSTOP, 20, 0}, {-SIGKILL, 10}, false},
    {"one tunes something else", 3, {OTHER_SIZES, 0, 0}, {20 + CCL_ERR_INPUT, 10}, false},
    {"two tunings", 3, {0}, {0, 0}, true},
    {"one is killed in the first of two", 3, {SIGKILL, 20, 0}, {-SIGKILL, 10}, true},
    {"one answers what the first of two asked", 3, {SIGSTOP, 20, 0}, {10, 10}, true},
};

START_TEST(test_team) {
    const struct row *row = &rows[_i];
    char root[32], path[] = "/tmp/unit_team_XXXXXX";
    pid_t others[MOST];
    ccl_notebook_t *notebook = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    set_up();
    free_port(root, sizeof root);
    for (uint32_t w = 1; w < row->world; w++) {
        others[w] = fork();
        ck_assert_int_ge(others[w], 0);
        if (others[w] == 0)
            work(w, row->world, root, w == 1 ? row->fate : (fate_t){0});
    }
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(ccl_notebook_open(path, true, &notebook, &err), CCL_OK);
    ccl_team_t *team = join(0, row->world, root);
    ccl_tuning_t *before = row->twice ? tune(NULL, team, 0) : NULL;
    if (before) {
        ccl_tune_team_end(team, CCL_TEAM_NEXT);
        kill(others[1], SIGCONT);
    }
    ccl_tuning_t *many = tune(notebook, team, row->twice);
    bool idle = many->team_idle && (!before || before->team_idle);
    ccl_tune_team_end(team, idle ? CCL_TEAM_TOGETHER : CCL_TEAM_APART);
    if (row->fate.signal == SIGSTOP && !before)
        kill(others[1], SIGKILL);
    for (uint32_t w = 1; w < row->world; w++) {
        int state = 0;
        ck_assert_int_eq(waitpid(others[w], &state, 0), others[w]);
        ck_assert_msg((WIFSIGNALED(state) ? -WTERMSIG(state) : WEXITSTATUS(state)) ==
                          row->exits[w > 1],
                      "%s: process %u ended with %x", row->why, w, (unsigned)state);
    }
    ccl_team_close(team);
    ccl_tuning_t *one = tune(NULL, NULL, 0), *again = tune(notebook, NULL, 0);
    assert_same(one, many, row->why);
    if (before)
        assert_same(one, before, row->why);
    for (uint32_t i = 0; i < again->nruns; i++)
        ck_assert_msg(again->runs[i].resumed, "%s: run %u was not written down", row->why, i);
    ccl_tuning_destroy(one);
    ccl_tuning_destroy(many);
    ccl_tuning_destroy(before);
    ccl_tuning_destroy(again);
    ccl_notebook_close(notebook);
    unlink(path);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.search.team");
    TCase *tcase = tcase_create("team");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_team, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
