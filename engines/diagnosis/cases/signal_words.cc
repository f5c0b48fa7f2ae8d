#include "engines/diagnosis/cases/signal_words.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "engines/cases/vocabulary.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Number;
using runs::Sentence;

template <size_t n>
std::string MeaningOf(const cases::Word (&words)[n], std::string_view name) {
  const auto* const found = std::find_if(std::begin(words), std::end(words),
                                         [&](const auto& word) { return word.name == name; });
  return std::string(found == std::end(words) ? name : found->meaning);
}

// What is looked for. The vocabulary has English meanings only.
std::string SignalWords(const cases::Signal& signal) {
  switch (signal.kind) {
    case cases::Signal::Kind::kAlert:
      return "an alert " + signal.name + (signal.phase.empty() ? "" : " in " + signal.phase) +
             " (" + MeaningOf(cases::kAlertTypes, signal.name) + ")";
    case cases::Signal::Kind::kSign:
      return MeaningOf(cases::kSigns, signal.name);
    case cases::Signal::Kind::kScale:
      return "a loss scale that is " + signal.name + " (" +
             MeaningOf(cases::kScaleStates, signal.name) + ")";
    case cases::Signal::Kind::kRule:
    case cases::Signal::Kind::kLog:
      break;
  }
  return "`" + EscapeControl(signal.text, 100) + "`";
}

}  // namespace

Sentence UnseenSentence(const cases::Signal& signal) {
  return {Form("Not seen, though it belongs to this case: {0}.", "没有看到该案例应有的迹象：{0}。"),
          {SignalWords(signal)}};
}

std::string AlertMeaning(std::string_view type) { return MeaningOf(cases::kAlertTypes, type); }

}  // namespace mpnanny::diagnosis
