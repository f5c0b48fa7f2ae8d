// What came of trying a place of the code: of a finding or a candidate, with `check --prove`.
//
// Plain values.
#ifndef MPNANNY_ENGINES_CHECK_PROOF_H_
#define MPNANNY_ENGINES_CHECK_PROOF_H_

#include <cstddef>
#include <optional>
#include <string>

namespace mpnanny::check {

enum class ProofVerdict { kProven, kNotAtTheseInputs, kNotTried };

// Texts are raw: parts of them are the user's. `why` is at most kMostWhyBytes once it is escaped.
struct Proof {
  ProofVerdict verdict = ProofVerdict::kNotTried;
  std::string why;  // the numbers, or the reason
  // Of what is proven: what FP64 and FP32 say of the line's result in 16 bits, as relative errors.
  std::optional<double> error, error_in_fp32;
  std::string raises;  // what the code raises there in 16 bits and not in FP32
  std::string dtype;   // that was tried
  std::string entry;   // the program whose own call was compared; empty for made inputs
  std::string inputs;  // "x=float32[8,16], config=GPTConfig", or as auto_diff takes them
};

inline constexpr size_t kMostWhyBytes = 320;
inline constexpr size_t kMostInputsBytes = 160;

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_PROOF_H_
