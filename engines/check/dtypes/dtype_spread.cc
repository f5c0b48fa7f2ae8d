#include "engines/check/dtypes/dtype_spread.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engines/check/syntax/parallel.h"

namespace mpnanny::check {
namespace {

constexpr int kRounds = 4;

using Key = std::pair<size_t, NodeId>;  // module, function (or class)

// What the calls of one function say together.
struct Call16 {
  Entry entry;
  const Function* function = nullptr;
};

// The 16-bit type that `x.half()`, `x.bfloat16()` and `x.to(torch.float16)` cast to; kUnknown for
// other calls.
Type CastOf(const FileFacts& file, const Call& call) {
  if (call.method == "half") return Type::kFp16;
  if (call.method == "bfloat16") return Type::kBf16;
  for (const NodeId argument : file.names.Arguments(call.node)) {
    const HalfType type = file.regions.ReadHalfType(argument);
    if (type != HalfType::kUnknown) return type == HalfType::kFp16 ? Type::kFp16 : Type::kBf16;
  }
  return Type::kUnknown;
}

class Spread {
 public:
  Spread(const Modules& modules, const std::vector<FileFacts*>& files, unsigned threads,
         const CancelToken& cancel)
      : modules_(modules), files_(files), threads_(threads), cancel_(cancel) {}

  void Run() {
    InParallel(files_.size(), threads_, [&](size_t i) { files_[i]->dtypes->RunAll(cancel_); });
    FindCastModules();
    renewed_.assign(files_.size(), true);
    for (int round = 0; round < kRounds && !cancel_.stop_requested(); ++round) {
      FindEntries();
      FindResults();
      std::vector<size_t> busy;
      for (size_t i = 0; i < files_.size(); ++i) {
        if (!changed_[i].empty()) busy.push_back(i);
      }
      if (busy.empty()) return;
      InParallel(busy.size(), threads_, [&](size_t k) { RerunIn(busy[k]); });
      renewed_.assign(files_.size(), false);
      for (const size_t i : busy) renewed_[i] = true;
    }
  }

 private:
  // Classes of which an instance is cast, and the classes of what these hold.
  void FindCastModules() {
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const std::string_view name : {"half", "bfloat16", "to"}) {
        for (const Call* call : files_[i]->names.CallsNamed(name)) {
          if (call->receiver == kNoNode || call->method.empty()) continue;
          const Type type = CastOf(*files_[i], *call);
          if (type == Type::kUnknown) continue;
          const ClassRef klass = modules_.InstanceOf(i, call->receiver);
          if (klass.klass != kNoNode) MarkCast(klass, type, PlaceOf(i, call->node), 0);
        }
      }
    }
  }

  void MarkCast(ClassRef klass, Type type, const std::string& from, int depth) {
    const FileFacts& file = *files_[klass.module];
    if (depth > 6 || !file.bindings.IsModuleClass(klass.klass)) return;
    if (!cast_.emplace(Key{klass.module, klass.klass}, std::pair(type, from)).second) return;
    for (const Function& function : file.bindings.functions()) {
      if (function.klass != klass.klass) continue;
      Call16& call = entries_[{klass.module, function.node}];
      call.function = &function;
      call.entry.module = type;
      call.entry.from = from;
    }
    for (const ClassRef& held : modules_.Held(klass)) MarkCast(held, type, from, depth + 1);
  }

  std::string PlaceOf(size_t module, NodeId node) const {
    const FileFacts& file = *files_[module];
    return file.path + ":" + std::to_string(file.lines.LineAt(file.syntax[node].begin));
  }

  // What the calls give the functions that they run.
  void FindEntries() {
    std::map<Key, Call16> entries = entries_;
    for (size_t i = 0; i < files_.size(); ++i) {
      const FileFacts& file = *files_[i];
      // What other files give has been taken in before, and joining it again changes nothing.
      if (!renewed_[i] || (file.dtypes->empty() && file.regions.all().empty())) continue;
      for (const auto& [node, callee] : modules_.Edges(i)) {
        Policy policy;
        const bool under = file.dtypes->PolicyAt(node, &policy);
        const std::vector<std::string>& names = callee.function->parameters;
        std::vector<Value> values;
        for (size_t k = 0; k < names.size(); ++k) {
          const NodeId argument = file.names.Argument(node, static_cast<int>(k), names[k]);
          const Value value = argument == kNoNode ? Value{} : file.dtypes->Of(argument);
          if (!value.is_16bit()) continue;
          values.resize(names.size());
          values[k] = {value.type, value.assumed, kNoNode, kNoNode};
        }
        if (!under && values.empty()) continue;
        Call16& call = entries[{callee.module, callee.function->node}];
        call.function = callee.function;
        Entry& entry = call.entry;
        if (entry.from.empty()) entry.from = PlaceOf(i, node);
        entry.parameters.resize(names.size());
        for (size_t k = 0; k < values.size(); ++k) {
          if (values[k].is_16bit())
            entry.parameters[k] = JoinValues(entry.parameters[k], values[k]);
        }
        if (under) {
          policy.passed = kNoNode;
          // A region that is seen counts more than one that is assumed.
          if (!entry.autocast || (entry.autocast->assumed && !policy.assumed)) {
            entry.autocast = policy;
          } else if (entry.autocast->assumed == policy.assumed) {
            if (entry.autocast->half != policy.half) entry.autocast->half = Type::kHalf;
            if (entry.autocast->device != policy.device) entry.autocast->device = Device::kUnknown;
          }
        }
      }
    }
    changed_.assign(files_.size(), {});
    for (const auto& [key, call] : entries) {
      const Entry* had = files_[key.first]->dtypes->EntryOf(key.second);
      if (had == nullptr || !(*had == call.entry)) changed_[key.first].insert(call.function);
    }
    entries_ = std::move(entries);
  }

  // True if what the function returns does not rest on what another call of it gives.
  bool Holds(size_t module, NodeId call, const Value& returned) const {
    const FileFacts& file = *files_[module];
    if (returned.passed == kNoNode) return true;
    if (Policy policy; file.dtypes->PolicyAt(call, &policy)) return true;
    const std::vector<NodeId> arguments = file.names.Arguments(call);
    return std::any_of(arguments.begin(), arguments.end(),
                       [&](NodeId argument) { return file.dtypes->Of(argument).is_16bit(); });
  }

  // What calls of the project's functions return, where it is 16-bit.
  void FindResults() {
    std::map<Key, Value> returns;
    results_.resize(files_.size());
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const auto& [node, callee] : modules_.Edges(i)) {
        if (!renewed_[callee.module] || files_[callee.module]->dtypes->empty()) continue;
        const Key key{callee.module, callee.function->node};
        auto it = returns.find(key);
        if (it == returns.end())
          it =
              returns.emplace(key, files_[callee.module]->dtypes->ReturnOf(*callee.function)).first;
        const Value& value = it->second;
        if (!value.is_16bit() || callee.function->name == "__init__") continue;
        Value& slot = results_[i][node];
        if (slot.type == value.type) continue;
        slot = {value.type, value.assumed || !Holds(i, node, value), node, kNoNode};
        const NodeId caller = files_[i]->syntax.FunctionOf(node);
        if (const Function* function = files_[i]->bindings.FunctionAt(caller))
          changed_[i].insert(function);
      }
    }
  }

  void RerunIn(size_t i) {
    for (const Function* function : changed_[i]) {
      const auto it = entries_.find({i, function->node});
      files_[i]->dtypes->Rerun(*function, it == entries_.end() ? Entry{} : it->second.entry,
                               results_[i], cancel_);
    }
  }

  const Modules& modules_;
  const std::vector<FileFacts*>& files_;
  const unsigned threads_;
  const CancelToken& cancel_;
  std::map<Key, std::pair<Type, std::string>> cast_;
  std::map<Key, Call16> entries_;
  std::vector<Dtypes::Results> results_;
  std::vector<std::set<const Function*>> changed_;
  std::vector<bool> renewed_;  // files that the last round evaluated
};

}  // namespace

void SpreadDtypes(const Modules& modules, const std::vector<FileFacts*>& files, unsigned threads,
                  const CancelToken& cancel) {
  Spread(modules, files, threads, cancel).Run();
}

}  // namespace mpnanny::check
