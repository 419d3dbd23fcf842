/* MSCCL's primitives: names and what they do. Source: MSCCL's runtime interpreter. */
#include "schedule/schedule.h"

typedef struct primitive_facts {
    const char *name;
    bool sends, receives, reduces;
} primitive_facts_t;

static const primitive_facts_t facts[] = {
    [CCL_PRIM_S] = {"s", true, false, false},      [CCL_PRIM_R] = {"r", false, true, false},
    [CCL_PRIM_RCS] = {"rcs", true, true, false},   [CCL_PRIM_RRS] = {"rrs", true, true, true},
    [CCL_PRIM_RRC] = {"rrc", false, true, true},   [CCL_PRIM_RRCS] = {"rrcs", true, true, true},
    [CCL_PRIM_CPY] = {"cpy", false, false, false}, [CCL_PRIM_RE] = {"re", false, false, true},
    [CCL_PRIM_NOP] = {"nop", false, false, false},
};

static const primitive_facts_t *facts_of(ccl_primitive_t prim) {
    static const primitive_facts_t unknown = {"?", false, false, false};
    return (size_t)prim < CCL_ARRAY_LEN(facts) ? &facts[prim] : &unknown;
}

const char *ccl_primitive_name(ccl_primitive_t prim) {
    return facts_of(prim)->name;
}

bool ccl_primitive_sends(ccl_primitive_t prim) {
    return facts_of(prim)->sends;
}

bool ccl_primitive_receives(ccl_primitive_t prim) {
    return facts_of(prim)->receives;
}

bool ccl_primitive_reduces(ccl_primitive_t prim) {
    return facts_of(prim)->reduces;
}
