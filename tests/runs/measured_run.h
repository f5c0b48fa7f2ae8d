// A recorded run with shadow steps, and what the tests of diagnose_run ask of it.
#ifndef MPNANNY_TESTS_RUNS_MEASURED_RUN_H_
#define MPNANNY_TESTS_RUNS_MEASURED_RUN_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {

// 60 steps whose loss falls from 2, shadow steps at 0, 4 and 20.
inline void Steps(Recording& db, int64_t nan_from = 60) {
  for (int64_t step = 0; step < 60; ++step) {
    db.Step(step, {.loss = step < nan_from ? 2.0 - 0.01 * static_cast<double>(step) : kNan,
                   .grad_norm = 1.0,
                   .flags = step < nan_from ? 0u : 1u});
  }
  for (const int64_t step : {0, 4, 20}) AddShadowStep(db, step);
}

inline ToolOutput Ask(const TempFolder& folder, Json arguments = {}) {
  arguments["run"] = "m.db";
  auto output = Call("diagnose_run", arguments, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? *output : ToolOutput{};
}

inline FindingSpec Overflow() {
  return {.kind = "range",
          .severity = "ERROR",
          .op = "aten.mul.Tensor",
          .source = "model.py:12",
          .dtype = "float16",
          .share = 0.03,
          .magnitude = 2.1e5,
          .error_in = {},
          .error_out = {},
          .cure = R"({"lines":["model.py:12"],"operators":["aten.mul.Tensor"],"what":"float32",)"
                  R"("error_before":null,"error_after":0.0001})"};
}

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_MEASURED_RUN_H_
