#include "engines/runs/remembered.h"

#include <sodium.h>

#include <type_traits>

namespace mpnanny::runs {
namespace {

// False if it cannot be told.
bool AddPart(const Database& database, const Run& run, const Ring& ring, std::string& text) {
  if (database.stamp().empty()) return false;
  text += database.path() + "#" + std::to_string(*run.handle.run_id) + " " + database.stamp();
  if (ring.present) {
    // The file is a map that its writer changes without a time: what was read of it counts.
    for (const RingStep& slot : ring.steps) {
      text.append(reinterpret_cast<const char*>(&slot), sizeof(slot));
    }
  }
  text += "\n";
  return true;
}

}  // namespace

std::string StampOfRun(const Source& source) {
  static_assert(std::is_trivially_copyable_v<RingStep>);
  std::string text;
  if (!AddPart(*source.database, source.run, source.ring, text)) return "";
  for (const OtherRank& other : source.others) {
    if (!AddPart(*other.database, other.run, other.ring, text)) return "";
  }
  // Short, however many ranks and slots there are; two texts with one hash are not to be found.
  std::string hash(crypto_generichash_BYTES, '\0');
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return hash;
}

}  // namespace mpnanny::runs
