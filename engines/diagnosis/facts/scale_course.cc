#include <algorithm>
#include <cmath>

#include "engines/diagnosis/facts/step_course.h"
#include "engines/diagnosis/summary/stability.h"
#include "numerics/alert_bounds.h"

namespace mpnanny::diagnosis {
namespace {

// knowledge/README.md, "states of the loss scale".
constexpr int64_t kCollapseSteps = 20;
constexpr int64_t kStuckSteps = 20;
constexpr double kRecovered = 4;  // times where it had fallen to: two rises

}  // namespace

void ScaleCourse::Fall(double from, double to, int64_t step) {
  if (starting_) {
    if (startup_falls_++ == 0) startup_from_ = from;
    startup_to_ = to;
    return;
  }
  if (!track_.first_fall) track_.first_fall = step;
  if (falls_++ == 0) run_from_ = from;
  if (falls_ > track_.longest_fall_run) {
    track_.longest_fall_run = falls_;
    track_.fall_from = run_from_;
    track_.fall_to = to;
  }
}

void ScaleCourse::Add(const runs::StepRow& row) {
  const bool skipped = row.flags & runs::kSkipped;
  if (skipped) {
    if (skip_run_++ == 0) skip_first_ = row.step;
    if (skip_run_ > track_.longest_skip_run) {
      track_.longest_skip_run = skip_run_;
      track_.longest_skip_first = skip_first_;
    }
  } else {
    if (starting_ && skip_run_ > 0) track_.startup_skips = skip_run_;
    skip_run_ = 0;
  }
  if (!row.loss_scale || !std::isfinite(*row.loss_scale)) return;
  const double scale = *row.loss_scale;
  const uint32_t moves = row.flags & (runs::kScaleFell | runs::kScaleRose);
  if (moves) flagged_ = true;
  // The scale of a row is the one in force during it; a flag tells what its update did.
  if (!flagged_ && previous_ && scale < *previous_) Fall(*previous_, scale, row.step);
  if (!flagged_ && previous_ && scale > *previous_) falls_ = 0;
  if (!skipped) starting_ = false;
  if (moves & runs::kScaleFell) Fall(scale, scale / 2, row.step);
  if (moves & runs::kScaleRose) falls_ = 0;

  low_run_ = scale <= 1 ? low_run_ + 1 : 0;
  if (low_run_ <= 1) {
    low_from_ = row.step;
    low_fell_ = false;
    low_skips_ = 0;
  }
  low_fell_ = low_fell_ || (previous_ && scale < *previous_) || (moves & runs::kScaleFell);
  low_skips_ += skipped ? 1 : 0;
  // A scale that is 1 throughout is none: trainers print it in BF16.
  const bool came_down = low_fell_ || 2 * low_skips_ > low_run_;
  if (low_run_ >= kCollapseSteps && came_down && !track_.collapsed) {
    track_.collapsed = true;
    track_.collapsed_from = low_from_;
  }
  stuck_run_ = skipped && (stuck_run_ == 0 || scale == previous_) ? stuck_run_ + 1
               : skipped                                          ? 1
                                                                  : 0;
  if (stuck_run_ >= kStuckSteps) track_.stuck = true;
  previous_ = scale;
}

ScaleTrack ScaleCourse::Finish() const {
  ScaleTrack track = track_;
  // A search that never found a scale, or took longer than any does, was none.
  const bool search_failed = (starting_ && skip_run_ > summary::kStartupSkips) ||
                             track.startup_skips > 2 * summary::kStartupSkips;
  if (search_failed && startup_falls_ > track.longest_fall_run) {
    track.longest_fall_run = startup_falls_;
    track.fall_from = startup_from_;
    track.fall_to = startup_to_;
    track.startup_skips = 0;
  }
  // One that has risen again since has found its place.
  const bool recovered = previous_ && *previous_ >= kRecovered * track.fall_to;
  track.declining = track.longest_fall_run >= kDeclineFalls && !recovered;
  return track;
}

}  // namespace mpnanny::diagnosis
