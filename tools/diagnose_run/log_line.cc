#include "tools/diagnose_run/log_line.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

bool IsAlpha(char c) { return std::isalpha(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool IsWordChar(char c) {
  return IsAlpha(c) || IsDigit(c) || c == '_' || c == '/' || c == '.' || c == '-';
}

std::string LastWord(const std::string& key) { return key.substr(key.rfind(' ') + 1); }

// What a key stands for, by its words. Validation figures are not the training's course.
Field FieldOf(const std::string& key) {
  const auto has = [&](const char* word) { return key.find(word) != std::string::npos; };
  if (has("eval") || has("valid") || has("val_") || has("val/") || has("test") || has("best")) {
    return Field::kNone;
  }
  if (has("scale"))
    return has("loss") || key == "scale" || has("grad") ? Field::kScale : Field::kNone;
  if (has("norm")) return has("grad") || key == "gnorm" ? Field::kGradNorm : Field::kNone;
  if (has("loss")) return Field::kLoss;
  if (key == "lr" || key.ends_with("/lr") || key.ends_with("_lr") || has("learning rate") ||
      has("learning_rate")) {
    return Field::kLr;
  }
  if (key == "epoch") return Field::kEpoch;
  if (key == "step" || key == "iter" || key == "iteration" || key == "it" || key == "global_step" ||
      key == "num_updates" || key.ends_with(" step") || key.ends_with(" iteration") ||
      key.ends_with("/step") || key.ends_with("/global_step")) {
    return Field::kStep;
  }
  return Field::kNone;
}

// How well a key names its field; the best of a line wins, of equals the first. The total stands
// for the loss, a component ("loss_cls", "aux loss") only where there is no total.
int RankOf(Field field, const std::string& key) {
  if (field == Field::kStep) return LastWord(key).ends_with("global_step") ? 1 : 0;
  if (field != Field::kLoss) return 0;
  for (const char* total : {"loss", "train_loss", "train/loss", "total_loss", "lm loss", "lm_loss",
                            "train loss", "training loss", "training_loss", "total loss"}) {
    if (key == total || key.ends_with(std::string(" ") + total)) {
      // "aux loss" ends with "loss" as well and is a component.
      return key == total || std::string_view(total) != "loss" ? 2 : 1;
    }
  }
  return 0;
}

// A number at `i`, in any spelling of nan and inf ("NaN", "-inf", "nan.0", "1.#QNAN",
// "tensor(nan)"), but no word that begins like one ("InfoNCE", "inf_guard"); moves `i` past it.
std::optional<double> NumberAt(std::string_view line, size_t& i) {
  size_t at = i;
  if (line.substr(at).starts_with("tensor(")) at += 7;
  const bool negative = at < line.size() && line[at] == '-';
  if (at < line.size() && (line[at] == '-' || line[at] == '+')) ++at;
  const std::string word = LowerCase(line.substr(at, 9));
  const auto ends_word = [&](size_t length) {
    const size_t end = at + length;
    if (end >= line.size()) return true;
    if (line[end] == '-') return end + 1 >= line.size() || !IsAlpha(line[end + 1]);
    return !IsAlpha(line[end]) && !IsDigit(line[end]) && line[end] != '_';
  };
  for (const char* spelling : {"nan", "inf", "infinity", "1.#qnan", "1.#ind", "1.#inf"}) {
    const std::string_view s(spelling);
    if (!word.starts_with(s) || !ends_word(s.size())) continue;
    i = at + s.size();
    if (s.find("inf") != std::string_view::npos) return negative ? -kInf : kInf;
    return kNan;
  }
  // from_chars takes the beginning of a word ("inf" of "InfoNCE") for a number.
  if (at >= line.size() || (!IsDigit(line[at]) && line[at] != '.')) return std::nullopt;
  double value = 0;
  const char* const begin = line.data() + at;
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), value);
  if (error == std::errc::invalid_argument) return std::nullopt;
  i = static_cast<size_t>(end - line.data());
  if (error == std::errc::result_out_of_range) {
    // Beyond double either way; "e-" tells which.
    const std::string_view written(begin, static_cast<size_t>(end - begin));
    value = written.find("e-") != std::string_view::npos ? 0.0 : kInf;
  }
  return negative ? -value : value;
}

// As NumberAt; a step may be written with thousands separators ("12,000").
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

// Figures as they are found, the best-named of each field.
class Collector {
 public:
  void Add(Field field, const std::string& key, double value) {
    const int rank = RankOf(field, key);
    if (field == Field::kLoss && !std::isfinite(value) && !bad_part_) bad_part_ = value;
    const auto [it, added] = found_.try_emplace(field, rank, value);
    if (!added && rank > it->second.first) it->second = {rank, value};
  }
  Figures Take() const {
    Figures figures;
    for (const auto& [field, named] : found_) {
      (field == Field::kEpoch      ? figures.epoch
       : field == Field::kStep     ? figures.step
       : field == Field::kLoss     ? figures.loss
       : field == Field::kGradNorm ? figures.grad_norm
       : field == Field::kScale    ? figures.scale
                                   : figures.lr) = named.second;
    }
    if (figures.loss && std::isfinite(*figures.loss)) figures.bad_part = bad_part_;
    return figures;
  }

 private:
  std::map<Field, std::pair<int, double>> found_;
  std::optional<double> bad_part_;
};

// Every "key=value", "key: value" and "key value" of a line whose key stands for a field.
Figures Pairs(std::string_view line) {
  Collector found;
  for (size_t i = 0; i < line.size();) {
    if (!IsAlpha(line[i])) {
      ++i;
      continue;
    }
    // A key is one word, or words with single blanks ("lm loss", "learning rate"), up to '=', ':'
    // or the value.
    const size_t start = i;
    // A blank ends it where a digit, "nan" or "inf" follows ("loss nan").
    while (i < line.size()) {
      if (line[i] == ' ') {
        size_t next = i + 1;
        const bool word = next < line.size() && IsAlpha(line[next]);
        if (!word || NumberAt(line, next)) break;
      } else if (!IsWordChar(line[i])) {
        break;
      }
      ++i;
    }
    const std::string key = LowerCase(line.substr(start, i - start));
    size_t value_at = i;
    while (value_at < line.size() && (line[value_at] == ' ' || line[value_at] == '"' ||
                                      line[value_at] == '\'' || line[value_at] == '\t')) {
      ++value_at;
    }
    const bool separator =
        value_at < line.size() && (line[value_at] == '=' || line[value_at] == ':');
    if (separator) {
      ++value_at;
      while (value_at < line.size() &&
             (line[value_at] == ' ' || line[value_at] == '"' || line[value_at] == '\'' ||
              line[value_at] == '\t' || line[value_at] == '[')) {
        ++value_at;
      }
    }
    if (value_at >= line.size()) break;
    if (separator || value_at > i) {
      // Without a separator only the last word is the key ("at step 12").
      Field field = FieldOf(separator ? key : LastWord(key));
      if (field == Field::kNone) field = FieldOf(LastWord(key));
      size_t end = value_at;
      if (field != Field::kNone) {
        if (const auto value = field == Field::kStep ? CountAt(line, end) : NumberAt(line, end)) {
          found.Add(field, key, *value);
          i = end;
          continue;
        }
      }
    }
    i = std::max(i, start + 1);
  }
  return found.Take();
}

// True if the word before `at` makes the phrase a condition or a plan ("stop if loss is nan").
bool IsConditional(const std::string& lower, size_t at) {
  std::string before = lower.substr(0, at);
  while (!before.empty() && before.back() == ' ') before.pop_back();
  std::string word = before.substr(before.find_last_of(" \t(\"'") + 1);
  for (const char* article : {"the", "a", "any", "training", "train"}) {
    if (word != article) continue;
    before.resize(before.size() - word.size());
    while (!before.empty() && before.back() == ' ') before.pop_back();
    word = before.substr(before.find_last_of(" \t(\"'") + 1);
    break;
  }
  for (const char* condition : {"if", "when", "whenever", "unless", "until", "in", "for", "on",
                                "skip", "ignore", "no", "check", "whether"}) {
    if (word == condition) return true;
  }
  return false;
}

// A loop that stops says so in words: "Loss is nan, stopping training".
std::optional<double> LossInWords(std::string_view line, const std::string& lower) {
  for (const char* phrase : {"loss is ", "loss was ", "loss became "}) {
    const size_t at = lower.find(phrase);
    if (at == std::string::npos || IsConditional(lower, at)) continue;
    size_t end = at + std::string_view(phrase).size();
    if (const auto value = NumberAt(line, end); value && !std::isfinite(*value)) return value;
  }
  for (const char* phrase : {"non-finite loss", "nonfinite loss"}) {
    const size_t at = lower.find(phrase);
    if (at == std::string::npos || IsConditional(lower, at)) continue;
    const size_t end = at + std::string_view(phrase).size();
    if (end >= lower.size() || !IsWordChar(lower[end]) || lower[end] == '.') return kNan;
  }
  return std::nullopt;
}

// The scale that a scaler's sentence says it goes on with.
std::optional<double> ScaleInWords(std::string_view line, const std::string& lower) {
  for (const char* phrase : {"reducing loss scale to", "setting loss scale to", "reducing to"}) {
    const size_t at = lower.find(phrase);
    if (at == std::string::npos) continue;
    size_t end = at + std::string_view(phrase).size();
    while (end < line.size() && (line[end] == ' ' || line[end] == ':')) ++end;
    if (end >= line.size()) continue;
    const auto value = NumberAt(line, end);
    if (value &&
        (std::string_view(phrase) != "reducing to" || lower.find("scale") != std::string::npos)) {
      return value;
    }
  }
  return std::nullopt;
}

bool SaysSkipping(const std::string& lower) {
  for (const char* phrase : {"skipping step", "skipped step", "gradient overflow detected"}) {
    if (lower.find(phrase) != std::string::npos) return true;
  }
  return false;
}

std::vector<std::string_view> Cells(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t start = 0; start <= line.size();) {
    const size_t end = std::min(line.find(',', start), line.size());
    std::string_view cell = line.substr(start, end - start);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"')) cell.remove_suffix(1);
    cells.push_back(cell);
    start = end + 1;
  }
  return cells;
}

}  // namespace

Figures ReadFigures(std::string_view line) {
  const std::string lower = LowerCase(line);
  // The trainer's closing line gives the mean loss of the whole training, which is no step's.
  if (lower.find("train_runtime") != std::string::npos) return {};
  Figures figures = Pairs(line);
  if (!figures.loss) figures.loss = LossInWords(line, lower);
  if (const auto scale = ScaleInWords(line, lower)) figures.scale = scale;
  figures.skipping = SaysSkipping(lower);
  return figures;
}

std::vector<Column> ReadHeader(std::string_view line) {
  std::vector<Column> columns;
  bool useful = false;
  for (const std::string_view cell : Cells(line)) {
    if (cell.empty() ||
        !std::all_of(cell.begin(), cell.end(), [](char c) { return IsWordChar(c) || c == ' '; })) {
      return {};
    }
    size_t at = 0;
    if (NumberAt(cell, at)) return {};
    std::string key = LowerCase(cell);
    const Field field = FieldOf(key);
    useful = useful || field == Field::kLoss || field == Field::kGradNorm;
    columns.push_back({std::move(key), field});
  }
  return useful && columns.size() > 1 ? columns : std::vector<Column>();
}

std::optional<Figures> ReadCells(std::string_view line, const std::vector<Column>& columns) {
  const std::vector<std::string_view> cells = Cells(line);
  if (cells.size() != columns.size()) return std::nullopt;
  Collector found;
  for (size_t i = 0; i < cells.size(); ++i) {
    size_t at = 0;
    if (columns[i].field == Field::kNone || cells[i].empty()) continue;
    if (const auto value = NumberAt(cells[i], at)) {
      found.Add(columns[i].field, columns[i].key, *value);
    }
  }
  return found.Take();
}

}  // namespace mpnanny::diagnose_run
