// How good the search is: queries as people write them, each with the case that it should find.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "base/files.h"
#include "base/text.h"
#include "tools/search_knowledge/index.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

struct Query {
  std::string text, expected, set;
};

std::vector<Query> ReadQueries() {
  std::vector<Query> queries;
  const auto text = ReadFile(
      std::string(MPNANNY_SOURCE_DIR) + "/tests/search_knowledge/queries.tsv", kMaxTextFileBytes);
  EXPECT_TRUE(text);
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    Query query;
    std::getline(fields, query.text, '\t');
    std::getline(fields, query.expected, '\t');
    std::getline(fields, query.set, '\t');
    queries.push_back(query);
  }
  return queries;
}

struct Recall {
  size_t queries = 0, first = 0, third = 0;
  double at1() const { return static_cast<double>(first) / static_cast<double>(queries); }
  double at3() const { return static_cast<double>(third) / static_cast<double>(queries); }
};

class SearchQuality : public testing::Test {
 protected:
  void SetUp() override {
    const auto data = DataFiles::Create();
    ASSERT_TRUE(data);
    auto index = KnowledgeIndex::Build(*data);
    ASSERT_TRUE(index) << index.error().Text();
    index_ = *std::move(index);
  }

  // Position of the expected case, from 1; 0 if it is not among the hits.
  size_t Position(const Query& query) const {
    const auto hits = index_->Search(query.text, {});
    EXPECT_TRUE(hits) << query.text;
    for (size_t i = 0; hits && i < hits->hits.size(); ++i) {
      if (hits->hits[i].found->id == query.expected) return i + 1;
    }
    return 0;
  }

  std::unique_ptr<KnowledgeIndex> index_;
};

TEST_F(SearchQuality, EveryQueryNamesACaseAndAThirdAreChinese) {
  const std::vector<Query> queries = ReadQueries();
  size_t chinese = 0;
  for (const Query& query : queries) {
    EXPECT_NE(index_->library().Find(query.expected), nullptr) << query.expected;
    EXPECT_TRUE(query.set == "tune" || query.set == "held") << query.text;
    chinese += HasChinese(query.text);
  }
  EXPECT_GE(chinese * 3, queries.size());
}

// Each set by itself: where the queries that tuning may look at rise, they do not hide a fall of
// those that are only measured. The figures are today's, rounded down.
TEST_F(SearchQuality, RecallIsWhatItWasOrBetter) {
  struct Gate {
    const char* set;
    size_t queries;  // at least: a query that fails cannot be taken out
    double at1, at3;
  };
  for (const Gate& gate : {Gate{"tune", 77, 0.98, 1}, Gate{"held", 78, 0.91, 1}}) {
    Recall recall;
    std::string missed;
    for (const Query& query : ReadQueries()) {
      if (query.set != gate.set) continue;
      const size_t position = Position(query);
      ++recall.queries;
      recall.first += position == 1;
      recall.third += position >= 1 && position <= 3;
      if (position != 1) {
        missed += "  " + std::to_string(position) + "  " + query.text + "  (" + query.expected +
                  ")\n";
      }
    }
    std::cout << gate.set << " " << recall.queries << ": recall@1 " << recall.at1()
              << ", recall@3 " << recall.at3() << "\nnot first (0: not found):\n"
              << missed;
    EXPECT_GE(recall.queries, gate.queries);
    EXPECT_GE(recall.at1(), gate.at1) << gate.set << "\n" << missed;
    EXPECT_GE(recall.at3(), gate.at3) << gate.set << "\n" << missed;
  }
}

}  // namespace
}  // namespace mpnanny::search_knowledge
