/* Rows that several results have: ways of lowering, blocks, links, faults, deadlocks. */
#include "report/rows.h"

#include <math.h>
#include <string.h>

ccl_i_way_row_t ccl_i_way_row(const ccl_way_t *way, bool lowered) {
    ccl_i_way_row_t row = {lowered ? ccl_i_order_name(way->order) : NULL,
                           lowered ? ccl_i_allocation_name(way->allocation) : NULL,
                           ccl_i_granularity_name(way->granularity)};

    return row;
}

ccl_i_nccl_row_t ccl_i_nccl_row(const ccl_nccl_baseline_t *nccl, double time_s) {
    bool have = nccl && nccl->name;
    ccl_i_nccl_row_t row = {NULL, NULL, NAN, NAN};

    if (have)
        row = (ccl_i_nccl_row_t){nccl->name, nccl->choice, nccl->time_s, nccl->time_s / time_s};
    return row;
}

const char *ccl_i_speedup_text(double speedup, char *out, size_t out_len) {
    snprintf(out, out_len, isnan(speedup) ? "-" : "%.2fx", speedup);
    return out;
}

ccl_i_usage_row_t ccl_i_usage_row(const ccl_sim_usage_t *usage, bool have) {
    ccl_i_usage_row_t row = {NAN, NAN, NAN, NAN, NAN};

    if (have)
        row = (ccl_i_usage_row_t){usage->thread_blocks, usage->comm_share, usage->mean_idle_share,
                                  usage->max_idle_share, usage->link_utilization};
    return row;
}

uint32_t ccl_i_peer_rank(uint32_t peer) {
    return ccl_peer_is_member(peer)  ? ccl_peer_rank(peer)
           : ccl_peer_is_group(peer) ? CCL_NONE
                                     : peer;
}

ccl_i_block_row_t ccl_i_block_row(const ccl_tb_t *tb, const ccl_tb_use_t *use) {
    ccl_i_block_row_t row = {tb->rank,
                             tb->id,
                             tb->channel,
                             ccl_i_peer_rank(tb->send_peer),
                             ccl_i_peer_rank(tb->recv_peer),
                             use->start_s,
                             use->done_s,
                             use->busy_s,
                             use->wait_data_s,
                             use->wait_peer_s,
                             use->wait_slot_s};

    return row;
}

/* ---------------------------------------------------------------- links */

ccl_i_link_row_t ccl_i_link_row(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                                uint32_t link) {
    const ccl_link_t *l = &topo->links[link];
    ccl_i_link_row_t row = {topo->devices[l->from].id, topo->devices[l->to].id,
                            topo->kinds[l->kind], result->links[link].bytes,
                            result->links[link].utilization};

    return row;
}

uint64_t ccl_i_count_links(const void *links) {
    const ccl_i_link_rows_t *of = links;

    return of->result && of->result->links ? of->result->nlinks : 0;
}

const void *ccl_i_link_at(const void *links, uint64_t i, void *scratch) {
    const ccl_i_link_rows_t *of = links;
    ccl_i_link_row_t *out = scratch;

    *out = ccl_i_link_row(of->topo, of->result, (uint32_t)i);
    return out;
}

const ccl_i_described_t ccl_i_link_record = {
    .size = sizeof(ccl_i_link_row_t),
    .fields = (const ccl_i_field_t[]){CCL_I_LINK_FIELDS(ccl_i_link_row_t, ), {0}}};

int ccl_i_by_key(const void *a, const void *b) {
    const ccl_i_keyed_t *x = a;
    const ccl_i_keyed_t *y = b;

    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

uint32_t ccl_i_groups(const ccl_i_keyed_t *list, uint32_t n, ccl_i_key_fn key, const void *user,
                      ccl_i_row_group_t *groups, uint32_t most) {
    char have[256] = "", next[256];
    uint32_t ngroups = 0, first = 0;

    for (uint32_t i = 0; ngroups < most && i <= n; i++) {
        next[0] = '\0';
        if (i < n)
            key(user, list[i].index, next, sizeof(next));
        if (i > 0 && strcmp(have, next) != 0) {
            groups[ngroups++] = (ccl_i_row_group_t){first, i - first};
            first = i;
        }
        memcpy(have, next, sizeof(have));
    }
    return ngroups;
}

/* ---------------------------------------------------------------- faults */

const ccl_i_fault_row_t *ccl_i_fault_row(const ccl_verdict_t *verdict, ccl_i_fault_row_t *out) {
    if (!verdict || verdict->valid)
        return NULL;
    const ccl_fault_t *f = &verdict->fault;
    bool limited = f->slots > 0 && f->slots < UINT32_MAX;
    *out = (ccl_i_fault_row_t){.kind = f->kind,
                               .text = f->text,
                               .rank = f->rank,
                               .tb = f->tb,
                               .step = f->step,
                               .chunk = f->chunk,
                               .slots = limited ? f->slots : CCL_NONE,
                               .least_slots = f->least_slots ? f->least_slots : CCL_NONE,
                               .line = CCL_NONE,
                               .column = CCL_NONE,
                               .deadlock = strcmp(f->kind, "deadlock") == 0};
    return out;
}

#define AT(member) CCL_I_AT(ccl_i_fault_row_t, member)
#define NOT_SAID "not of one"
#define MALFORMED .null = NOT_SAID, .when = CCL_I_WHEN(ccl_i_fault_row_t, malformed)
#define DEADLOCK .when = CCL_I_WHEN(ccl_i_fault_row_t, deadlock)
const ccl_i_described_t ccl_i_fault_record = {
    .fields = (const ccl_i_field_t[]){
        {"kind", AT(kind), "docs/formats.md lists them"},
        {"rank", AT(rank), .null = NOT_SAID},
        {"thread_block", AT(tb), .null = NOT_SAID},
        {"step", AT(step), .null = NOT_SAID},
        {"chunk", AT(chunk), .null = NOT_SAID},
        {"line", AT(line), "of the input; malformed ones only", MALFORMED},
        {"column", AT(column), "of the input; malformed ones only", MALFORMED},
        {"text", AT(text), "in words"},
        {"slots", AT(slots), "deadlocks only: FIFO depth of the check", .null = "no limit",
         DEADLOCK},
        {"least_slots", AT(least_slots), "deadlocks only: the least depth with which it finishes",
         .null = "it deadlocks at any", DEADLOCK},
        {0}}};
#undef AT

const ccl_i_deadlock_row_t *ccl_i_deadlock_row(const ccl_deadlock_t *d, ccl_i_deadlock_row_t *out) {
    if (!d)
        return NULL;
    const ccl_deadlock_cause_t *c = &d->cause;
    bool depends = c->known && c->least_slots > 0;
    *out = (ccl_i_deadlock_row_t){.of = d,
                                  .stuck = d->stuck,
                                  .cycle_length = d->nwaits,
                                  .batches = depends && c->batches ? c->batches : CCL_NONE,
                                  .any = c->known && !c->least_slots};
    out->any_depth = c->known ? &out->any : NULL;
    out->depends = (ccl_i_depends_row_t){.key = "slots",
                                         .transport = c->transport[0] ? c->transport : NULL,
                                         .protocol = c->protocol[0] ? c->protocol : NULL,
                                         .source = c->from[0] ? c->from : "default",
                                         .value = c->slots,
                                         .least = c->least_slots,
                                         .slice_bytes = c->slice_bytes > 0 ? c->slice_bytes : NAN};
    out->depends_on = depends ? &out->depends : NULL;
    return out;
}

typedef struct wait_row {
    uint32_t rank, tb, step, batch, slice, on_rank, on_tb;
    const char *waits_for;
} wait_row_t;

static uint64_t count_waits(const void *row) {
    const ccl_deadlock_t *d = ((const ccl_i_deadlock_row_t *)row)->of;

    return d->nwaits < CCL_ARRAY_LEN(d->waits) ? d->nwaits : CCL_ARRAY_LEN(d->waits);
}

static const void *wait_at(const void *row, uint64_t i, void *scratch) {
    const ccl_deadlock_wait_t *w = &((const ccl_i_deadlock_row_t *)row)->of->waits[i];
    wait_row_t *out = scratch;

    *out = (wait_row_t){w->rank,  w->tb,      w->step,  w->batch,
                        w->slice, w->on_rank, w->on_tb, ccl_wait_name(w->wait)};
    return out;
}

#define AT(member) CCL_I_AT(wait_row_t, member)
static const ccl_i_described_t wait_record = {
    .size = sizeof(wait_row_t),
    .fields = (const ccl_i_field_t[]){
        {"rank", AT(rank), .null = NOT_SAID},
        {"thread_block", AT(tb), .null = NOT_SAID},
        {"step", AT(step), .null = NOT_SAID},
        {"batch", AT(batch), .null = NOT_SAID},
        {"slice", AT(slice), .null = NOT_SAID},
        {"waits_for", AT(waits_for)},
        {"on_rank", AT(on_rank), "that could give it", .null = "nobody ever gives it"},
        {"on_thread_block", AT(on_tb), .null = NOT_SAID},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_depends_row_t, member)
static const ccl_i_described_t depends_record = {
    .fields = (const ccl_i_field_t[]){
        {"key", AT(key), "the constant"},
        {"transport", AT(transport), "whose", .null = "of all of the program"},
        {"protocol", AT(protocol), .null = "the transport's own value, or the default"},
        {"value", AT(value), "now"},
        {"least", AT(least), "that finishes in as many micro-batches"},
        {"slice_bytes", AT(slice_bytes), "most bytes of a slice", .null = "no limit"},
        {"source", AT(source), "what gives the value: library NAME, a file, an option, default"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_deadlock_row_t, member)
const ccl_i_described_t ccl_i_deadlock_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"stuck", AT(stuck), "thread blocks"},
            {"cycle_length", AT(cycle_length)},
            {"cycle", CCL_I_LIST_OF(wait_record, count_waits, wait_at), "who waits for whom"},
            {"any_depth", AT(any_depth), "no depth of FIFOs helps", .null = "not looked for"},
            {"depends_on", AT(depends_on), "a constant with which it would finish",
             .null = "on no FIFO, or not looked for", .of = &depends_record},
            {"finishes_with_batches", AT(batches),
             "micro-batches with which it finishes as the FIFOs are: the least, at task level the "
             "most",
             .null = "none"},
            {0}},
    .tall = true};
#undef AT

const char *ccl_i_constants_text(const ccl_topology_t *topo, char *out, size_t out_len) {
    if (!*topo->profile)
        snprintf(out, out_len, "the constants of its description");
    else if (*topo->profile_about)
        snprintf(out, out_len, "profile %s (%s)", topo->profile, topo->profile_about);
    else
        snprintf(out, out_len, "profile %s", topo->profile);
    return out;
}

void ccl_i_text_origins(const char *title, const double *sizes_bytes, uint32_t nsizes,
                        ccl_i_origin_fn at, const void *of, ccl_text_t *out) {
    bool some = false;

    for (uint32_t s = 0, last; s < nsizes; s = last) {
        const char *name = NULL, *other = NULL, *origin = at(of, s, &name), *next;
        char from[64], to[64];

        for (last = s + 1; last < nsizes; last++) {
            next = at(of, last, &other);
            if (name != other || !origin || !next || strcmp(origin, next) != 0)
                break;
        }
        if (!origin || !origin[0])
            continue;
        if (!some)
            ccl_text_printf(out, "%s\n", title);
        some = true;
        ccl_format_bytes(sizes_bytes[s], from, sizeof(from));
        ccl_format_bytes(sizes_bytes[last - 1], to, sizeof(to));
        bool told = !name || strncmp(origin, name, strlen(name)) == 0;
        ccl_text_printf(out, "    %s%s%s: %s%s%s\n", from, last > s + 1 ? " to " : "",
                        last > s + 1 ? to : "", told ? "" : name, told ? "" : ": ", origin);
    }
}

void ccl_i_options_text(const ccl_tune_point_t *point, char *out, size_t out_len) {
    ccl_text_t text = {0};

    ccl_space_options(point->values, &text);
    snprintf(out, out_len, "%s", text.data ? text.data : "");
    ccl_text_fini(&text);
}
