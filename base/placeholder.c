/** @file base.c */
#include "base/base.h"
