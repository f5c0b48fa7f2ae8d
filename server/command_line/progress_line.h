// One line on a terminal that tells how far something is which takes longer than two seconds, gone
// again when it ends.
//
// Owns a thread from construction to Done(); the stream is the thread's until then. What Report()
// makes may be called from any thread, and not after Done().
#ifndef MPNANNY_SERVER_COMMAND_LINE_PROGRESS_LINE_H_
#define MPNANNY_SERVER_COMMAND_LINE_PROGRESS_LINE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace mpnanny {

class ProgressLine {
 public:
  // `shown`: the stream is a terminal; else nothing is written, and nothing runs.
  ProgressLine(std::ostream& stream, bool shown, std::string what,
               std::chrono::milliseconds after = std::chrono::seconds(2));
  ~ProgressLine() { Done(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // For ToolContext::progress; null where nothing is shown.
  std::function<void(double, std::optional<double>, const std::string&)> Report();

  // Erases the line. The stream is the caller's again.
  void Done();

 private:
  void Show(std::chrono::milliseconds after);

  std::ostream& stream_;
  const std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string told_;   // guarded by mutex_
  bool done_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_PROGRESS_LINE_H_
