#include "engines/runs/import/count_column.h"

#include <algorithm>
#include <cmath>

#include "engines/runs/import/characters.h"
#include "engines/runs/import/epoch_count.h"
#include "engines/runs/import/field.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMostShapes = 1'000, kMostSlots = 24, kMostShapeBytes = 400;
constexpr int64_t kFewestLines = 5;
// Of the moves from record to record: those that a counter makes, and those forward.
constexpr double kRegular = 0.9, kForward = 0.4;
constexpr double kOneStride = 0.8;  // of the moves forward, those by the usual stride
constexpr double kMost = 0.8;       // of the records without a step, those of the shape

// A number as it stands in a line.
struct Printed {
  double value = 0;
  bool counts = false;          // it may be a count by its looks
  std::optional<double> total;  // "10/200"
};

// "nan" and "inf" take the place of a number.
size_t WordOfNumber(std::string_view rest) {
  for (const std::string_view word : {"nan", "NaN", "inf", "Inf"}) {
    if (rest.starts_with(word) && (rest.size() == word.size() || !IsWordChar(rest[word.size()]))) {
      return word.size();
    }
  }
  return 0;
}

// Whether no word beside a number says what it is: "250 images", "took 3" and "acc: 40" are counts
// of something else.
bool IsAlone(std::string_view line, size_t start, size_t end) {
  const size_t before = line.substr(0, start).find_last_not_of(" \t");
  if (before != std::string_view::npos &&
      std::string_view("[(|,;>").find(line[before]) == std::string_view::npos) {
    return false;
  }
  const size_t behind = std::min(line.find_first_not_of(" \t", end), line.size() - 1);
  return !IsAlpha(line[behind]);
}

// "E100/500", where a column is as wide as its largest number.
bool IsFraction(std::string_view rest) {
  const size_t slash = rest.find_first_not_of("0123456789");
  return slash != std::string_view::npos && rest[slash] == '/' && slash + 1 < rest.size() &&
         IsDigit(rest[slash + 1]);
}

// The number at `at`, which moves behind it.
Printed ReadPrinted(std::string_view line, size_t& at) {
  const size_t start = at;
  const auto value = NumberAt(line, at);
  if (at == start) ++at;
  const char before = start > 0 ? line[start - 1] : ' ';
  const char behind = at < line.size() ? line[at] : ' ';
  const bool whole =
      line.substr(start, at - start).find_first_not_of("0123456789") == std::string_view::npos;
  // A clock or a date goes on.
  const bool of_time =
      (behind == ':' || behind == '-') && at + 1 < line.size() && IsDigit(line[at + 1]);
  const bool has_unit = IsAlpha(behind) || behind == '%' || behind == '_';
  const auto total = TotalAt(line, at);
  const bool alone = total || IsAlone(line, start, at);
  return {value.value_or(0), whole && !of_time && !has_unit && before != '/' && alone, total};
}

// The line with '#' for each of its numbers, so that lines that differ in these alone are equal;
// the first numbers go into `numbers`. A sign is of its number, and blanks fill columns.
std::string ShapeOf(std::string_view line, std::vector<Printed>& numbers) {
  std::string shape;
  numbers.clear();
  const auto add = [&](const Printed& number) {
    while (shape.ends_with(' ')) shape.pop_back();
    shape += '#';
    if (numbers.size() < kMostSlots) numbers.push_back(number);
  };
  for (size_t at = 0; at < line.size() && shape.size() < kMostShapeBytes;) {
    const char c = line[at];
    const char before = at > 0 ? line[at - 1] : ' ';
    const bool begins = !IsWordChar(before) || before == '-' || before == '/' ||
                        (IsAlpha(before) && IsFraction(line.substr(at)));
    if (const size_t word = begins ? WordOfNumber(line.substr(at)) : 0; word > 0) {
      add({std::nan(""), false, std::nullopt});
      at += word;
      continue;
    }
    if (IsDigit(c) && begins) {
      add(ReadPrinted(line, at));
      continue;
    }
    const bool blank = c == ' ' || c == '\t';
    const bool sign = (c == '-' || c == '+') && at + 1 < line.size() && IsDigit(line[at + 1]) &&
                      !IsWordChar(before);
    if (!sign && !(blank && (shape.empty() || shape.back() == ' '))) shape += blank ? ' ' : c;
    ++at;
  }
  return shape;
}

}  // namespace

void CountColumn::Add(std::string_view line, std::optional<double> epoch) {
  ++lines_;
  std::vector<Printed> numbers;
  const std::string key = ShapeOf(line, numbers);
  auto it = shapes_.find(key);
  if (it == shapes_.end()) {
    if (shapes_.size() >= kMostShapes) return;
    it = shapes_.emplace(key, Shape{0, std::vector<Slot>(numbers.size())}).first;
  }
  Shape& shape = it->second;
  for (size_t i = 0; i < std::min(shape.slots.size(), numbers.size()); ++i) {
    Slot& slot = shape.slots[i];
    const double value = numbers[i].value;
    slot.counts = slot.counts && numbers[i].counts;
    if (!slot.counts) continue;
    slot.is_epoch = slot.is_epoch && epoch && *epoch == value;
    if (shape.lines == 0) {
      slot.first = value;
    } else if (value > slot.last) {
      ++slot.grows;
      const double stride = value - slot.last;
      for (auto& [known, count] : slot.strides) {
        if (count > 0 && known != stride) continue;
        known = stride;
        ++count;
        break;
      }
    } else if (value < slot.last && value <= slot.first + slot.strides[0].first) {
      ++slot.anew;
    }
    slot.last = value;
  }
  ++shape.lines;
}

bool CountColumn::Counts(const Slot& slot, int64_t lines) {
  if (!slot.counts || slot.is_epoch) return false;
  const auto moves = static_cast<double>(lines - 1);
  int64_t usual = 0;
  for (const auto& [stride, count] : slot.strides) usual = std::max(usual, count);
  return static_cast<double>(slot.grows + slot.anew) >= kRegular * moves &&
         static_cast<double>(slot.grows) >= kForward * moves &&
         static_cast<double>(usual) >= kOneStride * static_cast<double>(slot.grows);
}

bool CountColumn::Settle() {
  const auto most = std::max_element(
      shapes_.begin(), shapes_.end(),
      [](const auto& a, const auto& b) { return a.second.lines < b.second.lines; });
  if (most == shapes_.end()) return false;
  const auto& [key, shape] = *most;
  if (shape.lines < kFewestLines) return false;
  // A log whose losses stand in records of many shapes is not known by one of them.
  const bool is_most = static_cast<double>(shape.lines) >= kMost * static_cast<double>(lines_);
  if (!of_scores() && !is_most) return false;
  shape_ = key;
  // Of several that count the one that goes on over the most records: "3 [10/200]".
  int64_t grows = 0;
  for (size_t i = 0; i < shape.slots.size(); ++i) {
    const Slot& slot = shape.slots[i];
    if (slot.grows <= grows || !Counts(slot, shape.lines)) continue;
    grows = slot.grows;
    slot_ = i;
  }
  return of_scores() || slot_.has_value();
}

bool CountColumn::Fits(std::string_view line) const {
  std::vector<Printed> numbers;
  return !shape_.empty() && ShapeOf(line, numbers) == shape_;
}

std::optional<CountColumn::Count> CountColumn::Of(std::string_view line) const {
  std::vector<Printed> numbers;
  if (!slot_ || ShapeOf(line, numbers) != shape_ || *slot_ >= numbers.size()) return std::nullopt;
  return Count{numbers[*slot_].value, numbers[*slot_].total};
}

}  // namespace mpnanny::imports
