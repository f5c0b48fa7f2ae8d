#include "engines/runs/import/figure_store.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "engines/runs/figure_sense.h"
#include "engines/runs/import/field.h"
#include "engines/runs/named_figures.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kPartBytes = 4096;
constexpr size_t kNameBytes = 300;
// Names that were looked at and are not kept are remembered, so that they cost one look each.
constexpr size_t kRemembered = 20'000;
constexpr size_t kShown = 12;

}  // namespace

bool FigureStore::Create(sqlite3* database) {
  database_ = database;
  const bool made =
      sqlite3_exec(database,
                   "CREATE TABLE figure_name (name_id INTEGER PRIMARY KEY, name TEXT);"
                   "CREATE TABLE figure_part (part INTEGER PRIMARY KEY, name_id INTEGER,"
                   " points BLOB);"
                   "CREATE TABLE figure_cut (after_part INTEGER, name_id INTEGER, run_id INTEGER,"
                   " step INTEGER)",
                   nullptr, nullptr, nullptr) == SQLITE_OK;
  put_part_ = Writer(database, "INSERT INTO figure_part (part, name_id, points) VALUES (?1,?2,?3)");
  return made;
}

std::optional<int32_t> FigureStore::IdOf(std::string_view name) {
  const auto it = ids_.find(name);
  if (it == ids_.end()) return Learn(name);
  return it->second < 0 ? std::nullopt : std::optional(it->second);
}

std::optional<int32_t> FigureStore::Learn(std::string_view name) {
  if (name.empty() || name.size() > kNameBytes) return std::nullopt;
  const Field field = FieldOf(LowerCase(name));
  const bool known = field != Field::kNone && field != Field::kEpoch;
  const bool kept = field != Field::kStep && (names_.size() - known_ < runs::kMostFigureNames ||
                                              (known && known_ < runs::kMostKnownNames));
  if (!kept) {
    if (field != Field::kStep) ++names_left_out_;
    if (ids_.size() < kRemembered) ids_.emplace(name, -1);
    return std::nullopt;
  }
  if (names_.size() - known_ >= runs::kMostFigureNames) ++known_;
  const auto id = static_cast<int32_t>(names_.size());
  names_.emplace_back();
  names_.back().text = std::string(name);
  names_.back().has_sense = runs::SenseOf(names_.back().text) != runs::Sense::kUnknown;
  ids_.emplace(name, id);
  return id;
}

int32_t FigureStore::LinesOf(int32_t id) {
  if (const auto known = names_[static_cast<size_t>(id)].lines) return *known;
  const auto lines = static_cast<int32_t>(names_.size());
  names_[static_cast<size_t>(id)].lines = lines;
  const std::string text = std::string(runs::kLinesOf) + names_[static_cast<size_t>(id)].text;
  names_.emplace_back();
  names_.back().text = text;
  ++known_;  // no name of the log's
  return lines;
}

void FigureStore::Put(int64_t step, NamedValue figure, int64_t line) {
  if (line > 0 && names_[static_cast<size_t>(figure.name)].has_sense) {
    Put(step, {LinesOf(figure.name), static_cast<double>(line)});
  }
  if (values_ >= runs::kMostFigures) {
    ++values_left_out_;
    return;
  }
  ++values_;
  Name& name = names_[static_cast<size_t>(figure.name)];
  if (name.steps == 0) name.first = figure.value;
  if (name.steps == 0 || step != name.last_step) ++name.steps;
  name.last_step = step;
  name.varies = name.varies || figure.value != name.first;
  runs::AppendPoint(name.part, name.last, step, figure.value);
  if (name.part.size() >= kPartBytes) WritePart(figure.name);
}

void FigureStore::WritePart(int32_t id) {
  Name& name = names_[static_cast<size_t>(id)];
  if (name.part.empty()) return;
  put_part_ << ++parts_ << int64_t{id};
  put_part_.AddBlob(name.part);
  failed_ = !put_part_.Run() || failed_;
  name.part.clear();
  name.last = 0;
}

void FigureStore::WriteCut(int64_t name, int64_t run_id, int64_t step) {
  Writer cut(database_, "INSERT INTO figure_cut VALUES (?1,?2,?3,?4)");
  cut << parts_ << name << run_id << step;
  failed_ = !cut.Run() || failed_;
}

void FigureStore::GoBack(int64_t step, int64_t run_id) {
  for (size_t i = 0; i < names_.size(); ++i) WritePart(static_cast<int32_t>(i));
  WriteCut(runs::kEveryName, run_id, step);
}

void FigureStore::GoBack(int32_t name, int64_t step) {
  WritePart(name);
  WriteCut(name, 0, step);
}

bool FigureStore::Finish() {
  Writer names(database_, "INSERT INTO figure_name VALUES (?1,?2)");
  for (size_t i = 0; i < names_.size(); ++i) {
    WritePart(static_cast<int32_t>(i));
    names << static_cast<int64_t>(i) << std::string_view(names_[i].text);
    failed_ = !names.Run() || failed_;
  }
  put_part_ = {};
  return !failed_;
}

std::string FigureStore::OthersText() const {
  // Of the names that stand for one figure the best is read as that figure.
  std::map<Field, const Name*> best;
  const auto rank = [](Field field, const Name& name) {
    return RankOf(field, LowerCase(name.text));
  };
  for (const Name& name : names_) {
    if (runs::IsLinesOf(name.text)) continue;
    const Field field = FieldOf(LowerCase(name.text));
    const Name*& first = best[field];
    if (!first || rank(field, name) > rank(field, *first)) first = &name;
  }
  // What stands once, or is always the same, is a setting, a host or a place in code.
  constexpr int64_t kRecurs = 3;
  int64_t most = 0;
  for (const Name& name : names_) most = std::max(most, name.steps);
  std::vector<std::string> others;
  for (const Name& name : names_) {
    if (runs::IsLinesOf(name.text)) continue;
    const bool setting = !name.varies && name.first == std::floor(name.first);
    if (most >= kRecurs && (name.steps < kRecurs || setting)) continue;
    const Field field = FieldOf(LowerCase(name.text));
    if (field == Field::kNone || (best[field] != &name && field != Field::kEpoch)) {
      others.push_back(EscapeControl(name.text, 60));
    }
  }
  std::string text;
  if (!others.empty()) {
    const size_t more = others.size() > kShown ? others.size() - kShown : 0;
    others.resize(others.size() - more);
    text = "Other figures, kept under their names: " + EscapeControl(Join(others, ", "), 600) +
           (more > 0 ? " and " + std::to_string(more) + " more" : "") + ".";
  }
  if (names_left_out_ > 0) {
    text += (text.empty() ? "" : " ") + std::string("Of more than ") +
            std::to_string(runs::kMostFigureNames) + " names " +
            runs::Count(names_left_out_, "other") + " were left out.";
  }
  if (values_left_out_ > 0) {
    text += (text.empty() ? "" : " ") + runs::Count(values_left_out_, "value") +
            " of named figures beyond " + std::to_string(runs::kMostFigures) + " were left out.";
  }
  return text;
}

}  // namespace mpnanny::imports
