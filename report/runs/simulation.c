/* One simulated run: the time, how busy every link was, what every thread block waited for. */
#include "report/runs/simulation.h"
#include "report/runs/spread.h"

#include <math.h>
#include <string.h>

const char *const ccl_report_simulation_tables[] = {"summary", "links", "thread_blocks", "flows",
                                                    NULL};

void ccl_report_link_classes(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                             ccl_link_class_t *out) {
    memset(out, 0, topo->nkinds * sizeof(*out));
    for (uint32_t k = 0; k < topo->nkinds; k++)
        out[k].kind = topo->kinds[k];
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        ccl_link_class_t *c = &out[topo->links[l].kind];
        double u = result->links[l].utilization;

        c->min = c->nlinks == 0 ? u : fmin(c->min, u);
        c->max = c->nlinks == 0 ? u : fmax(c->max, u);
        c->nlinks++;
        c->used += result->links[l].bytes > 0;
        c->bytes += result->links[l].bytes;
        c->mean += u;
    }
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        if (out[k].nlinks > 0)
            out[k].mean /= out[k].nlinks;
    }
}

static bool finished(const ccl_report_run_t *run) {
    return run->result && !run->result->deadlock;
}

static const char *collective_name(const ccl_report_run_t *run) {
    return run->program ? run->program->coll->name : NULL;
}

/* ---------------------------------------------------------------- rows */

typedef struct run_row {
    const ccl_report_run_t *of;
    ccl_i_link_rows_t links;
    const char *input, *topology, *profile, *collective, *proto, *sharing, *origin;
    uint32_t nranks;
    bool is_program, is_plan, done, done_program, deadlocked;
    const bool *valid; /* NULL: not verified */
    const void *fault, *deadlock, *spread;
    ccl_i_spread_row_t spread_row;
    ccl_i_fault_row_t fault_row;
    ccl_i_deadlock_row_t deadlock_row;
    ccl_i_way_row_t way;
    ccl_i_usage_row_t usage;
    double size_bytes, claimed_s, time_s, bound_s, gap, algbw_GBps, busbw_GBps, batches,
        chunk_bytes;
    uint64_t transfers, flows, events, rate_changes, skipped_batches;
} run_row_t;

typedef struct flow_row {
    uint32_t id, src, dst;
    double bytes, done_s;
} flow_row_t;

static uint64_t count_blocks(const void *root) {
    const run_row_t *run = root;

    return run->is_program && run->done && run->of->result->tbs ? run->of->result->ntbs : 0;
}

static const void *block_at(const void *root, uint64_t i, void *scratch) {
    const run_row_t *run = root;
    ccl_i_block_row_t *out = scratch;

    *out = ccl_i_block_row(&run->of->program->tbs[i], &run->of->result->tbs[i]);
    return out;
}

/** Flow lists: when each flow arrived. */
static uint64_t count_flows(const void *root) {
    const run_row_t *run = root;

    return run->of->flows && run->done && run->of->result->flow_done_s ? run->of->flows->nflows : 0;
}

static const void *flow_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_run_t *run = ((const run_row_t *)root)->of;
    flow_row_t *out = scratch;

    *out = (flow_row_t){(uint32_t)i, run->flows->src[i], run->flows->dst[i], run->flows->bytes[i],
                        run->result->flow_done_s[i]};
    return out;
}

static const char *sharing_name(const ccl_report_run_t *run) {
    if (run->epochs)
        return run->unicast ? "fifo" : "fifo-multicast";
    return ccl_i_sharing_name(run->options->sharing);
}

/** What the run itself gave. */
static void row_of_result(const ccl_report_run_t *run, run_row_t *out) {
    const ccl_sim_result_t *r = run->result;
    ccl_sim_usage_t usage = {0};

    out->batches = out->chunk_bytes = NAN;
    out->time_s = out->gap = out->algbw_GBps = out->busbw_GBps = NAN;
    out->transfers = out->flows = UINT64_MAX;
    if (r && run->program) {
        out->batches = r->batches;
        out->chunk_bytes = r->chunk_bytes;
        out->deadlock = ccl_i_deadlock_row(r->deadlock, &out->deadlock_row);
    }
    out->deadlocked = r && r->deadlock;
    if (out->done) {
        out->links = (ccl_i_link_rows_t){run->topo, r};
        out->time_s = r->time_s;
        out->gap = ccl_i_gap(r->time_s, out->bound_s);
        out->transfers = r->transfers;
        out->flows = r->flows;
        out->events = r->events;
        out->rate_changes = r->rate_changes;
        out->skipped_batches = r->skipped_batches;
    }
    if (out->done_program) {
        out->algbw_GBps = r->algbw_GBps;
        out->busbw_GBps = r->busbw_GBps;
        ccl_sim_usage(run->program, r, &usage);
    }
    out->usage = ccl_i_usage_row(&usage, out->done_program);
}

static void row_of(const ccl_report_run_t *run, run_row_t *out) {
    const ccl_way_t own = {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, run->options->granularity};
    *out =
        (run_row_t){.of = run,
                    .input = run->input,
                    .topology = run->topo->name,
                    .profile = ccl_i_profile_name(run->topo),
                    .collective = collective_name(run),
                    .proto = run->program ? run->program->proto : NULL,
                    .origin = run->program && run->program->origin[0] ? run->program->origin : NULL,
                    .sharing = sharing_name(run),
                    .nranks = run->topo->nranks,
                    .is_program = run->program != NULL,
                    .is_plan = run->epochs != NULL,
                    .done = finished(run),
                    .done_program = finished(run) && run->program,
                    .valid = run->verdict ? &run->verdict->valid : NULL,
                    .way = ccl_i_way_row(run->way ? run->way : &own, run->way != NULL),
                    .size_bytes = run->options->size_bytes,
                    .claimed_s = run->epochs ? run->epochs->finish_s : NAN,
                    .bound_s = run->bound ? run->bound->time_s : NAN};

    out->fault = ccl_i_fault_row(run->verdict, &out->fault_row);
    if (run->spread) {
        ccl_i_spread_row(run->spread, &out->spread_row);
        out->spread = &out->spread_row;
    }
    row_of_result(run, out);
}

/* ---------------------------------------------------------------- what they hold */

static const ccl_i_described_t block_record = {
    .size = sizeof(ccl_i_block_row_t),
    .fields = (const ccl_i_field_t[]){CCL_I_BLOCK_FIELDS(ccl_i_block_row_t, ), {0}}};

#define AT(member) CCL_I_AT(flow_row_t, member)
static const ccl_i_described_t flow_record = {.size = sizeof(flow_row_t),
                                              .fields =
                                                  (const ccl_i_field_t[]){{"id", AT(id)},
                                                                          {"src", AT(src)},
                                                                          {"dst", AT(dst)},
                                                                          {"bytes", AT(bytes)},
                                                                          {"done_s", AT(done_s)},
                                                                          {0}}};
#undef AT

#define AT(member) CCL_I_AT(run_row_t, member)
#define PROGRAM .when = CCL_I_WHEN(run_row_t, is_program)
#define PLAN .when = CCL_I_WHEN(run_row_t, is_plan)
#define DONE .when = CCL_I_WHEN(run_row_t, done)
const ccl_i_result_t ccl_i_result_simulate = {
    "simulate", "ccllab simulate", "one simulated run of a program or of flows",
    &(const ccl_i_described_t){
        .size = sizeof(run_row_t),
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file"},
            {"topology", AT(topology)},
            CCL_I_PROFILE(AT(profile)),
            {"collective", AT(collective), .null = "of flows"},
            {"nranks", AT(nranks)},
            {"valid", AT(valid), "proven", .null = "not verified", PROGRAM},
            {"fault", AT(fault), .null = "there is none", PROGRAM, .of = &ccl_i_fault_record},
            {"origin", AT(origin), "who made it, and how", .null = "nobody said", PROGRAM},
            {"proto", AT(proto), "protocol", PROGRAM},
            {"size_bytes", AT(size_bytes), "of the largest buffer of a GPU", PROGRAM},
            {"order", AT(way.order), "of transfers", .null = "a program's own",
             .words = ccl_i_order_words, PROGRAM},
            {"allocation", AT(way.allocation), "of thread blocks", .null = "a program's own",
             .words = ccl_i_allocation_words, PROGRAM},
            {"granularity", AT(way.granularity), "level of execution",
             .words = ccl_i_granularity_words, PROGRAM},
            {"sharing", AT(sharing), "of links",
             .words = (const char *const[]){"fair", "exclusive", "fifo", "fifo-multicast", NULL}},
            {"size_bytes", AT(size_bytes), PLAN},
            {"claimed_s", AT(claimed_s), "that the plan of epoch flows claims", PLAN},
            {"time_s", AT(time_s), .null = CCL_I_NO_RUN},
            {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none", PROGRAM},
            {"gap", AT(gap), "time_s / bound_s", .null = CCL_I_NO_RUN, PROGRAM},
            {"algbw_GBps", AT(algbw_GBps), "size / time", .null = CCL_I_NO_RUN, PROGRAM},
            {"busbw_GBps", AT(busbw_GBps), "as nccl-tests has it", .null = CCL_I_NO_RUN, PROGRAM},
            {"batches", AT(batches), "micro-batches", .null = "it was refused", .whole = true,
             PROGRAM},
            {"chunk_bytes", AT(chunk_bytes), "of a micro-batch", .null = "it was refused", PROGRAM},
            {"transfers", AT(transfers), .null = CCL_I_NO_RUN},
            {"flows", AT(flows), "slices that links carried", .null = CCL_I_NO_RUN},
            {"events", AT(events), "that were simulated", DONE},
            {"rate_changes", AT(rate_changes), "of flows", DONE},
            {"skipped_batches", AT(skipped_batches), "passed over in steady state",
             .when = CCL_I_WHEN(run_row_t, done_program)},
            {"thread_blocks_per_gpu", AT(usage.thread_blocks), "on the fullest GPU",
             .null = CCL_I_NO_RUN, .whole = true, PROGRAM},
            {"comm_share", AT(usage.comm_share), "of the lives of blocks, in which they move data",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"mean_idle_share", AT(usage.mean_idle_share), "of the lives of blocks",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"max_idle_share", AT(usage.max_idle_share), "of the idlest block",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"link_utilization", AT(usage.link_utilization), "mean over the links that carry data",
             .null = CCL_I_NO_RUN, PROGRAM},
            {"deadlock", AT(deadlock), .null = "there is none", PROGRAM,
             .of = &ccl_i_deadlock_record},
            {"spread", AT(spread), "over samples of a scenario", .null = "there is none", PROGRAM,
             .of = &ccl_i_spread_record},
            {"links",
             CCL_I_LIST_IN(run_row_t, links, ccl_i_link_record, ccl_i_count_links, ccl_i_link_at)},
            {"thread_blocks", CCL_I_LIST_OF(block_record, count_blocks, block_at), PROGRAM},
            {"flow_list", CCL_I_LIST_OF(flow_record, count_flows, flow_at), .hidden = true},
            {"deadlocked", AT(deadlocked), .hidden = true},
            {"skipped", AT(skipped_batches), .hidden = true, DONE},
            {0}}}};
#undef AT

static const ccl_i_column_t summary_columns[] = {
    CCL_I_COLUMN("input"),       CCL_I_COLUMN("topology"),
    CCL_I_COLUMN("collective"),  CCL_I_COLUMN("nranks"),
    CCL_I_COLUMN("size_bytes"),  CCL_I_COLUMN("batches"),
    CCL_I_COLUMN("granularity"), CCL_I_COLUMN("sharing"),
    CCL_I_COLUMN("valid"),       CCL_I_COLUMN("deadlocked", "deadlock"),
    CCL_I_COLUMN("time_s"),      CCL_I_COLUMN("algbw_GBps"),
    CCL_I_COLUMN("busbw_GBps"),  CCL_I_COLUMN("transfers"),
    CCL_I_COLUMN("flows"),       CCL_I_COLUMN("skipped", "skipped_batches"),
    CCL_I_COLUMN("bound_s"),     CCL_I_COLUMN("gap"),
    CCL_I_COLUMN("origin"),      CCL_I_COLUMNS_END};

ccl_status_t ccl_report_simulation(const ccl_report_run_t *run, const ccl_report_style_t *style,
                                   ccl_text_t *out, ccl_error_t *err) {
    static const char *const lists[] = {NULL, "links", "thread_blocks", "flow_list"};
    const ccl_i_described_t *record = ccl_i_result_simulate.root;
    run_row_t row;

    row_of(run, &row);
    size_t which = 0;

    CCL_TRY(ccl_i_table_choice(ccl_report_simulation_tables, style->table, &which, err));
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_simulate, &row, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return ccl_i_run_text(run, style->rows ? style->rows : 8, out, err);
    if (which == 0)
        return ccl_i_row_emit(record, &row, summary_columns, CCL_REPORT_CSV, out, err);
    return ccl_i_rows_emit(record, lists[which], &row, NULL, CCL_REPORT_CSV, out, err);
}
