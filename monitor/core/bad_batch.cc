#include "monitor/core/bad_batch.h"

#include <vector>

#include "monitor/core/json_text.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {
namespace {

struct Indices {
  std::vector<int64_t> first;  // at most kIndicesKept
  int64_t count = 0;
};

// Along `dim`: where a slice holds an element that is not finite.
Indices BadSlices(const TensorView& view, size_t dim) {
  const size_t dims = view.shape.size();
  std::vector<int64_t> strides(view.strides.begin(), view.strides.end());
  if (strides.empty()) {
    strides.resize(dims);
    int64_t stride = 1;
    for (size_t i = dims; i-- > 0; stride *= view.shape[i]) strides[i] = stride;
  }
  std::vector<int64_t> shape(view.shape.begin(), view.shape.end());
  const int64_t length = shape[dim], step = strides[dim] * ElementBytes(view.dtype);
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(dim));
  strides.erase(strides.begin() + static_cast<ptrdiff_t>(dim));
  TensorView slice{view.data, view.dtype, shape, strides};
  Indices found;
  for (int64_t i = 0; i < length; ++i) {
    slice.data = static_cast<const char*>(view.data) + i * step;
    if (!HasNonFinite(slice)) continue;
    ++found.count;
    if (found.first.size() < kIndicesKept) found.first.push_back(i);
  }
  return found;
}

std::string TensorJson(const TensorView& view, size_t input, const TensorStats& stats) {
  JsonObject json;
  json.Int("input", static_cast<int64_t>(input)).Text("dtype", DTypeName(view.dtype));
  if (stats.partial || view.known != nullptr) return json.Int("of", stats.numel).Take();
  json.Json("shape", JsonList(view.shape));
  json.Int("nan", stats.nan).Int("posinf", stats.posinf).Int("neginf", stats.neginf);
  const auto add = [&](const char* list, const char* count, size_t dim) {
    const Indices indices = BadSlices(view, dim);
    json.Json(list, JsonList(indices.first)).Int(count, indices.count);
  };
  if (!view.shape.empty()) add("rows", "row_count", 0);
  if (view.shape.size() > 1 && stats.numel <= kColumnsSearched)
    add("columns", "column_count", view.shape.size() - 1);
  return json.Take();
}

}  // namespace

std::string BadBatchJson(std::span<const TensorView> inputs, int64_t call) {
  std::string tensors;
  size_t kept = 0;
  for (size_t i = 0; i < inputs.size() && kept < kBadTensorsKept; ++i) {
    if (!HasNonFinite(inputs[i])) continue;
    const TensorStats stats = ComputeStats(inputs[i]);
    if (i > 0 && stats.nan + stats.posinf == 0) continue;  // a mask
    if (kept++ > 0) tensors += ',';
    tensors += TensorJson(inputs[i], i, stats);
  }
  return JsonObject().Int("call", call).Json("inputs", '[' + tensors + ']').Take();
}

}  // namespace mpnanny
