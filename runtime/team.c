/**
 * @file team.c
 * Teams: the star of sockets of a job without agreement, so that one can end and the others go on.
 */
#include "runtime/wire/bootstrap.h"

#include <stdlib.h>

struct ccl_team {
    ccl_i_group_t group;
};

ccl_status_t ccl_team_open(const ccl_run_options_t *options, ccl_team_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    if (options->world < 2 || options->rank >= options->world)
        return ccl_fail(err, CCL_ERR_USAGE, "a team wants more than one process");
    ccl_team_t *team = calloc(1, sizeof *team);
    if (!team)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_bootstrap_join(options, &team->group, err);
    if (status != CCL_OK) {
        free(team);
        return status;
    }
    *out = team;
    return CCL_OK;
}

void ccl_team_close(ccl_team_t *team) {
    if (!team)
        return;
    ccl_i_group_fini(&team->group);
    free(team);
}

uint32_t ccl_team_rank(const ccl_team_t *team) {
    return team->group.rank;
}

uint32_t ccl_team_world(const ccl_team_t *team) {
    return team->group.world;
}

bool ccl_team_send(ccl_team_t *team, uint32_t to, const void *data, size_t len) {
    return ccl_i_group_send(&team->group, to, data, len);
}

ccl_status_t ccl_team_receive(ccl_team_t *team, double wait_s, ccl_team_message_t *out,
                              ccl_error_t *err) {
    return ccl_i_group_next(&team->group, wait_s, out, err);
}
