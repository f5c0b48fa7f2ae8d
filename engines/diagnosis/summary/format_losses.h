// What each narrow format would make of the layers' results, as the newest shadow step measured it:
// per format the layer that would lose most.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_FORMAT_LOSSES_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_FORMAT_LOSSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::summary {

struct FormatLosses {
  struct Worst {
    std::string what;   // fp16 | bf16 | e4m3 | e5m2 | fp16_overflow | fp16_underflow
    double figure = 0;  // a relative error; of the last two a share of the elements
    std::string layer;  // raw name
    int64_t phase = 0;  // 0 forward, 1 backward
  };
  int64_t step = 0;
  int64_t layers = 0;        // that were measured
  std::vector<Worst> worst;  // in the order of `what` above; shares only above 0
};

// Of the newest of `steps` (ascending) that has such figures; nullopt: none has.
Result<std::optional<FormatLosses>> ReadFormatLosses(const runs::Source& source,
                                                     const std::vector<int64_t>& steps);

// A sentence or two, such as "What formats would lose (…): FP16 0.03 % (head), … FP16 would round
// 12 % of head's gradient to 0."; "" for nullopt.
std::string FormatLossText(const std::optional<FormatLosses>& losses);
Json FormatLossJson(const std::optional<FormatLosses>& losses);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_FORMAT_LOSSES_H_
