// What a recorded run measured that a choice of formats needs: the range of every layer over the
// run, what formats would make of its values in shadow steps, and the lines that FP32 cured there.
//
// Plain values; a free function. Memory is bounded by the number of layers.
#ifndef MPNANNY_TOOLS_CHOOSE_PRECISION_RECORDED_H_
#define MPNANNY_TOOLS_CHOOSE_PRECISION_RECORDED_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/runs/shadow.h"

namespace mpnanny::choose_precision {

// One layer. Magnitudes over the samples that were read; errors are the worst of the shadow steps,
// relative in the L2 norm.
struct LayerRecord {
  std::string name;              // raw; "" is the model itself
  std::optional<double> absmax;  // of finite inputs and outputs
  std::optional<int64_t> absmax_step;
  std::optional<double> gradient_absmax;         // of finite gradients, unscaled
  bool not_finite = false;                       // forward, in a sample
  std::optional<double> fp16, bf16, e4m3, e5m2;  // what rounding its result would cost
  std::optional<double> fp16_flushed;  // share of its gradient that FP16 rounds to 0, unscaled
};

struct Recorded {
  std::string computes_in;   // "float16", "bfloat16" or "float32": most outputs; "" without samples
  bool low_weights = false;  // weights are held in 16 bits
  int64_t steps = 0, samples = 0, shadow_steps = 0;
  std::optional<double> last_loss;
  bool loss_not_finite = false;  // at the end
  std::vector<LayerRecord> layers;
  double gradient_absmax = 0;  // 0: none was seen
  // Gradients that are not zero, by the exponent field of FP32.
  std::array<int64_t, 256> gradient_exponents{};
  std::optional<double> frozen;  // share of updates below half an ulp of their 16-bit weights
  struct Lost {
    runs::ShadowFinding finding;  // complete
    std::string module;           // raw
  };
  std::vector<Lost> lost;  // WARNING and ERROR that precision is proven to cause, worst first
  int64_t not_proven = 0;  // ERRORs whose cause was not established
  std::vector<std::string> notes;
};

// At most this many samples and shadow steps are read, spread over the run.
inline constexpr size_t kSamplesRead = 256;

Result<Recorded> ReadRecorded(const runs::Source& source);

}  // namespace mpnanny::choose_precision

#endif  // MPNANNY_TOOLS_CHOOSE_PRECISION_RECORDED_H_
