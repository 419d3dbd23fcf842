/* What a device did: times of a program by size, its thread blocks; what devices there are. */
#include "report/runs/measurement.h"

#include <math.h>

const char *const ccl_report_measurement_tables[] = {"sizes", "thread_blocks", NULL};

static const ccl_run_result_t *last_result(const ccl_report_measurement_t *m) {
    for (uint32_t i = m->nsizes; i-- > 0;)
        if (m->sizes[i].result)
            return m->sizes[i].result;
    return NULL;
}

const char *ccl_i_measurement_transport(const ccl_run_result_t *r) {
    return r->ipc ? "ipc" : ccl_run_transport_name(r->transport);
}

static bool timed(const ccl_measured_size_t *s) {
    return s->status == CCL_OK && s->result;
}

/** (max - min) / median. */
static double spread(const ccl_run_result_t *r) {
    return r->median_s > 0 ? (r->max_s - r->min_s) / r->median_s : NAN;
}

/** Interpreter over generated: more than 1 is what the kernel of its own gains. */
static double gain(const ccl_measured_size_t *s) {
    return s->generated && s->generated->median_s > 0 ? s->result->median_s / s->generated->median_s
                                                      : NAN;
}

/** Library over program: more than 1 is what the program gains. */
static double library_ratio(const ccl_measured_size_t *s) {
    return s->result->median_s > 0 ? s->library->median_s / s->result->median_s : NAN;
}

static const char *by_name(const ccl_run_cluster_t *k, ccl_run_by_t by) {
    return by == CCL_RUN_BY_LIBRARY ? k->library : by == CCL_RUN_BY_PROGRAM ? "program" : NULL;
}

/* ---------------------------------------------------------------- rows */

/** A run with the program's own kernel, beside the interpreter. */
typedef struct generated_row {
    const ccl_run_result_t *of;
    double median_s, min_s, max_s, spread, compile_s, interpreter_spread, ratio;
} generated_row_t;

/** A run by a vendor's library. */
typedef struct library_row {
    const ccl_run_result_t *of; /* NULL: it failed */
    const char *name, *status, *why;
    double median_s, min_s, max_s, algbw_GBps, busbw_GBps, checked_items, wrong_items, ratio;
} library_row_t;

typedef struct size_row {
    const ccl_i_measurement_t *root;
    const ccl_run_result_t *of;
    bool timed;
    const char *status, *why, *kernel, *data, *library_data;
    const void *data_fault, *deadlock, *generated, *library; /* NULL, or what stands behind */
    double size_bytes, median_s, min_s, max_s, algbw_GBps, busbw_GBps, buffer_bytes, batches,
        chunk_bytes, slice_bytes, transfers, checked_items, wrong_items, compile_s, timed_batches;
    generated_row_t generated_row;
    library_row_t library_row;
    ccl_i_deadlock_row_t deadlock_row;
} size_row_t;

typedef struct step_row {
    const char *by, *why;
    uint32_t allgather, reducescatter, broadcast, reduce, sendrecv;
    double bytes;
} step_row_t;

typedef struct cluster_row {
    uint32_t ranks, first_rank, last_rank;
    const char *device, *library;
    step_row_t start, end;
} cluster_row_t;

typedef struct block_row {
    uint32_t rank, id;
    ccl_run_block_t of;
} block_row_t;

/** Times of the repeats of a run. */
static uint64_t count_repeats(const void *result) {
    const ccl_run_result_t *r = *(const ccl_run_result_t *const *)result;

    return r ? r->repeats : 0;
}

static const void *repeat_at(const void *result, uint64_t i, void *scratch) {
    (void)scratch;
    return &(*(const ccl_run_result_t *const *)result)->time_s[i];
}

static uint64_t count_times(const void *row) {
    const size_row_t *size = row;

    return size->timed ? size->of->repeats : 0;
}

static const void *time_at(const void *row, uint64_t i, void *scratch) {
    (void)scratch;
    return &((const size_row_t *)row)->of->time_s[i];
}

static step_row_t step_row(const ccl_run_cluster_t *k, const ccl_run_cluster_step_t *s) {
    step_row_t row = {by_name(k, s->by),
                      s->by == CCL_RUN_BY_PROGRAM ? s->why : NULL,
                      s->calls[CCL_CALL_ALLGATHER],
                      s->calls[CCL_CALL_REDUCESCATTER],
                      s->calls[CCL_CALL_BROADCAST],
                      s->calls[CCL_CALL_REDUCE],
                      s->calls[CCL_CALL_SENDRECV],
                      s->bytes};

    return row;
}

static uint64_t count_clusters(const void *row) {
    const ccl_run_result_t *r = ((const size_row_t *)row)->of;

    return r && r->clusters ? r->nclusters : CCL_I_NO_LIST;
}

static const void *cluster_at(const void *row, uint64_t i, void *scratch) {
    const ccl_run_cluster_t *k = &((const size_row_t *)row)->of->clusters[i];
    cluster_row_t *out = scratch;

    *out = (cluster_row_t){k->nranks,
                           k->first_rank,
                           k->last_rank,
                           k->device,
                           k->library[0] ? k->library : NULL,
                           step_row(k, &k->start),
                           step_row(k, &k->end)};
    return out;
}

static const void *block_of(const ccl_program_t *p, const ccl_run_result_t *r, uint64_t i,
                            block_row_t *out) {
    *out = (block_row_t){p->tbs[i].rank, p->tbs[i].id, r->blocks[i]};
    return out;
}

static uint64_t count_blocks(const void *row) {
    const ccl_run_result_t *r = ((const size_row_t *)row)->of;

    return r && r->blocks ? r->ntbs : 0;
}

static const void *block_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = row;

    return block_of(size->root->of->program, size->of, i, scratch);
}

/** Thread blocks of the last size that has them. */
static uint64_t count_last_blocks(const void *row) {
    const ccl_run_result_t *r = ((const ccl_i_measurement_t *)row)->last;

    return r && r->blocks ? r->ntbs : 0;
}

static const void *last_block_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_measurement_t *root = row;

    return block_of(root->of->program, root->last, i, scratch);
}

static void kernels_of(const ccl_measured_size_t *s, size_row_t *out) {
    const ccl_run_result_t *g = s->generated, *l = s->library;
    bool ok = s->library_status == CCL_OK;

    if (g) {
        out->generated_row = (generated_row_t){g,         g->median_s,  g->min_s,          g->max_s,
                                               spread(g), g->compile_s, spread(s->result), gain(s)};
        out->generated = &out->generated_row;
    }
    if (l) {
        out->library_row =
            (library_row_t){.of = ok ? l : NULL,
                            .name = l->library,
                            .status = ccl_i_status_word(s->library_status),
                            .why = s->library_why,
                            .median_s = ok ? l->median_s : NAN,
                            .min_s = ok ? l->min_s : NAN,
                            .max_s = ok ? l->max_s : NAN,
                            .algbw_GBps = ok ? l->algbw_GBps : NAN,
                            .busbw_GBps = ok ? l->busbw_GBps : NAN,
                            .checked_items = l->checked ? (double)l->checked_items : NAN,
                            .wrong_items = l->checked ? (double)l->wrong_items : NAN,
                            .ratio = ok ? library_ratio(s) : NAN};
        out->library = &out->library_row;
        out->library_data = !ok ? "WRONG" : l->checked ? "right" : "not looked at";
    }
}

static uint64_t count_sizes(const void *row) {
    return ((const ccl_i_measurement_t *)row)->of->nsizes;
}

static const void *size_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_measurement_t *root = row;
    const ccl_measured_size_t *s = &root->of->sizes[i];
    const ccl_run_result_t *r = s->result;
    bool ok = timed(s), generated = r && r->kernel == CCL_KERNEL_GENERATED;
    size_row_t *out = scratch;

    *out = (size_row_t){.root = root,
                        .of = r,
                        .timed = ok,
                        .status = ccl_i_status_word(s->status),
                        .why = s->why,
                        .kernel = generated ? "generated" : "interpreter",
                        .data_fault = r && r->wrong_items ? &r->fault : NULL,
                        .size_bytes = s->size_bytes,
                        .median_s = ok ? r->median_s : NAN,
                        .min_s = ok ? r->min_s : NAN,
                        .max_s = ok ? r->max_s : NAN,
                        .algbw_GBps = ok ? r->algbw_GBps : NAN,
                        .busbw_GBps = ok ? r->busbw_GBps : NAN,
                        .buffer_bytes = r ? r->buffer_bytes : NAN,
                        .batches = r ? r->batches : NAN,
                        .chunk_bytes = r ? r->chunk_bytes : NAN,
                        .slice_bytes = r ? r->slice_bytes : NAN,
                        .transfers = r ? (double)r->transfers : NAN,
                        .checked_items = r && r->checked ? (double)r->checked_items : NAN,
                        .wrong_items = r && r->checked ? (double)r->wrong_items : NAN,
                        .compile_s = generated ? r->compile_s : NAN,
                        .timed_batches = ok ? r->batches : NAN};
    out->deadlock = r ? ccl_i_deadlock_row(r->deadlock, &out->deadlock_row) : NULL;
    if (ok)
        kernels_of(s, out);
    if (ok)
        out->data = r->checked ? "right" : "not looked at";
    else
        out->data = s->status == CCL_CHECK ? "WRONG" : out->status;
    return out;
}

/** Sizes that ran with both kernels. */
static const void *both_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = size_at(row, i, scratch);

    return size->generated ? size : NULL;
}

/** Sizes that a library ran, too. */
static const void *beside_at(const void *row, uint64_t i, void *scratch) {
    const size_row_t *size = size_at(row, i, scratch);

    return size->library ? size : NULL;
}

/* ---------------------------------------------------------------- what they hold */

#define NO_TIME "it has no time"
#define AT(member) CCL_I_AT(ccl_run_fault_t, member)
static const ccl_i_described_t data_fault_record = {
    .fields = (const ccl_i_field_t[]){{"rank", AT(rank)},
                                      {"chunk", AT(chunk)},
                                      {"element", AT(element), "of the rank's output buffer"},
                                      {"item", AT(item), "of the element"},
                                      {"offset_bytes", AT(offset_bytes), "in the output buffer"},
                                      {"expected", AT(expected)},
                                      {"got", AT(got), .null = "nothing was written there"},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(generated_row_t, member)
static const ccl_i_described_t generated_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"median_s", AT(median_s)},
            {"min_s", AT(min_s)},
            {"max_s", AT(max_s)},
            {"spread", AT(spread), "(max - min) / median", .null = "the median is 0"},
            {"compile_s", AT(compile_s)},
            {"interpreter_spread", AT(interpreter_spread), .null = "the median is 0"},
            {"ratio", AT(ratio), "interpreter / generated", .null = "the median is 0"},
            {"times_s",
             CCL_I_LIST_IN(generated_row_t, of, ccl_i_bare_number, count_repeats, repeat_at),
             "of the repeats", .line = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(library_row_t, member)
static const ccl_i_described_t library_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"name", AT(name), "with its version"},
            {"status", AT(status), .words = ccl_i_status_words},
            {"why", AT(why), .null = "nothing to say"},
            {"median_s", AT(median_s), .null = NO_TIME},
            {"min_s", AT(min_s), .null = NO_TIME},
            {"max_s", AT(max_s), .null = NO_TIME},
            {"algbw_GBps", AT(algbw_GBps), .null = NO_TIME},
            {"busbw_GBps", AT(busbw_GBps), .null = NO_TIME},
            {"checked_items", AT(checked_items), .null = "not checked", .whole = true},
            {"wrong_items", AT(wrong_items), .null = "not checked", .whole = true},
            {"ratio", AT(ratio), "library / program", .null = NO_TIME},
            {"times_s",
             CCL_I_LIST_IN(library_row_t, of, ccl_i_bare_number, count_repeats, repeat_at),
             "of the repeats", .line = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(step_row_t, member)
static const ccl_i_described_t step_record = {
    .fields = (const ccl_i_field_t[]){
        {"by", AT(by), "who did it: the library, or program", .null = "there is nothing to do"},
        {"why", AT(why), "not by a library", .null = "not by the program"},
        {"allgather", AT(allgather), "calls of the library in one run"},
        {"reducescatter", AT(reducescatter)},
        {"broadcast", AT(broadcast)},
        {"reduce", AT(reduce)},
        {"sendrecv", AT(sendrecv)},
        {"bytes", AT(bytes), "of these calls"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(cluster_row_t, member)
static const ccl_i_described_t cluster_record = {
    .size = sizeof(cluster_row_t),
    .fields = (const ccl_i_field_t[]){{"ranks", AT(ranks), "how many"},
                                      {"first_rank", AT(first_rank)},
                                      {"last_rank", AT(last_rank)},
                                      {"device", AT(device)},
                                      {"library", AT(library), "with its version", .null = "none"},
                                      {"start", CCL_I_PART_IN(cluster_row_t, start, step_record),
                                       "before what crosses clusters"},
                                      {"end", CCL_I_PART_IN(cluster_row_t, end, step_record),
                                       "behind what crosses clusters"},
                                      {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(block_row_t, member)
static const ccl_i_described_t block_record = {
    .size = sizeof(block_row_t),
    .fields = (const ccl_i_field_t[]){
        {"rank", AT(rank)},
        {"id", AT(id), "on its rank"},
        {"slices", AT(of.slices), "passes"},
        {"busy_s", AT(of.busy_s), "moving data"},
        {"wait_data_s", AT(of.wait_data_s)},
        {"wait_peer_s", AT(of.wait_peer_s), "for another block of its rank"},
        {"wait_slot_s", AT(of.wait_slot_s), "for a free slot"},
        {"wait_core_s", AT(of.wait_core_s), "able to go on, but no worker had time"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(size_row_t, member)
#define NO_RUN "it did not run"
static const ccl_i_described_t size_record = {
    .size = sizeof(size_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"size_bytes", AT(size_bytes), "as asked"},
            {"status", AT(status), .words = ccl_i_status_words},
            {"why", AT(why), .null = "nothing to say"},
            {"median_s", AT(median_s), .null = NO_TIME},
            {"min_s", AT(min_s), .null = NO_TIME},
            {"max_s", AT(max_s), .null = NO_TIME},
            {"algbw_GBps", AT(algbw_GBps), "of the median", .null = NO_TIME},
            {"busbw_GBps", AT(busbw_GBps), "of the median", .null = NO_TIME},
            {"buffer_bytes", AT(buffer_bytes), "largest buffer of a rank, in whole items",
             .null = NO_RUN},
            {"batches", AT(batches), "micro-batches", .null = NO_RUN, .whole = true},
            {"chunk_bytes", AT(chunk_bytes), "of a micro-batch", .null = NO_RUN},
            {"slice_bytes", AT(slice_bytes), "limit that was used", .null = NO_RUN},
            {"transfers", AT(transfers), "slices handed over in one run", .null = NO_RUN,
             .whole = true},
            {"checked_items", AT(checked_items), "over all runs", .null = "not checked",
             .whole = true},
            {"wrong_items", AT(wrong_items), .null = "not checked", .whole = true},
            {"data_fault", AT(data_fault), "the first wrong item", .null = "there is none",
             .of = &data_fault_record},
            {"deadlock", AT(deadlock), .null = "there is none", .of = &ccl_i_deadlock_record},
            {"times_s", CCL_I_LIST_OF(ccl_i_bare_number, count_times, time_at), "of the repeats",
             .line = true},
            {"kernel", AT(kernel),
             .words = (const char *const[]){"interpreter", "generated", NULL}},
            {"compile_s", AT(compile_s), "of a generated kernel", .null = "it was interpreted"},
            {"generated", AT(generated), "the same with the program's own kernel",
             .null = "not run", .of = &generated_record},
            {"library", AT(library), "the collective by a vendor's library", .null = "not run",
             .of = &library_record},
            {"clusters", CCL_I_LIST_OF(cluster_record, count_clusters, cluster_at),
             "inside which a library starts and ends", .null = "not asked for"},
            {"thread_blocks", CCL_I_LIST_OF(block_record, count_blocks, block_at)},
            {"data", AT(data), .hidden = true},
            {"timed_batches", AT(timed_batches), .hidden = true},
            {"generated_s", AT(generated_row.median_s), .hidden = true},
            {"generated_spread", AT(generated_row.spread), .hidden = true},
            {"interpreter_spread", AT(generated_row.interpreter_spread), .hidden = true},
            {"gain", AT(generated_row.ratio), .hidden = true},
            {"generated_compile_s", AT(generated_row.compile_s), .hidden = true},
            {"library_s", AT(library_row.median_s), .hidden = true},
            {"library_busbw_GBps", AT(library_row.busbw_GBps), .hidden = true},
            {"library_ratio", AT(library_row.ratio), .hidden = true},
            {"library_data", AT(library_data), .hidden = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_measurement_t, member)
const ccl_i_result_t ccl_i_result_run = {
    "run", "ccllab run", "a program that ran on devices",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file"},
            {"collective", AT(collective)},
            {"origin", AT(origin), "who made it, and how", .null = "nobody said"},
            {"nranks", AT(nranks)},
            {"valid", AT(valid), "proven", .null = "not verified"},
            {"fault", AT(fault), .null = "there is none", .of = &ccl_i_fault_record},
            {"device", AT(device)},
            {"type", AT(type), "of the elements"},
            {"op", AT(op), "reduction"},
            {"granularity", AT(granularity), "level of execution",
             .words = ccl_i_granularity_words},
            {"protocol", AT(protocol), "that was run", .null = NO_RUN,
             .words = (const char *const[]){"Simple", "LL", "LL128", NULL}},
            {"transport", AT(transport), "between processes", .null = "one process"},
            {"rdma_memory", AT(rdma_memory), "how RDMA gets at slices", .null = "no RDMA"},
            {"rdma_why", AT(rdma_why), "not by a better way", .null = "nothing to say"},
            {"switch_connections", AT(switch_connections), "on devices", .null = "there is none",
             .whole = true},
            {"in_switch", AT(in_switch), "of them, by multicast memory", .null = "there is none",
             .whole = true},
            {"devices", AT(devices), "of this process's ranks", .null = NO_RUN, .whole = true},
            {"processes", AT(processes), .null = NO_RUN, .whole = true},
            {"threads", AT(threads), "workers of a process", .null = NO_RUN, .whole = true},
            {"slots", AT(slots), "of a FIFO", .null = NO_RUN, .whole = true},
            {"repeats", AT(repeats), "measured", .null = NO_RUN, .whole = true},
            {"warmups", AT(warmups)},
            {"sizes", CCL_I_LIST_OF(size_record, count_sizes, size_at)},
            {"both", CCL_I_LIST_OF(size_record, count_sizes, both_at), .hidden = true},
            {"beside", CCL_I_LIST_OF(size_record, count_sizes, beside_at), .hidden = true},
            {"thread_blocks", CCL_I_LIST_OF(block_record, count_last_blocks, last_block_at),
             .hidden = true},
            {0}}}};
#undef AT

static void root_of(const ccl_report_measurement_t *m, ccl_i_measurement_t *out) {
    const ccl_run_result_t *r = last_result(m);
    const ccl_verdict_t *v = m->verdict;
    *out = (ccl_i_measurement_t){
        .of = m,
        .last = r,
        .input = m->input,
        .collective = m->program->coll->name,
        .origin = m->program->origin[0] ? m->program->origin : NULL,
        .device = r ? r->device : m->options->device,
        .type = ccl_type_name(m->options->type),
        .op = ccl_reduction_name(m->options->op),
        .granularity = ccl_i_granularity_name(m->options->granularity),
        .protocol = r ? ccl_run_protocol_name(r->protocol) : NULL,
        .transport = r && r->processes > 1 ? ccl_i_measurement_transport(r) : NULL,
        .rdma_memory = r && r->rdma_memory[0] ? r->rdma_memory : NULL,
        .rdma_why = r && r->rdma_why[0] ? r->rdma_why : NULL,
        .nranks = m->program->nranks,
        .warmups = m->options->warmups,
        .valid = v ? &v->valid : NULL,
        .switch_connections = r && r->switch_connections ? r->switch_connections : NAN,
        .in_switch = r && r->switch_connections ? r->in_switch : NAN,
        .devices = r && r->devices ? r->devices : NAN,
        .processes = r && r->processes ? r->processes : NAN,
        .threads = r && r->processes ? r->threads : NAN,
        .slots = r ? r->slots : NAN,
        .repeats = r ? r->repeats : NAN};
    out->fault = ccl_i_fault_row(v, &out->fault_row);
}

/* ---------------------------------------------------------------- tables */

static const ccl_i_column_t csv_sizes[] = {
    CCL_I_COLUMN("size_bytes"),    CCL_I_COLUMN("status"),
    CCL_I_COLUMN("median_s"),      CCL_I_COLUMN("min_s"),
    CCL_I_COLUMN("max_s"),         CCL_I_COLUMN("algbw_GBps"),
    CCL_I_COLUMN("busbw_GBps"),    CCL_I_COLUMN("batches"),
    CCL_I_COLUMN("chunk_bytes"),   CCL_I_COLUMN("transfers"),
    CCL_I_COLUMN("checked_items"), CCL_I_COLUMN("wrong_items"),
    CCL_I_COLUMN("why"),           CCL_I_COLUMNS_END};
ccl_status_t ccl_report_measurement(const ccl_report_measurement_t *m,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    ccl_i_measurement_t root;

    root_of(m, &root);
    size_t table = 0;

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_run, &root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return ccl_i_measurement_text(&root, out, err);
    CCL_TRY(ccl_i_table_choice(ccl_report_measurement_tables, style->table, &table, err));
    return ccl_i_rows_emit(ccl_i_result_run.root, ccl_report_measurement_tables[table], &root,
                           table == 0 ? csv_sizes : NULL, CCL_REPORT_CSV, out, err);
}
