// Reading and writing descriptors that somebody may stop listening to, and taking the standard
// streams for a protocol.
//
// Free functions. Reads and writes wait for the descriptor and for a StopEvent at once, so that
// neither a silent nor a stuck peer keeps the process from ending.
#ifndef MPNANNY_BASE_DESCRIPTORS_H_
#define MPNANNY_BASE_DESCRIPTORS_H_

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "base/stop_event.h"

namespace mpnanny {

struct ProtocolStreams {
  int in = -1;
  int out = -1;
};

// Private copies of stdin and stdout; descriptor 0 then reads nothing and descriptor 1 is stderr,
// so whatever a library or a child process prints or reads cannot disturb the protocol.
Result<ProtocolStreams> TakeStandardStreams();

enum class ReadStatus { kData, kEnd, kStopped };

struct ReadOutcome {
  ReadStatus status = ReadStatus::kEnd;
  size_t bytes = 0;  // for kData, at least 1
};

// Waits for data, the end of the stream (or an error on it), or the stop event, which wins.
ReadOutcome ReadSome(int fd, char* buffer, size_t capacity, const StopEvent& stop);

// Writes everything; false if the reader is gone. Once the stop event is raised, a reader who takes
// nothing for 200 ms counts as gone.
bool WriteWhole(int fd, std::string_view bytes, const StopEvent& stop);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_DESCRIPTORS_H_
