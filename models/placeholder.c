/** @file models.c */
#include "models/models.h"
