/* Output of the vendors' tools as lines and words; products, generations and speeds of NICs
 * wherever they stand in it. */
#include "topologies/readers/machine/machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lines and words */

/* Without escape sequences (colours, underlines), carriage returns and NULs; lines stay lines. */
static size_t clean(const char *text, size_t len, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\x1b' && i + 1 < len && text[i + 1] == '[') {
            i += 2;
            while (i < len && !(text[i] >= '@' && text[i] <= '~') && text[i] != '\n')
                i++;
            if (i < len && text[i] == '\n')
                out[n++] = '\n';
        } else if (text[i] != '\r' && text[i] != '\0') {
            out[n++] = text[i];
        }
    }
    return n;
}

ccl_status_t ccl_i_smi_init(ccl_i_smi_t *smi, const char *file, const char *text, size_t len,
                            ccl_error_t *err) {
    memset(smi, 0, sizeof *smi);
    smi->file = file;
    smi->text = malloc(len + 1);
    size_t n = smi->text ? clean(text, len, smi->text) : 0, lines = 1;
    for (size_t i = 0; i < n; i++)
        lines += smi->text[i] == '\n';
    smi->lines = lines <= UINT32_MAX ? malloc(lines * sizeof *smi->lines) : NULL;
    if (!smi->text || !smi->lines) {
        ccl_i_smi_fini(smi);
        return ccl_fail_nomem(err);
    }
    smi->text[n] = '\0';
    char *at = smi->text;
    while (at) {
        smi->lines[smi->nlines++] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    return CCL_OK;
}

void ccl_i_smi_fini(ccl_i_smi_t *smi) {
    free(smi->text);
    free(smi->lines);
    memset(smi, 0, sizeof *smi);
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

size_t ccl_i_smi_word(const char **at, const char **word_out) {
    const char *word = *at;
    while (blank(*word))
        word++;
    const char *end = word;
    while (*end && !blank(*end))
        end++;
    *at = end;
    *word_out = word;
    return (size_t)(end - word);
}

uint32_t ccl_i_smi_index(const char *word, size_t len, const char *prefix) {
    size_t n = strlen(prefix);
    uint32_t value = 0;
    if (len <= n || len > n + 4 || strncmp(word, prefix, n) != 0)
        return CCL_NONE;
    for (size_t i = n; i < len; i++) {
        if (!isdigit((unsigned char)word[i]))
            return CCL_NONE;
        value = value * 10 + (uint32_t)(word[i] - '0');
    }
    return value;
}

/* ---------------------------------------------------------------- what other tools say of the
 * devices */

static void copy(char *out, size_t size, const char *text, size_t len) {
    while (len && blank(text[len - 1]))
        len--;
    while (len && blank(*text))
        text++, len--;
    if (len >= size)
        len = size - 1;
    memcpy(out, text, len);
    out[len] = '\0';
}

static bool number(const char **at, uint32_t *out) {
    const char *s = *at;
    uint32_t value = 0, digits = 0;
    while (blank(*s))
        s++;
    while (isdigit((unsigned char)*s) && digits++ < 5)
        value = value * 10 + (uint32_t)(*s++ - '0');
    *at = s;
    *out = value;
    return digits > 0 && digits <= 5;
}

/* nvidia-smi -L: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)". */
static void listed(const char *line, ccl_i_machine_t *m) {
    uint32_t gpu;
    if (strncmp(line, "GPU ", 4) != 0)
        return;
    line += 4;
    if (!number(&line, &gpu) || *line != ':' || gpu >= m->ngpus)
        return;
    const char *end = strstr(line, " (UUID");
    copy(m->devs[gpu].name, sizeof m->devs[gpu].name, line + 1,
         end ? (size_t)(end - line - 1) : strlen(line + 1));
}

/* nvidia-smi: "|   0  NVIDIA H100 80GB HBM3          On  | ...". */
static void tabled(const char *line, ccl_i_machine_t *m) {
    uint32_t gpu;
    if (*line++ != '|' || !number(&line, &gpu) || gpu >= m->ngpus || strncmp(line, "  ", 2) != 0)
        return;
    while (blank(*line))
        line++;
    const char *end = strstr(line, "  ");
    if (end && isalpha((unsigned char)*line) && strncmp(line, "N/A", 3) != 0)
        copy(m->devs[gpu].name, sizeof m->devs[gpu].name, line, (size_t)(end - line));
}

/* rocm-smi: "GPU[0]   : Card Series:   AMD Instinct MI300X", "GPU[0] : GFX Version: gfx942",
   "GPU[0] : (Topology) Numa Node: 0". */
static void bracketed(const char *line, ccl_i_machine_t *m) {
    uint32_t gpu;
    if (strncmp(line, "GPU[", 4) != 0)
        return;
    line += 4;
    if (!number(&line, &gpu) || gpu >= m->ngpus)
        return;
    const char *value = strrchr(line, ':');
    if (!value)
        return;
    ccl_i_machine_dev_t *dev = &m->devs[gpu];
    if (strstr(line, "Card Series") || strstr(line, "Card series")) {
        copy(dev->name, sizeof dev->name, value + 1, strlen(value + 1));
    } else if (strstr(line, "GFX Version")) {
        copy(dev->gfx, sizeof dev->gfx, value + 1, strlen(value + 1));
    } else if (strstr(line, "Numa Node:")) {
        uint32_t numa;
        const char *at = value + 1;
        if (number(&at, &numa) && *at == '\0')
            dev->numa = (int)numa;
    }
}

/* ibstat: "CA 'mlx5_0'", and below it "State: Active" and "Rate: 400" (Gbit/s) of its port. */
static void ibstat(const char *line, ccl_i_machine_t *m, uint32_t *nic) {
    while (blank(*line))
        line++;
    if (strncmp(line, "CA '", 4) == 0) {
        size_t n = strcspn(line + 4, "'");
        *nic = CCL_NONE;
        for (uint32_t d = m->ngpus; d < m->ngpus + m->nnics; d++)
            if (strlen(m->devs[d].name) == n && strncmp(m->devs[d].name, line + 4, n) == 0)
                *nic = d;
    } else if (*nic != CCL_NONE && strncmp(line, "State: ", 7) == 0) {
        m->devs[*nic].down = strncmp(line + 7, "Down", 4) == 0;
    } else if (*nic != CCL_NONE && strncmp(line, "Rate: ", 6) == 0) {
        uint32_t rate;
        line += 6;
        if (number(&line, &rate))
            m->devs[*nic].net_GBps = rate / 8.0;
    }
}

void ccl_i_smi_names(const ccl_i_smi_t *smi, ccl_i_machine_t *m) {
    uint32_t nic = CCL_NONE;
    for (uint32_t i = 0; i < smi->nlines; i++) {
        const char *line = smi->lines[i];
        listed(line, m);
        tabled(line, m);
        bracketed(line, m);
        ibstat(line, m, &nic);
    }
}
