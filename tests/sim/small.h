/*
 * Small systems from text.
 *
 * Links: "0-1:nvlink,10,1 0-s:pcie,5,0.5,0.2": duplex, GB/s, us, contention; numbers are GPUs by
 * rank, names switches, and those that begin with n NICs.
 * Programs: blocks "0>1<2#1: s1 rcs2 nop@0.1 cpy1/1 | ...": rank, peer to send to, peer to receive
 * from, channel; primitives with their count, "@block.step" to wait for, "/stage". A peer "{123}"
 * is a group of ranks, "!0" the single GPU of a switch connection.
 */
#ifndef CCL_TESTS_SIM_SMALL_H
#define CCL_TESTS_SIM_SMALL_H

#include <check.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "tests/topologies/topologies.h"

typedef struct small_system {
    const char *links;      /* NULL: SMALL_MESH */
    const char *transports; /* members of "transports" */
    const char *gpu, *gpu1; /* members of the model of all GPUs; of rank 1 alone */
    const char *groups;     /* elements of "groups" */
    const char *switches;   /* members of all switches; of the switch t alone */
    const char *top;
} small_system_t;

#define SMALL_MESH                                                                                 \
    "0-1:nvlink,10,1 0-2:nvlink,10,1 0-3:nvlink,10,1 1-2:nvlink,10,1 1-3:nvlink,10,1 "             \
    "2-3:nvlink,10,1"

static inline ccl_topology_t *small_topology(const small_system_t *system) {
    ccl_text_t devices = {0}, links = {0}, all = {0};
    char seen[64][8];
    uint32_t nseen = 0;
    const char *at = system->links ? system->links : SMALL_MESH;
    while (*at) {
        char end[2][8], kind[16];
        double GBps, us, kappa = 0;
        int len = 0, more = 0;
        ck_assert_int_eq(
            sscanf(at, "%7[^-]-%7[^:]:%15[^,],%lf,%lf%n", end[0], end[1], kind, &GBps, &us, &len),
            5);
        if (at[len] == ',' && sscanf(at + len, ",%lf%n", &kappa, &more) == 1)
            len += more;
        at += len + strspn(at + len, " ");
        for (int k = 0; k < 2; k++) {
            uint32_t i = 0;
            while (i < nseen && strcmp(seen[i], end[k]) != 0)
                i++;
            if (i < nseen)
                continue;
            memcpy(seen[nseen++], end[k], sizeof end[k]);
            bool gpu = isdigit((unsigned char)end[k][0]);
            ccl_text_printf(&devices, "%s{\"id\":\"%s\",\"kind\":\"%s\"", nseen > 1 ? "," : "",
                            end[k],
                            gpu                ? "gpu"
                            : end[k][0] == 'n' ? "nic"
                                               : "switch");
            if (gpu)
                ccl_text_printf(&devices, ",\"rank\":%s,\"model\":\"%s\"", end[k],
                                system->gpu1 && strcmp(end[k], "1") == 0 ? "H" : "G");
            const char *keys = strcmp(end[k], "t") == 0 && system->top ? system->top
                               : system->switches                      ? system->switches
                                                                       : "";
            if (!gpu && end[k][0] != 'n' && *keys)
                ccl_text_printf(&devices, ",%s", keys);
            ccl_text_printf(&devices, "}");
        }
        ccl_text_printf(
            &links,
            "%s{\"from\":\"%s\",\"to\":\"%s\",\"kind\":\"%s\",\"bandwidth\":\"%.17gGB/s\","
            "\"latency\":\"%.17gus\",\"contention\":%.17g}",
            links.len ? "," : "", end[0], end[1], kind, GBps, us, kappa);
    }
    ccl_text_printf(&all,
                    "{\"format\":\"ccllab-topology-1\",\"name\":\"small\",\"devices\":[%s],"
                    "\"links\":[%s],\"groups\":[%s],\"transports\":{%s},"
                    "\"gpu_models\":{\"G\":{%s}%s%s%s}}",
                    devices.data, links.data, system->groups ? system->groups : "",
                    system->transports ? system->transports : "", system->gpu ? system->gpu : "",
                    system->gpu1 ? ",\"H\":{" : "", system->gpu1 ? system->gpu1 : "",
                    system->gpu1 ? "}" : "");
    ccl_topology_t *topo = topology_of(all.data);
    ccl_text_fini(&devices);
    ccl_text_fini(&links);
    ccl_text_fini(&all);
    return topo;
}

static inline ccl_primitive_t small_primitive(const char *name) {
    for (int p = 0; p <= CCL_PRIM_NOP; p++)
        if (strcmp(name, ccl_primitive_name((ccl_primitive_t)p)) == 0)
            return (ccl_primitive_t)p;
    ck_abort_msg("no primitive %s", name);
    return CCL_PRIM_NOP;
}

/** "2", "!2" or "{024}". */
static inline uint32_t small_peer(ccl_program_builder_t *b, const char *at, const char **end) {
    uint32_t ranks[10], n = 0;
    char *stop;
    if (*at == '{') {
        for (at++; *at != '}'; at++)
            ranks[n++] = (uint32_t)(*at - '0');
        *end = at + 1;
        return ccl_program_builder_group(b, ranks, n);
    }
    uint32_t flag = *at == '!' ? CCL_PEER_MEMBER : 0;
    uint32_t rank = (uint32_t)strtoul(flag ? at + 1 : at, &stop, 10);
    *end = stop;
    return rank | flag;
}

/** nchunks is 4. @param coll owned by the program; NULL: an allgather. */
static inline ccl_program_t *small_program(const char *text, uint32_t nranks, const char *proto,
                                           ccl_collective_t *coll) {
    if (!coll)
        ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, nranks, 1, 0, &coll, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create("small", coll, 4, proto);
    const char *at = text;
    while (*at) {
        char *end;
        uint32_t rank = (uint32_t)strtoul(at, &end, 10), to = CCL_NONE, from = CCL_NONE,
                 channel = 0;
        for (at = end; *at != ':';) {
            uint32_t *field = *at == '>' ? &to : *at == '<' ? &from : *at == '#' ? &channel : NULL;
            ck_assert_msg(field != NULL, "block at '%s'", at);
            *field = small_peer(b, at + 1, &at);
        }
        uint32_t tb = ccl_program_builder_tb(b, rank, to, from, channel);
        for (at = at + 1 + strspn(at + 1, " "); *at && *at != '|'; at += strspn(at, " ")) {
            char name[8] = "";
            ccl_step_t s = {.dep_tb = CCL_NONE, .dep_step = CCL_NONE};
            size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz");
            ck_assert_msg(len > 0 && len < sizeof name, "primitive at '%s'", at);
            memcpy(name, at, len);
            s.type = (uint8_t)small_primitive(name);
            s.count = (uint32_t)strtoul(at + len, &end, 10);
            if (*end == '@') {
                s.dep_tb = (uint32_t)strtoul(end + 1, &end, 10);
                s.dep_step = (uint32_t)strtoul(end + 1, &end, 10);
            }
            if (*end == '/')
                s.stage = (uint16_t)strtoul(end + 1, &end, 10);
            at = end;
            ccl_program_builder_step(b, tb, s);
        }
        if (*at == '|')
            at += 1 + strspn(at + 1, " ");
    }
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_program_builder_finish(b, &program, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", text, err.text);
    return program;
}

/** The block "rank.id" of a program. */
static inline uint32_t small_tb(const ccl_program_t *p, const char *name) {
    uint32_t rank = 0, id = 0;
    ck_assert_int_eq(sscanf(name, "%u.%u", &rank, &id), 2);
    return p->rank_first_tb[rank] + id;
}

#endif
