#include "engines/tensors/pickle.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "engines/tensors/pickle_code.h"

namespace mpnanny::tensor_files {
namespace {

class Machine {
 public:
  explicit Machine(std::span<const uint8_t> bytes) : code_(bytes) {}

  Result<Pickle> Run() {
    while (!stopped_) {
      if (std::max({program_.nodes.size(), stack_.size(), marks_.size(), memo_.size()}) >=
          kMostPickleNodes) {
        return InvalidInput("pickle: more than " + std::to_string(kMostPickleNodes) + " values.",
                            "Save the tensors alone, as .safetensors.");
      }
      const size_t at = code_.at();
      const auto instruction = static_cast<uint8_t>(code_.Unsigned(1));
      if (!failed()) Step(instruction);
      if (failed()) {
        return DataCorrupt(
            std::string("pickle: ") + code_.fault() + " at byte " + std::to_string(at) + ".",
            "The file is damaged, or no pickle.");
      }
    }
    program_.bytes = code_.at();
    return std::move(program_);
  }

 private:
  bool failed() const { return code_.fault() != nullptr; }
  void Fail(const char* what) { code_.Fail(what); }

  // --- nodes and stack ---
  Node& New(Node::Kind kind) {
    Node& node = program_.nodes.emplace_back();
    node.kind = kind;
    stack_.push_back(static_cast<NodeId>(program_.nodes.size() - 1));
    return node;
  }
  void Integer(int64_t value) { New(Node::kInteger).integer = value; }
  void Bool(bool value) { New(Node::kBool).integer = value ? 1 : 0; }
  void Text(std::string_view text) { New(Node::kText).text = text; }
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  NodeId Pop() {
    if (stack_.size() <= Floor()) {
      Fail("the stack is empty");
      return kNoNode;
    }
    const NodeId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Node* Top() {
    if (stack_.size() <= Floor()) {
      Fail("the stack is empty");
      return nullptr;
    }
    return &program_.nodes[stack_.back()];
  }
  std::vector<NodeId> PopMark() {
    if (marks_.empty()) {
      Fail("there is no mark");
      return {};
    }
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<NodeId> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  void Collect(Node::Kind kind, std::vector<NodeId> items) {
    if (failed()) return;
    (kind == Node::kDict ? New(kind).pairs : New(kind).items) = std::move(items);
  }
  void Last(Node::Kind kind, int count) {
    std::vector<NodeId> items(static_cast<size_t>(count));
    for (size_t i = items.size(); i-- > 0;) items[i] = Pop();
    Collect(kind, std::move(items));
  }
  void Object(NodeId callable, NodeId arguments) { Collect(Node::kObject, {callable, arguments}); }
  void Append(std::vector<NodeId> more) {
    Node* const node = Top();
    if (node == nullptr || failed()) return;
    if (node->kind != Node::kList && node->kind != Node::kSet && node->kind != Node::kObject)
      return Fail("what is appended to is no list");
    // Of an object: elements of a subclass of list. They are after callable and arguments.
    node->items.insert(node->items.end(), more.begin(), more.end());
  }
  void SetItems(const std::vector<NodeId>& more) {
    Node* const node = Top();
    if (node == nullptr || failed()) return;
    if (node->kind != Node::kDict && node->kind != Node::kObject)
      return Fail("what gets keys is no dict");
    if (more.size() % 2 != 0) return Fail("a key has no value");
    node->pairs.insert(node->pairs.end(), more.begin(), more.end());
  }
  void Put(uint64_t index) {
    if (Top() != nullptr) memo_[index] = stack_.back();
  }
  void Get(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Fail("nothing was stored under this number");
    stack_.push_back(found->second);
  }
  void Global(std::string_view module, std::string_view name) {
    if (failed()) return;
    if (module.size() > kMostGlobalBytes || name.size() > kMostGlobalBytes)
      return Fail("the name of a class is too long");
    Node& node = New(Node::kGlobal);
    node.text = module;
    node.name = name;
  }

  void Long(PickleInteger number) {
    Node& node = New(Node::kInteger);
    node.wide = number.wide;
    node.integer = number.value;
  }
  void DecimalLine() {
    const std::string_view line = code_.Line();
    if (line == "00" || line == "01") return Bool(line == "01");
    Long(DecimalInteger(line, code_));
  }

  void Step(uint8_t code) {
    if (Literal(code) || Container(code) || Memo(code)) return;
    switch (code) {
      case 0x80:  // PROTO
        if (code_.Unsigned(1) > 5) Fail("a protocol that is not known");
        return;
      case 0x95:  // FRAME
        code_.Take(8);
        return;
      case '.':
        program_.root = Pop();
        stopped_ = true;
        return;
      case 'c': {
        const std::string_view module = code_.Line();
        return Global(module, code_.Line());
      }
      case 0x93: {  // STACK_GLOBAL
        const NodeId name = Pop();
        const NodeId module = Pop();
        if (failed()) return;
        return Global(program_[module].text, program_[name].text);
      }
      case 'R':     // REDUCE
      case 0x81: {  // NEWOBJ
        const NodeId arguments = Pop();
        const NodeId callable = Pop();
        return Object(callable, arguments);
      }
      case 0x92: {  // NEWOBJ_EX: keyword arguments are of no interest
        Pop();
        const NodeId arguments = Pop();
        const NodeId callable = Pop();
        return Object(callable, arguments);
      }
      case 'b': {  // BUILD
        const NodeId state = Pop();
        if (Node* const node = Top(); node != nullptr && !failed()) node->state = state;
        return;
      }
      case 'i': {  // INST
        const std::string_view module = code_.Line();
        const std::string_view name = code_.Line();
        return Instance(module, name, PopMark());
      }
      case 'o': {  // OBJ
        std::vector<NodeId> items = PopMark();
        if (items.empty()) return Fail("nothing to call");
        const NodeId callable = items.front();
        items.erase(items.begin());
        Collect(Node::kTuple, std::move(items));
        return Object(callable, Pop());
      }
      case 'Q':
        return Last(Node::kPersistent, 1);
      case 'P': {
        Text(code_.Line());
        return Last(Node::kPersistent, 1);
      }
      default:
        Fail("an instruction that is not known");
    }
  }

  void Instance(std::string_view module, std::string_view name, std::vector<NodeId> items) {
    Collect(Node::kTuple, std::move(items));
    Global(module, name);
    const NodeId callable = Pop();
    const NodeId arguments = Pop();
    Object(callable, arguments);
  }

  // Pushes a value that stands in the code; false for another instruction.
  bool Literal(uint8_t code) {
    switch (code) {
      case 'N':
        New(Node::kNone);
        return true;
      case 0x88:
      case 0x89:
        Bool(code == 0x88);
        return true;
      case 'J':
        Integer(static_cast<int32_t>(code_.Unsigned(4)));
        return true;
      case 'K':
        Integer(static_cast<int64_t>(code_.Unsigned(1)));
        return true;
      case 'M':
        Integer(static_cast<int64_t>(code_.Unsigned(2)));
        return true;
      case 'I':
      case 'L':
        DecimalLine();
        return true;
      case 0x8a:  // LONG1
      case 0x8b:  // LONG4
        Long(BinaryInteger(code_.Counted(code == 0x8a ? 1 : 4)));
        return true;
      case 'G':
        New(Node::kReal).real = code_.BinaryReal();
        return true;
      case 'F':
        New(Node::kReal).real = code_.DecimalReal();
        return true;
      case 'S':
        Text(code_.Quoted());
        return true;
      case 'V':
        Text(code_.Line());
        return true;
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':
      case 'C':
        Text(code_.Counted(1));
        return true;
      case 'X':
      case 'T':
      case 'B':
        Text(code_.Counted(4));
        return true;
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        Text(code_.Counted(8));
        return true;
      default:
        return false;
    }
  }

  bool Container(uint8_t code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ')':
        New(Node::kTuple);
        return true;
      case ']':
        New(Node::kList);
        return true;
      case '}':
        New(Node::kDict);
        return true;
      case 0x8f:
        New(Node::kSet);
        return true;
      case 't':
        Collect(Node::kTuple, PopMark());
        return true;
      case 'l':
        Collect(Node::kList, PopMark());
        return true;
      case 0x91:  // FROZENSET
        Collect(Node::kSet, PopMark());
        return true;
      case 'd': {
        std::vector<NodeId> items = PopMark();
        if (items.size() % 2 != 0) Fail("a key has no value");
        Collect(Node::kDict, std::move(items));
        return true;
      }
      case 0x85:
      case 0x86:
      case 0x87:
        Last(Node::kTuple, code - 0x84);
        return true;
      case 'a':
        Append({Pop()});
        return true;
      case 'e':
      case 0x90:  // ADDITEMS
        Append(PopMark());
        return true;
      case 's': {
        const NodeId value = Pop();
        const NodeId key = Pop();
        SetItems({key, value});
        return true;
      }
      case 'u':
        SetItems(PopMark());
        return true;
      default:
        return false;
    }
  }

  bool Memo(uint8_t code) {
    switch (code) {
      case '0':
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();  // a mark is popped like a value
        } else {
          Pop();
        }
        return true;
      case '1':
        PopMark();
        return true;
      case '2':
        if (Top() != nullptr) stack_.push_back(stack_.back());
        return true;
      case 'q':
        Put(code_.Unsigned(1));
        return true;
      case 'r':
        Put(code_.Unsigned(4));
        return true;
      case 'p':
        Put(code_.DecimalIndex());
        return true;
      case 0x94:  // MEMOIZE
        Put(memo_.size());
        return true;
      case 'h':
        Get(code_.Unsigned(1));
        return true;
      case 'j':
        Get(code_.Unsigned(4));
        return true;
      case 'g':
        Get(code_.DecimalIndex());
        return true;
      default:
        return false;
    }
  }

  PickleCode code_;
  Pickle program_;
  std::vector<NodeId> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, NodeId> memo_;
  bool stopped_ = false;
};

}  // namespace

Result<Pickle> ReadPickle(std::span<const uint8_t> bytes) {
  if (bytes.size() > kMostPickleBytes) {
    return InvalidInput("pickle: " + std::to_string(bytes.size()) + " bytes of it; the limit is " +
                            std::to_string(kMostPickleBytes) + ".",
                        "Save the tensors alone, as .safetensors.");
  }
  return Machine(bytes).Run();
}

}  // namespace mpnanny::tensor_files
