// The memory of one syntax tree: what tree-sitter allocates while it parses comes from a few large
// blocks, and is freed with them at once instead of node by node.
//
// An arena owns its blocks. Allocate while a Scope of it lives, from that thread only; destroy it
// from any thread. What was allocated in it must not be freed afterwards: a tree is dropped by
// dropping its arena, without ts_tree_delete().
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_PARSE_ARENA_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_PARSE_ARENA_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace mpnanny::check {

class ParseArena {
 public:
  ParseArena() = default;
  ~ParseArena();
  ParseArena(const ParseArena&) = delete;
  ParseArena& operator=(const ParseArena&) = delete;

  // Makes tree-sitter ask for arenas; without one it uses the heap as before. Call before other
  // threads use tree-sitter.
  static void Install();

  // While it lives, tree-sitter's memory on this thread comes from the arena. Not nested.
  class Scope {
   public:
    explicit Scope(ParseArena* arena);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  void* Allocate(size_t size);
  void* Reallocate(void* memory, size_t size);
  void Free(void* memory);

 private:
  // Freed pieces of up to this many words are used again; larger ones are rare.
  static constexpr size_t kClasses = 128;
  struct Piece {
    Piece* next;
  };
  using Block = std::unique_ptr<std::byte[]>;
  static std::vector<Block>& Spare();
  std::byte* NewBlock(size_t size);

  std::vector<Block> blocks_;  // of kBlockBytes
  std::vector<Block> large_;   // what does not fit into one
  std::byte* at_ = nullptr;    // free part of the last block
  std::byte* end_ = nullptr;
  std::array<Piece*, kClasses> freed_ = {};  // by words
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_PARSE_ARENA_H_
