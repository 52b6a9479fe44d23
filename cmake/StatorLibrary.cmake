# stator_library, stator_executable, stator_flatbuffers: one call a folder.

set(STATOR_GENERATED_DIR ${PROJECT_BINARY_DIR}/gen)

# The sources under the GLOB patterns (recursive), less those that match an EXCLUDE regex, plus those
# that match a KEEP regex.
function(stator_sources out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "GLOB;EXCLUDE;KEEP")
  set(patterns ${arg_GLOB})
  list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${patterns})
  set(sources "")
  foreach(file IN LISTS all)
    set(use ON)
    foreach(regex IN LISTS arg_EXCLUDE)
      if(file MATCHES "${regex}")
        set(use OFF)
      endif()
    endforeach()
    foreach(regex IN LISTS arg_KEEP)
      if(file MATCHES "${regex}")
        set(use ON)
      endif()
    endforeach()
    if(use)
      list(APPEND sources ${file})
    endif()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# stator_library(name GLOB <patterns> [EXCLUDE <regex>...] [KEEP <regex>...] LINK <targets>)
# makes the static library stator_<name>, exported as stator::<name>. A folder that holds no sources
# is an INTERFACE library, so headers alone, or nothing yet, is fine.
function(stator_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "GLOB;EXCLUDE;KEEP;LINK")
  stator_sources(sources GLOB ${arg_GLOB} EXCLUDE ${arg_EXCLUDE} KEEP ${arg_KEEP})
  set(target stator_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:stator_flags>)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(stator::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/stator>)
  # Generated headers and headers found by path are system headers to us: their warnings are not ours.
  target_include_directories(${target} SYSTEM ${scope}
                             $<BUILD_INTERFACE:${STATOR_GENERATED_DIR}>)
  target_link_libraries(${target} ${scope} ${arg_LINK})
  foreach(part CUDA NVRTC CUDNN NCCL CUPTI MPI)
    if(STATOR_WITH_${part})
      target_compile_definitions(${target} ${scope} STATOR_WITH_${part}=1)
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY STATOR_LIBRARIES ${target})
endfunction()

# stator_executable(name GLOB ... [EXCLUDE ...] LINK <targets> [NO_INSTALL]): skipped without sources.
function(stator_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "" "GLOB;EXCLUDE;KEEP;LINK")
  stator_sources(sources GLOB ${arg_GLOB} EXCLUDE ${arg_EXCLUDE} KEEP ${arg_KEEP})
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE stator_flags ${arg_LINK})
  if(NOT arg_NO_INSTALL)
    set_property(GLOBAL APPEND PROPERTY STATOR_EXECUTABLES ${name})
  endif()
endfunction()

# stator_flatbuffers(name schema): <schema>_generated.h, by flatc, in the build folder under the
# schema's own path: codegen/plan.fbs gives #include "codegen/plan_generated.h".
function(stator_flatbuffers name schema)
  file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${schema})
  if(NOT found)
    return()
  endif()
  cmake_path(GET schema PARENT_PATH folder)
  cmake_path(GET schema STEM stem)
  set(header ${STATOR_GENERATED_DIR}/${folder}/${stem}_generated.h)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${STATOR_FLATC} --cpp --cpp-std c++17 --scoped-enums --gen-object-api
            -o ${STATOR_GENERATED_DIR}/${folder} ${PROJECT_SOURCE_DIR}/${schema}
    DEPENDS ${PROJECT_SOURCE_DIR}/${schema} VERBATIM)
  add_custom_target(stator_${name}_schema DEPENDS ${header})
  add_dependencies(stator_${name} stator_${name}_schema)
endfunction()
