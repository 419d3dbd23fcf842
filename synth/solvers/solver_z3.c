/* Questions to Z3, whose errors stick. */
#include "synth/solvers/solver_z3.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <z3.h>

/* A context fills two tables of 8.5 MB before it is asked anything. */
#define ROOM_BYTES ((size_t)20 << 20)
#define MMAP_BYTES (32 << 20)

struct ccl_i_z3 {
    Z3_context z3;
    Z3_solver solver;
    Z3_sort boolean;
    Z3_model model; /* NULL: not after SAT */
    uint32_t variables;
    ccl_error_t err; /* what went wrong first */
};

/* Z3's own handler exits. Errors are asked for with Z3_get_error_code(). */
static void on_error(Z3_context z3, Z3_error_code code) {
    (void)z3, (void)code;
}

/* Of the last call. */
static bool fine(ccl_i_z3_t *z) {
    Z3_error_code code = Z3_get_error_code(z->z3);
    if (z->err.status != CCL_OK || code == Z3_OK)
        return z->err.status == CCL_OK;
    const char *text = Z3_get_error_msg(z->z3, code);
    if (code == Z3_MEMOUT_FAIL || strstr(text, "memory"))
        ccl_fail(&z->err, CCL_ERR_NOMEM, "out of memory (Z3: %.200s)", text);
    else
        ccl_fail(&z->err, CCL_UNSUPPORTED, "Z3 gave up: %.200s", text);
    return false;
}

static void forget_model(ccl_i_z3_t *z) {
    if (z->model)
        Z3_model_dec_ref(z->z3, z->model);
    z->model = NULL;
}

/* Contexts one after the other get the same memory, in large pages. */
static void make_room(void) {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    void *room = malloc(ROOM_BYTES);
    ccl_memory_large(room, ROOM_BYTES);
    free(room);
#endif
}

ccl_i_z3_t *ccl_i_z3_create(uint32_t megabytes) {
    char text[16];
    make_room();
    ccl_i_z3_t *z = calloc(1, sizeof *z);
    if (!z)
        return NULL;
    if (megabytes) {
        snprintf(text, sizeof text, "%u", megabytes);
        Z3_global_param_set("memory_max_size", text);
    }
    Z3_config config = Z3_mk_config();
    z->z3 = config ? Z3_mk_context_rc(config) : NULL;
    if (config)
        Z3_del_config(config);
    if (!z->z3) {
        free(z);
        return NULL;
    }
    Z3_set_error_handler(z->z3, on_error);
    z->solver = Z3_mk_simple_solver(z->z3);
    if (fine(z) && z->solver)
        Z3_solver_inc_ref(z->z3, z->solver);
    else
        ccl_fail_nomem(&z->err);
    if (fine(z))
        z->boolean = Z3_mk_bool_sort(z->z3);
    if (fine(z))
        Z3_inc_ref(z->z3, Z3_sort_to_ast(z->z3, z->boolean));
    return z;
}

void ccl_i_z3_destroy(ccl_i_z3_t *z) {
    if (!z)
        return;
    forget_model(z);
    if (z->solver)
        Z3_solver_dec_ref(z->z3, z->solver);
    Z3_del_context(z->z3);
    free(z);
}

ccl_status_t ccl_i_z3_status(const ccl_i_z3_t *z, ccl_error_t *err) {
    if (err && err->status == CCL_OK && z->err.status != CCL_OK)
        *err = z->err;
    return z->err.status;
}

/* ---------------------------------------------------------------- terms */

static ccl_i_z3_term_t keep(ccl_i_z3_t *z, Z3_ast term) {
    if (!fine(z))
        return NULL;
    Z3_inc_ref(z->z3, term);
    return fine(z) ? term : NULL;
}

static bool failed(const ccl_i_z3_t *z) {
    return z->err.status != CCL_OK;
}

ccl_i_z3_term_t ccl_i_z3_variable(ccl_i_z3_t *z) {
    if (failed(z))
        return NULL;
    Z3_symbol name = Z3_mk_int_symbol(z->z3, (int)z->variables++);
    return fine(z) ? keep(z, Z3_mk_const(z->z3, name, z->boolean)) : NULL;
}

ccl_i_z3_term_t ccl_i_z3_constant(ccl_i_z3_t *z, bool value) {
    if (failed(z))
        return NULL;
    return keep(z, value ? Z3_mk_true(z->z3) : Z3_mk_false(z->z3));
}

ccl_i_z3_term_t ccl_i_z3_not(ccl_i_z3_t *z, ccl_i_z3_term_t term) {
    return failed(z) ? NULL : keep(z, Z3_mk_not(z->z3, term));
}

ccl_i_z3_term_t ccl_i_z3_implies(ccl_i_z3_t *z, ccl_i_z3_term_t a, ccl_i_z3_term_t b) {
    return failed(z) ? NULL : keep(z, Z3_mk_implies(z->z3, a, b));
}

ccl_i_z3_term_t ccl_i_z3_or(ccl_i_z3_t *z, uint32_t n, const ccl_i_z3_term_t *terms) {
    return failed(z) ? NULL : keep(z, Z3_mk_or(z->z3, n, terms));
}

ccl_i_z3_term_t ccl_i_z3_most(ccl_i_z3_t *z, uint32_t n, const ccl_i_z3_term_t *terms,
                              const int *weights, int most) {
    if (failed(z))
        return NULL;
    return keep(z, weights ? Z3_mk_pble(z->z3, n, terms, weights, most)
                           : Z3_mk_atmost(z->z3, n, terms, (unsigned)most));
}

/* ---------------------------------------------------------------- questions */

void ccl_i_z3_demand(ccl_i_z3_t *z, ccl_i_z3_term_t term) {
    if (failed(z))
        return;
    Z3_solver_assert(z->z3, z->solver, term);
    (void)fine(z);
}

void ccl_i_z3_push(ccl_i_z3_t *z) {
    if (failed(z))
        return;
    Z3_solver_push(z->z3, z->solver);
    (void)fine(z);
}

void ccl_i_z3_pop(ccl_i_z3_t *z) {
    if (failed(z))
        return;
    Z3_solver_pop(z->z3, z->solver, 1);
    (void)fine(z);
}

static void limit_work(ccl_i_z3_t *z, uint64_t work) {
    Z3_params params = Z3_mk_params(z->z3);
    if (!fine(z))
        return;
    Z3_params_inc_ref(z->z3, params);
    if (work && work < UINT32_MAX)
        Z3_params_set_uint(z->z3, params, Z3_mk_string_symbol(z->z3, "rlimit"), (unsigned)work);
    if (fine(z))
        Z3_solver_set_params(z->z3, z->solver, params);
    (void)fine(z);
    Z3_params_dec_ref(z->z3, params);
}

/* Work so far. */
static uint64_t spent(ccl_i_z3_t *z) {
    Z3_stats stats = Z3_solver_get_statistics(z->z3, z->solver);
    uint64_t count = 0;
    if (!fine(z))
        return 0;
    Z3_stats_inc_ref(z->z3, stats);
    for (unsigned i = 0; i < Z3_stats_size(z->z3, stats); i++) {
        if (strcmp(Z3_stats_get_key(z->z3, stats, i), "rlimit count") == 0)
            count = Z3_stats_is_uint(z->z3, stats, i)
                        ? Z3_stats_get_uint_value(z->z3, stats, i)
                        : (uint64_t)Z3_stats_get_double_value(z->z3, stats, i);
    }
    Z3_stats_dec_ref(z->z3, stats);
    return count;
}

ccl_i_z3_answer_t ccl_i_z3_check(ccl_i_z3_t *z, uint64_t work, uint64_t *used_out) {
    if (used_out)
        *used_out = 0;
    forget_model(z);
    if (!failed(z))
        limit_work(z, work);
    uint64_t before = failed(z) ? 0 : spent(z);
    if (failed(z))
        return CCL_I_Z3_UNKNOWN;
    Z3_lbool result = Z3_solver_check(z->z3, z->solver);
    (void)fine(z);
    uint64_t after = failed(z) ? 0 : spent(z);
    if (used_out)
        *used_out = after > before ? after - before : 0;
    if (!failed(z) && result == Z3_L_TRUE) {
        z->model = Z3_solver_get_model(z->z3, z->solver);
        if (fine(z))
            Z3_model_inc_ref(z->z3, z->model);
        else
            z->model = NULL;
    }
    if (failed(z))
        return CCL_I_Z3_UNKNOWN;
    return result == Z3_L_TRUE    ? CCL_I_Z3_SAT
           : result == Z3_L_FALSE ? CCL_I_Z3_UNSAT
                                  : CCL_I_Z3_UNKNOWN;
}

bool ccl_i_z3_is_true(ccl_i_z3_t *z, ccl_i_z3_term_t term) {
    Z3_ast value = NULL;
    if (failed(z) || !z->model || !term)
        return false;
    bool known = Z3_model_eval(z->z3, z->model, term, true, &value);
    return fine(z) && known && Z3_get_bool_value(z->z3, value) == Z3_L_TRUE;
}
