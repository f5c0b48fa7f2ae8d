// What a name in the file stands for: imports and aliases resolved to qualified names; and every
// call of the file with what it calls.
//
// `from torch.cuda.amp import autocast as ac` makes `ac` mean torch.cuda.amp.autocast, and `import
// torch.nn.functional as F` makes `F.softmax` mean torch.nn.functional.softmax. Imports count for
// the whole file, wherever they stand. Borrows the Syntax; immutable after construction.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_NAMES_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_NAMES_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engines/check/syntax/syntax.h"

namespace mpnanny::check {

struct Import {
  std::string local;      // the name in this file
  std::string qualified;  // what it stands for
  NodeId statement = kNoNode;
  NodeId item = kNoNode;  // the imported name (an aliased_import or a dotted_name)
};

// A call and what it calls, worked out once for all who ask.
struct Call {
  NodeId node = kNoNode;
  NodeId receiver = kNoNode;  // x of x.name(…), unwrapped; kNoNode for other calls
  std::string_view callee;    // the qualified name of what is called; "" if it starts at no import
  std::string_view method;    // "name" of x.name(…), "" for other calls
  std::string_view name;      // the last part of the callee, else the method, else the plain name
};

class Names {
 public:
  explicit Names(const Syntax& syntax);
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // All calls of the file, in order of their nodes (an outer call before those inside it).
  const std::vector<Call>& calls() const { return calls_; }
  // Those whose last name is `name`: softmax of x.softmax(…), F.softmax(…) and softmax(…).
  std::span<const Call* const> CallsNamed(std::string_view name) const;
  // Null if `id` is no call.
  const Call* CallAt(NodeId id) const;

  // The qualified name of an identifier or attribute chain that starts at an import; "" for
  // anything else. A relative import keeps its dots: `from ..ops import f` makes f "..ops.f".
  // Private modules of torch are named by the public path
  // (torch.cuda.amp.autocast_mode.autocast is torch.cuda.amp.autocast).
  std::string Resolve(NodeId expression) const;
  // Resolve() of what a call calls; "" if `call` is no call.
  const std::string& Callee(NodeId call) const;
  // The method name of `x.name(...)`, "" for other calls.
  std::string_view Method(NodeId call) const;
  // The receiver x of `x.name(...)`, kNoNode for other calls.
  NodeId Receiver(NodeId call) const;

  // The positional argument number `position` (0-based) or the keyword argument of that name;
  // kNoNode if neither is there. position < 0: by keyword only. A *args before it makes the
  // position unknown.
  NodeId Argument(NodeId call, int position, std::string_view keyword) const;
  // The values of all arguments, keyword ones too.
  std::vector<NodeId> Arguments(NodeId call) const;

  // Every identifier of that name, also as an attribute, in order.
  std::vector<NodeId> Uses(std::string_view name) const;

  // A path that names a variable: "scaler", "self.scaler", "opts[0]"; "" for other expressions.
  std::string Key(NodeId expression) const;

  const std::vector<Import>& imports() const { return imports_; }
  // What an imported name of this file stands for; "" if it is not imported.
  std::string_view Imported(std::string_view local) const;
  // The modules of `from module import *`.
  const std::vector<std::string>& star_imports() const { return star_imports_; }
  // True if the file imports that module or something below it.
  bool ImportsModule(std::string_view module) const;

 private:
  void AddImport(NodeId statement);
  void AddFrom(NodeId statement);
  void Add(std::string local, std::string qualified, NodeId statement, NodeId item);
  void ReadCalls();

  const Syntax& syntax_;
  std::vector<Import> imports_;
  std::vector<std::string> star_imports_;
  std::map<std::string, std::string, std::less<>> qualified_;
  std::vector<Call> calls_;
  std::vector<const std::string*> callees_;  // parallel to calls_
  std::unordered_set<std::string> texts_;    // what the calls' qualified names point into
  std::unordered_map<std::string_view, std::vector<const Call*>> by_name_;
};

// torch's autocast under any of its public names (not Accelerate's or Fabric's).
bool IsAutocast(std::string_view qualified);
// torch's GradScaler, also FSDP's and FairScale's ShardedGradScaler and those of other devices'
// extensions (torch_npu.npu.amp.GradScaler).
bool IsGradScaler(std::string_view qualified);
// "softmax" of torch.softmax, torch.nn.functional.softmax, torch.special.… and so on; "" if it is
// no function of torch. A part of `qualified`, so not of a temporary.
std::string_view TorchFunction(std::string_view qualified);
std::string_view TorchFunction(std::string&& qualified) = delete;

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_NAMES_H_
