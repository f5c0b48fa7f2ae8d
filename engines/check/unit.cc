#include "engines/check/unit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/check/inputs/decode.h"
#include "engines/check/rule_set.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// A file that mentions none of these cannot use mixed precision of torch. The last ones are for
// snippets without imports.
constexpr std::array<std::string_view, 9> kFrameworks = {
    "torch",      "lightning", "accelerate",        "fastai",           "deepspeed",
    ".backward(", "autocast",  "TrainingArguments", "zero_optimization"};

bool MentionsTorch(std::string_view text) { return HoldsAny(text, kFrameworks); }

// The text of `bytes`, which have size and encoding like those of every text; nullopt if it is not
// to be read.
std::optional<std::string> Decode(std::string_view bytes, size_t most, Unit* unit) {
  const auto note = [&](const std::string& what) {
    unit->notes.push_back(unit->source->path + ": " + what);
  };
  if (bytes.size() > most) {
    note("not checked, it is larger than " + std::to_string(most >> 20) + " MB.");
    return std::nullopt;
  }
  auto decoded = DecodeSource(bytes);
  if (!decoded) {
    note("not checked, it is a binary file.");
    return std::nullopt;
  }
  if (!decoded->note.empty()) note(decoded->note);
  return std::move(decoded->text);
}

void ReadSettingsUnit(Unit* unit) {
  const std::string& path = unit->source->path;
  if (!MayHoldSettings(unit->source->text)) return;
  auto text = Decode(unit->source->text, kMaxSettingsBytes, unit);
  if (!text) return;
  unit->text = *std::move(text);
  if (path.ends_with(".sh")) {
    unit->settings = ReadShellSettings(unit->text);
    return;
  }
  std::string mistake;
  unit->settings = ReadDataSettings(unit->text, path.ends_with(".json"), &mistake);
  if (!mistake.empty()) {
    unit->notes.push_back(path + ": it could not be read to the end (" + mistake +
                          "); findings may be missing.");
  }
}

}  // namespace

std::string PathAt(const Unit& unit, int& line) {
  if (unit.cells.empty()) return unit.source->path;
  auto after =
      std::upper_bound(unit.cells.begin(), unit.cells.end(), line,
                       [](int value, const NotebookCell& cell) { return value < cell.first_line; });
  const NotebookCell& cell = *(after == unit.cells.begin() ? after : after - 1);
  line -= cell.first_line - 1;
  return unit.source->path + ":cell " + std::to_string(cell.number);
}

Result<void> ReadUnit(const Source& source, const RuleSet& rules, bool skip_without_torch,
                      const CancelToken& cancel, Unit* unit) {
  const auto note = [&](const std::string& what) {
    unit->notes.push_back(source.path + ": " + what);
  };
  unit->source = &source;
  if (IsSettingsPath(source.path)) {
    ReadSettingsUnit(unit);
    return {};
  }
  // UTF-16 hides every word from a search; what is in it is seen after decoding.
  const bool wide = HasWideMark(source.text);
  if (skip_without_torch && !wide && !MentionsTorch(source.text)) {
    // A package's __init__.py leads from the files that import to those that define.
    unit->may_lead = source.path.ends_with("__init__.py") && Holds(source.text, "import");
    return {};
  }
  std::string joined;
  std::string_view text = source.text;
  if (source.path.ends_with(".ipynb")) {
    auto notebook = ReadNotebook(source.text);
    if (!notebook) {
      note("not checked, " + notebook.error().message + ".");
      return {};
    }
    joined = std::move(notebook->text);
    text = joined;
    unit->cells = std::move(notebook->cells);
    if (unit->cells.empty()) return {};
  }
  auto decoded = Decode(text, kMaxSourceBytes, unit);
  if (!decoded) return {};
  if (wide && skip_without_torch && !MentionsTorch(*decoded)) {
    unit->notes.clear();
    return {};
  }
  auto syntax = Syntax::Parse(*std::move(decoded), cancel);
  if (!syntax) {
    if (cancel.stop_requested()) return syntax.error();
    note("not checked, " + syntax.error().message + ".");
    return {};
  }
  if (syntax->depth() > kMaxSyntaxDepth) {
    note("not checked, it is nested more than " + std::to_string(kMaxSyntaxDepth) +
         " levels deep.");
    return {};
  }
  if (syntax->has_error()) {
    int line = syntax->error_line();
    const std::string path = PathAt(*unit, line);
    unit->notes.push_back(path + ":" + std::to_string(line) +
                          ": a syntax error, or a form that the parser does not know, such as "
                          "`return a, *(b)`; findings near it may be missing.");
  }
  unit->facts = std::make_unique<FileFacts>(source.path, std::move(*syntax), rules.ops());
  return {};
}

}  // namespace mpnanny::check
