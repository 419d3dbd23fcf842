/*
 * `rocm-smi --showtopo` and `amd-smi topology`: tables of weights, hops and link types of all pairs
 * of GPUs.
 *
 * Link types say which pairs xGMI joins, but also name pairs that it reaches only over a third GPU;
 * a weight is 15 for each xGMI link on the way (amdkfd), so those with the least weight are the
 * direct ones.
 */
#include "topologies/readers/machine/machine.h"

#include <stdlib.h>
#include <string.h>

typedef enum table { TABLE_NONE, TABLE_WEIGHT, TABLE_HOPS, TABLE_TYPE } table_t;

static table_t title(const char *line) {
    static const struct {
        const char *text;
        table_t table;
    } titles[] = {{"Weight between two GPUs", TABLE_WEIGHT},
                  {"Hops between two GPUs", TABLE_HOPS},
                  {"Link Type between two GPUs", TABLE_TYPE},
                  {"WEIGHT TABLE", TABLE_WEIGHT},
                  {"HOPS TABLE", TABLE_HOPS},
                  {"LINK TYPE TABLE", TABLE_TYPE}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(titles); i++)
        if (strstr(line, titles[i].text))
            return titles[i].table;
    return TABLE_NONE;
}

uint32_t ccl_i_rocm_head(const ccl_i_smi_t *smi) {
    for (uint32_t i = 0; i < smi->nlines; i++)
        if (title(smi->lines[i]) == TABLE_TYPE)
            return i;
    return CCL_NONE;
}

/* Whether the word names a GPU: "GPU0", or its PCI address as in amd-smi. */
static bool names_gpu(const char *word, size_t len) {
    return ccl_i_smi_index(word, len, "GPU") != CCL_NONE ||
           (len == 12 && word[4] == ':' && word[7] == ':' && word[10] == '.');
}

/* The line with the names of the columns below a title; their number. */
static uint32_t head_of(const ccl_i_smi_t *smi, uint32_t after, uint32_t *n_out) {
    for (uint32_t i = after + 1; i < smi->nlines && i < after + 4; i++) {
        const char *at = smi->lines[i], *word;
        uint32_t n = 0;
        for (size_t len; (len = ccl_i_smi_word(&at, &word)) > 0 && names_gpu(word, len);)
            n++;
        if (n) {
            *n_out = n;
            return i;
        }
    }
    return CCL_NONE;
}

static ccl_status_t fail(const ccl_i_smi_t *smi, uint32_t line, const char *at, ccl_error_t *err,
                         const char *text) {
    return ccl_error_set(err, CCL_ERR_INPUT, smi->file, (int)line + 1,
                         at ? (int)(at - smi->lines[line]) + 1 : 0, "%s", text);
}

/* Direct links are marked by 1 in the machine's lanes, the rest of the types by how near a pair is.
 */
static ccl_status_t read_type(const ccl_i_smi_t *smi, uint32_t line, const char *word, size_t len,
                              uint8_t *lanes, ccl_error_t *err) {
    if (len == 4 && strncmp(word, "XGMI", 4) == 0) {
        *lanes = 1;
        return CCL_OK;
    }
    if ((len == 4 && strncmp(word, "PCIE", 4) == 0) || (len == 3 && strncmp(word, "N/A", 3) == 0))
        return CCL_OK;
    return fail(smi, line, word, err, "a link type that is neither XGMI nor PCIE");
}

/* A table of n x n whole numbers, or of link types into the machine. */
static ccl_status_t read_table(const ccl_i_smi_t *smi, uint32_t after, table_t kind, uint32_t n,
                               uint32_t *numbers, ccl_i_machine_t *m, ccl_error_t *err) {
    uint32_t have = 0, head = head_of(smi, after, &have);
    if (head == CCL_NONE || have != n)
        return fail(smi, after, NULL, err,
                    head == CCL_NONE
                        ? "no table of gpus below this title"
                        : "this table has another number of gpus than the one of link types");
    for (uint32_t a = 0; a < n; a++) {
        uint32_t line = head + 1 + a;
        const char *at = line < smi->nlines ? smi->lines[line] : "", *word;
        size_t len = ccl_i_smi_word(&at, &word);
        if (!names_gpu(word, len))
            return fail(smi, line < smi->nlines ? line : smi->nlines - 1, NULL, err,
                        "a row per gpu of the head is wanted here; the output is not whole");
        for (uint32_t b = 0; b < n; b++) {
            len = ccl_i_smi_word(&at, &word);
            if (len == 0)
                return fail(smi, line, word, err, "fewer cells in this row than the head has gpus");
            if (kind == TABLE_TYPE) {
                if (a != b)
                    CCL_TRY(read_type(smi, line, word, len, ccl_i_machine_lanes(m, a, b), err));
                continue;
            }
            size_t digits = strspn(word, "0123456789");
            if (a != b && (digits != len || len > 6) && strncmp(word, "N/A", 3) != 0)
                return fail(smi, line, word, err, "a whole number is wanted here");
            numbers[(size_t)a * n + b] =
                digits == len && len <= 6 ? (uint32_t)strtoul(word, NULL, 10) : 0;
        }
    }
    return CCL_OK;
}

/* xGMI pairs with more than the least weight are joined over other GPUs only. */
static void keep_direct(ccl_i_machine_t *m, const uint32_t *weights) {
    uint32_t least = UINT32_MAX, n = m->ngpus;
    for (size_t i = 0; i < (size_t)n * n; i++)
        if (m->lanes[i] && weights[i] && weights[i] < least)
            least = weights[i];
    for (size_t i = 0; i < (size_t)n * n; i++)
        if (weights[i] > least)
            m->lanes[i] = 0;
}

/* A link in one direction only is none. Pairs without one are of one NUMA node (hops 2) or two. */
static void settle(ccl_i_machine_t *m, const uint32_t *hops) {
    uint32_t n = m->ngpus;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            uint8_t *ab = ccl_i_machine_lanes(m, a, b);
            if (!*ccl_i_machine_lanes(m, b, a))
                *ab = 0;
            if (a != b && !*ab && hops[(size_t)a * n + b] >= 2)
                *ccl_i_machine_near(m, a, b) =
                    hops[(size_t)a * n + b] == 2 ? CCL_I_NEAR_HOST : CCL_I_NEAR_SYS;
        }
}

ccl_status_t ccl_i_rocm_read(const ccl_i_smi_t *smi, uint32_t head, ccl_i_machine_t *out,
                             ccl_error_t *err) {
    uint32_t n = 0;
    memset(out, 0, sizeof *out);
    if (head_of(smi, head, &n) == CCL_NONE)
        return fail(smi, head, NULL, err, "no table of gpus below this title");
    CCL_TRY(ccl_i_machine_init(out, smi->file, n, 0, err));
    out->amd = true;
    size_t cells = (size_t)n * n;
    uint32_t *weights = calloc(2 * cells, sizeof *weights),
             *hops = weights ? weights + cells : NULL;
    ccl_status_t status = weights ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; i < smi->nlines && status == CCL_OK; i++) {
        table_t kind = title(smi->lines[i]);
        if (kind != TABLE_NONE && (kind != TABLE_TYPE || i == head))
            status = read_table(smi, i, kind, n, kind == TABLE_WEIGHT ? weights : hops, out, err);
    }
    if (status == CCL_OK) {
        keep_direct(out, weights);
        settle(out, hops);
    } else {
        ccl_i_machine_fini(out);
    }
    free(weights);
    return status;
}
