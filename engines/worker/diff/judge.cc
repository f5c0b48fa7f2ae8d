#include "engines/worker/diff/judge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engines/worker/diff/call_facts.h"
#include "engines/worker/diff/comparison.h"
#include "engines/worker/run/call.h"
#include "engines/worker/run/keep_runner.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFlushedShare = 0.3;  // of the elements that matter
constexpr double kMatters = 1e-2;  // of the root mean square, that an element must have to matter
constexpr double kWrongIntegers = 0.01, kWrongIndices = 0.25;
constexpr double kClippedShare = 1e-3, kClippedError = 0.1;
constexpr double kSame = 1e-6;  // relative difference of two references that are the same
constexpr size_t kMostFindings = 64;
constexpr size_t kMostDecisions = 1000;

// The share of what became 0 (of at least `floor`) that the type has no number for. The rest was
// rounded away before.
double Underflows(const Made& made, double floor) {
  const c10::ScalarType type = made.held.scalar_type();
  const double smallest = type == c10::ScalarType::Half       ? 0x1p-24
                          : type == c10::ScalarType::BFloat16 ? 0x1p-133
                                                              : 0x1p-149;
  const auto zeros = Compare(made.held, made.reference, floor);
  const auto above = Compare(made.held, made.reference, std::max(floor, smallest));
  if (!zeros || !above || zeros->flushed == 0) return 0;
  return 1.0 - static_cast<double>(above->flushed) / static_cast<double>(zeros->flushed);
}

}  // namespace

Judge::InputError Judge::ErrorOfInputs(const Called& call) const {
  InputError worst;
  bool first = true;
  ForEachInput(call, [&](const at::Tensor& held, const at::Tensor& reference) {
    const auto found = Compare(held, reference);
    if (!found || found->numel == 0) return;
    const bool noise = IsOnlyNoise(held);
    worst.any_noise = worst.any_noise || noise;
    if (!noise) worst.error = std::max(worst.error, ErrorOf(*found));
    worst.rank = std::max(worst.rank, found->range > 0       ? 3
                                      : found->undefined > 0 ? 2
                                      : found->infinite > 0  ? 1
                                                             : 0);
    worst.squared_reference = std::max(worst.squared_reference, found->squared_reference);
    worst.flushed = std::max(worst.flushed, found->flushed);
    worst.all_whole = worst.all_whole && found->integers && found->wrong_integers == 0;
    if (std::exchange(first, false)) {
      worst.terms_squared = found->squared_reference;
      worst.terms = static_cast<double>(found->numel);
    }
  });
  return worst;
}

int Judge::OriginOfInputs(const Called& call) const {
  Carried worst{-1, -1};
  ForEachInput(call, [&](const at::Tensor& held, const at::Tensor&) {
    const auto known = carried_.find(MemoryOf(held));
    if (known != carried_.end() && known->second.error > worst.error) worst = known->second;
  });
  return worst.finding;
}

bool Judge::IsOnlyNoise(const at::Tensor& tensor) const {
  return noise_.contains(MemoryOf(tensor));
}

void Judge::Reached(const at::Tensor& result, const Reach& reach) {
  const auto known = carried_.find(MemoryOf(result));
  if (known != carried_.end()) Tell(known->second.finding, reach);
}

void Judge::Tell(int finding, const Reach& reach) {
  for (int at = finding; at >= 0; at = parent_[static_cast<size_t>(at)]) {
    std::vector<Reach>& reaches = findings_[static_cast<size_t>(at)].reaches;
    const auto known = std::find_if(reaches.begin(), reaches.end(), [&](const Reach& each) {
      return each.what == reach.what && each.name == reach.name;
    });
    if (known == reaches.end()) {
      reaches.push_back(reach);
    } else {
      known->error = std::max(known->error, reach.error);
    }
  }
}

void Judge::Before(const Called& call) {
  before_ = ErrorOfInputs(call);
  origin_before_ = OriginOfInputs(call);
}

CallRecord& Judge::Record(const Called& call) {
  if (calls_.size() <= static_cast<size_t>(call.number))
    calls_.resize(static_cast<size_t>(call.number) + 1);
  CallRecord& record = calls_[static_cast<size_t>(call.number)];
  record.line = LineOf(call.node);
  record.op = call.node.site.op;
  ForEachInput(call, [&](const at::Tensor& held, const at::Tensor&) {
    const auto known = producer_.find(MemoryOf(held));
    if (known != producer_.end()) record.producers.push_back(known->second);
  });
  return record;
}

void Judge::After(const Called& call) {
  CallRecord& record = Record(call);
  std::optional<InputError> inputs;
  if (call.wrote) inputs = before_;
  const int origin = call.wrote ? origin_before_ : OriginOfInputs(call);
  for (size_t index = 0; index < call.made.size(); ++index) {
    const Made& made = call.made[index];
    record.types.push_back(made.held.scalar_type());
    if (!call.computes) continue;
    const auto found = Compare(made.held, made.reference);
    if (!found || found->numel == 0) continue;
    if (found->reference_only > 0) {
      Restart(made);
      continue;
    }
    if (!inputs && (found->nonfinite() > 0 || ErrorOf(*found) > kCarries ||
                    found->wrong_integers > 0 || found->flushed > 0)) {
      inputs = ErrorOfInputs(call);
    }
    Look(call, index, *found, inputs.value_or(InputError{}), origin, record);
  }
  if (!call.computes) return;
  for (const Made& made : call.made) producer_[MemoryOf(made.held)] = call.number;
}

// FP64 is not finite where the held values are: from here on these are the reference.
void Judge::Restart(const Made& made) {
  made.reference.copy_(made.held);
  carried_.erase(MemoryOf(made.held));
  noise_.erase(MemoryOf(made.held));
}

void Judge::Look(const Called& call, size_t index, const ReferenceError& found,
                 const InputError& inputs, int origin, CallRecord& record) {
  const Made& made = call.made[index];
  const void* const memory = MemoryOf(made.held);
  const bool is_bad = found.nonfinite() > 0;
  const double error = is_bad ? kInfinity : ErrorOf(found);
  record.error = std::max(record.error, error);
  const bool noise = error > kCarries && !is_bad && IsNoiseHere(call, found, made, inputs);
  AddToRow(call, index, found, noise);
  if (noise) {
    noise_.insert(memory);
    carried_.erase(memory);
    return;
  }
  noise_.erase(memory);
  const int own = Judged(call, index, found, inputs, record);
  parent_.resize(findings_.size(), origin);
  // An index that is off by one is a small error.
  const bool is_index = origin >= 0 && error > 0 &&
                        findings_[static_cast<size_t>(origin)].kind == FindingKind::kIntegers;
  const int carried = own >= 0 ? own : error > kCarries || is_index ? origin : -1;
  if (carried >= 0) {
    carried_[memory] = {error, carried};
  } else {
    carried_.erase(memory);
  }
}

void Judge::AddToRow(const Called& call, size_t index, const ReferenceError& found, bool noise) {
  Row& row = rows_[call.node.site.source + "|" + call.node.site.module + "|" + call.node.site.op];
  if (row.count == 0) {
    row.site = call.node.site;
    row.number = call.number;
  }
  row.count += index == 0 ? 1 : 0;
  row.nonfinite += found.range;
  row.absmax = std::max(row.absmax, found.max_held);
  if (found.integers && found.numel >= kFewestWhole) {
    row.wrong_whole = std::max(row.wrong_whole, static_cast<double>(found.wrong_integers) /
                                                    static_cast<double>(found.numel));
  }
  const double error = ErrorOf(found);
  if (!noise && std::isfinite(error)) row.accumulated = std::max(row.accumulated, error);
  const auto own = Compare(call.made[index].held, call.made[index].exact);
  if (!own || noise || own->nonfinite() > 0) return;
  const double local = ErrorOf(*own);
  if (!std::isfinite(local)) return;
  row.local = std::max(row.local, local);
  row.squared_local += local * local;
}

int Judge::Judged(const Called& call, size_t index, const ReferenceError& found,
                  const InputError& inputs, CallRecord& record) {
  const Made& made = call.made[index];
  const double error = ErrorOf(found);
  const auto numel = static_cast<double>(found.numel);
  const auto share = [](int64_t count, double of) { return static_cast<double>(count) / of; };
  // A loop over this line makes its error in many small portions.
  record.entered = inputs.error;
  for (const int producer : record.producers) {
    const CallRecord& before = calls_[static_cast<size_t>(producer)];
    if (producer != call.number && before.line == record.line && before.op == record.op) {
      record.entered = std::min(record.entered, before.entered);
    }
  }
  if (found.range > 0) {
    if (inputs.rank >= 2) return -1;
    return Add(FindingKind::kRange, call, made, index, found, share(found.range, numel),
               inputs.error, kInfinity);
  }
  if (found.nonfinite() > 0) {
    const bool filled = found.undefined == 0 && HoldsNonfiniteNumber(call.held);
    if (inputs.rank >= (found.undefined > 0 ? 2 : 1) || filled) return -1;
    return Add(FindingKind::kUndefined, call, made, index, found,
               share(found.undefined + found.infinite, numel), inputs.error, kInfinity);
  }
  int own = -1;
  if (found.integers && found.max_reference < 0x1p53 && inputs.all_whole &&
      share(found.wrong_integers, numel) >= kWrongIntegers) {
    own = Add(FindingKind::kIntegers, call, made, index, found, share(found.wrong_integers, numel),
              0, error);
  }
  if (share(found.clipped, numel) > kClippedShare && error > kClippedError) {
    return Add(FindingKind::kClipped, call, made, index, found, share(found.clipped, numel), 0,
               error);
  }
  const auto nonzero = static_cast<double>(std::max<int64_t>(1, found.nonzero));
  if (error > kNoted) {
    const double times = error > kWrong ? kAmplification : kNotedAmplification;
    if (inputs.rank == 3 || error < times * record.entered) return own;
    const bool flushed =
        found.squared_flushed > 0.5 * found.squared_error && Underflows(made, 0) > 0.5;
    return Add(flushed ? FindingKind::kFlushed : FindingKind::kAmplified, call, made, index, found,
               flushed ? share(found.flushed, nonzero) : 1, record.entered, error);
  }
  if (share(found.flushed, nonzero) <= kFlushedShare) return own;
  // Many elements, and little of the whole: they count if they are not tiny.
  const double floor = kMatters * std::sqrt(found.squared_reference / numel);
  const auto again = Compare(made.held, made.reference, floor);
  if (!again || 2 * inputs.flushed >= again->flushed || Underflows(made, floor) < 0.5) return own;
  const auto large = static_cast<double>(std::max<int64_t>(1, again->nonzero));
  if (share(again->flushed, large) < kFlushedShare) return own;
  return Add(FindingKind::kFlushed, call, made, index, found, share(again->flushed, nonzero), 0,
             error);
}

bool Judge::IsNoiseHere(const Called& call, const ReferenceError& found, const Made& made,
                        const InputError& inputs) const {
  if (IsNoise(found, made.held.scalar_type()) && inputs.error < kWrong) return true;
  const std::string& op = call.node.schema->name();
  // References of equal values were subtracted: what is left is their rounding.
  if (op.starts_with("aten::sub") || op.starts_with("aten::rsub") || op.starts_with("aten::add")) {
    if (found.squared_reference <=
        inputs.squared_reference * kRoundingOfReferences * kRoundingOfReferences)
      return true;
  } else if ((op == "aten::sum" || op == "aten::mean") && inputs.terms > 0) {
    // Terms whose sum is 0 by design: below half an ulp that a term of this size has in FP32.
    const auto numel = static_cast<double>(found.numel);
    double of_result = found.squared_reference / numel;
    if (op == "aten::sum") of_result /= (inputs.terms / numel) * (inputs.terms / numel);
    if (of_result <= inputs.terms_squared / inputs.terms * 0x1p-48) return true;
  }
  return inputs.any_noise && DependsOnNoise(call, static_cast<size_t>(&made - call.made.data()));
}

// Whether the reference would be another one if its inputs that are 0 but for rounding were 0.
bool Judge::DependsOnNoise(const Called& call, size_t index) const {
  if (call.wrote) return true;
  std::set<const void*> zeroed;
  ForEachInput(call, [&](const at::Tensor& held, const at::Tensor& reference) {
    if (IsOnlyNoise(held)) zeroed.insert(reference.unsafeGetTensorImpl());
  });
  Stack inputs;
  for (const IValue& each : call.reference) {
    inputs.push_back(Replaced(each, [&](const at::Tensor& tensor) {
      return zeroed.contains(tensor.unsafeGetTensorImpl()) ? at::zeros_like(tensor) : tensor;
    }));
  }
  try {
    std::vector<at::Tensor> again;
    for (const IValue& each : CallIn(c10::ScalarType::Double, call.node, inputs)) {
      ForEachTensor(each, [&](const at::Tensor& tensor) {
        if (IsFloat(tensor)) again.push_back(tensor);
      });
    }
    const at::Tensor& reference = call.made[index].reference;
    if (index >= again.size() || again[index].sizes() != reference.sizes()) return true;
    const auto changed = Compare(again[index], reference);
    return !changed || ErrorOf(*changed) > kSame || changed->squared_reference == 0;
  } catch (const c10::Error&) {
    return true;
  }
}

void Judge::Decided(const Called& call, const at::Tensor& held, const at::Tensor& reference) {
  if (held.numel() == 0 || decisions_.size() >= kMostDecisions ||
      held.scalar_type() != reference.scalar_type())
    return;
  const double share = held.ne(reference).sum().item<double>() / static_cast<double>(held.numel());
  if (share <= 0) return;
  const std::string& op = call.node.schema->name();
  const bool casts =
      op == "aten::to" || op == "aten::_to_copy" || op == "aten::type_as" || op == "aten::Int";
  const bool finds_places = op == "aten::searchsorted" || op == "aten::bucketize";
  int origin = OriginOfInputs(call);
  if (finds_places && share >= kWrongIndices)
    origin = AddPlaces(call, held, reference, share, origin);
  // Of masks and choices it is not known what they are for.
  const bool makes_indices = finds_places || (casts && held.scalar_type() != c10::ScalarType::Bool);
  if (makes_indices && share >= kWrongIntegers)
    Tell(origin, {"index", call.node.site.source, share});
  decisions_.push_back({call.node.site, call.number, NameOf(held.scalar_type()), ShownShape(held),
                        share, casts || op == "aten::copy_"});
}

// The places of numbers among others are not those of the references.
int Judge::AddPlaces(const Called& call, const at::Tensor& held, const at::Tensor& reference,
                     double share, int origin) {
  const Made made{held, reference.to(c10::ScalarType::Double), {}};
  const auto found = Compare(held.to(c10::ScalarType::Double), made.reference);
  if (!found) return origin;
  Record(call);
  const int own = Add(FindingKind::kIntegers, call, made, 0, *found, share, 0, share);
  parent_.resize(findings_.size(), origin);
  return own >= 0 ? own : origin;
}

int Judge::Add(FindingKind kind, const Called& call, const Made& made, size_t index,
               const ReferenceError& found, double share, double error_in, double error_out) {
  const std::string key = std::string(NameOf(kind)) + "|" + call.node.site.source + "|" +
                          call.node.site.module + "|" + call.node.site.op;
  const auto measured = [&](Finding& finding) {
    finding.input_types = TypesOf(call);
    finding.held_type = made.held.scalar_type();
    finding.shape = ShownShape(made.held);
    finding.share = share;
    finding.magnitude = found.max_reference;
    finding.error_in = error_in;
    finding.error_out = error_out;
  };
  const auto known = finding_of_.find(key);
  if (known != finding_of_.end()) {
    Finding& finding = findings_[known->second];
    ++finding.count;
    if (error_out > finding.error_out || share > finding.share) measured(finding);
    return static_cast<int>(known->second);
  }
  if (findings_.size() >= kMostFindings) return -1;
  finding_of_[key] = findings_.size();
  Finding& finding = findings_.emplace_back();
  measured(finding);
  finding.kind = kind;
  finding.site = call.node.site;
  finding.line = LineOf(call.node);
  finding.number = call.number;
  finding.output = index;
  finding.reference = made.reference.clone();
  finding.first_error = kind == FindingKind::kIntegers ? share : error_out;
  return static_cast<int>(findings_.size()) - 1;
}

Finding& Judge::RootOf(const Finding& finding) {
  auto at = static_cast<size_t>(&finding - findings_.data());
  while (parent_[at] >= 0) at = static_cast<size_t>(parent_[at]);
  return findings_[at];
}

std::vector<Row> Judge::Rows() const {
  std::vector<Row> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.number < b.number; });
  return rows;
}

}  // namespace mpnanny::worker
