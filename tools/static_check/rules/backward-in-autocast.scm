; backward() of a loss inside the body of an autocast region.
((call
   function: (attribute attribute: (identifier) @_method)) @finding
  (#eq? @_method "backward")
  (#in-autocast? @finding))
