/**
 * @file module.c
 * The bootstrap by MPI: rank, world and an exchange of bytes. Data never go this way.
 */
#define _POSIX_C_SOURCE 200809L
#include "runtime/mpi/mpi_module.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct state {
    int world;
    /* Of an exchange; they stay until the end, since one that is late may still be under way. */
    void *mine, *all;
} state_t;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int mpi_open(void **state_out, uint32_t *rank_out, uint32_t *world_out) {
    int rank = 0, have = 0, code = MPI_SUCCESS;
    state_t *s = calloc(1, sizeof *s);
    if (!s)
        return MPI_ERR_NO_MEM;
    if (!MPI_Initialized(&have) && !have)
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &have);
    if (!code)
        code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!code)
        code = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!code)
        code = MPI_Comm_size(MPI_COMM_WORLD, &s->world);
    if (code) {
        free(s);
        return code;
    }
    *rank_out = (uint32_t)rank;
    *world_out = (uint32_t)s->world;
    *state_out = s;
    return 0;
}

static int mpi_exchange(void *state, const void *mine, size_t len, void *all, double limit_s) {
    state_t *s = state;
    MPI_Request request;
    int done = 0, code;
    double end_s = now_s() + limit_s;
    if (len > INT_MAX)
        return MPI_ERR_COUNT;
    free(s->mine);
    free(s->all);
    s->mine = malloc(len);
    s->all = malloc(len * (size_t)s->world);
    if (!s->mine || !s->all)
        return MPI_ERR_NO_MEM;
    memcpy(s->mine, mine, len);
    /* Not the blocking call: a process that never comes must not be waited for for ever. */
    code = MPI_Iallgather(s->mine, (int)len, MPI_BYTE, s->all, (int)len, MPI_BYTE, MPI_COMM_WORLD,
                          &request);
    while (!code && !(code = MPI_Test(&request, &done, MPI_STATUS_IGNORE)) && !done) {
        if (now_s() > end_s)
            return CCL_BOOTSTRAP_LATE;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    if (!code)
        memcpy(all, s->all, len * (size_t)s->world);
    return code;
}

static void mpi_error_text(int code, char *text) {
    char said[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (code == CCL_BOOTSTRAP_LATE)
        snprintf(said, sizeof said, "not all processes came");
    else if (MPI_Error_string(code, said, &len))
        snprintf(said, sizeof said, "error %d of MPI", code);
    said[strcspn(said, "\r\n")] = '\0';
    snprintf(text, CCL_BOOTSTRAP_TEXT, "%.200s", said);
}

static void mpi_close(void *state, bool together) {
    state_t *s = state;
    int over = 0;
    if (together && !MPI_Finalized(&over) && !over)
        MPI_Finalize();
    free(s->mine);
    free(s->all);
    free(s);
}

__attribute__((visibility("default"))) const ccl_bootstrap_ops_t *ccl_bootstrap_module_v1(void);

const ccl_bootstrap_ops_t *ccl_bootstrap_module_v1(void) {
    static const ccl_bootstrap_ops_t ops = {CCL_BOOTSTRAP_ABI, sizeof ops,     "mpi",    mpi_open,
                                            mpi_exchange,      mpi_error_text, mpi_close};
    return &ops;
}
