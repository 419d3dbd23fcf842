/* Operations of MSCCL++'s plans; those that it has fused come apart. */
#include "schedule/formats/mscclpp/parse_i.h"

#include <string.h>

/** Number `i` of a block's channels or remote buffers is that of the GPU. */
static ccl_status_t resolve(const ccl_json_at_t *at, const uint32_t *list, uint32_t n,
                            const char *what, uint32_t *out, ccl_error_t *err) {
    uint32_t i;
    CCL_TRY(ccl_json_u32(at, true, UINT32_MAX - 1, &i, err));
    if (i >= n)
        return ccl_json_fail(at, err, "the block has %u %s, so none has number %u", n, what, i);
    *out = list[i];
    return CCL_OK;
}

/** A piece of memory: of this GPU, of another one, or of a group. */
typedef struct piece {
    enum { LOCAL, REMOTE, GROUP } of;
    ccl_i_mpp_place_t place;
    uint32_t peer, channel, count; /* REMOTE; GROUP: switch channel of the GPU */
} piece_t;

static ccl_status_t read_piece(ccl_i_mpp_parser_t *p, const ccl_json_at_t *at, uint32_t type,
                               piece_t *out) {
    ccl_json_at_t id = ccl_json_member(at, "buffer_id"),
                  sw = ccl_json_member(at, "switch_channel_id"), own = ccl_json_member(at, "type");
    const ccl_i_mpp_gpu_t *gpu = &p->plan->gpus[p->rank];
    uint32_t remote = 0;
    *out = (piece_t){.of = id.value ? REMOTE : sw.value ? GROUP : LOCAL, .peer = p->rank};
    if (out->of == REMOTE) {
        if (type >= CCL_I_MPP_NTYPES)
            return ccl_json_fail(&id, p->err, "another GPU's buffer needs a channel_type");
        CCL_TRY(resolve(&id, p->remotes[type], p->nrefs[type], "remote buffers of this type",
                        &remote, p->err));
        out->peer = p->remote_rank[remote];
        out->place.buffer = p->remote_buffer[remote];
    } else if (out->of == GROUP) {
        CCL_TRY(resolve(&sw, p->channels[CCL_I_MPP_SWITCH], p->nchannels[CCL_I_MPP_SWITCH],
                        "switch channels", &out->channel, p->err));
        out->place.buffer = gpu->switches[out->channel].buffer;
    } else {
        CCL_TRY(ccl_i_mpp_one_of(&own, ccl_i_mpp_buffers, &out->place.buffer, p->err));
    }
    CCL_TRY(ccl_i_mpp_member_u32(at, "index", CCL_I_MPP_MOST_SCRATCH, &out->place.at, p->err));
    CCL_TRY(ccl_i_mpp_member_u32(at, "size", CCL_I_MPP_MOST_SCRATCH, &out->count, p->err));
    const ccl_i_mpp_switch_t *group = &gpu->switches[out->channel];
    for (uint32_t i = 0; i < (out->of == GROUP ? group->n : 1); i++) {
        uint32_t rank = out->of == GROUP ? group->ranks[i] : out->peer;
        uint32_t len = p->plan->gpus[rank].len[out->place.buffer];
        if (out->count == 0 || out->place.at + out->count > len)
            return ccl_json_fail(at, p->err, "elements %u to %u of buffer %s; GPU %u has %u there",
                                 out->place.at, out->place.at + out->count,
                                 ccl_i_mpp_buffers[out->place.buffer], rank, len);
    }
    return CCL_OK;
}

enum { MOST_PIECES = 10 }; /* of an operation, in the executor too */

typedef struct pieces {
    piece_t list[MOST_PIECES];
    uint32_t n;
} pieces_t;

static ccl_status_t read_pieces(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, const char *key,
                                uint32_t type, pieces_t *out) {
    ccl_json_at_t list = ccl_json_member(op, key);
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, p->err));
    if (n == 0 || n > MOST_PIECES)
        return ccl_json_fail(&list, p->err, "1 to %u pieces of memory", MOST_PIECES);
    for (out->n = 0; out->n < n; out->n++) {
        ccl_json_at_t e = ccl_json_element(&list, out->n);
        CCL_TRY(read_piece(p, &e, type, &out->list[out->n]));
        if (out->list[out->n].count != out->list[0].count)
            return ccl_json_fail(&e, p->err, "pieces of one operation have one size");
    }
    return CCL_OK;
}

static void add(ccl_i_mpp_parser_t *p, ccl_i_mpp_op_t op, const uint32_t *ids, uint32_t n) {
    op.block = (uint32_t)p->plan->nblocks - 1;
    op.where = p->where;
    ccl_i_mpp_add(p->plan, op, ids, n);
}

/** How pieces are put. */
typedef struct puts {
    ccl_i_mpp_kind_t kind;
    uint32_t type;
    uint32_t first;      /* piece, from which on they are put */
    const uint32_t *ids; /* [nids] of the semaphores */
    uint32_t nids;
} puts_t;

/** Puts of `from` to all pieces from the first on. */
static ccl_status_t add_puts(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, puts_t how,
                             const pieces_t *from, const pieces_t *to) {
    bool one = from->n == 1;
    for (uint32_t i = how.first; i < to->n; i++) {
        const piece_t *src = &from->list[one ? 0 : i];
        if (src->of != LOCAL || to->list[i].of != REMOTE || (!one && i >= from->n))
            return ccl_json_fail(op, p->err, "a put is from own memory to another GPU's");
        bool named = i - how.first < how.nids;
        if (how.type == CCL_I_MPP_PORT && !named)
            return ccl_json_fail(op, p->err, "a put to a port needs a channel for each piece");
        add(p,
            (ccl_i_mpp_op_t){.kind = (uint8_t)how.kind,
                             .type = (uint8_t)how.type,
                             .peer = to->list[i].peer,
                             .a = src->place,
                             .dst = to->list[i].place,
                             .count = src->count},
            how.ids + (i - how.first), how.type == CCL_I_MPP_PORT ? 1 : 0);
    }
    return CCL_OK;
}

/** dst = sum of all; then sent, where there are further pieces. */
static ccl_status_t add_reduce(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, uint32_t type,
                               const pieces_t *from, const pieces_t *to) {
    const piece_t *dst = &to->list[0];
    for (uint32_t i = 0; i < from->n; i++) {
        if (from->list[i].of != LOCAL || dst->of != LOCAL || from->n < 2)
            return ccl_json_fail(op, p->err, "a reduction adds two or more pieces of own memory");
    }
    for (uint32_t i = 1; i < from->n; i++)
        add(p,
            (ccl_i_mpp_op_t){.kind = CCL_I_MPP_REDUCE,
                             .a = i == 1 ? from->list[0].place : dst->place,
                             .b = from->list[i].place,
                             .dst = dst->place,
                             .count = dst->count},
            NULL, 0);
    pieces_t sum = {.n = 1};
    sum.list[0] = *dst;
    return add_puts(p, op, (puts_t){CCL_I_MPP_PUT, type, 1, NULL, 0}, &sum, to);
}

/** Packets lie in scratch. */
static ccl_status_t check_packets(const ccl_json_at_t *op, const pieces_t *list, uint32_t first,
                                  uint32_t end, ccl_error_t *err) {
    for (uint32_t i = first; i < end; i++)
        if (list->list[i].place.buffer != CCL_BUF_SCRATCH)
            return ccl_json_fail(op, err, "packets lie in scratch, not in buffer %s",
                                 ccl_i_mpp_buffers[list->list[i].place.buffer]);
    return CCL_OK;
}

/** dst = own memory + packets, and then sent as packets where there are further pieces. */
static ccl_status_t add_packet_sum(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, uint32_t type,
                                   const pieces_t *from, const pieces_t *to) {
    const piece_t *dst = &to->list[0];
    pieces_t sum = {.n = 1};
    CCL_TRY(check_packets(op, from, 1, from->n, p->err));
    CCL_TRY(check_packets(op, to, 1, to->n, p->err));
    for (uint32_t i = 0; i < from->n; i++) {
        if (from->list[i].of != LOCAL || dst->of != LOCAL || from->n < 2)
            return ccl_json_fail(op, p->err, "a reduction adds own memory and packets");
    }
    for (uint32_t i = 1; i < from->n; i++)
        add(p,
            (ccl_i_mpp_op_t){.kind = CCL_I_MPP_REDUCE_PACKETS,
                             .a = i == 1 ? from->list[0].place : dst->place,
                             .b = from->list[i].place,
                             .dst = dst->place,
                             .count = dst->count},
            NULL, 0);
    sum.list[0] = *dst;
    return add_puts(p, op, (puts_t){CCL_I_MPP_PUT_PACKETS, type, 1, NULL, 0}, &sum, to);
}

/** One of the operations on packets. @param kind  PUT_PACKETS, PASS_PACKETS, PACK, UNPACK. */
static ccl_status_t add_packets(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op,
                                ccl_i_mpp_kind_t kind, uint32_t type, const pieces_t *from,
                                const pieces_t *to) {
    bool puts = kind == CCL_I_MPP_PUT_PACKETS || kind == CCL_I_MPP_PASS_PACKETS;
    if (kind != CCL_I_MPP_PUT_PACKETS && kind != CCL_I_MPP_PACK)
        CCL_TRY(check_packets(op, from, 0, from->n, p->err));
    if (kind != CCL_I_MPP_UNPACK)
        CCL_TRY(check_packets(op, to, 0, to->n, p->err));
    puts_t how = {kind, type == CCL_I_MPP_PORT ? CCL_I_MPP_MEMORY : type, 0, NULL, 0};
    if (puts) /* over a port it has the same effect */
        return add_puts(p, op, how, from, to);
    if (from->list[0].of != LOCAL || to->list[0].of != LOCAL)
        return ccl_json_fail(op, p->err, "from own memory to own memory");
    add(p,
        (ccl_i_mpp_op_t){.kind = (uint8_t)kind,
                         .a = from->list[0].place,
                         .dst = to->list[0].place,
                         .count = from->list[0].count},
        NULL, 0);
    return CCL_OK;
}

static ccl_status_t add_switch(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, bool pulls,
                               const pieces_t *from, const pieces_t *to) {
    const piece_t *a = &from->list[0], *b = &to->list[0];
    if (b->of != GROUP || a->of != (pulls ? GROUP : LOCAL))
        return ccl_json_fail(op, p->err, "%s to a switch_channel_id",
                             pulls ? "from a switch_channel_id" : "from own memory");
    add(p,
        (ccl_i_mpp_op_t){.kind = pulls ? CCL_I_MPP_PULL_STORE : CCL_I_MPP_STORE,
                         .from = a->channel,
                         .to = b->channel,
                         .a = a->place,
                         .dst = b->place,
                         .count = a->count},
        NULL, 0);
    return CCL_OK;
}

/** Operations by what becomes of them. */
typedef enum form {
    NOTHING,
    TELLS,
    HOLDS,
    PUTS,
    COPIES,
    REDUCES,
    SWITCHES,
    PACKETS,
    NO_PACKETS,
    READS,
    OTHER
} form_t;
static const struct {
    const char *name;
    uint8_t form, kind;
    bool signals; /* and then */
} names[] = {
    {"nop", NOTHING, 0, false},
    {"flush", NOTHING, 0, false},
    {"signal", TELLS, CCL_I_MPP_SIGNAL, false},
    {"rlxsignal", TELLS, CCL_I_MPP_SIGNAL, false},
    {"wait", TELLS, CCL_I_MPP_WAIT, false},
    {"rlxwait", TELLS, CCL_I_MPP_WAIT, false},
    {"sem_acquire", HOLDS, CCL_I_MPP_ACQUIRE, false},
    {"sem_release", HOLDS, CCL_I_MPP_RELEASE, false},
    {"put", PUTS, 0, false},
    {"pws", PUTS, 0, true},
    {"pwsf", PUTS, 0, true},
    {"copy", COPIES, 0, false},
    {"re", REDUCES, 0, false},
    {"res", REDUCES, 0, false},
    {"glres", SWITCHES, CCL_I_MPP_PULL_STORE, false},
    {"gstore", SWITCHES, CCL_I_MPP_STORE, false},
    {"ppkt", PACKETS, CCL_I_MPP_PUT_PACKETS, false},
    {"rppkt", PACKETS, CCL_I_MPP_PASS_PACKETS, false},
    {"respkt", PACKETS, CCL_I_MPP_REDUCE_PACKETS, false},
    {"cpkt", PACKETS, CCL_I_MPP_PACK, false},
    {"upkt", PACKETS, CCL_I_MPP_UNPACK, false},
    {"repkt", PACKETS, CCL_I_MPP_REDUCE_PACKETS, false},
    {"recpkt", NO_PACKETS, 0, false},
    {"recspkt", NO_PACKETS, 0, false},
    {"gstorepkt", NO_PACKETS, 0, false},
    {"get", READS, 0, false},
    {"rre", READS, 0, false},
    {"rres", READS, 0, false},
    {"barrier", OTHER, 0, false},
    {"pipeline", OTHER, 0, false},
};

/** Channels of an operation as the GPU's, or its semaphores. */
static ccl_status_t read_ids(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, bool semaphores,
                             bool required, uint32_t type, uint32_t *ids, uint32_t *n_out) {
    ccl_json_at_t list = ccl_json_member(op, semaphores ? "semaphore_ids" : "channel_ids");
    uint32_t most = semaphores ? CCL_I_MPP_OP_SEMAPHORES : CCL_I_MPP_OP_CHANNELS;
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, required, &n, p->err));
    if (n > most || (required && n == 0))
        return ccl_json_fail(&list, p->err, "1 to %u of an operation", most);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&list, i);
        uint32_t count = p->plan->gpus[p->rank].nsemaphores;
        if (!semaphores)
            CCL_TRY(resolve(&e, p->channels[type], p->nchannels[type], "channels of this type",
                            &ids[i], p->err));
        else if (count == 0)
            return ccl_json_fail(&e, p->err, "the GPU has no semaphores");
        else
            CCL_TRY(ccl_json_u32(&e, true, count - 1, &ids[i], p->err));
    }
    *n_out = (uint32_t)n;
    return CCL_OK;
}

static ccl_status_t refuse(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, const char *name,
                           form_t form) {
    return ccl_json_fail(op, p->err, "%s is not read: %s", name,
                         form == NO_PACKETS ? "packets are sent from one place and read in one"
                         : form == READS    ? "programs send, they do not read other GPUs' memory"
                                            : "blocks meet by semaphores, and work step by step");
}

/* Which operation it is; refused where programs have nothing like it. */
static ccl_status_t find_op(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, size_t *at) {
    ccl_json_at_t name_at = ccl_json_member(op, "name"), sum = ccl_json_member(op, "reduce_op"),
                  tbg = ccl_json_member(op, "tbg_info");
    const char *name = NULL, *reduces = "sum";
    size_t k = 0;
    CCL_TRY(ccl_json_string(&name_at, true, &name, p->err));
    while (k < CCL_ARRAY_LEN(names) && strcmp(names[k].name, name) != 0)
        k++;
    if (k == CCL_ARRAY_LEN(names))
        return ccl_json_fail(&name_at, p->err, "MSCCL++ has no operation \"%.40s\"", name);
    form_t form = (form_t)names[k].form;
    if (tbg.value)
        return ccl_json_fail(&tbg, p->err, "an operation shared by several blocks is not read");
    if (form > PACKETS)
        return refuse(p, op, name, form);
    if (form == PACKETS && !p->packets)
        return ccl_json_fail(&name_at, p->err, "%s: packets are for the protocol LL", name);
    CCL_TRY(ccl_json_string(&sum, false, &reduces, p->err));
    if (strcmp(reduces, "sum") != 0)
        return ccl_json_fail(&sum, p->err, "\"%.20s\": programs add only", reduces);
    *at = k;
    return CCL_OK;
}

/* An operation that moves data. @param ids  of its semaphores, n of them */
static ccl_status_t add_move(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op, size_t k,
                             uint32_t type, const uint32_t *ids, uint32_t n) {
    form_t form = (form_t)names[k].form;
    pieces_t from, to;
    CCL_TRY(read_pieces(p, op, "src_buff", type, &from));
    CCL_TRY(read_pieces(p, op, "dst_buff", type, &to));
    if (from.list[0].count != to.list[0].count)
        return ccl_json_fail(op, p->err, "%u elements to a place for %u", from.list[0].count,
                             to.list[0].count);
    if (form == PACKETS)
        return names[k].kind == CCL_I_MPP_REDUCE_PACKETS
                   ? add_packet_sum(p, op, type, &from, &to)
                   : add_packets(p, op, (ccl_i_mpp_kind_t)names[k].kind, type, &from, &to);
    if (form == REDUCES)
        return add_reduce(p, op, type, &from, &to);
    if (form == SWITCHES)
        return add_switch(p, op, names[k].kind == CCL_I_MPP_PULL_STORE, &from, &to);
    if (form == PUTS) {
        CCL_TRY(add_puts(p, op, (puts_t){CCL_I_MPP_PUT, type, 0, ids, n}, &from, &to));
        if (names[k].signals)
            add(p, (ccl_i_mpp_op_t){.kind = CCL_I_MPP_SIGNAL, .type = (uint8_t)type}, ids, n);
        return CCL_OK;
    }
    if (from.list[0].of != LOCAL || to.list[0].of != LOCAL)
        return ccl_json_fail(op, p->err, "a copy is from own memory to own memory");
    add(p,
        (ccl_i_mpp_op_t){.kind = CCL_I_MPP_COPY,
                         .a = from.list[0].place,
                         .dst = to.list[0].place,
                         .count = from.list[0].count},
        NULL, 0);
    return CCL_OK;
}

ccl_status_t ccl_i_mpp_parse_op(ccl_i_mpp_parser_t *p, const ccl_json_at_t *op) {
    ccl_json_at_t type_at = ccl_json_member(op, "channel_type");
    uint32_t ids[CCL_I_MPP_OP_SEMAPHORES] = {0}, n = 0, type = CCL_I_MPP_SWITCH + 1;
    size_t k = 0;
    CCL_TRY(find_op(p, op, &k));
    form_t form = (form_t)names[k].form;
    if (form == NOTHING)
        return CCL_OK;
    if (form == TELLS || form == PUTS || type_at.value)
        CCL_TRY(ccl_i_mpp_one_of(&type_at, ccl_i_mpp_types, &type, p->err));
    if ((form == TELLS || form == PUTS) && type == CCL_I_MPP_SWITCH)
        return ccl_json_fail(&type_at, p->err, "%s goes over memory or port", names[k].name);
    if (form == TELLS || form == HOLDS || form == PUTS)
        CCL_TRY(
            read_ids(p, op, form == HOLDS, form != PUTS || type == CCL_I_MPP_PORT, type, ids, &n));
    if (form == TELLS || form == HOLDS) {
        add(p, (ccl_i_mpp_op_t){.kind = names[k].kind, .type = form == TELLS ? (uint8_t)type : 0},
            ids, n);
        return CCL_OK;
    }
    return add_move(p, op, k, type, ids, n);
}
