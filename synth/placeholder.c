/** @file synth.c */
#include "synth/synth.h"
