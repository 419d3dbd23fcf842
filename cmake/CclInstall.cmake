# The shared library, headers as include/ccllab/<module>/, the exported target ccllab::ccllab,
# ccllab.pc and the program.
include(CMakePackageConfigHelpers)

set(ccl_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ccllab)
install(TARGETS ccllab_library EXPORT ccllab
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ccllab
        FILE_SET one DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ccllab)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET ccllab)
  install(TARGETS ccllab RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
                ${PROJECT_SOURCE_DIR}/SECURITY.md
          DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

if(CCL_PYTHON)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/ccllab DESTINATION ${CCL_PYTHON_DIR}
          FILES_MATCHING PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}/python
          FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
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

# `cpack -G DEB` in the build folder: one Debian package of all that is installed.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ccllab)
set(CPACK_PACKAGE_VENDOR ccllab)
set(CPACK_PACKAGE_CONTACT "The ccllab authors <ccllab@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION
    "Describe a cluster of GPUs, and ccllab answers which schedule of a collective is fastest at which size, by how much, and whether it is correct: synthesizers, a verifier, a simulator and a runtime.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
find_program(ccl_shlibdeps dpkg-shlibdeps)
if(ccl_shlibdeps)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else() # no dpkg-dev: as of Debian 12
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libstdc++6, libjansson4, libexpat1, libz3-4, libglpk40, libbliss2, libsqlite3-0, libcairo2, fonts-dejavu-core")
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS fonts-dejavu-core)
if(CCL_PYTHON)
  string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", python3")
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3-numpy)
  # What python3 compiled for itself goes with the package.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/prerm @ONLY CONTENT
[[#!/bin/sh
set -e
rm -rf "$DPKG_ROOT/usr/@CCL_PYTHON_DIR@/ccllab/__pycache__"
]])
  file(CHMOD ${PROJECT_BINARY_DIR}/debian/prerm PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
       GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/prerm)
endif()
include(CPack)
