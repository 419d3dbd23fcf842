/* Commands, the exit code that each ends with, and the one line that goes with an error. */
#include "program.h"
#include "cli/command.h"
#include "tests/base/main.h"

/* A tuning that is soon done. */
#define TUNED "-q -t dgx-a100 -c allgather --sizes 64K -k with=ring --budget 3runs --notebook none"

static const struct {
    const char *line;
    int rc;
    const char *err; /* part of the one line on stderr; NULL: stderr is empty */
    const char *out; /* part of stdout; NULL: stdout is empty */
    const char *why;
} rows[] = {
    {"--version", 0, NULL, "ccllab ", "version"},
    {"--help", 0, NULL, "simulate", "help lists the commands"},
    {"help simulate", 0, NULL, "usage: ccllab simulate", "help of a command"},
    {"topology --help", 0, NULL, "topology check", "help of a family"},
    {"topology list", 0, NULL, "heteccl-h20-4+8", "the library"},
    {"topology check dgx-a100", 0, NULL, "good", "a good description"},
    {"algos", 0, NULL, "ring", "synthesizers"},
    {"verify " DATA "/allgather_2.xml", 0, NULL, "valid", "a right program"},
    {"simulate " PAIR " " DATA "/allgather_2.xml --size 1M", 0, NULL, "time", "a run"},
    {"simulate " PAIR " " DATA "/allgather_2.xml --size 1M --proto LL128", 0, NULL, ", LL128",
     "a program's protocol is another"},
    {"simulate " PAIR " --flows " DATA "/pair.flows", 0, NULL, "time", "a flow list"},
    {"simulate -t dgx-a100 -c allreduce --with nccl --size 64M", 0, NULL,
     "nccl (ring Simple x24, steps of 512K, buffers of 4M)", "what stock NCCL runs"},
    {"explain -t mi300x-x8 -c allreduce --with rccl --size 64M --no-what-if", 0, NULL,
     "this is 1.00x of its speed", "explain what stock RCCL runs"},
    {"compare -t mi300x-x8 -c allgather --with nccl,rccl,ring --sizes 64K", 0, NULL,
     "vs rccl  |  rccl   ring\n", "stock software is one contender, under its own name"},
    {"synth -t dgx-a100 -c allgather --with nccl --size 1M --format xml", 0, NULL, "<algo",
     "the program of stock NCCL"},
    {"compare -t hetccl-snu -c allreduce --sizes 1M --with nccl,ring", 0, NULL,
     "did not take part: nccl: neither NCCL nor RCCL runs on GPUs of NVIDIA and AMD together",
     "no library for two vendors"},
    {"simulate -t hetccl-snu -c allreduce --with nccl --size 1M", 1, "neither NCCL nor RCCL runs",
     NULL, "no library for two vendors"},
    {"simulate -t dgx-a100 -c allreduce --with ring --size 1M", 0, NULL, "ring: allreduce of 1M",
     "a synthesizer's run"},
    {"simulate -t dgx-a100 -c allreduce --size 1M " DATA "/allgather_2.xml", 2,
     "--collective goes with --with NAME", NULL, "a file and a collective"},
    {"explain -t dgx-a100 --chunks 2 --size 1M " DATA "/allgather_2.xml", 2,
     "--chunks goes with --with NAME", NULL, "a file and a synthesizer's option"},
    {"draw timeline -t dgx-a100 -c allreduce --size 1M -o /tmp/x.svg", 2, "--with NAME", NULL,
     "neither file nor synthesizer"},
    {"draw idle -t dgx-a100", 2, "option -t (--topology) does not belong to \"draw idle\"", NULL,
     "a letter of other commands"},
    {"simulate -t dgx-a100 -c allreduce --with nccl", 2, "no size given", NULL, "no size"},
    {"simulate -t dgx-a100 -c allreduce --with nccl --size 1M --order hpds", 2,
     "runs programs of its own", NULL, "nothing to lower"},
    {"synth -t dgx-a100 -c allgather --with nccl --size 1M", 2, "it has no schedule", NULL,
     "a program, no schedule"},
    {"simulate --size 1M " PAIR " --no-verify " DATA "/missing_2.xml", 0, NULL, "not verified",
     "unproven, but asked for"},

    {"verify " DATA "/missing_2.xml", 1, NULL, "invalid: missing", "a chunk is missing"},
    {"verify " DATA "/deadlock_2.xml", 1, NULL, "invalid: deadlock", "a deadlock"},
    {"verify " DATA "/malformed.xml", 1, "malformed.xml:6:", NULL, "no program at all"},
    {"verify --json " DATA "/malformed.xml", 1, NULL, "\"malformed\"", "the same, told in JSON"},
    {"simulate --size 1M " PAIR " " DATA "/missing_2.xml", 1, NULL, "refused",
     "simulate refuses what does not verify"},
    {"simulate --size 1M " PAIR " " DATA "/deadlock_2.xml", 1, NULL, "who waits for whom",
     "a deadlock with its cycle"},
    {"simulate --size 1M " PAIR " " DATA "/deadlock_2.xml", 1, NULL,
     "no depth of FIFOs helps: it deadlocks at any", "that deeper FIFOs do not help"},
    {"simulate --size 6M " PAIR " --set slots:nvlink=2 " DATA "/deadlock_depth.xml", 1, NULL,
     "it depends on slots of nvlink, 2 (from set:slots:nvlink=2): with 3 it finishes",
     "the constant that a deadlock depends on"},
    {"simulate --size 6M " PAIR " --set slots:nvlink=3 " DATA "/deadlock_depth.xml", 0, NULL,
     "busbw", "and with that constant it finishes"},
    {"verify " DATA "/deadlock_depth.xml", 1, NULL,
     "with FIFO depth 3 it finishes (2 is the default of Simple)", "the depth that would do"},
    {"verify --slots 3 " DATA "/deadlock_depth.xml", 0, NULL, "valid", "and does"},
    {"compare --sizes 6M -c allgather --with ring " PAIR " --set slots:nvlink=2 -p " DATA
     "/deadlock_depth.xml",
     0, NULL, "slots of nvlink are 2 (set:slots:nvlink=2), with 3 they would",
     "a contender's deadlock, too"},
    {"explain --size 6M " PAIR " --set slots:nvlink=2 " DATA "/deadlock_depth.xml", 1,
     "slots of nvlink are 2 (set:slots:nvlink=2), with 3 they would", NULL,
     "and that of a run that is explained"},
    {"compare -c allgather --sizes 1M " PAIR " --program " DATA "/missing_2.xml", 1,
     "missing_2.xml: invalid", NULL, "compare refuses what does not verify"},

    {"compare -c allgather --sizes 1M --no-verify --with direct " PAIR " --program " DATA
     "/missing_2.xml",
     0, NULL, "missing_2", "unproven, but asked for"},
    {"compare -c alltoall --sizes 1M --with ring " PAIR, 1,
     "no contender could run at any size: ring cannot do alltoall", "did not take part: ring",
     "nobody can"},
    {"compare -c allreduce --sizes 1M " PAIR " --program " DATA "/allgather_2.xml", 2,
     "does allgather", NULL, "a program of another collective"},

    {"synth -t dgx-a100 -c alltoall --with hm -o /tmp/x.json", 1, "there hm is direct", NULL,
     "a synthesizer that cannot do this here"},
    {"synth -t " DATA "/chain_6.json -c allgather --with sketch --cache none -o /tmp/x.json", 1,
     "no sketch reaches all 6 GPUs", NULL, "a synthesizer that finds none here"},
    {"synth -t " DATA "/chain_6.json -c allgather --with c2c -o /tmp/x.json", 1, "c2c cannot do",
     NULL, "no clusters"},
    {"synth -t dgx1-v100 -c allgather --with sccl --steps 1 --chunks 1 -o /tmp/x.json", 1,
     "no schedule has that few steps", NULL, "proven: there is none"},
    {"synth -t dgx1-v100 -c alltoall --with direct -o - --format xml --executor msccl --allocate "
     "state",
     1, "blocks that connections share; msccl runs none", NULL, "an executor without such blocks"},
    {"lower " PAIR " " DATA "/pair.json --executor msccl --allocate state", 1,
     "msccl runs none: take another", NULL, "the same of lower"},
    {"lower " PAIR " " DATA "/pair.json --executor msccl --allocate state,capacity", 0, NULL,
     "unsupported", "one of two ways"},
    {"synth -t 'servers:1 gpus:2 nvswitch=300GB/s,1us' -c allgather --with ring --channels 1 "
     "--chunks 4096 -o - --format xml --executor msccl",
     1, "than 32 channels of msccl, with blocks of 64 steps, can hold", NULL,
     "more steps than an executor takes"},
    {"synth -t heteccl-h20-4+8 -c alltoall --with direct --format flagcx -o /tmp/x", 1,
     "all GPUs are of one vendor", NULL, "plans between vendors of one"},
    {"tune -q -t dgx-a100 -c alltoall --sizes 64K -k with=ring --budget 3runs --notebook none", 1,
     "no synthesizer of the space can do this", NULL, "tune, where nobody can"},
    {"sweep -q -t dgx-a100 -c alltoall --sizes 64K -k with=ring --budget 3runs --notebook none", 1,
     "no synthesizer of the space can do this", NULL, "sweep, where nobody can"},

    {"balance -t hetccl-snu --speeds nvidia=2,amd=1 --total 48", 0, NULL, "1.500 times as fast",
     "micro-batches by speed"},
    {"balance -t hetccl-snu --speeds all=1 --total 24 --most all=1", 1, "room for 16", NULL,
     "micro-batches that do not fit"},
    {"balance -t hetccl-snu --speeds nvida=1 --total 24", 2, "is nobody in hetccl-snu", NULL,
     "speeds of nobody"},
    {"balance -t hetccl-snu --speeds all --total 24", 2, "who=number is wanted", NULL,
     "a speed without a number"},

    {"", 2, "no command", NULL, "no command"},
    {"simulat", 2, "did you mean \"simulate\"", NULL, "unknown command"},
    {"zzzzzzzz", 2, "unknown command", NULL, "unknown command, nothing near"},
    {"topology", 2, "wants list, show, expand, check or symmetry", NULL, "half a command"},
    {"help simulat", 2, "did you mean \"simulate\"", NULL, "help of an unknown command"},
    {"help --man simulate", 0, NULL, ".SH EXIT STATUS", "a manual page"},
    {"help --completion", 0, NULL, "complete -F", "completion for bash"},
    {"topology shwo dgx-a100", 2, "did you mean \"show\"", NULL, "unknown command of a family"},
    {"--json simulate", 2, "--json before a command", NULL, "an option in the wrong place"},
    {"simulate --sise 1M", 2, "did you mean --size?", NULL, "unknown option, one is near"},
    {"simulate --zzzzzzzzzz", 2, "unknown option --zzzzzzzzzz", NULL, "unknown option"},
    {"simulate -Z", 2, "unknown option -Z", NULL, "unknown letter"},
    {"verify --root 1 x.xml", 2, "--root does not belong to \"verify\"", NULL,
     "an option of another command"},
    {"simulate --size", 2, "--size needs a value", NULL, "value missing"},
    {"simulate --json=1", 2, "takes no value", NULL, "value where none belongs"},
    {"simulate --json --csv x", 2, "exclude each other", NULL, "two forms at once"},
    {"simulate --size 12Q x", 2, "--size", NULL, "a size that is none"},
    {"simulate --size 0 x", 2, "more than 0", NULL, "a size of nothing"},
    {"simulate --batches -1 x", 2, "--batches wants a whole number", NULL, "a negative count"},
    {"simulate --batches 1.5 x", 2, "--batches wants a whole number", NULL, "half a micro-batch"},
    {"simulate --batches 99999999999999999999 x", 2, "whole number", NULL, "too large a count"},
    {"simulate --granularity step x", 2, "algorithm,stage,task", NULL, "unknown choice"},
    {"simulate --progress=xml x", 2, "--progress", NULL, "unknown kind of progress"},
    {"simulate " PAIR, 2, "one program or schedule file", NULL, "nothing to simulate"},
    {"simulate " PAIR " " DATA "/allgather_2.xml", 2, "no size given", NULL, "no size"},
    {"simulate " DATA "/allgather_2.xml --size 1M", 2, "no cluster given", NULL, "no topology"},
    {"simulate " PAIR " a b", 2, "unexpected \"b\"", NULL, "one input too many"},
    {"simulate -t dgx-a100 " DATA "/allgather_2.xml --size 1M", 2, "has 8 GPUs", NULL,
     "program and cluster differ"},
    {"simulate -t dgx-a100 --flows " DATA "/pair.flows", 2, "has 8 GPUs", NULL,
     "flow list and cluster differ"},
    {"simulate " PAIR " " DATA "/malformed.xml --size 1M", 2, "malformed.xml:6:", NULL,
     "bad input elsewhere than in verify"},
    {"simulate " PAIR " --csv --table nope " DATA "/allgather_2.xml --size 1M", 2,
     "summary, links, thread_blocks", NULL, "unknown table"},
    {"topology check " DATA "/bad.json", 2, "bad.json:3:", NULL, "a bandwidth without unit"},
    {"topology check --json " DATA "/bad.json", 2, NULL, "\"valid\": false", "the same in JSON"},
    {"topology show", 2, "no cluster given", NULL, "no topology"},
    {"topology show dgx-a100 --fail gpu:99", 2, "ccllab: --fail gpu:99: ", NULL,
     "an edit of what is not there"},
    {"topology show dgx-a100 --degrade nic:0=50% --fail server:0", 2, "--fail server:0: leaves",
     NULL, "the only server fails"},
    {"verify", 2, "nothing to work on", NULL, "no file"},
    {"verify --executor xyz x", 2, "msccl-old", NULL, "unknown executor"},
    {"simulate --order setp x", 2, "--order wants one of step,rr,hpds,hpds-printed, not \"setp\"",
     NULL, "unknown order"},
    {"simulate --order step,rr x", 2, "--order wants one of", NULL, "a list where one is wanted"},
    {"simulate --allocate block x", 2, "connection,state,capacity", NULL, "unknown allocation"},
    {"simulate --stages hand x", 2, "auto,phase", NULL, "unknown stages"},
    {"simulate --executor nccl x", 2, "any,msccl,rccl,msccl-old", NULL, "unknown executor"},
    {"simulate " PAIR " " DATA "/allgather_2.xml --size 1M --order hpds", 2,
     "allgather_2.xml is a program, which is lowered already: option --order", NULL,
     "a program has its order"},
    {"simulate " PAIR " " DATA "/allgather_2.xml --size 1M --allocate state", 2,
     "option --allocate is for schedules", NULL, "a program has its blocks"},
    {"simulate " PAIR " " DATA "/allgather_2.xml --size 1M --stages phase", 2,
     "option --stages is for schedules", NULL, "a program has its stages"},
    {"simulate " PAIR " --collective allgather --with nccl --size 1M --proto LL", 2,
     "--proto is for schedules; nccl runs", NULL, "NCCL chooses its protocol"},
    {"calibrate -t dgx-a100", 2, "nothing to fit: files of measured runs", NULL, "nothing to fit"},
    {"calibrate --from-nccl-tests " DATA "/half_rails.log", 2, "no cluster given", NULL,
     "no topology"},
    {"calibrate --from-nccl-tests " DATA "/half_rails.log -t dgx-a100", 2,
     "a run of 4 ranks on 2 hosts does not fit", NULL, "a cluster of another shape"},
    {"calibrate --from-nccl-tests " DATA "/bad.json -t dgx-a100", 2, "bad.json:1", NULL,
     "no measured runs"},
    {"calibrate --from-nccl-tests nowhere.log -t dgx-a100", 4, "nowhere.log", NULL, "no such log"},
    {"calibrate " DATA "/programs.csv " PAIR " --hold-out some", 2,
     "nothing to hold out by \"some\"", NULL, "no such hold-out"},
    {"calibrate " DATA "/programs.csv " PAIR " --profile nccl-a100", 2,
     "2 measured runs, with --profile one of NCCL is fitted", NULL, "programs do not run NVLS"},
    {"calibrate " DATA "/no_such_program.csv " PAIR, 4, "no_such_program.csv:2: ", NULL,
     "a program that is not there"},
    {"calibrate " DATA "/programs.csv", 2, "no cluster given", NULL, "no topology"},
    {"validate --measured " DATA "/programs.csv " PAIR " --suite default", 2,
     "option --suite is not for --measured", NULL, "nothing runs"},
    {"validate --profile nccl-h100 --in-place", 2, "option --in-place is for --measured", NULL,
     "nothing was measured"},
    {"validate --measured " DATA "/programs.csv", 2, "no cluster given", NULL, "no topology"},
    {"calibrate --device warp", 2, "unknown device \"warp\"", NULL, "another device"},
    {"calibrate --device cuda --footprints 1M", 2, "is for --device host", NULL, "a host's option"},
    {"calibrate --device host --ranks many", 2, "wants threads or processes", NULL,
     "no such ranks"},
    {"calibrate --device host --footprints 1K", 2, "footprint of 1024 bytes", NULL, "too small"},
    {"calibrate --from-nccl-tests x.log -t dgx-a100 --type fp32", 2, "option --type is for", NULL,
     "an option of the host with a log"},
    {"calibrate --device host -t dgx-a100", 2, "option --topology is for", NULL,
     "an option of logs with the host"},
    {"validate --profile nccl-h100", 2, "of GPU model \"H100\", not of a host", NULL,
     "a GPU's profile for the host"},
    {"calibrate --device host --from-nccl-tests x.log", 2, "exclude each other", NULL, "both"},
    {"calibrate --from-nccl-tests x.log --ranks threads -t dgx-a100", 2, "whole number", NULL,
     "ranks of a log are counted"},
    {"validate", 2, "no profile: --profile P", NULL, "no profile"},
    {"validate --profile " DATA "/device.profile.json", 2, "unknown device \"nowhere\"", NULL,
     "a device that is not there"},
    {"validate --device cuda --profile " DATA "/device.profile.json", 2, "device nowhere, not cuda",
     NULL, "another device than the profile's"},
    {"validate --device cuda --profile " DATA "/host.profile.json", 2,
     "is of a host, not of a device", NULL, "no device's profile"},
    {"validate --device host --profile " DATA "/device.profile.json", 2,
     "is of a device, not of a host", NULL, "no host's profile"},
    {"validate --profile " DATA "/bad.json", 2, "bad.json:1", NULL, "no profile's JSON"},
    {"validate --profile " DATA "/host.profile.json --suite nowhere", 4, "nowhere", NULL,
     "no such suite"},
    {"validate --profile " DATA "/host.profile.json --suite " DATA "/bad.suite", 2,
     "bad.suite:2: no synthesizer \"rong\"", NULL, "a bad line of a suite"},
    {"diagnose -t dgx-a100", 2, "nothing to work on", NULL, "no log"},
    {"diagnose " DATA "/half_rails.log " RAILS " --ranks 8", 2, "none of its 1 measured runs", NULL,
     "no run is left"},
    {"diagnose " DATA "/half_rails.log " RAILS " --run 2", 2, "run 2, but it has 1", NULL,
     "a run that is not there"},
    {"diagnose " DATA "/half_rails.log " RAILS " --profile nccl-h200", 2,
     "is of GPU model \"H200\"", NULL, "a profile of other GPUs"},
    {"diagnose " DATA "/half_rails.log " RAILS, 1, NULL, "one of two rails idle",
     "slower than expected"},
    {"diagnose " DATA "/half_rails.log " RAILS, 1, NULL,
     "One cause is likely: half of the rails idle", "the verdict"},
    {"diagnose " DATA "/half_rails.log " RAILS, 1, NULL, "  256M to 1G (2 sizes): half of what",
     "rows of one verdict"},
    {"diagnose " DATA "/inspector.log -t dgx-h100", 0, NULL,
     "allreduce on 8 ranks, communicator 0xab", "what NCCL's Inspector wrote"},
    {"calibrate " DATA "/inspector.log -t dgx-h100 -o inspector.profile.json", 0, NULL,
     "1 runs, 3 sizes fitted", "what NCCL's Inspector wrote, fitted"},
    {"validate --measured " DATA "/inspector.log -t dgx-h100", 0, NULL, "allreduce",
     "what NCCL's Inspector wrote, beside the model"},
    {"diagnose " DATA "/unnamed.log -t dgx-h100", 2,
     "on 8 ranks that of allgather or alltoall: say which with -c", NULL, "no collective's name"},
    {"diagnose " DATA "/half_rails.log -t a100-x4-2nic", 2, ": -t 'a100-x4-2nic*2' has 8", NULL,
     "as many servers as it needs"},
    {"diagnose " DATA "/half_rails.log -t 'h20-x4*2'", 1,
     "the log is of A100-SXM4-80GB, cluster \"h20-x4*2\" has H20", "allgather", "other GPUs"},
    {"diagnose " DATA "/unnamed.log -t dgx-h100 -c allgather", 0,
     "rows have 295.4: rows are missing", "allgather", "another mean than that of the rows"},
    {"simulate " PAIR " --profile nowhere " DATA "/allgather_2.xml --size 1M", 2,
     "there are msccl-mi300x, nccl-a100", NULL, "no such profile"},
    {"simulate -t dgx-a100 --profile " DATA "/bad.json " DATA "/allgather_2.xml --size 1M", 2, "",
     NULL, "no profile"},
    {"lower", 2, "nothing to work on", NULL, "no schedule"},
    {"lower a b", 2, "unexpected \"b\"", NULL, "one schedule too many"},
    {"lower --order step,nope x", 2, "not \"nope\"", NULL, "an unknown one of a list"},
    {"lower --order step, x", 2, "not \"\"", NULL, "a hole in a list of choices"},
    {"lower --granularity step x", 2, "algorithm,stage,task", NULL, "unknown level"},
    {"lower " DATA "/pair.json", 2, "no cluster given", NULL, "no topology"},
    {"lower -t dgx-a100 " DATA "/pair.json", 2, "has 8 GPUs", NULL, "schedule and cluster differ"},
    {"lower " PAIR " " DATA "/allgather_2.xml", 2, "lowered already", NULL, "a program"},
    {"lower " PAIR " " DATA "/pair.json -o x.json", 2, "must end in .xml", NULL, "unknown ending"},
    {"lower " PAIR " " DATA "/pair.json --all -o x.xml", 2, "36 ways", NULL,
     "many programs for one file"},
    {"lower " PAIR " " DATA "/pair.json --rank 2", 2, "0 to 1, not \"2\"", NULL, "no such rank"},
    {"lower " PAIR " " DATA "/pair.json --rank -1", 2, "--rank wants", NULL, "a negative rank"},
    {"lower " PAIR " " DATA "/pair.json --csv --table nope", 2, "ways, blocks", NULL,
     "unknown table of lower"},
    {"lower " PAIR " " DATA "/wrong.json", 1, "wrong.json: invalid: missing", NULL,
     "a schedule that is wrong"},
    {"lower " PAIR " " DATA "/pair.json", 0, NULL, "speed-up", "a table"},
    {"lower " PAIR " " DATA "/pair.json -o -", 0, NULL, "<algo ", "a program on stdout"},
    {"synth -t dgx-a100 -c allgather --with ring --order hpds", 2, "is about programs", NULL,
     "a schedule is not lowered"},
    {"compare " PAIR " -c allgather --schedule " DATA "/allgather_2.xml", 2, "--program", NULL,
     "a program where a schedule is wanted"},
    {"compare " PAIR " -c allgather --sizes 1M --schedule " DATA "/wrong.json+hpds", 1,
     "wrong.json: invalid", NULL, "compare refuses a wrong schedule"},
    {"compare " PAIR " -c allgather --schedule /nonexistent/a.json+hpds", 4, "/nonexistent/a.json",
     NULL, "no such schedule"},
    {"synth -t dgx-a100 -c allgather -o /tmp/x.json", 2, "--with", NULL, "no synthesizer"},
    {"synth -t dgx-a100 -c allgather --with ring -o /tmp/x.txt", 2, ".json (schedule) or .xml",
     NULL, "unknown ending"},
    {"synth -t dgx-a100 --with ring", 2, "no collective", NULL, "no collective"},
    {"synth -t dgx-a100 -c allgather --with rign", 2, "rign", NULL, "unknown synthesizer"},
    {"synth -t dgx-a100 -c broadcast --root 8 --with ring", 2, "root 8", NULL, "root out of range"},
    {"synth -t dgx-a100 -c allgather --root 1 --with ring", 2, "allgather has no root", NULL,
     "a root that nothing has"},
    {"compare -t dgx-a100 -c allgather,alltoall --root 0", 2, "allgather has no root", NULL,
     "a root for a list of which none has one"},
    {"bound -t dgx-a100 -c allgather,broadcast --root 1 -q", 0, NULL, "broadcast",
     "a root for one of a list"},
    {"synth -t dgx-a100 -c allgather --with ring --search-trace t -o -", 2,
     "--search-trace is for --with cegis", NULL, "a trace of what has none"},
    {"synth -t dgx-a100 -c allgather --with ring --trace t -o -", 2,
     "--search-trace is for --with cegis", NULL, "the same by its older name"},
    {"compare -t dgx-a100 -c allgather --with ring --write-sketches t", 2, "does not belong", NULL,
     "compare writes no sketches"},
    {"compare -t dgx-a100 -c allgather --sizes 1M --with ring --effort 0 --notebook n.db", 2,
     "--effort", NULL, "an effort that no knob has"},
    {"compare -t dgx-a100 -c allgather --with rign", 2, "did you mean \"ring\"", NULL,
     "unknown contender"},
    {"compare -t dgx-a100 -c allgather --sizes 4M:1M", 2, "less than", NULL, "sizes backwards"},
    {"compare -t dgx-a100 -c allgather --sizes 1M:4M:1", 2, "greater than 1", NULL, "no growth"},
    {"compare -t dgx-a100 -c allgather --sizes 1M,,4M", 2, "empty word", NULL, "a hole in a list"},
    {"compare -t dgx-a100 -c allgather --sizes 1:4G:1.0001", 2, "more than 4096", NULL,
     "bounded work"},
    {"compare -t dgx-a100 --demand " DATA "/alltoallv_2.json", 2, "has 8 GPUs", NULL,
     "demand and cluster differ"},
    {"synth -t dgx-a100 -c allgather --with ring --warm " DATA "/alltoallv_2.json -o s.json", 2,
     "--warm is for --with alltoallv", NULL, "a warm start of another synthesizer"},
    {"compare -t dgx-a100 -c allredcue", 2, "did you mean \"allreduce\"", NULL,
     "a collective misspelled"},
    {"compare -t dgx-a100 -c zzz", 2, "one of allreduce, allgather", NULL, "unknown collective"},

    {"verify /nonexistent/file.xml", 4, "/nonexistent/file.xml", NULL, "no such file"},
    {"simulate " PAIR " /nonexistent/file.xml --size 1M", 4, "/nonexistent/file.xml", NULL,
     "no such program"},
    {"topology show dgx-a100 -o /nonexistent/out.txt", 4, "/nonexistent/out.txt", NULL,
     "no such folder to write to"},
    {"topology list -o /dev/full", 4, "/dev/full", NULL, "a full device"},
    {"tune " TUNED " -o /dev/full", 4, "/dev/full: cannot write", NULL, "a tuning's table"},
    {"tune " TUNED " --export /dev/full", 4, "/dev/full/", "time against",
     "no folder to export to"},
    {"tune " TUNED " --replay host:2 --save-profile /dev/full", 4, "/dev/full: cannot write",
     "time against", "a fitted profile"},
    {"sweep " TUNED " --json -o /dev/full", 4, "/dev/full: cannot write", NULL, "a sweep's result"},
    {"sweep " TUNED " --vary scale:bandwidth:nvlink=2,", 2, "--vary scale:bandwidth:nvlink=", NULL,
     "a value that is missing"},
    {"tune " TUNED " --space /dev/null", 2, "/dev/null:1: not valid JSON", NULL, "an empty space"},
    {"tune " TUNED " --space /nonexistent/space.json", 4, "/nonexistent/space.json", NULL,
     "no such space"},
};

START_TEST(codes) {
    if (SANITIZED && _i % 3) /* a start takes a seventh of a second */
        return;
    said_t said = run(rows[_i].line);

    ck_assert_msg(said.rc == rows[_i].rc, "%s: ccllab %s: exit code %d, wanted %d\n%s%s",
                  rows[_i].why, rows[_i].line, said.rc, rows[_i].rc, said.out, said.err);
    if (rows[_i].err) {
        ck_assert_msg(strstr(said.err, rows[_i].err) != NULL, "%s: \"%s\" lacks \"%s\"",
                      rows[_i].why, said.err, rows[_i].err);
        ck_assert_msg(lines(said.err) == 1, "%s: not one line: %s", rows[_i].why, said.err);
        ck_assert_msg(strncmp(said.err, "ccllab: ", 8) == 0, "%s: %s", rows[_i].why, said.err);
    } else {
        ck_assert_msg(said.err[0] == '\0', "%s: stderr: %s", rows[_i].why, said.err);
    }
    if (rows[_i].out)
        ck_assert_msg(strstr(said.out, rows[_i].out) != NULL, "%s: \"%s\" lacks \"%s\"",
                      rows[_i].why, said.out, rows[_i].out);
    else
        ck_assert_msg(said.out[0] == '\0', "%s: stdout: %s", rows[_i].why, said.out);
    said_free(&said);
}
END_TEST

/* A command that ends with 1 in some row says in its manual page when. */
START_TEST(no_is_told) {
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const ccl_i_command_t *command = NULL;

        for (size_t k = 0; ccl_i_commands[k] && rows[i].rc == CCL_EXIT_NO; k++) {
            size_t n = strlen(ccl_i_commands[k]->name);

            if (strncmp(rows[i].line, ccl_i_commands[k]->name, n) == 0 && rows[i].line[n] == ' ')
                command = ccl_i_commands[k];
        }
        if (rows[i].rc == CCL_EXIT_NO)
            ck_assert_msg(command && command->no, "%s: no .no", rows[i].line);
    }
}
END_TEST

START_TEST(warnings_do_not_fail) {
    said_t said = run("simulate " PAIR " " DATA "/allgather_2.xml --size 2M");

    ck_assert_int_eq(said.rc, 0);
    ck_assert_ptr_nonnull(strstr(said.err, "ccllab: warning: "));
    ck_assert_ptr_nonnull(strstr(said.err, "maxBytes"));
    ck_assert_uint_eq(lines(said.err), 1);
    said_free(&said);
    said = run("simulate -q " PAIR " " DATA "/allgather_2.xml --size 2M");
    ck_assert_int_eq(said.rc, 0);
    ck_assert_str_eq(said.err, "");
    said_free(&said);
}
END_TEST

/* The simulator's warnings are told by compare as by simulate, each once. */
START_TEST(simulator_warnings) {
    static const char *const lines_of[] = {
        "simulate -t " DATA "/warned_2.json " DATA "/allgather_2.xml --size 1M",
        "compare -t " DATA "/warned_2.json -c allgather,allreduce --sizes 1M:4M"};
    static const char *const wanted[] = {"has contention but thread blocks on it have no tb_rate",
                                         "whole messages are stored and forwarded"};

    for (size_t i = 0; i < sizeof(lines_of) / sizeof(lines_of[0]); i++) {
        said_t said = run(lines_of[i]);

        ck_assert_msg(said.rc == 0, "%s%s", said.out, said.err);
        for (size_t k = 0; k < 2; k++) {
            const char *at = strstr(said.err, wanted[k]);

            ck_assert_msg(at && !strstr(at + 1, wanted[k]), "%s: %s", lines_of[i], said.err);
        }
        ck_assert_uint_eq(lines(said.err), 2);
        said_free(&said);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("exit codes");
    TCase *cases = tcase_create("all");

    tcase_set_timeout(cases, 240);
    tcase_add_loop_test(cases, codes, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    tcase_add_test(cases, no_is_told);
    tcase_add_test(cases, warnings_do_not_fail);
    tcase_add_test(cases, simulator_warnings);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
