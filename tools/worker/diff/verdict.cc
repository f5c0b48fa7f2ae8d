#include "tools/worker/diff/verdict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/worker/diff/comparison.h"
#include "tools/worker/run/keep_runner.h"
#include "tools/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr double kSpread = 8;       // times what the roundings add up to
constexpr double kDegraded = 0.05;  // of an output: an error that is spread, or a decision's
constexpr double kCastShare = 0.05, kChoiceShare = 0.25;
constexpr double kCloser = 0.9;  // of its error that an output has left, where a finding reaches it
constexpr size_t kMostTried = 12;

bool IsInfinite(FindingKind kind) {
  return kind == FindingKind::kRange || kind == FindingKind::kUndefined;
}

std::string PlaceOf(const Site& site) { return site.source + "|" + site.module + "|" + site.op; }

// How far an output is from where it should be: its error, or the share of whole numbers that are
// others than in FP32.
double Distance(const at::Tensor& held, const Output& low, const Output* full) {
  if (IsFloat(held)) {
    const auto found = Compare(held, low.reference);
    if (!found) return 0;
    return found->range > 0 ? std::numeric_limits<double>::infinity() : ErrorOf(*found);
  }
  if (full == nullptr || held.sizes() != full->held.sizes() || held.numel() == 0) return 0;
  return held.ne(full->held).sum().item<double>() / static_cast<double>(held.numel());
}

}  // namespace

Verdict::Verdict(const Measured& full, Measured& low, Trials& trials, const Limits& limits)
    : full_(full), low_(low), limits_(limits) {
  for (const Finding& each : full.judge.findings()) {
    if (!IsInfinite(each.kind) && IsNarrow(each.held_type))
      continue;  // 16 bits that the model asks for
    ill_.push_back(&each);
  }
  size_t tried = 0;
  for (Finding& each : low.judge.findings()) {
    if (IsShared(each) || each.kind == FindingKind::kUndefined || ++tried > kMostTried) continue;
    Try(each, trials);
    if (!each.reaches.empty()) bad_.push_back(&each);
  }
  std::stable_sort(bad_.begin(), bad_.end(), [](const Finding* a, const Finding* b) {
    if (IsInfinite(a->kind) != IsInfinite(b->kind)) return IsInfinite(a->kind);
    return a->number < b->number;
  });
}

bool Verdict::IsShared(const Finding& finding) const {
  return finding.kind != FindingKind::kRange &&
         std::any_of(ill_.begin(), ill_.end(), [&](const Finding* each) {
           return PlaceOf(each->site) == PlaceOf(finding.site);
         });
}

// The cure of a finding, and which outputs are closer to their references with it. Where no cure is
// found, the outputs that are far off anyhow.
void Verdict::Try(Finding& finding, Trials& trials) {
  finding.cure = trials.FindCure(finding);
  finding.tested = true;
  std::vector<std::pair<std::string, at::Tensor>> cured;
  if (finding.cure) {
    const Kept kept{{finding.cure->lines.begin(), finding.cure->lines.end()}, finding.cure->type};
    if (const auto outputs = trials.Outputs(kept)) cured = NamedTensors(*outputs);
  }
  // More than a rounding of the type: less is what every result has.
  if (finding.error_out <= std::max(kNoted, HalfUlp(finding.held_type)) &&
      finding.kind == FindingKind::kAmplified)
    return;
  for (size_t at = 0; at < low_.outputs.size(); ++at) {
    const Output& output = low_.outputs[at];
    const Output* const full = at < full_.outputs.size() ? &full_.outputs[at] : nullptr;
    const double before = Distance(output.held, output, full);
    if (before <= kCarries) continue;
    if (cured.size() == low_.outputs.size()) {
      const double after = Distance(cured[at].second, output, full);
      if (after > kCloser * before || (std::isinf(before) && std::isinf(after))) continue;
    } else if (before <= kWrong) {
      continue;
    }
    finding.reaches.emplace_back(output.name, before);
  }
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
  return low_.operators == 0 || low_.outputs.empty() ? "not_established" : "clean";
}

// Not finite in FP64 either, where the run in FP32 has nothing of it: it comes of what was rounded.
const Finding* Verdict::Undefined() const {
  const bool gets_out =
      std::any_of(low_.outputs.begin(), low_.outputs.end(),
                  [](const Output& each) { return each.found && each.found->nonfinite() > 0; });
  if (!gets_out) return nullptr;
  for (const Finding& each : low_.judge.findings()) {
    if (each.kind == FindingKind::kUndefined && !IsShared(each)) return &each;
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
