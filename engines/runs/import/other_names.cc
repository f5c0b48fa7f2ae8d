#include "engines/runs/import/other_names.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.h"
#include "engines/runs/import/field.h"
#include "engines/runs/import/table.h"

namespace mpnanny::imports {
namespace {

constexpr int64_t kMostLines = 20'000;
constexpr size_t kMostNames = 200, kShown = 6, kNameBytes = 60;
constexpr int64_t kRecurs = 3;

// The columns that a first line of a table names; none if it is no such line.
std::vector<std::string> HeaderOf(std::string_view line) {
  auto cells = Cells(line, ',');
  const bool names = std::all_of(cells.begin(), cells.end(), [](const std::string& cell) {
    return !cell.empty() && cell.size() <= kNameBytes &&
           std::isalpha(static_cast<unsigned char>(cell.front())) &&
           cell.find_first_of("=:") == std::string::npos;
  });
  return cells.size() > 1 && names ? std::move(cells) : std::vector<std::string>();
}

}  // namespace

void OtherNames::AddValue(std::string_view name, double value) {
  const Field field = FieldOf(LowerCase(name));
  if (field == Field::kEpoch || field == Field::kStep || name.size() > kNameBytes) return;
  auto it = names_.find(name);
  if (it == names_.end()) {
    if (names_.size() >= kMostNames) return;
    it = names_.emplace(name, Name{0, static_cast<int64_t>(names_.size()), value, false}).first;
  }
  ++it->second.count;
  it->second.varies = it->second.varies || value != it->second.first;
}

void OtherNames::Add(std::string_view line) {
  if (line.empty() || ++lines_ > kMostLines) return;
  if (lines_ == 1) header_ = HeaderOf(line);
  if (!header_.empty()) {
    const auto cells = Cells(line, ',');
    for (size_t i = 0; cells.size() == header_.size() && i < cells.size(); ++i) {
      if (const auto value = NumberOf(cells[i])) AddValue(header_[i], *value);
    }
    return;
  }
  numbers_.clear();
  ReadNamedNumbers(line, numbers_);
  for (const NamedNumber& number : numbers_) AddValue(number.name, number.value);
}

std::string OtherNames::Text() const {
  std::vector<std::pair<int64_t, std::string>> recur;  // in the order of the text
  for (const auto& [name, known] : names_) {
    if (known.count >= kRecurs && known.varies) {
      recur.emplace_back(known.place, '"' + EscapeControl(name, kNameBytes) + '"');
    }
  }
  if (recur.empty()) return "";
  std::sort(recur.begin(), recur.end());
  std::vector<std::string> names;
  for (auto& [place, name] : recur) {
    if (names.size() < kShown) names.push_back(std::move(name));
  }
  return "It prints " + Join(names, ", ") + (recur.size() > kShown ? " and others" : "") +
         ", and nothing by a name of those.";
}

}  // namespace mpnanny::imports
