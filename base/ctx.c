/** @file ctx.c Logging, progress and cancellation through the caller's context. */
#include "base/base.h"

#include "base/clocale.h"

void ccl_log(const ccl_ctx_t *ctx, ccl_log_level_t level, const char *subsystem, const char *fmt,
             ...) {
    if (!ctx || !ctx->log)
        return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    ccl_i_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ctx->log(level, subsystem, text, ctx->log_user);
}

ccl_status_t ccl_ctx_poll(const ccl_ctx_t *ctx, const ccl_progress_t *progress) {
    if (!ctx)
        return CCL_OK;
    if (ctx->cancel && __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED))
        return CCL_INTERRUPTED;
    if (ctx->progress && progress && ctx->progress(progress, ctx->progress_user))
        return CCL_INTERRUPTED;
    return CCL_OK;
}
