// How facts of a run are put into words: numbers, times, names. Shared by the tools that show runs.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_RUNS_SHOW_H_
#define MPNANNY_ENGINES_RUNS_SHOW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny::runs {

// Layer names are cut here in answers; a filter takes "*" for the rest.
inline constexpr size_t kShownNameBytes = 160;

// "65504", "1.25e-08", "nan", "inf", "-inf".
std::string Number(double value, int digits = 5);
// The same; "not known" for an absent value.
std::string Number(const std::optional<double>& value, int digits = 5);
// "2026-01-31T12:00:00Z" of Unix seconds; "" if out of range.
std::string Time(double unix_seconds);
// A name out of a user's file, safe and not too long.
std::string Name(std::string_view raw);
// "1 step", "2 steps"; "2 losses" with the plural given.
std::string Count(int64_t n, std::string_view noun, std::string_view plural = "");

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SHOW_H_
