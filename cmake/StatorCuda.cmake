# The CUDA side. Device code is compiled by NVRTC when a plan is made, so neither nvcc nor CMake's
# CUDA language is used: only headers and libraries. NVML and CUPTI are for dlopen (only CUPTI's headers
# are looked for here), and the driver is reached through the (static) CUDA runtime, so that one binary
# starts with and without a driver.
#
# Sets STATOR_WITH_{CUDA,NVRTC,CUDNN,NCCL,CUPTI} and STATOR_CUDA_TARGETS.

foreach(part CUDA NVRTC CUDNN NCCL CUPTI)
  set(STATOR_WITH_${part} OFF)
endforeach()
set(STATOR_CUDA_TARGETS "")

if(NOT STATOR_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 13.0 QUIET)
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static AND TARGET CUDA::nvrtc
     AND TARGET CUDA::cublasLt)
    set(STATOR_WITH_CUDA ON)
    set(STATOR_WITH_NVRTC ON)
    list(APPEND STATOR_CUDA_TARGETS CUDA::cudart_static CUDA::nvrtc CUDA::cublasLt)
    find_path(STATOR_CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
              ${CUDAToolkit_LIBRARY_ROOT} PATH_SUFFIXES extras/CUPTI/include)
    if(STATOR_CUPTI_INCLUDE_DIR)
      set(STATOR_WITH_CUPTI ON)
      add_library(stator_cupti INTERFACE)
      target_include_directories(stator_cupti SYSTEM INTERFACE ${STATOR_CUPTI_INCLUDE_DIR})
      list(APPEND STATOR_CUDA_TARGETS $<BUILD_INTERFACE:stator_cupti>)
    endif()
    # Ask for cuDNN and NCCL beside the toolkit too: some installations keep them there.
    set(STATOR_CUDA_HINTS ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR})
    find_package(CUDNN 9 QUIET)
    find_package(CudnnFrontend QUIET)
    if(CUDNN_FOUND AND CudnnFrontend_FOUND)
      set(STATOR_WITH_CUDNN ON)
      list(APPEND STATOR_CUDA_TARGETS CUDNN::cudnn CUDNN::frontend)
    endif()
    find_package(NCCL QUIET)
    if(NCCL_FOUND)
      set(STATOR_WITH_NCCL ON)
      list(APPEND STATOR_CUDA_TARGETS NCCL::nccl)
    endif()
  elseif(STATOR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "stator: STATOR_CUDA=ON but no CUDA 13 toolkit with cudart, nvrtc and "
                        "cublasLt was found (set CUDAToolkit_ROOT to where it is)")
  endif()
endif()

if(NOT STATOR_WITH_NVRTC AND NOT STATOR_NVRTC STREQUAL "OFF")
  find_library(STATOR_NVRTC_LIBRARY nvrtc PATH_SUFFIXES lib lib64
               HINTS /usr/local/cuda ENV CUDA_PATH ENV CUDAToolkit_ROOT)
  find_path(STATOR_NVRTC_INCLUDE_DIR nvrtc.h PATH_SUFFIXES include
            HINTS /usr/local/cuda ENV CUDA_PATH ENV CUDAToolkit_ROOT)
  if(STATOR_NVRTC_LIBRARY AND STATOR_NVRTC_INCLUDE_DIR)
    set(STATOR_WITH_NVRTC ON)
    add_library(stator_nvrtc INTERFACE)
    target_include_directories(stator_nvrtc SYSTEM INTERFACE ${STATOR_NVRTC_INCLUDE_DIR})
    list(APPEND STATOR_CUDA_TARGETS ${STATOR_NVRTC_LIBRARY} $<BUILD_INTERFACE:stator_nvrtc>)
  elseif(STATOR_NVRTC STREQUAL "ON")
    message(FATAL_ERROR "stator: STATOR_NVRTC=ON but libnvrtc and nvrtc.h were not found")
  endif()
endif()

# Say what was found, in one line.
if(STATOR_WITH_CUDA)
  set(cuda_summary "CUDA ${CUDAToolkit_VERSION}, NVRTC, cuBLASLt")
  if(STATOR_WITH_CUDNN)
    string(APPEND cuda_summary ", cuDNN ${CUDNN_VERSION} + frontend ${CudnnFrontend_VERSION}")
  elseif(CUDNN_FOUND)
    string(APPEND cuda_summary ", no cuDNN attention (cudnn-frontend headers are missing: "
                               "./run build fetches them)")
  else()
    string(APPEND cuda_summary ", no cuDNN")
  endif()
  if(STATOR_WITH_NCCL)
    string(APPEND cuda_summary ", NCCL ${NCCL_VERSION}")
  else()
    string(APPEND cuda_summary ", no NCCL")
  endif()
  if(STATOR_WITH_CUPTI)
    string(APPEND cuda_summary ", CUPTI headers")
  endif()
elseif(STATOR_WITH_NVRTC)
  set(cuda_summary "CPU only; NVRTC found, so generated kernels are compile-checked")
elseif(STATOR_CUDA STREQUAL "OFF")
  set(cuda_summary "CPU only (STATOR_CUDA=OFF)")
else()
  set(cuda_summary "CPU only (no CUDA 13 toolkit found)")
endif()
message(STATUS "stator: ${cuda_summary}")
