#include "engines/check/facts/op_table.h"

#include <utility>

#include "base/json.h"

namespace mpnanny::check {
namespace {

// Functions that are not in the tables (they need arguments that are hard to guess, or are
// somebody else's), by one that behaves alike.
constexpr std::pair<std::string_view, std::string_view> kAlike[] = {
    {"__matmul__", "matmul"},
    {"__pow__", "pow"},
    {"conv_transpose1d", "conv1d"},
    {"conv_transpose2d", "conv2d"},
    {"conv_transpose3d", "conv3d"},
    {"convolution", "conv2d"},
    {"group_norm", "layer_norm"},
    {"ctc_loss", "log"},
    {"grid_sample", "view"},
    {"masked_select", "view"},
    {"fold", "view"},
    {"view_as_real", "view"},
    {"cuda", "view"},
    {"requires_grad_", "view"},
    {"rearrange", "view"},
    {"upsample_nearest2d", "interpolate"},
    {"nonzero", "argmax"},
    {"one_hot", "argmax"},
    {"numel", "argmax"},
};

CastPolicy Named(std::string_view word) {
  if (word == "keep") return CastPolicy::kUnlisted;
  if (word == "lower") return CastPolicy::kLower;
  if (word == "fp32") return CastPolicy::kFp32;
  return word == "banned" ? CastPolicy::kBanned : CastPolicy::kUnknown;
}

}  // namespace

Result<OpTable> OpTable::Parse(std::string_view autocast, std::string_view functions) {
  const auto json = ParseJson(autocast);
  if (!json) return Internal("data/autocast_ops.json: " + json.error().Text());
  constexpr std::pair<const char*, CastPolicy> kPolicies[] = {
      {"lower_precision_fp", CastPolicy::kLower},
      {"fp32", CastPolicy::kFp32},
      {"promote", CastPolicy::kPromote},
      {"banned", CastPolicy::kBanned},
  };
  const auto devices = json->find("devices");
  if (devices == json->end() || !devices->is_object())
    return Internal("data/autocast_ops.json has no \"devices\".");
  OpTable table;
  for (const auto& [device, lists] : devices->items()) {
    for (const auto& [name, policy] : kPolicies) {
      const auto list = lists.find(name);
      if (list == lists.end() || !list->is_array()) continue;
      for (const Json& op : *list) {
        if (!op.is_string()) continue;
        const std::string text_of_op = op.get<std::string>();
        table.devices_[device].emplace(text_of_op.substr(0, text_of_op.find('.')), policy);
      }
    }
  }
  if (!table.devices_.contains("CUDA") || !table.devices_.contains("CPU")) {
    return Internal("data/autocast_ops.json lacks CUDA or CPU.");
  }

  const auto measured = ParseJson(functions);
  if (!measured) return Internal("data/torch_functions.json: " + measured.error().Text());
  const auto alike = measured->find("functions");
  if (alike == measured->end() || !alike->is_object())
    return Internal("data/torch_functions.json has no \"functions\".");
  for (const auto& [key, names] : alike->items()) {
    const std::string_view words = key;  // "keep fp32 keep": off, CUDA, CPU
    const size_t first = words.find(' ');
    const size_t second = words.find(' ', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos || !names.is_array())
      return Internal("data/torch_functions.json: \"" + key + "\" is not three words.");
    const std::string_view off = words.substr(0, first);
    const Function function{off == "index", off == "keep",
                            Named(words.substr(first + 1, second - first - 1)),
                            Named(words.substr(second + 1))};
    for (const Json& name : names) {
      if (name.is_string()) table.functions_.emplace(name.get<std::string>(), function);
    }
  }
  for (const auto& [name, like] : kAlike) {
    const auto it = table.functions_.find(like);
    if (it != table.functions_.end()) table.functions_.emplace(std::string(name), it->second);
  }
  return table;
}

CastPolicy OpTable::Lookup(Device device, std::string_view function) const {
  const auto measured = functions_.find(function);
  if (measured != functions_.end()) {
    const CastPolicy policy = device == Device::kCpu ? measured->second.cpu : measured->second.cuda;
    if (policy != CastPolicy::kUnknown) return policy;
  }
  const auto& ops = devices_.find(device == Device::kCpu ? "CPU" : "CUDA")->second;
  const auto it = ops.find(function);
  return it == ops.end() ? CastPolicy::kUnlisted : it->second;
}

CastPolicy OpTable::PolicyOf(Device device, std::string_view function) const {
  switch (device) {
    case Device::kCuda:
    case Device::kCpu:
      return Lookup(device, function);
    case Device::kOther:
      return CastPolicy::kUnknown;
    case Device::kUnknown:
      break;
  }
  const CastPolicy cuda = Lookup(Device::kCuda, function);
  return cuda == Lookup(Device::kCpu, function) ? cuda : CastPolicy::kUnknown;
}

bool OpTable::KeepsDtype(std::string_view function) const {
  const auto it = functions_.find(function);
  return it != functions_.end() && it->second.keeps;
}

bool OpTable::GivesIndex(std::string_view function) const {
  const auto it = functions_.find(function);
  return it != functions_.end() && it->second.index;
}

}  // namespace mpnanny::check
