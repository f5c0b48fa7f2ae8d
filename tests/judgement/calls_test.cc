// The calls of a step: where an error came in, the lines that led to a call, the words of types.
#include "engines/judgement/calls.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mpnanny::judgement {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

// Calls, each at a line of its own, that make memory of their own number.
class Written {
 public:
  int Add(double error, const std::vector<int>& inputs, Element type = Element::kFloat16,
          int line = 0, bool kept = true) {
    Place place;
    place.op = "aten.op" + std::to_string(next_) + ".default";
    place.file = "train.py";
    place.line = line > 0 ? line : next_ + 1;
    calls.Add(std::move(place));
    Call call{next_, next_, kept, {}};
    for (const int each : inputs) {
      Input input;
      input.memory = each;
      input.type = each >= 0 && each < next_ ? types_[static_cast<size_t>(each)] : type;
      call.inputs.push_back(input);
    }
    calls.Add(call);
    calls[next_].error = error;
    calls.MemoryOf(next_).producer = next_;
    types_.push_back(type);
    return next_++;
  }

  Calls calls;

 private:
  int next_ = 0;
  std::vector<Element> types_;
};

TEST(Calls, AnErrorCameInWhereMostOfItWasMadeOutOfLess) {
  struct {
    const char* what;
    std::vector<double> errors;  // of a chain, the nearest last
    int came_in;                 // the call; kNone
  } const rows[] = {
      {"nothing before", {}, kNone},         {"exact before", {0, 0}, kNone},
      {"the one before", {0, 0.1}, 1},       {"little before that", {0.049, 0.1}, 1},
      {"half before that", {0.05, 0.1}, 0},  {"most before that", {0.09, 0.1}, 0},
      {"in portions", {0.03, 0.06, 0.1}, 0}, {"first more, then less", {0.2, 0.01, 0.1}, 2},
      {"it became less", {0.2, 0.1}, 0},
  };
  for (const auto& row : rows) {
    Written step;
    std::vector<int> before;
    for (const double error : row.errors) before = {step.Add(error, before)};
    const int last = step.Add(0.5, before);
    const auto found = step.calls.CameInBefore(last);
    ASSERT_EQ(found.has_value(), row.came_in != kNone) << row.what;
    if (!found) continue;
    EXPECT_EQ(found->place, row.came_in) << row.what;
    EXPECT_EQ(found->error, row.errors[static_cast<size_t>(row.came_in)]);
    EXPECT_EQ(found->dtype, "float16");
  }
}

TEST(Calls, OfSeveralInputsTheWorstOneIsFollowed) {
  for (const bool worst_first : {true, false}) {
    Written step;
    const int little = step.Add(0.01, {}), much = step.Add(0.1, {});
    const int last =
        step.Add(0.5, worst_first ? std::vector{much, little, 99} : std::vector{99, little, much});
    EXPECT_EQ(step.calls.CameInBefore(last)->place, much);
  }
}

TEST(Calls, WhatIsNotKeptCannotBeFollowed) {
  Written step;
  const int first = step.Add(0.1, {});
  EXPECT_FALSE(step.calls.CameInBefore(step.Add(0.5, {first}, Element::kFloat16, 0, false)));
  const int between = step.Add(0.1, {first}, Element::kFloat16, 0, false);
  const auto found = step.calls.CameInBefore(step.Add(0.5, {between}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->place, between);
  EXPECT_EQ(found->dtype, "float16") << "without its inputs' types";
}

TEST(Calls, ACameInHasTheTypesOfItsOperator) {
  Written step;
  const int wide = step.Add(0, {}, Element::kFloat32);
  const int cast = step.Add(0.01, {wide}, Element::kBFloat16);
  EXPECT_EQ(step.calls.CameInBefore(step.Add(0.5, {cast}))->dtype, "float32 → bfloat16");
}

TEST(Calls, AtMost200CallsAreLookedThrough) {
  for (const int before : {200, 201}) {
    Written step;
    std::vector<int> inputs;
    for (int i = 0; i < before; ++i) inputs = {step.Add(0.1, inputs)};
    EXPECT_EQ(step.calls.CameInBefore(step.Add(0.5, inputs))->place, before - 200);
  }
}

TEST(Calls, LinesBeforeAreToldTheNearestFirstUpToFive) {
  Written step;
  std::vector<int> inputs;
  for (int i = 0; i < 7; ++i) inputs = {step.Add(0, inputs)};
  EXPECT_EQ(step.calls.LinesBefore(6), (Lines{{"aten.op5.default", "train.py:6"},
                                              {"aten.op4.default", "train.py:5"},
                                              {"aten.op3.default", "train.py:4"},
                                              {"aten.op2.default", "train.py:3"},
                                              {"aten.op1.default", "train.py:2"}}));
  EXPECT_EQ(step.calls.LinesBefore(0), Lines{});
}

TEST(Calls, OfALevelTheNewestComesFirstAndFiveAreTheMost) {
  Written step;
  std::vector<int> inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(step.Add(0, {}));
  const int last = step.Add(0, inputs);
  const Lines lines = step.calls.LinesBefore(last);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.front().second, "train.py:6");
  EXPECT_EQ(lines.back().second, "train.py:2");
}

TEST(Calls, ALineIsToldOnceAndTheOwnOneNot) {
  Written step;
  const int first = step.Add(0, {}, Element::kFloat16, 50);
  const int again = step.Add(0, {first}, Element::kFloat16, 60);
  const int own = step.Add(0, {again}, Element::kFloat16, 70);
  const int more = step.Add(0, {own, again}, Element::kFloat16, 60);
  const int last = step.Add(0, {more, 99}, Element::kFloat16, 70);
  EXPECT_EQ(step.calls.LinesBefore(last),
            (Lines{{"aten.op3.default", "train.py:60"}, {"aten.op0.default", "train.py:50"}}));
}

TEST(Calls, LinesBeforeEndAtWhatIsNotKept) {
  Written step;
  const int first = step.Add(0, {});
  const int second = step.Add(0, {first}, Element::kFloat16, 0, false);
  const int last = step.Add(0, {second});
  EXPECT_EQ(step.calls.LinesBefore(last), (Lines{{"aten.op1.default", "train.py:2"}}));
}

TEST(Calls, LinesAreOfTheForwardOperatorWhereItIsKnown) {
  Calls calls;
  Place place;
  place.op = "aten.mm.default";
  place.forward = "torch.matmul";
  place.file = "train.py";
  place.line = 3;
  calls.Add(place);
  place.file = "";
  calls.Add(place);
  calls.Add(Call{0, 0, true, {}});
  calls.MemoryOf(0).producer = 0;
  calls.Add(Call{1, 1, true, {Input{0}}});
  calls.MemoryOf(1).producer = 1;
  calls.Add(Call{2, 1, true, {Input{1}}});
  EXPECT_EQ(calls.LinesBefore(2), (Lines{{"torch.matmul", "train.py:3"}}))
      << "a place without a line is passed";
}

TEST(Calls, NoMoreThan200CallsAreSearchedForLines) {
  for (const int others : {196, 250}) {
    Calls calls;
    Place unknown;
    unknown.op = "aten.mul.Tensor";
    calls.Add(unknown);
    Place known = unknown;
    known.file = "train.py";
    calls.Add(known);
    calls.Add(Call{0, 1, true, {}});
    calls.MemoryOf(0).producer = 0;
    for (int i = 1; i <= others; ++i) {
      calls.Add(Call{i, 0, true, {Input{i - 1}}});
      calls.MemoryOf(i).producer = i;
    }
    EXPECT_EQ(calls.LinesBefore(others).size(), others < 200 ? 1u : 0u) << others;
  }
}

TEST(Calls, SourcesAreWhatIsReadAtThePosition) {
  CallRecord record;
  Input all{1}, first{2}, second{3}, written{4};
  first.position = 0;
  second.position = 1;
  written.read = false;
  for (const Input& each : {all, first, second, written}) record.inputs.push_back({each, {}});
  const auto memories = [&](int position) {
    std::vector<int64_t> found;
    for (const KnownInput* each : record.SourcesOf(position)) found.push_back(each->row.memory);
    return found;
  };
  EXPECT_EQ(memories(kNone), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(memories(0), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(memories(1), (std::vector<int64_t>{1, 3}));
}

TEST(Calls, AnInputIsKnownAsItWasBeforeTheCall) {
  Written step;
  const int first = step.Add(0.1, {});
  step.calls.MemoryOf(first).error = 0.1;
  const int reader = step.Add(0, {first, 99});
  step.calls.MemoryOf(first).error = 0.7;
  EXPECT_EQ(step.calls[reader].inputs[0].before.error, 0.1);
  EXPECT_EQ(step.calls[reader].inputs[0].before.producer, first);
  EXPECT_EQ(step.calls[reader].inputs[1].before.producer, kNone);
}

TEST(Calls, PlacesOfTheSameKeyAreTheSame) {
  Calls calls;
  Place place;
  place.op = "aten.mul.Tensor";
  place.file = "train.py";
  place.line = 3;
  calls.Add(place);
  Place other = place;
  other.line = 4;
  calls.Add(other);
  calls.Add(place);
  Place module = place;
  module.module = "fc";
  calls.Add(module);
  EXPECT_EQ(calls.places(), 4u);
  EXPECT_EQ(calls.SamePlace(0), 0);
  EXPECT_EQ(calls.SamePlace(1), 1);
  EXPECT_EQ(calls.SamePlace(2), 0);
  EXPECT_EQ(calls.SamePlace(3), 3);
  calls.Add(Call{5, 1, true, {}});
  EXPECT_EQ(calls.PlaceOfCall(5).line, 4);
  EXPECT_EQ(calls.SchemaOf(5), "aten::mul");
}

TEST(Calls, TypesAreToldOnceEachUpToThree) {
  using E = Element;
  struct {
    std::vector<E> inputs;
    E made;
    const char* words;
  } const rows[] = {
      {{}, E::kFloat16, "float16"},
      {{E::kFloat16}, E::kFloat16, "float16"},
      {{E::kFloat16, E::kFloat16}, E::kFloat16, "float16"},
      {{E::kFloat32}, E::kBFloat16, "float32 → bfloat16"},
      {{E::kFloat32, E::kFloat16, E::kFloat32}, E::kFloat32, "float32, float16 → float32"},
      {{E::kFloat32, E::kFloat16, E::kBFloat16, E::kFloat64},
       E::kInt64,
       "float32, float16, bfloat16 → int64"},
  };
  for (const auto& row : rows) EXPECT_EQ(TypeWords(row.inputs, row.made), row.words);
}

}  // namespace
}  // namespace mpnanny::judgement
