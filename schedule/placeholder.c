/** @file schedule.c */
#include "schedule/schedule.h"
