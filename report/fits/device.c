/* The calibration of a device as text, JSON and CSV. */
#include "report/fits/constants.h"

typedef struct root {
    ccl_i_constants_t constants;
    const char *output;
    uint32_t programs, lanes;
    double r2, median_error, worst_error;
} root_t;

#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_calibrate_device = {
    "calibrate-device", "ccllab calibrate --device cuda, hip",
    "constants fitted to runs on a device",
    &(const ccl_i_described_t){.fields = (const ccl_i_field_t[]){
                                   {"output", AT(output), "file of the constants"},
                                   {"programs", AT(programs), "that ran"},
                                   {"lanes", AT(lanes), "the most blocks at a time"},
                                   {"r2", AT(r2), "of log(time)"},
                                   {"median_error", AT(median_error), "of |fitted / measured - 1|"},
                                   {"worst_error", AT(worst_error)},
                                   CCL_I_CONSTANTS(root_t, ccl_i_gpu_constant_record),
                                   {0}}}};

ccl_status_t ccl_report_gpu_calibration(const ccl_gpu_calibration_t *made, const char *output,
                                        const ccl_report_style_t *style, ccl_text_t *out,
                                        ccl_error_t *err) {
    const root_t root = {
        {made->constants, made->nconstants, false, "us", 1e6, 4, "the runs tell it"},
        output,
        made->npoints,
        made->lanes,
        made->r2,
        made->median_error,
        made->worst_error};
    const ccl_i_described_t *record = ccl_i_result_calibrate_device.root;

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_calibrate_device, &root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_constants_emit(record, &root, &root.constants, style->format, out, err);
    ccl_text_printf(out,
                    "%u programs, up to %u blocks at a time: R2 %.4f of log(time); error median "
                    "%.1f %%, worst %.1f %%\n\n",
                    made->npoints, made->lanes, made->r2, 100 * made->median_error,
                    100 * made->worst_error);
    CCL_TRY(ccl_i_constants_emit(record, &root, &root.constants, style->format, out, err));
    ccl_text_printf(out, "\nwritten to %s\n", output);
    return ccl_i_text_status(out, err);
}
