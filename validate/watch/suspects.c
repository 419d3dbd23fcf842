/* What the calls of a size point to, by themselves: channels, ranks, another algorithm. */
#include "validate/watch/state.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_CHANNEL 1.25 /* over the median channel: less is jitter */
#define LATE_SHARE 0.2    /* of a call that others wait for a rank, from which on it is named */
#define LATE_US 10.0      /* ... and of time */
#define MOST_NAMED 4u

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of means that have values, the upper one where two are in the middle; 0: there are under two. */
static double median_of(const ccl_i_mean_t *means, uint32_t n, ccl_status_t *status,
                        ccl_error_t *err) {
    double *values = malloc((n ? n : 1) * sizeof *values), median = 0;
    uint32_t count = 0;
    if (!values) {
        *status = ccl_fail_nomem(err);
        return 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (means[i].n > 0)
            values[count++] = ccl_i_mean(&means[i]);
    qsort(values, count, sizeof *values, by_value);
    if (count >= 2)
        median = values[count / 2];
    free(values);
    return median;
}

/* "3, 11, 19 and 2 more" of those that are marked. */
static uint32_t name_marked(const bool *marked, uint32_t n, ccl_text_t *out) {
    uint32_t named = 0, all = 0;
    for (uint32_t i = 0; i < n; i++) {
        all += marked[i];
        if (marked[i] && named < MOST_NAMED)
            ccl_text_printf(out, "%s%u", named++ ? ", " : "", i);
    }
    if (all > named)
        ccl_text_printf(out, " and %u more", all - named);
    return all;
}

/* ---------------------------------------------------------------- algorithms */

/* "NVLS_TREE" and "nvls-tree". */
static bool same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a && !isalnum((unsigned char)*a))
            a++;
        while (*b && !isalnum((unsigned char)*b))
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

/* What ran, by the names that the calls have and the channels that they used; without names, what
 * is expected. */
static ccl_nccl_choice_t choice_of(const ccl_i_watch_group_t *g, const ccl_i_watch_part_t *part,
                                   const ccl_i_expected_t *e) {
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(part->predictor);
    ccl_nccl_choice_t choice = e->is.choice;
    uint32_t channels = 0;
    for (uint32_t c = 0; c < CCL_I_MAX_CHANNELS; c++)
        channels += g->channels[c].n > 0;
    for (int a = CCL_NCCL_RING; a < CCL_NCCL_P2P; a++)
        for (int p = CCL_NCCL_LL; p <= CCL_NCCL_SIMPLE; p++) {
            ccl_nccl_algo_t algo = (ccl_nccl_algo_t)a;
            ccl_nccl_proto_t proto = (ccl_nccl_proto_t)p;
            if (same_name(g->algo, ccl_nccl_algo_name(algo)) &&
                same_name(g->proto, ccl_nccl_proto_name(proto)) &&
                ccl_nccl_may(setup, g->kind, algo, proto))
                choice = ccl_nccl_channels(setup, g->kind, algo, proto, g->size_bytes);
        }
    if (choice.algo == CCL_NCCL_RING)
        choice.channels = channels;
    return choice;
}

/* ---------------------------------------------------------------- links of channels */

/* Links that the blocks of marked channels use, or of the others. @param used  [nlinks]. */
static ccl_status_t links_of(const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_program_t *program, const bool *slow, bool want, bool *used,
                             ccl_error_t *err) {
    for (uint32_t t = 0; t < program->ntbs; t++) {
        const ccl_tb_t *tb = &program->tbs[t];
        const ccl_route_t *route;
        if (tb->channel >= CCL_I_MAX_CHANNELS || slow[tb->channel] != want ||
            tb->send_peer >= topo->nranks)
            continue;
        CCL_TRY(ccl_routes_get(routes, tb->rank, tb->send_peer, tb->channel, &route, err));
        for (uint32_t l = 0; l < route->nlinks; l++)
            used[route->links[l]] = true;
    }
    return CCL_OK;
}

/* Devices at the ends of links that only slow channels use, NICs where there are any. */
static void name_devices(const ccl_topology_t *topo, const bool *slow, const bool *others,
                         ccl_text_t *out) {
    bool nic = false;
    uint32_t named = 0, more = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t d = 0; d < topo->ndevices; d++) {
            bool theirs = false, is_nic = topo->devices[d].kind == CCL_DEVICE_NIC;
            for (uint32_t l = 0; l < topo->nlinks && !theirs; l++)
                theirs =
                    slow[l] && !others[l] && (topo->links[l].from == d || topo->links[l].to == d);
            if (pass == 0 && theirs && is_nic)
                nic = true;
            if (pass == 0 || !theirs || (nic && !is_nic))
                continue;
            if (named < MOST_NAMED)
                ccl_text_printf(out, "%s%s", named++ ? ", " : ": the links of ",
                                topo->devices[d].id);
            else
                more++;
        }
    if (more)
        ccl_text_printf(out, " and %u more", more);
    if (named)
        ccl_text_printf(out, ", which only they use");
}

static ccl_status_t name_links(const ccl_i_watch_group_t *g, ccl_i_watch_part_t *part,
                               const ccl_i_expected_t *e, const bool *slow, ccl_text_t *out,
                               ccl_error_t *err) {
    ccl_nccl_kernel_t kernel;
    const ccl_topology_t *topo = part->topo;
    const ccl_nccl_choice_t choice = choice_of(g, part, e);
    CCL_TRY(
        ccl_predictor_kernel(part->predictor, g->kind, 0, g->size_bytes, &choice, &kernel, err));
    bool *used = calloc((size_t)topo->nlinks * 2 + 1, sizeof *used);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_status_t status = used && routes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = links_of(topo, routes, &kernel.program, slow, true, used, err);
    if (status == CCL_OK)
        status = links_of(topo, routes, &kernel.program, slow, false, used + topo->nlinks, err);
    if (status == CCL_OK)
        name_devices(topo, used, used + topo->nlinks, out);
    ccl_routes_destroy(routes);
    free(used);
    return status;
}

static ccl_status_t slow_channels(const ccl_i_watch_group_t *g, ccl_i_watch_part_t *part,
                                  const ccl_i_expected_t *e, ccl_text_t *out, ccl_error_t *err) {
    bool slow[CCL_I_MAX_CHANNELS] = {0};
    ccl_status_t status = CCL_OK;
    double most = 0, median = median_of(g->channels, CCL_I_MAX_CHANNELS, &status, err);
    for (uint32_t c = 0; c < CCL_I_MAX_CHANNELS && median > 0; c++) {
        double share = ccl_i_mean(&g->channels[c]) / median;
        slow[c] = share >= SLOW_CHANNEL;
        most = fmax(most, share);
    }
    if (status != CCL_OK || most < SLOW_CHANNEL)
        return status;
    ccl_text_t which = {0};
    uint32_t n = name_marked(slow, CCL_I_MAX_CHANNELS, &which);
    ccl_text_printf(out, "channel%s %s take%s %.1f times as long as others", n > 1 ? "s" : "",
                    which.data ? which.data : "", n > 1 ? "" : "s", most);
    out->nomem = out->nomem || which.nomem;
    ccl_text_fini(&which);
    return part && e ? name_links(g, part, e, slow, out, err) : CCL_OK;
}

/* ---------------------------------------------------------------- ranks */

static ccl_status_t late_ranks(const ccl_i_watch_group_t *g, double measured_s, ccl_text_t *out,
                               ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    double median_us = median_of(g->ranks, g->nranks, &status, err), least_us = median_us;
    for (uint32_t r = 0; r < g->nranks && median_us > 0; r++)
        if (g->ranks[r].n > 0)
            least_us = fmin(least_us, ccl_i_mean(&g->ranks[r]));
    double wait_us = median_us - least_us;
    if (status != CCL_OK || wait_us < LATE_US || wait_us < LATE_SHARE * median_us)
        return status;
    bool *late = calloc(g->nranks, sizeof *late);
    ccl_text_t which = {0};
    if (!late)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < g->nranks; r++)
        late[r] = g->ranks[r].n > 0 && ccl_i_mean(&g->ranks[r]) < median_us - wait_us / 2;
    uint32_t n = name_marked(late, g->nranks, &which);
    ccl_text_printf(out,
                    "%srank%s %s come%s late: others wait %.0f us (the call itself takes %.0f)",
                    out->len ? "; " : "", n > 1 ? "s" : "", which.data ? which.data : "",
                    n > 1 ? "" : "s", wait_us, measured_s * 1e6);
    out->nomem = out->nomem || which.nomem;
    ccl_text_fini(&which);
    free(late);
    return CCL_OK;
}

/* ---------------------------------------------------------------- the whole */

static void other_algorithm(const ccl_i_watch_group_t *g, const ccl_nccl_choice_t *choice,
                            ccl_text_t *out) {
    const char *algo = ccl_nccl_algo_name(choice->algo),
               *proto = ccl_nccl_proto_name(choice->proto);
    if (choice->algo == CCL_NCCL_P2P || !g->algo[0] ||
        (same_name(g->algo, algo) && (!g->proto[0] || same_name(g->proto, proto))))
        return;
    ccl_text_printf(out, "%sNCCL ran %s%s%s, expected is %s with %s", out->len ? "; " : "", g->algo,
                    g->proto[0] ? " with " : "", g->proto, algo, proto);
}

ccl_status_t ccl_i_suspects(const ccl_i_watch_group_t *group, ccl_i_watch_part_t *part,
                            const ccl_i_expected_t *e, double measured_s, ccl_text_t *out,
                            ccl_error_t *err) {
    if (group->channels)
        CCL_TRY(slow_channels(group, part, e, out, err));
    if (group->ranks)
        CCL_TRY(late_ranks(group, measured_s, out, err));
    if (e)
        other_algorithm(group, &e->is.choice, out);
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
