#include "base/result.h"

namespace mpnanny {

const char* ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidInput:
      return "InvalidInput";
    case ErrorKind::kNotFound:
      return "NotFound";
    case ErrorKind::kUnavailable:
      return "Unavailable";
    case ErrorKind::kDeadlineExceeded:
      return "DeadlineExceeded";
    case ErrorKind::kCancelled:
      return "Cancelled";
    case ErrorKind::kDataCorrupt:
      return "DataCorrupt";
    case ErrorKind::kInternal:
      return "Internal";
  }
  return "Internal";
}

}  // namespace mpnanny
