/* The devices that programs can run on. */
#include "report/describe.h"

#include <math.h>

typedef struct found {
    const ccl_device_info_t *devices;
    uint32_t n;
} found_t;

typedef struct device_row {
    const char *device, *name, *why_not, *architecture, *name_or_why;
    uint32_t index, units, some_units;
    bool available;
    double memory_bytes, memory_or_0;
} device_row_t;

static uint64_t count_devices(const void *root) {
    return ((const found_t *)root)->n;
}

static const void *device_at(const void *root, uint64_t i, void *scratch) {
    const ccl_device_info_t *d = &((const found_t *)root)->devices[i];
    device_row_t *out = scratch;

    *out = (device_row_t){d->kind,
                          d->available ? d->name : NULL,
                          d->available ? NULL : d->name,
                          d->architecture[0] ? d->architecture : NULL,
                          d->name,
                          d->index,
                          d->units,
                          d->units ? d->units : CCL_NONE,
                          d->available,
                          d->memory_bytes > 0 ? d->memory_bytes : NAN,
                          d->memory_bytes};
    return out;
}

#define AT(member) CCL_I_AT(device_row_t, member)
static const ccl_i_described_t device_record = {
    .size = sizeof(device_row_t),
    .fields =
        (const ccl_i_field_t[]){{"device", AT(device), "what --device takes"},
                                {"index", AT(index), "of its kind"},
                                {"available", AT(available)},
                                {"name", AT(name), .null = "not available"},
                                {"why_not", AT(why_not), .null = "available"},
                                {"architecture", AT(architecture), .null = "not known"},
                                {"units", AT(units), "cores or multiprocessors"},
                                {"memory_bytes", AT(memory_bytes), .null = "not known"},
                                {"some_units", AT(some_units), .null = "none", .hidden = true},
                                {"memory_or_0", AT(memory_or_0), .hidden = true},
                                {"name_or_why", AT(name_or_why), .hidden = true},
                                {0}}};
#undef AT
const ccl_i_result_t ccl_i_result_devices = {
    "devices", "ccllab devices", "the devices that programs can run on",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"devices", CCL_I_LIST_OF(device_record, count_devices, device_at)}, {0}}}};

static const char *show_GiB(double bytes, char *out, size_t out_len) {
    snprintf(out, out_len, "%.1f GiB", bytes / 0x1p30);
    return out;
}

ccl_status_t ccl_report_devices(const ccl_device_info_t *devices, uint32_t n,
                                const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    static const ccl_i_column_t csv[] = {CCL_I_COLUMN("device"),
                                         CCL_I_COLUMN("index"),
                                         CCL_I_COLUMN("available"),
                                         CCL_I_COLUMN("some_units", "units"),
                                         CCL_I_COLUMN("memory_or_0", "memory_bytes"),
                                         CCL_I_COLUMN("architecture"),
                                         CCL_I_COLUMN("name_or_why", "name"),
                                         CCL_I_COLUMNS_END};
    static const ccl_i_column_t text[] = {
        CCL_I_COLUMN("device"),
        CCL_I_COLUMN("index", .left = true),
        CCL_I_COLUMN("available", NULL, ccl_i_show_yes, .left = true),
        CCL_I_COLUMN("some_units", "units", .left = true),
        CCL_I_COLUMN("memory_bytes", "memory", show_GiB, .left = true),
        CCL_I_COLUMN("architecture"),
        CCL_I_COLUMN("name_or_why", "name"),
        CCL_I_COLUMNS_END};
    const found_t found = {devices, n};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_devices, &found, out, err);
    return ccl_i_rows_emit(ccl_i_result_devices.root, "devices", &found,
                           style->format == CCL_REPORT_CSV ? csv : text, style->format, out, err);
}
