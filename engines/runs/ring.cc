#include "engines/runs/ring.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "base/resolved_path.h"

namespace mpnanny::runs {
namespace {

constexpr uint64_t kMaxRingFile = 64u << 20;

// Slots of one kind that are whole. `torn` counts slots that hold something but not a whole record.
template <typename Slot>
std::vector<Slot> ReadSlots(std::string_view bytes, uint32_t count, size_t* torn) {
  std::vector<Slot> slots;
  const size_t available = std::min<size_t>(count, bytes.size() / sizeof(Slot));
  for (size_t i = 0; i < available; ++i) {
    Slot slot;
    const char* at = bytes.data() + i * sizeof(Slot);
    std::memcpy(&slot, at, sizeof(Slot));
    if (slot.sequence == 0) continue;
    const bool in_place = (slot.sequence - 1) % count == i;
    if (!in_place ||
        slot.crc != Crc32(at + offsetof(Slot, step), offsetof(Slot, crc) - offsetof(Slot, step))) {
      ++*torn;
      continue;
    }
    slots.push_back(slot);
  }
  return slots;
}

// Sorts by key, newest sequence first within a key, and keeps one of each key.
template <typename Slot, typename Key>
void SortUnique(std::vector<Slot>& slots, Key key) {
  std::sort(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) {
    return key(a) != key(b) ? key(a) < key(b) : a.sequence > b.sequence;
  });
  slots.erase(std::unique(slots.begin(), slots.end(),
                          [&](const Slot& a, const Slot& b) { return key(a) == key(b); }),
              slots.end());
}

}  // namespace

Ring ReadRing(const std::string& database_path) {
  Ring ring;
  const std::string path = RingPath(database_path);
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return ring;
  auto file = ReadResolvedFile(path, kMaxRingFile);
  if (!file) {
    ring.notes.push_back("The flight recorder beside the database cannot be read: " +
                         file.error().Text());
    return ring;
  }
  const std::string_view bytes = *file;
  RingHeader header{};
  if (bytes.size() < sizeof(header)) {
    ring.notes.push_back("The flight recorder beside the database is cut off.");
    return ring;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kRingMagic, sizeof(kRingMagic)) != 0 ||
      header.version != kRingVersion || header.header_bytes != sizeof(RingHeader) ||
      header.step_bytes != sizeof(RingStep) || header.sample_bytes != sizeof(RingSample) ||
      header.step_slots == 0 || header.sample_slots == 0 ||
      header.step_slots > kMaxRingFile / sizeof(RingStep) ||
      header.sample_slots > kMaxRingFile / sizeof(RingSample)) {
    ring.notes.push_back(
        "The flight recorder beside the database has a format that this version does not read.");
    return ring;
  }
  ring.present = true;
  ring.run_id = header.run_id;
  ring.run_started_at = header.run_started_at;
  ring.pid = header.pid;
  ring.end = header.end;
  if (ring.end > kRingClosed) {
    ring.notes.push_back(
        "The run ended properly, but its database could not be written to the end (a full disk, or "
        "another process had locked it): the last steps are those of the flight recorder beside "
        "it.");
  }

  const size_t step_bytes = size_t{header.step_slots} * sizeof(RingStep);
  const size_t sample_bytes = size_t{header.sample_slots} * sizeof(RingSample);
  const std::string_view slots = bytes.substr(sizeof(header));
  if (slots.size() < step_bytes + sample_bytes) {
    ring.notes.push_back(
        "The flight recorder beside the database is cut off; what is left was read.");
  }
  size_t torn = 0;
  ring.steps = ReadSlots<RingStep>(slots.substr(0, step_bytes), header.step_slots, &torn);
  if (slots.size() > step_bytes) {
    ring.samples = ReadSlots<RingSample>(slots.substr(step_bytes), header.sample_slots, &torn);
  }
  // A live writer has one slot open; more than that is damage.
  if (torn > 2) {
    ring.notes.push_back(std::to_string(torn) +
                         " records of the flight recorder are damaged and were left out.");
  }
  SortUnique(ring.steps, [](const RingStep& s) { return s.step; });
  SortUnique(ring.samples, [](const RingSample& s) {
    return std::make_tuple(s.step, s.layer_id, s.kind, s.slot);
  });
  return ring;
}

}  // namespace mpnanny::runs
