#include "tools/static_check/notebook.h"

#include <algorithm>

#include "base/json.h"

namespace mpnanny::static_check {
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

// Python without what only IPython understands, line for line.
std::string WithoutMagics(const std::string& text) {
  if (text.starts_with("%%") && !text.starts_with("%%time") && !text.starts_with("%%capture")) {
    return std::string(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), '\n');
  }
  std::string out;
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(start, end - start);
    const size_t first = line.find_first_not_of(" \t");
    const bool magic = first != std::string::npos &&
                       (line[first] == '%' || line[first] == '!' || line[first] == '?');
    out += magic ? line.substr(0, first) + "pass" : line;
    if (end < text.size()) out += '\n';
    start = end + 1;
  }
  return out;
}

}  // namespace

Result<Notebook> ReadNotebook(std::string_view text) {
  const auto json = ParseJson(text);
  if (!json) return InvalidInput("it is no notebook: " + json.error().message);
  const Json* cells = nullptr;
  if (json->is_object()) {
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
    std::string code = WithoutMagics(CellText(cell));
    code += '\n';
    notebook.cells.push_back({line, number});
    line += static_cast<int>(std::count(code.begin(), code.end(), '\n'));
    notebook.text += code;
  }
  return notebook;
}

}  // namespace mpnanny::static_check
