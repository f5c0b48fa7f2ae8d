#include "monitor/core/flight_recorder.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "base/process_info.h"

namespace mpnanny {
namespace {

// Publishes `slot` over `*place` as flight_ring.h asks: sequence 0, the contents, then the
// sequence.
template <typename Slot>
void Publish(Slot* place, Slot slot, uint64_t sequence) {
  constexpr size_t kFrom = offsetof(Slot, step), kTo = offsetof(Slot, crc);
  slot.sequence = 0;
  slot.crc = Crc32(reinterpret_cast<const uint8_t*>(&slot) + kFrom, kTo - kFrom);
  const std::atomic_ref<uint64_t> published(place->sequence);
  published.store(0, std::memory_order_release);
  // Keeps the contents from being stored before the zero.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::memcpy(reinterpret_cast<uint8_t*>(place) + kFrom,
              reinterpret_cast<const uint8_t*>(&slot) + kFrom, sizeof(Slot) - kFrom);
  published.store(sequence, std::memory_order_release);
}

template <typename Slot>
std::vector<Slot> Valid(const Slot* slots, uint32_t count) {
  constexpr size_t kFrom = offsetof(Slot, step), kTo = offsetof(Slot, crc);
  std::vector<Slot> valid;
  for (uint32_t i = 0; i < count; ++i) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&slots[i]);
    if (slots[i].sequence != 0 && Crc32(bytes + kFrom, kTo - kFrom) == slots[i].crc)
      valid.push_back(slots[i]);
  }
  std::sort(valid.begin(), valid.end(),
            [](const Slot& a, const Slot& b) { return a.sequence < b.sequence; });
  return valid;
}

double Known(const std::optional<double>& value, uint32_t bit, uint32_t& known) {
  if (value) known |= bit;
  return value.value_or(0);
}

}  // namespace

Result<FlightRecorder> FlightRecorder::Open(const std::string& database) {
  Result<MappedFile> file = MappedFile::OpenLocked(RingPath(database), kRingBytes);
  if (!file) return file.error();
  return FlightRecorder(*std::move(file));
}

RingHeader* FlightRecorder::header() const { return reinterpret_cast<RingHeader*>(file_.data()); }
RingStep* FlightRecorder::steps() const {
  return reinterpret_cast<RingStep*>(file_.data() + sizeof(RingHeader));
}
RingSample* FlightRecorder::samples() const {
  return reinterpret_cast<RingSample*>(file_.data() + sizeof(RingHeader) +
                                       kRingSteps * sizeof(RingStep));
}

RingRemains FlightRecorder::Remains() const {
  const RingHeader& head = *header();
  RingRemains remains;
  if (std::memcmp(head.magic, kRingMagic, sizeof(kRingMagic)) != 0 ||
      head.version != kRingVersion || head.header_bytes != sizeof(RingHeader) ||
      head.step_slots != kRingSteps || head.step_bytes != sizeof(RingStep) ||
      head.sample_slots != kRingSamples || head.sample_bytes != sizeof(RingSample) ||
      head.end == kRingClosed) {
    return remains;
  }
  remains.run_id = head.run_id;
  remains.run_started_at = head.run_started_at;
  remains.steps = Valid(steps(), kRingSteps);
  remains.samples = Valid(samples(), kRingSamples);
  if (head.end != kRingOpen) {
    remains.end_reason = head.end == kRingExceptionUnwritten ? "exception"
                         : head.end == kRingSignalUnwritten  ? "signal"
                                                             : "closed";
  }
  return remains;
}

void FlightRecorder::Start(int64_t run_id, double started_at, int64_t layer_offset) {
  // Without its magic the file is no ring while it is being changed.
  std::memset(file_.data(), 0, kRingBytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  RingHeader head{};
  head.version = kRingVersion;
  head.header_bytes = sizeof(RingHeader);
  head.step_slots = kRingSteps;
  head.step_bytes = sizeof(RingStep);
  head.sample_slots = kRingSamples;
  head.sample_bytes = sizeof(RingSample);
  head.run_id = run_id;
  head.run_started_at = started_at;
  head.pid = CurrentProcess();
  *header() = head;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::memcpy(header()->magic, kRingMagic, sizeof(kRingMagic));
  step_sequence_ = sample_sequence_ = 0;
  layer_offset_ = layer_offset;
}

void FlightRecorder::Write(const StepRow& row) {
  if (step_sequence_ == 0 || row.step != last_step_) ++step_sequence_;
  last_step_ = row.step;
  RingStep slot{};
  uint32_t known = 0;
  slot.step = row.step;
  slot.at = row.at;
  slot.duration = Known(row.duration, kKnownDuration, known);
  slot.loss = Known(row.loss, kKnownLoss, known);
  slot.lr = Known(row.lr, kKnownLr, known);
  slot.loss_scale = Known(row.loss_scale, kKnownLossScale, known);
  slot.grad_norm = Known(row.grad_norm, kKnownGradNorm, known);
  slot.peak_memory = row.peak_memory.value_or(0);
  if (row.peak_memory) known |= kKnownPeakMemory;
  slot.flags = row.flags;
  slot.known = known;
  slot.first_nonfinite_layer =
      row.first_nonfinite_layer < 0
          ? -1
          : static_cast<int32_t>(row.first_nonfinite_layer + layer_offset_);
  slot.nonfinite_layers = static_cast<int32_t>(row.nonfinite_layers);
  Publish(&steps()[(step_sequence_ - 1) % kRingSteps], slot, step_sequence_);
}

void FlightRecorder::Write(const SampleRow& row) {
  ++sample_sequence_;
  const TensorStats& stats = row.stats;
  RingSample slot{};
  slot.step = row.step;
  slot.layer_id = row.layer + layer_offset_;
  slot.kind = static_cast<int32_t>(row.kind);
  slot.slot = row.slot;
  slot.dtype = static_cast<int32_t>(row.dtype);
  slot.has_finite = stats.finite > 0;
  slot.numel = stats.numel;
  slot.nan = stats.nan;
  slot.posinf = stats.posinf;
  slot.neginf = stats.neginf;
  slot.zeros = stats.zeros;
  slot.min = stats.min;
  slot.max = stats.max;
  slot.absmax = stats.absmax;
  slot.absmin = stats.absmin;
  slot.mean = stats.mean;
  slot.std = stats.std();
  slot.rms = stats.rms();
  slot.l2 = stats.l2();
  slot.below_fp16 = stats.below_fp16;
  slot.subnormal_fp16 = stats.subnormal_fp16;
  slot.above_fp16 = stats.above_fp16;
  Publish(&samples()[(sample_sequence_ - 1) % kRingSamples], slot, sample_sequence_);
}

void FlightRecorder::MarkClosed() { header()->end = kRingClosed; }

void FlightRecorder::MarkUnwritten(const Word<EndReason>& end_reason) {
  header()->end = end_reason == EndReason::kException ? kRingExceptionUnwritten
                  : end_reason == EndReason::kSignal  ? kRingSignalUnwritten
                                                      : kRingClosedUnwritten;
}

}  // namespace mpnanny
