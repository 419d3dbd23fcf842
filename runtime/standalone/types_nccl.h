#include <nccl.h>
#include <nccl_device.h>

typedef ncclResult_t ccllabResult_t;
typedef ncclDataType_t ccllabDataType_t;
typedef ncclRedOp_t ccllabRedOp_t;
typedef struct ccllabComm *ccllabComm_t;
#define ccllabSuccess ncclSuccess
#define ccllabUnhandledCudaError ncclUnhandledCudaError
#define ccllabSystemError ncclSystemError
#define ccllabInternalError ncclInternalError
#define ccllabInvalidArgument ncclInvalidArgument
#define ccllabInvalidUsage ncclInvalidUsage
#define ccllabInt32 ncclInt32
#define ccllabFloat16 ncclFloat16
#define ccllabFloat32 ncclFloat32
#define ccllabBfloat16 ncclBfloat16
#define ccllabSum ncclSum
#define ccllabMax ncclMax
#define ccllabMin ncclMin
