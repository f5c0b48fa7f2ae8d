; TF32 for matrix products or convolutions is switched on.
((assignment left: (attribute) @_flag right: (true)) @finding
  (#match? @_flag "^torch.backends.*allow_tf32$"))
((call function: (_) @_function arguments: (argument_list (string) @_level)) @finding
  (#resolves-to? @_function "torch.set_float32_matmul_precision")
  (#any-of? @_level "\"high\"" "'high'" "\"medium\"" "'medium'"))
