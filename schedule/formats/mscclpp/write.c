/* A program as an execution plan of MSCCL++ (github.com/microsoft/mscclpp, executor), in JSON. */
#include "schedule/formats/mscclpp/build_i.h"

#include <math.h>
#include <stdlib.h>

static const char *const type_names[] = {"memory", "port"};
static const char *const buffer_keys[] = {"i", "o", "s"};

/** What the operations of one block name, numbered as they come. */
typedef struct names {
    uint32_t channels[CCL_I_MPP_NTYPES][CCL_I_MPP_CHANNELS], nchannels[CCL_I_MPP_NTYPES];
    uint32_t peers[CCL_I_MPP_NTYPES][CCL_I_MPP_CHANNELS], npeers[CCL_I_MPP_NTYPES];
    uint32_t switches[CCL_I_MPP_CHANNELS], nswitches;
    bool full;
} names_t;

static uint32_t number_of(names_t *names, uint32_t *list, uint32_t *n, uint32_t id) {
    for (uint32_t i = 0; i < *n; i++) {
        if (list[i] == id)
            return i;
    }
    if (*n == CCL_I_MPP_CHANNELS) {
        names->full = true;
        return 0;
    }
    list[*n] = id;
    return (*n)++;
}

static bool on_channels(const ccl_i_mpp_op_t *op) {
    return op->kind == CCL_I_MPP_SIGNAL || op->kind == CCL_I_MPP_WAIT ||
           op->kind == CCL_I_MPP_FLUSH || ccl_i_mpp_puts(op);
}

static void find_names(const ccl_i_mpp_t *plan, const ccl_i_mpp_block_t *b, names_t *names) {
    for (uint32_t i = b->first; i < b->first + b->nops; i++) {
        const ccl_i_mpp_op_t *op = &plan->ops[i];
        for (uint32_t k = 0; on_channels(op) && k < op->n; k++)
            number_of(names, names->channels[op->type], &names->nchannels[op->type],
                      plan->ids[op->first + k]);
        if (ccl_i_mpp_puts(op))
            number_of(names, names->peers[op->type], &names->npeers[op->type], op->peer);
        if (op->kind == CCL_I_MPP_PULL_STORE)
            number_of(names, names->switches, &names->nswitches, op->from);
        if (op->kind == CCL_I_MPP_PULL_STORE || op->kind == CCL_I_MPP_STORE)
            number_of(names, names->switches, &names->nswitches, op->to);
    }
}

/* ---------------------------------------------------------------- operations */

static void numbers(ccl_text_t *out, const char *key, const uint32_t *list, uint32_t n) {
    ccl_text_printf(out, "\"%s\": [", key);
    for (uint32_t i = 0; i < n; i++)
        ccl_text_printf(out, "%s%u", i ? ", " : "", list[i]);
    ccl_text_printf(out, "]");
}

static void ids(const ccl_i_mpp_t *plan, const ccl_i_mpp_op_t *op, names_t *names,
                ccl_text_t *out) {
    uint32_t list[CCL_I_MPP_OP_SEMAPHORES];
    bool semaphores = op->kind == CCL_I_MPP_RELEASE || op->kind == CCL_I_MPP_ACQUIRE;
    for (uint32_t i = 0; i < op->n; i++) {
        uint32_t id = plan->ids[op->first + i];
        list[i] = semaphores ? id
                             : number_of(names, names->channels[op->type],
                                         &names->nchannels[op->type], id);
    }
    ccl_text_printf(out, ", ");
    numbers(out, semaphores ? "semaphore_ids" : "channel_ids", list, op->n);
    if (!semaphores)
        ccl_text_printf(out, ", \"channel_type\": \"%s\"", type_names[op->type]);
}

/** @param id  of `key`: of a remote buffer or switch channel; of local memory its buffer. */
static void place(ccl_text_t *out, const char *key, uint32_t id, uint32_t at, uint32_t count) {
    ccl_text_printf(out, "{\"%s\": ", key);
    if (key[0] == 't')
        ccl_text_printf(out, "\"%s\"", buffer_keys[id]);
    else
        ccl_text_printf(out, "%u", id);
    ccl_text_printf(out, ", \"index\": %u, \"size\": %u}", at, count);
}

static void data(const ccl_i_mpp_op_t *op, names_t *names, ccl_text_t *out) {
    bool pulls = op->kind == CCL_I_MPP_PULL_STORE;
    bool stores = pulls || op->kind == CCL_I_MPP_STORE;
    ccl_text_printf(out, ", \"src_buff\": [");
    if (pulls)
        place(out, "switch_channel_id",
              number_of(names, names->switches, &names->nswitches, op->from), op->a.at, op->count);
    else
        place(out, "type", op->a.buffer, op->a.at, op->count);
    if (op->kind == CCL_I_MPP_REDUCE || op->kind == CCL_I_MPP_REDUCE_PACKETS) {
        ccl_text_printf(out, ", ");
        place(out, "type", op->b.buffer, op->b.at, op->count);
    }
    ccl_text_printf(out, "], \"dst_buff\": [");
    if (stores)
        place(out, "switch_channel_id",
              number_of(names, names->switches, &names->nswitches, op->to), op->dst.at, op->count);
    else if (ccl_i_mpp_puts(op))
        place(out, "buffer_id",
              number_of(names, names->peers[op->type], &names->npeers[op->type], op->peer),
              op->dst.at, op->count);
    else
        place(out, "type", op->dst.buffer, op->dst.at, op->count);
    ccl_text_printf(out, "]%s%s", stores ? ", \"channel_type\": \"switch\"" : "",
                    pulls || op->kind == CCL_I_MPP_REDUCE || op->kind == CCL_I_MPP_REDUCE_PACKETS
                        ? ", \"reduce_op\": \"sum\""
                        : "");
}

/** The executor flushes as many channels as a flush has destinations, of which none is looked at.
 */
static void flushed(const ccl_i_mpp_op_t *op, ccl_text_t *out) {
    ccl_text_printf(out, ", \"dst_buff\": [");
    for (uint32_t i = 0; i < op->n; i++) {
        ccl_text_printf(out, "%s", i ? ", " : "");
        place(out, "type", CCL_BUF_OUTPUT, 0, 0);
    }
    ccl_text_printf(out, "]");
}

static void operation(const ccl_i_mpp_t *plan, const ccl_i_mpp_op_t *op, names_t *names,
                      ccl_text_t *out) {
    static const char *const op_names[] = {
        [CCL_I_MPP_NOP] = "nop",      [CCL_I_MPP_SIGNAL] = "signal",
        [CCL_I_MPP_WAIT] = "wait",    [CCL_I_MPP_FLUSH] = "flush",
        [CCL_I_MPP_PUT] = "put",      [CCL_I_MPP_RELEASE] = "sem_release",
        [CCL_I_MPP_COPY] = "copy",    [CCL_I_MPP_ACQUIRE] = "sem_acquire",
        [CCL_I_MPP_REDUCE] = "re",    [CCL_I_MPP_PULL_STORE] = "glres",
        [CCL_I_MPP_STORE] = "gstore", [CCL_I_MPP_PUT_PACKETS] = "ppkt",
        [CCL_I_MPP_UNPACK] = "upkt",  [CCL_I_MPP_REDUCE_PACKETS] = "repkt",
        [CCL_I_MPP_PACK] = "cpkt",    [CCL_I_MPP_PASS_PACKETS] = "rppkt",
    };
    ccl_text_printf(out, "          {\"name\": \"%s\"", op_names[op->kind]);
    if (op->kind >= CCL_I_MPP_PUT)
        data(op, names, out);
    if (op->kind == CCL_I_MPP_FLUSH)
        flushed(op, out);
    if (op->n > 0)
        ids(plan, op, names, out);
    ccl_text_printf(out, "}");
}

/* ---------------------------------------------------------------- blocks, GPUs */

static void list_of_type(ccl_text_t *out, bool *some, const char *type_key, const char *type,
                         const char *key, const uint32_t *list, uint32_t n) {
    if (n == 0)
        return;
    ccl_text_printf(out, "%s{\"%s\": \"%s\", ", *some ? ", " : "", type_key, type);
    numbers(out, key, list, n);
    ccl_text_printf(out, "}");
    *some = true;
}

/**
 * Numbers a GPU's remote buffers, in the order of their owners.
 * @param remote  [2 ngpus] by owner and type; CCL_NONE: it has none there.
 */
static void number_remotes(const ccl_i_mpp_t *plan, uint32_t rank, uint32_t *remote) {
    const ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    uint32_t n = 0;
    for (size_t i = 0; i < CCL_I_MPP_NTYPES * plan->ngpus; i++)
        remote[i] = CCL_NONE;
    for (uint32_t b = gpu->first_block; b < gpu->first_block + gpu->nblocks; b++) {
        const ccl_i_mpp_block_t *block = &plan->blocks[b];
        for (uint32_t i = block->first; i < block->first + block->nops; i++) {
            if (ccl_i_mpp_puts(&plan->ops[i]))
                remote[CCL_I_MPP_NTYPES * (size_t)plan->ops[i].peer + plan->ops[i].type] = 0;
        }
    }
    for (size_t i = 0; i < CCL_I_MPP_NTYPES * plan->ngpus; i++)
        remote[i] = remote[i] == 0 ? n++ : CCL_NONE;
}

static ccl_status_t block(const ccl_i_mpp_t *plan, const ccl_i_mpp_block_t *b,
                          const uint32_t *remote, ccl_text_t *out, ccl_error_t *err) {
    names_t names = {0};
    bool some = false;
    find_names(plan, b, &names);
    if (names.full)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "rank %u block %u needs more than %u channels of a type; MSCCL++ has no "
                        "more for a block",
                        b->rank, b->id, CCL_I_MPP_CHANNELS);
    ccl_text_printf(out, "        {\"id\": %u, \"ops\": [", b->id);
    for (uint32_t i = 0; i < b->nops; i++) {
        ccl_text_printf(out, "%s\n", i ? "," : "");
        operation(plan, &plan->ops[b->first + i], &names, out);
    }
    ccl_text_printf(out, "],\n         \"channels\": [");
    for (uint32_t type = 0; type < CCL_I_MPP_NTYPES; type++)
        list_of_type(out, &some, "channel_type", type_names[type], "channel_ids",
                     names.channels[type], names.nchannels[type]);
    list_of_type(out, &some, "channel_type", "switch", "channel_ids", names.switches,
                 names.nswitches);
    ccl_text_printf(out, "],\n         \"remote_buffer_refs\": [");
    some = false;
    for (uint32_t type = 0; type < CCL_I_MPP_NTYPES; type++) {
        for (uint32_t i = 0; i < names.npeers[type]; i++)
            names.peers[type][i] = remote[CCL_I_MPP_NTYPES * (size_t)names.peers[type][i] + type];
        list_of_type(out, &some, "access_channel_type", type_names[type], "remote_buffer_ids",
                     names.peers[type], names.npeers[type]);
    }
    ccl_text_printf(out, "]}");
    return CCL_OK;
}

static void gpu_lists(const ccl_i_mpp_t *plan, uint32_t rank, const uint32_t *remote,
                      ccl_text_t *out) {
    const ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    bool some = false;
    ccl_text_printf(out, "],\n      \"channels\": [");
    for (uint32_t type = 0; type < CCL_I_MPP_NTYPES; type++)
        list_of_type(out, &some, "channel_type", type_names[type], "connected_to", gpu->peers[type],
                     gpu->nchannels[type]);
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        const ccl_i_mpp_switch_t *sw = &gpu->switches[i];
        ccl_text_printf(out,
                        "%s{\"channel_type\": \"switch\", \"buffer_type\": \"%s\", "
                        "\"rank_groups\": [{\"size\": %u, ",
                        some ? ", " : "", buffer_keys[sw->buffer], gpu->len[sw->buffer]);
        numbers(out, "ranks", sw->ranks, sw->n);
        ccl_text_printf(out, "}]}");
        some = true;
    }
    ccl_text_printf(out, "],\n      \"remote_buffers\": [");
    some = false;
    for (uint32_t i = 0; i < CCL_I_MPP_NTYPES * plan->ngpus; i++) {
        if (remote[i] == CCL_NONE)
            continue;
        ccl_text_printf(out,
                        "%s{\"rank\": %u, \"type\": \"s\", \"access_channel_types\": [\"%s\"]}",
                        some ? ", " : "", i / CCL_I_MPP_NTYPES, type_names[i % CCL_I_MPP_NTYPES]);
        some = true;
    }
    ccl_text_printf(out, "],\n      \"semaphores\": [");
    for (uint32_t i = 0; i < gpu->nsemaphores; i++)
        ccl_text_printf(out, "%s{\"init_value\": 0}", i ? ", " : "");
    ccl_text_printf(out, "]}");
}

/* What a message may be: the executor wants 16 bytes of each chunk, and counts in 32 bits. */
enum { ALIGNMENT = 16 };

typedef struct range {
    double min_bytes, max_bytes;
    uint32_t nchunks; /* of the buffer that a size is of: the larger one */
} range_t;

static ccl_status_t find_range(const ccl_program_t *p, const ccl_i_mpp_t *plan, range_t *out,
                               ccl_error_t *err) {
    uint32_t most = 1; /* chunks of the longest buffer */
    *out = (range_t){p->min_bytes, p->max_bytes, 1};
    for (uint32_t r = 0; r < p->nranks; r++) {
        for (uint32_t b = 0; b < 3; b++) {
            uint32_t len = plan->gpus[r].len[b];
            if (b != CCL_BUF_SCRATCH && len > out->nchunks)
                out->nchunks = len;
            if (b == CCL_BUF_SCRATCH && plan->packets)
                len *= 4; /* a flag beside each payload, two halves */
            most = len > most ? len : most;
        }
    }
    double chunk_bytes = floor(UINT32_MAX / (double)most / ALIGNMENT) * ALIGNMENT;
    double least = (double)out->nchunks * ALIGNMENT, cap = out->nchunks * chunk_bytes;
    out->min_bytes = fmax(out->min_bytes, least);
    out->max_bytes = out->max_bytes > 0 ? fmin(out->max_bytes, cap) : cap;
    if (out->min_bytes > out->max_bytes)
        return ccl_fail(
            err, CCL_UNSUPPORTED,
            "MSCCL++ counts bytes of a buffer in 32 bits, and with %u chunks of scratch "
            "for %u of data that ends at messages of %.0f bytes: fewer chunks or "
            "channels need less",
            most, out->nchunks, cap);
    return CCL_OK;
}

static void write_head(const ccl_program_t *p, const char *name, const ccl_i_mpp_t *plan,
                       const range_t *range, ccl_text_t *out) {
    ccl_text_printf(out, "{\"name\": ");
    ccl_i_json_text(name, out);
    ccl_text_printf(out,
                    ", \"collective\": \"%s\", \"protocol\": \"%s\",\n"
                    " \"inplace\": %s, \"reuse_resources\": false, "
                    "\"use_double_scratch_buffer\": %s,\n"
                    " \"num_threads_per_block\": 1024, \"buffer_alignment\": %d,\n"
                    " \"min_message_size\": %.0f, \"max_message_size\": %.0f,",
                    p->coll->name, plan->packets ? "LL" : "Simple", p->in_place ? "true" : "false",
                    plan->packets ? "true" : "false", ALIGNMENT, range->min_bytes,
                    range->max_bytes);
    if (p->origin[0]) {
        ccl_text_printf(out, " \"origin\": ");
        ccl_i_json_text(p->origin, out);
        ccl_text_printf(out, ",");
    }
    if (p->coll->root > 0)
        ccl_text_printf(out, " \"root\": %u,", p->coll->root);
}

static ccl_status_t write_gpu(const ccl_i_mpp_t *plan, uint32_t rank, uint32_t *remote,
                              ccl_text_t *out, ccl_error_t *err) {
    const ccl_i_mpp_gpu_t *gpu = &plan->gpus[rank];
    number_remotes(plan, rank, remote);
    ccl_text_printf(out,
                    "%s\n     {\"id\": %u, \"input_chunks\": %u, \"output_chunks\": %u, "
                    "\"scratch_chunks\": %u, \"threadblocks\": [",
                    rank ? "," : "", rank, gpu->len[CCL_BUF_INPUT], gpu->len[CCL_BUF_OUTPUT],
                    gpu->len[CCL_BUF_SCRATCH]);
    for (uint32_t b = 0; b < gpu->nblocks; b++) {
        ccl_text_printf(out, "%s\n", b ? "," : "");
        CCL_TRY(block(plan, &plan->blocks[gpu->first_block + b], remote, out, err));
    }
    gpu_lists(plan, rank, remote, out);
    return CCL_OK;
}

static ccl_status_t write_plan(const ccl_program_t *p, const char *name, const ccl_i_mpp_t *plan,
                               ccl_text_t *out, ccl_error_t *err) {
    uint32_t *remote = malloc((CCL_I_MPP_NTYPES * plan->ngpus + 1) * sizeof *remote);
    range_t range = {0, 0, 1};
    ccl_status_t status = remote ? find_range(p, plan, &range, err) : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        write_head(p, name, plan, &range, out);
        ccl_text_printf(out, "\n \"gpus\": [");
    }
    for (uint32_t r = 0; r < p->nranks && status == CCL_OK; r++)
        status = write_gpu(plan, r, remote, out, err);
    ccl_text_printf(out, "]}\n");
    free(remote);
    return status == CCL_OK && out->nomem ? ccl_fail_nomem(err) : status;
}

ccl_status_t ccl_program_write_mscclpp(const ccl_program_t *program, const ccl_topology_t *topo,
                                       ccl_text_t *out, ccl_error_t *err) {
    return ccl_program_write_mscclpp_as(program, topo, NULL, out, err);
}

ccl_status_t ccl_program_write_mscclpp_as(const ccl_program_t *program, const ccl_topology_t *topo,
                                          const char *name, ccl_text_t *out, ccl_error_t *err) {
    ccl_i_mpp_t plan;
    if (program->shares)
        return ccl_fail(err, CCL_UNSUPPORTED, "a plan of MSCCL++ has no chunks of unequal size");
    if (topo && topo->nranks != program->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the program has %u ranks, topology %.80s has %u",
                        program->nranks, topo->name, topo->nranks);
    ccl_status_t status = ccl_i_mpp_build(program, topo, &plan, err);
    if (status == CCL_OK)
        status = write_plan(program, name ? name : program->name, &plan, out, err);
    ccl_i_mpp_fini(&plan);
    return status;
}
