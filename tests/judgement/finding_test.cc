// Places' words, and what a finding reaches.
#include "engines/judgement/finding.h"

#include <gtest/gtest.h>

namespace mpnanny::judgement {
namespace {

TEST(Finding, ASchemaIsTheOperatorWithoutItsOverload) {
  for (const auto& [op, schema] :
       std::vector<std::pair<std::string, std::string>>{{"aten.sub.Tensor", "aten::sub"},
                                                        {"aten.sub", "aten::sub"},
                                                        {"aten.sum.dim.more", "aten::sum"},
                                                        {"custom", "custom"}}) {
    Place place;
    place.op = op;
    EXPECT_EQ(place.Schema(), schema);
  }
}

TEST(Finding, AKeyIsTheOperatorTheLineThePhaseAndTheModule) {
  Place place;
  place.op = "aten.sub.Tensor";
  EXPECT_EQ(place.Source(), "");
  EXPECT_EQ(place.Key(), "aten.sub.Tensor||forward");
  place.file = "train.py";
  place.line = 3;
  place.phase = Phase::kBackward;
  place.module = "fc";
  EXPECT_EQ(place.Source(), "train.py:3");
  EXPECT_EQ(place.Key(), "aten.sub.Tensor|train.py:3|backward|fc");
}

TEST(Finding, ReachesAreOneForEachNameWithTheLargestError) {
  Finding finding;
  finding.Reaches(Reached::kGradient, "a", 0.5);
  finding.Reaches(Reached::kGradient, "a", 0.7);
  finding.Reaches(Reached::kGradient, "a", 0.6);
  finding.Reaches(Reached::kGradient, "b", 0.1);
  finding.Reaches(Reached::kState, "a", 0.2);
  finding.Reaches(Reached::kOutput, "", -1);
  ASSERT_EQ(finding.reach.size(), 4u);
  EXPECT_EQ(finding.reach[0].error, 0.7);
  EXPECT_EQ(finding.reach[1].error, 0.1);
  EXPECT_EQ(finding.reach[2].error, 0.2);
  EXPECT_EQ(finding.reach[3].error, 0);
}

TEST(Finding, WhatItGetsToAndToNothingElse) {
  Finding finding;
  EXPECT_FALSE(finding.GetsTo(Reached::kLoss));
  EXPECT_TRUE(finding.GetsOnlyTo({Reached::kLoss})) << "it gets to nothing";
  finding.Reaches(Reached::kOutput, "", 1);
  finding.Reaches(Reached::kReplaced, "", 1);
  EXPECT_TRUE(finding.GetsTo(Reached::kReplaced));
  EXPECT_FALSE(finding.GetsTo(Reached::kLoss));
  EXPECT_TRUE(finding.GetsOnlyTo({Reached::kOutput, Reached::kReplaced, Reached::kLoss}));
  EXPECT_FALSE(finding.GetsOnlyTo({Reached::kOutput}));
}

}  // namespace
}  // namespace mpnanny::judgement
