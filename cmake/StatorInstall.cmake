# Install and export: find_package(stator) gives stator::stator. Headers go to include/stator, which
# is the include root, so that a user writes the same #include "frontend/dsl/..." as the source tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY STATOR_LIBRARIES)
get_property(executables GLOBAL PROPERTY STATOR_EXECUTABLES)
set_target_properties(stator_all PROPERTIES EXPORT_NAME stator)
install(TARGETS ${libraries} stator_all EXPORT stator_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(executables)
  install(TARGETS ${executables} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(folder ir passes codegen runtime frontend)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stator
            FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()
install(DIRECTORY ${STATOR_GENERATED_DIR}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stator
        FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stator)
install(EXPORT stator_targets NAMESPACE stator:: FILE statorTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/statorConfig.cmake.in ${PROJECT_BINARY_DIR}/statorConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/statorConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/statorConfig.cmake
              ${PROJECT_BINARY_DIR}/statorConfigVersion.cmake
              cmake/FindCUDNN.cmake
              cmake/FindNCCL.cmake
        DESTINATION ${package_dir})
