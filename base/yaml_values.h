// The values of a YAML or JSON text, each with its path and the bytes where it stands: for what has
// to point at a line of somebody's configuration.
//
// Read by the parser's events, not into a tree: an alias is one value without text however much it
// stands for, so nothing is ever multiplied. Depth and number of values are bounded; what goes
// beyond is left out. Plain values; free function; safe from any thread.
#ifndef MPNANNY_BASE_YAML_VALUES_H_
#define MPNANNY_BASE_YAML_VALUES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny {

struct YamlValue {
  std::string path;     // "trainer.precision", "[0].fp16.enabled"
  std::string text;     // without quotes; at most 80 bytes
  bool quoted = false;  // a string for certain, whatever it looks like
  // Offsets: where its key begins (where itself does in a list), where it begins and ends.
  uint32_t key = 0, begin = 0, end = 0;
};

struct YamlValues {
  std::vector<std::vector<YamlValue>> documents;
  std::string mistake;  // "line 3: …" if the text could not be read to its end; else empty
};

// What stands before a mistake is in the answer, as far as the parser had read it (not of a JSON
// object that is not closed). `text`: UTF-8 without a byte-order mark.
YamlValues ReadYamlValues(std::string_view text);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_YAML_VALUES_H_
