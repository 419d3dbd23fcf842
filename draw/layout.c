/*
 * Where the devices of a cluster stand. In a server, from top to bottom: what leads outside (NICs),
 * what is attached to it (PCIe switches, hosts), GPUs in rank order, what only joins GPUs
 * (NVSwitch). The fabric stands above the servers, its switches by their distance from them.
 */
#include "draw/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 1480.0
#define GAP 10.0
#define LEVEL 54.0
enum { ROW_GPUS = 16, MOST_FABRIC = 14, MOST_LEVELS = 8 };

const char *ccl_i_short_id(const ccl_topology_t *topo, uint32_t device) {
    const char *id = topo->devices[device].id;
    uint32_t server = topo->devices[device].server;
    size_t len = server == CCL_NONE ? 0 : strlen(topo->servers[server]);

    if (len && strncmp(id, topo->servers[server], len) == 0 && id[len] == '/' && id[len + 1])
        return id + len + 1;
    return id;
}

typedef ccl_i_neighbours_t neighbours_t;

static ccl_status_t neighbours_of(const ccl_topology_t *topo, ccl_arena_t *arena, neighbours_t *out,
                                  ccl_error_t *err) {
    uint32_t *first = ccl_arena_alloc(arena, topo->ndevices + (size_t)2, sizeof(*first));
    uint32_t *list = ccl_arena_alloc(arena, 2 * (size_t)topo->nlinks + 1, sizeof(*list));

    if (!first || !list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        first[topo->links[i].from + 2]++;
        first[topo->links[i].to + 2]++;
    }
    for (uint32_t d = 2; d < topo->ndevices + 2; d++)
        first[d] += first[d - 1];
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        list[first[topo->links[i].from + 1]++] = topo->links[i].to;
        list[first[topo->links[i].to + 1]++] = topo->links[i].from;
    }
    *out = (neighbours_t){first, list};
    return CCL_OK;
}

/* ---------------------------------------------------------------- boxes */

static ccl_status_t make_boxes(ccl_i_draw_layout_t *l, ccl_error_t *err) {
    const ccl_topology_t *topo = l->topo;
    size_t n = topo->ndevices + (size_t)1;
    uint32_t at = 0;

    l->places = ccl_arena_alloc(&l->arena, n, sizeof(*l->places));
    l->box_of = ccl_arena_alloc(&l->arena, n, sizeof(*l->box_of));
    l->at = ccl_arena_alloc(&l->arena, n, sizeof(*l->at));
    l->devices = ccl_arena_alloc(&l->arena, n, sizeof(*l->devices));
    l->level = ccl_arena_alloc(&l->arena, n, sizeof(*l->level));
    l->stands = ccl_arena_alloc(&l->arena, n, sizeof(*l->stands));
    l->boxes = ccl_arena_alloc(&l->arena, topo->nservers + (size_t)1, sizeof(*l->boxes));
    if (!l->stands || !l->places || !l->box_of || !l->at || !l->devices || !l->level || !l->boxes)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        const ccl_device_t *device = &topo->devices[d];

        l->stands[d] = d;
        l->box_of[d] = device->server;
        if (device->server == CCL_NONE && device->kind != CCL_DEVICE_SWITCH)
            l->box_of[d] = topo->nservers;
        if (l->box_of[d] != CCL_NONE)
            l->boxes[l->box_of[d]].n++;
    }
    l->boxes[topo->nservers].flat = true;
    l->nboxes = topo->nservers + (l->boxes[topo->nservers].n > 0);
    for (uint32_t b = 0; b < l->nboxes; b++) {
        l->boxes[b].first = at;
        at += l->boxes[b].n;
        l->boxes[b].n = 0;
    }
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        ccl_i_box_t *box = l->box_of[d] == CCL_NONE ? NULL : &l->boxes[l->box_of[d]];

        if (!box)
            continue;
        l->at[d] = box->n;
        l->devices[box->first + box->n++] = d;
    }
    return CCL_OK;
}

/** What makes servers alike: devices, models, links by the places of their ends. */
static uint64_t signature(const ccl_i_draw_layout_t *l, const ccl_i_box_t *box) {
    const ccl_topology_t *topo = l->topo;
    uint64_t hash = box->n;

    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t d = l->devices[box->first + i];
        const ccl_device_t *device = &topo->devices[d];
        uint64_t outside = 0;

        uint64_t able = (device->multicast ? 256u : 0u) | (device->reduce ? 512u : 0u);

        hash = ccl_hash64(&(uint64_t[2]){device->kind | able, device->model}, 16, hash);
        for (uint32_t k = topo->out_first[d]; k < topo->out_first[d + 1]; k++) {
            const ccl_link_t *link = &topo->links[topo->out_links[k]];
            bool inside = l->box_of[link->to] == l->box_of[d];
            uint64_t what[3] = {inside ? l->at[link->to] : CCL_NONE, link->kind, 0};

            memcpy(&what[2], &link->bandwidth_Bps, sizeof(what[2]));
            /* Links to the fabric come in any order. */
            if (inside)
                hash = ccl_hash64(what, sizeof(what), hash);
            else
                outside += ccl_hash64(what, sizeof(what), 1);
        }
        hash = ccl_hash64(&outside, sizeof(outside), hash);
    }
    return hash;
}

static ccl_status_t find_alike(ccl_i_draw_layout_t *l, ccl_error_t *err) {
    ccl_strmap_t *seen = ccl_strmap_create();

    for (uint32_t b = 0; seen && b < l->nboxes; b++) {
        char key[32];
        uint32_t first;

        snprintf(key, sizeof(key), "%llx%s", (unsigned long long)signature(l, &l->boxes[b]),
                 l->boxes[b].flat ? " flat" : "");
        first = ccl_strmap_get(seen, key);
        if (first == CCL_NONE && !ccl_strmap_put(seen, key, first = b)) {
            ccl_strmap_destroy(seen);
            return ccl_fail_nomem(err);
        }
        l->boxes[b].like = first;
        l->boxes[first].alike++;
    }
    if (!seen)
        return ccl_fail_nomem(err);
    ccl_strmap_destroy(seen);
    return CCL_OK;
}

/* ---------------------------------------------------------------- one box */

/** Devices of a box by level, top to bottom. */
typedef struct levels {
    uint32_t *devices[2 * MOST_LEVELS + 1], n[2 * MOST_LEVELS + 1];
    uint32_t gpus; /* which level */
    uint32_t nlevels;
} levels_t;

static void device_size(const ccl_topology_t *topo, uint32_t d, ccl_i_layout_place_t *place) {
    const ccl_device_t *device = &topo->devices[d];
    char text[120];

    if (device->kind == CCL_DEVICE_GPU) {
        place->w = topo->nranks > 1000 ? 36 : 30;
        place->h = 22;
        return;
    }
    ccl_i_fit(ccl_i_short_id(topo, d), 9, 110, text, sizeof(text));
    place->w = fmax(26, ccl_i_text_width(text, 9, false) + 8);
    place->h = device->kind == CCL_DEVICE_NIC ? 15 : 18;
}

/** Steps from what leads out of the box over what is no GPU; CCL_NONE: none lead there. */
static void depths(const ccl_i_draw_layout_t *l, const ccl_i_box_t *box, const neighbours_t *near,
                   uint32_t *depth) {
    const ccl_topology_t *topo = l->topo;
    bool more = true;

    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t d = l->devices[box->first + i];
        const ccl_device_t *device = &topo->devices[d];

        depth[d] = device->kind == CCL_DEVICE_NIC ? 0 : CCL_NONE;
        for (uint32_t k = near->first[d]; k < near->first[d + 1]; k++)
            if (device->kind != CCL_DEVICE_GPU && l->box_of[near->list[k]] != l->box_of[d])
                depth[d] = 0;
    }
    for (uint32_t step = 0; more && step + 1 < MOST_LEVELS; step++) {
        more = false;
        for (uint32_t i = 0; i < box->n; i++) {
            uint32_t d = l->devices[box->first + i];

            if (depth[d] != step)
                continue;
            for (uint32_t k = near->first[d]; k < near->first[d + 1]; k++) {
                uint32_t e = near->list[k];

                if (l->box_of[e] == l->box_of[d] && depth[e] == CCL_NONE &&
                    topo->devices[e].kind != CCL_DEVICE_GPU) {
                    depth[e] = step + 1;
                    more = true;
                }
            }
        }
    }
}

/** Put the devices of one level beside each other, near the middle of what they are linked to. */
static void place_row(ccl_i_draw_layout_t *l, const neighbours_t *near, uint32_t *row, uint32_t n,
                      double x, double w, double y) {
    const ccl_topology_t *topo = l->topo;
    double sum = 0;
    double at;

    for (uint32_t i = 0; i < n; i++) {
        ccl_i_layout_place_t *place = &l->places[row[i]];
        double mean = 0;
        uint32_t seen = 0;

        device_size(topo, row[i], place);
        sum += place->w + GAP;
        for (uint32_t k = near->first[row[i]]; k < near->first[row[i] + 1]; k++) {
            if (l->places[near->list[k]].drawn) {
                mean += l->places[near->list[k]].x;
                seen++;
            }
        }
        place->x = seen ? mean / seen : x + w * (i + 0.5) / n;
        place->y = y;
    }
    /* Insertion sort: stable, and rows are short or in order already. */
    for (uint32_t i = 1; i < n; i++) {
        uint32_t d = row[i];
        uint32_t k = i;

        for (; k > 0 && l->places[row[k - 1]].x > l->places[d].x + 1e-6; k--)
            row[k] = row[k - 1];
        row[k] = d;
    }
    /* Left to right without overlap, leaving room for what follows. */
    at = x;
    for (uint32_t i = 0; i < n; i++) {
        ccl_i_layout_place_t *place = &l->places[row[i]];
        double left = fmax(at, fmin(place->x - place->w / 2, x + w - sum + GAP));

        sum -= place->w + GAP;
        place->x = left + place->w / 2;
        at = left + place->w + GAP;
        place->drawn = true;
    }
}

static double row_width(const ccl_i_draw_layout_t *l, const uint32_t *row, uint32_t n) {
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        ccl_i_layout_place_t place;

        device_size(l->topo, row[i], &place);
        sum += place.w + GAP;
    }
    return sum - (n ? GAP : 0);
}

/** GPUs of a flat cluster stand in a square, so that meshes and tori look like themselves. */
static uint32_t gpu_columns(const ccl_i_box_t *box, uint32_t n) {
    if (n <= ROW_GPUS)
        return n;
    return box->flat ? (uint32_t)ceil(sqrt(n)) : ROW_GPUS;
}

static bool links_gpus(const ccl_i_draw_layout_t *l, const ccl_i_box_t *box,
                       const neighbours_t *near) {
    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t d = l->devices[box->first + i];

        if (l->topo->devices[d].kind != CCL_DEVICE_GPU)
            continue;
        for (uint32_t k = near->first[d]; k < near->first[d + 1]; k++)
            if (l->topo->devices[near->list[k]].kind == CCL_DEVICE_GPU &&
                l->box_of[near->list[k]] == l->box_of[d])
                return true;
    }
    return false;
}

/** The devices of a box by level: those of their depth, then GPUs, then what no GPU reaches. */
static ccl_status_t fill_levels(ccl_i_draw_layout_t *l, const ccl_i_box_t *box,
                                const uint32_t *depth, levels_t *v, ccl_error_t *err) {
    uint32_t deepest = 0;

    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t d = l->devices[box->first + i];

        if (depth[d] != CCL_NONE && depth[d] + 1 > deepest)
            deepest = depth[d] + 1;
    }
    v->gpus = deepest;
    v->nlevels = deepest + 2;
    for (uint32_t i = 0; i < v->nlevels; i++) {
        v->devices[i] = ccl_arena_alloc(&l->arena, box->n, sizeof(**v->devices));
        if (!v->devices[i])
            return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < box->n; i++) {
        uint32_t d = l->devices[box->first + i];
        uint32_t level = l->topo->devices[d].kind == CCL_DEVICE_GPU ? deepest
                         : depth[d] == CCL_NONE                     ? deepest + 1
                                                                    : depth[d];

        if (l->stands[d] == d)
            v->devices[level][v->n[level]++] = d;
    }
    return CCL_OK;
}

static void place_gpus(ccl_i_draw_layout_t *l, const ccl_i_box_t *box, const levels_t *v,
                       uint32_t columns, double pitch, double y) {
    for (uint32_t i = 0; i < v->n[v->gpus]; i++) {
        ccl_i_layout_place_t *place = &l->places[v->devices[v->gpus][i]];

        device_size(l->topo, v->devices[v->gpus][i], place);
        place->x = box->x + box->w / 2 + ((i % columns) - (columns - 1) / 2.0) * pitch;
        place->y = y + (i / columns) * 44.0;
        place->drawn = true;
    }
}

/** Those that no GPU reaches, below all. */
static void place_last(ccl_i_draw_layout_t *l, const ccl_i_box_t *box, const neighbours_t *near,
                       const levels_t *v, double y) {
    uint32_t last = v->gpus + 1;

    place_row(l, near, v->devices[last], v->n[last], box->x + 12, box->w - 24, y);
    if (v->n[last] == 1) { /* One switch for all of them is as wide as they are. */
        l->places[v->devices[last][0]].x = box->x + box->w / 2;
        l->places[v->devices[last][0]].w = box->w - 24;
    }
}

/** Fill levels, the box's size, and (`draw`) the places of its devices at the box's corner. */
static ccl_status_t layout_box(ccl_i_draw_layout_t *l, ccl_i_box_t *box, const neighbours_t *near,
                               uint32_t *depth, bool draw, ccl_error_t *err) {
    levels_t v = {0};
    uint32_t columns, rows, ngpus;
    double pitch, y;

    depths(l, box, near, depth);
    CCL_TRY(fill_levels(l, box, depth, &v, err));
    ngpus = v.n[v.gpus];
    columns = gpu_columns(box, ngpus);
    rows = columns ? (ngpus + columns - 1) / columns : 0;
    box->grid = rows > 1;
    pitch = box->grid ? 48 : 38;
    box->w = ngpus ? columns * pitch - 6 : 0;
    for (uint32_t i = 0; i < v.nlevels; i++)
        if (i != v.gpus)
            box->w = fmax(box->w, row_width(l, v.devices[i], v.n[i]));
    box->w = fmax(box->w + 24, 90);
    y = box->y + 18;
    for (uint32_t i = 0; i < v.gpus; i++)
        y += LEVEL;
    if (draw)
        place_gpus(l, box, &v, columns, pitch, y);
    for (uint32_t i = v.gpus; draw && i-- > 0;)
        place_row(l, near, v.devices[i], v.n[i], box->x + 12, box->w - 24, box->y + 18 + i * LEVEL);
    if (rows)
        y += (rows - 1) * 44.0;
    if (links_gpus(l, box, near) && !box->grid)
        y += 12 + 4.5 * ngpus; /* the curves between GPUs */
    if (v.n[v.gpus + 1]) {
        y += ngpus ? LEVEL : 0;
        if (draw)
            place_last(l, box, near, &v, y);
    }
    box->h = y + (box->flat ? 18 : box->folded ? 50 : 36) - box->y;
    return CCL_OK;
}

/* ---------------------------------------------------------------- the whole */

static void fabric_levels(ccl_i_draw_layout_t *l, const neighbours_t *near) {
    const ccl_topology_t *topo = l->topo;
    bool more = true;

    for (uint32_t d = 0; d < topo->ndevices; d++) {
        l->level[d] = CCL_NONE;
        if (l->box_of[d] != CCL_NONE)
            continue;
        for (uint32_t k = near->first[d]; k < near->first[d + 1]; k++)
            if (l->box_of[near->list[k]] != CCL_NONE)
                l->level[d] = 0;
    }
    for (uint32_t step = 0; more && step + 1 < MOST_LEVELS; step++) {
        more = false;
        for (uint32_t d = 0; d < topo->ndevices; d++) {
            if (l->level[d] != step)
                continue;
            for (uint32_t k = near->first[d]; k < near->first[d + 1]; k++) {
                uint32_t e = near->list[k];

                if (l->box_of[e] == CCL_NONE && l->level[e] == CCL_NONE) {
                    l->level[e] = step + 1;
                    more = true;
                }
            }
        }
    }
}

/** Switches of a level that are drawn: all, or where there are many those next to what is drawn. */
static uint32_t fabric_row(ccl_i_draw_layout_t *l, const neighbours_t *near, uint32_t level,
                           uint32_t *row) {
    const ccl_topology_t *topo = l->topo;
    uint32_t n = 0;
    uint32_t kept = 0;

    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (l->box_of[d] == CCL_NONE && l->level[d] == level)
            row[n++] = d;
    if (n <= MOST_FABRIC)
        return n;
    for (uint32_t i = 0; i < n && kept < MOST_FABRIC; i++) {
        bool next = false;

        for (uint32_t k = near->first[row[i]]; k < near->first[row[i] + 1]; k++)
            next |= l->places[near->list[k]].drawn;
        if (next)
            row[kept++] = row[i];
    }
    l->hidden += n - kept;
    return kept;
}

static uint32_t fabric_height(const ccl_i_draw_layout_t *l) {
    uint32_t levels = 0;

    for (uint32_t d = 0; d < l->topo->ndevices; d++)
        if (l->level[d] != CCL_NONE && l->level[d] + 1 > levels)
            levels = l->level[d] + 1;
    return levels;
}

static ccl_status_t place_fabric(ccl_i_draw_layout_t *l, const neighbours_t *near, double top,
                                 uint32_t levels, ccl_error_t *err) {
    uint32_t *row = ccl_arena_alloc(&l->arena, l->topo->ndevices + (size_t)1, sizeof(*row));

    if (!row)
        return ccl_fail_nomem(err);
    for (uint32_t level = 0; level < levels; level++) {
        uint32_t n = fabric_row(l, near, level, row);

        place_row(l, near, row, n, 24, l->width - 48, top + 14 + (levels - 1 - level) * LEVEL);
        if (n == 1)
            l->places[row[0]].w = fmax(l->places[row[0]].w, l->width - 60);
        if (n == 1)
            l->places[row[0]].x = l->width / 2;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_draw_layout(const ccl_topology_t *topo, double top, ccl_i_draw_layout_t *out,
                               ccl_error_t *err) {
    ccl_i_draw_layout_t *l = out;
    neighbours_t near;
    uint32_t *depth;
    uint32_t levels;
    double sum = 0;
    double x = 24;
    double y;
    double row_h = 0;

    *l = (ccl_i_draw_layout_t){.topo = topo};
    CCL_TRY(make_boxes(l, err));
    CCL_TRY(neighbours_of(topo, &l->arena, &near, err));
    CCL_TRY(find_alike(l, err));
    CCL_TRY(ccl_i_layout_fold(l, &near, err));
    depth = ccl_arena_alloc(&l->arena, topo->ndevices + (size_t)1, sizeof(*depth));
    if (!depth)
        return ccl_fail_nomem(err);
    fabric_levels(l, &near);
    levels = fabric_height(l);
    for (uint32_t b = 0; b < l->nboxes; b++) {
        CCL_TRY(layout_box(l, &l->boxes[b], &near, depth, false, err));
        sum += l->boxes[b].w + 20;
    }
    l->folded = sum > PAGE;
    y = top + levels * LEVEL + (levels ? 4 : 0);
    for (uint32_t b = 0; b < l->nboxes; b++) {
        ccl_i_box_t *box = &l->boxes[b];

        if (!l->folded) {
            box->like = b;
            box->alike = 1;
        }
        if (box->like != b)
            continue;
        if (x > 24 && x + box->w > PAGE) {
            x = 24;
            y += row_h + 24;
            row_h = 0;
        }
        box->x = x;
        box->y = y;
        CCL_TRY(layout_box(l, box, &near, depth, true, err));
        if (box->flat)
            CCL_TRY(ccl_i_layout_springs(l, box, &near, err));
        x += box->w + (box->alike > 1 ? 34 : 20);
        row_h = fmax(row_h, box->h);
        l->width = fmax(l->width, x);
        l->ndrawn++;
    }
    l->folded = l->ndrawn < l->nboxes;
    l->width = fmax(l->width + 4, 620);
    l->bottom = y + row_h;
    return place_fabric(l, &near, top, levels, err);
}

void ccl_i_draw_layout_fini(ccl_i_draw_layout_t *layout) {
    ccl_arena_fini(&layout->arena);
}
