// Which ranks stand apart, and the SQL that readers speak in a server's words.
#include "tools/query_stats/rank_spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "engines/team/dialect.h"
#include "engines/team/merged_rows.h"

namespace mpnanny {
namespace {

using query_stats::RankFigure;
using query_stats::SpreadOf;

// At step 0 the ranks' figures in turn.
std::map<int64_t, std::vector<RankFigure>> Step(const std::vector<double>& values) {
  std::map<int64_t, std::vector<RankFigure>> by_step;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    by_step[0].push_back({static_cast<int64_t>(rank), values[rank]});
  }
  return by_step;
}

std::vector<int64_t> Apart(const std::vector<double>& values) {
  std::vector<int64_t> ranks;
  for (const auto& outlier : SpreadOf(Step(values)).outliers) ranks.push_back(outlier.rank);
  return ranks;
}

TEST(RankSpreadTest, LeastMedianAndLargestOfTheFiniteOnes) {
  const auto spread = SpreadOf(Step({3, 1, NAN, 2, 8}));
  ASSERT_EQ(spread.points.size(), 1u);
  EXPECT_EQ(spread.points[0].least, 1);
  EXPECT_EQ(spread.points[0].median, 2.5);
  EXPECT_EQ(spread.points[0].largest, 8);
  EXPECT_EQ(spread.points[0].ranks, 5);
  EXPECT_EQ(spread.points[0].nonfinite, 1);
}

TEST(RankSpreadTest, WhoIsFartherThanTheOthersScatter) {
  // The median distance from the median is 1: ten deviations are 14.8.
  EXPECT_EQ(Apart({9, 10, 10, 11, 11, 12, 24}), (std::vector<int64_t>{}));
  EXPECT_EQ(Apart({9, 10, 10, 11, 11, 12, 26}), (std::vector<int64_t>{6}));
  EXPECT_EQ(Apart({9, -10, 10, 11, 11, 12, 12}), (std::vector<int64_t>{1}));
}

TEST(RankSpreadTest, OfEqualOnesAnyOtherIsApartButForRounding) {
  EXPECT_EQ(Apart({1, 1, 1, 1, 1 + 1e-7}), (std::vector<int64_t>{}));
  EXPECT_EQ(Apart({1, 1, 1, 1, 1 + 1e-5}), (std::vector<int64_t>{4}));
  EXPECT_EQ(Apart({0, 0, 0, 0, 0}), (std::vector<int64_t>{}));
}

TEST(RankSpreadTest, WhoIsNotFiniteWhereMostAre) {
  EXPECT_EQ(Apart({1, 2, 1, 2, INFINITY}), (std::vector<int64_t>{4}));
  EXPECT_EQ(Apart({NAN, NAN, NAN, 2, 1}), (std::vector<int64_t>{}));
}

TEST(RankSpreadTest, OfThreeNoneIsTheOddOne) { EXPECT_TRUE(Apart({1, 1, 1000}).empty()); }

TEST(RankSpreadTest, TheFirstComesFirstAndTheFarthestIsShown) {
  std::map<int64_t, std::vector<RankFigure>> by_step = {
      {10, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {7, 5}}},
      {20, {{0, 1}, {1, 50}, {2, 1}, {3, 1}, {4, 1}, {7, 9}}},
  };
  const auto outliers = SpreadOf(by_step).outliers;
  ASSERT_EQ(outliers.size(), 2u);
  EXPECT_EQ(outliers[0].rank, 7);
  EXPECT_EQ(outliers[0].first_step, 10);
  EXPECT_EQ(outliers[0].steps, 2);
  EXPECT_EQ(outliers[1].rank, 1);
  EXPECT_EQ(outliers[1].first_step, 20);
}

TEST(DialectTest, ParametersAndTables) {
  const auto asked = team::InServersWords(
      "SELECT a.step, coalesce(phase,'from ?1') FROM alert a LEFT JOIN layer l ON l.x=?12 "
      "WHERE step IN (SELECT step FROM (SELECT 1) AS each) AND y=?2");
  EXPECT_EQ(asked.sql,
            "SELECT a.step, coalesce(phase,'from ?1') FROM alert a LEFT JOIN layer l ON l.x=$12 "
            "WHERE step IN (SELECT step FROM (SELECT 1) AS each) AND y=$2");
  EXPECT_EQ(asked.tables, (std::set<std::string>{"alert", "layer"}));
}

TEST(MergedRowsTest, WhatWasMergedIsNotReadAgain) {
  EXPECT_EQ(team::MergedRows(7, 99, true).find("mpnanny.part"), std::string::npos);
  const std::string rows = team::MergedRows(7, 99, false);
  EXPECT_NE(rows.find("step <= 99"), std::string::npos);
  EXPECT_NE(rows.find("r.step > 99"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny
