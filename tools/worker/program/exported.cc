#include "tools/worker/program/exported.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "tools/worker/program/allowed.h"
#include "tools/worker/program/exported_file.h"
#include "tools/worker/program/exported_values.h"
#include "tools/worker/program/module_calls.h"
#include "tools/worker/program/python_operators.h"
#include "tools/worker/program/source_lines.h"
#include "tools/worker/program/structures.h"
#include "tools/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int kMostNested = 50;
constexpr std::string_view kOps = "torch.ops.";
// Checks types that are others in another precision.
constexpr std::string_view kMetadataCheck = "torch.ops.aten._assert_tensor_metadata.default";
constexpr std::string_view kHigher = "torch.ops.higher_order.";

[[noreturn]] void NotFollowed(const std::string& what) {
  throw ModelProblem(what + " is not followed by mpnanny-worker.",
                     "Compare the model in Python: model.py:build.");
}

const Json& ArrayAt(const Json& json, const char* key) {
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
    if (kind != "user_output" && kind != "loss_output") return;  // states that were changed
    program_.outputs.push_back(
        SlotOf(ValueAt(*at, {"arg"}), c10::AnyType::get(), names, program_.body));
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
    made.draws = op->hasTag(at::Tag::nondeterministic_seeded);
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
    if (made.schema == nullptr) return;
    while (made.outputs.size() < made.schema->returns().size()) made.outputs.push_back(NewSlot());
    made.outputs.resize(made.schema->returns().size());
  }

  // --- operators that take graphs ---

  static const Json& GraphAt(const Json& inputs, size_t at) {
    const Json& graph = ValueAt(ValueAt(inputs.at(at), {"arg"}), {"as_graph", "graph"});
    if (!graph.is_object()) NotFollowed("A graph that is not there");
    return graph;
  }

  // The slots that the graph gives, once its nodes are added. Its inputs are `given`.
  std::vector<int> Inline(const Json& graph, const std::vector<int>& given, const Site& site,
                          Block& out) {
    SlotNames names;
    const Json& inputs = ArrayAt(graph, "inputs");
    if (inputs.size() > given.size()) NotFollowed("A graph with more inputs than it is given");
    for (size_t at = 0; at < inputs.size(); ++at) {
      if (const std::string name = NameOf(inputs[at]); !name.empty()) names[name] = given[at];
    }
    AddNodes(graph, names, site, out);
    std::vector<int> results;
    for (const Json& each : ArrayAt(graph, "outputs")) {
      const auto [kind, items] = UnionOf(each);
      if (kind != "as_tensors") {
        results.push_back(SlotOf(each, c10::AnyType::get(), names, out));
        continue;
      }
      for (const Json& item : *items) results.push_back(Named(TextAt(item, "name"), names));
    }
    return results;
  }

  // Arguments from `at` on; lists count as what is in them.
  std::vector<int> Operands(const Json& inputs, size_t at, const SlotNames& names, Block& out) {
    std::vector<int> slots;
    for (; at < inputs.size(); ++at) {
      const Json& argument = ValueAt(inputs[at], {"arg"});
      const auto [kind, items] = UnionOf(argument);
      if (kind == "as_tensors") {
        for (const Json& each : *items) slots.push_back(Named(TextAt(each, "name"), names));
      } else {
        slots.push_back(SlotOf(argument, c10::AnyType::get(), names, out));
      }
    }
    return slots;
  }

  void Bind(const Json& node, const std::vector<int>& slots, SlotNames& names) {
    std::vector<std::string> wanted;
    for (const Json& each : ArrayAt(node, "outputs")) {
      const auto [kind, items] = UnionOf(each);
      if (kind.ends_with("tensors")) {
        for (const Json& item : *items) wanted.push_back(NameOfItem(item));
      } else {
        wanted.push_back(NameOf(each));
      }
    }
    for (size_t at = 0; at < wanted.size() && at < slots.size(); ++at)
      names[wanted[at]] = slots[at];
  }

  void AddHigherOrder(const Json& node, const Site& site, SlotNames& names, Block& out) {
    const std::string name = TextAt(node, "target").substr(kHigher.size());
    const Json& inputs = ArrayAt(node, "inputs");
    const auto argument = [&](size_t at) -> const Json& {
      if (at >= inputs.size()) NotFollowed(ShownSite(site));
      return ValueAt(inputs[at], {"arg"});
    };
    if (name == "wrap_with_set_grad_enabled") {
      Bind(node, Inline(GraphAt(inputs, 1), Operands(inputs, 2, names, out), site, out), names);
    } else if (name == "wrap_with_autocast") {
      Node enter;
      enter.kind = Node::Kind::kEnterRegion;
      if (const Json& device = ValueAt(argument(0), {"as_string"}); device.is_string()) {
        enter.region.device = device.get<std::string>();
      }
      enter.region.enabled = ValueAt(argument(2), {"as_bool"}) != false;
      const IValue dtype = ConstantOf(argument(1), c10::AnyType::get()).value_or(IValue());
      if (dtype.isInt()) enter.region.dtype = static_cast<c10::ScalarType>(dtype.toInt());
      out.nodes.push_back(std::move(enter));
      const auto results = Inline(GraphAt(inputs, 4), Operands(inputs, 5, names, out), site, out);
      Node leave;
      leave.kind = Node::Kind::kLeaveRegion;
      out.nodes.push_back(std::move(leave));
      Bind(node, results, names);
    } else if (name == "cond") {
      AddCondition(node, site, names, out);
    } else if (name == "while_loop") {
      AddLoop(node, site, names, out);
    } else {
      NotFollowed(ShownSite(site));
    }
  }

  void AddCondition(const Json& node, const Site& site, SlotNames& names, Block& out) {
    const Json& inputs = ArrayAt(node, "inputs");
    Node made;
    made.kind = Node::Kind::kIf;
    made.site = site;
    made.inputs = {SlotOf(ValueAt(inputs.at(0), {"arg"}), c10::AnyType::get(), names, out)};
    const std::vector<int> operands = Operands(inputs, 3, names, out);
    for (const size_t at : {size_t{1}, size_t{2}}) {
      Block& block = made.blocks.emplace_back();
      block.outputs = Inline(GraphAt(inputs, at), operands, site, block);
    }
    for (size_t at = 0; at < made.blocks[0].outputs.size(); ++at) made.outputs.push_back(NewSlot());
    Bind(node, made.outputs, names);
    out.nodes.push_back(std::move(made));
  }

  // while_loop(condition, body, (carried…), (more…)).
  void AddLoop(const Json& node, const Site& site, SlotNames& names, Block& out) {
    const Json& inputs = ArrayAt(node, "inputs");
    if (inputs.size() < 3) NotFollowed(ShownSite(site));
    const auto list = [&](size_t at) {
      return at < inputs.size() ? Operands(Json::array({inputs[at]}), 0, names, out)
                                : std::vector<int>{};
    };
    const std::vector<int> carried = list(2), more = list(3);
    const auto with_more = [&](std::vector<int> slots) {
      slots.insert(slots.end(), more.begin(), more.end());
      return slots;
    };
    Node made;
    made.kind = Node::Kind::kLoop;
    made.site = site;
    made.inputs = {Constant(std::numeric_limits<int64_t>::max()),
                   Inline(GraphAt(inputs, 0), with_more(carried), site, out).at(0)};
    made.inputs.insert(made.inputs.end(), carried.begin(), carried.end());
    Block& block = made.blocks.emplace_back();
    block.inputs.push_back(NewSlot());  // the turn
    for (size_t at = 0; at < carried.size(); ++at) {
      block.inputs.push_back(NewSlot());
      made.outputs.push_back(NewSlot());
    }
    const std::vector<int> now(block.inputs.begin() + 1, block.inputs.end());
    const std::vector<int> next = Inline(GraphAt(inputs, 1), with_more(now), site, block);
    block.outputs = {Inline(GraphAt(inputs, 0), with_more(next), site, block).at(0)};
    block.outputs.insert(block.outputs.end(), next.begin(), next.end());
    Bind(node, made.outputs, names);
    out.nodes.push_back(std::move(made));
  }

  ExportedFile file_;
  Program program_;
  ModuleCalls module_calls_;
  std::set<std::string> wants_gradient_;
  int nested_ = 0;
};

}  // namespace

Program LoadExported(const std::string& path) {
  try {
    return Converter(ReadExportedFile(path)).Convert();
  } catch (const Json::exception& error) {
    throw ModelProblem(std::string("The program's description is damaged: ") + error.what(),
                       "Save it again with torch.export.save.");
  } catch (const std::out_of_range&) {
    throw ModelProblem("The program's description is not whole.",
                       "Save it again with torch.export.save.");
  }
}

}  // namespace mpnanny::worker
