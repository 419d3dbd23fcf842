/* ccllab doctor: what this build has in it, and what it finds on this machine. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "cli/command.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef const char *(*version_fn)(void);

/* The libraries by a function of theirs that the program was linked with (NULL: it is loaded when
 * it is needed); which returns a version where `says` is set. */
static const struct {
    const char *name, *symbol;
    bool says;
    const char *use, *licence;
} libraries[] = {
    {"jansson", "jansson_version_str", true, "JSON", "MIT"},
    {"expat", "XML_ExpatVersion", true, "XML", "MIT"},
    {"SQLite", "sqlite3_libversion", true, "the lab notebook", "blessing"},
    {"libpq", NULL, false, "the lab notebook of a team", "PostgreSQL"},
    {"GLPK", "glp_version", true, "milp, taccl, flows, sketch: linear programs",
     "GPL-3.0-or-later"},
    {"Z3", "Z3_get_full_version", true, "sccl, cegis: satisfiability", "MIT"},
    {"bliss", "bliss_new", false, "symmetry of clusters", "LGPL-3.0-only"},
    {"cairo", "cairo_version_string", true, "pictures as PDF and PNG", "LGPL-2.1-only OR MPL-1.1"},
    {"hwloc", "hwloc_topology_init", false, "the PCI tree of topology here", "BSD-3-Clause"},
    {"libibverbs", "ibv_get_device_list", false, "run over RDMA", "GPL-2.0-only OR BSD-2-Clause"},
};

static void fill_parts(ccl_doctor_part_t *parts) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(libraries); i++) {
        const char *name = libraries[i].symbol;
        void *symbol = name ? dlsym(RTLD_DEFAULT, name) : NULL;
        version_fn version;
        memcpy(&version, &symbol, sizeof version);
        parts[i] = (ccl_doctor_part_t){.name = libraries[i].name,
                                       .built_in = name ? symbol != NULL : ccl_notebook_servers(),
                                       .version = symbol && libraries[i].says ? version() : NULL,
                                       .use = libraries[i].use,
                                       .licence = libraries[i].licence};
    }
}

static void look_here(char out[800]) {
    ccl_topology_t *topo = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    if (ccl_topology_here(NULL, &topo, &why) == CCL_OK) {
        uint32_t nics = 0;
        for (uint32_t d = 0; d < topo->ndevices; d++)
            nics += topo->devices[d].kind == CCL_DEVICE_NIC;
        snprintf(out, 800, "%u x %s, %u NICs", topo->nranks,
                 topo->ngpu_models ? topo->gpu_models[0].name : "GPU", nics);
    } else {
        snprintf(out, 800, "%s", why.text);
    }
    ccl_topology_destroy(topo);
}

static ccl_status_t doctor(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_doctor_part_t parts[CCL_ARRAY_LEN(libraries)];
    ccl_device_info_t *devices = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    char here[800];
    ccl_doctor_t result = {.build = ccl_notebook_tool(),
#ifdef __clang__
                           .compiler = "clang " __clang_version__,
#else
                           .compiler = "gcc " __VERSION__,
#endif
                           .here = here,
                           .parts = parts,
                           .nparts = CCL_ARRAY_LEN(parts)};

    CCL_TRY(ccl_devices_list(&devices, &result.ndevices, err));
    result.devices = devices;
    fill_parts(parts);
    look_here(here);
    ccl_status_t status = ccl_report_doctor(&result, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    free(devices);
    return status;
}

static const char *const no_options[] = {NULL};
const ccl_i_command_t ccl_i_cmd_doctor = {
    .name = "doctor",
    .usage = "[options]",
    .summary = "what is built in, under which licences, and what is on this machine",
    .details =
        "Libraries with their versions and licences, devices that programs can run on, and what\n"
        "\"topology here\" finds. Put it into a report of a fault. --csv prints the libraries.\n",
    .examples = "ccllab doctor\n"
                "ccllab doctor --json\n",
    .accepts = no_options,
    .run = doctor,
};
