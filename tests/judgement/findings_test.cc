// One finding for each kind and place, with the worse figures.
#include "engines/judgement/findings.h"

#include <gtest/gtest.h>

namespace mpnanny::judgement {
namespace {

Finding Found(FindingKind kind, double share, double error_out) {
  Finding made;
  made.kind = kind;
  made.number = static_cast<int>(10 * error_out);
  made.dtype = std::to_string(error_out);
  made.shape = {static_cast<int64_t>(10 * error_out)};
  made.share = share;
  made.magnitude = 3 * error_out;
  made.error_in = error_out / 2;
  made.error_out = error_out;
  return made;
}

TEST(Findings, AKindAtAPlaceIsOneFindingThatKeepsTheWorseFigures) {
  struct {
    double share, error_out;
    bool is_worse;
  } const rows[] = {
      {0.5, 0.6, true},  {0.6, 0.5, true}, {0.5, 0.5, false},
      {0.4, 0.4, false}, {0.4, 0.6, true}, {0.6, 0.4, true},
  };
  for (const auto& row : rows) {
    Findings findings;
    Finding first = Found(FindingKind::kAmplified, 0.5, 0.5);
    first.dtype = "first";
    first.number = 77;
    EXPECT_EQ(findings.Add(4, first), 0);
    EXPECT_EQ(findings.Add(4, Found(FindingKind::kAmplified, row.share, row.error_out)), 0);
    const Finding& kept = findings[0];
    EXPECT_EQ(kept.count, 2);
    EXPECT_EQ(kept.number, 77) << "where it was first";
    EXPECT_EQ(kept.dtype, row.is_worse ? std::to_string(row.error_out) : "first");
    EXPECT_EQ(kept.share, row.is_worse ? row.share : 0.5);
    EXPECT_EQ(kept.error_out, row.is_worse ? row.error_out : 0.5);
    EXPECT_EQ(kept.error_in, row.is_worse ? row.error_out / 2 : 0.25);
    EXPECT_EQ(kept.magnitude, 3 * (row.is_worse ? row.error_out : 0.5));
    EXPECT_EQ(kept.shape[0], static_cast<int64_t>(10 * (row.is_worse ? row.error_out : 0.5)));
  }
}

TEST(Findings, AnotherKindOrPlaceIsAnotherFinding) {
  Findings findings;
  EXPECT_EQ(findings.Add(4, Found(FindingKind::kAmplified, 1, 1)), 0);
  EXPECT_EQ(findings.Add(5, Found(FindingKind::kAmplified, 1, 1)), 1);
  EXPECT_EQ(findings.Add(4, Found(FindingKind::kFlushed, 1, 1)), 2);
  EXPECT_EQ(findings.Add(5, Found(FindingKind::kAmplified, 1, 1)), 1);
  EXPECT_EQ(findings.all().size(), 3u);
}

TEST(Findings, ReachGoesUpToAllParents) {
  Findings findings;
  for (int at = 0; at < 4; ++at) {
    Finding made = Found(FindingKind::kAmplified, 1, 1);
    made.parent = at == 0 || at == 3 ? kNone : at - 1;
    findings.Add(at, made);
  }
  findings.Reaches(2, Reached::kLoss, "", 0.5);
  findings.Reaches(kNone, Reached::kLoss, "", 0.5);
  for (int at = 0; at < 4; ++at) EXPECT_EQ(findings[at].reach.size(), at < 3 ? 1u : 0u);
  EXPECT_EQ(findings[0].reach[0].error, 0.5);
}

}  // namespace
}  // namespace mpnanny::judgement
