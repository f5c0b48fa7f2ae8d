// Calls of models (model(x), self.net(x), unet(x, t)), and which code of a model only builds it.
//
// Models are told by the variable's name, since the text seldom says more. Free functions without
// state.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_MODEL_CALLS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_MODEL_CALLS_H_

#include <string>
#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

struct ModelCall {
  NodeId node = kNoNode;
  std::string key;  // the variable: "model", "self.net"
};

// In order of the text, with arguments, outside of a model's own class. Functions of the file,
// imported names and classes are none.
std::vector<ModelCall> FindModelCalls(const FileFacts& facts);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_MODEL_CALLS_H_
