/* Which options each command has: the table of the command line's own, and those of the library. */
#include "cli/options.h"

#include <string.h>

#define AT(member_) offsetof(ccl_i_args_t, member_)

static const ccl_i_own_option_t options[] = {
    {"topology", 't', KIND_TEXT, AT(topology), "SPEC",
     "cluster: a file (our JSON, HeteCCL DSL, NCCL XML), a name of the library (ccllab topology "
     "list), a one-liner such as 'servers:2 gpus:8 nvswitch=300GB/s nics:4x25GB/s', or - for stdin",
     NULL},
    {"fail", 0, KIND_EDIT, AT(edits), "WHAT",
     "take something away first: gpu:3 or rank:3, nic:0, server:1, any device's id, or A-B, a "
     "link; "
     "may be repeated",
     NULL},
    {"degrade", 0, KIND_EDIT, AT(edits), "WHAT=RATE",
     "slow links: A-B=18Gbit/s those between A and B, one direction A->B=...; nic:0=50% or "
     "server:1=50% all of a device or server; may be repeated",
     NULL},
    {"scale", 0, KIND_EDIT, AT(edits), "WHAT=X",
     "multiply bandwidth, latency, contention, overhead, tb_rate, slots, reduce_rate, copy_rate, "
     "flag or launch: bandwidth:net=2 (kind), bandwidth:net@s0=2 (of a server), latency:a-b=0.5, "
     "tb_rate=inf; may be repeated",
     NULL},
    {"set", 0, KIND_EDIT, AT(edits), "KEY=VALUE",
     "give a constant of the transports another value: slice, slices, piece, slots, latency, "
     "overhead, tb_rate, mechanism, copy_in, copy_out, direct, holds_tb, of one kind of link as "
     "slice:net=512K; of the GPUs: blocks (thread blocks at most), reduce_rate, copy_rate, flag, "
     "launch; of switches, with links of a kind as in_switch:nvlink=false: multicast, reduce, "
     "in_switch (both); may be repeated",
     NULL},
    {"profile", 0, KIND_TEXT, AT(profile), "P",
     "measured constants in place of the cluster's: a profile file (ccllab calibrate), a name of "
     "the library (nccl-a100, nccl-h100, nccl-h200 ...), or none; without it the library's for "
     "these GPUs",
     NULL},
    {"from-nccl-tests", 0, KIND_TEXT, AT(from_nccl_tests), "LOG",
     "output of nccl-tests or rccl-tests, or a table of such runs, to fit: the same as FILE", NULL},
    {"topology@measured", 't', KIND_LIST, AT(topologies), "SPEC",
     "cluster, as for other commands; may be repeated: a run is on the first that has its ranks",
     NULL},
    {"hold-out", 0, KIND_TEXT, AT(hold_out), "50%|sizes|runs",
     "fit the other points alone, and print first how well these are predicted: a random half by "
     "--seed, every second size of a run, every second run",
     NULL},
    {"measured", 0, KIND_LIST, AT(measured), "FILE",
     "predict these measured runs, without a device; may be repeated", NULL},
    {"ranks", 0, KIND_U32, AT(ranks), "N", "only measured runs on this number of ranks", NULL},
    {"run", 0, KIND_U32, AT(run), "N", "only the N-th of the measured runs, from 1", NULL},
    {"channels@measured", 0, KIND_U32, AT(nccl_channels), "N",
     "channels of the NCCL that was measured (as many as NCCL thinks best)", NULL},
    {"in-place", 0, KIND_FLAG, AT(in_place), NULL, "take the in-place columns", NULL},
    {"registered", 0, KIND_FLAG, AT(registered), NULL,
     "users' buffers are registered with NCCL: NVLS copies nothing in or out", NULL},
    {"name", 0, KIND_TEXT, AT(name), "NAME", "name of the profile (that of its file)", NULL},
    {"source", 0, KIND_TEXT, AT(source), "TEXT", "where the measured run comes from (its title)",
     NULL},
    {"collective", 'c', KIND_TEXT, AT(collective), "NAME",
     "allreduce, allgather, reducescatter, alltoall, broadcast, reduce, gather, scatter, sendrecv",
     NULL},
    {"collective@thresholds", 'c', KIND_TEXT, AT(collective), "NAME,...",
     "any of the collectives (allreduce,allgather,reducescatter,alltoall)", NULL},
    {"demand", 0, KIND_TEXT, AT(demand), "FILE",
     "a demand file instead of a named collective: chunks with sources, destinations, bytes", NULL},
    {"experts", 0, KIND_U32, AT(moe.experts), "N", "experts of the layer (256)", NULL},
    {"top-k", 0, KIND_U32, AT(moe.top_k), "K", "different experts that a token goes to (8)", NULL},
    {"hidden", 0, KIND_U32, AT(moe.hidden), "N", "elements of a token (7168)", NULL},
    {"tokens", 0, KIND_U32, AT(moe.tokens), "N", "tokens of each GPU (4096)", NULL},
    {"element", 0, KIND_BYTES, AT(moe.element), "BYTES",
     "of an element on its way: 1 for FP8, 2 for BF16 (2)", NULL},
    {"skew", 0, KIND_TEXT, AT(moe.skew), "zipf:T|gini:G|even|FILE",
     "popularity of experts: the r-th has r^-T; a Gini coefficient; a file with a number for each "
     "(even)",
     NULL},
    {"placement", 0, KIND_CHOICE, AT(moe.placement), "HOW",
     "which GPU has which expert: block, neighbours together; spread, in turn; balanced, by "
     "popularity; optimised, by search for this cluster and these tokens (block)",
     CCL_OPTION_WORDS("block", "spread", "balanced", "optimised")},
    {"affinity", 0, KIND_TEXT, AT(moe.affinity), "PERCENT",
     "share of a token's further experts that are of the first one's circle, top-k experts that "
     "are "
     "often chosen together (0%)",
     NULL},
    {"write-placement", 0, KIND_TEXT, AT(moe.write_placement), "FILE",
     "write which GPUs have each expert, as JSON", NULL},
    {"copies", 0, KIND_U32, AT(moe.copies), "N",
     "further copies of experts, each of the one whose copies have most to do (0)", NULL},
    {"combine", 0, KIND_FLAG, AT(moe.combine), NULL,
     "the way back: what a server's experts return of a token is summed there", NULL},
    {"unshared", 0, KIND_FLAG, AT(moe.unshared), NULL,
     "each GPU's copy of a token is a chunk of its own", NULL},
    {"root", 0, KIND_U32, AT(root), "RANK", "root of broadcast, reduce, gather, scatter (0)", NULL},
    {"with", 'w', KIND_TEXT, AT(with), "NAME",
     "synthesizers (ccllab algos lists them), or nccl: what stock NCCL runs, rccl on AMD", NULL},
    {"scenario", 0, KIND_TEXT, AT(vary.scenario), "FILE",
     "times over samples of a cluster that varies: a file of the form ccllab/scenarios/1, or what "
     "varies, such as 'rate@net/device=normal(1,0.05); launch=gamma(20us,2); fail:nic:0~1%'",
     NULL},
    {"samples", 0, KIND_U32, AT(vary.samples), "N", "samples of the scenario (1000)", NULL},
    {"rank@samples", 0, KIND_TEXT, AT(vary.rank), "BY",
     "choose winners over the samples: by mean, p50, p95, p99 or any pN, cvarN (mean of the "
     "slowest "
     "100 - N percent) or regret (most behind the fastest of a sample); without it by the time on "
     "the cluster as drawn",
     NULL},
    {"plugin", 0, KIND_LIST, AT(plugins), "FILE",
     "a synthesizer of yours, from a shared object; may be repeated (also those that "
     "CCLLAB_PLUGINS "
     "names, separated by colons)",
     NULL},
    {"program", 'p', KIND_LIST, AT(programs), "FILE",
     "a program or schedule of yours as a further contender; may be repeated", NULL},
    {"schedule", 0, KIND_LIST, AT(schedules), "FILE[+hpds]",
     "a schedule of yours as a further contender; +hpds: in HPDS order, blocks by state, task "
     "level; may be repeated",
     NULL},
    {"size", 's', KIND_BYTES, AT(size_bytes), "BYTES",
     "largest buffer of a rank as in nccl-tests: 64M and 64MiB are 64 x 2^20 bytes, 64MB is 64 x "
     "10^6",
     NULL},
    {"sizes", 's', KIND_TEXT, AT(sizes), "LIST",
     "FIRST:LAST doubles at each step, FIRST:LAST:FACTOR multiplies, A,B,C as given (1K:1G)", NULL},
    {"sizes@thresholds", 's', KIND_TEXT, AT(sizes), "LIST",
     "FIRST:LAST doubles at each step, FIRST:LAST:FACTOR multiplies, A,B,C as given (1M:4G:4)",
     NULL},
    {"plan", 0, KIND_TEXT, AT(train.plan), "FILE",
     "what is trained and how it is spread (ccllab-training-1, docs/formats.md)", NULL},
    {"speeds", 0, KIND_TEXT, AT(train.speeds), "WHO=X,...",
     "training micro-batches of the whole model that a GPU does in a second; who: all, a vendor, "
     "GPU model, "
     "server or GPU (the plan's)",
     NULL},
    {"most", 0, KIND_TEXT, AT(train.most), "WHO=N,...",
     "the most training micro-batches that a GPU may get in a step (what memory leaves)", NULL},
    {"total", 0, KIND_U32, AT(train.total), "N", "training micro-batches of a step (the plan's)",
     NULL},
    {"rule", 0, KIND_CHOICE, AT(train.rule), "RULE",
     "remainder: in proportion, leftovers by largest remainder; makespan: the slowest is done as "
     "early as can be; equal (remainder)",
     CCL_OPTION_WORDS("remainder", "makespan", "equal")},
    {"explain-capacities", 0, KIND_FLAG, AT(explain), NULL,
     "cegis: print the chunks that hops, links and groups carry in a step, and stop", NULL},
    {"format", 0, KIND_TEXT, AT(format), "json|xml|flagcx",
     "what -o - prints: the schedule (json) or the program (xml) (json); flagcx: plans between "
     "clusters for FlagCX, PREFIX_RANK.xml of -o PREFIX",
     NULL},
    {"all", 0, KIND_FLAG, AT(all), NULL,
     "every order, allocation and granularity of which none is named", NULL},
    {"over-time", 0, KIND_FLAG, AT(over_time), NULL,
     "a table of the bounds over the size, 1K to 1G", NULL},
    {"all@failover", 0, KIND_FLAG, AT(all), NULL,
     "ask all again after each failure, however slow they are on the whole cluster", NULL},
    {"all@notebook", 0, KIND_FLAG, AT(all), NULL, "every point, not only those of other builds",
     NULL},
    {"budget", 0, KIND_TEXT, AT(tune.budget), "TIME|RUNS",
     "stop after this time (30s, 5min), or after this many runs (500runs) (60s)", NULL},
    {"space", 0, KIND_TEXT, AT(tune.space), "FILE",
     "knobs and their values, as JSON (channels, chunks, order, allocation, granularity)", NULL},
    {"knob", 'k', KIND_LIST, AT(tune.knobs), "NAME=VALUES",
     "values of one knob: with=ring,greedy, channels=auto,1:16, tau_ref=1us:64us:4, 'chunks=1:8 "
     "when with=greedy'; may be repeated",
     NULL},
    {"strategy", 0, KIND_CHOICE, AT(tune.strategy), "HOW",
     "halving: estimates of many, runs of few; grid: all points; random: points drawn (halving)",
     CCL_OPTION_WORDS("halving", "grid", "random")},
    {"improve", 0, KIND_U32, AT(tune.improve), "N",
     "in the end change the transfers of each size's best schedule, N tries (0)", NULL},
    {"replay", 0, KIND_TEXT, AT(tune.replay), "DEVICE",
     "run the best of each size on host[:WORKERS], cuda or hip, fit the cluster's constants to "
     "what was measured and rank them again",
     NULL},
    {"save-profile", 0, KIND_TEXT, AT(tune.save_profile), "FILE",
     "write the constants that a replay fitted as a profile", NULL},
    {"top", 0, KIND_U32, AT(tune.top), "K",
     "the best K of each size are replayed (3), or timed over samples (8)", NULL},
    {"vary", 0, KIND_LIST, AT(tune.vary), "EDIT",
     "a further cluster: the first one with fail:gpu:3, degrade:nic:0=25%,50%, "
     "scale:bandwidth:net=0.5,2 or set:slots=2,8 (one per value); may be repeated",
     NULL},
    {"over", 0, KIND_CHOICE, AT(tune.over), "AXIS",
     "what a picture shows: busbw over size, time over the values of --vary, or the latter where "
     "one --vary with several values is all there is (auto)",
     CCL_OPTION_WORDS("auto", "size", "value")},
    {"export", 0, KIND_TEXT, AT(tune.export), "DIR",
     "write the best programs per range of sizes (MSCCL XML, MSCCL++ plans), ring orders "
     "(NCCL_GRAPH_FILE) and a table for NCCL's tuner plugin to this folder",
     NULL},
    {"export@failover", 0, KIND_TEXT, AT(tune.export), "DIR",
     "write each program (MSCCL XML) to this folder, and the result as index.json, which names "
     "them",
     NULL},
    {"export@thresholds", 0, KIND_TEXT, AT(tune.export), "DIR",
     "also write thresholds.json and thresholds.csv to this folder", NULL},
    {"margin", 0, KIND_TEXT, AT(accept.margin), "PERCENT",
     "how much less than the expected busbw is accepted (20%)", NULL},
    {"check", 0, KIND_TEXT, AT(accept.check), "FILE|DIR",
     "thresholds that measured runs are held against: thresholds.json, or its folder", NULL},
    {"follow", 0, KIND_FLAG, AT(watch.follow), NULL, "go on reading while files grow", NULL},
    {"interval", 0, KIND_SECONDS, AT(watch.interval_s), "TIME",
     "--follow: least time between two tables (5s)", NULL},
    {"window", 0, KIND_U32, AT(watch.window), "N", "the latest calls of a size that count (200)",
     NULL},
    {"kinds", 0, KIND_TEXT, AT(kinds), "LIST",
     "what may fail: nic, link, gpu, server with commas between (all)", NULL},
    {"tuner-plugin", 0, KIND_TEXT, AT(tune.tuner_plugin), "DIR",
     "write a tuner plugin for NCCL and RCCL (NCCL_TUNER_PLUGIN) to this folder: its C source, "
     "and, "
     "where there is a C compiler ($CC, cc), libnccl-tuner-ccllab.so",
     NULL},
    {"plans", 0, KIND_TEXT, AT(tune.plans), "DIR",
     "write the best programs per range of sizes as execution plans of MSCCL++ to this folder, "
     "with "
     "a module that registers them",
     NULL},
    {"gap", 0, KIND_TEXT, AT(tune.gap), "PERCENT",
     "a size is done when its time is so near to the lower bound (1%)", NULL},
    {"gap@compare", 0, KIND_TEXT, AT(tune.gap), "PERCENT",
     "where a time is so near to the lower bound the race of that size is over: synthesizers that "
     "search run one after the other, and none after that (all run; winners within 2% are named as "
     "proven)",
     NULL},
    {"notebook@tune", 0, KIND_TEXT, AT(notebook), "FILE|URL|none",
     "the lab notebook, a file or a database, postgresql://HOST/NAME (ccllab/notebook.db where "
     "XDG_DATA_HOME says)",
     NULL},
    {"notebook@compare", 0, KIND_TEXT, AT(notebook), "FILE|URL|none",
     "take times from this lab notebook and write new ones there, as tune does (none)", NULL},
    {"notebook", 0, KIND_TEXT, AT(notebook), "FILE|URL",
     "the lab notebook, with all that was tried: a file, or postgresql://HOST/NAME "
     "(ccllab/notebook.db where XDG_DATA_HOME says)",
     NULL},
    {"blocks", 0, KIND_FLAG, AT(blocks), NULL, "also a table of every thread block of a rank",
     NULL},
    {"rank", 0, KIND_TEXT, AT(rank), "N|all", "--blocks: of this rank, or of all (the busiest)",
     NULL},
    {"no-verify", 0, KIND_FLAG, AT(no_verify), NULL, "simulate what was not proven right", NULL},
    {"flows", 0, KIND_TEXT, AT(flows), "FILE",
     "a flow list instead of a program: a plain network run; or TE-CCL's epoch flows, replayed "
     "link "
     "by link",
     NULL},
    {"unicast", 0, KIND_FLAG, AT(unicast), NULL,
     "epoch flows: switches do not copy, every flow is sent by itself", NULL},
    {"trace", 0, KIND_TEXT, AT(trace), "FILE",
     "write a Chrome trace of the run (open it at ui.perfetto.dev)", NULL},
    {"slots", 0, KIND_U32, AT(slots), "N",
     "FIFO depth of the deadlock check (Simple 2, LL and LL128 8)", NULL},
    {"device", 0, KIND_TEXT, AT(job.device), "host|cuda|hip|auto",
     "where it runs (host); auto: what a process finds; cuda*4,host*2: by rank", NULL},
    {"kernel", 0, KIND_CHOICE, AT(job.kernel), "K",
     "interpreter: one kernel reads the program; generated: one written and compiled for it; both, "
     "and the ratio (interpreter)",
     CCL_OPTION_WORDS("interpreter", "generated", "both")},
    {"with-ccl", 0, KIND_CHOICE, AT(job.library), "LIBRARY",
     "besides, the same collective by the vendor's library: auto, nccl or rccl (none)",
     CCL_OPTION_WORDS("none", "auto", "nccl", "rccl")},
    {"hom-ccl", 0, KIND_CHOICE, AT(job.hom), "LIBRARY",
     "inside clusters of one vendor, before and after what crosses between vendors, the "
     "vendor's library instead of the program: auto, nccl or rccl (none)",
     CCL_OPTION_WORDS("none", "auto", "nccl", "rccl")},
    {"kernel@calibrate", 0, KIND_CHOICE, AT(job.kernel), "K",
     "of a GPU: interpreter or generated (interpreter)",
     CCL_OPTION_WORDS("interpreter", "generated")},
    {"emit-kernel", 0, KIND_TEXT, AT(job.emit_kernel), "FILE",
     "write the generated kernel of the last size there", NULL},
    {"cuda", 0, KIND_TEXT, AT(kernel.cuda), "FILE.cu",
     "write the program as one CUDA source, which needs nothing of ccllab", NULL},
    {"hip", 0, KIND_TEXT, AT(kernel.hip), "FILE.cpp", "the same for HIP", NULL},
    {"api", 0, KIND_CHOICE, AT(kernel.api), "API",
     "how ranks reach each other: own (one host, nothing but CUDA or HIP) or nccl (NCCL's device "
     "API, 2.28 and newer) (own)",
     CCL_OPTION_WORDS("own", "nccl")},
    {"type", 0, KIND_CHOICE, AT(job.type), "T", "int32, fp32, fp16 or bf16 (fp32)",
     CCL_OPTION_WORDS("fp32", "int32", "fp16", "bf16")},
    {"op", 0, KIND_CHOICE, AT(job.op), "OP", "reduction: sum, min or max (sum)",
     CCL_OPTION_WORDS("sum", "min", "max")},
    {"repeats", 0, KIND_U32, AT(job.repeats), "N", "measured runs (9)", NULL},
    {"warmups", 0, KIND_U32, AT(job.warmups), "N", "runs before them, checked, not measured (1)",
     NULL},
    {"slots@run", 0, KIND_U32, AT(slots), "N", "FIFO depth in slices (8)", NULL},
    {"slice", 0, KIND_BYTES, AT(job.slice_bytes), "BYTES",
     "most bytes of a slice (32K, less where FIFOs would need too much memory)", NULL},
    {"slices", 0, KIND_U32, AT(job.slices), "N", "least slices of a primitive (1)", NULL},
    {"no-check", 0, KIND_FLAG, AT(job.no_check), NULL, "do not look at the data", NULL},
    {"watchdog", 0, KIND_SECONDS, AT(job.watchdog_s), "TIME",
     "stop when nothing has moved for this long (10s)", NULL},
    {"ranks@run", 0, KIND_CHOICE, AT(job.ranks), "HOW",
     "threads: all in this process; processes: children run them (threads)",
     CCL_OPTION_WORDS("threads", "processes")},
    {"ranks@calibrate", 0, KIND_TEXT, AT(host.ranks), "N|threads|processes",
     "only the measured run on this number of ranks; of the host: how its ranks run (threads)",
     NULL},
    {"suite", 0, KIND_TEXT, AT(host.suite), "default|FILE",
     "what is run: a line is a collective, a synthesizer, ranks, perhaps channels; or the path of "
     "a "
     "program (default)",
     NULL},
    {"keep", 0, KIND_TEXT, AT(host.keep), "FILE",
     "finished measurements: those in it are not repeated, new ones are added", NULL},
    {"footprints", 0, KIND_TEXT, AT(host.footprints), "LIST",
     "bytes of all ranks' buffers at which passes are measured (256K:64M:4)", NULL},
    {"testbed", 0, KIND_TEXT, AT(testbed.cluster), "CLUSTER",
     "in an emulated cluster: the name of a testbed that is up, or a cluster, emulated meanwhile",
     NULL},
    {"rate-max", 0, KIND_TEXT, AT(testbed.rate_max), "RATE",
     "of the server with the fastest NICs; the others in proportion, all together at most 4 Gbit/s "
     "(1Gbit/s)",
     NULL},
    {"calibrate", 0, KIND_FLAG, AT(testbed.calibrate), NULL,
     "measure the constants here, in such a testbed, instead of taking the default ones", NULL},
    {"name@testbed", 0, KIND_TEXT, AT(name), "NAME", "name of the testbed (default)", NULL},
    {"topology@validate", 't', KIND_LIST, AT(topologies), "SPEC",
     "of --measured: the cluster, as for other commands; may be repeated: a run is on the first "
     "that has its ranks; of --testbed: the emulated one, as testbed topology writes it (measured "
     "first)",
     NULL},
    {"processes", 0, KIND_U32, AT(job.processes), "N", "number of child processes (one per rank)",
     NULL},
    {"transport", 0, KIND_CHOICE, AT(job.transport), "T",
     "between processes: shm, tcp or verbs, which is RDMA (shm; a job on several machines: tcp)",
     CCL_OPTION_WORDS("shm", "tcp", "verbs")},
    {"rdma", 0, KIND_TEXT, AT(job.rdma), "DEVICE[:PORT[:GID]]",
     "the RDMA device of --transport verbs, its port, and the index of its address (the first "
     "active port, its IPv4 address)",
     NULL},
    {"bootstrap", 0, KIND_CHOICE, AT(job.bootstrap), "HOW",
     "how processes find each other: root (--world, --rank, --rendezvous), env (a launcher's, "
     "--rendezvous), mpi "
     "(auto: what is given; else mpi under mpirun or srun)",
     CCL_OPTION_WORDS("auto", "root", "env", "mpi")},
    {"bootstrap@tune", 0, KIND_CHOICE, AT(job.bootstrap), "HOW",
     "whether processes that mpirun or srun started do one work together, through the lab "
     "notebook; none: each alone (auto)",
     CCL_OPTION_WORDS("auto", "none")},
    {"lease", 0, KIND_SECONDS, AT(lab.lease_s), "TIME",
     "a process that gives no sign of life for this time loses its work to others (30s)", NULL},
    {"idle", 0, KIND_SECONDS, AT(lab.idle_s), "TIME",
     "end when there was no work for this time (never)", NULL},
    {"idle@watch", 0, KIND_SECONDS, AT(lab.idle_s), "TIME",
     "--follow: end when nothing new came for this time (never)", NULL},
    {"world", 0, KIND_U32, AT(job.world), "N",
     "this is one of N processes of a job that were started apart (by srun or mpirun: from the "
     "environment)",
     NULL},
    {"rank@job", 0, KIND_U32, AT(job.rank), "I", "which of them, from 0", NULL},
    {"rendezvous", 0, KIND_TEXT, AT(job.root), "HOST:PORT", "where process 0 of the job listens",
     NULL},
    {"blocks@run", 0, KIND_FLAG, AT(blocks), NULL,
     "one more run in which every thread block is timed", NULL},
    {"heat", 0, KIND_TEXT, AT(heat), "FILE",
     "colour links by their utilisation in a run of this program or schedule", NULL},
    {"width", 0, KIND_U32, AT(width_px), "PIXELS",
     "scale the picture to this width (a pixel per unit of its own)", NULL},
    {"rows@draw", 0, KIND_CHOICE, AT(draw_rows), "WHAT",
     "a row per block, gpu, server, link or phase (auto: by how many there are)",
     CCL_OPTION_WORDS("auto", "block", "gpu", "server", "link", "phase")},
    {"unfolded", 0, KIND_FLAG, AT(unfolded), NULL, "rows that look alike one by one", NULL},
    {"rank@draw", 0, KIND_TEXT, AT(rank), "N|all", "only thread blocks of this rank (all)", NULL},
    {"rank@idle", 0, KIND_TEXT, AT(rank), "N", "blocks of this rank (the GPU with the most)", NULL},
    {"question", 0, KIND_TEXT, AT(question), "TEXT", "title of the page (made of the results)",
     NULL},
    {"colour", 0, KIND_CHOICE, AT(draw_colour), "BY",
     "state: busy, or what is waited for; of links, their use; chunk: what is moved (state)",
     CCL_OPTION_WORDS("state", "chunk")},
    {"path", 0, KIND_FLAG, AT(path), NULL, "also every segment of the critical path", NULL},
    {"no-what-if", 0, KIND_FLAG, AT(no_what_if), NULL, "do not try what would help", NULL},
    {"table", 0, KIND_TEXT, AT(table), "NAME", "which table --csv prints", NULL},
    {"rows", 0, KIND_U32, AT(rows), "N", "rows of the tables of busiest things (8)", NULL},
    {"output", 'o', KIND_TEXT, AT(output), "FILE",
     "write the result there instead of to standard output (-)", NULL},
    {"json", 0, KIND_FLAG, AT(json), NULL, "print JSON", NULL},
    {"csv", 0, KIND_FLAG, AT(csv), NULL, "print CSV", NULL},
    {"seed", 0, KIND_U64, AT(seed), "N", "seed of everything random (1)", NULL},
    {"threads", 'j', KIND_U32, AT(threads), "N", "threads (one per core)", NULL},
    {"progress", 0, KIND_TEXT_OR_NONE, AT(progress), "json",
     "progress on stderr also without a terminal; =json for one object a line", NULL},
    {"quiet", 'q', KIND_FLAG, AT(quiet), NULL, "no warnings, no progress", NULL},
    {"verbose", 'v', KIND_REPEATED, AT(verbose), NULL, "say more on stderr; twice for details",
     NULL},
    {"help", 'h', KIND_FLAG, AT(help), NULL, "this help", NULL},
};

static const char *const everywhere[] = {"output",   "json",  "csv",     "seed", "threads",
                                         "progress", "quiet", "verbose", "help", NULL};

/** Older names of options, taken and not shown; those of tables stand there. */
static const struct { const char *old, *name; } aliases[] = {{"root", "rendezvous"}};

static const ccl_i_own_option_t *find_own(const char *name) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(options); i++) {
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    }
    return NULL;
}

size_t ccl_i_spelled_len(const char *name) {
    return strcspn(name, "@");
}

/** Of the tables of runs, lowering and what all synthesizers have. */
static bool find_common(const char *name, ccl_i_option_entry_t *out) {
    const struct {
        const ccl_option_t *table;
        size_t base;
    } tables[] = {{ccl_sim_option_table, AT(sim)},
                  {ccl_lower_option_table, AT(lower)},
                  {ccl_synth_option_table(0), AT(synth)}};

    for (size_t i = 0; i < CCL_ARRAY_LEN(tables); i++) {
        const ccl_option_t *o = ccl_option_find(tables[i].table, name, strlen(name));

        if (o && !(o->flags & CCL_OPTION_KNOB_ONLY)) {
            *out = (ccl_i_option_entry_t){.of = o, .base = tables[i].base};
            return true;
        }
    }
    return false;
}

/** All of a table, one after the other. @param files  also what is written. */
static size_t add_table(const ccl_option_t *table, size_t base, bool files,
                        ccl_i_option_entry_t *entries, size_t n) {
    const ccl_option_t *group = table == ccl_synth_option_table(0) ? NULL : table;

    for (const ccl_option_t *o = table; o->name && n < CCL_I_MOST_OPTIONS; o++)
        if (!(o->flags & CCL_OPTION_KNOB_ONLY) && (files || o->type != CCL_OPTION_OUTPUT))
            entries[n++] = (ccl_i_option_entry_t){.of = o, .base = base, .group = group};
    return n;
}

static size_t add_named(const char *name, bool general, ccl_i_option_entry_t *entries, size_t n) {
    ccl_i_option_entry_t e = {.own = find_own(name)};

    if (n == CCL_I_MOST_OPTIONS || (!e.own && !find_common(name, &e)))
        return n;
    e.general = general;
    entries[n] = e;
    return n + 1;
}

static const char *const made[] = {"with",   "collective", "demand", "root",      "channels",
                                   "chunks", "registered", "plugin", "time-limit"};

size_t ccl_i_entries(const ccl_i_command_t *command,
                     ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS]) {
    bool lowers = false, synthesizes = false, files = false;
    size_t n = 0;

    for (size_t i = 0; command->accepts[i]; i++) {
        const char *name = command->accepts[i];

        files |= strcmp(name, CCL_I_SYNTH_FILES) == 0;
        synthesizes |= files || strcmp(name, CCL_I_SYNTH) == 0;
        lowers |= strcmp(name, CCL_I_LOWERING) == 0;
        n = add_named(name, false, entries, n);
        for (size_t m = 0; strcmp(name, CCL_I_MADE) == 0 && m < CCL_ARRAY_LEN(made); m++)
            n = add_named(made[m], false, entries, n);
    }
    if (synthesizes)
        n = add_table(ccl_synth_option_table(0), AT(synth), files, entries, n);
    if (lowers)
        n = add_table(ccl_lower_option_table, AT(lower), true, entries, n);
    for (uint32_t t = 1; synthesizes && ccl_synth_option_table(t); t++)
        n = add_table(ccl_synth_option_table(t), AT(synth), files, entries, n);
    for (size_t i = 0; everywhere[i]; i++)
        n = add_named(everywhere[i], true, entries, n);
    return n;
}

const char *ccl_i_entry_name(const ccl_i_option_entry_t *e) {
    return e->own ? e->own->name : e->of->name;
}

static char letter_of(const ccl_i_option_entry_t *e) {
    return e->own ? e->own->letter : e->of->letter;
}

const char *ccl_i_entry_value(const ccl_i_option_entry_t *e) {
    return e->own ? e->own->value : e->of->value;
}

static bool spelled(const char *name, const char *word) {
    size_t len = ccl_i_spelled_len(name);

    return strncmp(name, word, len) == 0 && word[len] == '\0';
}

static bool is_alias(const ccl_i_option_entry_t *e, const char *word) {
    if (e->of)
        return e->of->alias && strcmp(e->of->alias, word) == 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i].name, e->own->name) == 0 && strcmp(aliases[i].old, word) == 0)
            return true;
    return false;
}

bool ccl_i_find_long(const ccl_i_command_t *command, const char *name, ccl_i_option_entry_t *out) {
    ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS];
    size_t n = ccl_i_entries(command, entries);

    for (int old = 0; old < 2; old++) {
        for (size_t i = 0; i < n; i++) {
            if (old ? is_alias(&entries[i], name) : spelled(ccl_i_entry_name(&entries[i]), name)) {
                *out = entries[i];
                return true;
            }
        }
    }
    return false;
}

bool ccl_i_find_letter(const ccl_i_command_t *command, char letter, ccl_i_option_entry_t *out) {
    ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS];
    size_t n = ccl_i_entries(command, entries);

    for (size_t i = 0; i < n; i++) {
        if (letter_of(&entries[i]) == letter) {
            *out = entries[i];
            return true;
        }
    }
    return false;
}

bool ccl_i_known_elsewhere(const char *name) {
    ccl_i_option_entry_t e;

    for (size_t i = 0; ccl_i_commands[i]; i++)
        if (ccl_i_find_long(ccl_i_commands[i], name, &e))
            return true;
    return false;
}

ccl_status_t ccl_i_check_added(ccl_error_t *err) {
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops; ops++) {
        for (uint32_t t = 0; *ccl_synth_version(*ops) && (*ops)->options && (*ops)->options[t]; t++)
            for (const ccl_option_t *o = (*ops)->options[t]; o->name; o++)
                for (size_t i = 0; i < CCL_ARRAY_LEN(options); i++)
                    if (spelled(options[i].name, o->name))
                        return ccl_fail(err, CCL_ERR_INPUT,
                                        "synthesizer %s: --%s is an option of ccllab's",
                                        (*ops)->name, o->name);
    }
    return CCL_OK;
}

bool ccl_i_value_is_optional(const ccl_i_option_entry_t *e) {
    return e->own && e->own->kind == KIND_TEXT_OR_NONE;
}

bool ccl_i_option_info(const ccl_i_command_t *command, size_t index, ccl_i_option_info_t *out) {
    ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS];

    if (index >= ccl_i_entries(command, entries))
        return false;
    const ccl_i_option_entry_t *e = &entries[index];
    const char *name = ccl_i_entry_name(e);

    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%.*s", (int)ccl_i_spelled_len(name), name);
    out->letter = letter_of(e);
    out->value_optional = ccl_i_value_is_optional(e);
    out->value = ccl_i_entry_value(e);
    out->general = e->general;
    out->help = e->own ? e->own->help : e->of->doc;
    out->otherwise = e->own ? NULL : e->of->otherwise;
    out->choices = e->own ? e->own->words : e->of->words;
    if (e->group == ccl_lower_option_table)
        snprintf(out->group, sizeof(out->group), "lowering");
    else if (e->group)
        ccl_synth_option_owners(e->group, out->group, sizeof(out->group));
    return true;
}
