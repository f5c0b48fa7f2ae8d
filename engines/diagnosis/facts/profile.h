// How the figures of every watched tensor went over some sampled steps: what detectors look at that
// judge more than the first bad layer.
//
// Plain values, bounded: at most kProfileSamples samples and kProfileRows rows are read, whatever
// the run's length.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_PROFILE_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/runs/samples.h"

namespace mpnanny::diagnosis {

inline constexpr size_t kProfileSamples = 28;
inline constexpr size_t kProfileRows = 200'000;

struct Measured {
  int64_t step = 0;
  double numel = 0, zeros = 0, nonfinite = 0;
  double below_fp16 = 0, subnormal_fp16 = 0;
  std::optional<double> absmax, rms, frozen;
};

// One tensor of one layer, over the samples in which it was seen.
struct Series {
  int64_t layer_id = 0, kind = 0, slot = 0;
  std::string layer, type, source;  // raw
  std::string dtype;                // of the last sample, "float16"; "" if not known
  int64_t position = 0;             // in the order of the forward pass
  std::vector<Measured> points;     // ascending

  const Measured& last() const { return points.back(); }
  const Measured& first() const { return points.front(); }
  // Of that sample; nullptr if it was not seen there.
  const Measured* At(int64_t step) const;
  // "attn1" of "attn1.weight"; "" of a name without a dot.
  std::string Module() const;
};

struct Profile {
  std::vector<int64_t> steps;         // samples that were read, ascending
  std::vector<Series> series;         // by position, then layer, kind and slot
  std::optional<int64_t> last_clean;  // newest of them that is finite everywhere
};

// The samples that tell most: the last ones of steps [.., last], and some in even spacing before.
Result<std::vector<int64_t>> ChooseSamples(const runs::Source& source, int64_t first, int64_t last);

// Reads them once.
Result<Profile> ReadProfile(const runs::Source& source, const std::vector<int64_t>& steps,
                            runs::Layers& layers);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_PROFILE_H_
