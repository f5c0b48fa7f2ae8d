// What earlier monitors told in sentences only. Databases of version 1, and those of monitors that
// left `alert.detail` empty, are read through this; nothing else reads a message.
//
// A pure function.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_EARLIER_MESSAGES_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_EARLIER_MESSAGES_H_

#include <string_view>

#include "engines/runs/alert_detail.h"

namespace mpnanny::diagnosis {

// What such a message says; empty where it says nothing that is known.
runs::AlertDetail ParseEarlierMessage(std::string_view message);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_EARLIER_MESSAGES_H_
