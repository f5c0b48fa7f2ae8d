#include "engines/judgement/lost_changes.h"

#include <algorithm>
#include <cmath>

#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {

bool StepChanges::Line::Stays() const { return lost > kLost * change; }

bool StepChanges::Line::IsLost() const { return Stays() && kept < kLost * change; }

// In FP32 and wider most that is lost is too small to matter, as of a gate that has closed in the
// course of the training: counted only where it has been so most of the time.
bool StepChanges::Line::IsWide() const { return !IsNarrow(type); }

void StepChanges::Take(const Change& row) {
  const int place = calls_.SamePlace(calls_[row.call].place);
  const std::string tensor = row.name.empty() ? std::to_string(row.index) : row.name;
  const auto [known, is_new] = known_.try_emplace({place, tensor}, lines_.size());
  if (is_new) {
    Line& line = lines_.emplace_back();
    line.place = calls_[row.call].place;
    line.seen = row.seen;
    line.name = row.name;
    line.memory = row.memory;
    line.type = row.type;
    line.shape = row.shape;
    line.numel = row.found.numel;
    line.key = calls_.PlaceOf(place).Key() + "|" + tensor;
  }
  Line& line = lines_[known->second];
  line.change += row.found.change;
  line.lost += row.found.lost_change;
  line.kept += row.found.kept_change;
  whole_[line.memory] += row.found.change;
  if (row.name.empty()) return;
  Weight& weight = weights_[row.name];
  weight.places.insert(place);
  weight.newest = known->second;
  weight.in_parts = weight.in_parts || row.in_parts;
}

std::vector<std::string> StepChanges::SeveralLines() const {
  std::vector<std::string> names;
  for (const auto& [name, weight] : weights_) {
    const bool one_lost = std::any_of(lines_.begin(), lines_.end(), [&](const Line& each) {
      return each.name == name && each.IsLost();
    });
    if (weight.places.size() > 1 && !weight.in_parts && !one_lost) names.push_back(name);
  }
  return names;
}

void StepChanges::Take(const Together& row) {
  const auto known = weights_.find(row.name);
  if (known == weights_.end() || row.found.moved == 0) return;
  Line line = lines_[known->second.newest];
  line.seen = kNone;
  line.numel = row.found.numel;
  line.change = row.found.change;
  line.lost = row.found.lost_change;
  line.kept = row.found.kept_change;
  line.key = "together|" + row.name;
  lines_.push_back(std::move(line));
}

std::vector<std::pair<int, std::string>> StepChanges::Lost() const {
  std::vector<std::pair<int, std::string>> lost;
  for (const Line& each : lines_) {
    if (each.IsLost()) lost.emplace_back(each.seen, each.name);
  }
  return lost;
}

void StepChanges::Take(const LostLine& row) {
  for (Line& each : lines_) {
    if (each.seen == row.seen && (row.seen != kNone || each.name == row.name)) each.measured = row;
  }
}

std::vector<Finding> StepChanges::Finish(int number) {
  std::vector<Finding> found;
  std::map<int, size_t> found_at;  // by place
  for (const Line& line : lines_) {
    if (line.change < kOfAll * whole_[line.memory]) continue;
    LostChanges::Course& course = run_.CourseOf(line.key);
    ++course.steps;
    if (!line.IsLost() || line.measured.excused) {
      course.lost = 0;
      if (line.Stays() && !line.name.empty()) run_.kept().insert(line.name);
      continue;
    }
    run_.kept().erase(line.name);
    if (++course.lost == 1) course.since = step_;
    course.share = std::max(course.share, line.lost / line.change);
    const bool is_seldom = line.IsWide() && 2 * course.lost < course.steps;
    if (course.lost < kSteps || is_seldom) continue;
    const auto [at, is_new] = found_at.try_emplace(calls_.SamePlace(line.place), found.size());
    if (is_new) found.push_back(FindingOf(line, course, number));
    found[at->second].Reaches(Reached::kState, line.name, line.lost / line.change);
  }
  return found;
}

Finding StepChanges::FindingOf(const Line& line, const LostChanges::Course& course,
                               int number) const {
  const double half_ulp = HalfUlp(line.type);
  const double share = line.lost / line.change;
  Finding finding;
  finding.kind = FindingKind::kLostChange;
  finding.place = line.place;
  finding.number = number;
  finding.dtype = NameOf(line.type);
  finding.shape = line.shape;
  finding.share = share;
  finding.magnitude = line.measured.magnitude;
  finding.error_out = share;
  finding.precision = Proof::kProven;
  // More was lost than rounding here can lose, which is half an ulp of each number in every
  // operation: what comes in had lost it already, as a gradient that was rounded to 0.
  const bool lost_before = calls_.PlaceOf(line.place).phase == Phase::kOptimizer && half_ulp > 0 &&
                           line.lost > kRoundings * half_ulp * line.measured.held_sum;
  const double mean = std::max(1e-300, line.measured.mean);
  finding.lost =
      LostChange{course.steps,
                 course.lost,
                 course.since,
                 half_ulp,
                 line.change / static_cast<double>(std::max<int64_t>(1, line.numel)) / mean,
                 lost_before};
  return finding;
}

}  // namespace mpnanny::judgement
