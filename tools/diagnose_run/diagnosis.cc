#include "tools/diagnose_run/diagnosis.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/next_measurement.h"
#include "tools/diagnose_run/trend.h"
#include "tools/run_summary/stability.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Count;
using runs::Name;
using runs::Number;

constexpr int64_t kLeastSteps = 3;  // below that nothing can be called healthy
// Weights of `log:` signals (knowledge/README.md): 3 all but proves its case.
constexpr double kErrorWeight = 4, kSignWeight = 2;
constexpr size_t kMostHypotheses = 6;
constexpr double kSays = 0.5;  // a best cause this sure is told in the headline
// A loss that fell by this share learns; warnings about lost gradients then do not decide.
constexpr double kLearns = 0.05;

// Warnings that matter by themselves if the loss does not fall either.
bool LearnsNothing(const Facts& facts) {
  const run_summary::Summary& s = facts.summary;
  const bool warned = std::any_of(facts.alerts.begin(), facts.alerts.end(), [](const SeenAlert& a) {
    return a.row.type == "GRAD_VANISH" || a.row.type == "DEAD_LAYER" ||
           a.row.type == "STALE_UPDATE" || (a.row.type == "UNDERFLOW" && a.row.phase == "backward");
  });
  if (!warned || !s.loss_start || !s.loss_end || s.finite_losses < 40) return false;
  return *s.loss_end > *s.loss_start - kLearns * std::fabs(*s.loss_start);
}

bool HasErrorOf(const Facts& facts, const char* type) {
  return std::any_of(facts.alerts.begin(), facts.alerts.end(), [&](const SeenAlert& alert) {
    return alert.row.type == type && alert.row.severity == "ERROR";
  });
}

// The strongest telling line of the log or the question; nullptr below the weight that matters.
const LogHit* StrongestHit(const Facts& facts, double least) {
  const LogHit* best = nullptr;
  for (const LogHit& hit : facts.log_hits) {
    if (hit.telling && hit.weight >= least && (!best || hit.weight > best->weight)) best = &hit;
  }
  return best;
}

// Sets verdict and headline.
void Judge(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d) {
  const run_summary::Summary& s = facts.summary;
  const auto say = [&](const char* verdict, std::string headline) {
    d.verdict = verdict;
    d.headline = std::move(headline);
  };
  if (const Claim* replaced = FindClaim(claims, "gradients-replaced");
      replaced && s.nonfinite_losses == 0) {
    return say("degraded", "Nothing stops the run, and it is worse for it. " + replaced->sentence);
  }
  if (facts.onset) {
    const Onset& onset = *facts.onset;
    const std::string first = "first bad step " + std::to_string(onset.step) + ": " + onset.what;
    const bool over = !facts.bad_at_end && facts.good_steps_after > 0;
    const auto stays =
        std::find_if(claims.begin(), claims.end(), [](const Claim& c) { return c.stays; });
    if (stays != claims.end()) return say("broken", stays->sentence);
    const bool loss_touched = s.nonfinite_losses > 0;
    if (!over && (loss_touched || facts.bad_at_end)) {
      return say("broken", "The run broke, " + first + ". It did not recover.");
    }
    if (loss_touched) {
      return say("degraded", "The run was hit and went on, " + first + "; " +
                                 Count(s.nonfinite_losses, "loss", "losses") + " of " +
                                 Count(s.steps, "step") + " are not finite.");
    }
    return say("degraded",
               "Values left the range, " + first + ", while the logged loss is finite.");
  }
  // A message of this weight is an exception of PyTorch: the training went no further.
  if (const LogHit* error = StrongestHit(facts, kErrorWeight)) {
    return say("broken", "A known error was raised: " + EscapeControl(error->line, 200));
  }
  if (s.steps < kLeastSteps) {
    if (const LogHit* sign = StrongestHit(facts, kSignWeight)) {
      return say("degraded", "A line tells of a known fault: " + EscapeControl(sign->line, 200));
    }
    return say("not_established",
               s.steps == 0 ? "No step was recorded, so nothing can be said."
                            : "Only " + Count(s.steps, "step") + " recorded: too few to judge.");
  }
  if (facts.scale.collapsed || facts.scale.stuck) {
    return say("broken", std::string("The loss scale ") +
                             (facts.scale.stuck ? "is stuck" : "collapsed") + " at " +
                             Number(s.scale_min) + "; " + Count(s.skipped_steps, "step") + " of " +
                             std::to_string(s.steps) + " were skipped.");
  }
  if (run_summary::LossRose(s)) {
    return say("broken", "The run diverged: the loss rose from about " + Number(s.loss_start) +
                             " to about " + Number(s.loss_end) + ", in finite numbers.");
  }
  if (facts.scale.declining) {
    return say("degraded", "The loss scale keeps falling: from " + Number(facts.scale.fall_from) +
                               " to " + Number(facts.scale.fall_to) + " without a rise.");
  }
  if (run_summary::TooManySkips(s)) {
    return say("degraded", Count(s.skipped_steps, "optimizer step") + " of " +
                               std::to_string(s.steps) +
                               " were skipped, more than a scaler costs.");
  }
  if (HasErrorOf(facts, "GRAD_EXPLOSION")) {
    return say("degraded", "Gradients exploded at times; the loss stayed finite.");
  }
  // Mechanisms that are faults whatever the loss does; the surest first.
  const Claim* fault = nullptr;
  for (const Claim& claim : claims) {
    if (claim.fault && (!fault || claim.strength > fault->strength)) fault = &claim;
  }
  if (fault) return say("degraded", fault->sentence);
  if (LearnsNothing(facts)) {
    return say("degraded", "The loss does not fall (" + Number(s.loss_start) + " at first, " +
                               Number(s.loss_end) +
                               " at the end) and gradients or updates are lost.");
  }
  if (!s.loss_first && s.sampled_steps == 0 && !s.scale_first) {
    return say("not_established", "Neither a loss nor a loss scale nor statistics were recorded.");
  }
  if (const LogHit* sign = StrongestHit(facts, kSignWeight)) {
    return say("degraded", "The figures do not decide, but a line tells of a known fault: " +
                               EscapeControl(sign->line, 200));
  }
  const Claim* jump = FindClaim(claims, "loss-jumped");
  if (jump && !jump->passing) {
    return say("not_established",
               "This record is too short to be called healthy. " + jump->sentence);
  }
  if (s.skipped_steps == s.steps) {
    if (s.scale_last && *s.scale_last <= 1) {
      return say("broken", "Every one of " + Count(s.steps, "step") +
                               " recorded was skipped, and the loss scale is down to " +
                               Number(s.scale_last) + ".");
    }
    return say("not_established", "All " + Count(s.steps, "step") +
                                      " recorded were skipped: the scaler found no scale yet" +
                                      (s.scale_last ? ", it is at " + Number(s.scale_last) : "") +
                                      ".");
  }
  std::string headline = "No sign of trouble in " + Count(s.steps, "step");
  if (s.loss_first) {
    headline += ": the loss went from " + Number(s.loss_first) + " to " + Number(s.loss_last) +
                ", all finite";
  }
  headline += ".";
  if (jump) headline += " " + jump->sentence;
  if (facts.status == runs::Status::kException || facts.status == runs::Status::kKilled) {
    headline += facts.status == runs::Status::kException
                    ? " The training ended with an exception; the recorded numbers do not tell why."
                    : " The process was killed or went away; the recorded numbers do not tell why.";
  }
  say("healthy", std::move(headline));
}

// Where a fault began that shows in no value that is not finite: by the sign that the best
// hypothesis stands on, else by the first claim that names a place.
std::optional<Onset> PlaceOfFault(const Facts& facts, const std::vector<Claim>& claims,
                                  const Diagnosis& d) {
  const Claim* chosen = nullptr;
  double weight = 0;
  if (!d.hypotheses.empty()) {
    for (const cases::Signal& signal : d.hypotheses[0].cause->signals) {
      if (signal.kind != cases::Signal::Kind::kSign || signal.weight <= weight) continue;
      const Claim* claim = FindClaim(claims, signal.name);
      if (!claim || !claim->place) continue;
      chosen = claim;
      weight = signal.weight;
    }
  }
  for (const Claim& claim : claims) {
    if (!chosen && claim.fault && claim.place) chosen = &claim;
  }
  if (!chosen) return std::nullopt;
  Onset onset;
  onset.step = chosen->place->step;
  onset.phase = chosen->place->phase;
  onset.layer = chosen->place->layer;
  onset.layer_type = chosen->place->layer_type;
  onset.source = chosen->place->source;
  onset.what = chosen->place->what;
  onset.place = onset.layer.empty() ? Onset::Place::kUnplaced : Onset::Place::kFirstSeen;
  onset.how = !facts.monitored      ? "a log names no layer"
              : onset.layer.empty() ? "the fault lies in the training loop and in no layer"
                                    : "it is the first sampled tensor that shows it";
  return onset;
}

// Half of the value is to know that no format would help.
void SayWhetherPrecision(Diagnosis& d) {
  if (d.hypotheses.empty() || d.hypotheses[0].confidence < kSays ||
      d.hypotheses[0].cause->category != "not-precision") {
    return;
  }
  std::string title = d.hypotheses[0].cause->title;
  constexpr std::string_view kSaid = " (not precision)";
  if (title.ends_with(kSaid)) title.resize(title.size() - kSaid.size());
  d.headline += " Not precision: " + title + ".";
}

// The first step that a scaler skipped for no reason of its own, and the layer whose gradient was
// nearest to FP16's end before.
std::optional<Onset> PlaceOfSkips(const Facts& facts) {
  const auto burst = std::find_if(facts.turns.bursts.begin(), facts.turns.bursts.end(),
                                  [](const Burst& b) { return !b.scalers_own; });
  if (burst == facts.turns.bursts.end()) return std::nullopt;
  Onset onset;
  onset.step = burst->first;
  onset.phase = "backward";
  onset.what = "the first step that was skipped and that growing the scale does not explain";
  onset.how = "no sample tells which layer it was";
  double largest = 0;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kGradient) continue;
    for (const Measured& point : series.points) {
      if (point.step >= burst->first || point.absmax.value_or(0) <= largest) continue;
      largest = *point.absmax;
      onset.layer = series.layer;
      onset.layer_type = series.type;
      onset.source = series.source;
    }
  }
  if (!onset.layer.empty()) {
    onset.place = Onset::Place::kFirstSeen;
    onset.how = "its gradient was the largest in the samples before, " + Number(largest) +
                (burst->scale_first ? ", times a loss scale of " + Number(burst->scale_first) : "");
  }
  return onset;
}

// Whether the best hypothesis stands on what the training loop did.
bool BestIsInLoop(const std::vector<Claim>& claims, const Diagnosis& d) {
  if (d.hypotheses.empty()) return false;
  const auto& signals = d.hypotheses[0].cause->signals;
  return std::any_of(signals.begin(), signals.end(), [&](const cases::Signal& signal) {
    const Claim* claim =
        signal.kind == cases::Signal::Kind::kSign ? FindClaim(claims, signal.name) : nullptr;
    return claim && claim->in_loop;
  });
}

void AddTimeline(const Facts& facts, Diagnosis& d) {
  const run_summary::Summary& s = facts.summary;
  std::vector<Moment>& line = d.timeline;
  if (!s.first_step) return;
  std::string start = "starts";
  if (s.loss_first) start += ", loss " + Number(s.loss_first);
  if (s.scale_first) start += ", loss scale " + Number(s.scale_first);
  line.push_back({*s.first_step, start});
  if (facts.scale.startup_skips > 0) {
    line.push_back({*s.first_step, Count(facts.scale.startup_skips, "step") +
                                       " skipped while the scaler looks for its scale (normal)"});
  }
  if (s.loss_min && s.loss_min_step) {
    line.push_back({*s.loss_min_step, "least loss, " + Number(s.loss_min)});
  }
  if (facts.trend && facts.trend->absmax.size() > 1) {
    // First, middle and last point tell the shape; the sentence about it stands in the evidence.
    const auto& points = facts.trend->absmax;
    for (const size_t i : {size_t{0}, points.size() / 2, points.size() - 1}) {
      const std::string what =
          "absmax of " + Name(facts.trend->layer) + " " + Number(points[i].second, 4);
      if (line.empty() || line.back().what != what) line.push_back({points[i].first, what});
    }
  }
  if (facts.onset && facts.onset->last_clean_sample) {
    line.push_back({*facts.onset->last_clean_sample, "last sample that is finite everywhere"});
  }
  // The first alert of each type.
  std::vector<std::string> types;
  for (const SeenAlert& alert : facts.alerts) {
    if (std::find(types.begin(), types.end(), alert.row.type) != types.end()) continue;
    types.push_back(alert.row.type);
    if (types.size() > 10) break;
    line.push_back({alert.row.step, "first " + Name(alert.row.type) +
                                        (alert.layer.empty() ? "" : " at " + Name(alert.layer)) +
                                        (alert.derived ? " (from the steps)" : "")});
  }
  if (d.first_bad) line.push_back({d.first_bad->step, "FIRST BAD: " + d.first_bad->what});
  if (s.first_nonfinite_loss) {
    line.push_back({*s.first_nonfinite_loss, "first loss that is not finite"});
  }
  if (facts.scale.first_fall)
    line.push_back({*facts.scale.first_fall, "loss scale begins to fall"});
  if (facts.scale.longest_skip_run > 2 && facts.scale.longest_skip_first) {
    line.push_back({*facts.scale.longest_skip_first,
                    Count(facts.scale.longest_skip_run, "step") + " in a row skipped from here"});
  }
  std::string end = std::string("ends (") + runs::StatusName(facts.status) + ")";
  if (!facts.monitored) end = "the log ends";
  if (s.loss_last) end += ", loss " + Number(s.loss_last);
  if (s.scale_last) end += ", loss scale " + Number(s.scale_last);
  line.push_back({*s.last_step, end});
  std::stable_sort(line.begin(), line.end(),
                   [](const Moment& a, const Moment& b) { return a.step < b.step; });
}

}  // namespace

Diagnosis Diagnose(const Facts& facts, const cases::CaseLibrary& library) {
  Diagnosis d;
  const std::vector<Claim> claims = RunDetectors(facts);
  Judge(facts, claims, d);
  for (const Claim& claim : claims) d.observations.push_back(claim.sentence);
  d.first_bad = facts.onset;
  if (facts.onset && facts.trend && !FindClaim(claims, "forward-overflow")) {
    d.observations.push_back("Before it: " + TrendText(*facts.trend) + ".");
  }
  if (d.verdict != "healthy") {
    d.hypotheses = Rank(facts, claims, library);
    if (d.hypotheses.size() > kMostHypotheses) d.hypotheses.resize(kMostHypotheses);
    SayWhetherPrecision(d);
    if (!d.first_bad) d.first_bad = PlaceOfFault(facts, claims, d);
    if (!d.first_bad) d.first_bad = PlaceOfSkips(facts);
    if (d.first_bad && d.first_bad->phase == "backward" && BestIsInLoop(claims, d)) {
      // The layer whose gradient is seen first did not make it.
      d.first_bad->layer.clear();
      d.first_bad->layer_type.clear();
      d.first_bad->source.clear();
      d.first_bad->place = Onset::Place::kUnplaced;
      d.first_bad->how = "the fault lies in the training loop and in no layer";
    }
  }
  AddTimeline(facts, d);
  d.limits = facts.limits;
  for (const StaticFinding& finding : facts.findings) {
    if (!finding.near_source || d.observations.size() >= 6) break;
    d.observations.push_back("The code near the producer: " + finding.place + " " + finding.rule +
                             " (" + finding.severity + "): " + finding.message);
  }
  if (facts.onset && facts.onset->place == Onset::Place::kUnplaced) {
    d.limits.insert(d.limits.begin(),
                    "Which layer made the first bad value is not known: " + facts.onset->how + ".");
  }
  if (d.verdict != "healthy" && d.hypotheses.empty()) {
    d.limits.push_back("No documented case fits what was recorded.");
  }
  d.next_measurement = NextMeasurement(facts, d);
  return d;
}

}  // namespace mpnanny::diagnose_run
