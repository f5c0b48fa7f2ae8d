; Anomaly mode is switched on.
((call function: (_) @_function arguments: (argument_list (true))) @finding
  (#resolves-to? @_function "torch.autograd.set_detect_anomaly" "torch.autograd.anomaly_mode.set_detect_anomaly"))
((call function: (_) @_function arguments: (argument_list) @_arguments) @finding
  (#resolves-to? @_function "torch.autograd.detect_anomaly" "torch.autograd.anomaly_mode.detect_anomaly")
  (#not-match? @_arguments "False"))
