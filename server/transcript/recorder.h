// Writes a session down while it happens, as a transcript that can be replayed.
//
// What differs from run to run is written as a name or as {"$any": true} (see PatternOf). One
// recorder a session; it owns the file. Thread-safe: messages come and go on several threads.
#ifndef MPNANNY_SERVER_TRANSCRIPT_RECORDER_H_
#define MPNANNY_SERVER_TRANSCRIPT_RECORDER_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/new_file.h"
#include "base/result.h"
#include "server/transcript/names.h"
#include "server/transport/transport.h"

namespace mpnanny {

class Recorder {
 public:
  // Makes the file; an error if it exists. `roots`: the server's, absolute.
  static Result<std::unique_ptr<Recorder>> Create(const std::string& path,
                                                  const std::vector<std::string>& roots);

  // A message of the client, as it came.
  void Received(std::string_view text);

  // A sink that writes down what goes to `sink`. The recorder must outlive it.
  std::shared_ptr<MessageSink> Wrap(std::shared_ptr<MessageSink> sink);

  // The client has closed its end. What the server still says comes after that.
  void Ended();

 private:
  Recorder(NewFile file, const std::vector<std::string>& roots);
  void Sent(const Json& message);
  void Write(const Json& step);  // under mutex_
  Json PatternOf(const Json& message);

  std::mutex mutex_;
  NewFile file_;      // guarded by mutex_
  Names names_;       // guarded by mutex_
  int handles_ = 0;   // guarded by mutex_; how many were named
  bool well_ = true;  // guarded by mutex_; false once writing failed
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSCRIPT_RECORDER_H_
