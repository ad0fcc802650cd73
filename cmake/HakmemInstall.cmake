# `make install PREFIX=...`: libraries, headers, CMake package, pkg-config file, command, man pages.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hakmem)

install(TARGETS hakmem_shared hakmem_static EXPORT hakmem-targets)
install(DIRECTORY include/hakmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT hakmem-targets NAMESPACE hakmem:: DESTINATION ${package_dir})

configure_package_config_file(cmake/hakmem-config.cmake.in ${PROJECT_BINARY_DIR}/hakmem-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hakmem-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hakmem-config.cmake
              ${PROJECT_BINARY_DIR}/hakmem-config-version.cmake DESTINATION ${package_dir})

# The pkg-config file finds the tree from its own place, so what was installed may be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH from_pc_to_prefix ${pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH from_pc_to_lib ${pkgconfig_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH from_pc_to_include ${pkgconfig_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/hakmem.pc.in ${PROJECT_BINARY_DIR}/hakmem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hakmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The command looks for its Python code in ../share/hakmem.
install(PROGRAMS bin/hakmem DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY lab DESTINATION ${CMAKE_INSTALL_DATADIR}/hakmem
        PATTERN "__pycache__" EXCLUDE
        PATTERN ".*_cache" EXCLUDE
        PATTERN "target" EXCLUDE)

if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man)
  install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} FILES_MATCHING PATTERN "*.[1-8]")
endif()
