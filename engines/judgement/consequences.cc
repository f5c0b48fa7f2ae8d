#include "engines/judgement/consequences.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/judgement/comparison.h"
#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-300;  // next to nothing, to divide by

// The root mean square of what a sum of squares is of.
double SizeOf(double squared, const ReferenceError& found) {
  return std::sqrt(squared / static_cast<double>(found.numel));
}

double ShareOf(int64_t count, int64_t of) {
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, of));
}

}  // namespace

void Consequences::Squares::Add(int origin, double squared) {
  for (auto& [known, sum] : all_) {
    if (known == origin) {
      sum += squared;
      return;
    }
  }
  all_.emplace_back(origin, squared);
}

bool Consequences::IsConverged(double loss) const {
  return first_loss_ && loss < kMattersLoss * *first_loss_;
}

bool Consequences::IsSettled() const {
  return squared_change_ > 0 && squared_change_ < kSettled * kSettled * squared_weight_;
}

void Consequences::Replaces(int call) {
  for (const KnownInput& each : calls_[call].inputs) {
    const int origin = each.before.origin;
    if (origin == kNone || !each.row.read) continue;
    const FindingKind kind = findings_[origin].kind;
    if (kind != FindingKind::kRange && kind != FindingKind::kUndefined) continue;
    findings_.Reaches(origin, Reached::kReplaced, calls_.PlaceOfCall(call).Source(),
                      findings_[origin].share);
  }
}

bool Consequences::Take(const Mask& row) {
  const KnownInput* worst = nullptr;
  for (const KnownInput& each : calls_[row.call].inputs) {
    if (each.row.read && (worst == nullptr || each.before.error > worst->before.error))
      worst = &each;
  }
  if (worst == nullptr || worst->before.origin == kNone || row.share < kWrongMask) return false;
  masks_[row.mask] = {worst->before.origin, row.share};
  return true;
}

void Consequences::Take(const Decided& row) {
  const auto known = masks_.find(row.mask);
  if (known == masks_.end()) return;
  findings_.Reaches(known->second.first, Reached::kDecision, row.source, known->second.second);
}

void Consequences::Take(const Read& row) {
  const Memory& memory = calls_.MemoryOf(row.memory);
  if (memory.error >= kOutputError)
    findings_.Reaches(memory.origin, Reached::kOutput, row.source, memory.error);
}

void Consequences::Take(const Leaves& row) {
  const Memory& memory = calls_.MemoryOf(row.memory);
  if (memory.producer == kNone || memory.origin == kNone || memory.error < kWrong) return;
  if (calls_.PlaceOfCall(memory.producer).phase != Phase::kBackward) {
    findings_.Reaches(memory.origin, Reached::kOutput, "", memory.error);
  } else if (calls_.PlaceOf(row.place).phase == Phase::kBackward) {
    left_gradients_.emplace_back(memory.origin, memory.error);
  }
}

void Consequences::Take(const Fed& row) {
  const Memory& before = calls_[row.call].inputs[static_cast<size_t>(row.input)].before;
  if (before.error >= kInputError && std::isfinite(before.error))
    findings_.Reaches(before.origin, Reached::kInput, "", before.error);
}

// --- losses ---

void Consequences::Take(const Loss& row) {
  if (row.memory == kNone) {
    if (std::isfinite(row.size)) {
      loss_ = row.size;
    } else if (row.alone) {
      ReachesAlone(Reached::kLoss);
    }
    return;
  }
  const ReferenceError* found = slots_.At(row.slot);
  if (found == nullptr) return;
  loss_ = found->max_reference;
  const Memory& memory = calls_.MemoryOf(row.memory);
  if (found->nonfinite() > 0) {
    findings_.Reaches(memory.origin, Reached::kLoss, "", kInfinity);
  } else if (ErrorOf(*found) > kLossError && !IsConverged(found->max_reference)) {
    findings_.Reaches(memory.origin, Reached::kLoss, "", ErrorOf(*found));
  }
}

// Something is not finite, in a step in which each operator was followed by itself: what became of
// its result is not known.
void Consequences::ReachesAlone(Reached what) {
  for (size_t at = 0; at < findings_.all().size(); ++at) {
    const int number = static_cast<int>(at);
    const FindingKind kind = findings_[number].kind;
    if (kind == FindingKind::kRange || kind == FindingKind::kUndefined)
      findings_.Reaches(number, what, "", kInfinity);
  }
}

void Consequences::Take(const Output& row) {
  const Memory& memory = calls_.MemoryOf(row.memory);
  const ReferenceError* own = slots_.At(row.slot);
  const double error = own == nullptr         ? memory.error
                       : own->nonfinite() > 0 ? kInfinity
                                              : ErrorOf(*own);
  findings_.Reaches(memory.origin, Reached::kOutput, row.name, error);
}

// --- gradients ---

void Consequences::Take(const GradientAgain& row) {
  const Memory& memory = calls_.MemoryOf(row.memory);
  if (std::isinf(memory.error) && Counts(memory.origin))
    findings_.Reaches(memory.origin, Reached::kGradient, row.name, kInfinity);
}

// Infinities of the backward pass at a scale that is given up are no finding; what no scale would
// cure is one: what is so in FP64 too, an infinite derivative, and what the forward pass has made.
bool Consequences::Counts(int origin) const {
  if (!optimizer_.skipped_at || *optimizer_.skipped_at <= kSearchedScale) return true;
  if (origin == kNone) return false;
  const Finding& finding = findings_[origin];
  const Place& place = calls_.PlaceOf(finding.place);
  const bool may_be_scaling = place.Schema() == "aten::mul";  // of the loss by its scale
  return finding.kind == FindingKind::kUndefined ||
         (finding.singular && finding.singular->is_pole) || place.phase == Phase::kForward ||
         (place.phase == Phase::kLoss && !may_be_scaling);
}

void Consequences::Take(const Optimizer& row) {
  optimizer_ = row;
  gradients_.clear();
  const bool skipped = row.skipped_at.has_value();
  if (skipped && *row.skipped_at <= kSearchedScale && row.alone) ReachesAlone(Reached::kGradient);
  for (const auto& [origin, error] : left_gradients_) {
    const bool counts = std::isinf(error) ? Counts(origin) : !skipped && !IsSmallLoss();
    if (counts) findings_.Reaches(origin, Reached::kGradient, "", error);
  }
  left_gradients_.clear();
}

void Consequences::Take(const Gradient& row) {
  const ReferenceError* found = slots_.At(row.slot);
  if (found != nullptr) gradients_.push_back({row, *found, calls_.MemoryOf(row.memory)});
}

void Consequences::Take(const OptimizerEnds&) {
  double all = 0;
  int64_t numel = 0;
  for (const GradientRow& each : gradients_) {
    all += each.found.squared_reference;
    numel += each.found.numel;
  }
  if (numel == 0) return;
  const double mean = std::sqrt(all / static_cast<double>(numel));
  Squares squares;
  for (const GradientRow& each : gradients_) TakeGradient(each, mean, squares);
  for (const auto& [origin, error] : squares.all()) {
    if (error > kGradientShare * all) {
      findings_.Reaches(origin, Reached::kGradient, "", std::sqrt(error / std::max(all, kTiny)));
    }
  }
  gradients_.clear();
}

void Consequences::TakeGradient(const GradientRow& gradient, double mean, Squares& squares) {
  const int origin = gradient.memory.origin;
  const ReferenceError& found = gradient.found;
  const std::string& name = gradient.row.name;
  if (origin == kNone) return;
  if (found.nonfinite() > 0) {
    if (Counts(origin)) findings_.Reaches(origin, Reached::kGradient, name, kInfinity);
    return;
  }
  if (optimizer_.skipped_at || IsSmallLoss()) return;
  const double size = SizeOf(found.squared_reference, found);
  const bool is_tiny = size <= kOwnSize * mean;
  // Where nothing arrives the parameter stands still, however little it would have been of all.
  const bool is_gone = found.max_held == 0 && size > kGoneSize * mean;
  if (ErrorOf(found) >= kOwnError && (!is_tiny || is_gone))
    findings_.Reaches(origin, Reached::kGradient, name, ErrorOf(found));
  const double flushed = ShareOf(found.flushed, found.nonzero);
  const double that_matter = ShareOf(found.flushed_that_matter, found.nonzero);
  if (findings_[origin].kind == FindingKind::kFlushed && !is_tiny && flushed > kFlushedShare &&
      that_matter > kFlushedShare) {
    findings_.Reaches(origin, Reached::kGradient, name, that_matter);
  }
  squares.Add(origin, found.squared_error);
}

// --- weights and buffers ---

void Consequences::Wrote(const Result& row) {
  const Memory& memory = calls_.MemoryOf(row.memory);
  if (std::isinf(memory.error))
    findings_.Reaches(memory.origin, Reached::kState, row.state, kInfinity);
}

void Consequences::Take(const Change& row) {
  if (row.name.empty()) return;
  const ReferenceError* after = slots_.At(row.slot);
  if (after != nullptr) squared_weight_ += after->squared_reference;
  squared_change_ += row.found.squared_change;
  const int origin = calls_.MemoryOf(row.memory).origin;
  if (origin != kNone) updates_.Add(origin, row.found.squared_error);
}

void Consequences::Take(const State& row) {
  const ReferenceError* found = slots_.At(row.slot);
  if (found == nullptr) return;
  const size_t dot = row.name.rfind('.');
  states_.push_back({row.name, dot == std::string::npos ? "" : row.name.substr(0, dot), *found,
                     calls_.MemoryOf(row.memory)});
}

// A mean that is 0 but for rounding means something only beside the variance: errors of buffers
// count against the largest buffer of the same module.
void Consequences::Finish() {
  std::map<std::string, double> sizes;
  for (const StateRow& each : states_) {
    double& size = sizes[each.owner];
    size = std::max(size, SizeOf(each.found.squared_reference, each.found));
  }
  for (const StateRow& each : states_) {
    const double size = SizeOf(each.found.squared_error, each.found);
    if (each.found.nonfinite() > 0) {
      findings_.Reaches(each.memory.origin, Reached::kState, each.name, kInfinity);
    } else if (ErrorOf(each.found) > kStateError && size > kBufferSize * sizes[each.owner] &&
               !IsSmallLoss()) {
      findings_.Reaches(each.memory.origin, Reached::kState, each.name, ErrorOf(each.found));
    }
  }
  if (IsSmallLoss()) return;
  for (const auto& [origin, error] : updates_.all()) {
    if (error > kUpdateShare * squared_change_) {
      findings_.Reaches(origin, Reached::kState, "weights",
                        std::sqrt(error / std::max(squared_change_, kTiny)));
    }
  }
}

}  // namespace mpnanny::judgement
