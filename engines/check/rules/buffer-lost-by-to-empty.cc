#include <string>
#include <string_view>
#include <vector>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::buffer_lost_by_to_empty {
namespace {

// Whether a call may give buffers their values again: reset_parameters(), init_weights(), a rope's
// own, a copy into them.
bool MayRefill(std::string_view name) {
  return HoldsAny(name, {"reset", "init_", "initialize", "rebuild", "recompute", "register_buffer",
                         "materialize", "post_init", "copy_", "update_buffers"});
}

// Buffers of the project's modules that no state dict holds, by what registers them.
std::string UnsavedBuffer(const FileFacts& facts) {
  for (const FileFacts* file : *facts.files) {
    for (const Call* call : file->names.CallsNamed("register_buffer")) {
      const NodeId persistent = file->names.Argument(call->node, 2, "persistent");
      if (!file->syntax.Is(persistent, Kind::kFalse)) continue;
      const NodeId value = file->names.Argument(call->node, 1, "tensor");
      if (file->syntax.Is(value, Kind::kNone)) continue;
      const NodeId name = file->names.Argument(call->node, 0, "name");
      return std::string(file->syntax.Text(name));
    }
  }
  return "";
}

bool Refills(const FileFacts& facts, NodeId call) {
  const NodeId function = facts.syntax.FunctionOf(call);
  for (const Call& each : facts.names.calls()) {
    if (each.node > call && facts.syntax.FunctionOf(each.node) == function && MayRefill(each.name))
      return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const auto calls = facts.names.CallsNamed("to_empty");
  if (calls.empty()) return;
  const std::string buffer = UnsavedBuffer(facts);
  if (buffer.empty()) return;
  for (const Call* call : calls) {
    if (call->method.empty() || Refills(facts, call->node)) continue;
    sink.Add(call->node, "to_empty() leaves the buffer " + buffer.substr(0, 60) +
                             " as memory that was never written: it is registered with "
                             "persistent=False, so no checkpoint brings it back.");
  }
}

}  // namespace mpnanny::check::buffer_lost_by_to_empty
