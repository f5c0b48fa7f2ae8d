#include "engines/worker/inputs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "engines/tensors/tensor_file.h"
#include "engines/worker/file_tensors.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;  // of one tensor
constexpr size_t kMostWord = 4000;

using Shape = std::vector<int64_t>;
using Numbers = std::vector<double>;

at::Tensor Normal(const Shape& shape, const at::Generator& draw) {
  return at::randn(shape, draw, at::kDouble);
}
at::Tensor Uniform(const Shape& shape, const at::Generator& draw) {
  return at::rand(shape, draw, at::kDouble);
}
at::Tensor Full(const Shape& shape, double value) { return at::full(shape, value, at::kDouble); }
int64_t CountOf(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) return std::numeric_limits<int64_t>::max();
  }
  return count;
}

at::Tensor EqualRows(const Shape& shape, const at::Generator& draw) {
  const Shape last(shape.empty() ? shape.end() : shape.end() - 1, shape.end());
  return Normal(last, draw).expand(shape).clone();
}

// The largest number of the type, signs alternating.
at::Tensor Largest(const Shape& shape, double most) {
  const at::Tensor at = at::arange(CountOf(shape), at::kDouble);
  return ((1.0 - 2.0 * at.remainder(2)) * most).reshape(shape);
}

// Draws FP64 numbers of a shape; `most`: the largest number of the dtype.
struct Law {
  Numbers defaults;
  at::Tensor (*draw)(const Shape& shape, const at::Generator& draw, const Numbers& n, double most);
};

const std::map<std::string, Law>& Laws() {
  using S = const Shape&;
  using G = const at::Generator&;
  using N = const Numbers&;
  static const std::map<std::string, Law> kLaws = {
      {"normal", {{0, 1}, [](S s, G g, N n, double) { return Normal(s, g) * n[1] + n[0]; }}},
      {"uniform",
       {{0, 1}, [](S s, G g, N n, double) { return Uniform(s, g) * (n[1] - n[0]) + n[0]; }}},
      {"lognormal",
       {{0, 1}, [](S s, G g, N n, double) { return (Normal(s, g) * n[1] + n[0]).exp(); }}},
      {"bernoulli",
       {{0.5}, [](S s, G g, N n, double) { return (Uniform(s, g) < n[0]).to(at::kDouble); }}},
      {"offset", {{1000}, [](S s, G g, N n, double) { return Normal(s, g) + n[0]; }}},
      {"constant", {{0}, [](S s, G, N n, double) { return Full(s, n[0]); }}},
      {"zeros", {{}, [](S s, G, N, double) { return Full(s, 0); }}},
      {"ones", {{}, [](S s, G, N, double) { return Full(s, 1); }}},
      {"masked", {{}, [](S s, G, N, double) { return Full(s, 1); }}},
      {"unmasked", {{}, [](S s, G, N, double) { return Full(s, 0); }}},
      {"arange",
       {{}, [](S s, G, N, double) { return at::arange(CountOf(s), at::kDouble).reshape(s); }}},
      {"equal_rows", {{}, [](S s, G g, N, double) { return EqualRows(s, g); }}},
      {"max", {{}, [](S s, G, N, double most) { return Largest(s, most); }}},
  };
  return kLaws;
}

double LargestOf(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Half:
      return 65504;
    case c10::ScalarType::BFloat16:
      return 0x1.fep127;
    case c10::ScalarType::Float:
      return std::numeric_limits<float>::max();
    case c10::ScalarType::Double:
      return std::numeric_limits<double>::max();
    case c10::ScalarType::Float8_e4m3fn:
      return 448;
    case c10::ScalarType::Float8_e5m2:
      return 57344;
    default:
      return 1;
  }
}

// A word that describes a tensor, in its parts.
struct Described {
  std::string name, shape, below, law, numbers;
  c10::ScalarType type = c10::ScalarType::Float;
};

Numbers NumbersOf(const std::string& text, const std::string& word) {
  Numbers numbers;
  std::istringstream parts(text);
  for (std::string each; std::getline(parts, each, ',');) {
    if (each.find_first_not_of(' ') == std::string::npos) continue;
    try {
      numbers.push_back(std::stod(each));
    } catch (const std::exception&) {
      throw ModelProblem(
          "'" + EscapeControl(each, 60) + "' in the input '" + word + "' is no number.", "");
    }
  }
  return numbers;
}

at::Tensor Draw(const Described& described, const std::string& word, uint64_t seed) {
  Shape shape;
  for (const double each : NumbersOf(described.shape, word))
    shape.push_back(static_cast<int64_t>(each));
  if (CountOf(shape) > kMostElements) {
    throw ModelProblem(
        "The input '" + word + "' has more than " + std::to_string(kMostElements) + " elements.",
        "Take a smaller shape.");
  }
  const at::Generator draw = at::detail::createCPUGenerator(seed);
  if (!described.below.empty()) {
    const double most = NumbersOf(described.below, word).at(0);
    if (most < 1 || most > 0x1p62)
      throw ModelProblem("No integer is below " + described.below + " in '" + word + "'.",
                         "Write '<N' with N >= 1.");
    return at::randint(static_cast<int64_t>(most), shape, draw, at::kLong).to(described.type);
  }
  std::string law = described.law;
  if (law.empty()) {
    law = described.type == c10::ScalarType::Bool ? "bernoulli" : "normal";
    if (!IsFloat(described.type) && described.type != c10::ScalarType::Bool) {
      throw ModelProblem("How are the integers of '" + word + "' drawn?",
                         "For example '" + word + "<10' or '" + word + "~arange'.");
    }
  }
  const auto known = Laws().find(law);
  if (known == Laws().end()) {
    std::vector<std::string> names;
    for (const auto& [name, each] : Laws()) names.push_back(name);
    throw ModelProblem("'" + law + "' in the input '" + word + "' is no way to draw numbers.",
                       "Known are " + Join(names, ", ") + ".");
  }
  Numbers numbers = NumbersOf(described.numbers, word);
  const Numbers& defaults = known->second.defaults;
  if (numbers.size() > defaults.size()) {
    throw ModelProblem("'" + law + "' in the input '" + word + "' takes " +
                           std::to_string(defaults.size()) + " numbers.",
                       "");
  }
  numbers.insert(numbers.end(), defaults.begin() + static_cast<ptrdiff_t>(numbers.size()),
                 defaults.end());
  const at::Tensor values = known->second.draw(shape, draw, numbers, LargestOf(described.type));
  return described.type == c10::ScalarType::Bool ? values != 0 : values.to(described.type);
}

std::optional<Input> PlainNumber(const std::string& word) {
  static const std::regex kNumber(
      R"((?:([A-Za-z_]\w*)=)?([-+]?(?:\d|\.\d|inf|nan)\S*|True|False|None))");
  std::smatch found;
  if (!std::regex_match(word, found, kNumber)) return std::nullopt;
  const std::string text = found[2];
  if (text == "None") return Input{found[1], word, IValue()};
  if (text == "True" || text == "False") return Input{found[1], word, IValue(text == "True")};
  const bool whole =
      text.find_first_not_of("0123456789", text[0] == '-' || text[0] == '+' ? 1 : 0) ==
      std::string::npos;
  try {
    size_t read = 0;
    const IValue value = whole ? IValue(static_cast<int64_t>(std::stoll(text, &read)))
                               : IValue(std::stod(text, &read));
    if (read == text.size()) return Input{found[1], word, value};
  } catch (const std::exception&) {
    // Said below.
  }
  throw ModelProblem("'" + word + "' is no number.", "Write a number such as 8 or 1e-5.");
}

std::optional<Input> DescribedTensor(const std::string& word, uint64_t seed) {
  static const std::regex kWord(
      R"((?:([A-Za-z_]\w*)=)?(\w+)\[([\d,\s]*)\](?:<(\d+)|~(\w+)(?:\(([^()]*)\))?)?)");
  std::smatch found;
  if (!std::regex_match(word, found, kWord)) return std::nullopt;
  const auto type = ScalarTypeByName(found[2].str());
  if (!type)
    throw ModelProblem("'" + found[2].str() + "' in the input '" + word + "' is no dtype.",
                       "For example float32, bfloat16, int64, bool.");
  return Input{found[1], word,
               Draw({found[1], found[3], found[4], found[5], found[6], *type}, word, seed)};
}

std::vector<Input> FromFile(const std::string& word) {
  static const std::regex kNamed(R"(([A-Za-z_]\w*)=(.*))");
  std::smatch found;
  const bool named = std::regex_match(word, found, kNamed);
  const std::string name = named ? found[1].str() : "", rest = named ? found[2].str() : word;
  const std::string file = rest.substr(0, rest.find('#'));
  const std::string key = rest.size() > file.size() ? rest.substr(file.size() + 1) : "";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw ModelProblem("The input '" + EscapeControl(word, 200) +
                           "' is neither a description of a tensor nor a file.",
                       "Write dtype[shape] and how it is drawn, for example "
                       "'float32[8,128]~normal(0,1)', 'int64[8]<1000', or the path of a .pt, "
                       ".npy, .npz or .safetensors file (with '#key' for one tensor of it).");
  }
  const auto opened = tensor_files::TensorFile::Open(
      file, [](const std::string& path) -> Result<std::string> { return path; });
  if (!opened)
    throw ModelProblem(
        "The input file " + EscapeControl(file, 300) + " cannot be read: " + opened.error().Text(),
        "");
  FileTensors tensors;
  std::vector<Input> made;
  std::vector<std::string> known;
  for (const tensor_files::Entry& entry : opened->entries()) {
    known.push_back(entry.key);
    if (!key.empty() && entry.key != key) continue;
    // The only tensor of a file has no name that counts.
    const bool is_only = opened->entries().size() == 1 || !key.empty();
    made.push_back(
        {is_only ? name : entry.key, is_only ? word : word + "#" + entry.key, tensors.Make(entry)});
  }
  if (made.empty())
    throw ModelProblem(EscapeControl(file, 300) + " has no '" + EscapeControl(key, 100) + "'.",
                       "It holds: " + EscapeControl(Join(known, ", "), 500) + ".");
  return made;
}

}  // namespace

std::vector<Input> MakeInputs(const std::vector<std::string>& words, int64_t seed) {
  std::vector<Input> inputs;
  for (size_t at = 0; at < words.size(); ++at) {
    if (words[at].size() > kMostWord)
      throw ModelProblem(
          "An input of " + std::to_string(words[at].size()) + " bytes describes no tensor.", "");
    const size_t begin = words[at].find_first_not_of(" \t"),
                 end = words[at].find_last_not_of(" \t");
    const std::string word =
        begin == std::string::npos ? "" : words[at].substr(begin, end - begin + 1);
    if (auto number = PlainNumber(word)) {
      inputs.push_back(*std::move(number));
    } else if (auto drawn = DescribedTensor(
                   word, static_cast<uint64_t>(seed * 1000 + static_cast<int64_t>(at)))) {
      inputs.push_back(*std::move(drawn));
    } else {
      for (Input& each : FromFile(word)) inputs.push_back(std::move(each));
    }
  }
  return inputs;
}

std::vector<IValue> Bound(const Program& program, const std::vector<Input>& inputs) {
  std::vector<std::string> names;
  for (const Argument& each : program.arguments) names.push_back(each.name);
  const std::string takes = "It takes " + std::to_string(names.size()) + ": " +
                            EscapeControl(Join(names, ", "), 300) + ".";
  std::vector<std::optional<IValue>> given(names.size());
  size_t next = 0;
  for (const Input& each : inputs) {
    size_t at = next;
    if (each.name.empty()) {
      ++next;
    } else {
      at = static_cast<size_t>(std::find(names.begin(), names.end(), each.name) - names.begin());
    }
    if (at >= names.size()) {
      throw ModelProblem(each.name.empty() ? "The model takes fewer inputs than are given."
                                           : "The model takes no '" + each.name + "'.",
                         takes);
    }
    given[at] = each.value;
  }
  std::vector<IValue> values;
  for (size_t at = 0; at < given.size(); ++at) {
    if (!given[at]) given[at] = program.arguments[at].otherwise;
    if (!given[at])
      throw ModelProblem("No input is given for '" + names[at] + "'.",
                         takes + " One `input` for each.");
    values.push_back(*given[at]);
  }
  return values;
}

}  // namespace mpnanny::worker
