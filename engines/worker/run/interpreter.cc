#include "engines/worker/run/interpreter.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <utility>

#include "engines/worker/program/allowed.h"

namespace mpnanny::worker {
namespace {

bool IsTrue(const IValue& value) {
  if (value.isTensor()) return value.toTensor().item().toBool();
  if (value.isInt()) return value.toInt() != 0;
  return value.toBool();
}

// Of the object that TorchScript makes of `with torch.autocast(…)`.
Region RegionOf(const IValue& object) {
  Region region;
  const auto& held = object.toObjectRef();
  if (const IValue enabled = held.getAttr("_enabled"); enabled.isBool())
    region.enabled = enabled.toBool();
  if (const IValue device = held.getAttr("device"); device.isString()) {
    region.device = device.toStringRef();
  }
  if (const IValue dtype = held.getAttr("fast_dtype"); dtype.isInt()) {
    region.dtype = static_cast<c10::ScalarType>(dtype.toInt());
  }
  return region;
}

class Walk {
 public:
  Walk(std::vector<Value>& slots, Runner& runner) : slots_(slots), runner_(runner) {}

  void Through(const Block& block) {
    for (const Node& node : block.nodes) {
      Step(node);
      for (const int slot : node.frees) slots_[slot] = {};
    }
  }

 private:
  void Step(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kOperator:
      case Node::Kind::kStructure:
        return Run(node);
      case Node::Kind::kCopy:
        slots_[node.outputs[0]] = slots_[node.inputs[0]];
        return;
      case Node::Kind::kIf:
        return Choose(node);
      case Node::Kind::kLoop:
        return Loop(node);
      case Node::Kind::kEnterRegion:
        runner_.EnterRegion(node.inputs.empty() ? node.region
                                                : RegionOf(slots_[node.inputs[0]].held));
        return;
      case Node::Kind::kLeaveRegion:
        runner_.LeaveRegion();
        return;
      case Node::Kind::kGive:
        runner_.Give(node, slots_);
        return;
    }
  }

  void Run(const Node& node) {
    try {
      runner_.Run(node, slots_);
    } catch (const c10::Error& error) {
      const std::string what = error.what_without_backtrace();
      if (what.find("DefaultCPUAllocator: ") != std::string::npos) throw std::bad_alloc();
      throw StepFailed(node.site, what);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const ModelProblem&) {
      throw;
    } catch (const StepFailed&) {
      throw;
    } catch (const std::exception& error) {
      throw StepFailed(node.site, error.what());
    }
  }

  void Assign(const std::vector<int>& to, const std::vector<int>& from, size_t skipped_to,
              size_t skipped_from) {
    std::vector<Value> values;  // all are read before one is written
    for (size_t at = skipped_from; at < from.size(); ++at) values.push_back(slots_[from[at]]);
    for (size_t at = 0; at < values.size() && at + skipped_to < to.size(); ++at) {
      slots_[to[at + skipped_to]] = std::move(values[at]);
    }
  }

  void Choose(const Node& node) {
    const Block& block = node.blocks[IsTrue(slots_[node.inputs[0]].held) ? 0 : 1];
    Through(block);
    Assign(node.outputs, block.outputs, 0, 0);
  }

  void Loop(const Node& node) {
    const Block& block = node.blocks[0];
    const int64_t most = slots_[node.inputs[0]].held.toInt();
    bool go_on = IsTrue(slots_[node.inputs[1]].held);
    Assign(block.inputs, node.inputs, 1, 2);
    int64_t turn = 0;
    for (; go_on && turn < most; ++turn) {
      slots_[block.inputs[0]] = {IValue(turn), IValue(turn)};
      Through(block);
      go_on = IsTrue(slots_[block.outputs[0]].held);
      Assign(block.inputs, block.outputs, 1, 1);
    }
    Assign(node.outputs, block.inputs, 0, 1);
  }

  std::vector<Value>& slots_;
  Runner& runner_;
};

}  // namespace

Finish Interpret(const Program& program, const Start& start, Runner& runner) {
  std::vector<Value> slots(static_cast<size_t>(program.slots));
  for (const auto& [slot, value] : program.constants) slots[slot] = runner.Begin(value);
  for (size_t at = 0; at < program.states.size(); ++at) {
    slots[program.states[at].slot] = start.states[at];
  }
  for (size_t at = 0; at < program.arguments.size(); ++at) {
    slots[program.arguments[at].slot] = start.inputs[at];
  }
  Walk(slots, runner).Through(program.body);
  Finish finish;
  for (const int slot : program.outputs) finish.outputs.push_back(slots[slot]);
  for (const State& state : program.states) finish.states.push_back(slots[state.slot]);
  return finish;
}

}  // namespace mpnanny::worker
