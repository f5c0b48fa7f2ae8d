#include "tools/static_check/op_table.h"

#include <utility>

#include "base/json.h"

namespace mpnanny::static_check {
namespace {

// Functions of torch that are made of others: the operator that decides the dtype of the result.
constexpr std::pair<std::string_view, std::string_view> kMadeOf[] = {
    {"cross_entropy", "nll_loss"},
    {"gaussian_nll_loss", "log"},
    {"normalize", "norm"},
    {"interpolate", "upsample_nearest2d"},
    {"upsample", "upsample_nearest2d"},
    {"multilabel_soft_margin_loss", "log"},
    {"__matmul__", "matmul"},
    {"__pow__", "pow"},
    {"ctc_loss", "log"},
};

}  // namespace

Result<OpTable> OpTable::Parse(std::string_view text) {
  const auto json = ParseJson(text);
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
  return table;
}

CastPolicy OpTable::Lookup(const char* device, std::string_view function) const {
  for (const auto& [name, op] : kMadeOf) {
    if (name == function) function = op;
  }
  const auto& ops = devices_.find(device)->second;
  const auto it = ops.find(function);
  return it == ops.end() ? CastPolicy::kUnlisted : it->second;
}

CastPolicy OpTable::PolicyOf(Device device, std::string_view function) const {
  // einsum is listed on CUDA only; elsewhere it becomes bmm, which is listed everywhere.
  if (function == "einsum") return CastPolicy::kLower;
  switch (device) {
    case Device::kCuda:
      return Lookup("CUDA", function);
    case Device::kCpu:
      return Lookup("CPU", function);
    case Device::kOther:
      return CastPolicy::kUnknown;
    case Device::kUnknown:
      break;
  }
  const CastPolicy cuda = Lookup("CUDA", function);
  return cuda == Lookup("CPU", function) ? cuda : CastPolicy::kUnknown;
}

}  // namespace mpnanny::static_check
