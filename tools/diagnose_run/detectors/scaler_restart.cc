#include <algorithm>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int64_t kSearchBegins = 3;  // steps until the search begins
constexpr int64_t kSearch = 3;   // skipped steps that make a search: growing costs one
constexpr double kHigher = 3.9;  // a scaler doubles

const Burst* SearchAfter(const Turns& turns, int64_t step) {
  for (const Burst& burst : turns.bursts) {
    if (burst.first >= step && burst.first <= step + kSearchBegins && burst.steps >= kSearch)
      return &burst;
  }
  return nullptr;
}

Claim Restart(int64_t step, double from, double to, int64_t skipped, const std::string& how) {
  Claim claim;
  claim.id = "scaler-restarted";
  claim.sentence = "At step " + std::to_string(step) + " the loss scale went from " +
                   runs::Number(from) + " to " + runs::Number(to) + how + ", and " +
                   runs::Count(skipped, "step") +
                   " were skipped while it searched anew: the scaler's state was not carried over.";
  claim.strength = 1;
  claim.fault = true;
  claim.place = FaultPlace{step, "optimizer", "", "", "", "the loss scale started anew"};
  return claim;
}

}  // namespace

void DetectScalerRestart(const Facts& facts, std::vector<Claim>& claims) {
  const Turns& turns = facts.turns;
  for (const Jump& jump : turns.scale_restarts) {
    // A search right at the start of a run is a scaler's own.
    const Burst* search = SearchAfter(turns, jump.step);
    if (!search) continue;
    const bool anew =
        std::any_of(facts.protocol.scalers.begin(), facts.protocol.scalers.end(),
                    [&](const ScalerSeen& scaler) { return scaler.step == jump.step; });
    claims.push_back(Restart(jump.step, jump.from, jump.to, search->steps,
                             anew ? ", with a new GradScaler" : ", more than a scaler grows"));
    return;
  }
  const run_summary::Summary& s = facts.summary;
  if (!s.scale_first || !s.first_step) return;
  const Burst* search = SearchAfter(turns, *s.first_step);
  if (!search) return;
  if (facts.parent && facts.parent->last_scale &&
      *s.scale_first >= kHigher * *facts.parent->last_scale) {
    claims.push_back(Restart(*s.first_step, *facts.parent->last_scale, *s.scale_first,
                             search->steps, ", where this run goes on from the one before"));
  } else if (facts.monitored && !facts.parent && *s.first_step >= kSearchBegins) {
    // (An extract of a log begins anywhere.)
    Claim claim = Restart(*s.first_step, *s.scale_first, *s.scale_first, search->steps, "");
    claim.sentence = "The run begins at step " + std::to_string(*s.first_step) +
                     ", so it resumes another, and its first " +
                     runs::Count(search->steps, "step") +
                     " were skipped while the loss scale searched anew from " +
                     runs::Number(s.scale_first) + ": the scaler's state was not carried over.";
    claim.strength = 0.8;
    claims.push_back(std::move(claim));
  }
}

}  // namespace mpnanny::diagnose_run
