#include "engines/export/table_rows.h"

#include <string_view>
#include <utility>

#include "base/text.h"

namespace mpnanny::exports {
namespace {

constexpr size_t kMaxLayersRemembered = 100'000;
// A longer name stands in the table `layer` alone: no module has one, and each row would hold it.
constexpr size_t kMaxLayerBytes = 4096;
constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// A file from elsewhere may hold any bytes; Parquet's text is UTF-8.
std::string AsUtf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t from = i;
    if (DecodeUtf8(text, i)) {
      out += text.substr(from, i - from);
    } else {
      out += kReplacement;
    }
  }
  return out;
}

}  // namespace

TableRows::TableRows(const Table& table, const std::vector<Part>& parts, const CancelToken& cancel,
                     std::function<void(int64_t)> told)
    : table_(table), parts_(parts), cancel_(cancel), told_(std::move(told)) {
  columns_ = {{"run", ColumnType::kText}, {"rank", ColumnType::kInteger}};
  for (const Column& column : table.columns) {
    if (column.name == "rank" || column.name == "run") continue;  // stands in front
    const int from = static_cast<int>(places_.size());
    places_.push_back({columns_.size(), from, column.type});
    columns_.push_back(column);
    if (!table.of_layer || column.name != "layer_id") continue;
    layer_id_ = from;
    columns_.push_back({"layer", ColumnType::kText});
  }
}

void TableRows::NoteOfPart(const std::string& what) {
  notes_.push_back(part_->run + ", rank " + std::to_string(part_->rank) + ", " + table_.name +
                   ": " + what);
}

Result<void> TableRows::Open(const Part& part) {
  part_ = &part;
  rows_of_part_ = odd_texts_ = odd_types_ = 0;
  const runs::Database* database = part.database.get();
  if (!database) {
    MPN_TRY_ASSIGN(opened_, runs::Database::Open(part.path, cancel_));
    database = opened_.get();
  }
  // An earlier schema has fewer tables and columns.
  std::string columns;
  bool any = false;
  for (const Place& place : places_) {
    const std::string& name = columns_[place.to].name;
    const bool there = database->HasColumn(table_.name, name);
    any |= there;
    columns += (columns.empty() ? "" : ", ") + (there ? name : "NULL");
  }
  if (!any) return {};
  MPN_TRY_ASSIGN(statement_, database->Prepare("SELECT " + columns + " FROM " + table_.name +
                                               (table_.of_run ? " WHERE run_id=?1" : "")));
  if (table_.of_run) statement_->Bind(1, part.run_id);
  if (layer_id_ >= 0) {
    MPN_TRY_ASSIGN(layer_, database->Prepare("SELECT name FROM layer WHERE layer_id=?1"));
  }
  return {};
}

void TableRows::Close() {
  if (odd_texts_ > 0) {
    NoteOfPart(std::to_string(odd_texts_) + " texts are not UTF-8; what is not stands as U+FFFD.");
  }
  if (odd_types_ > 0) {
    NoteOfPart(std::to_string(odd_types_) +
               " values have another type than their column and are NULL here.");
  }
  layer_.reset();
  statement_.reset();
  opened_.reset();
  layers_.clear();
  part_ = nullptr;
}

void TableRows::PutText(Batch& batch, size_t row, size_t column, const std::string& text) {
  if (IsUtf8(text)) return batch.Put(column, row, text);
  ++odd_texts_;
  batch.Put(column, row, AsUtf8(text));
}

void TableRows::PutLayer(Batch& batch, size_t row, size_t column) {
  const auto id = statement_->Int(layer_id_);
  if (!id) return;
  auto found = layers_.find(*id);
  if (found == layers_.end()) {
    if (layers_.size() >= kMaxLayersRemembered) layers_.clear();
    layer_->Reset();
    layer_->Bind(1, *id);
    const auto next = layer_->Next();
    auto name = next && *next ? layer_->Text(0) : std::nullopt;
    if (name && name->size() > kMaxLayerBytes) name.reset();
    found = layers_.emplace(*id, std::move(name)).first;
  }
  if (found->second) PutText(batch, row, column, *found->second);
}

Result<bool> TableRows::ReadRow(Batch& batch, size_t row) {
  MPN_TRY_ASSIGN(auto any, statement_->Next());
  if (!any) return false;
  batch.Put(0, row, part_->run);
  batch.Put(1, row, part_->rank);
  for (const Place& place : places_) {
    bool put = false;
    if (place.type == ColumnType::kInteger) {
      const auto value = statement_->Int(place.from);
      if ((put = value.has_value())) batch.Put(place.to, row, *value);
    } else if (place.type == ColumnType::kReal) {
      const auto value = statement_->Real(place.from);
      if ((put = value.has_value())) batch.Put(place.to, row, *value);
    } else if (place.type == ColumnType::kText) {
      const auto value = statement_->Text(place.from);
      if ((put = value.has_value())) PutText(batch, row, place.to, *value);
    } else {
      const auto value = statement_->Blob(place.from);
      if ((put = value.has_value())) batch.Put(place.to, row, *value);
    }
    if (!put && !statement_->IsNull(place.from)) ++odd_types_;
    if (place.from == layer_id_) PutLayer(batch, row, place.to + 1);
  }
  return true;
}

Result<size_t> TableRows::Fill(Batch& batch) {
  MPN_TRY(cancel_.Check());
  size_t row = 0;
  while (!batch.Full(row)) {
    if (!statement_) {
      if (next_ == parts_.size()) break;
      const auto opened = Open(parts_[next_++]);
      if (!opened) {
        MPN_TRY(cancel_.Check());
        NoteOfPart("cannot be read: " + opened.error().Text());
      }
      if (!opened || !statement_) {
        Close();
        continue;
      }
    }
    const auto read = ReadRow(batch, row);
    if (read && *read) {
      ++row;
      ++rows_of_part_;
      continue;
    }
    if (!read) {
      MPN_TRY(cancel_.Check());
      NoteOfPart("ends after " + std::to_string(rows_of_part_) + " rows: " + read.error().Text());
    }
    Close();
  }
  rows_ += static_cast<int64_t>(row);
  if (told_) told_(rows_);
  return row;
}

}  // namespace mpnanny::exports
