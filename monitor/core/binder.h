// Binds a row's values to a statement, one after another. Internal to the database's writer.
#ifndef MPNANNY_MONITOR_CORE_BINDER_H_
#define MPNANNY_MONITOR_CORE_BINDER_H_

#include <sqlite3.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny {

// Binds values one after another: numbers that are not finite and empty optionals become NULL.
class Binder {
 public:
  explicit Binder(sqlite3_stmt* statement) : statement_(statement) {}
  Binder& Add(int64_t value) { return sqlite3_bind_int64(statement_, ++index_, value), *this; }
  Binder& Add(double value) {
    ++index_;
    if (std::isfinite(value)) sqlite3_bind_double(statement_, index_, value);
    return *this;
  }
  Binder& Add(std::string_view value) {
    sqlite3_bind_text(statement_, ++index_, value.data(), static_cast<int>(value.size()),
                      SQLITE_TRANSIENT);
    return *this;
  }
  template <typename T>
  Binder& Add(const std::optional<T>& value) {
    if (value) return Add(*value);
    ++index_;
    return *this;
  }
  Binder& Null() { return ++index_, *this; }
  Binder& OrNull(std::string_view value) { return value.empty() ? Null() : Add(value); }
  Binder& Blob(const std::string& value) {
    ++index_;
    if (!value.empty()) {
      sqlite3_bind_blob(statement_, index_, value.data(), static_cast<int>(value.size()),
                        SQLITE_TRANSIENT);
    }
    return *this;
  }

 private:
  sqlite3_stmt* statement_;
  int index_ = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_BINDER_H_
