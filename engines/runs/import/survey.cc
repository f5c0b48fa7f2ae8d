#include "engines/runs/import/survey.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMostNames = 400;       // of one kind; a log of more prints no steps under them
constexpr size_t kMostSegments = 5'000;  // more breaks than that are those of an odd counter
constexpr int64_t kRecurs = 3;
constexpr double kOfBeginning = 3, kOfEnd = 5;  // losses that are a level
constexpr int64_t kFewLosses = 3;
constexpr double kFell = 0.1;  // of its beginning: a loss that fell
constexpr double kRanksRepeat = 0.3;
constexpr double kRanksNear = 2;  // strides
constexpr char kNumbered = '#';
constexpr int64_t kPerEvaluation = 3;
constexpr size_t kMostTotals = 4;  // of a counter whose total tells training and evaluations apart
constexpr int64_t kComesBack = 2;  // a total, after another
constexpr size_t kMostBars = 1'000;
constexpr int64_t kBareScale = 10;  // of so many losses one has the figure beside it

// Records of one name with and without a step beside it are of two shapes.
std::string FamilyOf(const Figures& figures) {
  const bool numbered = IsCount(figures.step) && !figures.of_bar;
  return figures.loss_key + (numbered ? kNumbered : ' ');
}

template <typename Keys>
void CountKey(Keys& keys, const std::string& key, int rank, int64_t record, int64_t moment) {
  if (key.empty()) return;
  auto it = keys.find(key);
  if (it == keys.end()) {
    if (keys.size() >= kMostNames) return;
    it = keys.emplace(key, typename Keys::mapped_type{0, rank, record, -1}).first;
  }
  if (it->second.moment == moment) return;
  it->second.moment = moment;
  ++it->second.count;
}

// The name that stands most often and well: one that recurs before one that does not, a better
// named before others, then by number.
template <typename Keys>
std::string BestOf(const Keys& keys) {
  const auto best = std::max_element(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    const auto order = [](const auto& k) {
      return std::tuple(k.count >= kRecurs, k.rank, k.count, -k.first);
    };
    return order(a.second) < order(b.second);
  });
  return best == keys.end() ? "" : best->first;
}

}  // namespace

void Survey::Add(const Figures& figures) {
  const int64_t record = records_++;
  if (figures.step || figures.loss) ++moment_;
  if (figures.epoch && !figures.step && !figures.Any() && !figures.eval_loss) {
    said_epoch_ = figures.epoch;
  }
  if (figures.eval_loss) ++evaluations_;
  has_losses_ = has_losses_ || figures.loss || figures.eval_loss;
  if (figures.step) CountKey(steps_, figures.step_key, 0, record, moment_);
  if (figures.grad_norm) {
    CountKey(norms_, figures.norm_key, figures.norm_rank, record, moment_);
  }
  // A printed model has many a "scale": a name that says whose it is stands before it.
  const int whose = figures.scale_key == "scale" ? 0 : 1;
  if (figures.scale) CountKey(scales_, figures.scale_key, whose, record, moment_);
  if (figures.lr) CountKey(rates_, figures.lr_key, 0, record, moment_);
  AddBare(figures);
  if (!figures.loss || figures.loss_key.empty()) return;
  const std::string name = FamilyOf(figures);
  auto it = families_.find(name);
  if (it == families_.end()) {
    if (families_.size() >= kMostNames) return;
    it = families_.emplace(name, Family{{0, figures.loss_rank, record, 0}, {}, 0}).first;
  }
  ++it->second.key.count;
  Follow(it->second, figures);
  AddTotal(name, figures);
}

void Survey::AddTotal(const std::string& name, const Figures& figures) {
  if (!figures.step_total) return;
  Totals& totals = totals_[name];
  const double total = *figures.step_total;
  auto it = totals.families.find(total);
  if (it == totals.families.end()) {
    if (totals.families.size() > kMostTotals) return;
    if (totals.families.empty()) totals.first = total;
    it = totals.families.emplace(total, Family{{0, figures.loss_rank, records_ - 1, 0}, {}, 0})
             .first;
  } else if (totals.last != total) {
    ++totals.returns;
  }
  totals.last = total;
  ++it->second.key.count;
  Follow(it->second, figures);
}

void Survey::AddBare(const Figures& figures) {
  if (!figures.of_bar || figures.Any() || !figures.step || !figures.step_total) return;
  const double total = *figures.step_total;
  if (bare_.size() >= kMostBars && !bare_.contains(total)) return;
  Bare& bare = bare_[total];
  const bool after_another = last_bare_ && *last_bare_ != total;
  if (after_another && bare.done > 0 && bare.done < total && *figures.step >= bare.done) {
    ++bare.goes_on;
  }
  bare.done = *figures.step;
  last_bare_ = total;
}

// The training is what comes first, and has the longer counter.
bool Survey::IsOfEvaluation(const Figures& figures) const {
  return course_total_ && figures.loss && figures.step_total &&
         *figures.step_total != *course_total_ && FamilyOf(figures) == course_;
}

void Survey::Follow(Family& family, const Figures& figures) {
  const auto step = IsCount(figures.step) ? figures.step : std::nullopt;
  const auto epoch = figures.epoch;
  Segment* last = family.segments.empty() ? nullptr : &family.segments.back();
  bool begins = last == nullptr, repeats = false;
  if (last) {
    // A line of its own says that an epoch begins; that one went back it does not say.
    const bool said = !epoch && said_epoch_ && last->said_epoch && *said_epoch_ > *last->said_epoch;
    const bool later = said || (epoch && last->last_epoch && *epoch > *last->last_epoch);
    const bool earlier = epoch && last->last_epoch && *epoch < *last->last_epoch;
    const bool back = step && last->last_step && *step < *last->last_step;
    // A bar is drawn several times at one step, and what is printed in thousands stands for
    // several.
    const bool again = !figures.of_bar && figures.step_unit == 1 && !later && !earlier && step &&
                       last->last_step && *step == *last->last_step;
    if (again) ++family.repeats;
    // Of one epoch: printed twice.
    repeats = again && !epoch;
    begins = earlier || (back && !later) || repeats;
    if (begins && family.segments.size() >= kMostSegments) begins = false;
  }
  if (begins) {
    Segment segment;
    segment.record = records_ - 1;
    segment.first_step = step;
    segment.first_epoch = epoch;
    segment.repeats = repeats;
    if (last) segment.stride = last->stride;
    family.segments.push_back(segment);
    last = &family.segments.back();
  }
  if (step && last->last_step && *step > *last->last_step) last->stride = *step - *last->last_step;
  if (step) last->last_step = step;
  if (epoch) last->last_epoch = epoch;
  last->said_epoch = said_epoch_;
  if (!std::isfinite(*figures.loss)) return;
  ++last->losses;
  const auto n = static_cast<double>(last->losses);
  if (n <= kOfBeginning) last->begins += (*figures.loss - last->begins) / n;
  last->ends += (*figures.loss - last->ends) / std::min(n, kOfEnd);
}

// What the break between two segments is. `run` is the first segment of the run so far; `even`:
// all segments are equally long, as epochs are.
Turn Survey::TurnAt(const Segment& run, const Segment& before, const Segment& next,
                    bool even) const {
  const bool epochs = next.first_epoch && before.last_epoch && run.first_epoch;
  const bool to_first_step =
      !next.first_step || !run.first_step || *next.first_step <= *run.first_step + before.stride;
  if (next.repeats) return Turn::kBack;
  if (epochs) {
    const bool to_start = *next.first_epoch <= *run.first_epoch && to_first_step;
    return to_start && before.losses >= kFewLosses ? Turn::kRun : Turn::kBack;
  }
  if (!to_first_step || before.losses < kFewLosses) return Turn::kBack;
  // Without epochs the loss tells: it goes on where it stood, or stands where a run begins.
  const double fell = before.begins - before.ends;
  if (fell > kFell * std::fabs(before.begins)) {
    return next.begins > before.ends + fell / 2 ? Turn::kRun : Turn::kOn;
  }
  return even ? Turn::kOn : Turn::kRun;
}

void Survey::FindTurns(const Family& course) {
  const std::vector<Segment>& segments = course.segments;
  if (segments.size() < 2 || segments.size() >= kMostSegments) return;
  const bool ranks =
      static_cast<double>(course.repeats) > kRanksRepeat * static_cast<double>(course.key.count);
  bool even = segments.size() > 2;
  for (size_t i = 0; i + 2 < segments.size(); ++i) {
    even = even && segments[i].last_step == segments[i + 1].last_step;
  }
  size_t run = 0, before = 0;
  int64_t runs = 0, epochs = 0;
  for (size_t i = 1; i < segments.size(); ++i) {
    const Segment& next = segments[i];
    const Segment& last = segments[i - 1];
    const bool near = next.first_step && last.last_step &&
                      *last.last_step - *next.first_step <= kRanksNear * last.stride;
    const bool same_epoch = !next.first_epoch || next.first_epoch == last.last_epoch;
    if (ranks && near && same_epoch) continue;
    const Turn turn = TurnAt(segments[run], segments[before], next, even);
    turns_[next.record] = turn;
    before = i;
    if (turn == Turn::kRun) run = i;
    runs += turn == Turn::kRun;
    epochs += turn == Turn::kOn;
  }
  if (!even) return;
  // What is equally long is all the same: epochs, or runs.
  for (auto& [record, turn] : turns_) {
    if (turn == Turn::kRun || turn == Turn::kOn) turn = runs > epochs ? Turn::kRun : Turn::kOn;
  }
}

void Survey::Settle() {
  // The most records are the steps; of equal ones the better named, then those that say their step.
  const Family* course = nullptr;
  for (const auto& [name, family] : families_) {
    const auto order = [](const std::string& n, const Family& f) {
      return std::tuple(f.key.count, f.key.rank, n.back() == kNumbered, -f.key.first);
    };
    if (course && order(name, family) <= order(course_, *course)) continue;
    course = &family;
    course_ = name;
  }
  norm_ = BestOf(norms_);
  scale_ = BestOf(scales_);
  rate_ = BestOf(rates_);
  for (const auto& [total, bare] : bare_) {
    if (bare.goes_on > 0 && (!outer_bar_ || bare.goes_on > bare_[*outer_bar_].goes_on)) {
      outer_bar_ = total;
    }
  }
  if (!course) return;
  // Losses without a step that are fewer than the evaluations are those of whole runs.
  if (course_.back() != kNumbered && course->key.count * kPerEvaluation < evaluations_) {
    course_ = kNoCourse;
    return;
  }
  if (const auto it = totals_.find(course_); it != totals_.end()) {
    const Totals& totals = it->second;
    const bool longest = totals.families.rbegin()->first == totals.first;
    if (totals.returns >= kComesBack && totals.families.size() <= kMostTotals && longest) {
      course_total_ = totals.first;
      course = &totals.families.at(totals.first);
    }
  }
  course_losses_ = course->key.count;
  course_from_ = course->key.first;
  FindTurns(*course);
}

bool Survey::Recurs(const Keys& keys, const std::string& key) const {
  const auto it = keys.find(key);
  const int64_t count = it == keys.end() ? 0 : it->second.count;
  if (key == "scale" && count * kBareScale < course_losses_) return false;
  const int64_t most = std::max(course_losses_, evaluations_);
  return count >= std::min(kRecurs, std::max<int64_t>(1, most / 2));
}

void Survey::Judge(Figures& figures) {
  const int64_t record = judged_++;
  const auto turn = turns_.find(record);
  figures.turn = turn == turns_.end() ? Turn::kOn : turn->second;
  figures.of_scores = figures.of_scores || (figures.has_score && !has_losses_);
  if (IsOfEvaluation(figures)) {
    figures.eval_loss = figures.loss;
    figures.eval_name = "loss";
    for (auto* of_training : {&figures.loss, &figures.bad_part, &figures.step, &figures.lr,
                              &figures.scale, &figures.grad_norm}) {
      of_training->reset();
    }
    return;
  }
  // A bar within the training's counts something else.
  if (outer_bar_ && figures.of_bar && !figures.Any() && figures.step_total &&
      *figures.step_total != *outer_bar_) {
    figures.step.reset();
  }
  const auto other = [](const std::string& key, const std::string& chosen) {
    return !key.empty() && key != chosen;
  };
  const bool of_course = figures.loss && FamilyOf(figures) == course_;
  if (figures.loss && !figures.loss_key.empty() && !of_course) {
    // A loss that is not finite counts, whatever its record: but "inf" stands for none yet as well.
    const auto it = families_.find(FamilyOf(figures));
    const bool recurs = it != families_.end() && it->second.key.count >= kRecurs;
    if (std::isfinite(*figures.loss) || (std::isinf(*figures.loss) && !recurs)) {
      ++left_out_[figures.loss_key];
      figures.other_shape = recurs;
      figures.loss.reset();
      figures.bad_part.reset();
    }
  }
  if (other(figures.norm_key, norm_) || !(figures.norm_key.empty() || Recurs(norms_, norm_))) {
    figures.grad_norm.reset();
  }
  if (other(figures.scale_key, scale_) || !(figures.scale_key.empty() || Recurs(scales_, scale_))) {
    figures.scale.reset();
  }
  if (other(figures.lr_key, rate_) || !(figures.lr_key.empty() || Recurs(rates_, rate_))) {
    figures.lr.reset();
  }
  // Settings beside evaluations alone are no steps.
  if (course_ == kNoCourse) {
    figures.scale.reset();
    figures.lr.reset();
  }
  if (!of_course && !figures.step_key.empty() && !Recurs(steps_, figures.step_key)) {
    figures.step.reset();
  }
  // What stands before the first step, and no step beside it, is how the run is set.
  step_said_ = step_said_ || (IsCount(figures.step) && !figures.of_bar);
  if (record < course_from_ && !step_said_ && !figures.skipping) {
    figures.lr.reset();
    figures.scale.reset();
    if (figures.grad_norm && std::isfinite(*figures.grad_norm)) figures.grad_norm.reset();
  }
}

void Survey::AddNotes(std::vector<std::string>& notes) const {
  std::vector<std::string> names;
  int64_t lines = 0;
  for (const auto& [name, count] : left_out_) {
    lines += count;
    if (names.size() < 3) names.push_back("\"" + EscapeControl(name, 60) + "\"");
  }
  if (lines == 0) return;
  if (course_losses_ == 0) {
    notes.push_back(runs::Count(lines, "record") + " with a loss (" + Join(names, ", ") +
                    ") are fewer than the evaluations and say no step: they are means of whole "
                    "runs, and no steps.");
    return;
  }
  notes.push_back(
      "The course of the loss is \"" + EscapeControl(course_.substr(0, course_.size() - 1), 60) +
      "\", " + runs::Count(course_losses_, "record") + " of one shape; " +
      runs::Count(lines, "record") + " of other shapes, with names that hold \"loss\" (" +
      Join(names, ", ") + (left_out_.size() > names.size() ? " and others" : "") +
      (lines == 1 ? "), is no step of it." : "), are no steps of it."));
}

}  // namespace mpnanny::imports
