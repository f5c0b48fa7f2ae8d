#include "engines/diagnosis/facts/failed_call.h"

#include <algorithm>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
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
  const Json& line = ValueAt(detail, {"line"});
  if (line.is_number_integer()) call.line = line.get<int64_t>();
  call.through_mode = ValueAt(detail, {"through_mode"}) == true;
  const Json& tensors = ValueAt(detail, {"tensors"});
  if (!tensors.is_array()) return call;
  for (const Json& tensor : tensors) {
    if (call.tensors.size() == kMostTensors) break;
    if (tensor.is_object()) call.tensors.push_back(TensorOf(tensor));
  }
  return call;
}

runs::Sentence OutOfRangeText(const FailedCall& call) {
  for (const GivenTensor& index : call.tensors) {
    if (!index.min || !index.max) continue;
    for (const GivenTensor& other : call.tensors) {
      const auto dimension = other.min ? std::nullopt : IndexedDimension(index, other);
      if (!dimension) continue;
      const int64_t size = other.shape[*dimension];
      const bool above = *index.max >= size;
      const bool below = *index.min < 0 && *index.min != kIgnored;
      if (!above && !below) continue;
      return {runs::Form("{0} holds {1}, and {2} has {3} along dimension {4}: 0 to {5} is allowed",
                         "{0} 含有 {1}，而 {2} 在维度 {4} 上大小为 {3}：允许 0 到 {5}"),
              {runs::Name(index.name), above ? *index.max : *index.min, runs::Name(other.name),
               size, static_cast<int64_t>(*dimension), size - 1}};
    }
  }
  return {};
}

runs::Sentence FailedCallText(const FailedCall& call) {
  using runs::Form;
  using runs::Sentence;
  std::string error = EscapeControl(call.error, 80);
  if (!call.text.empty()) error += ": " + EscapeControl(call.text, 200);
  while (error.ends_with('.') || error.ends_with(' ')) error.pop_back();
  Sentence text(
      call.line > 0
          ? Form("The training ended after step {0} with {1}{2}, at line {3}.",
                 "训练在第 {0} 步之后因 {1}{2} 终止，见第 {3} 行。")
          : Form("The training ended at step {0} with {1}{2}.", "训练在第 {0} 步因 {1}{2} 终止。"),
      {call.step, std::move(error),
       call.source.empty()
           ? Sentence()
           : Sentence(Form(" ({0})", "（{0}）"), {EscapeControl(call.source, 200)}),
       call.line});
  if (const Sentence range = OutOfRangeText(call); !range.empty()) {
    text += Sentence(Form("Out of range: {0}.", "超出范围：{0}。"), {range});
  }
  if (call.through_mode) {
    text += Form(
        "It was raised in a step whose operators mpnanny called, to compare them with FP64: if it "
        "does not come with --shadow off, the fault is mpnanny's and not the program's.",
        "它出现在由 mpnanny 调用算子、与 FP64 比较的一步中：如果加上 --shadow off 后不再出现，"
        "错误来自 mpnanny 而不是程序。");
  }
  if (call.tensors.empty()) return text;
  Sentence given;
  for (const GivenTensor& tensor : call.tensors) {
    given = {given.empty() ? Form("{0}{1} {2}{3}", "{0}{1} {2}{3}")
                           : Form("{0}; {1} {2}{3}", "{0}；{1} {2}{3}"),
             {std::move(given), runs::Name(tensor.name), ShapeText(tensor),
              tensor.min && tensor.max ? Sentence(Form(", from {0} to {1}", "，从 {0} 到 {1}"),
                                                  {*tensor.min, *tensor.max})
                                       : Sentence()}};
  }
  text +=
      Sentence(Form("{0} got {1}.", "{0}得到的是 {1}。"),
               {call.function.empty() ? Sentence(Form("The call", "该调用"))
                                      : Sentence::InEach(EscapeControl(call.function, 80),
                                                         EscapeControl(call.function, 80) + " "),
                std::move(given)});
  return text;
}

}  // namespace mpnanny::diagnosis
