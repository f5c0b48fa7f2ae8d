// Says which shape a mismatch has and how bad it is.
//
// Shapes are contrasts that are measured: tokens that should not be concerned agree, and others do
// not; or a change of one side that is tried makes the difference go away. Only where neither is
// found the size alone speaks. Free functions without state.
#ifndef MPNANNY_ENGINES_MISMATCH_JUDGE_H_
#define MPNANNY_ENGINES_MISMATCH_JUDGE_H_

#include <span>

#include "engines/mismatch/finding.h"

namespace mpnanny::mismatch {

// An error of a logit that 16 bits must be allowed. Published: rms of 0.031 nats between two
// engines in BF16 with FP32 heads, 0.041 with one BF16 head, 0.0022 in FP32 (Fast-LLM, pull request
// 525); mean |d| 0.011 between Megatron and SGLang or vLLM in BF16 (vime, issue 64). Logits of up
// to 32 have a spacing of 0.125 in BF16.
inline constexpr double kLogitError16 = 0.08;
// Below that another order of FP32 sums explains a difference.
inline constexpr double kRms32 = 2e-4;
// Of one program that only sums in another order; FP16 anywhere gives more.
inline constexpr double kRmsSame = 2e-5;
// How many times as large the loud side has to be.
inline constexpr double kContrast = 5;
inline constexpr double kContrastInTime = 6;

// Of the calls in which the head was tried the one with the largest difference; null: in none.
const Call* TriedHead(std::span<const Call> calls);

// `calls` in their order.
Judgement Judge(std::span<const Call> calls);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_JUDGE_H_
