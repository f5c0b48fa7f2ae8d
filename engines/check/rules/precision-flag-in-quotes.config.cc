#include "engines/check/rule_support.h"

namespace mpnanny::check::precision_flag_in_quotes {

void CheckSettings(const Settings& settings, Sink& sink) {
  if (settings.framework != Framework::kDeepSpeed) return;
  for (const Setting& setting : settings.list) {
    const bool flag = setting.option == Option::kFp16 || setting.option == Option::kBf16 ||
                      setting.option == Option::kApexAmp;
    if (!flag || !setting.quoted || (setting.text != "false" && setting.text != "False")) continue;
    RawFinding& finding = sink.Add(
        setting, setting.name + " is the text \"" + setting.text + "\", which counts as true.");
    ReplaceValue(setting, settings.python ? "False" : "false", finding);
  }
}

}  // namespace mpnanny::check::precision_flag_in_quotes
