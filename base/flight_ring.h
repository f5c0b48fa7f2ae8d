// The flight recorder's file format: what the monitor writes and every reader merges
// (docs/architecture.md).
//
// A memory-mapped file beside the database (`metrics.db` -> `metrics.db-ring`) that outlives
// SIGKILL: the last kRingSteps steps of tier 1 and the last kRingSamples rows of full statistics.
// It is one fixed layout, little-endian, without pointers. One writer (the training process);
// readers map or read it at any time.
//
// Slots are published by their sequence number, a seqlock: the writer sets `sequence` to 0
// (release), fills the slot, computes `crc`, then sets `sequence` (release). A reader copies the
// slot and takes it only if `sequence` is not 0 and `crc` fits what it copied. Sequence numbers
// start at 1 and grow by one; slot = (sequence - 1) % count.
#ifndef MPNANNY_BASE_FLIGHT_RING_H_
#define MPNANNY_BASE_FLIGHT_RING_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace mpnanny {

inline constexpr char kRingMagic[8] = {'M', 'P', 'N', 'Y', 'R', 'I', 'N', 'G'};
inline constexpr uint32_t kRingVersion = 1;
inline constexpr uint32_t kRingSteps = 1024;
inline constexpr uint32_t kRingSamples = 4096;

inline std::string RingPath(const std::string& database) { return database + "-ring"; }

// How the run of a ring ended. The last three: properly, but the database could not be written to
// the end (a full disk, a lock of another process); what it lacks stands here.
enum RingEnd : uint8_t {
  kRingOpen = 0,    // it goes on, or was killed
  kRingClosed = 1,  // the monitor closed properly, everything is in the database
  kRingClosedUnwritten = 2,
  kRingExceptionUnwritten = 3,
  kRingSignalUnwritten = 4,
};

struct RingHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;  // sizeof(RingHeader)
  uint32_t step_slots;
  uint32_t step_bytes;  // sizeof(RingStep)
  uint32_t sample_slots;
  uint32_t sample_bytes;  // sizeof(RingSample)
  int64_t run_id;         // the run that the slots belong to: one ring holds one run
  double run_started_at;  // equals run.started_at; a ring whose pair (run_id, started_at) is not in
                          // the database is stale
  int64_t pid;
  uint8_t end;  // a RingEnd
  uint8_t reserved[63];
};
static_assert(sizeof(RingHeader) == 120 && offsetof(RingHeader, end) == 56);

// Bits of RingStep::known: which of the figures were measured. NaN and Inf are stored as they are.
enum RingKnown : uint32_t {
  kKnownLoss = 1,
  kKnownLr = 2,
  kKnownLossScale = 4,
  kKnownGradNorm = 8,
  kKnownPeakMemory = 16,
  kKnownDuration = 32,
};

struct RingStep {
  uint64_t sequence;
  int64_t step;
  double at;        // Unix seconds
  double duration;  // seconds
  double loss;
  double lr;
  double loss_scale;
  double grad_norm;
  int64_t peak_memory;            // bytes
  uint32_t flags;                 // as step.flags of the schema
  uint32_t known;                 // RingKnown bits
  int32_t first_nonfinite_layer;  // layer_id of the first layer with a non-finite element in this
                                  // step; -1 none
  int32_t nonfinite_layers;       // how many layers had one
  uint32_t crc;                   // CRC-32 (IEEE) of the slot from `step` up to here
  uint32_t reserved;
};
static_assert(sizeof(RingStep) == 96 && offsetof(RingStep, crc) == 88);

struct RingSample {  // one row of tensor_stats without `exponents`
  uint64_t sequence;
  int64_t step;
  int64_t layer_id;
  int32_t kind;
  int32_t slot;
  int32_t dtype;        // meaning 'tensor_stats.dtype'
  uint32_t has_finite;  // 0: min … l2 are not known (NULL in the database)
  int64_t numel, nan, posinf, neginf, zeros;
  double min, max, absmax, absmin, mean, std, rms, l2;
  int64_t below_fp16, subnormal_fp16, above_fp16;
  uint32_t crc;  // CRC-32 (IEEE) of the slot from `step` up to here
  uint32_t reserved;
};
static_assert(sizeof(RingSample) == 176 && offsetof(RingSample, crc) == 168);

inline constexpr size_t kRingBytes =
    sizeof(RingHeader) + kRingSteps * sizeof(RingStep) + kRingSamples * sizeof(RingSample);

// CRC-32 (IEEE 802.3, reflected, as in zlib) of `size` bytes.
uint32_t Crc32(const void* data, size_t size);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_FLIGHT_RING_H_
