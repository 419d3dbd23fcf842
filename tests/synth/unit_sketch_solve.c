/* Sub-demands of sketches: canonical numbers, proven shapes and the MILP, the cache, the trees. */
#include "common.h"
#include "synth/sketch/solve.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

typedef struct made {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_collective_t *want;
    ccl_symmetry_t *symmetry;
    ccl_i_space_t space;
} made_t;

static void make(made_t *m, const char *spec, ccl_collective_kind_t kind) {
    ccl_error_t err = CCL_ERROR_INIT;

    m->topo = topology(spec);
    m->routes = ccl_routes_create(m->topo);
    m->want = collective(kind, m->topo->nranks, 0);
    ck_assert_int_eq(ccl_symmetry_find(NULL, m->topo, m->routes, &m->symmetry, &err), CCL_OK);
    ck_assert_msg(ccl_i_space_init(&m->space, m->topo, m->routes, m->symmetry, m->want, &err) ==
                      CCL_OK,
                  "%s", err.text);
}

static void done(made_t *m) {
    ccl_i_space_fini(&m->space);
    ccl_symmetry_destroy(m->symmetry);
    ccl_collective_destroy(m->want);
    ccl_routes_destroy(m->routes);
    ccl_topology_destroy(m->topo);
}

/* The first dimension's group `g`, in epochs of one chunk on its links; latencies do not count. */
static void part_of(const made_t *m, uint32_t g, uint32_t chunks, uint32_t root, ccl_i_part_t *p) {
    const ccl_dimension_t *dim = &m->symmetry->dimensions[0];
    const ccl_i_part_want_t want = {.ranks = dim->ranks + dim->first[g],
                                    .n = dim->first[g + 1] - dim->first[g],
                                    .chunks = chunks,
                                    .root = root,
                                    .dimensions = 1,
                                    .chunk_bytes = 1e9,
                                    .epochs = 1};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_i_part_init(NULL, p, &m->space, &want, &err) == CCL_OK, "%s", err.text);
}

static const ccl_i_part_limits_t LIMITS = {
    .nodes = 1000, .tries = 4, .epochs = 24, .variables = 4000};

static ccl_i_trees_t *milp(ccl_i_part_t *p) {
    ccl_i_trees_t *trees = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    bool limited = true;

    ck_assert_msg(ccl_i_part_milp(NULL, p, &LIMITS, &trees, &limited, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert(!limited);
    return trees;
}

typedef struct row {
    const char *spec;
    uint32_t chunks, root, epochs;
    bool shape; /* a proven one is known */
} row_t;

static const row_t ROWS[] = {
    /* One switch: every GPU must take in (n - 1) chunks, one an epoch. */
    {"servers:1 gpus:4 nvswitch=100GB/s,0us", 1, CCL_NONE, 3, true},
    {"servers:1 gpus:4 nvswitch=100GB/s,0us", 2, CCL_NONE, 6, true},
    {"servers:1 gpus:8 nvswitch=100GB/s,0us", 1, CCL_NONE, 7, true},
    /* A link for each pair. */
    {"servers:1 gpus:5 nvlink=mesh,50GB/s,0us", 1, CCL_NONE, 1, true},
    {"servers:1 gpus:5 nvlink=mesh,50GB/s,0us", 3, CCL_NONE, 3, true},
    /* Broadcast over a switch: holders double; the last of c chunks leaves after c - 1 others. */
    {"servers:1 gpus:8 nvswitch=100GB/s,0us", 1, 0, 3, true},
    {"servers:1 gpus:5 nvswitch=100GB/s,0us", 1, 2, 3, true},
    {"servers:1 gpus:8 nvswitch=100GB/s,0us", 2, 0, 4, false},
    /* Rings: n - 1 chunks come in over two links; the farthest is n / 2 away. */
    {"servers:1 gpus:6 nvlink=ring,50GB/s,0us", 1, CCL_NONE, 3, false},
    {"servers:1 gpus:5 nvlink=ring,50GB/s,0us", 2, CCL_NONE, 4, false},
};

START_TEST(test_shapes) {
    const row_t *row = &ROWS[_i];
    made_t m;
    ccl_i_part_t part;
    ccl_i_trees_t *shape = NULL, *solved;
    ccl_error_t err = CCL_ERROR_INIT;

    make(&m, row->spec, CCL_ALLGATHER);
    part_of(&m, 0, row->chunks, row->root, &part);
    ck_assert_uint_eq(part.least, row->epochs);
    ck_assert_int_eq(ccl_i_part_shape(&part, &shape, &err), CCL_OK);
    ck_assert_int_eq(shape != NULL, row->shape);
    if (shape) {
        ck_assert_uint_eq(shape->epochs, row->epochs);
        ck_assert(ccl_i_part_check(&part, shape));
        shape->epochs--; /* one epoch fewer cannot hold it */
        ck_assert(!ccl_i_part_check(&part, shape));
    }
    /* The MILP needs as many. */
    solved = milp(&part);
    ck_assert_ptr_nonnull(solved);
    ck_assert_uint_eq(solved->epochs, row->epochs);
    ck_assert(solved->proven);
    ck_assert(ccl_i_part_check(&part, solved));
    ccl_i_trees_destroy(shape);
    ccl_i_trees_destroy(solved);
    ccl_i_part_fini(&part);
    done(&m);
}
END_TEST

START_TEST(test_bound_is_true) {
    /* The MILP refutes what the bound refutes: a part that claims to need less. */
    for (size_t i = 0; i < CCL_ARRAY_LEN(ROWS); i++) {
        const ccl_i_part_limits_t once = {
            .nodes = 1000, .tries = 1, .epochs = 24, .variables = 1200};
        made_t m;
        ccl_i_part_t part;
        ccl_i_trees_t *trees = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        bool limited;

        if (ROWS[i].epochs < 2 || ROWS[i].epochs > 4)
            continue;
        make(&m, ROWS[i].spec, CCL_ALLGATHER);
        part_of(&m, 0, ROWS[i].chunks, ROWS[i].root, &part);
        part.least--;
        ck_assert_int_eq(ccl_i_part_milp(NULL, &part, &once, &trees, &limited, &err), CCL_OK);
        ck_assert_ptr_null(trees);
        ccl_i_part_fini(&part);
        done(&m);
    }
}
END_TEST

START_TEST(test_isomorphic) {
    /* Servers that are alike have one content, whatever their ranks; another is another. */
    made_t m, other;
    ccl_i_part_t a, b, c;

    make(&m, "servers:3 gpus:6 nvlink=ring,50GB/s,0us nics:2x10GB/s,1us", CCL_ALLGATHER);
    make(&other, "servers:1 gpus:5 nvlink=ring,50GB/s,0us", CCL_ALLGATHER);
    part_of(&m, 0, 1, CCL_NONE, &a);
    part_of(&m, 2, 1, CCL_NONE, &b);
    part_of(&other, 0, 1, CCL_NONE, &c);
    ck_assert_str_eq(a.content.data, b.content.data);
    ck_assert_str_ne(a.content.data, c.content.data);
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_uint_lt(a.rank[i], 6);
        ck_assert_uint_ge(b.rank[i], 12);
    }
    /* An answer for one is one for the other. */
    ccl_i_trees_t *trees = milp(&a);
    ck_assert(ccl_i_part_check(&a, trees));
    ck_assert(ccl_i_part_check(&b, trees));
    ck_assert(!ccl_i_part_check(&c, trees));
    /* A broken one is none: a GPU that gets it from one that has nothing to give. */
    for (uint32_t i = 0; i < 6; i++) {
        if (trees->parent[i] != CCL_NONE && trees->parent[i] != 0) {
            trees->step[i] = 0;
            break;
        }
    }
    ck_assert(!ccl_i_part_check(&a, trees));
    ccl_i_trees_destroy(trees);
    ccl_i_part_fini(&a);
    ccl_i_part_fini(&b);
    ccl_i_part_fini(&c);
    done(&m);
    done(&other);
}
END_TEST

/* ---------------------------------------------------------------- cache */

static uint32_t warnings;

static void count_warnings(ccl_log_level_t level, const char *subsystem, const char *text,
                           void *user) {
    (void)subsystem;
    (void)text;
    (void)user;
    warnings += level == CCL_LOG_WARN;
}

/* The files of a directory: how many; `visit` is called with the path of each. */
static uint32_t files(const char *dir, void (*visit)(const char *path)) {
    DIR *d = opendir(dir);
    uint32_t n = 0;

    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[600];

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        n++;
        if (visit)
            visit(path);
    }
    if (d)
        closedir(d);
    return n;
}

static void remove_file(const char *path) {
    ck_assert_int_eq(unlink(path), 0);
}

/* A digit in the answer changes. */
static void damage(const char *path) {
    FILE *f = fopen(path, "r+");
    long len;

    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    len = ftell(f);
    fseek(f, len - 20, SEEK_SET);
    int c = fgetc(f);
    fseek(f, len - 20, SEEK_SET);
    fputc(c == '7' ? '3' : '7', f);
    fclose(f);
}

static void cut(const char *path) {
    ck_assert_int_eq(truncate(path, 25), 0);
}

/* In the first line, what solved it. */
static void solved_elsewhere(const char *path) {
    FILE *f = fopen(path, "r+");
    char line[100];

    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    ck_assert_ptr_nonnull(strstr(line, ccl_i_sketch_sources));
    fseek(f, (long)strlen(line) - 2, SEEK_SET);
    fputc(line[strlen(line) - 2] == '0' ? '1' : '0', f);
    fclose(f);
}

static void make_dir(char *dir, size_t len) {
    snprintf(dir, len, "/tmp/ccllab-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    strncat(dir, "/a/b", len - strlen(dir) - 1); /* made when it is needed */
}

static void remove_dir(char *dir) {
    files(dir, remove_file);
    for (int i = 0; i < 3; i++) {
        rmdir(dir);
        *strrchr(dir, '/') = 0;
    }
}

/* Damage is said, and counts as nothing; what is written then is good again. */
static void check_damage(const ccl_ctx_t *ctx, const char *dir, const ccl_i_part_t *a,
                         const ccl_i_trees_t *trees) {
    ccl_i_trees_t *back = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    bool none = true;
    for (int i = 0; i < 2; i++) {
        files(dir, i ? cut : damage);
        ck_assert_int_eq(ccl_i_cache_get(ctx, dir, a, &back, &none, &err), CCL_OK);
        ck_assert(!back && !none);
        ck_assert_uint_eq(warnings, 1 + (uint32_t)i);
        ccl_i_cache_put(ctx, dir, a, trees);
        ck_assert_int_eq(ccl_i_cache_get(ctx, dir, a, &back, &none, &err), CCL_OK);
        ck_assert_ptr_nonnull(back);
        ccl_i_trees_destroy(back);
        back = NULL;
    }
}

START_TEST(test_cache) {
    char dir[100];
    made_t m;
    ccl_i_part_t a, b;
    ccl_i_trees_t *trees, *back = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    bool none = true;

    ctx.log = count_warnings;
    warnings = 0;
    make_dir(dir, sizeof dir);
    make(&m, "servers:1 gpus:6 nvlink=ring,50GB/s,0us", CCL_ALLGATHER);
    part_of(&m, 0, 1, CCL_NONE, &a);
    part_of(&m, 0, 2, CCL_NONE, &b);
    trees = milp(&a);
    ck_assert_int_eq(ccl_i_cache_get(&ctx, dir, &a, &back, &none, &err), CCL_OK);
    ck_assert(!back && !none);
    ccl_i_cache_put(&ctx, dir, &a, trees);
    ck_assert_uint_eq(files(dir, NULL), 1);
    ck_assert_int_eq(ccl_i_cache_get(&ctx, dir, &a, &back, &none, &err), CCL_OK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->epochs, trees->epochs);
    ck_assert_int_eq(back->proven, trees->proven);
    for (uint32_t i = 0; i < 36; i++) {
        ck_assert_uint_eq(back->parent[i], trees->parent[i]);
        ck_assert_uint_eq(back->step[i], trees->step[i]);
    }
    ccl_i_trees_destroy(back);
    /* Another question has no answer yet; nor has "nothing was found" been found. */
    ck_assert_int_eq(ccl_i_cache_get(&ctx, dir, &b, &back, &none, &err), CCL_OK);
    ck_assert(!back && !none);
    ccl_i_cache_put(&ctx, dir, &b, NULL);
    ck_assert_int_eq(ccl_i_cache_get(&ctx, dir, &b, &back, &none, &err), CCL_OK);
    ck_assert(!back && none);
    ck_assert_uint_eq(warnings, 0);
    /* What another solver found is not this one's answer, nor damage. */
    files(dir, solved_elsewhere);
    ck_assert_int_eq(ccl_i_cache_get(&ctx, dir, &a, &back, &none, &err), CCL_OK);
    ck_assert(!back && !none && warnings == 0);
    ccl_i_cache_put(&ctx, dir, &a, trees);
    ck_assert_int_eq(ccl_i_cache_get(&ctx, dir, &a, &back, &none, &err), CCL_OK);
    ck_assert_ptr_nonnull(back);
    ccl_i_trees_destroy(back);
    back = NULL;
    check_damage(&ctx, dir, &a, trees);
    /* A place where nothing can be written does no harm. */
    warnings = 0;
    ccl_i_cache_put(&ctx, "/dev/null/x", &a, trees);
    ck_assert_uint_eq(warnings, 1);
    ccl_i_trees_destroy(trees);
    ccl_i_part_fini(&a);
    ccl_i_part_fini(&b);
    done(&m);
    remove_dir(dir);
}
END_TEST

START_TEST(test_cache_dir) {
    char *dir;

    ck_assert_ptr_null(ccl_i_cache_dir(NULL));
    ck_assert_ptr_null(ccl_i_cache_dir("none"));
    dir = ccl_i_cache_dir("here");
    ck_assert_str_eq(dir, "here");
    free(dir);
    setenv("XDG_CACHE_HOME", "/x", 1);
    dir = ccl_i_cache_dir("auto");
    ck_assert_str_eq(dir, "/x/ccllab/sub-demands");
    free(dir);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/h", 1);
    dir = ccl_i_cache_dir("auto");
    ck_assert_str_eq(dir, "/h/.cache/ccllab/sub-demands");
    free(dir);
}
END_TEST

/* ---------------------------------------------------------------- all of it */

static ccl_schedule_t *synthesize(const ccl_topology_t *topo, ccl_synth_options_t *options,
                                  uint32_t threads) {
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;

    ctx.threads = threads;
    ck_assert_msg(ccl_synthesize(&ctx, "sketch", topo, NULL, want, options, &schedule, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    return schedule;
}

START_TEST(test_same_with_cache) {
    /* No cache, a cold one, a warm one, a damaged one; one thread and three: one schedule. */
    ccl_topology_t *topo = topology("servers:2 gpus:6 nvlink=ring,50GB/s,1us nics:2x20GB/s,3us");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *first, *other;
    ccl_synth_stats_t stats;
    char dir[100];

    make_dir(dir, sizeof dir);
    options.size_bytes = 4e6;
    options.stats = &stats;
    memset(&stats, 0, sizeof stats);
    first = synthesize(topo, &options, 1);
    ck_assert_uint_gt(stats.sketch.milps, 0);
    /* Two servers that are alike are asked once: no more questions than for one. */
    ck_assert_uint_le(stats.sketch.sub_demands, 6);
    uint32_t asked = stats.sketch.milps;
    options.sketch.cache = dir;
    for (uint32_t i = 0; i < 3; i++) {
        memset(&stats, 0, sizeof stats);
        if (i == 2)
            files(dir, damage);
        other = synthesize(topo, &options, 1 + 2 * (i & 1));
        ck_assert(ccl_schedule_equal(first, other));
        ck_assert_uint_eq(stats.sketch.milps, i == 1 ? 0 : asked);
        ck_assert_uint_eq(stats.sketch.cached, i == 1 ? asked : 0);
        ck_assert_uint_eq(files(dir, NULL), asked);
        ccl_schedule_destroy(other);
    }
    ccl_schedule_destroy(first);
    ccl_topology_destroy(topo);
    remove_dir(dir);
}
END_TEST

static double time_of(const ccl_topology_t *topo, const ccl_schedule_t *schedule, double size) {
    return timed_s(topo, schedule, size, ccl_way_hpds);
}

typedef struct quality {
    const char *topology;
    double size, most_s; /* a few percent above what it is */
} quality_t;

/* AllGather; bounds 1.45, 0.714, 5.59, 5.59, 0.0114, 0.0114 ms. The last want few steps, hm's. */
static const quality_t QUALITY[] = {
    {"dgx1-v100", 268435456.0, 1.65e-3},       {"mi300x-x8", 268435456.0, 0.82e-3},
    {"heteccl-v100-4x3", 268435456.0, 6.0e-3}, {"heteccl-v100-4+8", 268435456.0, 6.5e-3},
    {"teccl-dgx2-2x16", 65536.0, 0.0327e-3},   {"teccl-dgx2-2x16", 4096.0, 0.0319e-3},
};

START_TEST(test_quality) {
    const quality_t *q = &QUALITY[_i];
    ccl_topology_t *topo = topology(q->topology);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule;
    double time_s;

    options.size_bytes = q->size;
    schedule = synthesize(topo, &options, 0);
    time_s = time_of(topo, schedule, q->size);
    ck_assert_msg(time_s <= q->most_s, "%s: %g ms", q->topology, time_s * 1e3);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_without_shapes) {
    /* Groups with all hops are asked as well; the schedule is no slower for it. */
    ccl_topology_t *topo = topology("servers:2 gpus:4 nvswitch=100GB/s,1us nics:4x20GB/s,3us");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_synth_stats_t stats = {0};
    ccl_schedule_t *with, *without;

    options.size_bytes = 16e6;
    options.stats = &stats;
    with = synthesize(topo, &options, 0);
    uint32_t asked = stats.sketch.milps;
    memset(&stats, 0, sizeof stats);
    options.sketch.no_shapes = true;
    without = synthesize(topo, &options, 0);
    ck_assert_uint_gt(stats.sketch.milps, asked);
    ck_assert_uint_eq(stats.sketch.shapes, 0);
    ck_assert_double_le(time_of(topo, without, 16e6), 1.05 * time_of(topo, with, 16e6));
    ccl_schedule_destroy(with);
    ccl_schedule_destroy(without);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.sketch_solve");
    TCase *tcase = tcase_create("sketch_solve");

    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_shapes, 0, (int)CCL_ARRAY_LEN(ROWS));
    tcase_add_test(tcase, test_bound_is_true);
    tcase_add_test(tcase, test_isomorphic);
    tcase_add_test(tcase, test_cache);
    tcase_add_test(tcase, test_cache_dir);
    tcase_add_test(tcase, test_same_with_cache);
    if (!SANITIZED) /* times alone */
        tcase_add_loop_test(tcase, test_quality, 0, (int)CCL_ARRAY_LEN(QUALITY));
    if (!SANITIZED)
        tcase_add_test(tcase, test_without_shapes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
