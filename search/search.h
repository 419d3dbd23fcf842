/**
 * @file search.h
 * Everything that tries many things: the topics of search under one name. Each has a header of its
 * own.
 */
#ifndef CCL_SEARCH_SEARCH_H
#define CCL_SEARCH_SEARCH_H

#include "search/compare/compare.h"
#include "search/compare/ways.h"
#include "search/explain/explain.h"
#include "search/export/export.h"
#include "search/failover/failover.h"
#include "search/improve/improve.h"
#include "search/notebook/lab.h"
#include "search/notebook/notebook.h"
#include "search/scenario/scenario.h"
#include "search/tune/replay.h"
#include "search/tune/sampled.h"
#include "search/tune/space.h"
#include "search/tune/tune.h"

#endif
