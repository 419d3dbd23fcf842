/* A server described in C: four GPUs on one switch, each with its own link. Writes it as JSON. */
#include <topologies/topologies.h>

#include <stdio.h>

static ccl_status_t build(ccl_topology_t **out, ccl_error_t *err) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("four");
    ccl_status_t status = b ? CCL_OK : ccl_fail_nomem(err);
    uint32_t hub = CCL_NONE;
    if (status == CCL_OK)
        status = ccl_topology_builder_device(b, "s0/switch", CCL_DEVICE_SWITCH, "s0", CCL_NONE,
                                             NULL, &hub, err);
    for (uint32_t rank = 0; rank < 4 && status == CCL_OK; rank++) {
        char id[16];
        uint32_t gpu;
        snprintf(id, sizeof id, "s0/gpu%u", rank);
        status = ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, "s0", rank, NULL, &gpu, err);
        if (status == CCL_OK)
            status = ccl_topology_builder_duplex(b, gpu, hub, "nvlink", 450e9, 1e-6, 1, 0, err);
    }
    if (status == CCL_OK)
        status = ccl_topology_builder_finish(b, out, err);
    ccl_topology_builder_destroy(b);
    return status;
}

int main(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_text_t json = {0};
    ccl_status_t status = build(&topo, &err);
    if (status == CCL_OK)
        status = ccl_topology_write_json(topo, &json, &err);
    if (status == CCL_OK)
        fwrite(json.data, 1, json.len, stdout);
    else
        fprintf(stderr, "%s\n", err.text);
    ccl_text_fini(&json);
    ccl_topology_destroy(topo);
    return ccl_status_exit_code(status);
}
