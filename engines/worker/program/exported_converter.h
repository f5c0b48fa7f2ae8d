// The way from a .pt2's description to a program: one object a file.
//
// Owns what it makes until Convert() gives it away. Errors are ModelProblem; JSON of another form
// throws what the JSON library throws.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_CONVERTER_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_CONVERTER_H_

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "engines/worker/program/allowed.h"
#include "engines/worker/program/exported_file.h"
#include "engines/worker/program/exported_values.h"
#include "engines/worker/program/module_calls.h"
#include "engines/worker/program/python_operators.h"
#include "engines/worker/program/source_lines.h"
#include "engines/worker/program/structures.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker::exported_program {

inline constexpr int kMostNested = 50;
inline constexpr std::string_view kOps = "torch.ops.";
// Checks types that are others in another precision.
inline constexpr std::string_view kMetadataCheck = "torch.ops.aten._assert_tensor_metadata.default";
inline constexpr std::string_view kHigher = "torch.ops.higher_order.";

[[noreturn]] inline void NotFollowed(const std::string& what) {
  throw ModelProblem(what + " is not followed by mpnanny-worker.",
                     "Compare the model in Python: model.py:build.");
}

inline const Json& ArrayAt(const Json& json, const char* key) {
  static const Json kNothing = Json::array();
  const Json& found = ValueAt(json, {key});
  return found.is_array() ? found : kNothing;
}

class Converter {
 public:
  explicit Converter(ExportedFile file) : file_(std::move(file)) {
    program_.format = "torch.export";
  }

  Program Convert() {
    const Json& graph = file_.graph_module["graph"];
    const Json& signature = ValueAt(file_.graph_module, {"signature"});
    AskForGradients(graph);
    SlotNames names;
    for (const Json& spec : ArrayAt(signature, "input_specs")) AddInput(spec, names);
    NameArguments();
    AddNodes(graph, names, Site{}, program_.body);
    module_calls_.End(program_.body);
    for (const Json& spec : ArrayAt(signature, "output_specs")) AddOutput(spec, names);
    KeepWhatIsRead(program_);
    FillLines(program_);
    for (Node& each : changes_) program_.body.nodes.push_back(std::move(each));
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

  // Which of two kernels a matrix product takes depends on whether its weight wants a gradient.
  void AskForGradients(const Json& graph) {
    const Json& values = ValueAt(graph, {"tensor_values"});
    if (!values.is_object()) return;
    for (const auto& [name, meta] : values.items()) {
      if (ValueAt(meta, {"requires_grad"}) == true) wants_gradient_.insert(name);
    }
  }

  // --- inputs and outputs ---

  void AddInput(const Json& spec, SlotNames& names) {
    const auto [kind, at] = UnionOf(spec);
    const Json& input = *at;
    if (kind == "user_input") return AddArgument(ValueAt(input, {"arg"}), names);
    if (kind == "parameter") return AddState(input, "parameter_name", names);
    if (kind == "buffer") return AddState(input, "buffer_name", names);
    if (kind == "tensor_constant") return AddState(input, "tensor_constant_name", names);
    if (kind == "constant_input") {
      Argument& argument = program_.arguments.emplace_back();
      argument.name = TextAt(input, "name");
      argument.slot = NewSlot();
      argument.otherwise = ConstantOf(ValueAt(input, {"value"}), c10::AnyType::get());
      names[argument.name] = argument.slot;
      return;
    }
    NotFollowed("An input of the kind " + EscapeControl(kind, 60));
  }

  void AddArgument(const Json& json, SlotNames& names) {
    Argument& argument = program_.arguments.emplace_back();
    argument.slot = NewSlot();
    argument.name = NameOf(json);
    if (!argument.name.empty()) {
      names[argument.name] = argument.slot;
    } else {
      argument.otherwise = ConstantOf(json, c10::AnyType::get());  // what it was exported with
    }
  }

  void AddState(const Json& input, const char* key, SlotNames& names) {
    const std::string& name = TextAt(input, key);
    const std::string& value = TextAt(ValueAt(input, {"arg"}), "name");
    const auto found = file_.tensors.find(name);
    if (found == file_.tensors.end()) {
      throw ModelProblem("The file has no tensor '" + EscapeControl(name, 200) + "'.", "");
    }
    at::Tensor tensor = found->second;
    if (wants_gradient_.contains(value) && IsFloat(tensor)) {
      tensor.set_requires_grad(true);
    }
    const int slot = NewSlot();
    program_.states.push_back({name, slot, tensor});
    names[value] = slot;
  }

  // The names that Python calls them by, where each argument is one value.
  void NameArguments() {
    const Json& calls = ArrayAt(file_.graph_module, "module_call_graph");
    if (calls.empty()) return;
    const Json& formal = ValueAt(calls[0], {"signature", "forward_arg_names"});
    if (!formal.is_array() || formal.size() != program_.arguments.size()) return;
    for (size_t at = 0; at < formal.size(); ++at) {
      if (formal[at].is_string()) program_.arguments[at].name = formal[at].get<std::string>();
    }
  }

  void AddOutput(const Json& spec, SlotNames& names) {
    const auto [kind, at] = UnionOf(spec);
    if (kind == "buffer_mutation") return AddChange(*at, names);
    if (kind != "user_output" && kind != "loss_output") return;
    program_.outputs.push_back(
        SlotOf(ValueAt(*at, {"arg"}), c10::AnyType::get(), names, program_.body));
  }

  // An exported program gives the new value of a buffer beside its outputs.
  void AddChange(const Json& change, const SlotNames& names) {
    const std::string& buffer = TextAt(change, "buffer_name");
    const auto state = std::find_if(program_.states.begin(), program_.states.end(),
                                    [&](const State& each) { return each.name == buffer; });
    if (state == program_.states.end()) return;
    Node& copy = changes_.emplace_back();
    copy.kind = Node::Kind::kCopy;
    copy.inputs = {Named(TextAt(ValueAt(change, {"arg"}), "name"), names)};
    copy.outputs = {state->slot};
  }

  // --- values ---

  int Named(const std::string& name, const SlotNames& names) {
    const auto found = names.find(name);
    if (found == names.end()) {
      throw ModelProblem(
          "The value '" + EscapeControl(name, 100) + "' is read and nothing makes it.", "");
    }
    return found->second;
  }

  int SlotOf(const Json& argument, const c10::TypePtr& type, const SlotNames& names, Block& out) {
    if (auto constant = ConstantOf(argument, type)) return Constant(*std::move(constant));
    if (const std::string name = NameOf(argument); !name.empty()) return Named(name, names);
    const auto [kind, items] = UnionOf(argument);
    if (!items->is_array()) NotFollowed("An argument of the kind " + kind);
    return ListSlot(kind, *items, type, names, out);
  }

  // `type`: of the parameter that takes it, which says whether elements may be missing.
  int ListSlot(const std::string& kind, const Json& items, const c10::TypePtr& type,
               const SlotNames& names, Block& out) {
    c10::TypePtr element = c10::TensorType::get();
    if (kind == "as_sym_ints") element = c10::IntType::get();
    if (kind == "as_sym_floats") element = c10::FloatType::get();
    if (kind == "as_sym_bools") element = c10::BoolType::get();
    if (kind == "as_optional_tensors") element = c10::OptionalType::ofTensor();
    if (kind == "as_nested_tensors") element = c10::ListType::ofTensors();
    if (const auto list = type->cast<c10::ListType>()) element = list->getElementType();
    Node list;
    list.kind = Node::Kind::kStructure;
    for (const Json& each : items) {
      if (kind == "as_nested_tensors") {
        list.inputs.push_back(ListSlot("as_tensors", each, element, names, out));
      } else if (each.is_object() && (each.contains("name") || each.contains("as_name"))) {
        list.inputs.push_back(Named(NameOfItem(each), names));
      } else {
        list.inputs.push_back(SlotOf(each, element, names, out));
      }
    }
    list.outputs = {NewSlot()};
    list.run = MakeList(element, list.inputs.size());
    out.nodes.push_back(std::move(list));
    return out.nodes.back().outputs[0];
  }

  // --- nodes ---

  Site SiteOf(const Json& node, const Site& outer) {
    const Json& metadata = ValueAt(node, {"metadata"});
    Site site = outer;
    const std::string& target = TextAt(node, "target");
    const size_t last = target.rfind('.');
    const size_t before = target.rfind('.', last - 1);
    site.op =
        target.starts_with(kOps) && before != std::string::npos && !target.starts_with(kHigher)
            ? ShownOperator(target.substr(kOps.size(), last - kOps.size()), target.substr(last + 1))
            : target;
    if (const Json& trace = ValueAt(metadata, {"stack_trace"}); trace.is_string()) {
      const std::string line = UsersLineOfTraceback(trace.get<std::string>());
      if (!line.empty()) {
        site.source = line;
        site.has_users_line = IsUsersFile(line);
      }
    }
    const auto stack = ModuleStackOf(metadata);
    if (!stack.empty()) site.module = stack.back().name;
    return site;
  }

  void AddNodes(const Json& graph, SlotNames& names, const Site& outer, Block& out) {
    if (++nested_ > kMostNested)
      throw ModelProblem("The program's graphs are nested too deeply.", "");
    for (const Json& node : ArrayAt(graph, "nodes")) {
      // Calls of modules inside of branches are not told apart.
      const bool is_outermost = &out == &program_.body;
      if (is_outermost) module_calls_.Before(ModuleStackOf(ValueAt(node, {"metadata"})), out);
      const size_t first = out.nodes.size();
      try {
        AddNode(node, SiteOf(node, outer), names, out);
      } catch (const ModelProblem& problem) {
        throw ModelProblem(std::string(problem.what()) + " (node " +
                               EscapeControl(DumpJson(ValueAt(node, {"name"})), 80) + ")",
                           problem.hint);
      }
      if (is_outermost && out.nodes.size() > first && !out.nodes.back().outputs.empty())
        module_calls_.After(out.nodes.back().outputs);
    }
    --nested_;
  }

  void AddNode(const Json& node, const Site& site, SlotNames& names, Block& out) {
    const std::string& target = TextAt(node, "target");
    if (target == kMetadataCheck) return;
    if (target.starts_with(kHigher)) return AddHigherOrder(node, site, names, out);
    Node made;
    made.site = site;
    if (target.starts_with(kOps)) {
      AddOperator(node, target, made, names, out);
    } else if (auto run = PythonOperator(target, ArrayAt(node, "inputs").size())) {
      made.kind = Node::Kind::kStructure;
      made.run = *std::move(run);
      for (const Json& each : ArrayAt(node, "inputs")) {
        made.inputs.push_back(SlotOf(ValueAt(each, {"arg"}), c10::AnyType::get(), names, out));
      }
    } else {
      NotFollowed(ShownSite(site));
    }
    BindOutputs(node, made, names);
    out.nodes.push_back(std::move(made));
  }

  void AddOperator(const Json& node, const std::string& target, Node& made, const SlotNames& names,
                   Block& out) {
    std::string name = target.substr(kOps.size());
    const size_t last = name.rfind('.');
    const size_t space = name.find('.');
    if (space == std::string::npos || last == space) NotFollowed(ShownSite(made.site));
    std::string overload = name.substr(last + 1);
    if (overload == "default") overload.clear();
    name = name.substr(0, space) + "::" + name.substr(space + 1, last - space - 1);
    CheckAllowed(name, made.site);
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    if (!op) {
      throw ModelProblem("This torch has no operator " + ShownSite(made.site) + ".",
                         "Use a worker of the torch that exported the program (mpnanny doctor).");
    }
    made.schema = &op->schema();
    made.may_draw = op->hasTag(at::Tag::nondeterministic_seeded);
    made.run = [op = *op](Stack& stack) { op.callBoxed(stack); };
    const Json& given = ArrayAt(node, "inputs");
    for (const c10::Argument& formal : made.schema->arguments()) {
      const auto found = std::find_if(given.begin(), given.end(), [&](const Json& each) {
        return ValueAt(each, {"name"}) == formal.name();
      });
      if (found != given.end()) {
        made.inputs.push_back(SlotOf(ValueAt(*found, {"arg"}), formal.real_type(), names, out));
      } else if (formal.default_value()) {
        made.inputs.push_back(Constant(*formal.default_value()));
      } else {
        throw ModelProblem(ShownSite(made.site) + " is given no '" + formal.name() + "'.", "");
      }
    }
  }

  void BindOutputs(const Json& node, Node& made, SlotNames& names) {
    const Json& outputs = ArrayAt(node, "outputs");
    if (outputs.size() == 1 && UnionOf(outputs[0]).first.ends_with("tensors")) {  // one list
      const Json& items = *UnionOf(outputs[0]).second;
      for (const Json& each : items) made.outputs.push_back(names[NameOfItem(each)] = NewSlot());
      made.run = [run = std::move(made.run), unpack = UnpackList(items.size())](Stack& stack) {
        run(stack);
        unpack(stack);
      };
      return;
    }
    for (const Json& each : outputs) {
      const std::string name = NameOf(each);
      made.outputs.push_back(NewSlot());
      if (!name.empty()) names[name] = made.outputs.back();
    }
    if (made.schema == nullptr) {
      if (outputs.size() != 1)
        throw ModelProblem(ShownSite(made.site) + " has not one result.", "");
      return;
    }
    while (made.outputs.size() < made.schema->returns().size()) made.outputs.push_back(NewSlot());
    made.outputs.resize(made.schema->returns().size());
  }

  // --- operators that take graphs: exported_graphs.cc ---

  static const Json& GraphAt(const Json& inputs, size_t at);
  // The slots that the graph gives, once its nodes are added. Its inputs are `given`.
  std::vector<int> Inline(const Json& graph, const std::vector<int>& given, const Site& site,
                          Block& out);
  // Arguments from `at` on; lists count as what is in them.
  std::vector<int> Operands(const Json& inputs, size_t at, const SlotNames& names, Block& out);
  void Bind(const Json& node, const std::vector<int>& slots, SlotNames& names);
  void AddHigherOrder(const Json& node, const Site& site, SlotNames& names, Block& out);
  void AddCondition(const Json& node, const Site& site, SlotNames& names, Block& out);
  // while_loop(condition, body, (carried…), (more…)).
  void AddLoop(const Json& node, const Site& site, SlotNames& names, Block& out);

  ExportedFile file_;
  Program program_;
  ModuleCalls module_calls_;
  std::vector<Node> changes_;  // of states, after all else
  std::set<std::string> wants_gradient_;
  int nested_ = 0;
};

}  // namespace mpnanny::worker::exported_program

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_CONVERTER_H_
