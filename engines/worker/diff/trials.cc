#include "engines/worker/diff/trials.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "engines/judgement/comparison.h"
#include "engines/judgement/thresholds.h"
#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/start.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int kMostLevels = 24;
constexpr size_t kMostLines = 64;
constexpr double kAlwaysCured = 0.25, kCuredOfInfinite = 0.05;

// The error that a cure may leave.
double BoundOf(double before) {
  return std::isfinite(before) ? std::min(judgement::kCured * before, kAlwaysCured)
                               : kCuredOfInfinite;
}

}  // namespace

Trials::Trials(const Program& program, const std::vector<IValue>& inputs,
               const CastPolicy& precision, const Tape& tape, Clock::time_point until)
    : program_(program), inputs_(inputs), precision_(precision), tape_(tape), until_(until) {}

bool Trials::HasTime() {
  ran_out_ = ran_out_ || Clock::now() > until_;
  return !ran_out_;
}

// Null where it is of no interest: it has no floating-point numbers.
const Node* Trials::NodeOf(int call) const {
  const int place = tape_.judge().calls()[call].place;
  return place == judgement::kNone ? nullptr : &tape_.NodeOf(place);
}

std::optional<judgement::Cure> Trials::FindCure(int finding) {
  const auto known = tape_.suspects().find(finding);
  if (known == tape_.suspects().end()) return std::nullopt;
  const Suspect& suspect = known->second;
  std::vector<c10::ScalarType> types = {c10::ScalarType::Float, c10::ScalarType::Double};
  if (!suspect.narrow) types = {c10::ScalarType::Double};
  for (const c10::ScalarType type : types) {
    for (const double share : {0.25, 0.0}) {  // along the worst inputs; then along all
      if (!HasTime()) return std::nullopt;
      if (auto cure = Search(suspect, type, share)) return cure;
    }
  }
  return std::nullopt;
}

std::optional<judgement::Cure> Trials::Search(const Suspect& suspect, c10::ScalarType type,
                                              double share) {
  const double bound = BoundOf(suspect.error);
  const std::string own = LineOf(*NodeOf(suspect.call));
  Kept kept{{own}, type};
  for (int level = 0; level < kMostLevels && HasTime(); ++level) {
    const auto after = ErrorWith(suspect, kept);
    if (after && *after <= bound) {
      double left = *after;
      for (const std::string& line : std::set<std::string>(kept.lines)) {
        if (line == own || !HasTime()) continue;
        Kept fewer = kept;
        fewer.lines.erase(line);
        const auto without = ErrorWith(suspect, fewer);
        if (!without || *without > bound) continue;
        kept = std::move(fewer);
        left = *without;
      }
      return Described(suspect, kept, left);
    }
    const std::set<std::string> more = LinesAbove(suspect, kept.lines, share);
    if (more.empty() || kept.lines.size() + more.size() > kMostLines) return std::nullopt;
    kept.lines.insert(more.begin(), more.end());
  }
  return std::nullopt;
}

std::optional<double> Trials::ErrorWith(const Suspect& suspect, const Kept& kept) {
  const at::NoGradGuard no_grad;
  try {
    KeepRunner runner(precision_, kept, tape_.types());
    runner.StopAfter(suspect.call);
    Interpret(program_, StartOf(program_, inputs_, precision_), runner);
  } catch (const KeepRunner::Stopped& stopped) {
    if (suspect.index >= stopped.results.size()) return std::nullopt;
    const auto found = Compare(stopped.results[suspect.index], suspect.reference);
    if (!found) return std::nullopt;
    if (found->nonfinite() > 0) return std::numeric_limits<double>::infinity();
    if (suspect.kind == FindingKind::kIntegers) {
      return static_cast<double>(found->wrong_integers) / static_cast<double>(found->numel);
    }
    return judgement::ErrorOf(*found);
  } catch (const std::exception&) {
    // With these lines kept the model does not run: it asks for equal types.
  }
  return std::nullopt;
}

// The lines that made the inputs of `lines` up to the suspect: those whose error is at least
// `share` of the largest.
std::set<std::string> Trials::LinesAbove(const Suspect& suspect, const std::set<std::string>& lines,
                                         double share) const {
  const judgement::Calls& calls = tape_.judge().calls();
  std::map<std::string, double> errors;  // of the lines
  double worst = 0;
  std::set<int> seen;
  std::vector<int> open = {suspect.call};
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    if (!seen.insert(number).second) continue;
    for (const judgement::KnownInput& each : calls[number].inputs) {
      const int producer = each.before.producer;
      if (producer == judgement::kNone) continue;
      const std::string line = LineOf(*NodeOf(producer));
      if (lines.contains(line)) {
        open.push_back(producer);  // of the chain that is kept already
        continue;
      }
      const double error = calls[producer].worst;
      errors[line] = std::max(errors[line], error);
      worst = std::max(worst, error);
    }
  }
  std::set<std::string> found;
  for (const auto& [line, error] : errors) {
    if (error >= share * worst || !std::isfinite(error)) found.insert(line);
  }
  return found;
}

judgement::Cure Trials::Described(const Suspect& suspect, const Kept& kept, double after) const {
  judgement::Cure cure;
  cure.what = NameOf(kept.type);
  cure.error_before = suspect.error;
  cure.error_after = after;
  const auto add = [](std::vector<std::string>& list, const std::string& word) {
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
  };
  for (int number = 1; number <= suspect.call; ++number) {
    const Node* const node = NodeOf(number);
    if (node == nullptr || !kept.lines.contains(LineOf(*node))) continue;
    add(cure.lines, LineOf(*node));
    add(cure.operators, node->site.op);
  }
  return cure;
}

}  // namespace mpnanny::worker
