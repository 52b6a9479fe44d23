# Options, compiler requirements and the flags that every target shares.

set(STATOR_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (when a toolkit is found), ON, OFF")
set_property(CACHE STATOR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(STATOR_NVRTC AUTO CACHE STRING
    "Compile generated kernels with NVRTC in tests, which needs no GPU: AUTO, ON, OFF")
set_property(CACHE STATOR_NVRTC PROPERTY STRINGS AUTO ON OFF)
set(STATOR_MPI OFF CACHE STRING "Build the MPI communicator: AUTO, ON, OFF")
option(STATOR_WERROR "Treat warnings as errors" OFF)
option(STATOR_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(STATOR_EXAMPLES "Build the examples; the tests run them" ${STATOR_TESTS})
option(STATOR_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
set(STATOR_CACHE_DIR "${PROJECT_SOURCE_DIR}/.cache" CACHE PATH
    "Where downloaded headers are kept (cudnn-frontend)")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "stator needs GCC 12 or later, found ${CMAKE_CXX_COMPILER_VERSION}")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "stator needs Clang 14 or later, found ${CMAKE_CXX_COMPILER_VERSION}")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT is_multi_config AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# No debug information by default: it is half of the build's time. Debug builds have it.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g0 -DNDEBUG")

# A library found outside the system's paths (a CUDA toolkit) is found again when installed.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Colours survive Ninja's pipes; ccache and a fast linker are used where they exist.
set(CMAKE_COLOR_DIAGNOSTICS ON)
find_program(STATOR_CCACHE ccache)
if(STATOR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STATOR_CCACHE})
endif()
find_program(STATOR_MOLD mold)
find_program(STATOR_LLD ld.lld)
if(STATOR_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(STATOR_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# -ffp-contract=off: the dtypes in the IR are the numerics, so the compiler may not fuse a*b+c on its
# own. A fused multiply-add appears only where the IR, or a shared math source, says so.
add_library(stator_flags INTERFACE)
target_compile_options(stator_flags INTERFACE -Wall -Wextra -ffp-contract=off
                                              $<$<BOOL:${STATOR_WERROR}>:-Werror>)
