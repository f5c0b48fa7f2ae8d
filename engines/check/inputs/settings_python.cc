#include "engines/check/inputs/settings_python.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>

namespace mpnanny::check {
namespace {

// Calls whose keyword arguments are settings. A module that is not told must be where the name
// comes from, if the file says where.
struct Callable {
  std::string_view name;
  std::string_view module;
  Framework framework;
  bool needs_module;  // the name alone is too common
};
constexpr std::array kCallables = {
    Callable{"TrainingArguments", "transformers", Framework::kTransformers, false},
    Callable{"Seq2SeqTrainingArguments", "transformers", Framework::kTransformers, false},
    Callable{"SFTConfig", "trl", Framework::kTransformers, true},
    Callable{"DPOConfig", "trl", Framework::kTransformers, true},
    Callable{"GRPOConfig", "trl", Framework::kTransformers, true},
    Callable{"RewardConfig", "trl", Framework::kTransformers, true},
    Callable{"Trainer", "pytorch_lightning", Framework::kLightning, true},
    Callable{"Trainer", "lightning", Framework::kLightning, true},
    Callable{"Fabric", "lightning", Framework::kLightning, true},
    Callable{"Fabric", "lightning_fabric", Framework::kLightning, true},
    Callable{"Accelerator", "accelerate", Framework::kAccelerate, false},
};

constexpr int kMaxDictDepth = 4;

class PythonReader {
 public:
  explicit PythonReader(const FileFacts& facts) : facts_(facts), syntax_(facts.syntax) {}

  std::vector<Settings> Read() {
    for (const Callable& callable : kCallables) {
      ReadCalls(callable);
    }
    for (const std::string_view key : {"fp16", "bf16", "zero_optimization"}) {
      Dictionaries("\"" + std::string(key) + "\"");
      Dictionaries("'" + std::string(key) + "'");
    }
    return std::move(settings_);
  }

 private:
  Bytes Of(NodeId id) const { return {syntax_[id].begin, syntax_[id].end}; }

  void ReadCalls(const Callable& callable) {
    for (const Call* call : facts_.names.CallsNamed(callable.name)) {
      const bool from = call->callee.substr(0, call->callee.find('.')) == callable.module;
      if (from || (call->callee.empty() && !callable.needs_module))
        ReadCall(call->node, callable.framework);
    }
  }

  void ReadCall(NodeId call, Framework framework) {
    Settings settings{framework, {}, true};
    for (const NodeId argument : syntax_.Children(syntax_.Child(call, PythonFields().arguments))) {
      if (!syntax_.Is(argument, Kind::kKeywordArgument)) continue;
      const NodeId name = syntax_.Child(argument, PythonFields().name);
      Add(syntax_.Text(name), argument, syntax_.Child(argument, PythonFields().value), &settings);
    }
    if (!settings.list.empty()) settings_.push_back(std::move(settings));
  }

  // The dictionaries that have this key.
  void Dictionaries(const std::string& key) {
    const std::string& text = syntax_.text();
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
      const NodeId pair = PairAt(static_cast<uint32_t>(at));
      if (pair == kNoNode || !syntax_.Is(syntax_[pair].parent, Kind::kDictionary) ||
          !seen_.insert(syntax_[pair].parent).second)
        continue;
      Settings settings{Framework::kDeepSpeed, {}, true};
      Dictionary(syntax_[pair].parent, "", 0, &settings);
      const bool told =
          std::any_of(settings.list.begin(), settings.list.end(), [](const Setting& one) {
            return one.option == Option::kFp16 || one.option == Option::kBf16 ||
                   one.option == Option::kZeroStage || one.option == Option::kInitialScale;
          });
      if (told) settings_.push_back(std::move(settings));
    }
  }

  // The pair whose key begins there. Nodes are in the order of their beginnings.
  NodeId PairAt(uint32_t byte) const {
    NodeId low = 0;
    NodeId high = syntax_.size();
    while (low < high) {
      const NodeId middle = low + (high - low) / 2;
      (syntax_[middle].begin <= byte ? low : high) =
          syntax_[middle].begin <= byte ? middle + 1 : middle;
    }
    for (NodeId id = low - 1; id != kNoNode && syntax_[id].begin == byte; id = syntax_[id].parent) {
      if (syntax_.Is(id, Kind::kPair)) return id;
    }
    return kNoNode;
  }

  void Dictionary(NodeId dictionary, const std::string& prefix, int depth, Settings* settings) {
    if (depth > kMaxDictDepth) return;
    for (const NodeId pair : syntax_.Children(dictionary)) {
      if (!syntax_.Is(pair, Kind::kPair)) continue;
      const std::vector<NodeId> parts = syntax_.Children(pair);
      std::string key;
      if (parts.size() < 2 || !String(parts.front(), &key)) continue;
      const std::string path = prefix.empty() ? key : prefix + "." + key;
      const NodeId value = syntax_.Unwrap(parts.back());
      if (syntax_.Is(value, Kind::kDictionary)) {
        Dictionary(value, path, depth + 1, settings);
      } else {
        Add(path, pair, value, settings);
      }
    }
  }

  // The text of a plain string.
  bool String(NodeId id, std::string* text) const {
    if (!syntax_.Is(id, Kind::kString)) return false;
    std::string_view whole = syntax_.Text(id);
    if (whole.size() < 2 || (whole[0] != '"' && whole[0] != '\'') || whole.starts_with("\"\"\"") ||
        whole.back() != whole[0] || whole.find('\\') != std::string_view::npos)
      return false;
    *text = whole.substr(1, whole.size() - 2);
    return true;
  }

  void Add(std::string_view name, NodeId where, NodeId value, Settings* settings) {
    // Parameters have other values in other calls; names that are bound once do not.
    NodeId known = syntax_.Unwrap(value);
    if (syntax_.Is(known, Kind::kIdentifier)) {
      const bool bound = !facts_.bindings.AssignmentsOf(known).empty();
      known = bound ? facts_.bindings.ValueOf(known) : kNoNode;
    }
    std::string text = "$";
    bool quoted = false;
    if (known != kNoNode) {
      if (String(known, &text)) {
        quoted = true;
      } else if (syntax_.Is(known, Kind::kTrue) || syntax_.Is(known, Kind::kFalse)) {
        text = syntax_.Text(known);
      } else if (!syntax_.Is(known, Kind::kIdentifier)) {
        if (const auto number = facts_.bindings.Number(known)) {
          char buffer[32];
          std::snprintf(buffer, sizeof(buffer), "%.17g", *number);
          text = buffer;
        }
      }
    }
    AddSetting(settings->framework, name, text, quoted, Of(where), Of(value), settings);
  }

  const FileFacts& facts_;
  const Syntax& syntax_;
  std::set<NodeId> seen_;
  std::vector<Settings> settings_;
};

}  // namespace

std::vector<Settings> ReadPythonSettings(const FileFacts& facts) {
  return PythonReader(facts).Read();
}

}  // namespace mpnanny::check
