#include "engines/worker/program/program.h"

#include <unordered_map>

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

// By slot: the line and module of a node that reads it.
using Readers = std::unordered_map<int, Site>;

void FillBlock(Block& block, Readers& readers) {
  const auto pass_on = [&](int to, int from) {
    if (const auto reader = readers.find(from); reader != readers.end())
      readers[to] = reader->second;
  };
  for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
    if (node->kind == Node::Kind::kCopy) pass_on(node->inputs[0], node->outputs[0]);
    for (Block& inner : node->blocks) {
      const size_t skipped = node->kind == Node::Kind::kLoop ? 1 : 0;  // whether it goes on
      for (size_t at = 0; at < node->outputs.size() && at + skipped < inner.outputs.size(); ++at) {
        pass_on(inner.outputs[at + skipped], node->outputs[at]);
      }
      FillBlock(inner, readers);
    }
    Site& site = node->site;
    for (const int slot : node->outputs) {
      const auto reader = readers.find(slot);
      if (site.has_users_line || reader == readers.end() || reader->second.module != site.module)
        continue;
      site.source = reader->second.source;
      site.has_users_line = true;
    }
    if (!site.has_users_line) continue;
    for (const int slot : node->inputs) readers[slot] = site;
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

void FillLines(Program& program) {
  Readers readers;
  FillBlock(program.body, readers);
}

void MarkLastUses(Program& program) {
  Slots kept(program.outputs.begin(), program.outputs.end());
  for (const auto& [slot, value] : program.constants) kept.insert(slot);
  for (const State& state : program.states) kept.insert(state.slot);
  MarkBlock(program.body, kept);
}

}  // namespace mpnanny::worker
