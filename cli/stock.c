/* What the vendor's own library, NCCL or RCCL, runs, where a command takes it for a synthesizer. */
#include "cli/command.h"

#include <string.h>

bool ccl_i_is_stock(const char *name) {
    return name && (strcmp(name, "nccl") == 0 || strcmp(name, "rccl") == 0);
}

ccl_status_t ccl_i_stock_open(ccl_i_cli_t *cli, const ccl_topology_t *machine,
                              const ccl_topology_t *topo, const ccl_collective_t *want,
                              double size_bytes, ccl_i_stock_t *out, ccl_error_t *err) {
    const char *given = ccl_i_lowering_given(&cli->args, true);

    if (!given && ccl_i_given(&cli->args, "proto"))
        given = "proto";
    if (given)
        return ccl_fail(err, CCL_ERR_USAGE, "--%s is for schedules; %s runs programs of its own",
                        given, cli->args.with);
    if (!(size_bytes > 0))
        return ccl_fail(err, CCL_ERR_USAGE, "no size given: --size BYTES, such as --size 64M");
    CCL_TRY(ccl_nccl_library(topo, &out->name, err));
    CCL_TRY(ccl_nccl_open(&cli->ctx, machine, topo, want, &out->predictor, err));
    ccl_predictor_nvls(out->predictor, true, cli->args.registered);
    CCL_TRY(ccl_predictor_kernel(out->predictor, want->kind, want->root, size_bytes, NULL,
                                 &out->kernel, err));
    ccl_nccl_choice_text(&out->kernel.choice, out->choice, sizeof(out->choice));
    return CCL_OK;
}

void ccl_i_stock_fini(ccl_i_stock_t *stock) {
    ccl_predictor_destroy(stock->predictor);
    stock->predictor = NULL;
}
