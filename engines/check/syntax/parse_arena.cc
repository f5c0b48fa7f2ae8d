#include "engines/check/syntax/parse_arena.h"

#include <tree_sitter/api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace mpnanny::check {
namespace {

constexpr size_t kBlockBytes = 256u << 10;
// Blocks that a thread keeps for its next tree: fresh memory costs as much as parsing into it.
constexpr size_t kMostSpare = 16;
constexpr size_t kWord = sizeof(uint64_t);  // tree-sitter's structures need no more alignment

thread_local ParseArena* active = nullptr;

// Every piece begins with its size in bytes, a multiple of kWord.
uint64_t& SizeOf(void* memory) { return static_cast<uint64_t*>(memory)[-1]; }

void* OnHeap(void* memory, size_t size) {
  if (memory == nullptr && size > 0) std::abort();  // as tree-sitter does
  return memory;
}

}  // namespace

ParseArena::Scope::Scope(ParseArena* arena) { active = arena; }
ParseArena::Scope::~Scope() { active = nullptr; }

void ParseArena::Install() {
  static const bool installed = [] {
    ts_set_allocator(
        [](size_t size) {
          return active != nullptr ? active->Allocate(size) : OnHeap(std::malloc(size), size);
        },
        [](size_t count, size_t size) {
          if (active == nullptr) return OnHeap(std::calloc(count, size), count * size);
          return std::memset(active->Allocate(count * size), 0, count * size);
        },
        [](void* memory, size_t size) {
          return active != nullptr ? active->Reallocate(memory, size)
                                   : OnHeap(std::realloc(memory, size), size);
        },
        [](void* memory) { active != nullptr ? active->Free(memory) : std::free(memory); });
    return true;
  }();
  (void)installed;
}

std::vector<ParseArena::Block>& ParseArena::Spare() {
  thread_local std::vector<Block> spare;
  return spare;
}

ParseArena::~ParseArena() {
  std::vector<Block>& spare = Spare();
  for (Block& block : blocks_) {
    if (spare.size() == kMostSpare) break;
    spare.push_back(std::move(block));
  }
}

std::byte* ParseArena::NewBlock(size_t size) {
  if (size > kBlockBytes / 4) {
    large_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    return large_.back().get();
  }
  std::vector<Block>& spare = Spare();
  if (spare.empty()) {
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes));
  } else {
    blocks_.push_back(std::move(spare.back()));
    spare.pop_back();
  }
  at_ = blocks_.back().get() + size;
  end_ = blocks_.back().get() + kBlockBytes;
  return blocks_.back().get();
}

void* ParseArena::Allocate(size_t size) {
  const size_t words = std::max<size_t>((size + kWord - 1) / kWord, 1);
  if (words < kClasses && freed_[words] != nullptr) {
    Piece* piece = freed_[words];
    freed_[words] = piece->next;
    return piece;
  }
  const size_t bytes = (words + 1) * kWord;
  std::byte* piece = at_;
  if (bytes <= static_cast<size_t>(end_ - at_)) {
    at_ += bytes;
  } else {
    piece = NewBlock(bytes);
  }
  void* memory = piece + kWord;
  SizeOf(memory) = words * kWord;
  return memory;
}

void* ParseArena::Reallocate(void* memory, size_t size) {
  if (memory == nullptr) return Allocate(size);
  const size_t had = SizeOf(memory);
  if (size <= had) return memory;
  void* larger = Allocate(size);
  std::memcpy(larger, memory, had);
  Free(memory);
  return larger;
}

void ParseArena::Free(void* memory) {
  if (memory == nullptr) return;
  const size_t words = SizeOf(memory) / kWord;
  if (words >= kClasses) return;
  auto* piece = static_cast<Piece*>(memory);
  piece->next = freed_[words];
  freed_[words] = piece;
}

}  // namespace mpnanny::check
