"""Where torch is listened to: functions that are wrapped, hooks on modules and outputs."""
