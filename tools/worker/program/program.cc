#include "tools/worker/program/program.h"

namespace mpnanny::worker {
namespace {

using Slots = std::set<int>;

// A block frees what it has made itself: what comes from outside may be read in the next turn.
void MarkBlock(Block& block, const Slots& kept) {
  Slots made(block.inputs.begin(), block.inputs.end());
  for (const Node& node : block.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  Slots read(block.outputs.begin(), block.outputs.end());
  for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
    for (Block& inner : node->blocks) MarkBlock(inner, kept);
    Slots now;
    AddReads(*node, now);
    now.insert(node->outputs.begin(), node->outputs.end());
    for (const int slot : now) {
      if (!read.insert(slot).second || !made.contains(slot) || kept.contains(slot)) continue;
      node->frees.push_back(slot);
    }
  }
}

}  // namespace

void AddReads(const Node& node, std::set<int>& reads) {
  reads.insert(node.inputs.begin(), node.inputs.end());
  for (const Block& block : node.blocks) {
    for (const Node& inner : block.nodes) AddReads(inner, reads);
    reads.insert(block.outputs.begin(), block.outputs.end());
  }
}

void MarkLastUses(Program& program) {
  Slots kept(program.outputs.begin(), program.outputs.end());
  for (const auto& [slot, value] : program.constants) kept.insert(slot);
  for (const State& state : program.states) kept.insert(state.slot);
  MarkBlock(program.body, kept);
}

}  // namespace mpnanny::worker
