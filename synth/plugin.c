/* Synthesizers from shared objects. */
#include "synth/synth.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)256 << 20) /* hashed as a whole; debug information included */

/* The same major and minor version: structs differ between others (SOVERSION). */
static bool same_version(const char *version) {
    size_t minor = 0;
    for (int dots = 0; CCL_VERSION[minor] && dots < 2; minor++)
        dots += CCL_VERSION[minor] == '.';
    return strncmp(version, CCL_VERSION, minor) == 0;
}

static ccl_status_t add(const char *path, void *object, uint64_t hash, ccl_error_t *err) {
    char version[20];
    ccl_error_t own = CCL_ERROR_INIT;
    const ccl_plugin_t *plugin = dlsym(object, "ccllab_plugin");
    if (!plugin)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "%.300s is no plugin: it has no symbol ccllab_plugin (CCL_PLUGIN)", path);
    bool known = plugin->size == sizeof *plugin && plugin->version;
    if (!known || !same_version(plugin->version))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "plugin %.300s was compiled with the headers of ccllab %.20s, this is %s: "
                        "compile it again",
                        path, known ? plugin->version : "?", CCL_VERSION);
    snprintf(version, sizeof version, "%016llx", (unsigned long long)hash);
    ccl_status_t status = ccl_synth_register(plugin->synth, version, &own);
    return status == CCL_OK ? CCL_OK : ccl_fail(err, status, "plugin %.300s: %s", path, own.text);
}

ccl_status_t ccl_plugin_load(const char *path, ccl_error_t *err) {
    char *text = NULL, *file = NULL;
    size_t len = 0;
    CCL_TRY(ccl_file_read(path, MOST_BYTES, &text, &len, err));
    uint64_t hash = ccl_hash64(text, len, 1);
    free(text);
    file =
        malloc(strlen(path) + 3); /* without a slash, dlopen() would look in folders of its own */
    if (!file)
        return ccl_fail_nomem(err);
    sprintf(file, "%s%s", strchr(path, '/') ? "" : "./", path);
    void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    free(file);
    if (!object) {
        const char *why = dlerror();
        return ccl_fail(err, CCL_ERR_INPUT, "plugin %.300s cannot be loaded: %.300s", path,
                        why ? why : "?");
    }
    ccl_status_t status = add(path, object, hash, err);
    if (status != CCL_OK)
        dlclose(object);
    return status;
}
