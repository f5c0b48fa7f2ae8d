// A detector turns facts into one claim about the mechanism, said with numbers, or stays silent.
//
// One file a detector. A claim does not name cases: it names what kind of case it speaks for and
// against (by the words of knowledge/README.md), so that a new case needs no change here. Pure
// functions.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_DETECTORS_DETECTOR_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_DETECTORS_DETECTOR_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/diagnose_run/facts.h"

namespace mpnanny::diagnose_run {

struct Claim {
  std::string id;        // the detector's name
  std::string sentence;  // evidence for people, with numbers
  double strength = 0;   // 0…1: how much of the doubt it removes
  // "category:nan-inf", "component:data", "precision:fp32"; with "!" in front: every case that does
  // not have it.
  std::vector<std::string> favours, opposes;
};

using Detector = std::optional<Claim> (*)(const Facts&);

std::optional<Claim> DetectForwardOverflow(const Facts& facts);  // past the format's largest value
std::optional<Claim> DetectBirthPlace(const Facts& facts);  // data, loss or optimizer, not a layer
std::optional<Claim> DetectGradientOverflow(
    const Facts& facts);                                   // backward, with a healthy forward
std::optional<Claim> DetectLossScale(const Facts& facts);  // start-up, decline, collapse, stuck
std::optional<Claim> DetectSkippedSteps(const Facts& facts);
std::optional<Claim> DetectVanishing(const Facts& facts);   // gradients or updates that are lost
std::optional<Claim> DetectDivergence(const Facts& facts);  // not precision
std::optional<Claim> DetectWideRange(
    const Facts& facts);  // the format at the birth place is no 16-bit float of FP16's range

// All claims that hold, in the order above.
std::vector<Claim> RunDetectors(const Facts& facts);

// True if the first bad value lies in the forward pass, in a format with FP16's or FP8's small
// range.
bool InNarrowRange(const Facts& facts);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_DETECTORS_DETECTOR_H_
