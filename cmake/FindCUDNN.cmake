# cuDNN: CUDNN_FOUND, CUDNN_VERSION, target CUDNN::cudnn. Looks where CUDNN_ROOT says, beside the CUDA
# toolkit (STATOR_CUDA_HINTS), and in the system's paths. libcudnn is a shim that opens the rest of cuDNN.
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${STATOR_CUDA_HINTS} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${STATOR_CUDA_HINTS}
             PATH_SUFFIXES lib lib64)
if(CUDNN_INCLUDE_DIR)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h lines
       REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]+")
  string(REGEX REPLACE "[^;]*[A-Z]+ +([0-9]+)[^;]*" "\\1" numbers "${lines}")
  list(JOIN numbers "." CUDNN_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR
                                  VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
