/**
 * From ResCCLang text to thread blocks: hierarchical-mesh AllReduce, 8 GPUs a server.
 * usage: bench_lower RANKS [step|rr|hpds]
 * The text is that of ResCCL (SIGCOMM 2025) figure 16 with the numbers of servers and GPUs filled
 * in; parse, analyse, schedule and lower are the phases of its figure 10a.
 */
#include "bench/common.h"
#include "synth/synth.h"

static int fail(const ccl_error_t *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static void write_program(ccl_text_t *t, uint32_t nranks) {
    ccl_text_printf(t,
                    "ResCCLAlgo(nRanks=%u, nChannels=4, nWarps=16, AlgoName=\"HM\", "
                    "OpType=\"Allreduce\", GPUPerNode=8, NICPerNode=8):\n"
                    "    nNodes = %u\n"
                    "    nGpusperNode = 8\n"
                    "    nChunks = nNodes * nGpusperNode\n",
                    nranks, nranks / 8);
    static const char *const loops = "    for n in range(0, nNodes):\n"
                                     "        for r in range(0, nGpusperNode):\n";
    static const char *const body[] = {
        "            for baseStep in range(0, nNodes):\n"
        "                for offset in range(0, nGpusperNode - 1):\n"
        "                    srcRank = nGpusperNode * n + r\n"
        "                    dstRank = (r + offset + 1) % nGpusperNode + nGpusperNode * n\n"
        "                    step = baseStep * (nGpusperNode - 1) + offset\n"
        "                    transfer(srcRank, dstRank, step, (dstRank + baseStep * nGpusperNode) "
        "% nChunks, rrc)\n",
        "            for baseStep in range(0, nNodes - 1):\n"
        "                srcRank = nGpusperNode * n + r\n"
        "                dstRank = (srcRank + nGpusperNode) % nChunks\n"
        "                step = nNodes * (nGpusperNode - 1) + baseStep\n"
        "                transfer(srcRank, dstRank, step, (srcRank + nChunks - baseStep * "
        "nGpusperNode) % nChunks, rrc)\n",
        "            for baseStep in range(0, nNodes - 1):\n"
        "                srcRank = nGpusperNode * n + r\n"
        "                dstRank = (srcRank + nGpusperNode) % nChunks\n"
        "                step = nNodes * (nGpusperNode - 1) + nNodes - 1 + baseStep\n"
        "                chunkId = (srcRank + nChunks - (baseStep + nNodes - 1) * nGpusperNode) % "
        "nChunks\n"
        "                transfer(srcRank, dstRank, step, chunkId, recv)\n",
        "            for baseStep in range(0, nNodes):\n"
        "                for offset in range(0, nGpusperNode - 1):\n"
        "                    srcRank = nGpusperNode * n + r\n"
        "                    dstRank = (r + offset + 1) % nGpusperNode + nGpusperNode * n\n"
        "                    step = nNodes * (nGpusperNode - 1) + 2 * nNodes - 2 + baseStep\n"
        "                    transfer(srcRank, dstRank, step, (srcRank + baseStep * nGpusperNode) "
        "% nChunks, recv)\n"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(body); i++) {
        ccl_text_add(t, loops, strlen(loops));
        ccl_text_add(t, body[i], strlen(body[i]));
    }
}

int main(int argc, char **argv) {
    ccl_order_t order = CCL_ORDER_HPDS;
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    static const char *const orders[] = {"step", "rr", "hpds"};
    bool known = argc < 3;
    for (unsigned i = 0; i < CCL_ARRAY_LEN(orders) && !known; i++) {
        known = strcmp(argv[2], orders[i]) == 0;
        order = (ccl_order_t)i;
    }
    if (!known || n < 16 || n % 8) {
        fprintf(stderr,
                "usage: bench_lower RANKS [step|rr|hpds]  (RANKS a multiple of 8 from 16)\n");
        return 2;
    }
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};
    ccl_topology_t *topo = bench_cluster(n, false, NULL);
    ccl_schedule_t *schedule = NULL, *ordered = NULL;
    ccl_program_t *program = NULL;
    ccl_lower_stats_t stats = {0};
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    lower.no_fuse = true; /* as at task level */
    write_program(&text, n);
    if (!topo)
        return 1;
    double t0 = ccl_now_s(), cpu_s = bench_cpu_s();
    if (ccl_schedule_read_resccl("figure 16", text.data, text.len, &schedule, &err) != CCL_OK)
        return fail(&err);
    double t1 = ccl_now_s();
    double parsed_mb = bench_peak_mb();
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
    wish.topo = topo;
    wish.order = order;
    if (ccl_schedule_order(NULL, schedule, &wish, &ordered, NULL, &stats, &err) != CCL_OK)
        return fail(&err);
    double t2 = ccl_now_s(), ordered_mb = bench_peak_mb();
    if (ccl_lower(NULL, ordered, &lower, &program, &err) != CCL_OK)
        return fail(&err);
    double t3 = ccl_now_s();
    cpu_s = bench_cpu_s() - cpu_s;
    printf("%s %u ranks: %u transfers, %u sub-pipelines, %u blocks\n", orders[order], n,
           schedule->ntransfers, stats.pipelines, program->ntbs);
    printf("parse %.3f s, analyse %.3f s, schedule %.3f s, lower %.3f s, all %.3f s (%.3f s of "
           "CPU); peak %.0f MB "
           "(%.0f parsed, %.0f ordered)\n",
           t1 - t0, stats.analyse_s, t2 - t1 - stats.analyse_s, t3 - t2, t3 - t0, cpu_s,
           bench_peak_mb(), parsed_mb, ordered_mb);
    ccl_program_destroy(program);
    ccl_schedule_destroy(ordered);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
    ccl_text_fini(&text);
    return 0;
}
