// CRC-32C (Castagnoli), the checksum of event files and of LevelDB's log.
//
// Pure functions; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_CRC32C_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace mpnanny::imports {

// Of `bytes`, going on from the checksum of what stands before them.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// As both formats store it: rotated and offset, since a checksum of data that holds checksums is
// weak.
inline uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_CRC32C_H_
