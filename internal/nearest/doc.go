// Package nearest finds the rows of a view whose vectors score best against a query vector.
//
// It is given probes: a scorer, the rows that match as one set for each part, the accuracy wanted
// (Goal), how many rows, and the least score of interest. Search.Run answers all probes in one
// pass. It searches the graph of a part where that costs less than a scan and the Goal allows it.
// Probes share the scan of all other parts: codes, where a part has them, exclude most rows by the
// bounds of their scores, and vectors decide about the remaining rows.
//
// It gives back the best rows of each probe with canonical scores, in order, and a Ledger: whether
// they are exact, which recall is promised, and how many vectors were considered. Explain says how
// a part was searched, and a Trace how long each stage took. Rechecks measures the recall of live
// probes and widens the beam of graphs that miss their promise.
//
// It must never know documents, texts, filters, or the types that users of package db see. It reads
// ids only to order rows with equal scores.
package nearest
