-- The monitor's database, version 3: what ranks of one training compare when they are read together. A run of one process has no row
-- here. Nothing is sent between ranks for it: each writes figures of its own tensors, and equal tensors have equal figures.
--
-- Rules
--   * As 0002.sql: this file only adds, PRAGMA user_version stays 1, and `meaning` names the version.
CREATE TABLE rank_figures (            -- of compared steps: the first of a run, and those that are sampled
  run_id    INTEGER NOT NULL,
  step      INTEGER NOT NULL,
  layer_id  INTEGER NOT NULL,          -- a parameter or a buffer
  what      INTEGER NOT NULL,          -- 0 parameter before the step's update, 1 buffer then, 2 gradient as this rank derived it,
                                       -- 3 after the step's last backward pass, 4 as it is clipped, 5 as the optimizer gets it; 3 and
                                       -- 5 are left out where the one before has the same hash
  holders   TEXT,                      -- ranks whose tensors should be the same as this one, as the program says (DDP, DTensor):
                                       -- "0-3" or "0,2"; NULL: nothing says so
  first     INTEGER,                   -- place of its first element in the whole tensor that it is a part of; 0: the whole
  numel     INTEGER,
  nonfinite INTEGER,
  hash      INTEGER,                   -- of the bits, 64 of them; numerics/rank_figures.h
  l2        REAL,                      -- over finite elements
  sketch_a  REAL, sketch_b REAL,       -- linear in the elements: that of a sum is the sum of those of its terms
  PRIMARY KEY (run_id, step, layer_id, what)
) STRICT, WITHOUT ROWID;

CREATE TABLE collective (              -- calls of torch.distributed in compared steps, and at any step those that brought NaN or Inf
  run_id    INTEGER NOT NULL,
  step      INTEGER NOT NULL,
  sequence  INTEGER NOT NULL,          -- within the step, from 0
  operation TEXT NOT NULL,             -- all_reduce | all_gather | reduce_scatter | broadcast
  reduction TEXT,                      -- sum | avg | max …; NULL: none
  ranks     TEXT,                      -- of the group, as rank_figures.holders
  source    TEXT,                      -- file:line of the innermost line of the user's code
  phase     TEXT,                      -- forward | backward | optimizer
  layer_id  INTEGER,                   -- the parameter or buffer that is reduced, NULL: another tensor
  gradient  INTEGER,                   -- 1: its gradient
  numel     INTEGER,
  nonfinite_in  INTEGER, nonfinite_out INTEGER,
  hash_in   INTEGER, hash_out  INTEGER,
  l2_in     REAL, l2_out REAL,
  value_in  REAL, value_out REAL,      -- of one number
  kept      REAL,                      -- of a tensor that an earlier call summed in place: how much of that sum it still holds
                                       -- (by least squares; 1: all, 1/ranks: as a fresh one of the same size would)
  PRIMARY KEY (run_id, step, sequence)
) STRICT, WITHOUT ROWID;
