/**
 * @file cli.h
 * The command line `ccllab`: parse, call the library, print. No logic of its own.
 */
#ifndef CCL_CLI_CLI_H
#define CCL_CLI_CLI_H

#include "report/report.h"

CCL_BEGIN_DECLS

/**
 * Run one command. Installs handlers for SIGINT and SIGTERM; writes the result to standard output
 * (or -o FILE) and all talk to standard error.
 *
 * @return the exit code: a row of CCL_EXIT_MAP.
 */
int ccl_cli_main(int argc, char **argv);

CCL_END_DECLS
#endif
