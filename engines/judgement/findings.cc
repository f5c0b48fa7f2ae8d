#include "engines/judgement/findings.h"

namespace mpnanny::judgement {

int Findings::Add(int same, Finding made) {
  const auto [known, is_new] = known_.try_emplace({made.kind, same}, static_cast<int>(all_.size()));
  if (is_new) {
    all_.push_back(std::move(made));
    return known->second;
  }
  Finding& finding = all_[static_cast<size_t>(known->second)];
  ++finding.count;
  if (made.error_out > finding.error_out || made.share > finding.share) {
    finding.dtype = std::move(made.dtype);
    finding.shape = std::move(made.shape);
    finding.share = made.share;
    finding.magnitude = made.magnitude;
    finding.error_in = made.error_in;
    finding.error_out = made.error_out;
  }
  return known->second;
}

void Findings::Reaches(int origin, Reached what, const std::string& name, double error) {
  for (int at = origin; at != kNone; at = (*this)[at].parent) {
    (*this)[at].Reaches(what, name, error);
  }
}

}  // namespace mpnanny::judgement
