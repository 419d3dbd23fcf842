"""Structs, enumerators and functions of the C library that the package uses.

The C headers are what counts: tests/python/layout.py has the compiler compare every struct below with them, member by
member, what CCL_..._INIT sets, every enumerator, and every prototype, which is C as it stands there.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any, Dict, List, Optional

NONE = 0xFFFFFFFF
"""CCL_NONE: no such index."""

_WORDS: Dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "double": ctypes.c_double,
    "int": ctypes.c_int,  # and enums
    "ptr": ctypes.c_void_p,  # to what the package does not look into
    "size": ctypes.c_size_t,
    "text": ctypes.c_char_p,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
}
STRUCTS: List[Any] = []


def struct(
    c_name: str, members: str, whole: bool = True, init: str = "", defaults: Optional[Dict[str, Any]] = None
) -> Any:
    """A struct of the C headers.

    members: "TYPE name, name[LENGTH]; ..." in order, TYPE a word above or an earlier struct, with * a pointer to it;
    a trailing _ keeps a name from being a word of Python. whole: false where more members follow, which is for structs
    that are read through pointers. init: the macro with its defaults, which defaults repeats; all else is 0.
    """
    fields = []
    for declaration in members.split(";"):
        word, names = declaration.strip().split(" ", 1)
        kind = _WORDS[word.rstrip("*")]
        if word.endswith("*"):
            kind = ctypes.POINTER(kind)
        for name in names.split(","):
            name, *lengths = re.findall(r"\w+", name)
            of = kind
            for length in reversed(lengths):
                of = of * int(length)
            fields.append((name, of))
    made = type(
        c_name,
        (ctypes.Structure,),
        {"_fields_": fields, "C_NAME": c_name, "WHOLE": whole, "INIT": init, "DEFAULTS": defaults or {}},
    )
    _WORDS[c_name] = made
    STRUCTS.append(made)
    return made


def fresh(kind: Any) -> Any:
    """A struct of options with its defaults."""
    new = kind()
    if hasattr(kind, "size"):
        new.size = ctypes.sizeof(kind)
    for name, value in kind.DEFAULTS.items():
        setattr(new, name, fresh(value) if isinstance(value, type) else value)
    return new


# base

Error = struct(
    "ccl_error_t",
    "int status, line, column; char where[256], text[768]",
)

Progress = struct(
    "ccl_progress_t",
    "text phase; u64 done, total; double best_s, bound_s",
)

Ctx = struct(
    "ccl_ctx_t",
    "ptr log, log_user, progress, progress_user, cancel; u64 seed; u32 threads; ptr work, runs, judge",
    init="CCL_CTX_INIT", defaults={"seed": 1},
)

Arena = struct(
    "ccl_arena_t",
    "ptr head; size used_bytes",
)

Text = struct(
    "ccl_text_t",
    "ptr data; size len, cap; bool nomem; size columns",
)

JsonDoc = struct(
    "ccl_json_doc_t",
    "ptr root, text; size len; char name[256]; ccl_arena_t names",
)

Option = struct(
    "ccl_option_t",
    "text name; char letter; int type; size offset; text value; ptr words; double min, max, automatic; "
    "text doc, otherwise, excludes, alias; ptr check; text knob; double knob_max; ptr knob_words; text "
    "knob_doc; u32 flags",
)

# topologies

Device = struct(
    "ccl_device_t",
    "text id; int kind; u32 server, rank, model; bool multicast, reduce; u32 groups; double "
    "reduce_rate_Bps; text types",
)

Link = struct(
    "ccl_link_t",
    "u32 from_, to, kind, lanes; double bandwidth_Bps, latency_s, contention",
)

GpuModel = struct(
    "ccl_gpu_model_t",
    "text name, vendor; u32 sms; double copy_rate_Bps, reduce_rate_Bps, overhead_s, flag_s, launch_s; u32 "
    "launches; double protocol_launch_s[3]",
)

Topology = struct(
    "ccl_topology_t",
    "text name, source, note, profile, profile_about, own_profile; "
    "u32 ndevices, nlinks, ngroups, nservers, nranks, "
    "nkinds, ntransports, ngpu_models; ccl_device_t* devices; ccl_link_t* links; ptr groups; text* servers, kinds; "
    "ptr transports; ccl_gpu_model_t* gpu_models; u32* rank_device, rank_local_index, out_first, out_links; "
    "ccl_arena_t arena",
)

LibraryEntry = struct(
    "ccl_library_entry_t",
    "text name; bool is_server; text summary, text; size len",
)

# models, schedule

LatencyBound = struct(
    "ccl_latency_bound_t",
    "double latency_s; u32 from_, to, hops",
)

Fraction = struct(
    "ccl_fraction_t",
    "u64 num, den",
)

BandwidthBound = struct(
    "ccl_bandwidth_bound_t",
    "int proof; double Bps; ccl_fraction_t exact_Bps; bool tight; u32 nparts; ptr part; u32 nlinks; ptr links, lengths; "
    "double distance, trees_Bps; ccl_arena_t arena",
)

TimeBound = struct(
    "ccl_time_bound_t",
    "u32 ncuts; ptr cuts; ccl_arena_t arena",
)

BoundProto = struct(
    "ccl_bound_proto_t",
    "text proto; double latency_s, Bps; ccl_time_bound_t time",
)

Bound = struct(
    "ccl_bound_t",
    "ccl_latency_bound_t latency; ccl_bandwidth_bound_t bandwidth; u32 nprotos; ccl_bound_proto_t protos[3]; "
    "double size_bytes, bandwidth_s, time_s; int by",
)

BoundOptions = struct(
    "ccl_bound_options_t",
    "size size; double size_bytes; text proto; ptr routes; bool no_latency, any_switches",
    init="CCL_BOUND_OPTIONS_INIT",
)

Collective = struct(
    "ccl_collective_t",
    "int kind; u32 nranks, nchunks, chunks_per_block, root; ptr chunks; double natural_bytes; text name",
    whole=False,
)

Transfer = struct(
    "ccl_transfer_t",
    "u32 src, dst, chunk, step; u16 channel; u8 reduce, phase",
)

Schedule = struct(
    "ccl_schedule_t",
    "text name; char origin[200]; ccl_collective_t* coll; ccl_transfer_t* transfers; u32 ntransfers, nsteps, "
    "nchannels; ptr groups; u32 ngroups; bool limited",
    whole=False,
)

Step = struct(
    "ccl_step_t",
    "u32 src_off, dst_off, count, dep_tb, dep_step; u16 stage; u8 type, src_buf, dst_buf, "
    "has_dep",
)

ThreadBlock = struct(
    "ccl_tb_t",
    "u32 rank, id, send_peer, recv_peer, channel, first_step, nsteps",
)

Program = struct(
    "ccl_program_t",
    "text name; char origin[200]; text proto; ccl_collective_t* coll; u32 nranks, nchunks, nchannels, ntbs, "
    "nsteps; bool in_place, out_of_place; double min_bytes, max_bytes, piece_bytes; u32 "
    "missing_attributes; ccl_tb_t* tbs; ptr rank_first_tb; ccl_step_t* steps",
    whole=False,
)

VerifyOptions = struct(
    "ccl_verify_options_t",
    "size size; int executor, granularity; u32 slots, batches; bool skip_deadlock, limits_only",
    init="CCL_VERIFY_OPTIONS_INIT",
)

Fault = struct(
    "ccl_fault_t",
    "text kind; u32 rank, tb, step, chunk; char text[640]; u32 slots, least_slots",
)

Verdict = struct(
    "ccl_verdict_t",
    "bool valid; ccl_fault_t fault; u32 nwarnings; char warnings[8][256]",
)

# sim

SimOptions = struct(
    "ccl_sim_options_t",
    "size size; double size_bytes; u32 batches; int granularity, sharing; bool no_skip; ptr trace; bool "
    "step_times, no_fold, path; u32 intervals; double give_up_s; bool estimate, cause; ptr variation",
    init="CCL_SIM_OPTIONS_INIT",
)

LinkUse = struct(
    "ccl_link_use_t",
    "double bytes, utilization",
)

TbUse = struct(
    "ccl_tb_use_t",
    "double start_s, done_s, busy_s, wait_data_s, wait_peer_s, wait_slot_s",
)

SimResult = struct(
    "ccl_sim_result_t",
    "double time_s, algbw_GBps, busbw_GBps, size_bytes, chunk_bytes; u32 batches, nlinks, ntbs; ccl_link_use_t* "
    "links; ccl_tb_use_t* tbs; ptr stages; u32 nstages; double* step_start_s, step_end_s; ptr flow_done_s, path; "
    "u32 npath; ptr link_bytes; u32 intervals; u64 transfers, flows, events, skipped_batches, "
    "rate_changes; bool estimated, known; ptr deadlock",
    whole=False,
)

# lower, synth, search

Way = struct(
    "ccl_way_t",
    "int order, allocation, granularity",
)

LowerOptions = struct(
    "ccl_lower_options_t",
    "size size; text proto; bool no_fuse, out_of_place, ordered; u32 slots; int order, allocation, "
    "granularity, stages; bool asked; int executor; ptr topo, routes; double size_bytes; u32 batches; ptr "
    "stats; bool rough; ptr memo, run_out",
    init="CCL_LOWER_OPTIONS_INIT", defaults={"proto": b"Simple"},
)

SketchOptions = struct(
    "ccl_sketch_options_t",
    "bool keep_isomorphic, keep_inconsistent, keep_relayed; u32 max_relays, max_stages, max_sketches; ptr "
    "file, added, write; double within; u32 most_simulated; double coarse, fine; bool no_shapes; text "
    "borrow, cache",
    defaults={"max_relays": NONE},
)

C2cOptions = struct(
    "ccl_c2c_options_t",
    "u32 clusters; text inner",
)

StragglerOptions = struct(
    "ccl_straggler_options_t",
    "u32 rank; double late_s; int join",
    defaults={"rank": NONE},
)

SynthOptions = struct(
    "ccl_synth_options_t",
    "size size; double size_bytes; u32 channels, chunks; double time_limit_s; u32 restarts, steps, rounds; "
    "double epoch_s; bool uniform_roots; int compose; u32 effort; double tau_ref_s; bool ceiling, "
    "plain_start; ptr trace, stats; ccl_sketch_options_t sketch; bool part, plain, no_switches; ccl_c2c_options_t c2c; "
    "ccl_straggler_options_t straggler; ptr warm; double hope_s, in_switch_bytes; double own[64]",
    init="CCL_SYNTH_OPTIONS_INIT", defaults={"effort": 1, "sketch": SketchOptions, "straggler": StragglerOptions},
)

SynthOps = struct(
    "ccl_synth_ops_t",
    "size size; text name, summary, source; ptr supports, supports_with, synthesize; bool ordered, "
    "by_size, composable, by_name; ptr options; ccl_way_t* way; bool in_switch, through_switches, few, "
    "staggers",
)

Contender = struct(
    "ccl_contender_t",
    "text name; ptr program, schedule, way; bool library",
)

Rank = struct(
    "ccl_rank_t",
    "int kind; double level",
)

CompareOptions = struct(
    "ccl_compare_options_t",
    "size size; ccl_contender_t* contenders; u32 ncontenders; double* sizes_bytes; u32 nsizes; ccl_synth_options_t "
    "synth; ccl_lower_options_t lower; ccl_sim_options_t sim; bool no_verify; u32 way_bits; ptr notebook; bool "
    "protocols; text profile; ptr machine; bool registered; ptr draws; u32 samples; ccl_rank_t rank; bool keep; "
    "double gap, hope",
    init="CCL_COMPARE_OPTIONS_INIT", defaults={"synth": SynthOptions, "lower": LowerOptions, "sim": SimOptions},
)

CompareCell = struct(
    "ccl_compare_cell_t",
    "int status; text proto, why",
    whole=False,
)

Comparison = struct(
    "ccl_comparison_t",
    "u32 ncontenders, nsizes; ptr names, why_not, thread_blocks, ways, lowered, sizes_bytes, bound_s; "
    "ccl_compare_cell_t* cells; u32* winner; ptr tie, best; u32 nwarnings; text* warnings; "
    "u32 resumed; bool interrupted",
    whole=False,
)

# draw, report

DrawTopologyOptions = struct(
    "ccl_draw_topology_options_t",
    "size size; text title; ptr links; text run",
    init="CCL_DRAW_TOPOLOGY_OPTIONS_INIT",
)

DrawTimelineOptions = struct(
    "ccl_draw_timeline_options_t",
    "size size; text title; int rows; bool by_chunk; u32 rank; bool unfolded",
    init="CCL_DRAW_TIMELINE_OPTIONS_INIT", defaults={"rank": NONE},
)

ReportStyle = struct(
    "ccl_report_style_t",
    "int format; text table; u32 rows, columns",
    init="CCL_REPORT_STYLE_INIT",
)

ReportVerdict = struct(
    "ccl_report_verdict_t",
    "text input, form, collective; u32 nranks; ptr verdict, malformed; text origin",
)

ReportBounds = struct(
    "ccl_report_bounds_t",
    "ptr topo; u32 nbounds; ptr collectives, bounds; bool over_time",
)

ReportRun = struct(
    "ccl_report_run_t",
    "text input; ptr topo, program, flows, verdict, options, result, way, bound, epochs; bool unicast; "
    "ptr spread",
)

ReportComparison = struct(
    "ccl_report_comparison_t",
    "ptr topo; u32 ncomparisons; ptr collectives, comparisons, options; u64 seed; text scenario",
)

ReportPage = struct(
    "ccl_report_page_t",
    "text question; ptr topo; u32 ndocs; ptr docs; text date, command",
)

# Enumerators by their places, and other constants.
STATUSES = (
    "CCL_OK CCL_CHECK CCL_INFEASIBLE CCL_DEADLOCK CCL_UNSUPPORTED CCL_ERR_USAGE CCL_ERR_INPUT CCL_TIMEOUT "
    "CCL_ERR_IO CCL_ERR_MISSING CCL_ERR_NOMEM CCL_ERR_INTERNAL CCL_INTERRUPTED "
).split()
LOG_LEVELS = "CCL_LOG_ERROR CCL_LOG_WARN CCL_LOG_INFO CCL_LOG_DEBUG".split()
DEVICE_KINDS = "CCL_DEVICE_GPU CCL_DEVICE_SWITCH CCL_DEVICE_NIC CCL_DEVICE_HOST".split()
OPTION_TYPES = (
    "CCL_OPTION_FLAG CCL_OPTION_EITHER CCL_OPTION_CHOICE CCL_OPTION_WORD CCL_OPTION_COUNT CCL_OPTION_TIME "
    "CCL_OPTION_BYTES CCL_OPTION_NUMBER CCL_OPTION_PERCENT CCL_OPTION_TEXT CCL_OPTION_INPUT "
    "CCL_OPTION_OUTPUT CCL_OPTION_SCHEDULE "
).split()
DRAW_FORMATS = "CCL_DRAW_SVG CCL_DRAW_PDF CCL_DRAW_PNG".split()
DRAW_ROWS = (
    "CCL_DRAW_ROWS_AUTO CCL_DRAW_ROWS_BLOCK CCL_DRAW_ROWS_GPU CCL_DRAW_ROWS_SERVER CCL_DRAW_ROWS_LINK "
    "CCL_DRAW_ROWS_PHASE "
).split()
REPORT_FORMATS = "CCL_REPORT_TEXT CCL_REPORT_JSON CCL_REPORT_CSV".split()
ENUMS = [STATUSES, LOG_LEVELS, DEVICE_KINDS, OPTION_TYPES, DRAW_FORMATS, DRAW_ROWS, REPORT_FORMATS]
CONSTANTS = {
    "CCL_NONE": NONE,
    "CCL_ORIGIN_LEN": 200,
    "CCL_MAX_WARNINGS": 8,
    "CCL_PROTOCOLS": 3,
    "CCL_WAY_ORDER": 1,
    "CCL_WAY_ALLOCATION": 2,
    "CCL_WAY_GRANULARITY": 4,
    "CCL_CUSTOM": 9,
}
