/** @file topologies.c */
#include "topologies/topologies.h"
