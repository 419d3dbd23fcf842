/* A cluster: its layout drawn, with a line per pair of linked devices. */
#include "draw/topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Links of a kind and bandwidth, for the legend. */
typedef struct style {
    uint32_t kind;
    double Bps;
    uint32_t n;
} style_t;

typedef ccl_i_drawn_cluster_t drawing_t;

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
        ccl_i_text(g->p, at->x, at->y + 4, 11, ANCHOR_MIDDLE, ccl_i_on(fill), "%u", device->rank);
    else
        ccl_i_text(g->p, at->x, at->y + 3.2, 9, ANCHOR_MIDDLE, ccl_i_on(fill), "%s",
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
    if (box->folded)
        ccl_i_text(g->p, box->x + 10, box->y + box->h - 22, 10, ANCHOR_START, CCL_I_DIM,
                   "%u GPUs; %u more like those drawn", box->folded + 8, box->folded);
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
        uint32_t fill = g->options->links ? ccl_i_edge_heat(g, share)
                                          : tint(ccl_i_colour(class_of(&g->l, b)), 0.7);
        char title[300];
        char text[64];

        snprintf(title, sizeof(title), "%.120s, like %.120s", g->topo->servers[b],
                 g->topo->servers[g->l.boxes[b].like]);
        ccl_i_open(g->p, "server-small", title);
        ccl_i_rect(g->p, x, top, w, 20, 3, (ccl_i_pen_t){fill, CCL_I_GREY, 0.8, 0});
        ccl_i_text(g->p, x + w / 2, top + 13.5, 9, ANCHOR_MIDDLE, ccl_i_on(fill), "%s",
                   ccl_i_fit(g->topo->servers[b], 9, w - 4, text, sizeof(text)));
        ccl_i_close(g->p);
    }
    ccl_i_close(g->p);
    return y + ((shown + columns - 1) / columns) * 24.0 + 8;
}

static void rate_text(double Bps, char *out, size_t out_len) {
    snprintf(out, out_len, "%.4g GB/s", Bps / 1e9);
}

static int by_style(const void *x, const void *y) {
    const style_t *a = x;
    const style_t *b = y;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->Bps > b->Bps ? -1 : a->Bps < b->Bps;
}

static void draw_heat(drawing_t *g, double y) {
    char top[32];

    snprintf(top, sizeof(top), "%.3g %%", 100 * g->heat_top);
    ccl_i_open(g->p, "legend heat", NULL);
    for (int i = 0; i < 32; i++)
        ccl_i_rect(g->p, 60 + 200.0 * i / 32, y, 200.0 / 32 + 0.5, 10, 0,
                   ccl_i_fill(ccl_i_edge_heat(g, g->heat_top * i / 31)));
    ccl_i_text(g->p, 56, y + 9, 10, ANCHOR_END, CCL_I_INK, "0 %%");
    ccl_i_text(g->p, 266, y + 9, 10, ANCHOR_START, CCL_I_INK, "%s", top);
    ccl_i_text(g->p, 160, y - 4, 10, ANCHOR_MIDDLE, CCL_I_INK,
               "utilisation: bytes / (bandwidth x time)");
    ccl_i_close(g->p);
}

/** All GPUs of servers that fold theirs, as small boxes; returns the y below them. */
static double draw_all_gpus(drawing_t *g, double y) {
    uint32_t columns = (uint32_t)((g->l.width - 48) / 30), n = 0;

    ccl_i_text_bold(g->p, 24, y + 14, 11, ANCHOR_START, CCL_I_INK, "All %u GPUs%s", g->topo->nranks,
                    g->options->links ? ", coloured by their busiest link" : "");
    y += 24;
    ccl_i_open(g->p, "gpus", NULL);
    for (uint32_t r = 0; r < g->topo->nranks && n < 1024; r++, n++) {
        uint32_t d = g->topo->rank_device[r], fill = model_colour(g->topo->devices[d].model);
        double x = 24 + (n % columns) * 30.0, top = y + (n / columns) * 20.0, share = 0;

        for (uint32_t i = 0; g->options->links && i < g->topo->nlinks; i++)
            if (g->topo->links[i].from == d || g->topo->links[i].to == d)
                share = fmax(share, g->options->links[i].utilization);
        if (g->options->links)
            fill = ccl_i_edge_heat(g, share);
        ccl_i_open(g->p, "gpu-small", g->topo->devices[d].id);
        ccl_i_rect(g->p, x, top, 27, 17, 3, (ccl_i_pen_t){fill, CCL_I_GREY, 0.7, 0});
        ccl_i_text(g->p, x + 13.5, top + 12, 9, ANCHOR_MIDDLE, ccl_i_on(fill), "%u", r);
        ccl_i_close(g->p);
    }
    ccl_i_close(g->p);
    return y + ((n + columns - 1) / columns) * 20.0 + 8;
}

/** Kinds of links and their bandwidths, from the widest on, each with how often it is drawn. */
static ccl_status_t collect_styles(drawing_t *g, style_t **out, uint32_t *n_out, ccl_error_t *err) {
    style_t *styles = ccl_arena_alloc(&g->l.arena, g->nedges + (size_t)1, sizeof(*styles));
    uint32_t n = 0;

    if (!styles)
        return ccl_fail_nomem(err);
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
    *out = styles;
    *n_out = n;
    return CCL_OK;
}

/** @return the y of the last row */
static double draw_link_legend(drawing_t *g, const style_t *styles, uint32_t n, double y) {
    double x = 24;

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
        ccl_i_line(g->p, x, y, x + 28, y, ccl_i_edge_pen(g, styles[i].kind, styles[i].Bps, 0.75));
        ccl_i_text(g->p, x + 34, y + 4, 10, ANCHOR_START, CCL_I_INK, "%s", text);
        ccl_i_close(g->p);
        x += w;
    }
    return y;
}

static void draw_model_legend(drawing_t *g, double y) {
    double x = 24;

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
}

/** Line widths by kind and bandwidth, GPU models, heat; returns the y below. */
static double draw_legend(drawing_t *g, double y, ccl_error_t *err, ccl_status_t *status) {
    style_t *styles = NULL;
    uint32_t n = 0;

    *status = collect_styles(g, &styles, &n, err);
    if (*status != CCL_OK)
        return y;
    y = draw_link_legend(g, styles, n, y + 16) + 20;
    draw_model_legend(g, y);
    if (g->options->links) {
        y += 34;
        draw_heat(g, y);
        y += 26;
        ccl_i_text(
            g->p, 24, y, 10, ANCHOR_START, CCL_I_DIM,
            "the busier direction of a line; numbers on lines: GB/s each way; busiest link %.3g %%",
            100 * g->busiest);
    } else {
        y += 20;
        ccl_i_text(g->p, 24, y, 10, ANCHOR_START, CCL_I_DIM, "numbers on lines: GB/s each way");
    }
    return y + 24;
}

static bool folds_gpus(const drawing_t *g) {
    for (uint32_t b = 0; b < g->l.nboxes; b++)
        if (g->l.boxes[b].folded > 0)
            return true;
    return false;
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
    CCL_TRY_GOTO(ccl_i_edges_make(&g, err), status, out);
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
    CCL_TRY_GOTO(ccl_i_edges_draw(&g, err), status, out);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        if (g.l.places[d].drawn)
            draw_device(&g, d);
    for (uint32_t b = 0; b < g.l.nboxes; b++)
        if (g.l.boxes[b].like == b)
            draw_name(&g, b);
    y = g.l.bottom + (g.l.folded ? 24 : 12);
    if (g.l.folded && topo->nservers > 0)
        y = draw_all_servers(&g, y);
    if (folds_gpus(&g) && topo->nservers < 4)
        y = draw_all_gpus(&g, y + 8);
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
