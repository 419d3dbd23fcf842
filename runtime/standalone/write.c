/**
 * @file write.c
 * A program as one source file.
 */
#include "runtime/generate.h"
#include "runtime/standalone/standalone.h"

#include <inttypes.h>

static const char *const levels[] = {"algorithm", "stage", "task"};

static void write_head(const ccl_i_standalone_t *s, const ccl_standalone_options_t *o,
                       ccl_text_t *out) {
    static const char *const how[] = {"nvcc -O3 -arch=sm_90 -o FILE FILE.cu",
                                      "hipcc -O3 -o FILE FILE.cpp",
                                      "nvcc -O3 -std=c++17 -arch=sm_90 -o FILE FILE.cu -lnccl"};
    const ccl_program_t *p = s->program;
    ccl_granularity_t level = ccl_program_level(p, o->granularity);
    ccl_text_printf(
        out,
        "/*\n * Written by ccllab: %s of %" PRIu32 " ranks, %s, %" PRIu32
        " thread blocks, %s level.\n"
        " * One function, ccllab_%s(sendbuff, recvbuff, count, type, op, comm, stream), "
        "and a\n * main() that checks the data; -DCCLLAB_NO_MAIN leaves that out.\n"
        " * Build: %s\n */\n",
        p->coll->name, p->nranks, ccl_run_protocol_name(s->plan.dev.protocol + 1),
        s->plan.dev.nunits, levels[level], p->coll->name, how[o->what]);
}

ccl_status_t ccl_standalone_write(const ccl_program_t *program,
                                  const ccl_standalone_options_t *options, ccl_text_t *out,
                                  ccl_error_t *err) {
    static const ccl_standalone_options_t defaults = CCL_STANDALONE_OPTIONS_INIT;
    CCL_OPTIONS_TRY(ccl_standalone_options_t, options, err);
    const ccl_standalone_options_t *o = options ? options : &defaults;
    ccl_i_standalone_t s;
    bool nccl = o->what == CCL_STANDALONE_NCCL;
    CCL_TRY(ccl_i_standalone_init(program, o, &s, err));
    write_head(&s, o, out);
    ccl_text_printf(out, "#define CCLLAB_COLLECTIVE ccllab_%s\n#define CCLLAB_NAME \"%s\"\n",
                    program->coll->name, program->coll->name);
    ccl_text_printf(out, "%s\n%s\n", ccl_i_standalone_kernel,
                    nccl ? ccl_i_standalone_types_nccl : ccl_i_standalone_types_own);
    ccl_text_printf(out,
                    "#define CCL_GPU_PARTS\n"
                    "#define CCL_SA_PROTOCOL %" PRIu32 "u\n"
                    "#define CCL_SA_SLOTS %" PRIu32 "u\n"
                    "#define CCL_SA_SLICE_BYTES %" PRIu32 "u\n%s\n",
                    s.plan.dev.protocol, s.plan.slots, s.slice_bytes,
                    nccl ? "#define CCL_SA_REACH\n" : "");
    ccl_text_printf(out, "%s\n%s\n%s\n", ccl_i_kernel_prelude, ccl_i_standalone_block,
                    nccl ? ccl_i_standalone_reach : "");
    ccl_text_printf(out, "%s\n%s\n", ccl_i_standalone_shape, ccl_i_standalone_check);
    ccl_i_standalone_units(&s, "ccl", out);
    ccl_text_printf(out, "\n%s\n%s\n%s\n%s", ccl_i_standalone_launch,
                    nccl ? ccl_i_standalone_comm_nccl : ccl_i_standalone_comm_own,
                    nccl ? ccl_i_standalone_test_nccl : ccl_i_standalone_test_own,
                    ccl_i_standalone_main);
    ccl_i_standalone_fini(&s);
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
