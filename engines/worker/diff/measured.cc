#include "engines/worker/diff/measured.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "engines/judgement/comparison.h"
#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/start.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int kMostDepth = 5;

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

// `exact`: before it was rounded. `state`: its name, "" of an input.
void Enter(const std::string& name, const std::string& state, const IValue& held,
           const IValue& exact, Measured& measured) {
  if (!held.isTensor() || !exact.isTensor() || !IsFloat(held.toTensor())) return;
  const auto found = Compare(held.toTensor(), exact.toTensor());
  measured.tape->Enters(held.toTensor(), state, found ? judgement::ErrorOf(*found) : 0);
  if (!found || found->range == 0) return;
  measured.unheld.push_back({name,
                             static_cast<double>(found->range) / static_cast<double>(found->numel),
                             found->max_reference});
}

}  // namespace

double Output::error() const {
  if (!found || noise) return 0;
  return found->range > 0 ? std::numeric_limits<double>::infinity() : judgement::ErrorOf(*found);
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
  Tape& tape = *measured.tape;
  ShadowRunner runner(precision, tape);
  try {
    const Start start = StartOf(program, inputs, precision, runner);
    for (size_t at = 0; at < inputs.size(); ++at)
      Enter(program.arguments[at].name, "", start.inputs[at].held, inputs[at], measured);
    for (size_t at = 0; at < start.states.size(); ++at) {
      const State& state = program.states[at];
      Enter(state.name, state.name, start.states[at].held, state.value, measured);
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
                    std::nullopt, tape.IsNoise(a[at].second)};
      output.found = tape.Gives(output.held, output.reference, output.name);
      measured.outputs.push_back(std::move(output));
    }
    for (size_t at = 0; at < finish.states.size(); ++at) {
      const Value& state = finish.states[at];
      if (state.held.isTensor() && state.reference.isTensor() && IsFloat(state.held.toTensor()))
        tape.Keeps(state.held.toTensor(), state.reference.toTensor(), program.states[at].name);
    }
  } catch (const StepFailed& failed) {
    measured.raised = failed;
  } catch (const ModelProblem& problem) {
    measured.raised = StepFailed(Site{}, problem.what());
  }
  tape.Finish();
  measured.missing_kernels = runner.missing_kernels();
  measured.not_followed = runner.not_followed();
  measured.operators = runner.operators();
  measured.in_low = runner.in_low();
  measured.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return measured;
}

}  // namespace mpnanny::worker
