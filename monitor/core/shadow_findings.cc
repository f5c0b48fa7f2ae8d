#include "monitor/core/shadow_findings.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "monitor/core/alert_conditions.h"
#include "monitor/core/json_text.h"

namespace mpnanny {
namespace {

// Errors of values have a type of their own each, relations one together.
AlertType AlertOf(FindingKind kind) {
  switch (kind) {
    case FindingKind::kDiverged:
      return AlertType::kShadowDiverged;
    case FindingKind::kRange:
      return AlertType::kShadowRange;
    case FindingKind::kUndefined:
      return AlertType::kShadowUndefined;
    case FindingKind::kIntegers:
      return AlertType::kShadowIntegers;
    case FindingKind::kLostChange:
      return AlertType::kShadowLostChange;
    case FindingKind::kAmplified:
      return AlertType::kShadowAmplified;
    case FindingKind::kFlushed:
      return AlertType::kShadowFlushed;
    case FindingKind::kClipped:
      return AlertType::kShadowClipped;
    default:
      return AlertType::kProtocol;
  }
}

int Rank(const Word<Severity>& severity) {
  return severity == Severity::kError     ? 3
         : severity == Severity::kWarning ? 2
         : severity == Severity::kInfo    ? 1
                                          : 0;
}

// An error that is not finite is the largest, one that is not known the smallest.
double Size(const std::optional<double>& figure) {
  if (!figure) return -1;
  return std::isfinite(*figure) ? *figure : std::numeric_limits<double>::infinity();
}

auto Badness(const ShadowFindingRow& row) {
  return std::tuple(Rank(row.severity), Size(row.error_out), Size(row.share));
}

// `known` with what another sighting tells of the same place.
void Merge(ShadowFindingRow& known, ShadowFindingRow&& row) {
  if (row.step > known.last_step) {
    ++known.repeats;
    known.last_step = row.step;
  }
  if (row.proof != Proof::kNotTested) {  // the newest test counts
    known.proof = std::move(row.proof);
    if (!row.cure.empty() || known.proof != Proof::kProven) known.cure = std::move(row.cure);
  }
  if (Badness(row) < Badness(known)) return;
  known.severity = std::move(row.severity);
  known.dtype = std::move(row.dtype);
  known.shape = std::move(row.shape);
  known.share = row.share;
  known.magnitude = row.magnitude;
  known.error_in = row.error_in;
  known.error_out = row.error_out;
  if (!row.reach.empty()) known.reach = std::move(row.reach);
  if (!row.detail.empty()) known.detail = std::move(row.detail);
}

// Without the finding's id, which the file gives.
std::string DetailOf(const ShadowFindingRow& row) {
  return "{\"operator\":" + JsonText(row.op) +
         ",\"source\":" + (row.source.empty() ? "null" : JsonText(row.source)) +
         ",\"precision\":" + JsonText(row.proof.text()) +
         ",\"cure\":" + (row.cure.empty() ? "null" : row.cure) + "}";
}

std::string Percent(const std::optional<double>& share) {
  return share && std::isfinite(*share) ? Message("%.3g %%", 100 * *share) : "some";
}

std::string WhatHappened(const ShadowFindingRow& row) {
  const std::string of_elements = Percent(row.share) + " of the elements";
  if (row.kind == FindingKind::kRange) {
    std::string text = of_elements + " are not finite here and finite in FP64";
    if (row.magnitude && std::isfinite(*row.magnitude))
      text += Message(", up to %.5g", *row.magnitude);
    return text;
  }
  if (row.kind == FindingKind::kUndefined)
    return of_elements + " are not finite, neither here nor in FP64";
  if (row.kind == FindingKind::kLostChange)
    return Percent(row.share) + " of the elements that should have changed did not";
  if (row.kind == FindingKind::kFlushed) return of_elements + " became 0 and are not 0 in FP64";
  if (row.kind == FindingKind::kIntegers)
    return of_elements + " are whole numbers in FP64 and other numbers here";
  if (row.kind == FindingKind::kClipped)
    return of_elements + " were cut off at the format's maximum";
  if (row.kind == FindingKind::kDiverged)
    return "the updates are too large (learning rate): values grew by orders of magnitude and left "
           "the format's range";
  if (row.kind == FindingKind::kNoGradient)
    return "parameters that the loss depends on get no gradient, or one that is 0";
  if (row.kind == FindingKind::kNotUpdated)
    return "parameters get gradients that are not 0, and nothing updates them";
  if (row.kind == FindingKind::kNotZeroed)
    return "the optimizer's gradients still hold those of an earlier step";
  if (row.kind == FindingKind::kNotRestored)
    return "states that were saved together were not all restored";
  if (row.kind == FindingKind::kMovedOnSkip) return "a state went on although the step was skipped";
  if (row.kind == FindingKind::kLoadUndone) return "the first optimizer step after a load undid it";
  if (row.kind == FindingKind::kEmptyStep)
    return "the optimizer steps and none of its parameters has a gradient";
  if (row.kind == FindingKind::kMovedWeights)
    return "something other than the optimizer moves the weights, and the loss rises each time";
  if (row.kind == FindingKind::kDroppedGradient)
    return "gradients of backward passes are set to zero before the optimizer uses them";
  if (row.kind == FindingKind::kPartialCopy)
    return "an average's buffers do not follow those of the network";
  if (row.kind == FindingKind::kStateNarrowed)
    return "the optimizer's state came back from a checkpoint in 16 bits";
  if (row.kind == FindingKind::kRecast)
    return "weights were rounded to 16 bits between two steps of the optimizer";
  if (row.kind == FindingKind::kNonfiniteKept)
    return "gradients that are not finite were kept across a skipped step";
  if (row.kind == FindingKind::kStandsStill)
    return "an average is written and stays as it is, while what it follows moves";
  if (row.kind == FindingKind::kSavedOtherwise)
    return "what was saved is not what the training holds";
  if (row.kind == FindingKind::kStateOfAnother)
    return "the optimizer goes on with moments of other parameters";
  if (row.kind == FindingKind::kNotReproduced)
    return "run again on the same operands it gives other bits: the hardware, or a race";
  if (row.kind == FindingKind::kScaleDependent) return "the update depends on the loss scale";
  std::string text = "error";
  if (row.error_out && std::isfinite(*row.error_out))
    text += Message(" %.3g of the result", *row.error_out);
  if (row.error_in && std::isfinite(*row.error_in))
    text += Message(" out of %.3g in the inputs", *row.error_in);
  return text;
}

std::string MessageOf(const ShadowFindingRow& row) {
  std::string text = row.op.empty() ? "the training" : row.op;
  if (!row.source.empty()) text += " at " + row.source;
  if (!row.dtype.empty()) text += " in " + row.dtype;
  text += ": " + WhatHappened(row) + " (shadow step " + std::to_string(row.last_step) + ").";
  if (row.proof == Proof::kProven) text += " A wider type cures it.";
  if (row.proof == Proof::kExcluded) text += " No precision cures it.";
  return text;
}

// The figure that the type is about.
std::optional<double> ValueOf(const ShadowFindingRow& row) {
  if (row.kind == FindingKind::kRange || row.kind == FindingKind::kDiverged) return row.magnitude;
  return row.kind == FindingKind::kAmplified ? row.error_out : row.share;
}

}  // namespace

int64_t ShadowFindings::See(int64_t id, ShadowFindingRow row) {
  if (id < 1 || static_cast<size_t>(id) > seen_.size()) {
    if (seen_.size() >= kFindings) {
      if (!std::exchange(left_out_reported_, true)) {
        file_.Event(row.step, "shadow_findings_left_out",
                    "{\"limit\":" + std::to_string(kFindings) + "}");
      }
      return 0;
    }
    row.id = static_cast<int64_t>(seen_.size()) + 1;
    row.last_step = row.step;
    row.repeats = 1;
    file_.Put(row);
    seen_.push_back({std::move(row), std::nullopt});
    Raise(seen_.back());
    return seen_.back().finding.id;
  }
  KnownFinding& seen = seen_[static_cast<size_t>(id - 1)];
  Merge(seen.finding, std::move(row));
  file_.Put(FindingUpdate{seen.finding});
  Raise(seen);
  return id;
}

void ShadowFindings::Raise(KnownFinding& seen) {
  const ShadowFindingRow& finding = seen.finding;
  if (!finding.kind.value()) return;
  const bool is_new = !seen.alert;
  if (is_new) {
    if (Rank(finding.severity) < Rank(Severity::kWarning)) return;
    seen.alert = MakeAlert(AlertOf(*finding.kind.value()), finding.last_step, finding.phase, "");
    seen.alert->id = book_.NextId();
    seen.alert->layer = finding.layer;
    seen.alert->finding = finding.id;
    new_.push_back(finding.id);
  }
  AlertRow& alert = *seen.alert;
  if (finding.last_step > alert.last_step) {
    ++alert.repeats;
    alert.last_step = finding.last_step;
  }
  alert.severity = finding.severity.value().value_or(Severity::kWarning);
  alert.value = ValueOf(finding);
  alert.message = MessageOf(finding);
  alert.detail = DetailOf(finding);
  if (is_new) {
    file_.Put(alert);
  } else {
    file_.Put(AlertUpdate{alert});
  }
}

std::vector<AlertRow> ShadowFindings::TakeNew() {
  std::vector<AlertRow> alerts;
  for (const int64_t id : std::exchange(new_, {}))
    alerts.push_back(*seen_[static_cast<size_t>(id - 1)].alert);
  return alerts;
}

}  // namespace mpnanny
