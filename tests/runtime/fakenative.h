/* What the fake devices' streams are to a fake library (fakenccl.c), as a CUstream is to NCCL. */
#ifndef CCL_TESTS_RUNTIME_FAKENATIVE_H
#define CCL_TESTS_RUNTIME_FAKENATIVE_H

#include <stdint.h>

/* Their memory is the host's with another address, so that whoever forgets to copy is found. */
#define AWAY ((uintptr_t)1 << 40)
/* The number of the calling thread's current device. */
#define FAKE_CURRENT "CCL_TEST_CURRENT_DEVICE"

typedef struct fake_native {
    void *stream;
    int (*call)(void *stream, void (*fn)(void *user), void *user); /* in order, not at once */
} fake_native_t;

#endif
