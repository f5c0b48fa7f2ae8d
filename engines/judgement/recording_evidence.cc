#include "engines/judgement/recording_evidence.h"

#include <utility>

namespace mpnanny::judgement {

void RecordingEvidence::Write(Asked asked, int at, std::vector<double> numbers,
                              std::vector<std::string> words) {
  tape_.Add(Answer{asked, call_, at, std::move(numbers), std::move(words)});
}

int RecordingEvidence::InputFigures(int input) {
  const int slot = evidence_.InputFigures(input);
  Write(Asked::kInput, input, {static_cast<double>(slot)});
  return slot;
}

int RecordingEvidence::IndexFigures() {
  const int slot = evidence_.IndexFigures();
  Write(Asked::kIndexFigures, kNone, {static_cast<double>(slot)});
  return slot;
}

bool RecordingEvidence::Fills() {
  const bool fills = evidence_.Fills();
  Write(Asked::kFills, kNone, {fills ? 1.0 : 0.0});
  return fills;
}

bool RecordingEvidence::DependsOnNoise(const std::vector<int>& noise) {
  const bool depends = evidence_.DependsOnNoise(noise);
  Write(Asked::kDependsOnNoise, kNone, {depends ? 1.0 : 0.0});
  return depends;
}

bool RecordingEvidence::IsNoiseOfElements(double error) {
  const bool is_noise = evidence_.IsNoiseOfElements(error);
  Write(Asked::kNoiseOfElements, kNone, {is_noise ? 1.0 : 0.0});
  return is_noise;
}

std::optional<bool> RecordingEvidence::RoundingDecides(std::string& why) {
  const std::optional<bool> decides = evidence_.RoundingDecides(why);
  std::vector<double> numbers;
  if (decides) numbers.push_back(*decides ? 1 : 0);
  Write(Asked::kRoundingDecides, kNone, std::move(numbers), {why});
  return decides;
}

std::vector<std::array<double, 2>> RecordingEvidence::Operands() {
  std::vector<std::array<double, 2>> operands = evidence_.Operands();
  std::vector<double> numbers;
  for (const auto& each : operands) numbers.insert(numbers.end(), each.begin(), each.end());
  Write(Asked::kOperands, kNone, std::move(numbers));
  return operands;
}

std::optional<Singular> RecordingEvidence::SingularAt() {
  std::optional<Singular> singular = evidence_.SingularAt();
  std::vector<double> numbers;
  std::vector<std::string> words;
  if (singular) {
    numbers = {singular->is_pole ? 1.0 : 0.0, singular->held, singular->reference};
    words = {singular->zero_op, singular->zero_at};
  }
  Write(Asked::kSingular, kNone, std::move(numbers), std::move(words));
  return singular;
}

std::optional<std::string> RecordingEvidence::MadeUnwritten(int input) {
  std::optional<std::string> made_at = evidence_.MadeUnwritten(input);
  std::vector<std::string> words;
  if (made_at) words.push_back(*made_at);
  Write(Asked::kMadeUnwritten, input, {}, std::move(words));
  return made_at;
}

bool RecordingEvidence::IsAboveZero(int input) {
  const bool is_above = evidence_.IsAboveZero(input);
  Write(Asked::kAboveZero, input, {is_above ? 1.0 : 0.0});
  return is_above;
}

Evidence::Owner RecordingEvidence::OwnerOf(int input) {
  Owner owner = evidence_.OwnerOf(input);
  Write(Asked::kOwner, input, {owner.is_state ? 1.0 : 0.0, owner.is_doubtful ? 1.0 : 0.0},
        {owner.name});
  return owner;
}

// Words: the kind of finding and why there is no cure, and of one the type, its lines and then its
// operators. Numbers, if there is one: the error before and after, and how many the lines are.
Evidence::CureAnswer RecordingEvidence::FindCure(FindingKind kind, double before, bool narrow) {
  CureAnswer answer = evidence_.FindCure(kind, before, narrow);
  std::vector<double> numbers;
  std::vector<std::string> words = {NameOf(kind), answer.why_not};
  if (answer.cure) {
    const Cure& cure = *answer.cure;
    numbers = {cure.error_before, cure.error_after, static_cast<double>(cure.lines.size())};
    words.push_back(cure.what);
    words.insert(words.end(), cure.lines.begin(), cure.lines.end());
    words.insert(words.end(), cure.operators.begin(), cure.operators.end());
  }
  Write(Asked::kCure, kNone, std::move(numbers), std::move(words));
  return answer;
}

}  // namespace mpnanny::judgement
