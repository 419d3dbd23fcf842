/*
 * Attributes of PCI elements in NCCL's XML: addresses, classes, ids, the width and speed of a link.
 */
#include "topologies/readers/nccl/nccl_xml.h"

#include <stdlib.h>
#include <string.h>

ccl_i_pci_class_t ccl_i_pci_class(const char *text) {
    /* NCCL's kvDictPciClass and RCCL's additions, matched as prefixes. */
    static const struct {
        const char *prefix;
        ccl_i_pci_class_t value;
    } rows[] = {{"0x060400", CCL_I_CLASS_BRIDGE}, {"0x068000", CCL_I_CLASS_NVSWITCH},
                {"0x068001", CCL_I_CLASS_CPU},    {"0x0680", CCL_I_CLASS_NVSWITCH},
                {"0x0604", CCL_I_CLASS_BRIDGE},   {"0x03", CCL_I_CLASS_GPU},
                {"0x12", CCL_I_CLASS_GPU},        {"0x02", CCL_I_CLASS_NIC}};
    if (!text || !*text)
        return CCL_I_CLASS_NONE;
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++)
        if (strncmp(text, rows[i].prefix, strlen(rows[i].prefix)) == 0)
            return rows[i].value;
    return CCL_I_CLASS_OTHER;
}

/* domain:bus:device.function or bus:device.function, hexadecimal. */
static bool parse_bus(const char *text, uint64_t *out) {
    uint64_t part[4] = {0, 0, 0, 0};
    uint32_t n = 0, digits = 0;
    char separators[4] = "";
    for (const char *c = text;; c++) {
        int value = *c >= '0' && *c <= '9'   ? *c - '0'
                    : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10
                    : *c >= 'A' && *c <= 'F' ? *c - 'A' + 10
                                             : -1;
        if (value >= 0) {
            if (++digits > 8)
                return false;
            part[n] = part[n] << 4 | (uint64_t)value;
        } else if (*c == '\0' || ((*c == ':' || *c == '.') && n < 3)) {
            if (!digits)
                return false;
            if (*c == '\0')
                break;
            separators[n++] = *c;
            digits = 0;
        } else {
            return false;
        }
    }
    if (n == 2 && separators[0] == ':' && separators[1] == '.') {
        part[3] = part[2], part[2] = part[1], part[1] = part[0], part[0] = 0;
    } else if (n != 3 || separators[0] != ':' || separators[1] != ':' || separators[2] != '.') {
        return false;
    }
    if (part[1] > 0xff || part[2] > 0xff || part[3] > 0xff)
        return false;
    *out = part[0] << 24 | part[1] << 16 | part[2] << 8 | part[3];
    return true;
}

ccl_status_t ccl_i_pci_bus(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *attr,
                           uint64_t *out, ccl_error_t *err) {
    const char *text = ccl_i_xml_attr(tree, elem, attr);
    *out = CCL_I_BUS_NONE;
    if (!text || !*text)
        return CCL_OK;
    if (!parse_bus(text, out))
        return ccl_i_xml_fail(tree, elem, err,
                              "%s \"%.40s\" is no PCI address (domain:bus:device.function)", attr,
                              text);
    return CCL_OK;
}

/* "0x10de" to 0x10de; 0 when absent or malformed (such ids are only hints). */
uint32_t ccl_i_pci_hex(const ccl_i_xml_tree_t *tree, uint32_t elem, const char *name) {
    const char *text = ccl_i_xml_attr(tree, elem, name);
    char *end = NULL;
    unsigned long value = text ? strtoul(text, &end, 16) : 0;
    return text && end != text && *end == '\0' && value <= 0xffff ? (uint32_t)value : 0;
}

ccl_status_t ccl_i_nccl_pci_link(const ccl_i_xml_tree_t *tree, uint32_t elem, double *GBps_out,
                                 ccl_error_t *err) {
    const char *text = ccl_i_xml_attr(tree, elem, "link_width");
    int64_t width = 0;
    if (text && *text)
        CCL_TRY(ccl_i_xml_int(tree, elem, "link_width", 0, 64, &width, err));
    *GBps_out = ccl_i_nccl_pci_GBps(ccl_i_xml_attr(tree, elem, "link_speed"), (uint32_t)width);
    return CCL_OK;
}
