#include "engines/worker/diff/verdict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/keep_runner.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr double kSpread = 8;       // times what the roundings add up to
constexpr double kDegraded = 0.05;  // of an output: an error that is spread, or a decision's
constexpr double kCastShare = 0.05, kChoiceShare = 0.25;
constexpr size_t kMostTried = 12;

bool IsInfinite(FindingKind kind) {
  return kind == FindingKind::kRange || kind == FindingKind::kUndefined;
}

std::string PlaceOf(const Site& site) { return site.source + "|" + site.module + "|" + site.op; }

// Made here, and yet not wrong.
bool IsNote(const Finding& finding) {
  return (finding.kind == FindingKind::kAmplified || finding.kind == FindingKind::kFlushed) &&
         finding.error_out < kWrong;
}

// It gets out of the model, and is more than a rounding of its types. Whole numbers do where an
// index is made of them or they come out themselves: a large number that fills a mask is rounded
// without harm.
bool Counts(const Finding& finding, const std::vector<Output>& outputs) {
  if (finding.reaches.empty()) return false;
  const double least = std::max(kNoted, finding.HalfUlp());
  if (finding.kind == FindingKind::kIntegers) {
    const bool come_out = std::any_of(outputs.begin(), outputs.end(), [](const Output& each) {
      return each.found && each.found->integers && each.found->wrong_integers > 0;
    });
    return std::any_of(finding.reaches.begin(), finding.reaches.end(), [&](const Reach& each) {
      return each.what == "index" || each.error > least || (come_out && each.what == "output");
    });
  }
  return !IsNote(finding) || finding.error_out > least;
}

}  // namespace

Verdict::Verdict(const Measured& full, Measured& low, Trials& trials, const Limits& limits)
    : full_(full), low_(low), limits_(limits) {
  for (const Finding& each : full.judge.findings()) {
    if (!Counts(each, full.outputs)) continue;
    if (!IsInfinite(each.kind) && each.IsNarrow()) continue;  // 16 bits that the model asks for
    ill_.push_back(&each);
  }
  size_t tried = 0;
  for (Finding& each : low.judge.findings()) {
    // What is not finite in FP64 either has a word of its own.
    if (each.kind == FindingKind::kUndefined || IsShared(each) || !Counts(each, low.outputs))
      continue;
    if (++tried <= kMostTried) each.cure = trials.FindCure(each);
    bad_.push_back(&each);
  }
  FindGrown(trials);
  std::stable_sort(bad_.begin(), bad_.end(), [](const Finding* a, const Finding* b) {
    if (IsInfinite(a->kind) != IsInfinite(b->kind)) return IsInfinite(a->kind);
    if (IsNote(*a) != IsNote(*b)) return IsNote(*b);
    return a->number < b->number;
  });
}

// Positions, ids, counts or times become others, and an operator makes a large error of that, such
// as a sine: a fault of the model even where nothing of it gets to an output, because weights of a
// beginning do not look there yet. It is the cause where the error is cured with them in FP32.
void Verdict::FindGrown(Trials& trials) {
  size_t tried = 0;
  for (Finding& each : low_.judge.findings()) {
    if (each.kind != FindingKind::kAmplified) continue;
    Finding& root = low_.judge.RootOf(each);
    if (root.kind != FindingKind::kIntegers || IsShared(root)) continue;
    if (!each.cure && ++tried <= kMostTried) each.cure = trials.FindCure(each);
    if (!each.cure) continue;
    const auto& lines = each.cure->lines;
    if (std::find(lines.begin(), lines.end(), root.line) == lines.end()) continue;
    const Finding*& grown = grown_[&root];
    if (grown == nullptr || grown->error_out < each.error_out) grown = &each;
    if (std::find(bad_.begin(), bad_.end(), &root) != bad_.end()) continue;
    if (!root.cure) root.cure = trials.FindCure(root);
    bad_.push_back(&root);
  }
}

const Finding* Verdict::Grown(const Finding& root) const {
  const auto found = grown_.find(&root);
  return found == grown_.end() ? nullptr : found->second;
}

bool Verdict::IsShared(const Finding& finding) const {
  return finding.kind != FindingKind::kRange &&
         std::any_of(ill_.begin(), ill_.end(), [&](const Finding* each) {
           return PlaceOf(each->site) == PlaceOf(finding.site);
         });
}

double Verdict::Worst() const {
  double worst = 0;
  for (const Output& each : low_.outputs) worst = std::max(worst, each.error());
  return worst;
}

std::string Verdict::Word() const {
  if (low_.raised) return "broken";
  for (const Finding* each : bad_) {
    if (each->kind == FindingKind::kRange) return "broken";
  }
  for (const Output& each : low_.outputs) {
    if (each.found && each.found->range > 0) return "broken";
  }
  if (limits_.error && Worst() > *limits_.error) return "broken";
  if (Undefined() != nullptr) return "broken";
  if (!bad_.empty() || (limits_.warn && Worst() > *limits_.warn) || IsSpread() ||
      Decided() != nullptr || WrongWhole()) {
    return "degraded";
  }
  // Where no operator met the type, nothing was tried.
  return low_.in_low == 0 || low_.outputs.empty() ? "not_established" : "clean";
}

// Not finite in FP64 either. Infinities that the run in FP32 has as well are meant so, as in a
// mask; NaN never is.
const Finding* Verdict::Undefined() const {
  const bool gets_out =
      std::any_of(low_.outputs.begin(), low_.outputs.end(),
                  [](const Output& each) { return each.found && each.found->nonfinite() > 0; });
  if (!gets_out) return nullptr;
  const bool is_nan = std::any_of(low_.outputs.begin(), low_.outputs.end(), [](const Output& each) {
    return each.found && each.found->undefined > 0;
  });
  for (const Finding& each : low_.judge.findings()) {
    if (each.kind == FindingKind::kUndefined && (is_nan || !IsShared(each))) return &each;
  }
  return nullptr;
}

const Decision* Verdict::Decided() const {
  const bool differ = OutputsDiffer();
  for (const Decision& each : low_.judge.decisions()) {
    if (each.share < (each.is_cast ? kCastShare : kChoiceShare) || (!differ && !each.is_cast))
      continue;
    const auto& before = full_.judge.decisions();
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
    if (found && (ErrorOf(*found) > kDegraded || found->range > 0)) return true;
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
  for (const Row& each : low_.judge.Rows()) {
    if (each.wrong_whole >= kCastShare) return each;
  }
  return std::nullopt;
}

double Verdict::Expected() const {
  double sum = 0;
  for (const Row& each : low_.judge.Rows()) sum += each.squared_local;
  return std::sqrt(sum);
}

}  // namespace mpnanny::worker
