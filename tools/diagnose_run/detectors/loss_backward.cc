#include <algorithm>
#include <charconv>
#include <limits>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// exp(-17) is the last that FP16 holds, exp(-103) the last of FP32.
constexpr double kGapHalf = 17, kGapWide = 103;

// "8 of 8 gradients are not finite": from the loss on there is no clean one.
bool AllAreBad(const std::string& message) {
  constexpr std::string_view kEnd = " gradients are not finite";
  const size_t end = message.find(kEnd);
  if (end == std::string::npos) return false;
  const size_t begin = message.rfind(". ", end);
  const std::string_view counts =
      std::string_view(message).substr(begin == std::string::npos ? 0 : begin + 2,
                                       end - (begin == std::string::npos ? 0 : begin + 2));
  const size_t of = counts.find(" of ");
  return of != std::string_view::npos && counts.substr(0, of) == counts.substr(of + 4);
}

}  // namespace

// A finite loss whose derivative is not: -Inf that was multiplied by 0 or not chosen, but whose
// gradient is 0 times Inf. Only where no operator was traced.
void DetectLossBackward(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != "backward" || !facts.births.empty()) return;
  if (!facts.onset->is_nan || !AllAreBad(facts.onset->message)) return;
  const Series* output = LastOutput(facts);
  if (!output) return;
  const double reach = output->last().absmax.value_or(0);
  const double gap = UsesHalf(facts) ? kGapHalf : kGapWide;
  if (2 * reach < gap) return;
  Claim claim;
  claim.id = "log-of-zero";
  claim.sentence =
      "Every gradient is NaN, that of the last layer too, while the loss is finite: "
      "the derivative of the loss itself is NaN. The output of " +
      runs::Name(output->layer) + " reached " + runs::Number(reach) +
      " before, far enough apart for probabilities that underflow to 0; the "
      "derivative of their logarithm is 1 / 0.";
  claim.strength = 0.7;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
