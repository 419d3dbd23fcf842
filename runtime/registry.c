/**
 * @file registry.c
 * Kinds of devices: `host`, and modules that are opened at run time.
 *
 * A module is libccl_device_KIND.so.
 */
#define _GNU_SOURCE
#include "runtime/host/host.h"
#include "runtime/job.h"
#include "runtime/module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const module_kinds[] = {"cuda", "hip"};

static bool complete(const ccl_device_ops_t *o) {
    return o->name && o->error_text && o->count && o->properties && o->open && o->close &&
           o->memory_alloc && o->memory_free && o->host_alloc && o->host_free && o->copy_h2d &&
           o->copy_d2h && o->copy_d2d && o->memory_set && o->stream_create && o->stream_destroy &&
           o->stream_wait && o->stream_done && o->stream_call && o->event_create &&
           o->event_destroy && o->event_record && o->event_wait && o->event_done &&
           o->stream_follow && o->event_elapsed && o->program_load && o->program_unload &&
           o->program_launch;
}

static ccl_status_t table_of(const char *kind, void *module, const ccl_device_ops_t **out,
                             ccl_error_t *err) {
    ccl_device_entry_fn entry = NULL;
    void *symbol = dlsym(module, CCL_DEVICE_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    const ccl_device_ops_t *ops = entry ? entry() : NULL;
    if (!ops)
        return ccl_fail(err, CCL_ERR_MISSING, "the module for %s has no %s", kind,
                        CCL_DEVICE_ENTRY);
    if (ops->abi != CCL_DEVICE_ABI || ops->size < sizeof *ops)
        return ccl_fail(err, CCL_ERR_MISSING,
                        "the module for %s is of version %u with %zu bytes; version %u with %zu "
                        "is needed",
                        kind, ops->abi, ops->size, CCL_DEVICE_ABI, sizeof *ops);
    if (!complete(ops))
        return ccl_fail(err, CCL_ERR_MISSING, "the module for %s lacks functions", kind);
    *out = ops;
    return CCL_OK;
}

ccl_status_t ccl_i_device_find(const char *name, const ccl_device_ops_t **ops_out,
                               void **module_out, ccl_error_t *err) {
    *module_out = NULL;
    if (strcmp(name, "host") == 0) {
        *ops_out = ccl_i_host_ops();
        return CCL_OK;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(module_kinds); i++) {
        if (strcmp(name, module_kinds[i]) != 0)
            continue;
        char file[64];
        snprintf(file, sizeof file, "libccl_device_%s.so", name);
        void *module = ccl_i_module_open(file);
        if (!module)
            return ccl_fail(err, CCL_ERR_MISSING, "no device %s: its module %s is not here", name,
                            file);
        ccl_status_t status = table_of(name, module, ops_out, err);
        if (status != CCL_OK)
            dlclose(module);
        else
            *module_out = module;
        return status;
    }
    return ccl_fail(err, CCL_ERR_USAGE, "unknown device \"%.40s\": host, cuda or hip is wanted",
                    name);
}

void ccl_i_device_release(void *module) {
    if (module)
        dlclose(module);
}

/* ---------------------------------------------------------------- list */

typedef struct list {
    ccl_device_info_t *items;
    size_t n, cap;
} list_t;

static ccl_status_t add(list_t *list, const ccl_device_info_t *info, ccl_error_t *err) {
    if (!ccl_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items))
        return ccl_fail_nomem(err);
    list->items[list->n++] = *info;
    return CCL_OK;
}

static ccl_status_t add_missing(list_t *list, const char *kind, const char *why, ccl_error_t *err) {
    ccl_device_info_t info = {.available = false};
    snprintf(info.kind, sizeof info.kind, "%s", kind);
    snprintf(info.name, sizeof info.name, "%.127s", why);
    return add(list, &info, err);
}

static ccl_status_t add_kind(list_t *list, const char *kind, ccl_error_t *err) {
    const ccl_device_ops_t *ops;
    void *module;
    ccl_error_t why = CCL_ERROR_INIT;
    uint32_t n = 0;
    if (ccl_i_device_find(kind, &ops, &module, &why) != CCL_OK)
        return add_missing(list, kind, why.text, err);
    ccl_status_t status = CCL_OK;
    int code = ops->count(&n);
    if (code || n == 0)
        status = add_missing(list, kind, code ? ops->error_text(code) : "no device", err);
    for (uint32_t i = 0; i < n && !code && status == CCL_OK; i++) {
        ccl_device_properties_t p = {0};
        ccl_device_info_t info = {.index = i};
        int failed = ops->properties(i, &p);
        snprintf(info.kind, sizeof info.kind, "%s", kind);
        snprintf(info.name, sizeof info.name, "%s", failed ? ops->error_text(failed) : p.name);
        snprintf(info.architecture, sizeof info.architecture, "%s", p.architecture);
        info.available = !failed;
        info.units = p.units;
        info.memory_bytes = (double)p.memory_bytes;
        status = add(list, &info, err);
    }
    ccl_i_device_release(module);
    return status;
}

ccl_status_t ccl_devices_list(ccl_device_info_t **out, uint32_t *n_out, ccl_error_t *err) {
    list_t list = {0};
    ccl_status_t status = add_kind(&list, "host", err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(module_kinds) && status == CCL_OK; i++)
        status = add_kind(&list, module_kinds[i], err);
    if (status != CCL_OK) {
        free(list.items);
        return status;
    }
    *out = list.items;
    *n_out = (uint32_t)list.n;
    return CCL_OK;
}
