// The kernels of numerics/ beside a plain vector read of the same memory: one JSON line for each
// dtype and size. Called by bench/stats.py; see bench/README.md.
//
// Time is the thread's own processor time, so that others on the machine cost cache and memory
// speed, not the time in which they ran. In each round everything is measured in turns; figures are
// medians over the rounds.
#include <time.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "numerics/simd.h"
#include "numerics/tensor_stats.h"
#include "numerics/update_stats.h"

namespace {

using namespace mpnanny;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Loads everything, does next to nothing with it. As wide as the CPU has: what a kernel that only
// has to read could reach.
using Wide = uint64_t __attribute__((vector_size(64), aligned(1)));
inline __attribute__((always_inline)) uint64_t ReadInline(const char* from, size_t bytes) {
  Wide a = {}, b = {}, c = {}, d = {};
  const auto* at = reinterpret_cast<const Wide*>(from);
  for (const auto* const end = at + bytes / 64; at != end; at += 4) {
    a |= at[0];
    b |= at[1];
    c |= at[2];
    d |= at[3];
  }
  const Wide sum = a | b | c | d;
  uint64_t all = 0;
  for (int i = 0; i < 8; ++i) all |= sum[i];
  return all;
}
#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t Read512(const char* from, size_t bytes) {
  return ReadInline(from, bytes);
}
__attribute__((target("avx2"))) uint64_t Read256(const char* from, size_t bytes) {
  return ReadInline(from, bytes);
}
uint64_t PlainRead(const char* from, size_t bytes) {
  if (__builtin_cpu_supports("avx512f")) return Read512(from, bytes);
  if (__builtin_cpu_supports("avx2")) return Read256(from, bytes);
  return ReadInline(from, bytes);
}
#else
uint64_t PlainRead(const char* from, size_t bytes) { return ReadInline(from, bytes); }
#endif

// Truncated to 16 bits or 8; values near 0 become 0. Any value will do.
uint32_t Encode(DType dtype, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127;
  const uint32_t mantissa = bits & 0x7fffff;
  const auto small = [&](int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t place = sign << (exponent_bits + mantissa_bits);
    if (exponent < 1 - bias) return place;
    return place | static_cast<uint32_t>(exponent + bias) << mantissa_bits |
           mantissa >> (23 - mantissa_bits);
  };
  switch (dtype) {
    case DType::kFloat16:
      return small(5, 10);
    case DType::kBFloat16:
      return bits >> 16;
    case DType::kFloat8E4M3:
      return small(4, 3);
    case DType::kFloat8E5M2:
      return small(5, 2);
    default:
      return bits;
  }
}

std::vector<char> Normal(DType dtype, int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto bytes = static_cast<size_t>(ElementBytes(dtype));
  std::vector<char> memory(static_cast<size_t>(count) * bytes);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const float x = normal(random);
    const uint32_t bits = Encode(dtype, x);
    const auto wide = static_cast<double>(x);
    if (bytes == 8) std::memcpy(&memory[8 * i], &wide, 8);
    if (bytes < 8) std::memcpy(&memory[bytes * i], &bits, bytes);
  }
  return memory;
}

volatile double sink;

struct Measured {
  std::string name;
  std::function<void()> run;
  std::vector<double> rates, ratios;
};

void Measure(DType dtype, int64_t bytes, int rounds) {
  const int64_t count = bytes / ElementBytes(dtype);
  const std::vector<char> memory = Normal(dtype, count);
  const int64_t shape[] = {count};
  const TensorView view{memory.data(), dtype, shape, {}};
  std::vector<Measured> all;
  all.push_back({"read",
                 [&] { sink = static_cast<double>(PlainRead(memory.data(), memory.size())); },
                 {},
                 {}});
  all.push_back({"nonfinite", [&] { sink = HasNonFinite(view); }, {}, {}});
  all.push_back({"squares", [&] { sink = SumOfSquares(view); }, {}, {}});
  all.push_back({"stats", [&] { sink = ComputeStats(view).mean; }, {}, {}});
  all.push_back({"stats+exponents",
                 [&] {
                   ExponentHistogram counts;
                   sink = ComputeStats(view, &counts).mean + static_cast<double>(counts[127]);
                 },
                 {},
                 {}});
  all.push_back(
      {"exponents", [&] { sink = static_cast<double>(CountExponents(view)[127]); }, {}, {}});
  if (bytes <= int64_t{1} << 20) {
    all.push_back({"update", [&] { sink = ComputeUpdate(view, view).update.mean; }, {}, {}});
  }
  for (int round = 0; round <= rounds; ++round) {
    double read = 0;
    for (Measured& each : all) {
      int64_t times = 0;
      const double start = CpuSeconds();
      double spent = 0;
      for (int64_t batch = 1; spent < 4e-3; batch *= 2) {
        for (int64_t i = 0; i < batch; ++i) each.run();
        times += batch;
        spent = CpuSeconds() - start;
      }
      const double rate = static_cast<double>(bytes * times) / spent * 1e-9;
      if (each.name == "read") read = rate;
      if (round == 0) continue;  // to warm up
      each.rates.push_back(rate);
      each.ratios.push_back(rate / read);
    }
  }
  std::printf("{\"dtype\": \"%s\", \"bytes\": %lld, \"level\": \"%s\"",
              std::string(DTypeName(dtype)).c_str(), static_cast<long long>(bytes),
              std::string(SimdLevelName(CurrentSimdLevel())).c_str());
  for (const Measured& each : all) {
    std::printf(", \"%s\": {\"gbps\": %.3f, \"of_read\": %.4f, \"best\": %.3f}",
                each.name.c_str(), Median(each.rates), Median(each.ratios),
                *std::max_element(each.rates.begin(), each.rates.end()));
  }
  std::printf("}\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  std::string level, only;
  std::vector<int64_t> sizes = {int64_t{16} << 10, int64_t{512} << 10, int64_t{64} << 20};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--rounds") rounds = std::atoi(argv[i + 1]);
    if (option == "--level") level = argv[i + 1];
    if (option == "--dtype") only = argv[i + 1];
    if (option == "--bytes") sizes = {std::atoll(argv[i + 1])};
  }
  for (const SimdLevel each : AvailableSimdLevels()) {
    if (level == SimdLevelName(each)) UseSimdLevel(each);
  }
  for (int dtype = 1; dtype < kDTypes; ++dtype) {
    if (!only.empty() && only != DTypeName(static_cast<DType>(dtype))) continue;
    for (const int64_t bytes : sizes) Measure(static_cast<DType>(dtype), bytes, rounds);
  }
}
