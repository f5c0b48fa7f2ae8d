// The calls of DuckDB's C library that an export makes, found while the program runs: nothing of
// DuckDB is needed to build mpnanny.
//
// The declarations are those of its stable C API (1.0 and later): every handle is a pointer that
// only the library looks into. A plain value; the library stays until the process ends.
#ifndef MPNANNY_ENGINES_EXPORT_DUCKDB_CALLS_H_
#define MPNANNY_ENGINES_EXPORT_DUCKDB_CALLS_H_

#include <cstdint>
#include <string>

#include "base/result.h"

namespace mpnanny::exports {

struct DuckdbCalls {
  using Handle = void*;
  using Index = uint64_t;
  static constexpr int kSuccess = 0;
  // Numbers of types.
  static constexpr int kBigint = 5, kDouble = 11, kVarchar = 17, kBlob = 18;
  // What a query leaves: only its size matters here, its fields are read by calls.
  struct QueryResult {
    Index columns, rows, changed;
    void *column_data, *error, *internal;
  };

  // `named`: a file, or the folder that it lies in; "" looks in MPNANNY_DUCKDB, then where the
  // system's loader looks, then in ~/.local/share/mpnanny. What is named and does not open is an
  // error, not a reason to look elsewhere. Unavailable: it is not here, and how to get it.
  static Result<DuckdbCalls> Find(const std::string& named);

  std::string from;  // what was opened

  const char* (*library_version)() = nullptr;
  void (*free)(void*) = nullptr;

  int (*create_config)(Handle*) = nullptr;
  int (*set_config)(Handle, const char* name, const char* value) = nullptr;
  void (*destroy_config)(Handle*) = nullptr;
  int (*open_ext)(const char* path, Handle* database, Handle config, char** error) = nullptr;
  void (*close)(Handle*) = nullptr;
  int (*connect)(Handle database, Handle* connection) = nullptr;
  void (*disconnect)(Handle*) = nullptr;

  int (*query)(Handle connection, const char* sql, QueryResult*) = nullptr;
  const char* (*result_error)(QueryResult*) = nullptr;
  void (*destroy_result)(QueryResult*) = nullptr;

  Handle (*create_logical_type)(int type) = nullptr;
  void (*destroy_logical_type)(Handle*) = nullptr;

  Handle (*create_table_function)() = nullptr;
  void (*destroy_table_function)(Handle*) = nullptr;
  void (*table_function_set_name)(Handle, const char*) = nullptr;
  void (*table_function_set_extra_info)(Handle, void*, void (*destroy)(void*)) = nullptr;
  void (*table_function_set_bind)(Handle, void (*)(Handle info)) = nullptr;
  void (*table_function_set_init)(Handle, void (*)(Handle info)) = nullptr;
  void (*table_function_set_function)(Handle, void (*)(Handle info, Handle chunk)) = nullptr;
  int (*register_table_function)(Handle connection, Handle) = nullptr;
  void* (*bind_get_extra_info)(Handle info) = nullptr;
  void (*bind_add_result_column)(Handle info, const char* name, Handle type) = nullptr;
  void* (*function_get_extra_info)(Handle info) = nullptr;
  void (*function_set_error)(Handle info, const char*) = nullptr;

  Index (*vector_size)() = nullptr;
  Handle (*data_chunk_get_vector)(Handle chunk, Index column) = nullptr;
  void (*data_chunk_set_size)(Handle chunk, Index rows) = nullptr;
  void* (*vector_get_data)(Handle) = nullptr;
  uint64_t* (*vector_get_validity)(Handle) = nullptr;
  void (*vector_ensure_validity_writable)(Handle) = nullptr;
  void (*vector_assign_string_element_len)(Handle, Index row, const char*, Index bytes) = nullptr;
};

}  // namespace mpnanny::exports

#endif  // MPNANNY_ENGINES_EXPORT_DUCKDB_CALLS_H_
