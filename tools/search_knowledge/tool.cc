// search_knowledge: documented cases for a symptom, in English or Chinese.
#include "tools/tool.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "tools/cases/vocabulary.h"
#include "tools/runs/page.h"
#include "tools/runs/schema.h"
#include "tools/search_knowledge/index.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

using cases::Case;

constexpr size_t kDefaultLimit = 5;
constexpr size_t kMostLimit = 50;
constexpr size_t kReservedBytes = 1500;  // head, note and closing lines
constexpr size_t kShortText = 420;       // bytes of symptom and fix each, without detail "full"
constexpr size_t kMostQueryBytes = 100'000;

// P0, error and ERROR are one scale (docs/architecture.md).
std::string SeverityOfCase(const std::string& given) {
  if (given == "error") return "P0";
  if (given == "warning") return "P1";
  return given == "info" ? "P2" : given;
}

Filters ReadFilters(const Json& arguments) {
  Filters filters;
  filters.category = arguments.value("category", "");
  filters.severity = SeverityOfCase(arguments.value("severity", ""));
  filters.precision = arguments.value("precision", "");
  filters.kind = arguments.value("kind", "");
  filters.alert = arguments.value("alert", "");
  filters.rule = arguments.value("rule", "");
  return filters;
}

std::string Describe(const Filters& filters) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) parts.push_back(std::string(name) + " " + EscapeControl(value, 100));
  };
  add("category", filters.category);
  add("severity", filters.severity);
  add("precision", filters.precision);
  add("kind", filters.kind);
  add("alert", filters.alert);
  add("rule", filters.rule);
  return Join(parts, ", ");
}

struct Shown {
  std::string title, symptom, fix;
};

// Lines that were wrapped for the editor become one again; paragraphs and lists stay.
std::string Unwrap(const std::string& text) {
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool wrapped = text[i] == '\n' && i > 0 && text[i - 1] != '\n' && i + 1 < text.size() &&
                         text[i + 1] != '\n' && text.compare(i + 1, 2, "- ") != 0;
    joined += wrapped ? ' ' : text[i];
  }
  return joined;
}

Shown Show(const Case& one, bool chinese, bool full) {
  const size_t most = full ? SIZE_MAX : kShortText;
  return {chinese ? one.title_zh : one.title,
          EscapeControl(chinese ? one.symptom_zh : one.symptom, most),
          EscapeControl(Unwrap(one.fix), most, /*keep_newlines=*/true)};
}

Json RowJson(const Hit& hit, const Shown& shown) {
  return {{"id", hit.found->id},
          {"title", shown.title},
          {"category", hit.found->category},
          {"severity", hit.found->severity},
          {"score", JsonNumber(hit.score, 4)},
          {"symptom", shown.symptom},
          {"fix", shown.fix},
          {"matched", hit.matched},
          {"uri", "mpnanny://knowledge/" + hit.found->id}};
}

std::string RowText(const Hit& hit, const Shown& shown, size_t number) {
  std::string line = std::to_string(number) + ". " + shown.title + "\n   " + hit.found->id + " (" +
                     hit.found->severity + ", " + hit.found->category + ")";
  if (!hit.matched.empty()) line += ", matched: " + Join(hit.matched, " ");
  return line + "\n   Symptom: " + shown.symptom + "\n   Fix: " + shown.fix;
}

// Nothing fits: what was searched, and what may.
Result<std::string> NothingFound(const KnowledgeIndex& index, const std::string& query,
                                 const Filters& filters) {
  std::string note = "No case of " + std::to_string(index.library().all().size()) + " fits";
  if (!query.empty()) note += " '" + EscapeControl(query, 200) + "'";
  if (!filters.empty()) note += " with " + Describe(filters);
  note += ".";
  if (!filters.empty()) {
    auto unfiltered = index.Search(query, {});
    if (!unfiltered) return unfiltered.error();
    if (!unfiltered->empty()) {
      note += " Without the filters " + std::to_string(unfiltered->size()) + " do, first '" +
              unfiltered->front().found->id + "'.";
    }
  }
  const QueryWords words = CutQuery(query);
  if (!query.empty() && words.latin.empty() && words.chinese.empty()) {
    note += " The query holds no word to look for.";
  }
  if (const std::string near = DidYouMean(query, index.library().Ids()); !near.empty()) {
    note += " " + near;
  }
  return note +
         " Try what is seen (\"loss is nan in fp16\"), the text of an error, an alert type "
         "(OVERFLOW) or a category: " +
         cases::Names(cases::kCategories) + ".";
}

Result<size_t> ReadCursor(const std::string& cursor) {
  size_t first = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), first);
  if (!cursor.empty() && (error != std::errc() || end != cursor.data() + cursor.size())) {
    return InvalidInput("cursor '" + EscapeControl(cursor, 100) + "' is none of this tool's.",
                        "Give next_cursor of the answer before, with the same query.");
  }
  return first;
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  const std::string query = arguments.value("query", "");
  const Filters filters = ReadFilters(arguments);
  if (query.empty() && filters.empty()) {
    return InvalidInput("query is empty and there is no filter.",
                        "Describe what is seen, paste an error, or filter by category or alert.");
  }
  if (query.size() > kMostQueryBytes) {
    return InvalidInput("query has " + std::to_string(query.size()) + " bytes; at most " +
                            std::to_string(kMostQueryBytes) + " are taken.",
                        "Give the lines around the error; diagnose_run reads whole logs.");
  }
  const auto first = ReadCursor(arguments.value("cursor", ""));
  if (!first) return first.error();
  const auto index = SharedIndex(context.data);
  if (!index) return index.error();
  if (const auto wanted = context.cancel.Check(); !wanted) return wanted.error();
  const auto hits = (*index)->Search(query, filters);
  if (!hits) return hits.error();

  const std::string language = arguments.value("language", "auto");
  const bool chinese = language == "zh" || (language == "auto" && HasChinese(query));
  // The command line has no pages: it shows everything that fits, whole, or as much as --limit
  // says. A model gets the best few.
  const bool paged = context.answer_bytes != SIZE_MAX;
  const bool full = !paged || arguments.value("detail", "normal") == "full";
  const size_t limit = arguments.contains("limit") ? arguments["limit"].get<size_t>()
                       : paged                     ? kDefaultLimit
                                                   : SIZE_MAX;

  runs::Page page(runs::AnswerBytes(arguments, context), kReservedBytes);
  size_t next = std::min(*first, hits->size());
  while (next < hits->size() && next - *first < limit) {
    const Shown shown = Show(*(*hits)[next].found, chinese, full);
    if (!page.Add(RowJson((*hits)[next], shown), RowText((*hits)[next], shown, next + 1))) break;
    ++next;
  }

  ToolOutput output;
  output.structured = {{"results", page.TakeRows()},
                       {"total", hits->size()},
                       {"searched", (*index)->library().all().size()}};
  const bool more = next < hits->size();
  if (more && paged) output.structured["next_cursor"] = std::to_string(next);
  if (hits->empty()) {
    auto note = NothingFound(**index, query, filters);
    if (!note) return note.error();
    output.structured["note"] = *note;
    output.text = *note + "\n";
    return output;
  }
  output.text = std::to_string(hits->size()) + (hits->size() == 1 ? " case fits" : " cases fit") +
                (query.empty() ? "" : " '" + EscapeControl(query, 100) + "'") +
                (filters.empty() ? "" : " (" + Describe(filters) + ")") + ", best first:\n" +
                page.text();
  if (more) {
    output.text += std::to_string(hits->size() - next) + " more" +
                   (paged ? ": cursor \"" + std::to_string(next) + "\".\n" : ".\n");
  }
  output.text +=
      "Mechanism, checks and code of a case: resource mpnanny://knowledge/<id>. Next: "
      "static_check finds it in code, diagnose_run in a run.\n";
  return output;
}

Json WordProperty(const std::string& description, std::vector<std::string> words) {
  return {{"type", "string"}, {"enum", std::move(words)}, {"description", description}};
}

Json InputSchema() {
  Json properties = {
      {"query",
       {{"type", "string"},
        {"description",
         "What is seen (\"loss becomes nan in fp16\", \"损失缩放一直减半\"), an error's text, an "
         "alert type or a case id. English, Chinese or both."}}},
      {"category", WordProperty("Only this category.", cases::NameList(cases::kCategories))},
      {"severity", WordProperty("Only this severity; P0 = error, P1 = warning, P2 = info.",
                                {"P0", "P1", "P2", "error", "warning", "info"})},
      {"precision",
       WordProperty("Only cases of this format.", cases::NameList(cases::kPrecisions))},
      {"kind",
       WordProperty("Failures, or background on what is normal.", cases::NameList(cases::kKinds))},
      {"alert", WordProperty("Only cases that this alert of the monitor speaks for.",
                             cases::NameList(cases::kAlertTypes))},
      {"rule",
       {{"type", "string"},
        {"description", "Only cases that a finding of this static_check rule speaks for."}}},
      {"language",
       {{"type", "string"},
        {"enum", {"auto", "en", "zh"}},
        {"default", "auto"},
        {"description", "Of title and symptom; auto follows the query."}}},
      {"limit",
       {{"type", "integer"},
        {"minimum", 1},
        {"maximum", kMostLimit},
        {"description", "Most results of this answer (5 if not given)."}}},
      {"cursor", {{"type", "string"}, {"description", "next_cursor of the answer before."}}},
      {"detail", runs::DetailProperty()}};
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

Json OutputSchema() {
  const Json result = runs::ObjectSchema(
      {{"id", runs::TextSchema("The case.")},
       {"title", runs::TextSchema("In the query's language.")},
       {"category", runs::TextSchema("One of the input schema's categories.")},
       {"severity", runs::TextSchema("P0, P1 or P2.")},
       {"score", runs::NumberSchema("Higher is better; comparable within this answer only.")},
       {"symptom", runs::TextSchema("What people see, in the query's language.")},
       {"fix", runs::TextSchema("What to do.")},
       {"matched", runs::ListSchema({{"type", "string"}}, "Words of the query that it holds.")},
       {"uri", runs::TextSchema("The resource with the whole case.")}});
  Json schema = runs::ObjectSchema({{"results", runs::ListSchema(result, "Best first.")},
                                    {"total", runs::IntegerSchema("Cases that fit.")},
                                    {"searched", runs::IntegerSchema("Cases there are.")}});
  schema["properties"]["next_cursor"] = runs::TextSchema("Give it as `cursor` for more.");
  schema["properties"]["note"] = runs::TextSchema("Why nothing fits, and what to try.");
  return schema;
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "search_knowledge";
  definition.title = "Search failure cases";
  definition.description =
      "Finds documented mixed-precision failures (FP16, BF16, FP8) for a symptom, an error message "
      "or an alert type, in English or Chinese: symptom, fix, and the id of the case with its "
      "mechanism and code. Use it to explain a finding or to name a failure that is described in "
      "words. For a recorded run or a log ask diagnose_run, for code static_check: they link to "
      "these cases themselves.";
  definition.input_schema = InputSchema();
  definition.output_schema = OutputSchema();
  definition.command.name = "knowledge search";
  definition.command.positional = "query";
  return {std::move(definition), Run};
}

}  // namespace mpnanny::search_knowledge
