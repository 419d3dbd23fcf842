/* GPUs by the names that their vendors' tools print. */
#include "topologies/readers/machine/machine.h"

#include <ctype.h>
#include <string.h>

/* NVLinks, multiprocessors: NVIDIA's architecture papers; generations: AMD's data sheets. PCIe x16
   as NCCL counts it: 12 GB/s of Gen3, 24 of Gen4, 48 of Gen5. NICs: one port per GPU of DGX and HGX
   machines of the generation. Longer words come first. */
static const ccl_i_product_t products[] = {
    {"GB300", "sm100", NULL, NULL, 103, 0, 18, 48, 100},
    {"GB200", "sm100", NULL, NULL, 100, 0, 18, 48, 50},
    {"B300", "B300-SXM", NULL, NULL, 103, 0, 18, 48, 100},
    {"B200", "B200-SXM", NULL, NULL, 100, 0, 18, 48, 50},
    {"GH200", "sm90", NULL, NULL, 90, 132, 18, 48, 50},
    {"H200", "H200-SXM5-141GB", "H200-NVL-141GB", NULL, 90, 132, 18, 48, 50},
    {"H100", "H100-SXM5-80GB", "H100-PCIE-80GB", NULL, 90, 132, 18, 48, 50},
    {"H800", "H800-SXM5-80GB", "H800-PCIE-80GB", NULL, 90, 132, 8, 48, 50},
    {"H20", "H20-SXM5-96GB", NULL, NULL, 90, 78, 18, 48, 50},
    {"A100", "A100-SXM4-80GB", "A100-PCIE-80GB", NULL, 80, 108, 12, 24, 25},
    {"A800", "A800-SXM4-80GB", "A800-PCIE-80GB", NULL, 80, 108, 8, 24, 25},
    {"V100", "V100-SXM2-32GB", "V100-PCIE-32GB", NULL, 70, 80, 6, 12, 12.5},
    {"L40S", "L40S", "L40S", NULL, 89, 142, 0, 24, 25},
    {"A10G", "A10G", "A10G", NULL, 86, 80, 0, 24, 12.5},
    {"A40", "A40", "A40", NULL, 86, 84, 4, 24, 12.5},
    {"A6000", "RTX-A6000", "RTX-A6000", NULL, 86, 84, 4, 24, 12.5},
    {"3090", "RTX-3090", "RTX-3090", NULL, 86, 82, 4, 24, 12.5},
    {"4090", "RTX-4090", "RTX-4090", NULL, 89, 128, 0, 24, 12.5},
    {"5090", "RTX-5090", "RTX-5090", NULL, 120, 170, 0, 48, 12.5},
    {"P100", "P100-SXM2", "P100-PCIE", NULL, 60, 56, 4, 12, 12.5},
    {"T4", "T4", "T4", NULL, 75, 40, 0, 12, 12.5},
    {"MI355X", "gfx950", NULL, "gfx950", 0, 0, 7, 48, 50},
    {"MI350X", "MI350X", NULL, "gfx950", 0, 0, 7, 48, 50},
    {"MI325X", "gfx942", NULL, "gfx942", 0, 0, 7, 48, 50},
    {"MI300", "MI300X", NULL, "gfx942", 0, 0, 7, 48, 50},
    {"MI250", "MI250", NULL, "gfx90a", 0, 0, 8, 24, 25},
    {"MI210", "gfx90a", NULL, "gfx90a", 0, 0, 3, 24, 25},
    {"MI100", "gfx908", NULL, "gfx908", 0, 120, 3, 24, 12.5},
    {"GFX950", "gfx950", NULL, "gfx950", 0, 0, 7, 48, 50},
    {"GFX942", "gfx942", NULL, "gfx942", 0, 0, 7, 48, 50},
    {"GFX941", "gfx942", NULL, "gfx941", 0, 0, 7, 48, 50},
    {"GFX940", "gfx942", NULL, "gfx940", 0, 0, 7, 48, 50},
    {"GFX90A", "gfx90a", NULL, "gfx90a", 0, 0, 8, 24, 25},
    {"GFX908", "gfx908", NULL, "gfx908", 0, 120, 3, 24, 12.5},
    {"GFX906", "gfx906", NULL, "gfx906", 0, 60, 2, 12, 12.5},
};

/* The word in the text, neither behind nor before a letter or a figure that makes another product
 * of it ("A10" in "A100"). */
static bool has_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *at = text; *at; at++) {
        size_t i = 0;
        while (i < n && toupper((unsigned char)at[i]) == word[i])
            i++;
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        /* "MI300X", "MI300A", "MI250X" are of one row. */
        bool ends = !isalnum((unsigned char)at[n < i ? n : i]) ||
                    (word[0] == 'M' && !isdigit((unsigned char)at[i]));
        if (i == n && begins && ends)
            return true;
    }
    return false;
}

const ccl_i_product_t *ccl_i_product_find(const char *name) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(products); i++)
        if (has_word(name, products[i].word))
            return &products[i];
    return NULL;
}

bool ccl_i_product_is_pcie(const char *name) {
    return has_word(name, "PCIE") || has_word(name, "NVL");
}

void ccl_i_product_list(char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < CCL_ARRAY_LEN(products) && at < size; i++)
        if (strncmp(products[i].word, "GFX", 3) != 0)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? " " : "", products[i].word);
}

const ccl_i_product_t *ccl_i_product_guess(ccl_i_machine_t *m) {
    uint32_t most = 0, row_most = 0, least = UINT32_MAX;
    for (uint32_t a = 0; a < m->ngpus; a++) {
        uint32_t row = 0;
        for (uint32_t b = 0; b < m->ngpus; b++) {
            uint32_t lanes = *ccl_i_machine_lanes(m, a, b);
            row += lanes;
            most = lanes > most ? lanes : most;
            if (b != a && lanes < least)
                least = lanes;
        }
        row_most = row > row_most ? row : row_most;
    }
    if (most == 0)
        return NULL;
    if (m->amd) /* every MI300X has a link to each of seven others, a die of MI250 not to all */
        return ccl_i_product_find(m->ngpus == 8 && least > 0 ? "MI300X" : "MI250");
    /* Behind NVSwitches a pair has all links of a GPU, in a mesh a row has. */
    bool alike = least == most && m->ngpus > 4;
    uint32_t links = alike ? most : row_most;
    return ccl_i_product_find(links > 12   ? "H100"
                              : links > 8  ? "A100"
                              : links == 8 ? "H800"
                                           : "V100");
}
