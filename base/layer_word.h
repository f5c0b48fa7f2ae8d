// The names of modules and tensors within sentences: the monitor's and the tools'.
//
// Free function without state.
#ifndef MPNANNY_BASE_LAYER_WORD_H_
#define MPNANNY_BASE_LAYER_WORD_H_

#include <string>
#include <string_view>

namespace mpnanny {

// A module's or a tensor's name within a sentence. A number is not seen to be a name (nn.Sequential
// calls its parts 0, 1, …): `layer "0"`, and of a name that begins with one, `"0.weight"`.
std::string LayerWord(std::string_view name);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_LAYER_WORD_H_
