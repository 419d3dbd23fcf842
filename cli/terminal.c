/*
 * The talk: messages and progress on stderr, signals to the cancel flag. A signal handler can reach
 * only globals, so this file has the program's only mutable ones; the library has none.
 */
#include "cli/command.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { SEEN_MAX = 256, LINE_MAX_LEN = 1600, TICK_NS = 500000000 };

static volatile int stop_wanted; /* the cancel flag */
static volatile sig_atomic_t stop_signal;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool quiet, draw, json, drawn;
    uint32_t verbose;
    double next_s, begun_s;
    uint64_t seen[SEEN_MAX]; /* warnings that were said already */
    uint32_t nseen;
    ccl_progress_t now; /* the last one; its phase is `phase` */
    char phase[200];
    bool ticks, done; /* a thread draws the line again; it is to end */
    pthread_t ticker;
} terminal;
static pthread_cond_t end_of_ticks = PTHREAD_COND_INITIALIZER;

static void on_signal(int number) {
    stop_signal = number;
    stop_wanted = 1;
}

int ccl_i_terminal_signal(void) {
    return stop_signal;
}

/** Control characters would break "one line"; everything else passes. */
static void one_line(const char *text, char *out, size_t out_len) {
    size_t n = 0;

    for (; *text && n + 1 < out_len; text++)
        out[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
    out[n] = '\0';
}

static void clear_locked(void) {
    if (terminal.drawn)
        fputs("\r\033[K", stderr);
    terminal.drawn = false;
}

void ccl_i_terminal_clear(void) {
    pthread_mutex_lock(&lock);
    clear_locked();
    pthread_mutex_unlock(&lock);
}

void ccl_i_say(const char *kind, const char *text) {
    char line[LINE_MAX_LEN];

    one_line(text, line, sizeof(line));
    pthread_mutex_lock(&lock);
    clear_locked();
    fprintf(stderr, "ccllab: %s%s%s\n", kind, kind[0] && line[0] ? ": " : "", line);
    pthread_mutex_unlock(&lock);
}

/** The same warning of many runs is said once. */
static bool said_before(const char *text) {
    uint64_t hash = ccl_hash64(text, strlen(text), 0);
    bool before = false;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < terminal.nseen && !before; i++)
        before = terminal.seen[i] == hash;
    if (!before && terminal.nseen < SEEN_MAX)
        terminal.seen[terminal.nseen++] = hash;
    pthread_mutex_unlock(&lock);
    return before;
}

static void on_log(ccl_log_level_t level, const char *subsystem, const char *text, void *user) {
    char line[LINE_MAX_LEN];

    (void)user;
    switch (level) {
    case CCL_LOG_ERROR:
        ccl_i_say("error", text);
        return;
    case CCL_LOG_WARN:
        if (!terminal.quiet && !said_before(text))
            ccl_i_say("warning", text);
        return;
    case CCL_LOG_INFO:
    case CCL_LOG_DEBUG:
        if (terminal.verbose < (level == CCL_LOG_INFO ? 1u : 2u))
            return;
        snprintf(line, sizeof(line), "%s: %s", subsystem ? subsystem : "", text);
        ccl_i_say(level == CCL_LOG_INFO ? "info" : "debug", line);
        return;
    }
}

static uint32_t columns_of(int fd) {
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

uint32_t ccl_i_terminal_columns(void) {
    const char *text = getenv("COLUMNS");
    unsigned long given = text ? strtoul(text, NULL, 10) : 0;
    uint32_t columns =
        given ? (uint32_t)(given < 10000 ? given : 10000) : columns_of(STDOUT_FILENO);

    return columns && columns < 40 ? 40 : columns;
}

static void draw_locked(double now_s) {
    uint32_t columns = columns_of(STDERR_FILENO);
    ccl_text_t line = {0};

    ccl_i_progress_line(&terminal.now, now_s - terminal.begun_s, columns ? columns : 80, &line);
    if (line.data && !line.nomem)
        fprintf(stderr, "\r\033[K%.*s", (int)line.len, line.data);
    fflush(stderr);
    terminal.drawn = true;
    ccl_text_fini(&line);
}

static void print_json(const ccl_progress_t *p, double elapsed_s) {
    double left_s = ccl_i_progress_left_s(p, elapsed_s);

    fprintf(stderr,
            "{\"phase\": \"%s\", \"done\": %llu, \"total\": %llu, \"best_s\": %.17g, "
            "\"bound_s\": %.17g, \"elapsed_s\": %.3f, \"left_s\": ",
            p->phase ? p->phase : "", (unsigned long long)p->done, (unsigned long long)p->total,
            p->best_s, p->bound_s, elapsed_s);
    fprintf(stderr, isfinite(left_s) ? "%.3f}\n" : "null}\n", left_s);
}

/** At most ten times a second; the last one always. */
static int on_progress(const ccl_progress_t *p, void *user) {
    double now_s = ccl_now_s();
    bool last = p->total > 0 && p->done >= p->total;

    (void)user;
    pthread_mutex_lock(&lock);
    if (now_s < terminal.next_s && !last) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    terminal.next_s = now_s + 0.1;
    if (terminal.begun_s == 0 || p->done < terminal.now.done || p->total != terminal.now.total)
        terminal.begun_s = now_s; /* other work */
    terminal.now = *p;
    snprintf(terminal.phase, sizeof(terminal.phase), "%s", p->phase ? p->phase : "");
    terminal.now.phase = terminal.phase;
    if (terminal.json) {
        print_json(p, now_s - terminal.begun_s);
    } else {
        draw_locked(now_s);
        if (last)
            clear_locked();
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/** Draws the line again while nothing is reported, so that the time that has passed is seen. */
static void *tick(void *unused) {
    struct timespec at;

    (void)unused;
    pthread_mutex_lock(&lock);
    while (!terminal.done) {
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec += TICK_NS;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&end_of_ticks, &lock, &at) == ETIMEDOUT && terminal.drawn)
            draw_locked(ccl_now_s());
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void ccl_i_terminal_close(void) {
    pthread_mutex_lock(&lock);
    clear_locked();
    terminal.done = true;
    pthread_cond_broadcast(&end_of_ticks);
    pthread_mutex_unlock(&lock);
    if (terminal.ticks)
        pthread_join(terminal.ticker, NULL);
    terminal.ticks = false;
}

void ccl_i_terminal_open(ccl_i_cli_t *cli) {
    struct sigaction action;
    const ccl_i_args_t *args = &cli->args;

    terminal.quiet = args->quiet;
    terminal.verbose = args->verbose;
    terminal.json = args->progress && strcmp(args->progress, "json") == 0;
    terminal.draw = terminal.json || args->progress || (!args->quiet && isatty(STDERR_FILENO));
    cli->ctx = (ccl_ctx_t)CCL_CTX_INIT;
    cli->ctx.log = on_log;
    cli->ctx.progress = terminal.draw ? on_progress : NULL;
    cli->ctx.cancel = &stop_wanted;
    cli->ctx.seed = args->seed;
    cli->ctx.threads = args->threads;
    /* The first signal asks; the second, by SA_RESETHAND, ends the program at once. */
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    /* Not where it is no terminal: the line is drawn when something is reported. */
    terminal.ticks = terminal.draw && !terminal.json && isatty(STDERR_FILENO) &&
                     pthread_create(&terminal.ticker, NULL, tick, NULL) == 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
