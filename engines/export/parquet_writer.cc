#include "engines/export/parquet_writer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"

namespace mpnanny::exports {
namespace {

// Of DuckDB itself, beyond which it writes into the scratch folder. A group of rows of the widest
// table takes a tenth of it.
constexpr char kMemory[] = "512MB";

int NumberOf(ColumnType type) {
  switch (type) {
    case ColumnType::kInteger:
      return DuckdbCalls::kBigint;
    case ColumnType::kReal:
      return DuckdbCalls::kDouble;
    case ColumnType::kText:
      return DuckdbCalls::kVarchar;
    case ColumnType::kBlob:
      return DuckdbCalls::kBlob;
  }
  return DuckdbCalls::kVarchar;
}

// What DuckDB says of a failure, and what can be done.
Error FailureOf(const std::string& said) {
  const auto holds = [&](const char* words) { return said.find(words) != std::string::npos; };
  const std::string shown = EscapeControl(said, 400);
  if (holds("No space left") || holds("Disk quota") || holds("not enough space")) {
    return Unavailable("The disk is full (" + shown + ").",
                       "Name a folder with more room, or fewer tables: --tables.");
  }
  if (holds("Out of Memory")) {
    return Unavailable("DuckDB ran out of memory (" + shown + ").",
                       "Export fewer tables at once: --tables.");
  }
  return Unavailable("DuckDB could not write (" + shown + ").",
                     "Check the rights of the folder, and that DuckDB's version is 1.0 or later.");
}

}  // namespace

std::string SqlText(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

Batch::Batch(const DuckdbCalls& calls, void* chunk, size_t columns)
    : calls_(calls), capacity_(calls.vector_size()) {
  vectors_.reserve(columns);
  for (size_t i = 0; i < columns; ++i) {
    void* const handle = calls.data_chunk_get_vector(chunk, i);
    calls.vector_ensure_validity_writable(handle);
    uint64_t* const validity = calls.vector_get_validity(handle);
    std::fill(validity, validity + (capacity_ + 63) / 64, uint64_t{0});
    vectors_.push_back({calls.vector_get_data(handle), validity, handle});
  }
}

void Batch::Put(size_t column, size_t row, int64_t value) {
  SetKnown(vectors_[column], row);
  static_cast<int64_t*>(vectors_[column].data)[row] = value;
}

void Batch::Put(size_t column, size_t row, double value) {
  SetKnown(vectors_[column], row);
  static_cast<double*>(vectors_[column].data)[row] = value;
}

void Batch::Put(size_t column, size_t row, std::string_view bytes) {
  SetKnown(vectors_[column], row);
  bytes_ += bytes.size();
  calls_.vector_assign_string_element_len(vectors_[column].handle, row,
                                          bytes.data() ? bytes.data() : "", bytes.size());
}

// What one Write() reads from; known to the library by its address.
struct ParquetWriter::Stream {
  const DuckdbCalls& calls;
  const std::vector<Column>& columns;
  RowSource& source;
  std::optional<Error> failed = {};
};

struct ParquetWriter::Session {
  explicit Session(DuckdbCalls library) : calls(std::move(library)) {}
  ~Session() {
    if (connection) calls.disconnect(&connection);
    if (database) calls.close(&database);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  DuckdbCalls calls;
  void* database = nullptr;
  void* connection = nullptr;
  int offered = 0;
};

void ParquetWriter::EndSession::operator()(Session* session) const { delete session; }

namespace {

// By what a callback, which is given nothing but the library's own handle, finds its stream.
std::atomic<void*(*)(void*)> bind_extra_info{nullptr}, function_extra_info{nullptr};

}  // namespace

Result<ParquetWriter> ParquetWriter::Open(DuckdbCalls found, const std::string& scratch) {
  std::unique_ptr<Session, EndSession> session(new Session(std::move(found)));
  const DuckdbCalls& calls = session->calls;
  bind_extra_info = calls.bind_get_extra_info;
  function_extra_info = calls.function_get_extra_info;
  void* config = nullptr;
  if (calls.create_config(&config) != DuckdbCalls::kSuccess) {
    return Internal("DuckDB gives no configuration.");
  }
  // Nothing is fetched from elsewhere. One thread: rows come from one place anyway.
  const std::pair<const char*, std::string> settings[] = {
      {"autoinstall_known_extensions", "false"},
      {"autoload_known_extensions", "false"},
      {"memory_limit", kMemory},
      {"temp_directory", scratch},
      {"threads", "1"},
  };
  for (const auto& [name, value] : settings) calls.set_config(config, name, value.c_str());
  char* said = nullptr;
  const int opened = calls.open_ext(nullptr, &session->database, config, &said);
  calls.destroy_config(&config);
  const std::string why = said ? said : "no reason given";
  if (said) calls.free(said);
  if (opened != DuckdbCalls::kSuccess) return FailureOf(why);
  if (calls.connect(session->database, &session->connection) != DuckdbCalls::kSuccess) {
    return FailureOf("no connection to its own database");
  }
  return ParquetWriter(std::move(session));
}

std::string ParquetWriter::version() const { return session_->calls.library_version(); }

Result<void> ParquetWriter::Execute(const std::string& sql) {
  const DuckdbCalls& calls = session_->calls;
  DuckdbCalls::QueryResult result = {};
  const int code = calls.query(session_->connection, sql.c_str(), &result);
  const char* const said = calls.result_error(&result);
  const std::string why = said ? said : "no reason given";
  calls.destroy_result(&result);
  if (code == DuckdbCalls::kSuccess) return {};
  return FailureOf(why);
}

void ParquetWriter::Bind(void* info) noexcept {
  const auto* const stream = static_cast<const Stream*>(bind_extra_info.load()(info));
  for (const Column& column : stream->columns) {
    void* type = stream->calls.create_logical_type(NumberOf(column.type));
    stream->calls.bind_add_result_column(info, column.name.c_str(), type);
    stream->calls.destroy_logical_type(&type);
  }
}

void ParquetWriter::Next(void* info, void* chunk) noexcept {
  auto* const stream = static_cast<Stream*>(function_extra_info.load()(info));
  Batch batch(stream->calls, chunk, stream->columns.size());
  auto rows = stream->source.Fill(batch);
  if (rows) {
    stream->calls.data_chunk_set_size(chunk, *rows);
    return;
  }
  stream->failed = std::move(rows).error();
  stream->calls.data_chunk_set_size(chunk, 0);
  stream->calls.function_set_error(info, stream->failed->message.c_str());
}

// Makes the stream a function that a statement can read from.
Result<void> ParquetWriter::Offer(const std::string& name, Stream& stream) {
  const DuckdbCalls& calls = session_->calls;
  void* function = calls.create_table_function();
  calls.table_function_set_name(function, name.c_str());
  calls.table_function_set_extra_info(function, &stream, nullptr);
  calls.table_function_set_bind(function, Bind);
  calls.table_function_set_init(function, [](void*) {});
  calls.table_function_set_function(function, Next);
  const int code = calls.register_table_function(session_->connection, function);
  calls.destroy_table_function(&function);
  if (code == DuckdbCalls::kSuccess) return {};
  return FailureOf("it does not take a source of rows");
}

Result<void> ParquetWriter::Write(const std::vector<Column>& columns, RowSource& source,
                                  const std::string& path) {
  Stream stream{session_->calls, columns, source};
  const std::string name = "rows_" + std::to_string(++session_->offered);
  MPN_TRY(Offer(name, stream));
  const auto done = Execute("COPY (SELECT * FROM " + name + "()) TO " + SqlText(path) +
                            " (FORMAT parquet, COMPRESSION zstd)");
  if (stream.failed) return *std::move(stream.failed);
  return done;
}

}  // namespace mpnanny::exports
