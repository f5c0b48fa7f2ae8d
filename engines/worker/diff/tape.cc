#include "engines/worker/diff/tape.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "engines/judgement/comparison.h"
#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/call.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

using judgement::kNone;

constexpr double kSame = 1e-6;  // relative difference of two references that are the same
constexpr size_t kMostSuspects = 64;
constexpr size_t kMostDecisions = 1000;

// Floating-point inputs with their references.
void ForEachInput(
    const Called& call,
    const std::function<void(const at::Tensor& held, const at::Tensor& reference)>& visit) {
  for (size_t at = 0; at < call.held.size() && at < call.reference.size(); ++at) {
    std::vector<at::Tensor> held, reference;
    ForEachTensor(call.held[at], [&](const at::Tensor& each) { held.push_back(each); });
    ForEachTensor(call.reference[at], [&](const at::Tensor& each) { reference.push_back(each); });
    for (size_t i = 0; i < held.size() && i < reference.size(); ++i) {
      if (IsFloat(held[i]) && MemoryOf(held[i]) != nullptr) visit(held[i], reference[i]);
    }
  }
}

// An operator as it runs: what a file calls a cast is this one below.
std::string AsItRuns(const std::string& op) {
  return op.starts_with("aten.to.") || op == "aten.type_as" ? "aten._to_copy" : op;
}

}  // namespace

// --- what the judge asks about a result ---

class Tape::Evidence : public judgement::Evidence {
 public:
  Evidence(Tape& tape, const Called& call, size_t index, const at::Tensor& held,
           const at::Tensor& reference)
      : tape_(tape), call_(call), index_(index), held_(held), reference_(reference) {}

  int InputFigures(int input) override {
    const Pair& pair = tape_.inputs_[static_cast<size_t>(input)];
    return tape_.Compared(pair.held, pair.reference);
  }

  int IndexFigures() override { return tape_.Compared(Wide(held_), Wide(reference_)); }

  bool Fills() override {
    return std::any_of(call_.held.begin(), call_.held.end(), [](const IValue& each) {
      return each.isDouble() && !std::isfinite(each.toDouble());
    });
  }

  bool DependsOnNoise(const std::vector<int>& noise) override {
    if (call_.wrote) return true;
    std::set<const void*> zeroed;
    for (const int input : noise) {
      zeroed.insert(tape_.inputs_[static_cast<size_t>(input)].reference.unsafeGetTensorImpl());
    }
    Stack inputs;
    for (const IValue& each : call_.reference) {
      inputs.push_back(Replaced(each, [&](const at::Tensor& tensor) {
        return zeroed.contains(tensor.unsafeGetTensorImpl()) ? at::zeros_like(tensor) : tensor;
      }));
    }
    std::vector<at::Tensor> again;
    try {
      ForEachTensor(CallIn(c10::ScalarType::Double, call_.node, inputs),
                    [&](const at::Tensor& tensor) {
                      if (IsFloat(tensor)) again.push_back(tensor);
                    });
    } catch (const c10::Error&) {
      return true;
    }
    if (index_ >= again.size() || again[index_].sizes() != reference_.sizes()) return true;
    const auto changed = Compare(again[index_], reference_);
    return !changed || judgement::ErrorOf(*changed) > kSame || changed->squared_reference == 0;
  }

  // Only an optimizer's elements are.
  bool IsNoiseOfElements(double) override { return false; }
  // No witness. The whole model runs from its inputs and weights: nothing came in on the way.
  std::optional<bool> RoundingDecides(std::string&) override { return false; }
  std::optional<judgement::Singular> SingularAt() override { return std::nullopt; }
  std::vector<std::array<double, 2>> Operands() override { return {}; }
  std::optional<std::string> MadeUnwritten(int) override { return std::nullopt; }

  bool IsAboveZero(int input) override {
    const at::Tensor& held = tape_.inputs_[static_cast<size_t>(input)].held;
    return !held.is_complex() && held.to(c10::ScalarType::Double).gt(0).any().item<bool>();
  }

  Owner OwnerOf(int input) override {
    const auto known =
        tape_.names_.find(tape_.NumberOf(tape_.inputs_[static_cast<size_t>(input)].held));
    return known == tape_.names_.end() ? Owner{} : Owner{known->second, false};
  }

  bool SearchesLater() const override { return true; }
  // It is asked of the newest finding.
  CureAnswer FindCure(FindingKind kind, double before, bool narrow) override {
    if (tape_.suspects_.size() >= kMostSuspects) return {};
    narrow = narrow || IsNarrow(held_.scalar_type());
    for (const Pair& each : tape_.inputs_) narrow = narrow || IsNarrow(each.held.scalar_type());
    const int finding = static_cast<int>(tape_.judge_.findings().all().size()) - 1;
    const at::Tensor reference = Wide(reference_).clone();
    tape_.suspects_[finding] = {kind, call_.number, index_, before, narrow, reference};
    return {};
  }

 private:
  static at::Tensor Wide(const at::Tensor& tensor) {
    return IsFloat(tensor) ? tensor : tensor.to(c10::ScalarType::Double);
  }

  Tape& tape_;
  const Called& call_;
  size_t index_;
  const at::Tensor& held_;
  const at::Tensor& reference_;
};

// --- numbers of the tape ---

int Tape::PlaceOf(const Node& node) {
  const auto [known, is_new] = places_.try_emplace(&node, static_cast<int>(nodes_.size()));
  if (is_new) {
    const std::string& source = node.site.source;
    const size_t colon = source.rfind(':');
    judgement::Place place;
    place.op = AsItRuns(node.site.op);
    place.forward = node.site.op;
    place.file = source.substr(0, colon);
    if (colon != std::string::npos) place.line = std::atoi(source.c_str() + colon + 1);
    place.module = node.site.module;
    judge_.Take(place);
    nodes_.push_back(&node);
  }
  return known->second;
}

int64_t Tape::NumberOf(const at::Tensor& tensor) {
  const void* const memory = MemoryOf(tensor);
  if (memory == nullptr) return kNone;
  const auto known = memories_.find(memory);
  if (known != memories_.end()) return known->second.number;
  const auto number = static_cast<int64_t>(memories_.size());
  memories_.emplace(memory, Known{tensor.storage().getWeakStorageImpl(), number});
  return number;
}

int Tape::Compared(const at::Tensor& held, const at::Tensor& reference) {
  const auto found = Compare(held, reference);
  if (!found) return kNone;
  judge_.Take(judgement::Figures{slots_, *found});
  return slots_++;
}

// --- the run ---

void Tape::Enters(const at::Tensor& held, const std::string& name, double error) {
  const int64_t memory = NumberOf(held);
  if (memory == kNone) return;
  if (!name.empty()) names_[memory] = name;
  judge_.Take(judgement::Enters{memory, error});
}

void Tape::Before(const Called& call) { Begin(call); }

// The row of a call, before its results. Values that it overwrites are compared now: afterwards
// they are gone.
void Tape::Begin(const Called& call) {
  if (call.number == number_) return;
  number_ = call.number;
  inputs_.clear();
  judgement::Call row;
  row.number = call.number;
  row.place = PlaceOf(call.node);
  const bool changes = FactsOf(*call.node.schema).changes;
  ForEachInput(call, [&](const at::Tensor& held, const at::Tensor& reference) {
    judgement::Input input;
    input.memory = NumberOf(held);
    input.type = ElementOf(held.scalar_type());
    for (const Made& each : call.made) {
      if (!call.wrote || MemoryOf(each.held) != MemoryOf(held)) continue;
      input.read = input.read && (changes || !each.held.is_same(held));
      if (input.slot == kNone) input.slot = Compared(held, reference);
    }
    row.inputs.push_back(input);
    inputs_.push_back({held, reference});
  });
  judge_.Take(row);
}

void Tape::After(const Called& call) {
  Begin(call);
  types_.resize(std::max(types_.size(), static_cast<size_t>(call.number) + 1));
  const int place = judge_.calls().SamePlace(PlaceOf(call.node));
  for (size_t index = 0; index < call.made.size(); ++index) {
    const Made& made = call.made[index];
    types_[static_cast<size_t>(call.number)].push_back(made.held.scalar_type());
    if (!call.computes) continue;
    judgement::Result row;
    row.call = call.number;
    row.index = static_cast<int>(index);
    row.memory = NumberOf(made.held);
    row.type = ElementOf(made.held.scalar_type());
    row.shape = made.held.sizes().vec();
    row.slot = Compared(made.held, made.reference);
    row.written = call.wrote;
    Evidence evidence(*this, call, index, made.held, made.reference);
    if (judge_.Take(row, evidence)) {
      made.reference.copy_(made.held);  // from here on what is held is the reference
    } else if (const ReferenceError* found = judge_.slots().At(row.slot); found != nullptr) {
      errors_.Add(place, call, index, *found, IsNoise(made.held));
    }
  }
}

void Tape::Decided(const Called& call, const at::Tensor& held, const at::Tensor& reference) {
  if (held.numel() == 0 || decisions_.size() >= kMostDecisions ||
      held.scalar_type() != reference.scalar_type())
    return;
  const double share = held.ne(reference).sum().item<double>() / static_cast<double>(held.numel());
  if (share <= 0) return;
  Begin(call);
  const std::string& op = judge_.calls().SchemaOf(call.number);
  const bool casts = op == "aten::_to_copy";
  // Of masks and choices it is not known what they are for.
  const bool makes_indices = casts ? held.scalar_type() != c10::ScalarType::Bool
                                   : op == "aten::searchsorted" || op == "aten::bucketize";
  if (makes_indices) {
    Evidence evidence(*this, call, 0, held, reference);
    judge_.Take(judgement::Indices{call.number, 0, ElementOf(held.scalar_type()),
                                   held.sizes().vec(), share},
                evidence);
  }
  std::ostringstream shape;
  shape << held.sizes();
  decisions_.push_back({call.node.site, call.number, NameOf(held.scalar_type()), shape.str(), share,
                        casts || op == "aten::copy_"});
}

// --- its end ---

std::optional<ReferenceError> Tape::Gives(const at::Tensor& held, const at::Tensor& reference,
                                          const std::string& name) {
  if (!IsFloat(held)) return std::nullopt;
  const int slot = Compared(held, reference);
  const ReferenceError* const found = judge_.slots().At(slot);
  if (found == nullptr) return std::nullopt;
  judge_.Take(judgement::Output{NumberOf(held), name, slot});
  return *found;
}

void Tape::Keeps(const at::Tensor& held, const at::Tensor& reference, const std::string& name) {
  judge_.Take(judgement::State{name, NumberOf(held), Compared(held, reference)});
}

void Tape::Finish() { found_ = judge_.Finish(); }

bool Tape::IsNoise(const at::Tensor& tensor) {
  const int64_t memory = NumberOf(tensor);
  return memory != kNone && judge_.MemoryOf(memory).noise;
}

}  // namespace mpnanny::worker
