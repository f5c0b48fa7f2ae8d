#include "engines/check/facts/fp16_use.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// True if the text names FP16 in whatever way; "bfloat16" is none.
bool NamesFp16(std::string_view text) {
  for (size_t at = text.find("float16"); at != std::string_view::npos;
       at = text.find("float16", at + 1)) {
    if (at == 0 || text[at - 1] != 'b') return true;
  }
  return HoldsAny(text, {"fp16", "FP16", "half", "Half", "16-mixed", "mixed_precision"});
}

// True if some file may load code by names that are not imports.
bool LoadsByName(std::string_view text) {
  return HoldsAny(text, {"import_module(", "instantiate(", "__import__(", "exec("});
}

bool IsFp32(const FileFacts& facts, NodeId dtype) {
  const std::string name = facts.names.Resolve(dtype);
  return name == "torch.float32" || name == "torch.float";
}

// True if the file names torch's FP16 or casts to it, for more than evaluation.
bool NamesFp16Type(const FileFacts& facts) {
  const std::string_view text = facts.syntax.text();
  for (const Call* call : facts.names.CallsNamed("half")) {
    if (MayTrain(facts, call->node)) return true;
  }
  for (const std::string_view word : {"float16", "half"}) {
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      NodeId id = facts.syntax.At(static_cast<uint32_t>(at));
      if (id == kNoNode || !facts.syntax.Is(id, Kind::kIdentifier)) continue;
      const NodeId up = facts.syntax[id].parent;
      if (facts.syntax.Is(up, Kind::kAttribute)) id = up;
      if (facts.regions.ReadHalfType(id) == HalfType::kFp16 && MayTrain(facts, id)) return true;
    }
  }
  return false;
}

// Which 16-bit types an expression may be: of a conditional, or of all assignments of a name.
struct TypeChoice {
  bool fp16 = false, bf16 = false;
  bool any() const { return fp16 || bf16; }
};

TypeChoice ChoiceOf(const FileFacts& facts, NodeId dtype, int depth = 3) {
  const NodeId id = facts.syntax.Unwrap(dtype);
  TypeChoice choice;
  if (id == kNoNode || depth == 0) return choice;
  const HalfType type = facts.regions.ReadHalfType(id);
  choice.fp16 = type == HalfType::kFp16;
  choice.bf16 = type == HalfType::kBf16;
  const auto add = [&](NodeId other) {
    const TypeChoice one = ChoiceOf(facts, other, depth - 1);
    choice.fp16 = choice.fp16 || one.fp16;
    choice.bf16 = choice.bf16 || one.bf16;
  };
  if (facts.syntax.Is(id, Kind::kConditional)) {
    const std::vector<NodeId> parts = facts.syntax.Children(id);
    if (parts.size() == 3) add(parts[0]), add(parts[2]);
  } else if (facts.syntax.Is(id, Kind::kIdentifier) && !choice.any()) {
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) add(assignment.value);
  }
  return choice;
}

// Of torch's autocast(…): whether it may be FP16. `named`: the program names FP16 somewhere.
bool MayBeFp16(const FileFacts& facts, NodeId call, bool named) {
  const Syntax& syntax = facts.syntax;
  const Names& names = facts.names;
  const bool old =
      names.Callee(call).ends_with(".amp.autocast") && names.Callee(call) != "torch.amp.autocast";
  const NodeId enabled = names.Argument(call, old ? 0 : 2, "enabled");
  if (syntax.Is(enabled, Kind::kFalse)) return false;
  const NodeId device = old ? kNoNode : names.Argument(call, 0, "device_type");
  if (names.Callee(call) == "torch.cpu.amp.autocast" ||
      (syntax.Is(device, Kind::kString) && Holds(syntax.Text(device), "cpu")))
    return false;
  const NodeId dtype = names.Argument(call, 1, "dtype");
  if (dtype == kNoNode || syntax.Is(dtype, Kind::kNone)) {
    // autocast(**settings), where the file has but one type to put into them.
    const bool splat = Holds(syntax.Text(syntax.Child(call, PythonFields().arguments)), "**");
    return !splat || NamesFp16Type(facts) || !Holds(syntax.text(), "torch.bfloat16");
  }
  if (IsFp32(facts, dtype)) return false;
  if (const HalfType type = facts.regions.ReadHalfType(dtype); type != HalfType::kUnknown)
    return type == HalfType::kFp16;
  const TypeChoice choice = ChoiceOf(facts, dtype);
  return choice.any() ? choice.fp16 : named;
}

}  // namespace

std::vector<const FileFacts*> FilesAround(const FileFacts& facts) {
  const std::vector<FileFacts*>& files = *facts.files;
  std::vector<std::vector<size_t>> imports(files.size());
  std::vector<std::vector<size_t>> importers(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const auto add = [&](std::string_view qualified) {
      const std::optional<size_t> file = facts.modules->FileNamed(i, qualified);
      if (!file || *file == i) return;
      imports[i].push_back(*file);
      importers[*file].push_back(i);
    };
    for (const Import& import : files[i]->names.imports()) add(import.qualified);
    for (const std::string& star : files[i]->names.star_imports()) add(star);
  }
  std::vector<bool> in(files.size(), false);
  std::vector<size_t> found;
  const auto spread = [&](const std::vector<std::vector<size_t>>& edges) {
    for (size_t next = 0; next < found.size(); ++next) {
      for (const size_t other : edges[found[next]]) {
        if (in[other]) continue;
        in[other] = true;
        found.push_back(other);
      }
    }
  };
  in[facts.number] = true;
  found.push_back(facts.number);
  spread(importers);
  spread(imports);
  const auto loads = [&](size_t i) { return LoadsByName(files[i]->syntax.text()); };
  std::vector<const FileFacts*> around;
  if (std::any_of(found.begin(), found.end(), loads)) {
    around.assign(files.begin(), files.end());
    return around;
  }
  for (const size_t i : found) around.push_back(files[i]);
  return around;
}

bool MayRunInFp16(const FileFacts& facts) {
  const std::vector<const FileFacts*> around = FilesAround(facts);
  const auto any = [&](auto test) {
    return std::any_of(around.begin(), around.end(),
                       [&](const FileFacts* file) { return test(*file); });
  };
  const bool named = any([](const FileFacts& file) { return NamesFp16(file.syntax.text()); });
  return any([&](const FileFacts& file) {
    for (const std::string_view framework :
         {"apex", "deepspeed", "accelerate", "lightning", "pytorch_lightning", "fairscale",
          "lightning_fabric", "colossalai", "megatron"}) {
      if (file.names.ImportsModule(framework)) return true;
    }
    for (const Call& call : file.names.calls()) {
      if (IsAutocast(call.callee) && MayBeFp16(file, call.node, named)) return true;
      if (call.callee != "functools.partial") continue;
      const NodeId of = file.names.Argument(call.node, 0, "func");
      if (of != kNoNode && IsAutocast(file.names.Resolve(of))) return true;
    }
    const std::vector<Autocast>& regions = file.regions.all();
    return std::any_of(regions.begin(), regions.end(),
                       [](const Autocast& region) { return region.foreign; }) ||
           NamesFp16Type(file);
  });
}

}  // namespace mpnanny::check
