/**
 * @file bootstrap.c
 * Sockets between processes that were started apart: a star for agreement, a mesh for slices.
 */
#define _GNU_SOURCE
#include "runtime/bootstrap.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31626c6c63636363)
#define JOIN_LIMIT_S 30.0
#define HELLO_LIMIT_S 3.0

typedef struct hello {
    uint64_t magic, token;
    uint32_t rank, world;
} hello_t;

typedef struct answer {
    uint64_t magic;
    uint32_t refused;
    char text[252];
} answer_t;

/* ---------------------------------------------------------------- sockets */

static void set_up(int fd) {
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        /* A machine that vanished is noticed within seconds. */
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 2},
        {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, 5},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 8000},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(options); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                   sizeof options[i].value);
}

static bool transfer(int fd, void *data, size_t len, bool out, double limit_s) {
    char *p = data;
    while (len > 0) {
        ssize_t n =
            out ? send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, p, len, MSG_DONTWAIT);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
            ccl_now_s() > limit_s)
            return false;
        struct pollfd ready = {.fd = fd, .events = (short)(out ? POLLOUT : POLLIN)};
        poll(&ready, 1, 100);
    }
    return true;
}

/** A connection that has come, or -1 at the limit. */
static int accept_until(int listener, double limit_s) {
    for (;;) {
        double left_s = limit_s - ccl_now_s();
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        if (left_s <= 0)
            return -1;
        if (poll(&ready, 1, left_s < 0.2 ? 20 : 200) <= 0)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            set_up(fd);
            return fd;
        }
    }
}

static int connect_until(const struct sockaddr *address, socklen_t len, double limit_s) {
    for (;;) {
        int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        if (connect(fd, address, len) == 0) {
            set_up(fd);
            return fd;
        }
        int why = errno;
        close(fd);
        if (ccl_now_s() > limit_s || (why != ECONNREFUSED && why != EINTR && why != ETIMEDOUT &&
                                      why != ENETUNREACH && why != EHOSTUNREACH)) {
            errno = why;
            return -1;
        }
        usleep(20000);
    }
}

static int listen_at(const struct sockaddr *address, socklen_t len, uint32_t backlog) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, len) || listen(fd, (int)(backlog < 4096 ? backlog : 4096))) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static void set_port(struct sockaddr_storage *a, uint16_t port) {
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)a)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)a)->sin_port = htons(port);
}

static uint16_t get_port(const struct sockaddr_storage *a) {
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
                                          : ((const struct sockaddr_in *)a)->sin_port);
}

static socklen_t address_len(const struct sockaddr_storage *a) {
    return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool is_loopback(const struct sockaddr_storage *a) {
    if (a->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
}

/** The same family and port, any address. */
static struct sockaddr_storage anywhere(const struct sockaddr_storage *a) {
    struct sockaddr_storage any = {.ss_family = a->ss_family};
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&any)->sin6_addr = in6addr_any;
    set_port(&any, get_port(a));
    return any;
}

static ccl_status_t resolve(const char *root, struct sockaddr_storage *out, ccl_error_t *err) {
    char host[256];
    const char *colon = strrchr(root, ':'), *from = root;
    size_t len = colon ? (size_t)(colon - root) : 0;
    if (len > 1 && root[0] == '[' && root[len - 1] == ']') {
        from++;
        len -= 2;
    }
    if (!colon || !colon[1] || len == 0 || len >= sizeof host)
        return ccl_fail(err, CCL_ERR_USAGE, "root \"%.80s\": host:port is wanted", root);
    memcpy(host, from, len);
    host[len] = '\0';
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int code = getaddrinfo(host, colon + 1, &want, &found);
    if (code || !found)
        return ccl_fail(err, CCL_ERR_USAGE, "root \"%.80s\": %s", root,
                        code ? gai_strerror(code) : "no address");
    memset(out, 0, sizeof *out);
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return CCL_OK;
}

/* ---------------------------------------------------------------- the star */

static ccl_status_t refuse(int fd, const char *why, ccl_error_t *err) {
    answer_t a = {.magic = MAGIC, .refused = 1};
    snprintf(a.text, sizeof a.text, "%s", why);
    transfer(fd, &a, sizeof a, true, ccl_now_s() + HELLO_LIMIT_S);
    close(fd);
    return ccl_fail(err, CCL_ERR_USAGE, "%s", why);
}

static ccl_status_t admit(int fd, uint32_t world, int *fds, uint32_t *n, ccl_error_t *err) {
    hello_t h;
    answer_t yes = {.magic = MAGIC};
    char why[160];
    if (!transfer(fd, &h, sizeof h, false, ccl_now_s() + HELLO_LIMIT_S) || h.magic != MAGIC) {
        close(fd); /* somebody else's */
        return CCL_OK;
    }
    snprintf(why, sizeof why, "process %u of a job of %u came to one of %u", h.rank, h.world,
             world);
    if (h.world != world || h.rank == 0 || h.rank >= world)
        return refuse(fd, why, err);
    snprintf(why, sizeof why, "process %u came twice", h.rank);
    if (fds[h.rank] >= 0)
        return refuse(fd, why, err);
    if (!transfer(fd, &yes, sizeof yes, true, ccl_now_s() + HELLO_LIMIT_S)) {
        close(fd);
        return CCL_OK;
    }
    fds[h.rank] = fd;
    ++*n;
    return CCL_OK;
}

static ccl_status_t gather(uint32_t world, const char *root, int *fds, ccl_error_t *err) {
    struct sockaddr_storage at;
    CCL_TRY(resolve(root, &at, err));
    if (!is_loopback(&at))
        at = anywhere(&at); /* a machine's name may stand for its loopback */
    int listener = listen_at((const struct sockaddr *)&at, address_len(&at), world);
    if (listener < 0)
        return ccl_fail(err, CCL_ERR_IO, "cannot listen at %.80s: %s", root, strerror(errno));
    ccl_status_t status = CCL_OK;
    double limit_s = ccl_now_s() + JOIN_LIMIT_S;
    for (uint32_t n = 1; n < world && status == CCL_OK;) {
        int fd = accept_until(listener, limit_s);
        if (fd < 0)
            status = ccl_fail(err, CCL_ERR_IO, "only %u of %u processes came to %.80s within %g s",
                              n, world, root, JOIN_LIMIT_S);
        else
            status = admit(fd, world, fds, &n, err);
    }
    close(listener);
    return status;
}

static ccl_status_t come(uint32_t rank, uint32_t world, const char *root, int *fd_out,
                         ccl_error_t *err) {
    struct sockaddr_storage at;
    hello_t h = {.magic = MAGIC, .rank = rank, .world = world};
    answer_t a;
    double limit_s = ccl_now_s() + JOIN_LIMIT_S;
    CCL_TRY(resolve(root, &at, err));
    int fd = connect_until((const struct sockaddr *)&at, address_len(&at), limit_s);
    if (fd < 0)
        return ccl_fail(err, CCL_ERR_IO, "cannot reach process 0 at %.80s: %s", root,
                        strerror(errno));
    if (!transfer(fd, &h, sizeof h, true, limit_s) || !transfer(fd, &a, sizeof a, false, limit_s) ||
        a.magic != MAGIC) {
        close(fd);
        return ccl_fail(err, CCL_ERR_IO, "who listens at %.80s is not process 0 of the job", root);
    }
    if (a.refused) {
        close(fd);
        a.text[sizeof a.text - 1] = '\0';
        return ccl_fail(err, CCL_ERR_USAGE, "%s", a.text);
    }
    *fd_out = fd;
    return CCL_OK;
}

ccl_status_t ccl_i_bootstrap_join(uint32_t rank, uint32_t world, const char *root,
                                  ccl_i_group_t *out, ccl_error_t *err) {
    int *fds = malloc(world * sizeof *fds);
    if (!fds)
        return ccl_fail_nomem(err);
    memset(fds, 0xff, world * sizeof *fds);
    ccl_status_t status =
        rank == 0 ? gather(world, root, fds, err) : come(rank, world, root, &fds[0], err);
    if (status == CCL_OK)
        status = ccl_i_group_join(rank, world, fds, out, err);
    if (status != CCL_OK)
        for (uint32_t i = 0; i < world; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    free(fds);
    return status;
}

/* ---------------------------------------------------------------- the mesh */

typedef struct card {
    struct sockaddr_storage address;
    uint64_t token;
    uint32_t failed, pad;
} card_t;

static int open_door(ccl_i_group_t *g, bool local, card_t *card) {
    struct sockaddr_storage at = {.ss_family = AF_INET};
    socklen_t len = sizeof at;
    int control = -1;
    for (uint32_t i = 0; i < g->world && control < 0; i++)
        control = g->peers[i].fd;
    if (local || control < 0)
        ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (getsockname(control, (struct sockaddr *)&at, &len))
        return -1;
    set_port(&at, 0);
    struct sockaddr_storage door = local || is_loopback(&at) ? at : anywhere(&at);
    int fd = listen_at((const struct sockaddr *)&door, address_len(&door), g->world);
    len = sizeof door;
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&door, &len)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    set_port(&at, get_port(&door));
    card->address = at;
    return fd;
}

/** Process 0 has several addresses: the one that we reached it at is right for us. */
static void correct_root(const ccl_i_group_t *g, bool local, card_t *cards) {
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof at;
    if (local || g->rank == 0 || getpeername(g->peers[0].fd, (struct sockaddr *)&at, &len))
        return;
    set_port(&at, get_port(&cards[0].address));
    cards[0].address = at;
}

static ccl_status_t meet(const ccl_i_group_t *g, int door, const card_t *cards, int *fds,
                         ccl_error_t *err) {
    double limit_s = ccl_now_s() + JOIN_LIMIT_S / 2;
    for (uint32_t i = 0; i < g->rank; i++) {
        hello_t h = {MAGIC, cards[0].token, g->rank, g->world};
        fds[i] = connect_until((const struct sockaddr *)&cards[i].address,
                               address_len(&cards[i].address), limit_s);
        if (fds[i] < 0 || !transfer(fds[i], &h, sizeof h, true, limit_s))
            return ccl_fail(err, CCL_ERR_IO, "process %u cannot reach process %u: %s", g->rank, i,
                            strerror(errno));
    }
    for (uint32_t n = g->rank + 1; n < g->world;) {
        hello_t h;
        int fd = accept_until(door, limit_s);
        if (fd < 0)
            return ccl_fail(err, CCL_ERR_IO, "process %u: not all others have come", g->rank);
        if (!transfer(fd, &h, sizeof h, false, ccl_now_s() + HELLO_LIMIT_S) || h.magic != MAGIC ||
            h.token != cards[0].token || h.rank <= g->rank || h.rank >= g->world ||
            fds[h.rank] >= 0) {
            close(fd);
            continue;
        }
        fds[h.rank] = fd;
        n++;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_bootstrap_mesh(ccl_i_group_t *group, bool local, int *fds, ccl_error_t *err) {
    card_t mine = {0}, *cards = calloc(group->world, sizeof *cards);
    memset(fds, 0xff, group->world * sizeof *fds);
    if (!cards)
        return ccl_fail_nomem(err);
    int door = open_door(group, local, &mine);
    mine.failed = door < 0 || getrandom(&mine.token, sizeof mine.token, 0) != sizeof mine.token;
    ccl_status_t status = ccl_i_group_exchange(group, &mine, sizeof mine, cards, NULL, err);
    for (uint32_t i = 0; i < group->world && status == CCL_OK; i++)
        if (cards[i].failed)
            status = ccl_fail(err, CCL_ERR_IO, "process %u cannot listen", i);
    correct_root(group, local, cards);
    if (status == CCL_OK)
        status = meet(group, door, cards, fds, err);
    if (status != CCL_OK)
        for (uint32_t i = 0; i < group->world; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    if (door >= 0)
        close(door);
    free(cards);
    return status;
}

/* ---------------------------------------------------------------- identities */

uint64_t ccl_i_bootstrap_fingerprint(const ccl_i_run_plan_t *plan, const ccl_run_options_t *o) {
    const ccl_device_plan_t *d = &plan->dev;
    uint32_t numbers[] = {d->nranks,   d->nunits,      d->nconns,    d->batches, d->by_task,
                          d->type,     d->op,          plan->slots,  o->repeats, o->warmups,
                          o->no_check, o->block_times, o->transport, d->npieces};
    uint64_t h = ccl_hash64(numbers, sizeof numbers, MAGIC);
    h = ccl_hash64(plan->units, d->nunits * sizeof *plan->units, h);
    h = ccl_hash64(plan->steps, d->nsteps * sizeof *plan->steps, h);
    h = ccl_hash64(plan->pieces, d->npieces * sizeof *plan->pieces, h);
    h = ccl_hash64(plan->conn_src, d->nconns * sizeof *plan->conn_src, h);
    return ccl_hash64(plan->conn_dst, d->nconns * sizeof *plan->conn_dst, h);
}

uint64_t ccl_i_bootstrap_machine(void) {
    char *text = NULL;
    size_t len = 0;
    if (ccl_file_read("/proc/sys/kernel/random/boot_id", 4096, &text, &len, NULL) != CCL_OK)
        return 0;
    uint64_t h = ccl_hash64(text, len, 0);
    free(text);
    return h;
}

static bool number_of(const char *name, uint32_t *out) {
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value > 65536)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool ccl_run_place_from_environment(uint32_t *rank_out, uint32_t *world_out) {
    static const char *const names[][2] = {{"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++) {
        uint32_t rank, world;
        if (number_of(names[i][0], &rank) && number_of(names[i][1], &world) && rank < world) {
            *rank_out = rank;
            *world_out = world;
            return true;
        }
    }
    return false;
}
