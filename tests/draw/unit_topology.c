/* Pictures of clusters: what is drawn, what is folded, three formats, hostile names. */
#include <math.h>

#include "tests/draw/svg.h"
#include "tests/topologies/topologies.h"

static const struct {
    const char *spec;
    uint32_t gpus, servers, small, links, kinds;
    const char *text, *why;
} rows[] = {
    {"servers:1 gpus:2 nvswitch=300GB/s,1us", 2, 1, 0, 2, 1, "2 GPUs on 1 server", "two GPUs"},
    {"dgx-a100", 8, 1, 0, 8 + 8, 2, "nvlink 300 GB/s (8 drawn)", "one server behind NVSwitch"},
    {"heteccl-h20-4+8", 12, 2, 0, 12 + 12 + 8, 3, "H20: 12 GPUs", "unlike servers, all drawn"},
    {"heteccl-h20-4x8+8x4", 12, 2, 12, 12 + 12 + 8, 3, "s0 and 7 like it",
     "twelve servers of two kinds: two drawn, all as small boxes"},
    {"syccl-h800-512", 8, 1, 64, 8 * 3, 3, "s0 and 63 like it", "64 servers: one drawn"},
    {"gb200-nvl72", 8, 1, 0, 8 + 8, 2, "72 GPUs; 64 more like those drawn",
     "72 GPUs that are alike: eight drawn, all as small boxes"},
    {"teccl-ndv2-2x8", 16, 2, 0, 16 + 16 + 2, 3, "nvlink 25 GB/s (16 drawn)",
     "GPUs linked to each other by two widths"},
};

static ccl_picture_t *picture_of(const ccl_topology_t *topo,
                                 const ccl_draw_topology_options_t *options) {
    ccl_picture_t *picture = NULL;

    ck_assert_int_eq(ccl_draw_topology(topo, options, &picture, NULL), CCL_OK);
    return picture;
}

START_TEST(structure) {
    ccl_topology_t *topo = topology(rows[_i].spec);
    svg_t *svg = svg_read(picture_of(topo, NULL));

    ck_assert_msg(svg_count(svg, "gpu") == rows[_i].gpus, "%s: %u GPUs", rows[_i].why,
                  svg_count(svg, "gpu"));
    ck_assert_uint_eq(svg_count(svg, "server"), rows[_i].servers);
    ck_assert_uint_eq(svg_count(svg, "server-small"), rows[_i].small);
    ck_assert_uint_eq(svg_count(svg, "link"), rows[_i].links);
    ck_assert_uint_eq(svg_count(svg, "legend link"), rows[_i].kinds);
    ck_assert_uint_eq(svg_count(svg, "legend heat"), 0);
    ck_assert_msg(svg_has(svg, rows[_i].text), "no text \"%s\"", rows[_i].text);
    ck_assert_msg(svg->width <= 1600 && svg->height <= 1200, "%g x %g", svg->width, svg->height);
    ck_assert_uint_lt(svg->len, 200000);
    svg_free(svg);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(heat) {
    ccl_topology_t *topo = topology("syccl-h800-512");
    ccl_link_use_t *uses = calloc(topo->nlinks, sizeof(*uses));
    ccl_draw_topology_options_t options = CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
    svg_t *svg;

    ck_assert_ptr_nonnull(uses);
    /* One link of the last server: the server drawn in its place must show it. */
    for (uint32_t i = 0; i < topo->nlinks; i++)
        if (strcmp(topo->devices[topo->links[i].from].id, "s63/nic3") == 0)
            uses[i].utilization = 0.875;
    options.links = uses;
    options.run = "a run";
    svg = svg_read(picture_of(topo, &options));
    ck_assert_uint_eq(svg_count(svg, "legend heat"), 1);
    ck_assert(svg_has(svg, "512 GPUs on 64 servers; a run"));
    ck_assert(svg_has(svg, "busiest link 87.5 %"));
    ck_assert_ptr_nonnull(strstr(svg->source, "s0/nic3 - fabric/rail3: net, 50 GB/s there, "
                                              "50 GB/s back, busy 87.5 %"));
    ck_assert_ptr_nonnull(strstr(svg->source, "s0/nic2 - fabric/rail2: net, 50 GB/s there, "
                                              "50 GB/s back, busy 0 %"));
    svg_free(svg);
    free(uses);
    ccl_topology_destroy(topo);
}
END_TEST

/** GPUs in a ring stand in a ring, those of a torus in rows. */
START_TEST(graphs) {
    for (int torus = 0; torus < 2; torus++) {
        ccl_topology_builder_t *b = ccl_topology_builder_create("graph");
        ccl_topology_t *topo = NULL;
        uint32_t at[16], levels = 0;
        double seen[16];
        svg_t *svg;

        for (uint32_t i = 0; i < 16; i++) {
            char id[16];

            snprintf(id, sizeof(id), "g%u", i);
            ck_assert_int_eq(
                ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, NULL, i, NULL, &at[i], NULL),
                CCL_OK);
        }
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t right = torus ? i / 4 * 4 + (i + 1) % 4 : (i + 1) % 16;

            ccl_topology_builder_duplex(b, at[i], at[right], "nvlink", 50e9, 0, 1, 0, NULL);
            if (torus)
                ccl_topology_builder_duplex(b, at[i], at[(i + 4) % 16], "nvlink", 50e9, 0, 1, 0,
                                            NULL);
        }
        ck_assert_int_eq(ccl_topology_builder_finish(b, &topo, NULL), CCL_OK);
        svg = svg_read(picture_of(topo, NULL));
        ck_assert_uint_eq(svg_count(svg, "link"), torus ? 32 : 16);
        for (const char *s = svg->source; (s = strstr(s, "<g class=\"gpu\">")); s++) {
            double y = atof(strstr(s, " y=\"") + 4);
            uint32_t i = 0;

            while (i < levels && fabs(seen[i] - y) > 0.5)
                i++;
            if (i == levels)
                seen[levels++] = y;
        }
        ck_assert_msg(torus ? levels == 4 : levels >= 8, "%u levels", levels);
        ck_assert(svg_count(svg, "label") >= 12 && svg_has(svg, "50"));
        svg_free(svg);
        ccl_topology_builder_destroy(b);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/** Lines pass what they do not end at: no PCIe line of a DGX-1 runs behind a box. */
START_TEST(ways) {
    ccl_topology_t *topo = topology("dgx1-v100");
    svg_t *svg = svg_read(picture_of(topo, NULL));
    uint32_t bent = 0;

    for (const char *s = svg->source; (s = strstr(s, "<g class=\"link\">")); s++) {
        const char *end = strstr(s, "</g>");
        uint32_t corners = 0;

        for (const char *c = strstr(s, "<path d=\""); c < end; c++)
            corners += *c == 'L';
        bent += strstr(s, "pcie") < end && corners > 1 && corners < 12;
    }
    ck_assert_uint_ge(bent, 2);
    svg_free(svg);
    ccl_topology_destroy(topo);
}
END_TEST

static uint32_t big_endian(const char *at) {
    const unsigned char *b = (const unsigned char *)at;

    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

START_TEST(formats) {
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_picture_t *one = picture_of(topo, NULL);
    ccl_picture_t *two = picture_of(topo, NULL);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};

    for (int f = CCL_DRAW_SVG; f <= CCL_DRAW_PNG; f++) {
        ccl_text_t a = {0};
        ccl_text_t b = {0};
        ccl_status_t status = ccl_picture_write(one, (ccl_draw_format_t)f, 900, &a, &err);

        ck_assert_msg(status == CCL_OK, "%s", err.text);
        ck_assert_int_eq(ccl_picture_write(two, (ccl_draw_format_t)f, 900, &b, NULL), CCL_OK);
        ck_assert_uint_eq(a.len, b.len);
        ck_assert_msg(memcmp(a.data, b.data, a.len) == 0, "format %d differs from run to run", f);
        if (f == CCL_DRAW_PDF)
            ck_assert_int_eq(memcmp(a.data, "%PDF-1.", 7), 0);
        if (f == CCL_DRAW_PNG) {
            ck_assert_int_eq(memcmp(a.data, "\x89PNG", 4), 0);
            ck_assert_uint_eq(big_endian(a.data + 16), 900);
            ck_assert_double_eq_tol(big_endian(a.data + 20),
                                    900 * ccl_picture_height(one) / ccl_picture_width(one), 1);
        }
        ccl_text_fini(&a);
        ccl_text_fini(&b);
    }
    ck_assert_int_eq(ccl_picture_write(one, CCL_DRAW_PNG, 40000, &text, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "32767"));
    ccl_text_fini(&text);
    ccl_picture_destroy(one);
    ccl_picture_destroy(two);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(names) {
    static const struct {
        const char *path;
        ccl_status_t status;
        ccl_draw_format_t format;
    } paths[] = {{"a.svg", CCL_OK, CCL_DRAW_SVG},   {"b.c/a.PDF", CCL_OK, CCL_DRAW_PDF},
                 {"a.b.png", CCL_OK, CCL_DRAW_PNG}, {"a.jpg", CCL_ERR_USAGE, 0},
                 {"svg", CCL_ERR_USAGE, 0},         {"-", CCL_ERR_USAGE, 0}};
    ccl_topology_builder_t *b = ccl_topology_builder_create("<a> & \"b\" \xff\x01 \xc3\xbc");
    ccl_topology_t *topo = NULL;
    uint32_t ends[2];
    svg_t *svg;

    for (size_t i = 0; i < CCL_ARRAY_LEN(paths); i++) {
        ccl_draw_format_t format = CCL_DRAW_SVG;

        ck_assert_int_eq(ccl_draw_format_of(paths[i].path, &format, NULL), paths[i].status);
        if (paths[i].status == CCL_OK)
            ck_assert_int_eq(format, paths[i].format);
    }
    ck_assert_int_eq(
        ccl_topology_builder_device(b, "x<y", CCL_DEVICE_GPU, NULL, 0, NULL, &ends[0], NULL),
        CCL_OK);
    ck_assert_int_eq(
        ccl_topology_builder_device(b, "a&b", CCL_DEVICE_GPU, NULL, 1, NULL, &ends[1], NULL),
        CCL_OK);
    ck_assert_int_eq(ccl_topology_builder_duplex(b, ends[0], ends[1], "nvlink", 1e9, 0, 1, 0, NULL),
                     CCL_OK);
    ck_assert_int_eq(ccl_topology_builder_finish(b, &topo, NULL), CCL_OK);
    svg = svg_read(picture_of(topo, NULL));
    ck_assert(svg_has(svg, "<a> & \"b\" ?? \xc3\xbc"));
    ck_assert_ptr_nonnull(strstr(svg->source, "<title>x&lt;y - a&amp;b: nvlink"));
    svg_free(svg);
    ccl_topology_builder_destroy(b);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(library) {
    /* Every cluster can be drawn, and nothing stands outside of its picture. */
    for (const ccl_library_entry_t *entry = ccl_topology_library(); entry->name; entry++) {
        ccl_topology_t *topo = topology(entry->name);
        svg_t *svg = svg_read(picture_of(topo, NULL));

        ck_assert_msg(svg_count(svg, "gpu") > 0 && svg->width <= 1600, "%s: %g", entry->name,
                      (double)svg->width);
        svg_free(svg);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("draw.topology");
    TCase *tcase = tcase_create("topology");

    tcase_add_loop_test(tcase, structure, 0, CCL_ARRAY_LEN(rows));
    tcase_add_test(tcase, heat);
    tcase_add_test(tcase, graphs);
    tcase_add_test(tcase, ways);
    tcase_add_test(tcase, formats);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, library);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
