#include "engines/check/rule_support.h"

namespace mpnanny::check::bf16_overflow_check_off {

void CheckSettings(const Settings& settings, Sink& sink) {
  const Setting* check = settings.Find(Option::kOverflowCheck);
  if (check == nullptr || check->on != false || settings.IsOff(Option::kBf16)) return;
  RawFinding& finding = sink.Add(*check);
  ReplaceValue(*check, settings.python ? "True" : "true", finding);
}

}  // namespace mpnanny::check::bf16_overflow_check_off
