#include "tests/tensor_files/build_files.h"

#include <zlib.h>

namespace mpnanny::tensor_files {

std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

std::string Safetensors(const std::string& header, const std::string& data) {
  return Little(header.size(), 8) + header + data;
}

std::string Npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + Little(header.size(), 2) + header + data;
}

std::string Zip(const std::vector<Member>& members) {
  std::string file, directory;
  for (const Member& member : members) {
    const std::string& local = member.local_name.empty() ? member.name : member.local_name;
    const uint64_t offset = member.offset < 0 ? file.size() : static_cast<uint64_t>(member.offset);
    const uint64_t size =
        member.size < 0 ? member.bytes.size() : static_cast<uint64_t>(member.size);
    const std::string common = Little(20, 2) + Little(member.flags, 2) + Little(member.method, 2) +
                               Little(0, 8) + Little(member.bytes.size(), 4) + Little(size, 4);
    file += "PK\x03\x04" + common + Little(local.size(), 2) + Little(0, 2) + local + member.bytes;
    directory += "PK\x01\x02" + Little(20, 2) + common + Little(member.name.size(), 2) +
                 Little(member.extra.size(), 2) + Little(0, 10) + Little(offset, 4) + member.name +
                 member.extra;
  }
  return file + directory + "PK\x05\x06" + Little(0, 4) + Little(members.size(), 2) +
         Little(members.size(), 2) + Little(directory.size(), 4) + Little(file.size(), 4) +
         Little(0, 2);
}

std::string Deflate(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string TorchZip(const std::string& pickle, const std::vector<Member>& storages) {
  std::vector<Member> members = {{"archive/data.pkl", "\x80\x02" + pickle + "."},
                                 {"archive/byteorder", "little"}};
  for (Member member : storages) {
    member.name = "archive/data/" + member.name;
    members.push_back(member);
  }
  return Zip(members);
}

namespace op {

std::string Int(int64_t value) { return "\x8a\x08" + Little(static_cast<uint64_t>(value), 8); }
std::string Text(std::string_view text) { return "X" + Little(text.size(), 4) + std::string(text); }

std::string Tuple(const std::vector<std::string>& items) {
  std::string code = "(";
  for (const std::string& item : items) code += item;
  return code + "t";
}

std::string Dict(const std::vector<std::string>& keys_and_values) {
  std::string code = "}(";
  for (const std::string& item : keys_and_values) code += item;
  return code + "u";
}

std::string Global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string Storage(std::string_view type, std::string_view key, int64_t elements) {
  return Tuple({Text("storage"), Global("torch", type), Text(key), Text("cpu"), Int(elements)}) +
         "Q";
}

std::string Tensor(const std::string& storage, int64_t first, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides) {
  std::vector<std::string> sizes, steps;
  for (const int64_t size : shape) sizes.push_back(Int(size));
  for (const int64_t stride : strides) steps.push_back(Int(stride));
  return Global("torch._utils", "_rebuild_tensor_v2") +
         Tuple({storage, Int(first), Tuple(sizes), Tuple(steps), "\x89",
                Global("collections", "OrderedDict") + ")R"}) +
         "R";
}

}  // namespace op

std::string ErrorOf(const std::string& file) {
  const auto contents = ReadContents(Bytes(file));
  return contents ? "" : contents.error().message;
}

std::string ProblemOf(const std::string& file) {
  const auto contents = ReadContents(Bytes(file));
  if (!contents) return contents.error().message;
  return contents->entries.size() == 1 ? contents->entries[0].problem : "not one entry";
}

}  // namespace mpnanny::tensor_files
