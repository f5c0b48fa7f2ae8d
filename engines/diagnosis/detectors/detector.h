// A detector turns facts into one claim about the mechanism, said with numbers, or stays silent.
//
// One mechanism family a file. A claim does not name cases: its id is a sign (kSigns of
// engines/cases/vocabulary.h) that cases list among their signals, and it says what kind of case it
// speaks for and against by the words of knowledge/README.md, so that a new case needs no change
// here. Pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_DETECTORS_DETECTOR_H_
#define MPNANNY_ENGINES_DIAGNOSIS_DETECTORS_DETECTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// Where and when a fault began that shows in no value that is not finite.
struct FaultPlace {
  int64_t step = 0;
  Word<Phase> phase;
  std::string layer, layer_type, source;  // raw; "" if none
  runs::Sentence what;                    // for people, escaped
};

// What a claim stands on.
enum class Ground {
  kMeasured,  // the record holds it: a value, a call, an operator with what went in and came out
  // Figures look as they do where this is the mistake. Others look like it: such a claim makes no
  // verdict, and no cause is sure by it.
  kRecognised,
};

struct Claim {
  std::string id;  // a sign
  Ground ground = Ground::kRecognised;
  runs::Sentence sentence;  // evidence for people, with numbers
  double strength = 0;      // 0…1: how sure the detector is of it
  // "category:nan-inf", "component:data", "precision:fp32"; with "!" in front: every case that does
  // not have it.
  std::vector<std::string> favours, opposes;
  // The run is not healthy for this alone, whatever its loss does; of what is measured.
  bool fault = false;
  // It is about values that rounding or underflow takes away there, told from statistics: shadow
  // steps measure that, and where they compared it and found nothing it is no fault.
  enum class LostIn { kNothing, kForward, kGradients, kUpdates };
  LostIn lost_in = LostIn::kNothing;
  bool measured = false;  // the FP64 reference says so: nothing outweighs it
  bool in_loop = false;   // the training loop did it: what gradients show first made nothing
  bool stays = false;     // what is not finite stays so
  bool passing = false;   // it was over before the record ends
  bool told = false;      // the sentence stands elsewhere in the answer, or tells nothing alone
  // The record shows it, and does not show whether it is a fault: said beside a verdict, and no run
  // is healthy with it.
  bool open = false;
  bool note = false;  // worth a look beside a verdict of "healthy", which it does not change
  // Of a fault that needs no case to be understood: what it is called among the causes, and what to
  // do.
  runs::Sentence title, fix;
  std::optional<FaultPlace> place;
  std::vector<std::string> lines;  // of the program, that make the call; nearest first, raw
};

// Adds what it finds.
using Detector = void (*)(const Facts&, std::vector<Claim>&);

void DetectForwardOverflow(const Facts& facts, std::vector<Claim>& claims);
void DetectOriginPlace(const Facts& facts, std::vector<Claim>& claims);
void DetectSoftmaxOrigins(const Facts& facts, std::vector<Claim>& claims);
void DetectDomainOrigins(const Facts& facts, std::vector<Claim>& claims);
void DetectRootGradient(const Facts& facts, std::vector<Claim>& claims);
void DetectOverflowOrigins(const Facts& facts, std::vector<Claim>& claims);
void DetectNormOutputZero(const Facts& facts, std::vector<Claim>& claims);
void DetectRawInputs(const Facts& facts, std::vector<Claim>& claims);
void DetectOptimizerOrigin(const Facts& facts, std::vector<Claim>& claims);
void DetectLostGradients(const Facts& facts, std::vector<Claim>& claims);
void DetectScalerOrder(const Facts& facts, std::vector<Claim>& claims);
void DetectScalerRestart(const Facts& facts, std::vector<Claim>& claims);
void DetectLossScale(const Facts& facts, std::vector<Claim>& claims);
void DetectLostUpdates(const Facts& facts, std::vector<Claim>& claims);
void DetectPoisonedBuffer(const Facts& facts, std::vector<Claim>& claims);
void DetectDivergence(const Facts& facts, std::vector<Claim>& claims);
void DetectZeroRate(const Facts& facts, std::vector<Claim>& claims);
void DetectLrJump(const Facts& facts, std::vector<Claim>& claims);
void DetectRecurrence(const Facts& facts, std::vector<Claim>& claims);
void DetectOutlierBatch(const Facts& facts, std::vector<Claim>& claims);
void DetectOptimizerRestart(const Facts& facts, std::vector<Claim>& claims);
void DetectDeadUnits(const Facts& facts, std::vector<Claim>& claims);
void DetectFadingGradient(const Facts& facts, std::vector<Claim>& claims);
void DetectAdversary(const Facts& facts, std::vector<Claim>& claims);
void DetectShortJump(const Facts& facts, std::vector<Claim>& claims);
void DetectMeasuredOrigin(const Facts& facts, std::vector<Claim>& claims);
void DetectZeroGradients(const Facts& facts, std::vector<Claim>& claims);
void DetectConstantInput(const Facts& facts, std::vector<Claim>& claims);
void DetectLoggedNumbers(const Facts& facts, std::vector<Claim>& claims);
void DetectRanks(const Facts& facts, std::vector<Claim>& claims);
void DetectLogprobs(const Facts& facts, std::vector<Claim>& claims);
void DetectLeftFigures(const Facts& facts, std::vector<Claim>& claims);

// All claims that hold, in the order above. A detector sees the claims of those before it.
std::vector<Claim> RunDetectors(const Facts& facts);

// --- what detectors share ---

// True if the first bad value lies in the forward pass, in a format with FP16's or FP8's small
// range.
bool InNarrowRange(const Facts& facts);

// Loss or gradient norm left their level in finite numbers before the onset, or up to the end.
struct Divergence {
  bool loss = false, norm = false, for_good = false;
  bool again = false;  // for good: much of what it had learned is undone, and gradients have grown
};
Divergence FindDivergence(const Facts& facts);

// Whether the loss ends far above where it began. Losses of two players need not fall.
bool LossRose(const Facts& facts);

// Whether the loss ends far above its lowest level, measured by how far it had fallen.
bool IsUndone(const Facts& facts);

// Whether that step lies early in a run whose loss went far below `level` afterwards: what was
// thrown up there was got over.
bool WasGotOver(const Facts& facts, int64_t step, double level);

// Whether a shadow step measured what the first bad value comes from, and it is no mistake of this
// sign: then it is not guessed.
bool IsRuledOut(const Facts& facts, std::string_view sign);

// What the last module of the forward pass gave, over the samples; nullptr if none was seen.
const Series* LastOutput(const Facts& facts);

const Claim* FindClaim(const std::vector<Claim>& claims, std::string_view id);

bool IsHalf(std::string_view dtype);     // float16
bool IsSixteen(std::string_view dtype);  // float16 or bfloat16

// Whether one of the words stands in the lower-case name.
bool NameHas(const std::string& name, std::initializer_list<std::string_view> words);

// The place of a series at a step.
FaultPlace PlaceOf(const Series& series, int64_t step, Phase phase, runs::Sentence what);

// The dtype that most parameters have; "" if no weights were sampled.
std::string WeightDtype(const Facts& facts);

// FP16 takes part: autocast, tensors, or the run's own word.
bool UsesHalf(const Facts& facts);

// A loss scale other than 1 was in force.
bool IsScaled(const Facts& facts);

// Whether it is one of these, in place ("add_") or not.
bool IsOperator(const NanOrigin& origin, std::initializer_list<std::string_view> names);

// "aten.log (train.py:57)", escaped.
runs::Sentence OperatorName(const NanOrigin& origin);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_DETECTORS_DETECTOR_H_
