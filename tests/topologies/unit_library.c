/* The built-in library: what is in it, that it all expands, and that its choices are declared. */
#include "tests/topologies/cluster_helpers.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

/* Every entry; relay: some GPUs reach each other only by relaying through a GPU. */
static const struct {
    const char *name;
    bool is_server;
    uint32_t gpus, servers;
    bool relay;
} entries[] = {
    {"a100-x4-2nic", true, 4, 1, false},
    {"a100-x4-4nic", true, 4, 1, false},
    {"a100-x8-4nic", true, 8, 1, false},
    {"a800-x8", true, 8, 1, false},
    {"dgx-2", true, 16, 1, false},
    {"dgx-a100", true, 8, 1, false},
    {"dgx-b200", true, 8, 1, false},
    {"dgx-b300", true, 8, 1, false},
    {"dgx-h100", true, 8, 1, false},
    {"dgx-h200", true, 8, 1, false},
    {"dgx1-v100", true, 8, 1, false},
    {"gb200-nvl72", true, 72, 1, false},
    {"gb300-nvl72", true, 72, 1, false},
    {"gh200-x4", true, 4, 1, false},
    {"h20-x4", true, 4, 1, false},
    {"h20-x8", true, 8, 1, false},
    {"h800-x4", true, 4, 1, false},
    {"h800-x8", true, 8, 1, false},
    {"hetccl-hw1-x16", true, 16, 1, false},
    {"hetccl-hw2-x8", true, 8, 1, false},
    {"hetccl-hw3-x8", true, 8, 1, false},
    {"mi250-x16", true, 16, 1, true},
    {"mi300x-x8", true, 8, 1, false},
    {"mi350x-x8", true, 8, 1, false},
    {"nd-a100-v4", true, 8, 1, false},
    {"ndv2", true, 8, 1, false},
    {"perlmutter-x4", true, 4, 1, false},
    {"polaris-x4", true, 4, 1, false},
    {"syccl-a100-x8", true, 8, 1, false},
    {"v100-pcie-x4", true, 4, 1, false},
    {"v100-x4", true, 4, 1, false},
    {"v100-x8", true, 8, 1, false},
    {"w7800-x4", true, 4, 1, false},
    {"dgx-h100-sharp-4", false, 32, 4, false},
    {"forestcoll-a100-2x8", false, 16, 2, true},
    {"forestcoll-a100-4x8", false, 32, 4, true},
    {"forestcoll-a100-8x8", false, 64, 8, true},
    {"forestcoll-mi250-2x16", false, 32, 2, false},
    {"hetccl-pku", false, 112, 12, false},
    {"hetccl-pku-a800+hw1", false, 24, 2, false},
    {"hetccl-pku-a800+hw2", false, 16, 2, false},
    {"hetccl-pku-a800+hw3", false, 16, 2, false},
    {"hetccl-pku-hw2+hw3", false, 16, 2, false},
    {"hetccl-snu", false, 16, 4, false},
    {"heteccl-a100-4+8", false, 12, 2, false},
    {"heteccl-h20-4+8", false, 12, 2, false},
    {"heteccl-h20-4x2+8", false, 16, 3, false},
    {"heteccl-h20-4x2+8x2", false, 24, 4, false},
    {"heteccl-h20-4x3", false, 12, 3, false},
    {"heteccl-h20-4x3+8", false, 20, 4, false},
    {"heteccl-h20-4x4+8x2", false, 32, 6, false},
    {"heteccl-h20-4x4+8x4", false, 48, 8, false},
    {"heteccl-h20-4x8+8x4", false, 64, 12, false},
    {"heteccl-h20-8x2+4", false, 20, 3, false},
    {"heteccl-v100-4+8", false, 12, 2, false},
    {"heteccl-v100-4x2+8", false, 16, 3, false},
    {"heteccl-v100-4x2+8x2", false, 24, 4, false},
    {"heteccl-v100-4x3", false, 12, 3, false},
    {"heteccl-v100-4x3+8", false, 20, 4, false},
    {"heteccl-v100-4x4+8x2", false, 32, 6, false},
    {"heteccl-v100-4x4+8x4", false, 48, 8, false},
    {"heteccl-v100-4x8+8x4", false, 64, 12, false},
    {"heteccl-v100-8x2+4", false, 20, 3, false},
    {"resccl-topo1", false, 8, 2, false},
    {"resccl-topo2", false, 16, 2, false},
    {"resccl-topo3", false, 16, 4, false},
    {"resccl-topo4", false, 32, 4, false},
    {"syccl-7x4-rail", false, 28, 7, false},
    {"syccl-8x4-clos", false, 32, 8, false},
    {"syccl-a100-16", false, 16, 2, false},
    {"syccl-a100-32", false, 32, 4, false},
    {"syccl-h800-512", false, 512, 64, true},
    {"syccl-h800-64", false, 64, 8, true},
    {"teccl-dgx2-2x16", false, 32, 2, true},
    {"teccl-ndv2-2x8", false, 16, 2, true},
    {"teccl-ndv2-2x8-15", false, 15, 2, true},
    {"teccl-ndv2-4x8", false, 32, 4, true},
};

START_TEST(table) {
    const ccl_library_entry_t *library = ccl_topology_library();
    size_t n = 0;
    for (; library[n].name; n++) {
        ck_assert_msg(n < CCL_ARRAY_LEN(entries), "%s is not in this test", library[n].name);
        ck_assert_str_eq(library[n].name, entries[n].name);
        ck_assert_msg(library[n].is_server == entries[n].is_server, "%s", entries[n].name);
        ck_assert_msg(n == 0 || library[n - 1].is_server != library[n].is_server ||
                          strcmp(library[n - 1].name, library[n].name) < 0,
                      "%s is out of order", library[n].name);
        ck_assert_ptr_eq(ccl_topology_library_find(library[n].name), &library[n]);
        ck_assert_uint_eq(strlen(library[n].text), library[n].len);
        ck_assert_msg(strlen(library[n].summary) > 0 && !strchr(library[n].summary, '\n'),
                      "%s: summary", library[n].name);
    }
    ck_assert_uint_eq(n, CCL_ARRAY_LEN(entries));
    ck_assert_ptr_null(ccl_topology_library_find("dgx"));
    ck_assert_ptr_null(ccl_topology_library_find(""));
}
END_TEST

/* One transport of a kind, as a program of this protocol sees it. */
static bool transport_of(const ccl_topology_t *t, const char *kind, const char *protocol,
                         ccl_transport_t *out) {
    bool found = false;
    *out = ccl_transport_default(kind);
    for (uint32_t i = 0; i < t->ntransports; i++) {
        const ccl_transport_spec_t *s = &t->transports[i];
        if (strcmp(s->kind, kind) != 0 || (s->protocol && strcmp(s->protocol, protocol) != 0))
            continue;
        found = true;
        if (s->given & CCL_TRANSPORT_TB_RATE)
            out->tb_rate_Bps = s->value.tb_rate_Bps;
        if (s->given & CCL_TRANSPORT_SLICE)
            out->slice_bytes = s->value.slice_bytes;
        if (s->given & CCL_TRANSPORT_PIECE)
            out->piece_bytes = s->value.piece_bytes;
        if (s->given & CCL_TRANSPORT_SLOTS)
            out->slots = s->value.slots;
        if (s->given & CCL_TRANSPORT_HOLDS_TB)
            out->holds_tb = s->value.holds_tb;
    }
    return found;
}

static void check_transport(const ccl_topology_t *t, const ccl_route_t *route) {
    static const char *const protocols[] = {"Simple", "LL", "LL128"};
    const char *kind = route->crosses_net    ? "net"
                       : route->crosses_pcie ? "pcie"
                                             : t->kinds[route->first_kind];
    for (size_t i = 0; i < 3; i++) {
        ccl_transport_t v;
        ck_assert_msg(transport_of(t, kind, protocols[i], &v), "%s: no transport \"%s\"", t->name,
                      kind);
        ck_assert_msg(isfinite(v.tb_rate_Bps), "%s: %s %s: blocks of no limit", t->name, kind,
                      protocols[i]);
        ck_assert_msg(isfinite(v.slice_bytes), "%s: %s %s: store and forward", t->name, kind,
                      protocols[i]);
        /* What a micro-batch takes, at most half the FIFO, stays within a piece of MSCCL's
         * executor: with NCCL's 512 or 640 threads a block, and RCCL's 256 where RCCL was measured.
         */
        static const double nccl[] = {2048 * 1024, 32 * 1024, 562 * 1024};
        static const double rccl[] = {2048 * 1024, 16 * 1024, 49 * 1024};
        bool rccl_like = strstr(t->name, "mi300x") || strstr(t->name, "mi350x");
        bool measured = rccl_like && strcmp(kind, "pcie") != 0;
        double piece_bytes = measured ? rccl[i] : nccl[i];
        double chunk_bytes = fmin(v.slots * v.slice_bytes / 2, v.piece_bytes);
        ck_assert_msg(chunk_bytes <= piece_bytes && chunk_bytes > piece_bytes / 2,
                      "%s: %s %s: chunks of %g bytes", t->name, kind, protocols[i], chunk_bytes);
    }
}

START_TEST(expands_and_routes) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(entries); i++) {
        ccl_topology_t *t = topology(entries[i].name);
        ck_assert_str_eq(t->name, entries[i].name);
        ck_assert_msg(t->nranks == entries[i].gpus, "%s: %u gpus", t->name, t->nranks);
        ck_assert_msg(t->nservers == entries[i].servers, "%s: %u servers", t->name, t->nservers);
        ck_assert_msg(strlen(t->source) > 10, "%s: no source", t->name);
        ccl_routes_t *routes = ccl_routes_create(t);
        bool relay = false;
        for (uint32_t a = 0; a < t->nranks; a++) {
            /* The last rows of a big cluster are like its first. */
            if (a >= 16 && t->nranks > 128)
                break;
            for (uint32_t b = 0; b < t->nranks; b++) {
                const ccl_route_t *route;
                if (a == b)
                    continue;
                if (!has_route(routes, a, b, &route)) {
                    ck_assert_msg(entries[i].relay, "%s: no route from %u to %u", t->name, a, b);
                    relay = true;
                    continue;
                }
                if (a < 8 || t->nranks <= 32)
                    check_transport(t, route);
            }
        }
        ck_assert_msg(relay == entries[i].relay, "%s: nothing needs a relay", t->name);
        ccl_routes_destroy(routes);
        for (uint32_t r = 0; r < t->nranks; r++) {
            const ccl_device_t *gpu = &t->devices[t->rank_device[r]];
            ck_assert_msg(gpu->model != CCL_NONE, "%s: %s has no model", t->name, gpu->id);
            const ccl_gpu_model_t *model = &t->gpu_models[gpu->model];
            ck_assert_msg(model->sms > 0 && isfinite(model->copy_rate_Bps) &&
                              isfinite(model->reduce_rate_Bps) && model->launch_s > 0 &&
                              *model->vendor,
                          "%s: model %s", t->name, model->name);
        }
        ccl_topology_destroy(t);
    }
}
END_TEST

START_TEST(explicit_form_is_equal) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(entries); i++) {
        ccl_topology_t *t = topology(entries[i].name);
        ccl_text_t text = {0};
        MUST(ccl_topology_write_json(t, &text, e));
        ccl_topology_t *again = topology_of(text.data);
        const char *difference = topology_difference(t, again);
        ck_assert_msg(!difference, "%s: %s", t->name, difference);
        ccl_text_fini(&text);
        ccl_topology_destroy(t);
        ccl_topology_destroy(again);
    }
}
END_TEST

/* Facts of the sources, so that an edit of a file cannot pass unseen. */
START_TEST(facts) {
    static const struct {
        const char *entry, *from, *to, *kind;
        double GBps, us;
        const char *why;
    } rows[] = {
        {"h20-x8", "s0/gpu7", "s0/nvswitch", "nvlink", 450, 0.35, "HeteCCL 6.1: 900 both ways"},
        {"h20-x8", "s0/gpu7", "s0/nic3", "pcie", 50, 0.35, "HeteCCL 6.1: 4 NICs of 400 Gbit/s"},
        {"h20-x8", "s0/gpu6", "s0/nic3", "pcie", 50, 0.35, "shared by two GPUs"},
        {"h20-x4", "s0/gpu3", "s0/nic3", "pcie", 50, 0.35, "the 4-GPU server has 4 NICs too"},
        {"v100-x8", "s0/host0", "s0/host1", "upi", 48, 0.5, "HeteCCL 6.1: UPI"},
        {"v100-x8", "s0/gpu5", "s0/pcie2", "pcie", 16, 0.5, "HeteCCL 6.1: switch per pair"},
        {"v100-x8", "s0/gpu4", "s0/gpu7", "nvlink", 50, 0.7, "6 links to 3 GPUs"},
        {"v100-x8", "s0/gpu3", "s0/gpu4", "nvlink", 0, 0, "modules meet through UPI only"},
        {"heteccl-v100-4+8", "s0/nic3", "fabric/switch", "net", 8, 1.3, "64 Gbit/s"},
        {"heteccl-v100-4+8", "s1/nic3", "fabric/switch", "net", 12.5, 1.3, "100 Gbit/s"},
        {"dgx1-v100", "s0/gpu0", "s0/gpu4", "nvlink", 50, 0.7, "two NVLinks"},
        {"dgx1-v100", "s0/gpu0", "s0/gpu3", "nvlink", 25, 0.7, "one NVLink"},
        {"dgx1-v100", "s0/gpu0", "s0/gpu5", "nvlink", 0, 0, "the cube mesh is not full"},
        {"dgx-2", "s0/gpu15", "s0/nvswitch", "nvlink", 150, 0.35, "6 NVLinks of 25 GB/s"},
        {"dgx-h100", "s0/gpu0", "s0/nvswitch", "nvlink", 450, 0.35, "900 both ways"},
        {"dgx-h200", "s0/gpu0", "s0/nvswitch", "nvlink", 450, 0.35, "900 both ways"},
        {"dgx-b200", "s0/gpu0", "s0/nvswitch", "nvlink", 900, 0.35, "14400 of 8, both ways"},
        {"h800-x8", "s0/gpu0", "s0/nvswitch", "nvlink", 180, 0.35, "SyCCL 7.1"},
        {"syccl-h800-512", "s63/nic7", "fabric/rail7", "net", 50, 1.3, "SyCCL: 8 rails"},
        {"syccl-a100-32", "s2/nic0", "fabric/leaf1", "net", 25, 1.3, "two servers a leaf"},
        {"syccl-a100-32", "fabric/leaf1", "fabric/spine7", "net", 50, 1.3, "2 x 200 Gbit/s"},
        {"syccl-7x4-rail", "fabric/rail3", "fabric/spine0", "net", 350, 1.3, "not oversubscribed"},
        {"syccl-8x4-clos", "fabric/spine1", "fabric/core0", "net", 800, 1.3, "not oversubscribed"},
        {"a800-x8", "s0/gpu0", "s0/nvswitch", "nvlink", 200, 0.35, "400 both ways"},
        {"hetccl-pku", "s4/nic0", "fabric/switch", "net", 12.5, 1.3, "table 6: 1 x 100 Gbit/s"},
        {"hetccl-pku", "s4/gpu15", "s4/nic0", "pcie", 12.5, 0.35, "16 devices share it"},
        {"hetccl-snu", "s0/gpu0", "s0/host0", "pcie", 12, 0.5, "V100: Gen3"},
        {"hetccl-snu", "s3/gpu0", "s3/host0", "pcie", 24, 0.5, "W7800: Gen4"},
        {"mi300x-x8", "s0/gpu0", "s0/gpu7", "xgmi", 47, 0, "measured"},
        {"resccl-topo4", "s3/gpu7", "s3/nic3", "pcie", 25, 0.35, "two GPUs a NIC"},
        {"resccl-topo4", "s3/nic3", "fabric/leaf1", "net", 25, 1.3, "two servers a ToR switch"},
        {"resccl-topo2", "s1/nic3", "fabric/leaf0", "net", 25, 1.3, "one rack"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *t = topology(rows[i].entry);
        check_link(t, rows[i].from, rows[i].to, rows[i].kind, rows[i].GBps, rows[i].us,
                   rows[i].why);
        ccl_topology_destroy(t);
    }
    /* ResCCL's NICs are where its contention is: four blocks fill one, eight lose. */
    ccl_topology_t *t = topology("resccl-topo4");
    ck_assert_double_eq(link_of(t, "s0/nic0", "fabric/leaf0")->contention, 0.1);
    ck_assert_double_eq(link_of(t, "s0/gpu0", "s0/nvswitch")->contention, 0);
    ccl_transport_t net;
    ck_assert(transport_of(t, "net", "Simple", &net));
    ck_assert_double_eq(4 * net.tb_rate_Bps, 25e9);
    ck_assert(net.holds_tb);
    ccl_topology_destroy(t);
    t = topology("mi300x-x8");
    ck_assert_uint_eq(t->ngroups, 8);
    ck_assert_uint_eq(t->groups[7].nlinks, 7);
    ck_assert_double_eq(t->groups[7].bandwidth_Bps, 317e9);
    ccl_topology_destroy(t);
}
END_TEST

/* Each chosen constant stands in the table of docs/clusters.md, in a row that names its entry. */
START_TEST(choices_are_declared) {
    char *text = NULL;
    size_t len = 0, declared = 0;
    MUST(ccl_file_read(CCLLAB_SOURCE_DIR "/docs/clusters.md", 1 << 20, &text, &len, e));
    for (const ccl_library_entry_t *entry = ccl_topology_library(); entry->name; entry++) {
        char quoted[80];
        snprintf(quoted, sizeof quoted, "`%s`", entry->name);
        ck_assert_msg(strstr(text, quoted) != NULL, "docs/clusters.md does not name %s",
                      entry->name);
        ccl_json_doc_t doc;
        MUST(ccl_json_parse(entry->name, entry->text, entry->len, &doc, e));
        const json_t *chosen = json_object_get(doc.root, "chosen");
        for (size_t i = 0; i < json_array_size(chosen); i++) {
            const char *line = json_string_value(json_array_get(chosen, i));
            const char *at = strstr(text, line);
            ck_assert_msg(at != NULL, "%s: not in docs/clusters.md: %s", entry->name, line);
            const char *end = strchr(at, '\n');
            /* Names are told apart by what follows them: "h20-x4" is in "heteccl-h20-x4" too. */
            bool named = false;
            size_t n = strlen(entry->name);
            for (const char *p = at + strlen(line); p && p < end && !named; p++) {
                p = strstr(p, entry->name);
                named = p && p < end && p[-1] == ' ' && (p[n] == ',' || p[n] == ' ');
                if (!p)
                    break;
            }
            ck_assert_msg(named, "%s is not in the row of: %s", entry->name, line);
            declared++;
        }
        ck_assert_msg(!entry->is_server || json_array_size(chosen) > 0,
                      "%s: thread-block rates come from nowhere", entry->name);
        ccl_json_fini(&doc);
    }
    ck_assert_uint_gt(declared, 100);
    free(text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("library");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, table);
    tcase_add_test(tc, expands_and_routes);
    tcase_add_test(tc, explicit_form_is_equal);
    tcase_add_test(tc, facts);
    tcase_add_test(tc, choices_are_declared);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
