#include "engines/runs/import/epoch_count.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "engines/runs/import/characters.h"
#include "engines/runs/import/field.h"

namespace mpnanny::imports {
namespace {

// How far an epoch has come: "[3][50/294]", "[3/300][370/1251]", "Epoch: [3][50]",
// "Epoch:[1/1](1250/56608)", "Epoch 3/10 … batch 128/469", "[epoch 3] [batch 5/10]".
class EpochReader {
 public:
  explicit EpochReader(std::string_view line) : line_(line) {}

  void Read(const std::string& lower, Figures& figures) {
    size_t at = lower.find("epoch");
    const bool named = at != std::string::npos;
    at_ = named ? at + 5 : line_.find('[');
    if (at_ == std::string_view::npos) return;
    if (named) Skip(" :#=");
    do {
      const size_t start = at_;
      const bool bracket = Next('[');
      const auto epoch = Number();
      const bool closed = epoch && (!Next('/') || Number()) && (!bracket || Next(']'));
      if (closed && (named || bracket) && Steps(named, figures)) {
        figures.epoch = epoch;
        return;
      }
      at_ = named ? std::string_view::npos : line_.find('[', start + 1);
    } while (at_ != std::string_view::npos);
  }

 private:
  void Skip(std::string_view what) {
    while (at_ < line_.size() && what.find(line_[at_]) != std::string_view::npos) ++at_;
  }
  bool Next(char c) {
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<double> Number() {
    Skip(" ");
    const size_t start = at_;
    while (at_ < line_.size() && IsDigit(line_[at_])) ++at_;
    const auto number = NumberOf(line_.substr(start, at_ - start));
    Skip(" ");
    return number;
  }
  // What follows an epoch: a count in brackets, with its total or behind a named epoch without, or
  // "128/469" behind a word for it.
  bool Steps(bool named, Figures& figures) {
    Skip(" ,|-;:]\t");
    const bool bracket = Next('[') || Next('(');
    constexpr size_t kWordBytes = 12;
    const size_t word = at_;
    while (at_ < line_.size() && at_ - word < kWordBytes && IsAlpha(line_[at_])) ++at_;
    const bool says = at_ > word;
    if (says && !named) return false;
    Skip(" :#=");
    const bool inner = says && (Next('[') || Next('('));
    const auto done = Number();
    if (!done) return false;
    const auto total = Next('/') ? Number() : std::nullopt;
    if (!total && !(bracket && named && !says)) return false;
    if (inner && !Next(']') && !Next(')')) return false;
    if (bracket && !Next(']') && !Next(')')) return false;
    figures.step = done;
    figures.step_total = total;
    figures.step_key = "[]";
    return true;
  }

  std::string_view line_;
  size_t at_ = 0;
};

// "TRAIN Batch 0100/1314", without an epoch.
void ReadBatchCount(const std::string& lower, Figures& figures) {
  const std::string_view line(lower);
  for (const std::string_view word : {"batch", "iteration", "iter", "step"}) {
    const size_t found = line.find(word);
    if (found == std::string_view::npos || (found > 0 && IsAlpha(line[found - 1]))) continue;
    const size_t start =
        std::min(line.find_first_not_of(" :#=[(", found + word.size()), line.size());
    size_t at = start;
    while (at < line.size() && IsDigit(line[at])) ++at;
    if (at == start || at >= line.size() || line[at] != '/') continue;
    const size_t total = at + 1;
    size_t end = total;
    while (end < line.size() && IsDigit(line[end])) ++end;
    if (end == total) continue;
    figures.step = NumberOf(line.substr(start, at - start));
    figures.step_total = NumberOf(line.substr(total, end - total));
    figures.step_key = "[]";
    return;
  }
}

}  // namespace

void ReadEpochCount(std::string_view line, const std::string& lower, Figures& figures) {
  EpochReader(line).Read(lower, figures);
  if (!figures.step) ReadBatchCount(lower, figures);
}

std::optional<double> CountOfBatches(std::string_view line) {
  size_t at = std::min(line.find_first_not_of(' '), line.size());
  const size_t start = at;
  while (at < line.size() && IsDigit(line[at])) ++at;
  const auto done = NumberOf(line.substr(start, at - start));
  if (!done || at >= line.size() || line[at] != '/') return std::nullopt;
  const size_t total = ++at;
  while (at < line.size() && IsDigit(line[at])) ++at;
  if (at == total) return std::nullopt;
  const std::string_view rest = line.substr(at);
  const bool bar = rest.starts_with(" [=") || rest.starts_with(" [>") || rest.starts_with(" [.") ||
                   rest.starts_with(" \xE2\x94\x81");
  return bar ? done : std::nullopt;
}

std::optional<double> CountAt(std::string_view line, size_t& i) {
  const size_t start = i;
  auto value = NumberAt(line, i);
  if (!value || i - start > 3 || line[start] == '0' || !IsDigit(line[start])) return value;
  const auto group = [&](size_t at) {
    return at + 3 < line.size() && line[at] == ',' && IsDigit(line[at + 1]) &&
           IsDigit(line[at + 2]) && IsDigit(line[at + 3]) &&
           (at + 4 >= line.size() || !IsWordChar(line[at + 4]));
  };
  while (group(i)) {
    double thousands = 0;
    std::from_chars(line.data() + i + 1, line.data() + i + 4, thousands);
    value = *value * 1000 + thousands;
    i += 4;
  }
  return value;
}

double UnitAt(std::string_view line, size_t& i) {
  const char c = i < line.size() ? line[i] : ' ';
  const double unit = c == 'K' || c == 'k' ? 1e3 : c == 'M' ? 1e6 : 1;
  if (unit == 1 || (i + 1 < line.size() && IsWordChar(line[i + 1]))) return 1;
  ++i;
  return unit;
}

std::optional<double> TotalAt(std::string_view line, size_t i) {
  while (i < line.size() && line[i] == ' ') ++i;
  if (i >= line.size() || line[i] != '/') return std::nullopt;
  ++i;
  while (i < line.size() && line[i] == ' ') ++i;
  return i < line.size() && IsDigit(line[i]) ? NumberAt(line, i) : std::nullopt;
}

}  // namespace mpnanny::imports
