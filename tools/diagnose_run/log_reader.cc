#include "tools/diagnose_run/log_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace mpnanny::diagnose_run {
namespace {

constexpr size_t kMaxLineBytes = 20'000;
constexpr size_t kMaxRows = 1'000'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

enum class Field { kNone, kStep, kLoss, kGradNorm, kScale, kLr };

bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/' || c == '.' ||
         c == '-';
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// What a key stands for, by its words. Validation figures are not the training's course.
Field FieldOf(const std::string& key) {
  const auto has = [&](const char* word) { return key.find(word) != std::string::npos; };
  if (has("eval") || has("valid") || has("val_") || has("val/") || has("test") || has("best")) {
    return Field::kNone;
  }
  if (has("scale"))
    return has("loss") || key == "scale" || has("grad") ? Field::kScale : Field::kNone;
  if (has("norm")) return has("grad") || key == "gnorm" ? Field::kGradNorm : Field::kNone;
  if (key == "gnorm") return Field::kGradNorm;
  if (has("loss")) return Field::kLoss;
  if (key == "lr" || key.ends_with("/lr") || key.ends_with("_lr") || has("learning rate") ||
      has("learning_rate")) {
    return Field::kLr;
  }
  if (key == "step" || key == "iter" || key == "iteration" || key == "it" || key == "global_step" ||
      key == "num_updates" || key.ends_with(" step") || key.ends_with(" iteration") ||
      key.ends_with("/step") || key.ends_with("/global_step")) {
    return Field::kStep;
  }
  return Field::kNone;
}

// A number at `i`, in any spelling of nan and inf ("NaN", "-inf", "nan.0", "1.#QNAN",
// "tensor(nan)"); moves `i` past it.
std::optional<double> NumberAt(std::string_view line, size_t& i) {
  size_t at = i;
  if (line.substr(at).starts_with("tensor(")) at += 7;
  const size_t start = at;
  const bool negative = at < line.size() && line[at] == '-';
  if (at < line.size() && (line[at] == '-' || line[at] == '+')) ++at;
  const std::string word = Lower(line.substr(at, 9));
  const auto ends_word = [&](size_t length) {
    const size_t end = at + length;
    return end >= line.size() || !std::isalpha(static_cast<unsigned char>(line[end]));
  };
  for (const char* spelling : {"nan", "inf", "infinity", "1.#qnan", "1.#ind", "1.#inf"}) {
    const std::string_view s(spelling);
    if (!word.starts_with(s) || !ends_word(s.size())) continue;
    i = at + s.size();
    if (s.find("inf") != std::string_view::npos) return negative ? -kInf : kInf;
    return kNan;
  }
  if (line[start] == '+') ++i;
  double value = 0;
  const char* const begin = line.data() + (line[start] == '+' ? start + 1 : start);
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), value);
  if (error == std::errc::invalid_argument) return std::nullopt;
  i = static_cast<size_t>(end - line.data());
  if (error == std::errc::result_out_of_range) {
    // Beyond double either way; "e-" tells which.
    const std::string_view written(begin, static_cast<size_t>(end - begin));
    return written.find("e-") != std::string_view::npos ? 0.0 : negative ? -kInf : kInf;
  }
  return value;
}

// Every "key=value", "key: value" and "key value" of a line whose key stands for a field, first one
// of each field wins.
std::map<Field, double> Pairs(std::string_view line) {
  std::map<Field, double> found;
  for (size_t i = 0; i < line.size();) {
    if (!std::isalpha(static_cast<unsigned char>(line[i]))) {
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
        const bool word =
            next < line.size() && std::isalpha(static_cast<unsigned char>(line[next]));
        if (!word || NumberAt(line, next)) break;
      } else if (!IsWordChar(line[i])) {
        break;
      }
      ++i;
    }
    std::string key = Lower(line.substr(start, i - start));
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
      if (!separator)
        key = key.substr(key.rfind(' ') == std::string::npos ? 0 : key.rfind(' ') + 1);
      Field field = FieldOf(key);
      if (field == Field::kNone && key.find(' ') != std::string::npos) {
        field = FieldOf(key.substr(key.rfind(' ') + 1));
      }
      size_t end = value_at;
      if (field != Field::kNone) {
        if (const auto value = NumberAt(line, end)) {
          found.try_emplace(field, *value);
          i = end;
          continue;
        }
      }
    }
    i = std::max(i, start + 1);
  }
  // A scaler that prints nothing else is told from its well-known sentence.
  if (const size_t at = Lower(line).find("reducing loss scale to "); at != std::string::npos) {
    size_t end = at + 23;
    if (const auto value = NumberAt(line, end)) found[Field::kScale] = *value;
  }
  return found;
}

std::string PrecisionOf(const std::string& lower) {
  for (const char* key :
       {"dtype", "precision", "fp16: true", "fp16=true", "bf16: true", "bf16=true"}) {
    const size_t at = lower.find(key);
    if (at == std::string::npos) continue;
    const std::string around = lower.substr(at, 40);
    if (around.find("bf16") != std::string::npos || around.find("bfloat16") != std::string::npos)
      return "bf16";
    if (around.find("fp16") != std::string::npos || around.find("float16") != std::string::npos)
      return "fp16";
    if (around.find("fp32") != std::string::npos || around.find("float32") != std::string::npos)
      return "fp32";
  }
  return "";
}

void SetFlags(std::vector<runs::StepRow>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    runs::StepRow& row = rows[i];
    if (row.loss && std::isnan(*row.loss)) row.flags |= runs::kLossNan;
    if (row.loss && std::isinf(*row.loss)) row.flags |= runs::kLossInf;
    if (row.grad_norm && !std::isfinite(*row.grad_norm)) row.flags |= runs::kGradNonFinite;
  }
}

}  // namespace

Result<LogRows> ReadLog(std::string_view text, const cases::CaseLibrary& library,
                        const CancelToken& cancel) {
  LogRows log;
  std::vector<const cases::Signal*> signals;
  for (const cases::Case& entry : library.all()) {
    for (const cases::Signal& signal : entry.signals) {
      if (signal.kind == cases::Signal::Kind::kLog) signals.push_back(&signal);
    }
  }
  std::set<std::string> hits;
  std::map<int64_t, runs::StepRow> by_step;
  runs::StepRow pending;  // figures since the last step number
  bool any_step = false;
  for (size_t start = 0; start < text.size() && by_step.size() < kMaxRows;) {
    const size_t end = std::min(text.find_first_of("\n\r", start), text.size());
    const std::string_view line = text.substr(start, std::min(end - start, kMaxLineBytes));
    start = end + 1;
    if (line.empty()) continue;
    if (++log.lines % 1024 == 0) {
      if (auto check = cancel.Check(); !check) return check.error();
    }
    for (const cases::Signal* signal : signals) {
      if (!hits.contains(signal->text) && cases::FitsLogLine(*signal, line))
        hits.insert(signal->text);
    }
    const std::string lower = Lower(line);
    if (log.precision.empty()) log.precision = PrecisionOf(lower);
    const auto pairs = Pairs(line);
    const auto of = [&](Field field) {
      const auto it = pairs.find(field);
      return it == pairs.end() ? std::optional<double>() : std::optional(it->second);
    };
    const auto loss = of(Field::kLoss), norm = of(Field::kGradNorm), scale = of(Field::kScale),
               lr = of(Field::kLr), step = of(Field::kStep);
    const bool skipping = lower.find("skipping step") != std::string::npos ||
                          lower.find("skipped step") != std::string::npos;
    if (!loss && !norm && !scale && !lr && !skipping) {
      if (step && std::isfinite(*step) && std::fabs(*step) < 9e15) {
        pending = {};
        pending.step = static_cast<int64_t>(*step);
        any_step = true;
      }
      continue;
    }
    ++log.lines_used;
    int64_t at = by_step.empty() ? 0 : by_step.rbegin()->first + (loss ? 1 : 0);
    if (step && std::isfinite(*step) && std::fabs(*step) < 9e15) {
      at = static_cast<int64_t>(*step);
      any_step = true;
    } else if (any_step && !by_step.empty() && pending.step > by_step.rbegin()->first) {
      at = pending.step;
    }
    runs::StepRow& row = by_step[at];
    row.step = at;
    if (loss) row.loss = loss;
    if (norm) row.grad_norm = norm;
    if (scale) row.loss_scale = scale;
    if (lr) row.lr = lr;
    if (skipping) row.flags |= runs::kSkipped | runs::kGradNonFinite;
  }
  log.steps_counted = !any_step;
  for (auto& [step, row] : by_step) log.steps.push_back(std::move(row));
  SetFlags(log.steps);
  log.hits.assign(hits.begin(), hits.end());
  return log;
}

}  // namespace mpnanny::diagnose_run
