/**
 * @file multimem.h
 * Loads and stores of multicast memory, which the interpreter of blocks.h wants of a machine. Who
 * hands over an address of such memory has asked multicast_reduces first; where there is none (HIP,
 * before sm_90) nobody does.
 *
 * @par Source  PTX ISA, multimem.ld_reduce and multimem.st.
 */
#ifndef CCL_RUNTIME_GPU_MULTIMEM_H
#define CCL_RUNTIME_GPU_MULTIMEM_H

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CCL_GPU_MULTI_LOAD(what_)                                                                  \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." what_ " {%0,%1,%2,%3}, [%4];"            \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                                      \
                 : "l"(at)                                                                         \
                 : "memory")
#define CCL_GPU_MULTI_WORD(what_, word_, at_)                                                      \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." what_ " %0, [%1];"                       \
                 : "=r"(word_)                                                                     \
                 : "l"(at_)                                                                        \
                 : "memory")
#define CCL_GPU_MULTI_WORDS(what_)                                                                 \
    do {                                                                                           \
        CCL_GPU_MULTI_WORD(what_, v.x, at);                                                        \
        CCL_GPU_MULTI_WORD(what_, v.y, at + 4);                                                    \
        CCL_GPU_MULTI_WORD(what_, v.z, at + 8);                                                    \
        CCL_GPU_MULTI_WORD(what_, v.w, at + 12);                                                   \
    } while (0)
/* Numbers of types and reductions are those of move.h: int32, fp32, fp16, bf16; sum, min, max. */
CCL_GPU_FN uint4 ccl_gpu_multi_load(uint32_t type, uint32_t op, const char *at) {
    uint4 v;
    if (type == 0 && op == 0)
        CCL_GPU_MULTI_WORDS("add.u32");
    else if (type == 0 && op == 1)
        CCL_GPU_MULTI_WORDS("min.s32");
    else if (type == 0)
        CCL_GPU_MULTI_WORDS("max.s32");
    else if (type == 1)
        CCL_GPU_MULTI_LOAD("add.v4.f32");
    else if (type == 2 && op == 0)
        CCL_GPU_MULTI_LOAD("add.acc::f32.v4.f16x2");
    else if (type == 2 && op == 1)
        CCL_GPU_MULTI_LOAD("min.v4.f16x2");
    else if (type == 2)
        CCL_GPU_MULTI_LOAD("max.v4.f16x2");
    else if (op == 0)
        CCL_GPU_MULTI_LOAD("add.acc::f32.v4.bf16x2");
    else if (op == 1)
        CCL_GPU_MULTI_LOAD("min.v4.bf16x2");
    else
        CCL_GPU_MULTI_LOAD("max.v4.bf16x2");
    return v;
}
CCL_GPU_FN void ccl_gpu_multi_store(char *at, uint4 v) {
    asm volatile("multimem.st.relaxed.sys.global.v4.f16x2 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x),
                 "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
#else
CCL_GPU_FN uint4 ccl_gpu_multi_load(uint32_t, uint32_t, const char *) {
    uint4 none = {0, 0, 0, 0};
    return none;
}
CCL_GPU_FN void ccl_gpu_multi_store(char *, uint4) {
}
#endif

#endif
