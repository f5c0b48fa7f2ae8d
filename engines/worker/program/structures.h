// Steps that torch's interpreter knows as instructions and has no operator for: lists, tuples,
// dictionaries, objects. Each gives a function of a stack, as Node::run.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_STRUCTURES_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_STRUCTURES_H_

#include <ATen/core/jit_type.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

using Structure = std::function<void(Stack&)>;

Structure MakeList(const c10::TypePtr& element, size_t count);
Structure MakeTuple(const c10::TypePtr& type, size_t count);  // a named one where `type` has names
Structure MakeDict(const c10::TypePtr& key, const c10::TypePtr& value, size_t count);
Structure MakeObject(const c10::ClassTypePtr& type);
Structure UnpackTuple();
Structure SliceTuple(size_t begin, size_t end);
Structure UnpackList(size_t count);
Structure GetAttribute(std::string name);
Structure SetAttribute(std::string name);
Structure IsInstance(std::vector<c10::TypePtr> types);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_STRUCTURES_H_
