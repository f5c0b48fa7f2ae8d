// What is known about a run before anybody judges it: gathered once, read by every detector and by
// the ranking.
//
// Plain values. Gathered from a monitor's database (gather.h) or from a text log (log_hits.h);
// what a source cannot tell stays empty and is named in `limits`.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_FACTS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_FACTS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engines/cases/signal.h"
#include "engines/diagnosis/facts/left_figures.h"
#include "engines/diagnosis/facts/logged.h"
#include "engines/diagnosis/facts/loop_calls.h"
#include "engines/diagnosis/facts/profile.h"
#include "engines/diagnosis/facts/progress.h"
#include "engines/diagnosis/facts/shadow_evidence.h"
#include "engines/diagnosis/facts/turns.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/mismatch/finding.h"
#include "engines/ranks/truths.h"
#include "engines/runs/alert_detail.h"
#include "engines/runs/alerts.h"
#include "engines/runs/evaluations.h"
#include "engines/runs/log_lines.h"
#include "engines/runs/samples.h"
#include "engines/runs/sentence.h"
#include "engines/runs/spoken_faults.h"
#include "engines/runs/steps.h"

namespace mpnanny::diagnosis {

using runs::NanOrigin;

// An alert with its layer's name. `derived`: no monitor wrote it, it follows from the recorded
// steps.
struct SeenAlert {
  runs::AlertRow row;
  runs::AlertDetail detail;
  std::string layer;  // raw; "" if none
  bool derived = false;
};

// How the loss scale went, beyond first and last.
struct ScaleTrack {
  bool declining = false;  // five falls or more without a rise, the start-up search not counted
  bool collapsed = false;  // fell to 1 or below, or skips there: for 20 steps or more
  std::optional<int64_t> collapsed_from;  // the first of those
  bool stuck = false;                     // one value at 20 skipped steps or more in a row
  int64_t startup_skips = 0;  // skipped without a break from the first step on, ended by good steps
  std::optional<int64_t> first_fall;  // after start-up
  int64_t longest_fall_run = 0;       // falls without a rise, start-up not counted
  double fall_from = 0, fall_to = 0;  // of that run
  int64_t longest_skip_run = 0;
  std::optional<int64_t> longest_skip_first;
};

struct Carrier {
  std::string layer, type;
  Word<Phase> phase;
  int64_t step = 0;
};

// Values that are not finite in what a module takes or gives, of which nothing reached the loss, a
// gradient or a weight.
struct Masked {
  int64_t step = 0, last_step = 0, places = 0;
  runs::Sentence what;  // "NaN in the activation of experts": of the first; for people, escaped
  std::string source;   // raw
  std::string batch;    // of data: which elements; escaped
};

// The first bad moment.
struct Onset {
  enum class Place {
    kProducer,   // the layer's inputs were clean and its output was not
    kFirstSeen,  // the first that was seen to be bad; whether it made the value is not known
    kUnplaced,   // some layer between the last clean sample and this step
  };
  int64_t step = 0;
  Word<Phase> phase;
  Place place = Place::kUnplaced;
  std::optional<int64_t> layer_id, kind;
  std::string layer, layer_type, source;  // raw; "" if not known
  bool is_nan = false, is_inf = false, is_overflow = false;
  runs::AlertDetail detail;       // of the alert that it is taken from
  std::optional<size_t> finding;  // what shadow steps measured of it: of ShadowEvidence::findings
  runs::Sentence what;            // "Inf in the activation of blocks.2.ffn.wo": for people, escaped
  runs::Sentence how;             // by what this is known: for people
  std::vector<int64_t> ranks;     // of merged ranks, those it was seen on, ascending
  std::optional<int64_t> last_clean_sample;
  std::vector<Carrier> carriers;  // in order of time, at most kCarriersKept
  int64_t carrier_count = 0;
};
inline constexpr size_t kCarriersKept = 8;

// One figure of one layer over the sampled steps before the onset.
struct Trend {
  std::string layer;  // raw
  int64_t kind = 0;
  std::string dtype;  // "float16"; "" not known
  double limit = 0;   // the judged format's largest finite value; 0: none applies
  std::vector<std::pair<int64_t, double>> absmax;  // (step, value), ascending, finite ones
  double growth = 0;                     // factor a step over the last points; 0: not known
  double times_grown = 0;                // last over first; 0: not known
  std::optional<double> steps_to_limit;  // at that growth, from the last point; 0 if it is over
};

// Loss and gradient norm before the onset (or up to the end).
struct Course {
  std::optional<double> loss_low;         // least mean of 10 finite losses in a row
  std::optional<double> loss_before;      // mean of the last (up to) 10 finite losses
  std::optional<double> loss_greatest;    // greatest finite loss after loss_low was reached
  std::optional<int64_t> loss_rise_from;  // step at which the lowest window ended
  std::optional<double> norm_at_low;      // mean of the last 10 gradient norms there
  std::optional<double> norm_median, norm_before,
      norm_greatest;  // norm_before: greatest of the last 10
  std::optional<double> lr_before;
  int64_t finite_losses = 0;
  // At the end, without a break: losses of exactly 0 beside which no gradient norm shows life.
  int64_t zero_losses = 0;
  int64_t zero_from = 0;  // the first of them
};

struct LogHit {        // a case's `log:` signal that a line fits
  std::string signal;  // as written
  double weight = 0;
  std::string line;     // raw
  bool raised = false;  // the exception that ended the run says it
  bool telling = true;  // false: the line is one of good figures, which the pattern happens to fit
};

struct StaticFinding {
  std::string rule, severity, place, message;  // place: "train.py:42"; escaped
  std::vector<std::string> cases;
  bool near_source = false;  // within a few lines of the producer's source
};

// Lines of the run's code around one that the answer names.
struct Excerpt {
  std::string place;               // "train.py:42", as the run names it; escaped
  int64_t first_line = 0;          // of `lines`, 1-based
  std::vector<std::string> lines;  // escaped
};

// The run that this one goes on from, in the same file.
struct Parent {
  int64_t run_id = 0, last_step = 0;
  std::optional<double> last_loss, last_scale;
};

// Of several runs in one log's file the one that the facts are of: the worst, else the last.
struct OfFile {
  int64_t run_id = 1, runs = 0, number = 0;  // number: from 1, in the file's order
  int64_t first_line = 0, last_line = 0;
};

struct Facts {
  std::set<std::string> known_rules;  // ids of the static rules that there are
  bool monitored = true;              // false: read from a log
  bool numbered = true;               // false: that log says no steps, they are its lines
  bool of_players = false;            // a log's losses are of two players that learn by each other
  runs::Evaluations evaluations;      // of a log
  runs::LogLines lines;               // of a log, where its steps stand
  std::vector<LeftFigure> left;       // of a log
  LoggedRelations logged;             // between the numbers that a log prints
  Progress progress;                  // that a log shows, and standing still
  std::vector<runs::SpokenFault> spoken;  // faults that a log reports in words
  std::optional<OfFile> of_file;
  Word<Precision> precision;
  summary::Summary summary;
  runs::Status status = runs::Status::kClosed;
  bool ended_by_signal = false;   // which its process heard: Ctrl-C, a scheduler's
  std::vector<SeenAlert> alerts;  // in order of time; at most kAlertsKept
  ScaleTrack scale;
  Course course;
  Turns turns;
  LoopCalls loop;
  Profile profile;  // samples before the onset; all along without one
  std::optional<Parent> parent;
  // Operators behind the onset, in the order in which one led to another.
  std::vector<NanOrigin> origins;
  ShadowEvidence measured;               // by shadow steps
  ranks::Truths ranks;                   // what they should agree on, and do not
  std::vector<mismatch::Call> logprobs;  // of trainer and rollout engine, compared
  mismatch::Judgement mismatch;          // of them
  std::optional<Onset> onset;
  std::optional<Masked> masked;  // values that are not finite and that nothing came of
  // Of the onset, where an optimizer's step made it: its states that held NaN before that step.
  std::vector<std::string> bad_states;
  bool bad_at_end = false;       // the last steps are bad too: the run did not recover
  int64_t good_steps_after = 0;  // steps after the onset with a finite loss that were not skipped
  std::optional<Trend>
      trend;  // of the producer, or of the layer nearest to its limit before the onset
  std::vector<LogHit> log_hits;         // `log:` signals that a line or the question fits
  bool code_checked = false;            // the run's code was given and looked at
  std::vector<StaticFinding> findings;  // near the producer first, then by severity
  std::vector<Excerpt> excerpts;        // of the lines that shadow steps and the onset name
  bool has_activations = false, has_gradients = false, has_weights = false;  // seen in a sample
  std::vector<runs::Sentence> limits;  // what the record cannot show, for people
};
inline constexpr size_t kAlertsKept = 4000;

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_FACTS_H_
