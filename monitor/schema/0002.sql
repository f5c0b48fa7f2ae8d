-- The monitor's database, version 2: what shadow steps find. A shadow step is a training step in which every operator runs a second
-- time in FP64 on its operands' own FP64 history (the reference), and the held value is compared with it.
--
-- Rules
--   * 0001.sql and this file make a new database; on a file of version 1 the monitor runs this one when it records a new run into it,
--     in one transaction. Tables and columns of version 1 stay as they are, alert gets one column more, at its end.
--   * PRAGMA user_version stays 1: it names the oldest version whose readers understand the file, and they refuse every other number.
--     What is really there says `meaning` (what = 'schema.version'); a reader asks for the table or the column that it wants. Only a
--     change that a reader of version 1 would misread raises user_version.
--   * As in version 1 a number that is not finite is stored as NULL.
CREATE TABLE shadow_step (             -- one row a shadow step
  run_id        INTEGER NOT NULL,
  step          INTEGER NOT NULL,
  why           TEXT,                  -- first | schedule | error | drift | asked | rerun
  seconds       REAL,                  -- the whole step, with the shadow
  plain_seconds REAL,                  -- median of plain steps so far; NULL: none yet
  operators     INTEGER,               -- operators seen
  compared      INTEGER,               -- results that were compared
  restarted     INTEGER,               -- tensors whose reference had to be taken from the held value
  memory        INTEGER,               -- most bytes that references took
  detail        TEXT,                  -- JSON: {"restarts":{"aten.x":n},"mode":"history|operator","left_out":…}
  PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE shadow_finding (          -- one row for each kind, operator, source line, phase and module
  finding_id INTEGER PRIMARY KEY,
  run_id     INTEGER NOT NULL,
  step       INTEGER NOT NULL,         -- the first
  last_step  INTEGER,
  repeats    INTEGER NOT NULL DEFAULT 1, -- shadow steps in which it was seen
  kind       TEXT NOT NULL,            -- range | undefined | amplified | lost_change | flushed | integers | clipped | diverged
  severity   TEXT NOT NULL,            -- ERROR | WARNING | INFO
  phase      TEXT,                     -- data | forward | loss | backward | optimizer | state
  layer_id   INTEGER,                  -- module of the model, NULL: none
  operator   TEXT NOT NULL,            -- 'aten.sub.Tensor'
  source     TEXT,                     -- file:line of the innermost line of the user's code; backward: of the forward operator
  dtype      TEXT,                     -- 'float16', or inputs and output: 'bfloat16 → float32'
  shape      TEXT,                     -- '[4, 8]'
  share      REAL,                     -- of the elements, 0…1
  magnitude  REAL,                     -- largest finite magnitude in the reference
  error_in   REAL,                     -- relative L2 errors against the reference: of the worst input,
  error_out  REAL,                     -- and of the result
  precision  TEXT NOT NULL,            -- proven (FP32 cures) | excluded (the reference has it too) | not_tested
  reach      TEXT,                     -- JSON array [{"what":"loss|gradient|state|output|index|replaced","name":…,"error":…}]
  cure       TEXT,                     -- JSON {"lines":["file:40",…],"operators":[…],"what":"…","error_before":…,"error_after":…}
  detail     TEXT                      -- JSON, more numbers; of diverged {"growth":…,"at":"file:12","operator":…}
) STRICT;
CREATE INDEX shadow_finding_by_step ON shadow_finding (run_id, step);

CREATE TABLE shadow_profile (          -- layer × error, a shadow step
  run_id    INTEGER NOT NULL,
  step      INTEGER NOT NULL,
  layer_id  INTEGER NOT NULL,
  phase     INTEGER NOT NULL,          -- 0 forward, 1 backward
  dtype     INTEGER,                   -- of the output, as tensor_stats.dtype
  operators INTEGER,
  error     REAL,                      -- relative L2 error of the layer's output against the reference, accumulated
  amplification REAL,                  -- error out / error in
  absmax    REAL, rms REAL,            -- of the reference
  fp16 REAL, bf16 REAL, e4m3 REAL, e5m2 REAL, -- relative L2 error that this layer would make of its reference output in that
                                       -- format; E4M3 and E5M2 with the best power-of-two scale
  fp16_overflow REAL, fp16_underflow REAL,    -- shares of the elements
  PRIMARY KEY (run_id, step, layer_id, phase)
) STRICT, WITHOUT ROWID;

ALTER TABLE alert ADD COLUMN detail TEXT;  -- JSON; of an alert that a finding raised: {"finding":finding_id,"operator":…,
                                           -- "source":…,"precision":…,"cure":…}
