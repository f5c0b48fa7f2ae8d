#include "engines/check/facts/model_calls.h"

#include <cctype>
#include <string_view>
#include <utility>

namespace mpnanny::check {
namespace {

bool NamesModel(std::string_view name) {
  if (name.empty() || std::isupper(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const std::string_view whole :
       {"model", "net", "network", "unet", "ddp_model", "transformer", "generator", "discriminator",
        "netG", "netD", "student"}) {
    if (name == whole) return true;
  }
  // "my_model", "ddp_net"; not "get_model".
  for (const std::string_view verb : {"get", "build", "create", "load", "make", "init", "save",
                                      "setup", "prepare", "wrap", "log", "freeze", "compile"}) {
    if (name.starts_with(verb)) return false;
  }
  return name.ends_with("_model") || name.ends_with("_net") || name.ends_with("_network");
}

}  // namespace

std::vector<ModelCall> FindModelCalls(const FileFacts& facts) {
  std::vector<ModelCall> found;
  for (const Call& call : facts.names.calls()) {
    if (!call.callee.empty() || !NamesModel(call.name)) continue;
    if (facts.bindings.Callee(call.node) != nullptr || facts.names.Arguments(call.node).empty())
      continue;
    std::string key = facts.names.Key(facts.syntax.Child(call.node, PythonFields().function));
    // A method called model(…) of anything but an object's own attribute is no model.
    if (key.empty() || (call.receiver != kNoNode && !key.starts_with("self."))) continue;
    found.push_back({call.node, std::move(key)});
  }
  return found;
}

}  // namespace mpnanny::check
