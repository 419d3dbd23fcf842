/*
 * Out of memory at every single allocation in turn, while reading, writing and building: each time
 * CCL_ERR_NOMEM, nothing written to outputs, nothing leaked. malloc and friends are wrapped by the
 * linker; those inside jansson, expat and libc are left alone.
 */
#include "suite.h"

#include "tests/base/failing_malloc.h"

/** An assertion that leaves the allocations of the subject counted as they are. */
#define armed_assert(condition_)                                                                   \
    do {                                                                                           \
        bool was_ = armed;                                                                         \
        armed = false;                                                                             \
        ck_assert(condition_);                                                                     \
        armed = was_;                                                                              \
    } while (0)

static const char xml[] =
    "<algo name='v' proto='Simple' nchannels='1' nchunksperloop='2' ngpus='2' coll='custom' "
    "inplace='0'><demand name='two'>"
    "<chunk sources='0' destinations='1' reduced='0' bytes='3000'/>"
    "<chunk sources='1 0' destinations='all' reduced='1' bytes='1K'/></demand>"
    "<gpu id='0' i_chunks='2' o_chunks='1' s_chunks='2' s_shares='0.25 1e-3'>"
    "<tb id='0' send='1' recv='-1' chan='0'>"
    "<step s='7' type='s' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0' cnt='2' depid='-1' "
    "deps='-1' hasdep='1'/>"
    "<step s='3' type='s' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0' cnt='2' depid='0' "
    "deps='7' hasdep='0'/></tb></gpu>"
    "<gpu id='1' i_chunks='1' o_chunks='2' s_chunks='0'/></algo>";
static const char json[] =
    "{\"format\": \"ccllab-schedule-1\", \"name\": \"t\", \"collective\": {\"demand\": {\"name\": "
    "\"d\", \"nranks\": 4, \"chunks\": [{\"source\": [2, 0], \"destinations\": [3, 0], "
    "\"reduced\": true, \"bytes\": \"1K\"}]}},\n\"transfers\": [[0, 1, 0, 1],\n[2, 3, 0, 0]]}";
static const char demand[] =
    "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [[0, 1, 2], [4, 5, 6], [7, 8, 9]]}";
static const char resccl[] =
    "def ResCCLAlgo(nRanks=8, OpType=Allreduce):\n for i in range(7, 0, -1):\n  step = 7 - i\n"
    "  transfer(0, 1, step, i, recv)\n";
static const char flows[] = "4 3 2\n0 0 1 8 -1\n1 0 1 8 2\n2 0 1 8 -1\n";

static ccl_status_t read_xml(ccl_error_t *err) {
    ccl_program_t *p = NULL;
    ccl_text_t out = {0};
    ccl_status_t status = ccl_program_read_xml("f", xml, sizeof xml - 1, &p, err);
    armed_assert((p != NULL) == (status == CCL_OK));
    if (status == CCL_OK)
        status = ccl_program_write_xml(p, &out, err);
    ccl_text_fini(&out);
    ccl_program_destroy(p);
    return status;
}

static ccl_status_t read_json(ccl_error_t *err) {
    ccl_schedule_t *s = NULL;
    ccl_text_t out = {0};
    ccl_status_t status = ccl_schedule_read_json("f", json, sizeof json - 1, &s, err);
    armed_assert((s != NULL) == (status == CCL_OK));
    if (status == CCL_OK)
        status = ccl_schedule_write_json(s, &out, err);
    ccl_text_fini(&out);
    ccl_schedule_destroy(s);
    return status;
}

static ccl_status_t read_demand(ccl_error_t *err) {
    ccl_collective_t *coll = NULL, *split = NULL;
    ccl_status_t status = ccl_demand_read_text("f", demand, sizeof demand - 1, &coll, err);
    armed_assert((coll != NULL) == (status == CCL_OK));
    if (status == CCL_OK)
        status = ccl_collective_split(coll, 3, &split, err);
    armed_assert((split != NULL) == (status == CCL_OK));
    ccl_collective_destroy(split);
    ccl_collective_destroy(coll);
    return status;
}

static ccl_status_t read_resccl(ccl_error_t *err) {
    ccl_schedule_t *s = NULL;
    ccl_status_t status = ccl_schedule_read_resccl("f", resccl, sizeof resccl - 1, &s, err);
    armed_assert((s != NULL) == (status == CCL_OK));
    ccl_schedule_destroy(s);
    return status;
}

static ccl_status_t read_flows(ccl_error_t *err) {
    ccl_flow_list_t *list = NULL;
    ccl_status_t status = ccl_flow_list_read_text("f", flows, sizeof flows - 1, &list, err);
    armed_assert((list != NULL) == (status == CCL_OK));
    ccl_flow_list_destroy(list);
    return status;
}

static ccl_status_t build(ccl_error_t *err) {
    static const double shares[] = {0.5, 0.5};
    ccl_collective_t *coll = NULL;
    ccl_program_t *p = NULL;
    CCL_TRY(ccl_collective_create(CCL_ALLREDUCE, 2, 2, 0, &coll, err));
    ccl_program_builder_t *b = ccl_program_builder_create("p", coll, 2, "LL");
    if (!b)
        return CCL_ERR_NOMEM;
    for (uint32_t r = 0; r < 2; r++) {
        for (unsigned buffer = 0; buffer < 2; buffer++)
            ccl_program_builder_shares(b, r, (ccl_buffer_t)buffer, shares);
        uint32_t tb = ccl_program_builder_tb(b, r, 1 - r, 1 - r, 0);
        for (unsigned i = 0; i < 40; i++)
            ccl_program_builder_step(
                b, tb,
                (ccl_step_t){
                    .count = 1, .dep_tb = CCL_NONE, .dep_step = CCL_NONE, .type = CCL_PRIM_RRS});
    }
    ccl_status_t status = ccl_program_builder_finish(b, &p, err);
    armed_assert((p != NULL) == (status == CCL_OK));
    ccl_program_destroy(p);
    return status;
}

static ccl_topology_t *two;

static ccl_status_t place(ccl_error_t *err) {
    ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
    ccl_collective_t *coll = NULL;
    ccl_moe_report_t report;
    ccl_text_t placed = {0};
    o.experts = 10;
    o.copies = 3;
    o.top_k = 2;
    o.tokens = 4;
    o.affinity = 0.5;
    o.placement = CCL_MOE_OPTIMISED;
    o.write = &placed;
    ccl_status_t status = ccl_moe_demand(two, &o, &coll, &report, err);
    armed_assert((coll != NULL) == (status == CCL_OK));
    if (status == CCL_OK && placed.nomem)
        status = ccl_fail_nomem(err);
    ccl_text_fini(&placed);
    ccl_collective_destroy(coll);
    return status;
}

static const struct {
    const char *why;
    ccl_status_t (*run)(ccl_error_t *err);
    long least; /* allocations that it must make, or the row tests little */
} scenarios[] = {
    {"MSCCL XML", read_xml, 25},    {"schedule JSON", read_json, 15}, {"demand", read_demand, 10},
    {"ResCCLang", read_resccl, 15}, {"flow list", read_flows, 6},     {"builder", build, 15},
    {"experts", place, 30},
};

START_TEST(every_allocation) {
    ck_assert_int_eq(
        ccl_topology_read(NULL, "servers:2 gpus:2 nvswitch=300GB/s nics:2x25GB/s", &two, NULL),
        CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(scenarios); i++) {
        for (long n = 0;; n++) {
            ccl_error_t err = CCL_ERROR_INIT;
            fail_in = n;
            armed = true;
            ccl_status_t status = scenarios[i].run(&err);
            bool struck = fail_in < 0;
            armed = false;
            if (status == CCL_OK && !struck) {
                ck_assert_msg(n >= scenarios[i].least, "%s: only %ld allocations", scenarios[i].why,
                              n);
                break;
            }
            ck_assert_msg(status == CCL_ERR_NOMEM, "%s: allocation %ld: %s %s", scenarios[i].why, n,
                          ccl_status_name(status), err.text);
            ck_assert_int_lt(n, 100000);
        }
    }
    ccl_topology_destroy(two);
}
END_TEST

SUITE_MAIN("memory", every_allocation)
