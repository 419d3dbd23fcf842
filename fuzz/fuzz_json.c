#include "base/base.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every value is asked for its place: the scanner behind messages sees all of what jansson accepts.
 */
static void visit(const ccl_json_at_t *at, unsigned *budget) {
    if (!*budget)
        return;
    --*budget;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_json_fail(at, &err, "seen");
    if (err.line < 1 || err.column < 1)
        __builtin_trap();
    double value;
    ccl_json_rate_Bps(at, false, &value, NULL);
    ccl_json_time_s(at, false, &value, NULL);
    ccl_json_bytes(at, false, &value, NULL);
    const char *key;
    json_t *child;
    json_object_foreach((json_t *)at->value, key, child) {
        ccl_json_at_t member = ccl_json_member(at, key);
        if (member.value != child)
            __builtin_trap();
        visit(&member, budget);
    }
    for (size_t i = 0; i < json_array_size(at->value); i++) {
        ccl_json_at_t element = ccl_json_element(at, i);
        visit(&element, budget);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    if (ccl_json_parse("fuzz", (const char *)data, size, &doc, &err) != CCL_OK) {
        if (!err.text[0])
            __builtin_trap();
        return 0;
    }
    unsigned budget = 200; /* each place is a scan of the text */
    ccl_json_at_t root = ccl_json_root(&doc);
    visit(&root, &budget);
    ccl_json_fini(&doc);
    return 0;
}
