# The shared library, headers as include/ccllab/<module>/, the exported target ccllab::ccllab,
# ccllab.pc and the program.
include(CMakePackageConfigHelpers)

set(ccl_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ccllab)
install(TARGETS ccllab_library EXPORT ccllab
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ccllab)
if(TARGET ccllab)
  install(TARGETS ccllab RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

install(EXPORT ccllab NAMESPACE ccllab:: FILE ccllabTargets.cmake DESTINATION ${ccl_cmake_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ccllabConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/ccllabConfig.cmake
                              INSTALL_DESTINATION ${ccl_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ccllabConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ccllabConfig.cmake ${PROJECT_BINARY_DIR}/ccllabConfigVersion.cmake
        DESTINATION ${ccl_cmake_dir})

# The .pc file finds its prefix from its own place, so that an installed tree may be moved.
file(RELATIVE_PATH ccl_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/ccllab.pc.in ${PROJECT_BINARY_DIR}/ccllab.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ccllab.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
