/* A cluster: its layout drawn, with a line per pair of linked devices. */
#include "draw/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** All links between two devices of one kind. */
typedef struct edge {
    uint32_t a, b, kind; /* a < b */
    double there_Bps, back_Bps;
    double share; /* utilisation of the busiest */
    uint32_t nlinks;
} edge_t;

/** Links of a kind and bandwidth, for the legend. */
typedef struct style {
    uint32_t kind;
    double Bps;
    uint32_t n;
} style_t;

typedef struct drawing {
    const ccl_topology_t *topo;
    const ccl_draw_topology_options_t *options;
    ccl_picture_t *p;
    ccl_i_draw_layout_t l;
    edge_t *edges;
    uint32_t nedges;
    double most_Bps, busiest;
} drawing_t;

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

    return box ? l->devices[l->boxes[box->like].first + l->at[d]] : d;
}

static edge_t *edge_find(const drawing_t *g, uint32_t a, uint32_t b, uint32_t kind) {
    edge_t key = {.a = a < b ? a : b, .b = a < b ? b : a, .kind = kind};

    return bsearch(&key, g->edges, g->nedges, sizeof(key), by_ends);
}

/** Links between drawn devices, joined by pair; then what the others say about utilisation. */
static ccl_status_t make_edges(drawing_t *g, ccl_error_t *err) {
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
    return CCL_OK;
}

static double line_width(const drawing_t *g, double Bps) {
    return g->most_Bps > 0 ? 0.8 + 5 * sqrt(Bps / g->most_Bps) : 1;
}

static ccl_i_pen_t kind_pen(const drawing_t *g, uint32_t kind, double Bps, double share) {
    static const double dashes[] = {0, 7, 3, 11};
    ccl_i_pen_t pen = ccl_i_stroke(ccl_i_colour(kind), line_width(g, Bps));

    if (g->options->links) {
        pen.stroke = ccl_i_heat(share);
        pen.dash = dashes[kind % CCL_ARRAY_LEN(dashes)];
    }
    return pen;
}

static void rate_text(double Bps, char *out, size_t out_len) {
    snprintf(out, out_len, "%.4g GB/s", Bps / 1e9);
}

/** Where a line meets a device: as near to `x` as its box allows. */
static double meet(const ccl_i_layout_place_t *place, double x) {
    double most = fmax(place->w / 2 - 5, 0);

    return fmax(place->x - most, fmin(place->x + most, x));
}

/** A curve that is `depth` lower in its middle. */
static void arc(ccl_picture_t *p, double x0, double y0, double x1, double y1, double depth,
                ccl_i_pen_t pen) {
    ccl_i_path(p, false, pen);
    for (int i = 0; i <= 16; i++) {
        double t = i / 16.0;

        ccl_i_to(p, x0 + (x1 - x0) * t, y0 + (y1 - y0) * t + 4 * depth * t * (1 - t));
    }
}

static void draw_edge(drawing_t *g, const edge_t *e) {
    const ccl_i_layout_place_t *a = &g->l.places[e->a];
    const ccl_i_layout_place_t *b = &g->l.places[e->b];
    const ccl_i_box_t *box = g->l.box_of[e->a] == CCL_NONE ? NULL : &g->l.boxes[g->l.box_of[e->a]];
    bool gpus = g->topo->devices[e->a].kind == CCL_DEVICE_GPU &&
                g->topo->devices[e->b].kind == CCL_DEVICE_GPU &&
                g->l.box_of[e->a] == g->l.box_of[e->b];
    /* From one server to another without a fabric: above what stands between. */
    bool between = !gpus && g->topo->devices[e->a].kind == CCL_DEVICE_GPU &&
                   g->topo->devices[e->b].kind == CCL_DEVICE_GPU;
    double Bps = fmax(e->there_Bps, e->back_Bps);
    ccl_i_pen_t pen = kind_pen(g, e->kind, Bps, e->share);
    char title[600];
    char there[40];
    char back[40];
    size_t n;

    rate_text(e->there_Bps, there, sizeof(there));
    rate_text(e->back_Bps, back, sizeof(back));
    n = (size_t)snprintf(title, sizeof(title), "%.180s - %.180s: %.60s, %s there, %s back",
                         g->topo->devices[e->a].id, g->topo->devices[e->b].id,
                         g->topo->kinds[e->kind], there, back);
    if (g->options->links && n < sizeof(title))
        snprintf(title + n, sizeof(title) - n, ", busy %.3g %%", 100 * e->share);
    ccl_i_open(g->p, "link", title);
    if (gpus && !box->grid) {
        /* A curve below the row of GPUs, deeper the farther they are apart. */
        double depth = 8 + fabs(b->x - a->x) / 38 * 6;

        arc(g->p, a->x, a->y + a->h / 2, b->x, b->y + b->h / 2, depth, pen);
    } else if (between) {
        arc(g->p, a->x, a->y - a->h / 2, b->x, b->y - b->h / 2, -14, pen);
    } else if (gpus && hypot(b->x - a->x, b->y - a->y) > 70) {
        /* Past the GPUs that stand between. */
        double dx = b->x - a->x;
        double dy = b->y - a->y;
        double bulge = 18 / hypot(dx, dy);

        ccl_i_path(g->p, false, pen);
        for (int i = 0; i <= 16; i++) {
            double t = i / 16.0;
            double off = 4 * t * (1 - t) * bulge;

            ccl_i_to(g->p, a->x + dx * t - dy * off, a->y + dy * t + dx * off);
        }
    } else {
        /* Straight from the narrower one, as far as the wider one reaches. */
        const ccl_i_layout_place_t *narrow = a->w <= b->w ? a : b;
        const ccl_i_layout_place_t *wide = a->w <= b->w ? b : a;
        double x = meet(wide, narrow->x);

        ccl_i_line(g->p, meet(narrow, x), narrow->y, x, wide->y, pen);
    }
    ccl_i_close(g->p);
}

/** A colour, this much nearer to white. */
static uint32_t tint(uint32_t colour, double white) {
    uint32_t out = 0;

    for (int shift = 16; shift >= 0; shift -= 8) {
        uint32_t part = colour >> shift & 255;

        out |= (uint32_t)lround(part + (255 - part) * white) << shift;
    }
    return out;
}

static uint32_t model_colour(uint32_t model) {
    static const uint32_t order[] = {CCL_I_SKY, CCL_I_ORANGE, CCL_I_GREEN, CCL_I_PINK,
                                     CCL_I_YELLOW};

    return model == CCL_NONE ? 0xeeeeee
                             : tint(order[model % CCL_ARRAY_LEN(order)], model < 5 ? 0.45 : 0.75);
}

static void draw_device(drawing_t *g, uint32_t d) {
    static const char *const classes[] = {"gpu", "switch", "nic", "host"};
    const ccl_device_t *device = &g->topo->devices[d];
    const ccl_i_layout_place_t *at = &g->l.places[d];
    uint32_t fill = device->kind == CCL_DEVICE_GPU        ? model_colour(device->model)
                    : device->kind == CCL_DEVICE_NIC      ? 0xfff6e0
                    : device->kind == CCL_DEVICE_HOST     ? 0xf3e8f0
                    : device->multicast || device->reduce ? 0xdcecd6
                                                          : 0xececec;
    const char *about = device->model != CCL_NONE ? g->topo->gpu_models[device->model].name
                        : device->reduce    ? device->multicast ? "multicasts, reduces" : "reduces"
                        : device->multicast ? "multicasts"
                                            : "";
    ccl_i_pen_t pen = {fill, 0x444444, 0.9, 0};
    char title[300];
    char text[120];

    snprintf(title, sizeof(title), "%.200s%s%.60s", device->id, *about ? ", " : "", about);
    ccl_i_open(g->p, classes[device->kind], title);
    ccl_i_rect(g->p, at->x - at->w / 2, at->y - at->h / 2, at->w, at->h,
               device->kind == CCL_DEVICE_GPU ? 4 : 2, pen);
    if (device->kind == CCL_DEVICE_GPU)
        ccl_i_text(g->p, at->x, at->y + 4, 11, ANCHOR_MIDDLE, CCL_I_INK, "%u", device->rank);
    else
        ccl_i_text(g->p, at->x, at->y + 3.2, 9, ANCHOR_MIDDLE, CCL_I_INK, "%s",
                   ccl_i_fit(ccl_i_short_id(g->topo, d), 9, at->w - 4, text, sizeof(text)));
    ccl_i_close(g->p);
}

static void draw_box(drawing_t *g, uint32_t b) {
    const ccl_i_box_t *box = &g->l.boxes[b];
    ccl_i_pen_t pen = {0xfafafa, CCL_I_GREY, 1, 0};

    if (box->flat)
        return;
    ccl_i_open(g->p, "server", g->topo->servers[b]);
    for (int i = box->alike > 1 ? 2 : 0; i > 0; i--)
        ccl_i_rect(g->p, box->x + 6 * i, box->y + 6 * i, box->w, box->h, 6, pen);
    ccl_i_rect(g->p, box->x, box->y, box->w, box->h, 6, pen);
    ccl_i_close(g->p);
}

/** Where no line passes. */
static void draw_name(drawing_t *g, uint32_t b) {
    const ccl_i_box_t *box = &g->l.boxes[b];
    char name[200];
    char text[200];

    if (box->flat)
        return;
    if (box->alike > 1)
        snprintf(name, sizeof(name), "%.100s and %u like it", g->topo->servers[b], box->alike - 1);
    else
        snprintf(name, sizeof(name), "%.100s", g->topo->servers[b]);
    ccl_i_text_bold(g->p, box->x + 10, box->y + box->h - 8, 11, ANCHOR_START, CCL_I_INK, "%s",
                    ccl_i_fit(name, 12, box->w - 14, text, sizeof(text)));
}

/* ---------------------------------------------------------------- below the cluster */

/** Utilisation of the busiest link between a server and what is outside of it. */
static double box_share(const drawing_t *g, uint32_t b) {
    double most = 0;

    for (uint32_t i = 0; i < g->topo->nlinks; i++) {
        const ccl_link_t *link = &g->topo->links[i];

        if ((g->l.box_of[link->from] == b) != (g->l.box_of[link->to] == b))
            most = fmax(most, g->options->links[i].utilization);
    }
    return most;
}

/** Number of the kind of server, in the order of the boxes. */
static uint32_t class_of(const ccl_i_draw_layout_t *l, uint32_t b) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->boxes[b].like; i++)
        n += l->boxes[i].like == i;
    return n;
}

/** All servers as small boxes; returns the y below them. */
static double draw_all_servers(drawing_t *g, double y) {
    double w = g->topo->nservers > 256 ? 34 : 62;
    uint32_t columns = (uint32_t)((g->l.width - 48) / (w + 6));
    uint32_t shown = g->topo->nservers < 1024 ? g->topo->nservers : 1024;

    ccl_i_open(g->p, "servers", NULL);
    ccl_i_text_bold(g->p, 24, y + 14, 11, ANCHOR_START, CCL_I_INK, "All %u servers%s%s",
                    g->topo->nservers,
                    g->options->links ? ", coloured by their busiest link to the fabric" : "",
                    shown < g->topo->nservers ? " (the first 1024)" : "");
    y += 24;
    for (uint32_t b = 0; b < shown; b++) {
        double x = 24 + (b % columns) * (w + 6);
        double top = y + (b / columns) * 24.0;
        double share = g->options->links ? box_share(g, b) : 0;
        uint32_t fill =
            g->options->links ? ccl_i_heat(share) : tint(ccl_i_colour(class_of(&g->l, b)), 0.7);
        char title[300];
        char text[64];

        snprintf(title, sizeof(title), "%.120s, like %.120s", g->topo->servers[b],
                 g->topo->servers[g->l.boxes[b].like]);
        ccl_i_open(g->p, "server-small", title);
        ccl_i_rect(g->p, x, top, w, 20, 3, (ccl_i_pen_t){fill, CCL_I_GREY, 0.8, 0});
        ccl_i_text(g->p, x + w / 2, top + 13.5, 9, ANCHOR_MIDDLE,
                   g->options->links && share > 0.4 ? 0xffffff : CCL_I_INK, "%s",
                   ccl_i_fit(g->topo->servers[b], 9, w - 4, text, sizeof(text)));
        ccl_i_close(g->p);
    }
    ccl_i_close(g->p);
    return y + ((shown + columns - 1) / columns) * 24.0 + 8;
}

static int by_style(const void *x, const void *y) {
    const style_t *a = x;
    const style_t *b = y;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->Bps > b->Bps ? -1 : a->Bps < b->Bps;
}

/** Line widths by kind and bandwidth, GPU models, heat; returns the y below. */
static double draw_legend(drawing_t *g, double y, ccl_error_t *err, ccl_status_t *status) {
    style_t *styles = ccl_arena_alloc(&g->l.arena, g->nedges + (size_t)1, sizeof(*styles));
    uint32_t n = 0;
    double x = 24;

    *status = styles ? CCL_OK : ccl_fail_nomem(err);
    if (!styles)
        return y;
    for (uint32_t i = 0; i < g->nedges; i++)
        styles[i] =
            (style_t){g->edges[i].kind, fmax(g->edges[i].there_Bps, g->edges[i].back_Bps), 1};
    qsort(styles, g->nedges, sizeof(*styles), by_style);
    for (uint32_t i = 0; i < g->nedges; i++) {
        if (n && by_style(&styles[n - 1], &styles[i]) == 0)
            styles[n - 1].n++;
        else
            styles[n++] = styles[i];
    }
    y += 16;
    for (uint32_t i = 0; i < n; i++) {
        char rate[40];
        char text[140];
        double w;

        if (i == 11 && n > 12) {
            ccl_i_text(g->p, x, y + 4, 10, ANCHOR_START, CCL_I_DIM, "and %u other bandwidths",
                       n - i);
            break;
        }
        rate_text(styles[i].Bps, rate, sizeof(rate));
        snprintf(text, sizeof(text), "%.60s %s (%u drawn)", g->topo->kinds[styles[i].kind], rate,
                 styles[i].n);
        w = ccl_i_text_width(text, 10, false) + 52;
        if (x > 24 && x + w > g->l.width - 16) {
            x = 24;
            y += 18;
        }
        ccl_i_open(g->p, "legend link", NULL);
        ccl_i_line(g->p, x, y, x + 28, y, kind_pen(g, styles[i].kind, styles[i].Bps, 0.75));
        ccl_i_text(g->p, x + 34, y + 4, 10, ANCHOR_START, CCL_I_INK, "%s", text);
        ccl_i_close(g->p);
        x += w;
    }
    y += 20;
    x = 24;
    for (uint32_t m = 0; m < g->topo->ngpu_models; m++) {
        const char *name = g->topo->gpu_models[m].name;
        uint32_t count = 0;

        for (uint32_t d = 0; d < g->topo->ndevices; d++)
            count += g->topo->devices[d].kind == CCL_DEVICE_GPU && g->topo->devices[d].model == m;
        if (!count)
            continue;
        ccl_i_open(g->p, "legend model", NULL);
        ccl_i_rect(g->p, x, y - 7, 18, 14, 3, (ccl_i_pen_t){model_colour(m), 0x444444, 0.9, 0});
        ccl_i_text(g->p, x + 24, y + 4, 10, ANCHOR_START, CCL_I_INK, "%.60s: %u GPUs, by rank",
                   name, count);
        ccl_i_close(g->p);
        x += 60 + ccl_i_text_width(name, 10, false) + 110;
    }
    if (g->options->links) {
        y += 34;
        ccl_i_heat_bar(g->p, 60, y, 200, "0 %", "100 %", "utilisation: bytes / (bandwidth x time)");
        y += 26;
        ccl_i_text(g->p, 24, y, 10, ANCHOR_START, CCL_I_DIM,
                   "the busier direction; dashes tell kinds apart; busiest link %.3g %%",
                   100 * g->busiest);
    }
    return y + 24;
}

ccl_status_t ccl_draw_topology(const ccl_topology_t *topo,
                               const ccl_draw_topology_options_t *options, ccl_picture_t **out,
                               ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_draw_topology_options_t, options, err);
    static const ccl_draw_topology_options_t defaults = CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
    drawing_t g = {.topo = topo, .options = options ? options : &defaults};
    char below[600];
    ccl_status_t status;
    size_t n;
    double y;

    g.p = ccl_i_picture_create();
    if (!g.p)
        return ccl_fail_nomem(err);
    CCL_TRY_GOTO(ccl_i_draw_layout(topo, 60, &g.l, err), status, out);
    CCL_TRY_GOTO(make_edges(&g, err), status, out);
    n = (size_t)snprintf(below, sizeof(below), "%u GPUs", topo->nranks);
    if (topo->nservers)
        n += (size_t)snprintf(below + n, sizeof(below) - n, " on %u server%s", topo->nservers,
                              topo->nservers == 1 ? "" : "s");
    if (g.l.hidden)
        n += (size_t)snprintf(below + n, sizeof(below) - n, "; %u more switches like those drawn",
                              g.l.hidden);
    if (g.options->run)
        snprintf(below + n, sizeof(below) - n, "; %.400s", g.options->run);
    ccl_i_headline(g.p, g.l.width, g.options->title ? g.options->title : topo->name, below);
    for (uint32_t b = 0; b < g.l.nboxes; b++)
        if (g.l.boxes[b].like == b)
            draw_box(&g, b);
    for (uint32_t i = 0; i < g.nedges; i++)
        draw_edge(&g, &g.edges[i]);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (g.l.places[d].drawn)
            draw_device(&g, d);
    for (uint32_t b = 0; b < g.l.nboxes; b++)
        if (g.l.boxes[b].like == b)
            draw_name(&g, b);
    y = g.l.bottom + (g.l.folded ? 24 : 12);
    if (g.l.folded && topo->nservers > 0)
        y = draw_all_servers(&g, y);
    y = draw_legend(&g, y, err, &status);
    if (status == CCL_OK) {
        status = ccl_i_picture_finish(g.p, g.l.width, y, out, err);
        g.p = NULL;
    }
out:
    ccl_i_draw_layout_fini(&g.l);
    ccl_picture_destroy(g.p);
    return status;
}
