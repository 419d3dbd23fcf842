/**
 * @file module.c
 * Where modules lie. CCL_DEVICE_FOLDER: where an install puts them, from the
 * program's folder; CMake knows.
 */
#define _GNU_SOURCE
#include "runtime/module.h"

#include "base/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *open_in(const char *folder, size_t len, const char *file) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)len, folder, file) >= sizeof path)
        return NULL;
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

void *ccl_i_module_open(const char *file) {
    char self[4096];
    void *module = NULL;
    for (const char *p = getenv("CCL_DEVICE_PATH"); p && !module;) {
        size_t len = strcspn(p, ":");
        if (len > 0)
            module = open_in(p, len, file);
        p = p[len] ? p + len + 1 : NULL;
    }
    /* Beside the program, as installed, in ../lib, and below runtime/ of a build folder. */
    static const char *const beside[] = {"", "/" CCL_DEVICE_FOLDER, "/../lib/ccllab", "/../lib",
                                         "/../runtime"};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    for (size_t i = 0; slash && i < CCL_ARRAY_LEN(beside) && !module; i++) {
        char folder[4200];
        *slash = '\0';
        int len = snprintf(folder, sizeof folder, "%s%s", self, beside[i]);
        module = open_in(folder, (size_t)len, file);
    }
    return module ? module : dlopen(file, RTLD_NOW | RTLD_LOCAL);
}
