// The files that are checked together as modules of one project: what a name means that another
// file defines.
//
// `from .engine import train_one_epoch` in tools/main.py leads to tools/engine.py, also through
// re-exports and star imports; an absolute import to the file whose path ends in it, of several to
// the one nearest to the importing file, and to none if that is not one. `model(x)` leads to the
// forward() of the class that `model` is an instance of. Borrows the files; immutable after
// Link(), then safe from any thread.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_MODULES_H_
#define MPNANNY_ENGINES_CHECK_FACTS_MODULES_H_

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

// One file as the others see it.
struct Module {
  const Syntax* syntax = nullptr;
  const Names* names = nullptr;
  const Bindings* bindings = nullptr;
  std::vector<std::string> path;  // "a/b/c.py" is a, b, c; "a/b/__init__.py" is a, b
  bool is_package = false;        // __init__.py
};

// A function of one of the files.
struct Definition {
  size_t module = 0;
  const Function* function = nullptr;  // null: there is none
};

// A call and the function of the project that it runs.
struct CallEdge {
  NodeId call = kNoNode;
  Definition callee;
};

// A class of one of the files.
struct ClassRef {
  size_t module = 0;
  NodeId klass = kNoNode;  // kNoNode: there is none
};

class Modules {
 public:
  // Adds a file; its number is its place in the order of calls. `path` as in Source.
  size_t Add(std::string_view path, const Syntax& syntax, const Names& names,
             const Bindings& bindings);
  // Call after the last Add(); up to `threads` threads work on it (0: one for each core).
  void Link(unsigned threads);

  const Module& operator[](size_t module) const { return modules_[module]; }
  size_t size() const { return modules_.size(); }

  // The function that a call in `module` runs: a function by name, a method, forward() or
  // __call__() of an instance, __init__() of a class.
  Definition Callee(size_t module, NodeId call) const;
  // All calls of a file that run functions of the project, in order of their nodes.
  const std::vector<CallEdge>& Edges(size_t module) const { return edges_[module]; }
  // The file that an imported name of `module` leads to.
  std::optional<size_t> FileNamed(size_t module, std::string_view qualified) const {
    const Target target = FileOf(module, qualified);
    return target.found ? std::optional(target.module) : std::nullopt;
  }
  // The class that an expression names, and the one that its value is an instance of.
  ClassRef ClassOf(size_t module, NodeId expression) const;
  ClassRef InstanceOf(size_t module, NodeId expression) const;
  // The classes of what its instances keep in attributes.
  std::vector<ClassRef> Held(ClassRef klass) const;
  // The method of a class, also an inherited one.
  Definition Method(ClassRef klass, std::string_view name) const;

 private:
  struct Target {
    size_t module = 0;
    std::string_view rest;  // what is to be looked up in it: "f", "Class", "Class.method"
    bool found = false;
  };
  // The file that the beginning of a qualified name means, as seen from `module`.
  Target FileOf(size_t module, std::string_view qualified) const;
  // The function or class of that name in a file, through its imports.
  struct Meaning {
    Definition function;
    ClassRef klass;
  };
  // How a name was followed so far. Files that star-import one another and classes that name many
  // bases would be gone through again and again.
  struct Trail {
    int hops = 6;               // files that a re-export may still lead through
    std::vector<size_t> stars;  // files whose star imports were gone through
  };
  Meaning Lookup(size_t module, std::string_view qualified, Trail& trail) const;
  Meaning InModule(size_t module, std::string_view name, Trail& trail) const;
  Definition Method(ClassRef klass, std::string_view name, std::vector<ClassRef>& seen) const;
  size_t Nearest(size_t module, const std::vector<size_t>& candidates) const;
  // The class that a value is an instance of by itself; with `names` also through variables and
  // factories, whose own values were found before.
  ClassRef Made(size_t module, NodeId value, bool names) const;
  // What a call calls by name.
  Meaning MeaningOf(size_t module, const Call& call) const;
  Definition FunctionOrMethod(size_t module, const Call& call) const;
  Definition Resolve(size_t module, const Call& call) const;
  void FindInstances(size_t module, bool names);
  void FindEdges(size_t module);
  // An argument that is an instance makes the parameter one. Tells whose parameters.
  std::vector<bool> PassInstances();

  // A variable that holds an instance of a class of the project.
  struct Instance {
    NodeId target = kNoNode;
    ClassRef klass;
  };
  std::vector<Module> modules_;
  std::vector<std::unordered_map<std::string, std::vector<Instance>>> instances_;  // by module, key
  // What the names that are called lead to, by module: its own, and what it imports. Filled by
  // Link() only, each by its own module's turn.
  mutable std::vector<std::array<std::unordered_map<std::string_view, Meaning>, 2>> meanings_;
  bool linking_ = true;
  std::vector<std::vector<CallEdge>> edges_;  // by module
  std::unordered_map<std::string, std::vector<size_t>> by_last_name_;
  std::set<std::string, std::less<>> path_parts_;  // of all files
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_MODULES_H_
