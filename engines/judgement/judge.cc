#include "engines/judgement/judge.h"

#include <algorithm>
#include <utility>

#include "engines/judgement/rating.h"

namespace mpnanny::judgement {

Judge::Judge(LostChanges& run, int step, std::optional<double> first_loss)
    : run_(run),
      operators_(calls_, findings_, slots_),
      consequences_(calls_, findings_, slots_, first_loss),
      profiles_(calls_),
      changes_(calls_, run, step) {}

std::vector<std::pair<int, int>> Judge::Take(const Call& row) {
  newest_ = std::max(newest_, row.number);
  calls_.Add(row);
  const std::string& schema = calls_.SchemaOf(row.number);
  if (schema == "aten::nan_to_num" || schema == "aten::nan_to_num_")
    consequences_.Replaces(row.number);
  return profiles_.Enters(row.number);
}

int Judge::Take(const Leaves& row) {
  consequences_.Take(row);
  return profiles_.Takes(row.place, calls_.MemoryOf(row.memory), row.type, row.offset);
}

bool Judge::Take(const Result& row, Evidence& evidence) {
  const bool restarts = operators_.Take(row, evidence);
  if (const ReferenceError* found = slots_.At(row.slot); found != nullptr) {
    double& most = magnitudes_[calls_.SamePlace(calls_[row.call].place)];
    most = std::max(most, found->max_reference);
    profiles_.Makes(row.call, row.type, *found);
  }
  if (!row.state.empty()) {
    consequences_.Wrote(row);
    if (calls_.PlaceOfCall(row.call).phase != Phase::kOptimizer) {
      if (const auto came_in = calls_.CameInBefore(row.call))
        run_.rounds_weights() = RoundsWeights{calls_.PlaceOf(came_in->place), *came_in};
    }
  }
  return restarts;
}

void Judge::Take(const Change& row) {
  consequences_.Take(row);
  changes_.Take(row);
}

std::vector<int> Judge::Finish() {
  consequences_.Finish();
  if (!consequences_.IsSmallLoss()) {
    for (Finding& each : changes_.Finish(newest_ + 1)) {
      const int same = calls_.SamePlace(each.place);
      findings_.Add(same, std::move(each));
    }
  }
  return Rate(findings_, calls_, {consequences_.IsSettled(), consequences_.IsSmallLoss()});
}

std::optional<Judge::Source> Judge::SourceOf(int64_t memory, Element type) {
  const Memory& known = calls_.MemoryOf(memory);
  if (known.origin != kNone) {
    const Finding& finding = findings_[known.origin];
    return Source{{finding.place, finding.dtype, known.error}, finding.cure, true};
  }
  std::optional<CameIn> came_in = calls_.CameInTo(known, type);
  if (!came_in) return std::nullopt;
  return Source{std::move(*came_in), std::nullopt, false};
}

void Judge::Cures(int finding, Cure cure) {
  findings_[finding].cure = std::move(cure);
  findings_[finding].precision = Proof::kProven;
}

}  // namespace mpnanny::judgement
