/*
 * Places of GPUs that are linked to each other and stand in no servers, where rows would hide what
 * the graph is: a ring, a dragonfly, a random graph. Stress majorization of the distances in hops
 * (Gansner, Koren, North: Graph Drawing by Stress Majorization, 2004), from a circle in rank order.
 * Equal input gives equal places; a mesh or torus in rank order keeps its rows, as they cross less.
 */
#include "draw/layout.h"

#include <math.h>

enum { MOST_SPRINGS = 128, ROUNDS = 300, MOST_LINES = 600 };
#define HOP 74.0

typedef struct springs {
    uint32_t n;
    const uint32_t *devices;  /* [n] */
    double *x, *y, *distance; /* [n], [n][n] in hops */
    uint32_t *index;          /* [ndevices] */
} springs_t;

/** Hops between all pairs; pairs that are not joined are as far as the graph is wide, and one. */
static void distances(const ccl_i_draw_layout_t *l, const ccl_i_neighbours_t *near, springs_t *s,
                      uint32_t *queue) {
    double most = 1;

    for (uint32_t from = 0; from < s->n; from++) {
        double *d = &s->distance[(size_t)from * s->n];
        uint32_t head = 0, tail = 0;

        for (uint32_t i = 0; i < s->n; i++)
            d[i] = -1;
        d[from] = 0;
        queue[tail++] = from;
        while (head < tail) {
            uint32_t i = queue[head++], device = s->devices[i];

            for (uint32_t k = near->first[device]; k < near->first[device + 1]; k++) {
                uint32_t e = near->list[k];

                if (l->box_of[e] != l->box_of[device] || d[s->index[e]] >= 0)
                    continue;
                d[s->index[e]] = d[i] + 1;
                most = fmax(most, d[i] + 1);
                queue[tail++] = s->index[e];
            }
        }
    }
    for (size_t i = 0; i < (size_t)s->n * s->n; i++)
        if (s->distance[i] < 0)
            s->distance[i] = most + 1;
}

/** Each place moves to where all others want it, by turns. */
static void relax(springs_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        s->x[i] = s->n / 6.0 * cos(2 * M_PI * i / s->n);
        s->y[i] = s->n / 6.0 * sin(2 * M_PI * i / s->n);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < s->n; i++) {
            double x = 0, y = 0, weights = 0;

            for (uint32_t k = 0; k < s->n; k++) {
                double want = s->distance[(size_t)i * s->n + k], weight, dx, dy, is;

                if (k == i)
                    continue;
                weight = 1 / (want * want);
                dx = s->x[i] - s->x[k];
                dy = s->y[i] - s->y[k];
                is = hypot(dx, dy);
                is = is > 1e-9 ? want / is : 0;
                x += weight * (s->x[k] + dx * is);
                y += weight * (s->y[k] + dy * is);
                weights += weight;
            }
            s->x[i] = x / weights;
            s->y[i] = y / weights;
        }
    }
}

typedef struct line {
    uint32_t a, b; /* of the GPUs' numbers */
} line_t;

static double side(const double a[2], const double b[2], const double c[2]) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static bool cross(const double a[2], const double b[2], const double c[2], const double d[2]) {
    return side(a, b, c) * side(a, b, d) < -1e-6 && side(c, d, a) * side(c, d, b) < -1e-6;
}

/** Does a line pass a place that it does not end at? */
static bool passes(const double a[2], const double b[2], const double c[2]) {
    double dx = b[0] - a[0], dy = b[1] - a[1], length = hypot(dx, dy);
    double along = length > 0 ? ((c[0] - a[0]) * dx + (c[1] - a[1]) * dy) / length : 0;

    return along > 1 && along < length - 1 && fabs(side(a, b, c)) / length < 14;
}

/** How many lines cross, or pass over a GPU. */
static uint64_t faults(const springs_t *s, const double (*at)[2], const line_t *lines, uint32_t n) {
    uint64_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            count += cross(at[lines[i].a], at[lines[i].b], at[lines[k].a], at[lines[k].b]);
        for (uint32_t k = 0; k < s->n; k++)
            if (k != lines[i].a && k != lines[i].b)
                count += 2u * passes(at[lines[i].a], at[lines[i].b], at[k]);
    }
    return count;
}

/** Scaled so that the nearest two have room; corner at 0. Returns width and height. */
static void fit(springs_t *s, double (*at)[2], double size[2]) {
    double nearest = INFINITY, low[2] = {INFINITY, INFINITY}, scale;

    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t k = 0; k < i; k++)
            nearest = fmin(nearest, hypot(s->x[i] - s->x[k], s->y[i] - s->y[k]));
        low[0] = fmin(low[0], s->x[i]);
        low[1] = fmin(low[1], s->y[i]);
    }
    scale = fmax(HOP, fmin(44 / fmax(nearest, 1e-3), 2.5 * HOP));
    size[0] = size[1] = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        at[i][0] = (s->x[i] - low[0]) * scale;
        at[i][1] = (s->y[i] - low[1]) * scale;
        size[0] = fmax(size[0], at[i][0]);
        size[1] = fmax(size[1], at[i][1]);
    }
}

/** Does every line join neighbours of a square of rows, or its opposite sides: a mesh or a torus?
 */
static bool is_lattice(const line_t *lines, uint32_t nlines, uint32_t n, uint32_t columns) {
    uint32_t rows = n / columns;

    if (rows * columns != n || rows < 2)
        return false;
    for (uint32_t i = 0; i < nlines; i++) {
        uint32_t row[2] = {lines[i].a / columns, lines[i].b / columns};
        uint32_t column[2] = {lines[i].a % columns, lines[i].b % columns};
        uint32_t down = row[0] > row[1] ? row[0] - row[1] : row[1] - row[0];
        uint32_t across = column[0] > column[1] ? column[0] - column[1] : column[1] - column[0];
        bool beside = down == 0 && (across == 1 || across + 1 == columns);
        bool below = across == 0 && (down == 1 || down + 1 == rows);

        if (!beside && !below)
            return false;
    }
    return true;
}

static uint32_t lines_of(const ccl_i_draw_layout_t *l, const springs_t *s, line_t *out) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->topo->nlinks && n < MOST_LINES; i++) {
        uint32_t a = l->topo->links[i].from, b = l->topo->links[i].to;

        if (a < b && s->index[a] != CCL_NONE && s->index[b] != CCL_NONE)
            out[n++] = (line_t){s->index[a], s->index[b]};
    }
    return n;
}

static void put(ccl_i_draw_layout_t *l, ccl_i_box_t *box, const springs_t *s, const double (*at)[2],
                const double size[2]) {
    box->grid = true;
    box->w = fmax(box->w, size[0] + 60);
    box->h = size[1] + 54;
    for (uint32_t i = 0; i < s->n; i++) {
        l->places[s->devices[i]].x = box->x + (box->w - size[0]) / 2 + at[i][0];
        l->places[s->devices[i]].y = box->y + 22 + at[i][1];
    }
}

ccl_status_t ccl_i_layout_springs(ccl_i_draw_layout_t *l, ccl_i_box_t *box,
                                  const ccl_i_neighbours_t *near, ccl_error_t *err) {
    size_t n = box->n, nd = l->topo->ndevices;
    springs_t s = {.n = box->n, .devices = l->devices + box->first};
    line_t *lines = ccl_arena_alloc(&l->arena, MOST_LINES, sizeof(*lines));
    double(*rows)[2] = ccl_arena_alloc(&l->arena, n + 1, sizeof(*rows));
    double(*at)[2] = ccl_arena_alloc(&l->arena, n + 1, sizeof(*at));
    double size[2];
    uint32_t nlines, columns = (uint32_t)ceil(sqrt((double)n));

    if (n > MOST_SPRINGS || n < 4)
        return CCL_OK;
    s.x = ccl_arena_alloc(&l->arena, n, sizeof(*s.x));
    s.y = ccl_arena_alloc(&l->arena, n, sizeof(*s.y));
    s.distance = ccl_arena_alloc(&l->arena, n * n, sizeof(*s.distance));
    s.index = ccl_arena_alloc(&l->arena, nd + n + 1, sizeof(*s.index));
    if (!lines || !rows || !at || !s.x || !s.y || !s.distance || !s.index)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < nd; d++)
        s.index[d] = CCL_NONE;
    for (uint32_t i = 0; i < s.n; i++) {
        s.index[s.devices[i]] = i;
        rows[i][0] = l->places[s.devices[i]].x;
        rows[i][1] = l->places[s.devices[i]].y;
    }
    nlines = lines_of(l, &s, lines);
    if (nlines < n)
        return CCL_OK;
    if (is_lattice(lines, nlines, s.n, columns)) {
        for (uint32_t i = 0; i < s.n; i++) {
            at[i][0] = (i % columns) * HOP;
            at[i][1] = (i / columns) * HOP * 0.8;
        }
        size[0] = (columns - 1) * HOP;
        size[1] = (s.n / columns - 1) * HOP * 0.8;
        put(l, box, &s, at, size);
        return CCL_OK;
    }
    distances(l, near, &s, s.index + nd);
    relax(&s);
    fit(&s, at, size);
    if (faults(&s, at, lines, nlines) >= faults(&s, rows, lines, nlines))
        return CCL_OK;
    l->springs = true;
    put(l, box, &s, at, size);
    return CCL_OK;
}
