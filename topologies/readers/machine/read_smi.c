#define _GNU_SOURCE /* memmem */

/* The output of a vendor's tool, recognised and read. */
#include "topologies/internal.h"
#include "topologies/readers/machine/machine.h"

#include <stdlib.h>
#include <string.h>

bool ccl_i_topology_is_smi(const char *text, size_t len) {
    /* Cheap before the text is split: the word that each of them has. */
    static const char *const marks[] = {"GPU0", "Link Type between two GPUs", "LINK TYPE TABLE"};
    ccl_i_smi_t smi;
    bool any = false;
    for (size_t i = 0; i < CCL_ARRAY_LEN(marks) && !any; i++)
        any = memmem(text, len, marks[i], strlen(marks[i])) != NULL;
    if (!any || ccl_i_smi_init(&smi, "", text, len, NULL) != CCL_OK)
        return false;
    any = ccl_i_rocm_head(&smi) != CCL_NONE || ccl_i_nvidia_head(&smi) != CCL_NONE;
    ccl_i_smi_fini(&smi);
    return any;
}

static ccl_status_t read(const ccl_ctx_t *ctx, const ccl_i_smi_t *smi,
                         const ccl_i_machine_hints_t *hints, ccl_topology_t **out,
                         ccl_error_t *err) {
    ccl_i_machine_t m = {0};
    uint32_t head = ccl_i_rocm_head(smi);
    bool amd = head != CCL_NONE;
    if (!amd)
        head = ccl_i_nvidia_head(smi);
    if (head == CCL_NONE)
        return ccl_error_set(err, CCL_ERR_INPUT, smi->file, 0, 0,
                             "neither the matrix of nvidia-smi topo -m (a head GPU0 GPU1 ..., then "
                             "rows) nor the tables "
                             "of rocm-smi --showtopo");
    CCL_TRY(amd ? ccl_i_rocm_read(smi, head, &m, err) : ccl_i_nvidia_read(smi, head, &m, err));
    ccl_i_smi_names(smi, &m);
    ccl_status_t status = ccl_i_machine_topology(
        ctx, smi->file, amd ? "rocm-smi --showtopo" : "nvidia-smi topo -m", &m, hints, out, err);
    ccl_i_machine_fini(&m);
    return status;
}

ccl_status_t ccl_i_topology_read_smi(const ccl_ctx_t *ctx, const char *name, const char *text,
                                     size_t len, const ccl_i_machine_hints_t *hints,
                                     ccl_topology_t **out, ccl_error_t *err) {
    ccl_i_smi_t smi;
    CCL_TRY(ccl_i_smi_init(&smi, name, text, len, err));
    ccl_status_t status = read(ctx, &smi, hints, out, err);
    ccl_i_smi_fini(&smi);
    return status;
}

ccl_status_t ccl_topology_read_smi(const ccl_ctx_t *ctx, const char *name, const char *text,
                                   size_t len, ccl_topology_t **out, ccl_error_t *err) {
    return ccl_i_topology_read_smi(ctx, name, text, len, NULL, out, err);
}

/* ---------------------------------------------------------------- "FILE,gpu=H100,nic=400Gbit/s" */

static const char *first_hint(const char *spec) {
    const char *gpu = strstr(spec, ",gpu="), *nic = strstr(spec, ",nic=");
    return !gpu ? nic : !nic || gpu < nic ? gpu : nic;
}

bool ccl_i_topology_has_hints(const char *spec) {
    const char *hint = first_hint(spec);
    return hint && hint != spec;
}

static ccl_status_t parse_hints(const char *text, char *gpu, size_t size,
                                ccl_i_machine_hints_t *out, ccl_error_t *err) {
    while (*text == ',') {
        size_t len = strcspn(++text, ",");
        bool is_gpu = strncmp(text, "gpu=", 4) == 0;
        char value[64];
        if ((!is_gpu && strncmp(text, "nic=", 4) != 0) || len < 5 || len - 4 >= sizeof value)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "\"%.60s\" behind a file: gpu=NAME and nic=RATE can stand there, such "
                            "as topo.txt,gpu=H100,"
                            "nic=400Gbit/s",
                            text);
        snprintf(value, sizeof value, "%.*s", (int)(len - 4), text + 4);
        if (is_gpu) {
            snprintf(gpu, size, "%s", value);
            out->gpu = gpu;
        } else {
            CCL_TRY(ccl_parse_rate_Bps(value, &out->nic_Bps, err));
        }
        text += len;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_topology_read_hinted(const ccl_ctx_t *ctx, const char *spec,
                                        ccl_topology_t **out, ccl_error_t *err) {
    const char *hint = first_hint(spec);
    char path[4096], gpu[64], *text = NULL;
    size_t len = 0, n = (size_t)(hint - spec);
    ccl_i_machine_hints_t hints = {0};
    if (n >= sizeof path)
        return ccl_fail(err, CCL_ERR_INPUT, "a path of more than %zu bytes", sizeof path);
    memcpy(path, spec, n);
    path[n] = '\0';
    if (ccl_topology_library_find(path) || strcmp(path, "here") == 0)
        return ccl_fail(
            err, CCL_ERR_INPUT,
            "gpu=NAME and nic=RATE go behind a file of nvidia-smi topo -m or rocm-smi --showtopo; "
            "\"%s\" has its own",
            path);
    CCL_TRY(parse_hints(hint, gpu, sizeof gpu, &hints, err));
    CCL_TRY(ccl_file_read(path, CCL_I_MAX_FILE_BYTES, &text, &len, err));
    ccl_status_t status = ccl_i_topology_read_smi(ctx, strcmp(path, "-") == 0 ? "<stdin>" : path,
                                                  text, len, &hints, out, err);
    free(text);
    return status;
}
