// Makes the large recording that bench/queries.py asks about.
//
// Free function; writes one file.
#ifndef MPNANNY_BENCH_QUERIES_DATABASE_H_
#define MPNANNY_BENCH_QUERIES_DATABASE_H_

#include <cstdint>
#include <string>

namespace mpnanny::bench {

struct RecordingSize {
  int64_t layers = 1'000;
  int64_t samples = 10'000;
  int64_t interval = 100;   // steps between samples
  int64_t alerts = 20'000;  // about; half of them before the failure
};

// A run of layers x samples rows of statistics that becomes NaN after 97 % of its steps. False,
// with a line on stderr, if the file cannot be written. An existing file is replaced.
bool MakeRecording(const std::string& path, const RecordingSize& size);

}  // namespace mpnanny::bench

#endif  // MPNANNY_BENCH_QUERIES_DATABASE_H_
