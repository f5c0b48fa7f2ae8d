#include "engines/judgement/replayed_evidence.h"

#include <algorithm>
#include <utility>

namespace mpnanny::judgement {
namespace {

std::string WordAt(const Answer& answer, size_t at) {
  return at < answer.words.size() ? answer.words[at] : "";
}

int SlotOf(const Answer& answer) {
  return answer.numbers.empty() ? kNone : static_cast<int>(answer.numbers.front());
}

}  // namespace

const Answer& ReplayedEvidence::Find(Asked asked, int at, const char* word) {
  for (const Answer*& each : answers_) {
    if (each == nullptr || each->asked != asked || each->at != at) continue;
    if (word != nullptr && WordAt(*each, 0) != word) continue;
    return *std::exchange(each, nullptr);
  }
  static const Answer unknown;
  ++unanswered_;
  return unknown;
}

bool ReplayedEvidence::IsTrue(Asked asked, int at) {
  const Answer& answer = Find(asked, at);
  return !answer.numbers.empty() && answer.numbers.front() != 0;
}

int ReplayedEvidence::InputFigures(int input) { return SlotOf(Find(Asked::kInput, input)); }

int ReplayedEvidence::IndexFigures() { return SlotOf(Find(Asked::kIndexFigures, kNone)); }

bool ReplayedEvidence::Fills() { return IsTrue(Asked::kFills, kNone); }

bool ReplayedEvidence::DependsOnNoise(const std::vector<int>&) {
  return IsTrue(Asked::kDependsOnNoise, kNone);
}

bool ReplayedEvidence::IsNoiseOfElements(double) { return IsTrue(Asked::kNoiseOfElements, kNone); }

std::optional<bool> ReplayedEvidence::RoundingDecides(std::string& why) {
  const Answer& answer = Find(Asked::kRoundingDecides, kNone);
  why = WordAt(answer, 0);
  if (answer.numbers.empty()) return std::nullopt;
  return answer.numbers.front() != 0;
}

std::vector<std::array<double, 2>> ReplayedEvidence::Operands() {
  const std::vector<double>& numbers = Find(Asked::kOperands, kNone).numbers;
  std::vector<std::array<double, 2>> operands;
  for (size_t at = 0; at + 1 < numbers.size(); at += 2)
    operands.push_back({numbers[at], numbers[at + 1]});
  return operands;
}

std::optional<Singular> ReplayedEvidence::SingularAt() {
  const Answer& answer = Find(Asked::kSingular, kNone);
  if (answer.numbers.size() < 3) return std::nullopt;
  return Singular{answer.numbers[0] != 0, answer.numbers[1], answer.numbers[2], WordAt(answer, 0),
                  WordAt(answer, 1)};
}

std::optional<std::string> ReplayedEvidence::MadeUnwritten(int input) {
  const Answer& answer = Find(Asked::kMadeUnwritten, input);
  if (answer.words.empty()) return std::nullopt;
  return answer.words.front();
}

bool ReplayedEvidence::IsAboveZero(int input) { return IsTrue(Asked::kAboveZero, input); }

Evidence::Owner ReplayedEvidence::OwnerOf(int input) {
  const Answer& answer = Find(Asked::kOwner, input);
  const auto is = [&](size_t at) { return at < answer.numbers.size() && answer.numbers[at] != 0; };
  return {WordAt(answer, 0), is(0), is(1)};
}

// As RecordingEvidence writes it.
Evidence::CureAnswer ReplayedEvidence::FindCure(FindingKind kind, double, bool) {
  const Answer& answer = Find(Asked::kCure, kNone, NameOf(kind));
  const std::vector<std::string>& words = answer.words;
  if (answer.numbers.size() < 3 || words.size() < 3) return {std::nullopt, WordAt(answer, 1)};
  Cure cure;
  cure.what = words[2];
  cure.error_before = answer.numbers[0];
  cure.error_after = answer.numbers[1];
  for (size_t at = 3; at < words.size(); ++at) {
    const bool is_line = static_cast<double>(at - 3) < answer.numbers[2];
    (is_line ? cure.lines : cure.operators).push_back(words[at]);
  }
  return {std::move(cure), ""};
}

}  // namespace mpnanny::judgement
