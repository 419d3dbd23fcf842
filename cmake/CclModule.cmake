# ccl_add_module(NAME SOURCES ... [DEPS ...] [LIBS ...])
#   A static library ccl_NAME, alias ccllab::NAME, for the program and the tests; all of them together are the
#   shared library (cmake/CclLibrary.cmake). DEPS are modules below it (their include
#   directories and libraries come along), LIBS are private outside libraries.
# ccl_add_test(KIND.AREA.CASE SOURCE... DEPS module... [TIMEOUT s])
#   A libcheck program registered with CTest under that name, label KIND.

add_library(ccl_flags INTERFACE)
target_compile_options(ccl_flags INTERFACE -Wall -Wextra $<$<BOOL:${CCL_WERROR}>:-Werror>)
# The model is checked to 1e-9: no fused or reordered arithmetic behind our back.
target_compile_options(ccl_flags INTERFACE -ffp-contract=off)
set(sanitize ${CCL_SANITIZE})
if(CCL_BUILD_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "CCL_BUILD_FUZZ needs clang; use the preset fuzz or -DCMAKE_C_COMPILER=clang")
  endif()
  set(sanitize address,undefined)
  # Coverage for libFuzzer in the modules too; each target's main comes from -fsanitize=fuzzer.
  target_compile_options(ccl_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(sanitize)
  # What an access through NULL or past an object does, address finds; those checks cost a tenth of the building.
  target_compile_options(ccl_flags INTERFACE -fsanitize=${sanitize} -fno-omit-frame-pointer -fno-sanitize-recover=all
                         -fno-sanitize=null,object-size,pointer-overflow)
  set(sanitize_link ${sanitize})
  # A trap in place of a message: its tables would be 6 of the 7 MB that the search for leaks reads whenever the program
  # ends. The address sanitizer says where (handle_sigill, CMakePresets.json).
  if(sanitize MATCHES "address.*undefined" AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    target_compile_options(ccl_flags INTERFACE -fsanitize-undefined-trap-on-error)
    string(REPLACE ",undefined" "" sanitize_link ${sanitize}) # its library is of no use then, and 6 MB more to read
  endif()
  # gcc's flow-based warnings misfire on instrumented code; the plain build keeps them.
  target_compile_options(ccl_flags INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation
                         -Wno-maybe-uninitialized -Wno-stringop-overflow>)
  target_link_options(ccl_flags INTERFACE -fsanitize=${sanitize_link})
  # Where it was linked: else a start moves 55,000 addresses, most of them of the sanitizer's own tables.
  target_link_options(ccl_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()

# Large arrays of sanitized programs are used again, but for tests with a malloc of their own.
if(CCL_BUILD_TESTS AND NOT CCL_BUILD_FUZZ AND sanitize MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL GNU)
  add_library(ccl_kept OBJECT ${PROJECT_SOURCE_DIR}/tests/base/kept.c)
  target_include_directories(ccl_kept PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(ccl_kept PRIVATE ccl_flags)
  target_link_options(ccl_kept INTERFACE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free)
endif()
function(ccl_keep_arrays target source)
  file(STRINGS ${source} own LIMIT_COUNT 1 REGEX "__wrap_malloc|failing_malloc[.]h")
  if(TARGET ccl_kept AND NOT own)
    target_link_libraries(${target} PRIVATE ccl_kept)
  endif()
endfunction()

# Public headers of a module: the one of its name, and those of its folders that this one includes.
function(ccl_public_headers name out)
  set(main ${PROJECT_SOURCE_DIR}/${name}/${name}.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${main})
  set(headers ${main})
  file(STRINGS ${main} lines REGEX "^#include \"${name}/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"(.*)\"$" "\\1" header "${line}")
    list(APPEND headers ${PROJECT_SOURCE_DIR}/${header})
  endforeach()
  set(${out} ${headers} PARENT_SCOPE)
endfunction()

function(ccl_add_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_SOURCES)
    message(FATAL_ERROR "module ${name} has no sources")
  endif()
  add_library(ccl_${name} STATIC ${ARG_SOURCES})
  add_library(ccllab::${name} ALIAS ccl_${name})
  set_target_properties(ccl_${name} PROPERTIES EXPORT_NAME ${name})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(ccl_${name} PUBLIC ccllab::${dep})
  endforeach()
  target_link_libraries(ccl_${name} PRIVATE $<BUILD_INTERFACE:ccl_flags> ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY CCL_OUTSIDE_LIBS ${ARG_LIBS})
  ccl_public_headers(${name} headers)
  target_sources(ccl_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
endfunction()

# Check keeps to one process. Arrays that every candidate takes and gives back stay with a test's process: the system
# would zero the same pages each time, a third of the time of unit.synth.latency. Sanitizers have their own malloc, the
# program sets bounds of its own, and a test of scarce memory (tests/base/scarce.h) has none in store.
set(CCL_KEPT_MEMORY "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432")
string(APPEND CCL_KEPT_MEMORY ":glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=16777216")
function(ccl_test_environment out source)
  set(environment CK_FORK=no)
  file(STRINGS ${source} scarce LIMIT_COUNT 1 REGEX "^#include \"tests/base/scarce.h\"")
  if(NOT CCL_SANITIZE AND NOT scarce)
    list(APPEND environment GLIBC_TUNABLES=${CCL_KEPT_MEMORY})
  endif()
  set(${out} ${environment} PARENT_SCOPE)
endfunction()

function(ccl_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "DEPS;SOURCES" ${ARGN})
  set(sources ${ARG_SOURCES} ${ARG_UNPARSED_ARGUMENTS})
  string(REPLACE "." "_" target test_${name})
  add_executable(${target} ${sources})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE ccllab::${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ccl_flags PkgConfig::CHECK m)
  target_compile_definitions(${target} PRIVATE CCLLAB_DATA_DIR="${CCLLAB_DATA_DIR}"
                             CCLLAB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # What tests do themselves is seldom what takes long, and building is a fifth of tools/check.
  if(CCL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
  add_test(NAME ${name} COMMAND ${target})
  list(GET sources 0 source)
  ccl_keep_arrays(${target} ${source})
  ccl_test_environment(environment ${source})
  string(REGEX MATCH "^[^.]+" kind ${name})
  set(timeout 120)
  if(ARG_TIMEOUT)
    set(timeout ${ARG_TIMEOUT})
  endif()
  # It only ends what hangs: sanitized, on a machine with six times its load, a test still passes.
  math(EXPR timeout "6 * ${timeout}")
  # 77: what the test needs (data, a device) is not here.
  set_tests_properties(${name} PROPERTIES LABELS ${kind} TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                       ENVIRONMENT "${environment}" ENVIRONMENT_MODIFICATION COLUMNS=unset:)
endfunction()

# ccl_add_tests(MODULE [DEPS module...]): every KIND_CASE.c of this folder is a test KIND.MODULE.CASE. A first line
# "// timeout: S" raises its limit (120 s on a quiet machine, six times that on any) and lets it begin first. Modules above its own that a case may use are DEPS, and named in
# tests/house/layers.sh. A case that includes tests/base/nightly.h is also the test KIND.MODULE.CASE.nightly, with the
# label nightly alone and six times the limit: it does all of its work there, and enough for every change elsewhere.
function(ccl_add_tests module)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_*.c)
  foreach(case IN LISTS cases)
    get_filename_component(stem ${case} NAME_WE)
    string(REGEX MATCH "^([a-z]+)_(.*)$" _ ${stem})
    set(kind ${CMAKE_MATCH_1})
    set(rest ${CMAKE_MATCH_2})
    file(STRINGS ${case} first LIMIT_COUNT 1 REGEX "^// timeout: [0-9]+")
    set(timeout 120)
    if(first)
      string(REGEX MATCH "[0-9]+" timeout "${first}")
    endif()
    ccl_add_test(${kind}.${module}.${rest} SOURCES ${case} DEPS ${module} ${ARG_DEPS} TIMEOUT ${timeout})
    if(first) # the long ones begin first, so that none is left alone at the end
      set_tests_properties(${kind}.${module}.${rest} PROPERTIES COST ${timeout})
    endif()
    file(STRINGS ${case} more LIMIT_COUNT 1 REGEX "^#include \"tests/base/nightly.h\"")
    if(more)
      add_test(NAME ${kind}.${module}.${rest}.nightly COMMAND test_${kind}_${module}_${rest})
      math(EXPR long "36 * ${timeout}")
      ccl_test_environment(environment ${case})
      set_tests_properties(${kind}.${module}.${rest}.nightly PROPERTIES LABELS nightly TIMEOUT ${long} COST ${long}
                           SKIP_RETURN_CODE 77 ENVIRONMENT "${environment};CCL_NIGHTLY=1" ENVIRONMENT_MODIFICATION COLUMNS=unset:)
    endif()
  endforeach()
endfunction()
