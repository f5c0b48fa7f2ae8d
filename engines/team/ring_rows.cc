#include "engines/team/ring_rows.h"

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "base/json.h"
#include "engines/runs/packed.h"
#include "engines/runs/step_cursor.h"

namespace mpnanny::team {
namespace {

using RowValue = std::variant<std::monostate, int64_t, double, std::string>;
using Row = std::map<std::string, RowValue>;  // by column; what is left out is NULL

RowValue Finite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? RowValue(*value) : RowValue();
}

void AddRow(const Row& row, int64_t training, int64_t rank, Piece& piece, CopyBytes& bytes) {
  bytes.BeginRow(2 + static_cast<int>(piece.table->columns.size()));
  bytes.Add(training);
  bytes.AddSmall(static_cast<int32_t>(rank));
  for (const Column& column : piece.table->columns) {
    const auto value = row.find(column.name);
    if (value == row.end() || std::holds_alternative<std::monostate>(value->second)) {
      bytes.AddNull();
    } else if (const auto* integer = std::get_if<int64_t>(&value->second)) {
      bytes.Add(*integer);
    } else if (const auto* real = std::get_if<double>(&value->second)) {
      bytes.AddReal(*real);
    } else {
      bytes.AddText(std::get<std::string>(value->second));
    }
  }
  ++piece.count;
}

Row StepOf(const runs::StepRow& step, int64_t run) {
  Row row = {{"run_id", run}, {"step", step.step}, {"flags", static_cast<int64_t>(step.flags)}};
  row["at"] = Finite(step.at);
  row["duration"] = Finite(step.duration);
  row["loss"] = Finite(step.loss);
  row["lr"] = Finite(step.lr);
  row["loss_scale"] = Finite(step.loss_scale);
  row["grad_norm"] = Finite(step.grad_norm);
  if (step.peak_memory) row["peak_memory"] = *step.peak_memory;
  return row;
}

}  // namespace

Result<std::vector<Piece>> RingRows(const runs::Run& run, const runs::Ring& ring, int64_t training,
                                    const CancelToken& cancel) {
  std::vector<Piece> pieces;
  if (run.ended_at || !run.end_reason.empty()) return pieces;
  MPN_TRY_ASSIGN(const std::vector<Table>* tables, MonitorTables());
  const int64_t id = *run.handle.run_id;
  const bool ours = runs::RingBelongs(ring, run);

  Piece steps{FindTable(*tables, "step"), "", 0, true, std::nullopt};
  CopyBytes step_bytes;
  if (ours) {
    MPN_TRY_ASSIGN(auto database, runs::Database::Open(run.handle.path, cancel));
    MPN_TRY_ASSIGN(auto cursor, runs::StepCursor::Open(*database, run, ring, {}));
    while (true) {
      MPN_TRY_ASSIGN(auto step, cursor.Next());
      if (!step) break;
      if (!step->only_in_ring) continue;
      if (!steps.first_step) steps.first_step = step->step;
      AddRow(StepOf(*step, id), training, run.rank, steps, step_bytes);
    }
  }

  // The events of a file count from 1.
  Piece events{FindTable(*tables, "event"), "", 0, true, std::nullopt};
  CopyBytes event_bytes;
  int64_t number = 0;
  const auto add = [&](RowValue step, double at, const char* type, const std::string& detail) {
    AddRow({{kRowColumn, --number},
            {"run_id", id},
            {"step", std::move(step)},
            {"at", at},
            {"type", std::string(type)},
            {"detail", detail}},
           training, run.rank, events, event_bytes);
  };
  add({}, run.started_at, runs::kPackedEvent,
      DumpJson({{"status", NameOf(run.status)}, {"flight_recorder", ours}}));
  for (size_t i = 0; ours && i < ring.steps.size(); ++i) {
    const std::string detail = runs::RingStepDetail(ring.steps[i]);
    if (!detail.empty()) add(ring.steps[i].step, ring.steps[i].at, runs::kRingEvent, detail);
  }

  if (steps.count > 0) {
    steps.rows = step_bytes.Take();
    pieces.push_back(std::move(steps));
  }
  events.rows = event_bytes.Take();
  pieces.push_back(std::move(events));
  return pieces;
}

}  // namespace mpnanny::team
