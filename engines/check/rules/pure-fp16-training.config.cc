#include "engines/check/rule_support.h"

namespace mpnanny::check::pure_fp16_training {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* pure = settings.Find(Option::kPureFp16);
  if (pure == nullptr || pure->on != true) return;
  // An apex level means something only where FP16 is on.
  if (pure->text == "O3" && !settings.IsOn(Option::kFp16)) return;
  RawFinding& finding = sink.Add(*pure, pure->name + " \"" + pure->text +
                                            "\": weights, gradients and optimizer are FP16, and "
                                            "there is no loss scale.");
  if (pure->quoted) ReplaceValue(*pure, pure->text == "O3" ? "\"O1\"" : "\"16-mixed\"", finding);
}

}  // namespace mpnanny::check::pure_fp16_training
