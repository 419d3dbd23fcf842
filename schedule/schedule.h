/**
 * @file schedule.h
 * What travels between all other modules: collectives, schedules, programs, flow lists, with their
 * formats, lower bounds and verifier. Each has a header of its own; this one includes them all.
 */
#ifndef CCL_SCHEDULE_SCHEDULE_H
#define CCL_SCHEDULE_SCHEDULE_H

#include "schedule/bound.h"
#include "schedule/c2c_plan.h"
#include "schedule/collective.h"
#include "schedule/formats/flow_list.h"
#include "schedule/formats/moe.h"
#include "schedule/groups.h"
#include "schedule/origin.h"
#include "schedule/program.h"
#include "schedule/transfers.h"
#include "schedule/verify/verdict.h"
#include "schedule/wiring.h"

#endif
