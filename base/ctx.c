/** @file ctx.c Logging, progress, cancellation and counts of work through the caller's context. */
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

void ccl_ctx_count(const ccl_ctx_t *ctx, uint64_t events) {
    if (!ctx || !ctx->work)
        return;
    __atomic_fetch_add(&ctx->work->runs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&ctx->work->events, events, __ATOMIC_RELAXED);
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
