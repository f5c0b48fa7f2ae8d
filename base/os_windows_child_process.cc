#include <windows.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/child_process.h"
#include "base/os_windows_io.h"
#include "base/os_windows_start.h"
#include "base/os_windows_text.h"
#include "base/text.h"

namespace mpnanny {
namespace {

using Clock = ChildProcess::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kEndGrace{300};  // between the end of its input and its own
constexpr size_t kMostAhead = 1u << 20;

DWORD Remaining(Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  return static_cast<DWORD>(std::clamp<int64_t>(left, 0, 1'000'000));
}

}  // namespace

// Windows' pipes cannot be waited for: two threads read them into memory, and the object's thread
// waits for that.
struct ChildProcess::System {
  StartedProgram program;
  std::mutex mutex;
  std::condition_variable changed;
  std::string out;  // not yet taken; guarded by mutex, as all below
  std::string err;
  bool out_ended = false;
  bool err_ended = false;
  bool dropped = false;  // nobody takes any more
  std::thread out_reader;
  std::thread err_reader;

  void Read(HANDLE pipe, std::string& into, bool& ended, bool keep_end_only) {
    std::array<char, 16384> buffer;
    while (true) {
      DWORD n = 0;
      const bool well = ReadFile(pipe, buffer.data(), buffer.size(), &n, nullptr) != 0;
      std::unique_lock lock(mutex);
      if (!well) break;  // ERROR_BROKEN_PIPE: its last writer has closed it
      if (keep_end_only && into.size() > 2 * kMostErrorBytes) {
        into.erase(0, into.size() - kMostErrorBytes);
      }
      if (!keep_end_only) changed.wait(lock, [&] { return into.size() < kMostAhead || dropped; });
      if (!dropped) into.append(buffer.data(), n);
      changed.notify_all();
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }
};

ChildProcess::ChildProcess(std::unique_ptr<System> system) : system_(std::move(system)) {
  System& s = *system_;
  s.out_reader = std::thread([&s] { s.Read(s.program.out, s.out, s.out_ended, false); });
  s.err_reader = std::thread([&s] { s.Read(s.program.err, s.err, s.err_ended, true); });
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& words, const std::vector<EnvironmentChange>& changes) {
  auto system = std::make_unique<System>();
  MPN_TRY_ASSIGN(auto started, StartProgram(words, changes));
  system->program = started;
  return std::unique_ptr<ChildProcess>(new ChildProcess(std::move(system)));
}

ChildProcess::~ChildProcess() {
  CloseInput();
  Wait(Clock::now() + kEndGrace);
  TerminateJobObject(system_->program.job, 1);  // what it left behind, too
  {
    const std::lock_guard lock(system_->mutex);
    system_->dropped = true;
    system_->changed.notify_all();
  }
  system_->out_reader.join();
  system_->err_reader.join();
  for (const HANDLE each : {system_->program.out, system_->program.err, system_->program.process,
                            system_->program.job}) {
    CloseHandle(each);
  }
}

bool ChildProcess::WriteLine(std::string_view line, Clock::time_point until) {
  std::string whole(line);
  whole += '\n';
  for (std::string_view bytes = whole; !bytes.empty();) {
    if (system_->program.in == nullptr) return false;
    DWORD n = 0;
    const CancelledIo in_time(system_->program.process, Remaining(until), 0);
    const auto size = static_cast<DWORD>(std::min<size_t>(bytes.size(), 64u << 10));
    if (!WriteFile(system_->program.in, bytes.data(), size, &n, nullptr)) return false;
    bytes.remove_prefix(n);
  }
  return true;
}

void ChildProcess::CloseInput() {
  if (system_->program.in != nullptr) CloseHandle(std::exchange(system_->program.in, nullptr));
}

void ChildProcess::TakeErrors() {
  const std::lock_guard lock(system_->mutex);
  errors_ += std::exchange(system_->err, {});
  if (errors_.size() > 2 * kMostErrorBytes) errors_.erase(0, errors_.size() - kMostErrorBytes);
}

ChildProcess::Line ChildProcess::ReadLine(Clock::time_point until) {
  size_t searched = 0;
  while (true) {
    if (const size_t newline = partial_.find('\n', searched); newline != std::string::npos) {
      std::string line = partial_.substr(0, newline);
      partial_.erase(0, newline + 1);
      if (line.ends_with('\r')) line.pop_back();  // as programs end lines in Windows
      return {ReadStatus::kLine, std::move(line)};
    }
    searched = partial_.size();
    if (partial_.size() > kMostLineBytes) return {ReadStatus::kTooLong, partial_.substr(0, 1000)};
    TakeErrors();
    std::unique_lock lock(system_->mutex);
    const auto seen = [&] { return !system_->out.empty() || system_->out_ended; };
    if (!system_->changed.wait_until(lock, until, seen)) return {ReadStatus::kTimeout, partial_};
    if (system_->out.empty()) {
      lock.unlock();
      TakeErrors();
      return {ReadStatus::kEnd, std::exchange(partial_, {})};
    }
    partial_ += std::exchange(system_->out, {});
    system_->changed.notify_all();
  }
}

std::optional<int> ChildProcess::Wait(Clock::time_point until) {
  constexpr milliseconds kLastWords{200};
  if (exit_code_) return exit_code_;
  const bool ended =
      WaitForSingleObject(system_->program.process, Remaining(until)) == WAIT_OBJECT_0;
  if (ended) {
    DWORD code = 0;
    GetExitCodeProcess(system_->program.process, &code);
    exit_code_ = static_cast<int>(code);
    // What it wrote last is still on its way, unless a program of its own holds the pipe.
    std::unique_lock lock(system_->mutex);
    system_->changed.wait_for(lock, kLastWords, [&] { return system_->err_ended; });
  }
  TakeErrors();
  return exit_code_;
}

}  // namespace mpnanny
