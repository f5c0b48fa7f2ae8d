#include "engines/pack/redaction.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/json.h"
#include "engines/runs/detail_fields.h"

namespace mpnanny::pack {
namespace {

using runs::DetailField;
using runs::FieldContent;
using runs::FindDetailField;

constexpr size_t kHashBytes = 5;

// Classes of torch.nn, and the types of layers that are none: they do not say whose model it is.
constexpr std::string_view kPlainTypes[] = {"AdaptiveAvgPool2d",
                                            "AvgPool2d",
                                            "BatchNorm1d",
                                            "BatchNorm2d",
                                            "BatchNorm3d",
                                            "Bilinear",
                                            "Conv1d",
                                            "Conv2d",
                                            "Conv3d",
                                            "ConvTranspose2d",
                                            "CrossEntropyLoss",
                                            "Dropout",
                                            "ELU",
                                            "Embedding",
                                            "EmbeddingBag",
                                            "Flatten",
                                            "GELU",
                                            "GRU",
                                            "GroupNorm",
                                            "Hardswish",
                                            "Identity",
                                            "InstanceNorm2d",
                                            "LSTM",
                                            "LayerNorm",
                                            "LeakyReLU",
                                            "Linear",
                                            "LogSoftmax",
                                            "MSELoss",
                                            "MaxPool2d",
                                            "ModuleDict",
                                            "ModuleList",
                                            "MultiheadAttention",
                                            "NLLLoss",
                                            "PReLU",
                                            "RMSNorm",
                                            "RNN",
                                            "ReLU",
                                            "ReLU6",
                                            "Sequential",
                                            "SiLU",
                                            "Sigmoid",
                                            "Softmax",
                                            "Softplus",
                                            "Tanh",
                                            "Transformer",
                                            "TransformerDecoder",
                                            "TransformerDecoderLayer",
                                            "TransformerEncoder",
                                            "TransformerEncoderLayer",
                                            "parameter",
                                            "buffer",
                                            "operator"};

// A figure that is not finite, as monitors and readers of logs write it.
constexpr std::string_view kNotFinite[] = {"nan", "inf", "-inf", "NaN", "Inf"};

// Whose operators are PyTorch's own.
constexpr std::string_view kPlainNamespaces[] = {"aten", "prim",  "prims",
                                                 "c10d", "_c10d", "_c10d_functional"};

constexpr std::string_view kPlainFacts[] = {"python",
                                            "torch",
                                            "cuda",
                                            "hip",
                                            "cudnn",
                                            "devices",
                                            "tf32_matmul",
                                            "tf32_cudnn",
                                            "float32_matmul_precision",
                                            "fp16_reduced_precision_reduction",
                                            "bf16_reduced_precision_reduction",
                                            "deterministic"};

bool IsAny(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "train.py:40"
bool IsSource(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != std::string_view::npos && colon > 0 && IsNumber(text.substr(colon + 1));
}

std::string RedactedText(const std::string& text, const DetailField& field) {
  if (IsNumber(text) || IsAny(kNotFinite, text) || IsAny(field.words, text)) return text;
  switch (field.content) {
    case FieldContent::kWord:
      return text;
    case FieldContent::kOperator:
    case FieldContent::kByOperator:
      if (!IsSource(text)) return RedactedOperator(text);
      break;
    case FieldContent::kFigure:
    case FieldContent::kSource:
    case FieldContent::kName:
      break;
  }
  return IsSource(text) ? RedactedSource(text) : RedactedLayer(text);
}

// What a key that is no field of the monitor's stands for: it may be a name itself.
constexpr DetailField kUnknown{"", FieldContent::kName};

Json Redacted(const Json& value, const DetailField& field = kUnknown) {
  if (value.is_string()) return RedactedText(value.get_ref<const std::string&>(), field);
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(Redacted(item, field));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [key, item] : value.items()) {
    if (field.content == FieldContent::kByOperator) {
      object[RedactedOperator(key)] = Redacted(item, field);
      continue;
    }
    const DetailField* const known = FindDetailField(key);
    object[known ? key : HashedName(key)] = Redacted(item, known ? *known : kUnknown);
  }
  return object;
}

}  // namespace

std::string HashedName(std::string_view name) {
  if (name.empty()) return "";
  std::array<unsigned char, kHashBytes> hash{};
  // The low-level function takes lengths below the recommended minimum; these hide, they do not
  // sign.
  crypto_generichash_blake2b(hash.data(), hash.size(),
                             reinterpret_cast<const unsigned char*>(name.data()), name.size(),
                             nullptr, 0);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "h";
  for (const unsigned char byte : hash) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string RedactedLayer(std::string_view name) {
  std::string redacted;
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    redacted += IsNumber(part) ? std::string(part) : HashedName(part);
    if (dot == std::string_view::npos) return redacted;
    redacted += '.';
    name.remove_prefix(dot + 1);
  }
}

std::string RedactedType(std::string_view type) {
  return IsAny(kPlainTypes, type) ? std::string(type) : HashedName(type);
}

std::string RedactedSource(std::string_view source) {
  if (!IsSource(source)) return HashedName(source);
  const size_t colon = source.rfind(':');
  return HashedName(source.substr(0, colon)) + std::string(source.substr(colon));
}

std::string RedactedOperator(std::string_view op) {
  const std::string_view space = op.substr(0, op.find('.'));
  const bool plain = space.size() < op.size() && IsAny(kPlainNamespaces, space);
  return plain || op == "optimizer.step" ? std::string(op) : RedactedLayer(op);
}

std::string RedactedJson(std::string_view json) {
  auto parsed = ParseJson(json);
  return parsed ? DumpJson(Redacted(*parsed)) : "";
}

std::string RedactedEnvironment(std::string_view json) {
  auto parsed = ParseJson(json);
  Json kept = Json::object();
  if (!parsed || !parsed->is_object()) return "{}";
  for (const std::string_view fact : kPlainFacts) {
    const auto found = parsed->find(std::string(fact));
    if (found != parsed->end()) kept[std::string(fact)] = *found;
  }
  return DumpJson(kept);
}

}  // namespace mpnanny::pack
