#include "engines/worker/run/autocast.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <optional>

#include "base/data_files.h"
#include "base/json.h"
#include "engines/worker/run/call.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedAutocast();  // the operator lists; generated
}

namespace mpnanny::worker {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::AutocastCPU;

// What autocast does with an operator; ATen/autocast_mode.h says what each means.
enum class Category { kLow, kFloat32, kFloat32ByArgument, kFloat32Norm, kPromote, kBanned };

const std::map<std::string, Category>& Categories() {
  static const std::map<std::string, Category> kCategories = {
      {"lower_precision_fp", Category::kLow},
      {"fp32", Category::kFloat32},
      {"fp32_set_opt_dtype", Category::kFloat32ByArgument},
      {"fp32_append_dtype", Category::kFloat32Norm},
      {"promote", Category::kPromote},
      {"banned", Category::kBanned}};
  return kCategories;
}

std::map<std::string, Category> ListOf(const Json& devices, const char* device) {
  std::map<std::string, Category> list;
  for (const auto& [name, category] : Categories()) {
    for (const Json& each : ValueAt(devices, {device, name.c_str()}))
      list[each.get<std::string>()] = category;
  }
  return list;
}

// As the lists write it: "linear", "softmax.int".
std::string ListedName(const c10::OperatorName& name) {
  const std::string base = name.name.substr(name.name.find("::") + 2);
  return name.overload_name.empty() ? base : base + "." + name.overload_name;
}

// What CUDA's lists do otherwise than the CPU's; no category: nothing. By the name in the lists.
using CudaDifferences = std::map<std::string, std::optional<Category>>;

const CudaDifferences& Differences() {
  static const CudaDifferences kDifferences = [] {
    const auto text = ParseJson(EmbeddedAutocast()[0].text);
    const Json& devices = ValueAt(*text, {"devices"});
    const auto cuda = ListOf(devices, "CUDA"), cpu = ListOf(devices, "CPU");
    CudaDifferences found;
    for (const auto& [name, category] : cpu) {
      if (!cuda.contains(name)) found[name] = std::nullopt;
    }
    for (const auto& [name, category] : cuda) {
      const auto same = cpu.find(name);
      if (same == cpu.end() || same->second != category) found[name] = category;
    }
    std::erase_if(found, [](const auto& each) {  // operators of another torch
      const size_t dot = each.first.find('.');
      const std::string overload = dot == std::string::npos ? "" : each.first.substr(dot + 1);
      return !c10::Dispatcher::singleton().findSchema(
          {"aten::" + each.first.substr(0, dot), overload});
    });
    return found;
  }();
  return kDifferences;
}

bool IsCast(const at::Tensor& tensor) {
  return c10::isFloatingType(tensor.scalar_type()) &&
         tensor.scalar_type() != c10::ScalarType::Double;
}

void Cast(Stack& stack, size_t from, c10::ScalarType type) {
  for (size_t at = from; at < stack.size(); ++at) {
    stack[at] = Replaced(stack[at], [&](const at::Tensor& tensor) {
      return IsCast(tensor) && tensor.scalar_type() != type ? tensor.to(type) : tensor;
    });
  }
}

void Promote(Stack& stack, size_t from, c10::ScalarType low) {
  bool any = false, wide = false;
  for (size_t at = from; at < stack.size(); ++at) {
    ForEachTensor(stack[at], [&](const at::Tensor& tensor) {
      any = any || IsCast(tensor);
      wide = wide || tensor.scalar_type() == c10::ScalarType::Float;
    });
  }
  if (any) Cast(stack, from, wide ? c10::ScalarType::Float : low);
}

void SetDType(const c10::FunctionSchema& schema, Stack& stack, size_t from) {
  if (!stack[from].isTensor() || !IsCast(stack[from].toTensor())) return;
  for (const size_t at : FactsOf(schema).dtypes) {
    if (stack[from + at].isNone()) stack[from + at] = static_cast<int64_t>(c10::ScalarType::Float);
  }
}

void Run(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t from = stack->size() - schema.arguments().size();
  const c10::ScalarType low = at::autocast::get_autocast_dtype(at::kCPU);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kKey);
  switch (*Differences().at(ListedName(op.operator_name()))) {
    case Category::kLow:
      Cast(*stack, from, low);
      break;
    case Category::kFloat32:
      Cast(*stack, from, c10::ScalarType::Float);
      break;
    case Category::kFloat32ByArgument:
      SetDType(schema, *stack, from);
      break;
    case Category::kFloat32Norm:
      if ((*stack)[from].isTensor() && IsCast((*stack)[from].toTensor())) {
        (*stack)[from] = (*stack)[from].toTensor().to(c10::ScalarType::Float);
      }
      break;
    case Category::kPromote:
      Promote(*stack, from, low);
      break;
    case Category::kBanned:
      throw ModelProblem("binary_cross_entropy is not allowed under torch.autocast(\"cuda\").",
                         "Use binary_cross_entropy_with_logits.");
  }
  op.callBoxed(stack);
}

}  // namespace

CastPolicy CastPolicyOf(const std::string& policy, c10::ScalarType low) {
  CastPolicy precision;
  precision.regions = CastPolicy::Own::kAll;
  precision.low = low;
  precision.autocast = policy != "pure";
  if (policy == "pure") precision.everything = low;
  if (policy == "cuda-autocast") InstallCudaLists();
  return precision;
}

void ReadCudaLists() { Differences(); }

void InstallCudaLists() {
  static std::unique_ptr<torch::Library> library;
  if (library) return;
  library =
      std::make_unique<torch::Library>(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  for (const auto& [name, category] : Differences()) {
    library->impl(name.c_str(), category ? torch::CppFunction::makeFromBoxedFunction<&Run>()
                                         : torch::CppFunction::makeFallthrough());
  }
}

Regions::Regions(const CastPolicy& precision) : precision_(precision) {
  at::autocast::set_autocast_cache_enabled(
      false);  // casts belong to the operator that asks for them
  if (precision_.autocast) Enter({.device = "cpu", .enabled = true, .dtype = precision_.low});
}

Regions::~Regions() {
  while (!before_.empty()) Leave();
}

void Regions::Enter(const Region& region) {
  const Before before{at::autocast::is_autocast_enabled(at::kCPU),
                      at::autocast::get_autocast_dtype(at::kCPU)};
  before_.push_back(before);
  const bool opens = precision_.regions == CastPolicy::Own::kAll ||
                     (precision_.regions == CastPolicy::Own::kOfTheCpu && region.device == "cpu");
  if (opens) Set(region.enabled, region.dtype.value_or(precision_.low));
}

void Regions::Leave() {
  if (before_.empty()) return;
  Set(before_.back().enabled, before_.back().dtype);
  before_.pop_back();
}

void Regions::Set(bool enabled, c10::ScalarType dtype) {
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
  at::autocast::set_autocast_enabled(at::kCPU, enabled);
}

}  // namespace mpnanny::worker
