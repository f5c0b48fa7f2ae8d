#include "engines/export/duckdb_calls.h"

#include <cstdlib>
#include <filesystem>
#include <type_traits>

#include "base/shared_library.h"
#include "base/text.h"

namespace mpnanny::exports {
namespace fs = std::filesystem;
namespace {

constexpr char kHowToGetIt[] =
    "`npm pack @duckdb/node-bindings-linux-x64` gives an archive that holds package/libduckdb.so, "
    "and DuckDB's own site has it as libduckdb-linux-amd64.zip (other systems: the archive of that "
    "name). Put the file into ~/.local/share/mpnanny, or name it: --duckdb FILE or "
    "MPNANNY_DUCKDB=FILE.";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string FileIn(const std::string& named) {
  std::error_code ec;
  if (!fs::is_directory(named, ec)) return named;
  return (fs::path(named) / SharedLibrary::FileName("duckdb")).generic_string();
}

Result<DuckdbCalls> CallsOf(const SharedLibrary& library) {
  DuckdbCalls calls;
  calls.from = library.name();
  std::string missing;
  const auto find = [&](const char* symbol, auto& call) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(library.Find(symbol));
    if (call == nullptr && missing.empty()) missing = symbol;
  };
  find("duckdb_library_version", calls.library_version);
  find("duckdb_free", calls.free);
  find("duckdb_create_config", calls.create_config);
  find("duckdb_set_config", calls.set_config);
  find("duckdb_destroy_config", calls.destroy_config);
  find("duckdb_open_ext", calls.open_ext);
  find("duckdb_close", calls.close);
  find("duckdb_connect", calls.connect);
  find("duckdb_disconnect", calls.disconnect);
  find("duckdb_query", calls.query);
  find("duckdb_result_error", calls.result_error);
  find("duckdb_destroy_result", calls.destroy_result);
  find("duckdb_create_logical_type", calls.create_logical_type);
  find("duckdb_destroy_logical_type", calls.destroy_logical_type);
  find("duckdb_create_table_function", calls.create_table_function);
  find("duckdb_destroy_table_function", calls.destroy_table_function);
  find("duckdb_table_function_set_name", calls.table_function_set_name);
  find("duckdb_table_function_set_extra_info", calls.table_function_set_extra_info);
  find("duckdb_table_function_set_bind", calls.table_function_set_bind);
  find("duckdb_table_function_set_init", calls.table_function_set_init);
  find("duckdb_table_function_set_function", calls.table_function_set_function);
  find("duckdb_register_table_function", calls.register_table_function);
  find("duckdb_bind_get_extra_info", calls.bind_get_extra_info);
  find("duckdb_bind_add_result_column", calls.bind_add_result_column);
  find("duckdb_function_get_extra_info", calls.function_get_extra_info);
  find("duckdb_function_set_error", calls.function_set_error);
  find("duckdb_vector_size", calls.vector_size);
  find("duckdb_data_chunk_get_vector", calls.data_chunk_get_vector);
  find("duckdb_data_chunk_set_size", calls.data_chunk_set_size);
  find("duckdb_vector_get_data", calls.vector_get_data);
  find("duckdb_vector_get_validity", calls.vector_get_validity);
  find("duckdb_vector_ensure_validity_writable", calls.vector_ensure_validity_writable);
  find("duckdb_vector_assign_string_element_len", calls.vector_assign_string_element_len);
  if (missing.empty()) return calls;
  return Unavailable(EscapeControl(library.name()) + " has no " + missing + ".",
                     "It is not DuckDB's C library, or one older than 1.0.");
}

Result<DuckdbCalls> Open(const std::string& name, const std::string& who) {
  auto library = SharedLibrary::Open(name);
  if (library) return CallsOf(*library);
  return Unavailable("DuckDB's C library, named by " + who +
                         ", cannot be opened: " + EscapeControl(library.error().message) + ".",
                     "Name the file itself, or the folder that it lies in.");
}

}  // namespace

Result<DuckdbCalls> DuckdbCalls::Find(const std::string& named) {
  if (!named.empty()) return Open(FileIn(named), "--duckdb");
  if (const std::string variable = Variable("MPNANNY_DUCKDB"); !variable.empty()) {
    return Open(FileIn(variable), "MPNANNY_DUCKDB");
  }
  const std::string file = SharedLibrary::FileName("duckdb");
  if (const auto library = SharedLibrary::Open(file)) return CallsOf(*library);
  const std::string home = Variable("HOME").empty() ? Variable("USERPROFILE") : Variable("HOME");
  if (!home.empty()) {
    const std::string kept = home + "/.local/share/mpnanny/" + file;
    std::error_code ec;
    if (fs::exists(kept, ec)) return Open(kept, "its place in ~/.local/share/mpnanny");
  }
  return Unavailable("DuckDB's C library (" + file + "), which writes Parquet, is not here.",
                     kHowToGetIt);
}

}  // namespace mpnanny::exports
