#include "cli/cli.h"

int main(int argc, char **argv) {
    return ccl_cli_main(argc, argv);
}
