/* Execution plans of MSCCL++ from JSON. Keys that its executor does not look up are skipped. */
#include "schedule/formats/mscclpp/plan_i.h"
#include "schedule/formats/msccl_xml_i.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SCRATCH = 1 << 24, MOST_BLOCKS = 4096, MOST_IDS = 1 << 16 };

typedef struct parser {
    ccl_i_mpp_t *plan;
    ccl_error_t *err;
    uint32_t rank;
    /* Of the GPU: owners and buffers of its remote buffers. */
    uint32_t *remote_rank, *remote_buffer, nremotes;
    /* Of the block: what its numbers stand for. */
    uint32_t *channels[3], nchannels[3];
    uint32_t *remotes[CCL_I_MPP_NTYPES], nrefs[CCL_I_MPP_NTYPES];
    uint32_t where;
    bool packets;
} parser_t;
enum { SWITCH = CCL_I_MPP_NTYPES }; /* beside memory and port */

/* ---------------------------------------------------------------- small things */

static ccl_status_t one_of(const ccl_json_at_t *at, const char *const *words, uint32_t *out,
                           ccl_error_t *err) {
    const char *text = NULL;
    CCL_TRY(ccl_json_string(at, true, &text, err));
    for (*out = 0; words[*out]; ++*out) {
        if (strcmp(words[*out], text) == 0)
            return CCL_OK;
    }
    return ccl_json_fail(at, err, "\"%.40s\" is none of %s, %s%s%s", text, words[0], words[1],
                         words[2] ? ", " : "", words[2] ? words[2] : "");
}

static const char *const types[] = {"memory", "port", "switch", NULL};
static const char *const buffers[] = {"i", "o", "s", NULL};

static ccl_status_t member_u32(const ccl_json_at_t *at, const char *key, uint32_t max,
                               uint32_t *out, ccl_error_t *err) {
    ccl_json_at_t m = ccl_json_member(at, key);
    return ccl_json_u32(&m, true, max, out, err);
}

/** Numbers of a list behind those that are there; each at most max. */
static ccl_status_t add_numbers(const ccl_json_at_t *at, uint32_t max, uint32_t **list, uint32_t *n,
                                ccl_error_t *err) {
    size_t more = 0;
    CCL_TRY(ccl_json_array(at, true, &more, err));
    if (more + *n > MOST_IDS)
        return ccl_json_fail(at, err, "more than %u numbers", MOST_IDS);
    uint32_t *grown = realloc(*list, (*n + more + 1) * sizeof *grown);
    if (!grown)
        return ccl_fail_nomem(err);
    *list = grown;
    for (size_t i = 0; i < more; i++) {
        ccl_json_at_t e = ccl_json_element(at, i);
        CCL_TRY(ccl_json_u32(&e, true, max, &grown[*n], err));
        ++*n;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- GPUs */

static ccl_status_t switch_channels(parser_t *p, const ccl_json_at_t *at) {
    ccl_json_at_t type = ccl_json_member(at, "buffer_type"),
                  groups = ccl_json_member(at, "rank_groups");
    ccl_i_mpp_gpu_t *gpu = &p->plan->gpus[p->rank];
    uint32_t buffer;
    size_t n = 0;
    CCL_TRY(one_of(&type, buffers, &buffer, p->err));
    CCL_TRY(ccl_json_array(&groups, true, &n, p->err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t group = ccl_json_element(&groups, i),
                      ranks = ccl_json_member(&group, "ranks");
        uint32_t *list = NULL, many = 0;
        bool own = false, ascend = true;
        ccl_status_t status =
            add_numbers(&ranks, (uint32_t)p->plan->ngpus - 1, &list, &many, p->err);
        for (uint32_t k = 0; k < many && status == CCL_OK; k++) {
            own = own || list[k] == p->rank;
            ascend = ascend && (k == 0 || list[k - 1] < list[k]);
        }
        if (status == CCL_OK && (!own || !ascend))
            status = ccl_json_fail(&ranks, p->err, "%s",
                                   own ? "ranks of a group must ascend"
                                       : "the GPU itself is not in the group");
        ccl_i_mpp_switch_t *more =
            realloc(gpu->switches, (gpu->nswitches + (size_t)1) * sizeof *more);
        if (status == CCL_OK && !more)
            status = ccl_fail_nomem(p->err);
        gpu->switches = more ? more : gpu->switches;
        if (status != CCL_OK) {
            free(list);
            return status;
        }
        more[gpu->nswitches++] = (ccl_i_mpp_switch_t){.buffer = buffer, .ranks = list, .n = many};
    }
    return CCL_OK;
}

static ccl_status_t gpu_channels(parser_t *p, const ccl_json_at_t *gpu) {
    ccl_json_at_t list = ccl_json_member(gpu, "channels");
    uint32_t last = (uint32_t)p->plan->ngpus - 1;
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, p->err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&list, i), type = ccl_json_member(&e, "channel_type");
        ccl_json_at_t to = ccl_json_member(&e, "connected_to");
        uint32_t t;
        CCL_TRY(one_of(&type, types, &t, p->err));
        if (t == SWITCH) {
            CCL_TRY(switch_channels(p, &e));
            continue;
        }
        ccl_i_mpp_gpu_t *g = &p->plan->gpus[p->rank];
        CCL_TRY(add_numbers(&to, last, &g->peers[t], &g->nchannels[t], p->err));
        for (uint32_t c = 0; c < g->nchannels[t]; c++) {
            if (g->peers[t][c] == p->rank)
                return ccl_json_fail(&to, p->err, "a channel of GPU %u to itself", p->rank);
        }
    }
    return CCL_OK;
}

static ccl_status_t gpu_head(parser_t *p, const ccl_json_at_t *gpu) {
    static const char *const keys[] = {"input_chunks", "output_chunks", "scratch_chunks"};
    ccl_i_mpp_gpu_t *g = &p->plan->gpus[p->rank];
    ccl_json_at_t id = ccl_json_member(gpu, "id"), semaphores = ccl_json_member(gpu, "semaphores");
    uint32_t number;
    size_t n = 0;
    CCL_TRY(ccl_json_u32(&id, true, CCL_I_MAX_RANKS, &number, p->err));
    if (number != p->rank)
        return ccl_json_fail(&id, p->err, "GPUs stand in the order of their ids; this is %u",
                             p->rank);
    for (int b = 0; b < 3; b++)
        CCL_TRY(member_u32(gpu, keys[b], MOST_SCRATCH, &g->len[b], p->err));
    CCL_TRY(ccl_json_array(&semaphores, false, &n, p->err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&semaphores, i), v = ccl_json_member(&e, "init_value");
        uint32_t value;
        CCL_TRY(ccl_json_u32(&v, true, UINT32_MAX - 1, &value, p->err));
        if (value != 0)
            return ccl_json_fail(&v, p->err, "a semaphore that begins at %u is not read", value);
    }
    g->nsemaphores = (uint32_t)n;
    return gpu_channels(p, gpu);
}

static ccl_status_t gpu_remotes(parser_t *p, const ccl_json_at_t *gpu) {
    ccl_json_at_t list = ccl_json_member(gpu, "remote_buffers");
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, false, &n, p->err));
    free(p->remote_rank);
    free(p->remote_buffer);
    p->remote_rank = calloc(n + 1, sizeof *p->remote_rank);
    p->remote_buffer = calloc(n + 1, sizeof *p->remote_buffer);
    p->nremotes = (uint32_t)n;
    if (!p->remote_rank || !p->remote_buffer)
        return ccl_fail_nomem(p->err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&list, i), type = ccl_json_member(&e, "type");
        CCL_TRY(member_u32(&e, "rank", (uint32_t)p->plan->ngpus - 1, &p->remote_rank[i], p->err));
        CCL_TRY(one_of(&type, buffers, &p->remote_buffer[i], p->err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- operations */

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

static ccl_status_t read_piece(parser_t *p, const ccl_json_at_t *at, uint32_t type, piece_t *out) {
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
        CCL_TRY(resolve(&sw, p->channels[SWITCH], p->nchannels[SWITCH], "switch channels",
                        &out->channel, p->err));
        out->place.buffer = gpu->switches[out->channel].buffer;
    } else {
        CCL_TRY(one_of(&own, buffers, &out->place.buffer, p->err));
    }
    CCL_TRY(member_u32(at, "index", MOST_SCRATCH, &out->place.at, p->err));
    CCL_TRY(member_u32(at, "size", MOST_SCRATCH, &out->count, p->err));
    const ccl_i_mpp_switch_t *group = &gpu->switches[out->channel];
    for (uint32_t i = 0; i < (out->of == GROUP ? group->n : 1); i++) {
        uint32_t rank = out->of == GROUP ? group->ranks[i] : out->peer;
        uint32_t len = p->plan->gpus[rank].len[out->place.buffer];
        if (out->count == 0 || out->place.at + out->count > len)
            return ccl_json_fail(at, p->err, "elements %u to %u of buffer %s; GPU %u has %u there",
                                 out->place.at, out->place.at + out->count,
                                 buffers[out->place.buffer], rank, len);
    }
    return CCL_OK;
}

enum { MOST_PIECES = 10 }; /* of an operation, in the executor too */

typedef struct pieces {
    piece_t list[MOST_PIECES];
    uint32_t n;
} pieces_t;

static ccl_status_t read_pieces(parser_t *p, const ccl_json_at_t *op, const char *key,
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

static void add(parser_t *p, ccl_i_mpp_op_t op, const uint32_t *ids, uint32_t n) {
    op.block = (uint32_t)p->plan->nblocks - 1;
    op.where = p->where;
    ccl_i_mpp_add(p->plan, op, ids, n);
}

/** Puts of `from` to all pieces from number `first` on. */
static ccl_status_t add_puts(parser_t *p, const ccl_json_at_t *op, ccl_i_mpp_kind_t kind,
                             uint32_t type, const pieces_t *from, const pieces_t *to,
                             uint32_t first, const uint32_t *ids, uint32_t nids) {
    bool one = from->n == 1;
    for (uint32_t i = first; i < to->n; i++) {
        const piece_t *src = &from->list[one ? 0 : i];
        if (src->of != LOCAL || to->list[i].of != REMOTE || (!one && i >= from->n))
            return ccl_json_fail(op, p->err, "a put is from own memory to another GPU's");
        bool named = i - first < nids;
        if (type == CCL_I_MPP_PORT && !named)
            return ccl_json_fail(op, p->err, "a put to a port needs a channel for each piece");
        add(p,
            (ccl_i_mpp_op_t){.kind = (uint8_t)kind,
                             .type = (uint8_t)type,
                             .peer = to->list[i].peer,
                             .a = src->place,
                             .dst = to->list[i].place,
                             .count = src->count},
            ids + (i - first), type == CCL_I_MPP_PORT ? 1 : 0);
    }
    return CCL_OK;
}

/** dst = sum of all; then sent, where there are further pieces. */
static ccl_status_t add_reduce(parser_t *p, const ccl_json_at_t *op, uint32_t type,
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
    return add_puts(p, op, CCL_I_MPP_PUT, type, &sum, to, 1, NULL, 0);
}

/** Packets lie in scratch. */
static ccl_status_t check_packets(const ccl_json_at_t *op, const pieces_t *list, uint32_t first,
                                  uint32_t end, ccl_error_t *err) {
    for (uint32_t i = first; i < end; i++)
        if (list->list[i].place.buffer != CCL_BUF_SCRATCH)
            return ccl_json_fail(op, err, "packets lie in scratch, not in buffer %s",
                                 buffers[list->list[i].place.buffer]);
    return CCL_OK;
}

/** dst = own memory + packets, and then sent as packets where there are further pieces. */
static ccl_status_t add_packet_sum(parser_t *p, const ccl_json_at_t *op, uint32_t type,
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
    return add_puts(p, op, CCL_I_MPP_PUT_PACKETS, type, &sum, to, 1, NULL, 0);
}

/** One of the operations on packets. @param kind  PUT_PACKETS, PASS_PACKETS, PACK, UNPACK. */
static ccl_status_t add_packets(parser_t *p, const ccl_json_at_t *op, ccl_i_mpp_kind_t kind,
                                uint32_t type, const pieces_t *from, const pieces_t *to) {
    bool puts = kind == CCL_I_MPP_PUT_PACKETS || kind == CCL_I_MPP_PASS_PACKETS;
    if (kind != CCL_I_MPP_PUT_PACKETS && kind != CCL_I_MPP_PACK)
        CCL_TRY(check_packets(op, from, 0, from->n, p->err));
    if (kind != CCL_I_MPP_UNPACK)
        CCL_TRY(check_packets(op, to, 0, to->n, p->err));
    if (puts) /* over a port it has the same effect */
        return add_puts(p, op, kind, type == CCL_I_MPP_PORT ? CCL_I_MPP_MEMORY : type, from, to, 0,
                        NULL, 0);
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

static ccl_status_t add_switch(parser_t *p, const ccl_json_at_t *op, bool pulls,
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
static ccl_status_t read_ids(parser_t *p, const ccl_json_at_t *op, bool semaphores, bool required,
                             uint32_t type, uint32_t *ids, uint32_t *n_out) {
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

static ccl_status_t refuse(parser_t *p, const ccl_json_at_t *op, const char *name, form_t form) {
    return ccl_json_fail(op, p->err, "%s is not read: %s", name,
                         form == NO_PACKETS ? "packets are sent from one place and read in one"
                         : form == READS    ? "programs send, they do not read other GPUs' memory"
                                         : "blocks meet by semaphores, and work step by step");
}

static ccl_status_t operation(parser_t *p, const ccl_json_at_t *op) {
    ccl_json_at_t name_at = ccl_json_member(op, "name"),
                  type_at = ccl_json_member(op, "channel_type"),
                  sum = ccl_json_member(op, "reduce_op"), tbg = ccl_json_member(op, "tbg_info");
    uint32_t ids[CCL_I_MPP_OP_SEMAPHORES] = {0}, n = 0, type = SWITCH + 1;
    const char *name = NULL, *reduces = "sum";
    pieces_t from, to;
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
    if (form == NOTHING)
        return CCL_OK;
    if (form == TELLS || form == PUTS || type_at.value)
        CCL_TRY(one_of(&type_at, types, &type, p->err));
    if ((form == TELLS || form == PUTS) && type == SWITCH)
        return ccl_json_fail(&type_at, p->err, "%s goes over memory or port", name);
    if (form == TELLS || form == HOLDS || form == PUTS)
        CCL_TRY(
            read_ids(p, op, form == HOLDS, form != PUTS || type == CCL_I_MPP_PORT, type, ids, &n));
    if (form == TELLS || form == HOLDS) {
        add(p, (ccl_i_mpp_op_t){.kind = names[k].kind, .type = form == TELLS ? (uint8_t)type : 0},
            ids, n);
        return CCL_OK;
    }
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
        CCL_TRY(add_puts(p, op, CCL_I_MPP_PUT, type, &from, &to, 0, ids, n));
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

/* ---------------------------------------------------------------- blocks */

static ccl_status_t block_lists(parser_t *p, const ccl_json_at_t *block) {
    ccl_json_at_t list = ccl_json_member(block, "channels"),
                  refs = ccl_json_member(block, "remote_buffer_refs");
    const ccl_i_mpp_gpu_t *gpu = &p->plan->gpus[p->rank];
    size_t n = 0;
    memset(p->nchannels, 0, sizeof p->nchannels);
    memset(p->nrefs, 0, sizeof p->nrefs);
    CCL_TRY(ccl_json_array(&list, true, &n, p->err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&list, i), type = ccl_json_member(&e, "channel_type"),
                      ids = ccl_json_member(&e, "channel_ids");
        uint32_t t;
        CCL_TRY(one_of(&type, types, &t, p->err));
        uint32_t count = t == SWITCH ? gpu->nswitches : gpu->nchannels[t];
        if (count == 0)
            return ccl_json_fail(&type, p->err, "the GPU has no %s channels", types[t]);
        CCL_TRY(add_numbers(&ids, count - 1, &p->channels[t], &p->nchannels[t], p->err));
    }
    CCL_TRY(ccl_json_array(&refs, false, &n, p->err));
    for (size_t i = 0; refs.value && i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&refs, i),
                      type = ccl_json_member(&e, "access_channel_type"),
                      ids = ccl_json_member(&e, "remote_buffer_ids");
        uint32_t t;
        CCL_TRY(one_of(&type, types, &t, p->err));
        if (t == SWITCH || p->nremotes == 0)
            return ccl_json_fail(&e, p->err, "the GPU has no such remote buffers");
        CCL_TRY(add_numbers(&ids, p->nremotes - 1, &p->remotes[t], &p->nrefs[t], p->err));
    }
    return CCL_OK;
}

static ccl_status_t gpu_blocks(parser_t *p, const ccl_json_at_t *gpu) {
    ccl_json_at_t list = ccl_json_member(gpu, "threadblocks");
    size_t n = 0, nops = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, p->err));
    if (n > MOST_BLOCKS)
        return ccl_json_fail(&list, p->err, "more than %u blocks", MOST_BLOCKS);
    for (uint32_t t = 0; t < n; t++) {
        ccl_json_at_t block = ccl_json_element(&list, t), ops = ccl_json_member(&block, "ops"),
                      id_at = ccl_json_member(&block, "id");
        uint32_t id;
        CCL_TRY(ccl_json_u32(&id_at, true, MOST_BLOCKS, &id, p->err));
        if (id != t)
            return ccl_json_fail(&id_at, p->err,
                                 "blocks stand in the order of their ids; this is "
                                 "%u",
                                 t);
        CCL_TRY(block_lists(p, &block));
        ccl_i_mpp_block(p->plan, p->rank);
        CCL_TRY(ccl_json_array(&ops, true, &nops, p->err));
        for (p->where = 0; p->where < nops && !p->plan->nomem; p->where++) {
            ccl_json_at_t op = ccl_json_element(&ops, p->where);
            CCL_TRY(operation(p, &op));
        }
    }
    return p->plan->nomem ? ccl_fail_nomem(p->err) : CCL_OK;
}

/* ---------------------------------------------------------------- the plan */

static ccl_status_t make_collective(const ccl_json_at_t *root, const ccl_i_mpp_t *plan,
                                    ccl_i_mpp_head_t *head, ccl_error_t *err) {
    ccl_json_at_t at = ccl_json_member(root, "collective"), root_at = ccl_json_member(root, "root");
    ccl_collective_kind_t kind;
    ccl_error_t ignored = CCL_ERROR_INIT;
    const char *text = NULL;
    uint32_t by_root = 0, c;
    CCL_TRY(ccl_json_string(&at, true, &text, err));
    if (ccl_collective_kind_parse(text, &kind, &ignored) != CCL_OK || kind == CCL_CUSTOM)
        return ccl_json_fail(&at, err, "\"%.40s\" is no collective", text);
    CCL_TRY(ccl_json_u32(&root_at, false, (uint32_t)plan->ngpus - 1, &by_root, err));
    for (size_t r = 0; r < plan->ngpus; r++) {
        for (int b = 0; b < 2; b++)
            head->nchunks =
                plan->gpus[r].len[b] > head->nchunks ? plan->gpus[r].len[b] : head->nchunks;
    }
    c = head->nchunks == 0 ? 0
                           : ccl_i_xml_chunks_per_block(kind, (uint32_t)plan->ngpus, head->nchunks);
    if (c == 0)
        return ccl_json_fail(&at, err, "%s of %zu GPUs cannot have %u chunks", text, plan->ngpus,
                             head->nchunks);
    return ccl_collective_create(kind, (uint32_t)plan->ngpus, c, by_root, &head->coll, err);
}

static ccl_status_t parse_head(const ccl_json_at_t *root, ccl_i_mpp_head_t *head,
                               ccl_error_t *err) {
    ccl_json_at_t name = ccl_json_member(root, "name"), origin = ccl_json_member(root, "origin"),
                  proto = ccl_json_member(root, "protocol"), in = ccl_json_member(root, "inplace"),
                  least = ccl_json_member(root, "min_message_size"),
                  most = ccl_json_member(root, "max_message_size");
    const char *protocol = NULL;
    CCL_TRY(ccl_json_object(root, true, err));
    CCL_TRY(ccl_json_string(&name, true, &head->name, err));
    CCL_TRY(ccl_json_string(&origin, false, &head->origin, err));
    CCL_TRY(ccl_json_string(&proto, true, &protocol, err));
    head->packets = strcmp(protocol, "LL") == 0;
    if (!head->packets && strcmp(protocol, "Simple") != 0)
        return ccl_json_fail(&proto, err, "protocol \"%.20s\": Simple or LL", protocol);
    CCL_TRY(ccl_json_bool(&in, true, &head->in_place, err));
    CCL_TRY(ccl_json_number(&least, false, &head->min_bytes, err));
    return ccl_json_number(&most, false, &head->max_bytes, err);
}

ccl_status_t ccl_i_mpp_parse(const ccl_json_doc_t *doc, ccl_i_mpp_head_t *head, ccl_i_mpp_t *plan,
                             ccl_error_t *err) {
    parser_t p = {.plan = plan, .err = err};
    ccl_json_at_t root = ccl_json_root(doc), gpus = ccl_json_member(&root, "gpus");
    ccl_status_t status;
    size_t n = 0;
    *head = (ccl_i_mpp_head_t){0};
    *plan = (ccl_i_mpp_t){0};
    CCL_TRY(parse_head(&root, head, err));
    CCL_TRY(ccl_json_array(&gpus, true, &n, err));
    if (n < 1 || n > CCL_I_MAX_RANKS)
        return ccl_json_fail(&gpus, err, "1 to %u GPUs", CCL_I_MAX_RANKS);
    p.packets = head->packets;
    status = ccl_i_mpp_init(plan, (uint32_t)n, err);
    for (p.rank = 0; p.rank < n && status == CCL_OK; p.rank++) {
        ccl_json_at_t gpu = ccl_json_element(&gpus, p.rank);
        status = gpu_head(&p, &gpu);
    }
    if (status == CCL_OK)
        status = make_collective(&root, plan, head, err);
    for (p.rank = 0; p.rank < n && status == CCL_OK; p.rank++) {
        ccl_json_at_t gpu = ccl_json_element(&gpus, p.rank);
        status = gpu_remotes(&p, &gpu);
        if (status == CCL_OK)
            status = gpu_blocks(&p, &gpu);
    }
    if (status == CCL_OK && head->packets)
        status = ccl_i_mpp_unpack(doc, plan, err);
    if (status == CCL_OK)
        status = ccl_i_mpp_join_helpers(plan, err);
    free(p.remote_rank);
    free(p.remote_buffer);
    for (int t = 0; t < 3; t++)
        free(p.channels[t]);
    for (int t = 0; t < CCL_I_MPP_NTYPES; t++)
        free(p.remotes[t]);
    return status;
}
