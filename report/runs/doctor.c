/* What a build of ccllab has in it, under which licences, and what it finds on this machine. */
#include "report/describe.h"

typedef struct part_row {
    const char *name, *version, *use, *licence, *version_or_no;
    bool built_in;
} part_row_t;

typedef struct device_row {
    const char *device, *name;
    uint32_t index;
    bool available;
} device_row_t;

static uint64_t count_parts(const void *root) {
    return ((const ccl_doctor_t *)root)->nparts;
}

static const void *part_at(const void *root, uint64_t i, void *scratch) {
    const ccl_doctor_part_t *p = &((const ccl_doctor_t *)root)->parts[i];
    part_row_t *out = scratch;
    *out = (part_row_t){.name = p->name,
                        .version = p->version,
                        .use = p->use,
                        .licence = p->licence,
                        .version_or_no = !p->built_in ? "left out"
                                         : p->version ? p->version
                                                      : "yes",
                        .built_in = p->built_in};
    return out;
}

static uint64_t count_devices(const void *root) {
    return ((const ccl_doctor_t *)root)->ndevices;
}

static const void *device_at(const void *root, uint64_t i, void *scratch) {
    const ccl_device_info_t *d = &((const ccl_doctor_t *)root)->devices[i];
    device_row_t *out = scratch;
    *out = (device_row_t){
        .device = d->kind, .name = d->name, .index = d->index, .available = d->available};
    return out;
}

#define AT(member) CCL_I_AT(part_row_t, member)
static const ccl_i_described_t part_record = {
    .size = sizeof(part_row_t),
    .fields =
        (const ccl_i_field_t[]){{"name", AT(name)},
                                {"built_in", AT(built_in)},
                                {"version", AT(version), .null = "left out, or it does not say"},
                                {"use", AT(use), "what it is for"},
                                {"licence", AT(licence), "SPDX"},
                                {"version_or_no", AT(version_or_no), .hidden = true},
                                {0}}};
#undef AT
#define AT(member) CCL_I_AT(device_row_t, member)
static const ccl_i_described_t device_record = {
    .size = sizeof(device_row_t),
    .fields = (const ccl_i_field_t[]){{"device", AT(device), "what --device takes"},
                                      {"index", AT(index), "of its kind"},
                                      {"available", AT(available)},
                                      {"name", AT(name), "where it is not available, why not"},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_doctor_t, member)
const ccl_i_result_t ccl_i_result_doctor = {
    "doctor", "ccllab doctor", "what is built in, and what is on this machine",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"build", AT(build), "version and a hash of the sources"},
            {"compiler", AT(compiler)},
            {"here", AT(here), "what `topology here` finds, or why nothing"},
            {"parts", CCL_I_LIST_OF(part_record, count_parts, part_at)},
            {"devices", CCL_I_LIST_OF(device_record, count_devices, device_at)},
            {0}}}};
#undef AT

ccl_status_t ccl_report_doctor(const ccl_doctor_t *doctor, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err) {
    static const ccl_i_column_t parts[] = {
        CCL_I_COLUMN("name", "library"), CCL_I_COLUMN("version_or_no", "version"),
        CCL_I_COLUMN("licence"), CCL_I_COLUMN("use"), CCL_I_COLUMNS_END};
    static const ccl_i_column_t devices[] = {
        CCL_I_COLUMN("device"), CCL_I_COLUMN("index", .left = true),
        CCL_I_COLUMN("available", NULL, ccl_i_show_yes, .left = true), CCL_I_COLUMN("name"),
        CCL_I_COLUMNS_END};
    const ccl_i_described_t *root = ccl_i_result_doctor.root;
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_doctor, doctor, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(root, "parts", doctor, NULL, style->format, out, err);
    ccl_text_printf(out, "ccllab %s (Apache-2.0), built with %s\n\n", doctor->build,
                    doctor->compiler);
    CCL_TRY(ccl_i_rows_emit(root, "parts", doctor, parts, style->format, out, err));
    ccl_text_printf(out, "\ndevices that programs run on\n");
    CCL_TRY(ccl_i_rows_emit(root, "devices", doctor, devices, style->format, out, err));
    ccl_text_printf(out, "\ntopology here: ");
    ccl_text_add_wrapped(out, doctor->here);
    ccl_text_printf(out, "\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
