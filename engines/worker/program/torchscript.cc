#include "engines/worker/program/torchscript.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <memory>
#include <unordered_map>
#include <utility>

#include "engines/worker/program/allowed.h"
#include "engines/worker/program/source_lines.h"
#include "engines/worker/program/structures.h"

namespace mpnanny::worker {
namespace {

namespace jit = torch::jit;
namespace prim = torch::jit::prim;
using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;

constexpr int kMostCalls = 200;  // inside one another

// What a value of a graph is: a slot, or a module whose attributes are known by their path.
struct Binding {
  int slot = -1;
  ObjectPtr object;
  std::string path;
};
using Names = std::unordered_map<const jit::Value*, Binding>;

// A call on the way to a node.
struct Frame {
  std::string module;
  std::vector<jit::SourceRange> calls;  // the innermost last
};

// Tracing keeps Python's numbers as tensors without dimensions, and an archive forgets that they do
// not take part in type promotion.
IValue AsTraced(IValue constant) {
  if (!constant.isTensor() || !constant.toTensor().defined() || constant.toTensor().dim() != 0) {
    return constant;
  }
  const c10::ScalarType type = constant.toTensor().scalar_type();
  if (type != c10::ScalarType::Double && type != c10::ScalarType::Long) return constant;
  at::Tensor number = constant.toTensor().detach();
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

class Converter {
 public:
  explicit Converter(const jit::Module& module) : root_(module._ivalue()) {
    program_.format = "TorchScript";
  }

  Program Convert(const jit::Method& method) {
    const std::vector<c10::Argument>& formal = method.function().getSchema().arguments();
    std::vector<Binding> given = {{.slot = -1, .object = root_, .path = ""}};
    for (size_t at = 1; at < formal.size(); ++at) {
      Argument& argument = program_.arguments.emplace_back();
      argument.name = formal[at].name();
      argument.slot = NewSlot();
      if (formal[at].default_value()) argument.otherwise = *formal[at].default_value();
      given.push_back({.slot = argument.slot, .object = nullptr, .path = ""});
    }
    for (const Binding& each : Inline(*method.graph(), given, Frame{}, program_.body)) {
      program_.outputs.push_back(SlotOf(each));
    }
    program_.owner = std::make_shared<ObjectPtr>(root_);
    FillLines(program_);
    MarkLastUses(program_);
    return std::move(program_);
  }

 private:
  int NewSlot() { return program_.slots++; }

  int Constant(IValue value) {
    const int slot = NewSlot();
    program_.constants.emplace_back(slot, std::move(value));
    return slot;
  }

  int SlotOf(const Binding& binding) {
    return binding.slot >= 0 ? binding.slot : Constant(IValue(binding.object));
  }

  int SlotOf(const jit::Value* value, const Names& names) {
    const auto it = names.find(value);
    if (it == names.end()) throw ModelProblem("A value is read before it is made.", "");
    return SlotOf(it->second);
  }

  std::vector<Binding> Inline(const jit::Graph& graph, const std::vector<Binding>& given,
                              const Frame& frame, Block& out) {
    if (frame.calls.size() > kMostCalls) throw ModelProblem("The model calls itself.", "");
    if (graph.inputs().size() != given.size()) {
      throw ModelProblem("A call has another number of arguments than it takes.", "");
    }
    Names names;
    for (size_t at = 0; at < given.size(); ++at) names[graph.inputs()[at]] = given[at];
    AddNodes(graph.block(), names, frame, out);
    std::vector<Binding> results;
    for (const jit::Value* each : graph.outputs()) results.push_back(names.at(each));
    return results;
  }

  void AddNodes(const jit::Block* block, Names& names, const Frame& frame, Block& out) {
    for (const jit::Node* node : block->nodes()) AddNode(node, names, frame, out);
  }

  Site SiteOf(const jit::Node* node, const Frame& frame) {
    Site site;
    const c10::OperatorName name = node->maybeSchema()
                                       ? node->schema().operator_name()
                                       : c10::OperatorName(node->kind().toQualString(), "");
    site.op = ShownOperator(name.name, name.overload_name);
    site.module = frame.module;
    site.source = UsersLine(*node, frame.calls);
    site.has_users_line = IsUsersFile(site.source);
    return site;
  }

  // A node with its outputs bound to new slots.
  Node& Emit(const jit::Node* node, Names& names, const Frame& frame, Block& out, Node::Kind kind) {
    Node made;
    made.kind = kind;
    made.site = SiteOf(node, frame);
    for (const jit::Value* each : node->inputs()) made.inputs.push_back(SlotOf(each, names));
    for (const jit::Value* each : node->outputs()) {
      made.outputs.push_back(NewSlot());
      names[each] = {.slot = made.outputs.back(), .object = nullptr, .path = ""};
    }
    return out.nodes.emplace_back(std::move(made));
  }

  void Emit(const jit::Node* node, Names& names, const Frame& frame, Block& out, Structure run) {
    Emit(node, names, frame, out, Node::Kind::kStructure).run = std::move(run);
  }

  void AddNode(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    switch (node->kind()) {
      case prim::Constant:
        return AddConstant(node, names);
      case prim::GetAttr:
        return AddGetAttribute(node, names, frame, out);
      case prim::SetAttr:
        return AddSetAttribute(node, names, frame, out);
      case prim::CallMethod:
        return AddMethodCall(node, node->s(torch::jit::attr::name), node->inputs(), names, frame,
                             out);
      case prim::CallFunction:
        return AddFunctionCall(node, names, frame, out);
      case prim::If:
      case prim::Loop:
        return AddBranches(node, names, frame, out);
      case prim::Enter:
        return AddRegion(node, "__enter__", names, frame, out);
      case prim::Exit:
        return AddRegion(node, "__exit__", names, frame, out);
      case prim::fork:
        return AddFork(node, names, frame, out);
      case torch::jit::aten::wait:
      case prim::unchecked_cast:
        names[node->output()] = names.at(node->input(0));
        return;
      case prim::Uninitialized:
        names[node->output()] = {.slot = Constant(IValue()), .object = nullptr, .path = ""};
        return;
      case prim::ListConstruct:
        return Emit(node, names, frame, out,
                    MakeList(node->output()->type()->expectRef<c10::ListType>().getElementType(),
                             node->inputs().size()));
      case prim::TupleConstruct:
        return Emit(node, names, frame, out,
                    MakeTuple(node->output()->type(), node->inputs().size()));
      case prim::DictConstruct: {
        const auto& type = node->output()->type()->expectRef<c10::DictType>();
        return Emit(node, names, frame, out,
                    MakeDict(type.getKeyType(), type.getValueType(), node->inputs().size() / 2));
      }
      case prim::TupleUnpack:
        return Emit(node, names, frame, out, UnpackTuple());
      case prim::TupleSlice:
        return Emit(node, names, frame, out,
                    SliceTuple(static_cast<size_t>(node->i(torch::jit::attr::beg)),
                               static_cast<size_t>(node->i(torch::jit::attr::end))));
      case prim::ListUnpack:
        return Emit(node, names, frame, out, UnpackList(node->outputs().size()));
      case prim::isinstance:
        return Emit(node, names, frame, out, IsInstance(node->tys(torch::jit::attr::types)));
      case prim::CreateObject:
        return Emit(node, names, frame, out,
                    MakeObject(node->output()->type()->expect<c10::ClassType>()));
      default:
        return AddOperator(node, names, frame, out);
    }
  }

  void AddOperator(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    const Site site = SiteOf(node, frame);
    CheckAllowed(node->kind().toQualString(), site);
    if (node->maybeOperator() == nullptr) {
      throw ModelProblem(ShownSite(site) + " is not followed by mpnanny-worker.",
                         "Compare the model in Python: model.py:build.");
    }
    Node& made = Emit(node, names, frame, out, Node::Kind::kOperator);
    jit::Operation operation = node->getOperation();
    const c10::FunctionSchema& schema = node->schema();
    made.schema = &schema;
    const auto dispatched = c10::Dispatcher::singleton().findSchema(schema.operator_name());
    made.may_draw = dispatched && dispatched->hasTag(at::Tag::nondeterministic_seeded);
    if (schema.is_vararg()) {
      const auto count = static_cast<int64_t>(node->inputs().size());
      made.run = [operation, count](Stack& stack) mutable {
        stack.emplace_back(count);
        operation(stack);
      };
    } else {
      made.run = [operation](Stack& stack) mutable { operation(stack); };
    }
  }

  void AddConstant(const jit::Node* node, Names& names) {
    const jit::Value* output = node->output();
    if (output->type()->kind() == c10::TypeKind::FunctionType) return;  // its type says it all
    names[output] = {.slot = Constant(AsTraced(jit::toIValue(output).value_or(IValue()))),
                     .object = nullptr,
                     .path = ""};
  }

  void AddGetAttribute(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    const Binding owner = names.at(node->input());
    const std::string& name = node->s(torch::jit::attr::name);
    if (owner.slot >= 0) return Emit(node, names, frame, out, GetAttribute(name));
    const std::string path = owner.path.empty() ? name : owner.path + "." + name;
    const IValue value = owner.object->getAttr(name);
    if (value.isObject() && !value.isCustomClass()) {
      names[node->output()] = {.slot = -1, .object = value.toObject(), .path = path};
      return;
    }
    Node copy;  // what is read now stays what it is when the attribute gets another value
    copy.kind = Node::Kind::kCopy;
    copy.inputs = {StateSlot(path, value)};
    copy.outputs = {NewSlot()};
    names[node->output()] = {.slot = copy.outputs[0], .object = nullptr, .path = ""};
    out.nodes.push_back(std::move(copy));
  }

  void AddSetAttribute(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    const Binding owner = names.at(node->input(0));
    const std::string& name = node->s(torch::jit::attr::name);
    if (owner.slot >= 0) return Emit(node, names, frame, out, SetAttribute(name));
    Node copy;
    copy.kind = Node::Kind::kCopy;
    copy.inputs = {SlotOf(node->input(1), names)};
    copy.outputs = {StateSlot(owner.path.empty() ? name : owner.path + "." + name,
                              owner.object->getAttr(name))};
    out.nodes.push_back(std::move(copy));
  }

  int StateSlot(const std::string& path, const IValue& value) {
    const auto [it, is_new] = states_.try_emplace(path, 0);
    if (is_new) {
      it->second = NewSlot();
      program_.states.push_back({path, it->second, value});
    }
    return it->second;
  }

  void AddMethodCall(const jit::Node* node, const std::string& method,
                     at::ArrayRef<const jit::Value*> arguments, Names& names, const Frame& frame,
                     Block& out) {
    const Binding owner = names.at(arguments[0]);
    const auto type =
        owner.object ? owner.object->type() : arguments[0]->type()->cast<c10::ClassType>();
    jit::Function* const function = type ? type->findMethod(method) : nullptr;
    jit::GraphFunction* const graph = function ? jit::tryToGraphFunction(*function) : nullptr;
    if (graph == nullptr) {
      throw ModelProblem(
          "The call of " + method + " at " + SiteOf(node, frame).source + " is not followed.",
          "Compare the model in Python: model.py:build.");
    }
    Frame inner = frame;
    const bool is_module = owner.object && type->is_module();
    if (is_module) inner.module = owner.path;
    AddCall(node, *graph, arguments, names, std::move(inner), out);
    if (!is_module || method != "forward") return;
    Node give;
    give.kind = Node::Kind::kGive;
    give.site.module = owner.path;
    for (const jit::Value* each : node->outputs()) {
      if (names.at(each).slot < 0) return;
      give.inputs.push_back(names.at(each).slot);
    }
    out.nodes.push_back(std::move(give));
  }

  void AddFunctionCall(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    const auto type = node->input(0)->type()->expect<c10::FunctionType>();
    jit::GraphFunction* const graph = jit::tryToGraphFunction(*type->function());
    if (graph == nullptr)
      throw ModelProblem("A call of " + type->function()->name() + " is not followed.", "");
    AddCall(node, *graph, node->inputs().slice(1), names, frame, out);
  }

  void AddCall(const jit::Node* node, jit::GraphFunction& function,
               at::ArrayRef<const jit::Value*> arguments, Names& names, Frame frame, Block& out) {
    frame.calls.push_back(node->sourceRange());
    std::vector<Binding> given;
    for (const jit::Value* each : arguments) given.push_back(names.at(each));
    // The graph as it was written: the optimized one has lost lines.
    const std::vector<Binding> results = Inline(*function.graph(), given, frame, out);
    for (size_t at = 0; at < node->outputs().size() && at < results.size(); ++at) {
      names[node->outputs()[at]] = results[at];
    }
  }

  void AddFork(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    std::vector<Binding> given;
    for (const jit::Value* each : node->inputs()) given.push_back(names.at(each));
    names[node->output()] = Inline(*node->g(torch::jit::attr::Subgraph), given, frame, out).at(0);
  }

  void AddBranches(const jit::Node* node, Names& names, const Frame& frame, Block& out) {
    Node made;
    made.kind = node->kind() == prim::If ? Node::Kind::kIf : Node::Kind::kLoop;
    made.site = SiteOf(node, frame);
    for (const jit::Value* each : node->inputs()) made.inputs.push_back(SlotOf(each, names));
    for (const jit::Block* block : node->blocks()) {
      Block& inner = made.blocks.emplace_back();
      for (const jit::Value* each : block->inputs()) {
        inner.inputs.push_back(NewSlot());
        names[each] = {.slot = inner.inputs.back(), .object = nullptr, .path = ""};
      }
      AddNodes(block, names, frame, inner);
      for (const jit::Value* each : block->outputs()) inner.outputs.push_back(SlotOf(each, names));
    }
    for (const jit::Value* each : node->outputs()) {
      made.outputs.push_back(NewSlot());
      names[each] = {.slot = made.outputs.back(), .object = nullptr, .path = ""};
    }
    out.nodes.push_back(std::move(made));
  }

  // `with …:`; of autocast the region, of all others what their methods do.
  void AddRegion(const jit::Node* node, const std::string& method, Names& names, const Frame& frame,
                 Block& out) {
    const auto type = node->input(0)->type()->cast<c10::ClassType>();
    const std::string name = type && type->name() ? type->name()->qualifiedName() : "";
    if (name.find("autocast_mode.autocast") != std::string::npos) {
      Node made;
      made.kind = method == "__enter__" ? Node::Kind::kEnterRegion : Node::Kind::kLeaveRegion;
      made.inputs = {SlotOf(node->input(0), names)};
      made.site = SiteOf(node, frame);
      out.nodes.push_back(std::move(made));
      for (const jit::Value* each : node->outputs())
        names[each] = {.slot = Constant(IValue()), .object = nullptr, .path = ""};
      return;
    }
    jit::Function* const function = type ? type->findMethod(method) : nullptr;
    jit::GraphFunction* const graph = function ? jit::tryToGraphFunction(*function) : nullptr;
    if (graph == nullptr)
      throw ModelProblem(ShownSite(SiteOf(node, frame)) + " is not followed.", "");
    std::vector<Binding> given = {names.at(node->input(0))};
    while (given.size() < graph->graph()->inputs().size()) {
      given.push_back({.slot = Constant(IValue()), .object = nullptr, .path = ""});
    }
    const std::vector<Binding> results = Inline(*graph->graph(), given, frame, out);
    for (size_t at = 0; at < node->outputs().size(); ++at) {
      names[node->outputs()[at]] = results.at(at);
    }
  }

  Program program_;
  ObjectPtr root_;
  std::unordered_map<std::string, int> states_;
};

}  // namespace

TorchScriptModel LoadTorchScript(const std::string& path) {
  jit::Module module = jit::load(path, c10::kCPU);
  const auto method = module.find_method("forward");
  if (!method)
    throw ModelProblem("The archive has no forward().", "Save a module with torch.jit.save.");
  TorchScriptModel model{Converter(module).Convert(*method), {}};
  model.forward = [module](std::vector<IValue> inputs) mutable {
    return module.forward(std::move(inputs));
  };
  return model;
}

}  // namespace mpnanny::worker
