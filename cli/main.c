#include "cli/cli.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

int main(int argc, char **argv) {
#if defined(__GLIBC__)
    /* Large arrays go back to the system when they end. glibc raises this bound, to 32 MB, with
       each that does, and a fifth of what large comparisons take would be kept for nothing. */
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    /* That bound given, glibc leaves the next one at 128 KB, and the system would give the same
       pages again, zeroed, for each program that is made and tried. */
    mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
    return ccl_cli_main(argc, argv);
}
