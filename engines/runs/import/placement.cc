#include "engines/runs/import/placement.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

// Ranks that print at once are at most so many lines apart.
constexpr int64_t kRanksApart = 2;
constexpr size_t kMostHeld =
    10'000;  // lines without a step; no trainer writes more between two bars

}  // namespace

void Placement::Add(const Figures& figures) {
  if (figures.behind_bar) {
    Figures bar, rest = figures;
    bar.step = figures.step;
    bar.of_bar = true;
    rest.step.reset();
    rest.of_bar = rest.behind_bar = false;
    Add(bar);
    Add(rest);
    return;
  }
  players_.Add(figures.players);
  if (!IsCount(figures.step) && (figures.Any() || figures.eval_loss)) {
    if (held_.size() == kMostHeld) Release(nullptr);
    held_.push_back(figures);
    return;
  }
  // A score between records whose steps are not known yet waits with them.
  if (!figures.step && figures.other_shape && !held_.empty() && held_.size() < kMostHeld) {
    held_.push_back(figures);
    return;
  }
  if (!figures.step && !figures.Any() && !figures.other_shape) {  // prose decides nothing
    if (figures.epoch) epoch_ = figures.epoch;
    return;
  }
  Release(&figures);
  Record(figures);
  if (IsCount(figures.step)) mark_ = static_cast<int64_t>(*figures.step);
}

void Placement::Finish() { Release(nullptr); }

// Between two bars of progress, 50 and 100, five lines with a loss are those of steps 60, 70 … 100
// (HF's Trainer logs every so many steps). Ten skipped steps between "step=10" and "step=20" are
// all of them. Where the steps
// cannot be shared out evenly, the lines are counted as if there were no bars.
void Placement::Release(const Figures* next) {
  std::vector<Figures> held;
  held.swap(held_);
  if (next) LeaveOutConfiguration(*next, held);
  if (held.empty()) return;
  const auto losses =
      std::count_if(held.begin(), held.end(), [](const Figures& f) { return f.loss.has_value(); });
  const auto skips =
      std::count_if(held.begin(), held.end(), [](const Figures& f) { return f.skipping; });
  const int64_t from = mark_.value_or(0);
  const bool began = mark_ || !recorder_.last_step();
  const bool counts_on = next && IsCount(next->step) && !next->of_process && began;
  const int64_t passed = counts_on ? static_cast<int64_t>(*next->step) - from : 0;
  int64_t every = 0;
  if (losses >= 2 && skips == 0 && passed > losses && passed % losses == 0 && next->of_bar &&
      !next->Any()) {
    every = every_ = passed / losses;
  } else if (losses == 0 && skips > 0 && skips == passed) {
    every = 1;
  } else if (!next && losses > 0 && skips == 0) {
    every = every_;
  }
  int64_t step = from;
  if (const int64_t apart = every == 0 ? EveryByEpochs(held) : 0; apart > 0) {
    every = apart;
    step = recorder_.last_step().value_or(0);
  }
  for (const Figures& figures : held) {
    if (every > 0 && (figures.loss || figures.skipping)) assigned_ = step += every;
    Record(figures);
  }
  assigned_.reset();
}

// Output that was held back comes all at once: five records of which each is a quarter of an epoch
// after the one before, behind the bar of step 50, are those of steps 10 to 50. 0 if it is not so.
int64_t Placement::EveryByEpochs(const std::vector<Figures>& held) const {
  std::vector<double> epochs;
  for (const Figures& figures : held) {
    if (figures.skipping) return 0;
    if (!figures.loss) continue;
    if (!figures.epoch) return 0;
    epochs.push_back(*figures.epoch);
  }
  const auto n = static_cast<int64_t>(epochs.size());
  const int64_t passed = mark_.value_or(0) - recorder_.last_step().value_or(0);
  if (n < 2 || passed < n || passed % n != 0) return 0;
  // Epochs are printed with two decimals.
  constexpr double kRounded = 0.011;
  const double apart = (epochs.back() - epochs.front()) / static_cast<double>(n - 1);
  for (size_t i = 1; i < epochs.size(); ++i) {
    const double since = epochs[i] - epochs[i - 1];
    if (since <= 0 || std::fabs(since - apart) > kRounded) return 0;
  }
  return passed / n;
}

// Before the first line that says its step and has figures stands what the program was started
// with: its arguments, the model as it prints itself. "loss_weights: [0.1, 10]" is no loss.
void Placement::LeaveOutConfiguration(const Figures& next, std::vector<Figures>& held) {
  const bool is_first = !mark_ && !recorder_.last_step();
  if (!is_first || !IsCount(next.step) || !next.Any() || next.of_bar) return;
  before_first_ += static_cast<int64_t>(std::erase_if(held, [](const Figures& figures) {
    // "val loss nan" before the first step is an evaluation; "min_val_loss: inf" a setting.
    const bool evaluated = figures.eval_loss && !std::isinf(*figures.eval_loss) &&
                           std::floor(*figures.eval_loss) != *figures.eval_loss;
    return !figures.skipping && !evaluated;
  }));
}

void Placement::Record(const Figures& figures) {
  if (figures.epoch) epoch_ = figures.epoch;
  const int64_t evaluated = figures.eval_loss ? AddEvaluation(figures) : 0;
  if (!figures.Any()) {
    if (figures.eval_loss) {
      PutNamed(evaluated, figures);
    } else if (IsCount(figures.step)) {
      announced_ = static_cast<int64_t>(*figures.step);
      any_step_ = true;
      // An evaluation that counts by itself ("step": 0) stands where the training is.
      PutNamed(std::max(*announced_ + offset_, recorder_.last_step().value_or(INT64_MIN)), figures);
    } else if (figures.other_shape && recorder_.last_step()) {
      PutNamed(*recorder_.last_step(), figures);
    }
    return;
  }
  if (IsSum(figures)) {
    ++sums_;
    return;
  }
  const std::optional<int64_t> before = recorder_.last_step();
  const int64_t step = Place(figures);
  StepFigures row;
  row.at = figures.at;
  row.loss = figures.loss;
  row.bad_part = figures.bad_part;
  row.grad_norm = figures.grad_norm;
  row.scale = figures.scale;
  row.lr = figures.lr;
  row.skipped = figures.skipping;
  row.line = figures.line;
  // A bar beside the line says it as well.
  row.says_its_step = assigned_ || announced_ == step || mark_ == step ||
                      (figures.step && *figures.step == static_cast<double>(step));
  if (figures.skipped_count) AddIterations(figures, step, row);
  if (step != before && !row.scale) row.scale = scale_after_;
  if (step != before || figures.scale) scale_after_ = figures.scale_after;
  LeaveToBetter(figures, step, row);
  recorder_.Put(step, row);
  PutNamed(step, figures);
}

// "critic-step 2: {'train/critic-loss': …}" after "step 2: {'train/loss': …}" tells a part of what
// that line tells whole.
void Placement::LeaveToBetter(const Figures& figures, int64_t step, StepFigures& row) {
  const bool same = ranked_step_ == step && IsCount(figures.step);
  if (!same) loss_rank_ = norm_rank_ = INT_MIN;
  ranked_step_ = step;
  if (row.loss && figures.loss_rank < loss_rank_) {
    if (!std::isfinite(*row.loss)) row.bad_part = row.loss;
    row.loss.reset();
  } else if (row.loss) {
    loss_rank_ = figures.loss_rank;
  }
  if (row.grad_norm && figures.norm_rank < norm_rank_) {
    if (std::isfinite(*row.grad_norm)) row.grad_norm.reset();
  } else if (row.grad_norm) {
    norm_rank_ = figures.norm_rank;
  }
}

void Placement::PutNamed(int64_t step, const Figures& figures) {
  for (const NamedValue& named : figures.named) {
    recorder_.figures().Put(step, named, figures.line);
  }
}

// At which step it is.
int64_t Placement::AddEvaluation(const Figures& figures) {
  const double loss = *figures.eval_loss;
  // A bar of progress repeats the last evaluation's loss beside every step's, some loops in every
  // line.
  const bool repeated =
      figures.loss && eval_loss_ &&
      (loss == *eval_loss_ || (figures.of_bar && std::isnan(loss) && std::isnan(*eval_loss_)));
  eval_loss_ = loss;
  const int64_t last = recorder_.last_step().value_or(announced_.value_or(0));
  const int64_t step = IsCount(figures.step) ? static_cast<int64_t>(*figures.step) + offset_ : last;
  if (!repeated) recorder_.PutEvaluation(step, figures.eval_name, loss);
  return step;
}

// Where lines say their steps, one that says none gives the mean of an epoch, or another rank's
// figure. (A loss that is not finite ends many a log without a number: it counts.)
bool Placement::IsSum(const Figures& figures) const {
  if (IsCount(figures.step) || !last_loss_ || !figures.loss || !std::isfinite(*figures.loss) ||
      figures.bad_part || figures.skipping) {
    return false;
  }
  const bool announced = announced_ && *announced_ + offset_ > recorder_.last_step().value_or(0);
  return !announced && recorder_.last().loss.has_value();
}

// A line that stands for several steps is a skipped one if all of them were. One that has no loss
// although not all were skipped had one that was no positive number: Megatron prints no other.
void Placement::AddIterations(const Figures& figures, int64_t step, StepFigures& row) {
  const int64_t since = last_counted_.value_or(0);
  const auto stands_for = static_cast<double>(step > since ? step - since : 1);
  last_counted_ = step;
  skipped_told_ += *figures.skipped_count;
  const bool all_skipped = *figures.skipped_count >= stands_for;
  row.skipped = row.skipped || all_skipped;
  if (!figures.loss && !all_skipped && last_loss_) {
    row.loss = std::numeric_limits<double>::quiet_NaN();
    ++losses_left_out_;
  }
}

int64_t Placement::Place(const Figures& figures) {
  if (assigned_) return *assigned_;
  if (IsCount(figures.step)) {
    any_step_ = true;
    if (figures.of_process) {
      return PlaceOfProcess(static_cast<int64_t>(*figures.step));
    }
    return PlaceStep(static_cast<int64_t>(*figures.step), figures);
  }
  if (!recorder_.last_step()) return announced_.value_or(0);
  const int64_t last_step = *recorder_.last_step();
  if (announced_ && *announced_ + offset_ > last_step) return *announced_ + offset_;
  const StepFigures& last = recorder_.last();
  // "step=5, lr=[…]" and then "loss: 1.5" are one step.
  const bool next =
      figures.of_scores || ((figures.loss || figures.skipping) && (last.loss || last.skipped));
  return last_step + (next ? 1 : 0);
}

// The step that comes next; several ranks tell of the same one.
int64_t Placement::PlaceOfProcess(int64_t count) {
  const std::optional<int64_t> last = recorder_.last_step();
  if (process_count_ == count && process_step_ == last) return *process_step_;
  process_count_ = count;
  process_step_ = std::max(count, last.value_or(count - 1) + 1);
  return *process_step_;
}

int64_t Placement::PlaceStep(int64_t step, const Figures& figures) {
  int64_t at = step + offset_;
  if (figures.turn == Turn::kBack && recorder_.last_step()) {
    recorder_.GoBack(at);
    last_loss_.reset();
  }
  if (!figures.loss && !figures.grad_norm && !figures.of_scores) return at;
  if (figures.step_unit > 1 && figures.loss && last_loss_) {
    rounded_ = true;
    const int64_t next = *last_loss_ + stride_;
    const auto unit = static_cast<int64_t>(figures.step_unit);
    at = std::abs(next - at) <= unit ? next : std::max(at, *last_loss_ + 1);
  }
  const bool other_epoch = epoch_ && loss_epoch_ && *epoch_ != *loss_epoch_;
  if (last_loss_ && recorder_.last_step() &&
      (at < *last_loss_ || (at == *last_loss_ && other_epoch))) {
    const bool to_the_beginning = at <= first_loss_.value_or(at) + stride_;
    const bool far = *last_loss_ - at > kRanksApart * stride_;
    if ((to_the_beginning && far) || other_epoch) {
      // A counter that begins anew with each epoch goes on where the last one ended.
      // Where each epoch has one line, that line's count is the epoch's length.
      const bool one_each = step > 0 && first_loss_ == last_loss_;
      offset_ = *recorder_.last_step() + (one_each ? step : stride_) - step;
      at = step + offset_;
      first_loss_ = at;
      restarted_ = true;
    } else if (far && figures.turn == Turn::kUnknown) {
      recorder_.GoBack(at);
      last_loss_.reset();
    }
  }
  if (figures.loss || figures.of_scores) {
    if (last_loss_ && at > *last_loss_) stride_ = at - *last_loss_;
    if (!first_loss_) first_loss_ = at;
    last_loss_ = std::max(at, last_loss_.value_or(at));
    loss_epoch_ = epoch_;
  }
  return at;
}

void Placement::AddNotes(std::vector<std::string>& notes) const {
  if (!recorder_.last_step()) return;
  if (!any_step_) {
    notes.push_back("No step number was read from its records: they were counted from 0.");
  }
  if (sums_ > 0) {
    notes.push_back(runs::Count(sums_, "line") +
                    " with a loss and without a step's number were left out: other lines say their "
                    "step, so these are no steps (means of an epoch, other ranks).");
  }
  if (before_first_ > 0) {
    notes.push_back(runs::Count(before_first_, "line") + " before the first that says its step " +
                    (before_first_ == 1 ? "was" : "were") +
                    " left out: what the program was "
                    "started with is no figure of a step.");
  }
  if (restarted_) {
    notes.push_back(
        "The log's step numbers begin anew: steps were counted on from the last one before, so "
        "step numbers here are not those printed.");
  }
  if (rounded_) {
    notes.push_back(
        "The log rounds its step numbers (\"12K\"): what stands between was counted on, so steps "
        "here are near those meant.");
  }
  if (losses_left_out_ > 0) {
    notes.push_back(runs::Count(losses_left_out_, "line") +
                    " without a loss are read as a loss that is not finite: Megatron leaves out "
                    "what is no positive number.");
  }
  if (skipped_told_ > 0) {
    notes.push_back("The log itself counts " + runs::Number(skipped_told_) +
                    " skipped iterations; only lines all of whose iterations were skipped are "
                    "marked as such.");
  }
}

}  // namespace mpnanny::imports
