/**
 * @file lines.h
 * Slices as lines with flags in the data (LL, LL128; see device.h), a tile at a time: lanes take
 * lines as their flags come and put the data into a tile, which all lanes then move as they do a
 * slice; what is sent goes into another tile and from there into lines. Neither a fence nor a
 * counter stands between data and flag. Part of blocks.h.
 *
 * @par Source  NCCL, prims_ll.h and prims_ll128.h.
 * @par Differs  NCCL moves a line in the registers of its lanes. Here data of a line may belong to
 *               several elements, so they pass through memory of the block.
 */
#ifndef CCL_RUNTIME_GPU_LINES_H
#define CCL_RUNTIME_GPU_LINES_H

enum { CCL_GPU_LINE_PARTS = 8 };

/** A slice in a slot. */
typedef struct ccl_gpu_lines {
    char *slot;
    uint64_t slice; /* its number */
    uint64_t slot_bytes;
    uint32_t slots, protocol;
} ccl_gpu_lines_t;

CCL_GPU_FN uint64_t ccl_gpu_lines_count(uint64_t bytes, uint64_t data) {
    return (bytes + data - 1) / data;
}

/** Where byte `from` of the data, of a tile's first line, lies. */
CCL_GPU_FN char *ccl_gpu_lines_at(const ccl_gpu_lines_t *l, uint64_t from) {
    return l->protocol == CCL_DEVICE_LL
               ? l->slot + from / CCL_DEVICE_LL_DATA * CCL_DEVICE_LL_LINE
               : l->slot + from / CCL_DEVICE_LL128_DATA * CCL_DEVICE_LL128_LINE;
}

/** A lane has looked in vain: whether the run is to be given up. */
CCL_GPU_FN bool ccl_gpu_lines_stop(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                   ccl_gpu_watch_t *watch, uint32_t looks) {
    ccl_gpu_pause();
    if (looks % CCL_GPU_LOOKS)
        return false;
    if (b->lane == 0)
        ccl_gpu_tell(run, watch);
    return ccl_gpu_load32(run->host_stop) != 0;
}

CCL_GPU_FN bool ccl_gpu_read_ll(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                ccl_gpu_watch_t *watch, const char *lines, uint32_t flag,
                                uint64_t bytes) {
    uint64_t n = ccl_gpu_lines_count(bytes, CCL_DEVICE_LL_DATA);
    for (uint64_t i = b->lane; i < n; i += b->lanes) {
        CCL_GPU_VECTOR v = ccl_gpu_load_ll(lines + i * CCL_DEVICE_LL_LINE);
        for (uint32_t looks = 1; v.y != flag || v.w != flag; looks++) {
            if (ccl_gpu_lines_stop(run, b, watch, looks))
                return false;
            v = ccl_gpu_load_ll(lines + i * CCL_DEVICE_LL_LINE);
        }
        CCL_GPU_WORD *to = (CCL_GPU_WORD *)(void *)(b->tiles + i * CCL_DEVICE_LL_DATA);
        to[0] = v.x;
        to[1] = v.z;
    }
    return true;
}

/** All lanes of a warp come here as often; of each line 8 lanes have 16 bytes. */
CCL_GPU_FN bool ccl_gpu_read_ll128(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                   ccl_gpu_watch_t *watch, char *lines, uint64_t flag,
                                   uint64_t bytes) {
    uint64_t n = ccl_gpu_lines_count(bytes, CCL_DEVICE_LL128_DATA) * CCL_GPU_LINE_PARTS;
    for (uint64_t first = 0; first < n; first += b->lanes) {
        uint64_t i = first + b->lane, lo = 0, hi = 0;
        uint32_t part = i % CCL_GPU_LINE_PARTS;
        bool active = i < n;
        for (uint32_t looks = 1; !ccl_gpu_look_ll128(lines + 16 * i, part, active, flag, &lo, &hi);
             looks++)
            if (ccl_gpu_any(ccl_gpu_lines_stop(run, b, watch, looks)))
                return false;
        if (!active)
            continue;
        CCL_GPU_WIDE *to =
            (CCL_GPU_WIDE *)(void *)(b->tiles + i / CCL_GPU_LINE_PARTS * CCL_DEVICE_LL128_DATA +
                                     16 * part);
        to[0] = lo;
        if (part + 1 < CCL_GPU_LINE_PARTS)
            to[1] = hi;
    }
    return true;
}

CCL_GPU_FN void ccl_gpu_write_ll(const ccl_gpu_block_t *b, char *lines, uint32_t flag,
                                 uint64_t bytes) {
    uint64_t n = ccl_gpu_lines_count(bytes, CCL_DEVICE_LL_DATA);
    for (uint64_t i = b->lane; i < (n ? n : 1); i += b->lanes) {
        const CCL_GPU_WORD *from =
            (const CCL_GPU_WORD *)(const void *)(b->tiles + CCL_GPU_TILE_BYTES +
                                                 i * CCL_DEVICE_LL_DATA);
        ccl_gpu_store_ll(lines + i * CCL_DEVICE_LL_LINE, from[0], from[1], flag);
    }
}

CCL_GPU_FN void ccl_gpu_write_ll128(const ccl_gpu_block_t *b, char *lines, uint64_t flag,
                                    uint64_t bytes) {
    uint64_t n = ccl_gpu_lines_count(bytes, CCL_DEVICE_LL128_DATA);
    n = (n ? n : 1) * CCL_GPU_LINE_PARTS;
    for (uint64_t first = 0; first < n; first += b->lanes) {
        uint64_t i = first + b->lane;
        uint32_t part = i % CCL_GPU_LINE_PARTS;
        bool active = i < n, last = part + 1 == CCL_GPU_LINE_PARTS;
        const CCL_GPU_WIDE *from =
            (const CCL_GPU_WIDE *)(const void *)(b->tiles + CCL_GPU_TILE_BYTES +
                                                 (active ? i / CCL_GPU_LINE_PARTS *
                                                                   CCL_DEVICE_LL128_DATA +
                                                               16 * part
                                                         : 0));
        ccl_gpu_store_ll128(b, lines + 16 * i, part, active, from[0], last ? flag : from[1]);
    }
}

/** Bytes `from` to `from + bytes` of the data into the first tile. @return false: given up. */
CCL_GPU_FN bool ccl_gpu_lines_read(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                   ccl_gpu_watch_t *watch, const ccl_gpu_lines_t *l, uint64_t from,
                                   uint64_t bytes) {
    char *lines = ccl_gpu_lines_at(l, from);
    return l->protocol == CCL_DEVICE_LL
               ? ccl_gpu_read_ll(run, b, watch, lines, (uint32_t)(l->slice + 1), bytes)
               : ccl_gpu_read_ll128(run, b, watch, lines, l->slice + 1, bytes);
}

/** The second tile into lines; of a slice without data the flag alone. */
CCL_GPU_FN void ccl_gpu_lines_write(const ccl_gpu_block_t *b, const ccl_gpu_lines_t *l,
                                    uint64_t from, uint64_t bytes) {
    char *lines = ccl_gpu_lines_at(l, from);
    if (l->protocol == CCL_DEVICE_LL)
        ccl_gpu_write_ll(b, lines, (uint32_t)(l->slice + 1), bytes);
    else
        ccl_gpu_write_ll128(b, lines, l->slice + 1, bytes);
}

/** After a slice of n bytes (CCL_DEVICE_LL_CLEAN_MASK). */
CCL_GPU_FN void ccl_gpu_lines_clean(const ccl_gpu_block_t *b, const ccl_gpu_lines_t *l,
                                    uint64_t bytes) {
    uint64_t turn = (l->slice + 2 * (uint64_t)l->slots) & CCL_DEVICE_LL_CLEAN_MASK;
    if (l->protocol != CCL_DEVICE_LL || turn >= l->slots)
        return;
    uint64_t n = ccl_gpu_lines_count(bytes, CCL_DEVICE_LL_DATA);
    for (uint64_t i = (n ? n : 1) + b->lane; i < l->slot_bytes / CCL_DEVICE_LL_LINE; i += b->lanes)
        ccl_gpu_store_ll(l->slot + i * CCL_DEVICE_LL_LINE, 0, 0, (uint32_t)(l->slice + 1));
}

/**
 * What is to be done before the tile that begins at byte `from` of a slice is moved: lines that
 * came are in the first tile, and the second one is free. @param recv  NULL: nothing comes.
 * @return false, for all lanes: the run is to be given up.
 */
CCL_GPU_FN bool ccl_gpu_tile_begin(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                   ccl_gpu_life_t *life, const ccl_gpu_lines_t *recv, uint64_t from,
                                   uint64_t bytes) {
    if (recv) {
        bool came = ccl_gpu_lines_read(run, b, &life->watch, recv, from, bytes);
        bool stop = ccl_gpu_barrier_or(b, !came);
        if (b->lane == 0)
            ccl_gpu_charge(run, &life->mark, &life->use.data);
        return !stop;
    }
    if (from > 0)
        ccl_gpu_barrier(b);
    return true;
}

/** The second tile into lines of a slice of `all` bytes. */
CCL_GPU_FN void ccl_gpu_lines_pass(const ccl_gpu_block_t *b, const ccl_gpu_lines_t *l,
                                   uint64_t from, uint64_t bytes, uint64_t all) {
    ccl_gpu_lines_write(b, l, from, bytes);
    if (from + bytes == all)
        ccl_gpu_lines_clean(b, l, all);
}

/** After it: @param send  NULL: nothing is sent. @param all  bytes of the slice. */
CCL_GPU_FN void ccl_gpu_tile_end(const ccl_gpu_block_t *b, const ccl_gpu_lines_t *send,
                                 uint64_t from, uint64_t bytes, uint64_t all) {
    ccl_gpu_barrier(b);
    if (send)
        ccl_gpu_lines_pass(b, send, from, bytes, all);
}

#endif
