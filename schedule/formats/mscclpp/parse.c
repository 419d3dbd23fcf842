/* Execution plans of MSCCL++ from JSON. Keys that its executor does not look up are skipped. */
#include "schedule/formats/mscclpp/parse_i.h"
#include "schedule/formats/msccl_xml_i.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- small things */

ccl_status_t ccl_i_mpp_one_of(const ccl_json_at_t *at, const char *const *words, uint32_t *out,
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

const char *const ccl_i_mpp_types[] = {"memory", "port", "switch", NULL};
const char *const ccl_i_mpp_buffers[] = {"i", "o", "s", NULL};

ccl_status_t ccl_i_mpp_member_u32(const ccl_json_at_t *at, const char *key, uint32_t max,
                                  uint32_t *out, ccl_error_t *err) {
    ccl_json_at_t m = ccl_json_member(at, key);
    return ccl_json_u32(&m, true, max, out, err);
}

/** Numbers of a list behind those that are there; each at most max. */
static ccl_status_t add_numbers(const ccl_json_at_t *at, uint32_t max, uint32_t **list, uint32_t *n,
                                ccl_error_t *err) {
    size_t more = 0;
    CCL_TRY(ccl_json_array(at, true, &more, err));
    if (more + *n > CCL_I_MPP_MOST_IDS)
        return ccl_json_fail(at, err, "more than %u numbers", CCL_I_MPP_MOST_IDS);
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

static ccl_status_t switch_channels(ccl_i_mpp_parser_t *p, const ccl_json_at_t *at) {
    ccl_json_at_t type = ccl_json_member(at, "buffer_type"),
                  groups = ccl_json_member(at, "rank_groups");
    ccl_i_mpp_gpu_t *gpu = &p->plan->gpus[p->rank];
    uint32_t buffer;
    size_t n = 0;
    CCL_TRY(ccl_i_mpp_one_of(&type, ccl_i_mpp_buffers, &buffer, p->err));
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

static ccl_status_t gpu_channels(ccl_i_mpp_parser_t *p, const ccl_json_at_t *gpu) {
    ccl_json_at_t list = ccl_json_member(gpu, "channels");
    uint32_t last = (uint32_t)p->plan->ngpus - 1;
    size_t n = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, p->err));
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&list, i), type = ccl_json_member(&e, "channel_type");
        ccl_json_at_t to = ccl_json_member(&e, "connected_to");
        uint32_t t;
        CCL_TRY(ccl_i_mpp_one_of(&type, ccl_i_mpp_types, &t, p->err));
        if (t == CCL_I_MPP_SWITCH) {
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

static ccl_status_t gpu_head(ccl_i_mpp_parser_t *p, const ccl_json_at_t *gpu) {
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
        CCL_TRY(ccl_i_mpp_member_u32(gpu, keys[b], CCL_I_MPP_MOST_SCRATCH, &g->len[b], p->err));
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

static ccl_status_t gpu_remotes(ccl_i_mpp_parser_t *p, const ccl_json_at_t *gpu) {
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
        CCL_TRY(ccl_i_mpp_member_u32(&e, "rank", (uint32_t)p->plan->ngpus - 1, &p->remote_rank[i],
                                     p->err));
        CCL_TRY(ccl_i_mpp_one_of(&type, ccl_i_mpp_buffers, &p->remote_buffer[i], p->err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- blocks */

static ccl_status_t block_lists(ccl_i_mpp_parser_t *p, const ccl_json_at_t *block) {
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
        CCL_TRY(ccl_i_mpp_one_of(&type, ccl_i_mpp_types, &t, p->err));
        uint32_t count = t == CCL_I_MPP_SWITCH ? gpu->nswitches : gpu->nchannels[t];
        if (count == 0)
            return ccl_json_fail(&type, p->err, "the GPU has no %s channels", ccl_i_mpp_types[t]);
        CCL_TRY(add_numbers(&ids, count - 1, &p->channels[t], &p->nchannels[t], p->err));
    }
    CCL_TRY(ccl_json_array(&refs, false, &n, p->err));
    for (size_t i = 0; refs.value && i < n; i++) {
        ccl_json_at_t e = ccl_json_element(&refs, i),
                      type = ccl_json_member(&e, "access_channel_type"),
                      ids = ccl_json_member(&e, "remote_buffer_ids");
        uint32_t t;
        CCL_TRY(ccl_i_mpp_one_of(&type, ccl_i_mpp_types, &t, p->err));
        if (t == CCL_I_MPP_SWITCH || p->nremotes == 0)
            return ccl_json_fail(&e, p->err, "the GPU has no such remote buffers");
        CCL_TRY(add_numbers(&ids, p->nremotes - 1, &p->remotes[t], &p->nrefs[t], p->err));
    }
    return CCL_OK;
}

static ccl_status_t gpu_blocks(ccl_i_mpp_parser_t *p, const ccl_json_at_t *gpu) {
    ccl_json_at_t list = ccl_json_member(gpu, "threadblocks");
    size_t n = 0, nops = 0;
    CCL_TRY(ccl_json_array(&list, true, &n, p->err));
    if (n > CCL_I_MPP_MOST_BLOCKS)
        return ccl_json_fail(&list, p->err, "more than %u blocks", CCL_I_MPP_MOST_BLOCKS);
    for (uint32_t t = 0; t < n; t++) {
        ccl_json_at_t block = ccl_json_element(&list, t), ops = ccl_json_member(&block, "ops"),
                      id_at = ccl_json_member(&block, "id");
        uint32_t id;
        CCL_TRY(ccl_json_u32(&id_at, true, CCL_I_MPP_MOST_BLOCKS, &id, p->err));
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
            CCL_TRY(ccl_i_mpp_parse_op(p, &op));
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
    ccl_i_mpp_parser_t p = {.plan = plan, .err = err};
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
