# Writes OUT, a C file with one ccl_library_entry_t per JSON file of DIR/servers and DIR/clusters,
# and one ccl_profile_entry_t per JSON file of DIR/profiles:
# cmake -DDIR=... -DOUT=... -P embed.cmake
cmake_minimum_required(VERSION 3.25)

# A text as a C string literal, one piece a line.
function(c_literal text out)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\r" "" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  set(${out} "\"${text}\"" PARENT_SCOPE)
endfunction()

set(rows "")
set(arrays "")
set(number 0)
set(profiles "")
foreach(kind IN ITEMS server cluster profile)
  file(GLOB files ${DIR}/${kind}s/*.json)
  set(names "")
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WLE)
    list(APPEND names ${name})
  endforeach()
  list(SORT names)
  foreach(name IN LISTS names)
    set(file ${DIR}/${kind}s/${name}.json)
    file(READ ${file} text)
    foreach(key IN ITEMS name summary format)
      string(JSON ${key}_value ERROR_VARIABLE problem GET "${text}" ${key})
      if(problem)
        message(FATAL_ERROR "${file}: ${problem}")
      endif()
    endforeach()
    if(NOT name_value STREQUAL name)
      message(FATAL_ERROR "${file}: its name is \"${name_value}\", not \"${name}\"")
    endif()
    if(NOT format_value STREQUAL "ccllab-${kind}-1")
      message(FATAL_ERROR "${file}: its format is \"${format_value}\", not \"ccllab-${kind}-1\"")
    endif()
    string(LENGTH "${text}" length)
    c_literal("${summary_value}" summary_literal)
    c_literal("${text}" text_literal)
    if(kind STREQUAL "server")
      set(is_server true)
    else()
      set(is_server false)
    endif()
    math(EXPR number "${number} + 1")
    set(id entry_${number}_text)
    string(APPEND arrays "static const char ${id}[] =\n    ${text_literal};\n\n")
    if(kind STREQUAL "profile")
      string(APPEND profiles "    {\"${name}\", ${summary_literal}, ${id}, sizeof ${id} - 1},\n")
    else()
      string(APPEND rows "    {\"${name}\", ${is_server}, ${summary_literal},\n     ${id}, sizeof ${id} - 1},\n")
    endif()
  endforeach()
endforeach()

set(content "/* Made by embed.cmake of servers/, clusters/ and profiles/. */
#include \"topologies/library_data.h\"

${arrays}const ccl_library_entry_t ccl_i_library_entries[] = {
${rows}    {NULL, false, NULL, NULL, 0},
};

const ccl_profile_entry_t ccl_i_library_profiles[] = {
${profiles}    {NULL, NULL, NULL, 0},
};
")
file(WRITE ${OUT}.tmp "${content}")
file(RENAME ${OUT}.tmp ${OUT})
