/* Is a description of a cluster good? */
#include "report/describe.h"

typedef struct check {
    const char *input, *name, *error;
    bool valid;
    uint32_t nranks, devices, links;
} check_t;

#define AT(member) CCL_I_AT(check_t, member)
#define REFUSED "it was refused"
const ccl_i_result_t ccl_i_result_topology_check = {
    "topology-check", "ccllab topology check", "is this a good description?",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){{"input", AT(input), "as given"},
                                          {"valid", AT(valid)},
                                          {"name", AT(name), .null = REFUSED},
                                          {"nranks", AT(nranks), .null = REFUSED},
                                          {"devices", AT(devices), .null = REFUSED},
                                          {"links", AT(links), "directed", .null = REFUSED},
                                          {"error", AT(error), "in words", .null = "it is good"},
                                          {0}}}};
#undef AT

ccl_status_t ccl_report_topology_check(const char *spec, const ccl_topology_t *topo,
                                       const ccl_error_t *why, const ccl_report_style_t *style,
                                       ccl_text_t *out, ccl_error_t *err) {
    static const ccl_i_column_t columns[] = {CCL_I_COLUMN("input"), CCL_I_COLUMN("valid"),
                                             CCL_I_COLUMN("nranks"), CCL_I_COLUMN("error"),
                                             CCL_I_COLUMNS_END};
    check_t check = {spec, NULL, NULL, topo != NULL, CCL_NONE, CCL_NONE, CCL_NONE};
    char text[1200] = "";

    if (topo) {
        check.name = topo->name;
        check.nranks = topo->nranks;
        check.devices = topo->ndevices;
        check.links = topo->nlinks;
    } else {
        ccl_error_format(why, text, sizeof(text));
        check.error = text;
    }
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_topology_check, &check, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_row_emit(ccl_i_result_topology_check.root, &check, columns, style->format, out,
                              err);
    if (topo)
        ccl_text_printf(out, "%s: good: %u GPUs, %u devices, %u directed links, %u server%s\n",
                        topo->name, topo->nranks, topo->ndevices, topo->nlinks, topo->nservers,
                        topo->nservers == 1 ? "" : "s");
    return ccl_i_text_status(out, err);
}
