// timeout: 900
/*
 * Stand-alone sources (runtime/standalone): the very text of their thread blocks, compiled as C by
 * the host's compiler and run on its threads (standalonehost.h). Random programs, many in one
 * compilation, give right data for several calls of any count, type and reduction, in place and out
 * of place; a fault put into the text is found; what cannot be written is refused in one line.
 */
#include "random_programs.h"
#include "runtime/generate.h"
#include "runtime/standalone/standalone.h"
#include "tests/base/nightly.h"

#include <dlfcn.h>
#include <sys/stat.h>

enum {
    PROGRAMS = SANITIZED ? 3 : 8,
    NIGHTLY_PROGRAMS = 1000,
    TOGETHER = 25,
    CALLS = 3,
    MOST_BLOCKS = 48
};
enum { MANY_LANES = 32 }; /* most blocks that run with two threads each */

/* As in standalonehost.h. */
typedef struct host_call {
    uint64_t count;
    uint32_t type, op, in_place, odd, lanes, counted;
} host_call_t;
typedef int (*host_fn)(uint32_t index, const host_call_t *calls, uint32_t ncalls, char *why,
                       size_t len);

static const char begin[] = "static unsigned host_protocol, host_slots, host_slice_bytes;\n"
                            "#define CCL_GPU_PARTS\n"
                            "#define CCL_SA_PROTOCOL host_protocol\n"
                            "#define CCL_SA_SLOTS host_slots\n"
                            "#define CCL_SA_SLICE_BYTES host_slice_bytes\n";
static const char barriers[] = "\nstatic void ccl_gpu_barrier(const struct ccl_gpu_block *b) {\n"
                               "    fake_wait(b->barrier);\n}\n"
                               "static bool ccl_gpu_barrier_or(const struct ccl_gpu_block *b, bool "
                               "what) {\n"
                               "    return fake_vote(b->barrier, what);\n}\n";

/** Sources that are compiled together. */
typedef struct batch {
    ccl_text_t text, entries;
    uint32_t n;
} batch_t;

static void batch_begin(batch_t *b) {
    *b = (batch_t){0};
    ccl_text_printf(&b->text, "%s%s%s%s%s", begin, ccl_i_kernel_prelude, ccl_i_standalone_block,
                    ccl_i_standalone_shape, ccl_i_standalone_check);
}

static ccl_status_t batch_add(batch_t *b, const ccl_program_t *program,
                              const ccl_standalone_options_t *o, ccl_error_t *err) {
    ccl_i_standalone_t s;
    char prefix[16];
    CCL_TRY(ccl_i_standalone_init(program, o, &s, err));
    snprintf(prefix, sizeof prefix, "p%u", b->n++);
    ccl_i_standalone_units(&s, prefix, &b->text);
    ccl_text_printf(&b->entries, "    {&%s_program, %s_block, %u, %u, %u},\n", prefix, prefix,
                    s.plan.dev.protocol, s.plan.slots, s.slice_bytes);
    ccl_i_standalone_fini(&s);
    return CCL_OK;
}

/** "from=>to" in the text; false: there is no such text. */
static bool mutate(ccl_text_t *text, const char *how) {
    const char *arrow = strstr(how, "=>");
    char *from = strndup(how, (size_t)(arrow - how)), *at = strstr(text->data, from);
    bool found = at && strlen(from) == strlen(arrow + 2); /* the text keeps its length */
    if (found)
        memcpy(at, arrow + 2, strlen(arrow + 2));
    free(from);
    return found;
}

/** @param hurry  blocks that stand still are given up soon. */
static host_fn batch_compile(batch_t *b, bool hurry, void **library) {
    char folder[] = "/tmp/ccl-standalone-XXXXXX", path[3][64], command[2048];
    static const char *const names[] = {"kernel.c", "kernel.so", "log"};
    host_fn fn = NULL;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    ccl_text_printf(&b->text,
                    "%s\nenum { host_hurry = %d };\nstruct host_entry;\n"
                    "static const struct host_entry *host_table(void);\n"
                    "#define host_entries host_table()\n#include \"%s\"\n"
                    "static const host_entry_t all[] = {\n%s};\n"
                    "static const host_entry_t *host_table(void) {\n    return all;\n}\n",
                    barriers, hurry, HOST_RUNNER, b->entries.data);
    ck_assert(!b->text.nomem);
    ck_assert_int_eq(ccl_file_write(path[0], b->text.data, b->text.len, NULL), CCL_OK);
    snprintf(command, sizeof command,
             "%s -x c -std=gnu11 -O0 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden "
             "-include %s -o %s %s -x none %s -pthread >%s 2>&1",
             CCL_HOST_CC, HOST_MACHINE, path[1], path[0], HOST_LIBRARY, path[2]);
    int code = system(command);
    if (code == 0) {
        *library = dlopen(path[1], RTLD_NOW | RTLD_LOCAL);
        void *symbol = *library ? dlsym(*library, "host_run") : NULL;
        memcpy(&fn, &symbol, sizeof fn);
    } else {
        snprintf(command, sizeof command, "head -20 %s", path[2]);
        (void)!system(command);
    }
    for (int i = 0; i < 3 && !getenv("CCL_TEST_KEEP"); i++)
        unlink(path[i]);
    rmdir(folder);
    ccl_text_fini(&b->text);
    ccl_text_fini(&b->entries);
    return fn;
}

/* ---------------------------------------------------------------- random programs */

typedef struct drawn {
    char what[500];
    host_call_t calls[CALLS];
} drawn_t;

static void draw_calls(ccl_rng_t *rng, uint32_t blocks, drawn_t *out) {
    for (uint32_t k = 0; k < CALLS; k++)
        out->calls[k] = (host_call_t){
            .count = 1 + ccl_rng_below(rng, ccl_rng_below(rng, 3) ? 900 : 6000),
            .type = ccl_rng_below(rng, CCL_TYPES),
            .op = ccl_rng_below(rng, CCL_REDUCTIONS),
            .in_place = ccl_rng_below(rng, 2),
            .odd = ccl_rng_below(rng, 3) == 0,
            .lanes = blocks <= MANY_LANES ? 1 + ccl_rng_below(rng, 2) : 1,
            .counted = ccl_rng_below(rng, 4) == 0,
        };
}

/** One more program into the batch; false: this draw did not come to one. */
static bool draw(ccl_rng_t *rng, const random_world_t *world, batch_t *b, drawn_t *out) {
    random_case_t c = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_standalone_options_t o = CCL_STANDALONE_OPTIONS_INIT;
    if (!random_case(rng, world, &c))
        return false;
    o.what = ccl_rng_below(rng, 2) ? CCL_STANDALONE_CUDA : CCL_STANDALONE_NCCL;
    o.granularity = c.options.granularity;
    o.protocol = c.options.protocol;
    o.out_of_place = c.options.out_of_place;
    o.slots = c.options.slots;
    o.slice_bytes = (uint32_t)c.options.slice_bytes;
    bool fits = c.program->coll->kind != CCL_CUSTOM && c.program->ntbs <= MOST_BLOCKS;
    ccl_status_t status = fits ? batch_add(b, c.program, &o, &err) : CCL_UNSUPPORTED;
    ck_assert_msg(!fits || status == CCL_OK || status == CCL_DEADLOCK ||
                      strstr(err.text, "switch connections"),
                  "%s: %s", c.what, err.text);
    if (status == CCL_OK) {
        snprintf(out->what, sizeof out->what, "%s, slots %u, slices of %u", c.what, o.slots,
                 o.slice_bytes);
        draw_calls(rng, c.program->ntbs, out);
    }
    ccl_program_destroy(c.program);
    return status == CCL_OK;
}

static void run_batch(batch_t *b, const drawn_t *drawn) {
    void *library = NULL;
    uint32_t n = b->n;
    host_fn run = batch_compile(b, false, &library);
    ck_assert_msg(run != NULL, "the text does not compile");
    for (uint32_t i = 0; i < n; i++) {
        const host_call_t *c = drawn[i].calls;
        char why[200] = "";
        ck_assert_msg(run(i, c, CALLS, why, sizeof why) == 0,
                      "%s: %s; counts %llu %llu %llu, types %u %u %u, in place %u %u %u",
                      drawn[i].what, why, (unsigned long long)c[0].count,
                      (unsigned long long)c[1].count, (unsigned long long)c[2].count, c[0].type,
                      c[1].type, c[2].type, c[0].in_place, c[1].in_place, c[2].in_place);
    }
    dlclose(library);
}

START_TEST(test_random) {
    uint32_t programs = nightly() ? NIGHTLY_PROGRAMS : PROGRAMS, done = 0;
    const char *seed = getenv("CCL_TEST_SEED"), *some = getenv("CCL_TEST_PROGRAMS");
    ccl_rng_t rng;
    random_world_t world;
    ccl_rng_init(&rng, seed ? strtoull(seed, NULL, 10) : 2718);
    programs = some ? (uint32_t)strtoul(some, NULL, 10) : programs;
    random_world_init(&world);
    while (done < programs) {
        drawn_t drawn[TOGETHER];
        batch_t b;
        batch_begin(&b);
        while (b.n < TOGETHER && done < programs)
            done += draw(&rng, &world, &b, &drawn[b.n]);
        run_batch(&b, drawn);
    }
    random_world_fini(&world);
}
END_TEST

/* ---------------------------------------------------------------- plain programs and faults */

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
} plain[] = {{"ring", CCL_ALLREDUCE},     {"ring", CCL_ALLGATHER},    {"ring", CCL_REDUCESCATTER},
             {"tree", CCL_ALLREDUCE},     {"tree", CCL_BROADCAST},    {"recursive", CCL_ALLREDUCE},
             {"direct", CCL_ALLTOALL},    {"direct", CCL_REDUCE},     {"direct", CCL_GATHER},
             {"direct", CCL_SCATTER},     {"pairwise", CCL_ALLTOALL}, {"direct", CCL_SENDRECV},
             {"recursive", CCL_ALLGATHER}};
static const uint64_t counts[] = {1, 3, 1000, 1001, 4099, 30001};

/* Each with each protocol, and each count: from one item, odd ones too, to several micro-batches.
 */
START_TEST(test_plain) {
    batch_t b;
    void *library = NULL;
    batch_begin(&b);
    /* 4: each with one protocol. What is compiled is not sanitized, only what writes it. */
    uint32_t step = nightly() ? 1 : SANITIZED ? 8 : 4;
    for (uint32_t i = 0; i < 3 * CCL_ARRAY_LEN(plain); i += step) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_standalone_options_t o = CCL_STANDALONE_OPTIONS_INIT;
        ccl_lower_options_t how = CCL_LOWER_OPTIONS_INIT;
        how.granularity = o.granularity = i % 2 ? CCL_GRANULARITY_TASK : CCL_GRANULARITY_ALGORITHM;
        ccl_program_t *p = program_of(plain[i / 3].with, plain[i / 3].kind, random_specs[2], &how);
        o.protocol = (ccl_run_protocol_t)(CCL_RUN_SIMPLE + i % 3);
        o.slots = 2 + i % 7;
        o.slice_bytes = 4096;
        ck_assert_msg(batch_add(&b, p, &o, &err) == CCL_OK, "%s: %s", plain[i / 3].with, err.text);
        ccl_program_destroy(p);
    }
    host_fn run = batch_compile(&b, false, &library);
    ck_assert_ptr_nonnull(run);
    for (uint32_t i = 0; i < 3 * CCL_ARRAY_LEN(plain); i += step) {
        host_call_t calls[CCL_ARRAY_LEN(counts)] = {0};
        char why[200] = "";
        for (uint32_t k = 0; k < CCL_ARRAY_LEN(counts); k++)
            calls[k] = (host_call_t){
                counts[k], (i + k) % CCL_TYPES, (i + k / 2) % CCL_REDUCTIONS, (i / 3 + k) % 2, 0, 2,
                0};
        ck_assert_msg(run(i / step, calls, CCL_ARRAY_LEN(counts), why, sizeof why) == 0,
                      "%s, protocol %u: %s", plain[i / 3].with, i % 3, why);
    }
    dlclose(library);
}
END_TEST

static const struct {
    const char *how; /* "from=>to", of one length */
    ccl_run_protocol_t protocol;
} faults[] = {
    {"{CCL_SA_OUTPUT, 1, =>{CCL_SA_OUTPUT, 0, ", CCL_RUN_SIMPLE},
    {"{3, CCL_DEVICE_RRCS,=>{3, CCL_DEVICE_RCS ,", CCL_RUN_SIMPLE},
    {"left < *there ? left=>left > *there ? left", CCL_RUN_LL128},
    {"e->at % CCL_SA_SLOTS=>e->at % (1+0+0+0+00)", CCL_RUN_SIMPLE},
    {"j * run->batch_items + off=>j * run->batch_items + 000", CCL_RUN_LL},
};

/* Faults that somebody could make in the writer or in what the text is made of. */
START_TEST(test_faults) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, random_specs[2], NULL);
    for (int broken = _i > 0; broken < 2; broken++) {
        batch_t b;
        void *library = NULL;
        ccl_standalone_options_t o = CCL_STANDALONE_OPTIONS_INIT;
        host_call_t calls[] = {{1099, CCL_TYPE_FP32, CCL_OP_SUM, 1, 0, 1, 0},
                               {10001, CCL_TYPE_INT32, CCL_OP_SUM, 0, 0, 1, 0}};
        batch_begin(&b);
        o.slice_bytes = 1024;
        o.slots = 4;
        o.protocol = faults[_i].protocol;
        ck_assert_int_eq(batch_add(&b, p, &o, NULL), CCL_OK);
        if (broken)
            ck_assert_msg(mutate(&b.text, faults[_i].how), "%s", faults[_i].how);
        host_fn run = batch_compile(&b, true, &library);
        ck_assert_msg(run != NULL, "%s", faults[_i].how);
        pid_t pid = fork(); /* it may write anywhere */
        if (pid == 0) {
            char why[200];
            (void)!freopen("/dev/null", "w", stderr);
            alarm(20);
            _exit(run(0, calls, 2, why, sizeof why) != 0);
        }
        ck_assert_msg((status_of(pid) != 0) == broken, "%s", faults[_i].how);
    }
    ccl_program_destroy(p);
}
END_TEST

static void refused(const ccl_program_t *p, const ccl_standalone_options_t *o, ccl_status_t status,
                    const char *text) {
    ccl_text_t out = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_standalone_write(p, o, &out, &err), status);
    ck_assert_msg(strstr(err.text, text), "%s", err.text);
    ck_assert_uint_eq(out.len, 0);
    ccl_text_fini(&out);
}

START_TEST(test_refused) {
    ccl_standalone_options_t o = CCL_STANDALONE_OPTIONS_INIT;
    ccl_program_t *p = program_of("ring", CCL_ALLGATHER, random_specs[0], NULL), *s = stuck();
    o.max_blocks = 1;
    refused(p, &o, CCL_UNSUPPORTED, "thread blocks, but a GPU holds 1");
    o.max_blocks = 0;
    o.slice_bytes = 100;
    refused(p, &o, CCL_ERR_USAGE, "whole 16");
    o.slice_bytes = 0;
    refused(s, &o, CCL_DEADLOCK, "could not finish");
    ccl_program_destroy(s);
    ccl_program_destroy(p);
    p = program_of("nvls", CCL_ALLREDUCE, "dgx-h100", NULL);
    refused(p, &o, CCL_UNSUPPORTED, "switch connections");
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.standalone");
    TCase *tcase = tcase_create("standalone");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_refused);
    tcase_add_test(tcase, test_plain);
    tcase_add_loop_test(tcase, test_faults, 0, (int)CCL_ARRAY_LEN(faults));
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("random");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_random);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
