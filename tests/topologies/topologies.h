/* Clusters for tests: by name, one-liner or text, or built from a few GPUs and links. All assert
 * that it works. */
#ifndef CCL_TESTS_TOPOLOGIES_H
#define CCL_TESTS_TOPOLOGIES_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/base/main.h"
#include "topologies/topologies.h"

/* A call that must succeed; in it `e` is a ccl_error_t *. */
#define MUST(expr_)                                                                                \
    do {                                                                                           \
        ccl_error_t err_ = CCL_ERROR_INIT;                                                         \
        ccl_error_t *e = &err_;                                                                    \
        ccl_status_t status_ = (expr_);                                                            \
        (void)e;                                                                                   \
        ck_assert_msg(status_ == CCL_OK, "%s: %s", #expr_, err_.text);                             \
    } while (0)

/* A library entry, a one-liner or a file. */
static inline ccl_topology_t *topology(const char *spec) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_read(NULL, spec, &topo, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s:%d:%d: %s", spec, err.where, err.line, err.column,
                  err.text);
    return topo;
}

/* Takes the names of servers away. The result is to be freed before the topology is destroyed. */
static inline ccl_device_t *forget_servers(ccl_topology_t *topo) {
    ccl_device_t *nameless = malloc(topo->ndevices * sizeof *nameless);
    ck_assert_ptr_nonnull(nameless);
    memcpy(nameless, topo->devices, topo->ndevices * sizeof *nameless);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        nameless[d].server = CCL_NONE;
    topo->devices = nameless;
    topo->nservers = 0;
    return nameless;
}

/* With a profile's constants; NULL: those of its GPUs' own profile in the library. */
static inline ccl_topology_t *with_profile(const char *spec, const char *name) {
    ccl_topology_t *plain = topology(spec), *topo = NULL;
    ccl_profile_t *profile = NULL;
    MUST(name ? ccl_profile_read(name, &profile, e) : ccl_profile_for(plain, &profile, e));
    MUST(ccl_profile_apply(NULL, profile, plain, &topo, e));
    ccl_profile_destroy(profile);
    ccl_topology_destroy(plain);
    return topo;
}

/* A description in any format but NCCL's. */
static inline ccl_topology_t *topology_of(const char *text) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_read_text(NULL, "test", text, strlen(text), &topo, &err);
    ck_assert_msg(status == CCL_OK, "%s:%d:%d: %s\n%s", err.where, err.line, err.column, err.text,
                  text);
    return topo;
}

static inline ccl_topology_t *edited(const ccl_topology_t *topo, const char *edit) {
    ccl_topology_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_edit(topo, edit, &out, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", edit, err.text);
    return out;
}

static inline uint32_t device_of(const ccl_topology_t *topo, const char *id) {
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (strcmp(topo->devices[d].id, id) == 0)
            return d;
    return CCL_NONE;
}

/* ---------------------------------------------------------------- by hand */

static inline uint32_t add_device(ccl_topology_builder_t *b, const char *id, ccl_device_kind_t kind,
                                  const char *server, uint32_t rank) {
    uint32_t index = CCL_NONE;
    MUST(ccl_topology_builder_device(b, id, kind, server, rank, NULL, &index, e));
    return index;
}

static inline void add_duplex(ccl_topology_builder_t *b, uint32_t from, uint32_t to,
                              const char *kind, double GBps, double latency_us) {
    MUST(ccl_topology_builder_duplex(b, from, to, kind, GBps * 1e9, latency_us * 1e-6, 1, 0, e));
}

/* The GPUs gpu0, gpu1 ... of ranks 0, 1 ..., which are the first devices; links are to be added. */
static inline ccl_topology_builder_t *with_gpus(const char *name, uint32_t n) {
    ccl_topology_builder_t *b = ccl_topology_builder_create(name);
    ck_assert_ptr_nonnull(b);
    for (uint32_t r = 0; r < n; r++) {
        char id[16];
        snprintf(id, sizeof id, "gpu%u", r);
        add_device(b, id, CCL_DEVICE_GPU, NULL, r);
    }
    return b;
}

static inline ccl_topology_t *finish(ccl_topology_builder_t *b) {
    ccl_topology_t *topo = NULL;
    MUST(ccl_topology_builder_finish(b, &topo, e));
    ccl_topology_builder_destroy(b);
    return topo;
}

#endif
