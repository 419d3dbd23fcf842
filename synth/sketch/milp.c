/* Sub-demands as epoch MILPs, in a child process. */
#include "synth/sketch/solve.h"

#include <stdlib.h>
#include <string.h>

typedef struct question {
    const ccl_i_part_t *part;
    const ccl_i_part_limits_t *limits;
} question_t;

typedef struct answer {
    uint32_t epochs, proven;
    uint64_t nsends;
} answer_t;

/* The least number of epochs, 1, 2, 4 ... more, each with the rotation first. */
static ccl_status_t ask(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    const question_t *q = user;
    const ccl_i_part_t *p = q->part;
    ccl_i_rotation_t rotation = p->rotation;
    ccl_i_milp_t milp = {&p->x,     p->coll,     &rotation, p->delay,
                         p->window, p->capacity, p->away,   q->limits->nodes};
    bool proven = true; /* that no fewer epochs do */

    for (uint32_t i = 0; i < q->limits->tries; i++) {
        uint32_t k = p->least + (i ? 1u << (i - 1) : 0); /* ever more: an answer, if not the best */

        proven = proven && i < 3;
        for (uint32_t turn = 0; turn < 2; turn++) {
            ccl_i_milp_send_t *sends = NULL;
            size_t n = 0;
            ccl_i_glpk_answer_t found = CCL_I_GLPK_UNKNOWN;

            rotation.order = turn ? 1 : p->rotation.order;
            if (turn && p->rotation.order == 1)
                continue;
            if (k <= q->limits->epochs && ccl_i_milp_variables(&milp, k) <= q->limits->variables)
                CCL_TRY(ccl_i_milp_ask(&milp, k, &found, &sends, &n, err));
            if (found == CCL_I_GLPK_FOUND) {
                answer_t head = {k, proven, n};
                const struct iovec parts[] = {{&head, sizeof head}, {sends, n * sizeof *sends}};
                ccl_child_put_parts(pipe, parts, 2);
                free(sends);
                return CCL_OK;
            }
            /* Only without the rotation "none" is none at all. */
            if (rotation.order == 1)
                proven = proven && found == CCL_I_GLPK_NONE;
        }
    }
    return CCL_OK;
}

/* Which of equal routes a hop is. */
static uint16_t nth(const ccl_i_exchange_t *x, uint32_t hop) {
    uint16_t k = 0;

    while (hop > k && x->hops[hop - k - 1].src == x->hops[hop].src &&
           x->hops[hop - k - 1].dst == x->hops[hop].dst)
        k++;
    return k;
}

ccl_status_t ccl_i_part_askable(ccl_i_part_t *part, const ccl_i_part_limits_t *limits,
                                bool *askable_out, ccl_error_t *err) {
    const ccl_i_rotation_t longest = {.order = part->n};
    ccl_i_milp_t milp = {.x = &part->x, .coll = part->coll, .rotation = &longest};

    *askable_out = false;
    if (part->least == CCL_NONE || part->least > limits->epochs || limits->time_s < 0 ||
        ccl_i_milp_variables(&milp, part->least) > limits->variables)
        return CCL_OK;
    if (part->rotation.order == 0) { /* looking for it takes long in big groups */
        CCL_TRY(ccl_i_rotation_find(&part->x, &part->rotation, err));
        if (part->root != CCL_NONE) /* GPUs of a single root are not alike */
            part->rotation.order = 1;
    }
    milp.rotation = &part->rotation;
    *askable_out = ccl_i_milp_variables(&milp, part->least) <= limits->variables;
    return CCL_OK;
}

ccl_status_t ccl_i_part_milp(const ccl_ctx_t *ctx, ccl_i_part_t *part,
                             const ccl_i_part_limits_t *limits, ccl_i_trees_t **out,
                             bool *limited_out, ccl_error_t *err) {
    question_t q = {part, limits};
    ccl_child_limits_t child = {limits->time_s, 0, "sub-demands"};
    ccl_child_answer_t answer = {0};
    answer_t head = {0};
    ccl_i_trees_t *trees = NULL;
    bool askable = false;
    ccl_status_t status = CCL_OK;

    *out = NULL;
    *limited_out = false;
    CCL_TRY(ccl_i_part_askable(part, limits, &askable, err));
    if (!askable)
        return CCL_OK;
    CCL_TRY_GOTO(ccl_child_run(ctx, &child, ask, &q, &answer, err), status, end);
    *limited_out = answer.limited;
    if (answer.len < sizeof head)
        goto end;
    memcpy(&head, answer.data, sizeof head);
    trees = ccl_i_trees_create(part->n, part->chunks);
    if (!trees) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    trees->epochs = head.epochs;
    trees->proven = head.proven;
    for (uint64_t i = 0; i < head.nsends; i++) {
        ccl_i_milp_send_t send;
        const ccl_i_hop_t *hop;
        uint32_t from, variant;
        size_t at;

        memcpy(&send, (const char *)answer.data + sizeof head + i * sizeof send, sizeof send);
        hop = &part->x.hops[send.hop];
        from = part->coll->chunks[send.chunk].sources[0];
        variant = send.chunk % part->chunks;
        at = ((size_t)from * part->chunks + variant) * part->n + hop->dst;
        trees->parent[at] = hop->src;
        trees->step[at] = send.epoch;
        trees->channel[at] = nth(&part->x, send.hop);
    }
    if (!ccl_i_part_check(part, trees)) {
        ccl_i_trees_destroy(trees);
        status = ccl_fail(err, CCL_ERR_INTERNAL, "sketch: GLPK's sub-schedule is none");
        goto end;
    }
    *out = trees;
end:
    free(answer.data);
    return status;
}
