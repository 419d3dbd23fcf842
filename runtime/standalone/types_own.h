/* ---------------------------------------------------------------- communicators of one host */

/** Numbers of ncclResult_t, ncclDataType_t and ncclRedOp_t. */
typedef enum {
    ccllabSuccess = 0,
    ccllabUnhandledCudaError = 1,
    ccllabSystemError = 2,
    ccllabInternalError = 3,
    ccllabInvalidArgument = 4,
    ccllabInvalidUsage = 5
} ccllabResult_t;
typedef enum {
    ccllabInt32 = 2,
    ccllabFloat16 = 6,
    ccllabFloat32 = 7,
    ccllabBfloat16 = 9
} ccllabDataType_t;
typedef enum { ccllabSum = 0, ccllabMax = 2, ccllabMin = 3 } ccllabRedOp_t;
typedef struct ccllabComm *ccllabComm_t;

typedef struct ccl_no_reach {
    int unused;
} ccl_no_reach_t;
#define CCL_REACH ccl_no_reach_t
