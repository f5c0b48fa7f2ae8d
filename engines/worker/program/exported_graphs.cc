// Operators of higher order in a .pt2: regions, branches and loops, whose graphs stand inside of
// it.
#include <limits>

#include "engines/worker/program/exported_converter.h"

namespace mpnanny::worker::exported_program {

const Json& Converter::GraphAt(const Json& inputs, size_t at) {
  const Json& graph = ValueAt(ValueAt(inputs.at(at), {"arg"}), {"as_graph", "graph"});
  if (!graph.is_object()) NotFollowed("A graph that is not there");
  return graph;
}

std::vector<int> Converter::Inline(const Json& graph, const std::vector<int>& given,
                                   const Site& site, Block& out) {
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

std::vector<int> Converter::Operands(const Json& inputs, size_t at, const SlotNames& names,
                                     Block& out) {
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

void Converter::Bind(const Json& node, const std::vector<int>& slots, SlotNames& names) {
  std::vector<std::string> wanted;
  for (const Json& each : ArrayAt(node, "outputs")) {
    const auto [kind, items] = UnionOf(each);
    if (kind.ends_with("tensors")) {
      for (const Json& item : *items) wanted.push_back(NameOfItem(item));
    } else {
      wanted.push_back(NameOf(each));
    }
  }
  for (size_t at = 0; at < wanted.size() && at < slots.size(); ++at) names[wanted[at]] = slots[at];
}

void Converter::AddHigherOrder(const Json& node, const Site& site, SlotNames& names, Block& out) {
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

void Converter::AddCondition(const Json& node, const Site& site, SlotNames& names, Block& out) {
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

void Converter::AddLoop(const Json& node, const Site& site, SlotNames& names, Block& out) {
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

}  // namespace mpnanny::worker::exported_program
