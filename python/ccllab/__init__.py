"""ccllab: which schedule of a collective is fastest on a cluster of GPUs, by how much, and is it correct at all?

    import ccllab

    cluster = ccllab.topology("dgx-h100*2")
    table = ccllab.compare(cluster, "allgather", "1M:1G:4", ["nccl", "ring", "hm"])
    program = ccllab.synthesize(cluster, "allgather", "ring", "64M").lower(cluster, "64M")
    run = ccllab.simulate(cluster, program, "64M")

Names of results have their units: time_s, size_bytes, busbw_GBps (10^9 bytes a second). Sizes are bytes or text such as
"64M" (2^20). Errors are exceptions of CcllabError. docs/python.md explains it.
"""

from ._call import Cancel, Progress
from ._version import VERSION as __version__
from .comparisons import Comparison, compare
from .errors import (
    Cancelled,
    CcllabError,
    CheckError,
    DeadlockError,
    FileError,
    InfeasibleError,
    InputError,
    InternalError,
    LimitError,
    MissingError,
    NoMemoryError,
    UnsupportedError,
    UsageError,
)
from .pictures import Picture
from .programs import (
    Demand,
    Fault,
    Program,
    Schedule,
    Verdict,
    load_plugin,
    read,
    read_text,
    synthesize,
    synthesizers,
)
from .runs import Bound, Run, bound, simulate
from .topologies import Topology, library, schema, topology, topology_text

__all__ = [
    "Bound",
    "Cancel",
    "Cancelled",
    "CcllabError",
    "CheckError",
    "Comparison",
    "DeadlockError",
    "Demand",
    "Fault",
    "FileError",
    "InfeasibleError",
    "InputError",
    "InternalError",
    "LimitError",
    "MissingError",
    "NoMemoryError",
    "Picture",
    "Program",
    "Progress",
    "Run",
    "Schedule",
    "Topology",
    "UnsupportedError",
    "UsageError",
    "Verdict",
    "__version__",
    "bound",
    "compare",
    "library",
    "load_plugin",
    "read",
    "read_text",
    "schema",
    "simulate",
    "synthesize",
    "synthesizers",
    "topology",
    "topology_text",
]
