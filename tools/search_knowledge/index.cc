#include "tools/search_knowledge/index.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/text.h"
#include "tools/cases/vocabulary.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

using cases::Case;
using cases::Signal;

// Columns and their BM25 weights, tuned on the rows of tests/search_knowledge/queries.tsv that are
// marked "tune". What people type resembles titles, symptoms and signals (which hold error
// messages); the long text decides only ties.
struct Column {
  const char* name;
  double weight;
};
constexpr std::array<Column, 8> kColumns = {{{"id", 5},
                                             {"title", 8},
                                             {"symptom", 6},
                                             {"signals", 3},
                                             {"tags", 2},
                                             {"fix", 1.5},
                                             {"body", 1},
                                             {"zh", 6}}};

constexpr double kIdBonus = 100;    // the query names the case
constexpr double kSignalBonus = 4;  // times the weight of the signal that the query names
// Every matched word counts a little by itself: BM25 gives nothing for a word that half of the
// cases hold ("nan"), and the case that holds more of the query's words is the better one.
constexpr double kWordBonus = 0.5;
constexpr size_t kAlwaysKept = 3;  // the best hits are kept however far the first one is ahead
constexpr double kWeakest = 0.3;   // hits under this share of the best score are noise

using Statement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

Error SqlError(sqlite3* db, const std::string& doing) {
  return Internal("search index: " + doing + ": " + (db ? sqlite3_errmsg(db) : "out of memory"));
}

Result<Statement> Prepare(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  const int rc = sqlite3_prepare_v2(db, sql.c_str(), static_cast<int>(sql.size()), &raw, nullptr);
  Statement statement(raw, &sqlite3_finalize);
  if (rc != SQLITE_OK) return SqlError(db, sql);
  return statement;
}

std::string ColumnNames() {
  std::string names;
  for (const Column& column : kColumns)
    names += (names.empty() ? "" : ", ") + std::string(column.name);
  return names;
}

std::array<std::string, kColumns.size()> Texts(const Case& one) {
  std::string signals;
  for (const Signal& signal : one.signals) signals += signal.text + "\n";
  std::string tags = one.category + " " + one.kind + " " + one.severity;
  for (const auto* list : {&one.precision, &one.components, &one.detectable_by}) {
    for (const std::string& word : *list) tags += " " + word;
  }
  const std::string chinese = one.title_zh + "\n" + one.symptom_zh;
  // What is Latin inside the Chinese texts (error messages, names of functions) is indexed with the
  // symptom.
  std::string latin;
  for (const std::string& word : LatinWords(chinese)) latin += " " + word;
  return {one.id,
          one.title,
          one.symptom + "\n" + latin,
          signals,
          tags,
          one.fix,
          one.body,
          Join(ChineseGrams(chinese, /*singles=*/true), " ")};
}

// "word" OR "word" …: words are letters and digits only, so quoting them is enough.
std::string MatchExpression(const QueryWords& words) {
  std::string expression;
  const auto add = [&](const std::string& term) {
    expression += (expression.empty() ? "" : " OR ") + term;
  };
  for (const std::string& word : words.latin) add("\"" + word + "\"");
  for (const std::string& gram : words.chinese) add("zh : \"" + gram + "\"");
  return expression;
}

double SignalWeight(const Case& one, Signal::Kind kind, const std::string& name) {
  double weight = 0;
  for (const Signal& signal : one.signals) {
    if (signal.kind == kind && signal.name == name) weight = std::max(weight, signal.weight);
  }
  return weight;
}

// A query may be a pasted log: the weight of the strongest log signal that one of its lines fits.
double LogWeight(const Case& one, const std::string& query) {
  double weight = 0;
  for (size_t start = 0; start < query.size();) {
    const size_t end = std::min(query.find('\n', start), query.size());
    const std::string_view line = std::string_view(query).substr(start, end - start);
    for (const Signal& signal : one.signals) {
      if (signal.kind == Signal::Kind::kLog && cases::FitsLogLine(signal, line)) {
        weight = std::max(weight, signal.weight);
      }
    }
    start = end + 1;
  }
  return weight;
}

bool Holds(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool Fits(const Case& one, const Filters& filters) {
  return (filters.category.empty() || one.category == filters.category) &&
         (filters.severity.empty() || one.severity == filters.severity) &&
         (filters.kind.empty() || one.kind == filters.kind) &&
         (filters.precision.empty() || Holds(one.precision, filters.precision)) &&
         (filters.alert.empty() || SignalWeight(one, Signal::Kind::kAlert, filters.alert) > 0) &&
         (filters.rule.empty() || SignalWeight(one, Signal::Kind::kRule, filters.rule) > 0);
}

// Words as people write ids and alert types: letters, digits, '-' and '_'.
std::vector<std::string> NamesIn(const std::string& query) {
  std::vector<std::string> names;
  std::string name;
  for (const char c : query + " ") {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
        c == '_') {
      name += c;
    } else if (!name.empty()) {
      if (names.size() < 200) names.push_back(name);
      name.clear();
    }
  }
  return names;
}

// The longest stretches of two characters or more that the query shares with the Chinese text.
void AddChineseMatches(const std::string& query, const std::string& text,
                       std::vector<std::string>& matched) {
  for (const std::string& run : ChineseRuns(query)) {
    for (size_t start = 0; start < run.size();) {
      size_t length = 0;
      while (start + length + 3 <= run.size() &&
             text.find(run.substr(start, length + 3)) != std::string::npos) {
        length += 3;
      }
      if (length >= 6) matched.push_back(run.substr(start, length));
      start += std::max<size_t>(length, 3);
    }
  }
}

std::vector<std::string> Matched(const Case& one, const std::string& query,
                                 const QueryWords& words) {
  std::vector<std::string> matched;
  AddChineseMatches(query, one.title_zh + "\n" + one.symptom_zh, matched);
  std::string signals;
  for (const Signal& signal : one.signals) signals += signal.text + "\n";
  const std::vector<std::string> held = LatinWords(one.id + " " + one.title + " " + one.symptom +
                                                   " " + one.symptom_zh + " " + signals);
  for (const std::string& word : words.latin) {
    if (Holds(held, word)) matched.push_back(word);
  }
  std::vector<std::string> once;
  for (std::string& word : matched) {
    if (once.size() < 12 && !Holds(once, word)) once.push_back(std::move(word));
  }
  return once;
}

}  // namespace

bool Filters::empty() const {
  return category.empty() && severity.empty() && precision.empty() && kind.empty() &&
         alert.empty() && rule.empty();
}

KnowledgeIndex::~KnowledgeIndex() { sqlite3_close(db_); }

Result<std::unique_ptr<KnowledgeIndex>> KnowledgeIndex::Build(const DataFiles& data) {
  std::unique_ptr<KnowledgeIndex> index(new KnowledgeIndex);
  index->library_ = cases::CaseLibrary::Load(data);
  if (sqlite3_open_v2(
          ":memory:", &index->db_,
          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
          nullptr) != SQLITE_OK) {
    return SqlError(index->db_, "open");
  }
  sqlite3* const db = index->db_;
  auto create = Prepare(db, "CREATE VIRTUAL TABLE cases USING fts5(" + ColumnNames() +
                                ", tokenize = 'porter unicode61')");
  if (!create) return create.error();
  if (sqlite3_step(create->get()) != SQLITE_DONE) return SqlError(db, "create");

  std::string marks;
  for (size_t i = 0; i < kColumns.size(); ++i) marks += ", ?";
  auto insert =
      Prepare(db, "INSERT INTO cases(rowid, " + ColumnNames() + ") VALUES (?" + marks + ")");
  if (!insert) return insert.error();
  const std::vector<Case>& all = index->library_.all();
  for (size_t i = 0; i < all.size(); ++i) {
    sqlite3_bind_int64(insert->get(), 1, static_cast<sqlite3_int64>(i));
    const auto texts = Texts(all[i]);
    for (size_t c = 0; c < texts.size(); ++c) {
      sqlite3_bind_text(insert->get(), static_cast<int>(c) + 2, texts[c].data(),
                        static_cast<int>(texts[c].size()), SQLITE_TRANSIENT);
    }
    if (sqlite3_step(insert->get()) != SQLITE_DONE) return SqlError(db, "insert " + all[i].id);
    sqlite3_reset(insert->get());
  }
  return index;
}

Result<std::vector<Hit>> KnowledgeIndex::Ranked(const std::string& query) const {
  const std::vector<Case>& all = library_.all();
  std::vector<double> scores(all.size(), 0);
  const QueryWords words = CutQuery(query);
  if (const std::string expression = MatchExpression(words); !expression.empty()) {
    std::string weights;
    for (const Column& column : kColumns) weights += ", " + std::to_string(column.weight);
    const std::lock_guard lock(mutex_);
    auto select =
        Prepare(db_, "SELECT rowid, bm25(cases" + weights + ") FROM cases WHERE cases MATCH ?");
    if (!select) return select.error();
    sqlite3_bind_text(select->get(), 1, expression.data(), static_cast<int>(expression.size()),
                      SQLITE_TRANSIENT);
    int rc = SQLITE_ROW;
    while ((rc = sqlite3_step(select->get())) == SQLITE_ROW) {
      const auto row = static_cast<size_t>(sqlite3_column_int64(select->get(), 0));
      scores[row] = -sqlite3_column_double(select->get(), 1);  // FTS5: the smaller, the better
    }
    if (rc != SQLITE_DONE) return SqlError(db_, "query");
  }
  for (const std::string& name : NamesIn(query)) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].id == name) scores[i] += kIdBonus;
      scores[i] += kSignalBonus * (SignalWeight(all[i], Signal::Kind::kAlert, name) +
                                   SignalWeight(all[i], Signal::Kind::kRule, name));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) scores[i] += kSignalBonus * LogWeight(all[i], query);
  std::vector<Hit> hits;
  for (size_t i = 0; i < all.size(); ++i) {
    if (scores[i] <= 0) continue;
    Hit hit{&all[i], scores[i], Matched(all[i], query, words)};
    hit.score += kWordBonus * static_cast<double>(hit.matched.size());
    hits.push_back(std::move(hit));
  }
  return hits;
}

Result<std::vector<Hit>> KnowledgeIndex::Search(const std::string& query,
                                                const Filters& filters) const {
  const QueryWords words = CutQuery(query);
  std::vector<Hit> hits;
  if (words.latin.empty() && words.chinese.empty()) {
    if (filters.empty()) return hits;
    for (const Case& one : library_.all()) {
      const double weight = SignalWeight(one, Signal::Kind::kAlert, filters.alert) +
                            SignalWeight(one, Signal::Kind::kRule, filters.rule);
      hits.push_back({&one, weight, {}});
    }
  } else {
    auto ranked = Ranked(query);
    if (!ranked) return ranked.error();
    hits = *std::move(ranked);
  }
  std::erase_if(hits, [&](const Hit& hit) { return !Fits(*hit.found, filters); });
  std::stable_sort(hits.begin(), hits.end(),
                   [](const Hit& a, const Hit& b) { return a.score > b.score; });
  const double weakest = hits.empty() ? 0 : std::min(hits.front().score, kIdBonus / 2) * kWeakest;
  while (hits.size() > kAlwaysKept && hits.back().score < weakest) hits.pop_back();
  return hits;
}

Result<std::shared_ptr<const KnowledgeIndex>> SharedIndex(const DataFiles& data) {
  const uint64_t fingerprint = data.Fingerprint(cases::kCaseFolder);
  static std::mutex mutex;
  static std::shared_ptr<const KnowledgeIndex> kept;
  static uint64_t kept_fingerprint = 0;
  const std::lock_guard lock(mutex);
  if (!kept || kept_fingerprint != fingerprint) {
    auto built = KnowledgeIndex::Build(data);
    if (!built) return built.error();
    kept = *std::move(built);
    kept_fingerprint = fingerprint;
  }
  return kept;
}

}  // namespace mpnanny::search_knowledge
