// What FileView does the same in every system; the rest is in base/os_*file_view.cc.
#include <utility>

#include "base/os_file_view.h"

namespace mpnanny {

FileView::FileView(FileView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      slot_(std::exchange(other.slot_, -1)) {}

FileView& FileView::operator=(FileView&& other) noexcept {
  if (this != &other) {
    Release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    slot_ = std::exchange(other.slot_, -1);
  }
  return *this;
}

FileView::~FileView() { Release(); }

}  // namespace mpnanny
