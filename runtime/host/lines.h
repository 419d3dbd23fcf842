/**
 * @file lines.h
 * Private to the host device: slices as lines with flags in the data (LL, LL128; see device.h).
 */
#ifndef CCL_RUNTIME_LINES_H
#define CCL_RUNTIME_LINES_H

#include "runtime/host/host.h"

/** Where the lines of a slice lie. */
typedef struct ccl_i_lines {
    char *slot;
    uint64_t slice; /* its number in the connection */
    uint32_t protocol;
} ccl_i_lines_t;

/** Bytes that are written and read at a time: whole lines of both protocols. */
enum { CCL_I_TILE_BYTES = 64 * CCL_DEVICE_LL128_DATA };

/** Whether the first line is there: then the sender is about to write the others. */
bool ccl_i_lines_begun(const ccl_i_lines_t *lines);
/**
 * Bytes `from` to `from + n` of the slice's data, when their lines have come. Waits some
 * microseconds at most.
 * @param from  whole tiles. @return false: they have not; to be asked again later.
 */
bool ccl_i_lines_read(const ccl_i_lines_t *lines, uint64_t from, void *data, uint64_t n);
/** The same the other way; n = 0 writes the one line of a slice without data. */
void ccl_i_lines_write(const ccl_i_lines_t *lines, uint64_t from, const void *data, uint64_t n);
/** After a slice of n bytes: the other lines of its slot get its flag, when it is time to. */
void ccl_i_lines_clean(const ccl_i_lines_t *lines, uint64_t n, uint64_t slot_bytes, uint32_t slots);

/** In a loop that waits for another worker. @param looks  so far. */
void ccl_i_relax(uint32_t looks);

#endif
