/* --scenario and --samples: a scenario on the cluster at hand. */
#include "cli/command.h"

enum { SAMPLES = 1000 };

ccl_status_t ccl_i_scenario_open(const ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                 ccl_scenario_t **scenario_out, ccl_draws_t **draws_out,
                                 uint32_t *samples_out, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;

    if (!args->vary.scenario)
        return ccl_i_given(args, "samples")
                   ? ccl_fail(err, CCL_ERR_USAGE,
                              "--samples are of a scenario: --scenario FILE is missing")
                   : CCL_OK;
    *samples_out = ccl_i_given(args, "samples") ? args->vary.samples : SAMPLES;
    if (*samples_out == 0 || *samples_out > CCL_SAMPLES_MAX)
        return ccl_fail(err, CCL_ERR_USAGE, "--samples %u: 1 to %u are possible", *samples_out,
                        CCL_SAMPLES_MAX);
    CCL_TRY(ccl_scenario_read(args->vary.scenario, scenario_out, err));
    return ccl_draws_create(*scenario_out, topo, args->seed, draws_out, err);
}

ccl_status_t ccl_i_scenario_rank(const ccl_i_cli_t *cli, ccl_rank_t *out, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_error_t inner = CCL_ERROR_INIT;

    if (!args->vary.rank)
        return CCL_OK;
    if (!args->vary.scenario)
        return ccl_fail(err, CCL_ERR_USAGE, "--rank is over samples: --scenario FILE is missing");
    if (ccl_rank_parse(args->vary.rank, out, &inner) != CCL_OK)
        return ccl_fail(err, CCL_ERR_USAGE, "option --rank: %s", inner.text);
    return CCL_OK;
}
