/**
 * @file library.c
 * Finds NCCL and RCCL and their functions.
 */
#include "runtime/hom/library.h"

#include "runtime/module.h"

#include <dlfcn.h>
#include <string.h>

#define SYMBOL(name_)                                                                              \
    { "nccl" #name_, offsetof(ccl_i_library_calls_t, name_) }
static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    SYMBOL(GetVersion),  SYMBOL(GetErrorString), SYMBOL(GetUniqueId), SYMBOL(CommInitRank),
    SYMBOL(CommDestroy), SYMBOL(CommAbort),      SYMBOL(GroupStart),  SYMBOL(GroupEnd),
    SYMBOL(AllReduce),   SYMBOL(ReduceScatter),  SYMBOL(Reduce),      SYMBOL(Broadcast),
    SYMBOL(AllGather),   SYMBOL(Send),           SYMBOL(Recv),
};

/** By what each vendor's is known. */
static const ccl_i_library_t known[] = {{.name = "nccl", .file = "libnccl.so.2", .kind = "cuda"},
                                        {.name = "rccl", .file = "librccl.so.1", .kind = "hip"}};

int ccl_i_library_type(ccl_type_t type) {
    static const int types[CCL_TYPES] = {2, 7, 6, 9}; /* int32, float32, float16, bfloat16 */
    return types[type];
}

int ccl_i_library_op(ccl_reduction_t op) {
    static const int ops[CCL_REDUCTIONS] = {0, 3, 2}; /* sum, min, max */
    return ops[op];
}

ccl_status_t ccl_i_library_fail(const ccl_i_library_t *library, int code, const char *what,
                                ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "%s: %s: %s", library->name, what,
                    library->calls.GetErrorString(code));
}

void ccl_i_library_choose(ccl_run_library_t which, const char *kind, ccl_i_library_t *out) {
    bool rccl = which == CCL_LIBRARY_RCCL;
    if (which == CCL_LIBRARY_AUTO)
        rccl = strcmp(kind, known[1].kind) == 0;
    *out = known[rccl];
}

/** 2.9 and later count 10000 for a major version, those before 1000. */
static ccl_status_t name_version(const ccl_i_library_t *l, char *out, size_t len,
                                 ccl_error_t *err) {
    int n = 0, code = l->calls.GetVersion(&n);
    if (code)
        return ccl_i_library_fail(l, code, "version", err);
    int major = n >= 10000 ? n / 10000 : n / 1000;
    int rest = n >= 10000 ? n % 10000 : n % 1000;
    snprintf(out, len, "%s %d.%d.%d", l->name, major, rest / 100, rest % 100);
    return CCL_OK;
}

ccl_status_t ccl_i_library_open(ccl_i_library_t *library, char *version_out, size_t len,
                                ccl_error_t *err) {
    /* It stays open: these libraries leave threads and exit handlers behind. */
    void *module = ccl_i_module_open(library->file);
    if (!module)
        return ccl_fail(err, CCL_ERR_MISSING, "%s is not here: no %s", library->name,
                        library->file);
    for (size_t i = 0; i < CCL_ARRAY_LEN(symbols); i++) {
        void *symbol = dlsym(module, symbols[i].name);
        if (!symbol)
            return ccl_fail(err, CCL_ERR_MISSING, "%s has no %s: version 2.7 or later is needed",
                            library->file, symbols[i].name);
        memcpy((char *)&library->calls + symbols[i].at, &symbol, sizeof symbol);
    }
    return name_version(library, version_out, len, err);
}
