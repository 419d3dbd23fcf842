/* What a schedule took over from a former one, and which links that changed most. */
#include "report/runs/warm.h"
#include "report/writer.h"

typedef struct link_row {
    char link[200];
    double before_s, after_s;
} link_row_t;

static uint64_t count_links(const void *row) {
    return ((const ccl_i_warm_row_t *)row)->of.nlinks;
}

static const void *link_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_warm_row_t *w = row;
    const ccl_warm_link_t *l = &w->of.links[i];
    link_row_t *out = scratch;
    ccl_i_link_name(w->topo, l->link, out->link, sizeof out->link);
    out->before_s = l->before_s;
    out->after_s = l->after_s;
    return out;
}

#define AT(member) CCL_I_AT(link_row_t, member)
static const ccl_i_described_t link_record = {
    .size = sizeof(link_row_t),
    .fields = (const ccl_i_field_t[]){{"link", .type = CCL_I_CHARS, .offset = 0},
                                      {"before_s", AT(before_s), "bytes over bandwidth, formerly"},
                                      {"after_s", AT(after_s), "the same now"},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_warm_row_t, of.member)
const ccl_i_described_t ccl_i_warm_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"blocks", AT(blocks), "with bytes"},
            {"blocks_again", AT(blocks_again), "of these on other ways than formerly, or new"},
            {"blocks_changed", AT(changed), "with other bytes than formerly, or without any now"},
            {"bytes_before", AT(bytes_before), "of all blocks that move"},
            {"bytes", AT(bytes), "the same now"},
            {"bytes_changed", AT(bytes_changed), "more or less, block by block"},
            {"kept", AT(kept), "transfers (block, ends, channel) of both schedules"},
            {"added", AT(added), "transfers that are new"},
            {"dropped", AT(dropped), "transfers of the former schedule alone"},
            {"load_before_s", AT(load_before_s), "of the busiest link or group, formerly"},
            {"load_s", AT(load_s), "the same now"},
            {"links", CCL_I_LIST_OF(link_record, count_links, link_at),
             "whose load changed most, at most 5"},
            {0}},
    .tall = true};
#undef AT

void ccl_i_warm_text(const ccl_warm_stats_t *s, const ccl_topology_t *topo, ccl_text_t *out) {
    char name[200];
    ccl_text_printf(out,
                    "former schedule: %u of %u blocks have other bytes, %.3g of %.3g MB; %u blocks "
                    "on other ways\n"
                    "transfers: %u kept, %u new, %u dropped; busiest link %.6g us, formerly %.6g\n",
                    s->changed, s->blocks, s->bytes_changed / 1e6, s->bytes / 1e6, s->blocks_again,
                    s->kept, s->added, s->dropped, 1e6 * s->load_s, 1e6 * s->load_before_s);
    for (uint32_t i = 0; i < s->nlinks; i++)
        ccl_text_printf(out, "%s %s %.6g us, formerly %.6g%s", i ? ";" : "links that changed most:",
                        ccl_i_link_name(topo, s->links[i].link, name, sizeof name),
                        1e6 * s->links[i].after_s, 1e6 * s->links[i].before_s,
                        i + 1 == s->nlinks ? "\n" : "");
}
