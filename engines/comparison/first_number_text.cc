// What the first printed difference says, as a sentence with its numbers.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/comparison/first_number.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

using runs::Number;

constexpr double kNearFactor = 0.005;  // of what a factor is called
constexpr double kLastDigits = 1e-4;   // relative: what another order of additions makes

const NumberParting* Find(const std::vector<NumberParting>& numbers, NumberKind kind) {
  const auto it = std::find_if(numbers.begin(), numbers.end(),
                               [&](const NumberParting& each) { return each.kind == kind; });
  return it == numbers.end() ? nullptr : &*it;
}

std::string NameOfNumber(const NumberParting& number) {
  switch (number.kind) {
    case NumberKind::kRate:
      return "learning rates";
    case NumberKind::kScale:
      return "loss scales";
    case NumberKind::kLoss:
      return "losses";
    case NumberKind::kNorm:
      return "gradient norms";
    case NumberKind::kOther:
      break;
  }
  return "\"" + runs::Name(number.name) + "\"";
}

std::string PrintedAs(const NumberParting& number) {
  constexpr std::string_view kShown = "the digits shown";
  if (number.printed_a == kShown || number.printed_b == kShown) return std::string(kShown);
  return number.printed_a == number.printed_b ? number.printed_a
                                              : "a " + number.printed_a + ", b " + number.printed_b;
}

// "losses are equal (4 decimals) at all 40 common steps", "… up to step 40 and part at step 41 (a
// 2.31, b 2.32)", "… differ from step 1 on (a …, b …)".
std::string CourseText(const NumberParting& number) {
  const std::string name = NameOfNumber(number);
  if (!number.parts_at) {
    return name + " are equal at all " + runs::Count(number.common, "common step") + " (" +
           PrintedAs(number) + ")";
  }
  const std::string values = " (a " + Number(number.a, 6) + ", b " + Number(number.b, 6);
  if (!number.equal_up_to) {
    std::string text = name + " differ from the first common step on, " +
                       std::to_string(*number.parts_at) + values + ")";
    if (number.factor) {
      const double factor = std::max(*number.factor, 1 / *number.factor);
      text += ", at " + runs::Count(number.factor_steps, "step") + " by one factor, " +
              (*number.factor > 1 ? "b : a = " : "a : b = ") + Number(factor, 5);
      if (const std::string words = FactorWords(factor); !words.empty()) text += " (" + words + ")";
    }
    return text;
  }
  return name + " are equal up to step " + std::to_string(*number.equal_up_to) + " (" +
         PrintedAs(number) + ") and part at step " + std::to_string(*number.parts_at) + values +
         ")";
}

bool InLastDigits(const NumberParting& number) {
  return std::isfinite(number.a) && std::isfinite(number.b) &&
         std::fabs(number.a - number.b) <= kLastDigits * std::fabs(number.a);
}

// What the order of partings says. Steps: a step's loss is made before its gradients, and its
// update shows in the next step's loss.
std::string Meaning(const std::vector<NumberParting>& numbers) {
  const NumberParting* loss = Find(numbers, NumberKind::kLoss);
  const NumberParting* norm = Find(numbers, NumberKind::kNorm);
  const NumberParting* rate = Find(numbers, NumberKind::kRate);
  const auto at = [](const NumberParting* number) {
    return number && number->parts_at ? *number->parts_at : INT64_MAX;
  };
  const bool rate_first = rate && rate->parts_at && at(rate) <= at(loss) && at(rate) <= at(norm);
  if (rate_first) {
    return "the schedules are not the same: what comes after follows from the other rate";
  }
  if (!loss) return "";
  if (norm && norm->parts_at && (at(norm) < at(loss) || !loss->parts_at)) {
    return "the gradient path (backward pass, reduction over ranks or micro-batches, unscaling, or "
           "where the norm is taken), not the forward pass: the losses of step " +
           std::to_string(*norm->parts_at) + " are equal";
  }
  if (!loss->parts_at) return "";
  if (!loss->equal_up_to) {
    if (InLastDigits(*loss)) {
      return "the first losses differ in the last digits only, as another order of additions, "
             "kernel or format makes them: nothing was learned before, so it is the forward pass";
    }
    return "nothing was learned before the first loss, so weights, data or the forward pass differ "
           "from the start";
  }
  if (norm && !norm->equal_up_to) return "";
  if (norm && at(norm) >= at(loss)) {
    return "up to there forward pass, gradients and updates are the same as far as they are "
           "printed: the batch of step " +
           std::to_string(*loss->parts_at) +
           ", or what the update before it made of equal gradients, differs";
  }
  return "what is printed before is the same; without gradient norms the update cannot be told "
         "from the batch";
}

}  // namespace

std::string FactorWords(double factor) {
  const auto near = [&](double value) { return std::fabs(factor - value) <= kNearFactor * value; };
  if (factor < 1) factor = 1 / factor;
  if (near(std::sqrt(2.0))) {
    return "the square root of 2: as of one of two equal parts, which are counted once and twice";
  }
  const double power = std::round(std::log2(factor));
  if (power >= 8 && near(std::exp2(power))) {
    return "2 to the " + std::to_string(static_cast<int>(power)) +
           ", as a loss scale is: one of the two is the norm of gradients that are still scaled";
  }
  const double whole = std::round(factor);
  if (whole >= 2 && whole <= 128 && near(whole)) {
    return "as a sum has it to a mean over " + std::to_string(static_cast<int>(whole)) +
           " ranks or micro-batches";
  }
  const double square = std::round(factor * factor);
  if (square >= 3 && square <= 1024 && near(std::sqrt(square)) &&
      std::exp2(std::round(std::log2(square))) == square) {
    return "the square root of " + std::to_string(static_cast<int>(square)) +
           ", as of one of so many equal parts (ranks)";
  }
  return "";
}

std::string FirstNumberText(const std::vector<NumberParting>& numbers) {
  if (numbers.empty()) return "";
  const NumberParting& first = numbers.front();
  const NumberParting* loss = Find(numbers, NumberKind::kLoss);
  if (!first.parts_at) {
    if (!loss) return "";
    return "Printed figures: all " + runs::Count(static_cast<int64_t>(numbers.size()), "figure") +
           " that both logs print are equal at every common step (" +
           runs::Count(loss->common, "step") + ", losses with " + PrintedAs(*loss) + ").";
  }
  // The loss first, as what the rest is measured by; then what parts before or with it.
  std::vector<std::string> told;
  if (loss) told.push_back(CourseText(*loss));
  for (const NumberParting& number : numbers) {
    if (told.size() == 4 || !number.parts_at) break;
    const bool before = !loss || !loss->parts_at || *number.parts_at <= *loss->parts_at;
    if (&number != loss && (before || number.kind != NumberKind::kOther)) {
      told.push_back(CourseText(number));
    }
  }
  std::string text = "Printed figures: " + Join(told, "; ");
  if (const std::string meaning = Meaning(numbers); !meaning.empty()) text += ": " + meaning;
  return text + ".";
}

}  // namespace mpnanny::comparison
