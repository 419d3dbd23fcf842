/*
 * What a builder has collected so far; private to builder*.c.
 */
#ifndef CCL_TOPOLOGIES_BUILDER_H
#define CCL_TOPOLOGIES_BUILDER_H

#include "topologies/topologies.h"

struct ccl_topology_builder {
    ccl_arena_t arena; /* every name */
    const char *name, *source, *note, *profile, *profile_about, *own_profile;
    ccl_strmap_t *device_ids, *server_ids, *kind_ids, *model_ids, *group_names;
    ccl_device_t *devices;
    ccl_link_t *links;
    ccl_group_t *groups;
    const char **servers, **kinds;
    ccl_transport_spec_t *transports;
    ccl_gpu_model_t *models;
    bool *model_defined;  /* false: only named by a device so far */
    uint32_t *link_stamp; /* last group that took a link, plus one */
    size_t ndevices, nlinks, ngroups, nservers, nkinds, ntransports, nmodels;
    size_t cdevices, clinks, cgroups, cservers, ckinds, ctransports, cmodels, cdefined, cstamp;
    size_t group_links; /* over all groups */
    uint32_t ngpus;
    bool nomem;
};

#endif
