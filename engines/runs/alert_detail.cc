#include "engines/runs/alert_detail.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kMostOperators = 64, kMostTensors = 16, kMostIndices = 8, kMostDimensions = 16;

constexpr std::pair<std::string_view, Where> kWheres[] = {
    {"batch", Where::kBatch},
    {"module", Where::kModule},
    {"own_code", Where::kOwnCode},
    {"carried", Where::kCarried},
    {"weights_before", Where::kWeightsBefore},
    {"weights", Where::kWeights},
    {"buffers", Where::kBuffers},
    {"loss", Where::kLoss},
    {"gradients", Where::kGradients},
    {"optimizer", Where::kOptimizer},
};

std::string DetailText(const Json& json, const char* key) {
  const Json& value = ValueAt(json, {key});
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<int64_t> IntOf(const Json& json, const char* key) {
  const Json& value = ValueAt(json, {key});
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

std::vector<int64_t> IntsOf(const Json& json, const char* key, size_t most) {
  std::vector<int64_t> found;
  const Json& values = ValueAt(json, {key});
  if (!values.is_array()) return found;
  for (const Json& value : values) {
    if (found.size() == most) break;
    if (value.is_number_integer()) found.push_back(value.get<int64_t>());
  }
  return found;
}

bool Made(const Json& json, std::string_view what) {
  const Json& made = ValueAt(json, {"made"});
  return made.is_array() && std::any_of(made.begin(), made.end(), [&](const Json& each) {
           return each.is_string() && each.get_ref<const std::string&>() == what;
         });
}

NanOrigin NanOriginOf(const Json& json) {
  NanOrigin origin;
  origin.op = ShortOperator(DetailText(json, "operator"));
  const std::string of = DetailText(json, "backward_of"), node = DetailText(json, "autograd_node");
  origin.backward = !of.empty() || !node.empty();
  origin.of = of.empty() ? node : ShortOperator(of);
  origin.nan = Made(json, "nan");
  origin.posinf = Made(json, "posinf");
  origin.neginf = Made(json, "neginf");
  origin.dtype = DetailText(json, "dtype");
  const std::string inputs = DetailText(json, "inputs");
  origin.inputs = inputs == "mask"       ? NanOrigin::Inputs::kMask
                  : inputs == "infinite" ? NanOrigin::Inputs::kInfinite
                                         : NanOrigin::Inputs::kFinite;
  const Json& largest = ValueAt(json, {"largest_input"});
  if (largest.is_number()) origin.largest = largest.get<double>();
  const std::string source = DetailText(json, "source");
  origin.place = source.substr(source.find_last_of("/\\") + 1);
  return origin;
}

BadTensor TensorOf(const Json& json) {
  BadTensor tensor;
  tensor.input = IntOf(json, "input").value_or(0);
  tensor.dtype = DetailText(json, "dtype");
  tensor.shape = IntsOf(json, "shape", kMostDimensions);
  tensor.nan = IntOf(json, "nan").value_or(0);
  tensor.posinf = IntOf(json, "posinf").value_or(0);
  tensor.neginf = IntOf(json, "neginf").value_or(0);
  tensor.rows = IntsOf(json, "rows", kMostIndices);
  tensor.columns = IntsOf(json, "columns", kMostIndices);
  tensor.row_count = IntOf(json, "row_count").value_or(0);
  tensor.column_count = IntOf(json, "column_count").value_or(0);
  return tensor;
}

template <typename T, typename Of>
std::vector<T> ListOf(const Json& values, size_t most, Of of) {
  std::vector<T> found;
  if (!values.is_array()) return found;
  for (const Json& value : values) {
    if (found.size() == most) break;
    if (value.is_object()) found.push_back(of(value));
  }
  return found;
}

// "rows 3 and 5", "column 12", "rows 1, 2, 3 and 61 more", each with " of 64".
std::string IndicesText(const char* noun, const std::vector<int64_t>& indices, int64_t count,
                        int64_t of) {
  std::string text = std::string(noun) + (count == 1 ? " " : "s ");
  const int64_t more = count - static_cast<int64_t>(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (i > 0) text += i + 1 == indices.size() && more <= 0 ? " and " : ", ";
    text += std::to_string(indices[i]);
  }
  if (more > 0) text += " and " + std::to_string(more) + " more";
  return text + " of " + std::to_string(of);
}

std::string TensorText(const BadTensor& tensor) {
  std::string text =
      "input " + std::to_string(tensor.input) + " (" + EscapeControl(tensor.dtype, 40) + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  text += "]) has ";
  bool first = true;
  const auto add = [&](int64_t count, const char* what) {
    if (count == 0) return;
    text += (std::exchange(first, false) ? "" : " and ") + std::to_string(count) + " " + what;
  };
  add(tensor.nan, "NaN");
  add(tensor.posinf, "+Inf");
  add(tensor.neginf, "-Inf");
  if (!tensor.rows.empty() && !tensor.shape.empty()) {
    text += ", in " + IndicesText("row", tensor.rows, tensor.row_count, tensor.shape.front());
  }
  if (!tensor.columns.empty() && !tensor.shape.empty()) {
    text += ", " + IndicesText("column", tensor.columns, tensor.column_count, tensor.shape.back());
  }
  return text;
}

}  // namespace

std::string ShortOperator(std::string_view name) {
  const size_t space = name.find('.');
  if (space != std::string_view::npos) name.remove_prefix(space + 1);
  return std::string(name.substr(0, name.find('.')));
}

AlertDetail ParseAlertDetail(std::string_view json) {
  AlertDetail detail;
  if (json.empty()) return detail;
  const auto parsed = ParseJson(json);
  if (!parsed || !parsed->is_object()) return detail;
  const std::string where = DetailText(*parsed, "where");
  for (const auto& [word, meaning] : kWheres) {
    if (word == where) detail.where = meaning;
  }
  detail.operators =
      ListOf<NanOrigin>(ValueAt(*parsed, {"operators"}), kMostOperators, NanOriginOf);
  detail.bad_gradients = IntOf(ValueAt(*parsed, {"gradients"}), "not_finite");
  detail.gradients = IntOf(ValueAt(*parsed, {"gradients"}), "of");
  const Json& finite = ValueAt(*parsed, {"finite_before"});
  detail.finite_before = finite.is_boolean() && finite.get<bool>();
  const Json& batch = ValueAt(*parsed, {"batch"});
  detail.call = IntOf(batch, "call").value_or(1);
  detail.batch = ListOf<BadTensor>(ValueAt(batch, {"inputs"}), kMostTensors, TensorOf);
  return detail;
}

std::string BatchText(const AlertDetail& detail, int64_t step) {
  if (detail.batch.empty()) return "";
  std::string text = "batch of step " + std::to_string(step);
  if (detail.call > 1) text += ", its forward pass " + std::to_string(detail.call);
  text += ": ";
  for (size_t i = 0; i < detail.batch.size(); ++i) {
    text += (i > 0 ? "; " : "") + TensorText(detail.batch[i]);
  }
  return text;
}

}  // namespace mpnanny::runs
