#include "engines/pack/copy_run.h"

#include <cmath>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engines/pack/copy_ranks.h"
#include "engines/pack/copy_samples.h"
#include "engines/pack/copy_shadow.h"
#include "engines/pack/redaction.h"
#include "engines/runs/packed.h"
#include "engines/runs/step_cursor.h"

namespace mpnanny::pack {
namespace {

constexpr std::string_view kEventColumns = "run_id, step, at, type, detail";

class RunCopy {
 public:
  RunCopy(const runs::Source& source, const CopyOptions& options, const NewDatabase& into)
      : source_(source), options_(options), into_(into), run_(*source.run.handle.run_id) {}

  Result<Copied> Copy() {
    for (const auto part : {&RunCopy::CopyRow, &RunCopy::CopyLayers, &RunCopy::CopySteps,
                            &RunCopy::CopyShadows, &RunCopy::CopyRankFigures, &RunCopy::CopyAlerts,
                            &RunCopy::CopyEvents, &RunCopy::CopyRing}) {
      MPN_TRY((this->*part)());
    }
    if (auto done = CopySamples(source_, options_, layers_, into_, copied_); !done) {
      return done.error();
    }
    return copied_;
  }

 private:
  bool redact() const { return options_.redact; }

  Result<void> CopyRow() {
    const runs::Run& run = source_.run;
    MPN_TRY_ASSIGN(
        auto row,
        into_.Into("run",
                   "run_id, name, parent, rank, world_size, started_at, heartbeat_at, "
                   "ended_at, end_reason, precision, trace_interval, environment, notes"));
    // A run that this one resumed is not in the new file.
    row.Add(options_.run_id).Add(redact() ? HashedName(run.name) : run.name).AddNull();
    row.Add(run.rank).Add(run.world_size).Add(std::optional(run.started_at));
    row.Add(run.heartbeat_at).Add(run.ended_at).AddOrNull(run.end_reason);
    row.AddOrNull(run.precision).Add(run.trace_interval);
    row.Add(redact() ? RedactedEnvironment(run.environment) : run.environment);
    row.AddOrNull(redact() ? RedactedNotes(run.notes) : run.notes);
    return row.Insert();
  }

  static std::string RedactedNotes(const std::string& notes) {
    auto parsed = ParseJson(notes);
    if (!parsed || !parsed->is_array() || parsed->empty()) return "";
    return DumpJson(Json::array(
        {std::to_string(parsed->size()) + " notes of the monitor were left out by --redact"}));
  }

  Result<void> CopyLayers() {
    MPN_TRY_ASSIGN(
        auto rows,
        source_.database->Prepare(
            "SELECT layer_id, name, type, position, source, numel FROM layer WHERE run_id=?1 "
            "ORDER BY layer_id"));
    rows.Bind(1, run_);
    MPN_TRY_ASSIGN(auto layer,
                   into_.Into("layer", "layer_id, run_id, name, type, position, source, numel"));
    while (true) {
      MPN_TRY_ASSIGN(auto next, rows.Next());
      if (!next) return {};
      const int64_t id = options_.first_layer + copied_.layers++;
      layers_[rows.IntOr(0, 0)] = id;
      const std::string name = rows.TextOr(1);
      layer.Add(id).Add(options_.run_id).Add(redact() ? RedactedLayer(name) : name);
      const std::string type = rows.TextOr(2);
      layer.AddOrNull(redact() ? RedactedType(type) : type).Add(rows.Int(3));
      const std::string place = rows.TextOr(4);
      layer.AddOrNull(redact() ? RedactedSource(place) : place).Add(rows.Int(5));
      if (auto done = layer.Insert(); !done) return done;
    }
  }

  Result<void> CopySteps() {
    MPN_TRY_ASSIGN(auto cursor,
                   runs::StepCursor::Open(*source_.database, source_.run, source_.ring, {}));
    MPN_TRY_ASSIGN(auto step,
                   into_.Into("step",
                              "run_id, step, at, duration, loss, lr, loss_scale, grad_norm, "
                              "peak_memory, flags"));
    while (true) {
      MPN_TRY_ASSIGN(auto row, cursor.Next());
      if (!row) return {};
      const runs::StepRow& s = *row;
      step.Add(options_.run_id).Add(s.step).Add(s.at).Add(s.duration).Add(s.loss).Add(s.lr);
      step.Add(s.loss_scale).Add(s.grad_norm).Add(s.peak_memory);
      step.Add(static_cast<int64_t>(s.flags));
      if (auto done = step.Insert(); !done) return done;
      ++copied_.steps;
    }
  }

  // The layer of the new file; NULL for none.
  std::optional<int64_t> LayerOf(const std::optional<int64_t>& id) const {
    const auto found = id ? layers_.find(*id) : layers_.end();
    return found == layers_.end() ? std::nullopt : std::optional(found->second);
  }

  // Before the alerts, which name findings.
  Result<void> CopyShadows() {
    return CopyShadow(source_, options_, layers_, into_, findings_, copied_);
  }

  Result<void> CopyRankFigures() { return CopyRanks(source_, options_, layers_, into_, copied_); }

  Result<void> CopyAlerts() {
    MPN_TRY_ASSIGN(auto rows,
                   source_.database->Prepare("SELECT step, phase, layer_id, kind, type, severity, "
                                             "value, threshold, producer, repeats,"
                                             " last_step, message, " +
                                             source_.database->ColumnsOrNull("alert", {"detail"}) +
                                             " FROM alert WHERE run_id=?1 ORDER BY alert_id"));
    rows.Bind(1, run_);
    MPN_TRY_ASSIGN(
        auto alert,
        into_.Into("alert",
                   "alert_id, run_id, step, phase, layer_id, kind, type, severity, value, "
                   "threshold, producer, repeats, last_step, message, detail"));
    while (true) {
      MPN_TRY_ASSIGN(auto next, rows.Next());
      if (!next) return {};
      const std::string type = rows.TextOr(4);
      alert.AddNull().Add(options_.run_id).Add(rows.IntOr(0, 0)).AddOrNull(rows.TextOr(1));
      alert.Add(LayerOf(rows.Int(2))).Add(rows.Int(3)).Add(type).Add(rows.TextOr(5));
      alert.Add(rows.Real(6)).Add(rows.Real(7)).Add(rows.Int(8)).Add(rows.IntOr(9, 1));
      alert.Add(rows.Int(10)).Add(redact() ? "(left out by --redact)" : rows.TextOr(11));
      alert.AddOrNull(AlertDetail(rows.TextOr(12), findings_, redact()));
      if (auto done = alert.Insert(); !done) return done;
      ++copied_.alerts;
    }
  }

  Result<void> CopyEvents() {
    MPN_TRY_ASSIGN(auto rows, source_.database->Prepare(
                                  "SELECT step, at, type, detail FROM event WHERE run_id=?1"));
    rows.Bind(1, run_);
    MPN_TRY_ASSIGN(auto event, into_.Into("event", kEventColumns));
    while (true) {
      MPN_TRY_ASSIGN(auto next, rows.Next());
      if (!next) break;
      const std::string type = rows.TextOr(2);
      if (type == runs::kPackedEvent || type == runs::kRingEvent) continue;  // told anew
      const std::string detail = rows.TextOr(3);
      event.Add(options_.run_id).Add(rows.Int(0)).Add(rows.Real(1)).Add(type);
      event.AddOrNull(redact() ? RedactedJson(detail) : detail);
      if (auto done = event.Insert(); !done) return done;
    }
    event.Add(options_.run_id).AddNull().Add(std::optional(source_.run.started_at));
    event.Add(std::string_view(runs::kPackedEvent)).Add(runs::PackedDetail(source_));
    return event.Insert();
  }

  // What only the flight recorder knows of its steps: figures that are not finite, and the first
  // bad layer.
  Result<void> CopyRing() {
    MPN_TRY_ASSIGN(auto event, into_.Into("event", kEventColumns));
    for (const RingStep& slot : source_.ring.steps) {
      RingStep told = slot;
      const auto layer = slot.first_nonfinite_layer >= 0 ? LayerOf(slot.first_nonfinite_layer)
                                                         : std::optional<int64_t>();
      told.first_nonfinite_layer = static_cast<int32_t>(layer.value_or(-1));
      const std::string detail = runs::RingStepDetail(told);
      if (detail.empty()) continue;
      event.Add(options_.run_id).Add(slot.step).Add(std::optional(slot.at));
      event.Add(std::string_view(runs::kRingEvent)).Add(detail);
      if (auto done = event.Insert(); !done) return done;
    }
    return {};
  }

  const runs::Source& source_;
  const CopyOptions& options_;
  const NewDatabase& into_;
  const int64_t run_;
  LayerIds layers_;
  FindingIds findings_;
  Copied copied_;
};

}  // namespace

Result<Copied> CopyRun(const runs::Source& source, const CopyOptions& options,
                       const NewDatabase& into) {
  return RunCopy(source, options, into).Copy();
}

}  // namespace mpnanny::pack
