#include "engines/runs/schema.h"
#include "engines/runs/shadow_text.h"
#include "tools/query_stats/report.h"

namespace mpnanny::query_stats {
namespace {

Json Described(const char* type, const char* description) {
  return {{"type", type}, {"description", description}};
}

}  // namespace

// Short where a name says it: every client loads the schemas of all tools.
Json OutputSchema() {
  Json series = runs::ObjectSchema(
      {{"layer", runs::TextSchema("Layer or block; null: all, or of the step.", true)},
       {"kind",
        runs::TextSchema("Kind of tensor, \"step\", forward or backward, or of the finding.")},
       {"points",
        runs::ListSchema({{"type", "array"}},
                         "[step, value]; \"nan\", \"inf\" where nothing finite was there.")}});
  Json& fields = series["properties"];
  fields["slot"] = Described("integer", "Which output, call or optimizer state.");
  fields["state"] = {{"type", "string"}};
  fields["looked_at"] = Described("integer", "Points read.");
  fields["worst"] = Described("object", "step and value, of joined layers also layer.");
  fields["largest"] = Described("object", "In its place where no value is worse (lr).");
  fields["growth"] = runs::NumberSchema("Late points over early ones.");
  fields["nonfinite"] = Described("object", "samples, first_step, last_step.");
  fields["figures"] = Described("object", "Other figures of the tensor.");
  fields["distribution"] = Described(
      "object",
      "step, numel, zeros, nonfinite, held_under (the loss scale of a gradient), bins "
      "[exponent, count], formats: shares under, subnormal, over of each, and best_scale.");
  fields["ranks"] = Described("integer", "Of aggregate ranks: how many have it.");
  fields["outliers"] = Described(
      "array", "Ranks that stand apart: rank, first_step, steps, and value and median at step.");
  fields["outliers_total"] = Described("integer", "All of them.");
  fields["finding"] = runs::FindingSchema("Of metric \"findings\".");
  Json schema = runs::ObjectSchema(
      {{"metric", {{"type", "string"}}},
       {"unit", runs::TextSchema("value, count, share (0 to 1), ratio, seconds or bytes.")},
       {"series", runs::ListSchema(std::move(series), "In the order asked for.")},
       {"omitted", runs::IntegerSchema("Recorded points of these series that are not shown.")},
       {"total", runs::IntegerSchema("Series that fit, shown or not.")},
       {"run", {{"type", "string"}}},
       {"meaning", {{"type", "string"}}},
       {"aggregate", {{"type", "string"}}},
       {"steps", Described("object",
                           "looked_at, recorded (an estimate unless all), all, first, "
                           "last.")},
       {"notes", runs::ListSchema({{"type", "string"}}, "What limits the answer.")}});
  schema["properties"]["fold"] = Described("string", "How figures of one step became one.");
  schema["properties"]["next_cursor"] = {{"type", "string"}};
  return schema;
}

}  // namespace mpnanny::query_stats
