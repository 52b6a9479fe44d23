# Every package that Stator uses, in one place. All are Debian 12 and Ubuntu 24.04 packages, but for
# the CUDA ones; what is missing is named with the package that holds it.

function(stator_require target package)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "stator: ${target} not found; install it with: apt-get install ${package} "
                        "(or run ./run build, which installs everything)")
  endif()
endfunction()

find_package(Threads REQUIRED)
find_package(OpenMP COMPONENTS CXX QUIET)
stator_require(OpenMP::OpenMP_CXX "g++ (or libomp-dev for clang)")
find_package(fmt QUIET CONFIG)
stator_require(fmt::fmt libfmt-dev)
find_package(spdlog QUIET CONFIG)
stator_require(spdlog::spdlog libspdlog-dev)
find_package(CLI11 QUIET CONFIG)
stator_require(CLI11::CLI11 libcli11-dev)
find_package(nlohmann_json QUIET CONFIG)
stator_require(nlohmann_json::nlohmann_json nlohmann-json3-dev)
find_package(ZLIB QUIET)
stator_require(ZLIB::ZLIB zlib1g-dev)

# flatbuffers: header-only use (builder and verifier); flatc writes the header of the plan's schema.
find_path(STATOR_FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h)
find_program(STATOR_FLATC flatc)
if(NOT STATOR_FLATBUFFERS_INCLUDE_DIR OR NOT STATOR_FLATC)
  message(FATAL_ERROR "stator: flatbuffers not found; install it with: "
                      "apt-get install libflatbuffers-dev flatbuffers-compiler")
endif()
add_library(stator_flatbuffers INTERFACE)
target_include_directories(stator_flatbuffers SYSTEM INTERFACE ${STATOR_FLATBUFFERS_INCLUDE_DIR})

# toml++ is one header folder.
find_path(STATOR_TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT STATOR_TOMLPLUSPLUS_INCLUDE_DIR)
  message(FATAL_ERROR "stator: toml++ not found; install it with: apt-get install libtomlplusplus-dev")
endif()
add_library(stator_toml INTERFACE)
target_include_directories(stator_toml SYSTEM INTERFACE ${STATOR_TOMLPLUSPLUS_INCLUDE_DIR})

# oneDNN: Debian names it libdnnl.
find_package(dnnl QUIET CONFIG)
stator_require(DNNL::dnnl libdnnl-dev)
set(STATOR_ONEDNN_TARGET DNNL::dnnl)

if(STATOR_TESTS)
  find_package(GTest QUIET)
  stator_require(GTest::gtest_main libgtest-dev)
endif()
if(STATOR_BENCH)
  find_package(benchmark QUIET CONFIG)
  stator_require(benchmark::benchmark_main libbenchmark-dev)
endif()

# MPI: only for the communicator of CPU ranks.
set(STATOR_WITH_MPI OFF)
if(NOT STATOR_MPI STREQUAL "OFF")
  find_package(MPI COMPONENTS CXX QUIET)
  if(MPI_CXX_FOUND)
    set(STATOR_WITH_MPI ON)
  elseif(STATOR_MPI STREQUAL "ON")
    message(FATAL_ERROR "stator: STATOR_MPI=ON but no MPI was found; apt-get install libopenmpi-dev")
  endif()
endif()

include(StatorCuda)
