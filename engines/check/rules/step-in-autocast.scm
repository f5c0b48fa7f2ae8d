; optimizer.step() or scaler.step(optimizer) inside the body of an autocast region.
((call
   function: (attribute object: (_) @_object attribute: (identifier) @_method)) @finding
  (#eq? @_method "step")
  (#match? @_object "optim|scaler|opt$")
  (#not-match? @_object "sched")
  (#in-autocast? @finding))
