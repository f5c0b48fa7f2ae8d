// What each layer makes of its values in a shadow step: the error of what leaves it, and what other
// formats would make of that.
//
// A value leaves a layer where an operator of another one takes it. So it is the layer's output
// that counts, and in the backward pass the gradient that goes on to the layers before it: not the
// gradients of weights, and not the last operator's statistics. Of a layer that runs several times
// the worst is kept.
//
// Belongs to a step; borrows its calls.
#ifndef MPNANNY_ENGINES_JUDGEMENT_LAYER_PROFILES_H_
#define MPNANNY_ENGINES_JUDGEMENT_LAYER_PROFILES_H_

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engines/judgement/calls.h"

namespace mpnanny::judgement {

// Errors are relative, in the L2 norm, against the reference.
struct LayerProfile {
  std::string module;
  bool backward = false;
  int operators = 0;
  Element type = Element::kFloat32;
  double error = 0;
  double error_in = 0;
  double absmax = 0;  // of all results
  double rms = 0;
  int values = 0;    // that have left it
  int measured = 0;  // of these, whose formats were
  // Errors of FP16, BF16, E4M3, E5M2, shares of FP16's overflow and underflow: the worst.
  std::array<std::optional<double>, 6> formats;

  std::optional<double> Amplification() const;
};

class LayerProfiles {
 public:
  explicit LayerProfiles(const Calls& calls) : calls_(calls) {}

  // A call is about to run: what it takes from other layers leaves these. The inputs whose formats
  // are to be measured, each with the layer that it has left.
  std::vector<std::pair<int, int>> Enters(int call);
  // An operator at `place`, which may not be followed itself, takes a value of `memory`. The layer
  // whose formats are to be measured by it; kNone.
  int Takes(int place, const Memory& memory, Element type, int64_t offset);
  // A call's result was compared.
  void Makes(int call, Element type, const ReferenceError& found);
  void Take(const Formats& row);

  // Those of which something is known.
  std::vector<LayerProfile> Layers() const;

 private:
  int LayerOf(int place);  // its number, kNone of what belongs to none

  const Calls& calls_;
  std::vector<LayerProfile> layers_;
  std::map<std::pair<std::string, bool>, int> numbers_;
  std::vector<int> of_place_;  // number + 1, 0 where it was not asked for yet, -1 of none
  std::set<std::pair<int, int64_t>> left_;  // values: call and offset
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_LAYER_PROFILES_H_
