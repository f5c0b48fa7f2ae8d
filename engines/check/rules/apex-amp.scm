; apex.amp's entry point and its FP16 optimizer.
((call function: (_) @_function) @finding
  (#resolves-to? @_function "apex.amp.initialize" "apex.fp16_utils.FP16_Optimizer"))
