// A shadow finding in structuredContent, alike in all tools.
#include <algorithm>

#include "base/text.h"
#include "engines/runs/schema.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kEntriesShown = 6;
constexpr size_t kRanksShown = 16;

Json OrNull(std::string_view text, size_t bytes) {
  return text.empty() ? Json(nullptr) : Json(EscapeControl(text, bytes));
}

Json Texts(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    if (list.size() < kEntriesShown) list.push_back(EscapeControl(text, 160));
  }
  return list;
}

// All that the monitor kept.
Json NamesJson(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back(Name(name));
  return list;
}

Json LinesJson(const std::vector<ShadowLine>& lines) {
  Json list = Json::array();
  for (const ShadowLine& line : lines) {
    list.push_back({{"operator", OrNull(line.op, 120)}, {"source", OrNull(line.source, 240)}});
  }
  return list;
}

Json ReachJson(const std::vector<ShadowReach>& reach) {
  Json list = Json::array();
  for (const ShadowReach& each : reach) {
    if (list.size() == kEntriesShown) break;
    list.push_back({{"what", EscapeControl(each.what, 40)},
                    {"name", each.name.empty() ? Json(nullptr) : Json(Name(each.name))},
                    {"error", JsonNumber(each.error, 3)}});
  }
  return list;
}

Json CureJson(const std::optional<ShadowCure>& cure) {
  if (!cure) return nullptr;
  return {{"lines", Texts(cure->lines)},
          {"operators", Texts(cure->operators)},
          {"what", OrNull(cure->what, 80)},
          {"error_before", JsonNumber(cure->error_before, 3)},
          {"error_after", JsonNumber(cure->error_after, 3)}};
}

// Where the error came in; null where the finding's own operator made it.
Json OriginJson(const std::optional<ShadowOrigin>& origin) {
  if (!origin) return nullptr;
  return {{"operator", OrNull(origin->op, 120)},
          {"source", OrNull(origin->source, 240)},
          {"error", JsonNumber(origin->error, 3)}};
}

}  // namespace

Json FindingJson(const ShadowFinding& f, std::string_view module, bool full) {
  Json json = Json::object();
  if (full) {
    json = {{"step", f.step},
            {"last_step", f.last_step ? Json(*f.last_step) : Json(nullptr)},
            {"repeats", f.repeats}};
  }
  json["kind"] = OrNull(f.kind, 40);
  if (full) {
    json["severity"] = Name(f.severity);
    json["phase"] = OrNull(f.phase, 40);
    json["module"] = module.empty() ? Json(nullptr) : Json(Name(module));
  }
  json["operator"] = OrNull(f.op, 120);
  json["source"] = OrNull(f.source, 240);
  json["dtype"] = OrNull(f.dtype, 80);
  json["shape"] = OrNull(f.shape, 80);
  json["share"] = JsonNumber(f.share, 3);
  json["magnitude"] = JsonNumber(f.magnitude, 4);
  json["error_in"] = JsonNumber(f.error_in, 3);
  json["error_out"] = JsonNumber(f.error_out, 3);
  json["origin"] = OriginJson(f.origin);
  if (!f.home.empty()) json["format_from"] = OrNull(f.home, 240);
  for (const std::string& line : f.called_from) json["called_from"].push_back(OrNull(line, 240));
  if (!f.inputs_from.empty()) json["inputs_from"] = LinesJson(f.inputs_from);
  if (f.derivative_at) {
    json["derivative_at"] = {{"held", JsonNumber(f.derivative_at->held, 6)},
                             {"reference", JsonNumber(f.derivative_at->reference, 6)}};
  }
  if (!f.meets.empty()) json["meets"] = LinesJson(f.meets)[0];
  json["precision"] = OrNull(f.proof, 40);
  json["reach"] = ReachJson(f.reach);
  json["cure"] = CureJson(f.cure);
  if (!f.relation.parameters.empty()) json["parameters"] = NamesJson(f.relation.parameters);
  if (full) json["text"] = FindingText(f, module);
  if (full && !f.ranks.empty()) {
    const auto shown = static_cast<ptrdiff_t>(std::min(kRanksShown, f.ranks.size()));
    json["ranks"] = std::vector<int64_t>(f.ranks.begin(), f.ranks.begin() + shown);
  }
  return json;
}

// Short where a name says it: every client loads the schemas of all tools.
Json FindingSchema(const std::string& description) {
  return {{"type", "object"},
          {"description",
           description +
               " Kind: diverged, range, undefined, integers, lost_change, amplified, flushed or "
               "clipped. share of the elements; error_in, error_out: relative L2 errors against "
               "FP64; origin: where the error came in, null: here. precision: proven (cure.lines "
               "in wider precision are right), excluded (FP64 has it too) or not_tested. reach: "
               "what, name, error."}};
}

}  // namespace mpnanny::runs
