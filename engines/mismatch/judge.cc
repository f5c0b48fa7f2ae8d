#include "engines/mismatch/judge.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engines/mismatch/groups.h"
#include "numerics/alert_bounds.h"
#include "numerics/tensor_view.h"

namespace mpnanny::mismatch {
namespace {

// What explains a difference leaves at most this part of it; a way of the head that has a number,
// which is tried in steps of 5 %, at most the second.
constexpr double kExplained = 0.3, kExplainedByNumber = 0.15;
// A contrast as large as this is none of rounding, however small both sides are.
constexpr double kContrastAlone = 30;
constexpr double kShareOfLoud = 0.8;

// Root of the mean square of a figure over the tokens of the calls that count.
double RootMean(std::span<const Call> calls, double LogprobMismatch::*figure,
                const std::function<bool(const Call&)>& counts) {
  double squares = 0, tokens = 0;
  for (const Call& call : calls) {
    if (!counts(call)) continue;
    const auto n = static_cast<double>(call.figures.tokens);
    squares += call.figures.*figure * call.figures.*figure * n;
    tokens += n;
  }
  return tokens > 0 ? std::sqrt(squares / tokens) : 0;
}

// Whether the quiet side agrees as well as two programs of 16 bits do, or is so much quieter that
// this does not matter.
bool QuietAgrees(const Contrast& contrast, double exposure) {
  return contrast.quiet <= kLogitError16 * std::max(exposure, 0.1) ||
         contrast.Ratio() >= kContrastAlone;
}

class Judging {
 public:
  explicit Judging(std::span<const Call> calls) : calls_(calls), groups_(calls) {}

  Judgement Run() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      const LogprobMismatch& figures = calls_[i].figures;
      if (figures.tokens > 0 && first_ == nullptr) first_ = &figures;
      if (figures.rms > calls_[judgement_.shown].figures.rms) judgement_.shown = i;
    }
    const bool bad = BadValues();
    if (first_ == nullptr && !bad) return judgement_;
    rms_ = RootMean(calls_, &LogprobMismatch::rms, [](const Call&) { return true; });
    if (!bad) {
      // A log shows no tokens.
      const bool of_log = !calls_.front().log_name.empty();
      const bool found = of_log ? OverTime() : OfTokens();
      if (!found) BySize();
    }
    judgement_.agreement = HowBad();
    return judgement_;
  }

 private:
  const LogprobMismatch& Shown() const { return calls_[judgement_.shown].figures; }

  bool Take(Shape shape, const Contrast& contrast, int64_t from = 0) {
    judgement_.finding.shape = shape;
    judgement_.finding.contrast = contrast;
    judgement_.finding.from = from;
    return true;
  }

  // What is certain first, then what concerns calls, then tokens.
  bool OfTokens() {
    return Head() || Shifted() || OverTime() || Experts() || Documents() || Padding() ||
           Decoding() || Position() || Truncated() || Temperature() || Rows() || Stored();
  }

  bool BadValues() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      const LogprobMismatch& figures = calls_[i].figures;
      if (figures.bad_trainer == 0 && figures.bad_rollout == 0) continue;
      judgement_.shown = i;
      judgement_.finding.shape = Shape::kNotFinite;
      judgement_.finding.of_trainer = figures.bad_trainer > 0;
      judgement_.finding.from = calls_[i].shown_step();
      judgement_.finding.value = static_cast<double>(figures.bad_trainer + figures.bad_rollout);
      return true;
    }
    return false;
  }

  bool Head() {
    const Call* tried = TriedHead(calls_);
    if (tried == nullptr) return false;
    const HeadWay* fp32 = nullptr;
    const HeadWay *of_rollout = nullptr, *of_trainer = nullptr;
    for (const HeadWay& way : tried->head) {
      if (way.name == "fp32") {
        fp32 = &way;
        continue;
      }
      if (of_rollout == nullptr || way.rollout_rest < of_rollout->rollout_rest) of_rollout = &way;
      if (of_trainer == nullptr || way.trainer_rest < of_trainer->trainer_rest) of_trainer = &way;
    }
    if (fp32 == nullptr || of_rollout == nullptr) return false;
    judgement_.head_tried = true;
    // Where one side is FP32's and the other comes out of another way, that way is the difference.
    if (Explains(*fp32, *of_rollout, false) || Explains(*fp32, *of_trainer, true)) return true;
    // The engine has the trainer's states and head, and the trainer does something else to them.
    if (fp32->trainer_rest > kRms32 &&
        fp32->rollout_rest <= kExplainedByNumber * fp32->trainer_rest) {
      Finding& finding = judgement_.finding;
      finding.shape = Shape::kHead;
      finding.of_trainer = true;
      finding.before = fp32->trainer_rest;
      finding.after = fp32->rollout_rest;
      return true;
    }
    judgement_.head_excluded = fp32->rollout_rest > kRms32;
    judgement_.head_rest = of_rollout->rollout_rest;
    return false;
  }

  bool Explains(const HeadWay& fp32, const HeadWay& way, bool of_trainer) {
    const double before = of_trainer ? fp32.trainer_rest : fp32.rollout_rest;
    const double after = of_trainer ? way.trainer_rest : way.rollout_rest;
    const double other = of_trainer ? fp32.rollout_rest : fp32.trainer_rest;
    const double most = way.value != 0 ? kExplainedByNumber : kExplained;
    if (before < kRms32 / 10 || after > most * before || other > most * before) return false;
    Finding& finding = judgement_.finding;
    finding.shape = way.name == "temperature"                    ? Shape::kTemperature
                    : way.name == "top_k" || way.name == "top_p" ? Shape::kTruncated
                                                                 : Shape::kHead;
    finding.way = way.name;
    finding.value = way.value;
    finding.of_trainer = of_trainer;
    finding.before = before;
    finding.after = after;
    return true;
  }

  bool Shifted() {
    for (const auto& [rest, by] : {std::pair(&LogprobMismatch::rms_before, int64_t{-1}),
                                   std::pair(&LogprobMismatch::rms_after, int64_t{1})}) {
      int64_t nearer = 0, known = 0;
      double after = 0;
      for (const Call& call : calls_) {
        const double shifted = call.figures.*rest;
        if (!std::isfinite(shifted) || !(call.figures.rms > 0.05)) continue;
        ++known;
        nearer += shifted < kExplained * call.figures.rms;
        after = std::max(after, shifted);
      }
      if (nearer == 0 || 3 * nearer < 2 * known) continue;
      Take(Shape::kShifted, {}, by);
      judgement_.finding.before = rms_;
      judgement_.finding.after = after;
      return true;
    }
    return false;
  }

  // Agreed at first, and does not later.
  bool OverTime() {
    if (calls_.size() < 3) return false;
    const double at_first = first_->rms, largest = Shown().rms;
    const bool agreed = first_->LogitError() <= kLogitError16 || first_->rms <= kRms32;
    const bool grew =
        Shown().LogitError() >= kContrastInTime * std::max(first_->LogitError(), 1e-7) &&
        (at_first <= kRms32 ? largest > 5 * kRms32 : Shown().LogitError() > kLogitError16);
    const auto is_first = [&](const Call& call) { return &call.figures == first_; };
    const auto copied = [&](const Call& call) { return call.synced == true || is_first(call); };
    const bool says = std::any_of(calls_.begin(), calls_.end(),
                                  [](const Call& call) { return call.synced == false; });
    if (says) {
      const Contrast contrast = InTime(copied);
      if (contrast.Ratio() >= kContrastInTime / 2 && contrast.loud > 5 * kRms32 &&
          QuietAgrees(contrast, Shown().exposure)) {
        judgement_.finding.copied = true;
        return Take(Shape::kStale, contrast, FirstLoud(contrast));
      }
    }
    if (!agreed || !grew) return false;
    const bool always = !says && std::all_of(calls_.begin(), calls_.end(), [&](const Call& call) {
      return call.synced == true || is_first(call);
    });
    const Contrast contrast = InTime([&](const Call& call) {
      return call.figures.rms <= std::sqrt(std::max(at_first, 1e-7) * largest);
    });
    if (!always && says) judgement_.finding.copied = true;
    // Two sides that agreed to the last digits have the same code and formats: what the program
    // calls a copy is none, or comes late.
    judgement_.finding.claimed = always && at_first <= kRms32;
    const bool grows = always && !judgement_.finding.claimed;
    return Take(grows ? Shape::kGrows : Shape::kStale, contrast, FirstLoud(contrast));
  }

  Contrast InTime(const std::function<bool(const Call&)>& quiet) const {
    Contrast contrast;
    const auto loud = [&](const Call& call) { return !quiet(call); };
    contrast.quiet = RootMean(calls_, &LogprobMismatch::rms, quiet);
    contrast.loud = RootMean(calls_, &LogprobMismatch::rms, loud);
    contrast.quiet_exposure = RootMean(calls_, &LogprobMismatch::exposure, quiet);
    contrast.loud_exposure = RootMean(calls_, &LogprobMismatch::exposure, loud);
    for (const Call& call : calls_) {
      (quiet(call) ? contrast.quiet_tokens : contrast.loud_tokens) += call.figures.tokens;
    }
    return contrast;
  }

  int64_t FirstLoud(const Contrast& contrast) const {
    const double between = std::sqrt(std::max(contrast.quiet, 1e-7) * contrast.loud);
    for (const Call& call : calls_) {
      if (call.figures.rms > between) return call.shown_step();
    }
    return calls_.back().shown_step();
  }

  // Of the token itself or of the one before it, as the program lays them out.
  bool Experts() {
    const auto other = [](int64_t from) { return from == 1; };
    auto contrast = groups_.Between(MismatchBy::kExperts, other, 4);
    const auto before = groups_.Between(MismatchBy::kExpertsBefore, other, 4);
    if (before && (!contrast || before->Ratio() > contrast->Ratio())) contrast = before;
    if (!contrast || contrast->Ratio() < kContrast || contrast->Share() < kShareOfLoud ||
        contrast->loud <= kRms32) {
      return false;
    }
    Take(Shape::kRouting, *contrast);
    judgement_.finding.value = static_cast<double>(contrast->loud_tokens) /
                               static_cast<double>(contrast->loud_tokens + contrast->quiet_tokens);
    return true;
  }

  bool IsLoud(const Contrast& contrast, double ratio) const {
    return contrast.Ratio() >= ratio && contrast.loud > kRms32 &&
           QuietAgrees(contrast, Shown().exposure);
  }

  bool Documents() {
    const auto contrast =
        groups_.Between(MismatchBy::kDocument, [](int64_t from) { return from > 0; });
    if (!contrast || !IsLoud(*contrast, kContrast)) return false;
    return Take(Shape::kDocuments, *contrast, 1);
  }

  bool Padding() {
    const auto split = groups_.BestSplit(MismatchBy::kPadding);
    if (!split || !IsLoud(split->contrast, kContrast)) return false;
    return Take(Shape::kPadding, split->contrast, split->from);
  }

  // The first token of an answer comes out of the pass over the prompt, the others out of the
  // cache.
  bool Decoding() {
    const auto contrast =
        groups_.Between(MismatchBy::kAnswer, [](int64_t from) { return from > 0; });
    if (!contrast || !IsLoud(*contrast, kContrast)) return false;
    // Where the second token is not as loud as the others yet it begins later, or grows.
    const auto& groups = groups_.By(MismatchBy::kAnswer);
    if (groups.size() < 2 || groups[1].LogitError() < kExplained * contrast->loud /
                                                          std::max(contrast->loud_exposure, 1e-3))
      return false;
    return Take(Shape::kDecoding, *contrast, 1);
  }

  bool Position() {
    for (const MismatchBy by : {MismatchBy::kPosition, MismatchBy::kAnswer}) {
      const auto split = groups_.BestSplit(by);
      if (!split || !IsLoud(split->contrast, kContrast)) continue;
      if (groups_.Trend(by) < 0.5 && split->contrast.Ratio() < kContrastAlone) continue;
      return Take(Shape::kPosition, split->contrast, split->from);
    }
    return false;
  }

  // Out of the log-probabilities alone. Where the head was tried and no temperature of it fits
  // better, it is another way of being less sure (a soft cap, another scale of the logits).
  bool Temperature() {
    if (judgement_.head_excluded) return false;
    int64_t explained = 0, known = 0;
    double sum = 0, before = 0, after = 0;
    for (const Call& call : calls_) {
      const LogprobMismatch& figures = call.figures;
      if (!std::isfinite(figures.temperature_rest) || figures.rms <= 0.02) continue;
      ++known;
      if (figures.temperature_rest > 2 * kExplained * figures.rms ||
          std::fabs(std::log(figures.temperature)) < 0.04) {
        continue;
      }
      ++explained;
      sum += std::log(figures.temperature);
      before = std::max(before, figures.rms);
      after = std::max(after, figures.temperature_rest);
    }
    if (explained == 0 || 3 * explained < 2 * known) return false;
    Take(Shape::kTemperature, {});
    judgement_.finding.value = std::exp(sum / static_cast<double>(explained));
    judgement_.finding.before = before;
    judgement_.finding.after = after;
    return true;
  }

  // The engine's probabilities are never smaller than the trainer's.
  bool Truncated() {
    double unequal = 0, against = 0;
    for (const Call& call : calls_) {
      const LogprobMismatch& figures = call.figures;
      const double n = static_cast<double>(figures.tokens) * (1 - figures.equal);
      unequal += n;
      against += n * figures.positive;
    }
    const bool one_sided = unequal >= 32 && against <= 0.02 * unequal && rms_ > 0.01;
    if (!one_sided) return false;
    Take(Shape::kTruncated, {});
    judgement_.finding.value = std::exp(first_->mean);
    return true;
  }

  bool Rows() {
    const LogprobMismatch& figures = Shown();
    // Rows that agree must do so clearly: how large the error is varies from row to row anyway.
    const bool apart = figures.rows >= 4 && figures.row_least <= kLogitError16 / 4 &&
                       figures.row_largest >= kContrastAlone * std::max(figures.row_least, 1e-7) &&
                       figures.LogitError() > kLogitError16;
    if (!apart) return false;
    return Take(Shape::kRows, {figures.row_least, figures.row_largest, 0, 0});
  }

  bool Stored() {
    const int64_t trainer = Shown().trainer_grid, rollout = Shown().rollout_grid;
    if ((trainer == 0) == (rollout == 0)) return false;
    const DType dtype = static_cast<DType>(trainer != 0 ? trainer : rollout);
    // Half a spacing of numbers as large as the mean; √3 for errors that are spread evenly.
    const double spacing = dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
    const double expected = 2 * spacing * std::fabs(Shown().rollout) / std::sqrt(3.0);
    if (rms_ > 3 * expected) return false;
    Take(Shape::kStored, {});
    judgement_.finding.of_trainer = trainer != 0;
    judgement_.finding.way = dtype == DType::kBFloat16 ? "bf16" : "fp16";
    return true;
  }

  void BySize() {
    double largest = 0;
    for (const Call& call : calls_) largest = std::max(largest, call.figures.LogitError());
    Take(rms_ <= kRmsSame           ? Shape::kNone
         : largest <= kLogitError16 ? Shape::kRareTokens
                                    : Shape::kOffset,
         {});
  }

  Agreement HowBad() const {
    const Shape shape = judgement_.finding.shape;
    if (shape == Shape::kNotFinite) return Agreement::kBroken;
    double k3 = 0, beyond = 0;
    for (const Call& call : calls_) {
      k3 = std::max(k3, call.figures.k3);
      beyond = std::max(beyond, call.figures.beyond);
    }
    if (k3 > kMismatchK3Broken || beyond > kMismatchBeyondBroken) return Agreement::kBroken;
    if (k3 > kMismatchK3 || beyond > kMismatchBeyond) return Agreement::kDegraded;
    return shape == Shape::kNone || shape == Shape::kRareTokens ? Agreement::kAgree
                                                                : Agreement::kDegraded;
  }

  std::span<const Call> calls_;
  MergedGroups groups_;
  const LogprobMismatch* first_ = nullptr;  // the first call with tokens
  double rms_ = 0;
  Judgement judgement_;
};

}  // namespace

const Call* TriedHead(std::span<const Call> calls) {
  const Call* tried = nullptr;
  for (const Call& call : calls) {
    if (!call.head.empty() && (tried == nullptr || call.figures.rms > tried->figures.rms))
      tried = &call;
  }
  return tried;
}

Judgement Judge(std::span<const Call> calls) {
  if (calls.empty()) return {};
  return Judging(calls).Run();
}

}  // namespace mpnanny::mismatch
