#include "engines/worker/diff/trials.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/start.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int kMostLevels = 24;
constexpr size_t kMostLines = 64;
constexpr double kCured = 0.1;  // of the error that it had, at the most
constexpr double kAlwaysCured = 0.25, kCuredOfInfinite = 0.05;

// The error that a cure may leave.
double BoundOf(double before) {
  return std::isfinite(before) ? std::min(kCured * before, kAlwaysCured) : kCuredOfInfinite;
}

}  // namespace

Trials::Trials(const Program& program, const std::vector<IValue>& inputs,
               const CastPolicy& precision, const std::vector<CallRecord>& calls,
               Clock::time_point until)
    : program_(program), inputs_(inputs), precision_(precision), calls_(calls), until_(until) {
  for (const CallRecord& each : calls) types_.push_back(each.types);
}

bool Trials::HasTime() {
  ran_out_ = ran_out_ || Clock::now() > until_;
  return !ran_out_;
}

std::optional<Cure> Trials::FindCure(const Finding& finding) {
  if (!finding.reference.defined()) return std::nullopt;
  std::vector<c10::ScalarType> types = {c10::ScalarType::Float, c10::ScalarType::Double};
  if (!finding.IsNarrow()) types = {c10::ScalarType::Double};
  for (const c10::ScalarType type : types) {
    for (const double share : {0.25, 0.0}) {  // along the worst inputs; then along all
      if (!HasTime()) return std::nullopt;
      if (auto cure = Search(finding, type, share)) return cure;
    }
  }
  return std::nullopt;
}

std::optional<Cure> Trials::Search(const Finding& finding, c10::ScalarType type, double share) {
  const double bound = BoundOf(finding.first_error);
  Kept kept{{finding.line}, type};
  for (int level = 0; level < kMostLevels && HasTime(); ++level) {
    const auto after = ErrorWith(finding, kept);
    if (after && *after <= bound) {
      double left = *after;
      for (const std::string& line : std::set<std::string>(kept.lines)) {
        if (line == finding.line || !HasTime()) continue;
        Kept fewer = kept;
        fewer.lines.erase(line);
        const auto without = ErrorWith(finding, fewer);
        if (!without || *without > bound) continue;
        kept = std::move(fewer);
        left = *without;
      }
      return Described(finding, kept, left);
    }
    const std::set<std::string> more = LinesAbove(finding, kept.lines, share);
    if (more.empty() || kept.lines.size() + more.size() > kMostLines) return std::nullopt;
    kept.lines.insert(more.begin(), more.end());
  }
  return std::nullopt;
}

std::optional<double> Trials::ErrorWith(const Finding& finding, const Kept& kept) {
  const at::NoGradGuard no_grad;
  try {
    KeepRunner runner(precision_, kept, types_);
    runner.StopAfter(finding.number);
    Interpret(program_, StartOf(program_, inputs_, precision_), runner);
  } catch (const KeepRunner::Stopped& stopped) {
    if (finding.output >= stopped.results.size()) return std::nullopt;
    const auto found = Compare(stopped.results[finding.output], finding.reference);
    if (!found) return std::nullopt;
    if (found->nonfinite() > 0) return std::numeric_limits<double>::infinity();
    if (finding.kind == FindingKind::kIntegers) {
      return static_cast<double>(found->wrong_integers) /
             static_cast<double>(std::max<int64_t>(1, found->numel));
    }
    return ErrorOf(*found);
  } catch (const std::exception&) {
    // With these lines kept the model does not run: it asks for equal types.
  }
  return std::nullopt;
}

// The lines that made the inputs of `lines` up to the finding: those whose error is at least
// `share` of the largest.
std::set<std::string> Trials::LinesAbove(const Finding& finding, const std::set<std::string>& lines,
                                         double share) const {
  std::vector<const CallRecord*> producers;
  double worst = 0;
  std::vector<bool> seen(calls_.size(), false);
  std::vector<int> open = {finding.number};
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    if (number <= 0 || static_cast<size_t>(number) >= calls_.size() ||
        seen[static_cast<size_t>(number)])
      continue;
    seen[static_cast<size_t>(number)] = true;
    for (const int producer : calls_[static_cast<size_t>(number)].producers) {
      const CallRecord& before = calls_[static_cast<size_t>(producer)];
      if (lines.contains(before.line)) {
        open.push_back(producer);  // of the chain that is kept already
      } else if (!before.line.empty()) {
        producers.push_back(&before);
        worst = std::max(worst, before.error);
      }
    }
  }
  std::set<std::string> found;
  for (const CallRecord* each : producers) {
    if (each->error >= share * worst || !std::isfinite(each->error)) found.insert(each->line);
  }
  return found;
}

Cure Trials::Described(const Finding& finding, const Kept& kept, double after) const {
  Cure cure;
  cure.type = kept.type;
  cure.error_before = finding.first_error;
  cure.error_after = after;
  const auto add = [](std::vector<std::string>& list, const std::string& word) {
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
  };
  for (int number = 1; number <= finding.number && static_cast<size_t>(number) < calls_.size();
       ++number) {
    const CallRecord& each = calls_[static_cast<size_t>(number)];
    if (!kept.lines.contains(each.line)) continue;
    add(cure.lines, each.line);
    add(cure.operators, each.op);
  }
  return cure;
}

}  // namespace mpnanny::worker
