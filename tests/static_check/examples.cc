#include "tests/static_check/examples.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>

#include "base/data_files.h"
#include "engines/check/shared_rules.h"

namespace mpnanny::check {
namespace {

// Every `# error: [id]` or `# candidate: [id]` of a line (in JSON `// error: [id]`); several may
// stand on one.
void ReadMarks(const std::string& line, int number, Example* example) {
  for (const char* kind : {"error", "warning", "candidate"}) {
    const std::string mark = std::string(" ") + kind + ": [";
    std::set<std::string>& marks =
        std::string_view(kind) == "candidate" ? example->candidates : example->expected;
    for (size_t at = line.find(mark); at != std::string::npos; at = line.find(mark, at + 1)) {
      if (at == 0 || (line[at - 1] != '#' && line[at - 1] != '/')) continue;
      const size_t begin = at + mark.size();
      marks.insert(std::to_string(number) + " " + kind + " " +
                   line.substr(begin, line.find(']', begin) - begin));
    }
  }
}

// Byte offset of a 1-based line and code-point column.
size_t OffsetOf(const std::string& text, int line, int column) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  for (int i = 1; i < column; ++i) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  }
  return at;
}

}  // namespace

std::vector<Example> ReadExamples(const std::string& body) {
  static const std::map<std::string, std::string> kPaths = {{"```python", "example.py"},
                                                            {"```json", "example.json"},
                                                            {"```yaml", "example.yaml"},
                                                            {"```sh", "example.sh"}};
  std::vector<Example> examples;
  std::istringstream in(body);
  std::string line;
  std::string section;
  bool inside = false;
  int number = 0;
  int line_in_code = 0;
  while (std::getline(in, line)) {
    ++number;
    if (inside) {
      if (line == "```") {
        inside = false;
        continue;
      }
      ReadMarks(line, ++line_in_code, &examples.back());
      examples.back().code += line + "\n";
    } else if (const auto path = kPaths.find(line); path != kPaths.end()) {
      inside = true;
      line_in_code = 0;
      examples.push_back({section, number, path->second, "", {}, {}});
    } else if (line.starts_with("## ")) {
      section = line.substr(3);
    }
  }
  return examples;
}

const RuleSet& Rules() {
  static const std::shared_ptr<const RuleSet> rules = [] {
    const auto data = DataFiles::Create();
    EXPECT_TRUE(data) << data.error().Text();
    auto loaded = SharedRules(*data);
    if (!loaded) {
      ADD_FAILURE() << loaded.error().Text();
      std::abort();
    }
    return *loaded;
  }();
  return *rules;
}

Report CheckCode(const std::string& code, const std::string& path) {
  auto report = Check({{path, code}}, {}, Rules(), {});
  EXPECT_TRUE(report) << report.error().Text();
  return report ? *report : Report{};
}

std::set<std::string> Found(const Report& report) {
  std::set<std::string> found;
  for (const Finding& finding : report.findings) {
    found.insert(std::to_string(finding.line) + " " + SeverityName(finding.severity) + " " +
                 finding.rule);
  }
  return found;
}

std::string Apply(const std::string& code, const Finding& finding) {
  std::vector<Edit> edits = finding.edits;
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return std::pair(a.line, a.column) > std::pair(b.line, b.column);
  });
  std::string text = code;
  for (const Edit& edit : edits) {
    const size_t begin = OffsetOf(text, edit.line, edit.column);
    text.replace(begin, OffsetOf(text, edit.end_line, edit.end_column) - begin, edit.text);
  }
  return text;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace mpnanny::check
