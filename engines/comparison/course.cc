#include "engines/comparison/course.h"

#include <algorithm>
#include <cmath>

#include "engines/comparison/noise.h"
#include "engines/diagnosis/summary/step_fold.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kChunk = 4096;
constexpr double kScalesApart = 5;

// The steps of one run, one after the other, read in chunks so that two runs can be walked side by
// side and no query stays open.
class StepStream {
 public:
  StepStream(const runs::Source& source, const runs::StepRange& range)
      : source_(source), next_(range) {}

  // The step at which the stream stands; null at its end.
  Result<const runs::StepRow*> Peek() {
    if (at_ == chunk_.size() && !ended_) {
      MPN_TRY(Refill());
    }
    return at_ < chunk_.size() ? &chunk_[at_] : nullptr;
  }
  void Pop() { ++at_; }

 private:
  Result<void> Refill() {
    chunk_.clear();
    at_ = 0;
    MPN_TRY(runs::ForEachStep(source_, next_, [&](const runs::StepRow& row) {
      chunk_.push_back(row);
      return chunk_.size() < kChunk;
    }));
    ended_ = chunk_.size() < kChunk || chunk_.back().step >= next_.last;
    if (!ended_) next_.first = chunk_.back().step + 1;
    return {};
  }

  const runs::Source& source_;  // borrowed
  runs::StepRange next_;
  std::vector<runs::StepRow> chunk_;
  size_t at_ = 0;
  bool ended_ = false;
};

double Finite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? *value : kNan;
}

// The mean of `count` values and one more, any of which may be unknown.
double RunningMean(double of_before, int64_t count, double one) {
  if (std::isnan(of_before)) return one;
  return std::isnan(one) ? of_before
                         : of_before + (one - of_before) / (static_cast<double>(count) + 1);
}

// Times of steps, sampled ones apart; every second is dropped where they become too many.
class Times {
 public:
  void Add(const runs::StepRow& row) {
    if (!row.duration || !std::isfinite(*row.duration) || *row.duration <= 0) return;
    std::vector<double>& into = row.flags & runs::kSampled ? sampled_ : plain_;
    if (seen_++ % stride_ != 0) return;
    into.push_back(*row.duration);
    if (into.size() < kMostPoints) return;
    for (size_t i = 0; 2 * i < into.size(); ++i) into[i] = into[2 * i];
    into.resize(into.size() / 2);
    stride_ *= 2;
  }
  std::optional<double> Middle() const {
    const double middle = Median(plain_.empty() ? sampled_ : plain_);
    return std::isnan(middle) ? std::nullopt : std::optional(middle);
  }

 private:
  std::vector<double> plain_, sampled_;
  uint64_t seen_ = 0, stride_ = 1;
};

// Collects common steps.
class Pairing {
 public:
  explicit Pairing(Course& course) : c_(course) {}

  void Add(const runs::StepRow& a, const runs::StepRow& b) {
    ++c_.common_steps;
    if (!c_.first_common) c_.first_common = a.step;
    c_.last_common = a.step;
    times_a_.Add(a);
    times_b_.Add(b);
    NoteLoss(a, b);
    NoteRate(a, b);
    if (a.flags & b.flags & runs::kSampled) AddSample(a, b);
    AddPoint({a.step, Finite(a.loss), Finite(b.loss), Finite(a.grad_norm), Finite(b.grad_norm),
              Finite(a.loss_scale), Finite(b.loss_scale)});
  }

  void Finish() {
    if (pending_ > 0) c_.points.push_back(open_);
    c_.seconds_a = times_a_.Middle();
    c_.seconds_b = times_b_.Middle();
  }

 private:
  void NoteLoss(const runs::StepRow& a, const runs::StepRow& b) {
    if (c_.loss_one_sided || !a.loss || !b.loss) return;
    if (std::isfinite(*a.loss) != std::isfinite(*b.loss)) {
      c_.loss_one_sided = OneSided{a.step, *a.loss, *b.loss};
    }
  }
  void NoteRate(const runs::StepRow& a, const runs::StepRow& b) {
    if (c_.lr_parts_at || !a.lr || !b.lr) return;
    const double larger = std::max(std::fabs(*a.lr), std::fabs(*b.lr));
    if (std::fabs(*a.lr - *b.lr) <= 1e-6 * larger) return;
    c_.lr_parts_at = a.step;
    c_.lr_a = *a.lr;
    c_.lr_b = *b.lr;
  }
  void AddSample(const runs::StepRow& a, const runs::StepRow& b) {
    if (sampled_++ % sample_stride_ != 0) return;
    c_.samples.push_back({a.step, (a.flags & runs::kSkipped) != 0, (b.flags & runs::kSkipped) != 0,
                          a.loss_scale.value_or(1) == b.loss_scale.value_or(1)});
    if (c_.samples.size() < kMostSamples) return;
    for (size_t i = 0; 2 * i < c_.samples.size(); ++i) c_.samples[i] = c_.samples[2 * i];
    c_.samples.resize(c_.samples.size() / 2);
    sample_stride_ *= 2;
    c_.samples_thinned = true;
  }
  void AddPoint(const Point& point) {
    open_ = pending_ == 0 ? point : Merged(open_, pending_, point);
    if (++pending_ < c_.steps_a_point) return;
    pending_ = 0;
    c_.points.push_back(open_);
    if (c_.points.size() < kMostPoints) return;
    for (size_t i = 0; 2 * i + 1 < c_.points.size(); ++i) {
      c_.points[i] = Merged(c_.points[2 * i], 1, c_.points[2 * i + 1]);
    }
    c_.points.resize(c_.points.size() / 2);
    c_.steps_a_point *= 2;
  }
  // `x` stands for `count` steps as long as `y` does for one.
  static Point Merged(const Point& x, int64_t count, const Point& y) {
    return {x.step,
            RunningMean(x.loss_a, count, y.loss_a),
            RunningMean(x.loss_b, count, y.loss_b),
            RunningMean(x.norm_a, count, y.norm_a),
            RunningMean(x.norm_b, count, y.norm_b),
            std::isnan(y.scale_a) ? x.scale_a : y.scale_a,
            std::isnan(y.scale_b) ? x.scale_b : y.scale_b};
  }

  Course& c_;  // borrowed
  Times times_a_, times_b_;
  Point open_{};
  int64_t pending_ = 0;
  uint64_t sampled_ = 0, sample_stride_ = 1;
};

}  // namespace

std::optional<ScaleApart> FindScaleApart(const Course& course) {
  if (course.points.empty() || course.a.first_step != course.b.first_step) return std::nullopt;
  const Point& first = course.points.front();
  if (first.step != course.a.first_step) return std::nullopt;
  if (!(first.loss_a > 0) || !(first.loss_b > 0)) return std::nullopt;
  const double larger = std::max(first.loss_a, first.loss_b);
  if (larger < kScalesApart * std::min(first.loss_a, first.loss_b)) return std::nullopt;
  return ScaleApart{first.step, first.loss_a, first.loss_b};
}

bool OnlyAEndsNotFinite(const Course& course) {
  return course.a.loss_last && !std::isfinite(*course.a.loss_last) && course.b.loss_last &&
         std::isfinite(*course.b.loss_last);
}

Result<Course> ReadCourse(const runs::Source& a, const runs::Source& b,
                          const runs::StepRange& range) {
  Course course;
  StepStream left(a, range), right(b, range);
  summary::StepFold fold_a(course.a), fold_b(course.b);
  Pairing pairing(course);
  while (true) {
    MPN_TRY_ASSIGN(auto row_a, left.Peek());
    MPN_TRY_ASSIGN(auto row_b, right.Peek());
    if (!row_a && !row_b) break;
    const bool take_a = row_a && (!row_b || row_a->step <= row_b->step);
    const bool take_b = row_b && (!row_a || row_b->step <= row_a->step);
    if (take_a && take_b) pairing.Add(*row_a, *row_b);
    if (take_a) {
      fold_a.Add(*row_a);
      left.Pop();
    }
    if (take_b) {
      fold_b.Add(*row_b);
      right.Pop();
    }
  }
  fold_a.Finish();
  fold_b.Finish();
  pairing.Finish();
  MPN_TRY(summary::FinishSummary(a, course.a));
  MPN_TRY(summary::FinishSummary(b, course.b));
  return course;
}

}  // namespace mpnanny::comparison
