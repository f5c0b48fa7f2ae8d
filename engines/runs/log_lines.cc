#include "engines/runs/log_lines.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/characters.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kShownBytes = 160;
constexpr size_t kMostLineBytes = 2'000;
constexpr size_t kMostNamed = 4;

// A language's words around the number of a step, and those around that of a line.
struct StepWords {
  std::string_view before, after, line_before, line_after;
};
constexpr StepWords kStepWords[] = {{"step ", "", "line ", ""}, {"第 ", " 步", "第 ", " 行"}};

// Whether what stands at `at` is a quotation, which stays as it is.
class Quotations {
 public:
  explicit Quotations(std::string_view text) : text_(text) {}

  // `at` never falls.
  bool Hold(size_t at) {
    for (; at_ < at; ++at_) {
      const std::string_view rest = text_.substr(at_);
      if (rest[0] == '\n') {
        inside_ = false;
      } else if (rest[0] == '"' || rest[0] == '`') {
        inside_ = !inside_;
      } else if (rest.starts_with("“") || rest.starts_with("”")) {
        inside_ = rest.starts_with("“");
      }
    }
    return inside_;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  bool inside_ = false;
};

}  // namespace

LogLines::LogLines(const Source& source, const std::string* pasted)
    : run_id_(source.run.handle.run_id.value_or(1)) {
  if (source.format.empty() || !source.database->HasColumn("step", "log_line")) return;
  database_ = source.database;
  path_ = source.texts.empty() ? source.run.handle.path : source.texts.front();
  if (pasted) pasted_ = std::make_shared<const std::string>(*pasted);
  // Single records between bars of progress may say none: what most say is what a reader looks for.
  auto unsaid = database_->Prepare(
      "SELECT 4 * sum(NOT says_its_step) >= count(*) FROM step WHERE run_id=?1 AND log_line IS NOT "
      "NULL");
  if (!unsaid) return;
  const auto found = unsaid->Bind(1, run_id_).Next();
  say_their_steps_ = !found || !*found || unsaid->IntOr(0, 0) == 0;
}

std::optional<int64_t> LogLines::Of(int64_t step) const {
  if (!database_) return std::nullopt;
  auto row = database_->Prepare("SELECT log_line FROM step WHERE run_id=?1 AND step=?2");
  if (!row) return std::nullopt;
  const auto found = row->Bind(1, run_id_).Bind(2, step).Next();
  return found && *found ? row->Int(0) : std::nullopt;
}

std::vector<LogLines::Line> LogLines::NamedIn(std::string_view text) const {
  std::vector<Line> named;
  if (!pasted_ && path_.empty()) return named;
  for (size_t at = 0; at < text.size() && named.size() < kMostNamed; ++at) {
    const std::string_view rest = text.substr(at);
    const bool step = rest.starts_with("step ");
    // 'File "train.py", line 68' names a line of code.
    const bool of_code = text.substr(0, at).ends_with("\", ");
    if (of_code || !(step || rest.starts_with("line "))) continue;
    int64_t number = 0;
    const char* const from = rest.data() + 5;
    const auto [end, error] = std::from_chars(from, rest.data() + rest.size(), number);
    const auto line = error != std::errc() ? std::nullopt
                      : step               ? Of(number)
                                           : std::optional(number);
    const bool known = line && std::any_of(named.begin(), named.end(),
                                           [&](const Line& each) { return each.number == *line; });
    if (line && !known) named.push_back({*line, ""});
  }
  ReadTexts(named);
  std::erase_if(named, [](const Line& line) { return line.text.empty(); });
  return named;
}

void LogLines::ReadTexts(std::vector<Line>& named) const {
  if (named.empty()) return;
  int64_t last = 0;
  for (const Line& line : named) last = std::max(last, line.number);
  auto source = pasted_ ? Result<imports::ByteSource>(imports::ByteSource::OfText(*pasted_))
                        : imports::ByteSource::OfFile(path_);
  if (!source) return;
  imports::LineReader lines(*std::move(source), kMostLineBytes);
  while (auto next = lines.Next()) {
    if (lines.number() > last || !database_->cancel().Check()) return;
    const size_t start = std::min(next->find_first_not_of(" \t"), next->size());
    if (start == next->size()) continue;
    for (Line& line : named) {
      // What a bar of progress draws stands in one line: the last of it is what a reader sees.
      if (line.number == lines.number()) {
        line.text = EscapeControl(next->substr(start), kShownBytes);
      }
    }
  }
}

std::string LogLines::Located(std::string text) const {
  if (say_their_steps_) return text;
  for (const StepWords& words : kStepWords) {
    std::string located;
    size_t done = 0;
    Quotations quotations(text);
    for (size_t at = text.find(words.before); at != std::string::npos;
         at = text.find(words.before, at + 1)) {
      if (at < done || quotations.Hold(at) ||
          (at > 0 && imports::IsAlpha(words.before[0]) && imports::IsAlpha(text[at - 1])))
        continue;
      const char* number = text.data() + at + words.before.size();
      int64_t step = 0;
      const auto [end, error] = std::from_chars(number, text.data() + text.size(), step);
      const std::string_view behind(end);
      const bool fraction = behind.size() > 1 && behind[0] == '.' && imports::IsDigit(behind[1]);
      if (error != std::errc() || fraction || !behind.starts_with(words.after)) continue;
      const auto line = Of(step);
      if (!line) continue;
      located.append(text, done, at - done).append(words.line_before);
      located.append(std::to_string(*line)).append(words.line_after);
      done = static_cast<size_t>(end - text.data()) + words.after.size();
    }
    text = located.append(text, done);
  }
  return text;
}

void LogLines::Locate(Json& json) const {
  if (say_their_steps_) return;
  if (json.is_string()) {
    json = Located(json.get<std::string>());
  } else if (json.is_structured()) {
    for (Json& each : json) Locate(each);
  }
}

}  // namespace mpnanny::runs
