// Logs of other programs for the tests, byte by byte as those programs write them, and what the
// importer makes of a path.
#ifndef MPNANNY_TESTS_RUNS_IMPORT_FILES_H_
#define MPNANNY_TESTS_RUNS_IMPORT_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engines/runs/run.h"
#include "engines/runs/steps.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {

// --- protocol buffers ----------------------------------------------------------------------------
std::string Varint(uint64_t value);
std::string WireInt(uint64_t number, uint64_t value);
std::string WireBytes(uint64_t number, std::string_view bytes);
std::string WireFloat(uint64_t number, float value);
std::string WireDouble(uint64_t number, double value);

// --- TensorBoard ---------------------------------------------------------------------------------
std::string EventRecord(std::string_view event);
// One event with one scalar, as simple_value.
std::string Scalar(const std::string& tag, int64_t step, float value, double at = 1.7e9);
// … as a tensor of the given dtype, whose field `field` holds it.
std::string TensorScalar(const std::string& tag, int64_t step, std::string_view tensor);

// --- W&B -----------------------------------------------------------------------------------------
// A whole file: the mark, then the records in blocks.
std::string WandbFile(const std::vector<std::string>& records);
// A record of history: pairs of a key and its JSON.
std::string History(int64_t step, const std::vector<std::pair<std::string, std::string>>& items);

// --- what is read --------------------------------------------------------------------------------
struct ReadLog {
  std::vector<runs::StepRow> steps;
  std::string notes;  // all of them, one a line
  std::string error;  // "" if it was read
  std::string format, name, precision;
  int64_t runs = 0;
  const runs::StepRow* Find(int64_t step) const;
};
ReadLog ReadAsRun(const TempFolder& folder, const std::string& handle);

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_IMPORT_FILES_H_
