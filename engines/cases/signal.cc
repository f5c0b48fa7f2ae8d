#include "engines/cases/signal.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "engines/cases/vocabulary.h"

namespace mpnanny::cases {
namespace {

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
      "Allowed: alert:TYPE[@phase] [layers], rule:id, scale: state, sign: name, log: words.");
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

// Bytes of a line in which all words of a message stand.
constexpr size_t kWithin = 400;

namespace {

// "flash_attention*False" means a setting and its value: another setting's value behind it does
// not count. `line` in lower case.
bool HasSetting(std::string_view word, std::string_view line) {
  const size_t star = word.find('*');
  const std::string_view name = word.substr(0, star), value = word.substr(star + 1);
  for (size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const size_t behind = line.find_first_not_of("'\": =\t", at + name.size());
    if (behind != std::string_view::npos && line.substr(behind).starts_with(value)) return true;
  }
  return false;
}

}  // namespace

bool FitsLogLine(const Signal& signal, std::string_view line) {
  std::string pattern = "*";
  for (const std::string& word : SplitBlanks(LowerCase(signal.name))) pattern += word + "*";
  const std::string lower = LowerCase(line);
  if (!MatchesGlob(pattern, lower)) return false;
  for (const std::string& word : SplitBlanks(LowerCase(signal.name))) {
    if ((word.ends_with("*true") || word.ends_with("*false")) && !HasSetting(word, lower))
      return false;
  }
  // A dump of settings in one long line holds most words somewhere.
  for (size_t at = 0; at < lower.size(); at += kWithin / 2) {
    if (MatchesGlob(pattern, std::string_view(lower).substr(at, kWithin))) return true;
  }
  return false;
}

}  // namespace mpnanny::cases
