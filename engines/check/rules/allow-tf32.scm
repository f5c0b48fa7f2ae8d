; TF32 for matrix products or convolutions is switched on.
((assignment left: (attribute attribute: (identifier) @_name) @_flag right: (true)) @finding
  (#eq? @_name "allow_tf32")
  (#match? @_flag "^torch.backends.*"))
((call function: (_) @_function arguments: (argument_list (string) @_level)) @finding
  (#resolves-to? @_function "torch.set_float32_matmul_precision")
  (#any-of? @_level "\"high\"" "'high'" "\"medium\"" "'medium'"))
