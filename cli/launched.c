/* Several processes that mpirun or srun started, which work on one tuning or sweep. */
#include "cli/command.h"

ccl_status_t ccl_i_launched_find(ccl_i_cli_t *cli, ccl_i_launched_t *l, ccl_error_t *err) {
    enum { AUTO, ALONE, MPI }; /* as the option lists them */
    ccl_run_options_t place = CCL_RUN_OPTIONS_INIT;
    ccl_ctx_t quiet = cli->ctx;
    ccl_error_t why = CCL_ERROR_INIT;
    uint32_t rank = 0, world = 0, how = cli->args.job.bootstrap;
    bool launched = ccl_run_place_from_environment(&rank, &world) && world > 1;
    ccl_status_t status;

    l->place = place;
    if (how == ALONE || (how == AUTO && !launched))
        return CCL_OK;
    quiet.log = NULL; /* what it would warn of is an error here */
    status = ccl_bootstrap_open(&quiet, CCL_BOOTSTRAP_MPI, &l->place, &l->bootstrap, &why);
    if (status == CCL_OK && launched && l->place.world < 2)
        status = ccl_fail(&why, CCL_ERR_MISSING,
                          "MPI knows this one alone, so it is not the "
                          "launcher's MPI");
    if (status == CCL_ERR_MISSING && launched)
        return ccl_fail(err, status,
                        "process %u of %u that a launcher started does not find the others: %.300s "
                        "(--bootstrap none: each does all by itself)",
                        rank, world, why.text);
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

bool ccl_i_launched_helper(const ccl_i_launched_t *l) {
    return l->place.world > 1 && l->place.rank > 0;
}

ccl_status_t ccl_i_launched_join(ccl_i_launched_t *l, ccl_team_t **out, ccl_error_t *err) {
    if (l->place.world < 2)
        return CCL_OK;
    CCL_TRY(ccl_team_open(&l->place, &l->team, err));
    *out = l->team;
    return CCL_OK;
}

ccl_status_t ccl_i_launched_work(const ccl_i_cli_t *cli, ccl_i_launched_t *l,
                                 const ccl_topology_t *topo, const ccl_collective_t *want,
                                 const ccl_tune_options_t *options, ccl_error_t *err) {
    ccl_ctx_t quiet = cli->ctx;

    quiet.progress = NULL; /* process 0 has one line for all */
    l->parting = CCL_TEAM_APART;
    return ccl_tune_work(&quiet, topo, want, options, &l->parting, err);
}

void ccl_i_launched_end(ccl_i_launched_t *l, bool idle) {
    if (l->team && l->place.rank == 0) {
        l->parting = idle ? CCL_TEAM_TOGETHER : CCL_TEAM_APART;
        ccl_tune_team_end(l->team, l->parting);
    }
    ccl_team_close(l->team);
    ccl_bootstrap_close(l->bootstrap, l->parting == CCL_TEAM_TOGETHER || l->place.world < 2);
}
