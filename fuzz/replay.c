/**
 * @file replay.c Replays a corpus through a fuzz target without libFuzzer.
 *
 * Usage: fuzz_<reader> MUTANTS PATH...   (a path is a file or a folder of files)
 * Each seed runs as it is, then MUTANTS times with bytes changed, cut out or doubled, always the
 * same ones. Crashes and sanitizer reports end the run; so does an input that takes longer than 20
 * s.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOWEST_S = 20 };

static unsigned ran;

/* An exact copy, so that reading one byte beyond the end is seen by the sanitizer. */
static void run(const uint8_t *data, size_t len) {
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        exit(2);
    memcpy(copy, data, len);
    alarm(SLOWEST_S);
    LLVMFuzzerTestOneInput(copy, len);
    alarm(0);
    free(copy);
    ran++;
}

static size_t mutate(ccl_rng_t *rng, uint8_t *data, size_t len, size_t cap) {
    static const char *const tokens[] = {"\"", "<",  ">",  "{",        "}",          "[",
                                         "]",  "-1", "0",  "99999999", "4294967295", "1e308",
                                         ",",  ":",  "\n", "\xff",     "/",          "&"};
    for (uint32_t n = 1 + ccl_rng_below(rng, 4); n && len; n--) {
        uint32_t at = ccl_rng_below(rng, (uint32_t)len), most = (uint32_t)len - at;
        uint32_t span = 1 + ccl_rng_below(rng, most < 40 ? most : 40);
        const char *token = tokens[ccl_rng_below(rng, CCL_ARRAY_LEN(tokens))];
        size_t token_len = strlen(token);
        switch (ccl_rng_below(rng, 5)) {
        case 0: /* change a byte */
            data[at] = (uint8_t)ccl_rng_below(rng, 256);
            break;
        case 1: /* cut out */
            memmove(data + at, data + at + span, len - at - span);
            len -= span;
            break;
        case 2: /* double */
            if (len + span <= cap) {
                memmove(data + at + span, data + at, len - at);
                len += span;
            }
            break;
        case 3: /* insert a token */
            if (len + token_len <= cap) {
                memmove(data + at + token_len, data + at, len - at);
                memcpy(data + at, token, token_len);
                len += token_len;
            }
            break;
        default: /* cut off */
            if (ccl_rng_below(rng, 4) == 0)
                len = at;
        }
    }
    return len;
}

static int replay_file(const char *path, uint32_t mutants) {
    char *text;
    size_t len;
    ccl_error_t err = CCL_ERROR_INIT;
    if (ccl_file_read(path, 1 << 24, &text, &len, &err) != CCL_OK) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        return 1;
    }
    run((const uint8_t *)text, len);
    size_t cap = len + 400;
    uint8_t *data = malloc(cap);
    if (!data)
        return 1;
    ccl_rng_t rng;
    ccl_rng_init(&rng, ccl_hash64(text, len, 0));
    for (uint32_t i = 0; i < mutants; i++) {
        memcpy(data, text, len);
        run(data, mutate(&rng, data, len, cap));
    }
    free(data);
    free(text);
    return 0;
}

static int replay(const char *path, uint32_t mutants) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return replay_file(path, mutants);
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort), failed = n < 0;
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            failed |= replay_file(name, mutants);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return failed;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s MUTANTS PATH...\n", argv[0]);
        return 2;
    }
    uint32_t mutants = (uint32_t)strtoul(argv[1], NULL, 10);
    int failed = 0;
    for (int i = 2; i < argc; i++)
        failed |= replay(argv[i], mutants);
    printf("%u inputs\n", ran);
    return failed || !ran;
}
