/* Verdicts: the first fault, a few warnings, and how places are named. */
#include "schedule/verify/verify.h"

#include <string.h>
#include <strings.h>

void ccl_i_fault(ccl_verdict_t *verdict, const char *kind, uint32_t rank, uint32_t tb,
                 uint32_t step, uint32_t chunk, const char *fmt, ...) {
    if (!verdict->valid)
        return;
    verdict->valid = false;
    verdict->fault.kind = kind;
    verdict->fault.rank = rank;
    verdict->fault.tb = tb;
    verdict->fault.step = step;
    verdict->fault.chunk = chunk;
    va_list args;
    va_start(args, fmt);
    vsnprintf(verdict->fault.text, sizeof verdict->fault.text, fmt, args);
    va_end(args);
}

void ccl_i_warn(ccl_verdict_t *verdict, const char *fmt, ...) {
    if (verdict->nwarnings == CCL_MAX_WARNINGS)
        return;
    char *text = verdict->warnings[verdict->nwarnings];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof verdict->warnings[0], fmt, args);
    va_end(args);
    for (uint32_t i = 0; i < verdict->nwarnings; i++) {
        if (!strcmp(verdict->warnings[i], text))
            return;
    }
    verdict->nwarnings++;
}

ccl_i_place_t ccl_i_place(const ccl_program_t *program, uint32_t tb, uint32_t step) {
    ccl_i_place_t place;
    const ccl_tb_t *t = &program->tbs[tb];
    int n =
        snprintf(place.text, sizeof place.text, "rank %u block %u step %u", t->rank, t->id, step);
    uint32_t line = step < t->nsteps ? ccl_program_mark(program, t, t->first_step + step).line : 0;
    if (line && n > 0 && (size_t)n < sizeof place.text)
        snprintf(place.text + n, sizeof place.text - (size_t)n, " (line %u)", line);
    return place;
}

uint32_t ccl_i_default_slots(const char *proto) {
    return proto && !strncasecmp(proto, "LL", 2) ? 8 : 2;
}

ccl_status_t ccl_i_check_members(const ccl_collective_t *coll, ccl_error_t *err) {
    const uint64_t most = UINT64_C(1) << 26;
    uint64_t members = 0;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        members += (uint64_t)coll->chunks[k].nsources + coll->chunks[k].ndests;
        if (members > most)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "the collective has more than %llu contributions and results: too many "
                            "to verify",
                            (unsigned long long)most);
    }
    return CCL_OK;
}
