/* Synthesizers that the command line or the environment names. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

static ccl_status_t load_listed(const char *list, ccl_error_t *err) {
    char path[4096];
    for (const char *p = list; p;) {
        size_t len = strcspn(p, ":");
        if (len >= sizeof path)
            return ccl_fail(err, CCL_ERR_INPUT, "CCLLAB_PLUGINS: a path of %zu characters", len);
        memcpy(path, p, len);
        path[len] = '\0';
        if (len > 0)
            CCL_TRY(ccl_plugin_load(path, err));
        p = p[len] ? p + len + 1 : NULL;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_plugins_load(const ccl_i_command_t *command, const ccl_i_args_t *args,
                                ccl_error_t *err) {
    bool takes = false;
    for (size_t i = 0; command->accepts[i]; i++)
        takes |= strcmp(command->accepts[i], "plugin") == 0;
    if (!takes)
        return CCL_OK;
    CCL_TRY(load_listed(getenv("CCLLAB_PLUGINS"), err));
    for (size_t i = 0; i < args->plugins.n; i++)
        CCL_TRY(ccl_plugin_load(args->plugins.items[i], err));
    return CCL_OK;
}
