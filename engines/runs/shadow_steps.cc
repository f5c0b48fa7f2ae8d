// The shadow steps of a run and what they cost, and the profiles of layers that they left.
#include <algorithm>
#include <map>

#include "base/json.h"
#include "engines/runs/parts.h"
#include "engines/runs/rank_layers.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kMostShadowSteps = 100'000;
constexpr size_t kMostRows = 200'000;
constexpr std::string_view kSteps = "shadow_step", kProfile = "shadow_profile";

constexpr size_t kMostLeftOut = 16;
constexpr size_t kMostCancelled = 256;

Covered PairOf(const Json& json, const char* key) {
  const Json& pair = ValueAt(json, {key});
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() ||
      !pair[1].is_number_integer()) {
    return {};
  }
  return {pair[0].get<int64_t>(), pair[1].get<int64_t>()};
}

void ReadDetail(const std::string& text, ShadowStep& step) {
  const auto detail = text.empty() ? Result<Json>(Json()) : ParseJson(text);
  if (!detail || !detail->is_object()) return;
  const Json& eager = ValueAt(*detail, {"eager"});
  step.eager = eager.is_boolean() && eager.get<bool>();
  const Json& covered = ValueAt(*detail, {"covered"});
  if (!covered.is_object()) return;
  ShadowCoverage coverage;
  coverage.gradients = PairOf(covered, "gradients");
  coverage.updates = PairOf(covered, "updates");
  coverage.passes = PairOf(covered, "passes");
  const Json& states = ValueAt(covered, {"states"});
  if (states.is_number_integer()) coverage.states = states.get<int64_t>();
  const Json& left_out = ValueAt(covered, {"not"});
  if (left_out.is_array()) {
    for (const Json& name : left_out) {
      if (name.is_string() && coverage.left_out.size() < kMostLeftOut) {
        coverage.left_out.push_back(name.get<std::string>().substr(0, 300));
      }
    }
  }
  const Json& cancelled = ValueAt(covered, {"cancelled"});
  if (cancelled.is_array()) {
    auto& shares = coverage.cancelled.emplace();
    for (const Json& pair : cancelled) {
      if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_number() &&
          shares.size() < kMostCancelled) {
        shares[pair[0].get<std::string>().substr(0, 300)] =
            std::clamp(pair[1].get<double>(), 0.0, 1.0);
      }
    }
  }
  step.covered = std::move(coverage);
}

void KeepLess(Covered& into, const Covered& other) {
  if (other.of - other.compared > into.of - into.compared) into = other;
}

// What cancels out does so on every rank.
void KeepLess(std::optional<std::map<std::string, double>>& into,
              const std::optional<std::map<std::string, double>>& other) {
  if (!into || !other) {
    into.reset();
    return;
  }
  std::erase_if(*into, [&](const auto& each) { return !other->contains(each.first); });
  for (auto& [name, share] : *into) share = std::min(share, other->at(name));
}

// The slower rank decides how long the step took.
void JoinStep(ShadowStep& into, const ShadowStep& other) {
  if (other.seconds > into.seconds) {
    into.seconds = other.seconds;
    into.plain_seconds = other.plain_seconds;
  }
  into.operators = std::max(into.operators, other.operators);
  into.compared = std::max(into.compared, other.compared);
  into.restarted = std::max(into.restarted, other.restarted);
  into.memory = std::max(into.memory, other.memory);
  if (into.why.empty()) into.why = other.why;
  into.eager = into.eager || other.eager;
  if (!into.covered || !other.covered) {
    into.covered.reset();  // of one rank nothing is known
    return;
  }
  KeepLess(into.covered->gradients, other.covered->gradients);
  KeepLess(into.covered->updates, other.covered->updates);
  KeepLess(into.covered->passes, other.covered->passes);
  KeepLess(into.covered->cancelled, other.covered->cancelled);
  into.covered->states = std::min(into.covered->states, other.covered->states);
}

// A thousand ranks mostly tell the same of a step but for how long it took: such rows are one. The
// time is the slowest rank's, and beside it that rank's plain one.
constexpr std::string_view kStepsOfAll =
    "SELECT step, max(seconds), (max(ARRAY[coalesce(seconds, -1), plain_seconds]))[2], "
    "max(operators), max(compared), max(restarted), max(memory), substr(raw_why, 1, 40), "
    "substr(raw_detail, 1, 60000) FROM shadow_step WHERE step BETWEEN ?2 AND ?3 "
    "GROUP BY step, raw_why, raw_detail "
    "ORDER BY step, min(CASE WHEN run_id=?1 THEN -1 ELSE run_id END)";

// The largest figures of each layer over the ranks, by its name: readers ask for the worst.
constexpr std::string_view kProfileOfAll =
    "SELECT g.first[2], g.phase, g.first[3], g.operators, g.error, g.amplification, g.absmax, "
    "g.rms, g.fp16, g.bf16, g.e4m3, g.e5m2, g.over, g.under, "
    "CASE WHEN g.first[1]=-1 THEN ?2 ELSE g.first[1] END, g.name "
    "FROM (SELECT p.phase, max(p.operators) AS operators, max(p.error) AS error, "
    "max(p.amplification) AS amplification, max(p.absmax) AS absmax, max(p.rms) AS rms, "
    "max(p.fp16) AS fp16, max(p.bf16) AS bf16, max(p.e4m3) AS e4m3, max(p.e5m2) AS e5m2, "
    "max(p.fp16_overflow) AS over, max(p.fp16_underflow) AS under, left(l.raw_name, 3000) AS name, "
    "min(ARRAY[CASE WHEN p.run_id=?2 THEN -1 ELSE p.run_id END, p.layer_id, p.dtype]) AS first "
    "FROM shadow_profile p LEFT JOIN layer l ON l.run_id=p.run_id AND l.layer_id=p.layer_id "
    "WHERE p.step=?1 GROUP BY l.raw_name, CASE WHEN l.raw_name IS NULL THEN p.layer_id END, "
    "p.phase) AS g ORDER BY g.first[1], g.first[2], g.phase";

// Of one rank, or with `all` of all of them.
Result<void> ReadStepsOfPart(const Source& source, size_t part, bool all, const StepRange& range,
                             std::map<int64_t, ShadowStep>& steps,
                             std::vector<std::string>& notes) {
  const Database& database = DatabaseOf(source, part);
  if (!database.HasColumn(kSteps, "run_id") || !database.HasColumn(kSteps, "step")) return {};
  MPN_TRY_ASSIGN(
      auto rows,
      database.Prepare(
          all ? std::string(kStepsOfAll)
              : "SELECT " +
                    database.ColumnsOrNull(kSteps, {"step", "seconds", "plain_seconds", "operators",
                                                    "compared", "restarted", "memory"}) +
                    ", substr(" + database.ColumnsOrNull(kSteps, {"why"}) + ", 1, 40), substr(" +
                    database.ColumnsOrNull(kSteps, {"detail"}) +
                    ", 1, 60000) FROM shadow_step WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 ORDER "
                    "BY step"));
  rows.Bind(1, *RunOf(source, part).handle.run_id).Bind(2, range.first).Bind(3, range.last);
  for (size_t read = 0;; ++read) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    if (read == kMostShadowSteps) {
      notes.push_back("There are more than " + std::to_string(kMostShadowSteps) +
                      " shadow steps; the later ones were not read.");
      return {};
    }
    ShadowStep step;
    step.step = rows.IntOr(0, 0);
    step.seconds = rows.Real(1);
    step.plain_seconds = rows.Real(2);
    step.operators = rows.Int(3);
    step.compared = rows.Int(4);
    step.restarted = rows.Int(5);
    step.memory = rows.Int(6);
    step.why = rows.TextOr(7);
    ReadDetail(rows.TextOr(8), step);
    const auto [place, fresh] = steps.try_emplace(step.step, step);
    if (!fresh) JoinStep(place->second, step);
  }
}

// Steps that came before any plain one are measured against the first that is known.
void AddTimes(ShadowSteps& steps) {
  std::optional<double> plain;
  for (const ShadowStep& step : steps.steps) {
    if (!plain) plain = step.plain_seconds;
  }
  for (const ShadowStep& step : steps.steps) {
    if (step.plain_seconds) plain = step.plain_seconds;
    if (!step.seconds) continue;
    steps.seconds = steps.seconds.value_or(0) + *step.seconds;
    if (!plain) continue;
    steps.extra_seconds = steps.extra_seconds.value_or(0) + std::max(0.0, *step.seconds - *plain);
  }
}

}  // namespace

Result<ShadowSteps> ReadShadowSteps(const Source& source, const StepRange& range) {
  ShadowSteps all;
  std::map<int64_t, ShadowStep> steps;
  const bool at_once = LiesInOne(source);
  for (size_t part = 0; part < (at_once ? 1 : PartsOf(source)); ++part) {
    auto read = ReadStepsOfPart(source, part, at_once, range, steps, all.notes);
    if (!read && !IsDamage(read.error())) return read.error();
    if (!read) all.notes.push_back(DamageNote(read.error()));
  }
  for (auto& [step, row] : steps) all.steps.push_back(std::move(row));
  AddTimes(all);
  return all;
}

Result<ShadowProfile> ShadowProfile::Open(const Source& source) {
  ShadowProfile profile(source);
  const bool at_once = LiesInOne(source);
  for (size_t place = 0; place < (at_once ? 1 : PartsOf(source)); ++place) {
    const Database& database = DatabaseOf(source, place);
    if (!database.HasColumn(kProfile, "run_id") || !database.HasColumn(kProfile, "step") ||
        !database.HasColumn(kProfile, "layer_id")) {
      continue;
    }
    auto step_from =
        database.Prepare(std::string("SELECT step FROM shadow_profile WHERE ") +
                         (at_once ? "" : "run_id=?2 AND ") + "step>=?1 ORDER BY step LIMIT 1");
    if (!step_from) return step_from.error();
    auto rows = database.Prepare(
        at_once ? std::string(kProfileOfAll)
                : "SELECT " +
                      database.ColumnsOrNull(
                          kProfile, {"layer_id", "phase", "dtype", "operators", "error",
                                     "amplification", "absmax", "rms", "fp16", "bf16", "e4m3",
                                     "e5m2", "fp16_overflow", "fp16_underflow"}) +
                      " FROM shadow_profile WHERE step=?1 AND run_id=?2");
    if (!rows) return rows.error();
    const int64_t run_id = *RunOf(source, place).handle.run_id;
    if (!at_once) step_from->Bind(2, run_id);
    rows->Bind(2, run_id);
    profile.parts_.push_back({place, at_once, *std::move(step_from), *std::move(rows)});
  }
  return profile;
}

Result<std::optional<int64_t>> ShadowProfile::StepFrom(int64_t step) {
  std::optional<int64_t> first;
  for (Part& part : parts_) {
    part.step_from.Bind(1, step);
    auto row = part.step_from.Next();
    if (!row && !IsDamage(row.error())) return row.error();
    if (row && *row) {
      const std::optional<int64_t> found = part.step_from.Int(0);
      if (found && (!first || *found < *first)) first = found;
    }
    part.step_from.Reset();
  }
  return first;
}

Result<std::vector<ShadowProfileRow>> ShadowProfile::At(int64_t step) {
  std::vector<ShadowProfileRow> all;
  RankLayers layers(*source_);
  const PartsByRank places(*source_);
  for (Part& part : parts_) {
    part.rows.Bind(1, step);
    while (all.size() < kMostRows) {
      auto next = part.rows.Next();
      if (!next && !IsDamage(next.error())) return next.error();
      if (!next || !*next) break;
      const Statement& row = part.rows;
      ShadowProfileRow profile;
      profile.step = step;
      profile.layer_id = row.IntOr(0, -1);
      profile.phase = row.IntOr(1, 0);
      profile.dtype = row.Int(2);
      profile.operators = row.Int(3);
      profile.error = row.Real(4);
      profile.amplification = row.Real(5);
      profile.absmax = row.Real(6);
      profile.rms = row.Real(7);
      profile.fp16 = row.Real(8);
      profile.bf16 = row.Real(9);
      profile.e4m3 = row.Real(10);
      profile.e5m2 = row.Real(11);
      profile.fp16_overflow = row.Real(12);
      profile.fp16_underflow = row.Real(13);
      const size_t place = part.all ? places.Of(row.IntOr(14, 0)) : part.place;
      if (place > 0) {
        auto mapped = part.all ? layers.Map(place - 1, profile.layer_id, row.Text(15))
                               : layers.Map(place - 1, profile.layer_id);
        if (!mapped) return mapped.error();
        profile.layer_id = *mapped;
      }
      all.push_back(profile);
    }
    part.rows.Reset();
  }
  return all;
}

}  // namespace mpnanny::runs
