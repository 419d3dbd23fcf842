/* Rows that several results have: ways of lowering, blocks, links, faults, deadlocks. */
#include "report/rows.h"

#include <math.h>

ccl_i_way_row_t ccl_i_way_row(const ccl_way_t *way, bool lowered) {
    ccl_i_way_row_t row = {lowered ? ccl_i_order_name(way->order) : NULL,
                           lowered ? ccl_i_allocation_name(way->allocation) : NULL,
                           ccl_i_granularity_name(way->granularity)};

    return row;
}

ccl_i_usage_row_t ccl_i_usage_row(const ccl_sim_usage_t *usage, bool have) {
    ccl_i_usage_row_t row = {NAN, NAN, NAN, NAN, NAN};

    if (have)
        row = (ccl_i_usage_row_t){usage->thread_blocks, usage->comm_share, usage->mean_idle_share,
                                  usage->max_idle_share, usage->link_utilization};
    return row;
}

ccl_i_block_row_t ccl_i_block_row(const ccl_tb_t *tb, const ccl_tb_use_t *use) {
    ccl_i_block_row_t row = {tb->rank,         tb->id,           tb->channel,     tb->send_peer,
                             tb->recv_peer,    use->start_s,     use->done_s,     use->busy_s,
                             use->wait_data_s, use->wait_peer_s, use->wait_slot_s};

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
    const ccl_i_links_t *of = links;

    return of->result && of->result->links ? of->result->nlinks : 0;
}

const void *ccl_i_link_at(const void *links, uint64_t i, void *scratch) {
    const ccl_i_links_t *of = links;
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

/* ---------------------------------------------------------------- faults */

#define AT(member) CCL_I_AT(ccl_fault_t, member)
#define NOT_SAID "not of one"
const ccl_i_described_t ccl_i_fault_record = {
    .fields = (const ccl_i_field_t[]){{"kind", AT(kind), "docs/formats.md lists them"},
                                      {"rank", AT(rank), .null = NOT_SAID},
                                      {"thread_block", AT(tb), .null = NOT_SAID},
                                      {"step", AT(step), .null = NOT_SAID},
                                      {"chunk", AT(chunk), .null = NOT_SAID},
                                      {"text", AT(text), "in words"},
                                      {0}}};
#undef AT

typedef struct wait_row {
    uint32_t rank, tb, step, batch, slice, on_rank, on_tb;
    const char *waits_for;
} wait_row_t;

static uint64_t count_waits(const void *row) {
    const ccl_deadlock_t *d = row;

    return d->nwaits < CCL_ARRAY_LEN(d->waits) ? d->nwaits : CCL_ARRAY_LEN(d->waits);
}

static const void *wait_at(const void *row, uint64_t i, void *scratch) {
    const ccl_deadlock_wait_t *w = &((const ccl_deadlock_t *)row)->waits[i];
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
const ccl_i_described_t ccl_i_deadlock_record = {
    .fields = (const ccl_i_field_t[]){{"stuck", CCL_I_AT(ccl_deadlock_t, stuck), "thread blocks"},
                                      {"cycle_length", CCL_I_AT(ccl_deadlock_t, nwaits)},
                                      {"cycle", CCL_I_LIST_OF(wait_record, count_waits, wait_at),
                                       "who waits for whom"},
                                      {0}},
    .tall = true};
