#include "engines/runs/packed.h"

#include <cmath>

#include "base/json.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kMostSteps = kRingSteps;

struct Figure {
  const char* name;
  RingKnown bit;
  double RingStep::*value;
};
constexpr Figure kFigures[] = {{"loss", kKnownLoss, &RingStep::loss},
                               {"lr", kKnownLr, &RingStep::lr},
                               {"loss_scale", kKnownLossScale, &RingStep::loss_scale},
                               {"grad_norm", kKnownGradNorm, &RingStep::grad_norm}};

std::optional<double> NumberIn(const Json& detail, const char* name) {
  const auto found = detail.find(name);
  if (found == detail.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (*found == "nan") return std::nan("");
  if (*found == "inf") return HUGE_VAL;
  if (*found == "-inf") return -HUGE_VAL;
  return std::nullopt;
}

int64_t Integer(const Json& detail, const char* name, int64_t otherwise) {
  const auto found = detail.find(name);
  return found != detail.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

}  // namespace

std::string PackedDetail(const Source& source) {
  return DumpJson(
      {{"status", NameOf(source.run.status)}, {"flight_recorder", source.ring.present}});
}

std::string RingStepDetail(const RingStep& slot) {
  Json detail = Json::object();
  for (const Figure& figure : kFigures) {
    if (slot.known & figure.bit && !std::isfinite(slot.*figure.value)) {
      detail[figure.name] = JsonNumber(slot.*figure.value);
    }
  }
  if (slot.first_nonfinite_layer >= 0) detail["first_layer"] = slot.first_nonfinite_layer;
  if (slot.nonfinite_layers > 0) detail["layers"] = slot.nonfinite_layers;
  return detail.empty() ? "" : DumpJson(detail);
}

std::optional<Packed> ReadPacked(const Database& database, int64_t run_id) {
  auto row = database.Prepare(
      "SELECT detail FROM event WHERE run_id=?1 AND step IS NULL AND type=?2 LIMIT 1");
  if (!row) return std::nullopt;
  row->Bind(1, run_id).Bind(2, std::string_view(kPackedEvent));
  auto next = row->Next();
  if (!next || !*next) return std::nullopt;
  auto detail = ParseJson(row->TextOr(0));
  if (!detail || !detail->is_object()) return std::nullopt;
  Packed packed;
  const std::string status =
      detail->value("status", Json("")).is_string() ? detail->value("status", "") : "";
  for (const Status one :
       {Status::kRunning, Status::kClosed, Status::kException, Status::kKilled}) {
    if (status == NameOf(one)) packed.status = one;
  }
  const auto recorder = detail->find("flight_recorder");
  packed.flight_recorder = recorder != detail->end() && *recorder == true;
  return packed;
}

Ring ReadPackedRing(const Database& database, const Run& run) {
  Ring ring;
  const int64_t run_id = *run.handle.run_id;
  const auto packed = ReadPacked(database, run_id);
  if (!packed || !packed->flight_recorder) return ring;
  ring.present = true;
  ring.run_id = run_id;
  ring.run_started_at = run.started_at;
  auto rows =
      database.Prepare("SELECT step, detail FROM event WHERE run_id=?1 AND type=?2 ORDER BY step");
  if (!rows) return ring;
  rows->Bind(1, run_id).Bind(2, std::string_view(kRingEvent));
  while (ring.steps.size() < kMostSteps) {
    auto next = rows->Next();
    if (!next || !*next) break;
    auto detail = ParseJson(rows->TextOr(1));
    const auto step = rows->Int(0);
    if (!detail || !detail->is_object() || !step) continue;
    if (!ring.steps.empty() && ring.steps.back().step == *step) continue;
    RingStep slot{};
    slot.step = *step;
    for (const Figure& figure : kFigures) {
      if (const auto value = NumberIn(*detail, figure.name)) {
        slot.*figure.value = *value;
        slot.known |= figure.bit;
      }
    }
    slot.first_nonfinite_layer = static_cast<int32_t>(Integer(*detail, "first_layer", -1));
    slot.nonfinite_layers = static_cast<int32_t>(Integer(*detail, "layers", 0));
    ring.steps.push_back(slot);
  }
  return ring;
}

}  // namespace mpnanny::runs
