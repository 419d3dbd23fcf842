/* One table of options, one parser, and the help that is made from the same table. */
#include "cli/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    KIND_FLAG,
    KIND_COUNT,
    KIND_TEXT,
    KIND_TEXT_OR_NONE, /* --progress or --progress=json: the value is never the next word */
    KIND_LIST,
    KIND_U32,
    KIND_U64,
    KIND_BYTES,
    KIND_SECONDS,
    KIND_CHOICE,
    KIND_CHOICES /* ccl_i_choices_t: one, or several where the command says so */
} kind_t;

typedef struct option {
    const char *name;
    char letter;
    kind_t kind;
    size_t offset;
    const char *value; /* how the help names its value */
    const char *help;
    const char *extra; /* choices (comma separated), or the prefix of list items */
} option_t;

#define AT(member_) offsetof(ccl_i_args_t, member_)

static const option_t options[] = {
    {"topology", 't', KIND_TEXT, AT(topology), "SPEC",
     "cluster: a file (our JSON, HeteCCL DSL, NCCL XML), a name of the library (ccllab topology "
     "list), a one-liner such as 'servers:2 gpus:8 nvswitch=300GB/s nics:4x25GB/s', or - for stdin",
     NULL},
    {"fail", 0, KIND_LIST, AT(edits), "WHAT",
     "take something away first: gpu:3, nic:ID or any device's id; may be repeated", "fail:"},
    {"degrade", 0, KIND_LIST, AT(edits), "A-B=RATE",
     "give the links between A and B another bandwidth: a-b=18Gbit/s, one direction a->b=...; may "
     "be repeated",
     "degrade:"},
    {"scale", 0, KIND_LIST, AT(edits), "WHAT=X",
     "multiply bandwidth, latency, contention, overhead, tb_rate, slots, reduce_rate, copy_rate, "
     "flag or launch: bandwidth:net=2 (kind), bandwidth:net@s0=2 (of a server), latency:a-b=0.5, "
     "tb_rate=inf; may be repeated",
     "scale:"},
    {"set", 0, KIND_LIST, AT(edits), "KEY=VALUE",
     "give a constant of the transports another value: slice, slices, piece, slots, latency, "
     "overhead, tb_rate, mechanism, copy_in, copy_out, direct, holds_tb, of one kind of link as "
     "slice:net=512K; of the GPUs: blocks (thread blocks at most), reduce_rate, copy_rate, flag, "
     "launch; may be repeated",
     "set:"},
    {"profile", 0, KIND_TEXT, AT(profile), "P",
     "measured constants in place of the cluster's: a profile file (ccllab calibrate) or a name of "
     "the library (nccl-a100, nccl-h100, nccl-h200 ...)",
     NULL},
    {"from-nccl-tests", 0, KIND_TEXT, AT(from_nccl_tests), "LOG",
     "output of nccl-tests or rccl-tests, or a table of such runs, to fit", NULL},
    {"ranks", 0, KIND_U32, AT(ranks), "N", "only measured runs on this number of ranks", NULL},
    {"run", 0, KIND_U32, AT(run), "N", "only the N-th of the measured runs, from 1", NULL},
    {"in-place", 0, KIND_FLAG, AT(in_place), NULL, "take the in-place columns", NULL},
    {"name", 0, KIND_TEXT, AT(name), "NAME", "name of the profile (that of its file)", NULL},
    {"source", 0, KIND_TEXT, AT(source), "TEXT", "where the measured run comes from (its title)",
     NULL},
    {"collective", 'c', KIND_TEXT, AT(collective), "NAME",
     "allreduce, allgather, reducescatter, alltoall, broadcast, reduce, gather, scatter, sendrecv",
     NULL},
    {"demand", 0, KIND_TEXT, AT(demand), "FILE",
     "a demand file instead of a named collective: chunks with sources, destinations, bytes", NULL},
    {"root", 0, KIND_U32, AT(root), "RANK", "root of broadcast, reduce, gather, scatter (0)", NULL},
    {"with", 'w', KIND_TEXT, AT(with), "NAME", "synthesizers (ccllab algos lists them)", NULL},
    {"program", 'p', KIND_LIST, AT(programs), "FILE",
     "a program or schedule of yours as a further contender; may be repeated", ""},
    {"schedule", 0, KIND_LIST, AT(schedules), "FILE[+hpds]",
     "a schedule of yours as a further contender; +hpds: in HPDS order, blocks by state, task "
     "level; may be repeated",
     ""},
    {"size", 's', KIND_BYTES, AT(size_bytes), "BYTES",
     "largest buffer of a rank as in nccl-tests: 64M and 64MiB are 64 x 2^20 bytes, 64MB is 64 x "
     "10^6",
     NULL},
    {"sizes", 's', KIND_TEXT, AT(sizes), "LIST",
     "FIRST:LAST doubles at each step, FIRST:LAST:FACTOR multiplies, A,B,C as given (1K:1G)", NULL},
    {"channels", 0, KIND_U32, AT(channels), "N",
     "channels of the schedule, or of the NCCL that was measured (as many as the synthesizer, or "
     "NCCL, thinks best)",
     NULL},
    {"chunks", 0, KIND_U32, AT(chunks), "N",
     "chunks per shard and channel (the synthesizer's choice)", NULL},
    {"restarts", 0, KIND_U32, AT(restarts), "N",
     "times that a random synthesizer starts again, each with a seed of its own (its choice)",
     NULL},
    {"compose", 0, KIND_CHOICE, AT(compose), "HOW",
     "greedy, cegis: a cluster of pods from the schedules of one pod and of one rail of each kind "
     "(auto: from 96 GPUs on)",
     "auto,off,on"},
    {"roots", 0, KIND_CHOICE, AT(roots), "HOW",
     "allreduce of greedy, cegis, sccl, milp: GPUs are root of what they can carry, or all of as "
     "much (weighted)",
     "weighted,uniform"},
    {"steps", 0, KIND_U32, AT(steps), "N", "sccl: number of steps (as few as possible)", NULL},
    {"rounds", 0, KIND_U32, AT(rounds), "N",
     "sccl: number of rounds in all steps together (as few per chunk as possible)", NULL},
    {"clusters", 0, KIND_U32, AT(clusters), "N",
     "c2c: number of clusters, servers of one vendor each (a cluster per vendor, or as many as "
     "make "
     "their bandwidths equal)",
     NULL},
    {"inner", 0, KIND_TEXT, AT(inner), "NAME",
     "c2c: synthesizer for collectives inside clusters (the fastest of direct, hm and ring)", NULL},
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
     "remainder,makespan,equal"},
    {"epoch", 0, KIND_SECONDS, AT(epoch_s), "TIME",
     "milp: length of an epoch (what the slowest link needs for a chunk)", NULL},
    {"proto", 0, KIND_TEXT, AT(proto), "Simple|LL|LL128", "protocol of lowered programs (Simple)",
     NULL},
    {"no-fuse", 0, KIND_FLAG, AT(no_fuse), NULL,
     "lowering: keep receiving and forwarding in thread blocks of their own", NULL},
    {"out-of-place", 0, KIND_FLAG, AT(out_of_place), NULL,
     "lowering: separate output buffer (in place where the collective allows it)", NULL},
    {"time-limit", 0, KIND_SECONDS, AT(time_limit_s), "TIME",
     "stop a synthesizer after this long (10s, 500ms); the best so far is kept, exit code 3", NULL},
    {"effort", 0, KIND_U32, AT(effort), "N",
     "cegis: N times the usual work of solver and simulation; 0: the start alone (1)", NULL},
    {"capacity", 0, KIND_CHOICE, AT(capacity), "HOW",
     "cegis: chunks that a link carries in a step are rounded down (floor), or up as in HeteCCL's "
     "equation 1 (ceiling)",
     "floor,ceiling"},
    {"tau-ref", 0, KIND_SECONDS, AT(tau_ref_s), "TIME",
     "cegis: length of a step (a multiple of what the slowest hop needs for a chunk)", NULL},
    {"start", 0, KIND_CHOICE, AT(start), "HOW",
     "cegis: the greedy start looks at zones and rarity, or (plain) fills links at random",
     "zones,plain"},
    {"sketches", 0, KIND_TEXT, AT(sketch.file), "FILE",
     "sketch: sketches of yours, and their mixes, in place of a search", NULL},
    {"add-sketches", 0, KIND_TEXT, AT(sketch.add), "FILE",
     "sketch: the same, besides those that are found", NULL},
    {"write-sketches", 0, KIND_TEXT, AT(sketch.write), "FILE",
     "sketch: write the sketches and the mix that was chosen, to edit and read back", NULL},
    {"keep-isomorphic", 0, KIND_FLAG, AT(sketch.keep_isomorphic), NULL,
     "sketch, pruning 1 off: sketches that an automorphism of the cluster makes of others stay",
     NULL},
    {"keep-inconsistent", 0, KIND_FLAG, AT(sketch.keep_inconsistent), NULL,
     "sketch, pruning 2 off: groups of a dimension may differ in a stage", NULL},
    {"keep-relayed", 0, KIND_FLAG, AT(sketch.keep_relayed), NULL,
     "sketch, pruning 3 off: no cap on relays (alltoall, scatter, gather)", NULL},
    {"max-relays", 0, KIND_U32, AT(sketch.max_relays), "N",
     "sketch: pruning 3's cap on GPUs that hand a chunk on (dimensions - 1)", NULL},
    {"max-stages", 0, KIND_U32, AT(sketch.max_stages), "N",
     "sketch: stages of a sketch, at most 10 (dimensions + 1)", NULL},
    {"max-sketches", 0, KIND_U32, AT(sketch.max_sketches), "N",
     "sketch: sketches that are kept, at most 100000; 30 times as many partial ones are looked at "
     "(200)",
     NULL},
    {"within", 0, KIND_TEXT, AT(sketch.within), "PERCENT",
     "sketch: R1, candidates estimated this much slower than the best are not simulated (20)",
     NULL},
    {"simulated", 0, KIND_U32, AT(sketch.simulated), "N",
     "sketch: R2, at most N of the others are, before numbers of channels are tried (8)", NULL},
    {"coarse-epochs", 0, KIND_TEXT, AT(sketch.coarse), "E",
     "sketch: E1, length of coarse epochs of sub-demands, in a chunk's times on the fastest link "
     "(3)",
     NULL},
    {"fine-epochs", 0, KIND_TEXT, AT(sketch.fine), "E", "sketch: E2, the same of fine epochs (0.5)",
     NULL},
    {"no-shapes", 0, KIND_FLAG, AT(sketch.no_shapes), NULL,
     "sketch: sub-demands are solved also where a shape is proven best", NULL},
    {"cache", 0, KIND_TEXT, AT(sketch.cache), "DIR",
     "sketch: where solved sub-demands are kept, or none ($XDG_CACHE_HOME/ccllab/sub-demands)",
     NULL},
    {"explain-capacities", 0, KIND_FLAG, AT(explain), NULL,
     "cegis: print the chunks that hops, links and groups carry in a step, and stop", NULL},
    {"format", 0, KIND_TEXT, AT(format), "json|xml|flagcx",
     "what -o - prints: the schedule (json) or the program (xml) (json); flagcx: plans between "
     "clusters for FlagCX, PREFIX_RANK.xml of -o PREFIX",
     NULL},
    {"batches", 'b', KIND_U32, AT(batches), "N",
     "micro-batches (by the model's rule; see docs/model.md)", NULL},
    {"granularity", 'g', KIND_CHOICES, AT(granularity), "LEVEL",
     "algorithm, stage or task: how micro-batches are run (algorithm; compare: each contender's "
     "own)",
     "algorithm,stage,task"},
    {"order", 0, KIND_CHOICES, AT(order), "ORDER",
     "lowering: step (as the schedule says), rr (round robin over chunks) or hpds (ResCCL's "
     "sub-pipelines) (step)",
     "step,rr,hpds"},
    {"allocate", 0, KIND_CHOICES, AT(allocation), "HOW",
     "lowering: a thread block per connection, one for connections that are never active together "
     "(state), or several where a link is fast (capacity) (connection)",
     "connection,state,capacity"},
    {"stages", 0, KIND_CHOICES, AT(stages), "HOW",
     "lowering at stage level: auto cuts where data passes between servers and network, phase "
     "where the schedule says (auto)",
     "auto,phase"},
    {"all", 0, KIND_FLAG, AT(all), NULL,
     "every order, allocation and granularity of which none is named", NULL},
    {"all@notebook", 0, KIND_FLAG, AT(all), NULL, "every point, not only those of other builds",
     NULL},
    {"budget", 0, KIND_TEXT, AT(tune.budget), "TIME|RUNS",
     "stop after this time (60s), or after this many runs (500) (60s)", NULL},
    {"space", 0, KIND_TEXT, AT(tune.space), "FILE",
     "knobs and their values, as JSON (channels, chunks, order, allocation, granularity)", NULL},
    {"knob", 'k', KIND_LIST, AT(tune.knobs), "NAME=VALUES",
     "values of one knob: with=ring,greedy, channels=auto,1:16, tau_ref=1us:64us:4, 'chunks=1:8 "
     "when with=greedy'; may be repeated",
     ""},
    {"strategy", 0, KIND_CHOICE, AT(tune.strategy), "HOW",
     "halving: estimates of many, runs of few; grid: all points; random: points drawn (halving)",
     "halving,grid,random"},
    {"improve", 0, KIND_U32, AT(tune.improve), "N",
     "in the end change the transfers of each size's best schedule, N tries (0)", NULL},
    {"replay", 0, KIND_TEXT, AT(tune.replay), "DEVICE",
     "run the best of each size on host[:WORKERS], cuda or hip, fit the cluster's constants to "
     "what was measured and rank them again",
     NULL},
    {"save-profile", 0, KIND_TEXT, AT(tune.save_profile), "FILE",
     "write the constants that a replay fitted as a profile", NULL},
    {"top", 0, KIND_U32, AT(tune.top), "K", "the best K of each size are replayed (3)", NULL},
    {"vary", 0, KIND_LIST, AT(tune.vary), "EDIT",
     "a further cluster: the first one with fail:gpu:3, degrade:a-b=18Gbit/s, "
     "scale:bandwidth:net=0.5,2 or set:slots=2,8 (one per value); may be repeated",
     ""},
    {"export", 0, KIND_TEXT, AT(tune.export), "DIR",
     "write the best programs per range of sizes (MSCCL XML, MSCCL++ plans), ring orders "
     "(NCCL_GRAPH_FILE) and a table for NCCL's tuner plugin to this folder",
     NULL},
    {"gap", 0, KIND_TEXT, AT(tune.gap), "PERCENT",
     "a size is done when its time is so near to the lower bound (1%)", NULL},
    {"notebook@tune", 0, KIND_TEXT, AT(notebook), "FILE|none",
     "the lab notebook (ccllab/notebook.db where XDG_DATA_HOME says)", NULL},
    {"notebook@compare", 0, KIND_TEXT, AT(notebook), "FILE",
     "take times from this lab notebook and write new ones there, as tune does (none)", NULL},
    {"notebook", 0, KIND_TEXT, AT(notebook), "FILE",
     "the lab notebook, with all that was tried (ccllab/notebook.db where XDG_DATA_HOME says)",
     NULL},
    {"blocks", 0, KIND_FLAG, AT(blocks), NULL, "also a table of every thread block of a rank",
     NULL},
    {"rank", 0, KIND_TEXT, AT(rank), "N|all", "--blocks: of this rank, or of all (the busiest)",
     NULL},
    {"sharing", 0, KIND_CHOICE, AT(sharing), "HOW",
     "fair: max-min rates; exclusive: a flow holds its links (fair)", "fair,exclusive"},
    {"no-verify", 0, KIND_FLAG, AT(no_verify), NULL, "simulate what was not proven right", NULL},
    {"no-skip", 0, KIND_FLAG, AT(no_skip), NULL, "simulate every micro-batch, also in steady state",
     NULL},
    {"no-fold", 0, KIND_FLAG, AT(no_fold), NULL,
     "simulate every thread block, also those that are alike", NULL},
    {"flows", 0, KIND_TEXT, AT(flows), "FILE",
     "a flow list instead of a program: a plain network run; or TE-CCL's epoch flows, replayed "
     "link "
     "by link",
     NULL},
    {"unicast", 0, KIND_FLAG, AT(unicast), NULL,
     "epoch flows: switches do not copy, every flow is sent by itself", NULL},
    {"trace", 0, KIND_TEXT, AT(trace), "FILE",
     "write a Chrome trace of the run (open it at ui.perfetto.dev); synth: a JSON line per "
     "snapshot "
     "of cegis's search",
     NULL},
    {"executor", 0, KIND_CHOICES, AT(executor), "WHICH",
     "limits of msccl, rccl or msccl-old: lowering keeps them, verify checks them (any)",
     "any,msccl,rccl,msccl-old"},
    {"slots", 0, KIND_U32, AT(slots), "N",
     "FIFO depth of the deadlock check (Simple 2, LL and LL128 8)", NULL},
    {"device", 0, KIND_TEXT, AT(job.device), "host|cuda|hip|auto",
     "where it runs (host); auto: what a process finds; cuda*4,host*2: by rank", NULL},
    {"kernel", 0, KIND_CHOICE, AT(job.kernel), "K",
     "interpreter: one kernel reads the program; generated: one written and compiled for it; both, "
     "and the ratio (interpreter)",
     "interpreter,generated,both"},
    {"with-ccl", 0, KIND_CHOICE, AT(job.library), "LIBRARY",
     "besides, the same collective by the vendor's library: auto, nccl or rccl (none)",
     "none,auto,nccl,rccl"},
    {"hom-ccl", 0, KIND_CHOICE, AT(job.hom), "LIBRARY",
     "inside clusters of one vendor, before and after what crosses between vendors, the "
     "vendor's library instead of the program: auto, nccl or rccl (none)",
     "none,auto,nccl,rccl"},
    {"kernel@calibrate", 0, KIND_CHOICE, AT(job.kernel), "K",
     "of a GPU: interpreter or generated (interpreter)", "interpreter,generated"},
    {"emit-kernel", 0, KIND_TEXT, AT(job.emit_kernel), "FILE",
     "write the generated kernel of the last size there", NULL},
    {"type", 0, KIND_CHOICE, AT(job.type), "T", "int32, fp32, fp16 or bf16 (fp32)",
     "fp32,int32,fp16,bf16"},
    {"op", 0, KIND_CHOICE, AT(job.op), "OP", "reduction: sum, min or max (sum)", "sum,min,max"},
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
     "threads: all in this process; processes: children run them (threads)", "threads,processes"},
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
    {"topology@testbed", 't', KIND_TEXT, AT(topology), "FILE",
     "the emulated cluster with its constants, as testbed topology writes it (measured first)",
     NULL},
    {"processes", 0, KIND_U32, AT(job.processes), "N", "number of child processes (one per rank)",
     NULL},
    {"transport", 0, KIND_CHOICE, AT(job.transport), "T",
     "between processes: shm, tcp or verbs, which is RDMA (shm; a job on several machines: tcp)",
     "shm,tcp,verbs"},
    {"rdma", 0, KIND_TEXT, AT(job.rdma), "DEVICE[:PORT[:GID]]",
     "the RDMA device of --transport verbs, its port, and the index of its address (the first "
     "active port, its IPv4 address)",
     NULL},
    {"bootstrap", 0, KIND_CHOICE, AT(job.bootstrap), "HOW",
     "how processes find each other: root (--world, --rank, --root), env (a launcher's, --root), "
     "mpi "
     "(auto: what is given; else mpi under mpirun or srun)",
     "auto,root,env,mpi"},
    {"bootstrap@tune", 0, KIND_CHOICE, AT(job.bootstrap), "HOW",
     "how the processes find each other: mpi, or none, each alone (auto: mpi under mpirun or "
     "srun)",
     "auto,none,mpi"},
    {"world", 0, KIND_U32, AT(job.world), "N",
     "this is one of N processes of a job that were started apart (by srun or mpirun: from the "
     "environment)",
     NULL},
    {"rank@job", 0, KIND_U32, AT(job.rank), "I", "which of them, from 0", NULL},
    {"root@job", 0, KIND_TEXT, AT(job.root), "HOST:PORT", "where process 0 of the job listens",
     NULL},
    {"blocks@run", 0, KIND_FLAG, AT(blocks), NULL,
     "one more run in which every thread block is timed", NULL},
    {"heat", 0, KIND_TEXT, AT(heat), "FILE",
     "colour links by their utilisation in a run of this program or schedule", NULL},
    {"width", 0, KIND_U32, AT(width_px), "PIXELS",
     "scale the picture to this width (a pixel per unit of its own)", NULL},
    {"rows@draw", 0, KIND_CHOICE, AT(draw_rows), "WHAT",
     "a row per block, gpu, server or link (auto: by how many there are)",
     "auto,block,gpu,server,link"},
    {"rank@draw", 0, KIND_TEXT, AT(rank), "N|all", "only thread blocks of this rank (all)", NULL},
    {"rank@idle", 0, KIND_TEXT, AT(rank), "N", "blocks of this rank (the GPU with the most)", NULL},
    {"question", 0, KIND_TEXT, AT(question), "TEXT", "title of the page (made of the results)",
     NULL},
    {"colour", 0, KIND_CHOICE, AT(draw_colour), "BY",
     "state: busy, or what is waited for; of links, their use; chunk: what is moved (state)",
     "state,chunk"},
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
    {"verbose", 'v', KIND_COUNT, AT(verbose), NULL, "say more on stderr; twice for details", NULL},
    {"help", 'h', KIND_FLAG, AT(help), NULL, "this help", NULL},
};

static const char *const everywhere[] = {"output",   "json",  "csv",     "seed", "threads",
                                         "progress", "quiet", "verbose", "help", NULL};
enum { MAX_NAMES = 80 };

static const option_t *find(const char *name) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(options); i++) {
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    }
    return NULL;
}

/** As it is spelled: "rank@job" is --rank where the command takes that one. */
static size_t spelled_len(const char *name) {
    return strcspn(name, "@");
}

/** Names of all options of a command, its own first; NULL-terminated. */
static void names_of(const ccl_i_command_t *command, const char *names[MAX_NAMES]) {
    size_t n = 0;

    for (size_t i = 0; command->accepts[i] && n + 1 < MAX_NAMES; i++)
        names[n++] = command->accepts[i];
    for (size_t i = 0; everywhere[i] && n + 1 < MAX_NAMES; i++)
        names[n++] = everywhere[i];
    names[n] = NULL;
}

static const option_t *find_long(const ccl_i_command_t *command, const char *name) {
    const char *names[MAX_NAMES];

    names_of(command, names);
    for (size_t i = 0; names[i]; i++) {
        size_t len = spelled_len(names[i]);

        if (strncmp(names[i], name, len) == 0 && name[len] == '\0')
            return find(names[i]);
    }
    return NULL;
}

static const option_t *find_letter(const ccl_i_command_t *command, char letter) {
    const char *names[MAX_NAMES];

    names_of(command, names);
    for (size_t i = 0; names[i]; i++) {
        const option_t *o = find(names[i]);

        if (o && o->letter == letter)
            return o;
    }
    return NULL;
}

bool ccl_i_list_add(ccl_i_list_t *list, const char *item) {
    if (!ccl_grow(&list->items, &list->cap, list->n + 1, sizeof(*list->items)))
        return false;
    list->items[list->n++] = item;
    return true;
}

void ccl_i_args_init(ccl_i_args_t *args) {
    memset(args, 0, sizeof(*args));
    args->seed = 1;
    args->job.warmups = 1;
}

void ccl_i_args_fini(ccl_i_args_t *args) {
    for (size_t i = 0; i < args->edits.n; i++)
        free((void *)args->edits.items[i]); /* made of prefix and value */
    free(args->edits.items);
    free(args->programs.items);
    free(args->schedules.items);
    free(args->tune.knobs.items);
    free(args->tune.vary.items);
    free(args->inputs.items);
    free(args->given.items);
}

/* ---------------------------------------------------------------- values */

static ccl_status_t number(const option_t *o, const char *text, uint64_t max, uint64_t *out,
                           ccl_error_t *err) {
    char *end = NULL;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value > max)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%.*s wants a whole number from 0 to %llu, not "
                        "\"%s\"",
                        (int)spelled_len(o->name), o->name, (unsigned long long)max, text);
    *out = value;
    return CCL_OK;
}

static ccl_status_t choice(const option_t *o, const char *text, size_t len, uint32_t *out,
                           ccl_error_t *err) {
    uint32_t index = 0;

    for (const char *p = o->extra; p; index++) {
        const char *end = strchr(p, ',');
        size_t n = end ? (size_t)(end - p) : strlen(p);

        if (n == len && strncmp(p, text, n) == 0) {
            *out = index;
            return CCL_OK;
        }
        p = end ? end + 1 : NULL;
    }
    return ccl_fail(err, CCL_ERR_USAGE, "option --%s wants one of %s, not \"%.*s\"", o->name,
                    o->extra, (int)len, text);
}

/** One choice, or a list of them; what stands twice counts once. */
static ccl_status_t choices(const option_t *o, const char *text, bool several, ccl_i_choices_t *out,
                            ccl_error_t *err) {
    bool seen[CCL_ARRAY_LEN(out->at)] = {false};

    out->n = 0;
    for (const char *p = text; p;) {
        const char *end = several ? strchr(p, ',') : NULL;
        uint32_t index = 0;

        CCL_TRY(choice(o, p, end ? (size_t)(end - p) : strlen(p), &index, err));
        if (!seen[index])
            out->at[out->n++] = index;
        seen[index] = true;
        p = end ? end + 1 : NULL;
    }
    return CCL_OK;
}

uint32_t ccl_i_choice(const ccl_i_choices_t *choices) {
    return choices->n ? choices->at[0] : 0;
}

/** An error of a value parser, reported as a wrong use of this option. */
static ccl_status_t value_error(const option_t *o, const ccl_error_t *inner, ccl_error_t *err) {
    if (inner->status == CCL_ERR_NOMEM)
        return ccl_fail_nomem(err);
    return ccl_fail(err, CCL_ERR_USAGE, "option --%s: %s", o->name, inner->text);
}

bool ccl_i_given(const ccl_i_args_t *args, const char *name) {
    for (size_t i = 0; i < args->given.n; i++)
        if (strcmp(args->given.items[i], name) == 0)
            return true;
    return false;
}

static ccl_status_t take(const option_t *o, const char *text, bool several, ccl_i_args_t *args,
                         ccl_error_t *err) {
    if (!ccl_i_list_add(&args->given, o->name))
        return ccl_fail_nomem(err);
    void *at = (char *)args + o->offset;
    ccl_error_t inner = CCL_ERROR_INIT;
    uint64_t value = 0;

    switch (o->kind) {
    case KIND_FLAG:
        *(bool *)at = true;
        return CCL_OK;
    case KIND_COUNT:
        ++*(uint32_t *)at;
        return CCL_OK;
    case KIND_TEXT:
    case KIND_TEXT_OR_NONE:
        *(const char **)at = text;
        return CCL_OK;
    case KIND_LIST: {
        ccl_i_list_t *list = at;
        size_t prefix = strlen(o->extra);
        char *item;

        if (prefix == 0)
            return ccl_i_list_add(list, text) ? CCL_OK : ccl_fail_nomem(err);
        item = malloc(prefix + strlen(text) + 1);
        if (!item)
            return ccl_fail_nomem(err);
        memcpy(item, o->extra, prefix);
        memcpy(item + prefix, text, strlen(text) + 1);
        if (ccl_i_list_add(list, item))
            return CCL_OK;
        free(item);
        return ccl_fail_nomem(err);
    }
    case KIND_U32:
        CCL_TRY(number(o, text, CCL_NONE - 1, &value, err));
        *(uint32_t *)at = (uint32_t)value;
        return CCL_OK;
    case KIND_U64:
        return number(o, text, UINT64_MAX, at, err);
    case KIND_BYTES:
        if (ccl_parse_bytes(text, at, &inner) != CCL_OK)
            return value_error(o, &inner, err);
        if (!(*(double *)at > 0))
            return ccl_fail(err, CCL_ERR_USAGE, "option --%.*s: must be more than 0",
                            (int)spelled_len(o->name), o->name);
        return CCL_OK;
    case KIND_SECONDS:
        if (ccl_parse_time_s(text, at, &inner) != CCL_OK)
            return value_error(o, &inner, err);
        return CCL_OK;
    case KIND_CHOICE:
        return choice(o, text, strlen(text), at, err);
    case KIND_CHOICES:
        return choices(o, text, several, at, err);
    }
    return ccl_fail(err, CCL_ERR_INTERNAL, "option --%s has no kind", o->name);
}

static bool wants_value(const option_t *o) {
    return o->kind != KIND_FLAG && o->kind != KIND_COUNT && o->kind != KIND_TEXT_OR_NONE;
}

/* ---------------------------------------------------------------- parsing */

static ccl_status_t unknown(const ccl_i_command_t *command, const char *name, ccl_error_t *err) {
    const char *names[MAX_NAMES];
    const char *near;

    if (find(name))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%s does not belong to \"%s\" (see ccllab %s --help)", name,
                        command->name, command->name);
    names_of(command, names);
    near = ccl_nearest(name, names);
    if (near)
        return ccl_fail(err, CCL_ERR_USAGE, "unknown option --%s, did you mean --%s?", name, near);
    return ccl_fail(err, CCL_ERR_USAGE, "unknown option --%s (see ccllab %s --help)", name,
                    command->name);
}

static ccl_status_t parse_long(const ccl_i_command_t *command, int argc, char **argv, int *i,
                               ccl_i_args_t *args, ccl_error_t *err) {
    const char *word = argv[*i] + 2;
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    char name[64];
    const option_t *o;

    if (len >= sizeof(name))
        return ccl_fail(err, CCL_ERR_USAGE, "unknown option --%.40s...", word);
    memcpy(name, word, len);
    name[len] = '\0';
    o = find_long(command, name);
    if (!o)
        return unknown(command, name, err);
    if (o->kind == KIND_TEXT_OR_NONE)
        return take(o, equals ? equals + 1 : "", command->several, args, err);
    if (!wants_value(o)) {
        if (equals)
            return ccl_fail(err, CCL_ERR_USAGE, "option --%s takes no value", name);
        return take(o, NULL, command->several, args, err);
    }
    if (equals)
        return take(o, equals + 1, command->several, args, err);
    if (*i + 1 >= argc)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s needs a value: --%s %s", name, name,
                        o->value);
    return take(o, argv[++*i], command->several, args, err);
}

static ccl_status_t parse_letters(const ccl_i_command_t *command, int argc, char **argv, int *i,
                                  ccl_i_args_t *args, ccl_error_t *err) {
    for (const char *p = argv[*i] + 1; *p; p++) {
        const option_t *o = find_letter(command, *p);

        if (!o)
            return ccl_fail(err, CCL_ERR_USAGE, "unknown option -%c (see ccllab %s --help)", *p,
                            command->name);
        if (!wants_value(o)) {
            CCL_TRY(take(o, "", command->several, args, err));
            continue;
        }
        if (p[1])
            return take(o, p[1] == '=' ? p + 2 : p + 1, command->several, args, err);
        if (*i + 1 >= argc)
            return ccl_fail(err, CCL_ERR_USAGE, "option -%c needs a value: -%c %s", *p, *p,
                            o->value);
        return take(o, argv[++*i], command->several, args, err);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_options_parse(const ccl_i_command_t *command, int argc, char **argv,
                                 ccl_i_args_t *args, ccl_error_t *err) {
    bool only_inputs = false;

    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];

        if (only_inputs || word[0] != '-' || word[1] == '\0') {
            if (!ccl_i_list_add(&args->inputs, word))
                return ccl_fail_nomem(err);
        } else if (strcmp(word, "--") == 0) {
            only_inputs = true;
        } else if (word[1] == '-') {
            CCL_TRY(parse_long(command, argc, argv, &i, args, err));
        } else {
            CCL_TRY(parse_letters(command, argc, argv, &i, args, err));
        }
    }
    if (args->help)
        return CCL_OK;
    if (args->json && args->csv)
        return ccl_fail(err, CCL_ERR_USAGE, "--json and --csv exclude each other");
    if (args->progress && args->progress[0] && strcmp(args->progress, "json") != 0)
        return ccl_fail(err, CCL_ERR_USAGE, "option --progress wants no value or json, not \"%s\"",
                        args->progress);
    if (args->inputs.n > command->max_inputs)
        return ccl_fail(err, CCL_ERR_USAGE, "unexpected \"%s\" (usage: ccllab %s %s)",
                        args->inputs.items[command->max_inputs], command->name, command->usage);
    if (args->inputs.n < command->min_inputs)
        return ccl_fail(err, CCL_ERR_USAGE, "nothing to work on (usage: ccllab %s %s)",
                        command->name, command->usage);
    return CCL_OK;
}

/* ---------------------------------------------------------------- help */

bool ccl_i_option_info(const ccl_i_command_t *command, size_t index, ccl_i_option_info_t *out) {
    const char *names[MAX_NAMES];
    const option_t *o = NULL;

    names_of(command, names);
    for (size_t i = 0; i <= index; i++)
        if (!names[i])
            return false;
    o = find(names[index]);
    if (!o)
        return false;
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%.*s", (int)spelled_len(o->name), o->name);
    out->letter = o->letter;
    out->value_optional = o->kind == KIND_TEXT_OR_NONE;
    out->value = o->value;
    out->help = o->help;
    if (o->kind == KIND_CHOICE || o->kind == KIND_CHOICES)
        out->choices = o->extra;
    for (size_t i = 0; everywhere[i]; i++)
        out->general = out->general || everywhere[i] == names[index];
    return true;
}

enum { HELP_COLUMNS = 80, HELP_INDENT = 26 };

/** Words from column `at`, broken before column 80; later lines indented. */
static void wrapped(ccl_text_t *out, const char *text, size_t at, size_t indent) {
    while (*text) {
        size_t len = strcspn(text, " \n");

        if (at > indent && at + 1 + len > HELP_COLUMNS) {
            ccl_text_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            ccl_text_add(out, " ", 1);
            at++;
        }
        ccl_text_add(out, text, len);
        at += len;
        text += len;
        text += strspn(text, " \n");
    }
    ccl_text_add(out, "\n", 1);
}

static void help_option(const option_t *o, ccl_text_t *out) {
    char left[80];
    int n;

    n = snprintf(left, sizeof(left), "  %c%c%s --%.*s%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? "," : " ", (int)spelled_len(o->name),
                 o->name,
                 !o->value                      ? ""
                 : o->kind == KIND_TEXT_OR_NONE ? "[="
                                                : " ",
                 o->value ? o->value : "", o->kind == KIND_TEXT_OR_NONE ? "]" : "");
    ccl_text_printf(out, "%s", left);
    if (n + 2 > HELP_INDENT)
        ccl_text_printf(out, "\n%*s", HELP_INDENT, "");
    else
        ccl_text_printf(out, "%*s", HELP_INDENT - n, "");
    wrapped(out, o->help, HELP_INDENT, HELP_INDENT);
}

void ccl_i_help_command(const ccl_i_command_t *command, ccl_text_t *out) {
    ccl_text_printf(out, "usage: ");
    char line[200];
    snprintf(line, sizeof(line), "ccllab %s %s", command->name, command->usage);
    wrapped(out, line, 7, 7);
    ccl_text_printf(out, "\n");
    wrapped(out, command->summary, 0, 0);
    if (command->details) {
        ccl_text_printf(out, "\n");
        wrapped(out, command->details, 0, 0);
    }
    ccl_text_printf(out, "\noptions:\n");
    for (size_t i = 0; command->accepts[i]; i++)
        help_option(find(command->accepts[i]), out);
    ccl_text_printf(out, "\noptions of every command:\n");
    for (size_t i = 0; everywhere[i]; i++)
        help_option(find(everywhere[i]), out);
}

static void help_commands(const char *prefix, ccl_text_t *out) {
    size_t len = strlen(prefix);

    for (size_t i = 0; ccl_i_commands[i]; i++) {
        const ccl_i_command_t *c = ccl_i_commands[i];

        if (strncmp(c->name, prefix, len) != 0)
            continue;
        ccl_text_printf(out, "  %-18s ", c->name);
        wrapped(out, c->summary, 21, 21);
    }
}

void ccl_i_help_family(const char *prefix, ccl_text_t *out) {
    ccl_text_printf(out, "usage: ccllab %s COMMAND [options]\n\n", prefix);
    help_commands(prefix, out);
    ccl_text_printf(out, "\nccllab COMMAND --help lists the options of a command.\n");
}

void ccl_i_help_all(ccl_text_t *out) {
    ccl_text_printf(
        out, "usage: ccllab [--version | --help] COMMAND [options] INPUT...\n\n"
             "A laboratory for collective communication on heterogeneous GPU clusters: build "
             "a\nschedule, prove it right, simulate it, compare it with others.\n\n");
    help_commands("", out);
    ccl_text_printf(out, "\nccllab COMMAND --help lists the options of a command.\n\n");
    ccl_text_t codes = {0};
    ccl_text_printf(&codes, "exit codes:");
    for (const ccl_i_exit_code_t *e = ccl_i_exit_codes; e->code; e++)
        ccl_text_printf(&codes, " %s %s%s", e->code, e->meaning, e[1].code ? ";" : "");
    wrapped(out, codes.data ? codes.data : "", 0, 0);
    ccl_text_fini(&codes);
}
