/**
 * @file bootstrap.c
 * Sockets between processes that were started apart: a star for agreement, a mesh for slices.
 */
#define _GNU_SOURCE
#include "runtime/wire/bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
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

/** One attempt, at most until limit_s; -1 and errno. */
static int connect_once(const struct sockaddr *address, socklen_t len, double limit_s) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int why = connect(fd, address, len) ? errno : 0;
    while (why == EINPROGRESS || why == EINTR) {
        struct pollfd done = {.fd = fd, .events = POLLOUT};
        double left_s = limit_s - ccl_now_s();
        socklen_t size = sizeof why;
        if (left_s <= 0)
            why = ETIMEDOUT;
        else if (poll(&done, 1, left_s < 0.1 ? 10 : 100) > 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size))
            why = errno;
    }
    if (why) {
        close(fd);
        errno = why;
        return -1;
    }
    fcntl(fd, F_SETFL, 0); /* as accepted ones are */
    set_up(fd);
    return fd;
}

static int connect_until(const struct sockaddr *address, socklen_t len, double limit_s) {
    for (;;) {
        int fd = connect_once(address, len, limit_s);
        if (fd >= 0 || ccl_now_s() > limit_s ||
            (errno != ECONNREFUSED && errno != EINTR && errno != ETIMEDOUT &&
             errno != ENETUNREACH && errno != EHOSTUNREACH))
            return fd;
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

static ccl_status_t admit(int fd, uint32_t world, uint64_t token, int *fds, uint32_t *n,
                          ccl_error_t *err) {
    hello_t h;
    answer_t yes = {.magic = MAGIC};
    char why[160];
    if (!transfer(fd, &h, sizeof h, false, ccl_now_s() + HELLO_LIMIT_S) || h.magic != MAGIC ||
        h.token != token) {
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

/** Closes the listener when all have come, or not within the limit. */
static ccl_status_t gather(int listener, uint32_t world, uint64_t token, const char *where,
                           int *fds, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    double limit_s = ccl_now_s() + JOIN_LIMIT_S;
    for (uint32_t n = 1; n < world && status == CCL_OK;) {
        int fd = accept_until(listener, limit_s);
        if (fd < 0)
            status = ccl_fail(err, CCL_ERR_IO, "only %u of %u processes came to %.80s within %g s",
                              n, world, where, JOIN_LIMIT_S);
        else
            status = admit(fd, world, token, fds, &n, err);
    }
    close(listener);
    return status;
}

/** Takes the socket; it is closed on failure. */
static ccl_status_t greet(int fd, uint32_t rank, uint32_t world, uint64_t token, const char *where,
                          double limit_s, ccl_error_t *err) {
    hello_t h = {.magic = MAGIC, .token = token, .rank = rank, .world = world};
    answer_t a;
    if (!transfer(fd, &h, sizeof h, true, limit_s) || !transfer(fd, &a, sizeof a, false, limit_s) ||
        a.magic != MAGIC) {
        close(fd);
        return ccl_fail(err, CCL_ERR_IO, "who listens at %.80s is not process 0 of the job", where);
    }
    if (a.refused) {
        close(fd);
        a.text[sizeof a.text - 1] = '\0';
        return ccl_fail(err, CCL_ERR_USAGE, "%s", a.text);
    }
    return CCL_OK;
}

static ccl_status_t star_by_root(const ccl_run_options_t *o, int *fds, ccl_error_t *err) {
    struct sockaddr_storage at;
    CCL_TRY(resolve(o->root, &at, err));
    if (o->rank == 0) {
        if (!is_loopback(&at))
            at = anywhere(&at); /* a machine's name may stand for its loopback */
        int listener = listen_at((const struct sockaddr *)&at, address_len(&at), o->world);
        if (listener < 0)
            return ccl_fail(err, CCL_ERR_IO, "cannot listen at %.80s: %s", o->root,
                            strerror(errno));
        return gather(listener, o->world, 0, o->root, fds, err);
    }
    double limit_s = ccl_now_s() + JOIN_LIMIT_S;
    int fd = connect_until((const struct sockaddr *)&at, address_len(&at), limit_s);
    if (fd < 0)
        return ccl_fail(err, CCL_ERR_IO, "cannot reach process 0 at %.80s: %s", o->root,
                        strerror(errno));
    CCL_TRY(greet(fd, o->rank, o->world, 0, o->root, limit_s, err));
    fds[0] = fd;
    return CCL_OK;
}

/* ---------------------------------------------------------------- the star by exchange */

enum { MAX_ADDRESSES = 8 };

/** What every process sends to all; of process 0 where it listens. */
typedef struct place {
    uint64_t machine, token;
    uint32_t failed, naddresses;
    struct sockaddr_storage addresses[MAX_ADDRESSES]; /* the first one is the loopback's */
} place_t;

/** Addresses of this machine of the family, or -1. */
static int list_addresses(sa_family_t family, place_t *place) {
    struct ifaddrs *list;
    if (getifaddrs(&list))
        return -1;
    for (struct ifaddrs *i = list; i && place->naddresses < MAX_ADDRESSES; i = i->ifa_next) {
        struct sockaddr_storage at = {0};
        if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP))
            continue;
        at.ss_family = family;
        memcpy(&at, i->ifa_addr, address_len(&at));
        /* A link-local address says nothing without the other side's interface. */
        if (is_loopback(&at) ||
            (family == AF_INET6 &&
             IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)&at)->sin6_addr)))
            continue;
        place->addresses[place->naddresses++] = at;
    }
    freeifaddrs(list);
    return 0;
}

/** Listens at any address; the listener, or -1. */
static int open_place(uint32_t world, place_t *place) {
    struct sockaddr_storage at = {.ss_family = AF_INET};
    socklen_t len = sizeof at;
    place->naddresses = 1;
    if (list_addresses(AF_INET, place))
        return -1;
    if (place->naddresses == 1 && !list_addresses(AF_INET6, place) && place->naddresses > 1)
        at.ss_family = AF_INET6;
    place->addresses[0].ss_family = at.ss_family;
    if (at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&place->addresses[0])->sin6_addr = in6addr_loopback;
    else
        ((struct sockaddr_in *)&place->addresses[0])->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at = anywhere(&at);
    int fd = listen_at((const struct sockaddr *)&at, address_len(&at), world);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &len)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    for (uint32_t i = 0; i < place->naddresses; i++)
        set_port(&place->addresses[i], get_port(&at));
    return fd;
}

/** Process 0 has several addresses, of which some may not be reached from here. */
static ccl_status_t come_to(const ccl_run_options_t *o, const place_t *root, uint64_t machine,
                            int *fd_out, ccl_error_t *err) {
    static const char where[] = "the addresses that it gave";
    double limit_s = ccl_now_s() + JOIN_LIMIT_S / 2;
    uint32_t n = root->naddresses < MAX_ADDRESSES ? root->naddresses : MAX_ADDRESSES;
    do {
        /* Containers of one machine may each have a loopback of their own: then on to the rest. */
        for (uint32_t i = root->machine == machine ? 0 : 1; i < n; i++) {
            const struct sockaddr_storage *at = &root->addresses[i];
            double now_s = ccl_now_s();
            int fd = connect_once((const struct sockaddr *)at, address_len(at), now_s + 2);
            if (fd < 0)
                continue;
            ccl_status_t status =
                greet(fd, o->rank, o->world, root->token, where, now_s + JOIN_LIMIT_S / 2, err);
            *fd_out = status == CCL_OK ? fd : -1;
            if (status != CCL_ERR_IO)
                return status;
        }
        usleep(20000);
    } while (ccl_now_s() < limit_s);
    return ccl_fail(err, CCL_ERR_IO, "process %u cannot reach process 0 at %s", o->rank, where);
}

static ccl_status_t star_by_exchange(const ccl_run_options_t *o, int *fds, ccl_error_t *err) {
    place_t mine = {.machine = ccl_i_bootstrap_machine()}, *all = calloc(o->world, sizeof *all);
    int listener = -1;
    if (!all)
        return ccl_fail_nomem(err);
    if (o->rank == 0) {
        listener = open_place(o->world, &mine);
        mine.failed =
            listener < 0 || getrandom(&mine.token, sizeof mine.token, 0) != sizeof mine.token;
    }
    ccl_status_t status =
        ccl_i_bootstrap_exchange(o->bootstrap, &mine, sizeof mine, all, JOIN_LIMIT_S, err);
    if (status == CCL_OK && all[0].failed)
        status = ccl_fail(err, CCL_ERR_IO, "process 0 cannot listen");
    if (status == CCL_OK && o->rank == 0) {
        status = gather(listener, o->world, mine.token, "its addresses", fds, err);
        listener = -1;
    } else if (status == CCL_OK) {
        status = come_to(o, &all[0], mine.machine, &fds[0], err);
    }
    if (listener >= 0)
        close(listener);
    free(all);
    return status;
}

ccl_status_t ccl_i_bootstrap_join(const ccl_run_options_t *options, ccl_i_group_t *out,
                                  ccl_error_t *err) {
    uint32_t world = options->world;
    int *fds = malloc(world * sizeof *fds);
    if (!fds)
        return ccl_fail_nomem(err);
    memset(fds, 0xff, world * sizeof *fds);
    ccl_status_t status =
        options->bootstrap ? star_by_exchange(options, fds, err) : star_by_root(options, fds, err);
    if (status == CCL_OK)
        status = ccl_i_group_join(options->rank, world, fds, out, err);
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
    uint32_t numbers[] = {d->nranks,    d->nunits,  d->nconns,   d->batches,
                          d->by_task,   d->type,    d->op,       plan->slots,
                          o->repeats,   o->warmups, o->no_check, o->block_times,
                          o->transport, d->npieces, o->library,  o->hom_library};
    uint64_t h = ccl_hash64(numbers, sizeof numbers, MAGIC);
    if (plan->first_rank)
        h = ccl_hash64(plan->first_rank, (o->world + (size_t)1) * sizeof *plan->first_rank, h);
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
