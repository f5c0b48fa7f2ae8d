// The standard streams of a process that was started without some of them.
#include "base/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stop_event.h"

namespace mpnanny {
namespace {

enum Seen { kTaken = 0, kRefused = 3, kLowDescriptor = 4, kNoStderr = 5 };

// What a child sees that closes `closed` before anything else.
int StartedWithout(int closed) {
  const pid_t child = fork();
  if (child == 0) {
    close(closed);
    const StopEvent stop;
    if (stop.fd() < 3) _exit(kLowDescriptor);
    if (!TakeStandardStreams()) _exit(kRefused);
    const bool whole = fcntl(STDERR_FILENO, F_GETFD) != -1 && write(STDERR_FILENO, "", 1) == 1 &&
                       write(STDOUT_FILENO, "", 1) == 1;
    _exit(whole ? kTaken : kNoStderr);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardStreams, WithoutStdinOrStdoutThereIsNoProtocol) {
  EXPECT_EQ(StartedWithout(STDIN_FILENO), kRefused);
  EXPECT_EQ(StartedWithout(STDOUT_FILENO), kRefused);
}

TEST(StandardStreams, AClosedStderrIsNotLeftToTheNextFile) {
  EXPECT_EQ(StartedWithout(STDERR_FILENO), kTaken);
}

}  // namespace
}  // namespace mpnanny
