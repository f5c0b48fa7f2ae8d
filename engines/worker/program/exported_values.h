// Arguments in a .pt2's description as values and slots.
//
// Free functions without state, and the names of one graph.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_VALUES_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_VALUES_H_

#include <ATen/core/jit_type.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// {"as_int": 3}: the key and what stands there. Throws ModelProblem where it is none.
std::pair<std::string, const Json*> UnionOf(const Json& json);

// The value that is written out, for a parameter of `type`; nullopt where names of slots are in it.
std::optional<IValue> ConstantOf(const Json& argument, const c10::TypePtr& type);

// The name of {"as_tensor": {"name": …}}, {"as_sym_int": {"as_name": …}} and the like; "" of none.
std::string NameOf(const Json& argument);

// The same of an item of a list: {"name": …}, {"as_name": …}, or an argument.
std::string NameOfItem(const Json& item);

using SlotNames = std::map<std::string, int>;

// The text at `key`; throws ModelProblem where there is none.
const std::string& TextAt(const Json& json, const char* key);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_VALUES_H_
