-- Batches that are not sealed are found by their ids, which the head knows of every stream. The index cost a page of the log for
-- each stream of a commit: four fifths of all that was written.

drop index metric_tail_by_stream;
