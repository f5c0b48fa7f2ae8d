// Reads the elements of a tensor of any layout as doubles, block by block, so that a pass can go
// through several tensors side by side.
//
// Borrows the view and its memory; nothing is allocated. One reader belongs to one thread. Internal
// to numerics/.
#ifndef MPNANNY_NUMERICS_ELEMENT_READER_H_
#define MPNANNY_NUMERICS_ELEMENT_READER_H_

#include <algorithm>

#include "numerics/element_blocks.h"

namespace mpnanny::internal {

// Elements in the order of their indices.
class ElementReader {
 public:
  explicit ElementReader(const TensorView& view)
      : view_(view), layout_(OrderedLayout(view)), cursor_(layout_) {}
  ElementReader(const ElementReader&) = delete;
  ElementReader& operator=(const ElementReader&) = delete;

  // At most kBlock.
  void Read(int64_t count, double* out) {
    Piece piece;
    for (; count > 0 && cursor_.Next(count, piece); count -= piece.count, out += piece.count) {
      switch (ElementBytes(view_.dtype)) {
        case 8:
          Gather<8>(view_.data, piece, reinterpret_cast<char*>(out));
          break;
        case 4:
          Decode<4>(piece, out);
          break;
        case 2:
          Decode<2>(piece, out);
          break;
        default:
          Decode<1>(piece, out);
      }
    }
  }

 private:
  template <int kBytes>
  void Decode(const Piece& piece, double* out) {
    char together[kBlock * kBytes];
    const char* from = static_cast<const char*>(view_.data) + piece.offset * kBytes;
    if (piece.stride != 1) {
      Gather<kBytes>(view_.data, piece, together);
      from = together;
    }
    float decoded[kBlock];
    DecodeElements(view_.dtype, from, piece.count, decoded);
    std::copy(decoded, decoded + piece.count, out);
  }

  const TensorView& view_;
  const Layout layout_;
  PieceCursor cursor_;
};

}  // namespace mpnanny::internal

#endif  // MPNANNY_NUMERICS_ELEMENT_READER_H_
