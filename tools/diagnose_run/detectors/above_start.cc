// A loss that rose above everything before it, early in a record, and came back.
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr double kNormRose = 3;  // worth telling

}  // namespace

void DetectAboveStart(const Facts& facts, std::vector<Claim>& claims) {
  const std::optional<Spike>& rise = facts.turns.above_start;
  if (facts.onset || !rise || !rise->over) return;
  if (FindClaim(claims, "outlier-batch") || FindClaim(claims, "loss-jumped") ||
      FindClaim(claims, "lr-jump")) {
    return;
  }
  Claim claim;
  claim.id = "loss-above-start";
  claim.sentence = "The loss rose to " + runs::Number(rise->greatest) + " at step " +
                   std::to_string(rise->step) + ", above everything before it (" +
                   runs::Number(rise->largest_before) + "), from " + runs::Number(rise->median);
  if (rise->norm && rise->norm_median && *rise->norm_median > 0 &&
      *rise->norm > kNormRose * *rise->norm_median) {
    claim.sentence += ", the gradient norm from " + runs::Number(rise->norm_median) + " to " +
                      runs::Number(rise->norm);
  }
  claim.sentence += ", and was back at step " + std::to_string(*rise->over) +
                    ": a rate that is too high for so early, or a batch out of the ordinary.";
  claim.strength = 0.5;
  claim.passing = true;
  claim.note = true;
  claim.place = FaultPlace{rise->step, "", "", "", "", "a loss above everything before it"};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
