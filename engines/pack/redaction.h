// What of the user's names goes into a redacted pack: hashes of them, so that one name is one hash
// throughout the file.
//
// The hash is the one of the monitor's record="minimal" (plain and not keyed): packs and such
// recordings can be compared by layer, and somebody who guesses a name can check the guess. Free
// functions without state.
#ifndef MPNANNY_ENGINES_PACK_REDACTION_H_
#define MPNANNY_ENGINES_PACK_REDACTION_H_

#include <string>
#include <string_view>

namespace mpnanny::pack {

// "h" and ten hexadecimal digits; "" for "".
std::string HashedName(std::string_view name);

// A dotted name part by part: who holds whom stays visible, and so do plain numbers.
std::string RedactedLayer(std::string_view name);

// A class of torch.nn or a word of the monitor's own stays, others are hashed.
std::string RedactedType(std::string_view type);

// "file:line" keeps its line.
std::string RedactedSource(std::string_view source);

// Operators of PyTorch stay ("aten.sub.Tensor"), those of other libraries are hashed.
std::string RedactedOperator(std::string_view op);

// JSON out of the file (a detail, a reach or cure): of each field what engines/runs/detail_fields.h
// says that it holds. A key that is no field is hashed, and so is every text under it. "" for what
// is no JSON.
std::string RedactedJson(std::string_view json);

// Of the environment only what names neither person, machine nor place.
std::string RedactedEnvironment(std::string_view json);

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_REDACTION_H_
