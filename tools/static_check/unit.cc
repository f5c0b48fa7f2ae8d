#include "tools/static_check/unit.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace mpnanny::static_check {
namespace {

// A file that mentions none of these cannot use mixed precision of torch. The last ones are for
// snippets without imports.
constexpr std::array<std::string_view, 9> kFrameworks = {
    "torch",      "lightning", "accelerate",        "fastai",           "deepspeed",
    ".backward(", "autocast",  "TrainingArguments", "zero_optimization"};

bool MentionsTorch(std::string_view text) {
  return std::any_of(kFrameworks.begin(), kFrameworks.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// Bytes that are no UTF-8 become '?', one for one, so that offsets stay.
void MakeUtf8(std::string& text) {
  size_t begin = 0;
  while (begin < text.size()) {
    // Line by line: almost all lines of such a file are plain ASCII.
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (!IsUtf8(std::string_view(text).substr(begin, end - begin))) {
      for (size_t i = begin; i < end; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0x80) != 0) text[i] = '?';
      }
    }
    begin = end + 1;
  }
}

// Checks size and encoding, which are those of every text; false if it is not to be read.
bool Decode(std::string& text, size_t most, Unit* unit) {
  const auto note = [&](const std::string& what) {
    unit->notes.push_back(unit->source->path + ": " + what);
  };
  if (text.size() > most) {
    note("not checked, it is larger than " + std::to_string(most >> 20) + " MB.");
    return false;
  }
  if (text.find('\0') != std::string::npos) {
    note("not checked, it is a binary file or UTF-16 (it holds zero bytes).");
    return false;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (!IsUtf8(text)) {
    MakeUtf8(text);
    note("it is not UTF-8; characters that could not be read count as '?'.");
  }
  return true;
}

void ReadSettingsUnit(Unit* unit) {
  const std::string& path = unit->source->path;
  if (!MayHoldSettings(unit->source->text)) return;
  unit->text = unit->source->text;
  if (!Decode(unit->text, kMaxSettingsBytes, unit)) return;
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

Result<void> ReadUnit(const Source& source, const OpTable& ops, bool skip_without_torch,
                      const CancelToken& cancel, Unit* unit) {
  const auto note = [&](const std::string& what) {
    unit->notes.push_back(source.path + ": " + what);
  };
  unit->source = &source;
  if (IsSettingsPath(source.path)) {
    ReadSettingsUnit(unit);
    return {};
  }
  if (skip_without_torch && !MentionsTorch(source.text)) return {};
  std::string text;
  if (source.path.ends_with(".ipynb")) {
    auto notebook = ReadNotebook(source.text);
    if (!notebook) {
      note("not checked, " + notebook.error().message + ".");
      return {};
    }
    text = std::move(notebook->text);
    unit->cells = std::move(notebook->cells);
    if (unit->cells.empty()) return {};
  } else {
    text = source.text;
  }
  if (!Decode(text, kMaxSourceBytes, unit)) return {};
  auto syntax = Syntax::Parse(std::move(text), cancel);
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
                          ": syntax error; findings near it may be missing.");
  }
  unit->facts = std::make_unique<FileFacts>(source.path, std::move(*syntax), ops);
  return {};
}

}  // namespace mpnanny::static_check
