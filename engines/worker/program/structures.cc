#include "engines/worker/program/structures.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/class_type.h>

#include <algorithm>
#include <utility>

namespace mpnanny::worker {
namespace {

std::vector<IValue> Take(Stack& stack, size_t count) {
  std::vector<IValue> taken(std::make_move_iterator(stack.end() - static_cast<ptrdiff_t>(count)),
                            std::make_move_iterator(stack.end()));
  stack.resize(stack.size() - count);
  return taken;
}

IValue Pop(Stack& stack) {
  IValue value = std::move(stack.back());
  stack.pop_back();
  return value;
}

}  // namespace

Structure MakeList(const c10::TypePtr& element, size_t count) {
  return [=](Stack& stack) {
    c10::List<IValue> list(element);
    list.reserve(count);
    for (IValue& each : Take(stack, count)) list.push_back(std::move(each));
    // As typed lists, which is what operators ask for.
    switch (element->kind()) {
      case c10::TypeKind::TensorType:
        stack.emplace_back(c10::impl::toTypedList<at::Tensor>(std::move(list)));
        break;
      case c10::TypeKind::IntType:
        stack.emplace_back(c10::impl::toTypedList<int64_t>(std::move(list)));
        break;
      case c10::TypeKind::FloatType:
        stack.emplace_back(c10::impl::toTypedList<double>(std::move(list)));
        break;
      case c10::TypeKind::BoolType:
        stack.emplace_back(c10::impl::toTypedList<bool>(std::move(list)));
        break;
      default:
        stack.emplace_back(std::move(list));
    }
  };
}

Structure MakeTuple(const c10::TypePtr& type, size_t count) {
  const auto named = type ? type->cast<c10::TupleType>() : nullptr;
  return [=](Stack& stack) {
    std::vector<IValue> items = Take(stack, count);
    stack.emplace_back(named && named->schema()
                           ? c10::ivalue::Tuple::createNamed(std::move(items), named)
                           : c10::ivalue::Tuple::create(std::move(items)));
  };
}

Structure MakeDict(const c10::TypePtr& key, const c10::TypePtr& value, size_t count) {
  return [=](Stack& stack) {
    c10::impl::GenericDict dict(key, value);
    std::vector<IValue> items = Take(stack, 2 * count);
    for (size_t at = 0; at < items.size(); at += 2) {
      dict.insert_or_assign(std::move(items[at]), std::move(items[at + 1]));
    }
    stack.emplace_back(std::move(dict));
  };
}

Structure MakeObject(const c10::ClassTypePtr& type) {
  return [=](Stack& stack) {
    stack.emplace_back(c10::ivalue::Object::create(
        c10::StrongTypePtr(type->compilation_unit(), type), type->numAttributes()));
  };
}

Structure UnpackTuple() {
  return [](Stack& stack) {
    const IValue tuple = Pop(stack);
    for (const IValue& each : tuple.toTupleRef().elements()) stack.push_back(each);
  };
}

Structure SliceTuple(size_t begin, size_t end) {
  return [=](Stack& stack) {
    const IValue tuple = Pop(stack);
    const auto& all = tuple.toTupleRef().elements();
    std::vector<IValue> items;
    for (size_t at = begin; at < std::min(end, all.size()); ++at) items.push_back(all[at]);
    stack.emplace_back(c10::ivalue::Tuple::create(std::move(items)));
  };
}

Structure UnpackList(size_t count) {
  return [=](Stack& stack) {
    const IValue list = Pop(stack);
    const c10::List<IValue> items = list.toList();
    if (items.size() != count) {
      throw ModelProblem("A list of " + std::to_string(items.size()) + " values stands where " +
                             std::to_string(count) + " are wanted.",
                         "");
    }
    for (size_t at = 0; at < count; ++at) stack.push_back(items.get(at));
  };
}

Structure GetAttribute(std::string name) {
  return [name = std::move(name)](Stack& stack) {
    const IValue object = Pop(stack);
    stack.push_back(object.toObjectRef().getAttr(name));
  };
}

Structure SetAttribute(std::string name) {
  return [name = std::move(name)](Stack& stack) {
    IValue value = Pop(stack);
    const IValue object = Pop(stack);
    object.toObjectRef().setAttr(name, std::move(value));
  };
}

Structure IsInstance(std::vector<c10::TypePtr> types) {
  return [types = std::move(types)](Stack& stack) {
    const IValue value = Pop(stack);
    const c10::TypePtr own = value.type();
    stack.emplace_back(std::any_of(types.begin(), types.end(), [&](const c10::TypePtr& each) {
      return own->isSubtypeOf(*each);
    }));
  };
}

}  // namespace mpnanny::worker
