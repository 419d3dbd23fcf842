/* A run over time, level of detail by rows and by parts of time. */
#include "draw/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 40000, HEAT_COLOURS = 20, WAIT_LEVELS = 4, MOST_STATES = 21 };
#define FIELD_W 1200.0
#define LEAST_WAIT_H 4.0      /* a quarter of a row is a pixel */
#define WAIT_COLOUR 0xfbe3b5u /* lighter than any colour of busy blocks */
/* Room for what rows did in each part of time. */
#define MOST_BYTES ((size_t)96 << 20)

typedef ccl_i_timeline_row_t row_t;
typedef ccl_i_timeline_t timeline_t;

/* ---------------------------------------------------------------- colours and rectangles */

/** State of a part of a row; CCL_NONE: mostly nothing. */
static uint32_t state_at(const timeline_t *t, uint32_t row, uint32_t bin, double bin_s) {
    const float *share = t->share + ((size_t)row * t->nbins + bin) * t->nstates;
    double none = bin_s * t->rows[row].lanes;
    uint32_t best = CCL_NONE;
    double most = 0;

    if (t->heat) {
        uint32_t level = (uint32_t)fmin(ceil(share[0] / none * HEAT_COLOURS - 1e-4), HEAT_COLOURS);

        return level ? level - 1 : CCL_NONE;
    }
    for (uint32_t s = 0; s < t->nstates; s++) {
        none -= share[s];
        if (share[s] > most) {
            most = share[s];
            best = s;
        }
    }
    /* A link is blank where it is idle; of a block, a part that belongs to its life is shown. */
    return t->by != CCL_DRAW_ROWS_LINK && none > most ? CCL_NONE : best;
}

/** Thin rows are whole pixels, so that no seam shows between them. */
static double row_height(const timeline_t *t) {
    double h = fmax(2, fmin(14, 820.0 / t->nrows));

    return h < LEAST_WAIT_H ? floor(h) : h;
}

/** Is there room in a row for the share of its blocks that wait? */
static bool tells_waits(const timeline_t *t) {
    return t->heat && t->by != CCL_DRAW_ROWS_LINK && row_height(t) >= LEAST_WAIT_H;
}

/** How much of a row's blocks wait, in WAIT_LEVELS; 0 where rows do not show it. */
static uint32_t waits_at(const timeline_t *t, uint32_t row, uint32_t bin, double bin_s) {
    const float *share = t->share + ((size_t)row * t->nbins + bin) * t->nstates;

    if (!tells_waits(t))
        return 0;
    return (uint32_t)fmin(lround(share[1] / (bin_s * t->rows[row].lanes) * WAIT_LEVELS),
                          WAIT_LEVELS);
}

static uint64_t count_cells(const timeline_t *t) {
    double bin_s = t->time_s / t->nbins;
    uint64_t n = 0;

    for (uint32_t row = 0; row < t->nrows; row++) {
        uint32_t last = CCL_NONE, waited = 0;

        for (uint32_t bin = 0; bin < t->nbins; bin++) {
            uint32_t state = state_at(t, row, bin, bin_s);
            uint32_t waits = waits_at(t, row, bin, bin_s);

            n += (state != last && state != CCL_NONE) + (waits != waited && waits > 0);
            waited = waits;
            last = state;
        }
    }
    return n;
}

/** Two parts of time become one. */
static void halve(timeline_t *t) {
    uint32_t half = t->nbins / 2;

    for (uint32_t row = 0; row < t->nrows; row++)
        for (uint32_t bin = 0; bin < half; bin++)
            for (uint32_t s = 0; s < t->nstates; s++) {
                const float *from =
                    t->share + ((size_t)row * t->nbins + 2 * (size_t)bin) * t->nstates + s;

                t->share[((size_t)row * half + bin) * t->nstates + s] = from[0] + from[t->nstates];
            }
    t->nbins = half;
}

static uint32_t state_colour(const timeline_t *t, uint32_t state) {
    static const uint32_t states[] = {CCL_I_BLUE, CCL_I_ORANGE, CCL_I_PINK, CCL_I_GREEN};

    if (t->options->by_chunk) {
        uint32_t n = t->nchunks < CHUNK_COLOURS ? t->nchunks : CHUNK_COLOURS;

        if (state == n)
            return 0xd8d8d8;
        return n <= 7 ? ccl_i_colour(state) : ccl_i_heat((double)state / (n - 1));
    }
    if (t->heat)
        return ccl_i_heat((state + 0.5) / HEAT_COLOURS);
    return states[state];
}

/** The light part of a row, from its top: blocks that wait. */
static void draw_waits(const timeline_t *t, ccl_picture_t *p, uint32_t row, double y, double h) {
    double bin_s = t->time_s / t->nbins;
    double w = FIELD_W / t->nbins;
    bool begun = false;

    for (uint32_t bin = 0, end; bin < t->nbins; bin = end) {
        uint32_t level = waits_at(t, row, bin, bin_s);

        for (end = bin + 1; end < t->nbins && waits_at(t, row, end, bin_s) == level;)
            end++;
        if (!level)
            continue;
        if (!begun)
            ccl_i_cells(p, WAIT_COLOUR);
        begun = true;
        ccl_i_cell(p, t->left + bin * w, y, (end - bin) * w, h * level / WAIT_LEVELS);
    }
}

static void draw_row(const timeline_t *t, ccl_picture_t *p, uint32_t row, double y, double h) {
    double bin_s = t->time_s / t->nbins;
    double w = FIELD_W / t->nbins;
    uint32_t nstates = t->heat ? HEAT_COLOURS : t->nstates;
    uint8_t *states = malloc(t->nbins);

    if (!states) {
        p->nomem = true;
        return;
    }
    ccl_i_open(p, "row", t->rows[row].name);
    for (uint32_t bin = 0; bin < t->nbins; bin++) {
        uint32_t state = state_at(t, row, bin, bin_s);

        states[bin] = state == CCL_NONE ? UINT8_MAX : (uint8_t)state;
    }
    for (uint32_t state = 0; state < nstates; state++) {
        bool begun = false;

        for (uint32_t bin = 0; bin < t->nbins;) {
            uint32_t end = bin;

            while (end < t->nbins && states[end] == state)
                end++;
            if (end > bin) {
                if (!begun)
                    ccl_i_cells(p, state_colour(t, state));
                begun = true;
                ccl_i_cell(p, t->left + bin * w, y, (end - bin) * w, h);
            }
            bin = end > bin ? end : bin + 1;
        }
    }
    draw_waits(t, p, row, y, h);
    ccl_i_close(p);
    free(states);
}

/* ---------------------------------------------------------------- legend and names */

static void legend_entry(ccl_picture_t *p, double *x, double y, uint32_t colour, const char *text) {
    ccl_i_open(p, "legend state", NULL);
    ccl_i_rect(p, *x, y - 9, 14, 10, 0, ccl_i_fill(colour));
    ccl_i_text(p, *x + 19, y, 10, ANCHOR_START, CCL_I_INK, "%s", text);
    ccl_i_close(p);
    *x += 34 + ccl_i_text_width(text, 10, false);
}

/** @return how many lines it took. */
static double draw_legend(const timeline_t *t, ccl_picture_t *p, double y) {
    static const char *const names[] = {"busy", "waits for data", "waits for a block of its GPU",
                                        "waits for a slot"};
    double x = t->left, first_y = y;

    if (t->options->by_chunk) {
        uint32_t n = t->nchunks < CHUNK_COLOURS ? t->nchunks : CHUNK_COLOURS;

        for (uint32_t i = 0; i < n; i++) {
            char text[80];

            ccl_i_timeline_chunk(t, i, text, sizeof(text));
            if (x + 34 + ccl_i_text_width(text, 10, false) > t->left + FIELD_W) {
                x = t->left;
                y += 15;
            }
            legend_entry(p, &x, y, state_colour(t, i), text);
        }
        if (t->by != CCL_DRAW_ROWS_LINK)
            legend_entry(p, &x, y, state_colour(t, n), "waits");
    } else if (t->heat) {
        ccl_i_heat_bar(p, t->left + 30, y - 8, 200, "0 %", "100 %",
                       t->by == CCL_DRAW_ROWS_LINK ? "share of its bandwidth"
                                                   : "share of its thread blocks that are busy");
        x += 300;
        if (tells_waits(t))
            legend_entry(p, &x, y, WAIT_COLOUR, "light, from the top: the share that waits");
    } else {
        for (uint32_t i = 0; i < NSTATES; i++)
            legend_entry(p, &x, y, state_colour(t, i), names[i]);
        legend_entry(p, &x, y, 0xffffff, "(blank: not running)");
    }
    return y - first_y;
}

/** Names of rows, or where they are thin of servers; a line between GPUs or servers. */
static void draw_names(const timeline_t *t, ccl_picture_t *p, double y, double h) {
    bool thin = h < 6 && t->by == CCL_DRAW_ROWS_GPU && t->topo->nservers > 1;
    double free_y = -1;

    ccl_i_open(p, "names", NULL);
    for (uint32_t row = 0; row < t->nrows; row++) {
        const row_t *r = &t->rows[row];
        double at = y + row * h;
        bool gpu = row && t->by == CCL_DRAW_ROWS_BLOCK && r->rank != r[-1].rank;
        bool server = row && r->server != r[-1].server && t->by != CCL_DRAW_ROWS_SERVER;
        double size = fmin(9, fmax(h, 7));
        char text[80], name[100];

        snprintf(name, sizeof(name), r->alike ? "%s (+%u alike)" : "%s", r->name, r->alike);
        if (gpu || server)
            ccl_i_line(p, t->left - (server && !thin ? 80 : 4), at, t->left + FIELD_W, at,
                       ccl_i_stroke(server ? CCL_I_INK : CCL_I_DIM, server && !thin ? 0.7 : 0.3));
        if (at < free_y || (thin && row && !server))
            continue;
        ccl_i_text(p, t->left - 6, at + fmin(h, 10) - 1 + (thin ? 5 : 0), size, ANCHOR_END,
                   CCL_I_INK, "%s",
                   ccl_i_fit(thin && r->server != CCL_NONE ? t->topo->servers[r->server] : name,
                             size, t->left - 12, text, sizeof(text)));
        free_y = at + fmax(h, 10) - 0.01;
    }
    ccl_i_close(p);
}

static ccl_status_t draw(const timeline_t *t, ccl_picture_t **out, ccl_error_t *err) {
    static const char *const what[] = {
        "", "thread block (GPU.block, peers)", "GPU", "server", "link", "phase"};
    ccl_picture_t *p = ccl_i_picture_create();
    char below[400];
    double h = row_height(t);
    double y;
    double bottom;
    size_t n;

    if (!p)
        return ccl_fail_nomem(err);
    n = (size_t)snprintf(below, sizeof(below), "%s on %.100s: %u rows, one per %s",
                         ccl_collective_kind_name(t->program->coll->kind), t->topo->name, t->nrows,
                         what[t->by]);
    if (t->by == CCL_DRAW_ROWS_LINK && t->nlinks > t->nrows)
        n += (size_t)snprintf(below + n, sizeof(below) - n, ", the busiest of %u", t->nlinks);
    else if (t->options->by_chunk && t->by != CCL_DRAW_ROWS_BLOCK)
        n += (size_t)snprintf(below + n, sizeof(below) - n,
                              ", coloured by what took the most of its thread blocks' time");
    if (t->folded)
        n += (size_t)snprintf(below + n, sizeof(below) - n,
                              "; %u rows that look like one of these are not drawn", t->folded);
    snprintf(below + n, sizeof(below) - n, "; %llu transfers, %.6g us",
             (unsigned long long)t->result->transfers, t->time_s * 1e6);
    y = ccl_i_headline(p, t->left + FIELD_W + 24,
                       t->options->title ? t->options->title : t->program->name, below) +
        22;
    y += draw_legend(t, p, y) + 14;
    bottom = y + t->nrows * h;
    ccl_i_time_axis(p, t->left, bottom, FIELD_W, t->nrows * h, t->time_s, "time");
    ccl_i_open(p, "rows", NULL);
    for (uint32_t row = 0; row < t->nrows; row++)
        draw_row(t, p, row, y + row * h, h > 8 ? h - 1 : h > 4 ? h - 0.5 : h);
    ccl_i_close(p);
    draw_names(t, p, y, h);
    return ccl_i_picture_finish(p, t->left + FIELD_W + 24, bottom + 44, out, err);
}

/** What rows did in parts of time, as many as there is room for. */
static ccl_status_t measure(timeline_t *t, ccl_error_t *err) {
    t->nbins = 4096; /* up to a quarter of a unit each */
    while (t->nbins > 64 &&
           (size_t)t->nrows * t->nbins * t->nstates * sizeof(*t->share) > MOST_BYTES)
        t->nbins /= 2;
    free(t->share);
    t->share = calloc((size_t)t->nrows * t->nbins * t->nstates, sizeof(*t->share));
    if (!t->share)
        return ccl_fail_nomem(err);
    return t->by == CCL_DRAW_ROWS_LINK ? ccl_i_timeline_links(t, err)
                                       : ccl_i_timeline_blocks(t, err);
}

/** Rows and what they did; those that look alike are one. */
static ccl_status_t fill(timeline_t *t, ccl_error_t *err) {
    bool may_fold = !t->options->unfolded;

    t->folded = 0;
    CCL_TRY(ccl_i_timeline_rows(t, err));
    if (t->nrows == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "there is no row to draw: nothing ran there");
    t->heat = !t->options->by_chunk && t->by != CCL_DRAW_ROWS_BLOCK;
    t->nstates = t->options->by_chunk
                     ? (t->nchunks < CHUNK_COLOURS ? t->nchunks : CHUNK_COLOURS) + 1
                 : t->heat ? (t->by == CCL_DRAW_ROWS_LINK ? 1 : 2)
                           : NSTATES;
    CCL_TRY(measure(t, err));
    if (may_fold && t->by != CCL_DRAW_ROWS_PHASE && t->nrows > 1)
        CCL_TRY(ccl_i_timeline_fold(t, err));
    /* With fewer rows there is room for more parts of time. */
    if (t->folded > 0 && t->nbins < 4096 && t->nrows <= CCL_I_MOST_ROWS)
        return measure(t, err);
    return CCL_OK;
}

ccl_status_t ccl_draw_timeline(const ccl_topology_t *topo, const ccl_program_t *program,
                               const ccl_sim_result_t *result, const ccl_trace_t *trace,
                               const ccl_draw_timeline_options_t *options, ccl_picture_t **out,
                               ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_draw_timeline_options_t, options, err);
    static const ccl_draw_timeline_options_t defaults = CCL_DRAW_TIMELINE_OPTIONS_INIT;
    timeline_t t = {.topo = topo,
                    .program = program,
                    .result = result,
                    .options = options ? options : &defaults,
                    .time_s = result->time_s};
    uint64_t dropped;
    ccl_status_t status;

    t.spans = ccl_trace_spans(trace, &t.nspans, &dropped);
    if (dropped)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "%llu of %llu events did not fit into the trace; a smaller --size, fewer "
                        "--batches",
                        (unsigned long long)dropped, (unsigned long long)(dropped + t.nspans));
    if (t.options->rank != CCL_NONE && t.options->rank >= program->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "no rank %u, the program has the ranks 0 to %u",
                        t.options->rank, program->nranks - 1);
    if (!(t.time_s > 0))
        return ccl_fail(err, CCL_ERR_INPUT, "nothing took any time, so there is nothing to draw");
    t.nchunks = program->nchunks ? program->nchunks : 1;
    t.by = t.options->rows;
    status = fill(&t, err);
    if (status == CCL_OK && t.options->rows == CCL_DRAW_ROWS_AUTO && t.by == CCL_DRAW_ROWS_BLOCK &&
        t.nrows > CCL_I_MOST_ROWS) {
        t.too_many = true;
        t.by = CCL_DRAW_ROWS_AUTO;
        status = fill(&t, err);
    }
    if (status == CCL_OK)
        t.left = t.by == CCL_DRAW_ROWS_LINK              ? 230
                 : t.folded || t.by > CCL_DRAW_ROWS_LINK ? 176
                                                         : 96;
    while (status == CCL_OK && t.nbins > 16 && count_cells(&t) > MOST_CELLS)
        halve(&t);
    if (status == CCL_OK)
        status = draw(&t, out, err);
    free(t.share);
    ccl_arena_fini(&t.arena);
    return status;
}
