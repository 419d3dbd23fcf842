/* Synthesizers that a command works with: plugins to load, and who is compared: names of --with, or
   the library and all synthesizers that take part. */
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

/* What stands behind --plugin in word i; NULL: it is another word. */
static const char *plugin_at(int argc, char **argv, int i) {
    static const char option[] = "--plugin";
    size_t len = sizeof option - 1;
    if (strncmp(argv[i], option, len) != 0)
        return NULL;
    if (argv[i][len] == '=')
        return argv[i] + len + 1;
    return argv[i][len] == '\0' && i + 1 < argc ? argv[i + 1] : NULL;
}

ccl_status_t ccl_i_plugins_load(const ccl_i_command_t *command, int argc, char **argv,
                                ccl_error_t *err) {
    bool takes = false;
    for (size_t i = 0; command->accepts[i]; i++)
        takes |= strcmp(command->accepts[i], "plugin") == 0;
    if (!takes)
        return CCL_OK;
    CCL_TRY(load_listed(getenv("CCLLAB_PLUGINS"), err));
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *path = plugin_at(argc, argv, i);
        if (path)
            CCL_TRY(ccl_plugin_load(path, err));
    }
    return ccl_i_check_added(err);
}

ccl_status_t ccl_i_contenders_check(const char *const *with, uint32_t nwith, ccl_error_t *err) {
    const char *names[128];
    size_t n = 0;

    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all && n + 2 < CCL_ARRAY_LEN(names);
         all++)
        names[n++] = (*all)->name;
    names[n++] = "nccl";
    names[n] = NULL;
    for (uint32_t i = 0; i < nwith; i++) {
        const char *near;

        if (ccl_synth_find(with[i]) || ccl_nccl_stock(with[i]))
            continue;
        near = ccl_nearest(with[i], names);
        if (near)
            return ccl_fail(err, CCL_ERR_USAGE, "unknown synthesizer \"%s\", did you mean \"%s\"?",
                            with[i], near);
        return ccl_fail(err, CCL_ERR_USAGE, "unknown synthesizer \"%s\" (ccllab algos lists them)",
                        with[i]);
    }
    return CCL_OK;
}

/** A synthesizer, or the vendor's library, whichever of its names was said. */
static ccl_contender_t named(const ccl_topology_t *topo, const char *name) {
    const char *library = name;

    if (!ccl_nccl_stock(name))
        return (ccl_contender_t){.name = name};
    (void)ccl_nccl_library(topo, &library, NULL); /* the result says why not */
    return (ccl_contender_t){.name = library, .library = true};
}

static bool is_in(const char *name, const char *const *list) {
    for (; list && *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

uint32_t ccl_i_contenders_room(uint32_t nwith) {
    uint32_t n = nwith + 1;

    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++)
        n++;
    return n;
}

uint32_t ccl_i_contenders(const ccl_topology_t *topo, const char *const *with, uint32_t nwith,
                          const char *const *without, ccl_contender_t *out) {
    uint32_t n = 0;
    bool stock = false; /* nccl and rccl are one contender, whichever runs here */

    for (uint32_t i = 0; i < nwith; i++) {
        if (stock && ccl_nccl_stock(with[i]))
            continue;
        stock |= ccl_nccl_stock(with[i]);
        out[n++] = named(topo, with[i]);
    }
    if (nwith > 0)
        return n;
    out[n++] = named(topo, "nccl");
    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++)
        if (!is_in((*all)->name, without) && ccl_synth_takes_part(*all, topo))
            out[n++] = (ccl_contender_t){.name = (*all)->name};
    return n;
}
