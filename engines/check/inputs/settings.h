// What the configuration of a training framework says about precision, whatever it is written in.
//
// DeepSpeed's JSON, Accelerate's YAML, `TrainingArguments(...)`, `Trainer(precision=...)` and the
// flags of a shell script are brought into one form: a list of settings, each a thing that rules
// know (Option), its value, and the bytes of the file where it stands. Only what is certainly in
// force is in the list: what a branch, a variable or another program decides is left out, so rules
// may take a setting at its word and stay silent without it. Plain values; free functions; safe
// from any thread.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_SETTINGS_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::check {

enum class Framework { kDeepSpeed, kAccelerate, kTransformers, kLightning, kMegatron, kFairseq };
// "DeepSpeed", "Accelerate", "the Trainer of transformers" …
const char* FrameworkName(Framework framework);

enum class Option {
  kFp16,           // FP16 (mixed) training is on or off
  kBf16,           // BF16 (mixed) training is on or off
  kLossScale,      // a static loss scale; DeepSpeed's 0 means a dynamic one
  kInitialScale,   // where the dynamic scale starts (the scale, not its power of two)
  kMinScale,       // its floor
  kScaleWindow,    // steps without overflow before it grows
  kRunSteps,       // how many steps the run has
  kMicroBatches,   // gradients accumulated before a step
  kSentAs,         // the type in which gradients travel between devices
  kSummedAs,       // the type in which gradients are accumulated
  kHalfMaster,     // weights are kept and updated in 16 bits, with the framework's own care
  kPureFp16,       // the same with no loss scale at all
  kCpu,            // training on the CPU
  kApexAmp,        // NVIDIA's apex.amp inside DeepSpeed
  kZeroStage,      // DeepSpeed's ZeRO
  kOverflowCheck,  // DeepSpeed's check of BF16 gradients for inf and NaN
};

struct Bytes {
  uint32_t begin = 0, end = 0;
};

struct Setting {
  Option option = Option::kFp16;
  std::string name;     // as it is written: "fp16.loss_scale", "--loss-scale", "fp16"
  std::string text;     // the value, without quotes; "" for a flag that needs none
  bool quoted = false;  // a string, where the language tells strings from other values
  Bytes where;          // name and value: what a finding points at
  Bytes value;          // the value alone; empty where there is none
  // The value in the option's own unit: a power of two is raised, "16-mixed" is on.
  std::optional<double> number;
  std::optional<bool> on;
};

// One configuration: a file, an object in it, a command, a call.
struct Settings {
  Framework framework = Framework::kDeepSpeed;
  std::vector<Setting> list;  // in order of their places
  bool python = false;        // written in Python: its literals are True and False

  // The one that is in force (the last); null if there is none.
  const Setting* Find(Option option) const;
  std::optional<double> Number(Option option) const;
  // On, and known to be; off, and known to be (a framework's default is off). "auto" is neither.
  bool IsOn(Option option) const;
  bool IsOff(Option option) const;
  // FP16 is on, or somebody else decides ("auto"): its loss scale matters.
  bool MayBeFp16() const { return Find(Option::kFp16) != nullptr && !IsOff(Option::kFp16); }
};

// Adds what the framework's setting `name` = `text` means; nothing if it is none of interest.
void AddSetting(Framework framework, std::string_view name, std::string_view text, bool quoted,
                Bytes where, Bytes value, Settings* settings);

// The configurations of a JSON or YAML file, recognised by what it holds, whatever its name. JSON
// may have comments, as DeepSpeed's may. Where YAML cannot be read, what stands before the
// mistake counts, and `*note` says where and what it is ("line 3: …"; else empty).
std::vector<Settings> ReadDataSettings(std::string_view text, bool json, std::string* note);

// Those of a shell script: the flags of each command, through variables that the script itself sets
// once and for certain, and configuration files that it writes as here-documents.
std::vector<Settings> ReadShellSettings(std::string_view text);

// True if the text could hold a configuration that is of interest: one search for each of a few
// words. The path decides between JSON and YAML (.json, .yaml, .yml) and shell scripts (.sh).
bool IsSettingsPath(std::string_view path);
bool MayHoldSettings(std::string_view text);

// A larger file of this kind is no configuration of a training run.
inline constexpr size_t kMaxSettingsBytes = 1u << 20;

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_SETTINGS_H_
