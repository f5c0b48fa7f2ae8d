#include "tools/search_knowledge/index.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/text.h"
#include "engines/cases/vocabulary.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

using cases::Case;
using cases::Signal;

// Columns and their BM25 weights. What people type resembles titles, symptoms, phrases as posted and
// signals (which hold error messages); the long text decides only ties. All figures here were
// tuned on the questions marked "tune" in tests/search_knowledge; those of a second person were
// only measured.
struct Column {
  const char* name;
  double weight;
};
constexpr std::array<Column, 10> kColumns = {{{"id", 5},
                                              {"title", 8},
                                              {"symptom", 6},
                                              {"posted", 8},
                                              {"signals", 3},
                                              {"tags", 2},
                                              {"fix", 1.5},
                                              {"body", 1},
                                              {"zh", 4},
                                              {"terms", 4}}};

// A score is BM25 over the best BM25 plus the cosine over the best cosine: 0 … 2, and on top of it:
constexpr double kIdBonus = 10;        // the query names the case
constexpr double kSignalBonus = 0.25;  // times the weight of a signal that the query names or holds
constexpr size_t kAlwaysKept = 3;      // the best hits are kept however far the first one is ahead
constexpr double kWeakest = 0.3;       // hits under this share of the best score are noise

// A question is about a case if its words say so: Subject's log-odds plus a share of the best BM25.
// The figures are those at which 0.93 of 60 questions about other subjects are refused and 0.99 of
// 220 about our own are not, all of them by people who knew no case (docs/knowledge.md).
constexpr double kBm25Share = 0.05;
constexpr double kAbout = 5.8;
constexpr double kFewWords = 8;  // a question of fewer words cannot say as much: less is asked of it
constexpr size_t kNeighbours = 2;   // shown when no case is about it
constexpr size_t kMostUnknown = 8;  // words that are named as unknown

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

// What a case says of itself in short texts: title, symptom and phrases, in both languages.
std::vector<std::string> ShortTexts(const Case& one) {
  std::vector<std::string> texts = {one.title, one.title_zh, one.symptom, one.symptom_zh};
  texts.insert(texts.end(), one.posted.begin(), one.posted.end());
  return texts;
}

// Words for comparing vectors: stems, pairs of Chinese characters, terms.
std::vector<std::string> VectorWords(const std::string& text, const Terms& terms) {
  const QueryWords cut = CutQuery(text);
  std::vector<std::string> words = terms.Find(text);
  for (const std::string& word : cut.latin) words.push_back(Stem(word));
  words.insert(words.end(), cut.chinese.begin(), cut.chinese.end());
  return words;
}

std::array<std::string, kColumns.size()> Texts(const Case& one, const Terms& terms) {
  std::string signals;
  for (const Signal& signal : one.signals) signals += signal.text + "\n";
  std::string tags = one.category + " " + one.kind + " " + one.severity;
  for (const auto* list :
       {&one.precision, &one.components, &one.detectable_by, &one.frameworks, &one.devices}) {
    for (const std::string& word : *list) tags += " " + word;
  }
  const std::string posted = Join(one.posted, "\n");
  const std::string chinese = one.title_zh + "\n" + one.symptom_zh + "\n" + posted;
  // What is Latin inside the Chinese texts (error messages, names of functions) is indexed with the
  // symptom.
  const std::string latin = Join(LatinWords(one.title_zh + "\n" + one.symptom_zh), " ");
  std::string found;
  for (const std::string& text : ShortTexts(one)) found += Join(terms.Find(text), " ") + " ";
  return {one.id,
          one.title,
          one.symptom + "\n" + latin,
          posted,
          signals,
          tags,
          one.fix,
          one.body,
          Join(ChineseGrams(chinese, /*singles=*/true), " "),
          found};
}

// "word" OR "word" …: words are letters and digits only, so quoting them is enough.
std::string MatchExpression(const QueryWords& words, const std::vector<std::string>& terms) {
  std::string expression;
  const auto add = [&](const std::string& term) {
    expression += (expression.empty() ? "" : " OR ") + term;
  };
  for (const std::string& word : words.latin) add("\"" + word + "\"");
  for (const std::string& term : terms) add("terms : \"" + term + "\"");
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
  const std::string posted = Join(one.posted, "\n");
  AddChineseMatches(query, one.title_zh + "\n" + one.symptom_zh + "\n" + posted, matched);
  std::string signals;
  for (const Signal& signal : one.signals) signals += signal.text + "\n";
  const std::vector<std::string> held = LatinWords(one.id + " " + one.title + " " + one.symptom +
                                                   " " + one.symptom_zh + " " + posted + " " + signals);
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
  index->terms_ = Terms::Parse(data.Read(kTermsFile).value_or(""));
  if (sqlite3_open_v2(
          ":memory:", &index->db_,
          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
          nullptr) != SQLITE_OK) {
    return SqlError(index->db_, "open");
  }
  sqlite3* const db = index->db_;
  MPN_TRY_ASSIGN(auto create, Prepare(db, "CREATE VIRTUAL TABLE cases USING fts5(" + ColumnNames() +
                                              ", tokenize = 'porter unicode61')"));
  if (sqlite3_step(create.get()) != SQLITE_DONE) return SqlError(db, "create");

  std::string marks;
  for (size_t i = 0; i < kColumns.size(); ++i) marks += ", ?";
  MPN_TRY_ASSIGN(auto insert, Prepare(db, "INSERT INTO cases(rowid, " + ColumnNames() +
                                              ") VALUES (?" + marks + ")"));
  const std::vector<Case>& all = index->library_.all();
  for (size_t i = 0; i < all.size(); ++i) {
    sqlite3_bind_int64(insert.get(), 1, static_cast<sqlite3_int64>(i));
    const auto texts = Texts(all[i], index->terms_);
    for (size_t c = 0; c < texts.size(); ++c) {
      sqlite3_bind_text(insert.get(), static_cast<int>(c) + 2, texts[c].data(),
                        static_cast<int>(texts[c].size()), SQLITE_TRANSIENT);
    }
    if (sqlite3_step(insert.get()) != SQLITE_DONE) return SqlError(db, "insert " + all[i].id);
    sqlite3_reset(insert.get());
  }
  std::vector<std::vector<std::vector<std::string>>> short_texts(all.size());
  std::vector<std::string> ours;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const std::string& text : ShortTexts(all[i])) {
      short_texts[i].push_back(VectorWords(text, index->terms_));
      ours.push_back(text);
    }
    for (const std::string& word : LatinWords(all[i].id + " " + all[i].symptom + " " + all[i].fix +
                                              " " + all[i].body)) {
      index->words_.insert(word);
    }
  }
  index->vectors_ = TermVectors::Build(short_texts);
  index->subject_ = Subject::Learn(ours, data.Read(kOtherSubjectsFile).value_or(""));
  return index;
}

std::vector<std::string> KnowledgeIndex::UnknownWords(const QueryWords& words) const {
  constexpr size_t kShortest = 3;
  constexpr size_t kLongest = 40;  // longer ones are no words
  std::vector<std::string> unknown;
  for (const std::string& word : words.latin) {
    const bool name = word.size() >= kShortest && word.size() <= kLongest &&
                      std::any_of(word.begin(), word.end(), [](char c) { return c > '9'; });
    if (!name || unknown.size() >= kMostUnknown) continue;
    if (!words_.contains(word) && !words_.contains(Stem(word)) && !subject_.Knows(word)) {
      unknown.push_back(word);
    }
  }
  return unknown;
}

Result<std::vector<double>> KnowledgeIndex::Bm25(const std::string& query,
                                                 const QueryWords& words) const {
  std::vector<double> scores(library_.all().size(), 0);
  const std::string expression = MatchExpression(words, terms_.Find(query));
  if (expression.empty()) return scores;
  std::string weights;
  for (const Column& column : kColumns) weights += ", " + std::to_string(column.weight);
  const std::lock_guard lock(mutex_);
  MPN_TRY_ASSIGN(auto select, Prepare(db_, "SELECT rowid, bm25(cases" + weights +
                                               ") FROM cases WHERE cases MATCH ?"));
  sqlite3_bind_text(select.get(), 1, expression.data(), static_cast<int>(expression.size()),
                    SQLITE_TRANSIENT);
  int rc = SQLITE_ROW;
  while ((rc = sqlite3_step(select.get())) == SQLITE_ROW) {
    const auto row = static_cast<size_t>(sqlite3_column_int64(select.get(), 0));
    scores[row] = -sqlite3_column_double(select.get(), 1);  // FTS5: the smaller, the better
  }
  if (rc != SQLITE_DONE) return SqlError(db_, "query");
  return scores;
}

Result<SearchResult> KnowledgeIndex::Ranked(const std::string& query,
                                            const QueryWords& words) const {
  const std::vector<Case>& all = library_.all();
  MPN_TRY_ASSIGN(auto bm25, Bm25(query, words));
  const std::vector<double> cosines = vectors_.Cosines(VectorWords(query, terms_));
  const auto best = [](const std::vector<double>& of) {
    return of.empty() ? 0 : *std::max_element(of.begin(), of.end());
  };
  const double best_bm25 = best(bm25);
  const double best_cosine = best(cosines);
  std::vector<double> scores(all.size(), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    if (best_bm25 > 0) scores[i] += bm25[i] / best_bm25;
    if (best_cosine > 0) scores[i] += cosines[i] / best_cosine;
  }
  // What names a case, an alert, a rule or an error message of one is about it.
  bool named = false;
  for (size_t i = 0; i < all.size(); ++i) {
    double weight = LogWeight(all[i], query);
    for (const std::string& name : NamesIn(query)) {
      if (all[i].id == name) {
        scores[i] += kIdBonus;
        named = true;
      }
      weight += SignalWeight(all[i], Signal::Kind::kAlert, name) +
                SignalWeight(all[i], Signal::Kind::kRule, name);
    }
    scores[i] += kSignalBonus * weight;
    named = named || weight > 0;
  }
  SearchResult found;
  const double certain =
      std::min(1.0, static_cast<double>(words.latin.size() + words.chinese.size()) / kFewWords);
  found.about = named || subject_.LogOdds(query) + kBm25Share * best_bm25 > kAbout * certain;
  found.unknown = UnknownWords(words);
  for (size_t i = 0; i < all.size(); ++i) {
    if (scores[i] > 0) found.hits.push_back({&all[i], scores[i], Matched(all[i], query, words)});
  }
  return found;
}

Result<SearchResult> KnowledgeIndex::Search(const std::string& query,
                                            const Filters& filters) const {
  const QueryWords words = CutQuery(query);
  SearchResult found;
  if (words.latin.empty() && words.chinese.empty()) {
    if (filters.empty()) return found;
    for (const Case& one : library_.all()) {
      const double weight = SignalWeight(one, Signal::Kind::kAlert, filters.alert) +
                            SignalWeight(one, Signal::Kind::kRule, filters.rule);
      found.hits.push_back({&one, weight, {}});
    }
  } else {
    auto ranked = Ranked(query, words);
    if (!ranked) return ranked.error();
    found = *std::move(ranked);
  }
  std::vector<Hit>& hits = found.hits;
  std::erase_if(hits, [&](const Hit& hit) { return !Fits(*hit.found, filters); });
  std::stable_sort(hits.begin(), hits.end(),
                   [](const Hit& a, const Hit& b) { return a.score > b.score; });
  const double weakest = hits.empty() ? 0 : std::min(hits.front().score, kIdBonus / 2) * kWeakest;
  while (hits.size() > kAlwaysKept && hits.back().score < weakest) hits.pop_back();
  if (!found.about && hits.size() > kNeighbours) {
    hits.erase(hits.begin() + kNeighbours, hits.end());
  }
  return found;
}

Result<std::shared_ptr<const KnowledgeIndex>> SharedIndex(const DataFiles& data) {
  const uint64_t fingerprint = data.Fingerprint("knowledge/");
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
