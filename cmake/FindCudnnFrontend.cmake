# cudnn-frontend, the header-only C++ graph interface to cuDNN: CudnnFrontend_FOUND,
# CudnnFrontend_VERSION, target CUDNN::frontend. The headers are in the PyPI wheel
# `nvidia-cudnn-frontend`, which cmake/fetch_cudnn_frontend.sh (called by ./run) unpacks into
# STATOR_CACHE_DIR; CudnnFrontend_ROOT names another place.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/cudnn_frontend.version cudnn_frontend_pinned LIMIT_COUNT 1)
# Not cached while missing: the headers may arrive between two configure runs.
find_path(CudnnFrontend_INCLUDE_DIR cudnn_frontend.h PATH_SUFFIXES include
          HINTS ${STATOR_CACHE_DIR}/cudnn-frontend-${cudnn_frontend_pinned} ${STATOR_CUDA_HINTS})
if(CudnnFrontend_INCLUDE_DIR)
  file(STRINGS ${CudnnFrontend_INCLUDE_DIR}/cudnn_frontend_version.h lines
       REGEX "^#define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION +[0-9]+")
  string(REGEX REPLACE "[^;]*[A-Z]+ +([0-9]+)[^;]*" "\\1" numbers "${lines}")
  list(JOIN numbers "." CudnnFrontend_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend REQUIRED_VARS CudnnFrontend_INCLUDE_DIR
                                  VERSION_VAR CudnnFrontend_VERSION)
if(CudnnFrontend_FOUND AND NOT TARGET CUDNN::frontend)
  add_library(CUDNN::frontend INTERFACE IMPORTED)
  target_include_directories(CUDNN::frontend SYSTEM INTERFACE ${CudnnFrontend_INCLUDE_DIR})
endif()
mark_as_advanced(CudnnFrontend_INCLUDE_DIR)
