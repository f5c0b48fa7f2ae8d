#include "engines/cases/signal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/text.h"
#include "engines/cases/vocabulary.h"

namespace mpnanny::cases {
namespace {

constexpr std::array<std::string_view, 6> kOperators = {"<", "<=", ">", ">=", "==", "!="};

std::vector<std::string> SplitBlanks(std::string_view text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    const size_t start = text.find_first_not_of(" \t", i);
    if (start == std::string_view::npos) break;
    i = std::min(text.find_first_of(" \t", start), text.size());
    words.emplace_back(text.substr(start, i - start));
  }
  return words;
}

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

Error Wrong(std::string_view text, std::string what, std::string hint) {
  return InvalidInput("signal '" + EscapeControl(text, 200) + "': " + std::move(what),
                      std::move(hint));
}

Error WrongWord(std::string_view text, std::string_view what, std::string_view word,
                std::span<const Word> words) {
  const std::string near = DidYouMean(word, NameList(words));
  return Wrong(text, "unknown " + std::string(what) + " '" + EscapeControl(word, 60) + "'.",
               (near.empty() ? "" : near + " ") + "Allowed: " + Names(words) + ".");
}

Result<Signal> ParseAlert(Signal signal, const std::vector<std::string>& words) {
  if (words.empty() || words.size() > 2) {
    return Wrong(signal.text, "an alert signal is alert:TYPE[@phase] [layers].",
                 "Example: alert:INF@forward *.wo|*mlp*");
  }
  const size_t at = words[0].find('@');
  signal.name = words[0].substr(0, at);
  if (!IsWord(kAlertTypes, signal.name)) {
    return WrongWord(signal.text, "alert type", signal.name, kAlertTypes);
  }
  if (at != std::string::npos) {
    signal.phase = words[0].substr(at + 1);
    if (!IsWord(kPhases, signal.phase)) {
      return WrongWord(signal.text, "phase", signal.phase, kPhases);
    }
  }
  if (words.size() == 2) signal.layer_glob = words[1];
  return signal;
}

Result<Signal> ParseStat(Signal signal, const std::vector<std::string>& words) {
  if (words.size() < 3 || words.size() > 4) {
    return Wrong(signal.text, "a statistic is stat: of.column op value[%] [layers].",
                 "Example: stat: activation.absmax > 60000 *.wo");
  }
  const size_t dot = words[0].find('.');
  signal.of = words[0].substr(0, dot);
  signal.name = dot == std::string::npos ? "" : words[0].substr(dot + 1);
  if (!IsWord(kStatSubjects, signal.of)) {
    return WrongWord(signal.text, "subject", signal.of, kStatSubjects);
  }
  const bool of_step = signal.of == "step";
  const std::span<const Word> columns =
      of_step ? std::span<const Word>(kStepColumns) : std::span<const Word>(kTensorColumns);
  if (!IsWord(columns, signal.name)) {
    return WrongWord(signal.text, "column of '" + signal.of + "'", signal.name, columns);
  }
  signal.op = words[1];
  if (std::find(kOperators.begin(), kOperators.end(), signal.op) == kOperators.end()) {
    return Wrong(signal.text, "unknown operator '" + EscapeControl(signal.op, 20) + "'.",
                 "Allowed: < <= > >= == !=, with blanks around.");
  }
  std::string_view number = words[2];
  signal.share = number.ends_with('%');
  if (signal.share) number.remove_suffix(1);
  const auto value = ParseNumber(number);
  if (!value) {
    return Wrong(signal.text, "'" + EscapeControl(words[2], 40) + "' is no finite number.",
                 "Write it like 60000, 6e4 or 50%.");
  }
  signal.value = signal.share ? *value / 100 : *value;
  if (signal.share && std::find(std::begin(kCountColumns), std::end(kCountColumns), signal.name) ==
                          std::end(kCountColumns)) {
    return Wrong(signal.text, "'" + signal.name + "' counts no elements, so it has no percentage.",
                 "Write the limit as a plain number.");
  }
  if (words.size() == 4) {
    if (of_step) {
      return Wrong(signal.text, "a statistic of a step has no layer.", "Leave the globs out.");
    }
    signal.layer_glob = words[3];
  }
  return signal;
}

}  // namespace

Result<Signal> ParseSignal(std::string_view text, double weight) {
  Signal signal;
  signal.text = std::string(text);
  signal.weight = weight;
  if (!(weight > 0 && weight <= 10)) {
    return Wrong(text, "its weight must be above 0 and at most 10.",
                 "3 all but proves, 1 is common.");
  }
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::vector<std::string> words =
      SplitBlanks(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (kind == "alert") {
    signal.kind = Signal::Kind::kAlert;
    return ParseAlert(std::move(signal), words);
  }
  if (kind == "stat") {
    signal.kind = Signal::Kind::kStat;
    return ParseStat(std::move(signal), words);
  }
  if (kind == "rule") {
    signal.kind = Signal::Kind::kRule;
    if (words.size() != 1 || !IsKebab(words[0])) {
      return Wrong(text, "a rule signal is rule:id with one kebab-case id.",
                   "Example: rule:clip-before-unscale");
    }
    signal.name = words[0];
    return signal;
  }
  if (kind == "scale") {
    signal.kind = Signal::Kind::kScale;
    signal.name = words.size() == 1 ? words[0] : "";
    if (!IsWord(kScaleStates, signal.name)) {
      return WrongWord(text, "state of the loss scale", signal.name, kScaleStates);
    }
    return signal;
  }
  if (kind == "sign") {
    signal.kind = Signal::Kind::kSign;
    signal.name = words.size() == 1 ? words[0] : "";
    if (!IsWord(kSigns, signal.name)) return WrongWord(text, "sign", signal.name, kSigns);
    return signal;
  }
  if (kind == "log") {
    signal.kind = Signal::Kind::kLog;
    signal.name = Join(words, " ");
    const bool says_something = std::any_of(signal.name.begin(), signal.name.end(), [](char c) {
      return c != '*' && c != '?' && c != ' ';
    });
    if (!says_something) {
      return Wrong(text, "a log signal needs words.", "Example: log: Attempting to unscale FP16");
    }
    return signal;
  }
  return Wrong(
      text, "unknown kind of signal.",
      "Allowed: alert:TYPE[@phase] [layers], rule:id, stat: of.column op value[%] [layers], "
      "scale: state, sign: name, log: words.");
}

bool FitsLayer(const Signal& signal, std::string_view layer) {
  if (signal.layer_glob.empty()) return true;
  if (layer.empty()) return false;
  const std::string name = LowerCase(layer);
  const std::string globs = LowerCase(signal.layer_glob);
  for (size_t start = 0; start <= globs.size();) {
    const size_t end = std::min(globs.find('|', start), globs.size());
    if (end > start && MatchesGlob(std::string_view(globs).substr(start, end - start), name)) {
      return true;
    }
    start = end + 1;
  }
  return false;
}

bool FitsValue(const Signal& signal, double value) {
  if (std::isnan(value)) return false;
  if (signal.op == "<") return value < signal.value;
  if (signal.op == "<=") return value <= signal.value;
  if (signal.op == ">") return value > signal.value;
  if (signal.op == ">=") return value >= signal.value;
  if (signal.op == "==") return value == signal.value;
  return signal.op == "!=" && value != signal.value;
}

// Bytes of a line in which all words of a message stand.
constexpr size_t kWithin = 400;

bool FitsLogLine(const Signal& signal, std::string_view line) {
  std::string pattern = "*";
  for (const std::string& word : SplitBlanks(LowerCase(signal.name))) pattern += word + "*";
  const std::string lower = LowerCase(line);
  if (!MatchesGlob(pattern, lower)) return false;
  // A dump of settings in one long line holds most words somewhere.
  for (size_t at = 0; at < lower.size(); at += kWithin / 2) {
    if (MatchesGlob(pattern, std::string_view(lower).substr(at, kWithin))) return true;
  }
  return false;
}

}  // namespace mpnanny::cases
