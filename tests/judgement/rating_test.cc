// What findings are worth: severities, what counts, the order, cures that follow.
#include "engines/judgement/rating.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/findings.h"

namespace mpnanny::judgement {
namespace {

// Findings at places of their own, in the order in which they were made.
class Rated {
 public:
  int Add(FindingKind kind, double error_out, std::initializer_list<Reached> reach,
          Phase phase = Phase::kForward, const std::string& op = "aten.mul.Tensor") {
    Place place;
    place.op = op;
    place.file = "train.py";
    place.line = next_;
    place.phase = phase;
    calls.Add(place);
    Finding made;
    made.kind = kind;
    made.place = next_;
    made.number = next_;
    made.error_out = error_out;
    for (const Reached each : reach) made.Reaches(each, "", 1);
    return findings.Add(next_++, std::move(made));
  }
  std::vector<int> Rate(const Course& course = {}) {
    return judgement::Rate(findings, calls, course);
  }
  Finding& operator[](int number) { return findings[number]; }

  Findings findings;
  Calls calls;

 private:
  int next_ = 0;
};

TEST(Rating, ASmallErrorOfWhatGoesOverStepsCountsWhereItReachesTheLoss) {
  using R = Reached;
  struct {
    const char* op;
    std::initializer_list<R> reach;
    Severity severity;
  } const rows[] = {
      {"aten.cumprod.default", {R::kLoss}, Severity::kWarning},
      {"aten.pow.Tensor_Tensor", {R::kLoss}, Severity::kWarning},
      {"aten.cumprod.default", {R::kGradient}, Severity::kInfo},
      {"aten.mul.Tensor", {R::kLoss}, Severity::kInfo},
  };
  for (const auto& row : rows) {
    Rated rated;
    const int number = rated.Add(FindingKind::kAmplified, 0.1, row.reach, Phase::kForward, row.op);
    rated.Rate();
    EXPECT_EQ(rated[number].severity, row.severity) << row.op;
  }
}

TEST(Rating, SeveritiesFollowFromTheKindAndWhatItReaches) {
  using K = FindingKind;
  using R = Reached;
  const auto error = Severity::kError;
  const auto warning = Severity::kWarning;
  const auto info = Severity::kInfo;
  struct {
    K kind;
    double error_out;
    std::initializer_list<R> reach;
    Severity severity;
    bool counts;
  } const rows[] = {
      {K::kRange, 1, {R::kLoss}, error, true},
      {K::kUndefined, 1, {R::kGradient}, error, true},
      {K::kUndefined, 1, {R::kState, R::kReplaced}, error, true},
      {K::kRange, 1, {R::kReplaced}, info, true},
      {K::kRange, 1, {}, info, false},
      {K::kUndefined, 1, {}, info, false},
      {K::kIntegers, 0.5, {}, info, false},
      {K::kIntegers, 0.001, {R::kIndex}, warning, true},
      {K::kLostChange, 0.9, {}, info, false},
      {K::kLostChange, 0.9, {R::kState}, warning, true},
      {K::kClipped, 0.15, {R::kLoss}, warning, true},
      {K::kAmplified, 0.3, {R::kLoss}, warning, true},
      {K::kAmplified, 0.2, {R::kLoss}, warning, true},
      {K::kAmplified, 0.199, {R::kLoss}, info, true},
      {K::kAmplified, 0.3, {}, info, true},
      {K::kFlushed, 0.199, {R::kGradient}, info, true},
      {K::kFlushed, 0.3, {R::kGradient}, warning, true},
      // A batch that is far off has come all the way from a small error.
      {K::kAmplified, 0.1, {R::kInput}, warning, true},
      {K::kFlushed, 0.1, {R::kInput}, warning, true},
  };
  for (const auto& row : rows) {
    Rated rated;
    const int number = rated.Add(row.kind, row.error_out, row.reach);
    EXPECT_EQ(rated.Rate().size(), row.counts ? 1u : 0u) << NameOf(row.kind) << row.error_out;
    EXPECT_EQ(rated[number].severity, row.severity) << NameOf(row.kind) << row.error_out;
  }
}

TEST(Rating, WhatIsOnlyRoundingAndWouldNotBeInFp32IsAWarningWhateverItReaches) {
  struct {
    double error_out;
    Phase phase;
    Proof proof;
    bool is_small_loss;
    Severity severity;
    const char* cure = "float32";
    Phase works_on_it = Phase::kBackward;
  } const rows[] = {
      {1, Phase::kLoss, Proof::kProven, false, Severity::kWarning},
      {1, Phase::kForward, Proof::kProven, false, Severity::kWarning},
      {0.99, Phase::kLoss, Proof::kProven, false, Severity::kInfo},
      {1, Phase::kBackward, Proof::kProven, false, Severity::kInfo},
      {1, Phase::kOptimizer, Proof::kProven, false, Severity::kInfo},
      {1, Phase::kLoss, Proof::kNotTested, false, Severity::kInfo},
      {1, Phase::kLoss, Proof::kExcluded, false, Severity::kInfo},
      {1, Phase::kLoss, Proof::kProven, true, Severity::kInfo},
      {1, Phase::kLoss, Proof::kProven, false, Severity::kInfo, "float64"},
      {1, Phase::kLoss, Proof::kProven, false, Severity::kInfo, "float32", Phase::kLoss},
  };
  for (const auto& row : rows) {
    Rated rated;
    const int number = rated.Add(FindingKind::kAmplified, row.error_out, {}, row.phase);
    rated[number].precision = row.proof;
    rated[number].cure.emplace().what = row.cure;
    const int next = rated.Add(FindingKind::kAmplified, 2, {}, row.works_on_it);
    rated[next].parent = rated.Add(FindingKind::kAmplified, 2, {}, row.works_on_it);
    rated[rated[next].parent].parent = number;
    rated.Rate({.is_small_loss = row.is_small_loss});
    EXPECT_EQ(rated[number].severity, row.severity)
        << row.error_out << " " << NameOf(row.phase) << " " << NameOf(row.proof);
  }
}

TEST(Rating, SmallDifferencesThatOnlyAnOptimizerReadsAreNotes) {
  struct {
    Phase phase;
    const char* cure;
    std::initializer_list<Reached> reach;
    Severity severity;
    FindingKind kind = FindingKind::kAmplified;
  } const rows[] = {
      {Phase::kOptimizer, "float64", {Reached::kOutput}, Severity::kInfo},
      {Phase::kOptimizer, "float64", {Reached::kOutput}, Severity::kError, FindingKind::kRange},
      {Phase::kOptimizer, "float64", {Reached::kOutput, Reached::kState}, Severity::kWarning},
      {Phase::kOptimizer, "float32", {Reached::kOutput}, Severity::kWarning},
      {Phase::kLoss, "float64", {Reached::kOutput}, Severity::kWarning},
  };
  for (const auto& row : rows) {
    Rated rated;
    const int number = rated.Add(row.kind, 1, row.reach, row.phase);
    rated[number].cure.emplace().what = row.cure;
    rated.Rate();
    EXPECT_EQ(rated[number].severity, row.severity) << NameOf(row.phase) << " " << row.cure;
  }
}

TEST(Rating, InfinitiesOfABackwardPassThatWereOnlyReadAreDiscarded) {
  using R = Reached;
  struct {
    FindingKind kind;
    Phase phase;
    std::initializer_list<R> reach;
    bool discarded;
  } const rows[] = {
      {FindingKind::kRange, Phase::kBackward, {R::kOutput}, true},
      {FindingKind::kRange, Phase::kBackward, {R::kOutput, R::kReplaced}, true},
      {FindingKind::kRange, Phase::kBackward, {R::kOutput, R::kGradient}, false},
      {FindingKind::kRange, Phase::kForward, {R::kOutput}, false},
      {FindingKind::kUndefined, Phase::kBackward, {R::kOutput}, false},
  };
  for (const auto& row : rows) {
    Rated rated;
    const int number = rated.Add(row.kind, 1, row.reach, row.phase);
    rated.Rate();
    EXPECT_EQ(rated[number].discarded, row.discarded);
    EXPECT_EQ(rated[number].severity, row.discarded ? Severity::kWarning : Severity::kError);
  }
}

TEST(Rating, WhereNothingIsLeftToLearnWarningsAreNotesUnlessTheyMakeItLookSo) {
  using K = FindingKind;
  using R = Reached;
  struct {
    K kind;
    const char* dtype;
    std::initializer_list<R> reach;
    Severity severity;
  } const rows[] = {
      {K::kAmplified, "bfloat16", {R::kGradient}, Severity::kInfo},
      {K::kAmplified, "bfloat16", {R::kDecision}, Severity::kWarning},
      {K::kLostChange, "bfloat16", {R::kState}, Severity::kWarning},
      {K::kLostChange, "float32", {R::kState}, Severity::kInfo},
      {K::kLostChange, "float32", {R::kDecision}, Severity::kInfo},
      {K::kUndefined, "float32", {R::kLoss}, Severity::kError},
  };
  for (const auto& row : rows) {
    for (const bool is_settled : {true, false}) {
      Rated rated;
      const int number = rated.Add(row.kind, 0.5, row.reach);
      rated[number].dtype = row.dtype;
      EXPECT_EQ(rated.Rate({.is_settled = is_settled}).size(), 1u);
      const auto without = row.kind == K::kUndefined ? Severity::kError : Severity::kWarning;
      EXPECT_EQ(rated[number].severity, is_settled ? row.severity : without);
    }
  }
}

TEST(Rating, WorseComesBeforeBetterAndEarlierBeforeLater) {
  using K = FindingKind;
  using R = Reached;
  Rated rated;
  const int note = rated.Add(K::kAmplified, 0.1, {R::kLoss});
  const int clipped = rated.Add(K::kClipped, 0.5, {R::kLoss});
  const int amplified = rated.Add(K::kAmplified, 0.5, {R::kLoss});
  const int undefined = rated.Add(K::kUndefined, 1, {R::kLoss});
  rated.Add(K::kRange, 1, {});
  const int range = rated.Add(K::kRange, 1, {R::kLoss});
  const int later = rated.Add(K::kRange, 1, {R::kLoss});
  const int discarded = rated.Add(K::kRange, 1, {R::kOutput}, Phase::kBackward);
  EXPECT_EQ(rated.Rate(),
            (std::vector<int>{range, later, undefined, discarded, clipped, amplified, note}));
  // It is the call that says what is earlier.
  rated[clipped].number = 99;
  EXPECT_EQ(rated.Rate(),
            (std::vector<int>{range, later, undefined, discarded, amplified, clipped, note}));
}

TEST(Rating, WhatLeavesItsRangeBecauseOfWhollyWrongValuesHasTheirCure) {
  struct {
    FindingKind kind;
    Proof precision;
    double before;
    bool has_cure, follows;
  } const rows[] = {
      {FindingKind::kRange, Proof::kNotTested, 1, true, true},
      {FindingKind::kRange, Proof::kNotTested, 2, true, true},
      {FindingKind::kRange, Proof::kNotTested, 0.99, true, false},
      {FindingKind::kRange, Proof::kNotTested, 2, false, false},
      {FindingKind::kRange, Proof::kExcluded, 2, true, false},
      {FindingKind::kUndefined, Proof::kNotTested, 2, true, false},
  };
  for (const auto& row : rows) {
    for (const int between : {0, 1}) {
      Rated rated;
      const int before = rated.Add(FindingKind::kAmplified, row.before, {Reached::kLoss});
      rated[before].precision = Proof::kProven;
      if (row.has_cure) rated[before].cure = Cure{{"train.py:1"}, {"op"}, "float32", 2, 0};
      int parent = before;
      if (between) {
        parent = rated.Add(FindingKind::kAmplified, 0.5, {});
        rated[parent].parent = before;
      }
      const int last = rated.Add(row.kind, 1, {Reached::kLoss});
      rated[last].parent = parent;
      rated[last].precision = row.precision;
      rated.Rate();
      ASSERT_EQ(rated[last].cure.has_value(), row.follows);
      EXPECT_EQ(rated[last].precision, row.follows ? Proof::kProven : row.precision);
      if (row.follows) {
        EXPECT_EQ(rated[last].cure->lines, std::vector<std::string>{"train.py:1"});
      }
    }
  }
}

}  // namespace
}  // namespace mpnanny::judgement
