#define _GNU_SOURCE
#include "base/base.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/base/main.h"

static char folder[] = "/tmp/ccllab-file-XXXXXX";
static char path_buf[8][128];

static const char *in_folder(int slot, const char *name) {
    snprintf(path_buf[slot], sizeof path_buf[slot], "%s/%s", folder, name);
    return path_buf[slot];
}

static void check_text(const char *path, const char *want) {
    char *data = NULL;
    size_t len = 0;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_file_read(path, 1 << 20, &data, &len, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_str_eq(data, want);
    free(data);
}

static int entries(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static const struct {
    const char *path, *title, *why;
} titles[] = {
    {"dir/ring.json", "ring", "folder and ending go"},
    {"a.b.json", "a.b", "only the last ending"},
    {"./dir.d/plain", "plain", "a dot of the folder is no ending"},
    {".hidden", ".hidden", "a name that is all ending"},
    {"dir/", "dir/", "nothing after the slash"},
    {"-", "stdin", "standard input"},
    {"<stdin>", "stdin", "as readers call it"},
    {"", "", "nothing"},
    {"abcdefghijklmnop.xml", "abcdefghijk", "cut to the room there is"},
};

START_TEST(title) {
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        char out[12];
        ccl_file_title(titles[i].path, out, sizeof out);
        ck_assert_msg(strcmp(out, titles[i].title) == 0, "%s: %s", titles[i].why, out);
    }
}
END_TEST

START_TEST(write_then_read) {
    const char *path = in_folder(0, "a.txt");
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_file_write(path, "one", 3, &err) == CCL_OK, "%s", err.text);
    check_text(path, "one");
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(ccl_file_write(path, "second", 6, &err), CCL_OK);
    check_text(path, "second");
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_msg((info.st_mode & 0777) == 0640, "an existing file keeps its mode");
    ck_assert_int_eq(ccl_file_write(path, "", 0, &err), CCL_OK);
    check_text(path, "");
    ck_assert_msg(entries() == 1, "temporary files are left behind");
    unlink(path);
}
END_TEST

START_TEST(links_and_devices_stay) {
    const char *real = in_folder(0, "real"), *link = in_folder(1, "link");
    ck_assert_int_eq(ccl_file_write(real, "x", 1, NULL), CCL_OK);
    ck_assert_int_eq(symlink(real, link), 0);
    ck_assert_int_eq(ccl_file_write(link, "y", 1, NULL), CCL_OK);
    struct stat info;
    ck_assert_int_eq(lstat(link, &info), 0);
    ck_assert_msg(S_ISLNK(info.st_mode), "a symbolic link became a file");
    check_text(real, "y");
    ck_assert_int_eq(ccl_file_write("/dev/null", "z", 1, NULL), CCL_OK);
    ck_assert_int_eq(stat("/dev/null", &info), 0);
    ck_assert_msg(S_ISCHR(info.st_mode), "/dev/null became a file");
    unlink(real);
    unlink(link);
}
END_TEST

START_TEST(failures) {
    static const struct {
        const char *path, *part, *why;
        bool write;
        ccl_status_t status;
    } rows[] = {
        {"/nowhere/at/all", "No such file", "no folder", false, CCL_ERR_IO},
        {"/tmp", "Is a directory", "a folder is no file", false, CCL_ERR_IO},
        {"/dev/zero", "larger than 1048576", "endless input is cut off", false, CCL_ERR_INPUT},
        {"/nowhere/at/all", "No such file", "no folder", true, CCL_ERR_IO},
        {"/tmp", "Is a directory", "a folder is no file", true, CCL_ERR_IO},
        {"/dev/full", "No space left", "a full disk is told", true, CCL_ERR_IO},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        char *data = NULL;
        size_t len = 0;
        ccl_status_t status = rows[i].write
                                  ? ccl_file_write(rows[i].path, "x", 1, &err)
                                  : ccl_file_read(rows[i].path, 1 << 20, &data, &len, &err);
        ck_assert_msg(status == rows[i].status, "%s: %s", rows[i].why, ccl_status_name(status));
        ck_assert_msg(strstr(err.text, rows[i].part), "%s: %s", rows[i].why, err.text);
        ck_assert_str_eq(err.where, rows[i].path);
        ck_assert_ptr_null(data);
    }
}
END_TEST

START_TEST(bounded_read) {
    const char *path = in_folder(0, "big");
    ck_assert_int_eq(ccl_file_write(path, "0123456789", 10, NULL), CCL_OK);
    char *data = NULL;
    size_t len;
    ck_assert_int_eq(ccl_file_read(path, 9, &data, &len, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_file_read(path, 10, &data, &len, NULL), CCL_OK);
    ck_assert_msg(len == 10 && data[10] == 0, "terminated beyond its length");
    free(data);
    unlink(path);
}
END_TEST

START_TEST(standard_streams) {
    /* stdin and stdout by "-", through a pipe */
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    fflush(stdout);
    int saved_in = dup(0), saved_out = dup(1);
    dup2(pipes[0], 0);
    dup2(pipes[1], 1);
    ccl_status_t wrote = ccl_file_write("-", "through", 7, NULL);
    dup2(saved_out, 1);
    close(pipes[1]);
    char *data = NULL;
    size_t len = 0;
    ccl_status_t got = ccl_file_read("-", 100, &data, &len, NULL);
    dup2(saved_in, 0);
    close(saved_in);
    close(saved_out);
    close(pipes[0]);
    ck_assert_int_eq(wrote, CCL_OK);
    ck_assert_int_eq(got, CCL_OK);
    ck_assert_str_eq(data, "through");
    free(data);
}
END_TEST

START_TEST(folder_made) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
}
END_TEST

START_TEST(folder_removed) {
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

RUN_TESTS(folder_made, title, write_then_read, links_and_devices_stay, failures, bounded_read,
          standard_streams, folder_removed)
