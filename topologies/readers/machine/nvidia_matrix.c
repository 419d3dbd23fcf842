/* `nvidia-smi topo -m`: a row and a column per GPU and NIC, how near each pair is, and the GPUs'
 * NUMA nodes. */
#include "topologies/readers/machine/machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS CCL_I_MACHINE_MAX_DEVICES

typedef struct column {
    const char *name;
    size_t len;
    uint32_t dev; /* of the machine */
} column_t;

typedef struct matrix {
    const ccl_i_smi_t *smi;
    ccl_i_machine_t *m;
    column_t columns[MAX_COLUMNS];
    uint32_t ncolumns, nextras; /* extras: CPU Affinity, NUMA Affinity, GPU NUMA ID */
    uint32_t *row;              /* line of each device, from 1; 0: none */
} matrix_t;

static bool is(const char *word, size_t len, const char *want) {
    return strlen(want) == len && strncmp(word, want, len) == 0;
}

uint32_t ccl_i_nvidia_head(const ccl_i_smi_t *smi) {
    uint32_t head = CCL_NONE;
    for (uint32_t i = 0; i < smi->nlines; i++) {
        const char *at = smi->lines[i], *word;
        size_t len = ccl_i_smi_word(&at, &word);
        if (len == 0)
            continue;
        if (head != CCL_NONE && is(word, len, "GPU0") &&
            (len = ccl_i_smi_word(&at, &word), is(word, len, "X")))
            return head;
        head = is(smi->lines[i] + strspn(smi->lines[i], " \t"), 4, "GPU0") ? i : CCL_NONE;
    }
    return CCL_NONE;
}

static ccl_status_t fail(const matrix_t *x, uint32_t line, const char *at, ccl_error_t *err,
                         const char *text) {
    return ccl_error_set(err, CCL_ERR_INPUT, x->smi->file, (int)line + 1,
                         (int)(at - x->smi->lines[line]) + 1, "%s", text);
}

/* The names of the devices, and how many columns of other things follow. */
static ccl_status_t read_head(matrix_t *x, uint32_t line, uint32_t *ngpus_out, uint32_t *nnics_out,
                              ccl_error_t *err) {
    const char *at = x->smi->lines[line], *word;
    uint32_t ngpus = 0, nnics = 0;
    for (size_t len; (len = ccl_i_smi_word(&at, &word)) > 0;) {
        if (is(word, len, "CPU") || is(word, len, "NUMA")) {
            x->nextras = 1 + (strstr(word, "NUMA Affinity") != NULL && word[0] == 'C') +
                         (strstr(word, "GPU NUMA ID") != NULL);
            break;
        }
        if (is(word, len, "GPU"))
            break;
        if (x->ncolumns == MAX_COLUMNS)
            return fail(x, line, word, err, "more than 256 gpus and NICs in one machine");
        column_t *c = &x->columns[x->ncolumns++];
        uint32_t gpu = ccl_i_smi_index(word, len, "GPU");
        *c = (column_t){word, len, gpu != CCL_NONE ? ngpus++ : CCL_NONE};
        if (gpu != CCL_NONE && gpu != c->dev)
            return fail(x, line, word, err, "gpus are not in order: GPU0, GPU1, ... wanted");
    }
    for (uint32_t c = 0; c < x->ncolumns; c++)
        if (x->columns[c].dev == CCL_NONE)
            x->columns[c].dev = ngpus + nnics++;
    *ngpus_out = ngpus;
    *nnics_out = nnics;
    return CCL_OK;
}

/* One cell of the pair (a, b). */
static ccl_status_t read_cell(matrix_t *x, uint32_t line, const char *word, size_t len, uint32_t a,
                              uint32_t b, ccl_error_t *err) {
    static const struct {
        const char *word;
        ccl_i_near_t near;
    } words[] = {{"PIX", CCL_I_NEAR_PIX},    {"PXB", CCL_I_NEAR_PXB}, {"PHB", CCL_I_NEAR_HOST},
                 {"NODE", CCL_I_NEAR_HOST},  {"SYS", CCL_I_NEAR_SYS}, {"SOC", CCL_I_NEAR_SYS},
                 {"N/A", CCL_I_NEAR_UNKNOWN}};
    ccl_i_machine_t *m = x->m;
    char text[160];
    if ((a == b) != is(word, len, "X")) {
        snprintf(text, sizeof text,
                 a == b ? "\"%.*s\" where a device meets itself; X wanted"
                        : "\"%.*s\" between two devices; X is for one alone",
                 (int)(len < 20 ? len : 20), word);
        return fail(x, line, word, err, text);
    }
    if (a == b)
        return CCL_OK;
    for (size_t i = 0; i < CCL_ARRAY_LEN(words); i++)
        if (is(word, len, words[i].word)) {
            *ccl_i_machine_near(m, a, b) = (uint8_t)words[i].near;
            return CCL_OK;
        }
    uint32_t lanes = ccl_i_smi_index(word, len, "NV");
    if (lanes == CCL_NONE || lanes < 1 || lanes > CCL_I_MACHINE_MAX_LANES) {
        snprintf(text, sizeof text, "\"%.*s\" is none of NV1 to NV%u, PIX, PXB, PHB, NODE, SYS",
                 (int)(len < 20 ? len : 20), word, CCL_I_MACHINE_MAX_LANES);
        return fail(x, line, word, err, text);
    }
    if (a >= m->ngpus || b >= m->ngpus)
        return fail(x, line, word, err, "NVLinks join gpus, not NICs");
    *ccl_i_machine_lanes(m, a, b) = (uint8_t)lanes;
    return CCL_OK;
}

/* "0-23,96-119  0  N/A" behind the cells of a GPU: the one number that stands alone in the second
 * column. */
static void read_extras(matrix_t *x, const char *at, uint32_t gpu) {
    const char *word, *numa = NULL;
    size_t len, numa_len = 0;
    uint32_t n = 0;
    while ((len = ccl_i_smi_word(&at, &word)) > 0)
        if (n++ == 1) {
            numa = word;
            numa_len = len;
        }
    if (n < 2 || n != x->nextras || numa_len > 3 || strspn(numa, "0123456789") != numa_len)
        return;
    x->m->devs[gpu].numa = (int)strtol(numa, NULL, 10);
}

static ccl_status_t read_row(matrix_t *x, uint32_t line, uint32_t dev, const char *at,
                             ccl_error_t *err) {
    const char *word;
    if (x->row[dev]) {
        char text[120];
        snprintf(text, sizeof text, "a second row of this device; the first is in line %u",
                 x->row[dev]);
        return fail(x, line, x->smi->lines[line], err, text);
    }
    x->row[dev] = line + 1;
    for (uint32_t c = 0; c < x->ncolumns; c++) {
        size_t len = ccl_i_smi_word(&at, &word);
        if (len == 0) {
            char text[160];
            snprintf(text, sizeof text,
                     "%u cells in this row, not %u as in the head; a terminal may have cut it: "
                     "nvidia-smi topo -m > FILE",
                     c, x->ncolumns);
            return fail(x, line, word, err, text);
        }
        CCL_TRY(read_cell(x, line, word, len, dev, x->columns[c].dev, err));
    }
    if (dev < x->m->ngpus)
        read_extras(x, at, dev);
    return CCL_OK;
}

/* "  NIC0: mlx5_0" in the legend. */
static void read_legend(matrix_t *x, const char *line) {
    const char *at = line, *word;
    size_t len = ccl_i_smi_word(&at, &word);
    if (len < 2 || word[len - 1] != ':')
        return;
    for (uint32_t c = 0; c < x->ncolumns; c++) {
        column_t *column = &x->columns[c];
        if (column->dev < x->m->ngpus || column->len != len - 1 ||
            strncmp(column->name, word, len - 1) != 0)
            continue;
        len = ccl_i_smi_word(&at, &word);
        if (len > 0)
            snprintf(x->m->devs[column->dev].name, sizeof x->m->devs[0].name, "%.*s",
                     (int)(len < 60 ? len : 60), word);
        return;
    }
}

static ccl_status_t read_rows(matrix_t *x, uint32_t head, ccl_error_t *err) {
    ccl_i_machine_t *m = x->m;
    for (uint32_t i = head + 1; i < x->smi->nlines; i++) {
        const char *at = x->smi->lines[i], *word;
        size_t len = ccl_i_smi_word(&at, &word);
        bool row = false;
        for (uint32_t c = 0; c < x->ncolumns && len && !row; c++) {
            row = x->columns[c].len == len && strncmp(x->columns[c].name, word, len) == 0;
            if (row)
                CCL_TRY(read_row(x, i, x->columns[c].dev, at, err));
        }
        if (!row)
            read_legend(x, x->smi->lines[i]);
    }
    for (uint32_t g = 0; g < m->ngpus; g++)
        if (!x->row[g])
            return ccl_error_set(err, CCL_ERR_INPUT, x->smi->file, (int)head + 1, 0,
                                 "no row for GPU%u of this head; the output is not whole", g);
    for (uint32_t a = 0; a < m->ngpus; a++)
        for (uint32_t b = 0; b < a; b++)
            if (*ccl_i_machine_lanes(m, a, b) != *ccl_i_machine_lanes(m, b, a))
                return ccl_error_set(err, CCL_ERR_INPUT, x->smi->file, (int)x->row[a], 0,
                                     "%u NVLinks from GPU%u to GPU%u, but %u back",
                                     *ccl_i_machine_lanes(m, a, b), a, b,
                                     *ccl_i_machine_lanes(m, b, a));
    return CCL_OK;
}

ccl_status_t ccl_i_nvidia_read(const ccl_i_smi_t *smi, uint32_t head, ccl_i_machine_t *out,
                               ccl_error_t *err) {
    matrix_t *x = calloc(1, sizeof *x);
    uint32_t ngpus = 0, nnics = 0;
    memset(out, 0, sizeof *out);
    if (!x)
        return ccl_fail_nomem(err);
    x->smi = smi;
    x->m = out;
    ccl_status_t status = read_head(x, head, &ngpus, &nnics, err);
    if (status == CCL_OK)
        status = ccl_i_machine_init(out, smi->file, ngpus, nnics, err);
    if (status == CCL_OK) {
        x->row = calloc((size_t)ngpus + nnics, sizeof *x->row);
        for (uint32_t c = 0; c < x->ncolumns; c++) {
            column_t *column = &x->columns[c];
            if (column->dev >= ngpus)
                snprintf(out->devs[column->dev].name, sizeof out->devs[0].name, "%.*s",
                         (int)(column->len < 60 ? column->len : 60), column->name);
        }
        status = x->row ? read_rows(x, head, err) : ccl_fail_nomem(err);
    }
    if (status != CCL_OK)
        ccl_i_machine_fini(out);
    free(x->row);
    free(x);
    return status;
}
