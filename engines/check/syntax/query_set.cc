#include "engines/check/syntax/query_set.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <set>
#include <utility>

#include "base/text.h"

namespace mpnanny::check {
namespace {

// How many unfinished matches tree-sitter keeps; beyond it drops the oldest.
constexpr uint32_t kMatchLimit = 4096;

// With more places than this one walk of the whole file is faster.
constexpr size_t kMostPlaces = 200;

// True for what tree-sitter calls an identifier.
bool IsName(std::string_view word) {
  if (word.empty() || word == "True" || word == "False" || word == "None") return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

bool MatchesAlternative(std::string_view pattern, std::string_view text) {
  const bool from_start = pattern.starts_with('^');
  if (from_start) pattern.remove_prefix(1);
  const bool to_end = pattern.ends_with('$');
  if (to_end) pattern.remove_suffix(1);
  bool anchored = from_start;
  while (true) {
    const size_t gap = pattern.find(".*");
    const std::string_view piece = pattern.substr(0, gap);
    const bool last = gap == std::string_view::npos;
    if (anchored) {
      if (!text.starts_with(piece) || (last && to_end && text.size() != piece.size())) return false;
      text.remove_prefix(piece.size());
    } else if (last && to_end) {
      return text.ends_with(piece);
    } else {
      const size_t at = text.find(piece);
      if (at == std::string_view::npos) return false;
      text.remove_prefix(at + piece.size());
    }
    if (last) return true;
    pattern.remove_prefix(gap + 2);
    anchored = false;
  }
}

std::string At(const QueryText& query, size_t offset) {
  const auto line =
      1 + std::count(
              query.text.begin(),
              query.text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, query.text.size())),
              '\n');
  return query.path + ":" + std::to_string(line) + ": ";
}

}  // namespace

bool IsSimplePattern(std::string_view pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (std::string_view("[](){}+?\\").find(pattern[i]) != std::string_view::npos) return false;
    if (pattern[i] == '*' && (i == 0 || pattern[i - 1] != '.')) return false;
  }
  return !pattern.empty();
}

bool MatchesSimplePattern(std::string_view pattern, std::string_view text) {
  while (true) {
    const size_t bar = pattern.find('|');
    if (MatchesAlternative(pattern.substr(0, bar), text)) return true;
    if (bar == std::string_view::npos) return false;
    pattern.remove_prefix(bar + 1);
  }
}

Result<std::unique_ptr<QuerySet>> QuerySet::Compile(const std::vector<QueryText>& queries) {
  auto set = std::make_unique<QuerySet>();
  std::string all;
  std::vector<size_t> starts;
  for (const QueryText& query : queries) {
    starts.push_back(all.size());
    all += query.text;
    all += '\n';
  }
  const auto owner = [&](size_t byte) {
    return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), byte) -
                               starts.begin()) -
           1;
  };
  uint32_t offset = 0;
  TSQueryError error = TSQueryErrorNone;
  set->query_.reset(ts_query_new(tree_sitter_python(), all.data(),
                                 static_cast<uint32_t>(all.size()), &offset, &error));
  if (!set->query_) {
    constexpr const char* kWhat[] = {"",
                                     "syntax error",
                                     "unknown node type",
                                     "unknown field",
                                     "unknown capture",
                                     "impossible pattern",
                                     "wrong language"};
    if (queries.empty()) return Internal("No query could be compiled.");
    const size_t which = owner(offset);
    return InvalidInput(At(queries[which], offset - starts[which]) +
                        kWhat[std::min<size_t>(error, 6)] + " near \"" + all.substr(offset, 30) +
                        "\".");
  }
  const uint32_t patterns = ts_query_pattern_count(set->query_.get());
  bool has_finding = queries.empty();
  for (uint32_t i = 0; i < ts_query_capture_count(set->query_.get()); ++i) {
    uint32_t length = 0;
    const char* name = ts_query_capture_name_for_id(set->query_.get(), i, &length);
    if (std::string_view(name, length) != "finding") continue;
    set->finding_ = i;
    has_finding = true;
  }
  if (!has_finding) return InvalidInput("No query captures @finding.");
  set->predicates_.resize(patterns);
  for (uint32_t pattern = 0; pattern < patterns; ++pattern) {
    const QueryText& query =
        queries[owner(ts_query_start_byte_for_pattern(set->query_.get(), pattern))];
    set->rules_.push_back(query.rule);
    if (ts_query_capture_quantifier_for_id(set->query_.get(), pattern, set->finding_) !=
        TSQuantifierOne) {
      return InvalidInput(query.path + ": every pattern must capture @finding exactly once.");
    }
    MPN_TRY(set->ReadPredicates(pattern, query));
    const uint32_t start = ts_query_start_byte_for_pattern(set->query_.get(), pattern);
    const uint32_t end = ts_query_end_byte_for_pattern(set->query_.get(), pattern);
    set->whole_ =
        !set->AddWords(pattern, std::string_view(all).substr(start, end - start)) || set->whole_;
  }
  return set;
}

Result<void> QuerySet::ReadPredicates(uint32_t pattern, const QueryText& query) {
  uint32_t count = 0;
  const TSQueryPredicateStep* steps =
      ts_query_predicates_for_pattern(query_.get(), pattern, &count);
  const auto text_of = [&](const TSQueryPredicateStep& step) {
    uint32_t length = 0;
    const char* text = ts_query_string_value_for_id(query_.get(), step.value_id, &length);
    return std::string(text, length);
  };
  std::set<uint32_t> used = {finding_};
  for (uint32_t i = 0; i < count;) {
    std::vector<TSQueryPredicateStep> parts;
    for (; i < count && steps[i].type != TSQueryPredicateStepTypeDone; ++i)
      parts.push_back(steps[i]);
    ++i;
    if (parts.empty() || parts[0].type != TSQueryPredicateStepTypeString) continue;
    const std::string whole = text_of(parts[0]);
    std::string_view name = whole;
    Predicate predicate;
    if (name.starts_with("any-") && name != "any-of?") {
      predicate.any = true;
      name.remove_prefix(4);
    }
    if (name.starts_with("not-")) {
      predicate.negated = true;
      name.remove_prefix(4);
    }
    constexpr std::pair<std::string_view, Test> kTests[] = {
        {"eq?", Test::kEqual},
        {"match?", Test::kMatch},
        {"any-of?", Test::kAnyOf},
        {"resolves-to?", Test::kResolvesTo},
        {"in-autocast?", Test::kInAutocast},
        {"in-no-grad?", Test::kNoGrad},
        {"in-low-precision-project?", Test::kLowPrecision}};
    const auto* test = std::find_if(std::begin(kTests), std::end(kTests),
                                    [&](const auto& t) { return t.first == name; });
    const std::string where = query.path + ": ";
    if (test == std::end(kTests)) {
      std::vector<std::string> known;
      for (const auto& t : kTests) known.emplace_back(t.first);
      return InvalidInput(where + "unknown predicate #" + whole + ".",
                          "Known: " + Join(known, ", ") + ".");
    }
    predicate.test = test->second;
    if (parts.size() < 2 || parts[1].type != TSQueryPredicateStepTypeCapture) {
      return InvalidInput(where + "#" + whole + " needs a capture first.");
    }
    predicate.capture = parts[1].value_id;
    used.insert(predicate.capture);
    for (size_t k = 2; k < parts.size(); ++k) {
      if (parts[k].type == TSQueryPredicateStepTypeString) {
        predicate.arguments.push_back(text_of(parts[k]));
      } else if (predicate.test == Test::kEqual && k == 2) {
        predicate.other = parts[k].value_id;
        used.insert(parts[k].value_id);
      } else {
        return InvalidInput(where + "#" + whole + " takes one capture.");
      }
    }
    const size_t given = predicate.arguments.size();
    const bool fits =
        predicate.test == Test::kEqual   ? given + (predicate.other ? 1 : 0) == 1
        : predicate.test == Test::kMatch ? given == 1 && IsSimplePattern(predicate.arguments[0])
        : predicate.test == Test::kAnyOf || predicate.test == Test::kResolvesTo ? given >= 1
        : predicate.test == Test::kInAutocast                                   ? given <= 1
                                                                                : given == 0;
    const bool device = predicate.test != Test::kInAutocast || given == 0 ||
                        predicate.arguments[0] == "cuda" || predicate.arguments[0] == "cpu";
    if (!fits || !device)
      return InvalidInput(where + "#" + whole + " has wrong arguments.",
                          "See engines/check/rules/README.md.");
    predicates_[pattern].push_back(std::move(predicate));
  }
  for (uint32_t id = 0; id < ts_query_capture_count(query_.get()); ++id) {
    if (used.contains(id) ||
        ts_query_capture_quantifier_for_id(query_.get(), pattern, id) == TSQuantifierZero)
      continue;
    uint32_t length = 0;
    const char* name = ts_query_capture_name_for_id(query_.get(), id, &length);
    return InvalidInput(query.path + ": the capture @" + std::string(name, length) +
                        " is used by no predicate.");
  }
  return {};
}

bool QuerySet::HoldsFor(const Predicate& predicate, NodeId node, std::string_view other,
                        const FileFacts& facts) const {
  const auto one_of = [&](std::string_view text) {
    return std::find(predicate.arguments.begin(), predicate.arguments.end(), text) !=
           predicate.arguments.end();
  };
  switch (predicate.test) {
    case Test::kEqual:
      return facts.syntax.Text(node) ==
             (predicate.other ? other : std::string_view(predicate.arguments[0]));
    case Test::kMatch:
      return MatchesSimplePattern(predicate.arguments[0], facts.syntax.Text(node));
    case Test::kAnyOf:
      return one_of(facts.syntax.Text(node));
    case Test::kResolvesTo:
      return one_of(facts.names.Resolve(node));
    case Test::kInAutocast: {
      const Autocast* autocast = facts.regions.At(node);
      if (autocast == nullptr || autocast->enabled == Tri::kNo || autocast->foreign) return false;
      if (predicate.arguments.empty()) return true;
      const bool cuda = predicate.arguments[0] == "cuda";
      return autocast->device == (cuda ? Device::kCuda : Device::kCpu) ||
             (cuda && autocast->device == Device::kUnknown);
    }
    case Test::kNoGrad:
      return facts.regions.NoGradAt(node);
    case Test::kLowPrecision:
      return !predicate.negated;  // for Report() to ask
  }
  return false;
}

bool QuerySet::Holds(const Predicate& predicate, const TSQueryMatch& match,
                     const FileFacts& facts) const {
  std::string_view other;
  for (uint16_t i = 0; predicate.other && i < match.capture_count; ++i) {
    if (match.captures[i].index == *predicate.other)
      other = facts.syntax.Text(facts.syntax.Find(match.captures[i].node));
  }
  bool all = true;
  bool any = false;
  bool seen = false;
  for (uint16_t i = 0; i < match.capture_count; ++i) {
    if (match.captures[i].index != predicate.capture) continue;
    const NodeId node = facts.syntax.Find(match.captures[i].node);
    if (node == kNoNode) return false;
    const bool holds = HoldsFor(predicate, node, other, facts) != predicate.negated;
    seen = true;
    all = all && holds;
    any = any || holds;
  }
  return !seen || (predicate.any ? any : all);
}

bool QuerySet::AddWords(uint32_t pattern, std::string_view text) {
  for (const Predicate& predicate : predicates_[pattern]) {
    const bool names = predicate.test == Test::kAnyOf || predicate.test == Test::kResolvesTo ||
                       (predicate.test == Test::kEqual && !predicate.other);
    const bool certain =
        !predicate.negated && ts_query_capture_quantifier_for_id(
                                  query_.get(), pattern, predicate.capture) == TSQuantifierOne;
    const bool resolves = predicate.test == Test::kResolvesTo;
    // A string may hold the same word, and would not be found by it.
    uint32_t length = 0;
    const char* name = ts_query_capture_name_for_id(query_.get(), predicate.capture, &length);
    const bool identifier =
        text.find("(identifier) @" + std::string(name, length)) != std::string_view::npos;
    std::vector<std::string> words;
    for (const std::string& argument : predicate.arguments)
      words.push_back(resolves ? argument.substr(argument.rfind('.') + 1) : argument);
    if (!names || !certain || !(resolves || identifier) ||
        !std::all_of(words.begin(), words.end(), IsName))
      continue;
    words_.insert(words.begin(), words.end());
    if (resolves) resolved_.insert(words.begin(), words.end());
    return true;
  }
  return false;
}

std::vector<QueryMatch> QuerySet::Matches(const FileFacts& facts) const {
  const Syntax& syntax = facts.syntax;
  std::vector<QueryMatch> matches;
  const TsQueryCursor cursor(ts_query_cursor_new());
  ts_query_cursor_set_match_limit(cursor.get(), kMatchLimit);
  if (whole_) {
    Match(facts, cursor.get(), 0, static_cast<uint32_t>(syntax.text().size()), &matches);
    return matches;
  }
  // A name that an import gives to one of the words counts as that word.
  std::set<std::string_view> words(words_.begin(), words_.end());
  for (const Import& import : facts.names.imports()) {
    if (resolved_.contains(
            std::string_view(import.qualified).substr(import.qualified.rfind('.') + 1)))
      words.insert(import.local);
  }
  // Length and first character tell nearly all other names apart.
  std::array<std::bitset<128>, 64> possible;
  for (const std::string_view word : words)
    possible[word.size() % 64].set(static_cast<unsigned char>(word[0]) % 128);
  std::vector<NodeId> hits;
  for (NodeId id = 0; id < syntax.size(); ++id) {
    const Node& node = syntax[id];
    if (node.kind != Kind::kIdentifier || node.begin == node.end) continue;
    const std::string_view text = syntax.Text(id);
    if (possible[text.size() % 64].test(static_cast<unsigned char>(text[0]) % 128) &&
        words.contains(text))
      hits.push_back(id);
  }
  if (hits.size() > kMostPlaces) {
    Match(facts, cursor.get(), 0, static_cast<uint32_t>(syntax.text().size()), &matches);
  } else {
    for (const NodeId hit : hits)
      Match(facts, cursor.get(), syntax[hit].begin, syntax[hit].end, &matches);
  }
  return matches;
}

void QuerySet::Report(const FileFacts& facts, const std::vector<QueryMatch>& matches,
                      std::vector<RawFinding>* findings) const {
  for (const QueryMatch& match : matches) {
    const auto& predicates = predicates_[match.pattern];
    const bool holds =
        std::all_of(predicates.begin(), predicates.end(), [&](const Predicate& predicate) {
          return predicate.test != Test::kLowPrecision ||
                 facts.project.sixteen_bit != predicate.negated;
        });
    if (holds) findings->push_back({rules_[match.pattern], match.finding, "", "", {}, {}, false});
  }
}

void QuerySet::Match(const FileFacts& facts, TSQueryCursor* cursor, uint32_t begin, uint32_t end,
                     std::vector<QueryMatch>* matches) const {
  ts_query_cursor_set_byte_range(cursor, begin, end);
  ts_query_cursor_exec(cursor, query_.get(), ts_tree_root_node(facts.syntax.tree()));
  TSQueryMatch match;
  while (ts_query_cursor_next_match(cursor, &match)) {
    const auto& predicates = predicates_[match.pattern_index];
    const bool holds =
        std::all_of(predicates.begin(), predicates.end(),
                    [&](const Predicate& predicate) { return Holds(predicate, match, facts); });
    if (!holds) continue;
    for (uint16_t i = 0; i < match.capture_count; ++i) {
      if (match.captures[i].index != finding_) continue;
      const NodeId node = facts.syntax.Find(match.captures[i].node);
      if (node != kNoNode) matches->push_back({match.pattern_index, node});
    }
  }
}

}  // namespace mpnanny::check
