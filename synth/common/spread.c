/*
 * Greedy matching of chunks to hops in continuous time, after TACOS's time-expanded matching (Won
 * et al., arXiv 2304.05301, section 4), with these differences: times are real, so links may have
 * any speeds, and a chunk is passed on only after it has arrived; hops are routes that share links
 * and groups, so switches need not be unwound; of the chunks that a hop could take it takes the one
 * that fewest ranks have; and a set of GPUs whose way in is what limits is entered by a chunk once.
 */
#include "synth/common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Events that are this near are one instant (relative). */
#define INSTANT 1e-12

typedef struct matcher {
    const ccl_i_spread_t *what;
    const ccl_i_exchange_t *x;
    const ccl_i_cuts_t *cuts;
    const ccl_i_spread_params_t *params;
    ccl_i_traffic_t traffic;
    ccl_i_agenda_t agenda; /* 2 i: sent[i] has left its links, 2 i + 1: arrived */
    ccl_rng_t rng;
    uint32_t words;
    uint64_t *have;                  /* [nranks][words] */
    uint64_t *claimed;               /* [nranks][words] there or on the way */
    uint64_t *entered;               /* [nsets][words] in the set or on the way into it */
    uint32_t *member_first, *member; /* sets of a rank */
    uint32_t *since;  /* [nranks][nchunks] how many chunks the rank had when it came */
    uint32_t *held;   /* [nranks] chunks that it has */
    uint32_t *copies; /* [nchunks] ranks that have it or will */
    uint32_t *lacks;  /* [nranks] chunks not claimed */
    double *rate_Bps; /* [sent] */
    size_t rates_cap;
    size_t missing;      /* arrivals to come */
    uint32_t *star;      /* [nranks] set to whose members it sends what it brought in; CCL_NONE */
    uint8_t *exits;      /* [nranks] all in its star have a hop out of it */
    uint32_t *local;     /* [nranks] place in its star */
    uint32_t *next_star; /* [nsets] */
    uint64_t *brought;   /* [nranks][words] what it brought into its star, or owns */
    uint32_t *used;      /* [nhops] chunks that a hop has taken */
    uint32_t *tried, *todo;
    uint64_t *todo_key;
    uint32_t ntodo, stamp;
    bool rooted;     /* all chunks have one owner: in its star it hands each to one GPU only */
    uint64_t *dealt; /* [words] chunks that it has handed out there */
    bool loose;      /* sets may be entered again: nothing else is left */
    double now_s;
    ccl_i_sends_t *out;
} matcher_t;

static uint64_t *row(uint64_t *rows, const matcher_t *m, uint32_t i) {
    return rows + (size_t)i * m->words;
}

static bool counts(const matcher_t *m, uint32_t set) {
    return m->cuts->share[set] >= m->params->tight;
}

/* For every rank the smallest set all of whose members it reaches in a hop; last: all ranks. */
static ccl_status_t find_stars(matcher_t *m, ccl_error_t *err) {
    const ccl_i_exchange_t *x = m->x;
    uint32_t *stamp = calloc(x->nranks, sizeof *stamp);
    if (!stamp)
        return ccl_fail_nomem(err);
    for (uint32_t u = 0; u < x->nranks; u++) {
        uint32_t best_len = CCL_NONE, reached = 0;
        for (uint32_t h = x->out_first[u]; h < x->out_first[u + 1]; h++) {
            reached += stamp[x->hops[h].dst] != u + 1;
            stamp[x->hops[h].dst] = u + 1;
        }
        if (reached + 1 == x->nranks) {
            m->star[u] = m->cuts->nsets;
            best_len = x->nranks;
        }
        for (uint32_t i = m->member_first[u]; i < m->member_first[u + 1]; i++) {
            uint32_t s = m->member[i], len = m->cuts->first[s + 1] - m->cuts->first[s], meets = 1;
            for (uint32_t k = m->cuts->first[s]; k < m->cuts->first[s + 1]; k++)
                meets += stamp[m->cuts->ranks[k]] == u + 1;
            if (meets == len && len < best_len) {
                best_len = len;
                m->star[u] = s;
            }
        }
    }
    memset(stamp, 0, x->nranks * sizeof *stamp); /* by star: members that stay inside */
    for (uint32_t u = 0; u < x->nranks; u++) {
        if (m->star[u] >= m->cuts->nsets)
            continue;
        for (uint32_t h = x->out_first[u]; h < x->out_first[u + 1] && !m->exits[u]; h++)
            m->exits[u] = m->star[x->hops[h].dst] != m->star[u];
        m->local[u] = stamp[m->star[u]]++;
    }
    uint32_t first = CCL_NONE, last = CCL_NONE;
    for (uint32_t s = 0; s < m->cuts->nsets; s++) {
        bool all = true;
        if (m->star[m->cuts->ranks[m->cuts->first[s]]] == s) {
            if (last == CCL_NONE)
                first = s;
            else
                m->next_star[last] = s;
            m->next_star[s] = first;
            last = s;
        }
        for (uint32_t k = m->cuts->first[s]; k < m->cuts->first[s + 1]; k++)
            all &= m->star[m->cuts->ranks[k]] == s && m->exits[m->cuts->ranks[k]];
        for (uint32_t k = m->cuts->first[s]; k < m->cuts->first[s + 1]; k++)
            if (m->star[m->cuts->ranks[k]] == s)
                m->exits[m->cuts->ranks[k]] = all;
    }
    free(stamp);
    return CCL_OK;
}

static ccl_status_t matcher_init(matcher_t *m, ccl_error_t *err) {
    const ccl_i_exchange_t *x = m->x;
    uint32_t n = x->nranks, k_all = m->what->nchunks;
    CCL_TRY(ccl_i_traffic_init(&m->traffic, x, true, err));
    m->words = (k_all + 63) / 64;
    m->have = calloc((size_t)n * m->words + 1, sizeof *m->have);
    m->claimed = calloc((size_t)n * m->words + 1, sizeof *m->claimed);
    m->entered = calloc((size_t)m->cuts->nsets * m->words + 1, sizeof *m->entered);
    m->member_first = calloc(n + (size_t)2, sizeof *m->member_first);
    m->member = calloc(m->cuts->first[m->cuts->nsets] + (size_t)1, sizeof *m->member);
    m->since = calloc((size_t)n * k_all + 1, sizeof *m->since);
    m->held = calloc(n, sizeof *m->held);
    m->copies = calloc(k_all + (size_t)1, sizeof *m->copies);
    m->lacks = calloc(n, sizeof *m->lacks);
    m->star = malloc(n * sizeof *m->star);
    m->exits = calloc(n, 1);
    m->dealt = calloc(m->words + (size_t)1, sizeof *m->dealt);
    m->next_star = calloc(m->cuts->nsets + (size_t)1, sizeof *m->next_star);
    m->local = calloc(n, sizeof *m->local);
    m->brought = calloc((size_t)n * m->words + 1, sizeof *m->brought);
    m->used = calloc(x->nhops + (size_t)1, sizeof *m->used);
    m->tried = calloc(x->nhops + (size_t)1, sizeof *m->tried);
    m->todo = calloc(x->nhops + (size_t)1, sizeof *m->todo);
    m->todo_key = calloc(x->nhops + (size_t)1, sizeof *m->todo_key);
    if (!m->have || !m->claimed || !m->entered || !m->member_first || !m->member || !m->copies ||
        !m->since || !m->held || !m->lacks || !m->used || !m->star || !m->brought || !m->exits ||
        !m->dealt || !m->local || !m->next_star || !m->tried || !m->todo || !m->todo_key)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < m->cuts->nsets; s++)
        for (uint32_t i = m->cuts->first[s]; i < m->cuts->first[s + 1]; i++)
            m->member_first[m->cuts->ranks[i] + 2]++;
    for (uint32_t r = 0; r < n; r++)
        m->member_first[r + 2] += m->member_first[r + 1];
    for (uint32_t s = 0; s < m->cuts->nsets; s++)
        for (uint32_t i = m->cuts->first[s]; i < m->cuts->first[s + 1]; i++)
            m->member[m->member_first[m->cuts->ranks[i] + 1]++] = s;
    for (uint32_t r = 0; r < n; r++) {
        m->lacks[r] = k_all;
        m->star[r] = CCL_NONE;
    }
    return m->params->star ? find_stars(m, err) : CCL_OK;
}

static void matcher_fini(matcher_t *m) {
    ccl_i_traffic_fini(&m->traffic);
    free(m->agenda.heap);
    free(m->have);
    free(m->claimed);
    free(m->entered);
    free(m->member_first);
    free(m->member);
    free(m->since);
    free(m->held);
    free(m->copies);
    free(m->lacks);
    free(m->rate_Bps);
    free(m->used);
    free(m->star);
    free(m->brought);
    free(m->exits);
    free(m->dealt);
    free(m->local);
    free(m->next_star);
    free(m->tried);
    free(m->todo);
    free(m->todo_key);
}

static void claim(matcher_t *m, uint32_t rank, uint32_t chunk) {
    uint64_t bit = (uint64_t)1 << (chunk % 64);
    row(m->claimed, m, rank)[chunk / 64] |= bit;
    for (uint32_t i = m->member_first[rank]; i < m->member_first[rank + 1]; i++)
        row(m->entered, m, m->member[i])[chunk / 64] |= bit;
    m->copies[chunk]++;
    m->lacks[rank]--;
}

/* The chunk of `src` that fewest ranks have and `dst` lacks; among equals any. */
static uint32_t choose(matcher_t *m, uint32_t h) {
    const ccl_i_hop_t *hop = &m->x->hops[h];
    const uint64_t *have = row(m->have, m, hop->src), *claimed = row(m->claimed, m, hop->dst);
    const uint64_t *shut[4];
    const uint32_t *since = m->since + (size_t)hop->src * m->what->nchunks;
    uint32_t nshut = 0, best = CCL_NONE, best_worth = CCL_NONE, ties = 0, looked = 0;
    if (m->lacks[hop->dst] == 0)
        return CCL_NONE;
    for (uint32_t i = m->cuts->enters_first[h]; !m->loose && i < m->cuts->enters_first[h + 1]; i++)
        if (nshut < 4 && counts(m, m->cuts->enters[i]))
            shut[nshut++] = row(m->entered, m, m->cuts->enters[i]);
    bool inside = m->star[hop->src] != CCL_NONE && m->star[hop->src] == m->star[hop->dst];
    if (!m->loose && (inside || m->exits[hop->src]))
        have = row(m->brought, m, hop->src);
    /* What has been there for long is on time even when sharing makes others late. */
    bool aged = m->params->star && (nshut > 0 || inside);
    bool deals = m->rooted && inside && hop->src == m->what->owner[0] && !m->loose;
    uint32_t start = m->words > 1 ? ccl_rng_below(&m->rng, m->words) : 0;
    for (uint32_t i = 0; i < m->words && (aged || looked < m->params->sample); i++) {
        uint32_t w = start + i < m->words ? start + i : start + i - m->words;
        uint64_t bits = have[w] & ~claimed[w];
        if (deals)
            bits &= ~m->dealt[w];
        for (uint32_t s = 0; s < nshut; s++)
            bits &= ~shut[s][w];
        for (; bits; bits &= bits - 1) {
            uint32_t k = w * 64 + (uint32_t)__builtin_ctzll(bits);
            looked++;
            uint32_t worth = aged ? since[k] : m->copies[k];
            if (worth > best_worth)
                continue;
            ties = worth < best_worth ? 1 : ties + 1;
            if (ties == 1 || ccl_rng_below(&m->rng, ties) == 0)
                best = k;
            best_worth = worth;
        }
    }
    return best;
}

static ccl_status_t send(matcher_t *m, uint32_t h, uint32_t chunk, double Bps, ccl_error_t *err) {
    const ccl_i_hop_t *hop = &m->x->hops[h];
    ccl_i_sends_t *out = m->out;
    if (out->len >= CCL_NONE / 2 ||
        !ccl_grow(&out->sent, &out->cap, out->len + 1, sizeof *out->sent) ||
        !ccl_grow(&m->rate_Bps, &m->rates_cap, out->len + 1, sizeof *m->rate_Bps))
        return ccl_fail_nomem(err);
    uint32_t lane = ccl_i_traffic_take(&m->traffic, h, Bps);
    double done_s = m->now_s + m->what->bytes[chunk] / Bps;
    m->rate_Bps[out->len] = Bps;
    out->sent[out->len] = (ccl_i_sent_t){
        hop->src, hop->dst, chunk, h, (uint16_t)lane, m->now_s, done_s + hop->alpha_s};
    claim(m, hop->dst, chunk);
    if (m->rooted && hop->src == m->what->owner[0] && m->star[hop->src] == m->star[hop->dst])
        m->dealt[chunk / 64] |= (uint64_t)1 << (chunk % 64);
    m->used[h]++;
    if (!ccl_i_agenda_add(&m->agenda, done_s, 2 * (uint32_t)out->len) ||
        !ccl_i_agenda_add(&m->agenda, done_s + hop->alpha_s, 2 * (uint32_t)out->len + 1))
        return ccl_fail_nomem(err);
    out->len++;
    return CCL_OK;
}

/* From a star to the next one around, counterpart to counterpart. */
static bool is_rail(const matcher_t *m, uint32_t h) {
    uint32_t u = m->x->hops[h].src, v = m->x->hops[h].dst, s = m->star[u], t = m->star[v];
    if (s >= m->cuts->nsets || t != m->next_star[s])
        return false;
    uint32_t len = m->cuts->first[s + 1] - m->cuts->first[s];
    uint32_t other = m->cuts->first[t + 1] - m->cuts->first[t];
    len = other < len ? other : len;
    return m->local[u] % len == m->local[v] % len;
}

static void want_try(matcher_t *m, uint32_t h) {
    if (m->tried[h] == m->stamp)
        return;
    m->tried[h] = m->stamp;
    /* Hops into sets first, then those less used, so that those which share a link carry as much:
       run with fair sharing they then keep time; then to the rank that lacks most; then any. */
    bool enters = m->cuts->enters_first[h] < m->cuts->enters_first[h + 1];
    uint64_t lacks = m->lacks[m->x->hops[h].dst];
    if (lacks == 0)
        return;
    uint64_t first = m->used[h];
    if (enters && m->params->star && !is_rail(m, h)) /* then whoever it was before */
        first = 0x7fffff - m->used[h];
    m->todo_key[h] = (uint64_t)!enters << 63 | first << 40 | (uint64_t)(0xffffff - lacks) << 16 |
                     (ccl_rng_next(&m->rng) & 0xffff);
    m->todo[m->ntodo++] = h;
}

static void sort_todo(matcher_t *m) {
    /* Shell sort: lists are short. */
    uint32_t *a = m->todo, n = m->ntodo;
    for (uint32_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : (uint32_t)(gap / 2.2)) {
        for (uint32_t i = gap; i < n; i++) {
            uint32_t h = a[i], j = i;
            uint64_t key = m->todo_key[h];
            for (; j >= gap && m->todo_key[a[j - gap]] > key; j -= gap)
                a[j] = a[j - gap];
            a[j] = h;
        }
    }
}

static ccl_status_t try_all(matcher_t *m, ccl_error_t *err) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->ntodo; i++)
        if (ccl_i_traffic_rate(&m->traffic, m->todo[i]) > 0)
            m->todo[kept++] = m->todo[i];
    m->ntodo = kept;
    sort_todo(m);
    for (uint32_t i = 0; i < m->ntodo; i++) {
        uint32_t h = m->todo[i];
        double Bps;
        while ((Bps = ccl_i_traffic_rate(&m->traffic, h)) > 0) {
            uint32_t chunk = choose(m, h);
            if (chunk == CCL_NONE)
                break;
            CCL_TRY(send(m, h, chunk, Bps, err));
        }
    }
    m->ntodo = 0;
    m->stamp++;
    return CCL_OK;
}

static void happen(matcher_t *m, uint32_t id) {
    const ccl_i_exchange_t *x = m->x;
    const ccl_i_sent_t *t = &m->out->sent[id / 2];
    if (id % 2) {
        uint64_t bit = (uint64_t)1 << (t->chunk % 64);
        row(m->have, m, t->dst)[t->chunk / 64] |= bit;
        if (m->star[t->dst] != m->star[t->src] || m->star[t->dst] == CCL_NONE ||
            (m->rooted && t->src == m->what->owner[0]))
            row(m->brought, m, t->dst)[t->chunk / 64] |= bit;
        m->since[(size_t)t->dst * m->what->nchunks + t->chunk] = ++m->held[t->dst];
        m->missing--;
        for (uint32_t h = x->out_first[t->dst]; h < x->out_first[t->dst + 1]; h++) {
            if (!(row(m->claimed, m, x->hops[h].dst)[t->chunk / 64] >> (t->chunk % 64) & 1))
                want_try(m, h);
        }
        return;
    }
    const ccl_i_hop_t *hop = &x->hops[t->hop];
    ccl_i_traffic_give(&m->traffic, t->hop, t->lane, m->rate_Bps[id / 2]);
    for (uint32_t i = 0; i < hop->nuses; i++) {
        uint32_t r = x->uses[hop->first_use + i].resource;
        for (uint32_t k = m->traffic.user_first[r]; k < m->traffic.user_first[r + 1]; k++)
            want_try(m, m->traffic.users[k]);
    }
}

static ccl_status_t run(matcher_t *m, const ccl_ctx_t *ctx, double give_up_s, ccl_error_t *err) {
    const ccl_i_exchange_t *x = m->x;
    uint32_t rounds = 0;
    m->rooted = x->nranks > 2;
    for (uint32_t k = 0; k < m->what->nchunks; k++)
        m->rooted = m->rooted && m->what->owner[k] == m->what->owner[0];
    for (uint32_t k = 0; k < m->what->nchunks; k++) {
        uint32_t r = m->what->owner[k];
        row(m->have, m, r)[k / 64] |= (uint64_t)1 << (k % 64);
        row(m->brought, m, r)[k / 64] |= (uint64_t)1 << (k % 64);
        claim(m, r, k);
    }
    m->missing = (size_t)m->what->nchunks * (x->nranks - 1);
    m->stamp = 1;
    for (uint32_t h = 0; h < x->nhops; h++)
        want_try(m, h);
    CCL_TRY(try_all(m, err));
    while (m->missing > 0) {
        if (m->agenda.len == 0) {
            if (m->loose && !m->traffic.limited)
                return ccl_fail(err, CCL_ERR_INPUT,
                                "some GPU cannot be reached, not even over other GPUs");
            if (m->loose)
                m->traffic.limited = false; /* GPUs with too many blocks: lowering refuses */
            m->loose = true;
            for (uint32_t h = 0; h < x->nhops; h++)
                want_try(m, h);
            CCL_TRY(try_all(m, err));
            continue;
        }
        if (++rounds % 4096 == 0)
            CCL_TRY(ccl_ctx_poll(ctx, NULL));
        ccl_i_spread_event_t event = ccl_i_agenda_take(&m->agenda);
        m->now_s = event.at_s;
        if (m->now_s > give_up_s) {
            m->out->time_s = INFINITY;
            return CCL_OK;
        }
        happen(m, event.id);
        while (m->agenda.len > 0 && m->agenda.heap[0].at_s <= m->now_s * (1 + INSTANT))
            happen(m, ccl_i_agenda_take(&m->agenda).id);
        CCL_TRY(try_all(m, err));
    }
    m->out->time_s = m->now_s;
    return CCL_OK;
}

ccl_status_t ccl_i_spread_match(const ccl_ctx_t *ctx, const ccl_i_spread_t *what,
                                const ccl_i_cuts_t *cuts, const ccl_i_spread_params_t *params,
                                double give_up_s, ccl_i_sends_t *out, ccl_error_t *err) {
    matcher_t m = {.what = what, .x = what->x, .cuts = cuts, .params = params, .out = out};
    memset(out, 0, sizeof *out);
    ccl_rng_init(&m.rng, params->seed);
    ccl_status_t status = matcher_init(&m, err);
    if (status == CCL_OK)
        status = run(&m, ctx, give_up_s, err);
    matcher_fini(&m);
    if (status != CCL_OK)
        ccl_i_sends_fini(out);
    return status;
}
