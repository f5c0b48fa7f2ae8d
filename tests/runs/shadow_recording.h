// Shadow steps and what they found, written into a Recording as the monitor writes them.
#ifndef MPNANNY_TESTS_RUNS_SHADOW_RECORDING_H_
#define MPNANNY_TESTS_RUNS_SHADOW_RECORDING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tests/runs/recording.h"

namespace mpnanny::test {

struct FindingSpec {
  std::string kind = "amplified", severity = "WARNING", phase = "forward";
  std::optional<int64_t> layer = {};
  std::string op = "aten.sub.Tensor", source = "train.py:40", dtype = "bfloat16", shape = "[4, 8]";
  Real share = {}, magnitude = {}, error_in = 0.004, error_out = 3.1;
  std::string precision = "proven";
  std::string reach = R"([{"what":"loss","name":null,"error":null}])";  // "": NULL
  std::string cure =
      R"({"lines":["train.py:40","train.py:41","train.py:42"],"operators":["aten.sub.Tensor"],)"
      R"("what":"float32","error_before":3.1,"error_after":0.0001})";
  std::optional<int64_t> last_step = {};
  int64_t repeats = 1;
  std::string detail = "";  // "": NULL
};

void AddShadowStep(Recording& db, int64_t step, Real seconds = 0.06, Real plain_seconds = 0.01);
// Returns the finding's id.
int64_t AddFinding(Recording& db, int64_t step, const FindingSpec& spec);
// The alert that the monitor raises for a finding: of the type of its kind.
void AddShadowAlert(Recording& db, int64_t step, const FindingSpec& spec, int64_t finding_id);
// Of one layer; `phase` 1 is the backward pass.
void AddProfile(Recording& db, int64_t step, int64_t layer, int64_t phase, Real error, Real fp16);

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_SHADOW_RECORDING_H_
