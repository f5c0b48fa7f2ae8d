// What one tensor would lose in each format, and how the tensors of a file rank.
//
// Plain values and free functions; safe from any thread.
#ifndef MPNANNY_TOOLS_ANALYZE_TENSOR_ANALYSIS_H_
#define MPNANNY_TOOLS_ANALYZE_TENSOR_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/tensors/tensor_file.h"
#include "numerics/format_loss.h"
#include "numerics/tensor_stats.h"

namespace mpnanny::analyze_tensor {

// From which figures on something is worth a person's time. 1 % of the elements that become 0 is
// where trainings were seen to suffer, 10 % where they stall; 1e4 is the range of the 11 bits of
// FP16's mantissa and its subnormals together (2^13), so that smaller slices vanish in a sum.
struct Limits {
  double underflow_warn = 0.01;
  double underflow_error = 0.10;
  double imbalance = 1e4;
};

struct InFormat {
  Format format = Format::kFp16;
  FormatLoss plain;
  int best_scale = 0;  // exponent of the power of two; 0 where nothing is lost without one
  FormatLoss scaled;   // with it
};

struct Analysis {
  TensorStats stats;
  std::vector<InFormat> formats;
  Format reduced_in = Format::kBf16;
  std::vector<DimensionLoss> dims;
};

inline constexpr Format kJudged[] = {Format::kFp16, Format::kBf16, Format::kTf32, Format::kE4M3,
                                     Format::kE5M2};

// Everything about one tensor. `target`: the one format that is asked for; nullopt: all.
Result<Analysis> AnalyzeOne(const TensorView& view, std::optional<Format> target,
                            const CancelToken& cancel);

// One tensor among others: one reading of its memory.
struct Ranked {
  size_t entry = 0;     // among the file's
  std::string problem;  // why it was not read; the rest is then meaningless
  int64_t numel = 0, nonfinite = 0;
  double overflow = 0, underflow = 0, subnormal = 0;  // shares of all elements
  double absmax = 0, absmin = 0;
  Grid grid = Grid::kUnknown;
};

// The tensors of a file, the worst in `target` first: not finite, then overflow, underflow,
// subnormal. Shares are those of whole powers of two, exact but for elements within half an ulp of
// a limit.
Result<std::vector<Ranked>> RankAll(const tensor_files::TensorFile& file, Format target,
                                    const CancelToken& cancel);

}  // namespace mpnanny::analyze_tensor

#endif  // MPNANNY_TOOLS_ANALYZE_TENSOR_ANALYSIS_H_
