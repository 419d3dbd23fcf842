/* Trees that sketches borrow from other synthesizers: which are let in, and who made what. */
#include "synth/sketch/solve.h"

#include <stdio.h>
#include <string.h>

bool ccl_i_sketch_borrows(const char *list, const char *name) {
    size_t len = strlen(name);

    if (!list || strcmp(list, "all") == 0)
        return true;
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, len) == 0 && (p[len] == ',' || p[len] == '\0'))
            return true;
    }
    return false;
}

ccl_status_t ccl_i_sketch_check_borrow(const char *text, ccl_error_t *err) {
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0)
        return CCL_OK;
    for (const char *p = text; p;) {
        size_t len = strcspn(p, ",");
        bool known = false;

        for (uint32_t k = 0; ccl_i_solver_names[k]; k++) {
            const ccl_synth_ops_t *ops = ccl_i_solver_ops(k);

            known |= ops && strlen(ops->name) == len && strncmp(p, ops->name, len) == 0;
        }
        if (!known)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "sketches borrow no trees of \"%.*s\": all, none, or some of packing, "
                            "ring, greedy, hm with commas between",
                            (int)(len < 40 ? len : 40), p);
        p = p[len] ? p + len + 1 : NULL;
    }
    return CCL_OK;
}

/* "hm" of "all GPUs, by hm"; NULL: the sketch's own trees. */
static const char *lender(const ccl_i_sketch_t *sketch) {
    const ccl_synth_ops_t *ops = sketch->solved ? ccl_i_solver_ops(sketch->solved - 1u) : NULL;

    return ops ? ops->name : NULL;
}

/* Whose trees are in the mix, each once; "": nobody's. */
static void list_lenders(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix,
                         ccl_text_t *out) {
    for (uint32_t i = 0; i < mix->n; i++) {
        const char *name = lender(&sketches->items[mix->sketch[i]]);
        bool again = !name;

        for (uint32_t k = 0; k < i && !again; k++) {
            const char *other = lender(&sketches->items[mix->sketch[k]]);

            again = other && strcmp(other, name) == 0;
        }
        if (!again)
            ccl_text_printf(out, "%s%s", out->len ? " and " : "", name);
    }
}

ccl_status_t ccl_i_sketch_origin(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix,
                                 ccl_origin_t origin, ccl_error_t *err) {
    ccl_text_t lenders = {0}, names = {0};
    uint32_t borrowed = 0;

    list_lenders(sketches, mix, &lenders);
    for (uint32_t i = 0; i < mix->n; i++) {
        const ccl_i_sketch_t *sketch = &sketches->items[mix->sketch[i]];
        bool lent = lender(sketch) != NULL;
        /* whose trees it has stands before */
        const char *end = lent ? strstr(sketch->name, ", by ") : NULL;
        int len = end ? (int)(end - sketch->name) : (int)strlen(sketch->name);

        borrowed += lent;
        ccl_text_printf(&names, "%s%.*s", i ? " and " : "", len, sketch->name);
    }
    bool nomem = lenders.nomem || names.nomem;
    if (!nomem)
        ccl_origin_set(origin, "sketch%s%s%s: %s",
                       borrowed == 0       ? ""
                       : borrowed < mix->n ? " partly by "
                                           : " by ",
                       borrowed ? lenders.data : "", mix->given ? ", of the user's" : "",
                       names.data ? names.data : "");
    ccl_text_fini(&lenders);
    ccl_text_fini(&names);
    return nomem ? ccl_fail_nomem(err) : CCL_OK;
}
