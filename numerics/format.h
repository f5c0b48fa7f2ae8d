// Floating-point formats, exactly: limits, subnormals, spacing and rounding to nearest, ties to
// even.
//
// Pure functions on values; no state, safe from any thread. Every figure follows from three numbers
// of a format (exponent range, mantissa bits, what the top exponent means), so a limit and a
// rounding cannot contradict each other.
#ifndef MPNANNY_NUMERICS_FORMAT_H_
#define MPNANNY_NUMERICS_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace mpnanny {

enum class Format { kFp32, kTf32, kFp16, kBf16, kE4M3, kE5M2 };
inline constexpr Format kAllFormats[] = {Format::kFp32, Format::kTf32, Format::kFp16,
                                         Format::kBf16, Format::kE4M3, Format::kE5M2};

struct FormatInfo {
  std::string_view name;        // "fp16"
  std::string_view torch_name;  // "float16"; TF32 has none and repeats its name
  int mantissa_bits;            // stored bits, without the implicit one
  int min_exponent;             // of the smallest normal number: 2^min_exponent
  int max_exponent;             // of the largest finite number
  bool has_infinity;            // E4M3 (the "fn" format) has none: what overflows is NaN
  double max;                   // largest finite
  double min_normal;
  double min_subnormal;
  double epsilon;  // spacing at 1; half of it bounds the relative error of a rounding
};

const FormatInfo& Info(Format format);

// Takes both our names and torch's ("fp16", "float16", "float8_e4m3fn"); nullopt for another word.
std::optional<Format> FormatFromName(std::string_view name);

// `value` rounded to the format. What rounds beyond the maximum is infinite (NaN in E4M3); NaN
// stays NaN; the sign of zero is kept.
double RoundTo(Format format, double value);

// Distance between the representable numbers at the magnitude of `value` (in the subnormals: the
// smallest one). NaN for a value that is not finite or beyond the maximum.
double Ulp(Format format, double value);

// Decoding of stored bits; exact.
float Fp16ToFloat(uint16_t bits);
float Bf16ToFloat(uint16_t bits);
float E4M3ToFloat(uint8_t bits);  // float8_e4m3fn
float E5M2ToFloat(uint8_t bits);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_FORMAT_H_
