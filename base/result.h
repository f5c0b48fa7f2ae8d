// Result<T>: a value or an Error, in place of exceptions.
//
// Every function that can fail returns one. The kinds are a closed list (docs/architecture.md,
// "Errors"): the server maps a kind to the wire in one place, and the command line to an exit code
// in one place. Member names follow std::expected, so that a later switch is mechanical. Plain
// values, no shared state; safe to move between threads.
#ifndef MPNANNY_BASE_RESULT_H_
#define MPNANNY_BASE_RESULT_H_

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace mpnanny {

enum class ErrorKind {
  kInvalidInput,      // the caller's argument or file is wrong; another one would work
  kNotFound,          // what was named does not exist
  kUnavailable,       // something needed is missing or busy; the hint says how to get it
  kDeadlineExceeded,  // time ran out
  kCancelled,         // the caller no longer wants the answer
  kDataCorrupt,       // a file is damaged
  kInternal,          // our bug
};

// "InvalidInput", "NotFound" …: the word used in JSON and on the command line.
const char* ErrorKindName(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // what was wrong, and where
  std::string hint;     // what to try; may be empty

  // "message (hint)" in one line.
  std::string Text() const { return hint.empty() ? message : message + " " + hint; }
};

inline Error InvalidInput(std::string message, std::string hint = "") {
  return {ErrorKind::kInvalidInput, std::move(message), std::move(hint)};
}
inline Error NotFound(std::string message, std::string hint = "") {
  return {ErrorKind::kNotFound, std::move(message), std::move(hint)};
}
inline Error Unavailable(std::string message, std::string hint = "") {
  return {ErrorKind::kUnavailable, std::move(message), std::move(hint)};
}
inline Error DataCorrupt(std::string message, std::string hint = "") {
  return {ErrorKind::kDataCorrupt, std::move(message), std::move(hint)};
}
inline Error Cancelled() { return {ErrorKind::kCancelled, "The call was cancelled.", ""}; }
inline Error DeadlineExceeded(std::string message, std::string hint = "") {
  return {ErrorKind::kDeadlineExceeded, std::move(message), std::move(hint)};
}
inline Error Internal(std::string message) {
  return {ErrorKind::kInternal, std::move(message), ""};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace mpnanny

// MPN_TRY(F()): returns F's error to the caller, if it has one.
#define MPN_TRY(...)                                  \
  do {                                                \
    if (auto mpn_tried = (__VA_ARGS__); !mpn_tried) { \
      return std::move(mpn_tried).error();            \
    }                                                 \
  } while (false)

// MPN_TRY_ASSIGN(auto rows, F()): the same, and `rows` is F's value. Several statements: within
// braces.
#define MPN_TRY_ASSIGN(declaration, ...) \
  MPN_TRY_ASSIGN_AS_(MPN_TRY_NAME_(__LINE__), declaration, (__VA_ARGS__))
#define MPN_TRY_ASSIGN_AS_(tried, declaration, expression) \
  auto tried = expression;                                 \
  if (!tried) return std::move(tried).error();             \
  declaration = *std::move(tried)
#define MPN_TRY_NAME_(line) MPN_TRY_NAME_OF_(line)
#define MPN_TRY_NAME_OF_(line) mpn_tried_##line

#endif  // MPNANNY_BASE_RESULT_H_
