/* Lists devices; linked with a registry that was configured for lib/x86_64-linux-gnu. */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    ccl_device_info_t *list = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t n = 0;
    if (ccl_devices_list(&list, &n, &err) != CCL_OK)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        printf("%s,%u,%s,%s\n", list[i].kind, list[i].index, list[i].available ? "true" : "false",
               list[i].name);
    free(list);
    return 0;
}
