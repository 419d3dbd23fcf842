# libccllab.so: all modules but cli. It exports what the public headers declare (CCL_BEGIN_DECLS in
# base/base.h); ccllab.map gives these symbols a version and hides the rest. SOVERSION is the major version; while
# that is 0 it is 0.MINOR, as any minor version may change the interface.
set(objects "")
foreach(module IN LISTS CCL_MODULES)
  list(APPEND objects $<TARGET_OBJECTS:ccl_${module}>)
endforeach()
get_property(outside GLOBAL PROPERTY CCL_OUTSIDE_LIBS)
list(REMOVE_DUPLICATES outside)

add_library(ccllab_library SHARED ${objects})
add_library(ccllab::ccllab ALIAS ccllab_library)
set(map ${CMAKE_CURRENT_LIST_DIR}/ccllab.map)
set_target_properties(ccllab_library PROPERTIES
  OUTPUT_NAME ccllab EXPORT_NAME ccllab
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LINK_DEPENDS ${map})
target_link_libraries(ccllab_library PRIVATE $<BUILD_INTERFACE:ccl_flags> ${outside} PkgConfig::JANSSON
                      Threads::Threads)
target_link_options(ccllab_library PRIVATE LINKER:--version-script=${map} LINKER:-Bsymbolic)
if(NOT CCL_SANITIZE) # a sanitizer's runtime comes with the program
  target_link_options(ccllab_library PRIVATE LINKER:--no-undefined)
endif()
set(headers "")
foreach(module IN LISTS CCL_MODULES)
  ccl_public_headers(${module} public)
  list(APPEND headers ${public})
endforeach()
target_sources(ccllab_library PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
# ccllab.h: all of them in one.
set(lines "")
foreach(module IN LISTS CCL_MODULES)
  string(APPEND lines "#include \"${module}/${module}.h\"\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/ccllab.h @ONLY CONTENT
[[/**
 * @file ccllab.h
 * Every public header of libccllab @PROJECT_VERSION@ (docs/library.md).
 */
#ifndef CCLLAB_H
#define CCLLAB_H

@lines@
#endif
]])
target_sources(ccllab_library PUBLIC FILE_SET one TYPE HEADERS BASE_DIRS ${PROJECT_BINARY_DIR}/include
               FILES ${PROJECT_BINARY_DIR}/include/ccllab.h)
