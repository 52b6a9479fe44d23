#include "runtime/cuda/tensor_map.h"

#include "ir/base/error.h"
#include "runtime/cuda/check.h"

#include <cuda.h>

#include <cstring>

namespace stator {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

// Asked of the runtime, so that nothing links with the driver's library.
decltype(&cuTensorMapEncodeTiled) Encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  CheckCuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                             cudaEnableDefault, &result),
            "find cuTensorMapEncodeTiled in the driver");
  if (result != cudaDriverEntryPointSuccess) {
    Fail(ErrorCode::kEnvironment,
         "the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
  }
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
}

CUtensorMapDataType DataType(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default:
      Fail(ErrorCode::kUnsupported, name, ": no tensor map of ", Name(dtype));
  }
}

}  // namespace

TensorMap MakeTensorMap(const TileMap& map, const SpaceMap& spaces, const std::string& name) {
  // The driver counts axes from the innermost, and strides in bytes from the second on.
  const size_t rank = map.box.size();
  const Type& type = map.tensor.type;
  std::array<cuuint64_t, 5> sizes{}, strides{};
  std::array<cuuint32_t, 5> box{}, steps{};
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = rank - 1 - i;
    sizes[i] = static_cast<cuuint64_t>(type.shape[axis]);
    box[i] = static_cast<cuuint32_t>(map.box[axis]);
    steps[i] = 1;
    if (i > 0)
      strides[i - 1] = static_cast<cuuint64_t>(map.tensor.strides[axis] * ByteWidth(type.dtype));
  }
  CUtensorMap encoded;
  const CUresult status =
      Encoder()(&encoded, DataType(type.dtype, name), static_cast<cuuint32_t>(rank),
                spaces(map.tensor.buffer), sizes.data(), strides.data(), box.data(), steps.data(),
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    Fail(ErrorCode::kInvalidArgument, name, ": the driver refuses a tensor map of ",
         type.ToString(), " with strides ", map.tensor.strides, " and boxes of ", map.box,
         ": error ", static_cast<int>(status));
  }
  TensorMap out;
  std::memcpy(out.words.data(), &encoded, sizeof(encoded));
  return out;
}

}  // namespace stator
