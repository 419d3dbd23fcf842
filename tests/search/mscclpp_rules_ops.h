/** @file mscclpp_rules_ops.h Rules of blocks and operations: the second half of mscclpp_rules.h,
 * which includes it. */
#ifndef CCL_TESTS_SEARCH_MSCCLPP_RULES_OPS_H
#define CCL_TESTS_SEARCH_MSCCLPP_RULES_OPS_H

/* ---------------------------------------------------------------- pieces of memory */

enum { OWN, REMOTE, GROUP };
typedef struct piece {
    int of, buffer;
    json_int_t rank, index, size; /* rank: whose */
} piece_t;

static json_t *of_block(const rules_t *r, const char *list, const char *key, int type) {
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(r->tb, list), i,
                       e) if (strcmp(json_string_value(json_object_get(e, key)), TYPES[type]) ==
                              0) return e;
    return NULL;
}

static json_t *nth_switch(const json_t *gpu, json_int_t n, int *buffer) {
    size_t i, k;
    json_t *e, *group;
    json_array_foreach(json_object_get(gpu, "channels"), i, e) {
        if (strcmp(json_string_value(json_object_get(e, "channel_type")), "switch") != 0)
            continue;
        json_array_foreach(json_object_get(e, "rank_groups"), k, group) {
            const char *type = json_string_value(json_object_get(e, "buffer_type"));
            *buffer = *type == 'i' ? 0 : *type == 'o' ? 1 : 2;
            if (n-- == 0)
                return group;
        }
    }
    return NULL;
}

/* @param scale  2 for what lies beside packets: there scratch is twice as long. */
static piece_t piece(rules_t *r, const json_t *op, const char *key, size_t n, int type, int scale) {
    const json_t *e = json_array_get(json_object_get(op, key), n);
    json_t *id = json_object_get(e, "buffer_id"), *sw = json_object_get(e, "switch_channel_id");
    piece_t p = {id   ? REMOTE
                 : sw ? GROUP
                      : OWN,
                 0, (json_int_t)r->g, int_of(r, e, "index", 0, INT32_MAX),
                 int_of(r, e, "size", 1, INT32_MAX)};
    if (id) {
        json_t *refs =
            type < SWITCH ? of_block(r, "remote_buffer_refs", "access_channel_type", type) : NULL;
        json_t *ids = json_object_get(refs, "remote_buffer_ids");
        RULE(json_integer_value(id) < (json_int_t)json_array_size(ids), "no remote buffer %lld",
             (long long)json_integer_value(id));
        const json_t *remote = json_array_get(json_object_get(r->gpu, "remote_buffers"),
                                              (size_t)at(ids, (size_t)json_integer_value(id)));
        p.buffer = word_of(r, remote, "type", BUFFERS);
        p.rank = json_integer_value(json_object_get(remote, "rank"));
    } else if (sw) {
        json_t *list = of_block(r, "channels", "channel_type", SWITCH);
        json_t *ids = json_object_get(list, "channel_ids");
        RULE(json_integer_value(sw) < (json_int_t)json_array_size(ids), "no switch channel %lld",
             (long long)json_integer_value(sw));
        RULE(nth_switch(r->gpu, at(ids, (size_t)json_integer_value(sw)), &p.buffer) != NULL,
             "no such group");
    } else {
        p.buffer = word_of(r, e, "type", BUFFERS);
    }
    json_int_t len = json_integer_value(
        json_object_get(json_array_get(r->gpus, (size_t)p.rank), LENGTHS[p.buffer]));
    RULE(p.index + p.size <= len * (p.buffer == 2 ? scale : 1),
         "elements %lld to %lld of buffer %s, which has %lld", (long long)p.index,
         (long long)(p.index + p.size), BUFFERS[p.buffer], (long long)len);
    return p;
}

/* Pieces of one list: as many as there may be, of one size. */
static size_t pieces(rules_t *r, const json_t *op, const char *key, int type, size_t least,
                     size_t most, piece_t *out) {
    size_t n = json_array_size(list_of(r, op, key, least, most));
    for (size_t i = 0; i < n && i < 10 && !*r->why; i++) {
        out[i] = piece(r, op, key, i, type, r->packets ? 2 : 1);
        RULE(out[i].size == out[0].size, "pieces of several sizes");
    }
    return n;
}

/* ---------------------------------------------------------------- what threads may not do */

/* Accesses since all threads met: of a GPU's buffers, packets apart. */
typedef struct access {
    int buffer;
    json_int_t from, to;
    size_t op;
    bool write;
} access_t;
typedef struct meeting {
    access_t list[256];
    size_t n;
    bool told, moved; /* some threads may wait; data was moved */
} meeting_t;

static void met(meeting_t *m) {
    m->n = 0;
    m->told = m->moved = false;
}

static void touch(rules_t *r, meeting_t *m, piece_t p, bool packets, bool write) {
    int buffer = p.buffer + (packets ? 1 : 0); /* of scratch */
    if (p.of == REMOTE)
        return;
    if (p.of == GROUP) /* at that place the GPU's own memory, too */
        buffer = p.buffer;
    for (size_t i = 0; i < m->n; i++)
        RULE(m->list[i].buffer != buffer || m->list[i].to <= p.index ||
                 p.index + p.size <= m->list[i].from || (!write && !m->list[i].write) ||
                 (m->list[i].op == r->o && m->list[i].from == p.index), /* thread by thread */
             "threads have not met since one moved what this moves");
    if (m->n < 256)
        m->list[m->n++] = (access_t){buffer, p.index, p.index + p.size, r->o, write};
    m->moved = true;
}

/* ---------------------------------------------------------------- operations */

static json_int_t peer_of(rules_t *r, int type, json_int_t id) {
    json_t *list = of_block(r, "channels", "channel_type", type), *e;
    json_t *ids = json_object_get(list, "channel_ids");
    size_t i;
    RULE(id >= 0 && id < (json_int_t)json_array_size(ids), "the block has no %s channel %lld",
         TYPES[type], (long long)id);
    json_array_foreach(
        json_object_get(r->gpu, "channels"), i,
        e) if (strcmp(json_string_value(json_object_get(e, "channel_type")), TYPES[type]) ==
               0) return at(json_object_get(e, "connected_to"), (size_t)at(ids, (size_t)id));
    return -1;
}

static void channels_of_op(rules_t *r, const json_t *op, int type, size_t least) {
    json_t *ids = list_of(r, op, "channel_ids", least, MAX_CHANNEL_PER_OPERATION);
    RULE(distinct(ids), "a channel twice");
    for (size_t i = 0; i < json_array_size(ids); i++)
        peer_of(r, type, at(ids, i));
}

static void check_put(rules_t *r, const json_t *op, const char *name, int type, meeting_t *m) {
    bool packets = strcmp(name, "ppkt") == 0, passes = strcmp(name, "rppkt") == 0;
    piece_t src[10], dst[10];
    size_t n = pieces(r, op, "dst_buff", type, 1, MAX_CHANNEL_PER_OPERATION, dst);
    size_t ns = pieces(r, op, "src_buff", type, 1, MAX_CHANNEL_PER_OPERATION, src);
    RULE(type == MEMORY || type == PORT, "a put over %s", TYPES[type]);
    RULE(passes ? ns == 1 : ns == n, "%zu sources for %zu destinations", ns, n);
    RULE(!packets || type == MEMORY,
         "the executor takes the wrong memory for packets that it puts to a port");
    RULE(!(packets || passes) || r->packets, "packets in a plan of Simple");
    for (size_t i = 0; i < n && !*r->why; i++) {
        RULE(dst[i].of == REMOTE && src[passes ? 0 : i].of == OWN, "a put is from own to remote");
        RULE(dst[i].size == src[0].size, "sizes differ");
        RULE(passes || src[i].buffer == src[0].buffer,
             "over memory the first source's buffer is taken for all");
        RULE(!(packets || passes) || (dst[i].buffer == 2 && (!passes || src[0].buffer == 2)),
             "packets lie in scratch");
        if (type == PORT) {
            json_t *ids = json_object_get(op, "channel_ids");
            RULE(json_array_size(ids) == n && peer_of(r, type, at(ids, i)) == dst[i].rank,
                 "a port to another GPU than the memory's");
        }
    }
    for (size_t i = 0; i < ns && !*r->why; i++)
        touch(r, m, src[i], passes, false);
}

static void check_local(rules_t *r, const json_t *op, const char *name, int type, meeting_t *m) {
    bool adds = strcmp(name, "re") == 0 || strcmp(name, "res") == 0, repkt = !strcmp(name, "repkt"),
         upkt = strcmp(name, "upkt") == 0, cpkt = strcmp(name, "cpkt") == 0;
    size_t most = adds || repkt ? MAX_LOCAL_BUFFER_PER_OPERATION + MAX_CHANNEL_PER_OPERATION : 1;
    piece_t src[10], dst[10];
    size_t ns = pieces(r, op, "src_buff", type, adds || repkt ? 2 : 1, most, src);
    size_t nd = pieces(r, op, "dst_buff", type, 1, strcmp(name, "res") == 0 ? 9 : 1, dst);
    RULE(!(repkt || upkt || cpkt) || r->packets, "packets in a plan of Simple");
    for (size_t i = 0; i < ns && !*r->why; i++)
        RULE(src[i].of == OWN, "a source of another GPU");
    RULE(dst[0].of == OWN && dst[0].size == src[0].size, "not to own memory of that size");
    RULE(nd == 1 || type == MEMORY, "sums are sent over memory only");
    RULE(!upkt || src[0].buffer == 2, "packets lie in scratch");
    RULE(!cpkt || dst[0].buffer == 2, "packets lie in scratch");
    for (size_t i = 1; i < ns && repkt; i++)
        RULE(src[i].buffer == 2, "packets lie in scratch");
    for (size_t i = 0; i < ns && !*r->why; i++)
        touch(r, m, src[i], upkt || (repkt && i > 0), false);
    touch(r, m, dst[0], cpkt, true);
}

static void check_switched(rules_t *r, const json_t *op, bool pulls, int type, meeting_t *m) {
    piece_t src[10], dst[10];
    pieces(r, op, "src_buff", type, 1, 1, src);
    pieces(r, op, "dst_buff", type, 1, 1, dst);
    RULE(type == SWITCH && src[0].of == (pulls ? GROUP : OWN) && dst[0].of == GROUP &&
             src[0].size == dst[0].size,
         "not through a switch channel");
    if (!*r->why)
        touch(r, m, src[0], false, false);
    /* a sum may be stored where it was pulled from: each thread stores what it pulled */
    if (!*r->why && src[0].buffer == dst[0].buffer && src[0].index == dst[0].index)
        m->list[m->n - 1].write = true;
    else if (!*r->why)
        touch(r, m, dst[0], false, true);
}

static void check_op(rules_t *r, const json_t *op, meeting_t *m) {
    static const char *const names[] = {
        "nop",       "barrier", "put",         "pws",         "pwsf",  "get",   "copy",
        "signal",    "wait",    "flush",       "re",          "res",   "rre",   "rres",
        "ppkt",      "rppkt",   "cpkt",        "upkt",        "repkt", "glres", "gstore",
        "rlxsignal", "rlxwait", "sem_acquire", "sem_release", NULL};
    const char *name = names[word_of(r, op, "name", names)];
    bool typed = json_object_get(op, "channel_type") != NULL;
    int type = typed ? word_of(r, op, "channel_type", TYPES) : SWITCH + 1;
    bool signals = strstr(name, "signal"), waits = strstr(name, "wait");
    bool sem = strncmp(name, "sem_", 4) == 0, flushes = strcmp(name, "flush") == 0;
    bool takes = waits || strcmp(name, "sem_acquire") == 0;
    RULE(takes || !m->told || !strcmp(name, "nop") || !strcmp(name, "barrier"),
         "%s before all threads know what some have waited for", name);
    if (strcmp(name, "nop") == 0 || strcmp(name, "barrier") == 0) {
        if (*name == 'b')
            int_of(r, op, "barrier_id", 0, MAX_DEVICE_SYNCERS - 1);
        met(m);
    } else if (signals || waits || flushes) {
        RULE(type == MEMORY || type == PORT, "%s over %s", name, typed ? TYPES[type] : "nothing");
        RULE(strncmp(name, "rlx", 3) != 0 || type == MEMORY, "ports have no relaxed signals");
        channels_of_op(r, op, type, 1);
        RULE(!signals || !m->moved, "others hear of it before all threads have moved their part");
        RULE(!flushes || (type == PORT && json_array_size(json_object_get(op, "dst_buff")) ==
                                              json_array_size(json_object_get(op, "channel_ids"))),
             "a flush that flushes nothing: it takes as many channels as it has destinations");
        m->told = m->told || waits;
    } else if (sem) {
        json_t *ids = list_of(r, op, "semaphore_ids", 1, MAX_DEVICE_SEMAPHORES);
        for (size_t i = 0; i < json_array_size(ids); i++)
            RULE(at(ids, i) >= 0 && at(ids, i) < (json_int_t)json_array_size(
                                                     json_object_get(r->gpu, "semaphores")),
                 "no semaphore %lld", (long long)at(ids, i));
        RULE(distinct(ids), "a semaphore twice");
        RULE(takes || !m->moved, "a release before all threads have moved their part");
        m->told = m->told || takes;
    } else if (strcmp(name, "put") == 0 || strcmp(name, "pws") == 0 || strcmp(name, "ppkt") == 0 ||
               strcmp(name, "rppkt") == 0) {
        RULE(strcmp(name, "pws") != 0 || type == PORT, "over memory pws does not signal");
        check_put(r, op, name, type, m);
    } else if (strcmp(name, "glres") == 0 || strcmp(name, "gstore") == 0) {
        check_switched(r, op, *name == 'g' && name[1] == 'l', type, m);
    } else {
        RULE(strcmp(name, "pwsf") != 0, "the executor puts from a wrong place");
        RULE(strcmp(name, "get") != 0, "the executor swaps the offsets");
        RULE(name[0] != 'r' || name[1] != 'r', "reads of other GPUs are not for our plans");
        check_local(r, op, name, type, m);
    }
}

/* ---------------------------------------------------------------- blocks */

/*
 * What a port still reads when the kernel ends is the user's to write: a flush behind the last put
 * of every channel, in its block or in the one that goes on for it.
 */
static void check_flushed(rules_t *r) {
    size_t n = 0;
    bool *open;
    json_t *tbs = json_object_get(r->gpu, "threadblocks"), *e;
    json_array_foreach(json_object_get(r->gpu, "channels"), r->o, e) n +=
        json_array_size(json_object_get(e, "connected_to"));
    open = calloc(n + 1, sizeof *open);
    for (r->t = 0; r->t < json_array_size(tbs); r->t++) {
        r->tb = json_array_get(tbs, r->t);
        json_t *ids = json_object_get(of_block(r, "channels", "channel_type", PORT), "channel_ids");
        json_array_foreach(json_object_get(r->tb, "ops"), r->o, e) {
            const char *name = json_string_value(json_object_get(e, "name"));
            const char *type = json_string_value(json_object_get(e, "channel_type"));
            json_t *on = json_object_get(e, "channel_ids");
            bool puts = strcmp(name, "put") == 0 || strcmp(name, "pws") == 0;
            if (!type || strcmp(type, "port") != 0 || (!puts && strcmp(name, "flush") != 0))
                continue;
            for (size_t k = 0; k < json_array_size(on); k++)
                open[at(ids, (size_t)at(on, k))] = puts;
        }
    }
    r->t = r->o = 0;
    for (size_t i = 0; i < n; i++)
        RULE(!open[i], "no flush after what was put to port %zu", i);
    free(open);
}

static void check_blocks(rules_t *r) {
    json_t *tbs = list_of(r, r->gpu, "threadblocks", 0, r->most_blocks ? r->most_blocks : 4096);
    json_t *e;
    size_t i, k;
    json_array_foreach(list_of(r, r->gpu, "semaphores", 0, 1 << 20), i, e)
        int_of(r, e, "init_value", 0, INT32_MAX);
    for (r->t = 0; r->t < json_array_size(tbs) && !*r->why; r->t++) {
        meeting_t m = {.n = 0};
        r->tb = json_array_get(tbs, r->t);
        RULE(int_of(r, r->tb, "id", 0, 4095) == (json_int_t)r->t, "blocks stand by their ids");
        bool seen[3] = {false};
        json_array_foreach(list_of(r, r->tb, "channels", 0, 3), i, e) {
            int type = word_of(r, e, "channel_type", TYPES);
            json_t *ids = list_of(r, e, "channel_ids", 1, MAX_CHANNEL);
            RULE(!seen[type] && distinct(ids), "%s channels twice", TYPES[type]);
            seen[type] = true;
        }
        json_array_foreach(list_of(r, r->tb, "remote_buffer_refs", 0, 2), i, e) {
            int type = word_of(r, e, "access_channel_type", TYPES);
            json_t *ids = list_of(r, e, "remote_buffer_ids", 1, MAX_CHANNEL), *all, *types;
            all = json_object_get(r->gpu, "remote_buffers");
            for (k = 0; k < json_array_size(ids); k++) {
                bool may = false;
                types = json_object_get(json_array_get(all, (size_t)at(ids, k)),
                                        "access_channel_types");
                for (size_t n = 0; n < json_array_size(types); n++)
                    may |= strcmp(json_string_value(json_array_get(types, n)), TYPES[type]) == 0;
                RULE(may, "remote buffer %lld is not for %s", (long long)at(ids, k), TYPES[type]);
            }
        }
        json_t *ops = list_of(r, r->tb, "ops", 0, MAX_OPERATION);
        for (r->o = 0; r->o < json_array_size(ops) && !*r->why; r->o++)
            check_op(r, json_array_get(ops, r->o), &m);
    }
    r->t = r->o = 0;
    if (!*r->why && !r->packets)
        check_flushed(r);
}

/* Every signal of a GPU to another is waited for there, by type: as the DSL asks. */
static void check_pairs(rules_t *r) {
    size_t n = r->ngpus;
    int64_t *open = calloc(2 * n * n + 1, sizeof *open);
    for (r->g = 0; r->g < n; r->g++) {
        r->gpu = json_array_get(r->gpus, r->g);
        json_t *tbs = json_object_get(r->gpu, "threadblocks");
        for (r->t = 0; r->t < json_array_size(tbs); r->t++) {
            r->tb = json_array_get(tbs, r->t);
            json_t *ops = json_object_get(r->tb, "ops");
            for (r->o = 0; r->o < json_array_size(ops); r->o++) {
                const json_t *op = json_array_get(ops, r->o), *ids;
                const char *name = json_string_value(json_object_get(op, "name"));
                bool signals = strstr(name, "signal") || strcmp(name, "pws") == 0;
                if (!signals && !strstr(name, "wait"))
                    continue;
                int type = word_of(r, op, "channel_type", TYPES);
                ids = json_object_get(op, "channel_ids");
                for (size_t i = 0; i < json_array_size(ids); i++) {
                    size_t peer = (size_t)peer_of(r, type, at(ids, i));
                    size_t from = signals ? r->g : peer, to = signals ? peer : r->g;
                    open[((size_t)type * n + from) * n + to] += signals ? 1 : -1;
                }
            }
        }
    }
    r->g = r->t = r->o = 0;
    for (size_t i = 0; i < 2 * n * n; i++)
        RULE(open[i] == 0, "GPU %zu and %zu: signals and waits are not as many", i / n % n, i % n);
    free(open);
}

#endif
