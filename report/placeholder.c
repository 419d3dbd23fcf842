/** @file report.c */
#include "report/report.h"
