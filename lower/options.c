/* The options of lowering: the one place that declares them. */
#include "lower/lower.h"

_Static_assert(sizeof(ccl_order_t) == sizeof(uint32_t), "enums are set as 32 bits");

#define AT(member_) offsetof(ccl_lower_options_t, member_)

const ccl_option_t ccl_lower_option_table[] = {
    {.name = "order",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(order),
     .value = "ORDER",
     .words = CCL_OPTION_WORDS("step", "rr", "hpds", "hpds-printed"),
     .automatic = -1,
     .doc = "order of a rank's work: the schedule's steps; rr, round robin over chunks; hpds, "
            "ResCCL's sub-pipelines (section 4.3), the fastest of their variants and the order "
            "given; hpds-printed, algorithm 1 alone",
     .otherwise = "step",
     .knob = "order"},
    {.name = "allocate",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(allocation),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("connection", "state", "capacity"),
     .automatic = -1,
     .doc = "a thread block per connection and channel; state, one for connections that are never "
            "active together (ResCCL, 4.4); capacity, several channels where a link is fast "
            "(HeteCCL, 5.3)",
     .otherwise = "connection",
     .knob = "allocate"},
    {.name = "stages",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(stages),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("auto", "phase"),
     .doc = "at stage level: cut where data passes between links inside servers and the network, "
            "or at the schedule's phases",
     .otherwise = "auto"},
    {.name = "executor",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(executor),
     .value = "WHICH",
     .words = CCL_OPTION_WORDS("any", "msccl", "rccl", "msccl-old"),
     .doc = "limits of that executor: lowering keeps them by cutting blocks over channels, verify "
            "checks them",
     .otherwise = "any"},
    {.name = "proto",
     .type = CCL_OPTION_WORD,
     .offset = AT(proto),
     .value = "Simple|LL|LL128",
     .words = CCL_OPTION_WORDS("Simple", "LL", "LL128"),
     .doc = "protocol of the program",
     .otherwise = "Simple",
     .knob = "proto"},
    {.name = "no-fuse",
     .type = CCL_OPTION_FLAG,
     .offset = AT(no_fuse),
     .doc = "keep receiving and forwarding in thread blocks of their own",
     .knob = "fuse",
     .knob_words = CCL_OPTION_WORDS("yes", "no"),
     .knob_doc = "receiving and forwarding share a thread block where they can"},
    {.name = "out-of-place",
     .type = CCL_OPTION_FLAG,
     .offset = AT(out_of_place),
     .doc = "separate output buffer",
     .otherwise = "in place where the collective allows it"},
    {.name = "slots",
     .type = CCL_OPTION_COUNT,
     .offset = AT(slots),
     .value = "N",
     .doc = "FIFO depth that the program must finish with",
     .knob = "slots",
     .knob_max = 64,
     .flags = CCL_OPTION_KNOB_ONLY},
    {.name = NULL},
};
