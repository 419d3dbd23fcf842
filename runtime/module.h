/**
 * @file module.h
 * Shared objects that are opened at run time: device modules, and the one that speaks MPI.
 */
#ifndef CCL_RUNTIME_MODULE_H
#define CCL_RUNTIME_MODULE_H

/**
 * Open `file`, looked for in the folders of CCL_DEVICE_PATH (colons between them), then beside
 * the program and where an install puts modules, then where the dynamic linker looks.
 * @return NULL when it is not here; else close with dlclose().
 */
void *ccl_i_module_open(const char *file);

#endif
