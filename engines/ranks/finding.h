// What is wrong between the ranks of one training, as values: sentences are made where it is shown.
#ifndef MPNANNY_ENGINES_RANKS_FINDING_H_
#define MPNANNY_ENGINES_RANKS_FINDING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpnanny::ranks {

enum class Fault {
  kNanOfRank,         // one rank made a value that is not finite, and the others got it
  kReducedTwice,      // a sum over ranks of gradients that were the same on all of them
  kNotReduced,        // each rank's optimizer got the gradient that the rank had derived itself
  kNotTheMean,        // a tensor's reduced gradient is another multiple of the sum than the others'
  kFactorsDiffer,     // ranks scaled their gradients by different factors
  kNormWrong,         // the norm that gradients were clipped by is not that of all ranks' gradients
  kGradientsDiffer,   // the gradients of a replicated tensor are not the same
  kParameterDiffers,  // a parameter that all ranks update alike had other values from the start
  kParameterParts,    // it was the same and is not any more, though its gradients were
  kBufferDiffers,     // a buffer that nobody writes to
  kSummedInPlace,     // a buffer that holds a sum over ranks is summed over them again
  // Differs from the start and is not reduced: a local expert is like that, and so is a parameter
  // that was forgotten. No fault by itself.
  kLocalParameter,
};

struct Finding {
  Fault fault = Fault::kParameterDiffers;
  int64_t step = 0;                  // the first at which it is seen
  std::optional<int64_t> last_good;  // the compared step before that; absent: none
  std::vector<std::string> tensors;  // in the model's names, raw; empty: of all
  std::vector<int64_t> ranks;        // that are at fault or differ from most; empty: all alike
  std::vector<int64_t> of;           // that were compared, ascending
  std::string operation, source;     // of a collective that carries or makes it; raw
  // kReducedTwice: times; kNotTheMean: multiple of the others' (0: no multiple); kFactorsDiffer:
  // smallest and largest; kNormWrong: the program's norm and the true one; kBufferDiffers: l2 of
  // the first rank that differs and of the others; kSummedInPlace: growth of a call.
  double value = 0, other = 0;
  bool gradients_were_same = false;  // kParameterParts: in the step whose update parted them
  bool of_own_shards = false;        // kNormWrong: each rank's norm is that of what it holds itself
};

}  // namespace mpnanny::ranks

#endif  // MPNANNY_ENGINES_RANKS_FINDING_H_
