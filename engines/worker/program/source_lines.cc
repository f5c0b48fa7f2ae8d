#include "engines/worker/program/source_lines.h"

#include <sstream>
#include <utility>

#include "engines/worker/program/allowed.h"

namespace mpnanny::worker {
namespace {

using torch::jit::SourceRange;

// Lines from the innermost outwards; keeps the first that is the user's, and the first of all.
class Search {
 public:
  bool Found() const { return !users_.empty(); }
  std::string Line() const { return users_.empty() ? first_ : users_; }

  void Add(const std::string& file, const std::string& line) {
    if (Found() || file.empty() || file[0] == '<' || file.starts_with("code/__torch__")) return;
    const std::string shown = file + ":" + line;
    if (first_.empty()) first_ = shown;
    if (IsUsersFile(file)) users_ = shown;
  }

 private:
  std::string users_, first_;
};

// A traced node keeps Python's whole stack as text: "/home/me/model.py(12): forward", innermost
// first.
void AddTraced(const std::string& text, Search& search) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !search.Found();) {
    const size_t end = line.find("): ");
    const size_t open = end == std::string::npos ? end : line.rfind('(', end);
    if (open == std::string::npos || open + 1 == end) return;
    if (line.find_first_not_of("0123456789", open + 1) != end) return;  // code, and no stack
    search.Add(line.substr(0, open), line.substr(open + 1, end - open - 1));
  }
}

void AddRange(const SourceRange& range, Search& search) {
  const SourceRange written = range.findSourceRangeThatGenerated().value_or(range);
  if (written.source()) AddTraced(written.source()->text_str().str(), search);
  if (const auto place = written.file_line_col()) {
    search.Add(std::get<0>(*place), std::to_string(std::get<1>(*place)));
  }
}

}  // namespace

std::string UsersLine(const torch::jit::Node& node, const std::vector<SourceRange>& calls) {
  Search search;
  AddRange(node.sourceRange(), search);
  if (const auto stack = node.callstack()) {
    const auto entries = (*stack)->vec();
    for (auto entry = entries.rbegin(); entry != entries.rend() && !search.Found(); ++entry) {
      AddRange(std::get<1>(*entry), search);
    }
  }
  for (auto call = calls.rbegin(); call != calls.rend() && !search.Found(); ++call) {
    AddRange(*call, search);
  }
  return search.Line();
}

std::string UsersLineOfTraceback(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> frames;
  std::istringstream lines(text);
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find(kFile);
    const size_t end = line.find(kLine, begin == std::string::npos ? 0 : begin);
    if (begin == std::string::npos || end == std::string::npos) continue;
    const size_t number = end + kLine.size();
    frames.emplace_back(line.substr(begin + kFile.size(), end - begin - kFile.size()),
                        line.substr(number, line.find_first_not_of("0123456789", number) - number));
  }
  Search search;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    search.Add(frame->first, frame->second);
  }
  return search.Line();
}

}  // namespace mpnanny::worker
