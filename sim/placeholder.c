/** @file sim.c */
#include "sim/sim.h"
