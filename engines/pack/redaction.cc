#include "engines/pack/redaction.h"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "base/json.h"

namespace mpnanny::pack {
namespace {

constexpr size_t kHashBytes = 5;

// Class names and words that say nothing about whose model it is.
constexpr std::string_view kPlainWords[] = {
    "AdaptiveAvgPool2d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "CrossEntropyLoss", "Dropout", "ELU",
    "Embedding", "EmbeddingBag", "Flatten", "GELU", "GRU", "GroupNorm", "Hardswish", "Identity",
    "InstanceNorm2d", "LSTM", "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "MSELoss",
    "MaxPool2d", "ModuleDict", "ModuleList", "MultiheadAttention", "NLLLoss", "PReLU", "RMSNorm",
    "RNN", "ReLU", "ReLU6", "Sequential", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh",
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer", "parameter", "buffer", "operator",
    // optimizers, scalers, dtypes, phases
    "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "NAdam", "RAdam", "RMSprop", "SGD", "ASGD",
    "LBFGS", "GradScaler", "float16", "bfloat16", "float32", "float64", "torch.float16",
    "torch.bfloat16", "torch.float32", "cpu", "cuda", "mps", "model", "optimizer", "scaler", "data",
    "forward", "loss", "backward", "nan", "inf", "-inf", "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
    "momentum_buffer", "running", "closed", "exception", "killed", "proven", "excluded",
    "not_tested", "not found", "int64", "int32", "int16", "int8", "uint8"};

// Values of "where", "made" and "inputs" in alert.detail: plain only there.
constexpr std::string_view kDetailWords[] = {
    "nan",    "posinf", "neginf",  "inf",     "finite",    "not_finite", "mask", "infinite",
    "batch",  "module", "carried", "weights", "buffers",   "gradients",  "loss", "optimizer",
    "own_code", "weights_before"};

// What a shadow finding reaches. A layer may well be called so: plain only where they stand for it.
constexpr std::string_view kReached[] = {"loss",   "gradient", "state",
                                         "output", "index",    "replaced"};

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

template <size_t n>
bool IsAny(const std::string_view (&words)[n], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool IsPlainWord(std::string_view word) { return IsAny(kPlainWords, word); }

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A key that a program wrote, such as "max_norm"; a user's names may stand as keys, too.
bool IsPlainKey(std::string_view key) {
  return key.size() <= 32 && key.find('_') != std::string_view::npos &&
         std::all_of(key.begin(), key.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

constexpr std::string_view kEventKeys[] = {
    "class",    "eps",       "lr",        "betas",    "scale",   "dtype", "device",  "norm",
    "type",     "growth",    "steps",     "rows",     "tensors", "of",    "what",    "slot",
    "count",    "samples",   "status",    "known",    "loss",    "layer", "layers",  "flags",
    "enabled",  "interval",  "passes",    "unscaled", "scaled",  "name",  "error",   "lines",
    "source",   "finding",   "cure",      "growth",   "at",      "from",  "forward", "mode",
    "operator", "operators", "precision", "restarts"};

// Of alert.detail, and of the event of an exception.
constexpr std::string_view kDetailKeys[] = {
    "where",  "made",  "counts",    "inputs",  "input", "shape",  "nan",
    "posinf", "call",  "batch",     "columns", "phase", "module", "after",
    "neginf", "min",   "gradients", "buffers", "max",   "function", "through_mode"};

bool IsOperators(std::string_view key) {
  return key == "operator" || key == "operators" || key == "forward" || key == "restarts" ||
         key == "backward_of";
}

// "train.py:40"
bool IsSource(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != std::string_view::npos && colon > 0 && IsNumber(text.substr(colon + 1));
}

// `of`: the key under which it stands.
std::string RedactedText(const std::string& text, std::string_view of) {
  if (IsOperators(of)) return RedactedOperator(text);
  if (of == "what" && IsAny(kReached, text)) return text;
  if ((of == "where" || of == "made" || of == "inputs") && IsAny(kDetailWords, text)) return text;
  if (IsPlainWord(text) || IsNumber(text)) return text;
  return IsSource(text) ? RedactedSource(text) : RedactedLayer(text);
}

Json Redacted(const Json& value, std::string_view of = {}) {
  if (value.is_string()) return RedactedText(value.get_ref<const std::string&>(), of);
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(Redacted(item, of));
    return list;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [key, item] : value.items()) {
      const bool plain = IsPlainKey(key) || IsAny(kEventKeys, key) || IsAny(kDetailKeys, key);
      const std::string hidden = of == "restarts" ? RedactedOperator(key) : HashedName(key);
      object[plain ? key : hidden] = Redacted(item, key);
    }
    return object;
  }
  return value;
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
  return IsPlainWord(type) ? std::string(type) : HashedName(type);
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
