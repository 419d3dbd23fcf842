/* What-if edits: what goes, what stays, how ranks move, what is refused. */
#include <check.h>
#include <math.h>

#include "topology_helpers.h"

/* Two servers of two GPUs behind switches "sw-0", "sw-1" with a trunk; gpu ids hold hyphens. */
static ccl_topology_t *cluster(void) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("pair");
    ccl_topology_builder_about(b, "src", "note");
    ccl_gpu_model_t model = ccl_gpu_model_default("M");
    model.sms = 9;
    MUST(ccl_topology_builder_gpu_model(b, &model, e));
    const char *gpus[] = {"a-0", "a-1", "b-0", "b-1"};
    const uint32_t ranks[] = {2, 0, 3, 1};
    for (uint32_t i = 0; i < 4; i++)
        MUST(ccl_topology_builder_device(b, gpus[i], CCL_DEVICE_GPU, i < 2 ? "a" : "b", ranks[i],
                                         "M", NULL, e));
    add_device(b, "sw-0", CCL_DEVICE_SWITCH, "a", CCL_NONE); /* 4 */
    add_device(b, "sw-1", CCL_DEVICE_SWITCH, "b", CCL_NONE); /* 5 */
    add_device(b, "mlx5_0", CCL_DEVICE_NIC, "a", CCL_NONE);  /* 6 */
    add_device(b, "mlx5_1", CCL_DEVICE_NIC, "a", CCL_NONE);  /* 7 */
    for (uint32_t i = 0; i < 4; i++)
        add_duplex(b, i, i < 2 ? 4 : 5, "nvlink", 100, 1); /* links 0..7 */
    add_duplex(b, 4, 6, "pcie", 20, 1);                    /* 8, 9 */
    add_duplex(b, 4, 7, "pcie", 20, 1);                    /* 10, 11 */
    add_duplex(b, 6, 5, "net", 10, 1);                     /* 12, 13 */
    add_duplex(b, 7, 5, "net", 10, 1);                     /* 14, 15 */
    const uint32_t both[] = {8, 10}, one[] = {12};
    MUST(ccl_topology_builder_group(b, "both", 30e9, both, 2, e));
    MUST(ccl_topology_builder_group(b, "one", 9e9, one, 1, e));
    ccl_transport_spec_t spec = {
        .kind = "net", .given = CCL_TRANSPORT_SLOTS, .value = {.slots = 2}};
    MUST(ccl_topology_builder_transport(b, &spec, e));
    return finish(b);
}

START_TEST(fail_gpu) {
    const char *edits[] = {"fail:gpu:1", "fail:b-1", "fail:gpu:b-1", "fail:rank:1"};
    ccl_topology_t *t = cluster();
    for (size_t i = 0; i < CCL_ARRAY_LEN(edits); i++) {
        ccl_topology_t *n = edited(t, edits[i]);
        ck_assert_uint_eq(n->nranks, 3);
        ck_assert_uint_eq(n->ndevices, 7);
        ck_assert_uint_eq(n->nlinks, 14);
        const char *left[] = {"a-1", "a-0", "b-0"}; /* ranks 0, 2, 3 become 0, 1, 2 */
        for (uint32_t r = 0; r < 3; r++)
            ck_assert_str_eq(n->devices[n->rank_device[r]].id, left[r]);
        ck_assert_uint_eq(n->rank_local_index[2], 0);
        ck_assert_str_eq(n->name, "pair");
        ck_assert_str_eq(n->source, "src");
        ck_assert_uint_eq(n->gpu_models[n->devices[0].model].sms, 9);
        ck_assert_uint_eq(n->transports[0].value.slots, 2);
        ck_assert_uint_eq(n->ngroups, 2); /* over links that moved but are still there */
        ck_assert_str_eq(n->devices[n->links[n->groups[1].links[0]].from].id, "mlx5_0");
        ccl_topology_destroy(n);
    }
    ck_assert_uint_eq(t->nranks, 4); /* the original is untouched */
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(fail_nic) {
    const char *edits[] = {"fail:nic:mlx5_0", "fail:mlx5_0", "fail:nic:0"};
    ccl_topology_t *t = cluster();
    for (size_t i = 0; i < CCL_ARRAY_LEN(edits); i++) {
        ccl_topology_t *n = edited(t, edits[i]);
        ck_assert_uint_eq(n->nranks, 4);
        ck_assert_uint_eq(n->nlinks, 12);
        ck_assert_uint_eq(n->ngroups, 1); /* "one" had only links of that NIC */
        ck_assert_str_eq(n->groups[0].name, "both");
        ck_assert_uint_eq(n->groups[0].nlinks, 1);
        ck_assert_str_eq(n->devices[n->links[n->groups[0].links[0]].to].id, "mlx5_1");
        ccl_topology_destroy(n);
    }
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(fail_server) {
    const char *edits[] = {"fail:server:1", "fail:server:b"};
    ccl_topology_t *t = cluster();
    for (size_t i = 0; i < CCL_ARRAY_LEN(edits); i++) {
        ccl_topology_t *n = edited(t, edits[i]);
        ck_assert_uint_eq(n->nranks, 2);
        ck_assert_uint_eq(n->ndevices, 5); /* two GPUs, their switch, two NICs */
        ck_assert_uint_eq(n->nservers, 1);
        ck_assert_uint_eq(n->nlinks, 8);
        ck_assert_str_eq(n->devices[n->rank_device[0]].id, "a-1"); /* rank 0 stays, 2 becomes 1 */
        ck_assert_str_eq(n->devices[n->rank_device[1]].id, "a-0");
        ck_assert_uint_eq(n->ngroups, 1);
        ccl_topology_destroy(n);
    }
    ccl_topology_destroy(t);
}
END_TEST

/* Links of a device or a server, as bits; faster ones than the rate only. */
static const struct {
    const char *why, *edit;
    uint32_t links;
    double Bps, share;
} part_rows[] = {
    {"a share of a NIC", "degrade:nic:1=50%", 0xcc00, 0, 0.5},
    {"a share of a NIC by id", "degrade:mlx5_1=50%", 0xcc00, 0, 0.5},
    {"a rate that its PCIe has and its network has not", "degrade:nic:0=15GB/s", 0x300, 15e9, 0},
    {"a GPU", "degrade:gpu:0=10%", 0xc, 0, 0.1},
    {"a GPU by rank", "degrade:rank:3=10%", 0x30, 0, 0.1},
    {"a switch", "degrade:switch:1=25%", 0xf0f0, 0, 0.25},
    {"a server, with the links that leave it", "degrade:server:a=25%", 0xff0f, 0, 0.25},
    {"a share of a link", "degrade:a-0-sw-0=75%", 3, 0, 0.75},
};

START_TEST(degrade_part) {
    ccl_topology_t *t = cluster(), *n = edited(t, part_rows[_i].edit);
    for (uint32_t l = 0; l < t->nlinks; l++) {
        double before = t->links[l].bandwidth_Bps, want = before;
        if (part_rows[_i].links >> l & 1)
            want = part_rows[_i].share > 0 ? before * part_rows[_i].share : part_rows[_i].Bps;
        ck_assert_msg(n->links[l].bandwidth_Bps == want, "%s: link %u has %g", part_rows[_i].why, l,
                      n->links[l].bandwidth_Bps);
    }
    ccl_topology_destroy(n);
    ccl_topology_destroy(t);
}
END_TEST

typedef struct degrade_row {
    const char *why, *edit;
    uint32_t changed[2]; /* CCL_NONE: one only */
    double Bps;
} degrade_row_t;

static const degrade_row_t degrade_rows[] = {
    {"both ways", "degrade:mlx5_0-sw-1=18Gbit/s", {12, 13}, 18e9 / 8},
    {"both ways, named backward", "degrade:sw-1-mlx5_0=18Gbit/s", {12, 13}, 18e9 / 8},
    {"one way", "degrade:mlx5_0->sw-1=1GB/s", {12, CCL_NONE}, 1e9},
    {"one way, back", "degrade:sw-1->mlx5_0=1GB/s", {13, CCL_NONE}, 1e9},
    {"hyphens in both ids", "degrade:a-0-sw-0=1GB/s", {0, 1}, 1e9},
    {"by rank", "degrade:gpu:2-sw-0=1GB/s", {0, 1}, 1e9},
    {"by rank, one way", "degrade:sw-0->gpu:0=1GB/s", {3, CCL_NONE}, 1e9},
    {"by kind and id", "degrade:nic:mlx5_1-switch:sw-1=2GB/s", {14, 15}, 2e9},
};

START_TEST(degrade) {
    const degrade_row_t *row = &degrade_rows[_i];
    ccl_topology_t *t = cluster(), *n = edited(t, row->edit);
    ck_assert_uint_eq(n->nlinks, t->nlinks);
    for (uint32_t l = 0; l < t->nlinks; l++) {
        bool changed = l == row->changed[0] || l == row->changed[1];
        ck_assert_msg(n->links[l].bandwidth_Bps == (changed ? row->Bps : t->links[l].bandwidth_Bps),
                      "%s: link %u has %g", row->why, l, n->links[l].bandwidth_Bps);
        ck_assert(n->links[l].latency_s == t->links[l].latency_s);
    }
    ck_assert_uint_eq(n->ngroups, 2);
    ccl_topology_destroy(n);
    ccl_topology_destroy(t);
}
END_TEST

typedef struct scale_row {
    const char *why, *edit;
    uint32_t bandwidth, latency; /* a bit per link that changes */
    uint32_t groups;             /* a bit per group */
    double factor;
    double overhead_us, latency_us, tb_GBps, net_slots, copy_GBps; /* then; 0: as before */
} scale_row_t;

static const scale_row_t scale_rows[] = {
    {"a kind, and the group of its links", "scale:bandwidth:net=2", .bandwidth = 0xf000,
     .latency = 0, .groups = 2, .factor = 2},
    {"a kind at a server", "scale:bandwidth:net@a=0.5", .bandwidth = 0xf000, .latency = 0,
     .groups = 2, .factor = 0.5},
    {"a kind at another", "scale:bandwidth:nvlink@b=3", .bandwidth = 0xf0, .latency = 0,
     .groups = 0, .factor = 3},
    {"two links, not the group of three", "scale:bandwidth:sw-0-mlx5_0=2", .bandwidth = 0x300,
     .latency = 0, .groups = 0, .factor = 2},
    {"one link, whose group is of it alone", "scale:bandwidth:mlx5_0->sw-1=2", .bandwidth = 0x1000,
     .latency = 0, .groups = 2, .factor = 2},
    {"a group alone", "scale:bandwidth:group:both=2", .bandwidth = 0, .latency = 0, .groups = 1,
     .factor = 2},
    {"everything", "scale:bandwidth=2", .bandwidth = 0xffff, .latency = 0, .groups = 3,
     .factor = 2},
    {"latency of a kind and its transport", "scale:latency:net=0.5", .bandwidth = 0,
     .latency = 0xf000, .groups = 0, .factor = 0.5, .latency_us = 2},
    {"latency of links", "scale:latency:a-0-sw-0=0", .latency = 3, .factor = 0},
    {"latency of everything", "scale:latency=0.5", .bandwidth = 0, .latency = 0xffff, .groups = 0,
     .factor = 0.5, .latency_us = 2},
    {"overhead", "scale:overhead:net=0.5", .overhead_us = 4},
    {"no limit", "scale:tb_rate=inf", .tb_GBps = INFINITY},
    {"a faster block", "scale:tb_rate:net=1.5", .tb_GBps = 9},
    {"slots", "scale:slots:net=3", .net_slots = 6},
    {"half a slot is one", "scale:slots=0.1", .net_slots = 1},
    {"of the GPUs", "scale:copy_rate=2", .copy_GBps = 20},
    {"not of these GPUs", "scale:reduce_rate=inf", .copy_GBps = 10},
};

START_TEST(scale) {
    const scale_row_t *row = &scale_rows[_i];
    ccl_topology_t *plain = cluster(), *t = NULL;
    ccl_text_t json = {0};
    /* with a transport that has all of it */
    ck_assert_int_eq(ccl_topology_write_json(plain, &json, NULL), CCL_OK);
    char *at = strstr(json.data, "\"slots\"");
    ck_assert_ptr_nonnull(at);
    ccl_text_t with = {0};
    ccl_text_printf(&with, "%.*s\"overhead\":\"8us\",\"latency\":\"4us\",\"tb_rate\":\"6GB/s\",%s",
                    (int)(at - json.data), json.data, at);
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read_text(NULL, "t", with.data, with.len, &t, &err) == CCL_OK, "%s",
                  err.text);
    ccl_gpu_model_t fast = t->gpu_models[0]; /* the only one; it copies at 10 GB/s */
    fast.copy_rate_Bps = 10e9;
    ccl_topology_t copies = *t;
    copies.gpu_models = &fast;
    ccl_topology_t *n = edited(&copies, row->edit);
    for (uint32_t l = 0; l < 16; l++) {
        double of = row->bandwidth >> l & 1 ? row->factor : 1;
        ck_assert_msg(n->links[l].bandwidth_Bps == t->links[l].bandwidth_Bps * of,
                      "%s: link %u has %g B/s", row->why, l, n->links[l].bandwidth_Bps);
        of = row->latency >> l & 1 ? row->factor : 1;
        ck_assert_msg(n->links[l].latency_s == t->links[l].latency_s * of, "%s: link %u takes %g s",
                      row->why, l, n->links[l].latency_s);
    }
    for (uint32_t g = 0; g < 2; g++)
        ck_assert_msg(n->groups[g].bandwidth_Bps ==
                          t->groups[g].bandwidth_Bps * (row->groups >> g & 1 ? row->factor : 1),
                      "%s: group %u", row->why, g);
    ccl_transport_t net = ccl_transport_default("net");
    for (uint32_t i = 0; i < n->ntransports; i++)
        if (strcmp(n->transports[i].kind, "net") == 0)
            net = n->transports[i].value;
    ck_assert_double_eq_tol(net.overhead_s, (row->overhead_us ? row->overhead_us : 8) / 1e6, 1e-15);
    ck_assert_double_eq_tol(net.latency_s, (row->latency_us ? row->latency_us : 4) / 1e6, 1e-15);
    ck_assert(net.tb_rate_Bps == (row->tb_GBps ? row->tb_GBps : 6) * 1e9);
    ck_assert_uint_eq(net.slots, row->net_slots ? (uint32_t)row->net_slots : 2);
    ck_assert(n->gpu_models[0].copy_rate_Bps == (row->copy_GBps ? row->copy_GBps : 10) * 1e9);
    ck_assert(isinf(n->gpu_models[0].reduce_rate_Bps));
    ccl_topology_destroy(n);
    ccl_topology_destroy(t);
    ccl_topology_destroy(plain);
    ccl_text_fini(&json);
    ccl_text_fini(&with);
}
END_TEST

typedef struct set_row {
    const char *why, *edit;
    double net_slots, nvlink_slots, ll_slots, slice; /* then; 0: as before */
    uint32_t sms[2];
} set_row_t;

/* The GPUs of server a have a model of 8 SMs, those of b none. */
static const set_row_t set_rows[] = {
    {"of a kind, with its protocols", "set:slots:net=5", 5, 0, 5, 0, {0, 0}},
    {"of all kinds", "set:slots=5", 5, 5, 5, 0, {0, 0}},
    {"what protocols leave alone", "set:slice:net=64K", 0, 0, 0, 65536, {0, 0}},
    {"no limit", "set:slice:net=inf", 0, 0, 0, INFINITY, {0, 0}},
    {"fewer blocks", "set:blocks=4", 0, 0, 0, 0, {4, 4}},
    {"not more than the SMs", "set:blocks=100", 0, 0, 0, 0, {8, 100}},
};

START_TEST(set) {
    static const char text[] =
        "{\"format\": \"ccllab-topology-1\", \"name\": \"t\", \"devices\": ["
        "{\"id\": \"a\", \"kind\": \"gpu\", \"rank\": 0, \"server\": \"a\", \"model\": \"gpu\"},"
        "{\"id\": \"b\", \"kind\": \"gpu\", \"rank\": 1, \"server\": \"b\"}],"
        "\"gpu_models\": {\"gpu\": {\"sms\": 8}},"
        "\"transports\": {\"net\": {\"slots\": 2, \"slice\": \"1M\","
        " \"protocols\": {\"LL\": {\"slots\": 3}}}},"
        "\"links\": ["
        "{\"from\": \"a\", \"to\": \"b\", \"kind\": \"net\", \"bandwidth\": \"1GB/s\","
        " \"latency\": \"1us\", \"duplex\": true},"
        "{\"from\": \"a\", \"to\": \"b\", \"kind\": \"nvlink\", \"bandwidth\": \"1GB/s\","
        " \"latency\": \"1us\", \"duplex\": true}]}";
    const set_row_t *row = &set_rows[_i];
    ccl_topology_t *t = NULL;
    t = topology_of(text);
    ccl_topology_t *n = edited(t, row->edit);
    uint32_t slots[3] = {2, 8, 3}; /* net, nvlink's default, net under LL */
    double slice = 1048576;
    for (uint32_t i = 0; i < n->ntransports; i++) {
        const ccl_transport_spec_t *spec = &n->transports[i];
        bool net = strcmp(spec->kind, "net") == 0;
        if (spec->given & CCL_TRANSPORT_SLOTS)
            slots[spec->protocol ? 2 : net ? 0 : 1] = spec->value.slots;
        if (net && !spec->protocol)
            slice = spec->given & CCL_TRANSPORT_SLICE ? spec->value.slice_bytes : INFINITY;
    }
    ck_assert_uint_eq(slots[0], row->net_slots ? (uint32_t)row->net_slots : 2);
    ck_assert_uint_eq(slots[1], row->nvlink_slots ? (uint32_t)row->nvlink_slots : 8);
    ck_assert_uint_eq(slots[2], row->ll_slots ? (uint32_t)row->ll_slots : 3);
    ck_assert(slice == (row->slice ? row->slice : 1048576));
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t model = n->devices[n->rank_device[r]].model;
        uint32_t sms = model == CCL_NONE ? 0 : n->gpu_models[model].sms;
        ck_assert_uint_eq(sms, row->sms[r] ? row->sms[r] : r == 0 ? 8 : 0);
    }
    ccl_topology_destroy(n);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(fail_links) {
    ccl_topology_t *t = cluster();
    ccl_topology_t *n = edited(t, "fail:mlx5_0-sw-1");
    ck_assert_uint_eq(n->nlinks, 14);
    ck_assert_uint_eq(n->ndevices, 8);
    ck_assert_uint_eq(n->ngroups, 1);
    ccl_topology_t *m = edited(n, "fail:mlx5_0->sw-0"); /* edits add up, until it is too much */
    ccl_topology_destroy(m);
    ccl_topology_destroy(n);
    ccl_topology_destroy(t);
}
END_TEST

typedef struct bad_row {
    const char *why, *edit, *expect;
} bad_row_t;

static const bad_row_t bad_rows[] = {
    {"no verb", "gpu:3", "unknown edit"},
    {"other verb", "break:gpu:3", "unknown edit"},
    {"empty", "", "unknown edit"},
    {"nothing failed", "fail:", "no device"},
    {"rank beyond", "fail:gpu:4", "ranks are 0 to 3"},
    {"huge rank", "fail:gpu:99999999999999999999", "no device"},
    {"unknown nic, near", "fail:nic:mlx5_2", "the nearest device is \"mlx5_"},
    {"wrong kind", "fail:nic:sw-0", "is a switch"},
    {"unknown device", "fail:zzzzzzzz", "no device or link"},
    {"NIC beyond", "fail:nic:2", "no nic 2; they are 0 to 1"},
    {"server beyond", "fail:server:2", "no server 2; they are 0 to 1"},
    {"a kind that is not there", "fail:host:0", "the cluster names no host"},
    {"both servers' trunk", "fail:server:0x", "server:INDEX"},
    {"a share above the whole", "degrade:nic:0=150%", "no share of a bandwidth"},
    {"no share", "degrade:nic:0=0%", "no share of a bandwidth"},
    {"a kind before a pair's id is not its nearest", "fail:gpu:a-0-sw-1", "no link from"},
    {"cut off", "fail:sw-1", "no path from gpu"},
    {"last link", "fail:a-0-sw-0", "no path from gpu"},
    {"no rate", "degrade:a-0-sw-0", "no bandwidth"},
    {"rate without unit", "degrade:a-0-sw-0=18", "unit"},
    {"zero rate", "degrade:a-0-sw-0=0GB/s", "zero"},
    {"no link between", "degrade:a-0-b-0=1GB/s", "no link from \"a-0\" to \"b-0\" or back"},
    {"no link that way", "degrade:a-0->b-0=1GB/s", "no link from \"a-0\" to \"b-0\""},
    {"one end", "degrade:a-9-=1GB/s", "no device or link"},
    {"unknown end", "degrade:a-0-sw-7=1GB/s", "no device or link"},
    {"no factor", "scale:bandwidth:net", "no factor"},
    {"no quantity", "scale:=2", "nothing called \"\" to scale"},
    {"a quantity misspelled", "scale:bandwith:net=2", "nearest is bandwidth"},
    {"no number", "scale:bandwidth:net=fast", "factor \"fast\""},
    {"a negative factor", "scale:latency=-1", "a number from 0 on"},
    {"no bandwidth left", "scale:bandwidth=0", "a number above 0"},
    {"an endless bandwidth", "scale:bandwidth=inf", "a number above 0, such as 2"},
    {"no such server", "scale:bandwidth:net@c=2", "no server \"c\""},
    {"no such links", "scale:bandwidth:a-0-b-0=2", "no link from \"a-0\" to \"b-0\" or back"},
    {"transports have no servers", "scale:slots:net@a=2", "only the kind counts"},
    {"GPU models have no kinds", "scale:flag:net=2", "of all GPU models"},
    {"too much", "scale:bandwidth=1e300", "factor"},
    {"nothing degraded", "degrade:=1GB/s", "no device or link"},
    {"no value", "set:slice:net", "no value"},
    {"a constant misspelled", "set:slise=64K", "nearest is slice"},
    {"no constant", "set:=64K", "nothing called \"\" to set"},
    {"bytes without end", "set:slice=64Q", "slice: "},
    {"no bytes", "set:piece=0", "more than 0"},
    {"a rate without unit", "set:tb_rate=5", "tb_rate: "},
    {"no slot", "set:slots=0", "a whole number from 1"},
    {"half a slot", "set:slots=1.5", "a whole number from 1"},
    {"neither yes nor no", "set:direct=yes", "true or false"},
    {"no mechanism", "set:mechanism=rdma", "device, host or proxy"},
    {"no such kind", "set:slots:pcie5=2", "no kind of link \"pcie5\""},
    {"GPUs have no kinds", "set:blocks:net=2", "of all GPU models"},
};

START_TEST(refused) {
    const bad_row_t *row = &bad_rows[_i];
    ccl_topology_t *t = cluster(), *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_edit(t, row->edit, &n, &err);
    ck_assert_msg(status == CCL_ERR_INPUT, "%s: %s", row->why, ccl_status_name(status));
    ck_assert_msg(strstr(err.text, row->expect) != NULL, "%s: %s", row->why, err.text);
    ck_assert_str_eq(err.where, row->edit);
    ck_assert_ptr_null(n);
    ccl_topology_destroy(t);
}
END_TEST

/* "x-y" and "z" against "x" and "y-z": the text alone cannot tell which link is meant. */
START_TEST(ambiguous) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    const char *ids[] = {"x", "y-z", "x-y", "z"};
    for (uint32_t i = 0; i < 4; i++)
        add_device(b, ids[i], CCL_DEVICE_GPU, NULL, i);
    add_duplex(b, 0, 1, "net", 1, 0);
    add_duplex(b, 1, 2, "net", 1, 0);
    add_duplex(b, 2, 3, "net", 1, 0);
    ccl_topology_t *t = finish(b), *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_topology_edit(t, "degrade:x-y-z=2GB/s", &n, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "more than one pair"));
    n = edited(t, "degrade:x->y-z=2GB/s"); /* the arrow settles it */
    ck_assert(n->links[0].bandwidth_Bps == 2e9 && n->links[4].bandwidth_Bps == 1e9);
    ccl_topology_destroy(n);
    ccl_topology_destroy(t);
}
END_TEST

/* Failing every GPU in turn: ranks stay dense and in order, or the refusal names two GPUs. */
START_TEST(random_failures) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 99);
    int done = 0, refused = 0;
    for (int round = 0; round < 60; round++) {
        ccl_topology_t *t =
            random_topology(&rng, 2 + ccl_rng_below(&rng, 6), ccl_rng_below(&rng, 6), 12, true);
        for (uint32_t r = 0; r < t->nranks; r++) {
            char edit[32];
            snprintf(edit, sizeof edit, "fail:gpu:%u", r);
            ccl_topology_t *n = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            if (ccl_topology_edit(t, edit, &n, &err) != CCL_OK) {
                ck_assert_ptr_nonnull(strstr(err.text, "no path from gpu"));
                refused++;
                continue;
            }
            for (uint32_t k = 0; k < n->nranks; k++)
                ck_assert_str_eq(n->devices[n->rank_device[k]].id,
                                 t->devices[t->rank_device[k < r ? k : k + 1]].id);
            ccl_topology_destroy(n);
            done++;
        }
        ccl_topology_destroy(t);
    }
    ck_assert_int_gt(done, 100);
    ck_assert_int_gt(refused, 5);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.topologies.edit");
    TCase *tc = tcase_create("edit");
    tcase_add_test(tc, fail_gpu);
    tcase_add_test(tc, fail_nic);
    tcase_add_test(tc, fail_server);
    tcase_add_loop_test(tc, degrade_part, 0, (int)CCL_ARRAY_LEN(part_rows));
    tcase_add_loop_test(tc, scale, 0, (int)CCL_ARRAY_LEN(scale_rows));
    tcase_add_loop_test(tc, set, 0, (int)CCL_ARRAY_LEN(set_rows));
    tcase_add_loop_test(tc, degrade, 0, (int)CCL_ARRAY_LEN(degrade_rows));
    tcase_add_test(tc, fail_links);
    tcase_add_loop_test(tc, refused, 0, (int)CCL_ARRAY_LEN(bad_rows));
    tcase_add_test(tc, ambiguous);
    tcase_add_test(tc, random_failures);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
