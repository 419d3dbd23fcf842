/* What a device did: times of a program by size, its thread blocks; what devices there are. */
#include "report/rows.h"

#include <math.h>
#include <string.h>

const char *const ccl_report_measurement_tables[] = {"sizes", "thread_blocks", NULL};

static const ccl_run_result_t *last_result(const ccl_report_measurement_t *m) {
    for (uint32_t i = m->nsizes; i-- > 0;)
        if (m->sizes[i].result)
            return m->sizes[i].result;
    return NULL;
}

/** Some size was run with both kernels. */
static bool both(const ccl_report_measurement_t *m) {
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].generated)
            return true;
    return false;
}

/** How processes reach each other. */
static const char *transport(const ccl_run_result_t *r) {
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

/** Name of the library that ran some size; NULL: none did. */
static const char *library_name(const ccl_report_measurement_t *m) {
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].library)
            return m->sizes[i].library->library;
    return NULL;
}

static const char *by_name(const ccl_run_cluster_t *k, ccl_run_by_t by) {
    return by == CCL_RUN_BY_LIBRARY ? k->library : by == CCL_RUN_BY_PROGRAM ? "program" : NULL;
}

/* ---------------------------------------------------------------- rows */

typedef struct root {
    const ccl_report_measurement_t *of;
    const ccl_run_result_t *last; /* NULL: no size ran */
    const char *input, *collective, *device, *type, *op, *granularity, *transport, *rdma_memory,
        *rdma_why;
    uint32_t nranks, warmups;
    const bool *valid;
    const void *fault;
    ccl_i_fault_row_t fault_row;
    double devices, processes, threads, slots, repeats;
} root_t;

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
    const root_t *root;
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
    const ccl_run_result_t *r = ((const root_t *)row)->last;

    return r && r->blocks ? r->ntbs : 0;
}

static const void *last_block_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;

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
    return ((const root_t *)row)->of->nsizes;
}

static const void *size_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
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
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_run = {
    "run", "ccllab run", "a program that ran on devices",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "file"},
            {"collective", AT(collective)},
            {"nranks", AT(nranks)},
            {"valid", AT(valid), "proven", .null = "not verified"},
            {"fault", AT(fault), .null = "there is none", .of = &ccl_i_fault_record},
            {"device", AT(device)},
            {"type", AT(type), "of the elements"},
            {"op", AT(op), "reduction"},
            {"granularity", AT(granularity), "level of execution",
             .words = ccl_i_granularity_words},
            {"transport", AT(transport), "between processes", .null = "one process"},
            {"rdma_memory", AT(rdma_memory), "how RDMA gets at slices", .null = "no RDMA"},
            {"rdma_why", AT(rdma_why), "not by a better way", .null = "nothing to say"},
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

static void root_of(const ccl_report_measurement_t *m, root_t *out) {
    const ccl_run_result_t *r = last_result(m);
    const ccl_verdict_t *v = m->verdict;
    *out = (root_t){.of = m,
                    .last = r,
                    .input = m->input,
                    .collective = m->program->coll->name,
                    .device = r ? r->device : m->options->device,
                    .type = ccl_type_name(m->options->type),
                    .op = ccl_reduction_name(m->options->op),
                    .granularity = ccl_i_granularity_name(m->options->granularity),
                    .transport = r && r->processes > 1 ? transport(r) : NULL,
                    .rdma_memory = r && r->rdma_memory[0] ? r->rdma_memory : NULL,
                    .rdma_why = r && r->rdma_why[0] ? r->rdma_why : NULL,
                    .nranks = m->program->nranks,
                    .warmups = m->options->warmups,
                    .valid = v ? &v->valid : NULL,
                    .devices = r && r->devices ? r->devices : NAN,
                    .processes = r && r->processes ? r->processes : NAN,
                    .threads = r && r->processes ? r->threads : NAN,
                    .slots = r ? r->slots : NAN,
                    .repeats = r ? r->repeats : NAN};
    out->fault = ccl_i_fault_row(v, &out->fault_row);
}

/* ---------------------------------------------------------------- tables */

static const char *show_percent(double share, char *out, size_t out_len) {
    snprintf(out, out_len, "%.1f %%", 100 * share);
    return out;
}

static const ccl_i_column_t csv_sizes[] = {
    CCL_I_COLUMN("size_bytes"),    CCL_I_COLUMN("status"),
    CCL_I_COLUMN("median_s"),      CCL_I_COLUMN("min_s"),
    CCL_I_COLUMN("max_s"),         CCL_I_COLUMN("algbw_GBps"),
    CCL_I_COLUMN("busbw_GBps"),    CCL_I_COLUMN("batches"),
    CCL_I_COLUMN("chunk_bytes"),   CCL_I_COLUMN("transfers"),
    CCL_I_COLUMN("checked_items"), CCL_I_COLUMN("wrong_items"),
    CCL_I_COLUMN("why"),           CCL_I_COLUMNS_END};
static const ccl_i_column_t text_sizes[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("timed_batches", "batches"),
    CCL_I_COLUMN("median_s", "median(us)", ccl_i_us),
    CCL_I_COLUMN("min_s", "min(us)", ccl_i_us),
    CCL_I_COLUMN("max_s", "max(us)", ccl_i_us),
    CCL_I_COLUMN("algbw_GBps", "algbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("data", .right = true),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_kernels[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("median_s", "interpreter(us)", ccl_i_us),
    CCL_I_COLUMN("interpreter_spread", "spread", show_percent),
    CCL_I_COLUMN("generated_s", "generated(us)", ccl_i_us),
    CCL_I_COLUMN("generated_spread", "spread", show_percent),
    CCL_I_COLUMN("gain", "ratio", ccl_i_show_3),
    CCL_I_COLUMN("generated_compile_s", "compile(s)", ccl_i_show_2),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_library[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("median_s", "program(us)", ccl_i_us),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("library_s", "library(us)", ccl_i_us),
    CCL_I_COLUMN("library_busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("library_ratio", "ratio", ccl_i_show_3),
    CCL_I_COLUMN("library_data", "data", .right = true),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_blocks[] = {CCL_I_COLUMN("rank"),
                                             CCL_I_COLUMN("id"),
                                             CCL_I_COLUMN("slices"),
                                             CCL_I_COLUMN("busy_s", "busy(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_data_s", "data(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_peer_s", "peer(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_slot_s", "slot(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_core_s", "core(us)", ccl_i_us),
                                             CCL_I_COLUMNS_END};

static ccl_status_t emit(const root_t *root, const char *list, const ccl_i_column_t *columns,
                         ccl_report_format_t format, ccl_text_t *out, ccl_error_t *err) {
    return ccl_i_rows_emit(ccl_i_result_run.root, list, root, columns, format, out, err);
}

static ccl_status_t library_text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_report_measurement_t *m = root->of;
    char text[40];

    CCL_TRY(emit(root, "beside", text_library, CCL_REPORT_TEXT, out, err));
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].library_why)
            ccl_text_printf(out, "\n%s by %s: %s\n",
                            ccl_format_bytes(m->sizes[i].size_bytes, text, sizeof(text)),
                            library_name(m), m->sizes[i].library_why);
    return CCL_OK;
}

static void text_deadlock(const ccl_deadlock_t *d, ccl_text_t *out) {
    uint32_t shown = d->nwaits < 16 ? d->nwaits : 16;

    for (uint32_t i = 0; i < shown; i++) {
        const ccl_deadlock_wait_t *w = &d->waits[i];

        ccl_text_printf(out, "  rank %u block %u step %u (micro-batch %u, slice %u) waits for %s",
                        w->rank, w->tb, w->step, w->batch, w->slice, ccl_wait_name(w->wait));
        if (w->on_rank != CCL_NONE)
            ccl_text_printf(out, " of rank %u block %u\n", w->on_rank, w->on_tb);
        else
            ccl_text_printf(out, " of nobody\n");
    }
    if (shown < d->nwaits)
        ccl_text_printf(out, "  and %u more\n", d->nwaits - shown);
    ccl_i_text_cause(&d->cause, out);
}

static void step_text(const char *name, const ccl_run_cluster_t *k, const ccl_run_cluster_step_t *s,
                      ccl_text_t *out) {
    const char *before = " (";
    char text[40];

    ccl_text_printf(out, "; %s ", name);
    if (s->by != CCL_RUN_BY_LIBRARY) {
        ccl_text_printf(out, s->by == CCL_RUN_BY_NOBODY ? "nothing to do" : "by the program");
        if (s->by == CCL_RUN_BY_PROGRAM && s->why[0])
            ccl_text_printf(out, " (%s)", s->why);
        return;
    }
    ccl_text_printf(out, "by %s", k->library);
    for (uint32_t c = 0; c < CCL_RUN_CALLS; c++) {
        if (s->calls[c])
            ccl_text_printf(out, "%s%u %s", before, s->calls[c],
                            ccl_run_call_name((ccl_run_call_t)c));
        before = s->calls[c] ? ", " : before;
    }
    ccl_text_printf(out, ": %s)", ccl_format_bytes(s->bytes, text, sizeof(text)));
}

static void clusters_text(const ccl_run_result_t *r, ccl_text_t *out) {
    char text[40];

    ccl_text_printf(out,
                    "\ninside clusters, before and behind what the program carries between them, "
                    "at %s:\n",
                    ccl_format_bytes(r->size_bytes, text, sizeof(text)));
    for (uint32_t i = 0; i < r->nclusters; i++) {
        const ccl_run_cluster_t *k = &r->clusters[i];

        ccl_text_printf(out, "  ranks %u to %u", k->first_rank, k->last_rank);
        if (k->last_rank - k->first_rank + 1 != k->nranks)
            ccl_text_printf(out, " (%u of them)", k->nranks);
        ccl_text_printf(out, " on %s", k->device);
        step_text("start", k, &k->start, out);
        step_text("end", k, &k->end, out);
        ccl_text_printf(out, "\n");
    }
}

static ccl_status_t measurement_text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_report_measurement_t *m = root->of;
    const ccl_run_result_t *r = root->last;

    if (m->verdict && !m->verdict->valid) {
        ccl_text_printf(out, "%s is not run, it is wrong: %s: %s\n", m->input,
                        m->verdict->fault.kind, m->verdict->fault.text);
        return ccl_i_text_status(out, err);
    }
    ccl_text_printf(out, "%s: %s, %u ranks", m->input, m->program->coll->name, m->program->nranks);
    if (r && r->processes) /* 0: refused before it began */
        ccl_text_printf(out, " on %s, %u process%s%s%s with %u worker%s", r->device, r->processes,
                        r->processes == 1 ? "" : "es", r->processes == 1 ? "" : " over ",
                        r->processes == 1 ? "" : transport(r), r->threads,
                        r->threads == 1 ? "" : "s");
    if (r && r->devices > 1)
        ccl_text_printf(out, ", %u devices", r->devices);
    ccl_text_printf(out, "; %s %s, %s level\n\n", ccl_type_name(m->options->type),
                    ccl_reduction_name(m->options->op),
                    ccl_i_granularity_name(m->options->granularity));
    CCL_TRY(emit(root, "sizes", text_sizes, CCL_REPORT_TEXT, out, err));
    for (uint32_t i = 0; i < m->nsizes; i++) {
        const ccl_measured_size_t *s = &m->sizes[i];
        char text[40];

        if (s->status == CCL_OK)
            continue;
        ccl_text_printf(out, "\n%s: %s\n", ccl_format_bytes(s->size_bytes, text, sizeof(text)),
                        s->why ? s->why : ccl_i_status_word(s->status));
        if (s->result && s->result->deadlock)
            text_deadlock(s->result->deadlock, out);
    }
    if (r && r->kernel == CCL_KERNEL_GENERATED)
        ccl_text_printf(out, "\na kernel of its own, compiled in %.2f s\n", r->compile_s);
    if (both(m)) {
        ccl_text_printf(out, "\ninterpreted, and with a kernel of its own: medians, (max - min) / "
                             "median, interpreter / generated\n");
        CCL_TRY(emit(root, "both", text_kernels, CCL_REPORT_TEXT, out, err));
    }
    if (r && r->clusters)
        clusters_text(r, out);
    if (library_name(m)) {
        ccl_text_printf(out, "\nbeside %s: medians, library / program\n", library_name(m));
        CCL_TRY(library_text(root, out, err));
    }
    if (r && r->blocks) {
        ccl_text_printf(out, "\nthread blocks in one run more: busy, and waiting for\n");
        CCL_TRY(emit(root, "thread_blocks", text_blocks, CCL_REPORT_TEXT, out, err));
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_measurement(const ccl_report_measurement_t *m,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    root_t root;

    root_of(m, &root);
    size_t table = 0;

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_run, &root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return measurement_text(&root, out, err);
    CCL_TRY(ccl_i_table_choice(ccl_report_measurement_tables, style->table, &table, err));
    return emit(&root, ccl_report_measurement_tables[table], table == 0 ? csv_sizes : NULL,
                CCL_REPORT_CSV, out, err);
}

/* ---------------------------------------------------------------- devices */

typedef struct found {
    const ccl_device_info_t *devices;
    uint32_t n;
} found_t;

typedef struct device_row {
    const char *device, *name, *why_not, *architecture, *name_or_why;
    uint32_t index, units, some_units;
    bool available;
    double memory_bytes, memory_or_0;
} device_row_t;

static uint64_t count_devices(const void *root) {
    return ((const found_t *)root)->n;
}

static const void *device_at(const void *root, uint64_t i, void *scratch) {
    const ccl_device_info_t *d = &((const found_t *)root)->devices[i];
    device_row_t *out = scratch;

    *out = (device_row_t){d->kind,
                          d->available ? d->name : NULL,
                          d->available ? NULL : d->name,
                          d->architecture[0] ? d->architecture : NULL,
                          d->name,
                          d->index,
                          d->units,
                          d->units ? d->units : CCL_NONE,
                          d->available,
                          d->memory_bytes > 0 ? d->memory_bytes : NAN,
                          d->memory_bytes};
    return out;
}

#define AT(member) CCL_I_AT(device_row_t, member)
static const ccl_i_described_t device_record = {
    .size = sizeof(device_row_t),
    .fields =
        (const ccl_i_field_t[]){{"device", AT(device), "what --device takes"},
                                {"index", AT(index), "of its kind"},
                                {"available", AT(available)},
                                {"name", AT(name), .null = "not available"},
                                {"why_not", AT(why_not), .null = "available"},
                                {"architecture", AT(architecture), .null = "not known"},
                                {"units", AT(units), "cores or multiprocessors"},
                                {"memory_bytes", AT(memory_bytes), .null = "not known"},
                                {"some_units", AT(some_units), .null = "none", .hidden = true},
                                {"memory_or_0", AT(memory_or_0), .hidden = true},
                                {"name_or_why", AT(name_or_why), .hidden = true},
                                {0}}};
#undef AT
const ccl_i_result_t ccl_i_result_devices = {
    "devices", "ccllab devices", "the devices that programs can run on",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"devices", CCL_I_LIST_OF(device_record, count_devices, device_at)}, {0}}}};

static const char *show_GiB(double bytes, char *out, size_t out_len) {
    snprintf(out, out_len, "%.1f GiB", bytes / 0x1p30);
    return out;
}

ccl_status_t ccl_report_devices(const ccl_device_info_t *devices, uint32_t n,
                                const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    static const ccl_i_column_t csv[] = {CCL_I_COLUMN("device"),
                                         CCL_I_COLUMN("index"),
                                         CCL_I_COLUMN("available"),
                                         CCL_I_COLUMN("some_units", "units"),
                                         CCL_I_COLUMN("memory_or_0", "memory_bytes"),
                                         CCL_I_COLUMN("architecture"),
                                         CCL_I_COLUMN("name_or_why", "name"),
                                         CCL_I_COLUMNS_END};
    static const ccl_i_column_t text[] = {
        CCL_I_COLUMN("device"),
        CCL_I_COLUMN("index", .left = true),
        CCL_I_COLUMN("available", NULL, ccl_i_show_yes, .left = true),
        CCL_I_COLUMN("some_units", "units", .left = true),
        CCL_I_COLUMN("memory_bytes", "memory", show_GiB, .left = true),
        CCL_I_COLUMN("architecture"),
        CCL_I_COLUMN("name_or_why", "name"),
        CCL_I_COLUMNS_END};
    const found_t found = {devices, n};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_devices, &found, out, err);
    return ccl_i_rows_emit(ccl_i_result_devices.root, "devices", &found,
                           style->format == CCL_REPORT_CSV ? csv : text, style->format, out, err);
}
