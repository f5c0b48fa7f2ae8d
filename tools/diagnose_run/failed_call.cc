#include "tools/diagnose_run/failed_call.h"

#include <algorithm>

#include "base/text.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr size_t kMostTensors = 8, kMostDimensions = 16;
constexpr int64_t kIgnored = -100;  // torch's default ignore_index of losses

std::string TextOf(const Json& json, const char* key) {
  const Json& value = ValueAt(json, {key});
  return value.is_string() ? value.get<std::string>().substr(0, 400) : "";
}

std::optional<int64_t> IntOf(const Json& json, const char* key) {
  const Json& value = ValueAt(json, {key});
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

GivenTensor TensorOf(const Json& json) {
  GivenTensor tensor;
  tensor.name = TextOf(json, "name");
  tensor.dtype = TextOf(json, "dtype");
  tensor.min = IntOf(json, "min");
  tensor.max = IntOf(json, "max");
  const Json& shape = ValueAt(json, {"shape"});
  if (!shape.is_array()) return tensor;
  for (const Json& size : shape) {
    if (tensor.shape.size() == kMostDimensions) break;
    if (size.is_number_integer()) tensor.shape.push_back(size.get<int64_t>());
  }
  return tensor;
}

std::string ShapeText(const GivenTensor& tensor) {
  std::string text = EscapeControl(tensor.dtype, 40) + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

// The dimension that `index` may count in `other`: the classes (N, C, d1, …) of a target
// (N, d1, …), or the rows of a table; nothing where the shapes do not say so.
std::optional<size_t> IndexedDimension(const GivenTensor& index, const GivenTensor& other) {
  std::vector<int64_t> without = other.shape;
  if (without.size() >= 2) {
    without.erase(without.begin() + 1);
    if (without == index.shape) return 1;
  }
  if (other.shape.size() == 1 && index.shape.empty()) return 0;  // one row's classes
  if (other.shape.size() == 2) return 0;
  return std::nullopt;
}

}  // namespace

FailedCall ParseFailedCall(int64_t step, const Json& detail) {
  FailedCall call;
  call.step = step;
  call.error = TextOf(detail, "error");
  call.text = TextOf(detail, "text");
  call.function = TextOf(detail, "function");
  call.source = TextOf(detail, "source");
  call.through_mode = ValueAt(detail, {"through_mode"}) == true;
  const Json& tensors = ValueAt(detail, {"tensors"});
  if (!tensors.is_array()) return call;
  for (const Json& tensor : tensors) {
    if (call.tensors.size() == kMostTensors) break;
    if (tensor.is_object()) call.tensors.push_back(TensorOf(tensor));
  }
  return call;
}

std::string OutOfRangeText(const FailedCall& call) {
  for (const GivenTensor& index : call.tensors) {
    if (!index.min || !index.max) continue;
    for (const GivenTensor& other : call.tensors) {
      const auto dimension = other.min ? std::nullopt : IndexedDimension(index, other);
      if (!dimension) continue;
      const int64_t size = other.shape[*dimension];
      const bool above = *index.max >= size;
      const bool below = *index.min < 0 && *index.min != kIgnored;
      if (!above && !below) continue;
      return runs::Name(index.name) + " holds " + std::to_string(above ? *index.max : *index.min) +
             ", and " + runs::Name(other.name) + " has " + std::to_string(size) +
             " along dimension " + std::to_string(*dimension) + ": 0 to " +
             std::to_string(size - 1) + " is allowed";
    }
  }
  return "";
}

std::string FailedCallText(const FailedCall& call) {
  std::string text = "The training ended at step " + std::to_string(call.step) + " with " +
                     EscapeControl(call.error, 80);
  if (!call.text.empty()) text += ": " + EscapeControl(call.text, 200);
  while (text.ends_with('.') || text.ends_with(' ')) text.pop_back();
  if (!call.source.empty()) text += " (" + EscapeControl(call.source, 200) + ")";
  text += ".";
  if (const std::string range = OutOfRangeText(call); !range.empty()) {
    text += " Out of range: " + range + ".";
  }
  if (call.through_mode) {
    text +=
        " It was raised in a step whose operators mpnanny called, to compare them with FP64: if it "
        "does not come with --shadow off, the fault is mpnanny's and not the program's.";
  }
  if (call.tensors.empty()) return text;
  text += " " + (call.function.empty() ? "The call" : EscapeControl(call.function, 80)) + " got ";
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const GivenTensor& tensor = call.tensors[i];
    text += (i > 0 ? "; " : "") + runs::Name(tensor.name) + " " + ShapeText(tensor);
    if (tensor.min && tensor.max) {
      text += ", from " + std::to_string(*tensor.min) + " to " + std::to_string(*tensor.max);
    }
  }
  return text + ".";
}

}  // namespace mpnanny::diagnose_run
