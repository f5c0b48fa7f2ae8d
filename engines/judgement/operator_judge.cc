#include "engines/judgement/operator_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engines/judgement/comparison.h"
#include "engines/judgement/slots.h"
#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Share(int64_t count, int64_t of) {
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, of));
}

// The share of what became 0 that the type has no number for. The rest was rounded away before, as
// the derivative of a gate whose value is 1 in 16 bits.
double Underflows(int64_t flushed, int64_t in_range) {
  return flushed == 0 ? 0 : 1 - Share(in_range, flushed);
}

}  // namespace

const ReferenceError* OperatorJudge::FiguresOf(const Subject& result, KnownInput& input) {
  if (input.row.slot == kNone)
    input.row.slot = result.evidence.InputFigures(IndexOf(result, input));
  return slots_.At(input.row.slot);
}

int OperatorJudge::IndexOf(const Subject& result, const KnownInput& input) const {
  return static_cast<int>(&input - result.call.inputs.data());
}

// The input whose error goes on; of whole numbers that became others the one with most.
const KnownInput* OperatorJudge::WorstOf(const Subject& result) const {
  const KnownInput* worst = nullptr;
  for (KnownInput* each : result.sources) {
    if (each->before.origin == kNone) continue;
    if (worst == nullptr || each->before.error > worst->before.error) worst = each;
  }
  const auto is_integers = [&](const KnownInput* each) {
    return each->before.origin != kNone &&
           findings_[each->before.origin].kind == FindingKind::kIntegers;
  };
  if (worst == nullptr || !is_integers(worst)) return worst;
  const KnownInput* most = nullptr;
  for (const KnownInput* each : result.sources) {
    if (!is_integers(each)) continue;
    const bool is_more = most == nullptr || findings_[each->before.origin].share >
                                                findings_[most->before.origin].share;
    if (is_more) most = each;
  }
  return most;
}

bool OperatorJudge::Take(const Result& row, Evidence& evidence) {
  CallRecord& call = calls_[row.call];
  Memory& memory = calls_.MemoryOf(row.memory);
  memory.producer = row.call;
  verdict_ = {};
  const ReferenceError* figures = slots_.At(row.slot);
  if (figures == nullptr) return false;
  ++compared_;
  Subject result{row, call, evidence, call.SourcesOf(row.position), *figures};
  const ReferenceError& found = result.found;
  result.error = ErrorOf(found);
  memory.rounding = row.rounding;
  for (const KnownInput* each : result.sources) {
    memory.rounding = std::max(memory.rounding, each->before.rounding);
  }
  call.error = found.range > 0 ? kInfinity : result.error;
  call.worst = std::max(call.worst, call.error);
  if (found.reference_only > 0 && found.nonfinite() == 0) {
    memory.error = 0;
    memory.noise = false;
    memory.origin = kNone;
    if (row.slot != kNone) slots_.Put(row.slot, Exact(found));
    NoneBecause(Why::kRestarts);
    return true;
  }
  const KnownInput* carried = WorstOf(result);
  if (carried != nullptr) result.origin = carried->before.origin;
  if (found.nonfinite() > 0) {
    const int made = NonFinite(result);
    memory.error = kInfinity;
    memory.noise = false;
    memory.origin = made != kNone ? made : result.origin;
    return false;
  }
  const bool is_wrong_before = carried != nullptr && carried->before.error >= kWrong;
  if (is_wrong_before && Cancels(result, memory.rounding)) {
    // What should cancel out does not, because of an error that came in.
    memory.error = carried->before.error;
    memory.noise = false;
    memory.origin = result.origin;
    NoneBecause(Why::kCancels);
    return false;
  }
  memory.error = result.error;
  memory.noise = result.error > kCarries && IsNoise(result, carried, memory.rounding);
  memory.origin = result.error > kCarries && !memory.noise ? result.origin : kNone;
  if (result.origin != kNone && result.error > 0 &&
      findings_[result.origin].kind == FindingKind::kIntegers) {
    memory.origin = result.origin;  // an id that is off by one is a small error
  }
  NoneBecause(memory.noise ? Why::kNoise : Why::kClean);
  if (memory.noise) return false;
  if (found.integers && found.wrong_integers > 0) {
    const int made = WrongIntegers(result);
    if (made != kNone) memory.origin = made;
  }
  if (Share(found.clipped, found.numel) > kClippedShare && result.error > kClippedError) {
    memory.origin =
        Add(FindingKind::kClipped, result, Share(found.clipped, found.numel), 0, result.error);
    SearchCure(memory.origin, result);
    return false;
  }
  int made = kNone;
  if (result.error > kNoted) {
    made = Wrong(result);
  } else if (Share(found.flushed, found.nonzero) > kFlushedShare) {
    made = Flushed(result);
  }
  if (made != kNone) memory.origin = made;
  return false;
}

OperatorJudge::InputError OperatorJudge::ErrorOfInputs(const Subject& result) {
  InputError worst;
  for (KnownInput* each : result.sources) {
    const ReferenceError* found = FiguresOf(result, *each);
    if (found == nullptr) continue;
    if (!each->before.noise) worst.error = std::max(worst.error, ErrorOf(*found));
    worst.rank = std::max(worst.rank, found->range > 0       ? 3
                                      : found->undefined > 0 ? 2
                                      : found->infinite > 0  ? 1
                                                             : 0);
  }
  return worst;
}

// --- references that are 0 but for rounding ---

bool OperatorJudge::IsNoise(const Subject& result, const KnownInput* carried, double rounding) {
  if (judgement::IsNoise(result.found, result.row.type, rounding) &&
      (carried == nullptr || carried->before.error < kWrong)) {
    return true;
  }
  if (Cancels(result, rounding)) return true;
  if (std::any_of(result.sources.begin(), result.sources.end(),
                  [](const KnownInput* each) { return each->before.noise; })) {
    std::vector<int> noise;
    for (const KnownInput& each : result.call.inputs) {
      if (each.before.noise && each.row.read) noise.push_back(IndexOf(result, each));
    }
    if (result.evidence.DependsOnNoise(noise)) return true;
  }
  return calls_.PlaceOfCall(result.row.call).phase == Phase::kOptimizer &&
         IsNoiseOfElements(result);
}

// Whether the references of equal values were subtracted: what is left is their rounding, which
// IsNoise() does not see where the held values are equal to the bit.
bool OperatorJudge::Cancels(const Subject& result, double rounding) {
  const std::string& schema = calls_.SchemaOf(result.row.call);
  if (schema != "aten::sub" && schema != "aten::rsub" && schema != "aten::add") {
    return SumsToNothing(result);
  }
  double size = 0;
  for (KnownInput* each : result.sources) {
    const ReferenceError* found = FiguresOf(result, *each);
    if (found != nullptr) size = std::max(size, found->squared_reference);
  }
  const double least = rounding > 0 ? kOfProducts : kOfFp64;
  return result.found.squared_reference <= size * least * least;
}

// Whether terms were summed whose sum is 0 by design, as of advantages: it is below half an ulp
// that a term of this size has in FP32, in which most terms were made.
bool OperatorJudge::SumsToNothing(const Subject& result) {
  const std::string& schema = calls_.SchemaOf(result.row.call);
  if ((schema != "aten::sum" && schema != "aten::mean") || result.sources.empty()) return false;
  const ReferenceError* terms = FiguresOf(result, *result.sources.front());
  if (terms == nullptr) return false;
  const auto count = static_cast<double>(terms->numel);
  const auto results = static_cast<double>(result.found.numel);
  const double of_term = terms->squared_reference / count;
  double of_result = result.found.squared_reference / results;
  if (schema == "aten::sum") of_result /= (count / results) * (count / results);
  const double least = HalfUlp(Element::kFloat32);
  return of_result <= of_term * least * least;
}

bool OperatorJudge::IsNoiseOfElements(const Subject& result) {
  const double error = std::max(kNoted, kNotedAmplification * ErrorOfInputs(result).error);
  return result.error > error && result.evidence.IsNoiseOfElements(error);
}

// --- what is not finite ---

int OperatorJudge::NonFinite(const Subject& result) {
  const ReferenceError& found = result.found;
  const InputError inputs = ErrorOfInputs(result);
  // Where the reference is not finite either, in this element or in another, the format is not
  // what makes it: at the root of a 0 that rounding alone makes it is chance which of them is.
  if (found.range > 0 && found.reference_only == 0) {
    if (inputs.rank >= 2) return NoneBecause(Why::kNotFinite);
    const int made =
        Add(FindingKind::kRange, result, Share(found.range, found.numel), inputs.error, kInfinity);
    Show(made, result);
    SearchCure(made, result);
    return made;
  }
  if (inputs.rank >= (found.undefined > 0 ? 2 : 1)) {
    if (result.origin != kNone) return NoneBecause(Why::kNotFinite);
    const int outside = FromOutside(result);
    return outside != kNone ? outside : NoneBecause(Why::kMeantSo);
  }
  if (inputs.rank == 0 && found.undefined == 0 && result.evidence.Fills()) {
    return NoneBecause(Why::kFilled);
  }
  if (inputs.rank == 1 && result.origin == kNone) {
    const int outside = FromOutside(result);
    if (outside != kNone) return outside;  // an infinity that was there before becomes NaN here
  }
  if (inputs.rank == 1 && MeetsZero(result)) return NoneBecause(Why::kNotFinite);
  const int64_t count =
      found.reference_only > 0 ? found.nonfinite() : found.undefined + found.infinite;
  const int made =
      Add(FindingKind::kUndefined, result, Share(count, found.numel), inputs.error, kInfinity);
  Show(made, result);
  Exclude(made, result);
  return made;
}

// Whether an infinity of this step becomes NaN in the backward pass, as where its derivative is
// multiplied by the 0 that a `where` leaves: that is part of the finding which made it.
bool OperatorJudge::MeetsZero(const Subject& result) {
  const Place& place = calls_.PlaceOfCall(result.row.call);
  if (result.origin == kNone || place.phase != Phase::kBackward) return false;
  Finding& origin = findings_[result.origin];
  if (origin.kind != FindingKind::kRange && origin.kind != FindingKind::kUndefined) return false;
  if (origin.carried) return false;
  if (!origin.singular) origin.singular.emplace();
  Singular& singular = *origin.singular;
  if (!singular.zero_at.empty()) return true;
  const std::optional<Singular> here = result.evidence.SingularAt();
  const bool is_known = here && !here->zero_at.empty();
  singular.zero_op = is_known ? here->zero_op : place.forward;
  singular.zero_at = is_known ? here->zero_at : place.Source();
  return true;
}

// The reference has it too: another precision does not help, unless what came in had been rounded,
// or not all that led to it was computed.
void OperatorJudge::Exclude(int made, const Subject& result) {
  Finding& finding = findings_[made];
  if (finding.count > 1) return;
  const std::optional<bool> decides = result.evidence.RoundingDecides(finding.why_no_cure);
  finding.rounded_before = decides.value_or(false);
  if (decides == false) finding.precision = Proof::kExcluded;
}

// What is not finite was there before the step began (a batch, weights), or in memory that nothing
// has written.
int OperatorJudge::FromOutside(const Subject& result) {
  for (KnownInput* each : result.sources) {
    const int at = IndexOf(result, *each);
    const std::optional<std::string> made_at = result.evidence.MadeUnwritten(at);
    if (each->before.producer != kNone && !made_at) continue;
    const ReferenceError* own = FiguresOf(result, *each);
    if (own == nullptr) continue;
    // The -inf of a mask is meant so.
    if (own->undefined == 0 && (own->infinite == 0 || !result.evidence.IsAboveZero(at))) continue;
    Subject outside = result;
    outside.found = *own;
    const int made =
        Add(FindingKind::kUndefined, outside, Share(own->nonfinite(), own->numel), 0, kInfinity);
    Finding& finding = findings_[made];
    if (finding.count > 1) return made;
    const Evidence::Owner owner = result.evidence.OwnerOf(at);
    const Phase phase = calls_.PlaceOf(finding.place).phase;
    const bool is_state = !owner.name.empty() || phase == Phase::kOptimizer ||
                          phase == Phase::kState || owner.is_state;
    finding.carried = Carried{made_at    ? CarrierKind::kUnwritten
                              : is_state ? CarrierKind::kState
                                         : CarrierKind::kData,
                              owner.name, made_at.value_or("")};
    // Of a state, and of what was computed before, it is not known what broke it: precision may
    // have.
    const bool is_known = finding.carried->kind != CarrierKind::kState && !owner.is_doubtful;
    if (is_known) finding.precision = Proof::kExcluded;
    return made;
  }
  return kNone;
}

void OperatorJudge::Show(int made, const Subject& result) {
  Finding& finding = findings_[made];
  if (finding.count > 1) return;
  finding.operands = result.evidence.Operands();
  finding.inputs_from = calls_.LinesBefore(result.row.call);
  if (calls_.PlaceOf(finding.place).phase == Phase::kBackward)
    finding.singular = result.evidence.SingularAt();
}

// --- what is finite and wrong ---

int OperatorJudge::Wrong(const Subject& result) {
  const ReferenceError& found = result.found;
  const InputError inputs = ErrorOfInputs(result);
  FollowLoop(result, inputs.error);
  const double entered = result.call.entered;
  const double times = result.error > kWrong ? kAmplification : kNotedAmplification;
  if (inputs.rank == 3) return NoneBecause(Why::kNotFinite);
  if (result.error < times * entered) return NoneBecause(Why::kCarried);
  const bool is_flushed = found.squared_flushed > kFlushedError * found.squared_error &&
                          Underflows(found.flushed, found.flushed_in_range) > kUnderflows;
  const int made = Add(is_flushed ? FindingKind::kFlushed : FindingKind::kAmplified, result,
                       is_flushed ? Share(found.flushed, found.nonzero) : 1, entered, result.error);
  if (findings_[made].count == 1 && result.origin == kNone && entered > 0) {
    const std::optional<CameIn> came_in = calls_.CameInBefore(result.row.call);
    if (came_in &&
        calls_.PlaceOf(came_in->place).Source() != calls_.PlaceOfCall(result.row.call).Source()) {
      findings_[made].came_in = came_in;
    }
  }
  SearchCure(made, result);
  if (findings_[made].precision == Proof::kNotTested && !result.evidence.SearchesLater())
    CureLoop(findings_[made], result);
  return made;
}

// A loop over this line makes its error in many small portions.
void OperatorJudge::FollowLoop(const Subject& result, double error) {
  CallRecord& call = result.call;
  call.entered = error;
  const int own = calls_.SamePlace(call.place);
  for (const KnownInput* each : result.sources) {
    if (each->before.producer == kNone) continue;
    const CallRecord& before = calls_[each->before.producer];
    if (calls_.SamePlace(before.place) != own) continue;
    double fed = 0;
    for (KnownInput* other : result.sources) {
      if (other == each || other->before.noise) continue;
      const ReferenceError* found = FiguresOf(result, *other);
      if (found != nullptr) fed = std::max(fed, ErrorOf(*found));
    }
    call.entered = std::min(error, before.entered);
    call.fed = std::max(fed, before.fed.value_or(0));
    return;
  }
}

// Many elements, and little of the whole: they count if they are not tiny.
int OperatorJudge::Flushed(const Subject& result) {
  const ReferenceError& found = result.found;
  const double share = Share(found.flushed_that_matter, found.nonzero);
  if (share < kFlushedShare) return NoneBecause(Why::kFewFlushed);
  if (Underflows(found.flushed_that_matter, found.flushed_that_matter_in_range) < kUnderflows)
    return NoneBecause(Why::kInRange);
  for (KnownInput* each : result.sources) {
    const ReferenceError* before = FiguresOf(result, *each);
    if (before != nullptr && static_cast<double>(before->flushed) >=
                                 kFlushedBefore * static_cast<double>(found.flushed_that_matter)) {
      return NoneBecause(Why::kFlushedBefore);
    }
  }
  const int made = Add(FindingKind::kFlushed, result, share, 0, result.error);
  SearchCure(made, result);
  return made;
}

int OperatorJudge::WrongIntegers(const Subject& result) {
  const ReferenceError& found = result.found;
  if (result.origin != kNone && findings_[result.origin].kind == FindingKind::kIntegers) {
    NoneBecause(Why::kCarried);
    return result.origin;
  }
  const double share = Share(found.wrong_integers, found.numel);
  if (share < kWrongIntegers) return NoneBecause(Why::kFewIntegers);
  if (found.max_reference >= kLargestWhole) return NoneBecause(Why::kTooLarge);
  for (KnownInput* each : result.sources) {
    const ReferenceError* before = FiguresOf(result, *each);
    if (before == nullptr || !before->integers || before->wrong_integers > 0)
      return NoneBecause(Why::kNotWhole);
  }
  const int made = Add(FindingKind::kIntegers, result, share, 0, result.error);
  SearchCure(made, result);
  return made;
}

void OperatorJudge::Take(const Indices& row, Evidence& evidence) {
  CallRecord& call = calls_[row.call];
  verdict_ = {row.share > 0 ? Why::kFewIntegers : Why::kClean};
  if (row.share < kWrongIntegers) return;
  verdict_ = {Why::kCarried};
  Result shown;
  shown.call = row.call;
  shown.type = row.type;
  shown.shape = row.shape;
  Subject result{shown, call, evidence, call.SourcesOf(kNone), {}};
  KnownInput* worst = nullptr;
  for (KnownInput* each : result.sources) {
    if (worst == nullptr || each->before.error > worst->before.error) worst = each;
  }
  if (worst == nullptr) return;
  int origin = worst->before.origin;
  if (calls_.SchemaOf(row.call) != "aten::_to_copy") {
    // The operator finds the place of numbers among others, and it is another one.
    const bool are_others = row.share >= kWrongIndices;
    const ReferenceError* found = are_others ? slots_.At(evidence.IndexFigures()) : nullptr;
    if (are_others && found == nullptr) return;
    if (found != nullptr) {
      result.found = *found;
      result.origin = origin;
      const int made = Add(FindingKind::kIntegers, result, row.share, 0, row.share);
      SearchCure(made, result);
      if (findings_[made].count == 1 && origin == kNone)
        findings_[made].came_in = calls_.CameInBefore(row.call);
      origin = made;
    }
  } else if (origin == kNone && worst->before.producer != kNone) {
    // Whole numbers lay in a tensor of fractions, as labels beside features, and come out of it as
    // others: the conversion that rounded them is to blame, not the one that reads them.
    const ReferenceError* whole = FiguresOf(result, *worst);
    const bool are_whole =
        whole != nullptr && whole->integers && whole->undefined + whole->reference_only == 0;
    const ReferenceError* found = are_whole ? slots_.At(evidence.IndexFigures()) : nullptr;
    if (found != nullptr) {
      result.found = *found;
      const int made = Add(FindingKind::kIntegers, result, row.share, 0, row.share);
      Finding& finding = findings_[made];
      if (finding.count == 1) {
        const std::optional<CameIn> came_in = calls_.CameInBefore(row.call);
        finding.place = came_in ? came_in->place : calls_[worst->before.producer].place;
        finding.number = worst->before.producer;
        finding.dtype =
            came_in ? came_in->dtype : calls_.TypesOf(worst->before.producer, worst->row.type);
      }
      SearchCure(made, result);
      origin = made;
    }
  }
  findings_.Reaches(origin, Reached::kIndex, calls_.PlaceOfCall(row.call).Source(), row.share);
}

// --- findings ---

int OperatorJudge::Add(FindingKind kind, const Subject& result, double share, double error_in,
                       double error_out) {
  Finding made;
  made.kind = kind;
  made.place = result.call.place;
  made.number = result.row.call;
  std::vector<Element> types;
  for (const KnownInput* each : result.sources) types.push_back(each->row.type);
  made.dtype = TypeWords(types, result.row.type);
  made.shape = result.row.shape;
  made.share = share;
  made.magnitude = result.found.max_reference;
  made.error_in = error_in;
  made.error_out = error_out;
  made.parent = result.origin;
  const int number = findings_.Add(calls_.SamePlace(result.call.place), std::move(made));
  verdict_ = {Why::kFound, number};
  return number;
}

// What was found before stays found.
int OperatorJudge::NoneBecause(Why why) {
  if (verdict_.why != Why::kFound) verdict_.why = why;
  return kNone;
}

void OperatorJudge::SearchCure(int made, const Subject& result) {
  Finding& finding = findings_[made];
  if (finding.count > 1 || finding.cure || !result.call.kept) return;
  const std::optional<CameIn> source = calls_.CameInBefore(result.row.call);
  const bool narrow = source && (source->dtype.find("float16") != std::string::npos ||
                                 source->dtype.find("float8") != std::string::npos);
  const double before = finding.kind == FindingKind::kRange      ? kInfinity
                        : finding.kind == FindingKind::kIntegers ? finding.share
                                                                 : finding.error_out;
  Evidence::CureAnswer answer = result.evidence.FindCure(finding.kind, before, narrow);
  if (answer.cure) {
    finding.cure = std::move(answer.cure);
    finding.precision = Proof::kProven;
  } else {
    finding.why_no_cure = answer.why_not;
  }
}

// An accumulation too long to be computed again: what went into it was right, and the reference
// that accumulates in FP64 is what a wider accumulator gives, up to the error of what went in.
void OperatorJudge::CureLoop(Finding& made, const Subject& result) {
  const CallRecord& call = result.call;
  if (!call.fed) return;
  const double after = std::max(*call.fed, call.entered);
  if (after > kCured * result.error) return;
  bool narrow = false;
  if (call.kept) {
    for (const KnownInput& each : call.inputs) {
      narrow =
          narrow || (each.row.type != Element::kFloat32 && each.row.type != Element::kFloat64 &&
                     each.row.type != Element::kComplex64);
    }
  }
  const Place& place = calls_.PlaceOf(call.place);
  Cure cure;
  if (!place.Source().empty()) cure.lines.push_back(place.Source());
  cure.operators.push_back(place.op);
  cure.what = NameOf(narrow ? Element::kFloat32 : Element::kFloat64);
  cure.error_before = result.error;
  cure.error_after = after;
  made.cure = std::move(cure);
  made.precision = Proof::kProven;
  made.why_no_cure.clear();
}

}  // namespace mpnanny::judgement
