#include "engines/diagnosis/summary/shadow_block.h"

#include "engines/diagnosis/summary/markdown.h"
#include "engines/runs/schema.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::summary {
namespace {

using runs::Count;
using runs::Number;

std::string More(int64_t total, size_t shown) {
  const int64_t more = total - static_cast<int64_t>(shown);
  return more > 0 ? "and " + Count(more, "more finding") + ": query_stats with metric \"findings\""
                  : "";
}

// "12 shadow steps (computed a second time in FP64; 4.1 seconds together): 3 findings."
std::string Opening(int64_t steps, const std::optional<double>& seconds,
                    const std::optional<double>& share, int64_t total) {
  std::string head = Count(steps, "shadow step") + " (computed a second time in FP64";
  if (seconds) head += "; " + Number(*seconds, 3) + " seconds together";
  if (share) {
    head += "; the second computation took " + runs::PercentText(*share) + " of the run's time";
  }
  head += "): ";
  return head + (total == 0 ? "no finding." : Count(total, "finding") + ".");
}

}  // namespace

bool HasShadow(const ShadowSummary& shadow) {
  return shadow.steps > 0 || shadow.total > 0 || !shadow.notes.empty();
}

Json ShadowJson(const ShadowSummary& shadow, size_t bytes) {
  if (!HasShadow(shadow)) return nullptr;
  Json json = {{"steps", shadow.steps},
               {"seconds", JsonNumber(shadow.seconds)},
               {"overhead_share", JsonNumber(shadow.overhead_share, 3)},
               {"findings", Json::array()},
               {"total", shadow.total},
               {"formats", FormatLossJson(shadow.formats)}};
  size_t used = DumpJson(json).size();
  for (const auto& [finding, module] : shadow.findings) {
    Json row = runs::FindingJson(finding, module);
    used += DumpJson(row).size() + 1;
    if (used > bytes) break;
    json["findings"].push_back(std::move(row));
  }
  return json;
}

Json ShadowSchema() {
  return runs::OptionalObjectSchema(
      {{"steps", runs::IntegerSchema("Steps computed a second time in FP64.")},
       {"seconds", runs::NumberSchema("Of these steps together.")},
       {"overhead_share", runs::NumberSchema("Their extra time over that of all steps.")},
       {"findings", runs::ListSchema(runs::FindingSchema("What went wrong where."),
                                     "Worst first, at most 5.")},
       {"total", runs::IntegerSchema("All findings.")},
       {"formats",
        {{"type", {"object", "null"}},
         {"description",
          "Per format the layer whose result or gradient would lose most: worst.fp16 … {error "
          "(relative L2), layer, phase}, worst.fp16_overflow {share …}."}}}},
      "What steps computed a second time in FP64 found; null: there were none.");
}

std::string ShadowText(const ShadowSummary& shadow, int64_t world_size, size_t bytes) {
  if (!HasShadow(shadow)) return "";
  std::string text =
      Opening(shadow.steps, shadow.seconds, shadow.overhead_share, shadow.total) + "\n";
  constexpr size_t kForMore = 100;
  size_t shown = 0;
  for (const auto& [finding, module] : shadow.findings) {
    const std::string line = "  " + runs::FindingLine(finding, module, world_size) + "\n";
    if (text.size() + line.size() + kForMore > bytes) break;
    text += line;
    ++shown;
  }
  const std::string more = More(shadow.total, shown);
  if (!more.empty()) text += "  " + more + ".\n";
  const std::string formats = FormatLossText(shadow.formats);
  return formats.empty() || text.size() + formats.size() > bytes ? text : text + formats + "\n";
}

std::string ShadowMarkdown(const Json& shadow) {
  if (!shadow.is_object()) return "";
  const auto number = [&](const char* key) {
    const Json& value = shadow[key];
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  };
  const auto total = shadow["total"].get<int64_t>();
  std::string text = "\n## What shadow steps found\n\n" +
                     MarkdownText(Opening(shadow["steps"].get<int64_t>(), number("seconds"),
                                          number("overhead_share"), total)) +
                     "\n\n";
  for (const Json& finding : shadow["findings"]) {
    text += "- **" + MarkdownText(finding["severity"].get<std::string>()) + "** at step " +
            std::to_string(finding["step"].get<int64_t>()) + ": " +
            MarkdownText(finding["text"].get<std::string>()) + "\n";
  }
  const std::string more = More(total, shadow["findings"].size());
  if (!more.empty()) text += "- " + more + "\n";
  const Json& formats = shadow["formats"];
  return formats.is_object() ? text + "- " + MarkdownText(formats["text"].get<std::string>()) + "\n"
                             : text;
}

}  // namespace mpnanny::summary
