#include "monitor/core/run_file.h"

namespace mpnanny {

Result<std::unique_ptr<RunFile>> RunFile::Open(const RecorderOptions& options) {
  Result<LivePlace> place = ChoosePlace(options.path, options.network);
  if (!place) return place.error();
  Result<RunDatabase> database = RunDatabase::Open(place->live);
  if (!database) {
    if (place->published.empty() || !place->fresh) return database.error();
    RemoveLive(*place);  // it was only a copy
    Error error = database.error();
    if (const size_t at = error.message.find(place->live); at != std::string::npos)
      error.message.replace(at, place->live.size(), place->published);
    return error;
  }
  std::string note = place->note;
  std::optional<FlightRecorder> ring;
  if (Result<FlightRecorder> opened = FlightRecorder::Open(place->live)) {
    ring.emplace(*std::move(opened));
    // Rows that cannot be recovered must not stop the new run.
    const Result<int64_t> recovered = database->Recover(ring->Remains());
    if (!recovered) {
      note +=
          "The last run's flight ring could not be brought in and is kept; this run has none: " +
          recovered.error().Text();
      ring.reset();
    }
  } else {
    note += "No flight ring, so the last half second is lost if the process is killed: " +
            opened.error().Text();
  }
  MPN_TRY(database->StartRun(options.run));
  std::unique_ptr<RunFile> file(
      new RunFile(options, place->live, *std::move(database), std::move(ring), std::move(note)));
  if (auto writing = file->writer_.Start(); !writing) {
    (void)file->Close("exception");  // the run's row must not look like one in progress
    return writing.error();
  }
  if (!place->published.empty()) file->Publish(*std::move(place));
  return file;
}

RunFile::RunFile(const RecorderOptions& options, std::string path, RunDatabase database,
                 std::optional<FlightRecorder> ring, std::string note)
    : path_(std::move(path)),
      started_at_(options.run.started_at),
      stamp_(StampOf(path_)),
      run_id_(database.run_id()),
      note_(std::move(note)),
      ring_(std::move(ring)),
      writer_(std::move(database), options.max_bytes) {}

void RunFile::AddLayers(std::vector<LayerRow> layers) {
  const Result<int64_t> offset = writer_.AddLayers(std::move(layers));
  if (offset && ring_) {
    ring_->Start(run_id_, started_at_, *offset);
  } else {
    ring_.reset();
  }
}

void RunFile::Event(std::optional<int64_t> step, std::string type, std::string detail) {
  EventRow row;
  row.step = step;
  row.at = UnixSeconds();
  row.type = std::move(type);
  row.detail = std::move(detail);
  writer_.Put(std::move(row));
}

void RunFile::PutInRing(const StepRow& row) {
  if (ring_) ring_->Write(row);
}

void RunFile::PutInRing(const SampleRow& row) {
  if (ring_) ring_->Write(row);
}

void RunFile::FlushSoon() {
  writer_.FlushSoon();
  if (publisher_) publisher_->PublishSoon();
}

void RunFile::Flush() {
  writer_.Flush();
  if (publisher_) publisher_->PublishSoon();
}

Result<void> RunFile::Close(const std::string& end_reason) {
  if (publisher_) publisher_->Stop();
  Result<void> closed = writer_.Close(UnixSeconds(), end_reason);
  if (ring_) closed ? ring_->MarkClosed() : ring_->MarkUnwritten(Word<EndReason>(end_reason));
  if (IsGone()) {
    return Unavailable(
        path_ +
        ": no longer there: it, or its folder, was deleted or moved while the run was "
        "recorded, and what was recorded went with it.");
  }
  if (!closed && ring_) {
    return Unavailable(closed.error().message +
                       " The last of them stand in the flight recorder beside it (" +
                       RingPath(path_) + "), which mpnanny reads, too.");
  }
  if (closed && publisher_) closed = publisher_->Finish();
  return closed;
}

bool RunFile::IsGone() const {
  const std::optional<FileStamp> now = StampOf(path_);
  return stamp_ && (!now || now->device != stamp_->device || now->inode != stamp_->inode);
}

void RunFile::Publish(LivePlace place) {
  publisher_ = std::make_unique<Publisher>(
      std::move(place), [this] { writer_.Flush(); },
      [this](std::string type, std::string detail) {
        Event(std::nullopt, std::move(type), std::move(detail));
      });
  if (auto started = publisher_->Start(); !started) note_ += " " + started.error().Text();
}

}  // namespace mpnanny
