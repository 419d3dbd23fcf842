# ccl_source_id(OUT TEMPLATE FILE...): OUT is TEMPLATE with @SOURCE_ID@, 12 hexadecimal digits of a hash of
# the names and contents of these files: the same for the same sources, wherever and whenever they are built.
function(ccl_source_id out template)
  set(files ${ARGN})
  list(SORT files)
  # A file of its own, so that one that is gone is noticed too.
  file(CONFIGURE OUTPUT ${out}.list CONTENT "${files}\n")
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DLIST=${out}.list -DIN=${template}
            -DOUT=${out} -P ${PROJECT_SOURCE_DIR}/cmake/source_id.cmake
    DEPENDS ${files} ${template} ${out}.list ${PROJECT_SOURCE_DIR}/cmake/source_id.cmake
    COMMENT "Which sources is it built from"
    VERBATIM)
endfunction()
