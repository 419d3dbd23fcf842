/**
 * @file place.c
 * From where a process knows its place in a job: its options, the launcher's environment, or MPI.
 */
#define _GNU_SOURCE
#include "runtime/wire/bootstrap.h"
#include "runtime/module.h"
#include "runtime/mpi/mpi_module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MPI_MODULE "libccl_bootstrap_mpi.so"

struct ccl_bootstrap {
    void *module; /* never closed: MPI leaves threads and handlers behind that lie in it */
    const ccl_bootstrap_ops_t *ops;
    void *state;
};

static bool number_of(const char *name, uint32_t *out) {
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value > 65536)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool ccl_run_place_from_environment(uint32_t *rank_out, uint32_t *world_out) {
    static const char *const names[][2] = {{"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++) {
        uint32_t rank, world;
        if (number_of(names[i][0], &rank) && number_of(names[i][1], &world) && rank < world) {
            *rank_out = rank;
            *world_out = world;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- the three ways */

static ccl_status_t place_by_options(const ccl_ctx_t *ctx, ccl_run_options_t *o,
                                     ccl_bootstrap_t **out, ccl_error_t *err) {
    (void)ctx, (void)out;
    if (o->world == 0)
        return ccl_fail(err, CCL_ERR_USAGE, "the bootstrap root wants a world");
    if (o->world > 1 && !o->root)
        return ccl_fail(err, CCL_ERR_USAGE, "a job of %u processes wants a root HOST:PORT",
                        o->world);
    return CCL_OK;
}

static ccl_status_t place_by_environment(const ccl_ctx_t *ctx, ccl_run_options_t *o,
                                         ccl_bootstrap_t **out, ccl_error_t *err) {
    (void)ctx, (void)out;
    if (o->world)
        return ccl_fail(err, CCL_ERR_USAGE, "the bootstrap env finds the world itself");
    if (!o->root)
        return ccl_fail(err, CCL_ERR_USAGE, "the bootstrap env wants a root HOST:PORT");
    if (!ccl_run_place_from_environment(&o->rank, &o->world))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "a root is for jobs of several processes: with a world and a rank, or "
                        "started by srun or mpirun");
    return CCL_OK;
}

static ccl_status_t mpi_table(ccl_bootstrap_t *b, ccl_error_t *err) {
    ccl_bootstrap_entry_fn entry = NULL;
    void *symbol = dlsym(b->module, CCL_BOOTSTRAP_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    b->ops = entry ? entry() : NULL;
    if (!b->ops || b->ops->abi != CCL_BOOTSTRAP_ABI || b->ops->size < sizeof *b->ops)
        return ccl_fail(err, CCL_ERR_MISSING, "%s is of another version", MPI_MODULE);
    return CCL_OK;
}

static ccl_status_t mpi_failed(const ccl_bootstrap_t *b, int code, ccl_error_t *err) {
    char text[CCL_BOOTSTRAP_TEXT];
    b->ops->error_text(code, text);
    return ccl_fail(err, CCL_ERR_IO, "MPI: %s", text);
}

static ccl_status_t place_by_mpi(const ccl_ctx_t *ctx, ccl_run_options_t *o, ccl_bootstrap_t **out,
                                 ccl_error_t *err) {
    uint32_t rank, world;
    if (o->world || o->root)
        return ccl_fail(err, CCL_ERR_USAGE, "the bootstrap mpi finds world and root itself");
    ccl_bootstrap_t *b = calloc(1, sizeof *b);
    if (!b)
        return ccl_fail_nomem(err);
    b->module = ccl_i_module_open(MPI_MODULE);
    ccl_status_t status = b->module
                              ? mpi_table(b, err)
                              : ccl_fail(err, CCL_ERR_MISSING,
                                         "no bootstrap mpi: its module " MPI_MODULE " is not here");
    if (status == CCL_OK) {
        int code = b->ops->open(&b->state, &o->rank, &o->world);
        if (code)
            status = mpi_failed(b, code, err);
    }
    if (status != CCL_OK) {
        free(b);
        return status;
    }
    if (o->world == 1 && ccl_run_place_from_environment(&rank, &world) && world > 1)
        ccl_log(ctx, CCL_LOG_WARN, "run",
                "the launcher started %u processes, but MPI knows this one alone: is it the "
                "launcher of the same MPI? It runs alone",
                world);
    o->bootstrap = *out = b;
    return CCL_OK;
}

static ccl_status_t place_by_itself(const ccl_ctx_t *ctx, ccl_run_options_t *o,
                                    ccl_bootstrap_t **out, ccl_error_t *err) {
    uint32_t rank, world;
    if (o->world)
        return place_by_options(ctx, o, out, err);
    if (o->root)
        return place_by_environment(ctx, o, out, err);
    if (!ccl_run_place_from_environment(&rank, &world) || world < 2)
        return CCL_OK;
    ccl_status_t status = place_by_mpi(ctx, o, out, err);
    if (status != CCL_ERR_MISSING)
        return status;
    ccl_log(ctx, CCL_LOG_WARN, "run",
            "process %u of %u that a launcher started runs alone: %s; ccllab run can do with a "
            "root HOST:PORT",
            rank, world, err ? err->text : "no MPI");
    return CCL_OK;
}

ccl_status_t ccl_bootstrap_open(const ccl_ctx_t *ctx, ccl_bootstrap_kind_t kind,
                                ccl_run_options_t *options, ccl_bootstrap_t **out,
                                ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    static ccl_status_t (*const ways[])(const ccl_ctx_t *, ccl_run_options_t *, ccl_bootstrap_t **,
                                        ccl_error_t *) = {
        [CCL_BOOTSTRAP_AUTO] = place_by_itself,
        [CCL_BOOTSTRAP_ROOT] = place_by_options,
        [CCL_BOOTSTRAP_ENV] = place_by_environment,
        [CCL_BOOTSTRAP_MPI] = place_by_mpi,
    };
    ccl_error_t own = CCL_ERROR_INIT;
    *out = NULL;
    if ((unsigned)kind >= CCL_ARRAY_LEN(ways))
        return ccl_fail(err, CCL_ERR_USAGE, "no such bootstrap");
    ccl_status_t status = ways[kind](ctx, options, out, &own);
    if (status != CCL_OK)
        return ccl_fail(err, status, "%s", own.text);
    return CCL_OK;
}

ccl_status_t ccl_i_bootstrap_exchange(ccl_bootstrap_t *bootstrap, const void *mine, size_t len,
                                      void *all, double limit_s, ccl_error_t *err) {
    int code = bootstrap->ops->exchange(bootstrap->state, mine, len, all, limit_s);
    return code ? mpi_failed(bootstrap, code, err) : CCL_OK;
}

void ccl_bootstrap_close(ccl_bootstrap_t *bootstrap, bool together) {
    if (!bootstrap)
        return;
    bootstrap->ops->close(bootstrap->state, together);
    free(bootstrap);
}
