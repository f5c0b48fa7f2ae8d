#include "engines/worker/diff/measured.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/start.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int kMostDepth = 5;
constexpr double kStateError = 0.2;
constexpr double kStateSize = 1e-3;  // of the largest state beside it, that an error must have

using Named = std::vector<std::pair<std::string, at::Tensor>>;

void AddTensors(const std::string& name, const IValue& value, int depth, Named& made) {
  const auto inner = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
  if (value.isTensor()) {
    if (value.toTensor().defined())
      made.emplace_back(name.empty() ? "output" : name, value.toTensor());
  } else if (depth >= kMostDepth) {
    return;
  } else if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    for (size_t at = 0; at < items.size(); ++at)
      AddTensors(inner(std::to_string(at)), items[at], depth + 1, made);
  } else if (value.isGenericDict()) {
    for (const auto& each : value.toGenericDict()) {
      AddTensors(inner(each.key().isString() ? each.key().toStringRef() : "?"), each.value(),
                 depth + 1, made);
    }
  } else if (value.isList()) {
    const c10::List<IValue> items = value.toList();
    for (size_t at = 0; at < items.size(); ++at)
      AddTensors(inner(std::to_string(at)), items.get(at), depth + 1, made);
  }
}

void FindUnheld(const std::string& name, const IValue& held, const IValue& exact,
                Measured& measured) {
  if (!held.isTensor() || !exact.isTensor() || !IsFloat(held.toTensor())) return;
  const auto found = Compare(held.toTensor(), exact.toTensor());
  if (!found || found->range == 0) return;
  measured.unheld.push_back({name,
                             static_cast<double>(found->range) / static_cast<double>(found->numel),
                             found->max_reference});
}

// A mean that is 0 but for rounding means something only beside the variance: errors count against
// the largest state of the same module.
void ReachStates(const Program& program, const std::vector<Value>& states, Measured& measured) {
  struct Size {
    std::string owner;
    std::optional<ReferenceError> found;
  };
  std::vector<Size> sizes;
  std::map<std::string, double> largest;
  const auto size_of = [](double squared, const ReferenceError& found) {
    return std::sqrt(squared / static_cast<double>(found.numel));
  };
  for (size_t at = 0; at < states.size(); ++at) {
    const std::string& name = program.states[at].name;
    const size_t dot = name.rfind('.');
    Size& size = sizes.emplace_back();
    size.owner = dot == std::string::npos ? "" : name.substr(0, dot);
    const Value& state = states[at];
    if (!state.held.isTensor() || !state.reference.isTensor() || !IsFloat(state.held.toTensor()))
      continue;
    size.found = Compare(state.held.toTensor(), state.reference.toTensor());
    if (!size.found || size.found->numel == 0) continue;
    double& most = largest[size.owner];
    most = std::max(most, size_of(size.found->squared_reference, *size.found));
  }
  for (size_t at = 0; at < states.size(); ++at) {
    const auto& found = sizes[at].found;
    if (!found || found->numel == 0) continue;
    const bool is_bad = found->nonfinite() > 0;
    const double error = is_bad ? std::numeric_limits<double>::infinity() : ErrorOf(*found);
    const double size = size_of(found->squared_error, *found);
    if (!is_bad && (error <= kStateError || size <= kStateSize * largest[sizes[at].owner]))
      continue;
    measured.judge.Reached(states[at].held.toTensor(), {"state", program.states[at].name, error});
  }
}

}  // namespace

double Output::error() const {
  if (!found || noise) return 0;
  return found->range > 0 ? std::numeric_limits<double>::infinity() : ErrorOf(*found);
}

Named NamedTensors(const std::vector<IValue>& values) {
  Named made;
  for (size_t at = 0; at < values.size(); ++at) {
    AddTensors(values.size() == 1 ? "" : std::to_string(at), values[at], 0, made);
  }
  return made;
}

Measured Measure(const Program& program, const std::vector<IValue>& inputs,
                 const CastPolicy& precision) {
  const at::NoGradGuard no_grad;
  const auto began = std::chrono::steady_clock::now();
  Measured measured;
  ShadowRunner runner(precision, measured.judge);
  try {
    const Start start = StartOf(program, inputs, precision, runner);
    for (size_t at = 0; at < inputs.size(); ++at) {
      FindUnheld(program.arguments[at].name, start.inputs[at].held, inputs[at], measured);
    }
    for (size_t at = 0; at < start.states.size(); ++at) {
      FindUnheld(program.states[at].name, start.states[at].held, program.states[at].value,
                 measured);
    }
    std::vector<IValue> held, reference;
    const Finish finish = Interpret(program, start, runner);
    for (const Value& each : finish.outputs) {
      held.push_back(each.held);
      reference.push_back(each.reference);
    }
    const Named a = NamedTensors(held), b = NamedTensors(reference);
    for (size_t at = 0; at < a.size(); ++at) {
      Output output{a[at].first, a[at].second, at < b.size() ? b[at].second : at::Tensor(),
                    std::nullopt, measured.judge.IsOnlyNoise(a[at].second)};
      if (IsFloat(output.held)) output.found = Compare(output.held, output.reference);
      measured.judge.Reached(output.held, {"output", output.name, output.error()});
      measured.outputs.push_back(std::move(output));
    }
    ReachStates(program, finish.states, measured);
  } catch (const StepFailed& failed) {
    measured.raised = failed;
  } catch (const ModelProblem& problem) {
    measured.raised = StepFailed(Site{}, problem.what());
  }
  measured.missing_kernels = runner.missing_kernels();
  measured.not_followed = runner.not_followed();
  measured.operators = runner.operators();
  measured.in_low = runner.in_low();
  measured.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return measured;
}

}  // namespace mpnanny::worker
