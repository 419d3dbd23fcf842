/*
 * Closed forms of the model, a row each: the system, what follows from docs/model.md, and why.
 * Chunks of C = 1 MB per micro-batch on links of B = 10 GB/s and L = 1 us unless said otherwise, so
 * T = C/B = 100 us. Every row also checks that each block's busy and waiting times add up.
 */
#include "small.h"

#define L 1e-6
#define C 1e6
#define T (C / 10e9)

typedef struct row {
    const char *why, *program;
    double want_s;
    small_system_t on;
    const char *watch; /* the block "rank.id" whose end is meant; NULL: the run */
    const char *proto;
    uint32_t batches; /* 0: 1 */
    ccl_granularity_t granularity;
    ccl_sharing_t sharing;
} row_t;

#define ONE "0>1: s1 | 1<0: r1"
#define TWO "0>1: s1 s1 | 1<0: r1 r1"
#define HOP "0>1: s1 | 1<0>2: rcs1 | 2<1: r1"
#define PAIR "0>1#0: s1 | 0>1#1: s1 | 1<0#0: r1 | 1<0#1: r1"
#define STAR "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,10,1 3-s:nvlink,10,1"
#define NV(keys_) .on.transports = "\"nvlink\":{" keys_ "}"
#define HOST_COPIES "\"mechanism\":\"host\",\"copy_in\":\"4GB/s\",\"copy_out\":\"5GB/s\""
#define MIXED "0-1:nvlink,10,1 1-2:pcie,10,1 0-2:nvlink,10,1"

static const row_t rows[] = {
    /* -- one slice */
    {"a slice drains in C/B and arrives L later", ONE, T + L, .batches = 1},
    {"the transport's latency adds to the links'", ONE, T + L + 2e-6, NV("\"latency\":\"2us\"")},
    {"there and back: both ends pay drain and delay", "0>1<1: s1 r1 | 1>0<0: r1 s1",
     2 * (T + L + 2e-6), NV("\"latency\":\"2us\"")},
    {"a block's rate limits the flow: C/R + L", ONE, C / 2e9 + L, NV("\"tb_rate\":\"2GB/s\"")},
    {"a block faster than the link: the link limits", ONE, T + L, NV("\"tb_rate\":\"40GB/s\"")},
    {"cut-through: narrowest link's rate, latencies add", ONE, C / 5e9 + 3e-6,
     .on.links = "0-s:nvlink,10,1 s-1:nvlink,5,2"},
    {"3 chunks in one primitive: 3 C/B + L", "0>1: s3 | 1<0: r3", 3 * T + L, .batches = 1},
    {"nothing to send drains at once and still takes L", "0>1: s0 | 1<0: r0", L, .batches = 1},
    {"nothing to send pays both overheads and the delay", "0>1: s0 | 1<0: r0", 3e-6 + L + 3e-6,
     NV("\"overhead\":\"3us\"")},
    {"four slices of nothing drain at once", "0>1: s0 | 1<0: r0", L, NV("\"slices\":4")},
    {"nothing to send, exclusive: needs no links while another has them",
     "0>1: s1 | 0>1#1: s0 | 1<0: r1 | 1<0#1: r0", L, .watch = "1.1",
     .sharing = CCL_SHARING_EXCLUSIVE},
    /* -- overhead */
    {"overhead of the sending transport, then of the receiving one", ONE, 3e-6 + T + L + 3e-6,
     NV("\"overhead\":\"3us\"")},
    {"overhead once per primitive: two primitives pay it twice", TWO, 2 * (3e-6 + T) + L + 3e-6,
     NV("\"overhead\":\"3us\"")},
    {"overhead once per micro-batch", ONE, 2 * (3e-6 + T) + L + 3e-6, NV("\"overhead\":\"3us\""),
     .batches = 2},
    {"overhead before the first slice only: sender O + T; receiver's is hidden behind slice 1", ONE,
     3e-6 + T + L, NV("\"overhead\":\"3us\",\"slices\":4")},
    {"a fused primitive pays the sending transport's overhead, not the receiving one's", HOP,
     T + L + 9e-6 + T + L + 9e-6, .on.links = MIXED,
     .on.transports = "\"nvlink\":{\"overhead\":\"0us\"},\"pcie\":{\"overhead\":\"9us\"}"},
    {"a receive pays the receiving transport's overhead", ONE, 5e-6 + T + L + 5e-6,
     .on.links = "0-1:xgmi,10,1", .on.transports = "\"xgmi\":{\"overhead\":\"5us\"}"},
    {"re pays the GPU's overhead", "0: re1", 4e-6, .on.gpu = "\"overhead\":\"4us\""},
    {"sends do not pay the GPU's overhead", ONE, T + L, .on.gpu = "\"overhead\":\"4us\""},
    {"nop pays no overhead", "0: nop | 0: nop@0.0", 0, .on.gpu = "\"overhead\":\"4us\""},
    /* -- local work */
    {"cpy: overhead + C / copy_rate", "0: cpy1", 4e-6 + C / 20e9,
     .on.gpu = "\"overhead\":\"4us\",\"copy_rate\":\"20GB/s\""},
    {"re: C / reduce_rate", "0: re1", C / 5e9, .on.gpu = "\"reduce_rate\":\"5GB/s\""},
    {"re does not copy: copy_rate does not matter", "0: re1", 0,
     .on.gpu = "\"copy_rate\":\"5GB/s\""},
    {"cpy does not reduce: reduce_rate does not matter", "0: cpy1", 0,
     .on.gpu = "\"reduce_rate\":\"5GB/s\""},
    {"local work is one slice whatever the transports say: one overhead, whole chunk at once",
     "0: cpy1 | 1>2: s1 | 2<1: r1", 50e-6 + C / 20e9,
     .on.gpu = "\"overhead\":\"50us\",\"copy_rate\":\"20GB/s\"", .watch = "0.0",
     NV("\"slices\":4")},
    {"launch: blocks start then, and time counts from 0", ONE, 7e-6 + T + L,
     .on.gpu = "\"launch\":\"7us\""},
    {"launch is each GPU's own: the receiver comes last", ONE, 500e-6,
     .on.gpu1 = "\"launch\":\"500us\""},
    {"launch of nothing to do but wait", "1: nop", 9e-6, .on.gpu1 = "\"launch\":\"9us\""},
    /* -- reducing */
    {"rrc: the receiver passes at reduce_rate", "0>1: s1 | 1<0: rrc1", T + L + C / 5e9,
     .on.gpu = "\"reduce_rate\":\"5GB/s\""},
    {"r does not reduce", ONE, T + L, .on.gpu = "\"reduce_rate\":\"5GB/s\""},
    {"rrcs: its flow has cap reduce_rate", "0>1: s1 | 1<0>2: rrcs1 | 2<1: r1", T + L + C / 5e9 + L,
     .on.gpu = "\"reduce_rate\":\"5GB/s\""},
    {"rrs reduces, too", "0>1: s1 | 1<0>2: rrs1 | 2<1: r1", T + L + C / 4e9 + L,
     .on.gpu = "\"reduce_rate\":\"4GB/s\""},
    {"rcs does not reduce", HOP, 2 * (T + L), .on.gpu = "\"reduce_rate\":\"5GB/s\""},
    {"rrcs in 4 slices: first slice, then all at reduce_rate", "0>1: s1 | 1<0>2: rrcs1 | 2<1: r1",
     T / 4 + L + C / 5e9 + L, .on.gpu = "\"reduce_rate\":\"5GB/s\"", NV("\"slices\":4")},
    {"reduce_rate is the receiving GPU's own", "0>1: s1 | 1<0: rrc1", T + L + C / 2e9,
     .on.gpu = "\"reduce_rate\":\"5GB/s\"", .on.gpu1 = "\"reduce_rate\":\"2GB/s\""},
    /* -- copying out */
    {"not direct: the receiver passes at tb_rate, too", ONE, C / 4e9 + L + C / 4e9,
     NV("\"tb_rate\":\"4GB/s\",\"direct\":false")},
    {"not direct in 2 slices: sending and copying overlap but for one slice", ONE,
     C / 4e9 + L + C / 8e9, NV("\"tb_rate\":\"4GB/s\",\"direct\":false,\"slices\":2")},
    {"not direct, no tb_rate: copying out costs nothing", ONE, T + L, NV("\"direct\":false")},
    {"rrc, not direct: the slower of tb_rate and reduce_rate", "0>1: s1 | 1<0: rrc1",
     C / 4e9 + L + C / 2e9, NV("\"tb_rate\":\"4GB/s\",\"direct\":false"),
     .on.gpu = "\"reduce_rate\":\"2GB/s\""},
    {"rcs out of what is not direct: the slower of both transports", HOP, C / 2e9 + L + C / 2e9 + L,
     .on.links = MIXED,
     .on.transports = "\"nvlink\":{\"tb_rate\":\"2GB/s\",\"direct\":false},"
                      "\"pcie\":{\"tb_rate\":\"4GB/s\"}"},
    {"rcs out of what is direct: the sending transport's rate alone", HOP,
     C / 2e9 + L + C / 4e9 + L, .on.links = MIXED,
     .on.transports = "\"nvlink\":{\"tb_rate\":\"2GB/s\"},\"pcie\":{\"tb_rate\":\"4GB/s\"}"},
    /* -- slices */
    {"a fused hop forwards slice by slice: T + T/4 + 2L", HOP, T + T / 4 + 2 * L,
     NV("\"slices\":4")},
    {"slice: ceil(C / 300000) = 4 equal ones", HOP, T + T / 4 + 2 * L, NV("\"slice\":300000")},
    {"slice that divides evenly adds none for rounding", HOP, T + T / 4 + 2 * L,
     NV("\"slice\":250000")},
    {"slice a 1e-12th too small for 7: a rounding error adds none", HOP, T + T / 7 + 2 * L,
     NV("\"slice\":142857.142857")},
    {"the larger of ceil(n / slice) and slices", HOP, T + T / 5 + 2 * L,
     NV("\"slice\":300000,\"slices\":5")},
    {"slices count over all transports of the program: pcie's 4 cut nvlink's message",
     "0>2: s1 | 2<0>3: rcs1 | 3<2: r1 | 1>3: s1 | 3<1: r1", T + T / 4 + 2 * L,
     .on.links = "0-2:nvlink,10,1 2-3:nvlink,10,1 1-3:pcie,10,1 0-1:nvlink,10,1",
     .on.transports = "\"pcie\":{\"slices\":4}", .watch = "3.0"},
    {"... but not transports that it does not use", "0>2: s1 | 2<0>3: rcs1 | 3<2: r1", 2 * (T + L),
     .on.links = "0-2:nvlink,10,1 2-3:nvlink,10,1 1-3:pcie,10,1 0-1:nvlink,10,1",
     .on.transports = "\"pcie\":{\"slices\":4}"},
    {"latency once, not per slice, when slices follow each other", ONE, T + L + 2e-6,
     NV("\"latency\":\"2us\",\"slices\":4")},
    {"two primitives of different size have different slices: 3C in 12, C in 4",
     "0>1: s3 s1 | 1<0>2: rcs3 rcs1 | 2<1: r3 r1", 4 * T + T / 4 + 2 * L,
     NV("\"slice\":250000,\"slots\":64")},
    /* -- slots and credits */
    {"1 slot: the second send waits for arrival L and credit L", TWO, 2 * T + 3 * L,
     NV("\"slots\":1")},
    {"1 slot: transport latency is in arrival and credit", TWO, 2 * T + 3 * (L + 5e-6),
     NV("\"slots\":1,\"latency\":\"5us\"")},
    {"2 slots and T > 2L: credits come in time", "0>1: s1 s1 s1 s1 | 1<0: r1 r1 r1 r1", 4 * T + L,
     NV("\"slots\":2")},
    {"2 slots, 4 slices x = T/4, D = 40 us: slice 2 waits for slice 0's credit: 3x + 3D", ONE,
     3 * T / 4 + 3 * 40e-6, NV("\"slots\":2,\"slices\":4,\"latency\":\"39us\"")},
    {"8 slots by default: the 12th send starts on the credit of the 4th receive",
     "0>1: s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 | "
     "1<0: rrc1 rrc1 rrc1 rrc1 rrc1 rrc1 rrc1 rrc1 rrc1 rrc1 rrc1 rrc1",
     (T + L + 4 * C / 1e9) + L + T, .on.gpu = "\"reduce_rate\":\"1GB/s\"", .watch = "0.0"},
    {"a slow receiver is never idle", "0>1: s1 s1 s1 | 1<0: rrc1 rrc1 rrc1", T + L + 3 * C / 1e9,
     .on.gpu = "\"reduce_rate\":\"1GB/s\"", NV("\"slots\":2")},
    {"1 slot, not direct: the slot is free when copied out", TWO, 4 * C / 4e9 + 3 * L,
     NV("\"slots\":1,\"direct\":false,\"tb_rate\":\"4GB/s\"")},
    {"1 slot, fused: the slot is free when forwarded", "0>1: s1 s1 | 1<0>2: rcs1 rcs1 | 2<1: r1 r1",
     4 * T + 4 * L, NV("\"slots\":1")},
    {"FIFOs are per channel: a full one does not stop another",
     "0>1#0: s1 s1 | 0>1#1: s1 | 1<0#1: r1 | 1<0#0: nop@0.0 r1 r1", 2 * T + L, NV("\"slots\":1"),
     .watch = "1.0"},
    /* -- transports that do not hold the block */
    {"net: the block hands the message over at tb_rate, then it crosses: store and forward", ONE,
     C / 4e9 + T + L, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{\"tb_rate\":\"4GB/s\"}"},
    {"net that holds the block: at tb_rate across", ONE, C / 4e9 + L, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{\"tb_rate\":\"4GB/s\",\"holds_tb\":true}"},
    {"net in 2 slices: the last one crosses after all are handed over", ONE, C / 4e9 + T / 2 + L,
     .on.links = "0-1:net,10,1", .on.transports = "\"net\":{\"tb_rate\":\"4GB/s\",\"slices\":2}"},
    {"net without tb_rate: the block goes on at once", "0>1: s1 s1 s1 | 1<0: r1 r1 r1", 0,
     .on.links = "0-1:net,10,1", .watch = "0.0"},
    {"... and its slices drain one after another", "0>1: s1 s1 s1 | 1<0: r1 r1 r1", 3 * T + L,
     .on.links = "0-1:net,10,1"},
    {"slices that wait their turn do not count in z", "0>1: s1 s1 s1 | 1<0: r1 r1 r1", 3 * T + L,
     .on.links = "0-1:net,10,1,1"},
    {"two connections do: z = 2, kappa = 1: half the bandwidth for both", PAIR, 4 * T + L,
     .on.links = "0-1:net,10,1,1"},
    {"a flow of a block that goes on is capped by links alone, whatever tb_rate", PAIR,
     C / 8e9 + 2 * T + L, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{\"tb_rate\":\"8GB/s\"}"},
    {"a block that is not held works on meanwhile", "0>1: s1 cpy1 | 1<0: r1", T,
     .on.links = "0-1:net,10,1", .on.gpu = "\"copy_rate\":\"10GB/s\"", .watch = "0.0"},
    {"a block that is held does not", "0>1: s1 cpy1 | 1<0: r1", 2 * T,
     .on.gpu = "\"copy_rate\":\"10GB/s\"", .watch = "0.0"},
    {"nvlink told not to hold behaves like net", ONE, C / 4e9 + T + L,
     NV("\"tb_rate\":\"4GB/s\",\"holds_tb\":false")},
    {"forwarding over net: taken in, handed over at tb_rate, across", HOP, T + L + C / 4e9 + T + L,
     .on.links = "0-1:nvlink,10,1 1-2:net,10,1 0-2:nvlink,10,1",
     .on.transports = "\"net\":{\"tb_rate\":\"4GB/s\"}"},
    {"the received slot is free when handed over, not when drained",
     "0>1: s1 s1 | 1<0>2: rcs1 rcs1 | 2<1: r1 r1", 2 * T + 3 * L, .watch = "1.0",
     .on.links = "0-1:nvlink,10,1 1-2:net,10,1 0-2:nvlink,10,1",
     .on.transports = "\"nvlink\":{\"slots\":1}"},
    {"net, 1 slot: held until the receiver took it: arrival, credit, next", TWO, 2 * T + 3 * L,
     .on.links = "0-1:net,10,1", .on.transports = "\"net\":{\"slots\":1}"},
    /* -- mechanisms: engines copy into a buffer, the NIC sends it, engines copy out of it */
    {"device: the wire alone", ONE, T + L, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{\"mechanism\":\"device\",\"copy_in\":\"1GB/s\"}"},
    {"host, one slice: in, across, out", ONE, C / 4e9 + T + L + C / 5e9, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES "}"},
    {"... in k slices: one of each stage, k - 1 of the slowest", ONE,
     (C / 4e9 + T + C / 5e9) / 8 + L + 7 * C / 4e9 / 8, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES ",\"slices\":8}"},
    {"... the copy out is slowest", ONE, (C / 5e9 + T + C / 4e9) / 8 + L + 7 * C / 4e9 / 8,
     .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{\"mechanism\":\"host\",\"copy_in\":\"5GB/s\",\"copy_out\":\"4GB/"
                      "s\",\"slices\":8}"},
    {"proxy, the wire is slowest", ONE, (C / 40e9 + T + C / 20e9) / 8 + L + 7 * T / 8,
     .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{\"mechanism\":\"proxy\",\"copy_in\":\"40GB/s\",\"copy_out\":\"20GB/"
                      "s\",\"slices\":8}"},
    {"blocks neither copy nor are held: tb_rate, direct and holds_tb mean nothing", ONE,
     C / 4e9 + T + L + C / 5e9, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES ",\"tb_rate\":\"1GB/s\",\"holds_tb\":true,\"direct\":"
                      "true}"},
    {"rcs: out and in again at the slower of both", HOP,
     C / 4e9 + T + L + C / 4e9 + T + L + C / 5e9,
     .on.links = "0-1:net,10,1 1-2:net,10,1 0-2:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES "}"},
    {"a pool of 1 slice: the next is copied in when the last is out", TWO,
     2 * (C / 4e9 + T + L + C / 5e9) + L, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES ",\"slots\":1}"},
    {"slices of 4 MiB by default: 12 MB are 3", "0>1: s12 | 1<0: r12",
     4 * (C / 4e9 + T + C / 5e9) + L + 8 * C / 4e9, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES "}"},
    {"... and a pool of 16: the 18th is copied in on the credit of the 2nd",
     "0>1: s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 s1 | "
     "1<0: r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1 r1",
     C / 100e9 + T + L + 2 * C / 1e9 + L + C / 100e9, .on.links = "0-1:net,10,1", .watch = "0.0",
     .on.transports = "\"net\":{\"mechanism\":\"proxy\",\"copy_in\":\"100GB/s\",\"copy_out\":\"1GB/"
                      "s\"}"},
    /* -- bytes on links per byte of data */
    {"wire: a flow carries that many bytes", ONE, 2 * T + L, NV("\"wire\":2")},
    {"... a block moves data at tb_rate, its flow asks links for more", ONE, C / 4e9 + L,
     NV("\"tb_rate\":\"4GB/s\",\"wire\":2")},
    {"... until the link is full", ONE, 2 * T + L, NV("\"tb_rate\":\"6GB/s\",\"wire\":2")},
    {"... copies into and out of what the NIC sends are of data", ONE,
     C / 4e9 + 2 * T + L + C / 5e9, .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES ",\"wire\":2}"},
    {"... of one protocol", ONE, 1.5 * T + L, .proto = "LL",
     NV("\"protocols\":{\"LL\":{\"wire\":1.5}}")},
    /* -- messages */
    {"message: takes the narrowest link that long besides its bytes", ONE, 2 * T + L,
     NV("\"message\":\"100us\"")},
    {"... of a route", ONE, 2 * T + L + 2e-6, NV("\"message\":\"100us\""),
     .on.links = "0-s:nvlink,40,1 s-1:nvlink,10,2"},
    {"... and wire", ONE, 3 * T + L, NV("\"message\":\"100us\",\"wire\":2")},
    {"... in its slices together", ONE, 2 * T + L, NV("\"message\":\"100us\",\"slices\":4")},
    {"... of 2.5 times a message's most, three times", ONE, 4 * T + L,
     NV("\"message\":\"100us\",\"message_size\":400000")},
    {"... cut into slices or not", ONE, 4 * T + L,
     NV("\"message\":\"100us\",\"message_size\":400000,\"slices\":7")},
    {"... each primitive", TWO, 4 * T + L, NV("\"message\":\"100us\"")},
    {"... and micro-batch", ONE, 4 * T + L, NV("\"message\":\"100us\""), .batches = 2},
    {"... nothing to send is no message", "0>1: s0 | 1<0: r0", L, NV("\"message\":\"100us\"")},
    {"... messages of several blocks take the link in turn", PAIR, 4 * T + L,
     NV("\"message\":\"100us\"")},
    {"... of one protocol", ONE, 2 * T + L, .proto = "LL",
     NV("\"protocols\":{\"LL\":{\"message\":\"100us\"}}")},
    {"a protocol's own rate", ONE, C / 2e9 + T + L + C / 5e9, .proto = "LL",
     .on.links = "0-1:net,10,1",
     .on.transports = "\"net\":{" HOST_COPIES ",\"protocols\":{\"LL\":{\"copy_in\":\"2GB/s\"}}}"},
    /* -- which transport */
    {"a route over pcie and net is net", ONE, T + 2 * L + 7e-6,
     .on.links = "0-n:pcie,10,1 n-1:net,10,1",
     .on.transports = "\"net\":{\"latency\":\"7us\"},\"pcie\":{\"latency\":\"3us\"}"},
    {"a route over nvlink and pcie is pcie", ONE, T + 2 * L + 3e-6,
     .on.links = "0-s:nvlink,10,1 s-1:pcie,10,1",
     .on.transports = "\"nvlink\":{\"latency\":\"7us\"},\"pcie\":{\"latency\":\"3us\"}"},
    {"else it is its first link's: xgmi on the way there", ONE, T + 2 * L + 7e-6,
     .on.links = "0-s:xgmi,10,1 s-1:nvlink,10,1",
     .on.transports = "\"xgmi\":{\"latency\":\"7us\"},\"nvlink\":{\"latency\":\"3us\"}"},
    {"... and nvlink on the way back", "1>0: s1 | 0<1: r1", T + 2 * L + 3e-6,
     .on.links = "0-s:xgmi,10,1 s-1:nvlink,10,1",
     .on.transports = "\"xgmi\":{\"latency\":\"7us\"},\"nvlink\":{\"latency\":\"3us\"}"},
    {"a protocol's key overrides the transport's", ONE, C / 2e9 + L + 1e-6, .proto = "LL",
     NV("\"tb_rate\":\"5GB/s\",\"latency\":\"3us\",\"protocols\":{\"LL\":{\"tb_rate\":\"2GB/"
        "s\",\"latency\":\"1us\"}}")},
    {"... that key only", ONE, C / 2e9 + L + 3e-6, .proto = "LL",
     NV("\"tb_rate\":\"5GB/s\",\"latency\":\"3us\",\"protocols\":{\"LL\":{\"tb_rate\":\"2GB/"
        "s\"}}")},
    {"... for that protocol only", ONE, C / 5e9 + L + 3e-6, .proto = "LL128",
     NV("\"tb_rate\":\"5GB/s\",\"latency\":\"3us\",\"protocols\":{\"LL\":{\"tb_rate\":\"2GB/"
        "s\"}}")},
    {"... and not for Simple", ONE, C / 5e9 + L,
     NV("\"tb_rate\":\"5GB/s\",\"protocols\":{\"LL128\":{\"tb_rate\":\"2GB/s\"}}")},
    {"Simple can be overridden, too: slots", TWO, 2 * T + 3 * L,
     NV("\"slots\":4,\"protocols\":{\"Simple\":{\"slots\":1}}")},
    {"LL128: slices", HOP, T + T / 8 + 2 * L, .proto = "LL128",
     NV("\"slices\":2,\"protocols\":{\"LL128\":{\"slices\":8}}")},
    /* -- dependencies */
    {"a block that depends goes `flag` after the step is done", "0: cpy1 | 0: cpy1@0.0",
     T + 4e-6 + T, .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\""},
    {"a dependency within the block costs nothing", "0: cpy1 cpy1@0.0", 2 * T,
     .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\""},
    {"nop waits for it", "0: cpy1 | 0: nop@0.0 cpy1", T + 4e-6 + T,
     .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\""},
    {"two dependencies by a nop: the later one counts", "0: cpy1 | 0: cpy3 | 0: nop@1.0 cpy1@0.0",
     3 * T + 4e-6 + T, .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\""},
    {"no flag time: at once", "0: cpy1 | 0: cpy1@0.0", 2 * T, .on.gpu = "\"copy_rate\":\"10GB/s\""},
    {"flag is the GPU's own", "1: cpy1 | 1: cpy1@0.0", 2 * T + 9e-6,
     .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\"",
     .on.gpu1 = "\"flag\":\"9us\",\"copy_rate\":\"10GB/s\""},
    {"dependencies are of the same micro-batch: a pipeline of two blocks", "0: cpy1 | 0: cpy1@0.0",
     4 * T + 4e-6, .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\"", .batches = 3},
    {"the dependency comes before the data: overhead starts when both are there",
     "0>1: s1 | 1<0: r1@1.0 | 1: cpy3", 3 * T + 4e-6,
     .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\""},
    {"a send waits for its dependency before the first slice only",
     "0>1: s1@1.0 | 0: cpy1 | 1<0>2: rcs1 | 2<1: r1", T + 4e-6 + T + T / 4 + 2 * L,
     .on.gpu = "\"flag\":\"4us\",\"copy_rate\":\"10GB/s\"", NV("\"slices\":4")},
    {"a receive is done, and then its dependent may send: a relay in two blocks",
     "0>1: s1 | 1<0: r1 | 1>2: s1@0.0 | 2<1: r1", 2 * (T + L) + 4e-6, .on.gpu = "\"flag\":\"4us\""},
    /* -- sharing */
    {"two blocks of 4 GB/s fit on a link of 10", PAIR, C / 4e9 + L, NV("\"tb_rate\":\"4GB/s\"")},
    {"two blocks of 8 GB/s share it evenly", PAIR, 2 * T + L, NV("\"tb_rate\":\"8GB/s\"")},
    {"kappa = 0.5, z = 1.2: eta = 1/1.1", PAIR, 2.2 * T + L, .on.links = "0-1:nvlink,10,1,0.5",
     NV("\"tb_rate\":\"6GB/s\"")},
    {"kappa without contention (z = 1) costs nothing", PAIR, C / 5e9 + L,
     .on.links = "0-1:nvlink,10,1,0.5", NV("\"tb_rate\":\"5GB/s\"")},
    {"max-min: 0->1 is held to 4 GB/s, 0->2 takes the other 6",
     "0>1: s1 | 0>2: s1 | 1<0: r1 | 2<0: r1", C / 6e9 + 2 * L, .watch = "2.0",
     .on.links = "0-s:nvlink,10,1 s-1:nvlink,4,1 s-2:nvlink,10,1"},
    {"... and 0->1 its 4, then nothing more", "0>1: s1 | 0>2: s1 | 1<0: r1 | 2<0: r1",
     C / 4e9 + 2 * L, .on.links = "0-s:nvlink,10,1 s-1:nvlink,4,1 s-2:nvlink,10,1"},
    {"two directions of a duplex link do not share", "0>1: s1 | 1>0: s1 | 0<1: r1 | 1<0: r1", T + L,
     .batches = 1},
    {"flows of c and 2c on one link drain at 2c/B and 3c/B: the short one",
     "0>1: s1 | 0>1#1: s2 | 1<0: r1 | 1<0#1: r2", 2 * T + L, .watch = "1.0"},
    {"... the long one", "0>1: s1 | 0>1#1: s2 | 1<0: r1 | 1<0#1: r2", 3 * T + L, .watch = "1.1"},
    {"a group of 10 GB/s over two links", "0>1: s1 | 0>2: s1 | 1<0: r1 | 2<0: r1", 2 * T + L,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"10GB/s\",\"links\":[[\"0\",\"1\"],[\"0\",\"2\"]]}"},
    {"a group holds one direction only", "1>0: s1 | 2>0: s1 | 0<1: r1 | 0<2: r1", T + L,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"10GB/s\",\"links\":[[\"0\",\"1\"],[\"0\",\"2\"]]}"},
    {"a flow that is twice in a group uses twice its rate there", ONE, 2 * T + 2 * L,
     .on.links = STAR,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"10GB/s\",\"links\":[[\"0\",\"s\"],[\"s\",\"1\"]]}"},
    {"... beside one that is in it once: equal rates, 9 = 2r + r",
     "0>1: s1 | 2>1: s1 | 1<0: r1 | 1<2: r1", C / 3e9 + 2 * L, .on.links = STAR,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"9GB/s\",\"links\":[[\"0\",\"s\"],[\"s\",\"1\"]]}"},
    /* -- exclusive */
    {"exclusive: one after another, the first at full rate", PAIR, T + L, .watch = "1.0",
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: the second after it", PAIR, 2 * T + L, .watch = "1.1",
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: at rate R, leaving the rest of the link idle", PAIR, 2 * C / 4e9 + L,
     NV("\"tb_rate\":\"4GB/s\""), .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: one flow at a time is no contention", PAIR, 2 * T + L,
     .on.links = "0-1:nvlink,10,1,5", .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: by rank: 0's request for s-2 goes before 1's",
     "1>2: s1 | 0>2: s1 | 2<1: r1 | 2<0: r1", T + 2 * L, .on.links = STAR, .watch = "2.1",
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: ... and 1's after it", "1>2: s1 | 0>2: s1 | 2<1: r1 | 2<0: r1", 2 * T + 2 * L,
     .on.links = STAR, .watch = "2.0", .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: then by thread block", "0>1#1: s1 | 0>1#0: s1 | 1<0#1: r1 | 1<0#0: r1", T + L,
     .watch = "1.0", .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: an earlier instant goes before a lower rank",
     "0>2: cpy1 s1 | 1>2: s1 | 2<0: r1 | 2<1: r1", 2 * T + 2 * L, .on.links = STAR,
     .on.gpu = "\"copy_rate\":\"1000GB/s\"", .watch = "2.0", .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: half a picosecond later is the same instant: 0 goes before 1",
     "0>2: cpy1 s1 | 1>2: s1 | 2<0: r1 | 2<1: r1", T + 2 * L, .on.links = STAR,
     .on.gpu = "\"copy_rate\":\"2000000000GB/s\"", .watch = "2.0",
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: three picoseconds are not", "0>2: cpy1 s1 | 1>2: s1 | 2<0: r1 | 2<1: r1",
     2 * T + 2 * L, .on.links = STAR, .on.gpu = "\"copy_rate\":\"333333333GB/s\"", .watch = "2.0",
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: all links or none: 1->3 waits behind 1->2, which waits for 0->2",
     "0>2: s1 | 1>2: s1 | 1>3: s1 | 2<0: r1 | 2<1: r1 | 3<1: r1", 3 * T + 2 * L, .on.links = STAR,
     .watch = "3.0", .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: whoever wants other links need not wait",
     "0>2: s1 | 1>2: s1 | 2>3: s1 | 2<0: r1 | 2<1: r1 | 3<2: r1", T + 2 * L, .on.links = STAR,
     .watch = "3.0", .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: groups still limit", "0>1: s1 | 0>2: s1 | 1<0: r1 | 2<0: r1", 2 * T + L,
     .on.groups =
         "{\"name\":\"g\",\"bandwidth\":\"10GB/s\",\"links\":[[\"0\",\"1\"],[\"0\",\"2\"]]}",
     .sharing = CCL_SHARING_EXCLUSIVE},
    {"exclusive: stages of one block are ordered",
     "0>1: s1/0 | 0>1#1: s1/0 s1/1 | 1<0: r1/0 | 1<0#1: r1/0 r1/1", 3 * T + L,
     .granularity = CCL_GRANULARITY_STAGE, .sharing = CCL_SHARING_EXCLUSIVE},
    /* -- granularity: two steps, two micro-batches, a block that waits for the first step */
    {"algorithm level: step 0 of micro-batch 1 is done at 3T", "0: cpy1 cpy1 | 0: cpy1@0.0", 4 * T,
     .on.gpu = "\"copy_rate\":\"10GB/s\"", .batches = 2, .watch = "0.1"},
    {"task level: at 2T", "0: cpy1 cpy1 | 0: cpy1@0.0", 3 * T, .on.gpu = "\"copy_rate\":\"10GB/s\"",
     .batches = 2, .watch = "0.1", .granularity = CCL_GRANULARITY_TASK},
    {"task level: step 1 of micro-batch 0 is done at 3T, so its dependent ends at 5T",
     "0: cpy1 cpy1 | 0: cpy1@0.1", 5 * T, .on.gpu = "\"copy_rate\":\"10GB/s\"", .batches = 2,
     .granularity = CCL_GRANULARITY_TASK},
    {"stage level: two stages overlap micro-batches: 3T + flag", "0: cpy1/0 cpy1/1", 3 * T + 4e-6,
     .on.gpu = "\"copy_rate\":\"10GB/s\",\"flag\":\"4us\"", .batches = 2,
     .granularity = CCL_GRANULARITY_STAGE},
    {"stage level without stages is algorithm level", "0: cpy1 cpy1 | 0: cpy1@0.0", 4 * T,
     .on.gpu = "\"copy_rate\":\"10GB/s\"", .batches = 2, .watch = "0.1",
     .granularity = CCL_GRANULARITY_STAGE},
    {"algorithm level takes no notice of stages", "0: cpy1/0 cpy1/1", 4 * T,
     .on.gpu = "\"copy_rate\":\"10GB/s\",\"flag\":\"4us\"", .batches = 2},
    {"stage level: algorithm level inside a stage", "0: cpy1/0 cpy1/0 cpy1/1", 5 * T,
     .on.gpu = "\"copy_rate\":\"10GB/s\"", .batches = 2, .granularity = CCL_GRANULARITY_STAGE},
    {"stage level: a FIFO for each stage: no credit to wait for", "0>1: s1/0 s1/1 | 1<0: r1/0 r1/1",
     2 * T + L, NV("\"slots\":1"), .granularity = CCL_GRANULARITY_STAGE},
    {"stage level: stages wait for the previous one there is: 0, then 7", "0: cpy1/0 cpy1/7",
     2 * T + 4e-6, .on.gpu = "\"copy_rate\":\"10GB/s\",\"flag\":\"4us\"",
     .granularity = CCL_GRANULARITY_STAGE},
    {"stage level: stages of a micro-batch in order, three of them pipelined",
     "0: cpy1/0 cpy1/1 cpy1/2", 5 * T + 2 * 4e-6,
     .on.gpu = "\"copy_rate\":\"10GB/s\",\"flag\":\"4us\"", .batches = 3,
     .granularity = CCL_GRANULARITY_STAGE},
};

static ccl_sim_result_t *simulate(const ccl_topology_t *topo, const ccl_program_t *program,
                                  const row_t *row) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.batches = row->batches ? row->batches : 1;
    options.size_bytes = 4 * C * options.batches; /* the programs have 4 chunks */
    options.granularity = row->granularity;
    options.sharing = row->sharing;
    ccl_status_t status = ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", row->why, err.text);
    return result;
}

START_TEST(test_row) {
    const row_t *row = &rows[_i];
    ccl_topology_t *topo = small_topology(&row->on);
    ccl_program_t *program =
        small_program(row->program, topo->nranks, row->proto ? row->proto : "Simple", NULL);
    ccl_sim_result_t *result = simulate(topo, program, row);
    double got = row->watch ? result->tbs[small_tb(program, row->watch)].done_s : result->time_s;
    printf("%-90s %12.6f us, simulated %12.6f us\n", row->why, row->want_s * 1e6, got * 1e6);
    ck_assert_msg(fabs(got - row->want_s) <= 1e-9 * row->want_s, "%s: %.12g us, expected %.12g us",
                  row->why, got * 1e6, row->want_s * 1e6);
    for (uint32_t t = 0; t < program->ntbs && row->granularity != CCL_GRANULARITY_STAGE; t++) {
        const ccl_tb_use_t *use = &result->tbs[t];
        double sum = use->busy_s + use->wait_data_s + use->wait_peer_s + use->wait_slot_s;
        ck_assert_msg(fabs(sum - (use->done_s - use->start_s)) <= 1e-9 * result->time_s,
                      "%s: block %u: %g us of use in %g us", row->why, t, sum * 1e6,
                      (use->done_s - use->start_s) * 1e6);
    }
    ck_assert_double_eq_tol(result->algbw_GBps * result->time_s * 1e9, result->size_bytes,
                            result->time_s > 0 ? 1e-9 * result->size_bytes : INFINITY);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model.sim.forms");
    TCase *tcase = tcase_create("forms");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_row, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
