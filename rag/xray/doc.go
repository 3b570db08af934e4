// Package xray inspects a collection for problems that spoil retrieval: near-duplicates, equal
// texts, outliers, hubs that are among the neighbours of very many documents, documents that no
// question finds, and vectors of length zero. It also draws a map.
//
//	report, err := xray.Inspect(ctx, notes, xray.Options{Color: "lang"})
//	err = report.WriteHTML(w)
//
// A report costs one pass over the documents and one exact search for each document of a random
// sample; see [Options.Sample]. All statements about a document of the sample are exact with
// respect to the whole collection: its neighbours, its near-duplicates, its distance. A sample
// smaller than the collection leaves documents about which the report says nothing. Memory holds
// the vectors of the sample and a few words per document. Equal seeds give equal reports.
package xray
