#include "engines/comparison/mend.h"

#include <algorithm>

#include "base/text.h"
#include "engines/comparison/layer_pairs.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kWhatBytes = 320;

// "train.py" of "/home/x/train.py:14".
std::string FileOf(const std::string& source) {
  const std::string place = source.substr(source.find_last_of("/\\") + 1);
  return place.substr(0, place.rfind(':'));
}

// Sentences of measurements name lines with their whole path, which differs from run to run.
std::string WithoutFolder(std::string text, const std::string& folder) {
  if (folder.empty()) return text;
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
    text.erase(at, folder.size());
  }
  return text;
}

std::string WhatOf(const Fault& fault) {
  const std::string folder =
      EscapeControl(fault.source.substr(0, fault.source.find_last_of("/\\") + 1));
  const std::string place = ShortSource(fault.source);
  std::string what = EscapeControl(WithoutFolder(fault.what, folder), kWhatBytes);
  if (!place.empty() && what.find(place) == std::string::npos) what += " (" + place + ")";
  return what;
}

// "BROKEN, first bad step 40: Inf in aten.sum (train.py:14)".
std::string State(const RunHealth& health, const Fault* fault) {
  std::string text = summary::VerdictWords(health.verdict.verdict, health.status);
  if (!fault || fault->what.empty()) {
    return text + ": " + EscapeControl(health.verdict.headline, kWhatBytes);
  }
  if (fault->step) text += ", first bad step " + std::to_string(*fault->step);
  return text + ": " + WhatOf(*fault);
}

// "200 steps, 2 samples and 6 shadow steps".
std::string Extent(const RunHealth& health) {
  const std::string steps = runs::Count(health.steps, "step");
  if (!health.monitored) return steps + " of its log";
  return steps + ", " + runs::Count(health.samples, "sample") + " and " +
         runs::Count(health.shadow_steps, "shadow step");
}

std::string EndOf(const std::string& sentence) {
  return sentence.empty() || sentence.back() == '.' ? "" : ".";
}

const Fault* FirstOf(const RunHealth& health) {
  return health.faults.empty() ? nullptr : &health.faults.front();
}

// The same fault in `health`; nullptr where it shows none.
const Fault* FindSame(const RunHealth& health, const Fault* fault) {
  if (!fault) return nullptr;
  const auto found = std::find_if(health.faults.begin(), health.faults.end(),
                                  [&](const Fault& each) { return IsSameFault(each, *fault); });
  return found == health.faults.end() ? nullptr : &*found;
}

// What of b must lie at or after the step at which a's fault began.
std::optional<int64_t> LastLook(const RunHealth& b, Fault::FoundBy found_by) {
  switch (found_by) {
    case Fault::FoundBy::kSteps:
      return b.last_step;
    case Fault::FoundBy::kSamples:
      return b.last_sample;
    case Fault::FoundBy::kShadow:
      return b.last_shadow;
  }
  return b.last_step;
}

// Of a b that shows a fault of its own.
Mend OfFaultyRun(const RunHealth& a, const RunHealth& b, const std::string& of_a) {
  const Fault *first_a = FirstOf(a), *first_b = FirstOf(b);
  Mend mend;
  if (const Fault* same = FindSame(b, first_a)) {
    mend = {MendOutcome::kStillThere,
            "b does not mend a: it shows the same fault. " + of_a + "; b is " + State(b, same),
            *first_a, *same};
  } else {
    const std::string which = FindSame(a, first_b) ? "one that a has as well" : "another one";
    mend = {MendOutcome::kOtherFault,
            "b does not show a's first fault, but " + which + ". " + of_a + "; b is " +
                State(b, first_b),
            first_a ? std::optional(*first_a) : std::nullopt,
            first_b ? std::optional(*first_b) : std::nullopt};
  }
  mend.text += EndOf(mend.text);
  return mend;
}

}  // namespace

const char* MendName(MendOutcome outcome) { return kMendNames[static_cast<size_t>(outcome)]; }

std::string ShortSource(const std::string& source) {
  return EscapeControl(source.substr(source.find_last_of("/\\") + 1), 120);
}

bool IsSameFault(const Fault& x, const Fault& y) {
  if (!x.kind.empty() && !y.kind.empty()) {
    return x.kind == y.kind && x.op == y.op && x.phase == y.phase &&
           (x.source.empty() || y.source.empty() || FileOf(x.source) == FileOf(y.source));
  }
  if (!x.source.empty() && ShortSource(x.source) == ShortSource(y.source)) return true;
  if (!x.layer.empty() && BareName(x.layer) == BareName(y.layer) && x.phase == y.phase) return true;
  if (!x.cause.empty() && x.cause == y.cause) return true;
  return x.source.empty() && y.source.empty() && !x.what.empty() && x.what == y.what;
}

std::optional<Mend> JudgeMend(const RunHealth& a, const RunHealth& b, bool other_model) {
  if (!a.IsBad() || !b.verdict.verdict) return std::nullopt;
  const Fault* fault = FirstOf(a);
  const std::string of_a = "a is " + State(a, fault);
  const auto told = [&](MendOutcome outcome, const std::string& first, const std::string& then) {
    return Mend{outcome, first + " " + of_a + "; " + then + EndOf(then),
                fault ? std::optional(*fault) : std::nullopt, std::nullopt};
  };
  if (other_model) {
    return told(MendOutcome::kNotEstablished,
                "Whether b mends a cannot be told: they train two different models.",
                "b: " + EscapeControl(b.verdict.headline, kWhatBytes));
  }
  if (b.IsBad()) return OfFaultyRun(a, b, of_a);
  const std::optional<int64_t> began = fault ? fault->step : std::nullopt;
  const std::string at = began ? std::to_string(*began) : "";
  if (began && b.last_step.value_or(*began - 1) < *began) {
    return told(MendOutcome::kNotReached, "Whether b mends a is open: it did not reach the step.",
                (b.last_step ? "b ends at step " + std::to_string(*b.last_step) +
                                   " and shows no fault up to there"
                             : std::string("b has no step")));
  }
  if (b.verdict.verdict != Health::kHealthy) {
    return told(MendOutcome::kNotEstablished, "Whether b mends a is not established.",
                "b: " + EscapeControl(b.verdict.headline, kWhatBytes));
  }
  if (b.status == runs::Status::kException) {
    return told(MendOutcome::kOtherFault, "b does not show a's fault, and ended with an exception.",
                "b shows none of it in " + Extent(b));
  }
  if (began && LastLook(b, fault->found_by).value_or(*began - 1) < *began) {
    return told(MendOutcome::kNotMeasured, "Whether b mends a is open: it was not measured.",
                std::string("that was found by ") +
                    (fault->found_by == Fault::FoundBy::kShadow ? "a shadow step" : "a sample") +
                    ", and b has none at or after step " + at + ". Elsewhere it shows no fault");
  }
  return told(MendOutcome::kMended,
              b.status == runs::Status::kRunning ? "So far b mends a." : "b mends a.",
              "b is " + summary::VerdictWords(b.verdict.verdict, b.status) +
                  " and shows none of it in " + Extent(b));
}

}  // namespace mpnanny::comparison
