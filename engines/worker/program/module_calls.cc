#include "engines/worker/program/module_calls.h"

#include <set>
#include <sstream>
#include <utility>

namespace mpnanny::worker {

std::vector<ModuleCall> ModuleStackOf(const Json& metadata) {
  std::vector<ModuleCall> stack;
  const Json& text = ValueAt(metadata, {"nn_module_stack"});
  if (!text.is_string()) return stack;
  // "key,name,class;key,name,class"
  std::istringstream calls(text.get<std::string>());
  for (std::string call; std::getline(calls, call, ';');) {
    const size_t first = call.find(',');
    const size_t second = first == std::string::npos ? first : call.find(',', first + 1);
    if (second == std::string::npos) continue;
    ModuleCall made{call.substr(0, first), call.substr(first + 1, second - first - 1)};
    constexpr std::string_view kSelf = "L['self'].";
    if (made.name.starts_with(kSelf)) made.name.erase(0, kSelf.size());
    if (!made.name.empty()) stack.push_back(std::move(made));
  }
  return stack;
}

void ModuleCalls::Before(const std::vector<ModuleCall>& stack, Block& out) {
  size_t common = 0;
  while (common < stack.size() && common < open_.size() && stack[common] == open_[common]) ++common;
  for (size_t at = open_.size(); at > common; --at) {
    Node give;
    give.kind = Node::Kind::kGive;
    give.site.module = open_[at - 1].name;
    give.inputs = last_;
    out.nodes.push_back(std::move(give));
  }
  open_ = stack;
}

void KeepWhatIsRead(Program& program) {
  std::set<int> read(program.outputs.begin(), program.outputs.end());
  for (const Node& node : program.body.nodes) {
    if (node.kind != Node::Kind::kGive) AddReads(node, read);
  }
  for (Node& node : program.body.nodes) {
    if (node.kind != Node::Kind::kGive || node.inputs.size() < 2) continue;
    const int first = node.inputs[0];
    std::erase_if(node.inputs, [&](int slot) { return !read.contains(slot); });
    if (node.inputs.empty()) node.inputs = {first};
  }
}

}  // namespace mpnanny::worker
