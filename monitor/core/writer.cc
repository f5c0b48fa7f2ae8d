#include "monitor/core/writer.h"

#include <chrono>
#include <exception>
#include <utility>

namespace mpnanny {

double SteadySeconds() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Writer::Writer(RunDatabase database, int64_t max_bytes)
    : database_(std::move(database)), thinner_(database_, max_bytes) {}

Result<void> Writer::Start() {
  try {
    thread_ = std::thread([this] {
      // An exception that left the thread would end the training.
      try {
        Run();
      } catch (const std::exception& error) {
        Fail(error.what());
      } catch (...) {
        Fail("unknown");
      }
    });
  } catch (const std::exception& error) {
    return Unavailable(std::string("No thread for the writer: ") + error.what() + ".",
                       "Raise the limit on threads or address space (ulimit -u, ulimit -v).");
  }
  return {};
}

void Writer::Fail(const char* why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    try {
      failure_ = std::string("The writer stopped: ") + why + ".";
    } catch (...) {
      failure_ = "out of memory";  // short: needs none
    }
    for (const Row& row : queue_) CountLost(row);
    queue_.clear();
  }
  written_.notify_all();
}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Writer::Put(Row row) {
  const std::lock_guard lock(mutex_);
  if (stop_ || !failure_.empty()) {
    CountLost(row);
    return;
  }
  bool hurry = false;
  if (std::holds_alternative<SampleRow>(row) || std::holds_alternative<ShadowProfileRow>(row) ||
      std::holds_alternative<RankFigureRow>(row)) {
    if (queued_samples_ >= kMaxSamples || no_room_) {
      ++dropped_;
      return;
    }
    hurry = ++queued_samples_ == kHurrySamples;
  } else if (queue_.size() - queued_samples_ >= kMaxOthers) {
    ++dropped_others_;
    return;
  }
  if (std::holds_alternative<StepRow>(row)) hurry = ++queued_steps_ == kHurrySteps;
  queue_.push_back(std::move(row));
  ++put_;
  if (hurry) {
    hurry_ = true;
    wake_.notify_all();
  }
}

void Writer::Drop(int64_t samples) {
  const std::lock_guard lock(mutex_);
  dropped_ += samples;
}

Result<int64_t> Writer::AddLayers(std::vector<LayerRow> layers) {
  Put(LayersRow{std::move(layers)});
  const bool written = Flush();
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return Unavailable(failure_);
  if (!written) return Unavailable("Another process has locked the file.");
  return database_.layer_offset();  // the thread set it before it reported the batch
}

void Writer::FlushSoon() {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  wake_.notify_all();
}

bool Writer::Flush() {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return false;
  const uint64_t target = put_;
  const auto over = [&] { return done_ >= target || !failure_.empty(); };
  hurry_ = true;
  wake_.notify_all();
  // A slow disk is waited for, however slow; a lock may be held for ever.
  constexpr auto kLook = std::chrono::milliseconds(200);
  const double until = SteadySeconds() + kMostFlushSeconds;
  while (!written_.wait_for(lock, kLook, over)) {
    if (locked_ && SteadySeconds() >= until) break;
  }
  return done_ >= target;
}

void Writer::ReportDropped(std::deque<Row>& batch) {
  const double now = SteadySeconds();
  if (dropped_ + dropped_others_ == dropped_reported_) return;
  if (!stop_ && now - dropped_reported_at_ < kHeartbeatSeconds) return;  // it may go on for long
  dropped_reported_at_ = now;
  const int64_t lost = dropped_ + dropped_others_ - dropped_reported_;
  EventRow event;
  event.at = UnixSeconds();
  event.type = "samples_dropped";
  event.detail = "{\"count\":" + std::to_string(lost);
  if (dropped_others_ > 0) event.detail += ",\"others_so_far\":" + std::to_string(dropped_others_);
  event.detail += "}";
  batch.emplace_back(std::move(event));
  ++put_;
  dropped_reported_ += lost;
}

void Writer::Run() {
  constexpr double kPause = 0.06;  // between slices: a quarter of a core while it lasts
  std::unique_lock lock(mutex_);
  written_at_ = SteadySeconds();
  beaten_at_ = written_at_ - kHeartbeatSeconds;  // the first look shows that the run lives
  while (true) {
    const double pause = !thinner_.active() ? kFlushSeconds : thinner_.urgent() ? 0.001 : kPause;
    wake_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return hurry_ || stop_; });
    const bool last = stop_;
    Result<void> done;
    if (hurry_ || last || SteadySeconds() - written_at_ >= kFlushSeconds) done = WriteQueued(lock);
    if (done && thinner_.active() && !last) done = Thin(lock);
    if (!done) failure_ = done.error().Text();
    if (!failure_.empty()) {
      for (const Row& row : queue_) CountLost(row);
      queue_.clear();
    }
    written_.notify_all();
    if (last || !failure_.empty()) return;
  }
}

Result<void> Writer::WriteQueued(std::unique_lock<std::mutex>& lock) {
  hurry_ = false;
  std::deque<Row> batch;
  batch.swap(queue_);
  queued_samples_ = queued_steps_ = 0;
  ReportDropped(batch);
  const double now = SteadySeconds();
  if (batch.empty() && now - beaten_at_ < kHeartbeatSeconds) {
    written_at_ = now;
    return {};
  }
  lock.unlock();
  Result<void> result = WritePatiently(batch);
  const bool written = bool(result);
  if (written) result = thinner_.Look();
  lock.lock();
  written_at_ = beaten_at_ = SteadySeconds();
  no_room_ = thinner_.full();
  if (written) {
    done_ += batch.size();
  } else {
    for (const Row& row : batch) CountLost(row);
  }
  return result;
}

Result<void> Writer::Thin(std::unique_lock<std::mutex>& lock) {
  constexpr double kSlice = 0.02;
  lock.unlock();
  Result<void> result = thinner_.Slice(kSlice);
  lock.lock();
  if (!result && database_.busy()) return {};  // another process writes: later
  return result;
}

Result<void> Writer::WritePatiently(const std::deque<Row>& batch) {
  while (true) {
    const Result<void> result = Write(batch);
    const std::lock_guard lock(mutex_);
    locked_ = !result && database_.busy();
    if (!locked_ || GivesUp()) return result;
  }
}

bool Writer::GivesUp() const { return stop_ && SteadySeconds() >= give_up_at_; }

void Writer::CountLost(const Row& row) {
  ++(std::holds_alternative<StepRow>(row) ? lost_steps_ : lost_others_);
}

Error Writer::Unwritten() const {
  std::string text = failure_;
  if (lost_steps_ + lost_others_ > 0) {
    text += " The database lacks " + std::to_string(lost_steps_) + " steps and " +
            std::to_string(lost_others_) + " other rows of the run.";
  }
  return Unavailable(text);
}

Result<void> Writer::Write(const std::deque<Row>& batch) {
  return database_.Transaction([&]() -> Result<void> {
    for (const Row& row : batch) {
      Result<void> done = std::visit(
          [&](const auto& each) -> Result<void> {
            using T = std::decay_t<decltype(each)>;
            if constexpr (std::is_same_v<T, PositionRow>) {
              return database_.SetPosition(each.layer, each.position);
            } else if constexpr (std::is_same_v<T, AlertUpdate> ||
                                 std::is_same_v<T, FindingUpdate>) {
              return database_.Update(each.row);
            } else if constexpr (std::is_same_v<T, NotesRow>) {
              return database_.SetNotes(each.json);
            } else if constexpr (std::is_same_v<T, LayersRow>) {
              return database_.Insert(each.rows);
            } else if constexpr (std::is_same_v<T, LayerRow>) {
              return database_.InsertLate(each);
            } else if constexpr (std::is_same_v<T, PrecisionRow>) {
              return database_.SetPrecision(each.precision);
            } else if constexpr (std::is_same_v<T, ParentRow>) {
              return database_.LinkParent(each.first_step);
            } else {
              return database_.Insert(each);
            }
          },
          row);
      if (!done) return done;
    }
    return database_.Heartbeat(UnixSeconds());
  });
}

Result<void> Writer::Close(double at, const std::string& end_reason) {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    give_up_at_ = SteadySeconds() + kMostCloseSeconds;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  written_.notify_all();
  // Where the last rows found no room, the run's end may.
  while (true) {
    const Result<void> ended = database_.End(at, end_reason);
    if (ended || !database_.busy() || GivesUp()) {
      if (!ended && failure_.empty()) failure_ = ended.error().Text();
      break;
    }
  }
  database_.Close(failure_.empty());
  if (!failure_.empty()) return Unwritten();
  return {};
}

std::string Writer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

int64_t Writer::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace mpnanny
