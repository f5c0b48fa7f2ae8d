#include "engines/check/inputs/notebook.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "engines/check/inputs/decode.h"

namespace mpnanny::check {
namespace {

std::string CellText(const Json& cell) {
  auto source = cell.find("source");
  if (source == cell.end()) source = cell.find("input");  // nbformat 3
  if (source == cell.end()) return "";
  if (source->is_string()) return source->get<std::string>();
  std::string text;
  if (source->is_array()) {
    for (const Json& line : *source) {
      if (line.is_string()) text += line.get<std::string>();
    }
  }
  return text;
}

// Cells whose first line begins with one of these hold Python below it.
constexpr std::array<std::string_view, 8> kPythonMagics = {
    "%%time", "%%timeit", "%%capture", "%%prun", "%%memit", "%%mprun", "%%python", "%%python3"};

// Where a line of Python stands: inside brackets or a string a '%' or '!' is no magic.
class LineState {
 public:
  bool AtStatement() const { return depth_ == 0 && quote_.empty() && !continued_; }

  void Read(std::string_view line) {
    continued_ = false;
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (c == '\\') {
        if (i + 1 == line.size()) continued_ = true;
        ++i;
      } else if (!quote_.empty()) {
        if (line.substr(i).starts_with(quote_)) {
          i += quote_.size() - 1;
          quote_.clear();
        }
      } else if (c == '\'' || c == '"') {
        const std::string three(3, c);
        quote_ = line.substr(i).starts_with(three) ? three : std::string(1, c);
        i += quote_.size() - 1;
      } else if (c == '#') {
        break;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth_;
      } else if (c == ')' || c == ']' || c == '}') {
        depth_ = std::max(0, depth_ - 1);
      }
    }
    if (quote_.size() == 1 && !continued_) quote_.clear();  // such a string ends with its line
  }

 private:
  int depth_ = 0;
  std::string quote_;
  bool continued_ = false;
};

// The column at which a line stops being Python: of a magic, a shell command, a question; npos for
// a line that is Python. `x = !ls` and `x = %time f()` are half Python.
size_t MagicAt(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return first;
  const size_t last = line.find_last_not_of(" \t\r");
  if (line[first] == '%' || line[first] == '!' || line[first] == '?') return first;
  const auto is_name = [&](size_t begin, size_t end, std::string_view also) {
    return std::all_of(line.begin() + static_cast<std::ptrdiff_t>(begin),
                       line.begin() + static_cast<std::ptrdiff_t>(end), [&](char c) {
                         return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                                also.find(c) != std::string_view::npos;
                       });
  };
  if (line[last] == '?' && is_name(first, last, "_.?")) return first;
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos || !is_name(first, equals, "_., \t"))
    return std::string_view::npos;
  const size_t value = line.find_first_not_of(" \t", equals + 1);
  const bool magic =
      value != std::string_view::npos && value + 1 < line.size() &&
      ((line[value] == '!' && line[value + 1] != '=') ||
       (line[value] == '%' && std::isalpha(static_cast<unsigned char>(line[value + 1])) != 0));
  return magic ? value : std::string_view::npos;
}

// Python without what only IPython understands, line for line.
std::string WithoutMagics(const std::string& text) {
  if (text.starts_with("%%")) {
    const std::string word = text.substr(0, text.find_first_of(" \t\r\n"));
    if (std::find(kPythonMagics.begin(), kPythonMagics.end(), word) == kPythonMagics.end()) {
      return std::string(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), '\n');
    }
  }
  std::string out;
  LineState state;
  bool magic_goes_on = false;  // after a backslash at its end
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(start, end - start);
    const size_t magic = magic_goes_on ? 0 : state.AtStatement() ? MagicAt(line) : line.npos;
    if (magic == line.npos) {
      out += line;
      state.Read(line);
    } else {
      const bool statement = magic <= line.find_first_not_of(" \t");
      out += magic_goes_on ? "" : line.substr(0, magic) + (statement ? "pass" : "None");
      magic_goes_on = line.ends_with('\\') || line.ends_with("\\\r");
    }
    if (end < text.size()) out += '\n';
    start = end + 1;
  }
  return out;
}

// The language that the notebook says it is in; Python where it does not say.
std::string Language(const Json& notebook) {
  const auto metadata = notebook.find("metadata");
  if (metadata == notebook.end() || !metadata->is_object()) return "python";
  for (const auto& [group, key] :
       {std::pair{"language_info", "name"}, {"kernelspec", "language"}}) {
    const auto found = metadata->find(group);
    if (found == metadata->end() || !found->is_object()) continue;
    const auto name = found->find(key);
    if (name != found->end() && name->is_string()) return name->get<std::string>();
  }
  return "python";
}

}  // namespace

Result<Notebook> ReadNotebook(std::string_view text) {
  const auto json = ParseJson(text);
  if (!json) return InvalidInput("it is no notebook: " + json.error().message);
  const Json* cells = nullptr;
  if (json->is_object()) {
    const std::string language = Language(*json);
    if (!language.starts_with("python") && !language.starts_with("Python") &&
        language != "ipython") {
      return InvalidInput("it is a notebook in " + EscapeControl(language, 40) + ", not in Python");
    }
    if (const auto it = json->find("cells"); it != json->end()) {
      cells = &*it;
    } else if (const auto sheets = json->find("worksheets");
               sheets != json->end() && sheets->is_array() && !sheets->empty() &&
               (*sheets)[0].contains("cells")) {
      cells = &(*sheets)[0]["cells"];
    }
  }
  if (cells == nullptr || !cells->is_array())
    return InvalidInput("it is no notebook: there is no list \"cells\"");
  Notebook notebook;
  int line = 1;
  int number = 0;
  for (const Json& cell : *cells) {
    ++number;
    if (!cell.is_object() || cell.value("cell_type", Json()) != "code") continue;
    std::string source = CellText(cell);
    EndLines(source);  // here already: it is lines that are counted
    std::string code = WithoutMagics(source);
    code += '\n';
    notebook.cells.push_back({line, number});
    line += static_cast<int>(std::count(code.begin(), code.end(), '\n'));
    notebook.text += code;
  }
  return notebook;
}

}  // namespace mpnanny::check
