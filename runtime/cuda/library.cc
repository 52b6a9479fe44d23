#include "runtime/cuda/library.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"

namespace stator {

int DeviceAttribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  CheckCuda(cudaGetDevice(&device), "ask for the current device");
  CheckCuda(cudaDeviceGetAttribute(&value, attribute, device), "ask for a device attribute");
  return value;
}

namespace {

// Whether the stream is being captured and what comes next depends on one kernel and nothing else.
bool FollowsKernel(cudaStream_t stream, const char* name) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* before = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  CheckCuda(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &before, &edges, &count),
            std::string("look at the capture of kernel ") + name);
  if (status != cudaStreamCaptureStatusActive || count != 1) return false;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  CheckCuda(cudaGraphNodeGetType(before[0], &type), "look at a node of a graph");
  return type == cudaGraphNodeTypeKernel;
}

}  // namespace

bool EveryKernelWaits(std::string_view source) {
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (size_t at = 0; (at = source.find(what, at)) != source.npos; at += what.size()) ++n;
    return n;
  };
  return source.find("griddepcontrol.wait;") != source.npos &&
         count("__global__") == count("st_begin();") + count("st_await();");
}

CudaLibrary::CudaLibrary(std::span<const char> cubin, const std::string& what, bool waits)
    : what_(what), waits_(waits) {
  CheckCuda(cudaLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            "load the machine code of " + what);
}

CudaLibrary::~CudaLibrary() {
  if (library_ != nullptr) (void)cudaLibraryUnload(library_);
}

CudaKernel CudaLibrary::Find(const std::string& name) const {
  cudaKernel_t kernel = nullptr;
  CheckCuda(cudaLibraryGetKernel(&kernel, library_, name.c_str()),
            "find kernel " + name + " in " + what_);
  return {kernel, waits_};
}

void PrepareLaunch(CudaKernel kernel, const LaunchShape& shape, const std::string& name) {
  const void* handle = static_cast<const void*>(kernel.handle);
  cudaFuncAttributes facts{};
  CheckCuda(cudaFuncGetAttributes(&facts, handle), "ask for the limits of kernel " + name);
  if (shape.block < 1 || shape.block > static_cast<unsigned>(facts.maxThreadsPerBlock)) {
    Fail(ErrorCode::kInvalidArgument, "kernel ", name, ": ", shape.block,
         " threads a block, the kernel takes at most ", facts.maxThreadsPerBlock);
  }
  const size_t limit =
      static_cast<size_t>(DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  if (facts.sharedSizeBytes + shape.shared_bytes > limit) {
    Fail(ErrorCode::kInvalidArgument, "kernel ", name, ": ",
         facts.sharedSizeBytes + shape.shared_bytes,
         " bytes of shared memory a block, the device has ", limit);
  }
  if (shape.shared_bytes > static_cast<size_t>(facts.maxDynamicSharedSizeBytes)) {
    CheckCuda(cudaFuncSetAttribute(handle, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shape.shared_bytes)),
              "raise the shared memory of kernel " + name);
  }
  if (shape.cluster > 8) {  // more than every device of the architecture promises
    CheckCuda(cudaFuncSetAttribute(handle, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
              StrCat("allow kernel ", name, " clusters of ", shape.cluster, " blocks"));
  }
}

void LaunchKernel(CudaKernel kernel, const LaunchShape& shape, void** params, cudaStream_t stream,
                  const char* name) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.block, 1, 1);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  if (kernel.waits && FollowsKernel(stream, name)) {
    config.attrs = &early;
    config.numAttrs = 1;
  }
  const cudaError_t status =
      cudaLaunchKernelExC(&config, static_cast<const void*>(kernel.handle), params);
  if (status != cudaSuccess) ThrowCuda(status, std::string("launch kernel ") + name);
}

}  // namespace stator
