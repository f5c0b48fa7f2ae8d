// search_knowledge: documented cases for a symptom, in English or Chinese; and one case by its id,
// whole or in part.
#include "tools/tool.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "engines/cases/page.h"
#include "engines/cases/vocabulary.h"
#include "engines/runs/page.h"
#include "engines/runs/schema.h"
#include "tools/search_knowledge/index.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

using cases::Case;

constexpr size_t kDefaultLimit = 5;
constexpr size_t kMostLimit = 50;
constexpr size_t kReservedBytes = 1500;  // head, note and closing lines
constexpr size_t kShortText = 420;       // bytes of symptom, confirm and fix each, without "full"
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
  bool chinese = false;
  std::string title, symptom, confirm, fix;
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
  const std::string& fix = chinese && !one.fix_zh.empty() ? one.fix_zh : one.fix;
  return {chinese, chinese ? one.title_zh : one.title,
          EscapeControl(chinese ? one.symptom_zh : one.symptom, most),
          EscapeControl(Unwrap(cases::Section(one.body, "How to confirm")), most, true),
          EscapeControl(Unwrap(fix), most, /*keep_newlines=*/true)};
}

// How to confirm stands in the first hit: it is the next thing to do, and only one case is true.
Json RowJson(const Hit& hit, const Shown& shown, bool first) {
  Json row = {{"id", hit.found->id},
              {"title", shown.title},
              {"category", hit.found->category},
              {"severity", hit.found->severity},
              {"score", JsonNumber(hit.score, 4)},
              {"symptom", shown.symptom},
              {"fix", shown.fix},
              {"matched", hit.matched},
              {"uri", "mpnanny://knowledge/" + hit.found->id}};
  if (first) row["confirm"] = shown.confirm;
  return row;
}

std::string RowText(const Hit& hit, const Shown& shown, size_t number) {
  // Neighbours of a question that no case is about have no rank.
  std::string line = (number > 0 ? std::to_string(number) + ". " : "- ") + shown.title + "\n   " +
                     hit.found->id + " (" + hit.found->severity + ", " + hit.found->category + ")";
  if (!hit.matched.empty()) line += ", matched: " + Join(hit.matched, " ");
  const bool zh = shown.chinese;
  line += (zh ? "\n   症状：" : "\n   Symptom: ") + shown.symptom;
  if (number == 1) line += (zh ? "\n   确认方法（英文）：" : "\n   Confirm: ") + shown.confirm;
  return line + (zh ? "\n   修复：" : "\n   Fix: ") + shown.fix;
}

// No case is about this: what was searched, and what may help.
Result<std::string> NoCase(const KnowledgeIndex& index, const std::string& query,
                           const Filters& filters, const SearchResult& found) {
  std::string note = "No case of " + std::to_string(index.library().all().size());
  note += query.empty() ? " fits" : " is about '" + EscapeControl(query, 200) + "'";
  if (!filters.empty()) note += " with " + Describe(filters);
  note += ".";
  if (!found.unknown.empty()) note += " Unknown: " + Join(found.unknown, ", ") + ".";
  if (!found.hits.empty()) note += " Nearest by words, and about something else:";
  if (!filters.empty()) {
    MPN_TRY_ASSIGN(auto unfiltered, index.Search(query, {}));
    if (unfiltered.about && !unfiltered.hits.empty()) {
      note += " Without the filters " + std::to_string(unfiltered.hits.size()) + " do, first '" +
              unfiltered.hits.front().found->id + "'.";
    }
  }
  if (found.hits.empty()) {
    const QueryWords words = CutQuery(query);
    if (!query.empty() && words.latin.empty() && words.chinese.empty()) {
      note += " The query holds no word to look for.";
    }
    if (const std::string near = DidYouMean(query, index.library().Ids()); !near.empty()) {
      note += " " + near;
    }
    note +=
        " Try what is seen (\"loss is nan in fp16\"), the text of an error, an alert type "
        "(OVERFLOW) or a category: " +
        cases::Names(cases::kCategories) + ".";
  }
  return note;
}

// One case by its id: the whole page or a part, as much as an answer holds.
Result<ToolOutput> ReadOneCase(const Json& arguments, const KnowledgeIndex& index,
                               const ToolContext& context) {
  MPN_TRY_ASSIGN(const auto found,
                 cases::FindCase(index.library(), arguments["id"].get<std::string>()));
  const std::string part = arguments.value("part", "whole");
  auto text = part == "whole" ? Result<std::string>(cases::WholePage(*found, context.data))
                              : cases::PagePart(*found, part, context.data);
  if (!text) return text.error();
  const size_t bytes = runs::AnswerBytes(arguments, context);
  std::string note;
  // JSON writes a line's end with two bytes and a Chinese character with as many as UTF-8.
  const size_t most = bytes == SIZE_MAX ? bytes : bytes - kReservedBytes;
  if (DumpJson(*text).size() > most) {
    note = "The page is longer than an answer: ask for its parts (" +
           Join(cases::PartNames(), ", ") + ") one by one, or read mpnanny://knowledge/" +
           found->id + ".";
    while (DumpJson(*text).size() > most) *text = EscapeControl(*text, text->size() * 9 / 10, true);
  }
  ToolOutput output;
  output.structured = {{"results", Json::array()},
                       {"total", 1},
                       {"searched", index.library().all().size()},
                       {"case", {{"id", found->id}, {"part", part}, {"text", *text}}}};
  if (!note.empty()) output.structured["note"] = note;
  output.text = *text + (note.empty() ? "" : "\n" + note + "\n");
  return output;
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
  const bool by_id = !arguments.value("id", "").empty();
  if (query.empty() && filters.empty() && !by_id) {
    return InvalidInput("query is empty and there is neither an id nor a filter.",
                        "Describe what is seen, paste an error, or filter by category or alert.");
  }
  if (query.size() > kMostQueryBytes) {
    return InvalidInput("query has " + std::to_string(query.size()) + " bytes; at most " +
                            std::to_string(kMostQueryBytes) + " are taken.",
                        "Give the lines around the error; diagnose_run reads whole logs.");
  }
  MPN_TRY_ASSIGN(const auto first, ReadCursor(arguments.value("cursor", "")));
  MPN_TRY_ASSIGN(const auto index, SharedIndex(context.data));
  MPN_TRY(context.cancel.Check());
  if (by_id) return ReadOneCase(arguments, *index, context);
  MPN_TRY_ASSIGN(const auto found, index->Search(query, filters));
  const std::vector<Hit>& hits = found.hits;

  const std::string language = arguments.value("language", "auto");
  const bool chinese = language == "zh" || (language == "auto" && HasChinese(query));
  const bool paged = context.answer_bytes != SIZE_MAX;  // the command line has no pages
  const bool full = !paged || arguments.value("detail", "normal") == "full";
  const size_t limit = arguments.value("limit", kDefaultLimit);

  runs::Page page(runs::AnswerBytes(arguments, context), kReservedBytes);
  size_t next = std::min(first, hits.size());
  while (next < hits.size() && next - first < limit) {
    const Shown shown = Show(*hits[next].found, chinese, full && found.about);
    if (!page.Add(RowJson(hits[next], shown, found.about && next == 0),
                  RowText(hits[next], shown, found.about ? next + 1 : 0))) {
      break;
    }
    ++next;
  }

  ToolOutput output;
  output.structured = {{"results", page.TakeRows()},
                       {"total", found.about ? hits.size() : 0},
                       {"searched", index->library().all().size()}};
  if (!found.unknown.empty()) output.structured["unknown"] = found.unknown;
  const bool more = next < hits.size();
  if (more && paged) output.structured["next_cursor"] = std::to_string(next);
  if (hits.empty() || !found.about) {
    MPN_TRY_ASSIGN(auto note, NoCase(*index, query, filters, found));
    output.structured["note"] = note;
    output.text = note + "\n" + page.text();
    return output;
  }
  output.text = std::to_string(hits.size()) + (hits.size() == 1 ? " case fits" : " cases fit") +
                (query.empty() ? "" : " '" + EscapeControl(query, 100) + "'") +
                (filters.empty() ? "" : " (" + Describe(filters) + ")") + ", best first:\n" +
                page.text();
  if (!found.unknown.empty()) {
    output.text += "Unknown (no case holds it): " + Join(found.unknown, ", ") + ".\n";
  }
  if (more) {
    output.text += std::to_string(hits.size() - next) + " more" +
                   (paged ? ": cursor \"" + std::to_string(next) + "\".\n" : ".\n");
  }
  output.text +=
      "Mechanism, fix, code and evidence of a case: search_knowledge with its id. Next: "
      "static_check finds it in code, diagnose_run in a run, auto_diff proves it.\n";
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
      {"id", {{"type", "string"}, {"description", "Read this case instead of searching."}}},
      {"part", WordProperty("Of the case `id`: only this part.",
                            [] {
                              std::vector<std::string> names = cases::PartNames();
                              names.insert(names.begin(), "whole");
                              return names;
                            }())},
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
  Json result = runs::ObjectSchema(
      {{"id", runs::TextSchema("The case.")},
       {"title", runs::TextSchema("In the query's language.")},
       {"category", runs::TextSchema("One of the input schema's categories.")},
       {"severity", runs::TextSchema("P0, P1 or P2.")},
       {"score", runs::NumberSchema("Higher is better; comparable within this answer only.")},
       {"symptom", runs::TextSchema("What people see, in the query's language.")},
       {"fix", runs::TextSchema("What to do.")},
       {"matched", runs::ListSchema({{"type", "string"}}, "Words of the query that it holds.")},
       {"uri", runs::TextSchema("The resource with the whole case.")}});
  result["properties"]["confirm"] =
      runs::TextSchema("First hit only: how to tell whether it is this one.");
  Json schema = runs::ObjectSchema(
      {{"results", runs::ListSchema(result, "Best first.")},
       {"total", runs::IntegerSchema("Cases that fit; 0: no case is about it, and "
                                     "results are neighbours.")},
       {"searched", runs::IntegerSchema("Cases there are.")}});
  schema["properties"]["next_cursor"] = runs::TextSchema("Give it as `cursor` for more.");
  schema["properties"]["unknown"] =
      runs::ListSchema({{"type", "string"}}, "Words of the query that no case holds.");
  schema["properties"]["case"] =
      runs::ObjectSchema({{"id", runs::TextSchema("The case asked for by id.")},
                          {"part", runs::TextSchema("Which part.")},
                          {"text", runs::TextSchema("Markdown.")}});
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
      "or an alert type, in English or Chinese: symptom, fix, how to confirm; with `id` the case "
      "itself, whole or by part. Says so when no case is about it. Use it to explain a finding or "
      "to name a failure that is described in "
      "words. For a recorded run or a log ask diagnose_run, for code static_check: they link to "
      "these cases themselves.";
  definition.brief =
      "Documented mixed-precision failures for a symptom, an error message or an alert "
      "type, in English or Chinese: fix, how to confirm; with `id` the case itself. Says so "
      "when none fits. For a run or a log: diagnose_run; for code: static_check.";
  definition.brief_arguments = {{"query", "Symptom, error text, alert type or case id"},
                                {"category", "nan-inf, scaler-protocol, swamping …"},
                                {"alert", "NAN …"}};
  definition.input_schema = InputSchema();
  definition.output_schema = OutputSchema();
  definition.command.name = "knowledge search";
  definition.command.positional = "query";
  definition.command.quotes_pages = true;
  return {std::move(definition), Run};
}

}  // namespace mpnanny::search_knowledge
