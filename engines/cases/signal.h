// One element of a case's signature: what would be seen if the case is what happened. The grammar
// is closed (knowledge/README.md, "Signals"); rules, detectors and ranking share it:
//
//   alert:TYPE[@phase] [layers]        an alert of that type, born in that phase, at such a layer
//   rule:id                            a static finding of that rule
//   scale: declining|collapsed|stuck   how the loss scale went
//   log: words                         a line of a log holds these words in this order
//   sign: lr-jump                      a detector of diagnose_run established that mechanism
//
// `layers` is one or more globs joined by '|' ("*.wo|*mlp*"). Plain values and pure functions; safe
// from any thread.
#ifndef MPNANNY_ENGINES_CASES_SIGNAL_H_
#define MPNANNY_ENGINES_CASES_SIGNAL_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::cases {

struct Signal {
  enum class Kind { kAlert, kRule, kScale, kLog, kSign };
  Kind kind = Kind::kAlert;
  std::string name;        // alert type, rule id, scale state, log pattern or sign
  std::string phase;       // alert only: data | forward | loss | backward | optimizer; "" any
  std::string layer_glob;  // alert only: "" fits every layer
  double weight = 1;  // > 0, added up over the signals that are seen: 3 all but proves the case, 1
                      // fits many cases
  std::string text;   // as written, for people
};

// Parses one signal as it stands in front matter; the error names what is allowed.
Result<Signal> ParseSignal(std::string_view text, double weight);

// True if the layer's qualified name fits one of the signal's globs, ignoring ASCII case ("*attn*"
// fits "decoder.SelfAttn.q"). A signal without globs fits every name, and "" (no layer known) only
// then.
bool FitsLayer(const Signal& signal, std::string_view layer);

// kLog: whether one line of a log holds the pattern's words in their order and near each other,
// ignoring ASCII case.
// '*' in a word stands for any run of characters, '?' for one.
bool FitsLogLine(const Signal& signal, std::string_view line);

}  // namespace mpnanny::cases

#endif  // MPNANNY_ENGINES_CASES_SIGNAL_H_
