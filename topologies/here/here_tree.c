/* The PCI tree of this machine by hwloc (libhwloc, Inria): which devices share switches, hosts and
 * NUMA nodes. */
#include "topologies/here/here.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

struct ccl_i_here_tree {
    hwloc_topology_t topology;
};

bool ccl_i_here_tree_built(void) {
    return true;
}

ccl_i_here_tree_t *ccl_i_here_tree_create(void) {
    ccl_i_here_tree_t *tree = calloc(1, sizeof *tree);
    if (!tree || hwloc_topology_init(&tree->topology) != 0) {
        free(tree);
        return NULL;
    }
    if (hwloc_topology_set_io_types_filter(tree->topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_load(tree->topology) != 0 ||
        hwloc_get_nbobjs_by_type(tree->topology, HWLOC_OBJ_PCI_DEVICE) <= 0) {
        ccl_i_here_tree_destroy(tree);
        return NULL;
    }
    return tree;
}

void ccl_i_here_tree_destroy(ccl_i_here_tree_t *tree) {
    if (tree)
        hwloc_topology_destroy(tree->topology);
    free(tree);
}

static uint64_t bus_of(hwloc_obj_t pci) {
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
    return CCL_I_HERE_BUS(attr->domain, attr->bus, attr->dev, attr->func);
}

static hwloc_obj_t pci_at(ccl_i_here_tree_t *tree, uint64_t bus) {
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(tree->topology, o)) != NULL;)
        if (bus_of(o) == bus)
            return o;
    return NULL;
}

static bool is_gpu(hwloc_obj_t pci) {
    unsigned kind = pci->attr->pcidev.class_id >> 8, vendor = pci->attr->pcidev.vendor_id;
    return (kind == 0x03 || kind == 0x12) && (vendor == 0x10de || vendor == 0x1002);
}

ccl_status_t ccl_i_here_tree_gpus(ccl_i_here_tree_t *tree, ccl_i_here_t *here, ccl_error_t *err) {
    uint32_t n = 0, g = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(tree->topology, o)) != NULL;)
        n += is_gpu(o);
    if (n == 0)
        return CCL_OK;
    CCL_TRY(ccl_i_here_gpus(here, n, err));
    for (hwloc_obj_t o = NULL;
         (o = hwloc_get_next_pcidev(tree->topology, o)) != NULL && g < here->ngpus;) {
        if (!is_gpu(o))
            continue;
        const struct hwloc_pcidev_attr_s *attr = &o->attr->pcidev;
        const ccl_i_gpu_preset_t *preset =
            attr->vendor_id == 0x10de ? ccl_i_gpu_preset_by_device(attr->device_id) : NULL;
        const char *name = hwloc_obj_get_info_by_name(o, "PCIDevice");
        snprintf(here->gpus[g].name, sizeof here->gpus[g].name, "%s",
                 preset ? preset->name
                 : name ? name
                        : "");
        here->gpus[g].bus = bus_of(o);
        here->amd = attr->vendor_id == 0x1002;
        g++;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_here_tree_nics(ccl_i_here_tree_t *tree, ccl_i_here_t *here, ccl_error_t *err) {
    size_t cap = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(tree->topology, o)) != NULL;) {
        if (o->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS || !o->parent ||
            o->parent->type != HWLOC_OBJ_PCI_DEVICE)
            continue;
        if (!ccl_grow(&here->nics, &cap, (size_t)here->nnics + 1, sizeof *here->nics))
            return ccl_fail_nomem(err);
        ccl_i_here_nic_t *nic = &here->nics[here->nnics++];
        nic->bus = bus_of(o->parent);
        snprintf(nic->name, sizeof nic->name, "%s", o->name ? o->name : "nic");
    }
    return CCL_OK;
}

/* Bridges between a device and what is above it. */
static uint32_t bridges_below(hwloc_obj_t device, hwloc_obj_t above) {
    uint32_t n = 0;
    for (hwloc_obj_t o = device->parent; o && o != above; o = o->parent)
        n += o->type == HWLOC_OBJ_BRIDGE;
    return n;
}

ccl_i_near_t ccl_i_here_tree_near(ccl_i_here_tree_t *tree, uint64_t a, uint64_t b) {
    hwloc_obj_t x = pci_at(tree, a), y = pci_at(tree, b);
    if (!x || !y)
        return CCL_I_NEAR_UNKNOWN;
    if (x == y)
        return CCL_I_NEAR_PIX;
    hwloc_obj_t common = hwloc_get_common_ancestor_obj(tree->topology, x, y);
    if (common->type == HWLOC_OBJ_PCI_DEVICE)
        return CCL_I_NEAR_PIX;
    if (common->type == HWLOC_OBJ_BRIDGE) {
        if (common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
            return CCL_I_NEAR_HOST;
        /* A switch is the bridge up from it and one down to each device. */
        return bridges_below(x, common) <= 1 && bridges_below(y, common) <= 1 ? CCL_I_NEAR_PIX
                                                                              : CCL_I_NEAR_PXB;
    }
    hwloc_obj_t p = hwloc_get_non_io_ancestor_obj(tree->topology, x),
                q = hwloc_get_non_io_ancestor_obj(tree->topology, y);
    return hwloc_bitmap_isequal(p->nodeset, q->nodeset) ? CCL_I_NEAR_HOST : CCL_I_NEAR_SYS;
}

int ccl_i_here_tree_numa(ccl_i_here_tree_t *tree, uint64_t bus) {
    hwloc_obj_t pci = pci_at(tree, bus);
    hwloc_obj_t above = pci ? hwloc_get_non_io_ancestor_obj(tree->topology, pci) : NULL;
    return above && hwloc_bitmap_weight(above->nodeset) == 1 ? hwloc_bitmap_first(above->nodeset)
                                                             : -1;
}
