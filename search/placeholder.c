/** @file search.c */
#include "search/search.h"
