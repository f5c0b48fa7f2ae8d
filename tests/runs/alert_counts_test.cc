// query_alerts over many alerts: filters and pages against a plain loop.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

struct ToldAlert {
  int64_t step;
  std::string severity, type, layer;
};

TEST(ManyAlertsTest, FiltersCountsAndPagesAreThoseOfAPlainLoop) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("alerts");
  for (int i = 0; i < 4; ++i) db.Layer("blocks." + std::to_string(i));
  std::mt19937 random(17);
  const std::string types[] = {"NAN", "UNDERFLOW", "SATURATION"};
  std::vector<ToldAlert> told;
  db.Execute("BEGIN");
  int64_t step = 0;
  for (int i = 0; i < 3'000; ++i) {
    step += static_cast<int64_t>(random() % 3);
    const bool error = i > 2'700 && random() % 2 == 0;
    const auto layer = static_cast<int64_t>(random() % 4);
    const std::string& type = error ? types[0] : types[1 + random() % 2];
    db.Alert(step, {.type = type, .severity = error ? "ERROR" : "WARNING", .layer = layer + 1});
    told.push_back({step, error ? "ERROR" : "WARNING", type, "blocks." + std::to_string(layer)});
  }
  db.Execute("COMMIT");

  const Json filters[] = {
      Json::object(),
      {{"severity", {"ERROR"}}},
      {{"type", {"SATURATION"}}},
      {{"type", {"SATURATION", "NAN"}}, {"steps", "500..2500"}},
      {{"severity", {"WARNING"}}, {"steps", "2000.."}},
      {{"layer", {"*.2"}}},
      {{"layer", {"*.2"}}, {"severity", {"ERROR"}}},
      {{"severity", {"INFO"}}},
      {{"steps", "100000.."}},
  };
  for (const Json& filter : filters) {
    SCOPED_TRACE(DumpJson(filter));
    const auto holds = [&](const char* key, const std::string& value) {
      const Json allowed = filter.value(key, Json::array());
      return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    };
    const std::string steps = filter.value("steps", "0..");
    const int64_t first = std::stoll(steps);
    const int64_t last =
        steps.ends_with("..") ? INT64_MAX : std::stoll(steps.substr(steps.find("..") + 2));
    std::vector<ToldAlert> expected;
    std::map<std::string, int64_t> counts;
    for (const ToldAlert& each : told) {
      if (each.step < first || each.step > last || !holds("severity", each.severity) ||
          !holds("type", each.type) || (filter.contains("layer") && each.layer != "blocks.2")) {
        continue;
      }
      expected.push_back(each);
      ++counts[each.type];
    }
    // Three pages from the beginning, then the last ones.
    std::string cursor;
    size_t at = 0;
    for (int page = 0; page < 400; ++page) {
      Json arguments = filter;
      arguments["run"] = "m.db";
      if (!cursor.empty()) arguments["cursor"] = cursor;
      auto output = Call("query_alerts", arguments, folder.path(), 64'000);
      ASSERT_TRUE(output) << output.error().Text();
      const Json& answer = output->structured;
      EXPECT_EQ(answer["total"], expected.size());
      ASSERT_EQ(answer["by_type"].size(), counts.size());
      for (const Json& group : answer["by_type"]) EXPECT_EQ(group["count"], counts[group["type"]]);
      for (const Json& alert : answer["alerts"]) {
        ASSERT_LT(at, expected.size());
        EXPECT_EQ(alert["step"], expected[at].step);
        EXPECT_EQ(alert["type"], expected[at].type);
        EXPECT_EQ(alert["layer"], expected[at].layer);
        ++at;
      }
      if (!answer.contains("next_cursor")) break;
      EXPECT_NE(output->text.find(std::to_string(expected.size() - at) + " more"),
                std::string::npos);
      cursor = answer["next_cursor"];
    }
    EXPECT_EQ(at, expected.size());
  }
}

}  // namespace
}  // namespace mpnanny::test
