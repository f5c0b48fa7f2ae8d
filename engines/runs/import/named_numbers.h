// Every number of a line that has a name before it, whatever the name: "ppl=10.2",
// "'rewards/mean': 0.5", "elapsed time per iteration (ms): 1041.3", "wps 1200".
//
// A pure function on text from outside; what it gives borrows the line. Safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_NAMED_NUMBERS_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_NAMED_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mpnanny::imports {

struct NamedNumber {
  std::string_view name;
  double value = 0;
};

// Appends them in the line's order. Clocks, dates, addresses, shares of a bar and places in code
// ("train.py:12") are no figures.
void ReadNamedNumbers(std::string_view line, std::vector<NamedNumber>& into);

// The 3 of slime's "rollout 3: {…}", "perf 3: {…}" and "eval 3: {…}": figures that are counted by
// rollouts beside the steps.
std::optional<int64_t> CountOfOwn(std::string_view line);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_NAMED_NUMBERS_H_
