#include "engines/worker/diff/verdict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <tuple>
#include <utility>

#include "engines/judgement/comparison.h"
#include "engines/judgement/thresholds.h"
#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/keep_runner.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

using judgement::Element;
using judgement::Finding;
using judgement::Reached;

constexpr double kSpread = 8;       // times what the roundings add up to
constexpr double kDegraded = 0.05;  // of an output: an error that is spread, or a decision's
constexpr double kCastShare = 0.05, kChoiceShare = 0.25;
constexpr size_t kMostTried = 12;

bool IsInfinite(FindingKind kind) {
  return kind == FindingKind::kRange || kind == FindingKind::kUndefined;
}

std::string PlaceOf(const Site& site) { return site.source + "|" + site.module + "|" + site.op; }

// Those of "float16, float32 → float16".
std::vector<Element> TypesIn(const std::string& words) {
  std::vector<Element> types;
  std::istringstream rest(words);
  for (std::string word; rest >> word;) {
    if (word.ends_with(",")) word.pop_back();
    if (const auto type = FindNamed<Element>(word)) types.push_back(*type);
  }
  return types;
}

bool IsNarrow(const Finding& finding) {
  const std::vector<Element> types = TypesIn(finding.dtype);
  return std::any_of(types.begin(), types.end(), [](Element each) { return IsNarrow(each); });
}

// It gets out of the model, and is more than a note and a rounding of its types. Whole numbers do
// where an index is made of them or they come out themselves: a large number that fills a mask is
// rounded without harm.
bool Counts(const Finding& finding, const std::vector<Output>& outputs) {
  if (finding.reach.empty()) return false;
  double least = judgement::kNoted;
  for (const Element each : TypesIn(finding.dtype)) least = std::max(least, HalfUlp(each));
  if (finding.kind == FindingKind::kIntegers) {
    const bool come_out = std::any_of(outputs.begin(), outputs.end(), [](const Output& each) {
      return each.found && each.found->integers && each.found->wrong_integers > 0;
    });
    return std::any_of(finding.reach.begin(), finding.reach.end(), [&](const auto& each) {
      return each.what == Reached::kIndex || each.error > least ||
             (come_out && each.what == Reached::kOutput);
    });
  }
  if (finding.severity != Severity::kInfo) return true;
  return !IsInfinite(finding.kind) && finding.error_out > least;
}

}  // namespace

Verdict::Verdict(const Measured& full, Measured& low, Trials& trials, const Limits& limits)
    : full_(full), low_(low), limits_(limits), found_(low.tape->judge().findings()) {
  for (const int number : full.tape->found()) {
    const Finding& each = full.tape->judge().findings()[number];
    if (!Counts(each, full.outputs)) continue;
    if (!IsInfinite(each.kind) && IsNarrow(each)) continue;  // 16 bits that the model asks for
    ill_.push_back(number);
  }
  size_t tried = 0;
  for (const int number : low.tape->found()) {
    const Finding& each = found_[number];
    // What is not finite in FP64 either has a word of its own.
    if (each.kind == FindingKind::kUndefined || IsShared(each) || !Counts(each, low.outputs))
      continue;
    if (++tried <= kMostTried) Cure(number, trials);
    bad_.push_back(number);
  }
  FindGrown(trials);
  std::stable_sort(bad_.begin(), bad_.end(), [&](int a, int b) {
    const auto order = [&](const Finding& each) {
      return std::tuple(each.severity, !IsInfinite(each.kind), each.number);
    };
    return order(found_[a]) < order(found_[b]);
  });
}

bool Verdict::Cure(int finding, Trials& trials) {
  if (auto cure = trials.FindCure(finding)) low_.tape->judge().Cures(finding, *std::move(cure));
  return found_[finding].cure.has_value();
}

// Positions, ids, counts or times become others, and an operator makes a large error of that, such
// as a sine: a fault of the model even where nothing of it gets to an output, because weights of a
// beginning do not look there yet. It is the cause where the error is cured with them in FP32.
void Verdict::FindGrown(Trials& trials) {
  size_t tried = 0;
  for (size_t at = 0; at < found_.all().size(); ++at) {
    const auto number = static_cast<int>(at);
    const Finding& each = found_[number];
    if (each.kind != FindingKind::kAmplified) continue;
    int root = number;
    while (found_[root].parent != judgement::kNone) root = found_[root].parent;
    if (found_[root].kind != FindingKind::kIntegers || IsShared(found_[root])) continue;
    if (!each.cure && ++tried <= kMostTried) Cure(number, trials);
    if (!each.cure) continue;
    const auto& lines = each.cure->lines;
    const std::string line = LineOf(low_.tape->NodeOf(found_[root].place));
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) continue;
    const auto [grown, is_new] = grown_.try_emplace(root, number);
    if (!is_new && found_[grown->second].error_out < each.error_out) grown->second = number;
    if (std::find(bad_.begin(), bad_.end(), root) != bad_.end()) continue;
    if (!found_[root].cure) Cure(root, trials);
    bad_.push_back(root);
  }
}

std::optional<int> Verdict::Grown(int root) const {
  const auto found = grown_.find(root);
  return found == grown_.end() ? std::nullopt : std::optional(found->second);
}

bool Verdict::IsShared(const Finding& finding) const {
  const std::string place = PlaceOf(low_.tape->SiteOf(finding));
  return finding.kind != FindingKind::kRange &&
         std::any_of(ill_.begin(), ill_.end(), [&](int each) {
           return PlaceOf(full_.tape->SiteOf(full_.tape->judge().findings()[each])) == place;
         });
}

double Verdict::Worst() const {
  double worst = 0;
  for (const Output& each : low_.outputs) worst = std::max(worst, each.error());
  return worst;
}

std::string Verdict::Word() const {
  if (low_.raised) return "broken";
  for (const int each : bad_) {
    if (found_[each].kind == FindingKind::kRange) return "broken";
  }
  for (const Output& each : low_.outputs) {
    if (each.found && each.found->range > 0) return "broken";
  }
  if (limits_.error && Worst() > *limits_.error) return "broken";
  if (Undefined()) return "broken";
  if (!bad_.empty() || (limits_.warn && Worst() > *limits_.warn) || IsSpread() ||
      Decided() != nullptr || WrongWhole()) {
    return "degraded";
  }
  // Where no operator met the type, nothing was tried.
  return low_.in_low == 0 || low_.outputs.empty() ? "not_established" : "clean";
}

// Not finite in FP64 either. Infinities that the run in FP32 has as well are meant so, as in a
// mask; NaN never is.
std::optional<int> Verdict::Undefined() const {
  const bool gets_out =
      std::any_of(low_.outputs.begin(), low_.outputs.end(),
                  [](const Output& each) { return each.found && each.found->nonfinite() > 0; });
  if (!gets_out) return std::nullopt;
  const bool is_nan = std::any_of(low_.outputs.begin(), low_.outputs.end(), [](const Output& each) {
    return each.found && each.found->undefined > 0;
  });
  for (const int number : low_.tape->found()) {
    const Finding& each = found_[number];
    if (each.kind == FindingKind::kUndefined && (is_nan || !IsShared(each))) return number;
  }
  return std::nullopt;
}

const Decision* Verdict::Decided() const {
  const bool differ = OutputsDiffer();
  for (const Decision& each : low_.tape->decisions()) {
    if (each.share < (each.is_cast ? kCastShare : kChoiceShare) || (!differ && !each.is_cast))
      continue;
    const auto& before = full_.tape->decisions();
    const bool in_full = std::any_of(before.begin(), before.end(), [&](const Decision& other) {
      return PlaceOf(other.site) == PlaceOf(each.site) && other.share >= 0.5 * each.share;
    });
    if (!in_full) return &each;
  }
  return nullptr;
}

// From those of the FP32 run, which draws the same random numbers.
bool Verdict::OutputsDiffer() const {
  for (size_t at = 0; at < low_.outputs.size() && at < full_.outputs.size(); ++at) {
    const at::Tensor& low = low_.outputs[at].held;
    const at::Tensor& full = full_.outputs[at].held;
    if (low.sizes() != full.sizes() || low.numel() == 0) continue;
    if (!IsFloat(low)) {
      if (low.ne(full).sum().item<double>() >= kCastShare * static_cast<double>(low.numel()))
        return true;
      continue;
    }
    const auto found = Compare(low, full.to(Wide(full.scalar_type())));
    if (found && (judgement::ErrorOf(*found) > kDegraded || found->range > 0)) return true;
  }
  return false;
}

bool Verdict::IsSpread() const { return Worst() > std::max(kDegraded, kSpread * Expected()); }

std::optional<Row> Verdict::WrongWhole() const {
  const bool any = std::any_of(low_.outputs.begin(), low_.outputs.end(), [](const Output& each) {
    return each.found && each.found->integers && each.found->numel >= kFewestWhole &&
           static_cast<double>(each.found->wrong_integers) >=
               kCastShare * static_cast<double>(each.found->numel);
  });
  if (!any) return std::nullopt;
  for (const Row& each : low_.tape->Rows()) {
    if (each.wrong_whole >= kCastShare) return each;
  }
  return std::nullopt;
}

double Verdict::Expected() const {
  double sum = 0;
  for (const Row& each : low_.tape->Rows()) sum += each.squared_local;
  return std::sqrt(sum);
}

}  // namespace mpnanny::worker
