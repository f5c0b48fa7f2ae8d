// A step for the judge, written row by row, and a front end whose answers are set beforehand.
//
// Thresholds stand in the tests as numbers, as docs/shadow.md has them: nothing here reads
// thresholds.h.
#ifndef MPNANNY_TESTS_JUDGEMENT_JUDGED_STEP_H_
#define MPNANNY_TESTS_JUDGEMENT_JUDGED_STEP_H_

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/judgement/judge.h"

namespace mpnanny::judgement {

inline constexpr double kForever = std::numeric_limits<double>::infinity();

// 100 numbers of size 0.1, the sum of whose squares is 1, that are off by exactly `error`.
inline ReferenceError Off(double error) {
  ReferenceError found;
  found.numel = found.nonzero = 100;
  found.squared_reference = 1;
  found.squared_error = error * error;
  found.max_reference = 0.5;
  return found;
}

// The same with `count` of them not finite: only here, in both as NaN, in both as infinity, in the
// reference only.
inline ReferenceError OutOfRange(int64_t count) {
  ReferenceError found = Off(0);
  found.range = count;
  return found;
}
inline ReferenceError NanInBoth(int64_t count) {
  ReferenceError found = Off(0);
  found.undefined = count;
  return found;
}
inline ReferenceError InfiniteInBoth(int64_t count) {
  ReferenceError found = Off(0);
  found.infinite = count;
  return found;
}

class ScriptedEvidence : public Evidence {
 public:
  struct AskedCure {
    FindingKind kind;
    double before;
    bool narrow;
    bool operator==(const AskedCure&) const = default;
  };

  // Answers.
  std::map<int, int> input_slots;
  int index_slot = kNone;
  bool fills = false;
  bool depends_on_noise = false;
  bool is_noise_of_elements = false;
  std::optional<bool> rounding_decides = false;
  std::vector<std::array<double, 2>> operands;
  std::optional<Singular> singular;
  std::map<int, std::string> unwritten;
  std::map<int, bool> is_above_zero;
  Owner owner;
  std::optional<Cure> cure;
  std::string why_not = "too dear";

  // What was asked.
  std::vector<int> inputs_asked;
  std::vector<std::vector<int>> noise_asked;
  std::vector<double> noise_of_elements_asked;
  int rounding_asked = 0;
  std::vector<AskedCure> cures_asked;

  int InputFigures(int input) override {
    inputs_asked.push_back(input);
    const auto known = input_slots.find(input);
    return known == input_slots.end() ? kNone : known->second;
  }
  int IndexFigures() override { return index_slot; }
  bool Fills() override { return fills; }
  bool DependsOnNoise(const std::vector<int>& noise) override {
    noise_asked.push_back(noise);
    return depends_on_noise;
  }
  bool IsNoiseOfElements(double error) override {
    noise_of_elements_asked.push_back(error);
    return is_noise_of_elements;
  }
  std::optional<bool> RoundingDecides(std::string& why) override {
    ++rounding_asked;
    if (!rounding_decides) why = why_not;
    return rounding_decides;
  }
  std::vector<std::array<double, 2>> Operands() override { return operands; }
  std::optional<Singular> SingularAt() override { return singular; }
  std::optional<std::string> MadeUnwritten(int input) override {
    const auto known = unwritten.find(input);
    return known == unwritten.end() ? std::nullopt : std::optional(known->second);
  }
  bool IsAboveZero(int input) override { return is_above_zero[input]; }
  Owner OwnerOf(int) override { return owner; }
  CureAnswer FindCure(FindingKind kind, double before, bool narrow) override {
    cures_asked.push_back({kind, before, narrow});
    return {cure, cure ? "" : why_not};
  }
};

class JudgedStep {
 public:
  JudgedStep() : JudgedStep(own_run_, 7, std::nullopt) {}
  JudgedStep(LostChanges& run, int step, std::optional<double> first_loss)
      : judge(run, step, first_loss) {}

  // The number of a place: train.py at `line`, the same for the same words.
  int At(const std::string& op, int line, Phase phase = Phase::kForward,
         std::optional<std::string> module = std::nullopt) {
    Place place;
    place.op = op;
    place.phase = phase;
    place.file = line > 0 ? "train.py" : "";
    place.line = line;
    place.module = std::move(module);
    judge.Take(place);
    return places_++;
  }
  int Slot(const ReferenceError& found) {
    judge.Take(Figures{slots_, found});
    return slots_++;
  }
  // Memory as an argument, compared before.
  Input Of(int64_t memory, const ReferenceError& found, Element type = Element::kFloat16) {
    Input input;
    input.memory = memory;
    input.type = type;
    input.slot = Slot(found);
    return input;
  }
  // Of memory that this step has made: with the figures with which it was made.
  Input Made(int64_t memory) {
    Input input;
    input.memory = memory;
    input.type = made_.at(memory).type;
    input.slot = made_.at(memory).slot;
    return input;
  }
  // The call's number; `measured`: the inputs whose formats the judge wants.
  int Run(int place, std::vector<Input> inputs, bool kept = true,
          std::vector<std::pair<int, int>>* measured = nullptr) {
    auto wanted = judge.Take(Call{calls_, place, kept, std::move(inputs)});
    if (measured != nullptr) *measured = std::move(wanted);
    return calls_++;
  }
  // The call's result: whether the reference begins anew.
  bool Makes(int call, int64_t memory, const ReferenceError& found, Result rest = {}) {
    rest.call = call;
    rest.memory = memory;
    rest.slot = Slot(found);
    if (rest.shape.empty()) rest.shape = {10, 10};
    if (rest.type == Element::kFloat32) rest.type = Element::kFloat16;
    made_[memory] = rest;
    return judge.Take(rest, evidence);
  }
  // In a type.
  bool MakesIn(Element type, int call, int64_t memory, const ReferenceError& found) {
    Result rest;
    rest.call = call;
    rest.memory = memory;
    rest.slot = Slot(found);
    rest.shape = {10, 10};
    rest.type = type;
    made_[memory] = rest;
    return judge.Take(rest, evidence);
  }
  // Memory with an error that an operator of its own has made: a finding of this kind.
  int Spoil(int64_t memory, const ReferenceError& found, Phase phase = Phase::kForward) {
    const int call = Run(At("aten.exp.default", 100 + static_cast<int>(memory), phase), {});
    Makes(call, memory, found);
    return judge.MemoryOf(memory).origin;
  }

  const Finding& operator[](int number) const { return judge.findings()[number]; }
  size_t size() const { return judge.findings().all().size(); }
  // What a finding reaches, as "loss 0.5" or "gradient weight 0.5".
  std::vector<std::string> ReachOf(int number) const {
    std::vector<std::string> words;
    for (const Reach& each : (*this)[number].reach) {
      char error[32];
      std::snprintf(error, sizeof error, "%.4g", each.error);
      words.push_back(std::string(NameOf(each.what)) + " " +
                      (each.name.empty() ? "" : each.name + " ") + error);
    }
    return words;
  }

 private:
  LostChanges own_run_;

 public:
  Judge judge;
  ScriptedEvidence evidence;

 private:
  int places_ = 0, slots_ = 0, calls_ = 0;
  std::map<int64_t, Result> made_;
};

using Words = std::vector<std::string>;

}  // namespace mpnanny::judgement

#endif  // MPNANNY_TESTS_JUDGEMENT_JUDGED_STEP_H_
