/* The lines of a cluster: one for each pair of linked devices, past what stands between, with their
 * bandwidths, and where a run is shown the busiest in front. */
#include "draw/topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_drawn_edge_t edge_t;
typedef ccl_i_drawn_cluster_t drawing_t;

static int by_ends(const void *x, const void *y) {
    const edge_t *a = x;
    const edge_t *b = y;

    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    return a->kind < b->kind ? -1 : a->kind > b->kind;
}

/** The device drawn in place of a device. */
static uint32_t stand_in(const ccl_i_draw_layout_t *l, uint32_t d) {
    const ccl_i_box_t *box = l->box_of[d] == CCL_NONE ? NULL : &l->boxes[l->box_of[d]];

    return box ? l->stands[l->devices[l->boxes[box->like].first + l->at[d]]] : d;
}

static edge_t *edge_find(const drawing_t *g, uint32_t a, uint32_t b, uint32_t kind) {
    edge_t key = {.a = a < b ? a : b, .b = a < b ? b : a, .kind = kind};

    return bsearch(&key, g->edges, g->nedges, sizeof(key), by_ends);
}

/** Links between drawn devices, joined by pair; then what the others say about utilisation. */
ccl_status_t ccl_i_edges_make(drawing_t *g, ccl_error_t *err) {
    const ccl_topology_t *topo = g->topo;
    uint32_t n = 0;

    g->edges = ccl_arena_alloc(&g->l.arena, topo->nlinks + (size_t)1, sizeof(*g->edges));
    if (!g->edges)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < topo->nlinks; i++) {
        const ccl_link_t *link = &topo->links[i];
        bool there = link->from < link->to;

        if (!g->l.places[link->from].drawn || !g->l.places[link->to].drawn)
            continue;
        g->edges[n++] = (edge_t){.a = there ? link->from : link->to,
                                 .b = there ? link->to : link->from,
                                 .kind = link->kind,
                                 .there_Bps = there ? link->bandwidth_Bps : 0,
                                 .back_Bps = there ? 0 : link->bandwidth_Bps,
                                 .nlinks = 1};
    }
    qsort(g->edges, n, sizeof(*g->edges), by_ends);
    for (uint32_t i = 0; i < n; i++) {
        edge_t *last = g->nedges ? &g->edges[g->nedges - 1] : NULL;

        if (last && by_ends(last, &g->edges[i]) == 0) {
            last->there_Bps += g->edges[i].there_Bps;
            last->back_Bps += g->edges[i].back_Bps;
            last->nlinks++;
        } else {
            g->edges[g->nedges++] = g->edges[i];
        }
    }
    for (uint32_t i = 0; i < g->nedges; i++)
        g->most_Bps = fmax(g->most_Bps, fmax(g->edges[i].there_Bps, g->edges[i].back_Bps));
    for (uint32_t i = 0; g->options->links && i < topo->nlinks; i++) {
        const ccl_link_t *link = &topo->links[i];
        edge_t *edge =
            edge_find(g, stand_in(&g->l, link->from), stand_in(&g->l, link->to), link->kind);

        if (edge)
            edge->share = fmax(edge->share, g->options->links[i].utilization);
        g->busiest = fmax(g->busiest, g->options->links[i].utilization);
    }
    g->heat_top = 1;
    while (g->busiest > 0 && g->heat_top > 1e-6 && g->busiest < 0.5 * g->heat_top)
        g->heat_top = ccl_i_round_step(1.02 * g->busiest, 1);
    g->heat_top = fmin(g->heat_top, 1);
    return CCL_OK;
}

/* ---------------------------------------------------------------- how a line looks */

uint32_t ccl_i_edge_heat(const drawing_t *g, double share) {
    /* ColorBrewer's YlOrRd behind a grey for what idles: the busiest stands out. */
    static const uint32_t points[] = {0xc4c4c4, 0xfed976, 0xfd8d3c, 0xe31a1c, 0x800026};
    double at = fmax(0, fmin(share / g->heat_top, 1)) * 4;
    uint32_t i = at >= 4 ? 3 : (uint32_t)at, colour = 0;

    for (int shift = 16; shift >= 0; shift -= 8) {
        double from = points[i] >> shift & 255, to = points[i + 1] >> shift & 255;

        colour |= (uint32_t)lround(from + (at - i) * (to - from)) << shift;
    }
    return colour;
}

ccl_i_pen_t ccl_i_edge_pen(const drawing_t *g, uint32_t kind, double Bps, double share) {
    double width = g->most_Bps > 0 ? 0.8 + 5 * sqrt(Bps / g->most_Bps) : 1;
    ccl_i_pen_t pen = ccl_i_stroke(ccl_i_colour(kind), width);

    if (g->options->links) {
        pen.stroke = ccl_i_edge_heat(g, share);
        pen.width = share > 0.25 * g->heat_top ? fmax(width, 2.5) : width;
    }
    return pen;
}

/* ---------------------------------------------------------------- the way of a line */

enum { MOST_CORNERS = 32, MOST_TURNS = 3 };

/** Corners of a line. */
typedef struct way {
    double at[MOST_CORNERS][2];
    uint32_t n;
} way_t;

static void corner(way_t *way, double x, double y) {
    if (way->n < MOST_CORNERS) {
        way->at[way->n][0] = x;
        way->at[way->n++][1] = y;
    }
}

/** Where a line meets a device: as near to `x` as its box allows. */
static double meet(const ccl_i_layout_place_t *place, double x) {
    double most = fmax(place->w / 2 - 5, 0);

    return fmax(place->x - most, fmin(place->x + most, x));
}

/** A curve that is `depth` lower in its middle. */
static void arc(way_t *way, double x0, double y0, double x1, double y1, double depth) {
    for (int i = 0; i <= 16; i++) {
        double t = i / 16.0;

        corner(way, x0 + (x1 - x0) * t, y0 + (y1 - y0) * t + 4 * depth * t * (1 - t));
    }
}

static bool inside(const ccl_i_layout_place_t *place, double x, double y, double room) {
    return fabs(x - place->x) < place->w / 2 + room && fabs(y - place->y) < place->h / 2 + room;
}

/** The first device that a straight line would pass behind; CCL_NONE: none. */
static uint32_t blocker(const drawing_t *g, const edge_t *e, const double from[2],
                        const double to[2]) {
    double low_y = fmin(from[1], to[1]), high_y = fmax(from[1], to[1]);

    for (int i = 1; i < 32; i++) {
        double x = from[0] + (to[0] - from[0]) * i / 32, y = from[1] + (to[1] - from[1]) * i / 32;

        for (uint32_t d = 0; d < g->topo->ndevices; d++) {
            const ccl_i_layout_place_t *at = &g->l.places[d];

            if (at->drawn && d != e->a && d != e->b && at->y > low_y - at->h &&
                at->y < high_y + at->h && inside(at, x, y, 1.5))
                return d;
        }
    }
    return CCL_NONE;
}

static bool is_free(const drawing_t *g, double x, double y) {
    for (uint32_t d = 0; d < g->topo->ndevices; d++)
        if (g->l.places[d].drawn && inside(&g->l.places[d], x, y, 3))
            return false;
    return true;
}

/** A straight line, or past what stands in its way on the nearer side. */
static void straight(const drawing_t *g, const edge_t *e, const double from[2], const double to[2],
                     int turns, way_t *way) {
    uint32_t d = turns > 0 ? blocker(g, e, from, to) : CCL_NONE;
    const ccl_i_layout_place_t *at = d == CCL_NONE ? NULL : &g->l.places[d];
    double share, x, past[2];

    if (!at || fabs(to[1] - from[1]) < 1) {
        corner(way, to[0], to[1]);
        return;
    }
    share = (at->y - from[1]) / (to[1] - from[1]);
    x = from[0] + (to[0] - from[0]) * fmax(0, fmin(share, 1));
    past[0] = at->x + (x >= at->x ? 1 : -1) * (at->w / 2 + 5);
    past[1] = at->y;
    for (int i = 0; i < 40 && !is_free(g, past[0], past[1]); i++)
        past[0] += x >= at->x ? 4 : -4;
    straight(g, e, from, past, turns - 1, way);
    straight(g, e, past, to, turns - 1, way);
}

/** From GPU to GPU of one box past those between: a light bow. */
static void bow(way_t *way, const ccl_i_layout_place_t *a, const ccl_i_layout_place_t *b) {
    double dx = b->x - a->x;
    double dy = b->y - a->y;
    double bulge = 18 / hypot(dx, dy);

    for (int i = 0; i <= 16; i++) {
        double t = i / 16.0;
        double off = 4 * t * (1 - t) * bulge;

        corner(way, a->x + dx * t - dy * off, a->y + dy * t + dx * off);
    }
}

static void find_way(const drawing_t *g, const edge_t *e, way_t *way) {
    const ccl_i_layout_place_t *a = &g->l.places[e->a];
    const ccl_i_layout_place_t *b = &g->l.places[e->b];
    const ccl_i_box_t *box = g->l.box_of[e->a] == CCL_NONE ? NULL : &g->l.boxes[g->l.box_of[e->a]];
    bool both = g->topo->devices[e->a].kind == CCL_DEVICE_GPU &&
                g->topo->devices[e->b].kind == CCL_DEVICE_GPU;
    bool gpus = both && g->l.box_of[e->a] == g->l.box_of[e->b];

    way->n = 0;
    if (gpus && !box->grid) {
        /* A curve below the row of GPUs, deeper the farther they are apart. */
        double depth = 8 + fabs(b->x - a->x) / 38 * 6;

        arc(way, a->x, a->y + a->h / 2, b->x, b->y + b->h / 2, depth);
    } else if (both && !gpus) {
        /* From one server to another without a fabric: above what stands between. */
        arc(way, a->x, a->y - a->h / 2, b->x, b->y - b->h / 2, -14);
    } else if (gpus && !g->l.springs && hypot(b->x - a->x, b->y - a->y) > 80) {
        bow(way, a, b);
    } else {
        /* Straight from the narrower one, as far as the wider one reaches. */
        const ccl_i_layout_place_t *narrow = a->w <= b->w ? a : b;
        const ccl_i_layout_place_t *wide = a->w <= b->w ? b : a;
        double to[2] = {meet(wide, narrow->x), wide->y};
        double from[2] = {meet(narrow, to[0]), narrow->y};

        if (fabs(to[1] - from[1]) < 6 && blocker(g, e, from, to) != CCL_NONE) {
            arc(way, from[0], from[1] - narrow->h / 2, to[0], to[1] - wide->h / 2, -12);
            return;
        }
        corner(way, from[0], from[1]);
        straight(g, e, from, to, MOST_TURNS, way);
    }
}

/* ---------------------------------------------------------------- labels */

typedef struct labels {
    double (*at)[4]; /* left, top, right, bottom */
    uint32_t n;
} labels_t;

static bool label_fits(const drawing_t *g, const labels_t *labels, const double box[4]) {
    for (uint32_t i = 0; i < labels->n; i++)
        if (box[0] < labels->at[i][2] && labels->at[i][0] < box[2] && box[1] < labels->at[i][3] &&
            labels->at[i][1] < box[3])
            return false;
    for (uint32_t d = 0; d < g->topo->ndevices; d++) {
        const ccl_i_layout_place_t *p = &g->l.places[d];

        if (p->drawn && box[0] < p->x + p->w / 2 && p->x - p->w / 2 < box[2] &&
            box[1] < p->y + p->h / 2 && p->y - p->h / 2 < box[3])
            return false;
    }
    return true;
}

/** On the middle of the longest straight part, else of the whole. */
static void label_place(const way_t *way, double at[2]) {
    double longest = -1;
    uint32_t best = 0;

    if (way->n > 12) { /* a curve */
        at[0] = way->at[way->n / 2][0];
        at[1] = way->at[way->n / 2][1];
        return;
    }
    for (uint32_t i = 0; i + 1 < way->n; i++) {
        double length = hypot(way->at[i + 1][0] - way->at[i][0], way->at[i + 1][1] - way->at[i][1]);

        if (length > longest) {
            longest = length;
            best = i;
        }
    }
    at[0] = (way->at[best][0] + way->at[best + 1][0]) / 2;
    at[1] = (way->at[best][1] + way->at[best + 1][1]) / 2;
}

static void label(drawing_t *g, labels_t *labels, const way_t *way, const char *text,
                  bool busiest) {
    double size = busiest ? 10 : 8.5, w = ccl_i_text_width(text, size, busiest) + 3;
    double at[2], box[4];

    label_place(way, at);
    box[0] = at[0] - w / 2;
    box[1] = at[1] - size / 2 - 1.5;
    box[2] = at[0] + w / 2;
    box[3] = at[1] + size / 2 + 1.5;
    if (!label_fits(g, labels, box))
        return;
    memcpy(labels->at[labels->n++], box, sizeof(box));
    ccl_i_open(g->p, busiest ? "label busiest" : "label", NULL);
    ccl_i_rect(g->p, box[0], box[1], w, size + 3, 2, ccl_i_fill(0xfafafa));
    if (busiest)
        ccl_i_text_bold(g->p, at[0], at[1] + 0.36 * size, size, ANCHOR_MIDDLE, CCL_I_INK, "%s",
                        text);
    else
        ccl_i_text(g->p, at[0], at[1] + 0.36 * size, size, ANCHOR_MIDDLE, CCL_I_INK, "%s", text);
    ccl_i_close(g->p);
}

static void rate_label(const edge_t *e, char *out, size_t out_len) {
    if (e->there_Bps == e->back_Bps || e->back_Bps == 0 || e->there_Bps == 0)
        snprintf(out, out_len, "%.4g", fmax(e->there_Bps, e->back_Bps) / 1e9);
    else
        snprintf(out, out_len, "%.4g/%.4g", e->there_Bps / 1e9, e->back_Bps / 1e9);
}

/* ---------------------------------------------------------------- all lines */

static void draw_edge(drawing_t *g, const edge_t *e, const way_t *way) {
    ccl_i_pen_t pen = ccl_i_edge_pen(g, e->kind, fmax(e->there_Bps, e->back_Bps), e->share);
    char title[600];
    size_t n;

    n = (size_t)snprintf(title, sizeof(title),
                         "%.180s - %.180s: %.60s, %.4g GB/s there, %.4g GB/s back",
                         g->topo->devices[e->a].id, g->topo->devices[e->b].id,
                         g->topo->kinds[e->kind], e->there_Bps / 1e9, e->back_Bps / 1e9);
    if (g->options->links && n < sizeof(title))
        snprintf(title + n, sizeof(title) - n, ", busy %.3g %%", 100 * e->share);
    ccl_i_open(g->p, "link", title);
    ccl_i_path(g->p, false, pen);
    for (uint32_t i = 0; i < way->n; i++)
        ccl_i_to(g->p, way->at[i][0], way->at[i][1]);
    ccl_i_close(g->p);
}

static int by_share(const void *x, const void *y) {
    const edge_t *a = *(const edge_t *const *)x, *b = *(const edge_t *const *)y;

    if (a->share != b->share)
        return a->share < b->share ? -1 : 1;
    return a < b ? -1 : a > b;
}

ccl_status_t ccl_i_edges_draw(drawing_t *g, ccl_error_t *err) {
    size_t n = g->nedges + (size_t)1;
    const edge_t **order = ccl_arena_alloc(&g->l.arena, n, sizeof(*order));
    way_t *ways = ccl_arena_alloc(&g->l.arena, n, sizeof(*ways));
    labels_t labels = {ccl_arena_alloc(&g->l.arena, n, sizeof(*labels.at)), 0};
    uint32_t curves[64] = {0};
    char text[60];

    if (!order || !ways || !labels.at)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < g->nedges; i++) {
        order[i] = &g->edges[i];
        find_way(g, &g->edges[i], &ways[i]);
    }
    qsort(order, g->nedges, sizeof(*order), by_share);
    for (uint32_t i = 0; i < g->nedges; i++)
        draw_edge(g, order[i], &ways[order[i] - g->edges]);
    /* The busiest comes first, so that it finds room. */
    if (g->options->links && g->nedges > 0 && order[g->nedges - 1]->share > 0) {
        snprintf(text, sizeof(text), "%.3g %%", 100 * order[g->nedges - 1]->share);
        label(g, &labels, &ways[order[g->nedges - 1] - g->edges], text, true);
    }
    for (uint32_t i = 0; i < g->nedges; i++) {
        /* Of curves, which lie close, the first few of a kind say it for the others. */
        if (ways[i].n > 12 && ++curves[g->edges[i].kind % CCL_ARRAY_LEN(curves)] > 4)
            continue;
        rate_label(&g->edges[i], text, sizeof(text));
        label(g, &labels, &ways[i], text, false);
    }
    return CCL_OK;
}
